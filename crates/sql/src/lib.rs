//! SQL over the engine: PostgreSQL's types, functions and operators.
//!
//! `types` holds values and what a type can do with them (text and binary form, order, modifiers); `func` the
//! functions, operators, casts and aggregates with PostgreSQL's names, oids and rules of overload
//! resolution; `storage` keeps rows in the engine, `catalog` knows the SQL objects that they are of; `error`
//! the one error type with its SQLSTATE. Nothing here knows a socket, and nothing reads a clock or draws a
//! random number but through [`types::context::System`].

#![forbid(unsafe_code)]

mod bind;
pub mod catalog;
pub mod copy;
pub mod encoding;
pub mod error;
pub mod exec;
pub mod func;
mod interrupt;
mod missing;
pub mod observe;
pub mod panics;
mod parse;
mod plan;
mod progress;
mod regex;
pub mod session;
pub mod slots;
mod stop;
pub mod storage;
pub mod temporary;
mod tree;
pub mod types;

pub use error::{Result, Severity, SqlError, SqlState};
pub use types::context::{EvalContext, Settings, System};
pub use types::value::Value;
pub use types::{Oid, Type};
