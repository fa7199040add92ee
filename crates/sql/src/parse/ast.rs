//! The parse tree: what the grammar says, before any name is looked up.
//!
//! 1. Every expression and name has the byte offset where PostgreSQL would point at it.
//! 2. Nothing is looked up here, and no constant is evaluated.

mod define;
mod expr;

use super::lexer::Pos;
use crate::error::SqlError;

pub use define::OnCommit;
pub(crate) use define::*;
pub(crate) use expr::*;

/// An identifier, folded or unquoted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ident {
    pub(crate) text: String,
    pub(crate) pos: Pos,
}

/// `a`, `a.b` or `a.b.c`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Path {
    pub(crate) parts: Vec<String>,
    pub(crate) pos: Pos,
}

impl Path {
    pub(crate) fn last(&self) -> &str {
        self.parts.last().map_or("", String::as_str)
    }

    pub(crate) fn schema(&self) -> Option<&str> {
        self.parts.len().checked_sub(2).map(|i| self.parts[i].as_str())
    }

    pub(crate) fn shown(&self) -> String {
        self.parts.join(".")
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Query {
    pub(crate) with: Option<With>,
    pub(crate) body: Body,
    pub(crate) order_by: Vec<SortBy>,
    pub(crate) limit: Option<Expr>,
    pub(crate) offset: Option<Expr>,
    pub(crate) with_ties: bool,
    pub(crate) locking: Vec<Locking>,
    pub(crate) pos: Pos,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct With {
    pub(crate) recursive: bool,
    pub(crate) tables: Vec<Cte>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cte {
    pub(crate) name: Ident,
    pub(crate) columns: Vec<Ident>,
    pub(crate) materialized: Option<bool>,
    pub(crate) statement: Statement,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SetKind {
    Union,
    Intersect,
    Except,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Body {
    Select(Box<Select>),
    Values(Vec<Vec<Expr>>),
    Set { kind: SetKind, all: bool, left: Box<Query>, right: Box<Query> },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Distinct {
    No,
    Rows,
    On(Vec<Expr>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Target {
    pub(crate) expr: Expr,
    pub(crate) alias: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GroupItem {
    Expr(Expr),
    Empty,
    Rollup(Vec<Vec<Expr>>),
    Cube(Vec<Vec<Expr>>),
    Sets(Vec<GroupItem>),
    /// `(a, b)` within GROUPING SETS.
    List(Vec<Expr>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Select {
    pub(crate) distinct: Distinct,
    pub(crate) targets: Vec<Target>,
    pub(crate) into: Option<Into>,
    pub(crate) from: Vec<FromItem>,
    pub(crate) filter: Option<Expr>,
    pub(crate) group_by: Vec<GroupItem>,
    pub(crate) having: Option<Expr>,
    pub(crate) windows: Vec<(Ident, WindowDef)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    Cross,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum JoinCondition {
    None,
    On(Expr),
    Using(Vec<Ident>, Option<Ident>),
    Natural,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Alias {
    pub(crate) name: Ident,
    pub(crate) columns: Vec<Ident>,
    /// `AS t(a int, b text)`.
    pub(crate) definitions: Vec<(Ident, TypeName)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FromItem {
    pub(crate) pos: Pos,
    pub(crate) alias: Option<Alias>,
    pub(crate) kind: FromKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FromKind {
    Table { name: Path },
    Query { lateral: bool, query: Box<Query> },
    Functions { lateral: bool, calls: Vec<Expr>, ordinality: bool },
    Join { kind: JoinKind, left: Box<FromItem>, right: Box<FromItem>, condition: JoinCondition },
}

#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) enum LockStrength {
    KeyShare,
    Share,
    NoKeyUpdate,
    Update,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LockWait {
    Block,
    Error,
    Skip,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Locking {
    pub(crate) strength: LockStrength,
    pub(crate) of: Vec<Ident>,
    pub(crate) wait: LockWait,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Assignment {
    pub(crate) columns: Vec<Ident>,
    /// Behind the only column: the part of it that is assigned to.
    pub(crate) part: Vec<Subscript>,
    /// `(a, b) = (..)`: the value is a row or a query; without, one column.
    pub(crate) row: bool,
    pub(crate) value: Expr,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ConflictTarget {
    None,
    /// Columns and expressions, of which rows, and where the list begins.
    Columns(Vec<Expr>, Option<Expr>, Pos),
    Constraint(Ident),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OnConflict {
    pub(crate) target: ConflictTarget,
    /// `None`: DO NOTHING.
    pub(crate) update: Option<(Vec<Assignment>, Option<Expr>)>,
    pub(crate) pos: Pos,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Insert {
    pub(crate) with: Option<With>,
    pub(crate) table: Path,
    pub(crate) alias: Option<Ident>,
    pub(crate) columns: Vec<Ident>,
    /// Which parts of these columns; none if each is meant as a whole.
    pub(crate) parts: Vec<Vec<Subscript>>,
    /// OVERRIDING SYSTEM (true) or USER VALUE.
    pub(crate) overriding: Option<bool>,
    /// `None`: DEFAULT VALUES.
    pub(crate) source: Option<Query>,
    pub(crate) conflict: Option<OnConflict>,
    pub(crate) returning: Vec<Target>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Update {
    pub(crate) with: Option<With>,
    pub(crate) table: Path,
    pub(crate) alias: Option<Ident>,
    pub(crate) set: Vec<Assignment>,
    pub(crate) from: Vec<FromItem>,
    pub(crate) filter: Option<Expr>,
    pub(crate) returning: Vec<Target>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Delete {
    pub(crate) with: Option<With>,
    pub(crate) table: Path,
    pub(crate) alias: Option<Ident>,
    pub(crate) using: Vec<FromItem>,
    pub(crate) filter: Option<Expr>,
    pub(crate) returning: Vec<Target>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Merge {
    pub(crate) with: Option<With>,
    pub(crate) table: Path,
    pub(crate) alias: Option<Ident>,
    pub(crate) source: FromItem,
    pub(crate) on: Expr,
    pub(crate) whens: Vec<When>,
}

/// `WHEN [NOT] MATCHED [AND condition] THEN action`.
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
    Update(Vec<Assignment>),
    /// `values`: `None`: DEFAULT VALUES.
    Insert {
        columns: Vec<Ident>,
        overriding: Option<bool>,
        values: Option<Vec<Expr>>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Statement {
    Query(Query),
    Insert(Box<Insert>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    Merge(Box<Merge>),
    CreateTable(Box<CreateTable>),
    CreateTableAs {
        into: Into,
        columns: Vec<Ident>,
        if_not_exists: bool,
        query: Box<Statement>,
        with_data: bool,
        /// CREATE MATERIALIZED VIEW, with the text of its query.
        materialized: Option<String>,
    },
    /// REFRESH MATERIALIZED VIEW.
    Refresh {
        name: Path,
        concurrently: bool,
        with_data: bool,
    },
    CreateIndex(Box<CreateIndex>),
    CreateSequence {
        name: Path,
        temporary: bool,
        if_not_exists: bool,
        options: Vec<SequenceOption>,
    },
    AlterSequence {
        name: Path,
        if_exists: bool,
        options: Vec<SequenceOption>,
    },
    CreateView {
        name: Path,
        temporary: bool,
        replace: bool,
        columns: Vec<Ident>,
        options: Vec<(String, String)>,
        query: Box<Query>,
        text: String,
    },
    CreateType {
        name: Path,
        kind: CreateType,
    },
    AlterTypeAddValue {
        name: Path,
        if_not_exists: bool,
        label: String,
        place: Option<(bool, String)>,
    },
    AlterTypeRenameValue {
        name: Path,
        from: String,
        to: String,
    },
    AlterDomain(Path, AlterDomain),
    CreateDomain {
        name: Path,
        base: TypeName,
        collation: Option<Path>,
        constraints: Vec<Constraint>,
    },
    CreateSchema {
        name: Option<Ident>,
        if_not_exists: bool,
        owner: Option<String>,
        /// What is made in it at once.
        elements: Vec<Statement>,
    },
    CreateRole {
        name: Ident,
        user: bool,
        options: Vec<RoleOption>,
    },
    AlterRole {
        name: String,
        change: AlterRole,
    },
    Owned(Owned),
    DropAbsent(DropAbsent),
    CreateDatabase {
        name: Ident,
    },
    CreateExtension {
        name: Ident,
        if_not_exists: bool,
    },
    AlterTable {
        kind: ObjectKind,
        name: Path,
        if_exists: bool,
        actions: Vec<AlterTable>,
    },
    Drop {
        kind: ObjectKind,
        if_exists: bool,
        names: Vec<Path>,
        cascade: bool,
        concurrently: bool,
    },
    Truncate {
        tables: Vec<Path>,
        restart: bool,
        cascade: bool,
    },
    Transaction(Transaction),
    Set {
        local: bool,
        name: String,
        value: SetValue,
    },
    SetSnapshot(String),
    SetTransaction {
        session: bool,
        modes: Vec<TransactionMode>,
    },
    SetConstraints {
        names: Vec<Path>,
        deferred: bool,
    },
    Show(String),
    Reset(Option<String>),
    Discard(String),
    Prepare {
        name: Ident,
        types: Vec<TypeName>,
        statement: Box<Statement>,
        text: (Pos, Pos),
    },
    Execute {
        name: Ident,
        args: Vec<Expr>,
    },
    Deallocate(Option<Ident>),
    Declare {
        name: Ident,
        binary: bool,
        /// SCROLL, or NO SCROLL, where either is said.
        scroll: Option<bool>,
        hold: bool,
        insensitive: bool,
        query: Box<Query>,
    },
    Fetch {
        name: Ident,
        count: FetchCount,
        moved: bool,
    },
    Close(Option<Ident>),
    Copy(Box<Copy>),
    Explain {
        options: Vec<(String, String)>,
        statement: Box<Statement>,
    },
    Comment {
        kind: ObjectKind,
        name: Path,
        of: Option<Path>,
        /// Of a function: what it is called there, and its arguments.
        arguments: Option<(String, Vec<TypeName>)>,
        text: Option<String>,
    },
    Grant(Box<Grant>),
    Lock {
        tables: Vec<Path>,
        mode: String,
        nowait: bool,
    },
    Listen(Ident),
    Unlisten(Option<Ident>),
    Notify(Ident, Option<String>),
    Do(String),
    /// LOAD of a library.
    Load(String),
    /// VACUUM, ANALYZE, CHECKPOINT.
    Maintenance(Maintenance),
    /// REINDEX, CLUSTER.
    Rebuild(Rebuild),
    /// By name: not there.
    Unsupported(SqlError),
}
