//! SQL objects as rows of the engine.

pub mod classes;
