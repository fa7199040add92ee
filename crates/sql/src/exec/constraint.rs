//! Foreign keys, and keys that are DEFERRABLE: looked at when the statement that changed rows ends, or when
//! the transaction commits.
//!
//! 1. Every row that got new values in a foreign key, and every row whose referenced values went, is noted
//!    when it is changed; nothing is looked up twice for one note.
//! 2. Actions (CASCADE, SET NULL, SET DEFAULT) are changes of their own: they note further rows.
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::rows::same;
use super::store::{Cursor, Found, Purpose, Range, lost};
use super::{Exec, Row, Waiting};
use crate::bind::Binder;
use crate::catalog::object::{Action, Constraint, Index, Indexed, Object, Rule, Table};
use crate::error::{Result, SqlError, SqlState};
use crate::func::cast::cast_value;
use crate::func::quote_ident;
use crate::func::{CastContext, find_cast};
use crate::storage::ahead::{Coming, ROWS_AHEAD};
use crate::storage::table::RowChange;
use crate::types::value::Value;
use crate::types::{Type, Types};

const DEPTH_MAX: usize = 100;

/// A foreign key, taken apart.
struct ForeignKey<'c> {
    constraint: &'c Constraint,
    columns: &'c [u16],
    parent: u32,
    references: &'c [u16],
    index: u32,
    on_delete: Action,
    /// What ON DELETE SET NULL and SET DEFAULT set; nothing: every column.
    set: &'c [u16],
    on_update: Action,
    full: bool,
}

/// What was looked up of the catalog for a check, by oid, as long as the catalog has the same description.
struct Seen<T>(RefCell<BTreeMap<u32, Described<T>>>);

/// An object of the catalog, and what was taken from it.
type Described<T> = (Arc<Object>, Arc<T>);

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<T> Seen<T> {
    fn of(&self, object: &Arc<Object>, read: impl FnOnce(&Object) -> Option<T>) -> Option<Arc<T>> {
        let mut seen = self.0.borrow_mut();
        if let Some((of, it)) = seen.get(&object.oid())
            && Arc::ptr_eq(of, object)
        {
            return Some(it.clone());
        }
        let it = Arc::new(read(object)?);
        seen.insert(object.oid(), (object.clone(), it.clone()));
        Some(it)
    }
}

/// Tables and indexes that checks have looked at: a statement looks at the same few for each of its rows.
#[derive(Default)]
pub(super) struct LookedAt {
    tables: Seen<Table>,
    indexes: Seen<Index>,
}

impl LookedAt {
    fn table(&self, object: &Arc<Object>) -> Option<Arc<Table>> {
        self.tables.of(object, |object| match object {
            Object::Table(table) => Some(table.clone()),
            _ => None,
        })
    }

    fn index(&self, object: &Arc<Object>) -> Option<Arc<Index>> {
        self.indexes.of(object, |object| match object {
            Object::Index(index) => Some(index.clone()),
            _ => None,
        })
    }
}

fn foreign_key(constraint: &Constraint) -> Option<ForeignKey<'_>> {
    match &constraint.rule {
        Rule::ForeignKey { columns, table, references, index, on_delete, set, on_update, full } => {
            Some(ForeignKey {
                constraint,
                columns,
                parent: *table,
                references,
                index: *index,
                on_delete: *on_delete,
                set,
                on_update: *on_update,
                full: *full,
            })
        }
        _ => None,
    }
}

fn pick(row: &[Value], columns: &[u16]) -> Row {
    columns.iter().map(|column| row[usize::from(*column)].clone()).collect()
}

fn names(table: &Table, columns: &[u16]) -> String {
    columns
        .iter()
        .map(|column| table.columns[usize::from(*column)].name.as_str())
        .collect::<Vec<_>>()
        .join(", ")
}

fn unchanged(table: &Table, columns: &[u16], old: &[Value], new: &[Value]) -> bool {
    columns.iter().all(|column| {
        let at = usize::from(*column);
        same(table.columns[at].type_oid, &old[at], &new[at])
    })
}

impl Exec<'_> {
    fn note(&self, waiting: Waiting) {
        self.waiting.borrow_mut().push(waiting);
    }

    /// Notes keys of a new or changed row that have to be distinct later.
    fn note_keys(&self, table: &Table, old: Option<&[Value]>, row: &[Value]) {
        for constraint in table.constraints.iter().filter(|constraint| constraint.deferrable) {
            let (Rule::PrimaryKey { columns, .. } | Rule::Unique { columns, .. }) = &constraint.rule else {
                continue;
            };
            if old.is_none_or(|old| !unchanged(table, columns, old, row)) {
                let (table, constraint) = (table.oid, constraint.oid);
                self.note(Waiting { table, constraint, child: true, row: row.to_vec(), new: None });
            }
        }
    }

    /// 23505 if two rows have the key that is noted.
    fn check_key(&self, table: &Arc<Table>, constraint: &Constraint, row: &[Value]) -> Result<()> {
        let (Rule::PrimaryKey { columns, index } | Rule::Unique { columns, index }) = &constraint.rule else {
            return Ok(());
        };
        if !self.is_twice(table, (columns, *index), row)? {
            return Ok(());
        }
        let name = &constraint.name;
        let message = format!("duplicate key value violates unique constraint \"{name}\"");
        let shown = self.unique_key_text(table, columns, &pick(row, columns));
        let error = SqlError::new(SqlState::UNIQUE_VIOLATION, message);
        let mut error = error.detail(format!("Key {shown} already exists."));
        error.constraint = Some(name.clone());
        Err(self.about(error, table))
    }

    /// Whether two rows have the values of this row in the columns of an index.
    fn is_twice(&self, table: &Arc<Table>, (columns, index): (&[u16], u32), row: &[Value]) -> Result<bool> {
        let values = pick(row, columns);
        if !values.iter().any(Value::is_null) {
            return Ok(self.children(table, columns, &values, 2)?.len() > 1);
        }
        let object = self.store.object(index);
        if !matches!(object.as_deref(), Some(Object::Index(index)) if index.nulls_not_distinct) {
            return Ok(false);
        }
        let (mut found, mut cursor) = (0, Cursor::default());
        while !cursor.done && found < 2 {
            self.yield_point()?;
            let rows = self.store.scan(table, &Range::default(), Purpose::Hold, &mut cursor, 256)?;
            found += rows.iter().filter(|other| unchanged(table, columns, row, &other.values)).count();
        }
        Ok(found > 1)
    }

    /// All rows of a table have different keys in a new index; 23505 otherwise.
    fn check_distinct(&self, table: &Arc<Table>, (columns, index): (&[u16], u32)) -> Result<()> {
        let mut cursor = Cursor::default();
        while !cursor.done {
            self.yield_point()?;
            for row in self.store.scan(table, &Range::default(), Purpose::Hold, &mut cursor, 256)? {
                if self.is_twice(table, (columns, index), &row.values)? {
                    let name = self.store.object(index).map_or(String::new(), |it| it.name().to_owned());
                    let message = format!("could not create unique index \"{name}\"");
                    let shown = self.unique_key_text(table, columns, &pick(&row.values, columns));
                    let mut error = SqlError::new(SqlState::UNIQUE_VIOLATION, message);
                    error.constraint = Some(name);
                    return Err(self.about(error.detail(format!("Key {shown} is duplicated.")), table));
                }
            }
        }
        Ok(())
    }

    pub(super) fn inserted(&self, table: &Arc<Table>, row: &Row) {
        self.note_keys(table, None, row);
        for key in table.constraints.iter().filter_map(foreign_key) {
            let (table, constraint) = (table.oid, key.constraint.oid);
            self.note(Waiting { table, constraint, child: true, row: row.clone(), new: None });
        }
    }

    pub(super) fn updated(&self, table: &Arc<Table>, old: &[Value], new: &[Value]) {
        self.note_keys(table, Some(old), new);
        for key in table.constraints.iter().filter_map(foreign_key) {
            if !unchanged(table, key.columns, old, new) {
                let (table, constraint) = (table.oid, key.constraint.oid);
                self.note(Waiting { table, constraint, child: true, row: new.to_vec(), new: None });
            }
        }
        for child in self.store.referencing(table.oid) {
            for key in child.constraints.iter().filter_map(foreign_key) {
                if key.parent == table.oid && !unchanged(table, key.references, old, new) {
                    let (table, constraint) = (child.oid, key.constraint.oid);
                    let (row, new) = (old.to_vec(), Some(new.to_vec()));
                    self.note(Waiting { table, constraint, child: false, row, new });
                }
            }
        }
    }

    pub(super) fn deleted(&self, table: &Arc<Table>, old: &Row) {
        for child in self.store.referencing(table.oid) {
            for key in child.constraints.iter().filter_map(foreign_key) {
                if key.parent == table.oid {
                    let (table, constraint) = (child.oid, key.constraint.oid);
                    self.note(Waiting { table, constraint, child: false, row: old.clone(), new: None });
                }
            }
        }
    }

    /// Looks at everything that was noted. What `deferred` says so about is given back, for the commit.
    pub(crate) fn check_constraints(&self, deferred: &dyn Fn(&Constraint) -> bool) -> Result<Vec<Waiting>> {
        let mut kept = Vec::new();
        loop {
            let noted = std::mem::take(&mut *self.waiting.borrow_mut());
            if noted.is_empty() {
                return Ok(kept);
            }
            self.interrupt.progress().enter(crate::progress::Phase::Checking);
            let is_spread = |table: Arc<Table>| self.store.is_spread(&table).unwrap_or(false);
            let spread = noted.len() > 1 && self.table(noted[0].table).is_ok_and(is_spread);
            for (at, waiting) in noted.iter().enumerate() {
                self.yield_point()?;
                if spread && at % ROWS_AHEAD == 0 {
                    self.announce_referenced(&noted[at..noted.len().min(at + ROWS_AHEAD)])?;
                }
                let Ok(child) = self.table(waiting.table) else { continue };
                let found = child.constraints.iter().find(|constraint| constraint.oid == waiting.constraint);
                let Some(constraint) = found else { continue };
                let Some(key) = foreign_key(constraint) else {
                    match deferred(constraint) {
                        true => kept.push(waiting.clone()),
                        false => self.check_key(&child, constraint, &waiting.row)?,
                    }
                    continue;
                };
                let acts = !waiting.child && !matches!(self.action(&key, waiting), Action::NoAction);
                if deferred(constraint) && !acts {
                    kept.push(waiting.clone());
                    continue;
                }
                if waiting.child {
                    self.check_child(&child, &key, &waiting.row)?;
                } else {
                    self.check_parent(&child, &key, waiting)?;
                }
            }
        }
    }

    fn action(&self, key: &ForeignKey<'_>, waiting: &Waiting) -> Action {
        if waiting.new.is_some() { key.on_update } else { key.on_delete }
    }

    pub(crate) fn table(&self, oid: u32) -> Result<Arc<Table>> {
        let object = self.store.object(oid).ok_or_else(|| lost(oid))?;
        self.looked_at.table(&object).ok_or_else(|| lost(oid))
    }

    /// The index of the referenced table that a foreign key is looked up in.
    fn index_of(&self, key: &ForeignKey<'_>) -> Result<Arc<Index>> {
        let object = self.store.object(key.index).ok_or_else(|| lost(key.index))?;
        self.looked_at.index(&object).ok_or_else(|| lost(key.index))
    }

    /// What rows of the referenced table have in the columns of its index, if a row has these values in the
    /// foreign key; `None` if none can have them.
    fn referenced(
        &self,
        child: &Table,
        key: &ForeignKey<'_>,
        values: &[Value],
    ) -> Result<Option<(Arc<Index>, Row)>> {
        let (parent, index) = (self.table(key.parent)?, self.index_of(key)?);
        let mut equal = Vec::with_capacity(index.columns.len());
        for column in &index.columns {
            let Indexed::Column(number) = column.of else { return Err(lost(key.index)) };
            let at =
                key.references.iter().position(|other| *other == number).ok_or_else(|| lost(key.index))?;
            let from = child.columns[usize::from(key.columns[at])].type_oid;
            let to = parent.columns[usize::from(number)].type_oid;
            match self.converted(&values[at], from, to)? {
                Some(value) => equal.push(value),
                None => return Ok(None),
            }
        }
        Ok(Some((index, equal)))
    }

    /// Says which rows of referenced tables will be looked for: those of foreign keys that are noted.
    fn announce_referenced(&self, noted: &[Waiting]) -> Result<()> {
        let mut wanted: BTreeMap<(u32, u32), Vec<Row>> = BTreeMap::new();
        for waiting in noted.iter().filter(|waiting| waiting.child) {
            let Ok(child) = self.table(waiting.table) else { continue };
            let found = child.constraints.iter().find(|constraint| constraint.oid == waiting.constraint);
            let Some(key) = found.and_then(foreign_key) else { continue };
            let values = pick(&waiting.row, key.columns);
            if values.iter().all(|value| !value.is_null())
                && let Some((index, equal)) = self.referenced(&child, &key, &values)?
            {
                wanted.entry((key.parent, index.oid)).or_default().push(equal);
            }
        }
        wanted.into_iter().try_for_each(|((parent, index), rows)| {
            self.store.announce(&self.table(parent)?, &Coming::Looked(index, &rows))
        })
    }

    /// Whether a row of the referenced table has these values.
    fn parent_has(&self, child: &Table, key: &ForeignKey<'_>, values: &[Value]) -> Result<bool> {
        let parent = self.table(key.parent)?;
        let Some((index, equal)) = self.referenced(child, key, values)? else { return Ok(false) };
        let range = Range { index: Some(index), equal, ..Range::default() };
        Ok(!self.store.scan(&parent, &range, Purpose::Hold, &mut Cursor::default(), 1)?.is_empty())
    }

    /// A value as a column of another type has it; `None` if that type has none.
    fn converted(&self, value: &Value, from: u32, to: u32) -> Result<Option<Value>> {
        if from == to {
            return Ok(Some(value.clone()));
        }
        let (from, to) = (self.ctx.base_of(from), self.ctx.base_of(to));
        let Some(path) = find_cast(&self.ctx, from, to, CastContext::Assignment) else {
            return Ok(Some(value.clone()));
        };
        Ok(cast_value(&self.ctx, &path, from, Type::of(to), false, value).ok())
    }

    fn check_child(&self, child: &Arc<Table>, key: &ForeignKey<'_>, row: &[Value]) -> Result<()> {
        let values = pick(row, key.columns);
        let nulls = values.iter().filter(|value| value.is_null()).count();
        if key.full && nulls > 0 && nulls < values.len() {
            if !self.is_still_there(child, row)? {
                return Ok(());
            }
            let detail = "MATCH FULL does not allow mixing of null and nonnull key values.";
            return Err(self.violation(child, key).detail(detail));
        }
        if nulls > 0 || self.parent_has(child, key, &values)? || !self.still_there(child, key, &values)? {
            return Ok(());
        }
        let parent = self.table(key.parent)?;
        let (shown, parent) = (self.key_text(child, key.columns, &values), &parent.name);
        Err(self.violation(child, key).detail(format!("Key {shown} is not present in table \"{parent}\".")))
    }

    /// A row that was changed or deleted again since it was noted needs no check.
    fn still_there(&self, child: &Arc<Table>, key: &ForeignKey<'_>, values: &[Value]) -> Result<bool> {
        Ok(!self.children(child, key.columns, values, 1)?.is_empty())
    }

    /// The same for a row whose key has NULLs, which no index leads to: the rows are looked through.
    fn is_still_there(&self, child: &Arc<Table>, row: &[Value]) -> Result<bool> {
        let all: Vec<u16> = (0..child.columns.len() as u16).collect();
        let mut cursor = Cursor::default();
        while !cursor.done {
            self.yield_point()?;
            let batch = self.store.scan(child, &Range::default(), Purpose::Hold, &mut cursor, 256)?;
            if batch.iter().any(|found| unchanged(child, &all, &found.values, row)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn violation(&self, child: &Table, key: &ForeignKey<'_>) -> SqlError {
        let (table, name) = (&child.name, &key.constraint.name);
        let message =
            format!("insert or update on table \"{table}\" violates foreign key constraint \"{name}\"");
        let mut error = SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message);
        error.constraint = Some(name.clone());
        self.about(error, child)
    }

    fn key_text(&self, table: &Table, columns: &[u16], values: &[Value]) -> String {
        format!("({})=({})", names(table, columns), self.values_text(table, columns, values))
    }

    /// As PostgreSQL shows the keys of indexes: names are quoted where they need it.
    fn unique_key_text(&self, table: &Table, columns: &[u16], values: &[Value]) -> String {
        let names = columns.iter().map(|at| quote_ident(&table.columns[usize::from(*at)].name));
        let names = names.collect::<Vec<_>>().join(", ");
        format!("({names})=({})", self.values_text(table, columns, values))
    }

    fn values_text(&self, table: &Table, columns: &[u16], values: &[Value]) -> String {
        let types = columns.iter().map(|at| table.columns[usize::from(*at)].type_oid);
        types.zip(values).map(|(ty, value)| self.shown(ty, value)).collect::<Vec<_>>().join(", ")
    }

    /// Rows of the table whose columns have these values.
    fn children(
        &self,
        child: &Arc<Table>,
        columns: &[u16],
        values: &[Value],
        most: usize,
    ) -> Result<Vec<Found>> {
        let mut range = Range::default();
        for index in self.store.indexes(child.oid) {
            let leading = index.columns.iter().map_while(|column| match column.of {
                Indexed::Column(number) => columns.iter().position(|other| *other == number),
                Indexed::Expression { .. } => None,
            });
            let leading: Vec<usize> = leading.collect();
            if index.valid && index.predicate.is_none() && leading.len() > range.equal.len() {
                range.equal = leading.iter().map(|at| values[*at].clone()).collect();
                range.index = Some(index);
            }
        }
        let fits = |row: &[Value]| {
            columns.iter().zip(values).all(|(column, value)| {
                let at = usize::from(*column);
                let ty = self.ctx.base_of(child.columns[at].type_oid);
                !row[at].is_null() && same(ty, &row[at], value)
            })
        };
        let (mut found, mut cursor) = (Vec::new(), Cursor::default());
        while !cursor.done && found.len() < most {
            self.yield_point()?;
            let batch = self.store.scan(child, &range, Purpose::Hold, &mut cursor, 256)?;
            found.extend(batch.into_iter().filter(|row| fits(&row.values)));
        }
        Ok(found)
    }

    fn check_parent(&self, child: &Arc<Table>, key: &ForeignKey<'_>, waiting: &Waiting) -> Result<()> {
        let values = pick(&waiting.row, key.references);
        if values.iter().any(Value::is_null) {
            return Ok(());
        }
        let parent = self.table(key.parent)?;
        let mut own = Vec::new();
        for (at, value) in values.iter().enumerate() {
            let from = parent.columns[usize::from(key.references[at])].type_oid;
            let to = child.columns[usize::from(key.columns[at])].type_oid;
            match self.converted(value, from, to)? {
                Some(value) => own.push(value),
                None => return Ok(()),
            }
        }
        let action = self.action(key, waiting);
        self.refuse_numbered(child, key, (action, waiting))?;
        let refuses = matches!(action, Action::NoAction | Action::Restrict);
        let children = self.children(child, key.columns, &own, if refuses { 1 } else { usize::MAX })?;
        if children.is_empty() || (action == Action::NoAction && self.parent_has(child, key, &own)?) {
            return Ok(());
        }
        let refused = || {
            let (name, table) = (&key.constraint.name, &child.name);
            let violated = format!("violates foreign key constraint \"{name}\" on table \"{table}\"");
            let message = format!("update or delete on table \"{}\" {violated}", parent.name);
            let shown = self.key_text(&parent, key.references, &values);
            let detail = format!("Key {shown} is still referenced from table \"{table}\".");
            let mut error = SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message).detail(detail);
            error.constraint = Some(name.clone());
            Err(self.about(error, child))
        };
        if refuses {
            return refused();
        }
        if self.depth.get() >= DEPTH_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "foreign keys cascade too deeply"));
        }
        self.act(child, key, action, children, waiting.new.as_ref())?;
        // A default that is the key itself leaves its rows as they were, and nobody notes them again.
        let stays = action == Action::SetDefault
            && !self.parent_has(child, key, &own)?
            && !self.children(child, key.columns, &own, 1)?.is_empty();
        if stays { refused() } else { Ok(()) }
    }

    /// Refuses to set a column that only its default may set, whether there are rows or not.
    fn refuse_numbered(
        &self,
        child: &Table,
        key: &ForeignKey<'_>,
        (action, waiting): (Action, &Waiting),
    ) -> Result<()> {
        let set = match (action, &waiting.new) {
            (Action::SetNull, None) if !key.set.is_empty() => key.set,
            (Action::SetNull, _) | (Action::Cascade, Some(_)) => key.columns,
            _ => return Ok(()),
        };
        let column = |at: &u16| &child.columns[usize::from(*at)];
        let Some(refused) = set.iter().map(column).find(|it| it.identity.is_some_and(|own| own.always))
        else {
            return Ok(());
        };
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let schema = self.store.object(child.schema);
        let schema = schema.as_deref().map_or(String::new(), |schema| quoted(schema.name()));
        let (values, first) = if action == Action::Cascade { (true, set.len()) } else { (false, 0) };
        let value = |at: usize| if values { format!("${}", at + 1) } else { "NULL".to_string() };
        let name = |at: &u16| quoted(&column(at).name);
        let sets = set.iter().enumerate().map(|(at, set)| format!("{} = {}", name(set), value(at)));
        let finds = key.columns.iter().enumerate();
        let finds =
            finds.map(|(at, own)| format!("${} OPERATOR(pg_catalog.=) {}", first + at + 1, name(own)));
        let (sets, finds) = (sets.collect::<Vec<_>>().join(", "), finds.collect::<Vec<_>>().join(" AND "));
        Err(crate::bind::only_default_for(refused).context(|| {
            let table = quoted(&child.name);
            format!("SQL statement \"UPDATE ONLY {schema}.{table} SET {sets} WHERE {finds}\"")
        }))
    }

    fn act(
        &self,
        child: &Arc<Table>,
        key: &ForeignKey<'_>,
        action: Action,
        children: Vec<Found>,
        new: Option<&Row>,
    ) -> Result<()> {
        let binder = Binder::new(self.ctx, self.store, self.search_path, Vec::new());
        let target = binder.target(child)?;
        let mut defaults = Vec::new();
        for column in key.columns {
            defaults.push(binder.default_of(child, usize::from(*column))?);
        }
        let set = target.set_by(key.columns.iter().map(|column| usize::from(*column)));
        let inner = Exec::new(self.store, self.ctx, &[], self.interrupt, self.search_path, (0, 0));
        inner.depth.set(self.depth.get() + 1);
        for old in children {
            if action == Action::Cascade && new.is_none() {
                inner.delete_row(child, &old)?;
                continue;
            }
            let mut row = old.values.clone();
            let is_set = |column: &u16| new.is_some() || key.set.is_empty() || key.set.contains(column);
            for (at, column) in key.columns.iter().enumerate().filter(|(_, column)| is_set(column)) {
                row[usize::from(*column)] = match (action, new) {
                    (Action::Cascade, Some(new)) => {
                        let parent = self.table(key.parent)?;
                        let from = usize::from(key.references[at]);
                        let to = child.columns[usize::from(*column)].type_oid;
                        let value = self.converted(&new[from], parent.columns[from].type_oid, to)?;
                        value.unwrap_or(Value::Null)
                    }
                    (Action::SetDefault, _) => inner.eval(&defaults[at], &super::Env::EMPTY)?,
                    _ => Value::Null,
                };
            }
            inner.complete(&target, &mut row)?;
            inner.update_row(child, &RowChange::of(&old, &row, &set))?;
        }
        self.waiting.borrow_mut().append(&mut inner.waiting.borrow_mut());
        Ok(())
    }

    /// All rows of a table have what a new foreign key or deferrable key asks for.
    pub(crate) fn check_all(&self, child: &Arc<Table>, constraint: &Constraint) -> Result<()> {
        let Some(key) = foreign_key(constraint) else {
            return match &constraint.rule {
                Rule::PrimaryKey { columns, index } | Rule::Unique { columns, index }
                    if constraint.deferrable =>
                {
                    self.check_distinct(child, (columns, *index))
                }
                _ => Ok(()),
            };
        };
        let mut cursor = Cursor::default();
        while !cursor.done {
            self.yield_point()?;
            for row in self.store.scan(child, &Range::default(), Purpose::Hold, &mut cursor, 256)? {
                self.check_child(child, &key, &row.values)?;
            }
        }
        Ok(())
    }
}
