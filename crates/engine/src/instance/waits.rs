//! What a host's transactions wait for, for those who watch. Only who waits writes here, and nobody decides
//! by it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::transactions::Holder;

/// What a transaction waits for in the middle of a step.
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

/// By holder; shared with those who watch.
#[derive(Clone, Debug)]
pub struct Waits(Arc<[AtomicU8]>);

impl Waits {
    /// Nobody waits.
    pub(crate) fn new() -> Self {
        Self((0..Holder::MOST).map(|_| AtomicU8::new(0)).collect())
    }

    /// What the transaction with this number waits for.
    pub fn of(&self, holder: u8) -> Wait {
        let known = self.0.get(usize::from(holder)).map_or(0, |wait| wait.load(Ordering::Relaxed));
        Wait::ALL[usize::from(known)]
    }

    /// Notes that a transaction waits, until the answer is dropped.
    pub fn begin(&self, holder: Holder, wait: Wait) -> Waiting<'_> {
        let place = &self.0[holder.index()];
        debug_assert_ne!(wait, Wait::None, "who waits waits for something");
        place.store(wait as u8, Ordering::Relaxed);
        Waiting(place)
    }
}

/// A transaction that waits.
#[derive(Debug)]
pub struct Waiting<'w>(&'w AtomicU8);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
