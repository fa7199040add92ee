//! Epoch reclamation for readers of out-of-place nodes (docs/protocols/reclamation.md).
//!
//! Readers announce themselves in their host's DRAM only; each host publishes one number, its *summary*: the
//! least of the pod's epoch and, as seen after that was read, its pinned workers' epochs. A retired thing is
//! free of readers once every member's summary is above the pod's epoch as it was read after the unlinking.
//! Nodes, whose readers do not invalidate, then wait for one more thing: every member drops their lines from
//! its cache and says so.
//!
//! Invariants:
//! 1. No pin's epoch exceeds the pod's epoch at the time of the pin.
//! 2. A summary above an epoch was computed after the pod had left that epoch. Safety depends on nothing
//!    else: not on who advances the pod's epoch, or when, nor on summaries never falling
//!    (models/epochs_host_level.py).
//! 3. A node handed to the heap is in no member's cache.
//! 4. At most one batch of nodes per host waits for acknowledgements; the batch, its number and how far it
//!    has been freed are in shared memory, so another host can finish it.
//!
//! ```text
//! first line        word 0: the pod's epoch
//! lines of a host   line 0: word 0 summary
//!                   line 1: word 0 batch published (number << 16 | entries), word 1 batch freed (same form)
//!                   line 2, 3: word r: last batch of host r that this host has dropped from its cache
//! batch (data)      entries of 16 bytes: offset, length, low half of the batch number
//! ```
//!
//! The number of members is asked for *after* summaries were read: a host that was not yet one then cannot
//! hold what was unlinked before. A member is a host that may still read: one that is cut off is none, for if
//! two were, each might wait for the other's batch. It does not decide who is a member, and it starts no
//! thread. Batches that no host writes are damage: nobody drops or frees what they name.

use std::collections::{BTreeSet, VecDeque};
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use liger_fabric::{Cx, DataAddr, Fabric, HostId, Latch, SyncAddr, layout};
use zerocopy::{FromZeros, IntoBytes};

use crate::error::{Noted, PodError, damaged};
use crate::heap::{BlockClass, Heap, Orphan, WordClass};
use crate::plan::{MAX_HOSTS, MAX_WORKERS, Part, Plan, RETIRE_ENTRY_BYTES};

layout! {
    /// A node that waits for all members to drop it from their caches.
    struct Entry: 16 {
        /// Where it lies.
        0 => offset: u64,
        /// Its length in bytes.
        8 => len: u32,
        /// Low half of the number of its batch: a stale entry shows.
        12 => batch: u32,
    }
}

const _: () = assert!(size_of::<Entry>() as u64 == RETIRE_ENTRY_BYTES);

/// Epoch of a worker that is not pinned.
const QUIESCENT: u64 = u64::MAX;

/// A worker's announcement, in its host's DRAM, on a line of its own.
#[repr(align(64))]
struct Worker {
    epoch: AtomicU64,
    depth: AtomicU32,
}

/// What was retired.
#[derive(Clone, Copy)]
enum Retired {
    Block(BlockClass, DataAddr, usize),
    Word(WordClass, SyncAddr),
}

/// What only one worker of the host does at a time.
#[derive(Default)]
struct Collector {
    /// Nodes without readers, not yet in a batch.
    nodes: VecDeque<(DataAddr, usize)>,
    summary: u64,
    /// Last batch of each host that this host has dropped.
    dropped: [u64; MAX_HOSTS],
    published: Batch,
    freed: Batch,
}

/// Number of a batch and of entries in it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Batch {
    number: u64,
    entries: u64,
}

/// The greatest number of a batch.
const MAX_NUMBER: u64 = (1 << 48) - 1;

impl Batch {
    fn decode(word: u64) -> Self {
        Self { number: word >> 16, entries: word & 0xffff }
    }
    fn encode(self) -> u64 {
        debug_assert!(self.entries <= 0xffff && self.number <= MAX_NUMBER, "{self:?} does not fit a word");
        self.number << 16 | self.entries
    }
}

/// How far reclamation is, as everybody can see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The pod's epoch.
    pub epoch: u64,
    /// By host: no worker of it is pinned in an epoch before this one.
    pub summaries: Vec<u64>,
}

/// Looks at the pod's epochs from outside.
pub fn progress<F: Fabric>(cx: &Cx<F>, plan: &Plan) -> Progress {
    let summary = |host| cx.load(summary_word(plan, host));
    Progress { epoch: cx.load(plan.sync(Part::Epochs)), summaries: plan.hosts().map(summary).collect() }
}

/// One host's part in the pod's epochs, shared by its workers.
pub struct Epochs {
    plan: Plan,
    host: HostId,
    /// The pod's epoch as this host last saw it.
    now: AtomicU64,
    workers: [Worker; MAX_WORKERS],
    /// Retired things with the pod's epoch as read after they were unlinked, in the order of these epochs.
    retired: Latch<VecDeque<(u64, Retired)>>,
    collector: Latch<Collector>,
    damage: Noted,
}

/// While it lives, nothing that its worker can reach is reused. Pins nest; drop it to unpin.
#[must_use = "dropping a pin ends its protection"]
pub struct Pin<'a> {
    worker: &'a Worker,
    /// A pin stays with its worker.
    _worker: PhantomData<*const ()>,
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        let depth = self.worker.depth.load(Ordering::Relaxed) - 1;
        self.worker.depth.store(depth, Ordering::Relaxed);
        if depth == 0 {
            self.worker.epoch.store(QUIESCENT, Ordering::Release);
        }
    }
}

impl Epochs {
    /// The part of the caller's host. To be called before the host becomes a member, with none of the pod's
    /// data in its cache.
    pub fn new<F: Fabric>(cx: &Cx<F>, plan: &Plan) -> Epochs {
        let host = cx.host();
        let now = cx.load(plan.sync(Part::Epochs));
        set(cx, summary_word(plan, host), cx.load(summary_word(plan, host)), now);
        let mut collector = Collector {
            summary: now,
            published: Batch::decode(cx.load(published_word(plan, host))),
            freed: Batch::decode(cx.load(freed_word(plan, host))),
            ..Collector::default()
        };
        for retirer in plan.hosts() {
            collector.dropped[usize::from(retirer.0)] = cx.load(dropped_word(plan, host, retirer));
        }
        Epochs {
            plan: plan.clone(),
            host,
            now: AtomicU64::new(now),
            workers: std::array::from_fn(|_| Worker {
                epoch: AtomicU64::new(QUIESCENT),
                depth: AtomicU32::new(0),
            }),
            retired: Latch::default(),
            collector: Latch::new(collector),
            damage: Noted::default(),
        }
    }

    /// Protects what the calling worker reads from now on until the pin is dropped. Costs one fence and no
    /// access to shared memory; a long scan should drop its pin now and then.
    pub fn pin<F: Fabric>(&self, cx: &Cx<F>) -> Pin<'_> {
        debug_assert_eq!(cx.host(), self.host);
        let worker = &self.workers[usize::from(cx.worker().0)];
        let depth = worker.depth.load(Ordering::Relaxed);
        worker.depth.store(depth + 1, Ordering::Relaxed);
        if depth == 0 && !cx.sabotaged("epochs.pin") {
            worker.epoch.store(self.now(), Ordering::Relaxed);
            // Before the first word is followed: a collector that does not see this worker yet has asked for
            // the pod's epoch too early to free what the worker will find. (The host's epoch may have moved
            // on meanwhile; an older announcement only holds more.)
            cx.fence();
        }
        Pin { worker, _worker: PhantomData }
    }

    /// Hands over a block that the caller has just unlinked (the unlinking compare-and-swap is done): it is
    /// freed when no reader can reach it and, for a node, when no member has it cached.
    pub fn retire<F: Fabric>(&self, cx: &Cx<F>, class: BlockClass, at: DataAddr, len: usize) {
        debug_assert!(at.offset() != 0 && at.is_line_aligned() && len > 0, "{at:?} is no block");
        self.push(cx, Retired::Block(class, at, len));
    }

    /// Hands over a sync word that the caller has just unlinked: it is freed when no reader can reach it.
    pub fn retire_word<F: Fabric>(&self, cx: &Cx<F>, class: WordClass, at: SyncAddr) {
        debug_assert!(at.offset() != 0, "0 is no word of the heap");
        self.push(cx, Retired::Word(class, at));
    }

    /// Takes over the chunks of a dead host (see [`Heap::adopt`] for the conditions) and retires what nothing
    /// reaches in them; returns how many slots that were. `reached` is everything in them that is in use;
    /// what this host has retired itself, of an index that it was about to take over, is added: it is freed
    /// once.
    ///
    /// # Errors
    /// [`PodError::Damaged`]: as [`Heap::adopt`], and if this host's own batch makes no sense.
    pub fn adopt<F: Fabric>(
        &self,
        cx: &Cx<F>,
        heap: &Heap,
        dead: HostId,
        incarnation: u16,
        reached: &mut BTreeSet<u64>,
    ) -> Result<usize, PodError> {
        // While it is held, nothing that waits here is freed.
        let collector = self.collector.lock(cx);
        reached.extend(self.waiting_places(cx, heap, &collector)?);
        let mut orphans = Vec::new();
        let adopted = heap.adopt(cx, dead, incarnation, reached, &mut orphans);
        drop(collector);
        for &orphan in &orphans {
            match orphan {
                Orphan::Block(class, at, len) => self.retire(cx, class, at, len),
                Orphan::Word(class, at) => self.retire_word(cx, class, at),
            }
        }
        adopted.map(|()| orphans.len())
    }

    /// Where the things lie that this host has retired and not yet freed.
    fn waiting_places<F: Fabric>(
        &self,
        cx: &Cx<F>,
        heap: &Heap,
        collector: &Collector,
    ) -> Result<Vec<u64>, PodError> {
        let retired = self.retired.lock(cx);
        let place = |&(_, retired): &(u64, Retired)| match retired {
            Retired::Block(_, at, _) => at.offset(),
            Retired::Word(_, at) => at.offset(),
        };
        let mut places: Vec<u64> = retired.iter().map(place).collect();
        places.extend(collector.nodes.iter().map(|(at, _)| at.offset()));
        if collector.published != collector.freed {
            let batch = self.unfinished(cx, heap, self.host, collector.published)?;
            places.extend(batch.iter().map(|entry| entry.offset));
        }
        Ok(places)
    }

    /// The first damage of batches that this host has met and gone past. What it concerns is not reused
    /// since.
    pub fn damage(&self) -> Option<&PodError> {
        self.damage.first()
    }

    /// Things retired by this host and not yet freed.
    pub fn backlog<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        let collector = self.collector.lock(cx);
        let waiting = if collector.published == collector.freed { 0 } else { collector.published.entries };
        collector.nodes.len() + waiting as usize + self.retired.lock(cx).len()
    }

    /// Epochs of the oldest and the newest thing that this host has retired and that readers may still reach.
    /// Once the oldest is younger than today's newest, nobody reaches what waits today any more.
    pub fn waiting<F: Fabric>(&self, cx: &Cx<F>) -> Option<RangeInclusive<u64>> {
        let retired = self.retired.lock(cx);
        Some(retired.front()?.0..=retired.back()?.0)
    }

    fn push<F: Fabric>(&self, cx: &Cx<F>, retired: Retired) {
        debug_assert_eq!(cx.host(), self.host, "what a host unlinked waits in its own list");
        let mut list = self.retired.lock(cx);
        // Read after the unlinking and under the latch: no reader that could have found the thing was pinned
        // later, and the list stays sorted. The caller's own pin may be older than that of a reader
        // elsewhere.
        let epoch = if cx.sabotaged("epochs.tag-after-unlinking") {
            self.workers[usize::from(cx.worker().0)].epoch.load(Ordering::Relaxed).min(self.now())
        } else {
            cx.load(self.plan.sync(Part::Epochs))
        };
        list.push_back((epoch, retired));
    }

    fn now(&self) -> u64 {
        self.now.load(Ordering::Acquire)
    }

    /// Does this host's share of reclamation: says how far its workers are, moves the pod's epoch on, drops
    /// the nodes that other hosts retired from this host's cache, and frees what is safe. Any worker calls it
    /// from time to time, pinned or not; a host where nobody does holds all others up. `members` reads the
    /// set of hosts that may still read (`membership::readers`), bit h for host h. Returns how many retired
    /// things were freed.
    pub fn collect<F: Fabric>(&self, cx: &Cx<F>, heap: &Heap, members: impl Fn(&Cx<F>) -> u16) -> usize {
        let Some(mut collector) = self.collector.try_lock() else { return 0 };
        let dropped = self.drop_batches(cx, heap, &collector);
        self.acknowledge(cx, &mut collector, &dropped);
        let epoch = self.summarize(cx, &mut collector);
        let oldest = self.oldest(cx, &members);
        if oldest >= epoch {
            // Losing the race means that somebody else has moved it on.
            let _ = cx.compare_exchange(self.plan.sync(Part::Epochs), epoch, epoch.wrapping_add(1));
        }
        let mut freed = self.free_unreachable(cx, heap, &mut collector, oldest);
        freed += self.finish_own_batch(cx, heap, &mut collector, &members);
        if collector.published == collector.freed && !collector.nodes.is_empty() {
            self.publish_batch(cx, &mut collector);
        }
        drop(collector);
        heap.tidy(cx);
        freed
    }

    /// Publishes how far this host's workers are; returns the pod's epoch as seen before.
    fn summarize<F: Fabric>(&self, cx: &Cx<F>, collector: &mut Collector) -> u64 {
        let epoch = cx.load(self.plan.sync(Part::Epochs));
        self.now.store(epoch, Ordering::Release);
        // Only now: whoever is pinned and not seen here follows no word from before this epoch (see `pin`).
        let pinned = self.workers.iter().map(|w| w.epoch.load(Ordering::SeqCst)).min();
        let summary = pinned.expect("there are workers").min(epoch);
        if summary != collector.summary {
            set(cx, summary_word(&self.plan, self.host), collector.summary, summary);
            collector.summary = summary;
        }
        epoch
    }

    /// The least summary of all members.
    fn oldest<F: Fabric>(&self, cx: &Cx<F>, members: &impl Fn(&Cx<F>) -> u16) -> u64 {
        let summary = |host| cx.load(summary_word(&self.plan, host));
        let summaries: Vec<u64> = self.plan.hosts().map(summary).collect();
        let members = members(cx) | 1 << self.host.0;
        let counted = summaries.iter().enumerate().filter(|(host, _)| members >> host & 1 != 0);
        counted.map(|(_, &summary)| summary).min().expect("this host is counted")
    }

    /// Frees what no reader can reach; nodes go on to wait for a batch.
    fn free_unreachable<F: Fabric>(
        &self,
        cx: &Cx<F>,
        heap: &Heap,
        collector: &mut Collector,
        oldest: u64,
    ) -> usize {
        let mut freed = 0;
        loop {
            let mut list = self.retired.lock(cx);
            let safe = |&(epoch, _): &(u64, _)| epoch < oldest || cx.sabotaged("epochs.wait-for-readers");
            let Some((_, retired)) = list.pop_front_if(|entry| safe(entry)) else { return freed };
            drop(list);
            match retired {
                Retired::Block(BlockClass::Node, at, len) => {
                    collector.nodes.push_back((at, len));
                    continue;
                }
                Retired::Block(class, at, len) => heap.free(cx, class, at, len),
                Retired::Word(class, at) => heap.free_word(cx, class, at),
            }
            freed += 1;
        }
    }

    /// Asks all members to drop the oldest nodes from their caches.
    fn publish_batch<F: Fabric>(&self, cx: &Cx<F>, collector: &mut Collector) {
        assert_eq!(collector.published, collector.freed, "one batch at a time waits");
        assert!(!collector.nodes.is_empty(), "a batch has an entry");
        let most = self.plan.config().retire_entries as usize;
        let number = (collector.published.number + 1) & MAX_NUMBER;
        let count = collector.nodes.len().min(most);
        let entries: Vec<Entry> = collector
            .nodes
            .drain(..count)
            .map(|(at, len)| Entry { offset: at.offset(), len: len as u32, batch: number as u32 })
            .collect();
        cx.write(batch_data(&self.plan, self.host), entries.as_bytes());
        cx.write_back(batch_data(&self.plan, self.host), entries.as_bytes().len());
        drop_nodes(cx, &entries);
        cx.fence();
        let before = collector.published.encode();
        collector.published = Batch { number, entries: count as u64 };
        set(cx, published_word(&self.plan, self.host), before, collector.published.encode());
    }

    /// Starts to drop from this host's cache what other hosts ask it to: whose batches, and their numbers.
    /// A damaged batch is never said to be dropped.
    fn drop_batches<F: Fabric>(&self, cx: &Cx<F>, heap: &Heap, collector: &Collector) -> Vec<(HostId, u64)> {
        let mut dropped = Vec::new();
        for retirer in self.plan.hosts().filter(|&r| r != self.host) {
            let batch = Batch::decode(cx.load(published_word(&self.plan, retirer)));
            if batch.number == collector.dropped[usize::from(retirer.0)] {
                continue;
            }
            let entries = self.damage.whole(self.entries(cx, heap, retirer, batch)).flatten();
            let Some(entries) = entries else { continue };
            if !cx.sabotaged("epochs.drop-nodes") {
                drop_nodes(cx, &entries);
            }
            dropped.push((retirer, batch.number));
        }
        dropped
    }

    /// Completes the drops and says so.
    fn acknowledge<F: Fabric>(&self, cx: &Cx<F>, collector: &mut Collector, dropped: &[(HostId, u64)]) {
        if !dropped.is_empty() {
            cx.fence();
        }
        for &(retirer, number) in dropped {
            debug_assert_ne!(retirer, self.host, "a host drops its own nodes before it asks the others");
            let before = &mut collector.dropped[usize::from(retirer.0)];
            set(cx, dropped_word(&self.plan, self.host, retirer), *before, number);
            *before = number;
        }
    }

    /// The entries of a batch; `None` if the batch is over (only a host that nobody waits for can be that
    /// late).
    ///
    /// # Errors
    /// [`PodError::Damaged`] if no host publishes such a batch.
    fn entries<F: Fabric>(
        &self,
        cx: &Cx<F>,
        heap: &Heap,
        retirer: HostId,
        batch: Batch,
    ) -> Result<Option<Vec<Entry>>, PodError> {
        let most = self.plan.config().retire_entries.into();
        if !(1..=most).contains(&batch.entries) {
            return Err(damaged("the size of a batch of nodes", batch.entries, most));
        }
        let mut entries = vec![Entry::new_zeroed(); batch.entries as usize];
        cx.refresh(batch_data(&self.plan, retirer), entries.as_mut_bytes());
        let is_whole = |e: &Entry| e.batch == batch.number as u32 && heap.may_hold(e.offset, e.len as usize);
        let Some(broken) = entries.iter().find(|entry| !is_whole(entry)) else { return Ok(Some(entries)) };
        let now = cx.load(published_word(&self.plan, retirer));
        if now != batch.encode() {
            return Ok(None);
        }
        Err(match u64::from(broken.batch) {
            number if number == batch.number & u64::from(u32::MAX) => {
                damaged("the place of a node in a batch", broken.offset, 0)
            }
            number => damaged("the number of an entry of a batch of nodes", number, batch.number),
        })
    }

    /// The entries of a batch that nobody replaces before it is freed.
    fn unfinished<F: Fabric>(
        &self,
        cx: &Cx<F>,
        heap: &Heap,
        retirer: HostId,
        batch: Batch,
    ) -> Result<Vec<Entry>, PodError> {
        let entries = self.entries(cx, heap, retirer, batch)?;
        entries.ok_or_else(|| damaged("the number of an unfinished batch of nodes", 0, batch.number))
    }

    fn finish_own_batch<F: Fabric>(
        &self,
        cx: &Cx<F>,
        heap: &Heap,
        collector: &mut Collector,
        members: &impl Fn(&Cx<F>) -> u16,
    ) -> usize {
        if collector.published == collector.freed {
            return 0;
        }
        let freed = self.damage.whole(self.finish_batch(cx, heap, self.host, members));
        let freed = freed.flatten().unwrap_or(0);
        if freed > 0 {
            collector.freed = collector.published;
        }
        freed
    }

    /// Frees the nodes of the batch that `retirer` left behind, once all members have dropped them; returns
    /// how many, or `None` while some member has not. For a dead host: one survivor calls it until it says a
    /// number. What a host had retired but not yet published is found by the heap's recovery.
    ///
    /// # Errors
    /// [`PodError::Damaged`] if no host publishes such a batch; nothing is freed then.
    pub fn finish_batch<F: Fabric>(
        &self,
        cx: &Cx<F>,
        heap: &Heap,
        retirer: HostId,
        members: impl Fn(&Cx<F>) -> u16,
    ) -> Result<Option<usize>, PodError> {
        let batch = Batch::decode(cx.load(published_word(&self.plan, retirer)));
        let done = Batch::decode(cx.load(freed_word(&self.plan, retirer)));
        if done == batch {
            return Ok(Some(0));
        }
        let have_dropped =
            |host| host == retirer || cx.load(dropped_word(&self.plan, host, retirer)) == batch.number;
        let waiting: Vec<HostId> = self.plan.hosts().filter(|&host| !have_dropped(host)).collect();
        let members = if waiting.is_empty() { 0 } else { members(cx) };
        let wait = waiting.iter().any(|host| members >> host.0 & 1 != 0);
        if wait && !cx.sabotaged("epochs.wait-for-drops") {
            return Ok(None);
        }
        let entries = self.unfinished(cx, heap, retirer, batch)?;
        let from = if done.number == batch.number { done.entries } else { 0 };
        if from > batch.entries {
            return Err(damaged("the freed entries of a batch of nodes", from, batch.entries));
        }
        for (i, entry) in (1..).zip(&entries).skip(from as usize) {
            // Said first: a death in between leaks one node, which recovery finds, and frees none twice.
            cx.store(freed_word(&self.plan, retirer), Batch { number: batch.number, entries: i }.encode());
            heap.free_named(cx, BlockClass::Node, DataAddr::new(entry.offset), entry.len as usize);
        }
        Ok(Some(entries.len() - from as usize))
    }
}

fn drop_nodes<F: Fabric>(cx: &Cx<F>, entries: &[Entry]) {
    for entry in entries {
        cx.invalidate(DataAddr::new(entry.offset), entry.len as usize);
    }
}

/// Sets a word that only this host writes. Not a store, which could become visible after a later one by
/// another worker of this host (a latch does not order them): a summary that fell back would hold up the pod.
fn set<F: Fabric>(cx: &Cx<F>, at: SyncAddr, before: u64, now: u64) {
    let swapped = cx.compare_exchange(at, before, now);
    assert!(swapped.is_ok(), "somebody else writes {at:?}: {swapped:x?}, not {before:x}");
}

fn summary_word(plan: &Plan, host: HostId) -> SyncAddr {
    plan.epoch_lines(host)
}

fn published_word(plan: &Plan, host: HostId) -> SyncAddr {
    plan.epoch_lines(host).line(1)
}

fn freed_word(plan: &Plan, host: HostId) -> SyncAddr {
    plan.epoch_lines(host).line(1).word(1)
}

fn dropped_word(plan: &Plan, host: HostId, retirer: HostId) -> SyncAddr {
    plan.epoch_lines(host).line(2).word(retirer.0.into())
}

fn batch_data(plan: &Plan, host: HostId) -> DataAddr {
    let region = plan.region(Part::RetireBatches);
    let bytes = region.bytes / u64::from(plan.config().hosts);
    plan.data(Part::RetireBatches).byte(bytes * u64::from(host.0))
}

#[cfg(test)]
mod tests;
