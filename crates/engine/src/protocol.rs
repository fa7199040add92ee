//! The door for protocols of transactions: what one needs to be an engine beside this crate's own.
//!
//! * [`Relational`]: what a protocol says of one row and of the rows of one partition; with it, a transaction
//!   is a [`crate::Transaction`], with secondary indexes, announcements and copies of replicated tables;
//! * [`Workspace`]: what a transaction has changed and nobody sees yet; [`Visitor`]: who looks at rows;
//! * [`Places`]: where things are in the lists of a transaction;
//! * [`Asker`], [`Out`], [`In`], [`Outbox`]: messages between hosts;
//! * [`each_of`], [`each_key`], [`InDram`]: loading, and rows in a host's own memory.
//!
//! An engine is a [`crate::engine::HostEngine`]; [`crate::db::Pod::join_engine`] makes it a member with
//! workers. Users: this crate's row engine, and the crate `liger-rivals`.
//!
//! Not here: what a protocol may assume of memory (liger-fabric), of members and mail (liger-pod).

pub use crate::mail::{Asker, In, Out, Outbox};
pub use crate::places::Places;
pub use crate::relational::{InDram, Relational, each_key, each_of};
pub use crate::row::tree_error;
pub use crate::workspace::{Change, Changes, Visitor, Workspace};
