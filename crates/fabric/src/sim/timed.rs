//! Virtual time: what each verb costs on the machine that a profile describes.
//!
//! Discrete events: every worker has a clock; a verb that others could notice runs only while its worker's
//! clock is the smallest, and moves it forward. What follows computation can be noticed in the worker's own
//! host only, so it waits for the clocks of that host. Contended things (links, the device, a line's
//! ownership, a compare-and-swap queue) are *reservation clocks*: the time from which they are free. A user
//! starts at the later of now and then, and moves it.
//!
//! Invariants:
//! 1. Contents are coherent (one array): this mode answers questions about speed, never about missing
//!    instructions.
//! 2. Whether an access costs a hit or a miss follows per-host tags, which write_back and invalidate change
//!    as on the real machine; so forgetting an invalidate makes a program too fast, not wrong.
//! 3. All times are whole picoseconds (`Costs`).
//!
//! What it does not model: translation misses, hardware prefetchers, out-of-order overlap of independent
//! verbs of one worker (except the lines of one read, and stores), and snoop traffic of lines that nobody
//! touches.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use super::report::TimeUse;
use crate::addr::{LINE, lines};
use crate::costs::{Costs, Directory, MAX_HOSTS, SyncCosts, swap_queue};
use crate::cx::HostId;
use crate::disk::Cost;
use crate::fabric::Work;
use crate::profile::Profile;
use crate::tags::{Access, Tags};

#[derive(Clone, Copy, Default)]
struct Worker {
    host: usize,
    clock: u64,
    /// When its earlier stores and cache commands are complete.
    pending: u64,
    /// When it began to wait, if it waits, and the end of its last pause.
    waiting_since: Option<u64>,
    paused_until: u64,
}

/// A worker that has not paused for so long begins a new wait.
const NEW_WAIT_PS: u64 = 1_000_000;

/// What is known of a sync line: the time from which it can move, and its packed [`Directory`]. One array of
/// integers, so that a large memory costs only the pages that are used, and one cache miss a verb.
type SyncLine = [u64; 2];
const FREE_AT: usize = 0;
const HELD_BY: usize = 1;

/// The timed memory.
pub(crate) struct Timed {
    costs: Costs,
    bytes: Vec<u8>,
    workers: Vec<Worker>,
    ready: BinaryHeap<Reverse<(u64, u16)>>,
    tags: Vec<Tags>,
    /// Per line, for coherent data only: grows when another host must fetch it again.
    stamps: Option<Vec<u32>>,
    link_free: Vec<u64>,
    device_free: u64,
    disk_free: [u64; MAX_HOSTS],
    sync_lines: Vec<SyncLine>,
    queue_free: Vec<u64>,
    /// The workers of each host that run.
    living: Vec<Vec<u16>>,
    used: TimeUse,
}

impl Timed {
    pub fn new(profile: &Profile, hosts: usize, len: usize) -> Self {
        assert!(hosts <= MAX_HOSTS && len.is_multiple_of(LINE), "{hosts} hosts, {len} bytes of whole lines");
        let all = len / LINE;
        let cache = &profile.cache;
        let tags = || Tags::new(cache.size_bytes.value as usize, cache.ways.value as usize);
        let queues = profile.pcc.as_ref().map_or(1, |pcc| pcc.swap_queues.value as usize);
        Self {
            costs: Costs::new(profile),
            bytes: vec![0; len],
            workers: Vec::new(),
            ready: BinaryHeap::new(),
            tags: (0..hosts).map(|_| tags()).collect(),
            stamps: profile.coherent_data.then(|| vec![0; all]),
            link_free: vec![0; hosts],
            device_free: 0,
            disk_free: [0; MAX_HOSTS],
            sync_lines: vec![[0; 2]; all],
            queue_free: vec![0; queues],
            living: vec![Vec::new(); hosts],
            used: TimeUse::default(),
        }
    }

    pub fn coherent_data(&self) -> bool {
        self.stamps.is_some()
    }

    pub fn add_worker(&mut self, host: usize) {
        let clock = self.latest();
        debug_assert!(host < self.living.len(), "host {host} of {}", self.living.len());
        self.workers.push(Worker { host, clock, ..Worker::default() });
    }

    /// The worker may run from `clock` (ps) on.
    pub fn start(&mut self, worker: usize, clock: u64) {
        let w = &mut self.workers[worker];
        debug_assert!(w.clock <= clock, "a worker's clock goes on: {} to {clock}", w.clock);
        debug_assert!(!self.living[w.host].contains(&(worker as u16)), "worker {worker} runs already");
        w.clock = clock;
        self.ready.push(Reverse((clock, worker as u16)));
        self.living[w.host].push(worker as u16);
    }

    pub fn clock(&self, worker: usize) -> u64 {
        self.workers[worker].clock
    }

    /// The latest clock of all workers.
    pub fn latest(&self) -> u64 {
        self.workers.iter().map(|w| w.clock).max().unwrap_or(0)
    }

    /// Whoever is next if not `me`, who then queues up.
    #[inline]
    pub fn next_worker(&mut self, me: usize) -> usize {
        let mine = (self.workers[me].clock, me as u16);
        match self.ready.peek_mut() {
            Some(mut top) if top.0 < mine => {
                let next = usize::from(top.0.1);
                debug_assert!(next != me && self.workers[next].clock == top.0.0, "who waits stands still");
                *top = Reverse(mine);
                next
            }
            _ => me,
        }
    }

    /// As [`Self::next_worker`], for what only workers of the same host can notice: whoever is next if one of
    /// them is behind `me`, otherwise `me`. What other hosts see of a host are verbs, and those take their
    /// own turns.
    #[inline]
    pub fn next_in_host(&mut self, me: usize) -> usize {
        let Worker { host, clock, .. } = self.workers[me];
        let behind = |&w: &u16| (self.workers[usize::from(w)].clock, w) < (clock, me as u16);
        if self.living[host].iter().any(behind) { self.next_worker(me) } else { me }
    }

    /// Whoever is next after a worker that is gone.
    pub fn next(&mut self) -> Option<usize> {
        let Reverse((clock, worker)) = self.ready.pop()?;
        debug_assert_eq!(self.workers[usize::from(worker)].clock, clock, "who waits stands still");
        Some(usize::from(worker))
    }

    /// Forgets a worker that will not run again.
    pub fn remove(&mut self, worker: usize) {
        self.ready.retain(|Reverse((_, w))| usize::from(*w) != worker);
        self.ended(worker);
    }

    /// Forgets a worker that has ended by itself.
    pub fn ended(&mut self, worker: usize) {
        self.living[self.workers[worker].host].retain(|w| usize::from(*w) != worker);
    }

    /// Counts where time goes from now on.
    pub fn count_afresh(&mut self) {
        self.used = TimeUse::default();
    }

    /// Where the time went since then.
    pub fn time_use(&self) -> TimeUse {
        let mut used = self.used.clone();
        debug_assert!(used.units.iter().all(|(_, ps)| *ps == 0), "what units cost is counted at the end");
        let compute = used.units.iter_mut().zip(&self.costs.work);
        compute.for_each(|(part, cost)| part.1 = part.0 * cost);
        used
    }

    #[inline]
    pub fn spend(&mut self, me: usize, work: Work, times: u32) {
        let w = &mut self.workers[me];
        w.clock += self.costs.work[work as usize] * u64::from(times);
        w.waiting_since = None;
        self.used.units[work as usize].0 += u64::from(times);
    }

    /// Time passes for a waiting worker: an eighth of its wait so far, within the profile's bounds.
    pub fn pause(&mut self, me: usize) {
        let w = &mut self.workers[me];
        let before = w.clock;
        let same = w.waiting_since.filter(|_| w.clock - w.paused_until < NEW_WAIT_PS);
        let since = same.unwrap_or(w.clock);
        debug_assert!(since <= w.clock, "a wait began before now");
        let (least, most) = self.costs.pause;
        w.clock += ((w.clock - since) / 8).clamp(least, most.max(least));
        (w.waiting_since, w.paused_until) = (Some(since), w.clock);
        self.used.waiting_ps += w.clock - before;
    }

    pub fn progress(&mut self, me: usize) {
        self.workers[me].waiting_since = None;
    }

    /// One line over the host's link and through the device, asked for at `now`: when it has passed.
    #[inline]
    fn transfer(&mut self, host: usize, now: u64) -> u64 {
        let link = &mut self.link_free[host];
        *link = now.max(*link) + self.costs.link_line;
        self.device_free = now.max(self.device_free) + self.costs.device_line;
        debug_assert!(*link > now && self.device_free > now, "a line takes the link and the device a while");
        self.device_free.max(*link)
    }

    pub fn read(&mut self, me: usize, at: u64, out: &mut [u8]) {
        let from = at as usize;
        self.tags[self.workers[me].host].prefetch(at / LINE as u64);
        out.copy_from_slice(&self.bytes[from..from + out.len()]);
        self.touch(me, at, out.len(), false);
    }

    pub fn write(&mut self, me: usize, at: u64, bytes: &[u8]) {
        let to = at as usize;
        self.tags[self.workers[me].host].prefetch(at / LINE as u64);
        self.bytes[to..to + bytes.len()].copy_from_slice(bytes);
        self.touch(me, at, bytes.len(), true);
    }

    /// The cost of reading or writing through the cache. A worker overlaps the misses of one read; those of a
    /// write are left to the store buffer and awaited by the fence.
    fn touch(&mut self, me: usize, at: u64, len: usize, dirties: bool) {
        debug_assert!(len > 0, "an access touches a line");
        let Worker { host, clock, .. } = self.workers[me];
        let (mut misses, mut passed) = (0_u64, clock);
        for line in lines(at, len) {
            let stamp = self.stamps.as_ref().map_or(0, |stamps| stamps[line as usize]);
            if let Access::Miss { wrote_back } = self.tags[host].access(line, stamp, dirties) {
                misses += 1;
                passed = self.transfer(host, clock);
                if wrote_back {
                    self.transfer(host, clock);
                }
            }
            if let (true, Some(stamps)) = (dirties, &mut self.stamps) {
                let next = (stamps[line as usize] + 1) & 0x7fff_ffff;
                stamps[line as usize] = next;
                self.tags[host].restamp(line, next);
            }
        }
        let touched = lines(at, len);
        let hits = self.costs.hit * (touched.end - touched.start);
        let w = &mut self.workers[me];
        w.clock += hits;
        if misses > 0 {
            let done = self.costs.misses_done(clock, passed, misses);
            if dirties {
                w.pending = w.pending.max(done);
            }
            w.clock = w.clock.max(self.costs.held_up(done, dirties));
        }
        self.used.data_ps += w.clock - clock;
    }

    /// Starts a write_back or (`drops`) an invalidate of lines.
    pub fn command(&mut self, me: usize, range: Range<u64>, drops: bool) {
        let Worker { host, mut clock, mut pending, .. } = self.workers[me];
        let free = self.stamps.is_some();
        for line in range {
            clock += self.costs.command;
            if free {
                continue;
            }
            let dirty = if drops { self.tags[host].forget(line) } else { self.tags[host].clean(line) };
            if dirty {
                // A line whose fill is still under way is written back after it.
                pending = pending.max(self.transfer(host, clock) + self.costs.write);
            }
            if drops {
                pending = pending.max(clock + self.costs.invalidate);
            }
        }
        let w = &mut self.workers[me];
        self.used.data_ps += clock - w.clock;
        (w.clock, w.pending) = (clock, pending);
    }

    /// A call of a disk: the copy is the caller's alone, the device serves one after the other.
    pub fn disk(&mut self, me: usize, device: HostId, cost: Cost) {
        let w = &mut self.workers[me];
        let before = w.clock;
        let costs = &self.costs.disk;
        w.clock += costs.call + cost.copied_bytes * costs.copied_byte;
        debug_assert!(usize::from(device.0) < MAX_HOSTS, "disk {} has a clock", device.0);
        let busy = cost.moved_bytes * costs.moved_byte + u64::from(cost.syncs) * costs.sync;
        if busy > 0 {
            let free = &mut self.disk_free[usize::from(device.0)];
            *free = w.clock.max(*free) + busy;
            w.clock = *free;
        }
        w.waiting_since = None;
        self.used.disk_ps += w.clock - before;
    }

    /// The worker is busy with the network.
    pub fn talk(&mut self, me: usize, ps: u64) {
        let w = &mut self.workers[me];
        w.clock += ps;
        w.waiting_since = None;
        self.used.network_ps += ps;
    }

    /// The worker waits until then.
    pub fn wait_until(&mut self, me: usize, ps: u64) {
        let w = &mut self.workers[me];
        self.used.waiting_ps += ps.saturating_sub(w.clock);
        w.clock = w.clock.max(ps);
        w.waiting_since = None;
    }

    pub fn fence(&mut self, me: usize) {
        let w = &mut self.workers[me];
        let before = w.clock;
        w.clock = (w.clock + self.costs.fence).max(w.pending);
        self.used.data_ps += w.clock - before;
    }

    fn word(&mut self, at: u64) -> &mut [u8; 8] {
        debug_assert!(at.is_multiple_of(8), "a sync word is used whole: {at:#x}");
        let at = at as usize;
        (&mut self.bytes[at..at + 8]).try_into().expect("eight bytes")
    }

    pub fn load(&mut self, me: usize, at: u64) -> u64 {
        let line = at as usize / LINE;
        let before = self.workers[me].clock;
        match self.costs.sync {
            SyncCosts::Hwcc { hit, .. } => match self.fetch_shared(me, line) {
                Some(cost) => self.occupy(me, line, cost),
                None => self.workers[me].clock += hit,
            },
            SyncCosts::Pcc { load, load_service, .. } => {
                let w = &mut self.workers[me];
                let free = &mut self.sync_lines[line][FREE_AT];
                *free = w.clock.max(*free) + load_service;
                w.clock = *free + load;
            }
        }
        self.used.sync_ps += self.workers[me].clock - before;
        u64::from_le_bytes(*self.word(at))
    }

    /// Makes the line shared with the worker's host: the cost, or `None` if it is there already.
    fn fetch_shared(&mut self, me: usize, line: usize) -> Option<u64> {
        let entry = &mut self.sync_lines[line][HELD_BY];
        let (next, source) = Directory::unpack(*entry).shared_with(self.workers[me].host, me)?;
        *entry = next.pack();
        Some(self.costs.fetch(source))
    }

    /// Makes the worker the line's only holder: the cost, or `None` if it is that already.
    fn fetch_owned(&mut self, me: usize, line: usize) -> Option<u64> {
        let entry = &mut self.sync_lines[line][HELD_BY];
        let (next, source) = Directory::unpack(*entry).owned_by(self.workers[me].host, me)?;
        *entry = next.pack();
        Some(self.costs.fetch(source))
    }

    /// Waits for the line to be free, and moves it to the worker in `cost`.
    fn occupy(&mut self, me: usize, line: usize, cost: u64) {
        let w = &mut self.workers[me];
        let free = &mut self.sync_lines[line][FREE_AT];
        *free = w.clock.max(*free) + cost;
        w.clock = *free;
    }

    pub fn store(&mut self, me: usize, at: u64, value: u64) {
        let line = at as usize / LINE;
        let before = self.workers[me].clock;
        match self.costs.sync {
            SyncCosts::Hwcc { hit, .. } => {
                self.workers[me].clock += hit;
                if let Some(cost) = self.fetch_owned(me, line) {
                    self.post(me, line, cost);
                }
            }
            SyncCosts::Pcc { store, load_service, .. } => {
                self.workers[me].clock += self.costs.command;
                self.post(me, line, load_service.min(store));
                let w = &mut self.workers[me];
                w.pending = w.pending.max(w.clock + store);
            }
        }
        self.used.sync_ps += self.workers[me].clock - before;
        *self.word(at) = value.to_le_bytes();
    }

    /// As `occupy`, but the worker goes on and only its fence waits.
    fn post(&mut self, me: usize, line: usize, cost: u64) {
        let w = &mut self.workers[me];
        let free = &mut self.sync_lines[line][FREE_AT];
        *free = w.clock.max(*free) + cost;
        w.pending = w.pending.max(*free);
    }

    pub fn compare_exchange(&mut self, me: usize, at: u64, current: u64, new: u64) -> Result<u64, u64> {
        let line = at as usize / LINE;
        let before = self.workers[me].clock;
        match self.costs.sync {
            SyncCosts::Hwcc { swap, .. } => {
                if let Some(cost) = self.fetch_owned(me, line) {
                    self.occupy(me, line, cost);
                }
                self.workers[me].clock += swap;
            }
            SyncCosts::Pcc { swap, swap_service, .. } => {
                let queue = swap_queue(line as u64, self.queue_free.len());
                let w = &mut self.workers[me];
                let free = &mut self.queue_free[queue];
                *free = w.clock.max(*free) + swap_service;
                w.clock = *free + swap;
            }
        }
        self.used.sync_ps += self.workers[me].clock - before;
        let word = self.word(at);
        let seen = u64::from_le_bytes(*word);
        if seen != current {
            return Err(seen);
        }
        *word = new.to_le_bytes();
        Ok(seen)
    }

    /// A dead host's cache is gone (its contents are not: this memory is coherent).
    pub fn crash(&mut self, host: usize) {
        self.tags[host].clear();
    }
}
