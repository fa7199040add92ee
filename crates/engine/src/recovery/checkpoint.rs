//! Taking a checkpoint: an image of every partition of a host, while transactions change them.
//!
//! It goes in steps, each of which copies or writes a little, or finds that it has to wait ([`Taking`]); so
//! whoever drives it decides what happens in between, and when. [`take`] drives one to its end.
//!
//! ```text
//! B = epoch; wait until B - 1 is durable      every transaction before B is applied
//! copy the rows of every partition, a few under each hold of its latch
//! E = epoch; wait until E is durable          nothing that was copied, and no deletion seen, can be lost
//! the manifest names it                       from here on it counts
//! ```
//!
//! Invariants:
//! 1. No latch is held while files are written, and no row is locked between two steps: whoever drives it is
//!    no worker.
//! 2. A checkpoint that was not finished leaves files that no manifest names; whoever gives it up removes
//!    them, or the next one writes over them.
//! 3. E is read behind the last row, and not taken from the rows: a row that is missing because a
//!    transaction of epoch E has deleted it has no version to tell.

use liger_fabric::disk::{DiskFile, Pages};
use liger_fabric::{Cx, Fabric};
use liger_pod::plan::PartitionId;

use super::directory::{Directory, remove_if_there, replace};
use super::error::RecoveryError;
use super::image::{BLOCK_BYTES, ImageEnd, ImageWriter, REPLICAS};
use super::manifest::{Checkpoint, HOST_MANIFEST, HostManifest, ImageEntry};
use super::recoverable::{CopiedUpTo, CopiesRows};
use crate::catalog::Relation;
use crate::files::image_numbers;
use crate::instance::Instance;
use crate::log::HostLog;
use crate::log::record::epoch_of;
use crate::tables::key::Key;
use crate::txn::TableId;

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
    /// Rows copied in one hold of a share's latch.
    pub rows_per_hold: usize,
    /// How often a locked row is tried before the checkpoint is given up.
    pub tries_max: u32,
    /// Bytes written at once.
    pub write_bytes: usize,
    /// Bytes after which a file is synced before it is whole: the log's own syncs wait for less.
    pub sync_bytes: u64,
    /// Bytes of a block of an image: what a restart reads for the first row that is wanted of it.
    pub block_bytes: usize,
}

impl Default for Pace {
    fn default() -> Self {
        let (write_bytes, sync_bytes, block_bytes) = (1 << 20, 8 << 20, BLOCK_BYTES);
        Self { rows_per_hold: 64, tries_max: 1 << 24, write_bytes, sync_bytes, block_bytes }
    }
}

impl Pace {
    /// Makes sure that a checkpoint can come to its end like this.
    ///
    /// # Panics
    /// If it cannot.
    pub(super) fn check(&self) {
        assert!(self.rows_per_hold > 0 && self.tries_max > 0, "a copy goes on, and tries a row: {self:?}");
        assert!(self.write_bytes > 0 && self.block_bytes > 0, "what is written has bytes: {self:?}");
    }
}

/// The log's epochs, as a host sees them.
pub struct LogEpochs<'h> {
    instance: &'h Instance,
    log: &'h HostLog,
}

impl<'h> LogEpochs<'h> {
    /// Those of a host that keeps a log.
    pub fn of(instance: &'h Instance) -> Option<Self> {
        instance.log().map(|log| Self { instance, log })
    }
}

impl<F: Fabric> EpochView<F> for LogEpochs<'_> {
    fn now(&self, cx: &Cx<F>) -> u64 {
        self.log.clock().now(cx)
    }

    fn durable(&self, cx: &Cx<F>) -> Result<u64, RecoveryError> {
        let (epoch, members) = (self.log.clock().now(cx), self.instance.members(cx));
        // Whoever asks waits: the epoch is to move on.
        self.log.is_durable(cx, epoch, || members)?;
        Ok(self.log.pod_durable(cx, members))
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
    host: &impl CopiesRows,
    directory: &Directory,
    manifest: &HostManifest,
    epochs: &impl EpochView<F>,
    pace: Pace,
) -> Result<HostManifest, RecoveryError> {
    let mut taking = Taking::begin(cx, host, manifest, (Contents::of(host), epochs), pace);
    loop {
        match taking.step(cx, host, directory, manifest, epochs)? {
            Step::Done(next) => return Ok(next),
            Step::Worked => {}
            Step::Waits => {
                host.attend(cx);
                cx.pause();
            }
        }
    }
}

/// What a step of a checkpoint did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Rows were copied or bytes written; there is more to do.
    Worked,
    /// It waits for an epoch, or for a row that is locked. Others have to run before it is tried again.
    Waits,
    /// It counts: this manifest is in force.
    Done(HostManifest),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    AwaitBegin,
    Copy,
    AwaitEnd,
}

/// What a checkpoint is to have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contents {
    /// The partitions of the host, by number: what of them is in its memory is copied.
    pub own: Vec<PartitionId>,
    /// Images of the earlier one that stay in force: others make partitions from them.
    pub kept: Vec<ImageEntry>,
}

impl Contents {
    /// All partitions of a host, and nothing else.
    pub fn of(host: &Instance) -> Self {
        Self { own: host.own_partitions().collect(), kept: Vec::new() }
    }
}

/// A checkpoint that is being taken. Dropped before its end, it leaves files that nobody names.
pub struct Taking {
    checkpoint: Checkpoint,
    pace: Pace,
    stage: Stage,
    /// Partitions that have no image yet, the next one last.
    left: Vec<PartitionId>,
    image: Option<Image>,
    newest: u64,
    kept: Vec<ImageEntry>,
}

impl Taking {
    /// Begins a checkpoint of the caller's host, behind the one that `manifest` names.
    pub fn begin<F: Fabric>(
        cx: &Cx<F>,
        host: &impl CopiesRows,
        manifest: &HostManifest,
        (contents, epochs): (Contents, &impl EpochView<F>),
        pace: Pace,
    ) -> Self {
        assert_eq!((host.id(), cx.host()), (manifest.host, manifest.host), "a host's own checkpoint");
        pace.check();
        let begin_epoch = epochs.now(cx);
        let number = manifest.checkpoint.as_ref().map_or(0, |earlier| earlier.number) + 1;
        let Contents { own, kept } = contents;
        assert!(kept.iter().all(|image| !own.contains(&image.partition)), "what is copied is not kept");
        let mut left: Vec<PartitionId> = own.into_iter().chain([REPLICAS]).collect();
        assert!(left.is_sorted_by(|a, b| a < b), "each partition once, replicated tables last: {left:?}");
        left.reverse();
        let checkpoint = Checkpoint { number, begin_epoch, end_epoch: 0, images: Vec::new() };
        Self { checkpoint, pace, stage: Stage::AwaitBegin, left, image: None, newest: 0, kept }
    }

    /// The epoch before which every transaction is in it.
    pub fn begin_epoch(&self) -> u64 {
        self.checkpoint.begin_epoch
    }

    /// Bytes of its images that are whole.
    pub fn bytes(&self) -> u64 {
        self.checkpoint.images.iter().map(|image| image.end.bytes).sum()
    }

    /// One step, with the same arguments each time.
    ///
    /// # Errors
    /// As [`take`]. It cannot go on then.
    pub fn step<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        host: &impl CopiesRows,
        directory: &Directory,
        manifest: &HostManifest,
        epochs: &impl EpochView<F>,
    ) -> Result<Step, RecoveryError> {
        let earlier = manifest.checkpoint.as_ref().map_or(0, |earlier| earlier.number);
        debug_assert_eq!(self.checkpoint.number, earlier + 1, "the same manifest as when it began");
        match self.stage {
            Stage::AwaitBegin => {
                debug_assert!(self.image.is_none() && self.checkpoint.images.is_empty(), "no row is copied");
                let begin = self.checkpoint.begin_epoch.saturating_sub(1);
                if !cx.sabotaged("checkpoint.await-begin") && epochs.durable(cx)? < begin {
                    return Ok(Step::Waits);
                }
                self.stage = Stage::Copy;
                Ok(Step::Worked)
            }
            Stage::Copy => self.copy(cx, host, directory, manifest, epochs),
            Stage::AwaitEnd => {
                let end = self.checkpoint.end_epoch;
                if !cx.sabotaged("checkpoint.await-end") && epochs.durable(cx)? < end {
                    return Ok(Step::Waits);
                }
                self.finish(cx, directory, manifest).map(Step::Done)
            }
        }
    }

    fn copy<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        host: &impl CopiesRows,
        directory: &Directory,
        manifest: &HostManifest,
        epochs: &impl EpochView<F>,
    ) -> Result<Step, RecoveryError> {
        if let Some(image) = &mut self.image {
            if !image.tables.is_empty() {
                return image.copy(cx, host, directory);
            }
            let entry = image.finish(cx, directory)?;
            self.newest = self.newest.max(entry.end.newest);
            let last = self.checkpoint.images.last();
            assert!(last.is_none_or(|last| last.partition < entry.partition), "images are by partition");
            self.checkpoint.images.push(entry);
            self.image = None;
        } else if let Some(partition) = self.left.pop() {
            let Checkpoint { number: checkpoint, begin_epoch, .. } = self.checkpoint;
            let entry = ImageEntry { partition, end: ImageEnd::default(), checkpoint, begin_epoch };
            self.image = Some(Image::begin(cx, host, directory, (entry, manifest), self.pace)?);
        } else {
            self.checkpoint.end_epoch = epochs.now(cx).max(epoch_of(self.newest));
            let Checkpoint { begin_epoch, end_epoch, .. } = self.checkpoint;
            assert!(begin_epoch <= end_epoch, "it ends in {end_epoch}, and has begun in {begin_epoch}");
            self.stage = Stage::AwaitEnd;
        }
        Ok(Step::Worked)
    }

    /// Makes it count.
    fn finish<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        directory: &Directory,
        manifest: &HostManifest,
    ) -> Result<HostManifest, RecoveryError> {
        assert!(self.left.is_empty() && self.image.is_none(), "every partition has an image that is whole");
        let earlier = manifest.checkpoint.as_ref().map_or(0, |earlier| earlier.begin_epoch);
        assert!(earlier <= self.checkpoint.begin_epoch, "a begin never falls, and the last one is {earlier}");
        directory.sync_names(cx)?;
        self.checkpoint.images.append(&mut self.kept);
        self.checkpoint.images.sort_by_key(|image| image.partition);
        let next = HostManifest { checkpoint: Some(self.checkpoint.clone()), ..manifest.clone() };
        replace(cx, directory, HOST_MANIFEST, &next.encode())?;
        remove_earlier(cx, directory, &self.checkpoint)?;
        Ok(next)
    }
}

/// True if the image of `partition` has rows of this relation.
fn is_in_image(relation: &Relation, partition: PartitionId) -> bool {
    relation.replicated == (partition == REPLICAS)
}

/// Removes the images of earlier checkpoints that are not in force any more.
fn remove_earlier<F: Fabric>(
    cx: &Cx<F>,
    directory: &Directory,
    now: &Checkpoint,
) -> Result<(), RecoveryError> {
    let is_kept = |(of, partition)| now.image_of(partition).is_some_and(|image| image.checkpoint == of);
    for name in directory.names(cx)? {
        if image_numbers(&name).is_some_and(|it| it.0 < now.number && !is_kept(it)) {
            directory.remove(cx, &name)?;
        }
    }
    Ok(())
}

/// Removes the images of a checkpoint that was given up: `number` is the one that counts. They take room.
///
/// # Errors
/// If the storage fails.
pub(super) fn remove_unfinished<F: Fabric>(
    cx: &Cx<F>,
    directory: &Directory,
    number: u64,
) -> Result<(), RecoveryError> {
    for name in directory.names(cx)? {
        if image_numbers(&name).is_some_and(|(of, _)| of > number) {
            directory.remove(cx, &name)?;
        }
    }
    Ok(())
}

/// An image that is being written.
struct Image {
    output: Output,
    writer: ImageWriter,
    entry: ImageEntry,
    pace: Pace,
    /// Tables that are not copied to their end, the next one last.
    tables: Vec<TableId>,
    /// Where that one goes on, if it has begun, and how often this row was tried.
    from: Option<Key>,
    tries: u32,
}

impl Image {
    fn begin<F: Fabric>(
        cx: &Cx<F>,
        host: &impl CopiesRows,
        directory: &Directory,
        (entry, manifest): (ImageEntry, &HostManifest),
        pace: Pace,
    ) -> Result<Self, RecoveryError> {
        assert_eq!((manifest.host, directory.host()), (host.id(), host.id()), "a host's own image");
        let (name, head, partition) = (entry.file_name(), entry.head(manifest), entry.partition);
        remove_if_there(cx, directory, &name)?;
        let file = directory.create_for_long_writes(cx, &name)?;
        let relations = host.catalog().relations().iter().rev();
        let tables = relations.filter(|r| is_in_image(r, partition)).map(|r| r.id).collect();
        let writer = ImageWriter::new(&head, pace.block_bytes);
        let pages = Pages::new(pace.write_bytes);
        let output = Output { file, pages, sync_bytes: pace.sync_bytes, unsynced: 0 };
        Ok(Self { output, writer, entry, pace, tables, from: None, tries: 0 })
    }

    /// Copies some rows of the table at hand.
    fn copy<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        host: &impl CopiesRows,
        directory: &Directory,
    ) -> Result<Step, RecoveryError> {
        let table = *self.tables.last().expect("a table is left");
        let relation = &host.catalog().relations()[table.index()];
        let (writer, partition) = (&mut self.writer, self.entry.partition);
        let mut copy = |key: &Key, version: u64, row: &[u8]| writer.row(table, key, version, row);
        let copied = if relation.replicated {
            host.replicas().each(cx, table, |key, version, row| copy(key, version, row.bytes()));
            CopiedUpTo::End
        } else {
            let from = self.from.unwrap_or_else(|| Key::zero(relation.key_words));
            let copied = host.copy_rows(cx, (partition, table), &from, self.pace.rows_per_hold, copy);
            if let CopiedUpTo::Before(next) | CopiedUpTo::Locked(next) = &copied {
                debug_assert!(*next >= from, "a copy goes on from {from:?} to {next:?}");
            }
            copied
        };
        let next = match copied {
            CopiedUpTo::End => {
                self.tables.pop();
                None
            }
            CopiedUpTo::Before(next) => Some(next),
            CopiedUpTo::Locked(next) => {
                self.tries = if self.from == Some(next) { self.tries + 1 } else { 1 };
                self.from = Some(next);
                if self.tries > self.pace.tries_max {
                    let (key, tries) = (Box::new(next), self.tries);
                    return Err(RecoveryError::Held { table, partition, key, tries });
                }
                return Ok(Step::Waits);
            }
        };
        (self.from, self.tries) = (next, 0);
        if self.writer.ready() >= self.pace.write_bytes {
            self.output.write(cx, directory, self.writer.take().as_slice())?;
        }
        Ok(Step::Worked)
    }

    fn finish<F: Fabric>(&mut self, cx: &Cx<F>, directory: &Directory) -> Result<ImageEntry, RecoveryError> {
        assert!(self.tables.is_empty() && self.from.is_none(), "an image has all tables to their ends");
        let end = self.writer.finish();
        self.output.write(cx, directory, self.writer.take().as_slice())?;
        self.output.finish(cx, directory)?;
        Ok(ImageEntry { end, ..self.entry })
    }
}

/// The file of an image: pieces of `write_bytes` go to it, and it is synced now and then.
struct Output {
    file: DiskFile,
    /// What is written at once.
    pages: Pages,
    sync_bytes: u64,
    unsynced: u64,
}

impl Output {
    fn write<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        directory: &Directory,
        bytes: &[u8],
    ) -> Result<(), RecoveryError> {
        let mut left = self.pages.fill(bytes);
        while self.pages.is_full() {
            self.write_pages(cx, directory)?;
            if self.unsynced >= self.sync_bytes {
                directory.sync(cx, &self.file)?;
                self.unsynced = 0;
            }
            left = self.pages.fill(left);
        }
        debug_assert!(left.is_empty(), "what is not in the file is in the pages");
        Ok(())
    }

    fn write_pages<F: Fabric>(&mut self, cx: &Cx<F>, directory: &Directory) -> Result<(), RecoveryError> {
        let bytes = self.pages.filled();
        directory.append(cx, &self.file, bytes)?;
        self.unsynced += bytes.len() as u64;
        self.pages.clear();
        Ok(())
    }

    fn finish<F: Fabric>(&mut self, cx: &Cx<F>, directory: &Directory) -> Result<(), RecoveryError> {
        self.write_pages(cx, directory)?;
        directory.sync(cx, &self.file)
    }
}
