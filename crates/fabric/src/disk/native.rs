//! Native storage: a directory of this machine, plain files, fdatasync. Writes are buffered by the system,
//! but not whole pages of a file that was made for long writes ([`Directory::create_for_long_writes`]).
//!
//! Invariants:
//! 1. The lock (flock on `.lock` in the directory) is held for as long as the directory is open; the kernel
//!    lets it go with the process, however that dies. The file itself stays.
//! 2. Every descriptor is close-on-exec, every file is reached from the directory's descriptor: renaming the
//!    directory under a running process does no harm.
//! 3. Files are private to their owner (mode 0600): they hold the database's rows.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::{
    AtFlags, CWD, Dir, FallocateFlags, FlockOperation, Mode, OFlags, fallocate, flock, fstatvfs, fsync,
    ftruncate, mkdirat, openat, renameat, unlinkat,
};
use rustix::io::Errno;

use super::error::Failure;
use super::pages::{PAGE, is_of_pages};

const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);
const LOCK: &str = ".lock";

/// A directory that this process holds, or only reads.
pub(super) struct Directory {
    fd: OwnedFd,
    /// Closing it lets the lock go. Without it, nothing can be changed.
    lock: Option<OwnedFd>,
    /// By the number of the file: what its appends hold, whichever handle they use.
    appending: Mutex<BTreeMap<u64, Weak<Mutex<()>>>>,
}

impl Directory {
    /// Opens and locks the directory, making it if it is not there.
    pub fn hold(path: &Path) -> Result<Self, Failure> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match mkdirat(CWD, path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        // Also if it was there: whoever made it may have died before this.
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        fsync(openat(CWD, parent.unwrap_or(Path::new(".")), flags, Mode::empty())?)?;
        let fd = openat(CWD, path, flags, Mode::empty())?;
        let lock_flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = openat(&fd, LOCK, lock_flags, PRIVATE_FILE)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { fd, lock: Some(lock), appending: Mutex::default() })
    }

    /// Opens the directory to read it, whoever holds it.
    pub fn look(path: &Path) -> Result<Self, Failure> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(CWD, path, flags, Mode::empty())?;
        Ok(Self { fd, lock: None, appending: Mutex::default() })
    }

    fn check_held(&self) -> Result<(), Failure> {
        if self.lock.is_some() { Ok(()) } else { Err(Errno::ROFS.into()) }
    }

    fn open_with(&self, name: &str, more: OFlags) -> Result<NativeFile, Failure> {
        assert_ne!(name, LOCK, "the lock is not opened by its name");
        let access = if self.lock.is_some() { OFlags::RDWR } else { OFlags::RDONLY };
        let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | more;
        let file = File::from(openat(&self.fd, name, flags, PRIVATE_FILE)?);
        let number = file.metadata()?.ino();
        let mut all = self.appending.lock().unwrap_or_else(PoisonError::into_inner);
        let appending = all.get(&number).and_then(Weak::upgrade).unwrap_or_default();
        all.retain(|_, other| other.strong_count() > 0);
        all.insert(number, Arc::downgrade(&appending));
        drop(all);
        Ok(NativeFile { file, past_cache: None, number, appending })
    }

    pub fn create(&self, name: &str) -> Result<NativeFile, Failure> {
        self.check_held()?;
        self.open_with(name, OFlags::CREATE | OFlags::EXCL)
    }

    pub fn create_for_long_writes(&self, name: &str) -> Result<NativeFile, Failure> {
        let made = self.create(name)?;
        let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Not every file system can.
        let past_cache = openat(&self.fd, name, flags, Mode::empty()).ok().map(File::from);
        assert!(made.past_cache.is_none(), "a file is made by way of the cache");
        Ok(NativeFile { past_cache, ..made })
    }

    pub fn open(&self, name: &str) -> Result<NativeFile, Failure> {
        self.open_with(name, OFlags::empty())
    }

    pub fn list(&self) -> Result<Vec<String>, Failure> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !name.starts_with('.') {
                names.push(name);
            }
        }
        names.sort_unstable();
        debug_assert!(!names.iter().any(|name| name == LOCK), "the lock is no file of the host");
        Ok(names)
    }

    pub fn remove(&self, name: &str) -> Result<(), Failure> {
        self.check_held()?;
        assert_ne!(name, LOCK, "a directory without its lock could be held twice");
        Ok(unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    pub fn rename(&self, from: &str, to: &str) -> Result<(), Failure> {
        self.check_held()?;
        assert!(from != LOCK && to != LOCK, "a directory without its lock could be held twice");
        Ok(renameat(&self.fd, from, &self.fd, to)?)
    }

    pub fn sync_names(&self) -> Result<(), Failure> {
        Ok(fsync(&self.fd)?)
    }

    pub fn free_bytes(&self) -> Result<u64, Failure> {
        let system = fstatvfs(&self.fd)?;
        Ok(system.f_bavail.saturating_mul(system.f_frsize))
    }
}

/// An open file.
pub(super) struct NativeFile {
    file: File,
    /// The same file, where writes go past the system's cache.
    past_cache: Option<File>,
    number: u64,
    /// Held from asking for the length to the end of the write.
    appending: Arc<Mutex<()>>,
}

impl NativeFile {
    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.write_all(offset, bytes)?)
    }

    fn write_all(&self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        let is_whole = offset.is_multiple_of(PAGE as u64) && is_of_pages(bytes);
        if let Some(file) = self.past_cache.as_ref().filter(|_| is_whole) {
            match file.write_all_at(bytes, offset) {
                // The device wants larger pages, or the file system changed its mind: the cache takes all.
                Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => {}
                written => return written,
            }
        }
        self.file.write_all_at(bytes, offset)
    }

    pub fn append(&self, bytes: &[u8]) -> Result<u64, Failure> {
        let _alone = self.appending.lock().unwrap_or_else(PoisonError::into_inner);
        let end = self.len()?;
        match self.write_all(end, bytes) {
            Ok(()) => Ok(end),
            Err(error) => {
                // Nothing is half-said. If even this fails, the device is broken and the next call says so.
                let _ = ftruncate(&self.file, end);
                Err(error.into())
            }
        }
    }

    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize, Failure> {
        let mut done = 0;
        while done < out.len() {
            match self.file.read_at(&mut out[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done)
    }

    pub fn len(&self) -> Result<u64, Failure> {
        Ok(self.file.metadata()?.len())
    }

    pub fn preallocate(&self, len: u64) -> Result<(), Failure> {
        let before = self.len()?;
        if len == 0 {
            return Ok(());
        }
        let taken = loop {
            match fallocate(&self.file, FallocateFlags::empty(), 0, len) {
                Err(Errno::INTR) => {}
                other => break other,
            }
        };
        if taken.is_err() && before < len {
            // The length may have grown before the space ran out.
            let _ = ftruncate(&self.file, before);
        }
        Ok(taken?)
    }

    pub fn truncate(&self, len: u64) -> Result<(), Failure> {
        if len < self.len()? {
            ftruncate(&self.file, len)?;
        }
        Ok(())
    }

    pub fn sync(&self) -> Result<(), Failure> {
        Ok(self.file.sync_data()?)
    }
}
