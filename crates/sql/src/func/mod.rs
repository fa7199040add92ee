//! Functions, operators, casts and aggregates: what there is, and which one an expression means.
//!
//! Names, oids and signatures come from PostgreSQL's catalog (`data/*.tsv`, made by `data/make.sh`); a row of
//! it names the C function that implements it, and `bodies` gives the Rust function for that name. So a
//! signature is never written twice, and several signatures share a body as they do in PostgreSQL.
//!
//! Invariants:
//! 1. A strict function is never called with NULL: callers (see [`Function::call`]) answer NULL instead.
//! 2. Nothing here reads a clock, a random number or the catalog but through
//!    [`System`](crate::types::context::System).
//! 3. Order of rows, functions and candidates never depends on addresses or hash seeds.

mod bodies;
mod call;
pub mod cast;
mod polymorphic;
pub mod registry;
pub mod resolve;
pub mod window;

pub use bodies::arrays::{slice as array_slice, subscript as array_subscript};
pub use bodies::convert::extreme;
pub use bodies::like::like;
pub use bodies::parts::{in_document, with_element, with_slice};
pub use bodies::strings::{quote_ident, quote_literal};
pub(crate) use bodies::told::told_rows;
pub use polymorphic::is_polymorphic;
pub use registry::{
    Accumulator, AggregateFn, Body, Cast, CastContext, CastMethod, Function, FunctionKind, Operator,
    ScalarFn, SetFn, Volatility, WindowFunction, cast, casts, function, functions, operator, operators,
};
pub use resolve::{
    CastPath, FunctionCall, OperatorCall, Slot, find_cast, is_callable, resolve_function, resolve_operator,
    select_common_type,
};
