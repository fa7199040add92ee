//! How things were written: what the bound tree keeps of a text for those who print it
//! (exec/system_tables/deparse), and nobody who runs it looks at.

use std::sync::Arc;

use super::scope::Entry;
use super::tree::Expr;
use crate::types::Type;

/// How a call is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    /// By its name, or as an operator.
    Plain,
    /// With words between its arguments: `EXTRACT(year FROM x)`.
    Words,
    /// By a word that stands for it and the cast to this type around it: CURRENT_DATE.
    Keyword(&'static str, Type),
}

/// What a level's tables are called. Queries do not differ by it.
#[derive(Clone, Default)]
pub(crate) struct Names {
    pub(crate) entries: Arc<[Entry]>,
    /// Columns that joins with USING made of two, and that neither of the two is.
    pub(crate) merged: Vec<(Expr, String)>,
}

impl PartialEq for Names {
    fn eq(&self, _: &Names) -> bool {
        true
    }
}

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Names")
    }
}

/// How a join was written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Joined {
    /// With a comma.
    pub(crate) comma: bool,
    pub(crate) using: Vec<String>,
    /// The alias of what USING made.
    pub(crate) using_alias: Option<String>,
    /// The entry that its own alias made, among those of its level.
    pub(crate) alias: Option<usize>,
}

/// An item of GROUP BY, by the numbers of keys.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Grouping {
    Keys(Vec<usize>),
    Rollup(Vec<Vec<usize>>),
    Cube(Vec<Vec<usize>>),
    Sets(Vec<Grouping>),
}
