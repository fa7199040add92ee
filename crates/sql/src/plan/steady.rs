//! What a part of a statement looks at, and whether it gives the same each time that it is run.
//!
//! Steady is what calls no volatile function, changes and locks nothing, and reads no WITH query that is
//! another for each row around it: what the rows around it say, and the snapshot of the statement, decide
//! what it gives.

use std::collections::BTreeSet;

use super::{Node, Planner};
use crate::func::Volatility;
use crate::tree::{Body, BoundStatement, Change, Cte, CteKind, Expr, From, Head, Query, SetCall};

/// Numbers of WITH queries that look at rows around them, or read such ones.
pub(super) type Varying = BTreeSet<usize>;

/// What is no expression, and decides whether a part is steady.
enum Leaf<'a> {
    /// Calls of functions that return sets.
    Calls(&'a [SetCall]),
    /// Rows are locked or changed.
    Touches,
    /// A WITH query is read.
    Reads(usize),
}

impl Leaf<'_> {
    fn is_steady(&self, varying: &Varying) -> bool {
        match self {
            Leaf::Calls(calls) => calls.iter().all(|call| is_steady_head(&call.head)),
            Leaf::Touches => false,
            Leaf::Reads(id) => !varying.contains(id),
        }
    }
}

/// Called with each leaf.
type See<'s> = &'s mut dyn FnMut(Leaf<'_>);

fn is_steady_head(head: &Head) -> bool {
    head.function.volatility != Volatility::Volatile
}

/// Whether an expression calls a volatile function.
pub(crate) fn calls_volatile(expr: &Expr) -> bool {
    let mut calls = false;
    expr.clone().walk(0, &mut |part, _| {
        calls |= matches!(part, Expr::Call { head, .. } if !is_steady_head(head));
        false
    });
    calls
}

fn leaves_of_query(query: &Query, see: See<'_>) {
    for cte in &query.ctes {
        match &cte.kind {
            CteKind::Query(query) => leaves_of_query(query, see),
            CteKind::Recursive { base, step, .. } => {
                leaves_of_query(base, see);
                leaves_of_query(step, see);
            }
            CteKind::Change(_) => see(Leaf::Touches),
        }
    }
    match &query.body {
        Body::Select(select) => {
            if !select.locks.is_empty() {
                see(Leaf::Touches);
            }
            see(Leaf::Calls(&select.sets));
            leaves_of_from(&select.from, see);
        }
        Body::Values(_) => {}
        Body::Set { left, right, .. } => {
            leaves_of_query(left, see);
            leaves_of_query(right, see);
        }
    }
}

fn leaves_of_from(from: &From, see: See<'_>) {
    match from {
        From::One | From::Table { .. } | From::System { .. } => {}
        From::Cte { id, .. } => see(Leaf::Reads(*id)),
        From::Query { query, .. } => leaves_of_query(query, see),
        From::Functions { calls, .. } => see(Leaf::Calls(calls)),
        From::Join { left, right, .. } => {
            leaves_of_from(left, see);
            leaves_of_from(right, see);
        }
        From::Planned(node) => leaves_of_node(node, see),
    }
}

fn leaves_of_node(node: &Node, see: See<'_>) {
    match node {
        Node::One | Node::System { .. } => {}
        Node::Cte { id, .. } => see(Leaf::Reads(*id)),
        Node::Scan(scan) if scan.lock.is_some() => see(Leaf::Touches),
        Node::Scan(_) => {}
        Node::Query { query, .. } => leaves_of_query(query, see),
        Node::Functions { calls, .. } => see(Leaf::Calls(calls)),
        Node::Loop { outer, inner, .. } => {
            leaves_of_node(outer, see);
            leaves_of_node(inner, see);
        }
        Node::Hash(join) => {
            leaves_of_node(&join.outer, see);
            leaves_of_node(&join.inner, see);
        }
        Node::Keyed(keyed) => leaves_of_node(&keyed.inner, see),
        Node::Filter { node, .. } => leaves_of_node(node, see),
    }
}

/// What something looks at.
#[derive(Default)]
pub(super) struct Looks {
    /// Columns of the levels around it: how far out (1 for the one around), which.
    pub(super) outside: Vec<(u16, usize)>,
    /// It also depends on what has no name there: the value of a domain's check, of a call that returns a
    /// set.
    pub(super) unnamed: bool,
    pub(super) is_steady: bool,
}

impl Looks {
    /// Whether it always gives the same.
    pub(super) fn is_fixed(&self) -> bool {
        self.is_steady && self.outside.is_empty() && !self.unnamed
    }

    /// `depth` is that of the part, where its own level is 0.
    fn see(&mut self, part: &Expr, depth: u16, varying: &Varying) {
        match part {
            Expr::Column { depth: own, slot } if *own > depth => self.outside.push((*own - depth, *slot)),
            Expr::WholeRow { depth: own, from, names, .. } if *own > depth => {
                self.outside.extend((*from..*from + names.len()).map(|slot| (*own - depth, slot)));
            }
            Expr::CaseOperand | Expr::SetResult(_) => self.unnamed = true,
            Expr::Call { head, .. } => self.is_steady &= is_steady_head(head),
            Expr::Subquery(subquery) => {
                leaves_of_query(&subquery.query, &mut |leaf| self.is_steady &= leaf.is_steady(varying));
            }
            _ => {}
        }
    }
}

impl Planner<'_> {
    fn looks(
        &self,
        leaves: impl FnOnce(See<'_>),
        walk: impl FnOnce(&mut dyn FnMut(&mut Expr, u16) -> bool),
    ) -> Looks {
        let mut looks = Looks { is_steady: true, ..Looks::default() };
        leaves(&mut |leaf| looks.is_steady &= leaf.is_steady(&self.varying));
        walk(&mut |part, depth| {
            looks.see(part, depth, &self.varying);
            false
        });
        looks.outside.sort_unstable();
        looks.outside.dedup();
        looks
    }

    pub(super) fn expr_looks(&self, expr: &Expr) -> Looks {
        self.looks(|_| {}, |see| expr.clone().walk(0, see))
    }

    pub(super) fn looks_of_from(&self, from: &From) -> Looks {
        self.looks(|see| leaves_of_from(from, see), |see| from.clone().walk(0, see))
    }

    pub(super) fn node_looks(&self, node: &Node) -> Looks {
        self.looks(|see| leaves_of_node(node, see), |see| node.clone().walk(0, see))
    }

    /// The query's own levels are those at depth 0.
    pub(super) fn query_looks(&self, query: &Query) -> Looks {
        self.looks(|see| leaves_of_query(query, see), |see| query.clone().walk(0, see))
    }

    /// Whether a query is the same for all rows around it: run once, it is run for all of them.
    pub(super) fn is_one(&self, query: &Query) -> bool {
        if looks_outside(query) {
            return false;
        }
        // The rows of such a query may be those of one of its own rows only; then it is run too often.
        let mut reads = false;
        let mut see = |leaf: Leaf<'_>| {
            reads |= matches!(leaf, Leaf::Reads(id) if self.varying.contains(&id));
        };
        if !self.varying.is_empty() {
            leaves_of_query(query, &mut see);
            query.clone().walk(0, &mut |part, _| {
                if let Expr::Subquery(subquery) = part {
                    leaves_of_query(&subquery.query, &mut see);
                }
                false
            });
        }
        !reads
    }
}

/// Does the query, or one within its expressions if it `has_inner` ones, lock or change rows?
pub(super) fn touches(query: &Query, has_inner: bool) -> bool {
    let mut touches = false;
    let mut see = |leaf: Leaf<'_>| touches |= matches!(leaf, Leaf::Touches);
    leaves_of_query(query, &mut see);
    if !has_inner {
        return touches;
    }
    query.clone().walk(0, &mut |part, _| {
        if let Expr::Subquery(subquery) = part {
            leaves_of_query(&subquery.query, &mut see);
        }
        false
    });
    touches
}

/// Does the query look at rows of levels around it?
pub(super) fn looks_outside(query: &Query) -> bool {
    let mut outside = false;
    query.clone().walk(1, &mut |part, depth| {
        if let Expr::Column { depth: own, .. } | Expr::WholeRow { depth: own, .. } = part {
            outside |= *own >= depth;
        }
        outside |= matches!(part, Expr::CaseOperand);
        outside
    });
    outside
}

fn add_ctes(ctes: &[Cte], varying: &mut Varying) {
    for cte in ctes {
        let queries: Vec<&Query> = match &cte.kind {
            CteKind::Query(query) => vec![query],
            CteKind::Recursive { base, step, .. } => vec![base, step],
            CteKind::Change(_) => Vec::new(),
        };
        queries.iter().for_each(|query| add_query(query, varying));
        if queries.iter().any(|query| looks_outside(query)) || !cte.reads.is_disjoint(varying) {
            varying.insert(cte.id);
        }
    }
}

fn add_query(query: &Query, varying: &mut Varying) {
    add_ctes(&query.ctes, varying);
    match &query.body {
        Body::Select(select) => add_from(&select.from, varying),
        Body::Values(_) => {}
        Body::Set { left, right, .. } => {
            add_query(left, varying);
            add_query(right, varying);
        }
    }
}

fn add_from(from: &From, varying: &mut Varying) {
    match from {
        From::Query { query, .. } => add_query(query, varying),
        From::Join { left, right, .. } => {
            add_from(left, varying);
            add_from(right, varying);
        }
        _ => {}
    }
}

/// The WITH queries of a statement, those within its expressions too, that are others for each row around
/// them.
pub(super) fn varying(statement: &mut BoundStatement) -> Varying {
    let mut varying = Varying::new();
    add_ctes(statement.ctes(), &mut varying);
    let mut add = |part: &mut Expr, _: u16| {
        if let Expr::Subquery(subquery) = part {
            add_query(&subquery.query, &mut varying);
        }
        false
    };
    match statement {
        BoundStatement::Query(query) => query.walk(0, &mut add),
        BoundStatement::Change(change) => change.walk(0, &mut add),
    }
    match statement {
        BoundStatement::Query(query) => add_query(query, &mut varying),
        BoundStatement::Change(change) => match change {
            Change::Insert(insert) => insert.source.iter().for_each(|query| add_query(query, &mut varying)),
            Change::Update(update) => add_from(&update.from, &mut varying),
            Change::Delete(delete) => add_from(&delete.from, &mut varying),
            Change::Merge(merge) => add_from(&merge.from, &mut varying),
        },
    }
    varying
}

/// How often a query reads a WITH query.
fn reads(query: &Query, wanted: usize) -> usize {
    let mut count = 0;
    let mut see = |leaf: Leaf<'_>| count += usize::from(matches!(leaf, Leaf::Reads(id) if id == wanted));
    leaves_of_query(query, &mut see);
    query.clone().walk(0, &mut |part, _| {
        if let Expr::Subquery(subquery) = part {
            leaves_of_query(&subquery.query, &mut see);
        }
        false
    });
    count
}

/// Marks the WITH query whose rows are all that a planned statement reads, where nothing else reads them:
/// they may be more than fit in memory.
pub(super) fn pass_once(query: &mut Query) {
    let Body::Select(select) = &query.body else { return };
    let From::Planned(node) = &select.from else { return };
    let mut node = &**node;
    while let Node::Filter { node: inner, .. } = node {
        node = inner;
    }
    let Node::Cte { id, .. } = *node else { return };
    let all = reads(query, id);
    let Some(cte) = query.ctes.iter_mut().find(|cte| cte.id == id) else { return };
    let own = match &cte.kind {
        CteKind::Query(query) => reads(query, id),
        CteKind::Recursive { base, step, .. } => reads(base, id) + reads(step, id),
        CteKind::Change(_) => return,
    };
    cte.once = !cte.eager && all == own + 1;
}
