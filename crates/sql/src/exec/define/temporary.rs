//! Temporary objects as statements see them: which names are theirs, and what a commit does to them.
//!
//! They are in a schema of the session's own, which is looked at before all others unless `search_path` names
//! it, and which new objects go to when they are said to be temporary, or when the path begins with it.
use std::sync::Arc;

use crate::catalog::object::{Object, OnCommit, Table};
use crate::error::{Result, SqlError};
use crate::exec::session::LocalSession;
use crate::exec::store::{Cursor, Purpose, Range, Store};
use crate::parse::ast::{self, CopySource, ObjectKind, Path, Statement};
use crate::types::Oid;

impl<S: Store> LocalSession<S> {
    /// Whether this is the schema of the session's temporary objects.
    pub(crate) fn is_temporary(&self, schema: Oid) -> bool {
        self.store.own_schema(false).is_ok_and(|own| own == Some(schema))
    }

    /// Whether a name leads to a temporary relation.
    pub(crate) fn names_temporary(&self, path: &Path) -> bool {
        let Ok(Some(_)) = self.store.own_schema(false) else { return false };
        let relation = |name: &str| self.store.relation(self.store.schema(name)?, path.last());
        let found = match path.schema() {
            Some(schema) => relation(schema),
            None => self.search_path().iter().find_map(|schema| relation(schema)),
        };
        found.is_some_and(|object| self.is_temporary(object.schema()))
    }

    /// Whether a statement that defines something is about temporary objects only.
    pub(crate) fn defines_temporary(&self, statement: &Statement) -> bool {
        let all = |paths: &[Path]| paths.iter().all(|path| self.names_temporary(path));
        match statement {
            Statement::CreateTable(table) => table.temporary,
            Statement::CreateTableAs { into, .. } => into.temporary,
            Statement::CreateSequence { temporary, .. } | Statement::CreateView { temporary, .. } => {
                *temporary
            }
            Statement::CreateIndex(index) => self.names_temporary(&index.table),
            Statement::AlterTable { name, .. } | Statement::AlterSequence { name, .. } => {
                self.names_temporary(name)
            }
            Statement::Drop { kind, names, .. } => {
                use ObjectKind::{Index, Sequence, Table, View};
                matches!(kind, Table | View | Index | Sequence) && all(names)
            }
            Statement::Truncate { tables, .. } => all(tables),
            _ => false,
        }
    }

    /// Whether a statement changes rows of a temporary table, which read-only transactions may do.
    pub(crate) fn writes_temporary(&self, statement: &Statement) -> bool {
        let (with, table) = match statement {
            Statement::Insert(it) => (&it.with, &it.table),
            Statement::Update(it) => (&it.with, &it.table),
            Statement::Delete(it) => (&it.with, &it.table),
            Statement::Merge(it) => (&it.with, &it.table),
            Statement::Copy(it) => match &it.source {
                CopySource::Table(table, _) => return self.names_temporary(table),
                _ => return false,
            },
            Statement::Query(query) => return self.locks_temporary(query),
            _ => return false,
        };
        with.is_none() && self.changes_temporary(table)
    }

    /// Whether a name leads to the rows of a temporary table. That they cannot be changed is told elsewhere.
    fn changes_temporary(&self, path: &Path) -> bool {
        let table = || self.with_binder(|binder| binder.changed_table(path));
        self.names_temporary(path) && !table().is_ok_and(|table| !self.is_temporary(table.schema))
    }

    /// Whether a query locks rows of one temporary table, and writes nothing else.
    fn locks_temporary(&self, query: &ast::Query) -> bool {
        let ast::Body::Select(select) = &query.body else { return false };
        match (&query.with, select.from.as_slice()) {
            (None, [only]) => match &only.kind {
                ast::FromKind::Table { name } => self.changes_temporary(name),
                _ => false,
            },
            _ => false,
        }
    }

    /// Tables that refer to one that is emptied have to be, too.
    fn refuse_other_ends(&self, table: &Table) -> Result<()> {
        let children = self.store.referencing(table.oid);
        let Some(other) = children.iter().find(|child| child.on_commit != table.on_commit) else {
            return Ok(());
        };
        let message = "unsupported ON COMMIT and foreign key combination";
        let detail = format!(
            "Table \"{}\" references \"{}\", but they do not have the same ON COMMIT setting.",
            other.name, table.name
        );
        Err(SqlError::refused_by_postgresql(message).detail(detail))
    }

    /// Before a commit: ON COMMIT DROP and ON COMMIT DELETE ROWS.
    pub(crate) fn settle_temporary(&mut self) -> Result<()> {
        // Without rows at hand nothing has happened.
        if !self.store.has_rows_at_hand() || self.store.own_schema(false)?.is_none() {
            return Ok(());
        }
        for object in self.store.own_objects() {
            let Object::Table(table) = &*object else { continue };
            match table.on_commit {
                OnCommit::Preserve => {}
                OnCommit::DeleteRows => {
                    self.refuse_other_ends(table)?;
                    let (table, all) = (Arc::new(table.clone()), Range::default());
                    let first = self.store.scan(&table, &all, Purpose::Hold, &mut Cursor::default(), 1)?;
                    if !first.is_empty() {
                        self.store.truncate(&table)?;
                    }
                }
                OnCommit::Drop => self.drop_quietly(&object)?,
            }
        }
        Ok(())
    }
}
