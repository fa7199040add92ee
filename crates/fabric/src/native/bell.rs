//! Sleeping until somebody rings, in whatever process: two words of the pod's memory, and the kernel's futex.
//!
//! ```text
//! word 0  how often the bell has been rung while somebody slept (its low half; the futex)
//! word 1  how many threads sleep here, or are about to
//! ```
//!
//! Invariants:
//! 1. Who is to sleep counts itself first, notes the rings second, looks third, and sleeps only while no
//!    further ring has come. Who rings changes something first and loads the count second. Both with full
//!    barriers between, so either the look finds the change, or the ring finds the sleeper.
//! 2. A sleep ends by itself: a host may die between its change and its ring. A process that is killed in its
//!    sleep stays counted until its host joins again; that costs those who ring a system call each, and
//!    nothing else.
//!
//! Not across machines: there a futex wakes nobody, and a sleep is short instead.

#![expect(clippy::disallowed_methods, reason = "the backend is where waiting happens")]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

use rustix::thread::futex;

use super::IDLE_NS;
use crate::addr::LINE;

/// The longest sleep.
const LONGEST_NS: u64 = 200_000_000;

/// A bell in mapped memory.
pub(super) struct Bell<'m> {
    rings: &'m AtomicU32,
    sleepers: &'m AtomicU64,
    /// All who ring are of this machine.
    is_local: bool,
}

/// A sleeper, counted until it is dropped: a look may panic.
struct Counted<'m>(&'m AtomicU64);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<'m> Bell<'m> {
    /// The bell whose words are number `first` and the next one of a line.
    #[inline]
    pub(super) fn at(line: &'m [AtomicU64; LINE / 8], first: usize, is_local: bool) -> Self {
        assert!(first.is_multiple_of(2), "a bell is a pair of words");
        // SAFETY: the word is 8 bytes, aligned, and lives as long as the line; its low half is only ever
        // accessed as this atomic.
        let rings = unsafe { AtomicU32::from_ptr(line[first].as_ptr().cast()) };
        Self { rings, sleepers: &line[first + 1], is_local }
    }

    /// See [`crate::Fabric::doze`].
    pub(super) fn doze(&self, look: &mut dyn FnMut() -> u64) {
        if !self.is_local {
            match look() {
                0 => {}
                ns => std::thread::sleep(Duration::from_nanos(ns.min(IDLE_NS))),
            }
            return;
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let _counted = Counted(self.sleepers);
        let heard = self.rings.load(Ordering::SeqCst);
        // What the look reads is read behind this.
        fence(Ordering::SeqCst);
        let ns = look().min(LONGEST_NS);
        if ns > 0 {
            let time = futex::Timespec { tv_sec: 0, tv_nsec: ns as futex::Nsecs };
            // Rung meanwhile, timed out, interrupted: in each case the caller looks again.
            let _ = futex::wait(self.rings, futex::Flags::empty(), heard, Some(&time));
        }
    }

    /// See [`crate::Fabric::ring`].
    #[inline]
    pub(super) fn ring(&self) {
        if self.sleepers.load(Ordering::SeqCst) != 0 && self.is_local {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        self.rings.fetch_add(1, Ordering::SeqCst);
        // Nobody may sleep any more.
        let _ = futex::wake(self.rings, futex::Flags::empty(), i32::MAX as u32);
    }
}

const _: () = assert!(LONGEST_NS < 1_000_000_000, "a sleep is less than a second");
const _: () = assert!(IDLE_NS <= LONGEST_NS, "who cannot be rung looks sooner again");

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::addr::SyncAddr;
    use crate::cx::{Cx, HostId, WorkerId};
    use crate::fabric::UNTIL_RUNG;
    use crate::native::{Mapping, Native};

    const BELL: SyncAddr = SyncAddr::new(128);
    const TURN: SyncAddr = SyncAddr::new(64);

    fn cx(mapping: &std::sync::Arc<Mapping>, worker: u8) -> Cx<Native> {
        Cx::new(Native::new(mapping.clone()), HostId(0), WorkerId(worker), 1)
    }

    /// Two threads wake each other in turn: a ring that is missed costs the longest sleep each time.
    #[test]
    fn no_ring_is_missed() {
        let mapping = Mapping::anonymous(4096).expect("memory");
        const TURNS: u64 = 20_000;
        let play = |worker: u8| {
            let cx = cx(&mapping, worker);
            loop {
                let turn = cx.load(TURN);
                if turn >= TURNS {
                    cx.ring(BELL);
                    return;
                }
                if turn.is_multiple_of(2) == (worker == 0) {
                    cx.store(TURN, turn + 1);
                    cx.fence();
                    cx.ring(BELL);
                } else {
                    cx.doze(BELL, || if cx.load(TURN) == turn { UNTIL_RUNG } else { 0 });
                }
            }
        };
        let started = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| play(0));
            scope.spawn(|| play(1));
        });
        assert!(started.elapsed() < Duration::from_secs(60), "{:?} for {TURNS} turns", started.elapsed());
        assert_eq!(cx(&mapping, 0).load(BELL.word(1)), 0, "nobody sleeps any more");
    }

    #[test]
    fn a_sleep_lasts_as_long_as_the_look_says_and_none_without_need() {
        let mapping = Mapping::anonymous(4096).expect("memory");
        let cx = cx(&mapping, 0);
        let started = Instant::now();
        cx.doze(BELL, || 5_000_000);
        assert!(started.elapsed() >= Duration::from_millis(5));
        let started = Instant::now();
        (0..100).for_each(|_| cx.doze(BELL, || 0));
        assert!(started.elapsed() < Duration::from_millis(50));
        assert_eq!(cx.load(BELL.word(1)), 0);
    }
}
