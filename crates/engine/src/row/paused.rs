//! A transaction without its worker's context: how it rests between two uses of an owned session. See
//! `owned`.

use std::sync::Arc;

use liger_fabric::{Cx, Fabric, WorkerId};

use super::borrowed::Borrowed;
use super::host::RowHost;
use super::partition::TablePart;
use super::policy::WaitPolicy;
use super::transaction::{Place, RowTxn};
use crate::history::TxnRecord;
use crate::log::WorkerLog;
use crate::log::record::RecordWriter;
use crate::txn::TableId;
use crate::workspace::Workspace;

/// The fields of [`RowTxn`] that it owns.
pub(super) struct Paused {
    me: WorkerId,
    held: Vec<Place>,
    foreign: Borrowed,
    work: Workspace<Place>,
    scratch: Vec<u8>,
    llsn: u64,
    saw_absence: bool,
    log: Option<WorkerLog>,
    writer: RecordWriter,
    record: Option<TxnRecord>,
    replicas: Vec<(TableId, Arc<TablePart>)>,
    wait: &'static (dyn WaitPolicy + Sync),
    was_refused: bool,
    is_needed: bool,
}

impl Paused {
    /// Lets go of the context.
    pub(super) fn new<F: Fabric>(txn: RowTxn<'_, F>) -> Self {
        Self {
            me: txn.me,
            held: txn.held,
            foreign: txn.foreign,
            work: txn.work,
            scratch: txn.scratch,
            llsn: txn.llsn,
            saw_absence: txn.saw_absence,
            log: txn.log,
            writer: txn.writer,
            record: txn.record,
            replicas: txn.replicas,
            wait: txn.wait,
            was_refused: txn.was_refused,
            is_needed: txn.is_needed,
        }
    }

    /// Goes on in a context, which has to be the same worker's.
    pub(super) fn resume<'h, F: Fabric>(self, cx: &'h Cx<F>, host: &'h RowHost) -> RowTxn<'h, F> {
        RowTxn {
            cx,
            host,
            me: self.me,
            held: self.held,
            foreign: self.foreign,
            work: self.work,
            scratch: self.scratch,
            llsn: self.llsn,
            saw_absence: self.saw_absence,
            log: self.log,
            writer: self.writer,
            record: self.record,
            replicas: self.replicas,
            in_the_way: 0,
            wait: self.wait,
            was_refused: self.was_refused,
            is_needed: self.is_needed,
        }
    }
}
