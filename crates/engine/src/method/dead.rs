//! What a host that died may have left half done: the last record of each of its rings is the only one whose
//! rows may not all be changed.

use std::collections::BTreeMap;

use liger_fabric::{Cx, Fabric};
use liger_pod::membership::Slot;

use crate::instance::Instance;
use crate::log::record::{Op, Record};
use crate::recovery::RecoveryError;
use crate::tables::key::Key;
use crate::txn::TableId;

/// What the last record of a ring does to a row.
pub struct LastChange {
    /// What it does.
    pub op: Op,
    /// The version.
    pub llsn: u64,
    /// Bytes of the row, by offset.
    pub pieces: Vec<(u16, Vec<u8>)>,
}

/// By table and key.
type LastChanges = BTreeMap<(TableId, Key), LastChange>;

/// Adds the last record of one more ring: of two that change the same row, the newer one says what it is.
fn note(changes: &mut LastChanges, record: &Record<'_>) {
    for change in record.changes() {
        let pieces = change.pieces().map(|(offset, bytes)| (offset, bytes.to_vec())).collect();
        let last = LastChange { op: change.op, llsn: record.llsn(), pieces };
        let known = changes.get(&(change.table, change.key));
        if known.is_none_or(|known| last.llsn >= known.llsn) {
            changes.insert((change.table, change.key), last);
        }
    }
}

/// An incarnation that is over, and what it may have left half done.
pub struct Dead {
    /// The incarnation.
    pub slot: Slot,
    changes: LastChanges,
}

impl Dead {
    /// Reads what a dead host may have left half done.
    ///
    /// # Errors
    /// If a record is damaged: then nobody knows what is to become of the rows that it changes.
    pub(crate) fn read<F: Fabric>(cx: &Cx<F>, host: &Instance, slot: Slot) -> Result<Self, RecoveryError> {
        let mut changes = LastChanges::new();
        let records = host.log.as_ref().map_or_else(Vec::new, |log| log.last_records(cx, slot.host));
        for (worker, bytes) in records {
            // Its tail says that it is whole.
            let damaged = |why| RecoveryError::Ring { host: slot.host, worker: worker.0, why };
            let record = Record::parse(&bytes).map_err(damaged)?;
            note(&mut changes, &record);
        }
        Ok(Self { slot, changes })
    }

    /// The last that it did to a row, if that is among what may not be made yet.
    pub fn last_change(&self, table: TableId, key: &Key) -> Option<&LastChange> {
        self.changes.get(&(table, *key))
    }

    /// All that it did last to rows of a table, by key.
    pub fn last_changes(&self, table: TableId) -> impl Iterator<Item = (&Key, &LastChange)> {
        let of_table = move |(of, _): &&(TableId, Key)| *of == table;
        self.changes.iter().filter(move |(name, _)| of_table(name)).map(|((_, key), change)| (key, change))
    }
}

#[cfg(test)]
mod tests {
    use liger_fabric::HostId;
    use liger_pod::plan::PartitionId;

    use super::*;
    use crate::log::record::{Origin, RecordWriter};

    /// Two workers of the dead host changed one row after each other, and neither has changed another since.
    #[test]
    fn of_two_last_records_that_change_a_row_the_newer_one_counts() {
        let key = Key::build().i32(1).finish();
        let record = |worker: u8, llsn: u64| {
            let mut writer = RecordWriter::default();
            writer.begin();
            writer.change((TableId(3), PartitionId(0)), Op::Update, &key, llsn - 1);
            writer.piece(8, &[worker]);
            writer.finish(llsn, 0, Origin { host: HostId(0), incarnation: 1, worker }).to_vec()
        };
        let (older, newer) = (record(0, 10), record(1, 11));
        for order in [[&older, &newer], [&newer, &older]] {
            let mut changes = LastChanges::new();
            order.iter().for_each(|bytes| note(&mut changes, &Record::parse(bytes).expect("whole")));
            let last = &changes[&(TableId(3), key)];
            assert_eq!((last.llsn, &last.pieces), (11, &vec![(8, vec![1])]));
        }
    }
}
