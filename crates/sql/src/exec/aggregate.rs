//! GROUP BY and aggregates.
//!
//! Invariants:
//! 1. Groups are found by hash. When there is no room for one more, rows of groups that are not there go to
//!    files by the hash of their keys, and each part is grouped by itself afterwards; rows of those that are
//!    there are added to them, so that no state of an aggregate is ever written.
//! 2. Where aggregates have an order, or DISTINCT, rows are sorted by their keys instead: one group at a time
//!    has its rows sorted.
//! 3. Expressions of keys are evaluated once for a row.

use std::borrow::Cow;

use super::measure::{HashUse, Note, SORTED, address};
use super::rows::{RowMap, same};
use super::spill::{Parts, Place, Sorter, Space, footprint, kilobytes};
use super::{Emit, Env, Exec, Row};
use crate::error::{Result, SqlError};
use crate::func::{Accumulator, Body};
use crate::missing;
use crate::plan::Node;
use crate::tree::{AggregateCall, Group, SortKey};
use crate::types::value::Value;

/// About what the state of an aggregate takes besides what it collects.
const STATE: usize = 96;

/// An aggregate over the rows of one group so far.
pub(super) struct Running<'p> {
    state: Box<dyn Accumulator>,
    /// Rows that wait for their order: sort values, arguments.
    waiting: Option<Box<Sorter<'p>>>,
}

impl<'p> Exec<'p> {
    pub(super) fn running(&self, call: &'p AggregateCall) -> Result<Running<'p>> {
        let Body::Aggregate(make) = call.head.function.body else {
            let message = format!("aggregate function {}", call.head.function.name);
            return Err(SqlError::unsupported(message, missing::TYPES));
        };
        let state = make(&self.ctx.for_call(&call.head.types, call.head.result))?;
        if !is_ordered(call) {
            return Ok(Running { state, waiting: None });
        }
        let mut keys: Vec<SortKey> = Vec::new();
        keys.extend(
            call.order.iter().enumerate().map(|(column, (_, key))| SortKey { column, ..key.clone() }),
        );
        // DISTINCT gives its values in their order, as PostgreSQL's sorting does.
        let first = call.order.len();
        keys.extend(call.distinct.iter().enumerate().map(|(at, ty)| plain_key(first + at, *ty)));
        let waiting = Box::new(Sorter::new(keys, self.space(), self.interrupt));
        Ok(Running { state, waiting: Some(waiting) })
    }

    /// Adds a row; bytes that the aggregate takes more.
    pub(super) fn add(
        &self,
        call: &'p AggregateCall,
        running: &mut Running<'p>,
        env: &Env<'_>,
    ) -> Result<usize> {
        if call.filter.is_some() && !self.holds(call.filter.as_ref(), env)? {
            return Ok(0);
        }
        if let Some(waiting) = &mut running.waiting {
            let order = call.order.iter().map(|(expr, _)| expr);
            let row = order.chain(&call.args).map(|expr| self.eval(expr, env)).collect::<Result<Row>>()?;
            waiting.push(row)?;
            return Ok(0);
        }
        let ctx = self.ctx.for_call(&call.head.types, call.head.result);
        let collects = running.state.collects();
        let mut add = |args: &[Value]| -> Result<usize> {
            running.state.add(&ctx, args)?;
            Ok(if collects { footprint(args) } else { 0 })
        };
        match call.args.as_slice() {
            [] => add(&[]),
            [one] => add(&[self.eval(one, env)?]),
            all => add(&self.eval_list(all, env)?),
        }
    }

    pub(super) fn finish(&self, call: &'p AggregateCall, mut running: Running<'p>) -> Result<Value> {
        let ctx = self.ctx.for_call(&call.head.types, call.head.result);
        let Some(waiting) = running.waiting else { return running.state.finish(&ctx) };
        let (mut sorted, mut last) = (waiting.sorted()?, None::<Row>);
        while let Some(mut row) = sorted.next()? {
            self.yield_point()?;
            let args = row.split_off(call.order.len());
            if !call.distinct.is_empty() {
                let alike = |last: &Row| {
                    call.distinct.iter().zip(last.iter().zip(&args)).all(|(ty, (a, b))| same(*ty, a, b))
                };
                if last.as_ref().is_some_and(alike) {
                    continue;
                }
            }
            running.state.add(&ctx, &args)?;
            last = (!call.distinct.is_empty()).then_some(args);
        }
        running.state.finish(&ctx)
    }

    fn states(&self, group: &'p Group) -> Result<Vec<Running<'p>>> {
        group.aggregates.iter().map(|call| self.running(call)).collect()
    }

    /// Adds a row to the aggregates of its group; bytes that they take more.
    fn add_all(&self, group: &'p Group, states: &mut [Running<'p>], env: &Env<'_>) -> Result<usize> {
        let mut bytes = 0;
        for (call, running) in group.aggregates.iter().zip(states) {
            bytes += self.add(call, running, env)?;
        }
        Ok(bytes)
    }

    /// A row of `keys | aggregates | which keys are absent`.
    fn grouped(
        &self,
        group: &'p Group,
        set: &[usize],
        keys: impl ExactSizeIterator<Item = Value>,
        states: impl Iterator<Item = Running<'p>>,
    ) -> Result<Row> {
        let absent: i64 =
            (0..group.keys.len()).filter(|key| !set.contains(key)).map(|key| 1i64 << key.min(62)).sum();
        let mut row = Row::with_capacity(keys.len() + group.aggregates.len() + 1);
        row.extend(keys);
        for (call, running) in group.aggregates.iter().zip(states) {
            row.push(self.finish(call, running)?);
        }
        row.push(Value::Int8(absent));
        Ok(row)
    }

    /// The groups; `row`: of the level. False if no more are wanted.
    pub(super) fn group(
        &self,
        node: &'p Node,
        group: &'p Group,
        (row, used): (&mut Row, &mut HashUse),
        outer: Option<&Env<'_>>,
        emit: Emit<'_>,
    ) -> Result<bool> {
        if group.keys.is_empty() && group.sets.len() == 1 {
            let mut states = self.states(group)?;
            self.run_node(node, row, outer, &mut |row| {
                self.yield_point()?;
                self.add_all(group, &mut states, &Env { row, outer })?;
                Ok(true)
            })?;
            return emit(self.grouped(group, &[], std::iter::empty(), states.into_iter())?);
        }
        if group.aggregates.iter().any(is_ordered) {
            return self.group_sorted(node, group, row, outer, emit);
        }
        let mut tables: Vec<Table<'p>> =
            group.sets.iter().map(|set| Table::new(group, set, self.hash_space(), 0)).collect();
        let mut keys = Row::with_capacity(group.keys.len());
        self.run_node(node, row, outer, &mut |row| {
            self.yield_point()?;
            let env = Env { row, outer };
            keys.clear();
            for (expr, _) in &group.keys {
                keys.push(self.eval(expr, &env)?);
            }
            for table in &mut tables {
                let keys = part_of(&keys, table.set);
                self.put(group, table, &keys, &env)?;
            }
            Ok(true)
        })?;
        for table in tables {
            if !self.give_groups(group, table, outer, used, emit)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn put(&self, group: &'p Group, table: &mut Table<'p>, keys: &[Value], env: &Env<'_>) -> Result<()> {
        let hash = table.map.hash(keys);
        let number = match (table.map.find(hash, keys), &mut table.later) {
            (Some(number), _) => number,
            (None, Some(later)) => return later.push(hash, env.row.iter().chain(keys)),
            (None, None) => {
                for call in &group.aggregates {
                    table.states.push(self.running(call)?);
                }
                table.bytes += group.aggregates.len() * STATE;
                table.map.add(hash, keys)
            }
        };
        table.bytes += self.add_all(group, table.states_of(number), env)?;
        if table.later.is_none() && table.space.is_full(table.map.bytes() + table.bytes) {
            table.later = Some(Parts::new(&table.space, table.level)?);
        }
        Ok(())
    }

    /// The groups of a table, and of the rows that went to files.
    fn give_groups(
        &self,
        group: &'p Group,
        mut table: Table<'p>,
        outer: Option<&Env<'_>>,
        used: &mut HashUse,
        emit: Emit<'_>,
    ) -> Result<bool> {
        used.holds(kilobytes((table.map.bytes() + table.bytes) as u64));
        if table.set.is_empty() && table.map.len() == 0 {
            table.map.add(0, &vec![Value::Null; group.keys.len()]);
            table.states = self.states(group)?;
        }
        let Table { set, space, level, map, states, later, .. } = table;
        let (mut rows, mut states) = (map.into_rows(), states.into_iter());
        for number in 0..rows.len() {
            self.yield_point()?;
            let states = states.by_ref().take(group.aggregates.len());
            if !emit(self.grouped(group, set, rows.taken(number), states)?)? {
                return Ok(false);
            }
        }
        let Some(parts) = later else { return Ok(true) };
        used.writes(kilobytes(parts.size()));
        for tape in parts.tapes().iter().filter(|tape| tape.rows() > 0) {
            let mut inner = Table::new(group, set, space.clone(), level + 1);
            let (mut place, mut row) = (Place::default(), Row::new());
            while place.read(tape, &mut row)?.is_some() {
                self.yield_point()?;
                let (own, keys) = row.split_at(row.len() - group.keys.len());
                self.put(group, &mut inner, keys, &Env { row: own, outer })?;
                row.clear();
            }
            if !self.give_groups(group, inner, outer, used, emit)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The groups, one after the other in the order of their keys.
    fn group_sorted(
        &self,
        node: &'p Node,
        group: &'p Group,
        row: &mut Row,
        outer: Option<&Env<'_>>,
        emit: Emit<'_>,
    ) -> Result<bool> {
        let width = row.len();
        let sorter = |set: &Vec<usize>| {
            let keys: Vec<SortKey> =
                set.iter().map(|key| plain_key(width + key, group.keys[*key].1)).collect();
            Sorter::new(keys, self.space(), self.interrupt)
        };
        let mut sorters: Vec<Sorter<'p>> = group.sets.iter().map(sorter).collect();
        self.run_node(node, row, outer, &mut |row| {
            self.yield_point()?;
            let env = Env { row, outer };
            let keys = group.keys.iter().map(|(expr, _)| self.eval(expr, &env)).collect::<Result<Row>>()?;
            for (set, sorter) in group.sets.iter().zip(&mut sorters) {
                sorter.push(row.iter().chain(&*part_of(&keys, set)).cloned().collect())?;
            }
            Ok(true)
        })?;
        for (set, sorter) in group.sets.iter().zip(sorters) {
            let mut sorted = sorter.sorted()?;
            self.note_use(address(group) + SORTED, || Note::Sort(sorted.method()));
            let mut open: Option<(Row, Vec<Running<'p>>)> = match set.is_empty() {
                true => Some((vec![Value::Null; group.keys.len()], self.states(group)?)),
                false => None,
            };
            while let Some(mut row) = sorted.next()? {
                self.yield_point()?;
                let keys = row.split_off(width);
                let alike =
                    |known: &Row| set.iter().all(|at| same(group.keys[*at].1, &known[*at], &keys[*at]));
                if !open.as_ref().is_some_and(|(known, _)| alike(known)) {
                    if let Some((keys, states)) = open.take()
                        && !emit(self.grouped(group, set, keys.into_iter(), states.into_iter())?)?
                    {
                        return Ok(false);
                    }
                    open = Some((keys, self.states(group)?));
                }
                let (_, states) = open.as_mut().expect("a row has a group");
                self.add_all(group, states, &Env { row: &row, outer })?;
            }
            if let Some((keys, states)) = open
                && !emit(self.grouped(group, set, keys.into_iter(), states.into_iter())?)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The groups of one grouping set.
struct Table<'p> {
    set: &'p [usize],
    space: Space,
    level: u32,
    map: RowMap,
    /// Of each group as many as there are aggregates.
    states: Vec<Running<'p>>,
    aggregates: usize,
    /// Of the states.
    bytes: usize,
    later: Option<Parts>,
}

impl<'p> Table<'p> {
    fn new(group: &'p Group, set: &'p [usize], space: Space, level: u32) -> Table<'p> {
        let map = RowMap::new(group.keys.iter().map(|(_, ty)| *ty).collect());
        let aggregates = group.aggregates.len();
        Table { set, space, level, map, states: Vec::new(), aggregates, bytes: 0, later: None }
    }

    fn states_of(&mut self, number: usize) -> &mut [Running<'p>] {
        &mut self.states[number * self.aggregates..][..self.aggregates]
    }
}

/// The keys of a grouping set; the others are NULL.
fn part_of<'k>(keys: &'k [Value], set: &[usize]) -> Cow<'k, [Value]> {
    if (0..keys.len()).all(|key| set.contains(&key)) {
        return Cow::Borrowed(keys);
    }
    let part = |(key, value): (usize, &Value)| if set.contains(&key) { value.clone() } else { Value::Null };
    keys.iter().enumerate().map(part).collect()
}

/// Whether rows of an aggregate wait for their order.
pub(super) fn is_ordered(call: &AggregateCall) -> bool {
    !call.order.is_empty() || !call.distinct.is_empty()
}

/// The order of a column's type.
pub(super) fn plain_key(column: usize, ty: u32) -> SortKey {
    SortKey { column, ty, descending: false, nulls_first: false }
}

/// The error of a body that is no window function.
pub(super) fn not_a_window(name: &str) -> SqlError {
    SqlError::unsupported(format_args!("window function {name}"), missing::TYPES)
}
