//! SmallBank (M. Alomari and others, ICDE 2008) in the proportions of H-Store's benchmark, which Tigon's
//! artifact has too: 15 Balance, 15 DepositChecking, 15 TransactSavings, 15 Amalgamate, 15 WriteCheck and 25
//! SendPayment of a hundred, over customers with a savings and a checking account.
//!
//! 1. Amalgamate and SendPayment touch two customers; a share of them crosses partitions. All others stay at
//!    home.
//! 2. A share of the customers drawn are among a few hot ones of their partition.
//! 3. Money is exact: cents in integers. Every row counts its changes.
//!
//! Amounts are drawn, where H-Store's are fixed, so that TransactSavings is refused now and then.

mod check;
mod declared;
pub mod workload;

use std::collections::BTreeMap;

use liger_engine::{Key, NewRow, TableId, TableSchema, table};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::benchmark::{Benchmark, Shareable, Verdict, WorkerInfo, catalog_of};
use crate::snapshot::{Acknowledged, Snapshot};
use workload::SmallBankWorker;

table! {
    /// Savings accounts.
    pub mod savings: "savings" {
        P: SmallInt,
        ID: Int,
        BALANCE: BigInt,
        CHANGES: Int,
    }
    primary key (P, ID);
}

table! {
    /// Checking accounts.
    pub mod checking: "checking" {
        P: SmallInt,
        ID: Int,
        BALANCE: BigInt,
        CHANGES: Int,
    }
    primary key (P, ID);
}

/// What every account holds at first.
pub const START_CENTS: i64 = 1_000_000;

/// The tables' numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tables {
    /// [`savings`].
    pub savings: TableId,
    /// [`checking`].
    pub checking: TableId,
}

/// A SmallBank database and what runs on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SmallBank {
    /// Partitions: one for each host.
    pub partitions: u16,
    /// Customers of each.
    pub customers: u32,
    /// Hot customers of each, and the percentage of draws that are of them.
    pub hot: u32,
    /// See [`SmallBank::hot`].
    pub hot_percent: u32,
    /// Percentage of Amalgamate and SendPayment whose second customer is of another partition.
    pub cross_percent: u32,
}

/// Why parameters cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SmallBankError {
    /// Too few for two different ones, or too many for their numbers.
    #[error("{0} customers for each host: 2 to 1000000000 are possible")]
    Customers(u32),
    /// None, or more than there are.
    #[error("{hot} hot customers: 2 to {customers} are possible")]
    Hot {
        /// So many.
        hot: u32,
        /// Of these.
        customers: u32,
    },
    /// Not a share.
    #[error("{0} %: 0 to 100 are possible")]
    Percent(u32),
}

impl SmallBank {
    /// Refuses what cannot be run.
    ///
    /// # Errors
    /// The parameter that is out of range.
    pub fn validate(&self) -> Result<(), SmallBankError> {
        let Self { customers, hot, .. } = *self;
        if !(2..=1_000_000_000).contains(&customers) {
            return Err(SmallBankError::Customers(customers));
        }
        if !(2..=customers).contains(&hot) {
            return Err(SmallBankError::Hot { hot, customers });
        }
        let wrong = [self.hot_percent, self.cross_percent].into_iter().find(|p| *p > 100);
        wrong.map_or(Ok(()), |percent| Err(SmallBankError::Percent(percent)))
    }

    /// The tables' numbers.
    pub fn tables(&self) -> Tables {
        let catalog = catalog_of(&self.schemas());
        let table = |name| catalog.table_named(name).expect("the tables of these schemas");
        Tables { savings: table(savings::NAME), checking: table(checking::NAME) }
    }

    /// Customers of all partitions.
    pub fn all_customers(&self) -> u64 {
        u64::from(self.customers) * u64::from(self.partitions)
    }
}

/// A customer: the key of both accounts.
pub fn customer_key(partition: u16, number: u32) -> Key {
    Key::build().i16(partition as i16).i32(number as i32).finish()
}

impl Benchmark for SmallBank {
    type Worker = SmallBankWorker;

    fn name(&self) -> &'static str {
        "smallbank"
    }

    fn schemas(&self) -> Vec<TableSchema> {
        vec![savings::schema(), checking::schema()]
    }

    fn partitions(&self) -> u16 {
        self.partitions
    }

    fn settings(&self) -> BTreeMap<String, String> {
        let settings = [
            ("customers_per_host", self.customers),
            ("hot_customers", self.hot),
            ("hot_percent", self.hot_percent),
            ("cross_percent", self.cross_percent),
        ];
        settings.map(|(name, value)| (name.to_owned(), value.to_string())).into()
    }

    fn load_partition<E>(
        &self,
        partition: u16,
        mut emit: impl FnMut(TableId, &NewRow) -> Result<(), E>,
    ) -> Result<(), E> {
        let (tables, mut row) = (self.tables(), NewRow::default());
        (0..self.customers).try_for_each(|number| {
            let (p, id) = (partition as i16, number as i32);
            row.reset(savings::ROW_LEN).set(savings::P, p).set(savings::ID, id);
            emit(tables.savings, row.set(savings::BALANCE, START_CENTS))?;
            row.reset(checking::ROW_LEN).set(checking::P, p).set(checking::ID, id);
            emit(tables.checking, row.set(checking::BALANCE, START_CENTS))
        })
    }

    fn rows(&self) -> u64 {
        2 * self.all_customers()
    }

    fn shared_tables(&self) -> Vec<TableId> {
        let Tables { savings, checking } = self.tables();
        vec![savings, checking]
    }

    fn shareable(&self) -> Shareable {
        // A block of 64 bytes and 64 of index, chunks half full.
        Shareable { rows: self.rows(), entries: 0, bytes: 256 * self.rows() }
    }

    /// # Panics
    /// When the parameters do not validate.
    fn worker(&self, info: WorkerInfo<'_>) -> SmallBankWorker {
        self.validate().expect("parameters that were checked");
        SmallBankWorker { tables: self.tables(), bank: *self, homes: info.partitions.to_vec() }
    }

    fn check(&self, snapshot: &dyn Snapshot, told: Acknowledged<'_>) -> Verdict {
        check::check(self, snapshot, told)
    }
}
