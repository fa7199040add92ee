//! The byte layouts of a checked table: rows, keys, index entries, and which partition a key belongs to.
//!
//! Invariants:
//! 1. A partition is computed from key bytes alone, and is the same from every key of a row that holds the
//!    partition columns, wherever they stand in it and however they are sorted.
//! 2. One integer partition column that is not nullable: the value modulo the number of partitions, never
//!    negative, so that users place rows themselves (warehouse 5 of 4 partitions lives in partition 1).
//!    Anything else: a fixed hash.
//! 3. An index entry's key is the index's columns, and, unless the index is unique, the primary key's columns
//!    that are not among them. Its row is the primary key's words, little-endian. If the index's columns hold
//!    the table's partition columns, the entry lives in its row's partition (co-located), else where its own
//!    columns say (global).

use crate::tables::column::{ColumnType, column_offset, presence_bit, row_len};
use crate::tables::key::{Key, KeyBuilder, KeyRange, MAX_KEY_WORDS};
use crate::tables::record::{PatchRange, Patches, Store};
use crate::tables::schema::{IndexSchema, SchemaError, TableSchema};
use liger_pod::plan::PartitionId;

/// Most bytes of a row: with its head and key it fits a block of shared memory (64 KiB).
pub const MAX_ROW_BYTES: usize = 65_400;

// Offsets in rows, and lengths of their parts, have 16 bits.
const _: () = assert!(MAX_ROW_BYTES <= u16::MAX as usize);

/// Where a column is in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnAt {
    /// Its type.
    pub ty: ColumnType,
    /// Offset of its value, in bytes.
    pub offset: usize,
    /// Byte and bit of its presence bit, if it is nullable.
    pub presence: Option<(usize, u8)>,
}

impl ColumnAt {
    /// Bytes in a key.
    pub fn key_size(&self) -> usize {
        self.ty.key_size() + self.presence.is_some() as usize
    }

    /// Appends the row's value to a key.
    fn encode(&self, row: &[u8], key: KeyBuilder) -> KeyBuilder {
        let value = |key: KeyBuilder, _: ()| match self.ty {
            ColumnType::Bool => key.bool(row.load::<1>(self.offset)[0] != 0),
            ColumnType::SmallInt => key.i16(i16::from_le_bytes(row.load(self.offset))),
            ColumnType::Int => key.i32(i32::from_le_bytes(row.load(self.offset))),
            ColumnType::BigInt | ColumnType::Decimal { .. } | ColumnType::Timestamp => {
                key.i64(i64::from_le_bytes(row.load(self.offset)))
            }
            ColumnType::Text { max } => {
                let bytes = row.load_sized(self.offset, max as usize);
                key.text(std::str::from_utf8(bytes).unwrap_or(""), max as usize)
            }
            ColumnType::Bytes { max } => key.bytes(row.load_sized(self.offset, max as usize), max as usize),
        };
        let end = key.len_bytes() + self.key_size();
        let key = match self.presence {
            None => value(key, ()),
            Some((byte, bit)) => {
                let present = row[byte] & bit != 0;
                key.nullable(present.then_some(()), self.ty.key_size(), value)
            }
        };
        debug_assert_eq!(key.len_bytes(), end, "a column has one width in all keys: {self:?}");
        key
    }
}

/// One column of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct KeyPart {
    column: usize,
    at: ColumnAt,
    descending: bool,
    /// Offset in the key, in bytes.
    key_offset: usize,
}

/// How a key is built from a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyLayout {
    parts: Vec<KeyPart>,
    words: usize,
}

impl KeyLayout {
    fn new(
        schema: &TableSchema,
        name: &str,
        at: &[ColumnAt],
        columns: impl Iterator<Item = (usize, bool)>,
    ) -> Result<KeyLayout, SchemaError> {
        let (mut parts, mut bytes) = (Vec::new(), 0);
        for (column, descending) in columns {
            parts.push(KeyPart { column, at: at[column], descending, key_offset: bytes });
            bytes += at[column].key_size();
        }
        let most = 8 * MAX_KEY_WORDS;
        if bytes > most {
            let (table, key) = (schema.name.clone(), name.to_string());
            return Err(SchemaError::KeyTooWide { table, key, bytes, most });
        }
        assert!(bytes > 0, "a key that was checked has columns");
        Ok(KeyLayout { parts, words: bytes.div_ceil(8) })
    }

    /// Width of the keys, in words.
    #[inline]
    pub fn words(&self) -> usize {
        self.words
    }

    /// Numbers of the columns, in key order.
    pub fn columns(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().map(|part| part.column)
    }

    /// Its columns and whether larger values are first, in key order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (usize, bool)> {
        self.parts.iter().map(|part| (part.column, part.descending))
    }

    /// As [`KeyLayout::parts`], with where the column is in the row, and its offset in the key.
    pub(crate) fn placed_parts(&self) -> impl Iterator<Item = (usize, &ColumnAt, bool, usize)> {
        self.parts.iter().map(|part| (part.column, &part.at, part.descending, part.key_offset))
    }

    /// The key of a row.
    #[inline]
    pub fn key_of(&self, row: &[u8]) -> Key {
        let mut key = Key::build();
        for part in &self.parts {
            key = match part.descending {
                false => part.at.encode(row, key),
                true => key.descending(|key| part.at.encode(row, key)),
            };
        }
        debug_assert_eq!(key.finish().width(), self.words, "all keys have one width");
        key.finish()
    }

    /// Whether recorded changes of the row `base` change a column of the key.
    pub fn is_changed(&self, base: &[u8], patches: &Patches, range: PatchRange) -> bool {
        patches.iter(range).any(|(offset, bytes)| {
            let from = offset as usize;
            self.parts.iter().any(|part| {
                let present = part.at.presence.is_some_and(|(byte, bit)| {
                    let new = byte.checked_sub(from).and_then(|i| bytes.get(i));
                    new.is_some_and(|new| (new ^ base[byte]) & bit != 0)
                });
                let low = from.max(part.at.offset);
                let high = (from + bytes.len()).min(part.at.offset + part.at.ty.size());
                present || low < high && bytes[low - from..high - from] != base[low..high]
            })
        })
    }

    /// How keys of this layout are placed by `columns`, if it holds all of them.
    fn placed_by(&self, columns: &[usize]) -> Option<Partitioning> {
        let part_of = |column: &usize| self.parts.iter().find(|part| part.column == *column);
        let parts = columns.iter().map(part_of).collect::<Option<Vec<_>>>()?;
        assert!(!parts.is_empty(), "something says where a row lives");
        let by_value = matches!(parts[..], [part] if part.at.ty.is_integer() && part.at.presence.is_none());
        let field = |part: &&KeyPart| Field {
            offset: part.key_offset,
            bytes: part.at.key_size(),
            descending: part.descending,
        };
        Some(Partitioning { fields: parts.iter().map(field).collect(), by_value })
    }
}

/// A partition column in a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Field {
    offset: usize,
    bytes: usize,
    descending: bool,
}

impl Field {
    /// Up to 8 of its bytes from `from` on, as if it were ascending.
    #[inline]
    fn chunk(&self, key: &Key, from: usize) -> u64 {
        debug_assert!(from < self.bytes, "byte {from} of {self:?}");
        let bytes = (self.bytes - from).min(8);
        let value = key.extract(self.offset + from, bytes);
        if self.descending { value ^ (u64::MAX >> (64 - 8 * bytes)) } else { value }
    }
}

/// How the keys of a table or index are placed in partitions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partitioning {
    fields: Vec<Field>,
    by_value: bool,
}

impl Partitioning {
    /// True if the one partition column's value decides, and not a hash.
    pub(crate) fn is_by_value(&self) -> bool {
        self.by_value
    }

    /// The partition columns in a key: offset, bytes, and whether larger values are first.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (usize, usize, bool)> {
        self.fields.iter().map(|field| (field.offset, field.bytes, field.descending))
    }

    /// The partition of `key`, of `partitions` (at least 1).
    #[inline]
    pub fn partition_of(&self, key: &Key, partitions: u16) -> PartitionId {
        debug_assert!(partitions > 0, "a key lives in a partition");
        if self.by_value {
            let field = &self.fields[0];
            let unsigned = 64 - 8 * field.bytes;
            let flipped = field.chunk(key, 0) << unsigned;
            let value = (flipped ^ (1 << 63)) as i64 >> unsigned;
            PartitionId(value.rem_euclid(partitions as i64) as u16)
        } else {
            let partition = (((self.hash(key) as u128) * partitions as u128) >> 64) as u16;
            debug_assert!(partition < partitions, "partition {partition} of {partitions}");
            PartitionId(partition)
        }
    }

    /// True if all keys of the range are in one partition for sure: they agree up to the last partition
    /// column.
    pub fn is_constant_in(&self, range: &KeyRange) -> bool {
        let Some(high) = range.high else { return false };
        let end = self.fields.iter().map(|field| field.offset + field.bytes).max().unwrap_or(0);
        debug_assert!(end <= 8 * range.low.width(), "the partition columns are in a key of {range:?}");
        let same = |high: &Key| (0..end).all(|at| range.low.extract(at, 1) == high.extract(at, 1));
        // `high` is not in the range: the key before it counts, which agrees if `high` is its prefix's
        // successor.
        same(&high) || high.before().is_some_and(|last| same(&last))
    }

    /// A fixed hash of the partition columns: the finaliser of splitmix64 over words of up to 8 bytes.
    fn hash(&self, key: &Key) -> u64 {
        let mut hash = 0x9e37_79b9_7f4a_7c15_u64;
        for field in &self.fields {
            for from in (0..field.bytes).step_by(8) {
                hash = (hash ^ field.chunk(key, from)).wrapping_add(0x9e37_79b9_7f4a_7c15);
                hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                hash ^= hash >> 31;
            }
        }
        hash
    }
}

/// The layout of a secondary index's entries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexLayout {
    /// How an entry's key is built from the table's row.
    pub key: KeyLayout,
    /// Whether two rows must differ in its columns.
    pub unique: bool,
    /// Whether an entry lives in its row's partition.
    pub colocated: bool,
    /// Where an entry lives.
    pub partitioning: Partitioning,
    /// Bytes of an entry's row: the primary key.
    pub row_len: usize,
}

impl IndexLayout {
    fn new(
        schema: &TableSchema,
        index: &IndexSchema,
        at: &[ColumnAt],
        primary: &KeyLayout,
    ) -> Result<IndexLayout, SchemaError> {
        let own = |column: &usize| index.columns.iter().any(|part| part.column == *column);
        let rest = schema.primary_key.iter().filter(|column| !index.unique && !own(column));
        let columns = index.columns.iter().map(|part| (part.column, part.descending));
        let key =
            KeyLayout::new(schema, &index.name, at, columns.chain(rest.map(|&column| (column, false))))?;
        let colocated = schema.partition_columns().iter().all(own);
        let by = if colocated { schema.partition_columns() } else { index.partition_columns() };
        let partitioning = key.placed_by(by).expect("the index holds its partition columns");
        Ok(IndexLayout { unique: index.unique, colocated, partitioning, row_len: 8 * primary.words, key })
    }

    /// Writes an entry's row, the primary key `primary`, to `row`, which has [`IndexLayout::row_len`] bytes.
    #[inline]
    pub fn write_primary(&self, primary: &Key, row: &mut [u8]) {
        assert_eq!(row.len(), self.row_len, "an index entry's row");
        debug_assert_eq!(8 * primary.width(), self.row_len, "an entry holds its row's primary key");
        for (bytes, word) in row.chunks_exact_mut(8).zip(primary.words()) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// The primary key in an entry's row.
    #[inline]
    pub fn read_primary(&self, row: &[u8]) -> Key {
        assert_eq!(row.len(), self.row_len, "an index entry's row");
        let mut words = [0; MAX_KEY_WORDS];
        for (word, bytes) in words.iter_mut().zip(row.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("chunks of 8"));
        }
        Key::from_words(&words[..self.row_len / 8])
    }
}

/// The layout of a table's rows, keys and index entries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableLayout {
    /// Where the columns are.
    pub columns: Vec<ColumnAt>,
    /// Bytes of a row.
    pub row_len: usize,
    /// The primary key.
    pub primary: KeyLayout,
    /// Where a row lives, from its primary key.
    pub partitioning: Partitioning,
    /// The secondary indexes, in the schema's order.
    pub indexes: Vec<IndexLayout>,
}

impl TableLayout {
    /// The layout of a schema whose names and column numbers have been checked.
    pub(crate) fn new(schema: &TableSchema) -> Result<TableLayout, SchemaError> {
        let types: Vec<_> = schema.columns.iter().map(|column| (column.ty, column.nullable)).collect();
        let (bytes, most) = (row_len(&types), MAX_ROW_BYTES);
        if bytes > most {
            return Err(SchemaError::RowTooLong { table: schema.name.clone(), bytes, most });
        }
        let columns: Vec<ColumnAt> = (0..types.len())
            .map(|i| ColumnAt {
                ty: types[i].0,
                offset: column_offset(&types, i),
                presence: presence_bit(&types, i).map(|bit| (bit as usize / 8, 1 << (bit % 8))),
            })
            .collect();
        let ends = columns.iter().map(|column| column.offset + column.ty.size());
        let begins = columns.iter().map(|column| column.offset).skip(1).chain([bytes]);
        assert!(ends.eq(begins), "columns are in order and without gaps: {columns:?}");
        let ascending = schema.primary_key.iter().map(|&column| (column, false));
        let primary = KeyLayout::new(schema, "primary key", &columns, ascending)?;
        let partitioning = primary.placed_by(schema.partition_columns()).expect("checked to be in the key");
        let index = |index| IndexLayout::new(schema, index, &columns, &primary);
        let indexes = schema.indexes.iter().map(index).collect::<Result<_, _>>()?;
        Ok(TableLayout { columns, row_len: bytes, primary, partitioning, indexes })
    }

    /// The partition of the row with this primary key, of `partitions` (at least 1).
    #[inline]
    pub fn partition_of(&self, primary: &Key, partitions: u16) -> PartitionId {
        self.partitioning.partition_of(primary, partitions)
    }
}
