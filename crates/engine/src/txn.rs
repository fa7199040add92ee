//! What a transaction can do, and how it ends.
//!
//! Invariants:
//! 1. A conflict is a normal value: nothing went wrong, running the transaction again may work. Everything
//!    else is final.
//! 2. After an error every further call of the same transaction may fail; its effects vanish when its body
//!    returns.
//! 3. Effects are visible to the transaction itself at once, to others only after the commit, and then in one
//!    step: transactions are serializable, phantoms included (ranges and absent keys are protected like
//!    rows).
//! 4. Closures that are given rows must not block or call the transaction: they may run under a latch.

use crate::files::StoredAt;
use crate::tables::key::{Key, KeyRange};
use crate::tables::record::{NewRow, Row, RowMut};
use std::fmt;
use std::ops::ControlFlow;

/// A table, or a secondary index, which is a table of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub struct TableId(pub u16);

/// An access method: what keeps a relation's rows (the module `method` says what one is).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub struct MethodId(pub u8);

impl MethodId {
    /// Rows in their owners' DRAM, shared where several hosts use them (the module `row`).
    pub const ROWS: MethodId = MethodId(0);
}

/// A secondary index, by the table that holds its entries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct IndexId(pub TableId);

impl TableId {
    /// Where it is in a list of all relations.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Why a transaction must be run again; counted separately.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Conflict {
    /// Others read a row that this one wants to change.
    ReadLocked,
    /// Another changes a row that this one wants.
    WriteLocked,
    /// An insert or delete into a range that another has scanned, or the other way round.
    Gap,
    /// A row moved into or out of shared memory in between, or its place is being moved.
    Moved,
    /// What was read has changed by the time of the commit.
    Validation,
    /// A partition is changing hands (its host joins, leaves, or is being recovered).
    Partition,
    /// Shared memory is full at the moment: rows have left it, and what they took is free soon.
    Memory,
}

impl Conflict {
    /// All reasons, in the order of [`Conflict::index`].
    pub const ALL: [Conflict; 7] = [
        Conflict::ReadLocked,
        Conflict::WriteLocked,
        Conflict::Gap,
        Conflict::Moved,
        Conflict::Validation,
        Conflict::Partition,
        Conflict::Memory,
    ];

    /// Its place in [`Conflict::ALL`], to count by.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Conflict::ReadLocked => "read-locked",
            Conflict::WriteLocked => "write-locked",
            Conflict::Gap => "gap",
            Conflict::Moved => "moved",
            Conflict::Validation => "validation",
            Conflict::Partition => "partition",
            Conflict::Memory => "memory",
        }
    }
}

// Counted by their place.
const _: () = {
    let mut at = 0;
    while at < Conflict::ALL.len() {
        assert!(Conflict::ALL[at].index() == at, "reasons are listed in the order of their numbers");
        at += 1;
    }
};

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The memory that [`TxnError::OutOfMemory`] names where all that the pod may share is in use.
pub const SHARED_MEMORY: &str = "shared memory";
/// The memory that [`TxnError::OutOfMemory`] names where a transaction has as many changes as it may.
pub const OF_CHANGES: &str = "memory for the changes of a transaction";

/// Why a transaction did not commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TxnError {
    /// It collided with another; run it again.
    #[error("conflict with another transaction: {0}")]
    Conflict(Conflict),
    /// A row with this key exists.
    #[error("duplicate key in table {index}")]
    DuplicateKey {
        /// The table or unique index.
        index: TableId,
    },
    /// A memory is full.
    #[error("out of {what}: {needed_bytes} bytes needed")]
    OutOfMemory {
        /// Which memory.
        what: &'static str,
        /// How much was asked for.
        needed_bytes: u64,
    },
    /// The pod has declared this host dead; it must rejoin before it does anything else.
    #[error("this host has been fenced")]
    Fenced,
    /// Bytes that were read cannot be right.
    #[error("damaged {what} in table {table}: {found:#x}")]
    Damaged {
        /// The table or index.
        table: TableId,
        /// What kind of thing.
        what: &'static str,
        /// What was found.
        found: u64,
    },
    /// A row has not come back after a restart, because what it is made from cannot be read, or is damaged.
    #[error("rows of table {table} cannot be restored: {at}")]
    NotRestored {
        /// The table or index.
        table: TableId,
        /// Where.
        at: StoredAt,
    },
    /// There is no table or index with this id.
    #[error("no table {table}")]
    NoSuchTable {
        /// The id.
        table: TableId,
    },
    /// A row's or key's size is not the table's.
    #[error("{found_bytes} bytes where table {table} has {expected_bytes}")]
    WrongSize {
        /// The table or index.
        table: TableId,
        /// The size that the table has.
        expected_bytes: u32,
        /// The size that was given.
        found_bytes: u32,
    },
    /// An update changed a column of the primary key or of an index: delete the row and insert it again.
    #[error("an update changed a key column of table {table}")]
    KeyChanged {
        /// The table.
        table: TableId,
    },
    /// The one key whose bytes are all ones stands for the end of the table.
    #[error("the greatest possible key of table {table} cannot be stored")]
    KeyReserved {
        /// The table or index.
        table: TableId,
    },
    /// Every host has a copy of a replicated table; it is filled when the pod is loaded.
    #[error("table {table} is replicated and cannot be changed by transactions")]
    ReadOnly {
        /// The table or index.
        table: TableId,
    },
    /// What a snapshot shows is not kept any more: it is too old, or rows have come from another host since.
    #[error("the snapshot is too old")]
    SnapshotTooOld,
    /// What must be in one record of the log is longer than that can be: one change, or, in a protocol of
    /// comparison, all changes.
    #[error(
        "a change takes {bytes} bytes of log, and a record has {limit_bytes}: make log_ring_bytes larger"
    )]
    TooLarge {
        /// Bytes of the record.
        bytes: u64,
        /// Bytes of the longest record.
        limit_bytes: u64,
    },
    /// The engine was told to work in a way that its memory is not made for.
    #[error("{what} is not possible here: {why}")]
    Unsuited {
        /// What it was told.
        what: &'static str,
        /// Why that is not possible.
        why: &'static str,
    },
    /// A host's log cannot be written any more: nothing was changed, or what was read may not survive.
    #[error("a host's log has failed, and nothing can be committed any more")]
    LogFailed,
    /// The storage of a host's log is full: nothing was changed. It goes on by itself when there is room.
    #[error("no space is left for the log of host {host}")]
    LogFull {
        /// Which host.
        host: u8,
    },
    /// The log has failed, or found no room, while the transaction waited for it: it is committed and
    /// visible, and nobody knows whether it will survive.
    #[error("the log has failed behind the commit: nobody knows whether the transaction will survive")]
    InDoubt,
    /// The application asked for it.
    #[error("rolled back")]
    Rollback,
}

impl From<Conflict> for TxnError {
    #[inline]
    fn from(conflict: Conflict) -> TxnError {
        TxnError::Conflict(conflict)
    }
}

/// When a transaction's caller is told that it is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// When the logs of all hosts hold its epoch on storage: it survives the loss of the shared memory.
    #[default]
    Storage,
    /// When its record lies in shared memory: it survives any host.
    Pod,
    /// At once (benchmarks).
    None,
}

impl Durability {
    /// Its name in reports and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::Pod => "pod",
            Self::None => "none",
        }
    }
}

/// What a transaction will do with a row that it announces.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Access {
    /// Only look at it.
    Read,
    /// Change or delete it.
    Update,
}

/// A row that a transaction will touch: see [`Transaction::announce`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Announced {
    /// Its table.
    pub table: TableId,
    /// Its key.
    pub key: Key,
    /// The strongest thing that will be done with it.
    pub access: Access,
    /// There is none yet: it will be inserted.
    pub is_new: bool,
}

impl Announced {
    /// A row that will be read and not changed.
    #[inline]
    pub const fn read(table: TableId, key: Key) -> Self {
        Self { table, key, access: Access::Read, is_new: false }
    }

    /// A row that will be changed or deleted.
    #[inline]
    pub const fn update(table: TableId, key: Key) -> Self {
        Self { table, key, access: Access::Update, is_new: false }
    }

    /// A row that will be inserted.
    #[inline]
    pub const fn insert(table: TableId, key: Key) -> Self {
        Self { table, key, access: Access::Update, is_new: true }
    }
}

/// A transaction that is running.
///
/// All methods fail with [`TxnError::Conflict`] when they meet another transaction; see the module's
/// invariants.
pub trait Transaction {
    /// Says which rows this transaction will soon touch, and how. An engine may use it to overlap fetching
    /// them, or to fetch and lock the rows of another host with one message instead of one for each. A
    /// hint: leaving it out changes nothing but time, so it may say too little; a row that is announced and
    /// then not touched may be locked until the transaction ends, one that is announced to be inserted as if
    /// it had been, and had been deleted. Keys of no row are passed over.
    fn announce(&mut self, rows: &[Announced]) {
        let _ = rows;
    }

    /// Reads the row with this key: what `f` returns, or `None` if there is no such row.
    fn get<R>(
        &mut self,
        table: TableId,
        key: &Key,
        f: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>, TxnError>;

    /// Reads and changes the row with this key: what `f` returns, or `None` if there is no such row.
    fn update<R>(
        &mut self,
        table: TableId,
        key: &Key,
        f: impl FnOnce(&mut RowMut<'_>) -> R,
    ) -> Result<Option<R>, TxnError>;

    /// Inserts a row and its index entries; fails with [`TxnError::DuplicateKey`].
    fn insert(&mut self, table: TableId, row: &NewRow) -> Result<(), TxnError>;

    /// Deletes the row with this key and its index entries; false if there is no such row.
    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool, TxnError>;

    /// Visits the rows of a range in key order until `visit` breaks. The part that was visited is protected.
    fn scan(
        &mut self,
        table: TableId,
        range: &KeyRange,
        visit: impl FnMut(&Key, Row<'_>) -> ControlFlow<()>,
    ) -> Result<(), TxnError>;

    /// Visits and changes the rows of a range in key order until `visit` breaks.
    fn update_range(
        &mut self,
        table: TableId,
        range: &KeyRange,
        visit: impl FnMut(&Key, &mut RowMut<'_>) -> ControlFlow<()>,
    ) -> Result<(), TxnError>;

    /// Visits the table's rows whose index entries are in `range`, in the index's order, until `visit`
    /// breaks.
    fn scan_index(
        &mut self,
        index: IndexId,
        range: &KeyRange,
        visit: impl FnMut(Row<'_>) -> ControlFlow<()>,
    ) -> Result<(), TxnError>;
}

/// One worker's door to the tables: it runs transactions one after the other.
///
/// A session keeps its one transaction value, and with it the buffers, from one run to the next. (A
/// transaction that borrows its session, `Txn<'a>`, cannot be named in the bound of `body` for all `'a`
/// unless the session is `'static`.)
///
/// What is said of durability is that of a session without a log: one that has a log says it itself.
pub trait Session {
    /// Its transactions.
    type Txn: Transaction;

    /// Runs a transaction once: commits when `body` returns `Ok`, otherwise undoes everything.
    ///
    /// A commit that returns is visible to everybody and not yet durable on storage: whoever tells somebody
    /// about it waits for its [`Session::ticket`] first, as [`Session::transact`] does.
    fn attempt<R>(&mut self, body: impl FnOnce(&mut Self::Txn) -> Result<R, TxnError>)
    -> Result<R, TxnError>;

    /// Waits a little before a conflict is tried again; `conflicts` is how many there were so far, from 1.
    fn back_off(&mut self, conflicts: u32);

    /// Lets other hosts and workers go on for a moment.
    fn pause(&mut self);

    /// As [`Session::pause`], in a wait for a ticket that has had `spins` rounds: a long one sleeps
    /// until more is durable.
    fn wait_for(&mut self, ticket: Ticket, spins: u32) {
        let _ = (ticket, spins);
        self.pause();
    }

    /// What the last committed transaction, also one that only read, waits for to be durable on storage.
    fn ticket(&self) -> Ticket {
        Ticket::default()
    }

    /// Whether everything that the ticket's transaction saw and did survives the loss of the shared memory.
    /// Asks for it to become so.
    ///
    /// # Errors
    /// If nobody knows when that will be: [`TxnError::InDoubt`] if the last transaction has changed
    /// something, [`TxnError::LogFailed`] if it only read.
    fn is_durable(&mut self, ticket: Ticket) -> Result<bool, TxnError> {
        let _ = ticket;
        Ok(true)
    }

    /// Asks for what the ticket waits for to become durable, for whoever will look later.
    fn want_durable(&mut self, ticket: Ticket) {
        let _ = ticket;
    }

    /// When [`Session::transact`] returns.
    fn durability(&self) -> Durability {
        Durability::None
    }

    /// Sets [`Session::durability`], for the transactions that follow; where there is no log, nothing but
    /// [`Durability::None`] can be promised.
    fn set_durability(&mut self, durability: Durability) {
        let _ = durability;
    }

    /// Runs a transaction until it meets no conflict, and returns once it is as durable as the session says.
    ///
    /// # Errors
    /// Those of `body`, and those of the engine. After [`TxnError::InDoubt`] the transaction is committed
    /// and visible, but may not survive.
    fn transact<R>(
        &mut self,
        mut body: impl FnMut(&mut Self::Txn) -> Result<R, TxnError>,
    ) -> Result<R, TxnError> {
        for conflicts in 1u32.. {
            match self.attempt(&mut body) {
                Err(TxnError::Conflict(_)) => self.back_off(conflicts),
                Ok(result) => {
                    self.wait_durable()?;
                    return Ok(result);
                }
                ended => return ended,
            }
        }
        unreachable!("a transaction met 2^32 conflicts")
    }

    /// Waits until the last committed transaction is as durable as the session says.
    ///
    /// # Errors
    /// As [`Session::is_durable`].
    fn wait_durable(&mut self) -> Result<(), TxnError> {
        // In the ring, a record survives its host: nothing to wait for at the lower levels.
        let mut spins = 0;
        while self.durability() == Durability::Storage && !self.is_durable(self.ticket())? {
            self.wait_for(self.ticket(), spins);
            spins += 1;
        }
        Ok(())
    }
}

/// What a committed transaction waits for to be durable on storage: an epoch of the log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Ticket(pub(crate) u64);

impl Ticket {
    /// The ticket of a transaction in an epoch of the log.
    pub fn of_epoch(epoch: u64) -> Self {
        Self(epoch)
    }

    /// That epoch.
    pub fn epoch(self) -> u64 {
        self.0
    }
}
