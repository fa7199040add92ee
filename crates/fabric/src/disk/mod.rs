//! Storage: one directory of files per host, for its log and its checkpoints. The contract is
//! docs/storage.md; in short:
//!
//! 1. Bytes are durable when a `sync` that began after their write has returned `Ok`, under a name that is
//!    durable: names (create, remove, rename) become so with `sync_names`, not with `sync`.
//! 2. Bytes that were written and not synced survive the death of the process. If the host loses power,
//!    each 512-byte sector of them is, by itself, new, old, or a mixture. Bytes that no unsynced write
//!    changed keep their value. A call that the process died in may have done a part of what it says.
//! 3. A `rename` replaces its target atomically: a crash leaves the old file or the new one.
//! 4. **A `sync` that failed ends the use of the file.** Nobody knows which bytes reached the medium, a
//!    second `sync` would say `Ok` without writing them, and reads may show bytes that a crash takes away. So
//!    the file is *distrusted* from then on: every call but `len` fails with [`DiskErrorKind::Distrusted`],
//!    on every handle of this `Disk`. After a failed `sync_names` the same holds for the changes of names.
//! 5. One process at a time holds a directory. It is let go when the last `Disk` and `DiskFile` of it is
//!    dropped or its process dies.
//!
//! A [`Disk`] is a value chosen at run time and not a type parameter: a system call costs microseconds, a
//! branch nothing. All calls take the context, so that in the simulator each of them is a scheduling point, a
//! crash point, and takes virtual time; on native disks they are plain system calls.
//!
//! Past the system's cache (O_DIRECT) go only whole pages of files that are made for long writes
//! ([`Disk::create_for_long_writes`]): copying them costs the workers' processors more than anything else
//! about a checkpoint. Not a log's: its cost is its `sync`, which is a device write with either way of
//! writing, and buffered writes need no aligned buffers and leave what a recovery reads first in the page
//! cache. `examples/disk_costs.rs` measures what writes and syncs cost (figures: docs/storage.md).
//!
//! What it does not do: checksums (formats own theirs), folders within the directory, reading ahead,
//! asynchronous calls: a thread that must not wait hands its write to one that may.

mod error;
mod file;
mod native;
mod pages;
mod sim;
mod temporary;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub use error::{DiskError, DiskErrorKind, DiskOp};
pub use file::DiskFile;
pub use pages::Pages;
pub(crate) use sim::{Cost, Progress, Step};
pub use sim::{Damage, DiskAnswer, DiskCall, DiskFault, SimDisks};
pub use temporary::{TemporaryDirectory, TemporaryFile};

use crate::cx::{Cx, HostId};
use crate::fabric::Fabric;
use error::Failure;

/// The least piece of a file that a crash decides about by itself, in bytes.
pub const SECTOR: usize = 512;

/// Longest name of a file, in bytes.
pub const NAME_BYTES_MAX: usize = 200;

// File systems take names of 255 bytes; pages are whole sectors.
const _: () = assert!(NAME_BYTES_MAX <= 255 && pages::PAGE.is_multiple_of(SECTOR));

/// One host's directory, held by this process. Clones are the same directory.
#[derive(Clone)]
pub struct Disk {
    shared: Arc<Shared>,
}

struct Shared {
    backend: Backend,
    /// The directory, as errors call it.
    path: String,
    /// Files whose sync failed, by their number in the directory's file system.
    distrusted: Mutex<BTreeSet<u64>>,
    names_distrusted: AtomicBool,
}

enum Backend {
    Native(native::Directory),
    Simulated {
        device: HostId,
        session: u64,
        /// While it lives, the simulated lock is held.
        _held: Arc<()>,
    },
}

impl Disk {
    /// Takes hold of a directory of this machine; makes it (and syncs its parent) if it does not exist.
    ///
    /// # Errors
    /// `Locked` if somebody holds it, or whatever the system says.
    pub fn native(directory: &Path) -> Result<Self, DiskError> {
        let path = directory.display().to_string();
        let held = native::Directory::hold(directory);
        let held = held.map_err(|failure| DiskError::new(DiskOp::Hold, &path, None, failure))?;
        Ok(Self::over(Backend::Native(held), path))
    }

    /// Opens a directory of this machine to read it, without holding it: whoever does may change it
    /// meanwhile, so this is for files that are final. Calls that change something fail.
    ///
    /// # Errors
    /// `Missing`, or whatever the system says.
    pub fn look(directory: &Path) -> Result<Self, DiskError> {
        let path = directory.display().to_string();
        let open = native::Directory::look(directory);
        let open = open.map_err(|failure| DiskError::new(DiskOp::Hold, &path, None, failure))?;
        Ok(Self::over(Backend::Native(open), path))
    }

    /// Takes hold of the simulated disk of `device`, which is any host of the pod: whoever takes over a dead
    /// host's disk moves it, and finds what a loss of power would have left.
    ///
    /// # Errors
    /// `Locked` if somebody holds it, `Failed` if it is broken.
    #[track_caller]
    pub fn simulated<F: Fabric>(cx: &Cx<F>, device: HostId) -> Result<Self, DiskError> {
        let path = format!("disk {}", device.0);
        let held = Arc::new(());
        let call = DiskCall::Hold { token: &held };
        match cx.fabric().simulated_disk(device, 0, call) {
            Ok(answer) => {
                let session = answer.number();
                assert_ne!(session, sim::LOOKS, "who holds a disk does not only look");
                Ok(Self::over(Backend::Simulated { device, session, _held: held }, path))
            }
            Err(kind) => Err(DiskError::new(DiskOp::Hold, &path, None, kind.into())),
        }
    }

    /// Opens the simulated disk of `device` to read it, without holding it; see [`Disk::look`].
    #[must_use]
    pub fn look_simulated(device: HostId) -> Self {
        let (held, path) = (Arc::new(()), format!("disk {}", device.0));
        Self::over(Backend::Simulated { device, session: sim::LOOKS, _held: held }, path)
    }

    fn over(backend: Backend, path: String) -> Self {
        let distrusted = Mutex::default();
        Self {
            shared: Arc::new(Shared { backend, path, distrusted, names_distrusted: AtomicBool::new(false) }),
        }
    }

    /// Makes an empty file. Its name is durable after [`Self::sync_names`].
    ///
    /// # Errors
    /// `Exists`, `BadName`, `Distrusted`, `Full` or whatever the system says.
    #[track_caller]
    pub fn create<F: Fabric>(&self, cx: &Cx<F>, name: &str) -> Result<DiskFile, DiskError> {
        self.create_with(cx, name, native::Directory::create)
    }

    /// As [`Self::create`], for a file of which nobody will read soon what is written to it: whole pages from
    /// [`Pages`] at whole pages of the file go past the system's cache, if the file system can do that.
    ///
    /// # Errors
    /// As [`Self::create`].
    #[track_caller]
    pub fn create_for_long_writes<F: Fabric>(&self, cx: &Cx<F>, name: &str) -> Result<DiskFile, DiskError> {
        self.create_with(cx, name, native::Directory::create_for_long_writes)
    }

    #[track_caller]
    fn create_with<F: Fabric>(
        &self,
        cx: &Cx<F>,
        name: &str,
        create: impl FnOnce(&native::Directory, &str) -> Result<native::NativeFile, Failure>,
    ) -> Result<DiskFile, DiskError> {
        self.check_name(DiskOp::Create, name)?;
        self.check_names_trusted(DiskOp::Create, name)?;
        let file = match &self.shared.backend {
            Backend::Native(directory) => create(directory, name).map(file::Inner::Native),
            Backend::Simulated { .. } => self.call(cx, DiskCall::Create { name }).map(file::Inner::simulated),
        };
        let file = DiskFile::new(self, name, file.map_err(|f| self.error(DiskOp::Create, name, None, f))?);
        // The number may be that of a removed file.
        self.distrusted().remove(&file.number());
        Ok(file)
    }

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// `Missing`, `BadName` or whatever the system says.
    #[track_caller]
    pub fn open<F: Fabric>(&self, cx: &Cx<F>, name: &str) -> Result<DiskFile, DiskError> {
        self.check_name(DiskOp::Open, name)?;
        let file = match &self.shared.backend {
            Backend::Native(directory) => directory.open(name).map(file::Inner::Native),
            Backend::Simulated { .. } => self.call(cx, DiskCall::Open { name }).map(file::Inner::simulated),
        };
        Ok(DiskFile::new(self, name, file.map_err(|f| self.error(DiskOp::Open, name, None, f))?))
    }

    /// The names of all files, sorted.
    ///
    /// # Errors
    /// Whatever the system says.
    #[track_caller]
    pub fn list<F: Fabric>(&self, cx: &Cx<F>) -> Result<Vec<String>, DiskError> {
        let names = match &self.shared.backend {
            Backend::Native(directory) => directory.list(),
            Backend::Simulated { .. } => self.call(cx, DiskCall::List).map(DiskAnswer::names),
        };
        names.map_err(|failure| self.error(DiskOp::List, "", None, failure))
    }

    /// Removes a file. Open handles go on; the space is free when they are gone.
    ///
    /// # Errors
    /// `Missing`, `BadName`, `Distrusted` or whatever the system says.
    #[track_caller]
    pub fn remove<F: Fabric>(&self, cx: &Cx<F>, name: &str) -> Result<(), DiskError> {
        self.check_name(DiskOp::Remove, name)?;
        self.check_names_trusted(DiskOp::Remove, name)?;
        let removed = match &self.shared.backend {
            Backend::Native(directory) => directory.remove(name),
            Backend::Simulated { .. } => self.call(cx, DiskCall::Remove { name }).map(drop),
        };
        removed.map_err(|failure| self.error(DiskOp::Remove, name, None, failure))
    }

    /// Gives the file `from` the name `to`; a file of that name is replaced in the same step. Sync the file's
    /// contents first: a durable name does not make them so.
    ///
    /// # Errors
    /// `Missing`, `BadName`, `Distrusted` or whatever the system says.
    #[track_caller]
    pub fn rename<F: Fabric>(&self, cx: &Cx<F>, from: &str, to: &str) -> Result<(), DiskError> {
        self.check_name(DiskOp::Rename, from)?;
        self.check_name(DiskOp::Rename, to)?;
        self.check_names_trusted(DiskOp::Rename, from)?;
        let renamed = match &self.shared.backend {
            Backend::Native(directory) => directory.rename(from, to),
            Backend::Simulated { .. } => self.call(cx, DiskCall::Rename { from, to }).map(drop),
        };
        renamed.map_err(|failure| self.error(DiskOp::Rename, from, None, failure))
    }

    /// Makes all earlier creates, removes and renames durable.
    ///
    /// # Errors
    /// `Failed` or whatever the system says; names cannot be changed through this `Disk` any more then.
    #[track_caller]
    pub fn sync_names<F: Fabric>(&self, cx: &Cx<F>) -> Result<(), DiskError> {
        self.check_names_trusted(DiskOp::SyncNames, "")?;
        let synced = match &self.shared.backend {
            Backend::Native(directory) => directory.sync_names(),
            Backend::Simulated { .. } => self.call(cx, DiskCall::SyncNames).map(drop),
        };
        synced.map_err(|failure| {
            self.shared.names_distrusted.store(true, Ordering::Relaxed);
            self.error(DiskOp::SyncNames, "", None, failure)
        })
    }

    /// Bytes that files of this directory may still take, as far as its file system knows now.
    ///
    /// # Errors
    /// Whatever the system says.
    #[track_caller]
    pub fn free_bytes<F: Fabric>(&self, cx: &Cx<F>) -> Result<u64, DiskError> {
        let free = match &self.shared.backend {
            Backend::Native(directory) => directory.free_bytes(),
            Backend::Simulated { .. } => self.call(cx, DiskCall::Free).map(DiskAnswer::number),
        };
        free.map_err(|failure| self.error(DiskOp::Free, "", None, failure))
    }

    /// The directory, as errors call it.
    pub fn path(&self) -> &str {
        &self.shared.path
    }

    #[track_caller]
    fn call<F: Fabric>(&self, cx: &Cx<F>, call: DiskCall<'_>) -> Result<DiskAnswer, Failure> {
        let Backend::Simulated { device, session, .. } = self.shared.backend else {
            unreachable!("only simulated disks are called")
        };
        cx.fabric().simulated_disk(device, session, call).map_err(Failure::from)
    }

    fn error(&self, op: DiskOp, name: &str, offset: Option<u64>, failure: Failure) -> DiskError {
        let path = &self.shared.path;
        let path = if name.is_empty() { path.clone() } else { format!("{path}/{name}") };
        DiskError::new(op, &path, offset, failure)
    }

    /// Names are one step of a path; those with a dot in front are ours (the lock).
    fn check_name(&self, op: DiskOp, name: &str) -> Result<(), DiskError> {
        let good = (1..=NAME_BYTES_MAX).contains(&name.len())
            && !name.starts_with('.')
            && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
        if good { Ok(()) } else { Err(self.error(op, name, None, DiskErrorKind::BadName.into())) }
    }

    fn check_names_trusted(&self, op: DiskOp, name: &str) -> Result<(), DiskError> {
        if !self.shared.names_distrusted.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(self.error(op, name, None, DiskErrorKind::Distrusted.into()))
    }

    fn distrusted(&self) -> std::sync::MutexGuard<'_, BTreeSet<u64>> {
        self.shared.distrusted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
