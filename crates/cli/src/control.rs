//! What hosts are told and answer: JSON lines, over a benchmark's pipes or the socket of a host of a pod
//! directory.
//!
//! Every order gets exactly one final answer; [`Answer::Progress`] and [`Answer::Rows`] come before it. The
//! bytes that [`Answer::Rows`] announces follow its line. A host whose standard input ends, ends.
//! [`Order::Status`], [`Order::Drain`], [`Order::Move`], [`Order::AskForNone`] and [`Order::Point`] are
//! answered at once, whatever the host is doing, and [`Order::Checkpoint`] is carried out while it goes on;
//! other orders are carried out one after the other.

use std::collections::BTreeMap;

use liger_workload::{EngineFigures, WorkerStats};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::job::Job;

/// What a host is told to do.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Open the pod and join it.
    Join {
        /// The memory, as `MemorySpec` reads it.
        memory: String,
        /// The host's number.
        host: u8,
        /// An earlier incarnation of this number ended in this pod: wait until that is recovered, and own
        /// nothing.
        again: bool,
        /// What will be run.
        job: Box<Job>,
    },
    /// Go on joining, now that all hosts have read the pod's files.
    Enter,
    /// Fill the host's warehouses.
    Load,
    /// Fill them with what the pod's files hold: rows are made when they are wanted.
    Recover,
    /// Run one transaction on each worker.
    RunOne,
    /// Wait until all rows are made.
    AwaitRows,
    /// Take a checkpoint.
    Checkpoint,
    /// Share every CUSTOMER and STOCK row.
    Share,
    /// Run the transactions, after the job's warm-up.
    Run {
        /// Measured time.
        seconds: f64,
    },
    /// Take requests of clients from now on, between other orders.
    Open,
    /// How far are you?
    Status,
    /// Take no new clients, and let those go that are in no transaction.
    Drain,
    /// Let a partition go to another host, whoever has it.
    Move {
        /// The partition.
        partition: u16,
        /// Who is to have it.
        to: u8,
    },
    /// Ask for no partitions any more.
    AskForNone,
    /// What is durable, and let this epoch become so.
    Point {
        /// The epoch.
        wanted: u64,
    },
    /// Wait until everything that was committed is on storage.
    Sync,
    /// Let mail and reclamation come to rest.
    Quiesce,
    /// Check the engine's invariants.
    Check,
    /// Hand over all rows of a table.
    Dump {
        /// The table's number.
        table: u16,
    },
    /// Ask for partitions again, if the pod's policy says so: whoever let it come to rest has looked at it.
    GoOn,
    /// Leave the pod and end.
    Leave,
    /// End without leaving, once everything that was committed is on storage: the other hosts take over the
    /// partitions.
    GiveUp,
}

/// What a host has seen of its rows in shared memory since it joined.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Scrubbed {
    /// Looks at blocks of rows, whether they are as they were written.
    pub looks: u64,
    /// Blocks that were found damaged.
    pub damaged: u64,
    /// Those of them that were written anew from their owner's copy.
    pub healed: u64,
}

/// What a host answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// How far a load is.
    Progress {
        /// Rows put since the last time.
        rows: u64,
    },
    /// The host waits for something, for so long by now.
    Waits {
        /// For what, in words.
        what: String,
        /// Milliseconds.
        ms: u64,
    },
    /// What the host's workers have acknowledged so far, by name.
    Acknowledged {
        /// How many.
        counts: BTreeMap<String, u64>,
    },
    /// What a recovery has found.
    Recovered {
        /// Bytes of logs and images.
        bytes: u64,
        /// Bytes of all hosts' logs, which every host reads.
        log_bytes: u64,
        /// Rows of images, index entries included.
        rows: u64,
        /// Changes of rows in logs.
        changes: u64,
    },
    /// How far the host is.
    Status {
        /// Transactions acknowledged to clients.
        transactions: u64,
        /// The partitions it owns.
        partitions: Vec<u16>,
        /// What it cannot do at present, and why.
        troubles: Vec<String>,
        /// Bytes of images whose rows are made, of how many; none: all are.
        restored: Option<(u64, u64)>,
        /// What it has seen of its rows in shared memory.
        scrubbed: Scrubbed,
    },
    /// The host asks for no partitions any more, and has these.
    Owns {
        /// Their numbers.
        partitions: Vec<u16>,
    },
    /// Clients go.
    Drained {
        /// How many are left.
        left: usize,
    },
    /// Where the pod's log is.
    Point {
        /// The pod's epoch.
        epoch: u64,
        /// The last one that is durable in the whole pod.
        durable: u64,
    },
    /// Nobody can say that here.
    NoPoint {
        /// Why.
        why: String,
    },
    /// The order was carried out; it had nothing to say.
    Done,
    /// Rows were loaded or shared.
    Moved {
        /// How many.
        rows: u64,
    },
    /// The transactions ran.
    Ran {
        /// What the host's workers measured.
        stats: Box<WorkerStats>,
        /// What the engine says about the measured time.
        figures: Box<EngineFigures>,
    },
    /// The host is at rest.
    Quiesced {
        /// Retired memory that still waits for others.
        backlog: u64,
        /// What the engine says about its memory.
        figures: Box<EngineFigures>,
    },
    /// The host's own checks are done.
    Checked {
        /// What is wrong.
        problems: Vec<String>,
    },
    /// Rows of the table asked for: so many bytes follow this line.
    Rows {
        /// How many.
        bytes: usize,
    },
    /// All rows of the table asked for have been handed over.
    Dumped {
        /// The partitions that they are of.
        of: Vec<u16>,
    },
    /// Partitions were on their way while the host was looked at: what was seen says nothing.
    Unsettled,
    /// The order could not be carried out. The host ends, unless it was for a checkpoint.
    Failed {
        /// Why.
        message: String,
        /// Whether the cause is what was asked for (the memory, the configuration).
        refused: bool,
    },
}

impl Answer {
    /// The failure of whoever has asked for something else.
    pub fn unasked(&self) -> Failure {
        Failure::Broken(format!("a host answered what it was not asked: {self:?}"))
    }
}
