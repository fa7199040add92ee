//! What partitions are made from, as a plan has found it: which image, and the changes behind it in the logs
//! of all hosts.

use std::collections::BTreeMap;

use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::plan::PartitionId;

use super::directory::{Directory, read_whole};
use super::error::RecoveryError;
use super::image::REPLICAS;
use super::replay::{Changes, RecordAt};
use super::stored::Stored;
use super::{HostFiles, Plan};
use crate::catalog::Catalog;
use crate::files::{image_name, segment_name};
use crate::log::fragments::{Next, Unfinished};
use crate::log::record::{Change, Record, epoch_of};
use crate::log::scan::{Scan, Scanner};

/// Protocol steps that a test can leave out.
pub(super) const SABOTAGE_STEPS: &[&str] = &[
    "recovery.take-fragments",
    "recovery.take-last-of-several",
    "recovery.await-the-last",
    "recovery.heed-images",
];

/// Changes, by partition.
pub(super) type Sorted = BTreeMap<PartitionId, Changes>;

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
        wanted: impl Fn(&Change<'_>) -> bool,
        mut turn: impl FnMut(),
    ) -> Result<(Scan, Sorted), RecoveryError> {
        let (files, directory) = (&self.plan.hosts[log], &self.directories[log]);
        let host = files.manifest.host;
        assert_eq!(host, directory.host(), "a host's files are in its own directory");
        let mut sorted = Sorted::new();
        let mut unfinished = Unfinished::<Sorted>::default();
        let mut misplaced = Ok(());
        let mut scanner = Scanner::new(files.manifest.pod, host);
        for &segment in &files.segments {
            turn();
            let bytes = read_whole(cx, directory, &segment_name(segment))?;
            scanner.segment(segment, &bytes, |record, spot| {
                let at = RecordAt { host, segment, byte: spot.byte };
                if misplaced.is_ok() {
                    misplaced = self.take(cx, record, at, &wanted, (&mut unfinished, &mut sorted));
                }
            });
        }
        misplaced?;
        Ok((scanner.finish(), sorted))
    }

    /// Takes the next record of a log: its changes, and those of fragments before it that count now.
    fn take<F: Fabric>(
        &self,
        cx: &Cx<F>,
        record: &Record<'_>,
        at: RecordAt,
        wanted: &impl Fn(&Change<'_>) -> bool,
        (unfinished, sorted): (&mut Unfinished<Sorted>, &mut Sorted),
    ) -> Result<(), RecoveryError> {
        let epoch = epoch_of(record.llsn());
        match unfinished.next(record) {
            // Whether it counts, and where, the last one says.
            Next::Waits(Some(_)) if cx.sabotaged("recovery.await-the-last") => {
                return self.sort(record, at, wanted, sorted);
            }
            Next::Waits(Some(kept)) => return self.sort(record, at, wanted, kept),
            Next::Waits(None) => return Ok(()),
            _ if !self.plan.counts(epoch) => return Ok(()),
            Next::Counts => {}
            Next::Ends(_) if cx.sabotaged("recovery.take-fragments") => {}
            Next::Ends(kept) => {
                for (partition, mut changes) in kept {
                    changes.set_version(record.llsn());
                    if epoch >= self.plan.begin_of(partition) || cx.sabotaged("recovery.heed-images") {
                        sorted.entry(partition).or_default().append(changes);
                    }
                }
                if cx.sabotaged("recovery.take-last-of-several") {
                    return Ok(());
                }
            }
            Next::LacksFragments => {
                // Whatever they have changed: no image may lack it.
                if (0..self.partitions).any(|number| epoch >= self.plan.begin_of(PartitionId(number))) {
                    let why = "records of the same transaction that were before it are missing";
                    return Err(RecoveryError::damaged(at.file_byte(), why));
                }
            }
        }
        self.sort(record, at, wanted, sorted)
    }

    /// Sorts the changes of a record into partitions: of those of a fragment nobody knows yet whether an
    /// image has them.
    fn sort(
        &self,
        record: &Record<'_>,
        at: RecordAt,
        wanted: &impl Fn(&Change<'_>) -> bool,
        sorted: &mut Sorted,
    ) -> Result<(), RecoveryError> {
        let (llsn, epoch) = (record.llsn(), epoch_of(record.llsn()));
        debug_assert!(llsn == 0 || self.plan.counts(epoch), "a record that counts, or may");
        for change in record.changes() {
            if change.partition.0 >= self.partitions {
                let why = format!("a record changes partition {}, which does not exist", change.partition);
                return Err(RecoveryError::damaged(at.file_byte(), why));
            }
            if wanted(&change) && (llsn == 0 || epoch >= self.plan.begin_of(change.partition)) {
                sorted.entry(change.partition).or_default().push(&change, llsn, at);
            }
        }
        Ok(())
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
