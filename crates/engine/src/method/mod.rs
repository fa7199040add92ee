//! The door for access methods: what keeps tables owes it to the one transaction, the one log and the one way
//! to fail that all methods of a host share (host/).
//!
//! A method keeps relations: rows in their owners' DRAM and in shared memory (row/), for example, or pages.
//! It knows how a row is found, held, changed and given back; it knows no commit, no log and no other method.
//! A set of methods is one, too ([`Both`]): a relation is one method's, and who dispatches is decided when
//! the program is compiled.
//!
//! What a method promises:
//! 1. It never waits for another host, nor for a transaction, while it holds a latch.
//! 2. Nothing that it does before [`Transacts::apply`] can be seen by another transaction, but that something
//!    is held.
//! 3. [`Transacts::apply`] and [`Transacts::release`] cannot fail.
//! 4. After any prefix of a commit [`Serves::resolve`] makes all of it or nothing of it, with what the log
//!    says.
//! 5. Whatever comes from shared memory, from files or from another host is checked before it is used.
//!
//! What the host promises: 6. a transaction is used by one thread at a time; 7. verbs that end a transaction
//! come in the order prepare, (record), apply, (fence), release, or release alone; 8. [`Serves`] is called
//! for partitions of which the caller has said that nobody uses them as its own, where a verb asks for that.
//!
//! Rooms: `running`, a transaction as methods see it; `tries`, waiting for locks; `dead`, what a host that
//! died may have left half done; `both`, two methods as one.

mod both;
pub(crate) mod dead;
mod running;
mod tries;

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::owner::Owner;
use liger_pod::plan::PartitionId;

pub use both::Both;
pub use dead::{Dead, LastChange, Logs};
pub use running::{AnswersMail, Running, Seat, TxnState};
pub use tries::Tries;

use crate::catalog::{At, Relation};
use crate::instance::Instance;
use crate::protocol::engine::Show;
use crate::protocol::relational::Flow;
use crate::protocol::workspace::Visitor;
use crate::recovery::{CopiedUpTo, RecoveryError, RestoreStep, Stored};
use crate::tables::key::{Key, KeyRange};
use crate::txn::{Announced, MethodId, TableId, TxnError};

/// Where a method keeps a row: in which share of which relation, and there by a number of the method's own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RowLocation {
    /// The relation.
    pub table: TableId,
    /// The partition.
    pub partition: PartitionId,
    /// Which method.
    pub method: MethodId,
    /// What the method calls it.
    pub number: u64,
}

/// How rows are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum View {
    /// As they are when the transaction commits: what is seen, and what is missing, is held to the end.
    Locked,
    /// As they were at a moment that is over ([`crate::log::moments`]), for who reads: nothing is held, and
    /// nobody waits, but for rows that a restart has not made yet.
    AsOf(u64),
    /// As they are now, if nobody changes them: a row that is held by others is passed over (by a range) or a
    /// conflict (of a point), what is missing is not protected, and of a range nothing stays held.
    Free,
    /// As it is now, or is missing now, if nobody changes it (else a conflict, at once): of a point, for who
    /// reads; nothing stays held that was not.
    Glance,
}

/// What a transaction holds of a method.
pub trait Holds: Default + Send {
    /// How many rows.
    fn count(&self) -> usize;

    /// Bytes that are kept for the next transaction, about.
    fn memory(&self) -> usize;

    /// Keeps nothing for the next one. Nothing is held.
    fn forget_memory(&mut self);

    /// What is held from now on is read in passing ([`Transacts::end_passing`]).
    fn begin_passing(&mut self) {}
}

/// What a method does for transactions.
///
/// Locks are taken by the verbs that look at rows and kept until [`Transacts::release`]. A verb that meets a
/// lock waits as the transaction's policy says ([`Tries`]), and ends with a conflict then: what it holds by
/// then stays held. A conflict is no error; [`TxnError`] says which others there are.
pub trait Transacts: Deref<Target = Instance> + Send + Sync + 'static {
    /// What a transaction holds of it.
    type Held: Holds;

    /// Whether relations of this kind are its.
    fn keeps(&self, method: MethodId) -> bool;

    /// Starts loading what is of these rows in this host's DRAM; whether others of them are in other hosts'
    /// hands.
    fn load_ahead<F: Fabric>(&self, cx: &Cx<F>, rows: &[Announced]) -> bool {
        let _ = (cx, rows);
        false
    }

    /// Has what is of these rows in other hosts' hands come to where it is at hand, many rows at the cost of
    /// one. A hint, which fails in silence: whoever needs the row then is told.
    fn fetch_ahead<F: Fabric>(&self, txn: (&mut Running<'_, F>, &mut Self::Held), rows: &[Announced]) {
        let _ = (txn, rows);
    }

    /// Holds the row with this key for the visitor (shared if it reads, else alone), and shows it; false if
    /// there is none, and then nobody makes one before this transaction ends (but by [`View::Free`]).
    ///
    /// # Errors
    /// A conflict with who holds it, or with hosts that come or go; damage.
    fn point<F: Fabric>(
        &self,
        txn: (&mut Running<'_, F>, &mut Self::Held),
        at: At<'_>,
        key: &Key,
        view: View,
        visitor: &mut Visitor<'_>,
    ) -> Result<bool, TxnError>;

    /// As [`Transacts::point`], the rows of a range in the order of their keys, until the visitor has enough;
    /// up to there nobody adds one.
    ///
    /// # Errors
    /// As there.
    fn range<F: Fabric>(
        &self,
        txn: (&mut Running<'_, F>, &mut Self::Held),
        at: At<'_>,
        range: &KeyRange,
        view: View,
        visitor: &mut Visitor<'_>,
    ) -> Flow;

    /// Adds a row, held alone, which nobody else sees; false if there is one with this key, which is held
    /// then.
    ///
    /// # Errors
    /// As [`Transacts::point`]; if there is no room.
    fn insert<F: Fabric>(
        &self,
        txn: (&mut Running<'_, F>, &mut Self::Held),
        at: At<'_>,
        key: &Key,
        bytes: &[u8],
    ) -> Result<bool, TxnError>;

    /// The transaction will remove this row, which it holds alone and has begun to change.
    fn mark_deleted<F: Fabric>(&self, txn: (&mut Running<'_, F>, &mut Self::Held), place: RowLocation) {
        let _ = (txn, place);
    }

    /// The last chance to refuse the transaction's changes: all are known, none has a version.
    ///
    /// # Errors
    /// Why they cannot be made; the transaction is undone then.
    fn prepare<F: Fabric>(&self, txn: (&mut Running<'_, F>, &mut Self::Held)) -> Result<(), TxnError> {
        let _ = txn;
        Ok(())
    }

    /// Makes the changes, in the version that the transaction has now, where others will find them once they
    /// are released; starts to write them back. True if something of it is in shared memory: the caller
    /// fences then. The record is in the log, if the pod keeps one.
    fn apply<F: Fabric>(&self, txn: (&mut Running<'_, F>, &mut Self::Held)) -> bool;

    /// Gives back all that the transaction holds. If it has committed, rows that it has deleted go; if not,
    /// those that it has made.
    fn release<F: Fabric>(&self, txn: (&mut Running<'_, F>, &mut Self::Held), committed: bool);

    /// Gives back what has been held since [`Holds::begin_passing`]: it was read, and nothing was changed. A
    /// method that does not keeps it to the end.
    fn end_passing<F: Fabric>(&self, txn: (&mut Running<'_, F>, &mut Self::Held)) {
        let _ = txn;
    }

    /// What the transaction holds names [`crate::instance::Holder::PARKED`] from now on: it has no number.
    fn park<F: Fabric>(&self, txn: (&mut Running<'_, F>, &mut Self::Held));

    /// It names the transaction's (new) number again.
    fn unpark<F: Fabric>(&self, txn: (&mut Running<'_, F>, &mut Self::Held));
}

/// How a partition opens on a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opens {
    /// It was another host's before.
    First,
    /// It was to be another host's, and stays.
    Again,
}

/// What the owner before of a partition may not have done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pending {
    /// What it was asked for, and has not answered: it may have done that, or not.
    Asked,
    /// What it was told to do, and nobody answers.
    Told,
}

/// Is called with the shared memory that is in use; see [`Serves::reach`].
pub type Reached<'a> = &'a mut dyn FnMut(&mut BTreeSet<u64>) -> Result<(), RecoveryError>;

/// Messages that go back to the host whose mail is handled.
pub type Replies = Vec<Vec<u8>>;

/// Is called between two steps of a long call, without a latch.
pub type Poll<'a> = &'a mut dyn FnMut();

/// What a method does for the pod: mail, memory, partitions whose owners change, hosts that died
/// (docs/protocols/takeover.md).
pub trait Serves: Deref<Target = Instance> + Send + Sync + 'static {
    /// Deals with a message of a host in this incarnation; false if it is none of this method's. Never waits.
    /// What goes back to that host is added to `replies`, and is sent soon.
    fn handle<F: Fabric>(&self, cx: &Cx<F>, from: Owner, message: &[u8], replies: &mut Replies) -> bool {
        let _ = (cx, from, message, replies);
        false
    }

    /// A little of what is to be done now and then.
    fn housekeep<F: Fabric>(&self, cx: &Cx<F>) {
        let _ = cx;
    }

    /// What it cannot do at present, and why.
    fn faults<F: Fabric>(&self, cx: &Cx<F>) -> Vec<String> {
        let _ = cx;
        Vec::new()
    }

    /// Makes an empty partition that nobody uses, in place of one that an earlier try may have left.
    fn make<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId) {
        let _ = (cx, partition);
    }

    /// Takes a dead host's locks off a partition, which is this host's own, or its to take over: what the
    /// dead host has committed is made, the rest undone. May be done again.
    ///
    /// # Errors
    /// If what it reads is damaged: those rows stay locked.
    fn resolve<F: Fabric>(
        &self,
        cx: &Cx<F>,
        dead: &Dead,
        partition: PartitionId,
        is_own: bool,
        poll: Poll<'_>,
    ) -> Result<(), RecoveryError>;

    /// True if some shared memory of a partition, which is nobody's at present, has an owner like this.
    ///
    /// # Errors
    /// If what it reads is damaged.
    fn lies_in<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        is_theirs: &dyn Fn(Option<(HostId, u16)>) -> bool,
    ) -> Result<bool, RecoveryError>;

    /// Joins a partition that is made from images and logs, and is closed, with what of it is in shared
    /// memory. Whatever was removed from it has a version below `first`.
    ///
    /// # Errors
    /// If what it reads is damaged.
    fn attach<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        first: u64,
        poll: Poll<'_>,
    ) -> Result<(), RecoveryError> {
        let _ = (cx, partition, first, poll);
        Ok(())
    }

    /// Adds the shared memory that these partitions of this host use, and calls `then` before any of it can
    /// be freed.
    ///
    /// # Errors
    /// If what it reads is damaged; those of `then`.
    fn reach<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partitions: &BTreeSet<PartitionId>,
        in_use: &mut BTreeSet<u64>,
        then: Reached<'_>,
    ) -> Result<(), RecoveryError>;

    /// Finishes what the owner before may have left half made in shared memory, or this host has taken out
    /// ([`Serves::withdraw`]): the partition is this host's, and about to be opened.
    ///
    /// # Errors
    /// If there is no room, or damage.
    fn open<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId, opens: Opens) -> Result<(), RecoveryError>;

    /// This host gives a partition away, which it keeps closed, and in which it does nothing for others any
    /// more: takes what it can out of shared memory. True when nothing is left there, so that what is in this
    /// host's memory is all of it; false while others hold something. [`Serves::open`] makes it usable again
    /// if it stays after all, [`Serves::make`] forgets it if it does not.
    ///
    /// # Errors
    /// If what it reads is damaged, or there is no room for what it needs.
    fn withdraw<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        poll: Poll<'_>,
    ) -> Result<bool, RecoveryError> {
        let _ = (cx, partition, poll);
        Ok(true)
    }

    /// As [`Serves::withdraw`], a little before it, while the partition is open: takes out what nobody holds,
    /// so that less is left then. Others may bring it back.
    ///
    /// # Errors
    /// As `withdraw`.
    fn withdraw_ahead<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        poll: Poll<'_>,
    ) -> Result<(), RecoveryError> {
        let _ = (cx, partition, poll);
        Ok(())
    }

    /// The owner of a partition, which may be this host, has handed it over: nobody held anything of it then.
    fn has_moved<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId) {
        let _ = (cx, partition);
    }

    /// A partition has a new owner, which may be this host: tells it what the one before may not have done.
    fn tell_again<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId, to: Owner, what: Pending) {
        let _ = (cx, partition, to, what);
    }
}

/// What a method does for storage, and for whoever fills, reads or checks a pod at rest.
pub trait Stores: Deref<Target = Instance> + Send + Sync + 'static {
    /// See [`crate::recovery::CopiesRows::copy_rows`].
    fn copy_rows<F: Fabric>(
        &self,
        cx: &Cx<F>,
        place: (PartitionId, TableId),
        from: &Key,
        most: usize,
        copy: impl FnMut(&Key, u64, &[u8]),
    ) -> CopiedUpTo;

    /// See [`crate::recovery::RestoresRows::mark_unrestored`].
    fn mark_unrestored<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId, stored: &Arc<Stored>);

    /// See [`crate::recovery::RestoresRows::is_whole`].
    fn is_whole(&self) -> bool;

    /// See [`crate::recovery::RestoresRows::restore_some`].
    ///
    /// # Errors
    /// As there.
    fn restore_some<F: Fabric>(&self, cx: &Cx<F>) -> Result<RestoreStep, RecoveryError>;

    /// Makes everything that is left of this host's partitions.
    ///
    /// # Errors
    /// What cannot be made, when everything else is.
    fn restore_all<F: Fabric>(&self, cx: &Cx<F>, poll: Poll<'_>) -> Result<(), RecoveryError>;

    /// See [`crate::protocol::HostEngine::put`].
    ///
    /// # Errors
    /// As there.
    fn put<F: Fabric>(&self, cx: &Cx<F>, at: At<'_>, key: &Key, bytes: &[u8]) -> Result<(), TxnError>;

    /// See [`crate::protocol::HostEngine::share`]; everything is there.
    ///
    /// # Errors
    /// As there.
    fn share<F: Fabric>(&self, cx: &Cx<F>, tables: &[TableId], part: f64) -> Result<u64, TxnError> {
        let _ = (cx, tables, part);
        Ok(0)
    }

    /// See [`crate::protocol::HostEngine::warm_up`].
    ///
    /// # Errors
    /// As there.
    fn warm_up<F: Fabric>(&self, cx: &Cx<F>, tables: &[TableId]) -> Result<(), TxnError> {
        let _ = (cx, tables);
        Ok(())
    }

    /// Shows the rows of a relation in a partition of this host, in the order of their keys; everything is
    /// there, and no transaction runs.
    ///
    /// # Errors
    /// A conflict if something is held after all; damage.
    fn each<F: Fabric>(
        &self,
        cx: &Cx<F>,
        of: &Relation,
        partition: PartitionId,
        show: Show<'_>,
    ) -> Result<(), TxnError>;

    /// Checks its invariants in this host's partitions and its part of the shared memory, and adds the memory
    /// that is in use; everything is there, and the pod is at rest.
    fn check<F: Fabric>(&self, cx: &Cx<F>, checked: &mut Checked, in_use: &mut BTreeSet<u64>);
}

/// What keeps tables. It derefs to the host that it is on.
pub trait Method: Transacts + Serves + Stores {}

impl<T: Transacts + Serves + Stores> Method for T {}

/// What a check of one host found.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Rows in this host's partitions, index entries included.
    pub rows: u64,
    /// Of them, shared now.
    pub shared_rows: u64,
    /// The most hosts that trust their cached copies of one of these.
    pub trusting_hosts: u32,
    /// Everything that is wrong, in words. Empty: all is well.
    pub problems: Vec<String>,
}
