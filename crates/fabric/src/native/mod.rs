//! Native backend: memory that processes or threads really share, driven with the processor's own
//! instructions.
//!
//! Invariants:
//! 1. `write_back`, `invalidate` and `fence` always issue real cache instructions: on a real pod they are
//!    what makes the rules true, and on one machine they cost what they cost there.
//! 2. All accesses are checked against the mapping's length; sync words are only ever accessed atomically.
//! 3. Data is copied by value through raw pointers. Another *process* may change the bytes at any time, and
//!    the memory model's one-writer rule, not Rust's type system, is what keeps a copy whole.
//!
//! It hides nothing: on one coherent machine a missing `write_back` goes unnoticed here. Use `sim` to find
//! it.

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "the native backend needs x86_64: its cache instructions (clwb, clflushopt, mfence) are written for it"
);

pub mod allocator;
mod bell;
mod cache;
mod clock;
mod deaths;
mod host;
mod mapping;
mod memory;
pub mod process;
mod reader;
mod service;
mod workers;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use cache::{CacheInstructions, LineInstruction};
pub use deaths::DeathWatch;
pub use host::{HostMemory, NativeHost};
pub use mapping::Mapping;
pub use memory::{MemoryError, MemorySpec};
pub use reader::NativeReader;
pub use service::{IDLE_NS, Nudge, Rest, Service};
pub use workers::{WorkerPanicked, run_hosts, run_workers};
pub(crate) use workers::{allowed_processors, bind_to};

use crate::addr::{DataAddr, LINE, SyncAddr};
use crate::cx::HostId;
use crate::fabric::{CutOff, Fabric};
use crate::sync_mode::SyncMode;
use clock::Clock;
pub(crate) use clock::Ticks;

/// Pauses that spin before the first that gives the processor away: a few microseconds, about what another
/// core's reply takes. Hosts may be processes that share few cores, so waiting longer than that without
/// yielding starves the other.
const SPINNING_PAUSES: u32 = 64;
/// Pauses that give the processor away before the first that sleeps: threads that only yield to one another
/// keep processors busy, and whom they wait for from them. Many more while nobody else wants the processor:
/// some hundred microseconds, for a processor that falls asleep takes that long to wake.
const YIELDING_PAUSES: (u32, u32) = (32, 256);
/// Pauses that spin behind one that gave the processor away and found that nobody else wants it.
const SPINNING_ALONE: u32 = 32;
/// Who has given the processor away for so long has given it to somebody.
const CROWDED_NS: u64 = 5_000;
/// How long the first pause sleeps that does; each next one twice as long, up to the longest.
const SLEEPING_NS: (u64, u64) = (20_000, 640_000);

// A wait becomes more patient, never less.
const _: () = assert!(YIELDING_PAUSES.0 < YIELDING_PAUSES.1 && SLEEPING_NS.0 < SLEEPING_NS.1);
const _: () = assert!(CROWDED_NS < SLEEPING_NS.0, "a sleep is not taken for a crowd");

/// One worker's view of a native pod.
pub struct Native {
    base: *mut u8,
    len: usize,
    bypass: bool,
    instructions: CacheInstructions,
    clock: Clock,
    /// Pauses since this worker last changed shared memory (a wait loop only loads).
    pauses: Cell<u32>,
    /// Since then somebody else has had the processor.
    crowded: Cell<bool>,
    /// How many of the next pauses spin: nobody else wanted the processor a moment ago.
    alone: Cell<u32>,
    mapping: Arc<Mapping>,
}

// SAFETY: `base` points into `mapping`, which this view keeps alive and which threads share anyway; nothing
// here belongs to a thread. A view is used by one thread at a time (it is not `Sync`).
unsafe impl Send for Native {}

impl Native {
    /// A worker's view of `mapping` with coherent sync words.
    pub fn new(mapping: Arc<Mapping>) -> Self {
        Self::with_sync_mode(mapping, SyncMode::Hwcc)
    }

    /// A worker's view of `mapping`.
    ///
    /// # Panics
    /// If the memory was mapped for reading only.
    pub fn with_sync_mode(mapping: Arc<Mapping>, sync_mode: SyncMode) -> Self {
        assert!(mapping.is_writable(), "a worker needs memory that it may change");
        Self { bypass: sync_mode == SyncMode::Pcc, ..Self::over(mapping) }
    }

    fn over(mapping: Arc<Mapping>) -> Self {
        assert!(mapping.base().addr().is_multiple_of(LINE), "lines start where the memory does");
        Self {
            base: mapping.base(),
            len: mapping.len(),
            bypass: false,
            instructions: CacheInstructions::detect(),
            clock: Clock::calibrated(),
            pauses: Cell::new(0),
            crowded: Cell::new(false),
            alone: Cell::new(0),
            mapping,
        }
    }

    /// The memory below.
    pub fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    /// The mapped address of a range.
    ///
    /// # Panics
    /// If the range leaves the mapping: an address was computed wrongly.
    #[inline]
    fn at(&self, offset: u64, len: usize) -> *mut u8 {
        let offset = offset as usize;
        if len > self.len || offset > self.len - len {
            beyond(offset, len, self.len);
        }
        self.base.wrapping_add(offset)
    }

    #[inline]
    fn word(&self, at: SyncAddr) -> &AtomicU64 {
        let p = self.at(at.offset(), 8);
        // SAFETY: in bounds for as long as `self.mapping` lives, 8-byte aligned, and sync words are only ever
        // accessed atomically.
        unsafe { AtomicU64::from_ptr(p.cast()) }
    }

    #[inline]
    fn bell(&self, at: SyncAddr) -> bell::Bell<'_> {
        bell::Bell::at(
            self.line(at.offset() / LINE as u64),
            at.offset() as usize % LINE / 8,
            self.mapping.is_local(),
        )
    }

    /// The words of a line of data, for a backend that puts a cache of its own in front of this memory.
    #[inline]
    pub(crate) fn line(&self, number: u64) -> &[AtomicU64; LINE / 8] {
        self.mapping.line(number)
    }

    /// Runs one instruction on the lines of a range, for measuring it.
    ///
    /// # Panics
    /// If the processor does not have it, or the range leaves the mapping.
    pub(crate) fn run_on_lines(&self, at: DataAddr, len: usize, instruction: LineInstruction) {
        assert!(
            instruction == LineInstruction::Clflush
                || instruction == self.instructions.write_back
                || instruction == self.instructions.invalidate
                || instruction.exists(),
            "this processor has no {instruction:?}"
        );
        self.check(at, len);
        // SAFETY: in bounds; mappings are line-aligned; the instruction exists.
        unsafe { cache::each_line(self.base, at.offset(), len, instruction) }
    }

    /// Stops an access beyond the memory.
    ///
    /// # Panics
    /// If the range leaves the mapping.
    #[inline]
    pub(crate) fn check(&self, at: DataAddr, len: usize) {
        self.at(at.offset(), len);
    }

    /// Notes that this worker has changed shared memory, so that its next wait starts afresh.
    #[inline]
    pub(crate) fn progress(&self) {
        self.pauses.set(0);
        self.crowded.set(false);
    }

    /// Drops the word's line from this host's cache, so that the next access reaches memory.
    fn bypass(&self, at: SyncAddr) {
        debug_assert!(at.offset() as usize + 8 <= self.len, "{at:?} was looked at by `word`");
        // SAFETY: the word is in bounds (checked by `word` just before or after) and mappings are
        // line-aligned.
        unsafe { cache::each_line(self.base, at.offset(), 8, self.instructions.invalidate) };
        cache::fence();
    }
}

impl Clone for Native {
    fn clone(&self) -> Self {
        let (pauses, crowded, alone) = (Cell::new(0), Cell::new(false), Cell::new(0));
        Self { pauses, crowded, alone, mapping: self.mapping.clone(), ..*self }
    }
}

#[cold]
#[inline(never)]
fn beyond(offset: usize, len: usize, mapped: usize) -> ! {
    panic!("access to {len} bytes at {offset:#x} is beyond the pod's {mapped:#x} bytes of memory");
}

/// Copies, with the lengths that protocols use as single moves instead of a call.
///
/// # Safety
/// `len` bytes are readable at `from`, writable at `to`, and do not overlap.
#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    use std::ptr::copy_nonoverlapping as move_bytes;
    match len {
        // SAFETY: (each arm) the caller vouches for `len` bytes.
        8 => unsafe { move_bytes(from, to, 8) },
        // SAFETY: as above.
        16 => unsafe { move_bytes(from, to, 16) },
        // SAFETY: as above.
        32 => unsafe { move_bytes(from, to, 32) },
        // SAFETY: as above.
        64 => unsafe { move_bytes(from, to, 64) },
        // SAFETY: as above.
        _ => unsafe { move_bytes(from, to, len) },
    }
}

impl Fabric for Native {
    const CHECKED: bool = false;

    #[inline]
    fn load(&self, at: SyncAddr) -> u64 {
        let word = self.word(at);
        if self.bypass {
            self.bypass(at);
        }
        word.load(Ordering::Acquire)
    }

    #[inline]
    fn store(&self, at: SyncAddr, value: u64) {
        self.progress();
        let word = self.word(at);
        if !self.bypass {
            return word.store(value, Ordering::Release);
        }
        // Dropped before too: a stale copy of the line would carry its other words back to memory with ours.
        self.bypass(at);
        word.store(value, Ordering::Release);
        self.bypass(at);
    }

    #[inline]
    fn compare_exchange(&self, at: SyncAddr, current: u64, new: u64) -> Result<u64, u64> {
        let word = self.word(at);
        if !self.bypass {
            let swapped = word.compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst);
            if swapped.is_ok() {
                self.progress();
            }
            return swapped;
        }
        self.bypass(at);
        let swapped = word.compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst);
        self.bypass(at);
        if swapped.is_ok() {
            self.progress();
        }
        swapped
    }

    #[inline]
    fn read(&self, at: DataAddr, out: &mut [u8]) {
        let from = self.at(at.offset(), out.len());
        // SAFETY: in bounds; the memory model gives the range one writer at a time, ordered by a sync word.
        unsafe { copy(from, out.as_mut_ptr(), out.len()) }
    }

    #[inline]
    fn write(&self, at: DataAddr, bytes: &[u8]) {
        self.progress();
        let to = self.at(at.offset(), bytes.len());
        // SAFETY: in bounds; the memory model makes this worker's host the only writer of the range now.
        unsafe { copy(bytes.as_ptr(), to, bytes.len()) }
    }

    #[inline]
    fn write_back(&self, at: DataAddr, len: usize) {
        self.at(at.offset(), len);
        // SAFETY: in bounds; mappings are line-aligned.
        unsafe { cache::each_line(self.base, at.offset(), len, self.instructions.write_back) }
    }

    #[inline]
    fn invalidate(&self, at: DataAddr, len: usize) {
        self.at(at.offset(), len);
        // SAFETY: in bounds; mappings are line-aligned.
        unsafe { cache::each_line(self.base, at.offset(), len, self.instructions.invalidate) }
    }

    #[inline]
    fn fence(&self) {
        cache::fence();
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn process(&self) -> u64 {
        process::own()
    }

    fn cut_off(&self, _: HostId, process: u64) -> CutOff {
        process::cut_off(process)
    }

    fn is_gone(&self, _: HostId, process: u64) -> bool {
        process::is_gone(process)
    }

    #[expect(clippy::disallowed_methods, reason = "the backend is where waiting happens")]
    fn pause(&self) {
        if let Some(left) = self.alone.get().checked_sub(1) {
            debug_assert!(left < SPINNING_ALONE, "{left} turns alone");
            self.alone.set(left);
            return std::hint::spin_loop();
        }
        let so_far = self.pauses.get();
        self.pauses.set(so_far.saturating_add(1));
        match so_far.checked_sub(SPINNING_PAUSES) {
            None => std::hint::spin_loop(),
            Some(yields)
                if yields < YIELDING_PAUSES.0 || (yields < YIELDING_PAUSES.1 && !self.crowded.get()) =>
            {
                let start_ns = self.clock.now_ns();
                std::thread::yield_now();
                if self.clock.now_ns().saturating_sub(start_ns) >= CROWDED_NS {
                    self.crowded.set(true);
                } else {
                    self.alone.set(SPINNING_ALONE);
                }
            }
            Some(beyond) => {
                let doublings = beyond.saturating_sub(YIELDING_PAUSES.1).min(5);
                self.rest((SLEEPING_NS.0 << doublings).min(SLEEPING_NS.1));
            }
        }
    }

    fn is_crowded(&self) -> bool {
        self.crowded.get()
    }

    fn doze(&self, bell: SyncAddr, look: &mut dyn FnMut() -> u64) {
        self.bell(bell).doze(look);
        // Whatever it waits for next is another wait.
        self.progress();
    }

    #[inline]
    fn ring(&self, bell: SyncAddr) {
        self.bell(bell).ring();
    }

    #[expect(clippy::disallowed_methods, reason = "the backend is where waiting happens")]
    fn rest(&self, ns: u64) {
        std::thread::sleep(std::time::Duration::from_nanos(ns));
    }
}

#[cfg(test)]
mod tests;
