//! What the two protocols do with one row: Sundial's logical leases (sundial.rs), and locks of DS2PL.
//!
//! DS2PL: strict two-phase locking, each row for many readers or one writer, until the end.
//!
//! Both never wait: who meets a lock aborts (NO_WAIT), as in Tigon's ports. Gaps: see part.rs, invariant 2.
//! Without protection of gaps ([`Rules::gaps`]) ranges and absent keys may change behind a transaction's
//! back; so it was for Sundial in Tigon's evaluation (OSDI'25).

use liger_fabric::{Cx, Fabric};
use liger_store::local::{RowFlags, RowSlab};

use super::part::RowId;
use crate::sundial::Lease;
pub(super) use crate::sundial::Who;
use liger_engine::{Access, Conflict};

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &["ds2pl.respect-readers"];

/// How transactions of a partitioned pod keep out of each other's way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// Logical leases.
    Sundial,
    /// Two-phase locking.
    Ds2pl,
}

impl Protocol {
    /// Its name in reports and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sundial => "sundial",
            Self::Ds2pl => "ds2pl",
        }
    }
}

/// What a transaction has of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hold {
    /// A lease.
    Leased,
    /// A lock to read.
    Shared,
    /// The lock to write.
    Exclusive,
}

/// The rules of one pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rules {
    pub(super) protocol: Protocol,
    /// Whether gaps are protected.
    pub(super) gaps: bool,
}

/// What a row's header says under Sundial.
fn lease_of(rows: &RowSlab, row: RowId) -> Lease {
    let born = !rows.flags(row).has(RowFlags::PLACEHOLDER);
    Lease { writer: rows.aux(row), born, wts: rows.version(row), rts: rows.shared(row) }
}

/// Puts it there.
fn set_lease(rows: &mut RowSlab, row: RowId, lease: Lease) {
    rows.set_aux(row, lease.writer);
    rows.set_version(row, lease.wts);
    rows.set_shared(row, lease.rts);
}

impl Rules {
    /// Takes a row that the transaction has nothing of.
    pub(super) fn take<F: Fabric>(
        self,
        cx: &Cx<F>,
        rows: &mut RowSlab,
        row: RowId,
        who: Who,
        access: Access,
    ) -> Result<Hold, Conflict> {
        let writer = rows.aux(row);
        match (self.protocol, access) {
            (Protocol::Sundial, Access::Read) => lease_of(rows, row).read().map(|_| Hold::Leased),
            _ if writer != 0 => Err(Conflict::WriteLocked),
            (Protocol::Ds2pl, Access::Read) => {
                rows.set_stamp(row, rows.stamp(row) + 1);
                Ok(Hold::Shared)
            }
            (_, Access::Update) => {
                self.lock(cx, rows, row, who, 0)?;
                Ok(Hold::Exclusive)
            }
        }
    }

    /// Makes the write lock of what the transaction has, a lease that still holds or a lock to read.
    pub(super) fn strengthen<F: Fabric>(
        self,
        cx: &Cx<F>,
        rows: &mut RowSlab,
        row: RowId,
        who: Who,
    ) -> Result<(), Conflict> {
        if rows.aux(row) != 0 {
            return Err(Conflict::WriteLocked);
        }
        self.lock(cx, rows, row, who, u64::from(self.protocol == Protocol::Ds2pl))
    }

    /// `mine`: readers' locks of this transaction, which it gives up.
    fn lock<F: Fabric>(
        self,
        cx: &Cx<F>,
        rows: &mut RowSlab,
        row: RowId,
        who: Who,
        mine: u64,
    ) -> Result<(), Conflict> {
        if self.protocol == Protocol::Sundial {
            set_lease(rows, row, lease_of(rows, row).locked(who)?);
            return Ok(());
        }
        if rows.stamp(row) > mine && !cx.sabotaged("ds2pl.respect-readers") {
            return Err(Conflict::ReadLocked);
        }
        rows.set_stamp(row, rows.stamp(row) - mine);
        rows.set_aux(row, who.0);
        Ok(())
    }

    /// The earliest time at which a transaction may commit that has locked the row.
    pub(super) fn floor(self, rows: &RowSlab, row: RowId) -> u64 {
        match self.protocol {
            Protocol::Sundial => lease_of(rows, row).floor(),
            // No clock decides here; versions only have to grow.
            Protocol::Ds2pl => rows.version(row) + 1,
        }
    }

    /// Whether a row that was leased has stayed as it was (`wts`, and `gap` if that was looked at) and will,
    /// until `time`: then its lease says so.
    pub(super) fn renew<F: Fabric>(
        self,
        cx: &Cx<F>,
        rows: &mut RowSlab,
        row: RowId,
        (wts, gap): (u64, Option<u64>),
        time: u64,
    ) -> bool {
        let lease = lease_of(rows, row);
        let changed = lease.wts != wts || gap.is_some_and(|stamp| rows.stamp(row) != stamp);
        let Some(renewed) = lease.renewed(cx, changed, time) else { return false };
        set_lease(rows, row, renewed);
        true
    }

    /// Gives a row back that has not changed.
    pub(super) fn release(self, rows: &mut RowSlab, row: RowId, hold: Hold) {
        match hold {
            Hold::Leased => {}
            Hold::Shared => rows.set_stamp(row, rows.stamp(row) - 1),
            Hold::Exclusive => rows.set_aux(row, 0),
        }
    }

    /// Says of a locked row that it has changed at `time`.
    pub(super) fn changed(self, rows: &mut RowSlab, row: RowId, time: u64) {
        match self.protocol {
            Protocol::Sundial => set_lease(rows, row, lease_of(rows, row).changed(time)),
            Protocol::Ds2pl => rows.set_version(row, time),
        }
    }

    /// Says of a locked row that who held it saw it as it is at `time`, when it committed: it may have locked
    /// the row and not changed it.
    pub(super) fn seen<F: Fabric>(self, cx: &Cx<F>, rows: &mut RowSlab, row: RowId, time: u64) {
        if self.protocol == Protocol::Sundial {
            set_lease(rows, row, lease_of(rows, row).seen(cx, time));
        }
    }

    /// Says of a locked row that what its gap holds has changed at `time`.
    pub(super) fn gap_changed(self, rows: &mut RowSlab, row: RowId, time: u64) {
        if self.protocol == Protocol::Sundial {
            rows.set_stamp(row, time);
            rows.set_shared(row, rows.shared(row).max(time));
        }
    }
}
