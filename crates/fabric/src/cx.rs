//! The context every function above this crate receives: who is asking (host, worker), the memory, the clock,
//! the random numbers and the counters.
//!
//! Invariants:
//! 1. One `Cx` belongs to one worker; it is never shared between threads (it is not `Sync`).
//! 2. Every verb that the code above performs goes through here, so the counters are exact on every backend.
//! 3. Randomness comes from the seed alone.

use std::cell::Cell;

use crate::addr::{DataAddr, SyncAddr, lines};
use crate::fabric::{CutOff, Fabric, RangeUse, Remote, Work};
use crate::layout::Layout;

/// Number of a host in its pod, 0 to 15.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostId(pub u8);

/// Number of a worker in its host, 0 to 31.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WorkerId(pub u8);

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of what one worker did to shared memory since it started. Differences of two snapshots give
        /// the cost of what lies between.
        #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
        pub struct Counts { $($(#[$doc])* pub $name: u64,)* }

        impl Counts {
            /// Field by field `self - earlier`.
            pub fn since(&self, earlier: &Counts) -> Counts {
                $(debug_assert!(self.$name >= earlier.$name, concat!(stringify!($name), " went back"));)*
                Counts { $($name: self.$name - earlier.$name,)* }
            }

            /// Field by field sum.
            pub fn plus(&self, other: &Counts) -> Counts {
                Counts { $($name: self.$name + other.$name,)* }
            }

            /// Names and values, in declaration order.
            pub fn entries(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }

        #[derive(Default)]
        struct Cells { $($name: Cell<u64>,)* }

        impl Cells {
            fn snapshot(&self) -> Counts {
                Counts { $($name: self.$name.get(),)* }
            }
        }
    };
}

counters! {
    /// Loads of sync words.
    sync_loads,
    /// Stores to sync words.
    sync_stores,
    /// Compare-and-swaps on sync words, successful or not.
    sync_swaps,
    /// Bytes of data read from shared memory.
    bytes_read,
    /// Bytes of data written to shared memory.
    bytes_written,
    /// Lines handed to `write_back`.
    lines_written_back,
    /// Lines handed to `invalidate`.
    lines_invalidated,
    /// Fences.
    fences,
}

/// One worker's context. `F` is the one type parameter of everything above this crate.
pub struct Cx<F: Fabric> {
    fabric: F,
    host: HostId,
    worker: Cell<WorkerId>,
    random: Cell<u64>,
    cells: Cells,
}

fn bump(cell: &Cell<u64>, by: u64) {
    cell.set(cell.get() + by);
}

impl<F: Fabric> Cx<F> {
    /// The context of worker `worker` of host `host`; its random numbers follow from `seed` and these two
    /// numbers.
    pub fn new(fabric: F, host: HostId, worker: WorkerId, seed: u64) -> Self {
        let mixed = seed ^ (u64::from(host.0) << 40) ^ (u64::from(worker.0) << 32);
        let (worker, random) = (Cell::new(worker), Cell::new(mixed));
        Self { fabric, host, worker, random, cells: Cells::default() }
    }

    /// The host this worker runs on.
    pub fn host(&self) -> HostId {
        self.host
    }

    /// This worker's number in its host.
    pub fn worker(&self) -> WorkerId {
        self.worker.get()
    }

    /// Goes on as another worker of the host, whose number nobody else uses meanwhile: for threads that are
    /// lent workers.
    pub fn run_as(&self, worker: WorkerId) {
        self.worker.set(worker);
    }

    /// The backend itself, for code that starts workers (backends and the simulator's driver).
    pub fn fabric(&self) -> &F {
        &self.fabric
    }

    /// What this worker has done so far.
    pub fn counts(&self) -> Counts {
        self.cells.snapshot()
    }

    /// The next 64 random bits (SplitMix64).
    pub fn random(&self) -> u64 {
        let state = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(state);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A random number in `0..bound` (bound > 0), by multiply-shift; the bias is below 2^-32 for bounds below
    /// 2^32.
    pub fn random_below(&self, bound: u64) -> u64 {
        debug_assert!(bound > 0);
        let below = ((u128::from(self.random()) * u128::from(bound)) >> 64) as u64;
        debug_assert!(below < bound, "{below} of {bound}");
        below
    }

    /// See [`Fabric::now_ns`].
    pub fn now_ns(&self) -> u64 {
        self.fabric.now_ns()
    }

    /// See [`Fabric::pause`].
    #[track_caller]
    pub fn pause(&self) {
        self.fabric.pause();
    }

    /// See [`Fabric::rest`].
    #[track_caller]
    pub fn rest(&self, ns: u64) {
        self.fabric.rest(ns);
    }

    /// See [`Fabric::is_crowded`].
    pub fn is_crowded(&self) -> bool {
        self.fabric.is_crowded()
    }

    /// See [`Fabric::doze`].
    #[track_caller]
    pub fn doze(&self, bell: SyncAddr, mut look: impl FnMut() -> u64) {
        debug_assert!(bell.offset().is_multiple_of(16), "{bell:?} is no bell: it is a pair of words");
        self.fabric.doze(bell, &mut look);
    }

    /// See [`Fabric::ring`].
    #[track_caller]
    #[inline]
    pub fn ring(&self, bell: SyncAddr) {
        debug_assert!(bell.offset().is_multiple_of(16), "{bell:?} is no bell: it is a pair of words");
        self.fabric.ring(bell);
    }

    /// See [`Fabric::process`].
    pub fn process(&self) -> u64 {
        self.fabric.process()
    }

    /// See [`Fabric::cut_off`].
    #[track_caller]
    pub fn cut_off(&self, host: HostId, process: u64) -> CutOff {
        self.fabric.cut_off(host, process)
    }

    /// See [`Fabric::is_gone`].
    #[track_caller]
    pub fn is_gone(&self, host: HostId, process: u64) -> bool {
        self.fabric.is_gone(host, process)
    }

    /// See [`Fabric::spend`].
    #[inline]
    pub fn spend(&self, work: Work, times: u32) {
        self.fabric.spend(work, times);
    }

    /// See [`Fabric::has_network`].
    pub fn has_network(&self) -> bool {
        self.fabric.has_network()
    }

    /// See [`Fabric::send_message`].
    #[track_caller]
    pub fn send_message(&self, to: HostId, message: Vec<u8>) {
        debug_assert_ne!(to, self.host, "a host has no way to itself");
        self.fabric.send_message(to, message);
    }

    /// See [`Fabric::receive_message`].
    #[track_caller]
    pub fn receive_message(&self) -> Option<(HostId, Vec<u8>)> {
        self.fabric.receive_message()
    }

    /// See [`Fabric::has_remote_memory`].
    pub fn has_remote_memory(&self) -> bool {
        self.fabric.has_remote_memory()
    }

    /// See [`Fabric::remote`].
    #[track_caller]
    pub fn remote(&self, moment: Remote) {
        self.fabric.remote(moment);
    }

    /// See [`Fabric::coherent_data`].
    pub fn coherent_data(&self) -> bool {
        self.fabric.coherent_data()
    }

    /// See [`Fabric::sabotaged`].
    #[inline]
    pub fn sabotaged(&self, step: &'static str) -> bool {
        F::CHECKED && self.fabric.sabotaged(step)
    }

    /// See [`Fabric::load`].
    #[track_caller]
    #[inline]
    pub fn load(&self, at: SyncAddr) -> u64 {
        bump(&self.cells.sync_loads, 1);
        self.fabric.load(at)
    }

    /// See [`Fabric::store`].
    #[track_caller]
    #[inline]
    pub fn store(&self, at: SyncAddr, value: u64) {
        bump(&self.cells.sync_stores, 1);
        self.fabric.store(at, value);
    }

    /// See [`Fabric::compare_exchange`].
    #[track_caller]
    #[inline]
    pub fn compare_exchange(&self, at: SyncAddr, current: u64, new: u64) -> Result<u64, u64> {
        bump(&self.cells.sync_swaps, 1);
        let swapped = self.fabric.compare_exchange(at, current, new);
        debug_assert!(matches!(swapped, Ok(seen) if seen == current) || swapped.is_err_and(|s| s != current));
        swapped
    }

    /// Adds to a sync word by compare-and-swap (a pod with cache-bypassing sync words has no fetch-and-add)
    /// and returns the value before.
    #[track_caller]
    pub fn fetch_add(&self, at: SyncAddr, by: u64) -> u64 {
        let mut seen = self.load(at);
        loop {
            match self.compare_exchange(at, seen, seen.wrapping_add(by)) {
                Ok(before) => return before,
                Err(now) => seen = now,
            }
        }
    }

    /// See [`Fabric::read`].
    #[track_caller]
    #[inline]
    pub fn read(&self, at: DataAddr, out: &mut [u8]) {
        bump(&self.cells.bytes_read, out.len() as u64);
        self.fabric.read(at, out);
    }

    /// See [`Fabric::write`].
    #[track_caller]
    #[inline]
    pub fn write(&self, at: DataAddr, bytes: &[u8]) {
        bump(&self.cells.bytes_written, bytes.len() as u64);
        self.fabric.write(at, bytes);
    }

    /// See [`Fabric::write_back`].
    #[track_caller]
    #[inline]
    pub fn write_back(&self, at: DataAddr, len: usize) {
        let touched = lines(at.offset(), len);
        bump(&self.cells.lines_written_back, touched.end - touched.start);
        self.fabric.write_back(at, len);
    }

    /// See [`Fabric::invalidate`].
    #[track_caller]
    #[inline]
    pub fn invalidate(&self, at: DataAddr, len: usize) {
        let touched = lines(at.offset(), len);
        bump(&self.cells.lines_invalidated, touched.end - touched.start);
        self.fabric.invalidate(at, len);
    }

    /// See [`Fabric::fence`].
    #[track_caller]
    #[inline]
    pub fn fence(&self) {
        bump(&self.cells.fences, 1);
        self.fabric.fence();
    }

    /// See [`Fabric::range_use`].
    #[track_caller]
    #[inline]
    pub fn range_use(&self, at: DataAddr, len: usize, now: RangeUse) {
        self.fabric.range_use(at, len, now);
    }

    /// See [`Fabric::begin_unsure`].
    #[inline]
    pub fn begin_unsure(&self) {
        self.fabric.begin_unsure();
    }

    /// See [`Fabric::end_unsure`].
    #[track_caller]
    #[inline]
    pub fn end_unsure(&self, relied: bool) {
        self.fabric.end_unsure(relied);
    }

    /// Writes data and completes its write-back: from here on a sync word may tell other hosts about it.
    #[track_caller]
    #[inline]
    pub fn publish(&self, at: DataAddr, bytes: &[u8]) {
        self.write(at, bytes);
        self.write_back(at, bytes.len());
        self.fence();
    }

    /// Drops whatever this host cached of the range and reads what others published.
    #[track_caller]
    #[inline]
    pub fn refresh(&self, at: DataAddr, out: &mut [u8]) {
        self.invalidate(at, out.len());
        self.fence();
        self.read(at, out);
    }

    /// Publishes a declared layout.
    #[track_caller]
    pub fn publish_layout<T: Layout>(&self, at: DataAddr, value: &T) {
        const { assert!(size_of::<T>() > 0, "a layout has bytes") };
        self.publish(at, value.as_bytes());
    }

    /// Refreshes a declared layout.
    #[track_caller]
    pub fn refresh_layout<T: Layout>(&self, at: DataAddr) -> T {
        const { assert!(size_of::<T>() > 0, "a layout has bytes") };
        let mut value = T::new_zeroed();
        self.refresh(at, value.as_mut_bytes());
        value
    }

    /// Reads a declared layout through the cache, without refreshing it.
    #[track_caller]
    pub fn read_layout<T: Layout>(&self, at: DataAddr) -> T {
        let mut value = T::new_zeroed();
        self.read(at, value.as_mut_bytes());
        value
    }
}
