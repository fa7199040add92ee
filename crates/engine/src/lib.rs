//! Tables and transactions.
//!
//! The base types that every access method and protocol shares: keys whose bytes sort like their values
//! ([`Key`]), table descriptions and their byte layouts ([`TableSchema`], [`TableLayout`]), typed access to
//! row bytes ([`Row`], [`RowMut`], [`NewRow`]), and what a transaction can do ([`Transaction`], [`Session`]).
//! It knows no SQL.

#![forbid(unsafe_code)]

mod catalog;
mod checksum;
pub mod db;
pub mod files;
pub mod history;
pub mod host;
pub mod instance;
pub mod log;
pub mod method;
mod names;
pub mod protocol;
pub mod recovery;
pub mod row;
mod tables;
mod txn;

pub use catalog::{At, Catalog, Kind, Relation};
pub use files::{StoredAt, StoredFile};
pub use protocol::Loader;
pub use tables::column::{
    BigInt, Bool, Bytes, Col, ColType, ColumnType, Decimal, Int, Null, SmallInt, Text, Timestamp,
};
pub use tables::column::{column_offset, presence_bit, row_len};
pub use tables::key::{Key, KeyBuilder, KeyRange, MAX_KEY_WORDS};
pub use tables::layout::{ColumnAt, IndexLayout, KeyLayout, Partitioning, TableLayout};
pub use tables::record::{NewRow, PatchRange, Patches, Row, RowMut, change_row};
pub use tables::schema::{Column, IndexColumn, IndexSchema, SchemaError, TableSchema};
pub use txn::{
    Access, Announced, Conflict, Durability, IndexId, MethodId, OF_CHANGES, SHARED_MEMORY, Session, TableId,
    Ticket, Transaction, TxnError,
};
