//! How long an image is needed, and with it the logs behind its begin: until the checkpoint of another host
//! has a newer one of its partition. Partitions change hands while the pod lives, and at a restart; whoever
//! has one makes its rows from the newest image, wherever that is, until it has a checkpoint itself.
//!
//! Invariants:
//! 1. An image of a partition that is not its host's any more stays in force, in each next checkpoint of that
//!    host, until another host has a newer one. So no checkpoint waits for another host's; and the begin of a
//!    host says what all of its images need of logs.
//! 2. A dead host's begin stands for its images. Whoever has a checkpoint that counts ends the begin if it
//!    finds that others have newer ones of all of them, and the host has not come back.

use std::collections::BTreeMap;

use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::plan::PartitionId;

use super::super::checkpoint::Contents;
use super::super::directory::{PodFiles, read_whole};
use super::super::error::RecoveryError;
use super::super::image::REPLICAS;
use super::super::manifest::{HOST_MANIFEST, HostManifest, ImageEntry};
use super::super::recoverable::Recoverable;
use super::log_of;

/// What this host's next checkpoint is to have: its own partitions, and the images of others that are needed.
pub(super) fn contents<F: Fabric>(
    cx: &Cx<F>,
    host: &impl Recoverable,
    manifest: &HostManifest,
) -> Result<Contents, RecoveryError> {
    assert_eq!(manifest.host, host.id(), "a host replaces its own checkpoint");
    // Once: what closes meanwhile is not given away before this checkpoint counts.
    let contents = Contents::of(host);
    let Some(files) = host.files() else { return Ok(contents) };
    let mut kept = images(manifest);
    kept.retain(|partition, _| !contents.own.contains(partition));
    without_newer(cx, host, files, manifest.host, &mut kept)?;
    if cx.sabotaged("checkpoint.keep-needed-images") {
        kept.clear();
    }
    Ok(Contents { kept: kept.into_values().collect(), ..contents })
}

/// Ends the begins of dead hosts from whose files nothing is loaded any more. What cannot be found out now is
/// found out when the next checkpoint counts.
pub(super) fn end_begins_of_dead<F: Fabric>(cx: &Cx<F>, host: &impl Recoverable) {
    let Some(files) = host.files() else { return };
    let log = log_of(host);
    for other in host.hosts().filter(|other| *other != host.id()) {
        let Some(begin) = log.begin_of_dead(cx, other) else { continue };
        let Ok(manifest) = manifest_of(cx, files, other) else { continue };
        let mut left = images(&manifest);
        // Without an image a partition is made from the whole log.
        for home in host.plan().partitions().filter(|partition| host.home(*partition) == other) {
            let nothing =
                ImageEntry { partition: home, end: Default::default(), checkpoint: 0, begin_epoch: 0 };
            left.entry(home).or_insert(nothing);
        }
        let is_over = without_newer(cx, host, files, other, &mut left).is_ok() && left.is_empty();
        if is_over || cx.sabotaged("checkpoint.keep-begin-of-dead") {
            log.end_begin_of_dead(cx, other, begin);
        }
    }
}

/// A host's images; copies of replicated tables are everywhere.
fn images(manifest: &HostManifest) -> BTreeMap<PartitionId, ImageEntry> {
    let images = manifest.images().iter().map(|image| (image.partition, *image));
    images.filter(|(partition, _)| *partition != REPLICAS).collect()
}

/// Takes those out of images of the host `of` that other hosts have newer ones of.
fn without_newer<F: Fabric>(
    cx: &Cx<F>,
    host: &impl Recoverable,
    files: &PodFiles,
    of: HostId,
    left: &mut BTreeMap<PartitionId, ImageEntry>,
) -> Result<(), RecoveryError> {
    for other in host.hosts().filter(|other| *other != of) {
        if left.is_empty() {
            break;
        }
        let newer = images(&manifest_of(cx, files, other)?);
        let is_newer = |image: &ImageEntry| {
            newer.get(&image.partition).is_some_and(|other| other.begin_epoch > image.begin_epoch)
        };
        left.retain(|_, image| !is_newer(image));
        debug_assert!(other != of && !left.contains_key(&REPLICAS), "images of partitions, of others");
    }
    Ok(())
}

fn manifest_of<F: Fabric>(cx: &Cx<F>, files: &PodFiles, host: HostId) -> Result<HostManifest, RecoveryError> {
    HostManifest::decode(host, &read_whole(cx, &files.look(host)?, HOST_MANIFEST)?)
}
