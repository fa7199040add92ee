//! A host's directory in memory, with the calls that the log makes of storage.
//!
//! Invariants:
//! 1. What a sync that returned `Ok` covered is there after [`Disk::lose_power`]; of the rest, any prefix.
//! 2. Each call is a point where other workers run and hosts die.
//!
//! Not here: real storage.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use liger_fabric::{Cx, Fabric};

/// What went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiskErrorKind {
    /// No space is left.
    #[error("no space is left: free some, or give it more")]
    Full,
    /// The device is broken.
    #[error("the device failed")]
    Failed,
    /// No such file.
    #[error("it does not exist")]
    Missing,
    /// A file of this name exists.
    #[error("it exists already")]
    Exists,
}

/// A storage call that failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{path}: {kind}")]
pub struct DiskError {
    /// The file.
    pub path: String,
    /// What happened.
    pub kind: DiskErrorKind,
}

#[derive(Default)]
struct File {
    bytes: Vec<u8>,
    synced: usize,
    named: bool,
    /// What a failed sync did not write; a later one does not try again.
    lost: Vec<std::ops::Range<usize>>,
}

#[derive(Default)]
struct Files {
    files: BTreeMap<String, File>,
    /// Syncs that succeed before one fails.
    good_syncs: Option<u64>,
    /// Bytes that all files may have.
    room: Option<usize>,
}

/// One host's directory. Clones are the same directory.
#[derive(Clone, Default)]
pub struct Disk {
    shared: Arc<Mutex<Files>>,
}

/// An open file.
#[derive(Clone)]
pub struct DiskFile {
    disk: Disk,
    name: String,
}

impl Disk {
    fn files(&self) -> MutexGuard<'_, Files> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(name: &str, kind: DiskErrorKind) -> DiskError {
        DiskError { path: name.to_owned(), kind }
    }

    /// Makes an empty file; its name is durable after [`Self::sync_names`].
    ///
    /// # Errors
    /// `Exists`.
    pub fn create<F: Fabric>(&self, cx: &Cx<F>, name: &str) -> Result<DiskFile, DiskError> {
        cx.pause();
        let mut files = self.files();
        if files.files.contains_key(name) {
            return Err(Self::error(name, DiskErrorKind::Exists));
        }
        files.files.insert(name.to_owned(), File::default());
        Ok(DiskFile { disk: self.clone(), name: name.to_owned() })
    }

    /// The names of all files, sorted.
    ///
    /// # Errors
    /// None here.
    pub fn list<F: Fabric>(&self, cx: &Cx<F>) -> Result<Vec<String>, DiskError> {
        cx.pause();
        Ok(self.files().files.keys().cloned().collect())
    }

    /// Removes a file.
    ///
    /// # Errors
    /// `Missing`.
    pub fn remove<F: Fabric>(&self, cx: &Cx<F>, name: &str) -> Result<(), DiskError> {
        cx.pause();
        let removed = self.files().files.remove(name);
        removed.map(drop).ok_or_else(|| Self::error(name, DiskErrorKind::Missing))
    }

    /// Makes all earlier creates and removes durable.
    ///
    /// # Errors
    /// None here.
    pub fn sync_names<F: Fabric>(&self, cx: &Cx<F>) -> Result<(), DiskError> {
        cx.pause();
        self.files().files.values_mut().for_each(|file| file.named = true);
        Ok(())
    }

    /// What a loss of power leaves: names that were synced, and of each file what was synced and up to
    /// `beyond` bytes more.
    pub fn lose_power(&self, beyond: usize) {
        self.files().files.retain(|_, file| {
            file.bytes.truncate(file.synced + beyond);
            for lost in &file.lost {
                let there = lost.start.min(file.bytes.len())..lost.end.min(file.bytes.len());
                file.bytes[there].fill(0);
            }
            file.named
        });
    }

    /// The bytes of a file as they are; for tests.
    pub fn contents(&self, name: &str) -> Vec<u8> {
        self.files().files.get(name).map(|file| file.bytes.clone()).unwrap_or_default()
    }

    /// After so many more syncs, one fails; for tests.
    pub fn fail_sync_after(&self, syncs: u64) {
        self.files().good_syncs = Some(syncs);
    }

    /// The files together can have so many bytes; for tests.
    pub fn limit(&self, bytes: usize) {
        self.files().room = Some(bytes);
    }
}

impl DiskFile {
    /// Writes behind the end and says at which offset.
    ///
    /// # Errors
    /// `Full`, `Missing`; the length is what it was.
    pub fn append<F: Fabric>(&self, cx: &Cx<F>, bytes: &[u8]) -> Result<u64, DiskError> {
        cx.pause();
        let mut files = self.disk.files();
        let used: usize = files.files.values().map(|file| file.bytes.len()).sum();
        if files.room.is_some_and(|room| used + bytes.len() > room) {
            return Err(Disk::error(&self.name, DiskErrorKind::Full));
        }
        let file = files.files.get_mut(&self.name);
        let file = file.ok_or_else(|| Disk::error(&self.name, DiskErrorKind::Missing))?;
        let offset = file.bytes.len() as u64;
        file.bytes.extend_from_slice(bytes);
        Ok(offset)
    }

    /// Makes everything that was written before this call durable.
    ///
    /// # Errors
    /// `Failed`, `Missing`.
    pub fn sync<F: Fabric>(&self, cx: &Cx<F>) -> Result<(), DiskError> {
        let written = self.disk.files().files.get(&self.name).map(|file| file.bytes.len());
        cx.pause();
        cx.pause();
        let mut files = self.disk.files();
        let fails = files.good_syncs == Some(0);
        files.good_syncs = files.good_syncs.and_then(|left| left.checked_sub(1));
        match (files.files.get_mut(&self.name), written) {
            (Some(file), Some(written)) => {
                let unsynced = file.synced..written;
                file.synced = file.synced.max(written);
                if fails {
                    file.lost.push(unsynced);
                    return Err(Disk::error(&self.name, DiskErrorKind::Failed));
                }
                Ok(())
            }
            _ => Err(Disk::error(&self.name, DiskErrorKind::Missing)),
        }
    }
}
