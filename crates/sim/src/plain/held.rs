//! What a transaction holds of plain maps.

use std::collections::BTreeMap;

use liger_engine::Key;
use liger_engine::method::{Holds, RowLocation};

use super::{HALF, Name, PLAIN};

/// What a map holds.
#[derive(Clone, Default)]
pub(super) struct Image {
    pub version: u64,
    /// Versions and bytes, by key.
    pub rows: BTreeMap<Key, (u64, Vec<u8>)>,
}

/// A map that a transaction holds.
pub(super) struct HeldMap {
    pub name: Name,
    pub word: u64,
    pub image: Image,
    /// Keys that it has found or made, by the number of their place; of those that it made, their bytes.
    pub keys: Vec<Key>,
    pub made: BTreeMap<Key, Vec<u8>>,
    pub wrote: bool,
}

impl HeldMap {
    /// The number of a key, and whether it is new.
    pub fn number(&mut self, key: &Key) -> (RowLocation, bool) {
        let (partition, table) = self.name;
        let known = self.keys.iter().position(|other| other == key);
        let number = known.unwrap_or(self.keys.len());
        if known.is_none() {
            self.keys.push(*key);
        }
        (RowLocation { table, partition, method: PLAIN, number: number as u64 }, known.is_none())
    }

    /// What there is of a key below this transaction's changes.
    pub fn row(&self, key: &Key) -> Option<(u64, Vec<u8>)> {
        self.made.get(key).map(|bytes| (0, bytes.clone())).or_else(|| self.image.rows.get(key).cloned())
    }
}

/// The maps that a transaction holds.
#[derive(Default)]
pub struct PlainHeld(pub(super) Vec<HeldMap>);

impl Holds for PlainHeld {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn memory(&self) -> usize {
        HALF * self.0.capacity()
    }

    fn forget_memory(&mut self) {
        self.0 = Vec::new();
    }
}
