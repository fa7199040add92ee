//! A [`Store`] of plain maps in memory: for tests of execution, without engine, hosts or durability.
//!
//! 1. One session at a time: there is no locking; a transaction is a copy to return to.
//! 2. Indexes are not kept: a scan looks at all rows and sorts what it finds.
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::computed::Computing;
use super::rows::{compare_values, same};
use super::session::OWN_SCHEMA;
use super::store::{
    Cursor, Found, Inserted, Mark, Purpose, Range, RowKey, Rows, SessionHost, Snapshots, Store, Suspended,
    Tolerated, lost,
};
use super::table::within;
use crate::catalog::first_objects;
use crate::catalog::layout::missing_value;
use crate::catalog::object::{FIRST_USER_OID, Index, IndexColumn, Indexed, Object, Schema, Table};
use crate::catalog::statistics::TableStatistics;
use crate::catalog::view::{CatalogView, Present};
use crate::error::{Result, SqlError, SqlState};
use crate::storage::table::{Computed, RowChange};
use crate::tree::SortKey;
use crate::types::value::Value;
use crate::types::{BuiltinTypes, Oid, Types};

/// What the schema of temporary objects is called.
const OWN_SCHEMA_NAME: &str = "pg_temp_1";
/// A row is taken to have so many bytes.
const ROW_BYTES: f64 = 64.0;

#[derive(Clone, Default)]
struct State {
    objects: BTreeMap<Oid, Arc<Object>>,
    rows: BTreeMap<Oid, BTreeMap<u64, Vec<Value>>>,
    next_oid: Oid,
    next_row: u64,
    version: u64,
    statistics: BTreeMap<Oid, Arc<TableStatistics>>,
    /// How often a table was analyzed.
    analyzed: u64,
    /// How often a sequence began anew.
    restarts: BTreeMap<Oid, u32>,
}

/// Catalog and rows in memory.
pub struct Memory {
    state: RefCell<State>,
    marks: RefCell<Vec<State>>,
    begun: RefCell<Option<State>>,
    /// Numbers of sequences since they began anew (last, whether it was given out), which no transaction
    /// takes back.
    numbers: RefCell<BTreeMap<(Oid, u32), (i64, bool)>>,
}

impl Default for Memory {
    fn default() -> Memory {
        let mut state = State { next_oid: FIRST_USER_OID, next_row: 1, version: 1, ..State::default() };
        for object in first_objects(None) {
            state.objects.insert(object.oid(), Arc::new(object));
        }
        Memory {
            state: RefCell::new(state),
            marks: RefCell::default(),
            begun: RefCell::default(),
            numbers: RefCell::default(),
        }
    }
}

fn key_of(number: u64) -> RowKey {
    RowKey::from_words(&[number])
}

fn number_of(key: &RowKey) -> u64 {
    key.words()[0]
}

/// The type of an index's column, without domains.
fn type_of(table: &Table, column: &IndexColumn) -> Oid {
    let ty = match column.of {
        Indexed::Column(number) => table.columns[usize::from(number)].type_oid,
        Indexed::Expression { type_oid, .. } => type_oid,
    };
    BuiltinTypes.base_of(ty)
}

/// The plain columns of an index: (number, type, how they sort).
fn columns(table: &Table, index: &Index) -> Vec<(usize, Oid, SortKey)> {
    let mut columns = Vec::new();
    for column in &index.columns {
        if let Indexed::Column(number) = column.of {
            let ty = type_of(table, column);
            let (descending, nulls_first) = (column.descending, column.nulls_first);
            columns.push((usize::from(number), ty, SortKey { column: 0, ty, descending, nulls_first }));
        }
    }
    columns
}

impl State {
    fn indexes(&self, table: Oid) -> Vec<Arc<Index>> {
        let index = |object: &Arc<Object>| match &**object {
            Object::Index(index) if index.table == table => Some(Arc::new(index.clone())),
            _ => None,
        };
        self.objects.values().filter_map(index).collect()
    }
}

impl Memory {
    /// The unique index that has the row's key already, and the row that has it.
    fn duplicate(
        &self,
        table: &Table,
        row: &[Value],
        own: Option<u64>,
    ) -> Result<Option<(Arc<Index>, Found)>> {
        let state = self.state.borrow();
        let Some(rows) = state.rows.get(&table.oid) else { return Ok(None) };
        let computing = Computing { store: self, table: table.oid };
        for index in state.indexes(table.oid).into_iter().filter(|index| index.is_unique_at_once()) {
            let plain = columns(table, &index);
            let entry_of = |row: &[Value]| {
                if plain.len() < index.columns.len() || index.predicate.is_some() {
                    return computing.entry(index.oid, row);
                }
                Ok(Some(plain.iter().map(|(at, ..)| row[*at].clone()).collect()))
            };
            let Some(entry) = entry_of(row)? else { continue };
            if !index.nulls_not_distinct && entry.iter().any(Value::is_null) {
                continue;
            }
            let types: Vec<Oid> = index.columns.iter().map(|column| type_of(table, column)).collect();
            for (number, values) in rows.iter().filter(|(number, _)| Some(**number) != own) {
                let other = entry_of(values)?.unwrap_or_default();
                let mut pairs = types.iter().zip(entry.iter().zip(&other));
                if !other.is_empty() && pairs.all(|(ty, (one, other))| same(*ty, one, other)) {
                    return Ok(Some((index, Found { key: key_of(*number), values: values.clone() })));
                }
            }
        }
        Ok(None)
    }

    /// 23505 with the key's values.
    fn violation(&self, table: &Table, index: &Index, row: &[Value]) -> SqlError {
        let message = format!("duplicate key value violates unique constraint \"{}\"", index.name);
        let computing = Computing { store: self, table: table.oid };
        let (names, values): (Vec<_>, Vec<_>) =
            computing.key(index.oid, row).unwrap_or_default().into_iter().unzip();
        let detail = format!("Key ({})=({}) already exists.", names.join(", "), values.join(", "));
        let mut error = SqlError::new(SqlState::UNIQUE_VIOLATION, message).detail(detail);
        error.constraint = Some(index.name.clone());
        error.schema = self.object(table.schema).map(|schema| schema.name().to_owned());
        error.table = Some(table.name.clone());
        error
    }

    /// Whose numbers a sequence gives at present.
    fn since(&self, sequence: Oid) -> (Oid, u32) {
        (sequence, self.state.borrow().restarts.get(&sequence).copied().unwrap_or_default())
    }

    /// The rows of a range behind this one.
    fn scan_after(
        &self,
        table: &Table,
        range: &Range,
        after: Option<&RowKey>,
        limit: usize,
    ) -> Result<Vec<Found>> {
        let state = self.state.borrow();
        let rows = state.rows.get(&table.oid).ok_or_else(|| lost(table.oid))?;
        let found =
            |(number, values): (&u64, &Vec<Value>)| Found { key: key_of(*number), values: values.clone() };
        let Some(index) = &range.index else {
            let from = after.map_or(0, |key| number_of(key) + 1);
            return Ok(rows.range(from..).take(limit).map(found).collect());
        };
        let columns = columns(table, index);
        let fits = |values: &[Value]| {
            columns
                .iter()
                .enumerate()
                .take(range.equal.len() + 1)
                .all(|(i, (at, ty, _))| within(range, i, *ty, &values[*at]))
        };
        let mut all: Vec<Found> = rows.iter().filter(|(_, values)| fits(values)).map(found).collect();
        let part =
            |found: &Found| columns.iter().map(|(at, ..)| found.values[*at].clone()).collect::<Vec<_>>();
        let order = |a: &Found, b: &Found| {
            compare_values(columns.iter().map(|(.., key)| key), &part(a), &part(b))
                .then_with(|| a.key.cmp(&b.key))
        };
        all.sort_by(|a, b| if range.reverse { order(b, a) } else { order(a, b) });
        let from =
            after.and_then(|after| all.iter().position(|found| found.key == *after)).map_or(0, |at| at + 1);
        Ok(all.into_iter().skip(from).take(limit).collect())
    }
}

impl CatalogView for Memory {
    fn object(&self, oid: Oid) -> Option<Arc<Object>> {
        let state = self.state.borrow();
        if let Some(object) = state.objects.get(&oid) {
            return Some(object.clone());
        }
        let array = |object: &&Arc<Object>| match &***object {
            Object::Type(user) => user.array == oid,
            _ => false,
        };
        state.objects.values().find(array).cloned()
    }

    fn relation(&self, schema: Oid, name: &str) -> Option<Arc<Object>> {
        let fits = |object: &&Arc<Object>| {
            let relation = matches!(
                ***object,
                Object::Table(_) | Object::View(_) | Object::Index(_) | Object::Sequence(_)
            );
            relation && object.schema() == schema && object.name() == name
        };
        self.state.borrow().objects.values().find(fits).cloned()
    }

    fn type_named(&self, schema: Oid, name: &str) -> Option<Arc<Object>> {
        let fits = |object: &&Arc<Object>| {
            matches!(***object, Object::Type(_)) && object.schema() == schema && object.name() == name
        };
        self.state.borrow().objects.values().find(fits).cloned()
    }

    fn schema(&self, name: &str) -> Option<Oid> {
        let name = if name == OWN_SCHEMA { OWN_SCHEMA_NAME } else { name };
        let fits = |object: &&Arc<Object>| matches!(***object, Object::Schema(_)) && object.name() == name;
        self.state.borrow().objects.values().find(fits).map(|object| object.oid())
    }

    fn role(&self, name: &str) -> Option<Oid> {
        let fits = |object: &&Arc<Object>| matches!(***object, Object::Role(_)) && object.name() == name;
        self.state.borrow().objects.values().find(fits).map(|object| object.oid())
    }

    fn objects(&self) -> Vec<Arc<Object>> {
        self.state.borrow().objects.values().cloned().collect()
    }

    fn indexes(&self, table: Oid) -> Vec<Arc<Index>> {
        self.state.borrow().indexes(table)
    }

    fn referencing(&self, table: Oid) -> Vec<Arc<Table>> {
        let child = |object: &Arc<Object>| match &**object {
            Object::Table(child) if child.parents().any(|parent| parent == table) => {
                Some(Arc::new(child.clone()))
            }
            _ => None,
        };
        self.state.borrow().objects.values().filter_map(child).collect()
    }

    fn version(&self) -> u64 {
        self.state.borrow().version
    }

    fn statistics(&self, table: Oid) -> Option<Arc<TableStatistics>> {
        self.state.borrow().statistics.get(&table).cloned()
    }

    fn present(&self, table: Oid, _: bool) -> Option<Present> {
        let rows = self.state.borrow().rows.get(&table)?.len() as f64;
        Some(Present { rows, bytes: Some(rows * ROW_BYTES), foreign: 0.0 })
    }
}

impl Rows for Memory {
    fn scan(
        &self,
        table: &Arc<Table>,
        range: &Range,
        _: Purpose,
        cursor: &mut Cursor,
        limit: usize,
    ) -> Result<Vec<Found>> {
        let after = match &cursor.suspended {
            Some(Suspended::Behind(key)) => Some(key),
            _ => None,
        };
        let batch = self.scan_after(table, range, after, limit)?;
        cursor.done = batch.len() < limit;
        cursor.suspended = batch.last().map(|found| Suspended::Behind(found.key));
        Ok(batch)
    }

    fn look_at(&self, table: &Arc<Table>, key: &RowKey, _: &[bool]) -> Result<Option<Found>> {
        let state = self.state.borrow();
        let values = state.rows.get(&table.oid).and_then(|rows| rows.get(&number_of(key)));
        Ok(values.map(|values| Found { key: *key, values: values.clone() }))
    }

    fn insert(&self, table: &Arc<Table>, row: &[Value], tolerated: Tolerated) -> Result<Inserted> {
        if let Some((index, met)) = self.duplicate(table, row, None)? {
            let may = match tolerated {
                Tolerated::None => false,
                Tolerated::Any => true,
                Tolerated::Index(oid) => oid == index.oid,
            };
            return if may { Ok(Inserted::Met(met)) } else { Err(self.violation(table, &index, row)) };
        }
        let mut state = self.state.borrow_mut();
        let number = state.next_row;
        state.next_row += 1;
        state.rows.get_mut(&table.oid).ok_or_else(|| lost(table.oid))?.insert(number, row.to_vec());
        Ok(Inserted::Done(key_of(number)))
    }

    fn update(&self, table: &Arc<Table>, change: &RowChange<'_>) -> Result<RowKey> {
        let (number, new) = (number_of(change.key), change.new);
        if let Some((index, _)) = self.duplicate(table, new, Some(number))? {
            return Err(self.violation(table, &index, new));
        }
        let mut state = self.state.borrow_mut();
        state.rows.get_mut(&table.oid).ok_or_else(|| lost(table.oid))?.insert(number, new.to_vec());
        Ok(*change.key)
    }

    fn delete(&self, table: &Arc<Table>, gone: &[Found]) -> Result<Vec<bool>> {
        let mut state = self.state.borrow_mut();
        let rows = state.rows.get_mut(&table.oid).ok_or_else(|| lost(table.oid))?;
        Ok(gone.iter().map(|row| rows.remove(&number_of(&row.key)).is_some()).collect())
    }

    fn truncate(&self, table: &Arc<Table>) -> Result<()> {
        self.state.borrow_mut().rows.insert(table.oid, BTreeMap::new());
        Ok(())
    }

    fn build(&self, table: &Arc<Table>, index: &Arc<Index>) -> Result<()> {
        let state = self.state.borrow();
        let Some(rows) = state.rows.get(&table.oid) else { return Ok(()) };
        for (number, row) in rows {
            if let Some((other, _)) = self.duplicate(table, row, Some(*number))?
                && other.oid == index.oid
            {
                let mut error = self.violation(table, index, row);
                error.message = format!("could not create unique index \"{}\"", index.name);
                error.detail =
                    error.detail.take().map(|detail| detail.replace("already exists", "is duplicated"));
                return Err(error);
            }
        }
        Ok(())
    }

    fn rewrite(
        &self,
        old: &Arc<Table>,
        new: &Arc<Table>,
        change: &mut dyn FnMut(Vec<Value>) -> Result<Vec<Value>>,
    ) -> Result<()> {
        let rows = self.state.borrow().rows.get(&old.oid).cloned().unwrap_or_default();
        let mut changed = BTreeMap::new();
        for (number, row) in rows {
            changed.insert(number, change(row)?);
        }
        let mut state = self.state.borrow_mut();
        state.rows.insert(old.oid, changed);
        if let Some(Object::Table(mut table)) = state.objects.get(&old.oid).map(|object| (**object).clone()) {
            table.forget_missing();
            state.objects.insert(old.oid, Arc::new(Object::Table(table)));
        }
        drop(state);
        let state = self.state.borrow();
        for (number, row) in &state.rows[&old.oid] {
            if let Some((index, _)) = self.duplicate(new, row, Some(*number))? {
                return Err(self.violation(new, &index, row));
            }
        }
        Ok(())
    }

    fn next_value(&self, oid: Oid) -> Result<i64> {
        let Some(Object::Sequence(sequence)) = self.object(oid).as_deref().cloned() else {
            return Err(lost(oid));
        };
        let mut numbers = self.numbers.borrow_mut();
        let since = self.since(oid);
        let (last, called) = numbers.get(&since).copied().unwrap_or((sequence.start, false));
        let mut next = if called { last.saturating_add(sequence.increment) } else { last };
        if next > sequence.max || next < sequence.min || (called && next == last) {
            if !sequence.cycle {
                let (what, bound) = if sequence.increment > 0 {
                    ("maximum", sequence.max)
                } else {
                    ("minimum", sequence.min)
                };
                let message =
                    format!("nextval: reached {what} value of sequence \"{}\" ({bound})", sequence.name);
                return Err(SqlError::new(SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED, message));
            }
            next = if sequence.increment > 0 { sequence.min } else { sequence.max };
        }
        numbers.insert(since, (next, true));
        Ok(next)
    }

    fn sequence_state(&self, oid: Oid) -> Result<(i64, bool)> {
        let Some(Object::Sequence(sequence)) = self.object(oid).as_deref().cloned() else {
            return Err(lost(oid));
        };
        Ok(self.numbers.borrow().get(&self.since(oid)).copied().unwrap_or((sequence.start, false)))
    }

    fn set_value(&self, sequence: Oid, value: i64, called: bool) -> Result<()> {
        self.numbers.borrow_mut().insert(self.since(sequence), (value, called));
        Ok(())
    }

    fn begin_numbers(&self, sequence: Oid, first: Option<i64>) -> Result<()> {
        let (value, called) =
            first.map_or_else(|| self.sequence_state(sequence), |first| Ok((first, false)))?;
        *self.state.borrow_mut().restarts.entry(sequence).or_default() += 1;
        self.set_value(sequence, value, called)
    }
}

impl SessionHost for Memory {}

impl Snapshots for Memory {}

impl Store for Memory {
    fn keep_statistics(&self, table: Oid, found: TableStatistics) -> Result<()> {
        let mut state = self.state.borrow_mut();
        state.analyzed += 1;
        state.statistics.insert(table, Arc::new(found));
        Ok(())
    }

    fn statistics_version(&self) -> u64 {
        self.state.borrow().analyzed
    }

    fn own_schema(&self, make: bool) -> Result<Option<Oid>> {
        if let (None, true) = (self.schema(OWN_SCHEMA), make) {
            let name = OWN_SCHEMA_NAME.to_owned();
            let schema = Schema { oid: self.new_oid(0)?, name, ..Schema::default() };
            self.create(Object::Schema(schema))?;
        }
        Ok(self.schema(OWN_SCHEMA))
    }

    fn own_objects(&self) -> Vec<Arc<Object>> {
        let Some(own) = self.schema(OWN_SCHEMA) else { return Vec::new() };
        self.objects().into_iter().filter(|object| object.schema() == own || object.oid() == own).collect()
    }

    fn discard_own(&self) -> Result<()> {
        self.own_objects().iter().try_for_each(|object| self.remove(object.oid()))
    }

    fn new_oid(&self, _: Oid) -> Result<Oid> {
        let mut state = self.state.borrow_mut();
        state.next_oid += 1;
        Ok(state.next_oid - 1)
    }

    fn create(&self, object: Object) -> Result<()> {
        if let Object::Table(table) = &object {
            self.state.borrow_mut().rows.insert(table.oid, BTreeMap::new());
        }
        // An oid is given again where its object was rolled back.
        self.numbers.borrow_mut().remove(&self.since(object.oid()));
        self.replace(object)
    }

    fn replace(&self, mut object: Object) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let State { objects, rows, .. } = &mut *state;
        if let Object::Table(table) = &mut object
            && let Some(rows) = rows.get_mut(&table.oid)
        {
            if let Some(Object::Table(before)) = objects.get(&table.oid).map(|object| &**object) {
                table.keep_missing(before);
            }
            for row in rows.values_mut() {
                for column in &table.columns[row.len()..] {
                    row.push(missing_value(column, |oid| objects.get(&oid).cloned())?);
                }
            }
        }
        state.version += 1;
        state.objects.insert(object.oid(), Arc::new(object));
        Ok(())
    }

    fn remove(&self, oid: Oid) -> Result<()> {
        let mut state = self.state.borrow_mut();
        state.version += 1;
        state.rows.remove(&oid);
        state.statistics.remove(&oid);
        state.objects.remove(&oid).map(|_| ()).ok_or_else(|| lost(oid))
    }

    fn mark(&self) -> Mark {
        let mut marks = self.marks.borrow_mut();
        marks.push(self.state.borrow().clone());
        marks.len() - 1
    }

    fn undo_to(&self, mark: Mark) -> Result<()> {
        let mut marks = self.marks.borrow_mut();
        *self.state.borrow_mut() = marks[mark].clone();
        marks.truncate(mark + 1);
        Ok(())
    }

    fn begin(&self) -> Result<()> {
        let mut begun = self.begun.borrow_mut();
        if begun.is_none() {
            *begun = Some(self.state.borrow().clone());
        }
        Ok(())
    }

    fn commit(&self) -> Result<()> {
        *self.begun.borrow_mut() = None;
        self.marks.borrow_mut().clear();
        Ok(())
    }

    fn rollback(&self) {
        if let Some(state) = self.begun.borrow_mut().take() {
            *self.state.borrow_mut() = state;
        }
        self.marks.borrow_mut().clear();
    }
}
