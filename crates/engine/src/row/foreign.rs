//! A transaction's work on rows of other hosts: through their tuple cells, in shared memory.
//!
//! Invariants:
//! 1. A row is used only after its cell is locked, its lines are fresh, and its key has been compared.
//! 2. A range is protected when every row found and the first one beyond are locked; then every row but the
//!    last vouches that its next key is the partition's next key (the first one, unless it stands at the
//!    start, that its previous one is); and then the index leaves that were read have not changed since. In
//!    this order.
//!    Where gaps are not locked (`Policies::next_key_locking`), the first row beyond is not, and the proof
//!    holds at the moment when it is made.
//! 3. What cannot be proven is asked of the owner, a bounded number of times, and then is a conflict.

use std::ops::ControlFlow;

use liger_fabric::{Fabric, Work as Cost};
use liger_pod::heap::TupleAddr;
use liger_store::bwtree::{Entries, Trace, TreeError};

use super::block::{Shape, block_is, row_start};
use super::borrowed::ForeignRow;
use super::leaving::Name;
use super::message::{Action, Answer};
use super::moves::sentinel_key;
use super::partition::{Mode, damaged_row};
use super::policy::Steps;
use super::remote::Entry;
use super::shared::Acquired;
use super::work::Work;
use crate::catalog::{At, Relation};
use crate::protocol::failure::tree_error;
use crate::protocol::workspace::Visitor;
use crate::tables::key::{Key, KeyRange};
use crate::txn::{Conflict, TxnError};

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &[
    "foreign.compare-key",
    "foreign.upgrade-own-row",
    "foreign.check-next-real",
    "foreign.check-prev-real",
    "foreign.recheck-index",
    "foreign.recheck-index-last",
    "foreign.lock-beyond-range",
    "foreign.prove-own-gap",
    "foreign.delete-until-inserted",
];

/// Rounds of asking and looking again before a row that keeps moving counts as a conflict.
const ROUNDS: usize = 8;
/// Rows asked for and locked at once by a scan, at first and at most.
const FIRST_BATCH: usize = 8;
const LARGEST_BATCH: usize = 64;

/// What came of trying to lock a row of which a hint is known.
enum Try {
    Held(usize),
    Stale,
    Unknown,
}

impl<F: Fabric> Work<'_, '_, F> {
    /// See `Transacts::point`.
    pub(super) fn point_foreign(
        &mut self,
        at: At<'_>,
        key: &Key,
        visitor: &mut Visitor<'_>,
    ) -> Result<bool, TxnError> {
        match self.known_foreign(at, key, visitor)? {
            Some(shown) => Ok(shown),
            None if !self.host.policies.next_key_locking => {
                self.state.note_read(at.table(), key, None);
                Ok(false)
            }
            None => {
                // Absent, said the owner; proven once the gap is locked.
                let mut shown = false;
                let range = KeyRange::point(*key);
                let _ = self.range_foreign(at, &range, visitor, &mut shown)?;
                Ok(shown)
            }
        }
    }

    /// Locks the row with this key and shows it, if its owner knows one; false if this transaction has
    /// deleted it.
    pub(super) fn known_foreign(
        &mut self,
        at: At<'_>,
        key: &Key,
        visitor: &mut Visitor<'_>,
    ) -> Result<Option<bool>, TxnError> {
        self.host.check_open(at.partition)?;
        let Some(i) = self.lock_foreign(at, key, visitor.mode())? else { return Ok(None) };
        Ok(Some(self.show_foreign(at.relation, i, visitor)?.is_some()))
    }

    /// Locks the row with this key, moving it in if need be; `None` if the owner knows no such row.
    fn lock_foreign(&mut self, at: At<'_>, key: &Key, mode: Mode) -> Result<Option<usize>, TxnError> {
        let (cx, host) = (self.cx, self.host);
        let hash = host.remote.hash_of(at.table(), at.partition, key);
        self.refer(at, key)?;
        for _ in 0..ROUNDS {
            match self.try_lock(at, key, hash, mode)? {
                Try::Held(i) => return Ok(Some(i)),
                Try::Stale | Try::Unknown => {}
            }
            if let Some(address) = self.look_up(at, key)? {
                host.remote.learn(cx, hash, address);
                if let Try::Held(i) = self.try_lock(at, key, hash, mode)? {
                    return Ok(Some(i));
                }
            }
            match self.ask(at, Action::MoveIn(*key))? {
                Answer::Shared(address) => host.remote.learn(cx, hash, address),
                Answer::Absent => return Ok(None),
                refused => return Err(self.refused(at, refused)),
            }
        }
        Err(Conflict::Moved.into())
    }

    /// Why the owner has not done what it was asked for.
    fn refused(&mut self, at: At<'_>, answer: Answer) -> TxnError {
        match answer {
            Answer::Held(key) => {
                self.wants(at.ids(), &key);
                Conflict::WriteLocked.into()
            }
            Answer::Conflict => Conflict::WriteLocked.into(),
            Answer::RoomLater => Conflict::Memory.into(),
            Answer::Failed(failure) => failure.error(at.table()),
            _ => Conflict::Moved.into(),
        }
    }

    /// Takes a reference to a row, or gives it back, as Tigon's artifact does: found in the shared index,
    /// under a latch.
    pub(super) fn refer(&self, at: At<'_>, key: &Key) -> Result<(), TxnError> {
        if self.host.policies.steps == Steps::Artifact
            && let Some(address) = self.look_up(at, key)?
        {
            self.host.shared.latch(self.cx, address);
        }
        Ok(())
    }

    /// Where the row of a key is, by the shared index.
    pub(super) fn look_up(&self, at: At<'_>, key: &Key) -> Result<Option<TupleAddr>, TxnError> {
        let tree = self.host.foreign_index(at);
        let found = tree.get(self.cx, &self.host.tree_env(), key.words());
        match found.and_then(|raw| raw.map(|raw| self.host.row_at(raw)).transpose()) {
            Ok(found) => Ok(found),
            // The owner has not come up yet.
            Err(TreeError::NotFormatted { .. }) => Ok(None),
            Err(broken) => Err(tree_error(at.table(), broken)),
        }
    }

    /// Locks a row through what this host knows of it.
    fn try_lock(&mut self, at: At<'_>, key: &Key, hash: u64, mode: Mode) -> Result<Try, TxnError> {
        let tried = self.lock_at_hand(at, key, hash, mode);
        if tried.is_err() {
            self.wants(at.ids(), key);
        }
        tried
    }

    fn lock_at_hand(&mut self, at: At<'_>, key: &Key, hash: u64, mode: Mode) -> Result<Try, TxnError> {
        let (cx, host) = (self.cx, self.host);
        let (mine, writer) = (self.state.me.bit(), self.state.me.writer());
        cx.spend(Cost::IndexNode, 1);
        cx.spend(Cost::Row, 1);
        let mut shard = host.remote.shard(cx, hash);
        let Some(entry) = shard.get_mut(&hash) else { return Ok(Try::Unknown) };
        if entry.is_leaving() {
            if host.shared.peek(cx, entry.at).writer() == Some(host.me) {
                return Err(Conflict::WriteLocked.into());
            }
            let address = entry.at;
            shard.remove(&hash);
            let name = Name { hash, table: at.table(), partition: at.partition, key: *key };
            host.leaving.lock(cx).has_gone(&name, address);
            return Ok(Try::Stale);
        }
        if entry.writer == writer || mode == Mode::Read && entry.readers & mine != 0 {
            drop(shard);
            return self.held_already(at, key);
        }
        if entry.writer != 0 {
            self.state.in_the_way = entry.others(self.state.me);
            return Err(Conflict::WriteLocked.into());
        }
        if mode == Mode::Write && entry.readers & !mine != 0 {
            self.state.in_the_way = entry.others(self.state.me);
            return Err(Conflict::ReadLocked.into());
        }
        let upgraded = entry.readers & mine != 0;
        // Before the cell becomes write-locked: it may be another row's, with the same hash.
        let late = cx.sabotaged("foreign.upgrade-own-row");
        let held = if upgraded && !late { Some(self.held_already(at, key)?) } else { None };
        let (address, block) = (entry.at, entry.at.block());
        let acquired = match mode {
            Mode::Read if entry.readers != 0 => {
                Acquired::Granted { cell: host.shared.peek(cx, entry.at), fresh: true }
            }
            Mode::Read => host.shared.acquire_read(cx, entry.at),
            Mode::Write => host.shared.acquire_write(cx, entry.at, entry.readers != 0),
        };
        match acquired {
            Acquired::Granted { fresh, .. } => {
                if !fresh {
                    host.freshen_unknown(cx, block);
                }
            }
            // This host holds the cell, but not through this entry: as another key's. Whoever has just lost
            // the cell to that key would meet it for ever, the more so in a transaction that holds the other
            // row itself.
            Acquired::Conflict if entry.is_unheld() && host.shared.is_ours(cx, entry.at) => {
                shard.remove(&hash);
                return Ok(Try::Stale);
            }
            Acquired::Conflict => return Err(host.shared.refusal(cx, entry.at, mode).into()),
            Acquired::Gone => {
                shard.remove(&hash);
                return Ok(Try::Stale);
            }
        }
        let head = block_is(cx, block, at.ids(), key)
            .or_else(|| cx.sabotaged("foreign.compare-key").then(|| cx.read_layout(block)));
        let Some(head) = head.filter(|head| !head.is_refused()) else {
            // Another row by now (or another key with this hash, which a worker of this host holds), or it is
            // damaged.
            if entry.is_unheld() {
                match mode {
                    Mode::Read => host.shared.release_read(cx, entry.at),
                    Mode::Write => host.shared.release_write(cx, entry.at, false, false),
                }
                shard.remove(&hash);
                return head.map_or(Ok(Try::Stale), |_| Err(damaged_row(at.table(), block)));
            }
            return Err(Conflict::Moved.into());
        };
        debug_assert!(entry.writer == 0, "nobody else of this host writes it");
        match mode {
            Mode::Read => entry.readers |= mine,
            Mode::Write => entry.writer = writer,
        }
        drop(shard);
        if upgraded {
            return held.map_or_else(|| self.held_already(at, key), Ok);
        }
        let i = self.remember(at, key, hash, address, head.llsn);
        if *key != sentinel_key(at.relation.key_words) {
            self.state.note_read(at.table(), key, Some(head.llsn));
        }
        Ok(Try::Held(i))
    }

    /// Remembers a row that is locked now; its number among the rows of other hosts.
    fn remember(&mut self, at: At<'_>, key: &Key, hash: u64, address: TupleAddr, llsn: u64) -> usize {
        let row = ForeignRow {
            hash,
            at: address,
            table: at.table(),
            partition: at.partition,
            key: *key,
            row_len: at.relation.row_len,
            llsn,
            wrote: false,
        };
        let i = self.mine.foreign.add(row);
        debug_assert_eq!(self.mine.foreign[i].key, *key, "it is found by its number");
        self.mine.held.push(row.place(i));
        i
    }

    fn held_already(&mut self, at: At<'_>, key: &Key) -> Result<Try, TxnError> {
        // Held, but not under this key: two keys with one hash.
        self.mine.foreign.of_key(at.table(), at.partition, key).map(Try::Held).ok_or(Conflict::Moved.into())
    }

    /// Shows a locked row of another host to the visitor. `None`: the transaction has deleted it.
    fn show_foreign(
        &mut self,
        relation: &Relation,
        i: usize,
        visitor: &mut Visitor<'_>,
    ) -> Result<Option<ControlFlow<()>>, TxnError> {
        let row = self.mine.foreign[i];
        let mut bytes = std::mem::take(&mut self.mine.scratch);
        bytes.resize(row.row_len, 0);
        let start = row.at.block().byte(row_start(relation.key_words));
        self.cx.read(start, &mut bytes);
        let place = (relation, row.place(i));
        let shown = self.state.show(self.cx, place, &row.key, (&bytes, row.llsn), visitor);
        self.mine.scratch = bytes;
        shown
    }

    /// Visits a range of one partition of another host; notes whether any row was shown.
    pub(super) fn range_foreign(
        &mut self,
        at: At<'_>,
        range: &KeyRange,
        visitor: &mut Visitor<'_>,
        shown: &mut bool,
    ) -> Result<ControlFlow<()>, TxnError> {
        self.host.check_open(at.partition)?;
        let mut rest = *range;
        let mut previous: Option<usize> = None;
        let mut limit = FIRST_BATCH;
        loop {
            let stretch = Stretch { at, rest: &rest, limit, previous, mode: visitor.mode() };
            let locked = self.retry(|txn| txn.lock_batch(&stretch))?;
            let mut found = Vec::new();
            for &i in &locked.rows {
                let row = self.mine.foreign[i];
                if self.state.core.is_recorded() && !self.state.core.is_own_insert(row.place(i)) {
                    found.push((row.key, row.llsn));
                }
                let Some(flow) = self.show_foreign(at.relation, i, visitor)? else { continue };
                *shown = true;
                if flow.is_break() {
                    self.state.note_range(
                        at.table(),
                        KeyRange { low: rest.low, high: row.key.next() },
                        found,
                    );
                    return Ok(ControlFlow::Break(()));
                }
            }
            let last = locked.rows.last().map(|i| self.mine.foreign[*i].key);
            if locked.complete {
                self.state.note_range(at.table(), rest, found);
                return Ok(ControlFlow::Continue(()));
            }
            let last = last.expect("an incomplete batch has rows");
            let after = last.next().expect("the sentinel is beyond every key");
            self.state.note_range(at.table(), KeyRange { low: rest.low, high: Some(after) }, found);
            rest.low = after;
            previous = locked.rows.last().copied();
            limit = (2 * limit).min(LARGEST_BATCH);
        }
    }

    /// Locks the next rows of a range so that the gaps before and between them are proven (invariant 2).
    fn lock_batch(&mut self, stretch: &Stretch<'_>) -> Result<Batch, TxnError> {
        for _ in 0..ROUNDS {
            if let Some(locked) = self.try_batch(stretch)? {
                return Ok(locked);
            }
            let action = Action::MoveInRange { range: *stretch.rest, limit: stretch.limit as u32 };
            match self.ask(stretch.at, action)? {
                Answer::RangeShared => {}
                refused => return Err(self.refused(stretch.at, refused)),
            }
        }
        Err(Conflict::Moved.into())
    }

    fn try_batch(&mut self, stretch: &Stretch<'_>) -> Result<Option<Batch>, TxnError> {
        let (cx, host) = (self.cx, self.host);
        let Stretch { at, rest, limit, previous, mode } = *stretch;
        let tree = host.foreign_index(at);
        let (mut candidates, mut trace) = (Entries::default(), Trace::new());
        let scanned =
            tree.scan(cx, &host.tree_env(), rest.low.words(), None, limit + 1, &mut candidates, &mut trace);
        match scanned {
            Ok(()) => {}
            Err(TreeError::NotFormatted { .. }) => return Ok(None),
            Err(broken) => return Err(tree_error(at.table(), broken)),
        }
        let mut locked = Batch { rows: Vec::with_capacity(limit), complete: false };
        let mut chain: Vec<usize> = previous.into_iter().collect();
        let (gaps, mut last) = (host.policies.next_key_locking, None);
        let sentinel = sentinel_key(at.relation.key_words);
        for (words, raw) in candidates.iter() {
            let key = Key::from_words(words);
            let address = host.row_at(raw).map_err(|broken| tree_error(at.table(), broken))?;
            let beyond = rest.ends_before(&key) || key == sentinel;
            let mode = if beyond { Mode::Read } else { mode };
            if beyond && (!gaps || cx.sabotaged("foreign.lock-beyond-range")) {
                locked.complete = true;
                last = (!gaps).then_some(address);
                break;
            }
            let hash = host.remote.hash_of(at.table(), at.partition, &key);
            host.remote.learn(cx, hash, address);
            let Try::Held(i) = self.try_lock(at, &key, hash, mode)? else { return Ok(None) };
            chain.push(i);
            if beyond {
                locked.complete = true;
                break;
            }
            locked.rows.push(i);
            if locked.rows.len() == limit {
                break;
            }
        }
        let key_of = |i: &usize| self.mine.foreign[*i].key;
        debug_assert!(locked.rows.is_sorted_by_key(key_of), "a chain is of neighbours");
        let enough = locked.complete || locked.rows.len() == limit;
        // In this order: a row that was inserted in a gap before its end was locked may become shared at any
        // moment, and the bits before it true again. If that happens before they are read, the index has
        // changed by then.
        let unchanged = || tree.unchanged(cx, &trace) || cx.sabotaged("foreign.recheck-index");
        let early = cx.sabotaged("foreign.recheck-index-last");
        let proven = enough
            && (!early || unchanged())
            && self.is_chain_proven(&chain, last, stretch)
            && (early || unchanged());
        Ok(proven.then_some(locked))
    }

    /// True if no key of the partition stands between the rows of the chain, nor between the start and the
    /// first. `unlocked`: where gaps are not locked, the first row beyond the range, if it ends
    /// there.
    fn is_chain_proven(&self, chain: &[usize], unlocked: Option<TupleAddr>, stretch: &Stretch<'_>) -> bool {
        let cell = |i: usize| self.host.shared.peek(self.cx, self.mine.foreign[i].at);
        let others = match (chain, unlocked) {
            ([], None) => return false,
            ([], Some(beyond)) => return self.host.shared.peek(self.cx, beyond).prev_real(),
            (chain, Some(_)) => chain,
            ([others @ .., _], None) => others,
        };
        let first = chain[0];
        let starts = stretch.previous.is_some()
            || self.mine.foreign[first].key == stretch.rest.low
            || cell(first).prev_real()
            || self.cx.sabotaged("foreign.check-prev-real");
        starts && others.iter().all(|i| cell(*i).next_real() || self.cx.sabotaged("foreign.check-next-real"))
    }

    /// Inserts into a partition of another host; false if the key exists (which is then protected).
    pub(super) fn insert_foreign(&mut self, at: At<'_>, key: &Key, bytes: &[u8]) -> Result<bool, TxnError> {
        self.host.check_open(at.partition)?;
        if let Some(i) = self.mine.foreign.of_key(at.table(), at.partition, key)
            && self.state.core.work.revive(self.mine.foreign[i].place(i), bytes)
        {
            return Ok(true);
        }
        match self.ask(at, Action::Create(*key))? {
            Answer::Created { at: address, next, llsn } => {
                self.take_created(at, key, Some(bytes), (address, next, llsn))?;
                Ok(true)
            }
            Answer::Duplicate => {
                let mut look = |_: &Key, _: crate::tables::record::Row<'_>| ControlFlow::Break(());
                let found = self.point_foreign(at, key, &mut Visitor::Read(&mut look))?;
                if found { Ok(false) } else { Err(Conflict::Moved.into()) }
            }
            refused => Err(self.refused(at, refused)),
        }
    }

    /// Takes over a new row that the owner has write-locked for this host. Without bytes it is as if it had
    /// been inserted and deleted: an insert brings it back, and otherwise it goes when the transaction ends.
    pub(super) fn take_created(
        &mut self,
        at: At<'_>,
        key: &Key,
        bytes: Option<&[u8]>,
        (address, next, llsn): (TupleAddr, Option<(TupleAddr, Key)>, u64),
    ) -> Result<(), TxnError> {
        let (cx, host) = (self.cx, self.host);
        debug_assert!(!host.owns(at.partition), "who takes a partition over waits for this transaction");
        let hash = host.remote.hash_of(at.table(), at.partition, key);
        let name = Name { hash, table: at.table(), partition: at.partition, key: *key };
        let gap_is_mine = next.is_none_or(|(next, _)| self.holds_alone(next));
        let mut shard = host.remote.shard(cx, hash);
        // One that was given away is gone: the owner has taken that message before it made this row.
        let clash = shard.get(&hash).is_some_and(Entry::is_held);
        let is_taken = host.policies.next_key_locking && !gap_is_mine;
        if clash || is_taken && !cx.sabotaged("foreign.prove-own-gap") {
            host.give_away(cx, shard, &name, address, 0);
            if let Some((_, behind)) = next {
                self.wants(at.ids(), &behind);
            }
            return Err(Conflict::Gap.into());
        }
        if shard
            .insert(hash, Entry { at: address, readers: 0, writer: self.state.me.writer(), parked: 0 })
            .is_some_and(|e| e.is_leaving())
        {
            host.leaving.lock(cx).remove(&name);
        }
        drop(shard);
        host.shared.freshen(cx, address.block(), Shape::of(at.relation).block_len());
        let i = self.remember(at, key, hash, address, llsn);
        let place = self.mine.foreign[i].place(i);
        self.state.llsn = self.state.llsn.max(llsn);
        let work = &mut self.state.core.work;
        let change = work.begin_insert(place, at.table(), key, bytes);
        if bytes.is_none() && !cx.sabotaged("foreign.delete-until-inserted") {
            work.changes[change].deleted = true;
        }
        Ok(())
    }

    /// True if this transaction holds that row, and no other one of this host does.
    fn holds_alone(&self, at: TupleAddr) -> bool {
        let Some(row) = self.mine.foreign.of_address(at) else { return false };
        let shard = self.host.remote.shard(self.cx, row.hash);
        shard.get(&row.hash).is_some_and(|entry| entry.at == at && entry.is_held_only_by(self.state.me))
    }
}

/// What one step of a scan is to lock.
#[derive(Clone, Copy)]
struct Stretch<'r> {
    at: At<'r>,
    /// What is left of the range.
    rest: &'r KeyRange,
    /// Most rows of it.
    limit: usize,
    /// The row locked last, whose next row the first one must be.
    previous: Option<usize>,
    mode: Mode,
}

/// Rows locked by one step of a scan.
struct Batch {
    /// Those in the range, in key order.
    rows: Vec<usize>,
    /// The first row beyond the range is locked too.
    complete: bool,
}
