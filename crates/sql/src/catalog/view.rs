//! The catalog as a transaction sees it: what binding and planning need of whoever has it.
//!
//! The calls see what the transaction has changed.

use std::sync::Arc;

use super::object::{Index, Object, Table};
use crate::types::Oid;

/// Objects by number and by name.
pub trait CatalogView {
    /// The object with this number.
    fn object(&self, oid: Oid) -> Option<Arc<Object>>;

    /// The table, view, sequence or index of this name in this schema.
    fn relation(&self, schema: Oid, name: &str) -> Option<Arc<Object>>;

    /// The type of this name in this schema.
    fn type_named(&self, schema: Oid, name: &str) -> Option<Arc<Object>>;

    /// The schema of this name.
    fn schema(&self, name: &str) -> Option<Oid>;

    /// The role of this name.
    fn role(&self, name: &str) -> Option<Oid>;

    /// All objects in the order of their numbers.
    fn objects(&self) -> Vec<Arc<Object>>;

    /// The indexes of a table.
    fn indexes(&self, table: Oid) -> Vec<Arc<Index>>;

    /// Tables with foreign keys to this table.
    fn referencing(&self, table: Oid) -> Vec<Arc<Table>>;

    /// Counts the catalog's changes: plans made at another number are made again.
    fn version(&self) -> u64;

    /// Whether scans of this index come in its order.
    fn ordered(&self, _index: &Index) -> bool {
        true
    }
}
