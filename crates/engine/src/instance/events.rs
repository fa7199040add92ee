//! What happens to a host's pod, for whoever keeps a diary of it: deaths and takeovers with the steps that
//! they come to, a log that finds no room, and damage of the memory.
//!
//! It is told from the turns of the failure detector, of the shipper and of the checkpointer, and by workers
//! that make rows; so whoever hears must not wait for the pod. Nothing depends on it.

use std::fmt;
use std::sync::Arc;

use liger_fabric::HostId;
use liger_pod::plan::PartitionId;
use liger_pod::watch::Accusation;

use super::Instance;

/// Something that has happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PodEvent {
    /// This host has found another one dead.
    Accused {
        /// Who, and why.
        accusation: Accusation,
        /// So many nanoseconds ago: what it could do about it at once is done.
        ago_ns: u64,
    },
    /// The pod has ruled that this host is dead; why, if that is known.
    Fenced(Option<Accusation>),
    /// This host has seen that another one is cut off: that one changes nothing any more.
    CutOff {
        /// The dead.
        host: HostId,
    },
    /// This host has freed its rows from a dead one's locks.
    LocksResolved {
        /// The dead.
        host: HostId,
    },
    /// This host has brought a dead one's log to its end.
    LogClosed {
        /// The dead.
        host: HostId,
        /// Bytes of its rings that its log did not have yet.
        bytes: u64,
    },
    /// This host begins to take over from dead ones.
    TakeoverBegins {
        /// The dead.
        dead: Vec<HostId>,
    },
    /// It has come further with that.
    TakeoverReaches {
        /// The dead.
        dead: Vec<HostId>,
        /// How far.
        step: TakeoverStep,
    },
    /// It has ended that.
    TakeoverEnds {
        /// The dead.
        dead: Vec<HostId>,
        /// Partitions that are this host's now.
        partitions: usize,
        /// Why it has failed, if it has. It is tried again.
        failure: Option<String>,
    },
    /// This host sends to a dead host's successor what it sent to that one before.
    Followed {
        /// The dead.
        host: HostId,
        /// Its partitions that belong to somebody else now.
        partitions: usize,
    },
    /// Rows that somebody waited for are there, the first ones of partitions that this host has taken over.
    FirstRow {
        /// Where they are.
        partition: PartitionId,
    },
    /// All rows of this host's partitions are in its memory: none is left to be made from an image.
    AllRows {
        /// Bytes of images that they were made from, since the host began.
        bytes: u64,
    },
    /// A checkpoint of this host has what it has taken over: the files of the dead are not needed for it.
    TakeoverIsKept {
        /// The dead.
        dead: Vec<HostId>,
    },
    /// A dead host's number is free: it may come back.
    Released {
        /// The dead.
        host: HostId,
    },
    /// Partitions go from one living host to another.
    HandOver {
        /// How far.
        step: HandOverStep,
        /// The other host; this one, where there is none.
        host: HostId,
        /// How many.
        partitions: usize,
    },
    /// A checkpoint of this host has failed. It is tried again, unless that was for good.
    CheckpointFails {
        /// Why.
        why: String,
    },
    /// This host's log is full or has failed, or it goes on.
    Log {
        /// Why nothing may be committed, if so.
        fault: Option<String>,
    },
    /// This host has met damage of the pod's memory that it goes past: something is lost since. Said once.
    Damaged {
        /// What makes no sense.
        why: String,
    },
}

/// How far a takeover has come. If somebody dies meanwhile, it goes back to the logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TakeoverStep {
    /// The logs of all hosts hold what was committed before this host asked.
    LogsHold,
    /// All logs are read and checked, and what they change of the partitions is known.
    LogsRead {
        /// Bytes of all of them.
        bytes: u64,
        /// Their segments.
        segments: usize,
    },
    /// What the partitions are made from is open.
    ImagesOpened {
        /// The partitions.
        partitions: usize,
        /// Bytes of their images.
        bytes: u64,
    },
    /// No transaction of this host is left that has used the partitions as another host's.
    TransactionsEnded,
    /// The partitions are joined with what is in shared memory.
    RowsJoined,
}

impl TakeoverStep {
    /// Its name in diaries.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LogsHold => "logs_hold",
            Self::LogsRead { .. } => "logs_read",
            Self::ImagesOpened { .. } => "images_opened",
            Self::TransactionsEnded => "transactions_ended",
            Self::RowsJoined => "rows_joined",
        }
    }
}

impl fmt::Display for TakeoverStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LogsHold => write!(f, "all logs hold what was committed"),
            Self::LogsRead { bytes, segments } => {
                write!(f, "{segments} segments of logs are read, {bytes} bytes")
            }
            Self::ImagesOpened { partitions, bytes } => {
                write!(f, "images of {partitions} partitions are open, {bytes} bytes")
            }
            Self::TransactionsEnded => write!(f, "transactions have ended that used its partitions"),
            Self::RowsJoined => write!(f, "its partitions are joined with rows in shared memory"),
        }
    }
}

/// How far a hand-over has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HandOverStep {
    /// This host has closed its partitions, to give them to the other.
    Closed,
    /// They are in images and logs, for the other to take.
    Released,
    /// They are the other's.
    Left,
    /// They are this host's, who had them from the other.
    Arrived,
    /// They stay where they are for now, and why.
    Failed(String),
}

impl HandOverStep {
    /// Its name in diaries.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Closed => "partitions_closed",
            Self::Released => "partitions_released",
            Self::Left => "partitions_left",
            Self::Arrived => "partitions_arrived",
            Self::Failed(_) => "partitions_stay",
        }
    }
}

/// Hears of events, from threads that keep the pod going.
pub type Hearer = Arc<dyn Fn(&PodEvent) + Send + Sync>;

/// Hosts as people write them: `1`, or `1, 3`.
pub struct Hosts<'a>(pub &'a [HostId]);

impl fmt::Display for Hosts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, host) in self.0.iter().enumerate() {
            write!(f, "{}{}", if at == 0 { "" } else { ", " }, host.0)?;
        }
        Ok(())
    }
}

impl fmt::Display for PodEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accused { accusation, .. } => write!(f, "host {}: {accusation}", accusation.host.0),
            Self::Fenced(Some(accusation)) => write!(f, "the pod counts this host as dead: {accusation}"),
            Self::Fenced(None) => write!(f, "the pod counts this host as dead"),
            Self::CutOff { host } => write!(f, "host {} is cut off", host.0),
            Self::LocksResolved { host } => write!(f, "the locks of host {} are resolved here", host.0),
            Self::LogClosed { host, bytes } => {
                write!(f, "the log of host {} is closed, with {bytes} bytes that it lacked", host.0)
            }
            Self::TakeoverBegins { dead } => write!(f, "taking over from host {}", Hosts(dead)),
            Self::TakeoverEnds { dead, partitions, failure: None } => {
                write!(f, "took over from host {}: {partitions} partitions are this host's", Hosts(dead))
            }
            Self::TakeoverReaches { dead, step } => {
                write!(f, "taking over from host {}: {step}", Hosts(dead))
            }
            Self::Followed { host, partitions } => {
                write!(f, "{partitions} partitions of host {} are looked for at their next owner", host.0)
            }
            Self::FirstRow { partition } => {
                write!(f, "the first rows that somebody waited for are there, of partition {partition}")
            }
            Self::AllRows { bytes } => write!(f, "all rows are there, of {bytes} bytes of images"),
            Self::TakeoverIsKept { dead } => {
                write!(f, "a checkpoint has what was taken over from host {}", Hosts(dead))
            }
            Self::Released { host } => write!(f, "host {} may come back", host.0),
            Self::HandOver { step, host, partitions } => {
                let host = host.0;
                match step {
                    HandOverStep::Closed => write!(f, "{partitions} partitions are closed, for host {host}"),
                    HandOverStep::Released => write!(f, "host {host} may take {partitions} partitions"),
                    HandOverStep::Left => write!(f, "{partitions} partitions are host {host}'s now"),
                    HandOverStep::Arrived => {
                        write!(f, "{partitions} partitions of host {host} are this host's now")
                    }
                    HandOverStep::Failed(why) => {
                        write!(f, "{partitions} partitions stay, where host {host} has part in it: {why}")
                    }
                }
            }
            Self::Damaged { why } => write!(f, "{why}"),
            Self::CheckpointFails { why } => write!(f, "a checkpoint has failed: {why}"),
            Self::Log { fault: Some(why) } => write!(f, "this host {why}"),
            Self::Log { fault: None } => write!(f, "the log has room again: changes are committed"),
            Self::TakeoverEnds { dead, failure: Some(why), .. } => {
                write!(f, "cannot take over from host {} yet: {why}", Hosts(dead))
            }
        }
    }
}

impl Instance {
    /// Tells whoever wants to hear.
    pub(crate) fn announce(&self, event: &PodEvent) {
        if let Some(hearer) = &self.hearer {
            hearer(event);
        }
    }
}
