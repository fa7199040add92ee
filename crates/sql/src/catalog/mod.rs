//! The catalog: what objects there are.

pub mod object;
