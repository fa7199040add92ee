//! TATP, the telecom application transaction processing benchmark (version 1.0): seven short transactions,
//! four fifths of which read, on the rows of one subscriber each.
//!
//! * [`schema`]: the tables and their initial rows, [`workload`]: the transactions in the specification's
//!   proportions (35 GetSubscriberData, 10 GetNewDestination, 35 GetAccessData, 2 UpdateSubscriberData, 14
//!   UpdateLocation, 2 InsertCallForwarding, 2 DeleteCallForwarding of a hundred).
//! * Subscribers are drawn with the specification's non-uniform distribution, in a partition of the
//!   worker's host or, for a share of the transactions, in another one: the specification has no partitions.
//! * Transactions that the specification lets fail (nothing to change, a row that is there already) are
//!   rolled back and counted so. Reads that find nothing commit.
//! * Nine flags, ten half bytes and ten bytes of a subscriber are one column each: no transaction touches one
//!   of them alone.

mod check;
mod declared;
pub mod schema;
pub mod workload;

use std::collections::BTreeMap;

use liger_engine::{IndexId, NewRow, TableId, TableSchema};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::benchmark::{Benchmark, Shareable, Verdict, WorkerInfo, catalog_of};
use crate::snapshot::{Acknowledged, Snapshot};
use workload::TatpWorker;

/// The tables' numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tables {
    /// [`schema::subscriber`].
    pub subscriber: TableId,
    /// [`schema::access_info`].
    pub access_info: TableId,
    /// [`schema::special_facility`].
    pub special_facility: TableId,
    /// [`schema::call_forwarding`].
    pub call_forwarding: TableId,
    /// Subscribers by their 15 digits.
    pub by_number: IndexId,
}

/// A TATP database and what runs on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Tatp {
    /// Partitions: one for each host.
    pub partitions: u16,
    /// Subscribers of each, numbered from 1.
    pub subscribers: u32,
    /// Percentage of transactions on a subscriber of another partition.
    pub cross_percent: u32,
    /// Decides the initial rows.
    pub seed: u64,
}

/// Why parameters cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TatpError {
    /// None, or too many for their numbers.
    #[error("{0} subscribers for each host: 1 to 100000000 are possible")]
    Subscribers(u32),
    /// Not a share.
    #[error("{0} %: 0 to 100 are possible")]
    Percent(u32),
}

impl Tatp {
    /// Refuses what cannot be run.
    ///
    /// # Errors
    /// The parameter that is out of range.
    pub fn validate(&self) -> Result<(), TatpError> {
        if !(1..=100_000_000).contains(&self.subscribers) {
            return Err(TatpError::Subscribers(self.subscribers));
        }
        if self.cross_percent > 100 {
            return Err(TatpError::Percent(self.cross_percent));
        }
        Ok(())
    }

    /// The tables' numbers.
    pub fn tables(&self) -> Tables {
        let catalog = catalog_of(&self.schemas());
        let table = |name| catalog.table_named(name).expect("the tables of these schemas");
        let subscriber = table(schema::subscriber::NAME);
        let (_, indexes) = catalog.relation(subscriber).and_then(|it| it.table()).expect("a table");
        Tables {
            subscriber,
            access_info: table(schema::access_info::NAME),
            special_facility: table(schema::special_facility::NAME),
            call_forwarding: table(schema::call_forwarding::NAME),
            by_number: indexes[0],
        }
    }

    /// Subscribers of all partitions.
    fn all_subscribers(&self) -> u64 {
        u64::from(self.subscribers) * u64::from(self.partitions)
    }
}

impl Benchmark for Tatp {
    type Worker = TatpWorker;

    fn name(&self) -> &'static str {
        "tatp"
    }

    fn schemas(&self) -> Vec<TableSchema> {
        schema::schemas()
    }

    fn partitions(&self) -> u16 {
        self.partitions
    }

    fn settings(&self) -> BTreeMap<String, String> {
        let settings = [
            ("subscribers_per_host", u64::from(self.subscribers)),
            ("cross_percent", self.cross_percent.into()),
            ("database_seed", self.seed),
        ];
        settings.map(|(name, value)| (name.to_owned(), value.to_string())).into()
    }

    fn load_partition<E>(
        &self,
        partition: u16,
        mut emit: impl FnMut(TableId, &NewRow) -> Result<(), E>,
    ) -> Result<(), E> {
        let (tables, mut row) = (self.tables(), NewRow::default());
        (1..=self.subscribers as i32).try_for_each(|s_id| {
            schema::load_subscriber(self, &tables, (partition as i16, s_id), &mut row, &mut emit)
        })
    }

    fn rows(&self) -> u64 {
        // 2.5 kinds of access information and special facilities on average, 1.5 forwardings for each.
        self.all_subscribers() * 39 / 4
    }

    fn shared_tables(&self) -> Vec<TableId> {
        let Tables { subscriber, access_info, special_facility, call_forwarding, .. } = self.tables();
        vec![subscriber, access_info, special_facility, call_forwarding]
    }

    fn shareable(&self) -> Shareable {
        let entries = self.all_subscribers();
        // Blocks of 64 to 128 bytes and 64 of index, chunks half full.
        Shareable { rows: self.rows(), entries, bytes: 300 * (self.rows() + entries) }
    }

    /// # Panics
    /// When the parameters do not validate.
    fn worker(&self, info: WorkerInfo<'_>) -> TatpWorker {
        self.validate().expect("parameters that were checked");
        TatpWorker { tables: self.tables(), tatp: *self, homes: info.partitions.to_vec() }
    }

    fn check(&self, snapshot: &dyn Snapshot, told: Acknowledged<'_>) -> Verdict {
        check::check(self, snapshot, told)
    }
}
