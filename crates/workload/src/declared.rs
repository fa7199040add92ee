//! What a workload declares of itself, so that whoever runs workloads by name need not know it: the table of
//! workloads ([`crate::workloads`]) names the types, and everything else follows from these traits.
//!
//! 1. A declaration is in the workload's own folder, and only there: name, description, options with their
//!    defaults, and how the database follows from them.
//! 2. What is drawn for a tiny database follows from the numbers that are handed in, and from nothing else.

use clap::Args;

use crate::benchmark::Benchmark;

/// Draws a number below the given one.
pub type Draw<'a> = &'a mut dyn FnMut(u64) -> u64;

/// The seed of every database of a simulated pod that has one.
pub const DATABASE_SEED: u64 = 0x7063_6374;

/// A database for the adversary: so small that everybody wants the same rows.
pub struct Tiny<B> {
    /// Hosts of its pod.
    pub hosts: u8,
    /// Workers of each.
    pub workers: u8,
    /// The database and what runs on it.
    pub benchmark: B,
}

/// A workload that simulated pods run under the adversary.
pub trait Hostile: Benchmark {
    /// Keeps what is drawn for it apart from what is drawn for others under the same seed.
    const SALT: u64;

    /// A tiny one.
    fn tiny(draw: Draw<'_>) -> Tiny<Self>;
}

/// What the options of a workload do not say of its pod.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Hosts of the pod.
    pub hosts: u8,
    /// Percentage of transactions that touch another host's partition.
    pub cross_percent: u32,
    /// Decides the database, where that is drawn.
    pub seed: u64,
}

/// A workload whose commands (`liger bench NAME`, `liger sim NAME`) follow from its declaration: a share of
/// its transactions crosses partitions, nothing of it is durable, and no host of it dies.
pub trait Offered: Hostile {
    /// Its options beside those.
    type Options: Args + PartialEq + Send + Sync + 'static;

    /// What it is, in help texts: a name, or more than one word.
    const TITLE: &'static str;

    /// What is done after a run, in help texts: "a check of every row".
    const CHECKED: &'static str;

    /// The workload with these options.
    ///
    /// # Errors
    /// What is out of range, in words.
    fn asked(options: &Self::Options, asked: Asked) -> Result<Self, String>;
}

/// A pod for the adversary: hosts and workers of each.
pub fn small_pod(draw: Draw<'_>) -> (u8, u8) {
    (2 + draw(2) as u8, 1 + draw(2) as u8)
}
