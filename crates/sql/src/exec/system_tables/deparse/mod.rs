//! Definitions as PostgreSQL 15 prints them: queries of views, and expressions of defaults, checks,
//! computed columns and indexes; EXPLAIN prints its expressions by the same way.
//!
//! Printed is the bound tree, as PostgreSQL prints its analysed one: what is shown depends on what names
//! and operators were found to mean and on which casts nobody wrote. A level's `Names` say what its tables
//! are called; what else the tree would not tell of the text (`Form`, `Joined`, `Grouping`, names of WITH
//! queries and windows) the binder leaves in it, and nobody but this module looks at that.
//!
//! * `mod`: the writer, the levels of names, and the layout: where lines end and how far they are indented.
//! * `expr`: expressions; `call`: functions, aggregates, windows and the forms with words; `simple`: which
//!   parentheses a reader needs; `query`: SELECT, VALUES, set operations, WITH; `from`: tables and joins.
//! * `objects`: indexes, constraints, views, by their numbers.
//!
//! 1. What is printed here can be read again, and means the same. What cannot be printed so (`None`) is
//!    shown as it is kept, which can be read again too.
//! 2. Every operator stands in parentheses unless the style leaves out those that a reader does without.
//! 3. A cast that nobody wrote is shown where PostgreSQL shows it: around arguments of functions and
//!    operators and output columns, and not around conditions.
//! 4. What is nested is as deep as the parser takes it.

mod call;
mod expr;
mod from;
mod objects;
mod query;
mod simple;

pub(crate) use call::direction;

use crate::exec::system::SessionSystem;
use crate::tree::{Entry, Expr, Names, Select, Subquery};
use crate::types::context::EvalContext;

/// How far a part of a query stands in, and behind what.
const STEP: i32 = 8;
const VARIABLE: i32 = 4;
const JOIN: i32 = 4;
/// Beyond, lines stand in less.
const DEEP: i32 = 40;

/// How something is laid out.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    /// Only the parentheses that a reader needs.
    pub(crate) pretty: bool,
    /// In lines.
    pub(crate) lines: bool,
    /// Lists go on in the same line up to this width.
    pub(crate) wrap: usize,
}

impl Style {
    pub(crate) fn expression(pretty: bool) -> Style {
        Style { pretty, lines: true, wrap: 0 }
    }
}

/// A level of names: the tables of a SELECT.
pub(crate) struct Level<'a> {
    names: &'a [Entry],
    merged: &'a [(Expr, String)],
    /// What the entries are called here, each in the same place.
    called: Vec<String>,
    select: Option<&'a Select>,
    /// Columns are those of the row behind grouping and windows.
    output: bool,
    /// Columns stand without their table.
    bare: bool,
    /// Aliases of joins that are not written yet: within them, tables go by their own names.
    hidden: Vec<usize>,
}

impl Level<'_> {
    /// Of a query without tables.
    fn empty() -> Level<'static> {
        Level {
            names: &[],
            merged: &[],
            called: Vec::new(),
            select: None,
            output: false,
            bare: false,
            hidden: Vec::new(),
        }
    }
}

/// Writes parts of a bound tree.
pub(crate) struct Writer<'a> {
    system: &'a SessionSystem<'a>,
    ctx: EvalContext<'a>,
    style: Style,
    out: String,
    indent: i32,
    /// The level around everything first.
    levels: Vec<Level<'a>>,
    /// Names of tables that are taken, in this query and those around it.
    taken: Vec<String>,
    /// Queries that are shown elsewhere, by their cache or address, under these names.
    plans: &'a [(usize, String)],
    /// The slot of the table on the level on top whose columns stand alone.
    own: Option<usize>,
}

/// What a query within an expression is known by.
pub(crate) fn key_of(subquery: &Subquery) -> usize {
    subquery.cache.unwrap_or_else(|| std::ptr::from_ref(subquery).addr())
}

impl<'a> Writer<'a> {
    pub(crate) fn new(system: &'a SessionSystem<'a>, ctx: EvalContext<'a>, style: Style) -> Writer<'a> {
        let (levels, taken) = (Vec::new(), Vec::new());
        Writer { system, ctx, style, out: String::new(), indent: 0, levels, taken, plans: &[], own: None }
    }

    /// Queries are shown elsewhere, under these names.
    pub(crate) fn with_plans(self, plans: &'a [(usize, String)]) -> Writer<'a> {
        Writer { plans, ..self }
    }

    /// Columns of the table at this slot stand without it.
    pub(crate) fn of_table(self, own: Option<usize>) -> Writer<'a> {
        Writer { own, ..self }
    }

    /// Over the rows behind grouping and windows, or before.
    pub(crate) fn output(mut self, output: bool) -> Writer<'a> {
        self.levels.iter_mut().for_each(|level| level.output = output);
        self
    }

    /// Over the columns of one level; `bare`: they stand without their table.
    pub(crate) fn over(mut self, names: &'a Names, select: Option<&'a Select>, bare: bool) -> Writer<'a> {
        self.enter(names, select);
        let level = self.levels.last_mut().expect("it was put there");
        level.bare = bare;
        self
    }

    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// A word that begins a line: the indentation before and after it, and what this line has besides.
    fn keyword(&mut self, word: &str, (before, after, besides): (i32, i32, i32)) {
        if self.style.lines {
            self.indent += before;
            let kept = self.out.trim_end_matches(' ').len();
            self.out.truncate(kept);
            self.out.push('\n');
            let deep = match self.indent {
                ..DEEP => self.indent.max(0),
                indent => (DEEP + (indent - DEEP) / (STEP / 2)) % DEEP,
            };
            self.out.extend(std::iter::repeat_n(' ', (deep + besides) as usize));
            self.indent = (self.indent + after).max(0);
        }
        self.put(word);
    }

    /// Writes something apart from what is there.
    fn apart(&mut self, write: impl FnOnce(&mut Self) -> Option<()>) -> Option<String> {
        let out = std::mem::take(&mut self.out);
        let done = write(self);
        let text = std::mem::replace(&mut self.out, out);
        done.map(|()| text)
    }

    /// The next part of a list, in a new line where that would become too long; `anew`: in any case.
    fn next(&mut self, text: &str, (first, anew): (bool, bool)) {
        if self.style.lines {
            let line = self.out.rfind('\n').map_or(0, |at| at + 1);
            if text.starts_with('\n') {
                let kept = self.out.trim_end_matches(' ').len();
                self.out.truncate(kept);
            } else if !first && (self.out.len() - line + text.len() > self.style.wrap || anew) {
                self.keyword("", (-STEP, STEP, VARIABLE));
            }
        }
        self.put(text);
    }

    /// A level whose names are not those of others in sight.
    fn enter(&mut self, names: &'a Names, select: Option<&'a Select>) {
        let mut called = Vec::with_capacity(names.entries.len());
        for entry in names.entries.iter() {
            let mut name = entry.name.clone();
            let mut number = 0;
            while !entry.written.using && self.taken.contains(&name) {
                number += 1;
                name = format!("{}_{number}", entry.name);
            }
            if !entry.written.using {
                self.taken.push(name.clone());
            }
            called.push(name);
        }
        let (names, merged) = (&names.entries[..], &names.merged[..]);
        let hidden = Vec::new();
        self.levels.push(Level { names, merged, called, select, output: false, bare: false, hidden });
    }

    fn leave(&mut self) {
        if let Some(level) = self.levels.pop() {
            let own = level.names.iter().filter(|entry| !entry.written.using).count();
            self.taken.truncate(self.taken.len() - own);
        }
    }

    /// Within the level number `at`, of its rows before (`output`: behind) grouping.
    fn within<T>(&mut self, at: usize, output: bool, write: impl FnOnce(&mut Self) -> T) -> T {
        let inner = self.levels.split_off(at + 1);
        let before = std::mem::replace(&mut self.levels[at].output, output);
        let made = write(self);
        self.levels[at].output = before;
        self.levels.extend(inner);
        made
    }

    /// Within the level on top.
    fn rows<T>(&mut self, output: bool, write: impl FnOnce(&mut Self) -> T) -> T {
        match self.levels.len().checked_sub(1) {
            Some(at) => self.within(at, output, write),
            None => write(self),
        }
    }
}

/// What a column of a level is.
enum Known<'a> {
    /// A column of a table, or of what a join made: the table's name, if it needs one, and its own.
    Column(Option<String>, &'a str),
    /// A key of its grouping.
    Key(&'a Expr, u32),
    Aggregate(usize),
    Window(usize),
}

impl<'a> Writer<'a> {
    /// What an expression is known as on a level.
    fn known(&self, at: usize, expr: &Expr) -> Option<Known<'a>> {
        let level = &self.levels[at];
        let own = match expr {
            Expr::Column { slot, .. } => Expr::slot(*slot),
            other => other.clone(),
        };
        if let (Expr::Column { slot, .. }, true, Some(select)) = (&own, level.output, level.select) {
            let base = match &select.group {
                Some(group) => {
                    let keys = group.keys.len();
                    if let Some((key, ty)) = group.keys.get(*slot) {
                        return Some(Known::Key(key, *ty));
                    }
                    if *slot < keys + group.aggregates.len() {
                        return Some(Known::Aggregate(slot - keys));
                    }
                    keys + group.aggregates.len() + 1
                }
                None => select.slots,
            };
            if *slot >= base {
                return Some(Known::Window(slot - base));
            }
        }
        if let Some((_, name)) = level.merged.iter().find(|(merged, _)| *merged == own) {
            return Some(Known::Column(None, name));
        }
        // What a join's alias hides has the name that it has there.
        for (place, (entry, called)) in level.names.iter().zip(&level.called).enumerate().rev() {
            let is_it = |column: &&crate::bind::scope::ScopeColumn| column.expr == own;
            let no_table = entry.written.using || level.hidden.contains(&place);
            if let (false, Some(column)) = (no_table, entry.columns.iter().find(is_it)) {
                let alone = at + 1 == self.levels.len() && self.own == Some(entry.at);
                let table = (!level.bare && !alone).then(|| called.clone());
                return Some(Known::Column(table, &column.name));
            }
        }
        None
    }

    fn level_of(&self, depth: u16) -> Option<usize> {
        self.levels.len().checked_sub(1 + usize::from(depth))
    }
}
