//! INSERT, UPDATE, DELETE, and statements as a whole.

use std::sync::Arc;

use super::from::no_relation;
use super::query::plain;
use super::scope::{CteName, Entry, ExprKind, ScopeColumn, Written, columns_of};
use super::updatable::{Changed, Changing};
use super::{Binder, Collation, Scope, Typed, fail};
use crate::catalog::object::{Index, Object, Rule, Table, UserType, UserTypeKind};
use crate::catalog::privilege;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::ast::{self, Ident, JoinKind, Kind, Path};
use crate::tree::{
    Body, BoundStatement, Change, Conflict, Cte, Delete, DomainCheck, Expr, From, Insert, Joined, OutColumn,
    Query, Returning, Target, Update,
};
use crate::types::value::Value;
use crate::types::{Oid, Type, oid};

pub(super) const GENERATED_ALWAYS: SqlState = SqlState::new(*b"428C9");

impl Binder<'_> {
    pub(crate) fn statement(&self, ast: &ast::Statement) -> Result<BoundStatement> {
        self.top.set(true);
        let mut bound = match ast {
            ast::Statement::Query(query) => BoundStatement::Query(Box::new(self.query(None, false, query)?)),
            other => BoundStatement::Change(self.change(None, &[], other)?),
        };
        if let Some((_, error)) = self.late.take() {
            return Err(error);
        }
        self.order_changes(bound.ctes_mut());
        Ok(bound)
    }

    pub(crate) fn change(
        &self,
        parent: Option<&Scope<'_>>,
        ctes: &[CteName],
        ast: &ast::Statement,
    ) -> Result<Change> {
        match ast {
            ast::Statement::Insert(insert) => {
                Ok(Change::Insert(Box::new(self.insert(parent, ctes, insert)?)))
            }
            ast::Statement::Update(update) => {
                Ok(Change::Update(Box::new(self.update(parent, ctes, update)?)))
            }
            ast::Statement::Delete(delete) => {
                Ok(Change::Delete(Box::new(self.delete(parent, ctes, delete)?)))
            }
            ast::Statement::Merge(merge) => Ok(Change::Merge(Box::new(self.merge(parent, ctes, merge)?))),
            _ => Err(SqlError::unsupported("this statement inside of another", "Send it by itself.")),
        }
    }

    /// The table that rows are changed in.
    pub(crate) fn target_table(&self, path: &Path) -> Result<Arc<Table>> {
        let Some(object) = self.find_relation(path)? else {
            if crate::catalog::system::find(path.schema(), path.last(), self.search_path).is_some() {
                let message = format!("permission denied: \"{}\" is a system catalog", path.last());
                return fail(SqlState::INSUFFICIENT_PRIVILEGE, path.pos, message);
            }
            return Err(no_relation(path));
        };
        match &*object {
            Object::Table(table) => Ok(Arc::new(table.clone())),
            Object::View(_) => {
                Err(SqlError::unsupported("changing rows through a view", crate::missing::CHANGED_VIEWS))
            }
            _ => {
                let message = format!("cannot change rows of \"{}\": it is not a table", path.last());
                fail(SqlState::WRONG_OBJECT_TYPE, path.pos, message)
            }
        }
    }

    pub(crate) fn target(&self, table: &Arc<Table>) -> Result<Arc<Target>> {
        let mut target = Target {
            table: table.clone(),
            checks: Vec::new(),
            options: Vec::new(),
            generated: Vec::new(),
            domains: Vec::new(),
        };
        for constraint in &table.constraints {
            if let Rule::Check { condition } = &constraint.rule {
                let check = self.check_of(table, &condition.sql)?;
                target.checks.push((constraint.name.clone(), check));
            }
        }
        target.checks.sort_by(|a, b| a.0.cmp(&b.0));
        for (at, column) in table.columns.iter().enumerate().filter(|(_, column)| !column.dropped) {
            if let Some(generated) = &column.generated {
                let target_type = Some((column.ty(), column.name.as_str()));
                let expr = self.table_expr(table, &generated.sql, target_type, super::GENERATION)?;
                target.generated.push((at, expr));
            }
            self.domain_checks(&mut target.domains, (at, false), column.type_oid)?;
        }
        Ok(Arc::new(target))
    }

    fn domain_checks(&self, found: &mut Vec<DomainCheck>, (at, each): (usize, bool), ty: u32) -> Result<()> {
        let first = found.len();
        let Some(object) = self.store.object(ty) else { return Ok(()) };
        let Object::Type(user) = &*object else { return Ok(()) };
        let UserTypeKind::Domain { base, not_null, checks, .. } = &user.kind else { return Ok(()) };
        let each = each || user.array == ty;
        self.domain_checks(found, (at, each), *base)?;
        let check = |check: &str, condition| DomainCheck {
            column: at,
            each,
            domain: super::type_text(self.types(), user.oid),
            check: check.to_string(),
            condition,
        };
        if *not_null {
            found.push(check("", None));
        }
        for (name, sql) in checks {
            let condition = self.domain_check(*base, &sql.sql)?;
            found.push(check(name, Some(condition)));
        }
        // Those of the domains under it are this one's too.
        if !each {
            let shown = super::type_text(self.types(), user.oid);
            found[first..].iter_mut().for_each(|check| check.domain.clone_from(&shown));
        }
        Ok(())
    }

    /// The checks of a domain and of those under it.
    pub(super) fn checks_of(&self, domain: Oid) -> Result<Vec<DomainCheck>> {
        let mut found = Vec::new();
        self.domain_checks(&mut found, (0, false), domain)?;
        Ok(found)
    }

    /// Binds a check or default of a domain over `base` for its names alone.
    pub(crate) fn domain_text(&self, base: Oid, sql: &str, target: Option<(Type, &str)>) -> Result<Typed> {
        let parsed = crate::parse::parse_expr(sql)?;
        let typed = self.expr(&mut self.domain_scope(base), &parsed).map_err(SqlError::nowhere)?;
        match target {
            Some((ty, name)) => self.coerce_default(typed, ty, name),
            None => Ok(typed),
        }
    }

    fn domain_scope(&self, base: Oid) -> Scope<'static> {
        let mut scope = Scope::root();
        let base = Type::of(crate::types::Types::base_of(&self.ctx, base));
        let column = ScopeColumn {
            name: "value".into(),
            ty: base,
            expr: Expr::CaseOperand,
            origin: (0, 0),
            fields: None,
            collation: Collation::Default,
        };
        scope.add_entry(entry("", vec![column], 0), true);
        scope.place = ExprKind::Lasting(super::CHECKS);
        scope
    }

    /// A check of a domain over `base`: its value is [`Expr::CaseOperand`].
    pub(crate) fn domain_check(&self, base: Oid, sql: &str) -> Result<Expr> {
        let mut scope = self.domain_scope(base);
        let typed = self.expr(&mut scope, &crate::parse::parse_expr(sql)?).map_err(SqlError::nowhere)?;
        self.boolean(typed, "CHECK").map_err(SqlError::nowhere)
    }

    /// What a column gets that is given nothing.
    pub(crate) fn default_of(&self, table: &Arc<Table>, at: usize) -> Result<Expr> {
        let column = &table.columns[at];
        if let Some(identity) = &column.identity {
            let sequence = Typed::new(Expr::value(Value::Oid(identity.sequence)), Type::of(oid::REGCLASS), 0);
            let mut next = self.call_named("nextval", vec![sequence], 0)?;
            if let Expr::Call { args, .. } = &mut next.expr {
                // Whoever may insert takes its numbers: see exec/system.rs.
                args.push(Expr::value(Value::Bool(true)));
            }
            return self.coerce_default(next, column.ty(), &column.name).map(|typed| typed.expr);
        }
        let of_type = self.store.object(column.type_oid).filter(|_| column.default.is_none());
        let default = match (&column.default, of_type.as_deref()) {
            (Some(default), _) => default,
            (
                None,
                Some(Object::Type(UserType { kind: UserTypeKind::Domain { default: Some(it), .. }, .. })),
            ) => it,
            _ => return Ok(Expr::null()),
        };
        let typed = self.default_text(&default.sql)?;
        self.coerce_default(typed, column.ty(), &column.name).map(|typed| typed.expr)
    }

    /// A default as it was written, of whatever type it is.
    pub(crate) fn default_text(&self, sql: &str) -> Result<Typed> {
        let mut scope = Scope::root();
        scope.place = ExprKind::Lasting(super::DEFAULTS);
        self.expr(&mut scope, &crate::parse::parse_expr(sql)?).map_err(SqlError::nowhere)
    }

    /// The numbers of named columns; all of them if none is named.
    pub(crate) fn column_list(&self, table: &Table, names: &[Ident]) -> Result<Vec<usize>> {
        if names.is_empty() {
            let all = table.columns.iter().enumerate().filter(|(_, column)| !column.dropped);
            return Ok(all.map(|(at, _)| at).collect());
        }
        let mut numbers = Vec::new();
        for name in names {
            let at = self.column_number(table, name)?;
            if numbers.contains(&at) {
                let message = format!("column \"{}\" specified more than once", name.text);
                return fail(SqlState::DUPLICATE_COLUMN, name.pos, message);
            }
            numbers.push(at);
        }
        Ok(numbers)
    }

    pub(super) fn column_number(&self, table: &Table, name: &Ident) -> Result<usize> {
        let found = table.columns.iter().position(|column| !column.dropped && column.name == name.text);
        found.ok_or_else(|| {
            let message = format!("column \"{}\" of relation \"{}\" does not exist", name.text, table.name);
            SqlError::new(SqlState::UNDEFINED_COLUMN, message).at(name.pos + 1)
        })
    }

    fn insert(&self, parent: Option<&Scope<'_>>, ctes: &[CteName], ast: &ast::Insert) -> Result<Insert> {
        let mut names = ctes.to_vec();
        let bound_ctes = self.with(parent, false, &mut names, ast.with.as_ref())?;
        let changed = self.changed(&ast.table, Changing::Insert)?;
        let table = changed.table.clone();
        let target = changed.checked(self.target(&table)?);
        let columns = match ast.columns.is_empty() {
            true => changed.order.clone(),
            false if ast.parts.is_empty() => self.column_list(&changed.shown, &ast.columns)?,
            false => self.columns_and_parts(&changed.shown, ast)?,
        };
        let mut values = Vec::with_capacity(table.columns.len());
        for at in 0..table.columns.len() {
            values.push(self.default_of(&table, at)?);
        }
        let source = match &ast.source {
            None => None,
            Some(query) => self.source(parent, &names, ast, query, &table, &columns, &mut values)?,
        };
        let conflict = match &ast.conflict {
            None => None,
            Some(conflict) => Some(self.conflict(&names, ast, conflict, &changed)?),
        };
        let mut scope = self.target_scope(parent, &names, &changed, &ast.table, ast.alias.as_ref());
        let returning = self.returning(&mut scope, &ast.returning)?;
        self.reads(&ast.table, table.columns.len(), shown(&returning))?;
        Ok(Insert { ctes: bound_ctes, target, source, values, conflict, returning })
    }

    /// The rows that columns are given, if it takes a query for them: the values of a single row are among
    /// `values`, and so computed in the order of the table's columns, as PostgreSQL does.
    #[allow(clippy::too_many_arguments, reason = "the parts of the statement")]
    fn source(
        &self,
        parent: Option<&Scope<'_>>,
        names: &[CteName],
        ast: &ast::Insert,
        query: &ast::Query,
        table: &Arc<Table>,
        columns: &[usize],
        values: &mut [Expr],
    ) -> Result<Option<Query>> {
        let given = |count: usize, pos: u32| -> Result<()> {
            if count > columns.len() {
                return fail(SqlState::SYNTAX_ERROR, pos, "INSERT has more expressions than target columns");
            }
            if count < columns.len() && !ast.columns.is_empty() {
                let at = ast.columns[count].pos;
                return fail(SqlState::SYNTAX_ERROR, at, "INSERT has more target columns than expressions");
            }
            Ok(())
        };
        if let Some(rows) = query.values() {
            let mut scope = Scope::with_parent(parent, false);
            scope.ctes = names.to_vec();
            scope.place = ExprKind::Values;
            let width = rows[0].len();
            given(width, rows[0].get(columns.len()).map_or(0, |expr| expr.pos))?;
            let mut bound = Vec::with_capacity(rows.len());
            for row in rows {
                if row.len() != width {
                    let message = "VALUES lists must all be the same length";
                    return fail(SqlState::SYNTAX_ERROR, row.first().map_or(0, |e| e.pos), message);
                }
                let mut exprs = Vec::with_capacity(width);
                for (slot, (expr, at)) in row.iter().zip(columns).enumerate() {
                    exprs.push(match ast.parts.get(slot).filter(|part| !part.is_empty()) {
                        None => self.given_value(&mut scope, table, *at, expr, ast.overriding)?,
                        Some(part) => {
                            let place = (&table.columns[*at], ast.columns[slot].pos);
                            self.given_part(&mut scope, place, part, expr)?
                        }
                    });
                }
                bound.push(exprs);
            }
            if let ([row], true) = (bound.as_mut_slice(), ast.parts.is_empty()) {
                columns.iter().zip(std::mem::take(row)).for_each(|(at, expr)| values[*at] = expr);
                return Ok(None);
            }
            let types = self.set_slots((table, columns, ast), width, values)?;
            let out = |(slot, at): (usize, &usize)| {
                let column = &table.columns[*at];
                OutColumn {
                    name: column.name.clone(),
                    ty: types[slot],
                    table: 0,
                    attribute: 0,
                    fields: None,
                    collation: Collation::of_column(column.collation.as_deref()),
                }
            };
            let columns = columns.iter().take(width).enumerate().map(out).collect();
            return Ok(Some(plain(Body::Values(bound), columns)));
        }
        if query.has_default() {
            return fail(SqlState::SYNTAX_ERROR, query.pos, "DEFAULT is not allowed in this context");
        }
        let mut source = self.open_query(parent, false, names, query)?;
        given(source.columns.len(), query.pos)?;
        let open = |slot: usize, at: usize| match ast.parts.get(slot).filter(|part| !part.is_empty()) {
            None => Ok(crate::types::Types::base_of(&self.ctx, table.columns[at].type_oid)),
            Some(part) => self.part_type(&table.columns[at], ast.columns[slot].pos, part).map(|ty| ty.oid),
        };
        let types = source.columns.iter().zip(columns).enumerate().map(|(slot, (column, at))| {
            if column.ty.oid == oid::UNKNOWN { open(slot, *at) } else { Ok(column.ty.oid) }
        });
        let types = types.collect::<Result<_>>()?;
        let places = super::query::first_places(query);
        self.retype(&mut source, types, &places)?;
        for (slot, at) in columns.iter().take(source.columns.len()).enumerate() {
            self.refuse_generated(table, *at, ast.overriding);
            let typed = Typed::new(
                Expr::slot(slot),
                source.columns[slot].ty,
                places.get(slot).copied().unwrap_or(query.pos),
            );
            let column = &table.columns[*at];
            let set = match ast.parts.get(slot).filter(|part| !part.is_empty()) {
                None => self.coerce_assign(typed, column.ty(), &column.name)?.expr,
                Some(_) => self.set_part((table, columns, ast), slot, typed, values)?,
            };
            if !takes_own_number(table, *at, ast.overriding) {
                values[*at] = set;
            }
        }
        Ok(Some(source))
    }

    pub(super) fn given_value(
        &self,
        scope: &mut Scope<'_>,
        table: &Arc<Table>,
        at: usize,
        ast: &ast::Expr,
        overriding: Option<bool>,
    ) -> Result<Expr> {
        if ast.kind == Kind::Default || takes_own_number(table, at, overriding) {
            return self.default_of(table, at);
        }
        self.refuse_generated(table, at, overriding);
        let column = &table.columns[at];
        let typed = self.expr(scope, ast)?;
        self.coerce_assign(typed, column.ty(), &column.name).map(|typed| typed.expr)
    }

    fn conflict(
        &self,
        names: &[CteName],
        ast: &ast::Insert,
        conflict: &ast::OnConflict,
        changed: &Changed,
    ) -> Result<Conflict> {
        let index = self.arbiter(&changed.shown, conflict)?;
        let means = |one: &Index| index.is_none_or(|oid| oid == one.oid);
        let deferrable = self.store.indexes(changed.shown.oid).iter().any(|one| one.deferrable && means(one));
        let Some((set, filter)) = &conflict.update else {
            return Ok(Conflict { index, deferrable, update: None, seen: None });
        };
        if index.is_none() {
            let message = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
            let hint = "For example, ON CONFLICT (column_name).";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).hint(hint).at(conflict.pos + 1));
        }
        let mut scope = self.target_scope(None, names, changed, &ast.table, ast.alias.as_ref());
        let width = changed.table.columns.len();
        scope.add_table(&changed.shown, "excluded", None, width, false);
        let set = self.assignments(&mut scope, changed, set)?;
        let filter = self.condition(&mut scope, filter.as_ref(), ExprKind::Where)?;
        if let Some(relation) = self.find_relation(&ast.table)? {
            // Which row is met is read.
            self.need(relation.oid(), privilege::UPDATE | privilege::SELECT);
        }
        let seen = changed.among(None).map(|filter| (changed.shown.name.clone(), filter));
        Ok(Conflict { index, deferrable, update: Some((set, filter)), seen })
    }

    /// The target's table joined with the other tables of the statement.
    fn with_others(
        &self,
        scope: &mut Scope<'_>,
        table: &Arc<Table>,
        others: &[ast::FromItem],
    ) -> Result<From> {
        let own = From::Table { table: table.clone(), at: 0 };
        let rest = self.source_list(scope, others)?;
        if rest.is_one() {
            return Ok(own);
        }
        Ok(From::Join {
            kind: JoinKind::Inner,
            left: Box::new(own),
            right: Box::new(rest),
            on: None,
            written: Joined::default(),
        })
    }

    fn update(&self, parent: Option<&Scope<'_>>, ctes: &[CteName], ast: &ast::Update) -> Result<Update> {
        let mut names = ctes.to_vec();
        let bound_ctes: Vec<Cte> = self.with(parent, false, &mut names, ast.with.as_ref())?;
        let changed = self.changed(&ast.table, Changing::Update)?;
        let target = changed.checked(self.target(&changed.table)?);
        let mut scope = self.target_scope(parent, &names, &changed, &ast.table, ast.alias.as_ref());
        let from = self.with_others(&mut scope, &changed.table, &ast.from)?;
        let filter = self.condition(&mut scope, ast.filter.as_ref(), ExprKind::Where)?;
        let returning = self.returning(&mut scope, &ast.returning)?;
        let set = self.assignments(&mut scope, &changed, &ast.set)?;
        let read = set.iter().map(|(_, expr)| expr).chain(&filter).chain(shown(&returning));
        self.reads(&ast.table, changed.table.columns.len(), read)?;
        let filter = changed.among(filter);
        let (slots, names) = (scope.slots, scope.into_names());
        Ok(Update { names, ctes: bound_ctes, target, from, slots, filter, set, returning })
    }

    fn delete(&self, parent: Option<&Scope<'_>>, ctes: &[CteName], ast: &ast::Delete) -> Result<Delete> {
        let mut names = ctes.to_vec();
        let bound_ctes: Vec<Cte> = self.with(parent, false, &mut names, ast.with.as_ref())?;
        let changed = self.changed(&ast.table, Changing::Delete)?;
        let target = self.target(&changed.table)?;
        let mut scope = self.target_scope(parent, &names, &changed, &ast.table, ast.alias.as_ref());
        let from = self.with_others(&mut scope, &changed.table, &ast.using)?;
        let filter = self.condition(&mut scope, ast.filter.as_ref(), ExprKind::Where)?;
        let returning = self.returning(&mut scope, &ast.returning)?;
        self.reads(&ast.table, changed.table.columns.len(), filter.iter().chain(shown(&returning)))?;
        let filter = changed.among(filter);
        let (slots, names) = (scope.slots, scope.into_names());
        Ok(Delete { names, ctes: bound_ctes, target, from, slots, filter, returning })
    }

    /// A query's output as a table's columns would be: CREATE TABLE AS, views.
    pub(crate) fn output_columns(query: &Query) -> Vec<(String, Type)> {
        columns_of(query, 0, &[]).into_iter().map(|column| (column.name, column.ty)).collect()
    }
}

/// OVERRIDING USER VALUE: what is given for an identity column counts for nothing.
fn takes_own_number(table: &Table, at: usize, overriding: Option<bool>) -> bool {
    overriding == Some(false) && table.columns[at].identity.is_some()
}

/// What RETURNING shows.
fn shown(returning: &Option<Returning>) -> impl Iterator<Item = &Expr> {
    returning.iter().flat_map(|returning| &returning.targets)
}

fn entry(name: &str, columns: Vec<ScopeColumn>, at: usize) -> Entry {
    let (name, written) = (name.to_string(), Written::default());
    Entry { name, schema: None, columns, at, table: None, scalar: false, hidden: false, written }
}
