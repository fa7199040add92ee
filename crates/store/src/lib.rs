//! Data structures: a host's own ([`local`]).
//!
//! They know no transaction, and do not import one another.

#![forbid(unsafe_code)]

pub mod local;
