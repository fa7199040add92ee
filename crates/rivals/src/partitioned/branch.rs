//! A transaction's part at one host: the rows it has there, and the steps on them. The host that runs the
//! transaction has such a branch for its own partitions, and every host that is asked has one for those who
//! ask (host.rs).
//!
//! Invariants:
//! 1. A row is held once: asking again, or for more, finds and strengthens what is there.
//! 2. Each step runs under one hold of the partition's latch.
//! 3. A lease is compared with the row whenever the row is looked at again: a transaction sees one version.
//! 4. Rows under locks stay where they are. A leased row may go, and another take its place in the slab:
//!    `removals` tells, and then its key is searched again.

use std::ops::ControlFlow;

use liger_fabric::{Cx, Fabric, LatchGuard, Work};
use liger_pod::plan::PartitionId;
use liger_store::local::RowFlags;

use super::host::PartHost;
use super::part::{PartTable, Partition, RowId};
use super::rules::{Hold, Rules, Who};
use crate::sundial::Ending;
use liger_engine::protocol::{Listed, Named};
use liger_engine::{Access, Conflict, Key, KeyRange, TableId, TxnError};

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &[
    "partitioned.hold-beyond-range",
    "partitioned.hold-behind-absent",
    "partitioned.hold-behind-insert",
    "partitioned.validate",
    "partitioned.search-removed",
    "partitioned.miss-what-was-read",
];

/// A row that a transaction has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) table: TableId,
    pub(super) partition: PartitionId,
    pub(super) key: Key,
    row: RowId,
    pub(super) hold: Hold,
    /// The row's version, when it was first seen.
    pub(super) version: u64,
    /// What the gap's stamp was, if the transaction depends on the gap.
    gap: Option<u64>,
    /// Until when the lease ran when the row was last seen.
    until: u64,
    removals: u64,
    /// The transaction changes what is in the row's gap.
    opens_gap: bool,
    /// The transaction has made it.
    pub(super) is_new: bool,
    /// It goes when the transaction commits.
    pub(super) deleted: bool,
}

impl Named for Held {
    type Name = (PartitionId, TableId, Key);

    fn name(&self) -> Self::Name {
        (self.partition, self.table, self.key)
    }
}

/// What a transaction has at one host.
pub(super) struct Branch {
    who: Who,
    rules: Rules,
    /// By partition, table and key.
    pub(super) held: Listed<Held>,
    /// The earliest time at which the transaction may commit, for what it has here.
    pub(super) floor: u64,
    /// Until when all leases ran for certain when their rows were last seen.
    pub(super) until: u64,
}

/// Where a visit of a range has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Visited {
    /// At its end, which is held if gaps are protected.
    All,
    /// Where the visitor wanted, behind this key.
    UpTo(Key),
}

/// What came of an insert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Inserted {
    /// The row's place is made.
    Made(usize),
    /// The key is taken, by this row.
    Taken(usize),
}

impl Branch {
    pub(super) fn new(who: Who, rules: Rules) -> Self {
        Self { who, rules, held: Listed::default(), floor: 0, until: u64::MAX }
    }

    /// Forgets everything, of a transaction that has no lock here.
    pub(super) fn clear(&mut self) {
        self.held.clear();
        (self.floor, self.until) = (0, u64::MAX);
    }

    fn find(&mut self, (partition, table): (PartitionId, TableId), key: &Key) -> Option<usize> {
        self.held.number(&(partition, table, *key))
    }

    /// Adds a row; its number.
    fn add(&mut self, held: Held) -> usize {
        self.held.add(held)
    }

    /// Takes a row, or more of it; `gap`: and depends on the gap below.
    fn hold<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        part: &mut PartTable,
        (partition, table): (PartitionId, TableId),
        (key, row): (&Key, RowId),
        (access, gap): (Access, bool),
    ) -> Result<usize, Conflict> {
        cx.spend(Work::Row, 1);
        let rows = &mut part.rows;
        let i = match self.find((partition, table), key) {
            None => {
                let hold = self.rules.take(cx, rows, row, self.who, access)?;
                let (version, until) = (rows.version(row), rows.shared(row));
                self.add(Held {
                    table,
                    partition,
                    key: *key,
                    row,
                    hold,
                    version,
                    gap: None,
                    until,
                    removals: part.removals,
                    opens_gap: false,
                    is_new: false,
                    deleted: false,
                })
            }
            Some(i) => {
                let held = &mut self.held[i];
                if held.hold == Hold::Leased {
                    let gap_changed = held.gap.is_some_and(|stamp| rows.stamp(row) != stamp);
                    if rows.version(row) != held.version || gap_changed {
                        return Err(Conflict::Validation);
                    }
                    (held.row, held.removals, held.until) = (row, part.removals, rows.shared(row));
                }
                if access == Access::Update && held.hold != Hold::Exclusive {
                    self.rules.strengthen(cx, rows, row, self.who)?;
                    held.hold = Hold::Exclusive;
                }
                i
            }
        };
        let held = &mut self.held[i];
        if gap && held.gap.is_none() {
            held.gap = Some(part.rows.stamp(row));
        }
        let floor = match held.hold {
            Hold::Leased => held.version.max(held.gap.unwrap_or(0)),
            Hold::Shared | Hold::Exclusive => self.rules.floor(&part.rows, row),
        };
        if held.hold == Hold::Leased {
            self.until = self.until.min(held.until);
        }
        self.floor = self.floor.max(floor);
        Ok(i)
    }

    /// Takes the row with this key. `None`: there is none, and if gaps are protected there will be none.
    pub(super) fn point<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        part: &mut PartTable,
        at: (PartitionId, TableId),
        key: &Key,
        access: Access,
    ) -> Result<Option<usize>, Conflict> {
        if let Some(row) = part.find(cx, key) {
            return self.hold(cx, part, at, (key, row), (access, false)).map(Some);
        }
        if !cx.sabotaged("partitioned.miss-what-was-read") && self.find(at, key).is_some() {
            return Err(Conflict::Validation);
        }
        if self.rules.gaps && !cx.sabotaged("partitioned.hold-behind-absent") {
            let (next, row) = part.from(cx, key);
            self.hold(cx, part, at, (&next, row), (Access::Read, true))?;
        }
        Ok(None)
    }

    /// Takes the rows of a range, one after the other, and shows each (its number and bytes) to `show`.
    pub(super) fn range<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        part: &mut PartTable,
        at: (PartitionId, TableId),
        range: &KeyRange,
        access: Access,
        mut show: impl FnMut(&Held, usize, &[u8]) -> Result<ControlFlow<()>, TxnError>,
    ) -> Result<Visited, TxnError> {
        cx.spend(Work::IndexNode, part.tree.height() as u32 + 1);
        let mut cursor = part.tree.lower_bound(range.low.words());
        while let Some(here) = cursor {
            let (words, row) = part.tree.entry(here);
            let key = Key::from_words(words);
            if range.ends_before(&key) {
                break;
            }
            let i = self.hold(cx, part, at, (&key, row), (access, self.rules.gaps))?;
            if show(&self.held[i], i, part.rows.bytes(row))?.is_break() {
                return Ok(Visited::UpTo(key));
            }
            cursor = part.tree.next(here);
        }
        if self.rules.gaps && !cx.sabotaged("partitioned.hold-beyond-range") {
            let end = range.low.width();
            let (next, row) = match cursor {
                Some(here) => {
                    let (words, row) = part.tree.entry(here);
                    (Key::from_words(words), row)
                }
                None => (super::part::end_of(end), part.sentinel),
            };
            self.hold(cx, part, at, (&next, row), (Access::Read, true))?;
        }
        Ok(Visited::All)
    }

    /// Makes the place of a new row, which nobody else sees before the commit; or takes the row that is
    /// there.
    pub(super) fn insert<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        part: &mut PartTable,
        at: (PartitionId, TableId),
        key: &Key,
    ) -> Result<Inserted, TxnError> {
        if let Some(row) = part.find(cx, key) {
            return Ok(Inserted::Taken(self.hold(cx, part, at, (key, row), (Access::Read, false))?));
        }
        if self.find(at, key).is_some() {
            // It was read, and another has removed it since.
            return Err(Conflict::Validation.into());
        }
        if !cx.sabotaged("partitioned.hold-behind-insert") {
            self.open_gap(cx, part, at, key)?;
        }
        let needed_bytes = part.rows.row_len() as u64;
        let full = TxnError::OutOfMemory { what: "rows of a partition", needed_bytes };
        let row = part.rows.alloc().ok_or(full)?;
        part.rows.set_aux(row, self.who.0);
        part.rows.set_flags(row, RowFlags::PLACEHOLDER);
        part.rows.set_version(row, part.removed);
        part.rows.set_shared(row, part.removed);
        part.tree.insert(key.words(), row).expect("searched just now");
        self.floor = self.floor.max(self.rules.floor(&part.rows, row));
        let (partition, table) = at;
        let i = self.add(Held {
            table,
            partition,
            key: *key,
            row,
            hold: Hold::Exclusive,
            version: 0,
            gap: None,
            until: 0,
            removals: part.removals,
            opens_gap: true,
            is_new: true,
            deleted: false,
        });
        Ok(Inserted::Made(i))
    }

    /// Locks the row behind `key`, whose gap will hold something else.
    fn open_gap<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        part: &mut PartTable,
        at: (PartitionId, TableId),
        key: &Key,
    ) -> Result<(), Conflict> {
        if !self.rules.gaps {
            return Ok(());
        }
        let (next, row) = part.behind(cx, key);
        let i = self.hold(cx, part, at, (&next, row), (Access::Update, false))?;
        self.held[i].opens_gap = true;
        Ok(())
    }

    /// Marks a locked row for removal.
    pub(super) fn mark_deleted<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        part: &mut PartTable,
        i: usize,
    ) -> Result<(), Conflict> {
        let Held { table, partition, key, .. } = self.held[i];
        self.open_gap(cx, part, (partition, table), &key)?;
        self.held[i].deleted = true;
        Ok(())
    }

    /// The bytes of a row that is held, below the transaction's changes.
    pub(super) fn bytes<'p>(&self, part: &'p PartTable, i: usize) -> &'p [u8] {
        part.rows.bytes(self.held[i].row)
    }

    /// True if something here must be given back.
    pub(super) fn has_locks(&self) -> bool {
        self.held.iter().any(|held| held.hold != Hold::Leased)
    }

    /// Makes all leases cover `time`; false if one cannot.
    pub(super) fn validate<F: Fabric>(&mut self, cx: &Cx<F>, host: &PartHost, time: u64) -> bool {
        if cx.sabotaged("partitioned.validate") {
            return true;
        }
        let mut latched: Option<LatchGuard<'_, Partition>> = None;
        self.held.iter().all(|held| {
            if held.hold != Hold::Leased || held.until >= time {
                return true;
            }
            let part = host.reach(cx, &mut latched, held.partition).table(held.table);
            let moved = part.removals != held.removals && !cx.sabotaged("partitioned.search-removed");
            let row = if moved { part.now_at(&held.key) } else { Some(held.row) };
            let seen = (held.version, held.gap);
            row.is_some_and(|row| host.rules.renew(cx, &mut part.rows, row, seen, time))
        })
    }

    /// Puts what the transaction made of a row in its place; `change` is given the row's bytes.
    pub(super) fn install(&self, part: &mut PartTable, i: usize, time: u64, change: impl FnOnce(&mut [u8])) {
        let held = &self.held[i];
        debug_assert_eq!(part.rows.aux(held.row), self.who.0, "a row is changed under its lock");
        change(part.rows.bytes_mut(held.row));
        self.rules.changed(&mut part.rows, held.row, time);
    }

    /// Gives everything back, and takes out what goes.
    pub(super) fn end<F: Fabric>(&mut self, cx: &Cx<F>, host: &PartHost, ending: Ending) {
        let mut latched: Option<LatchGuard<'_, Partition>> = None;
        if let Ending::Committed { time } = ending
            && self.held.iter().any(|held| held.deleted)
        {
            // Who does not find a row any more must find that the gap has changed. In the simulator nobody
            // comes between, because nothing here touches shared memory.
            for held in self.held.iter().filter(|held| held.opens_gap) {
                let part = host.reach(cx, &mut latched, held.partition).table(held.table);
                host.rules.gap_changed(&mut part.rows, held.row, time);
            }
        }
        for held in self.held.iter() {
            if held.hold == Hold::Leased {
                continue;
            }
            let part = host.reach(cx, &mut latched, held.partition).table(held.table);
            match ending {
                Ending::Committed { time } if held.deleted => {
                    part.removed = part.removed.max(time);
                    part.remove(&held.key, held.row);
                    continue;
                }
                Ending::Aborted { .. } if held.is_new => {
                    part.remove(&held.key, held.row);
                    continue;
                }
                Ending::Committed { time } if held.opens_gap => {
                    host.rules.gap_changed(&mut part.rows, held.row, time);
                }
                Ending::Committed { time } | Ending::Aborted { seen: time } => {
                    host.rules.seen(cx, &mut part.rows, held.row, time);
                }
            }
            if held.is_new {
                part.rows.set_flags(held.row, RowFlags::LIVE);
            }
            host.rules.release(&mut part.rows, held.row, held.hold);
        }
        drop(latched);
        self.clear();
    }
}
