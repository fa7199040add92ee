//! Rows of a host leave shared memory: which, when, and how many.
//!
//! The budget is the pod's, in proportion to what the pod may use of its memory (`pod::heap::room`), and
//! every host can add up all hosts' accounts. An owner makes room before it
//! serves a request, by its own rows first; with `MoveOutWhen::Background` its housekeeping makes some ahead,
//! so that requests seldom wait. The order in which rows leave is the policy's (`policy::Leavers`).
//!
//! Invariants:
//! 1. A row leaves as moves.rs says, whatever the policy: free, and known to be there still.
//! 2. Nothing here is needed for any row to be right. A record of a use that is lost makes a row leave too
//!    early.

use std::sync::atomic::Ordering;

use liger_fabric::{Cx, Fabric};
use liger_pod::membership::Slot;
use liger_pod::owner::Owner;

use super::message::Message;
use super::policy::{Coherence, MoveOut, MoveOutWhen, Steps};
use super::rows::Rows;

/// Most rows that leave in one turn of housekeeping.
const ROWS_AHEAD: usize = 64;
/// Most candidates that are looked at in one go. A transaction may hold more rows than the budget has room
/// for: then none can leave, and each of its requests costs so much, not as much as there are rows.
const LOOKED_AT: usize = 256;
/// Rows that an owner looks at with each request that it serves, where they leave by their use.
const LOOKS: usize = 8;

impl Rows {
    /// True while rows and their index use more than so much of the shared memory that they may.
    fn is_beyond<F: Fabric>(&self, cx: &Cx<F>, percent: u64) -> bool {
        let usage = self.heap.usage(cx);
        // Hosts' figures are read one after the other: what came and went meanwhile may be missing on one
        // side.
        let bytes = |live: u64| u64::try_from(live as i64).unwrap_or(0);
        let rows = bytes(usage.row_bytes);
        let in_hwcc = if self.policies.coherence == Coherence::AllHwcc { rows } else { 0 };
        let cells = match self.policies.steps {
            Steps::Merged => bytes(usage.tuple_bytes),
            Steps::Artifact => bytes(usage.rows) * 8,
        };
        let hwcc = cells + bytes(usage.mapping_bytes) + in_hwcc;
        let cxl = bytes(usage.node_bytes) + bytes(usage.scratch_bytes) + rows - in_hwcc;
        let (percent, budget) = (u128::from(percent), self.budget(cx));
        let is_beyond = |used: u64, most: u64| u128::from(used) * 100 > u128::from(most) * percent;
        is_beyond(hwcc, budget.hwcc_bytes) || is_beyond(cxl, budget.cxl_bytes)
    }

    /// Moves rows of this host out until the pod is within its budget, or [`LOOKED_AT`] candidates have been
    /// looked at; the next call goes on behind them. The budget is the pod's: if this host's rows do not
    /// suffice, the others are asked to give way too. No latch is held. Returns how many rows left.
    pub(super) fn evict<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        if self.policies.move_out == MoveOut::None {
            return 0;
        }
        let left = self.move_out_to_budget(cx);
        // Not while mail piles up: whoever is slow to read it has been asked already.
        if self.is_beyond(cx, 100) && self.outbox.is_empty(cx) {
            for host in self.plan.hosts().filter(|host| *host != self.me) {
                let slot = Slot::load(cx, &self.plan, host).ok().filter(|slot| slot.state.is_member());
                if let Some(Slot { host, incarnation, .. }) = slot {
                    self.send(cx, Owner { host, incarnation }, &Message::Evict);
                }
            }
        }
        left
    }

    /// As `evict`, this host alone. Each candidate is looked at once at most, so a row that was used since
    /// the last time (or has just moved in) outlives one call at least.
    pub(super) fn move_out_to_budget<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        self.move_out_below(cx, 100, usize::MAX)
    }

    /// Moves rows of this host out while more is used than so much of the budget, at most so many.
    fn move_out_below<F: Fabric>(&self, cx: &Cx<F>, percent: u64, most: usize) -> usize {
        let mut left = 0;
        if !self.is_beyond(cx, percent) {
            return left;
        }
        let known = self.move_out.lock(cx).len();
        for _ in 0..known.min(LOOKED_AT) {
            if self.move_one_out(cx) {
                left += 1;
                self.collect(cx);
                if left == most || !self.is_beyond(cx, percent) {
                    break;
                }
            }
        }
        left
    }

    /// This host's share of making room before somebody needs it.
    pub(super) fn move_out_ahead<F: Fabric>(&self, cx: &Cx<F>) {
        if self.policies.move_out_when == MoveOutWhen::OnDemand {
            return;
        }
        let marks = self.policies.marks;
        debug_assert!(marks.low_percent <= marks.high_percent, "it begins above where it ends");
        let begun = self.makes_room.load(Ordering::Relaxed);
        let mark = if begun { marks.low_percent } else { marks.high_percent };
        let goes_on = self.is_beyond(cx, mark);
        if begun != goes_on {
            self.makes_room.store(goes_on, Ordering::Relaxed);
        }
        if goes_on {
            self.move_out_below(cx, marks.low_percent, ROWS_AHEAD);
        }
    }

    /// Looks whether some rows were used, where that matters before one is to leave.
    pub(super) fn look_at_uses<F: Fabric>(&self, cx: &Cx<F>) {
        if self.policies.move_out != MoveOut::Lru {
            return;
        }
        for _ in 0..LOOKS {
            let Some((number, row)) = self.move_out.lock(cx).look() else { return };
            let part = self.part(cx, (row.partition, row.table));
            let is_stale = part.rows.is_free(row.row) || part.address(row.row) != Some(row.at);
            let was_used = is_stale || self.shared.take_second_chance(cx, row.at);
            drop(part);
            if was_used {
                self.move_out.lock(cx).looked(number, is_stale);
            }
        }
    }

    /// Offers one candidate to leave; true if it did.
    fn move_one_out<F: Fabric>(&self, cx: &Cx<F>) -> bool {
        let Some((candidate, honours_use)) = self.move_out.lock(cx).candidate() else { return false };
        let mut part = self.part(cx, (candidate.partition, candidate.table));
        if part.rows.is_free(candidate.row) || part.address(candidate.row) != Some(candidate.at) {
            return false;
        }
        // While this host takes a partition over, what its rows lie in is still the dead owner's.
        let stays = !self.holds(candidate.partition)
            || honours_use && self.shared.take_second_chance(cx, candidate.at);
        if stays || !self.move_row_out(cx, &mut part, candidate.row) {
            drop(part);
            self.move_out.lock(cx).keep(candidate);
            return false;
        }
        debug_assert!(part.address(candidate.row).is_none(), "it is in DRAM alone");
        true
    }

    /// Moves one row of this host out, by policy; for tests and for tools.
    pub fn move_out_some<F: Fabric>(&self, cx: &Cx<F>, most: usize) -> usize {
        let known = self.move_out.lock(cx).len();
        (0..2 * known).filter(|_| self.move_one_out(cx)).take(most).count()
    }
}
