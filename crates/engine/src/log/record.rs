//! Records of the log: one transaction's changes as bytes.
//!
//! ```text
//! head    0 len u32   4 crc u32   8 llsn u64   16 position u64
//!        24 incarnation u16   26 host u8   27 worker u8   28 kind u8 (1 rows, 2 rows of a branch)
//!        29 changes u24
//! branch (branch.rs), if the kind is 2
//! change  shape u8     bits 0-1 op (1 insert, 2 update, 3 delete), 2-5 key words, 6 a piece follows
//!         sizes u8     bits 0-3 bytes of the key's last word, 4-7 bytes of `previous`
//!         table, partition: numbers      previous: the lowest bytes of a u64
//!         key: words, highest byte first, the last one without the zero bytes at its end
//! piece   numbers: 2 * offset (+ 1: another one follows), bytes; then the bytes
//! number  7 bits a byte, lowest first; every byte but the last has its highest bit set
//! ```
//!
//! Invariants:
//! 1. A record is whole or it is none: the checksum covers everything but itself.
//! 2. Everything in the head is little-endian; the record is padded with zeros to 8 bytes, and to
//!    [`LONG_UNIT`] where it is longer than [`SHORT_MAX`].
//! 3. What a parsed record says of its lengths has been checked: walking its changes never leaves it.
//!
//! Not here: where records are kept (ring.rs, segment.rs) and what they mean for a row (recovery).

use liger_fabric::HostId;
use liger_pod::plan::PartitionId;

use super::branch::{BRANCH_BYTES, BranchHead};
use super::checksum::{checksum as checksum_of, checksum_from};
use crate::tables::key::{Key, MAX_KEY_WORDS};
use crate::tables::layout::MAX_ROW_BYTES;
use crate::txn::TableId;

/// Bytes of a record's head.
pub const HEAD_BYTES: usize = 32;

/// Bytes of the longest record whose length is any multiple of 8.
pub const SHORT_MAX: usize = 4 << 20;

/// The length of a longer one is a multiple of this many bytes: the tail of a ring has few bits for it.
pub const LONG_UNIT: usize = 512;

/// Changes that a record can have.
pub const MAX_CHANGES: usize = (1 << 24) - 1;

// Records are whole words, and the padding of a long one is no shorter than that of others.
const _: () = assert!(HEAD_BYTES.is_multiple_of(8) && LONG_UNIT.is_multiple_of(8));
// The head has three bytes for their number.
const _: () = assert!(MAX_CHANGES < 1 << 24);

/// Where the checksum ends and what it covers, after the length, begins.
const COVERED: usize = 8;

/// What a record is about. Pages, undo, catalog, columns and objects will have kinds of their own.
const KIND_ROWS: u8 = 1;
/// Rows that a transaction of a partitioned pod has changed at one host.
const KIND_BRANCH: u8 = 2;

/// Bits of a version that count within an epoch.
pub const COUNT_BITS: u32 = 24;

/// The epoch of a version.
pub const fn epoch_of(llsn: u64) -> u64 {
    llsn >> COUNT_BITS
}

/// The least version of an epoch.
pub const fn first_of(epoch: u64) -> u64 {
    debug_assert!(epoch >> (u64::BITS - COUNT_BITS) == 0, "a version has room for its epoch");
    epoch << COUNT_BITS
}

/// What happened to a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// The row is new; its only piece is the whole row.
    Insert,
    /// Some bytes of the row have changed.
    Update,
    /// The row is gone.
    Delete,
}

/// Who wrote a record, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The host that executed the transaction.
    pub host: HostId,
    /// Its incarnation.
    pub incarnation: u16,
    /// The worker, and so the ring.
    pub worker: u8,
}

const SHAPE_KEY_SHIFT: u32 = 2;
const SHAPE_PIECES: u8 = 1 << 6;
/// Most bytes of a number: what it holds is below 2^21.
const NUMBER_BYTES: usize = 3;
// A shape has four bits for the words of a key, and two for what happened.
const _: () = assert!(MAX_KEY_WORDS < 16 && (Op::Delete as u8) < 3);
// Offset and length of a piece are numbers, the offset with a bit behind it.
const _: () = assert!(2 * (u16::MAX as u32) + 1 < 1 << (7 * NUMBER_BYTES));
/// Most bytes of a change without its pieces.
const CHANGE_BYTES: usize = 2 + 2 * NUMBER_BYTES + 8 + 8 * MAX_KEY_WORDS;

/// Puts a record together; its memory is reused from record to record.
#[derive(Debug, Default)]
pub struct RecordWriter {
    /// The record, and what earlier ones have left behind it.
    bytes: Vec<u8>,
    len: usize,
    /// Where the bit is that says whether another piece follows, and that bit.
    more: (usize, u8),
    changes: u32,
    kind: u8,
}

impl RecordWriter {
    /// Bytes that it keeps for the next record.
    pub fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// Starts a new record.
    pub fn begin(&mut self) {
        self.len = 0;
        self.changes = 0;
        self.make_room(HEAD_BYTES);
        self.len = HEAD_BYTES;
        self.kind = KIND_ROWS;
    }

    /// Starts a new record of a branch.
    pub fn begin_branch(&mut self, head: &BranchHead) {
        self.begin();
        self.kind = KIND_BRANCH;
        self.make_room(BRANCH_BYTES);
        self.bytes[HEAD_BYTES..HEAD_BYTES + BRANCH_BYTES].copy_from_slice(&head.encode());
        self.len += BRANCH_BYTES;
    }

    /// Makes room for so many bytes more, and for padding.
    #[inline]
    fn make_room(&mut self, bytes: usize) {
        let needed = self.len + bytes + 16;
        if self.bytes.len() < needed {
            self.bytes.resize(needed.next_power_of_two(), 0);
        }
    }

    /// Adds the first `bytes` of these eight.
    #[inline]
    fn put(&mut self, eight: [u8; 8], bytes: usize) {
        debug_assert!(bytes <= 8);
        self.bytes[self.len..self.len + 8].copy_from_slice(&eight);
        self.len += bytes;
    }

    #[inline]
    fn put_number(&mut self, mut number: u32) {
        debug_assert!(number < 1 << (7 * NUMBER_BYTES));
        while number >= 0x80 {
            self.bytes[self.len] = number as u8 | 0x80;
            self.len += 1;
            number >>= 7;
        }
        self.bytes[self.len] = number as u8;
        self.len += 1;
    }

    /// Adds a change of the row `key`, which replaces version `previous` (0: there was none).
    ///
    /// # Panics
    /// After [`MAX_CHANGES`].
    pub fn change(&mut self, (table, partition): (TableId, PartitionId), op: Op, key: &Key, previous: u64) {
        debug_assert!(self.len >= HEAD_BYTES, "a record is begun before it has changes");
        self.changes += 1;
        assert!(self.changes as usize <= MAX_CHANGES, "more changes than a record has");
        self.make_room(CHANGE_BYTES);
        let words = key.words();
        let last_bytes = words.last().map_or(0, |last| 8 - last.trailing_zeros() as usize / 8);
        let previous_bytes = 8 - previous.leading_zeros() as usize / 8;
        let shape = (op as u8 + 1) | ((words.len() as u8) << SHAPE_KEY_SHIFT);
        self.more = (self.len, SHAPE_PIECES);
        self.put([shape, (last_bytes | previous_bytes << 4) as u8, 0, 0, 0, 0, 0, 0], 2);
        self.put_number(table.0.into());
        self.put_number(partition.0.into());
        self.put(previous.to_le_bytes(), previous_bytes);
        for word in words {
            self.put(word.to_be_bytes(), 8);
        }
        self.len -= if words.is_empty() { 0 } else { 8 - last_bytes };
    }

    /// Adds a piece to the change that was added last: `bytes` are at `offset` of the row now.
    pub fn piece(&mut self, offset: u16, bytes: &[u8]) {
        assert!(bytes.len() <= usize::from(u16::MAX), "a piece of {} bytes", bytes.len());
        debug_assert!(self.changes > 0, "a piece belongs to a change");
        debug_assert!(usize::from(offset) + bytes.len() <= MAX_ROW_BYTES, "a piece lies in its row");
        self.make_room(2 * NUMBER_BYTES + bytes.len());
        let (at, bit) = self.more;
        self.bytes[at] |= bit;
        self.more = (self.len, 1);
        self.put_number(2 * u32::from(offset));
        self.put_number(bytes.len() as u32);
        // What most columns have is copied without a call.
        let to = &mut self.bytes[self.len..self.len + bytes.len()];
        match *bytes {
            [a, b] => to.copy_from_slice(&[a, b]),
            [a, b, c, d] => to.copy_from_slice(&[a, b, c, d]),
            [a, b, c, d, e, f, g, h] => to.copy_from_slice(&[a, b, c, d, e, f, g, h]),
            _ => to.copy_from_slice(bytes),
        }
        self.len += bytes.len();
    }

    /// Bytes of the record so far.
    pub fn len(&self) -> usize {
        self.len.next_multiple_of(if self.len > SHORT_MAX { LONG_UNIT } else { 8 })
    }

    /// True while no change was added.
    pub fn is_empty(&self) -> bool {
        self.changes == 0
    }

    /// The finished record: changes that make version `llsn`, at `position` of the ring's stream.
    pub fn finish(&mut self, llsn: u64, position: u64, origin: Origin) -> &[u8] {
        debug_assert!(self.len >= HEAD_BYTES, "a record is begun before it is finished");
        debug_assert!(position.is_multiple_of(8), "a record begins at {position} of its stream");
        debug_assert!(llsn > 0, "version 0 is that of no change");
        let len = self.len();
        debug_assert!(u32::try_from(len).is_ok(), "a record of {len} bytes");
        self.make_room(len - self.len);
        self.bytes[self.len..len].fill(0);
        let record = &mut self.bytes[..len];
        record[0..4].copy_from_slice(&(len as u32).to_le_bytes());
        record[8..16].copy_from_slice(&llsn.to_le_bytes());
        record[16..24].copy_from_slice(&position.to_le_bytes());
        record[24..26].copy_from_slice(&origin.incarnation.to_le_bytes());
        record[26..29].copy_from_slice(&[origin.host.0, origin.worker, self.kind]);
        record[29..32].copy_from_slice(&self.changes.to_le_bytes()[..3]);
        let crc = checksum(record);
        record[4..8].copy_from_slice(&crc.to_le_bytes());
        record
    }
}

/// The checksum of a record of these bytes.
fn checksum(record: &[u8]) -> u32 {
    checksum_from(checksum_of(&record[..4]), &record[COVERED..])
}

/// Why bytes are no record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadRecord {
    /// The bytes end before the record does.
    #[error("it says {len} bytes, and {available} are there")]
    Short {
        /// What the head says; 0 if there is not even a head.
        len: u32,
        /// Bytes there are.
        available: u64,
    },
    /// The checksum is wrong.
    #[error("its checksum is {found:#010x}, its bytes give {computed:#010x}")]
    Checksum {
        /// In the record.
        found: u32,
        /// Of the record.
        computed: u32,
    },
    /// The checksum is right, and what it covers makes no sense: written by another version, or a bug.
    #[error("its {what} makes no sense")]
    Malformed {
        /// Which part.
        what: &'static str,
    },
}

/// A checked record.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    bytes: &'a [u8],
}

/// One change of a record.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Table of the row.
    pub table: TableId,
    /// Partition of the row.
    pub partition: PartitionId,
    /// What happened.
    pub op: Op,
    /// The row's key.
    pub key: Key,
    /// Version that was replaced; 0: none.
    pub previous: u64,
    /// Its pieces, the last of which says so; empty: none.
    pieces: &'a [u8],
}

/// The number at byte `at`, which is there.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

/// The number at byte `at`, which is there.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The number at byte `at`, which is there.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The version of the record of which these bytes are there, if they tell it.
pub(super) fn llsn_of(beginning: &[u8]) -> Option<u64> {
    (beginning.len() >= 16).then(|| u64_at(beginning, 8))
}

/// Steps over the records in `bytes`, the first of which begins at byte `at`, by the lengths in their heads;
/// `each` sees what is there of each. Returns where the next one begins, at the end of `bytes` or behind it;
/// `u64::MAX` if that cannot be known, because a length makes no sense.
pub(super) fn step_over(bytes: &[u8], mut at: u64, mut each: impl FnMut(&[u8])) -> u64 {
    while at < bytes.len() as u64 {
        let record = &bytes[at as usize..];
        each(record);
        match record.first_chunk().map(|len| u32::from_le_bytes(*len)) {
            Some(len) if len as usize >= HEAD_BYTES && len.is_multiple_of(8) => at += u64::from(len),
            _ => return u64::MAX,
        }
    }
    at
}

impl<'a> Record<'a> {
    /// The record at the start of `bytes`.
    ///
    /// # Errors
    /// If there is none that is whole.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BadRecord> {
        let available = bytes.len() as u64;
        if bytes.len() < HEAD_BYTES {
            return Err(BadRecord::Short { len: 0, available });
        }
        let len = u32_at(bytes, 0);
        if (len as usize) < HEAD_BYTES || !len.is_multiple_of(8) {
            return Err(BadRecord::Malformed { what: "length" });
        }
        let bytes = bytes.get(..len as usize).ok_or(BadRecord::Short { len, available })?;
        let (found, computed) = (u32_at(bytes, 4), checksum(bytes));
        if found != computed {
            return Err(BadRecord::Checksum { found, computed });
        }
        let record = Self { bytes };
        match bytes[28] {
            KIND_ROWS => {}
            KIND_BRANCH if record.branch().is_some() => {}
            KIND_BRANCH => return Err(BadRecord::Malformed { what: "branch" }),
            _ => return Err(BadRecord::Malformed { what: "kind" }),
        }
        record.check_changes()?;
        Ok(record)
    }

    fn check_changes(&self) -> Result<(), BadRecord> {
        let mut rest = self.body();
        for _ in 0..self.change_count() {
            (_, rest) = take_change(rest).ok_or(BadRecord::Malformed { what: "change" })?;
        }
        let unit = if self.bytes.len() > SHORT_MAX { LONG_UNIT } else { 8 };
        let is_padding = rest.len() < unit && rest.iter().all(|byte| *byte == 0);
        if is_padding { Ok(()) } else { Err(BadRecord::Malformed { what: "end" }) }
    }

    /// Its changes' bytes.
    fn body(&self) -> &'a [u8] {
        let head = if self.bytes[28] == KIND_BRANCH { HEAD_BYTES + BRANCH_BYTES } else { HEAD_BYTES };
        &self.bytes[head..]
    }

    /// What it says of a partitioned transaction, if it is of one.
    pub fn branch(&self) -> Option<BranchHead> {
        if self.bytes[28] == KIND_BRANCH { BranchHead::decode(&self.bytes[HEAD_BYTES..]) } else { None }
    }

    fn change_count(&self) -> u32 {
        u32_at(self.bytes, 28) >> 8
    }

    /// Bytes of it.
    #[expect(clippy::len_without_is_empty, reason = "a record has a head")]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The version that its changes make.
    pub fn llsn(&self) -> u64 {
        u64_at(self.bytes, 8)
    }

    /// Where in the ring's stream it starts.
    pub fn position(&self) -> u64 {
        u64_at(self.bytes, 16)
    }

    /// Who wrote it.
    pub fn origin(&self) -> Origin {
        let (host, worker) = (HostId(self.bytes[26]), self.bytes[27]);
        Origin { host, incarnation: u16_at(self.bytes, 24), worker }
    }

    /// Its changes, in the order of the transaction.
    pub fn changes(&self) -> impl Iterator<Item = Change<'a>> + use<'a> {
        let mut rest = self.body();
        (0..self.change_count()).map(move |_| {
            let (change, behind) = take_change(rest).expect("checked when it was parsed");
            debug_assert!(behind.len() < rest.len(), "a change has bytes");
            rest = behind;
            change
        })
    }
}

impl<'a> Change<'a> {
    /// Its pieces: offset in the row, and the bytes that are there now.
    pub fn pieces(&self) -> impl Iterator<Item = (u16, &'a [u8])> + use<'a> {
        let mut rest = self.pieces;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let (piece, more, behind) = take_piece(rest).expect("checked when it was parsed");
            debug_assert_eq!(more, !behind.is_empty(), "the last piece says that it is the last");
            rest = behind;
            Some(piece)
        })
    }
}

/// The change at the start of `bytes`, and what is behind it.
fn take_change(bytes: &[u8]) -> Option<(Change<'_>, &[u8])> {
    let (&[shape, sizes], rest) = bytes.split_first_chunk()?;
    let op = *[Op::Insert, Op::Update, Op::Delete].get(usize::from((shape & 3).checked_sub(1)?))?;
    let key_words = usize::from(shape >> SHAPE_KEY_SHIFT & 15);
    let (last_bytes, previous_bytes) = (usize::from(sizes & 15), usize::from(sizes >> 4));
    let is_known = shape >> 7 == 0 && key_words <= MAX_KEY_WORDS && last_bytes <= 8 && previous_bytes <= 8;
    if !is_known || key_words == 0 && last_bytes > 0 {
        return None;
    }
    let (table, rest) = take_number(rest)?;
    let (partition, rest) = take_number(rest)?;
    let (previous, rest) = rest.split_at_checked(previous_bytes)?;
    let (key, pieces) = rest.split_at_checked((8 * key_words + last_bytes).saturating_sub(8))?;
    let mut words = [0; MAX_KEY_WORDS];
    for (word, bytes) in words.iter_mut().zip(key.chunks(8)) {
        *word = u64::from_be_bytes(padded(bytes));
    }
    let (mut rest, mut more) = (pieces, shape & SHAPE_PIECES != 0);
    while more {
        (_, more, rest) = take_piece(rest)?;
    }
    let change = Change {
        table: TableId(table.try_into().ok()?),
        partition: PartitionId(partition.try_into().ok()?),
        op,
        key: Key::from_words(&words[..key_words]),
        previous: u64::from_le_bytes(padded(previous)),
        pieces: &pieces[..pieces.len() - rest.len()],
    };
    Some((change, rest))
}

/// At most eight bytes, and zeros behind them.
fn padded(bytes: &[u8]) -> [u8; 8] {
    let mut eight = [0; 8];
    eight[..bytes.len()].copy_from_slice(bytes);
    eight
}

/// The number at the start of `bytes`, and what is behind it.
fn take_number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut number = 0;
    for (i, &byte) in bytes.iter().take(NUMBER_BYTES).enumerate() {
        number |= u32::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            debug_assert!(number < 1 << (7 * NUMBER_BYTES), "{number} is more than a number can be");
            return Some((number, &bytes[i + 1..]));
        }
    }
    None
}

/// The piece at the start of `bytes`, whether another one follows, and what is behind it.
#[expect(clippy::type_complexity, reason = "a piece and the rest")]
fn take_piece(bytes: &[u8]) -> Option<((u16, &[u8]), bool, &[u8])> {
    let (offset, rest) = take_number(bytes)?;
    let (len, rest) = take_number(rest)?;
    let (piece, rest) = rest.split_at_checked(u16::try_from(len).ok()?.into())?;
    Some((((offset >> 1).try_into().ok()?, piece), offset & 1 != 0, rest))
}

#[cfg(test)]
mod tests;
