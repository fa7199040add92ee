//! Images: the rows of one partition as a file, in the order of tables and keys. Part of a checkpoint.
//!
//! ```text
//! block  0 magic u32   4 crc u32 (CRC-32C of all that follows)   8 kind u8 (1 head, 2 rows, 3 end)
//!        9 zero u8   10 table u16   12 rows u32   16 number u64 (of the block, from 0)
//!       24 bytes u64 (of what follows)
//! head  32 format u32   36 host u8   37 zero u8   38 partition u16   40 pod u64   48 layouts u64
//!       56 checkpoint u64   64 begin epoch u64
//! rows  32 one row after the other: version u64, key words, the row padded to 8
//! end   32 rows u64   40 newest version u64
//! ```
//!
//! Invariants:
//! 1. A file is one head, blocks of rows, one end, and nothing behind it. Every bit is covered by a checksum
//!    or compared with what it must be.
//! 2. Rows are strictly ascending by table, then key. A block has rows of one table.
//! 3. Nothing here does input or output: a writer fills a buffer that its caller empties, a reader asks a
//!    closure. So rows can be copied under a latch, and written after it.
//!
//! Not here: when an image counts (manifest.rs), and how rows are copied (checkpoint.rs).

use liger_fabric::HostId;

use super::error::{FileByte, RecoveryError};
use crate::catalog::Catalog;
use crate::key::{Key, MAX_KEY_WORDS};
use crate::log::record::{u16_at, u32_at, u64_at};

/// The partition number in the image of a host's replicated tables.
pub const REPLICAS: u16 = u16::MAX;

const MAGIC: u32 = u32::from_le_bytes(*b"Limg");
const FORMAT: u32 = 1;
const COVERED: usize = 8;
const BLOCK_HEAD: usize = 32;
const HEAD_PAYLOAD: usize = 40;
const END_PAYLOAD: usize = 16;
/// A block of rows ends when it has so many bytes.
const BLOCK_BYTES: usize = 64 << 10;
/// Most bytes of a block that a reader believes: one row may be longer than `BLOCK_BYTES`.
const BLOCK_BYTES_MAX: u64 = 2 * BLOCK_BYTES as u64 + 4096;

const KIND_HEAD: u8 = 1;
const KIND_ROWS: u8 = 2;
const KIND_END: u8 = 3;

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
    pub partition: u16,
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
    table: u16,
    rows_in_block: u32,
    number: u64,
    taken: u64,
    end: ImageEnd,
    last: Option<(u16, Key)>,
}

impl ImageWriter {
    /// A writer that has written the head.
    pub fn new(head: &ImageHead) -> Self {
        let mut writer = Self {
            out: Vec::new(),
            block: 0,
            table: 0,
            rows_in_block: 0,
            number: 0,
            taken: 0,
            end: ImageEnd::default(),
            last: None,
        };
        let mut payload = [0; HEAD_PAYLOAD];
        payload[0..4].copy_from_slice(&FORMAT.to_le_bytes());
        payload[4] = head.host.0;
        payload[6..8].copy_from_slice(&head.partition.to_le_bytes());
        for (i, word) in [head.pod, head.layouts, head.checkpoint, head.begin_epoch].into_iter().enumerate() {
            payload[8 + 8 * i..16 + 8 * i].copy_from_slice(&word.to_le_bytes());
        }
        writer.open_block();
        writer.out.extend_from_slice(&payload);
        writer.close_block(KIND_HEAD);
        writer
    }

    fn open_block(&mut self) {
        self.block = self.out.len();
        self.rows_in_block = 0;
        self.out.resize(self.block + BLOCK_HEAD, 0);
    }

    fn close_block(&mut self, kind: u8) {
        let block = &mut self.out[self.block..];
        let bytes = (block.len() - BLOCK_HEAD) as u64;
        block[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        block[8] = kind;
        block[10..12].copy_from_slice(&self.table.to_le_bytes());
        block[12..16].copy_from_slice(&self.rows_in_block.to_le_bytes());
        block[16..24].copy_from_slice(&self.number.to_le_bytes());
        block[24..32].copy_from_slice(&bytes.to_le_bytes());
        let crc = crc32c::crc32c(&block[COVERED..]);
        block[4..8].copy_from_slice(&crc.to_le_bytes());
        self.number += 1;
        self.block = self.out.len();
    }

    fn close_rows(&mut self) {
        if self.block < self.out.len() {
            self.close_block(KIND_ROWS);
        }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If rows do not come in the order of tables and keys.
    pub fn row(&mut self, table: u16, key: &Key, version: u64, row: &[u8]) {
        assert!(self.last.is_none_or(|last| last < (table, *key)), "rows of an image are in order");
        self.last = Some((table, *key));
        if self.table != table || self.out.len() - self.block >= BLOCK_BYTES {
            self.close_rows();
        }
        if self.block == self.out.len() {
            self.table = table;
            self.open_block();
        }
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
    pub fn take(&mut self) -> Vec<u8> {
        let rest = self.out.split_off(self.block);
        self.block = 0;
        self.taken += self.out.len() as u64;
        std::mem::replace(&mut self.out, rest)
    }

    /// Ends the image; [`ImageWriter::take`] gives the last blocks.
    pub fn finish(&mut self) -> ImageEnd {
        self.close_rows();
        self.open_block();
        self.table = 0;
        self.out.extend_from_slice(&self.end.rows.to_le_bytes());
        self.out.extend_from_slice(&self.end.newest.to_le_bytes());
        self.close_block(KIND_END);
        self.end.bytes = self.taken + self.out.len() as u64;
        self.end
    }
}

/// A row of an image.
#[derive(Clone, Copy, Debug)]
pub struct ImageRow<'a> {
    /// Its table.
    pub table: u16,
    /// Its key.
    pub key: Key,
    /// Its version.
    pub version: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// Reads an image from its start to its end; `R` reads bytes at an offset and says how many there were.
pub struct ImageReader<'c, R> {
    catalog: &'c Catalog,
    read: R,
    host: HostId,
    file: String,
    head: ImageHead,
    /// Where the current block starts, and where the next one does.
    block_at: u64,
    next_at: u64,
    number: u64,
    block: Vec<u8>,
    table: u16,
    key_words: usize,
    row_len: usize,
    /// Where the current row is in the block; past its end: there is none.
    row_at: usize,
    last: Option<(u16, Key)>,
    seen: ImageEnd,
    ended: bool,
}

impl<'c, R: FnMut(u64, &mut [u8]) -> Result<usize, RecoveryError>> ImageReader<'c, R> {
    /// Opens an image and goes to its first row.
    ///
    /// # Errors
    /// If it is damaged or its head is not `expected`.
    pub fn open(
        catalog: &'c Catalog,
        file: &str,
        expected: &ImageHead,
        read: R,
    ) -> Result<Self, RecoveryError> {
        let mut reader = Self {
            catalog,
            read,
            host: expected.host,
            file: file.to_owned(),
            head: *expected,
            block_at: 0,
            next_at: 0,
            number: 0,
            block: Vec::new(),
            table: 0,
            key_words: 0,
            row_len: 0,
            row_at: 0,
            last: None,
            seen: ImageEnd::default(),
            ended: false,
        };
        if reader.read_block()? != KIND_HEAD {
            return Err(reader.damaged("it does not start with a head"));
        }
        reader.check_head()?;
        reader.next_block()?;
        Ok(reader)
    }

    fn at(&self, byte: u64) -> FileByte {
        FileByte::new(self.host, self.file.clone(), byte)
    }

    fn damaged(&self, why: impl Into<String>) -> RecoveryError {
        RecoveryError::damaged(self.at(self.block_at), why)
    }

    /// Reads the block at `next_at`, checks its sum and number, and returns its kind.
    fn read_block(&mut self) -> Result<u8, RecoveryError> {
        self.block_at = self.next_at;
        self.block.resize(BLOCK_HEAD, 0);
        self.fill(0)?;
        if u32_at(&self.block, 0) != MAGIC {
            return Err(self.damaged("no block of an image starts here"));
        }
        let bytes = u64_at(&self.block, 24);
        if bytes > BLOCK_BYTES_MAX || !bytes.is_multiple_of(8) {
            return Err(self.damaged(format!("a block of {bytes} bytes")));
        }
        self.block.resize(BLOCK_HEAD + bytes as usize, 0);
        self.fill(BLOCK_HEAD)?;
        let (found, computed) = (u32_at(&self.block, 4), crc32c::crc32c(&self.block[COVERED..]));
        if found != computed {
            let why = format!("the block's checksum is {found:#010x}, its bytes give {computed:#010x}");
            return Err(self.damaged(why));
        }
        let number = u64_at(&self.block, 16);
        if number != self.number {
            return Err(self.damaged(format!("block {number} where block {} belongs", self.number)));
        }
        self.number += 1;
        self.next_at = self.block_at + self.block.len() as u64;
        Ok(self.block[8])
    }

    /// Reads the block from its byte `from` on.
    fn fill(&mut self, from: usize) -> Result<(), RecoveryError> {
        let there = (self.read)(self.block_at + from as u64, &mut self.block[from..])?;
        if there == self.block.len() - from {
            return Ok(());
        }
        let end = self.block_at + (from + there) as u64;
        Err(self.damaged(format!("the block goes beyond the end of the file, byte {end}")))
    }

    fn check_head(&self) -> Result<(), RecoveryError> {
        let payload = &self.block[BLOCK_HEAD..];
        if payload.len() != HEAD_PAYLOAD {
            return Err(self.damaged(format!("a head of {} bytes", payload.len())));
        }
        let head = self.head;
        let pairs = [
            ("format", u64::from(u32_at(payload, 0)), u64::from(FORMAT)),
            ("host", u64::from(payload[4]), u64::from(head.host.0)),
            ("partition", u64::from(u16_at(payload, 6)), u64::from(head.partition)),
            ("pod", u64_at(payload, 8), head.pod),
            ("hash of layouts", u64_at(payload, 16), head.layouts),
            ("checkpoint", u64_at(payload, 24), head.checkpoint),
            ("begin epoch", u64_at(payload, 32), head.begin_epoch),
        ];
        match pairs.into_iter().find(|(_, found, expected)| found != expected) {
            None => Ok(()),
            Some((what, found, expected)) => {
                Err(RecoveryError::Foreign { at: self.at(self.block_at), what, found, expected })
            }
        }
    }

    /// Goes to the first row of the next block, or to the end.
    fn next_block(&mut self) -> Result<(), RecoveryError> {
        match self.read_block()? {
            KIND_ROWS => self.open_rows(),
            KIND_END => self.check_end(),
            kind => Err(self.damaged(format!("a block of kind {kind}"))),
        }
    }

    fn open_rows(&mut self) -> Result<(), RecoveryError> {
        self.table = u16_at(&self.block, 10);
        let Some(relation) = self.catalog.relations().get(usize::from(self.table)) else {
            return Err(self.damaged(format!("rows of table {}, which does not exist", self.table)));
        };
        (self.key_words, self.row_len) = (relation.key_words, relation.row_len);
        self.row_at = BLOCK_HEAD;
        let rows = u32_at(&self.block, 12) as usize;
        if rows == 0 || rows.checked_mul(self.stride()) != Some(self.block.len() - BLOCK_HEAD) {
            let bytes = self.block.len() - BLOCK_HEAD;
            return Err(self.damaged(format!("{rows} rows of {} bytes in {bytes} bytes", self.stride())));
        }
        self.arrive()
    }

    fn stride(&self) -> usize {
        8 + 8 * self.key_words + self.row_len.next_multiple_of(8)
    }

    /// Takes note of the row that the reader has come to.
    fn arrive(&mut self) -> Result<(), RecoveryError> {
        let row = self.current().expect("the block has this row");
        let (at, version) = ((row.table, row.key), row.version);
        if self.last.is_some_and(|last| last >= at) {
            let byte = self.block_at + self.row_at as u64;
            return Err(RecoveryError::damaged(self.at(byte), "a row out of order"));
        }
        self.last = Some(at);
        self.seen.rows += 1;
        self.seen.newest = self.seen.newest.max(version);
        Ok(())
    }

    fn check_end(&mut self) -> Result<(), RecoveryError> {
        let payload = &self.block[BLOCK_HEAD..];
        if payload.len() != END_PAYLOAD {
            return Err(self.damaged(format!("an end of {} bytes", payload.len())));
        }
        let (rows, newest) = (u64_at(payload, 0), u64_at(payload, 8));
        let seen = self.seen;
        if (rows, newest) != (seen.rows, seen.newest) {
            let why = format!(
                "it ends after {} rows up to version {:#x}, and should have {rows} up to {newest:#x}",
                seen.rows, seen.newest
            );
            return Err(self.damaged(why));
        }
        if (self.read)(self.next_at, &mut [0])? != 0 {
            return Err(RecoveryError::damaged(self.at(self.next_at), "bytes behind the end of an image"));
        }
        self.seen.bytes = self.next_at;
        self.ended = true;
        Ok(())
    }

    /// The row that the reader stands at; `None` behind the last one.
    pub fn current(&self) -> Option<ImageRow<'_>> {
        if self.ended {
            return None;
        }
        let row = &self.block[self.row_at..][..self.stride()];
        let mut words = [0; MAX_KEY_WORDS];
        for (i, word) in words[..self.key_words].iter_mut().enumerate() {
            *word = u64_at(row, 8 + 8 * i);
        }
        let key = Key::from_words(&words[..self.key_words]);
        let bytes = &row[8 + 8 * self.key_words..][..self.row_len];
        Some(ImageRow { table: self.table, key, version: u64_at(row, 0), bytes })
    }

    /// Goes to the next row.
    ///
    /// # Errors
    /// If the image is damaged.
    pub fn advance(&mut self) -> Result<(), RecoveryError> {
        if self.ended {
            return Ok(());
        }
        self.row_at += self.stride();
        if self.row_at < self.block.len() { self.arrive() } else { self.next_block() }
    }

    /// What has been read so far; after the last row, all of it.
    pub fn seen(&self) -> ImageEnd {
        self.seen
    }
}
