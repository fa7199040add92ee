//! How a partition changes hands, whoever had it: its next owner closes it, waits until nobody uses it as
//! somebody else's, makes itself its owner in the pod's word, and opens it; all others follow.
//!
//! Invariants:
//! 1. What others see changes in single steps, each of which is right whether or not the next one follows.
//! 2. Nobody uses a partition before its owner's word says so; on its next owner's host, nobody begins to use
//!    it until everybody who had used it as another host's has ended.
//! 3. Who follows a partition to a new owner has no transaction left that may have asked the one before to
//!    make a row.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::membership::{HostState, Slot};
use liger_pod::owner::Owner;
use liger_pod::plan::PartitionId;

use super::Host;
use super::detector::FailureDetector;
use crate::instance::events::{HandOverStep, PodEvent};
use crate::method::{Method, Opens, Pending};
use crate::recovery::RecoveryError;

impl<M: Method> Host<M> {
    /// From now on no transaction of this host begins to use these partitions.
    pub(super) fn close(&self, partitions: &BTreeSet<PartitionId>) {
        debug_assert!(!partitions.iter().any(|p| self.owns(*p)), "what is this host's stays open");
        partitions.iter().for_each(|&partition| self.owners.close(partition));
    }

    /// Waits until every transaction of this host that may have begun before partitions were closed has
    /// ended; `poll` is called meanwhile.
    ///
    /// # Errors
    /// If the pod has ruled this host out.
    pub(super) fn drain<F: Fabric>(&self, cx: &Cx<F>, mut poll: impl FnMut()) -> Result<(), RecoveryError> {
        let round = self.transactions.close_round();
        let ended = loop {
            if self.transactions.have_ended(round) {
                break Ok(());
            }
            self.held_up.taking.store(true, Ordering::Relaxed);
            if let Err(gone) = self.check_still_here() {
                break Err(gone);
            }
            poll();
            cx.pause();
        };
        self.held_up.taking.store(false, Ordering::Relaxed);
        ended
    }

    /// Makes closed partitions this host's, in the pod's word, and then calls `then` with all the shared
    /// memory that `users` use, which they are among: messages about those wait, for they might free some of
    /// it meanwhile.
    ///
    /// # Errors
    /// If an index is damaged: nothing has changed.
    pub(super) fn publish<F: Fabric>(
        &self,
        cx: &Cx<F>,
        me: Owner,
        partitions: &BTreeSet<PartitionId>,
        users: &BTreeSet<PartitionId>,
        mut then: impl FnMut(&mut BTreeSet<u64>) -> Result<(), RecoveryError>,
    ) -> Result<(), RecoveryError> {
        debug_assert!(partitions.is_subset(users), "what is published is used");
        self.method.reach(cx, users, &mut BTreeSet::new(), &mut |in_use| {
            for &partition in partitions {
                debug_assert!(
                    self.owners.is_closed(partition),
                    "{partition:?} is closed before it has an owner"
                );
                self.owners.set_closed(partition, me);
                let is_mine = me.publish(cx, &self.plan, partition);
                assert!(is_mine, "partition {partition} has two next owners");
            }
            then(in_use)
        })
    }

    /// Opens the partitions that are this host's by now; how many.
    ///
    /// # Errors
    /// If one cannot be: it stays closed, and may be opened later.
    pub(super) fn open_published<F: Fabric>(&self, cx: &Cx<F>, me: Owner) -> Result<usize, RecoveryError> {
        let mut opened = 0;
        let has_come =
            |p: &PartitionId| self.holds(*p) && self.owners.is_closed(*p) && !self.owners.is_given(*p);
        for partition in self.plan.partitions().filter(has_come) {
            debug_assert_eq!(self.owners.of(partition).host, me.host, "it is this host's in the pod's word");
            self.method.open(cx, partition, Opens::First)?;
            self.owners.set(partition, me);
            debug_assert!(self.owns(partition), "it is this host's, and open");
            for what in [Pending::Asked, Pending::Told] {
                self.method.tell_again(cx, partition, me, what);
            }
            opened += 1;
        }
        Ok(opened)
    }

    /// Follows partitions of dead hosts to their next owners, those that were handed over too, and hosts to
    /// their next incarnations.
    pub(super) fn follow<F: Fabric>(&self, cx: &Cx<F>, detector: &mut FailureDetector) -> usize {
        let mut worked = 0;
        for host in self.plan.hosts().filter(|host| self.owners.is_down(*host)) {
            let Ok(slot) = Slot::load(cx, &self.plan, host) else { continue };
            let serves = matches!(slot.state, HostState::Joining | HostState::Alive | HostState::Leaving);
            if serves && !self.owners.is_fenced(host, slot.incarnation) {
                self.owners.is_back(host);
                worked += 1;
            }
        }
        // Not before every transaction has ended that may have asked a dead host to make a row: who asks the
        // successor for the same row must find that what was made before is gone.
        let (may_follow, mut is_held_up) = (self.transactions.have_ended(detector.round), false);
        let mut followed = BTreeMap::<HostId, usize>::new();
        let mut left = BTreeMap::<HostId, usize>::new();
        for partition in self.plan.partitions() {
            let next = self.owners.next(cx, &self.plan, partition);
            let Some(successor) = next.filter(|successor| successor.host != self.me) else { continue };
            if !self.owners.is_orphan(partition) {
                if self.is_found_dead(cx, self.owners.of(partition)) {
                    // It has been taken over, and this host has not dealt with the death yet.
                    detector.restless = true;
                    continue;
                }
                let before = self.owner(partition);
                let (told, host) =
                    if before == self.me { (&mut left, successor.host) } else { (&mut followed, before) };
                *told.entry(host).or_default() += 1;
                self.follow_handed_over(cx, partition, successor);
                worked += 1;
                continue;
            }
            debug_assert!(!self.holds(partition), "nobody takes over from who lives");
            detector.restless = true;
            is_held_up |= !may_follow;
            if may_follow {
                *followed.entry(self.owner(partition)).or_default() += 1;
                self.method.tell_again(cx, partition, successor, Pending::Asked);
                self.owners.set(partition, successor);
                self.method.tell_again(cx, partition, successor, Pending::Told);
                worked += 1;
            }
        }
        self.held_up.following.store(is_held_up, Ordering::Relaxed);
        for (host, partitions) in followed {
            self.announce(&PodEvent::Followed { host, partitions });
        }
        for (host, partitions) in left {
            self.announce(&PodEvent::HandOver { step: HandOverStep::Left, host, partitions });
        }
        worked
    }

    /// True if the pod has found a host dead in this incarnation, or is about to. Asked behind a look at a
    /// partition's word: who was not dead by then had handed the partition over, for nobody takes over
    /// before.
    fn is_found_dead<F: Fabric>(&self, cx: &Cx<F>, owner: Owner) -> bool {
        // A word that makes no sense is told by whoever watches.
        let Ok(slot) = Slot::load(cx, &self.plan, owner.host) else { return true };
        let is_dead = matches!(slot.state, HostState::Suspect | HostState::Fenced | HostState::Recovered);
        slot.incarnation == owner.incarnation && is_dead
    }

    /// Follows a partition whose owner has handed it over: nothing of it was held by anybody then, so nothing
    /// that was asked for there is left undone.
    fn follow_handed_over<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId, next: Owner) {
        let (before, was_mine) = (self.owner(partition), self.holds(partition));
        debug_assert!(
            before != next.host && was_mine == self.owners.is_given(partition),
            "it was given away"
        );
        self.method.has_moved(cx, partition);
        self.owners.set(partition, next);
        if was_mine {
            // Its rows are of no use here any more.
            self.method.make(cx, partition);
        }
    }

    pub(super) fn check_still_here(&self) -> Result<(), RecoveryError> {
        if self.is_fenced() { Err(RecoveryError::Fenced) } else { Ok(()) }
    }
}
