//! Rooms: what a session's transaction needs beside a worker, over whatever memory.

use std::sync::Arc;

use liger_engine::Durability;
use liger_engine::db::Borrowing;
use liger_engine::row::policy::{Patient, WaitPolicy};
use liger_engine::row::{DetachedTxn, RowHost, RowSession, Step, WorkerPool, WorkerToken};
use liger_fabric::native::HostMemory;
use liger_fabric::{Cx, Fabric, HostId, SyncAddr};

use super::worker::{Work, look, ring};
use super::{Bell, Exported, Running, Slots, shut_down};
use crate::catalog::HostCatalog;
use crate::catalog::change::Working;
use crate::error::{Result, SqlError, SqlState};
use crate::storage::access::{RowAccess, attempt, is_conflict};
use crate::storage::undo::UndoLog;

/// The pod's counter in which changes of the catalog are announced.
const DDL_COUNTER: u64 = 62;
/// How long a change of the catalog waits for rows that others hold for a moment: who takes a picture of it.
const DDL_WAIT_NS: u64 = 50_000_000;
static CHANGE_WAIT: Patient =
    Patient { writers_ns: DDL_WAIT_NS, readers_ns: DDL_WAIT_NS, colleagues_ns: 4 * DDL_WAIT_NS };
/// How long somebody waits to see the newest catalog.
const RENEW_NS: u64 = 200_000_000;
/// How long a statement keeps a worker that others wait for, and how much longer for each row that it has to
/// look at to rest.
const SLICE_NS: u64 = 2_000_000;
const HELD_NS: u64 = 2_000;
/// Spins of a wait for the log that are awake: storage takes longer than a few.
const LOG_SPINS: u32 = 16;

/// A room as sessions see it. A method that needs a worker waits for one if there is none, and keeps it.
pub(super) trait Room: Send {
    /// It has this worker now.
    fn put(&mut self, token: WorkerToken);

    /// Waits for a worker, if it has none.
    fn go_on(&mut self, goes_on: &mut dyn FnMut() -> Result<()>) -> Result<()>;

    /// Gives its worker back.
    fn rest(&mut self);

    /// Gives its worker back if somebody has waited for one for a while; whether it did.
    fn lend(&mut self) -> bool;

    /// The number of its transaction; `None` while it has no worker.
    fn number(&self) -> Option<u8>;

    /// Begins a transaction, with the newest picture of the catalog.
    fn begin(&mut self, changes_catalog: bool) -> Result<()>;

    /// See [`super::Slot::read_snapshot`].
    fn read_snapshot(
        &mut self,
        of: Option<Exported>,
        goes_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<bool>;

    /// See [`super::Slot::set_wait`].
    fn set_wait(&mut self, wait: Option<Arc<dyn WaitPolicy + Send + Sync>>) -> Result<bool>;

    /// See [`super::Slot::begin_statement`].
    fn begin_statement(&mut self, first: bool, goes_on: &mut dyn FnMut() -> Result<()>) -> Result<bool>;

    /// See [`super::Slot::end_statement`].
    fn end_statement(&mut self) -> Result<()>;

    /// See [`super::Slot::begin_passing`].
    fn begin_passing(&mut self) -> Result<()>;

    /// See [`super::Slot::end_passing`].
    fn end_passing(&mut self) -> Result<()>;

    /// See [`super::Slot::forgive`].
    fn forgive(&mut self) -> Result<()>;

    /// See [`super::Slot::exported`].
    fn exported(&mut self) -> Result<Option<Exported>>;

    /// The pod's counter of announced changes of the catalog.
    fn announcements(&mut self) -> u64;

    /// The transaction is to change the catalog, if that was not said when it began.
    fn announce(&mut self) -> Result<()>;

    /// Whether open transactions keep this host from taking over what a dead one had.
    fn is_held_up(&self) -> bool;

    /// Runs a step in the transaction.
    fn step(&mut self, step: Work<'_>) -> Result<()>;

    /// Commits, gives the worker back, waits until that is durable (`waits` is told of it), and rings.
    fn commit(&mut self, rings: Option<Bell>, waits: &mut dyn FnMut()) -> Result<()>;

    /// Undoes what is open, if anything, and gives the worker back.
    fn roll_back(&mut self) -> Result<()>;

    /// Rolls back what is open, whoever else is refused by now.
    fn end(&mut self);

    /// As [`renew`].
    fn renew(&mut self) -> Result<()>;
}

/// What makes the rooms of a host.
pub(super) fn rooms<M: HostMemory + Send + Sync + 'static>(
    slots: &Arc<Slots>,
    catalog: &Arc<HostCatalog>,
    borrowing: Borrowing<M>,
    durability: Durability,
) -> Arc<dyn Fn() -> Box<dyn Room> + Send + Sync>
where
    M::View: Send + 'static,
{
    let (slots, catalog) = (Arc::downgrade(slots), catalog.clone());
    Arc::new(move || {
        let slots = slots.upgrade().expect("who wants a room has the slots");
        let (cx, host) = (borrowing.cx(), borrowing.engine().clone());
        let txn = DetachedTxn::new(&cx, &host, durability);
        let workers = slots.workers.clone();
        let (catalog, working, undo) = (catalog.clone(), None, UndoLog::default());
        Box::new(Furnished {
            cx,
            host,
            slots,
            workers,
            token: None,
            txn,
            catalog,
            working,
            undo,
            announced: false,
            asked: None,
            lent: false,
        })
    })
}

/// A room over one sort of memory.
struct Furnished<F: Fabric> {
    cx: Cx<F>,
    host: Arc<RowHost>,
    slots: Arc<Slots>,
    workers: Arc<WorkerPool>,
    token: Option<WorkerToken>,
    txn: DetachedTxn,
    catalog: Arc<HostCatalog>,
    working: Option<Working>,
    undo: UndoLog,
    /// It has announced a change of the catalog.
    announced: bool,
    /// Since when it has been asked to lend its worker, nanoseconds.
    asked: Option<u64>,
    /// It has lent it, and stands behind those who waited then: several long statements would pass it on
    /// among themselves otherwise.
    lent: bool,
}

impl<F: Fabric> Furnished<F> {
    /// Does something on its worker.
    fn on_worker<R>(&mut self, work: impl FnOnce(&mut RowSession<'_, F>) -> Result<R>) -> Result<R> {
        self.wait_for_worker(&mut || Ok(()))?;
        let Self { cx, host, workers, token, txn, .. } = self;
        txn.attach((cx, host), (workers, token), work)
    }

    fn wait_for_worker(&mut self, goes_on: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        if self.token.is_none() {
            let step = if self.lent { Step::Again } else { Step::Next };
            self.token = Some(self.workers.take(step, goes_on)?.ok_or_else(shut_down)?);
            self.lent = false;
        }
        Ok(())
    }

    fn give_worker_back(&mut self) {
        self.asked = None;
        if let Some(token) = self.token.take() {
            self.txn.rest(&self.cx, &self.host);
            self.workers.give(token);
        }
    }

    /// After the end of a transaction.
    fn leave(&mut self) {
        self.lent = false;
        if std::mem::take(&mut self.announced) {
            tell(&self.cx, &self.host, false);
        }
        self.working = None;
        self.undo = UndoLog::default();
        self.give_worker_back();
        self.txn.shrink();
    }

    /// Waits until the last transaction is durable, without a worker.
    fn wait_durable(&mut self, waits: &mut dyn FnMut()) -> Result<()> {
        let mut spins = 0;
        while !self.txn.is_durable(&self.cx, &self.host)? {
            spins += 1;
            if spins == 1 {
                waits();
            }
            match spins > LOG_SPINS {
                true => self.txn.sleep_until_durable(&self.cx, &self.host),
                false => self.cx.pause(),
            }
        }
        Ok(())
    }
}

impl<F: Fabric + Send> Room for Furnished<F> {
    fn put(&mut self, token: WorkerToken) {
        debug_assert!(self.token.is_none() && !self.txn.is_open(), "a room is given back empty");
        self.token = Some(token);
    }

    fn go_on(&mut self, goes_on: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.wait_for_worker(goes_on)
    }

    fn rest(&mut self) {
        self.give_worker_back();
    }

    fn lend(&mut self) -> bool {
        let now = self.cx.now_ns();
        // To rest may mean to look at all that it holds, and to go on the same again.
        let most = SLICE_NS + HELD_NS * self.txn.rows_to_park(&self.host) as u64;
        let is_due = self.token.is_some() && now.saturating_sub(*self.asked.get_or_insert(now)) > most;
        if is_due {
            self.give_worker_back();
            self.lent = true;
        }
        is_due
    }

    fn number(&self) -> Option<u8> {
        self.token.as_ref().and_then(|_| self.txn.number())
    }

    fn begin(&mut self, changes_catalog: bool) -> Result<()> {
        self.announced = changes_catalog;
        let catalog = self.catalog.clone();
        let begun = self.on_worker(|session| {
            if changes_catalog {
                announce(session);
            }
            renew(session, &catalog)?;
            session.begin()?;
            Ok(catalog.cached())
        });
        match begun {
            Ok(now) => self.working = Some(Working::new(now)),
            Err(error) => {
                self.roll_back()?;
                return Err(error);
            }
        }
        Ok(())
    }

    fn read_snapshot(
        &mut self,
        of: Option<Exported>,
        goes_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<bool> {
        self.wait_for_worker(goes_on)?;
        let working = self.working.as_ref().expect("a transaction has begun");
        let (version, catalog) = (working.base_version(), self.catalog.clone());
        if working.is_changed() {
            return Ok(false);
        }
        self.on_worker(|session| {
            if !session.host().has_snapshots(session.cx()) || session.opened().has_changed() {
                return Ok(false);
            }
            // It has read definitions at most, and has the picture that they belong to.
            session.roll_back();
            match of {
                None => {
                    let mut stops = None;
                    let begun = session.begin_snapshot_while(|| {
                        stops = goes_on().err();
                        stops.is_none()
                    });
                    stops.map_or(Ok(()), Err)?;
                    begun?;
                }
                Some(of) if session.begin_snapshot_of((HostId(of.host), of.moment))? => {}
                Some(_) => return Err(gone()),
            }
            match catalog.version_in(&mut access(session))? == Some(version) {
                true => Ok(true),
                false if of.is_some() => Err(other_catalog()),
                false => Err(newer_catalog()),
            }
        })
    }

    fn set_wait(&mut self, wait: Option<Arc<dyn WaitPolicy + Send + Sync>>) -> Result<bool> {
        self.on_worker(|session| {
            let wait = wait.filter(|_| session.host().has_snapshots(session.cx()));
            let has_snapshots = wait.is_some();
            session.set_own_wait(wait);
            Ok(has_snapshots)
        })
    }

    fn begin_statement(&mut self, first: bool, goes_on: &mut dyn FnMut() -> Result<()>) -> Result<bool> {
        self.wait_for_worker(goes_on)?;
        self.on_worker(|session| {
            if !session.host().has_snapshots(session.cx()) {
                return Ok(false);
            }
            let mut stops = None;
            let begun = session.begin_statement_while(|| {
                stops = goes_on().err();
                stops.is_none()
            });
            stops.map_or(Ok(()), Err)?;
            begun?;
            if first {
                session.first_updater_wins();
            }
            Ok(true)
        })
    }

    fn end_statement(&mut self) -> Result<()> {
        match self.txn.is_open() {
            true => self.on_worker(|session| {
                session.end_statement();
                Ok(())
            }),
            false => Ok(()),
        }
    }

    fn begin_passing(&mut self) -> Result<()> {
        self.on_worker(|session| {
            session.begin_passing();
            Ok(())
        })
    }

    fn end_passing(&mut self) -> Result<()> {
        match self.txn.is_open() {
            true => self.on_worker(|session| {
                session.end_passing(true);
                Ok(())
            }),
            false => Ok(()),
        }
    }

    fn forgive(&mut self) -> Result<()> {
        self.on_worker(|session| {
            session.opened().forgive();
            Ok(())
        })
    }

    fn exported(&mut self) -> Result<Option<Exported>> {
        self.on_worker(|session| {
            let (host, moment) = (session.host().id().0, session.opened().as_of());
            Ok(moment.map(|moment| Exported { host, moment }))
        })
    }

    fn announcements(&mut self) -> u64 {
        self.cx.load(ddl(&self.host))
    }

    fn is_held_up(&self) -> bool {
        self.host.is_held_up()
    }

    fn step(&mut self, step: Work<'_>) -> Result<()> {
        self.wait_for_worker(&mut || Ok(()))?;
        let Self { cx, host, workers, token, txn, catalog, working, undo, .. } = self;
        let (host_catalog, catalog) = (&**catalog, working.as_mut().expect("a transaction has begun"));
        txn.attach((cx, host), (workers, token), |session| {
            step(&mut Running { tx: &mut access(session), catalog, undo, host: host_catalog })
        })
    }

    fn announce(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.announced, true) {
            self.on_worker(|session| {
                announce(session);
                Ok(())
            })?;
        }
        Ok(())
    }

    fn commit(&mut self, rings: Option<Bell>, waits: &mut dyn FnMut()) -> Result<()> {
        let slots = self.slots.clone();
        let ended = self.on_worker(|session| {
            let ended = session.commit();
            session.set_wait(None);
            slots.observed().count(session.cx().worker().0, ended.is_ok());
            Ok(ended?)
        });
        self.leave();
        ended?;
        self.wait_durable(waits)?;
        rings.into_iter().for_each(|bell| ring(&self.cx, &self.host, bell));
        Ok(())
    }

    fn roll_back(&mut self) -> Result<()> {
        let slots = self.slots.clone();
        if self.txn.is_open() {
            self.on_worker(|session| {
                session.roll_back();
                session.set_wait(None);
                slots.observed().count(session.cx().worker().0, false);
                Ok(())
            })?;
        }
        self.leave();
        Ok(())
    }

    fn end(&mut self) {
        while self.token.is_none() && self.txn.is_open() {
            // Whoever has a worker ends soon, or its room comes next.
            self.token = self.workers.take_at_last();
        }
        self.roll_back().expect("it has a worker");
    }

    fn renew(&mut self) -> Result<()> {
        let catalog = self.catalog.clone();
        let renewed = self.on_worker(|session| renew(session, &catalog));
        self.leave();
        renewed
    }
}

/// Brings the host's picture of the catalog up to date if it may be old, and waits a little while that cannot
/// be seen: somebody is committing a change, or was, and it cannot be told which. If it cannot be seen for so
/// long, a host has died meanwhile, and nobody waits for that one again; the picture stays as it is.
fn renew<F: Fabric>(session: &mut RowSession<'_, F>, catalog: &HostCatalog) -> Result<()> {
    let started = session.cx().now_ns();
    for turn in 0u32.. {
        let announced = session.cx().load(ddl(session.host()));
        if !catalog.may_be_old(announced) {
            break;
        }
        let seen = attempt(session, |tx| {
            look(tx, catalog)?;
            catalog.statistics().renew(tx, catalog.classes())
        });
        match seen {
            // Statistics that somebody is writing are looked for again, and nobody waits for them.
            Ok(is_whole) => {
                if is_whole {
                    catalog.has_seen(announced);
                }
                break;
            }
            Err(error) if error.state == SqlState::LOCK_NOT_AVAILABLE || is_conflict(&error) => {
                if session.cx().now_ns() - started > RENEW_NS || catalog.was_in_vain(announced) {
                    catalog.is_in_vain(announced);
                    return if catalog.cached().version() == 0 { Err(error) } else { Ok(()) };
                }
                // Whoever changes it may wait for a worker.
                session.rest(turn);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn gone() -> SqlError {
    let message = "the snapshot is not there any more";
    let hint = "A snapshot can be used while a transaction is open on the host that exported it.";
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).hint(hint)
}

fn other_catalog() -> SqlError {
    let message = "a table or another object has changed since the snapshot was taken";
    let hint = "Export a new one, and change nothing of the kind meanwhile.";
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).hint(hint)
}

fn newer_catalog() -> SqlError {
    let message = "could not serialize access due to concurrent update";
    SqlError::new(SqlState::SERIALIZATION_FAILURE, message).detail("The catalog has changed meanwhile.")
}

fn access<'a, 'h, F: Fabric>(session: &'a mut RowSession<'h, F>) -> RowAccess<'a, 'h, F> {
    let (host, cx) = (session.host(), session.cx());
    RowAccess::new(session.opened(), host, cx)
}

fn ddl(host: &RowHost) -> SyncAddr {
    host.plan().counter(DDL_COUNTER)
}

/// A change of the catalog begins.
fn announce<F: Fabric>(session: &mut RowSession<'_, F>) {
    tell(session.cx(), session.host(), true);
    session.set_wait(Some(&CHANGE_WAIT));
}

/// Tells all hosts that a change of the catalog begins, or has ended: how many there are is in the lower
/// half of the counter.
fn tell<F: Fabric>(cx: &Cx<F>, host: &RowHost, begins: bool) {
    let add = if begins { (1 << 32) + 1 } else { (1 << 32) - 1 };
    cx.fetch_add(ddl(host), add);
}
