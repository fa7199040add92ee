//! How much a planned query reads: single rows by their keys, or more.

use super::{Node, Path};
use crate::storage::private::is_private;
use crate::tree::{Body, Cte, CteKind, From, Query};

/// Rows by their keys that count as a few.
const FEW: usize = 16;

/// Whether a planned query reads more than a few rows by their keys, queries within its expressions aside.
pub(super) fn reads_many(query: &Query) -> bool {
    let of_cte = |cte: &Cte| match &cte.kind {
        CteKind::Query(query) => reads_many(query),
        CteKind::Recursive { .. } | CteKind::Change(_) => true,
    };
    query.ctes.iter().any(of_cte)
        || match &query.body {
            Body::Select(select) => match &select.from {
                From::Planned(node) => node_reads_many(node),
                _ => true,
            },
            Body::Values(_) => false,
            Body::Set { left, right, .. } => reads_many(left) || reads_many(right),
        }
}

fn node_reads_many(node: &Node) -> bool {
    match node {
        Node::One | Node::System { .. } | Node::Cte { .. } | Node::Functions { .. } => false,
        Node::Scan(scan) => !is_private(scan.table.oid) && !is_lookup(&scan.path),
        Node::Query { query, .. } => reads_many(query),
        Node::Loop { outer, inner, .. } => node_reads_many(outer) || node_reads_many(inner),
        Node::Hash(join) => node_reads_many(&join.outer) || node_reads_many(&join.inner),
        Node::Keyed(_) => true,
        Node::Filter { node, .. } => node_reads_many(node),
    }
}

fn is_lookup(path: &Path) -> bool {
    match path {
        Path::Index { index, equal, .. } => index.unique && equal.len() == index.columns.len(),
        Path::Points { index, keys } => {
            index.unique && keys.len() <= FEW && keys.iter().all(|key| key.len() == index.columns.len())
        }
        Path::Full | Path::Elements { .. } | Path::Any(_) => false,
    }
}
