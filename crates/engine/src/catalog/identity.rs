//! What a pod's tables are, as bytes: hosts, shared memory and files of one pod must agree on it.
//!
//! ```text
//! catalog    version u16 (1)   relations u16   then each relation
//! relation   name (u16 bytes, UTF-8)   properties u8   then each property, by rising tag
//! property   tag u8   bytes u16   payload
//!   1 size        row bytes u32   key words u8
//!   2 columns     of a table; each: type u8   nullable u8   parameter u16 (scale, or most bytes; else 0)
//!   3 key         each part: column u16   descending u8
//!   4 placement   by value u8, then each field of the key: offset u16   bytes u16   descending u8
//!   5 index       of a table: its id u16   unique u8   co-located u8
//!   6 replicated  no payload
//!   7 method      which access method u8; not written of rows
//! (all numbers little-endian)
//! types      1 bool   2 smallint   3 int   4 bigint   5 decimal   6 timestamp   7 text   8 bytes
//! ```
//!
//! Invariants:
//! 1. The bytes of a catalog never change: data directories hold their hash. A property that is new is
//!    written only where it is not what every relation was before; so older catalogs keep their bytes.
//! 2. Two catalogs with the same bytes lay out rows, keys and partitions alike.
//!
//! Programs before format 3 of the manifests took a hash of a text, [`Catalog::hash_of_text`]: their
//! directories are known by it.

use std::fmt::Write;

use crate::catalog::{Catalog, Kind, Relation};
use crate::tables::column::ColumnType;
use crate::tables::layout::{ColumnAt, IndexLayout, KeyLayout, Partitioning};
use crate::txn::MethodId;

/// Version of the encoding.
const VERSION: u16 = 1;

const SIZE: u8 = 1;
const COLUMNS: u8 = 2;
const KEY: u8 = 3;
const PLACEMENT: u8 = 4;
const INDEX: u8 = 5;
const REPLICATED: u8 = 6;
const METHOD: u8 = 7;

impl Catalog {
    /// The bytes that say what the tables are.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((self.relations.len() as u16).to_le_bytes());
        self.relations.iter().for_each(|relation| encode_relation(relation, &mut bytes));
        bytes
    }

    /// A hash of what the tables are, for the pod's configuration and its files.
    pub fn hash(&self) -> u64 {
        fnv(&self.encode())
    }

    /// The hash that programs before format 3 of the manifests took.
    pub fn hash_of_text(&self) -> u64 {
        fnv(text_of(&self.relations).as_bytes())
    }
}

/// FNV-1a, 64 bits.
fn fnv(bytes: &[u8]) -> u64 {
    let step = |state: u64, byte: &u8| (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

fn encode_relation(relation: &Relation, bytes: &mut Vec<u8>) {
    let (key, partitioning) = (relation.key_layout(), &relation.partitioning);
    let mut properties = vec![(SIZE, encode_size(relation))];
    if let Kind::Table { layout, .. } = &relation.kind {
        properties.push((COLUMNS, layout.columns.iter().flat_map(encode_column).collect()));
    }
    properties.push((KEY, key.parts().flat_map(encode_part).collect()));
    properties.push((PLACEMENT, encode_placement(partitioning)));
    if let Kind::Index { of, layout } = &relation.kind {
        let [low, high] = of.0.to_le_bytes();
        properties.push((INDEX, vec![low, high, layout.unique.into(), layout.colocated.into()]));
    }
    if relation.replicated {
        properties.push((REPLICATED, Vec::new()));
    }
    if relation.method != MethodId::ROWS {
        properties.push((METHOD, vec![relation.method.0]));
    }
    assert!(properties.is_sorted_by(|a, b| a.0 < b.0), "each property is there once, in order");
    bytes.extend((relation.name.len() as u16).to_le_bytes());
    bytes.extend(relation.name.as_bytes());
    bytes.push(properties.len() as u8);
    for (tag, payload) in properties {
        bytes.push(tag);
        bytes.extend((payload.len() as u16).to_le_bytes());
        bytes.extend(payload);
    }
}

fn encode_size(relation: &Relation) -> Vec<u8> {
    let mut bytes = (relation.row_len as u32).to_le_bytes().to_vec();
    bytes.push(relation.key_words as u8);
    bytes
}

fn encode_column(column: &ColumnAt) -> [u8; 4] {
    let (ty, parameter) = match column.ty {
        ColumnType::Bool => (1, 0),
        ColumnType::SmallInt => (2, 0),
        ColumnType::Int => (3, 0),
        ColumnType::BigInt => (4, 0),
        ColumnType::Decimal { scale } => (5, scale.into()),
        ColumnType::Timestamp => (6, 0),
        ColumnType::Text { max } => (7, max),
        ColumnType::Bytes { max } => (8, max),
    };
    let [low, high] = u16::to_le_bytes(parameter);
    [ty, column.presence.is_some().into(), low, high]
}

fn encode_part((column, descending): (usize, bool)) -> [u8; 3] {
    let [low, high] = (column as u16).to_le_bytes();
    [low, high, descending.into()]
}

fn encode_placement(partitioning: &Partitioning) -> Vec<u8> {
    let mut bytes = vec![partitioning.is_by_value().into()];
    for (offset, width, descending) in partitioning.fields() {
        bytes.extend((offset as u16).to_le_bytes());
        bytes.extend((width as u16).to_le_bytes());
        bytes.push(descending.into());
    }
    bytes
}

/// The relations as that text had them.
fn text_of(relations: &[Relation]) -> String {
    list(relations.iter().map(|relation| {
        // Those programs knew no other method than rows.
        let Relation { id, name, key_words, row_len, replicated, method: _, partitioning, kind } = relation;
        let mut text = format!("Relation {{ id: TableId({}), name: {name:?}, kind: ", id.0);
        match kind {
            Kind::Table { layout, indexes } => {
                let columns = list(layout.columns.iter().map(column_text));
                let ids = list(indexes.iter().map(|index| format!("IndexId(TableId({}))", index.0.0)));
                let primary = key_text(&layout.primary);
                let placement = placement_text(&layout.partitioning);
                let own = list(layout.indexes.iter().map(index_text));
                let _ = write!(
                    text,
                    "Table {{ layout: TableLayout {{ columns: {columns}, row_len: {}, primary: {primary}, \
                     partitioning: {placement}, indexes: {own} }}, indexes: {ids} }}",
                    layout.row_len,
                );
            }
            Kind::Index { of, layout } => {
                let layout = index_text(layout);
                let _ = write!(text, "Index {{ of: TableId({}), layout: {layout} }}", of.0);
            }
        }
        let placement = placement_text(partitioning);
        let _ = write!(
            text,
            ", key_words: {key_words}, row_len: {row_len}, replicated: {replicated}, \
             partitioning: {placement} }}"
        );
        text
    }))
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

fn column_text(column: &ColumnAt) -> String {
    let ty = match column.ty {
        ColumnType::Bool => "Bool".to_owned(),
        ColumnType::SmallInt => "SmallInt".to_owned(),
        ColumnType::Int => "Int".to_owned(),
        ColumnType::BigInt => "BigInt".to_owned(),
        ColumnType::Decimal { scale } => format!("Decimal {{ scale: {scale} }}"),
        ColumnType::Timestamp => "Timestamp".to_owned(),
        ColumnType::Text { max } => format!("Text {{ max: {max} }}"),
        ColumnType::Bytes { max } => format!("Bytes {{ max: {max} }}"),
    };
    let presence = match column.presence {
        None => "None".to_owned(),
        Some((byte, bit)) => format!("Some(({byte}, {bit}))"),
    };
    format!("ColumnAt {{ ty: {ty}, offset: {}, presence: {presence} }}", column.offset)
}

fn key_text(key: &KeyLayout) -> String {
    let parts = list(key.placed_parts().map(|(column, at, descending, offset)| {
        let at = column_text(at);
        format!("KeyPart {{ column: {column}, at: {at}, descending: {descending}, key_offset: {offset} }}")
    }));
    format!("KeyLayout {{ parts: {parts}, words: {} }}", key.words())
}

fn placement_text(partitioning: &Partitioning) -> String {
    let fields = list(partitioning.fields().map(|(offset, bytes, descending)| {
        format!("Field {{ offset: {offset}, bytes: {bytes}, descending: {descending} }}")
    }));
    format!("Partitioning {{ fields: {fields}, by_value: {} }}", partitioning.is_by_value())
}

fn index_text(index: &IndexLayout) -> String {
    let (key, placement) = (key_text(&index.key), placement_text(&index.partitioning));
    let IndexLayout { unique, colocated, row_len, .. } = index;
    format!(
        "IndexLayout {{ key: {key}, unique: {unique}, colocated: {colocated}, partitioning: {placement}, \
         row_len: {row_len} }}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::schema::{Column, IndexColumn, IndexSchema, TableSchema};
    use crate::txn::TableId;

    /// A table of every type with two indexes, and a replicated one.
    fn tables() -> Vec<TableSchema> {
        let column = |name: &str, ty, nullable| Column { name: name.to_owned(), ty, nullable };
        let columns = vec![
            column("a", ColumnType::Bool, true),
            column("b", ColumnType::SmallInt, false),
            column("c", ColumnType::Int, false),
            column("d", ColumnType::BigInt, false),
            column("e", ColumnType::Decimal { scale: 2 }, false),
            column("f", ColumnType::Timestamp, true),
            column("g", ColumnType::Text { max: 9 }, false),
            column("h", ColumnType::Bytes { max: 300 }, false),
        ];
        let by = |column, descending| IndexColumn { column, descending };
        let index = |name: &str, columns, unique, partition_by| {
            let name = name.to_owned();
            IndexSchema { name, columns, unique, partition_by }
        };
        let all = TableSchema {
            name: "all \"types\"".to_owned(),
            columns,
            primary_key: vec![2, 6],
            partition_by: None,
            replicated: false,
            indexes: vec![
                index("one", vec![by(1, true), by(2, false)], true, None),
                index("two", vec![by(0, false), by(3, true)], false, Some(vec![3])),
            ],
        };
        let copied = TableSchema {
            name: "copied".to_owned(),
            columns: vec![column("k", ColumnType::BigInt, false)],
            primary_key: vec![0],
            partition_by: None,
            replicated: true,
            indexes: Vec::new(),
        };
        vec![all, copied]
    }

    fn catalog() -> Catalog {
        Catalog::new(&tables()).expect("tables")
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Kept for ever: data directories hold these hashes.
    #[test]
    fn the_bytes_and_hashes_of_a_catalog_never_change() {
        let catalog = catalog();
        let expected = "01000400 \
            0b00616c6c202274797065732204 0105005901000002 \
              0220000101000002000000030000000400000005000200060100000700090008002c01 \
              030600020000060000 040600010000040000 \
            03006f6e6504 0105001000000001 030600010001020000 040600010200040000 05040000000101 \
            030074776f04 0105001000000003 030c00000000030001020000060000 040600010200080001 05040000000000 \
            0600636f7069656405 0105000800000001 02040004000000 030300000000 040600010000080000 060000";
        assert_eq!(hex(&catalog.encode()), expected.replace(' ', ""));
        assert_eq!(catalog.hash(), 0xb49f_fbc9_a202_a567);
        assert_eq!(catalog.hash_of_text(), 0xd0b3_e52e_3721_948d);
    }

    #[test]
    fn whatever_differs_shows_in_the_bytes() {
        type Change = fn(&mut Vec<TableSchema>);
        let changes: [(&str, Change); 12] = [
            ("a table's name", |tables| tables[0].name.push('x')),
            ("an index's name", |tables| tables[0].indexes[0].name.push('x')),
            ("a type", |tables| tables[0].columns[2].ty = ColumnType::BigInt),
            ("a scale", |tables| tables[0].columns[4].ty = ColumnType::Decimal { scale: 3 }),
            ("a length", |tables| tables[0].columns[6].ty = ColumnType::Text { max: 10 }),
            ("NULL", |tables| tables[0].columns[3].nullable = true),
            ("the order of a key", |tables| tables[0].primary_key = vec![6, 2]),
            ("the placement", |tables| tables[0].partition_by = Some(vec![6])),
            ("a direction", |tables| tables[0].indexes[0].columns[0].descending = false),
            ("uniqueness", |tables| tables[0].indexes[0].unique = false),
            ("the placement of an index", |tables| tables[0].indexes[1].partition_by = Some(vec![0])),
            ("copies", |tables| tables[1].replicated = false),
        ];
        let before = catalog();
        let elsewhere = catalog().kept_by(TableId(1), MethodId(1)).expect("it has partitions");
        assert_ne!(before.encode(), elsewhere.encode(), "an access method");
        assert!(catalog().kept_by(TableId(3), MethodId(1)).is_err(), "every host has a copy");
        for (what, change) in changes {
            let mut tables = tables();
            change(&mut tables);
            let after = Catalog::new(&tables).expect("tables");
            assert_ne!(before.encode(), after.encode(), "{what}");
            assert_ne!(before.hash(), after.hash(), "{what}");
        }
    }
}
