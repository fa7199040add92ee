//! Collations of expressions, derived as PostgreSQL derives them. All of them sort texts by their bytes, so
//! what is left of them is where one cannot be found.
//!
//! Invariant: what COLLATE says wins over what a column says, and that over the default. Of two that differ
//! and are equally strong, COLLATE's are an error at once, and columns' leave none to compare by.

use super::{Binder, Typed};
use crate::error::{Result, SqlError, SqlState};
use crate::func::Function;
use crate::parse::Pos;
pub(crate) use crate::tree::Collation;
use crate::types::{Oid, TypeKind};

/// What there is to be named.
const KNOWN: &[&str] = &["default", "C", "POSIX", "ucs_basic", "C.utf8", "C.UTF-8"];

impl Collation {
    /// The collation of that name, if there is one.
    pub(crate) fn named(name: &str) -> Option<&'static str> {
        KNOWN.iter().find(|known| **known == name).copied()
    }

    /// That of a column for which this was said.
    pub(crate) fn of_column(said: Option<&str>) -> Collation {
        match said.and_then(Collation::named) {
            None | Some("default") => Collation::Default,
            Some(name) => Collation::Implicit(name),
        }
    }

    /// What a query's column has to those who read it.
    pub(crate) fn read(self) -> Collation {
        match self {
            Collation::Explicit(name, _) => Collation::of_column(Some(name)),
            other => other,
        }
    }

    /// The name, where it is not the default one.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Collation::Implicit(name) | Collation::Explicit(name, _) => Some(name),
            _ => None,
        }
    }

    /// Of this and another one, whose expression stands at `pos`.
    ///
    /// # Errors
    /// 42P21 where COLLATE says both, and two different ones.
    pub(crate) fn and(self, other: Collation, pos: Pos) -> Result<Collation> {
        use Collation::{Conflict, Default, Explicit, Implicit};
        Ok(match (self, other) {
            (Explicit(one, _), Explicit(two, at)) if one != two => {
                return Err(mismatch("explicit", one, two, at));
            }
            (Explicit(..), _) | (_, Default) => self,
            (Default, _) | (_, Explicit(..)) => other,
            (Implicit(one), Implicit(two)) if one != two => Conflict(one, two, pos),
            (Implicit(_), Conflict(..)) => other,
            _ => self,
        })
    }

    /// Of all of them.
    ///
    /// # Errors
    /// As [`Collation::and`].
    pub(crate) fn of(list: &[Typed]) -> Result<Collation> {
        list.iter().try_fold(Collation::Default, |all, typed| all.and(typed.collation, typed.pos))
    }

    /// Refuses none where rows are to be sorted or told apart: 42P21.
    pub(crate) fn must_be_one(self) -> Result<()> {
        match self {
            Collation::Conflict(one, two, at) => Err(mismatch("implicit", one, two, at)),
            _ => Ok(()),
        }
    }

    /// Refuses none for a function that looks at it: 42P22.
    pub(crate) fn must_do_for(self, function: &Function) -> Result<()> {
        match (self, looked_at_for(function.name)) {
            (Collation::Conflict(..), Some(what)) => Err(undetermined(&what)),
            _ => Ok(()),
        }
    }
}

impl Binder<'_> {
    /// That of a value of the type made of what has this one.
    pub(crate) fn made(&self, ty: Oid, collation: Collation) -> Collation {
        let of = |ty: Oid| self.types().type_info(ty).map(|info| (info.collation, info.kind, info.base));
        match of(ty) {
            Some((_, TypeKind::Domain, base)) => self.made(base, collation),
            Some((0, ..)) | None => Collation::Default,
            Some(_) => collation,
        }
    }
}

/// What a function compares by it, as PostgreSQL calls that.
fn looked_at_for(function: &str) -> Option<String> {
    let of_texts = function.strip_prefix("text").or_else(|| function.strip_prefix("bpchar"));
    Some(match (function, of_texts) {
        ("max" | "min", _) => "string comparison".to_string(),
        ("lower" | "upper" | "initcap", _) => format!("{function}() function"),
        (_, Some(rest)) => match rest.trim_start_matches('_') {
            "eq" | "ne" | "lt" | "le" | "gt" | "ge" | "larger" | "smaller" => "string comparison".to_string(),
            "iclike" | "icnlike" => "ILIKE".to_string(),
            "regexeq" | "regexne" | "icregexeq" | "icregexne" => "regular expression".to_string(),
            _ => return None,
        },
        _ => return None,
    })
}

fn mismatch(kind: &str, one: &str, two: &str, at: Pos) -> SqlError {
    let message = format!("collation mismatch between {kind} collations \"{one}\" and \"{two}\"");
    let error = SqlError::new(SqlState::COLLATION_MISMATCH, message).at(at + 1);
    match kind {
        "implicit" => error
            .hint("You can choose the collation by applying the COLLATE clause to one or both expressions."),
        _ => error,
    }
}

const SAY_IT: &str = "Use the COLLATE clause to set the collation explicitly.";

/// There is none for comparing or hashing.
pub(crate) fn undetermined(what: &str) -> SqlError {
    let message = format!("could not determine which collation to use for {what}");
    SqlError::new(SqlState::INDETERMINATE_COLLATION, message).hint(SAY_IT)
}

/// There is none for a column that is to be kept.
pub(crate) fn not_derived(column: &str, ty: &str) -> SqlError {
    let message = format!("no collation was derived for column \"{column}\" with collatable type {ty}");
    SqlError::new(SqlState::INDETERMINATE_COLLATION, message).hint(SAY_IT)
}
