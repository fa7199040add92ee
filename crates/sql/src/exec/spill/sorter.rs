//! Sorting: runs that are sorted in memory, and merged as they are read.
//!
//! ```text
//! rows -> chunk -> chunks (sorted, in memory) -> runs (merged chunks, on tapes) -> merge -> rows in order
//! ```
//!
//! Invariants:
//! 1. What is equal stays in its order: chunks and runs are merged with those around them only, and of equal
//!    rows that of the earlier one comes first.
//! 2. A prefix orders rows as their first key does, or leaves it open: rows of one prefix are compared.
//! 3. With a bound, no more than twice as many rows are kept, as long as these fit in the space.
//! 4. A cancel is heard at each chunk and at each row that is merged.

use std::cmp::Ordering;
use std::sync::Arc;

use num_bigint::Sign;

use super::{Place, Space, Tape, TapeFile, kilobytes, row_footprint};
use crate::error::Result;
use crate::exec::{Row, rows};
use crate::session::Interrupt;
use crate::tree::SortKey;
use crate::types::numeric::{Numeric, ten};
use crate::types::oid;
use crate::types::value::Value;

/// So many rows are sorted at once.
const CHUNK: usize = 1 << 14;
/// A longer list of first rows is sorted as if all were wanted: a cancel is heard between two of its chunks.
const BOUND_MOST: usize = 2 * CHUNK;
/// Fewest and most runs that are merged at once.
const FAN_IN: (usize, usize) = (6, 500);

struct Item {
    prefix: u64,
    row: Row,
}

/// How rows were sorted, and what that took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SortMethod {
    Quicksort { memory_kb: u64 },
    TopN { memory_kb: u64 },
    ExternalMerge { disk_kb: u64 },
}

/// Takes rows to be sorted.
pub(crate) struct Sorter<'p> {
    keys: Arc<[SortKey]>,
    space: Space,
    interrupt: &'p Interrupt,
    chunk: Vec<Item>,
    chunks: Vec<Vec<Item>>,
    /// Of all chunks.
    bytes: usize,
    peak: usize,
    runs: Vec<Tape>,
    file: Option<Arc<TapeFile>>,
    /// How many rows are wanted.
    bound: Option<usize>,
    /// The first rows of the chunk are the first of all so far, in order.
    cut: bool,
}

impl<'p> Sorter<'p> {
    pub(crate) fn new(keys: impl Into<Arc<[SortKey]>>, space: Space, interrupt: &'p Interrupt) -> Self {
        let (chunk, chunks, runs) = (Vec::new(), Vec::new(), Vec::new());
        let keys = keys.into();
        Sorter {
            keys,
            space,
            interrupt,
            chunk,
            chunks,
            bytes: 0,
            peak: 0,
            runs,
            file: None,
            bound: None,
            cut: false,
        }
    }

    /// No more than so many of the first rows are wanted.
    pub(crate) fn bounded(mut self, bound: Option<usize>) -> Self {
        self.bound = bound.filter(|bound| *bound <= BOUND_MOST);
        self
    }

    pub(crate) fn push(&mut self, row: Row) -> Result<()> {
        let prefix = self.keys.first().map_or(0, |key| prefix(key, &row[key.column]));
        if let Some(bound) = self.bound {
            if self.cut {
                let last = &self.chunk[bound - 1];
                let order = prefix.cmp(&last.prefix);
                if order.then_with(|| rows::compare(&self.keys, &row, &last.row)).is_ge() {
                    return Ok(());
                }
            }
            self.put(Item { prefix, row });
            if self.chunk.len() >= 2 * bound && self.chunk.len() > bound {
                self.cut_off(bound)?;
            }
            if self.space.is_full(self.bytes) {
                // What has been left out stays out.
                self.bound = None;
            }
            return Ok(());
        }
        self.put(Item { prefix, row });
        if self.space.is_full(self.bytes) {
            self.write_run()?;
        } else if self.chunk.len() >= CHUNK {
            self.close_chunk()?;
        }
        Ok(())
    }

    fn put(&mut self, item: Item) {
        self.bytes += size_of::<u64>() + row_footprint(&item.row);
        self.peak = self.peak.max(self.bytes);
        self.chunk.push(item);
    }

    fn cut_off(&mut self, bound: usize) -> Result<()> {
        self.sort_chunk()?;
        for item in self.chunk.drain(bound..) {
            self.bytes -= size_of::<u64>() + row_footprint(&item.row);
        }
        self.cut = bound > 0;
        Ok(())
    }

    fn sort_chunk(&mut self) -> Result<()> {
        self.interrupt.check()?;
        let keys = &*self.keys;
        self.chunk.sort_by(|a, b| a.prefix.cmp(&b.prefix).then_with(|| rows::compare(keys, &a.row, &b.row)));
        Ok(())
    }

    fn close_chunk(&mut self) -> Result<()> {
        self.sort_chunk()?;
        if !self.chunk.is_empty() {
            self.chunks.push(std::mem::take(&mut self.chunk));
        }
        Ok(())
    }

    /// Writes what is in memory.
    fn write_run(&mut self) -> Result<()> {
        self.close_chunk()?;
        let file = match &self.file {
            Some(file) => file.clone(),
            None => self.file.insert(self.space.file()?).clone(),
        };
        let chunks = std::mem::take(&mut self.chunks);
        let merged = self.merge(chunks.into_iter().map(Source::of_chunk).collect())?;
        let run = write(merged, &file)?;
        self.runs.push(run);
        self.bytes = 0;
        Ok(())
    }

    fn merge(&self, sources: Vec<Source>) -> Result<Sorted<'p>> {
        Sorted::new(self.keys.clone(), self.interrupt, sources)
    }

    /// The rows in order.
    pub(crate) fn sorted(mut self) -> Result<Sorted<'p>> {
        if self.runs.is_empty() {
            self.close_chunk()?;
            let chunks = std::mem::take(&mut self.chunks);
            let mut sorted = self.merge(chunks.into_iter().map(Source::of_chunk).collect())?;
            let memory_kb = kilobytes(self.peak as u64);
            sorted.method = match self.cut {
                true => SortMethod::TopN { memory_kb },
                false => SortMethod::Quicksort { memory_kb },
            };
            return Ok(sorted);
        }
        if self.bytes > 0 {
            self.write_run()?;
        }
        let file = self.file.take().expect("runs are in a file");
        let most = self.space.tapes(FAN_IN.0, FAN_IN.1);
        while self.runs.len() > most {
            let mut runs = std::mem::take(&mut self.runs).into_iter();
            while runs.len() > 0 {
                let group: Vec<Tape> = runs.by_ref().take(most).collect();
                let merged = self.merge(group.into_iter().map(Source::of_tape).collect())?;
                self.runs.push(write(merged, &file)?);
            }
        }
        let runs = std::mem::take(&mut self.runs);
        let mut sorted = self.merge(runs.into_iter().map(Source::of_tape).collect())?;
        sorted.method = SortMethod::ExternalMerge { disk_kb: kilobytes(file.size()) };
        Ok(sorted)
    }
}

fn write(mut merged: Sorted<'_>, file: &Arc<TapeFile>) -> Result<Tape> {
    let mut run = Tape::new(file);
    while let Some(item) = merged.next_item()? {
        run.push(item.prefix, &item.row)?;
    }
    Ok(run)
}

/// A sorted list of rows that is read once.
struct Source {
    rows: Rest,
    head: Option<Item>,
}

enum Rest {
    Chunk(std::vec::IntoIter<Item>),
    Tape(Tape, Place),
}

impl Source {
    fn of_chunk(chunk: Vec<Item>) -> Source {
        Source { rows: Rest::Chunk(chunk.into_iter()), head: None }
    }

    fn of_tape(tape: Tape) -> Source {
        Source { rows: Rest::Tape(tape, Place::default()), head: None }
    }

    /// Goes on to the next row; gives the one before.
    fn advance(&mut self) -> Result<Option<Item>> {
        let next = match &mut self.rows {
            Rest::Chunk(items) => items.next(),
            Rest::Tape(tape, place) => {
                let mut row = Row::new();
                place.read(tape, &mut row)?.map(|prefix| Item { prefix, row })
            }
        };
        Ok(std::mem::replace(&mut self.head, next))
    }
}

/// Rows in order, as they are merged.
pub(crate) struct Sorted<'p> {
    keys: Arc<[SortKey]>,
    interrupt: &'p Interrupt,
    sources: Vec<Source>,
    /// Numbers of sources that have a head: a heap, the first of all rows at its top.
    heap: Vec<usize>,
    method: SortMethod,
}

impl<'p> Sorted<'p> {
    fn new(keys: Arc<[SortKey]>, interrupt: &'p Interrupt, mut sources: Vec<Source>) -> Result<Self> {
        for source in &mut sources {
            source.advance()?;
        }
        let heap = (0..sources.len()).filter(|at| sources[*at].head.is_some()).collect();
        let method = SortMethod::Quicksort { memory_kb: 0 };
        let mut made = Sorted { keys, interrupt, sources, heap, method };
        (0..made.heap.len() / 2).rev().for_each(|at| made.sift(at));
        Ok(made)
    }

    pub(crate) fn method(&self) -> SortMethod {
        self.method
    }

    fn is_before(&self, a: usize, b: usize) -> bool {
        let head = |at: usize| self.sources[at].head.as_ref().expect("sources in the heap have a head");
        let (x, y) = (head(a), head(b));
        let order = x.prefix.cmp(&y.prefix).then_with(|| rows::compare(&self.keys, &x.row, &y.row));
        order.then(a.cmp(&b)) == Ordering::Less
    }

    fn sift(&mut self, mut at: usize) {
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            if left >= self.heap.len() {
                return;
            }
            let other = right < self.heap.len() && self.is_before(self.heap[right], self.heap[left]);
            let least = if other { right } else { left };
            if !self.is_before(self.heap[least], self.heap[at]) {
                return;
            }
            self.heap.swap(least, at);
            at = least;
        }
    }

    fn next_item(&mut self) -> Result<Option<Item>> {
        self.interrupt.check()?;
        let Some(top) = self.heap.first().copied() else { return Ok(None) };
        let item = self.sources[top].advance()?;
        if self.sources[top].head.is_none() {
            self.heap.swap_remove(0);
            if let Rest::Tape(..) = self.sources[top].rows {
                // Its blocks may be written again.
                self.sources[top].rows = Rest::Chunk(Vec::new().into_iter());
            }
        }
        self.sift(0);
        Ok(item)
    }

    /// The next row.
    pub(crate) fn next(&mut self) -> Result<Option<Row>> {
        Ok(self.next_item()?.map(|item| item.row))
    }
}

/// A number without what is behind its point, or the nearest that there is.
fn without_fraction(number: &Numeric) -> i64 {
    match number {
        Numeric::Small(unscaled, scale) => {
            10i64.checked_pow(u32::from(*scale)).map_or(0, |one| unscaled / one)
        }
        Numeric::Big(big) => {
            let whole = &big.0 / ten(u32::from(big.1));
            let far = if whole.sign() == Sign::Minus { i64::MIN } else { i64::MAX };
            i64::try_from(whole).unwrap_or(far)
        }
        Numeric::MinusInfinity => i64::MIN,
        Numeric::Infinity | Numeric::NaN => i64::MAX,
    }
}

/// A number by which the values of a key are in their order, or the same number where that is open.
fn prefix(key: &SortKey, value: &Value) -> u64 {
    let float = |x: f64| {
        // Zeros are equal, and NaN is greater than all else.
        let bits = if x.is_nan() { f64::NAN.abs() } else { x + 0.0 }.to_bits();
        if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
    };
    let whole = |n: i64| (n as u64) ^ (1 << 63);
    let bytes = |bytes: &[u8]| {
        let mut first = [0; 8];
        let len = bytes.len().min(8);
        first[..len].copy_from_slice(&bytes[..len]);
        u64::from_be_bytes(first)
    };
    let number = match value {
        Value::Null => return if key.nulls_first { 0 } else { u64::MAX },
        Value::Bool(b) => u64::from(*b) << 1,
        Value::Int2(n) => whole(i64::from(*n) << 32),
        Value::Int4(n) => whole(i64::from(*n) << 31),
        Value::Date(n) => whole(i64::from(*n) << 31),
        Value::Oid(n) => u64::from(*n) << 1,
        Value::Int8(n) | Value::Time(n) | Value::Timestamp(n) | Value::Timestamptz(n) => whole(*n),
        Value::Float4(x) => float(f64::from(*x)),
        Value::Float8(x) => float(*x),
        Value::Numeric(number) => whole(without_fraction(number)),
        Value::Text(text) if key.ty == oid::BPCHAR => bytes(text.trim_end_matches(' ').as_bytes()),
        Value::Text(text) => bytes(text.as_bytes()),
        Value::Bytea(all) => bytes(all),
        Value::Uuid(all) => bytes(&all[..]),
        // Nothing is known of where they stand among the others of their type: all of these have one number.
        _ => 1 << 63,
    };
    // Between those of NULL.
    let number = (number >> 1) + 1;
    if key.descending { u64::MAX - number } else { number }
}
