//! The door for protocols of transactions: what one needs to be an engine beside this crate's own.
//!
//! * [`Relational`]: what a protocol says of one row and of the rows of one partition; with it, a transaction
//!   is a [`crate::Transaction`], with secondary indexes, announcements and copies of replicated tables;
//! * [`TxnCore`]: what every transaction holds beside its locks: its [`Workspace`], which is what it has
//!   changed and nobody sees yet, its history, the [`Replicas`] that it reads, and whether it is over;
//! * [`Listed`]: rows that it holds, in order and by name; [`Visitor`]: who looks at rows;
//! * [`Requester`], [`Out`], [`In`], [`Outbox`]: messages between hosts;
//! * [`each_key`], [`InDram`]: rows in a host's own memory.
//!
//! An engine is a [`HostEngine`]; [`crate::db::Pod::join_engine`] makes it a member with
//! workers. Users: this crate's row engine, and the crate `liger-rivals`.
//!
//! Not here: what a protocol may assume of memory (liger-fabric), of members and mail (liger-pod).

pub(crate) mod core;
pub(crate) mod engine;
pub(crate) mod failure;
pub(crate) mod index_map;
pub(crate) mod load;
pub(crate) mod mail;
pub(crate) mod relational;
pub(crate) mod replicas;
pub(crate) mod workspace;

pub use core::TxnCore;
pub use engine::{Emit, HostEngine, Rival, Show};
pub use failure::tree_error;
pub use index_map::{Listed, Named};
pub use load::Loader;
pub use mail::{In, Out, Outbox, Requester};
pub use relational::{Flow, InDram, Relational, each_key};
pub use replicas::Replicas;
pub use workspace::{Change, Visitor, Workspace};
