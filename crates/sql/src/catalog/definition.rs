//! Definitions: who uses a table or view, and who changes it.
//!
//! The definition of a relation has a row in every place, with the catalog's version at which the relation
//! was changed last (storage/parts.rs). Whoever uses the relation reads the copy in its own host's memory and
//! keeps that read lock; whoever changes it takes all copies. So a change waits for those who use the
//! relation, they wait for it, and nobody else hears of either.
//!
//! Invariants:
//! 1. A transaction that uses a relation goes by a picture of the catalog that is not older than the
//!    definition it has read, and holds that to its end.
//! 2. A transaction that changes a relation has all copies of its definition before its first change, and
//!    keeps them to its end. (It writes them at its end, so that would be safe without the beginning; but
//!    then it would conflict, where so it can wait.)
//! 3. A relation is its table with indexes, constraints and the domains of its columns. Sequences, schemas,
//!    roles and types have no definitions of their own: what is done with them is seen by statements that
//!    begin later.
//!
//! It does not wait: callers do (exec/engine/hold.rs).

use std::collections::BTreeSet;

use liger_engine::Key;

use super::Catalog;
use super::object::{Constraint, Index, Object, Table, UserTypeKind, View};
use crate::error::{Result, SqlError, SqlState};
use crate::storage::access::Access;
use crate::storage::classes::{Classes, Home};
use crate::storage::parts;
use crate::storage::private::is_private;
use crate::storage::table::new_row;
use crate::types::Oid;

/// Where definitions begin among the single numbers of the catalog.
const DEFINITION: u64 = 1 << 32;

/// What became of a request to use a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// It is used from here on.
    Here,
    /// It has changed since the picture was taken, or is gone.
    Newer,
    /// Somebody is changing it.
    Busy,
}

fn row_of(classes: &Classes, place: u16, relation: Oid) -> Result<(Home, Key)> {
    parts::state_key(classes, place, DEFINITION | u64::from(relation))
}

fn version_in(state: &Home, row: &[u8]) -> u64 {
    let at = state.size.body_at();
    u64::from_le_bytes(row[at..at + 8].try_into().expect("8 bytes"))
}

/// Uses a relation to the end of the transaction, which goes by this picture.
///
/// # Errors
/// Those of the engine.
pub fn hold(tx: &mut dyn Access, picture: &Catalog, relation: Oid) -> Result<Held> {
    if tx.is_left_out("catalog.hold-definition") {
        return Ok(Held::Here);
    }
    let (state, key) = row_of(&picture.classes, parts::own_place(tx), relation)?;
    let mut version = u64::MAX;
    let seen = tx.get_if_free(state.table, &key, &mut |row| version = version_in(&state, row))?;
    Ok(match seen {
        None => Held::Busy,
        Some(_) if version <= picture.version => Held::Here,
        Some(_) => Held::Newer,
    })
}

/// Takes all copies of a definition that are free; whether that is all of them. It can be asked again.
///
/// # Errors
/// As [`hold`].
pub fn take(tx: &mut dyn Access, classes: &Classes, relation: Oid) -> Result<bool> {
    let mut all = true;
    for place in 0..tx.places() {
        let (state, key) = row_of(classes, place, relation)?;
        all &= tx.take_if_free(state.table, &key, &mut |_| {})?;
    }
    Ok(all)
}

/// Puts the definition of a relation that is new, in all places.
pub(super) fn put(tx: &mut dyn Access, classes: &Classes, relation: Oid, version: u64) -> Result<()> {
    (0..tx.places()).try_for_each(|place| {
        let (state, key) = row_of(classes, place, relation)?;
        tx.insert(state.table, &new_row(&state, &key, &version.to_le_bytes())).map(drop)
    })
}

/// Says at which version a relation was changed; `None`: it is gone.
pub(super) fn set(tx: &mut dyn Access, classes: &Classes, relation: Oid, version: Option<u64>) -> Result<()> {
    (0..tx.places()).try_for_each(|place| {
        let (state, key) = row_of(classes, place, relation)?;
        let at = state.size.body_at();
        let there = match version {
            Some(version) => {
                tx.update(state.table, &key, &mut |row| row.put_bytes(at, &version.to_le_bytes()))?
            }
            None => tx.delete(state.table, &key)?,
        };
        let lost = || SqlError::new(SqlState::DATA_CORRUPTED, "a relation has no definition in the catalog");
        if there { Ok(()) } else { Err(lost()) }
    })
}

/// Puts definitions of all relations of a catalog that an older program made.
pub(super) fn complete(tx: &mut dyn Access, catalog: &Catalog) -> Result<()> {
    for object in catalog.objects() {
        let (oid, is_relation) = (object.oid(), matches!(&**object, Object::Table(_) | Object::View(_)));
        let (state, key) = row_of(&catalog.classes, 0, oid)?;
        if is_relation && !tx.get(state.table, &key, &mut |_| {})? {
            put(tx, &catalog.classes, oid, catalog.version)?;
        }
    }
    Ok(())
}

/// The relations whose users are to be waited for when an object becomes another one, or comes or goes.
pub(crate) fn touched(catalog: &Catalog, old: Option<&Object>, new: Option<&Object>) -> Vec<Oid> {
    let mut relations = match (old, new) {
        (Some(old), Some(new)) if used_of(old) == used_of(new) => BTreeSet::new(),
        _ => [old, new].into_iter().flatten().flat_map(|object| relations_of(catalog, object)).collect(),
    };
    if let (Some(Object::Table(old)), Some(Object::Table(new))) = (old, new) {
        // Of the tables that both refer to, nobody has to be asked.
        let still: Vec<Oid> = old.parents().filter(|oid| new.parents().any(|other| other == *oid)).collect();
        relations.retain(|oid| *oid == new.oid || !still.contains(oid));
    }
    relations.into_iter().filter(|oid| !is_private(*oid)).collect()
}

fn relations_of(catalog: &Catalog, object: &Object) -> Vec<Oid> {
    match object {
        Object::Table(table) => table.parents().chain([table.oid]).collect(),
        Object::View(view) => vec![view.oid],
        Object::Index(index) => vec![index.table],
        Object::Type(ty) if matches!(ty.kind, UserTypeKind::Domain { .. }) => {
            let has = |table: &Table| {
                table.columns.iter().any(|column| [ty.oid, ty.array].contains(&column.ty().oid))
            };
            let tables = catalog.objects().filter_map(|object| match &**object {
                Object::Table(table) if has(table) => Some(table.oid),
                _ => None,
            });
            tables.collect()
        }
        _ => Vec::new(),
    }
}

/// What statements that use an object go by: without owners, privileges and comments.
fn used_of(object: &Object) -> Object {
    let silent = |constraint: &Constraint| Constraint { comment: None, ..constraint.clone() };
    match object {
        Object::Table(table) => {
            let mut columns = table.columns.clone();
            columns.iter_mut().for_each(|column| column.comment = None);
            let constraints = table.constraints.iter().map(silent).collect();
            let (owner, grants, comment) = (0, Vec::new(), None);
            Object::Table(Table { columns, constraints, owner, grants, comment, ..table.clone() })
        }
        Object::View(view) => {
            let mut columns = view.columns.clone();
            columns.iter_mut().for_each(|column| column.comment = None);
            Object::View(View { columns, grants: Vec::new(), comment: None, ..view.clone() })
        }
        Object::Index(index) => {
            Object::Index(Index { name: String::new(), schema: 0, comment: None, ..index.clone() })
        }
        Object::Type(ty) => {
            let mut ty = ty.clone();
            (ty.owner, ty.grants, ty.comment) = (0, Vec::new(), None);
            Object::Type(ty)
        }
        other => other.clone(),
    }
}
