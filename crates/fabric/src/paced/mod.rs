//! Paced backend: native memory, slowed down to the latencies and the bandwidth of a hardware profile.
//!
//! ```
//! use liger_fabric::native::{HostMemory, Mapping, NativeHost};
//! use liger_fabric::paced::{Clocks, PacedHost};
//! use liger_fabric::profile::Profile;
//! use liger_fabric::{DataAddr, HostId, SyncMode, WorkerId};
//!
//! let profile = Profile::built_in("polar-xconn")?;
//! let memory = Mapping::anonymous(1 << 20)?;
//! let clocks = Clocks::create(&profile, 1 << 20)?;
//! let below = NativeHost::new(memory, profile.sync_words, HostId(0));
//! let cx = PacedHost::over(below, clocks, &profile).cx(WorkerId(0), 1);
//! let (at, start) = (DataAddr::new(4096), cx.now_ns());
//! cx.read(at, &mut [0; 64]);
//! assert!(cx.now_ns() - start >= 540, "a miss of that machine");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Whether an access misses is decided by tags of a host's (a process's) cache, and how long it takes by the
//! profile and by [`Clocks`], as in timed simulation; but threads, processes, computation and races are real.
//! A worker waits by spinning on the time-stamp counter until its verb would be done.
//!
//! Invariants:
//! 1. A verb takes the longer of what this machine takes and what the modelled one would: what is really
//!    spent is part of the modelled time, never added to it.
//! 2. Contents are as on `native`: nothing is incoherent here, and a missing instruction makes a program
//!    fast, not wrong.
//! 3. Results are of injected latencies; whoever reports them says so, and of which profile.
//!
//! What it does not show: a modelled machine that is faster than this one ([`HostMemory::tally`] counts
//! verbs that were `overdue`); a modelled hit costs what a look at the tags does, some tens of nanoseconds a
//! line; where fewer processors than workers run, waiting workers keep them from others. `spend` costs
//! nothing: computation takes what it takes here.

mod clocks;
mod meter;

use std::sync::Arc;

pub use clocks::{Clocks, PacedError};

use crate::addr::{DataAddr, SyncAddr};
use crate::cx::HostId;
use crate::fabric::{CutOff, Fabric};
use crate::native::{HostMemory, Native, NativeHost};
use crate::profile::Profile;
use meter::{HostMeter, Meter, count};

/// Waits are left to themselves by pauses, for the sake of a sibling processor, until so little is left.
const LONG_PS: u64 = 300_000;

/// One host at the pace of a profile. Clones are the same host, with the same tags.
#[derive(Clone)]
pub struct PacedHost {
    below: NativeHost,
    meter: Arc<HostMeter>,
}

/// One worker's view of a paced pod.
pub struct Paced {
    native: Native,
    meter: Meter,
}

impl PacedHost {
    /// The host of `below`, its cache empty. It may map more than `clocks` were made for, a whole device say;
    /// words beyond must not be used.
    ///
    /// # Panics
    /// If the sync words of `below` are not of the profile's kind.
    pub fn over(below: NativeHost, clocks: Arc<Clocks>, profile: &Profile) -> Self {
        assert_eq!(below.sync_mode(), profile.sync_words, "the profile says how sync words work");
        let meter = HostMeter::new(clocks, profile, below.host().0.into());
        Self { below, meter: Arc::new(meter) }
    }
}

impl HostMemory for PacedHost {
    type View = Paced;

    fn host(&self) -> HostId {
        self.below.host()
    }

    fn view(&self) -> Paced {
        Paced { native: self.below.view(), meter: self.meter.worker() }
    }

    fn tally(&self) -> Vec<(&'static str, u64)> {
        let names = ["paced_misses", "paced_verbs_charged", "paced_modelled_ns", "paced_verbs_overdue"];
        names.into_iter().zip(self.meter.counted()).collect()
    }
}

impl Paced {
    #[inline]
    fn now(&self) -> u64 {
        self.meter.clocks().now()
    }

    /// Waits for the modelled end of a verb that began at `start`.
    #[inline]
    fn wait(&self, start: u64, until: Option<u64>) {
        let Some(until) = until else { return };
        debug_assert!(until >= start, "a verb ends after it began: {start} to {until}");
        count(&self.meter.counters.charged, 1);
        count(&self.meter.counters.modelled_ps, until.saturating_sub(start));
        if self.now() >= until {
            return count(&self.meter.counters.overdue, 1);
        }
        loop {
            match until.saturating_sub(self.now()) {
                0 => return,
                // A pause may take longer than the rest of the wait.
                left if left > LONG_PS => std::hint::spin_loop(),
                _ => {}
            }
        }
    }
}

impl Fabric for Paced {
    const CHECKED: bool = false;

    #[inline]
    fn load(&self, at: SyncAddr) -> u64 {
        let start = self.now();
        let until = self.meter.load(at.offset(), start);
        let value = self.native.load(at);
        self.wait(start, until);
        value
    }

    #[inline]
    fn store(&self, at: SyncAddr, value: u64) {
        self.meter.store(at.offset(), self.now());
        self.native.store(at, value);
    }

    #[inline]
    fn compare_exchange(&self, at: SyncAddr, current: u64, new: u64) -> Result<u64, u64> {
        let start = self.now();
        let until = self.meter.swap(at.offset(), start);
        let swapped = self.native.compare_exchange(at, current, new);
        self.wait(start, until);
        swapped
    }

    #[inline]
    fn read(&self, at: DataAddr, out: &mut [u8]) {
        self.native.check(at, out.len());
        let start = self.now();
        let until = self.meter.touch(at.offset(), out.len(), false, start);
        self.native.read(at, out);
        self.wait(start, until);
    }

    #[inline]
    fn write(&self, at: DataAddr, bytes: &[u8]) {
        self.native.check(at, bytes.len());
        let start = self.now();
        let until = self.meter.touch(at.offset(), bytes.len(), true, start);
        self.native.write(at, bytes);
        self.wait(start, until);
    }

    fn write_back(&self, at: DataAddr, len: usize) {
        self.native.check(at, len);
        let start = self.now();
        let until = self.meter.command(at.offset(), len, false, start);
        self.native.write_back(at, len);
        self.wait(start, until);
    }

    fn invalidate(&self, at: DataAddr, len: usize) {
        self.native.check(at, len);
        let start = self.now();
        let until = self.meter.command(at.offset(), len, true, start);
        self.native.invalidate(at, len);
        self.wait(start, until);
    }

    fn fence(&self) {
        let start = self.now();
        let until = self.meter.fence(start);
        self.native.fence();
        self.wait(start, until);
    }

    /// As the profile says: code that relies on it then runs as it would there. The contents are coherent
    /// whatever it says, on the one machine that a paced pod runs on.
    fn coherent_data(&self) -> bool {
        self.meter.coherent_data()
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        self.native.now_ns()
    }

    fn pause(&self) {
        self.native.pause();
    }

    fn rest(&self, ns: u64) {
        self.native.rest(ns);
    }

    fn is_crowded(&self) -> bool {
        self.native.is_crowded()
    }

    fn doze(&self, bell: SyncAddr, look: &mut dyn FnMut() -> u64) {
        self.native.doze(bell, look);
    }

    #[inline]
    fn ring(&self, bell: SyncAddr) {
        self.native.ring(bell);
    }

    fn process(&self) -> u64 {
        self.native.process()
    }

    fn cut_off(&self, host: HostId, process: u64) -> CutOff {
        self.native.cut_off(host, process)
    }

    fn is_gone(&self, host: HostId, process: u64) -> bool {
        self.native.is_gone(host, process)
    }
}
