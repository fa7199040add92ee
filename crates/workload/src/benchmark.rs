//! A workload together with its database: what hosts load, what their workers run, and what is checked.
//!
//! Whoever runs workloads, in processes or in a simulation, does it through [`Benchmark`] and so runs all of
//! them. A value of it is parameters only: it travels to the hosts, and the tables' numbers follow from the
//! schemas, because a catalog that holds these schemas and nothing else numbers them in their order.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use liger_engine::{Catalog, NewRow, TableId, TableSchema};

use crate::driver::Workload;
use crate::snapshot::{Acknowledged, Snapshot};

/// Which of its host's workers one is, and what its host has.
#[derive(Clone, Copy, Debug)]
pub struct WorkerInfo<'a> {
    /// The partitions of its host when it begins, ascending.
    pub partitions: &'a [u16],
    /// Those that the host owns later; `None`: the same.
    pub owned: Option<&'a Owned>,
    /// Its number among the host's workers.
    pub worker: usize,
    /// Workers of each host.
    pub workers: usize,
}

/// The partitions that a host owns whenever somebody asks, ascending.
#[derive(Clone)]
pub struct Owned(Arc<dyn Fn() -> Vec<u16> + Send + Sync>);

impl Owned {
    /// As `look` says.
    pub fn new(look: impl Fn() -> Vec<u16> + Send + Sync + 'static) -> Self {
        Self(Arc::new(look))
    }

    /// Now.
    pub fn now(&self) -> Vec<u16> {
        (self.0)()
    }
}

impl fmt::Debug for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Owned").field(&self.now()).finish()
    }
}

/// What rows take in shared memory when all are shared that other hosts may touch.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Shareable {
    /// The rows.
    pub rows: u64,
    /// Entries of secondary indexes.
    pub entries: u64,
    /// Bytes of the rows and of their entries in the shared index, in blocks that are not full.
    pub bytes: u64,
}

/// What a check found.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// What is wrong, in words; empty if all is well.
    pub failures: Vec<String>,
    /// Effects that somebody was told are committed, and that are not in the database.
    pub lost: u64,
}

/// A workload and its database, by their parameters.
pub trait Benchmark: Clone + Send + Sync + 'static {
    /// What one worker runs.
    type Worker: Workload;

    /// Its name in reports.
    fn name(&self) -> &'static str;

    /// Its tables.
    fn schemas(&self) -> Vec<TableSchema>;

    /// Partitions of its database; partition p is host p's, modulo the number of hosts.
    fn partitions(&self) -> u16;

    /// The parameters by name, for a report.
    fn settings(&self) -> BTreeMap<String, String>;

    /// Hands the rows of replicated tables, which every host loads, to `emit`; the first error ends it.
    ///
    /// # Errors
    /// The first error of `emit`.
    fn load_replicated<E>(&self, emit: impl FnMut(TableId, &NewRow) -> Result<(), E>) -> Result<(), E> {
        let _ = emit;
        Ok(())
    }

    /// Hands the rows of one partition to `emit`; the first error ends it.
    ///
    /// # Errors
    /// The first error of `emit`.
    fn load_partition<E>(
        &self,
        partition: u16,
        emit: impl FnMut(TableId, &NewRow) -> Result<(), E>,
    ) -> Result<(), E>;

    /// About how many rows all partitions together start with.
    fn rows(&self) -> u64;

    /// The tables whose rows other hosts may touch: what a run may share beforehand.
    fn shared_tables(&self) -> Vec<TableId>;

    /// What these rows take in shared memory.
    fn shareable(&self) -> Shareable;

    /// What all rows take where they live in shared memory: these, and as many again as the database has of
    /// others, which are those that transactions add.
    fn whole(&self) -> Shareable {
        let Shareable { rows, entries, bytes } = self.shareable();
        let others = self.rows().saturating_sub(rows);
        // A block of 64 to 128 bytes and 100 of index, chunks half full.
        Shareable { rows: rows + 2 * others, entries: entries + others, bytes: bytes + 2 * 400 * others }
    }

    /// What a worker runs.
    fn worker(&self, info: WorkerInfo<'_>) -> Self::Worker;

    /// Is the whole database right, after runs that acknowledged this?
    fn check(&self, snapshot: &dyn Snapshot, told: Acknowledged<'_>) -> Verdict;
}

/// A catalog of these tables.
///
/// # Panics
/// If a schema is not valid.
pub fn catalog_of(schemas: &[TableSchema]) -> Catalog {
    Catalog::new(schemas).expect("the workloads' schemas are valid")
}
