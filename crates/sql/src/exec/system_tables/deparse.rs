//! Expressions, indexes and constraints as PostgreSQL's catalog functions write them.
//!
//! 1. What is written here means the same when it is read again.
//! 2. Every operator stands in parentheses unless `pretty`; casts that nobody wrote are shown inside of calls
//!    and operators only. An expression of a kind that is not known here is shown as the user wrote it.

use std::sync::Arc;

use crate::bind::Binder;
use crate::bind::tree::{Const, Expr, Head};
use crate::catalog::object::{
    Action, Column, Constraint, Expression, Index, IndexColumn, Indexed, Object, Rule, Table, UserTypeKind,
};
use crate::exec::system::{SessionSystem, quoted};
use crate::func::{EvalContext, Settings, quote_literal};
use crate::types::value::Value;
use crate::types::{Oid, Type, oid};

struct Writer<'a> {
    system: &'a SessionSystem<'a>,
    ctx: EvalContext<'a>,
    columns: &'a [Column],
    pretty: bool,
}

/// Stands without parentheses next to a cast or an operator.
fn is_simple(expr: &Expr) -> bool {
    match expr {
        Expr::Call { head, .. } => head.operator.is_none(),
        Expr::Const(_)
        | Expr::Column { .. }
        | Expr::Coalesce(_)
        | Expr::Case { .. }
        | Expr::Extreme { .. }
        | Expr::NullIf { .. }
        | Expr::Array { .. }
        | Expr::CaseOperand => true,
        _ => false,
    }
}

impl Writer<'_> {
    fn list(&self, list: &[Expr], ty: impl Fn(usize) -> Oid) -> Option<String> {
        let parts: Option<Vec<String>> =
            list.iter().enumerate().map(|(at, part)| self.expr(part, ty(at), true)).collect();
        Some(parts?.join(", "))
    }

    fn wrapped(&self, text: String) -> String {
        if self.pretty { text } else { format!("({text})") }
    }

    /// In parentheses where a reader would need them.
    fn part(&self, expr: &Expr, ty: Oid) -> Option<String> {
        let text = self.expr(expr, ty, true)?;
        let cast = matches!(expr, Expr::Cast { .. });
        Some(if self.pretty && !is_simple(expr) && !cast { format!("({text})") } else { text })
    }

    /// A type as a cast names it: `character` without a length would be read as `character(1)`.
    fn label(&self, ty: Type) -> String {
        match ty {
            Type { oid: oid::BPCHAR, modifier: ..0 } => "bpchar".to_string(),
            ty => self.system.format_type(ty),
        }
    }

    fn constant(&self, value: &Value, ty: Oid) -> Option<String> {
        let label = || self.label(Type::of(ty));
        Some(match value {
            Value::Null => format!("NULL::{}", label()),
            Value::Bool(value) => value.to_string(),
            Value::Int4(number) if *number >= 0 => number.to_string(),
            value => {
                let text = crate::types::text::output(&self.ctx, ty, value).ok()?;
                let digits = text.starts_with(|c: char| c.is_ascii_digit());
                let plain = ty == oid::NUMERIC && digits && text.contains(['.', 'e', 'E']);
                if plain { text } else { format!("{}::{}", quote_literal(&text), label()) }
            }
        })
    }

    fn call(&self, head: &Head, args: &[Expr]) -> Option<String> {
        let ty = |at: usize| head.types.get(at).copied().unwrap_or(oid::TEXT);
        if let Some(operator) = head.operator {
            return Some(self.wrapped(match args {
                [right] => format!("{} {}", operator.name, self.part(right, ty(0))?),
                [left, right] => {
                    let (left, right) = (self.part(left, ty(0))?, self.part(right, ty(1))?);
                    format!("{left} {} {right}", operator.name)
                }
                _ => return None,
            }));
        }
        Some(format!("{}({})", quoted(head.function.name), self.list(args, ty)?))
    }

    fn joined(&self, list: &[Expr], word: &str) -> Option<String> {
        let part = |expr: &Expr| {
            let text = self.expr(expr, oid::BOOL, false)?;
            let inner = self.pretty && matches!(expr, Expr::And(_) | Expr::Or(_));
            Some(if inner { format!("({text})") } else { text })
        };
        let parts: Option<Vec<String>> = list.iter().map(part).collect();
        Some(self.wrapped(parts?.join(word)))
    }

    fn cast(&self, expr: &Expr, source: Oid, target: Type) -> Option<String> {
        let inner = self.expr(expr, source, false)?;
        let inner = if self.pretty && is_simple(expr) { inner } else { format!("({inner})") };
        Some(format!("{inner}::{}", self.label(target)))
    }

    /// `implicit`: casts that nobody wrote are shown.
    fn expr(&self, expr: &Expr, ty: Oid, implicit: bool) -> Option<String> {
        Some(match expr {
            Expr::Const(Const(value)) => self.constant(value, ty)?,
            Expr::Column { depth: 0, slot } => quoted(&self.columns.get(*slot)?.name),
            Expr::CaseOperand => "VALUE".to_string(),
            Expr::Call { head, args, spread: false } => self.call(head, args)?,
            Expr::And(list) => self.joined(list, " AND ")?,
            Expr::Or(list) => self.joined(list, " OR ")?,
            Expr::Not(expr) => self.wrapped(format!("NOT {}", self.part(expr, oid::BOOL)?)),
            Expr::IsNull { expr, negated, .. } => {
                let test = if *negated { "IS NOT NULL" } else { "IS NULL" };
                self.wrapped(format!("{} {test}", self.part(expr, oid::TEXT)?))
            }
            Expr::Distinct { head, left, right, negated } => {
                let (left, right) = (self.part(left, head.types[0])?, self.part(right, head.types[1])?);
                let not = if *negated { "NOT " } else { "" };
                self.wrapped(format!("{left} IS {not}DISTINCT FROM {right}"))
            }
            Expr::Case { operand: None, whens, otherwise } => {
                let mut text = "CASE".to_string();
                for (when, then) in whens {
                    let (when, then) = (self.expr(when, oid::BOOL, false)?, self.expr(then, ty, true)?);
                    text += &format!(" WHEN {when} THEN {then}");
                }
                match otherwise {
                    Some(otherwise) => text += &format!(" ELSE {} END", self.expr(otherwise, ty, true)?),
                    None => text += " END",
                }
                text
            }
            Expr::Coalesce(list) => format!("COALESCE({})", self.list(list, |_| ty)?),
            Expr::Extreme { greatest, list, ty } => {
                let name = if *greatest { "GREATEST" } else { "LEAST" };
                format!("{name}({})", self.list(list, |_| *ty)?)
            }
            Expr::Cast { expr, source, target, explicit, .. } => match *explicit || implicit {
                true => self.cast(expr, *source, *target)?,
                false => self.expr(expr, *source, false)?,
            },
            Expr::Array { elements, element, .. } => format!("ARRAY[{}]", self.list(elements, |_| *element)?),
            Expr::AnyArray { head, left, array, all } => {
                let (left, array) = (self.part(left, head.types[0])?, self.part(array, oid::TEXT_ARRAY)?);
                let word = if *all { "ALL" } else { "ANY" };
                self.wrapped(format!("{left} {} {word} ({array})", head.operator?.name))
            }
            Expr::InList { head, left, list, negated } => {
                let (left, list) = (self.part(left, head.types[0])?, self.list(list, |_| head.types[1])?);
                let (operator, word) = if *negated { ("<>", "ALL") } else { ("=", "ANY") };
                self.wrapped(format!("{left} {operator} {word} (ARRAY[{list}])"))
            }
            _ => return None,
        })
    }
}

impl SessionSystem<'_> {
    fn with_bound<T>(
        &self,
        table: &Table,
        sql: &str,
        target: Option<Type>,
        body: impl FnOnce(EvalContext<'_>, &mut Expr, Oid) -> Option<T>,
    ) -> Option<T> {
        let settings = Settings::default();
        let ctx = EvalContext::new(&settings, self, 0);
        let binder = Binder::new(ctx, self.store, self.search_path, Vec::new());
        let parsed = crate::parse::parse_expr(sql).ok()?;
        let mut typed =
            binder.table_ast(&Arc::new(table.clone()), &parsed, target, crate::bind::CHECKS).ok()?;
        let ty = typed.ty.oid;
        body(ctx, &mut typed.expr, ty)
    }

    /// An expression over a table's columns.
    pub(super) fn expression(&self, table: &Table, sql: &str, target: Option<Type>, pretty: bool) -> String {
        let text = self.with_bound(table, sql, target, |ctx, expr, ty| {
            Writer { system: self, ctx, columns: &table.columns, pretty }.expr(expr, ty, false)
        });
        text.unwrap_or_else(|| sql.to_string())
    }

    /// The columns that an expression over a table looks at, each once, ascending.
    pub(super) fn columns_in(&self, table: &Table, sql: &str) -> Vec<u16> {
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
            Indexed::Column(column) => quoted(&table.columns[usize::from(*column)].name),
            Indexed::Expression { expression: Expression { sql, .. }, .. } => {
                let call = self.with_bound(table, sql, None, |_, expr, _| Some(is_simple(expr)));
                let text = self.expression(table, sql, None, pretty);
                if call == Some(true) { text } else { format!("({text})") }
            }
        }
    }

    /// `CREATE INDEX ...`, or only its column `column` (from 1).
    pub(super) fn index_definition(&self, index: Oid, column: usize, pretty: bool) -> Option<String> {
        let object = self.store.object(index)?;
        let Object::Index(index) = &*object else { return None };
        let object = self.store.object(index.table)?;
        let Object::Table(table) = &*object else { return None };
        if column > 0 {
            return Some(match index.columns.get(column - 1) {
                Some(column) => self.index_column(table, column, pretty),
                None => {
                    let included = index.include.get(column - 1 - index.columns.len())?;
                    quoted(&table.columns[usize::from(*included)].name)
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
            quoted(&index.name),
            columns.join(", ")
        );
        text += &self.index_rest(table, index);
        if let Some(predicate) = &index.predicate {
            text += &format!(" WHERE {}", self.expression(table, &predicate.sql, None, pretty));
        }
        Some(text)
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
        self.index_column(table, column, pretty) + order
    }

    /// What a constraint demands, as it would be written in CREATE TABLE.
    pub(super) fn constraint_definition(&self, constraint: Oid, pretty: bool) -> Option<String> {
        for object in self.store.objects() {
            match &*object {
                Object::Table(table) => {
                    if let Some(found) = table.constraints.iter().find(|c| c.oid == constraint) {
                        return self.rule(table, found, pretty);
                    }
                }
                Object::Type(ty) => {
                    let UserTypeKind::Domain { base, checks, .. } = &ty.kind else { continue };
                    let part = |at: &usize| super::part_oid(ty.oid, *at) == constraint;
                    if let Some(at) = (0..checks.len()).find(part) {
                        return Some(format!(
                            "CHECK ({})",
                            self.domain_check(*base, &checks[at].1.sql, pretty)
                        ));
                    }
                }
                _ => {}
            }
        }
        None
    }

    fn domain_check(&self, base: Oid, sql: &str, pretty: bool) -> String {
        let settings = Settings::default();
        let ctx = EvalContext::new(&settings, self, 0);
        let binder = Binder::new(ctx, self.store, self.search_path, Vec::new());
        let check = binder.domain_check(base, sql).ok();
        let writer = Writer { system: self, ctx, columns: &[], pretty };
        let text = check.and_then(|check| writer.expr(&check, oid::BOOL, false));
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
                format!("CHECK ({})", self.expression(table, &condition.sql, None, pretty))
            }
            Rule::ForeignKey { columns, table: to, references, on_delete, on_update, full, .. } => {
                let object = self.store.object(*to)?;
                let Object::Table(other) = &*object else { return None };
                let mut text = format!(
                    "FOREIGN KEY ({}) REFERENCES {}({})",
                    names(table, columns),
                    self.shown(*to)?,
                    names(other, references)
                );
                text += if *full { " MATCH FULL" } else { "" };
                text + &action(" ON UPDATE ", *on_update) + &action(" ON DELETE ", *on_delete)
            }
        };
        text += if constraint.deferrable { " DEFERRABLE" } else { "" };
        text += if constraint.deferred { " INITIALLY DEFERRED" } else { "" };
        text += if constraint.not_valid { " NOT VALID" } else { "" };
        Some(text)
    }
}

fn names(table: &Table, columns: &[u16]) -> String {
    let names: Vec<String> = columns.iter().map(|at| quoted(&table.columns[usize::from(*at)].name)).collect();
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
