//! Queries within expressions, and which comparisons hashes decide.

use super::{Expr, Head, Query};
use crate::func::registry;
use crate::types::{Oid, oid};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SubqueryKind {
    Exists,
    /// This column of the only row.
    Scalar(usize),
    Array(Oid),
    /// `(left..) op ANY/ALL (query)`.
    Any {
        left: Vec<Expr>,
        heads: Vec<Head>,
        all: bool,
        negated: bool,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Subquery {
    pub(crate) kind: SubqueryKind,
    pub(crate) query: Query,
    /// Number of its cached result where it does not look outside; set when it is planned.
    pub(crate) cache: Option<usize>,
    /// Where it does, and gives the same each time for the same values; set when it is planned.
    pub(crate) memo: Option<Memo>,
}

/// The results of a query that looks at rows around it, kept by the values that it looks at.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Memo {
    pub(crate) cache: usize,
    /// The values, as whoever asks sees them.
    pub(crate) by: Vec<Expr>,
}

impl Subquery {
    /// Whether its result is one list of rows that is searched by hashes: IN of a query that is run once.
    pub(crate) fn is_hashed(&self) -> bool {
        let SubqueryKind::Any { heads, all, .. } = &self.kind else { return false };
        let decides = |head: &Head| match all {
            false => head.is_hashed(),
            true => head.denied().is_some_and(|head| head.is_hashed()),
        };
        self.cache.is_some() && heads.iter().all(decides)
    }
}

/// Whether values of these two types that are equal hash alike.
fn hash_alike(left: Oid, right: Oid) -> bool {
    let among = |types: &[Oid]| types.contains(&left) && types.contains(&right);
    let same = left == right && !matches!(left, oid::RECORD | oid::RECORD_ARRAY);
    same || among(&[oid::INT2, oid::INT4, oid::INT8])
        || among(&[oid::FLOAT4, oid::FLOAT8])
        || among(&[oid::TEXT, oid::VARCHAR, oid::NAME])
}

impl Head {
    /// Whether it is an equality that hashes decide.
    pub(crate) fn is_hashed(&self) -> bool {
        self.operator.is_some_and(|operator| operator.name == "=" && operator.hashes)
            && hash_alike(self.types[0], self.types[1])
    }

    /// The equality that a comparison by `<>` denies.
    pub(crate) fn denied(&self) -> Option<Head> {
        let operator = self.operator.filter(|operator| operator.name == "<>")?;
        let equality = registry::operator(operator.negator)?;
        let function = registry::function(equality.function)?;
        Some(Head { function, operator: Some(equality), ..self.clone() })
    }
}
