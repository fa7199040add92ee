//! Whole pods in one process: simulated from a seed, their histories checked.
//!
//! * [`pod`]: a pod of row engines inside the simulator; [`rows`]: random transactions on it;
//! * [`durable`]: the same with logs and checkpoints, until the pod loses its memory, and what comes back;
//! * [`survival`]: some of its hosts die while others live; [`crash_points`]: before every single verb of
//!   small operations;
//! * [`scenario`]: small programs on parts of a pod and on whole ones; [`mutation`]: each instruction and
//!   step that the pod's protocols need is left out once, and some scenario must notice;
//! * [`recorder`], [`history`]: what transactions saw and did, printable and storable as JSON;
//! * [`bench`]: workloads on such a pod, adversarial or in virtual time;
//! * [`serializability`]: the exact check of such a history.

#![forbid(unsafe_code)]

pub mod bench;
pub mod crash_points;
pub mod durable;
mod full_disks;
pub mod history;
mod logs;
pub mod motor;
pub mod mutation;
pub mod partitioned;
pub mod plain;
pub mod pod;
pub mod recorder;
pub mod rows;
pub mod scenario;
pub mod serializability;
pub mod shm;
pub mod survival;
pub mod traces;

/// Random numbers for shaping runs (SplitMix64); inside a run, workers use `Cx::random`.
#[derive(Clone, Debug)]
pub struct Picker(u64);

impl Picker {
    /// The numbers that follow from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * u128::from(bound)) >> 64) as u64
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
