//! Sets and orders of rows.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::hashed::Buckets;
use super::spill::FlatRows;
use crate::tree::{Body, DistinctOn, Query, SortKey};
use crate::types::value::Value;
use crate::types::{Oid, order};

/// Equal as GROUP BY and DISTINCT see it: NULL is equal to NULL.
pub(crate) fn same(ty: Oid, a: &Value, b: &Value) -> bool {
    match (a.is_null(), b.is_null()) {
        (true, true) => true,
        (false, false) => order::compare(ty, a, b) == Ordering::Equal,
        _ => false,
    }
}

pub(crate) fn hash(types: &[Oid], row: &[Value]) -> u64 {
    let mix = |hash: u64, (ty, value): (&Oid, &Value)| {
        (hash.rotate_left(5) ^ order::hash(*ty, value)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    };
    types.iter().zip(row).fold(0x51_7c_c1_b7, mix)
}

/// Numbers for rows that are the same in their first columns.
pub(crate) struct RowMap {
    types: Vec<Oid>,
    buckets: Buckets,
    rows: FlatRows,
    bytes: usize,
}

impl RowMap {
    pub(crate) fn new(types: Vec<Oid>) -> RowMap {
        RowMap { types, buckets: Buckets::default(), rows: FlatRows::default(), bytes: 0 }
    }

    pub(crate) fn hash(&self, row: &[Value]) -> u64 {
        hash(&self.types, row)
    }

    /// The number of a row that has this hash.
    pub(crate) fn find(&self, hash: u64, row: &[Value]) -> Option<usize> {
        let equal = |other: &[Value]| {
            self.types.iter().zip(other.iter().zip(row)).all(|(ty, (a, b))| same(*ty, a, b))
        };
        self.buckets.of(hash).find(|number| equal(self.rows.row(*number)))
    }

    /// Gives a row that is not there, and has this hash, the next number.
    pub(crate) fn add(&mut self, hash: u64, row: &[Value]) -> usize {
        self.bytes += self.rows.push(row[..self.types.len()].iter().cloned());
        self.buckets.add(hash)
    }

    /// Adds a row if it is not there; whether it was not.
    pub(crate) fn insert(&mut self, row: &[Value]) -> bool {
        let hash = self.hash(row);
        let is_new = self.find(hash, row).is_none();
        if is_new {
            self.add(hash, row);
        }
        is_new
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.buckets.bytes()
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn into_rows(self) -> FlatRows {
        self.rows
    }
}

fn compare_one(ty: Oid, descending: bool, nulls_first: bool, a: &Value, b: &Value) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) if nulls_first => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) if nulls_first => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => {
            let order = order::compare(ty, a, b);
            if descending { order.reverse() } else { order }
        }
    }
}

/// The order of two rows by keys that name their columns.
pub(crate) fn compare(keys: &[SortKey], a: &[Value], b: &[Value]) -> Ordering {
    let one =
        |key: &SortKey| compare_one(key.ty, key.descending, key.nulls_first, &a[key.column], &b[key.column]);
    keys.iter().map(one).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// What a query's rows are sorted by: as is written, and then by what DISTINCT ON tells them apart by.
pub(crate) fn order_of(query: &Query) -> Cow<'_, [SortKey]> {
    let Body::Select(select) = &query.body else { return Cow::Borrowed(&query.order) };
    let DistinctOn::Columns(columns) = &select.distinct else { return Cow::Borrowed(&query.order) };
    let mut order = query.order.clone();
    for (column, ty) in columns {
        if order.iter().all(|key| key.column != *column) {
            order.push(SortKey { column: *column, ty: *ty, descending: false, nulls_first: false });
        }
    }
    Cow::Owned(order)
}

/// The order of two rows of sort values, each by its own key.
pub(crate) fn compare_values<'k>(
    keys: impl Iterator<Item = &'k SortKey>,
    a: &[Value],
    b: &[Value],
) -> Ordering {
    let one = |(key, (a, b)): (&SortKey, (&Value, &Value))| {
        compare_one(key.ty, key.descending, key.nulls_first, a, b)
    };
    keys.zip(a.iter().zip(b)).map(one).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}
