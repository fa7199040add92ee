//! What partitions are made from, as a plan has found it: which image, and the changes behind it in the logs
//! of all hosts.

use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::plan::PartitionId;

use super::directory::{Directory, ReadBuffer};
use super::error::RecoveryError;
use super::image::REPLICAS;
use super::manifest::PodManifest;
use super::replay::{Changes, RecordAt};
use super::stored::Stored;
use super::{HostFiles, Plan};
use crate::catalog::Catalog;
use crate::files::{image_name, segment_name};
use crate::log::fragments::{Next, Unfinished};
use crate::log::record::{Record, epoch_of};
use crate::log::scan::{Scan, Scanner};
use crate::log::segment::LogPosition;

/// Protocol steps that a test can leave out.
pub(super) const SABOTAGE_STEPS: &[&str] = &[
    "recovery.take-fragments",
    "recovery.take-last-of-several",
    "recovery.await-the-last",
    "recovery.heed-images",
];

/// Changes, by partition.
#[derive(Debug, Default)]
pub(super) struct Sorted(Vec<Changes>);

impl Sorted {
    /// Those of a partition.
    fn of(&mut self, partition: PartitionId) -> &mut Changes {
        let index = partition.index();
        if index >= self.0.len() {
            self.0.resize_with(index + 1, Changes::default);
        }
        &mut self.0[index]
    }

    /// Adds those of another log.
    pub fn append(&mut self, other: Sorted) {
        for (partition, changes) in other.into_partitions() {
            self.of(partition).append(changes);
        }
    }

    /// Takes those of a partition.
    pub fn take(&mut self, partition: PartitionId) -> Changes {
        self.0.get_mut(partition.index()).map(std::mem::take).unwrap_or_default()
    }

    /// True if no partition has any.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Changes::is_empty)
    }

    /// The partitions that have some, and these.
    fn into_partitions(self) -> impl Iterator<Item = (PartitionId, Changes)> {
        let all = (0..).map(PartitionId).zip(self.0);
        all.filter(|(_, changes)| !changes.is_empty())
    }
}

/// Takes the records of logs, host by host, and sorts the changes that count and are wanted into partitions.
pub(super) struct Sorting {
    pod: PodManifest,
    durable_epoch: u64,
    /// By partition: the least epoch that has to be applied to its image.
    begins: Vec<u64>,
    /// By partition: true if its changes are.
    wanted: Vec<bool>,
    /// The least begin of these.
    least_begin: u64,
    /// Of the host whose log is being read.
    unfinished: (HostId, Unfinished<Sorted>),
    sorted: Sorted,
    /// What does not belong where it is.
    misplaced: Result<(), RecoveryError>,
}

impl Sorting {
    /// Of the logs of a pod with so many partitions, of which this plan says what counts.
    pub fn new(plan: &Plan, partitions: u16, wanted: impl Fn(PartitionId) -> bool) -> Self {
        let all = || (0..partitions).map(PartitionId);
        let begins: Vec<u64> = all().map(|partition| plan.begin_of(partition)).collect();
        let wanted: Vec<bool> = all().map(wanted).collect();
        let of_wanted = begins.iter().zip(&wanted).filter(|(_, wanted)| **wanted);
        let least_begin = of_wanted.map(|(begin, _)| *begin).min().unwrap_or(u64::MAX);
        Self {
            pod: plan.pod.clone(),
            durable_epoch: plan.durable_epoch,
            begins,
            wanted,
            least_begin,
            unfinished: (HostId(0), Unfinished::default()),
            sorted: Sorted::default(),
            misplaced: Ok(()),
        }
    }

    /// Takes the next record of the log of `host`.
    pub fn take<F: Fabric>(&mut self, cx: &Cx<F>, host: HostId, record: &Record<'_>, at: LogPosition) {
        if self.misplaced.is_ok() {
            let at = RecordAt { host, segment: at.segment, byte: at.byte };
            self.misplaced = self.try_take(cx, record, at);
        }
    }

    /// The changes of all records.
    ///
    /// # Errors
    /// If a record changes what does not exist, or lacks others that were before it.
    pub fn finish(self) -> Result<Sorted, RecoveryError> {
        self.misplaced.map(|()| self.sorted)
    }

    fn counts(&self, epoch: u64) -> bool {
        self.pod.counts(epoch, self.durable_epoch)
    }

    /// Takes the next record of a log: its changes, and those of fragments before it that count now.
    fn try_take<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        record: &Record<'_>,
        at: RecordAt,
    ) -> Result<(), RecoveryError> {
        if self.unfinished.0 != at.host {
            self.unfinished = (at.host, Unfinished::default());
        }
        let (epoch, mut sorted) = (epoch_of(record.llsn()), std::mem::take(&mut self.sorted));
        let mut unfinished = std::mem::take(&mut self.unfinished.1);
        let taken = match unfinished.next(record) {
            // Whether it counts, and where, the last one says.
            Next::Waits(Some(_)) if cx.sabotaged("recovery.await-the-last") => {
                self.sort(record, at, &mut sorted)
            }
            Next::Waits(Some(kept)) => self.sort(record, at, kept),
            Next::Waits(None) => Ok(()),
            _ if !self.counts(epoch) => Ok(()),
            Next::Counts => self.sort(record, at, &mut sorted),
            Next::Ends(kept) => {
                if !cx.sabotaged("recovery.take-fragments") {
                    self.end(cx, record.llsn(), kept, &mut sorted);
                }
                match cx.sabotaged("recovery.take-last-of-several") {
                    true => Ok(()),
                    false => self.sort(record, at, &mut sorted),
                }
            }
            // Whatever they have changed: no image may lack it.
            Next::LacksFragments if self.begins.iter().any(|begin| epoch >= *begin) => {
                let why = "records of the same transaction that were before it are missing";
                Err(RecoveryError::damaged(at.file_byte(), why))
            }
            Next::LacksFragments => self.sort(record, at, &mut sorted),
        };
        (self.sorted, self.unfinished.1) = (sorted, unfinished);
        taken
    }

    /// Adds the changes of fragments whose last record has this version.
    fn end<F: Fabric>(&self, cx: &Cx<F>, llsn: u64, kept: Sorted, sorted: &mut Sorted) {
        for (partition, mut changes) in kept.into_partitions() {
            changes.set_version(llsn);
            if epoch_of(llsn) >= self.begins[partition.index()] || cx.sabotaged("recovery.heed-images") {
                sorted.of(partition).append(changes);
            }
        }
    }

    /// Sorts the changes of a record into partitions: of those of a fragment nobody knows yet whether an
    /// image has them.
    fn sort(&self, record: &Record<'_>, at: RecordAt, sorted: &mut Sorted) -> Result<(), RecoveryError> {
        let (llsn, epoch) = (record.llsn(), epoch_of(record.llsn()));
        debug_assert!(llsn == 0 || self.counts(epoch), "a record that counts, or may");
        // Before that no image lacks anything of what is wanted.
        if llsn > 0 && epoch < self.least_begin {
            return Ok(());
        }
        for change in record.changes() {
            let change = change.map_err(|bad| RecoveryError::damaged(at.file_byte(), bad.to_string()))?;
            let Some(begin) = self.begins.get(change.partition.index()) else {
                let why = format!("a record changes partition {}, which does not exist", change.partition);
                return Err(RecoveryError::damaged(at.file_byte(), why));
            };
            if self.wanted[change.partition.index()] && (llsn == 0 || epoch >= *begin) {
                sorted.of(change.partition).push(&change, llsn, at);
            }
        }
        Ok(())
    }
}

/// The files of a pod, as a plan has found them.
#[derive(Clone, Copy)]
pub(super) struct Sources<'p> {
    pub plan: &'p Plan,
    /// Of all hosts, in order.
    pub directories: &'p [Directory],
    pub catalog: &'p Catalog,
    /// Partitions of the pod.
    pub partitions: u16,
}

impl Sources<'_> {
    /// Reads the log of one host: what is in it, and the changes that count and are wanted, by partition.
    /// `turn` is called now and then.
    pub fn read_log<F: Fabric>(
        &self,
        cx: &Cx<F>,
        log: usize,
        wanted: impl Fn(PartitionId) -> bool,
        mut turn: impl FnMut(),
    ) -> Result<(Scan, Sorted), RecoveryError> {
        let (files, directory) = (&self.plan.hosts[log], &self.directories[log]);
        let host = files.manifest.host;
        assert_eq!(host, directory.host(), "a host's files are in its own directory");
        let mut sorting = Sorting::new(self.plan, self.partitions, wanted);
        let mut scanner = Scanner::new(files.manifest.pod, host);
        let mut buffer = ReadBuffer::default();
        for &segment in &files.segments {
            turn();
            let bytes = buffer.read(cx, directory, &segment_name(segment))?;
            scanner.segment(segment, bytes, |record, at| sorting.take(cx, host, record, at));
        }
        Ok((scanner.finish(), sorting.finish()?))
    }

    /// What one partition is made from; its changes are all here. `home` is the host that the partition was
    /// made for. Of the image only its directory is read.
    pub fn open<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        home: HostId,
        changes: Changes,
    ) -> Result<Stored, RecoveryError> {
        assert!(partition == REPLICAS || partition.0 < self.partitions, "partition {partition}");
        let files = self.image_files(partition, home)?;
        let directory = |files: &HostFiles| &self.directories[usize::from(files.manifest.host.0)];
        let image = files.map(|files| (directory(files), &files.manifest));
        Stored::open(cx, self.catalog, (partition, self.partitions), image, changes)
    }

    /// The host with the newest image of a partition, if there is one.
    fn image_files(&self, partition: PartitionId, home: HostId) -> Result<Option<&HostFiles>, RecoveryError> {
        // Every host keeps an image of replicated tables: its own is as good as any.
        let own = &self.plan.hosts[usize::from(home.0)];
        let its = Some(own).filter(|own| partition == REPLICAS && own.has_image(partition));
        match (its.or_else(|| self.plan.image_of(partition)), &own.manifest.checkpoint) {
            (None, Some(checkpoint)) if partition != REPLICAS => {
                let file = image_name(checkpoint.number, partition);
                Err(RecoveryError::Missing { host: home, file })
            }
            (found, _) => Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use liger_fabric::WorkerId;
    use liger_fabric::native::{Mapping, Native};

    use super::*;
    use crate::checksum::{checksum, checksum_from};
    use crate::log::record::{HEAD_BYTES, Op, Origin, RecordWriter, first_of};
    use crate::tables::key::Key;
    use crate::txn::TableId;

    const HOST: HostId = HostId(1);

    /// The record of one change of partition 0.
    fn record(epoch: u64) -> Vec<u8> {
        let mut writer = RecordWriter::default();
        writer.begin();
        writer.change((TableId(1), PartitionId(0)), Op::Delete, &Key::from_words(&[5]), 3);
        let origin = Origin { host: HOST, incarnation: 1, worker: 0 };
        writer.finish(first_of(epoch), 0, origin).to_vec()
    }

    /// The same with a change of a kind that there is not, and a checksum that fits: as another version may
    /// have written it.
    fn senseless(epoch: u64) -> Vec<u8> {
        let mut bytes = record(epoch);
        bytes[HEAD_BYTES] &= !3;
        let sum = checksum_from(checksum(&bytes[..4]), &bytes[8..]);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// What is taken of a record by who makes partition 0 from an image that begins with epoch 5.
    fn taken(bytes: &[u8], wanted: bool) -> Result<Sorted, RecoveryError> {
        let cx = Cx::new(Native::new(Mapping::anonymous(4096).expect("memory")), HOST, WorkerId(0), 0);
        let mut sorting = Sorting {
            pod: PodManifest::new(7, 8, 9, 2),
            durable_epoch: 9,
            begins: vec![5, 0],
            wanted: vec![wanted, false],
            least_begin: if wanted { 5 } else { u64::MAX },
            unfinished: (HOST, Unfinished::default()),
            sorted: Sorted::default(),
            misplaced: Ok(()),
        };
        let record = Record::parse(bytes).expect("its checksum fits");
        sorting.take(&cx, HOST, &record, LogPosition { segment: 4, byte: 160 });
        sorting.finish()
    }

    #[test]
    fn what_an_image_lacks_is_taken_by_who_wants_it() {
        let count = |epoch, wanted| taken(&record(epoch), wanted).expect("sane").take(PartitionId(0)).len();
        assert_eq!([count(4, true), count(5, true), count(5, false)], [0, 1, 0]);
    }

    #[test]
    fn a_change_that_makes_no_sense_is_damage_where_it_is_wanted() {
        let failed = taken(&senseless(5), true).expect_err("nobody knows what has changed");
        let said = failed.to_string();
        assert!(said.contains("160") && said.contains("change makes no sense"), "{said}");
        // All that it changes is in the image; or nobody here has the partition.
        assert!(taken(&senseless(4), true).expect("not walked").is_empty());
        assert!(taken(&senseless(5), false).expect("not walked").is_empty());
    }
}
