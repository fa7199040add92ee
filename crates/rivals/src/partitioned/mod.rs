//! The rivals of the row engine: partitioned databases whose hosts share nothing and commit together by
//! two-phase commit. Sundial and DS2PL run on the same code, as they did in Tigon's evaluation (OSDI'25,
//! 6.1), over the pod's message lanes.
//!
//! docs/protocols/partitioned.md is the design.
//!
//! * `part`: partitions and what a row's header means; `rules`: what a protocol does with one row;
//! * `branch`: a transaction's part at one host; `participant`: those of other hosts' transactions;
//! * `transaction`, `commit`, [`PartSession`]: the coordinator;
//! * `logged`: what is kept in the log, if the pod keeps one;
//! * `message`, `mail`: what hosts say, and how it travels; `host`, `load`: the rest.

mod branch;
mod check;
mod commit;
mod engine;
mod host;
mod join;
mod logged;
mod mail;
mod message;
mod part;
mod participant;
mod rules;
mod session;
mod transaction;

pub use host::{Options, PartHost, Traffic};
pub use join::{PartitionedOptions, config_for, join};
pub use mail::Route;
pub use rules::Protocol;
pub use session::PartSession;
pub use transaction::PartTxn;

/// Protocol steps that a mutation test can leave out.
pub fn sabotage_steps() -> impl Iterator<Item = &'static str> {
    [
        branch::SABOTAGE_STEPS,
        commit::SABOTAGE_STEPS,
        logged::SABOTAGE_STEPS,
        participant::SABOTAGE_STEPS,
        rules::SABOTAGE_STEPS,
        crate::sundial::SABOTAGE_STEPS,
    ]
    .into_iter()
    .flatten()
    .copied()
}
