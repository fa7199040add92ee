//! Locking, reading and writing a row in shared memory through its tuple cell.
//!
//! Invariants:
//! 1. Who calls `acquire_*` and `release_*` has checked under a host-local latch that this host holds nothing
//!    of the cell yet (or upgrades its only reader); the cell's bits stand for the host, the latch's data for
//!    its workers.
//! 2. Between acquire and release the row block stays in place: only the owner moves a row out, and only a
//!    free one.
//! 3. Data is read only after the host's lines were made fresh: a clear valid bit means invalidate, fence,
//!    read.
//! 4. Data is written only under W, and is written back and fenced before W is released.
//!
//! The step order is that of models/tuple_cell.py. A reader sets its valid bit in the compare-and-swap that
//! takes the lock, *before* it invalidates. Nobody on the same host can look at the bit until the
//! invalidation is done (the latch of invariant 1 is still held), and no writer can come between; it saves
//! one swap (docs/protocols/shared-rows.md).
//!
//! Not here: what lies in a block (block.rs), which cell belongs to which key (remote.rs, partition.rs), and
//! who waits (method/tries.rs).

use liger_fabric::{Cx, DataAddr, Fabric, HostId, LINE, Work};
use liger_pod::heap::TupleAddr;

use super::cell::{CellFormat, TupleCell};
use super::partition::Mode;
use super::policy::{Coherence, Steps};
use crate::txn::Conflict;

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &[
    "row.forget-valid-bits",
    "row.check-writer-on-read",
    "row.check-readers-on-write",
    "row.writer-clears-other-valid-bits",
    "row.set-modified",
    "row.check-live",
    "row.check-gap-holders",
    "row.clear-prev-real-on-insert",
    "row.retire-only-free",
    "row.keep-neighbour-cells",
    "row.spare-reserved",
    "row.take-valid-bits-of-others",
    "row.bypass-own-copy",
];

/// Result of trying to lock a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acquired {
    /// Locked.
    Granted {
        /// The cell as it is now.
        cell: TupleCell,
        /// This host's cached copy is current. If not, it must be made so before it is used and before the
        /// lock is given back ([`SharedRows::freshen`]): the valid bit is set already, or will be by the
        /// release of a write.
        fresh: bool,
    },
    /// Somebody holds it in a conflicting way.
    Conflict,
    /// No row lives behind this cell (any more).
    Gone,
}

/// A host's way of using tuple cells.
#[derive(Clone, Copy)]
pub struct SharedRows {
    /// Layout of the words in this pod.
    pub format: CellFormat,
    /// This host.
    pub host: HostId,
    /// Who may trust a cached copy.
    pub coherence: Coherence,
    /// Owners know whether their DRAM copies are current.
    pub dirty_tracking: bool,
    /// In how many steps rows are used.
    pub steps: Steps,
    /// Blocks have checksums.
    pub checksums: bool,
}

impl SharedRows {
    fn bit(self) -> u16 {
        1 << self.host.0
    }

    /// Why a cell was refused; whoever held it then may have let it go since.
    pub(super) fn refusal<F: Fabric>(self, cx: &Cx<F>, at: TupleAddr, mode: Mode) -> Conflict {
        let is_changed = mode == Mode::Read || self.peek(cx, at).writer().is_some();
        if is_changed { Conflict::WriteLocked } else { Conflict::ReadLocked }
    }

    /// True if the owner's DRAM copy of the row has to be taken for old.
    pub(super) fn is_behind(self, cell: TupleCell) -> bool {
        cell.is_modified() || !self.dirty_tracking
    }

    /// How often an owner touches what it keeps with a row when it takes it, and once less when it gives it
    /// back: the artifact latches it.
    pub(super) fn touches(self) -> u32 {
        match self.steps {
            Steps::Merged => 1,
            Steps::Artifact => 2,
        }
    }

    /// A latch beside a step, as Tigon's artifact takes one: it changes nothing, and costs the swap.
    pub(super) fn latch<F: Fabric>(self, cx: &Cx<F>, at: TupleAddr) {
        if self.steps == Steps::Artifact {
            cx.spend(Work::Row, 1);
            let seen = cx.load(at.word());
            let _ = cx.compare_exchange(at.word(), seen, seen);
        }
    }

    /// Current value of a cell.
    pub fn peek<F: Fabric>(self, cx: &Cx<F>, at: TupleAddr) -> TupleCell {
        self.format.cell(cx.load(at.word()), at.place())
    }

    /// One attempt after the other to replace a row's cell by `change` of it, until a swap succeeds or
    /// `change` refuses.
    fn swap<F: Fabric, E>(
        self,
        cx: &Cx<F>,
        at: TupleAddr,
        change: impl Fn(TupleCell) -> Result<TupleCell, E>,
    ) -> Result<(TupleCell, TupleCell), E> {
        let (word, place) = (at.word(), at.place());
        let mut seen = cx.load(word);
        let mut neighbours = seen;
        loop {
            let before = self.format.cell(seen, place);
            let after = change(before)?;
            match cx.compare_exchange(word, seen, self.format.with_cell(neighbours, place, after)) {
                Ok(_) => return Ok((before, after)),
                // Perhaps it was only a neighbour's cell that has changed.
                Err(now) => seen = now,
            }
            if !cx.sabotaged("row.keep-neighbour-cells") {
                neighbours = seen;
            }
        }
    }

    /// Locks for reading on behalf of this host, which must hold nothing of the cell.
    pub fn acquire_read<F: Fabric>(self, cx: &Cx<F>, at: TupleAddr) -> Acquired {
        self.latch(cx, at);
        let locked = self.swap(cx, at, |cell| {
            if !cell.is_live() && !cx.sabotaged("row.check-live") {
                return Err(Acquired::Gone);
            }
            let written = cell.writer().is_some() && !cx.sabotaged("row.check-writer-on-read");
            // Our own bit without a local holder belongs to another entry of this host that names the same
            // cell by another key (a stale hint): not ours to share.
            if written || cell.readers() & self.bit() != 0 {
                return Err(Acquired::Conflict);
            }
            let cell = cell.with_reader(self.host).with_second_chance(true);
            Ok(cell.with_valid(self.after_read(cx, cell.valid())))
        });
        self.granted(cx, locked, false)
    }

    /// True if this host holds a lock on the cell, whoever it belongs to.
    pub fn is_ours<F: Fabric>(self, cx: &Cx<F>, at: TupleAddr) -> bool {
        self.peek(cx, at).is_held_by(self.host)
    }

    /// Locks for writing on behalf of this host, which holds nothing of the cell, or (`upgrade`) only a read
    /// lock.
    pub fn acquire_write<F: Fabric>(self, cx: &Cx<F>, at: TupleAddr, upgrade: bool) -> Acquired {
        self.latch(cx, at);
        let allowed = if upgrade { self.bit() } else { 0 };
        let locked = self.swap(cx, at, |cell| {
            if !cell.is_live() && !cx.sabotaged("row.check-live") {
                return Err(Acquired::Gone);
            }
            let others = cell.readers() & !allowed;
            let read = others != 0 && !cx.sabotaged("row.check-readers-on-write");
            if cell.writer().is_some() || read {
                return Err(Acquired::Conflict);
            }
            Ok(cell.with_writer(self.host).with_second_chance(true))
        });
        self.granted(cx, locked, upgrade)
    }

    fn granted<F: Fabric>(
        self,
        cx: &Cx<F>,
        locked: Result<(TupleCell, TupleCell), Acquired>,
        upgraded: bool,
    ) -> Acquired {
        let (before, cell) = match locked {
            Ok(words) => words,
            Err(refused) => return refused,
        };
        // Lines that this host made fresh to read them have not changed since, whoever else read them too.
        Acquired::Granted { cell, fresh: self.is_fresh(cx, before) || upgraded }
    }

    /// The valid bits after this host has made its copy fresh to read it.
    fn after_read<F: Fabric>(self, cx: &Cx<F>, valid: u16) -> u16 {
        let after = self.coherence.after_read(valid, self.bit());
        let keeps =
            self.coherence == Coherence::NoSharedReader && cx.sabotaged("row.take-valid-bits-of-others");
        if keeps { after | valid } else { after }
    }

    /// Takes a dead host out of the readers, and out of those whose cached copy is current: its next
    /// incarnation starts with none.
    pub fn forget_host<F: Fabric>(self, cx: &Cx<F>, at: TupleAddr, dead: HostId) {
        let keeps = cx.sabotaged("row.forget-valid-bits");
        let without = |valid: u16| if keeps { valid } else { valid & !(1 << dead.0) };
        let _ = self.swap(cx, at, |cell| {
            let cleared = cell.without_reader(dead).with_valid(without(cell.valid()));
            if cleared == cell || !cell.is_live() { Err(()) } else { Ok(cleared) }
        });
    }

    /// Gives back the write lock of a dead host, whose row is as it must be: `wrote`, this host has brought
    /// it there, and its lines are written back and fenced. The row is fresh here.
    pub fn release_for<F: Fabric>(self, cx: &Cx<F>, at: TupleAddr, dead: HostId, wrote: bool) {
        let after = |valid: u16| {
            let valid = valid & !(1 << dead.0);
            if wrote {
                self.coherence.after_write(self.bit())
            } else {
                self.coherence.after_read(valid, self.bit())
            }
        };
        let _: Result<_, ()> = self.swap(cx, at, |cell| {
            assert_eq!(cell.writer(), Some(dead), "a dead host's lock is given back once: {cell:?}");
            let cell = cell.without_writer().with_modified(cell.is_modified() || wrote);
            Ok(cell.with_valid(after(cell.valid())))
        });
    }

    /// Says that nothing is known of a row's neighbours, nor whether its owner's DRAM copy is current: there
    /// is a new owner. False if the cell is dead.
    pub fn adopt<F: Fabric>(self, cx: &Cx<F>, at: TupleAddr) -> bool {
        let adopted = self.swap(cx, at, |cell| match cell.is_live() {
            true => Ok(cell.with_modified(true).with_next_real(false).with_prev_real(false)),
            false => Err(()),
        });
        adopted.is_ok()
    }

    /// True if this host's cached copy of the row is current, judging from the cell `before` the row was
    /// locked or killed.
    pub fn is_fresh<F: Fabric>(self, cx: &Cx<F>, before: TupleCell) -> bool {
        if let Some(answer) = self.coherence.answer() {
            return answer || cx.sabotaged("row.bypass-own-copy");
        }
        before.valid() & self.bit() != 0
    }

    /// Gives a read lock back.
    pub fn release_read<F: Fabric>(self, cx: &Cx<F>, at: TupleAddr) {
        self.latch(cx, at);
        let _: Result<_, ()> = self.swap(cx, at, |cell| {
            debug_assert!(cell.readers() & self.bit() != 0, "released a read lock not held: {cell:?}");
            Ok(cell.without_reader(self.host))
        });
    }

    /// Gives a write lock back. `wrote`: the row changed, and its lines are written back and fenced.
    /// `behind`: the owner's DRAM copy lacks that change.
    pub fn release_write<F: Fabric>(self, cx: &Cx<F>, at: TupleAddr, wrote: bool, behind: bool) {
        self.latch(cx, at);
        let after = |valid| {
            if wrote && !cx.sabotaged("row.writer-clears-other-valid-bits") {
                self.coherence.after_write(self.bit())
            } else {
                self.coherence.after_read(valid, self.bit())
            }
        };
        let behind = behind && !cx.sabotaged("row.set-modified");
        let _: Result<_, ()> = self.swap(cx, at, |cell| {
            debug_assert_eq!(cell.writer(), Some(self.host), "released a write lock not held: {cell:?}");
            let cell = cell.without_writer().with_modified(cell.is_modified() || behind);
            Ok(cell.with_valid(after(cell.valid())))
        });
    }

    /// Says whether the owner's DRAM copy is behind. The owner holds the row, so nobody else changes it now.
    pub fn set_modified<F: Fabric>(self, cx: &Cx<F>, at: TupleAddr, modified: bool) {
        let _: Result<_, ()> = self.swap(cx, at, |cell| Ok(cell.with_modified(modified)));
    }

    /// Sets or clears the neighbour bits of a cell, whoever holds its row.
    pub fn set_real<F: Fabric>(self, cx: &Cx<F>, at: TupleAddr, next: Option<bool>, prev: Option<bool>) {
        let _: Result<_, ()> = self.swap(cx, at, |cell| {
            let cell = next.map_or(cell, |real| cell.with_next_real(real));
            Ok(prev.map_or(cell, |real| cell.with_prev_real(real)))
        });
    }

    /// Clears `prev_real` if only hosts of the bitmap `tolerated` hold the row, and returns the cell as it
    /// was. One swap, so that a scanner that locks the row later finds the bit clear.
    pub fn open_gap_below<F: Fabric>(self, cx: &Cx<F>, at: TupleAddr, tolerated: u16) -> Option<TupleCell> {
        let opened = self.swap(cx, at, |cell| {
            if cell.holders() & !tolerated != 0 && !cx.sabotaged("row.check-gap-holders") {
                return Err(());
            }
            Ok(cell.with_prev_real(cell.prev_real() && cx.sabotaged("row.clear-prev-real-on-insert")))
        });
        opened.ok().map(|(before, _)| before)
    }

    /// Kills a cell that nobody holds; `None` if somebody does. Afterwards no host can lock it.
    pub fn retire_free<F: Fabric>(self, cx: &Cx<F>, at: TupleAddr) -> Option<TupleCell> {
        let killed = self.swap(cx, at, |cell| {
            let held = !cell.is_free() && !cx.sabotaged("row.retire-only-free");
            if !cell.is_live() || held {
                return Err(());
            }
            Ok(TupleCell::DEAD)
        });
        killed.ok().map(|(before, _)| before)
    }

    /// Makes a cell live again that its owner has just killed: the row stays, and its DRAM copy is behind.
    /// Nothing is known of its neighbours.
    pub fn revive<F: Fabric>(self, cx: &Cx<F>, at: TupleAddr) {
        let _: Result<_, ()> = self.swap(cx, at, |cell| {
            assert!(cell == TupleCell::DEAD, "a cell is made live again by who has killed it: {cell:?}");
            Ok(TupleCell::LIVE.with_modified(true))
        });
    }

    /// Kills a cell whose write lock `holder` has and will not use any more.
    pub fn retire_held<F: Fabric>(self, cx: &Cx<F>, at: TupleAddr, holder: HostId) -> TupleCell {
        let killed: Result<_, ()> = self.swap(cx, at, |cell| {
            assert_eq!(cell.writer(), Some(holder), "removal of a row not held by the remover: {cell:?}");
            Ok(TupleCell::DEAD)
        });
        killed.map(|(before, _)| before).expect("never refuses")
    }

    /// True if no row may begin here.
    pub fn is_reserved<F: Fabric>(self, cx: &Cx<F>, at: TupleAddr) -> bool {
        self.peek(cx, at) != TupleCell::DEAD && !cx.sabotaged("row.spare-reserved")
    }

    /// Says whether an index entry leads to this dead cell that could not be taken out: then no row begins
    /// here.
    pub fn reserve<F: Fabric>(self, cx: &Cx<F>, at: TupleAddr, reserved: bool) {
        let _: Result<_, ()> = self.swap(cx, at, |cell| {
            debug_assert!(!cell.is_live(), "a row lives where an entry of one leads that has left: {cell:?}");
            Ok(if reserved { TupleCell::RESERVED } else { TupleCell::DEAD })
        });
    }

    /// Clears the CLOCK bit; true if it was set.
    pub fn take_second_chance<F: Fabric>(self, cx: &Cx<F>, at: TupleAddr) -> bool {
        self.peek(cx, at).second_chance()
            && self.swap(cx, at, |cell| Ok::<_, ()>(cell.with_second_chance(false))).is_ok()
    }

    /// Makes a dead cell live for a row that moves in: valid here only, held as said.
    pub fn bear<F: Fabric>(self, cx: &Cx<F>, at: TupleAddr, held: Held) {
        let _: Result<_, ()> = self.swap(cx, at, |cell| {
            debug_assert!(cell == TupleCell::DEAD, "a cell is born once: {cell:?}");
            let cell = TupleCell::LIVE.with_second_chance(true);
            let cell = cell.with_valid(self.coherence.after_write(self.bit()));
            Ok(match held {
                Held::Free => cell,
                Held::Read(host) => cell.with_reader(host),
                Held::Write(host) => cell.with_writer(host),
            })
        });
    }
}

impl SharedRows {
    /// Drops this host's cached copy of a block's first `len` bytes.
    pub fn freshen<F: Fabric>(self, cx: &Cx<F>, block: DataAddr, len: usize) {
        if self.coherence.is_by_software() {
            self.by_lines(block, len).for_each(|(at, len)| {
                cx.invalidate(at, len);
                cx.fence();
            });
        }
    }

    /// Starts writing lines of a row back; the caller fences before it tells others of them.
    #[track_caller]
    pub fn write_back<F: Fabric>(self, cx: &Cx<F>, at: DataAddr, len: usize) {
        if self.coherence.is_by_software() {
            cx.write_back(at, len);
            if self.steps == Steps::Artifact {
                self.freshen(cx, at, len);
            }
        }
    }

    /// The pieces of a block that leave the cache one after the other: one, or the artifact's, which does so
    /// with whatever it reads anew or has written.
    fn by_lines(self, at: DataAddr, len: usize) -> impl Iterator<Item = (DataAddr, usize)> {
        let piece = if self.steps == Steps::Artifact { LINE } else { len.max(1) };
        (0..len).step_by(piece).map(move |from| (at.byte(from as u64), piece.min(len - from)))
    }
}

/// Who holds a row at its move-in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// Nobody.
    Free,
    /// This host, for reading.
    Read(HostId),
    /// This host, for writing.
    Write(HostId),
}
