//! What a run gives back.

use std::fmt;

use super::call_sites::Listed;
use super::explain::{Actor, Site, Violation};
use crate::cx::{HostId, WorkerId};
use crate::fabric::Work;

/// How a run ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// Every worker returned, or died with its host.
    Completed,
    /// A rule of the memory model was broken.
    Violation(Box<Violation>),
    /// A worker panicked (a failed assertion of the program is a finding, too).
    Panicked {
        /// Its host.
        host: HostId,
        /// Its number.
        worker: WorkerId,
        /// The panic's message and place.
        message: String,
    },
    /// All workers wait and nothing can change any more.
    Deadlock {
        /// Where each of them was last seen.
        workers: Vec<Actor>,
    },
    /// The run was longer than `max_verbs`.
    OutOfVerbs {
        /// Where each worker was last seen.
        workers: Vec<Actor>,
    },
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, workers) = match self {
            Outcome::Completed => return f.write_str("completed"),
            Outcome::Violation(violation) => return violation.fmt(f),
            Outcome::Panicked { host, worker, message } => {
                return write!(f, "host {} worker {} panicked: {message}", host.0, worker.0);
            }
            Outcome::Deadlock { workers } => ("deadlock: nobody makes progress", workers),
            Outcome::OutOfVerbs { workers } => ("out of verbs: the run is longer than its bound", workers),
        };
        writeln!(f, "{what}; last seen:")?;
        workers.iter().try_for_each(|actor| writeln!(f, "  {actor}"))
    }
}

/// What one host did.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct HostReport {
    /// Verbs of its workers.
    pub verbs: u64,
    /// Steps before which it was killed.
    pub killed: Vec<u64>,
}

impl HostReport {
    /// Which incarnation of the host this is, from 1.
    pub fn incarnation(&self) -> u64 {
        debug_assert!(self.killed.is_sorted(), "incarnations end in their order: {:?}", self.killed);
        self.killed.len() as u64 + 1
    }
}

/// Where the virtual time of all workers went in a timed run.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct TimeUse {
    /// Computation: units charged and picoseconds, by `Work as usize`.
    pub units: [(u64, u64); Work::ALL.len()],
    /// Verbs on sync words, waiting for their lines included.
    pub sync_ps: u64,
    /// Reads, writes, write-backs, invalidates and fences.
    pub data_ps: u64,
    /// Pauses.
    pub waiting_ps: u64,
    /// Calls of disks.
    pub disk_ps: u64,
    /// Processor time of sending and receiving messages.
    pub network_ps: u64,
}

impl TimeUse {
    /// Picoseconds of computation, that for the network included.
    pub fn compute_ps(&self) -> u64 {
        self.units.iter().map(|(_, ps)| ps).sum::<u64>() + self.network_ps
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// The seed that replays it.
    pub seed: u64,
    /// Hash over worker, verb, address and value of every step: equal runs have equal hashes, in every build.
    pub trace_hash: u64,
    /// Verbs performed (a data verb counts once per line it reads or writes).
    pub verbs: u64,
    /// Changes from one worker to another.
    pub switches: u64,
    /// Virtual nanoseconds that passed.
    pub virtual_ns: u64,
    /// Where it went; zeros in the adversarial mode.
    pub time_use: TimeUse,
    /// Call sites of write_back, invalidate and fence, with how often each was reached, in order of first
    /// use. What lone workers reach (`Simulation::alone`), where nothing is at stake, and timed runs, where
    /// no instruction can be missing, do not count, here and below.
    pub sites: Vec<(Site, u64)>,
    /// Names that `Cx::sabotaged` was asked for, in order of first use.
    pub steps_asked: Vec<&'static str>,
    /// Call sites of all verbs and pauses that were reached, sorted.
    pub reached: Vec<Site>,
    /// The verbs of hosts that were to be listed (`Sim::list_verbs`), in order of time.
    pub listed: Vec<Listed>,
    /// Per host.
    pub hosts: Vec<HostReport>,
}

impl Report {
    /// True when every worker ended by itself or with its host.
    pub fn completed(&self) -> bool {
        matches!(self.outcome, Outcome::Completed)
    }

    /// The violation, if the run ended with one.
    pub fn violation(&self) -> Option<&Violation> {
        match &self.outcome {
            Outcome::Violation(violation) => Some(violation),
            _ => None,
        }
    }

    /// Returns the report of a completed run.
    ///
    /// # Panics
    /// With the explanation, if the run ended otherwise.
    #[track_caller]
    pub fn expect_completed(self) -> Self {
        assert!(self.completed(), "seed {}: {}", self.seed, self.outcome);
        self
    }
}
