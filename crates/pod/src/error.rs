//! What can go wrong when a host meets a pod: each error says what, why, and what to do.

use std::sync::OnceLock;

use liger_fabric::HostId;

use crate::membership::HostState;
use crate::membership::MAX_INCARNATION;
use crate::plan::PlanError;
use crate::selftest::SelfTestFailure;

/// Why a pod was not formatted, opened, joined or left.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PodError {
    /// The memory holds no pod.
    #[error(
        "this memory holds no pod (its state word is {found:#x}): format it first, or name the right memory"
    )]
    NotAPod {
        /// State word found.
        found: u64,
    },
    /// The memory holds a pod already.
    #[error("this memory holds a pod already: join it, or say that it may be destroyed")]
    AlreadyFormatted,
    /// Memory that was said to be all zero is not.
    #[error(
        "this memory was said to be new, but its state word is {found:#x}: format it as memory of \
            unknown contents"
    )]
    NotZero {
        /// State word found.
        found: u64,
    },
    /// Another host is formatting, or died while it did.
    #[error(
        "this pod is being formatted, or its format was cut short: wait, or format it again over the old one"
    )]
    StillFormatting,
    /// Written by another format version.
    #[error(
        "this pod has format version {found}, this program reads {}: use the program that formatted it",
        range(*oldest, *newest)
    )]
    OtherVersion {
        /// Version in the memory.
        found: u32,
        /// The oldest version that this program reads.
        oldest: u32,
        /// The newest, which it writes.
        newest: u32,
    },
    /// A newer program formatted it, and counts on something that this one does not know.
    #[error(
        "this pod has features that this program does not know ({unknown:#x}): use the program that \
            formatted it"
    )]
    UnknownFeatures {
        /// Their bits.
        unknown: u64,
    },
    /// The pod was formatted with another configuration.
    #[error(
        "this pod has {field} = {found}, this host is configured with {expected}: configure all hosts alike"
    )]
    OtherConfiguration {
        /// Field that differs.
        field: &'static str,
        /// Value in the pod.
        found: u64,
        /// Value of this host.
        expected: u64,
    },
    /// The same configuration, but the program that formatted the pod put a part elsewhere.
    #[error(
        "this pod has {part} at {found:#x}, this program puts it at {expected:#x}: use the program that \
            formatted it"
    )]
    OtherLayout {
        /// Name of the part.
        part: String,
        /// Offset in the pod.
        found: u64,
        /// Offset by this program's plan.
        expected: u64,
    },
    /// Bytes of the control plane make no sense.
    #[error(
        "this pod is damaged: {what} is {found:#x}, should be {expected:#x}: restore it, or format it again"
    )]
    Damaged {
        /// What is wrong.
        what: &'static str,
        /// What it is.
        found: u64,
        /// What it should be.
        expected: u64,
    },
    /// The memory is smaller than the pod.
    #[error("this memory has {len} bytes, the pod needs {needed}: map all of it, or configure a smaller pod")]
    TooSmall {
        /// Bytes of memory.
        len: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// The configuration has no plan.
    #[error("this configuration describes no pod: {0}")]
    Plan(#[from] PlanError),
    /// The pod has no such host.
    #[error("host {} is not in this pod of {hosts} hosts: give a number below {hosts}", host.0)]
    NoSuchHost {
        /// The number given.
        host: HostId,
        /// Hosts in the pod.
        hosts: u8,
    },
    /// The host number is taken.
    #[error("host {} is taken: process {process} is {state} as incarnation {incarnation}: join under \
        another number, or, if that process has ended, when the other hosts have taken over from it",
        host.0)]
    HostInUse {
        /// The number.
        host: HostId,
        /// What its owner is doing.
        state: HostState,
        /// Which of its incarnations.
        incarnation: u16,
        /// What the owner says of itself (its process number).
        process: u64,
    },
    /// A process that nobody could end may not be a host.
    #[error("host {} cannot join: its process could not find out its own name (are there file \
        descriptors to spare, and is /proc there, of this space of process numbers?)", host.0)]
    Nameless {
        /// The number.
        host: HostId,
    },
    /// An earlier incarnation of the host ended without leaving, and what it held is not recovered.
    #[error("host {} is {state}: its incarnation {incarnation} did not leave, and the other hosts have not \
        taken over from it yet: join again when they have", host.0)]
    HostNotRecovered {
        /// The number.
        host: HostId,
        /// How far its recovery is.
        state: HostState,
        /// The incarnation that did not leave.
        incarnation: u16,
    },
    /// A host number has been used as often as it can be.
    #[error("host {} has used up its {MAX_INCARNATION} incarnations: format the pod again", host.0)]
    IncarnationsUsedUp {
        /// The number.
        host: HostId,
    },
    /// Others changed this host's state: it was suspected or fenced, and must stop.
    #[error("host {} is no longer {expected} as incarnation {incarnation}: the pod says {found}: stop \
        and join anew",
        host.0)]
    Fenced {
        /// This host.
        host: HostId,
        /// This incarnation of it.
        incarnation: u16,
        /// State it believed to be in.
        expected: HostState,
        /// State that the pod says.
        found: HostState,
    },
    /// Every other host that could test the memory with this one is itself still joining.
    #[error("host {} waited {waited_ns} ns for host {} to join, to test the memory with it: \
        recover that host, or join again", host.0, founder.0)]
    FounderSilent {
        /// This host.
        host: HostId,
        /// The host that is to be the pod's first member.
        founder: HostId,
        /// How long.
        waited_ns: u64,
    },
    /// The pod has members, and all of them are dead.
    #[error("nobody is there to test the memory with host {}: the process of host {} has ended, as those of \
        all members, and no host lives that could take over from it: recover the pod from its files",
        host.0, dead.0)]
    NobodyLives {
        /// This host.
        host: HostId,
        /// A dead member.
        dead: HostId,
    },
    /// The memory does not do what the protocols rely on.
    #[error(transparent)]
    SelfTest(#[from] SelfTestFailure),
}

/// Bytes that make no sense, as an error.
#[cold]
pub(crate) fn damaged(what: &'static str, found: u64, expected: u64) -> PodError {
    PodError::Damaged { what, found, expected }
}

/// The first damage that was met by whoever goes on in spite of it, and has nobody to tell: a service that
/// polls, a slot that is given back. Kept for whoever asks.
#[derive(Default)]
pub(crate) struct Noted(OnceLock<PodError>);

impl Noted {
    /// Keeps the first one.
    #[cold]
    pub fn note(&self, damage: PodError) {
        let _ = self.0.set(damage);
    }

    /// What was found, if it makes sense.
    pub fn whole<T>(&self, found: Result<T, PodError>) -> Option<T> {
        found.map_err(|damage| self.note(damage)).ok()
    }

    pub fn first(&self) -> Option<&PodError> {
        self.0.get()
    }
}

/// The numbers from `oldest` to `newest`, in words.
fn range(oldest: u32, newest: u32) -> String {
    if oldest == newest { newest.to_string() } else { format!("{oldest} to {newest}") }
}
