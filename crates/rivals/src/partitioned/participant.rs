//! What a worker of another host has here, and what it asks for.
//!
//! Invariants:
//! 1. A worker runs one transaction at a time, so there is one branch for each worker of each other host.
//! 2. The branch ends with the message that says how (commit or abort). One that holds no lock needs none: it
//!    is forgotten when the worker's next transaction asks for something.
//! 3. Two workers of this host may handle messages of one sender side by side. What belongs to a transaction
//!    while the one before has not ended here waits for that end.
//! 4. A branch that was refused something is undone at once; its sender knows, and says no more about it.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use liger_fabric::{Cx, Fabric, HostId, LatchGuard, WorkerId};
use liger_pod::plan::PartitionId;

use super::branch::{Branch, Inserted, Visited};
use super::host::{PartHost, count};
use super::message::{Action, Answer, Effect, MESSAGE_OVERHEAD, Message, Outcome, ROW_OVERHEAD, Sent, Step};
use super::part::Partition;
use super::rules::{Rules, Who};
use crate::sundial::Ending;
use liger_engine::protocol::{HostEngine, Requester};
use liger_engine::{Access, Conflict, Key, KeyRange, TableId, TxnError};

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &["partitioned.wait-for-end"];

/// What a worker of another host has here.
pub(super) struct Participant {
    /// Number of its transaction.
    transaction: u64,
    branch: Branch,
    effects: Vec<Effect>,
    /// Requests of its next transaction.
    early: VecDeque<(Requester, u64, Action)>,
}

impl Participant {
    pub(super) fn new(who: Who, rules: Rules) -> Self {
        Self { transaction: 0, branch: Branch::new(who, rules), effects: Vec::new(), early: VecDeque::new() }
    }
}

impl PartHost {
    /// Does what another host's worker asks, and answers.
    pub(super) fn take_request<F: Fabric>(
        &self,
        cx: &Cx<F>,
        from: HostId,
        requester: Requester,
        transaction: u64,
        action: Action,
    ) {
        let Some(place) = self.participant(from, requester.worker) else {
            return count(&self.traffic.messages_dropped, 1);
        };
        let mut participant = place.lock(cx);
        if transaction < participant.transaction {
            // The end of one that had no lock here, overtaken by the next.
            debug_assert!(!action.is_answered() || matches!(action, Action::Commit { .. }));
            if action.is_answered() {
                self.send(cx, from, &Message::Reply { to: requester, answer: Answer::Done });
            }
            return;
        }
        let next = transaction > participant.transaction;
        if next && participant.branch.has_locks() && !cx.sabotaged("partitioned.wait-for-end") {
            participant.early.push_back((requester, transaction, action));
            return;
        }
        self.do_request(cx, &mut participant, from, requester, transaction, action);
        while !participant.branch.has_locks()
            && let Some((requester, transaction, action)) = participant.early.pop_front()
        {
            self.do_request(cx, &mut participant, from, requester, transaction, action);
        }
    }

    fn do_request<F: Fabric>(
        &self,
        cx: &Cx<F>,
        participant: &mut Participant,
        from: HostId,
        requester: Requester,
        transaction: u64,
        action: Action,
    ) {
        if transaction > participant.transaction {
            participant.branch.clear();
            participant.effects.clear();
            participant.transaction = transaction;
        }
        let answered = action.is_answered();
        let done = self.fulfil(cx, participant, (from, requester.worker), action);
        let answer = done.unwrap_or_else(|error| {
            participant.branch.end(cx, self, Ending::Aborted { seen: 0 });
            participant.effects.clear();
            match error {
                TxnError::Conflict(conflict) => Answer::Refused(conflict),
                TxnError::OutOfMemory { needed_bytes, .. } => Answer::NoRoom { needed_bytes },
                TxnError::TooLarge { bytes, limit_bytes } => Answer::Unlogged { bytes, limit_bytes },
                TxnError::LogFailed | TxnError::LogFull { .. } => {
                    Answer::Unlogged { bytes: 0, limit_bytes: 0 }
                }
                other => unreachable!("a participant's step: {other}"),
            }
        });
        if answered {
            self.send(cx, from, &Message::Reply { to: requester, answer });
        }
    }

    fn fulfil<F: Fabric>(
        &self,
        cx: &Cx<F>,
        participant: &mut Participant,
        by: (HostId, WorkerId),
        action: Action,
    ) -> Result<Answer, TxnError> {
        match action {
            Action::Rows(steps) => {
                let branch = &mut participant.branch;
                let take = |(table, key, step): &(TableId, Key, Step)| {
                    self.take_step(cx, branch, *table, key, *step)
                };
                let outcomes = steps.iter().map(take).collect::<Result<_, TxnError>>()?;
                let Branch { floor, until, .. } = participant.branch;
                Ok(Answer::Rows { floor, until, outcomes })
            }
            Action::Range { table, partition, range, access } => {
                self.take_range(cx, &mut participant.branch, (partition, table), &range, access)
            }
            Action::Changes(mut effects) => {
                participant.effects.append(&mut effects);
                Ok(Answer::Done)
            }
            Action::Prepare { time, mut effects } => {
                participant.effects.append(&mut effects);
                if !participant.branch.validate(cx, self, time) {
                    return Err(Conflict::Validation.into());
                }
                if let Some(log) = &self.log {
                    let Participant { transaction, branch, effects, .. } = participant;
                    log.prepared(cx, (by.0, by.1, *transaction), time, branch, effects)?;
                }
                Ok(Answer::Done)
            }
            Action::Commit { time, .. } => {
                let mut latched = None;
                for Effect { held, pieces } in participant.effects.drain(..) {
                    let i = held as usize;
                    let Some(row) = participant.branch.held.get(i).copied() else { continue };
                    // A deleted row that was inserted again.
                    participant.branch.held[i].deleted = false;
                    let part = self.reach(cx, &mut latched, row.partition).table(row.table);
                    cx.spend(liger_fabric::Work::DramLine, 2);
                    participant.branch.install(part, i, time, |bytes| {
                        for (offset, piece) in &pieces {
                            let offset = usize::from(*offset);
                            bytes[offset..offset + piece.len()].copy_from_slice(piece);
                        }
                    });
                }
                drop(latched);
                participant.branch.end(cx, self, Ending::Committed { time });
                Ok(Answer::Done)
            }
            Action::Abort { seen } => {
                participant.effects.clear();
                participant.branch.end(cx, self, Ending::Aborted { seen });
                Ok(Answer::Done)
            }
        }
    }

    /// A row as the requester gets it.
    fn sent<F: Fabric>(
        &self,
        cx: &Cx<F>,
        branch: &Branch,
        latched: &mut LatchGuard<'_, Partition>,
        i: usize,
    ) -> Sent {
        let held = &branch.held[i];
        let part = latched.table(held.table);
        let bytes = branch.bytes(part, i).to_vec();
        cx.spend(liger_fabric::Work::DramLine, bytes.len().div_ceil(64) as u32);
        Sent { held: i as u32, version: held.version, bytes }
    }

    fn take_step<F: Fabric>(
        &self,
        cx: &Cx<F>,
        branch: &mut Branch,
        table: TableId,
        key: &Key,
        step: Step,
    ) -> Result<Outcome, TxnError> {
        let relation = self.catalog.relation(table)?;
        relation.check_key(key)?;
        let partition = relation.partition_of(key, self.partition_count());
        let at = (partition, table);
        let mut latched = self.partition(cx, partition);
        Ok(match step {
            Step::Take(access) => match branch.point(cx, latched.table(table), at, key, access)? {
                Some(i) => Outcome::Row(self.sent(cx, branch, &mut latched, i)),
                None => Outcome::Absent,
            },
            Step::Insert => match branch.insert(cx, latched.table(table), at, key)? {
                Inserted::Made(i) => Outcome::Made(i as u32),
                Inserted::Taken(i) => Outcome::Row(self.sent(cx, branch, &mut latched, i)),
            },
            Step::Delete => {
                let part = latched.table(table);
                let found = branch.point(cx, part, at, key, Access::Update)?;
                branch.mark_deleted(cx, part, found.ok_or(Conflict::Moved)?)?;
                Outcome::Marked
            }
        })
    }

    fn take_range<F: Fabric>(
        &self,
        cx: &Cx<F>,
        branch: &mut Branch,
        (partition, table): (PartitionId, TableId),
        range: &KeyRange,
        access: Access,
    ) -> Result<Answer, TxnError> {
        let relation = self.catalog.relation(table)?;
        relation.check_key(&range.low)?;
        let room = self.lanes.max_message().saturating_sub(MESSAGE_OVERHEAD);
        let most = (room / (relation.row_len + ROW_OVERHEAD)).max(1);
        let mut rows: Vec<(Key, Sent)> = Vec::new();
        let mut latched = self.partition(cx, partition);
        let part = latched.table(table);
        let visited = branch.range(cx, part, (partition, table), range, access, |held, i, bytes| {
            let sent = Sent { held: i as u32, version: held.version, bytes: bytes.to_vec() };
            cx.spend(liger_fabric::Work::DramLine, bytes.len().div_ceil(64) as u32);
            rows.push((held.key, sent));
            Ok(if rows.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        let complete = visited == Visited::All;
        let Branch { floor, until, .. } = *branch;
        Ok(Answer::Range { floor, until, complete, rows })
    }
}
