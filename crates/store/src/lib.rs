//! Data structures: a host's own ([`local`]), and those that the hosts of a pod share ([`bwtree`]).
//!
//! They know the memory and its allocation; they know no table and no transaction, and do not import one
//! another.

#![forbid(unsafe_code)]

pub mod bwtree;
pub mod local;

/// Protocol steps of this crate that a test can leave out (see `Cx::sabotaged`).
pub const SABOTAGE_STEPS: &[&str] = bwtree::SABOTAGE_STEPS;
