//! Orders of joins by cost: all orders of connected tables are tried, step by step from pairs to all of them,
//! and of each set of tables the cheapest way to its rows is kept; with very many tables the two parts are
//! joined next that cost least together. Tables that are not connected are joined without a condition only
//! where nothing else is left.
//!
//! An outer join takes part as a table that comes behind those that its condition looks at: what comes before
//! it may be joined in any order, and conditions about its columns are checked behind it.
//!
//! Invariant: the rows of a set of tables are the same in whichever order they are joined, and so is the
//! estimate of how many there are.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::join::{Slots, Unit, looks_at, needs_of, slots_of, within};
use super::known::Source;
use super::{Estimator, Path, Planner, access};
use crate::parse::ast::JoinKind;
use crate::tree::{Expr, From};

/// Parts of a FROM, a bit for each.
pub(super) type Set = u64;

/// Sets of more parts than that are not tried one by one.
const TRIED_MOST: usize = 14;
/// More parts are not ordered by cost.
const PARTS_MOST: usize = 64;

/// A part of a FROM that is joined as a whole.
pub(super) struct Part {
    pub(super) unit: Unit,
    /// The conditions of the outer join that it is the inner side of.
    pub(super) left: Option<Vec<Expr>>,
    /// Slots that have to be there before it.
    pub(super) behind: Vec<usize>,
}

/// A condition that is checked behind the outer joins that it looks at.
pub(super) struct Condition {
    pub(super) expr: Expr,
    pub(super) set: Set,
    /// Of pairs of rows, or of rows of its only part.
    share: f64,
    /// Of one row, in cost.
    each: f64,
    /// It is worth waiting for fewer rows.
    pub(super) is_late: bool,
    /// The parts on both sides of an equality that hashes decide.
    sides: Option<(Set, Set)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Method {
    /// The inner side's rows are kept by hash.
    Hash,
    /// The inner side is looked at for each row.
    Loop,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    Leaf(usize),
    Join { outer: usize, inner: usize, method: Method },
}

/// A way to the rows of some parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) set: Set,
    pub(super) rows: f64,
    cost: f64,
    pub(super) how: How,
}

/// What is known of a part before it is joined.
struct Leaf {
    rows: f64,
    cost: f64,
    /// The parts that have to be there before.
    needs: Set,
    /// It is the inner side of a join, whatever the order.
    is_inner: bool,
    /// Of an outer join: how many rows each row becomes.
    factor: f64,
}

/// How good a join is: one without a condition is worse than any other; then the less it gives and costs.
type Rank = (bool, f64);

/// What a part costs that an index finds for each row of others.
type Lookup = Option<(f64, f64)>;

/// The search for an order.
pub(super) struct Search<'s, 'a> {
    estimator: &'s Estimator<'a>,
    planner: &'s Planner<'a>,
    sources: Vec<Source>,
    pub(super) parts: Vec<Part>,
    leaves: Vec<Leaf>,
    pub(super) conditions: Vec<Condition>,
    pub(super) ways: Vec<Way>,
    outside: Slots,
    lookups: RefCell<BTreeMap<(usize, Set), Lookup>>,
}

fn bit(part: usize) -> Set {
    1 << part
}

fn is_within(set: Set, of: Set) -> bool {
    set & !of == 0
}

/// Whether an expression is NULL where all of these slots are.
fn is_strict(expr: &Expr, slots: &Slots) -> bool {
    match expr {
        Expr::Column { depth: 0, slot } => slots.iter().any(|(at, width)| (*at..at + width).contains(slot)),
        Expr::Cast { expr, .. } => is_strict(expr, slots),
        Expr::Call { head, args, .. } => head.function.strict && args.iter().any(|arg| is_strict(arg, slots)),
        _ => false,
    }
}

/// Whether a condition holds for no row that has NULL in all of these slots.
fn refuses_nulls(condition: &Expr, slots: &Slots) -> bool {
    match condition {
        Expr::And(list) => list.iter().any(|part| refuses_nulls(part, slots)),
        Expr::Or(list) => list.iter().all(|part| refuses_nulls(part, slots)),
        Expr::IsNull { expr, negated: true, record: false } => is_strict(expr, slots),
        Expr::InList { left, .. } => is_strict(left, slots),
        Expr::AnyArray { left, all: false, .. } => is_strict(left, slots),
        other => is_strict(other, slots),
    }
}

/// Whether a condition has a query that is run for each row: it is worth waiting for fewer rows.
pub(super) fn is_late(condition: &Expr) -> bool {
    let mut queries = Vec::new();
    condition.subqueries(&mut queries);
    queries.iter().any(|subquery| subquery.cache.is_none())
}

/// How many parts a FROM has.
fn count(from: &From) -> usize {
    match from {
        From::One => 0,
        From::Join { kind: JoinKind::Full, .. } => 1,
        From::Join { left, right, .. } => count(left) + count(right),
        _ => 1,
    }
}

/// Takes a FROM apart; `most`: joins are not taken apart into more.
pub(super) fn spread(from: From, most: usize, parts: &mut Vec<Part>, conditions: &mut Vec<Expr>) {
    let whole = |from: From, parts: &mut Vec<Part>| {
        let (slots, needs) = (slots_of(&from), needs_of(&from));
        let behind = needs.clone();
        parts.push(Part { unit: Unit { from, slots, needs }, left: None, behind });
    };
    let From::Join { kind, left, right, on, written } = from else {
        if from != From::One {
            whole(from, parts);
        }
        return;
    };
    let fits = written.comma || count(&left) + count(&right) <= most.max(1);
    if kind == JoinKind::Full {
        return whole(From::Join { kind, left, right, on, written }, parts);
    }
    let (left, right) = if kind == JoinKind::Right { (right, left) } else { (left, right) };
    let mut on_parts = Vec::new();
    on.into_iter().for_each(|on| on.conjuncts(&mut on_parts));
    let inner_slots = slots_of(&right);
    let is_inner = kind == JoinKind::Inner || conditions.iter().any(|it| refuses_nulls(it, &inner_slots));
    let each = |from: From, parts: &mut Vec<Part>, conditions: &mut Vec<Expr>| match fits {
        true => spread(from, most, parts, conditions),
        false => whole(from, parts),
    };
    if is_inner {
        conditions.extend(on_parts);
        each(*left, parts, conditions);
        return each(*right, parts, conditions);
    }
    let needs = needs_of(&right);
    let mut behind: Vec<usize> = on_parts.iter().flat_map(looks_at).chain(needs.iter().copied()).collect();
    behind.retain(|slot| !inner_slots.iter().any(|(at, width)| (*at..at + width).contains(slot)));
    if behind.is_empty() {
        behind = slots_of(&left).into_iter().flat_map(|(at, width)| at..at + width).collect();
    }
    each(*left, parts, conditions);
    let unit = Unit { from: *right, slots: inner_slots, needs };
    parts.push(Part { unit, left: Some(on_parts), behind });
}

impl<'s, 'a> Search<'s, 'a> {
    /// Of parts whose own conditions are theirs already, but for those of tables; `rows`: what each gives and
    /// costs by itself.
    pub(super) fn new(
        planner: &'s Planner<'a>,
        (parts, alone): (Vec<Part>, &[(f64, f64)]),
        sources: Vec<Source>,
        conditions: Vec<Expr>,
        outside: &Slots,
    ) -> Search<'s, 'a> {
        let lookups = RefCell::default();
        let (leaves, ways) = (Vec::new(), Vec::new());
        let estimator = planner.estimator();
        let outside = outside.clone();
        let mut search = Search {
            estimator,
            planner,
            sources,
            parts,
            leaves,
            conditions: Vec::new(),
            ways,
            outside,
            lookups,
        };
        search.conditions = conditions.into_iter().map(|expr| search.condition(expr)).collect();
        search.leaves = (0..search.parts.len()).map(|part| search.leaf(part, alone[part])).collect();
        search.share_keys();
        search
    }

    /// The parts that have these slots.
    pub(super) fn set_of(&self, slots: &[usize]) -> Set {
        let has = |part: &Part, slot: usize| {
            part.unit.slots.iter().any(|(at, width)| (*at..at + width).contains(&slot))
        };
        let mut set = 0;
        for slot in slots {
            for (number, part) in self.parts.iter().enumerate() {
                set |= if has(part, *slot) { bit(number) } else { 0 };
            }
        }
        set
    }

    fn condition(&self, expr: Expr) -> Condition {
        let set = self.set_of(&looks_at(&expr));
        let is_late = is_late(&expr);
        let share = self.estimator.all(&self.sources, [&expr]);
        let each = if is_late { 0.0 } else { self.estimator.check(&expr).0 };
        let sides = match &expr {
            Expr::Call { head, args, .. } if head.is_hashed() && args.len() == 2 => {
                let of = |side: &Expr| self.set_of(&looks_at(side));
                let (left, right) = (of(&args[0]), of(&args[1]));
                (left != 0 && right != 0 && left & right == 0).then_some((left, right))
            }
            _ => None,
        };
        Condition { expr, set, share, each, is_late, sides }
    }

    fn leaf(&self, number: usize, (rows, cost): (f64, f64)) -> Leaf {
        let part = &self.parts[number];
        let needs = self.set_of(&part.behind) & !bit(number);
        let factor = part.left.as_ref().map_or(rows, |on| {
            let others =
                on.iter().filter(|it| !within(it, &[self.outside.clone(), part.unit.slots.clone()].concat()));
            (rows * self.estimator.all(&self.sources, others)).max(1.0)
        });
        let is_inner = part.left.is_some() || !part.unit.needs.is_empty() && needs != 0;
        Leaf { rows, cost, needs, is_inner, factor }
    }

    /// Equalities that together have all columns of a unique index find one row of its table, for each row of
    /// the other: they go together.
    fn share_keys(&mut self) {
        let mut pairs: BTreeMap<Set, Vec<usize>> = BTreeMap::new();
        for (at, condition) in self.conditions.iter().enumerate() {
            if let Some((left, right)) = condition.sides
                && left.count_ones() == 1
                && right.count_ones() == 1
            {
                pairs.entry(left | right).or_default().push(at);
            }
        }
        for together in pairs.into_values().filter(|together| together.len() > 1) {
            let equalities: Vec<(&Expr, &Expr)> = together
                .iter()
                .filter_map(|at| match &self.conditions[*at].expr {
                    Expr::Call { args, .. } => Some((&args[0], &args[1])),
                    _ => None,
                })
                .collect();
            let share = self.estimator.joined(&self.sources, &equalities);
            for (place, at) in together.into_iter().enumerate() {
                self.conditions[at].share = if place == 0 { share } else { 1.0 };
            }
        }
    }

    /// What follows from a condition says a part of what that says.
    pub(super) fn discount(&mut self, derived: &[(Expr, Expr)]) {
        for (about, from) in derived {
            let share = self.estimator.all(&self.sources, [about]).max(1e-9);
            for condition in self.conditions.iter_mut().filter(|it| it.expr == *from) {
                condition.share = (condition.share / share).min(1.0);
            }
        }
    }

    /// Rows of a set.
    fn rows(&self, set: Set) -> f64 {
        let of_parts: f64 = (0..self.parts.len())
            .filter(|part| set & bit(*part) != 0)
            .map(|part| self.leaves[part].factor)
            .product();
        let counts = |it: &&Condition| is_within(it.set, set) && !it.is_late && self.is_joining(it);
        of_parts * self.conditions.iter().filter(counts).map(|it| it.share).product::<f64>()
    }

    /// Whether a condition is not one of a part alone, which is checked where that is read.
    pub(super) fn is_joining(&self, condition: &Condition) -> bool {
        let set = condition.set;
        set.count_ones() > 1 || set != 0 && self.parts[set.trailing_zeros() as usize].left.is_some()
    }

    fn add(&mut self, way: Way) -> usize {
        self.ways.push(way);
        self.ways.len() - 1
    }

    /// The cheapest way to all parts.
    pub(super) fn best(&mut self) -> Option<usize> {
        let (parts, costs) = (self.parts.len(), self.estimator.costs);
        if parts > PARTS_MOST {
            return None;
        }
        match parts > TRIED_MOST || costs.greedy && parts > costs.greedy_from {
            true => self.greedy(),
            false => self.tried(),
        }
    }

    fn leaf_way(&self, part: usize) -> Way {
        let Leaf { rows, cost, .. } = self.leaves[part];
        Way { set: bit(part), rows, cost, how: How::Leaf(part) }
    }

    fn tried(&mut self) -> Option<usize> {
        let parts = self.parts.len();
        let all: Set = (1 << parts) - 1;
        let mut best: Vec<Option<usize>> = vec![None; 1 << parts];
        let alone: Vec<usize> = (0..parts).map(|part| self.add(self.leaf_way(part))).collect();
        for part in (0..parts).filter(|part| !self.leaves[*part].is_inner) {
            best[1 << part] = Some(alone[part]);
        }
        let inner = |search: &Self, best: &[Option<usize>], rest: Set| match rest.count_ones() {
            1 if search.leaves[rest.trailing_zeros() as usize].is_inner => {
                Some(alone[rest.trailing_zeros() as usize])
            }
            _ => best[rest as usize],
        };
        for crosses in [false, true] {
            for set in 1..=all {
                if set.count_ones() < 2 || best[set as usize].is_some() {
                    continue;
                }
                let (rows, mut found) = (self.rows(set), None::<Way>);
                let mut outer = (set - 1) & set;
                while outer > 0 {
                    let rest = set & !outer;
                    if let (Some(first), Some(second)) = (best[outer as usize], inner(self, &best, rest))
                        && (crosses || self.is_connected(outer, rest))
                        && let Some(way) = self.join((first, second), rows)
                        && found.is_none_or(|found| way.cost < found.cost)
                    {
                        found = Some(way);
                    }
                    outer = (outer - 1) & set;
                }
                best[set as usize] = found.map(|way| self.add(way));
            }
            if best[all as usize].is_some() {
                break;
            }
        }
        best[all as usize]
    }

    /// Joins what costs least together, until all are.
    fn greedy(&mut self) -> Option<usize> {
        let mut left: Vec<usize> = (0..self.parts.len()).map(|part| self.add(self.leaf_way(part))).collect();
        while left.len() > 1 {
            let mut found: Option<(Rank, Way, (usize, usize))> = None;
            for first in left.iter().copied() {
                for second in left.iter().copied().filter(|second| *second != first) {
                    let (outer, inner) = (self.ways[first], self.ways[second]);
                    if matches!(outer.how, How::Leaf(part) if self.leaves[part].is_inner) {
                        continue;
                    }
                    let rows = self.rows(outer.set | inner.set);
                    let Some(way) = self.join((first, second), rows) else { continue };
                    let rank =
                        (!self.is_connected(outer.set, inner.set), way.rows.max(1.0).ln() + way.cost.ln());
                    if found.as_ref().is_none_or(|(known, ..)| rank < *known) {
                        found = Some((rank, way, (first, second)));
                    }
                }
            }
            let (_, way, (first, second)) = found?;
            left.retain(|at| *at != first && *at != second);
            let joined = self.add(way);
            left.push(joined);
        }
        left.first().copied()
    }

    fn is_connected(&self, outer: Set, inner: Set) -> bool {
        let both = outer | inner;
        let joins = |it: &Condition| is_within(it.set, both) && it.set & outer != 0 && it.set & inner != 0;
        let needs =
            || inner.count_ones() == 1 && self.leaves[inner.trailing_zeros() as usize].needs & outer != 0;
        self.conditions.iter().any(joins) || needs()
    }

    /// The cheapest join of two ways, if they can be joined so.
    fn join(&self, (first, second): (usize, usize), rows: f64) -> Option<Way> {
        let (outer, inner) = (self.ways[first], self.ways[second]);
        let set = outer.set | inner.set;
        let lone = match inner.how {
            How::Leaf(part) => Some(part),
            How::Join { .. } => None,
        };
        if let Some(part) = lone
            && !is_within(self.leaves[part].needs, outer.set)
        {
            return None;
        }
        let way = |cost: f64, method: Method| Way {
            set,
            rows,
            cost: outer.cost + cost + rows * self.estimator.costs.row,
            how: How::Join { outer: first, inner: second, method },
        };
        let looked_up = lone.and_then(|part| self.lookup(part, outer)).map(|cost| way(cost, Method::Loop));
        let is_lateral = lone.is_some_and(|part| {
            let part = &self.parts[part];
            self.set_of(&part.unit.needs) & outer.set != 0
        });
        if is_lateral {
            return Some(way(outer.rows.max(1.0) * inner.cost, Method::Loop));
        }
        let hashed = way(inner.cost + self.hashed(outer, inner), Method::Hash);
        Some(looked_up.filter(|looked_up| looked_up.cost <= hashed.cost).unwrap_or(hashed))
    }

    fn hashed(&self, outer: Way, inner: Way) -> f64 {
        let both = outer.set | inner.set;
        let (mut keys, mut share, mut checks) = (0, 1.0, 0.0);
        let mut see = |sides: Option<(Set, Set)>, own: f64, each: f64| {
            let is_key = sides.is_some_and(|(left, right)| {
                is_within(left, outer.set) && is_within(right, inner.set)
                    || is_within(right, outer.set) && is_within(left, inner.set)
            });
            if is_key {
                keys += 1;
                share *= own;
            }
            checks += each;
        };
        for it in &self.conditions {
            if is_within(it.set, both) && it.set & outer.set != 0 && it.set & inner.set != 0 && !it.is_late {
                see(it.sides, it.share, it.each);
            }
        }
        if let How::Leaf(part) = inner.how
            && let Some(on) = &self.parts[part].left
        {
            for expr in on {
                let it = self.condition(expr.clone());
                see(it.sides, it.share, it.each);
            }
        }
        let pairs = outer.rows * inner.rows * share;
        self.estimator.hash_cost(outer.rows, inner.rows, keys, pairs) + pairs * checks
    }

    /// The conditions of a part that can be checked with these others there.
    pub(super) fn conditions_with(&self, part: usize, others: Set) -> impl Iterator<Item = &Expr> {
        let with = others | bit(part);
        let own = self
            .conditions
            .iter()
            .filter(move |it| it.set & bit(part) != 0 && is_within(it.set, with) && !it.is_late);
        let on = self.parts[part].left.as_ref();
        let own = own.filter(move |_| on.is_none()).map(|it| &it.expr);
        own.chain(on.into_iter().flatten())
    }

    /// What it costs to find a part's rows by an index for all rows of others.
    fn lookup(&self, part: usize, outer: Way) -> Option<f64> {
        let From::Table { .. } = &self.parts[part].unit.from else { return None };
        let asked: Set = match &self.parts[part].left {
            Some(_) => self.leaves[part].needs,
            None => {
                let with = outer.set | bit(part);
                let about =
                    self.conditions.iter().filter(|it| it.set & bit(part) != 0 && is_within(it.set, with));
                about.fold(0, |set, it| set | it.set) & outer.set
            }
        };
        if asked == 0 {
            return None;
        }
        let known = self.lookups.borrow().get(&(part, asked)).copied();
        let found = known.unwrap_or_else(|| {
            let found = self.path(part, asked).map(|(_, read)| {
                let checks: f64 =
                    self.conditions_with(part, asked).map(|it| self.estimator.check(it).0).sum();
                (read.cost, read.rows * checks)
            });
            self.lookups.borrow_mut().insert((part, asked), found);
            found
        })?;
        let off = if self.estimator.costs.loops { 0.0 } else { crate::types::costs::DISABLED };
        Some(outer.rows.max(1.0) * (found.0 + found.1) + off)
    }

    /// The cheapest way to a table's rows that goes by these others.
    pub(super) fn path(&self, part: usize, others: Set) -> Option<(Path, super::cost::Read)> {
        let From::Table { table, at } = &self.parts[part].unit.from else { return None };
        let of_others = (0..self.parts.len()).filter(|it| others & bit(*it) != 0);
        let before: Slots = of_others.flat_map(|it| self.parts[it].unit.slots.iter().copied()).collect();
        let bound: Slots = [self.outside.clone(), before].concat();
        let conditions: Vec<Expr> = self.conditions_with(part, others).cloned().collect();
        let free = |expr: &Expr| within(expr, &bound);
        let source = self.sources.iter().find(|source| source.at == *at)?;
        let paths = access::candidates(self.planner.store, table, *at, &conditions, &free);
        let leading = paths.into_iter().filter(|path| super::join::leads(path, &bound, &self.outside));
        let costed = leading.map(|path| (self.estimator.read(source, &path), path));
        let best = costed.min_by(|a, b| a.0.cost.total_cmp(&b.0.cost))?;
        Some((best.1, best.0))
    }

    /// Where a condition that waits for fewer rows is checked: the set of a join, or of a part.
    pub(super) fn place(&self, root: usize, condition: &Condition) -> Set {
        let (mut at, mut best) = (root, self.ways[root]);
        loop {
            let way = self.ways[at];
            if way.rows <= best.rows {
                best = way;
            }
            let How::Join { outer, inner, .. } = way.how else { return best.set };
            let covers = |child: usize| {
                let child = self.ways[child];
                let is_left = matches!(child.how, How::Leaf(part) if self.leaves[part].is_inner);
                is_within(condition.set, child.set) && !is_left
            };
            at = match (covers(outer), covers(inner)) {
                (true, _) => outer,
                (_, true) => inner,
                _ => return best.set,
            };
        }
    }

    /// Slots of a set.
    pub(super) fn slots(&self, set: Set) -> Slots {
        let parts = (0..self.parts.len()).filter(|part| set & bit(*part) != 0);
        parts.flat_map(|part| self.parts[part].unit.slots.iter().copied()).collect()
    }
}
