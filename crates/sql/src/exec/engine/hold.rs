//! Relations that a transaction uses or changes, and waiting for them.
//!
//! What keeps uses and changes of a relation apart are definitions (catalog/definition.rs). They are rows of
//! the engine, which does not wait; so who has to wait says so in a row that all hosts see
//! (storage/advisory.rs), looks again and again, and is told if it waits for itself.
//!
//! Invariants:
//! 1. A statement runs by a picture that is as new as the definitions of its relations: they are held when it
//!    has been planned, and if one is newer it is planned again.
//! 2. Who changes the catalog has the lock of the catalog first: one transaction at a time does.
//! 3. Who is to change a relation has a row that says so before it takes the first copy of its definition,
//!    and to the end of its transaction: whoever comes later waits for that row, and not for a row of the
//!    engine.
//! 4. Who waits has rows for all that it uses before: so every cycle is found.
//! 5. A transaction that waits ends with a conflict when the takeover of a dead host's partitions waits for
//!    it: what it waits for may be there.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;

use super::EngineStore;
use crate::catalog::definition::Held;
use crate::error::{Result, SqlError, SqlState};
use crate::exec::advisory::{self, Waiter};
use crate::exec::sleep::nap;
use crate::exec::system::Surroundings;
use crate::session::{Interrupt, WaitEvent};
use crate::slots::{Bell, Slot};
use crate::storage::advisory::{self as locks, Lock, Mode};
use crate::storage::private::is_private;
use crate::types::Oid;

/// The lock of whoever changes the catalog.
const CATALOG: advisory::Held = (Lock::Relation(0), Mode::Exclusive);
/// Time between two looks of who waits for those that use a relation, at most: they do not say when they end.
const LOOK_US: i64 = 2_000;
/// How often a newer catalog is looked for, and the time between: its commit takes as long as storage does.
const LOOKS: (u32, std::time::Duration) = (20_000, std::time::Duration::from_micros(500));

/// What a session uses, and how it waits.
pub(super) struct Holding {
    process_id: i32,
    pub(super) interrupt: Arc<Interrupt>,
    surroundings: Box<dyn Surroundings>,
    timeouts_us: Cell<(i64, i64)>,
    /// Relations whose definitions the transaction has read.
    used: RefCell<BTreeSet<Oid>>,
    /// Locks that it has rows for.
    rows: RefCell<BTreeSet<advisory::Held>>,
    /// Somebody may be changing the catalog.
    announced: Cell<bool>,
    /// The statement can begin anew, and what it waits for before it does.
    may_start_over: Cell<bool>,
    wanted: Cell<Option<Oid>>,
    /// The transaction has rested since it was shown where the statement is.
    rests: Cell<bool>,
}

impl Holding {
    pub(super) fn new(
        process_id: i32,
        interrupt: Arc<Interrupt>,
        surroundings: Box<dyn Surroundings>,
    ) -> Holding {
        Holding {
            process_id,
            interrupt,
            surroundings,
            timeouts_us: Cell::default(),
            used: RefCell::default(),
            rows: RefCell::default(),
            announced: Cell::new(false),
            may_start_over: Cell::new(false),
            wanted: Cell::new(None),
            rests: Cell::new(false),
        }
    }

    pub(super) fn clock_us(&self) -> i64 {
        self.surroundings.clock_us()
    }

    /// How long a statement waits for a lock (0: as long as it takes), and before it looks who waits for
    /// whom, in microseconds.
    pub(super) fn timeouts_us(&self) -> (i64, i64) {
        self.timeouts_us.get()
    }

    /// It has rows for locks.
    pub(super) fn has_locks(&self) -> bool {
        !self.rows.borrow().is_empty()
    }

    /// The relations that the transaction uses.
    pub(super) fn used(&self) -> BTreeSet<Oid> {
        self.used.borrow().clone()
    }

    /// It has given back all but these.
    pub(super) fn uses_only(&self, used: BTreeSet<Oid>) {
        self.used.replace(used);
    }

    /// The transaction holds no definition any more.
    pub(super) fn uses_nothing(&self) {
        self.used.borrow_mut().clear();
    }

    /// The transaction has no worker, and may have no number of its own.
    pub(super) fn rests(&self) {
        self.rests.set(true);
        self.interrupt.show(WaitEvent::Here);
    }

    /// It has a worker again: shows by which number others see what it does.
    pub(super) fn goes_on(&self, number: impl FnOnce() -> Option<u8>) {
        if self.rests.take() {
            self.interrupt.show(number().map_or(WaitEvent::Here, WaitEvent::Running));
        }
    }
}

fn conflict(detail: &str) -> SqlError {
    let message = "could not serialize access due to concurrent update";
    SqlError::new(SqlState::SERIALIZATION_FAILURE, message).detail(detail)
}

impl EngineStore {
    /// A statement begins: how long it waits for locks, and whether it may begin anew.
    pub(crate) fn begin_statement(&self, timeouts_us: (i64, i64), may_start_over: bool) {
        self.holding.timeouts_us.set(timeouts_us);
        self.holding.may_start_over.set(may_start_over);
    }

    /// It is over: what comes between it and the next one, such as a Parse, waits where it is.
    pub(crate) fn end_statement(&self) {
        self.holding.may_start_over.set(false);
    }

    /// What a statement that is to begin anew waits for.
    pub(crate) fn take_wanted(&self) -> Option<Oid> {
        self.holding.wanted.take()
    }

    /// In a transaction, before a statement: sees what others have committed to the catalog.
    pub(crate) fn look_again(&self) -> Result<()> {
        if self.as_of_one.get() {
            return Ok(());
        }
        let announced = match &*self.slot.borrow() {
            Some(slot) => self.hear(slot)?,
            None => return Ok(()),
        };
        if self.changes.get() > 0 || !self.host.catalog.may_be_old(announced) {
            return Ok(());
        }
        // Most announced changes are not there yet.
        if !self.on_worker(|running, _| running.host.is_current(running.tx))? {
            self.host.slots.look()?;
        }
        self.renew().map(drop)
    }

    /// Hears whether somebody may be changing the catalog.
    pub(super) fn hear(&self, slot: &Slot) -> Result<u64> {
        let announced = slot.announcements()?;
        self.holding.announced.set(announced as u32 != 0);
        Ok(announced)
    }

    /// Goes on with the host's picture of the catalog, if it is newer; whether it was.
    fn renew(&self) -> Result<bool> {
        let pod = self.host.catalog.cached();
        let renewed = self.on_worker(|running, own| {
            if running.catalog.is_changed() || running.catalog.base_version() >= pod.version() {
                return Ok(None);
            }
            let picture = running.catalog.own_beside(&pod);
            running.catalog.renew(pod.clone(), picture.clone());
            own.forget_picture();
            Ok(Some(picture))
        })?;
        let is_newer = renewed.is_some();
        if let Some(picture) = renewed {
            *self.catalog.borrow_mut() = picture;
        }
        Ok(is_newer)
    }

    /// Uses a relation from here on, if nobody changes it.
    fn hold_one(&self, relation: Oid) -> Result<Held> {
        let own = &self.holding;
        if self.as_of_one.get() || is_private(relation) || own.used.borrow().contains(&relation) {
            return Ok(Held::Here);
        }
        let waited = self.has_waited_for(relation);
        let held = self.on_worker(|running, _| {
            let request =
                advisory::request(running, own.process_id, (Lock::Relation(relation), Mode::Shared));
            let (classes, lock) = (running.host.classes(), request.lock);
            if own.announced.get()
                && !waited
                && !running.catalog.has_taken(relation)
                && locks::is_wanted(running.tx, classes, lock, &request.holder)?
            {
                return Ok(Held::Busy);
            }
            running.catalog.hold(running.tx, relation)
        })?;
        if held == Held::Here {
            own.used.borrow_mut().insert(relation);
        }
        Ok(held)
    }

    fn has_waited_for(&self, relation: Oid) -> bool {
        self.holding.rows.borrow().contains(&(Lock::Relation(relation), Mode::Shared))
    }

    /// As [`EngineStore::hold_one`], in the middle of a statement, where it is too late to wait.
    pub(super) fn hold_here(&self, relation: Oid) -> Result<()> {
        match self.hold_one(relation)? {
            Held::Here => Ok(()),
            _ => self.note(Err(conflict("Somebody changes a table or view that the statement came to use."))),
        }
    }

    /// Uses relations from here on, and waits for those who change them; whether the catalog is newer now.
    pub(super) fn hold_all(&self, relations: &[Oid]) -> Result<bool> {
        if !self.has_begun() {
            return Ok(false);
        }
        for relation in relations {
            loop {
                match self.hold_one(*relation)? {
                    Held::Here => break,
                    // Held by a host that is gone, until it has been ruled out.
                    Held::Busy if self.has_waited_for(*relation) => {
                        self.holding.interrupt.check()?;
                        self.rest();
                        nap(LOOKS.1);
                    }
                    Held::Busy => self.await_relation(*relation)?,
                    Held::Newer => return self.look_for_newer().map(|()| true),
                }
            }
        }
        Ok(false)
    }

    /// There is a newer catalog: waits until it can be seen.
    fn look_for_newer(&self) -> Result<()> {
        for _ in 0..LOOKS.0 {
            self.host.slots.look()?;
            if self.renew()? {
                return Ok(());
            }
            self.holding.interrupt.check()?;
            // Whoever commits it may wait for a worker.
            self.rest();
            nap(LOOKS.1);
        }
        self.note(Err(conflict("The catalog has changed since the transaction began to change it.")))
    }

    /// Waits until nobody changes a relation.
    fn await_relation(&self, relation: Oid) -> Result<()> {
        let own = &self.holding;
        if own.may_start_over.get() {
            own.wanted.set(Some(relation));
            return Err(SqlError::new(SqlState::LOCK_NOT_AVAILABLE, "could not obtain lock on relation"));
        }
        self.wait(relation)
    }

    /// Waits until nobody changes a relation.
    pub(crate) fn wait(&self, relation: Oid) -> Result<()> {
        self.wait_for_row((Lock::Relation(relation), Mode::Shared))
    }

    /// Waits until nobody is in the way of a row of this session.
    fn wait_for_row(&self, held: advisory::Held) -> Result<()> {
        let (host, process_id) = (&self.host, self.holding.process_id);
        let mut attempt =
            |begun| advisory::unless_conflict(advisory::take(host, process_id, held, Some(begun)));
        self.until(held, advisory::TRUST_US, &mut attempt)
    }

    /// Becomes who changes the catalog, and sees the newest one: before a statement looks at it.
    pub(crate) fn lock_catalog(&self) -> Result<()> {
        if self.holding.rows.borrow().contains(&CATALOG) {
            return Ok(());
        }
        self.refuse_in_snapshot("change the catalog")?;
        self.wait_for_row(CATALOG)?;
        if self.has_begun() {
            self.host.slots.look()?;
            self.renew()?;
        }
        Ok(())
    }

    /// As [`EngineStore::lock_catalog`], in a statement that was not expected to change the catalog.
    pub(super) fn lock_catalog_late(&self) -> Result<()> {
        let before = self.catalog().version();
        self.lock_catalog()?;
        match self.catalog().version() == before {
            true => Ok(()),
            false => self.note(Err(conflict("The catalog has changed since the statement began."))),
        }
    }

    /// Has tables and views for itself: LOCK TABLE.
    pub(super) fn lock_tables(&self, relations: &[Oid], nowait: bool) -> Result<()> {
        let own: Vec<Oid> = relations.iter().copied().filter(|oid| !is_private(*oid)).collect();
        self.refuse_in_snapshot("lock tables in this mode")?;
        let timeouts_us = self.holding.timeouts_us.get();
        if nowait {
            self.holding.timeouts_us.set((1, timeouts_us.1));
        }
        let announced = self.slot.borrow().as_ref().map_or(Ok(()), Slot::announce);
        let locked = announced.and_then(|()| self.lock_relations(&own));
        self.holding.timeouts_us.set(timeouts_us);
        locked
    }

    /// Waits until nobody uses these relations, and keeps others from it to the end of the transaction.
    pub(super) fn lock_relations(&self, relations: &[Oid]) -> Result<()> {
        for relation in relations {
            let held = (Lock::Relation(*relation), Mode::Exclusive);
            let is_ours = self.on_worker(|running, _| {
                Ok(running.catalog.has_taken(*relation) || !running.catalog.is_of_base(*relation))
            })?;
            if is_ours {
                continue;
            }
            self.until(held, LOOK_US, &mut |begun| self.take_relation(held, *relation, begun))?;
        }
        Ok(())
    }

    /// Tries to take a relation: true if nobody is in the way and its definition is free.
    fn take_relation(&self, held: advisory::Held, relation: Oid, begun: i64) -> Result<bool> {
        let own = &self.holding;
        let note = |waits_since: Option<i64>| {
            let (classes, process_id) = (self.host.catalog.classes().clone(), own.process_id);
            self.host.slots.beside(None, move |running| {
                let request = advisory::request(running, process_id, held);
                locks::note(running.tx, &classes, &request, waits_since)
            })
        };
        let is_first = advisory::unless_conflict(note(Some(begun)))?;
        own.rows.borrow_mut().insert(held);
        if is_first {
            // Whoever was in the way may have dropped it.
            self.look_again()?;
            if !self.on_worker(|running, _| Ok(running.catalog.is_of_base(relation)))? {
                let message = format!("relation with OID {relation} does not exist");
                return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
            }
        }
        if !is_first || !self.on_worker(|running, _| running.catalog.lock(running.tx, relation))? {
            return Ok(false);
        }
        advisory::unless_conflict(note(None).map(|_| true))
    }

    /// Waits for a lock, and has no worker meanwhile.
    fn until(
        &self,
        held: advisory::Held,
        look_us: i64,
        take: &mut dyn FnMut(i64) -> Result<bool>,
    ) -> Result<()> {
        let own = &self.holding;
        let (host, process_id, interrupt) = (&self.host, own.process_id, &*own.interrupt);
        let (clock_us, timeouts_us) = (&|| own.surroundings.clock_us(), own.timeouts_us.get());
        let waiter = Waiter { host, process_id, interrupt, clock_us, timeouts_us };
        let (place, waits) = (own.interrupt.place(), Cell::new(false));
        let waited = waiter.until(held, look_us, &mut |begun| {
            if waits.get() && self.slot.borrow().as_ref().map_or(Ok(false), Slot::is_held_up)? {
                return self
                    .note(Err(conflict("A host has died, and the others wait for this transaction.")));
            }
            let taken = take(begun);
            if matches!(taken, Ok(true)) {
                return taken;
            }
            self.rest();
            if waits.get() {
                return taken;
            }
            // It waits: whoever waits for it is to be found.
            waits.set(true);
            own.interrupt.show(WaitEvent::Relation);
            self.note_used().and(taken)
        });
        if waits.get() {
            own.interrupt.show(place);
        }
        match waited {
            Ok(()) => _ = own.rows.borrow_mut().insert(held),
            Err(_) => {
                own.rows.borrow_mut().remove(&held);
                let release = advisory::releasing(&self.host, process_id, vec![held]);
                host.slots.later(Some(Bell::Advisory), release);
            }
        }
        waited
    }

    /// Puts a row for each relation that the transaction uses.
    fn note_used(&self) -> Result<()> {
        let own = &self.holding;
        let shared = |oid: &Oid| (Lock::Relation(*oid), Mode::Shared);
        let used: BTreeSet<advisory::Held> = own.used.borrow().iter().map(shared).collect();
        let missing = &used - &*own.rows.borrow();
        if missing.is_empty() {
            return Ok(());
        }
        let (classes, process_id, these) =
            (self.host.catalog.classes().clone(), own.process_id, missing.clone());
        self.host.slots.beside(None, move |running| {
            these.iter().try_for_each(|held| {
                let request = advisory::request(running, process_id, *held);
                locks::note(running.tx, &classes, &request, None).map(drop)
            })
        })?;
        own.rows.borrow_mut().extend(missing);
        Ok(())
    }

    /// The transaction is over: nothing is used or locked any more.
    pub(crate) fn give_back(&self) {
        let own = &self.holding;
        own.used.borrow_mut().clear();
        self.as_of_one.set(false);
        let rests = self.isolation.end();
        let rows = std::mem::take(&mut *own.rows.borrow_mut());
        if !rows.is_empty() {
            let release = advisory::releasing(&self.host, own.process_id, rows.into_iter().collect());
            if self.host.slots.beside(Some(Bell::Advisory), release.clone()).is_err() {
                self.host.slots.later(Some(Bell::Advisory), release);
            }
        }
        if !rests.is_zero() {
            nap(rests);
        }
    }
}
