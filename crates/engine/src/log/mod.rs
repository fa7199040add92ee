//! The log: what a transaction changed, kept so that it outlives hosts and the pod's memory.
//! docs/protocols/log.md is the design, with what a crash at each step leaves.

pub mod record;
pub mod scan;
pub mod segment;

/// When a transaction's caller is told that it is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// When the logs of all hosts hold its epoch on storage: it survives the loss of the shared memory.
    #[default]
    Storage,
    /// When its record lies in shared memory: it survives any host.
    Pod,
    /// At once (benchmarks).
    None,
}
