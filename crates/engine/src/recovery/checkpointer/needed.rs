//! How long an image is needed, and with it the logs behind its begin: until the checkpoint of another host has
//! a newer one of its partition. Partitions change hands while the pod lives, and at a restart; whoever has one
//! makes its rows from the newest image, wherever that is, until it has a checkpoint itself.
//!
//! Invariants:
//! 1. A host that lives replaces its checkpoint when the next one, or other hosts' checkpoints, have a newer
//!    image of each partition of it; its begin says until then what its images need of logs.
//! 2. A dead host's begin stands for its images. Whoever has a checkpoint that counts ends the begin if it finds
//!    that others have newer ones of all of them, and the host has not come back.

use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::plan::PartitionId;

use super::super::directory::{PodFiles, read_whole};
use super::super::error::RecoveryError;
use super::super::image::REPLICAS;
use super::super::manifest::{HOST_MANIFEST, HostManifest};
use super::super::recoverable::Recoverable;
use super::{begin_of, log_of};

/// True if the images that this host's next checkpoint replaces are not needed: each is of a partition that it
/// will have, or that the checkpoint of another host has a newer image of.
pub(super) fn may_replace<F: Fabric>(
    cx: &Cx<F>,
    host: &impl Recoverable,
    manifest: &HostManifest,
) -> Result<bool, RecoveryError> {
    assert_eq!(manifest.host, host.id(), "a host replaces its own checkpoint");
    let Some(files) = host.files() else { return Ok(true) };
    let own: Vec<PartitionId> = host.own_partitions().collect();
    let left = images(manifest).filter(|partition| !own.contains(partition)).collect();
    Ok(have_newer(cx, host, files, manifest, left)? || cx.sabotaged("checkpoint.keep-needed-images"))
}

/// Ends the begins of dead hosts from whose files nothing is loaded any more. What cannot be found out now is
/// found out when the next checkpoint counts.
pub(super) fn end_begins_of_dead<F: Fabric>(cx: &Cx<F>, host: &impl Recoverable) {
    let Some(files) = host.files() else { return };
    let log = log_of(host);
    for other in host.hosts().filter(|other| *other != host.id()) {
        let Some(begin) = log.begin_of_dead(cx, other) else { continue };
        let Ok(manifest) = manifest_of(cx, files, other) else { continue };
        // Without an image a partition is made from the whole log.
        let home = host.plan().partitions().filter(|partition| host.home(*partition) == other);
        let left = images(&manifest).chain(home).collect();
        let is_over = have_newer(cx, host, files, &manifest, left).unwrap_or(false);
        if is_over || cx.sabotaged("checkpoint.keep-begin-of-dead") {
            log.end_begin_of_dead(cx, other, begin);
        }
    }
}

/// The partitions of which a host's checkpoint has images; copies of replicated tables are everywhere.
fn images(manifest: &HostManifest) -> impl Iterator<Item = PartitionId> {
    let images = manifest.checkpoint.iter().flat_map(|it| &it.images);
    images.map(|image| image.partition).filter(|partition| *partition != REPLICAS)
}

/// True if the checkpoints of hosts other than that of `manifest` have images of all these partitions that are
/// newer than its own.
fn have_newer<F: Fabric>(
    cx: &Cx<F>,
    host: &impl Recoverable,
    files: &PodFiles,
    manifest: &HostManifest,
    mut left: Vec<PartitionId>,
) -> Result<bool, RecoveryError> {
    let mut others = host.hosts().filter(|other| *other != manifest.host);
    while !left.is_empty() {
        let Some(other) = others.next() else { return Ok(false) };
        let newer = manifest_of(cx, files, other)?;
        if begin_of(&newer) > begin_of(manifest) {
            left.retain(|partition| !images(&newer).any(|image| image == *partition));
        }
    }
    Ok(true)
}

fn manifest_of<F: Fabric>(cx: &Cx<F>, files: &PodFiles, host: HostId) -> Result<HostManifest, RecoveryError> {
    HostManifest::decode(host, &read_whole(cx, &files.look(host)?, HOST_MANIFEST)?)
}
