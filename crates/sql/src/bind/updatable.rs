//! What INSERT, UPDATE and DELETE change: a table, by its own name or through views.
//!
//! 1. A view stands for the one relation that it reads where PostgreSQL's rules for automatically updatable
//!    views allow it (55000 otherwise). Views with computed columns are refused altogether (0A000), where
//!    PostgreSQL refuses only to change these.
//! 2. Names are those of the relation that the statement names, numbers of columns are the table's.
//! 3. Rows that a view does not show are neither updated nor deleted through it; they may be made where
//!    there is no CHECK OPTION.
//! 4. Columns of a view have no defaults of their own: SET .. = DEFAULT gives them NULL, or what their type
//!    has. An INSERT that gives them nothing takes the table's.

use std::sync::Arc;

use super::scope::{ExprKind, ScopeColumn};
use super::{Binder, Scope};
use crate::catalog::object::{Object, Table, View};
use crate::catalog::privilege;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::ast::{self, Body, Distinct, FromKind, Ident, Kind, Path, Select};
use crate::tree::{Expr, Target};

/// What a statement changes.
pub(super) struct Changed {
    pub(super) table: Arc<Table>,
    /// The table with the names that the statement may use, and the defaults that it may ask for; what it may
    /// not name is as if dropped.
    pub(super) shown: Arc<Table>,
    /// Numbers of the columns, in the order of the relation that was named.
    pub(super) order: Vec<usize>,
    /// Which rows there are, over the table's row; all without.
    filter: Option<Expr>,
    /// Conditions of WITH CHECK OPTION, by view; those of the views beneath first.
    checks: Vec<(String, Expr)>,
}

impl Changed {
    pub(super) fn of(table: Arc<Table>) -> Changed {
        let there = table.columns.iter().enumerate().filter(|(_, column)| !column.dropped);
        let order = there.map(|(at, _)| at).collect();
        Changed { shown: table.clone(), table, order, filter: None, checks: Vec::new() }
    }

    pub(super) fn is_through_view(&self) -> bool {
        !Arc::ptr_eq(&self.table, &self.shown)
    }

    /// The target with the conditions that views demand of new rows.
    pub(super) fn checked(&self, target: Arc<Target>) -> Arc<Target> {
        if self.checks.is_empty() {
            return target;
        }
        let mut target = Target::clone(&target);
        target.options = self.checks.clone();
        Arc::new(target)
    }

    /// The condition of a statement, for the rows that there are.
    pub(super) fn among(&self, condition: Option<Expr>) -> Option<Expr> {
        match (self.filter.clone(), condition) {
            (Some(filter), Some(condition)) => Some(Expr::And(vec![filter, condition])),
            (filter, condition) => filter.or(condition),
        }
    }
}

impl Binder<'_> {
    /// What a statement changes that names `path`; `what` it does with rows is for errors.
    pub(super) fn changed(&self, path: &Path, what: Changing) -> Result<Changed> {
        let found = self.find_relation(path)?;
        if let Some(relation) = &found {
            self.need(relation.oid(), what.privilege());
        }
        match found.as_deref() {
            Some(Object::View(view)) => self.within_view(view, || self.through(view, what, false)),
            Some(Object::Table(table)) if table.materialized.is_some() => {
                let message = format!("cannot change materialized view \"{}\"", table.name);
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
            _ => self.target_table(path).map(Changed::of),
        }
    }

    /// The table whose rows a statement changes that names `path`.
    pub(crate) fn changed_table(&self, path: &Path) -> Result<Arc<Table>> {
        self.changed(path, Changing::Update).map(|changed| changed.table)
    }

    /// Notes that a statement reads the rows that it changes, if one of these expressions has a column of
    /// theirs.
    pub(super) fn reads<'e>(
        &self,
        path: &Path,
        width: usize,
        exprs: impl Iterator<Item = &'e Expr>,
    ) -> Result<()> {
        let mut reads = false;
        for expr in exprs {
            expr.clone().walk(0, &mut |part, depth| {
                reads |= match part {
                    Expr::Column { depth: own, slot } => *own == depth && *slot < width,
                    Expr::WholeRow { depth: own, from, .. } => *own == depth && *from < width,
                    _ => false,
                };
                reads
            });
        }
        if let Some(relation) = self.find_relation(path)?.filter(|_| reads) {
            self.need(relation.oid(), privilege::SELECT);
        }
        Ok(())
    }

    /// Whether rows may be changed through a view.
    pub(crate) fn is_updatable(&self, view: &View) -> bool {
        self.through(view, Changing::Update, false).is_ok()
    }

    /// Why PostgreSQL would not change rows through a view.
    pub(crate) fn why_not_updatable(&self, view: &View) -> Option<String> {
        let error = self.through(view, Changing::Update, false).err()?;
        let is_refused = error.state == SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
        error.detail.clone().filter(|_| is_refused)
    }

    /// The scope of what is changed, at slot 0.
    pub(super) fn target_scope<'p>(
        &self,
        parent: Option<&'p Scope<'p>>,
        names: &[super::scope::CteName],
        changed: &Changed,
        path: &Path,
        alias: Option<&Ident>,
    ) -> Scope<'p> {
        let mut scope = Scope::with_parent(parent, false);
        scope.ctes = names.to_vec();
        let name = alias.map_or(path.last(), |alias| alias.text.as_str());
        scope.add_table(&changed.shown, name, None, 0, true);
        if alias.is_none() {
            scope.entries[0].schema = self.schema_name(changed.shown.schema);
        }
        if changed.is_through_view() {
            let number = |column: &ScopeColumn| usize::from(column.origin.1.unsigned_abs()) - 1;
            let rank = |column: &ScopeColumn| changed.order.iter().position(|at| *at == number(column));
            scope.entries[0].columns.sort_by_key(rank);
            scope.visible.columns.sort_by_key(|(column, _)| rank(column));
        }
        scope
    }

    /// `cascaded`: a view above asks for the conditions of all those beneath.
    fn through(&self, view: &View, what: Changing, cascaded: bool) -> Result<Changed> {
        let option = view.options.iter().find(|(name, _)| name == "check_option");
        let cascaded = cascaded || option.is_some_and(|(_, kind)| kind == "cascaded");
        let refused = |why: &str| Err(what.refused(&view.name, why));
        let mut parsed = crate::parse::parse(&view.query.sql)?;
        let Some(ast::Statement::Query(query)) = parsed.pop().map(|parsed| parsed.statement) else {
            return refused(OTHER_SOURCE);
        };
        let select = match simple(&query) {
            Ok(select) => select,
            Err(why) => return refused(why),
        };
        let [item] = select.from.as_slice() else { return refused(OTHER_SOURCE) };
        let FromKind::Table { name: path } = &item.kind else { return refused(OTHER_SOURCE) };
        let found = self.find_relation(path)?;
        if let Some(relation) = &found {
            self.need(relation.oid(), what.privilege());
        }
        let inner = match found.as_deref() {
            Some(Object::Table(table)) if table.materialized.is_none() => {
                Changed::of(Arc::new(table.clone()))
            }
            Some(Object::View(inner)) => self.within_view(inner, || self.through(inner, what, cascaded))?,
            _ => return refused(OTHER_SOURCE),
        };
        let mut scope =
            self.target_scope(None, &[], &inner, path, item.alias.as_ref().map(|alias| &alias.name));
        let renamed = item.alias.iter().flat_map(|alias| &alias.columns);
        for (at, name) in renamed.enumerate() {
            scope.entries[0].columns[at].name.clone_from(&name.text);
            scope.visible.columns[at].0.name.clone_from(&name.text);
        }
        let own = self.condition(&mut scope, select.filter.as_ref(), ExprKind::Where)?;
        let mut order = columns(&scope, select)?;
        order.truncate(view.columns.len());
        let mut shown = Table::clone(&inner.table);
        (shown.name, shown.schema) = (view.name.clone(), view.schema);
        shown.columns.iter_mut().for_each(|column| column.dropped = true);
        for (at, column) in order.iter().zip(&view.columns) {
            let own = &mut shown.columns[*at];
            if !own.dropped {
                return Err(SqlError::unsupported(
                    "changing rows through a view that shows a column twice",
                    crate::missing::CHANGED_VIEWS,
                ));
            }
            (own.dropped, own.name) = (false, column.name.clone());
            (own.default, own.identity) = (None, None);
        }
        let filter = inner.among(own.clone());
        let mut checks = inner.checks;
        if let Some(own) = own.filter(|_| cascaded || option.is_some()) {
            checks.push((view.name.clone(), own));
        }
        Ok(Changed { table: inner.table, shown: Arc::new(shown), order, filter, checks })
    }
}

const OTHER_SOURCE: &str =
    "Views that do not select from a single table or view are not automatically updatable.";

/// The SELECT of a view that may be updatable; otherwise why it is not, in PostgreSQL's words and order.
fn simple(query: &ast::Query) -> std::result::Result<&Select, &'static str> {
    let select = match &query.body {
        Body::Select(select) => select,
        Body::Values(_) => return Err(OTHER_SOURCE),
        Body::Set { .. } => {
            return Err("Views containing UNION, INTERSECT, or EXCEPT are not automatically updatable.");
        }
    };
    if select.distinct != Distinct::No {
        return Err("Views containing DISTINCT are not automatically updatable.");
    }
    if !select.group_by.is_empty() {
        return Err("Views containing GROUP BY are not automatically updatable.");
    }
    if select.having.is_some() {
        return Err("Views containing HAVING are not automatically updatable.");
    }
    if query.with.is_some() {
        return Err("Views containing WITH are not automatically updatable.");
    }
    if query.limit.is_some() || query.offset.is_some() {
        return Err("Views containing LIMIT or OFFSET are not automatically updatable.");
    }
    let is_aggregate = |target: &ast::Target| match &target.expr.kind {
        Kind::Func(call) if call.over.is_none() => {
            let named = crate::func::functions(call.name.last());
            named.iter().any(|function| function.kind == crate::func::FunctionKind::Aggregate)
        }
        _ => false,
    };
    if select.targets.iter().any(is_aggregate) {
        return Err("Views that return aggregate functions are not automatically updatable.");
    }
    Ok(select)
}

/// The table's numbers of the columns that a view takes from its only relation.
fn columns(scope: &Scope<'_>, select: &Select) -> Result<Vec<usize>> {
    let mut numbers = Vec::new();
    for target in &select.targets {
        let number = |expr: &Expr| match expr {
            Expr::Column { depth: 0, slot } => Some(*slot),
            _ => None,
        };
        let found: Option<Vec<usize>> = match &target.expr.kind {
            Kind::Star(_) => scope.entries[0].columns.iter().map(|column| number(&column.expr)).collect(),
            Kind::Column(parts) => number(&scope.column(parts, target.expr.pos)?.expr).map(|at| vec![at]),
            _ => None,
        };
        let Some(found) = found else {
            return Err(SqlError::unsupported(
                "changing rows through a view with computed columns",
                crate::missing::CHANGED_VIEWS,
            ));
        };
        numbers.extend(found);
    }
    Ok(numbers)
}

/// What is done with rows.
#[derive(Clone, Copy)]
pub(super) enum Changing {
    Insert,
    Update,
    Delete,
}

impl Changing {
    fn privilege(self) -> u32 {
        match self {
            Changing::Insert => privilege::INSERT,
            Changing::Update => privilege::UPDATE,
            Changing::Delete => privilege::DELETE,
        }
    }

    fn refused(self, view: &str, why: &str) -> SqlError {
        let (does, doing, event) = match self {
            Changing::Insert => ("insert into", "inserting into", "INSERT"),
            Changing::Update => ("update", "updating", "UPDATE"),
            Changing::Delete => ("delete from", "deleting from", "DELETE"),
        };
        let rule = format!("an unconditional ON {event} DO INSTEAD rule");
        let hint = format!("To enable {doing} the view, provide an INSTEAD OF {event} trigger or {rule}.");
        let message = format!("cannot {does} view \"{view}\"");
        SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).detail(why).hint(hint)
    }
}
