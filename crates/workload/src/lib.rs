//! Workloads that measure a pod and then prove that its answers were right.
//!
//! A workload is a generator (inputs from a seed), its transactions (generic over the engine's transaction
//! trait), a driver (one worker's loop), a report and a consistency check over the whole database. This
//! crate holds those of the table [`workloads`], transfers that a client outside the hosts asks for and
//! remembers ([`ledger`]), and the parts that every workload shares: a replayable random source, a latency
//! histogram, statistics of workers that can be merged over hosts, and the report.
//!
//! It starts no thread, reads no clock but the context's, and knows no backend.

#![forbid(unsafe_code)]

pub mod benchmark;
pub mod charge;
pub mod declared;
pub mod driver;
mod findings;
pub mod histogram;
pub mod ledger;
pub mod random;
pub mod report;
pub mod smallbank;
pub mod snapshot;
pub mod stats;
pub mod storage;
pub mod tatp;
pub mod tpcc;
pub mod ycsb;
pub mod zipf;

/// The table of workloads that hosts run by themselves: hands the list to a macro, which makes of every
/// workload what it needs. A new workload is its folder, its `mod` above, and a line here
/// (docs/extending.md).
///
/// First those whose commands have options of their own, then those whose commands follow from their
/// declarations ([`declared::Offered`]). The command of `SmallBank` is `smallbank`, and so it is called in
/// orders and reports. An argument is handed on in front of the list.
#[macro_export]
macro_rules! workloads {
    ($then:ident $(($($handed:tt)*))?) => {
        $then! {
            $($($handed)*)?
            own { Tpcc tpcc::benchmark::Tpcc }
            offered {
                Ycsb ycsb::Ycsb
                SmallBank smallbank::SmallBank
                Tatp tatp::Tatp
            }
        }
    };
}

pub use histogram::Histogram;
pub use random::Rng;
pub use report::{EngineFigures, Report};
pub use snapshot::{Acknowledged, Snapshot};
pub use stats::{KindStats, WorkerStats};
