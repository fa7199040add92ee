//! Which shared rows of a host leave, and when; and which are shared before anybody asks.
//!
//! Everything here is in the owner's DRAM. What other hosts did with a row it learns from the second-chance
//! bit of the tuple cell, which the swap that locks the row sets for nothing, so no policy adds a byte or a
//! verb to an access.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use liger_pod::heap::TupleAddr;
use liger_pod::plan::PartitionId;

use crate::names::named;
use crate::txn::TableId;

/// Which shared row of a host leaves first when memory is short.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum MoveOut {
    /// CLOCK: rows leave in the order in which they came; one that was locked since it was last looked at
    /// goes round once more.
    #[default]
    Clock,
    /// Least recently used, as far as looking tells: with each request that it serves an owner looks at some
    /// of its shared rows, one after the other, and those used since the last look come behind all others.
    Lru,
    /// In the order in which they came, used or not.
    Fifo,
    /// Rows stay. The budget is not kept, and when the memory is full, whoever needs more is told so.
    None,
}

named! {
    MoveOut, "move-out policy",
    "clock" => MoveOut::Clock,
    "lru" => MoveOut::Lru,
    "fifo" => MoveOut::Fifo,
    "none" => MoveOut::None,
}

/// When rows leave.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum MoveOutWhen {
    /// When the budget is used up and somebody asks for another row.
    #[default]
    OnDemand,
    /// Before: an owner's housekeeping begins at the high mark and goes on until the low one.
    Background,
}

named! {
    MoveOutWhen, "time of moving out",
    "on-demand" => MoveOutWhen::OnDemand,
    "background" => MoveOutWhen::Background,
}

/// How much of the budget may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marks {
    /// Rows begin to leave when more is used, percent.
    pub high_percent: u64,
    /// They cease to when no more is used, percent.
    pub low_percent: u64,
}

impl Default for Marks {
    fn default() -> Self {
        Self { high_percent: 95, low_percent: 90 }
    }
}

/// Which tables' rows are shared before a run, as if other hosts had asked for them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum PreMigration {
    /// None.
    #[default]
    None,
    /// Those whose rows the workload touches from several hosts: it says which.
    NonPartitionable,
    /// All that have partitions.
    All,
}

named! {
    PreMigration, "pre-migration",
    "none" => PreMigration::None,
    "non-partitionable" => PreMigration::NonPartitionable,
    "all" => PreMigration::All,
}

/// A shared row, as its owner knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedRow {
    /// Its partition.
    pub partition: PartitionId,
    /// Its table.
    pub table: TableId,
    /// Its place in the partition.
    pub row: u32,
    /// Where it is. If it is elsewhere by now, the record is stale.
    pub at: TupleAddr,
}

/// The shared rows of a host, in the order in which they are to leave. Some may have left already.
#[derive(Debug)]
pub enum Leavers {
    /// By age.
    Queue {
        /// The oldest first.
        rows: VecDeque<SharedRow>,
        /// Those in use stay.
        honours_use: bool,
    },
    /// By use.
    ByUse(ByUse),
    /// Nothing leaves.
    Nobody,
}

/// Rows in the order in which they were last seen used.
#[derive(Default, Debug)]
pub struct ByUse {
    rows: BTreeMap<u64, SharedRow>,
    /// Number of the next row that is used.
    next: u64,
    /// The row looked at last.
    hand: u64,
    /// The rows from this number on have been looked at in this round.
    until: u64,
}

impl Leavers {
    /// Nobody yet.
    pub fn new(policy: MoveOut) -> Self {
        match policy {
            MoveOut::Clock => Self::Queue { rows: VecDeque::new(), honours_use: true },
            MoveOut::Fifo => Self::Queue { rows: VecDeque::new(), honours_use: false },
            MoveOut::Lru => Self::ByUse(ByUse::default()),
            MoveOut::None => Self::Nobody,
        }
    }

    /// A row has moved in.
    pub fn moved_in(&mut self, row: SharedRow) {
        match self {
            Self::Queue { rows, .. } => rows.push_back(row),
            Self::ByUse(by_use) => by_use.push(row),
            Self::Nobody => {}
        }
    }

    /// The next candidate, which is forgotten. It may be stale. If `true` comes with it, it stays if it was
    /// used since somebody looked.
    pub fn candidate(&mut self) -> Option<(SharedRow, bool)> {
        match self {
            Self::Queue { rows, honours_use } => rows.pop_front().map(|row| (row, *honours_use)),
            Self::ByUse(by_use) => by_use.rows.pop_first().map(|(_, row)| (row, true)),
            Self::Nobody => None,
        }
    }

    /// The candidate could not leave: it is in use, or was used.
    pub fn keep(&mut self, row: SharedRow) {
        self.moved_in(row);
    }

    /// The next row of which it should be known whether it was used.
    pub fn look(&mut self) -> Option<(u64, SharedRow)> {
        if let Self::ByUse(by_use) = self { by_use.look() } else { None }
    }

    /// The row with this number was used, or is stale.
    pub fn looked(&mut self, number: u64, is_stale: bool) {
        if let Self::ByUse(by_use) = self
            && let Some(row) = by_use.rows.remove(&number)
            && !is_stale
        {
            by_use.push(row);
        }
    }

    /// Rows known, stale ones included.
    pub fn len(&self) -> usize {
        match self {
            Self::Queue { rows, .. } => rows.len(),
            Self::ByUse(by_use) => by_use.rows.len(),
            Self::Nobody => 0,
        }
    }
}

impl ByUse {
    fn push(&mut self, row: SharedRow) {
        self.rows.insert(self.next, row);
        self.next += 1;
    }

    /// Goes through all rows, and then through those there are by then.
    fn look(&mut self) -> Option<(u64, SharedRow)> {
        let behind = (Bound::Excluded(self.hand), Bound::Excluded(self.until));
        let ahead = if self.hand < self.until { self.rows.range(behind).next() } else { None };
        let found = ahead.or_else(|| {
            self.until = self.next;
            self.rows.first_key_value()
        });
        let (number, row) = found.map(|(number, row)| (*number, *row))?;
        self.hand = number;
        Some((number, row))
    }
}

#[cfg(test)]
mod tests {
    use liger_fabric::{DataAddr, SyncAddr};

    use super::*;

    fn row(row: u32) -> SharedRow {
        let at = TupleAddr::new(DataAddr::new(64 * u64::from(row)), SyncAddr::new(8), 0);
        SharedRow { partition: PartitionId(0), table: TableId(0), row, at }
    }

    fn leavers(policy: MoveOut) -> Leavers {
        let mut leavers = Leavers::new(policy);
        (1..=4).for_each(|number| leavers.moved_in(row(number)));
        leavers
    }

    fn order(mut leavers: Leavers) -> Vec<u32> {
        std::iter::from_fn(|| leavers.candidate().map(|(row, _)| row.row)).collect()
    }

    #[test]
    fn rows_leave_by_age_or_not_at_all() {
        for policy in [MoveOut::Clock, MoveOut::Fifo] {
            let mut some = leavers(policy);
            let (first, honours_use) = some.candidate().expect("four rows");
            assert_eq!((first, honours_use), (row(1), policy == MoveOut::Clock));
            some.keep(first);
            assert_eq!((some.len(), some.look()), (4, None));
            assert_eq!(order(some), [2, 3, 4, 1]);
        }
        let mut nobody = leavers(MoveOut::None);
        assert_eq!((nobody.len(), nobody.candidate()), (0, None));
    }

    #[test]
    fn rows_leave_by_their_last_use() {
        let mut some = leavers(MoveOut::Lru);
        let used = |leavers: &mut Leavers, wanted: u32| loop {
            let (number, found) = leavers.look().expect("rows");
            if found.row == wanted {
                return leavers.looked(number, false);
            }
        };
        used(&mut some, 1);
        used(&mut some, 3);
        used(&mut some, 1);
        let (number, gone) = some.look().expect("rows");
        some.looked(number, true);
        assert_eq!(some.len(), 3);
        let left: Vec<u32> = [2, 4, 3, 1].into_iter().filter(|row| *row != gone.row).collect();
        assert_eq!(order(some), left);
    }

    #[test]
    fn every_row_is_looked_at_in_turn() {
        let mut some = leavers(MoveOut::Lru);
        for _ in 0..3 {
            let round: Vec<u32> = (0..4).map(|_| some.look().expect("rows").1.row).collect();
            assert_eq!(round, [1, 2, 3, 4]);
        }
        // Those that were used in a round are seen in the next one again.
        let mut round = Vec::new();
        for _ in 0..4 {
            let (number, found) = some.look().expect("rows");
            some.looked(number, false);
            round.push(found.row);
        }
        assert_eq!(round, [1, 2, 3, 4]);
        assert_eq!((0..4).map(|_| some.look().expect("rows").1.row).collect::<Vec<_>>(), [1, 2, 3, 4]);
    }

    #[test]
    fn policies_have_names() {
        for (name, policy) in MoveOut::ALL {
            assert_eq!((name.parse(), policy.to_string().as_str()), (Ok(*policy), *name));
        }
        for (name, policy) in MoveOutWhen::ALL {
            assert_eq!((name.parse(), policy.to_string().as_str()), (Ok(*policy), *name));
        }
        for (name, policy) in PreMigration::ALL {
            assert_eq!((name.parse(), policy.to_string().as_str()), (Ok(*policy), *name));
        }
    }
}
