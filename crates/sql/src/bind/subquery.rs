//! Queries within expressions.

use super::scope::ExprKind;
use super::{Binder, Scope, Typed, fail};
use crate::error::SqlError;
use crate::error::{Result, SqlState};
use crate::parse::Pos;
use crate::parse::ast::{self, Kind};
use crate::tree::{Expr, Query, Subquery, SubqueryKind};
use crate::types::{Type, oid};

fn subquery(kind: SubqueryKind, query: Query) -> Expr {
    Expr::Subquery(Box::new(Subquery { kind, query, cache: None, memo: None }))
}

const ROWS_COMPARED: &str = "Compare with =, <>, <, <=, > or >=.";

impl Binder<'_> {
    fn inner(&self, scope: &Scope<'_>, query: &ast::Query, pos: Pos) -> Result<Query> {
        if let ExprKind::Lasting(what) = scope.place {
            let message = format!("cannot use subquery in {}", what.trim_end_matches('s'));
            return Err(SqlError::refused_by_postgresql(message).at(pos + 1));
        }
        self.query(Some(scope), false, query)
    }

    pub(crate) fn exists(&self, scope: &mut Scope<'_>, query: &ast::Query, pos: Pos) -> Result<Typed> {
        let query = self.inner(scope, query, pos)?;
        Ok(Typed::new(subquery(SubqueryKind::Exists, query), Type::of(oid::BOOL), pos))
    }

    pub(crate) fn scalar_query(&self, scope: &mut Scope<'_>, query: &ast::Query, pos: Pos) -> Result<Typed> {
        let query = self.inner(scope, query, pos)?;
        let [column] = query.columns.as_slice() else {
            return fail(SqlState::SYNTAX_ERROR, pos, "subquery must return only one column");
        };
        let (ty, collation) = (column.ty, column.collation.read());
        Ok(Typed::new(subquery(SubqueryKind::Scalar(0), query), ty, pos).collated(collation))
    }

    pub(crate) fn array_query(&self, scope: &mut Scope<'_>, query: &ast::Query, pos: Pos) -> Result<Typed> {
        let query = self.inner(scope, query, pos)?;
        let [column] = query.columns.as_slice() else {
            return fail(SqlState::SYNTAX_ERROR, pos, "subquery must return only one column");
        };
        let ty = column.ty.oid;
        // An array of arrays is one array of more dimensions.
        let (element, array) = match self.types().element_of(ty) {
            0 => (ty, self.types().array_of(ty)),
            element => (element, ty),
        };
        Ok(Typed::new(subquery(SubqueryKind::Array(element), query), Type::of(array), pos))
    }

    pub(crate) fn in_query(
        &self,
        scope: &mut Scope<'_>,
        left: &ast::Expr,
        query: &ast::Query,
        negated: bool,
        pos: Pos,
    ) -> Result<Typed> {
        self.any(scope, left, "=", false, query, negated, pos)
    }

    pub(crate) fn any_query(
        &self,
        scope: &mut Scope<'_>,
        left: &ast::Expr,
        op: &ast::Operator,
        all: bool,
        query: &ast::Query,
        pos: Pos,
    ) -> Result<Typed> {
        self.any(scope, left, &op.name, all, query, false, pos)
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of the construct")]
    fn any(
        &self,
        scope: &mut Scope<'_>,
        left: &ast::Expr,
        op: &str,
        all: bool,
        query: &ast::Query,
        negated: bool,
        pos: Pos,
    ) -> Result<Typed> {
        let list = match &left.kind {
            Kind::Row(list, _) => list.as_slice(),
            _ => std::slice::from_ref(left),
        };
        let left = self.exprs(scope, list)?;
        let query = self.inner(scope, query, pos)?;
        if left.len() < query.columns.len() {
            return fail(SqlState::SYNTAX_ERROR, pos, "subquery has too many columns");
        }
        if left.len() > query.columns.len() {
            return fail(SqlState::SYNTAX_ERROR, pos, "subquery has too few columns");
        }
        if left.len() > 1 && !matches!(op, "=" | "<>") {
            return Err(Self::not_here(
                "row comparison with a subquery by this operator",
                ROWS_COMPARED,
                pos,
            ));
        }
        let (mut lefts, mut heads) = (Vec::new(), Vec::new());
        for (typed, column) in left.into_iter().zip(&query.columns) {
            let head = self.head(op, typed.ty.oid, column.ty.oid, pos)?;
            let collation = typed.collation.and(column.collation.read(), pos)?;
            collation.must_do_for(head.function).map_err(|error| match op {
                "=" => super::collation::undetermined("string hashing"),
                _ => error,
            })?;
            lefts.push(self.argument(typed, head.types[0])?.expr);
            heads.push(head);
        }
        let mut query = query;
        self.retype(&mut query, heads.iter().map(|head| head.types[1]).collect(), &[])?;
        let kind = SubqueryKind::Any { left: lefts, heads, all, negated };
        Ok(Typed::new(subquery(kind, query), Type::of(oid::BOOL), pos))
    }

    /// The columns of a query of one row, each as an expression: `(a, b) = (SELECT ..)` of UPDATE.
    pub(crate) fn row_columns(
        &self,
        scope: &mut Scope<'_>,
        query: &ast::Query,
        pos: Pos,
    ) -> Result<Vec<Typed>> {
        let query = self.inner(scope, query, pos)?;
        let column = |at: usize| {
            let ty = query.columns[at].ty;
            Typed::new(subquery(SubqueryKind::Scalar(at), query.clone()), ty, pos)
        };
        Ok((0..query.columns.len()).map(column).collect())
    }

    /// `(a, b) op (SELECT ..)`: a row of a query that returns at most one.
    pub(crate) fn row_subquery(
        &self,
        scope: &mut Scope<'_>,
        op: &str,
        left: &[ast::Expr],
        query: &ast::Query,
        pos: Pos,
    ) -> Result<Typed> {
        if op != "=" {
            return Err(Self::not_here(
                "row comparison with a subquery by this operator",
                ROWS_COMPARED,
                pos,
            ));
        }
        let row = ast::Expr { pos, kind: Kind::Row(left.to_vec(), false) };
        self.any(scope, &row, op, false, query, false, pos)
    }
}
