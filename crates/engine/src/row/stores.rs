//! Rows for storage, and for whoever fills, reads or checks a pod at rest: what the door for access methods
//! asks of them (method/).

use std::collections::BTreeSet;
use std::sync::Arc;

use liger_fabric::{Cx, Fabric};
use liger_pod::plan::PartitionId;

use super::load::add;
use super::partition::Mode;
use super::rows::Rows;
use crate::catalog::{At, Relation};
use crate::instance::Holder;
use crate::method::{Checked, Poll, Stores};
use crate::protocol::engine::Show;
use crate::recovery::{CopiedUpTo, RecoveryError, RestoreStep, Stored};
use crate::tables::key::Key;
use crate::tables::record::Row;
use crate::txn::{TableId, TxnError};

impl Stores for Rows {
    fn copy_rows<F: Fabric>(
        &self,
        cx: &Cx<F>,
        place: (PartitionId, TableId),
        from: &Key,
        most: usize,
        copy: impl FnMut(&Key, u64, &[u8]),
    ) -> CopiedUpTo {
        self.copy_part(cx, place, from, most, copy)
    }

    fn mark_unrestored<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId, stored: &Arc<Stored>) {
        self.mark_partition_unrestored(cx, partition, stored);
    }

    #[inline]
    fn is_whole(&self) -> bool {
        self.is_all_restored() && !self.has_damaged()
    }

    fn restore_some<F: Fabric>(&self, cx: &Cx<F>) -> Result<RestoreStep, RecoveryError> {
        match self.restore_next(cx)? {
            RestoreStep::Whole => self.await_damaged(cx),
            step => Ok(step),
        }
    }

    fn restore_all<F: Fabric>(&self, cx: &Cx<F>, poll: Poll<'_>) -> Result<(), RecoveryError> {
        self.restore_rest(cx, poll)
    }

    fn put<F: Fabric>(&self, cx: &Cx<F>, at: At<'_>, key: &Key, bytes: &[u8]) -> Result<(), TxnError> {
        let mut part = self.part(cx, at.ids());
        let near = part.tree.neighbors(key.words());
        add(&mut part, at.relation, (key, &near), 0, bytes)
    }

    fn share<F: Fabric>(&self, cx: &Cx<F>, tables: &[TableId], part: f64) -> Result<u64, TxnError> {
        self.share_first(cx, tables, part)
    }

    fn warm_up<F: Fabric>(&self, cx: &Cx<F>, tables: &[TableId]) -> Result<(), TxnError> {
        self.learn_shared(cx, tables)
    }

    fn each<F: Fabric>(
        &self,
        cx: &Cx<F>,
        of: &Relation,
        partition: PartitionId,
        show: Show<'_>,
    ) -> Result<(), TxnError> {
        let mut latched = self.part(cx, (partition, of.id));
        let part = &mut *latched;
        let mut at = part.tree.first();
        while let Some(cursor) = at {
            let (words, row) = part.tree.entry(cursor);
            let key = Key::from_words(words);
            let locked = part.lock(cx, self.shared, row, Holder::of(cx.worker()), Mode::Read, false);
            locked.inspect_err(|why| self.heed(cx, part, row, why))?;
            show(&key, Row::new(part.rows.bytes(row)));
            part.unlock(cx, self.shared, row, Holder::of(cx.worker()));
            at = part.tree.next(cursor);
        }
        Ok(())
    }

    fn check<F: Fabric>(&self, cx: &Cx<F>, checked: &mut Checked, in_use: &mut BTreeSet<u64>) {
        self.check_rows(cx, checked, in_use);
    }
}
