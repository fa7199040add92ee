//! Running queries: WITH, bodies, DISTINCT, ORDER BY, LIMIT.

use std::cmp::Ordering;
use std::rc::Rc;

use super::distinct::Distinct;
use super::kept::Kept;
use super::measure::{BODY, DISTINCT, GROUPED, HashUse, Note, SORTED, address};
use super::rows::{self, RowMap};
use super::set_operation::Operation;
use super::spill::Sorter;
use super::store::{Found, named};
use super::table::BATCH_FIRST;
use super::{Emit, Env, Exec, Row};
use crate::error::{Result, SqlError, SqlState};
use crate::tree::{Body, Cte, CteKind, DistinctOn, Expr, From, Late, Query, Select, SetCall};
use crate::types::Oid;
use crate::types::value::{Record, Value};

/// Whether each row of a level's FROM that its condition lets pass is a row of the body.
fn is_plain(body: &Body) -> bool {
    matches!(body, Body::Select(select) if select.group.is_none() && select.windows.is_empty())
}

impl<'p> Exec<'p> {
    /// All rows of a query, its visible columns only; false if the receiver wanted no more.
    pub(crate) fn run_query(
        &self,
        query: &'p Query,
        outer: Option<&Env<'_>>,
        emit: Emit<'_>,
    ) -> Result<bool> {
        self.run_some(query, outer, usize::MAX, emit)
    }

    /// As [`Exec::run_query`], for a receiver that will want no more than `most` rows.
    pub(crate) fn run_some(
        &self,
        query: &'p Query,
        outer: Option<&Env<'_>>,
        most: usize,
        emit: Emit<'_>,
    ) -> Result<bool> {
        let before = self.first_batch.replace(BATCH_FIRST);
        let result = match &self.meter {
            None => self.run_counted(query, outer, most, emit),
            Some(meter) => {
                let mut run = meter.enter(self.store, address(query), self.clock(meter));
                let result = self.run_counted(query, outer, most, &mut |row| {
                    meter.give(self.store, &mut run, self.clock(meter));
                    let more = emit(row);
                    meter.resume(self.store, &mut run, self.clock(meter));
                    more
                });
                meter.leave(self.store, &run, self.clock(meter));
                result
            }
        };
        self.first_batch.set(before);
        result
    }

    fn run_counted(
        &self,
        query: &'p Query,
        outer: Option<&Env<'_>>,
        most: usize,
        emit: Emit<'_>,
    ) -> Result<bool> {
        self.ctes(&query.ctes, outer)?;
        let env = Env { row: &[], outer };
        let offset =
            self.row_count(query.offset.as_ref(), &env, SqlState::INVALID_ROW_COUNT_IN_OFFSET)?.unwrap_or(0);
        let limit = self.row_count(query.limit.as_ref(), &env, SqlState::INVALID_ROW_COUNT_IN_LIMIT)?;
        if limit == Some(0) {
            return Ok(true);
        }
        let (distinct, late) = match &query.body {
            Body::Select(select) => (&select.distinct, select.late.as_slice()),
            _ => (&DistinctOn::No, [].as_slice()),
        };
        let width = query.columns.len();
        let mut window = Limits { offset, limit, taken: 0 };
        if query.order.is_empty() && !matches!(distinct, DistinctOn::Columns(_)) {
            let mut more = true;
            if matches!(distinct, DistinctOn::No) && is_plain(&query.body) {
                let wanted = limit.unwrap_or(u64::MAX).min(most as u64).saturating_add(offset);
                self.first_batch.set(wanted.min(BATCH_FIRST as u64) as usize);
            }
            self.run_distinct(query, distinct, outer, &mut |mut row| {
                if !self.take_late(late, &row)? || !window.take() {
                    return Ok(true);
                }
                row.truncate(width);
                more = emit(row)?;
                Ok(more && !window.full())
            })?;
            return Ok(more);
        }
        // Rows that are passed over, or come twice, are not known before they are in order.
        let firsts = late.is_empty() && !query.with_ties && !matches!(distinct, DistinctOn::Columns(_));
        let wanted = limit.unwrap_or(u64::MAX).min(most as u64).saturating_add(offset);
        let bound = firsts.then(|| usize::try_from(wanted).unwrap_or(usize::MAX));
        let mut sorter = Sorter::new(rows::order_of(query).into_owned(), self.space(), self.interrupt);
        sorter = sorter.bounded(bound);
        self.run_distinct(query, distinct, outer, &mut |row| sorter.push(row).map(|()| true))?;
        let mut sorted = sorter.sorted()?;
        self.note_use(address(query) + SORTED, || Note::Sort(sorted.method()));
        let mut last: Option<Row> = None;
        while let Some(mut row) = sorted.next()? {
            self.yield_point()?;
            if let DistinctOn::Columns(columns) = distinct {
                let alike =
                    |last: &Row| columns.iter().all(|(at, ty)| rows::same(*ty, &last[*at], &row[*at]));
                if last.as_ref().is_some_and(alike) {
                    continue;
                }
            }
            if window.full() {
                let tied = query.with_ties
                    && last
                        .as_ref()
                        .is_some_and(|last| rows::compare(&query.order, last, &row) == Ordering::Equal);
                if !tied {
                    break;
                }
            } else if !self.take_late(late, &row)? || !window.take() {
                if let DistinctOn::Columns(_) = distinct {
                    last = Some(row);
                }
                continue;
            }
            if query.with_ties || matches!(distinct, DistinctOn::Columns(_)) {
                last = Some(row.clone());
            }
            row.truncate(width);
            if !emit(row)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The rows of a query's body, or, with DISTINCT, those of them that differ.
    fn run_distinct(
        &self,
        query: &'p Query,
        distinct: &DistinctOn,
        outer: Option<&Env<'_>>,
        emit: Emit<'_>,
    ) -> Result<bool> {
        let DistinctOn::Rows(types) = distinct else {
            return self.run_body(query, outer, &mut |row| {
                self.count(query, BODY);
                self.count(query, DISTINCT);
                emit(row)
            });
        };
        let (mut seen, mut used) = (Distinct::new(types, self.hash_space()), HashUse::default());
        let mut emit = |row: Row| {
            self.count(query, DISTINCT);
            emit(row)
        };
        let more = self.run_body(query, outer, &mut |row| {
            self.count(query, BODY);
            if seen.is_new(&row)? { emit(row) } else { Ok(true) }
        })?;
        let more = more && self.rest(seen, &mut used, &mut emit)?;
        self.note_use(address(query) + DISTINCT, || Note::Hash(used));
        Ok(more)
    }

    /// Locks the rows that a row was made of, if they are free and as they were when they were looked at.
    fn take_late(&self, late: &[Late], row: &Row) -> Result<bool> {
        for Late { table, at } in late {
            let (values, name) = (&row[*at..at + table.columns.len()], &row[at + table.columns.len()]);
            let Some(key) = named(name) else { continue };
            let seen = Found { key, values: values.to_vec() };
            match self.store.take_if_free(table, &seen)? {
                // By what they are, not by what is equal: NaN is the same, 1.0 and 1.00 are not.
                Some(now) if format!("{:?}", now.values) == format!("{values:?}") => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    fn row_count(&self, expr: Option<&'p Expr>, env: &Env<'_>, state: SqlState) -> Result<Option<u64>> {
        let Some(expr) = expr else { return Ok(None) };
        match self.eval(expr, env)?.as_i64() {
            None => Ok(None),
            Some(count) => match u64::try_from(count) {
                Ok(count) => Ok(Some(count)),
                Err(_) => {
                    let what = if state == SqlState::INVALID_ROW_COUNT_IN_LIMIT { "LIMIT" } else { "OFFSET" };
                    Err(SqlError::new(state, format!("{what} must not be negative")))
                }
            },
        }
    }

    pub(crate) fn ctes(&self, ctes: &'p [Cte], outer: Option<&Env<'_>>) -> Result<()> {
        for cte in ctes {
            self.ctes.borrow_mut()[cte.id] = Some(cte);
            self.cte_rows.borrow_mut()[cte.id] = None;
            if cte.eager {
                self.keep_cte(cte, outer)?;
            }
        }
        Ok(())
    }

    fn keep_cte(&self, cte: &'p Cte, outer: Option<&Env<'_>>) -> Result<()> {
        let mut rows = self.kept_rows();
        self.run_cte(cte.id, &cte.kind, outer, &mut |row| rows.push(row).map(|()| true))?;
        self.cte_rows.borrow_mut()[cte.id] = Some(Rc::new(rows));
        Ok(())
    }

    /// Runs the parts of a statement's WITH that change rows and that nothing has read: the last one first,
    /// as PostgreSQL does, but what it reads before it.
    pub(crate) fn finish_with(&self, ctes: &'p [Cte]) -> Result<()> {
        let changes = |cte: &&Cte| matches!(cte.kind, CteKind::Change(_));
        for last in ctes.iter().rev().filter(changes) {
            for cte in ctes.iter().filter(changes) {
                let wanted = cte.id == last.id || last.reads.contains(&cte.id);
                if wanted && self.cte_rows.borrow()[cte.id].is_none() {
                    self.keep_cte(cte, None)?;
                }
            }
        }
        Ok(())
    }

    /// The rows of a WITH query by its number: kept ones, or made now (and kept if all were wanted).
    pub(crate) fn scan_cte(&self, id: usize, emit: Emit<'_>) -> Result<bool> {
        let kept = self.cte_rows.borrow()[id].clone();
        if let Some(rows) = kept {
            return rows.each(|row| emit(row.to_vec()));
        }
        let cte = self.ctes.borrow()[id].expect("a WITH query is run inside of its query");
        let mut rows = self.kept_rows();
        let mut more = true;
        self.run_cte(id, &cte.kind, None, &mut |row| {
            if !cte.once {
                rows.push(row.clone())?;
            }
            more = emit(row)?;
            Ok(more)
        })?;
        if more {
            self.cte_rows.borrow_mut()[id] = (!cte.once).then(|| Rc::new(rows));
        }
        Ok(more)
    }

    fn run_cte(&self, id: usize, kind: &'p CteKind, outer: Option<&Env<'_>>, emit: Emit<'_>) -> Result<()> {
        match kind {
            CteKind::Query(query) => self.run_query(query, outer, emit).map(|_| ()),
            CteKind::Recursive { base, step, all, types } => {
                self.recursive(id, base, step, *all, types, outer, emit)
            }
            CteKind::Change(change) => self.run_change(change, outer, emit).map(|_| ()),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of the construct")]
    fn recursive(
        &self,
        id: usize,
        base: &'p Query,
        step: &'p Query,
        all: bool,
        types: &[Oid],
        outer: Option<&Env<'_>>,
        emit: Emit<'_>,
    ) -> Result<()> {
        let mut seen = RowMap::new(types.to_vec());
        let mut more = true;
        let mut query = base;
        loop {
            let mut round = self.kept_rows();
            self.repeating(|| {
                self.run_query(query, outer, &mut |row| {
                    if all || seen.insert(&row) {
                        round.push(row.clone())?;
                        more = emit(row)?;
                    }
                    Ok(more)
                })
            })?;
            if !more {
                // Whoever asks again starts anew, and not with the working rows.
                self.cte_rows.borrow_mut()[id] = None;
                return Ok(());
            }
            if round.is_empty() {
                return Ok(());
            }
            self.yield_point()?;
            self.cte_rows.borrow_mut()[id] = Some(Rc::new(round));
            // What the step keeps of queries in it may depend on the working rows.
            self.caches.borrow_mut().fill(Kept::default());
            query = step;
        }
    }

    fn run_body(&self, query: &'p Query, outer: Option<&Env<'_>>, emit: Emit<'_>) -> Result<bool> {
        match &query.body {
            Body::Select(select) => self.run_select(query, select, outer, emit),
            Body::Values(list) => {
                let env = Env { row: &[], outer };
                for exprs in list {
                    if !emit(self.eval_list(exprs, &env)?)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Body::Set { kind, all, left, right, types } => {
                let of = Operation { kind: *kind, all: *all, left, right, types };
                self.set_operation(query, &of, outer, emit)
            }
        }
    }

    fn run_select(
        &self,
        query: &Query,
        select: &'p Select,
        outer: Option<&Env<'_>>,
        emit: Emit<'_>,
    ) -> Result<bool> {
        let From::Planned(node) = &select.from else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a query was run without a plan"));
        };
        let mut row = vec![Value::Null; select.slots];
        let windows = !select.windows.is_empty();
        let mut rows = self.kept_rows();
        let mut give = |row: &Row| match windows {
            true => rows.push(row.clone()).map(|()| true),
            false => self.project(select, row, outer, emit),
        };
        let more = match &select.group {
            Some(group) => {
                let mut used = HashUse::default();
                let more = self.group(node, group, (&mut row, &mut used), outer, &mut |row| {
                    if !self.holds(select.having.as_ref(), &Env { row: &row, outer })? {
                        return Ok(true);
                    }
                    self.count(query, GROUPED);
                    give(&row)
                })?;
                self.note_use(address(query) + GROUPED, || Note::Hash(used));
                more
            }
            None => self.run_node(node, &mut row, outer, &mut |row| give(row))?,
        };
        if !windows || !more {
            return Ok(more);
        }
        self.windows(&select.windows, rows, outer, &mut |row| self.project(select, &row, outer, emit))
    }

    fn project(
        &self,
        select: &'p Select,
        row: &[Value],
        outer: Option<&Env<'_>>,
        emit: Emit<'_>,
    ) -> Result<bool> {
        let env = Env { row, outer };
        if select.sets.is_empty() {
            return emit(self.eval_list(&select.targets, &env)?);
        }
        let mut results = Vec::new();
        for call in &select.sets {
            results.push(self.set_rows(call, &env)?);
        }
        let longest = results.iter().map(Vec::len).max().unwrap_or(0);
        for at in 0..longest {
            let values = results.iter_mut().zip(&select.sets).map(|(rows, call)| match rows.get_mut(at) {
                None => Value::Null,
                Some(row) if row.len() == 1 => row[0].clone(),
                Some(row) => as_record(call, std::mem::take(row)),
            });
            let values = values.collect();
            *self.sets.borrow_mut() = values;
            if !emit(self.eval_list(&select.targets, &env)?)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The rows of a call that returns a set (or of one that does not: one row).
    pub(crate) fn set_rows(&self, call: &'p SetCall, env: &Env<'_>) -> Result<Vec<Row>> {
        let args = self.arguments(&call.args, call.spread, env)?;
        if let [only] = args.as_slice()
            && let Some(rows) = crate::func::told_rows(&self.ctx, call.head.function.source, only, &call.told)
        {
            return rows;
        }
        if call.scalar {
            if call.head.types.is_empty() && !call.args.is_empty() {
                return Ok(vec![args]);
            }
            return Ok(vec![match self.apply(&call.head, &args)? {
                Value::Record(record) if call.width > 1 => record.values.clone(),
                Value::Null if call.width > 1 => vec![Value::Null; call.width],
                value => vec![value],
            }]);
        }
        let ctx = self.ctx.for_call(&call.head.types, call.head.result);
        let mut rows = Vec::new();
        for row in call.head.function.call_set(&ctx, &args)? {
            self.yield_point()?;
            rows.push(row?);
        }
        Ok(rows)
    }
}

fn as_record(call: &SetCall, values: Row) -> Value {
    let columns = &call.head.function.columns;
    let names = columns.iter().map(|(name, _)| std::sync::Arc::from(*name)).collect();
    let types = columns.iter().map(|(_, ty)| *ty).collect();
    Value::Record(std::sync::Arc::new(Record { names, types, values }))
}

/// LIMIT and OFFSET as rows pass.
struct Limits {
    offset: u64,
    limit: Option<u64>,
    taken: u64,
}

impl Limits {
    fn take(&mut self) -> bool {
        if self.offset > 0 {
            self.offset -= 1;
            return false;
        }
        self.taken += 1;
        true
    }

    fn full(&self) -> bool {
        self.limit.is_some_and(|limit| self.taken >= limit)
    }
}
