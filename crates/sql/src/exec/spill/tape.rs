//! Tapes: rows written one after the other, in blocks of a file that several tapes share.
//!
//! ```text
//! row   bytes behind this u32, tag u64, values (storage::codec)
//! ```
//!
//! Invariants:
//! 1. A block belongs to one tape; those of a tape that is dropped are the next to be written again.
//! 2. What does not fill a block yet is in memory, the tape's `tail`: a short tape is never in the file.
//! 3. A place in a tape is the number of bytes before it. It stays good while the tape grows.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Result, SqlError, SqlState};
use crate::exec::Row;
use crate::storage::codec;
use crate::temporary::Temporary;
use crate::types::value::Value;

/// Bytes before a row's values.
const HEAD: usize = 12;

/// A file of blocks.
pub(crate) struct TapeFile {
    file: Temporary,
    block: usize,
    free: Mutex<Vec<u32>>,
    next: AtomicU32,
}

impl TapeFile {
    pub(super) fn new(file: Temporary, block: usize) -> TapeFile {
        TapeFile { file, block, free: Mutex::default(), next: AtomicU32::new(0) }
    }

    fn write(&self, bytes: &[u8]) -> Result<u32> {
        assert_eq!(bytes.len(), self.block, "blocks are written whole");
        let again = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let block = again.unwrap_or_else(|| self.next.fetch_add(1, Ordering::Relaxed));
        self.file.write_at(u64::from(block) * self.block as u64, bytes)?;
        Ok(block)
    }

    fn read(&self, block: u32, out: &mut Vec<u8>) -> Result<()> {
        out.resize(self.block, 0);
        self.file.read_at(u64::from(block) * self.block as u64, out)
    }

    /// Bytes of the file.
    pub(crate) fn size(&self) -> u64 {
        self.file.size()
    }
}

/// Rows in a file.
pub(crate) struct Tape {
    file: Arc<TapeFile>,
    blocks: Vec<u32>,
    tail: Vec<u8>,
    rows: u64,
}

impl Tape {
    pub(crate) fn new(file: &Arc<TapeFile>) -> Tape {
        Tape { file: file.clone(), blocks: Vec::new(), tail: Vec::new(), rows: 0 }
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Where the next row will be.
    pub(crate) fn end(&self) -> u64 {
        (self.blocks.len() * self.file.block + self.tail.len()) as u64
    }

    /// Appends a row.
    pub(crate) fn push<'v>(&mut self, tag: u64, values: impl IntoIterator<Item = &'v Value>) -> Result<()> {
        let start = self.tail.len();
        self.tail.extend_from_slice(&[0; 4]);
        self.tail.extend_from_slice(&tag.to_le_bytes());
        values.into_iter().try_for_each(|value| codec::write(value, &mut self.tail))?;
        let Ok(len) = u32::try_from(self.tail.len() - start - 4) else {
            let message = "a row is too large for a temporary file";
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        };
        self.tail[start..start + 4].copy_from_slice(&len.to_le_bytes());
        self.rows += 1;
        let block = self.file.block;
        let mut written = 0;
        while self.tail.len() - written >= block {
            self.blocks.push(self.file.write(&self.tail[written..written + block])?);
            written += block;
        }
        self.tail.drain(..written);
        Ok(())
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        let mut free = self.file.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.append(&mut self.blocks);
    }
}

/// Where somebody reads in a tape, with the block that he reads.
#[derive(Default)]
pub(crate) struct Place {
    at: u64,
    buffer: Vec<u8>,
    /// Number of the block that is in the buffer, from 1 on.
    buffered: u64,
    /// A row that lies in several blocks.
    whole: Vec<u8>,
}

impl Place {
    /// Goes to where a row begins.
    pub(crate) fn seek(&mut self, at: u64) {
        self.at = at;
    }

    /// Where the next row begins.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// The next bytes; they are in the tape.
    fn bytes<'a>(&'a mut self, tape: &'a Tape, len: usize) -> Result<&'a [u8]> {
        let block = tape.file.block as u64;
        let (mut at, end) = (self.at, self.at + len as u64);
        assert!(end <= tape.end(), "a row lies within its tape");
        self.at = end;
        let tail = tape.blocks.len() as u64 * block;
        if at >= tail {
            return Ok(&tape.tail[(at - tail) as usize..][..len]);
        }
        if at / block == (end - 1) / block {
            self.load(tape, at / block)?;
            return Ok(&self.buffer[(at % block) as usize..][..len]);
        }
        let mut whole = std::mem::take(&mut self.whole);
        whole.clear();
        while at < end {
            let part = (block - at % block).min(end - at) as usize;
            if at >= tail {
                whole.extend_from_slice(&tape.tail[(at - tail) as usize..][..(end - at) as usize]);
                break;
            }
            self.load(tape, at / block)?;
            whole.extend_from_slice(&self.buffer[(at % block) as usize..][..part]);
            at += part as u64;
        }
        self.whole = whole;
        Ok(&self.whole)
    }

    fn load(&mut self, tape: &Tape, block: u64) -> Result<()> {
        if self.buffered != block + 1 {
            self.buffered = 0;
            tape.file.read(tape.blocks[block as usize], &mut self.buffer)?;
            self.buffered = block + 1;
        }
        Ok(())
    }

    fn head(&mut self, tape: &Tape) -> Result<(usize, u64)> {
        let bytes = self.bytes(tape, HEAD)?;
        let (len, tag) = bytes.split_at(4);
        let len = u32::from_le_bytes(len.try_into().expect("four bytes")) as usize;
        Ok((len + 4 - HEAD, u64::from_le_bytes(tag.try_into().expect("eight bytes"))))
    }

    /// Passes a row over; its tag.
    pub(crate) fn skip(&mut self, tape: &Tape) -> Result<Option<u64>> {
        if self.at >= tape.end() {
            return Ok(None);
        }
        let (len, tag) = self.head(tape)?;
        self.at += len as u64;
        Ok(Some(tag))
    }

    /// The next row, appended to `row`, and its tag.
    pub(crate) fn read(&mut self, tape: &Tape, row: &mut Row) -> Result<Option<u64>> {
        if self.at >= tape.end() {
            return Ok(None);
        }
        let (len, tag) = self.head(tape)?;
        codec::read_all(self.bytes(tape, len)?, row)?;
        Ok(Some(tag))
    }
}
