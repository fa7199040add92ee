//! What a partition is made from: an image, and the changes behind it in the logs of all hosts.

use std::collections::BTreeMap;

use liger_fabric::{Cx, Fabric, HostId};

use super::Plan;
use super::directory::{Directory, read_whole};
use super::error::{FileByte, RecoveryError};
use super::image::{ImageReader, REPLICAS};
use super::manifest::image_name;
use super::replay::{Changes, RecordAt, RecoveredRow, Replayed, replay};
use crate::catalog::{Catalog, Kind};
use crate::log::record::{Change, Record, epoch_of};
use crate::log::scan::{Scan, Scanner};
use crate::log::segment::segment_name;
use crate::txn::TableId;

/// What reads the image that is not there.
type NoImage = fn(u64, &mut [u8]) -> Result<usize, RecoveryError>;

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
    ) -> Result<(Scan, BTreeMap<u16, Changes>), RecoveryError> {
        let (files, directory) = (&self.plan.hosts[log], &self.directories[log]);
        let host = files.manifest.host;
        let mut sorted: BTreeMap<u16, Changes> = BTreeMap::new();
        let mut misplaced = Ok(());
        let mut scanner = Scanner::new(files.manifest.pod, host);
        for &segment in &files.segments {
            turn();
            let bytes = read_whole(cx, directory, &segment_name(segment))?;
            scanner.segment(segment, &bytes, |record, spot| {
                let at = RecordAt { host, segment, byte: spot.byte };
                if misplaced.is_ok() && self.plan.counts(epoch_of(record.llsn())) {
                    misplaced = self.sort(record, at, &wanted, &mut sorted);
                }
            });
        }
        misplaced?;
        Ok((scanner.finish(), sorted))
    }

    fn sort(
        &self,
        record: &Record<'_>,
        at: RecordAt,
        wanted: &impl Fn(&Change<'_>) -> bool,
        sorted: &mut BTreeMap<u16, Changes>,
    ) -> Result<(), RecoveryError> {
        for change in record.changes() {
            if change.partition >= self.partitions {
                let why = format!("a record changes partition {}, which does not exist", change.partition);
                return Err(RecoveryError::damaged(at.file_byte(), why));
            }
            // Entries of indexes are there for those who resolve locks; they are made from rows here.
            let relation = self.catalog.relation(TableId(change.table));
            let is_entry = relation.is_ok_and(|relation| matches!(relation.kind, Kind::Index { .. }));
            if !is_entry && wanted(&change) && epoch_of(record.llsn()) >= self.plan.begin_of(change.partition)
            {
                sorted.entry(change.partition).or_default().push(&change, record.llsn(), at);
            }
        }
        Ok(())
    }

    /// Replays one partition, whose changes are all here, and shows its rows. `home` is the host that the
    /// partition was made for. Returns how many bytes of images were read, too.
    pub fn replay<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: u16,
        home: HostId,
        mut changes: Changes,
        put: impl FnMut(RecoveredRow<'_>) -> Result<(), RecoveryError>,
    ) -> Result<(Replayed, u64), RecoveryError> {
        changes.sort();
        let of = (partition, self.partitions);
        // Every host keeps an image of replicated tables: its own is as good as any.
        let own = &self.plan.hosts[usize::from(home.0)];
        let own = Some(own).filter(|own| partition == REPLICAS && own.has_image(partition));
        let Some(files) = own.or_else(|| self.plan.image_of(partition)) else {
            let home = &self.plan.hosts[usize::from(home.0)].manifest;
            if let Some(checkpoint) = &home.checkpoint
                && partition != REPLICAS
            {
                let file = image_name(checkpoint.number, partition);
                return Err(RecoveryError::Missing { host: home.host, file });
            }
            let none = None::<&mut ImageReader<'_, NoImage>>;
            return Ok((replay(self.catalog, of, none, &changes, put)?, 0));
        };
        let host = files.manifest.host;
        let directory = &self.directories[usize::from(host.0)];
        let checkpoint = files.manifest.checkpoint.as_ref().expect("it has the image");
        let name = image_name(checkpoint.number, partition);
        let missing = || RecoveryError::Missing { host, file: name.clone() };
        let entry = checkpoint.images.iter().find(|e| e.partition == partition).ok_or_else(missing)?;
        let file = directory.open(cx, &name)?.ok_or_else(missing)?;
        let read = |offset: u64, out: &mut [u8]| directory.read(cx, &file, offset, out);
        let head = checkpoint.image_head(&files.manifest, partition);
        let mut image = ImageReader::open(self.catalog, &name, &head, read)?;
        let done = replay(self.catalog, of, Some(&mut image), &changes, put)?;
        if image.seen() != entry.end {
            let why = format!("it holds {:?}, and its manifest says {:?}", image.seen(), entry.end);
            return Err(RecoveryError::damaged(FileByte::new(host, name, 0), why));
        }
        Ok((done, entry.end.bytes))
    }
}
