//! A transaction's own picture of the catalog, with what it has created, altered and dropped.
//!
//! Invariants:
//! 1. Before a relation is changed its definition is taken, and kept (catalog/definition.rs). If somebody
//!    uses it that is a conflict here; who wants to wait has taken it before ([`Working::lock`]).
//! 2. Descriptions are written, and the version is bumped, behind everything else ([`Working::finish`]):
//!    until its commit nobody waits for a transaction that changes the catalog but who uses what it
//!    changes. If the version is not what it was when the transaction began to change it, that is a
//!    conflict. A savepoint keeps the picture as it was ([`Working::keep`], [`Working::restore`]) next to
//!    its mark.
//! 3. What the rows of a dropped or emptied object leave behind is noted as garbage in the same transaction
//!    (storage/garbage.rs).
//! 4. A session's own objects (storage/private.rs) are in the picture and in no row: they bump no version,
//!    and nobody else hears of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::depend;
use super::object::{
    Column, Constraint, Index, IndexColumn, Indexed, Object, OnCommit, Placing, RowsAt, Rule, Sequence, Table,
};
use super::statistics::saved as saved_statistics;
use super::{Catalog, Space, definition, saved, sequence, sizing};
use crate::error::{Result, SqlError, SqlState};
use crate::storage::access::Access;
use crate::storage::classes::{ClassSize, ObjectId};
use crate::storage::garbage;
use crate::storage::private::{FIRST_PRIVATE, is_private};
use crate::storage::table::put_edges;
use crate::types::Oid;

/// The catalog as a transaction sees it.
pub struct Working {
    now: Arc<Catalog>,
    /// The pod's catalog before the first change.
    base: Arc<Catalog>,
    /// Objects of the pod that are new, different or gone.
    different: BTreeSet<Oid>,
    /// Relations whose definitions were taken, or that are new.
    taken: BTreeSet<Oid>,
    /// Sequences of the pod that it has begun anew, perhaps behind a savepoint that was gone back to: their
    /// numbers are its own, and so are those of new ones.
    begun: BTreeSet<Oid>,
    /// Something was changed, perhaps behind a savepoint that was gone back to: its locks stay.
    changed: bool,
    /// The number of the session's next own object.
    next_own: Oid,
}

/// A table to be made; the rest of its description follows.
#[derive(Clone, Debug, Default)]
pub struct NewTable {
    /// Its name.
    pub name: String,
    /// The schema that it is to be in.
    pub schema: Oid,
    /// The role that will own it.
    pub owner: Oid,
    /// Its columns.
    pub columns: Vec<Column>,
    /// The columns of its primary key, and the constraint's name.
    pub primary_key: Option<(String, Vec<u16>)>,
    /// How its rows are placed.
    pub placing: Placing,
    /// `WITH (...)`; `row_bytes` is the length of a row that is to fit without values outside.
    pub options: Vec<(String, String)>,
}

/// An index to be made.
#[derive(Clone, Debug, Default)]
pub struct NewIndex {
    /// Its name.
    pub name: String,
    /// Its table.
    pub table: Oid,
    /// What it is sorted by.
    pub columns: Vec<IndexColumn>,
    /// Columns that it is said to hold besides.
    pub include: Vec<u16>,
    /// Two rows must differ in its columns.
    pub unique: bool,
    /// NULL is equal to NULL there.
    pub nulls_not_distinct: bool,
    /// Only rows for which this is true have entries.
    pub predicate: Option<super::object::Expression>,
    /// `USING` what.
    pub method: String,
}

/// The catalog as it was at a savepoint.
#[derive(Clone)]
pub struct Kept {
    now: Arc<Catalog>,
    base: u64,
    different: BTreeSet<Oid>,
}

impl Working {
    /// The picture of a transaction that has begun with this one.
    pub fn new(catalog: Arc<Catalog>) -> Working {
        Working {
            base: catalog.clone(),
            now: catalog,
            different: BTreeSet::new(),
            taken: BTreeSet::new(),
            begun: BTreeSet::new(),
            changed: false,
            next_own: FIRST_PRIVATE,
        }
    }

    /// Goes on with a newer picture of the pod's catalog, and beside it with the session's own objects, which
    /// are in it. Not behind a change.
    pub(crate) fn renew(&mut self, pod: Arc<Catalog>, picture: Arc<Catalog>) {
        debug_assert!(!self.changed && pod.version >= self.base.version && pod.version == picture.version);
        (self.base, self.now) = (pod, picture);
    }

    /// A picture of the pod's catalog with the session's own objects that are in the present one.
    pub(crate) fn own_beside(&self, pod: &Arc<Catalog>) -> Arc<Catalog> {
        let own = self.now.own_objects().map(|object| (object.oid(), object.clone())).collect();
        Arc::new(pod.beside(&own))
    }

    /// The version of the pod's catalog before the first change.
    pub(crate) fn base_version(&self) -> u64 {
        self.base.version
    }

    /// Goes on with a picture that has the session's own objects besides, the next of which gets this number.
    pub(crate) fn see_own(&mut self, picture: Arc<Catalog>, next_own: Oid) {
        debug_assert_eq!(self.now.version, picture.version, "the same objects of the pod");
        (self.now, self.next_own) = (picture, next_own);
    }

    /// The number of the session's next own object.
    pub(crate) fn next_own(&self) -> Oid {
        self.next_own
    }

    /// The catalog as the transaction sees it.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.now
    }

    /// Whether this transaction has changed it, also where that was taken back.
    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// The picture, for a savepoint.
    pub fn keep(&self) -> Kept {
        Kept { now: self.now.clone(), base: self.base.version, different: self.different.clone() }
    }

    /// Goes back to a savepoint whose rows have been restored. What others have changed since stays.
    pub fn restore(&mut self, kept: &Kept) {
        if kept.base == self.base.version {
            (self.now, self.different) = (kept.now.clone(), kept.different.clone());
            return;
        }
        debug_assert!(kept.different.is_empty(), "the catalog is renewed before the first change only");
        self.now = kept.now.clone();
        (self.now, self.different) = (self.own_beside(&self.base), BTreeSet::new());
    }

    /// Takes `count` new oids and returns the first; they are of a session's own objects if `near` is, which
    /// is what the new objects will be in or belong to.
    ///
    /// # Errors
    /// Conflicts; no more numbers.
    pub fn take_oids(&mut self, tx: &mut dyn Access, near: Oid, count: u32) -> Result<Oid> {
        if !is_private(near) {
            return saved::take_oids(tx, &self.now.classes, count);
        }
        let first = self.next_own;
        self.next_own = first.checked_add(count).ok_or_else(|| {
            let message = "all numbers of temporary objects of this session have been used";
            SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).hint("Connect anew.")
        })?;
        Ok(first)
    }

    /// Adds an object. Its oid is one that [`Working::take_oids`] gave.
    ///
    /// # Errors
    /// If there is one of its name; conflicts.
    pub fn create(&mut self, tx: &mut dyn Access, object: Object) -> Result<()> {
        self.check_name(&object)?;
        self.put(tx, object)
    }

    /// Puts another description in the place of one: also a new name or schema.
    ///
    /// # Errors
    /// As [`Working::create`].
    pub fn replace(&mut self, tx: &mut dyn Access, object: Object) -> Result<()> {
        self.check_name(&object)?;
        self.put(tx, object)
    }

    fn put(&mut self, tx: &mut dyn Access, object: Object) -> Result<()> {
        let version = match is_private(object.oid()) {
            true => self.now.version,
            false => {
                self.refuse_own(&object)?;
                self.change(tx, object.oid(), Some(&object))?
            }
        };
        let mut next = self.now.with(object.oid(), Some(object));
        next.version = version;
        self.now = Arc::new(next);
        Ok(())
    }

    /// Takes note of a change, of which there may be no user; the version that it makes.
    fn change(&mut self, tx: &mut dyn Access, oid: Oid, new: Option<&Object>) -> Result<u64> {
        self.changed = true;
        let old = self.now.get(oid).cloned();
        for relation in definition::touched(&self.now, old.as_deref(), new) {
            if !self.lock(tx, relation)? {
                let message = "could not serialize access due to concurrent update";
                let detail = "Somebody uses a table or view that is to be changed.";
                return Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, message).detail(detail));
            }
        }
        self.different.insert(oid);
        Ok(self.base.version + 1)
    }

    /// Takes the definition of a relation, if nobody uses it; whether it has it now.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn lock(&mut self, tx: &mut dyn Access, relation: Oid) -> Result<bool> {
        let is_there = self.base.get(relation).is_some();
        if !self.taken.contains(&relation)
            && (!is_there || definition::take(tx, &self.now.classes, relation)?)
        {
            self.taken.insert(relation);
        }
        Ok(self.taken.contains(&relation))
    }

    /// Uses a relation to the end of the transaction: [`definition::hold`].
    ///
    /// # Errors
    /// Conflicts, and those of the engine.
    pub fn hold(&self, tx: &mut dyn Access, relation: Oid) -> Result<definition::Held> {
        if self.taken.contains(&relation) || self.changed && self.base.get(relation).is_none() {
            return Ok(definition::Held::Here);
        }
        definition::hold(tx, &self.base, relation)
    }

    /// Whether an object was there before the first change.
    pub(crate) fn is_of_base(&self, oid: Oid) -> bool {
        self.base.get(oid).is_some()
    }

    /// The numbers of a sequence are this transaction's.
    pub(crate) fn begin_numbers(&mut self, sequence: Oid) {
        self.begun.insert(sequence);
    }

    /// Whether the numbers of a sequence are this transaction's: nobody else can take one then.
    pub(crate) fn has_numbers(&self, sequence: Oid) -> bool {
        self.begun.contains(&sequence) || !self.is_of_base(sequence)
    }

    /// Whether the definition of a relation is this transaction's.
    pub(crate) fn has_taken(&self, relation: Oid) -> bool {
        self.taken.contains(&relation)
    }

    /// Writes all descriptions that have changed, and the next version: the last step before the commit.
    ///
    /// # Errors
    /// Conflicts: somebody else has changed the catalog, and what this transaction did may not fit any more.
    pub fn finish(&mut self, tx: &mut dyn Access) -> Result<()> {
        if self.different.is_empty() {
            return Ok(());
        }
        let (classes, base) = (&self.now.classes, self.base.version);
        let version = base + 1;
        if !tx.is_left_out("catalog.bump-version") {
            saved::set_version(tx, classes, base, version)?;
        }
        for oid in &self.different {
            match self.now.get(*oid) {
                Some(object) => saved::save(tx, classes, object, version)?,
                None => saved::remove(tx, classes, *oid)?,
            }
        }
        for relation in &self.taken {
            match (self.base.get(*relation).is_some(), self.now.get(*relation).is_some()) {
                (true, is_there) => definition::set(tx, classes, *relation, is_there.then_some(version))?,
                (false, true) => definition::put(tx, classes, *relation, version)?,
                (false, false) => {}
            }
        }
        Ok(())
    }

    /// Refuses an object of the pod that refers to a session's own: others would meet a name of nothing.
    fn refuse_own(&self, object: &Object) -> Result<()> {
        let Some(own) = self.now.own_objects().find(|own| depend::refers(object, own)) else { return Ok(()) };
        let what = format!("a permanent {} that refers to temporary {}", object.kind(), own.kind());
        let hint = "Make both of them temporary, or both permanent.";
        Err(SqlError::unsupported(format_args!("{what} \"{}\"", own.name()), hint))
    }

    fn check_name(&self, object: &Object) -> Result<()> {
        let taken = match self.now.named(Space::of(object), object.schema(), object.name()) {
            Some(there) if there.oid() != object.oid() => there,
            _ => return Ok(()),
        };
        let state = match taken {
            Object::Schema(_) => SqlState::DUPLICATE_SCHEMA,
            Object::Role(_) | Object::Type(_) => SqlState::DUPLICATE_OBJECT,
            _ => SqlState::DUPLICATE_TABLE,
        };
        let kind = match object {
            Object::Schema(_) => "schema",
            Object::Role(_) => "role",
            Object::Type(_) => "type",
            _ => "relation",
        };
        Err(SqlError::new(state, format!("{kind} \"{}\" already exists", object.name())))
    }

    /// Makes a table, its row type (and the number of arrays of it behind that), the index of its primary
    /// key, and room for its rows. Other constraints, sequences and indexes follow as changes of their own.
    ///
    /// # Errors
    /// If its name is taken, or a row is longer than any class; conflicts.
    pub fn create_table(&mut self, tx: &mut dyn Access, new: NewTable) -> Result<Table> {
        let oid = self.take_oids(tx, new.schema, 6)?;
        let key = new.primary_key.as_ref().map_or(Vec::new(), |key| key.1.clone());
        let sizes = sizing::of_table(&self.now, &new, &key)?;
        let rows = RowsAt { object: ObjectId(oid), size: sizes.rows };
        let overflow = sizes.overflow.map(|size| RowsAt { object: ObjectId(oid + 1), size });
        let mut table = Table {
            oid,
            name: new.name,
            schema: new.schema,
            owner: new.owner,
            columns: new.columns,
            key,
            placing: new.placing,
            rows,
            overflow,
            constraints: Vec::new(),
            row_type: oid + 2,
            grants: Vec::new(),
            options: new.options,
            unlogged: false,
            on_commit: OnCommit::default(),
            materialized: None,
            comment: None,
        };
        put_edges(tx, &self.now.home(rows)?)?;
        overflow.map_or(Ok(()), |overflow| put_edges(tx, &self.now.home(overflow)?))?;
        let Some((name, columns)) = new.primary_key else {
            self.create(tx, Object::Table(table.clone()))?;
            return Ok(table);
        };
        let (constraint, index) = (oid + 4, oid + 5);
        for column in &columns {
            table.columns[usize::from(*column)].not_null = true;
        }
        let rule = Rule::PrimaryKey { columns: columns.clone(), index };
        table.constraints.push(Constraint {
            oid: constraint,
            name: name.clone(),
            rule,
            deferrable: false,
            deferred: false,
            not_valid: false,
            no_inherit: false,
            comment: None,
        });
        self.create(tx, Object::Table(table.clone()))?;
        let index = Index {
            oid: index,
            name,
            schema: table.schema,
            table: oid,
            columns: columns.iter().map(|column| IndexColumn::of(*column)).collect(),
            include: Vec::new(),
            names: Vec::new(),
            unique: true,
            nulls_not_distinct: false,
            primary: true,
            predicate: None,
            method: "btree".to_owned(),
            rows: None,
            valid: true,
            deferrable: false,
            clustered: false,
            comment: None,
        };
        self.create(tx, Object::Index(index))?;
        Ok(table)
    }

    /// Makes an index and room for its entries. Entries of rows that are there already are put by whoever
    /// can compute its columns ([`TableRows::fill_index`](crate::storage::table::TableRows::fill_index)), in
    /// the same transaction.
    ///
    /// # Errors
    /// If its name is taken or there is no such table; conflicts.
    pub fn create_index(&mut self, tx: &mut dyn Access, new: NewIndex) -> Result<Index> {
        let Some(table) = self.now.table(new.table).cloned() else {
            return Err(SqlError::new(SqlState::UNDEFINED_TABLE, "the table of the index does not exist"));
        };
        let size = sizing::of_index(&self.now, &table, &new.columns)?;
        let oid = self.take_oids(tx, table.oid, 1)?;
        let rows = RowsAt { object: ObjectId(oid), size };
        put_edges(tx, &self.now.home(rows)?)?;
        let index = Index {
            oid,
            name: new.name,
            schema: table.schema,
            table: table.oid,
            columns: new.columns,
            include: new.include,
            names: Vec::new(),
            unique: new.unique,
            nulls_not_distinct: new.nulls_not_distinct,
            primary: false,
            predicate: new.predicate,
            method: new.method,
            rows: Some(rows),
            valid: true,
            deferrable: false,
            clustered: false,
            comment: None,
        };
        self.create(tx, Object::Index(index.clone()))?;
        Ok(index)
    }

    /// Makes a sequence that has given no number yet. `sequence.oid` is filled in.
    ///
    /// # Errors
    /// If its name is taken; conflicts.
    pub fn create_sequence(&mut self, tx: &mut dyn Access, sequence: Sequence) -> Result<Sequence> {
        let sequence = Sequence { oid: self.take_oids(tx, sequence.schema, 1)?, ..sequence };
        self.create(tx, Object::Sequence(sequence.clone()))?;
        sequence::create(tx, &self.now, &sequence)?;
        Ok(sequence)
    }

    /// Drops one object, whatever refers to it.
    ///
    /// # Errors
    /// Conflicts.
    pub fn drop_object(&mut self, tx: &mut dyn Access, oid: Oid) -> Result<()> {
        let Some(object) = self.now.get(oid).cloned() else { return Ok(()) };
        let version = if is_private(oid) { self.now.version } else { self.change(tx, oid, None)? };
        for rows in rows_of(&object) {
            self.let_go(tx, rows)?;
        }
        if !is_private(oid) && matches!(&*object, Object::Sequence(_)) {
            sequence::remove(tx, &self.now, oid)?;
        }
        if !is_private(oid) && matches!(&*object, Object::Table(_)) {
            saved_statistics::remove(tx, &self.now.classes, oid)?;
        }
        let mut next = self.now.with(oid, None);
        next.version = version;
        self.now = Arc::new(next);
        Ok(())
    }

    /// Nobody needs these rows any more. A session's own ones go when the transaction commits.
    fn let_go(&self, tx: &mut dyn Access, rows: RowsAt) -> Result<()> {
        if is_private(rows.object.0) { Ok(()) } else { garbage::add(tx, &self.now.classes, rows) }
    }

    /// Empties a table at once: its rows and entries get new objects, the old ones are garbage.
    ///
    /// # Errors
    /// If there is no such table; conflicts.
    pub fn truncate(&mut self, tx: &mut dyn Access, table: Oid) -> Result<()> {
        let Some(mut table) = self.now.table(table).cloned() else {
            return Err(SqlError::new(SqlState::UNDEFINED_TABLE, "the table does not exist"));
        };
        let indexes: Vec<Index> = self.now.indexes_of(table.oid).cloned().collect();
        for index in indexes {
            if let Some(old) = index.rows {
                let rows = Some(self.again(tx, old)?);
                self.put(tx, Object::Index(Index { rows, ..index }))?;
            }
        }
        table.rows = self.again(tx, table.rows)?;
        table.overflow = table.overflow.map(|old| self.again(tx, old)).transpose()?;
        self.put(tx, Object::Table(table))
    }

    /// An empty object in place of this one.
    fn again(&mut self, tx: &mut dyn Access, old: RowsAt) -> Result<RowsAt> {
        self.let_go(tx, old)?;
        let rows = RowsAt { object: ObjectId(self.take_oids(tx, old.object.0, 1)?), size: old.size };
        put_edges(tx, &self.now.home(rows)?)?;
        Ok(rows)
    }

    /// Puts a table's description with other columns in the place of the one that is there: columns added at
    /// the end, dropped, renamed, with other defaults. True if its rows do not fit their class any more: the
    /// caller goes on with [`Working::rewrite`] then.
    ///
    /// # Errors
    /// As [`Working::create`].
    pub fn replace_columns(&mut self, tx: &mut dyn Access, mut table: Table) -> Result<bool> {
        if table.overflow.is_none() && sizing::may_lie_outside(&self.now, &table) {
            let object = ObjectId(self.take_oids(tx, table.oid, 1)?);
            let rows = RowsAt { object, size: crate::storage::overflow::SIZE };
            put_edges(tx, &self.now.home(rows)?)?;
            table.overflow = Some(rows);
        }
        let too_small = sizing::is_too_small(&self.now, &table);
        self.replace(tx, Object::Table(table))?;
        Ok(too_small)
    }

    /// Gives a table rows of another size or another key (ALTER TABLE that rewrites): whoever calls it copies
    /// the rows over, with all columns. Returns the description that is in force from here on.
    ///
    /// # Errors
    /// Conflicts; a row longer than any class.
    pub fn rewrite(&mut self, tx: &mut dyn Access, table: Table) -> Result<Table> {
        let new = NewTable {
            columns: table.columns.clone(),
            options: table.options.clone(),
            ..NewTable::default()
        };
        let sizes = sizing::of_table(&self.now, &new, &table.key)?;
        let oid = table.oid;
        let fresh = |working: &mut Self, tx: &mut dyn Access, size: ClassSize| {
            let rows = RowsAt { object: ObjectId(working.take_oids(tx, oid, 1)?), size };
            put_edges(tx, &working.now.home(rows)?)?;
            Ok::<_, SqlError>(rows)
        };
        self.let_go(tx, table.rows)?;
        table.overflow.map_or(Ok(()), |old| self.let_go(tx, old))?;
        let rows = fresh(self, tx, sizes.rows)?;
        let overflow = sizes.overflow.map(|size| fresh(self, tx, size)).transpose()?;
        let indexes: Vec<Index> = self.now.indexes_of(table.oid).cloned().collect();
        let mut table = Table { rows, overflow, ..table };
        table.forget_missing();
        self.put(tx, Object::Table(table.clone()))?;
        for index in indexes {
            let Some(old) = index.rows else { continue };
            self.let_go(tx, old)?;
            let size = sizing::of_index(&self.now, &table, &index.columns)?;
            let rows = Some(fresh(self, tx, size)?);
            self.put(tx, Object::Index(Index { rows, ..index }))?;
        }
        Ok(table)
    }
}

/// The rows that an object has.
pub(crate) fn rows_of(object: &Object) -> Vec<RowsAt> {
    match object {
        Object::Table(table) => [Some(table.rows), table.overflow].into_iter().flatten().collect(),
        Object::Index(index) => index.rows.into_iter().collect(),
        _ => Vec::new(),
    }
}

/// The column of the table that an index's column is, if it is one.
pub fn plain_column(column: &IndexColumn) -> Option<u16> {
    match column.of {
        Indexed::Column(column) => Some(column),
        Indexed::Expression { .. } => None,
    }
}
