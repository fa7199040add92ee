//! DROP and what depends on what is dropped; TRUNCATE.
//!
//! 1. All that one statement names goes at once. What else could not be without it goes before it
//!    (CASCADE), or nothing does (2BP01); catalog/depend.rs finds it.
use std::sync::Arc;

use super::index_of;
use crate::catalog::depend::{Found, Goes, Objects, Part};
use crate::catalog::object::{Index, Object, Rule, Table, UserTypeKind};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::Waiting;
use crate::exec::privilege;
use crate::exec::session::LocalSession;
use crate::exec::store::Store;
use crate::parse::ast::{ObjectKind, Path};
use crate::types::value::Value;

impl<S: Store> LocalSession<S> {
    pub(super) fn drop_named(
        &mut self,
        kind: ObjectKind,
        if_exists: bool,
        paths: &[Path],
        (cascade, concurrently): (bool, bool),
    ) -> Result<()> {
        if concurrently && (paths.len() > 1 || cascade) {
            let what = if paths.len() > 1 { "dropping multiple objects" } else { "CASCADE" };
            let message = format!("DROP INDEX CONCURRENTLY does not support {what}");
            return Err(SqlError::refused_by_postgresql(message));
        }
        if kind == ObjectKind::Role {
            return paths.iter().try_for_each(|path| self.drop_role(path, if_exists));
        }
        let (mut first, mut found) = (Vec::new(), Vec::new());
        for path in paths {
            let object = match kind {
                ObjectKind::Schema => self.schema_to_drop(path, if_exists)?,
                ObjectKind::Type | ObjectKind::Domain => self.type_to_drop(kind, path, if_exists)?,
                ObjectKind::Table
                | ObjectKind::View
                | ObjectKind::Index
                | ObjectKind::Sequence
                | ObjectKind::MaterializedView => self.relation_to_drop(kind, path, if_exists)?,
                _ if if_exists => {
                    self.notice(format!("{} \"{}\" does not exist, skipping", kind.word(), path.shown()));
                    None
                }
                _ => {
                    let what = format_args!("DROP {}", kind.word().to_uppercase());
                    return Err(SqlError::unsupported(
                        what,
                        "There can be none; with IF EXISTS it is passed over.",
                    ));
                }
            };
            let goes = object.as_ref().map(|object| Goes::Object(object.oid()));
            first.extend(goes.filter(|goes| !first.contains(goes)));
            found.extend(object);
        }
        for object in &found {
            match &**object {
                Object::Index(index) => self.refuse_constraint_index(index)?,
                Object::Sequence(sequence) => self.refuse_identity(sequence.oid, object)?,
                _ => {}
            }
        }
        self.drop_all(&first, cascade)
    }

    fn relation_to_drop(
        &self,
        kind: ObjectKind,
        path: &Path,
        if_exists: bool,
    ) -> Result<Option<Arc<Object>>> {
        let Some(object) = self.find(path)? else {
            if let Some(schema) = path.schema().filter(|name| self.store.schema(name).is_none()) {
                let schema = Path { parts: vec![schema.to_string()], pos: path.pos };
                self.missing("schema", SqlState::INVALID_SCHEMA_NAME, &schema, if_exists)?;
                return Ok(None);
            }
            let state = match kind {
                ObjectKind::Index => SqlState::UNDEFINED_OBJECT,
                _ => SqlState::UNDEFINED_TABLE,
            };
            let path = Path { parts: vec![path.last().to_string()], pos: path.pos };
            self.missing(kind.word(), state, &path, if_exists)?;
            return Ok(None);
        };
        if kind == ObjectKind::Table {
            self.refuse_waiting(&object, "DROP TABLE")?;
        }
        let fits = kind.word() == object.kind();
        if !fits {
            let article = if kind == ObjectKind::Index { "an" } else { "a" };
            let message = format!("\"{}\" is not {article} {}", path.last(), kind.word());
            let hint = format!(
                "Use DROP {} to remove {} {}.",
                object.kind().to_uppercase(),
                if object.kind() == "index" { "an" } else { "a" },
                object.kind()
            );
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).hint(hint));
        }
        self.must_own_or_schema(&object)?;
        Ok(Some(object))
    }

    fn schema_to_drop(&self, path: &Path, if_exists: bool) -> Result<Option<Arc<Object>>> {
        let Some(object) = self.store.schema(path.last()).and_then(|oid| self.store.object(oid)) else {
            self.missing("schema", SqlState::INVALID_SCHEMA_NAME, path, if_exists)?;
            return Ok(None);
        };
        self.must_own(&object)?;
        Ok(Some(object))
    }

    fn type_to_drop(&self, kind: ObjectKind, path: &Path, if_exists: bool) -> Result<Option<Arc<Object>>> {
        let Ok(user) = self.user_type(path, "a user's type") else {
            if let Some(schema) = path.schema().filter(|name| self.store.schema(name).is_none()) {
                let schema = Path { parts: vec![schema.to_string()], pos: path.pos };
                self.missing("schema", SqlState::INVALID_SCHEMA_NAME, &schema, if_exists)?;
                return Ok(None);
            }
            self.missing("type", SqlState::UNDEFINED_OBJECT, path, if_exists)?;
            return Ok(None);
        };
        if kind == ObjectKind::Domain && !matches!(user.kind, UserTypeKind::Domain { .. }) {
            let message = format!("\"{}\" is not a domain", path.shown());
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        let object = Arc::new(Object::Type(user));
        self.must_own_or_schema(&object)?;
        Ok(Some(object))
    }

    /// The owner of a schema may drop what is in it.
    fn must_own_or_schema(&self, object: &Object) -> Result<()> {
        let schema = self.store.object(object.schema());
        match schema.filter(|schema| self.must_own(schema).is_ok()) {
            Some(_) => Ok(()),
            None => self.must_own(object),
        }
    }

    /// Refuses to change a table whose rows foreign keys wait to look at, at the end of the transaction.
    pub(super) fn refuse_waiting(&self, object: &Object, what: &str) -> Result<()> {
        let parent = |waiting: &Waiting| {
            let child = self.store.object(waiting.table);
            let Some(Object::Table(child)) = child.as_deref() else { return None };
            let mut constraints = child.constraints.iter();
            match constraints.find(|constraint| constraint.oid == waiting.constraint)?.rule {
                Rule::ForeignKey { table, .. } => Some(table),
                _ => None,
            }
        };
        let on = |waiting: &Waiting| if waiting.child { Some(waiting.table) } else { parent(waiting) };
        if !self.waiting.iter().any(|waiting| on(waiting) == Some(object.oid())) {
            return Ok(());
        }
        let message = format!("cannot {what} \"{}\" because it has pending trigger events", object.name());
        Err(SqlError::new(SqlState::OBJECT_IN_USE, message))
    }

    /// Refuses to drop a foreign key while rows of the table it refers to wait to be looked at.
    pub(super) fn refuse_waiting_parent(&self, rule: &Rule) -> Result<()> {
        match rule {
            Rule::ForeignKey { table, .. } => match self.store.object(*table) {
                Some(parent) => self.refuse_waiting(&parent, "ALTER TABLE"),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Refuses another type for a column that a view or a generated column is made of.
    pub(super) fn refuse_uses_of(&self, table: &Table, at: usize) -> Result<()> {
        let (this, name) = (Goes::Part(table.oid, Part::Column(at as u16)), &table.columns[at].name);
        let objects = Objects::new(self.store.objects());
        let found = objects.dependents_of(&[this]);
        for one in found.iter().filter(|one| one.on == this) {
            match one.what {
                Goes::Object(oid) if objects.get(oid).is_some_and(|it| it.query().is_some()) => {
                    let view = objects.get(oid).map_or(String::new(), |view| self.spelled(view));
                    let message = "cannot alter type of a column used by a view or rule";
                    let detail = format!("rule _RETURN on {view} depends on column \"{name}\"");
                    return Err(SqlError::refused_by_postgresql(message).detail(detail));
                }
                Goes::Part(of, Part::Column(other)) if of == table.oid => {
                    let other = &table.columns[usize::from(other)].name;
                    let message = "cannot alter type of a column used by a generated column";
                    let detail = format!("Column \"{name}\" is used by generated column \"{other}\".");
                    return Err(SqlError::refused_by_postgresql(message).detail(detail));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn refuse_constraint_index(&self, index: &Index) -> Result<()> {
        let owner = self.store.object(index.table);
        if let Some(Object::Table(table)) = owner.as_deref()
            && let Some(constraint) = table.constraints.iter().find(|c| index_of(&c.rule) == Some(index.oid))
        {
            let (name, constraint) = (self.visible_name(&Object::Index(index.clone())), &constraint.name);
            let own = self.visible_name(owner.as_ref().expect("it is there"));
            return Err(required(
                &format!("index {name}"),
                &format!("constraint {constraint} on table {own}"),
            ));
        }
        Ok(())
    }

    fn refuse_identity(&self, sequence: u32, object: &Object) -> Result<()> {
        for other in self.store.objects() {
            let Object::Table(table) = &*other else { continue };
            let mine = |column: &&crate::catalog::object::Column| {
                column.identity.is_some_and(|identity| identity.sequence == sequence)
            };
            if let Some(column) = table.columns.iter().find(mine) {
                let needs = format!("column {} of table {}", column.name, self.visible_name(&other));
                return Err(required(&self.spelled(object), &needs));
            }
        }
        Ok(())
    }

    /// Drops an object with all that depends on it, and tells nobody.
    pub(super) fn drop_quietly(&mut self, object: &Object) -> Result<()> {
        let objects = Objects::new(self.store.objects());
        let first = [Goes::Object(object.oid())];
        self.remove_all(&first, &objects.dependents_of(&first))
    }

    /// Drops things, and what depends on them if it may go with them.
    pub(super) fn drop_all(&mut self, first: &[Goes], cascade: bool) -> Result<()> {
        let objects = Objects::new(self.store.objects());
        // What is named last is told of first.
        let backwards: Vec<Goes> = first.iter().rev().copied().collect();
        let found = objects.dependents_of(&backwards);
        let asked: Vec<&Found> = found.iter().filter(|one| !one.is_part).collect();
        if !cascade && !asked.is_empty() {
            let what = match first {
                [only] => self.depended_name(&objects, *only),
                _ => "desired object(s)".to_string(),
            };
            let them = if first.len() > 1 { "them" } else { "it" };
            let line = |one: &&Found| {
                let (what, on) =
                    (self.depended_name(&objects, one.what), self.depended_name(&objects, one.on));
                format!("{what} depends on {on}{}", if is_array(&objects, one) { "[]" } else { "" })
            };
            let lines: Vec<String> = asked.iter().map(line).collect();
            let message = format!("cannot drop {what} because other objects depend on {them}");
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
                .detail(lines.join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        let gone: Vec<String> = asked.iter().map(|one| self.depended_name(&objects, one.what)).collect();
        self.remove_all(first, &found)?;
        self.tell_cascade(&gone);
        Ok(())
    }

    fn remove_all(&mut self, first: &[Goes], found: &[Found]) -> Result<()> {
        let all = first.iter().copied().chain(found.iter().map(|one| one.what));
        let all: Vec<Goes> = all.collect();
        all.into_iter().rev().try_for_each(|goes| self.remove(goes))
    }

    fn remove(&mut self, goes: Goes) -> Result<()> {
        let (table, part) = match goes {
            Goes::Object(oid) if self.store.object(oid).is_some() => return self.store.remove(oid),
            Goes::Object(_) => return Ok(()),
            Goes::Part(table, part) => (table, part),
        };
        let Some(Object::Table(mut table)) = self.store.object(table).as_deref().cloned() else {
            return Ok(());
        };
        match part {
            Part::Constraint(oid) => table.constraints.retain(|constraint| constraint.oid != oid),
            Part::Default(column) => {
                let column = &mut table.columns[usize::from(column)];
                (column.default, column.identity) = (None, None);
            }
            Part::Column(column) => return self.remove_column(table, usize::from(column)),
        }
        self.store.replace(Object::Table(table))
    }

    /// A column becomes a hole; what referred to it is gone.
    fn remove_column(&mut self, mut table: Table, at: usize) -> Result<()> {
        let before = Object::Table(table.clone());
        let old = Arc::new(table.clone());
        let column = &mut table.columns[at];
        column.name = format!("........pg.dropped.{}........", at + 1);
        (column.dropped, column.not_null) = (true, false);
        (column.default, column.identity, column.generated) = (None, None, None);
        let new = Arc::new(table.clone());
        // Views name the columns behind it by their places in lists of aliases.
        self.with_names_kept(&before, |own| own.store.replace(Object::Table(table)))?;
        self.store.rewrite(&old, &new, &mut |mut row| {
            row[at] = Value::Null;
            Ok(row)
        })
    }

    /// As messages about dependencies name it.
    fn depended_name(&self, objects: &Objects, what: Goes) -> String {
        let named =
            |oid| objects.get(oid).map_or_else(|| format!("object {oid}"), |object| self.spelled(object));
        match what {
            Goes::Object(oid) => named(oid),
            Goes::Part(table, Part::Constraint(oid)) => {
                let name = objects.constraint(table, oid).map_or("?", |constraint| &constraint.name);
                format!("constraint {name} on {}", named(table))
            }
            Goes::Part(table, Part::Default(column) | Part::Column(column)) => {
                let of = objects.table(table).and_then(|table| table.columns.get(usize::from(column)));
                let is_default = matches!(what, Goes::Part(_, Part::Default(_)));
                let word = if is_default { "default value for column" } else { "column" };
                format!("{word} {} of {}", of.map_or("?", |column| &column.name), named(table))
            }
        }
    }

    fn may_truncate(&self, table: &Table) -> Result<()> {
        let object = Object::Table(table.clone());
        self.allow_on(&object, privilege::TRUNCATE)?;
        self.refuse_waiting(&object, "TRUNCATE")
    }

    pub(super) fn truncate(&mut self, paths: &[Path], restart: bool, cascade: bool) -> Result<()> {
        let mut tables = Vec::new();
        for path in paths {
            if self.find(path)?.is_some_and(|object| object.query().is_some()) {
                let message = format!("\"{}\" is not a table", path.last());
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            let table = self.with_binder(|binder| binder.target_table(path))?;
            self.may_truncate(&table)?;
            tables.push(table);
        }
        loop {
            let is_among = |list: &[Arc<Table>], one: &Table| list.iter().any(|other| other.oid == one.oid);
            let mut further: Vec<Arc<Table>> = Vec::new();
            for table in &tables {
                for child in self.store.referencing(table.oid) {
                    if is_among(&tables, &child) || is_among(&further, &child) {
                        continue;
                    }
                    if !cascade {
                        let message = "cannot truncate a table referenced in a foreign key constraint";
                        let detail = format!("Table \"{}\" references \"{}\".", child.name, table.name);
                        let hint = format!(
                            "Truncate table \"{}\" at the same time, or use TRUNCATE ... CASCADE.",
                            child.name
                        );
                        return Err(SqlError::refused_by_postgresql(message).detail(detail).hint(hint));
                    }
                    further.push(child);
                }
            }
            if further.is_empty() {
                break;
            }
            further.sort_by_key(|table| table.oid);
            for child in further {
                self.notice(format!("truncate cascades to table \"{}\"", child.name));
                self.may_truncate(&child)?;
                tables.push(child);
            }
        }
        for table in &tables {
            self.store.truncate(table)?;
            for object in self.store.objects() {
                if let Object::Sequence(sequence) = &*object
                    && restart
                    && sequence.owned_by.is_some_and(|(owner, _)| owner == table.oid)
                {
                    self.store.begin_numbers(sequence.oid, Some(sequence.start))?;
                }
            }
        }
        Ok(())
    }
}

fn required(what: &str, by: &str) -> SqlError {
    let message = format!("cannot drop {what} because {by} requires it");
    let hint = format!("You can drop {by} instead.");
    SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message).hint(hint)
}

/// Whether a column has the array type of what it depends on.
fn is_array(objects: &Objects, found: &Found) -> bool {
    let (Goes::Part(table, Part::Column(column)), Goes::Object(on)) = (found.what, found.on) else {
        return false;
    };
    let of = objects.table(table).and_then(|table| table.columns.get(usize::from(column)));
    matches!((of, objects.get(on)), (Some(of), Some(Object::Type(ty))) if of.type_oid == ty.array)
}
