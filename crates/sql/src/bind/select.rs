//! SELECT: one level of a query, from FROM to its output columns; RETURNING.
use super::aggregate::sort_key;
use super::query::plain;
use super::scope::{CteName, ExprKind};
use super::{Binder, Scope, Typed, fail};
use crate::catalog::privilege;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::ast::{self, Distinct, Kind, SortBy};
use crate::tree::{Body, DistinctOn, Expr, Group, Names, OutColumn, Query, Select, SortKey, SubqueryKind};
use crate::types::{Oid, Type, oid};

/// An output column while its level is bound.
struct Output {
    typed: Typed,
    name: String,
    origin: (Oid, i16),
}

/// Entries that the rows of a query can have, as in PostgreSQL.
const ENTRIES_MAX: usize = 1664;

/// Refuses lists of more entries than there can be.
pub(super) fn check_entries(what: &str, entries: usize) -> Result<()> {
    if entries <= ENTRIES_MAX {
        return Ok(());
    }
    let message = format!("{what} can have at most {ENTRIES_MAX} entries");
    Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message))
}

impl Binder<'_> {
    pub(super) fn select(
        &self,
        parent: Option<&Scope<'_>>,
        blocked: bool,
        ctes: &[CteName],
        ast: &ast::Select,
        query: &ast::Query,
    ) -> Result<Query> {
        let mut scope = Scope::with_parent(parent, blocked);
        scope.ctes = ctes.to_vec();
        let from = self.source_list(&mut scope, &ast.from)?;
        scope.window_names = ast.windows.iter().map(|(name, def)| (name.text.clone(), def.clone())).collect();
        let mut keys = Vec::new();
        scope.place = ExprKind::GroupBy;
        let grouped = !ast.group_by.is_empty();
        // GROUPING is about its keys, but what is wrong with it is told after what is wrong elsewhere.
        let items = self.group_items(&mut scope, &ast.group_by, &ast.targets, &mut keys);
        scope.group_keys = items.is_ok().then(|| keys.iter().map(|(key, _)| key.clone()).collect());
        scope.place = ExprKind::Target;
        let mut outputs = self.targets(&mut scope, &ast.targets)?;
        let filter = self.condition(&mut scope, ast.filter.as_ref(), ExprKind::Where)?;
        let having = self.condition(&mut scope, ast.having.as_ref(), ExprKind::Having)?;
        let visible = outputs.len();
        let order = self.order(&mut scope, &query.order_by, &mut outputs, visible, &ast.distinct)?;
        let (sets, written) = items?;
        let distinct = self.distinct_on(&mut scope, &ast.distinct, &mut outputs, visible, &order)?;
        check_entries("target lists", outputs.len())?;
        let aggregates = scope.aggregates.take().into_iter().map(|(call, _)| call).collect();
        let grouping = grouped || scope.grouping.get() || having.is_some();
        let group = grouping.then_some(Group { keys, sets, written, aggregates });
        let columns = outputs[..visible].iter().map(|output| OutColumn {
            name: output.name.clone(),
            ty: output.typed.ty,
            table: output.origin.0,
            attribute: output.origin.1,
            fields: self.fields_of(&scope, &output.typed.expr),
            collation: output.typed.collation,
        });
        let columns = columns.collect();
        let locks = self.locks(&scope, query)?;
        let select = Select {
            names: Names::default(),
            from,
            slots: scope.slots,
            filter,
            group,
            having,
            windows: std::mem::take(&mut scope.windows),
            sets: std::mem::take(&mut scope.sets),
            targets: Vec::new(),
            distinct,
            locks,
            late: Vec::new(),
        };
        let mut select = self.finish(&scope, select, outputs)?;
        select.names = scope.into_names();
        Ok(Query { order, ..plain(Body::Select(Box::new(select)), columns) })
    }

    /// Turns aggregates and windows into slots, and checks that what is grouped is used so.
    fn finish(&self, scope: &Scope<'_>, mut select: Select, outputs: Vec<Output>) -> Result<Select> {
        let places: Vec<u32> = outputs.iter().map(|output| output.typed.pos).collect();
        select.targets = outputs.into_iter().map(|output| output.typed.expr).collect();
        let mut base = select.slots;
        if let Some(mut group) = select.group.take() {
            for (target, pos) in select.targets.iter_mut().zip(&places) {
                self.regroup(scope, &mut group, target, *pos)?;
            }
            let first = places.first().copied().unwrap_or(0);
            select.having.iter_mut().try_for_each(|having| self.regroup(scope, &mut group, having, first))?;
            for call in &mut select.windows {
                let mut failed = Ok(());
                call.walk(0, &mut |part, depth| {
                    if depth == 0 && failed.is_ok() {
                        failed = self.regroup(scope, &mut group, part, first);
                    }
                    true
                });
                failed?;
            }
            for call in &mut select.sets {
                call.args.iter_mut().try_for_each(|arg| self.regroup(scope, &mut group, arg, first))?;
            }
            let keys = group.keys.len();
            base = keys + group.aggregates.len() + 1;
            let mut place = |expr: &mut Expr, depth: u16| {
                match expr {
                    Expr::Aggregate { depth: own, number } if *own == depth => {
                        *expr = Expr::Column { depth, slot: keys + *number };
                    }
                    Expr::Grouping(numbers) if depth == 0 => numbers.push(base - 1),
                    _ => {}
                }
                false
            };
            crate::tree::walk::walk_list(&mut select.targets, 0, &mut place);
            select.having.iter_mut().for_each(|having| having.walk(0, &mut place));
            select.windows.iter_mut().for_each(|call| call.walk(0, &mut place));
            select.sets.iter_mut().for_each(|call| call.walk(0, &mut place));
            select.group = Some(group);
        }
        let mut place = |expr: &mut Expr, depth: u16| {
            if let (Expr::Window(number), 0) = (&*expr, depth) {
                *expr = Expr::slot(base + *number);
            }
            false
        };
        crate::tree::walk::walk_list(&mut select.targets, 0, &mut place);
        select.sets.iter_mut().for_each(|call| call.walk(0, &mut place));
        Ok(select)
    }

    pub(crate) fn condition(
        &self,
        scope: &mut Scope<'_>,
        ast: Option<&ast::Expr>,
        place: ExprKind,
    ) -> Result<Option<Expr>> {
        let Some(ast) = ast else { return Ok(None) };
        let before = std::mem::replace(&mut scope.place, place);
        let typed = self.expr(scope, ast);
        scope.place = before;
        let what = match place {
            ExprKind::Having => "HAVING",
            ExprKind::JoinOn => "JOIN/ON",
            ExprKind::MergeWhen => "WHEN",
            _ => "WHERE",
        };
        self.boolean(typed?, what).map(Some)
    }

    fn targets(&self, scope: &mut Scope<'_>, targets: &[ast::Target]) -> Result<Vec<Output>> {
        let mut outputs = Vec::new();
        for target in targets {
            match &target.expr.kind {
                Kind::Star(parts) => {
                    for column in self.expand_star(scope, parts, target.expr.pos)? {
                        let typed = Typed::new(column.expr, column.ty, target.expr.pos);
                        let typed = typed.collated(column.collation);
                        outputs.push(Output { typed, name: column.name, origin: column.origin });
                    }
                }
                Kind::FieldStar(base) => {
                    let base = self.expr(scope, base)?;
                    outputs.extend(fields(base));
                }
                _ => {
                    let typed = self.expr(scope, &target.expr)?;
                    let name = match (&target.alias, &typed.expr) {
                        (Some(alias), _) => alias.clone(),
                        (None, Expr::Subquery(inner)) if matches!(inner.kind, SubqueryKind::Scalar(_)) => {
                            inner.query.columns[0].name.clone()
                        }
                        _ => output_name(&target.expr),
                    };
                    let origin = match &target.expr.kind {
                        Kind::Column(parts) => origin(scope, parts),
                        _ => (0, 0),
                    };
                    outputs.push(Output { typed, name, origin });
                }
            }
        }
        Ok(outputs)
    }

    /// The list of RETURNING: (expressions, columns).
    pub(crate) fn returning(
        &self,
        scope: &mut Scope<'_>,
        targets: &[ast::Target],
    ) -> Result<Option<crate::tree::Returning>> {
        if targets.is_empty() {
            return Ok(None);
        }
        scope.place = ExprKind::Returning;
        let (mut exprs, mut columns) = (Vec::new(), Vec::new());
        for output in self.targets(scope, targets)? {
            let typed = self.settled(output.typed)?;
            let (table, attribute) = output.origin;
            let (name, ty, collation) = (output.name, typed.ty, typed.collation);
            columns.push(OutColumn { name, ty, table, attribute, fields: None, collation });
            exprs.push(typed.expr);
        }
        check_entries("target lists", exprs.len())?;
        Ok(Some(crate::tree::Returning { targets: exprs, columns }))
    }

    fn order(
        &self,
        scope: &mut Scope<'_>,
        order: &[SortBy],
        outputs: &mut Vec<Output>,
        visible: usize,
        distinct: &Distinct,
    ) -> Result<Vec<SortKey>> {
        scope.place = ExprKind::OrderBy;
        let mut keys = Vec::new();
        for sort in order {
            let at = self.output(scope, &sort.expr, outputs, visible, "ORDER BY")?;
            if at >= visible && *distinct == Distinct::Rows {
                let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
                return fail(SqlState::INVALID_COLUMN_REFERENCE, sort.expr.pos, message);
            }
            let ty = self.settle_output(&mut outputs[at])?;
            self.sortable(ty, sort.expr.pos)?;
            outputs[at].typed.collation.must_be_one()?;
            keys.push(sort_key(at, ty, sort));
        }
        Ok(keys)
    }

    /// What is sorted, or compared by DISTINCT, is no literal of an open type any more: its type.
    fn settle_output(&self, output: &mut Output) -> Result<Oid> {
        output.typed = self.settled(output.typed.clone())?;
        Ok(output.typed.ty.oid)
    }

    /// Whether values of a type, or elements of an array of it, have no operators that compare them.
    fn is_incomparable(&self, ty: Oid) -> bool {
        let no_operators = |ty: Oid| matches!(ty, oid::JSON | oid::JSONPATH);
        no_operators(ty) || no_operators(self.types().element_of(ty))
    }

    /// Refuses to look for equal values of a type that has no equality.
    pub(crate) fn comparable(&self, ty: Oid, pos: u32) -> Result<()> {
        if self.is_incomparable(ty) {
            let name = super::type_text(self.types(), ty);
            let message = format!("could not identify an equality operator for type {name}");
            return fail(SqlState::UNDEFINED_FUNCTION, pos, message);
        }
        Ok(())
    }

    pub(crate) fn sortable(&self, ty: Oid, pos: u32) -> Result<()> {
        if self.is_incomparable(ty) {
            let name = super::type_text(self.types(), ty);
            let message = format!("could not identify an ordering operator for type {name}");
            let hint = "Use an explicit ordering operator or modify the query.";
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message).hint(hint).at(pos + 1));
        }
        Ok(())
    }

    /// Which output column an expression of ORDER BY or DISTINCT ON means; a hidden one is added if none.
    fn output(
        &self,
        scope: &mut Scope<'_>,
        ast: &ast::Expr,
        outputs: &mut Vec<Output>,
        visible: usize,
        what: &str,
    ) -> Result<usize> {
        if let Kind::Integer(digits) = &ast.kind {
            let at = digits.parse::<usize>().unwrap_or(0).wrapping_sub(1);
            if at >= visible {
                let message = format!("{what} position {digits} is not in select list");
                return fail(SqlState::INVALID_COLUMN_REFERENCE, ast.pos, message);
            }
            return Ok(at);
        }
        if let Kind::Column(parts) = &ast.kind
            && let [name] = parts.as_slice()
        {
            let mut named = (0..visible).filter(|&at| outputs[at].name == *name);
            if let Some(first) = named.next() {
                if named.any(|other| outputs[other].typed.expr != outputs[first].typed.expr) {
                    let message = format!("{what} \"{name}\" is ambiguous");
                    return fail(SqlState::AMBIGUOUS_COLUMN, ast.pos, message);
                }
                return Ok(first);
            }
        }
        if matches!(ast.kind, Kind::Str(_) | Kind::Float(_)) {
            return fail(SqlState::SYNTAX_ERROR, ast.pos, format!("non-integer constant in {what}"));
        }
        let typed = self.expr(scope, ast)?;
        let typed = self.settled(typed)?;
        if let Some(at) = outputs.iter().position(|output| output.typed.expr == typed.expr) {
            return Ok(at);
        }
        outputs.push(Output { typed, name: String::new(), origin: (0, 0) });
        Ok(outputs.len() - 1)
    }

    fn distinct_on(
        &self,
        scope: &mut Scope<'_>,
        distinct: &Distinct,
        outputs: &mut Vec<Output>,
        visible: usize,
        order: &[SortKey],
    ) -> Result<DistinctOn> {
        match distinct {
            Distinct::No => Ok(DistinctOn::No),
            Distinct::Rows => {
                let mut types = Vec::with_capacity(visible);
                for output in &mut outputs[..visible] {
                    types.push(self.settle_output(output)?);
                    self.comparable(output.typed.ty.oid, output.typed.pos)?;
                }
                Ok(DistinctOn::Rows(types))
            }
            Distinct::On(exprs) => {
                let mut columns = Vec::new();
                for expr in exprs {
                    let at = self.output(scope, expr, outputs, visible, "SELECT DISTINCT ON")?;
                    columns.push((at, self.settle_output(&mut outputs[at])?));
                }
                let leads = |key: &SortKey| columns.iter().any(|(at, _)| *at == key.column);
                let leading = order.iter().take_while(|key| leads(key)).count();
                let distinct_leads: Vec<usize> = order[..leading].iter().map(|key| key.column).collect();
                if leading < order.len() && columns.iter().any(|(at, _)| !distinct_leads.contains(at)) {
                    let message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
                    return fail(SqlState::INVALID_COLUMN_REFERENCE, exprs[0].pos, message);
                }
                Ok(DistinctOn::Columns(columns))
            }
        }
    }

    fn locks(
        &self,
        scope: &Scope<'_>,
        query: &ast::Query,
    ) -> Result<Vec<(usize, ast::LockStrength, ast::LockWait)>> {
        let mut locks = Vec::new();
        for locking in &query.locking {
            if let ast::Body::Select(select) = &query.body {
                let refused = match () {
                    () if select.distinct != Distinct::No => Some("DISTINCT clause"),
                    () if !select.group_by.is_empty() => Some("GROUP BY clause"),
                    () if scope.grouping.get() => Some("aggregate functions"),
                    () if !scope.windows.is_empty() => Some("window functions"),
                    () => None,
                };
                if let Some(what) = refused {
                    let word = match locking.strength {
                        ast::LockStrength::Update => "FOR UPDATE",
                        ast::LockStrength::NoKeyUpdate => "FOR NO KEY UPDATE",
                        ast::LockStrength::Share => "FOR SHARE",
                        ast::LockStrength::KeyShare => "FOR KEY SHARE",
                    };
                    let message = format!("{word} is not allowed with {what}");
                    return Err(SqlError::refused_by_postgresql(message));
                }
            }
            for name in &locking.of {
                if scope.entry(&name.text, None, name.pos)?.is_none() {
                    let message =
                        format!("relation \"{}\" in FOR UPDATE clause not found in FROM clause", name.text);
                    return fail(SqlState::UNDEFINED_TABLE, name.pos, message);
                }
            }
            for entry in &scope.entries {
                let named = locking.of.is_empty() || locking.of.iter().any(|name| name.text == entry.name);
                if let Some(table) = entry.table.as_ref().filter(|_| named) {
                    if table.materialized.is_some() {
                        let message = format!("cannot lock rows in materialized view \"{}\"", table.name);
                        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                    }
                    self.need(table.oid, privilege::UPDATE);
                    locks.push((entry.at, locking.strength, locking.wait));
                }
            }
        }
        Ok(locks)
    }
}

/// Where a column comes from unchanged.
fn origin(scope: &Scope<'_>, parts: &[String]) -> (Oid, i16) {
    let name = parts.last().map_or("", String::as_str);
    match parts.len() {
        1 => {
            let found = scope.visible.columns.iter().find(|(column, _)| column.name == name);
            found.map_or((0, 0), |(column, _)| column.origin)
        }
        _ => {
            let table = &parts[parts.len() - 2];
            let entry = scope.entries.iter().find(|entry| entry.name == *table && !entry.hidden);
            let column = entry.and_then(|entry| entry.columns.iter().find(|column| column.name == name));
            column.map_or((0, 0), |column| column.origin)
        }
    }
}

/// The fields of a row expression as output columns.
fn fields(base: Typed) -> Vec<Output> {
    let known: Vec<(String, Oid)> = match &base.expr {
        Expr::Row { names, types, .. } | Expr::WholeRow { names, types, .. } => {
            names.iter().map(|name| name.to_string()).zip(types.iter().copied()).collect()
        }
        Expr::Call { head, .. } => {
            head.function.columns.iter().map(|(n, ty)| ((*n).to_string(), *ty)).collect()
        }
        _ => Vec::new(),
    };
    let field = |(index, (name, ty)): (usize, (String, Oid))| {
        let expr = Expr::Field { base: Box::new(base.expr.clone()), index };
        Output { typed: Typed::new(expr, Type::of(ty), base.pos), name, origin: (0, 0) }
    };
    known.into_iter().enumerate().map(field).collect()
}

/// The name of a column that was given none (PostgreSQL's FigureColname).
pub(crate) fn output_name(expr: &ast::Expr) -> String {
    named(expr).map_or_else(|| "?column?".to_string(), |(name, _)| name)
}

/// The name and how good it is: 2 is sure, 1 gives way to a better one.
fn named(expr: &ast::Expr) -> Option<(String, u8)> {
    match &expr.kind {
        Kind::Column(parts) => parts.last().map(|name| (name.clone(), 2)),
        Kind::Func(call) => Some((call.name.last().to_string(), 2)),
        Kind::SqlValue(name, _) => Some(((*name).to_string(), 2)),
        Kind::Cast(inner, ty, _) => {
            named(inner).filter(|(_, sure)| *sure == 2).or_else(|| Some((ty.name.last().to_string(), 1)))
        }
        Kind::Case { otherwise, .. } => {
            let inner = otherwise.as_deref().and_then(named).filter(|(_, sure)| *sure == 2);
            inner.or_else(|| Some(("case".to_string(), 1)))
        }
        Kind::Coalesce(_) => Some(("coalesce".to_string(), 2)),
        Kind::NullIf(..) => Some(("nullif".to_string(), 2)),
        Kind::Extreme(true, _) => Some(("greatest".to_string(), 2)),
        Kind::Extreme(false, _) => Some(("least".to_string(), 2)),
        Kind::Grouping(_) => Some(("grouping".to_string(), 2)),
        Kind::Row(_, true) => Some(("row".to_string(), 2)),
        Kind::Array(_) | Kind::ArrayQuery(_) => Some(("array".to_string(), 2)),
        Kind::Exists(_) => Some(("exists".to_string(), 2)),
        Kind::Scalar(query) => match &query.body {
            ast::Body::Select(select) => select.targets.first().and_then(|target| {
                target.alias.clone().map(|alias| (alias, 2)).or_else(|| named(&target.expr))
            }),
            ast::Body::Values(_) => Some(("column1".to_string(), 2)),
            ast::Body::Set { .. } => None,
        },
        Kind::Subscript(base, _) => named(base),
        Kind::Field(_, name) => Some((name.clone(), 2)),
        Kind::Collate(inner, _) => named(inner),
        _ => None,
    }
}
