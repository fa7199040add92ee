//! Which memory a native pod lives in, as a value that a command line can carry.
//!
//! | text | what it is | `create(len)` | `open()` |
//! |---|---|---|---|
//! | `memfd` | memory without a name, for one process and its children | makes it | refused: children open `fd:N` |
//! | `fd:N` | a memfd inherited as descriptor N | refused: it exists | its size |
//! | `file:PATH` | a file on tmpfs | makes the file; its space is promised, and taken page by page as it is used | its size |
//! | | a file on hugetlbfs, famfs or any other file system | makes the file, all space taken at once | its size |
//! | `dax:PATH` | a devdax character device | as `open`, must be large enough | size from sysfs |
//! | `pci:PATH` | a PCI memory BAR (`/sys/bus/pci/devices/../resource2`, ivshmem) | as `open`, must be large enough | its size |
//!
//! A bare path says which of the last three it is by where it lies (`/dev/dax..`, `/sys/..`, anything else).
//!
//! Invariants:
//! 1. A full file system is an error here, not a SIGBUS later. Created files hold all their space
//!    (fallocate), but for those on tmpfs: one is made only if the file system and the memory of the machine
//!    have room for all of it and for what files beside it may still take up to their lengths.
//! 2. What is mapped is a whole number of lines; of devices and huge pages, a whole number of their own unit.
//!
//! It does not say what the memory contains (crate `pod`), nor removes files.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fstatfs, ftruncate, memfd_create,
};
use rustix::io::Errno;

use super::mapping::Mapping;
use crate::addr::LINE;

/// Which memory; see the table at the head of this file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MemorySpec {
    /// New memory without a name.
    Memfd,
    /// A memfd inherited from the parent process.
    Fd(RawFd),
    /// A file.
    File(PathBuf),
    /// A devdax character device.
    Dax(PathBuf),
    /// A PCI resource file.
    Pci(PathBuf),
}

/// Why memory could not be named, made or mapped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The text names no kind of memory.
    #[error(
        "'{text}' names no memory: write memfd, fd:NUMBER, file:PATH, dax:PATH, pci:PATH or an absolute path"
    )]
    Unknown {
        /// The text given.
        text: String,
    },
    /// `create` where the memory exists already.
    #[error("{spec} exists already: open it, or remove it first")]
    AlreadyExists {
        /// The memory.
        spec: MemorySpec,
    },
    /// `open` of something that can only be created.
    #[error("{spec} has no name to open it by: the process that made it hands its number on, as fd:NUMBER")]
    NotOpenable {
        /// The memory.
        spec: MemorySpec,
    },
    /// Nothing there.
    #[error("{spec} does not exist: create it first, or correct the path")]
    NotFound {
        /// The memory.
        spec: MemorySpec,
    },
    /// Not allowed.
    #[error("{spec}: no permission to {what}: run as its owner, or change its mode")]
    NoPermission {
        /// The memory.
        spec: MemorySpec,
        /// What was tried.
        what: &'static str,
    },
    /// Exists, but is another kind of thing.
    #[error("{spec} is {found}, not {expected}")]
    WrongKind {
        /// The memory.
        spec: MemorySpec,
        /// What it is.
        found: &'static str,
        /// What it has to be.
        expected: &'static str,
    },
    /// Smaller than needed.
    #[error("{spec} has {len} bytes, {needed} are needed: give it more, or ask for a smaller pod")]
    TooSmall {
        /// The memory.
        spec: MemorySpec,
        /// Bytes it has.
        len: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// The size is not a whole number of the memory's unit.
    #[error("{spec}: {len} bytes are not a whole number of its {unit}-byte units: round up to {rounded}")]
    Misaligned {
        /// The memory.
        spec: MemorySpec,
        /// Bytes asked for or found.
        len: u64,
        /// Bytes in a line, huge page or device unit.
        unit: u64,
        /// The next length that fits.
        rounded: u64,
    },
    /// The file system is full.
    #[error("{spec}: no space for {needed} bytes, {free} are free: enlarge it, or ask for a smaller pod")]
    NoSpace {
        /// The memory.
        spec: MemorySpec,
        /// Bytes asked for.
        needed: u64,
        /// Bytes the file system has left.
        free: u64,
    },
    /// The memory of the machine is taken, or promised to other files.
    #[error(
        "{spec}: no room for {needed} bytes: {free} are free, and {promised} of them are promised to files \
         beside it that may still grow to their lengths: end other pods, remove what ended ones have left \
         (`liger clean`), or ask for a smaller pod"
    )]
    Promised {
        /// The memory.
        spec: MemorySpec,
        /// Bytes asked for.
        needed: u64,
        /// Bytes that nobody uses.
        free: u64,
        /// Bytes that other files may still take.
        promised: u64,
    },
    /// The file system does not take space in advance (famfs).
    #[error(
        "{spec}: its file system cannot take space in advance: make the file with its own tool, then open it"
    )]
    CannotAllocate {
        /// The memory.
        spec: MemorySpec,
    },
    /// Anything else the system says.
    #[error("{spec}: cannot {what}: {source}")]
    System {
        /// The memory.
        spec: MemorySpec,
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

impl FromStr for MemorySpec {
    type Err = MemoryError;

    fn from_str(text: &str) -> Result<Self, MemoryError> {
        let unknown = || MemoryError::Unknown { text: text.to_owned() };
        if text == "memfd" {
            return Ok(Self::Memfd);
        }
        let spec = match text.split_once(':') {
            Some(("fd", number)) => {
                return number.parse().ok().filter(|n| *n >= 0).map(Self::Fd).ok_or_else(unknown);
            }
            Some(("file", path)) if !path.is_empty() => Self::File(path.into()),
            Some(("dax", path)) if !path.is_empty() => Self::Dax(path.into()),
            Some(("pci", path)) if !path.is_empty() => Self::Pci(path.into()),
            _ if text.starts_with("/dev/dax") => Self::Dax(text.into()),
            _ if text.starts_with("/sys/") => Self::Pci(text.into()),
            _ if text.starts_with(['/', '.']) => Self::File(text.into()),
            _ => return Err(unknown()),
        };
        Ok(spec)
    }
}

impl fmt::Display for MemorySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memfd => f.write_str("memfd"),
            Self::Fd(number) => write!(f, "fd:{number}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Dax(path) => write!(f, "dax:{}", path.display()),
            Self::Pci(path) => write!(f, "pci:{}", path.display()),
        }
    }
}

impl MemorySpec {
    /// Makes memory of `len` bytes, zeroed, and maps it. Devices exist already: they are opened, checked to
    /// be large enough, and keep their old bytes; only their first `len` bytes are mapped.
    ///
    /// # Errors
    /// [`MemoryError`]; a file that could not be given its space is removed again.
    pub fn create(&self, len: u64) -> Result<Arc<Mapping>, MemoryError> {
        self.check_unit(len, LINE as u64)?;
        match self {
            Self::Memfd => self.create_memfd(len),
            Self::Fd(_) => Err(MemoryError::AlreadyExists { spec: self.clone() }),
            Self::File(path) => self.create_file(path, len),
            Self::Dax(_) | Self::Pci(_) => self.open_device(Some(len), true),
        }
    }

    /// True for a file whose space is taken page by page as it is used (on tmpfs): making it anew gives back
    /// what an earlier pod has used.
    pub fn grows(&self) -> bool {
        matches!(self, Self::File(path) if File::open(path).is_ok_and(|file| is_tmpfs(file.as_fd())))
    }

    /// Maps memory that exists, all of it.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub fn open(&self) -> Result<Arc<Mapping>, MemoryError> {
        self.open_for(true)
    }

    /// As [`MemorySpec::open`], for looking only: nothing changes, and no right to write is needed.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub fn open_read_only(&self) -> Result<Arc<Mapping>, MemoryError> {
        self.open_for(false)
    }

    fn open_for(&self, writing: bool) -> Result<Arc<Mapping>, MemoryError> {
        match self {
            Self::Memfd => Err(MemoryError::NotOpenable { spec: self.clone() }),
            Self::Fd(number) => {
                // By its name in /proc, so that a number that is not open is an error value, and no unsafe
                // code.
                let name = format!("/proc/self/fd/{number}");
                self.map_file(&self.open_path(Path::new(&name), writing)?, writing).map(Arc::new)
            }
            Self::File(path) => self.map_file(&self.open_path(path, writing)?, writing).map(Arc::new),
            Self::Dax(_) | Self::Pci(_) => self.open_device(None, writing),
        }
    }

    fn create_memfd(&self, len: u64) -> Result<Arc<Mapping>, MemoryError> {
        // Without CLOEXEC: children are meant to inherit it.
        let fd =
            memfd_create("liger-pod", MemfdFlags::ALLOW_SEALING).map_err(|e| self.system("make it", e))?;
        self.take_space(fd.as_fd(), len)?;
        // Sealed: nobody who inherits it can shrink it under the others.
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW).map_err(|e| self.system("seal it", e))?;
        Ok(Arc::new(self.map(fd.as_fd(), len, true)?.keeping(fd)))
    }

    fn create_file(&self, path: &Path, len: u64) -> Result<Arc<Mapping>, MemoryError> {
        // Private to its owner: what is in it are the database's rows.
        let file = match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                return Err(MemoryError::AlreadyExists { spec: self.clone() });
            }
            Err(e) => return Err(self.io("create it", e)),
        };
        let space = match is_tmpfs(file.as_fd()) {
            true => self.promise_space(file.as_fd(), path, len),
            false => self.take_space(file.as_fd(), len),
        };
        let made = space.and_then(|()| self.map(file.as_fd(), len, true));
        if made.is_err() {
            // Ours and useless; if it cannot be removed, the error that led here still says why.
            let _ = std::fs::remove_file(path);
        }
        made.map(Arc::new)
    }

    fn open_path(&self, path: &Path, writing: bool) -> Result<File, MemoryError> {
        OpenOptions::new().read(true).write(writing).open(path).map_err(|e| self.io("open it", e))
    }

    fn map_file(&self, file: &File, writing: bool) -> Result<Mapping, MemoryError> {
        let found = file.metadata().map_err(|e| self.io("look at it", e))?;
        if !found.is_file() {
            return Err(self.wrong_kind(&found, "a file"));
        }
        let len = found.len();
        self.check_len(len, LINE as u64)?;
        self.check_unit(len, LINE as u64)?;
        // On tmpfs it was promised, or is its maker's business.
        if writing && found.blocks() * 512 < len && !is_tmpfs(file.as_fd()) {
            self.fill_holes(file.as_fd(), len)?;
        }
        self.map(file.as_fd(), len, writing)
    }

    /// Opens a device; `wanted` bytes of it, or all.
    fn open_device(&self, wanted: Option<u64>, writing: bool) -> Result<Arc<Mapping>, MemoryError> {
        let (Self::Dax(path) | Self::Pci(path)) = self else { unreachable!("{self} is no device") };
        let file = self.open_path(path, writing)?;
        let found = file.metadata().map_err(|e| self.io("look at it", e))?;
        let (len, unit) = match self {
            Self::Dax(_) if found.file_type().is_char_device() => {
                let number = found.rdev();
                let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
                self.dax_extent(&PathBuf::from(format!("/sys/dev/char/{major}:{minor}")))?
            }
            Self::Dax(_) => return Err(self.wrong_kind(&found, "a devdax character device")),
            _ if found.is_file() => (found.len(), LINE as u64),
            _ => return Err(self.wrong_kind(&found, "a PCI resource file")),
        };
        self.check_len(len, wanted.unwrap_or(LINE as u64))?;
        // Devices map in whole units; the pod uses the part it asked for.
        let mapped = wanted.unwrap_or(len).next_multiple_of(unit);
        self.check_len(len, mapped)?;
        assert!(
            mapped.is_multiple_of(unit) && wanted.is_none_or(|wanted| wanted <= mapped),
            "{mapped} bytes"
        );
        self.map(file.as_fd(), mapped, writing).map(Arc::new)
    }

    /// Size and alignment of a devdax device, from its sysfs folder.
    fn dax_extent(&self, folder: &Path) -> Result<(u64, u64), MemoryError> {
        let number = |name: &str, what| {
            let text = std::fs::read_to_string(folder.join(name)).map_err(|e| self.io(what, e))?;
            let bad = || self.system(what, Errno::INVAL);
            text.trim().parse::<u64>().ok().filter(|n| *n > 0).ok_or_else(bad)
        };
        let unit = number("align", "read its alignment from sysfs")?;
        let len = number("size", "read its size from sysfs")?;
        self.check_unit(len, unit)?;
        Ok((len, unit))
    }

    /// Sets the length and takes all the space.
    fn take_space(&self, fd: BorrowedFd<'_>, len: u64) -> Result<(), MemoryError> {
        self.check_unit(len, huge_page(fd).unwrap_or(LINE as u64))?;
        assert!(len > 0, "memory without a byte was refused");
        // Memory files take what they are asked for until the system kills somebody, so the limit is drawn
        // here.
        match ram_available(fd) {
            Some(free) if free < len => {
                return Err(MemoryError::NoSpace { spec: self.clone(), needed: len, free });
            }
            _ => {}
        }
        ftruncate(fd, len).map_err(|e| self.system("set its length", e))?;
        match fallocate(fd, FallocateFlags::empty(), 0, len) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP) => Err(MemoryError::CannotAllocate { spec: self.clone() }),
            Err(e) => Err(self.no_space(fd, len, e)),
        }
    }

    /// Sets the length of a new file on tmpfs, if there is room for all of it.
    fn promise_space(&self, fd: BorrowedFd<'_>, path: &Path, len: u64) -> Result<(), MemoryError> {
        ftruncate(fd, len).map_err(|e| self.system("set its length", e))?;
        // It is among the files that are asked now, so of two that are made at once one sees the other.
        let promised = path.parent().map_or(len, promised_in);
        let file_system = fstatfs(fd).map_or(0, |fs| fs.f_bavail * fs.f_bsize as u64);
        let free = ram_available(fd).map_or(file_system, |ram| ram.min(file_system));
        if free < promised {
            let promised = promised - len;
            return Err(MemoryError::Promised { spec: self.clone(), needed: len, free, promised });
        }
        Ok(())
    }

    /// Takes the space of holes in a file somebody else made; a file system without that notion has no holes.
    fn fill_holes(&self, fd: BorrowedFd<'_>, len: u64) -> Result<(), MemoryError> {
        match fallocate(fd, FallocateFlags::KEEP_SIZE, 0, len) {
            Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
            Err(e) => Err(self.no_space(fd, len, e)),
        }
    }

    fn map(&self, fd: BorrowedFd<'_>, len: u64, writing: bool) -> Result<Mapping, MemoryError> {
        assert_eq!(len as usize as u64, len, "a process has addresses for all of it");
        let mapping = Mapping::of_fd(fd, len as usize, writing).map_err(|e| self.io("map it", e))?;
        assert!(
            mapping.len() as u64 == len && mapping.is_writable() == writing,
            "{self} as it was asked for"
        );
        Ok(mapping)
    }

    fn check_unit(&self, len: u64, unit: u64) -> Result<(), MemoryError> {
        assert!(unit > 0, "{self} has a unit");
        if len > 0 && len.is_multiple_of(unit) {
            return Ok(());
        }
        let rounded = len.max(1).next_multiple_of(unit);
        Err(MemoryError::Misaligned { spec: self.clone(), len, unit, rounded })
    }

    fn check_len(&self, len: u64, needed: u64) -> Result<(), MemoryError> {
        if len >= needed { Ok(()) } else { Err(MemoryError::TooSmall { spec: self.clone(), len, needed }) }
    }

    fn wrong_kind(&self, found: &std::fs::Metadata, expected: &'static str) -> MemoryError {
        let kind = found.file_type();
        let found = match () {
            () if kind.is_dir() => "a folder",
            () if kind.is_file() => "a file",
            () if kind.is_char_device() => "a character device",
            () if kind.is_block_device() => "a block device",
            () => "a pipe or socket",
        };
        MemoryError::WrongKind { spec: self.clone(), found, expected }
    }

    fn no_space(&self, fd: BorrowedFd<'_>, needed: u64, error: Errno) -> MemoryError {
        if !matches!(error, Errno::NOSPC | Errno::NOMEM | Errno::FBIG | Errno::DQUOT) {
            return self.system("take its space", error);
        }
        let free = fstatfs(fd).map_or(0, |fs| fs.f_bavail * fs.f_bsize as u64);
        MemoryError::NoSpace { spec: self.clone(), needed, free }
    }

    fn system(&self, what: &'static str, error: Errno) -> MemoryError {
        self.io(what, error.into())
    }

    fn io(&self, what: &'static str, source: io::Error) -> MemoryError {
        let spec = self.clone();
        match source.kind() {
            io::ErrorKind::NotFound => MemoryError::NotFound { spec },
            io::ErrorKind::PermissionDenied => MemoryError::NoPermission { spec, what },
            io::ErrorKind::IsADirectory => {
                MemoryError::WrongKind { spec, found: "a folder", expected: "a file or device" }
            }
            _ => MemoryError::System { spec, what, source },
        }
    }
}

/// Whether a file's bytes are memory of the system, as those of a memfd are too.
fn is_tmpfs(fd: BorrowedFd<'_>) -> bool {
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    fstatfs(fd).is_ok_and(|fs| fs.f_type == TMPFS_MAGIC)
}

/// How much the files in a folder may still take up to their lengths.
fn promised_in(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let files = entries.filter_map(|entry| entry.ok()?.metadata().ok()).filter(std::fs::Metadata::is_file);
    files.map(|file| file.len().saturating_sub(file.blocks() * 512)).sum()
}

/// Bytes of memory that the system could still give to a file on tmpfs; none on other file systems.
fn ram_available(fd: BorrowedFd<'_>) -> Option<u64> {
    if !is_tmpfs(fd) {
        return None;
    }
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// Bytes in a page of a hugetlbfs file; none on other file systems.
fn huge_page(fd: BorrowedFd<'_>) -> Option<u64> {
    const HUGETLBFS_MAGIC: i64 = 0x958458f6;
    fstatfs(fd).ok().filter(|fs| fs.f_type == HUGETLBFS_MAGIC).map(|fs| fs.f_bsize as u64)
}

#[cfg(test)]
mod tests;
