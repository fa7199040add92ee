//! The catalog: all SQL objects of a pod, as one consistent picture that a transaction sees.
//!
//! * [`object`]: what is known of each object; * `saved`: these descriptions as rows;
//! * [`HostCatalog`]: the picture that a host has, and how a transaction knows that it is current;
//! * [`change::Working`]: a transaction's own picture, with what it has created, altered and dropped;
//! * [`definition`]: which relations a transaction uses, and how those that change one wait for it;
//! * `depend`: what has to go when an object goes;
//! * [`sizing`]: the classes that an object's rows get; `layout`: how they are laid out in them;
//! * [`sequence`]: the numbers of sequences; [`statistics`]: what ANALYZE has found out of tables' rows;
//! * [`check`]: whether all rows fit together.
//!
//! Invariants:
//! 1. A [`Catalog`] never changes: a change makes another one. Whoever holds one may look as long as he
//!    likes; what it says of a relation holds for a transaction that has read that one's definition.
//! 2. Names are unique in their space: schemas; roles; relations (tables, indexes, sequences, views) of a
//!    schema; types of a schema.

pub mod change;
pub mod check;
pub mod definition;
pub(crate) mod depend;
mod expression;
mod first;
mod host;
pub(crate) mod layout;
pub mod object;
mod parts;
pub(crate) mod privilege;
mod saved;
pub mod sequence;
pub mod sizing;
pub mod statistics;
pub(crate) mod system;
mod types;
mod user_type;
pub mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub(crate) use first::first_objects;
pub use host::HostCatalog;
pub use object::Object;
pub(crate) use parts::part_oid;
pub(crate) use types::type_of_object;

use crate::error::Result;
use crate::storage::classes::{Classes, Home};
use crate::storage::private::FIRST_PRIVATE;
use crate::storage::table::TableRows;
use crate::types::Oid;
use object::{Index, Role, RowsAt, Schema, Sequence, Table, UserType, View};

/// Protocol steps of SQL objects that a mutation test can leave out.
pub const SABOTAGE_STEPS: &[&str] = &[
    "catalog.hold-definition",
    "catalog.bump-version",
    "catalog.put-edges",
    "table.remove-index-entry",
    "table.put-index-entry",
    "overflow.remove-old",
];

/// Where a name counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Space {
    Schema,
    Role,
    Relation,
    Type,
}

impl Space {
    fn of(object: &Object) -> Space {
        match object {
            Object::Schema(_) => Space::Schema,
            Object::Role(_) => Space::Role,
            Object::Type(_) => Space::Type,
            _ => Space::Relation,
        }
    }
}

/// All objects, at one version.
pub struct Catalog {
    version: u64,
    classes: Arc<Classes>,
    objects: BTreeMap<Oid, Arc<Object>>,
    names: BTreeMap<(Space, Oid, String), Oid>,
    /// By table, ascending: rows and their entries are changed in this order.
    indexes: BTreeMap<Oid, Vec<Oid>>,
    /// By table, ascending: those with foreign keys to it.
    referencing: BTreeMap<Oid, Vec<Oid>>,
    /// By array type: the type of its elements.
    elements: BTreeMap<Oid, Oid>,
    /// By the numbers of their parts, and by the tables that own sequences; made when first needed.
    holders: OnceLock<BTreeMap<Oid, Oid>>,
    sequences: OnceLock<BTreeMap<Oid, Vec<Oid>>>,
    /// Ways to the rows of tables, made when first needed.
    rows: Mutex<BTreeMap<Oid, Arc<TableRows>>>,
}

impl Catalog {
    /// The catalog of these objects.
    fn new(version: u64, classes: Arc<Classes>, objects: BTreeMap<Oid, Arc<Object>>) -> Catalog {
        let (mut indexes, mut referencing) = (BTreeMap::<_, Vec<_>>::new(), BTreeMap::<_, Vec<_>>::new());
        let (mut names, mut elements) = (BTreeMap::new(), BTreeMap::new());
        for (oid, object) in &objects {
            names.insert((Space::of(object), object.schema(), object.name().to_owned()), *oid);
            match &**object {
                Object::Type(user) => _ = elements.insert(user.array, *oid),
                Object::Index(index) => indexes.entry(index.table).or_default().push(*oid),
                Object::Table(table) => {
                    let parents: BTreeSet<Oid> = table.parents().collect();
                    parents.into_iter().for_each(|to| referencing.entry(to).or_default().push(*oid));
                }
                _ => {}
            }
        }
        let (rows, holders, sequences) = (Mutex::default(), OnceLock::new(), OnceLock::new());
        Catalog { version, classes, objects, names, indexes, referencing, elements, holders, sequences, rows }
    }

    /// The version; it grows with every change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The classes that rows lie in.
    pub fn classes(&self) -> &Arc<Classes> {
        &self.classes
    }

    /// The object with this number.
    pub fn get(&self, oid: Oid) -> Option<&Arc<Object>> {
        self.objects.get(&oid)
    }

    /// The user's type whose array type has this number.
    pub fn element_of(&self, array: Oid) -> Option<&Arc<Object>> {
        self.objects.get(self.elements.get(&array)?)
    }

    /// The object that has a part with this number ([`Object::parts`]).
    pub fn holder(&self, part: Oid) -> Option<&Arc<Object>> {
        let holders = self.holders.get_or_init(|| {
            let parts = |(oid, object): (&Oid, &Arc<Object>)| {
                object.parts().into_iter().map(|part| (part, *oid)).collect::<Vec<_>>()
            };
            self.objects.iter().flat_map(parts).collect()
        });
        self.objects.get(holders.get(&part)?)
    }

    /// The sequences that columns of a table own, by number.
    pub fn sequences_of(&self, table: Oid) -> impl Iterator<Item = &Arc<Object>> {
        let sequences = self.sequences.get_or_init(|| {
            let mut owned = BTreeMap::<Oid, Vec<Oid>>::new();
            for (oid, object) in &self.objects {
                if let Object::Sequence(Sequence { owned_by: Some((table, _)), .. }) = &**object {
                    owned.entry(*table).or_default().push(*oid);
                }
            }
            owned
        });
        sequences.get(&table).into_iter().flatten().filter_map(|oid| self.objects.get(oid))
    }

    /// All objects, by number.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.values()
    }

    fn named(&self, space: Space, schema: Oid, name: &str) -> Option<&Object> {
        let oid = self.names.get(&(space, schema, name.to_owned()))?;
        self.objects.get(oid).map(|object| &**object)
    }

    /// The schema of this name.
    pub fn schema(&self, name: &str) -> Option<&Schema> {
        match self.named(Space::Schema, 0, name)? {
            Object::Schema(schema) => Some(schema),
            _ => None,
        }
    }

    /// The role of this name.
    pub fn role(&self, name: &str) -> Option<&Role> {
        match self.named(Space::Role, 0, name)? {
            Object::Role(role) => Some(role),
            _ => None,
        }
    }

    /// The table, index, sequence or view of this name.
    pub fn relation(&self, schema: Oid, name: &str) -> Option<&Object> {
        self.named(Space::Relation, schema, name)
    }

    /// The user's type of this name.
    pub fn user_type(&self, schema: Oid, name: &str) -> Option<&UserType> {
        match self.named(Space::Type, schema, name)? {
            Object::Type(ty) => Some(ty),
            _ => None,
        }
    }

    /// The table with this number.
    pub fn table(&self, oid: Oid) -> Option<&Table> {
        match &**self.objects.get(&oid)? {
            Object::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The index with this number.
    pub fn index(&self, oid: Oid) -> Option<&Index> {
        match &**self.objects.get(&oid)? {
            Object::Index(index) => Some(index),
            _ => None,
        }
    }

    /// The sequence with this number.
    pub fn sequence(&self, oid: Oid) -> Option<&Sequence> {
        match &**self.objects.get(&oid)? {
            Object::Sequence(sequence) => Some(sequence),
            _ => None,
        }
    }

    /// The view with this number.
    pub fn view(&self, oid: Oid) -> Option<&View> {
        match &**self.objects.get(&oid)? {
            Object::View(view) => Some(view),
            _ => None,
        }
    }

    /// The user's type with this number.
    pub fn type_of(&self, oid: Oid) -> Option<&UserType> {
        match &**self.objects.get(&oid)? {
            Object::Type(ty) => Some(ty),
            _ => None,
        }
    }

    /// The indexes of a table, the primary key's included, by number.
    pub fn indexes_of(&self, table: Oid) -> impl Iterator<Item = &Index> {
        self.indexes.get(&table).into_iter().flatten().filter_map(|oid| self.index(*oid))
    }

    /// Tables with foreign keys to this table, by number.
    pub fn referencing(&self, table: Oid) -> impl Iterator<Item = &Table> {
        self.referencing.get(&table).into_iter().flatten().filter_map(|oid| self.table(*oid))
    }

    /// The way to a table's rows.
    ///
    /// # Errors
    /// If there is no such table, or it has a class that this pod has not.
    pub fn rows(&self, table: Oid) -> Result<Arc<TableRows>> {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = rows.get(&table) {
            return Ok(found.clone());
        }
        let made = Arc::new(layout::table_rows(self, table)?);
        rows.insert(table, made.clone());
        Ok(made)
    }

    /// Where rows are in the engine.
    ///
    /// # Errors
    /// If this pod has no such class.
    pub fn home(&self, at: RowsAt) -> Result<Home> {
        self.classes.home(at)
    }

    /// A session's own objects in this picture (storage/private.rs).
    pub(crate) fn own_objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.range(FIRST_PRIVATE..).map(|(_, object)| object)
    }

    /// With a session's own objects beside those of the pod.
    pub(crate) fn beside(&self, own: &BTreeMap<Oid, Arc<Object>>) -> Catalog {
        let mut objects = self.objects.clone();
        objects.extend(own.iter().map(|(oid, object)| (*oid, object.clone())));
        Catalog::new(self.version, self.classes.clone(), objects)
    }

    /// With one object more, another one in its place (`Some`), or one less (`None`).
    pub(crate) fn with(&self, oid: Oid, object: Option<Object>) -> Catalog {
        let mut objects = self.objects.clone();
        match object {
            Some(object) => objects.insert(oid, Arc::new(object)),
            None => objects.remove(&oid),
        };
        Catalog::new(self.version, self.classes.clone(), objects)
    }
}
