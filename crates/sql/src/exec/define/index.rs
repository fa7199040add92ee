//! CREATE INDEX, and the indexes behind keys.
use std::sync::Arc;

use super::storing::check_storing;
use super::table::joined;
use crate::bind::type_text;
use crate::catalog::object::{Index, IndexColumn, Indexed, Object, Table};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::session::LocalSession;
use crate::exec::store::Store;
use crate::exec::system_tables::operator_classes::named_class;
use crate::parse::ast::{self};
use crate::progress::Command;
use crate::types::{Oid, oid};

/// Columns that an index can have, as in PostgreSQL; those that it only includes count.
const COLUMNS_MAX: usize = 32;

impl<S: Store> LocalSession<S> {
    /// Makes an index over a table of the catalog and fills it.
    pub(super) fn new_index(
        &self,
        table: &Table,
        name: &str,
        columns: Vec<IndexColumn>,
        (primary, nulls_not_distinct, deferrable): (bool, bool, bool),
    ) -> Result<Oid> {
        let oid = self.store.new_oid(table.oid)?;
        let index = Index {
            oid,
            name: name.to_string(),
            schema: table.schema,
            table: table.oid,
            columns,
            include: Vec::new(),
            names: Vec::new(),
            unique: true,
            nulls_not_distinct,
            primary,
            predicate: None,
            method: "btree".to_string(),
            rows: None,
            valid: true,
            deferrable,
            clustered: false,
            comment: None,
        };
        self.install_index(table, index, Command::CreateIndex)?;
        Ok(oid)
    }

    pub(super) fn install_index(&self, table: &Table, mut index: Index, command: Command) -> Result<()> {
        let began_us = self.shared.surroundings.clock_us();
        let _telling = self.start.interrupt.progress().begin(command, (table.oid, index.oid), began_us);
        index.names = column_names(table, &index);
        for column in &index.columns {
            let ty = match &column.of {
                Indexed::Column(at) => table.columns[usize::from(*at)].type_oid,
                Indexed::Expression { type_oid, .. } => *type_oid,
            };
            self.check_order_of(ty)?;
        }
        self.store.create(Object::Index(index.clone()))?;
        self.with_context(|_, _| self.store.build(&Arc::new(table.clone()), &Arc::new(index)))
    }

    /// Refuses an index over values that have no order, or none that can be kept.
    pub(super) fn check_order_of(&self, ty: Oid) -> Result<()> {
        match self.with_binder(|binder| Ok(binder.types().base_of(ty)))? {
            oid::JSONB => Err(SqlError::unsupported(
                "an index over values of jsonb",
                "Index an expression that takes what is looked for out of them, like (column ->> 'name').",
            )),
            oid::JSON => {
                let shown = self.with_binder(|binder| Ok(type_text(binder.types(), ty)))?;
                let message =
                    format!("data type {shown} has no default operator class for access method \"btree\"");
                let hint = "You must specify an operator class for the index or define a default operator \
                            class for the data type.";
                Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).hint(hint))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn create_index(&mut self, ast: &ast::CreateIndex) -> Result<()> {
        self.find(&ast.table)?;
        let table = self.with_binder(|binder| binder.target_table(&ast.table))?;
        self.must_own(&Object::Table((*table).clone()))?;
        self.refuse_waiting(&Object::Table((*table).clone()), "CREATE INDEX")?;
        check_storing(&ast.method, &ast.storing)?;
        if ast.columns.len() + ast.include.len() > COLUMNS_MAX {
            let message = format!("cannot use more than {COLUMNS_MAX} columns in an index");
            return Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message));
        }
        let mut parts = Vec::new();
        let mut shown = Vec::new();
        for column in &ast.columns {
            let nulls_first = column.nulls_first.unwrap_or(column.descending);
            let of = match (&column.text, &column.expr.kind) {
                (None, ast::Kind::Column(names)) => {
                    let found = table.columns.iter().position(|c| !c.dropped && c.name == names[0]);
                    let Some(at) = found else {
                        let message = format!("column \"{}\" does not exist", names[0]);
                        return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
                    };
                    shown.push(names[0].clone());
                    Indexed::Column(at as u16)
                }
                (text, _) => {
                    let typed = self.with_binder(|binder| {
                        let typed = binder.table_ast(&table, &column.expr, None, "index expressions")?;
                        binder.immutable(&typed.expr, MUTABLE_EXPRESSION)?;
                        binder.settled(typed)
                    })?;
                    shown.push(shown_expression(&column.expr));
                    let expression = self.lasting(&table, text.as_deref().unwrap_or_default(), None)?;
                    Indexed::Expression { expression, type_oid: typed.ty.oid, modifier: typed.ty.modifier }
                }
            };
            let ty = match &of {
                Indexed::Column(column) => table.columns[usize::from(*column)].type_oid,
                Indexed::Expression { type_oid, .. } => *type_oid,
            };
            // All collations that there are sort alike: what is left is whether the values have one.
            self.check_collation(ty, column.collation.as_ref()).map_err(SqlError::nowhere)?;
            let class = match &column.opclass {
                Some(name) => {
                    self.with_binder(|binder| named_class(binder.types(), &ast.method, name, ty))?
                }
                None => None,
            };
            parts.push(IndexColumn { of, descending: column.descending, nulls_first, class });
        }
        shown.extend(ast.include.iter().map(|column| column.text.clone()));
        let shown = told_apart(shown);
        let name = match &ast.name {
            Some(name) => {
                if self.relation_exists(table.schema, &name.text, ast.if_not_exists)? {
                    return Ok(());
                }
                name.text.clone()
            }
            None => self.free_name(table.schema, &joined(&table.name, &shown.join("_"), "idx")),
        };
        let predicate = match &ast.filter {
            None => None,
            Some((expr, sql)) => {
                self.with_binder(|binder| {
                    let typed = binder.table_ast(&table, expr, None, "index predicates")?;
                    let bound = binder.boolean(typed, "WHERE")?;
                    binder.immutable(&bound, MUTABLE_PREDICATE)
                })?;
                Some(self.lasting(&table, sql, None)?)
            }
        };
        let index = Index {
            oid: self.store.new_oid(table.oid)?,
            name,
            schema: table.schema,
            table: table.oid,
            columns: parts,
            include: self.columns_named(&table, &ast.include)?,
            names: shown,
            unique: ast.unique,
            nulls_not_distinct: ast.nulls_equal,
            primary: false,
            predicate,
            method: ast.method.clone(),
            rows: None,
            valid: true,
            deferrable: false,
            clustered: false,
            comment: None,
        };
        let command = match ast.concurrently {
            true => Command::CreateIndexConcurrently,
            false => Command::CreateIndex,
        };
        self.install_index(&table, index, command)
    }
}

pub(super) const MUTABLE_EXPRESSION: &str = "functions in index expression must be marked IMMUTABLE";
pub(super) const MUTABLE_PREDICATE: &str = "functions in index predicate must be marked IMMUTABLE";

/// What the columns of an index are called.
pub(crate) fn column_names(table: &Table, index: &Index) -> Vec<String> {
    if !index.names.is_empty() {
        return index.names.clone();
    }
    let plain = |at: &u16| table.columns[usize::from(*at)].name.clone();
    let name = |column: &IndexColumn| match &column.of {
        Indexed::Column(at) => plain(at),
        Indexed::Expression { expression, .. } => {
            crate::parse::parse_expr(&expression.sql).map(|expr| shown_expression(&expr)).unwrap_or_default()
        }
    };
    told_apart(index.columns.iter().map(name).chain(index.include.iter().map(plain)).collect())
}

/// What the name of an index is made of for an expression.
fn shown_expression(expr: &ast::Expr) -> String {
    match &expr.kind {
        ast::Kind::Func(call) => call.name.last().to_string(),
        _ => "expr".to_string(),
    }
}

/// The names of an index's columns: one that is there already gets a number.
fn told_apart(names: Vec<String>) -> Vec<String> {
    let mut apart: Vec<String> = Vec::new();
    for base in names {
        let mut name = base.clone();
        for number in 1.. {
            if !apart.contains(&name) {
                break;
            }
            name = format!("{base}{number}");
        }
        apart.push(name);
    }
    apart
}
