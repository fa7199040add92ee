//! Native backend: memory that processes or threads really share, driven with the processor's own instructions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Instant;

use crate::addr::{DataAddr, SyncAddr};
use crate::fabric::Fabric;

/// A mapping of the pod's memory in this process.
pub struct Mapping {
    base: *mut u8,
    len: usize,
}

// SAFETY: the mapping is plain shared memory; all accesses go through `Native`, whose callers follow the memory model.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Anonymous memory of `len` bytes, shared by the threads of this process only.
    pub fn anonymous(len: usize) -> std::io::Result<Arc<Self>> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        // SAFETY: a fresh mapping at an address the kernel chooses overlaps nothing.
        let base = unsafe {
            mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED)
        }?;
        Ok(Arc::new(Self { base: base.cast(), len }))
    }

    fn at(&self, offset: u64, len: usize) -> *mut u8 {
        assert!(offset as usize + len <= self.len, "access beyond the pod's memory");
        self.base.wrapping_add(offset as usize)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and len are those of the mapping made in the constructor, unmapped once.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.len) };
    }
}

/// One worker's view of a native pod.
#[derive(Clone)]
pub struct Native {
    mapping: Arc<Mapping>,
    start: Instant,
}

impl Native {
    /// A worker's view of `mapping`.
    #[expect(clippy::disallowed_methods, reason = "the backend is where the clock is read")]
    pub fn new(mapping: Arc<Mapping>) -> Self {
        Self { mapping, start: Instant::now() }
    }

    fn word(&self, at: SyncAddr) -> &AtomicU64 {
        let p = self.mapping.at(at.offset(), 8);
        // SAFETY: in bounds, 8-byte aligned, and sync words are only ever accessed atomically.
        unsafe { AtomicU64::from_ptr(p.cast()) }
    }
}

impl Fabric for Native {
    const CHECKED: bool = false;

    fn load(&self, at: SyncAddr) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }
    fn store(&self, at: SyncAddr, value: u64) {
        self.word(at).store(value, Ordering::Release);
    }
    fn compare_exchange(&self, at: SyncAddr, current: u64, new: u64) -> Result<u64, u64> {
        self.word(at).compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst)
    }
    fn read(&self, at: DataAddr, out: &mut [u8]) {
        let p = self.mapping.at(at.offset(), out.len());
        // SAFETY: in bounds; the memory model gives the range one writer at a time, ordered by a sync word.
        unsafe { std::ptr::copy_nonoverlapping(p, out.as_mut_ptr(), out.len()) }
    }
    fn write(&self, at: DataAddr, bytes: &[u8]) {
        let p = self.mapping.at(at.offset(), bytes.len());
        // SAFETY: in bounds; the memory model makes this worker's host the only writer of the range now.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), p, bytes.len()) }
    }
    fn write_back(&self, _at: DataAddr, _len: usize) {}
    fn invalidate(&self, _at: DataAddr, _len: usize) {}
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
    #[expect(clippy::disallowed_methods, reason = "the backend is where waiting happens")]
    fn pause(&self) {
        std::thread::yield_now();
    }
}
