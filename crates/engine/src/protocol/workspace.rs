//! What a transaction has changed and nobody else sees yet: patches and images above the rows that it holds,
//! in the order of its calls.
//!
//! 1. A place (however a protocol names where a row is) has one change: what is done to its row later is
//!    added to it.
//! 2. A transaction sees its own changes: [`Workspace::show`] merges them with the row below.
//!
//! Not here: locks, leases and what becomes of the changes (each protocol's commit).

use std::collections::BTreeMap;
use std::hash::Hash;
use std::ops::ControlFlow;

use crate::catalog::{Kind, Relation};
use crate::history::{WriteKind, WriteRecord};
use crate::protocol::index_map::{Listed, Named};
use crate::tables::key::{Key, KeyRange};
use crate::tables::record::{PatchRange, Patches, Row, RowMut};
use crate::txn::{Access, TableId, TxnError};

/// Who looks at rows, and how.
pub enum Visitor<'v> {
    /// Sees rows.
    Read(&'v mut dyn FnMut(&Key, Row<'_>) -> ControlFlow<()>),
    /// Changes rows.
    Write(&'v mut dyn FnMut(&Key, &mut RowMut<'_>) -> ControlFlow<()>),
}

impl Visitor<'_> {
    /// What it does with the rows that it sees.
    pub fn access(&self) -> Access {
        match self {
            Self::Read(_) => Access::Read,
            Self::Write(_) => Access::Update,
        }
    }
}

/// What the transaction does to one row.
#[derive(Clone, Debug)]
pub struct Change<P> {
    /// Where the row is, as the protocol names it.
    pub place: P,
    /// The row's relation.
    pub table: TableId,
    /// Its key.
    pub key: Key,
    /// The row did not exist before.
    pub is_new: bool,
    /// The row will not exist afterwards.
    pub deleted: bool,
    /// The row's bytes in `images`, where they are not the row's own.
    pub image: Option<(u64, u64)>,
    /// Changes on top.
    pub patches: PatchRange,
    /// Version that the row had.
    pub previous: u64,
}

impl<P: Copy + Eq + Hash> Named for Change<P> {
    type Name = P;

    fn name(&self) -> P {
        self.place
    }
}

/// Bytes that the changes of a transaction may take where nobody says otherwise.
pub const USUAL_TRANSACTION_BYTES: u64 = 4 << 30;

/// So many rows that are held and not changed are looked at for each that is.
const HELD_FOR_ONE: usize = 8;

/// The changes of a transaction, and the bytes that they are made of.
pub struct Workspace<P: Copy + Eq + Hash> {
    /// One for each row that is changed, by where that is.
    pub changes: Listed<Change<P>>,
    /// The change whose row was visited for writing last.
    pub visited: usize,
    /// What [`Change::patches`] are of.
    pub patches: Patches,
    /// What [`Change::image`] is of.
    pub images: Vec<u8>,
    /// The first so many changes, by what they change.
    by_key: (BTreeMap<(TableId, Key), u32>, usize),
}

impl<P: Copy + Eq + Hash> Default for Workspace<P> {
    fn default() -> Self {
        let by_key = Default::default();
        Self { changes: Listed::default(), visited: 0, patches: Patches::new(), images: Vec::new(), by_key }
    }
}

impl<P: Copy + Eq + Hash> Workspace<P> {
    /// Where the row with this key is, if it was visited for writing last, or its change is the next one (the
    /// first, behind the last): who locks rows and changes them afterwards does both in one order.
    pub fn at_hand(&self, table: TableId, key: &Key) -> Option<P> {
        let next = if self.visited + 1 < self.changes.len() { self.visited + 1 } else { 0 };
        let mut near = [self.visited, next].into_iter().filter_map(|at| self.changes.get(at));
        near.find(|change| change.table == table && change.key == *key).map(|change| change.place)
    }

    /// Bytes that the changes take, about.
    pub fn bytes(&self) -> u64 {
        let by_key = self.by_key.1 * size_of::<(TableId, Key, u32)>();
        (self.changes.bytes() + by_key + self.patches.bytes() + self.images.len()) as u64
    }

    /// Bytes that are kept for the next changes, about.
    pub fn memory(&self) -> usize {
        self.changes.capacity() * size_of::<Change<P>>() + self.patches.memory() + self.images.capacity()
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.changes.clear();
        self.patches.clear();
        self.images.clear();
        self.by_key.0.clear();
        self.by_key.1 = 0;
    }

    /// The next keys of a range, at most so many, whose rows are others for this transaction than for the
    /// rest of the pod; and with which key the rest of the range begins, if it has not looked at all of it.
    pub fn changed_keys(&mut self, table: TableId, range: &KeyRange, most: usize) -> (Vec<Key>, Option<Key>) {
        let (by_key, known) = &mut self.by_key;
        for (behind, change) in self.changes[*known..].iter().enumerate() {
            by_key.insert((change.table, change.key), (*known + behind) as u32);
        }
        *known = self.changes.len();
        let mut keys = Vec::new();
        let within = by_key.range((table, range.low)..);
        let within = within.take_while(|((of, key), _)| *of == table && !range.ends_before(key));
        for (looked, ((_, key), at)) in within.enumerate() {
            // Rows that are held and not changed may be many.
            if keys.len() == most || looked == HELD_FOR_ONE * most {
                debug_assert!(keys.last().is_none_or(|last| last < key), "keys in their order: {keys:?}");
                return (keys, Some(*key));
            }
            let change = &self.changes[*at as usize];
            if change.is_new || change.deleted || change.image.is_some() || !change.patches.is_empty() {
                keys.push(*key);
            }
        }
        debug_assert!(keys.iter().all(|key| range.contains(key)), "{keys:?} in {range:?}");
        (keys, None)
    }

    /// Shows a held row to the visitor, own changes included. `None`: the transaction has deleted it.
    pub fn show(
        &mut self,
        relation: &Relation,
        place: P,
        key: &Key,
        base: &[u8],
        previous: u64,
        visitor: &mut Visitor<'_>,
    ) -> Result<Option<ControlFlow<()>>, TxnError> {
        let known = self.changes.number(&place);
        let is_it = |i: usize| self.changes[i].table == relation.id && self.changes[i].key == *key;
        debug_assert!(known.is_none_or(is_it), "the change at a place is that of its row");
        self.show_known(known, (relation, place), key, (base, previous), visitor)
    }

    /// As [`Workspace::show`], a row whose change, if it has one, is known.
    pub fn show_known(
        &mut self,
        known: Option<usize>,
        (relation, place): (&Relation, P),
        key: &Key,
        (base, previous): (&[u8], u64),
        visitor: &mut Visitor<'_>,
    ) -> Result<Option<ControlFlow<()>>, TxnError> {
        if known.is_some_and(|i| self.changes[i].deleted) {
            return Ok(None);
        }
        match visitor {
            Visitor::Read(visit) => {
                let Some(i) = known else { return Ok(Some(visit(key, Row::new(base)))) };
                let mut merged = self.base_of(i, base).to_vec();
                debug_assert_eq!(merged.len(), relation.row_len, "a row of {}", relation.name);
                self.patches.apply(self.changes[i].patches, &mut merged);
                let flow = visit(key, Row::new(&merged));
                Ok(Some(flow))
            }
            Visitor::Write(visit) => {
                let i = known.unwrap_or_else(|| self.begin_change(place, relation.id, key, previous));
                self.visited = i;
                let change = &mut self.changes[i];
                let base = match change.image {
                    Some((start, end)) => &self.images[start as usize..end as usize],
                    None => base,
                };
                debug_assert_eq!(base.len(), relation.row_len, "a row of {}", relation.name);
                let flow = visit(key, &mut self.patches.row(base, &mut change.patches));
                if changes_a_key(relation, base, &self.patches, change.patches) {
                    return Err(TxnError::KeyChanged { table: relation.id });
                }
                Ok(Some(flow))
            }
        }
    }

    /// The bytes below a change's patches.
    fn base_of<'a>(&'a self, change: usize, base: &'a [u8]) -> &'a [u8] {
        match self.changes[change].image {
            Some((start, end)) => &self.images[start as usize..end as usize],
            None => base,
        }
    }

    /// Keeps the bytes of a row.
    pub fn store_image(&mut self, bytes: &[u8]) -> (u64, u64) {
        let start = self.images.len() as u64;
        self.images.extend_from_slice(bytes);
        (start, self.images.len() as u64)
    }

    /// Begins to change a row that had version `previous`; the index of the change.
    pub fn begin_change(&mut self, place: P, table: TableId, key: &Key, previous: u64) -> usize {
        let (key, patches) = (*key, PatchRange::default());
        let change =
            Change { place, table, key, is_new: false, deleted: false, image: None, patches, previous };
        self.changes.add(change)
    }

    /// Begins with a new row; of its bytes those that are given are kept. The index of the change.
    pub fn begin_insert(&mut self, place: P, table: TableId, key: &Key, bytes: Option<&[u8]>) -> usize {
        let image = bytes.map(|bytes| self.store_image(bytes));
        let change = self.begin_change(place, table, key, 0);
        debug_assert_eq!(change + 1, self.changes.len(), "changes are in the order of their calls");
        (self.changes[change].is_new, self.changes[change].image) = (true, image);
        change
    }

    /// What the changes are to a checker of histories, once they have a version.
    pub fn writes(&self, version: u64) -> impl Iterator<Item = WriteRecord> + '_ {
        self.changes.iter().filter_map(move |change| {
            let kind = match (change.is_new, change.deleted) {
                (true, true) => return None,
                (true, false) => WriteKind::Insert,
                (false, true) => WriteKind::Delete,
                (false, false) => WriteKind::Update,
            };
            debug_assert!(!change.is_new || change.previous == 0, "a row that is new replaces nothing");
            let previous = (!change.is_new).then_some(change.previous);
            let (table, key) = (change.table, change.key);
            Some(WriteRecord { table, key, previous, version, kind })
        })
    }

    /// If the transaction has deleted this row, brings it back with other bytes.
    pub fn revive(&mut self, place: P, bytes: &[u8]) -> bool {
        let Some(i) = self.changes.number(&place).filter(|i| self.changes[*i].deleted) else { return false };
        let image = self.store_image(bytes);
        let change = &mut self.changes[i];
        debug_assert!(change.place == place, "a change is found by its place");
        change.deleted = false;
        change.image = Some(image);
        change.patches = PatchRange::default();
        true
    }
}

/// True if the changes touch a column of the primary key or of an index.
fn changes_a_key(relation: &Relation, base: &[u8], patches: &Patches, range: PatchRange) -> bool {
    let Kind::Table { layout, .. } = &relation.kind else { return !range.is_empty() };
    layout.primary.is_changed(base, patches, range)
        || layout.indexes.iter().any(|index| index.key.is_changed(base, patches, range))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_keys_come_in_parts_whatever_is_held_beside_them() {
        let mut work = Workspace::<u64>::default();
        let key = |n: u64| Key::from_words(&[n]);
        for n in 0..1000 {
            let (table, key, is_new) = (TableId(1), key(n), n == 999 || n < 6);
            let patches = PatchRange::default();
            let change =
                Change { place: n, table, key, is_new, deleted: false, image: None, patches, previous: 0 };
            work.changes.add(change);
        }
        let mut rest = KeyRange { low: key(0), high: None };
        let (mut all, mut parts) = (Vec::new(), 0);
        while let (keys, Some(next)) = work.changed_keys(TableId(1), &rest, 4) {
            assert!(keys.len() <= 4 && next > rest.low, "{keys:?} {next:?}");
            all.extend(keys);
            (rest.low, parts) = (next, parts + 1);
        }
        all.extend(work.changed_keys(TableId(1), &rest, 4).0);
        assert_eq!(all, [0, 1, 2, 3, 4, 5, 999].map(key));
        assert_eq!(parts, 1 + 996 / (4 * HELD_FOR_ONE), "each has looked at so many");
        assert_eq!(work.changed_keys(TableId(0), &rest, 4), (Vec::new(), None));
    }
}
