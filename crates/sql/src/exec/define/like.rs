//! `CREATE TABLE .. (LIKE ..)`: what a table takes over from another one.

use std::sync::Arc;

use super::table::{check_columns, duplicate_column, joined};
use crate::catalog::object::{Column, Constraint, Identity, Index, Indexed, Object, Rule, Table};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::session::LocalSession;
use crate::exec::store::{Store, lost};
use crate::parse::ast::{self, ConstraintKind, Ident, Path};
use crate::progress::Command;
use crate::types::{Oid, oid};

impl<S: Store> LocalSession<S> {
    /// What LIKE names: a table, or a view with its columns.
    fn like_what(&self, path: &Path) -> Result<Arc<Table>> {
        match self.with_names(|binder| binder.find_relation(path))?.as_deref() {
            Some(Object::View(view)) => {
                let mut table = self.empty_table(view.schema, &view.name)?;
                table.oid = view.oid;
                table.columns = view.columns.clone();
                Ok(Arc::new(table))
            }
            Some(other @ (Object::Sequence(_) | Object::Index(_))) => {
                let message = format!("relation \"{}\" is invalid in LIKE clause", other.name());
                let kinds = if matches!(other, Object::Index(_)) { "indexes" } else { "sequences" };
                let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).at(path.pos + 1);
                Err(error.detail(format!("This operation is not supported for {kinds}.")))
            }
            _ => self.with_binder(|binder| binder.target_table(path)),
        }
    }

    /// Takes the columns of another table over; that table, if its indexes are to follow, and whether with
    /// their comments.
    pub(super) fn like(
        &self,
        table: &mut Table,
        path: &Path,
        options: &[(bool, String)],
        constraints: &mut Vec<ast::Constraint>,
    ) -> Result<Option<(Arc<Table>, bool)>> {
        let source = self.like_what(path)?;
        let including = |what: &str| {
            let last = options.iter().rev().find(|(_, name)| name == what || name == "all");
            last.is_some_and(|(including, _)| *including)
        };
        for column in source.columns.iter().filter(|column| !column.dropped) {
            if table.columns.iter().any(|other| other.name == column.name) {
                return Err(duplicate_column(&column.name));
            }
            let mut copy = Column::new(&column.name, column.ty());
            copy.not_null = column.not_null;
            copy.collation.clone_from(&column.collation);
            if let (Some(identity), true) = (column.identity, including("identity")) {
                let at = table.columns.len() as u16;
                let options = self.sequence_options(identity.sequence);
                // As in PostgreSQL the copy counts in bigint, within the bounds of the one that is copied.
                let sequence = self.owned_sequence(table, &column.name, at, oid::INT8, &options)?.0;
                copy.identity = Some(Identity { always: identity.always, sequence });
            }
            if including("storage") {
                copy.storage = column.storage;
            }
            if including("comments") {
                copy.comment.clone_from(&column.comment);
            }
            if including("defaults") {
                copy.default = column.default.clone();
            }
            if including("generated") {
                copy.generated = column.generated.clone();
            }
            check_columns(table.columns.len() + 1)?;
            table.columns.push(copy);
        }
        if including("constraints") {
            for constraint in &source.constraints {
                if let Rule::Check { .. } = constraint.rule {
                    table
                        .constraints
                        .push(Constraint { oid: self.store.new_oid(table.oid)?, ..constraint.clone() });
                }
            }
        }
        if !including("indexes") {
            return Ok(None);
        }
        for constraint in &source.constraints {
            let named = |columns: &[u16]| -> Vec<Ident> {
                let ident = |at: &u16| Ident { text: source.columns[usize::from(*at)].name.clone(), pos: 0 };
                columns.iter().map(ident).collect()
            };
            let mut name = None;
            let kind = match &constraint.rule {
                Rule::PrimaryKey { columns, .. } => ConstraintKind::PrimaryKey(named(columns)),
                Rule::Unique { columns, index } => {
                    let index = self.store.object(*index).ok_or_else(|| lost(*index))?;
                    let Object::Index(index) = &*index else { return Err(lost(index.oid())) };
                    // Columns with other names since then go on to give it theirs.
                    let names = super::column_names(&source, index);
                    let columns = named(columns);
                    if !names.iter().eq(columns.iter().map(|column| &column.text)) {
                        name = Some(self.constraint_name(table, None, (&names.join("_"), "key"), false)?);
                    }
                    ConstraintKind::Unique(columns, index.nulls_not_distinct)
                }
                Rule::Check { .. } | Rule::ForeignKey { .. } => continue,
            };
            constraints.push(ast::Constraint {
                name,
                kind,
                deferrable: constraint.deferrable,
                deferred: constraint.deferred,
                not_valid: false,
                no_inherit: false,
                pos: 0,
            });
        }
        Ok(Some((source, including("comments"))))
    }

    /// What a sequence was made with.
    fn sequence_options(&self, sequence: Oid) -> Vec<ast::SequenceOption> {
        let object = self.store.object(sequence);
        let Some(Object::Sequence(it)) = object.as_deref() else { return Vec::new() };
        vec![
            ast::SequenceOption::Increment(it.increment),
            ast::SequenceOption::Min(Some(it.min)),
            ast::SequenceOption::Max(Some(it.max)),
            ast::SequenceOption::Start(it.start),
            ast::SequenceOption::Cache(it.cache),
            ast::SequenceOption::Cycle(it.cycle),
        ]
    }

    /// Gives a table the indexes of another. Those of constraints are there: their columns are called alike.
    pub(super) fn copy_indexes(&self, table: &Table, (source, comments): &(Arc<Table>, bool)) -> Result<()> {
        let of_constraint = |index: &Index| {
            source.constraints.iter().any(|constraint| super::index_of(&constraint.rule) == Some(index.oid))
        };
        for index in self.store.indexes(source.oid) {
            let place = |at: u16| {
                let name = &source.columns[usize::from(at)].name;
                let found = table.columns.iter().position(|column| column.name == *name);
                found.map(|at| at as u16).ok_or_else(|| duplicate_column(name))
            };
            let mut columns = index.columns.clone();
            for column in &mut columns {
                match &mut column.of {
                    Indexed::Column(at) => *at = place(*at)?,
                    Indexed::Expression { expression, .. } => {
                        *expression = self.lasting(table, &expression.sql, None)?;
                    }
                }
            }
            let names = super::column_names(source, &index);
            if of_constraint(&index) {
                let own = self.store.indexes(table.oid).into_iter();
                let twin = own.filter(|own| own.unique).find(|own| own.columns == columns);
                let comment = index.comment.clone().filter(|_| *comments);
                if let Some(twin) = twin.filter(|twin| twin.names != names || comment.is_some()) {
                    self.store.replace(Object::Index(Index { names, comment, ..(*twin).clone() }))?;
                }
                continue;
            }
            let predicate =
                index.predicate.as_ref().map(|text| self.lasting(table, &text.sql, None)).transpose()?;
            let include = index.include.iter().map(|at| place(*at)).collect::<Result<Vec<_>>>()?;
            let name = self.free_name(table.schema, &joined(&table.name, &names.join("_"), "idx"));
            let (oid, schema) = (self.store.new_oid(table.oid)?, table.schema);
            let copy = Index {
                oid,
                name,
                schema,
                table: table.oid,
                columns,
                predicate,
                include,
                names,
                ..(*index).clone()
            };
            let comment = copy.comment.clone().filter(|_| *comments);
            let made = Index { rows: None, comment, clustered: false, ..copy };
            self.install_index(table, made, Command::CreateIndex)?;
        }
        Ok(())
    }
}
