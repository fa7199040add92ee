//! Salvage: all hosts of a pod are dead, and its memory is not. What only their rings hold goes to their
//! logs, and the pod is recovered from files, as if its memory were lost; nothing that was acknowledged at
//! `pod` is. docs/protocols/takeover.md has the steps, and what is left if whoever takes them dies after
//! each.
//!
//! Invariants:
//! 1. Nothing is shipped before it is certain that no host runs, that the memory is this pod's in its present
//!    generation, and that every byte to be shipped is one of an intact record.
//! 2. The memory is only read, but for heads of rings, epochs and durable epochs: it may be done again, by
//!    somebody else, until the pod's next generation has begun. Then it finds empty rings of the last one.
//! 3. Every log is closed, so everything in all of them counts.
//!
//! Not here: making the memory anew, which comes after the next generation has begun.

use liger_fabric::{Cx, Fabric, HostId, WorkerId};
use liger_pod::PodError;
use liger_pod::membership::{self, HostState, Slot};
use liger_pod::plan::Plan as Memory;

use super::directory::Directory;
use super::error::RecoveryError;
use super::{Reading, manifest::PodManifest};
use crate::log::epoch::epoch_in;
use crate::log::rest::{self, DamagedRing, Rest};
use crate::log::ship::{LogFailure, LogOptions};
use crate::log::{BadBinding, Binding, close_without_successor};

/// Protocol steps that a test can leave out.
pub const SABOTAGE_STEPS: &[&str] = &["salvage.prove-dead", "salvage.check-rings", "salvage.ship-rest"];

/// What was put into logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Salvaged {
    /// Rings that held something.
    pub rings: u32,
    /// Records in them.
    pub records: u64,
    /// Bytes of these.
    pub bytes: u64,
}

/// How it is known that no host runs any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dead {
    /// The pod names each host's process, and the system says that these are gone.
    Proven,
    /// The user says so: for hosts that ran on other machines, or before this one was started again.
    Vouched,
}

/// Why nothing was salvaged. No file has changed, unless a log could not be written.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SalvageError {
    /// A host may still run.
    #[error(
        "host {} is {state} in its incarnation {incarnation}, and nothing proves that its process is gone",
        host.0
    )]
    Living {
        /// Which.
        host: HostId,
        /// What the pod says of it.
        state: HostState,
        /// Its incarnation.
        incarnation: u16,
        /// What names its process; 0 if nothing does.
        process: u64,
    },
    /// The memory is not this pod's, or not in its present generation.
    #[error(transparent)]
    Binding(#[from] BadBinding),
    /// The memory is of an earlier generation, and what it holds was never salvaged.
    #[error(
        "the memory is of generation {found}, and the files have gone on to generation {expected} without \
         the {bytes} bytes of records that it holds"
    )]
    LeftBehind {
        /// The memory's.
        found: u64,
        /// That of the files.
        expected: u64,
        /// Bytes between heads and tails.
        bytes: u64,
    },
    /// The pod's epoch is none that this generation can have had.
    #[error("the memory's epoch is {found} (at {at:#x}), and the generation began with {first}")]
    Epoch {
        /// Where it is.
        at: u64,
        /// What it is.
        found: u64,
        /// The generation's first one.
        first: u64,
    },
    /// A ring is damaged.
    #[error(transparent)]
    Ring(#[from] DamagedRing),
    /// What the memory says of hosts is damaged.
    #[error(transparent)]
    Pod(#[from] PodError),
    /// A log cannot be written.
    #[error("host {}: {why}", host.0)]
    Log {
        /// Whose.
        host: HostId,
        /// Why.
        why: LogFailure,
    },
    /// A log cannot be read.
    #[error(transparent)]
    Files(#[from] RecoveryError),
}

/// Ships what the rings of all hosts of this memory hold beyond their logs, and closes these. `directories`
/// are those of all hosts, which the caller holds; `reading` is what is in them, and goes on to what is
/// shipped; `dead` says how it is known that no host runs. `None`: the memory holds nothing that the files
/// lack.
///
/// # Errors
/// See [`SalvageError`]. It may be tried again.
pub fn salvage<F: Fabric>(
    cx: &Cx<F>,
    memory: &Memory,
    directories: &[Directory],
    reading: &mut Reading,
    dead: Dead,
) -> Result<Option<Salvaged>, SalvageError> {
    if !memory.has_log() {
        return Ok(None);
    }
    if dead == Dead::Proven {
        prove_dead(cx, memory)?;
    }
    let pod = reading.pod().clone();
    if !is_present(cx, memory, &pod)? {
        return Ok(None);
    }
    assert_eq!(directories.len(), memory.hosts().count(), "one directory a host");
    let salvaged = check_rings(cx, memory, reading, &pod)?;
    let PodManifest { pod, generation, first_epoch, .. } = pod;
    let options = LogOptions { pod, generation, first_epoch, ..LogOptions::default() };
    // Also of hosts that are not in the pod any more: a log that is not closed holds the others back.
    for directory in directories.iter().filter(|_| !cx.sabotaged("salvage.ship-rest")) {
        let (host, disk) = (directory.host(), directory.disk());
        close_without_successor(cx, memory, (host, disk), options)
            .map_err(|why| SalvageError::Log { host, why })?;
    }
    reading.go_on(cx, directories)?;
    Ok(Some(salvaged))
}

/// Bytes between heads and tails of all rings, as far as their words make sense: what is lost with the
/// memory, at most, of what was acknowledged at `pod`.
pub fn unshipped_bytes<F: Fabric>(cx: &Cx<F>, memory: &Memory) -> u64 {
    if !memory.has_log() {
        return 0;
    }
    rings(memory).map(|(host, worker)| rest::unshipped(cx, memory, host, worker)).sum()
}

fn rings(memory: &Memory) -> impl Iterator<Item = (HostId, WorkerId)> + '_ {
    let workers = memory.config().workers;
    memory.hosts().flat_map(move |host| (0..workers).map(move |worker| (host, WorkerId(worker))))
}

/// Makes sure that no host can change the memory or its log.
fn prove_dead<F: Fabric>(cx: &Cx<F>, memory: &Memory) -> Result<(), SalvageError> {
    if cx.sabotaged("salvage.prove-dead") {
        return Ok(());
    }
    for host in memory.hosts() {
        let slot = Slot::load(cx, memory, host)?;
        let Slot { state, incarnation, .. } = slot;
        let name = membership::name_of(cx, memory, slot);
        let proven = match (state, name) {
            (HostState::Free | HostState::Fenced | HostState::Recovered, _) => true,
            // It has not said who it is, so it has not touched anything. It will not: the caller has its
            // files.
            (HostState::Joining, None) => true,
            (_, None) => false,
            (_, Some(process)) => cx.is_gone(host, process),
        };
        if !proven {
            let process = name.unwrap_or(0);
            return Err(SalvageError::Living { host, state, incarnation, process });
        }
    }
    Ok(())
}

/// True if the memory is that of the pod's present generation, and a log was begun in it.
fn is_present<F: Fabric>(cx: &Cx<F>, memory: &Memory, pod: &PodManifest) -> Result<bool, SalvageError> {
    let bytes = unshipped_bytes(cx, memory);
    let Some(found) = Binding::load(cx, memory)? else {
        // Nobody has begun a log in it.
        for (host, worker) in rings(memory) {
            rest::check_unused(cx, memory, host, worker)?;
        }
        return Ok(false);
    };
    let other = |what, found, expected| Err(BadBinding::Other { what, found, expected }.into());
    match (found.pod == pod.pod, found.generation, pod.generation) {
        (false, ..) => other("pod", found.pod, pod.pod),
        (true, found, expected) if found > expected => other("generation", found, expected),
        (true, found, expected) if found < expected && bytes > 0 => {
            Err(SalvageError::LeftBehind { found, expected, bytes })
        }
        (true, found, expected) => Ok(found == expected),
    }
}

/// Checks all that is to be shipped.
fn check_rings<F: Fabric>(
    cx: &Cx<F>,
    memory: &Memory,
    reading: &Reading,
    pod: &PodManifest,
) -> Result<Salvaged, SalvageError> {
    let (word, first) = (memory.epoch_word(), pod.first_epoch);
    let epochs = first..=epoch_in(cx.load(word));
    if epochs.is_empty() {
        return Err(SalvageError::Epoch { at: word.offset(), found: *epochs.end(), first });
    }
    let scans: Vec<_> = reading.scans().collect();
    assert_eq!(scans.len(), memory.hosts().count(), "what is in the log of each host");
    let mut all = Salvaged::default();
    for (host, worker) in rings(memory) {
        let scan = &scans[usize::from(host.0)];
        let logged = scan.streams.get(&worker.0).filter(|_| scan.generation == pod.generation);
        let found = rest::check(cx, memory, (host, worker), &epochs, logged.copied());
        let Rest { records, bytes } = match found {
            Err(_) if cx.sabotaged("salvage.check-rings") => Rest::default(),
            found => found?,
        };
        assert_eq!(records > 0, bytes > 0, "{records} records in {bytes} bytes");
        all.rings += u32::from(records > 0);
        all.records += records;
        all.bytes += bytes;
    }
    Ok(all)
}
