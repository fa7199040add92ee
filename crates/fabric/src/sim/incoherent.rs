//! Memory that is truly incoherent: one shared array, a cache per host, a store buffer and pending cache
//! commands per worker.
//!
//! Invariants:
//! 1. A host reads and writes data only in its cache; a line enters it from the shared array (by a miss or a
//!    prefetch) and leaves it only by an explicit or random write-back or drop. Nobody else looks into it.
//! 2. A line is in its host's list of clean or of dirty lines, so a random victim costs O(1).
//! 3. Sync words live in the shared array alone; a worker's own stores wait in its buffer, first in first
//!    out.
//! 4. `write_back` and `invalidate` take effect between the call and the worker's fence, at a moment the
//!    adversary picks.

use std::ops::Range;

use super::explain::By;
use super::rules::{Broken, Rules};
use super::schedule::Random;
use crate::addr::LINE;

/// Stores that a buffer holds before the oldest drains by itself.
const BUFFERED_STORES: usize = 16;

struct Entry {
    bytes: [u8; LINE],
    line: u32,
    position: u32,
    dirty: bool,
}

/// One host's cache.
struct Cache {
    /// Line number to entry + 1.
    slot: Vec<u32>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    clean: Vec<u32>,
    dirty: Vec<u32>,
}

impl Cache {
    fn new(lines: usize) -> Self {
        let list = Vec::new;
        Self { slot: vec![0; lines], entries: Vec::new(), free: list(), clean: list(), dirty: list() }
    }

    fn list(&mut self, dirty: bool) -> &mut Vec<u32> {
        if dirty { &mut self.dirty } else { &mut self.clean }
    }

    fn enlist(&mut self, slot: u32, dirty: bool) {
        let line = self.entries[slot as usize].line as usize;
        debug_assert_eq!(self.slot[line], slot + 1, "what is in a list is cached");
        let list = self.list(dirty);
        list.push(slot);
        let position = list.len() as u32 - 1;
        let entry = &mut self.entries[slot as usize];
        (entry.position, entry.dirty) = (position, dirty);
    }

    fn delist(&mut self, slot: u32) {
        let Entry { position, dirty, .. } = self.entries[slot as usize];
        let list = self.list(dirty);
        debug_assert_eq!(list[position as usize], slot, "a cached line knows its place");
        list.swap_remove(position as usize);
        if let Some(&moved) = list.get(position as usize) {
            self.entries[moved as usize].position = position;
        }
    }

    /// The line's entry, filled from the shared array if it was not cached.
    #[inline]
    fn fill(&mut self, line: u64, shared: &[u8]) -> u32 {
        let slot = self.slot[line as usize];
        if slot != 0 {
            return slot - 1;
        }
        let mut bytes = [0; LINE];
        let at = line as usize * LINE;
        bytes.copy_from_slice(&shared[at..at + LINE]);
        let entry = Entry { bytes, line: line as u32, position: 0, dirty: false };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.entries[slot as usize] = entry;
                slot
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        self.slot[line as usize] = slot + 1;
        self.enlist(slot, false);
        self.check();
        slot
    }

    /// Every entry is clean, dirty or free (invariant 2).
    #[inline]
    fn check(&self) {
        debug_assert_eq!(self.clean.len() + self.dirty.len() + self.free.len(), self.entries.len());
    }

    fn write_back(&mut self, slot: u32, shared: &mut [u8]) {
        let entry = &self.entries[slot as usize];
        if entry.dirty {
            let at = entry.line as usize * LINE;
            shared[at..at + LINE].copy_from_slice(&entry.bytes);
            self.delist(slot);
            self.enlist(slot, false);
        }
        debug_assert!(!self.entries[slot as usize].dirty, "what was written back is clean");
    }

    fn drop_line(&mut self, slot: u32, shared: &mut [u8]) {
        self.write_back(slot, shared);
        self.forget(slot);
    }

    fn forget(&mut self, slot: u32) {
        self.delist(slot);
        self.slot[self.entries[slot as usize].line as usize] = 0;
        self.free.push(slot);
        self.check();
    }

    fn cached(&self, line: u64) -> Option<u32> {
        self.slot[line as usize].checked_sub(1)
    }
}

#[derive(Clone, Copy)]
struct Pending {
    line: u32,
    invalidate: bool,
    done: bool,
    /// Version of the line when the command started.
    seen: u32,
    by: By,
}

/// What one worker has started and not completed.
#[derive(Default)]
struct Local {
    stores: Vec<(u64, u64)>,
    pending: Vec<Pending>,
    /// Its reads may meet a writer.
    unsure: bool,
    /// The first rule that one of these has broken.
    doubt: Option<Broken>,
}

/// What becomes of a host's cache when it dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CrashDomain {
    /// Its process is killed: the caches survive, everything dirty reaches the shared memory before anybody
    /// may call the host dead, and a restarted process finds the old (clean) lines in its cache.
    Process,
    /// The host stops: a random part of its dirty lines has reached the shared memory, the rest is lost.
    Host,
    /// The host stops, and the platform writes all its dirty lines back (global persistent flush).
    HostPersistent,
}

/// The adversarial memory.
pub(crate) struct Incoherent {
    coherent: bool,
    shared: Vec<u8>,
    caches: Vec<Cache>,
    locals: Vec<Local>,
    pub rules: Option<Rules>,
    /// Lines ever used as data: candidates of prefetches.
    used: Vec<u32>,
    is_used: Vec<bool>,
}

impl Incoherent {
    /// `coherent`: data is never cached.
    pub fn new(hosts: usize, len: usize, rules: Option<Rules>, coherent: bool) -> Self {
        assert!(len.is_multiple_of(LINE) && len / LINE <= u32::MAX as usize, "{len} bytes of whole lines");
        let lines = len / LINE;
        Self {
            coherent,
            shared: vec![0; len],
            caches: (0..hosts).map(|_| Cache::new(lines)).collect(),
            locals: Vec::new(),
            rules,
            used: Vec::new(),
            is_used: vec![false; lines],
        }
    }

    pub fn coherent_data(&self) -> bool {
        self.coherent
    }

    pub fn hosts(&self) -> usize {
        self.caches.len()
    }

    pub fn add_worker(&mut self) {
        self.locals.push(Local::default());
    }

    fn word(&self, at: u64) -> u64 {
        debug_assert!(at.is_multiple_of(8), "a sync word is read whole: {at:#x}");
        let at = at as usize;
        u64::from_le_bytes(self.shared[at..at + 8].try_into().expect("eight bytes"))
    }

    fn set_word(&mut self, at: u64, value: u64) {
        debug_assert!(at.is_multiple_of(8), "a sync word is written whole: {at:#x}");
        let at = at as usize;
        self.shared[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    fn check_sync(&mut self, at: u64, by: By) -> Result<(), Broken> {
        self.rules.as_mut().map_or(Ok(()), |rules| rules.sync(at / LINE as u64, by))
    }

    pub fn load(&mut self, worker: usize, at: u64, by: By) -> Result<u64, Broken> {
        self.check_sync(at, by)?;
        let own = self.locals[worker].stores.iter().rev().find(|store| store.0 == at);
        Ok(own.map_or_else(|| self.word(at), |store| store.1))
    }

    pub fn store(&mut self, worker: usize, at: u64, value: u64, by: By) -> Result<(), Broken> {
        self.check_sync(at, by)?;
        self.locals[worker].stores.push((at, value));
        if self.locals[worker].stores.len() > BUFFERED_STORES {
            self.drain_one(worker);
        }
        debug_assert!(self.locals[worker].stores.len() <= BUFFERED_STORES, "stores wait in a buffer");
        Ok(())
    }

    pub fn compare_exchange(
        &mut self,
        worker: usize,
        at: u64,
        current: u64,
        new: u64,
        by: By,
    ) -> Result<Result<u64, u64>, Broken> {
        self.check_sync(at, by)?;
        self.drain(worker);
        debug_assert!(!self.buffers_stores(worker), "a swap completes the worker's stores");
        let seen = self.word(at);
        if seen != current {
            return Ok(Err(seen));
        }
        self.set_word(at, new);
        Ok(Ok(seen))
    }

    /// From here on it is decided later whether what the worker reads keeps the rules.
    pub fn begin_unsure(&mut self, worker: usize) {
        let local = &mut self.locals[worker];
        debug_assert!(!local.unsure, "who is unsure does not begin to be");
        (local.unsure, local.doubt) = (true, None);
    }

    /// Ends that: the first rule that was broken.
    pub fn end_unsure(&mut self, worker: usize) -> Option<Broken> {
        let local = &mut self.locals[worker];
        local.unsure = false;
        local.doubt.take()
    }

    /// Reads a part of one line.
    pub fn read(
        &mut self,
        worker: usize,
        host: usize,
        at: u64,
        out: &mut [u8],
        by: By,
    ) -> Result<(), Broken> {
        let (line, start) = (at / LINE as u64, at as usize % LINE);
        debug_assert!(start + out.len() <= LINE, "a read takes one line at a time");
        if let Some(rules) = &mut self.rules
            && let Err(broken) = rules.read(host, line, mask(start, out.len()), by)
        {
            let local = &mut self.locals[worker];
            if !local.unsure {
                return Err(broken);
            }
            local.doubt.get_or_insert(broken);
        }
        if self.coherent {
            out.copy_from_slice(&self.shared[at as usize..at as usize + out.len()]);
            return Ok(());
        }
        self.note_used(line);
        let slot = self.caches[host].fill(line, &self.shared);
        out.copy_from_slice(&self.caches[host].entries[slot as usize].bytes[start..start + out.len()]);
        Ok(())
    }

    /// Writes a part of one line.
    pub fn write(&mut self, host: usize, at: u64, bytes: &[u8], by: By) -> Result<(), Broken> {
        let (line, start) = (at / LINE as u64, at as usize % LINE);
        debug_assert!(start + bytes.len() <= LINE, "a write takes one line at a time");
        if let Some(rules) = &mut self.rules {
            rules.write(host, line, mask(start, bytes.len()), by)?;
        }
        if self.coherent {
            self.shared[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
            return Ok(());
        }
        self.note_used(line);
        let cache = &mut self.caches[host];
        let slot = cache.fill(line, &self.shared);
        let entry = &mut cache.entries[slot as usize];
        entry.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        if !entry.dirty {
            cache.delist(slot);
            cache.enlist(slot, true);
        }
        cache.check();
        Ok(())
    }

    fn note_used(&mut self, line: u64) {
        if !std::mem::replace(&mut self.is_used[line as usize], true) {
            self.used.push(line as u32);
            debug_assert!(self.used.len() <= self.is_used.len(), "a line is listed once");
        }
    }

    /// Starts a write_back or invalidate of lines.
    pub fn start(
        &mut self,
        worker: usize,
        lines: Range<u64>,
        invalidate: bool,
        by: By,
    ) -> Result<(), Broken> {
        debug_assert!(lines.end as usize <= self.is_used.len(), "{lines:?} of {}", self.is_used.len());
        for line in lines {
            let seen = self.rules.as_mut().map_or(Ok(0), |rules| rules.start(line, by))?;
            let pending = Pending { line: line as u32, invalidate, done: false, seen, by };
            self.locals[worker].pending.push(pending);
        }
        Ok(())
    }

    /// Completes everything that the worker started.
    pub fn fence(&mut self, host: usize, worker: usize) {
        self.drain(worker);
        let mut pending = std::mem::take(&mut self.locals[worker].pending);
        for p in pending.drain(..) {
            if !p.done {
                self.perform(host, p);
            }
            if let Some(rules) = &mut self.rules {
                if p.invalidate {
                    rules.invalidated(host, u64::from(p.line), p.seen, p.by);
                } else {
                    rules.written_back(host, u64::from(p.line), p.by);
                }
            }
        }
        self.locals[worker].pending = pending;
        let Local { stores, pending, .. } = &self.locals[worker];
        debug_assert!(stores.is_empty() && pending.is_empty(), "a fence completes what the worker started");
    }

    fn perform(&mut self, host: usize, p: Pending) {
        let cache = &mut self.caches[host];
        if let Some(slot) = cache.cached(u64::from(p.line)) {
            if p.invalidate {
                cache.drop_line(slot, &mut self.shared);
            } else {
                cache.write_back(slot, &mut self.shared);
            }
        }
    }

    /// Makes the worker's oldest store visible, if it has one.
    pub fn drain_one(&mut self, worker: usize) {
        if self.buffers_stores(worker) {
            let (at, value) = self.locals[worker].stores.remove(0);
            self.set_word(at, value);
        }
    }

    pub fn drain(&mut self, worker: usize) {
        while self.buffers_stores(worker) {
            self.drain_one(worker);
        }
    }

    pub fn buffers_stores(&self, worker: usize) -> bool {
        !self.locals[worker].stores.is_empty()
    }

    /// Completes one of the worker's cache commands early.
    pub fn complete_one(&mut self, host: usize, worker: usize, random: &mut Random) {
        let pending = &mut self.locals[worker].pending;
        if pending.is_empty() {
            return;
        }
        let index = random.below(pending.len());
        if !std::mem::replace(&mut pending[index].done, true) {
            let p = pending[index];
            self.perform(host, p);
        }
    }

    /// Writes some dirty line of the host back, and perhaps drops it.
    pub fn evict_dirty(&mut self, host: usize, random: &mut Random) {
        let index = random.below(self.caches[host].dirty.len());
        self.evict_nth(host, true, index, random.next() & 1 == 0);
    }

    /// Drops some clean line of the host.
    pub fn evict_clean(&mut self, host: usize, random: &mut Random) {
        let index = random.below(self.caches[host].clean.len());
        self.evict_nth(host, false, index, true);
    }

    /// Brings a line that somebody used, or its neighbour, into the host's cache.
    pub fn prefetch(&mut self, host: usize, random: &mut Random) {
        let used = self.used.len();
        if used == 0 {
            return;
        }
        let die = random.next();
        let recent = if die & 1 == 0 { used.min(32) } else { used };
        let line = u64::from(self.used[used - 1 - random.below(recent)]) + (die >> 1 & 3) / 3;
        if (line as usize) < self.is_used.len() {
            self.caches[host].fill(line, &self.shared);
        }
    }

    /// The `index`-th dirty or clean line of the host: written back, and dropped if asked.
    pub fn evict_nth(&mut self, host: usize, dirty: bool, index: usize, drop: bool) {
        let cache = &mut self.caches[host];
        let Some(&slot) = cache.list(dirty).get(index) else { return };
        if drop {
            cache.drop_line(slot, &mut self.shared);
        } else {
            cache.write_back(slot, &mut self.shared);
        }
    }

    /// Number of dirty and clean lines in the host's cache.
    pub fn cached_lines(&self, host: usize) -> (usize, usize) {
        (self.caches[host].dirty.len(), self.caches[host].clean.len())
    }

    /// Used data lines (for exhaustive prefetching).
    pub fn used_lines(&self) -> &[u32] {
        &self.used
    }

    pub fn is_cached(&self, host: usize, line: u64) -> bool {
        self.caches[host].cached(line).is_some()
    }

    pub fn prefetch_line(&mut self, host: usize, line: u64) {
        self.caches[host].fill(line, &self.shared);
    }

    /// The host dies; `keep` decides for each dirty line whether it reached the shared memory.
    pub fn crash(
        &mut self,
        host: usize,
        workers: &[usize],
        domain: CrashDomain,
        by: By,
        random: &mut Random,
    ) {
        for &worker in workers {
            let stores = match domain {
                CrashDomain::Host => random.below(self.locals[worker].stores.len() + 1),
                _ => self.locals[worker].stores.len(),
            };
            for _ in 0..stores {
                self.drain_one(worker);
            }
            self.locals[worker] = Local::default();
        }
        let survives = domain == CrashDomain::Process;
        let cache = &mut self.caches[host];
        while let Some(&slot) = cache.dirty.last() {
            if domain != CrashDomain::Host || random.next() & 1 == 0 {
                cache.write_back(slot, &mut self.shared);
            } else {
                cache.forget(slot);
            }
        }
        while let (Some(&slot), false) = (cache.clean.last(), survives) {
            cache.forget(slot);
        }
        debug_assert!(cache.dirty.is_empty(), "a dead host changes no line");
        debug_assert!(
            workers.iter().all(|&worker| !self.locals[worker].unsure),
            "a dead worker reads nothing"
        );
        if let Some(rules) = &mut self.rules {
            rules.crash(host, by, survives);
        }
    }

    /// Everything reaches the shared memory and leaves the caches, and the rules start afresh.
    pub fn quiesce(&mut self) {
        for worker in 0..self.locals.len() {
            self.drain(worker);
            self.locals[worker].pending.clear();
        }
        for cache in &mut self.caches {
            while let Some(&slot) = cache.dirty.last().or(cache.clean.last()) {
                cache.drop_line(slot, &mut self.shared);
            }
            debug_assert_eq!(cache.free.len(), cache.entries.len(), "a cache at rest is empty");
        }
        debug_assert!(self.locals.iter().all(|local| local.stores.is_empty()), "stores at rest are seen");
        if let Some(rules) = &mut self.rules {
            rules.quiesce();
        }
    }
}

/// Bit per byte of a line.
fn mask(start: usize, len: usize) -> u64 {
    debug_assert!(start + len <= LINE && len > 0);
    (u64::MAX >> (LINE - len)) << start
}
