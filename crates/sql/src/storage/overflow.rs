//! Values that do not fit their rows, in pieces: rows of an object that belongs to the table (PostgreSQL's
//! TOAST).
//!
//! ```text
//! key    number u64 | piece u32 | zero u32         body   1024 bytes of the value
//! ```
//!
//! Invariants:
//! 1. A value's pieces are in the place of its row, and written once: a changed value gets a new number.
//! 2. The row's lock protects the pieces: nobody reads or removes them but through the row that refers to
//!    them.
//!
//! A value has at most [`VALUE_MAX`] bytes, as in PostgreSQL. It is written from where its bytes are, and
//! read into where they stay: there is no other copy of it in memory.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use super::access::Access;
use super::classes::{Bound, ClassSize, Home};
use super::row::{Reference, damaged};
use super::table::new_row;
use crate::error::{Result, SqlError, SqlState};
use crate::stop;

/// The class of pieces.
pub const SIZE: ClassSize = ClassSize { words: 3, body: 1024 };

/// Most bytes of a value: a gigabyte, less what PostgreSQL has in front of one.
pub const VALUE_MAX: usize = (1 << 30) - 1 - 4;

/// Pieces that are read in one step: others get at their place of the pod in between.
const STEP: usize = 256;

/// The error of a value that is too long.
#[cold]
fn too_long(bytes: usize) -> SqlError {
    let detail = format!("A value has {bytes} bytes, the limit is {VALUE_MAX}.");
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "out of memory").detail(detail)
}

/// Puts a value of this number.
///
/// # Errors
/// If it is too long (54000); conflicts; an interrupt.
pub fn put(tx: &mut dyn Access, home: &Home, place: u16, number: u64, bytes: &[u8]) -> Result<Reference> {
    if bytes.len() > VALUE_MAX {
        return Err(too_long(bytes.len()));
    }
    for (piece, bytes) in bytes.chunks(home.size.body.into()).enumerate() {
        if piece % STEP == STEP - 1 {
            stop::check()?;
        }
        let key = key_of(number, piece as u32);
        if !tx.insert(home.table, &new_row(home, &home.key(place, &key), bytes))? {
            let message = format!("a value numbered {number} is there already");
            return Err(SqlError::new(SqlState::DATA_CORRUPTED, message));
        }
    }
    Ok(Reference { number, len: bytes.len() as u32, tail: None })
}

/// Reads a value.
///
/// # Errors
/// If some of it is missing; conflicts; an interrupt.
pub fn get(tx: &mut dyn Access, home: &Home, place: u16, reference: Reference) -> Result<Arc<[u8]>> {
    debug_assert!(reference.tail.is_none(), "a tail is read as a whole");
    let len = reference.len as usize;
    if len > VALUE_MAX {
        return Err(damaged("the length of a value outside"));
    }
    let mut value: Arc<[u8]> = std::iter::repeat_n(0, len).collect();
    let bytes = Arc::get_mut(&mut value).expect("nobody else has seen it");
    let whole = usize::from(home.size.body);
    for (step, bytes) in bytes.chunks_mut(STEP * whole).enumerate() {
        stop::check()?;
        let first = step * STEP;
        let pieces = first..first + bytes.len().div_ceil(whole);
        read(tx, home, place, reference, pieces, bytes)?;
    }
    Ok(value)
}

/// Reads some pieces of a value, whose bytes are these.
fn read(
    tx: &mut dyn Access,
    home: &Home,
    place: u16,
    Reference { number, .. }: Reference,
    pieces: Range<usize>,
    bytes: &mut [u8],
) -> Result<()> {
    let at = home.size.body_at();
    // To the key behind the last one, and no further, so that the scan locks no neighbour's row.
    let (first, last) = (key_of(number, pieces.start as u32), key_of(number, pieces.end as u32 - 1));
    let range = home.range(place, Bound::Before(&first), Bound::Behind(&last));
    let mut chunks = bytes.chunks_mut(home.size.body.into());
    let (mut read, mut is_other) = (pieces.start, false);
    tx.scan(home.table, &range, &mut |key, row| {
        let Some(chunk) = chunks.next().filter(|_| *key == home.key(place, &key_of(number, read as u32)))
        else {
            is_other = true;
            return ControlFlow::Break(());
        };
        chunk.copy_from_slice(&row[at..at + chunk.len()]);
        read += 1;
        ControlFlow::Continue(())
    })?;
    if read < pieces.end || is_other {
        let message = format!("missing piece {read} of value {number}");
        return Err(SqlError::new(SqlState::DATA_CORRUPTED, message));
    }
    Ok(())
}

/// The beginning of a piece's key.
fn key_of(number: u64, piece: u32) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key[8..].copy_from_slice(&piece.to_be_bytes());
    key
}

/// Removes a value.
///
/// # Errors
/// If some of it is missing; conflicts; an interrupt.
pub fn remove(tx: &mut dyn Access, home: &Home, place: u16, reference: Reference) -> Result<()> {
    if tx.is_left_out("overflow.remove-old") {
        return Ok(());
    }
    for piece in 0..reference.len.div_ceil(home.size.body.into()) {
        if piece as usize % STEP == STEP - 1 {
            stop::check()?;
        }
        if !tx.delete(home.table, &home.key(place, &key_of(reference.number, piece)))? {
            let message = format!("missing piece {piece} of value {}", reference.number);
            return Err(SqlError::new(SqlState::DATA_CORRUPTED, message));
        }
    }
    Ok(())
}
