//! Data structures of a pod. They know the memory and its allocation; they know no table and no transaction.
//!
//! * [`bwtree`]: the index of shared tuples, one sync word per node.

#![forbid(unsafe_code)]

pub mod bwtree;

/// Protocol steps of this crate that a test can leave out (see `Cx::sabotaged`).
pub const SABOTAGE_STEPS: &[&str] = bwtree::SABOTAGE_STEPS;
