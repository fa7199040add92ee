//! A table's share of a partition, in the DRAM of the host that owns it.
//!
//! Invariants:
//! 1. A share is reached through its latch only, which is no other table's. What happens under one hold of
//!    the latch is one step for the workers of this host; other hosts see only tuple cells, row blocks and
//!    the shared index. Who holds some waits for no other: it tries (latched.rs). Only who takes a partition
//!    over waits for several, in the order of their numbers.
//! 2. The local tree holds every key of the partition, shared or not, uncommitted inserts included. It
//!    decides who is whose neighbour. (After a restart some keys are not there yet: unrestored.rs.)
//! 3. A row's holders are this host's transactions. If the row is shared, its tuple cell carries this host's
//!    bit exactly while some transaction holds the row.
//! 4. The lock of a row covers the row; with the transaction's gap bit also the keys between the row and the
//!    one before it. Every table ends in a sentinel row whose gap reaches to the end.
//! 5. The DRAM bytes of a shared row are current unless its word says `modified`.
//!
//! Not here: what a transaction does with locks (own.rs), how rows come and go in shared memory
//! (moves.rs).

use liger_fabric::{Cx, DataAddr, Fabric, Latch, SyncAddr, Work};
use liger_pod::heap::TupleAddr;
use liger_pod::plan::PartitionId;
use liger_store::bwtree::BwTree;
use liger_store::local::{Holders, LocalTree, Neighbors, RowFlags, RowSlab};

use super::block::Shape;
use super::cell::TupleCell;
use super::kept::Kept;
use super::shared::{Acquired, SharedRows};
use super::unrestored::Unrestored;
use crate::instance::Holder;
use crate::tables::key::Key;
use crate::txn::{Conflict, TableId, TxnError};

/// Number of a row in its table's share of a partition.
pub type RowId = u32;

/// How a row is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// To read it.
    Read,
    /// To change it.
    Write,
}

/// Most rows of one table in one partition.
const MAX_ROWS: u32 = u32::MAX - 1;

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &[
    "partition.clear-next-real-on-insert",
    "partition.clear-real-bits-before-leaving",
    "partition.copy-back-on-lock",
    "partition.check-what-is-copied",
    "partition.check-gap-of-workers",
    "partition.clear-below-before-check-above",
];

/// What is told of a shared row whose block is damaged.
pub fn damaged_row(table: TableId, block: DataAddr) -> TxnError {
    TxnError::Damaged { table, what: "row in shared memory", found: block.offset() }
}

/// One table's (or index's) share of a partition.
pub struct TablePart {
    /// Which it is.
    pub place: (PartitionId, TableId),
    /// Keys to rows.
    pub tree: LocalTree,
    /// The rows and their holders.
    pub rows: RowSlab,
    /// The row behind the last key.
    pub sentinel: RowId,
    /// The shared index of this table and partition.
    pub index: BwTree,
    /// It is not there: the partition is to leave, or there was no room for it when the partition was opened.
    /// The first row that moves in makes it.
    pub lacks_index: bool,
    /// Greatest version of a removed row: a later row with the same key gets a greater one.
    pub max_removed_llsn: u64,
    /// Versions of rows that were made before the partition came to this host are less; 0: it was always its.
    pub adopted_llsn: u64,
    /// Versions of its rows that were overwritten, for readers of snapshots.
    pub kept: Kept,
    /// Since this moment all of them are kept, or were linked to.
    pub kept_since: u64,
    /// Keys whose index entry could not be taken out yet, and its dead word, which nobody gets before: tried
    /// again before the next move.
    pub stale: Vec<(Key, TupleAddr)>,
    /// What is not here yet, after a restart.
    pub unrestored: Option<Box<Unrestored>>,
    /// Words of a key.
    pub key_words: usize,
    /// Bytes of a row.
    pub row_len: usize,
}

/// One partition: the share of each table, by id; `None` for those that are not kept in rows.
pub type Partition = Vec<Option<Latch<TablePart>>>;

impl TablePart {
    /// An empty table share whose shared index hangs on `directory`.
    pub fn new(
        place: (PartitionId, TableId),
        (key_words, row_len): (usize, usize),
        directory: SyncAddr,
    ) -> Self {
        let mut rows = RowSlab::new(row_len, MAX_ROWS);
        let sentinel = rows.alloc().expect("an empty slab has room");
        assert!(key_words > 0, "a key has words");
        let index = BwTree::new(directory, key_words);
        Self {
            place,
            tree: LocalTree::new(key_words),
            rows,
            sentinel,
            index,
            lacks_index: false,
            max_removed_llsn: 0,
            adopted_llsn: 0,
            kept: Kept::default(),
            kept_since: 0,
            stale: Vec::new(),
            unrestored: None,
            key_words,
            row_len,
        }
    }

    /// Where a row is in shared memory, if it is shared.
    pub fn address(&self, row: RowId) -> Option<TupleAddr> {
        TupleAddr::from_raw(self.rows.shared(row))
    }

    /// The shape of a shared row's block.
    pub const fn shape(&self) -> Shape {
        Shape { key_words: self.key_words, row_len: self.row_len }
    }

    /// Bytes of a shared row's block.
    pub const fn block_len(&self) -> usize {
        self.shape().block_len()
    }

    /// The row with this key.
    pub fn find<F: Fabric>(&self, cx: &Cx<F>, key: &Key) -> Option<RowId> {
        // The model's costs were fitted with a search of the tree here.
        cx.spend(Work::IndexNode, self.height());
        self.tree.get(key.words())
    }

    /// Levels of the tree.
    pub fn height(&self) -> u32 {
        self.tree.height() as u32 + 1
    }

    /// Where `key` is or belongs, and the rows around it.
    pub fn around<F: Fabric>(&self, cx: &Cx<F>, key: &Key) -> Neighbors {
        cx.spend(Work::IndexNode, self.height());
        self.tree.neighbors(key.words())
    }

    /// The row behind: the sentinel at the end.
    pub fn behind(&self, around: &Neighbors) -> RowId {
        around.next.unwrap_or(self.sentinel)
    }

    /// The rows before and behind `key`.
    pub fn neighbours<F: Fabric>(&self, cx: &Cx<F>, key: &Key) -> (Option<RowId>, RowId) {
        let around = self.around(cx, key);
        (around.prev, self.behind(&around))
    }

    /// Takes or strengthens `me`'s lock on a row; how `me` had it before.
    ///
    /// # Errors
    /// A conflict with who holds it; damage of its block, which is not to be used then.
    pub fn lock<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        shared: SharedRows,
        row: RowId,
        me: Holder,
        mode: Mode,
        gap: bool,
    ) -> Result<Option<Mode>, TxnError> {
        cx.spend(Work::Row, shared.touches());
        let mut holders = self.rows.holders(row);
        let before = holders;
        let mine = me.bit();
        let writer = me.writer();
        if holders.writer != 0 && holders.writer != writer {
            return Err(Conflict::WriteLocked.into());
        }
        match mode {
            Mode::Read if holders.writer == writer || holders.readers & mine != 0 => {}
            Mode::Read => {
                if holders.readers == 0 {
                    self.acquire(cx, shared, row, Mode::Read, false)?;
                }
                holders.readers |= mine;
            }
            Mode::Write if holders.writer == writer => {}
            Mode::Write => {
                if holders.readers & !mine != 0 {
                    return Err(Conflict::ReadLocked.into());
                }
                self.acquire(cx, shared, row, Mode::Write, holders.readers != 0)?;
                holders.writer = writer;
            }
        }
        if gap {
            holders.gap |= mine;
        }
        if holders != before {
            self.rows.set_holders(row, holders);
        }
        Ok(match before.writer == writer {
            true => Some(Mode::Write),
            false => (before.readers & mine != 0).then_some(Mode::Read),
        })
    }

    /// The transactions that hold a row, but this one.
    pub fn others_at(&self, row: RowId, me: Holder) -> u32 {
        let holders = self.rows.holders(row);
        let writer = holders.writer.checked_sub(1).map_or(0, |writer| 1 << writer);
        (holders.readers | writer) & !me.bit()
    }

    /// The transactions that hold the gap below a row, but this one.
    pub fn others_above(&self, row: RowId, me: Holder) -> u32 {
        self.rows.holders(row).gap & !me.bit()
    }

    /// The host's part of a lock: the tuple cell of a shared row, and a DRAM copy that is current.
    fn acquire<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        shared: SharedRows,
        row: RowId,
        mode: Mode,
        upgrade: bool,
    ) -> Result<(), TxnError> {
        let Some(at) = self.address(row) else { return Ok(()) };
        let acquired = match mode {
            Mode::Read => shared.acquire_read(cx, at),
            Mode::Write => shared.acquire_write(cx, at, upgrade),
        };
        let (cell, fresh) = match acquired {
            Acquired::Granted { cell, fresh } => (cell, fresh),
            Acquired::Conflict => return Err(shared.refusal(cx, at, mode).into()),
            Acquired::Gone => unreachable!("only the owner takes a row out of shared memory"),
        };
        if !fresh {
            shared.freshen(cx, at.block(), self.block_len());
        }
        // What a reader of this host has made current is so.
        debug_assert!(
            !(upgrade && cell.is_modified()),
            "nobody changes a row that this host reads: {cell:?}"
        );
        if upgrade || !shared.is_behind(cell) || cx.sabotaged("partition.copy-back-on-lock") {
            return Ok(());
        }
        let copied = self.copy_back(cx, shared, row, at.block());
        if copied.is_ok() == cell.is_modified() {
            shared.set_modified(cx, at, copied.is_err());
        }
        copied.inspect_err(|_| match mode {
            Mode::Read => shared.release_read(cx, at),
            Mode::Write => shared.release_write(cx, at, false, false),
        })
    }

    /// Makes the DRAM copy of a shared row current, which no worker of this host holds. Takes the host's read
    /// lock and gives it back in one hold of the latch, so it is no worker's.
    ///
    /// # Errors
    /// As [`TablePart::lock`].
    pub fn refresh<F: Fabric>(&mut self, cx: &Cx<F>, shared: SharedRows, row: RowId) -> Result<(), TxnError> {
        debug_assert!(self.is_unheld(row), "who holds a row has made its DRAM copy current");
        self.acquire(cx, shared, row, Mode::Read, false)?;
        self.address(row).into_iter().for_each(|at| shared.release_read(cx, at));
        Ok(())
    }

    /// Copies a shared row over its DRAM copy. The row is locked, or dead, and its lines are fresh here.
    ///
    /// # Errors
    /// If the block is damaged. The DRAM copy is nothing to be used then, and the word has to say so.
    pub fn copy_back<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        shared: SharedRows,
        row: RowId,
        block: DataAddr,
    ) -> Result<(), TxnError> {
        let (head, is_sound) = shared.read_block(cx, block, self.key_words, self.rows.bytes_mut(row));
        if !is_sound && !cx.sabotaged("partition.check-what-is-copied") {
            return Err(damaged_row(self.place.1, block));
        }
        cx.spend(Work::DramLine, self.row_len.div_ceil(64) as u32);
        self.rows.set_version(row, head.llsn);
        Ok(())
    }

    /// Gives back all that `me` holds of a row, and clears what it has marked there. If it has changed the
    /// shared copy ([`RowFlags::WRITTEN`]), that is written back and fenced.
    pub fn unlock<F: Fabric>(&mut self, cx: &Cx<F>, shared: SharedRows, row: RowId, me: Holder) {
        cx.spend(Work::Row, shared.touches() - 1);
        let mut holders = self.rows.holders(row);
        let was_writer = holders.writer == me.writer();
        debug_assert!(was_writer || holders.readers & me.bit() != 0, "unlocked a row not held");
        holders.readers &= !me.bit();
        holders.gap &= !me.bit();
        let wrote = holders.flags.has(RowFlags::WRITTEN);
        holders.flags = holders.flags & !(RowFlags::DELETED | RowFlags::WRITTEN);
        if was_writer {
            holders.writer = 0;
        }
        self.rows.set_holders(row, holders);
        let Some(at) = self.address(row) else { return };
        if was_writer {
            debug_assert_eq!(holders.readers, 0);
            // The owner writes both copies, so its DRAM copy is never behind its own change.
            shared.release_write(cx, at, wrote, false);
        } else if holders.readers == 0 {
            shared.release_read(cx, at);
        }
    }

    /// Opens the gap below `next` for a new key: refused if a worker of this host other than `me` holds the
    /// gap, or if a host outside `tolerated` (a bitmap) holds `next`. Afterwards no scanner of another host
    /// can take the neighbours' bits for real. Returns the word of `next` as it was, if it is shared.
    pub fn open_gap<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        shared: SharedRows,
        before: Option<RowId>,
        next: RowId,
        me: Option<Holder>,
        tolerated: u16,
    ) -> Result<Option<TupleCell>, Conflict> {
        let holders = self.rows.holders(next);
        let by_others = holders.gap & !me.map_or(0, Holder::bit) != 0;
        if by_others && !cx.sabotaged("partition.check-gap-of-workers") {
            return Err(Conflict::Gap);
        }
        // Order matters: first the bit below, then the check of the row above. A scanner locks first and
        // looks at the bits afterwards, so either it is seen holding `next`, or it sees a bit clear.
        let clear_below = || {
            if let Some(at) = before.and_then(|row| self.address(row)) {
                shared.set_real(cx, at, Some(false), None);
            }
        };
        let late = cx.sabotaged("partition.clear-below-before-check-above");
        if !late && !cx.sabotaged("partition.clear-next-real-on-insert") {
            clear_below();
        }
        let Some(at) = self.address(next) else { return Ok(None) };
        let opened = shared.open_gap_below(cx, at, tolerated).map(Some).ok_or(Conflict::Gap);
        if late {
            clear_below();
        }
        if opened.is_err() {
            // Nothing comes between them after all.
            self.link(cx, shared, before, next);
        }
        opened
    }

    /// Tells the words of two rows that are neighbours, and are both in the shared index, that they are. A
    /// row that has no row before it has nothing to miss there.
    pub fn link<F: Fabric>(&self, cx: &Cx<F>, shared: SharedRows, before: Option<RowId>, next: RowId) {
        let low = before.map(|row| self.address(row));
        let Some(high) = self.address(next) else { return };
        match low {
            None => shared.set_real(cx, high, None, Some(true)),
            Some(None) => {}
            Some(Some(low)) => {
                shared.set_real(cx, low, Some(true), None);
                shared.set_real(cx, high, None, Some(true));
            }
        }
    }

    /// Before a row leaves shared memory (or the partition): its neighbours may no longer vouch for the gap.
    pub fn unlink<F: Fabric>(&self, cx: &Cx<F>, shared: SharedRows, before: Option<RowId>, next: RowId) {
        if cx.sabotaged("partition.clear-real-bits-before-leaving") {
            return;
        }
        if let Some(at) = before.and_then(|row| self.address(row)) {
            shared.set_real(cx, at, Some(false), None);
        }
        if let Some(at) = self.address(next) {
            shared.set_real(cx, at, None, Some(false));
        }
    }

    /// True if the row's insert has not committed, or its writer will remove it.
    pub fn is_uncommitted(&self, row: RowId) -> bool {
        let flags = self.rows.holders(row).flags;
        flags.has(RowFlags::PLACEHOLDER) || flags.has(RowFlags::DELETED)
    }

    /// True if the row's insert has not committed.
    pub fn is_uncommitted_insert(&self, row: RowId) -> bool {
        self.rows.holders(row).flags.has(RowFlags::PLACEHOLDER)
    }

    /// Sets or clears flags of a row.
    pub fn set_flag(&mut self, row: RowId, flag: RowFlags, on: bool) {
        let mut holders = self.rows.holders(row);
        holders.flags = if on { holders.flags | flag } else { holders.flags & !flag };
        self.rows.set_holders(row, holders);
    }

    /// Makes `me` the writer of a new row just below `next`. If `me` holds the gap that the row divides, it
    /// now holds both halves.
    pub fn hold_new(&mut self, row: RowId, next: RowId, me: Holder, inherit: bool) {
        debug_assert!(self.is_unheld(row), "a row that is new is nobody's");
        let gap = if inherit { self.rows.holders(next).gap & me.bit() } else { 0 };
        let flags = RowFlags::PLACEHOLDER;
        self.rows.set_holders(row, Holders { readers: 0, gap, writer: me.writer(), flags });
    }

    /// True if no worker of this host holds the row.
    pub fn is_unheld(&self, row: RowId) -> bool {
        let Holders { readers, writer, .. } = self.rows.holders(row);
        readers == 0 && writer == 0
    }
}
