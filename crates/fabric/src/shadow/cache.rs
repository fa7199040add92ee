//! One host's software cache: sets of a few lines, each set behind a mutex of its own.
//!
//! Invariants:
//! 1. A line is in at most one way, of the set that its number picks.
//! 2. Bytes move between a line and the shared memory only while its set is locked, by relaxed atomics of
//!    eight bytes; so when a worker finds a line clean or gone, its changes have left, whoever wrote them
//!    back.
//! 3. A dirty line is written back whole, as docs/memory-model.md says: bytes that the host never wrote come
//!    from its copy, however old.
//! 4. No mutex is held across a verb, and never two of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::addr::LINE;
use crate::native::Native;

const WAYS: usize = 8;
/// Bits of a random number that pick a way.
const WAY_BITS: u32 = WAYS.trailing_zeros();
/// The line of an empty way.
const NONE: u64 = u64::MAX;

// A way is picked by the top bits of a random number.
const _: () = assert!(1 << WAY_BITS == WAYS);

#[derive(Clone, Copy)]
struct Way {
    line: u64,
    dirty: bool,
    bytes: [u8; LINE],
}

const EMPTY: Way = Way { line: NONE, dirty: false, bytes: [0; LINE] };

type Set = [Way; WAYS];

/// What the cache did, of all the host's workers.
#[derive(Default)]
pub(super) struct Tally {
    /// Lines fetched because a worker touched them.
    pub fills: AtomicU64,
    /// Lines fetched unasked.
    pub prefetches: AtomicU64,
    /// Dirty lines written back unasked.
    pub write_backs: AtomicU64,
    /// Lines dropped unasked.
    pub drops: AtomicU64,
    /// Reads that were given bytes of a clean line that are no longer in the shared memory.
    pub stale_reads: AtomicU64,
    /// Calls and steps left out.
    pub omissions: AtomicU64,
}

impl Tally {
    pub fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// The cache.
pub(super) struct Cache {
    sets: Box<[Mutex<Set>]>,
    pub tally: Tally,
}

impl Cache {
    pub fn new(lines: usize) -> Self {
        let sets = lines.div_ceil(WAYS).max(1);
        Self { sets: (0..sets).map(|_| Mutex::new([EMPTY; WAYS])).collect(), tally: Tally::default() }
    }

    fn lock(&self, set: usize) -> MutexGuard<'_, Set> {
        // A panic in here would be a bug of this file; the workers that die of it need no second one.
        self.sets[set].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Multiplicative, so that neighbours are in different sets.
    fn set_of(&self, line: u64) -> usize {
        let mixed = line.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        debug_assert_ne!(line, NONE, "no line has this number");
        ((u128::from(mixed) * self.sets.len() as u128) >> 64) as usize
    }

    /// Copies a part of a line out. True if the bytes are stale for certain: the line is clean here, and the
    /// shared memory holds others.
    pub fn read(&self, memory: &Native, line: u64, start: usize, out: &mut [u8], random: u64) -> bool {
        let mut set = self.lock(self.set_of(line));
        let part = start..start + out.len();
        debug_assert!(part.end <= LINE, "a read takes one line at a time");
        let (way, was_here) = self.find_or_fill(&mut set, memory, line, random);
        out.copy_from_slice(&way.bytes[part.clone()]);
        was_here && !way.dirty && fetch(memory, line)[part] != *out
    }

    /// Copies a part of a line in.
    pub fn write(&self, memory: &Native, line: u64, start: usize, bytes: &[u8], random: u64) {
        let mut set = self.lock(self.set_of(line));
        let (way, _) = self.find_or_fill(&mut set, memory, line, random);
        debug_assert!(way.line == line && start + bytes.len() <= LINE, "a write takes one line at a time");
        way.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        way.dirty = true;
    }

    /// Writes a line back if it is dirty, and drops it if asked. True if it was dirty.
    pub fn clean(&self, memory: &Native, line: u64, drop: bool) -> bool {
        let mut set = self.lock(self.set_of(line));
        set.iter_mut().find(|way| way.line == line).is_some_and(|way| clean(memory, way, drop))
    }

    /// Fetches a line that is not here.
    pub fn prefetch(&self, memory: &Native, line: u64, random: u64) {
        let mut set = self.lock(self.set_of(line));
        if !set.iter().any(|way| way.line == line) {
            self.fill(&mut set, memory, line, random);
            Tally::count(&self.tally.prefetches);
        }
    }

    /// Some line leaves: of the same set as `line` or of any, as `random` says.
    pub fn evict(&self, memory: &Native, line: u64, random: u64) {
        let set = if random & 1 == 0 { self.set_of(line) } else { self.set_of(random) };
        let way = &mut self.lock(set)[(random >> 1) as usize % WAYS];
        if way.line != NONE {
            self.push_out(memory, way);
        }
    }

    /// Writes every dirty line back.
    pub fn write_back_all(&self, memory: &Native) {
        for set in 0..self.sets.len() {
            self.lock(set).iter_mut().for_each(|way| _ = clean(memory, way, false));
        }
    }

    /// The line's way, and whether it was there already.
    fn find_or_fill<'s>(
        &self,
        set: &'s mut Set,
        memory: &Native,
        line: u64,
        random: u64,
    ) -> (&'s mut Way, bool) {
        debug_assert!(set.iter().filter(|way| way.line == line).count() <= 1, "line {line} is here twice");
        match set.iter().position(|way| way.line == line) {
            Some(place) => (&mut set[place], true),
            None => {
                Tally::count(&self.tally.fills);
                (self.fill(set, memory, line, random), false)
            }
        }
    }

    fn fill<'s>(&self, set: &'s mut Set, memory: &Native, line: u64, random: u64) -> &'s mut Way {
        debug_assert!(set.iter().all(|way| way.line != line), "line {line} is here already");
        let empty = set.iter().position(|way| way.line == NONE);
        let way = &mut set[empty.unwrap_or((random >> (64 - WAY_BITS)) as usize)];
        if way.line != NONE {
            self.push_out(memory, way);
        }
        *way = Way { line, dirty: false, bytes: fetch(memory, line) };
        way
    }

    fn push_out(&self, memory: &Native, way: &mut Way) {
        debug_assert_ne!(way.line, NONE, "an empty way has nothing to push out");
        if clean(memory, way, true) {
            Tally::count(&self.tally.write_backs);
        }
        Tally::count(&self.tally.drops);
    }
}

/// Writes a way's line back if it is dirty, and empties the way if asked. True if it was dirty.
fn clean(memory: &Native, way: &mut Way, drop: bool) -> bool {
    debug_assert!(way.line != NONE || !way.dirty, "an empty way has no changes");
    let was_dirty = std::mem::replace(&mut way.dirty, false);
    if was_dirty {
        for (word, bytes) in memory.line(way.line).iter().zip(way.bytes.as_chunks().0) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
    }
    if drop {
        way.line = NONE;
    }
    was_dirty
}

/// The line's bytes in the shared memory.
fn fetch(memory: &Native, line: u64) -> [u8; LINE] {
    let mut bytes = [0; LINE];
    for (word, bytes) in memory.line(line).iter().zip(bytes.as_chunks_mut().0) {
        *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
    }
    bytes
}
