//! How much a planned statement reads: more than single rows by their keys, so that it is worth while to ask
//! what it costs; more than one row, so that all of them have to be as of one moment.

use super::Node;
use crate::storage::private::is_private;
use crate::tree::{Body, BoundStatement, Change, Cte, CteKind, From, Query};

/// Whether it does, queries within its expressions aside.
pub(super) fn reads_more_than_keys(query: &Query) -> bool {
    let of_cte = |cte: &Cte| match &cte.kind {
        CteKind::Query(query) => reads_more_than_keys(query),
        CteKind::Recursive { .. } | CteKind::Change(_) => true,
    };
    query.ctes.iter().any(of_cte)
        || match &query.body {
            Body::Select(select) => match &select.from {
                From::Planned(node) => node_reads_more(node),
                _ => true,
            },
            Body::Values(_) => false,
            Body::Set { left, right, .. } => reads_more_than_keys(left) || reads_more_than_keys(right),
        }
}

fn node_reads_more(node: &Node) -> bool {
    match node {
        Node::One | Node::System { .. } | Node::Cte { .. } | Node::Functions { .. } => false,
        Node::Scan(scan) => !is_private(scan.table.oid) && !scan.path.finds_one(),
        Node::Query { query, .. } => reads_more_than_keys(query),
        Node::Loop { outer, inner, .. } => node_reads_more(outer) || node_reads_more(inner),
        Node::Hash(join) => node_reads_more(&join.outer) || node_reads_more(&join.inner),
        Node::Keyed(_) => true,
        Node::Filter { node, .. } => node_reads_more(node),
    }
}

/// Whether it looks at more than one row of a table by its whole key, queries within its expressions aside.
pub(super) fn reads_several(statement: &BoundStatement) -> bool {
    match statement {
        BoundStatement::Query(query) => query_reads_several(query),
        BoundStatement::Change(Change::Insert(insert)) => {
            let reads = insert.source.as_ref().is_some_and(query_reads_several);
            reads || !insert.ctes.is_empty()
        }
        BoundStatement::Change(Change::Update(update)) => {
            !update.ctes.is_empty() || from_reads_several(&update.from)
        }
        BoundStatement::Change(Change::Delete(delete)) => {
            !delete.ctes.is_empty() || from_reads_several(&delete.from)
        }
        BoundStatement::Change(Change::Merge(_)) => true,
    }
}

fn query_reads_several(query: &Query) -> bool {
    let body = match &query.body {
        Body::Select(select) => from_reads_several(&select.from),
        Body::Values(_) => false,
        Body::Set { .. } => true,
    };
    body || !query.ctes.is_empty()
}

fn from_reads_several(from: &From) -> bool {
    let From::Planned(node) = from else { return true };
    let mut node = &**node;
    while let Node::Filter { node: below, .. } = node {
        node = below;
    }
    match node {
        Node::One | Node::System { .. } | Node::Functions { .. } => false,
        Node::Scan(scan) => !scan.path.finds_one(),
        _ => true,
    }
}
