//! A host's directory, as checkpoints and recovery see it: whose it is goes into every error; and files that
//! are replaced as a whole.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use liger_fabric::disk::{Disk, DiskError, DiskErrorKind, DiskFile};
use liger_fabric::{Cx, Fabric, HostId};

use super::error::{FileByte, RecoveryError};

/// A host's directory of files.
#[derive(Clone)]
pub struct Directory {
    host: HostId,
    disk: Disk,
    /// Bytes that were read here, for whoever shows how far a long reading is.
    read: Option<Arc<AtomicU64>>,
}

impl Directory {
    /// The directory of `host`.
    pub fn new(host: HostId, disk: Disk) -> Self {
        Self { host, disk, read: None }
    }

    /// The same, which counts the bytes that are read.
    pub fn counting(self, read: Arc<AtomicU64>) -> Self {
        assert!(self.read.is_none(), "what is read is counted once");
        Self { read: Some(read), ..self }
    }

    /// Whose directory it is.
    pub fn host(&self) -> HostId {
        self.host
    }

    /// The storage beneath.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    fn failed(&self, file: &str, error: &DiskError) -> RecoveryError {
        let at = FileByte::new(self.host, file, error.offset.unwrap_or(0));
        let why = error.to_string();
        match error.kind {
            // After a sync nobody knows what is there, but another file may be written.
            DiskErrorKind::Full => RecoveryError::Full { at, why },
            _ => RecoveryError::Storage { at, why },
        }
    }

    /// Bytes that files here may still take.
    ///
    /// # Errors
    /// Whatever the storage says.
    pub fn free_bytes<F: Fabric>(&self, cx: &Cx<F>) -> Result<u64, RecoveryError> {
        self.disk.free_bytes(cx).map_err(|e| self.failed("", &e))
    }

    /// The names of all files, sorted.
    ///
    /// # Errors
    /// Whatever the storage says, here and below.
    pub fn names<F: Fabric>(&self, cx: &Cx<F>) -> Result<Vec<String>, RecoveryError> {
        let names = self.disk.list(cx).map_err(|e| self.failed("", &e))?;
        debug_assert!(names.is_sorted_by(|a, b| a < b), "names are sorted, and one file has each");
        Ok(names)
    }

    /// Opens a file; `None` if there is none of this name.
    ///
    /// # Errors
    /// Whatever the storage says.
    pub fn open<F: Fabric>(&self, cx: &Cx<F>, name: &str) -> Result<Option<DiskFile>, RecoveryError> {
        match self.disk.open(cx, name) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind == DiskErrorKind::Missing => Ok(None),
            Err(error) => Err(self.failed(name, &error)),
        }
    }

    /// Makes an empty file that was not there.
    ///
    /// # Errors
    /// Whatever the storage says.
    pub fn create<F: Fabric>(&self, cx: &Cx<F>, name: &str) -> Result<DiskFile, RecoveryError> {
        self.disk.create(cx, name).map_err(|e| self.failed(name, &e))
    }

    /// As [`Directory::create`], for long writes of what nobody will read soon.
    ///
    /// # Errors
    /// Whatever the storage says.
    pub fn create_for_long_writes<F: Fabric>(
        &self,
        cx: &Cx<F>,
        name: &str,
    ) -> Result<DiskFile, RecoveryError> {
        self.disk.create_for_long_writes(cx, name).map_err(|e| self.failed(name, &e))
    }

    /// Reads from an offset; fewer bytes than asked for only at the end of the file.
    ///
    /// # Errors
    /// Whatever the storage says.
    pub fn read<F: Fabric>(
        &self,
        cx: &Cx<F>,
        file: &DiskFile,
        offset: u64,
        out: &mut [u8],
    ) -> Result<usize, RecoveryError> {
        let there = file.read_at(cx, offset, out).map_err(|e| self.failed(file.name(), &e))?;
        if let Some(read) = &self.read {
            read.fetch_add(there as u64, Ordering::Relaxed);
        }
        Ok(there)
    }

    /// Bytes in a file.
    ///
    /// # Errors
    /// Whatever the storage says.
    pub fn len<F: Fabric>(&self, cx: &Cx<F>, file: &DiskFile) -> Result<u64, RecoveryError> {
        file.len(cx).map_err(|e| self.failed(file.name(), &e))
    }

    /// Writes behind the end of a file.
    ///
    /// # Errors
    /// Whatever the storage says.
    pub fn append<F: Fabric>(&self, cx: &Cx<F>, file: &DiskFile, bytes: &[u8]) -> Result<(), RecoveryError> {
        file.append(cx, bytes).map(drop).map_err(|e| self.failed(file.name(), &e))
    }

    /// Makes a file's contents durable.
    ///
    /// # Errors
    /// Whatever the storage says: nothing is known of the file then.
    pub fn sync<F: Fabric>(&self, cx: &Cx<F>, file: &DiskFile) -> Result<(), RecoveryError> {
        file.sync(cx).map_err(|e| self.failed(file.name(), &e))
    }

    /// Gives a file another name, which may be taken: that file is gone then.
    ///
    /// # Errors
    /// Whatever the storage says.
    pub fn rename<F: Fabric>(&self, cx: &Cx<F>, from: &str, to: &str) -> Result<(), RecoveryError> {
        assert_ne!(from, to, "a file gets another name");
        self.disk.rename(cx, from, to).map_err(|e| self.failed(from, &e))
    }

    /// Removes a file.
    ///
    /// # Errors
    /// Whatever the storage says.
    pub fn remove<F: Fabric>(&self, cx: &Cx<F>, name: &str) -> Result<(), RecoveryError> {
        self.disk.remove(cx, name).map_err(|e| self.failed(name, &e))
    }

    /// Makes names durable.
    ///
    /// # Errors
    /// Whatever the storage says.
    pub fn sync_names<F: Fabric>(&self, cx: &Cx<F>) -> Result<(), RecoveryError> {
        self.disk.sync_names(cx).map_err(|e| self.failed("", &e))
    }
}

/// Where the directories of all hosts of a pod are.
#[derive(Clone, Debug)]
pub enum PodFiles {
    /// Folders of one folder of this machine.
    Folders(PathBuf),
    /// The simulator's disks.
    Simulated,
}

impl PodFiles {
    /// A host's folder in the pod's.
    pub fn folder(pod: &Path, host: HostId) -> PathBuf {
        pod.join(format!("host-{}", host.0))
    }

    /// The directory of a host, to read it while somebody may hold it.
    ///
    /// # Errors
    /// Whatever the storage says.
    pub fn look(&self, host: HostId) -> Result<Directory, RecoveryError> {
        let disk = match self {
            Self::Folders(pod) => Disk::look(&Self::folder(pod, host)),
            Self::Simulated => Ok(Disk::look_simulated(host)),
        };
        Self::opened(host, disk)
    }

    /// The directory of a host, held by the caller.
    ///
    /// # Errors
    /// If somebody holds it, or whatever the storage says.
    pub fn hold<F: Fabric>(&self, cx: &Cx<F>, host: HostId) -> Result<Directory, RecoveryError> {
        let disk = match self {
            Self::Folders(pod) => Disk::native(&Self::folder(pod, host)),
            Self::Simulated => Disk::simulated(cx, host),
        };
        Self::opened(host, disk)
    }

    fn opened(host: HostId, disk: Result<Disk, DiskError>) -> Result<Directory, RecoveryError> {
        let failed = |error: DiskError| RecoveryError::Storage {
            at: FileByte::new(host, "", 0),
            why: error.to_string(),
        };
        Ok(Directory::new(host, disk.map_err(failed)?))
    }
}

/// True if these are the directories of hosts 0, 1, 2 and so on: a plan finds one by its host's number.
pub(super) fn are_in_order(directories: &[Directory]) -> bool {
    !directories.is_empty() && directories.iter().zip(0..).all(|(it, host)| it.host() == HostId(host))
}

/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 20;

/// All of a file.
///
/// # Errors
/// If it is missing, or whatever the storage says.
pub fn read_whole<F: Fabric>(
    cx: &Cx<F>,
    directory: &Directory,
    name: &str,
) -> Result<Vec<u8>, RecoveryError> {
    let mut buffer = ReadBuffer::default();
    let len = buffer.read(cx, directory, name)?.len();
    buffer.bytes.truncate(len);
    Ok(buffer.bytes)
}

/// Memory that files are read into, one after the other: memory that is new each time costs more than what
/// is read.
#[derive(Debug, Default)]
pub struct ReadBuffer {
    /// As long as the longest one so far.
    bytes: Vec<u8>,
}

impl ReadBuffer {
    /// All of a file.
    ///
    /// # Errors
    /// If it is missing, or whatever the storage says.
    pub fn read<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        directory: &Directory,
        name: &str,
    ) -> Result<&[u8], RecoveryError> {
        let missing = || RecoveryError::Missing { host: directory.host(), file: name.to_owned() };
        let file = directory.open(cx, name)?.ok_or_else(missing)?;
        let mut len = 0;
        loop {
            let end = len + READ_BYTES;
            if self.bytes.len() < end {
                self.bytes.resize(end, 0);
            }
            let there = directory.read(cx, &file, len as u64, &mut self.bytes[len..end])?;
            debug_assert!(there <= READ_BYTES, "no more is read than there is room for");
            len += there;
            if there < READ_BYTES {
                return Ok(&self.bytes[..len]);
            }
        }
    }
}

/// Makes a file hold `bytes`: whoever dies in between leaves what was there, or this.
///
/// # Errors
/// Whatever the storage says.
pub fn replace<F: Fabric>(
    cx: &Cx<F>,
    directory: &Directory,
    name: &str,
    bytes: &[u8],
) -> Result<(), RecoveryError> {
    let new = format!("{name}.new");
    assert!(!bytes.is_empty(), "{name} is replaced by something");
    let file = create_anew(cx, directory, &new)?;
    directory.append(cx, &file, bytes)?;
    directory.sync(cx, &file)?;
    directory.rename(cx, &new, name)?;
    directory.sync_names(cx)
}

/// Makes an empty file in place of one that an earlier try may have left.
///
/// # Errors
/// Whatever the storage says.
pub fn create_anew<F: Fabric>(
    cx: &Cx<F>,
    directory: &Directory,
    name: &str,
) -> Result<DiskFile, RecoveryError> {
    remove_if_there(cx, directory, name)?;
    directory.create(cx, name)
}

/// Removes a file that an earlier try may have left.
///
/// # Errors
/// Whatever the storage says.
pub fn remove_if_there<F: Fabric>(
    cx: &Cx<F>,
    directory: &Directory,
    name: &str,
) -> Result<(), RecoveryError> {
    if directory.open(cx, name)?.is_some() { directory.remove(cx, name) } else { Ok(()) }
}
