//! Motor (OSDI 2024) as a model: multi-version transactions whose rows live in memory servers, which threads
//! of a compute server reach by one-sided accesses (RDMA) alone.
//!
//! The protocol runs for real, on structures of this process; what is modelled is how long its accesses take
//! (`Cx::remote`), and by their layouts how many bytes they move. docs/protocols/motor.md is the design.
//!
//! * `servers`: rows with their versions, and the clock; `host`: what a host of the pod, which stands for
//!   some of the compute server's threads, has of its own;
//! * `transaction`, `reads`, `commit`, [`MotorSession`]: the protocol.

mod commit;
mod engine;
mod host;
mod reads;
mod servers;
mod session;
mod transaction;

pub use host::MotorHost;
pub use servers::MemoryServers;
pub use session::MotorSession;
pub use transaction::MotorTxn;

/// Protocol steps that a mutation test can leave out.
pub fn sabotage_steps() -> impl Iterator<Item = &'static str> {
    [servers::SABOTAGE_STEPS, reads::SABOTAGE_STEPS, commit::SABOTAGE_STEPS].into_iter().flatten().copied()
}
