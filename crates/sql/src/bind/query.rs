//! SELECT, VALUES, set operations, WITH.
use super::aggregate::sort_key;
use super::scope::{CteName, ExprKind};
use super::select::check_entries;
use super::{Binder, Collation, Scope, Typed, fail};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::ast::{self, Kind, SetKind, SortBy};
use crate::tree::{Body, DistinctOn, Expr, From, OutColumn, Query, SortKey};
use crate::types::{Oid, Type, oid};

impl Binder<'_> {
    /// A query; its open columns are text.
    pub(crate) fn query(&self, parent: Option<&Scope<'_>>, blocked: bool, ast: &ast::Query) -> Result<Query> {
        let query = self.open_query(parent, blocked, &[], ast)?;
        self.settle(query)
    }

    pub(crate) fn settle(&self, mut query: Query) -> Result<Query> {
        if query.columns.iter().any(|column| column.ty.oid == oid::UNKNOWN) {
            let settled =
                |column: &OutColumn| if column.ty.oid == oid::UNKNOWN { oid::TEXT } else { column.ty.oid };
            let types = query.columns.iter().map(settled).collect();
            self.retype(&mut query, types, &[])?;
        }
        Ok(query)
    }

    /// A query whose literals and parameters may still be open.
    pub(crate) fn open_query(
        &self,
        parent: Option<&Scope<'_>>,
        blocked: bool,
        ctes: &[CteName],
        ast: &ast::Query,
    ) -> Result<Query> {
        let mut names = ctes.to_vec();
        let bound = self.with(parent, blocked, &mut names, ast.with.as_ref())?;
        let mut query = match &ast.body {
            ast::Body::Select(select) => self.select(parent, blocked, &names, select, ast)?,
            ast::Body::Values(rows) => self.values(parent, blocked, &names, rows)?,
            ast::Body::Set { kind, all, left, right } => {
                let places = [first_places(left), first_places(right)];
                let left = self.open_query(parent, blocked, &names, left)?;
                let right = self.open_query(parent, blocked, &names, right)?;
                self.set_operation(*kind, *all, left, right, places)?
            }
        };
        query.ctes = bound;
        if !matches!(ast.body, ast::Body::Select(_)) {
            query.order = self.output_order(&query, &ast.order_by)?;
            if !ast.locking.is_empty() {
                let message = "FOR UPDATE is not allowed with UNION/INTERSECT/EXCEPT";
                return Err(SqlError::refused_by_postgresql(message).at(ast.pos + 1));
            }
        }
        let mut scope = Scope::with_parent(parent, blocked);
        scope.ctes = names;
        scope.place = ExprKind::Limit;
        query.limit = self.row_count(&mut scope, ast.limit.as_ref(), "LIMIT")?;
        query.offset = self.row_count(&mut scope, ast.offset.as_ref(), "OFFSET")?;
        query.with_ties = ast.with_ties;
        if ast.with_ties && query.order.is_empty() {
            let message = "WITH TIES cannot be specified without ORDER BY clause";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        Ok(query)
    }

    fn row_count(&self, scope: &mut Scope<'_>, ast: Option<&ast::Expr>, what: &str) -> Result<Option<Expr>> {
        let Some(ast) = ast else { return Ok(None) };
        let typed = self.expr(scope, ast)?;
        let mut expr = self.bigint(typed, what)?;
        let mut columns = false;
        expr.walk(0, &mut |part, depth| {
            columns |= matches!(part, Expr::Column { depth: own, .. } if *own == depth);
            false
        });
        if columns {
            return fail(
                SqlState::INVALID_COLUMN_REFERENCE,
                ast.pos,
                format!("argument of {what} must not contain variables"),
            );
        }
        Ok(Some(expr))
    }

    fn values(
        &self,
        parent: Option<&Scope<'_>>,
        blocked: bool,
        ctes: &[CteName],
        rows: &[Vec<ast::Expr>],
    ) -> Result<Query> {
        let mut scope = Scope::with_parent(parent, blocked);
        scope.ctes = ctes.to_vec();
        scope.place = ExprKind::Values;
        let width = rows[0].len();
        check_entries("target lists", width)?;
        let mut columns: Vec<Vec<Typed>> = vec![Vec::new(); width];
        for row in rows {
            if row.len() != width {
                let message = "VALUES lists must all be the same length";
                return fail(SqlState::SYNTAX_ERROR, row.first().map_or(0, |e| e.pos), message);
            }
            for (column, expr) in columns.iter_mut().zip(row) {
                column.push(self.expr(&mut scope, expr)?);
            }
        }
        let mut bound: Vec<Vec<Expr>> = (0..rows.len()).map(|_| Vec::with_capacity(width)).collect();
        let mut out = Vec::new();
        for (number, column) in columns.into_iter().enumerate() {
            let open = column.iter().all(Typed::is_open);
            let collation = Collation::of(&column)?;
            let (exprs, ty) = if open {
                (column.into_iter().map(|typed| typed.expr).collect(), Type::of(oid::UNKNOWN))
            } else {
                self.common(column, "VALUES")?
            };
            for (row, expr) in bound.iter_mut().zip(exprs) {
                row.push(expr);
            }
            out.push(OutColumn {
                name: format!("column{}", number + 1),
                ty,
                table: 0,
                attribute: 0,
                fields: None,
                collation,
            });
        }
        Ok(plain(Body::Values(bound), out))
    }

    fn set_operation(
        &self,
        kind: SetKind,
        all: bool,
        mut left: Query,
        mut right: Query,
        places: [Vec<u32>; 2],
    ) -> Result<Query> {
        let place = |side: usize, at: usize| places[side].get(at).copied().unwrap_or(0);
        let word = match kind {
            SetKind::Union => "UNION",
            SetKind::Intersect => "INTERSECT",
            SetKind::Except => "EXCEPT",
        };
        if left.columns.len() != right.columns.len() {
            let message = format!("each {word} query must have the same number of columns");
            return fail(SqlState::SYNTAX_ERROR, place(1, 0), message);
        }
        let mut types = Vec::new();
        let mut columns = left.columns.clone();
        for (at, (l, r)) in left.columns.iter().zip(&right.columns).enumerate() {
            let out = &mut columns[at];
            let ty = if l.ty.oid == oid::UNKNOWN && r.ty.oid == oid::UNKNOWN {
                oid::TEXT
            } else {
                crate::func::select_common_type(self.types(), &[l.ty.oid, r.ty.oid], word)
                    .map_err(|error| error.at(place(1, at) + 1))?
            };
            out.ty = if l.ty == r.ty { l.ty } else { Type::of(ty) };
            (out.table, out.attribute) = (0, 0);
            out.collation = l.collation.and(r.collation, place(1, at))?;
            if kind != SetKind::Union || !all {
                out.collation.must_be_one()?;
                self.comparable(ty, place(0, at))?;
            }
            types.push(ty);
        }
        self.retype(&mut left, types.clone(), &places[0])?;
        self.retype(&mut right, types.clone(), &places[1])?;
        let body = Body::Set { kind, all, left: Box::new(left), right: Box::new(right), types };
        Ok(plain(body, columns))
    }

    /// Brings the visible columns of a query to these types; they stand at these places of the text.
    pub(crate) fn retype(&self, query: &mut Query, types: Vec<Oid>, places: &[u32]) -> Result<()> {
        for (at, wanted) in types.iter().enumerate() {
            let ty = query.columns[at].ty;
            if ty.oid == *wanted {
                continue;
            }
            let place = places.get(at).copied().unwrap_or(0);
            self.retype_column(query, at, (ty, *wanted), place)?;
        }
        Ok(())
    }

    fn retype_column(
        &self,
        query: &mut Query,
        at: usize,
        (from, wanted): (Type, Oid),
        place: u32,
    ) -> Result<()> {
        let cast = |expr: &mut Expr| -> Result<()> {
            let typed = Typed::new(std::mem::replace(expr, Expr::null()), from, place);
            match self.coerce(typed, Type::of(wanted), super::Context::Assignment)? {
                Some(typed) => *expr = typed.expr,
                None => return Err(self.cannot_cast(from.oid, wanted, place)),
            }
            Ok(())
        };
        match &mut query.body {
            Body::Select(select) => {
                cast(&mut select.targets[at])?;
                match &mut select.distinct {
                    DistinctOn::Rows(types) => types[at] = wanted,
                    DistinctOn::Columns(columns) => {
                        columns
                            .iter_mut()
                            .filter(|(column, _)| *column == at)
                            .for_each(|(_, ty)| *ty = wanted);
                    }
                    DistinctOn::No => {}
                }
            }
            Body::Values(rows) => rows.iter_mut().try_for_each(|row| cast(&mut row[at]))?,
            Body::Set { left, right, types, .. } => {
                self.retype_column(left, at, (from, wanted), place)?;
                self.retype_column(right, at, (from, wanted), place)?;
                types[at] = wanted;
            }
        }
        query.order.iter_mut().filter(|key| key.column == at).for_each(|key| key.ty = wanted);
        query.columns[at].ty = Type::of(wanted);
        Ok(())
    }

    /// ORDER BY of a set operation or VALUES: by output column only.
    fn output_order(&self, query: &Query, order: &[SortBy]) -> Result<Vec<SortKey>> {
        let mut keys = Vec::new();
        for sort in order {
            let at = match &sort.expr.kind {
                Kind::Integer(digits) => {
                    let at = digits.parse::<usize>().unwrap_or(0).wrapping_sub(1);
                    if at >= query.columns.len() {
                        let message = format!("ORDER BY position {digits} is not in select list");
                        return fail(SqlState::INVALID_COLUMN_REFERENCE, sort.expr.pos, message);
                    }
                    at
                }
                Kind::Column(parts) if parts.len() == 1 => {
                    match query.columns.iter().position(|column| column.name == parts[0]) {
                        Some(at) => at,
                        None => {
                            let message = format!("column \"{}\" does not exist", parts[0]);
                            return fail(SqlState::UNDEFINED_COLUMN, sort.expr.pos, message);
                        }
                    }
                }
                _ => {
                    let message = "invalid UNION/INTERSECT/EXCEPT ORDER BY clause";
                    let error = SqlError::refused_by_postgresql(message);
                    let detail = "Only result column names can be used, not expressions or functions.";
                    return Err(error.detail(detail).at(sort.expr.pos + 1));
                }
            };
            if let Collation::Conflict(..) = query.columns[at].collation {
                return Err(super::collation::undetermined("string comparison"));
            }
            self.sortable(query.columns[at].ty.oid, sort.expr.pos)?;
            keys.push(sort_key(at, query.columns[at].ty.oid, sort));
        }
        Ok(keys)
    }
}

/// Where the columns of a query's first SELECT or VALUES stand in the text.
pub(super) fn first_places(query: &ast::Query) -> Vec<u32> {
    match &query.body {
        ast::Body::Select(select) => select.targets.iter().map(|target| target.expr.pos).collect(),
        ast::Body::Values(rows) => rows.first().into_iter().flatten().map(|expr| expr.pos).collect(),
        ast::Body::Set { left, .. } => first_places(left),
    }
}

pub(super) fn plain(body: Body, columns: Vec<OutColumn>) -> Query {
    Query {
        ctes: Vec::new(),
        body,
        order: Vec::new(),
        limit: None,
        offset: None,
        with_ties: false,
        columns,
        estimate: None,
    }
}

impl From {
    pub(crate) fn is_one(&self) -> bool {
        matches!(self, From::One)
    }
}
