//! The tables of a pod, as the engine sees them: every table and every secondary index is a *relation* with
//! an id.
//!
//! Invariants:
//! 1. Ids follow from the order in which tables are declared: a table, then its indexes, then the next table.
//!    All hosts of a pod declare the same tables; a hash of what they are (identity.rs) is part of the pod's
//!    configuration.
//! 2. An index relation's row is the primary key of the table's row.

mod identity;

use crate::tables::key::{Key, KeyRange};
use crate::tables::layout::{IndexLayout, KeyLayout, Partitioning, TableLayout};
use crate::tables::schema::{SchemaError, TableSchema};
use crate::txn::{IndexId, MethodId, TableId, TxnError};
use liger_pod::plan::PartitionId;

/// What a relation is.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A table and the ids of its indexes, in the layout's order.
    Table {
        /// Its bytes.
        layout: TableLayout,
        /// Its indexes.
        indexes: Vec<IndexId>,
    },
    /// A secondary index.
    Index {
        /// The table it belongs to.
        of: TableId,
        /// Its bytes.
        layout: IndexLayout,
    },
}

/// A table or a secondary index.
#[derive(Clone, Debug)]
pub struct Relation {
    /// Its id.
    pub id: TableId,
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Words of a key.
    pub key_words: usize,
    /// Bytes of a row.
    pub row_len: usize,
    /// True if every host has a copy that is read without locks.
    pub replicated: bool,
    /// What keeps its rows, unless it is replicated.
    pub method: MethodId,
    partitioning: Partitioning,
}

impl Relation {
    /// The partition of a key, of `partitions`.
    #[inline]
    pub fn partition_of(&self, key: &Key, partitions: u16) -> PartitionId {
        let partition = self.partitioning.partition_of(key, partitions);
        debug_assert!(partition.0 < partitions, "{} has no partition {partition}", self.name);
        partition
    }

    /// Where the row of a key is, if the relation has partitions.
    #[inline]
    pub fn at(&self, key: &Key, partitions: u16) -> At<'_> {
        debug_assert_eq!(key.width(), self.key_words, "a key of {}", self.name);
        At::new(self, self.partition_of(key, partitions))
    }

    /// Where the whole range is, if one partition holds it.
    pub fn at_range(&self, range: &KeyRange, partitions: u16) -> Option<At<'_>> {
        self.partitioning.is_constant_in(range).then(|| self.at(&range.low, partitions))
    }

    /// True if it has partitions, and this method keeps them.
    #[inline]
    pub fn is_kept_by(&self, method: MethodId) -> bool {
        !self.replicated && self.method == method
    }

    /// How its keys are built from the table's rows.
    fn key_layout(&self) -> &KeyLayout {
        match &self.kind {
            Kind::Table { layout, .. } => &layout.primary,
            Kind::Index { layout, .. } => &layout.key,
        }
    }

    /// The table's layout.
    ///
    /// # Errors
    /// If this is an index.
    #[inline]
    pub fn table(&self) -> Result<(&TableLayout, &[IndexId]), TxnError> {
        match &self.kind {
            Kind::Table { layout, indexes } => Ok((layout, indexes)),
            Kind::Index { .. } => Err(TxnError::NoSuchTable { table: self.id }),
        }
    }

    /// Checks the width of a key of this relation.
    #[inline]
    pub fn check_key(&self, key: &Key) -> Result<(), TxnError> {
        if key.width() == self.key_words {
            return Ok(());
        }
        let (expected_bytes, found_bytes) = (8 * self.key_words as u32, 8 * key.width() as u32);
        Err(TxnError::WrongSize { table: self.id, expected_bytes, found_bytes })
    }
}

/// Where a row is as far as its key says it: a relation, and one of its partitions.
#[derive(Clone, Copy, Debug)]
pub struct At<'r> {
    /// The table or index.
    pub relation: &'r Relation,
    /// The partition.
    pub partition: PartitionId,
}

impl<'r> At<'r> {
    /// This partition of a relation that has partitions.
    #[inline]
    pub fn new(relation: &'r Relation, partition: PartitionId) -> Self {
        debug_assert!(!relation.replicated, "{} has no partitions", relation.name);
        Self { relation, partition }
    }

    /// The relation's id.
    #[inline]
    pub fn table(self) -> TableId {
        self.relation.id
    }

    /// Both by their numbers.
    #[inline]
    pub fn ids(self) -> (PartitionId, TableId) {
        (self.partition, self.relation.id)
    }
}

/// All relations of a pod.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    relations: Vec<Relation>,
}

impl Catalog {
    /// The catalog of these tables.
    pub fn new(schemas: &[TableSchema]) -> Result<Self, SchemaError> {
        let mut relations = Vec::new();
        for schema in schemas {
            let layout = schema.layout()?;
            let of = TableId(relations.len() as u16);
            let index_id = |n: usize| IndexId(TableId(of.0 + 1 + n as u16));
            let indexes = (0..layout.indexes.len()).map(index_id).collect();
            let index_layouts = layout.indexes.clone();
            relations.push(Relation {
                id: of,
                name: schema.name.clone(),
                key_words: layout.primary.words(),
                row_len: layout.row_len,
                replicated: schema.replicated,
                method: MethodId::ROWS,
                partitioning: layout.partitioning.clone(),
                kind: Kind::Table { layout, indexes },
            });
            for (n, (layout, index)) in index_layouts.into_iter().zip(&schema.indexes).enumerate() {
                relations.push(Relation {
                    id: index_id(n).0,
                    name: index.name.clone(),
                    key_words: layout.key.words(),
                    row_len: layout.row_len,
                    replicated: schema.replicated,
                    method: MethodId::ROWS,
                    partitioning: layout.partitioning.clone(),
                    kind: Kind::Index { of, layout },
                });
            }
        }
        assert!(u16::try_from(relations.len()).is_ok(), "{} relations: an id has 16 bits", relations.len());
        let is_in_place = |(at, relation): (usize, &Relation)| relation.id.index() == at;
        assert!(relations.iter().enumerate().all(is_in_place), "ids follow from the order of declaration");
        let catalog = Self { relations };
        catalog.check_indexes();
        Ok(catalog)
    }

    /// Makes sure that tables and indexes know one another.
    fn check_indexes(&self) {
        for relation in &self.relations {
            let Kind::Index { of, layout } = &relation.kind else { continue };
            let table = &self.relations[of.index()];
            let its = table.table().map_or(&[][..], |(_, indexes)| indexes);
            assert!(its.contains(&IndexId(relation.id)), "{}: an index of its table", relation.name);
            let (name, key_bytes) = (&relation.name, 8 * table.key_words);
            assert_eq!(relation.row_len, key_bytes, "{name}: an entry is the primary key of a row");
            assert_eq!(relation.key_words, layout.key.words(), "{name}: keys of one width");
            assert_eq!(relation.replicated, table.replicated, "{name}: an index is where its table is");
        }
    }

    /// Has a relation that has partitions kept by another access method than rows.
    ///
    /// # Errors
    /// If there is no such relation, or every host has a copy of it.
    pub fn kept_by(mut self, relation: TableId, method: MethodId) -> Result<Self, TxnError> {
        match self.relations.get_mut(relation.index()) {
            None => Err(TxnError::NoSuchTable { table: relation }),
            Some(kept) if kept.replicated => Err(TxnError::ReadOnly { table: relation }),
            Some(kept) => {
                kept.method = method;
                Ok(self)
            }
        }
    }

    /// The relation with this id.
    #[inline]
    pub fn relation(&self, id: TableId) -> Result<&Relation, TxnError> {
        let relation = self.relations.get(usize::from(id.0)).ok_or(TxnError::NoSuchTable { table: id })?;
        debug_assert_eq!(relation.id, id, "a relation is found by its id");
        Ok(relation)
    }

    /// All relations, by id.
    pub fn relations(&self) -> &[Relation] {
        &self.relations
    }

    /// The table with this name.
    pub fn table_named(&self, name: &str) -> Option<TableId> {
        let is_it = |r: &&Relation| r.name == name && matches!(r.kind, Kind::Table { .. });
        self.relations.iter().find(is_it).map(|r| r.id)
    }

    /// The index with this name.
    pub fn index_named(&self, name: &str) -> Option<IndexId> {
        let is_it = |r: &&Relation| r.name == name && matches!(r.kind, Kind::Index { .. });
        self.relations.iter().find(is_it).map(|r| IndexId(r.id))
    }
}
