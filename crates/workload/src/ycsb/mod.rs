//! YCSB as Tigon's evaluation runs it (OSDI 2025, section 6.1): transactions of ten operations over rows of a
//! thousand bytes, skewed by Zipf's law, a share of them half on another host's partition.
//!
//! * [`row`]: the rows, whose bytes follow from the key and a counter of updates, [`workload`]: the
//!   transactions, [`check`]: every row is whole, no update is lost, and the rows that were inserted and not
//!   deleted are exactly those acknowledged.
//! * [`Mode::Rmw`]: ten operations, each a read with a given probability, else a read and a change of the
//!   row. [`Mode::Scan`]: two scans of ten rows. [`Mode::InsertDelete`]: one row of the worker's own is
//!   inserted, or the oldest of them deleted. [`Mode::Mixed`]: 80 scans, 10 inserts and 10 deletes of a
//!   hundred.
//! * Rank k of the law is row k of a partition: ranks are not scattered over the keys.
//!
//! The artifact also draws the first operation's row uniformly from the first 150 of the home partition,
//! whatever the law; [`Placement::Paper`] does so, [`Placement::Clean`] does not.

pub mod check;
mod declared;
pub mod row;
pub mod workload;

use std::collections::BTreeMap;

use clap::ValueEnum;
use liger_engine::{NewRow, TableId, TableSchema};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::benchmark::{Benchmark, Shareable, Verdict, WorkerInfo, catalog_of};
use crate::snapshot::{Acknowledged, Snapshot};
use row::{PAYLOAD, Placing, usertable};
use workload::YcsbWorker;

/// What the transactions do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Ten operations: each reads a row, or reads and changes it.
    Rmw,
    /// Two scans of ten rows.
    Scan,
    /// One row is inserted or deleted.
    InsertDelete,
    /// 80 scans, 10 inserts, 10 deletes of a hundred.
    Mixed,
}

impl Mode {
    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Rmw => "rmw",
            Mode::Scan => "scan",
            Mode::InsertDelete => "insert-delete",
            Mode::Mixed => "mixed",
        }
    }
}

/// Which rows the operations touch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// As Tigon's artifact: the first row of a transaction is one of the first 150 of its home.
    Paper,
    /// By Zipf's law alone.
    Clean,
}

impl Placement {
    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Placement::Paper => "paper",
            Placement::Clean => "clean",
        }
    }
}

/// Partitions of a home, if nothing else is said. Whoever works in a partition keeps the others out of it for
/// a moment, so a table wants several for each worker.
pub const PIECES: u16 = 16;

/// A YCSB database and what runs on it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Ycsb {
    /// Homes of rows: one for each host.
    pub homes: u16,
    /// Partitions that the rows of a home are dealt out to.
    pub pieces: u16,
    /// Rows that each home starts with.
    pub keys: u32,
    /// What the transactions do.
    pub mode: Mode,
    /// Percentage of operations that only read.
    pub read_percent: u32,
    /// Percentage of transactions that touch another partition, with every second operation.
    pub cross_percent: u32,
    /// Exponent of Zipf's law; 0: all rows alike.
    pub theta: f64,
    /// Bytes of the fields that an update changes, 1 to 1000.
    pub change_bytes: u16,
    /// Which rows.
    pub placement: Placement,
    /// Check every row that is read, whether all of it is of one version; otherwise rows are only read.
    pub check_reads: bool,
}

/// Why parameters cannot be used.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum YcsbError {
    /// Too few to draw ten different ones, or too many for their numbers.
    #[error("{0} keys for each host: 16 to 100000000 are possible")]
    Keys(u32),
    /// Not a share.
    #[error("{0} %: 0 to 100 are possible")]
    Percent(u32),
    /// Not a number of partitions.
    #[error("{0} partitions for each host: 1 to 1024 are possible")]
    Pieces(u16),
    /// Not a number of bytes of a row.
    #[error("an update of {0} bytes: 1 to 1000 are possible")]
    Change(u16),
    /// Not an exponent.
    #[error("the exponent {0}: 0 to 5 are possible")]
    Theta(f64),
}

impl Ycsb {
    /// Tigon's: 300 000 rows a host, read-modify-write of whole rows, exponent 0.7, the paper's placement.
    pub const fn tigon(hosts: u16, read_percent: u32, cross_percent: u32) -> Self {
        Self {
            homes: hosts,
            pieces: PIECES,
            keys: 300_000,
            mode: Mode::Rmw,
            read_percent,
            cross_percent,
            theta: 0.7,
            change_bytes: PAYLOAD,
            placement: Placement::Paper,
            check_reads: false,
        }
    }

    /// Refuses what cannot be run.
    ///
    /// # Errors
    /// The parameter that is out of range.
    pub fn validate(&self) -> Result<(), YcsbError> {
        if !(16..=100_000_000).contains(&self.keys) {
            return Err(YcsbError::Keys(self.keys));
        }
        if !(1..=1024).contains(&self.pieces) {
            return Err(YcsbError::Pieces(self.pieces));
        }
        if let Some(percent) = [self.read_percent, self.cross_percent].into_iter().find(|p| *p > 100) {
            return Err(YcsbError::Percent(percent));
        }
        if !(1..=PAYLOAD).contains(&self.change_bytes) {
            return Err(YcsbError::Change(self.change_bytes));
        }
        if !(0.0..=5.0).contains(&self.theta) {
            return Err(YcsbError::Theta(self.theta));
        }
        Ok(())
    }

    fn placing(&self) -> Placing {
        Placing { homes: self.homes, pieces: self.pieces }
    }

    /// The table's number.
    fn table(&self) -> TableId {
        catalog_of(&self.schemas()).table_named(usertable::NAME).expect("the table of this schema")
    }
}

impl Benchmark for Ycsb {
    type Worker = YcsbWorker;

    fn name(&self) -> &'static str {
        "ycsb"
    }

    fn schemas(&self) -> Vec<TableSchema> {
        vec![usertable::schema()]
    }

    fn partitions(&self) -> u16 {
        self.homes * self.pieces
    }

    fn settings(&self) -> BTreeMap<String, String> {
        let settings = [
            ("keys_per_host", self.keys.to_string()),
            ("partitions_per_host", self.pieces.to_string()),
            ("mode", self.mode.name().to_owned()),
            ("read_percent", self.read_percent.to_string()),
            ("cross_percent", self.cross_percent.to_string()),
            ("theta", self.theta.to_string()),
            ("change_bytes", self.change_bytes.to_string()),
            ("placement", self.placement.name().to_owned()),
            ("check_reads", self.check_reads.to_string()),
        ];
        settings.map(|(name, value)| (name.to_owned(), value)).into()
    }

    fn load_partition<E>(
        &self,
        partition: u16,
        mut emit: impl FnMut(TableId, &NewRow) -> Result<(), E>,
    ) -> Result<(), E> {
        let (table, mut row) = (self.table(), NewRow::default());
        let placing = self.placing();
        let ids = (0..self.keys).map(|number| placing.id(partition % self.homes, number));
        ids.filter(|id| id.partition == partition).try_for_each(|id| {
            row::fill(id, &mut row);
            emit(table, &row)
        })
    }

    fn rows(&self) -> u64 {
        u64::from(self.keys) * u64::from(self.homes)
    }

    fn shared_tables(&self) -> Vec<TableId> {
        vec![self.table()]
    }

    fn shareable(&self) -> Shareable {
        // A row's block, 64 bytes of index, chunks that are not full.
        Shareable { rows: self.rows(), entries: 0, bytes: 1500 * self.rows() }
    }

    /// # Panics
    /// When the parameters do not validate.
    fn worker(&self, info: WorkerInfo<'_>) -> YcsbWorker {
        self.validate().expect("parameters that were checked");
        let worker = (info.worker as u32, info.workers as u32);
        let homes = info.partitions.iter().copied().filter(|partition| *partition < self.homes).collect();
        YcsbWorker { table: self.table(), ycsb: *self, homes, worker }
    }

    fn check(&self, snapshot: &dyn Snapshot, told: Acknowledged<'_>) -> Verdict {
        check::check(self, self.table(), snapshot, told)
    }
}
