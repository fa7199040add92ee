//! Two methods as one: a relation is kept by the second if that keeps relations of its kind, else by the
//! first.
//!
//! Which is asked is decided by a byte of the relation, or of a place; nothing is called through a table.
//!
//! Invariants:
//! 1. The two share no relation, no place and no kind of message; partitions they share.
//! 2. What is done for a whole transaction or a whole partition is done by the first, then by the second.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::owner::Owner;
use liger_pod::plan::PartitionId;

use super::{
    Checked, Dead, Holds, Opens, Pending, Poll, Reached, Replies, RowLocation, Running, Serves, Stores,
    Transacts, View,
};
use crate::catalog::{At, Relation};
use crate::instance::Instance;
use crate::protocol::engine::Show;
use crate::protocol::relational::Flow;
use crate::protocol::workspace::Visitor;
use crate::recovery::{CopiedUpTo, RecoveryError, RestoreStep, Stored};
use crate::tables::key::{Key, KeyRange};
use crate::txn::{Announced, MethodId, TableId, TxnError};

/// Two methods, of one host.
#[derive(Debug)]
pub struct Both<A, B>(pub A, pub B);

impl<A: Deref<Target = Instance>, B> Deref for Both<A, B> {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        &self.0
    }
}

impl<A: Deref<Target = Instance> + Transacts, B: Transacts> Both<A, B> {
    #[inline]
    fn is_second(&self, method: MethodId) -> bool {
        debug_assert!(!(self.0.keeps(method) && self.1.keeps(method)), "a relation has one method");
        debug_assert!(self.0.keeps(method) || self.1.keeps(method), "one of the two keeps it");
        self.1.keeps(method)
    }

    fn is_seconds(&self, table: TableId) -> bool {
        self.0.deref().catalog.relation(table).is_ok_and(|relation| self.is_second(relation.method))
    }
}

impl<A: Holds, B: Holds> Holds for (A, B) {
    fn count(&self) -> usize {
        self.0.count() + self.1.count()
    }

    fn memory(&self) -> usize {
        self.0.memory() + self.1.memory()
    }

    fn forget_memory(&mut self) {
        self.0.forget_memory();
        self.1.forget_memory();
    }

    fn begin_passing(&mut self) {
        self.0.begin_passing();
        self.1.begin_passing();
    }
}

/// A transaction that both work for.
type Txn<'t, 'h, F, A, B> =
    (&'t mut Running<'h, F>, &'t mut (<A as Transacts>::Held, <B as Transacts>::Held));

impl<A: Transacts, B: Transacts> Transacts for Both<A, B> {
    type Held = (A::Held, B::Held);

    fn keeps(&self, method: MethodId) -> bool {
        self.0.keeps(method) || self.1.keeps(method)
    }

    fn load_ahead<F: Fabric>(&self, cx: &Cx<F>, rows: &[Announced]) -> bool {
        let others = self.0.load_ahead(cx, rows);
        self.1.load_ahead(cx, rows) || others
    }

    fn fetch_ahead<F: Fabric>(&self, (txn, held): Txn<'_, '_, F, A, B>, rows: &[Announced]) {
        self.0.fetch_ahead((txn, &mut held.0), rows);
        self.1.fetch_ahead((txn, &mut held.1), rows);
    }

    fn point<F: Fabric>(
        &self,
        (txn, held): Txn<'_, '_, F, A, B>,
        at: At<'_>,
        key: &Key,
        view: View,
        visitor: &mut Visitor<'_>,
    ) -> Result<bool, TxnError> {
        match self.is_second(at.relation.method) {
            false => self.0.point((txn, &mut held.0), at, key, view, visitor),
            true => self.1.point((txn, &mut held.1), at, key, view, visitor),
        }
    }

    fn range<F: Fabric>(
        &self,
        (txn, held): Txn<'_, '_, F, A, B>,
        at: At<'_>,
        range: &KeyRange,
        view: View,
        visitor: &mut Visitor<'_>,
    ) -> Flow {
        match self.is_second(at.relation.method) {
            false => self.0.range((txn, &mut held.0), at, range, view, visitor),
            true => self.1.range((txn, &mut held.1), at, range, view, visitor),
        }
    }

    fn insert<F: Fabric>(
        &self,
        (txn, held): Txn<'_, '_, F, A, B>,
        at: At<'_>,
        key: &Key,
        bytes: &[u8],
    ) -> Result<bool, TxnError> {
        match self.is_second(at.relation.method) {
            false => self.0.insert((txn, &mut held.0), at, key, bytes),
            true => self.1.insert((txn, &mut held.1), at, key, bytes),
        }
    }

    fn mark_deleted<F: Fabric>(&self, (txn, held): Txn<'_, '_, F, A, B>, place: RowLocation) {
        match self.is_second(place.method) {
            false => self.0.mark_deleted((txn, &mut held.0), place),
            true => self.1.mark_deleted((txn, &mut held.1), place),
        }
    }

    fn prepare<F: Fabric>(&self, (txn, held): Txn<'_, '_, F, A, B>) -> Result<(), TxnError> {
        self.0.prepare((txn, &mut held.0))?;
        self.1.prepare((txn, &mut held.1))
    }

    fn apply<F: Fabric>(&self, (txn, held): Txn<'_, '_, F, A, B>) -> bool {
        let first = self.0.apply((txn, &mut held.0));
        self.1.apply((txn, &mut held.1)) || first
    }

    fn release<F: Fabric>(&self, (txn, held): Txn<'_, '_, F, A, B>, committed: bool) {
        self.0.release((txn, &mut held.0), committed);
        self.1.release((txn, &mut held.1), committed);
    }

    fn end_passing<F: Fabric>(&self, (txn, held): Txn<'_, '_, F, A, B>) {
        self.0.end_passing((txn, &mut held.0));
        self.1.end_passing((txn, &mut held.1));
    }

    fn park<F: Fabric>(&self, (txn, held): Txn<'_, '_, F, A, B>) {
        self.0.park((txn, &mut held.0));
        self.1.park((txn, &mut held.1));
    }

    fn unpark<F: Fabric>(&self, (txn, held): Txn<'_, '_, F, A, B>) {
        self.0.unpark((txn, &mut held.0));
        self.1.unpark((txn, &mut held.1));
    }
}

impl<A: Serves, B: Serves> Serves for Both<A, B> {
    fn handle<F: Fabric>(&self, cx: &Cx<F>, from: Owner, message: &[u8], replies: &mut Replies) -> bool {
        self.0.handle(cx, from, message, replies) || self.1.handle(cx, from, message, replies)
    }

    fn housekeep<F: Fabric>(&self, cx: &Cx<F>) {
        self.0.housekeep(cx);
        self.1.housekeep(cx);
    }

    fn faults<F: Fabric>(&self, cx: &Cx<F>) -> Vec<String> {
        let mut faults = self.0.faults(cx);
        faults.extend(self.1.faults(cx));
        faults
    }

    fn make<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId) {
        self.0.make(cx, partition);
        self.1.make(cx, partition);
    }

    fn resolve<F: Fabric>(
        &self,
        cx: &Cx<F>,
        dead: &Dead,
        partition: PartitionId,
        is_own: bool,
        poll: Poll<'_>,
    ) -> Result<(), RecoveryError> {
        self.0.resolve(cx, dead, partition, is_own, poll)?;
        self.1.resolve(cx, dead, partition, is_own, poll)
    }

    fn lies_in<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        is_theirs: &dyn Fn(Option<(HostId, u16)>) -> bool,
    ) -> Result<bool, RecoveryError> {
        Ok(self.0.lies_in(cx, partition, is_theirs)? || self.1.lies_in(cx, partition, is_theirs)?)
    }

    fn attach<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        first: u64,
        poll: Poll<'_>,
    ) -> Result<(), RecoveryError> {
        self.0.attach(cx, partition, first, poll)?;
        self.1.attach(cx, partition, first, poll)
    }

    fn reach<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partitions: &BTreeSet<PartitionId>,
        in_use: &mut BTreeSet<u64>,
        then: Reached<'_>,
    ) -> Result<(), RecoveryError> {
        self.0.reach(cx, partitions, in_use, &mut |in_use| self.1.reach(cx, partitions, in_use, &mut *then))
    }

    fn open<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId, opens: Opens) -> Result<(), RecoveryError> {
        self.0.open(cx, partition, opens)?;
        self.1.open(cx, partition, opens)
    }

    fn has_moved<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId) {
        self.0.has_moved(cx, partition);
        self.1.has_moved(cx, partition);
    }

    fn withdraw<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        poll: Poll<'_>,
    ) -> Result<bool, RecoveryError> {
        Ok(self.0.withdraw(cx, partition, poll)? & self.1.withdraw(cx, partition, poll)?)
    }

    fn withdraw_ahead<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        poll: Poll<'_>,
    ) -> Result<(), RecoveryError> {
        self.0.withdraw_ahead(cx, partition, poll)?;
        self.1.withdraw_ahead(cx, partition, poll)
    }

    fn tell_again<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId, to: Owner, what: Pending) {
        self.0.tell_again(cx, partition, to, what);
        self.1.tell_again(cx, partition, to, what);
    }
}

impl<A: Stores + Transacts, B: Stores + Transacts> Stores for Both<A, B> {
    fn copy_rows<F: Fabric>(
        &self,
        cx: &Cx<F>,
        place: (PartitionId, TableId),
        from: &Key,
        most: usize,
        copy: impl FnMut(&Key, u64, &[u8]),
    ) -> CopiedUpTo {
        match self.is_seconds(place.1) {
            false => self.0.copy_rows(cx, place, from, most, copy),
            true => self.1.copy_rows(cx, place, from, most, copy),
        }
    }

    fn mark_unrestored<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId, stored: &Arc<Stored>) {
        self.0.mark_unrestored(cx, partition, stored);
        self.1.mark_unrestored(cx, partition, stored);
    }

    fn is_whole(&self) -> bool {
        self.0.is_whole() && self.1.is_whole()
    }

    fn restore_some<F: Fabric>(&self, cx: &Cx<F>) -> Result<RestoreStep, RecoveryError> {
        match self.0.restore_some(cx)? {
            RestoreStep::Whole => self.1.restore_some(cx),
            step => Ok(step),
        }
    }

    fn restore_all<F: Fabric>(&self, cx: &Cx<F>, poll: Poll<'_>) -> Result<(), RecoveryError> {
        let first = self.0.restore_all(cx, poll);
        self.1.restore_all(cx, poll).and(first)
    }

    fn put<F: Fabric>(&self, cx: &Cx<F>, at: At<'_>, key: &Key, bytes: &[u8]) -> Result<(), TxnError> {
        match self.is_second(at.relation.method) {
            false => self.0.put(cx, at, key, bytes),
            true => self.1.put(cx, at, key, bytes),
        }
    }

    fn share<F: Fabric>(&self, cx: &Cx<F>, tables: &[TableId], part: f64) -> Result<u64, TxnError> {
        let (second, first): (Vec<TableId>, Vec<TableId>) =
            tables.iter().partition(|table| self.is_seconds(**table));
        Ok(self.0.share(cx, &first, part)? + self.1.share(cx, &second, part)?)
    }

    fn warm_up<F: Fabric>(&self, cx: &Cx<F>, tables: &[TableId]) -> Result<(), TxnError> {
        let (second, first): (Vec<TableId>, Vec<TableId>) =
            tables.iter().partition(|table| self.is_seconds(**table));
        self.0.warm_up(cx, &first)?;
        self.1.warm_up(cx, &second)
    }

    fn each<F: Fabric>(
        &self,
        cx: &Cx<F>,
        of: &Relation,
        partition: PartitionId,
        show: Show<'_>,
    ) -> Result<(), TxnError> {
        match self.is_second(of.method) {
            false => self.0.each(cx, of, partition, show),
            true => self.1.each(cx, of, partition, show),
        }
    }

    fn check<F: Fabric>(&self, cx: &Cx<F>, checked: &mut Checked, in_use: &mut BTreeSet<u64>) {
        self.0.check(cx, checked, in_use);
        self.1.check(cx, checked, in_use);
    }
}
