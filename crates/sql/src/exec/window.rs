//! Functions over windows.

use std::cmp::Ordering;

use super::aggregate::not_a_window;
use super::rows::{compare_values, same, sort};
use super::{Env, Exec, Row};
use crate::error::{Result, SqlError, SqlState};
use crate::func::{Accumulator, Body, WindowFunction};
use crate::parse::ast::{Bound, Exclusion, FrameUnit};
use crate::tree::{Expr, WindowCall};
use crate::types::value::Value;

/// The rows of one partition in order.
struct Partition<'r> {
    rows: Vec<&'r Row>,
    /// Sort values of each row.
    keys: Vec<Row>,
    /// Number of the peer group of each row.
    peers: Vec<usize>,
}

impl<'p> Exec<'p> {
    /// The rows with one more column for each call.
    pub(super) fn windows(
        &self,
        calls: &'p [WindowCall],
        rows: Vec<Row>,
        outer: Option<&Env<'_>>,
    ) -> Result<Vec<Row>> {
        let mut columns = Vec::new();
        for call in calls {
            columns.push(self.window(call, &rows, outer)?);
        }
        let mut rows = rows;
        for column in columns {
            rows.iter_mut().zip(column).for_each(|(row, value)| row.push(value));
        }
        Ok(rows)
    }

    fn window(&self, call: &'p WindowCall, rows: &[Row], outer: Option<&Env<'_>>) -> Result<Vec<Value>> {
        let mut keyed = Vec::with_capacity(rows.len());
        for (number, row) in rows.iter().enumerate() {
            self.yield_point()?;
            let env = Env { row, outer };
            let partition =
                call.partition.iter().map(|(expr, _)| self.eval(expr, &env)).collect::<Result<Row>>()?;
            let order = call.order.iter().map(|(expr, _)| self.eval(expr, &env)).collect::<Result<Row>>()?;
            keyed.push((partition, order, number));
        }
        let by =
            |ty: &u32| crate::tree::SortKey { column: 0, ty: *ty, descending: false, nulls_first: false };
        let partition_keys: Vec<_> = call.partition.iter().map(|(_, ty)| by(ty)).collect();
        let order_keys = || call.order.iter().map(|(_, key)| key);
        sort(self.interrupt, &mut keyed, |a, b| {
            compare_values(partition_keys.iter(), &a.0, &b.0)
                .then_with(|| compare_values(order_keys(), &a.1, &b.1))
        })?;
        let mut results = vec![Value::Null; rows.len()];
        let mut from = 0;
        while from < keyed.len() {
            let alike = |other: &(Row, Row, usize)| {
                call.partition
                    .iter()
                    .zip(other.0.iter().zip(&keyed[from].0))
                    .all(|((_, ty), (a, b))| same(*ty, a, b))
            };
            let to = from + keyed[from..].iter().take_while(|other| alike(other)).count();
            let part = &keyed[from..to];
            let mut peers: Vec<usize> = Vec::with_capacity(part.len());
            for at in 0..part.len() {
                let equal =
                    at > 0 && compare_values(order_keys(), &part[at - 1].1, &part[at].1) == Ordering::Equal;
                peers.push(if at == 0 { 0 } else { peers[at - 1] + usize::from(!equal) });
            }
            let partition = Partition {
                rows: part.iter().map(|(_, _, number)| &rows[*number]).collect(),
                keys: part.iter().map(|(_, order, _)| order.clone()).collect(),
                peers,
            };
            let values = self.partition(call, &partition, outer)?;
            for ((_, _, number), value) in part.iter().zip(values) {
                results[*number] = value;
            }
            from = to;
        }
        Ok(results)
    }

    fn partition(
        &self,
        call: &'p WindowCall,
        partition: &Partition<'_>,
        outer: Option<&Env<'_>>,
    ) -> Result<Vec<Value>> {
        match call.head.function.body {
            Body::Window(function) => self.function(function, call, partition, outer),
            Body::Aggregate(_) => self.over(call, partition, outer),
            _ => Err(not_a_window(call.head.function.name)),
        }
    }

    fn argument(&self, call: &'p WindowCall, at: usize, row: &Row, outer: Option<&Env<'_>>) -> Result<Value> {
        call.args.get(at).map_or(Ok(Value::Null), |expr| self.eval(expr, &Env { row, outer }))
    }

    fn function(
        &self,
        function: WindowFunction,
        call: &'p WindowCall,
        part: &Partition<'_>,
        outer: Option<&Env<'_>>,
    ) -> Result<Vec<Value>> {
        let count = part.rows.len();
        let first_peer = |at: usize| part.peers.partition_point(|peer| *peer < part.peers[at]);
        let after_peers = |at: usize| part.peers.partition_point(|peer| *peer <= part.peers[at]);
        let mut values = Vec::with_capacity(count);
        for at in 0..count {
            let row = part.rows[at];
            values.push(match function {
                WindowFunction::RowNumber => Value::Int8(at as i64 + 1),
                WindowFunction::Rank => Value::Int8(first_peer(at) as i64 + 1),
                WindowFunction::DenseRank => Value::Int8(part.peers[at] as i64 + 1),
                WindowFunction::PercentRank if count == 1 => Value::Float8(0.0),
                WindowFunction::PercentRank => Value::Float8(first_peer(at) as f64 / (count - 1) as f64),
                WindowFunction::CumeDist => Value::Float8(after_peers(at) as f64 / count as f64),
                WindowFunction::Ntile => self.ntile(call, part, at, outer)?,
                WindowFunction::Lag | WindowFunction::Lead => {
                    let offset = match call.args.len() {
                        0 | 1 => Some(1),
                        _ => self.argument(call, 1, row, outer)?.as_i64(),
                    };
                    let sign = if function == WindowFunction::Lag { -1 } else { 1 };
                    let Some(offset) = offset else {
                        values.push(Value::Null);
                        continue;
                    };
                    match usize::try_from(at as i64 + sign * offset).ok().and_then(|to| part.rows.get(to)) {
                        Some(other) => self.argument(call, 0, other, outer)?,
                        None => self.argument(call, 2, row, outer)?,
                    }
                }
                WindowFunction::FirstValue | WindowFunction::LastValue | WindowFunction::NthValue => {
                    let frame = self.frame(call, part, at, outer)?;
                    let which = match function {
                        WindowFunction::FirstValue => frame.first(),
                        WindowFunction::LastValue => frame.last(),
                        _ => match self.argument(call, 1, row, outer)?.as_i64() {
                            None => None,
                            Some(n) if n < 1 => {
                                let message = "argument of nth_value must be greater than zero";
                                return Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_NTH_VALUE, message));
                            }
                            Some(n) => frame.get(n as usize - 1),
                        },
                    };
                    match which {
                        Some(other) => self.argument(call, 0, part.rows[*other], outer)?,
                        None => Value::Null,
                    }
                }
            });
        }
        Ok(values)
    }

    fn ntile(
        &self,
        call: &'p WindowCall,
        part: &Partition<'_>,
        at: usize,
        outer: Option<&Env<'_>>,
    ) -> Result<Value> {
        let Some(buckets) = self.argument(call, 0, part.rows[at], outer)?.as_i64() else {
            return Ok(Value::Null);
        };
        if buckets < 1 {
            let message = "argument of ntile must be greater than zero";
            return Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_NTILE, message));
        }
        let (count, at) = (part.rows.len() as i64, at as i64);
        let (small, larger) = (count / buckets, count % buckets);
        let bucket = if at < larger * (small + 1) {
            at / (small + 1)
        } else {
            larger + (at - larger * (small + 1)) / small.max(1)
        };
        Ok(Value::Int4(bucket as i32 + 1))
    }

    /// An aggregate over each row's frame.
    fn over(
        &self,
        call: &'p WindowCall,
        part: &Partition<'_>,
        outer: Option<&Env<'_>>,
    ) -> Result<Vec<Value>> {
        let ctx = self.ctx.for_call(&call.head.types, call.head.result);
        let Body::Aggregate(make) = call.head.function.body else { return Ok(Vec::new()) };
        let add = |state: &mut Box<dyn Accumulator>, row: &Row| -> Result<()> {
            let env = Env { row, outer };
            if !self.holds(call.filter.as_ref(), &env)? {
                return Ok(());
            }
            state.add(&ctx, &self.eval_list(&call.args, &env)?)
        };
        let frame = &call.frame;
        let growing = frame.start == Bound::UnboundedPreceding
            && frame.exclusion == Exclusion::None
            && matches!(frame.end, Bound::CurrentRow | Bound::UnboundedFollowing);
        let mut values = Vec::with_capacity(part.rows.len());
        if growing {
            let mut state = make(&ctx)?;
            let mut taken = 0;
            for at in 0..part.rows.len() {
                let end = match (&frame.end, frame.unit) {
                    (Bound::UnboundedFollowing, _) => part.rows.len(),
                    (_, FrameUnit::Rows) => at + 1,
                    _ => part.peers.partition_point(|peer| *peer <= part.peers[at]),
                };
                if end == taken {
                    let same = values.last().cloned().unwrap_or(Value::Null);
                    values.push(same);
                    continue;
                }
                while taken < end {
                    add(&mut state, part.rows[taken])?;
                    taken += 1;
                }
                values.push(state.finish(&ctx)?);
            }
            return Ok(values);
        }
        for at in 0..part.rows.len() {
            let mut state = make(&ctx)?;
            for row in self.frame(call, part, at, outer)? {
                add(&mut state, part.rows[row])?;
            }
            values.push(state.finish(&ctx)?);
        }
        Ok(values)
    }

    /// The rows of a row's frame, in order.
    fn frame(
        &self,
        call: &'p WindowCall,
        part: &Partition<'_>,
        at: usize,
        outer: Option<&Env<'_>>,
    ) -> Result<Vec<usize>> {
        let count = part.rows.len();
        let start = self.edge(call, part, at, &call.frame.start, true, outer)?;
        let end = self.edge(call, part, at, &call.frame.end, false, outer)?.min(count);
        let excluded = |row: &usize| match call.frame.exclusion {
            Exclusion::None => false,
            Exclusion::CurrentRow => *row == at,
            Exclusion::Group => part.peers[*row] == part.peers[at],
            Exclusion::Ties => part.peers[*row] == part.peers[at] && *row != at,
        };
        Ok((start.min(count)..end).filter(|row| !excluded(row)).collect())
    }

    /// The first row of a frame, or the one after its last.
    fn edge(
        &self,
        call: &'p WindowCall,
        part: &Partition<'_>,
        at: usize,
        bound: &'p Bound<Box<Expr>>,
        start: bool,
        outer: Option<&Env<'_>>,
    ) -> Result<usize> {
        let count = part.rows.len();
        let group = |number: i64, start: bool| {
            if start {
                part.peers.partition_point(|peer| (*peer as i64) < number)
            } else {
                part.peers.partition_point(|peer| (*peer as i64) <= number)
            }
        };
        let (offset, sign) = match bound {
            Bound::UnboundedPreceding => return Ok(0),
            Bound::UnboundedFollowing => return Ok(count),
            Bound::CurrentRow if call.frame.unit == FrameUnit::Rows => {
                return Ok(if start { at } else { at + 1 });
            }
            Bound::CurrentRow => return Ok(group(part.peers[at] as i64, start)),
            Bound::Preceding(offset) => (offset, -1),
            Bound::Following(offset) => (offset, 1),
        };
        let value = self.eval(offset, &Env { row: part.rows[at], outer })?;
        let side = if start { "starting" } else { "ending" };
        if value.is_null() {
            let message = format!("frame {side} offset must not be null");
            return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
        }
        if call.frame.unit == FrameUnit::Range {
            return self.range_edge(call, part, at, value, sign, start);
        }
        let offset = value.as_i64().unwrap_or(0);
        if offset < 0 {
            let message = format!("frame {side} offset must not be negative");
            return Err(SqlError::new(SqlState::INVALID_PRECEDING_OR_FOLLOWING_SIZE, message));
        }
        if call.frame.unit == FrameUnit::Groups {
            return Ok(group(part.peers[at] as i64 + sign * offset, start));
        }
        let to = (at as i64).saturating_add(sign * offset).saturating_add(i64::from(!start));
        Ok(to.clamp(0, count as i64) as usize)
    }

    fn range_edge(
        &self,
        call: &'p WindowCall,
        part: &Partition<'_>,
        at: usize,
        offset: Value,
        sign: i64,
        start: bool,
    ) -> Result<usize> {
        let (Some((plus, minus)), [(_, key)]) = (&call.frame.arithmetic, call.order.as_slice()) else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a RANGE frame has no arithmetic"));
        };
        let base = &part.keys[at][0];
        if base.is_null() {
            let peer = part.peers[at];
            return Ok(part
                .peers
                .partition_point(|other| if start { *other < peer } else { *other <= peer }));
        }
        let up = (sign > 0) != key.descending;
        let limit = self.apply(if up { plus } else { minus }, &[base.clone(), offset])?;
        let limit = [limit];
        let wanted = |row: &Row| {
            let order = compare_values(std::iter::once(key), row, &limit);
            if start { order == Ordering::Less } else { order != Ordering::Greater }
        };
        Ok(part.keys.partition_point(wanted))
    }
}
