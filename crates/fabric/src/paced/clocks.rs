//! The reservation clocks of a paced pod: small memory, beside the pod's own, that all its processes share.
//!
//! A reservation clock is a word that holds the time from which a thing that serves one user after the other
//! is free. A user starts at the later of now and then, and moves the word to its own end
//! ([`reserve`]); nothing is ever locked, so a process that is killed holds nothing up.
//!
//! ```text
//! line 0                magic, ticks at time 0, picoseconds a tick (times 2^32), profile, lines of the pod
//! line 1                the device
//! lines 2..18           the links of hosts 0..16
//! lines 18..18+queues   the queues of compare-and-swaps, one a line
//! then 16 bytes a line of the pod: for a sync line its clock and its directory entry; for a line of
//! coherent data, in the second word, its stamp
//! ```
//!
//! Invariants:
//! 1. Times are picoseconds since the clocks were made, by the time-stamp counter, at a rate that is measured
//!    once and the same for all processes.
//! 2. Pages are taken when they are first touched: a pod pays for the lines that it uses.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::addr::LINE;
use crate::costs::MAX_HOSTS;
use crate::native::{Mapping, MemorySpec, Ticks};
use crate::profile::Profile;

const MAGIC: u64 = u64::from_le_bytes(*b"lgrpaced");
const WORDS: u64 = LINE as u64 / 8;
const DEVICE_LINE: u64 = 1;
const LINKS: u64 = 2;
const HOSTS: u64 = MAX_HOSTS as u64;
const QUEUES: u64 = LINKS + HOSTS;

/// Why a pod cannot be paced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PacedError {
    /// The processor has no clock that is good enough.
    #[error(
        "this processor's time-stamp counter does not tick at one rate, and latencies are injected by it: \
         run on a machine with constant_tsc and nonstop_tsc in /proc/cpuinfo, or use another backend"
    )]
    NoCounter,
    /// The memory of the clocks cannot be made or opened.
    #[error("the memory of the reservation clocks: {0}")]
    Memory(#[from] std::io::Error),
    /// What was opened holds no clocks.
    #[error("{0} holds no reservation clocks: name what `Clocks::inherited` has said")]
    NoClocks(MemorySpec),
    /// The pod's hosts do not agree on the hardware.
    #[error("this pod is paced by another profile than {name:?}: was its file changed?")]
    OtherProfile {
        /// The profile asked for.
        name: String,
    },
}

/// Takes `service` of a thing's time from `now` on or as soon as it is free: until when.
#[inline]
pub(super) fn reserve(clock: &AtomicU64, now: u64, service: u64) -> u64 {
    let mut free = clock.load(Ordering::Relaxed);
    loop {
        let end = now.max(free) + service;
        match clock.compare_exchange_weak(free, end, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return end,
            Err(seen) => free = seen,
        }
    }
}

/// The reservation clocks of one pod.
pub struct Clocks {
    memory: Arc<Mapping>,
    ticks: Ticks,
    queues: usize,
    lines: u64,
}

impl Clocks {
    /// New clocks for a pod of `memory_bytes` on the hardware of `profile`. Child processes inherit them.
    ///
    /// # Errors
    /// [`PacedError::NoCounter`], or what the system says about the memory.
    pub fn create(profile: &Profile, memory_bytes: u64) -> Result<Arc<Self>, PacedError> {
        Self::create_by(Ticks::measured(), profile, memory_bytes)
    }

    fn create_by(
        counter: Option<Ticks>,
        profile: &Profile,
        memory_bytes: u64,
    ) -> Result<Arc<Self>, PacedError> {
        let ticks = counter.ok_or(PacedError::NoCounter)?;
        assert!(ticks.ps_per_tick > 0, "a clock that stands still: {ticks:?}");
        let (queues, lines) = (queues_of(profile), memory_bytes.div_ceil(LINE as u64));
        let clocks = Self::over(Mapping::sparse(bytes(queues, lines))?, ticks, queues, lines);
        let header = [MAGIC, ticks.first, ticks.ps_per_tick, fingerprint(profile), lines];
        let words = clocks.memory.line(0);
        assert!(clocks.memory_bytes() >= memory_bytes, "every line of the pod has its clock");
        assert!(header.len() <= words.len(), "the header is one line");
        // The magic last: whoever sees it sees the rest.
        for (word, value) in words.iter().zip(header).rev() {
            word.store(value, Ordering::Release);
        }
        Ok(Arc::new(clocks))
    }

    /// The clocks that a parent process has made ([`Clocks::inherited`] is their name).
    ///
    /// # Errors
    /// If there are none, or for another profile, or this processor's counter is of no use.
    pub fn open(name: &MemorySpec, profile: &Profile) -> Result<Arc<Self>, PacedError> {
        let none = || PacedError::NoClocks(name.clone());
        let MemorySpec::Fd(number) = name else { return Err(none()) };
        Ticks::measured().ok_or(PacedError::NoCounter)?;
        let mapping = Mapping::open_sparse(*number)?;
        let len = mapping.len();
        if len < LINE {
            return Err(none());
        }
        let [magic, first, ps_per_tick, made_for, lines] =
            [0, 1, 2, 3, 4].map(|word: usize| mapping.line(0)[word].load(Ordering::Acquire));
        if magic != MAGIC {
            return Err(none());
        }
        if made_for != fingerprint(profile) {
            return Err(PacedError::OtherProfile { name: profile.name.clone() });
        }
        let queues = queues_of(profile);
        if len < bytes(queues, lines) {
            return Err(none());
        }
        Ok(Arc::new(Self::over(mapping, Ticks { first, ps_per_tick }, queues, lines)))
    }

    fn over(mapping: Arc<Mapping>, ticks: Ticks, queues: usize, lines: u64) -> Self {
        assert!(queues > 0, "a swap has a queue");
        assert!(mapping.len() >= bytes(queues, lines), "{} bytes for {lines} lines", mapping.len());
        Self { memory: mapping, ticks, queues, lines }
    }

    /// By which name child processes open the clocks.
    pub fn inherited(&self) -> MemorySpec {
        let number = self.memory.inherited_fd();
        MemorySpec::Fd(number.expect("clocks are always memory that is handed on by its number"))
    }

    /// Bytes of pod memory that there are clocks for.
    pub fn memory_bytes(&self) -> u64 {
        self.lines * LINE as u64
    }

    /// Picoseconds since the clocks were made.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        self.ticks.now_ps()
    }

    #[inline]
    pub(super) fn device(&self) -> &AtomicU64 {
        &self.memory.line(DEVICE_LINE)[0]
    }

    #[inline]
    pub(super) fn link(&self, host: usize) -> &AtomicU64 {
        debug_assert!((host as u64) < HOSTS, "host {host} has no link");
        &self.memory.line(LINKS + host as u64)[0]
    }

    /// Queues of compare-and-swaps.
    pub(super) fn queues(&self) -> usize {
        self.queues
    }

    #[inline]
    pub(super) fn queue(&self, number: usize) -> &AtomicU64 {
        debug_assert!(number < self.queues, "queue {number} of {}", self.queues);
        &self.memory.line(QUEUES + number as u64)[0]
    }

    /// Clock and directory entry of a sync line; the latter is the stamp of a data line.
    #[inline]
    pub(super) fn of_line(&self, line: u64) -> (&AtomicU64, &AtomicU64) {
        assert!(line < self.lines, "line {line} is beyond the {} that have clocks", self.lines);
        let word = 2 * line;
        let words = self.memory.line(QUEUES + self.queues as u64 + word / WORDS);
        let at = (word % WORDS) as usize;
        (&words[at], &words[at + 1])
    }
}

fn queues_of(profile: &Profile) -> usize {
    profile.pcc.as_ref().map_or(1, |pcc| pcc.swap_queues.value as usize)
}

fn bytes(queues: usize, lines: u64) -> usize {
    (QUEUES as usize + queues + (2 * lines).div_ceil(WORDS) as usize) * LINE
}

/// Tells profiles apart; not by their names.
fn fingerprint(profile: &Profile) -> u64 {
    let mut hasher = DefaultHasher::new();
    (profile.coherent_data, profile.sync_words.to_string()).hash(&mut hasher);
    for (section, field, quantity) in profile.entries() {
        (section, field, quantity.value.to_bits()).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: u64 = 1 << 16;

    fn profile(name: &str) -> Profile {
        Profile::built_in(name).expect("built in")
    }

    #[test]
    fn a_child_finds_the_same_clocks() {
        let ours = Clocks::create(&profile("pcc-spr"), POD).expect("clocks");
        let theirs = Clocks::open(&ours.inherited(), &profile("pcc-spr")).expect("the same clocks");
        reserve(ours.device(), 100, 5);
        reserve(ours.of_line(1023).0, 7, 1);
        assert_eq!(reserve(theirs.device(), 50, 5), 110);
        assert_eq!(reserve(theirs.of_line(1023).0, 0, 1), 9);
        assert_eq!(theirs.memory_bytes(), POD);
        let (a, b, c) = (ours.now(), theirs.now(), ours.now());
        assert!(a <= b && b <= c, "one time for all: {a} {b} {c}");
    }

    #[test]
    fn other_hardware_and_other_memory_are_refused() {
        let clocks = Clocks::create(&profile("pcc-spr"), POD).expect("clocks");
        let other =
            Clocks::open(&clocks.inherited(), &profile("polar-xconn")).err().expect("another profile");
        assert!(other.to_string().contains("\"polar-xconn\""), "{other}");
        let memory = MemorySpec::Memfd.create(POD).expect("memory");
        let name = MemorySpec::Fd(memory.inherited_fd().expect("a memfd"));
        for wrong in [name, MemorySpec::Memfd] {
            let refused = Clocks::open(&wrong, &profile("pcc-spr")).err().expect("no clocks");
            assert!(refused.to_string().contains("holds no reservation clocks"), "{refused}");
        }
    }

    #[test]
    fn without_a_steady_counter_nothing_is_paced() {
        let refused = Clocks::create_by(None, &profile("pcc-spr"), POD).err().expect("no counter");
        assert!(matches!(refused, PacedError::NoCounter) && refused.to_string().contains("nonstop_tsc"));
    }

    #[test]
    fn no_two_places_share_a_clock() {
        let clocks = Clocks::create(&profile("pcc-spr"), POD).expect("clocks");
        let lines = (0..POD / LINE as u64).flat_map(|line| {
            let (clock, entry) = clocks.of_line(line);
            [clock, entry]
        });
        let queues = (0..clocks.queues()).map(|queue| clocks.queue(queue));
        let links = (0..16).map(|host| clocks.link(host));
        let all: Vec<&AtomicU64> = lines.chain(queues).chain(links).chain([clocks.device()]).collect();
        let places: std::collections::BTreeSet<usize> =
            all.iter().map(|word| std::ptr::from_ref(*word).addr()).collect();
        assert_eq!(places.len(), all.len());
        assert!(all.iter().all(|word| word.load(Ordering::Relaxed) == 0), "none of them is in the header");
    }
}
