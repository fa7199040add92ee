//! Advisory locks of a session: how often it has taken which, and waiting for one.
//!
//! That a session holds a lock is a row that all hosts see (storage/advisory.rs); how often, and whether to
//! the end of its transaction or of the session, is known here.
//!
//! Invariants:
//! 1. A lock is given back behind the statement that takes its last count away, and behind the commit or the
//!    rollback where it ends with the transaction. So a statement that met a conflict and runs again finds
//!    all counts as they were before it ([`Advisory::keep`]), and loses no lock to another session meanwhile.
//! 2. Who waits occupies no worker where his transaction has done nothing yet: the statement gives its worker
//!    back, waits, and begins anew with the lock at hand.
//! 3. All workers lent to sessions that wait for locks, and others that wait for a worker, are a deadlock.
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::SqlHost;
use super::session::run::warning;
use super::session::settings::milliseconds;
use super::store::Store;
use super::system::{SessionSystem, Shared};
use super::system_tables::roles::DATABASE;
use crate::error::{Result, SqlError, SqlState};
use crate::session::{Interrupt, WaitEvent};
use crate::slots::{Bell, Running};
use crate::storage::access::is_conflict;
use crate::storage::advisory::{self, Entry, Holder, Lock, Mode, Request};
use crate::types::value::Value;

/// How long nobody looks whether the statement shall end.
const LOOK: Duration = Duration::from_millis(10);
/// How long who waits trusts that a lock that has been given back is rung for.
pub(super) const TRUST_US: i64 = 250_000;

/// A lock, and how.
pub(super) type Held = (Lock, Mode);

/// How often a lock has been taken.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    /// For the session.
    session: u32,
    /// For the transaction.
    transaction: u32,
}

/// How often which locks have been taken.
pub(crate) type Counts = BTreeMap<Held, u32>;

/// The locks of a session.
#[derive(Default)]
pub(crate) struct Advisory {
    counts: RefCell<BTreeMap<Held, Count>>,
    /// Rows that are there.
    held: RefCell<BTreeSet<Held>>,
    /// The statement can begin anew: nothing of it has been seen, and its transaction has done nothing else.
    pub(crate) may_start_over: Cell<bool>,
    /// What it waits for before it does.
    pub(crate) wanted: Cell<Option<Held>>,
}

/// All counts at some time.
pub(crate) struct Kept(BTreeMap<Held, Count>);

impl Advisory {
    /// The counts of now.
    pub(crate) fn keep(&self) -> Kept {
        Kept(self.counts.borrow().clone())
    }

    /// Back to these counts.
    pub(crate) fn restore(&self, kept: &Kept) {
        self.counts.borrow_mut().clone_from(&kept.0);
    }

    /// What the transaction has taken so far.
    pub(crate) fn of_transaction(&self) -> Counts {
        self.counts.borrow().iter().map(|(held, count)| (*held, count.transaction)).collect()
    }

    /// The transaction, or a part of it, has ended: of what it has taken only this is left.
    pub(crate) fn end_transaction(&self, left: Option<&Counts>) {
        for (held, count) in &mut *self.counts.borrow_mut() {
            count.transaction = left.and_then(|left| left.get(held)).map_or(0, |n| count.transaction.min(*n));
        }
    }

    /// `pg_advisory_unlock_all`.
    pub(crate) fn end_session(&self) {
        self.counts.borrow_mut().values_mut().for_each(|count| count.session = 0);
    }

    /// Gives back what is not counted any more.
    pub(crate) fn release_uncounted(&self, host: &Arc<SqlHost>, process_id: i32) {
        let mut held = self.held.borrow_mut();
        if held.is_empty() {
            return;
        }
        let mut counts = self.counts.borrow_mut();
        counts.retain(|_, count| count.session + count.transaction > 0);
        let gone: Vec<Held> = held.iter().filter(|held| !counts.contains_key(held)).copied().collect();
        if !gone.is_empty() {
            held.retain(|one| counts.contains_key(one));
            let release = releasing(host, process_id, gone);
            if host.slots.beside(Some(Bell::Advisory), release.clone()).is_err() {
                host.slots.later(Some(Bell::Advisory), release);
            }
        }
    }

    /// The session ends: nothing is left, soon.
    pub(crate) fn leave(&self, host: &Arc<SqlHost>, process_id: i32) {
        let held: Vec<Held> = std::mem::take(&mut *self.held.borrow_mut()).into_iter().collect();
        if !held.is_empty() {
            host.slots.later(Some(Bell::Advisory), releasing(host, process_id, held));
        }
    }

    fn count(&self, held: Held, transaction: bool) {
        self.held.borrow_mut().insert(held);
        let mut counts = self.counts.borrow_mut();
        let count = counts.entry(held).or_default();
        if transaction { count.transaction += 1 } else { count.session += 1 }
    }

    fn unlock(&self, held: Held) -> bool {
        let mut counts = self.counts.borrow_mut();
        let Some(count) = counts.get_mut(&held).filter(|count| count.session > 0) else { return false };
        count.session -= 1;
        true
    }
}

pub(super) fn request(running: &Running<'_>, process_id: i32, (lock, mode): Held) -> Request {
    let life = running.host.numbers().life() as u32;
    Request { lock, mode, holder: Holder { host: running.tx.host(), life, process_id } }
}

/// A job that gives locks back.
pub(super) fn releasing(
    host: &Arc<SqlHost>,
    process_id: i32,
    these: Vec<Held>,
) -> impl FnMut(&mut Running<'_>) -> Result<()> + Send + Clone + 'static {
    let classes = host.catalog.classes().clone();
    move |running| {
        let mut release = |held: &Held| {
            let request = request(running, process_id, *held);
            advisory::release(running.tx, &classes, &request)
        };
        these.iter().try_for_each(&mut release)
    }
}

pub(super) fn take(host: &SqlHost, process_id: i32, held: Held, waits_since: Option<i64>) -> Result<bool> {
    let classes = host.catalog.classes().clone();
    host.slots.beside(None, move |running| {
        let wanted = request(running, process_id, held);
        advisory::acquire(running.tx, &classes, &wanted, waits_since)
    })
}

/// Rows of all sessions of the pod.
pub(super) fn all(store: &dyn Store) -> Result<Vec<Entry>> {
    let Some(host) = store.host() else { return Ok(Vec::new()) };
    let classes = host.catalog.classes().clone();
    host.slots.beside(None, move |running| advisory::all(running.tx, &classes))
}

fn deadlock(detail: String) -> SqlError {
    SqlError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected").detail(detail)
}

/// 40P01 if the session waits for itself; it waits no longer then.
fn look_for_cycle(host: &SqlHost, process_id: i32, held: Held) -> Result<()> {
    let classes = host.catalog.classes().clone();
    let found = host.slots.beside(None, move |running| {
        let wanted = request(running, process_id, held);
        advisory::stop_in_cycle(running.tx, &classes, &wanted)
    })?;
    found.map_or(Ok(()), |cycle| Err(told(&cycle)))
}

/// 40P01 for who was in a cycle.
pub(super) fn told(cycle: &[(Request, Holder)]) -> SqlError {
    let line = |(request, by): &(Request, Holder)| {
        let (class, object, sub) = request.lock.parts();
        let (waits, mode, by) = (request.holder.process_id, request.mode.name(request.lock), by.process_id);
        let what = match request.lock {
            Lock::Relation(_) => format!("relation {object} of database {DATABASE}"),
            Lock::Row(name) => format!("row {name:016x} of database {DATABASE}"),
            _ => format!("advisory lock [{DATABASE},{class},{object},{sub}]"),
        };
        format!("Process {waits} waits for {mode} on {what}; blocked by process {by}.")
    };
    let lines: Vec<String> = cycle.iter().map(line).collect();
    deadlock(lines.join("\n")).hint("See server log for query details.")
}

/// Waits until the session has a lock; its transaction needs no worker meanwhile.
pub(super) fn wait(host: &Arc<SqlHost>, shared: &Shared, held: Held) -> Result<()> {
    let (clock_us, process_id) = (&|| shared.surroundings.clock_us(), shared.process_id);
    let (interrupt, timeouts_us) = (&*shared.interrupt, timeouts_us(shared));
    let waiter = Waiter { host, process_id, interrupt, clock_us, timeouts_us };
    let mut attempt = |begun| unless_conflict(take(host, process_id, held, Some(begun)));
    let waited = waiter.until(held, TRUST_US, &mut attempt);
    match &waited {
        Ok(()) => _ = shared.advisory.held.borrow_mut().insert(held),
        Err(_) => host.slots.later(Some(Bell::Advisory), releasing(host, process_id, vec![held])),
    }
    waited
}

/// Of a transaction of its own: one that has met a conflict may be tried again.
pub(super) fn unless_conflict(taken: Result<bool>) -> Result<bool> {
    taken.or_else(|error| if is_conflict(&error) { Ok(false) } else { Err(error) })
}

/// `lock_timeout` and `deadlock_timeout` in microseconds; 0: none.
pub(super) fn timeouts_us(shared: &Shared) -> (i64, i64) {
    let variables = shared.variables.borrow();
    let timeout_us = |name| {
        let set = variables.get(name).ok().and_then(milliseconds);
        set.map_or(0, |ms| i64::try_from(ms).map_or(i64::MAX, |ms| ms.saturating_mul(1000)))
    };
    (timeout_us("lock_timeout"), timeout_us("deadlock_timeout").max(1))
}

/// A session that waits for a lock: for how long, and what ends it.
pub(super) struct Waiter<'a> {
    pub(super) host: &'a Arc<SqlHost>,
    pub(super) process_id: i32,
    pub(super) interrupt: &'a Interrupt,
    pub(super) clock_us: &'a dyn Fn() -> i64,
    /// As [`timeouts_us`].
    pub(super) timeouts_us: (i64, i64),
}

impl Waiter<'_> {
    /// Tries until it succeeds: when somebody has given a lock back, and after so many microseconds. What
    /// tries is told since when.
    ///
    /// # Errors
    /// 55P03 after `lock_timeout`, 40P01 in a cycle; those of the interrupt and of `take`.
    pub(super) fn until(
        &self,
        held: Held,
        look_us: i64,
        take: &mut dyn FnMut(i64) -> Result<bool>,
    ) -> Result<()> {
        let now = self.clock_us;
        let (timeout, deadlock_timeout) = self.timeouts_us;
        let begun = now();
        let mut cycle_at = begun.saturating_add(deadlock_timeout);
        let waiting = self.host.slots.advisory().begin();
        loop {
            let number = waiting.number();
            if take(begun)? {
                return Ok(());
            }
            let looked = now();
            loop {
                self.interrupt.check()?;
                let at = now();
                if timeout > 0 && at - begun >= timeout {
                    let message = "canceling statement due to lock timeout";
                    return Err(SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message));
                }
                if at >= cycle_at {
                    cycle_at = at.saturating_add(deadlock_timeout);
                    look_for_cycle(self.host, self.process_id, held)?;
                }
                let rest = LOOK.min(Duration::from_micros(look_us as u64));
                if waiting.wait(number, rest) || now() - looked >= look_us {
                    break;
                }
            }
        }
    }
}

/// Whether this is a function of advisory locks.
pub(super) fn knows(source: &str) -> bool {
    source == "pg_advisory_unlock_all"
        || source
            .strip_prefix("pg_")
            .is_some_and(|name| name.trim_start_matches("try_").starts_with("advisory_"))
}

/// Calls one of them.
pub(super) fn call(on: &SessionSystem<'_>, source: &str, arguments: &[Value]) -> Result<Value> {
    let own = &on.shared.advisory;
    if source == "pg_advisory_unlock_all" {
        own.end_session();
        return Ok(Value::Void);
    }
    let number = |at: usize| arguments.get(at).and_then(Value::as_i64).unwrap_or(0);
    let lock = match source.strip_suffix("_int4") {
        Some(_) => Lock::Two(number(0) as i32, number(1) as i32),
        None => Lock::One(number(0)),
    };
    let mode = if source.contains("_shared") { Mode::Shared } else { Mode::Exclusive };
    let held = (lock, mode);
    if source.starts_with("pg_advisory_unlock") {
        let unlocked = own.unlock(held);
        if !unlocked {
            let message = format!("you don't own a lock of type {}", mode.name(lock));
            on.shared.notices.borrow_mut().push(warning(SqlState::WARNING, &message));
        }
        return Ok(Value::Bool(unlocked));
    }
    let tries = source.starts_with("pg_try");
    let has = own.held.borrow().contains(&held);
    if !has
        && let Some(host) = on.store.host()
        && !take(host, on.shared.process_id, held, None)?
    {
        if tries {
            return Ok(Value::Bool(false));
        }
        if own.may_start_over.get() {
            own.wanted.set(Some(held));
            return Err(SqlError::new(SqlState::LOCK_NOT_AVAILABLE, "could not obtain advisory lock"));
        }
        let place = on.shared.interrupt.place();
        on.store.rest();
        on.shared.interrupt.show(WaitEvent::Lock);
        let waited = wait(host, on.shared, held);
        on.shared.interrupt.show(place);
        waited?;
    }
    own.count(held, source.contains("_xact_"));
    Ok(if tries { Value::Bool(true) } else { Value::Void })
}
