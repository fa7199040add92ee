//! Entries of indexes over expressions, computed by binding the expressions anew.
use std::sync::Arc;

use super::EngineStore;
use crate::bind::Binder;
use crate::catalog::object::{IndexColumn, Indexed};
use crate::error::Result;
use crate::exec::bare::BareSystem;
use crate::exec::store::lost;
use crate::exec::{Env, Exec};
use crate::func::{EvalContext, Settings};
use crate::session::Interrupt;
use crate::storage::table::Computed;
use crate::types::value::Value;
use crate::types::{Oid, text};

/// Indexes over expressions, computed by binding them anew.
pub(super) struct Computing<'s> {
    pub(super) store: &'s EngineStore,
    pub(super) table: Oid,
}

impl Computed for Computing<'_> {
    fn entry(&self, index: Oid, values: &[Value]) -> Result<Option<Vec<Value>>> {
        let catalog = self.store.catalog();
        let index = catalog.index(index).ok_or_else(|| lost(index))?;
        let table = Arc::new(catalog.table(self.table).ok_or_else(|| lost(self.table))?.clone());
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

    fn show(&self, ty: Oid, value: &Value) -> String {
        let (settings, system) = (Settings::default(), BareSystem(self.store));
        let ctx = EvalContext::new(&settings, &system, 0);
        if value.is_null() {
            return "null".to_owned();
        }
        text::output(&ctx, ty, value).unwrap_or_default()
    }
}
