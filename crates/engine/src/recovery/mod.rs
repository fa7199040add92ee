//! A pod comes back after its memory was lost: from checkpoints and logs to rows in partitions.
//!
//! 0. if the memory is there after all, [`salvage`] puts what only it holds into the logs;
//! 1. [`Plan::make`] reads what all hosts' directories hold, and decides up to which epoch it counts;
//! 2. [`Loading`] puts the rows of one host where they belong, with as many workers as call it;
//! 3. [`begin_generation`] makes it final, in one step: from then on the same files give the same pod.
//!
//! Invariants:
//! 1. Until the pod's manifest is replaced nothing has changed, and recovery may be killed and started again.
//! 2. Nothing is guessed: whatever does not fit is an error that names host, file and byte.
//! 3. What recovery has read and counted is on storage before the pod's manifest says that it counts: a
//!    process that died may have left bytes that can be read and were never synced.
//!
//! [`image`], [`manifest`] and [`replay`] are the parts; [`checkpoint`] makes what is read here, and
//! [`checkpointer`] does so from time to time, and removes what is not needed any more.
//! docs/protocols/log.md has the rules and the formats.

pub mod backup;
pub mod checkpoint;
pub mod checkpointer;
pub mod directory;
pub mod error;
pub mod image;
pub mod image_file;
mod loading;
pub mod manifest;
mod reading;
mod recoverable;
pub mod replay;
pub mod salvage;
mod sources;
mod stored;
mod takeover;

use liger_fabric::{Cx, Fabric};
use liger_pod::plan::PartitionId;

use crate::catalog::Catalog;
use crate::files::segment_name;
use crate::log::scan::{Marks, Scan};
use crate::log::segment::LogPosition;
use directory::{Directory, are_in_order, replace};
use manifest::{HOST_MANIFEST, HostManifest, ImageEntry, POD_MANIFEST, PodManifest};

pub use error::{BrokenChain, FileByte, RecoveryError};
pub use loading::{Loaded, Loading};
pub use reading::{Reading, ReadsAlong};
pub(crate) use reading::{read_host_manifest, show_records};
pub use recoverable::{CopiedUpTo, CopiesRows, Recoverable, RestoreStep, RestoresRows};
pub use stored::Stored;
pub(crate) use takeover::Rebuilding;
pub use takeover::load_replicas;

/// Protocol steps of checkpoints, of reading and of salvage that a mutation test can leave out.
pub fn sabotage_steps() -> impl Iterator<Item = &'static str> {
    let writing = [checkpoint::SABOTAGE_STEPS, checkpointer::SABOTAGE_STEPS];
    let reading = [reading::SABOTAGE_STEPS, sources::SABOTAGE_STEPS, salvage::SABOTAGE_STEPS];
    let all = writing.into_iter().chain(reading);
    all.flatten().copied()
}

/// What all hosts of a pod agree on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The pod.
    pub pod: u64,
    /// Hash of its configuration.
    pub configuration: u64,
    /// Hash of the tables' layouts (`Catalog::hash`).
    pub layouts: u64,
    /// The same in directories of pods that are older than that hash (`Catalog::hash_of_text`).
    pub older_layouts: u64,
    /// Number of hosts.
    pub hosts: u8,
}

impl Identity {
    /// What hosts with these tables agree on.
    pub fn new(pod: u64, configuration: u64, tables: &Catalog, hosts: u8) -> Self {
        Self { pod, configuration, layouts: tables.hash(), older_layouts: tables.hash_of_text(), hosts }
    }

    /// What the pod of this manifest is called, if the tables are the same: it keeps its number, and the hash
    /// that it was born with.
    pub(crate) fn of_pod(self, pod: &PodManifest) -> Self {
        let is_older = pod.layouts == self.older_layouts;
        Self { pod: pod.pod, layouts: if is_older { self.older_layouts } else { self.layouts }, ..self }
    }
}

/// Makes the manifests of a pod that has no row yet. The pod exists when its own manifest does.
///
/// # Errors
/// Whatever the storage says.
pub fn create<F: Fabric>(
    cx: &Cx<F>,
    directories: &[Directory],
    identity: &Identity,
) -> Result<PodManifest, RecoveryError> {
    assert_eq!(directories.len(), usize::from(identity.hosts), "one directory a host");
    assert!(are_in_order(directories), "the directories of all hosts");
    for directory in directories {
        let manifest = HostManifest::new(identity.pod, directory.host(), identity.layouts);
        replace(cx, directory, HOST_MANIFEST, &manifest.encode())?;
    }
    let Identity { pod, configuration, layouts, hosts, .. } = *identity;
    let manifest = PodManifest::new(pod, configuration, layouts, hosts);
    replace(cx, &directories[0], POD_MANIFEST, &manifest.encode())?;
    Ok(manifest)
}

/// Gives a pod that nobody runs room for more hosts: as many as there are `directories`. `identity` is that
/// of the pod before. Whoever dies in between leaves a pod of as many hosts as before, and does it again.
///
/// # Errors
/// If the pod's manifest is another's or damaged, or whatever the storage says.
pub fn widen<F: Fabric>(
    cx: &Cx<F>,
    directories: &[Directory],
    identity: &Identity,
) -> Result<PodManifest, RecoveryError> {
    assert!(are_in_order(directories), "the directories of all hosts");
    let (old, new) = directories.split_at(usize::from(identity.hosts));
    let mut pod = reading::read_pod(cx, old, identity)?;
    for directory in new {
        let manifest = HostManifest::new(identity.pod, directory.host(), identity.layouts);
        replace(cx, directory, HOST_MANIFEST, &manifest.encode())?;
    }
    pod.hosts = directories.len() as u8;
    assert_eq!(usize::from(pod.hosts), directories.len(), "a host has a number of eight bits");
    // From here on there are more.
    replace(cx, &directories[0], POD_MANIFEST, &pod.encode())?;
    Ok(pod)
}

/// What one host's directory holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostFiles {
    /// Its manifest.
    pub manifest: HostManifest,
    /// Numbers of the segments that were read.
    pub segments: Vec<u32>,
    /// What is in them; `None`: they were not read, because what counts had been decided before.
    pub scan: Option<Scan>,
}

impl HostFiles {
    /// True if its checkpoint has an image of this partition.
    pub fn has_image(&self, partition: PartitionId) -> bool {
        self.image(partition).is_some()
    }

    fn image(&self, partition: PartitionId) -> Option<&ImageEntry> {
        self.manifest.images().iter().find(|image| image.partition == partition)
    }

    /// True if nothing of the pod's generation counts beyond the last mark of this log: not if it is closed,
    /// or the host has not been a member in that generation.
    fn holds_back(&self, pod: &PodManifest) -> bool {
        let Marks { closed, generation, .. } = self.read().marks;
        // Whoever has taken a checkpoint has been a member.
        !closed && (generation == pod.generation || self.end_epoch() >= pod.first_epoch)
    }

    /// The last epoch that its checkpoint has something of; 0 if it has none.
    fn end_epoch(&self) -> u64 {
        self.manifest.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.end_epoch)
    }

    /// The least epoch that has to be applied to its images.
    pub fn begin_epoch(&self) -> u64 {
        self.manifest.needed_epoch()
    }

    /// What is in its log.
    ///
    /// # Panics
    /// If the log was not read.
    pub fn read(&self) -> &Scan {
        self.scan.as_ref().expect("its log was read")
    }

    /// The segment that its log goes on with, and how many bytes of the segment before it count.
    pub fn next_segment(&self) -> (u32, u64) {
        match self.segments.is_empty() {
            true => (self.manifest.first_segment, 0),
            false => {
                let LogPosition { segment, byte } = self.read().end.at();
                debug_assert!(segment >= self.manifest.first_segment, "its log ends in {segment}");
                (segment + 1, byte)
            }
        }
    }
}

/// What is to be recovered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The pod's manifest.
    pub pod: PodManifest,
    /// The hosts' files, by host.
    pub hosts: Vec<HostFiles>,
    /// The last epoch of the present generation that counts; just before its first one if none does.
    pub durable_epoch: u64,
}

impl Plan {
    /// Reads all manifests and logs. `directories` are those of all hosts, in order.
    ///
    /// # Errors
    /// If a file is missing, damaged, or of another pod.
    pub fn make<F: Fabric>(
        cx: &Cx<F>,
        directories: &[Directory],
        identity: &Identity,
    ) -> Result<Self, RecoveryError> {
        Reading::begin(cx, directories, identity)?.finish()
    }

    /// Decides what counts of what was read.
    fn decide(pod: PodManifest, hosts: Vec<HostFiles>) -> Result<Self, RecoveryError> {
        assert!(!hosts.is_empty(), "a pod has hosts");
        let open = hosts.iter().filter(|files| files.holds_back(&pod));
        let least = open.map(|files| files.read().marks.last.max(pod.first_epoch - 1)).min();
        // If all hosts are dead and fenced, everything is in their logs.
        let newest = || hosts.iter().map(|files| files.read().newest_epoch).max().unwrap_or(0);
        let durable_epoch = least.unwrap_or_else(|| newest().max(pod.first_epoch - 1));
        assert!(durable_epoch >= pod.first_epoch - 1, "what ended before counts by its own cut");
        let plan = Self { pod, hosts, durable_epoch };
        plan.check()?;
        Ok(plan)
    }

    /// The plan of files whose generation has begun ([`begin_generation`]), and that nobody has written to
    /// since: what counts is decided, so the logs are read only once, by whoever loads them. Also of a pod
    /// that lives, for whoever wants images alone; a file that has been removed meanwhile is missing then.
    ///
    /// # Errors
    /// If a manifest is missing, damaged, or of another pod.
    pub fn of_begun<F: Fabric>(
        cx: &Cx<F>,
        directories: &[Directory],
        identity: &Identity,
    ) -> Result<Self, RecoveryError> {
        let pod = reading::read_pod(cx, directories, identity)?;
        let look = |directory| reading::look_at_host(cx, directory, identity);
        let hosts = directories.iter().map(look).collect::<Result<Vec<_>, _>>()?;
        let durable_epoch = pod.first_epoch - 1;
        Ok(Self { pod, hosts, durable_epoch })
    }

    /// Reads manifests and logs of a pod that lives: what counts are the records up to epoch `upto`, which is
    /// durable. Logs go on meanwhile.
    ///
    /// # Errors
    /// If a file is missing, damaged, or of another pod. A segment that has been removed meanwhile is
    /// missing, too: try again.
    pub fn of_living<F: Fabric>(
        cx: &Cx<F>,
        directories: &[Directory],
        identity: &Identity,
        upto: u64,
        along: &mut impl ReadsAlong,
    ) -> Result<Self, RecoveryError> {
        // What counts is known before any log is read: images do not go while somebody may want them.
        let mut plan = Self { durable_epoch: upto, ..Self::of_begun(cx, directories, identity)? };
        along.begins(&plan);
        for (files, directory) in plan.hosts.iter_mut().zip(directories) {
            *files = reading::read_log(cx, directory, files.manifest.clone(), along)?;
            let Marks { last, .. } = files.read().marks;
            if last < upto && files.holds_back(&plan.pod) {
                let why = format!("the log ends with a mark of epoch {last}, and epoch {upto} is durable");
                return Err(RecoveryError::damaged(end_of(files), why));
            }
        }
        Ok(plan)
    }

    /// Bytes of all logs that were read.
    pub(crate) fn log_bytes(&self) -> u64 {
        debug_assert!(self.hosts.iter().all(|files| files.scan.is_some()), "all logs were read");
        self.hosts.iter().map(|files| files.read().bytes).sum()
    }

    /// The host whose checkpoint has the newest image of a partition, if there is one: its owner then. (An
    /// earlier owner's may be left, too.)
    pub fn image_of(&self, partition: PartitionId) -> Option<&HostFiles> {
        self.newest_image(partition).map(|(files, _)| files)
    }

    fn newest_image(&self, partition: PartitionId) -> Option<(&HostFiles, &ImageEntry)> {
        let images = self.hosts.iter().filter_map(|files| Some((files, files.image(partition)?)));
        images.max_by_key(|(_, image)| image.begin_epoch)
    }

    /// The least epoch that has to be applied to a partition's image.
    pub fn begin_of(&self, partition: PartitionId) -> u64 {
        self.newest_image(partition).map_or(0, |(_, image)| image.begin_epoch)
    }

    /// True if records of this epoch count.
    pub fn counts(&self, epoch: u64) -> bool {
        self.pod.counts(epoch, self.durable_epoch)
    }

    /// The first epoch that nobody has used.
    pub fn next_epoch(&self) -> u64 {
        let used = self.hosts.iter().map(|files| files.read().newest_epoch.max(files.end_epoch())).max();
        used.unwrap_or(0).max(self.durable_epoch).max(self.pod.first_epoch) + 1
    }

    /// Checks the hosts' files against each other: whoever knew that an epoch was durable in the whole pod
    /// knew that every host's log had a mark of it.
    fn check(&self) -> Result<(), RecoveryError> {
        let marks = self.hosts.iter().map(|files| files.read().marks.pod.max(files.end_epoch()));
        let cuts = self.pod.ended.iter().map(|cut| cut.last_epoch);
        let known = marks.chain(cuts).max().unwrap_or(0);
        for files in &self.hosts {
            let Marks { last, .. } = files.read().marks;
            if last < known && files.holds_back(&self.pod) {
                let why = format!(
                    "the log ends with a mark of epoch {last}, and epoch {known} was known to be durable in \
                     the whole pod"
                );
                return Err(RecoveryError::damaged(end_of(files), why));
            }
        }
        let lost = self.hosts.iter().find(|files| files.end_epoch() > 0 && !self.counts(files.end_epoch()));
        if let Some(files) = lost {
            let why = format!("its checkpoint ends in epoch {}, which was never durable", files.end_epoch());
            let at = FileByte::new(files.manifest.host, HOST_MANIFEST, 0);
            return Err(RecoveryError::damaged(at, why));
        }
        Ok(())
    }
}

/// Where a host's log ends.
fn end_of(files: &HostFiles) -> FileByte {
    let LogPosition { segment, byte } = files.read().end.at();
    FileByte::new(files.manifest.host, segment_name(segment), byte)
}

fn check_same(at: &FileByte, pairs: &[(&'static str, u64, u64)]) -> Result<(), RecoveryError> {
    match pairs.iter().find(|(_, found, expected)| found != expected) {
        None => Ok(()),
        Some(&(what, found, expected)) => {
            Err(RecoveryError::Foreign { at: at.clone(), what, found, expected })
        }
    }
}

/// Makes a recovery final: the pod's next generation begins with an epoch that nobody has used. Every host's
/// log goes on with `HostFiles::next_segment` of the plan.
///
/// # Errors
/// Whatever the storage says. Then either nothing has happened, or all of it: a new plan tells.
pub fn begin_generation<F: Fabric>(
    cx: &Cx<F>,
    directories: &[Directory],
    plan: &Plan,
) -> Result<PodManifest, RecoveryError> {
    assert!(are_in_order(directories), "the directories of all hosts");
    assert_eq!(directories.len(), plan.hosts.len(), "one directory a host");
    for (directory, files) in directories.iter().zip(&plan.hosts) {
        for &number in files.segments.iter().filter(|number| **number <= files.read().end.at().segment) {
            let name = segment_name(number);
            let missing = || RecoveryError::Missing { host: directory.host(), file: name.clone() };
            let file = directory.open(cx, &name)?.ok_or_else(missing)?;
            directory.sync(cx, &file)?;
        }
        directory.sync_names(cx)?;
    }
    let oldest_begin = plan.hosts.iter().map(HostFiles::begin_epoch).min().unwrap_or(0);
    let next = plan.pod.next_generation(plan.durable_epoch, plan.next_epoch(), oldest_begin);
    assert!(next.first_epoch > plan.pod.first_epoch, "each generation has epochs of its own");
    replace(cx, &directories[0], POD_MANIFEST, &next.encode())?;
    for (directory, files) in directories.iter().zip(&plan.hosts) {
        let torn = files.segments.iter().filter(|number| **number > files.read().end.at().segment);
        for &number in torn.clone() {
            directory.remove(cx, &segment_name(number))?;
        }
        if torn.count() > 0 {
            directory.sync_names(cx)?;
        }
    }
    Ok(next)
}

#[cfg(test)]
mod tests;
