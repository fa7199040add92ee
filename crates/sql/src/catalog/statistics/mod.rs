//! What ANALYZE has found out about the rows of tables: what the planner estimates by.
//!
//! * `sample`: statistics of a sample; `saved`: statistics as rows;
//! * [`HostStatistics`]: those that a host has.
//!
//! They are rows of the pod: as durable as tables are, the same for all hosts, and written with the
//! transaction that found them out. They are no descriptions, and bump no version of the catalog: who uses a
//! table is not disturbed, and no plan is wrong for being older. They have a version of their own, by which a
//! host sees that there are newer ones when it looks whether the catalog has changed.
//!
//! Invariants:
//! 1. A host has the statistics of a table whole, as one ANALYZE has left them. Where somebody is writing
//!    them it keeps older ones and looks again.
//! 2. Nobody holds them: they are read without locks.

mod sample;
pub(crate) mod saved;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use sample::{ROWS_PER_VALUE, Sample, Sampled};

use crate::error::Result;
use crate::storage::access::Access;
use crate::storage::classes::Classes;
use crate::types::Oid;
use crate::types::value::Value;

/// What is known of a table's rows.
#[derive(Clone, Debug, Default)]
pub struct TableStatistics {
    /// Rows of the pod.
    pub rows: f64,
    /// Pages of 8 kB that they would fill.
    pub pages: f64,
    /// When this was found out, in microseconds since 2000-01-01: by a statement, and by the host itself.
    pub analyzed: [Option<i64>; 2],
    /// How often: by a statement, and by the host itself.
    pub counts: [u64; 2],
    /// By column, from 0.
    pub columns: BTreeMap<u16, ColumnStatistics>,
}

/// What is known of a column's values.
#[derive(Clone, Debug, Default)]
pub struct ColumnStatistics {
    /// The type, without domains: what was found out of another one means nothing.
    pub ty: Oid,
    /// The share of NULLs.
    pub null_fraction: f64,
    /// Bytes of a value that is not NULL.
    pub width: f64,
    /// How many different values there are: a number, or where it is negative, a share of the rows; 0: not
    /// known.
    pub distinct: f64,
    /// The most common values with their shares of all rows, the most common first.
    pub common: Vec<(Value, f64)>,
    /// Values that divide the others into parts of the same size, ascending.
    pub bounds: Vec<Value>,
    /// How far rows lie in the order of the values, from -1 to 1.
    pub correlation: Option<f64>,
}

impl ColumnStatistics {
    /// How many different values there are among so many rows, if that is known.
    pub fn distinct_of(&self, rows: f64) -> Option<f64> {
        match self.distinct {
            0.0 => None,
            share if share < 0.0 => Some((-share * rows).max(1.0)),
            number => Some(number.min(rows).max(1.0)),
        }
    }

    /// The share of all rows that the most common values have.
    pub fn common_share(&self) -> f64 {
        self.common.iter().map(|(_, share)| share).sum::<f64>().min(1.0)
    }
}

/// How rows of tables have been changed on this host since their statistics were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Rows put in, changed and removed, since the host began.
    pub all: [u64; 3],
    /// The same since the last ANALYZE.
    pub since: [u64; 3],
}

/// The statistics that a host has.
#[derive(Default)]
pub struct HostStatistics {
    version: AtomicU64,
    tables: Mutex<BTreeMap<Oid, (u64, Arc<TableStatistics>)>>,
    changes: Mutex<BTreeMap<Oid, Changes>>,
    /// Places of this host, and all of them.
    places: (AtomicU64, AtomicU64),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HostStatistics {
    /// Grows when this host sees newer ones.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Those of a table.
    pub fn of(&self, table: Oid) -> Option<Arc<TableStatistics>> {
        lock(&self.tables).get(&table).map(|(_, found)| found.clone())
    }

    /// The version at which those of a table were made; 0: there are none.
    pub fn version_of(&self, table: Oid) -> u64 {
        lock(&self.tables).get(&table).map_or(0, |(version, _)| *version)
    }

    /// Looks for newer ones; false if somebody is writing some.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub(crate) fn renew(&self, tx: &mut dyn Access, classes: &Classes) -> Result<bool> {
        let own = (0..tx.places()).filter(|place| tx.is_own(*place)).count() as u64;
        self.places.0.store(own, Ordering::Relaxed);
        self.places.1.store(tx.places().into(), Ordering::Relaxed);
        let Some(version) = saved::peek_version(tx, classes)? else { return Ok(false) };
        if version == self.version() {
            return Ok(true);
        }
        let Some(found) = saved::peek_all(tx, classes)? else { return Ok(false) };
        let mut tables = lock(&self.tables);
        let mut changes = lock(&self.changes);
        for (oid, (version, _)) in &found {
            let is_new = tables.get(oid).is_none_or(|(known, _)| known != version);
            // Whoever counted since then is one of several hosts: all of them begin anew.
            if let Some(changed) = changes.get_mut(oid).filter(|_| is_new) {
                changed.since = [0; 3];
            }
        }
        *tables = found;
        self.version.store(version, Ordering::Relaxed);
        Ok(true)
    }

    /// Places of this host, and all of them.
    pub fn places(&self) -> (u64, u64) {
        (self.places.0.load(Ordering::Relaxed), self.places.1.load(Ordering::Relaxed))
    }

    /// How many rows a table has by now: what ANALYZE has found, and as many more or less for each place as
    /// this host has put in and removed since. `None`: nothing is known.
    pub fn rows_of(&self, table: Oid, found: Option<&TableStatistics>) -> Option<f64> {
        let changes = self.changes_of(table);
        let [inserted, _, deleted] = if found.is_some() { changes.since } else { changes.all };
        let (own, all) = self.places();
        let here = (inserted as f64 - deleted as f64) * all as f64 / own.max(1) as f64;
        let before = found.map(|found| found.rows);
        if before.is_none() && here <= 0.0 {
            return None;
        }
        Some((before.unwrap_or(0.0) + here).max(0.0))
    }

    /// A transaction of this host has committed changes of so many rows.
    pub fn count(&self, changed: &BTreeMap<Oid, [u64; 3]>) {
        let mut changes = lock(&self.changes);
        for (table, more) in changed {
            let known = changes.entry(*table).or_default();
            known.all.iter_mut().zip(more).for_each(|(all, more)| *all += more);
            known.since.iter_mut().zip(more).for_each(|(all, more)| *all += more);
        }
    }

    /// What has been changed here of a table's rows.
    pub fn changes_of(&self, table: Oid) -> Changes {
        lock(&self.changes).get(&table).copied().unwrap_or_default()
    }

    /// The tables that have been changed here since their last ANALYZE.
    pub fn changed(&self) -> Vec<(Oid, u64)> {
        let changes = lock(&self.changes);
        let each = changes.iter().map(|(table, it)| (*table, it.since.iter().sum()));
        each.filter(|(_, since)| *since > 0).collect()
    }
}
