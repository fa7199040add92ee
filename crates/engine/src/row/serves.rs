//! Rows and the pod: what the door for access methods asks of them when other hosts send mail, come, go or
//! die (method/).

use std::collections::BTreeSet;

use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::owner::Owner;
use liger_pod::plan::PartitionId;

use super::message::{Answer, Message};
use super::rows::{Rows, is_rows};
use crate::instance::count;
use crate::method::{Dead, Opens, Pending, Poll, Reached, Replies, Serves};
use crate::recovery::RecoveryError;

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &["serves.keep-what-comes"];

impl Serves for Rows {
    fn handle<F: Fabric>(&self, cx: &Cx<F>, from: Owner, message: &[u8], replies: &mut Replies) -> bool {
        let Some(message) = Message::decode(message) else { return false };
        match message {
            Message::Request { from: requester, table, partition, action } => {
                if !self.catalog.relation(table).is_ok_and(is_rows) {
                    return false;
                }
                let answer = match self.owns(partition) {
                    true => self.grant(cx, (from.host, from.incarnation), table, partition, &action),
                    // The sender will hear who owns it.
                    false => Answer::Conflict,
                };
                replies.push(Message::Reply { to: requester, answer }.bytes());
            }
            Message::Remove { table, partition, key, which } => {
                if !self.catalog.relation(table).is_ok_and(is_rows) || !self.holds(partition) {
                    return false;
                }
                self.remove_for(cx, from.host, (partition, table), &key, which);
            }
            Message::Evict => _ = self.move_out_to_budget(cx),
            Message::Reply { to, answer } => return self.deliver(cx, to, answer),
        }
        true
    }

    fn housekeep<F: Fabric>(&self, cx: &Cx<F>) {
        self.forget_removed(cx);
        self.tidy_old_versions(cx);
        self.move_out_ahead(cx);
        self.scrub(cx);
    }

    fn faults<F: Fabric>(&self, cx: &Cx<F>) -> Vec<String> {
        let mut faults = self.restore_failures(cx);
        faults.extend(self.damaged_rows(cx));
        faults
    }

    fn make<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId) {
        self.make_partition(cx, partition);
    }

    fn resolve<F: Fabric>(
        &self,
        cx: &Cx<F>,
        dead: &Dead,
        partition: PartitionId,
        is_own: bool,
        poll: Poll<'_>,
    ) -> Result<(), RecoveryError> {
        match is_own {
            true => self.sweep_own(cx, partition, dead, poll)?,
            false => self.sweep_orphan(cx, partition, dead, poll)?,
        }
        self.keep_from_now(cx);
        Ok(())
    }

    fn lies_in<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        is_theirs: &dyn Fn(Option<(HostId, u16)>) -> bool,
    ) -> Result<bool, RecoveryError> {
        Ok(self.has_memory_of(cx, partition, is_theirs)?)
    }

    fn attach<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        first: u64,
        poll: Poll<'_>,
    ) -> Result<(), RecoveryError> {
        self.attach_shared(cx, partition, first, poll)
    }

    fn reach<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partitions: &BTreeSet<PartitionId>,
        in_use: &mut BTreeSet<u64>,
        then: Reached<'_>,
    ) -> Result<(), RecoveryError> {
        self.reach_old_blocks(cx, in_use);
        self.copies.lock(cx).reach(in_use);
        let mut latched = Vec::new();
        for &partition in partitions {
            for relation in self.relations() {
                let part = self.part(cx, (partition, relation.id));
                self.reach_part(cx, &part, in_use)?;
                latched.push(part);
            }
        }
        then(in_use)
    }

    fn open<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId, opens: Opens) -> Result<(), RecoveryError> {
        debug_assert!(self.holds(partition) && self.owners.is_closed(partition), "it is about to open");
        self.finish_indexes(cx, partition)?;
        if !cx.sabotaged("serves.keep-what-comes") {
            self.keep_what_comes(cx, partition);
        }
        if opens == Opens::First {
            self.expect_first(cx, partition);
            count(&self.moves.taken_over, 1);
        }
        Ok(())
    }

    fn withdraw<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        poll: Poll<'_>,
    ) -> Result<bool, RecoveryError> {
        Ok(self.withdraw_shared(cx, partition, poll)?)
    }

    fn withdraw_ahead<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        poll: Poll<'_>,
    ) -> Result<(), RecoveryError> {
        debug_assert!(self.owns(partition), "it is open");
        for relation in self.relations() {
            self.withdraw_rows(cx, (partition, relation), poll)?;
        }
        Ok(())
    }

    fn has_moved<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId) {
        count(&self.moves.handed_over, u64::from(self.holds(partition)));
        self.leaving.lock(cx).forget(partition);
        self.expect_none(cx, partition);
    }

    fn tell_again<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId, to: Owner, what: Pending) {
        self.give_away_again(cx, partition, to, what == Pending::Asked);
    }
}
