//! Locking, reading and writing a row in shared memory through its tuple word.
//!
//! Invariants:
//! 1. Who calls `acquire_*` and `release_*` has checked under a host-local latch that this host holds nothing
//!    of the word yet (or upgrades its only reader); the word's bits stand for the host, the latch's data for
//!    its workers.
//! 2. Between acquire and release the row block stays in place: only the owner moves a row out, and only a
//!    free one.
//! 3. Data is read only after the host's lines were made fresh: a clear valid bit means invalidate, fence,
//!    read.
//! 4. Data is written only under W, and is written back and fenced before W is released.
//!
//! The step order is that of models/tuple_word.py. A reader sets its valid bit in the compare-and-swap that
//! takes the lock, *before* it invalidates. Nobody on the same host can look at the bit until the
//! invalidation is done (the latch of invariant 1 is still held), and no writer can come between; it saves
//! one swap (docs/protocols/shared-rows.md).
//!
//! Not here: which word belongs to which key (remote.rs, partition.rs), and who waits (transaction.rs).

use liger_fabric::zerocopy::IntoBytes;
use liger_fabric::{Cx, DataAddr, Fabric, HostId, LINE, SyncAddr, Work, layout};

use super::partition::Mode;
use super::policy::{Coherence, Steps};
use super::word::{TupleWord, WordFormat};
use crate::key::Key;
use crate::txn::Conflict;

layout! {
    /// Head of a shared row's block; the key's words follow, then the row's bytes. Written in full lines at
    /// move-in.
    pub struct RowHead: 16 {
        /// Version of the row: the log sequence number of its last change.
        0 => pub llsn: u64,
        /// The row's table.
        8 => pub table: u16,
        /// The row's partition.
        10 => pub partition: u16,
        /// Bytes of the row.
        12 => pub row_len: u16,
        /// Words of the key.
        14 => pub key_words: u8,
        /// [`ROW_MAGIC`].
        15 => pub magic: u8,
    }
}

/// Marks a row block.
pub const ROW_MAGIC: u8 = 0xa7;

/// Set in the version of a block whose row was made for another host's insert, until that has committed; the
/// bits below are the version that the row must exceed.
pub const UNBORN: u64 = 1 << 63;
/// Set in the version of a block whose row another host than its owner has deleted: committed, and given to
/// the owner to remove. The bits below are the version of the delete.
pub const DELETED: u64 = 1 << 62;
/// The bits of a block's version that are one.
pub const VERSION: u64 = DELETED - 1;

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
    "row.reset-valid-at-birth",
    "row.valid-before-unlock",
    "row.take-valid-bits-of-others",
    "row.bypass-own-copy",
];

/// Row blocks up to this length are put together on the stack.
const SMALL_BLOCK: usize = 1024;

/// Where a shared row's bytes start in its block.
pub const fn row_start(key_words: usize) -> u64 {
    (size_of::<RowHead>() + 8 * key_words) as u64
}

/// Bytes of the block of a row of `row_len` bytes, in full lines.
pub const fn block_len(key_words: usize, row_len: usize) -> usize {
    (row_start(key_words) as usize + row_len).next_multiple_of(LINE)
}

/// Result of trying to lock a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acquired {
    /// Locked.
    Granted {
        /// The word as it is now.
        word: TupleWord,
        /// This host's cached copy is current. If not, it must be made so before it is used and before the
        /// lock is given back ([`SharedRows::freshen`]): the valid bit is set already, or will be by the
        /// release of a write.
        fresh: bool,
    },
    /// Somebody holds it in a conflicting way.
    Conflict,
    /// No row lives behind this word (any more).
    Gone,
}

/// A host's way of using tuple words.
#[derive(Clone, Copy)]
pub struct SharedRows {
    /// Layout of the words in this pod.
    pub format: WordFormat,
    /// This host.
    pub host: HostId,
    /// Who may trust a cached copy.
    pub coherence: Coherence,
    /// Owners know whether their DRAM copies are current.
    pub dirty_tracking: bool,
    /// In how many steps rows are used.
    pub steps: Steps,
}

impl SharedRows {
    fn bit(self) -> u16 {
        1 << self.host.0
    }

    /// Why a word was refused; whoever held it then may have let it go since.
    pub(super) fn refusal<F: Fabric>(self, cx: &Cx<F>, at: SyncAddr, mode: Mode) -> Conflict {
        let is_changed = mode == Mode::Read || self.peek(cx, at).writer().is_some();
        if is_changed { Conflict::WriteLocked } else { Conflict::ReadLocked }
    }

    /// True if the owner's DRAM copy of the row has to be taken for old.
    pub(super) fn is_behind(self, word: TupleWord) -> bool {
        word.is_modified() || !self.dirty_tracking
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
    pub(super) fn latch<F: Fabric>(self, cx: &Cx<F>, at: SyncAddr) {
        if self.steps == Steps::Artifact {
            cx.spend(Work::Row, 1);
            let seen = cx.load(at);
            let _ = cx.compare_exchange(at, seen, seen);
        }
    }

    /// Current value of a word.
    pub fn peek<F: Fabric>(self, cx: &Cx<F>, at: SyncAddr) -> TupleWord {
        TupleWord(cx.load(at))
    }

    /// One attempt after the other to replace the word by `change` of it, until a swap succeeds or `change`
    /// refuses.
    fn swap<F: Fabric, E>(
        self,
        cx: &Cx<F>,
        at: SyncAddr,
        change: impl Fn(TupleWord) -> Result<TupleWord, E>,
    ) -> Result<(TupleWord, TupleWord), E> {
        let mut seen = cx.load(at);
        loop {
            let new = change(TupleWord(seen))?;
            match cx.compare_exchange(at, seen, new.0) {
                Ok(_) => return Ok((TupleWord(seen), new)),
                Err(now) => seen = now,
            }
        }
    }

    /// Locks for reading on behalf of this host, which must hold nothing of the word.
    pub fn acquire_read<F: Fabric>(self, cx: &Cx<F>, at: SyncAddr) -> Acquired {
        self.latch(cx, at);
        let locked = self.swap(cx, at, |word| {
            if !word.is_live() && !cx.sabotaged("row.check-live") {
                return Err(Acquired::Gone);
            }
            let written = word.writer().is_some() && !cx.sabotaged("row.check-writer-on-read");
            // Our own bit without a local holder belongs to another entry of this host that names the same
            // word by another key (a stale hint): not ours to share.
            if written || word.readers(self.format) & self.bit() != 0 {
                return Err(Acquired::Conflict);
            }
            let word = word.with_reader(self.host).with_second_chance(true);
            Ok(self.with_valid(word, |valid| self.after_read(cx, valid)))
        });
        self.granted(cx, at, locked, Locked::Read)
    }

    /// True if this host holds a lock on the word, whoever it belongs to.
    pub fn is_ours<F: Fabric>(self, cx: &Cx<F>, at: SyncAddr) -> bool {
        self.peek(cx, at).is_held_by(self.format, self.host)
    }

    /// Locks for writing on behalf of this host, which holds nothing of the word, or (`upgrade`) only a read
    /// lock.
    pub fn acquire_write<F: Fabric>(self, cx: &Cx<F>, at: SyncAddr, upgrade: bool) -> Acquired {
        self.latch(cx, at);
        let allowed = if upgrade { self.bit() } else { 0 };
        let locked = self.swap(cx, at, |word| {
            if !word.is_live() && !cx.sabotaged("row.check-live") {
                return Err(Acquired::Gone);
            }
            let others = word.readers(self.format) & !allowed;
            let read = others != 0 && !cx.sabotaged("row.check-readers-on-write");
            if word.writer().is_some() || read {
                return Err(Acquired::Conflict);
            }
            Ok(word.with_writer(self.host).with_second_chance(true))
        });
        self.granted(cx, at, locked, if upgrade { Locked::Upgraded } else { Locked::Write })
    }

    fn granted<F: Fabric>(
        self,
        cx: &Cx<F>,
        at: SyncAddr,
        locked: Result<(TupleWord, TupleWord), Acquired>,
        how: Locked,
    ) -> Acquired {
        let (before, word) = match locked {
            Ok(words) => words,
            Err(refused) => return refused,
        };
        // Lines that this host made fresh to read them have not changed since, whoever else read them too.
        let fresh = self.is_fresh(cx, at, before) || how == Locked::Upgraded;
        if !fresh && how == Locked::Read && self.format.is_wide() {
            self.mark_valid_wide(cx, at);
        }
        Acquired::Granted { word, fresh }
    }

    /// One-word format: the word with its valid bits changed. The other format keeps them elsewhere.
    fn with_valid(self, word: TupleWord, change: impl FnOnce(u16) -> u16) -> TupleWord {
        if self.format.is_wide() { word } else { word.with_valid(change(u16::from(word.valid())) as u8) }
    }

    /// The valid bits after this host has made its copy fresh to read it.
    fn after_read<F: Fabric>(self, cx: &Cx<F>, valid: u16) -> u16 {
        let after = self.coherence.after_read(valid, self.bit());
        let keeps =
            self.coherence == Coherence::NoSharedReader && cx.sabotaged("row.take-valid-bits-of-others");
        if keeps { after | valid } else { after }
    }

    fn mark_valid_wide<F: Fabric>(self, cx: &Cx<F>, at: SyncAddr) {
        self.change_valid_wide(cx, at, |valid| self.after_read(cx, valid));
    }

    /// Two-word format: changes the valid bits. A dead host's may be taken out at the same time.
    fn change_valid_wide<F: Fabric>(self, cx: &Cx<F>, at: SyncAddr, change: impl Fn(u16) -> u16) {
        if !self.format.is_wide() {
            return;
        }
        let mut seen = cx.load(at.word(1));
        loop {
            let changed = u64::from(change(seen as u16));
            if changed == seen {
                return;
            }
            match cx.compare_exchange(at.word(1), seen, changed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Takes a dead host out of the readers, and out of those whose cached copy is current: its next life
    /// starts with none.
    pub fn forget_host<F: Fabric>(self, cx: &Cx<F>, at: SyncAddr, dead: HostId) {
        let keeps = cx.sabotaged("row.forget-valid-bits");
        let without = |valid: u16| if keeps { valid } else { valid & !(1 << dead.0) };
        self.change_valid_wide(cx, at, without);
        let _ = self.swap(cx, at, |word| {
            let cleared = self.with_valid(word.without_reader(dead), without);
            if cleared == word || !word.is_live() { Err(()) } else { Ok(cleared) }
        });
    }

    /// Gives back the write lock of a dead host, whose row is as it must be: `wrote`, this host has brought
    /// it there, and its lines are written back and fenced. The row is fresh here.
    pub fn release_for<F: Fabric>(self, cx: &Cx<F>, at: SyncAddr, dead: HostId, wrote: bool) {
        let after = |valid: u16| {
            let valid = valid & !(1 << dead.0);
            if wrote {
                self.coherence.after_write(self.bit())
            } else {
                self.coherence.after_read(valid, self.bit())
            }
        };
        self.change_valid_wide(cx, at, after);
        let _: Result<_, ()> = self.swap(cx, at, |word| {
            assert_eq!(word.writer(), Some(dead), "a dead host's lock is given back once: {word:?}");
            let word = word.without_writer().with_modified(word.is_modified() || wrote);
            Ok(self.with_valid(word, after))
        });
    }

    /// Says that nothing is known of a row's neighbours, nor whether its owner's DRAM copy is current: there
    /// is a new owner. False if the word is dead.
    pub fn adopt<F: Fabric>(self, cx: &Cx<F>, at: SyncAddr) -> bool {
        let adopted = self.swap(cx, at, |word| match word.is_live() {
            true => Ok(word.with_modified(true).with_next_real(false).with_prev_real(false)),
            false => Err(()),
        });
        adopted.is_ok()
    }

    /// True if this host's cached copy of the row is current, judging from the word `before` it was locked or
    /// killed.
    pub fn is_fresh<F: Fabric>(self, cx: &Cx<F>, at: SyncAddr, before: TupleWord) -> bool {
        if let Some(answer) = self.coherence.answer() {
            return answer || cx.sabotaged("row.bypass-own-copy");
        }
        self.valid(cx, at, before) & self.bit() != 0
    }

    /// The hosts whose cached copies are current, judging from a word that was read.
    pub fn valid<F: Fabric>(self, cx: &Cx<F>, at: SyncAddr, word: TupleWord) -> u16 {
        if self.format.is_wide() { cx.load(at.word(1)) as u16 } else { u16::from(word.valid()) }
    }

    /// Gives a read lock back.
    pub fn release_read<F: Fabric>(self, cx: &Cx<F>, at: SyncAddr) {
        self.latch(cx, at);
        let _: Result<_, ()> = self.swap(cx, at, |word| {
            debug_assert!(
                word.readers(self.format) & self.bit() != 0,
                "released a read lock not held: {word:?}"
            );
            Ok(word.without_reader(self.host))
        });
    }

    /// Gives a write lock back. `wrote`: the row changed, and its lines are written back and fenced.
    /// `behind`: the owner's DRAM copy lacks that change.
    pub fn release_write<F: Fabric>(self, cx: &Cx<F>, at: SyncAddr, wrote: bool, behind: bool) {
        self.latch(cx, at);
        let after = |valid| {
            if wrote && !cx.sabotaged("row.writer-clears-other-valid-bits") {
                self.coherence.after_write(self.bit())
            } else {
                self.coherence.after_read(valid, self.bit())
            }
        };
        let mark = || self.change_valid_wide(cx, at, after);
        // Under the lock: whoever gets it next must find these bits.
        let late = cx.sabotaged("row.valid-before-unlock");
        if !late {
            mark();
        }
        let behind = behind && !cx.sabotaged("row.set-modified");
        let _: Result<_, ()> = self.swap(cx, at, |word| {
            debug_assert_eq!(word.writer(), Some(self.host), "released a write lock not held: {word:?}");
            let word = word.without_writer().with_modified(word.is_modified() || behind);
            Ok(self.with_valid(word, after))
        });
        if late {
            mark();
        }
    }

    /// Says that the owner's DRAM copy has caught up. The owner holds the row, so nobody else changes it now.
    pub fn clear_modified<F: Fabric>(self, cx: &Cx<F>, at: SyncAddr) {
        let _: Result<_, ()> = self.swap(cx, at, |word| Ok(word.with_modified(false)));
    }

    /// Sets or clears the neighbour bits of a word, whoever holds its row.
    pub fn set_real<F: Fabric>(self, cx: &Cx<F>, at: SyncAddr, next: Option<bool>, prev: Option<bool>) {
        let _: Result<_, ()> = self.swap(cx, at, |word| {
            let word = next.map_or(word, |real| word.with_next_real(real));
            Ok(prev.map_or(word, |real| word.with_prev_real(real)))
        });
    }

    /// Clears `prev_real` if only hosts of the bitmap `tolerated` hold the row, and returns the word as it
    /// was. One swap, so that a scanner that locks the row later finds the bit clear.
    pub fn open_gap_below<F: Fabric>(self, cx: &Cx<F>, at: SyncAddr, tolerated: u16) -> Option<TupleWord> {
        let opened = self.swap(cx, at, |word| {
            let writer = word.writer().map_or(0, |host| 1u16 << host.0);
            if (writer | word.readers(self.format)) & !tolerated != 0
                && !cx.sabotaged("row.check-gap-holders")
            {
                return Err(());
            }
            Ok(word.with_prev_real(word.prev_real() && cx.sabotaged("row.clear-prev-real-on-insert")))
        });
        opened.ok().map(|(before, _)| before)
    }

    /// Kills a word that nobody holds; `None` if somebody does. Afterwards no host can lock it.
    pub fn retire_free<F: Fabric>(self, cx: &Cx<F>, at: SyncAddr) -> Option<TupleWord> {
        let killed = self.swap(cx, at, |word| {
            let held = !word.is_free(self.format) && !cx.sabotaged("row.retire-only-free");
            if !word.is_live() || held {
                return Err(());
            }
            Ok(word.dead())
        });
        killed.ok().map(|(before, _)| before)
    }

    /// Kills a word whose write lock `holder` has and will not use any more.
    pub fn retire_held<F: Fabric>(self, cx: &Cx<F>, at: SyncAddr, holder: HostId) -> TupleWord {
        let killed: Result<_, ()> = self.swap(cx, at, |word| {
            assert_eq!(word.writer(), Some(holder), "removal of a row not held by the remover: {word:?}");
            Ok(word.dead())
        });
        killed.map(|(before, _)| before).expect("never refuses")
    }

    /// Clears the CLOCK bit; true if it was set.
    pub fn take_second_chance<F: Fabric>(self, cx: &Cx<F>, at: SyncAddr) -> bool {
        self.peek(cx, at).second_chance()
            && self.swap(cx, at, |word| Ok::<_, ()>(word.with_second_chance(false))).is_ok()
    }

    /// Brings a dead word to life for a row that moves in: valid here only, held as said.
    pub fn bear<F: Fabric>(self, cx: &Cx<F>, at: SyncAddr, row: DataAddr, held: Held) {
        let valid = self.coherence.after_write(self.bit());
        if self.format.is_wide() && !cx.sabotaged("row.reset-valid-at-birth") {
            cx.store(at.word(1), u64::from(valid));
        }
        let _: Result<_, ()> = self.swap(cx, at, |word| {
            debug_assert!(!word.is_live(), "a word is born once: {word:?}");
            let word = self.with_valid(word.reborn(row).with_second_chance(true), |_| valid);
            Ok(match held {
                Held::Free => word,
                Held::Read(host) => word.with_reader(host),
                Held::Write(host) => word.with_writer(host),
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

    /// Drops this host's cached copy of a block whose length nobody knows but the block: its word may be
    /// another row's.
    pub fn freshen_unknown<F: Fabric>(self, cx: &Cx<F>, block: DataAddr) {
        self.freshen(cx, block, LINE);
        let head: RowHead = cx.read_layout(block);
        let len = block_len(usize::from(head.key_words), usize::from(head.row_len));
        if head.magic == ROW_MAGIC && len > LINE {
            self.freshen(cx, block.byte(LINE as u64), len - LINE);
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

    /// Writes a whole row block, in full lines, so that nothing of the block's last use is needed or kept.
    pub fn write_block<F: Fabric>(
        self,
        cx: &Cx<F>,
        block: DataAddr,
        head: &RowHead,
        key: &[u64],
        row: &[u8],
    ) {
        let len = block_len(key.len(), row.len());
        let start = row_start(key.len()) as usize;
        let (mut small, mut large) = ([0u8; SMALL_BLOCK], Vec::new());
        let image = if len <= SMALL_BLOCK {
            &mut small[..len]
        } else {
            large.resize(len, 0);
            &mut large[..]
        };
        image[..size_of::<RowHead>()].copy_from_slice(head.as_bytes());
        image[size_of::<RowHead>()..start].copy_from_slice(key.as_bytes());
        image[start..start + row.len()].copy_from_slice(row);
        cx.write(block, image);
        self.write_back(cx, block, len);
    }
}

/// How a lock was got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Locked {
    Read,
    Write,
    /// For writing, by a host that held it for reading.
    Upgraded,
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

/// The head of the block at `row` if it holds `key` of `table` in `partition`. The caller holds the row's
/// lock, and the block is fresh.
pub fn block_is<F: Fabric>(
    cx: &Cx<F>,
    row: DataAddr,
    table: u16,
    partition: u16,
    key: &Key,
) -> Option<RowHead> {
    let head: RowHead = cx.read_layout(row);
    let words = key.words();
    let same = head.magic == ROW_MAGIC
        && head.table == table
        && head.partition == partition
        && usize::from(head.key_words) == words.len();
    if !same {
        return None;
    }
    (read_key(cx, row, words.len()) == *key).then_some(head)
}

/// Copies a row out of its block, which is locked (or dead) and fresh here. Returns the block's head.
pub fn read_block<F: Fabric>(cx: &Cx<F>, block: DataAddr, key_words: usize, out: &mut [u8]) -> RowHead {
    let head: RowHead = cx.read_layout(block);
    debug_assert_eq!((head.magic, usize::from(head.row_len)), (ROW_MAGIC, out.len()));
    cx.read(block.byte(row_start(key_words)), out);
    head
}

/// The key in a row's block, which is fresh here.
pub fn read_key<F: Fabric>(cx: &Cx<F>, block: DataAddr, key_words: usize) -> Key {
    let mut words = [0u64; crate::key::MAX_KEY_WORDS];
    let words = &mut words[..key_words];
    cx.read(block.byte(size_of::<RowHead>() as u64), words.as_mut_bytes());
    Key::from_words(words)
}
