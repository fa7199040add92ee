//! The bound tree: names looked up, types and functions decided. It is what plans are made of.
//!
//! ```text
//! level   one SELECT has one row of slots: each table of its FROM has a range of them. After grouping the
//! row is
//!         keys | aggregates | results of window functions; without grouping the windows' results follow
//!         the slots.
//! column  (depth, slot): depth 0 is the level's own row, 1 that of the SELECT around it, and so on.
//! ```
//!
//! 1. Every expression's type was decided when it was bound; evaluation never looks for a function.
//! 2. A derived table's depth 1 is the row of the SELECT that holds it, LATERAL or not; without LATERAL it is
//!    never looked at.

pub(crate) mod plan;
mod statement;
mod subquery;
pub(crate) mod walk;
mod written;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::catalog::object::Table;
use crate::func::{CastPath, Function, Operator};
use crate::parse::ast::{Bound, Exclusion, FrameUnit, JoinKind, LockStrength, LockWait, SetKind};
use crate::types::value::Value;
use crate::types::{Oid, Type};
pub(crate) use written::{Collation, Entry, Form, Grouping, Joined, Names, ScopeColumn, Written};

pub(crate) use statement::BoundStatement;
pub(crate) use subquery::{Memo, Subquery, SubqueryKind};

/// A function with resolved types.
#[derive(Clone)]
pub(crate) struct Head {
    pub(crate) function: &'static Function,
    pub(crate) operator: Option<&'static Operator>,
    pub(crate) types: Arc<[Oid]>,
    pub(crate) result: Oid,
    pub(crate) form: Form,
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.function.oid == other.function.oid && self.types == other.types
    }
}

impl std::fmt::Debug for Head {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.function.name)
    }
}

/// A constant that can be compared by its form.
#[derive(Clone, Debug)]
pub(crate) struct Const(pub(crate) Value);

impl PartialEq for Const {
    fn eq(&self, other: &Const) -> bool {
        format!("{:?}", self.0) == format!("{:?}", other.0)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Const(Const),
    /// From 0.
    Param(usize),
    Column {
        depth: u16,
        slot: usize,
    },
    /// Result of aggregate number so-and-so of the level `depth` further out; becomes a column when that is
    /// bound.
    Aggregate {
        depth: u16,
        number: usize,
    },
    /// Result of window call number so-and-so of the level.
    Window(usize),
    /// GROUPING(): bits over keys, read from the hidden last aggregate slot.
    Grouping(Vec<usize>),
    Call {
        head: Head,
        args: Vec<Expr>,
        spread: bool,
    },
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    IsNull {
        expr: Box<Expr>,
        negated: bool,
        record: bool,
    },
    /// IS [NOT] TRUE, FALSE (`truth`) or UNKNOWN (`None`).
    IsTruth {
        expr: Box<Expr>,
        truth: Option<bool>,
        negated: bool,
    },
    Distinct {
        head: Head,
        left: Box<Expr>,
        right: Box<Expr>,
        negated: bool,
    },
    Case {
        operand: Option<Box<Expr>>,
        whens: Vec<(Expr, Expr)>,
        otherwise: Option<Box<Expr>>,
    },
    /// The operand of the CASE around, or the value that a domain's check is about.
    CaseOperand,
    Coalesce(Vec<Expr>),
    /// NULLIF: the first argument where the equality is not true.
    NullIf {
        head: Head,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    Extreme {
        greatest: bool,
        list: Vec<Expr>,
        ty: Oid,
    },
    Cast {
        expr: Box<Expr>,
        path: CastPath,
        source: Oid,
        target: Type,
        explicit: bool,
    },
    /// `left op ANY (array)`.
    AnyArray {
        head: Head,
        left: Box<Expr>,
        array: Box<Expr>,
        all: bool,
        /// Number of the array where it is computed and always the same; set when it is planned.
        cache: Option<usize>,
    },
    InList {
        head: Head,
        left: Box<Expr>,
        list: Vec<Expr>,
        negated: bool,
    },
    /// Row comparison: columns in order, with `=` and (for < and its kin) the strict operator of each.
    RowCompare {
        op: RowOp,
        equals: Vec<Head>,
        less: Vec<Head>,
        left: Vec<Expr>,
        right: Vec<Expr>,
    },
    Row {
        values: Vec<Expr>,
        names: Arc<[Arc<str>]>,
        types: Arc<[Oid]>,
    },
    Array {
        elements: Vec<Expr>,
        element: Oid,
        nested: bool,
    },
    Subscript {
        base: Box<Expr>,
        indexes: Vec<Expr>,
    },
    /// A value of a domain, checked.
    Checked {
        expr: Box<Expr>,
        domain: Oid,
        checks: Vec<DomainCheck>,
    },
    /// A value with a part of it replaced: an element, a slice, or what a path leads to in a document.
    Replaced {
        base: Box<Expr>,
        /// For an element or a step of a path, its second part only.
        bounds: Vec<(Option<Expr>, Option<Expr>)>,
        slice: bool,
        /// Of an array; 0 for a document.
        element: Oid,
        value: Box<Expr>,
    },
    Slice {
        base: Box<Expr>,
        bounds: Vec<(Option<Expr>, Option<Expr>)>,
    },
    Field {
        base: Box<Expr>,
        index: usize,
    },
    /// All columns of a table as a row; NULL where an outer join has none.
    WholeRow {
        depth: u16,
        from: usize,
        names: Arc<[Arc<str>]>,
        types: Arc<[Oid]>,
    },
    Subquery(Box<Subquery>),
    /// A call that returns a set, in a SELECT list: its place among the level's calls.
    SetResult(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RowOp {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OutColumn {
    pub(crate) name: String,
    pub(crate) ty: Type,
    pub(crate) table: Oid,
    pub(crate) attribute: i16,
    /// The fields of a record, where they are known.
    pub(crate) fields: Option<Fields>,
    pub(crate) collation: Collation,
}

/// Names and types of a record's fields.
pub(crate) type Fields = Arc<[(Arc<str>, Oid)]>;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SortKey {
    pub(crate) column: usize,
    pub(crate) ty: Oid,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Query {
    pub(crate) ctes: Vec<Cte>,
    pub(crate) body: Body,
    pub(crate) order: Vec<SortKey>,
    pub(crate) limit: Option<Expr>,
    pub(crate) offset: Option<Expr>,
    pub(crate) with_ties: bool,
    /// The visible ones; rows may be longer.
    pub(crate) columns: Vec<OutColumn>,
    /// Set when it is planned as a part of another one.
    pub(crate) estimate: Option<plan::Estimate>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cte {
    /// Unique in the statement.
    pub(crate) id: usize,
    pub(crate) name: String,
    /// The names that were given to its columns.
    pub(crate) listed: Vec<String>,
    /// MATERIALIZED or NOT MATERIALIZED, where either was written.
    pub(crate) materialized: Option<bool>,
    /// It is run before its query: it changes rows and is read, or looks at rows around it.
    pub(crate) eager: bool,
    /// Its rows pass by once, and are not kept; set when it is planned.
    pub(crate) once: bool,
    /// The WITH queries that it reads, and those that they read.
    pub(crate) reads: BTreeSet<usize>,
    pub(crate) kind: CteKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CteKind {
    Query(Box<Query>),
    /// The first part, the part that looks at the last round's rows, and whether rows may come twice.
    Recursive {
        base: Box<Query>,
        step: Box<Query>,
        all: bool,
        types: Vec<Oid>,
    },
    Change(Box<Change>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Body {
    Select(Box<Select>),
    Values(Vec<Vec<Expr>>),
    Set { kind: SetKind, all: bool, left: Box<Query>, right: Box<Query>, types: Vec<Oid> },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DistinctOn {
    No,
    /// Over the visible columns.
    Rows(Vec<Oid>),
    /// Over these columns of the output (column, type).
    Columns(Vec<(usize, Oid)>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Select {
    pub(crate) names: Names,
    pub(crate) from: From,
    pub(crate) slots: usize,
    pub(crate) filter: Option<Expr>,
    pub(crate) group: Option<Group>,
    pub(crate) having: Option<Expr>,
    pub(crate) windows: Vec<WindowCall>,
    /// Calls in the SELECT list that return sets.
    pub(crate) sets: Vec<SetCall>,
    pub(crate) targets: Vec<Expr>,
    pub(crate) distinct: DistinctOn,
    pub(crate) locks: Vec<(usize, LockStrength, LockWait)>,
    /// Rows that are locked when it is known which of them are given. Set when it is planned.
    pub(crate) late: Vec<Late>,
}

/// A table whose rows SKIP LOCKED only looks at until they have been joined and sorted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Late {
    pub(crate) table: Arc<Table>,
    /// Where in an output row its values begin, behind which the row's name is.
    pub(crate) at: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Group {
    /// With the types to compare by.
    pub(crate) keys: Vec<(Expr, Oid)>,
    /// Which keys count, for each grouping set; one set of all keys for a plain GROUP BY.
    pub(crate) sets: Vec<Vec<usize>>,
    /// As it was written.
    pub(crate) written: Vec<Grouping>,
    pub(crate) aggregates: Vec<AggregateCall>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AggregateCall {
    pub(crate) head: Head,
    pub(crate) args: Vec<Expr>,
    pub(crate) distinct: Vec<Oid>,
    /// Extra expressions to sort by, after the arguments: (expression, key).
    pub(crate) order: Vec<(Expr, SortKey)>,
    pub(crate) filter: Option<Expr>,
    /// Ordered-set: how many direct arguments stand first.
    pub(crate) direct: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WindowCall {
    /// Of the window, where that has one.
    pub(crate) name: Option<String>,
    pub(crate) head: Head,
    pub(crate) args: Vec<Expr>,
    pub(crate) filter: Option<Expr>,
    pub(crate) partition: Vec<(Expr, Oid)>,
    pub(crate) order: Vec<(Expr, SortKey)>,
    pub(crate) frame: Frame,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) unit: FrameUnit,
    pub(crate) start: Bound<Box<Expr>>,
    pub(crate) end: Bound<Box<Expr>>,
    pub(crate) exclusion: Exclusion,
    /// RANGE with an offset: `in_range(value, base, offset, sub, less)`'s arithmetic, as `+` and `-` on the
    /// key.
    pub(crate) arithmetic: Option<(Head, Head)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SetCall {
    pub(crate) head: Head,
    pub(crate) args: Vec<Expr>,
    pub(crate) spread: bool,
    /// How many columns a row of it has.
    pub(crate) width: usize,
    /// It returns one value, not a set.
    pub(crate) scalar: bool,
    /// Types of the columns that `json_to_record` and its kin are told.
    pub(crate) told: Vec<(String, Type)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum From {
    /// No FROM: one empty row.
    One,
    Table {
        table: Arc<Table>,
        at: usize,
    },
    /// Rows that the system makes: catalog relations.
    System {
        table: Oid,
        at: usize,
        width: usize,
    },
    Query {
        query: Box<Query>,
        lateral: bool,
        at: usize,
        width: usize,
    },
    Cte {
        id: usize,
        at: usize,
        width: usize,
    },
    Functions {
        calls: Vec<SetCall>,
        lateral: bool,
        ordinality: bool,
        at: usize,
        width: usize,
    },
    Join {
        kind: JoinKind,
        left: Box<From>,
        right: Box<From>,
        on: Option<Expr>,
        written: Joined,
    },
    /// Already planned.
    Planned(Box<plan::Node>),
}

/// A statement that changes rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    Insert(Box<Insert>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    Merge(Box<Merge>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Insert {
    pub(crate) ctes: Vec<Cte>,
    pub(crate) target: Arc<Target>,
    pub(crate) source: Option<Query>,
    /// What each column of the table gets, over the source's row.
    pub(crate) values: Vec<Expr>,
    pub(crate) conflict: Option<Conflict>,
    pub(crate) returning: Option<Returning>,
}

/// Columns and what they become, and the condition.
pub(crate) type ConflictUpdate = (Vec<(usize, Expr)>, Option<Expr>);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Conflict {
    /// The unique index that decides; `None`: any.
    pub(crate) index: Option<Oid>,
    /// It, or one of them, may be deferred: no row can be put in so.
    pub(crate) deferrable: bool,
    /// Assignments over the row `old | excluded`; `None`: nothing is done.
    pub(crate) update: Option<ConflictUpdate>,
    /// The view that is changed through, and which rows it has.
    pub(crate) seen: Option<(String, Expr)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Returning {
    pub(crate) targets: Vec<Expr>,
    pub(crate) columns: Vec<OutColumn>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Update {
    pub(crate) names: Names,
    pub(crate) ctes: Vec<Cte>,
    pub(crate) target: Arc<Target>,
    /// The target's table is first, at slot 0.
    pub(crate) from: From,
    pub(crate) slots: usize,
    pub(crate) filter: Option<Expr>,
    pub(crate) set: Vec<(usize, Expr)>,
    pub(crate) returning: Option<Returning>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Delete {
    pub(crate) names: Names,
    pub(crate) ctes: Vec<Cte>,
    pub(crate) target: Arc<Target>,
    pub(crate) from: From,
    pub(crate) slots: usize,
    pub(crate) filter: Option<Expr>,
    pub(crate) returning: Option<Returning>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Merge {
    pub(crate) names: Names,
    pub(crate) ctes: Vec<Cte>,
    pub(crate) target: Arc<Target>,
    /// The target's table is at slot 0; where a source row has no match its slots are NULL.
    pub(crate) from: From,
    pub(crate) slots: usize,
    pub(crate) whens: Vec<When>,
}

/// What MERGE does with a row of its join: the first whose condition holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct When {
    pub(crate) matched: bool,
    pub(crate) condition: Option<Expr>,
    pub(crate) action: MergeAction,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MergeAction {
    Nothing,
    Delete,
    Update(Vec<(usize, Expr)>),
    /// What each column of the table gets.
    Insert(Vec<Expr>),
}

/// A table that rows are changed in, with its expressions bound over the row of its columns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Target {
    pub(crate) table: Arc<Table>,
    /// (name, condition).
    pub(crate) checks: Vec<(String, Expr)>,
    /// Conditions of WITH CHECK OPTION of the views that are changed through: (view, condition).
    pub(crate) options: Vec<(String, Expr)>,
    /// (column, expression).
    pub(crate) generated: Vec<(usize, Expr)>,
    /// Checks of domains.
    pub(crate) domains: Vec<DomainCheck>,
}

/// A check of a domain that a column has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DomainCheck {
    pub(crate) column: usize,
    /// The column is an array of the domain.
    pub(crate) each: bool,
    pub(crate) domain: String,
    pub(crate) check: String,
    /// Over CaseOperand; `None`: it is not NULL.
    pub(crate) condition: Option<Expr>,
}

impl Expr {
    pub(crate) fn null() -> Expr {
        Expr::Const(Const(Value::Null))
    }

    pub(crate) fn value(value: Value) -> Expr {
        Expr::Const(Const(value))
    }

    pub(crate) fn slot(slot: usize) -> Expr {
        Expr::Column { depth: 0, slot }
    }

    /// Without casts that leave the value as it is.
    pub(crate) fn bare(&self) -> &Expr {
        match self {
            Expr::Cast { expr, path: CastPath::Relabel, target, .. } if target.modifier < 0 => expr.bare(),
            other => other,
        }
    }

    pub(crate) fn conjuncts(self, into: &mut Vec<Expr>) {
        match self {
            Expr::And(list) => list.into_iter().for_each(|part| part.conjuncts(into)),
            Expr::Const(Const(Value::Bool(true))) => {}
            other => into.push(other),
        }
    }

    pub(crate) fn all(mut list: Vec<Expr>) -> Option<Expr> {
        match list.len() {
            0 => None,
            1 => list.pop(),
            _ => Some(Expr::And(list)),
        }
    }
}
