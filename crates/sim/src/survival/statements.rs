//! Transactions of one to three statements, each of which reads as of a moment of its own and then changes
//! rows, or of one statement whose transaction changes no row that is newer than it.
//!
//! Checked here, at once: a transaction sees what it has changed itself, exactly so, whatever it reads by;
//! the rest of what a statement sees stays as it is; who is to be the first updater finds each row as it saw
//! it. What a statement sees of others, and glances, are records of their own, which are checked in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use liger_engine::host::HostSession;
use liger_engine::{Conflict, Key, KeyRange, Row, RowMut, Transaction, TxnError};
use liger_fabric::sim::Sim;

use super::world::World;
use super::world::statements::Statement;
use crate::Picker;
use crate::pod::Kept;
use crate::rows::{BY_GROUP, GROUPS, Ground, ITEMS, RowsRun, item_key, items, new_row, set_value, value_of};

/// Partition and number of a row.
type At = (i16, i32);

/// Rows of one partition, of one group or of all.
struct Region {
    part: i16,
    low: i32,
    /// The first behind them.
    high: i32,
    group: Option<i16>,
}

impl Region {
    fn contains(&self, (part, id): At) -> bool {
        let is_of_group = self.group.is_none_or(|group| id % i32::from(GROUPS) == i32::from(group));
        part == self.part && (self.low..self.high).contains(&id) && is_of_group
    }

    fn range(&self) -> KeyRange {
        KeyRange::between(item_key(self.part, self.low), item_key(self.part, self.high))
    }
}

/// How far a transaction has come.
struct Course<'a, 'h, M: Kept> {
    world: &'a World<M>,
    session: &'a mut HostSession<'h, Sim, M>,
    ground: Ground,
    pick: Picker,
    /// What all rows have that it has changed when it commits.
    value: i64,
    changes: i64,
    /// What it has changed; `None`: removed.
    own: BTreeMap<At, Option<i64>>,
    /// What its statement has seen of others.
    seen: BTreeMap<At, Option<i64>>,
    /// Rows that its statement may not know of, and that the transaction has changed meanwhile, but not made:
    /// no entry of an index leads to them before the next statement.
    unlisted: BTreeSet<At>,
    open: Option<Statement>,
    /// It has one statement, and is to be the first updater of what that shows.
    is_first_updater: bool,
}

/// The transaction of statements that a number stands for.
pub(super) fn transaction<M: Kept>(
    world: &World<M>,
    session: &mut HostSession<'_, Sim, M>,
    run: &RowsRun,
    number: u64,
) -> Result<(), TxnError> {
    let (mut pick, value) = (Picker::new(number ^ 0x7374_6174), number as i64);
    world.begin_for(session, value)?;
    let (is_first_updater, ground) = (pick.chance(30), run.everywhere());
    let mut course = Course {
        world,
        session,
        ground,
        pick,
        value,
        changes: 0,
        own: BTreeMap::new(),
        seen: BTreeMap::new(),
        unlisted: BTreeSet::new(),
        open: None,
        is_first_updater,
    };
    let ended = course.run();
    let open = course.open;
    world.end_with_statement(session, (open, value), ended)
}

impl<M: Kept> Course<'_, '_, M> {
    fn run(&mut self) -> Result<(), TxnError> {
        if self.is_first_updater {
            self.begin_statement()?;
        }
        for _ in 0..=self.pick.below(3) {
            if !self.is_first_updater {
                self.end_statement();
                for _ in 0..self.pick.below(3) {
                    self.glance()?;
                }
                if self.pick.chance(30) {
                    self.pass()?;
                }
                self.begin_statement()?;
            }
            for _ in 0..=self.pick.below(3) {
                self.read()?;
            }
            for _ in 0..self.pick.below(4) {
                self.change()?;
            }
            for _ in 0..self.pick.below(3) {
                self.read()?;
            }
            if self.pick.chance(20) {
                self.read_locked()?;
            }
            let turns = self.pick.below(20);
            (0..turns).for_each(|_| self.session.cx().pause());
        }
        if self.pick.chance(50) {
            self.end_statement();
        }
        self.settle()?;
        if self.pick.below(6) == 0 { Err(TxnError::Rollback) } else { Ok(()) }
    }

    fn begin_statement(&mut self) -> Result<(), TxnError> {
        let is_patient = self.pick.chance(90);
        let mut turns = 0;
        let begun = self.world.begin_statement(self.session, || {
            turns += 1;
            is_patient || turns < 4
        });
        let mut statement = match begun {
            // The transaction is as it was.
            Err(TxnError::Rollback) if !is_patient => self.world.begin_statement(self.session, || true)?,
            begun => begun?,
        };
        if self.is_first_updater {
            self.session.first_updater_wins();
            statement.is_first_updater = true;
        }
        self.seen.clear();
        self.unlisted.clear();
        self.open = Some(statement);
        Ok(())
    }

    fn end_statement(&mut self) {
        if let Some(statement) = self.open.take_if(|_| !self.is_first_updater) {
            self.world.end_statement(self.session, statement);
        }
    }

    /// One row, most often one of few.
    fn aim(&mut self) -> At {
        let part = self.pick.below(self.ground.parts) as i16;
        (part, self.pick.below(self.ground.keys as u64) as i32)
    }

    fn region(&mut self) -> Region {
        let ((part, low), keys) = (self.aim(), self.ground.keys);
        match self.pick.below(4) {
            0 => Region { part, low: 0, high: keys, group: None },
            1 => Region { part, low, high: keys, group: None },
            2 => {
                let group = Some((low % i32::from(GROUPS)) as i16);
                Region { part, low: 0, high: keys, group }
            }
            _ => Region { part, low, high: low + 1 + self.pick.below(4) as i32, group: None },
        }
    }

    /// Reads something by the statement; a statement that is too old may give way to the next one.
    fn read(&mut self) -> Result<(), TxnError> {
        if self.open.is_none() {
            return Ok(());
        }
        self.session.opened().set_reads_statement(true);
        let read = self.read_by_statement();
        let stays = self.pick.chance(50);
        self.session.opened().set_reads_statement(stays);
        match read {
            Err(TxnError::SnapshotTooOld) if !self.is_first_updater && self.pick.chance(50) => {
                self.end_statement();
                self.begin_statement()
            }
            read => self.forgives(read, 30),
        }
    }

    /// Goes on after a conflict so many times in a hundred.
    fn forgives(&mut self, read: Result<(), TxnError>, percent: u64) -> Result<(), TxnError> {
        if !matches!(read, Err(TxnError::Conflict(_))) || !self.pick.chance(percent) {
            return read;
        }
        self.session.opened().forgive();
        Ok(())
    }

    fn read_by_statement(&mut self) -> Result<(), TxnError> {
        if self.pick.chance(30) {
            let at = self.aim();
            let found = self.session.opened().get(ITEMS, &item_key(at.0, at.1), value_of)?;
            let (own, of) = (self.own.get(&at).copied(), self.seen.get(&at).copied());
            if own.or(of).is_some_and(|due| due != found) {
                self.objects(format!("{at:?} is {found:?}, own {own:?}, seen before {of:?}"));
            }
            if own.is_none() {
                self.seen.insert(at, found);
            }
            return Ok(());
        }
        let (region, most) = (self.region(), self.pick.below(6) as usize);
        let mut shown = Vec::new();
        let mut broke = false;
        let mut see = |row: Row<'_>| {
            shown.push(((row.get(items::PART), row.get(items::ID)), value_of(row)));
            broke = shown.len() == most;
            if broke { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let txn = self.session.opened();
        let read = match region.group {
            None => txn.scan(ITEMS, &region.range(), |_, row| see(row)),
            Some(group) => {
                let range = KeyRange::prefix(Key::build().i16(region.part).i16(group), 1);
                txn.scan_index(BY_GROUP, &range, see)
            }
        };
        if region.group.is_some() && read == Err(TxnError::Conflict(Conflict::Moved)) {
            self.objects("an entry of an index leads to no row".to_owned());
        }
        read.map(|()| self.compare(&region, &shown, broke))
    }

    /// A statement has shown these rows of a region, the first ones or all.
    fn compare(&mut self, region: &Region, shown: &[(At, i64)], broke: bool) {
        let is_sound = shown.is_sorted_by(|a, b| a.0 < b.0) && shown.iter().all(|row| region.contains(row.0));
        let last = shown.last().filter(|_| broke).map_or(region.high, |((_, id), _)| id + 1);
        let mut wrong = Vec::new();
        for at in (region.low..last).map(|id| (region.part, id)).filter(|at| region.contains(*at)) {
            let found = shown.iter().find(|row| row.0 == at).map(|row| row.1);
            match self.own.get(&at) {
                Some(own) if *own == found => {}
                Some(_) if found.is_none() && region.group.is_some() && self.unlisted.contains(&at) => {}
                Some(own) => wrong.push(format!("{at:?} is {found:?}, and own {own:?}")),
                None if *self.seen.entry(at).or_insert(found) == found => {}
                None => wrong.push(format!("{at:?} is {found:?}, and was {:?}", self.seen[&at])),
            }
        }
        if !is_sound || !wrong.is_empty() {
            self.objects(format!("rows out of order or wrong: {shown:?} {wrong:?}"));
        }
    }

    fn read_locked(&mut self) -> Result<(), TxnError> {
        let at = self.aim();
        let txn = self.session.opened();
        txn.set_reads_statement(false);
        let found = txn.get(ITEMS, &item_key(at.0, at.1), value_of)?;
        self.compare_own(at, found);
        Ok(())
    }

    /// Looks at a row and holds nothing.
    fn glance(&mut self) -> Result<(), TxnError> {
        let at = self.aim();
        let mut value = None;
        let mut see = |bytes: &[u8]| value = Some(value_of(Row::new(bytes)));
        let found = self.session.opened().glance(ITEMS, &item_key(at.0, at.1), &mut see);
        match found {
            Ok(found) if found.is_some_and(|found| found != value.is_some()) => {
                self.objects(format!("a glance at {at:?} shows {value:?}, and says {found:?}"));
            }
            Ok(Some(_)) => self.compare_own(at, value),
            Ok(None) if self.own.contains_key(&at) => {
                self.objects(format!("somebody else is changing {at:?}, which is own"));
            }
            Ok(None) => {}
            Err(TxnError::Conflict(_)) if self.pick.chance(50) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Reads some rows in passing: they are locked together, and given back.
    fn pass(&mut self) -> Result<(), TxnError> {
        self.session.begin_passing();
        let mut read = Ok(());
        for _ in 0..=self.pick.below(3) {
            read = self.read_in_passing();
            if read.is_err() {
                break;
            }
        }
        self.session.end_passing(read.is_ok());
        self.forgives(read, 70)
    }

    fn read_in_passing(&mut self) -> Result<(), TxnError> {
        if self.pick.chance(40) {
            let at = self.aim();
            let found = self.session.opened().get(ITEMS, &item_key(at.0, at.1), value_of)?;
            self.compare_own(at, found);
            return Ok(());
        }
        let region = Region { group: None, ..self.region() };
        let mut found = BTreeMap::new();
        self.session.opened().scan(ITEMS, &region.range(), |_, row| {
            found.insert((row.get(items::PART), row.get(items::ID)), value_of(row));
            ControlFlow::Continue(())
        })?;
        for at in (region.low..region.high).map(|id| (region.part, id)) {
            self.compare_own(at, found.get(&at).copied());
        }
        Ok(())
    }

    fn next_value(&mut self) -> i64 {
        self.changes += 1;
        self.value ^ self.changes
    }

    /// Changes something, which it locks.
    fn change(&mut self) -> Result<(), TxnError> {
        let (at, value) = (self.aim(), self.next_value());
        let (key, txn) = (item_key(at.0, at.1), self.session.opened());
        let set = |row: &mut RowMut<'_>| {
            let was = row.get(items::VALUE);
            set_value(row, value);
            was
        };
        match self.pick.below(7) {
            0..=2 => match txn.update(ITEMS, &key, set) {
                // It has changed nothing of the row.
                Err(TxnError::Conflict(_)) if self.pick.chance(30) => self.session.opened().forgive(),
                was => {
                    let was = was?;
                    self.finds(at, was)?;
                    self.changed(at, was.map(|_| value));
                }
            },
            3 => match txn.insert(ITEMS, &new_row(at.0, at.1, value)) {
                Ok(()) => {
                    self.finds(at, None)?;
                    self.made(at, Some(value));
                }
                Err(TxnError::DuplicateKey { .. }) if self.own.get(&at) == Some(&None) => {
                    self.objects(format!("{at:?} was removed, and is there"));
                }
                Err(TxnError::DuplicateKey { .. }) => {}
                Err(error) => return Err(error),
            },
            4 => {
                let removed = txn.delete(ITEMS, &key)?;
                let is_own = self.own.get(&at).is_some_and(|own| own.is_some() != removed);
                if is_own {
                    self.objects(format!("{at:?} is removed: {removed}, own {:?}", self.own.get(&at)));
                }
                if !removed {
                    self.finds(at, None)?;
                } else {
                    self.made(at, None);
                }
            }
            5 => {
                let mut was = None;
                let mut see = |row: &mut RowMut<'_>| was = Some(set(row));
                let taken = txn.take_if_free(ITEMS, &key, &mut see)?;
                if taken {
                    self.finds(at, was)?;
                    self.changed(at, Some(value));
                } else {
                    self.compare_own(at, None);
                }
            }
            _ => self.change_range(value)?,
        }
        Ok(())
    }

    fn change_range(&mut self, value: i64) -> Result<(), TxnError> {
        let region = Region { group: None, ..self.region() };
        let mut found = BTreeMap::new();
        self.session.opened().update_range(ITEMS, &region.range(), |_, row| {
            found.insert((row.get(items::PART), row.get(items::ID)), row.get(items::VALUE));
            set_value(row, value);
            ControlFlow::Continue(())
        })?;
        for at in (region.low..region.high).map(|id| (region.part, id)) {
            let was = found.get(&at).copied();
            self.finds(at, was)?;
            self.changed(at, was.map(|_| value));
        }
        Ok(())
    }

    /// It has changed a row that was there.
    fn changed(&mut self, at: At, value: Option<i64>) {
        let Some(value) = value else { return };
        let is_known = matches!(self.seen.get(&at), Some(Some(_)));
        if self.own.insert(at, Some(value)).is_none() && !is_known && !self.is_first_updater {
            self.unlisted.insert(at);
        }
    }

    /// It has made a row or removed it, and its entries with it.
    fn made(&mut self, at: At, value: Option<i64>) {
        self.own.insert(at, value);
        self.unlisted.remove(&at);
    }

    /// Who is about to change a row finds it so. A first updater that has seen a row, and finds none, ends.
    fn finds(&mut self, at: At, found: Option<i64>) -> Result<(), TxnError> {
        self.compare_own(at, found);
        let is_first = self.is_first_updater && !self.own.contains_key(&at);
        match self.seen.get(&at).copied().filter(|_| is_first) {
            Some(Some(_)) if found.is_none() => return Err(Conflict::Validation.into()),
            Some(seen) if seen != found => {
                self.objects(format!("{at:?} is {found:?}, and it is the first since {seen:?}"));
            }
            _ => {}
        }
        Ok(())
    }

    fn compare_own(&mut self, at: At, found: Option<i64>) {
        let own = self.own.get(&at).copied();
        if own.is_some_and(|own| own != found) {
            self.objects(format!("{at:?} is {found:?}, and own {own:?}"));
        }
    }

    /// Gives all rows that it has changed the value of the transaction.
    fn settle(&mut self) -> Result<(), TxnError> {
        for (at, value) in std::mem::take(&mut self.own) {
            let (Some(value), due) = (value, self.value) else { continue };
            let txn = self.session.opened();
            let was = txn.update(ITEMS, &item_key(at.0, at.1), |row| {
                let was = row.get(items::VALUE);
                set_value(row, due);
                was
            })?;
            if was != Some(value) {
                self.objects(format!("{at:?} is {was:?}, and own {value}"));
            }
        }
        Ok(())
    }

    fn objects(&self, what: String) {
        self.world.object(format!("a transaction of statements, {}: {what}", self.value));
    }
}
