//! Tables and transactions.
//!
//! The base types that every access method and protocol shares: keys whose bytes sort like their values
//! ([`Key`]), table descriptions and their byte layouts ([`TableSchema`], [`TableLayout`]), typed access to
//! row bytes ([`Row`], [`RowMut`], [`NewRow`]), and what a transaction can do ([`Transaction`], [`Session`]).
//! It knows no SQL.

#![forbid(unsafe_code)]

mod catalog;
mod column;
mod core;
pub mod db;
pub mod engine;
pub mod history;
pub mod instance;
mod key;
mod layout;
mod load;
pub mod log;
mod macros;
mod mail;
mod places;
pub mod protocol;
mod record;
pub mod recovery;
mod relational;
mod replicas;
pub mod row;
mod schema;
mod txn;
mod workspace;

pub use catalog::{At, Catalog, Kind, Relation};
pub use column::{
    BigInt, Bool, Bytes, Col, ColType, ColumnType, Decimal, Int, Null, SmallInt, Text, Timestamp,
};
pub use column::{column_offset, presence_bit, row_len};
pub use key::{Key, KeyBuilder, KeyRange, MAX_KEY_WORDS};
pub use layout::{ColumnAt, IndexLayout, KeyLayout, Partitioning, TableLayout};
pub use load::Loader;
pub use record::{NewRow, PatchRange, Patches, Row, RowMut, change_row};
pub use schema::{Column, IndexColumn, IndexSchema, SchemaError, TableSchema};
pub use txn::{
    Access, Announced, Conflict, IndexId, Session, StoredAt, StoredFile, TableId, Ticket, Transaction,
    TxnError,
};
