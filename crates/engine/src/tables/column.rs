//! Columns: their types, where they lie in a row, and typed handles to them.
//!
//! ```text
//! row:   | presence bits, 1 per nullable column, rounded up to bytes | column 0 | column 1 | ...
//! text and bytes: | length u16 | max bytes; those behind the length mean nothing |
//! (all numbers little-endian)
//! ```
//!
//! Invariants:
//! 1. Every row of a table has one size and every column one offset, in declaration order without gaps, so
//!    that a handle ([`Col`]) is a constant.
//! 2. A nullable column's presence bit is 1 when it has a value; so a row of zeros is NULL in all of them.
//! 3. No byte string is a wrong row: integers are any bytes, a length is cut to its column, text that is not
//!    UTF-8 reads as empty. Damage is found by whoever reads rows back from outside (checksums), not here.
//!
//! Rows that vary in length will keep this fixed part: a variable column's slot holds (offset u32, length
//! u32) into a tail behind the fixed part, and the row's length in the log and in a slab becomes the row's
//! own. No fixed column moves and no handle changes.

use crate::tables::key::KeyBuilder;
use crate::tables::record::Store;
use std::marker::PhantomData;

/// The type of a column's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum ColumnType {
    /// True or false.
    Bool,
    /// 16-bit integer.
    SmallInt,
    /// 32-bit integer.
    Int,
    /// 64-bit integer.
    BigInt,
    /// Fixed-point number: a 64-bit integer in units of 10^-scale.
    Decimal {
        /// Digits behind the point.
        scale: u8,
    },
    /// Microseconds since 2000-01-01, PostgreSQL's epoch.
    Timestamp,
    /// UTF-8 without zero bytes, at most `max` bytes.
    Text {
        /// Most bytes.
        max: u16,
    },
    /// Any bytes, at most `max`.
    Bytes {
        /// Most bytes.
        max: u16,
    },
}

impl ColumnType {
    /// Bytes in a row.
    pub const fn size(self) -> usize {
        match self {
            ColumnType::Bool => 1,
            ColumnType::SmallInt => 2,
            ColumnType::Int => 4,
            ColumnType::BigInt | ColumnType::Decimal { .. } | ColumnType::Timestamp => 8,
            ColumnType::Text { max } | ColumnType::Bytes { max } => 2 + max as usize,
        }
    }

    /// Bytes in a key, without the byte that a nullable column has in front.
    pub const fn key_size(self) -> usize {
        match self {
            ColumnType::Text { max } => max as usize,
            other => other.size(),
        }
    }

    /// Whether its values are integers by which a table can be placed directly.
    pub const fn is_integer(self) -> bool {
        matches!(self, ColumnType::SmallInt | ColumnType::Int | ColumnType::BigInt)
    }
}

/// Offset in the row of column `index`, of columns given as (type, nullable).
pub const fn column_offset(columns: &[(ColumnType, bool)], index: usize) -> usize {
    let mut offset = presence_bits(columns, columns.len()).div_ceil(8);
    let mut i = 0;
    while i < index {
        offset += columns[i].0.size();
        i += 1;
    }
    offset
}

/// Which presence bit belongs to column `index`.
pub const fn presence_bit(columns: &[(ColumnType, bool)], index: usize) -> Option<u16> {
    if columns[index].1 { Some(presence_bits(columns, index) as u16) } else { None }
}

/// Bytes of a row.
pub const fn row_len(columns: &[(ColumnType, bool)]) -> usize {
    column_offset(columns, columns.len())
}

const fn presence_bits(columns: &[(ColumnType, bool)], upto: usize) -> usize {
    let (mut bits, mut i) = (0, 0);
    while i < upto {
        bits += columns[i].1 as usize;
        i += 1;
    }
    bits
}

/// A typed handle to a column: where it is in its table's rows.
pub struct Col<T> {
    /// Which column of the table.
    index: u16,
    /// Offset of the value in the row.
    offset: u16,
    /// Presence bit, if the column is nullable.
    presence: u16,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Col<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Col<T> {}

impl<T: ColType> Col<T> {
    /// The handle of column `index`, of columns given as (type, nullable).
    ///
    /// # Panics
    /// If that column is not a `T`, or lies beyond 65535 bytes; at compile time where the handle is a
    /// constant.
    pub const fn new(columns: &[(ColumnType, bool)], index: usize) -> Col<T> {
        let offset = column_offset(columns, index);
        assert!(row_len(columns) <= u16::MAX as usize, "a row has at most 65535 bytes");
        assert!(offset + T::TYPE.size() <= row_len(columns), "a column lies in its row");
        assert!(T::NULLABLE == columns[index].1, "the column's nullability is another");
        assert!(T::TYPE.size() == columns[index].0.size(), "the column's type is another");
        let presence = match presence_bit(columns, index) {
            Some(bit) => bit,
            None => 0,
        };
        Col { index: index as u16, offset: offset as u16, presence, of: PhantomData }
    }
}

impl<T> Col<T> {
    /// Which column of the table it is, counted from 0.
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// Offset of the value in the row, in bytes.
    pub const fn offset(self) -> usize {
        self.offset as usize
    }

    /// Byte of the row that holds the presence bit, and the bit in it; means something in nullable columns
    /// only.
    pub const fn presence(self) -> (usize, u8) {
        (self.presence as usize / 8, 1 << (self.presence % 8))
    }

    const fn value_of<U>(self) -> Col<U> {
        Col { index: self.index, offset: self.offset, presence: self.presence, of: PhantomData }
    }
}

/// A column type as a Rust type: [`Int`], [`Text<16>`](Text), [`Null<SmallInt>`](Null).
pub trait ColType: Sized {
    /// What is read and written.
    type Value<'a>;
    /// The column type.
    const TYPE: ColumnType;
    /// Whether NULL is a value.
    const NULLABLE: bool = false;
    /// Reads the column `col`.
    fn load<S: Store + ?Sized>(store: &S, col: Col<Self>) -> Self::Value<'_>;
    /// Writes the column `col`.
    fn save<S: Store + ?Sized>(store: &mut S, col: Col<Self>, value: Self::Value<'_>);
    /// Appends a value to a key.
    fn encode(key: KeyBuilder, value: Self::Value<'_>) -> KeyBuilder;
}

/// A nullable column of the type `T`: values are `Option`s.
pub struct Null<T>(PhantomData<T>);

impl<T: ColType> ColType for Null<T> {
    type Value<'a> = Option<T::Value<'a>>;
    const TYPE: ColumnType = T::TYPE;
    const NULLABLE: bool = {
        assert!(!T::NULLABLE, "a nullable column of a nullable column");
        true
    };

    #[inline]
    fn load<S: Store + ?Sized>(store: &S, col: Col<Self>) -> Self::Value<'_> {
        let (byte, bit) = col.presence();
        (store.load::<1>(byte)[0] & bit != 0).then(|| T::load(store, col.value_of()))
    }

    #[inline]
    fn save<S: Store + ?Sized>(store: &mut S, col: Col<Self>, value: Self::Value<'_>) {
        let (byte, bit) = col.presence();
        let bits = store.load::<1>(byte)[0];
        let new = if value.is_some() { bits | bit } else { bits & !bit };
        if new != bits {
            store.save(byte, &[new]);
        }
        if let Some(value) = value {
            T::save(store, col.value_of(), value);
        }
    }

    #[inline]
    fn encode(key: KeyBuilder, value: Self::Value<'_>) -> KeyBuilder {
        key.nullable(value, T::TYPE.key_size(), T::encode)
    }
}

macro_rules! number_column {
    ($(#[$doc:meta])* $name:ident $(<$scale:ident>)?, $number:ty, $encode:ident, $ty:expr) => {
        $(#[$doc])*
        pub struct $name $(<const $scale: u8>)?;

        impl $(<const $scale: u8>)? ColType for $name $(<$scale>)? {
            type Value<'a> = $number;
            const TYPE: ColumnType = $ty;

            #[inline]
            fn load<S: Store + ?Sized>(store: &S, col: Col<Self>) -> $number {
                const { assert!(Self::TYPE.size() == size_of::<$number>(), "a number fills its column") };
                <$number>::from_le_bytes(store.load(col.offset()))
            }

            #[inline]
            fn save<S: Store + ?Sized>(store: &mut S, col: Col<Self>, value: $number) {
                store.save(col.offset(), &value.to_le_bytes());
            }

            #[inline]
            fn encode(key: KeyBuilder, value: $number) -> KeyBuilder {
                key.$encode(value)
            }
        }
    };
}

number_column!(
    /// A column of `i16`.
    SmallInt, i16, i16, ColumnType::SmallInt);
number_column!(
    /// A column of `i32`.
    Int, i32, i32, ColumnType::Int);
number_column!(
    /// A column of `i64`.
    BigInt, i64, i64, ColumnType::BigInt);
number_column!(
    /// A column of fixed-point numbers: `i64` in units of 10^-SCALE.
    Decimal<SCALE>, i64, i64, ColumnType::Decimal { scale: SCALE });
number_column!(
    /// A column of microseconds since 2000-01-01 as `i64`.
    Timestamp, i64, i64, ColumnType::Timestamp);

/// A column of `bool`.
pub struct Bool;

impl ColType for Bool {
    type Value<'a> = bool;
    const TYPE: ColumnType = ColumnType::Bool;

    #[inline]
    fn load<S: Store + ?Sized>(store: &S, col: Col<Self>) -> bool {
        store.load::<1>(col.offset())[0] != 0
    }

    #[inline]
    fn save<S: Store + ?Sized>(store: &mut S, col: Col<Self>, value: bool) {
        store.save(col.offset(), &[value as u8]);
    }

    #[inline]
    fn encode(key: KeyBuilder, value: bool) -> KeyBuilder {
        key.bool(value)
    }
}

/// A column of texts of at most `MAX` bytes, read and written as `&str`.
pub struct Text<const MAX: u16>;

impl<const MAX: u16> ColType for Text<MAX> {
    type Value<'a> = &'a str;
    const TYPE: ColumnType = ColumnType::Text { max: MAX };

    #[inline]
    fn load<S: Store + ?Sized>(store: &S, col: Col<Self>) -> &str {
        std::str::from_utf8(store.load_sized(col.offset(), MAX as usize)).unwrap_or("")
    }

    #[inline]
    fn save<S: Store + ?Sized>(store: &mut S, col: Col<Self>, value: &str) {
        store.save_sized(col.offset(), MAX as usize, value.as_bytes());
    }

    #[inline]
    fn encode(key: KeyBuilder, value: &str) -> KeyBuilder {
        key.text(value, MAX as usize)
    }
}

/// A column of at most `MAX` bytes, read and written as `&[u8]`.
pub struct Bytes<const MAX: u16>;

impl<const MAX: u16> ColType for Bytes<MAX> {
    type Value<'a> = &'a [u8];
    const TYPE: ColumnType = ColumnType::Bytes { max: MAX };

    #[inline]
    fn load<S: Store + ?Sized>(store: &S, col: Col<Self>) -> &[u8] {
        store.load_sized(col.offset(), MAX as usize)
    }

    #[inline]
    fn save<S: Store + ?Sized>(store: &mut S, col: Col<Self>, value: &[u8]) {
        store.save_sized(col.offset(), MAX as usize, value);
    }

    #[inline]
    fn encode(key: KeyBuilder, value: &[u8]) -> KeyBuilder {
        key.bytes(value, MAX as usize)
    }
}

impl KeyBuilder {
    /// Appends a value of the column `col`, encoded as its type is.
    #[inline(always)]
    pub fn col<T: ColType>(self, _col: Col<T>, value: T::Value<'_>) -> KeyBuilder {
        let end = self.len_bytes() + T::TYPE.key_size() + T::NULLABLE as usize;
        let key = T::encode(self, value);
        debug_assert!(key.len_bytes() == end, "a column has one width in all keys");
        key
    }
}
