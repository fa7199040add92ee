//! When a shipper has something to do, and how long nobody will miss its next turn.

use liger_fabric::{Cx, Fabric, UNTIL_RUNG};

use super::super::epoch::LogClock;
use super::{Shipper, WATCH_NS};

/// The longest time between two looks while records come: a ring may fill sooner than a long epoch ends.
const MOST_REST_NS: u64 = 4_000_000;

/// Records come until the last was seen so many epochs ago: who writes one now and then wakes nobody.
const COMING_EPOCHS: u64 = 16;

/// An epoch that brought so many bytes of records was a busy one.
const BUSY_BYTES: u64 = 16 << 10;

impl Shipper {
    /// True if the last sync is so long ago that a mark should say that it took place. While nobody asks for
    /// what has come since, it can wait for more: a sync costs as much for a few bytes as for many.
    pub(super) fn is_mark_due<F: Fabric>(&self, cx: &Cx<F>, tails: &[u64]) -> bool {
        let epochs = if self.heads == tails { 1 } else { 16 };
        cx.now_ns().saturating_sub(self.synced_at_ns) >= epochs * self.options.epoch_ns
    }

    /// How long nobody will miss the next turn; whoever wants one sooner wakes the shipper: the first who
    /// waits for the epoch, whoever ends it, and whoever finds a ring full. Who waits for the epoch to end
    /// must wait until it has lasted long enough. An epoch that has ended and has no mark here is waited for
    /// now, by a worker that is about to commit in it. If nobody waits but records come or came lately, or
    /// the last bytes are not known to be synced by anything behind them, their writers are content with
    /// `pod`, and this host looks now and then. Otherwise it is idle, and the next record wakes it.
    pub(super) fn rest_ns<F: Fabric>(&mut self, cx: &Cx<F>, clock: &LogClock, tails: Vec<u64>) -> u64 {
        let (has_time, now_ns) = (self.have_time(&tails), cx.now_ns());
        if self.seen != tails {
            (self.seen, self.seen_ns) = (tails, now_ns);
        }
        let comes = now_ns.saturating_sub(self.seen_ns) < COMING_EPOCHS * self.options.epoch_ns;
        let lasted_ns = now_ns.saturating_sub(self.epoch_since_ns);
        let rest_ns = if self.durable + 1 < self.epoch {
            WATCH_NS
        } else if clock.wanted() >= self.epoch {
            self.epoch_ns().saturating_sub(lasted_ns).clamp(1, MOST_REST_NS)
        } else if comes || self.open_end {
            (self.options.epoch_ns / 2).clamp(WATCH_NS, MOST_REST_NS)
        } else {
            UNTIL_RUNG
        };
        // Before the next look, which comes before the sleep: a record that wakes nobody is found there.
        clock.set_idle(rest_ns == UNTIL_RUNG);
        if has_time { rest_ns } else { rest_ns.min(WATCH_NS) }
    }

    /// How long this epoch lasts at least.
    pub(super) fn epoch_ns(&self) -> u64 {
        self.options.epoch_ns * if self.epoch_bytes >= BUSY_BYTES { self.options.busy_factor } else { 1 }
    }

    /// True if a ring is so full that its worker may soon wait.
    pub(super) fn pressing(&self, tails: &[u64]) -> bool {
        let mut rings = self.rings.iter().zip(tails).zip(&self.heads);
        rings.any(|((ring, tail), head)| tail - head > ring.ring_bytes() / 4)
    }

    /// True if no ring will be full soon: not when what has come since the last look comes many times more.
    pub(super) fn have_time(&self, tails: &[u64]) -> bool {
        let mut rings = self.rings.iter().zip(tails).zip(self.heads.iter().zip(&self.seen));
        rings.all(|((ring, tail), (head, seen))| tail - head + 16 * (tail - seen) < ring.ring_bytes())
    }
}
