//! How a session waits for a row that another transaction holds, below SERIALIZABLE: for as long as it takes,
//! until it is told to stop, `lock_timeout` is over, or those in its way wait for it.
//!
//! Who waits for whom among transactions of one host the engine sees at once. Of another host's locks only
//! the host is known. So who has waited for `deadlock_timeout` says in a row which row it waits for, by name,
//! and looks for which ones others wait; each that waits and holds one of these says so at its next look, and
//! then the cycle is there for everybody to see (storage/advisory.rs). Who finds itself in one stops waiting,
//! in the transaction that finds it: so it is one of them.
//!
//! Invariants:
//! 1. A row that says that a session waits goes when it does not any more, soon; those that say what it
//!    holds, with its transaction.
//! 2. Nothing but who waits how long depends on any of this.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use liger_engine::Conflict;
use liger_engine::row::policy::{InTheWay, WaitPolicy};

use super::SqlHost;
use crate::error::{Result, SqlError, SqlState};
use crate::exec::advisory::{self, Held};
use crate::session::Interrupt;
use crate::slots::Bell;
use crate::storage::advisory::{Lock, Looked, Mode, look};

/// How long who does not want to wait does, for those who look at a row in passing.
const PASSING: Duration = Duration::from_micros(500);
/// How long a row that moves, or room for it, is waited for.
const MOVING: Duration = Duration::from_secs(1);
/// How long who waits keeps the number that its locks name, where these are scarce.
const PARKS_AFTER: Duration = Duration::from_millis(10);
/// How soon, at most, who has learnt what others wait for says what of it he has.
const ANSWER: Duration = Duration::from_millis(100);
/// How often in one wait it does so.
const SOON_AGAIN: u32 = 4;
/// Longer than it takes until all who wait for a row have looked, few as they are.
const GIVES_WAY: Duration = Duration::from_millis(20);

/// Why a wait for a row has ended in vain.
#[derive(Clone, Debug)]
pub(super) enum InVain {
    /// It was not to wait.
    Impatient,
    /// `lock_timeout`.
    Timeout,
    /// The session is to stop.
    Stopped,
    /// Those that it waits for wait for it.
    Deadlock(SqlError),
    /// Others have changed the row since the transaction began to read.
    Newer,
}

/// How a transaction waits that is not serializable.
pub(super) struct RowWaits {
    host: Arc<SqlHost>,
    process_id: i32,
    interrupt: Arc<Interrupt>,
    said: Mutex<Said>,
}

#[derive(Clone, Default)]
struct Said {
    /// `lock_timeout`; zero: none. `deadlock_timeout`.
    most: Duration,
    look_after: Duration,
    /// When the statement began, microseconds since 2000.
    since_us: i64,
    /// It does not wait.
    impatient: bool,
    in_vain: Option<InVain>,
    /// It has been told of a deadlock.
    gives_way: bool,
    /// When it looks next, from the beginning of its wait, and how often it has.
    looks_at: Duration,
    looks: u32,
    /// What it has said that it waits for, and that it holds; what others wait for.
    waits: Option<u64>,
    holds: BTreeSet<u64>,
    asked: BTreeSet<u64>,
}

impl std::fmt::Debug for RowWaits {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "the waits of session {}", self.process_id)
    }
}

fn held(name: u64) -> Held {
    (Lock::Row(name), Mode::Exclusive)
}

impl RowWaits {
    pub(super) fn new(host: Arc<SqlHost>, process_id: i32, interrupt: Arc<Interrupt>) -> RowWaits {
        RowWaits { host, process_id, interrupt, said: Mutex::default() }
    }

    fn said<R>(&self, with: impl FnOnce(&mut Said) -> R) -> R {
        with(&mut self.said.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A statement begins, whose timeouts are so many microseconds (0: none; for locks, for deadlocks).
    pub(super) fn begin(&self, (lock_us, deadlock_us): (i64, i64), now_us: i64) {
        let micros = |us: i64| Duration::from_micros(us.try_into().unwrap_or(0));
        self.said(|said| {
            (said.most, said.look_after) = (micros(lock_us), micros(deadlock_us));
            (said.since_us, said.in_vain) = (now_us, None);
            said.looks_at = said.look_after;
        });
    }

    pub(super) fn be_impatient(&self, impatient: bool) {
        self.said(|said| said.impatient = impatient);
    }

    /// Why the last wait was in vain, once.
    pub(super) fn take_in_vain(&self) -> Option<InVain> {
        self.said(|said| {
            said.gives_way |= matches!(said.in_vain, Some(InVain::Deadlock(_)));
            said.in_vain.take()
        })
    }

    /// The transaction is over. For how long it had better want no rows again: there is no queue, and those
    /// that it was in a cycle with are to have theirs first.
    pub(super) fn end(&self) -> Duration {
        let (holds, gives_way) = self.said(|said| {
            (said.impatient, said.in_vain) = (false, None);
            (std::mem::take(&mut said.holds), std::mem::take(&mut said.gives_way))
        });
        self.release(holds.into_iter().collect());
        if gives_way { GIVES_WAY } else { Duration::ZERO }
    }

    fn release(&self, names: Vec<u64>) {
        if !names.is_empty() {
            let these = names.into_iter().map(held).collect();
            let release = advisory::releasing(&self.host, self.process_id, these);
            self.host.slots.later(Some(Bell::Advisory), release);
        }
    }

    fn look_around(&self, wanted: Option<u64>, holds: &[u64]) -> Result<Looked> {
        let (classes, process_id) = (self.host.catalog.classes().clone(), self.process_id);
        let (before, since_us) = self.said(|said| (said.waits, said.since_us));
        let (waits, holds) = (wanted.map(|name| (name, since_us)), holds.to_vec());
        self.host.slots.beside(None, move |running| {
            let own = advisory::request(running, process_id, held(0)).holder;
            look(running.tx, &classes, &own, (before, waits), &holds)
        })
    }
}

impl WaitPolicy for RowWaits {
    fn wait(&self, conflict: Conflict, _tries: u32, waited_ns: u64, _by: InTheWay) -> bool {
        use Conflict::{Gap, Memory, Moved, ReadLocked, Validation, WriteLocked};
        let waited = Duration::from_nanos(waited_ns);
        let stopped = self.interrupt.raised().is_some();
        self.said(|said| {
            let (ends, why) = match conflict {
                _ if stopped => (true, Some(InVain::Stopped)),
                WriteLocked | ReadLocked | Gap if said.impatient => {
                    (waited > PASSING, Some(InVain::Impatient))
                }
                WriteLocked | ReadLocked | Gap => {
                    (!said.most.is_zero() && waited >= said.most, Some(InVain::Timeout))
                }
                Moved | Memory => (waited > MOVING, None),
                Validation => (true, Some(InVain::Newer)),
                _ => (true, None),
            };
            said.in_vain = if ends { why } else { None };
            !ends
        })
    }

    fn is_in_cycle(&self) {
        let detail = "Transactions of this host wait for rows of each other.";
        let error = SqlError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected").detail(detail);
        self.said(|said| {
            let impatient = said.impatient;
            said.in_vain = Some(if impatient { InVain::Impatient } else { InVain::Deadlock(error) });
        });
    }

    fn lasts(&self) -> bool {
        self.said(|said| !said.impatient)
    }

    fn parks_after_ns(&self) -> Option<u64> {
        self.lasts().then_some(PARKS_AFTER.as_nanos() as u64)
    }

    fn looks_at_ns(&self) -> Option<u64> {
        Some(self.said(|said| said.looks_at).as_nanos() as u64)
    }

    fn asked(&self) -> BTreeSet<u64> {
        self.said(|said| said.asked.clone())
    }

    fn look(&self, wanted: Option<u64>, holds: &[u64]) -> bool {
        let looked = self.look_around(wanted, holds);
        self.said(|said| {
            // What was in the way of a look was somebody else's, most likely. Others may have asked for what
            // it has since it has said what it wants.
            let is_news = match &looked {
                Ok(Looked::Asked(asked)) => !asked.is_subset(&said.asked),
                _ => true,
            };
            let soon = is_news && said.looks < SOON_AGAIN;
            said.looks_at += if soon { said.look_after.min(ANSWER) } else { said.look_after };
            said.looks += 1;
            match looked {
                Ok(Looked::Asked(asked)) => {
                    (said.waits, said.asked) = (wanted, asked);
                    said.holds.extend(holds);
                    true
                }
                Ok(Looked::Cycle(cycle)) => {
                    (said.waits, said.in_vain) = (None, Some(InVain::Deadlock(advisory::told(&cycle))));
                    said.holds.extend(holds);
                    false
                }
                Err(_) => true,
            }
        })
    }

    fn has_waited(&self) {
        let waits = self.said(|said| {
            (said.looks_at, said.looks) = (said.look_after, 0);
            said.asked.clear();
            said.waits.take()
        });
        self.release(waits.into_iter().collect());
    }
}
