//! Levels that look at rows around them by an equality: EXISTS, IN, LATERAL and values of other rows. Where
//! no index finds their rows, these are kept by hash once for the statement, so that each row around finds
//! its own without a look at all the others.
//!
//! Conditions are checked in their order where that could be noticed: what may fail and stands behind a
//! condition about the rows around is not computed of a row that this one does not let through.

use super::join::{Slots, looks_at, slots_of, within};
use super::{HashKey, KeyPart, Keyed, Node, Path, Planner, access, system};
use crate::parse::ast::JoinKind;
use crate::tree::{Expr, From};

/// Takes the conditions of the inner joins.
fn take_on(from: &mut From, conjuncts: &mut Vec<Expr>) {
    if let From::Join { kind: JoinKind::Inner, left, right, on, .. } = from {
        take_on(left, conjuncts);
        take_on(right, conjuncts);
        if let Some(on) = on.take() {
            on.conjuncts(conjuncts);
        }
    }
}

/// Whether it is computed of any row without an error.
fn is_safe(expr: &Expr) -> bool {
    match expr {
        Expr::Const(_) | Expr::Param(_) | Expr::Column { .. } => true,
        Expr::Call { head, args, .. } => {
            let compares = |name| matches!(name, "=" | "<>" | "<" | "<=" | ">" | ">=");
            head.operator.is_some_and(|operator| compares(operator.name)) && args.iter().all(is_safe)
        }
        Expr::And(list) | Expr::Or(list) => list.iter().all(is_safe),
        Expr::Not(expr) | Expr::IsNull { expr, .. } | Expr::IsTruth { expr, .. } => is_safe(expr),
        Expr::InList { left, list, .. } => is_safe(left) && list.iter().all(is_safe),
        cast => !std::ptr::eq(cast.bare(), cast) && is_safe(cast.bare()),
    }
}

impl Planner<'_> {
    /// An equality between a column of the level and what is outside.
    fn key_of(&self, conjunct: &Expr, own: &Slots) -> Option<HashKey> {
        let Expr::Call { head, args, .. } = conjunct else { return None };
        let [left, right] = args.as_slice() else { return None };
        if !head.is_hashed() {
            return None;
        }
        let is_own =
            |expr: &Expr| !looks_at(expr).is_empty() && within(expr, own) && self.expr_looks(expr).is_fixed();
        let is_outer = |expr: &Expr| {
            let looks = self.expr_looks(expr);
            looks_at(expr).is_empty() && looks.is_steady && !looks.unnamed && !looks.outside.is_empty()
        };
        let (outer, inner, [outer_type, inner_type]) = match () {
            () if is_own(right) && is_outer(left) => (left, right, [head.types[0], head.types[1]]),
            () if is_own(left) && is_outer(right) => (right, left, [head.types[1], head.types[0]]),
            () => return None,
        };
        Some(HashKey { outer: outer.clone(), outer_type, inner: inner.clone(), inner_type })
    }

    /// Whether an index finds rows of one of the tables by what is outside.
    fn has_index(&self, from: &From, conjuncts: &[Expr]) -> bool {
        match from {
            From::Table { table, at } => {
                let free = |expr: &Expr| looks_at(expr).is_empty();
                let outer = |part: &KeyPart| !self.expr_looks(&part.expr).outside.is_empty();
                match access::choose(self.store, table, *at, conjuncts, &free).0 {
                    Path::Full => false,
                    Path::Index { equal, low, high, .. } => {
                        // A range with one end may be half of all rows.
                        let range = low.as_ref().zip(high.as_ref());
                        equal.iter().any(outer)
                            || range.is_some_and(|(low, high)| outer(&low.0) || outer(&high.0))
                    }
                    Path::Points { keys, .. } => keys.iter().flatten().any(outer),
                    Path::Elements { equal, array, .. } => {
                        equal.iter().any(outer) || !self.expr_looks(&array).outside.is_empty()
                    }
                    Path::Any(_) => false,
                }
            }
            From::System { table, at, width } => {
                let key = system::key_of(*table, (*at, *width), conjuncts, &Vec::new());
                key.is_some_and(|(_, value)| !self.expr_looks(&value).outside.is_empty())
            }
            From::Join { left, right, .. } => {
                self.has_index(left, conjuncts) || self.has_index(right, conjuncts)
            }
            _ => false,
        }
    }

    /// The rows of a level that changes and locks nothing.
    pub(super) fn looked_up(&self, mut from: From, mut conjuncts: Vec<Expr>) -> Node {
        take_on(&mut from, &mut conjuncts);
        let own = slots_of(&from);
        let (mut keys, mut checks, mut local, mut rest) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let found: Vec<_> = conjuncts.iter().map(|conjunct| self.key_of(conjunct, &own)).collect();
        if found.iter().all(Option::is_none) {
            return self.from(from, conjuncts, &Vec::new(), false);
        }
        for (conjunct, key) in conjuncts.iter().zip(found) {
            if let Some(key) = key {
                keys.push(key);
                checks.push(conjunct.clone());
            } else if (is_safe(conjunct) || rest.is_empty() && checks.is_empty())
                && self.expr_looks(conjunct).is_fixed()
            {
                local.push(conjunct.clone());
            } else {
                rest.push(conjunct.clone());
            }
        }
        // What is another each time is asked each time, and not only of the rows with a key.
        let steady = rest.iter().all(|conjunct| self.expr_looks(conjunct).is_steady);
        if !steady || self.has_index(&from, &conjuncts) || !self.looks_of_from(&from).is_fixed() {
            return self.from(from, conjuncts, &Vec::new(), false);
        }
        let inner = self.from(from, local, &Vec::new(), false);
        let (filter, slots, cache) = (Expr::all(rest), own, self.new_cache());
        Node::Keyed(Box::new(Keyed { inner, keys, checks, filter, slots, cache }))
    }
}
