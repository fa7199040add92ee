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
//! Rows of another host are its business (copies.rs). Not here: what is kept, and since when (keeping.rs).

use std::ops::ControlFlow;

use liger_fabric::{Cx, DataAddr, Fabric, LINE, Work as Cost};
use liger_pod::heap::TupleAddr;
use liger_pod::plan::PartitionId;

use super::block::{DELETED, RowHead, UNCOMMITTED, VERSION, row_start};
use super::chain::{Found, Link};
use super::partition::{RowId, TablePart, damaged_row};
use super::rows::Rows;
use super::work::Work;
use crate::catalog::At;
use crate::log::record::moment_of;
use crate::protocol::relational::Flow;
use crate::protocol::workspace::Visitor;
use crate::tables::key::{Key, KeyRange};
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
pub(super) enum Step {
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
pub(super) type See<'s> = &'s mut dyn FnMut(&Key, u64, &[u8]) -> ControlFlow<()>;

impl Rows {
    /// The link of a shared row.
    pub(super) fn fresh_link<F: Fabric>(&self, cx: &Cx<F>, part: &TablePart, at: TupleAddr) -> Link {
        let shape = part.shape();
        cx.begin_unsure();
        self.shared.freshen(cx, at.block().byte((shape.block_len() - LINE) as u64), LINE);
        let link = Self::link_of(cx, at.block(), shape);
        cx.end_unsure(false);
        link
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
    pub(super) fn step_as_of<F: Fabric>(
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
            host.check_open(at.partition)?;
            let step = match host.holds(at.partition) {
                true => host.step_as_of(cx, at.ids(), (&rest, moment), see)?,
                false => self.step_elsewhere(at, &rest, moment, see)?,
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
}
