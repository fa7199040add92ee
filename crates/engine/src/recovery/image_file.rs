//! Reading an image: its directory first, then any of its blocks by itself.
//!
//! Invariants:
//! 1. Opening reads head, directory and end: what is known of the file then fits its manifest, and the places
//!    of its blocks are in order and fill it.
//! 2. A block is checked whole before a row of it is shown: checksum, number, table, length, the order of its
//!    rows, and that they lie between its own first key and the next block's.
//!
//! Not here: input and output. Who reads gives a function that reads bytes at an offset.

use std::ops::Range;

use liger_fabric::HostId;

use super::error::{FileByte, RecoveryError};
use super::image::{
    BLOCK_HEAD, COVERED, END_PAYLOAD, FORMAT, HEAD_PAYLOAD, ImageEnd, ImageHead, KIND_DIRECTORY, KIND_END,
    KIND_HEAD, KIND_ROWS, MAGIC, PLACE,
};
use crate::catalog::Catalog;
use crate::log::record::{u16_at, u32_at, u64_at};
use crate::tables::key::{Key, MAX_KEY_WORDS};
use crate::txn::TableId;

/// Reads bytes at an offset of the file, and says how many there were.
pub trait ReadAt: FnMut(u64, &mut [u8]) -> Result<usize, RecoveryError> {}

impl<R: FnMut(u64, &mut [u8]) -> Result<usize, RecoveryError>> ReadAt for R {}

/// A row of an image.
#[derive(Clone, Copy, Debug)]
pub struct ImageRow<'a> {
    /// Its table.
    pub table: TableId,
    /// Its key.
    pub key: Key,
    /// Its version.
    pub version: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// Where a block of rows is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockEntry {
    /// Offset of the block.
    pub offset: u64,
    /// Table of its rows.
    pub table: TableId,
    /// How many there are.
    pub rows: u32,
    /// Key of the first one.
    pub first: Key,
}

/// An image that was opened.
#[derive(Clone, Debug)]
pub struct ImageFile {
    host: HostId,
    name: String,
    end: ImageEnd,
    blocks: Vec<BlockEntry>,
    directory_at: u64,
}

/// A block of rows that was read and checked.
#[derive(Debug)]
pub struct Block {
    bytes: Vec<u8>,
    table: TableId,
    key_words: usize,
    row_len: usize,
}

impl ImageFile {
    /// Opens the image `name`, whose head must be `head`, and which is what its manifest says: `end`.
    ///
    /// # Errors
    /// If it is damaged, or another one.
    pub fn open(
        catalog: &Catalog,
        name: &str,
        head: &ImageHead,
        end: &ImageEnd,
        read: &mut impl ReadAt,
    ) -> Result<Self, RecoveryError> {
        let (host, name) = (head.host, name.to_owned());
        let mut image = Self { host, name, end: *end, blocks: Vec::new(), directory_at: 0 };
        let found = image.read_block((0, HEAD_PAYLOAD as u64), (KIND_HEAD, 0), read)?;
        image.check_head(&found[BLOCK_HEAD..], head)?;
        let end_bytes = (BLOCK_HEAD + END_PAYLOAD) as u64;
        let least = (2 * BLOCK_HEAD + HEAD_PAYLOAD) as u64 + end_bytes;
        if end.bytes < least {
            return Err(image.damaged(0, format!("its manifest gives it {} bytes", end.bytes)));
        }
        let end_at = end.bytes - end_bytes;
        // Its number is known when the directory is.
        let found = image.read_any((end_at, END_PAYLOAD as u64), KIND_END, read)?;
        let (payload, number) = (&found[BLOCK_HEAD..], u64_at(&found, 16));
        let (rows, newest) = (u64_at(payload, 0), u64_at(payload, 8));
        let (directory_at, blocks) = (u64_at(payload, 16), u64_at(payload, 24));
        if (rows, newest) != (end.rows, end.newest) || number != blocks.wrapping_add(2) {
            let why = format!(
                "it ends as block {number} with {rows} rows up to version {newest:#x} in {blocks} blocks, \
                 and its manifest gives it {} rows up to {:#x}",
                end.rows, end.newest
            );
            return Err(image.damaged(end_at, why));
        }
        let head_end = (BLOCK_HEAD + HEAD_PAYLOAD) as u64;
        if directory_at < head_end || directory_at > end_at - BLOCK_HEAD as u64 {
            return Err(image.damaged(end_at, format!("its directory is said to be at byte {directory_at}")));
        }
        if read(end.bytes, &mut [0])? != 0 {
            return Err(image.damaged(end.bytes, "bytes behind the end of an image"));
        }
        image.directory_at = directory_at;
        let len = end_at - directory_at - BLOCK_HEAD as u64;
        let found = image.read_block((directory_at, len), (KIND_DIRECTORY, blocks + 1), read)?;
        image.blocks = image.places(catalog, &found[BLOCK_HEAD..])?;
        image.check_places(blocks)?;
        Ok(image)
    }

    /// Where its blocks of rows are, in order.
    pub fn blocks(&self) -> &[BlockEntry] {
        &self.blocks
    }

    /// The blocks with rows of a table.
    pub fn blocks_of(&self, table: TableId) -> Range<usize> {
        let from = self.blocks.partition_point(|place| place.table < table);
        let to = self.blocks.partition_point(|place| place.table <= table);
        debug_assert!(from <= to, "blocks are in the order of their tables: {from}..{to}");
        from..to
    }

    /// What its manifest says of it.
    pub fn end(&self) -> ImageEnd {
        self.end
    }

    /// Bytes of a block of rows.
    pub fn block_bytes(&self, block: usize) -> u64 {
        let next = self.blocks.get(block + 1).map_or(self.directory_at, |place| place.offset);
        debug_assert!(next >= self.blocks[block].offset + BLOCK_HEAD as u64, "places were checked");
        next - self.blocks[block].offset
    }

    /// Reads and checks one block of rows.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn block(
        &self,
        catalog: &Catalog,
        block: usize,
        read: &mut impl ReadAt,
    ) -> Result<Block, RecoveryError> {
        let place = &self.blocks[block];
        let len = self.block_bytes(block) - BLOCK_HEAD as u64;
        let bytes = self.read_block((place.offset, len), (KIND_ROWS, block as u64 + 1), read)?;
        let relation = &catalog.relations()[place.table.index()];
        let (key_words, row_len) = (relation.key_words, relation.row_len);
        let found = Block { bytes, table: place.table, key_words, row_len };
        let (table, rows) = (TableId(u16_at(&found.bytes, 10)), u32_at(&found.bytes, 12));
        let is_whole = (rows as usize).checked_mul(found.stride()) == Some(len as usize);
        if (table, rows) != (place.table, place.rows) || rows == 0 || !is_whole {
            let why = format!(
                "{rows} rows of table {table} in {len} bytes, where {} of table {} belong",
                place.rows, place.table
            );
            return Err(self.damaged(place.offset, why));
        }
        self.check_rows(&found, block)?;
        Ok(found)
    }

    fn check_rows(&self, found: &Block, block: usize) -> Result<(), RecoveryError> {
        let place = &self.blocks[block];
        debug_assert_eq!(found.rows().len(), place.rows as usize, "its length was checked");
        let next = self.blocks.get(block + 1).filter(|next| next.table == place.table);
        let mut last = None;
        for (i, row) in found.rows().enumerate() {
            let in_order = last.map_or(row.key == place.first, |last| last < row.key);
            if !in_order || next.is_some_and(|next| row.key >= next.first) || row.version > self.end.newest {
                let byte = place.offset + (BLOCK_HEAD + i * found.stride()) as u64;
                let why = match in_order {
                    true => format!("a row that does not belong here, of version {:#x}", row.version),
                    false => "a row out of order".to_owned(),
                };
                return Err(self.damaged(byte, why));
            }
            last = Some(row.key);
        }
        Ok(())
    }

    fn at(&self, byte: u64) -> FileByte {
        FileByte::new(self.host, self.name.clone(), byte)
    }

    fn damaged(&self, byte: u64, why: impl Into<String>) -> RecoveryError {
        RecoveryError::damaged(self.at(byte), why)
    }

    /// Reads the block at an offset, with a payload of `len` bytes, of this kind and number.
    fn read_block(
        &self,
        (offset, len): (u64, u64),
        (kind, number): (u8, u64),
        read: &mut impl ReadAt,
    ) -> Result<Vec<u8>, RecoveryError> {
        let block = self.read_any((offset, len), kind, read)?;
        match u64_at(&block, 16) {
            found if found == number => Ok(block),
            found => Err(self.damaged(offset, format!("block {found} where block {number} belongs"))),
        }
    }

    fn read_any(
        &self,
        (offset, len): (u64, u64),
        kind: u8,
        read: &mut impl ReadAt,
    ) -> Result<Vec<u8>, RecoveryError> {
        let mut block = vec![0; BLOCK_HEAD + len as usize];
        let there = read(offset, &mut block)?;
        if there < block.len() {
            let end = offset + there as u64;
            return Err(
                self.damaged(offset, format!("the block goes beyond the end of the file, byte {end}"))
            );
        }
        if u32_at(&block, 0) != MAGIC {
            return Err(self.damaged(offset, "no block of an image starts here"));
        }
        let (found, computed) = (u32_at(&block, 4), crc32c::crc32c(&block[COVERED..]));
        if found != computed {
            let why = format!("the block's checksum is {found:#010x}, its bytes give {computed:#010x}");
            return Err(self.damaged(offset, why));
        }
        if (block[8], u64_at(&block, 24)) != (kind, len) {
            let (kind_found, len_found) = (block[8], u64_at(&block, 24));
            let why = format!("a block of kind {kind_found} with {len_found} bytes, not {kind} with {len}");
            return Err(self.damaged(offset, why));
        }
        Ok(block)
    }

    fn check_head(&self, payload: &[u8], head: &ImageHead) -> Result<(), RecoveryError> {
        let pairs = [
            ("format", u64::from(u32_at(payload, 0)), u64::from(FORMAT)),
            ("host", u64::from(payload[4]), u64::from(head.host.0)),
            ("partition", u64::from(u16_at(payload, 6)), u64::from(head.partition.0)),
            ("pod", u64_at(payload, 8), head.pod),
            ("hash of layouts", u64_at(payload, 16), head.layouts),
            ("checkpoint", u64_at(payload, 24), head.checkpoint),
            ("begin epoch", u64_at(payload, 32), head.begin_epoch),
        ];
        match pairs.into_iter().find(|(_, found, expected)| found != expected) {
            None => Ok(()),
            Some((what, found, expected)) => {
                Err(RecoveryError::Foreign { at: self.at(0), what, found, expected })
            }
        }
    }

    /// The places that the directory lists.
    fn places(&self, catalog: &Catalog, directory: &[u8]) -> Result<Vec<BlockEntry>, RecoveryError> {
        let (mut places, mut rest) = (Vec::new(), directory);
        while !rest.is_empty() {
            let is_there = rest.len() >= PLACE;
            let relation = is_there.then(|| catalog.relations().get(usize::from(u16_at(rest, 8)))).flatten();
            let place = relation.and_then(|its| rest.split_at_checked(PLACE + 8 * its.key_words));
            let Some((place, behind)) = place else {
                let why = format!("place {} in the directory is no block's", places.len());
                return Err(self.damaged(self.directory_at, why));
            };
            let first = key_at(&place[PLACE..]);
            let (offset, table, rows) = (u64_at(place, 0), TableId(u16_at(place, 8)), u32_at(place, 12));
            places.push(BlockEntry { offset, table, rows, first });
            rest = behind;
        }
        Ok(places)
    }

    /// Checks that the places are in order, and that they say what the end says.
    fn check_places(&self, blocks: u64) -> Result<(), RecoveryError> {
        let mut at = (BLOCK_HEAD + HEAD_PAYLOAD) as u64;
        let mut last = None;
        for place in &self.blocks {
            // The first one follows the head, and none is shorter than its own head.
            let follows = if last.is_none() { place.offset == at } else { place.offset > at };
            if !follows || last.is_some_and(|last| last >= (place.table, place.first)) {
                let why = format!("its directory has a block at byte {} that is out of order", place.offset);
                return Err(self.damaged(self.directory_at, why));
            }
            (at, last) = (place.offset + BLOCK_HEAD as u64, Some((place.table, place.first)));
        }
        let rows: u64 = self.blocks.iter().map(|place| u64::from(place.rows)).sum();
        if (self.blocks.len() as u64, rows) != (blocks, self.end.rows) || at > self.directory_at {
            let why = format!("its directory has {} blocks with {rows} rows", self.blocks.len());
            return Err(self.damaged(self.directory_at, why));
        }
        Ok(())
    }
}

fn key_at(bytes: &[u8]) -> Key {
    let mut words = [0; MAX_KEY_WORDS];
    let width = bytes.len() / 8;
    debug_assert!(bytes.len().is_multiple_of(8) && width <= MAX_KEY_WORDS, "a key of {} bytes", bytes.len());
    words[..width].iter_mut().enumerate().for_each(|(i, word)| *word = u64_at(bytes, 8 * i));
    Key::from_words(&words[..width])
}

impl Block {
    fn stride(&self) -> usize {
        8 + 8 * self.key_words + self.row_len.next_multiple_of(8)
    }

    /// Its rows, in the order of their keys.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = ImageRow<'_>> {
        let len = self.bytes.len() - BLOCK_HEAD;
        debug_assert!(len.is_multiple_of(self.stride()), "{len} bytes of rows of {}", self.stride());
        self.bytes[BLOCK_HEAD..].chunks_exact(self.stride()).map(|row| {
            let key = key_at(&row[8..8 + 8 * self.key_words]);
            let bytes = &row[8 + 8 * self.key_words..][..self.row_len];
            ImageRow { table: self.table, key, version: u64_at(row, 0), bytes }
        })
    }
}
