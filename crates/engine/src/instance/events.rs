//! What happens to a host's pod, for whoever keeps a diary of it: deaths, takeovers as they begin and end,
//! a log that finds no room, and damage of the memory.
//!
//! It is told from the turns of the failure detector and of the shipper, so whoever hears must not wait for
//! the pod. Nothing depends on it.

use std::fmt;
use std::sync::Arc;

use liger_fabric::HostId;
use liger_pod::watch::Accusation;

use super::Instance;

/// Something that has happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PodEvent {
    /// This host has found another one dead.
    Accused(Accusation),
    /// The pod has ruled that this host is dead; why, if that is known.
    Fenced(Option<Accusation>),
    /// This host begins to take over from dead ones.
    TakeoverBegins {
        /// The dead.
        dead: Vec<HostId>,
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

/// Hears of events, from the failure detector's thread.
pub type Hearer = Arc<dyn Fn(&PodEvent) + Send + Sync>;

/// Hosts as people write them: `1`, or `1, 3`.
struct Hosts<'a>(&'a [HostId]);

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
            Self::Accused(accusation) => write!(f, "host {}: {accusation}", accusation.host.0),
            Self::Fenced(Some(accusation)) => write!(f, "the pod counts this host as dead: {accusation}"),
            Self::Fenced(None) => write!(f, "the pod counts this host as dead"),
            Self::TakeoverBegins { dead } => write!(f, "taking over from host {}", Hosts(dead)),
            Self::TakeoverEnds { dead, partitions, failure: None } => {
                write!(f, "took over from host {}: {partitions} partitions are this host's", Hosts(dead))
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
