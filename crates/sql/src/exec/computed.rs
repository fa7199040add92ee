//! Entries of indexes over expressions, computed by binding the expressions anew.
use std::sync::Arc;

use super::bare::BareSystem;
use super::store::{Store, lost};
use super::{Env, Exec};
use crate::bind::Binder;
use crate::catalog::object::{Index, IndexColumn, Indexed, Object, Table};
use crate::error::Result;
use crate::func::quote_ident;
use crate::session::Interrupt;
use crate::storage::table::Computed;
use crate::types::context::{EvalContext, Settings};
use crate::types::value::Value;
use crate::types::{Oid, Types, text};

/// What stands for an expression in the key that an error shows. Only a session can write expressions.
pub(super) const EXPRESSION: &str = "expression";

/// Indexes over expressions, computed by binding them anew.
pub(super) struct Computing<'s> {
    pub(super) store: &'s dyn Store,
    pub(super) table: Oid,
}

impl Computing<'_> {
    fn table(&self) -> Result<Arc<Table>> {
        match self.store.object(self.table).as_deref() {
            Some(Object::Table(table)) => Ok(Arc::new(table.clone())),
            _ => Err(lost(self.table)),
        }
    }

    fn index(&self, oid: Oid) -> Result<Index> {
        match self.store.object(oid).as_deref() {
            Some(Object::Index(index)) => Ok(index.clone()),
            _ => Err(lost(oid)),
        }
    }
}

impl Computed for Computing<'_> {
    fn entry(&self, index: Oid, values: &[Value]) -> Result<Option<Vec<Value>>> {
        let (index, table) = (self.index(index)?, self.table()?);
        let system = BareSystem(self.store);
        let (settings, path) = (Settings::default(), ["public".to_owned()]);
        let ctx = EvalContext::new(&settings, &system, 0);
        let interrupt = Interrupt::default();
        let eval = |sql: &str| {
            let binder = Binder::new(ctx, self.store, &path, Vec::new());
            let expr = binder.table_expr(&table, sql, None, "index expressions")?;
            // What is evaluated lives as long as the evaluation.
            let exec = Exec::new(self.store, ctx, &[], &interrupt, &path, (0, 0));
            exec.eval(&expr, &Env { row: values, outer: None })
        };
        if let Some(predicate) = &index.predicate
            && !matches!(eval(&predicate.sql)?, Value::Bool(true))
        {
            return Ok(None);
        }
        let value = |part: &IndexColumn| match &part.of {
            Indexed::Column(column) => Ok(values[usize::from(*column)].clone()),
            Indexed::Expression { expression, .. } => eval(&expression.sql),
        };
        index.columns.iter().map(value).collect::<Result<_>>().map(Some)
    }

    fn key(&self, index: Oid, values: &[Value]) -> Result<Vec<(String, String)>> {
        let entry = self.entry(index, values)?.unwrap_or_default();
        let (index, table) = (self.index(index)?, self.table()?);
        let shown = |(part, value): (&IndexColumn, &Value)| match &part.of {
            Indexed::Column(column) => {
                let column = &table.columns[usize::from(*column)];
                (quote_ident(&column.name), self.show(column.type_oid, value))
            }
            Indexed::Expression { type_oid, .. } => (EXPRESSION.to_owned(), self.show(*type_oid, value)),
        };
        Ok(index.columns.iter().zip(&entry).map(shown).collect())
    }

    fn show(&self, ty: Oid, value: &Value) -> String {
        let (settings, system) = (Settings::default(), BareSystem(self.store));
        let ctx = EvalContext::new(&settings, &system, 0);
        if value.is_null() {
            return "null".to_owned();
        }
        text::output(&ctx, ctx.base_of(ty), value).unwrap_or_default()
    }
}
