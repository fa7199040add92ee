//! A successor's work: a dead host's partitions get a new owner while the pod goes on
//! (docs/protocols/takeover.md).
//!
//! Invariants:
//! 1. All of it may be done again: by this host after a failure, or by another successor after this one's
//!    death.
//! 2. A row that is in shared memory with a live lock is what its block says; every other row is what the
//!    logs say.
//!
//! How a partition changes hands: ownership.rs.

use std::collections::{BTreeMap, BTreeSet};

use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::membership::{HostState, Slot};
use liger_pod::owner::{Owner, Ownership};
use liger_pod::plan::PartitionId;
use liger_pod::watch;

use super::Host;
use super::detector::{Arrival, FailureDetector, Takeover, Task};
use crate::instance::events::{PodEvent, TakeoverStep};
use crate::log::HostLog;
use crate::log::record::first_of;
use crate::method::{Dead, Method};
use crate::recovery::{Rebuilding, RecoveryError};

/// Names of the steps that a mutation test can leave out of this file.
pub(super) const SABOTAGE_STEPS: &[&str] = &[
    "takeover.sweep-orphans",
    "takeover.await-logs",
    "takeover.keep-files-of-returned",
    "takeover.rebuild-after-death",
    "takeover.entangled-together",
    "takeover.claim",
];

impl<M: Method> Host<M> {
    /// Takes over from the dead hosts whose successor this one is, if there are any.
    pub(super) fn take_over_dead<F: Fabric>(
        &self,
        cx: &Cx<F>,
        detector: &mut FailureDetector,
        successor_of: &[Slot],
    ) -> usize {
        let Some(takeover) = detector.takeover.clone() else { return 0 };
        debug_assert!(detector.taking.is_empty(), "one takeover at a time");
        let is_new = |slot: &&Slot| !detector.taken_over.contains(*slot);
        let mut dead: Vec<Slot> = successor_of.iter().filter(is_new).copied().collect();
        if dead.is_empty() {
            return 0;
        }
        if let Err(failure) = self.add_entangled(cx, detector, &mut dead) {
            self.note_failed(cx, detector, (Task::TakeOver, &dead), &failure);
            return 1;
        }
        let hosts: Vec<HostId> = dead.iter().map(|slot| slot.host).collect();
        self.announce(&PodEvent::TakeoverBegins { dead: hosts.clone() });
        let taken = self.take_over(cx, detector, &takeover, &dead);
        let failure = taken.as_ref().err().map(ToString::to_string);
        self.announce(&PodEvent::TakeoverEnds { dead: hosts, partitions: detector.taking.len(), failure });
        match taken {
            Ok(came) => {
                detector.taken_over.extend(&dead);
                if !came.is_empty() {
                    detector.await_keeping(dead.iter().map(|slot| slot.host), came.into_iter());
                }
                self.forget_failed(cx, detector, (Task::TakeOver, &dead));
            }
            Err(_) if self.is_fenced() => {}
            Err(failure) => self.note_failed(cx, detector, (Task::TakeOver, &dead), &failure),
        }
        detector.taking.clear();
        1
    }

    /// Lets dead hosts come back that are taken over and whose locks are resolved. Their files are needed
    /// until a checkpoint of this host has the partitions, and stay until then, whoever of the two dies
    /// meanwhile (recovery/checkpointer/needed.rs).
    pub(super) fn release_dead<F: Fabric>(&self, cx: &Cx<F>, detector: &mut FailureDetector) -> usize {
        let Some(log) = &self.log else { return 0 };
        if let Some(unkept) = detector.unkept.take_if(|it| self.checkpointed() >= it.epoch()) {
            self.announce(&PodEvent::TakeoverIsKept { dead: unkept.from.into_iter().collect() });
        }
        if let Some(unkept) = &mut detector.unkept {
            // Those that have gone on are their next owner's to keep.
            unkept.partitions.retain(|partition, _| self.holds(*partition));
            detector.unkept.take_if(|it| it.partitions.is_empty());
        }
        let before = detector.taken_over.len();
        detector.taken_over.retain(|slot| {
            if watch::is_resolved(cx, &self.plan, *slot) != Ok(true) {
                return true;
            }
            log.note_dead(cx, slot.host);
            if cx.sabotaged("takeover.keep-files-of-returned") {
                log.begin_of_dead(cx, slot.host)
                    .into_iter()
                    .for_each(|b| log.end_begin_of_dead(cx, slot.host, b));
            }
            watch::release(cx, &self.plan, *slot);
            self.announce(&PodEvent::Released { host: slot.host });
            false
        });
        before - detector.taken_over.len()
    }

    /// The dead hosts that are neither these nor taken over.
    pub(super) fn left_out<F: Fabric>(
        &self,
        cx: &Cx<F>,
        detector: &FailureDetector,
        dead: &[Slot],
    ) -> Vec<Slot> {
        let mut others = watch::fenced(cx, &self.plan).unwrap_or_default();
        let is_known = |other: &Slot| dead.contains(other) || detector.taken_over.contains(other);
        others.retain(|other| other.state == HostState::Fenced && !is_known(other));
        others
    }

    /// All of it; returns the partitions, and when they came.
    fn take_over<F: Fabric>(
        &self,
        cx: &Cx<F>,
        detector: &mut FailureDetector,
        takeover: &Takeover,
        dead: &[Slot],
    ) -> Result<BTreeMap<PartitionId, Arrival>, RecoveryError> {
        let log = self.log.as_ref().expect("who takes over keeps a log");
        let reaches = |step| self.announce_step(dead, step);
        let me = Owner { host: self.me, incarnation: detector.me().incarnation };
        // What an earlier try has made this host's already.
        let again = self.open_published(cx, me)? > 0;
        let orphans = self.claim(cx, dead);
        detector.taking = orphans.iter().map(|&partition| (partition, false)).collect();
        if !cx.sabotaged("takeover.sweep-orphans") {
            // Also of those who died before: the last owner may not have lived to resolve their locks.
            for slot in watch::fenced(cx, &self.plan).unwrap_or_default() {
                let dead =
                    Dead::read(cx, &self.instance, slot, Some(takeover.logs()), &mut || _ = self.attend(cx))?;
                for &partition in &orphans {
                    self.resolve_orphan(cx, partition, &dead)?;
                }
            }
        }
        loop {
            let resolved = detector.resolved_deaths();
            let image_bytes = self.rebuild(cx, detector, takeover, (&orphans, &reaches))?;
            self.check_still_here()?;
            self.close(&orphans);
            self.drain(cx, || self.poll(cx, detector))?;
            reaches(TakeoverStep::TransactionsEnded);
            // Who died meanwhile may have deleted rows here after what was read: they are gone from the
            // shared index, and only its log says so.
            if detector.resolved_deaths() == resolved || cx.sabotaged("takeover.rebuild-after-death") {
                log.expect_images(cx, image_bytes);
                break;
            }
        }
        for (partition, attached) in &mut detector.taking {
            // Above the version of anything that was ever removed there.
            let first = first_of(log.clock().now(cx) + 1);
            // Nobody else's death is resolved meanwhile: this partition is joined in part.
            self.method.attach(cx, *partition, first, &mut || _ = self.attend(cx))?;
            *attached = true;
        }
        reaches(TakeoverStep::RowsJoined);
        for slot in dead {
            self.await_drops(cx, detector, *slot)?;
        }
        // First partitions, and then the shared memory of their dead owners: so what lies in a dead host's
        // chunks is always reached from partitions of dead hosts.
        let mut users = orphans.clone();
        if again {
            users.extend(self.own_partitions());
        }
        let before = log.clock().now(cx);
        self.publish(cx, me, &orphans, &users, |in_use| {
            for slot in dead {
                self.epochs.adopt(cx, &self.heap, slot.host, slot.incarnation, in_use)?;
            }
            Ok(())
        })?;
        self.open_published(cx, me)?;
        debug_assert!(orphans.iter().all(|p| self.owns(*p)), "all are this host's now, and open");
        // A checkpoint that begins in a later epoch than this one began when they were this host's.
        let kept_from = log.clock().now(cx) + 1;
        // Those of an earlier try may have been in any checkpoint since.
        let since = |partition| if orphans.contains(&partition) { before } else { 0 };
        let arrival = |partition| (partition, Arrival { since: since(partition), kept_from });
        Ok(users.into_iter().map(arrival).collect())
    }

    /// Makes partitions anew from images and logs; the bytes of the images.
    fn rebuild<F: Fabric>(
        &self,
        cx: &Cx<F>,
        detector: &mut FailureDetector,
        takeover: &Takeover,
        (orphans, reaches): (&BTreeSet<PartitionId>, &dyn Fn(TakeoverStep)),
    ) -> Result<u64, RecoveryError> {
        if orphans.is_empty() {
            return Ok(0);
        }
        let log = self.log.as_ref().expect("who takes over keeps a log");
        let upto = self.await_logs(cx, detector, log)?;
        reaches(TakeoverStep::LogsHold);
        orphans.iter().for_each(|&partition| self.method.make(cx, partition));
        let (files, identity) = (&takeover.files, &takeover.identity);
        let rebuilding = Rebuilding { host: self, files, identity, partitions: orphans, upto, reaches };
        rebuilding.run(cx, || self.poll(cx, detector))
    }

    fn announce_step(&self, dead: &[Slot], step: TakeoverStep) {
        debug_assert!(!dead.is_empty(), "a takeover is from somebody");
        let dead = dead.iter().map(|slot| slot.host).collect();
        self.announce(&PodEvent::TakeoverReaches { dead, step });
    }

    /// The partitions of dead hosts, which go to no next owner of theirs any more.
    fn claim<F: Fabric>(&self, cx: &Cx<F>, dead: &[Slot]) -> BTreeSet<PartitionId> {
        let mut orphans = self.orphans(cx, dead);
        if !cx.sabotaged("takeover.claim") {
            orphans.retain(|&partition| {
                let Some(owner) = Owner::load(cx, &self.plan, partition) else { return true };
                let said = Ownership::calm(cx, &self.plan, partition, owner);
                said.is_none_or(|said| is_left(Some(said.owner), self.home(partition), dead))
            });
        }
        orphans
    }

    /// The partitions of dead hosts.
    fn orphans<F: Fabric>(&self, cx: &Cx<F>, dead: &[Slot]) -> BTreeSet<PartitionId> {
        let owned = |partition: &PartitionId| {
            is_left(Owner::load(cx, &self.plan, *partition), self.home(*partition), dead)
        };
        self.plan.partitions().filter(owned).collect()
    }

    /// What goes on while this host takes over.
    pub(super) fn poll<F: Fabric>(&self, cx: &Cx<F>, detector: &mut FailureDetector) {
        self.look_around(cx, detector);
        self.attend(cx);
    }

    /// Ends the epoch, and waits until the logs of all hosts hold it: then they hold every record that
    /// changed a row which was not shared when the host died.
    pub(super) fn await_logs<F: Fabric>(
        &self,
        cx: &Cx<F>,
        detector: &mut FailureDetector,
        log: &HostLog,
    ) -> Result<u64, RecoveryError> {
        let epoch = log.clock().now(cx);
        if cx.sabotaged("takeover.await-logs") {
            return Ok(log.pod_durable(cx, self.members(cx)).min(epoch));
        }
        while !log.is_durable(cx, epoch, || self.members(cx))? {
            self.check_still_here()?;
            self.poll(cx, detector);
            cx.pause();
        }
        Ok(epoch)
    }

    /// Waits until all caches are free of the nodes that a dead host was about to free.
    fn await_drops<F: Fabric>(
        &self,
        cx: &Cx<F>,
        detector: &mut FailureDetector,
        slot: Slot,
    ) -> Result<(), RecoveryError> {
        while self.epochs.finish_batch(cx, &self.heap, slot.host, |cx| self.readers(cx))?.is_none() {
            self.check_still_here()?;
            self.poll(cx, detector);
            cx.pause();
        }
        Ok(())
    }

    /// Adds those dead hosts to `dead` that must be taken over together with them, because partitions of one
    /// lie in memory of another: it was a successor, and died when it had made them its own and not yet that.
    ///
    /// # Errors
    /// If one of them cannot be taken over yet, or an index is damaged.
    fn add_entangled<F: Fabric>(
        &self,
        cx: &Cx<F>,
        detector: &FailureDetector,
        dead: &mut Vec<Slot>,
    ) -> Result<(), RecoveryError> {
        let mut others = self.left_out(cx, detector, dead);
        while !cx.sabotaged("takeover.entangled-together") {
            let mut entangled = None;
            for (index, other) in others.iter().enumerate() {
                if self.lie_in(cx, dead, &[*other])? || self.lie_in(cx, &[*other], dead)? {
                    entangled = Some(index);
                    break;
                }
            }
            let Some(index) = entangled else { break };
            let other = others.swap_remove(index);
            if !detector.closed.contains(&other) {
                return Err(RecoveryError::Entangled { host: other.host });
            }
            dead.push(other);
        }
        Ok(())
    }

    /// True if something of the partitions that these dead hosts own lies in shared memory of those.
    fn lie_in<F: Fabric>(&self, cx: &Cx<F>, owners: &[Slot], memory: &[Slot]) -> Result<bool, RecoveryError> {
        let is_theirs = |owner: Option<(HostId, u16)>| {
            owner.is_some_and(|owner| memory.iter().any(|it| (it.host, it.incarnation) == owner))
        };
        for partition in self.orphans(cx, owners) {
            if self.method.lies_in(cx, partition, &is_theirs)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// True if dead hosts leave a partition of this owner to their successor; without one, it is its home's. An
/// owner of an earlier incarnation than the dead one had come back and not lived to say so.
fn is_left(owner: Option<Owner>, home: HostId, dead: &[Slot]) -> bool {
    dead.iter().any(|slot| match owner {
        Some(owner) => owner.host == slot.host && owner.incarnation <= slot.incarnation,
        None => home == slot.host,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_host_leaves_what_this_or_an_earlier_life_owned() {
        let [home, other] = [HostId(0), HostId(1)];
        let dead = [Slot { state: HostState::Fenced, host: other, incarnation: 5 }];
        let of = |host, incarnation| is_left(Some(Owner { host, incarnation }), home, &dead);
        assert!(
            of(other, 5) && of(other, 4),
            "it died before it had said that the partition is its own again"
        );
        assert!(!of(other, 6), "it lives again");
        assert!(!of(home, 5) && !is_left(None, home, &dead));
        assert!(is_left(None, other, &dead), "nobody has come yet");
    }
}
