//! Taking a checkpoint: an image of every partition of a host, while transactions change them.
//!
//! ```text
//! B = epoch; wait until B - 1 is durable      every transaction before B is applied
//! copy the rows of every partition, a few under each hold of its latch
//! E = epoch; wait until E is durable          nothing that was copied, and no deletion seen, can be lost
//! the manifest names it                       from here on it counts
//! ```
//!
//! Invariants:
//! 1. No latch is held while files are written, and no row is locked between two steps.
//! 2. A checkpoint that was not finished leaves files that no manifest names; the next one writes over them.
//! 3. E is read behind the last row, and not taken from the rows: a row that is missing because a
//!    transaction of epoch E has deleted it has no version to tell.

use liger_fabric::disk::DiskFile;
use liger_fabric::{Cx, Fabric};

use super::directory::{Directory, create_anew, replace};
use super::error::RecoveryError;
use super::image::{ImageWriter, REPLICAS};
use super::manifest::{Checkpoint, HOST_MANIFEST, HostManifest, ImageEntry, image_name};
use crate::catalog::{Kind, Relation};
use crate::key::Key;
use crate::log::record::epoch_of;
use crate::row::{CopiedUpTo, RowHost};

/// Protocol steps that a test can leave out.
pub const SABOTAGE_STEPS: &[&str] = &["checkpoint.await-begin", "checkpoint.await-end"];

/// What a checkpoint is told of epochs.
pub trait EpochView<F: Fabric> {
    /// The pod's epoch.
    fn now(&self, cx: &Cx<F>) -> u64;

    /// The pod's durable epoch; just before the first epoch of a generation when nothing of it is durable
    /// yet. Who asks waits for it: the epoch is to move on.
    ///
    /// # Errors
    /// If it will not move on any more: a log has failed.
    fn durable(&self, cx: &Cx<F>) -> Result<u64, RecoveryError>;
}

/// How a checkpoint goes about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Rows copied in one hold of a partition's latch.
    pub rows_per_hold: usize,
    /// How often a locked row is tried before the checkpoint is given up.
    pub tries_max: u32,
    /// Bytes written at once.
    pub write_bytes: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self { rows_per_hold: 64, tries_max: 1 << 24, write_bytes: 1 << 20 }
    }
}

/// Takes a checkpoint of the caller's host behind the one that `manifest` names, makes it valid, and
/// returns the manifest that is in force then. The files of the earlier one are removed.
///
/// The worker runs no transaction meanwhile; it serves other hosts while it waits.
///
/// # Errors
/// If the storage fails, or a row stays locked: the earlier checkpoint is valid then, unless it was the
/// storage and the manifest has been replaced already.
pub fn take<F: Fabric>(
    cx: &Cx<F>,
    host: &RowHost,
    directory: &Directory,
    manifest: &HostManifest,
    epochs: &impl EpochView<F>,
    pace: Pace,
) -> Result<HostManifest, RecoveryError> {
    assert_eq!((host.id(), cx.host()), (manifest.host, manifest.host), "a host's own checkpoint");
    let begin_epoch = epochs.now(cx);
    if !cx.sabotaged("checkpoint.await-begin") {
        wait_until_durable(cx, host, epochs, begin_epoch.saturating_sub(1))?;
    }
    let number = manifest.checkpoint.as_ref().map_or(0, |earlier| earlier.number) + 1;
    let mut checkpoint = Checkpoint { number, begin_epoch, end_epoch: 0, images: Vec::new() };
    let mut newest = 0;
    for partition in host.own_partitions().chain([REPLICAS]) {
        let mut image = Image::begin(cx, directory, &checkpoint, manifest, partition, pace)?;
        for relation in host.catalog().relations().iter().filter(|r| is_in_image(r, partition)) {
            image.copy(cx, host, relation)?;
        }
        let entry = image.finish(cx)?;
        newest = newest.max(entry.end.newest);
        checkpoint.images.push(entry);
    }
    checkpoint.end_epoch = epochs.now(cx).max(epoch_of(newest));
    if !cx.sabotaged("checkpoint.await-end") {
        wait_until_durable(cx, host, epochs, checkpoint.end_epoch)?;
    }
    directory.sync_names(cx)?;
    let next = HostManifest { checkpoint: Some(checkpoint), ..manifest.clone() };
    replace(cx, directory, HOST_MANIFEST, &next.encode())?;
    remove_earlier(cx, directory, number)?;
    Ok(next)
}

/// True if the image of `partition` has rows of this relation. Indexes are built from rows.
fn is_in_image(relation: &Relation, partition: u16) -> bool {
    matches!(relation.kind, Kind::Table { .. }) && relation.replicated == (partition == REPLICAS)
}

fn wait_until_durable<F: Fabric>(
    cx: &Cx<F>,
    host: &RowHost,
    epochs: &impl EpochView<F>,
    epoch: u64,
) -> Result<(), RecoveryError> {
    while epochs.durable(cx)? < epoch {
        host.attend(cx);
        cx.pause();
    }
    Ok(())
}

/// Removes the images of checkpoints before `number`.
fn remove_earlier<F: Fabric>(cx: &Cx<F>, directory: &Directory, number: u64) -> Result<(), RecoveryError> {
    for name in directory.names(cx)? {
        let of = name.strip_prefix("image-").and_then(|rest| rest.split('-').next()?.parse::<u64>().ok());
        if of.is_some_and(|of| of < number) {
            directory.remove(cx, &name)?;
        }
    }
    Ok(())
}

/// An image that is being written.
struct Image<'d> {
    directory: &'d Directory,
    file: DiskFile,
    writer: ImageWriter,
    partition: u16,
    pace: Pace,
}

impl<'d> Image<'d> {
    fn begin<F: Fabric>(
        cx: &Cx<F>,
        directory: &'d Directory,
        checkpoint: &Checkpoint,
        manifest: &HostManifest,
        partition: u16,
        pace: Pace,
    ) -> Result<Self, RecoveryError> {
        let file = create_anew(cx, directory, &image_name(checkpoint.number, partition))?;
        let writer = ImageWriter::new(&checkpoint.image_head(manifest, partition));
        Ok(Self { directory, file, writer, partition, pace })
    }

    /// Copies the rows of one table.
    fn copy<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        host: &RowHost,
        relation: &Relation,
    ) -> Result<(), RecoveryError> {
        let table = relation.id;
        if relation.replicated {
            let writer = &mut self.writer;
            host.copy_replica(cx, table, |key, version, row| writer.row(table.0, key, version, row));
            return self.write(cx);
        }
        let (mut from, mut tries) = (Key::zero(relation.key_words), 0);
        loop {
            let (place, writer) = ((self.partition, table), &mut self.writer);
            let copied = host.copy_rows(cx, place, &from, self.pace.rows_per_hold, |key, version, row| {
                writer.row(table.0, key, version, row);
            });
            match copied {
                CopiedUpTo::End => return Ok(()),
                CopiedUpTo::Before(next) => (from, tries) = (next, 0),
                CopiedUpTo::Locked(next) => {
                    tries = if next == from { tries + 1 } else { 1 };
                    from = next;
                    if tries > self.pace.tries_max {
                        let (partition, key) = (self.partition, Box::new(next));
                        return Err(RecoveryError::Held { table, partition, key, tries });
                    }
                    host.attend(cx);
                    cx.pause();
                }
            }
            if self.writer.ready() >= self.pace.write_bytes {
                self.write(cx)?;
            }
        }
    }

    fn write<F: Fabric>(&mut self, cx: &Cx<F>) -> Result<(), RecoveryError> {
        self.directory.append(cx, &self.file, &self.writer.take())
    }

    fn finish<F: Fabric>(mut self, cx: &Cx<F>) -> Result<ImageEntry, RecoveryError> {
        let end = self.writer.finish();
        self.write(cx)?;
        self.directory.sync(cx, &self.file)?;
        Ok(ImageEntry { partition: self.partition, end })
    }
}
