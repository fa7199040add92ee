//! Structures in one host's own DRAM, each used by one thread at a time (behind its partition's latch).
//!
//! [`LocalTree`] finds a row's number by its key, [`RowSlab`] holds the rows and their lock metadata. Nothing
//! here is shared memory: no other host can see it, and a host's crash loses it.

mod node;
mod points;
mod slab;
mod tree;

pub use slab::{Holders, RowFlags, RowSlab};
pub use tree::{Cursor, LocalTree, Neighbors};
