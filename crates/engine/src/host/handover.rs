//! A partition goes from one living host to another (docs/protocols/handover.md): its owner brings all of it
//! into images and logs, releases it, and the next owner does what a host does that starts again.
//!
//! ```text
//! wanted ---> a checkpoint has it, or none of this host need have it
//!     ---> its idle rows leave shared memory ---> closed; its transactions end; the other rows leave
//!     ---> all logs hold the epoch of then: released ---> the next owner opens image and logs: its own
//! ```
//!
//! Invariants:
//! 1. A partition that is released is in images and logs, all of it, and nothing of it is in shared memory.
//!    So nobody holds anything of it, and who follows it waits for nobody.
//! 2. Whoever changes the owner's word swaps the very value that it has acted upon.
//! 3. Its image stays until the next owner's checkpoint has it (recovery/checkpointer/needed.rs), whosever it
//!    is. No checkpoint that has it is under way when a partition is released: the image is whole.
//! 4. What takes too long is given up: the partition is open again where it was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::membership::{HostState, Slot};
use liger_pod::owner::{Owner, Ownership};
use liger_pod::plan::PartitionId;
use liger_store::bwtree::TreeError;

use super::Host;
use super::detector::{Arrival, FailureDetector, Takeover};
use crate::instance::events::{HandOverStep, PodEvent};
use crate::log::HostLog;
use crate::log::record::first_of;
use crate::method::{Method, Opens};
use crate::recovery::directory::read_whole;
use crate::recovery::manifest::{HOST_MANIFEST, HostManifest};
use crate::recovery::{Rebuilding, RecoveryError};

/// Names of the steps that a mutation test can leave out of this file.
pub(super) const SABOTAGE_STEPS: &[&str] =
    &["handover.no-checkpoint-under-way", "handover.drain", "handover.await-logs", "handover.withdraw"];

/// In so many parts of a lease everything that keeps a partition closed has to end, or it stays; each time
/// that it did stay there is twice the time, up to so many leases.
const PATIENCE_PARTS: u64 = 2;
const PATIENCE_LEASES: u64 = 4;
/// So often idle rows leave shared memory before a partition is closed: each time those that were used since.
const PASSES_AHEAD: u32 = 2;
/// So many leases the next owner has to read what the partition is made from.
const READING_LEASES: u64 = 8;
/// Who was refused asks again after such a part of a lease, which doubles each time, up to so many leases.
const ASKING_PARTS: u64 = 4;
const ASKING_LEASES: u64 = 8;
/// So many leases after another host has gone, a host asks for partitions that were not made for it: who has
/// just died may be back soon.
const CALM_LEASES: u64 = 8;

/// What a host remembers of partitions that change hands while their owners live.
#[derive(Default)]
pub(super) struct HandOver {
    /// To whom partitions are to go, which, and the epoch in which the checkpoint before that may begin.
    preparing: Option<(HostId, BTreeSet<PartitionId>, u64)>,
    /// When partitions were released.
    released: BTreeMap<PartitionId, u64>,
    /// How often in a row partitions stayed because somebody did not let go of them.
    stayed: u32,
    asking: Asking,
}

/// Partitions that this host has asked for.
#[derive(Default)]
struct Asking {
    asked: BTreeSet<PartitionId>,
    refusals: u32,
    again_at_ns: u64,
    /// The hosts that live, and when one of them was found to do so no more.
    alive: Vec<HostId>,
    lost_ns: Option<u64>,
}

/// Why a partition stays where it is for now.
enum Stays {
    /// It is tried again at once.
    Busy,
    /// It is not to go for now.
    Failed(RecoveryError),
}

impl From<RecoveryError> for Stays {
    fn from(why: RecoveryError) -> Self {
        Stays::Failed(why)
    }
}

/// What the pod says of each partition that has an owner.
type Words = Vec<(PartitionId, Ownership)>;

impl<M: Method> Host<M> {
    /// One turn of giving and taking partitions. Long if something is given or taken. Returns how much it
    /// did.
    pub(super) fn hand_over<F: Fabric>(&self, cx: &Cx<F>, detector: &mut FailureDetector) -> usize {
        let (Some(log), Some(takeover)) = (&self.log, detector.takeover.clone()) else { return 0 };
        debug_assert!(detector.taking.is_empty(), "no takeover is under way");
        let load = |partition| Ownership::load(cx, &self.plan, partition).map(|it| (partition, it));
        let words: Words = self.plan.partitions().filter_map(load).collect();
        detector.restless |= words.iter().any(|(_, word)| !word.is_calm());
        let mut worked = self.take_back(cx, detector, &words);
        // What a takeover has begun it ends by itself: until then no other partition is opened.
        if !self.left_out(cx, detector, &[]).is_empty() {
            return worked;
        }
        // Some may have come to this host, and not been opened yet.
        let _ = self.open_published(cx, self.me_as_owner(detector));
        worked += self.give(cx, detector, (log, &takeover), &words);
        worked += self.take(cx, detector, (log, &takeover), &words);
        self.ask(cx, detector, &words);
        worked
    }

    fn me_as_owner(&self, detector: &FailureDetector) -> Owner {
        let Slot { host, incarnation, .. } = detector.me();
        Owner { host, incarnation }
    }

    fn is_alive<F: Fabric>(&self, cx: &Cx<F>, host: HostId) -> bool {
        Slot::load(cx, &self.plan, host).is_ok_and(|slot| slot.state == HostState::Alive)
    }

    /// True if a checkpoint is under way that may have partitions that are this host's since an epoch.
    fn is_in_checkpoint<F: Fabric>(&self, cx: &Cx<F>, since: u64) -> bool {
        let begun = self.checkpointing.load(Ordering::SeqCst);
        begun >= since.max(1) && !cx.sabotaged("handover.no-checkpoint-under-way")
    }

    fn tell_step(&self, step: HandOverStep, host: HostId, partitions: usize) {
        self.announce(&PodEvent::HandOver { step, host, partitions });
    }

    /// Gives partitions of this host away that somebody is to have.
    fn give<F: Fabric>(
        &self,
        cx: &Cx<F>,
        detector: &mut FailureDetector,
        (log, takeover): (&HostLog, &Takeover),
        words: &Words,
    ) -> usize {
        let me = self.me_as_owner(detector);
        let is_due = |partition: PartitionId, word: &Ownership| {
            word.owner == me && word.is_wanted() && self.owns(partition)
        };
        let due: Words = words.iter().filter(|(partition, word)| is_due(*partition, word)).copied().collect();
        let Some(next) = due.first().and_then(|(_, word)| word.next) else {
            detector.handover.preparing = None;
            return 0;
        };
        let mut its: Words = due.into_iter().filter(|(_, word)| word.next == Some(next)).collect();
        // What has come here lately is in another host's image, and in the logs behind it, which are kept: a
        // checkpoint would have to make all of its rows here first.
        let since = its.iter().filter_map(|(partition, _)| detector.unkept_since(*partition)).min();
        if since.is_some() {
            its.retain(|(partition, _)| detector.unkept_since(*partition).is_some());
        }
        let partitions: BTreeSet<PartitionId> = its.iter().map(|(partition, _)| *partition).collect();
        if next == self.me || !self.is_alive(cx, next) {
            self.refuse(cx, &its);
            return its.len();
        }
        let is_ready = match since {
            Some(since) => !self.is_in_checkpoint(cx, since),
            None => self.is_prepared(cx, detector, log, (next, &partitions)),
        };
        if !is_ready {
            return 0;
        }
        if let Err(why) = self.withdraw_ahead(cx, detector, &partitions) {
            self.refuse(cx, &its);
            self.tell_step(HandOverStep::Failed(why.to_string()), next, partitions.len());
            return its.len();
        }
        partitions.iter().for_each(|&partition| self.owners.give(partition));
        // Locks of who dies meanwhile are resolved there as in partitions that are open.
        detector.taking = partitions.iter().map(|&partition| (partition, true)).collect();
        self.tell_step(HandOverStep::Closed, next, partitions.len());
        let emptied = self.empty(cx, detector, (log, takeover), (next, &partitions));
        detector.taking.clear();
        let stayed = matches!(emptied, Err(Stays::Failed(RecoveryError::StaysInUse)));
        detector.handover.stayed = if stayed { detector.handover.stayed + 1 } else { 0 };
        match emptied {
            Ok(epoch) => self.release(cx, detector, &its, epoch),
            Err(_) if self.is_fenced() => {}
            Err(Stays::Busy) => self.reopen_given(cx, &partitions),
            Err(Stays::Failed(why)) => {
                detector.handover.preparing = None;
                self.refuse(cx, &its);
                self.reopen_given(cx, &partitions);
                self.tell_step(HandOverStep::Failed(why.to_string()), next, partitions.len());
            }
        }
        its.len()
    }

    /// True if a checkpoint has partitions that are to go to a host, so that the logs behind it are short.
    fn is_prepared<F: Fabric>(
        &self,
        cx: &Cx<F>,
        detector: &mut FailureDetector,
        log: &HostLog,
        (next, partitions): (HostId, &BTreeSet<PartitionId>),
    ) -> bool {
        let prepared = detector.handover.preparing.take().filter(|it| it.0 == next && it.1 == *partitions);
        let begin = prepared.map_or_else(|| log.clock().now(cx) + 1, |(_, _, begin)| begin);
        detector.handover.preparing = Some((next, partitions.clone(), begin));
        if self.checkpointed() >= begin && !self.is_in_checkpoint(cx, 0) {
            return true;
        }
        log.want_checkpoint(cx, begin);
        detector.urgent = true;
        false
    }

    /// Takes rows out of shared memory that nobody uses at the moment, while partitions are open still: those
    /// that are left keep them closed for less time.
    fn withdraw_ahead<F: Fabric>(
        &self,
        cx: &Cx<F>,
        detector: &mut FailureDetector,
        partitions: &BTreeSet<PartitionId>,
    ) -> Result<(), RecoveryError> {
        for _ in 0..PASSES_AHEAD {
            for &partition in partitions {
                debug_assert!(self.owns(partition), "it is open");
                match self.method.withdraw_ahead(cx, partition, &mut || self.poll(cx, detector)) {
                    // There may be room when others have given some back.
                    Ok(()) | Err(RecoveryError::Index(TreeError::OutOfMemory(_))) => {}
                    Err(damaged) => return Err(damaged),
                }
            }
        }
        Ok(())
    }

    /// Says of partitions that are wanted of this host that they stay.
    fn refuse<F: Fabric>(&self, cx: &Cx<F>, its: &Words) {
        for &(partition, word) in its {
            debug_assert!(word.is_wanted() && self.holds(partition), "{word:?} is asked of this host");
            // If it has changed, the next turn sees to it.
            word.swap(cx, &self.plan, partition, Ownership { next: None, ..word });
        }
    }

    /// Brings all of these partitions, which are closed, into images and logs; the epoch up to which logs
    /// have them.
    fn empty<F: Fabric>(
        &self,
        cx: &Cx<F>,
        detector: &mut FailureDetector,
        (log, takeover): (&HostLog, &Takeover),
        (next, partitions): (HostId, &BTreeSet<PartitionId>),
    ) -> Result<u64, Stays> {
        let since = partitions.iter().map(|it| detector.unkept_since(*it).unwrap_or(0)).min();
        if self.is_in_checkpoint(cx, since.unwrap_or(0)) {
            // One that has begun since may lack them, or be half way through them.
            return Err(Stays::Busy);
        }
        let directory = takeover.files.look(self.me)?;
        let manifest = HostManifest::decode(self.me, &read_whole(cx, &directory, HOST_MANIFEST)?)?;
        let has: BTreeSet<PartitionId> = manifest.images().iter().map(|image| image.partition).collect();
        if partitions.iter().any(|it| !has.contains(it) && detector.unkept_since(*it).is_none()) {
            return Err(Stays::Busy);
        }
        debug_assert!(partitions.iter().all(|it| self.owners.is_given(*it)), "nobody begins to use them");
        let until_ns = self.patience_ends_ns(cx, detector.handover.stayed);
        if !cx.sabotaged("handover.drain") {
            self.await_users(cx, detector, (next, until_ns))?;
        }
        if !cx.sabotaged("handover.withdraw") {
            self.within(cx, detector, (next, until_ns), |cx| {
                let mut all = true;
                for &partition in partitions {
                    all &= self.method.withdraw(cx, partition, &mut || _ = self.attend(cx))?;
                }
                Ok(all)
            })?;
        }
        if cx.sabotaged("handover.await-logs") {
            return Ok(log.pod_durable(cx, self.members(cx)));
        }
        Ok(self.await_logs(cx, detector, log)?)
    }

    /// When partitions that are closed for a hand-over have been closed for long enough, if they have stayed
    /// so often.
    fn patience_ends_ns<F: Fabric>(&self, cx: &Cx<F>, stayed: u32) -> u64 {
        let lease_ns = self.plan.config().lease_ns;
        cx.now_ns() + ((lease_ns / PATIENCE_PARTS) << stayed.min(16)).min(PATIENCE_LEASES * lease_ns)
    }

    /// Waits until every transaction of this host that may use partitions that were closed has ended.
    fn await_users<F: Fabric>(
        &self,
        cx: &Cx<F>,
        detector: &mut FailureDetector,
        limits: (HostId, u64),
    ) -> Result<(), RecoveryError> {
        let round = self.transactions.close_round();
        self.within(cx, detector, limits, |_| Ok(self.transactions.have_ended(round)))
    }

    /// Waits until something is so, while the next owner lives, and not for too long.
    fn within<F: Fabric>(
        &self,
        cx: &Cx<F>,
        detector: &mut FailureDetector,
        limits: (HostId, u64),
        is_so: impl Fn(&Cx<F>) -> Result<bool, RecoveryError>,
    ) -> Result<(), RecoveryError> {
        let ended = self.wait_within(cx, detector, limits, is_so);
        self.held_up.taking.store(false, Ordering::Relaxed);
        ended
    }

    fn wait_within<F: Fabric>(
        &self,
        cx: &Cx<F>,
        detector: &mut FailureDetector,
        (next, until_ns): (HostId, u64),
        is_so: impl Fn(&Cx<F>) -> Result<bool, RecoveryError>,
    ) -> Result<(), RecoveryError> {
        let half_ns = until_ns.saturating_sub(cx.now_ns()) / 2;
        loop {
            match is_so(cx) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                // There may be room when others have given some back.
                Err(RecoveryError::Index(TreeError::OutOfMemory(_))) => {}
                Err(damaged) => return Err(damaged),
            }
            self.check_still_here()?;
            let left_ns = until_ns.saturating_sub(cx.now_ns());
            if !self.is_alive(cx, next) {
                return Err(RecoveryError::NextOwnerGone { host: next });
            }
            if left_ns == 0 {
                return Err(RecoveryError::StaysInUse);
            }
            // Those that wait for others had better end.
            self.held_up.taking.store(left_ns < half_ns, Ordering::Relaxed);
            self.poll(cx, detector);
            cx.pause();
        }
    }

    /// The partitions are in images and logs up to this epoch: their next owner may have them.
    fn release<F: Fabric>(&self, cx: &Cx<F>, detector: &mut FailureDetector, its: &Words, epoch: u64) {
        let mut released = 0;
        for &(partition, word) in its {
            debug_assert!(self.owners.is_given(partition), "it is closed, and empty");
            let to = Ownership { released: Some(epoch as u32), ..word };
            // If it has changed, the next turn opens it.
            if word.swap(cx, &self.plan, partition, to) {
                detector.handover.released.insert(partition, cx.now_ns());
                released += 1;
            }
        }
        if let Some(next) = its.first().and_then(|(_, word)| word.next).filter(|_| released > 0) {
            self.tell_step(HandOverStep::Released, next, released);
        }
    }

    /// Takes partitions back that nobody comes for, and opens what stays.
    fn take_back<F: Fabric>(&self, cx: &Cx<F>, detector: &mut FailureDetector, words: &Words) -> usize {
        let me = self.me_as_owner(detector);
        let longest_ns = READING_LEASES * self.plan.config().lease_ns;
        let mut stay = BTreeSet::new();
        for &(partition, word) in words {
            if word.owner != me || !self.owners.is_given(partition) {
                continue;
            }
            let Some(_) = word.released else {
                stay.insert(partition);
                continue;
            };
            let since_ns = detector.handover.released.get(&partition).copied().unwrap_or_default();
            let comes = word.next.is_some_and(|next| self.is_alive(cx, next));
            if comes && cx.now_ns() - since_ns < longest_ns {
                continue;
            }
            let back = Ownership { next: None, released: None, ..word };
            if word.swap(cx, &self.plan, partition, back) {
                stay.insert(partition);
                let why = "nobody came for it".to_owned();
                self.tell_step(HandOverStep::Failed(why), word.next.unwrap_or(self.me), 1);
            }
        }
        self.reopen_given(cx, &stay);
        detector.handover.released.retain(|partition, _| self.owners.is_given(*partition));
        stay.len()
    }

    /// Opens partitions that were closed to be given away. One that cannot be, for want of memory, is tried
    /// again by the next turn.
    fn reopen_given<F: Fabric>(&self, cx: &Cx<F>, partitions: &BTreeSet<PartitionId>) {
        for &partition in partitions {
            debug_assert!(self.holds(partition), "it has stayed this host's");
            if self.method.open(cx, partition, Opens::Again).is_ok() {
                self.owners.reopen(partition);
            }
        }
    }

    /// Takes partitions that were released for this host.
    fn take<F: Fabric>(
        &self,
        cx: &Cx<F>,
        detector: &mut FailureDetector,
        (log, takeover): (&HostLog, &Takeover),
        words: &Words,
    ) -> usize {
        let is_for_me = |partition: PartitionId, word: &Ownership| {
            word.released.is_some() && word.next == Some(self.me) && !self.holds(partition)
        };
        let its: Words =
            words.iter().filter(|(partition, word)| is_for_me(*partition, word)).copied().collect();
        let Some(from) = its.first().map(|(_, word)| word.owner.host) else { return 0 };
        let taken = self.take_released(cx, detector, (log, takeover), &its);
        match taken {
            Ok(0) => {}
            Ok(partitions) => self.tell_step(HandOverStep::Arrived, from, partitions),
            Err(_) if self.is_fenced() => {}
            Err(why) => {
                for &(partition, word) in its.iter().filter(|(partition, _)| !self.holds(*partition)) {
                    // Its owner opens it then.
                    word.swap(cx, &self.plan, partition, Ownership { next: None, ..word });
                    self.stay_away(cx, partition);
                }
                self.tell_step(HandOverStep::Failed(why.to_string()), from, its.len());
            }
        }
        its.len()
    }

    /// A partition does not become this host's after all.
    fn stay_away<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId) {
        debug_assert!(!self.holds(partition), "it is somebody else's");
        self.method.make(cx, partition);
        if self.owners.is_closed(partition) {
            self.owners.reopen(partition);
        }
    }

    /// Makes released partitions this host's; how many are. If it fails, those that are not stay closed.
    fn take_released<F: Fabric>(
        &self,
        cx: &Cx<F>,
        detector: &mut FailureDetector,
        (log, takeover): (&HostLog, &Takeover),
        its: &Words,
    ) -> Result<usize, RecoveryError> {
        let partitions: BTreeSet<PartitionId> = its.iter().map(|(partition, _)| *partition).collect();
        let now = log.clock().now(cx);
        let epochs = its.iter().filter_map(|(_, word)| word.released).map(|epoch| whole_epoch(now, epoch));
        let upto = epochs.max().expect("all of them are released");
        debug_assert!(
            upto <= now && !partitions.iter().any(|it| self.holds(*it)),
            "they are others', up to {upto}"
        );
        partitions.iter().for_each(|&partition| self.method.make(cx, partition));
        let (files, identity) = (&takeover.files, &takeover.identity);
        let rebuilding =
            Rebuilding { host: self, files, identity, partitions: &partitions, upto, reaches: &|_| () };
        let image_bytes = rebuilding.run(cx, || self.poll(cx, detector))?;
        self.check_still_here()?;
        self.close(&partitions);
        self.await_users(cx, detector, (self.me, self.patience_ends_ns(cx, 0)))?;
        for &partition in &partitions {
            // Above the version of anything that was ever removed there.
            self.method.attach(cx, partition, first_of(log.clock().now(cx) + 1), &mut || ())?;
        }
        debug_assert!(partitions.iter().all(|it| self.owners.is_closed(*it)), "nobody here uses them");
        let (me, since) = (self.me_as_owner(detector), log.clock().now(cx));
        let mut taken = 0;
        for &(partition, word) in its {
            let mine = Ownership { owner: me, next: None, released: None };
            if word.swap(cx, &self.plan, partition, mine) {
                self.owners.set_closed(partition, me);
                taken += 1;
            } else {
                self.stay_away(cx, partition);
            }
        }
        if taken > 0 {
            log.expect_images(cx, image_bytes);
            self.open_published(cx, me)?;
            // A checkpoint that begins in a later epoch than this one began when they were this host's.
            let from = its.iter().map(|(_, word)| word.owner.host);
            let arrival = Arrival { since, kept_from: log.clock().now(cx) + 1 };
            let mine = partitions.iter().filter(|it| self.holds(**it));
            detector.await_keeping(from, mine.map(|partition| (*partition, arrival)));
        }
        Ok(taken)
    }

    /// From now on this host asks for partitions of others if it has less than its share of them; or it does
    /// not any more.
    pub fn ask_for_partitions(&self, asks: bool) {
        self.asks.store(asks, Ordering::Release);
    }

    /// Asks for a partition on behalf of another host, or of this one; false if it is that one's already, or
    /// somebody else is to have it.
    pub fn move_partition<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId, to: HostId) -> bool {
        Ownership::want(cx, &self.plan, partition, to)
    }

    /// Whose each partition of the pod is; none if one of them is to go to another host, or is on its way.
    pub fn settled_owners<F: Fabric>(&self, cx: &Cx<F>) -> Option<Vec<Option<Ownership>>> {
        let partitions = || self.plan.partitions();
        let owners: Vec<_> = partitions().map(|it| Ownership::load(cx, &self.plan, it)).collect();
        let is_calm = owners.iter().flatten().all(|it| it.is_calm());
        (is_calm && !partitions().any(|it| self.owners.is_closed(it))).then_some(owners)
    }

    /// Asks for partitions of hosts that have more than their share, as long as this one has less: for those
    /// that were made for it at once, for others if no host has gone for a while.
    fn ask<F: Fabric>(&self, cx: &Cx<F>, detector: &mut FailureDetector, words: &Words) {
        detector.handover.asking.look(cx, self, words);
        if !self.asks.load(Ordering::Acquire) || cx.now_ns() < detector.handover.asking.again_at_ns {
            return;
        }
        let alive: Vec<HostId> = self.plan.hosts().filter(|host| self.is_alive(cx, *host)).collect();
        let asking = &mut detector.handover.asking;
        let before = std::mem::replace(&mut asking.alive, alive.clone());
        if before.iter().any(|host| !alive.contains(host)) {
            asking.lost_ns = Some(cx.now_ns());
        }
        let calm_ns = CALM_LEASES * self.plan.config().lease_ns;
        let is_calm = asking.lost_ns.is_none_or(|lost_ns| cx.now_ns() - lost_ns >= calm_ns);
        let share = usize::from(self.partition_count()) / alive.len().max(1);
        // Who is to have a partition counts as if it had it.
        let mut has = BTreeMap::<HostId, usize>::new();
        for (_, word) in words {
            *has.entry(word.next.unwrap_or(word.owner.host)).or_default() += 1;
        }
        let mut others = words.clone();
        others.sort_by_key(|(partition, _)| (self.home(*partition) != self.me, *partition));
        for (partition, word) in others {
            if self.home(partition) != self.me && !is_calm {
                continue;
            }
            let of = word.owner.host;
            let [mine, its] = [self.me, of].map(|host| has.get(&host).copied().unwrap_or_default());
            if mine >= share || of == self.me || its <= share || !alive.contains(&of) {
                continue;
            }
            if Ownership::want(cx, &self.plan, partition, self.me) {
                detector.handover.asking.asked.insert(partition);
                *has.entry(self.me).or_default() += 1;
                *has.entry(of).or_default() -= 1;
            }
        }
    }
}

impl Asking {
    /// Looks what has become of what was asked for.
    fn look<F: Fabric, M: Method>(&mut self, cx: &Cx<F>, host: &Host<M>, words: &Words) {
        let lease_ns = host.plan.config().lease_ns;
        for (partition, word) in words {
            if word.next == Some(host.me) || !self.asked.remove(partition) {
                continue;
            }
            if host.holds(*partition) {
                self.refusals = 0;
                continue;
            }
            let rest_ns = (lease_ns / ASKING_PARTS) << self.refusals.min(16);
            self.again_at_ns = cx.now_ns() + rest_ns.min(ASKING_LEASES * lease_ns);
            self.refusals += 1;
        }
    }
}

/// The latest epoch up to now with this lower half.
fn whole_epoch(now: u64, lower: u32) -> u64 {
    let epoch = now - u64::from((now as u32).wrapping_sub(lower));
    debug_assert!(epoch as u32 == lower && now - epoch < 1 << 32, "epoch {epoch} by {lower} in {now}");
    epoch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_known_by_its_lower_half() {
        for (now, epoch) in [(5, 5), (5, 0), (1 << 32, u64::from(u32::MAX)), ((7 << 32) + 3, (7 << 32) - 9)] {
            assert_eq!(whole_epoch(now, epoch as u32), epoch);
        }
    }
}
