//! WITH, recursive or not.
//!
//! 1. A name of WITH is seen by the tables after it and by the statement; by its own query only if that is
//!    recursive.
use super::scope::CteName;
use super::tree::{Cte, CteKind, OutColumn};
use super::{Binder, Scope, fail};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::ast::{self, Kind, SetKind};
use crate::types::{Oid, oid};

impl Binder<'_> {
    pub(crate) fn with(
        &self,
        parent: Option<&Scope<'_>>,
        blocked: bool,
        names: &mut Vec<CteName>,
        with: Option<&ast::With>,
    ) -> Result<Vec<Cte>> {
        let Some(with) = with else { return Ok(Vec::new()) };
        let mut bound = Vec::new();
        for (at, cte) in with.tables.iter().enumerate() {
            if with.tables[..at].iter().any(|other| other.name.text == cte.name.text) {
                let message = format!("WITH query name \"{}\" specified more than once", cte.name.text);
                return fail(SqlState::DUPLICATE_ALIAS, cte.name.pos, message);
            }
            let id = self.next_cte.get();
            self.next_cte.set(id + 1);
            let (kind, mut columns) = match &cte.statement {
                ast::Statement::Query(query) => {
                    self.cte_query(parent, blocked, names, with.recursive, cte, query, id)?
                }
                statement => {
                    let change = self.change(parent, names, statement)?;
                    let columns = change.columns().to_vec();
                    (CteKind::Change(Box::new(change)), columns)
                }
            };
            if cte.columns.len() > columns.len() {
                let (name, has, told) = (&cte.name.text, columns.len(), cte.columns.len());
                let message =
                    format!("WITH query \"{name}\" has {has} columns available but {told} columns specified");
                return fail(SqlState::INVALID_COLUMN_REFERENCE, cte.name.pos, message);
            }
            rename(&mut columns, &cte.columns);
            names.push(CteName { name: cte.name.text.clone(), id, columns });
            bound.push(Cte { id, eager: false, kind });
        }
        Ok(bound)
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of the construct")]
    fn cte_query(
        &self,
        parent: Option<&Scope<'_>>,
        blocked: bool,
        names: &[CteName],
        recursive: bool,
        cte: &ast::Cte,
        query: &ast::Query,
        id: usize,
    ) -> Result<(CteKind, Vec<OutColumn>)> {
        if recursive
            && let ast::Body::Set { kind: SetKind::Union, all, left, right } = &query.body
            && mentions(right, &cte.name.text)
        {
            let mut inner = names.to_vec();
            let ctes = self.with(parent, blocked, &mut inner, query.with.as_ref())?;
            let mut base = self.settle(self.open_query(parent, blocked, &inner, left)?)?;
            let mut columns = base.columns.clone();
            rename(&mut columns, &cte.columns);
            inner.push(CteName { name: cte.name.text.clone(), id, columns: columns.clone() });
            let mut step = self.open_query(parent, blocked, &inner, right)?;
            if step.columns.len() != columns.len() {
                let message = "each UNION query must have the same number of columns";
                return fail(
                    SqlState::SYNTAX_ERROR,
                    super::query::first_places(right).first().copied().unwrap_or(0),
                    message,
                );
            }
            let types: Vec<Oid> = columns.iter().map(|column| column.ty.oid).collect();
            for (at, (column, wanted)) in step.columns.iter().zip(&types).enumerate() {
                if column.ty.oid != *wanted && column.ty.oid != oid::UNKNOWN {
                    let (name, from) = (&cte.name.text, super::type_text(self.types(), *wanted));
                    let overall = super::type_text(self.types(), column.ty.oid);
                    let where_from = format!("column {} has type {from} in non-recursive term", at + 1);
                    let message =
                        format!("recursive query \"{name}\" {where_from} but type {overall} overall");
                    let hint = "Cast the output of the non-recursive term to the correct type.";
                    return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                        .hint(hint)
                        .at(left.pos + 1));
                }
            }
            self.retype(&mut step, types.clone(), &super::query::first_places(right))?;
            base.ctes.splice(0..0, ctes);
            let kind = CteKind::Recursive { base: Box::new(base), step: Box::new(step), all: *all, types };
            return Ok((kind, columns));
        }
        let query = self.settle(self.open_query(parent, blocked, names, query)?)?;
        let columns = query.columns.clone();
        Ok((CteKind::Query(Box::new(query)), columns))
    }
}

fn rename(columns: &mut [OutColumn], names: &[ast::Ident]) {
    for (column, name) in columns.iter_mut().zip(names) {
        column.name = name.text.clone();
    }
}

/// Does a FROM in the query name this table?
fn mentions(query: &ast::Query, name: &str) -> bool {
    fn item(from: &ast::FromItem, name: &str) -> bool {
        match &from.kind {
            ast::FromKind::Table { name: path } => path.parts.len() == 1 && path.last() == name,
            ast::FromKind::Query { query, .. } => mentions(query, name),
            ast::FromKind::Join { left, right, .. } => item(left, name) || item(right, name),
            ast::FromKind::Functions { .. } => false,
        }
    }
    let within = query.with.iter().flat_map(|with| &with.tables).any(|cte| match &cte.statement {
        ast::Statement::Query(query) => mentions(query, name),
        _ => false,
    });
    within
        || match &query.body {
            ast::Body::Select(select) => {
                let inner = |e: &ast::Expr| match &e.kind {
                    Kind::Exists(q) | Kind::Scalar(q) | Kind::InQuery { query: q, .. } => mentions(q, name),
                    _ => false,
                };
                select.from.iter().any(|from| item(from, name)) || select.filter.as_ref().is_some_and(inner)
            }
            ast::Body::Set { left, right, .. } => mentions(left, name) || mentions(right, name),
            ast::Body::Values(_) => false,
        }
}
