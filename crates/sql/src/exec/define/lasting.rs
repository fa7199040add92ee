//! Texts that outlive the statement that brought them: queries of views, defaults, checks, expressions and
//! predicates of indexes.
//!
//! They are kept as text and bound again wherever they are used, under whatever search path is set then. So
//! names that this statement's search path has found are kept with their schema.
use std::sync::Arc;

use crate::bind::CHECKS;
use crate::bind::Spelled;
use crate::catalog::object::{Expression, Object, Table};
use crate::error::Result;
use crate::exec::session::LocalSession;
use crate::exec::store::Store;
use crate::exec::system::quoted;
use crate::func::quote_literal;
use crate::parse::ast;

impl<S: Store> LocalSession<S> {
    /// An expression over a table's columns. One that cannot be bound (yet) stays as it is: its first use
    /// tells why.
    pub(super) fn lasting(&self, table: &Table, sql: &str) -> Result<Expression> {
        self.with_binder(|binder| {
            let table = Arc::new(table.clone());
            let bound =
                crate::parse::parse_expr(sql).and_then(|ast| binder.table_ast(&table, &ast, None, CHECKS));
            if bound.is_err() {
                return Ok(Expression { sql: sql.to_string(), depends: Vec::new() });
            }
            let spelled = binder.spelled.borrow();
            let sequence =
                |name: &&Spelled| matches!(self.store.object(name.oid).as_deref(), Some(Object::Sequence(_)));
            let mut depends: Vec<_> = spelled.iter().filter(sequence).map(|name| name.oid).collect();
            depends.dedup();
            Ok(Expression { sql: self.with_schemas(sql, &spelled), depends })
        })
    }

    /// The query of a view.
    pub(super) fn lasting_query(&self, sql: &str) -> Result<String> {
        let parsed = crate::parse::parse(sql)?.pop().map(|parsed| parsed.statement);
        let Some(ast::Statement::Query(query)) = parsed else { return Ok(sql.to_string()) };
        self.with_binder(|binder| {
            binder.query(None, false, &query)?;
            Ok(self.with_schemas(sql, &binder.spelled.borrow()))
        })
    }

    /// The text with the names that were found replaced by what any search path finds.
    fn with_schemas(&self, sql: &str, names: &[Spelled]) -> String {
        let Ok(tokens) = crate::parse::tokens(sql) else { return sql.to_string() };
        let mut text = String::with_capacity(sql.len());
        let mut copied = 0;
        for token in &tokens {
            let (start, end) = (token.start as usize, token.end as usize);
            let old = &sql[start..end];
            let is_literal = old.starts_with(['\'', 'e', 'E']) && old.ends_with('\'');
            let Some(name) = names.iter().find(|name| name.pos == token.start && name.literal == is_literal)
            else {
                continue;
            };
            let Some(object) = self.store.object(name.oid) else { continue };
            let Some(schema) = self.store.object(object.schema()) else { continue };
            let full = format!("{}.{}", quoted(schema.name()), quoted(object.name()));
            text.push_str(&sql[copied..start]);
            text.push_str(&if is_literal { quote_literal(&full) } else { full });
            copied = end;
        }
        text + &sql[copied..]
    }
}
