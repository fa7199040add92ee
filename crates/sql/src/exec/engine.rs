//! A [`Store`] over the engine's tables: catalog and rows of a pod, in a transaction of a slot.
//!
//! A session runs its statements itself, with a borrowed worker's transaction at hand: a row costs a call and
//! no message. Without one it still knows the catalog that its transaction, or the host, saw last.
//!
//! Invariants:
//! 1. What a description says of where rows are (`rows`, `overflow`, `key`), and of what they have in
//!    columns that came later (`missing`), is this store's: descriptions from above may be older there, and
//!    are corrected.
//! 2. After a conflict nothing but the end of the transaction is left: its worker is given back behind the
//!    statement, and savepoints of such a transaction are refused.
//! 3. No borrow of the transaction is held while code from above runs.
//! 4. Whoever changes only a session's own objects (own.rs) announces nothing to the pod.

mod hold;
mod isolation;
mod lookup;
mod numbers;
mod own;
mod points;
mod row_waits;
mod shape;
mod snapshot;
mod statistics;
mod view;

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::computed::Computing;
use super::store::{
    Cursor, Found, Inserted, IsolationLevel, Mark, Purpose, Range, RowKey, Rows, SessionHost, Store,
    Tolerated,
};
use crate::catalog::change::{Kept, Working};
use crate::catalog::definition::touched;
use crate::catalog::object::{Index, Object, Table};
use crate::catalog::sequence;
use crate::catalog::statistics::TableStatistics;
use crate::catalog::{Catalog, HostCatalog};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::system::Surroundings;
use crate::observe::Observed;
use crate::panics::uncaught;
use crate::session::{Interrupt, WaitEvent};
use crate::slots::{Bell, Running, Slot, Slots};
use crate::storage::access::{Access, Traffic, is_conflict};
use crate::storage::ahead::{self, Coming};
use crate::storage::census::TableCensus;
use crate::storage::notices::Notice;
use crate::storage::private::{Beside, PrivateRows, is_private};
use crate::storage::table::{RowChange, TableRows};
use crate::storage::undo::{self, Undoing};
use crate::types::Oid;
use crate::types::value::Value;
use hold::Holding;
use isolation::Isolation;
use own::Own;
use statistics::{Counted, Known};

/// What all sessions of a host share: its workers and its catalog.
pub struct SqlHost {
    /// The workers.
    pub slots: Arc<Slots>,
    /// The catalog.
    pub catalog: Arc<HostCatalog>,
    /// At which level transactions are that ask for none.
    pub isolation: IsolationLevel,
}

/// A savepoint's undo mark and catalog.
type Point = (undo::Mark, Kept);

/// Catalog and rows of a pod as one session sees them.
pub(crate) struct EngineStore {
    host: Arc<SqlHost>,
    /// Its transaction, once that has needed rows.
    slot: RefCell<Option<Slot>>,
    catalog: RefCell<Arc<Catalog>>,
    /// Changes of the catalog by this transaction.
    changes: Cell<u64>,
    points: RefCell<Vec<Point>>,
    broken: Cell<bool>,
    uncommitted: Cell<bool>,
    /// What is rung after the commit.
    rings: Cell<Option<Bell>>,
    /// The transaction reads a snapshot.
    as_of_one: Cell<bool>,
    /// The session's own objects, the name of their schema, how often they have changed, and whether this
    /// transaction has changed them.
    own: RefCell<Own>,
    own_name: Arc<str>,
    own_version: Cell<u64>,
    own_changed: Cell<bool>,
    isolation: Isolation,
    /// What it uses, and how it waits.
    holding: Holding,
    statistics: Known,
}

impl EngineStore {
    /// A store without a transaction, of the session with this number.
    pub(crate) fn new(
        host: Arc<SqlHost>,
        process_id: i32,
        interrupt: Arc<Interrupt>,
        surroundings: Box<dyn Surroundings>,
    ) -> EngineStore {
        let catalog = RefCell::new(host.catalog.cached());
        let own = RefCell::new(Own::new(PrivateRows::new(host.slots.private_bytes().clone())));
        EngineStore {
            host: host.clone(),
            slot: RefCell::new(None),
            catalog,
            changes: Cell::new(0),
            points: RefCell::default(),
            broken: Cell::new(false),
            uncommitted: Cell::new(false),
            rings: Cell::new(None),
            as_of_one: Cell::new(false),
            own,
            own_name: format!("pg_temp_{process_id}").into(),
            own_version: Cell::new(0),
            own_changed: Cell::new(false),
            isolation: Isolation::new(host.clone(), process_id, interrupt.clone()),
            holding: Holding::new(process_id, interrupt, surroundings),
            statistics: Known::default(),
        }
    }

    /// Looks at the catalog that the host has now.
    pub(crate) fn refresh(&self) {
        *self.catalog.borrow_mut() = self.own.borrow_mut().beside(self.host.catalog.cached());
    }

    /// Whether a transaction has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.slot.borrow().is_some()
    }

    /// Begins the transaction, and sees its catalog; waits as [`Slots::begin`] does. Who changes the catalog
    /// waits for others who do before that.
    pub(crate) fn begin_transaction(
        &self,
        changes_catalog: bool,
        goes_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        if changes_catalog {
            self.lock_catalog()?;
        }
        let slot = self.host.slots.begin(changes_catalog, goes_on)?;
        let own = &mut *self.own.borrow_mut();
        own.rows.begin(own.next);
        *self.catalog.borrow_mut() = slot.call(|running| {
            let picture = own.beside(running.catalog.catalog().clone());
            running.catalog.see_own(picture.clone(), own.next);
            Ok(picture)
        })?;
        self.hear(&slot)?;
        *self.slot.borrow_mut() = Some(slot);
        Ok(())
    }

    /// The number of its transaction, while that has a worker.
    pub(crate) fn number(&self) -> Option<u8> {
        self.slot.borrow().as_ref().and_then(Slot::number)
    }

    /// Waits for a worker, if its transaction has begun and has none.
    pub(crate) fn go_on(&self) -> Result<()> {
        let slot = self.slot.borrow();
        slot.as_ref().map_or(Ok(()), |slot| slot.go_on(&mut || self.holding.interrupt.check()))
    }

    /// Gives the transaction's worker back: the statement is over, or waits. The next step takes another one.
    pub(crate) fn rest(&self) {
        if let Some(slot) = &*self.slot.borrow() {
            slot.rest();
            self.holding.rests();
        }
    }

    /// After a statement: a transaction that met a conflict is over.
    pub(crate) fn after_statement(&self) {
        if self.broken.get() {
            self.slot.take();
            self.give_back();
            // A statement that is refused until the block ends may borrow another worker.
            self.own.borrow_mut().rows.roll_back();
        }
        self.rest();
    }

    /// The transaction can only be rolled back.
    pub(crate) fn give_up(&self) {
        self.broken.set(true);
    }

    /// Ends a transaction that has done nothing yet.
    pub(crate) fn let_go(&self) {
        debug_assert!(self.points.borrow().is_empty(), "a savepoint is something");
        self.rollback();
    }

    /// Whether a commit has failed since this was asked last.
    pub(crate) fn take_uncommitted(&self) -> bool {
        self.uncommitted.take()
    }

    /// The catalog as it was seen last.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.catalog.borrow().clone()
    }

    fn note<R>(&self, result: Result<R>) -> Result<R> {
        if result.as_ref().is_err_and(is_conflict) {
            self.broken.set(true);
        }
        result
    }

    /// Does something in the transaction, on a worker.
    fn on_worker<R>(&self, work: impl FnOnce(&mut Running<'_>, &mut Own) -> Result<R>) -> Result<R> {
        // Not shared: a step inside of a step is a fault.
        let slot = self.slot.borrow_mut();
        let slot = slot.as_ref().ok_or_else(|| {
            let message = "rows are not at hand without a transaction";
            SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message)
        })?;
        slot.go_on(&mut || self.holding.interrupt.check())?;
        self.holding.goes_on(|| slot.number());
        let own = &mut *self.own.borrow_mut();
        let ran = slot.call(|running| {
            let done = uncaught(|| work(running, own));
            own.next = running.catalog.next_own();
            done
        });
        self.note_step(slot, ran)
    }

    /// Runs a step in the transaction.
    fn step<R>(
        &self,
        step: impl FnOnce(&mut Undoing<'_>, &mut Working, &HostCatalog) -> Result<R>,
    ) -> Result<R> {
        self.on_worker(|running, own| {
            let Running { tx, catalog, undo, host } = running;
            if !own.is_used() {
                return step(&mut Undoing::new(&mut **tx, undo), catalog, host);
            }
            step(&mut Undoing::new(&mut Beside::new(&mut **tx, &mut own.rows), undo), catalog, host)
        })
    }

    /// As [`EngineStore::step`], for changes of the catalog, of the pod's or of own objects only.
    fn change<R>(
        &self,
        of_own: bool,
        step: impl FnOnce(&mut Undoing<'_>, &mut Working, &HostCatalog) -> Result<R>,
    ) -> Result<R> {
        if !of_own {
            self.lock_some(&[])?;
        }
        let result = self.step(|tx, working, host| {
            let result = step(tx, working, host);
            debug_assert!(!of_own || result.is_err() || !working.is_changed() || self.changes.get() > 0);
            *self.catalog.borrow_mut() = working.catalog().clone();
            result
        });
        match of_own {
            true => {
                self.own_changed.set(true);
                self.own_version.set(self.own_version.get() + 1);
            }
            false => self.changes.set(self.changes.get() + 1),
        }
        result
    }

    /// Rows of a table that the transaction uses.
    fn rows(&self, table: Oid) -> Result<Arc<TableRows>> {
        self.hold_here(table)?;
        self.catalog().rows(table)
    }

    /// Before an object becomes another one, or comes or goes: nobody uses the relations that it belongs to.
    fn lock_touched(&self, oid: Oid, new: Option<&Object>) -> Result<()> {
        if is_private(oid) {
            return Ok(());
        }
        self.lock_some(&[])?;
        let catalog = self.catalog();
        self.lock_some(&touched(&catalog, catalog.get(oid).map(|old| &**old), new))
    }

    /// Becomes who changes the catalog, if these are not the session's own relations, and these relations.
    fn lock_some(&self, relations: &[Oid]) -> Result<()> {
        if relations.iter().any(|oid| is_private(*oid)) {
            return Ok(());
        }
        self.lock_catalog_late()?;
        self.slot.borrow().as_ref().map_or(Ok(()), Slot::announce)?;
        self.lock_relations(relations)
    }

    fn computed(&self, table: Oid) -> Computing<'_> {
        Computing { store: self, table }
    }
}

impl Rows for EngineStore {
    fn has_rows_at_hand(&self) -> bool {
        self.has_begun()
    }

    fn scan(
        &self,
        table: &Arc<Table>,
        range: &Range,
        purpose: Purpose,
        cursor: &mut Cursor,
        limit: usize,
    ) -> Result<Vec<Found>> {
        let rows = self.rows(table.oid)?;
        if cursor.done {
            return Ok(Vec::new());
        }
        let is_point = purpose != Purpose::Free && self.point(&rows, range);
        let reads = self.reads_for(table.oid, purpose, is_point)?;
        if is_point {
            cursor.done = true;
            return self.get(&rows, range, purpose, reads);
        }
        self.scan_on(&rows, (range, purpose, reads), cursor, limit)
    }

    fn look_at(&self, table: &Arc<Table>, key: &RowKey, columns: &[bool]) -> Result<Option<Found>> {
        let rows = self.rows(table.oid)?;
        self.step(|tx, _, _| rows.peek(tx, key, Some(columns), &mut Vec::new()))
    }

    fn locks_found(&self, table: &Arc<Table>, range: &Range, waits: bool) -> Result<bool> {
        let is_point =
            self.level() == IsolationLevel::ReadCommitted && self.point(&*self.rows(table.oid)?, range);
        Ok(EngineStore::locks_found(self, table.oid, is_point, waits))
    }

    fn lock_found(&self, table: &Arc<Table>, row: &Found, waits: bool) -> Result<Option<Found>> {
        EngineStore::lock_found(self, table.oid, row, waits)
    }

    fn take_if_free(&self, table: &Arc<Table>, row: &Found) -> Result<Option<Found>> {
        let rows = self.rows(table.oid)?;
        self.step(|tx, _, _| rows.lock_if_free(tx, &row.key))
    }

    fn is_spread(&self, table: &Arc<Table>) -> Result<bool> {
        if is_private(table.oid) { Ok(false) } else { self.step(|tx, _, _| Ok(ahead::is_spread(tx))) }
    }

    fn announce(&self, table: &Arc<Table>, coming: &Coming<'_>) -> Result<()> {
        let (rows, computed) = (self.rows(table.oid)?, self.computed(table.oid));
        self.step(|tx, _, _| {
            rows.announce(tx, coming, &computed);
            Ok(())
        })
    }

    fn insert(&self, table: &Arc<Table>, row: &[Value], tolerated: Tolerated) -> Result<Inserted> {
        let (rows, computed) = (self.rows(table.oid)?, self.computed(table.oid));
        let only = match tolerated {
            Tolerated::Index(oid) => Some(vec![oid]),
            Tolerated::None | Tolerated::Any => None,
        };
        self.step(|tx, _, host| {
            if tolerated != Tolerated::None
                && let Some(met) = rows.find_duplicate(tx, row, only.as_deref(), &computed)?
                && let Some(there) = rows.lock(tx, &met.key)?
            {
                return Ok(Inserted::Met(there));
            }
            let key = rows.insert(tx, host.numbers(), row, &computed)?;
            self.count_change(table.oid, Counted::Insert);
            Ok(Inserted::Done(key))
        })
    }

    fn update(&self, table: &Arc<Table>, change: &RowChange<'_>) -> Result<RowKey> {
        let (rows, computed) = (self.rows(table.oid)?, self.computed(table.oid));
        let key = self.step(|tx, _, host| rows.update(tx, host.numbers(), change, &computed))?;
        self.count_change(table.oid, Counted::Update);
        Ok(key)
    }

    fn delete(&self, table: &Arc<Table>, gone: &[Found]) -> Result<Vec<bool>> {
        let (rows, computed) = (self.rows(table.oid)?, self.computed(table.oid));
        let were = rows.delete(self, gone, &computed)?;
        were.iter().filter(|was| **was).for_each(|_| self.count_change(table.oid, Counted::Delete));
        Ok(were)
    }

    fn truncate(&self, table: &Arc<Table>) -> Result<()> {
        self.lock_some(&[table.oid])?;
        self.change(is_private(table.oid), |tx, working, _| working.truncate(tx, table.oid))
    }

    fn build(&self, table: &Arc<Table>, index: &Arc<Index>) -> Result<()> {
        if index.keeps_rows() {
            return Ok(());
        }
        self.fill(table.oid, index.oid)
    }

    fn rewrite(
        &self,
        old: &Arc<Table>,
        new: &Arc<Table>,
        change: &mut dyn FnMut(Vec<Value>) -> Result<Vec<Value>>,
    ) -> Result<()> {
        self.rewrite_rows(old, new.oid, change)
    }

    fn next_value(&self, oid: Oid) -> Result<i64> {
        self.next_number(oid)
    }

    fn sequence_state(&self, oid: Oid) -> Result<(i64, bool)> {
        self.last_number(oid)
    }

    fn set_value(&self, oid: Oid, value: i64, called: bool) -> Result<()> {
        self.set_number(oid, sequence::State { last: value, called })
    }

    fn begin_numbers(&self, oid: Oid, first: Option<i64>) -> Result<()> {
        self.take_numbers(oid, first)
    }

    fn census(&self, table: Oid) -> Result<TableCensus> {
        let rows = self.catalog().rows(table)?;
        self.step(|tx, _, _| Ok(rows.census(tx)))
    }
}

impl SessionHost for EngineStore {
    fn observed(&self) -> Option<&Observed> {
        Some(self.host.slots.observed())
    }

    fn traffic(&self) -> Traffic {
        self.step(|tx, _, _| Ok(tx.traffic())).unwrap_or_default()
    }

    fn rest(&self) {
        EngineStore::rest(self);
    }

    fn lend(&self) -> bool {
        let is_wanted = self.host.slots.is_wanted();
        // In the middle of a step the slot is in use.
        if is_wanted
            && let Ok(slot) = self.slot.try_borrow()
            && slot.as_ref().is_some_and(Slot::lend)
        {
            self.holding.rests();
        }
        is_wanted
    }

    fn host(&self) -> Option<&Arc<SqlHost>> {
        Some(&self.host)
    }

    fn notify(&self, notices: &[Notice]) -> Result<bool> {
        self.put_notices(notices)
    }
}

impl Store for EngineStore {
    fn keep_statistics(&self, table: Oid, found: TableStatistics) -> Result<()> {
        EngineStore::keep_statistics(self, table, found)
    }

    fn statistics_version(&self) -> u64 {
        self.statistics_count()
    }

    fn new_oid(&self, near: Oid) -> Result<Oid> {
        if !is_private(near) {
            self.lock_catalog_late()?;
        }
        self.step(|tx, working, _| working.take_oids(tx, near, 1))
    }

    fn own_schema(&self, make: bool) -> Result<Option<Oid>> {
        if make { self.make_own_schema().map(Some) } else { Ok(self.existing_own_schema()) }
    }

    fn own_objects(&self) -> Vec<Arc<Object>> {
        self.catalog().own_objects().cloned().collect()
    }

    fn discard_own(&self) -> Result<()> {
        self.discard_all()
    }

    fn hold(&self, relations: &[Oid]) -> Result<bool> {
        self.hold_all(relations)
    }

    fn lock(&self, relations: &[Oid], nowait: bool) -> Result<()> {
        self.lock_tables(relations, nowait)
    }

    fn create(&self, object: Object) -> Result<()> {
        self.lock_touched(object.oid(), Some(&object))?;
        match object {
            Object::Table(table) => self.create_table(table),
            Object::Index(index) => self.create_index(index),
            Object::Sequence(sequence) => self.change(is_private(sequence.oid), |tx, working, _| {
                working.create(tx, Object::Sequence(sequence.clone()))?;
                sequence::create(tx, working.catalog(), &sequence)
            }),
            other => self.change(is_private(other.oid()), |tx, working, _| working.create(tx, other)),
        }
    }

    fn replace(&self, object: Object) -> Result<()> {
        self.lock_touched(object.oid(), Some(&object))?;
        match object {
            Object::Table(table) => self.replace_table(table),
            other => self.change(is_private(other.oid()), |tx, working, _| working.replace(tx, other)),
        }
    }

    fn remove(&self, oid: Oid) -> Result<()> {
        self.lock_touched(oid, None)?;
        self.change(is_private(oid), |tx, working, _| working.drop_object(tx, oid))
    }

    fn mark(&self) -> Mark {
        self.save_point()
    }

    fn undo_to(&self, mark: Mark) -> Result<()> {
        self.back_to(mark)
    }

    fn begin(&self) -> Result<()> {
        // A slot is borrowed when there is something to do for it.
        self.changes.set(0);
        self.broken.set(false);
        self.uncommitted.set(false);
        Ok(())
    }

    fn commit(&self) -> Result<()> {
        self.changes.set(0);
        self.points.borrow_mut().clear();
        let rings = self.rings.take();
        let ended = self.slot.take().map_or(Ok(()), |slot| {
            slot.call(|running| running.catalog.finish(running.tx))?;
            slot.commit(rings, &mut || self.holding.interrupt.show(WaitEvent::Log))
        });
        self.give_back();
        self.uncommitted.set(ended.is_err());
        self.end_statistics(ended.is_ok());
        if ended.is_ok() {
            let changed = self.own_changed.take().then(|| self.catalog());
            self.own.borrow_mut().commit(changed.as_deref());
        }
        ended
    }

    fn rollback(&self) {
        self.slot.take();
        self.give_back();
        self.end_statistics(false);
        self.rings.take();
        self.changes.set(0);
        self.points.borrow_mut().clear();
        self.broken.set(false);
        self.own.borrow_mut().rows.roll_back();
        if self.own_changed.take() {
            self.own_version.set(self.own_version.get() + 1);
            self.refresh();
        }
    }
}
