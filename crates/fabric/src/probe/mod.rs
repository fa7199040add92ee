//! Measures the machine it runs on through the verbs, and writes what it found as a hardware profile.
//!
//! Everything is measured in batches of many calls, on one worker in a closed loop unless it says otherwise;
//! a [`Figure`] is the median over batches of the mean of a batch, with the tenth and the ninetieth of a
//! hundred. So batches that were interrupted, or ran while another program used the memory, show in the
//! spread and hardly in the median.
//!
//! What cannot be measured here is listed with the reason ([`Findings::missing`]), and in the profile such a
//! number is taken from a built-in one, whose name its source says. Pages are those of the memory given
//! (4 KiB mostly), so latencies of memory include what the translation of addresses costs a program that is
//! spread over it. Disks are not measured.

mod chase;
mod findings;
mod machine;
mod pairs;
mod single;
mod written;

use std::sync::Arc;
use std::time::Duration;

pub use findings::{Figure, Findings, Missing};
pub use machine::{CacheLevel, Machine};
pub use pairs::partner;
pub use written::profile_of;

use crate::cx::{Cx, HostId, WorkerId};
use crate::native::{Mapping, Native};
use crate::sync_mode::SyncMode;
use findings::Recorder;

/// The least memory that can be measured.
pub const LEAST_BYTES: u64 = 4 << 20;
/// The most that is used: beyond any cache whose size is not told.
const MOST_BYTES: u64 = 512 << 20;
/// Measurements that share the time.
const SHARES: u32 = 40;

const _: () = assert!(LEAST_BYTES < MOST_BYTES && MOST_BYTES.is_multiple_of(2 << 20));

/// Memory that is well beyond the caches of `machine`.
pub fn wanted_bytes(machine: &Machine) -> u64 {
    let cache = machine.last_cache().map_or(32 << 20, |cache| cache.bytes);
    (4 * cache).clamp(64 << 20, MOST_BYTES).next_multiple_of(2 << 20)
}

/// What is measured, and for how long.
pub struct Probe {
    /// The memory of the pod to be.
    pub memory: Arc<Mapping>,
    /// About how long all of it may take.
    pub time: Duration,
}

/// A partner in another process, for what only two of them show; it is asked to end by the measurement
/// itself.
pub trait Partner {
    /// Starts it: it must call [`partner`] on the same memory.
    ///
    /// # Errors
    /// Why it cannot be started.
    fn start(&mut self) -> Result<(), String>;

    /// True once it has ended, whatever the reason.
    fn has_ended(&mut self) -> bool;
}

impl Probe {
    /// Measures. The memory's contents are destroyed.
    ///
    /// # Panics
    /// If there are less than [`LEAST_BYTES`] of it.
    pub fn run(&self, other: &mut dyn Partner) -> Findings {
        assert!(self.memory.len() as u64 >= LEAST_BYTES, "{} bytes are too few", self.memory.len());
        let machine = Machine::found();
        let mut to = Recorder::new(self.time / SHARES);
        let cx = context(&self.memory, SyncMode::Hwcc);
        let dram = Mapping::anonymous(self.memory.len());
        match &dram {
            Ok(dram) => chase::dependent("dram_read", dram, &mut to),
            Err(error) => to.missing("dram_read", format!("no memory for it: {error}")),
        }
        drop(dram);
        chase::dependent("memory_read", &self.memory, &mut to);
        chase::parallel(&self.memory, &mut to);
        single::words(&cx, &mut to);
        single::bypassing(&context(&self.memory, SyncMode::Pcc), &mut to);
        single::lines(&cx, &machine, &mut to);
        single::streams(&self.memory, &mut to);
        pairs::measure(&self.memory, &machine, other, &mut to);
        to.into_findings(machine)
    }
}

fn context(memory: &Arc<Mapping>, mode: SyncMode) -> Cx<Native> {
    Cx::new(Native::with_sync_mode(memory.clone(), mode), HostId(0), WorkerId(0), 1)
}

#[cfg(test)]
mod tests;
