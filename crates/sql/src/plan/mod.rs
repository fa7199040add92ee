//! Plans: in which order tables are read, by which indexes, and how they are joined.
//!
//! A plan is made once for a prepared statement: parameters stand in it as expressions, and whatever is
//! looked up by a parameter or by a column of a table read before is evaluated when the plan runs.
//!
//! 1. Every predicate stays in the plan: an access by index only narrows what is read.
//! 2. Join order changes nothing about slots: each table writes its own range of the level's row.

mod access;
mod arrange;
pub(crate) mod constants;
pub(crate) mod cost;
mod factor;
mod join;
mod keyed;
pub(crate) mod known;
mod order;
mod prepare;
mod reading;
mod selectivity;
mod steady;
mod system;

pub(crate) use crate::tree::plan::{Estimate, HashJoin, HashKey, HashKind, KeyPart, Keyed, Node, Path, Scan};
pub(crate) use known::Estimator;

pub(crate) use prepare::{PlannedStatement, Planner, relations_of};
pub(crate) use steady::calls_volatile;
