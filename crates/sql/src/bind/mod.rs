//! Binding: names, types and functions of a parse tree are decided (PostgreSQL's parse analysis).
//!
//! 1. A parameter whose type the client left open takes the type of the first place that asks for one, as in
//!    PostgreSQL; so does a string literal. One that no place asks for is text in an output column, else
//!    42P18.
//! 2. Errors carry the byte (from 1) of the expression that PostgreSQL would point at.
//! 3. Binding reads the catalog and never a table's rows.

mod aggregate;
mod arbiter;
mod assign;
mod call;
mod change;
mod coerce;
pub(crate) mod collation;
mod expr;
mod from;
mod group;
mod hints;
mod immutable;
mod merge;
mod operator;
mod query;
mod recursion;
pub(crate) mod scope;
mod select;
mod subquery;
mod types;
mod updatable;
mod window;
mod with;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::catalog::privilege::{self, Need};
use crate::catalog::view::CatalogView;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::Pos;
use crate::parse::ast;
use crate::tree;
use crate::types::context::EvalContext;
use crate::types::{Oid, Type, Types, oid};

pub(crate) use assign::only_default_for;
pub(crate) use coerce::Context;
pub(crate) use collation::Collation;
pub(crate) use scope::Scope;
pub(crate) use types::{catalog_type, full_type_text, type_text};

/// A bound expression with its type.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub(crate) expr: tree::Expr,
    pub(crate) ty: Type,
    pub(crate) pos: Pos,
    pub(crate) collation: Collation,
}

impl Typed {
    pub(crate) fn new(expr: tree::Expr, ty: Type, pos: Pos) -> Typed {
        Typed { expr, ty, pos, collation: Collation::Default }
    }

    #[must_use]
    pub(crate) fn collated(self, collation: Collation) -> Typed {
        Typed { collation, ..self }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.ty.oid == oid::UNKNOWN
    }
}

/// What statements are bound with.
pub(crate) struct Binder<'a> {
    pub(crate) ctx: EvalContext<'a>,
    pub(crate) store: &'a dyn CatalogView,
    /// Schemas in the order in which names are looked for; `pg_catalog` comes first unless it is listed.
    pub(crate) search_path: &'a [String],
    /// Types of parameters, 0 where still open.
    pub(crate) parameters: RefCell<Vec<Oid>>,
    pub(crate) next_cte: std::cell::Cell<usize>,
    /// What a statement must be allowed to do.
    pub(crate) needs: RefCell<Vec<Need>>,
    /// The owner of the view whose query is bound; 0 outside of views.
    pub(crate) acting: std::cell::Cell<Oid>,
    /// Names in the text, outside of views, that may come to mean something else.
    pub(crate) spelled: RefCell<Vec<Spelled>>,
    /// The columns in it, outside of views: (relation, number from 1).
    pub(crate) columns: RefCell<BTreeSet<(Oid, i16)>>,
    /// Primary keys by which it groups, outside of views: other columns follow from them.
    pub(crate) grouped: RefCell<BTreeSet<Oid>>,
    /// The views within whose queries something is bound, the outermost first.
    pub(crate) views: RefCell<Vec<Oid>>,
    /// The recursive queries whose second part is bound, and where it names them.
    recursing: RefCell<Vec<(usize, Vec<Pos>)>>,
    /// What is bound next is a statement, and not a part of one.
    top: std::cell::Cell<bool>,
    /// The WITH queries that were read since somebody asked.
    reads: RefCell<BTreeSet<usize>>,
    /// What PostgreSQL refuses once a whole statement is bound, and of which column: that of the first one.
    late: RefCell<Option<(usize, SqlError)>>,
}

/// A name of a user's object in a statement's text.
pub(crate) struct Spelled {
    /// Where it begins.
    pub(crate) pos: Pos,
    pub(crate) meant: Meant,
}

/// What a name in a text was found to mean.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Meant {
    /// In FROM.
    Relation(Oid),
    /// A literal that became a regclass.
    Literal(Oid),
    Type(Oid),
    /// A column of the only table that an expression is over, from 1.
    Column(Oid, i16),
    /// The row of that table.
    Row(Oid),
    /// `*`, and the columns that it stands for.
    Star(String),
    /// A literal that became a date, a time or an interval, as every session reads it.
    Moment(String),
}

/// How deep views may be nested.
const VIEWS_DEEP: usize = 50;

/// What error messages call defaults.
pub(crate) const DEFAULTS: &str = "DEFAULT expressions";

/// What error messages call checks.
pub(crate) const CHECKS: &str = "check constraints";
/// Where a generated column's expression is bound.
pub(crate) const GENERATION: &str = "column generation expressions";

/// An error at a place of the statement.
pub(crate) fn fail<T>(state: SqlState, pos: Pos, message: impl Into<String>) -> Result<T> {
    Err(SqlError::new(state, message).at(pos + 1))
}

impl<'a> Binder<'a> {
    pub(crate) fn new(
        ctx: EvalContext<'a>,
        store: &'a dyn CatalogView,
        search_path: &'a [String],
        parameters: Vec<Oid>,
    ) -> Binder<'a> {
        let parameters = RefCell::new(parameters);
        Binder {
            ctx,
            store,
            search_path,
            parameters,
            next_cte: 0.into(),
            needs: RefCell::default(),
            acting: 0.into(),
            spelled: RefCell::default(),
            columns: RefCell::default(),
            grouped: RefCell::default(),
            views: RefCell::default(),
            recursing: RefCell::default(),
            top: false.into(),
            reads: RefCell::default(),
            late: RefCell::default(),
        }
    }

    /// The statement is refused for this column, unless something else is found in it.
    pub(crate) fn refuse_late(&self, column: usize, error: SqlError) {
        let mut late = self.late.borrow_mut();
        if late.as_ref().is_none_or(|(other, _)| column < *other) {
            *late = Some((column, error));
        }
    }

    pub(crate) fn types(&self) -> &dyn Types {
        &self.ctx
    }

    /// The types of all parameters; text where nothing asked.
    pub(crate) fn parameter_types(&self) -> Result<Vec<Oid>> {
        let parameters = self.parameters.borrow();
        for (at, ty) in parameters.iter().enumerate() {
            if *ty == 0 || *ty == oid::UNKNOWN {
                let message = format!("could not determine data type of parameter ${}", at + 1);
                return Err(SqlError::new(SqlState::INDETERMINATE_DATATYPE, message));
            }
        }
        Ok(parameters.clone())
    }

    /// The schemas that a name without one is looked for in.
    pub(crate) fn schemas(&self) -> Vec<Oid> {
        self.search_path.iter().filter_map(|name| self.store.schema(name)).collect()
    }

    /// The table, view, sequence or index of a name.
    pub(crate) fn find_relation(
        &self,
        path: &ast::Path,
    ) -> Result<Option<Arc<crate::catalog::object::Object>>> {
        let look_into = |schema| self.need_at(schema, privilege::USAGE, path.pos + 1);
        if let Some(schema) = path.schema() {
            let schema = self.store.schema(schema);
            return Ok(schema.and_then(|schema| {
                look_into(schema);
                self.store.relation(schema, path.last())
            }));
        }
        let found = self.schemas().into_iter().find_map(|schema| self.store.relation(schema, path.last()));
        if let Some(found) = &found {
            look_into(found.schema());
        }
        Ok(found)
    }

    /// Notes that the statement needs privileges on an object.
    pub(crate) fn need(&self, object: Oid, bits: u32) {
        self.need_at(object, bits, 0);
    }

    fn need_at(&self, object: Oid, bits: u32, at: u32) {
        let need = Need { object, bits, by: self.acting.get(), at };
        let mut needs = self.needs.borrow_mut();
        let same = |other: &Need| Need { at: 0, ..*other } == Need { at: 0, ..need };
        if !needs.iter().any(same) {
            needs.push(need);
        }
    }

    /// Binds as the owner of a view.
    pub(crate) fn acting_as<T>(&self, owner: Oid, body: impl FnOnce() -> T) -> T {
        let before = self.acting.replace(owner);
        let made = body();
        self.acting.set(before);
        made
    }

    /// Binds something within a view's query, as the view's owner.
    ///
    /// # Errors
    /// 42P17 for a view that is within itself; 54001 for views that are nested too deeply.
    pub(crate) fn within_view<T>(
        &self,
        view: &crate::catalog::object::View,
        body: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if self.views.borrow().contains(&view.oid) {
            let message = format!("infinite recursion detected in rules for relation \"{}\"", view.name);
            return Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
        }
        if self.views.borrow().len() >= VIEWS_DEEP {
            let error = SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded");
            return Err(error.hint(format!("Views are nested more than {VIEWS_DEEP} deep.")));
        }
        self.views.borrow_mut().push(view.oid);
        let made = self.acting_as(view.owner, body);
        self.views.borrow_mut().pop();
        made
    }

    /// Takes note of what a name means.
    pub(crate) fn spelled(&self, pos: Pos, meant: Meant) {
        if self.views.borrow().is_empty() {
            self.spelled.borrow_mut().push(Spelled { pos, meant });
        }
    }

    /// Takes note of a column of a relation that the text looks at.
    pub(crate) fn looks_at(&self, origin: (Oid, i16)) {
        if self.views.borrow().is_empty() && origin.0 != 0 {
            self.columns.borrow_mut().insert(origin);
        }
    }

    /// An expression over the columns of one table: a check, an index's expression or predicate. `what`: what
    /// error messages call several of them.
    pub(crate) fn table_expr(
        &self,
        table: &Arc<crate::catalog::object::Table>,
        text: &str,
        target: Option<(Type, &str)>,
        what: &'static str,
    ) -> Result<tree::Expr> {
        let parsed = crate::parse::parse_expr(text)?;
        let typed = self.table_ast(table, &parsed, target, what).map_err(SqlError::nowhere)?;
        Ok(typed.expr)
    }

    /// The condition of a check.
    pub(crate) fn check_of(
        &self,
        table: &Arc<crate::catalog::object::Table>,
        text: &str,
    ) -> Result<tree::Expr> {
        let parsed = crate::parse::parse_expr(text)?;
        let bound = self.table_ast(table, &parsed, None, CHECKS);
        bound.and_then(|typed| self.boolean(typed, "CHECK")).map_err(SqlError::nowhere)
    }

    pub(crate) fn table_ast(
        &self,
        table: &Arc<crate::catalog::object::Table>,
        parsed: &ast::Expr,
        target: Option<(Type, &str)>,
        what: &'static str,
    ) -> Result<Typed> {
        let mut scope = Scope::root();
        scope.place = scope::ExprKind::Lasting(what);
        scope.add_table(table, &table.name, None, 0, true);
        let typed = self.expr(&mut scope, parsed)?;
        match target {
            Some((ty, name)) => self.coerce_default(typed, ty, name),
            None => Ok(typed),
        }
    }
}
