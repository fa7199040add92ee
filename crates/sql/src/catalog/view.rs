//! The catalog as a transaction sees it: what binding and planning need of whoever has it.
//!
//! The calls see what the transaction has changed.

use std::sync::Arc;

use super::object::{Index, Object, Table};
use super::statistics::TableStatistics;
use crate::types::Oid;

/// What a host can tell of a table's rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Present {
    /// Rows of the pod.
    pub rows: f64,
    /// Bytes of them, if they were counted.
    pub bytes: Option<f64>,
    /// The share of the places that other hosts have.
    pub foreign: f64,
}

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

    /// The object that has a part with this number: a constraint, a type of rows or arrays.
    fn holder(&self, part: Oid) -> Option<Arc<Object>> {
        self.objects().into_iter().find(|object| object.parts().contains(&part))
    }

    /// The sequences that columns of a table own.
    fn sequences_of(&self, table: Oid) -> Vec<Arc<Object>> {
        let owns = |object: &Arc<Object>| match &**object {
            Object::Sequence(sequence) => sequence.owned_by.is_some_and(|(owner, _)| owner == table),
            _ => false,
        };
        self.objects().into_iter().filter(owns).collect()
    }

    /// The indexes of a table.
    fn indexes(&self, table: Oid) -> Vec<Arc<Index>>;

    /// Tables with foreign keys to this table.
    fn referencing(&self, table: Oid) -> Vec<Arc<Table>>;

    /// Counts the catalog's changes: plans made at another number are made again.
    fn version(&self) -> u64;

    /// What is known of a table's rows; `None`: nobody has looked at them yet.
    fn statistics(&self, _table: Oid) -> Option<Arc<TableStatistics>> {
        None
    }

    /// How many rows a table has at present, and the share of them that other hosts have, as far as this host
    /// can tell; `counts`: by counting its rows, if nobody has before.
    fn present(&self, _table: Oid, _counts: bool) -> Option<Present> {
        None
    }

    /// Whether scans of this index come in its order.
    fn ordered(&self, _index: &Index) -> bool {
        true
    }
}
