//! The rows that a transaction has leased or locked, and the gaps below them.
//!
//! Invariants:
//! 1. A row is held once, under its word: asking again, or for more, finds and strengthens what is there.
//! 2. The bytes of a row are copied once; they, and the gap if the transaction depends on it, are as they
//!    were under the lease's `wts`.
//! 3. Who depends on a gap holds the row above it, whose lease is taken or compared after the index was
//!    read and before the index is seen not to have changed since.
//! 4. Who changes what is in a gap has the row above it locked, and has seen after that that it is the one.

use liger_fabric::{Fabric, SyncAddr, Work};
use liger_pod::plan::PartitionId;
use liger_store::bwtree::Trace;

use super::rows::{Refusal, RowAt};
use super::transaction::{ROUNDS, ShmTxn};
use crate::sundial::Lease;
use liger_engine::protocol::{Named, tree_error};
use liger_engine::{Access, At, Conflict, Key, Relation, TableId, TxnError};

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &[
    "shm.compare-gap",
    "shm.hold-behind-absent",
    "shm.recheck-absent",
    "shm.recheck-gap",
    "shm.miss-what-was-read",
];

/// A row that a transaction has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) table: TableId,
    pub(super) partition: PartitionId,
    pub(super) key: Key,
    pub(super) at: RowAt,
    /// As it was when it was taken, without the lock.
    pub(super) lease: Lease,
    pub(super) locked: bool,
    /// The version of its bytes.
    pub(super) version: u64,
    /// Its bytes among the transaction's, once they were copied.
    pub(super) image: Option<(usize, usize)>,
    /// The transaction changes what is in the row's gap.
    pub(super) opens_gap: bool,
    /// The transaction has made it.
    pub(super) is_new: bool,
    /// It goes when the transaction commits.
    pub(super) deleted: bool,
}

impl Named for Held {
    type Name = SyncAddr;

    fn name(&self) -> SyncAddr {
        self.at.word
    }
}

impl Held {
    /// One that has only been taken: nothing of it was copied, and nothing is to become of it.
    pub(super) fn new(at: At<'_>, key: Key, row: RowAt, lease: Lease, locked: bool) -> Self {
        Self {
            table: at.table(),
            partition: at.partition,
            key,
            at: row,
            lease,
            locked,
            version: 0,
            image: None,
            opens_gap: false,
            is_new: false,
            deleted: false,
        }
    }
}

/// What is wanted of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Want {
    pub(super) access: Access,
    /// Its bytes.
    pub(super) bytes: bool,
    /// The gap below it is depended on.
    pub(super) gap: bool,
}

impl Want {
    pub(super) const fn row(access: Access, gap: bool) -> Self {
        Self { access, bytes: true, gap }
    }

    /// Nothing but the gap.
    pub(super) const fn gap(access: Access) -> Self {
        Self { access, bytes: false, gap: true }
    }
}

impl<F: Fabric> ShmTxn<'_, F> {
    /// Takes a row, or more of it. `None`: it is gone.
    pub(super) fn hold(
        &mut self,
        at: At<'_>,
        (key, row): (&Key, RowAt),
        want: Want,
    ) -> Result<Option<usize>, Conflict> {
        self.cx.spend(Work::Row, 1);
        let known = self.held.number(&row.word);
        let taken = match known {
            Some(i) => self.hold_more(at.relation, i, want).map(|()| i),
            None => self.take(at, (key, row), want),
        };
        match taken {
            Ok(i) => {
                let Held { lease, locked, .. } = self.held[i];
                self.floor = self.floor.max(if locked { lease.floor() } else { lease.wts });
                Ok(Some(i))
            }
            // A row that was leased, and is gone, has changed.
            Err(Refusal::Gone) if known.is_some() => Err(Conflict::Validation),
            Err(Refusal::Gone) => Ok(None),
            Err(Refusal::Conflict(conflict)) => Err(conflict),
        }
    }

    fn take(&mut self, at: At<'_>, (key, row): (&Key, RowAt), want: Want) -> Result<usize, Refusal> {
        let (cx, host) = (self.cx, self.host);
        let start = self.bytes.len();
        let locked = want.access == Access::Update;
        let (lease, version) = match (locked, want.bytes) {
            (false, false) => (host.lease(cx, row)?, 0),
            (false, true) => host.read(cx, row, at.relation.row_len, &mut self.bytes)?,
            (true, _) => (host.lock(cx, row, self.who, None)?, 0),
        };
        let image = (!locked && want.bytes).then_some((start, self.bytes.len()));
        let taken = Held::new(at, *key, row, lease, locked);
        let i = self.held.add(Held { version, image, ..taken });
        if locked && want.bytes {
            self.copy(at.relation, i)?;
        }
        Ok(i)
    }

    fn hold_more(&mut self, relation: &Relation, i: usize, want: Want) -> Result<(), Refusal> {
        let (cx, host) = (self.cx, self.host);
        let Held { at, lease, locked, image, is_new, .. } = self.held[i];
        if want.access == Access::Update && !locked {
            let now = host.lock(cx, at, self.who, Some(lease.wts))?;
            (self.held[i].lease, self.held[i].locked) = (now, true);
        } else if want.gap && !locked {
            let now = host.lease(cx, at)?;
            if now.wts != lease.wts && !cx.sabotaged("shm.compare-gap") {
                return Err(Conflict::Validation.into());
            }
            self.held[i].lease.rts = now.rts;
        }
        if want.bytes && image.is_none() && !is_new { self.copy(relation, i) } else { Ok(()) }
    }

    /// Copies the bytes of a row that is held.
    fn copy(&mut self, relation: &Relation, i: usize) -> Result<(), Refusal> {
        let (cx, host, start) = (self.cx, self.host, self.bytes.len());
        let Held { at, lease, locked, .. } = self.held[i];
        let version = if locked {
            host.read_locked(cx, at, lease.wts, relation.row_len, &mut self.bytes)
        } else {
            let (now, version) = host.read(cx, at, relation.row_len, &mut self.bytes)?;
            if now.wts != lease.wts {
                return Err(Conflict::Validation.into());
            }
            version
        };
        let held = &mut self.held[i];
        (held.version, held.image) = (version, Some((start, self.bytes.len())));
        Ok(())
    }

    /// The first row from `from` on; `trace` says which leaves of the index say so.
    pub(super) fn first_from(
        &self,
        at: At<'_>,
        from: &Key,
        trace: &mut Trace,
    ) -> Result<(Key, RowAt), TxnError> {
        trace.clear();
        let index = self.host.index(at);
        let found = index.first_at_or_after(self.cx, &self.host.tree_env(), from.words(), trace);
        let found = found.map_err(|error| tree_error(at.table(), error))?;
        let Some((key, entry)) = found else {
            let (table, what) = (at.table(), "index without its end");
            return Err(TxnError::Damaged { table, what, found: at.partition.0.into() });
        };
        Ok((Key::from_words(key.words(at.relation.key_words)), RowAt::of_entry(entry)))
    }

    /// True if the index still is as it was read.
    pub(super) fn is_index_as_read(&self, at: At<'_>, trace: &Trace) -> bool {
        self.host.index(at).unchanged(self.cx, trace)
    }

    /// Sees to it that there is no row with this key, and if gaps are protected that there will be none;
    /// false if there may be one now.
    pub(super) fn hold_absent(&mut self, at: At<'_>, key: &Key) -> Result<bool, TxnError> {
        let cx = self.cx;
        let is_it = |held: &Held| (held.partition, held.table) == at.ids() && held.key == *key;
        if !cx.sabotaged("shm.miss-what-was-read") && self.held.iter().any(is_it) {
            return Err(Conflict::Validation.into());
        }
        if !self.host.gaps || cx.sabotaged("shm.hold-behind-absent") {
            return Ok(true);
        }
        let mut trace = std::mem::take(&mut self.trace);
        let absent = self.lease_gap(at, key, &mut trace);
        self.trace = trace;
        absent
    }

    fn lease_gap(&mut self, at: At<'_>, key: &Key, trace: &mut Trace) -> Result<bool, TxnError> {
        let (next, row) = self.first_from(at, key, trace)?;
        let blind = self.cx.sabotaged("shm.recheck-absent");
        let absent = next != *key && self.hold(at, (&next, row), Want::gap(Access::Read))?.is_some();
        Ok(absent && (blind || self.is_index_as_read(at, trace)))
    }

    /// Locks the row from `from` on that stands for a gap whose contents will change; a row with the key
    /// `unless` is returned instead.
    pub(super) fn open_gap(
        &mut self,
        at: At<'_>,
        from: &Key,
        unless: Option<&Key>,
    ) -> Result<Option<RowAt>, TxnError> {
        let mut trace = std::mem::take(&mut self.trace);
        let opened = self.lock_gap(at, from, unless, &mut trace);
        self.trace = trace;
        opened
    }

    fn lock_gap(
        &mut self,
        at: At<'_>,
        from: &Key,
        unless: Option<&Key>,
        trace: &mut Trace,
    ) -> Result<Option<RowAt>, TxnError> {
        for _ in 0..ROUNDS {
            let (next, row) = self.first_from(at, from, trace)?;
            let blind = self.cx.sabotaged("shm.recheck-gap");
            if unless == Some(&next) {
                return Ok(Some(row));
            }
            if let Some(i) = self.hold(at, (&next, row), Want::gap(Access::Update))?
                && (blind || self.is_index_as_read(at, trace))
            {
                self.held[i].opens_gap = true;
                return Ok(None);
            }
            self.cx.pause();
        }
        Err(Conflict::Gap.into())
    }
}
