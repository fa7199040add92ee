//! Records of the log: one transaction's changes as bytes.
//!
//! ```text
//! head    0 len u32   4 crc u32   8 llsn u64   16 position u64
//!        24 incarnation u16   26 host u8   27 worker u8   28 kind u8   29 zero u8   30 changes u16
//! change  0 table u16  2 partition u16  4 op u8  5 key words u8  6 pieces u16   8 previous u64   16 key
//! piece   0 offset u16  2 bytes u16  4 zero u32   8 bytes, padded to 8
//! ```
//!
//! Invariants:
//! 1. A record is whole or it is none: the checksum covers everything but itself.
//! 2. Everything is little-endian, and padded with zeros to 8 bytes.
//! 3. What a parsed record says of its lengths has been checked: walking its changes never leaves it.
//!
//! Not here: where records are kept (ring.rs, segment.rs) and what they mean for a row (recovery).

use liger_fabric::HostId;

use crate::key::{Key, MAX_KEY_WORDS};

/// Bytes of a record's head.
pub const HEAD_BYTES: usize = 32;

/// Where the checksum ends and what it covers, after the length, begins.
const COVERED: usize = 8;

/// What a record is about. Pages, undo, catalog, columns and objects will have kinds of their own.
const KIND_ROWS: u8 = 1;

/// Bits of a version that count within an epoch.
pub const COUNT_BITS: u32 = 24;

/// The epoch of a version.
pub const fn epoch_of(llsn: u64) -> u64 {
    llsn >> COUNT_BITS
}

/// The least version of an epoch.
pub const fn first_of(epoch: u64) -> u64 {
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
    /// Its life.
    pub incarnation: u16,
    /// The worker, and so the ring.
    pub worker: u8,
}

/// Puts a record together; its memory is reused from record to record.
#[derive(Debug, Default)]
pub struct RecordWriter {
    bytes: Vec<u8>,
    /// Where the current change starts.
    change: usize,
    changes: u16,
}

impl RecordWriter {
    /// Starts a new record.
    pub fn begin(&mut self) {
        self.bytes.clear();
        self.bytes.resize(HEAD_BYTES, 0);
        self.changes = 0;
    }

    /// Adds a change of the row `key`, which replaces version `previous` (0: there was none).
    ///
    /// # Panics
    /// After 65,535 changes; [`RecordWriter::is_full`] tells.
    pub fn change(&mut self, (table, partition): (u16, u16), op: Op, key: &Key, previous: u64) {
        self.change = self.bytes.len();
        self.changes = self.changes.checked_add(1).expect("at most 65,535 changes");
        self.bytes.extend_from_slice(&table.to_le_bytes());
        self.bytes.extend_from_slice(&partition.to_le_bytes());
        self.bytes.extend_from_slice(&[op as u8 + 1, key.width() as u8, 0, 0]);
        self.bytes.extend_from_slice(&previous.to_le_bytes());
        for word in key.words() {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Adds a piece to the change that was added last: `bytes` are at `offset` of the row now.
    pub fn piece(&mut self, offset: u16, bytes: &[u8]) {
        let at = self.change + 6;
        let pieces = u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]) + 1;
        self.bytes[at..at + 2].copy_from_slice(&pieces.to_le_bytes());
        self.bytes.extend_from_slice(&offset.to_le_bytes());
        self.bytes.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }

    /// True when no more changes fit.
    pub fn is_full(&self) -> bool {
        self.changes == u16::MAX
    }

    /// Bytes of the record so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True while no change was added.
    pub fn is_empty(&self) -> bool {
        self.changes == 0
    }

    /// The finished record: changes that make version `llsn`, at `position` of the ring's stream.
    pub fn finish(&mut self, llsn: u64, position: u64, origin: Origin) -> &[u8] {
        let len = self.bytes.len() as u32;
        self.bytes[0..4].copy_from_slice(&len.to_le_bytes());
        self.bytes[8..16].copy_from_slice(&llsn.to_le_bytes());
        self.bytes[16..24].copy_from_slice(&position.to_le_bytes());
        self.bytes[24..26].copy_from_slice(&origin.incarnation.to_le_bytes());
        self.bytes[26..30].copy_from_slice(&[origin.host.0, origin.worker, KIND_ROWS, 0]);
        self.bytes[30..32].copy_from_slice(&self.changes.to_le_bytes());
        let crc = checksum(&self.bytes);
        self.bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        &self.bytes
    }
}

/// The checksum of a record of these bytes.
fn checksum(record: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&record[..4]), &record[COVERED..])
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
    pub table: u16,
    /// Partition of the row.
    pub partition: u16,
    /// What happened.
    pub op: Op,
    /// The row's key.
    pub key: Key,
    /// Version that was replaced; 0: none.
    pub previous: u64,
    pieces: u16,
    bytes: &'a [u8],
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
        if bytes[28] != KIND_ROWS {
            return Err(BadRecord::Malformed { what: "kind" });
        }
        let record = Self { bytes };
        record.check_changes()?;
        Ok(record)
    }

    fn check_changes(&self) -> Result<(), BadRecord> {
        let mut rest = &self.bytes[HEAD_BYTES..];
        for _ in 0..u16_at(self.bytes, 30) {
            (_, rest) = take_change(rest).ok_or(BadRecord::Malformed { what: "change" })?;
        }
        if rest.is_empty() { Ok(()) } else { Err(BadRecord::Malformed { what: "end" }) }
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
        let mut rest = &self.bytes[HEAD_BYTES..];
        (0..u16_at(self.bytes, 30)).map(move |_| {
            let (change, behind) = take_change(rest).expect("checked when it was parsed");
            rest = behind;
            change
        })
    }
}

impl<'a> Change<'a> {
    /// Its pieces: offset in the row, and the bytes that are there now.
    pub fn pieces(&self) -> impl Iterator<Item = (u16, &'a [u8])> + use<'a> {
        let mut rest = self.bytes;
        (0..self.pieces).map(move |_| {
            let (piece, behind) = take_piece(rest).expect("checked when it was parsed");
            rest = behind;
            piece
        })
    }
}

/// The change at the start of `bytes`, and what is behind it.
fn take_change(bytes: &[u8]) -> Option<(Change<'_>, &[u8])> {
    let (head, mut rest) = bytes.split_at_checked(16)?;
    let op = *[Op::Insert, Op::Update, Op::Delete].get(usize::from(head[4].checked_sub(1)?))?;
    let key_words = usize::from(head[5]);
    if key_words > MAX_KEY_WORDS {
        return None;
    }
    let (key, pieces) = rest.split_at_checked(8 * key_words)?;
    let mut words = [0; MAX_KEY_WORDS];
    for (word, bytes) in words.iter_mut().zip(key.chunks_exact(8)) {
        *word = u64_at(bytes, 0);
    }
    rest = pieces;
    for _ in 0..u16_at(head, 6) {
        (_, rest) = take_piece(rest)?;
    }
    let change = Change {
        table: u16_at(head, 0),
        partition: u16_at(head, 2),
        op,
        key: Key::from_words(&words[..key_words]),
        previous: u64_at(head, 8),
        pieces: u16_at(head, 6),
        bytes: &pieces[..pieces.len() - rest.len()],
    };
    Some((change, rest))
}

/// The piece at the start of `bytes`, and what is behind it.
#[expect(clippy::type_complexity, reason = "a piece and the rest")]
fn take_piece(bytes: &[u8]) -> Option<((u16, &[u8]), &[u8])> {
    let (head, rest) = bytes.split_at_checked(8)?;
    let len = usize::from(u16_at(head, 2));
    let (padded, rest) = rest.split_at_checked(len.next_multiple_of(8))?;
    Some(((u16_at(head, 0), &padded[..len]), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: Origin = Origin { host: HostId(3), incarnation: 7, worker: 2 };

    fn key(words: &[u64]) -> Key {
        Key::from_words(words)
    }

    fn sample() -> Vec<u8> {
        let mut writer = RecordWriter::default();
        writer.begin();
        writer.change((1, 2), Op::Insert, &key(&[5, 6]), 0);
        writer.piece(0, b"a whole row");
        writer.change((1, 2), Op::Update, &key(&[5, 7]), 0x99);
        writer.piece(4, &[1, 2, 3, 4]);
        writer.piece(16, &[9; 8]);
        writer.change((4, 0), Op::Delete, &key(&[8]), 0x42);
        writer.finish(first_of(11) + 5, 4096, ORIGIN).to_vec()
    }

    #[test]
    fn what_was_written_is_read() {
        let bytes = sample();
        let record = Record::parse(&bytes).unwrap();
        assert_eq!((record.len(), record.position(), record.origin()), (bytes.len(), 4096, ORIGIN));
        assert_eq!((epoch_of(record.llsn()), record.llsn()), (11, first_of(11) + 5));
        let changes: Vec<_> = record.changes().collect();
        let seen: Vec<_> = changes.iter().map(|c| (c.table, c.partition, c.op, c.key, c.previous)).collect();
        let expected = [
            (1, 2, Op::Insert, key(&[5, 6]), 0),
            (1, 2, Op::Update, key(&[5, 7]), 0x99),
            (4, 0, Op::Delete, key(&[8]), 0x42),
        ];
        assert_eq!(seen, expected);
        assert_eq!(changes[0].pieces().collect::<Vec<_>>(), [(0, &b"a whole row"[..])]);
        assert_eq!(changes[1].pieces().collect::<Vec<_>>(), [(4, &[1, 2, 3, 4][..]), (16, &[9; 8][..])]);
        assert_eq!(changes[2].pieces().count(), 0);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_found() {
        let bytes = sample();
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Record::parse(&damaged).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(Record::parse(&bytes[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn a_writer_starts_anew() {
        let mut writer = RecordWriter::default();
        writer.begin();
        writer.change((1, 2), Op::Delete, &key(&[1]), 3);
        writer.finish(1, 0, ORIGIN);
        writer.begin();
        assert!(writer.is_empty() && writer.len() == HEAD_BYTES);
        assert_eq!(Record::parse(writer.finish(1, 0, ORIGIN)).unwrap().changes().count(), 0);
    }
}
