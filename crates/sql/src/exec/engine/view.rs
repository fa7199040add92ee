//! The catalog as a session over the engine sees it: its transaction's, and the session's own objects.

use std::sync::Arc;

use super::EngineStore;
use crate::catalog::object::{Index, Object, Table};
use crate::catalog::statistics::TableStatistics;
use crate::catalog::view::{CatalogView, Present};
use crate::types::Oid;

impl CatalogView for EngineStore {
    fn object(&self, oid: Oid) -> Option<Arc<Object>> {
        let catalog = self.catalog();
        catalog.get(oid).or_else(|| catalog.element_of(oid)).cloned()
    }

    fn relation(&self, schema: Oid, name: &str) -> Option<Arc<Object>> {
        let catalog = self.catalog();
        catalog.get(catalog.relation(schema, name)?.oid()).cloned()
    }

    fn type_named(&self, schema: Oid, name: &str) -> Option<Arc<Object>> {
        let catalog = self.catalog();
        catalog.get(catalog.user_type(schema, name)?.oid).cloned()
    }

    fn schema(&self, name: &str) -> Option<Oid> {
        let name = if self.names_own(name) { &self.own_name } else { name };
        self.catalog().schema(name).map(|schema| schema.oid)
    }

    fn role(&self, name: &str) -> Option<Oid> {
        self.catalog().role(name).map(|role| role.oid)
    }

    fn objects(&self) -> Vec<Arc<Object>> {
        self.catalog().objects().cloned().collect()
    }

    fn holder(&self, part: Oid) -> Option<Arc<Object>> {
        self.catalog().holder(part).cloned()
    }

    fn sequences_of(&self, table: Oid) -> Vec<Arc<Object>> {
        self.catalog().sequences_of(table).cloned().collect()
    }

    fn indexes(&self, table: Oid) -> Vec<Arc<Index>> {
        self.catalog().indexes_of(table).map(|index| Arc::new(index.clone())).collect()
    }

    fn referencing(&self, table: Oid) -> Vec<Arc<Table>> {
        self.catalog().referencing(table).map(|child| Arc::new(child.clone())).collect()
    }

    fn version(&self) -> u64 {
        // Within a transaction that changes it, the catalog's own version is the same for all changes.
        let (changes, own) = (self.changes.get() & 0xffff, self.own_version.get() & 0xffff);
        (self.catalog.borrow().version() << 32) + (own << 16) + changes
    }

    fn statistics(&self, table: Oid) -> Option<Arc<TableStatistics>> {
        self.statistics_of(table)
    }

    fn present(&self, table: Oid, counts: bool) -> Option<Present> {
        self.present_of(table, counts)
    }

    fn ordered(&self, index: &Index) -> bool {
        let of_entries = index.rows.is_some().then_some(index.oid);
        self.catalog().rows(index.table).and_then(|rows| rows.is_exact(of_entries)).unwrap_or(false)
    }
}
