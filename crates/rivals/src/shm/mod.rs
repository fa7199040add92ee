//! Sundial in shared memory (the baseline Sundial-SHM of Pasha's evaluation, CIDR'25): all rows and indexes
//! lie in the pod's memory, and every host works on every row directly. No messages, no two-phase commit.
//!
//! docs/protocols/sundial-shm.md is the design.
//!
//! * `word`: what a row's sync word says; `rows`: reading, locking and writing one row; `fresh`: which of
//!   them this host has current lines of;
//! * `transaction`, `held`, `commit`, [`ShmSession`]: the protocol (its rules are sundial.rs);
//! * `host`, `load`, `check`: what a host's workers share; filling, reading and checking a pod.

mod check;
mod commit;
mod engine;
mod fresh;
mod held;
mod host;
mod join;
mod rows;
mod session;
mod transaction;
mod word;

pub use check::Checked;
pub use host::{Options, ShmHost, Traffic};
pub use join::{ShmOptions, join};
pub use session::ShmSession;
pub use transaction::ShmTxn;

/// Protocol steps that a mutation test can leave out.
pub fn sabotage_steps() -> impl Iterator<Item = &'static str> {
    [
        word::SABOTAGE_STEPS,
        fresh::SABOTAGE_STEPS,
        rows::SABOTAGE_STEPS,
        held::SABOTAGE_STEPS,
        transaction::SABOTAGE_STEPS,
        commit::SABOTAGE_STEPS,
        host::SABOTAGE_STEPS,
        session::SABOTAGE_STEPS,
    ]
    .into_iter()
    .flatten()
    .copied()
}
