//! Sequences: the number that comes next, in a row of its own.
//!
//! ```text
//! key    oid u32 | zero u32        body   last i64 | called u8 (1: `last` has been given)
//! ```
//!
//! A session's own sequence has its row in an object of its own number.
//!
//! Numbers are taken in transactions of their own, which no rollback gives back; a host takes `cache` of them
//! at once and keeps what it does not need yet. So numbers are unique and grow on each host, and have gaps
//! when a host ends. Numbers of a sequence that a transaction has made or begun anew (ALTER SEQUENCE,
//! TRUNCATE) are taken within it, but behind the back of its savepoints: these take back only what began the
//! sequence anew.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Catalog;
use super::object::{RowsAt, Sequence};
use crate::error::{Result, SqlError, SqlState};
use crate::storage::access::Access;
use crate::storage::classes::{Home, ObjectId};
use crate::storage::parts::SEQUENCES;
use crate::storage::private::is_private;
use crate::storage::table::new_row;
use crate::storage::undo::Undoing;
use crate::types::Oid;

/// How far a sequence has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// The last number, or the first if none has been given.
    pub last: i64,
    /// Whether `last` has been given.
    pub called: bool,
}

/// Numbers that a host has taken: `first`, `first + increment`, ... `count` of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// The next to give.
    pub first: i64,
    /// From one to the next.
    pub increment: i64,
    /// How many there are.
    pub count: i64,
}

impl Block {
    /// The next number, if there is one left.
    pub fn take(&mut self) -> Option<i64> {
        let number = self.first;
        self.count = self.count.checked_sub(1).filter(|left| *left >= 0)?;
        self.first = self.first.saturating_add(self.increment);
        Some(number)
    }
}

/// The numbers that a host has taken and not given yet.
#[derive(Debug, Default)]
pub struct Blocks {
    by_oid: Mutex<BTreeMap<Oid, Block>>,
}

impl Blocks {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Oid, Block>> {
        self.by_oid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next number of a sequence, if there is one left.
    pub fn take(&self, oid: Oid) -> Option<i64> {
        self.lock().get_mut(&oid).and_then(Block::take)
    }

    /// Numbers that were taken, once that has committed. What another worker has brought meanwhile is given
    /// up: a gap.
    pub fn put(&self, oid: Oid, block: Block) {
        self.lock().insert(oid, block);
    }

    /// The last number that was given, and whether one was: of the numbers up to `state` those that this host
    /// keeps, if it was the last to take some, are not given yet.
    pub fn given(&self, oid: Oid, state: State, start: i64) -> (i64, bool) {
        let kept = self.lock().get(&oid).copied().filter(|block| {
            let ahead = block.count.checked_mul(block.increment);
            block.count > 0
                && ahead.and_then(|ahead| block.first.checked_add(ahead - block.increment))
                    == Some(state.last)
        });
        match kept {
            None => (state.last, state.called),
            Some(block) if block.first == start => (start, false),
            Some(block) => (block.first.saturating_sub(block.increment), true),
        }
    }

    /// Gives up what is left: after `setval` and the like.
    pub fn forget(&self, oid: Oid) {
        self.lock().remove(&oid);
    }
}

fn key(tx: &dyn Access, catalog: &Catalog, oid: Oid) -> Result<(Home, liger_engine::Key)> {
    let own = is_private(oid).then_some(ObjectId(oid));
    let home = catalog.home(RowsAt { object: own.unwrap_or(SEQUENCES.object), ..SEQUENCES })?;
    let place = (oid % u32::from(tx.places())) as u16;
    Ok((home, home.key(place, &oid.to_be_bytes())))
}

fn bytes_of(state: State) -> [u8; 9] {
    let mut bytes = [u8::from(state.called); 9];
    bytes[..8].copy_from_slice(&state.last.to_le_bytes());
    bytes
}

/// Makes the row of a new sequence.
///
/// # Errors
/// Conflicts.
pub fn create(tx: &mut dyn Access, catalog: &Catalog, sequence: &Sequence) -> Result<()> {
    let (home, key) = key(tx, catalog, sequence.oid)?;
    let state = State { last: sequence.start, called: false };
    tx.insert(home.table, &new_row(&home, &key, &bytes_of(state)))?;
    Ok(())
}

/// Removes the row of a sequence.
///
/// # Errors
/// Conflicts.
pub fn remove(tx: &mut dyn Access, catalog: &Catalog, oid: Oid) -> Result<()> {
    let (home, key) = key(tx, catalog, oid)?;
    tx.delete(home.table, &key)?;
    Ok(())
}

/// How far a sequence has come; what hosts have taken and not given counts as given.
///
/// # Errors
/// Conflicts.
pub fn state(tx: &mut dyn Access, catalog: &Catalog, oid: Oid) -> Result<State> {
    let (home, key) = key(tx, catalog, oid)?;
    let at = home.size.body_at();
    let mut state = State { last: 0, called: false };
    let there = tx.get(home.table, &key, &mut |row| {
        state.last = i64::from_le_bytes(row[at..at + 8].try_into().expect("8 bytes"));
        state.called = row[at + 8] != 0;
    })?;
    if there { Ok(state) } else { Err(missing(oid)) }
}

/// Sets how far a sequence has come. Numbers that hosts have taken before are theirs.
///
/// # Errors
/// Conflicts.
pub fn set(tx: &mut dyn Access, catalog: &Catalog, oid: Oid, state: State) -> Result<()> {
    let (home, key) = key(tx, catalog, oid)?;
    let at = home.size.body_at();
    let there = tx.update(home.table, &key, &mut |row| row.put_bytes(at, &bytes_of(state)))?;
    if there { Ok(()) } else { Err(missing(oid)) }
}

/// As [`set`], but a savepoint that is gone back to gives the row all of its bytes again, whatever was set
/// since behind its back: they are written twice, and all of them changed.
///
/// # Errors
/// Conflicts.
pub fn begin_anew(tx: &mut Undoing<'_>, catalog: &Catalog, oid: Oid, to: State) -> Result<()> {
    let (home, key) = key(tx, catalog, oid)?;
    let at = home.size.body_at();
    let before = state(tx, catalog, oid)?;
    let others = bytes_of(before).map(|byte| !byte);
    tx.update(home.table, &key, &mut |row| row.put_bytes(at, &others))?;
    set(tx, catalog, oid, to)
}

fn missing(oid: Oid) -> SqlError {
    SqlError::new(SqlState::DATA_CORRUPTED, format!("sequence {oid} has no row"))
}

/// Takes up to `count` numbers, at least one.
///
/// # Errors
/// If there are no more (2200H); conflicts.
pub fn take(tx: &mut dyn Access, catalog: &Catalog, sequence: &Sequence, count: i64) -> Result<Block> {
    let before = state(tx, catalog, sequence.oid)?;
    let Sequence { increment, min, max, .. } = *sequence;
    let next = |last: i64| last.checked_add(increment).filter(|n| (min..=max).contains(n));
    let first = if before.called { next(before.last) } else { Some(before.last) };
    let first = match (first, sequence.cycle) {
        (Some(first), _) => first,
        (None, true) if increment > 0 => min,
        (None, true) => max,
        (None, false) => {
            let (end, which) = if increment > 0 { (max, "maximum") } else { (min, "minimum") };
            let message = format!("nextval: reached {which} value of sequence \"{}\" ({end})", sequence.name);
            return Err(SqlError::new(SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED, message));
        }
    };
    let room = if increment > 0 {
        (max as i128 - first as i128) / increment as i128
    } else {
        (first as i128 - min as i128) / -(increment as i128)
    };
    let count = count.max(1).min(i64::try_from(room + 1).unwrap_or(i64::MAX));
    let last = first + (count - 1) * increment;
    set(tx, catalog, sequence.oid, State { last, called: true })?;
    Ok(Block { first, increment, count })
}
