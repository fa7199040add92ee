//! Allocation of sync words and data blocks (docs/protocols/allocation.md).
//!
//! Memory is divided into chunks. A host claims a chunk by compare-and-swap on its word in the chunk table,
//! hands out its slots from a bitmap in its own DRAM, and takes back what other hosts freed through a list
//! that they push to. So the common case touches no shared word but the host's own accounts, and a shared
//! word costs one eighth of a byte of overhead (8 bytes of table per 512 words).
//!
//! Invariants:
//! 1. A slot is in exactly one of: use, its owner's bitmap as free, its owner's list of remote frees.
//! 2. Chunks of words keep their class for ever, and a row's place its cell (`cells`), so a stale address of
//!    a row leads to the cell of the row that lies there now.
//! 3. Nodes lie only where nodes lay before, or nothing: their readers do not invalidate.
//! 4. Only the owner hands out a chunk's slots; every host may give one back.
//! 5. Consecutive words of a host lie in different lines, so that hot words do not share one by accident.
//! 6. The accounts of all hosts add up to the bytes in use. A host's own figure may be "negative" (it frees
//!    what others allocated), so only the wrapping sum means something.
//!
//! ```text
//! heap lines of a host     line 0: live bytes of each class       written by this host
//!                          line 1: reserved bytes of each class   written by this host
//!                          line 2: remote frees of each class     pushed by others, taken by this host
//! line before all of them: word 0: chunks of blocks ever released, and times that the room grew
//!                          word 1: how much of the memory may be used (`room`)
//! free word                upper 32 bits as left, lower 32: (offset of the next) / 8
//! free block               first 8 bytes: offset of the next
//! ```
//!
//! It does not reclaim (see `epochs`), keeps no budget, and zeroes nothing.

mod cells;
mod chunks;
mod inventory;
mod pool;
mod remote;
pub mod room;
mod sizes;

use liger_fabric::{Cx, DataAddr, Fabric, HostId, LINE, Latch, LatchGuard, RangeUse, SyncAddr};

use self::cells::Bond;
pub use self::cells::TupleAddr;
pub(crate) use self::cells::segments;
use self::chunks::{ChunkWord, Chunks, Class};
pub use self::inventory::{Audit, ClassAudit, Orphan};
use self::pool::{Pool, Shape};
pub use self::sizes::MAX_BLOCK_BYTES;
use self::sizes::{bytes_of_size, size_of_len};
use crate::error::{Noted, PodError, damaged};
use crate::plan::{Part, Plan, Region, cells_per_word};

// Each line of a host has a word for every class.
const _: () = assert!(Class::ALL.len() * 8 <= LINE);

/// What a sync word is used for, for ever: a stale address of a tuple word always points at a tuple word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum WordClass {
    /// Metadata of a tuple that lies wherever its word says.
    Tuple,
    /// Mapping word of an index node: one word.
    Mapping,
}

/// What a block of data is used for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum BlockClass {
    /// A shared row with its cell: changed in place, so every reader invalidates before it reads.
    Row,
    /// A row whose sync word lies elsewhere; changed in place, too.
    Loose,
    /// A node of an out-of-place structure: immutable while linked, so readers do not invalidate.
    Node,
    /// Anything else whose readers invalidate before they read.
    Scratch,
}

impl From<WordClass> for Class {
    fn from(class: WordClass) -> Class {
        match class {
            WordClass::Tuple => Class::Tuple,
            WordClass::Mapping => Class::Mapping,
        }
    }
}

impl From<BlockClass> for Class {
    fn from(class: BlockClass) -> Class {
        match class {
            BlockClass::Row => Class::Row,
            BlockClass::Loose => Class::Loose,
            BlockClass::Node => Class::Node,
            BlockClass::Scratch => Class::Scratch,
        }
    }
}

/// No room for a word or block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("out of shared memory: {class} of {bytes} bytes")]
pub struct OutOfMemory {
    /// Class that was asked for.
    pub class: &'static str,
    /// Bytes that were asked for.
    pub bytes: u64,
}

/// Bytes in use in the whole pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Live rows with a cell each.
    pub rows: u64,
    /// Live tuple words and cells, bytes of the sync region.
    pub tuple_bytes: u64,
    /// Live mapping words, bytes of the sync region.
    pub mapping_bytes: u64,
    /// Live rows, bytes of the data region (rounded up to their size class).
    pub row_bytes: u64,
    /// Live nodes, bytes of the data region.
    pub node_bytes: u64,
    /// Live scratch blocks, bytes of the data region.
    pub scratch_bytes: u64,
    /// Bytes of the sync region in chunks that hosts have claimed, live or not.
    pub word_chunk_bytes: u64,
    /// Bytes of the data region in chunks that hosts have claimed, live or not.
    pub block_chunk_bytes: u64,
}

impl Usage {
    /// Bytes of all live words, rows, nodes and blocks.
    pub fn bytes(&self) -> u64 {
        let words = self.tuple_bytes.wrapping_add(self.mapping_bytes);
        words.wrapping_add(self.row_bytes).wrapping_add(self.node_bytes).wrapping_add(self.scratch_bytes)
    }
}

/// Bytes of the sync region that so many cells take; of a negative number, as many less than none.
fn bytes_of_cells(plan: &Plan, cells: u64) -> u64 {
    let (eighths, per_word) = (8 * (cells as i64), cells_per_word(plan.config().hosts) as i64);
    (eighths + per_word - 1).div_euclid(per_word) as u64
}

/// What one host has put into the accounts of one class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Account {
    /// Name of the class.
    pub class: &'static str,
    /// Bytes that it took and did not give back; negative where it gave back what others took.
    pub live_bytes: i64,
    /// Bytes of the chunks that it has claimed for the class.
    pub chunk_bytes: u64,
}

/// The accounts of one host, class by class; for tools that look at a pod from outside.
pub fn accounts<F: Fabric>(cx: &Cx<F>, plan: &Plan, host: HostId) -> Vec<Account> {
    let live = plan.heap_lines(host);
    let account = |class: Class| Account {
        class: class.name(),
        live_bytes: match (class, cx.load(live.word(class as u64))) {
            (Class::Cells, cells) => bytes_of_cells(plan, cells) as i64,
            (_, bytes) => bytes as i64,
        },
        chunk_bytes: cx.load(live.line(1).word(class as u64)),
    };
    Class::ALL.map(account).into()
}

/// The word that has a cell, and the cell's place in it.
type Cell = (SyncAddr, u32);
/// A block, and its cell if it is a row's.
type Slot = (DataAddr, Option<Cell>);

/// One host's door to the shared heap, shared by its workers.
pub struct Heap {
    plan: Plan,
    host: HostId,
    incarnation: u16,
    words: Chunks,
    blocks: Chunks,
    pools: [Latch<Pool>; 7],
    /// Bytes of data memory that the pod may use at least.
    least_room: u64,
    damage: Noted,
}

/// Who says which slot is given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Named {
    /// This program: a slot that is not in use is a bug.
    ByCaller,
    /// Shared memory: it is damage, and the slot stays as it is.
    ByMemory,
}

impl Heap {
    /// The door of `host` in its `incarnation`.
    pub fn new(plan: &Plan, host: HostId, incarnation: u16) -> Heap {
        assert!(host.0 < plan.config().hosts, "host {} of {}", host.0, plan.config().hosts);
        let chunks = |table: Part, heap: Part, bytes: u64| {
            let Region { start, bytes: all, .. } = plan.region(heap);
            Chunks { table: plan.sync(table), count: all / bytes, start, bytes, hosts: plan.config().hosts }
        };
        let words = chunks(Part::WordChunks, Part::WordHeap, crate::plan::WORD_CHUNK_BYTES);
        let blocks = chunks(Part::BlockChunks, Part::BlockHeap, plan.config().block_chunk_bytes.into());
        // Hosts start their searches at different places, so that they seldom want the same chunk.
        let cursor = |count: u64| count * u64::from(host.0) / u64::from(plan.config().hosts);
        let pools = Class::ALL.map(|class| {
            let count = if class.is_word() { words.count } else { blocks.count };
            Latch::new(Pool::new(cursor(count)))
        });
        let (plan, least_room) = (plan.clone(), room::least(plan));
        Heap { plan, host, incarnation, words, blocks, pools, least_room, damage: Noted::default() }
    }

    /// A sync word that nobody else uses. Its upper 32 bits are 0 or what its last user left, its lower 32
    /// bits are anything: the caller stores the first value.
    pub fn alloc_word<F: Fabric>(&self, cx: &Cx<F>, class: WordClass) -> Result<SyncAddr, OutOfMemory> {
        let found = self.take(cx, class.into(), 0);
        let out = OutOfMemory { class: Class::from(class).name(), bytes: 8 };
        found.map(|(offset, _)| SyncAddr::new(offset)).ok_or(out)
    }

    /// Gives a word back. The lower 32 bits are the heap's from here on: whoever may still look must take the
    /// word for dead whatever they are, and nobody else may store to it.
    pub fn free_word<F: Fabric>(&self, cx: &Cx<F>, class: WordClass, at: SyncAddr) {
        self.give(cx, class.into(), at.offset(), 0, Named::ByCaller);
    }

    /// A block of at least `len` bytes (1 to 64 KiB), 64-byte aligned, contents undefined.
    pub fn alloc<F: Fabric>(
        &self,
        cx: &Cx<F>,
        class: BlockClass,
        len: usize,
    ) -> Result<DataAddr, OutOfMemory> {
        self.alloc_slot(cx, class.into(), len).map(|(at, _)| at)
    }

    /// The row whose address is this number, if it may be one: its block and its cell lie where blocks and
    /// cells lie.
    pub fn row_at(&self, raw: u64) -> Option<TupleAddr> {
        let row = TupleAddr::from_raw(raw)?;
        let whole = self.blocks.contains(row.block().offset()) && self.words.contains(row.word().offset());
        whole.then_some(row)
    }

    /// The host, and its incarnation, whose chunk holds a block; none if nobody's does, or damage hides it,
    /// which is noted.
    pub fn owner_of_block<F: Fabric>(&self, cx: &Cx<F>, at: DataAddr) -> Option<(HostId, u16)> {
        self.damage.whole(self.blocks.owner_of(cx, at.offset())).flatten()
    }

    /// The same of a sync word.
    pub fn owner_of_word<F: Fabric>(&self, cx: &Cx<F>, at: SyncAddr) -> Option<(HostId, u16)> {
        self.damage.whole(self.words.owner_of(cx, at.offset())).flatten()
    }

    /// A block for a shared row of at least `len` bytes (1 to 64 KiB), contents undefined, and its cell,
    /// which is as the last row left it that began there, or 0. `free` takes both back.
    pub fn alloc_row<F: Fabric>(&self, cx: &Cx<F>, len: usize) -> Result<TupleAddr, OutOfMemory> {
        let (at, cell) = self.alloc_slot(cx, Class::Row, len)?;
        let (word, place) = cell.expect("rows have cells");
        Ok(TupleAddr::new(at, word, place))
    }

    fn alloc_slot<F: Fabric>(&self, cx: &Cx<F>, class: Class, len: usize) -> Result<Slot, OutOfMemory> {
        let size = size_of_len(len);
        let mut found = self.take(cx, class, size);
        if found.is_none() && self.release_empty(cx) > 0 {
            found = self.take(cx, class, size);
        }
        let (offset, cell) = found.ok_or(OutOfMemory { class: class.name(), bytes: len as u64 })?;
        let at = DataAddr::new(offset);
        debug_assert!(at.is_line_aligned(), "two blocks would share the line of {at:?}");
        debug_assert_eq!(cell.is_some(), class == Class::Row, "rows have cells, and nothing else");
        cx.range_use(at, len.next_multiple_of(LINE), RangeUse::Allocated);
        Ok((at, cell))
    }

    /// Gives a block back; any host may. `class` and `len` as in `alloc`. Nobody may read it any more, and no
    /// host's cache may hold it if it is a node (see `epochs`).
    pub fn free<F: Fabric>(&self, cx: &Cx<F>, class: BlockClass, at: DataAddr, len: usize) {
        self.give(cx, class.into(), at.offset(), len, Named::ByCaller);
    }

    /// The same of a block that shared memory names, and that may lie where it says ([`Heap::may_hold`]): one
    /// that is not in use is damage, which is noted.
    pub(crate) fn free_named<F: Fabric>(&self, cx: &Cx<F>, class: BlockClass, at: DataAddr, len: usize) {
        assert!(self.may_hold(at.offset(), len), "{at:?} is no place of a block: the caller looks first");
        self.give(cx, class.into(), at.offset(), len, Named::ByMemory);
    }

    /// True if a block of `len` bytes may begin at this offset.
    pub fn may_hold(&self, offset: u64, len: usize) -> bool {
        (1..=MAX_BLOCK_BYTES).contains(&len) && self.blocks.may_hold(offset, len as u64)
    }

    /// True if the heap has a sync word at this offset.
    pub fn has_word(&self, offset: u64) -> bool {
        offset.is_multiple_of(8) && self.words.contains(offset)
    }

    /// The first damage of the heap's own words and lists that this host has met and gone past: memory that
    /// it concerns is lost until the pod is formatted again.
    pub fn damage(&self) -> Option<&PodError> {
        self.damage.first()
    }

    /// Bytes in use in the whole pod; exact when no host is in the middle of an allocation.
    pub fn usage<F: Fabric>(&self, cx: &Cx<F>) -> Usage {
        let live = |class: Class| self.accounted(cx, class, 0);
        let reserved = |is_word: bool| {
            let classes = Class::ALL.into_iter().filter(|class| class.is_word() == is_word);
            classes.map(|class| self.accounted(cx, class, 1)).fold(0, u64::wrapping_add)
        };
        let rows = live(Class::Cells);
        Usage {
            rows,
            tuple_bytes: live(Class::Tuple).wrapping_add(bytes_of_cells(&self.plan, rows)),
            mapping_bytes: live(Class::Mapping),
            row_bytes: live(Class::Row).wrapping_add(live(Class::Loose)),
            node_bytes: live(Class::Node),
            scratch_bytes: live(Class::Scratch),
            word_chunk_bytes: reserved(true),
            block_chunk_bytes: reserved(false),
        }
    }

    /// How much of its data memory the pod may use.
    pub fn room<F: Fabric>(&self, cx: &Cx<F>) -> room::Room {
        room::room_from(cx, &self.plan, self.least_room)
    }

    /// Takes back what other hosts have freed. Called from time to time, it keeps the memory of a host that
    /// stopped allocating available to the others; one sync load per class when there is nothing.
    pub fn tidy<F: Fabric>(&self, cx: &Cx<F>) {
        for class in Class::ALL {
            if cx.load(self.remote_head(self.host, class)) != 0 {
                let mut pool = self.pools[class as usize].lock(cx);
                self.drain(cx, class, &mut pool);
            }
        }
    }

    /// A class's account of all hosts: what is live (line 0 of theirs) or what is in claimed chunks (line 1).
    fn accounted<F: Fabric>(&self, cx: &Cx<F>, class: Class, line: u64) -> u64 {
        let lines = self.plan.hosts().map(|host| self.plan.heap_lines(host).line(line));
        lines.map(|line| cx.load(line.word(class as u64))).fold(0, u64::wrapping_add)
    }

    fn chunks(&self, class: Class) -> &Chunks {
        if class.is_word() { &self.words } else { &self.blocks }
    }

    fn slot_bytes(&self, class: Class, size: u8) -> u64 {
        match class {
            Class::Tuple | Class::Mapping | Class::Cells => 8,
            Class::Row | Class::Loose | Class::Node | Class::Scratch => bytes_of_size(size) as u64,
        }
    }

    /// Where a slot lies. Words go through the lines first and through a line last (invariant 5).
    fn offset_of(&self, class: Class, stride: u64, chunk: u32, slot: u32) -> u64 {
        let start = self.chunks(class).offset(chunk);
        if class.is_word() {
            let lines = self.words.bytes / LINE as u64;
            return start + u64::from(slot) % lines * LINE as u64 + u64::from(slot) / lines * stride;
        }
        start + u64::from(slot) * stride
    }

    /// The slot around a distance from the start of its chunk; the inverse of `offset_of`.
    fn slot_at(&self, class: Class, stride: u64, distance: u64) -> u32 {
        debug_assert!(distance < self.chunks(class).bytes, "{distance} lies in another chunk");
        let line = LINE as u64;
        if class.is_word() {
            return (distance / line + distance % line / stride * (self.words.bytes / line)) as u32;
        }
        (distance / stride) as u32
    }

    /// How a chunk is divided into slots of one size. Rows start where cells are.
    fn shape(&self, class: Class, size: u8, bond: Option<Bond>) -> Shape {
        let bytes = self.slot_bytes(class, size);
        let stride = bond.as_ref().map_or(bytes, |bond| bytes.next_multiple_of(bond.grain));
        let slots = (self.chunks(class).bytes - bytes) / stride + 1;
        Shape { size, slots: slots as u32, stride, bond }
    }

    fn my_word(&self, class: Class, size: u8) -> ChunkWord {
        ChunkWord { owner: Some((self.host, self.incarnation)), class: Some(class), size }
    }

    fn remote_head(&self, host: HostId, class: Class) -> SyncAddr {
        self.plan.heap_lines(host).line(2).word(class as u64)
    }

    fn released(&self) -> SyncAddr {
        self.plan.sync(Part::HeapLines)
    }

    /// Adds to this host's accounts of a class and publishes them.
    fn account<F: Fabric>(&self, cx: &Cx<F>, class: Class, pool: &mut Pool, live: i64, reserved: i64) {
        let at = self.plan.heap_lines(self.host).word(class as u64);
        // A host that starts again goes on from what its earlier incarnation left: its words and blocks are
        // still in use.
        let account = pool.account.get_or_insert_with(|| (cx.load(at), cx.load(at.line(1))));
        for (at, now, by) in [(at, &mut account.0, live), (at.line(1), &mut account.1, reserved)] {
            if by != 0 {
                let before = *now;
                *now = before.wrapping_add_signed(by);
                // Not a store: it could become visible after a later one by another worker of this host.
                let swapped = cx.compare_exchange(at, before, *now);
                assert!(
                    swapped.is_ok(),
                    "somebody else writes host {}'s accounts: {swapped:x?}",
                    self.host.0
                );
            }
        }
    }

    /// Takes a slot: from an open chunk, else from what others freed, else from a chunk claimed now.
    fn take<F: Fabric>(&self, cx: &Cx<F>, class: Class, size: u8) -> Option<(u64, Option<Cell>)> {
        let mut pool = self.pools[class as usize].lock(cx);
        let mut found = pool.take(size);
        if found.is_none() && self.drain(cx, class, &mut pool) > 0 {
            found = pool.take(size);
        }
        if found.is_none() && self.claim(cx, class, size, &mut pool) {
            found = pool.take(size);
        }
        let (number, slot) = found?;
        self.account(cx, class, &mut pool, self.slot_bytes(class, size) as i64, 0);
        self.account_cell(cx, class, 1);
        let chunk = pool.chunk(number).expect("the chunk is ours");
        let offset = self.offset_of(class, chunk.stride, number, slot);
        debug_assert_eq!(self.chunks(class).around(offset), number, "slot {slot} lies in its chunk");
        let cell = chunk.bond.as_ref().map(|bond| bond.cell(offset - self.blocks.offset(number)));
        Some((offset, cell))
    }

    /// Counts so many cells (not bytes: several share a word), if it is rows that come or go.
    fn account_cell<F: Fabric>(&self, cx: &Cx<F>, class: Class, rows: i64) {
        if class == Class::Row {
            let mut pool = self.pools[Class::Cells as usize].lock(cx);
            self.account(cx, Class::Cells, &mut pool, rows, 0);
        }
    }

    /// Claims a chunk for slots of one size. False: none is free.
    fn claim<F: Fabric>(&self, cx: &Cx<F>, class: Class, size: u8, pool: &mut Pool) -> bool {
        let released = cx.load(self.released());
        if pool.exhausted_at == Some(released) {
            return false;
        }
        let (chunks, mine) = (self.chunks(class), self.my_word(class, size));
        let found = match class {
            Class::Row => {
                self.claim_for_rows(cx, size, &mut pool.cursor).map(|(chunk, bond)| (chunk, Some(bond)))
            }
            _ => {
                let within = room::chunks_in(cx, &self.plan, chunks.count);
                let claimed = chunks.claim(cx, (&mut pool.cursor, within), mine, |_| true);
                claimed.map(|(chunk, _)| (chunk, None))
            }
        };
        let Some((chunk, bond)) = found else {
            pool.exhausted_at = Some(released);
            return false;
        };
        pool.add(chunk, self.shape(class, size, bond));
        self.account(cx, class, pool, 0, chunks.bytes as i64);
        true
    }

    /// Gives a slot back: to the bitmap if the chunk is this host's, else to its owner's list.
    fn give<F: Fabric>(&self, cx: &Cx<F>, class: Class, offset: u64, len: usize, named: Named) {
        assert_ne!(class, Class::Cells, "cells belong to their places for ever");
        debug_assert_eq!(class.is_word(), len == 0, "a block has a length, a word none");
        let chunk = self.chunks(class).around(offset);
        let mut pool = self.pools[class as usize].lock(cx);
        if named == Named::ByMemory && !self.is_in_use(class, &pool, offset) {
            return self.damage.note(damaged("a slot to give back", offset, 0));
        }
        let size = if class.is_word() { 0 } else { size_of_len(len) };
        self.account(cx, class, &mut pool, -(self.slot_bytes(class, size) as i64), 0);
        self.account_cell(cx, class, -1);
        if pool.chunk(chunk).is_some() {
            if !class.is_word() {
                cx.range_use(DataAddr::new(offset), len.next_multiple_of(LINE), RangeUse::Free);
            }
            self.put(cx, class, &mut pool, offset);
            return;
        }
        drop(pool);
        if !class.is_word() {
            // No change stays in this host's cache, to be evicted over what the owner will write. (Complete
            // before the owner knows: `set_next` has a fence.)
            let at = DataAddr::new(offset);
            cx.invalidate(at, len);
            cx.range_use(at, len.next_multiple_of(LINE), RangeUse::Free);
        }
        self.push(cx, class, offset, named);
    }

    /// False if the offset lies in a chunk of this host, and no slot in use begins there.
    fn is_in_use(&self, class: Class, pool: &Pool, offset: u64) -> bool {
        let number = self.chunks(class).around(offset);
        let Some(chunk) = pool.chunk(number) else { return true };
        let slot = self.slot_at(class, chunk.stride, offset - self.chunks(class).offset(number));
        self.offset_of(class, chunk.stride, number, slot) == offset && chunk.is_live(slot)
    }

    /// Marks a slot of one of this host's chunks free, and gives the chunk back if it can be spared.
    fn put<F: Fabric>(&self, cx: &Cx<F>, class: Class, pool: &mut LatchGuard<'_, Pool>, offset: u64) {
        let number = self.chunks(class).around(offset);
        let stride = pool.chunk(number).expect("the chunk is ours").stride;
        let slot = self.slot_at(class, stride, offset - self.chunks(class).offset(number));
        let start = self.offset_of(class, stride, number, slot);
        assert_eq!(start, offset, "a {} is freed at {offset:#x}, it starts at {start:#x}", class.name());
        let spare = pool.put(number, slot);
        if spare && !class.is_word() {
            self.release(cx, class, pool, number);
        }
    }

    fn release<F: Fabric>(&self, cx: &Cx<F>, class: Class, pool: &mut Pool, chunk: u32) {
        assert!(!class.is_word(), "chunks of words keep their class for ever");
        let size = pool.chunk(chunk).expect("the chunk is ours").size;
        pool.remove(chunk);
        self.account(cx, class, pool, 0, -(self.blocks.bytes as i64));
        self.blocks.release(cx, chunk, self.my_word(class, size));
        cx.fetch_add(self.released(), 1);
    }

    /// Releases every empty chunk of blocks of this host; how many.
    fn release_empty<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        self.tidy(cx);
        let mut released = 0;
        for class in Class::BLOCKS {
            let mut pool = self.pools[class as usize].lock(cx);
            for chunk in pool.empty() {
                self.release(cx, class, &mut pool, chunk);
                released += 1;
            }
        }
        released
    }
}

/// Lets the heap itself use a block that is free (the simulator allows nobody else to).
fn with_free<F: Fabric>(cx: &Cx<F>, at: DataAddr, len: usize, access: impl FnOnce()) {
    debug_assert!(at.is_line_aligned() && len.is_multiple_of(LINE), "{at:?} is no block of whole lines");
    cx.range_use(at, len, RangeUse::Allocated);
    access();
    cx.range_use(at, len, RangeUse::Free);
}

#[cfg(test)]
mod tests;
