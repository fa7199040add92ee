//! What a host that died may have left half done: the last transaction of each of its rings is the only one
//! whose rows may not all be changed.
//!
//! Invariants:
//! 1. Of a transaction with several records (log/fragments.rs) all are known, or nothing is touched: those
//!    that are not in the ring any more are in the dead host's log, for the ring was told so.

use std::collections::BTreeMap;

use liger_fabric::{Cx, Fabric, HostId, WorkerId};
use liger_pod::membership::Slot;

use crate::instance::Instance;
use crate::log::fragments::{Next, Unfinished};
use crate::log::record::{BadRecord, Extent, Op, Record};
use crate::recovery::directory::PodFiles;
use crate::recovery::{RecoveryError, show_records};
use crate::tables::key::Key;
use crate::txn::TableId;

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &[
    "resolve.read-fragments",
    "resolve.once-each",
    "resolve.version-of-the-last",
    "resolve.last-of-several",
];

/// Where the logs of all hosts are.
#[derive(Clone, Copy)]
pub struct Logs<'a> {
    /// Their directories.
    pub files: &'a PodFiles,
    /// The pod's number.
    pub pod: u64,
}

/// What the last transaction of a ring does to a row.
pub struct LastChange {
    /// What it does.
    pub op: Op,
    /// The version; 0 in a fragment.
    pub llsn: u64,
    /// Bytes of the row, by offset.
    pub pieces: Vec<(u16, Vec<u8>)>,
}

/// By table and key.
type LastChanges = BTreeMap<(TableId, Key), LastChange>;

/// Adds what a record changes.
fn note(changes: &mut LastChanges, record: &Record<'_>) -> Result<(), BadRecord> {
    for change in record.changes() {
        let change = change?;
        let pieces = change.pieces.iter().map(|(offset, bytes)| (offset, bytes.to_vec())).collect();
        let last = LastChange { op: change.op, llsn: record.llsn(), pieces };
        add(changes, (change.table, change.key()), last);
    }
    Ok(())
}

/// Of two last transactions that change the same row, the newer one says what it is.
fn add(changes: &mut LastChanges, row: (TableId, Key), last: LastChange) {
    let known = changes.get(&row);
    if known.is_none_or(|known| last.llsn >= known.llsn) {
        changes.insert(row, last);
    }
}

/// An incarnation that is over, and what it may have left half done.
pub struct Dead {
    /// The incarnation.
    pub slot: Slot,
    changes: LastChanges,
}

impl Dead {
    /// An incarnation of a pod that keeps no log: nothing of its last transactions is finished.
    pub fn without_log(slot: Slot) -> Self {
        Self { slot, changes: LastChanges::new() }
    }

    /// Reads what a dead host may have left half done; `turn` is called now and then, if that takes long.
    ///
    /// # Errors
    /// If a record is damaged, or the log with some of them cannot be read: then nobody knows what is to
    /// become of the rows that they change.
    pub(crate) fn read<F: Fabric>(
        cx: &Cx<F>,
        host: &Instance,
        slot: Slot,
        logs: Option<Logs<'_>>,
        turn: &mut dyn FnMut(),
    ) -> Result<Self, RecoveryError> {
        let Some(log) = &host.log else { return Ok(Self::without_log(slot)) };
        let (mut changes, mut long) = (LastChanges::new(), Vec::new());
        for (worker, bytes) in log.last_records(cx, slot.host) {
            // Its tail says that it is whole.
            let record = Record::parse(&bytes).map_err(|why| damaged(slot.host, worker, why))?;
            match record.extent() {
                Extent::Last { first } if !cx.sabotaged("resolve.read-fragments") => {
                    let (head, bytes) = log.ring_from(cx, (slot.host, worker), first);
                    long.push(Long { worker, first, head, bytes });
                }
                Extent::Whole | Extent::Last { .. } => {
                    note(&mut changes, &record).map_err(|why| damaged(slot.host, worker, why))?;
                }
                // It has not committed.
                Extent::Fragment { .. } => {}
            }
        }
        read_long(cx, (slot.host, logs), &long, &mut changes, turn)?;
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

/// The last transaction of a ring that has several records.
struct Long {
    worker: WorkerId,
    /// Where its first record begins in the ring's stream.
    first: u64,
    /// From here on its records are in the ring, and not known to be anywhere else; these are they.
    head: u64,
    bytes: Vec<u8>,
}

fn damaged(host: HostId, worker: WorkerId, why: BadRecord) -> RecoveryError {
    RecoveryError::Ring { host, worker: worker.0, why }
}

/// Adds the changes of transactions with several records.
fn read_long<F: Fabric>(
    cx: &Cx<F>,
    (host, logs): (HostId, Option<Logs<'_>>),
    long: &[Long],
    changes: &mut LastChanges,
    turn: &mut dyn FnMut(),
) -> Result<(), RecoveryError> {
    let mut unfinished = Unfinished::<LastChanges>::default();
    if let Some(earlier) = long.iter().find(|it| it.first < it.head) {
        let missing = RecoveryError::Fragments { host, worker: earlier.worker.0 };
        let Logs { files, pod } = logs.ok_or(missing)?;
        let mut noted = Ok(());
        show_records(cx, &files.look(host)?, pod, turn, |record| {
            let is_of = |it: &&Long| {
                it.worker.0 == record.origin().worker
                    && (cx.sabotaged("resolve.once-each") || record.position() < it.head)
            };
            if long.iter().any(|it| is_of(&it))
                && let Next::Waits(Some(kept)) = unfinished.next(record)
                && noted.is_ok()
            {
                let bad = |why| damaged(host, WorkerId(record.origin().worker), why);
                noted = note(kept, record).map_err(bad);
            }
        })?;
        noted?;
    }
    for Long { worker, bytes, .. } in long {
        let (mut rest, mut ended) = (&bytes[..], false);
        while !rest.is_empty() {
            let record = Record::parse(rest).map_err(|why| damaged(host, *worker, why))?;
            rest = &rest[record.len()..];
            match unfinished.next(&record) {
                Next::Waits(Some(kept)) => {
                    note(kept, &record).map_err(|why| damaged(host, *worker, why))?;
                }
                Next::Ends(kept) => {
                    for (row, last) in kept {
                        let of_the_last = !cx.sabotaged("resolve.version-of-the-last");
                        let llsn = if of_the_last { record.llsn() } else { last.llsn };
                        add(changes, row, LastChange { llsn, ..last });
                    }
                    if !cx.sabotaged("resolve.last-of-several") {
                        note(changes, &record).map_err(|why| damaged(host, *worker, why))?;
                    }
                    ended = true;
                }
                Next::Counts | Next::Waits(None) | Next::LacksFragments => {
                    return Err(RecoveryError::Fragments { host, worker: worker.0 });
                }
            }
        }
        assert!(ended, "its last record is there");
    }
    Ok(())
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
            for bytes in order {
                note(&mut changes, &Record::parse(bytes).expect("whole")).expect("sane");
            }
            let last = &changes[&(TableId(3), key)];
            assert_eq!((last.llsn, &last.pieces), (11, &vec![(8, vec![1])]));
        }
    }
}
