//! Parts: the objects that are there before the first table, and the single numbers in one of them.
//!
//! ```text
//! object 1, descriptions   catalog/saved.rs
//! object 2, state          key: what u64                     body: value u64
//!     what 0: the catalog's version, a copy in every place; in place 0: 1: next oid; 2: next host life;
//!     256 + h: the life of host h; 512: which hosts listen; 2^32 + oid: the version at which a relation was
//!     changed last, a copy in every place (catalog/definition.rs); 3: the version of the statistics, a copy
//!     in every place
//! object 3, sequences      key: oid u32 | 0                  body: catalog/sequence.rs
//! object 4, garbage        key: object u32 | words, body     body: garbage.rs
//! object 5, advisory       advisory.rs
//! objects 6, 7, inboxes    notices.rs
//! object 8, statistics     catalog/statistics/saved.rs
//! ```
//!
//! Invariant: descriptions are in place 0. What many transactions read is in every place, so that each reads
//! the copy that is in its own host's memory, and a change of the catalog writes all of them: readers cost
//! nothing, and writers, who are rare, pay for it (a "big-reader lock").
//!
//! It does NOT know what descriptions say.

use liger_engine::Key;

use super::access::Access;
use super::classes::{ClassSize, Classes, Home, ObjectId, RowsAt};
use super::table::new_row;
use crate::error::{Result, SqlError, SqlState};

const fn fixed(object: u32, body: u16) -> RowsAt {
    RowsAt { object: ObjectId(object), size: ClassSize { words: 2, body } }
}

/// Descriptions.
pub(crate) const OBJECTS: RowsAt = fixed(1, 1024);
/// Single numbers.
pub(crate) const STATE: RowsAt = fixed(2, 16);
/// Where sequences are.
pub(crate) const SEQUENCES: RowsAt = fixed(3, 32);
/// Objects that are gone and whose rows are not.
pub(crate) const GARBAGE: RowsAt = fixed(4, 16);
/// Advisory locks.
const ADVISORY: RowsAt = RowsAt { object: ObjectId(5), size: ClassSize { words: 4, body: 16 } };
/// Notifications on their way: those whose body is short, and others.
const INBOX: RowsAt = RowsAt { object: ObjectId(6), size: ClassSize { words: 3, body: 192 } };
const LONG_INBOX: RowsAt = RowsAt { object: ObjectId(7), size: ClassSize { words: 3, body: 8192 } };
/// Statistics of tables.
pub(crate) const STATISTICS: RowsAt = fixed(8, 1024);
/// Everything that is there before the first table.
pub(crate) const PARTS: [RowsAt; 8] =
    [OBJECTS, STATE, SEQUENCES, GARBAGE, ADVISORY, INBOX, LONG_INBOX, STATISTICS];

/// The sizes of the classes of the parts.
pub const SIZES: [ClassSize; 6] =
    [STATE.size, SEQUENCES.size, OBJECTS.size, ADVISORY.size, INBOX.size, LONG_INBOX.size];

/// The catalog's version.
pub(crate) const VERSION: u64 = 0;
/// The next oid.
pub(crate) const NEXT_OID: u64 = 1;
const NEXT_LIFE: u64 = 2;
/// The version of the statistics.
pub(crate) const STATISTICS_VERSION: u64 = 3;
const LIFE_OF_HOST: u64 = 256;
const LISTENING: u64 = 512;

/// Where a number of the state is, and its key in this place.
pub(crate) fn state_key(classes: &Classes, place: u16, what: u64) -> Result<(Home, Key)> {
    let state = classes.home(STATE)?;
    Ok((state, state.key(place, &what.to_be_bytes())))
}

/// A number of the state in this place; `None`: there is none.
pub(crate) fn read_number(
    tx: &mut dyn Access,
    classes: &Classes,
    place: u16,
    what: u64,
) -> Result<Option<u64>> {
    let (state, key) = state_key(classes, place, what)?;
    let at = state.size.body_at();
    let mut value = 0;
    let found = tx.get(state.table, &key, &mut |row| {
        value = u64::from_le_bytes(row[at..at + 8].try_into().expect("8 bytes"));
    })?;
    Ok(found.then_some(value))
}

/// Puts a number of the state that is not there yet.
pub(crate) fn put_number(
    tx: &mut dyn Access,
    classes: &Classes,
    place: u16,
    what: u64,
    value: u64,
) -> Result<()> {
    let (state, key) = state_key(classes, place, what)?;
    tx.insert(state.table, &new_row(&state, &key, &value.to_le_bytes()))?;
    Ok(())
}

/// Sets a number of the state that is there.
pub(crate) fn set_number(
    tx: &mut dyn Access,
    classes: &Classes,
    place: u16,
    what: u64,
    value: u64,
) -> Result<()> {
    let (state, key) = state_key(classes, place, what)?;
    let at = state.size.body_at();
    let there = tx.update(state.table, &key, &mut |row| row.put_bytes(at, &value.to_le_bytes()))?;
    if there { Ok(()) } else { Err(SqlError::new(SqlState::DATA_CORRUPTED, "the catalog has no state")) }
}

/// Puts the numbers of hosts and sessions in a new pod.
pub(crate) fn put_numbers(tx: &mut dyn Access, classes: &Classes) -> Result<()> {
    put_number(tx, classes, 0, NEXT_LIFE, 1)?;
    put_number(tx, classes, 0, LISTENING, 0)?;
    (0..tx.places()).try_for_each(|place| put_number(tx, classes, place, STATISTICS_VERSION, 0))
}

/// Puts those that a pod does not have whose catalog an older program made.
pub(crate) fn complete_numbers(tx: &mut dyn Access, classes: &Classes) -> Result<()> {
    let numbers = (0..tx.places()).map(|place| (place, STATISTICS_VERSION)).chain([(0, LISTENING)]);
    for (place, what) in numbers {
        if read_number(tx, classes, place, what)?.is_none() {
            put_number(tx, classes, place, what, 0)?;
        }
    }
    Ok(())
}

/// A place whose rows are in this host's memory, if there is one.
pub(crate) fn own_place(tx: &dyn Access) -> u16 {
    (0..tx.places()).find(|place| tx.is_own(*place)).unwrap_or(0)
}

/// Takes the number of a host's life: see `HostCatalog::open` of the catalog.
pub(crate) fn take_life(tx: &mut dyn Access, classes: &Classes) -> Result<u64> {
    let next = read_number(tx, classes, 0, NEXT_LIFE)?.unwrap_or(1);
    set_number(tx, classes, 0, NEXT_LIFE, next + 1)?;
    let own = LIFE_OF_HOST + u64::from(tx.host());
    match read_number(tx, classes, 0, own)? {
        Some(_) => set_number(tx, classes, 0, own, next)?,
        None => put_number(tx, classes, 0, own, next)?,
    }
    Ok(next)
}

/// Whether a life of a host goes on: the host is a member of the pod and has begun no other.
pub(crate) fn lives(tx: &mut dyn Access, classes: &Classes, host: u8, life: u64) -> Result<bool> {
    Ok(tx.is_member(host) && read_number(tx, classes, 0, LIFE_OF_HOST + u64::from(host))? == Some(life))
}

/// Where advisory locks are.
pub(crate) fn advisory(classes: &Classes) -> Result<Home> {
    classes.home(ADVISORY)
}

/// Which hosts listen to something, bit h for host h.
pub(crate) fn listening(tx: &mut dyn Access, classes: &Classes) -> Result<u64> {
    Ok(read_number(tx, classes, 0, LISTENING)?.unwrap_or(0))
}

/// Sets which hosts listen.
pub(crate) fn set_listening(tx: &mut dyn Access, classes: &Classes, hosts: u64) -> Result<()> {
    set_number(tx, classes, 0, LISTENING, hosts)
}

/// Where notifications with a body of so many bytes are.
pub(crate) fn inbox(classes: &Classes, bytes: usize) -> Result<Home> {
    classes.home(if bytes <= usize::from(INBOX.size.body) { INBOX } else { LONG_INBOX })
}

/// Where notifications are.
pub(crate) fn inboxes(classes: &Classes) -> Result<[Home; 2]> {
    Ok([classes.home(INBOX)?, classes.home(LONG_INBOX)?])
}
