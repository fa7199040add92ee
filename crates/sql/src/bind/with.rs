//! WITH, recursive or not.
//!
//! 1. A name of WITH is seen by the tables after it and by the statement; by its own query only if that is
//!    recursive.
//! 2. Rows are changed in the WITH of a whole statement only. Such a part is run before the statement's own
//!    part if that reads it, also by way of others, and else behind it.
use super::scope::CteName;
use super::{Binder, Scope, fail};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::Pos;
use crate::parse::ast::{self, Kind, SetKind};
use crate::tree::{Cte, CteKind, OutColumn};
use crate::types::{Oid, oid};

impl Binder<'_> {
    pub(crate) fn with(
        &self,
        parent: Option<&Scope<'_>>,
        blocked: bool,
        names: &mut Vec<CteName>,
        with: Option<&ast::With>,
    ) -> Result<Vec<Cte>> {
        let top = self.top.replace(false);
        let Some(with) = with else { return Ok(Vec::new()) };
        let mut bound: Vec<Cte> = Vec::new();
        for (at, cte) in with.tables.iter().enumerate() {
            if with.tables[..at].iter().any(|other| other.name.text == cte.name.text) {
                let message = format!("WITH query name \"{}\" specified more than once", cte.name.text);
                return fail(SqlState::DUPLICATE_ALIAS, cte.name.pos, message);
            }
            let id = self.next_cte.get();
            self.next_cte.set(id + 1);
            let around = self.reads.take();
            let (kind, mut columns) = match &cte.statement {
                ast::Statement::Query(query) => {
                    self.cte_query(parent, blocked, names, with.recursive, cte, query, id)?
                }
                ast::Statement::Merge(_) => {
                    let message = "MERGE not supported in WITH query";
                    return Err(SqlError::refused_by_postgresql(message).at(cte.name.pos + 1));
                }
                _ if !top => {
                    let message =
                        "WITH clause containing a data-modifying statement must be at the top level";
                    return Err(SqlError::refused_by_postgresql(message).at(cte.name.pos + 1));
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
            let mut reads = self.reads.replace(around);
            for before in bound.iter().filter(|before| reads.contains(&before.id)).collect::<Vec<_>>() {
                reads.extend(&before.reads);
            }
            if !top {
                self.reads.borrow_mut().extend(&reads);
            }
            let listed = cte.columns.iter().map(|name| name.text.clone()).collect();
            let (name, materialized) = (cte.name.text.clone(), cte.materialized);
            bound.push(Cte { id, name, listed, materialized, eager: false, once: false, reads, kind });
        }
        Ok(bound)
    }

    /// Those parts of a statement's WITH that change rows and whose rows its own part needs are run first.
    pub(super) fn order_changes(&self, ctes: &mut [Cte]) {
        let mut reads = self.reads.take();
        for cte in ctes.iter().filter(|cte| reads.contains(&cte.id)).collect::<Vec<_>>() {
            reads.extend(&cte.reads);
        }
        for cte in ctes {
            cte.eager = matches!(cte.kind, CteKind::Change(_)) && reads.contains(&cte.id);
        }
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
            && (mentions(right, &cte.name.text).is_some() || mentions(left, &cte.name.text).is_some())
        {
            if let Some(pos) = mentions(left, &cte.name.text) {
                let wrong = "must not appear within its non-recursive term";
                let message = format!("recursive reference to query \"{}\" {wrong}", cte.name.text);
                return fail(SqlState::INVALID_RECURSION, pos, message);
            }
            Self::recursion_tail(query)?;
            let mut inner = names.to_vec();
            let ctes = self.with(parent, blocked, &mut inner, query.with.as_ref())?;
            let mut base = self.settle(self.open_query(parent, blocked, &inner, left)?)?;
            let mut columns = base.columns.clone();
            rename(&mut columns, &cte.columns);
            inner.push(CteName { name: cte.name.text.clone(), id, columns: columns.clone() });
            self.recursing.borrow_mut().push((id, Vec::new()));
            let step = self.open_query(parent, blocked, &inner, right);
            let (_, places) = self.recursing.borrow_mut().pop().expect("it was put there");
            let mut step = step?;
            Self::recursion(&cte.name.text, id, &step, &places)?;
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
        if recursive && mentions(query, &cte.name.text).is_some() {
            let form = "does not have the form non-recursive-term UNION [ALL] recursive-term";
            let message = format!("recursive query \"{}\" {form}", cte.name.text);
            return fail(SqlState::INVALID_RECURSION, cte.name.pos, message);
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

/// Where a FROM in the query names this table.
fn mentions(query: &ast::Query, name: &str) -> Option<Pos> {
    fn item(from: &ast::FromItem, name: &str) -> Option<Pos> {
        match &from.kind {
            ast::FromKind::Table { name: path } => {
                (path.parts.len() == 1 && path.last() == name).then_some(path.pos)
            }
            ast::FromKind::Query { query, .. } => mentions(query, name),
            ast::FromKind::Join { left, right, .. } => item(left, name).or_else(|| item(right, name)),
            ast::FromKind::Functions { .. } => None,
        }
    }
    fn inner(expr: &ast::Expr, name: &str) -> Option<Pos> {
        match &expr.kind {
            Kind::Exists(query) | Kind::Scalar(query) | Kind::InQuery { query, .. } => mentions(query, name),
            Kind::And(list) | Kind::Or(list) => list.iter().find_map(|expr| inner(expr, name)),
            Kind::Not(expr) => inner(expr, name),
            _ => None,
        }
    }
    let tables = query.with.iter().flat_map(|with| &with.tables);
    let mut within = tables.filter_map(|cte| match &cte.statement {
        ast::Statement::Query(query) => mentions(query, name),
        _ => None,
    });
    within.next().or_else(|| match &query.body {
        ast::Body::Select(select) => {
            let from = select.from.iter().find_map(|from| item(from, name));
            from.or_else(|| select.filter.as_ref().and_then(|filter| inner(filter, name)))
        }
        ast::Body::Set { left, right, .. } => mentions(left, name).or_else(|| mentions(right, name)),
        ast::Body::Values(_) => None,
    })
}
