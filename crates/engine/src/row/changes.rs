//! The changes of a transaction, in their order, and how they are found again.
//!
//! 1. A place has one change: what is done to its row later is added to it.
//! 2. While they are few they are looked through; of more than [`FEW`] the places are kept in order, because
//!    looking through all of them for each row would take a large transaction quadratic time.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use liger_fabric::Fabric;

use super::transaction::{Place, RowTxn};
use crate::key::Key;
use crate::record::PatchRange;
use crate::txn::TableId;

/// Looking through so many takes no longer than a tree.
const FEW: usize = 32;

/// What the transaction does to one row.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) place: Place,
    pub(super) table: TableId,
    pub(super) key: Key,
    /// The row did not exist before.
    pub(super) is_new: bool,
    /// The row will not exist afterwards.
    pub(super) doomed: bool,
    /// The row's bytes in `images`, where they are not the row's own.
    pub(super) image: Option<(u32, u32)>,
    /// Changes on top.
    pub(super) patches: PatchRange,
    /// Version that the row had.
    pub(super) previous: u64,
}

/// The changes of a transaction.
#[derive(Default)]
pub(super) struct Changes {
    list: Vec<Change>,
    /// Where changes are in `list`, once they are more than [`FEW`].
    places: BTreeMap<Place, usize>,
    /// The one whose row was visited for writing last.
    pub(super) visited: usize,
}

impl Changes {
    /// Adds a change; its index.
    fn add(&mut self, change: Change) -> usize {
        let i = self.list.len();
        if i == FEW {
            self.places.extend(self.list.iter().enumerate().map(|(i, change)| (change.place, i)));
        }
        if i >= FEW {
            self.places.insert(change.place, i);
        }
        self.list.push(change);
        i
    }

    /// The change of a row, if there is any.
    pub(super) fn of(&self, place: Place) -> Option<usize> {
        if self.list.len() <= FEW {
            return self.list.iter().rposition(|change| change.place == place);
        }
        self.places.get(&place).copied()
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.places.clear();
    }
}

impl Deref for Changes {
    type Target = [Change];

    fn deref(&self) -> &[Change] {
        &self.list
    }
}

impl DerefMut for Changes {
    fn deref_mut(&mut self) -> &mut [Change] {
        &mut self.list
    }
}

impl<F: Fabric> RowTxn<'_, F> {
    /// The change recorded for a row, if any.
    pub(super) fn change_of(&self, place: Place) -> Option<usize> {
        self.changes.of(place)
    }

    pub(super) fn begin_change(&mut self, place: Place, table: TableId, key: &Key, previous: u64) -> usize {
        let (key, patches) = (*key, PatchRange::default());
        let change =
            Change { place, table, key, is_new: false, doomed: false, image: None, patches, previous };
        self.changes.add(change)
    }
}
