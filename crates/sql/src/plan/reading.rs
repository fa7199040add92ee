//! Whether a planned query reads more than single rows by their keys, so that it is worth while to ask what
//! it costs.

use super::Node;
use crate::storage::private::is_private;
use crate::tree::{Body, Cte, CteKind, From, Query};

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
