//! The row engine: rows partitioned over the hosts' DRAM; rows that several hosts touch live in shared
//! memory, where every host locks and changes them in place (Pasha, CIDR'25; Tigon, OSDI'25).
//!
//! Rows are an access method of a host (method/): the host's transactions, commits and takeovers are in
//! host/.
//!
//! * [`cell`], [`shared`]: the tuple cell, and locking a shared row through it; [`block`]: what lies behind
//!   it, `scrub`: whether that is as it was written;
//! * `partition`: rows of this host, `latched`: the latches of its tables; `unrestored`: those that a restart
//!   has not made yet; `moves`: into shared memory and back; `eviction`, `out_of_memory`: when that fills up,
//!   and when it is full; `remote`: what is known of other hosts' rows;
//! * `work`, `own`, `foreign`, `free`, `commit`, `parking`: a transaction at work on them;
//! * `as_of`, `copies`: rows as they were, of this host and of others; `keeping`: versions that were
//!   overwritten, `kept`, `chain`: in their owner's memory and in shared memory;
//! * `asking`, `message`, `ahead`: what hosts ask of each other, and many things at once; `leaving`: rows
//!   given to their owners to remove;
//! * `serves`, `resolve`, `takeover`: locks of hosts that died, and partitions that come here;
//! * `stores`, `copy`, `load`, `check`: images, filling, checking;
//! * [`policy`]: decisions as values; `rows`: what workers share.

mod ahead;
mod as_of;
mod asking;
pub mod block;
mod borrowed;
pub mod cell;
mod census;
mod chain;
mod check;
mod commit;
mod copies;
mod copy;
mod eviction;
mod foreign;
mod free;
mod keeping;
mod kept;
mod latched;
mod leaving;
mod load;
mod message;
mod moves;
mod out_of_memory;
mod own;
mod parking;
mod partition;
pub mod policy;
mod remote;
mod resolve;
mod rows;
mod scrub;
mod serves;
pub mod shared;
mod stores;
mod takeover;
mod unrestored;
mod wanted;
mod withdraw;
mod work;

use crate::host::{self, Host};

pub use crate::host::Takeover;
pub use crate::instance::{Step, WorkerPool, WorkerToken};
pub use crate::method::Checked;
pub use census::Census;
pub use keeping::KeepLimits;
pub use rows::{Budget, Moves, Options, Rows};
pub use unrestored::Restored;

/// A host whose tables are kept in rows.
pub type RowHost = Host<Rows>;
/// Its transaction.
pub type RowTxn<'h, F> = host::Txn<'h, F, Rows>;
/// One worker's door to it.
pub type RowSession<'h, F> = host::HostSession<'h, F, Rows>;
/// A transaction of it that belongs to no worker.
pub type DetachedTxn = host::DetachedTxn<Rows>;

/// Protocol steps of the row engine that a mutation test can leave out.
pub fn sabotage_steps() -> impl Iterator<Item = &'static str> {
    [
        shared::SABOTAGE_STEPS,
        partition::SABOTAGE_STEPS,
        moves::SABOTAGE_STEPS,
        own::SABOTAGE_STEPS,
        parking::SABOTAGE_STEPS,
        foreign::SABOTAGE_STEPS,
        unrestored::SABOTAGE_STEPS,
        commit::SABOTAGE_STEPS,
        copy::SABOTAGE_STEPS,
        remote::SABOTAGE_STEPS,
        asking::SABOTAGE_STEPS,
        crate::instance::service::SABOTAGE_STEPS,
        crate::instance::snapshots::SABOTAGE_STEPS,
        crate::protocol::mail::SABOTAGE_STEPS,
        leaving::SABOTAGE_STEPS,
        resolve::SABOTAGE_STEPS,
        takeover::SABOTAGE_STEPS,
        scrub::SABOTAGE_STEPS,
        as_of::SABOTAGE_STEPS,
        serves::SABOTAGE_STEPS,
    ]
    .into_iter()
    .flatten()
    .copied()
    .chain(host::sabotage_steps())
}
