//! Is the whole database right after a run? TPC-C's twelve consistency conditions (3.3.2) and more, exactly.
//!
//! The specification's conditions barely look at STOCK and see a lost update of a CUSTOMER only in sums. Rows
//! of these two tables are the ones that several hosts change, so they get a proof: every change ever made to
//! one is also recorded by an insert (a HISTORY row, an ORDER-LINE), and what the loader had put there can be
//! computed again from its seed. So each counter of each row has one right value, and the check demands it.
//!
//! 1. Zero tolerance: integers only. Every row of every partition is looked at, once for each table.
//! 2. Nothing is assumed of the rows: a key out of range, twice there, or not there is a finding, not a
//!    panic.
//! 3. Memory: 16 bytes per order, 24 per customer, 16 per stock row; a finding beyond the first [`KEPT`] of
//!    its condition is only counted.
//!
//! What it does NOT see: entries of secondary indexes (the engine compares those with its tables), reads that
//! returned wrong values without writing anything (serializability checkers work from histories), and whether
//! a *sequence* of lost and doubled updates cancelled out exactly.

mod tally;

use std::collections::BTreeMap;
use std::fmt;

use crate::tpcc::Scale;
use crate::tpcc::schema::Tables;

pub use crate::snapshot::{Acknowledged, Snapshot};

macro_rules! conditions {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)*) => {
        /// What can be found wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Condition { $($(#[doc = $doc])+ $name,)* }

        impl Condition {
            /// All of them.
            pub const ALL: &[Condition] = &[$(Condition::$name),*];

            /// Its description in findings.
            pub const fn text(self) -> &'static str {
                match self { $(Condition::$name => $text,)* }
            }
        }
    };
}

conditions! {
    /// 3.3.2.1.
    C1 = "condition 1: W_YTD is the sum of D_YTD",
    /// 3.3.2.2.
    C2 = "condition 2: D_NEXT_O_ID - 1 is the largest O_ID and NO_O_ID",
    /// 3.3.2.3.
    C3 = "condition 3: undelivered orders of a district have no gap",
    /// 3.3.2.4.
    C4 = "condition 4: the sum of O_OL_CNT is the number of lines",
    /// 3.3.2.5.
    C5 = "condition 5: an order has no carrier exactly if it is in NEW-ORDER",
    /// 3.3.2.6.
    C6 = "condition 6: an order has O_OL_CNT lines, numbered from 1",
    /// 3.3.2.7.
    C7 = "condition 7: a line has no delivery date exactly if its order has no carrier",
    /// 3.3.2.8.
    C8 = "condition 8: W_YTD is the sum of H_AMOUNT",
    /// 3.3.2.9.
    C9 = "condition 9: D_YTD is the sum of H_AMOUNT",
    /// 3.3.2.10.
    C10 = "condition 10: C_BALANCE is the sum of delivered lines less the sum of payments",
    /// 3.3.2.11. The specification states it for the initial database (2100); while orders are delivered, the
    /// right side grows by the district's deliveries.
    C11 = "condition 11: delivered orders of a district are the initial ones and the sum of C_DELIVERY_CNT",
    /// 3.3.2.12.
    C12 = "condition 12: C_BALANCE + C_YTD_PAYMENT is the sum of delivered lines",
    /// Beyond the specification, like all that follow: keys are in range, there once, and there if they must
    /// be.
    Keys = "keys: each row is there once and none is missing",
    /// Order numbers follow from one another without a gap.
    OrderNumbers = "order numbers of a district have no gap",
    /// Every payment arrived at its customer.
    YtdPayment = "customer: C_YTD_PAYMENT is the sum of H_AMOUNT",
    /// Every payment was counted at its customer.
    PaymentCnt = "customer: C_PAYMENT_CNT is the number of payments in HISTORY",
    /// Every delivery was counted at its customer.
    DeliveryCnt = "customer: C_DELIVERY_CNT is the number of orders delivered in the run",
    /// Every line was taken from its stock.
    StockYtd = "stock: S_YTD is the sum of OL_QUANTITY of the run's lines",
    /// Every line was counted at its stock.
    StockOrderCnt = "stock: S_ORDER_CNT is the number of the run's lines",
    /// Every line of another warehouse was counted at its stock.
    StockRemoteCnt = "stock: S_REMOTE_CNT is the number of the run's lines of other warehouses",
    /// The quantity follows from the initial one and the lines, modulo 91.
    StockQuantity = "stock: S_QUANTITY is the initial one less the lines taken, modulo 91, in 10 to 100",
    /// Lines cost what their item costs.
    LineAmount = "line: OL_AMOUNT of the run's lines is OL_QUANTITY times I_PRICE",
    /// The order says whether all its lines are of its warehouse.
    AllLocal = "order: O_ALL_LOCAL is 1 exactly if every line is supplied by its warehouse",
    /// What workers were told is committed is there (and, without crashes, nothing else).
    Commits = "acknowledged commits are in the database",
}

/// One finding: what, where, and both numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The condition that does not hold.
    pub condition: Condition,
    /// Table and key for which it does not.
    pub key: String,
    /// The value that is right by the rest of the database.
    pub expected: i64,
    /// The value found.
    pub found: i64,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { condition, key, expected, found } = self;
        write!(f, "{}: {key}: expected {expected}, found {found}", condition.text())
    }
}

/// Findings of each condition that are kept in full.
pub const KEPT: usize = 20;

/// What the check found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    failures: Vec<Failure>,
    counts: BTreeMap<Condition, usize>,
}

impl Findings {
    /// How many transactions somebody was told are committed, and are not in the database.
    pub fn lost_commits(&self) -> u64 {
        let lost = |failure: &Failure| failure.expected.saturating_sub(failure.found).max(0) as u64;
        let of_commits = self.failures.iter().filter(|failure| failure.condition == Condition::Commits);
        of_commits.map(lost).sum()
    }

    fn report(&mut self, condition: Condition, key: impl FnOnce() -> String, expected: i64, found: i64) {
        let count = self.counts.entry(condition).or_default();
        *count += 1;
        if *count <= KEPT {
            self.failures.push(Failure { condition, key: key(), expected, found });
        }
    }

    /// Reports unless both numbers are equal.
    fn equal(&mut self, condition: Condition, key: impl FnOnce() -> String, expected: i64, found: i64) {
        if expected != found {
            self.report(condition, key, expected, found);
        }
    }

    /// Whether every condition holds.
    pub fn is_consistent(&self) -> bool {
        self.failures.is_empty()
    }

    /// The first [`KEPT`] findings of each condition, in the order found.
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// The conditions that do not hold, and how often.
    pub fn counts(&self) -> &BTreeMap<Condition, usize> {
        &self.counts
    }

    /// The findings in words, for a report; empty if the database is consistent.
    pub fn lines(&self) -> Vec<String> {
        let beyond = self.counts.iter().filter(|(_, n)| **n > KEPT);
        let more = beyond.map(|(condition, n)| format!("{}: {n} findings in all", condition.text()));
        self.failures.iter().map(Failure::to_string).chain(more).collect()
    }
}

/// Checks a database that was loaded with `scale` and `seed`.
///
/// # Panics
/// When the scale does not validate.
pub fn check(
    snapshot: &dyn Snapshot,
    tables: &Tables,
    scale: &Scale,
    seed: u64,
    acknowledged: Acknowledged<'_>,
) -> Findings {
    scale.validate().expect("the scale that was loaded");
    let mut tally = tally::Tally::new(*scale, seed);
    tally.read(snapshot, tables);
    tally.conclude(acknowledged)
}
