//! Running the FROM of a level: scans, joins.
//!
//! Rows are not copied between the parts of a join: each part writes its slots of the level's one row and
//! calls what comes next.
use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::join::clear;
use super::measure;
use super::own::{lies_within, plain_columns};
use super::spill::TupleStore;
use super::store::{Cursor, Edge, Purpose, Range, RowKey, name_of};
use super::{Env, Exec, Row};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::ast::LockWait;
use crate::plan::{KeyPart, Node, Path, Scan};
use crate::storage::access::is_conflict;
use crate::tree::{Expr, SetCall};
use crate::types::value::Value;
use crate::types::{Oid, oid, order};

/// Called for each row of a level; false: no more are wanted.
pub(super) type Next<'n> = &'n mut dyn FnMut(&mut Row) -> Result<bool>;

/// How many rows the first call of a scan asks for; later ones ask for more.
pub(super) const BATCH_FIRST: usize = 16;
const BATCH_MOST: usize = 512;

/// A value as an index's column has it.
enum Key {
    Is(Value),
    /// Smaller than every value of the column's type.
    Below,
    Above,
    Null,
}

fn key_value(value: Value, source: Oid, column: Oid) -> Key {
    if value.is_null() {
        return Key::Null;
    }
    if source == column || !matches!(column, oid::INT2 | oid::INT4 | oid::INT8) {
        return Key::Is(value);
    }
    let Some(number) = value.as_i64() else { return Key::Is(value) };
    let converted = match column {
        oid::INT2 => i16::try_from(number).ok().map(Value::Int2),
        oid::INT4 => i32::try_from(number).ok().map(Value::Int4),
        _ => Some(Value::Int8(number)),
    };
    match converted {
        Some(value) => Key::Is(value),
        None if number < 0 => Key::Below,
        None => Key::Above,
    }
}

impl<'p> Exec<'p> {
    /// The rows of a node, one after the other; false if no more are wanted.
    pub(super) fn run_node(
        &self,
        node: &'p Node,
        row: &mut Row,
        outer: Option<&Env<'_>>,
        next: Next<'_>,
    ) -> Result<bool> {
        let Some(meter) = &self.meter else { return self.run_unmeasured(node, row, outer, next) };
        let mut run = meter.enter(self.store, measure::address(node), self.clock(meter));
        let ended = self.run_unmeasured(node, row, outer, &mut |row| {
            meter.give(self.store, &mut run, self.clock(meter));
            let more = next(row);
            meter.resume(self.store, &mut run, self.clock(meter));
            more
        });
        meter.leave(self.store, &run, self.clock(meter));
        ended
    }

    fn run_unmeasured(
        &self,
        node: &'p Node,
        row: &mut Row,
        outer: Option<&Env<'_>>,
        next: Next<'_>,
    ) -> Result<bool> {
        match node {
            Node::One => next(row),
            Node::Scan(scan) => self.scan(scan, row, outer, next),
            Node::System { table, at, filter, key, .. } => {
                let value = match key {
                    Some((column, value)) => Some((*column, self.eval(value, &Env { row, outer })?)),
                    None => None,
                };
                if value.as_ref().is_some_and(|(_, value)| value.is_null()) {
                    return Ok(true);
                }
                let rows = self
                    .ctx
                    .system
                    .relation_rows(*table, value.as_ref().map(|(column, value)| (*column, value)))?;
                self.each(&rows, *at, filter.as_ref(), row, outer, next)
            }
            Node::Query { query, lateral, at, filter, cache, memo, .. } => {
                if let Some(cache) = cache {
                    return self.cached_query(*cache, query, *at, filter.as_ref(), row, outer, next);
                }
                let visible = if *lateral { row.clone() } else { Row::new() };
                let env = Env { row: &visible, outer };
                if let Some(memo) = memo {
                    let rows = self.memoized(memo, query, &env, &env, usize::MAX)?;
                    return self.each_kept(&rows, *at, filter.as_ref(), row, outer, next);
                }
                self.repeating(|| {
                    self.run_query(query, Some(&env), &mut |found| {
                        row[*at..].iter_mut().zip(found).for_each(|(slot, value)| *slot = value);
                        if self.holds(filter.as_ref(), &Env { row, outer })? { next(row) } else { Ok(true) }
                    })
                })
            }
            Node::Cte { id, at, width, filter } => self.scan_cte(*id, &mut |found| {
                row[*at..*at + width].clone_from_slice(&found[..*width]);
                if self.holds(filter.as_ref(), &Env { row, outer })? { next(row) } else { Ok(true) }
            }),
            Node::Functions { calls, ordinality, at, width, filter } => {
                if let [call] = calls.as_slice()
                    && !call.scalar
                {
                    return self.series(call, *ordinality, (*at, *width), filter.as_ref(), row, outer, next);
                }
                let rows = self.function_rows(calls, *ordinality, *width, row, outer)?;
                self.each(&rows, *at, filter.as_ref(), row, outer, next)
            }
            Node::Loop { outer: first, inner, on, left, inner_slots } => {
                self.run_node(first, row, outer, &mut |row| {
                    let mut matched = false;
                    let more = self.repeating(|| {
                        self.run_node(inner, row, outer, &mut |row| {
                            if !self.holds(on.as_ref(), &Env { row, outer })? {
                                return Ok(true);
                            }
                            matched = true;
                            next(row)
                        })
                    })?;
                    if *left && !matched && more {
                        clear(row, inner_slots);
                        return next(row);
                    }
                    Ok(more)
                })
            }
            Node::Hash(join) => self.hash_join(join, row, outer, next),
            Node::Keyed(keyed) => self.keyed(keyed, row, outer, next),
            Node::Filter { node, filter } => self.run_node(node, row, outer, &mut |row| {
                if self.holds(Some(filter), &Env { row, outer })? { next(row) } else { Ok(true) }
            }),
        }
    }

    fn each(
        &self,
        rows: &[Row],
        at: usize,
        filter: Option<&'p Expr>,
        row: &mut Row,
        outer: Option<&Env<'_>>,
        next: Next<'_>,
    ) -> Result<bool> {
        for found in rows {
            if !self.offer(found, (at, filter), row, outer, next)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn each_kept(
        &self,
        rows: &TupleStore,
        at: usize,
        filter: Option<&'p Expr>,
        row: &mut Row,
        outer: Option<&Env<'_>>,
        next: Next<'_>,
    ) -> Result<bool> {
        rows.each(|found| self.offer(found, (at, filter), row, outer, next))
    }

    /// Puts what was found into the row, and gives that on if the filter holds.
    fn offer(
        &self,
        found: &[Value],
        (at, filter): (usize, Option<&'p Expr>),
        row: &mut Row,
        outer: Option<&Env<'_>>,
        next: Next<'_>,
    ) -> Result<bool> {
        row[at..at + found.len()].clone_from_slice(found);
        if self.holds(filter, &Env { row, outer })? { next(row) } else { Ok(true) }
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of the node")]
    fn cached_query(
        &self,
        cache: usize,
        query: &'p crate::tree::Query,
        at: usize,
        filter: Option<&'p Expr>,
        row: &mut Row,
        outer: Option<&Env<'_>>,
        next: Next<'_>,
    ) -> Result<bool> {
        let kept = self.caches.borrow()[cache].rows.clone();
        if let Some(rows) = kept {
            return self.each_kept(&rows, at, filter, row, outer, next);
        }
        // Rows that nobody asks for again are not kept.
        let keeps = self.repeats.get();
        let (mut rows, mut more) = (self.kept_rows(), true);
        self.run_query(query, None, &mut |found| {
            if keeps {
                rows.push(found.clone())?;
            }
            row[at..].iter_mut().zip(found).for_each(|(slot, value)| *slot = value);
            if self.holds(filter, &Env { row, outer })? {
                more = next(row)?;
            }
            Ok(more)
        })?;
        if more && keeps {
            self.caches.borrow_mut()[cache].rows = Some(std::rc::Rc::new(rows));
        }
        Ok(more)
    }

    /// The rows of one function, each as it is made: there may be more of them than fit in memory.
    #[allow(clippy::too_many_arguments, reason = "the parts of the node")]
    fn series(
        &self,
        call: &'p SetCall,
        ordinality: bool,
        (at, width): (usize, usize),
        filter: Option<&'p Expr>,
        row: &mut Row,
        outer: Option<&Env<'_>>,
        next: Next<'_>,
    ) -> Result<bool> {
        let args = self.arguments(&call.args, call.spread, &Env { row, outer })?;
        let ctx = self.ctx.for_call(&call.head.types, call.head.result);
        let told = match args.as_slice() {
            [only] => crate::func::told_rows(&ctx, call.head.function.source, only, &call.told),
            _ => None,
        };
        let rows: crate::types::context::SetRows = match told {
            Some(rows) => Box::new(rows?.into_iter().map(Ok)),
            None => call.head.function.call_set(&ctx, &args)?,
        };
        for (number, found) in rows.enumerate() {
            let mut found = found?;
            found.resize(call.width, Value::Null);
            if ordinality {
                found.push(Value::Int8(number as i64 + 1));
            }
            found.resize(width, Value::Null);
            row.splice(at..at + width, found);
            if self.holds(filter, &Env { row, outer })? && !next(row)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn function_rows(
        &self,
        calls: &'p [SetCall],
        ordinality: bool,
        width: usize,
        row: &Row,
        outer: Option<&Env<'_>>,
    ) -> Result<Vec<Row>> {
        let env = Env { row, outer };
        let results = calls.iter().map(|call| self.set_rows(call, &env)).collect::<Result<Vec<_>>>()?;
        let longest = results.iter().map(Vec::len).max().unwrap_or(0);
        let mut rows = Vec::with_capacity(longest);
        for at in 0..longest {
            let mut joined = Vec::with_capacity(width);
            for (call, result) in calls.iter().zip(&results) {
                match result.get(at) {
                    Some(values) => joined.extend(values.iter().take(call.width).cloned()),
                    None => joined.extend(std::iter::repeat_n(Value::Null, call.width)),
                }
            }
            if ordinality {
                joined.push(Value::Int8(at as i64 + 1));
            }
            joined.resize(width, Value::Null);
            rows.push(joined);
        }
        Ok(rows)
    }

    fn scan(&self, scan: &'p Scan, row: &mut Row, outer: Option<&Env<'_>>, next: Next<'_>) -> Result<bool> {
        if scan.table.materialized.as_ref().is_some_and(|it| !it.populated) {
            let message = format!("materialized view \"{}\" has not been populated", scan.table.name);
            let error = SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message);
            return Err(error.hint("Use the REFRESH MATERIALIZED VIEW command."));
        }
        let mut ranges = Vec::new();
        self.ranges(&scan.path, &Env { row, outer }, &mut ranges)?;
        let several = ranges.len() > 1;
        let mut seen = BTreeSet::new();
        for mut range in ranges {
            if !scan.target && scan.lock.is_none() {
                range.columns.clone_from(&scan.columns);
            }
            if !self.scan_range(scan, &range, several.then_some(&mut seen), row, outer, next)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn scan_range(
        &self,
        scan: &'p Scan,
        range: &Range,
        mut seen: Option<&mut BTreeSet<RowKey>>,
        row: &mut Row,
        outer: Option<&Env<'_>>,
        next: Next<'_>,
    ) -> Result<bool> {
        // Late: it is taken by whoever knows which rows are given.
        let (skips, late) = (scan.skips(), scan.skips() && scan.target);
        let changes = !skips && (scan.target || scan.lock.is_some());
        let waits = !matches!(scan.lock, Some((_, LockWait::Error)));
        let locks = changes && self.store.locks_found(&scan.table, range, waits)?;
        let purpose = match () {
            () if skips => Purpose::Free,
            () if changes && !locks => Purpose::Change,
            () => Purpose::Read,
        };
        let edges = if locks { plain_columns(&self.ctx, &scan.table, range) } else { Vec::new() };
        let takes = skips && !late || locks;
        let (at, width) = (scan.at, scan.table.columns.len());
        let (mut cursor, mut size) = (Cursor::default(), self.first_batch.get());
        let mut own = self.own.seen_by(&self.ctx, &scan.table, range, scan.lock.is_some());
        while !cursor.done {
            self.interrupt.check()?;
            // Where others wait for the worker a step is short: rows of other hosts take messages.
            let most = if self.store.lend() { BATCH_FIRST } else { BATCH_MOST };
            let batch = self.store.scan(&scan.table, range, purpose, &mut cursor, size.min(most));
            let batch = batch.map_err(|error| not_available(scan, error))?;
            for found in own.through(batch, cursor.done) {
                if seen.as_mut().is_some_and(|seen| !seen.insert(found.key)) {
                    continue;
                }
                if takes {
                    row[at..at + width]
                        .iter_mut()
                        .zip(&found.values)
                        .for_each(|(slot, value)| slot.clone_from(value));
                    if !self.holds(scan.filter.as_ref(), &Env { row, outer })? {
                        continue;
                    }
                }
                // What was only looked at may have changed: it is filtered again.
                let taken = match () {
                    () if locks => self.store.lock_found(&scan.table, &found, waits),
                    () if takes => self.store.take_if_free(&scan.table, &found),
                    () => Ok(Some(found)),
                };
                let Some(mut found) = taken.map_err(|error| not_available(scan, error))? else { continue };
                if locks && !lies_within(&edges, range, &found.values) {
                    continue;
                }
                row[at..at + width].swap_with_slice(&mut found.values);
                cursor.reuse(found.values);
                if scan.target {
                    row[at + width] = name_of(&found.key);
                }
                if self.holds(scan.filter.as_ref(), &Env { row, outer })? && !next(row)? {
                    return Ok(false);
                }
            }
            size = (size * 4).min(BATCH_MOST);
        }
        Ok(true)
    }

    /// The ranges that a path reads, its expressions evaluated.
    fn ranges(&self, path: &'p Path, env: &Env<'_>, ranges: &mut Vec<Range>) -> Result<()> {
        match path {
            Path::Full => ranges.push(Range::default()),
            Path::Index { index, equal, low, high, reverse } => {
                let Some(equal) = self.keys(equal, env)? else { return Ok(()) };
                let mut range =
                    Range { index: Some(index.clone()), equal, reverse: *reverse, ..Range::default() };
                for (edge, is_low) in [(low, true), (high, false)] {
                    let Some((part, inclusive)) = edge else { continue };
                    let edge = match self.key(part, env)? {
                        Key::Null => return Ok(()),
                        Key::Is(value) => Some(Edge { value, inclusive: *inclusive }),
                        Key::Below if is_low => None,
                        Key::Above if !is_low => None,
                        Key::Below | Key::Above => return Ok(()),
                    };
                    if is_low { range.low = edge } else { range.high = edge }
                }
                ranges.push(range);
            }
            Path::Points { index, keys } => {
                for key in keys {
                    if let Some(equal) = self.keys(key, env)? {
                        ranges.push(Range { index: Some(index.clone()), equal, ..Range::default() });
                    }
                }
            }
            Path::Elements { index, equal, array, most, element, column } => {
                let Some(equal) = self.keys(equal, env)? else { return Ok(()) };
                let Value::Array(array) = self.eval(array, env)? else { return Ok(()) };
                if array.elements.len() > *most {
                    ranges.push(Range::default());
                    return Ok(());
                }
                for value in &array.elements {
                    if let Key::Is(value) = key_value(value.clone(), *element, *column) {
                        let equal = equal.iter().cloned().chain([value]).collect();
                        ranges.push(Range { index: Some(index.clone()), equal, ..Range::default() });
                    }
                }
            }
            Path::Any(paths) => paths.iter().try_for_each(|path| self.ranges(path, env, ranges))?,
        }
        Ok(())
    }

    fn key(&self, part: &'p KeyPart, env: &Env<'_>) -> Result<Key> {
        Ok(key_value(self.eval(&part.expr, env)?, part.source, part.column))
    }

    /// `None`: one of them equals nothing.
    fn keys(&self, parts: &'p [KeyPart], env: &Env<'_>) -> Result<Option<Vec<Value>>> {
        let mut values = Vec::with_capacity(parts.len());
        for part in parts {
            match self.key(part, env)? {
                Key::Is(value) => values.push(value),
                _ => return Ok(None),
            }
        }
        Ok(Some(values))
    }
}

/// NOWAIT: who does not want to wait for a row is told that, and not that transactions met each other.
fn not_available(scan: &Scan, error: SqlError) -> SqlError {
    match scan.lock {
        Some((_, LockWait::Error)) if is_conflict(&error) => {
            let message = format!("could not obtain lock on row in relation \"{}\"", scan.table.name);
            SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message)
        }
        _ => error,
    }
}

/// Is the value within the edges of a range?
pub(crate) fn within(range: &Range, at: usize, ty: Oid, value: &Value) -> bool {
    if at < range.equal.len() {
        return !value.is_null() && order::compare(ty, value, &range.equal[at]) == Ordering::Equal;
    }
    if range.low.is_none() && range.high.is_none() {
        return true;
    }
    let beyond = |edge: &Option<Edge>, wanted: Ordering| match edge {
        None => true,
        Some(edge) => {
            let order = order::compare(ty, value, &edge.value);
            order == wanted || (edge.inclusive && order == Ordering::Equal)
        }
    };
    !value.is_null() && beyond(&range.low, Ordering::Greater) && beyond(&range.high, Ordering::Less)
}
