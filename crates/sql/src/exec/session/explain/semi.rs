//! Queries within conditions that are joins in PostgreSQL's words: EXISTS and IN that are answered by hash,
//! and results that are kept by values.

use super::build::{Builder, Item};
use super::conditions::joined_by_and;
use super::nodes::joined;
use super::print::{Prop, text};
use crate::plan::{HashKey, Keyed, Node};
use crate::tree::{Body, DistinctOn, Expr, From, Memo, Select, Subquery, SubqueryKind};
use crate::types::oid;

/// A condition that is shown as a join.
#[derive(Clone, Copy)]
pub(super) struct Semi<'a> {
    subquery: &'a Subquery,
    anti: bool,
    condition: &'a Expr,
}

/// The level of a query that does nothing behind its FROM.
fn plain_level(subquery: &Subquery) -> Option<(&Select, &Node)> {
    let query = &subquery.query;
    let Body::Select(select) = &query.body else { return None };
    let counts = select.group.is_some() || !select.windows.is_empty() || !select.sets.is_empty();
    let bounded = query.limit.is_some() || query.offset.is_some() || !query.ctes.is_empty();
    let From::Planned(node) = &select.from else { return None };
    (!counts && !bounded && select.distinct == DistinctOn::No).then_some((&**select, &**node))
}

/// The condition as a join, where it is answered as one.
pub(super) fn semi_of(condition: &Expr) -> Option<Semi<'_>> {
    let (subquery, anti) = match condition {
        Expr::Subquery(subquery) => (subquery, false),
        Expr::Not(inner) => match &**inner {
            Expr::Subquery(subquery) => (subquery, true),
            _ => return None,
        },
        _ => return None,
    };
    let (_, node) = plain_level(subquery)?;
    let joins = match &subquery.kind {
        SubqueryKind::Exists => matches!(node, Node::Keyed(_)),
        SubqueryKind::Any { all: false, negated: false, .. } => !anti && subquery.is_hashed(),
        _ => false,
    };
    joins.then_some(Semi { subquery, anti, condition })
}

impl<'a> Builder<'a> {
    /// Puts the joins that conditions of this node are above it.
    pub(super) fn semi_joins(&mut self, item: Item) -> Item {
        let semis = std::mem::take(&mut self.semis);
        let mut item = item;
        for semi in &semis {
            // What the node has been said to give and cost is with them.
            let (each, once) = self.context.estimator.check(semi.condition);
            item.rows /= self.share(semi).max(1e-6);
            item.cost = (item.cost - once - each * item.rows).max(item.startup);
        }
        semis.into_iter().fold(item, |below, semi| self.semi_join(below, semi))
    }

    fn share(&self, semi: &Semi<'_>) -> f64 {
        let sources = self.sources_of.last().map_or(&[][..], Vec::as_slice);
        self.context.estimator.share(sources, semi.condition)
    }

    fn semi_join(&mut self, mut outer: Item, semi: Semi<'a>) -> Item {
        let Some((select, node)) = plain_level(semi.subquery) else { return outer };
        let around = self.own.take();
        let mut details = Vec::new();
        // What the whole condition drops is counted by the node that it is a condition of.
        let measured = (outer.measured.take(), outer.own, std::mem::take(&mut outer.dropping));
        let left = match &semi.subquery.kind {
            SubqueryKind::Any { left, heads, .. } => {
                left.iter().zip(heads).map(|(left, head)| self.shown_expr(left, head.types[0])).collect()
            }
            _ => Vec::new(),
        };
        let share = self.share(&semi);
        self.levels.push((&select.names, Some(select)));
        let inner = match node {
            Node::Keyed(keyed) => {
                let inner = self.level(&keyed.inner);
                self.own = None;
                details.extend(self.hash_cond(&keyed.keys));
                let filter = keyed.filter.iter().collect::<Vec<_>>();
                let mut shown = Item::default();
                self.filter(&mut shown, "Join Filter", &filter);
                details.append(&mut shown.details);
                inner
            }
            node => {
                let inner = self.level(node);
                self.own = None;
                let pairs = left.iter().zip(&select.targets);
                let shown =
                    |(left, right): (&String, &Expr)| format!("({left} = {})", self.shown_expr(right, 0));
                let conditions: Vec<String> = pairs.map(shown).collect();
                details.push(("Hash Cond", text(joined_by_and(&conditions))));
                inner
            }
        };
        self.levels.pop();
        self.own = around;
        let inner = Item { startup: inner.cost, ..self.over("Hash", "Hash", inner) };
        let word = if semi.anti { "Anti" } else { "Semi" };
        let (rows, startup) = (outer.rows * share, inner.cost);
        let costs = self.costs();
        let cost = outer.cost + inner.cost + outer.rows * costs.operator + rows * costs.row;
        let mut item = joined("Hash Join", &format!("Hash {word} Join"), word, rows, (outer, inner));
        (item.cost, item.startup, item.width) = (cost, startup, item.children[0].width);
        (item.measured, item.own, item.dropping) = measured;
        item.details = details;
        item
    }

    /// Rows that are kept by what rows around them say.
    pub(super) fn keyed(&mut self, keyed: &'a Keyed) -> Item {
        let inner = self.node(&keyed.inner);
        self.own = None;
        let mut item = self.over("Hash", "Hash", inner);
        item.details.extend(self.hash_cond(&keyed.keys));
        self.condition(&mut item, "Filter", keyed.filter.as_ref(), false);
        item
    }

    pub(super) fn hash_cond(&self, keys: &[HashKey]) -> Option<(&'static str, Prop)> {
        let shown = |key: &HashKey| {
            let (outer, inner) = (&key.outer, &key.inner);
            let (outer, inner) =
                (self.shown_expr(outer, key.outer_type), self.shown_expr(inner, key.inner_type));
            format!("({outer} = {inner})")
        };
        let conditions: Vec<String> = keys.iter().map(shown).collect();
        (!keys.is_empty()).then(|| ("Hash Cond", text(joined_by_and(&conditions))))
    }

    /// A plan whose results are kept by values.
    pub(super) fn memoized(&mut self, item: Item, memo: Option<&'a Memo>) -> Item {
        let Some(memo) = memo else { return item };
        let around = self.own.take();
        let keys: Vec<String> = memo.by.iter().map(|value| self.shown_expr(value, oid::UNKNOWN)).collect();
        self.own = around;
        let mut item = self.over("Memoize", "Memoize", item);
        item.details.push(("Cache Key", Prop::List(keys)));
        item.details.push(("Cache Mode", text("binary")));
        item
    }
}
