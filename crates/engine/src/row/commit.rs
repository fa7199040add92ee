//! The end of a transaction.
//!
//! Commit, in this order (`docs/protocols/transactions.md` and `log.md` say what a crash after each step
//! means):
//! 0. if the pod keeps a log, have room promised for the record on storage: who is refused has changed
//!    nothing;
//! 1. take a version above everything touched, in the epoch that is read now that all locks are held;
//! 2. the commit point, if the pod keeps a log: append the record of all changes to this worker's ring;
//! 3. write changed shared rows (own and foreign) through to shared memory, write the lines back, one fence;
//!    write changed rows of this host to DRAM;
//! 4. record the history;
//! 5. release every lock, and remove deleted rows on the way.
//!
//! Until step 5 no other transaction can see anything of it. Step 2 comes before step 3 because rows have no
//! undo: a changed row in shared memory without a record could not be told from a good one.

use liger_fabric::{Cx, DataAddr, Fabric, LatchGuard, Work};
use liger_store::local::RowFlags;

use super::leaving::Name;
use super::partition::{Partition, reach};
use super::shared::{DELETED, SharedRows, row_start};
use super::transaction::{Place, RowTxn};
use crate::catalog::At;
use crate::history::{HistorySink, TxnRecord};
use crate::log::record::{MAX_CHANGES, Op, RecordWriter, epoch_of, first_of};
use crate::log::room::Promise;
use crate::protocol::workspace::Change;
use crate::tables::record::Patches;
use crate::txn::TxnError;

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] =
    &["commit.write-own-dram-copy", "commit.version-above-all-touched", "commit.await-removals"];

impl<'h, F: Fabric> RowTxn<'h, F> {
    /// Makes all changes visible and gives everything back; says up to which epoch the log must hold
    /// everything for this transaction, what it has read included, to survive.
    ///
    /// # Errors
    /// If the record of its changes can never fit into the log: everything is undone then.
    pub(super) fn commit(&mut self) -> Result<u64, TxnError> {
        let wrote = self.has_changed();
        if wrote {
            if let Err(error) = self.take_version_and_log() {
                self.abort();
                return Err(error);
            }
            let shared_foreign = self.write_foreign();
            let shared_own = self.write_own();
            if shared_foreign || shared_own {
                self.cx.fence();
            }
        }
        self.show_history(|sink, record| sink.committed(record));
        let epoch = self.epoch_to_await();
        self.release_all(true);
        if let (Some(log), true) = (&self.host.log, wrote) {
            log.clock().end_commit(self.cx.worker());
        }
        Ok(epoch)
    }

    /// True if there is something to commit.
    pub(super) fn has_changed(&self) -> bool {
        !self.state.core.work.changes.is_empty()
    }

    /// The newest epoch of what this transaction saw and made. That a row is missing may be the work of a
    /// removal, whose version no row shows.
    fn epoch_to_await(&self) -> u64 {
        let epoch = epoch_of(self.state.llsn);
        match &self.host.log {
            Some(log) if self.state.saw_absence && !self.cx.sabotaged("commit.await-removals") => {
                epoch.max(log.clock().newest_removal(self.cx))
            }
            _ => epoch,
        }
    }

    /// Takes the version of all changes and, if the pod keeps a log, appends their record: from then on the
    /// transaction is committed.
    fn take_version_and_log(&mut self) -> Result<(), TxnError> {
        let (cx, host) = (self.cx, self.host);
        let above = if cx.sabotaged("commit.version-above-all-touched") { 0 } else { self.state.llsn };
        let Some(log) = &host.log else {
            self.state.llsn = above + 1;
            self.state.core.note_writes(self.state.llsn);
            return Ok(());
        };
        let recorded =
            || self.state.core.work.changes.iter().filter(|change| !(change.is_new && change.doomed)).count();
        check_changes(self.state.core.work.changes.len(), recorded, MAX_CHANGES)?;
        let mut writer = std::mem::take(&mut self.state.writer);
        let shrinks = self.write_record(&mut writer) || self.state.is_needed;
        let promised = self.promise_room(&writer, shrinks);
        self.state.writer = writer;
        let promise = promised?;
        // A host that the others may take for dead commits nothing.
        if host.is_overruled() || host.member.confirm(cx).is_err() {
            host.overrule();
            promise.into_iter().for_each(|promise| log.take_back(promise));
            return Err(TxnError::Fenced);
        }
        let epoch = log.clock().begin_commit(cx, cx.worker(), epoch_of(above + 1));
        self.state.llsn = (above + 1).max(first_of(epoch));
        // In another epoch, it would be told durable while it is not.
        assert_eq!(epoch_of(self.state.llsn), epoch, "a version of the epoch that is shown");
        self.state.core.note_writes(self.state.llsn);
        self.show_history(|sink, record| sink.committing(record));
        if self.state.core.work.changes.iter().any(|change| change.doomed) {
            log.clock().note_removal(cx, epoch);
        }
        let Some(promise) = promise else { return Ok(()) };
        let ring = self.token.as_mut().and_then(|token| token.log.as_mut());
        let ring = ring.expect("a worker of a host with a log has a ring");
        let serve = |cx: &Cx<F>| _ = host.serve_waiting(cx);
        let appended = ring.append(cx, log, &mut self.state.writer, promise, self.state.llsn, serve);
        appended.map(drop).map_err(|error| {
            log.clock().end_commit(self.cx.worker());
            error.into()
        })
    }

    /// Has room promised for the record of this transaction, which has changed nothing yet that others can
    /// see; none for an empty one.
    fn promise_room(&self, writer: &RecordWriter, shrinks: bool) -> Result<Option<Promise>, TxnError> {
        let (cx, host) = (self.cx, self.host);
        let ring = self.token.as_ref().and_then(|token| token.log.as_ref());
        let (Some(log), Some(ring), false) = (&host.log, ring, writer.is_empty()) else {
            return Ok(None);
        };
        Ok(Some(ring.promise(cx, log, writer, shrinks, |cx| _ = host.serve_waiting(cx))?))
    }

    /// Puts together what the log keeps of the changes. An index is a table like others: it has images of its
    /// own, and who resolves this host's locks must know what became of its entries. True if more rows go
    /// than come.
    fn write_record(&mut self, writer: &mut RecordWriter) -> bool {
        let mut more = 0i64;
        writer.begin();
        for change in self.state.core.work.changes.iter() {
            let op = match (change.is_new, change.doomed) {
                (true, true) => continue,
                (true, false) => Op::Insert,
                (false, true) => Op::Delete,
                (false, false) => Op::Update,
            };
            more += match op {
                Op::Insert => 1,
                Op::Update => 0,
                Op::Delete => -1,
            };
            let partition = match change.place {
                Place::Own { partition, .. } => partition,
                Place::Foreign(i) => self.state.foreign[i as usize].partition,
            };
            let previous = if change.is_new { 0 } else { change.previous };
            writer.change((change.table, partition), op, &change.key, previous);
            match change.image {
                _ if change.doomed => {}
                Some((start, end)) => {
                    let image = &mut self.state.core.work.images[start as usize..end as usize];
                    self.state.core.work.patches.apply(change.patches, image);
                    writer.piece(0, image);
                }
                None => {
                    for (offset, bytes) in self.state.core.work.patches.iter(change.patches) {
                        writer.piece(offset, bytes);
                    }
                }
            }
        }
        more < 0
    }

    /// Undoes everything.
    pub(super) fn abort(&mut self) {
        self.release_all(false);
    }

    /// Writes changed rows of other hosts to their blocks; true if there were any.
    fn write_foreign(&mut self) -> bool {
        let mut any = false;
        for change in self.state.core.work.changes.iter() {
            let Place::Foreign(i) = change.place else { continue };
            let row = &mut self.state.foreign[i as usize];
            if change.doomed {
                // This host keeps the write lock until the owner has removed the row. Should it die before,
                // with later records in its ring, the block tells what becomes of the row.
                if !change.is_new {
                    self.cx.write(row.at.block(), &(self.state.llsn | DELETED).to_ne_bytes());
                    self.host.shared.write_back(self.cx, row.at.block(), 8);
                    any = true;
                }
                continue;
            }
            let key_words = row.key.width();
            write_through(
                self.cx,
                (self.host.shared, row.at.block()),
                key_words,
                self.state.llsn,
                change,
                &self.state.core.work.patches,
                &self.state.core.work.images,
            );
            row.wrote = true;
            any = true;
        }
        any
    }

    /// Writes changed rows of this host to DRAM, and to their blocks if they are shared; true if any was.
    fn write_own(&mut self) -> bool {
        let (cx, host) = (self.cx, self.host);
        let mut any_shared = false;
        let mut latched: Option<LatchGuard<'h, Partition>> = None;
        for change in self.state.core.work.changes.iter() {
            let Place::Own { partition, table, row } = change.place else { continue };
            if change.doomed {
                continue;
            }
            let part = reach(&mut latched, partition, |p| host.partition(cx, p)).table(table);
            if let Some(at) = part.address(row) {
                let block = (host.shared, at.block());
                write_through(
                    cx,
                    block,
                    part.key_words,
                    self.state.llsn,
                    change,
                    &self.state.core.work.patches,
                    &self.state.core.work.images,
                );
                part.set_flag(row, RowFlags::WRITTEN, true);
                any_shared = true;
            }
            if change.is_new {
                part.set_flag(row, RowFlags::PLACEHOLDER, false);
            }
            if part.address(row).is_some() && cx.sabotaged("commit.write-own-dram-copy") {
                continue;
            }
            let bytes = part.rows.bytes_mut(row);
            if let Some((start, end)) = change.image {
                bytes.copy_from_slice(&self.state.core.work.images[start as usize..end as usize]);
            }
            self.state.core.work.patches.apply(change.patches, bytes);
            part.rows.set_version(row, self.state.llsn);
            cx.spend(Work::DramLine, 2);
        }
        any_shared
    }

    fn show_history(&self, show: impl FnOnce(&dyn HistorySink, &TxnRecord)) {
        self.state.core.show_history(self.host.history(), show);
    }

    fn release_all(&mut self, committed: bool) {
        let (cx, host) = (self.cx, self.host);
        let mut latched: Option<LatchGuard<'h, Partition>> = None;
        let held = std::mem::take(&mut self.state.held);
        for &place in &held {
            match place {
                Place::Foreign(i) => {
                    latched = None;
                    self.release_foreign(i as usize, committed);
                }
                Place::Own { partition, table, row } => {
                    let part = reach(&mut latched, partition, |p| host.partition(cx, p)).table(table);
                    let flags = part.rows.holders(row).flags;
                    let fresh = flags.has(RowFlags::PLACEHOLDER);
                    let doomed = flags.has(RowFlags::DELETED);
                    if fresh || committed && doomed {
                        let change = self
                            .state
                            .core
                            .work
                            .changes
                            .number(&place)
                            .expect("a row that goes has a change");
                        let key = self.state.core.work.changes[change].key;
                        let llsn = if committed && !fresh { self.state.llsn } else { 0 };
                        host.remove_row(cx, part, &key, row, host.me, llsn);
                    } else {
                        part.unlock(cx, host.shared, row, self.state.me);
                    }
                }
            }
        }
        drop(latched);
        self.state.held = held;
        self.clear();
    }

    pub(super) fn release_foreign(&mut self, i: usize, committed: bool) {
        let (cx, host) = (self.cx, self.host);
        let row = self.state.foreign[i];
        let change = self
            .state
            .core
            .work
            .changes
            .number(&Place::Foreign(i as u32))
            .map(|change| &self.state.core.work.changes[change]);
        let goes = change.is_some_and(|c| if committed { c.doomed } else { c.is_new });
        let mut shard = host.remote.shard(cx, row.hash);
        let entry = shard.get_mut(&row.hash).expect("a held row has its entry");
        if goes {
            debug_assert_eq!(entry.writer, self.state.me.writer());
            let name = Name { hash: row.hash, table: row.table, partition: row.partition, key: row.key };
            let llsn = if committed && change.is_some_and(|c| !c.is_new) { self.state.llsn } else { 0 };
            host.give_away(cx, shard, &name, row.at, llsn);
            return;
        }
        entry.readers &= !self.state.me.bit();
        if entry.writer == self.state.me.writer() {
            entry.writer = 0;
            host.shared.release_write(cx, row.at, row.wrote, row.wrote);
        } else if entry.readers == 0 {
            host.shared.release_read(cx, row.at);
        }
        drop(shard);
        // A broken index is for those to tell who need it.
        let relation = host.catalog.relation(row.table).expect("a row's table exists");
        let _ = self.refer(At::new(relation, row.partition), &row.key);
    }

    fn clear(&mut self) {
        self.state.held.clear();
        self.state.foreign.clear();
        self.state.core.clear();
    }
}

/// A record has at most `limit` changes: those of `all` that are no row which came and went again.
fn check_changes(all: usize, recorded: impl FnOnce() -> usize, limit: usize) -> Result<(), TxnError> {
    let changes = if all <= limit { all } else { recorded() };
    if changes <= limit { Ok(()) } else { Err(TxnError::TooMany { changes, limit }) }
}

/// Writes a change to a row's block in shared memory and starts the write-back of the lines it touched.
fn write_through<F: Fabric>(
    cx: &Cx<F>,
    (shared, block): (SharedRows, DataAddr),
    key_words: usize,
    llsn: u64,
    change: &Change<Place>,
    patches: &Patches,
    images: &[u8],
) {
    let start = block.byte(row_start(key_words));
    if let Some((from, to)) = change.image {
        let image = &images[from as usize..to as usize];
        cx.write(start, image);
        shared.write_back(cx, start, image.len());
    }
    let mut dirty = Dirty { shared, from: 0, to: 8 };
    cx.write(block, &llsn.to_ne_bytes());
    for (offset, bytes) in patches.iter(change.patches) {
        let at = start.byte(u64::from(offset));
        cx.write(at, bytes);
        let (from, to) = (at.offset() - block.offset(), at.offset() - block.offset() + bytes.len() as u64);
        dirty.add(cx, block, from, to);
    }
    dirty.write_back(cx, block);
}

/// A run of changed bytes of a block whose lines are written back together.
struct Dirty {
    shared: SharedRows,
    from: u64,
    to: u64,
}

impl Dirty {
    /// Adds bytes; a run that does not touch or neighbour the lines so far starts anew.
    fn add<F: Fabric>(&mut self, cx: &Cx<F>, block: DataAddr, from: u64, to: u64) {
        let line = liger_fabric::LINE as u64;
        if from / line <= self.to.div_ceil(line) && to.div_ceil(line) >= self.from / line {
            self.from = self.from.min(from);
            self.to = self.to.max(to);
        } else {
            self.write_back(cx, block);
            (self.from, self.to) = (from, to);
        }
    }

    fn write_back<F: Fabric>(&self, cx: &Cx<F>, block: DataAddr) {
        self.shared.write_back(cx, block.byte(self.from), (self.to - self.from) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_has_as_many_changes_as_a_record() {
        let check = |all, recorded| check_changes(all, || recorded, 10);
        assert_eq!(check(10, 10), Ok(()));
        assert_eq!(check(11, 10), Ok(()), "one came and went");
        assert_eq!(check(12, 11), Err(TxnError::TooMany { changes: 11, limit: 10 }));
    }
}
