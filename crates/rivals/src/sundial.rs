//! Sundial's logical leases: what may be done with one row, wherever it is kept.
//!
//! Sundial (Yu, Xia, Pavlo, Sanchez, Rudolph, Devadas; PVLDB 11(10), 2018): a read takes no lock but a
//! lease, the time from the row's last change (`wts`) to the time until which it is known to stay (`rts`); a
//! write locks the row when it is first touched. A transaction commits at a time that all its leases cover,
//! or can be made to cover ([`Lease::renewed`]). Nobody waits: who meets a lock that it cannot pass aborts
//! (NO_WAIT).
//!
//! Invariants:
//! 1. `wts <= rts`; while a row is locked, only its holder changes them.
//! 2. `rts` never falls, and a row changes at a time above its `rts`.
//!
//! Not here: where a row's words are, and that what is done to them is one step (partitioned/part.rs,
//! shm/word.rs).

use liger_fabric::{Cx, Fabric};

use liger_engine::{Conflict, TxnError};

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &[
    "sundial.extend-lease",
    "sundial.compare-on-renewal",
    "sundial.respect-lock",
    "sundial.lease-what-was-locked",
];

/// Who a transaction is, as rows name their writer: host and worker, plus one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Who(pub(crate) u32);

/// How a transaction ends at one host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// With its changes.
    Committed {
        /// When.
        time: u64,
    },
    /// Without them.
    Aborted {
        /// When what it has locked was seen as it is; 0: nothing of that kind is known.
        seen: u64,
    },
}

/// Whether a body that ends with this error may have been misled by what it read: leases let it see rows of
/// different times, and what follows from these has never been so.
pub(crate) fn rests_on_reads(why: TxnError) -> bool {
    !matches!(why, TxnError::Conflict(_) | TxnError::Fenced)
}

/// What a row says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lease {
    /// Who has locked it for writing; 0: nobody.
    pub(crate) writer: u32,
    /// False until the insert that makes it has committed.
    pub(crate) born: bool,
    /// When it changed last.
    pub(crate) wts: u64,
    /// Until when it is known to stay as it is.
    pub(crate) rts: u64,
}

impl Lease {
    /// As it is to a reader. A row whose insert has not committed is neither there nor absent.
    pub(crate) fn read(self) -> Result<Self, Conflict> {
        if self.born || self.writer == 0 { Ok(self) } else { Err(Conflict::WriteLocked) }
    }

    /// Locked for writing.
    pub(crate) fn locked(self, who: Who) -> Result<Self, Conflict> {
        if self.writer == 0 { Ok(Self { writer: who.0, ..self }) } else { Err(Conflict::WriteLocked) }
    }

    /// The earliest time at which who has locked it may change it.
    pub(crate) fn floor(self) -> u64 {
        self.rts + 1
    }

    /// As it is when its lease covers `time`; `None` if it cannot. `changed`: it is not what was leased.
    pub(crate) fn renewed<F: Fabric>(self, cx: &Cx<F>, changed: bool, time: u64) -> Option<Self> {
        if changed && !cx.sabotaged("sundial.compare-on-renewal") {
            return None;
        }
        if self.rts >= time {
            return Some(self);
        }
        if self.writer != 0 && !cx.sabotaged("sundial.respect-lock") {
            return None;
        }
        if cx.sabotaged("sundial.extend-lease") { Some(self) } else { Some(Self { rts: time, ..self }) }
    }

    /// Locked, and changed at `time`.
    pub(crate) fn changed(self, time: u64) -> Self {
        Self { wts: time, rts: time, ..self }
    }

    /// Locked, and seen as it is by a holder that commits at `time`: it may have locked the row and not
    /// changed it.
    pub(crate) fn seen<F: Fabric>(self, cx: &Cx<F>, time: u64) -> Self {
        if cx.sabotaged("sundial.lease-what-was-locked") {
            return self;
        }
        Self { rts: self.rts.max(time), ..self }
    }
}
