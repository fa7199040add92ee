//! Functions over windows.
//!
//! Rows are sorted by each window in turn, and come in the order of the last one.
//!
//! Invariants:
//! 1. The rows of one partition are kept at a time (`TupleStore`), and of each the number of its peer group.
//! 2. Windows that follow each other and have the same keys are sorted once.

use std::cell::RefCell;
use std::cmp::Ordering;

use super::aggregate::{not_a_window, plain_key};
use super::measure::{Note, SORTED, address};
use super::rows::{compare_values, same};
use super::spill::{Reading, Sorter, TupleStore};
use super::{Emit, Env, Exec, Row};
use crate::error::{Result, SqlError, SqlState};
use crate::func::{Accumulator, Body, WindowFunction};
use crate::parse::ast::{Bound, Exclusion, FrameUnit};
use crate::tree::{Expr, SortKey, WindowCall};
use crate::types::value::Value;

/// The rows of one partition in order: `row | partition keys | sort keys`.
struct Partition<'r> {
    rows: &'r TupleStore,
    reading: RefCell<Reading<'r>>,
    /// Number of the peer group of each row.
    peers: &'r [u32],
    /// Where the sort keys begin.
    sorted_at: usize,
}

impl Partition<'_> {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn with<T>(&self, at: usize, look: impl FnOnce(&[Value]) -> Result<T>) -> Result<T> {
        look(self.reading.borrow_mut().row(at)?)
    }

    fn first_peer(&self, at: usize) -> usize {
        self.peers.partition_point(|peer| *peer < self.peers[at])
    }

    fn after_peers(&self, at: usize) -> usize {
        self.peers.partition_point(|peer| *peer <= self.peers[at])
    }
}

/// The rows of a frame.
struct Frame<'r> {
    start: usize,
    end: usize,
    exclusion: Exclusion,
    at: usize,
    peers: &'r [u32],
}

impl Frame<'_> {
    fn rows(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        (self.start..self.end).filter(|row| match self.exclusion {
            Exclusion::None => true,
            Exclusion::CurrentRow => *row != self.at,
            Exclusion::Group => self.peers[*row] != self.peers[self.at],
            Exclusion::Ties => self.peers[*row] != self.peers[self.at] || *row == self.at,
        })
    }

    fn nth(&self, n: usize) -> Option<usize> {
        match self.exclusion {
            Exclusion::None => self.start.checked_add(n).filter(|row| *row < self.end),
            _ => self.rows().nth(n),
        }
    }
}

/// Whether two calls are over rows in the same order.
fn is_same_order(a: &WindowCall, b: &WindowCall) -> bool {
    a.partition == b.partition && a.order == b.order
}

impl<'p> Exec<'p> {
    /// The rows with one more column for each call.
    pub(super) fn windows(
        &self,
        calls: &'p [WindowCall],
        rows: TupleStore,
        outer: Option<&Env<'_>>,
        emit: Emit<'_>,
    ) -> Result<bool> {
        let mut rows = rows;
        for (at, call) in calls.iter().enumerate() {
            let sorted = at > 0 && is_same_order(&calls[at - 1], call);
            rows = self.window(call, rows, sorted, outer)?;
        }
        rows.each_owned(emit)
    }

    fn window(
        &self,
        call: &'p WindowCall,
        rows: TupleStore,
        sorted: bool,
        outer: Option<&Env<'_>>,
    ) -> Result<TupleStore> {
        let mut done = self.kept_rows();
        if rows.is_empty() {
            return Ok(done);
        }
        let width = rows.reading().row(0)?.len();
        let sorted_at = width + call.partition.len();
        let mut keys: Vec<SortKey> = Vec::new();
        if !sorted {
            let partition = call.partition.iter().enumerate();
            keys.extend(partition.map(|(at, (_, ty))| plain_key(width + at, *ty)));
            let order = call.order.iter().enumerate();
            keys.extend(order.map(|(at, (_, key))| SortKey { column: sorted_at + at, ..key.clone() }));
        }
        let mut sorter = Sorter::new(keys, self.space(), self.interrupt);
        rows.each_owned(|mut row| {
            self.yield_point()?;
            let env = Env { row: &row, outer };
            let partition = call.partition.iter().map(|(expr, _)| expr);
            let exprs = partition.chain(call.order.iter().map(|(expr, _)| expr));
            let values = exprs.map(|expr| self.eval(expr, &env)).collect::<Result<Row>>()?;
            row.extend(values);
            sorter.push(row).map(|()| true)
        })?;
        let mut sorted_rows = sorter.sorted()?;
        if !sorted {
            self.note_use(address(call) + SORTED, || Note::Sort(sorted_rows.method()));
        }
        let (mut part, mut peers, mut last) = (self.kept_rows(), Vec::<u32>::new(), None::<Row>);
        loop {
            let row = sorted_rows.next()?;
            self.yield_point()?;
            let keys = row.as_ref().map(|row| row[width..].to_vec());
            let split = call.partition.len();
            let alike = match (&last, &keys) {
                (Some(last), Some(keys)) => {
                    call.partition.iter().zip(last.iter().zip(keys)).all(|((_, ty), (a, b))| same(*ty, a, b))
                }
                _ => false,
            };
            if !alike && !part.is_empty() {
                let whole = std::mem::replace(&mut part, self.kept_rows());
                self.partition(call, (&whole, &peers, sorted_at), outer, &mut |mut row, value| {
                    row.truncate(width);
                    row.push(value);
                    done.push(row)
                })?;
                peers.clear();
            }
            let (Some(row), Some(keys)) = (row, keys) else { return Ok(done) };
            let order = call.order.iter().map(|(_, key)| key);
            let is_peer = |last: &Row| compare_values(order, &last[split..], &keys[split..]).is_eq();
            let peer = match peers.last() {
                None => 0,
                Some(peer) => peer + u32::from(!last.as_ref().is_some_and(is_peer)),
            };
            peers.push(peer);
            part.push(row)?;
            last = Some(keys);
        }
    }

    /// Gives each row of a partition with its value.
    fn partition(
        &self,
        call: &'p WindowCall,
        (rows, peers, sorted_at): (&TupleStore, &[u32], usize),
        outer: Option<&Env<'_>>,
        give: &mut dyn FnMut(Row, Value) -> Result<()>,
    ) -> Result<()> {
        let partition = Partition { rows, reading: RefCell::new(rows.reading()), peers, sorted_at };
        let mut reading = rows.reading();
        let mut next = |value: Value| {
            self.yield_point()?;
            let row = reading.next()?.expect("there is a value for each row");
            give(row.to_vec(), value)
        };
        match call.head.function.body {
            Body::Window(function) => {
                (0..rows.len()).try_for_each(|at| next(self.function(function, call, &partition, at, outer)?))
            }
            Body::Aggregate(_) => self.over(call, &partition, outer, &mut next),
            _ => Err(not_a_window(call.head.function.name)),
        }
    }

    fn argument(
        &self,
        call: &'p WindowCall,
        at: usize,
        (part, row): (&Partition<'_>, usize),
        outer: Option<&Env<'_>>,
    ) -> Result<Value> {
        let Some(expr) = call.args.get(at) else { return Ok(Value::Null) };
        part.with(row, |row| self.eval(expr, &Env { row, outer }))
    }

    fn function(
        &self,
        function: WindowFunction,
        call: &'p WindowCall,
        part: &Partition<'_>,
        at: usize,
        outer: Option<&Env<'_>>,
    ) -> Result<Value> {
        let count = part.len();
        Ok(match function {
            WindowFunction::RowNumber => Value::Int8(at as i64 + 1),
            WindowFunction::Rank => Value::Int8(part.first_peer(at) as i64 + 1),
            WindowFunction::DenseRank => Value::Int8(i64::from(part.peers[at]) + 1),
            WindowFunction::PercentRank if count == 1 => Value::Float8(0.0),
            WindowFunction::PercentRank => Value::Float8(part.first_peer(at) as f64 / (count - 1) as f64),
            WindowFunction::CumeDist => Value::Float8(part.after_peers(at) as f64 / count as f64),
            WindowFunction::Ntile => self.ntile(call, part, at, outer)?,
            WindowFunction::Lag | WindowFunction::Lead => {
                let offset = match call.args.len() {
                    0 | 1 => Some(1),
                    _ => self.argument(call, 1, (part, at), outer)?.as_i64(),
                };
                let sign = if function == WindowFunction::Lag { -1 } else { 1 };
                let Some(offset) = offset else { return Ok(Value::Null) };
                match usize::try_from(at as i64 + sign * offset).ok().filter(|to| *to < count) {
                    Some(other) => self.argument(call, 0, (part, other), outer)?,
                    None => self.argument(call, 2, (part, at), outer)?,
                }
            }
            WindowFunction::FirstValue | WindowFunction::LastValue | WindowFunction::NthValue => {
                let frame = self.frame(call, part, at, outer)?;
                let which = match function {
                    WindowFunction::FirstValue => frame.nth(0),
                    WindowFunction::LastValue => frame.rows().next_back(),
                    _ => match self.argument(call, 1, (part, at), outer)?.as_i64() {
                        None => None,
                        Some(n) if n < 1 => {
                            let message = "argument of nth_value must be greater than zero";
                            return Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_NTH_VALUE, message));
                        }
                        Some(n) => frame.nth(n as usize - 1),
                    },
                };
                match which {
                    Some(other) => self.argument(call, 0, (part, other), outer)?,
                    None => Value::Null,
                }
            }
        })
    }

    fn ntile(
        &self,
        call: &'p WindowCall,
        part: &Partition<'_>,
        at: usize,
        outer: Option<&Env<'_>>,
    ) -> Result<Value> {
        let Some(buckets) = self.argument(call, 0, (part, at), outer)?.as_i64() else {
            return Ok(Value::Null);
        };
        if buckets < 1 {
            let message = "argument of ntile must be greater than zero";
            return Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_NTILE, message));
        }
        let (count, at) = (part.len() as i64, at as i64);
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
        next: &mut dyn FnMut(Value) -> Result<()>,
    ) -> Result<()> {
        let ctx = self.ctx.for_call(&call.head.types, call.head.result);
        let Body::Aggregate(make) = call.head.function.body else { return Ok(()) };
        let add = |state: &mut Box<dyn Accumulator>, at: usize| {
            part.with(at, |row| {
                let env = Env { row, outer };
                if !self.holds(call.filter.as_ref(), &env)? {
                    return Ok(());
                }
                state.add(&ctx, &self.eval_list(&call.args, &env)?)
            })
        };
        let frame = &call.frame;
        let growing = frame.start == Bound::UnboundedPreceding
            && frame.exclusion == Exclusion::None
            && matches!(frame.end, Bound::CurrentRow | Bound::UnboundedFollowing);
        if !growing {
            for at in 0..part.len() {
                let mut state = make(&ctx)?;
                for row in self.frame(call, part, at, outer)?.rows() {
                    add(&mut state, row)?;
                }
                next(state.finish(&ctx)?)?;
            }
            return Ok(());
        }
        let (mut state, mut taken, mut last) = (make(&ctx)?, 0, Value::Null);
        for at in 0..part.len() {
            let end = match (&frame.end, frame.unit) {
                (Bound::UnboundedFollowing, _) => part.len(),
                (_, FrameUnit::Rows) => at + 1,
                _ if at < taken => taken,
                _ => part.after_peers(at),
            };
            if end > taken {
                (taken..end).try_for_each(|row| add(&mut state, row))?;
                taken = end;
                last = state.finish(&ctx)?;
            }
            next(last.clone())?;
        }
        Ok(())
    }

    /// The rows of a row's frame, in order.
    fn frame<'r>(
        &self,
        call: &'p WindowCall,
        part: &'r Partition<'_>,
        at: usize,
        outer: Option<&Env<'_>>,
    ) -> Result<Frame<'r>> {
        let count = part.len();
        let start = self.edge(call, part, at, &call.frame.start, true, outer)?;
        let end = self.edge(call, part, at, &call.frame.end, false, outer)?.min(count);
        Ok(Frame { start: start.min(end), end, exclusion: call.frame.exclusion, at, peers: part.peers })
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
        let count = part.len();
        let group = |number: i64, start: bool| {
            if start {
                part.peers.partition_point(|peer| i64::from(*peer) < number)
            } else {
                part.peers.partition_point(|peer| i64::from(*peer) <= number)
            }
        };
        let (offset, sign) = match bound {
            Bound::UnboundedPreceding => return Ok(0),
            Bound::UnboundedFollowing => return Ok(count),
            Bound::CurrentRow if call.frame.unit == FrameUnit::Rows => {
                return Ok(if start { at } else { at + 1 });
            }
            Bound::CurrentRow => return Ok(group(i64::from(part.peers[at]), start)),
            Bound::Preceding(offset) => (offset, -1),
            Bound::Following(offset) => (offset, 1),
        };
        let value = part.with(at, |row| self.eval(offset, &Env { row, outer }))?;
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
            return Ok(group(i64::from(part.peers[at]) + sign * offset, start));
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
        let base = part.with(at, |row| Ok(row[part.sorted_at].clone()))?;
        if base.is_null() {
            let peer = part.peers[at];
            return Ok(part
                .peers
                .partition_point(|other| if start { *other < peer } else { *other <= peer }));
        }
        let up = (sign > 0) != key.descending;
        let limit = self.apply(if up { plus } else { minus }, &[base, offset])?;
        let limit = [limit];
        let is_before = |at: usize| -> Result<bool> {
            let key =
                |row: &[Value]| Ok(compare_values(std::iter::once(key), &row[part.sorted_at..], &limit));
            let order = part.with(at, key)?;
            Ok(if start { order == Ordering::Less } else { order != Ordering::Greater })
        };
        let (mut low, mut high) = (0, part.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match is_before(middle)? {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Ok(low)
    }
}
