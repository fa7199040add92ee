//! SQL/JSON paths: what the type jsonpath holds, and its text.
//!
//! A path is a list of steps. The first one gives items by itself (`$`, `@`, a literal, an operator over
//! other paths), each further one is applied to every item that the one in front of it gives (`.key`, `[*]`,
//! `?(..)`, `.size()`). `lexer` and `parser` read the text, `print` writes it; the evaluation is
//! [`crate::func`]'s.
//!
//! Invariants:
//! 1. A path has at least one step, and paths nest at most [`DEPTH_MAX`] deep: what walks them may recurse.
//! 2. `@` stands within filters only, `last` within subscripts only, and each regular expression is one.
//! 3. The text of [`JsonPath::exact`] is read as the same path. PostgreSQL's (`Display`) is not always: it
//!    leaves out parentheses around an operator in front of an accessor.

mod lexer;
mod parser;
mod print;
#[cfg(test)]
mod tests;

use super::json::Json;

pub use parser::parse;

/// Deepest nesting of a path.
pub const DEPTH_MAX: usize = 1000;

/// The level `last` of [`Step::Descend`].
pub const LAST_LEVEL: u32 = u32::MAX;

/// A path as it is read.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    /// Whether arrays are wrapped and unwrapped as needed, and what is missing is passed over.
    pub lax: bool,
    /// The outermost path.
    pub path: Path,
}

/// Steps, at least one.
pub type Path = Vec<Step>;

/// Operators with two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of operators")]
pub enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    Greater,
    LessOrEqual,
    GreaterOrEqual,
    StartsWith,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

/// Methods without arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of methods")]
pub enum Method {
    Abs,
    Size,
    Type,
    Floor,
    Double,
    Ceiling,
    KeyValue,
}

/// Options of `like_regex`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegexFlags {
    /// `i`: upper and lower case are the same.
    pub ignores_case: bool,
    /// `s`: a dot is any character, line ends too.
    pub dot_all: bool,
    /// `m`: `^` and `$` are ends of lines too.
    pub multiline: bool,
    /// `x`: blanks mean nothing; without a meaning beside `q`, and refused else.
    pub expanded: bool,
    /// `q`: no character is special.
    pub quoted: bool,
}

/// A step of a path.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// null, true, false, a number or a string.
    Literal(Json),
    /// `$name`.
    Variable(String),
    /// `$`.
    Root,
    /// `@`.
    Current,
    /// `last`.
    Last,
    /// Two sides.
    Binary(Operator, Path, Path),
    /// `-path` if the flag is set, else `+path`.
    Sign(bool, Path),
    /// `!(..)`.
    Not(Path),
    /// `(..) is unknown`.
    IsUnknown(Path),
    /// `exists (..)`.
    Exists(Path),
    /// `path like_regex "pattern" flag "flags"`.
    LikeRegex(Path, String, RegexFlags),
    /// `.key`.
    Key(String),
    /// `.*`.
    AnyKey,
    /// `[*]`.
    AnyElement,
    /// `[from, from to to]`.
    Elements(Vec<(Path, Option<Path>)>),
    /// `.**{first to last}`: levels from 0; [`LAST_LEVEL`] is `last`.
    Descend(u32, u32),
    /// `?(..)`.
    Filter(Path),
    /// `.method()`.
    Method(Method),
    /// `.datetime("template")`.
    Datetime(Option<String>),
}

impl Operator {
    /// How it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Operator::Or => "||",
            Operator::And => "&&",
            Operator::Equal => "==",
            Operator::NotEqual => "!=",
            Operator::Less => "<",
            Operator::Greater => ">",
            Operator::LessOrEqual => "<=",
            Operator::GreaterOrEqual => ">=",
            Operator::StartsWith => "starts with",
            Operator::Add => "+",
            Operator::Subtract => "-",
            Operator::Multiply => "*",
            Operator::Divide => "/",
            Operator::Modulo => "%",
        }
    }

    /// How tightly it binds, from 0.
    fn priority(self) -> u8 {
        match self {
            Operator::Or => 0,
            Operator::And => 1,
            Operator::Add | Operator::Subtract => 3,
            Operator::Multiply | Operator::Divide | Operator::Modulo => 4,
            _ => 2,
        }
    }

    /// Whether its sides are predicates.
    fn is_logical(self) -> bool {
        matches!(self, Operator::Or | Operator::And)
    }

    /// Whether it computes a number.
    pub fn is_arithmetic(self) -> bool {
        self.priority() > 2
    }
}

impl Method {
    /// How it is written, without the parentheses.
    pub fn name(self) -> &'static str {
        match self {
            Method::Abs => "abs",
            Method::Size => "size",
            Method::Type => "type",
            Method::Floor => "floor",
            Method::Double => "double",
            Method::Ceiling => "ceiling",
            Method::KeyValue => "keyvalue",
        }
    }

    fn named(name: &str) -> Option<Method> {
        use Method::*;
        [Abs, Size, Type, Floor, Double, Ceiling, KeyValue].into_iter().find(|method| method.name() == name)
    }
}

impl RegexFlags {
    /// The same as letters of PostgreSQL's regular expressions.
    pub fn letters(self) -> String {
        let mut letters = String::new();
        letters.push_str(if self.ignores_case { "i" } else { "" });
        letters.push_str(match (self.dot_all, self.multiline) {
            _ if self.quoted => "q",
            (true, false) => "",
            (true, true) => "w",
            (false, false) => "p",
            (false, true) => "n",
        });
        letters
    }
}
