//! Walking over bound expressions, queries within them included.
//!
//! The callback sees every expression of a level's own and, with a greater depth, those of the queries
//! inside: so a pass over a level's columns (grouping, planning) is written once.
use super::{
    AggregateCall, Body, Change, Cte, CteKind, Expr, From, MergeAction, Query, Returning, Select, SetCall,
    Subquery, SubqueryKind, When, WindowCall,
};
use crate::parse::ast::Bound;

/// Called with an expression and how many levels it is below the start; true: its parts are not looked at.
pub(crate) type Visit<'v> = &'v mut dyn FnMut(&mut Expr, u16) -> bool;

impl Expr {
    /// This expression first, then its parts.
    pub(crate) fn walk(&mut self, depth: u16, visit: Visit<'_>) {
        if visit(self, depth) {
            return;
        }
        match self {
            Expr::Const(_) | Expr::Param(_) | Expr::Column { .. } | Expr::Window(_) => {}
            Expr::Aggregate { .. }
            | Expr::Grouping(_)
            | Expr::CaseOperand
            | Expr::WholeRow { .. }
            | Expr::SetResult(_) => {}
            Expr::Call { args: list, .. }
            | Expr::And(list)
            | Expr::Or(list)
            | Expr::Coalesce(list)
            | Expr::Extreme { list, .. }
            | Expr::Row { values: list, .. }
            | Expr::Array { elements: list, .. } => walk_list(list, depth, visit),
            Expr::Not(expr)
            | Expr::IsNull { expr, .. }
            | Expr::IsTruth { expr, .. }
            | Expr::Cast { expr, .. }
            | Expr::Field { base: expr, .. } => expr.walk(depth, visit),
            Expr::Distinct { left, right, .. }
            | Expr::NullIf { left, right, .. }
            | Expr::AnyArray { left, array: right, .. } => {
                left.walk(depth, visit);
                right.walk(depth, visit);
            }
            Expr::Case { operand, whens, otherwise } => {
                operand.iter_mut().chain(otherwise).for_each(|e| e.walk(depth, visit));
                for (condition, result) in whens {
                    condition.walk(depth, visit);
                    result.walk(depth, visit);
                }
            }
            Expr::InList { left, list, .. } => {
                left.walk(depth, visit);
                walk_list(list, depth, visit);
            }
            Expr::RowCompare { left, right, .. } => {
                walk_list(left, depth, visit);
                walk_list(right, depth, visit);
            }
            Expr::Subscript { base, indexes, .. } => {
                base.walk(depth, visit);
                walk_list(indexes, depth, visit);
            }
            Expr::Checked { expr, checks, .. } => {
                expr.walk(depth, visit);
                checks
                    .iter_mut()
                    .filter_map(|check| check.condition.as_mut())
                    .for_each(|e| e.walk(depth, visit));
            }
            Expr::Replaced { base, bounds, value, .. } => {
                base.walk(depth, visit);
                for (low, high) in bounds {
                    low.iter_mut().chain(high).for_each(|e| e.walk(depth, visit));
                }
                value.walk(depth, visit);
            }
            Expr::Slice { base, bounds } => {
                base.walk(depth, visit);
                for (low, high) in bounds {
                    low.iter_mut().chain(high).for_each(|e| e.walk(depth, visit));
                }
            }
            Expr::Subquery(subquery) => {
                if let SubqueryKind::Any { left, .. } = &mut subquery.kind {
                    walk_list(left, depth, visit);
                }
                subquery.query.walk(depth + 1, visit);
            }
        }
    }
}

impl Expr {
    /// The queries in it, each before what comes after it; not those within them.
    pub(crate) fn subqueries<'e>(&'e self, found: &mut Vec<&'e Subquery>) {
        match self {
            Expr::Subquery(subquery) => {
                if let SubqueryKind::Any { left, .. } = &subquery.kind {
                    left.iter().for_each(|expr| expr.subqueries(found));
                }
                found.push(subquery);
            }
            Expr::Call { args: list, .. }
            | Expr::And(list)
            | Expr::Or(list)
            | Expr::Coalesce(list)
            | Expr::Extreme { list, .. }
            | Expr::Row { values: list, .. }
            | Expr::Array { elements: list, .. } => list.iter().for_each(|expr| expr.subqueries(found)),
            Expr::Not(expr)
            | Expr::IsNull { expr, .. }
            | Expr::IsTruth { expr, .. }
            | Expr::Cast { expr, .. }
            | Expr::Checked { expr, .. }
            | Expr::Field { base: expr, .. }
            | Expr::Slice { base: expr, .. } => expr.subqueries(found),
            Expr::Distinct { left, right, .. }
            | Expr::NullIf { left, right, .. }
            | Expr::AnyArray { left, array: right, .. } => {
                left.subqueries(found);
                right.subqueries(found);
            }
            Expr::Case { operand, whens, otherwise } => {
                operand.iter().chain(otherwise).for_each(|expr| expr.subqueries(found));
                whens.iter().flat_map(|(a, b)| [a, b]).for_each(|expr| expr.subqueries(found));
            }
            Expr::InList { left: first, list, .. } | Expr::Subscript { base: first, indexes: list } => {
                first.subqueries(found);
                list.iter().for_each(|expr| expr.subqueries(found));
            }
            Expr::RowCompare { left, right, .. } => {
                left.iter().chain(right).for_each(|expr| expr.subqueries(found));
            }
            Expr::Replaced { base, value, .. } => {
                base.subqueries(found);
                value.subqueries(found);
            }
            _ => {}
        }
    }
}

pub(crate) fn walk_list(list: &mut [Expr], depth: u16, visit: Visit<'_>) {
    list.iter_mut().for_each(|expr| expr.walk(depth, visit));
}

impl Query {
    /// `depth` is that of the query's own levels.
    pub(crate) fn walk(&mut self, depth: u16, visit: Visit<'_>) {
        walk_ctes(&mut self.ctes, depth, visit);
        match &mut self.body {
            Body::Select(select) => select.walk(depth, visit),
            Body::Values(rows) => rows.iter_mut().for_each(|row| walk_list(row, depth, visit)),
            Body::Set { left, right, .. } => {
                left.walk(depth, visit);
                right.walk(depth, visit);
            }
        }
        self.limit.iter_mut().chain(&mut self.offset).for_each(|e| e.walk(depth, visit));
    }
}

pub(crate) fn walk_ctes(ctes: &mut [Cte], depth: u16, visit: Visit<'_>) {
    for cte in ctes {
        match &mut cte.kind {
            CteKind::Query(query) => query.walk(depth, visit),
            CteKind::Recursive { base, step, .. } => {
                base.walk(depth, visit);
                step.walk(depth, visit);
            }
            CteKind::Change(change) => change.walk(depth, visit),
        }
    }
}

impl Select {
    pub(crate) fn walk(&mut self, depth: u16, visit: Visit<'_>) {
        self.from.walk(depth, visit);
        self.filter.iter_mut().chain(&mut self.having).for_each(|e| e.walk(depth, visit));
        if let Some(group) = &mut self.group {
            group.keys.iter_mut().for_each(|(key, _)| key.walk(depth, visit));
            group.aggregates.iter_mut().for_each(|call| call.walk(depth, visit));
        }
        self.windows.iter_mut().for_each(|call| call.walk(depth, visit));
        self.sets.iter_mut().for_each(|call| call.walk(depth, visit));
        walk_list(&mut self.targets, depth, visit);
    }
}

impl AggregateCall {
    pub(crate) fn walk(&mut self, depth: u16, visit: Visit<'_>) {
        walk_list(&mut self.args, depth, visit);
        self.order.iter_mut().for_each(|(expr, _)| expr.walk(depth, visit));
        self.filter.iter_mut().for_each(|e| e.walk(depth, visit));
    }
}

impl WindowCall {
    pub(crate) fn walk(&mut self, depth: u16, visit: Visit<'_>) {
        walk_list(&mut self.args, depth, visit);
        self.filter.iter_mut().for_each(|e| e.walk(depth, visit));
        self.partition.iter_mut().for_each(|(expr, _)| expr.walk(depth, visit));
        self.order.iter_mut().for_each(|(expr, _)| expr.walk(depth, visit));
        for bound in [&mut self.frame.start, &mut self.frame.end] {
            if let Bound::Preceding(offset) | Bound::Following(offset) = bound {
                offset.walk(depth, visit);
            }
        }
    }
}

impl SetCall {
    pub(crate) fn walk(&mut self, depth: u16, visit: Visit<'_>) {
        walk_list(&mut self.args, depth, visit);
    }
}

impl From {
    pub(crate) fn walk(&mut self, depth: u16, visit: Visit<'_>) {
        match self {
            From::One | From::Table { .. } | From::System { .. } | From::Cte { .. } => {}
            From::Query { query, .. } => query.walk(depth + 1, visit),
            From::Functions { calls, .. } => calls.iter_mut().for_each(|call| call.walk(depth, visit)),
            From::Join { left, right, on, .. } => {
                left.walk(depth, visit);
                right.walk(depth, visit);
                on.iter_mut().for_each(|e| e.walk(depth, visit));
            }
            From::Planned(node) => node.walk(depth, visit),
        }
    }
}

impl Returning {
    fn walk(&mut self, depth: u16, visit: Visit<'_>) {
        walk_list(&mut self.targets, depth, visit);
    }
}

impl When {
    /// All of its expressions.
    pub(crate) fn exprs(&mut self) -> impl Iterator<Item = &mut Expr> {
        let (set, values) = match &mut self.action {
            MergeAction::Update(set) => (set.as_mut_slice(), [].as_mut_slice()),
            MergeAction::Insert(values) => ([].as_mut_slice(), values.as_mut_slice()),
            MergeAction::Nothing | MergeAction::Delete => ([].as_mut_slice(), [].as_mut_slice()),
        };
        self.condition.iter_mut().chain(set.iter_mut().map(|(_, expr)| expr)).chain(values)
    }
}

impl Change {
    pub(crate) fn walk(&mut self, depth: u16, visit: Visit<'_>) {
        match self {
            Change::Insert(insert) => {
                walk_ctes(&mut insert.ctes, depth, visit);
                insert.source.iter_mut().for_each(|query| query.walk(depth, visit));
                walk_list(&mut insert.values, depth, visit);
                if let Some((set, filter)) = insert.conflict.as_mut().and_then(|c| c.update.as_mut()) {
                    set.iter_mut().for_each(|(_, e)| e.walk(depth, visit));
                    filter.iter_mut().for_each(|e| e.walk(depth, visit));
                }
                insert.returning.iter_mut().for_each(|r| r.walk(depth, visit));
            }
            Change::Update(update) => {
                walk_ctes(&mut update.ctes, depth, visit);
                update.from.walk(depth, visit);
                update.filter.iter_mut().for_each(|e| e.walk(depth, visit));
                update.set.iter_mut().for_each(|(_, e)| e.walk(depth, visit));
                update.returning.iter_mut().for_each(|r| r.walk(depth, visit));
            }
            Change::Delete(delete) => {
                walk_ctes(&mut delete.ctes, depth, visit);
                delete.from.walk(depth, visit);
                delete.filter.iter_mut().for_each(|e| e.walk(depth, visit));
                delete.returning.iter_mut().for_each(|r| r.walk(depth, visit));
            }
            Change::Merge(merge) => {
                walk_ctes(&mut merge.ctes, depth, visit);
                merge.from.walk(depth, visit);
                merge.whens.iter_mut().flat_map(|when| when.exprs()).for_each(|e| e.walk(depth, visit));
            }
        }
    }
}
