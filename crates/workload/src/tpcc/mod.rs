//! TPC-C as its specification (revision 5.11) has it, and the two-number remote shares of Tigon's evaluation
//! (OSDI 2025, section 6.1).
//!
//! * [`schema`]: the nine tables, [`load`]: their initial contents, [`input`] and [`generate`]: what the
//!   terminals ask for.
//! * One file per transaction: [`new_order`], [`payment`], [`order_status`], [`delivery`], [`stock_level`].
//! * [`workload`]: what a worker runs, [`benchmark`]: with its database. [`check`]: the twelve consistency
//!   conditions over the whole database and the proof that no update of a customer or a stock row was lost.
//!
//! Money is exact: cents in integers, never floating point. What is not here: terminals with keying and think
//! times, priced configurations, and the pacing that the official metric asks for. Results are therefore not
//! tpmC.

pub mod benchmark;
pub mod check;
mod declared;
pub mod delivery;
pub mod generate;
pub mod input;
pub mod load;
mod lookup;
pub mod new_order;
pub mod nurand;
pub mod order_status;
pub mod payment;
pub mod schema;
pub mod stock_level;
pub mod workload;

use thiserror::Error;

/// Districts of a warehouse; the specification fixes it and every scale keeps it.
pub const DISTRICTS: i16 = 10;

/// How large the database is. [`Scale::full`] is the specification's; smaller ones keep its proportions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Scale {
    /// Warehouses of the whole pod, numbered from 1.
    pub warehouses: i16,
    /// Items, and stock rows of a warehouse (100 000 by the specification).
    pub items: i32,
    /// Customers of a district, and orders it starts with (3000 by the specification).
    pub customers: i32,
}

/// Why a scale cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScaleError {
    /// No warehouse, or more than a SMALLINT can number.
    #[error("{0} warehouses: at least 1 are needed")]
    Warehouses(i16),
    /// Too few items to fill an order.
    #[error("{0} items: 20 to 100000 are possible")]
    Items(i32),
    /// Customers cannot be split into delivered and undelivered orders in the specification's proportion.
    #[error("{0} customers in a district: a multiple of 10, up to 3000, is needed")]
    Customers(i32),
}

impl Scale {
    /// The specification's sizes for a number of warehouses.
    pub const fn full(warehouses: i16) -> Self {
        Self { warehouses, items: 100_000, customers: 3000 }
    }

    /// The specification's sizes divided by `divisor`, for tests and simulations: customers to the next
    /// multiple of 10.
    pub fn reduced(warehouses: i16, divisor: i32) -> Self {
        let customers = (3000 / divisor + 9) / 10 * 10;
        Self { warehouses, items: (100_000 / divisor).max(20), customers: customers.max(10) }
    }

    /// Refuses sizes that the loader or the generator cannot keep in proportion.
    pub fn validate(&self) -> Result<(), ScaleError> {
        if self.warehouses < 1 {
            return Err(ScaleError::Warehouses(self.warehouses));
        }
        if !(20..=100_000).contains(&self.items) {
            return Err(ScaleError::Items(self.items));
        }
        if !(10..=3000).contains(&self.customers) || self.customers % 10 != 0 {
            return Err(ScaleError::Customers(self.customers));
        }
        Ok(())
    }

    /// Orders that a district starts with: one for each customer.
    pub const fn orders(&self) -> i32 {
        self.customers
    }

    /// Orders of a district that were delivered before the run: the first 70 % (2100 of 3000).
    pub const fn delivered(&self) -> i32 {
        self.customers / 10 * 7
    }

    /// Different last names in a district: 1000 unless there are fewer customers.
    pub const fn last_names(&self) -> i32 {
        if self.customers < 1000 { self.customers } else { 1000 }
    }

    /// An item number that no item has; a New-Order that is to be rolled back asks for it.
    pub const fn unused_item(&self) -> i32 {
        self.items + 1
    }
}
