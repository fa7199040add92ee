//! What a statement has changed, as it was before: all parts of a statement see the rows from before it.
//!
//! 1. Each row that was changed has the values that it had when the statement began, or none if it was not
//!    there; what happens to it later changes nothing about that.
//! 2. A scan passes over rows that are kept here, whatever they are now, and gives those that were there
//!    before in their stead: in the order of its index, where that has one.
//! 3. Rows change between scans, never within one: whoever changes rows has read what it needs.
//! 4. Nothing is kept for statements none of whose parts would look.
//!
//! It says nothing to unique indexes, foreign keys and checks: these are about the rows as they are now.
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use super::Row;
use super::rows::compare_values;
use super::store::{Found, Range, RowKey};
use super::table::within;
use crate::catalog::object::{Indexed, Table};
use crate::tree::SortKey;
use crate::types::value::Value;
use crate::types::{Oid, Types};

/// Rows of a table by their names; `None`: it was not there.
type Before = BTreeMap<RowKey, Option<Row>>;

/// The rows that a statement has changed.
#[derive(Default)]
pub(super) struct OwnChanges {
    on: Cell<bool>,
    tables: RefCell<BTreeMap<Oid, Rc<Before>>>,
}

impl OwnChanges {
    /// From now on rows are kept.
    pub(super) fn remember(&self) {
        self.on.set(true);
    }

    /// A row is about to be what others need not see; `before`: its values.
    pub(super) fn note(&self, table: Oid, key: &RowKey, before: Option<&[Value]>) {
        if self.on.get() {
            let mut tables = self.tables.borrow_mut();
            let rows = Rc::make_mut(tables.entry(table).or_default());
            rows.entry(*key).or_insert_with(|| before.map(<[Value]>::to_vec));
        }
    }

    /// Whether the statement has changed the row.
    pub(super) fn has(&self, table: Oid, key: &RowKey) -> bool {
        self.tables.borrow().get(&table).is_some_and(|rows| rows.contains_key(key))
    }

    /// What a scan of this range that begins now makes of the rows it finds. `locks`: it locks them, and what
    /// the statement has changed is not given at all, as by PostgreSQL.
    pub(super) fn seen_by(&self, types: &dyn Types, table: &Table, range: &Range, locks: bool) -> Seen {
        let own = self.tables.borrow().get(&table.oid).cloned();
        let mut seen = Seen { own, old: VecDeque::new(), order: Vec::new(), reverse: range.reverse };
        let Some(own) = seen.own.clone().filter(|_| !locks) else { return seen };
        seen.order = plain_columns(types, table, range);
        let there = own.iter().filter_map(|(key, before)| Some((key, before.as_ref()?)));
        let mut old: Vec<Found> = there
            .filter(|(_, values)| lies_within(&seen.order, range, values))
            .map(|(key, values)| Found { key: *key, values: values.clone() })
            .collect();
        old.sort_by(|a, b| seen.compare(a, b));
        seen.old = old.into();
        seen
    }
}

/// The columns of the index of a range, up to the first one that is computed.
pub(super) fn plain_columns(types: &dyn Types, table: &Table, range: &Range) -> Vec<SortKey> {
    let columns = range.index.iter().flat_map(|index| &index.columns);
    let plain = columns.map_while(|column| match column.of {
        Indexed::Column(number) => {
            let ty = types.base_of(table.columns[usize::from(number)].type_oid);
            let (descending, nulls_first) = (column.descending, column.nulls_first);
            Some(SortKey { column: number.into(), ty, descending, nulls_first })
        }
        Indexed::Expression { .. } => None,
    });
    plain.collect()
}

/// Whether a row lies within a range, as far as these first columns of its index tell.
pub(super) fn lies_within(columns: &[SortKey], range: &Range, row: &[Value]) -> bool {
    let mut wanted = columns.iter().take(range.equal.len() + 1).enumerate();
    wanted.all(|(at, key)| within(range, at, key.ty, &row[key.column]))
}

/// What a scan gives where its statement has changed rows.
pub(super) struct Seen {
    own: Option<Rc<Before>>,
    /// Rows as they were that have not been given yet.
    old: VecDeque<Found>,
    order: Vec<SortKey>,
    reverse: bool,
}

impl Seen {
    fn compare(&self, a: &Found, b: &Found) -> Ordering {
        let part = |row: &Found| self.order.iter().map(|key| row.values[key.column].clone()).collect::<Row>();
        let order = compare_values(self.order.iter(), &part(a), &part(b));
        if self.reverse { order.reverse() } else { order }
    }

    /// The next rows of a scan; `last`: there are no others.
    pub(super) fn through(&mut self, batch: Vec<Found>, last: bool) -> Vec<Found> {
        let Some(own) = self.own.clone() else { return batch };
        let mut given = Vec::with_capacity(batch.len());
        for found in batch.into_iter().filter(|found| !own.contains_key(&found.key)) {
            while self
                .old
                .front()
                .is_some_and(|old| !self.order.is_empty() && self.compare(old, &found).is_lt())
            {
                given.extend(self.old.pop_front());
            }
            given.push(found);
        }
        if last {
            given.extend(self.old.drain(..));
        }
        given
    }
}
