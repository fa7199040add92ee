//! How rows are found: what planning makes of a level's FROM. Here, since an expression may have a query in
//! it that is planned, and a plan has expressions.

use std::sync::Arc;

use super::walk::{Visit, walk_list};
use super::{Expr, Memo, Query, SetCall};
use crate::catalog::object::{Index, Table};
use crate::parse::ast::{LockStrength, LockWait};
use crate::types::Oid;

/// What a part of a plan gives and costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) rows: f64,
    /// Bytes of a row.
    pub(crate) width: f64,
    /// Until its first row.
    pub(crate) startup: f64,
    pub(crate) total: f64,
}

/// How the rows of a level's FROM are found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    One,
    Scan(Box<Scan>),
    System {
        table: Oid,
        at: usize,
        width: usize,
        filter: Option<Expr>,
        /// A column with one value, which leads to the rows.
        key: Option<(usize, Expr)>,
    },
    Query {
        query: Box<Query>,
        lateral: bool,
        at: usize,
        width: usize,
        filter: Option<Expr>,
        cache: Option<usize>,
        /// It looks at rows around it.
        memo: Option<Memo>,
    },
    Cte {
        id: usize,
        at: usize,
        width: usize,
        filter: Option<Expr>,
    },
    Functions {
        calls: Vec<SetCall>,
        ordinality: bool,
        at: usize,
        width: usize,
        filter: Option<Expr>,
    },
    /// For each row of `outer` the rows of `inner`; with `left`, NULLs where there are none.
    Loop {
        outer: Box<Node>,
        inner: Box<Node>,
        on: Option<Expr>,
        left: bool,
        inner_slots: Vec<(usize, usize)>,
    },
    Hash(Box<HashJoin>),
    Keyed(Box<Keyed>),
    Filter {
        node: Box<Node>,
        filter: Expr,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scan {
    pub(crate) table: Arc<Table>,
    pub(crate) at: usize,
    pub(crate) path: Path,
    pub(crate) filter: Option<Expr>,
    pub(crate) lock: Option<(LockStrength, LockWait)>,
    /// The columns that somebody looks at; `None`: all.
    pub(crate) columns: Option<Arc<[bool]>>,
    /// The rows' names are wanted (UPDATE, DELETE, locks that are taken late).
    pub(crate) target: bool,
}

impl Scan {
    /// Whether it looks only at rows that nobody else is changing.
    pub(crate) fn skips(&self) -> bool {
        matches!(self.lock, Some((_, LockWait::Skip)))
    }
}

/// An expression that narrows a column of an index, and its type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KeyPart {
    pub(crate) expr: Expr,
    pub(crate) source: Oid,
    pub(crate) column: Oid,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Path {
    Full,
    Index {
        index: Arc<Index>,
        equal: Vec<KeyPart>,
        low: Option<(KeyPart, bool)>,
        high: Option<(KeyPart, bool)>,
        reverse: bool,
    },
    /// Several lookups: each a list of equal values.
    Points {
        index: Arc<Index>,
        keys: Vec<Vec<KeyPart>>,
    },
    /// A lookup for each element of an array, after equal values; all of the table if there are more than
    /// `most`.
    Elements {
        index: Arc<Index>,
        equal: Vec<KeyPart>,
        array: Expr,
        most: usize,
        element: Oid,
        column: Oid,
    },
    /// A way for each alternative of an OR; rows that several of them lead to are found once.
    Any(Vec<Path>),
}

impl Path {
    /// Whether it leads to one row at most.
    pub(crate) fn finds_one(&self) -> bool {
        matches!(self, Path::Index { index, equal, .. } if index.unique && equal.len() == index.columns.len())
    }

    pub(crate) fn walk(&mut self, depth: u16, visit: Visit<'_>) {
        let part = |part: &mut KeyPart, visit: Visit<'_>| part.expr.walk(depth, visit);
        match self {
            Path::Full => {}
            Path::Index { equal, low, high, .. } => {
                equal.iter_mut().for_each(|p| part(p, visit));
                low.iter_mut().chain(high).for_each(|(p, _)| part(p, visit));
            }
            Path::Points { keys, .. } => keys.iter_mut().flatten().for_each(|p| part(p, visit)),
            Path::Elements { equal, array, .. } => {
                equal.iter_mut().for_each(|p| part(p, visit));
                array.walk(depth, visit);
            }
            Path::Any(paths) => paths.iter_mut().for_each(|path| path.walk(depth, visit)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum HashKind {
    Inner,
    Left,
    Full,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HashJoin {
    pub(crate) kind: HashKind,
    pub(crate) outer: Node,
    pub(crate) inner: Node,
    pub(crate) keys: Vec<HashKey>,
    /// Checked for each pair that hashes find; an inner join's is above it.
    pub(crate) residual: Option<Expr>,
    pub(crate) outer_slots: Vec<(usize, usize)>,
    pub(crate) inner_slots: Vec<(usize, usize)>,
    /// Number of the kept table, where that is the same each time.
    pub(crate) cache: Option<usize>,
}

/// Two sides of an equality that hashes decide, each with the type that it is hashed by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HashKey {
    pub(crate) outer: Expr,
    pub(crate) outer_type: Oid,
    pub(crate) inner: Expr,
    pub(crate) inner_type: Oid,
}

/// Rows that are found by what rows around their level say: a join by hash whose other side is outside. The
/// first time they are gone through; if they are asked for again they are kept.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Keyed {
    /// Looks at nothing outside.
    pub(crate) inner: Node,
    pub(crate) keys: Vec<HashKey>,
    /// The equalities of the keys.
    pub(crate) checks: Vec<Expr>,
    /// What else has to hold.
    pub(crate) filter: Option<Expr>,
    pub(crate) slots: Vec<(usize, usize)>,
    pub(crate) cache: usize,
}

fn walk_keys(keys: &mut [HashKey], depth: u16, visit: Visit<'_>) {
    for key in keys {
        key.outer.walk(depth, visit);
        key.inner.walk(depth, visit);
    }
}

impl Node {
    pub(crate) fn walk(&mut self, depth: u16, visit: Visit<'_>) {
        match self {
            Node::One => {}
            Node::Scan(scan) => {
                scan.path.walk(depth, visit);
                scan.filter.iter_mut().for_each(|e| e.walk(depth, visit));
            }
            Node::System { filter, key, .. } => {
                let key = key.iter_mut().map(|(_, expr)| expr);
                filter.iter_mut().chain(key).for_each(|e| e.walk(depth, visit));
            }
            Node::Cte { filter, .. } => filter.iter_mut().for_each(|e| e.walk(depth, visit)),
            Node::Query { query, filter, .. } => {
                query.walk(depth + 1, visit);
                filter.iter_mut().for_each(|e| e.walk(depth, visit));
            }
            Node::Functions { calls, filter, .. } => {
                calls.iter_mut().for_each(|call| call.walk(depth, visit));
                filter.iter_mut().for_each(|e| e.walk(depth, visit));
            }
            Node::Loop { outer, inner, on, .. } => {
                outer.walk(depth, visit);
                inner.walk(depth, visit);
                on.iter_mut().for_each(|e| e.walk(depth, visit));
            }
            Node::Hash(join) => {
                join.outer.walk(depth, visit);
                join.inner.walk(depth, visit);
                walk_keys(&mut join.keys, depth, visit);
                join.residual.iter_mut().for_each(|e| e.walk(depth, visit));
            }
            Node::Keyed(keyed) => {
                keyed.inner.walk(depth, visit);
                walk_keys(&mut keyed.keys, depth, visit);
                walk_list(&mut keyed.checks, depth, visit);
                keyed.filter.iter_mut().for_each(|e| e.walk(depth, visit));
            }
            Node::Filter { node, filter } => {
                node.walk(depth, visit);
                filter.walk(depth, visit);
            }
        }
    }
}
