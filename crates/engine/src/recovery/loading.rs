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

use super::directory::{Directory, read_whole};
use super::error::{FileByte, RecoveryError};
use super::image::{ImageReader, REPLICAS};
use super::manifest::image_name;
use super::replay::{Changes, RecordAt, RecoveredRow, Replayed, replay};
use super::{HostFiles, Plan};
use crate::catalog::Kind;
use crate::log::record::{Record, epoch_of};
use crate::log::scan::Scanner;
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

/// What reads the image that is not there.
type NoImage = fn(u64, &mut [u8]) -> Result<usize, RecoveryError>;

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
            self.read_log(cx, &directories[log], &self.plan.hosts[log])?;
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
        directory: &Directory,
        files: &HostFiles,
    ) -> Result<(), RecoveryError> {
        let host = files.manifest.host;
        let mut mine: BTreeMap<u16, Changes> = BTreeMap::new();
        let mut misplaced = Ok(());
        let mut scanner = Scanner::new(files.manifest.pod, host);
        for &segment in &files.segments {
            let bytes = read_whole(cx, directory, &segment_name(segment))?;
            scanner.segment(segment, &bytes, |record, spot| {
                let at = RecordAt { host, segment, byte: spot.byte };
                if misplaced.is_ok() && self.plan.counts(epoch_of(record.llsn())) {
                    misplaced = self.sort(record, at, &mut mine);
                }
            });
            self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            self.log_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        misplaced?;
        let scan = scanner.finish();
        if scan != files.scan {
            let at = scan.end.at();
            let at = FileByte::new(host, segment_name(at.segment), at.byte);
            return Err(RecoveryError::damaged(at, "the log has changed since recovery was planned"));
        }
        let mut all = self.changes.lock(cx);
        for (partition, changes) in mine {
            all.entry(partition).or_default().append(changes);
        }
        Ok(())
    }

    fn sort(
        &self,
        record: &Record<'_>,
        at: RecordAt,
        mine: &mut BTreeMap<u16, Changes>,
    ) -> Result<(), RecoveryError> {
        for change in record.changes() {
            if change.partition >= self.host.partition_count() {
                let why = format!("a record changes partition {}, which does not exist", change.partition);
                return Err(RecoveryError::damaged(at.file_byte(), why));
            }
            let owner = self.host.owner(change.partition);
            let wanted = owner == self.host.id() || self.scattered.contains(&change.table);
            let begin = self.plan.hosts[usize::from(owner.0)].begin_epoch();
            if wanted && epoch_of(record.llsn()) >= begin {
                mine.entry(change.partition).or_default().push(&change, record.llsn(), at);
            }
        }
        Ok(())
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
        let mut changes = self.changes.lock(cx).remove(&partition).unwrap_or_default();
        changes.sort();
        let mut loader = Loader::new(host);
        let put = |row: RecoveredRow<'_>| self.put(cx, &mut loader, owner, row);
        let of = (partition, host.partition_count());
        let directory = &directories[usize::from(owner.0)];
        let files = &self.plan.hosts[usize::from(owner.0)];
        let Some(checkpoint) = &files.manifest.checkpoint else {
            let none = None::<&mut ImageReader<'_, NoImage>>;
            self.note(&replay(host.catalog(), of, none, &changes, put)?, 0);
            return Ok(());
        };
        let name = image_name(checkpoint.number, partition);
        let missing = || RecoveryError::Missing { host: owner, file: name.clone() };
        let entry = checkpoint.images.iter().find(|e| e.partition == partition).ok_or_else(missing)?;
        let file = directory.open(cx, &name)?.ok_or_else(missing)?;
        let read = |offset: u64, out: &mut [u8]| directory.read(cx, &file, offset, out);
        let head = checkpoint.image_head(&files.manifest, partition);
        let mut image = ImageReader::open(host.catalog(), &name, &head, read)?;
        let done = replay(host.catalog(), of, Some(&mut image), &changes, put)?;
        if image.seen() != entry.end {
            let why = format!("it holds {:?}, and its manifest says {:?}", image.seen(), entry.end);
            return Err(RecoveryError::damaged(FileByte::new(owner, name, 0), why));
        }
        self.note(&done, entry.end.bytes);
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
