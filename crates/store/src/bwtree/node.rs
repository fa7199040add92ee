//! The records of a node in shared memory, and the node decoded into DRAM.
//!
//! A node is a chain of immutable records: a *base* with everything, below at most a few *deltas* (leaves
//! only), each of which inserts or deletes one entry. Every record starts on a line and is written once, in
//! full lines.
//!
//! ```text
//! word 0     1                           2    3      4 ..
//! magic|sum  kind|level|width|flags|n|d  id   link   base:  low key, high key, n keys, n values, zeros to
//! the line's end
//!                                                    delta: key, value, zeros to the line's end
//! ```
//! `link` is the right sibling's id in a base (0 = none), and in a delta the mapping word that it was put
//! upon. In a leaf the values are the tree's values; in an inner node they are ids of children, and the key
//! of a child is the upper bound of the range that it leads to, so that the last key equals the high fence
//! (zeros when that is `Max`).
//!
//! Invariants (checked by [`Node::verify`], also of what was read: damaged memory is an error, never
//! trusted):
//! 1. Keys ascend strictly. A leaf's keys lie in `[low, high)`, an inner node's in `(low, high]`; low < high.
//! 2. An inner node has a child.
//!
//! It does not read or write shared memory.

use liger_fabric::{DataAddr, LINE, layout};
use zerocopy::{FromBytes, IntoBytes};

use super::key::{Fence, Key, MAX_WIDTH, Target, lower_bound, upper_bound};

/// Most entries in a node that a reader accepts.
pub const MAX_CAPACITY: usize = 256;
/// Most deltas above a base that a reader accepts.
pub const MAX_CHAIN: usize = 64;

/// Highest level that a reader accepts: each has half as many nodes as the one below.
const MAX_LEVEL: u8 = 64;

const MAGIC: u32 = 0x4c42_7754;
const LOW_MIN: u8 = 1;
const HIGH_MAX: u8 = 2;
const HEAD_WORDS: usize = 4;
const LINE_WORDS: usize = LINE / 8;

// A reader learns a record's length from its first line; counts, depths and widths fit in their fields.
const _: () = assert!(size_of::<Head>() == HEAD_WORDS * 8 && HEAD_WORDS <= LINE_WORDS);
const _: () = assert!(MAX_CAPACITY <= u16::MAX as usize);
const _: () = assert!(MAX_CHAIN <= u16::MAX as usize);
const _: () = assert!(MAX_WIDTH <= u8::MAX as usize);

layout! {
    /// Head of a record.
    pub(super) struct Head: 32 {
        /// Marks a record.
        0 => pub magic: u32,
        /// Checksum of all words of the record, with this field 0.
        4 => pub sum: u32,
        /// See [`Kind`].
        8 => pub kind: u8,
        /// 0 for leaves, one more than the children's otherwise.
        9 => pub level: u8,
        /// Words in a key.
        10 => pub width: u8,
        /// Which fences are infinite.
        11 => pub flags: u8,
        /// Entries of a base; 1 in a delta.
        12 => pub count: u16,
        /// Deltas in the chain from here on, this one included.
        14 => pub depth: u16,
        /// The node's id: offset of its mapping word.
        16 => pub id: u64,
        /// See above.
        24 => pub link: u64,
    }
}

/// Kinds of records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Leaf = 1,
    Inner = 2,
    Insert = 3,
    Delete = 4,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Kind> {
        [Kind::Leaf, Kind::Inner, Kind::Insert, Kind::Delete].into_iter().find(|k| *k as u8 == byte)
    }

    /// True for the records that have another below them.
    pub fn is_delta(self) -> bool {
        matches!(self, Kind::Insert | Kind::Delete)
    }
}

/// A change of one entry of a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    Insert(Key, u64),
    Delete(Key),
}

/// What is wrong with a record.
pub(super) type Fault = &'static str;

/// A record as read, its head already checked.
pub(super) struct Record {
    pub head: Head,
    pub kind: Kind,
    words: Vec<u64>,
}

/// A block of shared memory: where and how long.
pub(super) type Block = (DataAddr, usize);

/// A node in DRAM. Look-ups touch the first fields only.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Node {
    /// Flat, `width` words per entry.
    pub keys: Vec<u64>,
    pub values: Vec<u64>,
    pub id: u64,
    pub width: usize,
    pub level: u8,
    /// Id of the right sibling, 0 for the last node of the level.
    pub next: u64,
    pub high: Fence,
    /// Every node further left has a high fence at or below this.
    pub low: Fence,
    /// The records that it was decoded from, newest first.
    pub chain: Vec<Block>,
}

fn lines_of(words: usize) -> usize {
    words.div_ceil(LINE_WORDS) * LINE_WORDS
}

fn payload_words(kind: Kind, width: usize, count: usize) -> usize {
    if kind.is_delta() { width + 1 } else { 2 * width + count * (width + 1) }
}

/// Order-sensitive mix of all words: finds torn, stale and overwritten records, not forged ones.
fn checksum(words: &[u64]) -> u32 {
    let mut sum = words.len() as u64;
    for (at, word) in words.iter().enumerate() {
        let word = if at == 0 { word & 0xffff_ffff } else { *word };
        sum = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        sum ^= sum >> 29;
    }
    (sum >> 32) as u32 ^ sum as u32
}

fn seal(mut head: Head, payload: impl FnOnce(&mut [u64])) -> Vec<u64> {
    let kind = Kind::from_byte(head.kind).expect("own record");
    assert!(usize::from(head.count) <= MAX_CAPACITY, "no reader accepts {} entries", head.count);
    assert!(usize::from(head.depth) <= MAX_CHAIN, "no reader accepts {} deltas", head.depth);
    let used = HEAD_WORDS + payload_words(kind, head.width.into(), head.count.into());
    let mut words = vec![0; lines_of(used)];
    payload(&mut words[HEAD_WORDS..used]);
    head.sum = 0;
    words[..HEAD_WORDS].as_mut_bytes().copy_from_slice(head.as_bytes());
    head.sum = checksum(&words);
    words[..HEAD_WORDS].as_mut_bytes().copy_from_slice(head.as_bytes());
    words
}

/// The record of one change on top of the chain that `upon` names.
pub(super) fn encode_delta(node: &Node, change: Change, upon: u64) -> Vec<u64> {
    let (kind, key, value) = match change {
        Change::Insert(key, value) => (Kind::Insert, key, value),
        Change::Delete(key) => (Kind::Delete, key, 0),
    };
    debug_assert_eq!(node.level, 0, "only leaves have deltas");
    debug_assert!(node.low <= Fence::At(key) && Fence::At(key) < node.high, "a reader refuses {key:?}");
    let head = Head {
        magic: MAGIC,
        sum: 0,
        kind: kind as u8,
        level: node.level,
        width: node.width as u8,
        flags: 0,
        count: 1,
        depth: node.chain.len() as u16,
        id: node.id,
        link: upon,
    };
    seal(head, |payload| {
        payload[..node.width].copy_from_slice(key.words(node.width));
        payload[node.width] = value;
    })
}

impl Record {
    /// Checks the head in the first line of a record and says how many words the record has.
    pub fn words_in(first_line: &[u64], width: usize) -> Result<usize, Fault> {
        let head = Head::read_from_bytes(first_line[..HEAD_WORDS].as_bytes()).map_err(|_| "short head")?;
        if head.magic != MAGIC {
            return Err("no magic");
        }
        let kind = Kind::from_byte(head.kind).ok_or("unknown kind")?;
        if usize::from(head.width) != width {
            return Err("key width of another tree");
        }
        let count = usize::from(head.count);
        if count > MAX_CAPACITY {
            return Err("too many entries");
        }
        Ok(lines_of(HEAD_WORDS + payload_words(kind, width, count)))
    }

    /// The record in these words, if nothing is wrong with it.
    pub fn parse(words: Vec<u64>, id: u64) -> Result<Record, Fault> {
        let head = Head::read_from_bytes(words[..HEAD_WORDS].as_bytes()).map_err(|_| "short head")?;
        let kind = Kind::from_byte(head.kind).ok_or("unknown kind")?;
        if checksum(&words) != head.sum {
            return Err("wrong checksum");
        }
        if head.id != id {
            return Err("record of another node");
        }
        if (kind == Kind::Inner) != (head.level > 0) {
            return Err("kind does not fit level");
        }
        if head.level > MAX_LEVEL {
            return Err("too many levels");
        }
        Ok(Record { head, kind, words })
    }

    fn payload(&self) -> &[u64] {
        &self.words[HEAD_WORDS..]
    }

    /// Bytes of the record in shared memory.
    pub fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    /// The change that a delta makes.
    pub fn change(&self) -> Change {
        let width = usize::from(self.head.width);
        let key = Key::new(&self.payload()[..width]);
        if self.kind == Kind::Insert {
            Change::Insert(key, self.payload()[width])
        } else {
            Change::Delete(key)
        }
    }

    /// The node that a base at `at` describes.
    pub fn node(&self, at: DataAddr) -> Result<Node, Fault> {
        let (width, count) = (usize::from(self.head.width), usize::from(self.head.count));
        let (low, rest) = self.payload().split_at(width);
        let (high, rest) = rest.split_at(width);
        let (keys, rest) = rest.split_at(count * width);
        let infinite = |flag, fence, words: &[u64]| {
            if self.head.flags & flag != 0 { fence } else { Fence::At(Key::new(words)) }
        };
        let node = Node {
            id: self.head.id,
            level: self.head.level,
            width,
            low: infinite(LOW_MIN, Fence::Min, low),
            high: infinite(HIGH_MAX, Fence::Max, high),
            next: self.head.link,
            keys: keys.to_vec(),
            values: rest[..count].to_vec(),
            chain: vec![(at, self.bytes())],
        };
        node.verify()?;
        Ok(node)
    }
}

impl Node {
    /// A node without entries and neighbours that covers all keys.
    pub fn empty(id: u64, level: u8, width: usize) -> Node {
        let (low, high) = (Fence::Min, Fence::Max);
        Node { id, level, width, low, high, next: 0, keys: vec![], values: vec![], chain: vec![] }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// The words of key `index`.
    #[inline]
    pub fn key(&self, index: usize) -> &[u64] {
        &self.keys[index * self.width..][..self.width]
    }

    /// The key `index` as a fence; the last one of an inner node is its high fence.
    pub fn bound(&self, index: usize) -> Fence {
        if self.level > 0 && index + 1 == self.len() {
            self.high
        } else {
            Fence::At(Key::new(self.key(index)))
        }
    }

    /// Position of a leaf's key, or where it belongs.
    #[inline]
    pub fn find(&self, key: &[u64]) -> Result<usize, usize> {
        let at = lower_bound(&self.keys, self.width, key);
        if at < self.len() && self.key(at) == key { Ok(at) } else { Err(at) }
    }

    /// Which child of an inner node leads to the target; the target is not beyond the high fence.
    #[inline]
    pub fn route(&self, target: &Target) -> usize {
        debug_assert!(self.level > 0);
        let inner = &self.keys[..self.keys.len() - self.width];
        match target {
            Target::At(key) => upper_bound(inner, self.width, key.words(self.width)),
            Target::Before(key) => lower_bound(inner, self.width, key.words(self.width)),
        }
    }

    /// Puts an entry at a position.
    pub fn put(&mut self, at: usize, key: &[u64], value: u64) {
        let word = at * self.width;
        debug_assert!(at <= self.len() && key.len() == self.width);
        debug_assert!(self.level > 0 || at == 0 || self.key(at - 1) < key, "keys ascend");
        debug_assert!(self.level > 0 || at == self.len() || key < self.key(at), "keys ascend");
        self.keys.splice(word..word, key.iter().copied());
        self.values.insert(at, value);
    }

    /// Takes the entry at a position out; an inner node whose last child goes ends where the one before it
    /// ends.
    pub fn take(&mut self, at: usize) -> u64 {
        if self.level > 0 && at + 1 == self.len() {
            assert!(self.len() > 1, "an inner node keeps a child");
            self.high = self.bound(at - 1);
        }
        let word = at * self.width;
        self.keys.drain(word..word + self.width);
        self.values.remove(at)
    }

    /// Sets the key of child `at` of an inner node, and the high fence if it is the last.
    pub fn set_bound(&mut self, at: usize, key: Key) {
        let width = self.width;
        debug_assert!(self.level > 0 && Fence::At(key) < self.bound(at), "a child's bound only sinks");
        if at + 1 == self.len() {
            self.high = Fence::At(key);
        }
        self.keys[at * width..][..width].copy_from_slice(key.words(width));
    }

    /// Makes a delta's change.
    pub fn apply(&mut self, change: Change) -> Result<(), Fault> {
        let width = self.width;
        let (Change::Insert(key, _) | Change::Delete(key)) = change;
        if Fence::At(key) < self.low || Fence::At(key) >= self.high {
            return Err("change outside the fences");
        }
        match change {
            Change::Insert(key, value) => {
                let at = self.find(key.words(width)).err().ok_or("insert of a key that is there")?;
                self.put(at, key.words(width), value);
            }
            Change::Delete(key) => {
                let at = self.find(key.words(width)).map_err(|_| "delete of a key that is not there")?;
                self.take(at);
            }
        }
        Ok(())
    }

    /// Splits off the entries from `at` on; they become the node `right_id` right of this one.
    pub fn split_off(&mut self, at: usize, right_id: u64) -> Node {
        assert!(0 < at && at < self.len());
        assert!(right_id != self.id && right_id != 0, "the right half is a node of its own");
        let width = self.width;
        let middle = if self.level > 0 { self.bound(at - 1) } else { self.bound(at) };
        let right = Node {
            id: right_id,
            level: self.level,
            width,
            low: middle,
            high: self.high,
            next: self.next,
            keys: self.keys.split_off(at * width),
            values: self.values.split_off(at),
            chain: vec![],
        };
        self.high = middle;
        self.next = right_id;
        right
    }

    /// The base record of this node.
    pub fn encode(&self) -> Vec<u64> {
        debug_assert_eq!(self.verify(), Ok(()));
        let width = self.width;
        let flag = |set, flag| if set { flag } else { 0 };
        let head = Head {
            magic: MAGIC,
            sum: 0,
            kind: if self.level > 0 { Kind::Inner } else { Kind::Leaf } as u8,
            level: self.level,
            width: width as u8,
            flags: flag(self.low == Fence::Min, LOW_MIN) | flag(self.high == Fence::Max, HIGH_MAX),
            count: self.len() as u16,
            depth: 0,
            id: self.id,
            link: self.next,
        };
        seal(head, |payload| {
            let (fences, entries) = payload.split_at_mut(2 * width);
            for (fence, words) in [self.low, self.high].into_iter().zip(fences.chunks_mut(width)) {
                if let Fence::At(key) = fence {
                    words.copy_from_slice(key.words(width));
                }
            }
            let (keys, values) = entries.split_at_mut(self.keys.len());
            keys.copy_from_slice(&self.keys);
            values.copy_from_slice(&self.values);
        })
    }

    /// Checks the invariants of this file.
    pub fn verify(&self) -> Result<(), Fault> {
        if self.low >= self.high {
            return Err("empty range");
        }
        if (self.high == Fence::Max) != (self.next == 0) {
            return Err("the last node has no sibling, and no other");
        }
        if self.level > 0 && self.len() == 0 {
            return Err("inner node without children");
        }
        let mut previous = None;
        for at in 0..self.len() {
            let bound = self.bound(at);
            let inside =
                if self.level > 0 { bound > self.low } else { bound >= self.low && bound < self.high };
            if !inside {
                return Err("key outside the fences");
            }
            if previous.is_some_and(|p| p >= bound) {
                return Err("keys do not ascend");
            }
            previous = Some(bound);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(width: usize, keys: std::ops::Range<u64>) -> Node {
        let mut node = Node::empty(64, 0, width);
        for k in keys {
            node.put(node.len(), &vec![k; width], k * 10);
        }
        node
    }

    fn parse(words: Vec<u64>, width: usize) -> Result<Node, Fault> {
        let len = Record::words_in(&words[..LINE_WORDS], width)?;
        assert_eq!(len, words.len());
        Record::parse(words, 64)?.node(DataAddr::new(4096))
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for width in 1..=8 {
            let mut left = leaf(width, 0..20);
            let right = left.split_off(12, 72);
            for node in [left, Node { id: 64, ..right }] {
                let back = parse(node.encode(), width).unwrap();
                let same = |n: &Node| (n.low, n.high, n.next, n.keys.clone(), n.values.clone(), n.level);
                assert_eq!(same(&back), same(&node));
            }
        }
    }

    #[test]
    fn every_damaged_word_is_noticed() {
        let words = leaf(2, 0..9).encode();
        for at in 0..words.len() {
            for bit in [0, 17, 40, 63] {
                let mut bad = words.clone();
                bad[at] ^= 1 << bit;
                let found = Record::words_in(&bad[..LINE_WORDS], 2).and_then(|len| {
                    bad.resize(len, 0);
                    Record::parse(bad, 64)
                });
                assert!(found.is_err(), "word {at} bit {bit}");
            }
        }
    }

    #[test]
    fn deltas_of_narrow_keys_are_one_line() {
        for width in 1..=8 {
            let change = Change::Insert(Key::new(&vec![7; width]), 70);
            let words = encode_delta(&leaf(width, 0..3), change, 99);
            assert_eq!(words.len() == LINE_WORDS, width <= 3);
            let record = Record::parse(words, 64).unwrap();
            assert_eq!((record.change(), record.head.link), (change, 99));
        }
    }

    #[test]
    fn an_inner_node_ends_at_its_last_child() {
        let mut inner = Node::empty(64, 1, 1);
        inner.put(0, &[10], 100);
        inner.put(1, &[20], 200);
        inner.put(2, &[0], 300);
        let key = |k| Target::At(Key::new(&[k]));
        let before = |k| Target::Before(Key::new(&[k]));
        assert_eq!([0, 9, 10, 19, 20, 99].map(|k| inner.route(&key(k))), [0, 0, 1, 1, 2, 2]);
        assert_eq!([0, 10, 11, 20, 21].map(|k| inner.route(&before(k))), [0, 0, 1, 1, 2]);
        let mut left = inner.clone();
        let right = left.split_off(2, 72);
        assert_eq!((left.high, right.low, right.high), (right.low, Fence::At(Key::new(&[20])), Fence::Max));
        assert_eq!(left.take(1), 200);
        assert_eq!(left.high, Fence::At(Key::new(&[10])));
        assert_eq!(left.verify(), Ok(()));
    }
}
