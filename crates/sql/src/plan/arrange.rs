//! Plans of a FROM by cost: its parts are planned by themselves, the search finds an order (order.rs), and
//! the joins are made in it.
//!
//! Where ANALYZE has looked at none of the tables, rules decide (join.rs).

use super::join::{Slots, filtered, hash_keys, looks_at, slots_of, within};
use super::known::Source;
use super::order::{How, Method, Part, Search, Set, is_late, spread};
use super::{Estimator, HashKind, Node, Path, Planner, Scan};
use super::{access, factor};
use crate::catalog::object::Table;
use crate::tree::{Expr, From};
use std::sync::Arc;

fn has_slots(expr: &Expr, slots: &Slots) -> bool {
    looks_at(expr).iter().any(|slot| slots.iter().any(|(at, width)| (*at..at + width).contains(slot)))
}

/// Takes the conditions for which `takes` holds.
fn take(conditions: &mut Vec<Expr>, takes: impl Fn(&Expr) -> bool) -> Vec<Expr> {
    let (taken, left) = std::mem::take(conditions).into_iter().partition(takes);
    *conditions = left;
    taken
}

/// What the joins are made of.
struct Making<'s, 'a> {
    search: Search<'s, 'a>,
    nodes: Vec<Option<Node>>,
    /// Conditions that wait for fewer rows, and where they are checked.
    late: Vec<(Set, Expr)>,
    outside: Slots,
}

impl<'a> Planner<'a> {
    pub(super) fn estimator(&self) -> &Estimator<'a> {
        &self.estimator
    }

    /// Whether ANALYZE has looked at some of the tables that are joined.
    pub(super) fn is_known(&self, from: &From) -> bool {
        match from {
            From::Table { table, .. } => self.store.statistics(table.oid).is_some(),
            From::Join { left, right, .. } => self.is_known(left) || self.is_known(right),
            _ => false,
        }
    }

    /// The cheapest way to a table's rows by these conditions, of those that go by what is `free`.
    pub(super) fn cheapest(
        &self,
        table: &Arc<Table>,
        at: usize,
        conditions: &[Expr],
        free: access::Bound<'_>,
    ) -> Path {
        let (path, score) = access::choose(self.store, table, at, conditions, free);
        if score == 0 || self.store.statistics(table.oid).is_none() {
            return path;
        }
        let source = self.estimator.table(table, at);
        let mut paths = access::candidates(self.store, table, at, conditions, free);
        paths.push(Path::Full);
        let checks: f64 = conditions.iter().map(|it| self.estimator.check(it).0).sum();
        let cost = |path: &Path| {
            let read = self.estimator.read(&source, path);
            read.cost + read.rows * checks
        };
        let costed = paths.into_iter().map(|path| (cost(&path), path));
        costed.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(Path::Full, |(_, path)| path)
    }

    /// The rows of a FROM of several parts, in the order that costs least; what it was where there are too
    /// many.
    pub(super) fn by_cost(
        &self,
        from: From,
        conditions: Vec<Expr>,
        outside: &Slots,
    ) -> Result<Node, Box<(From, Vec<Expr>)>> {
        let given = Box::new((from.clone(), conditions.clone()));
        let (mut parts, mut conditions) = (Vec::new(), factor::shared(conditions));
        spread(from, self.estimator.costs.join_limit, &mut parts, &mut conditions);
        conditions = factor::shared(conditions);
        let inside: Slots = parts.iter().flat_map(|part| part.unit.slots.iter().copied()).collect();
        let mut loose = take(&mut conditions, |it| !has_slots(it, &inside));
        let unsteady = take(&mut loose, |it| !self.expr_looks(it).is_steady);
        let derived = self.derived(&parts, &mut conditions);
        let (nodes, sources) = self.parts(&mut parts, &mut conditions, (&inside, outside));
        let alone = |node: &Node| {
            let estimate = self.estimator.node(&sources, node);
            (estimate.rows, estimate.total)
        };
        let alone: Vec<(f64, f64)> = nodes.iter().map(alone).collect();
        let mut search = Search::new(self, (parts, &alone), sources.clone(), conditions, outside);
        search.discount(&derived);
        let Some(root) = search.best() else { return Err(given) };
        let late = search.conditions.iter().filter(|it| it.is_late);
        let late = late.map(|it| (search.place(root, it), it.expr.clone())).collect();
        let nodes = nodes.into_iter().map(Some).collect();
        let mut making = Making { search, nodes, late, outside: outside.clone() };
        making.first(root, loose);
        Ok(filtered(self.made(&mut making, root), unsteady))
    }

    /// Adds what alternatives ask of single tables; each with the condition that it follows from.
    fn derived(&self, parts: &[Part], conditions: &mut Vec<Expr>) -> Vec<(Expr, Expr)> {
        let mut derived = Vec::new();
        for condition in conditions.iter().filter(|it| matches!(it, Expr::Or(_))) {
            for part in parts.iter().filter(|part| part.left.is_none()) {
                if !within(condition, &part.unit.slots) && self.expr_looks(condition).is_steady {
                    let about = factor::of_slots(condition, &part.unit.slots);
                    derived.extend(about.map(|about| (about, condition.clone())));
                }
            }
        }
        conditions.extend(derived.iter().map(|(about, _)| about.clone()));
        derived
    }

    /// The parts by themselves, and what they read.
    fn parts(
        &self,
        parts: &mut [Part],
        conditions: &mut Vec<Expr>,
        (inside, outside): (&Slots, &Slots),
    ) -> (Vec<Node>, Vec<Source>) {
        let (mut nodes, mut sources) = (Vec::new(), Vec::new());
        for part in parts {
            let slots = &part.unit.slots;
            let reach: Slots = [outside.clone(), slots.clone()].concat();
            let bound = match part.unit.needs.is_empty() {
                true => outside.clone(),
                false => [outside.clone(), inside.clone()].concat(),
            };
            let node = match &part.left {
                Some(on) => {
                    let near: Slots = [bound.clone(), slots.clone()].concat();
                    let to_inner = on.iter().filter(|it| within(it, &near) && has_slots(it, slots));
                    self.from(part.unit.from.clone(), to_inner.cloned().collect(), &bound, false)
                }
                None => {
                    let own =
                        take(conditions, |it| within(it, &reach) && has_slots(it, slots) && !is_late(it));
                    // A table may be looked up by what others say as well.
                    if matches!(part.unit.from, From::Table { .. }) {
                        conditions.extend(own.iter().cloned());
                    }
                    self.unit(part.unit.clone(), own, &bound)
                }
            };
            sources.extend(self.estimator.sources(&node));
            nodes.push(node);
        }
        (nodes, sources)
    }

    /// The rows of a way.
    fn made(&self, making: &mut Making<'_, 'a>, at: usize) -> Node {
        let way = making.search.ways[at];
        let late = making.late_at(way.set);
        match way.how {
            How::Leaf(part) => {
                let node = making.nodes[part].take().expect("each part is joined once");
                filtered(node, late)
            }
            How::Join { outer, inner, method } => {
                let (node, mut conditions) = self.joined(making, (outer, inner), method);
                conditions.extend(late);
                filtered(node, conditions)
            }
        }
    }

    /// A join, and the conditions that are left to be checked of its rows.
    fn joined(
        &self,
        making: &mut Making<'_, 'a>,
        (outer, inner): (usize, usize),
        method: Method,
    ) -> (Node, Vec<Expr>) {
        let (first, second) = (making.search.ways[outer], making.search.ways[inner]);
        let (outer_slots, inner_slots) = (making.search.slots(first.set), making.search.slots(second.set));
        let here = making.here(first.set, second.set, second.how);
        let outer = self.made(making, outer);
        let lone = match second.how {
            How::Leaf(part) => Some(part),
            How::Join { .. } => None,
        };
        let left = lone.and_then(|part| making.search.parts[part].left.clone());
        if let (Some(part), Method::Loop) = (lone, method) {
            let (outer, on) = (Box::new(outer), left.clone().unwrap_or_default());
            let near: Slots = [making.outside.clone(), outer_slots, inner_slots.clone()].concat();
            let on: Vec<Expr> =
                on.into_iter().filter(|it| !(within(it, &near) && has_slots(it, &inner_slots))).collect();
            let (is_left, on) = (left.is_some(), Expr::all(on));
            if let Some(scan) = making.looked_up(part, first.set) {
                let inner = Box::new(scan);
                let mut rest = if is_left { here } else { Vec::new() };
                rest.extend(making.late_at(second.set));
                return (Node::Loop { outer, inner, on, left: is_left, inner_slots }, rest);
            }
            let inner = Box::new(self.made(making, inner));
            return (Node::Loop { outer, inner, on, left: is_left, inner_slots }, here);
        }
        let inner = self.made(making, inner);
        let sides = ((outer, outer_slots.clone()), (inner, inner_slots.clone()));
        match left {
            None => {
                let keys = hash_keys(&here, &outer_slots, &inner_slots);
                (self.hash(HashKind::Inner, sides.0, sides.1, keys, None), here)
            }
            Some(on) => {
                let reach: Slots = [making.outside.clone(), inner_slots.clone()].concat();
                let is_inner = |it: &Expr| within(it, &reach) && has_slots(it, &inner_slots);
                let residual: Vec<Expr> = on.into_iter().filter(|it| !is_inner(it)).collect();
                let keys = hash_keys(&residual, &outer_slots, &inner_slots);
                (self.hash(HashKind::Left, sides.0, sides.1, keys, Expr::all(residual)), here)
            }
        }
    }
}

impl Making<'_, '_> {
    /// Gives conditions that look at none of the parts to the part that is read first.
    fn first(&mut self, root: usize, conditions: Vec<Expr>) {
        let mut at = root;
        while let How::Join { outer, .. } = self.search.ways[at].how {
            at = outer;
        }
        let How::Leaf(part) = self.search.ways[at].how else { return };
        let node = self.nodes[part].take().expect("no part is joined yet");
        self.nodes[part] = Some(match node {
            Node::Scan(mut scan) => {
                let mut all = Vec::new();
                scan.filter.take().into_iter().for_each(|filter| filter.conjuncts(&mut all));
                scan.filter = Expr::all([conditions, all].concat());
                Node::Scan(scan)
            }
            node => filtered(node, conditions),
        });
    }

    /// Conditions that wait for the rows of these parts.
    fn late_at(&self, set: Set) -> Vec<Expr> {
        self.late.iter().filter(|(at, _)| *at == set).map(|(_, expr)| expr.clone()).collect()
    }

    /// Conditions that can be checked of a join's rows, and of neither side's.
    fn here(&self, outer: Set, inner: Set, how: How) -> Vec<Expr> {
        let is_left = matches!(how, How::Leaf(part) if self.search.parts[part].left.is_some());
        let is_in = |set: Set, of: Set| set & !of == 0;
        let conditions = self.search.conditions.iter().filter(|it| {
            let done = is_in(it.set, outer) || is_in(it.set, inner) && !is_left;
            self.search.is_joining(it) && is_in(it.set, outer | inner) && !done && !it.is_late
        });
        conditions.map(|it| it.expr.clone()).collect()
    }

    /// A table whose rows an index finds by what others say.
    fn looked_up(&self, part: usize, others: Set) -> Option<Node> {
        let From::Table { table, at } = &self.search.parts[part].unit.from else { return None };
        let (path, _) = self.search.path(part, others)?;
        let conditions: Vec<Expr> = match &self.search.parts[part].left {
            None => self.search.conditions_with(part, others).cloned().collect(),
            Some(on) => {
                let own = slots_of(&self.search.parts[part].unit.from);
                on.iter().filter(|it| has_slots(it, &own)).cloned().collect()
            }
        };
        let filter = Expr::all(conditions);
        let (lock, columns, target) = (None, None, false);
        Some(Node::Scan(Box::new(Scan {
            table: table.clone(),
            at: *at,
            path,
            filter,
            lock,
            columns,
            target,
        })))
    }
}
