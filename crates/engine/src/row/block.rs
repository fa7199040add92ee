//! The block of a shared row: what lies in it, and its checksum.
//!
//! ```text
//! block   0 version u64   8 table u16   10 partition u16   12 checksum u32   16 key, words   row
//!         in its last 16 bytes: where the version before is (chain.rs)
//! ```
//!
//! It goes to the end of a line; how long it is follows from its table. The checksum is of the row, the key,
//! table and partition, and the version, in this order.
//!
//! Invariants:
//! 1. While nobody holds the row's write lock, the checksum fits: whoever changes the block holds that lock,
//!    writes the checksum with the change, and both are written back before the lock is given back.
//! 2. Who changes a part changes the checksum by the difference of that part, whatever the rest is: damage
//!    elsewhere in the block is as visible afterwards as before, and so is damage of what was changed, from
//!    which the new bytes may have been made.
//! 3. It is compared by who holds the row, or has killed its cell, and has fresh lines. Whoever looks without
//!    (the scrub, scrub.rs) believes only that it fits. Readers of other hosts do not compare.
//! 4. A row whose block is damaged is *refused*, by a mark in its version: whoever locks it meets that.

use liger_fabric::zerocopy::{FromBytes, IntoBytes};
use liger_fabric::{Cx, DataAddr, Fabric, LINE, Work, layout};
use liger_pod::plan::PartitionId;

use super::shared::SharedRows;
use crate::catalog::Relation;
use crate::checksum::{checksum, checksum_from, remainder_behind, remainder_from};
use crate::tables::key::{Key, MAX_KEY_WORDS};
use crate::txn::TableId;

layout! {
    /// Head of a shared row's block; the key's words follow, then the row's bytes. Written in full lines at
    /// move-in.
    pub struct RowHead: 16 {
        /// Version of the row: the log sequence number of its last change.
        0 => pub llsn: u64,
        /// The row's table.
        8 => pub table: u16,
        /// The row's partition.
        10 => pub partition: u16,
        /// Checksum of all else; 0 where blocks have none.
        12 => pub checksum: u32,
    }
}

/// Set in the version of a block whose row was made for another host's insert, until that has committed; the
/// bits below are the version that the row must exceed.
pub const UNCOMMITTED: u64 = 1 << 63;
/// Set in the version of a block whose row another host than its owner has deleted: committed, and given to
/// the owner to remove. The bits below are the version of the delete.
pub const DELETED: u64 = 1 << 62;
/// Both are set in the version of a block that was found damaged: its row is refused to everybody.
pub const REFUSED: u64 = UNCOMMITTED | DELETED;
/// The bits of a block's version that are one.
pub const VERSION: u64 = DELETED - 1;

/// Row blocks up to this length are put together on the stack.
const SMALL_BLOCK: usize = 1024;
/// Bytes of a change whose difference is taken at once.
const PIECE: usize = 256;
/// Bytes of the link to a row's old versions (chain.rs).
const LINK_BYTES: usize = 16;
/// Bytes of a head that its checksum is of.
const HEAD_SUMMED: usize = 12;

/// Words of a row's key, and bytes of the row: what a table says of its rows' blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Words of a key.
    pub key_words: usize,
    /// Bytes of a row.
    pub row_len: usize,
}

impl Shape {
    /// That of a relation's rows.
    pub const fn of(relation: &Relation) -> Self {
        Self { key_words: relation.key_words, row_len: relation.row_len }
    }

    /// Bytes of a block, in full lines.
    pub const fn block_len(self) -> usize {
        (row_start(self.key_words) as usize + self.row_len + LINK_BYTES).next_multiple_of(LINE)
    }

    /// Where the row's bytes start in its block.
    pub const fn row_start(self) -> u64 {
        row_start(self.key_words)
    }

    /// Where in its block the link to the row's old versions is.
    pub const fn link_start(self) -> u64 {
        (self.block_len() - LINK_BYTES) as u64
    }

    const fn summed_len(self) -> usize {
        self.row_len + 8 * self.key_words + HEAD_SUMMED
    }
}

/// Where a shared row's bytes start in its block.
pub const fn row_start(key_words: usize) -> u64 {
    (size_of::<RowHead>() + 8 * key_words) as u64
}

impl RowHead {
    /// The head of a row of that place in this version, without a checksum.
    pub const fn new((partition, table): (PartitionId, TableId), llsn: u64) -> Self {
        Self { llsn, table: table.0, partition: partition.0, checksum: 0 }
    }

    /// True if the row is refused: its block was found damaged.
    pub const fn is_refused(&self) -> bool {
        self.llsn & REFUSED == REFUSED
    }

    /// The checksum of a block with this head, the key in words of eight bytes.
    pub fn checksum_with(&self, key: &[u8], row: &[u8]) -> u32 {
        let (version, rest) = self.as_bytes().split_at(8);
        let place = checksum_from(checksum_from(checksum(row), key), &rest[..HEAD_SUMMED - 8]);
        checksum_from(place, version)
    }
}

/// By how much the checksum of a block changes.
pub struct SumChange {
    len: usize,
    /// Up to here the remainder goes.
    at: usize,
    remainder: u32,
    sum: u32,
    /// Bytes that went into it.
    summed: usize,
}

impl SumChange {
    /// No change of a block of this shape.
    pub const fn new(shape: Shape) -> Self {
        Self { len: shape.summed_len(), at: 0, remainder: 0, sum: 0, summed: 0 }
    }

    /// At `at` of the row, `old` becomes `new`. Changes of one row do not overlap; in the order of their
    /// places they cost least.
    pub fn row(&mut self, at: usize, old: &[u8], new: &[u8]) {
        assert_eq!(old.len(), new.len(), "a change leaves a row as long as it is");
        if at < self.at {
            self.end_run();
        }
        self.go_to(at);
        for (old, new) in old.chunks(PIECE).zip(new.chunks(PIECE)) {
            let mut difference = [0u8; PIECE];
            for ((byte, old), new) in difference.iter_mut().zip(old).zip(new) {
                *byte = old ^ new;
            }
            self.remainder = remainder_from(self.remainder, &difference[..old.len()]);
        }
        self.at = at + old.len();
        self.summed += old.len();
        debug_assert!(self.at <= self.len, "a change of {} bytes at {at}", old.len());
    }

    /// At `at` of the row whose bytes start there, what lies there becomes `new`.
    pub fn patch<F: Fabric>(&mut self, cx: &Cx<F>, start: DataAddr, at: usize, new: &[u8]) {
        let mut old = [0u8; PIECE];
        for (at, new) in (at..).step_by(PIECE).zip(new.chunks(PIECE)) {
            let old = &mut old[..new.len()];
            cx.read(start.byte(at as u64), old);
            self.row(at, old, new);
        }
    }

    /// The row's version changes.
    pub fn version(&mut self, old: u64, new: u64) {
        self.row(self.len - 8, &old.to_ne_bytes(), &new.to_ne_bytes());
    }

    /// What to add to the checksum, bit by bit, and how many bytes went into that.
    pub fn finish(mut self) -> (u32, usize) {
        self.end_run();
        (self.sum, self.summed)
    }

    fn go_to(&mut self, at: usize) {
        if self.remainder != 0 {
            self.remainder = remainder_behind(self.remainder, at - self.at);
            self.summed += at - self.at;
        }
        self.at = at;
    }

    fn end_run(&mut self) {
        self.go_to(self.len);
        self.sum ^= self.remainder;
        (self.at, self.remainder) = (0, 0);
    }
}

impl SharedRows {
    /// Writes a whole row block, in full lines, so that nothing of the block's last use is needed or kept.
    pub fn write_block<F: Fabric>(
        self,
        cx: &Cx<F>,
        block: DataAddr,
        mut head: RowHead,
        key: &[u64],
        row: &[u8],
    ) {
        let shape = Shape { key_words: key.len(), row_len: row.len() };
        let (len, start) = (shape.block_len(), row_start(key.len()) as usize);
        debug_assert_eq!(block.offset() % LINE as u64, 0, "a block begins a line");
        debug_assert!(head.checksum == 0 && !head.is_refused(), "the head of a whole row: {head:?}");
        if self.checksums {
            head.checksum = head.checksum_with(key.as_bytes(), row);
            self.spend_on_sum(cx, shape.summed_len());
        }
        with_bytes(len, |image| {
            image[..size_of::<RowHead>()].copy_from_slice(head.as_bytes());
            image[size_of::<RowHead>()..start].copy_from_slice(key.as_bytes());
            image[start..start + row.len()].copy_from_slice(row);
            cx.write(block, image);
        });
        self.write_back(cx, block, len);
    }

    /// Gives a block another version, and the checksum that goes with it; starts to write it back. The caller
    /// has the row's write lock and fresh lines.
    pub fn write_version<F: Fabric>(self, cx: &Cx<F>, block: DataAddr, shape: Shape, llsn: u64) {
        let mut head: RowHead = cx.read_layout(block);
        debug_assert_ne!(llsn & REFUSED, REFUSED, "a version is given to what is not refused");
        if self.checksums {
            let mut change = SumChange::new(shape);
            change.version(head.llsn, llsn);
            let (sum, summed) = change.finish();
            head.checksum ^= sum;
            self.spend_on_sum(cx, summed);
        }
        head.llsn = llsn;
        cx.write(block, head.as_bytes());
        self.write_back(cx, block, size_of::<RowHead>());
    }

    /// Refuses a row whose block is damaged, and says whose it is; starts to write that back. The caller has
    /// the row's write lock and fresh lines.
    pub fn refuse<F: Fabric>(self, cx: &Cx<F>, block: DataAddr, place: (PartitionId, TableId), key: &Key) {
        let head: RowHead = cx.read_layout(block);
        debug_assert!((1..=MAX_KEY_WORDS).contains(&key.width()), "a key of {} words", key.width());
        cx.write(block, RowHead::new(place, head.llsn | REFUSED).as_bytes());
        cx.write(block.byte(size_of::<RowHead>() as u64), key.words().as_bytes());
        self.write_back(cx, block, row_start(key.width()) as usize);
    }

    /// Gives a block the checksum of what it holds, with this head. The caller has the row's write lock,
    /// fresh lines, and writes them back.
    pub fn write_head_anew<F: Fabric>(self, cx: &Cx<F>, block: DataAddr, mut head: RowHead, shape: Shape) {
        if self.checksums {
            let start = row_start(shape.key_words) as usize;
            with_bytes(start + shape.row_len, |image| {
                cx.read(block, image);
                let (before, row) = image.split_at(start);
                head.checksum = head.checksum_with(&before[size_of::<RowHead>()..], row);
            });
            self.spend_on_sum(cx, shape.summed_len());
        }
        cx.write(block, head.as_bytes());
    }

    /// True if a block's row is not refused, and its checksum fits, or blocks have none. Its lines are fresh;
    /// see invariant 3.
    pub fn is_sound<F: Fabric>(self, cx: &Cx<F>, block: DataAddr, shape: Shape) -> bool {
        with_bytes(shape.row_len, |row| self.read_block(cx, block, shape.key_words, row).1)
    }

    /// Copies a row out of its block, which is locked (or dead) and fresh here, and says whether it is sound
    /// ([`SharedRows::is_sound`]). Returns the block's head.
    pub fn read_block<F: Fabric>(
        self,
        cx: &Cx<F>,
        block: DataAddr,
        key_words: usize,
        out: &mut [u8],
    ) -> (RowHead, bool) {
        let mut before = [0u8; size_of::<RowHead>() + 8 * MAX_KEY_WORDS];
        let before = &mut before[..row_start(key_words) as usize];
        cx.read(block, before);
        cx.read(block.byte(row_start(key_words)), out);
        let (head, key) = before.split_at(size_of::<RowHead>());
        let head = RowHead::read_from_bytes(head).expect("the bytes of a head");
        if !self.checksums {
            return (head, !head.is_refused());
        }
        self.spend_on_sum(cx, out.len() + key.len() + HEAD_SUMMED);
        (head, !head.is_refused() && head.checksum == head.checksum_with(key, out))
    }

    /// A checksum goes over so many bytes that are in the processor's cache.
    pub fn spend_on_sum<F: Fabric>(self, cx: &Cx<F>, len: usize) {
        debug_assert!(self.checksums, "blocks have checksums");
        cx.spend(Work::DramLine, len.div_ceil(LINE) as u32);
    }
}

/// Does something with so many bytes, zero at first.
fn with_bytes<R>(len: usize, work: impl FnOnce(&mut [u8]) -> R) -> R {
    let (mut small, mut large) = ([0u8; SMALL_BLOCK], Vec::new());
    if len <= SMALL_BLOCK {
        return work(&mut small[..len]);
    }
    large.resize(len, 0);
    work(&mut large)
}

/// The head of the block at `row` if it holds `key` of `table` in `partition`. The caller holds the row's
/// lock, and the block is fresh.
pub fn block_is<F: Fabric>(
    cx: &Cx<F>,
    row: DataAddr,
    (partition, table): (PartitionId, TableId),
    key: &Key,
) -> Option<RowHead> {
    let head: RowHead = cx.read_layout(row);
    if (head.table, head.partition) != (table.0, partition.0) {
        return None;
    }
    (read_key(cx, row, key.width()) == *key).then_some(head)
}

/// The key in a row's block, which is fresh here.
pub fn read_key<F: Fabric>(cx: &Cx<F>, block: DataAddr, key_words: usize) -> Key {
    let mut words = [0u64; MAX_KEY_WORDS];
    let words = &mut words[..key_words];
    cx.read(block.byte(size_of::<RowHead>() as u64), words.as_mut_bytes());
    Key::from_words(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: (PartitionId, TableId) = (PartitionId(7), TableId(3));

    fn row(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 37 + i / 251) as u8).collect()
    }

    fn sum(llsn: u64, key: &[u64], row: &[u8]) -> u32 {
        RowHead::new(PLACE, llsn).checksum_with(key.as_bytes(), row)
    }

    #[test]
    fn a_block_has_these_bytes() {
        let mut head = RowHead::new(PLACE, 0x0102_0304_0506_0708);
        head.checksum = head.checksum_with([9u64].as_bytes(), b"a row");
        let bytes: Vec<String> = head.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(bytes.join(" "), "08 07 06 05 04 03 02 01 03 00 07 00 b9 a5 c3 fe");
        assert_eq!((row_start(1), Shape { key_words: 1, row_len: 1000 }.block_len()), (24, 1088));
    }

    #[test]
    fn every_bit_of_a_block_counts() {
        for (key_words, len) in [(1, 0), (1, 1), (2, 40), (3, 300)] {
            let (key, bytes) = (vec![5u64; key_words], row(len));
            let whole = sum(77, &key, &bytes);
            for bit in 0..8 * len {
                let mut other = bytes.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(sum(77, &key, &other), whole, "bit {bit} of the row");
            }
            for bit in 0..64 {
                assert_ne!(sum(77 ^ 1 << bit, &key, &bytes), whole, "bit {bit} of the version");
                for word in 0..key_words {
                    let mut other = key.clone();
                    other[word] ^= 1 << bit;
                    assert_ne!(sum(77, &other, &bytes), whole, "bit {bit} of word {word} of the key");
                }
            }
            for bit in 0..16 {
                let of = |partition, table| {
                    RowHead::new((PartitionId(partition), TableId(table)), 77)
                        .checksum_with(key.as_bytes(), &bytes)
                };
                assert_ne!(of(7 ^ 1 << bit, 3), whole, "bit {bit} of the partition");
                assert_ne!(of(7, 3 ^ 1 << bit), whole, "bit {bit} of the table");
            }
        }
    }

    #[test]
    fn a_change_changes_the_checksum_by_its_difference() {
        let mut random = 1u64;
        let mut below = |n: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % n
        };
        for turn in 0..2000 {
            let (key, len) = (vec![turn; 1 + below(4)], 1 + below(3000));
            let old = row(len);
            let mut new = old.clone();
            let mut change = SumChange::new(Shape { key_words: key.len(), row_len: len });
            for _ in 0..below(5) {
                let at = below(len);
                let end = (at + 1 + below(700)).min(len);
                let bytes: Vec<u8> = (at..end).map(|_| below(256) as u8).collect();
                change.row(at, &new[at..end], &bytes);
                new[at..end].copy_from_slice(&bytes);
            }
            change.version(turn, turn + 1);
            let changed = sum(turn, &key, &old) ^ change.finish().0;
            assert_eq!(changed, sum(turn + 1, &key, &new), "turn {turn}, {len} bytes");
        }
    }

    #[test]
    fn damage_is_seen_behind_a_change_of_other_bytes_and_of_the_same() {
        let (key, good) = ([1u64], row(200));
        for damaged_at in [3, 50, 199] {
            let mut bytes = good.clone();
            bytes[damaged_at] ^= 0x10;
            let mut change = SumChange::new(Shape { key_words: 1, row_len: 200 });
            change.row(40, &bytes[40..60], &[0; 20]);
            bytes[40..60].fill(0);
            let kept = sum(9, &key, &good) ^ change.finish().0;
            assert_ne!(kept, sum(9, &key, &bytes), "damage at {damaged_at}");
        }
    }
}
