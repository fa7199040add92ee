//! What the allocator of this process keeps: memory that is free, and that it does not give back by itself.
//!
//! A statement over a large table takes small pieces by the million. When they are free again, most lie
//! between others that are not, and glibc's allocator gives back only what is at the end of an arena.
//!
//! Invariants:
//! 1. Free memory is given back once: bytes that were looked at before do not count again.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Free bytes of the allocator when they were looked at last.
static LOOKED_AT: AtomicUsize = AtomicUsize::new(0);

/// Gives free memory back to the system if the allocator has so many bytes more of it than when it was looked
/// at last; true if it did. Takes some milliseconds then, in which other threads wait that allocate. Does
/// nothing with other allocators than glibc's.
pub fn give_back(least: usize) -> bool {
    let free = free_bytes();
    let before = LOOKED_AT.swap(free, Ordering::Relaxed);
    if free < before.saturating_add(least) {
        // What is in use again may become free again.
        LOOKED_AT.store(free.min(before), Ordering::Relaxed);
        return false;
    }
    trim();
    LOOKED_AT.store(free_bytes(), Ordering::Relaxed);
    true
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn free_bytes() -> usize {
    // SAFETY: it has no arguments, and takes the allocator's own locks.
    unsafe { libc::mallinfo2() }.fordblks
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim() {
    // SAFETY: it takes the allocator's own locks, and touches only what is free.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn free_bytes() -> usize {
    0
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    fn resident() -> usize {
        let text = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
        let pages: usize = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
        pages * 4096
    }

    #[test]
    fn what_is_free_between_other_pieces_is_given_back_once() {
        const PIECES: usize = 400_000;
        let mut pieces: Vec<Vec<u8>> = (0..PIECES).map(|n| vec![n as u8; 256]).collect();
        let full = resident();
        // Every hundredth stays, so that no arena ends with what is free.
        let mut n = 0;
        pieces.retain(|_| {
            n += 1;
            n % 100 == 0
        });
        assert!(resident() > full / 2, "the allocator keeps it");
        assert!(give_back(64 << 20), "100 MB are free");
        assert!(resident() < full - (64 << 20), "{} of {full} bytes", resident());
        assert!(!give_back(64 << 20), "it was given back before");
        assert!(pieces.iter().all(|piece| piece.iter().all(|byte| *byte == piece[0])), "what stays is whole");
    }
}
