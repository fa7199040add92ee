//! Conditions of nodes, and the plans of the queries within them.

use super::build::{Builder, Item};
use super::print::text;
use super::semi::semi_of;
use crate::exec::system_tables::deparse::key_of;
use crate::tree::{Expr, Subquery, SubqueryKind};
use crate::types::value::Value;
use crate::types::{Oid, Type, oid};

impl<'a> Builder<'a> {
    /// Adds a condition to a node, without what others have shown; `output`: over rows behind grouping.
    pub(super) fn condition(
        &mut self,
        item: &mut Item,
        name: &'static str,
        filter: Option<&'a Expr>,
        output: bool,
    ) {
        let Some(filter) = filter else { return };
        let mut parts = Vec::new();
        conjuncts(filter, &mut parts);
        let is_shown = |conjunct: &Expr| {
            let Expr::Call { head, args, .. } = conjunct else { return false };
            let [left, right] = args.as_slice() else { return false };
            let same = |(a, b): &(&Expr, &Expr)| (*a, *b) == (left, right) || (*b, *a) == (left, right);
            head.operator.is_some_and(|operator| operator.name == "=") && self.shown.iter().any(same)
        };
        parts.retain(|conjunct| !is_shown(conjunct));
        if !output {
            return self.filter(item, name, &parts);
        }
        self.subplans(item, &parts);
        let shown: Vec<String> = parts.iter().map(|part| self.output_expr(part, oid::BOOL)).collect();
        item.details.push((name, text(joined_by_and(&shown))));
    }

    pub(super) fn filter(&mut self, item: &mut Item, name: &'static str, parts: &[&'a Expr]) {
        let (joins, parts): (Vec<_>, Vec<_>) = parts.iter().partition(|part| semi_of(part).is_some());
        self.semis.extend(joins.into_iter().filter_map(semi_of));
        self.subplans(item, &parts);
        let Some(shown) = self.all(&parts) else { return };
        item.details.push((name, text(shown)));
    }

    /// Conditions of which all hold.
    pub(super) fn all(&self, parts: &[&Expr]) -> Option<String> {
        let shown: Vec<String> = parts.iter().map(|part| self.shown_expr(part, oid::BOOL)).collect();
        (!shown.is_empty()).then(|| joined_by_and(&shown))
    }

    /// The plans of the queries within expressions.
    pub(super) fn subplans(&mut self, item: &mut Item, exprs: &[&'a Expr]) {
        let mut found = Vec::new();
        exprs.iter().for_each(|expr| expr.subqueries(&mut found));
        found.into_iter().for_each(|subquery| self.subplan(item, subquery));
    }

    pub(super) fn subplan(&mut self, item: &mut Item, subquery: &'a Subquery) {
        let key = key_of(subquery);
        if self.plans.iter().any(|(known, _)| *known == key) {
            return;
        }
        self.subplans += 1;
        let (number, once) = (self.subplans, subquery.cache.is_some());
        // One that is run once and gives one value is known by that.
        let value = once && !matches!(subquery.kind, SubqueryKind::Any { .. });
        let (shown, name) = match (once, value) {
            _ if subquery.is_hashed() => (format!("(hashed SubPlan {number})"), format!("SubPlan {number}")),
            (_, true) => (format!("${}", number - 1), format!("InitPlan {number} (returns ${})", number - 1)),
            (true, false) => (format!("InitPlan {number}"), format!("InitPlan {number}")),
            (false, false) if matches!(subquery.kind, SubqueryKind::Any { .. }) => {
                (format!("SubPlan {number}"), format!("SubPlan {number}"))
            }
            (false, false) => (format!("(SubPlan {number})"), format!("SubPlan {number}")),
        };
        self.plans.push((key, shown));
        let plan = self.query(&subquery.query);
        let plan = self.memoized(plan, subquery.memo.as_ref());
        let relation = Some(if once && !subquery.is_hashed() { "InitPlan" } else { "SubPlan" });
        // Those that are run once come first.
        let place = if relation == Some("InitPlan") { 0 } else { item.children.len() };
        item.children.insert(place, Item { relation, subplan: Some(name), ..plan });
    }

    pub(super) fn shown_expr(&self, expr: &Expr, ty: Oid) -> String {
        self.context
            .shown(&self.levels, expr, Type::of(ty), (false, &self.plans), self.own)
            .unwrap_or_else(|| "...".to_string())
    }

    pub(super) fn output_expr(&self, expr: &Expr, ty: Oid) -> String {
        self.context
            .shown(&self.levels, expr, Type::of(ty), (true, &self.plans), None)
            .unwrap_or_else(|| "...".to_string())
    }

    pub(super) fn shown_operand(&self, expr: &Expr, ty: Oid) -> String {
        self.shown_expr(expr, ty)
    }
}

/// The conditions of which all have to hold.
pub(super) fn conjuncts<'e>(expr: &'e Expr, into: &mut Vec<&'e Expr>) {
    match expr {
        Expr::And(list) => list.iter().for_each(|part| conjuncts(part, into)),
        expr if *expr == Expr::value(Value::Bool(true)) => {}
        expr => into.push(expr),
    }
}

pub(super) fn joined_by_and(parts: &[String]) -> String {
    match parts {
        [one] => one.clone(),
        all => format!("({})", all.join(" AND ")),
    }
}
