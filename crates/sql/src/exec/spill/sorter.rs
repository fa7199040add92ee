//! Sorting: runs that are sorted in memory, and merged as they are read.
//!
//! ```text
//! rows -> chunk -> chunks (sorted, in memory) -> runs (merged chunks, on tapes) -> merge -> rows in order
//! ```
//!
//! Invariants:
//! 1. What is equal stays in its order: chunks and runs are merged with those around them only, and of equal
//!    rows that of the earlier one comes first.
//! 2. With a bound, no more than twice as many rows are kept, as long as these fit in the space.
//! 3. A cancel is heard at each chunk and at each row that is merged.

use std::cmp::Ordering;
use std::sync::Arc;

use super::chunk::{Chunk, ENTRY, prefix};
use super::{Place, Space, Tape, TapeFile, footprint, kilobytes};
use crate::error::Result;
use crate::exec::{Row, rows};
use crate::session::Interrupt;
use crate::tree::SortKey;
use crate::types::value::Value;

/// So many rows are sorted at once.
const CHUNK: usize = 1 << 16;
/// A longer list of first rows is sorted as if all were wanted: what it would take is sorted again and again.
const BOUND_MOST: usize = CHUNK / 2;
/// Fewest and most runs that are merged at once.
const FAN_IN: (usize, usize) = (6, 500);

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
    chunk: Chunk,
    chunks: Vec<Chunk>,
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
        let (chunk, chunks, runs) = (Chunk::default(), Vec::new(), Vec::new());
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
                let last = bound - 1;
                let order = prefix.cmp(&self.chunk.prefix(last));
                if order.then_with(|| rows::compare(&self.keys, &row, self.chunk.row(last))).is_ge() {
                    return Ok(());
                }
            }
            self.put(prefix, row);
            if self.chunk.len() >= 2 * bound && self.chunk.len() > bound {
                self.cut_off(bound)?;
            }
            if self.space.is_full(self.bytes) {
                // What has been left out stays out.
                self.bound = None;
            }
            return Ok(());
        }
        self.put(prefix, row);
        if self.space.is_full(self.bytes) {
            self.write_run()?;
        } else if self.chunk.len() >= CHUNK {
            self.close_chunk()?;
        }
        Ok(())
    }

    fn put(&mut self, prefix: u64, row: Row) {
        self.bytes += self.chunk.push(prefix, row);
        self.peak = self.peak.max(self.bytes);
    }

    fn cut_off(&mut self, bound: usize) -> Result<()> {
        self.interrupt.check()?;
        self.chunk.sort(&self.keys, bound);
        self.bytes = (0..self.chunk.len()).map(|at| ENTRY + footprint(self.chunk.row(at))).sum();
        self.cut = bound > 0;
        Ok(())
    }

    fn close_chunk(&mut self) -> Result<()> {
        self.interrupt.check()?;
        if self.chunk.len() > 0 {
            self.chunk.sort(&self.keys, usize::MAX);
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
                // No more than it takes to have few enough.
                let all = self.runs.len() + runs.len();
                let group = (all + 1).saturating_sub(most).clamp(1, most);
                let mut group: Vec<Tape> = runs.by_ref().take(group).collect();
                if group.len() > 1 {
                    let merged = self.merge(group.drain(..).map(Source::of_tape).collect())?;
                    group.push(write(merged, &file)?);
                }
                self.runs.append(&mut group);
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
    while let Some((prefix, row)) = merged.head() {
        run.push(prefix, row)?;
        merged.advance()?;
    }
    Ok(run)
}

/// A sorted list of rows that is read once.
enum Source {
    /// The number of the row that is read.
    Chunk(Chunk, usize),
    /// The row that was read last.
    Tape(Tape, Place, Row),
    /// It has been read.
    End,
}

impl Source {
    fn of_chunk(chunk: Chunk) -> Source {
        Source::Chunk(chunk, 0)
    }

    fn of_tape(tape: Tape) -> Source {
        Source::Tape(tape, Place::default(), Row::new())
    }

    /// Reads the first row; its prefix.
    fn begin(&mut self) -> Result<Option<u64>> {
        match self {
            Source::Chunk(chunk, _) => Ok((chunk.len() > 0).then(|| chunk.prefix(0))),
            _ => self.advance(),
        }
    }

    /// Goes on to the next row; its prefix.
    fn advance(&mut self) -> Result<Option<u64>> {
        let next = match self {
            Source::Chunk(chunk, at) => {
                *at += 1;
                (*at < chunk.len()).then(|| chunk.prefix(*at))
            }
            Source::Tape(tape, place, row) => {
                row.clear();
                place.read(tape, row)?
            }
            Source::End => None,
        };
        if next.is_none() {
            // Its memory is given back, and its blocks may be written again.
            *self = Source::End;
        }
        Ok(next)
    }

    fn row(&self) -> &[Value] {
        match self {
            Source::Chunk(chunk, at) => chunk.row(*at),
            Source::Tape(_, _, row) => row,
            Source::End => unreachable!("sources in the heap have a row"),
        }
    }

    fn take(&mut self) -> Row {
        match self {
            Source::Chunk(chunk, at) => chunk.take(*at),
            Source::Tape(_, _, row) => std::mem::take(row),
            Source::End => unreachable!("sources in the heap have a row"),
        }
    }
}

/// The first row of a source that has not been given: its prefix, and which source it is of.
#[derive(Clone, Copy)]
struct Head {
    prefix: u64,
    source: usize,
}

/// Rows in order, as they are merged.
pub(crate) struct Sorted<'p> {
    keys: Arc<[SortKey]>,
    interrupt: &'p Interrupt,
    sources: Vec<Source>,
    /// Of the sources that have rows: a heap, the first of all rows at its top.
    heap: Vec<Head>,
    method: SortMethod,
}

impl<'p> Sorted<'p> {
    fn new(keys: Arc<[SortKey]>, interrupt: &'p Interrupt, mut sources: Vec<Source>) -> Result<Self> {
        let mut heap = Vec::with_capacity(sources.len());
        for (source, of) in sources.iter_mut().enumerate() {
            heap.extend(of.begin()?.map(|prefix| Head { prefix, source }));
        }
        let method = SortMethod::Quicksort { memory_kb: 0 };
        let mut made = Sorted { keys, interrupt, sources, heap, method };
        (0..made.heap.len() / 2).rev().for_each(|at| made.sift(at));
        Ok(made)
    }

    pub(crate) fn method(&self) -> SortMethod {
        self.method
    }

    fn is_before(&self, a: Head, b: Head) -> bool {
        let rows = || {
            let (x, y) = (self.sources[a.source].row(), self.sources[b.source].row());
            rows::compare(&self.keys, x, y).then(a.source.cmp(&b.source))
        };
        a.prefix.cmp(&b.prefix).then_with(rows) == Ordering::Less
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

    /// The first row that has not been given, and its prefix.
    fn head(&self) -> Option<(u64, &[Value])> {
        self.heap.first().map(|head| (head.prefix, self.sources[head.source].row()))
    }

    /// Passes over the first row.
    fn advance(&mut self) -> Result<()> {
        self.interrupt.check()?;
        let Some(top) = self.heap.first_mut() else { return Ok(()) };
        match self.sources[top.source].advance()? {
            Some(prefix) => top.prefix = prefix,
            None => _ = self.heap.swap_remove(0),
        }
        self.sift(0);
        Ok(())
    }

    /// The next row.
    pub(crate) fn next(&mut self) -> Result<Option<Row>> {
        let Some(top) = self.heap.first().map(|head| head.source) else { return Ok(None) };
        let row = self.sources[top].take();
        self.advance()?;
        Ok(Some(row))
    }
}
