//! Rows by name, for those who wait for each other on different hosts: who waits says what for, and whoever
//! is asked says whether it has that. A name is the same on all hosts; that two rows have one makes somebody
//! give up who need not, and nothing else.

use std::collections::BTreeSet;

use liger_fabric::{Cx, Fabric};
use liger_pod::plan::PartitionId;

use super::latched::Latched;
use super::moves::sentinel_key;
use super::partition::TablePart;
use super::remote::full_hash;
use super::rows::Rows;
use super::work::{RowsHeld, Spot, Work};
use crate::method::TxnState;
use crate::tables::key::Key;
use crate::txn::TableId;

impl<F: Fabric> Work<'_, '_, F> {
    /// Notes which row a step has met that somebody has.
    pub(super) fn wants(&mut self, (partition, table): (PartitionId, TableId), key: &Key) {
        self.state.wanted = Some(full_hash(table, partition, key));
    }
}

impl TablePart {
    /// The key of the first row that is not before this one: the sentinel's behind them all.
    pub(super) fn key_at_or_behind(&self, near: &Key) -> Key {
        let next = self.tree.lower_bound(near.words());
        next.map_or(sentinel_key(self.key_words), |cursor| Key::from_words(self.tree.entry(cursor).0))
    }
}

impl RowsHeld {
    /// Those of these names whose rows the transaction holds.
    pub(super) fn held_among<F: Fabric>(
        &self,
        cx: &Cx<F>,
        host: &Rows,
        state: &TxnState,
        asked: &BTreeSet<u64>,
    ) -> Vec<u64> {
        let changed = state.core.work.changes.iter().map(|change| {
            let place = change.place;
            full_hash(place.table, place.partition, &change.key)
        });
        let foreign = self.foreign.iter().map(|row| full_hash(row.table, row.partition, &row.key));
        let mut held: BTreeSet<u64> = changed.chain(foreign).filter(|name| asked.contains(name)).collect();
        let mut latched = Latched::default();
        for place in &self.held {
            let Some(Spot::Own { partition, table, row }) = Spot::of_row(*place) else { continue };
            let relation = host.catalog.relation(table).expect("a row's table exists");
            let Ok((layout, _)) = relation.table() else { continue };
            let part = latched.reach(cx, (partition, table), |place| host.latch(place));
            let key = match row == part.sentinel {
                true => sentinel_key(part.key_words),
                false => layout.primary.key_of(part.rows.bytes(row)),
            };
            let name = full_hash(table, partition, &key);
            if asked.contains(&name) {
                held.insert(name);
            }
        }
        debug_assert!(held.is_subset(asked), "nothing but what was asked for");
        held.into_iter().collect()
    }
}
