//! Rows of one session's temporary objects, and a transaction that sees them beside the pod's.
//!
//! They are maps in this process: no other session, no other host and no log knows of them, and they are gone
//! with the session. They have the keys and bodies that the pod's rows have, so everything above (indexes,
//! constraints, savepoints, values outside of rows) is the same for both kinds. Which kind a row is, its key
//! says: it begins with the number of its object, and temporary objects have numbers of their own.
//!
//! Invariants:
//! 1. Objects from [`FIRST_PRIVATE`] on are a session's own, all others are the pod's. Two sessions may give
//!    the same number.
//! 2. Numbers of objects grow, and none is given twice in a session: rows of objects that a transaction has
//!    made go when it is rolled back, and no step of it needs to be remembered.
//! 3. Rows of objects that no description names are removed when a transaction commits; before that it may
//!    be rolled back.
//! 4. What all sessions of a host have is at most [`MOST_BYTES`]; a row that is too much is refused (53200).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use liger_engine::row::Census;
use liger_engine::{Announced, Key, KeyRange, NewRow, RowMut, TableId, change_row};

use super::access::{Access, passes_on};
use super::classes::Home;
use crate::error::{Result, SqlError, SqlState};
use crate::types::Oid;

/// The least number of temporary objects.
pub const FIRST_PRIVATE: Oid = 0xe000_0000;
/// Bytes of rows and their keys that all sessions of a host may have in temporary objects.
pub const MOST_BYTES: u64 = 4 << 30;
/// What a row takes besides its own bytes: its key and its place in the map.
const ROW_BYTES: u64 = 112;

/// No object has so great a number.
const NO_TRANSACTION: Oid = Oid::MAX;

/// Whether an object is a session's own.
pub fn is_private(oid: Oid) -> bool {
    oid >= FIRST_PRIVATE
}

/// The object of a row's key.
fn object_of(key: &Key) -> Oid {
    Home::object_of(key).0
}

type Rows = BTreeMap<Key, Box<[u8]>>;

/// The rows of a session's temporary objects.
pub struct PrivateRows {
    objects: BTreeMap<Oid, Rows>,
    /// What rows were before this transaction changed them, backwards.
    undo: Vec<(Key, Option<Box<[u8]>>)>,
    /// Objects from this number on are of this transaction; [`NO_TRANSACTION`] between two.
    first_new: Oid,
    /// What all sessions of this host have, and how much of it these rows are.
    all_bytes: Arc<AtomicU64>,
    bytes: u64,
}

impl PrivateRows {
    /// No rows; `all_bytes`: what all sessions of the host have.
    pub fn new(all_bytes: Arc<AtomicU64>) -> PrivateRows {
        let (objects, undo) = (BTreeMap::new(), Vec::new());
        PrivateRows { objects, undo, first_new: NO_TRANSACTION, all_bytes, bytes: 0 }
    }

    /// A transaction begins, whose objects have numbers from `first_new` on.
    pub fn begin(&mut self, first_new: Oid) {
        debug_assert!(self.undo.is_empty(), "the last transaction has ended");
        self.first_new = first_new;
    }

    /// The transaction has committed; where it has changed descriptions, objects that are not in `live` are
    /// gone.
    pub fn commit(&mut self, live: Option<&BTreeSet<Oid>>) {
        self.undo.clear();
        self.first_new = NO_TRANSACTION;
        if let Some(live) = live {
            self.keep(|object| live.contains(&object));
        }
    }

    /// The transaction has been rolled back; if none has begun, there is nothing to take back.
    pub fn roll_back(&mut self) {
        let first_new = std::mem::replace(&mut self.first_new, NO_TRANSACTION);
        self.keep(|object| object < first_new);
        for (key, before) in std::mem::take(&mut self.undo).into_iter().rev() {
            match before {
                Some(row) => _ = self.put(key, row),
                None => _ = self.take(&key),
            }
        }
    }

    /// Does something that no rollback takes back.
    pub fn for_good<R>(&mut self, work: impl FnOnce(&mut PrivateRows) -> R) -> R {
        let first_new = std::mem::replace(&mut self.first_new, 0);
        let done = work(self);
        self.first_new = first_new;
        done
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.undo.clear();
        self.keep(|_| false);
    }

    fn keep(&mut self, stays: impl Fn(Oid) -> bool) {
        let mut gone = 0;
        self.objects.retain(|object, rows| {
            let stays = stays(*object);
            if !stays {
                gone += rows.values().map(|row| charge(row)).sum::<u64>();
            }
            stays
        });
        self.give_back(gone);
    }

    fn give_back(&mut self, bytes: u64) {
        self.bytes -= bytes;
        self.all_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn row(&self, key: &Key) -> Option<&[u8]> {
        self.objects.get(&object_of(key))?.get(key).map(|row| &**row)
    }

    fn put(&mut self, key: Key, row: Box<[u8]>) -> Option<Box<[u8]>> {
        let bytes = charge(&row);
        self.bytes += bytes;
        self.all_bytes.fetch_add(bytes, Ordering::Relaxed);
        let before = self.objects.entry(object_of(&key)).or_default().insert(key, row);
        self.give_back(before.as_deref().map_or(0, charge));
        before
    }

    fn take(&mut self, key: &Key) -> Option<Box<[u8]>> {
        let row = self.objects.get_mut(&object_of(key))?.remove(key)?;
        self.give_back(charge(&row));
        Some(row)
    }

    /// Remembers what a row was.
    fn note(&mut self, key: &Key, before: Option<Box<[u8]>>) {
        if object_of(key) < self.first_new {
            self.undo.push((*key, before));
        }
    }

    fn update(&mut self, key: &Key, change: &mut dyn FnMut(&mut RowMut<'_>)) -> bool {
        let Some(row) = self.objects.get_mut(&object_of(key)).and_then(|rows| rows.get_mut(key)) else {
            return false;
        };
        if object_of(key) < self.first_new {
            self.undo.push((*key, Some(row.clone())));
        }
        change_row(row, change);
        true
    }

    fn insert(&mut self, key: Key, row: &[u8]) -> Result<bool> {
        if self.row(&key).is_some() {
            return Ok(false);
        }
        if self.all_bytes.load(Ordering::Relaxed) + charge(row) > MOST_BYTES {
            let message = "out of memory for temporary tables";
            let detail = format!(
                "The temporary tables of all sessions of this host may have {} MiB together.",
                MOST_BYTES >> 20
            );
            let hint = "Temporary tables are kept in memory. Drop some, or put rows into an ordinary table.";
            return Err(SqlError::new(SqlState::OUT_OF_MEMORY, message).detail(detail).hint(hint));
        }
        self.put(key, row.into());
        self.note(&key, None);
        Ok(true)
    }

    fn delete(&mut self, key: &Key) -> bool {
        let Some(row) = self.take(key) else { return false };
        self.note(key, Some(row));
        true
    }

    fn range(&self, range: &KeyRange) -> impl Iterator<Item = (&Key, &[u8])> {
        let high = range.high;
        let rows = self.objects.get(&object_of(&range.low)).into_iter();
        let rows = rows.flat_map(move |rows| rows.range(range.low..));
        rows.take_while(move |(key, _)| high.is_none_or(|high| **key < high)).map(|(key, row)| (key, &**row))
    }
}

impl Drop for PrivateRows {
    fn drop(&mut self) {
        self.all_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn charge(row: &[u8]) -> u64 {
    row.len() as u64 + ROW_BYTES
}

/// A transaction that has a session's own rows beside the pod's.
pub struct Beside<'a> {
    below: &'a mut dyn Access,
    own: &'a mut PrivateRows,
}

impl<'a> Beside<'a> {
    /// The pod's rows are `below`.
    pub fn new(below: &'a mut dyn Access, own: &'a mut PrivateRows) -> Self {
        Self { below, own }
    }
}

fn is_own(key: &Key) -> bool {
    is_private(object_of(key))
}

impl Access for Beside<'_> {
    passes_on!(below);

    fn census(&self, table: TableId, place: u16, range: &KeyRange) -> Census {
        if !is_own(&range.low) {
            return self.below.census(table, place, range);
        }
        let mut census = Census::default();
        for (key, row) in self.own.range(range) {
            census.rows += 1;
            census.bytes += (8 * key.width() + row.len()) as u64;
        }
        census
    }

    fn announce(&mut self, rows: &[Announced]) {
        // All of one statement's rows are of one table and its indexes.
        if !rows.iter().any(|row| is_own(&row.key)) {
            self.below.announce(rows);
        }
    }

    fn get(&mut self, table: TableId, key: &Key, see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if !is_own(key) {
            return self.below.get(table, key, see);
        }
        Ok(self.own.row(key).map(see).is_some())
    }

    fn update(&mut self, table: TableId, key: &Key, change: &mut dyn FnMut(&mut RowMut<'_>)) -> Result<bool> {
        match is_own(key) {
            true => Ok(self.own.update(key, change)),
            false => self.below.update(table, key, change),
        }
    }

    fn take_if_free(
        &mut self,
        table: TableId,
        key: &Key,
        see: &mut dyn FnMut(&mut RowMut<'_>),
    ) -> Result<bool> {
        match is_own(key) {
            true => Ok(self.own.update(key, see)),
            false => self.below.take_if_free(table, key, see),
        }
    }

    fn get_if_free(&mut self, table: TableId, key: &Key, see: &mut dyn FnMut(&[u8])) -> Result<Option<bool>> {
        match is_own(key) {
            true => self.get(table, key, see).map(Some),
            false => self.below.get_if_free(table, key, see),
        }
    }

    fn peek(
        &mut self,
        table: TableId,
        range: &KeyRange,
        see: &mut dyn FnMut(&Key, &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        match is_own(&range.low) {
            true => self.scan(table, range, see),
            false => self.below.peek(table, range, see),
        }
    }

    fn insert(&mut self, table: TableId, row: &NewRow) -> Result<bool> {
        let key = self.below.key_of(table, row.bytes());
        match is_own(&key) {
            true => self.own.insert(key, row.bytes()),
            false => self.below.insert(table, row),
        }
    }

    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool> {
        match is_own(key) {
            true => Ok(self.own.delete(key)),
            false => self.below.delete(table, key),
        }
    }

    fn scan(
        &mut self,
        table: TableId,
        range: &KeyRange,
        see: &mut dyn FnMut(&Key, &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        if !is_own(&range.low) {
            return self.below.scan(table, range, see);
        }
        let _ = self.own.range(range).try_for_each(|(key, row)| see(key, row));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(object: Oid, number: u64) -> Key {
        Key::build().raw(u64::from(object ^ 0x8000_0000), 4).raw(0, 4).raw(number, 8).first(2)
    }

    fn rows() -> (PrivateRows, Arc<AtomicU64>) {
        let all = Arc::new(AtomicU64::new(0));
        (PrivateRows::new(all.clone()), all)
    }

    fn seen(rows: &PrivateRows, object: Oid) -> Vec<(u64, Vec<u8>)> {
        let range = KeyRange { low: key(object, 0), high: Some(key(object, u64::MAX)) };
        rows.range(&range).map(|(key, row)| (key.words()[1], row.to_vec())).collect()
    }

    #[test]
    fn a_rollback_brings_back_what_was_and_takes_new_objects_away() {
        let (old, new) = (FIRST_PRIVATE, FIRST_PRIVATE + 1);
        let (mut rows, all) = rows();
        rows.begin(old);
        (1..=3).for_each(|n| assert!(rows.insert(key(old, n), &[n as u8; 4]).expect("there is room")));
        rows.commit(Some(&BTreeSet::from([old])));
        let (before, bytes) = (seen(&rows, old), all.load(Ordering::Relaxed));
        rows.begin(new);
        assert!(!rows.insert(key(old, 2), &[9; 4]).expect("there is room"), "there is one");
        assert!(rows.update(&key(old, 1), &mut |row| row.put_bytes(1, &[7, 7])));
        assert!(rows.update(&key(old, 1), &mut |row| row.put_bytes(3, &[8])));
        assert!(rows.delete(&key(old, 2)) && rows.insert(key(old, 2), &[5; 4]).expect("there is room"));
        assert!(rows.delete(&key(old, 3)) && !rows.delete(&key(old, 3)));
        assert!(rows.insert(key(new, 1), &[1; 4]).expect("there is room"));
        assert!(rows.update(&key(new, 1), &mut |row| row.put_bytes(0, &[6])));
        assert_eq!(seen(&rows, old), [(1, vec![1, 7, 7, 8]), (2, vec![5; 4])]);
        rows.roll_back();
        assert_eq!((seen(&rows, old), seen(&rows, new)), (before, Vec::new()));
        assert_eq!(all.load(Ordering::Relaxed), bytes);
    }

    #[test]
    fn what_no_description_names_goes_at_the_commit() {
        let (mut rows, all) = rows();
        rows.begin(FIRST_PRIVATE);
        for object in FIRST_PRIVATE..FIRST_PRIVATE + 3 {
            assert!(rows.insert(key(object, 1), &[1; 4]).expect("there is room"));
        }
        rows.commit(Some(&BTreeSet::from([FIRST_PRIVATE + 1])));
        let left: Vec<usize> = (FIRST_PRIVATE..FIRST_PRIVATE + 3).map(|it| seen(&rows, it).len()).collect();
        assert_eq!(left, [0, 1, 0]);
        assert_eq!(all.load(Ordering::Relaxed), 4 + ROW_BYTES);
        drop(rows);
        assert_eq!(all.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_host_has_room_for_so_many_rows() {
        let (mut rows, all) = rows();
        all.store(MOST_BYTES - 2 * ROW_BYTES, Ordering::Relaxed);
        assert!(rows.insert(key(FIRST_PRIVATE, 1), &[1; 4]).expect("there is room"));
        let error = rows.insert(key(FIRST_PRIVATE, 2), &[1; 200]).expect_err("there is none");
        assert_eq!(error.state, SqlState::OUT_OF_MEMORY);
        assert!(rows.delete(&key(FIRST_PRIVATE, 1)));
        assert!(rows.insert(key(FIRST_PRIVATE, 2), &[1; 200 - 88]).expect("there is room again"));
    }
}
