//! Opening one host's partitions after a restart: logs are read and their changes sorted into partitions, and
//! the directories of images are. Rows are made when somebody wants them (row/unrestored.rs), but for
//! replicated tables, which are read without a latch: they are made here. Several workers share the work.
//!
//! Invariants:
//! 1. A worker takes a whole log or a whole partition. Partitions are begun when all logs have been read.
//! 2. The first failure ends the work of all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use liger_fabric::{Cx, Fabric, Latch};
use liger_pod::plan::PartitionId;

use super::Plan;
use super::directory::{Directory, are_in_order};
use super::error::{FileByte, RecoveryError};
use super::image::REPLICAS;
use super::recoverable::RestoresRows;
use super::replay::RecoveredRow;
use super::sources::{Sorted, Sources};
use super::stored::Stored;
use crate::files::segment_name;
use crate::log::scan::End;
use crate::protocol::replicas::ReplicasToBe;

/// What a host's loading has found so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Loaded {
    /// Bytes of logs that were read, and of images that were opened.
    pub bytes: u64,
    /// Of them, bytes of logs: of all hosts, as every host reads them.
    pub log_bytes: u64,
    /// Rows and index entries of these images, replicated ones included.
    pub rows: u64,
    /// Changes of the logs that belong to this host's partitions.
    pub changes: u64,
}

/// The work of one host's workers on its share of a recovery.
pub struct Loading<'p, R> {
    plan: &'p Plan,
    host: &'p R,
    /// Hosts whose logs nobody has taken, and how many are not read yet.
    logs: Latch<Vec<usize>>,
    unread: AtomicUsize,
    /// By partition.
    changes: Latch<Sorted>,
    partitions: Latch<Vec<PartitionId>>,
    failed: Latch<Option<RecoveryError>>,
    bytes: AtomicU64,
    log_bytes: AtomicU64,
    rows: AtomicU64,
    applied: AtomicU64,
}

impl<'p, R: RestoresRows> Loading<'p, R> {
    /// The share of `host`, whose partitions are empty.
    pub fn new(plan: &'p Plan, host: &'p R) -> Self {
        assert_eq!(plan.hosts.len(), usize::from(host.plan().config().hosts), "the files of all hosts");
        let own = |partition: &PartitionId| host.owner(*partition) == host.id();
        let mut partitions: Vec<PartitionId> = host.plan().partitions().filter(own).collect();
        partitions.push(REPLICAS);
        Self {
            plan,
            host,
            logs: Latch::new((0..plan.hosts.len()).collect()),
            unread: AtomicUsize::new(plan.hosts.len()),
            changes: Latch::default(),
            partitions: Latch::new(partitions),
            failed: Latch::new(None),
            bytes: AtomicU64::new(0),
            log_bytes: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            applied: AtomicU64::new(0),
        }
    }

    /// What it has found so far.
    pub fn loaded(&self) -> Loaded {
        Loaded {
            bytes: self.bytes.load(Ordering::Relaxed),
            log_bytes: self.log_bytes.load(Ordering::Relaxed),
            rows: self.rows.load(Ordering::Relaxed),
            changes: self.applied.load(Ordering::Relaxed),
        }
    }

    /// Works until nothing is left to take. The host's partitions can be used when all workers that called
    /// this have returned.
    ///
    /// # Errors
    /// Whatever is wrong with the files; all workers return the first failure.
    pub fn work<F: Fabric>(&self, cx: &Cx<F>, directories: &[Directory]) -> Result<(), RecoveryError> {
        assert!(are_in_order(directories), "the directories of all hosts");
        assert_eq!(directories.len(), self.plan.hosts.len(), "one directory a host");
        let worked = self.try_work(cx, directories);
        if let Err(failure) = &worked {
            self.failed.lock(cx).get_or_insert_with(|| failure.clone());
        }
        worked
    }

    fn try_work<F: Fabric>(&self, cx: &Cx<F>, directories: &[Directory]) -> Result<(), RecoveryError> {
        while let Some(log) = self.next(cx, &self.logs)? {
            self.read_log(cx, directories, log)?;
            let unread = self.unread.fetch_sub(1, Ordering::Release);
            assert!(unread > 0, "each log is read once");
        }
        while self.unread.load(Ordering::Acquire) > 0 {
            self.check_failed(cx)?;
            self.host.attend(cx);
            cx.pause();
        }
        while let Some(partition) = self.next(cx, &self.partitions)? {
            self.open(cx, directories, partition)?;
            self.host.attend(cx);
        }
        Ok(())
    }

    fn next<F: Fabric, T>(&self, cx: &Cx<F>, of: &Latch<Vec<T>>) -> Result<Option<T>, RecoveryError> {
        self.check_failed(cx)?;
        Ok(of.lock(cx).pop())
    }

    fn check_failed<F: Fabric>(&self, cx: &Cx<F>) -> Result<(), RecoveryError> {
        match &*self.failed.lock(cx) {
            None => Ok(()),
            Some(failure) => Err(failure.clone()),
        }
    }

    /// Sorts the changes of one host's log into partitions.
    fn read_log<F: Fabric>(
        &self,
        cx: &Cx<F>,
        directories: &[Directory],
        log: usize,
    ) -> Result<(), RecoveryError> {
        let wanted = |partition| self.host.owner(partition) == self.host.id();
        let (scan, sorted) =
            self.sources(directories).read_log(cx, log, wanted, || _ = self.host.attend(cx))?;
        self.bytes.fetch_add(scan.bytes, Ordering::Relaxed);
        self.log_bytes.fetch_add(scan.bytes, Ordering::Relaxed);
        let files = &self.plan.hosts[log];
        let wrong = match (&scan.end, &files.scan) {
            (End::Damaged { why, .. }, _) => Some(why.clone()),
            (_, Some(before)) if scan != *before => {
                Some("the log has changed since recovery was planned".to_owned())
            }
            _ => None,
        };
        if let Some(why) = wrong {
            let at = scan.end.at();
            let at = FileByte::new(files.manifest.host, segment_name(at.segment), at.byte);
            return Err(RecoveryError::damaged(at, why));
        }
        self.changes.lock(cx).append(sorted);
        Ok(())
    }

    fn sources<'s>(&'s self, directories: &'s [Directory]) -> Sources<'s> {
        let partitions = self.host.partition_count();
        Sources { plan: self.plan, directories, catalog: self.host.catalog(), partitions }
    }

    /// Opens what one partition is made from; replicated tables are made at once.
    fn open<F: Fabric>(
        &self,
        cx: &Cx<F>,
        directories: &[Directory],
        partition: PartitionId,
    ) -> Result<(), RecoveryError> {
        let host = self.host;
        assert_eq!(self.unread.load(Ordering::Acquire), 0, "partitions are begun when all logs are read");
        let changes = self.changes.lock(cx).take(partition);
        let stored = self.sources(directories).open(cx, partition, host.id(), changes)?;
        self.bytes.fetch_add(stored.image_bytes(), Ordering::Relaxed);
        self.rows.fetch_add(stored.image_rows(), Ordering::Relaxed);
        self.applied.fetch_add(stored.changes(), Ordering::Relaxed);
        if partition != REPLICAS {
            host.mark_unrestored(cx, partition, &Arc::new(stored));
            return Ok(());
        }
        load_replicated(cx, host, &stored, || _ = host.attend(cx)).map(drop)
    }
}

/// Makes the host's copies of all replicated tables. Returns how many rows there are.
pub(super) fn load_replicated<F: Fabric>(
    cx: &Cx<F>,
    host: &impl RestoresRows,
    stored: &Stored,
    mut turn: impl FnMut(),
) -> Result<u64, RecoveryError> {
    let mut replicas = ReplicasToBe::default();
    let mut rows = 0;
    for relation in host.catalog().relations().iter().filter(|relation| relation.replicated) {
        for span in 0..stored.spans(relation.id) {
            let put = |row: RecoveredRow<'_>| Ok(replicas.add(relation, &row.key, row.version, row.bytes)?);
            rows += stored.make(cx, host.catalog(), (relation.id, span), put)?.rows;
            turn();
        }
    }
    replicas.finish(cx, host.replicas());
    Ok(rows)
}
