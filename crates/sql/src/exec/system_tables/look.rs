//! The objects that rows of the system's tables are made of: all, or those that a key leads to.
//!
//! Invariants:
//! 1. What a key leads to has all rows with that key. It may have others: whoever asks checks again.
//! 2. An object that a row is made of has its table beside it, if it belongs to one.

use std::sync::Arc;

use crate::catalog::object::{Object, Table};
use crate::catalog::system::SystemRelation;
use crate::exec::system::SessionSystem;
use crate::types::Oid;
use crate::types::value::Value;

/// Which rows are wanted, of those that are not made of objects.
pub(super) enum Only<'v> {
    All,
    Oid(Oid),
    Named(&'v str),
}

/// The catalog as rows are made from it.
pub(super) struct Look<'a> {
    pub(super) system: &'a SessionSystem<'a>,
    /// In the order of their numbers.
    pub(super) objects: Vec<Arc<Object>>,
    pub(super) only: Only<'a>,
}

impl<'a> Look<'a> {
    /// What a value of a key leads to; `None`: everywhere.
    pub(super) fn by(
        system: &'a SessionSystem<'a>,
        of: &Table,
        column: usize,
        value: &'a Value,
    ) -> Option<Look<'a>> {
        let store = system.store;
        let (relation, column) = (of.name.as_str(), of.columns.get(column)?.name.as_str());
        if column == "relname" {
            let name = value.as_str()?;
            let schemas = store.objects().into_iter().filter(|it| matches!(**it, Object::Schema(_)));
            let found = schemas.filter_map(|schema| store.relation(schema.oid(), name));
            return Some(Look::of(system, found.collect(), Only::Named(name)));
        }
        // 0 stands for none, in rows of all kinds; it is the oid of nothing.
        let oid = Oid::try_from(value.as_i64()?).ok().filter(|oid| *oid != 0 || column == "oid")?;
        let mut objects: Vec<Arc<Object>> = store.object(oid).into_iter().collect();
        match (relation, column) {
            ("pg_index", "indrelid") => {
                objects.extend(store.indexes(oid).into_iter().filter_map(|index| store.object(index.oid)));
            }
            ("pg_constraint", "confrelid") => {
                let children = store.referencing(oid).into_iter();
                objects.extend(children.filter_map(|child| store.object(child.oid)));
            }
            ("pg_constraint", "conindid") => {
                // Foreign keys lean on it too.
                if let Some(Object::Index(index)) = objects.first().map(|it| &**it) {
                    let children = store.referencing(index.table).into_iter();
                    objects.extend(children.filter_map(|child| store.object(child.oid)));
                }
            }
            ("pg_constraint" | "pg_type" | "pg_attrdef" | "pg_rewrite" | "pg_enum", "oid")
            | ("pg_depend", "objid")
            | ("pg_description", "objoid") => objects.extend(store.holder(oid)),
            _ => {}
        }
        Some(Look::of(system, objects, Only::Oid(oid)))
    }

    fn of(system: &'a SessionSystem<'a>, mut objects: Vec<Arc<Object>>, only: Only<'a>) -> Look<'a> {
        let owner = |object: &Arc<Object>| match &**object {
            Object::Index(index) => system.store.object(index.table),
            Object::Sequence(sequence) => system.store.object(sequence.owned_by?.0),
            _ => None,
        };
        let owners: Vec<Arc<Object>> = objects.iter().filter_map(owner).collect();
        objects.extend(owners);
        objects.sort_by_key(|object| object.oid());
        objects.dedup_by_key(|object| object.oid());
        Look { system, objects, only }
    }

    /// Whether rows about this relation of the system are wanted.
    pub(super) fn wants(&self, relation: &SystemRelation) -> bool {
        match self.only {
            Only::All => true,
            Only::Oid(oid) => relation.oid() == oid,
            Only::Named(name) => relation.name() == name,
        }
    }

    /// Whether rows about what has this number are wanted.
    pub(super) fn wants_oid(&self, oid: Oid) -> bool {
        match self.only {
            Only::Oid(only) => only == oid,
            Only::All | Only::Named(_) => true,
        }
    }

    /// The object with this number.
    pub(super) fn object(&self, oid: Oid) -> Option<&Object> {
        let at = self.objects.binary_search_by_key(&oid, |object| object.oid()).ok()?;
        Some(&*self.objects[at])
    }

    /// The table with this number.
    pub(super) fn table(&self, oid: Oid) -> Option<&Table> {
        match self.object(oid)? {
            Object::Table(table) => Some(table),
            _ => None,
        }
    }

    pub(super) fn tables(&self) -> impl Iterator<Item = &Table> {
        self.objects.iter().filter_map(|object| match &**object {
            Object::Table(table) => Some(table),
            _ => None,
        })
    }
}
