//! The rows of one table partition, each with its lock metadata in front.
//!
//! ```text
//! row: | word 0: readers u32, gap readers u32 << 32                         |
//!      | word 1: writer u8, flags u8 << 8, unused u16 << 16, aux u32 << 32  |
//!      | word 2: version                                                    |
//!      | word 3: shared: the row's place in shared memory, 0 = it has none  |
//!      | the row's bytes, zero-padded to whole words                        |
//! ```
//!
//! Invariants:
//! 1. A row's number and its bytes' place never change while it is allocated; chunks are never moved or given
//!    back.
//! 2. A fresh row's header and bytes are zero. A free row has only the flag [`RowFlags::FREE`]; in debug
//!    builds its other bytes are poisoned, and every use of it panics.
//! 3. The same operations give the same numbers: the row that was freed last is used first.
//!
//! It does NOT lock: what the header means is decided by the transactions that use it.

use super::node::NONE;
use std::ops::{BitAnd, BitOr, Not};
use zerocopy::IntoBytes;

/// Words of a row's header.
const HEADER: usize = 4;

/// Chunks have at most so many bytes, if a row is not larger.
const CHUNK_BYTES: usize = 64 << 10;

/// What state a row is in; a set of bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RowFlags(u8);

impl RowFlags {
    /// No flag: the row is being made.
    pub const NONE: RowFlags = RowFlags(0);
    /// The row exists.
    pub const LIVE: RowFlags = RowFlags(1);
    /// Its key is taken by an insert that has not committed.
    pub const PLACEHOLDER: RowFlags = RowFlags(2);
    /// It has been deleted; its key is still in the tree.
    pub const DELETED: RowFlags = RowFlags(4);
    /// Its shared copy carries changes of the writer that is about to let go.
    pub const WRITTEN: RowFlags = RowFlags(8);
    /// For the slab alone: nobody's row.
    pub const FREE: RowFlags = RowFlags(0x80);

    /// Whether all of `other`'s flags are set.
    #[inline]
    pub const fn has(self, other: RowFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for RowFlags {
    type Output = RowFlags;
    #[inline]
    fn bitor(self, other: RowFlags) -> RowFlags {
        RowFlags(self.0 | other.0)
    }
}

impl BitAnd for RowFlags {
    type Output = RowFlags;
    #[inline]
    fn bitand(self, other: RowFlags) -> RowFlags {
        RowFlags(self.0 & other.0)
    }
}

impl Not for RowFlags {
    type Output = RowFlags;
    #[inline]
    fn not(self) -> RowFlags {
        RowFlags(!self.0)
    }
}

/// Who holds a row, and what state it is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Holders {
    /// The workers that read it: a bit each.
    pub readers: u32,
    /// The workers whose lock covers the gap below its key: a bit each.
    pub gap: u32,
    /// The worker that writes it, plus one; 0: nobody.
    pub writer: u8,
    /// Its state.
    pub flags: RowFlags,
}

/// The rows of one table partition, numbered from 0.
///
/// All methods that take a row panic if there never was such a row, and in debug builds if it is free.
#[derive(Clone, Debug)]
pub struct RowSlab {
    chunks: Vec<Box<[u64]>>,
    row_len: usize,
    /// Words from one row to the next.
    stride: usize,
    /// Rows of a chunk, as a power of 2.
    chunk_shift: u32,
    /// Rows that ever were in use; those behind them are zero.
    touched: u32,
    most: u32,
    /// Head of the list of free rows, linked through word 2.
    free: u32,
    len: u32,
}

impl RowSlab {
    /// No rows of `row_len` bytes each, and never more than `most_rows`.
    pub fn new(row_len: usize, most_rows: u32) -> RowSlab {
        let stride = HEADER + row_len.div_ceil(8);
        let chunk_shift = (CHUNK_BYTES / (8 * stride)).max(1).ilog2();
        RowSlab {
            chunks: Vec::new(),
            row_len,
            stride,
            chunk_shift,
            touched: 0,
            most: most_rows,
            free: NONE,
            len: 0,
        }
    }

    /// Bytes of a row.
    #[inline]
    pub fn row_len(&self) -> usize {
        self.row_len
    }

    /// Rows in use.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether no row is in use.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A row whose header and bytes are zero; `None` if all are in use.
    pub fn alloc(&mut self) -> Option<u32> {
        if self.free != NONE {
            let row = self.free;
            let words = self.place_mut(row);
            debug_assert!(words[1] == free_mark(), "row {row} was written while it was free");
            let next = words[2] as u32;
            words.fill(0);
            self.free = next;
            self.len += 1;
            debug_assert!(next == NONE || self.is_free(next), "row {next} is in the list of free rows");
            return Some(row);
        }
        if self.touched == self.most {
            return None;
        }
        let row = self.touched;
        if row >> self.chunk_shift == self.chunks.len() as u32 {
            self.chunks.push(vec![0; self.stride << self.chunk_shift].into_boxed_slice());
        }
        self.touched += 1;
        self.len += 1;
        debug_assert!(self.len <= self.touched && self.touched <= self.most);
        debug_assert!(self.place(row).iter().all(|word| *word == 0), "row {row} was written before its time");
        Some(row)
    }

    /// Gives a row back.
    ///
    /// # Panics
    /// If it is free already.
    pub fn free(&mut self, row: u32) {
        assert!(!self.is_free(row), "row {row} is free already");
        let next = self.free;
        let words = self.place_mut(row);
        if cfg!(debug_assertions) {
            words.fill(0xdbdb_dbdb_dbdb_dbdb);
        }
        words[1] = free_mark();
        words[2] = next as u64;
        self.free = row;
        self.len -= 1;
    }

    /// Whether the row is free.
    pub fn is_free(&self, row: u32) -> bool {
        row >= self.touched || self.place(row)[1] == free_mark()
    }

    /// The numbers of all rows in use, ascending.
    pub fn rows(&self) -> impl Iterator<Item = u32> {
        (0..self.touched).filter(|&row| !self.is_free(row))
    }

    #[inline]
    fn place(&self, row: u32) -> &[u64] {
        debug_assert!(row < self.touched, "there never was a row {row}");
        let chunk = &self.chunks[(row >> self.chunk_shift) as usize];
        let start = (row as usize & ((1 << self.chunk_shift) - 1)) * self.stride;
        &chunk[start..start + self.stride]
    }

    #[inline]
    fn place_mut(&mut self, row: u32) -> &mut [u64] {
        let chunk = &mut self.chunks[(row >> self.chunk_shift) as usize];
        let start = (row as usize & ((1 << self.chunk_shift) - 1)) * self.stride;
        &mut chunk[start..start + self.stride]
    }

    #[inline]
    fn words(&self, row: u32) -> &[u64] {
        debug_assert!(!self.is_free(row), "row {row} is free");
        self.place(row)
    }

    #[inline]
    fn words_mut(&mut self, row: u32) -> &mut [u64] {
        debug_assert!(!self.is_free(row), "row {row} is free");
        self.place_mut(row)
    }

    /// Starts loading the row's header and its first bytes, `lines` cache lines in all.
    #[inline]
    pub fn prefetch(&self, row: u32, lines: usize) {
        let place = self.place(row);
        liger_fabric::prefetch(&place[..(8 * lines).min(place.len())]);
    }

    /// The row's bytes.
    #[inline]
    pub fn bytes(&self, row: u32) -> &[u8] {
        &self.words(row)[HEADER..].as_bytes()[..self.row_len]
    }

    /// The row's bytes, to change them.
    #[inline]
    pub fn bytes_mut(&mut self, row: u32) -> &mut [u8] {
        let len = self.row_len;
        &mut self.words_mut(row)[HEADER..].as_mut_bytes()[..len]
    }

    /// The workers that have locked the row for reading: a bit each.
    #[inline]
    pub fn readers(&self, row: u32) -> u32 {
        self.field(row, READERS) as u32
    }

    /// Sets [`RowSlab::readers`].
    #[inline]
    pub fn set_readers(&mut self, row: u32, workers: u32) {
        self.set_field(row, READERS, workers as u64);
    }

    /// The workers whose lock covers the gap below the row's key: a bit each.
    #[inline]
    pub fn gap_readers(&self, row: u32) -> u32 {
        self.field(row, GAP_READERS) as u32
    }

    /// Sets [`RowSlab::gap_readers`].
    #[inline]
    pub fn set_gap_readers(&mut self, row: u32, workers: u32) {
        self.set_field(row, GAP_READERS, workers as u64);
    }

    /// The worker that has locked the row for writing (0 to 254).
    #[inline]
    pub fn writer(&self, row: u32) -> Option<u8> {
        (self.field(row, WRITER) as u8).checked_sub(1)
    }

    /// Sets [`RowSlab::writer`].
    ///
    /// # Panics
    /// If the worker is 255.
    #[inline]
    pub fn set_writer(&mut self, row: u32, worker: Option<u8>) {
        let stored = worker.map_or(0, |worker| worker.checked_add(1).expect("a worker below 255"));
        self.set_field(row, WRITER, stored as u64);
    }

    /// The row's state.
    #[inline]
    pub fn flags(&self, row: u32) -> RowFlags {
        RowFlags(self.field(row, FLAGS) as u8)
    }

    /// Sets [`RowSlab::flags`].
    #[inline]
    pub fn set_flags(&mut self, row: u32, flags: RowFlags) {
        debug_assert!(!flags.has(RowFlags::FREE), "rows are freed with free()");
        self.set_field(row, FLAGS, flags.0 as u64);
    }

    /// A number that is the owner's to use.
    #[inline]
    pub fn aux(&self, row: u32) -> u32 {
        self.field(row, AUX) as u32
    }

    /// Sets [`RowSlab::aux`].
    #[inline]
    pub fn set_aux(&mut self, row: u32, aux: u32) {
        self.set_field(row, AUX, aux as u64);
    }

    /// The version of the row's bytes, as the log counts.
    #[inline]
    pub fn version(&self, row: u32) -> u64 {
        self.words(row)[2]
    }

    /// Sets [`RowSlab::version`].
    #[inline]
    pub fn set_version(&mut self, row: u32, version: u64) {
        self.words_mut(row)[2] = version;
    }

    /// Where the row is in shared memory, as its user numbers places; 0: it is not there.
    #[inline]
    pub fn shared(&self, row: u32) -> u64 {
        self.words(row)[3]
    }

    /// Sets [`RowSlab::shared`].
    #[inline]
    pub fn set_shared(&mut self, row: u32, offset: u64) {
        self.words_mut(row)[3] = offset;
    }

    /// Word 0 as one number, for owners that do not keep bits of workers there.
    #[inline]
    pub fn stamp(&self, row: u32) -> u64 {
        self.words(row)[0]
    }

    /// Sets [`RowSlab::stamp`].
    #[inline]
    pub fn set_stamp(&mut self, row: u32, stamp: u64) {
        self.words_mut(row)[0] = stamp;
    }

    /// Who holds the row.
    #[inline]
    pub fn holders(&self, row: u32) -> Holders {
        let words = self.words(row);
        Holders {
            readers: words[0] as u32,
            gap: (words[0] >> 32) as u32,
            writer: words[1] as u8,
            flags: RowFlags((words[1] >> 8) as u8),
        }
    }

    /// Sets [`RowSlab::holders`].
    #[inline]
    pub fn set_holders(&mut self, row: u32, holders: Holders) {
        debug_assert!(!holders.flags.has(RowFlags::FREE), "rows are freed with free()");
        let words = self.words_mut(row);
        words[0] = u64::from(holders.readers) | u64::from(holders.gap) << 32;
        words[1] = words[1] & !0xffff | u64::from(holders.writer) | u64::from(holders.flags.0) << 8;
    }

    #[inline]
    fn field(&self, row: u32, field: Field) -> u64 {
        self.words(row)[field.word] >> field.shift & field.mask
    }

    #[inline]
    fn set_field(&mut self, row: u32, field: Field, value: u64) {
        debug_assert!(value <= field.mask);
        let word = &mut self.words_mut(row)[field.word];
        *word = *word & !(field.mask << field.shift) | value << field.shift;
    }
}

/// Some bits of a header word.
#[derive(Clone, Copy)]
struct Field {
    word: usize,
    shift: u32,
    mask: u64,
}

const READERS: Field = Field { word: 0, shift: 0, mask: u32::MAX as u64 };
const GAP_READERS: Field = Field { word: 0, shift: 32, mask: u32::MAX as u64 };
const WRITER: Field = Field { word: 1, shift: 0, mask: 0xff };
const FLAGS: Field = Field { word: 1, shift: 8, mask: 0xff };
const AUX: Field = Field { word: 1, shift: 32, mask: u32::MAX as u64 };

const _: () = assert!((READERS.mask << READERS.shift) & (GAP_READERS.mask << GAP_READERS.shift) == 0);
const _: () = assert!((WRITER.mask | FLAGS.mask << FLAGS.shift) & (AUX.mask << AUX.shift) == 0);
const _: () = assert!(WRITER.mask & (FLAGS.mask << FLAGS.shift) == 0);

/// Word 1 of a free row.
const fn free_mark() -> u64 {
    (RowFlags::FREE.0 as u64) << FLAGS.shift
}
