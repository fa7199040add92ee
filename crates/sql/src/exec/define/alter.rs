//! ALTER TABLE and its kin.
use std::sync::Arc;

use super::index_of;
use super::storing::{SYSTEM_COLUMNS, check_column_name};
use crate::catalog::depend::{Goes, Part};
use crate::catalog::object::{Column, Constraint, Identity, Index, Object, Rule, Sequence, Table, View};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::session::LocalSession;
use crate::exec::store::{Cursor, Purpose, Range, Store, lost};
use crate::exec::system_tables;
use crate::exec::{Env, Exec};
use crate::missing;
use crate::parse::ast::{AlterColumn, AlterTable, Ident, ObjectKind, Path};
use crate::types::value::Value;
use crate::types::{Oid, Type};

impl<S: Store> LocalSession<S> {
    pub(super) fn alter_table(
        &mut self,
        kind: ObjectKind,
        path: &Path,
        if_exists: bool,
        actions: &[AlterTable],
    ) -> Result<()> {
        if matches!(kind, ObjectKind::Type | ObjectKind::Domain | ObjectKind::Schema) {
            return self.alter_other(kind, path, &actions[0]);
        }
        let Some(object) = self.find(path)? else {
            let listed = self.shared.variables.borrow().search_path.clone();
            if system_tables::find(path.schema(), path.last(), &listed).is_some() {
                let message = format!("permission denied: \"{}\" is a system catalog", path.last());
                return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
            }
            return self.missing("relation", SqlState::UNDEFINED_TABLE, path, if_exists);
        };
        self.must_own(&object)?;
        let is_name = |action: &AlterTable| {
            matches!(
                action,
                AlterTable::Rename(_)
                    | AlterTable::RenameColumn(..)
                    | AlterTable::RenameConstraint(..)
                    | AlterTable::SetSchema(_)
            )
        };
        if !actions.iter().all(is_name) {
            self.refuse_waiting(&object, "ALTER TABLE")?;
        }
        let before = object;
        for action in super::passes::in_order(actions) {
            let object = self.store.object(before.oid()).ok_or_else(|| lost(before.oid()))?;
            if let AlterTable::Column(column, AlterColumn::Type { .. }) = action
                && type_of(&before, column).zip(type_of(&object, column)).is_some_and(|(was, is)| was != is)
            {
                let message = format!("cannot alter type of column \"{}\" twice", column.text);
                return Err(SqlError::refused_by_postgresql(message));
            }
            self.check_altered(kind, &object, action)?;
            if self.alter_storing(&object, action)? {
                continue;
            }
            match (action, &*object) {
                (AlterTable::Rename(name), _) => {
                    self.relation_exists(object.schema(), &name.text, false)?;
                    let new = renamed(&object, &name.text);
                    self.with_names_kept(&object, |own| own.store.replace(new))?;
                    if let Object::Index(index) = &*object {
                        self.rename_constraint_of(index, &name.text)?;
                    }
                }
                (AlterTable::SetSchema(schema), _) => self.move_to(&object, schema)?,
                (AlterTable::Owner(name), _) => self.change_owner(&object, &name.text)?,
                (AlterTable::RenameColumn(from, to), Object::View(view)) => {
                    self.rename_view_column(view, from, to)?;
                }
                (action, Object::Table(table)) => self.alter_one(table.clone(), action)?,
                _ => {
                    let message = format!("\"{}\" is not a table", path.last());
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                }
            }
        }
        Ok(())
    }

    fn alter_other(&mut self, kind: ObjectKind, path: &Path, action: &AlterTable) -> Result<()> {
        let found = match kind {
            ObjectKind::Schema => self.store.schema(path.last()),
            _ => {
                let schema = self.target_schema(path, false)?;
                self.store.type_named(schema, path.last()).map(|object| object.oid())
            }
        };
        let Some(object) = found.and_then(|oid| self.store.object(oid)) else {
            return self.missing(kind.word(), SqlState::UNDEFINED_OBJECT, path, false);
        };
        self.must_own(&object)?;
        match action {
            AlterTable::Owner(name) => self.change_owner(&object, &name.text),
            AlterTable::Rename(name) => {
                let (taken, what, state) = match kind {
                    ObjectKind::Schema => {
                        (self.store.schema(&name.text), "schema", SqlState::DUPLICATE_SCHEMA)
                    }
                    _ => {
                        let other = self.store.type_named(object.schema(), &name.text);
                        (other.map(|other| other.oid()), "type", SqlState::DUPLICATE_OBJECT)
                    }
                };
                if taken.is_some() {
                    return Err(SqlError::new(state, format!("{what} \"{}\" already exists", name.text)));
                }
                let new = renamed(&object, &name.text);
                self.with_names_kept(&object, |own| own.store.replace(new))
            }
            AlterTable::SetSchema(schema) => self.move_to(&object, schema),
            _ => {
                let what = format_args!("this form of ALTER {}", kind.word().to_uppercase());
                Err(SqlError::unsupported(what, missing::REMAKE))
            }
        }
    }

    /// A constraint has the name of its index.
    fn rename_constraint_of(&self, index: &Index, name: &str) -> Result<()> {
        let object = self.store.object(index.table);
        let Some(Object::Table(table)) = object.as_deref() else { return Ok(()) };
        let mut table = table.clone();
        let of = table.constraints.iter_mut().find(|one| index_of(&one.rule) == Some(index.oid));
        let Some(constraint) = of else { return Ok(()) };
        constraint.name = name.to_string();
        self.store.replace(Object::Table(table))
    }

    fn rename_view_column(&mut self, view: &View, from: &Ident, to: &Ident) -> Result<()> {
        let mut new = view.clone();
        let place = |name: &Ident| view.columns.iter().position(|column| column.name == name.text);
        let at = place(from).ok_or_else(|| no_column(from))?;
        if place(to).is_some() {
            let message = format!("column \"{}\" of relation \"{}\" already exists", to.text, view.name);
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        new.columns[at].name = to.text.clone();
        let before = Object::View(view.clone());
        self.with_names_kept(&before, |own| own.store.replace(Object::View(new)))
    }

    fn move_to(&mut self, object: &Object, schema: &Ident) -> Result<()> {
        self.with_names_kept(object, |own| own.move_kept(object, schema))
    }

    /// Refuses what is to be done to a sequence that a column owns, and that only its table's owner may do.
    pub(super) fn goes_with_its_table(&self, object: &Object, refusal: impl Fn() -> String) -> Result<()> {
        let Object::Sequence(sequence) = object else { return Ok(()) };
        let table = sequence.owned_by.and_then(|(table, _)| self.store.object(table));
        table.map_or(Ok(()), |table| {
            let detail = format!("Sequence \"{}\" is linked to table \"{}\".", sequence.name, table.name());
            Err(SqlError::refused_by_postgresql(refusal()).detail(detail))
        })
    }

    /// Refuses to move an object where another one has its name.
    fn fits(&self, moved: &Object, (to, schema): (Oid, &Ident)) -> Result<()> {
        if to == moved.schema() || self.store.relation(to, moved.name()).is_none() {
            return Ok(());
        }
        let (name, schema) = (moved.name(), &schema.text);
        let message = format!("relation \"{name}\" already exists in schema \"{schema}\"");
        Err(SqlError::new(SqlState::DUPLICATE_TABLE, message))
    }

    fn move_kept(&mut self, object: &Object, schema: &Ident) -> Result<()> {
        self.goes_with_its_table(object, || "cannot move an owned sequence into another schema".to_string())?;
        let Some(oid) = self.store.schema(&schema.text) else {
            let message = format!("schema \"{}\" does not exist", schema.text);
            return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message));
        };
        if self.is_temporary(oid) != self.is_temporary(object.schema()) {
            let message = "cannot move objects into or out of temporary schemas";
            return Err(SqlError::refused_by_postgresql(message));
        }
        if !matches!(object, Object::Type(_)) {
            self.fits(object, (oid, schema))?;
        }
        let mut moved = object.clone();
        match &mut moved {
            Object::Table(it) => it.schema = oid,
            Object::View(it) => it.schema = oid,
            Object::Sequence(it) => it.schema = oid,
            Object::Index(it) => it.schema = oid,
            Object::Type(it) => it.schema = oid,
            _ => {}
        }
        self.store.replace(moved)?;
        for index in self.store.indexes(object.oid()) {
            let mut index = (*index).clone();
            self.fits(&Object::Index(index.clone()), (oid, schema))?;
            index.schema = oid;
            self.store.replace(Object::Index(index))?;
        }
        let owned = |other: &Object| match other {
            Object::Sequence(sequence) => sequence.owned_by.is_some_and(|(table, _)| table == object.oid()),
            _ => false,
        };
        for other in self.store.objects().into_iter().filter(|other| owned(other)) {
            let Object::Sequence(sequence) = &*other else { continue };
            self.fits(&other, (oid, schema))?;
            let moved = Object::Sequence(Sequence { schema: oid, ..sequence.clone() });
            // Others may draw its numbers.
            self.with_names_kept(&other, |own| own.store.replace(moved))?;
        }
        Ok(())
    }

    pub(super) fn column_of(&self, table: &Table, name: &Ident) -> Result<usize> {
        table.columns.iter().position(|c| !c.dropped && c.name == name.text).ok_or_else(|| {
            if SYSTEM_COLUMNS.contains(&name.text.as_str()) {
                let message = format!("cannot alter system column \"{}\"", name.text);
                return SqlError::refused_by_postgresql(message);
            }
            let message = format!("column \"{}\" of relation \"{}\" does not exist", name.text, table.name);
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })
    }

    fn constraint_of(&self, table: &Table, name: &Ident) -> Result<usize> {
        table.constraints.iter().position(|constraint| constraint.name == name.text).ok_or_else(|| {
            let message =
                format!("constraint \"{}\" of relation \"{}\" does not exist", name.text, table.name);
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })
    }

    fn alter_one(&mut self, mut table: Table, action: &AlterTable) -> Result<()> {
        match action {
            AlterTable::AddColumn { if_not_exists, column } => self.alter_add(table, *if_not_exists, column),
            AlterTable::DropColumn { name, .. } if SYSTEM_COLUMNS.contains(&name.text.as_str()) => {
                let message = format!("cannot drop system column \"{}\"", name.text);
                Err(SqlError::refused_by_postgresql(message))
            }
            AlterTable::DropColumn { if_exists, name, cascade } => {
                if *if_exists && self.column_of(&table, name).is_err() {
                    let (column, own) = (&name.text, &table.name);
                    self.notice(format!(
                        "column \"{column}\" of relation \"{own}\" does not exist, skipping"
                    ));
                    return Ok(());
                }
                let at = self.column_of(&table, name)?;
                self.drop_all(&[Goes::Part(table.oid, Part::Column(at as u16))], *cascade)
            }
            AlterTable::Column(name, change) => {
                let at = self.column_of(&table, name)?;
                self.alter_column(table, at, change)
            }
            AlterTable::AddConstraint(constraint) => self.alter_add_constraint(&mut table, constraint),
            AlterTable::DropConstraint { if_exists, name, cascade } => {
                if *if_exists && self.constraint_of(&table, name).is_err() {
                    let (constraint, own) = (&name.text, &table.name);
                    self.notice(format!(
                        "constraint \"{constraint}\" of relation \"{own}\" does not exist, skipping"
                    ));
                    return Ok(());
                }
                let at = self.constraint_of(&table, name)?;
                self.refuse_waiting_parent(&table.constraints[at].rule)?;
                self.drop_all(&[Goes::Part(table.oid, Part::Constraint(table.constraints[at].oid))], *cascade)
            }
            AlterTable::ValidateConstraint(name) => {
                let at = self.constraint_of(&table, name)?;
                if !matches!(table.constraints[at].rule, Rule::ForeignKey { .. } | Rule::Check { .. }) {
                    let message = format!(
                        "constraint \"{}\" of relation \"{}\" is not a foreign key or check constraint",
                        name.text, table.name
                    );
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                }
                self.check_rows(&table, &table.constraints[at].clone())?;
                table.constraints[at].not_valid = false;
                self.store.replace(Object::Table(table))
            }
            AlterTable::AlterConstraint { name, deferrable, deferred } => {
                let at = self.constraint_of(&table, name)?;
                let constraint = &mut table.constraints[at];
                if !matches!(constraint.rule, Rule::ForeignKey { .. }) {
                    let (name, own) = (&name.text, &table.name);
                    let message = format!(
                        "constraint \"{name}\" of relation \"{own}\" is not a foreign key constraint"
                    );
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                }
                (constraint.deferrable, constraint.deferred) = (*deferrable, *deferred);
                self.store.replace(Object::Table(table))
            }
            AlterTable::RenameColumn(from, to) => {
                let at = self.column_of(&table, from).map_err(|error| match error.state {
                    SqlState::UNDEFINED_COLUMN => no_column(from),
                    _ => error,
                })?;
                if self.column_of(&table, to).is_ok() {
                    let message =
                        format!("column \"{}\" of relation \"{}\" already exists", to.text, table.name);
                    return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
                }
                check_column_name(&to.text)?;
                let before = Object::Table(table.clone());
                table.columns[at].name = to.text.clone();
                self.with_names_kept(&before, |own| own.store.replace(Object::Table(table)))
            }
            AlterTable::RenameConstraint(from, to) => {
                let at = self.constraint_of(&table, from)?;
                if index_of(&table.constraints[at].rule).is_some() {
                    self.relation_exists(table.schema, &to.text, false)?;
                }
                if table.constraints.iter().any(|constraint| constraint.name == to.text) {
                    let (name, own) = (&to.text, &table.name);
                    let message = format!("constraint \"{name}\" for relation \"{own}\" already exists");
                    return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
                }
                table.constraints[at].name = to.text.clone();
                if let Some(index) =
                    index_of(&table.constraints[at].rule).and_then(|oid| self.store.object(oid))
                {
                    self.store.replace(renamed(&index, &to.text))?;
                }
                self.store.replace(Object::Table(table))
            }
            _ => Ok(()),
        }
    }

    fn alter_column(&mut self, mut table: Table, at: usize, change: &AlterColumn) -> Result<()> {
        let name = table.columns[at].name.clone();
        match change {
            AlterColumn::SetDefault(..) | AlterColumn::DropDefault
                if table.columns[at].identity.is_some() || table.columns[at].generated.is_some() =>
            {
                let (kind, word) = match table.columns[at].identity {
                    Some(_) => ("an identity", "IDENTITY"),
                    None => ("a generated", "EXPRESSION"),
                };
                let message = format!("column \"{name}\" of relation \"{}\" is {kind} column", table.name);
                let error = SqlError::new(SqlState::SYNTAX_ERROR, message);
                let hint = format!("Use ALTER TABLE ... ALTER COLUMN ... DROP {word} instead.");
                let drops = matches!(change, AlterColumn::DropDefault);
                return Err(if drops { error.hint(hint) } else { error });
            }
            AlterColumn::SetDefault(expr, sql) => {
                table.columns[at].default = self.default(&table, expr, sql, table.columns[at].ty())?;
                let shared = Arc::new(table.clone());
                self.with_binder(|binder| binder.default_of(&shared, at).map(|_| ()))?;
            }
            AlterColumn::DropDefault => table.columns[at].default = None,
            AlterColumn::SetNotNull => {
                self.check_not_null(&table, at)?;
                table.columns[at].not_null = true;
            }
            AlterColumn::DropNotNull => {
                refuse_identity_null(&table, at)?;
                let is_key = |constraint: &Constraint| match &constraint.rule {
                    Rule::PrimaryKey { columns, .. } => columns.contains(&(at as u16)),
                    _ => false,
                };
                if table.constraints.iter().any(is_key) {
                    let message = format!("column \"{name}\" is in a primary key");
                    return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
                }
                table.columns[at].not_null = false;
            }
            AlterColumn::Type { name, collation, using } => {
                let ty = self.column_type(name)?.0;
                let collation = self.check_collation(ty.oid, collation.as_ref());
                table.columns[at].collation = collation.map_err(SqlError::nowhere)?;
                return self.alter_type_of(table, at, ty, using.as_ref());
            }
            AlterColumn::Compression(method) => {
                return self.check_compression(table.columns[at].type_oid, Some(method));
            }
            AlterColumn::Statistics(target) => {
                table.columns[at].statistics = self.statistics_target(*target)?
            }
            AlterColumn::Storage(way) => {
                table.columns[at].storage = self.storage_of(table.columns[at].type_oid, way)?;
            }
            AlterColumn::AddIdentity { always, options } => {
                let (column, own) = (&table.columns[at], &table.name);
                super::table::check_identity_type(column.type_oid)?;
                let refused = |state, what: String| {
                    Err(SqlError::new(state, format!("column \"{name}\" of relation \"{own}\" {what}")))
                };
                let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
                let is_made = column.default.is_some() || column.generated.is_some();
                let why = match () {
                    () if !column.not_null => "must be declared NOT NULL before identity can be added",
                    () if column.identity.is_some() => "is already an identity column",
                    () if is_made => "already has a default value",
                    () => "",
                };
                if !why.is_empty() {
                    return refused(state, why.into());
                }
                let ty = table.columns[at].type_oid;
                let sequence = self.owned_sequence(&table, &name, at as u16, ty, options)?.0;
                table.columns[at].identity = Some(Identity { always: *always, sequence });
            }
            AlterColumn::SetIdentity { always, options } => {
                let Some(identity) = &mut table.columns[at].identity else {
                    let message =
                        format!("column \"{name}\" of relation \"{}\" is not an identity column", table.name);
                    return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
                };
                identity.always = always.unwrap_or(identity.always);
                let sequence = identity.sequence;
                self.change_sequence(sequence, None, options)?;
            }
            AlterColumn::DropIdentity { if_exists } => match table.columns[at].identity.take() {
                Some(identity) => self.store.remove(identity.sequence)?,
                None => {
                    let message =
                        format!("column \"{name}\" of relation \"{}\" is not an identity column", table.name);
                    if *if_exists {
                        self.notice(format!("{message}, skipping"));
                        return Ok(());
                    }
                    return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
                }
            },
        }
        self.store.replace(Object::Table(table))
    }

    /// Refuses NULLs in a column's rows.
    pub(super) fn check_not_null(&self, table: &Table, at: usize) -> Result<()> {
        let table = Arc::new(table.clone());
        self.each_row(&table, |row| if row[at].is_null() { Err(contains_null(&table, at)) } else { Ok(()) })
    }

    pub(super) fn each_row(
        &self,
        table: &Arc<Table>,
        mut check: impl FnMut(&[Value]) -> Result<()>,
    ) -> Result<()> {
        let mut cursor = Cursor::default();
        while !cursor.done {
            self.start.interrupt.check()?;
            let batch = self.store.scan(table, &Range::default(), Purpose::Hold, &mut cursor, 256)?;
            batch.iter().try_for_each(|row| check(&row.values))?;
        }
        Ok(())
    }

    /// Looks at all rows for a new constraint.
    pub(super) fn check_rows(&self, table: &Table, constraint: &Constraint) -> Result<()> {
        let shared = Arc::new(table.clone());
        self.with_context(|ctx, path| {
            let exec = Exec::new(&self.store, ctx, &[], &self.start.interrupt, path, (0, 0));
            let Rule::Check { condition } = &constraint.rule else {
                return exec.check_all(&shared, constraint);
            };
            let binder = crate::bind::Binder::new(ctx, &self.store, path, Vec::new());
            let condition = binder.check_of(&shared, &condition.sql)?;
            let checker = Exec::new(&self.store, ctx, &[], &self.start.interrupt, path, (0, 0));
            self.each_row(&shared, |row| {
                if checker.eval(&condition, &Env { row, outer: None })?.as_bool() == Some(false) {
                    let (name, own) = (&constraint.name, &table.name);
                    let message =
                        format!("check constraint \"{name}\" of relation \"{own}\" is violated by some row");
                    return Err(SqlError::new(SqlState::CHECK_VIOLATION, message));
                }
                Ok(())
            })
        })
    }
}

fn no_column(name: &Ident) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{}\" does not exist", name.text))
}

/// A column of numbers of its own has no NULLs.
fn refuse_identity_null(table: &Table, at: usize) -> Result<()> {
    if table.columns[at].identity.is_none() {
        return Ok(());
    }
    let (name, own) = (&table.columns[at].name, &table.name);
    let message = format!("column \"{name}\" of relation \"{own}\" is an identity column");
    Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
}

fn type_of(object: &Object, column: &Ident) -> Option<Type> {
    let Object::Table(table) = object else { return None };
    table.columns.iter().find(|it| !it.dropped && it.name == column.text).map(Column::ty)
}

pub(super) fn contains_null(table: &Table, at: usize) -> SqlError {
    let (name, own) = (&table.columns[at].name, &table.name);
    let message = format!("column \"{name}\" of relation \"{own}\" contains null values");
    SqlError::new(SqlState::NOT_NULL_VIOLATION, message)
}

fn renamed(object: &Object, name: &str) -> Object {
    let (mut object, name) = (object.clone(), name.to_string());
    match &mut object {
        Object::Schema(it) => it.name = name,
        Object::Role(it) => it.name = name,
        Object::Table(it) => it.name = name,
        Object::Index(it) => it.name = name,
        Object::Sequence(it) => it.name = name,
        Object::View(it) => it.name = name,
        Object::Type(it) => it.name = name,
    }
    object
}
