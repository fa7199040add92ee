//! Tuple cells: the sync bits of shared rows, several to a word, each bound to one block for ever.
//!
//! What hosts must see at once of a row fits 21 bits in pods of up to 8 hosts, so a sync word has three cells
//! (one in larger pods). A cell is not allocated: it belongs to the place in data memory where its block
//! starts. Whoever has an old address of a row therefore locks the cell of that place, and what he finds
//! behind it is the row that lies there now, never another row's block.
//!
//! When a chunk of blocks is first used for rows, it gets *runs* of words, as many as it has places for rows
//! of that size, its *grain*. They stay for ever, whatever the chunk is used for later; rows of other sizes
//! then start at multiples of the grain, so each has the cell of its start.
//!
//! ```text
//! bond word of a segment (one or more for each chunk of blocks; 0: none yet)
//!   bits 0..32  its run: first word's offset / 8       bits 32..40  size class of the grain
//! cells of a segment: 512 words' worth of grains. Of each eight lines, cells go to one line after the other,
//! and fill a line word by word.
//! ```
//!
//! Invariants:
//! 1. A cell and a block's start belong together for ever; cells are words of chunks that are never anything
//!    else.
//! 2. A chunk is handed out for rows only when all its segments have runs. Its owner alone gives it some.
//! 3. A cell is 0 ("dead" to whoever uses it) at first; the heap never writes to it.
//!
//! It does not say what the bits mean.

use std::collections::BTreeMap;

use liger_fabric::{Cx, DataAddr, Fabric, HostId, LINE, SyncAddr};

use super::Heap;
use super::chunks::Class;
use super::pool::Pool;
use super::room::chunks_in;
use super::sizes::{SIZES, bytes_of_size};
use crate::error::{PodError, damaged};
use crate::plan::{PodConfig, WORD_CHUNK_BYTES, cells_per_word};

const WORDS_PER_LINE: u64 = LINE as u64 / 8;
/// So many neighbours have cells in different lines.
const LINES_SIDE_BY_SIDE: u64 = 8;
const BLOCK_BITS: u32 = 34;
const WORD_BITS: u32 = 28;
// The address of a row has two more bits for the place; a bond word has 32 for a run's first word.
const _: () = assert!(BLOCK_BITS + WORD_BITS + 2 == u64::BITS && WORD_BITS <= u32::BITS);

/// Cells lie below: a tuple's address has 28 bits for the word's number.
const MAX_CELL_OFFSET: u64 = 8 << WORD_BITS;

/// Where a shared row is: its block, and the cell that belongs to the block.
///
/// ```text
/// bits 0..34  block's offset / 64     34..62  word's offset / 8     62..64  the cell's place in the word
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TupleAddr(u64);

impl TupleAddr {
    /// The row whose block and cell are these.
    ///
    /// # Panics
    /// If the block lies beyond 1 TiB, the word beyond 2 GiB, or either is not aligned.
    pub fn new(block: DataAddr, word: SyncAddr, place: u32) -> Self {
        let (line, number) = (block.offset() / LINE as u64, word.offset() / 8);
        assert!(block.is_line_aligned() && line < 1 << BLOCK_BITS && number < 1 << WORD_BITS && place < 3);
        debug_assert!(line != 0, "no block lies where the superblock does");
        Self(line | number << BLOCK_BITS | u64::from(place) << (BLOCK_BITS + WORD_BITS))
    }

    /// The block.
    pub fn block(self) -> DataAddr {
        DataAddr::new((self.0 & ((1 << BLOCK_BITS) - 1)) * LINE as u64)
    }

    /// The sync word that has the cell.
    pub fn word(self) -> SyncAddr {
        SyncAddr::new((self.0 >> BLOCK_BITS & ((1 << WORD_BITS) - 1)) * 8)
    }

    /// Which of the word's cells it is: 0 to 2.
    pub fn place(self) -> u32 {
        (self.0 >> (BLOCK_BITS + WORD_BITS)) as u32
    }

    /// As a number that is not 0.
    pub fn raw(self) -> u64 {
        self.0
    }

    /// The inverse of `raw`; `None` for a number that is no address of a row.
    pub fn from_raw(raw: u64) -> Option<Self> {
        let it = Self(raw);
        (it.place() < 3 && it.block().offset() != 0 && it.word().offset() != 0).then_some(it)
    }
}

impl std::fmt::Debug for TupleAddr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "row {:#x} (cell {:#x}.{})", self.block().offset(), self.word().offset(), self.place())
    }
}

/// The cells of a chunk.
pub(super) struct Bond {
    /// Bytes from one cell's place to the next one's.
    pub grain: u64,
    /// Its segments: the first word and the words of their runs.
    runs: Vec<(SyncAddr, u64)>,
    /// Cells of a segment.
    segment: u64,
    /// Cells of a word.
    per_word: u64,
}

impl Bond {
    /// The cell of the place `distance` bytes from the start of the chunk.
    pub fn cell(&self, distance: u64) -> (SyncAddr, u32) {
        assert!(distance.is_multiple_of(self.grain), "rows start at multiples of {}", self.grain);
        let number = distance / self.grain;
        let ((run, words), number) = (self.runs[(number / self.segment) as usize], number % self.segment);
        let side_by_side = WORDS_PER_LINE * self.per_word * LINES_SIDE_BY_SIDE;
        let (first, number) = (number / side_by_side * LINES_SIDE_BY_SIDE, number % side_by_side);
        let lines = (words / WORDS_PER_LINE - first).min(LINES_SIDE_BY_SIDE);
        let (line, in_line) = (first + number % lines, number / lines);
        debug_assert!(line < words / WORDS_PER_LINE && in_line < WORDS_PER_LINE * self.per_word);
        (run.line(line).word(in_line / self.per_word), (in_line % self.per_word) as u32)
    }
}

/// Words of chunks of cells that no run has yet.
#[derive(Clone, Copy)]
pub(super) struct Tail {
    at: SyncAddr,
    words: u64,
}

/// What a bond word says.
#[derive(Clone, Copy)]
struct Run {
    at: SyncAddr,
    size: u8,
}

impl Run {
    /// `None`: no bond word of a run says that.
    fn decode(word: u64) -> Option<Self> {
        let at = SyncAddr::new((word & u64::from(u32::MAX)) * 8);
        let it = Self { at, size: (word >> 32) as u8 };
        let fits = usize::from(it.size) < SIZES && at.offset().is_multiple_of(LINE as u64);
        (fits && word != 0 && at.offset() < MAX_CELL_OFFSET && it.encode() == word).then_some(it)
    }

    fn encode(self) -> u64 {
        assert!(self.at.offset() < MAX_CELL_OFFSET, "no row's address reaches the cells at {:?}", self.at);
        (self.at.offset() / 8) | (u64::from(self.size) << 32)
    }
}

#[cold]
fn no_run(word: u64) -> PodError {
    damaged("the place of a chunk's cells", word, 0)
}

/// Cells of one segment: what the words of one chunk of words have.
fn cells_of_segment(config: &PodConfig) -> u64 {
    WORD_CHUNK_BYTES / 8 * cells_per_word(config.hosts)
}

/// Bond words of a chunk of blocks.
pub(crate) fn segments(config: &PodConfig) -> u64 {
    (u64::from(config.block_chunk_bytes) / LINE as u64).div_ceil(cells_of_segment(config))
}

impl Heap {
    pub(super) fn bond_word(&self, chunk: u32, segment: u64) -> SyncAddr {
        self.plan.bonds().word(u64::from(chunk) * segments(self.plan.config()) + segment)
    }

    /// Words of each run of a chunk whose grain has this size, in order.
    fn words_of_runs(&self, size: u8) -> impl Iterator<Item = u64> + use<> {
        let config = self.plan.config();
        let (segment, per_word) = (cells_of_segment(config), cells_per_word(config.hosts));
        let cells = self.blocks.bytes / bytes_of_size(size) as u64;
        let of = move |from: u64| (cells - from).min(segment).div_ceil(per_word);
        (0..cells).step_by(segment as usize).map(move |from| of(from).next_multiple_of(WORDS_PER_LINE))
    }

    /// The run of `words` words that a segment of a chunk has, if it has one.
    ///
    /// # Errors
    /// [`PodError::Damaged`] if the bond word names no such run.
    fn run<F: Fabric>(
        &self,
        cx: &Cx<F>,
        chunk: u32,
        segment: u64,
        words: impl Fn(Run) -> u64,
    ) -> Result<Option<Run>, PodError> {
        let word = cx.load(self.bond_word(chunk, segment));
        if word == 0 {
            return Ok(None);
        }
        let lies = |run: &Run| self.words.may_hold(run.at.offset(), 8 * words(*run));
        Run::decode(word).filter(lies).map(Some).ok_or_else(|| no_run(word))
    }

    /// The first run of a chunk, whose size is that of all of them.
    fn first_run<F: Fabric>(&self, cx: &Cx<F>, chunk: u32) -> Result<Option<Run>, PodError> {
        self.run(cx, chunk, 0, |run| self.words_of_runs(run.size).next().unwrap_or(0))
    }

    /// The cells of a chunk, if it has got all of them.
    ///
    /// # Errors
    /// [`PodError::Damaged`] if its bond words make no sense.
    pub(super) fn bond<F: Fabric>(&self, cx: &Cx<F>, chunk: u32) -> Result<Option<Bond>, PodError> {
        let Some(first) = self.first_run(cx, chunk)? else { return Ok(None) };
        let mut runs = Vec::new();
        for (segment, words) in (0..).zip(self.words_of_runs(first.size)) {
            let Some(run) = self.run(cx, chunk, segment, |_| words)? else { return Ok(None) };
            runs.push((run.at, words));
        }
        let config = self.plan.config();
        let (segment, per_word) = (cells_of_segment(config), cells_per_word(config.hosts));
        Ok(Some(Bond { grain: bytes_of_size(first.size) as u64, runs, segment, per_word }))
    }

    /// The cells of a chunk of this host, which gets what it lacks: for rows of size class `size`, if it has
    /// none yet. `None`: there are not enough sync words, or what it has is damaged. What it has got by then
    /// it keeps.
    pub(super) fn make_bond<F: Fabric>(&self, cx: &Cx<F>, chunk: u32, size: u8) -> Option<Bond> {
        let renewed = cx.sabotaged("heap.cells-stay-bound");
        let first = self.damage.whole(self.first_run(cx, chunk))?.filter(|_| !renewed);
        let size = first.map_or(size, |run| run.size);
        let mut pool = self.pools[Class::Cells as usize].lock(cx);
        for (segment, words) in (0..).zip(self.words_of_runs(size)) {
            let bond = self.bond_word(chunk, segment);
            let seen = cx.load(bond);
            let there = Run::decode(seen);
            if there.is_none() && seen != 0 {
                self.damage.note(no_run(seen));
                return None;
            }
            if there.is_none_or(|run| run.size != size) {
                let run = Run { at: self.take_run(cx, &mut pool, words)?, size };
                let bound = cx.compare_exchange(bond, seen, run.encode());
                assert!(bound.is_ok(), "two hosts give chunk {chunk} its cells: {bound:x?}");
            }
        }
        self.whole_bond(cx, chunk)
    }

    /// The cells of a chunk that has got all of them; damage is noted, and no chunk with it is used.
    fn whole_bond<F: Fabric>(&self, cx: &Cx<F>, chunk: u32) -> Option<Bond> {
        self.damage.whole(self.bond(cx, chunk)).flatten()
    }

    /// Claims a chunk for rows of size class `size`, with its cells.
    pub(super) fn claim_for_rows<F: Fabric>(
        &self,
        cx: &Cx<F>,
        size: u8,
        cursor: &mut u64,
    ) -> Option<(u32, Bond)> {
        let mine = self.my_word(Class::Row, size);
        // Rows of another size than the chunk's grain waste some of it.
        let fits = |chunk| {
            let first = self.damage.whole(self.first_run(cx, chunk));
            first.is_some_and(|run| run.is_none_or(|run| run.size == size))
        };
        let within = chunks_in(cx, &self.plan, self.blocks.count);
        let any = |cursor: &mut u64| self.blocks.claim(cx, (cursor, within), mine, |_| true);
        let (chunk, before) = self.blocks.claim(cx, (cursor, within), mine, fits).or_else(|| any(cursor))?;
        if let Some(bond) = self.make_bond(cx, chunk, size) {
            return Some((chunk, bond));
        }
        self.blocks.hand_over(cx, chunk, mine, before);
        let has_bond = |chunk| self.whole_bond(cx, chunk).is_some();
        let (chunk, _) = self.blocks.claim(cx, (cursor, within), mine, has_bond)?;
        self.whole_bond(cx, chunk).map(|bond| (chunk, bond))
    }

    /// So many words for a run, from behind the last one or from a chunk claimed now.
    fn take_run<F: Fabric>(&self, cx: &Cx<F>, pool: &mut Pool, words: u64) -> Option<SyncAddr> {
        assert!(words > 0 && words.is_multiple_of(WORDS_PER_LINE), "a run is whole lines, not {words} words");
        assert!(words <= WORD_CHUNK_BYTES / 8, "a run lies in one chunk of words");
        if !pool.tails.iter().any(|tail| tail.words >= words) {
            let mine = self.my_word(Class::Cells, 0);
            let is_near = |chunk| self.words.offset(chunk) + WORD_CHUNK_BYTES <= MAX_CELL_OFFSET;
            let within = chunks_in(cx, &self.plan, self.words.count);
            let (chunk, _) = self.words.claim(cx, (&mut pool.cursor, within), mine, is_near)?;
            let at = SyncAddr::new(self.words.offset(chunk));
            self.account(cx, Class::Cells, pool, 0, WORD_CHUNK_BYTES as i64);
            pool.tails.push(Tail { at, words: WORD_CHUNK_BYTES / 8 });
        }
        let tail = pool.tails.iter_mut().find(|tail| tail.words >= words)?;
        let at = tail.at;
        (tail.at, tail.words) = (at.word(words), tail.words - words);
        pool.tails.retain(|tail| tail.words > 0);
        Some(at)
    }

    /// Takes a dead host's chunks of cells over, and what no run has of them, and counts the cells of `rows`
    /// that have come with its blocks.
    ///
    /// # Errors
    /// [`PodError::Damaged`] if bond words or words of chunks make no sense. What could be taken over has
    /// been, but where not all runs are known, no room behind them.
    pub(super) fn adopt_cells<F: Fabric>(
        &self,
        cx: &Cx<F>,
        dead: (HostId, u16),
        rows: u64,
    ) -> Result<(), PodError> {
        let mut pool = self.pools[Class::Cells as usize].lock(cx);
        self.account(cx, Class::Cells, &mut pool, rows as i64, 0);
        if dead.0 != self.host {
            self.clear_accounts(cx, dead.0, Class::Cells);
        }
        // Where the last run in each chunk of words ends.
        let (mut ends, mut found) = (BTreeMap::new(), Ok(()));
        for chunk in 0..self.blocks.count as u32 {
            match self.runs_of(cx, chunk) {
                Ok(runs) => {
                    for (at, words) in runs {
                        let end = ends.entry(self.words.around(at.offset())).or_insert(0);
                        *end = u64::max(*end, at.offset() + 8 * words);
                    }
                }
                Err(damage) => found = Err(damage),
            }
        }
        let all_known = found.is_ok();
        for chunk in 0..self.words.count as u32 {
            let word = match self.words.word(cx, chunk) {
                Ok(word) => word,
                Err(damage) => {
                    found = Err(damage);
                    continue;
                }
            };
            if (word.owner, word.class) != (Some(dead), Some(Class::Cells)) {
                continue;
            }
            self.words.hand_over(cx, chunk, word, self.my_word(Class::Cells, 0));
            self.account(cx, Class::Cells, &mut pool, 0, WORD_CHUNK_BYTES as i64);
            let start = self.words.offset(chunk);
            let at = ends.get(&chunk).copied().unwrap_or(start);
            let words = (start + WORD_CHUNK_BYTES - at) / 8;
            if words > 0 && all_known {
                pool.tails.push(Tail { at: SyncAddr::new(at), words });
            }
        }
        found
    }

    /// The runs that a chunk of blocks has, complete or not.
    fn runs_of<F: Fabric>(&self, cx: &Cx<F>, chunk: u32) -> Result<Vec<(SyncAddr, u64)>, PodError> {
        let (mut runs, mut words) = (Vec::new(), Vec::new());
        for segment in 0..segments(self.plan.config()) {
            let of = |run: Run| self.words_of_runs(run.size).nth(segment as usize).unwrap_or(0);
            let Some(run) = self.run(cx, chunk, segment, of)? else { break };
            if segment == 0 {
                words.extend(self.words_of_runs(run.size));
            }
            runs.push(run);
        }
        Ok(runs.iter().map(|run| run.at).zip(words).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Numbers;

    #[test]
    fn bond_words_that_nobody_writes_are_none() {
        let mut numbers = Numbers(11);
        let whole = |word| {
            let run = Run::decode(word)?;
            assert!(run.encode() == word && bytes_of_size(run.size) > 0, "{word:#x}");
            Some(run)
        };
        assert!(whole(0).is_none());
        for size in 0..=u8::MAX {
            let word = u64::from(size) << 32 | 0x1000;
            assert_eq!(whole(word).is_some(), usize::from(size) < SIZES);
            assert!(whole(word | 1).is_none() && whole(word | 1 << 40).is_none(), "{word:#x}");
            whole(numbers.draw());
        }
    }
}
