//! A pod's memory, mapped into this process.
//!
//! Invariants:
//! 1. The mapping starts on a page, is a whole number of lines, and stays until the last worker's view is
//!    dropped.
//! 2. Nothing outside `native` gets a pointer into it.

use std::fs::OpenOptions;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustix::fs::{FileType, MemfdFlags, fstat, fstatfs, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::addr::LINE;

/// A mapping of the pod's memory in this process.
pub struct Mapping {
    base: *mut u8,
    len: usize,
    writable: bool,
    /// All processes that map it are of this machine.
    local: bool,
    /// A memfd stays open, for child processes to inherit.
    inherited: Option<OwnedFd>,
}

// SAFETY: the mapping is plain shared memory; all accesses go through `Native`, whose callers follow the
// memory model.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Anonymous zeroed memory of `len` bytes (rounded up to a line), shared by the threads of this process
    /// only.
    ///
    /// # Errors
    /// What mmap says: most often that there is not so much memory.
    pub fn anonymous(len: usize) -> std::io::Result<Arc<Self>> {
        let len = len.next_multiple_of(LINE);
        // SAFETY: a fresh mapping at an address the kernel chooses overlaps nothing.
        let base = unsafe { mmap_anonymous(null_mut(), len, READ_WRITE, MapFlags::SHARED) }?;
        assert!(base.addr().is_multiple_of(LINE), "a mapping starts on a page");
        Ok(Arc::new(Self { base: base.cast(), len, writable: true, local: true, inherited: None }))
    }

    /// Zeroed memory without a name whose pages are taken when they are first touched, unlike a pod's; kept
    /// open for child processes, which reach it by [`Mapping::open_sparse`].
    pub(crate) fn sparse(len: usize) -> std::io::Result<Arc<Self>> {
        // Without CLOEXEC: children are meant to inherit it.
        let fd = memfd_create("liger-clocks", MemfdFlags::empty())?;
        ftruncate(&fd, len as u64)?;
        Ok(Arc::new(Self::of_fd(fd.as_fd(), len, true)?.keeping(fd)))
    }

    /// The memory that a parent has made by [`Mapping::sparse`].
    pub(crate) fn open_sparse(number: RawFd) -> std::io::Result<Arc<Self>> {
        // By its name in /proc, so that a number that is not open is an error value, and no unsafe code.
        let file = OpenOptions::new().read(true).write(true).open(format!("/proc/self/fd/{number}"))?;
        let len = file.metadata()?.len() as usize;
        Ok(Arc::new(Self::of_fd(file.as_fd(), len, true)?))
    }

    /// Maps the first `len` bytes of an open file or device, with or without the right to write.
    pub(super) fn of_fd(fd: BorrowedFd<'_>, len: usize, writable: bool) -> std::io::Result<Self> {
        assert!(len.is_multiple_of(LINE), "a mapping is a whole number of lines");
        let rights = if writable { READ_WRITE } else { ProtFlags::READ };
        // SAFETY: a fresh mapping at an address the kernel chooses overlaps nothing.
        let base = unsafe { mmap(null_mut(), len, rights, MapFlags::SHARED, fd, 0) }?;
        assert!(base.addr().is_multiple_of(LINE), "a mapping starts on a page");
        Ok(Self { base: base.cast(), len, writable, local: is_of_one_machine(fd), inherited: None })
    }

    /// The same mapping, keeping `fd` open for children.
    pub(super) fn keeping(self, fd: OwnedFd) -> Self {
        // `self` has a Drop, so it is changed rather than taken apart.
        let mut mapping = self;
        assert!(mapping.inherited.is_none(), "a mapping is handed on by one number");
        mapping.inherited = Some(fd);
        mapping
    }

    /// Bytes mapped.
    #[expect(clippy::len_without_is_empty, reason = "a mapping is never empty: the kernel refuses it")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// False for memory that can only be looked at (see [`super::NativeReader`]).
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// True if all processes that map this memory are of this machine; false if that is not known.
    #[inline]
    pub fn is_local(&self) -> bool {
        self.local
    }

    /// Number of the file descriptor that a child process inherits (memory made by `memfd` only): the child
    /// opens `fd:NUMBER`.
    pub fn inherited_fd(&self) -> Option<RawFd> {
        self.inherited.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// The words of a line, for users who access it through these atomics alone.
    ///
    /// # Panics
    /// If the line is not in the mapping.
    #[inline]
    pub(crate) fn line(&self, number: u64) -> &[AtomicU64; LINE / 8] {
        let lines = (self.len / LINE) as u64;
        assert!(number < lines, "line {number} is beyond the {lines} of this memory");
        let p = self.base.wrapping_add(number as usize * LINE);
        // SAFETY: in bounds for as long as `self` lives, aligned (mappings start on a page), writable where
        // it is written, and accessed through these atomics alone.
        unsafe { &*p.cast() }
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.base
    }
}

/// File systems that one machine alone has mounted: tmpfs, hugetlbfs, ramfs, ext, xfs, btrfs, overlayfs
/// (their magic numbers, from the kernel's linux/magic.h). A device, or a file system of memory that machines
/// share, is none of them.
const OF_ONE_MACHINE: [u64; 7] =
    [0x0102_1994, 0x9584_58f6, 0x8584_58f6, 0xef53, 0x5846_5342, 0x9123_683e, 0x794c_7630];

fn is_of_one_machine(fd: BorrowedFd<'_>) -> bool {
    let is_file = fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
    is_file && fstatfs(fd).is_ok_and(|fs| OF_ONE_MACHINE.contains(&(fs.f_type as u64 & 0xffff_ffff)))
}

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and len are those of the mapping made in the constructor, unmapped once.
        let _ = unsafe { munmap(self.base.cast(), self.len) };
    }
}
