//! The parameters of workloads on the command line: the same for real processes and for simulated pods.

use clap::{Args, ValueEnum};
use liger_workload::smallbank::SmallBank;
use liger_workload::tatp::Tatp;
use liger_workload::ycsb::{Mode, Placement, Ycsb};

use crate::failure::Failure;

/// [`Mode`] on the command line.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum ModeName {
    /// Ten operations: each reads a row, or reads and changes it.
    Rmw,
    /// Two scans of ten rows.
    Scan,
    /// One row is inserted or deleted.
    InsertDelete,
    /// 80 scans, 10 inserts, 10 deletes of a hundred.
    Mixed,
}

/// [`Placement`] on the command line.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum PlacementName {
    /// As Tigon's artifact: the first row of a transaction is one of the first 150 of its home.
    Paper,
    /// By Zipf's law alone.
    Clean,
}

/// YCSB's parameters.
#[derive(Args, PartialEq)]
pub struct YcsbParameters {
    /// Rows of each host's partition
    #[arg(long, default_value_t = 300_000)]
    keys: u32,
    /// What the transactions do
    #[arg(long, value_enum, default_value_t = ModeName::Rmw)]
    mode: ModeName,
    /// Percentage of operations that only read; the others read and change the row
    #[arg(long, default_value_t = 95)]
    reads: u32,
    /// Exponent of Zipf's law; 0 is uniform
    #[arg(long, default_value_t = 0.7)]
    theta: f64,
    /// Bytes of a row's 1000 that a change writes
    #[arg(long, default_value_t = 1000)]
    change_bytes: u16,
    /// Partitions that the rows of each host are dealt out to
    #[arg(long, default_value_t = liger_workload::ycsb::PIECES)]
    partitions: u16,
    /// Which rows are touched
    #[arg(long, value_enum, default_value_t = PlacementName::Paper)]
    placement: PlacementName,
    /// Check every row that is read, whether all of it is of one version
    #[arg(long)]
    check_reads: bool,
}

impl YcsbParameters {
    /// The workload of a pod of so many hosts, with this percentage of transactions that cross partitions.
    pub fn benchmark(&self, hosts: u8, cross_percent: u32) -> Result<Ycsb, Failure> {
        let mode = match self.mode {
            ModeName::Rmw => Mode::Rmw,
            ModeName::Scan => Mode::Scan,
            ModeName::InsertDelete => Mode::InsertDelete,
            ModeName::Mixed => Mode::Mixed,
        };
        let placement = match self.placement {
            PlacementName::Paper => Placement::Paper,
            PlacementName::Clean => Placement::Clean,
        };
        let Self { keys, theta, change_bytes, check_reads, reads, partitions: pieces, .. } = *self;
        let tigon = Ycsb::tigon(hosts.into(), reads, cross_percent);
        let ycsb = Ycsb { keys, pieces, mode, theta, change_bytes, placement, check_reads, ..tigon };
        ycsb.validate().map_err(|error| Failure::Refused(error.to_string()))?;
        Ok(ycsb)
    }
}

/// SmallBank's parameters.
#[derive(Args, PartialEq)]
pub struct SmallBankParameters {
    /// Customers of each host's partition
    #[arg(long, default_value_t = 100_000)]
    customers: u32,
    /// Hot customers among them
    #[arg(long, default_value_t = 100)]
    hot: u32,
    /// Percentage of customers drawn that are hot
    #[arg(long, default_value_t = 90)]
    hot_percent: u32,
}

impl SmallBankParameters {
    /// As [`YcsbParameters::benchmark`].
    pub fn benchmark(&self, hosts: u8, cross_percent: u32) -> Result<SmallBank, Failure> {
        let Self { customers, hot, hot_percent } = *self;
        let bank = SmallBank { partitions: hosts.into(), customers, hot, hot_percent, cross_percent };
        bank.validate().map_err(|error| Failure::Refused(error.to_string()))?;
        Ok(bank)
    }
}

/// TATP's parameters.
#[derive(Args, PartialEq)]
pub struct TatpParameters {
    /// Subscribers of each host's partition
    #[arg(long, default_value_t = 100_000)]
    subscribers: u32,
}

impl TatpParameters {
    /// As [`YcsbParameters::benchmark`]; `seed` decides the database.
    pub fn benchmark(&self, hosts: u8, cross_percent: u32, seed: u64) -> Result<Tatp, Failure> {
        let tatp = Tatp { partitions: hosts.into(), subscribers: self.subscribers, cross_percent, seed };
        tatp.validate().map_err(|error| Failure::Refused(error.to_string()))?;
        Ok(tatp)
    }
}
