//! Records of the log: one transaction's changes as bytes.
//!
//! ```text
//! head    0 len u32   4 crc u32   8 llsn u64   16 position u64
//!        24 incarnation u16   26 host u8   27 worker u8
//!        28 kind u8 (1 rows, 2 rows of a branch, 3 fragment, 4 last of fragments)   29 changes u24
//! branch (branch.rs), if the kind is 2
//! first   position u64 of the first fragment, if the kind is 3 or 4
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
//! 3. What a record says of its lengths is checked while its changes are walked: who reads a log walks those
//!    of the records that are of interest, and no others. A walk never leaves the record.
//! 4. A fragment has no version (its LLSN is 0): what it changes counts when the last one of its transaction
//!    does, and in that version (fragments.rs).
//!
//! Not here: where records are kept (ring.rs, segment.rs) and what they mean for a row (recovery).

mod writer;

use liger_fabric::HostId;
use liger_pod::plan::PartitionId;

use super::branch::{BRANCH_BYTES, BranchHead};
use crate::checksum::{checksum as checksum_of, checksum_from};
use crate::tables::key::{Key, MAX_KEY_WORDS};
use crate::tables::layout::MAX_ROW_BYTES;
use crate::txn::TableId;

pub use writer::RecordWriter;

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
/// Some of the rows that a transaction has changed: others follow.
const KIND_FRAGMENT: u8 = 3;
/// The others.
const KIND_LAST: u8 = 4;

/// Bytes that say where the first fragment is.
const FIRST_BYTES: usize = 8;
// Behind them a record goes on with whole words.
const _: () = assert!(FIRST_BYTES.is_multiple_of(8));

/// How much of its transaction a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// All of it.
    Whole,
    /// A part that counts if [`Extent::Last`] follows, which it does without another record in between.
    Fragment {
        /// Where in the ring's stream the transaction's first one starts.
        first: u64,
    },
    /// The rest, which makes all of it count.
    Last {
        /// As in a fragment.
        first: u64,
    },
}

/// Bits of a version that count within an epoch.
pub const COUNT_BITS: u32 = 24;

/// Moments of an epoch.
pub const EPOCH_MOMENTS: u64 = 1 << 12;
/// Bits of a version that count within a moment.
const MOMENT_BITS: u32 = COUNT_BITS - EPOCH_MOMENTS.ilog2();

/// The epoch of a version.
pub const fn epoch_of(llsn: u64) -> u64 {
    llsn >> COUNT_BITS
}

/// The moment of a version: see moments.rs.
pub const fn moment_of(llsn: u64) -> u64 {
    llsn >> MOMENT_BITS
}

/// The epoch that a moment is of.
pub const fn epoch_of_moment(moment: u64) -> u64 {
    moment / EPOCH_MOMENTS
}

/// The first moment of an epoch.
pub const fn first_moment_of(epoch: u64) -> u64 {
    debug_assert!(epoch <= u64::MAX / EPOCH_MOMENTS, "an epoch of a version");
    epoch * EPOCH_MOMENTS
}

/// The least version of a moment.
pub const fn first_of_moment(moment: u64) -> u64 {
    debug_assert!(moment >> (u64::BITS - MOMENT_BITS) == 0, "a version has room for its moment");
    moment << MOMENT_BITS
}

/// The least version of an epoch.
pub const fn first_of(epoch: u64) -> u64 {
    debug_assert!(epoch >> (u64::BITS - COUNT_BITS) == 0, "a version has room for its epoch");
    epoch << COUNT_BITS
}

/// What happened to a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// The row is new; its only piece is the whole row, without what is zero at its end.
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

/// Bytes of a record that has so many without padding.
fn padded_len(len: usize) -> usize {
    len.next_multiple_of(if len > SHORT_MAX { LONG_UNIT } else { 8 })
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
    /// Version that was replaced; 0: none.
    pub previous: u64,
    /// The row's key.
    pub key: KeyBytes<'a>,
    /// Its pieces.
    pub pieces: Pieces<'a>,
}

/// A key as a record has it. Most changes that are read are of no interest, so it is made when it is wanted.
#[derive(Clone, Copy, Debug)]
pub struct KeyBytes<'a> {
    words: u8,
    /// Highest byte first, without the zero bytes at the end of the last word.
    bytes: &'a [u8],
}

/// The pieces of a change as its record has them, the last of which says so; empty: none.
#[derive(Clone, Copy, Debug)]
pub struct Pieces<'a>(&'a [u8]);

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

/// The version of the record of which these bytes are there, if they tell it; 0 of a fragment.
pub(super) fn llsn_of(beginning: &[u8]) -> Option<u64> {
    (beginning.len() >= 16).then(|| u64_at(beginning, 8))
}

/// How much of its transaction the record is of which these bytes are there, if they tell it.
pub(super) fn extent_of(beginning: &[u8]) -> Option<Extent> {
    let first = || beginning.get(HEAD_BYTES..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    match *beginning.get(28)? {
        KIND_FRAGMENT => first().map(|first| Extent::Fragment { first }),
        KIND_LAST => first().map(|first| Extent::Last { first }),
        _ => Some(Extent::Whole),
    }
}

/// Bytes of a record that tell how much of its transaction it is.
pub(super) const EXTENT_BYTES: usize = HEAD_BYTES + FIRST_BYTES;

/// Steps over the records in `bytes`, the first of which begins at byte `at`, by the lengths in their heads;
/// `each` sees where each one begins, and what is there of it. Returns where the next one begins, at the end
/// of `bytes` or behind it; `u64::MAX` if that cannot be known, because a length makes no sense.
pub(super) fn step_over(bytes: &[u8], mut at: u64, mut each: impl FnMut(u64, &[u8])) -> u64 {
    while at < bytes.len() as u64 {
        let record = &bytes[at as usize..];
        each(at, record);
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
            KIND_FRAGMENT | KIND_LAST if record.has_sane_first() => {}
            KIND_FRAGMENT | KIND_LAST => return Err(BadRecord::Malformed { what: "first fragment" }),
            _ => return Err(BadRecord::Malformed { what: "kind" }),
        }
        Ok(record)
    }

    /// Its changes' bytes.
    fn body(&self) -> &'a [u8] {
        let more = match self.bytes[28] {
            KIND_BRANCH => BRANCH_BYTES,
            KIND_FRAGMENT | KIND_LAST => FIRST_BYTES,
            _ => 0,
        };
        &self.bytes[HEAD_BYTES + more..]
    }

    /// True if the first fragment is at this record or before it, as its kind and its version say.
    fn has_sane_first(&self) -> bool {
        let Some(first) = self.bytes[HEAD_BYTES..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
        else {
            return false;
        };
        match self.bytes[28] {
            KIND_FRAGMENT => first <= self.position() && self.llsn() == 0,
            _ => first < self.position() && self.llsn() > 0,
        }
    }

    /// How much of its transaction it is.
    pub fn extent(&self) -> Extent {
        let first = || u64_at(self.bytes, HEAD_BYTES);
        match self.bytes[28] {
            KIND_FRAGMENT => Extent::Fragment { first: first() },
            KIND_LAST => Extent::Last { first: first() },
            _ => Extent::Whole,
        }
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

    /// The version that its changes make; 0 of a fragment.
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

    /// Its changes, in the order of the transaction; if they make no sense, behind those that do, why.
    pub fn changes(&self) -> Walk<'a> {
        let unit = if self.bytes.len() > SHORT_MAX { LONG_UNIT } else { 8 };
        Walk { rest: self.body(), left: Some(self.change_count()), unit }
    }
}

/// A walk over the changes of a record.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    rest: &'a [u8],
    /// How many are left; none: all has been told.
    left: Option<u32>,
    /// Fewer bytes than these, all zero, come behind them.
    unit: usize,
}

impl<'a> Iterator for Walk<'a> {
    type Item = Result<Change<'a>, BadRecord>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let left = self.left?;
        if left == 0 {
            self.left = None;
            let is_padding = self.rest.len() < self.unit && self.rest.iter().all(|byte| *byte == 0);
            return (!is_padding).then_some(Err(BadRecord::Malformed { what: "end" }));
        }
        let Some((change, behind)) = take_change(self.rest) else {
            self.left = None;
            return Some(Err(BadRecord::Malformed { what: "change" }));
        };
        debug_assert!(behind.len() < self.rest.len(), "a change has bytes");
        (self.rest, self.left) = (behind, Some(left - 1));
        Some(Ok(change))
    }
}

impl Change<'_> {
    /// The row's key.
    pub fn key(&self) -> Key {
        let mut words = [0; MAX_KEY_WORDS];
        words.iter_mut().zip(self.key.words()).for_each(|(to, word)| *to = word);
        Key::from_words(&words[..self.key.width()])
    }
}

impl<'a> KeyBytes<'a> {
    /// Width in words.
    pub fn width(&self) -> usize {
        self.words.into()
    }

    /// The words, most significant first.
    pub fn words(&self) -> impl Iterator<Item = u64> + use<'a> {
        let Self { words, bytes } = *self;
        debug_assert!(
            bytes.len() <= 8 * usize::from(words),
            "a key of {words} words has {} bytes",
            bytes.len()
        );
        (0..usize::from(words)).map(move |word| {
            let from = &bytes[bytes.len().min(8 * word)..];
            let whole = || from.first_chunk().copied();
            u64::from_be_bytes(whole().unwrap_or_else(|| padded(from)))
        })
    }

    /// The bytes of the words from word `from` on, highest first, without the zero bytes at the end of the
    /// last one.
    pub fn bytes_from(&self, from: usize) -> &'a [u8] {
        self.bytes.get(8 * from..).unwrap_or(&[])
    }
}

impl<'a> Pieces<'a> {
    /// Those of these bytes, which [`Pieces::as_bytes`] has given.
    pub fn from_bytes(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Their bytes.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Offsets in the row, and the bytes that are there now.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &'a [u8])> + use<'a> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let (piece, more, behind) = take_piece(rest).expect("checked when the change was taken");
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
    let (mut rest, mut more) = (pieces, shape & SHAPE_PIECES != 0);
    while more {
        (_, more, rest) = take_piece(rest)?;
    }
    let change = Change {
        table: TableId(table.try_into().ok()?),
        partition: PartitionId(partition.try_into().ok()?),
        op,
        previous: u64::from_le_bytes(padded(previous)),
        key: KeyBytes { words: key_words as u8, bytes: key },
        pieces: Pieces(&pieces[..pieces.len() - rest.len()]),
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
#[inline]
fn take_number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    // Most of them are small.
    match *bytes {
        [byte, ref behind @ ..] if byte & 0x80 == 0 => Some((byte.into(), behind)),
        _ => take_large_number(bytes),
    }
}

/// The number at the start of `bytes`, of any size, and what is behind it.
fn take_large_number(bytes: &[u8]) -> Option<(u32, &[u8])> {
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
