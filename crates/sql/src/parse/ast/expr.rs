//! The parse tree of expressions: operators, calls, windows.
use super::{Ident, Path, Query};
use crate::parse::lexer::Pos;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TypeName {
    pub(crate) name: Path,
    pub(crate) modifiers: Vec<i64>,
    pub(crate) array: bool,
    pub(crate) setof: bool,
    /// Of an interval: the mask of its fields as PostgreSQL keeps it.
    pub(crate) fields: Option<i32>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expr {
    pub(crate) pos: Pos,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Operator {
    pub(crate) schema: Option<String>,
    pub(crate) name: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum IsTest {
    Null,
    True,
    False,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LikeKind {
    Like,
    ILike,
    Similar,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Null,
    Bool(bool),
    Integer(String),
    Float(String),
    Str(String),
    Bits(String, bool),
    Param(u16),
    Column(Vec<String>),
    /// `*` or `a.*`.
    Star(Vec<String>),
    Default,
    Unary(Operator, Box<Expr>),
    Binary(Operator, Box<Expr>, Box<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    Is {
        expr: Box<Expr>,
        test: IsTest,
        negated: bool,
    },
    Distinct {
        left: Box<Expr>,
        right: Box<Expr>,
        negated: bool,
    },
    Between {
        expr: Box<Expr>,
        low: Box<Expr>,
        high: Box<Expr>,
        negated: bool,
        symmetric: bool,
    },
    InList {
        expr: Box<Expr>,
        list: Vec<Expr>,
        negated: bool,
    },
    InQuery {
        expr: Box<Expr>,
        query: Box<Query>,
        negated: bool,
    },
    Like {
        kind: LikeKind,
        expr: Box<Expr>,
        pattern: Box<Expr>,
        escape: Option<Box<Expr>>,
        negated: bool,
    },
    /// `left op ANY (array)`.
    AnyArray {
        left: Box<Expr>,
        op: Operator,
        all: bool,
        array: Box<Expr>,
    },
    AnyQuery {
        left: Box<Expr>,
        op: Operator,
        all: bool,
        query: Box<Query>,
    },
    /// With the place of the `::` or CAST.
    Cast(Box<Expr>, TypeName, Pos),
    Func(Box<FuncCall>),
    /// CURRENT_DATE and its kin, by name in lower case, with a precision.
    SqlValue(&'static str, Option<i64>),
    Case {
        operand: Option<Box<Expr>>,
        whens: Vec<(Expr, Expr)>,
        otherwise: Option<Box<Expr>>,
    },
    Coalesce(Vec<Expr>),
    NullIf(Box<Expr>, Box<Expr>),
    /// GREATEST (true) or LEAST.
    Extreme(bool, Vec<Expr>),
    Grouping(Vec<Expr>),
    /// `ROW(..)` (true) or `(a, b)`.
    Row(Vec<Expr>, bool),
    Array(Vec<Expr>),
    ArrayQuery(Box<Query>),
    Exists(Box<Query>),
    Scalar(Box<Query>),
    /// Index, or slice with optional bounds.
    Subscript(Box<Expr>, Vec<Subscript>),
    Field(Box<Expr>, String),
    FieldStar(Box<Expr>),
    Collate(Box<Expr>, Path),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Subscript {
    Index(Expr),
    Slice(Option<Expr>, Option<Expr>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Arg {
    pub(crate) name: Option<String>,
    pub(crate) variadic: bool,
    pub(crate) expr: Expr,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FuncCall {
    pub(crate) name: Path,
    pub(crate) args: Vec<Arg>,
    /// `count(*)`.
    pub(crate) star: bool,
    pub(crate) distinct: bool,
    pub(crate) order_by: Vec<SortBy>,
    pub(crate) within_group: Vec<SortBy>,
    pub(crate) filter: Option<Expr>,
    pub(crate) over: Option<Over>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Over {
    Name(Ident),
    Window(WindowDef),
}

#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct WindowDef {
    pub(crate) base: Option<Ident>,
    pub(crate) partition_by: Vec<Expr>,
    pub(crate) order_by: Vec<SortBy>,
    pub(crate) frame: Option<Frame>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FrameUnit {
    Rows,
    Range,
    Groups,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Exclusion {
    None,
    CurrentRow,
    Group,
    Ties,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Bound<E> {
    UnboundedPreceding,
    Preceding(E),
    CurrentRow,
    Following(E),
    UnboundedFollowing,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) unit: FrameUnit,
    pub(crate) start: Bound<Box<Expr>>,
    pub(crate) end: Bound<Box<Expr>>,
    pub(crate) exclusion: Exclusion,
    pub(crate) pos: Pos,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SortBy {
    pub(crate) expr: Expr,
    pub(crate) descending: bool,
    pub(crate) nulls_first: Option<bool>,
    /// `USING <` and the like.
    pub(crate) using: Option<String>,
}
