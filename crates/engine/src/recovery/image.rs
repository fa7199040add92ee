//! Images: the rows of one partition as a file, in the order of tables and keys. Part of a checkpoint.
//!
//! ```text
//! block  0 magic u32   4 crc u32 (CRC-32C of all that follows)
//!        8 kind u8 (1 head, 2 rows, 3 end, 4 directory)   9 zero u8   10 table u16   12 rows u32
//!       16 number u64 (of the block, from 0)   24 bytes u64 (of what follows)
//! head  32 format u32   36 host u8   37 zero u8   38 partition u16   40 pod u64   48 layouts u64
//!       56 checkpoint u64   64 begin epoch u64
//! rows  32 one row after the other: version u64, key words, the row padded to 8
//! directory  32 of each block of rows: offset u64, table u16, zero u16, rows u32, words of its first key
//! end   32 rows u64   40 newest version u64   48 offset of the directory u64   56 blocks of rows u64
//! ```
//!
//! Invariants:
//! 1. A file is one head, blocks of rows, one directory, one end, and nothing behind it. Every bit is covered
//!    by a checksum or compared with what it must be.
//! 2. Rows are strictly ascending by table, then key. A block has rows of one table.
//! 3. A block is found, read and checked by itself: opening an image costs what its directory is long
//!    (image_file.rs).
//! 4. Nothing here does input or output: a writer fills a buffer that its caller empties, a reader asks a
//!    closure. So rows can be copied under a latch, and written after it.
//!
//! Not here: when an image counts (manifest.rs), and how rows are copied (checkpoint.rs).

use liger_fabric::HostId;
use liger_pod::plan::PartitionId;

use crate::tables::key::Key;
use crate::txn::TableId;

/// The partition number in the image of a host's replicated tables.
pub const REPLICAS: PartitionId = PartitionId(u16::MAX);

pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"Limg");
pub(super) const FORMAT: u32 = 2;
pub(super) const COVERED: usize = 8;
pub(super) const BLOCK_HEAD: usize = 32;
pub(super) const HEAD_PAYLOAD: usize = 40;
pub(super) const END_PAYLOAD: usize = 32;
/// Bytes of a block's place in the directory before its key.
pub(super) const PLACE: usize = 16;
/// A block of rows ends when it has so many bytes, by default: one is read for the first row that is wanted
/// of it.
pub const BLOCK_BYTES: usize = 16 << 10;

pub(super) const KIND_HEAD: u8 = 1;
pub(super) const KIND_ROWS: u8 = 2;
pub(super) const KIND_END: u8 = 3;
pub(super) const KIND_DIRECTORY: u8 = 4;

// Blocks are whole words.
const _: () = assert!(BLOCK_HEAD.is_multiple_of(8) && HEAD_PAYLOAD.is_multiple_of(8));
const _: () = assert!(END_PAYLOAD.is_multiple_of(8) && PLACE.is_multiple_of(8) && COVERED < BLOCK_HEAD);

/// What an image is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImageHead {
    /// The pod.
    pub pod: u64,
    /// Hash of the tables' layouts (`Catalog::hash`).
    pub layouts: u64,
    /// Number of the host's checkpoint.
    pub checkpoint: u64,
    /// Every transaction of an earlier epoch is in it.
    pub begin_epoch: u64,
    /// The host.
    pub host: HostId,
    /// The partition, or [`REPLICAS`].
    pub partition: PartitionId,
}

/// What an image holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ImageEnd {
    /// Number of rows.
    pub rows: u64,
    /// Greatest version of a row.
    pub newest: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Makes an image, piece by piece.
#[derive(Debug)]
pub struct ImageWriter {
    /// Finished blocks, and the one that is being filled from `block` on.
    out: Vec<u8>,
    block: usize,
    table: TableId,
    rows_in_block: u32,
    number: u64,
    taken: u64,
    end: ImageEnd,
    last: Option<(TableId, Key)>,
    block_bytes: usize,
    /// The places of finished blocks, and the one that is being filled without its number of rows.
    directory: Vec<u8>,
    blocks: u64,
}

impl ImageWriter {
    /// A writer that has written the head. A block ends when it has `block_bytes`.
    pub fn new(head: &ImageHead, block_bytes: usize) -> Self {
        assert!(block_bytes > 0, "a block of rows has a row");
        let mut writer = Self {
            out: Vec::new(),
            block: 0,
            table: TableId(0),
            rows_in_block: 0,
            number: 0,
            taken: 0,
            end: ImageEnd::default(),
            last: None,
            block_bytes,
            directory: Vec::new(),
            blocks: 0,
        };
        let mut payload = [0; HEAD_PAYLOAD];
        payload[0..4].copy_from_slice(&FORMAT.to_le_bytes());
        payload[4] = head.host.0;
        payload[6..8].copy_from_slice(&head.partition.0.to_le_bytes());
        for (i, word) in [head.pod, head.layouts, head.checkpoint, head.begin_epoch].into_iter().enumerate() {
            payload[8 + 8 * i..16 + 8 * i].copy_from_slice(&word.to_le_bytes());
        }
        writer.open_block();
        writer.out.extend_from_slice(&payload);
        writer.close_block(KIND_HEAD);
        assert_eq!((writer.number, writer.ready()), (1, BLOCK_HEAD + HEAD_PAYLOAD), "the head is block 0");
        writer
    }

    fn open_block(&mut self) {
        debug_assert_eq!(self.block, self.out.len(), "the block before is closed");
        self.block = self.out.len();
        self.rows_in_block = 0;
        self.out.resize(self.block + BLOCK_HEAD, 0);
    }

    fn close_block(&mut self, kind: u8) {
        let block = &mut self.out[self.block..];
        let bytes = (block.len() - BLOCK_HEAD) as u64;
        debug_assert!(bytes.is_multiple_of(8), "a block of {bytes} bytes");
        debug_assert_eq!(kind == KIND_ROWS, self.rows_in_block > 0, "blocks of rows have some, others none");
        block[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        block[8] = kind;
        block[10..12].copy_from_slice(&self.table.0.to_le_bytes());
        block[12..16].copy_from_slice(&self.rows_in_block.to_le_bytes());
        block[16..24].copy_from_slice(&self.number.to_le_bytes());
        block[24..32].copy_from_slice(&bytes.to_le_bytes());
        let crc = crc32c::crc32c(&block[COVERED..]);
        block[4..8].copy_from_slice(&crc.to_le_bytes());
        self.number += 1;
        self.block = self.out.len();
    }

    /// Begins a block of rows, the first of which has this key.
    fn open_rows(&mut self, table: TableId, key: &Key) {
        self.table = table;
        self.open_block();
        let offset = self.taken + self.block as u64;
        self.directory.extend_from_slice(&offset.to_le_bytes());
        self.directory.extend_from_slice(&table.0.to_le_bytes());
        self.directory.extend_from_slice(&[0; 6]);
        key.words().iter().for_each(|word| self.directory.extend_from_slice(&word.to_le_bytes()));
        self.blocks += 1;
    }

    fn close_rows(&mut self, key_words: usize) {
        if self.block < self.out.len() {
            let rows_at = self.directory.len() - 8 * key_words - 4;
            self.directory[rows_at..][..4].copy_from_slice(&self.rows_in_block.to_le_bytes());
            self.close_block(KIND_ROWS);
        }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If rows do not come in the order of tables and keys.
    pub fn row(&mut self, table: TableId, key: &Key, version: u64, row: &[u8]) {
        assert!(self.last.is_none_or(|last| last < (table, *key)), "rows of an image are in order");
        let is_full = self.out.len() - self.block >= self.block_bytes;
        if let Some((_, last)) = self.last.filter(|_| self.table != table || is_full) {
            self.close_rows(last.width());
        }
        self.last = Some((table, *key));
        if self.block == self.out.len() {
            self.open_rows(table, key);
        }
        debug_assert_eq!(self.table, table, "a block has rows of one table");
        self.out.extend_from_slice(&version.to_le_bytes());
        for word in key.words() {
            self.out.extend_from_slice(&word.to_le_bytes());
        }
        self.out.extend_from_slice(row);
        self.out.resize(self.out.len().next_multiple_of(8), 0);
        self.rows_in_block += 1;
        self.end.rows += 1;
        self.end.newest = self.end.newest.max(version);
    }

    /// Bytes that can be taken now.
    pub fn ready(&self) -> usize {
        self.block
    }

    /// Takes the finished blocks: they belong behind those that were taken before.
    pub fn take(&mut self) -> std::vec::Drain<'_, u8> {
        let ready = std::mem::take(&mut self.block);
        self.taken += ready as u64;
        self.out.drain(..ready)
    }

    /// Ends the image; [`ImageWriter::take`] gives the last blocks.
    pub fn finish(&mut self) -> ImageEnd {
        if let Some((_, last)) = self.last {
            self.close_rows(last.width());
        }
        self.table = TableId(0);
        self.open_block();
        let directory_at = self.taken + self.block as u64;
        self.out.append(&mut self.directory);
        self.close_block(KIND_DIRECTORY);
        self.open_block();
        for word in [self.end.rows, self.end.newest, directory_at, self.blocks] {
            self.out.extend_from_slice(&word.to_le_bytes());
        }
        self.close_block(KIND_END);
        // Head, blocks of rows, directory and end.
        assert_eq!(self.number, self.blocks + 3, "blocks are numbered as they come");
        self.end.bytes = self.taken + self.out.len() as u64;
        self.end
    }
}
