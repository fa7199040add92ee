//! How much of its memory a pod uses: it may be formatted with room for more than it starts with, and grow
//! while hosts work (docs/protocols/allocation.md "Pods that grow").
//!
//! ```text
//! line before the heap lines of the hosts   word 1: bytes of data memory that may be used; 0: all
//! ```
//!
//! Invariants:
//! 1. The word is one of 0 and the bytes from [`least`] to all, and it only grows: nobody has to give up a
//!    chunk.
//! 2. Nobody claims a chunk beyond it. Whoever claims has read it after it wanted the chunk.
//! 3. Sync memory is used in proportion: as much of the chunks of words as of the chunks of blocks.
//!
//! It moves nothing: what a pod no longer needs, its budget gives back (`engine::row::eviction`).

use liger_fabric::{Cx, Fabric, SyncAddr};

use crate::plan::{Part, Plan};

/// Chunks of blocks, and of words, that each host wants at once, one for each class: a pod with less stands
/// still.
const CHUNKS_PER_HOST: u64 = 4;

/// So many bytes of so many bytes of data memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Those that may be used.
    pub bytes: u64,
    /// Those that the pod was formatted with.
    pub of_bytes: u64,
    /// Those of both that are no heap: lanes, rings, batches.
    pub fixed_bytes: u64,
}

impl Room {
    /// Of what the whole heap is, or may hold, as much as may be used of the heap.
    pub fn share(self, whole: u64) -> u64 {
        share(whole, self.bytes - self.fixed_bytes, self.of_bytes - self.fixed_bytes)
    }
}

/// Why a pod's room stays as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RoomError {
    /// Chunks that are in use may lie beyond.
    #[error("the pod may use {now} bytes already: it grows only")]
    Less {
        /// Those that it may use.
        now: u64,
    },
    /// Lanes, rings and a few chunks of each host do not fit.
    #[error("the pod needs {least} bytes")]
    TooLittle {
        /// Those that it needs.
        least: u64,
    },
    /// It was formatted with less.
    #[error("the pod was formatted with {most} bytes")]
    TooMuch {
        /// Those that it has.
        most: u64,
    },
}

/// The least room of a pod, in bytes of data memory.
pub fn least(plan: &Plan) -> u64 {
    let (fixed, heap) = (before_heap(plan), plan.region(Part::BlockHeap).bytes);
    let words = plan.region(Part::WordHeap).bytes / crate::plan::WORD_CHUNK_BYTES;
    let blocks = heap / u64::from(plan.config().block_chunk_bytes);
    let wanted = CHUNKS_PER_HOST * u64::from(plan.config().hosts);
    let of = |chunks: u64| share(heap, wanted.min(chunks), chunks.max(1));
    fixed + of(words).max(of(blocks)).next_multiple_of(4096).min(heap)
}

/// What a pod may use. A word that nobody writes means all.
pub fn room<F: Fabric>(cx: &Cx<F>, plan: &Plan) -> Room {
    room_from(cx, plan, least(plan))
}

/// The same for whoever asks often, and knows the least that there can be.
pub(super) fn room_from<F: Fabric>(cx: &Cx<F>, plan: &Plan, least: u64) -> Room {
    let of_bytes = plan.config().cxl_bytes;
    let bytes = cx.load(word(plan));
    let known = (least..of_bytes).contains(&bytes);
    Room { bytes: if known { bytes } else { of_bytes }, of_bytes, fixed_bytes: before_heap(plan) }
}

/// Says how much of its data memory a new pod may use, before a host has joined.
///
/// # Errors
/// [`RoomError`]: it stays as it was.
pub fn limit<F: Fabric>(cx: &Cx<F>, plan: &Plan, bytes: u64) -> Result<(), RoomError> {
    check(plan, bytes)?;
    let set = cx.compare_exchange(word(plan), 0, bytes);
    set.map(drop).map_err(|_| RoomError::Less { now: room(cx, plan).bytes })
}

/// Lets a pod use more of its data memory; what it may use now, also if somebody else has let it use more at
/// the same time. Hosts go on meanwhile.
///
/// # Errors
/// [`RoomError`]: it stays as it was.
pub fn grow<F: Fabric>(cx: &Cx<F>, plan: &Plan, bytes: u64) -> Result<Room, RoomError> {
    check(plan, bytes)?;
    let at = word(plan);
    loop {
        let (seen, now) = (cx.load(at), room(cx, plan));
        if bytes < now.bytes {
            return Err(RoomError::Less { now: now.bytes });
        }
        if cx.compare_exchange(at, seen, bytes).is_ok() {
            // Hosts that found no chunk look again.
            cx.fetch_add(plan.sync(Part::HeapLines), 1);
            return Ok(Room { bytes, ..now });
        }
    }
}

/// Whether a pod may use so much of its data memory.
///
/// # Errors
/// [`RoomError`]: why not.
pub fn check(plan: &Plan, bytes: u64) -> Result<(), RoomError> {
    let (least, most) = (least(plan), plan.config().cxl_bytes);
    assert!(least <= most, "a pod has room for what it needs: {least} of {most}");
    match bytes {
        _ if bytes < least => Err(RoomError::TooLittle { least }),
        _ if bytes > most => Err(RoomError::TooMuch { most }),
        _ => Ok(()),
    }
}

/// How many of so many chunks may be claimed.
pub(super) fn chunks_in<F: Fabric>(cx: &Cx<F>, plan: &Plan, chunks: u64) -> u64 {
    if cx.sabotaged("heap.room") {
        return chunks;
    }
    room(cx, plan).share(chunks).clamp(1, chunks)
}

/// Bytes of data memory in front of the heap: lanes, rings, batches.
pub fn before_heap(plan: &Plan) -> u64 {
    plan.config().cxl_bytes - plan.region(Part::BlockHeap).bytes
}

fn word(plan: &Plan) -> SyncAddr {
    plan.sync(Part::HeapLines).word(1)
}

fn share(whole: u64, part: u64, of: u64) -> u64 {
    debug_assert!(part <= of && of > 0, "{part} is a part of {of}");
    if part == of {
        return whole;
    }
    (u128::from(whole) * u128::from(part) / u128::from(of)) as u64
}
