//! Classes: the fixed family of engine tables in whose rows all SQL objects live.
//!
//! The engine's tables are fixed when a pod is formatted; SQL tables come and go in transactions. So a SQL
//! table, an index and the SQL catalog are rows of one of these tables each, chosen by how wide its keys are
//! and how long its rows.
//!
//! ```text
//! key   word 0: object u32 | place u16 | edge u16        words 1..W: the key's bytes (key.rs)
//! row   the key's columns, 8 * W bytes | body, B bytes (row.rs)
//! ```
//!
//! Invariants:
//! 1. All rows of an object in one place are a range of keys of their own: from its number and the place up
//!    to its *edge*, a row that is put there when the object is made and has edge 1. A scan to the end of an
//!    object so locks its own edge and never a row of another object.
//! 2. The place is the engine's partition: `place` counts partitions from 0.
//! 3. A class is known by its size ([`ClassSize`]), which is what descriptions of objects hold; the engine's
//!    number of the table is looked up when a pod is opened.
//!
//! It does NOT know what keys and bodies mean.

use liger_engine::{Catalog, ColumnType, Key, KeyBuilder, KeyRange, TableId, TableSchema};
use serde::{Deserialize, Serialize};

use crate::error::{Result, SqlError, SqlState};

/// Widths of keys, in words; the first word is the object's and the place's.
pub const WIDTHS: [u8; 5] = [2, 3, 4, 6, 8];
/// Bytes of bodies: steps of a fifth to a third, so that at most that much of a row is empty; beyond a page
/// of PostgreSQL, for tables of very many columns, of a half. Every class costs a root of a shared index in
/// every partition, and some 50 KiB of memory of the host that has it.
pub const BODIES: [u16; 29] = [
    16, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1024, 1280, 1536, 2048,
    2560, 3072, 4096, 5120, 6144, 8192, 16384, 32752,
];
/// Those of pods that were made before there were so many.
const COARSE_BODIES: [u16; 16] =
    [16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192];
/// The most bytes of a key behind the first word.
pub const KEY_MAX: usize = 8 * (WIDTHS[WIDTHS.len() - 1] as usize - 1);

/// Which classes a pod was made with: it keeps them for as long as it lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Sixteen bodies, up to 8 KiB: what pods have that do not say.
    #[default]
    Coarse,
    /// [`BODIES`]: what new pods get.
    Fine,
}

impl Family {
    fn bodies(self) -> &'static [u16] {
        match self {
            Family::Coarse => &COARSE_BODIES,
            Family::Fine => &BODIES,
        }
    }
}

/// Number of an object: a table, an index, a sequence, a part of the catalog. It is also the object's oid.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ObjectId(pub u32);

/// What a class is known by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ClassSize {
    /// Words of a key, the first included.
    pub words: u8,
    /// Bytes of a body.
    pub body: u16,
}

impl ClassSize {
    /// Bytes of a key behind the first word.
    pub const fn key_bytes(self) -> usize {
        8 * (self.words as usize - 1)
    }

    /// Where the body begins in a row.
    pub const fn body_at(self) -> usize {
        8 * self.words as usize
    }

    fn name(self) -> String {
        format!("sql_k{}_r{}", self.words, self.body)
    }

    /// The engine's table.
    fn schema(self) -> TableSchema {
        let head = TableSchema::new(&self.name())
            .column("object", ColumnType::Int)
            .column("place", ColumnType::SmallInt)
            .column("edge", ColumnType::SmallInt);
        let words = 1..usize::from(self.words);
        let keyed = words.clone().fold(head, |s, n| s.column(&format!("word{n}"), ColumnType::BigInt));
        // Its length prefix is part of the body: the engine reads nothing of it.
        let whole = keyed.column("body", ColumnType::Bytes { max: self.body - 2 });
        let key: Vec<usize> = (0..2 + words.end).collect();
        whole.primary_key(&key).partition_by(&[1])
    }
}

/// Where rows are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RowsAt {
    /// The object whose rows they are: the table's or index's oid, or another number after a TRUNCATE
    /// (PostgreSQL's `relfilenode`).
    pub object: ObjectId,
    /// Their class.
    pub size: ClassSize,
}

/// The classes of a pod, and the engine's numbers for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes {
    /// By size.
    classes: Vec<(ClassSize, TableId)>,
}

impl Classes {
    /// The engine's tables that a new pod with SQL has.
    pub fn schemas() -> Vec<TableSchema> {
        Self::schemas_of_family(Family::Fine)
    }

    /// The engine's tables of a pod that was made with these classes.
    pub fn schemas_of_family(family: Family) -> Vec<TableSchema> {
        Self::schemas_of(&Self::sizes_of(family).collect::<Vec<_>>())
    }

    /// The engine's tables of these classes only: for small pods of tests.
    pub fn schemas_of(sizes: &[ClassSize]) -> Vec<TableSchema> {
        sizes.iter().map(|size| size.schema()).collect()
    }

    /// All sizes that there are.
    pub fn all_sizes() -> impl Iterator<Item = ClassSize> {
        Self::sizes_of(Family::Fine)
    }

    fn sizes_of(family: Family) -> impl Iterator<Item = ClassSize> {
        let size = |words, body: &u16| ClassSize { words, body: *body };
        WIDTHS.into_iter().flat_map(move |words| family.bodies().iter().map(move |body| size(words, body)))
    }

    /// The greatest body.
    pub fn body_max(&self) -> usize {
        self.classes.iter().map(|class| usize::from(class.0.body)).max().unwrap_or(0)
    }

    /// The classes that a pod has; empty if it was made without SQL.
    pub fn of(catalog: &Catalog) -> Self {
        let find = |size: ClassSize| Some((size, catalog.table_named(&size.name())?));
        Self { classes: Self::all_sizes().filter_map(find).collect() }
    }

    /// The smallest class for keys of `key_bytes` bytes, or as many as there can be, and bodies of
    /// `body_bytes` bytes; `None` if bodies are longer than any.
    pub fn choose(&self, key_bytes: usize, body_bytes: usize) -> Option<ClassSize> {
        let widest = self.classes.iter().map(|c| c.0.key_bytes()).max()?;
        let key_bytes = key_bytes.min(widest);
        let fits = |size: &ClassSize| size.key_bytes() >= key_bytes && usize::from(size.body) >= body_bytes;
        let sizes = self.classes.iter().map(|class| class.0);
        sizes.filter(fits).min_by_key(|size| (size.words, size.body))
    }

    /// The engine's table of a class.
    pub fn table(&self, size: ClassSize) -> Option<TableId> {
        let at = self.classes.binary_search_by_key(&size, |class| class.0).ok()?;
        Some(self.classes[at].1)
    }

    /// Where rows are in the engine.
    ///
    /// # Errors
    /// If this pod has no such class.
    pub fn home(&self, at: RowsAt) -> Result<Home> {
        let table = self.table(at.size).ok_or_else(|| {
            let message =
                format!("the pod has no rows of {} key words and {} bytes", at.size.words, at.size.body);
            SqlError::new(SqlState::INTERNAL_ERROR, message)
        })?;
        Ok(Home { object: at.object, size: at.size, table })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.classes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }
}

/// The rows of one object: which engine table they are in, and their numbers there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Home {
    /// The object.
    pub object: ObjectId,
    /// Its class.
    pub size: ClassSize,
    /// The class's engine table.
    pub table: TableId,
}

impl Home {
    /// The first word's bytes of rows in `place`.
    fn head(&self, place: u16, edge: u16) -> KeyBuilder {
        // As the engine encodes the three columns: with their signs flipped.
        let flip = |n: u16| u64::from(n ^ 0x8000);
        Key::build().raw(u64::from(self.object.0 ^ 0x8000_0000), 4).raw(flip(place), 2).raw(flip(edge), 2)
    }

    /// The key of the row with these key bytes, zero-padded.
    ///
    /// # Panics
    /// If there are more bytes than the class has.
    pub fn key(&self, place: u16, bytes: &[u8]) -> Key {
        self.prefix(place, bytes).first(self.size.words.into())
    }

    /// The keys that start with these bytes.
    pub fn range_of_prefix(&self, place: u16, bytes: &[u8]) -> KeyRange {
        KeyRange::prefix(self.prefix(place, bytes), self.size.words.into())
    }

    /// The keys from the first that starts with `low`, or behind all of these, up to the first that starts
    /// with `high`, or behind all of those; at most to the object's edge in this place.
    pub fn range(&self, place: u16, low: Bound<'_>, high: Bound<'_>) -> KeyRange {
        let words = self.size.words.into();
        let first = match low {
            Bound::Open => Some(self.key(place, &[])),
            Bound::Before(bytes) => Some(self.key(place, bytes)),
            Bound::Behind(bytes) => self.prefix(place, bytes).behind(words),
        };
        let end = match high {
            Bound::Open => Some(self.edge(place)),
            Bound::Before(bytes) => Some(self.key(place, bytes)),
            Bound::Behind(bytes) => self.prefix(place, bytes).behind(words),
        };
        let edge = self.edge(place);
        KeyRange {
            low: first.map_or(edge, |key| key.min(edge)),
            high: Some(end.map_or(edge, |k| k.min(edge))),
        }
    }

    /// The key of the object's edge in a place.
    pub fn edge(&self, place: u16) -> Key {
        self.head(place, 1).first(self.size.words.into())
    }

    /// All keys of the object in a place, its edge included.
    pub fn range_with_edge(&self, place: u16) -> KeyRange {
        KeyRange { low: self.key(place, &[]), high: self.edge(place).next() }
    }

    /// The key's bytes behind the first word, in `out`.
    pub fn bytes_of(&self, key: &Key, out: &mut Vec<u8>) {
        out.clear();
        key.words()[1..].iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
    }

    /// The object of a row, by its key.
    pub fn object_of(key: &Key) -> ObjectId {
        ObjectId(key.extract(0, 4) as u32 ^ 0x8000_0000)
    }

    /// The place of a row of any object, by its key.
    pub fn place_of(key: &Key) -> u16 {
        key.extract(4, 2) as u16 ^ 0x8000
    }

    /// Whether the key is an edge.
    pub fn is_edge(key: &Key) -> bool {
        key.extract(6, 2) != 0x8000
    }

    fn prefix(&self, place: u16, bytes: &[u8]) -> KeyBuilder {
        let mut key = self.head(place, 0);
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            key = key.raw(u64::from_be_bytes(chunk.try_into().expect("chunks of 8")), 8);
        }
        chunks.remainder().iter().fold(key, |key, byte| key.raw(u64::from(*byte), 1))
    }

    /// Writes a new row's key columns, from its key, to the first bytes of the row.
    pub fn write_key(key: &Key, row: &mut [u8]) {
        row[..4].copy_from_slice(&Self::object_of(key).0.to_le_bytes());
        for (at, bytes) in [(4, &mut [0; 2]), (6, &mut [0; 2])] {
            *bytes = (key.extract(at, 2) as u16 ^ 0x8000).to_le_bytes();
            row[at..at + 2].copy_from_slice(bytes);
        }
        for (word, bytes) in key.words()[1..].iter().zip(row[8..].chunks_exact_mut(8)) {
            bytes.copy_from_slice(&(word ^ (1 << 63)).to_le_bytes());
        }
    }
}

/// An end of a range of key bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound<'a> {
    /// The object's end.
    Open,
    /// Before the first key that starts with these bytes.
    Before(&'a [u8]),
    /// Behind the last key that starts with these bytes.
    Behind(&'a [u8]),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes() -> (Catalog, Classes) {
        let catalog = Catalog::new(&Classes::schemas()).expect("the classes are right");
        let classes = Classes::of(&catalog);
        (catalog, classes)
    }

    #[test]
    fn every_class_has_the_layout_that_it_says() {
        let (catalog, classes) = classes();
        assert_eq!(classes.len(), WIDTHS.len() * BODIES.len());
        for size in Classes::all_sizes() {
            let table = classes.table(size).expect("all are there");
            let relation = catalog.relation(table).expect("it is declared");
            assert_eq!(relation.key_words, usize::from(size.words));
            assert_eq!(relation.row_len, size.body_at() + usize::from(size.body));
            let home = Home { object: ObjectId(0x8000_1234), size, table };
            let key = home.key(7, &[0xff, 3]);
            let mut row = vec![0; relation.row_len];
            Home::write_key(&key, &mut row);
            let (layout, _) = relation.table().expect("a table");
            assert_eq!(layout.primary.key_of(&row), key, "the engine makes the same key from the row");
            assert_eq!(relation.partition_of(&key, 16).0, 7, "the place is the partition");
        }
    }

    #[test]
    fn the_smallest_class_that_fits_is_chosen() {
        let (_, classes) = classes();
        assert_eq!(classes.choose(8, 16), Some(ClassSize { words: 2, body: 16 }));
        assert_eq!(classes.choose(9, 17), Some(ClassSize { words: 3, body: 24 }));
        assert_eq!(classes.choose(1000, 5000), Some(ClassSize { words: 8, body: 5120 }));
        assert_eq!(classes.choose(8, 32_753), None);
        assert_eq!(classes.body_max(), 32_752);
    }

    #[test]
    fn a_pod_keeps_the_classes_that_it_was_made_with() {
        let catalog = Catalog::new(&Classes::schemas_of_family(Family::Coarse)).expect("they are right");
        let classes = Classes::of(&catalog);
        assert_eq!(classes.len(), WIDTHS.len() * COARSE_BODIES.len(), "there are all of them still");
        assert_eq!(classes.choose(8, 17), Some(ClassSize { words: 2, body: 32 }));
        assert_eq!((classes.body_max(), classes.choose(8, 8193)), (8192, None));
        assert!(BODIES.is_sorted_by(|a, b| a < b && 2 * a >= *b), "no more than half of a row is empty");
    }

    #[test]
    fn an_object_ends_at_its_edge_in_every_place() {
        let (_, classes) = classes();
        let size = ClassSize { words: 3, body: 64 };
        let home = Home { object: ObjectId(20), size, table: classes.table(size).expect("it is there") };
        let next = Home { object: ObjectId(21), ..home };
        for place in [0, 1, 40_000] {
            let last = home.key(place, &[0xff; 16]);
            assert!(last < home.edge(place) && home.edge(place) < next.key(0, &[]));
            assert!(Home::is_edge(&home.edge(place)) && !Home::is_edge(&last));
            assert_eq!(Home::place_of(&last), place);
            let all = home.range(place, Bound::Open, Bound::Open);
            assert!(all.contains(&last) && all.contains(&home.key(place, &[])));
            assert!(!all.contains(&home.edge(place)));
            assert_eq!(home.range(place, Bound::Open, Bound::Behind(&[0xff; 16])), all);
            let part = home.range(place, Bound::Behind(&[1]), Bound::Before(&[3]));
            assert!(part.contains(&home.key(place, &[2, 9])) && !part.contains(&home.key(place, &[1, 9])));
        }
    }
}
