//! Where a pod's data is kept on this machine: a folder for each host, with its log and its checkpoints.
//!
//! Invariants:
//! 1. A folder is held by one process, from [`DataDirectory::hold`] on until the host has left or died.
//! 2. Nothing is served from files before [`DataDirectory::begin`] has made what they hold final.
//! 3. All hosts have read the files ([`DataDirectory::plan`]) before the first one joins: a host that has
//!    joined writes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use liger_fabric::disk::{Disk, DiskError};
use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::plan::Plan;

use crate::log::ship::LogOptions;
use crate::recovery::checkpointer::CheckpointOptions;
use crate::recovery::directory::{Directory, PodFiles};
use crate::recovery::manifest::{HostManifest, PodManifest};
use crate::recovery::salvage::{Dead, SalvageError, Salvaged};
use crate::recovery::{self, Identity, RecoveryError};

/// Why a pod's data directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The directory of a new pod holds one already.
    #[error("{} holds a pod: recover it, or name another directory", path.display())]
    HoldsPod {
        /// The directory.
        path: PathBuf,
    },
    /// There is no pod to recover.
    #[error("{} holds no pod", path.display())]
    NoPod {
        /// The directory.
        path: PathBuf,
    },
    /// The folders cannot be made, opened or held.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// What is in them is missing, damaged, or another pod's.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// What is in the memory cannot be brought to them.
    #[error(transparent)]
    Salvage(#[from] SalvageError),
}

/// The pod's manifest in its new generation, and what its memory had that the files had not.
pub type Begun = (PodManifest, Option<Salvaged>);

/// All folders, what is in them, and what has just been put there.
type Holding = (Vec<Directory>, recovery::Reading, Option<Salvaged>);

/// A pod's data on this machine.
#[derive(Clone, Debug)]
pub struct DataDirectory {
    path: PathBuf,
    identity: Identity,
    read: Arc<AtomicU64>,
}

/// What a host needs of it to keep a log, take checkpoints, and take over from hosts that die.
pub struct HostStorage {
    pub(super) files: PodFiles,
    pub(super) identity: Identity,
    pub(super) directory: Directory,
    pub(super) log: LogOptions,
    pub(super) manifest: HostManifest,
    pub(super) checkpoints: CheckpointOptions,
}

impl HostStorage {
    /// Sets the least time between two epochs of the log, in nanoseconds.
    pub fn set_epoch_ns(&mut self, epoch_ns: u64) {
        self.log.epoch_ns = epoch_ns;
    }

    /// Sets how many bytes of the host's log a recovery may have to read ([`CheckpointOptions`]): checkpoints
    /// are taken as often as that needs.
    pub fn set_replay_bytes(&mut self, replay_bytes: u64) {
        assert!(replay_bytes > 0, "a log has bytes");
        self.checkpoints.replay_bytes = replay_bytes;
        self.log.segment_bytes = self.checkpoints.segment_bytes();
    }

    /// Sets the share of a thread's time, in percent, for making rows that nobody asks for: when the host has
    /// started again, and when partitions have come to it.
    ///
    /// # Panics
    /// Unless it is 1 to 100.
    pub fn set_restore_percent(&mut self, percent: u8) {
        assert!((1..=100).contains(&percent), "{percent} percent of the time");
        self.checkpoints.restore_percent = percent.into();
    }
}

impl DataDirectory {
    /// Makes the folders and manifests of a new pod. `identity.pod` is a number of the pod's own.
    ///
    /// # Errors
    /// If there is a pod already, or the storage fails.
    pub fn create<F: Fabric>(cx: &Cx<F>, path: &Path, identity: Identity) -> Result<Self, StorageError> {
        let data = Self { path: path.to_owned(), identity, read: Arc::default() };
        // Makes the directory itself; nobody holds it for longer.
        assert!(identity.hosts > 0, "a pod has a host");
        drop(Disk::native(path)?);
        if data.manifest(cx)?.is_some() {
            return Err(StorageError::HoldsPod { path: path.to_owned() });
        }
        recovery::create(cx, &data.hold_all()?, &identity)?;
        Ok(data)
    }

    /// The pod in the directory, which must be as `identity` says, but for the pod's number.
    ///
    /// # Errors
    /// If there is none, or its manifest is damaged.
    pub fn open<F: Fabric>(cx: &Cx<F>, path: &Path, identity: Identity) -> Result<Self, StorageError> {
        let mut data = Self { path: path.to_owned(), identity, read: Arc::default() };
        let found = data.manifest(cx)?.ok_or_else(|| StorageError::NoPod { path: path.to_owned() })?;
        data.identity = identity.of_pod(&found);
        Ok(data)
    }

    /// What the pod in it is.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// How many bytes of logs and images were read through this and the directories that it has opened.
    pub fn bytes_read(&self) -> &Arc<AtomicU64> {
        &self.read
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the manifests and logs of all hosts, and decides what counts.
    ///
    /// # Errors
    /// If something is missing, damaged, or of another pod.
    pub fn plan<F: Fabric>(&self, cx: &Cx<F>) -> Result<recovery::Plan, StorageError> {
        Ok(recovery::Plan::make(cx, &self.look_all()?, &self.identity)?)
    }

    /// As [`DataDirectory::plan`], for files that [`DataDirectory::begin`] has made final just now: logs
    /// are not read for it, but by the hosts that load them.
    ///
    /// # Errors
    /// If a manifest is missing, damaged, or of another pod.
    pub fn plan_of_begun<F: Fabric>(&self, cx: &Cx<F>) -> Result<recovery::Plan, StorageError> {
        Ok(recovery::Plan::of_begun(cx, &self.look_all()?, &self.identity)?)
    }

    /// Makes what a plan found final, and begins the pod's next generation. Nobody may hold a folder.
    ///
    /// # Errors
    /// If somebody does, or the storage fails: then either nothing has happened, or all of it.
    pub fn begin<F: Fabric>(&self, cx: &Cx<F>) -> Result<PodManifest, StorageError> {
        let held = self.hold_all()?;
        let plan = recovery::Plan::make(cx, &held, &self.identity)?;
        Ok(recovery::begin_generation(cx, &held, &plan)?)
    }

    /// As [`DataDirectory::begin`], for a pod whose hosts are all dead and whose memory is still there:
    /// what only the memory holds is put into the logs before ([`recovery::salvage`]). Then the memory may
    /// be made anew.
    ///
    /// # Errors
    /// As there; and if a host lives, the memory is damaged, or not this pod's. No file has changed then.
    pub fn begin_from<F: Fabric>(
        &self,
        cx: &Cx<F>,
        memory: &Plan,
        dead: Dead,
    ) -> Result<Begun, StorageError> {
        let (held, reading, salvaged) = self.salvaged(cx, memory, dead)?;
        let plan = reading.finish()?;
        Ok((recovery::begin_generation(cx, &held, &plan)?, salvaged))
    }

    /// Puts what only the memory of a pod holds into its logs, and closes these: then the memory may go.
    ///
    /// # Errors
    /// As [`DataDirectory::begin_from`].
    pub fn salvage<F: Fabric>(&self, cx: &Cx<F>, memory: &Plan) -> Result<Option<Salvaged>, StorageError> {
        self.salvaged(cx, memory, Dead::Proven).map(|(_, _, salvaged)| salvaged)
    }

    fn salvaged<F: Fabric>(&self, cx: &Cx<F>, memory: &Plan, dead: Dead) -> Result<Holding, StorageError> {
        let held = self.hold_all()?;
        let mut reading = recovery::Reading::begin(cx, &held, &self.identity)?;
        let salvaged = recovery::salvage::salvage(cx, memory, &held, &mut reading, dead)?;
        assert_eq!(held.len(), usize::from(self.identity.hosts), "the folders of all hosts are held");
        Ok((held, reading, salvaged))
    }

    /// Gives the pod room for `hosts` hosts, more than it has: nobody may hold a folder, and the memory has
    /// nothing that the files lack. Then it has to be opened anew.
    ///
    /// # Errors
    /// If a folder is held, or the storage fails: then either nothing has happened, or all of it.
    pub fn widen<F: Fabric>(self, cx: &Cx<F>, hosts: u8) -> Result<(), StorageError> {
        assert!(hosts > self.identity.hosts, "{hosts} are no more than {}", self.identity.hosts);
        let wide = Self { identity: Identity { hosts, ..self.identity }, ..self };
        recovery::widen(cx, &wide.hold_all()?, &self.identity)?;
        Ok(())
    }

    /// For how many hosts the pod in a directory has room.
    ///
    /// # Errors
    /// If there is no pod, or its manifest is damaged.
    pub fn hosts_of<F: Fabric>(cx: &Cx<F>, path: &Path, identity: Identity) -> Result<u8, StorageError> {
        let data = Self { path: path.to_owned(), identity, read: Arc::default() };
        let found = data.manifest(cx)?.ok_or(StorageError::NoPod { path: data.path })?;
        Ok(found.hosts)
    }

    /// Takes hold of a host's folder, in the pod's present generation.
    ///
    /// # Errors
    /// If somebody holds it, or a manifest is damaged or another's.
    pub fn hold<F: Fabric>(&self, cx: &Cx<F>, host: HostId) -> Result<HostStorage, StorageError> {
        let pod = self.manifest(cx)?.ok_or_else(|| StorageError::NoPod { path: self.path.clone() })?;
        let directory = Directory::new(host, Disk::native(&self.folder(host))?);
        let manifest = recovery::read_host_manifest(cx, &directory, &self.identity)?;
        let (generation, first_epoch) = (pod.generation, pod.first_epoch);
        let mut log = LogOptions { pod: self.identity.pod, generation, first_epoch, ..LogOptions::default() };
        let checkpoints = CheckpointOptions::default();
        log.segment_bytes = checkpoints.segment_bytes();
        let (files, identity) = (PodFiles::Folders(self.path.clone()), self.identity);
        Ok(HostStorage { files, identity, directory, log, manifest, checkpoints })
    }

    /// The folders of all hosts, to read files that are final.
    ///
    /// # Errors
    /// If one is missing.
    pub fn look_all(&self) -> Result<Vec<Directory>, StorageError> {
        let look = |host| Ok(self.counting(host, Disk::look(&self.folder(host))?));
        self.hosts().map(look).collect()
    }

    fn hold_all(&self) -> Result<Vec<Directory>, StorageError> {
        let hold = |host| Ok(self.counting(host, Disk::native(&self.folder(host))?));
        self.hosts().map(hold).collect()
    }

    fn counting(&self, host: HostId, disk: Disk) -> Directory {
        Directory::new(host, disk).counting(self.read.clone())
    }

    fn hosts(&self) -> impl Iterator<Item = HostId> + use<> {
        (0..self.identity.hosts).map(HostId)
    }

    fn folder(&self, host: HostId) -> PathBuf {
        PodFiles::folder(&self.path, host)
    }

    /// The pod's manifest; none if there is no pod.
    fn manifest<F: Fabric>(&self, cx: &Cx<F>) -> Result<Option<PodManifest>, StorageError> {
        let first = HostId(0);
        if !self.folder(first).is_dir() {
            return Ok(None);
        }
        let home = Directory::new(first, Disk::look(&self.folder(first))?);
        match recovery::directory::read_whole(cx, &home, recovery::manifest::POD_MANIFEST) {
            Ok(bytes) => Ok(Some(PodManifest::decode(first, &bytes)?)),
            Err(RecoveryError::Missing { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use liger_pod::plan::PodConfig;
    use liger_pod::testing::TestPod;

    use super::*;

    #[test]
    fn a_folder_with_another_hosts_manifest_is_not_held() {
        let (memory, path) = (TestPod::new(&PodConfig::small(2, 1)), std::env::temp_dir());
        let (cx, path) = (memory.cx(0, 0), path.join(format!("liger-storage-{}", std::process::id())));
        let identity = Identity { pod: 7, configuration: 1, layouts: 2, older_layouts: 3, hosts: 2 };
        let data = DataDirectory::create(&cx, &path, identity).expect("a new folder");
        assert!(data.hold(&cx, HostId(0)).is_ok(), "it is its own");
        let manifest = |host| data.folder(HostId(host)).join(crate::recovery::manifest::HOST_MANIFEST);
        std::fs::copy(manifest(1), manifest(0)).expect("a file");
        let held = data.hold(&cx, HostId(0)).map(drop).expect_err("it is that of host 1");
        assert_eq!(held.to_string(), "host 0, manifest, byte 0: its host is 0x1, expected 0x0");
        std::fs::remove_dir_all(&path).expect("the folder is there");
    }
}
