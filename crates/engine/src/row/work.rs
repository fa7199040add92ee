//! A transaction at work on rows: what the door for access methods asks of them (method/).
//!
//! Rows of this host are worked on in own.rs, rows of other hosts in foreign.rs, rows that others do not hold
//! in free.rs; commit.rs makes changes and gives rows back.

use std::collections::BTreeSet;

use liger_fabric::{Cx, Fabric};
use liger_pod::plan::PartitionId;

use super::borrowed::{Borrowed, ForeignRow};
use super::latched::Latched;
use super::parking::Hold;
use super::partition::{Mode, RowId};
use super::rows::{Rows, is_rows};
use crate::catalog::At;
use crate::method::{Holds, RowLocation, Running, Seat, Transacts, Tries, TxnState, View};
use crate::protocol::relational::{Flow, InDram};
use crate::protocol::workspace::Visitor;
use crate::tables::key::{Key, KeyRange};
use crate::txn::{Announced, Conflict, MethodId, TableId, TxnError};

/// Set in the number of a row of another host, whose rest is its number among the transaction's.
const FOREIGN: u64 = 1 << 32;

/// Rows whose leaves are loaded ahead before the first row is.
const LOADED_AT_ONCE: usize = 16;

/// Where a row is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Spot {
    /// In a partition of this host.
    Own { partition: PartitionId, table: TableId, row: RowId },
    /// In a partition of another host; an index into the transaction's foreign rows.
    Foreign(usize),
}

impl Spot {
    /// What a place says, if it is a row's.
    #[inline]
    pub(super) fn of_row(place: RowLocation) -> Option<Self> {
        (place.method == MethodId::ROWS).then(|| Self::of(place))
    }

    /// What a row's place says.
    #[inline]
    pub(super) fn of(place: RowLocation) -> Self {
        debug_assert_eq!(place.method, MethodId::ROWS, "a row's place");
        let RowLocation { table, partition, number, .. } = place;
        match number & FOREIGN {
            0 => Self::Own { partition, table, row: number as RowId },
            _ => Self::Foreign((number & !FOREIGN) as usize),
        }
    }
}

/// The place of a row in a partition of this host.
#[inline]
pub(super) fn own_place((partition, table): (PartitionId, TableId), row: RowId) -> RowLocation {
    RowLocation { table, partition, method: MethodId::ROWS, number: row.into() }
}

impl ForeignRow {
    /// The place of the row, which is the transaction's number `i` of other hosts.
    #[inline]
    pub(super) fn place(&self, i: usize) -> RowLocation {
        debug_assert!((i as u64) < FOREIGN, "a transaction holds fewer rows");
        let Self { table, partition, .. } = *self;
        RowLocation { table, partition, method: MethodId::ROWS, number: FOREIGN | i as u64 }
    }
}

impl Visitor<'_> {
    pub(super) fn mode(&self) -> Mode {
        match self {
            Self::Read(_) => Mode::Read,
            Self::Write(_) => Mode::Write,
        }
    }
}

/// What a transaction holds of rows.
pub struct RowsHeld {
    /// Every row held, once.
    pub(super) held: Vec<RowLocation>,
    pub(super) foreign: Borrowed,
    pub(super) scratch: Vec<u8>,
    /// Rows behind the first so many are read in passing.
    pub(super) passing: usize,
    /// While it is parked: what it has of each row that it holds.
    pub(super) parked: Vec<Hold>,
}

impl Default for RowsHeld {
    fn default() -> Self {
        let (foreign, scratch, parked) = (Borrowed::default(), Vec::new(), Vec::new());
        Self { held: Vec::with_capacity(64), foreign, scratch, passing: 0, parked }
    }
}

impl Holds for RowsHeld {
    fn count(&self) -> usize {
        self.held.len()
    }

    fn memory(&self) -> usize {
        self.held.capacity() * size_of::<RowLocation>() + self.scratch.capacity()
    }

    fn forget_memory(&mut self) {
        debug_assert!(self.held.is_empty(), "a transaction is open");
        (self.held, self.scratch, self.foreign) = (Vec::new(), Vec::new(), Borrowed::default());
        self.parked = Vec::new();
    }

    fn begin_passing(&mut self) {
        self.passing = self.held.len();
    }
}

/// A transaction at work on rows.
pub(super) struct Work<'t, 'h, F: Fabric> {
    pub(super) cx: &'h Cx<F>,
    pub(super) host: &'t Rows,
    pub(super) state: &'t mut TxnState,
    pub(super) seat: &'t mut Seat<'h, F>,
    pub(super) mine: &'t mut RowsHeld,
}

impl Rows {
    #[inline]
    pub(super) fn at_work<'t, 'h, F: Fabric>(
        &'t self,
        (running, mine): (&'t mut Running<'h, F>, &'t mut RowsHeld),
    ) -> Work<'t, 'h, F> {
        let Running { state, seat } = running;
        Work { cx: seat.cx, host: self, state, seat, mine }
    }
}

impl<F: Fabric> Work<'_, '_, F> {
    /// Runs one step again as long as the wait policy says so.
    pub(super) fn retry<T>(
        &mut self,
        mut step: impl FnMut(&mut Self) -> Result<T, TxnError>,
    ) -> Result<T, TxnError> {
        let mut tries = Tries::default();
        loop {
            (self.state.in_the_way, self.state.wanted) = (0, None);
            let ended = match step(self) {
                Err(TxnError::Conflict(conflict)) => match self.wait(&mut tries, conflict) {
                    Ok(()) => continue,
                    Err(given_up) => Err(given_up),
                },
                ended => ended,
            };
            tries.end(self.state);
            return ended;
        }
    }

    fn wait<'t>(&mut self, tries: &mut Tries<'t>, conflict: Conflict) -> Result<(), TxnError>
    where
        Self: 't,
    {
        tries.wait(self.host, (&mut *self.state, &mut *self.seat), conflict)?;
        let (cx, host, mine) = (self.cx, self.host, &*self.mine);
        let holds = |state: &TxnState, asked: &BTreeSet<u64>| mine.held_among(cx, host, state, asked);
        tries.look((&mut *self.state, &mut *self.seat), conflict, holds)?;
        if tries.parks(self.host, (self.state, self.seat)) {
            self.rest_parked();
        }
        Ok(())
    }
}

impl Transacts for Rows {
    type Held = RowsHeld;

    fn keeps(&self, method: MethodId) -> bool {
        method == MethodId::ROWS
    }

    fn load_ahead<F: Fabric>(&self, cx: &Cx<F>, rows: &[Announced]) -> bool {
        let mut others = false;
        for rows in rows.chunks(LOADED_AT_ONCE) {
            let mut latched = Latched::default();
            let mut places = [None; LOADED_AT_ONCE];
            for (Announced { table, key, .. }, place) in rows.iter().zip(&mut places) {
                let Ok(relation) = self.catalog.relation(*table) else { continue };
                if !is_rows(relation) || relation.check_key(key).is_err() {
                    continue;
                }
                let partition = relation.partition_of(key, self.partition_count());
                if !self.owns(partition) {
                    others = true;
                    continue;
                }
                *place = Some((partition, *table));
                let part = latched.reach(cx, (partition, *table), |place| self.latch(place));
                part.tree.prefetch(key.words());
            }
            // The leaves have arrived by now.
            for (row, place) in rows.iter().zip(&places) {
                let Some(place) = *place else { continue };
                let part = latched.reach(cx, place, |place| self.latch(place));
                InDram { tree: &part.tree, rows: &part.rows }.prefetch_row(&row.key);
            }
        }
        others
    }

    fn fetch_ahead<F: Fabric>(&self, txn: (&mut Running<'_, F>, &mut RowsHeld), rows: &[Announced]) {
        self.at_work(txn).fetch_foreign_ahead(rows);
    }

    fn point<F: Fabric>(
        &self,
        txn: (&mut Running<'_, F>, &mut RowsHeld),
        at: At<'_>,
        key: &Key,
        view: View,
        visitor: &mut Visitor<'_>,
    ) -> Result<bool, TxnError> {
        let mut work = self.at_work(txn);
        match view {
            View::Locked => work.retry(|work| {
                if work.host.owns(at.partition) {
                    work.point_own(at, key, visitor)
                } else {
                    work.point_foreign(at, key, visitor)
                }
            }),
            View::Free => work.point_free(at, key, visitor),
            View::Glance => work.point_glance(at, key, visitor),
            View::AsOf(moment) => work.retry(|work| work.point_as_of(at, key, moment, visitor)),
        }
    }

    fn range<F: Fabric>(
        &self,
        txn: (&mut Running<'_, F>, &mut RowsHeld),
        at: At<'_>,
        range: &KeyRange,
        view: View,
        visitor: &mut Visitor<'_>,
    ) -> Flow {
        let mut work = self.at_work(txn);
        match view {
            View::Locked if self.owns(at.partition) => work.range_own(at, range, visitor),
            View::Locked => work.range_foreign(at, range, visitor, &mut false),
            View::Free | View::Glance => work.range_free(at, range, visitor),
            View::AsOf(moment) => work.range_as_of(at, range, moment, visitor),
        }
    }

    fn insert<F: Fabric>(
        &self,
        txn: (&mut Running<'_, F>, &mut RowsHeld),
        at: At<'_>,
        key: &Key,
        bytes: &[u8],
    ) -> Result<bool, TxnError> {
        self.at_work(txn).retry(|work| {
            if work.host.owns(at.partition) {
                work.insert_own(at, key, bytes)
            } else {
                work.insert_foreign(at, key, bytes)
            }
        })
    }

    fn mark_deleted<F: Fabric>(&self, txn: (&mut Running<'_, F>, &mut RowsHeld), place: RowLocation) {
        // Since the row was locked its partition may have been closed, to be given away; it may stay.
        if let Spot::Own { .. } = Spot::of(place) {
            self.at_work(txn).flag_own(place, true);
        }
    }

    fn apply<F: Fabric>(&self, txn: (&mut Running<'_, F>, &mut RowsHeld)) -> bool {
        let mut work = self.at_work(txn);
        let shared_foreign = work.write_foreign();
        let shared_own = work.write_own();
        shared_foreign || shared_own
    }

    fn release<F: Fabric>(&self, txn: (&mut Running<'_, F>, &mut RowsHeld), committed: bool) {
        self.at_work(txn).release_all(committed);
    }

    fn end_passing<F: Fabric>(&self, txn: (&mut Running<'_, F>, &mut RowsHeld)) {
        let mut work = self.at_work(txn);
        let first = work.mine.passing;
        work.let_go_since(first);
    }

    fn park<F: Fabric>(&self, txn: (&mut Running<'_, F>, &mut RowsHeld)) {
        self.at_work(txn).park();
    }

    fn unpark<F: Fabric>(&self, txn: (&mut Running<'_, F>, &mut RowsHeld)) {
        self.at_work(txn).unpark();
    }
}
