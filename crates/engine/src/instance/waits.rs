//! What a host's workers wait for, for those who watch. Only who waits writes here, and nobody decides by it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use liger_fabric::WorkerId;

/// What a worker waits for in the middle of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Wait {
    /// Nothing.
    None = 0,
    /// Another host: it moves a row into shared memory, or makes or removes one.
    Owner = 1,
    /// A lock that another transaction holds.
    Lock = 2,
    /// Room in the log's ring, or storage.
    Log = 3,
}

impl Wait {
    /// All, in the order of their numbers.
    pub const ALL: [Wait; 4] = [Wait::None, Wait::Owner, Wait::Lock, Wait::Log];
}

/// By worker; shared with those who watch.
#[derive(Clone, Debug)]
pub struct Waits(Arc<[AtomicU8]>);

impl Waits {
    /// Of so many workers.
    pub fn new(workers: u8) -> Self {
        Self((0..workers).map(|_| AtomicU8::new(0)).collect())
    }

    /// What a worker waits for.
    pub fn of(&self, worker: u8) -> Wait {
        let known = self.0.get(usize::from(worker)).map_or(0, |wait| wait.load(Ordering::Relaxed));
        Wait::ALL[usize::from(known)]
    }

    /// Notes that a worker waits, until the answer is dropped.
    pub fn begin(&self, worker: WorkerId, wait: Wait) -> Waiting<'_> {
        let place = &self.0[usize::from(worker.0)];
        place.store(wait as u8, Ordering::Relaxed);
        Waiting(place)
    }
}

/// A worker that waits.
#[derive(Debug)]
pub struct Waiting<'w>(&'w AtomicU8);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
