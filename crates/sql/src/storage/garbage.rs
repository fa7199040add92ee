//! Rows of objects that are gone: removed later, in small transactions.
//!
//! DROP and TRUNCATE only note the object; nobody finds its rows any more. Whoever has time sweeps.
//!
//! ```text
//! key    object u32 | words u8 | zero u8 | body u16        body   nothing
//! ```
//!
//! Invariant: an object is noted in the transaction that lets it go, and the note goes in the transaction
//! that finds no row of it any more, edges included.

use std::ops::ControlFlow;

use super::access::Access;
use super::classes::{Bound, ClassSize, ObjectId};
use super::table::new_row;
use crate::catalog::Catalog;
use crate::catalog::object::RowsAt;
use crate::error::Result;

/// Notes that nobody needs these rows any more.
///
/// # Errors
/// Conflicts.
pub fn add(tx: &mut dyn Access, catalog: &Catalog, rows: RowsAt) -> Result<()> {
    let notes = catalog.home(crate::catalog::GARBAGE)?;
    let mut key = rows.object.0.to_be_bytes().to_vec();
    key.extend_from_slice(&[rows.size.words, 0]);
    key.extend_from_slice(&rows.size.body.to_be_bytes());
    tx.insert(notes.table, &new_row(&notes, &notes.key(0, &key), &[]))?;
    Ok(())
}

/// Removes up to `most` rows of objects that are gone; false if there are none left.
///
/// # Errors
/// Conflicts.
pub fn sweep(tx: &mut dyn Access, catalog: &Catalog, most: usize) -> Result<bool> {
    let notes = catalog.home(crate::catalog::GARBAGE)?;
    let mut first = None;
    tx.scan(notes.table, &notes.range(0, Bound::Open, Bound::Open), &mut |key, _| {
        first = Some(*key);
        ControlFlow::Break(())
    })?;
    let Some(note) = first else { return Ok(false) };
    let object = ObjectId(note.extract(8, 4) as u32);
    let size = ClassSize { words: note.extract(12, 1) as u8, body: note.extract(14, 2) as u16 };
    let home = catalog.home(RowsAt { object, size })?;
    let mut left = most;
    for place in 0..tx.places() {
        let mut keys = Vec::new();
        tx.scan(home.table, &home.range_with_edge(place), &mut |key, _| {
            keys.push(*key);
            if keys.len() < left { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        for key in &keys {
            tx.delete(home.table, key)?;
        }
        left -= keys.len();
        if left == 0 {
            return Ok(true);
        }
    }
    tx.delete(notes.table, &note)?;
    Ok(true)
}
