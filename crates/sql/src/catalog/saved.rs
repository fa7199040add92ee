//! The catalog as rows: where its parts lie and how descriptions are cut into rows.
//!
//! ```text
//! object 1, descriptions   key: oid u32 | part u32           body: version u64 | len u16 | JSON, in parts
//! object 2, state          key: what u64                     body: value u64
//!     what 0: the catalog's version, a copy in every place; in place 0: 1: next oid; 2: next host life;
//!     256 + h: the life of host h; 512: which hosts listen; 2^32 + oid: the version at which a relation was
//!     changed last, a copy in every place (catalog/definition.rs)
//! object 3, sequences      key: oid u32 | 0                  body: storage/sequence.rs
//! object 4, garbage        key: object u32 | words, body     body: storage/garbage.rs
//! object 5, advisory       storage/advisory.rs
//! objects 6, 7, inboxes    storage/notices.rs
//! ```
//!
//! Invariants:
//! 1. Descriptions are in place 0. What many transactions read is in every place, so that each reads the copy
//!    that is in its own host's memory, and a change of the catalog writes all of them: readers cost
//!    nothing, and writers, who are rare, pay for it (a "big-reader lock").
//! 2. A description's rows say at which version they were written: a host that looks again reads anew only
//!    what has changed.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::object::{Object, RowsAt};
use super::{Catalog, home};
use crate::error::{Result, SqlError, SqlState};
use crate::storage::access::Access;
use crate::storage::classes::{Bound, ClassSize, Classes, Home, ObjectId};
use crate::storage::private::FIRST_PRIVATE;
use crate::storage::table::{new_row, put_edges};
use crate::types::Oid;

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
/// Everything that is there before the first table.
pub(crate) const PARTS: [RowsAt; 7] = [OBJECTS, STATE, SEQUENCES, GARBAGE, ADVISORY, INBOX, LONG_INBOX];

/// The sizes of classes that the catalog itself needs.
pub const OWN_SIZES: [ClassSize; 6] =
    [STATE.size, SEQUENCES.size, OBJECTS.size, ADVISORY.size, INBOX.size, LONG_INBOX.size];

const HEAD: usize = 10;
const VERSION: u64 = 0;
const NEXT_OID: u64 = 1;
const NEXT_LIFE: u64 = 2;
const LIFE_OF_HOST: u64 = 256;
const LISTENING: u64 = 512;

pub(super) fn state_key(classes: &Classes, place: u16, what: u64) -> Result<(Home, liger_engine::Key)> {
    let state = home(classes, STATE)?;
    Ok((state, state.key(place, &what.to_be_bytes())))
}

fn read_number(tx: &mut dyn Access, classes: &Classes, place: u16, what: u64) -> Result<Option<u64>> {
    let (state, key) = state_key(classes, place, what)?;
    let at = state.size.body_at();
    let mut value = 0;
    let found = tx.get(state.table, &key, &mut |row| {
        value = u64::from_le_bytes(row[at..at + 8].try_into().expect("8 bytes"));
    })?;
    Ok(found.then_some(value))
}

fn put_number(tx: &mut dyn Access, classes: &Classes, place: u16, what: u64, value: u64) -> Result<()> {
    let (state, key) = state_key(classes, place, what)?;
    tx.insert(state.table, &new_row(&state, &key, &value.to_le_bytes()))?;
    Ok(())
}

fn set_number(tx: &mut dyn Access, classes: &Classes, place: u16, what: u64, value: u64) -> Result<()> {
    let (state, key) = state_key(classes, place, what)?;
    let at = state.size.body_at();
    let there = tx.update(state.table, &key, &mut |row| row.put_bytes(at, &value.to_le_bytes()))?;
    if there { Ok(()) } else { Err(SqlError::new(SqlState::DATA_CORRUPTED, "the catalog has no state")) }
}

/// A place whose rows are in this host's memory, if there is one.
pub(super) fn own_place(tx: &dyn Access) -> u16 {
    (0..tx.places()).find(|place| tx.is_own(*place)).unwrap_or(0)
}

/// The catalog's version; `None`: there is no catalog.
pub(crate) fn version(tx: &mut dyn Access, classes: &Classes) -> Result<Option<u64>> {
    let own = own_place(tx);
    read_number(tx, classes, own, VERSION)
}

/// The catalog's version, if nobody is setting it.
pub(crate) fn peek_version(tx: &mut dyn Access, classes: &Classes) -> Result<Option<u64>> {
    let (own, state) = (own_place(tx), home(classes, STATE)?);
    let (at, mut seen) = (state.size.body_at(), None);
    tx.peek(state.table, &state.range_of_prefix(own, &VERSION.to_be_bytes()), &mut |_, row| {
        seen = Some(u64::from_le_bytes(row[at..at + 8].try_into().expect("8 bytes")));
        ControlFlow::Break(())
    })?;
    Ok(seen)
}

/// Sets the version in all places.
///
/// # Errors
/// A conflict if it is not `from` any more; and those of the engine.
pub(crate) fn set_version(tx: &mut dyn Access, classes: &Classes, from: u64, to: u64) -> Result<()> {
    for place in 0..tx.places() {
        let (state, key) = state_key(classes, place, VERSION)?;
        let (at, mut is_same) = (state.size.body_at(), false);
        tx.update(state.table, &key, &mut |row| {
            let mut now = Vec::with_capacity(at + 8);
            row.copy_to(&mut now);
            is_same = now[at..at + 8] == from.to_le_bytes();
            row.put_bytes(at, &to.to_le_bytes());
        })?;
        if !is_same {
            let message = "could not serialize access due to concurrent update";
            let detail = "Another transaction has changed the catalog.";
            return Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, message).detail(detail));
        }
    }
    Ok(())
}

/// Takes `count` oids and returns the first.
pub(crate) fn take_oids(tx: &mut dyn Access, classes: &Classes, count: u32) -> Result<Oid> {
    let next = read_number(tx, classes, 0, NEXT_OID)?.unwrap_or(super::object::FIRST_USER_OID.into());
    let end = next + u64::from(count);
    if end > u64::from(FIRST_PRIVATE) {
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "all numbers of objects have been used"));
    }
    set_number(tx, classes, 0, NEXT_OID, end)?;
    Ok(next as Oid)
}

/// Takes the number of a host's life: see [`super::HostCatalog::open`].
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
    home(classes, ADVISORY)
}

/// Makes the parts that a pod does not have whose catalog an older program made.
pub(crate) fn complete(tx: &mut dyn Access, classes: &Classes) -> Result<()> {
    for part in PARTS {
        let part = home(classes, part)?;
        if !tx.get(part.table, &part.edge(0), &mut |_| {})? {
            put_edges(tx, &part)?;
        }
    }
    match read_number(tx, classes, 0, LISTENING)? {
        Some(_) => Ok(()),
        None => put_number(tx, classes, 0, LISTENING, 0),
    }
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
    home(classes, if bytes <= usize::from(INBOX.size.body) { INBOX } else { LONG_INBOX })
}

/// Where notifications are.
pub(crate) fn inboxes(classes: &Classes) -> Result<[Home; 2]> {
    Ok([home(classes, INBOX)?, home(classes, LONG_INBOX)?])
}

/// Makes the catalog of a new pod.
pub(crate) fn create(tx: &mut dyn Access, classes: &Classes, objects: &[Object]) -> Result<()> {
    for part in PARTS {
        put_edges(tx, &home(classes, part)?)?;
    }
    (0..tx.places()).try_for_each(|place| put_number(tx, classes, place, VERSION, 1))?;
    put_number(tx, classes, 0, NEXT_OID, super::object::FIRST_USER_OID.into())?;
    put_number(tx, classes, 0, NEXT_LIFE, 1)?;
    put_number(tx, classes, 0, LISTENING, 0)?;
    objects.iter().try_for_each(|object| save(tx, classes, object, 1))
}

fn part_key(oid: Oid, part: u32) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&oid.to_be_bytes());
    key[4..].copy_from_slice(&part.to_be_bytes());
    key
}

/// Saves a description, in place of the one that is there.
pub(crate) fn save(tx: &mut dyn Access, classes: &Classes, object: &Object, version: u64) -> Result<()> {
    remove(tx, classes, object.oid())?;
    let objects = home(classes, OBJECTS)?;
    let json = serde_json::to_vec(object).expect("descriptions are plain data");
    for (part, bytes) in json.chunks(usize::from(OBJECTS.size.body) - HEAD).enumerate() {
        let key = objects.key(0, &part_key(object.oid(), part as u32));
        let mut body = version.to_le_bytes().to_vec();
        body.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
        body.extend_from_slice(bytes);
        if !tx.insert(objects.table, &new_row(&objects, &key, &body))? {
            return Err(SqlError::new(SqlState::DATA_CORRUPTED, "a description is twice in the catalog"));
        }
    }
    Ok(())
}

/// Removes a description.
pub(crate) fn remove(tx: &mut dyn Access, classes: &Classes, oid: Oid) -> Result<()> {
    let objects = home(classes, OBJECTS)?;
    let mut keys = Vec::new();
    tx.scan(objects.table, &objects.range_of_prefix(0, &oid.to_be_bytes()), &mut |key, _| {
        keys.push(*key);
        ControlFlow::Continue(())
    })?;
    keys.iter().try_for_each(|key| tx.delete(objects.table, key).map(|_| ()))
}

/// Reads the catalog; what `known` has at its own version or an earlier one is taken from there.
pub(crate) fn load(
    tx: &mut dyn Access,
    classes: &Arc<Classes>,
    version: u64,
    known: &Catalog,
) -> Result<Catalog> {
    let rows = home(classes, OBJECTS)?;
    let mut objects: BTreeMap<Oid, Arc<Object>> = BTreeMap::new();
    let mut fresh: BTreeMap<Oid, Vec<u8>> = BTreeMap::new();
    let at = rows.size.body_at();
    tx.scan(rows.table, &rows.range(0, Bound::Open, Bound::Open), &mut |key, row| {
        let oid = key.extract(8, 4) as Oid;
        let written = u64::from_le_bytes(row[at..at + 8].try_into().expect("8 bytes"));
        let len = usize::from(u16::from_le_bytes([row[at + 8], row[at + 9]]));
        match known.objects.get(&oid).filter(|_| written <= known.version) {
            Some(object) => _ = objects.insert(oid, object.clone()),
            None => {
                let end = (at + HEAD + len).min(row.len());
                fresh.entry(oid).or_default().extend_from_slice(&row[at + HEAD..end]);
            }
        }
        ControlFlow::Continue(())
    })?;
    for (oid, json) in fresh {
        let object = serde_json::from_slice(&json).map_err(|error| {
            let message = format!("the description of object {oid} cannot be read: {error}");
            SqlError::new(SqlState::DATA_CORRUPTED, message)
        })?;
        objects.insert(oid, Arc::new(object));
    }
    Ok(Catalog::new(version, classes.clone(), objects))
}
