//! How things were written: what the bound tree keeps of names, collations and forms for those who go on
//! binding, and who print it (exec/system_tables/deparse). Nobody who runs it looks at that.

use std::sync::Arc;

use super::{Expr, Fields};
use crate::catalog::object::Table;
use crate::parse::Pos;
use crate::types::{Oid, Type};

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

/// A column that a name may mean.
#[derive(Clone, Debug)]
pub(crate) struct ScopeColumn {
    pub(crate) name: String,
    pub(crate) ty: Type,
    pub(crate) expr: Expr,
    /// Of a table: its oid and the column's number from 1.
    pub(crate) origin: (Oid, i16),
    /// The fields of a record, where they are known.
    pub(crate) fields: Option<Fields>,
    pub(crate) collation: Collation,
}

/// A table of a FROM, or what a join with USING or an alias makes.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) schema: Option<String>,
    pub(crate) columns: Vec<ScopeColumn>,
    /// First slot; whole rows are made of the columns from there.
    pub(crate) at: usize,
    /// The table behind it, if it is one.
    pub(crate) table: Option<Arc<Table>>,
    /// A function with one column: its name is the column too.
    pub(crate) scalar: bool,
    pub(crate) hidden: bool,
    pub(crate) written: Written,
}

/// How a table stands in FROM.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    /// It was given the name that it has there.
    pub(crate) alias: bool,
    /// Its columns were given names.
    pub(crate) listed: bool,
    /// The relation that it is, or 0.
    pub(crate) relation: Oid,
    /// The WITH query that it is.
    pub(crate) cte: Option<String>,
    /// It is no table: only the columns that USING made, by their alias.
    pub(crate) using: bool,
}

/// Of a text, or of what has texts in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Collation {
    /// The default one, or that of a type which has none.
    #[default]
    Default,
    /// A column's.
    Implicit(&'static str),
    /// None, for two columns' differ; the second one stands there.
    Conflict(&'static str, &'static str, Pos),
    /// COLLATE's, which stands there.
    Explicit(&'static str, Pos),
}
