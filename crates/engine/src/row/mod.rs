//! The row engine: rows partitioned over the hosts' DRAM; rows that several hosts touch live in shared
//! memory, where every host locks and changes them in place (Pasha, CIDR'25; Tigon, OSDI'25).
//!
//! * [`cell`], [`shared`]: the tuple cell, and locking a shared row through it;
//! * `partition`: rows of this host; `cold`: those that a restart has not made yet; `moves`: into shared
//!   memory and back; `relief`, `shortage`: when that fills up, and when it is full; `remote`: what is known
//!   of other hosts' rows;
//! * `transaction`, `own`, `foreign`, `commit`, `session`: two-phase locking over all of them; `retry`: locks
//!   that are not free; `owned`: for callers on threads that come and go;
//! * `keeper`, `settle`, `takeover`: hosts that die, what is done about their locks, and how a survivor comes
//!   to own their partitions (who owns which is the instance's to know);
//! * `message`, `service`, `leaving`: what hosts ask of each other, and rows given to their owners to remove;
//! * [`policy`]: decisions as values; [`host`]: what workers share.

mod borrowed;
pub mod cell;
mod census;
mod check;
mod cold;
mod commit;
mod copy;
mod engine;
mod entries;
mod foreign;
pub mod host;
mod keeper;
mod leaving;
mod lent;
mod load;
mod message;
mod moves;
mod own;
mod parking;
mod partition;
pub mod policy;
mod pool;
mod relief;
mod remote;
mod retry;
mod service;
mod session;
mod settle;
pub mod shared;
mod shortage;
mod skip;
mod takeover;
mod transaction;

pub use census::Census;
pub use check::Checked;
pub use cold::Restored;
pub use host::{Budget, Moves, Options, RowHost};
pub use keeper::Takeover;
pub use lent::DetachedTxn;
pub use pool::{Step, WorkerPool, WorkerToken};
pub use session::RowSession;
pub use transaction::RowTxn;

/// Protocol steps of the row engine that a mutation test can leave out.
pub fn sabotage_steps() -> impl Iterator<Item = &'static str> {
    [
        shared::SABOTAGE_STEPS,
        partition::SABOTAGE_STEPS,
        moves::SABOTAGE_STEPS,
        own::SABOTAGE_STEPS,
        parking::SABOTAGE_STEPS,
        foreign::SABOTAGE_STEPS,
        keeper::SABOTAGE_STEPS,
        cold::SABOTAGE_STEPS,
        commit::SABOTAGE_STEPS,
        copy::SABOTAGE_STEPS,
        remote::SABOTAGE_STEPS,
        service::SABOTAGE_STEPS,
        crate::protocol::mail::SABOTAGE_STEPS,
        leaving::SABOTAGE_STEPS,
        settle::SABOTAGE_STEPS,
        takeover::SABOTAGE_STEPS,
    ]
    .into_iter()
    .flatten()
    .copied()
}
