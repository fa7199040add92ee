//! The owner's side of sharing: rows move into shared memory, move out, are created for and removed by other
//! hosts.
//!
//! Invariants:
//! 1. Only the owner of a partition moves its rows, under its share's latch; so an index of shared rows
//!    has one writing host.
//! 2. A row is published in this order: block written, written back and fenced; entry in the shared index;
//!    cell born; neighbour bits. It leaves in the opposite order, after its cell is dead: from then on nobody
//!    can lock it, so its block and word can be reused at once. Only index nodes need a grace period.
//! 3. Cells stay with their blocks' places: whoever comes late locks a cell that is dead, or another row's,
//!    whose key differs.
//!
//! What happens if a host dies at each step: docs/protocols/data-movement.md.

use liger_fabric::{Cx, Fabric, HostId, Work};
use liger_pod::heap::{BlockClass, OutOfMemory, TupleAddr};
use liger_pod::plan::PartitionId;
use liger_store::bwtree::TreeError;

use super::block::{DELETED, RowHead, UNCOMMITTED, VERSION};
use super::message::{Action, Answer, Removal};
use super::out_of_memory::{Eviction, Outcome};
use super::partition::{RowId, TablePart};
use super::policy::SharedRow;
use super::rows::Rows;
use super::shared::Held;
use crate::instance::count;
use crate::protocol::failure::Failure;
use crate::tables::key::{Key, KeyRange};
use crate::txn::TableId;

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &[
    "moves.retract-from-index",
    "moves.copy-back",
    "moves.kill-before-copy-back",
    "moves.remember-removed-version",
    "moves.only-rows-of-before",
];

/// The key of the sentinel row in the shared index: no row has it.
pub fn sentinel_key(words: usize) -> Key {
    Key::greatest(words)
}

impl Rows {
    /// Shares a row. The row's share of the partition is latched. With `holder`, another host gets the write
    /// lock at once.
    pub(super) fn move_in<F: Fabric>(
        &self,
        cx: &Cx<F>,
        part: &mut TablePart,
        place: (PartitionId, TableId),
        key: &Key,
        row: RowId,
        holder: Option<HostId>,
    ) -> Result<TupleAddr, TreeError> {
        debug_assert!(part.address(row).is_none(), "a row is shared once");
        let (partition, table) = place;
        let len = part.block_len();
        self.retract_stale(cx, part)?;
        let at = self.place_for(cx, len)?;
        let uncommitted = if holder.is_some() { UNCOMMITTED } else { 0 };
        let head = RowHead::new(place, part.rows.version(row) | uncommitted);
        self.shared.write_block(cx, at.block(), head, key.words(), part.rows.bytes(row));
        cx.spend(Work::DramLine, len.div_ceil(64) as u32);
        // The row is in shared memory before its cell can live.
        cx.fence();
        let holders = part.rows.holders(row);
        let held = match holder {
            Some(host) => Held::Write(host),
            None if holders.writer != 0 => Held::Write(self.me),
            None if holders.readers != 0 => Held::Read(self.me),
            None => Held::Free,
        };
        // The cell is still dead: nobody can have locked it if there is no room in the index.
        if let Err(failed) = self.publish(cx, part, key, at) {
            self.heap.free(cx, BlockClass::Row, at.block(), len);
            return Err(failed);
        }
        self.shared.bear(cx, at, held);
        part.rows.set_shared(row, at.raw());
        debug_assert_eq!(part.address(row), Some(at), "its owner finds it there");
        self.link_around(cx, part, key, row);
        self.move_out.lock(cx).moved_in(SharedRow { partition, table, row, at });
        self.out_of_memory.lock(cx).is_over(table);
        count(&self.moves.moved_in, 1);
        count(&self.moves.shared_rows, 1);
        Ok(at)
    }

    /// A place for a row of so many bytes that no index entry of an earlier row leads to.
    fn place_for<F: Fabric>(&self, cx: &Cx<F>, len: usize) -> Result<TupleAddr, OutOfMemory> {
        let mut reserved = Vec::new();
        let found = loop {
            match self.heap.alloc_row(cx, len) {
                Ok(at) if self.shared.is_reserved(cx, at) => reserved.push(at),
                found => break found,
            }
        };
        reserved.into_iter().for_each(|at| self.heap.free(cx, BlockClass::Row, at.block(), len));
        found
    }

    /// Puts a row's address into the shared index.
    fn publish<F: Fabric>(
        &self,
        cx: &Cx<F>,
        part: &mut TablePart,
        key: &Key,
        at: TupleAddr,
    ) -> Result<(), TreeError> {
        let insert = |part: &mut TablePart| part.index.insert(cx, &self.tree_env(), key.words(), at.raw());
        let added = match insert(part) {
            // Otherwise it should be there: its word is damaged.
            Err(TreeError::NotFormatted { .. }) if part.lacks_index => {
                part.index.create(cx, &self.tree_env())?;
                part.lacks_index = false;
                insert(part)?
            }
            inserted => inserted?,
        };
        assert!(added, "a row that is not shared is not in the shared index");
        Ok(())
    }

    /// Takes out the index entries that an earlier removal could not: rows may begin again where they lead.
    pub(super) fn retract_stale<F: Fabric>(&self, cx: &Cx<F>, part: &mut TablePart) -> Result<(), TreeError> {
        while let Some((key, at)) = part.stale.last().copied() {
            part.index.remove(cx, &self.tree_env(), key.words())?;
            part.stale.pop();
            self.shared.reserve(cx, at, false);
        }
        Ok(())
    }

    /// Sets the neighbour bits around a row that is now shared.
    fn link_around<F: Fabric>(&self, cx: &Cx<F>, part: &TablePart, key: &Key, row: RowId) {
        let (before, next) = part.neighbours(cx, key);
        if part.is_restored_below(key) {
            part.link(cx, self.shared, before, row);
        }
        if row != part.sentinel && part.is_restored_above(key) {
            part.link(cx, self.shared, Some(row), next);
        }
    }

    /// Takes an idle row out of shared memory. False if somebody holds it, or if its block is damaged and the
    /// DRAM copy is behind: then it stays, refused. The row's share of the partition is latched.
    pub(super) fn move_row_out<F: Fabric>(&self, cx: &Cx<F>, part: &mut TablePart, row: RowId) -> bool {
        let Some(at) = part.address(row) else { return false };
        if !part.is_unheld(row) {
            return false;
        }
        let early = cx.sabotaged("moves.kill-before-copy-back");
        if early {
            self.shared.freshen(cx, at.block(), part.block_len());
            let _ = part.copy_back(cx, self.shared, row, at.block());
        }
        let Some(before) = self.shared.retire_free(cx, at) else { return false };
        if !self.shared.is_fresh(cx, before) {
            self.shared.freshen(cx, at.block(), part.block_len());
        }
        let copies = self.shared.is_behind(before) && !early && !cx.sabotaged("moves.copy-back");
        let shared = SharedRow { partition: part.place.0, table: part.place.1, row, at };
        if copies && part.copy_back(cx, self.shared, row, at.block()).is_err() {
            self.shared.revive(cx, at);
            self.note_damaged(cx, shared);
            return false;
        }
        let key = self.key_of(cx, part, shared).expect("a row that was neither removed nor undone has a key");
        self.withdraw(cx, part, &key, row, at);
        count(&self.moves.moved_out, 1);
        true
    }

    /// Removes a dead row's traces from shared memory.
    fn withdraw<F: Fabric>(&self, cx: &Cx<F>, part: &mut TablePart, key: &Key, row: RowId, at: TupleAddr) {
        let (before, next) = part.neighbours(cx, key);
        self.keep_chain(cx, part, key, at);
        part.rows.set_shared(row, 0);
        part.unlink(cx, self.shared, before, if row == part.sentinel { row } else { next });
        let removed = match cx.sabotaged("moves.retract-from-index") {
            true => Ok(Some(at.raw())),
            false => part.index.remove(cx, &self.tree_env(), key.words()),
        };
        match removed {
            Ok(removed) => {
                debug_assert_eq!(removed, Some(at.raw()), "a shared row is in the index");
            }
            // The entry leads to a dead cell until it can be taken out: when there is memory, or, if the
            // index is damaged, never. Then nothing enters it either, and who wants that is told why.
            Err(_) => {
                self.shared.reserve(cx, at, true);
                part.stale.push((*key, at));
            }
        }
        self.heap.free(cx, BlockClass::Row, at.block(), part.block_len());
        self.moves.shared_rows.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
    }

    /// Takes a row out of the partition for ever: a committed delete, or the undo of an insert. `holder`,
    /// whose write lock it is, will not touch it again. The row's share of the partition is latched.
    pub(super) fn remove_row<F: Fabric>(
        &self,
        cx: &Cx<F>,
        part: &mut TablePart,
        key: &Key,
        row: RowId,
        holder: HostId,
        llsn: u64,
    ) {
        if !cx.sabotaged("moves.remember-removed-version") {
            part.max_removed_llsn = part.max_removed_llsn.max(llsn);
        }
        if let Some(at) = part.address(row) {
            self.shared.retire_held(cx, at, holder);
            self.withdraw(cx, part, key, row, at);
        }
        let removed = part.tree.remove_between(key.words());
        debug_assert_eq!(removed.map(|(_, removed, _)| removed), Some(row));
        part.rows.free(row);
        part.note_removed(key);
        if part.is_restored_below(key) && part.is_restored_above(key) {
            // The model's costs were fitted with a search of the tree here.
            cx.spend(Work::IndexNode, part.height());
            let (before, next) = removed.map_or((None, None), |(before, _, next)| (before, next));
            part.link(cx, self.shared, before, next.unwrap_or(part.sentinel));
        }
    }

    /// Does what another host asks of a partition of this one. Whether it is this host's, and open, is seen
    /// under the latch of the table's share: it may have been closed to be given away.
    pub(super) fn grant<F: Fabric>(
        &self,
        cx: &Cx<F>,
        from: (HostId, u16),
        table: TableId,
        partition: PartitionId,
        action: &Action,
    ) -> Answer {
        let attempt = || match action {
            Action::MoveIn(key) => self.share(cx, table, partition, key),
            Action::MoveInRange { range, limit } => self.share_range(cx, table, partition, range, *limit),
            Action::Create(key) => self.create(cx, from, table, partition, key),
            Action::Copy(asked) => self.copy_as_of(cx, from, (partition, table), asked),
        };
        if let Action::Copy(_) = action {
            // That needs no room.
            return attempt();
        }
        // Room is made before, not after: a row that has just moved in must still be there when its requester
        // comes.
        self.look_at_uses(cx);
        self.evict(cx);
        loop {
            let answer = attempt();
            if !matches!(answer, Answer::Failed(Failure::SharedMemory { .. })) {
                return answer;
            }
            match self.make_room(cx, table) {
                Outcome::TryNow => {}
                Outcome::TryLater => return Answer::RoomLater,
                Outcome::Exhausted => return answer,
            }
        }
    }

    /// Lets rows leave for one of `table` that shared memory has no room for.
    fn make_room<F: Fabric>(&self, cx: &Cx<F>, table: TableId) -> Outcome {
        let waiting = self.epochs.waiting(cx);
        let eviction = self.out_of_memory.lock(cx).eviction(table, waiting);
        let Eviction::Evict(rows) = eviction else { return Outcome::TryLater };
        // What leaves may leave holes of other sizes: the more go, the sooner a chunk is free.
        let left = self.move_out_some(cx, rows);
        self.collect(cx);
        let waiting = self.epochs.waiting(cx);
        self.out_of_memory.lock(cx).rows_have_left(table, left, waiting)
    }

    fn share<F: Fabric>(&self, cx: &Cx<F>, table: TableId, partition: PartitionId, key: &Key) -> Answer {
        let mut latched = match self.restore_around(cx, (partition, table), key) {
            Ok(latched) => latched,
            Err(error) => return Answer::Failed(error.into()),
        };
        if !self.owns(partition) {
            return Answer::Conflict;
        }
        let part = &mut *latched;
        let Some(row) = part.find(cx, key) else { return Answer::Absent };
        match self.share_row(cx, part, (partition, table), key, row) {
            Ok(at) => Answer::Shared(at),
            Err(refused) => refused,
        }
    }

    fn share_row<F: Fabric>(
        &self,
        cx: &Cx<F>,
        part: &mut TablePart,
        place: (PartitionId, TableId),
        key: &Key,
        row: RowId,
    ) -> Result<TupleAddr, Answer> {
        if let Some(at) = part.address(row) {
            return Ok(at);
        }
        // It could be shared write-locked, for its owner to release; but nobody has a use for it before.
        if part.is_uncommitted(row) {
            return Err(Answer::Held(*key));
        }
        self.move_in(cx, part, place, key, row, None).map_err(|error| Answer::Failed(error.into()))
    }

    fn share_range<F: Fabric>(
        &self,
        cx: &Cx<F>,
        table: TableId,
        partition: PartitionId,
        range: &KeyRange,
        limit: u32,
    ) -> Answer {
        let limit = limit as usize;
        let mut latched = self.part(cx, (partition, table));
        while let Some(unrestored) = unrestored_to_share(&latched, range, limit) {
            drop(latched);
            if let Err(error) = self.restore_key(cx, (partition, table), &unrestored) {
                return Answer::Failed(error.into());
            }
            latched = self.part(cx, (partition, table));
        }
        if !self.owns(partition) {
            return Answer::Conflict;
        }
        let part = &mut *latched;
        if let Err(error) = self.retract_stale(cx, part) {
            return Answer::Failed(error.into());
        }
        let rows = rows_to_share(part, range, limit);
        let mut refused = None;
        for (key, row) in &rows {
            match self.share_row(cx, part, (partition, table), key, *row) {
                Ok(_) => {}
                // Who passes over rows that others hold wants those behind it.
                Err(held @ Answer::Held(_)) => refused = Some(held),
                Err(failed) => return failed,
            }
        }
        if let Some(refused) = refused {
            return refused;
        }
        // Rows that were shared before may have lost sight of each other.
        if part.is_restored_below(&rows[0].0) {
            let (before, _) = part.neighbours(cx, &rows[0].0);
            part.link(cx, self.shared, before, rows[0].1);
        }
        for pair in rows.windows(2) {
            part.link(cx, self.shared, Some(pair[0].1), pair[1].1);
        }
        Answer::RangeShared
    }

    fn create<F: Fabric>(
        &self,
        cx: &Cx<F>,
        (from, incarnation): (HostId, u16),
        table: TableId,
        partition: PartitionId,
        key: &Key,
    ) -> Answer {
        let mut latched = match self.restore_around(cx, (partition, table), key) {
            Ok(latched) => latched,
            Err(error) => return Answer::Failed(error.into()),
        };
        // Under the latch: who sweeps this partition of a dead host's locks has fenced it before, and who
        // gives the partition away has closed it.
        if self.owners.is_fenced(from, incarnation) || !self.owns(partition) {
            return Answer::Conflict;
        }
        let part = &mut *latched;
        let around = part.around(cx, key);
        if let Some(row) = around.found {
            return if part.is_uncommitted(row) { Answer::Held(*key) } else { Answer::Duplicate };
        }
        let (before, next) = (around.prev, part.behind(&around));
        let from_bit = 1u16 << from.0;
        let tolerated = if self.policies.next_key_locking { from_bit | 1 << self.me.0 } else { u16::MAX };
        let Ok(next_was) = part.open_gap(cx, self.shared, before, next, None, tolerated) else {
            return Answer::Held(part.key_at_or_behind(key));
        };
        let Some(row) = part.rows.alloc() else {
            part.link(cx, self.shared, before, next);
            return Answer::Failed(Failure::Rows { needed_bytes: part.row_len as u64 });
        };
        part.rows.set_version(row, part.max_removed_llsn);
        part.tree.insert_near(&around, key.words(), row);
        let llsn = part.max_removed_llsn;
        match self.move_in(cx, part, (partition, table), key, row, Some(from)) {
            Ok(at) => {
                let theirs = next_was.is_some_and(|w| w.is_held_by(from));
                let behind = || part.key_at_or_behind(&key.next().expect("the sentinel is behind every row"));
                let next = part.address(next).filter(|_| theirs).map(|next| (next, behind()));
                Answer::Created { at, next, llsn }
            }
            Err(error) => {
                part.tree.remove(key.words());
                part.rows.free(row);
                part.link(cx, self.shared, before, next);
                Answer::Failed(error.into())
            }
        }
    }

    /// Removes a row whose write lock `from` has: its insert was undone, or its delete committed.
    pub(super) fn remove_for<F: Fabric>(
        &self,
        cx: &Cx<F>,
        from: HostId,
        (partition, table): (PartitionId, TableId),
        key: &Key,
        which: Removal,
    ) {
        let mut latched = self.part(cx, (partition, table));
        let part = &mut *latched;
        let Some((row, at)) = part.find(cx, key).and_then(|row| Some((row, part.address(row)?))) else {
            return self.drop_message();
        };
        // It may have been removed already: by the owner that died, or by whoever swept up after the sender.
        let is_its = self.shared.peek(cx, at).writer() == Some(from);
        let is_meant = || match which.again {
            false => which.at == Some(at),
            true => self.is_of_before(cx, part, at, which),
        };
        match is_its && is_meant() {
            true => self.remove_row(cx, part, key, row, from, which.llsn),
            false => self.drop_message(),
        }
    }

    /// True if the row there, whose write lock the giver's host has, is what it had given to the owner before
    /// this one. It can be a later one, in the same place: then that owner had removed the row, and the
    /// giver's host, which did not know, uses another one now.
    fn is_of_before<F: Fabric>(&self, cx: &Cx<F>, part: &TablePart, at: TupleAddr, which: Removal) -> bool {
        let Removal { at: named, uncommitted, llsn, .. } = which;
        if named == Some(at) && cx.sabotaged("moves.only-rows-of-before") {
            return true;
        }
        // Whoever uses a later one may be writing it; nobody writes the row that is meant.
        cx.begin_unsure();
        self.shared.freshen(cx, at.block(), part.block_len());
        let now = cx.read_layout::<RowHead>(at.block()).llsn;
        let is_deleted = named == Some(at) && llsn != 0 && now == llsn | DELETED;
        // One that was made later is another insert's: mail of one host may be handled side by side.
        let is_uncommitted = now & UNCOMMITTED != 0 && now & VERSION < part.adopted_llsn;
        let is_meant = is_deleted || is_uncommitted && (uncommitted || named == Some(at) && llsn == 0);
        let is_meant = is_meant && self.shared.is_sound(cx, at.block(), part.shape());
        cx.end_unsure(is_meant);
        is_meant
    }
}

/// A key whose row a scanner of `range` may need, and which may not be here yet.
fn unrestored_to_share(part: &TablePart, range: &KeyRange, limit: usize) -> Option<Key> {
    if part.is_restored() {
        return None;
    }
    let rows = rows_to_share(part, range, limit);
    let ends = |at: Option<&(Key, RowId)>| at.map(|row| row.0);
    let low = ends(rows.first()).filter(|key| *key <= range.low);
    let high = ends(rows.last()).filter(|_| rows.last().is_some_and(|row| row.1 != part.sentinel));
    part.first_unrestored_key(low.as_ref(), high.as_ref())
}

/// What a scanner of `range` needs: up to `limit` rows of it, the row before (unless one stands at its
/// start), and the first row beyond what it gets, if need be the sentinel.
fn rows_to_share(part: &TablePart, range: &KeyRange, limit: usize) -> Vec<(Key, RowId)> {
    let tree = &part.tree;
    let entry = |cursor| {
        let (words, row) = tree.entry(cursor);
        (Key::from_words(words), row)
    };
    let mut rows = Vec::with_capacity(limit + 2);
    let mut at = tree.lower_bound(range.low.words());
    if at.is_none_or(|cursor| entry(cursor).0 != range.low) {
        rows.extend(tree.last_below(range.low.words()).map(entry));
    }
    for _ in 0..=limit {
        let Some(cursor) = at else {
            rows.push((sentinel_key(part.key_words), part.sentinel));
            break;
        };
        let found = entry(cursor);
        rows.push(found);
        if range.ends_before(&found.0) {
            break;
        }
        at = tree.next(cursor);
    }
    rows
}
