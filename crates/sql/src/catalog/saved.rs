//! The catalog as rows: its version, and how descriptions are cut into rows (storage/parts.rs says where both
//! lie).
//!
//! ```text
//! description   key: oid u32 | part u32           body: version u64 | len u16 | JSON, in parts
//! ```
//!
//! Invariant: a description's rows say at which version they were written, so that a host that looks again
//! reads anew only what has changed.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::Catalog;
use super::object::{FIRST_USER_OID, Object};
use crate::error::{Result, SqlError, SqlState};
use crate::storage::access::Access;
use crate::storage::classes::{Bound, Classes};
use crate::storage::parts::{
    self, NEXT_OID, OBJECTS, PARTS, STATE, VERSION, own_place, put_number, read_number, set_number, state_key,
};
use crate::storage::private::FIRST_PRIVATE;
use crate::storage::table::{new_row, put_edges};
use crate::types::Oid;

const HEAD: usize = 10;

/// The catalog's version; `None`: there is no catalog.
pub(crate) fn version(tx: &mut dyn Access, classes: &Classes) -> Result<Option<u64>> {
    let own = own_place(tx);
    read_number(tx, classes, own, VERSION)
}

/// The catalog's version, if nobody is setting it.
pub(crate) fn peek_version(tx: &mut dyn Access, classes: &Classes) -> Result<Option<u64>> {
    let (own, state) = (own_place(tx), classes.home(STATE)?);
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
    let next = read_number(tx, classes, 0, NEXT_OID)?.unwrap_or(FIRST_USER_OID.into());
    let end = next + u64::from(count);
    if end > u64::from(FIRST_PRIVATE) {
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "all numbers of objects have been used"));
    }
    set_number(tx, classes, 0, NEXT_OID, end)?;
    Ok(next as Oid)
}

/// Makes the parts that a pod does not have whose catalog an older program made.
pub(crate) fn complete(tx: &mut dyn Access, classes: &Classes) -> Result<()> {
    for part in PARTS {
        let part = classes.home(part)?;
        if !tx.get(part.table, &part.edge(0), &mut |_| {})? {
            put_edges(tx, &part)?;
        }
    }
    parts::complete_numbers(tx, classes)
}

/// Makes the catalog of a new pod.
pub(crate) fn create(tx: &mut dyn Access, classes: &Classes, objects: &[Object]) -> Result<()> {
    for part in PARTS {
        put_edges(tx, &classes.home(part)?)?;
    }
    (0..tx.places()).try_for_each(|place| put_number(tx, classes, place, VERSION, 1))?;
    put_number(tx, classes, 0, NEXT_OID, FIRST_USER_OID.into())?;
    parts::put_numbers(tx, classes)?;
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
    let objects = classes.home(OBJECTS)?;
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
    let objects = classes.home(OBJECTS)?;
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
    let rows = classes.home(OBJECTS)?;
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
