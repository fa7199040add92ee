//! Bells: where the threads of a host sleep, and what wakes them (docs/protocols/bells.md).
//!
//! ```text
//! line of a host   words 0, 1: Bell::Work   2, 3: Bell::Log   4, 5: Bell::Durable   6, 7: Bell::Checkpoint
//! ```
//!
//! Invariants:
//! 1. A ring follows what it is for: that is visible to all hosts before the bell is rung.
//! 2. Nothing depends on a ring but how soon somebody wakes: a host may die between the change and the ring.
//!
//! It does not know what sleepers wait for, and nobody is told who has rung.

use liger_fabric::{Cx, Fabric, HostId, LINE, SyncAddr};

use crate::plan::Plan;

/// What a thread of a host sleeps for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Bell {
    /// Mail, an order of a self-test, an answer, or more that is durable: where whoever answers other hosts
    /// sleeps, and a worker that waits in the middle of a transaction.
    Work = 0,
    /// An epoch of the log that somebody wants to end, or that has ended, or a ring that fills: where the
    /// shipper sleeps.
    Log = 1,
    /// More that is durable: where those sleep who wait for nothing else.
    Durable = 2,
    /// A checkpoint that somebody wants: where the checkpointer sleeps.
    Checkpoint = 3,
}

/// Words of a host's line.
const WORDS: u64 = LINE as u64 / 8;

/// Where a bell of a host is.
pub fn bell(plan: &Plan, host: HostId, bell: Bell) -> SyncAddr {
    plan.bells(host).word(2 * bell as u64)
}

/// Spins of a wait that are awake in any case: some microseconds, in which another host that runs may have
/// answered.
pub const AWAKE_SPINS: u32 = 96;
/// Spins that are awake as long as nobody else wants the processor: some ten microseconds.
pub const ALONE_SPINS: u32 = 1024;

// A bell has two words of its host's line; waits are awake before they sleep.
const _: () = assert!(2 * Bell::Checkpoint as u64 + 1 < WORDS);
const _: () = assert!(AWAKE_SPINS < ALONE_SPINS);

/// How long who waits in the middle of something sleeps at most: nobody rings for all that it waits for.
pub const REST_NS: u64 = 1_000_000;

/// Goes once more round a wait that has had `spins` rounds: with a pause at first, and then asleep until the
/// bell is rung or it is time to look around. `is_over`: the wait is, or there is something to do meanwhile.
pub fn pass<F: Fabric>(cx: &Cx<F>, bell: SyncAddr, spins: u32, is_over: impl Fn() -> bool) {
    if spins < AWAKE_SPINS || (spins < ALONE_SPINS && !cx.is_crowded()) {
        return cx.pause();
    }
    cx.doze(bell, || if is_over() { 0 } else { REST_NS });
}

/// Rings a bell of every host.
pub fn ring_all<F: Fabric>(cx: &Cx<F>, plan: &Plan, which: Bell) {
    plan.hosts().for_each(|host| cx.ring(bell(plan, host, which)));
}

/// Forgets who slept here in an earlier incarnation of the caller's host: nobody has woken since.
pub(crate) fn clear<F: Fabric>(cx: &Cx<F>, plan: &Plan) {
    (0..WORDS).for_each(|word| cx.store(plan.bells(cx.host()).word(word), 0));
}
