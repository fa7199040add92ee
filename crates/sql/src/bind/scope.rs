//! What names mean at a place of a query: the tables of each level and their columns.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::{Collation, Typed, fail, hints};
use crate::catalog::object::Table;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::Pos;
use crate::parse::ast::WindowDef;
use crate::tree::{AggregateCall, Expr, Names, OutColumn, Query, SetCall, WindowCall};
pub(crate) use crate::tree::{Entry, ScopeColumn, Written};
use crate::types::{Oid, Type, oid};

/// How a name without a table is looked up: the merged columns of joins, then those of tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visible {
    /// (column, index of the entry it belongs to or `None` for merged ones).
    pub(crate) columns: Vec<(ScopeColumn, Option<usize>)>,
}

/// A WITH query that may be named.
#[derive(Clone, Debug)]
pub(crate) struct CteName {
    pub(crate) name: String,
    pub(crate) id: usize,
    pub(crate) columns: Vec<OutColumn>,
}

/// What may stand at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExprKind {
    Target,
    Where,
    JoinOn,
    GroupBy,
    Having,
    OrderBy,
    Limit,
    Values,
    Returning,
    AggregateArgument,
    WindowDefinition,
    FromFunction,
    /// A query in FROM.
    FromQuery,
    MergeWhen,
    /// An expression that a table keeps, or that is evaluated for each of its rows: what error messages call
    /// several of them.
    Lasting(&'static str),
    Other,
}

impl ExprKind {
    /// As error messages name it.
    pub(crate) fn text(self) -> &'static str {
        match self {
            ExprKind::Where => "WHERE",
            ExprKind::JoinOn => "JOIN conditions",
            ExprKind::GroupBy => "GROUP BY",
            ExprKind::Limit => "LIMIT",
            ExprKind::Values => "VALUES",
            ExprKind::Returning => "RETURNING",
            ExprKind::WindowDefinition => "window definitions",
            ExprKind::FromFunction => "functions in FROM",
            ExprKind::MergeWhen => "MERGE WHEN conditions",
            ExprKind::Lasting(what) => what,
            _ => "this place",
        }
    }

    pub(crate) fn takes_aggregates(self) -> bool {
        matches!(self, ExprKind::Target | ExprKind::Having | ExprKind::OrderBy | ExprKind::WindowDefinition)
    }
}

/// A level of a query and those around it.
pub(crate) struct Scope<'p> {
    pub(crate) parent: Option<&'p Scope<'p>>,
    /// Entries of the parent cannot be seen (a derived table without LATERAL).
    pub(crate) blocked: bool,
    pub(crate) entries: Vec<Entry>,
    pub(crate) visible: Visible,
    pub(crate) ctes: Vec<CteName>,
    pub(crate) place: ExprKind,
    /// It is the second part of a recursive query, and reads that.
    pub(crate) recurses: bool,
    pub(crate) slots: usize,
    /// With where they stand. Those of queries within this level's expressions are here too, if they belong
    /// to it.
    pub(crate) aggregates: RefCell<Vec<(AggregateCall, Pos)>>,
    pub(crate) aggregate_depth: usize,
    /// The construct around that takes no set-returning functions, although its place would.
    pub(crate) no_sets: Option<&'static str>,
    /// Where the aggregate stands that `aggregate_depth` counts.
    pub(crate) around: ExprKind,
    /// The WITH queries that the arguments of its aggregates read, and how many levels further out they are.
    pub(crate) read_ctes: RefCell<Vec<(u16, String)>>,
    /// A window function within the arguments of an aggregate, which tells of it.
    pub(crate) misplaced: Option<SqlError>,
    pub(crate) windows: Vec<WindowCall>,
    pub(crate) window_names: Vec<(String, WindowDef)>,
    pub(crate) sets: Vec<SetCall>,
    pub(crate) grouping: Cell<bool>,
    /// None where GROUP BY is refused.
    pub(crate) group_keys: Option<Vec<Expr>>,
}

impl<'p> Scope<'p> {
    pub(crate) fn root() -> Scope<'static> {
        Scope::with_parent(None, false)
    }

    pub(crate) fn with_parent(parent: Option<&'p Scope<'p>>, blocked: bool) -> Scope<'p> {
        Scope {
            parent,
            blocked,
            entries: Vec::new(),
            visible: Visible::default(),
            ctes: Vec::new(),
            place: ExprKind::Other,
            recurses: false,
            slots: 0,
            aggregates: RefCell::default(),
            aggregate_depth: 0,
            no_sets: None,
            around: ExprKind::Other,
            read_ctes: RefCell::default(),
            misplaced: None,
            windows: Vec::new(),
            window_names: Vec::new(),
            sets: Vec::new(),
            grouping: Cell::new(false),
            group_keys: Some(Vec::new()),
        }
    }

    /// What its tables are called.
    pub(crate) fn into_names(self) -> Names {
        let merged = self.visible.columns.into_iter().filter_map(|(column, entry)| {
            let is_one = matches!(column.expr, Expr::Column { .. });
            (entry.is_none() && !is_one).then_some((column.expr, column.name))
        });
        Names { merged: merged.collect(), entries: self.entries.into() }
    }

    /// Before the arguments of an aggregate are bound: the place, to be given back afterwards.
    pub(crate) fn enter_aggregate(&mut self) -> ExprKind {
        let place = std::mem::replace(&mut self.place, ExprKind::AggregateArgument);
        if self.aggregate_depth == 0 {
            self.around = place;
            self.read_ctes.borrow_mut().clear();
        }
        self.aggregate_depth += 1;
        place
    }

    pub(crate) fn leave_aggregate(&mut self, place: ExprKind) {
        self.aggregate_depth -= 1;
        self.place = place;
    }

    /// The level so many further out.
    pub(crate) fn level(&self, depth: u16) -> &Scope<'p> {
        (0..depth).fold(self, |level, _| level.parent.expect("a column is of a level that there is"))
    }

    /// Adds a table at slot `at`.
    pub(crate) fn add_table(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        names: Option<&[String]>,
        at: usize,
        visible: bool,
    ) {
        let mut columns = Vec::new();
        let mut renamed = names.unwrap_or_default().iter();
        for (number, column) in table.columns.iter().enumerate() {
            if column.dropped {
                continue;
            }
            columns.push(ScopeColumn {
                name: renamed.next().unwrap_or(&column.name).clone(),
                ty: column.ty(),
                expr: Expr::slot(at + number),
                origin: (table.oid, number as i16 + 1),
                fields: None,
                collation: Collation::of_column(column.collation.as_deref()),
            });
        }
        // One more, for the row's name where the table is changed.
        self.slots = self.slots.max(at + table.columns.len() + 1);
        let entry = Entry {
            name: name.to_string(),
            schema: None,
            columns,
            at,
            table: Some(table.clone()),
            scalar: false,
            hidden: false,
            written: Written { relation: table.oid, ..Written::default() },
        };
        self.add_entry(entry, visible);
    }

    pub(crate) fn add_entry(&mut self, entry: Entry, visible: bool) {
        if visible {
            let at = self.entries.len();
            self.visible.columns.extend(entry.columns.iter().map(|column| (column.clone(), Some(at))));
        }
        self.entries.push(entry);
    }

    pub(crate) fn cte(&self, name: &str) -> Option<&CteName> {
        let own = self.ctes.iter().rev().find(|cte| cte.name == name);
        own.or_else(|| self.parent.and_then(|parent| parent.cte(name)))
    }

    /// Takes note of a WITH query that is read, for the aggregates around.
    pub(crate) fn reads_cte(&self, name: &str) {
        let levels: Vec<&Scope<'_>> = std::iter::successors(Some(self), |level| level.parent).collect();
        let own = |level: &&Scope<'_>| level.ctes.iter().any(|cte| cte.name == name);
        let Some(owner) = levels.iter().position(own) else { return };
        for (at, level) in levels[..=owner].iter().enumerate().filter(|(_, level)| level.aggregate_depth > 0)
        {
            level.read_ctes.borrow_mut().push(((owner - at) as u16, name.to_string()));
        }
    }

    /// The row of a table that `table.*` means where it stands for one value.
    pub(crate) fn row_of(&self, parts: &[String], pos: Pos) -> Result<Typed> {
        let (table, schema) = parts.split_last().expect("a table has a name");
        let mut scope = Some(self);
        let mut depth = 0;
        while let Some(level) = scope {
            if let Some(entry) = level.entry(table, schema.last().map(String::as_str), pos)? {
                let row = level.whole_row(entry);
                return Ok(Typed::new(further_out(row.expr, depth), row.ty, pos));
            }
            scope = level.parent;
            depth += 1;
        }
        Err(self.no_entry(table, pos))
    }

    /// The column that a name means, with `depth` counted from this level.
    pub(crate) fn column(&self, parts: &[String], pos: Pos) -> Result<Typed> {
        self.column_of(parts, pos).map(|(typed, _)| typed)
    }

    /// A column, or the row of a table (number 0), and of what relation it is. A name alone is a column's, of
    /// any level, before it is a table's.
    pub(crate) fn column_of(&self, parts: &[String], pos: Pos) -> Result<(Typed, (Oid, i16))> {
        if let Some(found) = self.outward(parts, pos, |level| level.own_column(parts, pos))? {
            return Ok(found);
        }
        let row =
            |level: &Self, name: &str| Ok(level.entry(name, None, pos)?.map(|entry| level.whole_row(entry)));
        let found = match parts {
            [name] => self.outward(parts, pos, |level| row(level, name))?,
            _ => None,
        };
        found.ok_or_else(|| self.no_column(parts, pos))
    }

    /// What is found on the first level that has it, this one or one further out.
    fn outward(
        &self,
        parts: &[String],
        pos: Pos,
        find: impl Fn(&Self) -> Result<Option<ScopeColumn>>,
    ) -> Result<Option<(Typed, (Oid, i16))>> {
        let (mut scope, mut depth, mut seen) = (Some(self), 0, true);
        while let Some(level) = scope {
            if seen && let Some(found) = find(level)? {
                let origin = level.origin_of(&found, parts);
                let typed =
                    Typed::new(further_out(found.expr, depth), found.ty, pos).collated(found.collation);
                return Ok(Some((typed, origin)));
            }
            seen = !level.blocked;
            scope = level.parent;
            depth += 1;
        }
        Ok(None)
    }

    /// Where a column comes from; of a row of a table, that table and 0.
    fn origin_of(&self, found: &ScopeColumn, parts: &[String]) -> (Oid, i16) {
        let is_row = matches!(found.expr, Expr::WholeRow { .. } | Expr::Row { .. });
        let entry = self.entries.iter().find(|entry| is_row && Some(&entry.name) == parts.last());
        entry.and_then(|entry| entry.table.as_ref()).map_or(found.origin, |table| (table.oid, 0))
    }

    fn own_column(&self, parts: &[String], pos: Pos) -> Result<Option<ScopeColumn>> {
        match parts {
            [name] => {
                let mut found = self.visible.columns.iter().filter(|(column, _)| column.name == *name);
                let first = found.next();
                if found.next().is_some() {
                    let message = format!("column reference \"{name}\" is ambiguous");
                    return fail(SqlState::AMBIGUOUS_COLUMN, pos, message);
                }
                if let Some((column, _)) = first {
                    return Ok(Some(column.clone()));
                }
                let of_tables = self.entries.iter().filter(|entry| !entry.hidden);
                let mut system = of_tables.filter_map(|entry| system_column(entry, name));
                match (system.next(), system.next()) {
                    (Some(_), Some(_)) => {
                        let message = format!("column reference \"{name}\" is ambiguous");
                        fail(SqlState::AMBIGUOUS_COLUMN, pos, message)
                    }
                    (Some(column), None) => Ok(Some(column)),
                    (None, _) => Ok(None),
                }
            }
            [.., table, name] => {
                let schema = parts.len().checked_sub(3).map(|i| parts[i].as_str());
                let Some(entry) = self.entry(table, schema, pos)? else { return Ok(None) };
                let mut found = entry.columns.iter().filter(|column| column.name == *name);
                let first = found.next();
                if found.next().is_some() {
                    let message = format!("column reference \"{name}\" is ambiguous");
                    return fail(SqlState::AMBIGUOUS_COLUMN, pos, message);
                }
                if first.is_none() {
                    if let Some(system) = system_column(entry, name) {
                        return Ok(Some(system));
                    }
                    return Err(self.no_column(parts, pos));
                }
                Ok(first.cloned())
            }
            [] => Ok(None),
        }
    }

    /// The table of that name on this level.
    pub(crate) fn entry(&self, name: &str, schema: Option<&str>, pos: Pos) -> Result<Option<&Entry>> {
        let fits = |entry: &&Entry| {
            !entry.hidden && entry.name == name && (schema.is_none() || entry.schema.as_deref() == schema)
        };
        let mut found = self.entries.iter().filter(fits);
        let first = found.next();
        if found.next().is_some() {
            return fail(SqlState::AMBIGUOUS_ALIAS, pos, format!("table reference \"{name}\" is ambiguous"));
        }
        Ok(first)
    }

    fn whole_row(&self, entry: &Entry) -> ScopeColumn {
        if entry.scalar && entry.columns.len() == 1 {
            return entry.columns[0].clone();
        }
        let names: Arc<[Arc<str>]> = entry.columns.iter().map(|c| Arc::from(c.name.as_str())).collect();
        let types: Arc<[Oid]> = entry.columns.iter().map(|c| c.ty.oid).collect();
        let plain = |(i, c): (usize, &ScopeColumn)| c.expr == Expr::slot(entry.at + i);
        let expr = if entry.columns.iter().enumerate().all(plain) {
            Expr::WholeRow { depth: 0, from: entry.at, names, types }
        } else {
            Expr::Row { values: entry.columns.iter().map(|c| c.expr.clone()).collect(), names, types }
        };
        ScopeColumn {
            name: entry.name.clone(),
            ty: Type::of(oid::RECORD),
            expr,
            origin: (0, 0),
            fields: None,
            collation: Collation::Default,
        }
    }

    /// The error about a table's name that stands for no entry that may be named here.
    pub(super) fn no_entry(&self, table: &str, pos: Pos) -> SqlError {
        let invalid = || {
            let message = format!("invalid reference to FROM-clause entry for table \"{table}\"");
            SqlError::new(SqlState::UNDEFINED_TABLE, message).at(pos + 1)
        };
        let scopes = || std::iter::successors(Some(self), |scope| scope.parent);
        let mut entries = scopes().flat_map(|scope| &scope.entries);
        if let Some(alias) =
            entries.find(|e| e.name != table && e.table.as_ref().is_some_and(|t| t.name == table))
        {
            return invalid()
                .hint(format!("Perhaps you meant to reference the table alias \"{}\".", alias.name));
        }
        if scopes().any(|scope| scope.entries.iter().any(|e| e.name == table)) {
            let place = "but it cannot be referenced from this part of the query.";
            return invalid().hint(format!("There is an entry for table \"{table}\", {place}"));
        }
        let message = format!("missing FROM-clause entry for table \"{table}\"");
        SqlError::new(SqlState::UNDEFINED_TABLE, message).at(pos + 1)
    }

    fn no_column(&self, parts: &[String], pos: Pos) -> SqlError {
        let (message, hint) = match parts {
            [.., table, name] => {
                let schema = parts.len().checked_sub(3).map(|i| parts[i].as_str());
                let is_it = |entry: &Entry| {
                    let same = schema.is_none() || entry.schema.as_deref() == schema;
                    entry.name == *table && same && !entry.hidden
                };
                let known =
                    std::iter::successors(Some(self), |s| s.parent).any(|s| s.entries.iter().any(is_it));
                if !known {
                    return self.no_entry(table, pos);
                }
                (format!("column {table}.{name} does not exist"), hints::column(self, Some(table), name))
            }
            _ => {
                let name = parts.join(".");
                (format!("column \"{name}\" does not exist"), hints::column(self, None, &name))
            }
        };
        let mut error = SqlError::new(SqlState::UNDEFINED_COLUMN, message).at(pos + 1);
        error.hint = hint;
        error
    }
}

/// A column of the level `depth` further out, as it is written here.
fn further_out(mut expr: Expr, depth: u16) -> Expr {
    expr.walk(0, &mut |part, _| {
        if let Expr::Column { depth: own, .. } | Expr::WholeRow { depth: own, .. } = part {
            *own += depth;
        }
        false
    });
    expr
}

/// The transaction that PostgreSQL names for rows which all may see.
const FROZEN: Oid = 2;

/// `tableoid`, and of the system's tables who made a row: somebody long ago. Of others that is not known, and
/// a client that compares it to find out whether a row has changed must not be told that it has not.
fn system_column(entry: &Entry, name: &str) -> Option<ScopeColumn> {
    let table = entry.table.as_ref()?;
    let is_system = table.oid < crate::catalog::object::FIRST_USER_OID;
    let (ty, value) = match name {
        "tableoid" => (oid::OID, table.oid),
        "xmin" if is_system => (oid::XID, FROZEN),
        "xmax" if is_system => (oid::XID, 0),
        "cmin" | "cmax" if is_system => (oid::CID, 0),
        _ => return None,
    };
    Some(ScopeColumn {
        name: name.to_string(),
        ty: Type::of(ty),
        expr: Expr::value(crate::types::value::Value::Oid(value)),
        origin: (0, 0),
        fields: None,
        collation: Collation::Default,
    })
}

/// The visible columns of a query as those of an entry.
pub(crate) fn columns_of(query: &Query, at: usize, names: &[String]) -> Vec<ScopeColumn> {
    out_columns(&query.columns, at, names)
}

pub(crate) fn out_columns(columns: &[OutColumn], at: usize, names: &[String]) -> Vec<ScopeColumn> {
    let named = |(i, column): (usize, &OutColumn)| ScopeColumn {
        name: names.get(i).unwrap_or(&column.name).clone(),
        ty: column.ty,
        expr: Expr::slot(at + i),
        origin: (column.table, column.attribute),
        fields: column.fields.clone(),
        collation: column.collation.read(),
    };
    columns.iter().enumerate().map(named).collect()
}
