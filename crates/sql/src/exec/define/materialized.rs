//! Materialized views: a table whose definition has a query (`Table::materialized`), and whose rows are those
//! that the query gave last.
//!
//! 1. Rows come by CREATE and REFRESH alone; INSERT and its kin are refused where statements are bound.
//! 2. The query is kept, bound and followed through renames as that of a view is (names.rs), and run with the
//!    rights of the owner.
//! 3. REFRESH has the relation for itself and gives it other rows at once, as TRUNCATE does. CONCURRENTLY it
//!    changes those rows that differ, as DELETE and INSERT do: others go on reading, and it takes part in
//!    their order as any change of rows. Both follow other changes of the catalog: of two the second waits.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::catalog::object::{Index, Indexed, Materialized, Object, Table};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::privilege;
use crate::exec::session::LocalSession;
use crate::exec::spill::{Space, TupleStore};
use crate::exec::store::{Cursor, Found, Purpose, Range, Store, Tolerated, lost};
use crate::exec::{Row, system_tables};
use crate::parse::ast::{self, AlterColumn, AlterTable, Ident, ObjectKind, Path, Statement};
use crate::progress::{Command, Count, Phase, Tally, Telling};
use crate::session::Interrupt;
use crate::storage::codec;
use crate::types::value::{Record, Value};
use crate::types::{Oid, oid, text};

/// How many rows are read at once.
const BATCH: usize = 256;
const NOT_THERE: &str = "This operation is not supported for materialized views.";

fn wrong_kind(message: String) -> SqlError {
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
}

impl<S: Store> LocalSession<S> {
    /// CREATE MATERIALIZED VIEW; `text` is that of the query.
    pub(super) fn create_materialized(
        &mut self,
        ast::Into { name: path, storing, .. }: &ast::Into,
        (names, fine): (&[Ident], bool),
        (query, text): (&Statement, &str),
        with_data: bool,
    ) -> Result<String> {
        let tag = "CREATE MATERIALIZED VIEW".to_string();
        if matches!(query, Statement::Query(query) if query.changes_rows()) {
            let message = "materialized views must not use data-modifying statements in WITH";
            return Err(SqlError::refused_by_postgresql(message));
        }
        let (plan, parameters) = self.plan(query, Vec::new())?;
        let kept = self.lasting_query(text)?;
        let of_own = |oid: &u32| self.store.object(*oid).is_some_and(|it| self.is_temporary(it.schema()));
        let why = match () {
            () if kept.depends.iter().any(of_own) => "must not use temporary tables or views",
            () if !parameters.is_empty() => "may not be defined using bound parameters",
            () if storing.unlogged => "cannot be unlogged",
            () => "",
        };
        if !why.is_empty() {
            return Err(SqlError::refused_by_postgresql(format!("materialized views {why}")));
        }
        let schema = self.target_schema(path, false).map_err(SqlError::nowhere)?;
        if self.is_temporary(schema) {
            let message = "cannot create temporary table within security-restricted operation";
            return Err(privilege::refused(message));
        }
        if self.relation_exists(schema, path.last(), fine)? {
            return Ok(tag);
        }
        let mut table =
            self.table_of_query(schema, path.last(), plan.columns().unwrap_or_default(), names)?;
        super::storing::store_in(&mut table, storing)?;
        table.materialized = Some(Materialized { query: kept, populated: with_data });
        if !with_data {
            self.store.create(Object::Table(table))?;
            return Ok(tag);
        }
        self.may_run(&plan)?;
        let interrupt = self.start.interrupt.clone();
        let _telling = self.tells(&interrupt, Command::CreateMaterializedView, table.oid);
        self.store.create(Object::Table(table.clone()))?;
        let (rows, count) = self.rows_of(&plan, &[])?;
        self.put_all(&Arc::new(table), &rows)?;
        Ok(format!("SELECT {count}"))
    }

    /// What this session tells from here on of a command that gives a table its rows.
    pub(super) fn tells<'i>(&self, interrupt: &'i Interrupt, command: Command, table: Oid) -> Telling<'i> {
        let telling = interrupt.progress().begin(command, (table, 0), self.shared.surroundings.clock_us());
        interrupt.progress().enter(Phase::Reading);
        telling
    }

    /// Puts rows into a table that has no others.
    pub(super) fn put_all(&self, table: &Arc<Table>, rows: &TupleStore) -> Result<()> {
        let progress = self.start.interrupt.progress();
        progress.enter(Phase::Changing);
        progress.add(Count::Total, rows.len() as u64);
        let mut tally = Tally::new(progress, Count::Done);
        rows.each(|row| {
            self.start.interrupt.check()?;
            tally.add(1);
            self.store.insert(table, row, Tolerated::None).map(|_| true)
        })?;
        Ok(())
    }

    /// REFRESH MATERIALIZED VIEW.
    pub(crate) fn refresh_materialized(
        &mut self,
        path: &Path,
        concurrently: bool,
        with_data: bool,
    ) -> Result<()> {
        let (table, it) = self.refreshed(path)?;
        let interrupt = self.start.interrupt.clone();
        let _telling = self.tells(&interrupt, Command::RefreshMaterializedView, table.oid);
        if !concurrently {
            self.store.lock(&[table.oid], false)?;
            let rows = if with_data { self.rows_now(&table, &it)? } else { TupleStore::none() };
            return self.replace_rows(&table, it, &rows, with_data);
        }
        let message = match () {
            () if !it.populated => "CONCURRENTLY cannot be used when the materialized view is not populated",
            () if !with_data => {
                let message = "CONCURRENTLY and WITH NO DATA options cannot be used together";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            () => "",
        };
        if !message.is_empty() {
            return Err(SqlError::refused_by_postgresql(message));
        }
        if !self.store.indexes(table.oid).iter().any(|index| tells_rows_apart(index)) {
            let schema = self.store.object(table.schema).map_or(String::new(), |it| it.name().to_string());
            let name =
                format!("{}.{}", crate::func::quote_ident(&schema), crate::func::quote_ident(&table.name));
            let message = format!("cannot refresh materialized view \"{name}\" concurrently");
            let hint = "Create a unique index with no WHERE clause on one or more columns of the \
                        materialized view.";
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).hint(hint));
        }
        let rows = self.rows_now(&table, &it)?;
        self.change_rows(&table, &rows)
    }

    /// The materialized view of a name, which the role may refresh.
    fn refreshed(&self, path: &Path) -> Result<(Arc<Table>, Materialized)> {
        let no_view = || {
            Err(SqlError::refused_by_postgresql(format!("\"{}\" is not a materialized view", path.last())))
        };
        let Some(object) = self.find(path)? else {
            let listed = self.shared.variables.borrow().search_path.clone();
            if system_tables::find(path.schema(), path.last(), &listed).is_some() {
                return no_view();
            }
            self.missing("relation", SqlState::UNDEFINED_TABLE, path, false)?;
            return no_view();
        };
        let Object::Table(table) = &*object else {
            return Err(wrong_kind(format!("\"{}\" is not a table or materialized view", path.last())));
        };
        self.must_own(&object)?;
        match &table.materialized {
            Some(it) => Ok((Arc::new(table.clone()), it.clone())),
            None => no_view(),
        }
    }

    /// The rows that the query gives now.
    fn rows_now(&mut self, table: &Table, it: &Materialized) -> Result<TupleStore> {
        let mut parsed = crate::parse::parse(&it.query.sql)?;
        let Some(parsed) = parsed.pop() else { return Err(lost(table.oid)) };
        let (plan, _) =
            self.plan_as(table.owner, &parsed.statement, Vec::new()).map_err(SqlError::nowhere)?;
        Ok(self.rows_of(&plan, &[])?.0)
    }

    /// Gives a materialized view these rows and no others.
    fn replace_rows(
        &self,
        table: &Arc<Table>,
        it: Materialized,
        rows: &TupleStore,
        populated: bool,
    ) -> Result<()> {
        self.store.truncate(table)?;
        let now = || match self.store.object(table.oid).as_deref() {
            Some(Object::Table(table)) => Ok(table.clone()),
            _ => Err(lost(table.oid)),
        };
        if it.populated != populated {
            let materialized = Some(Materialized { populated, ..it });
            self.store.replace(Object::Table(Table { materialized, ..now()? }))?;
        }
        let put = self.with_context(|_, _| self.put_all(&Arc::new(now()?), rows));
        put.map_err(|mut error| {
            let index = error.constraint.clone();
            if let Some(index) = index.filter(|_| error.state == SqlState::UNIQUE_VIOLATION) {
                error.message = format!("could not create unique index \"{index}\"");
                error.detail =
                    error.detail.take().map(|detail| detail.replace("already exists", "is duplicated"));
            }
            error
        })
    }

    /// Takes out the rows that are not among these, and puts in those that are not there.
    fn change_rows(&self, table: &Arc<Table>, rows: &TupleStore) -> Result<()> {
        let mut there: BTreeMap<Vec<u8>, Vec<Found>> = BTreeMap::new();
        let mut cursor = Cursor::default();
        while !cursor.done {
            self.start.interrupt.check()?;
            for row in self.store.scan(table, &Range::default(), Purpose::Hold, &mut cursor, BATCH)? {
                there.entry(exact(&row.values)?).or_default().push(row);
            }
        }
        let mut new = self.with_context(|ctx, _| Ok(TupleStore::new(Space::of(&ctx))))?;
        let mut seen = BTreeSet::new();
        rows.each(|row| {
            self.start.interrupt.check()?;
            let form = exact(row)?;
            if !row.iter().any(Value::is_null) && !seen.insert(form.clone()) {
                return Err(self.twice(table, row.to_vec()));
            }
            if there.get_mut(&form).and_then(Vec::pop).is_none() {
                new.push(row.to_vec())?;
            }
            Ok(true)
        })?;
        self.start.interrupt.progress().enter(Phase::Removing);
        for row in there.into_values().flatten() {
            self.start.interrupt.check()?;
            self.store.delete(table, std::slice::from_ref(&row))?;
        }
        self.put_all(table, &new)
    }

    #[cold]
    fn twice(&self, table: &Table, values: Row) -> SqlError {
        let name = &table.name;
        let message = format!(
            "new data for materialized view \"{name}\" contains duplicate rows without any null columns"
        );
        let error = SqlError::new(SqlState::CARDINALITY_VIOLATION, message);
        let names = table.columns.iter().map(|column| column.name.as_str().into()).collect();
        let types = table.columns.iter().map(|column| column.type_oid).collect();
        let row = Value::Record(Arc::new(Record { names, types, values }));
        let shown = self.with_context(|ctx, _| text::output(&ctx, oid::RECORD, &row));
        match shown {
            Ok(shown) => error.detail(format!("Row: {shown}")),
            Err(_) => error,
        }
    }

    /// Refuses what ALTER does not do to what is no table, or ALTER MATERIALIZED VIEW to something else.
    pub(super) fn check_altered(&self, kind: ObjectKind, object: &Object, action: &AlterTable) -> Result<()> {
        let is_one = matches!(object, Object::Table(table) if table.materialized.is_some());
        let of_other = match kind {
            ObjectKind::MaterializedView => !is_one,
            ObjectKind::View => is_one,
            _ => false,
        };
        if of_other && !matches!(action, AlterTable::RenameColumn(..)) {
            return Err(wrong_kind(format!("\"{}\" is not a {}", object.name(), kind.word())));
        }
        let sets_default =
            matches!(action, AlterTable::Column(_, AlterColumn::SetDefault(..) | AlterColumn::DropDefault));
        let detail = match object {
            _ if is_one => NOT_THERE,
            Object::View(_) if !sets_default => "This operation is not supported for views.",
            Object::Sequence(_) if !matches!(action, AlterTable::Logged(_)) => {
                "This operation is not supported for sequences."
            }
            Object::Index(_) => "This operation is not supported for indexes.",
            _ => return Ok(()),
        };
        let Some(what) = refused(action) else { return Ok(()) };
        let message = format!("ALTER action {what} cannot be performed on relation \"{}\"", object.name());
        Err(wrong_kind(message).detail(detail))
    }
}

/// Whether rows can be told apart by an index for REFRESH CONCURRENTLY.
fn tells_rows_apart(index: &Index) -> bool {
    let is_plain = index.columns.iter().all(|column| matches!(column.of, Indexed::Column(_)));
    index.unique && index.predicate.is_none() && is_plain
}

/// A row's values as they are, to the last bit.
fn exact(row: &[Value]) -> Result<Vec<u8>> {
    let mut form = Vec::new();
    row.iter().try_for_each(|value| codec::write(value, &mut form))?;
    Ok(form)
}

/// What a materialized view has no use for, by PostgreSQL's name of it.
fn refused(action: &AlterTable) -> Option<&'static str> {
    Some(match action {
        AlterTable::AddColumn { .. } => "ADD COLUMN",
        AlterTable::DropColumn { .. } => "DROP COLUMN",
        AlterTable::AddConstraint(_) => "ADD CONSTRAINT",
        AlterTable::DropConstraint { .. } => "DROP CONSTRAINT",
        AlterTable::ValidateConstraint(_) => "VALIDATE CONSTRAINT",
        AlterTable::AlterConstraint { .. } => "ALTER CONSTRAINT",
        AlterTable::Column(_, change) => match change {
            AlterColumn::SetDefault(..) | AlterColumn::DropDefault => "ALTER COLUMN ... SET DEFAULT",
            AlterColumn::SetNotNull => "ALTER COLUMN ... SET NOT NULL",
            AlterColumn::DropNotNull => "ALTER COLUMN ... DROP NOT NULL",
            AlterColumn::Type { .. } => "ALTER COLUMN ... SET DATA TYPE",
            AlterColumn::AddIdentity { .. } => "ALTER COLUMN ... ADD IDENTITY",
            AlterColumn::SetIdentity { .. } => "ALTER COLUMN ... SET",
            AlterColumn::DropIdentity { .. } => "ALTER COLUMN ... DROP IDENTITY",
            AlterColumn::Compression(_) | AlterColumn::Storage(_) | AlterColumn::Statistics(_) => {
                return None;
            }
        },
        AlterTable::Logged(true) => "SET LOGGED",
        AlterTable::Logged(false) => "SET UNLOGGED",
        AlterTable::Triggers { enable, name, keys } => match (enable, name, keys) {
            (true, Some(_), _) => "ENABLE TRIGGER",
            (true, None, true) => "ENABLE TRIGGER ALL",
            (true, None, false) => "ENABLE TRIGGER USER",
            (false, Some(_), _) => "DISABLE TRIGGER",
            (false, None, true) => "DISABLE TRIGGER ALL",
            (false, None, false) => "DISABLE TRIGGER USER",
        },
        AlterTable::SwitchRule { enable: true, .. } => "ENABLE RULE",
        AlterTable::SwitchRule { enable: false, .. } => "DISABLE RULE",
        AlterTable::NoInherit(_) => "NO INHERIT",
        AlterTable::Rename(_)
        | AlterTable::RenameColumn(..)
        | AlterTable::RenameConstraint(..)
        | AlterTable::SetSchema(_)
        | AlterTable::Owner(_)
        | AlterTable::Store(_)
        | AlterTable::ResetOptions(_)
        | AlterTable::ClusterOn(_)
        | AlterTable::WithoutCluster
        | AlterTable::Nothing => return None,
    })
}
