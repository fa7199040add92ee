//! What plans cost, and how many rows they give: of ways to a table's rows, of joins, and of what a query
//! does behind its FROM. The planner chooses by these numbers, and EXPLAIN shows them.
//!
//! Rows are not rounded: a node within a loop may give less than one row each time.

use super::known::{Estimator, Source, Variable, source_of, variable};
use super::selectivity::ELEMENTS;
use super::{Estimate, HashJoin, HashKind, KeyPart, Keyed, Node, Path, Scan};
use crate::catalog::object::{Index, Indexed};
use crate::parse::ast::SetKind;
use crate::tree::{Body, CteKind, DistinctOn, Expr, From, Query, Select, SubqueryKind};
use crate::types::costs::DISABLED;
use crate::types::value::Value;

/// Rows of a relation of the system.
pub(super) const ROWS_OF_SYSTEM: f64 = 100.0;
/// Rows of a function that returns a set, and of what is not known better.
pub(super) const ROWS_OF_FUNCTION: f64 = 100.0;
/// Of its groups, HAVING lets so many pass.
const HAVING: f64 = 1.0 / 3.0;
/// Groups by an expression of which nothing is known.
const GROUPS: f64 = 200.0;
/// Rows of a function that returns a set, in a SELECT list.
const SET: f64 = 10.0;
/// LIMIT without a number that is known leaves this share.
const LIMITED: f64 = 0.1;

/// What a way to rows reads and costs, before any condition is checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Read {
    pub(crate) rows: f64,
    pub(crate) cost: f64,
}

/// The conditions of which all have to hold.
pub(crate) fn parts(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::And(list) => list.iter().flat_map(parts).collect(),
        other => vec![other],
    }
}

/// How many operators and functions an expression has.
fn operators(expr: &Expr) -> f64 {
    let mut count = 0.0;
    expr.clone().walk(0, &mut |part, _| {
        count += match part {
            Expr::Call { .. } | Expr::AnyArray { .. } | Expr::RowCompare { .. } => 1.0,
            Expr::InList { list, .. } => list.len() as f64 / 2.0,
            _ => 0.0,
        };
        matches!(part, Expr::Subquery(_))
    });
    count
}

impl Estimator<'_> {
    /// What a condition costs for each row, and once.
    pub(crate) fn check(&self, expr: &Expr) -> (f64, f64) {
        let (mut each, mut once) = (operators(expr) * self.costs.operator, 0.0);
        let mut found = Vec::new();
        expr.subqueries(&mut found);
        for subquery in found {
            let cost = self.query(&subquery.query);
            let keyed = match &subquery.query.body {
                Body::Select(select) => match &select.from {
                    From::Planned(node) => match &**node {
                        Node::Keyed(keyed) => Some(keyed),
                        _ => None,
                    },
                    _ => None,
                },
                _ => None,
            };
            match keyed {
                _ if subquery.cache.is_some() => {
                    once += cost.total;
                    each += self.costs.operator;
                }
                Some(keyed) => {
                    once += self.node(&self.sources(&keyed.inner), &keyed.inner).total;
                    each += self.costs.row;
                }
                // It ends at the first row.
                None if subquery.kind == SubqueryKind::Exists => {
                    each += cost.startup + (cost.total - cost.startup) / cost.rows.max(1.0);
                }
                None => each += cost.total,
            }
        }
        (each, once)
    }

    fn checks(&self, filter: &Expr) -> (f64, f64) {
        let checks = parts(filter).into_iter().map(|part| self.check(part));
        checks.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Rows of a table by a way.
    pub(crate) fn read(&self, source: &Source, path: &Path) -> Read {
        let costs = self.costs;
        let foreign = source.foreign * costs.foreign_row;
        let off = |is_on: bool| if is_on { 0.0 } else { DISABLED };
        let by_index = |index: &Index, rows: f64, lookups: f64| {
            // Its own rows lie in its order.
            let fetch = match index.keeps_rows() {
                true => source.pages * costs.page / source.rows.max(1.0),
                false => costs.lookup(),
            };
            lookups * costs.lookup()
                + rows * (costs.entry + fetch + costs.row + foreign)
                + off(costs.index_scans)
        };
        match path {
            Path::Full => {
                let rows = source.rows;
                let cost = source.pages * costs.page + rows * (costs.row + foreign) + off(costs.full_scans);
                Read { rows, cost }
            }
            Path::Index { index, equal, low, high, .. } => {
                let rows = self.found(source, index, equal, [low.as_ref(), high.as_ref()]);
                Read { rows, cost: by_index(index, rows, 1.0) }
            }
            Path::Points { index, keys } => {
                let rows = keys.iter().map(|key| self.found(source, index, key, [None, None])).sum::<f64>();
                let rows = rows.min(source.rows);
                Read { rows, cost: by_index(index, rows, keys.len() as f64) }
            }
            Path::Elements { index, equal, array, .. } => {
                let count = self.elements(array);
                let column = plain(index, equal.len()).and_then(|column| source.column(column));
                let each = column.map_or(0.005, |column| 1.0 / column.distinct());
                let before = self.found(source, index, equal, [None, None]);
                let rows = (count * each * before).min(before);
                Read { rows, cost: by_index(index, rows, count) }
            }
            Path::Any(paths) => {
                let all = paths.iter().map(|path| self.read(source, path));
                let sum = all.fold((0.0, 0.0), |sum, read| (sum.0 + read.rows, sum.1 + read.cost));
                Read { rows: sum.0.min(source.rows), cost: sum.1 + off(costs.bitmap_scans) }
            }
        }
    }

    fn elements(&self, array: &Expr) -> f64 {
        match array {
            Expr::Subquery(subquery) => self.query(&subquery.query).rows.max(1.0),
            Expr::Array { elements, .. } => elements.len() as f64,
            array => match self.value(array) {
                Some(Value::Array(array)) => array.elements.len() as f64,
                _ => ELEMENTS,
            },
        }
    }

    /// Rows that an index finds by equal values of its first columns, and a range of the next one.
    fn found(
        &self,
        source: &Source,
        index: &Index,
        equal: &[KeyPart],
        [low, high]: [Option<&(KeyPart, bool)>; 2],
    ) -> f64 {
        if index.unique && equal.len() == index.columns.len() {
            return 1.0f64.min(source.rows);
        }
        let mut share = 1.0;
        for (at, part) in equal.iter().enumerate() {
            let column = plain(index, at).and_then(|column| source.column(column));
            share *= column.map_or(0.005, |column| self.equal(column, &part.expr));
        }
        let next = plain(index, equal.len()).and_then(|column| source.column(column));
        if let Some(column) = next.filter(|_| low.is_some() || high.is_some()) {
            let end = |end: Option<&'_ (KeyPart, bool)>| end.map(|(part, _)| part.expr.clone());
            share *= self.range(column, end(low).as_ref(), end(high).as_ref());
        }
        source.rows * share
    }

    fn scan(&self, sources: &[Source], scan: &Scan) -> Estimate {
        let own;
        let source = match source_of(sources, scan.at) {
            Some(source) => source,
            None => {
                own = self.table(&scan.table, scan.at);
                &own
            }
        };
        let read = self.read(source, &scan.path);
        let mut rows = source.rows;
        let mut total = read.cost;
        if let Some(filter) = &scan.filter {
            rows *= self.all(sources, parts(filter));
            let (each, once) = self.checks(filter);
            total += read.rows * each + once;
        }
        if scan.path.finds_one() {
            rows = rows.min(1.0);
        }
        let columns = scan.table.columns.iter().enumerate().filter(|(at, column)| {
            let is_read = scan.columns.as_ref().is_none_or(|read| read.get(*at) == Some(&true));
            is_read && !column.dropped
        });
        let width = columns.map(|(at, _)| source.column(at).map_or(8.0, Variable::width)).sum();
        let startup = if scan.path == Path::Full { 0.0 } else { self.costs.lookup() };
        Estimate { rows: rows.min(read.rows.max(1.0)), width, startup: startup.min(total), total }
    }

    /// A join by hash: what it costs besides its sides.
    pub(super) fn hash_cost(&self, outer: f64, inner: f64, keys: usize, pairs: f64) -> f64 {
        let (costs, keys) = (self.costs, keys as f64);
        let off = if costs.hash_joins { 0.0 } else { DISABLED };
        inner * (costs.operator * keys + costs.row)
            + outer * costs.operator * keys.max(1.0)
            + pairs * costs.row
            + off
    }

    fn hash(&self, sources: &[Source], join: &HashJoin) -> Estimate {
        let (outer, inner) = (self.node(sources, &join.outer), self.node(sources, &join.inner));
        let pairs = outer.rows * inner.rows * self.keys_share(sources, join);
        let mut rows = pairs;
        let mut checks = 0.0;
        if let Some(residual) = &join.residual {
            let others: Vec<&Expr> = parts(residual).into_iter().filter(|part| !is_key(join, part)).collect();
            rows *= self.all(sources, others.iter().copied());
            checks = pairs * others.iter().map(|part| self.check(part).0).sum::<f64>();
        }
        let rows = match join.kind {
            HashKind::Inner => rows,
            HashKind::Left => rows.max(outer.rows),
            HashKind::Full => rows.max(outer.rows).max(inner.rows),
        };
        let own = self.hash_cost(outer.rows, inner.rows, join.keys.len(), pairs);
        Estimate {
            rows,
            width: outer.width + inner.width,
            startup: inner.total + outer.startup,
            total: outer.total + inner.total + own + checks,
        }
    }

    /// The share of pairs that hashes find; where the keys have those of a unique index on one side, each row
    /// of the other has one of them.
    pub(super) fn keys_share(&self, sources: &[Source], join: &HashJoin) -> f64 {
        let equalities: Vec<(&Expr, &Expr)> = join.keys.iter().map(|key| (&key.outer, &key.inner)).collect();
        self.joined(sources, &equalities)
    }

    /// The share of pairs of two sides of which all of these are equal.
    pub(super) fn joined(&self, sources: &[Source], equalities: &[(&Expr, &Expr)]) -> f64 {
        let shares = equalities.iter().map(|(left, right)| self.equality(sources, left, right));
        let independent: f64 = shares.product();
        if equalities.len() < 2 {
            return independent;
        }
        let slot = |expr: &Expr| match expr.bare() {
            Expr::Column { depth: 0, slot } => Some(*slot),
            _ => None,
        };
        let sides = [0, 1].map(|side| {
            let of = |pair: &(&Expr, &Expr)| slot(if side == 0 { pair.0 } else { pair.1 });
            equalities.iter().filter_map(of).collect::<Vec<usize>>()
        });
        let mut best = independent;
        for slots in &sides {
            for source in sources {
                let has = |column: &usize| slots.contains(&(source.at + column));
                if source.keys.iter().any(|key| key.len() > 1 && key.iter().all(has)) {
                    best = best.max(1.0 / source.rows.max(1.0));
                }
            }
        }
        best
    }

    fn keyed(&self, sources: &[Source], keyed: &Keyed) -> Estimate {
        let inner = self.node(sources, &keyed.inner);
        let mut rows = inner.rows;
        for key in &keyed.keys {
            rows *= variable(sources, &key.inner).map_or(0.005, |known| 1.0 / known.distinct());
        }
        if let Some(filter) = &keyed.filter {
            rows *= self.all(sources, parts(filter));
        }
        Estimate { rows, startup: inner.total, ..inner }
    }

    /// What a node of a FROM gives and costs.
    pub(crate) fn node(&self, sources: &[Source], node: &Node) -> Estimate {
        let costs = self.costs;
        let filtered = |mut estimate: Estimate, filter: Option<&Expr>| {
            if let Some(filter) = filter {
                let (each, once) = self.checks(filter);
                estimate.total += estimate.rows * each + once;
                estimate.startup += once;
                estimate.rows *= self.all(sources, parts(filter));
            }
            estimate
        };
        let made = |rows: f64, width: usize| {
            let width = 8.0 * width as f64;
            Estimate { rows, width, startup: 0.0, total: rows * costs.row }
        };
        match node {
            Node::One => Estimate { rows: 1.0, width: 0.0, startup: 0.0, total: costs.row },
            Node::Scan(scan) => self.scan(sources, scan),
            Node::System { width, filter, .. } => filtered(made(ROWS_OF_SYSTEM, *width), filter.as_ref()),
            Node::Query { query, filter, .. } => {
                let inner = self.query(query);
                let total = inner.total + inner.rows * costs.row;
                filtered(Estimate { total, ..inner }, filter.as_ref())
            }
            Node::Cte { id, width, filter, .. } => {
                let rows = self.ctes.borrow().get(id).map_or(ROWS_OF_FUNCTION, |(known, _)| known.rows);
                filtered(made(rows, *width), filter.as_ref())
            }
            Node::Functions { calls, width, filter, .. } => {
                let is_set = calls.iter().any(|call| !call.scalar);
                filtered(made(if is_set { ROWS_OF_FUNCTION } else { 1.0 }, *width), filter.as_ref())
            }
            Node::Loop { outer, inner, on, left, .. } => {
                let (outer, inner) = (self.node(sources, outer), self.node(sources, inner));
                let pairs = outer.rows * inner.rows;
                let (mut rows, mut checks) = (pairs, 0.0);
                if let Some(on) = on {
                    rows *= self.all(sources, parts(on));
                    checks = pairs * self.checks(on).0;
                }
                if *left {
                    rows = rows.max(outer.rows);
                }
                let off = if costs.loops { 0.0 } else { DISABLED };
                let total =
                    outer.total + outer.rows.max(1.0) * inner.total + pairs * costs.row + checks + off;
                let startup = outer.startup + inner.startup;
                Estimate { rows, width: outer.width + inner.width, startup, total }
            }
            Node::Hash(join) => self.hash(sources, join),
            Node::Keyed(keyed) => self.keyed(sources, keyed),
            Node::Filter { node, filter } => {
                let inner = self.node(sources, node);
                let is_known = |part: &&Expr| match &**node {
                    Node::Hash(join) if join.kind == HashKind::Inner => is_key(join, part),
                    _ => false,
                };
                let others: Vec<Expr> =
                    parts(filter).into_iter().filter(|part| !is_known(part)).cloned().collect();
                filtered(inner, Expr::all(others).as_ref())
            }
        }
    }

    /// How many groups rows of a level fall into.
    pub(crate) fn groups(&self, sources: &[Source], rows: f64, keys: &[&Expr]) -> f64 {
        // Keys of one table are not more than its rows that are left.
        let mut found = 1.0f64;
        for key in keys {
            found *= match variable(sources, key) {
                Some(known) => known.distinct(),
                None if self.value(key).is_some() => 1.0,
                None => GROUPS,
            };
        }
        found.min(rows).max(1.0)
    }

    /// Groups of a level that is grouped.
    pub(crate) fn grouped(&self, sources: &[Source], rows: f64, select: &Select) -> f64 {
        let Some(group) = &select.group else { return rows };
        let of_set = |set: &Vec<usize>| {
            let keys: Vec<&Expr> = set.iter().map(|at| &group.keys[*at].0).collect();
            self.groups(sources, rows, &keys)
        };
        group.sets.iter().map(of_set).sum()
    }

    /// What sorting so many rows costs.
    pub(crate) fn sorting(&self, rows: f64) -> f64 {
        let rows = rows.max(2.0);
        2.0 * self.costs.operator * rows * rows.log2()
    }

    fn select(&self, select: &Select, visible: usize) -> Estimate {
        let From::Planned(node) = &select.from else {
            let rows = if select.from == From::One { 1.0 } else { ROWS_OF_FUNCTION };
            return Estimate { rows, width: 0.0, startup: 0.0, total: rows * self.costs.row };
        };
        let sources = self.sources(node);
        let mut estimate = self.node(&sources, node);
        let costs = self.costs;
        if let Some(group) = &select.group {
            let groups = self.grouped(&sources, estimate.rows, select);
            let work = (group.keys.len() + group.aggregates.len()) as f64 * costs.operator;
            estimate.total += estimate.rows * work * group.sets.len() as f64;
            estimate.startup = estimate.total;
            estimate.total += groups * costs.row;
            estimate.rows = groups;
            if let Some(having) = &select.having {
                let (each, once) = self.checks(having);
                estimate.total += groups * each + once;
                estimate.rows = (groups * HAVING).max(1.0);
            }
        }
        if !select.windows.is_empty() {
            estimate.total += self.sorting(estimate.rows);
            estimate.startup = estimate.total;
            estimate.total += estimate.rows * select.windows.len() as f64 * costs.row;
        }
        let mut each = 0.0;
        for target in &select.targets {
            let (cost, once) = self.check(target);
            each += cost;
            estimate.total += once;
        }
        estimate.total += estimate.rows * each;
        if !select.sets.is_empty() {
            estimate.rows *= SET;
            estimate.total += estimate.rows * costs.row;
        }
        if select.distinct != DistinctOn::No {
            let keys: Vec<&Expr> = match &select.distinct {
                DistinctOn::Columns(columns) => columns.iter().map(|(at, _)| &select.targets[*at]).collect(),
                _ => select.targets.iter().take(visible).collect(),
            };
            let rows = match select.group {
                Some(_) => estimate.rows,
                None => self.groups(&sources, estimate.rows, &keys),
            };
            estimate.total += estimate.rows * costs.operator * keys.len() as f64;
            estimate.rows = rows;
        }
        estimate
    }

    /// What a query, of which all is planned, gives and costs.
    pub(crate) fn query(&self, query: &Query) -> Estimate {
        if let Some(known) = query.estimate {
            return known;
        }
        for cte in &query.ctes {
            if self.ctes.borrow().contains_key(&cte.id) {
                continue;
            }
            match &cte.kind {
                CteKind::Query(query) => self.add_cte(cte.id, query),
                CteKind::Recursive { base, step, types, .. } => {
                    let first = self.query(base);
                    self.add_opaque_cte(cte.id, first, types.len());
                    let (estimate, _) = self.recursive(base, step);
                    self.add_opaque_cte(cte.id, estimate, types.len());
                }
                CteKind::Change(_) => {}
            }
        }
        let mut estimate = match &query.body {
            Body::Select(select) => self.select(select, query.columns.len()),
            Body::Values(rows) => {
                let rows = rows.len() as f64;
                Estimate { rows, total: rows * self.costs.row, ..Estimate::default() }
            }
            Body::Set { kind, all, left, right, .. } => self.set(*kind, *all, left, right),
        };
        estimate.width = query.columns.iter().map(|column| super::known::usual_width(column.ty.oid)).sum();
        if !query.order.is_empty() {
            estimate.startup = estimate.total + self.sorting(estimate.rows);
            estimate.total = estimate.startup + estimate.rows * self.costs.operator;
        }
        self.limited(query, estimate)
    }

    /// A recursive query: PostgreSQL takes it to go ten rounds.
    pub(crate) fn recursive(&self, base: &Query, step: &Query) -> (Estimate, Estimate) {
        let (first, second) = (self.query(base), self.query(step));
        let rows = first.rows + 10.0 * second.rows;
        let total = first.total + 10.0 * second.total + rows * self.costs.row;
        (Estimate { rows, total, ..first }, second)
    }

    /// Two queries together.
    pub(crate) fn set(&self, kind: SetKind, all: bool, left: &Query, right: &Query) -> Estimate {
        let (left, right) = (self.query(left), self.query(right));
        let rows = match kind {
            SetKind::Union => left.rows + right.rows,
            SetKind::Intersect => left.rows.min(right.rows),
            SetKind::Except => left.rows,
        };
        let checks = if all && kind == SetKind::Union { 0.0 } else { self.costs.operator };
        let total = left.total + right.total + (left.rows + right.rows) * (self.costs.row / 2.0 + checks);
        Estimate { rows, width: left.width, startup: left.startup, total }
    }

    /// Behind LIMIT and OFFSET.
    pub(crate) fn limited(&self, query: &Query, estimate: Estimate) -> Estimate {
        let number = |expr: &Option<Expr>| {
            let known = |expr: &Expr| self.value(expr).and_then(|value| value.as_i64()).map(|it| it as f64);
            expr.as_ref().map(|expr| known(expr).unwrap_or(estimate.rows * LIMITED))
        };
        let (limit, offset) = (number(&query.limit), number(&query.offset).unwrap_or(0.0));
        if limit.is_none() && query.offset.is_none() {
            return estimate;
        }
        let rows = estimate.rows.max(1.0);
        let skipped = offset.clamp(0.0, rows);
        let given = limit.unwrap_or(f64::MAX).clamp(1.0, (rows - skipped).max(1.0));
        let each = (estimate.total - estimate.startup) / rows;
        let startup = estimate.startup + skipped * each;
        Estimate { rows: given, startup, total: startup + given * each, ..estimate }
    }
}

/// Whether a condition is that of a key of a join.
pub(crate) fn is_key(join: &HashJoin, condition: &Expr) -> bool {
    let Expr::Call { head, args, .. } = condition else { return false };
    let [left, right] = args.as_slice() else { return false };
    head.operator.is_some_and(|operator| operator.name == "=")
        && join
            .keys
            .iter()
            .any(|key| (&key.outer, &key.inner) == (left, right) || (&key.inner, &key.outer) == (left, right))
}

/// The column of a table that an index has at a place.
fn plain(index: &Index, at: usize) -> Option<usize> {
    match index.columns.get(at)?.of {
        Indexed::Column(number) => Some(usize::from(number)),
        Indexed::Expression { .. } => None,
    }
}
