//! Putting one host's rows where they belong: logs are read and their changes sorted into partitions, then
//! partitions are replayed and loaded. Several workers share the work.
//!
//! Invariants:
//! 1. A worker takes a whole log or a whole partition. Partitions are begun when all logs have been read.
//! 2. Index entries are made from rows. An index whose entries do not live in their row's partition takes
//!    entries from every host's rows, so its table is replayed for all partitions.
//! 3. The first failure ends the work of all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use liger_fabric::{Cx, Fabric, HostId, Latch};

use super::Plan;
use super::directory::Directory;
use super::error::{FileByte, RecoveryError};
use super::image::REPLICAS;
use super::replay::{Changes, RecoveredRow, Replayed};
use super::sources::Sources;
use crate::catalog::Kind;
use crate::log::record::Change;
use crate::log::scan::End;
use crate::log::segment::segment_name;
use crate::row::{Loader, RowHost};
use crate::txn::TableId;

/// How far a host's loading has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Loaded {
    /// Bytes of logs and images read.
    pub bytes: u64,
    /// Of them, bytes of logs: of all hosts, as every host reads them.
    pub log_bytes: u64,
    /// Rows put into partitions, replicated ones included.
    pub rows: u64,
    /// Changes applied to rows of images.
    pub changes: u64,
}

/// The work of one host's workers on its share of a recovery.
pub struct Loading<'p> {
    plan: &'p Plan,
    host: &'p RowHost,
    /// Tables with an index whose entries live elsewhere than their rows.
    scattered: BTreeSet<u16>,
    /// Hosts whose logs nobody has taken, and how many are not read yet.
    logs: Latch<Vec<usize>>,
    unread: AtomicUsize,
    /// By partition.
    changes: Latch<BTreeMap<u16, Changes>>,
    partitions: Latch<Vec<u16>>,
    failed: Latch<Option<RecoveryError>>,
    bytes: AtomicU64,
    log_bytes: AtomicU64,
    rows: AtomicU64,
    applied: AtomicU64,
}

impl<'p> Loading<'p> {
    /// The share of `host`, whose partitions are empty.
    pub fn new(plan: &'p Plan, host: &'p RowHost) -> Self {
        let scattered = host.catalog().relations().iter().filter_map(|relation| match &relation.kind {
            Kind::Table { layout, .. } if layout.indexes.iter().any(|i| !i.colocated) => Some(relation.id.0),
            _ => None,
        });
        let scattered: BTreeSet<u16> = scattered.collect();
        let wanted = |partition: &u16| host.owner(*partition) == host.id() || !scattered.is_empty();
        let mut partitions: Vec<u16> = (0..host.partition_count()).filter(wanted).collect();
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
            scattered,
        }
    }

    /// How far it has come.
    pub fn loaded(&self) -> Loaded {
        Loaded {
            bytes: self.bytes.load(Ordering::Relaxed),
            log_bytes: self.log_bytes.load(Ordering::Relaxed),
            rows: self.rows.load(Ordering::Relaxed),
            changes: self.applied.load(Ordering::Relaxed),
        }
    }

    /// Works until nothing is left to take. The host is loaded when all workers that called this have
    /// returned.
    ///
    /// # Errors
    /// Whatever is wrong with the files; all workers return the first failure.
    pub fn work<F: Fabric>(&self, cx: &Cx<F>, directories: &[Directory]) -> Result<(), RecoveryError> {
        let worked = self.try_work(cx, directories);
        if let Err(failure) = &worked {
            self.failed.lock(cx).get_or_insert_with(|| failure.clone());
        }
        worked
    }

    fn try_work<F: Fabric>(&self, cx: &Cx<F>, directories: &[Directory]) -> Result<(), RecoveryError> {
        while let Some(log) = self.next(cx, &self.logs)? {
            self.read_log(cx, directories, log)?;
            self.unread.fetch_sub(1, Ordering::Release);
        }
        while self.unread.load(Ordering::Acquire) > 0 {
            self.check_failed(cx)?;
            self.host.attend(cx);
            cx.pause();
        }
        while let Some(partition) = self.next(cx, &self.partitions)? {
            self.load(cx, directories, partition)?;
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
        let wanted = |change: &Change<'_>| {
            self.host.owner(change.partition) == self.host.id() || self.scattered.contains(&change.table)
        };
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
        let mut all = self.changes.lock(cx);
        for (partition, changes) in sorted {
            all.entry(partition).or_default().append(changes);
        }
        Ok(())
    }

    fn sources<'s>(&'s self, directories: &'s [Directory]) -> Sources<'s> {
        let partitions = self.host.partition_count();
        Sources { plan: self.plan, directories, catalog: self.host.catalog(), partitions }
    }

    /// Replays one partition and puts its rows where they belong.
    fn load<F: Fabric>(
        &self,
        cx: &Cx<F>,
        directories: &[Directory],
        partition: u16,
    ) -> Result<(), RecoveryError> {
        let host = self.host;
        let owner = if partition == REPLICAS { host.id() } else { host.owner(partition) };
        let changes = self.changes.lock(cx).remove(&partition).unwrap_or_default();
        let mut loader = Loader::new(host);
        let put = |row: RecoveredRow<'_>| self.put(cx, &mut loader, owner, row);
        let (done, bytes) = self.sources(directories).replay(cx, partition, owner, changes, put)?;
        self.note(&done, bytes);
        loader.finish(cx);
        Ok(())
    }

    fn put<F: Fabric>(
        &self,
        cx: &Cx<F>,
        loader: &mut Loader<'_>,
        owner: HostId,
        row: RecoveredRow<'_>,
    ) -> Result<(), RecoveryError> {
        let RecoveredRow { table: TableId(table), version, bytes, .. } = row;
        if owner == self.host.id() {
            self.rows.fetch_add(1, Ordering::Relaxed);
        } else if !self.scattered.contains(&table) {
            return Ok(());
        }
        Ok(loader.put_version(cx, row.table, version, bytes)?)
    }

    fn note(&self, done: &Replayed, bytes: u64) {
        self.applied.fetch_add(done.changes, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
