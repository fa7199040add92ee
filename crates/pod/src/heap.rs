//! Allocation of sync words and data blocks (see docs/protocols/allocation.md).

use liger_fabric::{Cx, DataAddr, Fabric, HostId, LINE, RangeUse, SyncAddr};

use crate::plan::{Part, Plan};

/// What a sync word is used for, for ever: a stale address of a tuple word always points at a tuple word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum WordClass {
    /// Metadata of a shared tuple: one word, or two adjacent words in one line in pods of more than 8 hosts.
    Tuple,
    /// Mapping word of an index node: one word.
    Mapping,
}

/// What a block of data is used for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum BlockClass {
    /// A shared row: changed in place, so every reader invalidates before it reads.
    Row,
    /// A node of an out-of-place structure: immutable while linked, so readers do not invalidate.
    Node,
    /// Anything short-lived whose reader invalidates before it reads.
    Scratch,
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
    /// Live tuple words, bytes of the sync region.
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

/// One host's door to the shared heap, shared by its workers.
pub struct Heap {
    plan: Plan,
}

impl Heap {
    /// The door of `host` in its life number `incarnation`.
    pub fn new(plan: &Plan, _host: HostId, _incarnation: u16) -> Heap {
        Heap { plan: plan.clone() }
    }

    /// A sync word that nobody else uses, 8-byte aligned (16-byte aligned where tuple words are two words). Its upper
    /// 32 bits are 0 or what its last user left, its lower 32 bits are anything: the caller stores the first value.
    pub fn alloc_word<F: Fabric>(&self, cx: &Cx<F>, class: WordClass) -> Result<SyncAddr, OutOfMemory> {
        let width = if class == WordClass::Tuple { self.plan.config().tuple_width() } else { 1 };
        let words = cx.fetch_add(self.plan.sync(Part::HeapLines), width);
        Ok(self.plan.sync(Part::WordHeap).word(words))
    }

    /// Gives a word back. The lower 32 bits are the heap's from here on; whoever may still look at it must read it as
    /// dead whatever they are.
    pub fn free_word<F: Fabric>(&self, cx: &Cx<F>, class: WordClass, at: SyncAddr) {
        let _ = (cx, class, at);
    }

    /// A block of at least `len` bytes (1 to 64 KiB), 64-byte aligned, contents undefined.
    pub fn alloc<F: Fabric>(
        &self,
        cx: &Cx<F>,
        class: BlockClass,
        len: usize,
    ) -> Result<DataAddr, OutOfMemory> {
        let _ = class;
        let bytes = (len as u64).next_multiple_of(LINE as u64);
        let at = self
            .plan
            .data(Part::BlockHeap)
            .byte(cx.fetch_add(self.plan.sync(Part::HeapLines).word(1), bytes));
        cx.range_use(at, bytes as usize, RangeUse::Allocated);
        Ok(at)
    }

    /// Gives a block back; any host may. `class` and `len` as in `alloc`. Nobody may read it any more, and no host's
    /// cache may hold it if it is a node (see `epochs`).
    pub fn free<F: Fabric>(&self, cx: &Cx<F>, class: BlockClass, at: DataAddr, len: usize) {
        let _ = class;
        cx.range_use(at, len.next_multiple_of(LINE), RangeUse::Free);
    }

    /// Bytes in use in the whole pod, exact when no host is allocating.
    pub fn usage<F: Fabric>(&self, cx: &Cx<F>) -> Usage {
        let _ = cx;
        Usage::default()
    }
}
