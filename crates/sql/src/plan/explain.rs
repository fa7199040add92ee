//! A plan as lines, for EXPLAIN.

use super::{HashKind, Node, Path, PlannedStatement};
use crate::bind::BoundStatement;
use crate::bind::tree::{Body, Change, Expr, From, Query};

/// A line of a plan.
pub(crate) struct Line {
    /// How far below the first.
    pub(crate) depth: usize,
    /// What is done.
    pub(crate) text: String,
    /// The address of the node that does it.
    pub(crate) node: Option<usize>,
}

impl Line {
    /// As EXPLAIN shows it.
    pub(crate) fn shown(&self) -> String {
        match self.depth {
            0 => self.text.clone(),
            depth => format!("{}  ->  {}", "      ".repeat(depth - 1), self.text),
        }
    }
}

impl PlannedStatement {
    /// What it does, line by line.
    pub(crate) fn explain(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        match &self.statement {
            BoundStatement::Query(query) => show_query(query, 0, &mut lines),
            BoundStatement::Change(change) => {
                let (verb, from, source) = match change {
                    Change::Insert(insert) => ("Insert", None, insert.source.as_ref()),
                    Change::Update(update) => ("Update", Some(&update.from), None),
                    Change::Delete(delete) => ("Delete", Some(&delete.from), None),
                    Change::Merge(merge) => ("Merge", Some(&merge.from), None),
                };
                push(0, format!("{verb} on {}", change.target().table.name), &mut lines);
                if let Some(From::Planned(node)) = from {
                    show_node(node, 1, &mut lines);
                }
                if let Some(query) = source {
                    show_query(query, 1, &mut lines);
                }
            }
        }
        lines
    }
}

fn push(depth: usize, text: String, lines: &mut Vec<Line>) {
    lines.push(Line { depth, text, node: None });
}

fn show_query(query: &Query, depth: usize, lines: &mut Vec<Line>) {
    let mut depth = depth;
    if query.limit.is_some() || query.offset.is_some() {
        push(depth, "Limit".to_string(), lines);
        depth += 1;
    }
    if !query.order.is_empty() {
        push(depth, "Sort".to_string(), lines);
        depth += 1;
    }
    match &query.body {
        Body::Select(select) => {
            if !select.windows.is_empty() {
                push(depth, "WindowAgg".to_string(), lines);
                depth += 1;
            }
            if let Some(group) = &select.group {
                let name = if group.keys.is_empty() { "Aggregate" } else { "HashAggregate" };
                push(depth, name.to_string(), lines);
                depth += 1;
            }
            if let From::Planned(node) = &select.from {
                show_node(node, depth, lines);
            }
        }
        Body::Values(rows) => push(depth, format!("Values Scan ({} rows)", rows.len()), lines),
        Body::Set { kind, left, right, .. } => {
            push(depth, format!("{kind:?}"), lines);
            show_query(left, depth + 1, lines);
            show_query(right, depth + 1, lines);
        }
    }
}

fn show_node(node: &Node, depth: usize, lines: &mut Vec<Line>) {
    let own = lines.len();
    show_parts(node, depth, lines);
    lines[own].node = Some(std::ptr::from_ref(node).addr());
}

fn show_parts(node: &Node, depth: usize, lines: &mut Vec<Line>) {
    match node {
        Node::One => push(depth, "Result".to_string(), lines),
        Node::Scan(scan) => {
            let text = show_path(&scan.path, &scan.table.name);
            push(depth, text, lines);
        }
        Node::System { .. } => push(depth, "Catalog Scan".to_string(), lines),
        Node::Query { query, .. } => {
            push(depth, "Subquery Scan".to_string(), lines);
            show_query(query, depth + 1, lines);
        }
        Node::Cte { .. } => push(depth, "CTE Scan".to_string(), lines),
        Node::Functions { .. } => push(depth, "Function Scan".to_string(), lines),
        Node::Loop { outer, inner, left, .. } => {
            push(depth, if *left { "Nested Loop Left Join" } else { "Nested Loop" }.to_string(), lines);
            show_node(outer, depth + 1, lines);
            show_node(inner, depth + 1, lines);
        }
        Node::Hash(join) => {
            let kind = match join.kind {
                HashKind::Inner => "Hash Join",
                HashKind::Left => "Hash Left Join",
                HashKind::Full => "Hash Full Join",
            };
            push(depth, kind.to_string(), lines);
            show_node(&join.outer, depth + 1, lines);
            show_node(&join.inner, depth + 1, lines);
        }
        Node::Filter { node, .. } => {
            push(depth, "Filter".to_string(), lines);
            show_node(node, depth + 1, lines);
        }
    }
}

fn show_path(path: &Path, table: &str) -> String {
    match path {
        Path::Full => format!("Seq Scan on {table}"),
        Path::Index { index, equal, low, high, reverse } => {
            let ranges = usize::from(low.is_some()) + usize::from(high.is_some());
            let back = if *reverse { " Backward" } else { "" };
            let (name, equal) = (&index.name, equal.len());
            format!("Index Scan{back} using {name} on {table} ({equal} equal, {ranges} bounds)")
        }
        Path::Points { index, keys } => {
            format!("Index Lookups using {} on {table} ({} keys)", index.name, keys.len())
        }
        Path::Elements { index, array, .. } => {
            let of = if matches!(array, Expr::Subquery(_)) { "subquery" } else { "array" };
            format!("Index Lookups using {} on {table} ({of})", index.name)
        }
        Path::Any(paths) => {
            let ways: Vec<String> = paths.iter().map(|path| show_path(path, table)).collect();
            format!("Any of: {}", ways.join(", "))
        }
    }
}
