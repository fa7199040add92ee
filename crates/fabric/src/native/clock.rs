//! A cheap monotonic clock: the time-stamp counter where it ticks at one rate in every power state, else the
//! system's.
//!
//! Invariants:
//! 1. Nanoseconds count from the first use in this process; two processes' clocks have nothing to do with
//!    each other.
//! 2. The rate comes from comparing the counter with the system's monotonic clock for a few milliseconds;
//!    each reading is the tightest of several, so that losing the processor in between does not spoil it.

#![expect(clippy::disallowed_methods, reason = "the backend is where the clock is read")]

use std::arch::x86_64::{__cpuid, _rdtsc};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How to turn a reading into nanoseconds.
#[derive(Clone, Copy)]
pub enum Clock {
    /// `(ticks - first) * rate >> 32`, the rate in units of 2^-32 ns per tick.
    Counter {
        /// Counter at the first use in this process.
        first: u64,
        /// Nanoseconds per tick times 2^32.
        rate: u64,
    },
    /// The system's monotonic clock.
    System(Instant),
}

impl Clock {
    /// This process's clock, calibrated at the first call (some 5 ms).
    pub fn calibrated() -> Self {
        static CLOCK: OnceLock<Clock> = OnceLock::new();
        *CLOCK
            .get_or_init(|| if has_invariant_counter() { calibrate() } else { Clock::System(Instant::now()) })
    }

    /// Nanoseconds since this process first used the clock.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        match *self {
            Clock::Counter { first, rate } => {
                let ticks = u128::from(counter().saturating_sub(first));
                ((ticks * u128::from(rate)) >> 32) as u64
            }
            Clock::System(start) => start.elapsed().as_nanos() as u64,
        }
    }
}

/// The time-stamp counter as a clock that several processes read alike: they share these two numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticks {
    /// Counter at time 0.
    pub first: u64,
    /// Picoseconds a tick, times 2^32.
    pub ps_per_tick: u64,
}

impl Ticks {
    /// From now on; `None` if the counter does not tick at one rate.
    pub fn measured() -> Option<Self> {
        match Clock::calibrated() {
            Clock::Counter { rate, .. } => {
                Some(Self { first: counter(), ps_per_tick: rate.checked_mul(1000)? })
            }
            Clock::System(_) => None,
        }
    }

    /// Picoseconds since then.
    #[inline]
    pub fn now_ps(&self) -> u64 {
        let ticks = u128::from(counter().saturating_sub(self.first));
        ((ticks * u128::from(self.ps_per_tick)) >> 32) as u64
    }
}

#[inline]
fn counter() -> u64 {
    // SAFETY: rdtsc is part of x86_64 and changes nothing.
    unsafe { _rdtsc() }
}

/// Does the counter tick at a constant rate in all power states (CPUID 8000_0007, EDX bit 8)?
fn has_invariant_counter() -> bool {
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
}

/// A counter value and the system's time that belongs to it.
fn paired_reading() -> (u64, Instant) {
    let reading = || {
        let before = counter();
        let time = Instant::now();
        let width = counter().saturating_sub(before);
        (width, before + width / 2, time)
    };
    let (_, ticks, time) = (0..32).map(|_| reading()).min_by_key(|r| r.0).expect("32 readings");
    (ticks, time)
}

fn calibrate() -> Clock {
    let (first, start) = paired_reading();
    std::thread::sleep(Duration::from_millis(5));
    let (last, end) = paired_reading();
    let (ticks, ns) = (last.saturating_sub(first), (end - start).as_nanos());
    if ticks == 0 {
        return Clock::System(start);
    }
    let rate = ((ns << 32) / u128::from(ticks)) as u64;
    assert!(rate > 0, "{ticks} ticks in {ns} ns: the clock would stand still");
    Clock::Counter { first, rate }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_the_clock_in_picoseconds() {
        let Some(ticks) = Ticks::measured() else {
            assert!(!has_invariant_counter(), "a counter that ticks evenly is used");
            return;
        };
        let clock = Clock::calibrated();
        let (from_ps, from_ns) = (ticks.now_ps(), clock.now_ns());
        std::thread::sleep(Duration::from_millis(5));
        let (ps, ns) = (ticks.now_ps() - from_ps, clock.now_ns() - from_ns);
        assert!(ns >= 5_000_000 && ps / 1000 <= ns + 1_000_000 && ns <= ps / 1000 + 1_000_000, "{ps} {ns}");
    }

    #[test]
    fn keeps_pace_with_the_system_clock() {
        let clock = Clock::calibrated();
        let (from, start) = (clock.now_ns(), Instant::now());
        std::thread::sleep(Duration::from_millis(20));
        let (to, end) = (clock.now_ns(), Instant::now());
        let (ours, theirs) = ((to - from) as f64, (end - start).as_nanos() as f64);
        // Wide: the two readings of a pair may be far apart on a busy machine.
        assert!((0.5..2.0).contains(&(ours / theirs)), "{ours} ns against {theirs} ns");
    }
}
