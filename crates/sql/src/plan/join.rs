//! Join order by rules, where there are no statistics: first what a key finds, or few rows that lead to
//! keys; then what the rows so far find by a key, then by hash. The target of an UPDATE or DELETE is looked
//! up by what the others say where it can be: all that is read of it is locked.

use std::ops::Range;

use super::access::{self, FULL, KEYS, UNKNOWN};
use super::system;
use super::{HashJoin, HashKey, HashKind, Node, Path, Planner, Scan};
use crate::parse::ast::JoinKind;
use crate::tree::{Body, Expr, From, Query};

/// Ranges of slots (first, count).
pub(super) type Slots = Vec<(usize, usize)>;

fn holds(slots: &Slots, slot: usize) -> bool {
    slots.iter().any(|(at, width)| (*at..at + width).contains(&slot))
}

/// The slots of the level `depth` that a part of an expression names.
pub(super) fn named(part: &Expr, depth: u16) -> Range<usize> {
    match part {
        Expr::Column { depth: own, slot } if *own == depth => *slot..*slot + 1,
        Expr::WholeRow { depth: own, from, names, .. } if *own == depth => *from..*from + names.len(),
        _ => 0..0,
    }
}

/// The slots of the expression's own level that it looks at.
pub(super) fn looks_at(expr: &Expr) -> Vec<usize> {
    let mut slots = Vec::new();
    expr.clone().walk(0, &mut |part, depth| {
        slots.extend(named(part, depth));
        false
    });
    slots
}

pub(super) fn within(expr: &Expr, slots: &Slots) -> bool {
    looks_at(expr).into_iter().all(|slot| holds(slots, slot))
}

/// A part of a FROM that is joined as a whole.
#[derive(Clone)]
pub(super) struct Unit {
    pub(super) from: From,
    pub(super) slots: Slots,
    /// Slots that it looks at (LATERAL, arguments of functions).
    pub(super) needs: Vec<usize>,
}

pub(super) fn slots_of(from: &From) -> Slots {
    match from {
        From::One => Vec::new(),
        From::Table { table, at } => vec![(*at, table.columns.len() + 1)],
        From::System { at, width, .. }
        | From::Query { at, width, .. }
        | From::Cte { at, width, .. }
        | From::Functions { at, width, .. } => vec![(*at, *width)],
        From::Join { left, right, .. } => [slots_of(left), slots_of(right)].concat(),
        From::Planned(_) => Vec::new(),
    }
}

/// Of a change's FROM: the table that is changed.
fn is_target(from: &From) -> bool {
    matches!(from, From::Table { at: 0, .. })
}

pub(super) fn needs_of(from: &From) -> Vec<usize> {
    let mut needs = Vec::new();
    from.clone().walk(0, &mut |part, depth| {
        needs.extend(named(part, depth));
        false
    });
    let own = slots_of(from);
    needs.retain(|slot| !holds(&own, *slot));
    needs
}

/// Whether a path leads from rows of a join to others: it looks at slots that are bound, and were not before.
pub(super) fn leads(path: &Path, bound: &Slots, before: &Slots) -> bool {
    let mut leads = false;
    path.clone().walk(0, &mut |part, depth| {
        leads |= named(part, depth).any(|slot| holds(bound, slot) && !holds(before, slot));
        leads
    });
    leads
}

fn flatten(from: From, units: &mut Vec<Unit>, conjuncts: &mut Vec<Expr>) {
    match from {
        From::One => {}
        From::Join { kind: JoinKind::Inner, left, right, on, .. } => {
            flatten(*left, units, conjuncts);
            flatten(*right, units, conjuncts);
            if let Some(on) = on {
                on.conjuncts(conjuncts);
            }
        }
        from => {
            let (slots, needs) = (slots_of(&from), needs_of(&from));
            units.push(Unit { from, slots, needs });
        }
    }
}

/// Takes the conjuncts for which `take` holds.
fn split(conjuncts: &mut Vec<Expr>, take: impl Fn(&Expr) -> bool) -> Vec<Expr> {
    let (taken, rest) = std::mem::take(conjuncts).into_iter().partition(|conjunct| take(conjunct));
    *conjuncts = rest;
    taken
}

/// So many rows are few.
const FEW: i64 = 1000;

/// Is it plain to see that a query gives few rows? Who gives no number with LIMIT is taken to mean few.
pub(super) fn gives_few(query: &Query) -> bool {
    let body = match &query.body {
        Body::Values(rows) => rows.len() as i64 <= FEW,
        Body::Select(select) => {
            select.from == From::One || select.group.as_ref().is_some_and(|group| group.keys.is_empty())
        }
        Body::Set { left, right, .. } => gives_few(left) && gives_few(right),
    };
    body || match query.limit.as_ref().map(Expr::bare) {
        Some(Expr::Const(most)) => most.0.as_i64().is_some_and(|most| most <= FEW),
        limit => limit.is_some(),
    }
}

impl Planner<'_> {
    /// `outside`: slots of the level that are bound already. `changes`: see `level`.
    pub(super) fn from(&self, from: From, mut conjuncts: Vec<Expr>, outside: &Slots, changes: bool) -> Node {
        let mut from = from;
        if !changes && matches!(from, From::Join { .. }) && self.is_known(&from) {
            match self.by_cost(from, conjuncts, outside) {
                Ok(node) => return node,
                Err(given) => (from, conjuncts) = *given,
            }
        }
        let mut units = Vec::new();
        flatten(from, &mut units, &mut conjuncts);
        let mut bound = outside.clone();
        let mut node = Node::One;
        if let Some(first) = self.first(&units, &conjuncts, &bound, changes) {
            let unit = units.remove(first);
            let own = self.own(&unit, &mut conjuncts, &bound);
            bound.extend(unit.slots.iter().copied());
            node = self.unit(unit, own, outside);
        }
        while !units.is_empty() {
            let next = self.next(&units, &conjuncts, &bound);
            let unit = units.remove(next);
            node = self.join(node, unit, &mut conjuncts, &mut bound, outside);
            let ready = split(&mut conjuncts, |conjunct| within(conjunct, &bound));
            node = filtered(node, ready);
        }
        filtered(node, conjuncts)
    }

    /// Conjuncts that look only at this unit and what is bound.
    fn own(&self, unit: &Unit, conjuncts: &mut Vec<Expr>, bound: &Slots) -> Vec<Expr> {
        let reach: Slots = [bound.clone(), unit.slots.clone()].concat();
        split(conjuncts, |conjunct| within(conjunct, &reach))
    }

    fn score(&self, unit: &Unit, conjuncts: &[Expr], bound: &Slots) -> u32 {
        let free = |expr: &Expr| within(expr, bound);
        match &unit.from {
            From::Table { table, at } => access::choose(self.store, table, *at, conjuncts, &free).1,
            From::Functions { .. } => FULL - 1,
            From::System { table, at, width } => {
                let key = system::key_of(*table, (*at, *width), conjuncts, bound);
                key.map_or(FULL, |_| KEYS)
            }
            _ => FULL,
        }
    }

    fn first(&self, units: &[Unit], conjuncts: &[Expr], bound: &Slots, changes: bool) -> Option<usize> {
        let ready = |unit: &Unit| unit.needs.iter().all(|slot| holds(bound, *slot));
        let score = |unit: &Unit| self.score(unit, conjuncts, bound);
        let ready = || units.iter().enumerate().filter(|(_, unit)| ready(unit));
        let (best, found) = ready().map(|(at, unit)| (at, score(unit))).min_by_key(|(_, score)| *score)?;
        if found <= KEYS {
            return Some(best);
        }
        let leads = |unit: &Unit| {
            let few = self.few(&unit.from);
            let then: Slots = [bound.clone(), unit.slots.clone()].concat();
            units.iter().filter(|other| other.slots != unit.slots).any(|other| {
                let (is_target, found) =
                    (changes && is_target(&other.from), self.score(other, conjuncts, &then));
                found < UNKNOWN && (few && found < score(other) || is_target && found == 0)
            })
        };
        Some(ready().find(|(_, unit)| leads(unit)).map_or(best, |(at, _)| at))
    }

    fn few(&self, from: &From) -> bool {
        match from {
            From::Query { query, .. } => gives_few(query),
            From::Cte { id, .. } => self.few.borrow().contains(id),
            From::Functions { .. } => true,
            _ => false,
        }
    }

    fn next(&self, units: &[Unit], conjuncts: &[Expr], bound: &Slots) -> usize {
        let ready = |unit: &Unit| unit.needs.iter().all(|slot| holds(bound, *slot));
        // A condition that also looks at what is not bound yet narrows nothing.
        let connected = |unit: &Unit| {
            conjuncts.iter().any(|conjunct| {
                let slots = looks_at(conjunct);
                slots.iter().any(|slot| holds(&unit.slots, *slot))
                    && slots.iter().any(|slot| holds(bound, *slot))
                    && slots.iter().all(|slot| holds(&unit.slots, *slot) || holds(bound, *slot))
            })
        };
        let scored = units.iter().enumerate().filter(|(_, unit)| ready(unit));
        let cost = |unit: &Unit| {
            // What is made of the rows so far may lead to others by key.
            let apart = if unit.needs.is_empty() { 2 * FULL } else { FULL };
            self.score(unit, conjuncts, bound) + if connected(unit) { 0 } else { apart }
        };
        scored.min_by_key(|(_, unit)| cost(unit)).map_or(0, |(at, _)| at)
    }

    fn join(
        &self,
        outer: Node,
        unit: Unit,
        conjuncts: &mut Vec<Expr>,
        bound: &mut Slots,
        outside: &Slots,
    ) -> Node {
        let free = |expr: &Expr| within(expr, bound);
        let inner_slots = unit.slots.clone();
        let by_key = match &unit.from {
            From::Table { table, at } => {
                let (path, score) = access::choose(self.store, table, *at, conjuncts, &free);
                score < UNKNOWN && leads(&path, bound, outside)
            }
            // There may be more rows of it than fit in memory.
            From::Functions { .. } if unit.needs.is_empty() => {
                hash_keys(conjuncts, bound, &unit.slots).is_empty()
            }
            from @ From::System { .. } => self.leads_to_system(&outer, from, conjuncts, bound),
            _ => !unit.needs.is_empty(),
        };
        if by_key {
            let own = self.own(&unit, conjuncts, bound);
            let known = bound.clone();
            bound.extend(inner_slots.iter().copied());
            let inner = Box::new(self.unit(unit, own, &known));
            return Node::Loop { outer: Box::new(outer), inner, on: None, left: false, inner_slots };
        }
        let reach = unit.slots.clone();
        let own = split(conjuncts, |conjunct| within(conjunct, &[outside.clone(), reach.clone()].concat()));
        let keys = hash_keys(conjuncts, bound, &unit.slots);
        let outer_slots = bound.clone();
        bound.extend(inner_slots.iter().copied());
        let inner = self.unit(unit, own, outside);
        self.hash(HashKind::Inner, (outer, outer_slots), (inner, inner_slots), keys, None)
    }

    pub(super) fn hash(
        &self,
        kind: HashKind,
        (outer, outer_slots): (Node, Slots),
        (inner, inner_slots): (Node, Slots),
        keys: Vec<HashKey>,
        residual: Option<Expr>,
    ) -> Node {
        let fixed = keys.iter().all(|key| self.expr_looks(&key.inner).is_fixed());
        let fixed = fixed && self.looks_within(&inner, &inner_slots);
        let cache = fixed.then(|| self.new_cache());
        Node::Hash(Box::new(HashJoin { kind, outer, inner, keys, residual, outer_slots, inner_slots, cache }))
    }

    /// Whether a part of a join gives the same each time: it looks at nothing but its own rows.
    fn looks_within(&self, node: &Node, own: &Slots) -> bool {
        let mut inside = self.node_looks(node).is_fixed();
        node.clone().walk(0, &mut |part, depth| {
            inside &= named(part, depth).all(|slot| holds(own, slot));
            !inside
        });
        inside
    }

    /// A unit with its own predicates.
    pub(super) fn unit(&self, unit: Unit, own: Vec<Expr>, bound: &Slots) -> Node {
        match unit.from {
            From::Table { table, at } => {
                let free = |expr: &Expr| within(expr, bound);
                let path = self.cheapest(&table, at, &own, &free);
                let filter = Expr::all(own);
                Node::Scan(Box::new(Scan {
                    table,
                    at,
                    path,
                    filter,
                    lock: None,
                    columns: None,
                    target: false,
                }))
            }
            From::System { table, at, width } => {
                let key = system::key_of(table, (at, width), &own, bound);
                Node::System { table, at, width, filter: Expr::all(own), key }
            }
            From::Query { mut query, lateral, at, width } => {
                self.inner_query(&mut query);
                let cache = (!lateral && self.is_one(&query)).then(|| self.new_cache());
                let memo = if cache.is_some() { None } else { self.memo(&query) };
                // Whoever asks is the level around the query.
                Node::Query { query, lateral, at, width, filter: Expr::all(own), cache, memo }
            }
            From::Cte { id, at, width } => Node::Cte { id, at, width, filter: Expr::all(own) },
            From::Functions { calls, ordinality, at, width, .. } => {
                Node::Functions { calls, ordinality, at, width, filter: Expr::all(own) }
            }
            from @ From::Join { kind: JoinKind::Inner, .. } => self.from(from, own, bound, false),
            From::Join { kind, left, right, on, .. } => self.outer_join(kind, *left, *right, on, own, bound),
            From::One => Node::One,
            From::Planned(node) => *node,
        }
    }

    fn outer_join(
        &self,
        kind: JoinKind,
        left: From,
        right: From,
        on: Option<Expr>,
        mut own: Vec<Expr>,
        bound: &Slots,
    ) -> Node {
        let (left, right) = if kind == JoinKind::Right { (right, left) } else { (left, right) };
        let (outer_slots, inner_slots) = (slots_of(&left), slots_of(&right));
        let mut on_parts = Vec::new();
        if let Some(on) = on {
            on.conjuncts(&mut on_parts);
        }
        let outer_reach: Slots = [bound.clone(), outer_slots.clone()].concat();
        if kind == JoinKind::Full {
            let keys = hash_keys(&on_parts, &outer_slots, &inner_slots);
            let (outer, inner) =
                (self.from(left, Vec::new(), bound, false), self.from(right, Vec::new(), bound, false));
            let (outer, inner, residual) = ((outer, outer_slots), (inner, inner_slots), Expr::all(on_parts));
            return filtered(self.hash(HashKind::Full, outer, inner, keys, residual), own);
        }
        let to_outer = split(&mut own, |conjunct| within(conjunct, &outer_reach));
        let outer = self.from(left, to_outer, bound, false);
        let lateral = needs_of(&right).iter().any(|slot| holds(&outer_slots, *slot));
        let free = |expr: &Expr| within(expr, &outer_reach);
        let by_key = match &right {
            From::Table { table, at } => {
                let (path, score) = access::choose(self.store, table, *at, &on_parts, &free);
                score < UNKNOWN && leads(&path, &outer_slots, bound)
            }
            from => self.leads_to_system(&outer, from, &on_parts, &outer_reach),
        };
        let joined = if lateral || by_key {
            let to_inner = split(&mut on_parts, |part| {
                let reach = [outer_reach.clone(), inner_slots.clone()].concat();
                within(part, &reach) && looks_at(part).iter().any(|slot| holds(&inner_slots, *slot))
            });
            let inner = Box::new(self.from(right, to_inner, &outer_reach, false));
            let on = Expr::all(on_parts);
            Node::Loop { outer: Box::new(outer), inner, on, left: true, inner_slots }
        } else {
            let inner_reach: Slots = [bound.clone(), inner_slots.clone()].concat();
            let to_inner = split(&mut on_parts, |part| {
                within(part, &inner_reach) && looks_at(part).iter().any(|slot| holds(&inner_slots, *slot))
            });
            let keys = hash_keys(&on_parts, &outer_slots, &inner_slots);
            let inner = self.from(right, to_inner, bound, false);
            let (outer, inner, residual) = ((outer, outer_slots), (inner, inner_slots), Expr::all(on_parts));
            self.hash(HashKind::Left, outer, inner, keys, residual)
        };
        filtered(joined, own)
    }
}

pub(super) fn filtered(node: Node, conjuncts: Vec<Expr>) -> Node {
    match Expr::all(conjuncts) {
        None => node,
        Some(filter) => Node::Filter { node: Box::new(node), filter },
    }
}

/// Equalities between the two sides. They stay among the conjuncts, to be checked again.
pub(super) fn hash_keys(conjuncts: &[Expr], outer: &Slots, inner: &Slots) -> Vec<HashKey> {
    let mut keys = Vec::new();
    for conjunct in conjuncts {
        let Expr::Call { head, args, .. } = conjunct else { continue };
        let [left, right] = args.as_slice() else { continue };
        if !head.is_hashed() {
            continue;
        }
        let some = |expr: &Expr| !looks_at(expr).is_empty();
        let sides = [(left, head.types[0]), (right, head.types[1])];
        for [(one, outer_type), (other, inner_type)] in [sides, [sides[1], sides[0]]] {
            if some(one) && some(other) && within(one, outer) && within(other, inner) {
                keys.push(HashKey { outer: one.clone(), outer_type, inner: other.clone(), inner_type });
                break;
            }
        }
    }
    keys
}

impl Scan {
    pub(super) fn full(&self) -> bool {
        self.path == Path::Full
    }
}
