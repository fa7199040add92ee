//! Shadow backend: native memory, and before it a software cache for each host, so that real processes and
//! threads meet incoherence and lose dirty lines when they are killed.
//!
//! ```
//! use liger_fabric::native::{HostMemory, Mapping, NativeHost};
//! use liger_fabric::shadow::{ShadowConfig, ShadowHost};
//! use liger_fabric::{DataAddr, HostId, SyncMode, WorkerId};
//!
//! let (memory, mail) = (Mapping::anonymous(4096)?, DataAddr::new(64));
//! let host = |number| {
//!     let below = NativeHost::new(memory.clone(), SyncMode::Hwcc, HostId(number));
//!     ShadowHost::over(below, ShadowConfig { drops_per_1024: 0, ..ShadowConfig::new(1) })
//! };
//! let (one, other) = (host(0).cx(WorkerId(0), 1), host(1).cx(WorkerId(0), 1));
//! let mut seen = [0];
//! other.read(mail, &mut seen);
//! one.publish(mail, &[7]);
//! other.read(mail, &mut seen);
//! assert_eq!(seen, [0], "a stale copy");
//! other.refresh(mail, &mut seen);
//! assert_eq!(seen, [7]);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Invariants:
//! 1. Data reaches the shared memory only when a line is written back, by a worker or unasked; workers of one
//!    [`ShadowHost`] share its cache and are coherent, those of two never.
//! 2. Sync words go past the cache to native memory, in both sync modes.
//! 3. `write_back` and `invalidate` take effect at some moment from the call to the worker's fence; which one
//!    the seed picks. Dropping the last of a host's views loses its dirty lines, as killing its process does:
//!    crash domain `Host`. [`ShadowHost::write_back_all`] before that is `HostPersistent`.
//!
//! It checks no rules: what a missing instruction does is left to the caches and to luck, and found by what
//! the program computes. One thing it sees by itself, and counts: a read of a clean line whose bytes are no
//! longer in the shared memory ([`HostMemory::complaint`]). Nothing replays: threads are real. Sync stores
//! are not delayed beyond what the processor does: a worker that blocks outside of a verb could not make them
//! visible in time. A kill in the middle of writing a line back may tear that line at a word, which a pod
//! does not do.

mod cache;
mod config;

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

pub use config::{Omission, ShadowConfig, UnknownOmission};

use crate::addr::{DataAddr, LINE, SyncAddr, lines};
use crate::cx::HostId;
use crate::fabric::{CutOff, Fabric};
use crate::native::{HostMemory, Native, NativeHost};
use cache::{Cache, Tally};

/// One host with its cache. Clones share the cache.
#[derive(Clone)]
pub struct ShadowHost {
    below: NativeHost,
    shared: Arc<Shared>,
}

/// What a host's workers share.
struct Shared {
    cache: Cache,
    config: ShadowConfig,
    /// Views made so far: each has random numbers of its own.
    views: AtomicU64,
    first_stale: OnceLock<Stale>,
}

/// One worker's view of a pod through its host's software cache.
pub struct Shadow {
    native: Native,
    shared: Arc<Shared>,
    random: Cell<u64>,
    /// Lines whose write-back (false) or invalidate (true) waits for the fence.
    pending: RefCell<Vec<(u64, bool)>>,
    /// Its reads may meet a writer: then the first stale one is kept here until it is known.
    unsure: Cell<bool>,
    doubt: Cell<Option<Stale>>,
}

/// A read of stale bytes, and where it was made.
type Stale = (DataAddr, &'static Location<'static>);

impl ShadowHost {
    /// The host of `below` with an empty cache.
    pub fn over(below: NativeHost, config: ShadowConfig) -> Self {
        let ShadowConfig { write_backs_per_1024, drops_per_1024, prefetches_per_1024, .. } = config;
        let rates = [write_backs_per_1024, drops_per_1024, prefetches_per_1024, config.delays_per_1024];
        assert!(rates.iter().all(|rate| *rate <= 1024), "so many in 1024: {config:?}");
        let (cache, views) = (Cache::new(config.lines), AtomicU64::new(0));
        let shared = Shared { cache, config, views, first_stale: OnceLock::new() };
        Self { below, shared: Arc::new(shared) }
    }

    /// Writes every dirty line back, as a platform with a global persistent flush does when a host dies.
    pub fn write_back_all(&self) {
        self.shared.cache.write_back_all(&self.below.view());
    }

    /// Reads so far that were given stale bytes for certain.
    pub fn stale_reads(&self) -> u64 {
        self.shared.cache.tally.stale_reads.load(Ordering::Relaxed)
    }
}

impl HostMemory for ShadowHost {
    type View = Shadow;

    fn host(&self) -> HostId {
        self.below.host()
    }

    fn view(&self) -> Shadow {
        let number = self.shared.views.fetch_add(1, Ordering::Relaxed);
        let own = (u64::from(self.host().0) << 40) ^ (number << 48);
        Shadow {
            native: self.below.view(),
            shared: self.shared.clone(),
            random: Cell::new(self.shared.config.seed ^ own),
            pending: RefCell::default(),
            unsure: Cell::default(),
            doubt: Cell::default(),
        }
    }

    fn tally(&self) -> Vec<(&'static str, u64)> {
        let Tally { fills, prefetches, write_backs, drops, stale_reads, omissions } =
            &self.shared.cache.tally;
        let named = [
            ("shadow_fills", fills),
            ("shadow_prefetches", prefetches),
            ("shadow_unasked_write_backs", write_backs),
            ("shadow_unasked_drops", drops),
            ("shadow_stale_reads", stale_reads),
            ("shadow_omissions", omissions),
        ];
        named.map(|(name, counter)| (name, counter.load(Ordering::Relaxed))).into()
    }

    fn complaint(&self) -> Option<String> {
        let (at, place) = self.shared.first_stale.get()?;
        let n = self.stale_reads();
        debug_assert!(n > 0, "the first stale read was counted before it was noted");
        Some(format!("{n} reads were given stale bytes, the first one of {at:?} at {place}"))
    }
}

/// The pieces of a range by line: the line's number, where the piece starts in it, and which bytes of the
/// range it is.
fn pieces(at: DataAddr, len: usize) -> impl Iterator<Item = (u64, usize, Range<usize>)> {
    lines(at.offset(), len).map(move |line| {
        let start = (line * LINE as u64).max(at.offset());
        let done = (start - at.offset()) as usize;
        let within = start as usize % LINE;
        debug_assert!(done < len && (done == 0 || within == 0), "all pieces but the first begin a line");
        (line, within, done..(done + LINE - within).min(len))
    })
}

impl Shadow {
    /// The next 64 random bits (SplitMix64).
    fn random(&self) -> u64 {
        let state = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(state);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// What the cache does unasked when a line is touched. `die` decides.
    fn act(&self, line: u64, die: u64) {
        let Shared { cache, config, .. } = &*self.shared;
        if happens(die, config.drops_per_1024) {
            cache.evict(&self.native, line, self.random());
        }
        if happens(die >> 10, config.prefetches_per_1024) {
            let random = self.random();
            let near = [line, line + 1, line + 2, line.saturating_sub(1)][random as usize % 4];
            if (near as usize) < self.native.mapping().len() / LINE {
                cache.prefetch(&self.native, near, random);
            }
        }
    }

    /// After a line was written: perhaps it is written back at once.
    fn act_on_written(&self, line: u64, die: u64) {
        let Shared { cache, config, .. } = &*self.shared;
        let drop = die >> 30 & 1 == 0;
        let leaves = happens(die >> 20, config.write_backs_per_1024);
        if leaves && cache.clean(&self.native, line, drop) {
            Tally::count(&cache.tally.write_backs);
        }
    }

    /// Starts a write-back or an invalidate.
    fn start(&self, verb: &str, at: DataAddr, len: usize, drop: bool, place: &Location<'_>) {
        self.native.check(at, len);
        if self.omits(verb, place) {
            return;
        }
        for line in lines(at.offset(), len) {
            let die = self.random();
            if happens(die >> 20, self.shared.config.delays_per_1024) {
                self.pending.borrow_mut().push((line, drop));
            } else {
                self.shared.cache.clean(&self.native, line, drop);
            }
            if drop {
                self.act(line, die);
            }
        }
    }

    fn omits(&self, verb: &str, place: &Location<'_>) -> bool {
        self.leaves_out(|omission| omission.is_site(verb, place))
    }

    fn leaves_out(&self, is_it: impl FnOnce(&Omission) -> bool) -> bool {
        let omits = self.shared.config.omission.as_ref().is_some_and(is_it);
        if omits {
            Tally::count(&self.shared.cache.tally.omissions);
        }
        omits
    }

    #[cold]
    fn read_stale(&self, at: DataAddr, place: &'static Location<'static>) {
        if self.unsure.get() {
            self.doubt.set(self.doubt.get().or(Some((at, place))));
            return;
        }
        Tally::count(&self.shared.cache.tally.stale_reads);
        self.shared.first_stale.get_or_init(|| (at, place));
    }
}

/// An event of this chance, decided by the lowest ten bits.
fn happens(die: u64, per_1024: u16) -> bool {
    die & 1023 < per_1024.into()
}

impl Fabric for Shadow {
    const CHECKED: bool = true;

    #[inline]
    fn load(&self, at: SyncAddr) -> u64 {
        self.native.load(at)
    }

    #[inline]
    fn store(&self, at: SyncAddr, value: u64) {
        self.native.store(at, value);
    }

    #[inline]
    fn compare_exchange(&self, at: SyncAddr, current: u64, new: u64) -> Result<u64, u64> {
        self.native.compare_exchange(at, current, new)
    }

    fn read(&self, at: DataAddr, out: &mut [u8]) {
        let place = Location::caller();
        self.native.check(at, out.len());
        for (line, start, part) in pieces(at, out.len()) {
            let die = self.random();
            if self.shared.cache.read(&self.native, line, start, &mut out[part], die) {
                self.read_stale(at, place);
            }
            self.act(line, die);
        }
    }

    fn write(&self, at: DataAddr, bytes: &[u8]) {
        self.native.progress();
        self.native.check(at, bytes.len());
        for (line, start, part) in pieces(at, bytes.len()) {
            let die = self.random();
            self.shared.cache.write(&self.native, line, start, &bytes[part], die);
            self.act_on_written(line, die);
            self.act(line, die);
        }
    }

    fn write_back(&self, at: DataAddr, len: usize) {
        self.start("write_back", at, len, false, Location::caller());
    }

    fn invalidate(&self, at: DataAddr, len: usize) {
        self.start("invalidate", at, len, true, Location::caller());
    }

    fn fence(&self) {
        if self.omits("fence", Location::caller()) {
            return;
        }
        for (line, drop) in self.pending.borrow_mut().drain(..) {
            self.shared.cache.clean(&self.native, line, drop);
        }
        self.native.fence();
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        self.native.now_ns()
    }

    fn pause(&self) {
        self.native.pause();
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

    fn begin_unsure(&self) {
        debug_assert!(!self.unsure.get(), "who is unsure does not begin to be");
        self.unsure.set(true);
        self.doubt.set(None);
    }

    fn end_unsure(&self, relied: bool) {
        debug_assert!(self.unsure.get(), "who is sure does not end being unsure");
        self.unsure.set(false);
        if let Some((at, place)) = self.doubt.take().filter(|_| relied) {
            self.read_stale(at, place);
        }
    }

    fn sabotaged(&self, step: &'static str) -> bool {
        self.leaves_out(|omission| omission.is_step(step))
    }
}
