//! Bells: how those who wait for rows of other hosts learn that it is time to look.
//!
//! Whoever has changed such rows rings after the commit: it adds one to a counter that all hosts see. Worker
//! 0 of a host on which somebody waits looks at the counter and wakes them.
//!
//! Invariants:
//! 1. A bell says when to look and nothing else. Who waits looks at the rows first, after asking for the
//!    bell's number, and from time to time without it: a host may die between a commit and the ringing.
//! 2. Where nobody waits nobody looks; but any host may be asked to stop a session (`Signals`).

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// What a bell is rung for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bell {
    /// An advisory lock has been given back.
    Advisory,
    /// A notification is in an inbox.
    Notices,
    /// A signal is for some host.
    Signals,
}

impl Bell {
    /// The pod's counter.
    pub(super) fn counter(self) -> u64 {
        match self {
            Self::Advisory => 61,
            Self::Notices => 60,
            Self::Signals => 59,
        }
    }
}

/// A bell as one host hears it.
#[derive(Default)]
pub struct Ringing {
    waiting: AtomicU32,
    heard: Mutex<u64>,
    rang: Condvar,
}

/// Somebody who waits; worker 0 looks at the bell as long as there is one.
pub struct Waiting<'a>(&'a Ringing);

impl Ringing {
    /// Somebody waits from now on.
    pub fn begin(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(self)
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// The counter has this value.
    pub(super) fn hear(&self, number: u64) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if *heard != number {
            *heard = number;
            self.rang.notify_all();
        }
    }
}

impl Waiting<'_> {
    /// The bell's number as it was heard last.
    pub fn number(&self) -> u64 {
        *self.0.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the bell has rung since it had this number, or so long; whether it has.
    pub fn wait(&self, since: u64, most: Duration) -> bool {
        let heard = self.0.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.0.rang.wait_timeout_while(heard, most, |heard| *heard == since);
        *waited.unwrap_or_else(PoisonError::into_inner).0 != since
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
