//! Planning of whole statements: every level's FROM, every query within an expression.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use super::reading::{reads_more_than_keys, reads_several};
use super::steady::{self, Varying, looks_outside};
use super::{Estimator, Node, Path, join};
use crate::catalog::object::{Indexed, Object};
use crate::catalog::privilege::{self, Need};
use crate::catalog::view::CatalogView;
use crate::error::SqlError;
use crate::tree::{
    Body, BoundStatement, Change, Cte, CteKind, DistinctOn, Expr, From, Late, Memo, Query, Select, SortKey,
    SubqueryKind,
};
use crate::types::Oid;
use crate::types::context::EvalContext;

/// A statement ready to run.
#[derive(Clone, Debug)]
pub(crate) struct PlannedStatement {
    pub(crate) statement: BoundStatement,
    /// How many results of queries within it can be kept while it runs.
    pub(crate) caches: usize,
    /// How many WITH queries it has.
    pub(crate) ctes: usize,
    /// Parts of it are run when others have changed rows: these are remembered as they were.
    pub(crate) remembers: bool,
    /// It does nothing but read.
    pub(crate) only_reads: bool,
    /// It does, and reads so much that others would meet its locks.
    pub(crate) reads_much: bool,
    /// It looks at more than one row by its whole key: all of them are to be as of one moment.
    pub(crate) reads_several: bool,
    /// What whoever runs it must be allowed to do.
    pub(crate) needs: Vec<Need>,
    /// Tables and views that it looks at, and those that its changes lead to.
    pub(crate) relations: Vec<Oid>,
    /// The error of a part that is constant: whoever runs it is told.
    pub(crate) failing: Option<SqlError>,
}

/// The relations that a statement with these needs uses: of tables that it changes also those that foreign
/// keys lead to.
pub(crate) fn relations_of(store: &dyn CatalogView, needs: &[Need]) -> Vec<Oid> {
    let mut relations = BTreeSet::new();
    let mut changed: Vec<Oid> = Vec::new();
    for need in needs {
        if let Some(Object::Table(_) | Object::View(_)) = store.object(need.object).as_deref() {
            relations.insert(need.object);
            let changes = privilege::INSERT | privilege::UPDATE | privilege::DELETE;
            changed.extend((need.bits & changes != 0).then_some(need.object));
        }
    }
    while let Some(oid) = changed.pop() {
        let object = store.object(oid);
        let Some(Object::Table(table)) = object.as_deref() else { continue };
        relations.extend(table.parents());
        let children = store.referencing(oid).into_iter().map(|child| child.oid);
        changed.extend(children.filter(|child| relations.insert(*child)));
    }
    relations.into_iter().collect()
}

pub(crate) struct Planner<'a> {
    pub(super) store: &'a dyn CatalogView,
    pub(super) estimator: Estimator<'a>,
    caches: Cell<usize>,
    /// The WITH queries that give few rows.
    pub(super) few: RefCell<BTreeSet<usize>>,
    pub(super) varying: Varying,
}

/// What costs more, some 50,000 rows of a table in their order, reads much.
const MUCH: f64 = 1_000.0;
/// Results are kept by so many values at most.
const MEMO_VALUES: usize = 8;

/// Whether a planned query reads rows, and not only what is handed to it.
fn reads(query: &Query) -> bool {
    match &query.body {
        Body::Select(select) => {
            let From::Planned(node) = &select.from else { return true };
            !matches!(**node, Node::One | Node::Functions { .. })
        }
        Body::Values(_) => false,
        Body::Set { left, right, .. } => reads(left) || reads(right),
    }
}

/// Whether a planned query finds its rows by hash.
fn is_keyed(query: &Query) -> bool {
    let Body::Select(select) = &query.body else { return false };
    matches!(&select.from, From::Planned(node) if matches!(**node, Node::Keyed(_)))
}

/// Does any part of the statement run, or ask what was changed, when rows have been changed by it?
fn remembers(statement: &mut BoundStatement) -> bool {
    if statement.ctes().iter().any(|cte| matches!(cte.kind, CteKind::Change(_))) {
        return true;
    }
    let returning = match statement {
        BoundStatement::Query(_) => return false,
        BoundStatement::Change(Change::Insert(insert)) => {
            if insert.conflict.as_ref().is_some_and(|conflict| conflict.update.is_some()) {
                return true;
            }
            &mut insert.returning
        }
        BoundStatement::Change(Change::Update(update)) => &mut update.returning,
        BoundStatement::Change(Change::Delete(delete)) => &mut delete.returning,
        BoundStatement::Change(Change::Merge(_)) => return true,
    };
    let mut reads = false;
    for target in returning.iter_mut().flat_map(|returning| &mut returning.targets) {
        target.walk(0, &mut |part, _| {
            reads |= matches!(part, Expr::Subquery(_));
            reads
        });
    }
    reads
}

impl<'a> Planner<'a> {
    pub(crate) fn plan(
        store: &'a dyn CatalogView,
        ctx: EvalContext<'a>,
        mut statement: BoundStatement,
        ctes: usize,
    ) -> PlannedStatement {
        let planner = Planner::new(store, ctx, steady::varying(&mut statement));
        let mut has_inner = false;
        match &mut statement {
            BoundStatement::Query(query) => {
                query.walk(0, &mut |part, _| {
                    has_inner |= matches!(part, Expr::Subquery(_));
                    planner.number(part)
                });
                planner.query(query);
                steady::pass_once(query);
            }
            BoundStatement::Change(change) => {
                change.walk(0, &mut |part, _| {
                    has_inner |= matches!(part, Expr::Subquery(_));
                    planner.number(part)
                });
                planner.change(change);
            }
        }
        let remembers = remembers(&mut statement);
        let (only_reads, reads_much) = match &statement {
            BoundStatement::Query(query) => {
                let only_reads = !steady::touches(query, has_inner);
                let may = only_reads && (has_inner || reads_more_than_keys(query));
                (only_reads, may && planner.estimator.query(query).total > MUCH)
            }
            BoundStatement::Change(_) => (false, false),
        };
        let reads_several = has_inner || reads_several(&statement);
        let (needs, relations, caches) = (Vec::new(), Vec::new(), planner.caches.get());
        PlannedStatement {
            statement,
            caches,
            ctes,
            remembers,
            only_reads,
            reads_much,
            reads_several,
            needs,
            relations,
            failing: None,
        }
    }

    /// An expression on its own: a default, a check.
    pub(crate) fn plan_expr(store: &'a dyn CatalogView, ctx: EvalContext<'a>, expr: &mut Expr) -> usize {
        let planner = Planner::new(store, ctx, Varying::new());
        expr.walk(0, &mut |part, _| planner.number(part));
        planner.expr(expr);
        planner.caches.get()
    }

    fn new(store: &'a dyn CatalogView, ctx: EvalContext<'a>, varying: Varying) -> Planner<'a> {
        let estimator = Estimator::new(store, ctx);
        Planner { store, estimator, caches: Cell::new(0), few: RefCell::default(), varying }
    }

    /// A query that does not look outside is run once. Its result has a number before parts of the plan are
    /// copied: an access by index and the condition that it comes from then see the same rows, also those of
    /// `SKIP LOCKED`, which are others each time.
    fn number(&self, part: &mut Expr) -> bool {
        if let Expr::Subquery(subquery) = part
            && self.is_one(&subquery.query)
        {
            subquery.cache = Some(self.new_cache());
        }
        if let Expr::AnyArray { array, cache, .. } = part
            && !matches!(**array, Expr::Const(_) | Expr::Param(_) | Expr::Column { .. })
            && join::looks_at(array).is_empty()
            && self.expr_looks(array).is_fixed()
        {
            *cache = Some(self.new_cache());
        }
        false
    }

    pub(super) fn new_cache(&self) -> usize {
        let number = self.caches.get();
        self.caches.set(number + 1);
        number
    }

    fn expr(&self, expr: &mut Expr) {
        expr.walk(0, &mut |part, _| {
            let Expr::Subquery(subquery) = part else { return false };
            if let SubqueryKind::Any { left, .. } = &mut subquery.kind {
                left.iter_mut().for_each(|expr| self.expr(expr));
            }
            self.inner_query(&mut subquery.query);
            if subquery.cache.is_none()
                && !(subquery.kind == SubqueryKind::Exists && is_keyed(&subquery.query))
            {
                subquery.memo = self.memo(&subquery.query);
            }
            true
        });
    }

    /// How the results of a planned query that looks at rows around it are kept; `None` where they are not.
    pub(super) fn memo(&self, query: &Query) -> Option<Memo> {
        let looks = self.query_looks(query);
        let told = (1..=MEMO_VALUES).contains(&looks.outside.len());
        if !reads(query) || !looks.is_steady || looks.unnamed || !told {
            return None;
        }
        let by = looks.outside.iter().map(|(depth, slot)| Expr::Column { depth: depth - 1, slot: *slot });
        Some(Memo { cache: self.new_cache(), by: by.collect() })
    }

    fn exprs<'e>(&self, exprs: impl IntoIterator<Item = &'e mut Expr>) {
        exprs.into_iter().for_each(|expr| self.expr(expr));
    }

    fn ctes(&self, ctes: &mut [Cte]) {
        for cte in ctes {
            cte.eager = match &cte.kind {
                CteKind::Query(query) => looks_outside(query),
                CteKind::Recursive { base, step, .. } => looks_outside(base) || looks_outside(step),
                CteKind::Change(_) => cte.eager,
            };
            match &mut cte.kind {
                CteKind::Query(query) => {
                    if join::gives_few(query) {
                        self.few.borrow_mut().insert(cte.id);
                    }
                    self.inner_query(query);
                    self.estimator.add_cte(cte.id, query);
                }
                CteKind::Recursive { base, step, types, .. } => {
                    self.inner_query(base);
                    let first = self.estimator.query(base);
                    self.estimator.add_opaque_cte(cte.id, first, types.len());
                    self.inner_query(step);
                    let (estimate, _) = self.estimator.recursive(base, step);
                    self.estimator.add_opaque_cte(cte.id, estimate, types.len());
                }
                CteKind::Change(change) => self.change(change),
            }
        }
    }

    /// A query within a statement, of which others ask what it costs.
    pub(super) fn inner_query(&self, query: &mut Query) {
        self.query(query);
        query.estimate = Some(self.estimator.query(query));
    }

    fn query(&self, query: &mut Query) {
        self.ctes(&mut query.ctes);
        match &mut query.body {
            Body::Select(select) => {
                self.select(select);
                if sorted(self.store, select, &query.order) {
                    query.order.clear();
                }
                lock_late(select, !query.order.is_empty());
            }
            Body::Values(rows) => rows.iter_mut().for_each(|row| self.exprs(row)),
            Body::Set { left, right, .. } => {
                self.inner_query(left);
                self.inner_query(right);
            }
        }
        self.exprs(query.limit.iter_mut().chain(&mut query.offset));
    }

    fn select(&self, select: &mut Select) {
        let from = std::mem::replace(&mut select.from, From::One);
        let mut conjuncts = Vec::new();
        if let Some(filter) = select.filter.take() {
            filter.conjuncts(&mut conjuncts);
        }
        let mut node = match select.locks.is_empty() {
            true => self.looked_up(from, conjuncts),
            false => self.from(from, conjuncts, &Vec::new(), false),
        };
        node.each_expr(&mut |expr| self.expr(expr));
        for (at, strength, wait) in &select.locks {
            node.each_scan(&mut |scan| {
                if scan.at == *at {
                    scan.lock = Some((*strength, *wait));
                }
            });
        }
        select.from = From::Planned(Box::new(node));
        self.exprs(&mut select.having);
        self.exprs(&mut select.targets);
        if let Some(group) = &mut select.group {
            self.exprs(group.keys.iter_mut().map(|(key, _)| key));
            group.aggregates.iter_mut().for_each(|call| call.walk(0, &mut |part, _| self.whole(part)));
        }
        select.windows.iter_mut().for_each(|call| call.walk(0, &mut |part, _| self.whole(part)));
        select.sets.iter_mut().for_each(|call| call.walk(0, &mut |part, _| self.whole(part)));
        only_wanted_columns(select);
    }

    fn whole(&self, expr: &mut Expr) -> bool {
        self.expr(expr);
        true
    }

    fn change(&self, change: &mut Change) {
        match change {
            Change::Insert(insert) => {
                self.ctes(&mut insert.ctes);
                insert.source.iter_mut().for_each(|query| self.query(query));
                self.exprs(&mut insert.values);
                if let Some((set, filter)) = insert.conflict.as_mut().and_then(|c| c.update.as_mut()) {
                    self.exprs(set.iter_mut().map(|(_, expr)| expr).chain(filter));
                }
                self.exprs(insert.returning.iter_mut().flat_map(|r| &mut r.targets));
            }
            Change::Update(update) => {
                self.ctes(&mut update.ctes);
                self.target(&mut update.from, &mut update.filter);
                self.exprs(update.set.iter_mut().map(|(_, expr)| expr));
                self.exprs(update.returning.iter_mut().flat_map(|r| &mut r.targets));
            }
            Change::Delete(delete) => {
                self.ctes(&mut delete.ctes);
                self.target(&mut delete.from, &mut delete.filter);
                self.exprs(delete.returning.iter_mut().flat_map(|r| &mut r.targets));
            }
            Change::Merge(merge) => {
                self.ctes(&mut merge.ctes);
                self.target(&mut merge.from, &mut None);
                self.exprs(merge.whens.iter_mut().flat_map(|when| when.exprs()));
            }
        }
    }

    fn target(&self, from: &mut From, filter: &mut Option<Expr>) {
        let mut conjuncts = Vec::new();
        if let Some(filter) = filter.take() {
            filter.conjuncts(&mut conjuncts);
        }
        // Its table at slot 0 is the target.
        let mut node = self.from(std::mem::replace(from, From::One), conjuncts, &Vec::new(), true);
        node.each_expr(&mut |expr| self.expr(expr));
        node.each_scan(&mut |scan| scan.target |= scan.at == 0);
        *from = From::Planned(Box::new(node));
    }
}

impl Node {
    fn each_scan(&mut self, visit: &mut dyn FnMut(&mut super::Scan)) {
        match self {
            Node::Scan(scan) => visit(scan),
            Node::Loop { outer, inner, .. } => {
                outer.each_scan(visit);
                inner.each_scan(visit);
            }
            Node::Hash(join) => {
                join.outer.each_scan(visit);
                join.inner.each_scan(visit);
            }
            Node::Keyed(keyed) => keyed.inner.each_scan(visit),
            Node::Filter { node, .. } => node.each_scan(visit),
            _ => {}
        }
    }

    /// The slots of rows that joins keep, and clear.
    fn each_kept(&mut self, visit: &mut dyn FnMut(&mut join::Slots)) {
        match self {
            Node::Loop { outer, inner, inner_slots, .. } => {
                visit(inner_slots);
                outer.each_kept(visit);
                inner.each_kept(visit);
            }
            Node::Hash(join) => {
                visit(&mut join.inner_slots);
                visit(&mut join.outer_slots);
                join.outer.each_kept(visit);
                join.inner.each_kept(visit);
            }
            Node::Keyed(keyed) => {
                visit(&mut keyed.slots);
                keyed.inner.each_kept(visit);
            }
            Node::Filter { node, .. } => node.each_kept(visit),
            _ => {}
        }
    }

    /// The expressions of this level (not those of derived tables, which were planned with their queries).
    fn each_expr(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        match self {
            Node::Loop { outer, inner, on, .. } => {
                outer.each_expr(visit);
                inner.each_expr(visit);
                on.iter_mut().for_each(visit);
            }
            Node::Hash(join) => {
                join.outer.each_expr(visit);
                join.inner.each_expr(visit);
                for key in &mut join.keys {
                    visit(&mut key.outer);
                    visit(&mut key.inner);
                }
                join.residual.iter_mut().for_each(visit);
            }
            Node::Keyed(keyed) => {
                keyed.inner.each_expr(visit);
                for key in &mut keyed.keys {
                    visit(&mut key.outer);
                    visit(&mut key.inner);
                }
                keyed.checks.iter_mut().chain(&mut keyed.filter).for_each(visit);
            }
            Node::Filter { node, filter } => {
                node.each_expr(visit);
                visit(filter);
            }
            Node::Query { filter, .. } => filter.iter_mut().for_each(visit),
            other => other.walk(0, &mut |expr, _| {
                visit(expr);
                true
            }),
        }
    }
}

/// Tells each scan of a level which of its columns the level looks at. Slots of a grouped row count as if
/// they were columns, which is a column too many at worst.
fn only_wanted_columns(select: &mut Select) {
    let mut wanted = vec![false; select.slots];
    select.walk(0, &mut |part, depth| {
        let slots = join::named(part, depth);
        let end = wanted.len();
        wanted[slots.start.min(end)..slots.end.min(end)].fill(true);
        false
    });
    let From::Planned(node) = &mut select.from else { return };
    node.each_scan(&mut |scan| {
        let own = &wanted[scan.at..scan.at + scan.table.columns.len()];
        scan.columns = own.contains(&false).then(|| own.into());
    });
    // Names of rows, which are locked late, stand behind their columns.
    if select.locks.is_empty() {
        node.each_kept(&mut |slots| *slots = narrowed(slots, &wanted));
    }
}

/// The runs of these slots that somebody looks at.
fn narrowed(slots: &[(usize, usize)], wanted: &[bool]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for slot in slots.iter().flat_map(|(at, width)| *at..at + width).filter(|slot| wanted[*slot]) {
        match runs.last_mut() {
            Some((at, width)) if *at + *width == slot => *width += 1,
            _ => runs.push((slot, 1)),
        }
    }
    runs
}

/// SKIP LOCKED locks what is given, and not what a join or a sort looks at: then its tables' rows are carried
/// along, behind the level's output, and locked when their turn comes.
fn lock_late(select: &mut Select, sorts: bool) {
    let From::Planned(node) = &mut select.from else { return };
    if matches!(**node, Node::Scan(_)) && !sorts {
        return;
    }
    let (targets, late) = (&mut select.targets, &mut select.late);
    node.each_scan(&mut |scan| {
        if scan.skips() {
            scan.target = true;
            late.push(Late { table: scan.table.clone(), at: targets.len() });
            let slots = scan.at..=scan.at + scan.table.columns.len();
            targets.extend(slots.map(|slot| Expr::Column { depth: 0, slot }));
        }
    });
}

/// Lets an index scan give the order that is asked for, if one can.
fn sorted(store: &dyn CatalogView, select: &mut Select, order: &[SortKey]) -> bool {
    let plain = select.group.is_none() && select.windows.is_empty() && select.sets.is_empty();
    let From::Planned(node) = &mut select.from else { return false };
    let Node::Scan(scan) = &mut **node else { return false };
    if order.is_empty() || !plain || select.distinct != DistinctOn::No {
        return false;
    }
    let mut wanted = Vec::new();
    for key in order {
        let Expr::Column { depth: 0, slot } = select.targets[key.column].bare() else { return false };
        if key.nulls_first != key.descending || key.descending != order[0].descending {
            return false;
        }
        wanted.push(slot - scan.at);
    }
    if scan.full() {
        for index in store.indexes(scan.table.oid) {
            if index.valid
                && index.predicate.is_none()
                && leads(&index.columns, 0, &wanted)
                && store.ordered(&index)
            {
                let (equal, low, high) = (Vec::new(), None, None);
                scan.path = Path::Index { index, equal, low, high, reverse: order[0].descending };
                return true;
            }
        }
        return false;
    }
    let Path::Index { index, equal, reverse, .. } = &mut scan.path else { return false };
    // Columns that are equal to one value need no order.
    let fixed: Vec<usize> = index.columns[..equal.len()].iter().filter_map(plain_column).collect();
    wanted.retain(|column| !fixed.contains(column));
    let fits = leads(&index.columns, equal.len(), &wanted) && store.ordered(index);
    if fits {
        *reverse = order[0].descending;
    }
    fits
}

fn plain_column(column: &crate::catalog::object::IndexColumn) -> Option<usize> {
    match column.of {
        Indexed::Column(number) if !column.descending && !column.nulls_first => Some(usize::from(number)),
        _ => None,
    }
}

fn leads(columns: &[crate::catalog::object::IndexColumn], from: usize, wanted: &[usize]) -> bool {
    columns.len() >= from + wanted.len()
        && columns[from..].iter().zip(wanted).all(|(column, wanted)| plain_column(column) == Some(*wanted))
}
