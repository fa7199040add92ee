//! What a worker's verbs cost: the profile's prices, the host's tags, and the clocks that all share.
//!
//! A method is told when its verb began, and says until when it takes; nothing, if it costs no more than its
//! own execution (a hit). No clock is read here, so the tests run it by one of their own.
//!
//! The workers of a process share their host's tags, in shards with a mutex each. So a line that one worker
//! has fetched is a hit for the others, as in a last-level cache, and while one shard is being changed,
//! others are free. No mutex is held across a verb.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::clocks::{Clocks, reserve};
use crate::addr::{LINE, lines};
use crate::costs::{Costs, Directory, MAX_HOSTS, Source, SyncCosts, swap_queue};
use crate::profile::Profile;
use crate::tags::{Access, Tags};

/// Shards of a host's tags. A power of two; neighbouring lines are in different ones.
const SHARDS: usize = 64;
/// Views of a host that are told apart as owners of sync lines.
const VIEWS: u64 = 4095;
const STAMP: u64 = 0x7fff_ffff;

// A worker's number + 1 is the owner in a line's entry: 16 bits, of which 0 is nobody.
const _: () = assert!(MAX_HOSTS as u64 * (VIEWS + 1) <= 1 << 16);

/// What a worker has counted. One writes, others look.
#[derive(Default)]
pub(super) struct Counters {
    /// Lines of data that were not in the modelled cache.
    pub misses: AtomicU64,
    /// Verbs that cost more than a hit.
    pub charged: AtomicU64,
    /// How long they take on the modelled machine, together, in picoseconds.
    pub modelled_ps: AtomicU64,
    /// Those of them that this machine took longer for than the modelled one would.
    pub overdue: AtomicU64,
}

/// Counts in a counter that no other thread writes.
pub(super) fn count(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

/// What the workers of a host share.
pub(super) struct HostMeter {
    pub clocks: Arc<Clocks>,
    costs: Costs,
    coherent_data: bool,
    host: usize,
    tags: Box<[Mutex<Tags>]>,
    workers: Mutex<Vec<Arc<Counters>>>,
}

impl HostMeter {
    pub fn new(clocks: Arc<Clocks>, profile: &Profile, host: usize) -> Self {
        assert!(host < MAX_HOSTS, "host {host} has no bit in a line's entry");
        let (bytes, ways) = (profile.cache.size_bytes.value as usize, profile.cache.ways.value as usize);
        Self {
            clocks,
            costs: Costs::new(profile),
            coherent_data: profile.coherent_data,
            host,
            tags: (0..SHARDS).map(|_| Mutex::new(Tags::new(bytes / SHARDS, ways))).collect(),
            workers: Mutex::default(),
        }
    }

    /// The meter of one more worker.
    pub fn worker(self: &Arc<Self>) -> Meter {
        let counters = Arc::<Counters>::default();
        let mut workers = unpoisoned(&self.workers);
        let number = workers.len() as u64 % VIEWS;
        workers.push(counters.clone());
        let me = (self.host as u64 * (VIEWS + 1) + number) as usize;
        debug_assert!(me < usize::from(u16::MAX), "worker {me} can own a line");
        Meter { shared: self.clone(), counters, me, pending: Cell::new(0) }
    }

    /// Sums over all workers there were: misses, verbs charged, their nanoseconds, verbs overdue.
    pub fn counted(&self) -> [u64; 4] {
        let workers = unpoisoned(&self.workers);
        let sum = |which: fn(&Counters) -> &AtomicU64| {
            workers.iter().map(|counters| which(counters).load(Ordering::Relaxed)).sum()
        };
        [sum(|c| &c.misses), sum(|c| &c.charged), sum(|c| &c.modelled_ps) / 1000, sum(|c| &c.overdue)]
    }

    fn tags_of(&self, line: u64) -> MutexGuard<'_, Tags> {
        unpoisoned(&self.tags[line as usize % SHARDS])
    }

    /// One line over the host's link and through the device, asked for at `now`: when it has passed.
    fn transfer(&self, now: u64) -> u64 {
        let link = reserve(self.clocks.link(self.host), now, self.costs.link_line);
        link.max(reserve(self.clocks.device(), now, self.costs.device_line))
    }
}

/// Tags and counters are whole after every change of them.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One worker's meter. Times are picoseconds.
pub(super) struct Meter {
    shared: Arc<HostMeter>,
    pub counters: Arc<Counters>,
    /// Number among the workers of the whole pod.
    me: usize,
    /// When its earlier stores and cache commands are complete.
    pending: Cell<u64>,
}

impl Meter {
    pub fn clocks(&self) -> &Clocks {
        &self.shared.clocks
    }

    pub fn coherent_data(&self) -> bool {
        self.shared.coherent_data
    }

    fn post(&self, end: u64) {
        self.pending.set(self.pending.get().max(end));
    }

    /// A read or (`dirties`) a write through the cache.
    pub fn touch(&self, at: u64, len: usize, dirties: bool, now: u64) -> Option<u64> {
        let HostMeter { clocks, costs, coherent_data, .. } = &*self.shared;
        let (mut misses, mut passed) = (0, now);
        for line in lines(at, len) {
            let stamp = coherent_data.then(|| clocks.of_line(line).1);
            let mut tags = self.shared.tags_of(line);
            let seen = stamp.map_or(0, |stamp| stamp.load(Ordering::Relaxed) & STAMP);
            let access = tags.access(line, seen as u32, dirties);
            if let (true, Some(stamp)) = (dirties, stamp) {
                let next = stamp.fetch_add(1, Ordering::Relaxed) + 1;
                tags.restamp(line, (next & STAMP) as u32);
            }
            drop(tags);
            if let Access::Miss { wrote_back } = access {
                misses += 1;
                passed = self.shared.transfer(now);
                if wrote_back {
                    self.shared.transfer(now);
                }
            }
        }
        if misses == 0 {
            return None;
        }
        count(&self.counters.misses, misses);
        let done = costs.misses_done(now, passed, misses);
        if dirties {
            self.post(done);
        }
        Some(costs.held_up(done, dirties))
    }

    /// Starts a write_back or (`drops`) an invalidate.
    pub fn command(&self, at: u64, len: usize, drops: bool, now: u64) -> Option<u64> {
        let HostMeter { costs, coherent_data, .. } = &*self.shared;
        let mut clock = now;
        for line in lines(at, len) {
            clock += costs.command;
            if *coherent_data {
                continue;
            }
            let mut tags = self.shared.tags_of(line);
            let dirty = if drops { tags.forget(line) } else { tags.clean(line) };
            drop(tags);
            if dirty {
                // A line whose fill is still under way is written back after it.
                self.post(self.shared.transfer(clock) + costs.write);
            }
            if drops {
                self.post(clock + costs.invalidate);
            }
        }
        Some(clock)
    }

    /// A fence.
    pub fn fence(&self, now: u64) -> Option<u64> {
        Some((now + self.shared.costs.fence).max(self.pending.get()))
    }

    /// A load of a sync word.
    pub fn load(&self, at: u64, now: u64) -> Option<u64> {
        let (clock, _) = self.of_word(at);
        match self.shared.costs.sync {
            SyncCosts::Hwcc { .. } => {
                let cost = self.fetch(at, |entry, host| entry.shared_with(host, self.me))?;
                Some(reserve(clock, now, cost))
            }
            SyncCosts::Pcc { load, load_service, .. } => Some(reserve(clock, now, load_service) + load),
        }
    }

    /// A store to a sync word: the worker goes on, and only its fence waits.
    pub fn store(&self, at: u64, now: u64) {
        let (clock, _) = self.of_word(at);
        match self.shared.costs.sync {
            SyncCosts::Hwcc { .. } => {
                if let Some(cost) = self.fetch(at, |entry, host| entry.owned_by(host, self.me)) {
                    self.post(reserve(clock, now, cost));
                }
            }
            SyncCosts::Pcc { store, load_service, .. } => {
                self.post(reserve(clock, now, load_service.min(store)).max(now + store));
            }
        }
    }

    /// A compare-and-swap.
    pub fn swap(&self, at: u64, now: u64) -> Option<u64> {
        let (clock, _) = self.of_word(at);
        match self.shared.costs.sync {
            SyncCosts::Hwcc { swap, .. } => {
                let cost = self.fetch(at, |entry, host| entry.owned_by(host, self.me))?;
                Some(reserve(clock, now, cost) + swap)
            }
            SyncCosts::Pcc { swap, swap_service, .. } => {
                let clocks = self.clocks();
                let queue = clocks.queue(swap_queue(at / LINE as u64, clocks.queues()));
                Some(reserve(queue, now, swap_service) + swap)
            }
        }
    }

    #[inline]
    fn of_word(&self, at: u64) -> (&AtomicU64, &AtomicU64) {
        self.clocks().of_line(at / LINE as u64)
    }

    /// Takes note of who holds the word's line from now on, as `next` says; what getting it costs.
    #[inline]
    fn fetch(&self, at: u64, next: impl Fn(Directory, usize) -> Option<(Directory, Source)>) -> Option<u64> {
        let (_, entry) = self.of_word(at);
        let mut packed = entry.load(Ordering::Relaxed);
        loop {
            let (after, source) = next(Directory::unpack(packed), self.shared.host)?;
            match entry.compare_exchange_weak(packed, after.pack(), Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(self.shared.costs.fetch(source)),
                Err(seen) => packed = seen,
            }
        }
    }
}

#[cfg(test)]
mod tests;
