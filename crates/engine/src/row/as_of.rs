//! Rows as they were at a moment: what a reader of a snapshot is shown (docs/protocols/snapshots.md).
//!
//! Invariants:
//! 1. Who reads takes no lock and changes no word of a row: it holds the latch of a share for a few rows, as
//!    everybody does, and nothing afterwards.
//! 2. The moment is over: nobody commits in it, or before it, any more. So what is not newer than it is whole
//!    and stays, and where something newer is, the version before it was kept.
//! 3. The block of a shared row, which another host may be changing, is read between two equal heads: who has
//!    changed a byte has changed the head before, in memory, and the link before that.
//! 4. What is shown counts if afterwards everything is still kept since then: the pod's word, this host's,
//!    and the share's say so.
//!
//! Rows of another host are its business: it copies those of a key or a range into a block of the reader.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use liger_fabric::{Cx, DataAddr, Fabric, HostId, LINE, Work as Cost};
use liger_pod::heap::{BlockClass, TupleAddr};
use liger_pod::plan::PartitionId;

use super::block::{DELETED, RowHead, UNCOMMITTED, VERSION, row_start};
use super::chain::{Found, Link};
use super::kept::Old;
use super::message::{Action, Answer, Copies};
use super::partition::{RowId, TablePart, damaged_row};
use super::rows::Rows;
use super::work::Work;
use crate::catalog::At;
use crate::log::record::moment_of;
use crate::protocol::failure::Failure;
use crate::protocol::relational::Flow;
use crate::protocol::workspace::Visitor;
use crate::tables::key::{Key, KeyRange, MAX_KEY_WORDS};
use crate::tables::record::Row;
use crate::txn::{Conflict, TableId, TxnError};

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &[
    "as_of.look-for-older",
    "as_of.follow-chain",
    "as_of.see-removed",
    "as_of.check-since",
    "as_of.read-block",
];

/// Rows that are looked at under one hold of a share's latch.
const BATCH: usize = 128;
/// How often a block is looked at.
const LOOKS: usize = 4;
/// Bytes of the block that another host copies rows into, if one row does not need more.
const COPIES_BYTES: usize = 16 << 10;
/// Most bytes of it.
const MOST_BYTES: usize = 64 << 10;
/// Rounds of asking an owner before a partition that keeps moving counts as a conflict.
const ROUNDS: usize = 8;

/// What there is of a row now.
enum Now {
    /// This version, which the snapshot shows.
    Shown(u64),
    /// It had gone by then.
    Gone,
    /// Something newer, or nothing: what was before is kept, or was linked to.
    Newer(Option<Link>),
}

/// Where a visit stands.
enum Step {
    /// It has ended: at the end of its range, or where who sees has enough.
    Ended(ControlFlow<()>),
    /// It goes on with this key.
    At(Key),
    /// The row with the first key may not be here yet; it goes on with the second one.
    Unrestored(Key, Key),
    /// The partition is not this host's.
    Elsewhere,
}

/// What sees rows: key, version and bytes.
type See<'s> = &'s mut dyn FnMut(&Key, u64, &[u8]) -> ControlFlow<()>;

impl Rows {
    /// Keeps a version of this host that is overwritten or removed now.
    pub(super) fn keep_own(&self, part: &mut TablePart, key: &Key, (from, until): (u64, u64), bytes: &[u8]) {
        debug_assert!(from < until, "version {from:#x} is replaced by {until:#x}");
        let took = part.kept.keep(key, Old { from, until, bytes: bytes.into() });
        self.kept_more(part, took);
    }

    /// So much more is kept: what nobody wants goes on the way, and the oldest if it is too much.
    fn kept_more(&self, part: &mut TablePart, took: usize) {
        if took == 0 {
            return;
        }
        let unwanted = part.kept.forget_up_to(self.unwanted.load(Ordering::Relaxed), 4);
        let all = self.kept_bytes.fetch_add(took as u64, Ordering::Relaxed) + took as u64;
        let (mut gone, most) = (unwanted, self.most_kept_bytes);
        if all.saturating_sub(unwanted as u64) > most {
            let (forgotten, since) = part.kept.forget_bytes(took);
            part.kept_since = part.kept_since.max(since);
            gone += forgotten;
        }
        self.kept_bytes.fetch_sub(gone as u64, Ordering::Relaxed);
    }

    /// A row leaves shared memory, or goes: what other hosts have kept of it comes here.
    pub(super) fn keep_chain<F: Fabric>(&self, cx: &Cx<F>, part: &mut TablePart, key: &Key, at: TupleAddr) {
        let Some(log) = self.log.as_ref().filter(|log| log.clock().keeps(cx)) else { return };
        let (place, shape) = (part.place, part.shape());
        let (pinned, wanted) = self.pin_old_versions(cx, log);
        let link = self.fresh_link(cx, part, at);
        let mut found = Vec::new();
        let whole = self.gather(cx, link, (place, key), shape, wanted, |old| found.push(old));
        self.close_snapshot(cx, pinned);
        for old in found {
            let took = part.kept.keep(key, old);
            self.kept_more(part, took);
        }
        if !whole {
            part.kept_since = part.kept_since.max(log.clock().moments().now(cx));
        }
    }

    /// The link of a shared row.
    fn fresh_link<F: Fabric>(&self, cx: &Cx<F>, part: &TablePart, at: TupleAddr) -> Link {
        let shape = part.shape();
        cx.begin_unsure();
        self.shared.freshen(cx, at.block().byte((shape.block_len() - LINE) as u64), LINE);
        let link = Self::link_of(cx, at.block(), shape);
        cx.end_unsure(false);
        link
    }

    /// Everything that is overwritten from now on is kept; of what was before nothing is known: a host has
    /// died, which may have kept something.
    pub(super) fn keep_from_now<F: Fabric>(&self, cx: &Cx<F>) {
        if let Some(log) = &self.log {
            self.kept_since.fetch_max(log.clock().moments().now(cx), Ordering::SeqCst);
        }
    }

    /// A partition has come here: what was overwritten before is not here.
    pub(super) fn keep_what_comes<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId) {
        let Some(log) = &self.log else { return };
        for relation in self.relations() {
            let mut part = self.part(cx, (partition, relation.id));
            part.kept_since = part.kept_since.max(log.clock().moments().now(cx));
        }
    }

    /// Frees what no snapshot wants; called now and then.
    pub(super) fn forget_unwanted<F: Fabric>(&self, cx: &Cx<F>) {
        let Some(log) = &self.log else { return };
        self.free_copies(cx);
        let has_any = self.kept_bytes.load(Ordering::Relaxed) > 0 || self.old_block_bytes(cx) > 0;
        if !has_any {
            return;
        }
        let wanted = log.clock().moments().oldest_wanted(cx, self.members(cx));
        self.unwanted.fetch_max(wanted, Ordering::Relaxed);
        self.free_old_blocks(cx, wanted);
        let (partitions, relations) = (u64::from(self.partition_count()), self.relations().count() as u64);
        // A share at a time.
        let turn = self.forget_turn.fetch_add(1, Ordering::Relaxed) % (partitions * relations.max(1)).max(1);
        let partition = PartitionId((turn % partitions) as u16);
        let Some(relation) = self.relations().nth((turn / partitions) as usize) else { return };
        if self.holds(partition) {
            let mut part = self.part(cx, (partition, relation.id));
            let gone = part.kept.forget_up_to(wanted, usize::MAX);
            self.kept_bytes.fetch_sub(gone as u64, Ordering::Relaxed);
        }
    }

    /// Checks that everything is kept that was overwritten since a moment, behind what was read of then.
    fn check_since<F: Fabric>(&self, cx: &Cx<F>, part: &TablePart, moment: u64) -> Result<(), TxnError> {
        let Some(log) = &self.log else { return Err(TxnError::SnapshotTooOld) };
        let since = part.kept_since.max(self.kept_since.load(Ordering::SeqCst));
        let is_kept = since.max(log.clock().moments().since(cx)) <= moment;
        if is_kept || cx.sabotaged("as_of.check-since") { Ok(()) } else { Err(TxnError::SnapshotTooOld) }
    }

    /// What a row of this host is now, whose share is latched; its bytes, if the snapshot shows them.
    fn now<F: Fabric>(
        &self,
        cx: &Cx<F>,
        part: &TablePart,
        row: RowId,
        moment: u64,
        bytes: &mut Vec<u8>,
    ) -> Result<Now, TxnError> {
        let in_dram = |bytes: &mut Vec<u8>, link| {
            let version = part.rows.version(row);
            if part.is_uncommitted_insert(row) || moment_of(version) > moment {
                return Now::Newer(link);
            }
            bytes.extend_from_slice(part.rows.bytes(row));
            Now::Shown(version)
        };
        let Some(at) = part.address(row) else { return Ok(in_dram(bytes, None)) };
        let cell = self.shared.peek(cx, at);
        let others = cell.writer().is_some_and(|host| host != self.me);
        if !others && !self.shared.is_behind(cell) || cx.sabotaged("as_of.read-block") {
            let now = in_dram(bytes, None);
            return Ok(match now {
                Now::Newer(_) => Now::Newer(Some(self.fresh_link(cx, part, at))),
                shown => shown,
            });
        }
        // Whoever changes it while we look makes it newer than the snapshot; only who makes a damaged one
        // good does not.
        for _ in 0..LOOKS {
            if let Some(now) = self.now_in_block(cx, part, at.block(), moment, bytes)? {
                return Ok(now);
            }
        }
        Err(Conflict::WriteLocked.into())
    }

    /// The same of a row whose block another host may be changing; `None`: it has.
    fn now_in_block<F: Fabric>(
        &self,
        cx: &Cx<F>,
        part: &TablePart,
        block: DataAddr,
        moment: u64,
        bytes: &mut Vec<u8>,
    ) -> Result<Option<Now>, TxnError> {
        let (shape, len) = (part.shape(), part.block_len());
        let fresh_head = || -> RowHead {
            self.shared.freshen(cx, block, LINE);
            cx.read_layout(block)
        };
        cx.begin_unsure();
        let head = fresh_head();
        // Behind the head: what is loaded of the rest is not older than that.
        if len > LINE {
            self.shared.freshen(cx, block.byte(LINE as u64), len - LINE);
        }
        let (version, flags) = (head.llsn & VERSION, head.llsn & (UNCOMMITTED | DELETED));
        let is_of_then = moment_of(version) <= moment;
        let mut now = match flags {
            0 if is_of_then => Some(Now::Shown(version)),
            // It was made for another host's insert.
            UNCOMMITTED => Some(Now::Newer(None)),
            DELETED if is_of_then => Some(Now::Gone),
            _ => Some(Now::Newer(Some(Self::link_of(cx, block, shape)))),
        };
        if let Some(Now::Shown(_)) = now {
            bytes.resize(part.row_len, 0);
            cx.read(block.byte(row_start(part.key_words)), bytes);
            if fresh_head() != head {
                bytes.clear();
                now = None;
            }
        }
        cx.end_unsure(false);
        cx.spend(Cost::DramLine, part.row_len.div_ceil(LINE) as u32);
        if head.is_refused() { Err(damaged_row(part.place.1, block)) } else { Ok(now) }
    }

    /// A row as a snapshot shows it, whose share is latched: its version, and its bytes in `bytes`; `None`:
    /// there is none.
    fn row_as_of<F: Fabric>(
        &self,
        cx: &Cx<F>,
        part: &TablePart,
        (key, row): (&Key, Option<RowId>),
        moment: u64,
        bytes: &mut Vec<u8>,
    ) -> Result<Option<u64>, TxnError> {
        bytes.clear();
        let now = match row {
            Some(row) => self.now(cx, part, row, moment, bytes)?,
            None => Now::Newer(None),
        };
        let link = match now {
            Now::Shown(version) => return Ok(Some(version)),
            Now::Gone => return Ok(None),
            Now::Newer(_) if cx.sabotaged("as_of.look-for-older") => return Ok(None),
            Now::Newer(link) => link.filter(|_| !cx.sabotaged("as_of.follow-chain")),
        };
        debug_assert!(bytes.is_empty(), "nothing is shown of what is newer");
        if let Some(old) = part.kept.as_of(key, moment) {
            bytes.extend_from_slice(&old.bytes);
            return Ok(Some(old.from));
        }
        let Some(link) = link else { return Ok(None) };
        match self.follow(cx, link, (part.place, key), part.shape(), moment) {
            Found::Row(old) => {
                bytes.extend_from_slice(&old.bytes);
                Ok(Some(old.from))
            }
            Found::Nothing => Ok(None),
            Found::Lost => Err(TxnError::SnapshotTooOld),
        }
    }

    /// Shows some rows of a range of a partition as they were.
    fn step_as_of<F: Fabric>(
        &self,
        cx: &Cx<F>,
        at: (PartitionId, TableId),
        (range, moment): (&KeyRange, u64),
        see: See<'_>,
    ) -> Result<Step, TxnError> {
        let latched = self.part(cx, at);
        if !self.owns(at.0) {
            return Ok(Step::Elsewhere);
        }
        let part = &*latched;
        cx.spend(Cost::IndexNode, part.height());
        let (mut from, mut bytes) = (range.low, Vec::new());
        let mut next_at = part.tree.lower_bound(from.words());
        let mut ended = false;
        for _ in 0..BATCH {
            let next = next_at
                .map(|cursor| part.tree.entry(cursor))
                .map(|(words, row)| (Key::from_words(words), row));
            let unrestored = part.first_unrestored_key(Some(&from), next.as_ref().map(|(key, _)| key));
            if let Some(unrestored) = unrestored.filter(|key| !range.ends_before(key)) {
                self.check_since(cx, part, moment)?;
                return Ok(Step::Unrestored(unrestored, from));
            }
            let removed = if cx.sabotaged("as_of.see-removed") { None } else { part.kept.first_key(&from) };
            let there = next.as_ref().map(|(key, _)| *key);
            let key = there.into_iter().chain(removed).min().filter(|key| !range.ends_before(key));
            let Some(key) = key else {
                ended = true;
                break;
            };
            debug_assert!(range.contains(&key) && key >= from, "it goes on behind what it has seen");
            let row = next.filter(|(there, _)| *there == key).map(|(_, row)| row);
            if row.is_some() {
                next_at = next_at.and_then(|cursor| part.tree.next(cursor));
            }
            let seen = self.row_as_of(cx, part, (&key, row), moment, &mut bytes)?;
            let flow = seen.map_or(ControlFlow::Continue(()), |version| see(&key, version, &bytes));
            match (flow, key.next()) {
                (ControlFlow::Continue(()), Some(next)) => from = next,
                _ => {
                    self.check_since(cx, part, moment)?;
                    return Ok(Step::Ended(flow));
                }
            }
        }
        self.check_since(cx, part, moment)?;
        Ok(if ended { Step::Ended(ControlFlow::Continue(())) } else { Step::At(from) })
    }

    /// Copies rows of a range as they were into a block of another host.
    pub(super) fn copy_as_of<F: Fabric>(
        &self,
        cx: &Cx<F>,
        from: (HostId, u16),
        (partition, table): (PartitionId, TableId),
        asked: &Copies,
    ) -> Answer {
        let Copies { range, moment, at, len } = asked;
        let Ok(relation) = self.catalog.relation(table) else { return Answer::Conflict };
        let (key_bytes, size) = (8 * relation.key_words, 8 * relation.key_words + 8 + relation.row_len);
        if !self.heap.may_hold(*at, *len as usize) || size > *len as usize {
            return Answer::Conflict;
        }
        let mut copies: Vec<u8> = Vec::with_capacity(*len as usize);
        let mut see = |key: &Key, version: u64, bytes: &[u8]| {
            key.words().iter().for_each(|word| copies.extend_from_slice(&word.to_ne_bytes()));
            debug_assert_eq!(copies.len() % size, key_bytes, "keys of one relation");
            copies.extend_from_slice(&version.to_ne_bytes());
            copies.extend_from_slice(bytes);
            if copies.len() + size > *len as usize {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let Some(log) = &self.log else { return Answer::TooOld };
        // Nobody frees what it may come across, also if the reader's host dies.
        if !self.pin_for(cx, log, (from.0, *moment)) {
            return Answer::TooOld;
        }
        let step = self.step_as_of(cx, (partition, table), (range, *moment), &mut see);
        self.close_snapshot(cx, *moment);
        let next = match step {
            Ok(Step::Ended(ControlFlow::Continue(()))) => None,
            Ok(Step::Ended(ControlFlow::Break(()))) => {
                let last = copies.len() - size;
                let words = copies[last..last + key_bytes].chunks_exact(8);
                let words: Vec<u64> =
                    words.map(|word| u64::from_ne_bytes(word.try_into().expect("8"))).collect();
                Key::from_words(&words).next()
            }
            Ok(Step::At(key)) => Some(key),
            Ok(Step::Unrestored(key, from)) => match self.restore_key(cx, (partition, table), &key) {
                Ok(()) => Some(from),
                Err(error) => return Answer::Failed(error.into()),
            },
            Ok(Step::Elsewhere) | Err(TxnError::Conflict(_)) => return Answer::Conflict,
            Err(TxnError::SnapshotTooOld) => return Answer::TooOld,
            Err(TxnError::Damaged { found, .. }) => {
                return Answer::Failed(Failure::IndexNode { offset: found });
            }
            Err(error) => return Answer::Failed(error.into()),
        };
        debug_assert!(copies.len().is_multiple_of(size) && copies.len() <= *len as usize, "whole rows");
        let rows = (copies.len() / size) as u32;
        // Under the latch: who sweeps this partition of a dead host's locks has fenced it before, and its
        // memory is another's only then.
        let latched = self.part(cx, (partition, table));
        if self.owners.is_fenced(from.0, from.1) || !self.owns(partition) {
            return Answer::Conflict;
        }
        if !copies.is_empty() {
            cx.write(DataAddr::new(*at), &copies);
            self.shared.write_back(cx, DataAddr::new(*at), copies.len());
            cx.fence();
        }
        drop(latched);
        Answer::Copied { rows, next: next.filter(|key| !range.ends_before(key)) }
    }
}

impl<F: Fabric> Work<'_, '_, F> {
    /// Shows the row with this key as it was; false if there was none.
    pub(super) fn point_as_of(
        &mut self,
        at: At<'_>,
        key: &Key,
        moment: u64,
        visitor: &mut Visitor<'_>,
    ) -> Result<bool, TxnError> {
        let (mut shown, range) = (None, KeyRange::point(*key));
        let mut see = |_: &Key, version: u64, bytes: &[u8]| {
            shown = Some(version);
            if let Visitor::Read(visit) = visitor {
                let _ = visit(key, Row::new(bytes));
            }
            ControlFlow::Break(())
        };
        let _ = self.visit_as_of(at, &range, moment, &mut see)?;
        self.state.note_read(at.table(), key, shown);
        Ok(shown.is_some())
    }

    /// Shows the rows of a range as they were.
    pub(super) fn range_as_of(
        &mut self,
        at: At<'_>,
        range: &KeyRange,
        moment: u64,
        visitor: &mut Visitor<'_>,
    ) -> Flow {
        let Visitor::Read(visit) = visitor else { return Err(TxnError::ReadOnly { table: at.table() }) };
        let (mut found, mut last, recorded) = (Vec::new(), None, self.state.core.is_recorded());
        let mut newest = 0;
        let mut see = |key: &Key, version: u64, bytes: &[u8]| {
            newest = newest.max(version);
            if recorded {
                found.push((*key, version));
            }
            let flow = visit(key, Row::new(bytes));
            if flow.is_break() {
                last = Some(*key);
            }
            flow
        };
        let flow = self.visit_as_of(at, range, moment, &mut see)?;
        self.state.llsn = self.state.llsn.max(newest);
        let high = last.map_or(range.high, |last| last.next());
        self.state.note_range(at.table(), KeyRange { low: range.low, high }, found);
        Ok(flow)
    }

    fn visit_as_of(&mut self, at: At<'_>, range: &KeyRange, moment: u64, see: See<'_>) -> Flow {
        let (cx, host) = (self.cx, self.host);
        let mut rest = *range;
        let mut moved = 0;
        loop {
            let step = if host.holds(at.partition) {
                host.check_open(at.partition)?;
                host.step_as_of(cx, at.ids(), (&rest, moment), see)?
            } else {
                host.check_open(at.partition)?;
                self.step_elsewhere(at, &rest, moment, see)?
            };
            match step {
                Step::Ended(flow) => return Ok(flow),
                Step::At(key) => rest.low = key,
                Step::Unrestored(key, from) => {
                    host.restore_key(cx, at.ids(), &key)?;
                    rest.low = from;
                }
                Step::Elsewhere if moved < ROUNDS => moved += 1,
                Step::Elsewhere => return Err(Conflict::Partition.into()),
            }
            self.seat.serve();
        }
    }

    /// Has another host copy rows, and shows them.
    fn step_elsewhere(
        &mut self,
        at: At<'_>,
        range: &KeyRange,
        moment: u64,
        see: See<'_>,
    ) -> Result<Step, TxnError> {
        let (cx, host) = (self.cx, self.host);
        let (key_bytes, row_len) = (8 * at.relation.key_words, at.relation.row_len);
        let size = key_bytes + 8 + row_len;
        let len = size.clamp(COPIES_BYTES, MOST_BYTES);
        let full = |_| TxnError::Conflict(Conflict::Memory);
        let block = host.heap.alloc(cx, BlockClass::Scratch, len).map_err(full)?;
        host.note_copies(cx, block, len);
        let asked = Copies { range: *range, moment, at: block.offset(), len: len as u32 };
        let owner = || host.owners.now(cx, &host.plan, at.partition);
        let before = owner();
        let answer = self.ask(at, Action::Copy(asked));
        let mut copies = Vec::new();
        if let Ok(Answer::Copied { rows, .. }) = answer {
            copies.resize((rows as usize * size).min(len), 0);
            host.shared.freshen(cx, block, copies.len());
            cx.read(block, &mut copies);
        }
        // Who has not answered may be slow, and not cut off yet.
        let by = match &answer {
            Ok(_) => Vec::new(),
            Err(_) => before.into_iter().chain(owner()).collect(),
        };
        host.end_copies(cx, block, by);
        let next = match answer? {
            Answer::Copied { next, .. } => next,
            Answer::TooOld => return Err(TxnError::SnapshotTooOld),
            Answer::Failed(failure) => return Err(failure.error(at.table())),
            _ => return Err(Conflict::Partition.into()),
        };
        for copy in copies.chunks_exact(size) {
            let mut words = [0u64; MAX_KEY_WORDS];
            for (word, bytes) in words.iter_mut().zip(copy[..key_bytes].chunks_exact(8)) {
                *word = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
            }
            let key = Key::from_words(&words[..at.relation.key_words]);
            let version = u64::from_ne_bytes(copy[key_bytes..key_bytes + 8].try_into().expect("eight bytes"));
            if see(&key, version, &copy[key_bytes + 8..]).is_break() {
                return Ok(Step::Ended(ControlFlow::Break(())));
            }
        }
        Ok(next.map_or(Step::Ended(ControlFlow::Continue(())), Step::At))
    }
}
