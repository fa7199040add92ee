//! Texts of the types whose values are functions and operators: `regproc` and `regoper` by name,
//! `regprocedure` and `regoperator` by name and types of arguments.
//!
//! Invariants:
//! 1. What is written with types is read as the same object. A name that several have is written with its
//!    schema, as in PostgreSQL, and not read.
use super::system::SessionSystem;
use crate::error::{Result, SqlError, SqlState};
use crate::func;
use crate::func::quote_ident;
use crate::types::context::System as _;
use crate::types::{Oid, Type, oid};

const OF_SYSTEM: &str = "pg_catalog.";

fn undefined(message: String) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
}

fn ambiguous(what: &str, name: &str) -> SqlError {
    SqlError::new(SqlState::AMBIGUOUS_FUNCTION, format!("more than one {what} named {name}"))
}

/// A name of the system's, without its schema.
fn plain(name: &str) -> &str {
    let name = name.trim();
    name.strip_prefix(OF_SYSTEM).unwrap_or(name)
}

/// The only one of them.
fn only<T>(mut found: Vec<T>, several: impl FnOnce() -> SqlError) -> Result<Option<T>> {
    match found.len() {
        0 | 1 => Ok(found.pop()),
        _ => Err(several()),
    }
}

/// Name and types of arguments of a text like `abs(integer)`; `NONE` is no type.
fn signature<'t>(on: &SessionSystem<'_>, text: &'t str) -> Result<(&'t str, Vec<Oid>)> {
    let bad = |what: &str| {
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("expected a {what} parenthesis"))
    };
    let (name, rest) = text.split_once('(').ok_or_else(|| bad("left"))?;
    let list = rest.trim_end().strip_suffix(')').ok_or_else(|| bad("right"))?;
    let mut types = Vec::new();
    let mut depth = 0;
    let separates = |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    };
    for ty in list.split(separates).map(str::trim).filter(|_| !list.trim().is_empty()) {
        types.push(match ty.eq_ignore_ascii_case("none") {
            true => 0,
            false => on.reg_in(oid::REGTYPE, ty)?,
        });
    }
    Ok((name.trim(), types))
}

/// The function or operator that a text names.
pub(super) fn read(on: &SessionSystem<'_>, reg: Oid, text: &str) -> Result<Oid> {
    let (found, missing) = match reg {
        oid::REGPROC => {
            let several = || ambiguous("function", &format!("\"{text}\""));
            let found = only(func::functions(plain(text)), several)?.map(|function| function.oid);
            (found, format!("function \"{text}\" does not exist"))
        }
        oid::REGPROCEDURE => {
            let (name, types) = signature(on, text)?;
            let found = func::functions(plain(name)).into_iter().find(|function| function.arguments == types);
            (found.map(|function| function.oid), format!("function \"{text}\" does not exist"))
        }
        oid::REGOPER => {
            let several = || ambiguous("operator", text);
            let found = only(func::operators(plain(text)), several)?.map(|operator| operator.oid);
            (found, format!("operator does not exist: {text}"))
        }
        _ => {
            let (name, types) = signature(on, text)?;
            let [left, right] = types[..] else {
                return Err(if types.len() < 2 {
                    let error = SqlError::new(SqlState::UNDEFINED_PARAMETER, "missing argument");
                    error.hint("Use NONE to denote the missing argument of a unary operator.")
                } else {
                    let error = SqlError::new(SqlState::TOO_MANY_ARGUMENTS, "too many arguments");
                    error.hint("Provide two argument types for operator.")
                });
            };
            let fits =
                |operator: &&func::registry::Operator| (operator.left, operator.right) == (left, right);
            let found = func::operators(plain(name)).into_iter().find(fits).map(|operator| operator.oid);
            (found, format!("operator does not exist: {text}"))
        }
    };
    found.ok_or_else(|| undefined(missing))
}

/// As [`read`] takes it; `None`: there is none with this number.
pub(super) fn written(on: &SessionSystem<'_>, reg: Oid, number: Oid) -> Option<String> {
    let ty = |oid: Oid| match oid {
        0 => "NONE".to_string(),
        oid => on.format_type(Type::of(oid)),
    };
    let schema = |is_only: bool| if is_only { "" } else { OF_SYSTEM };
    Some(match reg {
        oid::REGPROC => {
            let name = func::function(number)?.name;
            format!("{}{}", schema(func::functions(name).len() == 1), quote_ident(name))
        }
        oid::REGPROCEDURE => {
            let function = func::function(number)?;
            let types: Vec<String> = function.arguments.iter().map(|oid| ty(*oid)).collect();
            format!("{}({})", quote_ident(function.name), types.join(","))
        }
        oid::REGOPER => {
            let name = func::operator(number)?.name;
            format!("{}{name}", schema(func::operators(name).len() == 1))
        }
        _ => {
            let operator = func::operator(number)?;
            format!("{}({},{})", operator.name, ty(operator.left), ty(operator.right))
        }
    })
}
