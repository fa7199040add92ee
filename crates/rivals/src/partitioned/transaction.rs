//! A transaction of a partitioned pod: its own host's rows by hand, other hosts' rows by message.
//!
//! Invariants:
//! 1. Changes are private until the commit; only the place of a new row exists before.
//! 2. A row of another host travels here once, with its version; what the transaction does to it stays here
//!    until the commit.
//! 3. A refusal undoes the branch of the host that refused, and the transaction is over: whatever it calls
//!    next fails.

use std::ops::ControlFlow;

use liger_fabric::{Cx, Fabric, HostId, WorkerId};

use super::branch::{Branch, Inserted, Visited};
use super::host::PartHost;
use super::message::{Action, Answer, MESSAGE_OVERHEAD, Message, Outcome, ROW_OVERHEAD, Sent, Step, Steps};
use super::rules::{Hold, Protocol};
use liger_engine::protocol::{Flow, HostEngine, InDram, Listed, Named, Relational, TxnCore, Visitor};
use liger_engine::{Access, Announced, At, Conflict, Key, KeyRange, Relation, TableId, TxnError};

/// Where a row is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RowLocation {
    /// Held here, by its number in the branch.
    Own(u32),
    /// Held by another host, by its number in `fetched`.
    Far(u32),
}

/// A row of another host that the transaction has.
pub(super) struct Fetched {
    pub(super) host: HostId,
    pub(super) held: u32,
    table: TableId,
    key: Key,
    exclusive: bool,
    version: u64,
    image: (usize, usize),
}

impl Named for Fetched {
    type Name = (TableId, Key);

    fn name(&self) -> Self::Name {
        (self.table, self.key)
    }
}

/// What the transaction has at another host.
#[derive(Clone, Copy)]
pub(super) struct Far {
    /// Locks there must be given back.
    pub(super) locks: bool,
    /// Until when all leases there run.
    pub(super) until: u64,
}

const NOTHING: Far = Far { locks: false, until: u64::MAX };

/// A running transaction of a partitioned pod.
pub struct PartTxn<'h, F: Fabric> {
    pub(super) cx: &'h Cx<F>,
    pub(super) host: &'h PartHost,
    pub(super) me: WorkerId,
    pub(super) number: u64,
    pub(super) own: Branch,
    /// By host.
    pub(super) far: Vec<Far>,
    pub(super) fetched: Listed<Fetched>,
    bytes: Vec<u8>,
    pub(super) core: TxnCore<RowLocation>,
    /// The earliest time at which it may commit, for what it has at other hosts.
    pub(super) floor: u64,
    /// With a log: up to which epoch it must be durable for the last commit to be.
    pub(super) epoch: u64,
}

impl<'h, F: Fabric> PartTxn<'h, F> {
    pub(super) fn new(cx: &'h Cx<F>, host: &'h PartHost) -> Self {
        Self {
            cx,
            host,
            me: cx.worker(),
            number: 0,
            own: Branch::new(host.who(cx.host(), cx.worker()), host.rules),
            far: vec![NOTHING; usize::from(host.plan.config().hosts)],
            fetched: Listed::default(),
            bytes: Vec::new(),
            core: TxnCore::new(cx, host.history()),
            floor: 0,
            epoch: 0,
        }
    }

    /// Forgets the last transaction and begins another.
    pub(super) fn begin(&mut self) {
        debug_assert!(self.own.held.is_empty() && self.far.iter().all(|far| !far.locks));
        self.number = self.host.next_transaction(self.me);
        self.far.fill(NOTHING);
        self.fetched.clear();
        self.bytes.clear();
        self.core.clear();
        self.floor = 0;
        self.own.clear();
    }

    /// Sends a message without waiting for anything.
    pub(super) fn tell(&self, to: HostId, action: Action) {
        let from = liger_engine::protocol::Requester { worker: self.me, request: 0 };
        self.host.send(self.cx, to, &Message::Request { from, transaction: self.number, action });
    }

    /// Asks hosts, each for one thing, and waits for all answers. If one refuses, the transaction is over.
    pub(super) fn ask(&mut self, actions: Vec<(HostId, Action)>) -> Result<Vec<(HostId, Answer)>, TxnError> {
        let (cx, host) = (self.cx, self.host);
        let (from, count) = (host.begin_request(cx), actions.len());
        for (to, action) in actions {
            // Before anything is known of the answer: it counts even if another host refuses.
            let leases = host.rules.protocol == Protocol::Sundial;
            self.far[usize::from(to.0)].locks |= action.takes_locks(leases);
            host.send(cx, to, &Message::Request { from, transaction: self.number, action });
        }
        let answers = host.await_answers(cx, count);
        for (from, answer) in &answers {
            let error = match answer {
                Answer::Refused(conflict) => TxnError::Conflict(*conflict),
                Answer::NoRoom { needed_bytes } => {
                    TxnError::OutOfMemory { what: "rows of a partition", needed_bytes: *needed_bytes }
                }
                Answer::Unlogged { bytes: 0, .. } => TxnError::LogFailed,
                Answer::Unlogged { bytes, limit_bytes } => {
                    TxnError::TooLarge { bytes: *bytes, limit_bytes: *limit_bytes }
                }
                Answer::Rows { .. } | Answer::Range { .. } | Answer::Done => continue,
            };
            self.far[usize::from(from.0)] = NOTHING;
            self.core.refuse(error);
        }
        self.core.go_on().map(|()| answers)
    }

    /// Calls `visit` for the rows that are in this host's DRAM.
    fn for_each_here(&mut self, rows: &[Announced], visit: impl Fn(InDram<'_>, &Key)) {
        let (cx, host) = (self.cx, self.host);
        let mut latched = None;
        for Announced { table, key, .. } in rows {
            let Ok(relation) = host.catalog.relation(*table) else { continue };
            if relation.check_key(key).is_err() {
                continue;
            }
            if relation.replicated {
                visit(self.copied(*table), key);
                continue;
            }
            let partition = relation.partition_of(key, host.partition_count());
            if host.owner(partition) == host.me {
                let part = host.reach(cx, &mut latched, partition).table(*table);
                visit(InDram { tree: &part.tree, rows: &part.rows }, key);
            }
        }
    }

    fn agree(&mut self, from: HostId, floor: u64, until: u64) {
        let far = &mut self.far[usize::from(from.0)];
        far.until = far.until.min(until);
        self.floor = self.floor.max(floor);
    }

    fn fetched(&mut self, table: TableId, key: &Key) -> Option<usize> {
        self.fetched.number(&(table, *key))
    }

    /// Keeps a row that another host has sent; its number, and whether it was not known before.
    fn keep(
        &mut self,
        host: HostId,
        (table, key): (TableId, &Key),
        sent: &Sent,
        exclusive: bool,
    ) -> (usize, bool) {
        if let Some(i) = self.fetched(table, key) {
            debug_assert!(sent.version == self.fetched[i].version, "a branch sees one version of a row");
            self.fetched[i].exclusive |= exclusive;
            return (i, false);
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&sent.bytes);
        let image = (start, self.bytes.len());
        let (held, version, key) = (sent.held, sent.version, *key);
        let i = self.fetched.add(Fetched { host, held, table, key, exclusive, version, image });
        (i, true)
    }

    /// Takes single rows of other hosts, those of one host with one message.
    fn take_rows(&mut self, steps: Vec<(HostId, Steps)>) -> Result<(), TxnError> {
        let actions = steps.iter().map(|(to, steps)| (*to, Action::Rows(steps.clone()))).collect();
        for (from, answer) in self.ask(actions)? {
            let Answer::Rows { floor, until, outcomes } = answer else { return Err(self.misled()) };
            let Some((_, steps)) = steps.iter().find(|(to, _)| *to == from) else {
                return Err(self.misled());
            };
            self.agree(from, floor, until);
            for ((table, key, step), outcome) in steps.iter().zip(&outcomes) {
                match outcome {
                    Outcome::Row(sent) => {
                        let exclusive = *step == Step::Take(Access::Update);
                        let (_, is_new) = self.keep(from, (*table, key), sent, exclusive);
                        if is_new {
                            self.core.note_read(*table, key, Some(sent.version));
                        }
                    }
                    Outcome::Made(held) => {
                        let sent = Sent { held: *held, version: 0, bytes: Vec::new() };
                        self.keep(from, (*table, key), &sent, true);
                    }
                    Outcome::Absent => self.core.note_read(*table, key, None),
                    Outcome::Marked => {}
                }
            }
        }
        Ok(())
    }

    /// An answer that does not fit its question: whatever that host has is given up.
    fn misled(&mut self) -> TxnError {
        self.core.refuse(Conflict::Moved.into())
    }

    fn take_row(&mut self, to: HostId, table: TableId, key: &Key, step: Step) -> Result<(), TxnError> {
        self.take_rows(vec![(to, vec![(table, *key, step)])])
    }

    fn point_own(&mut self, at: At<'_>, key: &Key, visitor: &mut Visitor<'_>) -> Result<bool, TxnError> {
        let (cx, host, table) = (self.cx, self.host, at.table());
        let mut latched = host.partition(cx, at.partition);
        let part = latched.table(table);
        let before = self.own.held.len();
        let found = self.own.point(cx, part, at.ids(), key, visitor.access())?;
        let Some(i) = found else {
            self.core.note_read(table, key, None);
            return Ok(false);
        };
        let version = self.own.held[i].version;
        if i >= before {
            self.core.note_read(table, key, Some(version));
        }
        let place = (at.relation, RowLocation::Own(i as u32));
        let row = (self.own.bytes(part, i), version);
        Ok(self.core.show(cx, place, key, row, visitor)?.is_some())
    }

    fn point_far(
        &mut self,
        relation: &Relation,
        owner: HostId,
        key: &Key,
        visitor: &mut Visitor<'_>,
    ) -> Result<bool, TxnError> {
        let (table, access) = (relation.id, visitor.access());
        let suits = |txn: &mut Self| {
            let i = txn.fetched(table, key)?;
            (access == Access::Read || txn.fetched[i].exclusive).then_some(i)
        };
        if suits(self).is_none() {
            self.take_row(owner, table, key, Step::Take(access))?;
        }
        let Some(i) = suits(self) else { return Ok(false) };
        Ok(self.show_far(relation, i, visitor)?.is_some())
    }

    fn show_far(
        &mut self,
        relation: &Relation,
        i: usize,
        visitor: &mut Visitor<'_>,
    ) -> Result<Option<ControlFlow<()>>, TxnError> {
        let row = &self.fetched[i];
        let base = &self.bytes[row.image.0..row.image.1];
        self.core.show(
            self.cx,
            (relation, RowLocation::Far(i as u32)),
            &row.key,
            (base, row.version),
            visitor,
        )
    }

    fn range_own(&mut self, at: At<'_>, range: &KeyRange, visitor: &mut Visitor<'_>) -> Flow {
        let (cx, host, access) = (self.cx, self.host, visitor.access());
        let mut latched = host.partition(cx, at.partition);
        let part = latched.table(at.table());
        let mut found = Vec::new();
        let recorded = self.core.is_recorded();
        let core = &mut self.core;
        let visited = self.own.range(cx, part, at.ids(), range, access, |held, i, bytes| {
            if recorded && !held.is_new {
                found.push((held.key, held.version));
            }
            let place = (at.relation, RowLocation::Own(i as u32));
            let shown = core.show(cx, place, &held.key, (bytes, held.version), visitor)?;
            Ok(shown.unwrap_or(ControlFlow::Continue(())))
        })?;
        drop(latched);
        let (seen, flow) = match visited {
            Visited::All => (*range, ControlFlow::Continue(())),
            Visited::UpTo(key) => (KeyRange { low: range.low, high: key.next() }, ControlFlow::Break(())),
        };
        self.core.note_range(at.table(), seen, found);
        Ok(flow)
    }

    fn range_far(&mut self, at: At<'_>, range: &KeyRange, visitor: &mut Visitor<'_>) -> Flow {
        let (partition, table) = at.ids();
        let (owner, access) = (self.host.owner(partition), visitor.access());
        let mut rest = *range;
        loop {
            let mut answers =
                self.ask(vec![(owner, Action::Range { table, partition, range: rest, access })])?;
            let Some((_, Answer::Range { floor, until, complete, rows })) = answers.pop() else {
                return Err(self.misled());
            };
            self.agree(owner, floor, until);
            let kept: Vec<usize> = rows
                .iter()
                .map(|(key, sent)| self.keep(owner, (table, key), sent, access == Access::Update).0)
                .collect();
            let mut found = Vec::new();
            for (i, (key, sent)) in kept.into_iter().zip(&rows) {
                if self.core.is_recorded() && !self.core.is_own_insert(RowLocation::Far(i as u32)) {
                    found.push((*key, sent.version));
                }
                if self.show_far(at.relation, i, visitor)?.is_some_and(|flow| flow.is_break()) {
                    self.core.note_range(table, KeyRange { low: rest.low, high: key.next() }, found);
                    return Ok(ControlFlow::Break(()));
                }
            }
            let Some((last, _)) = rows.last().filter(|_| !complete) else {
                self.core.note_range(table, rest, found);
                return Ok(ControlFlow::Continue(()));
            };
            let after = last.next().expect("no row has the greatest key");
            self.core.note_range(table, KeyRange { low: rest.low, high: Some(after) }, found);
            rest.low = after;
        }
    }

    fn insert_own(&mut self, at: At<'_>, key: &Key, bytes: &[u8]) -> Result<bool, TxnError> {
        let (cx, host, table) = (self.cx, self.host, at.table());
        let mut latched = host.partition(cx, at.partition);
        let part = latched.table(table);
        let before = self.own.held.len();
        let inserted = self.own.insert(cx, part, at.ids(), key)?;
        match inserted {
            Inserted::Made(i) => {
                self.core.work.begin_insert(RowLocation::Own(i as u32), table, key, Some(bytes));
                Ok(true)
            }
            Inserted::Taken(i) => {
                if self.core.work.revive(RowLocation::Own(i as u32), bytes) {
                    return Ok(true);
                }
                if i >= before {
                    self.core.note_read(table, key, Some(self.own.held[i].version));
                }
                Ok(false)
            }
        }
    }

    fn insert_far(
        &mut self,
        relation: &Relation,
        owner: HostId,
        key: &Key,
        bytes: &[u8],
    ) -> Result<bool, TxnError> {
        if let Some(i) = self.fetched(relation.id, key) {
            return Ok(self.core.work.revive(RowLocation::Far(i as u32), bytes));
        }
        self.take_row(owner, relation.id, key, Step::Insert)?;
        let i = self.fetched(relation.id, key).ok_or(Conflict::Moved)?;
        let made = self.fetched[i].exclusive;
        if made {
            self.core.work.begin_insert(RowLocation::Far(i as u32), relation.id, key, Some(bytes));
        }
        Ok(made)
    }
}

impl<'h, F: Fabric> Relational for PartTxn<'h, F> {
    type Fabric = F;
    type Host = PartHost;
    type Location = RowLocation;

    fn host<'a>(&self) -> &'a PartHost
    where
        Self: 'a,
    {
        self.host
    }

    fn core(&mut self) -> (&Cx<F>, &mut TxnCore<RowLocation>) {
        (self.cx, &mut self.core)
    }

    fn announce_rows(&mut self, rows: &[Announced]) {
        // First all leaves, then all rows: the second round finds the leaves arrived.
        self.for_each_here(rows, |here, key| here.tree.prefetch(key.words()));
        self.for_each_here(rows, |here, key| here.prefetch_row(key));
        let (host, most) = (self.host, self.host.lanes.max_message() - MESSAGE_OVERHEAD);
        let mut steps: Vec<(HostId, Steps)> = Vec::new();
        let mut room = vec![most; self.far.len()];
        for Announced { table, key, access, .. } in rows {
            let Ok(relation) = host.catalog.relation(*table) else { continue };
            if relation.replicated || relation.check_key(key).is_err() {
                continue;
            }
            let owner = host.owner(relation.partition_of(key, host.partition_count()));
            if owner == host.me || self.fetched(*table, key).is_some() {
                continue;
            }
            // What does not fit into the answer comes one by one.
            let room = &mut room[usize::from(owner.0)];
            let Some(left) = room.checked_sub(relation.row_len + ROW_OVERHEAD) else { continue };
            *room = left;
            let at = steps.iter().position(|(to, _)| *to == owner).unwrap_or_else(|| {
                steps.push((owner, Vec::new()));
                steps.len() - 1
            });
            let step = (*table, *key, Step::Take(*access));
            if !steps[at].1.iter().any(|known| (known.0, known.1) == (step.0, step.1)) {
                steps[at].1.push(step);
            }
        }
        if !steps.is_empty() && self.core.go_on().is_ok() {
            // A refusal is heard by the next call.
            let _ = self.take_rows(steps);
        }
    }

    fn point_in(&mut self, at: At<'_>, key: &Key, visitor: &mut Visitor<'_>) -> Result<bool, TxnError> {
        self.core.go_on()?;
        let owner = self.host.owner(at.partition);
        if owner == self.host.me {
            self.point_own(at, key, visitor)
        } else {
            self.point_far(at.relation, owner, key, visitor)
        }
    }

    fn range_in(&mut self, at: At<'_>, range: &KeyRange, visitor: &mut Visitor<'_>) -> Flow {
        self.core.go_on()?;
        if self.host.owner(at.partition) == self.host.me {
            self.range_own(at, range, visitor)
        } else {
            self.range_far(at, range, visitor)
        }
    }

    fn insert_in(&mut self, at: At<'_>, key: &Key, bytes: &[u8]) -> Result<bool, TxnError> {
        self.core.go_on()?;
        let owner = self.host.owner(at.partition);
        if owner == self.host.me {
            self.insert_own(at, key, bytes)
        } else {
            self.insert_far(at.relation, owner, key, bytes)
        }
    }

    fn delete_visited(&mut self, at: At<'_>, key: &Key) -> Result<(), TxnError> {
        let change = self.core.work.visited;
        debug_assert!(self.core.work.changes[change].key == *key && !self.core.work.changes[change].deleted);
        match self.core.work.changes[change].place {
            RowLocation::Own(i) => {
                let (cx, host) = (self.cx, self.host);
                let mut latched = host.partition(cx, at.partition);
                let part = latched.table(at.table());
                self.own.mark_deleted(cx, part, i as usize)?;
                debug_assert_eq!(self.own.held[i as usize].hold, Hold::Exclusive);
            }
            RowLocation::Far(_) => {
                self.take_row(self.host.owner(at.partition), at.table(), key, Step::Delete)?
            }
        }
        self.core.work.changes[change].deleted = true;
        Ok(())
    }
}
