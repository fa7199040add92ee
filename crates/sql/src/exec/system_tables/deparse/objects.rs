//! Indexes, constraints, views and the expressions of tables, as PostgreSQL's catalog functions write them.

use std::sync::Arc;

use super::{Style, Writer};
use crate::bind::Binder;
use crate::bind::Scope;
use crate::catalog::object::{
    Action, Constraint, Expression, Index, IndexColumn, Indexed, Object, Rule, Table, UserTypeKind, View,
};
use crate::error::{SqlError, SqlState};
use crate::exec::computed::EXPRESSION;
use crate::exec::system::SessionSystem;
use crate::exec::system_tables::operator_classes;
use crate::exec::system_tables::{SystemRelation, by_oid, part_oid};
use crate::func::quote_ident;
use crate::tree::{Expr, Names};
use crate::types::context::{EvalContext, Settings};
use crate::types::{Oid, Type, oid};

impl SessionSystem<'_> {
    fn with_bound<T>(
        &self,
        table: &Table,
        sql: &str,
        target: Option<Type>,
        body: impl FnOnce(EvalContext<'_>, &mut Expr, Type) -> Option<T>,
    ) -> Option<T> {
        let settings = Settings::default();
        let ctx = EvalContext::new(&settings, self, 0);
        let binder = Binder::new(ctx, self.store, self.search_path, Vec::new());
        let parsed = crate::parse::parse_expr(sql).ok()?;
        let target = target.map(|ty| (ty, table.name.as_str()));
        let mut typed =
            binder.table_ast(&Arc::new(table.clone()), &parsed, target, crate::bind::CHECKS).ok()?;
        let ty = type_of_constant(&binder, typed.ty);
        body(ctx, &mut typed.expr, ty)
    }

    /// An expression over a table's columns.
    pub(crate) fn expression(&self, table: &Table, sql: &str, target: Option<Type>, style: Style) -> String {
        let names = names_of(table);
        let text = self.with_bound(table, sql, target, |ctx, expr, ty| {
            let writer = Writer::new(self, ctx, style).over(&names, None, true);
            writer.alone(expr, ty, false)
        });
        text.unwrap_or_else(|| sql.to_string())
    }

    /// The default of a domain over `base`.
    pub(in crate::exec::system_tables) fn default_of_domain(&self, sql: &str, base: Type) -> String {
        let settings = Settings::default();
        let ctx = EvalContext::new(&settings, self, 0);
        let binder = Binder::new(ctx, self.store, self.search_path, Vec::new());
        let bound = binder.domain_text(base.oid, sql, Some((base, ""))).ok();
        let writer = Writer::new(self, ctx, Style::expression(false));
        let ty = type_of_constant(&binder, base);
        let text = bound.as_ref().and_then(|typed| writer.alone(&typed.expr, ty, false));
        text.unwrap_or_else(|| sql.to_string())
    }

    /// The query of a view.
    pub(in crate::exec::system_tables) fn view_text(&self, number: Oid, style: Style) -> Option<String> {
        let view = match (by_oid(number), self.store.object(number).as_deref()) {
            (Some(SystemRelation::View(view)), _) => View::clone(view),
            (_, Some(Object::View(view))) => view.clone(),
            (_, Some(Object::Table(table))) => table.as_view()?,
            _ => return None,
        };
        let settings = Settings::default();
        let ctx = EvalContext::new(&settings, self, 0);
        let binder = Binder::new(ctx, self.store, self.search_path, Vec::new());
        let bound = binder.view_query(&view).ok();
        let names: Vec<String> = view.columns.iter().map(|column| column.name.clone()).collect();
        let text = bound.as_ref().and_then(|bound| Writer::new(self, ctx, style).view(bound, &names));
        let kept = || format!(" {}", view.query.sql.trim().trim_end_matches(';'));
        Some(format!("{};", text.unwrap_or_else(kept)))
    }

    /// The columns that an expression over a table looks at, each once, ascending.
    pub(in crate::exec::system_tables) fn columns_in(&self, table: &Table, sql: &str) -> Vec<u16> {
        let columns = self.with_bound(table, sql, None, |_, expr, _| {
            let mut columns = std::collections::BTreeSet::new();
            expr.walk(0, &mut |part, _| {
                if let Expr::Column { slot, .. } = part {
                    columns.insert(*slot as u16);
                }
                false
            });
            Some(columns.into_iter().filter(|at| usize::from(*at) < table.columns.len()).collect())
        });
        columns.unwrap_or_default()
    }

    fn index_column(&self, table: &Table, column: &IndexColumn, pretty: bool) -> String {
        match &column.of {
            Indexed::Column(column) => quote_ident(&table.columns[usize::from(*column)].name),
            Indexed::Expression { expression: Expression { sql, .. }, .. } => {
                let names = names_of(table);
                let style = Style { pretty: true, lines: false, wrap: 0 };
                let call = self.with_bound(table, sql, None, |ctx, expr, _| {
                    Some(Writer::new(self, ctx, style).over(&names, None, true).looks_like_call(expr))
                });
                let text = self.expression(table, sql, None, Style { pretty, lines: pretty, wrap: 0 });
                // Of what SQL calls in words of its own some begins with a parenthesis (AT TIME ZONE).
                if call == Some(true) && !text.starts_with('(') { text } else { format!("({text})") }
            }
        }
    }

    /// `CREATE INDEX ...`, or only its column `column` (from 1).
    pub(in crate::exec::system_tables) fn index_definition(
        &self,
        index: Oid,
        column: usize,
        pretty: bool,
    ) -> Option<String> {
        let object = self.store.object(index)?;
        let Object::Index(index) = &*object else { return None };
        let object = self.store.object(index.table)?;
        let Object::Table(table) = &*object else { return None };
        if column > 0 {
            return Some(match index.columns.get(column - 1) {
                Some(column) => self.index_column(table, column, pretty),
                None => {
                    let included = index.include.get(column - 1 - index.columns.len())?;
                    quote_ident(&table.columns[usize::from(*included)].name)
                }
            });
        }
        let name = if pretty { self.shown(table.oid)? } else { self.qualified(table.schema, &table.name) };
        let method = if index.method.is_empty() { "btree" } else { &index.method };
        let unique = if index.unique { "UNIQUE " } else { "" };
        let columns: Vec<String> =
            index.columns.iter().map(|column| self.sorted_column(table, column, pretty)).collect();
        let mut text = format!(
            "CREATE {unique}INDEX {} ON {name} USING {method} ({})",
            quote_ident(&index.name),
            columns.join(", ")
        );
        text += &self.index_rest(table, index);
        if let Some(predicate) = &index.predicate {
            text += &format!(
                " WHERE {}",
                self.expression(table, &predicate.sql, None, Style { pretty, lines: pretty, wrap: 0 })
            );
        }
        Some(text)
    }

    /// An error about a key that is there twice, with the expressions of its index written out.
    pub(in crate::exec) fn with_expressions(&self, mut error: SqlError) -> SqlError {
        if let Some(detail) = self.detail_with_expressions(&error) {
            error.detail = Some(detail);
        }
        error
    }

    fn detail_with_expressions(&self, error: &SqlError) -> Option<String> {
        if error.state != SqlState::UNIQUE_VIOLATION {
            return None;
        }
        let (schema, name) = (error.schema.as_deref()?, error.constraint.as_deref()?);
        let object = self.store.relation(self.store.schema(schema)?, name)?;
        let Object::Index(index) = &*object else { return None };
        let object = self.store.object(index.table)?;
        let Object::Table(table) = &*object else { return None };
        let plain = |column: &IndexColumn| match &column.of {
            Indexed::Column(_) => self.index_column(table, column, true),
            Indexed::Expression { .. } => EXPRESSION.to_owned(),
        };
        let names = |name: &dyn Fn(&IndexColumn) -> String| {
            let names: Vec<String> = index.columns.iter().map(name).collect();
            format!("Key ({})=", names.join(", "))
        };
        let rest = error.detail.as_deref()?.strip_prefix(&names(&plain))?;
        Some(names(&|column| self.index_column(table, column, true)) + rest)
    }

    fn index_rest(&self, table: &Table, index: &Index) -> String {
        let mut text = String::new();
        if !index.include.is_empty() {
            text += &format!(" INCLUDE ({})", names(table, &index.include));
        }
        text + if index.nulls_not_distinct { " NULLS NOT DISTINCT" } else { "" }
    }

    fn sorted_column(&self, table: &Table, column: &IndexColumn, pretty: bool) -> String {
        let order = match (column.descending, column.nulls_first) {
            (false, false) => "",
            (false, true) => " NULLS FIRST",
            (true, true) => " DESC",
            (true, false) => " DESC NULLS LAST",
        };
        let class = column.class.and_then(operator_classes::name_of);
        let class = class.map_or(String::new(), |name| format!(" {name}"));
        self.index_column(table, column, pretty) + &class + order
    }

    /// What a constraint demands, as it would be written in CREATE TABLE.
    pub(in crate::exec::system_tables) fn constraint_definition(
        &self,
        constraint: Oid,
        pretty: bool,
    ) -> Option<String> {
        match &*self.store.holder(constraint)? {
            Object::Table(table) => {
                let found = table.constraints.iter().find(|c| c.oid == constraint)?;
                self.rule(table, found, pretty)
            }
            Object::Type(ty) => {
                let UserTypeKind::Domain { base, checks, .. } = &ty.kind else { return None };
                let at = (0..checks.len()).find(|at| part_oid(ty.oid, *at) == constraint)?;
                Some(format!("CHECK ({})", self.domain_check(*base, &checks[at].1.sql, pretty)))
            }
            _ => None,
        }
    }

    fn domain_check(&self, base: Oid, sql: &str, pretty: bool) -> String {
        let settings = Settings::default();
        let ctx = EvalContext::new(&settings, self, 0);
        let binder = Binder::new(ctx, self.store, self.search_path, Vec::new());
        let check = binder.domain_check(base, sql).ok();
        let writer = Writer::new(self, ctx, Style::expression(pretty));
        let text = check.as_ref().and_then(|check| writer.alone(check, Type::of(oid::BOOL), false));
        text.unwrap_or_else(|| sql.to_string())
    }

    fn rule(&self, table: &Table, constraint: &Constraint, pretty: bool) -> Option<String> {
        let index = |oid: Oid| match self.store.object(oid).as_deref() {
            Some(Object::Index(index)) => self.index_rest(table, index),
            _ => String::new(),
        };
        let mut text = match &constraint.rule {
            Rule::PrimaryKey { columns, index: at } => {
                format!("PRIMARY KEY ({}){}", names(table, columns), index(*at))
            }
            Rule::Unique { columns, index: at } => {
                let rest = index(*at);
                let equal = if rest.contains("NULLS NOT DISTINCT") { " NULLS NOT DISTINCT" } else { "" };
                format!(
                    "UNIQUE{equal} ({}){}",
                    names(table, columns),
                    rest.replace(" NULLS NOT DISTINCT", "")
                )
            }
            Rule::Check { condition } => {
                format!("CHECK ({})", self.expression(table, &condition.sql, None, Style::expression(pretty)))
            }
            Rule::ForeignKey { columns, table: to, references, on_delete, set, on_update, full, .. } => {
                let object = self.store.object(*to)?;
                let Object::Table(other) = &*object else { return None };
                let mut text = format!(
                    "FOREIGN KEY ({}) REFERENCES {}({})",
                    names(table, columns),
                    self.shown(*to)?,
                    names(other, references)
                );
                text += if *full { " MATCH FULL" } else { "" };
                text += &(action(" ON UPDATE ", *on_update) + &action(" ON DELETE ", *on_delete));
                if set.is_empty() { text } else { format!("{text} ({})", names(table, set)) }
            }
        };
        text += if constraint.deferrable { " DEFERRABLE" } else { "" };
        text += if constraint.deferred { " INITIALLY DEFERRED" } else { "" };
        text += if constraint.no_inherit { " NO INHERIT" } else { "" };
        text += if constraint.not_valid { " NOT VALID" } else { "" };
        Some(text)
    }
}

/// A table as the only one of a level.
fn names_of(table: &Table) -> Names {
    let mut scope = Scope::root();
    scope.add_table(&Arc::new(table.clone()), &table.name, None, 0, true);
    scope.into_names()
}

fn names(table: &Table, columns: &[u16]) -> String {
    let names: Vec<String> =
        columns.iter().map(|at| quote_ident(&table.columns[usize::from(*at)].name)).collect();
    names.join(", ")
}

fn action(event: &str, action: Action) -> String {
    let word = match action {
        Action::NoAction => return String::new(),
        Action::Restrict => "RESTRICT",
        Action::Cascade => "CASCADE",
        Action::SetNull => "SET NULL",
        Action::SetDefault => "SET DEFAULT",
    };
    format!("{event}{word}")
}

/// The type that a constant is shown with where one of this type is wanted: the one under a domain, and of
/// modifiers only that of an interval.
fn type_of_constant(binder: &Binder<'_>, ty: Type) -> Type {
    let ty = binder.under_domain(ty.oid).unwrap_or(ty);
    if ty.oid == oid::INTERVAL { ty } else { Type::of(ty.oid) }
}
