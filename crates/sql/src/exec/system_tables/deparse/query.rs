//! SELECT, VALUES, set operations and WITH.

use super::call::direction;
use super::{Known, Level, STEP, Writer};
use crate::func::quote_ident;
use crate::parse::ast::{LockStrength, LockWait, SetKind};
use crate::tree::{Body, Cte, CteKind, DistinctOn, Expr, Group, Grouping, Query, Select};
use crate::types::{Type, oid};

/// What the columns of a query are called.
#[derive(Clone, Copy)]
pub(super) struct Heading<'n> {
    /// By those around.
    names: Option<&'n [String]>,
    /// Somebody may ask for the names, also for one that nobody gave.
    visible: bool,
}

impl Heading<'_> {
    pub(super) fn shown() -> Heading<'static> {
        Heading { names: None, visible: true }
    }

    pub(super) fn hidden() -> Heading<'static> {
        Heading { names: None, visible: false }
    }
}

/// What a set operation is of: the same kind goes on without parentheses.
fn operation(query: &Query) -> Option<(SetKind, bool)> {
    let alone =
        query.ctes.is_empty() && query.order.is_empty() && query.limit.is_none() && query.offset.is_none();
    match &query.body {
        Body::Set { kind, all, .. } if alone => Some((*kind, *all)),
        _ => None,
    }
}

fn needs_parentheses(query: &Query) -> bool {
    let locks = matches!(&query.body, Body::Select(select) if !select.locks.is_empty());
    !query.ctes.is_empty()
        || !query.order.is_empty()
        || query.limit.is_some()
        || query.offset.is_some()
        || locks
}

impl<'a> Writer<'a> {
    /// The definition of a view whose columns have these names.
    pub(crate) fn view(mut self, query: &'a Query, names: &[String]) -> Option<String> {
        // Every view of PostgreSQL has two tables that nobody named.
        self.taken = vec!["old".to_string(), "new".to_string()];
        self.query(query, Heading { names: Some(names), visible: true }, false)?;
        Some(self.out)
    }

    /// A query; `brought`: its columns were brought to types that
    /// others need.
    pub(super) fn query(&mut self, query: &'a Query, heading: Heading<'_>, brought: bool) -> Option<()> {
        let indent = self.indent;
        match &query.body {
            Body::Select(select) => self.enter(&select.names, Some(&**select)),
            Body::Values(_) | Body::Set { .. } => self.levels.push(Level::empty()),
        }
        let written = self.parts(query, heading, brought);
        self.leave();
        self.indent = indent;
        written
    }

    fn parts(&mut self, query: &'a Query, heading: Heading<'_>, brought: bool) -> Option<()> {
        self.with(&query.ctes)?;
        match &query.body {
            Body::Select(select) => self.select(query, select, heading, brought)?,
            Body::Values(rows) => {
                self.indent += if self.style.lines { STEP } else { 0 };
                self.put(if self.style.lines { " " } else { "" });
                self.values(query, rows)?;
            }
            Body::Set { .. } => {
                let own = self.levels.pop();
                let written = self.operands(query, heading);
                self.levels.extend(own);
                written?;
            }
        }
        if !query.order.is_empty() {
            self.keyword(" ORDER BY ", (-STEP, STEP, 1));
            for (at, key) in query.order.iter().enumerate() {
                self.put(if at > 0 { ", " } else { "" });
                match &query.body {
                    Body::Select(select) => {
                        let target = select.targets.get(key.column)?;
                        self.rows(true, |w| w.clause(target, key.ty))?;
                    }
                    _ => self.put(&(key.column + 1).to_string()),
                }
                self.put(direction(key));
            }
        }
        self.limits(query)?;
        match &query.body {
            Body::Select(select) => self.locks(select),
            _ => Some(()),
        }
    }

    fn limits(&mut self, query: &'a Query) -> Option<()> {
        let ty = Type::of(oid::INT8);
        if let Some(offset) = &query.offset {
            self.keyword(" OFFSET ", (-STEP, STEP, 0));
            self.expr(offset, ty, false)?;
        }
        match &query.limit {
            None => {}
            Some(limit) if query.with_ties => {
                self.keyword(" FETCH FIRST ", (-STEP, STEP, 0));
                let plain = matches!(limit.bare(), Expr::Const(_));
                self.put(if plain { "" } else { "(" });
                self.expr(limit, ty, false)?;
                self.put(if plain { " ROWS WITH TIES" } else { ") ROWS WITH TIES" });
            }
            Some(limit) => {
                self.keyword(" LIMIT ", (-STEP, STEP, 0));
                match limit == &Expr::null() {
                    true => self.put("ALL"),
                    false => self.expr(limit, ty, false)?,
                }
            }
        }
        Some(())
    }

    fn locks(&mut self, select: &'a Select) -> Option<()> {
        for (at, strength, wait) in &select.locks {
            let level = self.levels.last()?;
            let place = level.names.iter().position(|entry| entry.at == *at && !entry.written.using)?;
            let name = quote_ident(&level.called[place]);
            let word = match strength {
                LockStrength::Update => " FOR UPDATE",
                LockStrength::NoKeyUpdate => " FOR NO KEY UPDATE",
                LockStrength::Share => " FOR SHARE",
                LockStrength::KeyShare => " FOR KEY SHARE",
            };
            self.keyword(word, (-STEP, STEP, 0));
            self.put(&format!(" OF {name}"));
            self.put(match wait {
                LockWait::Block => "",
                LockWait::Error => " NOWAIT",
                LockWait::Skip => " SKIP LOCKED",
            });
        }
        Some(())
    }

    fn with(&mut self, ctes: &'a [Cte]) -> Option<()> {
        if ctes.is_empty() {
            return Some(());
        }
        if self.style.lines {
            self.indent += STEP;
            self.put(" ");
        }
        let recursive = ctes.iter().any(|cte| matches!(cte.kind, CteKind::Recursive { .. }));
        self.put(if recursive { "WITH RECURSIVE " } else { "WITH " });
        for (at, cte) in ctes.iter().enumerate() {
            self.put(if at > 0 { ", " } else { "" });
            self.put(&quote_ident(&cte.name));
            if !cte.listed.is_empty() {
                let names: Vec<String> = cte.listed.iter().map(|name| quote_ident(name)).collect();
                self.put(&format!("({})", names.join(", ")));
            }
            self.put(match cte.materialized {
                None => " AS (",
                Some(true) => " AS MATERIALIZED (",
                Some(false) => " AS NOT MATERIALIZED (",
            });
            self.line((0, 0, 0));
            // It does not see the tables of the query that it is for, whose names are taken all the same.
            let own = self.levels.pop();
            let written = self.with_query(cte);
            self.levels.extend(own);
            written?;
            self.line((0, 0, 0));
            self.put(")");
        }
        match self.style.lines {
            true => self.line((-STEP, 0, 0)),
            false => self.put(" "),
        }
        Some(())
    }

    fn with_query(&mut self, cte: &'a Cte) -> Option<()> {
        match &cte.kind {
            CteKind::Query(query) => self.query(query, Heading::shown(), false),
            CteKind::Recursive { base, step, all, .. } => {
                // What its first part has of its own WITH, its second sees too.
                if !base.ctes.is_empty() {
                    return None;
                }
                let indent = self.indent;
                self.operand(base, Heading::shown(), false)?;
                self.line((0, 0, 0));
                self.put(if *all { "UNION ALL " } else { "UNION " });
                self.right(step, Heading::hidden())?;
                self.indent = indent;
                Some(())
            }
            CteKind::Change(_) => None,
        }
    }

    /// A new line, where there are lines.
    fn line(&mut self, indent: (i32, i32, i32)) {
        if self.style.lines {
            self.keyword("", indent);
        }
    }

    /// A part of a set operation that is none itself.
    fn operand(&mut self, query: &'a Query, heading: Heading<'_>, nested: bool) -> Option<()> {
        if nested {
            let own = operation(query)?;
            return self.set(query, own, heading);
        }
        let needs = needs_parentheses(query);
        self.put(if needs { "(" } else { "" });
        self.query(query, heading, true)?;
        self.put(if needs { ")" } else { "" });
        Some(())
    }

    fn operands(&mut self, query: &'a Query, heading: Heading<'_>) -> Option<()> {
        let Body::Set { kind, all, .. } = &query.body else { return None };
        self.set(query, (*kind, *all), heading)
    }

    fn set(&mut self, query: &'a Query, (kind, all): (SetKind, bool), heading: Heading<'_>) -> Option<()> {
        let Body::Set { left, right, .. } = &query.body else { return None };
        let other = operation(left);
        match other {
            Some(own) if own != (kind, all) => {
                self.put("(");
                self.keyword("", (STEP, 0, 0));
                self.operand(left, heading, true)?;
                self.keyword(") ", (-STEP, 0, 0));
            }
            other => {
                self.operand(left, heading, other.is_some())?;
                match self.style.lines {
                    true => self.keyword("", (0, 0, 0)),
                    false => self.put(" "),
                }
            }
        }
        self.put(match kind {
            SetKind::Union => "UNION ",
            SetKind::Intersect => "INTERSECT ",
            SetKind::Except => "EXCEPT ",
        });
        self.put(if all { "ALL " } else { "" });
        self.right(right, Heading { visible: false, ..heading })
    }

    fn right(&mut self, query: &'a Query, heading: Heading<'_>) -> Option<()> {
        if operation(query).is_some() {
            self.put("(");
            self.keyword("", (STEP, 0, 0));
            self.operand(query, heading, true)?;
            self.indent -= STEP;
            self.keyword(")", (0, 0, 0));
            return Some(());
        }
        self.keyword("", (0, 0, 0));
        self.operand(query, heading, false)
    }

    fn values(&mut self, query: &'a Query, rows: &'a [Vec<Expr>]) -> Option<()> {
        self.put("VALUES ");
        for (at, row) in rows.iter().enumerate() {
            self.put(if at > 0 { ", (" } else { "(" });
            for (column, expr) in row.iter().enumerate() {
                self.put(if column > 0 { "," } else { "" });
                self.expr(expr, query.columns.get(column)?.ty, false)?;
            }
            self.put(")");
        }
        Some(())
    }

    fn select(
        &mut self,
        query: &'a Query,
        select: &'a Select,
        heading: Heading<'_>,
        brought: bool,
    ) -> Option<()> {
        if self.style.lines {
            self.indent += STEP;
            self.put(" ");
        }
        self.put("SELECT");
        match &select.distinct {
            DistinctOn::No => {}
            DistinctOn::Rows(_) => self.put(" DISTINCT"),
            DistinctOn::Columns(columns) => {
                self.put(" DISTINCT ON (");
                for (at, (column, ty)) in columns.iter().enumerate() {
                    self.put(if at > 0 { ", " } else { "" });
                    let target = select.targets.get(*column)?;
                    self.rows(true, |w| w.clause(target, *ty))?;
                }
                self.put(")");
            }
        }
        self.targets(query, select, heading, brought)?;
        self.tables(&select.from)?;
        let condition = Type::of(oid::BOOL);
        if let Some(filter) = &select.filter {
            self.keyword(" WHERE ", (-STEP, STEP, 1));
            self.expr(filter, condition, false)?;
        }
        if let Some(group) = &select.group {
            self.group(group)?;
        }
        if let Some(having) = &select.having {
            self.keyword(" HAVING ", (-STEP, STEP, 0));
            self.rows(true, |w| w.expr(having, condition, false))?;
        }
        self.windows(select)
    }

    fn targets(
        &mut self,
        query: &'a Query,
        select: &'a Select,
        heading: Heading<'_>,
        brought: bool,
    ) -> Option<()> {
        let mut several = false;
        for (at, (column, target)) in query.columns.iter().zip(&select.targets).enumerate() {
            self.put(if at > 0 { ", " } else { " " });
            let name = heading.names.and_then(|names| names.get(at)).unwrap_or(&column.name);
            let text = self.apart(|w| {
                w.rows(true, |w| {
                    match target {
                        Expr::Cast { expr, source, explicit: false, .. } if brought => {
                            w.expr(expr, Type::of(*source), true)?;
                        }
                        target => w.expr(target, column.ty, true)?,
                    }
                    let own = w.column_name(target);
                    let usual = (!heading.visible).then_some("?column?");
                    if own.as_deref().or(usual) != Some(name.as_str()) {
                        w.put(&format!(" AS {}", quote_ident(name)));
                    }
                    Some(())
                })
            })?;
            self.next(&text, (at == 0, several));
            several = text[text.len().min(1)..].contains('\n');
        }
        Some(())
    }

    /// What is grouped by, as it was written.
    fn group(&mut self, group: &'a Group) -> Option<()> {
        if group.written.is_empty() {
            return Some(());
        }
        self.keyword(" GROUP BY ", (-STEP, STEP, 1));
        let simple = group.written.iter().all(|item| matches!(item, Grouping::Keys(keys) if keys.len() == 1));
        for (at, item) in group.written.iter().enumerate() {
            self.put(if at > 0 { ", " } else { "" });
            match item {
                Grouping::Keys(keys) if simple => self.keys(group, keys)?,
                item => self.grouping(group, item, true)?,
            }
        }
        Some(())
    }

    fn keys(&mut self, group: &'a Group, keys: &[usize]) -> Option<()> {
        for (at, key) in keys.iter().enumerate() {
            self.put(if at > 0 { ", " } else { "" });
            let (key, ty) = group.keys.get(*key)?;
            self.clause(key, *ty)?;
        }
        Some(())
    }

    fn grouping(&mut self, group: &'a Group, item: &'a Grouping, bare: bool) -> Option<()> {
        let listed = |w: &mut Self, keys: &[usize], bare: bool| {
            let bare = bare && keys.len() == 1;
            w.put(if bare { "" } else { "(" });
            w.keys(group, keys)?;
            w.put(if bare { "" } else { ")" });
            Some(())
        };
        let parts = |w: &mut Self, name: &str, lists: &[Vec<usize>]| {
            w.put(name);
            for (at, list) in lists.iter().enumerate() {
                w.put(if at > 0 { ", " } else { "" });
                listed(w, list, true)?;
            }
            w.put(")");
            Some(())
        };
        match item {
            Grouping::Keys(keys) => listed(self, keys, bare),
            Grouping::Rollup(lists) => parts(self, "ROLLUP(", lists),
            Grouping::Cube(lists) => parts(self, "CUBE(", lists),
            Grouping::Sets(items) => {
                self.put("GROUPING SETS (");
                for (at, item) in items.iter().enumerate() {
                    self.put(if at > 0 { ", " } else { "" });
                    self.grouping(group, item, false)?;
                }
                self.put(")");
                Some(())
            }
        }
    }

    /// The windows that have names, each once.
    fn windows(&mut self, select: &'a Select) -> Option<()> {
        let mut written: Vec<&str> = Vec::new();
        for call in &select.windows {
            let Some(name) = &call.name else { continue };
            if written.contains(&name.as_str()) {
                continue;
            }
            match written.is_empty() {
                true => self.keyword(" WINDOW ", (-STEP, STEP, 1)),
                false => self.put(", "),
            }
            written.push(name);
            self.put(&format!("{} AS ", quote_ident(name)));
            self.rows(true, |w| w.window_definition(call))?;
        }
        Some(())
    }

    fn resolved(&self, expr: &'a Expr) -> Option<(&'a Expr, bool)> {
        let Expr::Column { depth, .. } = expr else { return Some((expr, false)) };
        match self.known(self.level_of(*depth)?, expr)? {
            Known::Column(..) => Some((expr, false)),
            Known::Key(key, _) => Some((key, false)),
            Known::Aggregate(_) | Known::Window(_) => Some((expr, true)),
        }
    }

    /// Whether it is called like a function, so that it may be taken for something else in GROUP BY.
    pub(super) fn is_call(&self, expr: &'a Expr) -> bool {
        match self.resolved(expr) {
            Some((_, true)) => true,
            Some((Expr::Call { head, .. }, _)) => head.operator.is_none(),
            Some((Expr::Cast { path: crate::func::CastPath::Function(_), .. }, _)) => true,
            Some((Expr::Cast { target, .. }, _)) => target.modifier >= 0,
            Some((Expr::SetResult(_), _)) => true,
            _ => false,
        }
    }

    /// Whether it is written like a call of a function, which needs no parentheses in an index.
    pub(super) fn looks_like_call(&self, expr: &'a Expr) -> bool {
        match self.resolved(expr) {
            Some((Expr::Call { head, .. }, _)) => head.operator.is_none(),
            Some((Expr::Coalesce(_) | Expr::Extreme { .. } | Expr::NullIf { .. }, _)) => true,
            _ => false,
        }
    }

    pub(super) fn is_column(&self, expr: &'a Expr) -> bool {
        matches!(self.resolved(expr), Some((Expr::Column { .. } | Expr::Const(_), false)))
    }

    /// The name that an output column has of itself.
    fn column_name(&self, expr: &'a Expr) -> Option<String> {
        let at = self.levels.len().checked_sub(1)?;
        let level = |depth: u16| self.level_of(depth);
        match expr {
            Expr::Column { depth, .. } => match self.known(level(*depth)?, expr)? {
                Known::Column(_, name) => Some(name.to_string()),
                Known::Key(key, _) => self.key_name(at, key),
                _ => None,
            },
            Expr::Coalesce(_) | Expr::Cast { .. } => self.key_name(at, expr),
            _ => None,
        }
    }

    /// The name of a column of the tables on a level.
    fn key_name(&self, at: usize, key: &Expr) -> Option<String> {
        let level = &self.levels[at];
        if let Some((_, name)) = level.merged.iter().find(|(merged, _)| merged == key) {
            return Some(name.clone());
        }
        if !matches!(key, Expr::Column { depth: 0, .. }) {
            return None;
        }
        let tables = level.names.iter().rev().filter(|entry| !entry.written.using);
        let mut columns = tables.flat_map(|entry| &entry.columns);
        columns.find(|column| column.expr == *key).map(|column| column.name.clone())
    }
}
