//! TPC-C and its database, by their parameters.

use std::collections::BTreeMap;

use liger_engine::{NewRow, TableId, TableSchema};
use serde::{Deserialize, Serialize};

use crate::benchmark::{Benchmark, Shareable, Verdict, WorkerInfo, catalog_of};
use crate::snapshot::{Acknowledged, Snapshot};
use crate::tpcc::check::check;
use crate::tpcc::generate::Homes;
use crate::tpcc::input::{Mix, Remote};
use crate::tpcc::load::Loader;
use crate::tpcc::schema::{Tables, schemas};
use crate::tpcc::workload::{Follows, TpccWorker, warehouse_of};
use crate::tpcc::{DISTRICTS, Scale};

/// Date of the initial rows: 2026-01-01.
const LOAD_DATE_US: i64 = 1_767_225_600_000_000;

/// A TPC-C database and what runs on it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Tpcc {
    /// Size of the database; warehouse w is partition w, the last one partition 0.
    pub scale: Scale,
    /// The loader's seed.
    pub seed: u64,
    /// Whose transactions.
    pub mix: Mix,
    /// Which transactions touch other warehouses.
    pub remote: Remote,
    /// Which of its host's warehouses a worker serves.
    pub homes: Homes,
}

impl Tpcc {
    /// The tables' numbers.
    pub fn tables(&self) -> Tables {
        Tables::of(&catalog_of(&schemas())).expect("the tables of these schemas")
    }

    fn loader(&self) -> Loader {
        Loader::new(self.tables(), self.scale, self.seed, LOAD_DATE_US)
    }

    fn warehouse_of(&self, partition: u16) -> i16 {
        warehouse_of(partition, self.scale.warehouses)
    }

    fn customers(&self) -> u64 {
        self.scale.warehouses as u64 * DISTRICTS as u64 * self.scale.customers as u64
    }

    fn stock(&self) -> u64 {
        self.scale.warehouses as u64 * self.scale.items as u64
    }
}

impl Benchmark for Tpcc {
    type Worker = TpccWorker;

    fn name(&self) -> &'static str {
        "tpcc"
    }

    fn schemas(&self) -> Vec<TableSchema> {
        schemas()
    }

    fn partitions(&self) -> u16 {
        self.scale.warehouses as u16
    }

    fn settings(&self) -> BTreeMap<String, String> {
        let settings = [
            ("warehouses", self.scale.warehouses.to_string()),
            ("items", self.scale.items.to_string()),
            ("customers_per_district", self.scale.customers.to_string()),
            ("database_seed", self.seed.to_string()),
            ("mix", self.mix.name().to_owned()),
            ("remote", self.remote.to_string()),
            ("homes", self.homes.name().to_owned()),
        ];
        settings.map(|(name, value)| (name.to_owned(), value)).into()
    }

    fn load_replicated<E>(&self, emit: impl FnMut(TableId, &NewRow) -> Result<(), E>) -> Result<(), E> {
        self.loader().load_items(emit, |_| ())
    }

    fn load_partition<E>(
        &self,
        partition: u16,
        emit: impl FnMut(TableId, &NewRow) -> Result<(), E>,
    ) -> Result<(), E> {
        self.loader().load_warehouse(self.warehouse_of(partition), emit, |_| ())
    }

    fn rows(&self) -> u64 {
        // Customers, their first payments and orders, ten lines each, and a third of the orders open.
        self.scale.warehouses as u64 * 11 + self.stock() + self.customers() * 133 / 10
    }

    fn shared_tables(&self) -> Vec<TableId> {
        let tables = self.tables();
        vec![tables.customer, tables.stock]
    }

    fn shareable(&self) -> Shareable {
        let (stock, customers) = (self.stock(), self.customers());
        // 384 bytes of stock, 768 of customers, 64 of index for each, chunks half full.
        Shareable { rows: stock + customers, entries: customers, bytes: 600 * stock + 1100 * customers }
    }

    fn worker(&self, info: WorkerInfo<'_>) -> TpccWorker {
        let mut own: Vec<i16> = info.partitions.iter().map(|p| self.warehouse_of(*p)).collect();
        own.sort_unstable();
        let homes = self.homes.pick(&own, info.worker, info.workers);
        let Self { scale, seed: database_seed, mix, remote, .. } = *self;
        let owned = info.owned.filter(|_| self.homes == Homes::Owned).cloned();
        let follows = owned.map(|owned| Follows { owned, worker: info.worker, workers: info.workers });
        TpccWorker { tables: self.tables(), scale, database_seed, mix, remote, homes, follows }
    }

    fn check(&self, snapshot: &dyn Snapshot, told: Acknowledged<'_>) -> Verdict {
        let findings = check(snapshot, &self.tables(), &self.scale, self.seed, told);
        Verdict { failures: findings.lines(), lost: findings.lost_commits() }
    }
}
