//! Worker 0 of a host at work, and what it has in common with those that are lent.

use std::sync::mpsc::channel;
use std::time::Duration;

use liger_engine::Durability;
use liger_engine::Session;
use liger_engine::row::policy::NoWait;
use liger_engine::row::{RowHost, RowSession};
use liger_fabric::{Cx, Fabric};

use super::{Bell, Order, Running, Slots, lock};
use crate::catalog::HostCatalog;
use crate::catalog::change::Working;
use crate::error::{Result, SqlError, SqlState};
use crate::observe::StatusWriter;
use crate::storage::access::{Access, attempt, is_conflict};
use crate::storage::garbage;
use crate::storage::notices;
use crate::storage::signals;
use crate::storage::undo::UndoLog;

/// How long a conflict of a transaction that has told nobody anything is retried, at most.
const RETRY_NS: u64 = 5_000_000_000;
/// How long worker 0 looks without rest after somebody wanted something: a host that puts many rows here asks
/// for each, and a rest takes several times as long as an answer.
const AWAKE_NS: u64 = 50_000;
/// How long worker 0 trusts that the bell rings when there are notifications.
const TRUST_NS: u64 = 1_000_000_000;
/// Worker 0 looks so often whether there are signals, when it is busy.
const SIGNALS_NS: u64 = 1_000_000;
/// Time between two looks of worker 0 for garbage when nobody wants anything, and rows that it removes at
/// once: whoever wants something then waits for so many.
const SWEEP: (u64, usize) = (500_000_000, 16);

pub(super) type Work<'s> = &'s mut dyn FnMut(&mut Running<'_>) -> Result<()>;

pub(super) fn ring<F: Fabric>(cx: &Cx<F>, host: &RowHost, bell: Bell) {
    cx.fetch_add(host.plan().counter(bell.counter()), 1);
    // Worker 0 of a host on which somebody waits for it may sleep.
    host.wake_hosts(cx);
}

/// How often a bell has rung.
fn rung<F: Fabric>(session: &RowSession<'_, F>, bell: Bell) -> u64 {
    session.cx().load(session.host().plan().counter(bell.counter()))
}

/// Rests without a task.
fn nap(rest: Duration) {
    // Nobody ever sends.
    let (_sender, nothing) = channel::<()>();
    let _ = nothing.recv_timeout(rest);
}

/// Sees the catalog as it is now; 55P03, and not a conflict, if somebody is changing it.
pub(super) fn look(tx: &mut dyn Access, catalog: &HostCatalog) -> Result<()> {
    let seen = catalog.begin(tx).map(|_| ());
    seen.map_err(|error| match is_conflict(&error) {
        true => SqlError::new(SqlState::LOCK_NOT_AVAILABLE, "the catalog is being changed"),
        false => error,
    })
}

pub(super) fn run_whole<F: Fabric>(
    session: &mut RowSession<'_, F>,
    catalog: &HostCatalog,
    reads_catalog: bool,
    step: Work<'_>,
) -> Result<()> {
    let cx = session.cx();
    let started = cx.now_ns();
    for conflicts in 1u32.. {
        let ended = attempt(session, |tx| {
            let now = if reads_catalog { catalog.begin(tx)? } else { catalog.cached() };
            let mut working = Working::new(now);
            let undo = &mut UndoLog::default();
            step(&mut Running { tx, catalog: &mut working, undo, host: catalog })?;
            working.finish(tx)
        });
        match ended {
            // Whoever waits for this may have a transaction open that the takeover waits for.
            Err(error) if is_conflict(&error) && session.host().is_held_up() => return Err(error),
            Err(error) if is_conflict(&error) && cx.now_ns() - started < RETRY_NS => {
                session.back_off(conflicts.min(4));
                if conflicts > 4 {
                    // Somebody else needs the processor to get done.
                    let limit = Duration::from_micros(20) * (1 << conflicts.min(9));
                    nap(limit.min(Duration::from_micros(20 + cx.random_below(5_000))));
                }
            }
            ended => return ended,
        }
    }
    unreachable!("a transaction met 2^32 conflicts")
}

/// Waits until the last transaction is durable.
fn wait_durable<F: Fabric>(session: &mut RowSession<'_, F>) -> Result<()> {
    let ticket = session.ticket();
    let wants = session.durability() == Durability::Storage;
    let mut spins = 0;
    while wants && !session.is_durable(ticket)? {
        spins += 1;
        // Storage takes longer than a few spins.
        if spins > 16 { session.sleep_for(ticket) } else { session.pause() }
    }
    Ok(())
}

/// What worker 0 has heard: how often bells rang, and when it looked.
#[derive(Default)]
struct Heard {
    notices: (u64, u64),
    signals: (u64, u64),
}

/// Worker 0.
pub(super) struct Attendant<'a> {
    pub(super) slots: &'a Slots,
    pub(super) catalog: &'a HostCatalog,
}

impl Attendant<'_> {
    /// Other hosts first, then short transactions, then garbage.
    pub(super) fn attend<F: Fabric>(
        &self,
        session: &mut RowSession<'_, F>,
        goes_on: &mut dyn FnMut(&RowSession<'_, F>) -> bool,
    ) -> Result<()> {
        let (mut busy_ns, mut sweep_ns, mut heard) = (0, 0, Heard::default());
        session.set_wait(Some(&NoWait));
        let mut status = StatusWriter::new(session.host());
        loop {
            if session.host().is_fenced() {
                let message = "this host has been ruled out of the pod";
                return Err(SqlError::new(SqlState::ADMIN_SHUTDOWN, message));
            }
            if !goes_on(session) {
                return Ok(());
            }
            let served = session.serve();
            let order = {
                let mut pool = lock(&self.slots.pool);
                if pool.closed {
                    return Ok(());
                }
                pool.orders.pop_front()
            };
            let is_busy = served > 0 || order.is_some();
            order.into_iter().for_each(|order| self.obey(session, order));
            self.listen(session, &mut heard, false);
            let now_ns = session.cx().now_ns();
            status.write(session, now_ns, self.slots.observed());
            if is_busy {
                busy_ns = now_ns;
            }
            if now_ns.saturating_sub(busy_ns) < AWAKE_NS {
                session.cx().pause();
                continue;
            }
            if now_ns.saturating_sub(sweep_ns) >= SWEEP.0 {
                // At once again as long as there is garbage.
                sweep_ns = if self.sweep(session) { sweep_ns } else { now_ns };
                continue;
            }
            session.doze(|session| {
                self.listen(session, &mut heard, true);
                let comes = session.serve() > 0 || !goes_on(session) || self.slots.wants_attendant();
                if comes { 0 } else { session.idle_ns() }
            });
        }
    }

    /// Runs a short transaction for somebody.
    fn obey<F: Fabric>(&self, session: &mut RowSession<'_, F>, mut order: Order) {
        let ended = match &mut order.job {
            Some(job) => run_whole(session, self.catalog, order.reads_catalog, job),
            None => self.hand_over(session),
        };
        if let (Ok(()), Some(bell)) = (&ended, order.rings) {
            ring(session.cx(), session.host(), bell);
        }
        match (&order.said, ended) {
            // Who is gone waits for nothing.
            (Some(said), ended) => _ = said.send(ended.and_then(|()| wait_durable(session))),
            (None, Err(error)) if is_conflict(&error) => lock(&self.slots.pool).orders.push_back(order),
            (None, _) => {}
        }
    }

    /// Looks after those for whom a bell has rung; `rests`: worker 0 is about to sleep.
    fn listen<F: Fabric>(&self, session: &mut RowSession<'_, F>, heard: &mut Heard, rests: bool) {
        if self.slots.advisory.is_awaited() {
            self.slots.advisory.hear(rung(session, Bell::Advisory));
        }
        if self.slots.listeners.is_wanted() {
            let now = (rung(session, Bell::Notices), session.cx().now_ns());
            let last = heard.notices;
            if (now.0 != last.0 || now.1 - last.1 > TRUST_NS) && self.hand_over(session).is_ok() {
                heard.notices = now;
            }
        }
        let now_ns = session.cx().now_ns();
        if rests || now_ns.saturating_sub(heard.signals.1) >= SIGNALS_NS {
            let number = rung(session, Bell::Signals);
            if number == heard.signals.0 || self.receive(session).is_ok() {
                heard.signals = (number, now_ns);
            }
        }
    }

    /// Hands the notifications of this host's inbox over to its sessions.
    fn hand_over<F: Fabric>(&self, session: &mut RowSession<'_, F>) -> Result<()> {
        let classes = self.catalog.classes();
        loop {
            let mut taken = (Vec::new(), true);
            run_whole(session, self.catalog, false, &mut |running| {
                taken = notices::take(running.tx, classes)?;
                Ok(())
            })?;
            self.slots.listeners.hand_over(&taken.0);
            if taken.1 {
                return Ok(());
            }
        }
    }

    /// Does what the signals for this host say, and answers them.
    fn receive<F: Fabric>(&self, session: &mut RowSession<'_, F>) -> Result<()> {
        let classes = self.catalog.classes();
        loop {
            let mut taken = (Vec::new(), true);
            run_whole(session, self.catalog, false, &mut |running| {
                taken = signals::take(running.tx, classes)?;
                Ok(())
            })?;
            for (to, answer) in taken.0.iter().filter_map(|signal| self.slots.directory.receive(signal)) {
                let classes = classes.clone();
                self.slots.later(Some(Bell::Signals), move |running| {
                    signals::put(running.tx, &classes, running.host.numbers(), (to, &answer)).map(drop)
                });
            }
            if taken.1 {
                return Ok(());
            }
        }
    }

    /// Removes some rows of objects that are gone from this host's places, if nobody is in the way; false if
    /// there are none.
    fn sweep<F: Fabric>(&self, session: &mut RowSession<'_, F>) -> bool {
        let now = self.catalog.cached();
        let swept = attempt(session, |tx| {
            let own = (0..tx.places()).filter(|place| tx.is_own(*place)).collect::<Vec<_>>();
            let mut more = false;
            for place in own {
                more |= garbage::sweep(tx, now.classes(), place, SWEEP.1)?;
            }
            Ok(more)
        });
        swept.unwrap_or(false)
    }
}
