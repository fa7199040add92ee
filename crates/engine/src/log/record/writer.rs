//! Putting a record together.
//!
//! A record that becomes too long for its ring is split (fragments.rs says what that means).

use liger_pod::plan::PartitionId;

use super::{
    BRANCH_BYTES, BranchHead, CHANGE_BYTES, FIRST_BYTES, HEAD_BYTES, KIND_BRANCH, KIND_FRAGMENT, KIND_LAST,
    KIND_ROWS, MAX_CHANGES, MAX_ROW_BYTES, NUMBER_BYTES, Op, Origin, SHAPE_KEY_SHIFT, SHAPE_PIECES, checksum,
    padded_len, u64_at,
};
use crate::tables::key::Key;
use crate::txn::TableId;

/// Puts a record together; its memory is reused from record to record.
#[derive(Debug, Default)]
pub struct RecordWriter {
    /// The record, and what earlier ones have left behind it.
    pub(super) bytes: Vec<u8>,
    pub(super) len: usize,
    /// Where the bit is that says whether another piece follows, and that bit.
    more: (usize, u8),
    changes: u32,
    kind: u8,
    /// Where the change that was added last begins.
    last: usize,
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

    /// Starts the next record of a transaction whose first fragment is at `first` of the ring's stream: its
    /// last one, unless it is made a fragment too.
    fn begin_next(&mut self, first: u64) {
        self.begin();
        self.kind = KIND_LAST;
        self.make_room(FIRST_BYTES);
        self.bytes[HEAD_BYTES..HEAD_BYTES + FIRST_BYTES].copy_from_slice(&first.to_le_bytes());
        self.len += FIRST_BYTES;
    }

    /// Makes a fragment of everything in front of the change that was added last, if that is anything, has it
    /// appended at `position`, and goes on with a record that begins with that change. Returns where the
    /// transaction's first fragment is.
    ///
    /// # Errors
    /// Those of `append`; the record makes no sense then.
    pub(in crate::log) fn split<E>(
        &mut self,
        position: u64,
        append: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<u64, E> {
        debug_assert!(self.can_split(), "a fragment has changes, and a change is left");
        let left = self.bytes[self.last..self.len].to_vec();
        self.len = self.last;
        self.changes -= 1;
        let first = match self.kind {
            KIND_LAST => u64_at(&self.bytes, HEAD_BYTES),
            _ => {
                self.make_room(FIRST_BYTES);
                self.bytes.copy_within(HEAD_BYTES..self.len, HEAD_BYTES + FIRST_BYTES);
                self.bytes[HEAD_BYTES..HEAD_BYTES + FIRST_BYTES].copy_from_slice(&position.to_le_bytes());
                self.len += FIRST_BYTES;
                position
            }
        };
        self.kind = KIND_FRAGMENT;
        append(self)?;
        self.begin_next(first);
        self.make_room(left.len());
        (self.last, self.changes) = (self.len, 1);
        self.bytes[self.len..self.len + left.len()].copy_from_slice(&left);
        self.len += left.len();
        Ok(first)
    }

    /// True if it has as many changes as a record can have.
    pub(in crate::log) fn is_full(&self) -> bool {
        self.changes as usize >= MAX_CHANGES
    }

    /// True if there is something in front of the change that was added last.
    pub(in crate::log) fn can_split(&self) -> bool {
        self.changes > 1 && self.kind != KIND_BRANCH
    }

    /// True if it is a fragment.
    pub(in crate::log) fn is_fragment(&self) -> bool {
        self.kind == KIND_FRAGMENT
    }

    /// Bytes that the record would have as a fragment, or as the last one of some.
    pub(in crate::log) fn len_of_fragment(&self) -> usize {
        padded_len(self.len + if self.kind == KIND_ROWS { FIRST_BYTES } else { 0 })
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
        self.last = self.len;
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

    /// Adds the row of the change that was added last, an insert; what is zero at its end is left out.
    pub fn whole_row(&mut self, row: &[u8]) {
        self.piece(0, without_zeros(row));
    }

    /// Bytes of the record so far.
    pub fn len(&self) -> usize {
        padded_len(self.len)
    }

    /// True while no change was added.
    pub fn is_empty(&self) -> bool {
        self.changes == 0
    }

    /// The finished record: changes that make version `llsn`, at `position` of the ring's stream.
    pub fn finish(&mut self, llsn: u64, position: u64, origin: Origin) -> &[u8] {
        debug_assert!(self.len >= HEAD_BYTES, "a record is begun before it is finished");
        debug_assert!(position.is_multiple_of(8), "a record begins at {position} of its stream");
        debug_assert_eq!(llsn == 0, self.is_fragment(), "version {llsn} of changes, or of a fragment");
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

/// A row without the bytes at its end that are zero: there are many where rows have room to spare.
fn without_zeros(row: &[u8]) -> &[u8] {
    const STEP: usize = 16;
    let is_zero = |bytes: &&[u8]| **bytes == [0; STEP];
    let zeros = STEP * row.rchunks_exact(STEP).take_while(is_zero).count();
    let rest = &row[..row.len() - zeros];
    &rest[..rest.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1)]
}
