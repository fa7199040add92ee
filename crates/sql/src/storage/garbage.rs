//! Rows of objects that are gone: removed later, in small transactions.
//!
//! DROP and TRUNCATE only note the object, once in each place; nobody finds its rows any more. Each host
//! sweeps the places that it owns when it has time, so no row of an object that is gone is moved to be
//! removed.
//!
//! ```text
//! key    object u32 | words u8 | zero u8 | body u16        body   nothing
//! ```
//!
//! Invariants:
//! 1. An object is noted in the transaction that lets it go, and a place's note goes in the transaction that
//!    finds no row of it there any more, and removes the edge.
//! 2. A sweep locks notes, and rows of objects that are gone, and nothing else: not the catalog's version, as
//!    no catalog names these rows, and not the row behind an edge, which is another object's. It stops at the
//!    edge and removes that by its key.

use std::ops::ControlFlow;

use super::access::Access;
use super::classes::{Bound, ClassSize, Classes, ObjectId, RowsAt};
use super::parts::GARBAGE;
use super::table::new_row;
use crate::error::Result;

/// Notes that nobody needs these rows any more.
///
/// # Errors
/// Conflicts.
pub fn add(tx: &mut dyn Access, classes: &Classes, rows: RowsAt) -> Result<()> {
    let notes = classes.home(GARBAGE)?;
    let mut key = rows.object.0.to_be_bytes().to_vec();
    key.extend_from_slice(&[rows.size.words, 0]);
    key.extend_from_slice(&rows.size.body.to_be_bytes());
    for place in 0..tx.places() {
        tx.insert(notes.table, &new_row(&notes, &notes.key(place, &key), &[]))?;
    }
    Ok(())
}

/// Removes up to `most` rows of an object that is gone, in one place; false if there are none left.
///
/// # Errors
/// Conflicts.
pub fn sweep(tx: &mut dyn Access, classes: &Classes, place: u16, most: usize) -> Result<bool> {
    let notes = classes.home(GARBAGE)?;
    let mut first = None;
    tx.scan(notes.table, &notes.range(place, Bound::Open, Bound::Open), &mut |key, _| {
        first = Some(*key);
        ControlFlow::Break(())
    })?;
    let Some(note) = first else { return Ok(false) };
    let object = ObjectId(note.extract(8, 4) as u32);
    let size = ClassSize { words: note.extract(12, 1) as u8, body: note.extract(14, 2) as u16 };
    let home = classes.home(RowsAt { object, size })?;
    let mut keys = Vec::new();
    tx.scan(home.table, &home.range(place, Bound::Open, Bound::Open), &mut |key, _| {
        keys.push(*key);
        if keys.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    if keys.len() < most {
        keys.push(home.edge(place));
        tx.delete(notes.table, &note)?;
    }
    for key in &keys {
        tx.delete(home.table, key)?;
    }
    Ok(true)
}
