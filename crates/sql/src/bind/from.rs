//! FROM: which tables a level has, and what joins make of their columns.

use super::scope::{Entry, ExprKind, ScopeColumn, Written, columns_of, out_columns};
use super::{Binder, Collation, Meant, Scope, fail};
use crate::catalog::object::{Object, View};
use crate::catalog::privilege;
use crate::catalog::system::SystemRelation;
use crate::error::{Result, SqlError, SqlState};
use crate::func::quote_ident;
use crate::parse::Pos;
use crate::parse::ast::{self, Alias, FromItem, FromKind, Ident, JoinCondition, JoinKind, Path};
use crate::tree::{Expr, From, Joined};
use crate::types::{Type, oid};

fn names(alias: Option<&Alias>) -> Vec<String> {
    alias.map_or(Vec::new(), |alias| alias.columns.iter().map(|name| name.text.clone()).collect())
}

impl Binder<'_> {
    pub(crate) fn source_list(&self, scope: &mut Scope<'_>, items: &[FromItem]) -> Result<From> {
        let mut from = From::One;
        for item in items {
            let right = self.source_item(scope, item)?;
            from = match from {
                From::One => right,
                left => From::Join {
                    kind: JoinKind::Inner,
                    left: Box::new(left),
                    right: Box::new(right),
                    on: None,
                    written: Joined { comma: true, ..Joined::default() },
                },
            };
        }
        Ok(from)
    }

    fn source_item(&self, scope: &mut Scope<'_>, item: &FromItem) -> Result<From> {
        let from = self.bound_item(scope, item)?;
        if let (Some(alias), Some(entry)) = (&item.alias, scope.entries.last_mut()) {
            (entry.written.alias, entry.written.listed) = (true, !alias.columns.is_empty());
        }
        Ok(from)
    }

    fn bound_item(&self, scope: &mut Scope<'_>, item: &FromItem) -> Result<From> {
        let alias = item.alias.as_ref();
        match &item.kind {
            FromKind::Table { name } => self.table(scope, name, alias),
            FromKind::Query { lateral, query } => {
                let place = std::mem::replace(&mut scope.place, ExprKind::FromQuery);
                let bound = self.query(Some(scope), !lateral, query);
                scope.place = place;
                let bound = bound?;
                let (at, width) = (scope.slots, bound.columns.len());
                let Some(alias) = alias else {
                    let message = match bound.body {
                        crate::tree::Body::Values(_) => "VALUES in FROM must have an alias",
                        _ => "subquery in FROM must have an alias",
                    };
                    return fail(SqlState::SYNTAX_ERROR, item.pos, message);
                };
                let columns = columns_of(&bound, at, &names(Some(alias)));
                self.check_names(alias, columns.len())?;
                scope.slots += width;
                self.add(scope, &alias.name.text, columns, at)?;
                Ok(From::Query { query: Box::new(bound), lateral: *lateral, at, width })
            }
            FromKind::Functions { calls, ordinality, .. } => self.functions(scope, calls, *ordinality, alias),
            FromKind::Join { kind, left, right, condition } => {
                self.join(scope, *kind, left, right, condition, alias)
            }
        }
    }

    fn check_names(&self, alias: &Alias, available: usize) -> Result<()> {
        if alias.columns.len() <= available {
            return Ok(());
        }
        Err(too_many_names("table", alias, available))
    }

    fn add(&self, scope: &mut Scope<'_>, name: &str, columns: Vec<ScopeColumn>, at: usize) -> Result<()> {
        self.check_free(scope, name, None)?;
        let (name, table) = (name.to_string(), None);
        let written = Written::default();
        let entry = Entry { name, schema: None, columns, at, table, scalar: false, hidden: false, written };
        scope.add_entry(entry, true);
        Ok(())
    }

    fn check_free(&self, scope: &Scope<'_>, name: &str, schema: Option<&str>) -> Result<()> {
        let taken = |entry: &&Entry| !entry.hidden && entry.name == name && entry.schema.as_deref() == schema;
        if name.is_empty() || !scope.entries.iter().any(|entry| taken(&entry)) {
            return Ok(());
        }
        let message = format!("table name \"{name}\" specified more than once");
        Err(SqlError::new(SqlState::DUPLICATE_ALIAS, message))
    }

    fn table(&self, scope: &mut Scope<'_>, path: &Path, alias: Option<&Alias>) -> Result<From> {
        let name = alias.map_or(path.last(), |alias| alias.name.text.as_str()).to_string();
        let at = scope.slots;
        let renamed = names(alias);
        if path.schema().is_none()
            && let Some(cte) = scope.cte(path.last())
        {
            let (id, width) = (cte.id, cte.columns.len());
            self.reads.borrow_mut().insert(id);
            let columns = out_columns(&cte.columns, at, &renamed);
            scope.reads_cte(path.last());
            scope.slots += width;
            self.add(scope, &name, columns, at)?;
            if let Some(entry) = scope.entries.last_mut() {
                entry.written.cte = Some(path.last().to_string());
            }
            if let Some((_, places)) = self.recursing.borrow_mut().iter_mut().find(|(of, _)| *of == id) {
                places.push(path.pos);
                scope.recurses = true;
            }
            return Ok(From::Cte { id, at, width });
        }
        if let Some(alias) = alias.filter(|alias| !alias.definitions.is_empty()) {
            let message = "a column definition list is only allowed for functions returning \"record\"";
            return fail(SqlState::SYNTAX_ERROR, alias.name.pos, message);
        }
        match crate::catalog::system::find(path.schema(), path.last(), self.search_path) {
            Some(SystemRelation::Table(table)) => {
                if table.name == "pg_authid" {
                    self.need(table.oid, privilege::SELECT);
                }
                let width = table.columns.len();
                let schema = system_schema(path, alias);
                self.check_free(scope, &name, schema.as_deref())?;
                scope.add_table(&table, &name, Some(&renamed), at, true);
                if let Some(entry) = scope.entries.last_mut() {
                    entry.schema = schema;
                }
                return Ok(From::System { table: table.oid, at, width });
            }
            Some(SystemRelation::View(view)) => {
                if view.name == "pg_shadow" {
                    self.need(view.oid, privilege::SELECT);
                }
                let from = self.view(scope, &view, &name, &renamed)?;
                if let Some(entry) = scope.entries.last_mut() {
                    entry.schema = system_schema(path, alias);
                }
                return Ok(from);
            }
            None => {}
        }
        let Some(object) = self.find_relation(path)? else { return Err(no_relation(path)) };
        if let Object::Table(_) | Object::View(_) = &*object {
            self.need(object.oid(), privilege::SELECT);
        }
        self.spelled(path.pos, Meant::Relation(object.oid()));
        match &*object {
            Object::Sequence(sequence) => {
                let table = std::sync::Arc::new(crate::catalog::system::of_sequence(sequence));
                let schema = if alias.is_none() { self.schema_name(table.schema) } else { None };
                self.check_free(scope, &name, schema.as_deref())?;
                scope.add_table(&table, &name, Some(&renamed), at, true);
                if let Some(entry) = scope.entries.last_mut() {
                    entry.schema = schema;
                }
                Ok(From::System { table: table.oid, at, width: table.columns.len() })
            }
            Object::Table(table) => {
                let table = std::sync::Arc::new(table.clone());
                let schema = if alias.is_none() { self.schema_name(table.schema) } else { None };
                self.check_free(scope, &name, schema.as_deref())?;
                if let Some(alias) = alias {
                    self.check_names(alias, table.columns.iter().filter(|c| !c.dropped).count())?;
                }
                scope.add_table(&table, &name, Some(&renamed), at, true);
                if let Some(entry) = scope.entries.last_mut() {
                    entry.schema = schema;
                }
                Ok(From::Table { table, at })
            }
            Object::View(view) => {
                let from = self.view(scope, view, &name, &renamed)?;
                if let Some(entry) = scope.entries.last_mut().filter(|_| alias.is_none()) {
                    entry.schema = self.schema_name(view.schema);
                }
                Ok(from)
            }
            _ => {
                let message = format!("cannot open relation \"{}\"", path.last());
                fail(SqlState::WRONG_OBJECT_TYPE, path.pos, message)
            }
        }
    }

    pub(crate) fn schema_name(&self, oid: u32) -> Option<String> {
        self.store.object(oid).map(|object| object.name().to_string())
    }

    fn view(&self, scope: &mut Scope<'_>, view: &View, name: &str, renamed: &[String]) -> Result<From> {
        let bound = self.within_view(view, || self.view_query(view))?;
        let (at, width) = (scope.slots, bound.columns.len());
        let own: Vec<String> = view.columns.iter().map(|column| column.name.clone()).collect();
        let query_name = |i: usize| &bound.columns[i].name;
        let merged: Vec<String> = (0..width)
            .map(|i| renamed.get(i).or(own.get(i)).unwrap_or_else(|| query_name(i)).clone())
            .collect();
        let mut columns = columns_of(&bound, at, &merged);
        columns.iter_mut().enumerate().for_each(|(i, column)| column.origin = (view.oid, i as i16 + 1));
        scope.slots += width;
        self.add(scope, name, columns, at)?;
        if let Some(entry) = scope.entries.last_mut() {
            entry.written.relation = view.oid;
        }
        Ok(From::Query { query: Box::new(bound), lateral: false, at, width })
    }

    pub(crate) fn view_query(&self, view: &View) -> Result<crate::tree::Query> {
        let mut parsed = crate::parse::parse(&view.query.sql)?;
        match parsed.pop().map(|parsed| parsed.statement) {
            Some(ast::Statement::Query(query)) => self.query(None, false, &query),
            _ => Err(SqlError::new(SqlState::INTERNAL_ERROR, format!("view \"{}\" has no query", view.name))),
        }
    }

    fn functions(
        &self,
        scope: &mut Scope<'_>,
        calls: &[ast::Expr],
        ordinality: bool,
        alias: Option<&Alias>,
    ) -> Result<From> {
        let at = scope.slots;
        let place = std::mem::replace(&mut scope.place, ExprKind::FromFunction);
        let mut bound = Vec::new();
        let mut fields = Vec::new();
        for call in &calls.iter().flat_map(separate).collect::<Vec<_>>() {
            let (mut set, mut own) = self.set_call(scope, call)?;
            let told = alias.map_or(&[][..], |alias| &alias.definitions);
            if set.head.function.result == oid::RECORD && set.head.function.columns.is_empty() {
                if told.is_empty() {
                    let message = "a column definition list is required for functions returning \"record\"";
                    return fail(SqlState::SYNTAX_ERROR, call.pos, message);
                }
                own = Vec::new();
                for (name, ty) in told {
                    own.push((name.text.clone(), self.resolve_type(ty)?));
                }
                set.width = own.len();
                set.told = own.clone();
            }
            fields.extend(own);
            bound.push(set);
        }
        scope.place = place;
        let scalar = fields.len() == 1 && !ordinality;
        if let (Some(alias), true) = (alias, fields.len() == 1)
            && !alias.name.text.is_empty()
            && bound[0].told.is_empty()
            && bound[0].head.function.columns.is_empty()
        {
            fields[0].0 = alias.name.text.clone();
        }
        if ordinality {
            fields.push(("ordinality".to_string(), Type::of(oid::INT8)));
        }
        let renamed = names(alias);
        let column = |(i, (name, ty)): (usize, (String, Type))| ScopeColumn {
            name: renamed.get(i).cloned().unwrap_or(name),
            ty,
            expr: Expr::slot(at + i),
            origin: (0, 0),
            fields: None,
            collation: Collation::Default,
        };
        let width = fields.len();
        let columns: Vec<ScopeColumn> = fields.into_iter().enumerate().map(column).collect();
        if let Some(alias) = alias {
            self.check_names(alias, width)?;
        }
        let first = match &calls[0].kind {
            ast::Kind::Func(call) => call.name.last().to_string(),
            _ => String::new(),
        };
        let name = alias.map_or(first, |alias| alias.name.text.clone());
        scope.slots += width;
        self.add(scope, &name, columns, at)?;
        if let Some(entry) = scope.entries.last_mut() {
            entry.scalar = scalar;
        }
        Ok(From::Functions { calls: bound, lateral: true, ordinality, at, width })
    }

    fn join(
        &self,
        scope: &mut Scope<'_>,
        kind: JoinKind,
        left: &FromItem,
        right: &FromItem,
        condition: &JoinCondition,
        alias: Option<&Alias>,
    ) -> Result<From> {
        let (first_entry, first) = (scope.entries.len(), scope.visible.columns.len());
        let left = self.source_item(scope, left)?;
        let middle = scope.visible.columns.len();
        let right = self.source_item(scope, right)?;
        let mut written = Joined::default();
        let on = match condition {
            JoinCondition::None => None,
            JoinCondition::On(expr) => Some(self.join_on(scope, expr, first_entry, first)?),
            JoinCondition::Using(columns, alias) => {
                written.using = columns.iter().map(|name| name.text.clone()).collect();
                written.using_alias = alias.as_ref().map(|name| name.text.clone());
                self.using(scope, kind, columns, first, middle)?
            }
            JoinCondition::Natural => {
                let all = &scope.visible.columns;
                let in_right = |name: &str| all[middle..].iter().any(|(column, _)| column.name == name);
                let shared = all[first..middle].iter().filter(|(column, _)| in_right(&column.name));
                let shared: Vec<Ident> =
                    shared.map(|(c, _)| Ident { text: c.name.clone(), pos: 0 }).collect();
                written.using = shared.iter().map(|name| name.text.clone()).collect();
                self.using(scope, kind, &shared, first, middle)?
            }
        };
        if let JoinCondition::Using(_, Some(name)) = condition {
            let merged = scope.visible.columns[first..].iter().take_while(|(_, entry)| entry.is_none());
            let columns = merged.map(|(column, _)| column.clone()).collect();
            self.check_free(scope, &name.text, None)?;
            let entry = Entry {
                name: name.text.clone(),
                schema: None,
                columns,
                at: 0,
                table: None,
                scalar: false,
                hidden: false,
                written: Written { using: true, ..Written::default() },
            };
            scope.add_entry(entry, false);
        }
        if let Some(alias) = alias {
            let renamed = names(Some(alias));
            let mut columns: Vec<ScopeColumn> =
                scope.visible.columns.drain(first..).map(|(column, _)| column).collect();
            if alias.columns.len() > columns.len() {
                return Err(too_many_names("join expression", alias, columns.len()));
            }
            for (column, name) in columns.iter_mut().zip(renamed) {
                column.name = name;
            }
            scope.entries[first_entry..].iter_mut().for_each(|entry| entry.hidden = true);
            self.add(scope, &alias.name.text, columns, usize::MAX)?;
            written.alias = Some(scope.entries.len() - 1);
        }
        let kind = if kind == JoinKind::Cross { JoinKind::Inner } else { kind };
        Ok(From::Join { kind, left: Box::new(left), right: Box::new(right), on, written })
    }

    fn join_on(
        &self,
        scope: &mut Scope<'_>,
        expr: &ast::Expr,
        first_entry: usize,
        first: usize,
    ) -> Result<Expr> {
        let own = scope.visible.columns[first..].to_vec();
        let all = std::mem::replace(&mut scope.visible.columns, own);
        let before: Vec<bool> = scope.entries[..first_entry].iter().map(|entry| entry.hidden).collect();
        scope.entries[..first_entry].iter_mut().for_each(|entry| entry.hidden = true);
        let place = std::mem::replace(&mut scope.place, ExprKind::JoinOn);
        let bound = self.expr(scope, expr).and_then(|typed| self.boolean(typed, "JOIN/ON"));
        scope.place = place;
        scope.entries.iter_mut().zip(before).for_each(|(entry, hidden)| entry.hidden = hidden);
        scope.visible.columns = all;
        bound
    }

    /// The condition of USING; the columns that are seen become merged ones, then the others.
    fn using(
        &self,
        scope: &mut Scope<'_>,
        kind: JoinKind,
        columns: &[Ident],
        first: usize,
        middle: usize,
    ) -> Result<Option<Expr>> {
        let right = scope.visible.columns.split_off(middle);
        let left = scope.visible.columns.split_off(first);
        let find = |side: &[(ScopeColumn, Option<usize>)], name: &Ident, which: &str| -> Result<usize> {
            let mut found = (0..side.len()).filter(|&i| side[i].0.name == name.text);
            match (found.next(), found.next()) {
                (Some(at), None) => Ok(at),
                (None, _) => {
                    let message = format!(
                        "column \"{}\" specified in USING clause does not exist in {which} table",
                        name.text
                    );
                    fail(SqlState::UNDEFINED_COLUMN, name.pos, message)
                }
                _ => {
                    let message = format!(
                        "common column name \"{}\" appears more than once in {which} table",
                        name.text
                    );
                    fail(SqlState::AMBIGUOUS_COLUMN, name.pos, message)
                }
            }
        };
        let (mut merged, mut conditions) = (Vec::new(), Vec::new());
        let (mut used_left, mut used_right) = (Vec::new(), Vec::new());
        for name in columns {
            let (l, r) = (find(&left, name, "left")?, find(&right, name, "right")?);
            used_left.push(l);
            used_right.push(r);
            self.looks_at(left[l].0.origin);
            self.looks_at(right[r].0.origin);
            let (l, r) = (&left[l].0, &right[r].0);
            let typed =
                |c: &ScopeColumn| super::Typed::new(c.expr.clone(), c.ty, name.pos).collated(c.collation);
            let collation = l.collation.and(r.collation, name.pos)?;
            let (mut both, ty) =
                self.common(vec![typed(l), typed(r)], "JOIN/USING").map_err(SqlError::nowhere)?;
            conditions.push(self.operator("=", Some(typed(l)), typed(r), name.pos)?.expr);
            // Of an inner join, the side that has the common type already.
            let is_right = kind == JoinKind::Inner && l.ty != ty && r.ty == ty || kind == JoinKind::Right;
            let expr = match kind {
                JoinKind::Full => Expr::Coalesce(both),
                _ => both.remove(usize::from(is_right)),
            };
            let origin = if is_right { r.origin } else { l.origin };
            let column = ScopeColumn { name: name.text.clone(), ty, expr, origin, fields: None, collation };
            merged.push((column, None));
        }
        let rest = |side: Vec<(ScopeColumn, Option<usize>)>, used: Vec<usize>| {
            side.into_iter().enumerate().filter(move |(i, _)| !used.contains(i)).map(|(_, column)| column)
        };
        scope.visible.columns.extend(merged);
        scope.visible.columns.extend(rest(left, used_left));
        scope.visible.columns.extend(rest(right, used_right));
        Ok(Expr::all(conditions))
    }

    /// Takes note of what a `*` stands for: columns, the entries that they are of, and whether there are
    /// others.
    fn note_star(&self, pos: Pos, columns: &[ScopeColumn], entries: &[Option<&Entry>], among: bool) {
        columns.iter().for_each(|column| self.looks_at(column.origin));
        let once =
            |name: &str, all: &[ScopeColumn]| all.iter().filter(|column| column.name == name).count() == 1;
        let shown = |(column, entry): (&ScopeColumn, &Option<&Entry>)| {
            let name = quote_ident(&column.name);
            match entry {
                Some(entry) if entry.hidden || !once(&column.name, &entry.columns) => None,
                Some(entry) if among => Some(format!("{}.{name}", quote_ident(&entry.name))),
                _ => once(&column.name, columns).then_some(name),
            }
        };
        let all: Option<Vec<String>> = columns.iter().zip(entries).map(shown).collect();
        if let Some(all) = all.filter(|all| !all.is_empty()) {
            self.spelled(pos, Meant::Star(all.join(", ")));
        }
    }

    /// `*` (no parts) or `t.*`.
    pub(crate) fn expand_star(
        &self,
        scope: &Scope<'_>,
        parts: &[String],
        pos: Pos,
    ) -> Result<Vec<ScopeColumn>> {
        let Some((table, schema)) = parts.split_last() else {
            if scope.entries.is_empty() {
                return fail(SqlState::SYNTAX_ERROR, pos, "SELECT * with no tables specified is not valid");
            }
            let columns = scope.visible.columns.iter().map(|(column, _)| column.clone()).collect::<Vec<_>>();
            let entries = scope.visible.columns.iter().map(|(_, entry)| entry.map(|at| &scope.entries[at]));
            self.note_star(pos, &columns, &entries.collect::<Vec<_>>(), scope.entries.len() > 1);
            return Ok(columns);
        };
        let schema = schema.last().map(String::as_str);
        let mut level = Some(scope);
        let mut depth = 0;
        while let Some(outer) = level {
            if let Some(entry) = outer.entry(table, schema, pos)? {
                let mut columns = entry.columns.clone();
                let among = depth > 0 || scope.entries.len() > 1;
                self.note_star(pos, &columns, &vec![Some(entry); columns.len()], among);
                for column in &mut columns {
                    column.expr.walk(0, &mut |part, _| {
                        if let Expr::Column { depth: own, .. } = part {
                            *own += depth;
                        }
                        false
                    });
                }
                return Ok(columns);
            }
            level = outer.parent;
            depth += 1;
        }
        Err(scope.no_entry(table, pos))
    }
}

/// More columns are named than there are.
fn too_many_names(what: &str, alias: &Alias, available: usize) -> SqlError {
    let (name, specified) = (&alias.name.text, alias.columns.len());
    let message =
        format!("{what} \"{name}\" has {available} columns available but {specified} columns specified");
    SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
}

pub(crate) fn no_relation(path: &Path) -> SqlError {
    let message = format!("relation \"{}\" does not exist", path.shown());
    SqlError::new(SqlState::UNDEFINED_TABLE, message).at(path.pos + 1)
}

/// The schema by which columns of a relation of the system may be named; an alias hides it.
fn system_schema(path: &Path, alias: Option<&Alias>) -> Option<String> {
    alias.is_none().then(|| path.schema().unwrap_or("pg_catalog").to_string())
}

/// `unnest` of several arrays stands for one call for each, side by side.
fn separate(call: &ast::Expr) -> Vec<ast::Expr> {
    let ast::Kind::Func(several) = &call.kind else { return vec![call.clone()] };
    let is_unnest =
        several.name.last() == "unnest" && several.name.schema().is_none_or(|s| s == "pg_catalog");
    if !is_unnest || several.args.len() < 2 {
        return vec![call.clone()];
    }
    let one = |arg: &ast::Arg| {
        let kind =
            ast::Kind::Func(Box::new(ast::FuncCall { args: vec![arg.clone()], ..(**several).clone() }));
        ast::Expr { kind, ..call.clone() }
    };
    several.args.iter().map(one).collect()
}
