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
//! A value has at most [`VALUE_MAX`] bytes: all changes of a transaction have to fit the log's ring.

use std::ops::ControlFlow;

use super::access::Access;
use super::classes::{Bound, ClassSize, Home};
use super::row::Reference;
use super::table::new_row;
use crate::error::{Result, SqlError, SqlState};

/// The class of pieces.
pub const SIZE: ClassSize = ClassSize { words: 3, body: 1024 };

/// Most bytes of a value.
pub const VALUE_MAX: usize = 1 << 20;

/// Puts a value of this number.
///
/// # Errors
/// If it is too long (54000); conflicts.
pub fn put(tx: &mut dyn Access, home: &Home, place: u16, number: u64, bytes: &[u8]) -> Result<Reference> {
    if bytes.len() > VALUE_MAX {
        let message = format!("a value of {} bytes is too long: at most {VALUE_MAX} bytes", bytes.len());
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    for (piece, bytes) in bytes.chunks(home.size.body.into()).enumerate() {
        let mut key = number.to_be_bytes().to_vec();
        key.extend_from_slice(&(piece as u32).to_be_bytes());
        if !tx.insert(home.table, &new_row(home, &home.key(place, &key), bytes))? {
            let message = format!("a value numbered {number} is there already");
            return Err(SqlError::new(SqlState::DATA_CORRUPTED, message));
        }
    }
    Ok(Reference { number, len: bytes.len() as u32 })
}

/// Reads a value.
///
/// # Errors
/// If some of it is missing; conflicts.
pub fn get(tx: &mut dyn Access, home: &Home, place: u16, reference: Reference) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(reference.len as usize);
    let at = home.size.body_at();
    // To the key before the next number, so that the scan locks no neighbour's row.
    let end = last_piece(reference);
    let number = reference.number.to_be_bytes();
    let range = home.range(place, Bound::Before(&number), Bound::Behind(&end));
    tx.scan(home.table, &range, &mut |_, row| {
        bytes.extend_from_slice(&row[at..]);
        ControlFlow::Continue(())
    })?;
    if bytes.len() < reference.len as usize {
        let message = format!("missing piece {} of value {}", bytes.len() / 1024, reference.number);
        return Err(SqlError::new(SqlState::DATA_CORRUPTED, message));
    }
    bytes.truncate(reference.len as usize);
    Ok(bytes)
}

/// The beginning of the last piece's key.
fn last_piece(reference: Reference) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&reference.number.to_be_bytes());
    key[8..].copy_from_slice(&(reference.len.div_ceil(1024).max(1) - 1).to_be_bytes());
    key
}

/// Removes a value.
///
/// # Errors
/// If some of it is missing; conflicts.
pub fn remove(tx: &mut dyn Access, home: &Home, place: u16, reference: Reference) -> Result<()> {
    if tx.is_left_out("overflow.remove-old") {
        return Ok(());
    }
    for piece in 0..reference.len.div_ceil(home.size.body.into()) {
        let mut key = reference.number.to_be_bytes().to_vec();
        key.extend_from_slice(&piece.to_be_bytes());
        if !tx.delete(home.table, &home.key(place, &key))? {
            let message = format!("missing piece {piece} of value {}", reference.number);
            return Err(SqlError::new(SqlState::DATA_CORRUPTED, message));
        }
    }
    Ok(())
}
