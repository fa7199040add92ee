//! One host's chunks of one class, in its DRAM: which slots of each chunk are live, and which chunks have
//! room.

use std::collections::BTreeMap;

use super::cells::{Bond, Tail};
use super::sizes::SIZES;

/// One bit per slot of a chunk, set while the slot is in use.
struct Slots {
    bits: Box<[u64]>,
    count: u32,
    live: u32,
    /// No word of `bits` before this one has a slot free.
    first: usize,
}

impl Slots {
    fn new(count: u32) -> Self {
        assert!(count > 0);
        let mut bits = vec![0; count.div_ceil(64) as usize].into_boxed_slice();
        if !count.is_multiple_of(64) {
            *bits.last_mut().expect("at least one") = !0 << (count % 64);
        }
        Self { bits, count, live: 0, first: 0 }
    }

    fn take(&mut self) -> Option<u32> {
        while self.first < self.bits.len() {
            let bit = self.bits[self.first].trailing_ones();
            if bit < 64 {
                self.bits[self.first] |= 1 << bit;
                self.live += 1;
                debug_assert!(self.live <= self.count, "bits behind the last slot stay set");
                return Some(self.first as u32 * 64 + bit);
            }
            self.first += 1;
        }
        None
    }

    fn is_live(&self, slot: u32) -> bool {
        slot < self.count && self.bits[slot as usize / 64] >> (slot % 64) & 1 != 0
    }

    fn put(&mut self, slot: u32) {
        assert!(self.is_live(slot), "slot {slot} of {} is freed twice", self.count);
        let word = slot as usize / 64;
        self.bits[word] &= !(1 << (slot % 64));
        self.live -= 1;
        self.first = self.first.min(word);
    }

    fn live(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.count).filter(|&slot| self.is_live(slot))
    }
}

/// A chunk of this host.
pub struct Chunk {
    /// Size class of its slots.
    pub size: u8,
    /// Bytes from one slot's start to the next one's; for words, which lie otherwise, their length.
    pub stride: u64,
    /// The cells of its slots, if it is one of rows.
    pub bond: Option<Bond>,
    slots: Slots,
    /// It is in its size's list of chunks with room.
    open: bool,
}

impl Chunk {
    /// Slots in use.
    pub fn live_count(&self) -> u32 {
        self.slots.live
    }

    /// Slots in all.
    pub fn slot_count(&self) -> u32 {
        self.slots.count
    }

    /// Slots in use, in order.
    pub fn live(&self) -> impl Iterator<Item = u32> + '_ {
        self.slots.live()
    }

    /// Whether a slot is in use.
    pub fn is_live(&self, slot: u32) -> bool {
        self.slots.is_live(slot)
    }
}

/// What a chunk is divided into.
pub struct Shape {
    /// Size class of its slots.
    pub size: u8,
    /// How many it has.
    pub slots: u32,
    /// See [`Chunk`].
    pub stride: u64,
    /// See [`Chunk`].
    pub bond: Option<Bond>,
}

/// A host's chunks of one class.
pub struct Pool {
    chunks: BTreeMap<u32, Chunk>,
    open: [Vec<u32>; SIZES],
    /// Where the next search for a free chunk starts.
    pub cursor: u64,
    /// Count of released chunks when a search last found none; no search before it changes.
    pub exhausted_at: Option<u64>,
    /// Cells only: what no run has of this host's chunks.
    pub tails: Vec<Tail>,
    /// This host's (live, reserved) bytes as published; none until first read.
    pub account: Option<(u64, u64)>,
}

impl Pool {
    pub fn new(cursor: u64) -> Self {
        let open = std::array::from_fn(|_| Vec::new());
        Self { chunks: BTreeMap::new(), open, cursor, exhausted_at: None, tails: Vec::new(), account: None }
    }

    /// Adds a claimed chunk of `slots` free slots.
    pub fn add(&mut self, chunk: u32, shape: Shape) {
        let Shape { size, slots, stride, bond } = shape;
        let fresh = Chunk { size, stride, bond, slots: Slots::new(slots), open: true };
        let before = self.chunks.insert(chunk, fresh);
        assert!(before.is_none(), "chunk {chunk} is claimed twice");
        self.open[usize::from(size)].push(chunk);
    }

    /// Takes a slot of size class `size`: (chunk, slot).
    pub fn take(&mut self, size: u8) -> Option<(u32, u32)> {
        let open = &mut self.open[usize::from(size)];
        while let Some(&chunk) = open.last() {
            let it = self.chunks.get_mut(&chunk).expect("open chunks are ours");
            debug_assert!(it.open && it.size == size, "chunk {chunk} is open for slots of class {}", it.size);
            if let Some(slot) = it.slots.take() {
                return Some((chunk, slot));
            }
            it.open = false;
            open.pop();
        }
        None
    }

    /// Takes a slot of one chunk.
    pub fn take_from(&mut self, chunk: u32) -> Option<u32> {
        let it = self.chunks.get_mut(&chunk).expect("the chunk is ours");
        it.slots.take()
    }

    /// Puts a slot back. True: its chunk is empty now, and another one of its size has room.
    pub fn put(&mut self, chunk: u32, slot: u32) -> bool {
        let it = self.chunks.get_mut(&chunk).expect("the chunk is ours");
        it.slots.put(slot);
        let open = &mut self.open[usize::from(it.size)];
        if !it.open {
            it.open = true;
            open.push(chunk);
        }
        debug_assert!(open.contains(&chunk), "a chunk with room is among the open ones");
        it.slots.live == 0 && open.len() > 1
    }

    /// Forgets an empty chunk.
    pub fn remove(&mut self, chunk: u32) {
        let it = self.chunks.remove(&chunk).expect("the chunk is ours");
        assert_eq!(it.slots.live, 0, "chunk {chunk} is released while in use");
        self.open[usize::from(it.size)].retain(|&c| c != chunk);
    }

    /// A chunk of this host, if it is one.
    pub fn chunk(&self, chunk: u32) -> Option<&Chunk> {
        self.chunks.get(&chunk)
    }

    /// All chunks, in order.
    pub fn chunks(&self) -> impl Iterator<Item = (u32, &Chunk)> {
        self.chunks.iter().map(|(&number, chunk)| (number, chunk))
    }

    /// Empty chunks.
    pub fn empty(&self) -> Vec<u32> {
        self.chunks().filter(|(_, c)| c.slots.live == 0).map(|(number, _)| number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_handed_out_once_and_lowest_first() {
        let mut slots = Slots::new(70);
        let all: Vec<u32> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(all, (0..70).collect::<Vec<_>>());
        slots.put(69);
        slots.put(3);
        assert_eq!((slots.take(), slots.take(), slots.take()), (Some(3), Some(69), None));
        assert_eq!(slots.live().count(), 70);
    }

    #[test]
    #[should_panic(expected = "slot 1 of 8 is freed twice")]
    fn freeing_twice_is_a_bug() {
        let mut slots = Slots::new(8);
        slots.take();
        slots.put(1);
    }

    #[test]
    fn a_full_chunk_opens_again() {
        let shape = || Shape { size: 2, slots: 2, stride: 192, bond: None };
        let mut pool = Pool::new(0);
        pool.add(5, shape());
        assert_eq!(pool.take(1), None);
        assert_eq!((pool.take(2), pool.take(2), pool.take(2)), (Some((5, 0)), Some((5, 1)), None));
        assert!(!pool.put(5, 1));
        assert_eq!(pool.take(2), Some((5, 1)));
        pool.add(6, shape());
        assert!(!pool.put(5, 0));
        assert!(pool.put(5, 1), "empty, and chunk 6 has room");
        pool.remove(5);
        assert_eq!(pool.take(2), Some((6, 0)));
    }
}
