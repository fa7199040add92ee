//! SELECT, VALUES, set operations, WITH.

use super::aggregate::sort_key;
use super::scope::{CteName, Place};
use super::tree::{Body, Cte, CteKind, DistinctOn, Expr, From, Group, OutColumn, Query, Select, SortKey};
use super::{Binder, Scope, Typed, fail};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::ast::{self, Distinct, Kind, SetKind, SortBy};
use crate::types::{Oid, Type, oid};

/// An output column while its level is bound.
struct Output {
    typed: Typed,
    name: String,
    origin: (Oid, i16),
}

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
            self.retype(&mut query, types)?;
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
                let left = self.open_query(parent, blocked, &names, left)?;
                let right = self.open_query(parent, blocked, &names, right)?;
                self.set_operation(*kind, *all, left, right, ast.pos)?
            }
        };
        query.ctes = bound;
        if !matches!(ast.body, ast::Body::Select(_)) {
            query.order = self.output_order(&query, &ast.order_by)?;
            if !ast.locking.is_empty() {
                let message = "FOR UPDATE is not allowed with UNION/INTERSECT/EXCEPT";
                return fail(SqlState::FEATURE_NOT_SUPPORTED, ast.pos, message);
            }
        }
        let mut scope = Scope::with_parent(parent, blocked);
        scope.ctes = names;
        scope.place = Place::Limit;
        query.limit = self.row_count(&mut scope, ast.limit.as_ref(), "LIMIT")?;
        query.offset = self.row_count(&mut scope, ast.offset.as_ref(), "OFFSET")?;
        query.with_ties = ast.with_ties;
        if ast.with_ties && query.order.is_empty() {
            return fail(
                SqlState::SYNTAX_ERROR,
                ast.pos,
                "WITH TIES cannot be specified without ORDER BY clause",
            );
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
                return fail(SqlState::SYNTAX_ERROR, right.pos, message);
            }
            let types: Vec<Oid> = columns.iter().map(|column| column.ty.oid).collect();
            for (at, (column, wanted)) in step.columns.iter().zip(&types).enumerate() {
                if column.ty.oid != *wanted && column.ty.oid != oid::UNKNOWN {
                    let (name, from) = (&cte.name.text, super::type_text(self.types(), *wanted));
                    let overall = super::type_text(self.types(), column.ty.oid);
                    let message = format!(
                        "recursive query \"{name}\" column {} has type {from} in non-recursive term but type {overall} overall",
                        at + 1
                    );
                    let hint = "Cast the output of the non-recursive term to the correct type.";
                    return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                        .hint(hint)
                        .at(left.pos + 1));
                }
            }
            self.retype(&mut step, types.clone())?;
            base.ctes.splice(0..0, ctes);
            let kind = CteKind::Recursive { base: Box::new(base), step: Box::new(step), all: *all, types };
            return Ok((kind, columns));
        }
        let query = self.settle(self.open_query(parent, blocked, names, query)?)?;
        let columns = query.columns.clone();
        Ok((CteKind::Query(Box::new(query)), columns))
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
        scope.place = Place::Values;
        let width = rows[0].len();
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
            let (exprs, ty) = if open {
                (column.into_iter().map(|typed| typed.expr).collect(), Type::of(oid::UNKNOWN))
            } else {
                self.common(column, "VALUES")?
            };
            for (row, expr) in bound.iter_mut().zip(exprs) {
                row.push(expr);
            }
            out.push(OutColumn { name: format!("column{}", number + 1), ty, table: 0, attribute: 0 });
        }
        Ok(plain(Body::Values(bound), out))
    }

    fn set_operation(
        &self,
        kind: SetKind,
        all: bool,
        mut left: Query,
        mut right: Query,
        pos: u32,
    ) -> Result<Query> {
        let word = match kind {
            SetKind::Union => "UNION",
            SetKind::Intersect => "INTERSECT",
            SetKind::Except => "EXCEPT",
        };
        if left.columns.len() != right.columns.len() {
            let message = format!("each {word} query must have the same number of columns");
            return fail(SqlState::SYNTAX_ERROR, pos, message);
        }
        let mut types = Vec::new();
        let mut columns = left.columns.clone();
        for (out, (l, r)) in columns.iter_mut().zip(left.columns.iter().zip(&right.columns)) {
            let ty = if l.ty.oid == oid::UNKNOWN && r.ty.oid == oid::UNKNOWN {
                oid::TEXT
            } else {
                crate::func::select_common_type(self.types(), &[l.ty.oid, r.ty.oid], word)?
            };
            out.ty = if l.ty == r.ty { l.ty } else { Type::of(ty) };
            (out.table, out.attribute) = (0, 0);
            types.push(ty);
        }
        self.retype(&mut left, types.clone())?;
        self.retype(&mut right, types.clone())?;
        let body = Body::Set { kind, all, left: Box::new(left), right: Box::new(right), types };
        Ok(plain(body, columns))
    }

    /// Brings the visible columns of a query to these types.
    pub(crate) fn retype(&self, query: &mut Query, types: Vec<Oid>) -> Result<()> {
        for (at, wanted) in types.iter().enumerate() {
            let ty = query.columns[at].ty;
            if ty.oid == *wanted {
                continue;
            }
            self.retype_column(query, at, ty, *wanted)?;
        }
        Ok(())
    }

    fn retype_column(&self, query: &mut Query, at: usize, from: Type, wanted: Oid) -> Result<()> {
        let cast = |expr: &mut Expr| -> Result<()> {
            let typed = Typed::new(std::mem::replace(expr, Expr::null()), from, 0);
            match self.coerce(typed, Type::of(wanted), super::Context::Assignment)? {
                Some(typed) => *expr = typed.expr,
                None => return Err(self.cannot_cast(from.oid, wanted, 0)),
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
                self.retype_column(left, at, from, wanted)?;
                self.retype_column(right, at, from, wanted)?;
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
                    let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
                    let detail = "Only result column names can be used, not expressions or functions.";
                    return Err(error.detail(detail).at(sort.expr.pos + 1));
                }
            };
            keys.push(sort_key(at, query.columns[at].ty.oid, sort));
        }
        Ok(keys)
    }

    fn select(
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
        let filter = self.condition(&mut scope, ast.filter.as_ref(), Place::Where)?;
        scope.window_names = ast.windows.iter().map(|(name, def)| (name.text.clone(), def.clone())).collect();
        let mut keys = Vec::new();
        scope.place = Place::GroupBy;
        let grouped = !ast.group_by.is_empty();
        let group_sets = self.group_items(&mut scope, &ast.group_by, &ast.targets, &mut keys)?;
        scope.group_keys = keys.iter().map(|(key, _)| key.clone()).collect();
        scope.place = Place::Target;
        let mut outputs = self.targets(&mut scope, &ast.targets)?;
        let having = self.condition(&mut scope, ast.having.as_ref(), Place::Having)?;
        let visible = outputs.len();
        let order = self.order(&mut scope, &query.order_by, &mut outputs, visible, &ast.distinct)?;
        let distinct = self.distinct_on(&mut scope, &ast.distinct, &mut outputs, visible, &order)?;
        let aggregates = std::mem::take(&mut scope.aggregates);
        let grouping = grouped || scope.grouping || having.is_some();
        let group = grouping.then_some(Group { keys, sets: group_sets, aggregates });
        let columns = outputs[..visible].iter().map(|output| OutColumn {
            name: output.name.clone(),
            ty: output.typed.ty,
            table: output.origin.0,
            attribute: output.origin.1,
        });
        let columns = columns.collect();
        let locks = self.locks(&scope, query)?;
        let select = Select {
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
        };
        let select = self.finish(&scope, select, outputs)?;
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
                if depth == 0 {
                    match expr {
                        Expr::Aggregate(number) => *expr = Expr::slot(keys + *number),
                        Expr::Grouping(numbers) => numbers.push(base - 1),
                        _ => {}
                    }
                }
                false
            };
            super::walk::walk_list(&mut select.targets, 0, &mut place);
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
        super::walk::walk_list(&mut select.targets, 0, &mut place);
        select.sets.iter_mut().for_each(|call| call.walk(0, &mut place));
        Ok(select)
    }

    pub(crate) fn condition(
        &self,
        scope: &mut Scope<'_>,
        ast: Option<&ast::Expr>,
        place: Place,
    ) -> Result<Option<Expr>> {
        let Some(ast) = ast else { return Ok(None) };
        let before = std::mem::replace(&mut scope.place, place);
        let typed = self.expr(scope, ast);
        scope.place = before;
        let what = if place == Place::Having { "HAVING" } else { "WHERE" };
        self.boolean(typed?, what).map(Some)
    }

    fn targets(&self, scope: &mut Scope<'_>, targets: &[ast::Target]) -> Result<Vec<Output>> {
        let mut outputs = Vec::new();
        for target in targets {
            match &target.expr.kind {
                Kind::Star(parts) => {
                    for column in self.expand_star(scope, parts, target.expr.pos)? {
                        let typed = Typed::new(column.expr, column.ty, target.expr.pos);
                        outputs.push(Output { typed, name: column.name, origin: column.origin });
                    }
                }
                Kind::FieldStar(base) => {
                    let base = self.expr(scope, base)?;
                    outputs.extend(fields(base));
                }
                _ => {
                    let typed = self.expr(scope, &target.expr)?;
                    let name = target.alias.clone().unwrap_or_else(|| output_name(&target.expr));
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
    ) -> Result<Option<super::tree::Returning>> {
        if targets.is_empty() {
            return Ok(None);
        }
        scope.place = Place::Returning;
        let (mut exprs, mut columns) = (Vec::new(), Vec::new());
        for output in self.targets(scope, targets)? {
            let typed = self.settled(output.typed)?;
            let (table, attribute) = output.origin;
            columns.push(OutColumn { name: output.name, ty: typed.ty, table, attribute });
            exprs.push(typed.expr);
        }
        Ok(Some(super::tree::Returning { targets: exprs, columns }))
    }

    fn order(
        &self,
        scope: &mut Scope<'_>,
        order: &[SortBy],
        outputs: &mut Vec<Output>,
        visible: usize,
        distinct: &Distinct,
    ) -> Result<Vec<SortKey>> {
        scope.place = Place::OrderBy;
        let mut keys = Vec::new();
        for sort in order {
            let at = self.output(scope, &sort.expr, outputs, visible, "ORDER BY")?;
            if at >= visible && *distinct == Distinct::Rows {
                let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
                return fail(SqlState::INVALID_COLUMN_REFERENCE, sort.expr.pos, message);
            }
            let ty = match outputs[at].typed.ty.oid {
                oid::UNKNOWN => oid::TEXT,
                ty => ty,
            };
            self.sortable(ty, sort.expr.pos)?;
            keys.push(sort_key(at, ty, sort));
        }
        Ok(keys)
    }

    fn sortable(&self, ty: Oid, pos: u32) -> Result<()> {
        if matches!(ty, oid::JSON) {
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
        let ty = |output: &Output| if output.typed.is_open() { oid::TEXT } else { output.typed.ty.oid };
        match distinct {
            Distinct::No => Ok(DistinctOn::No),
            Distinct::Rows => {
                for output in &outputs[..visible] {
                    if ty(output) == oid::JSON {
                        let message = "could not identify an equality operator for type json";
                        return fail(SqlState::UNDEFINED_FUNCTION, output.typed.pos, message);
                    }
                }
                Ok(DistinctOn::Rows(outputs[..visible].iter().map(ty).collect()))
            }
            Distinct::On(exprs) => {
                let mut columns = Vec::new();
                for expr in exprs {
                    let at = self.output(scope, expr, outputs, visible, "SELECT DISTINCT ON")?;
                    columns.push((at, ty(&outputs[at])));
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
                    () if scope.grouping => Some("aggregate functions"),
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
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
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
                if named && entry.table.is_some() {
                    locks.push((entry.at, locking.strength, locking.wait));
                }
            }
        }
        Ok(locks)
    }
}

fn rename(columns: &mut [OutColumn], names: &[ast::Ident]) {
    for (column, name) in columns.iter_mut().zip(names) {
        column.name = name.text.clone();
    }
}

fn plain(body: Body, columns: Vec<OutColumn>) -> Query {
    Query { ctes: Vec::new(), body, order: Vec::new(), limit: None, offset: None, with_ties: false, columns }
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
        Kind::Cast(inner, ty) => {
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
            _ => None,
        },
        Kind::Subscript(base, _) => named(base),
        Kind::Field(_, name) => Some((name.clone(), 2)),
        Kind::Collate(inner, _) => named(inner),
        _ => None,
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

impl From {
    pub(crate) fn is_one(&self) -> bool {
        matches!(self, From::One)
    }
}
