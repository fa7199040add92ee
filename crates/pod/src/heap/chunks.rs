//! The table of chunks: one sync word per chunk says whose it is, so that a dead host's chunks can be found.
//!
//! ```text
//! bit 0      1..8    8..16   16..24   24..40        40..48        48..64
//! owned      0       class   host     incarnation   size class    0
//! ```
//!
//! A word of 0 is a chunk never used. A free chunk keeps the class of its last use: blocks of out-of-place
//! nodes are read without invalidating, so they may only lie where no host can have cached something else
//! (`Class::may_follow`). A word that no host writes is damage, and its chunk is nobody's to use.

use liger_fabric::{Cx, DataAddr, Fabric, HostId, LINE, SyncAddr};

use super::sizes::SIZES;
use crate::error::{PodError, damaged};

/// Class of a chunk; the number is the index of its pool and of its words in the heap lines of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Class {
    Tuple = 0,
    Mapping = 1,
    Row = 2,
    Node = 3,
    Scratch = 4,
    /// Words that are cells of rows (`cells`).
    Cells = 5,
    Loose = 6,
}

impl Class {
    pub const ALL: [Class; 7] =
        [Class::Tuple, Class::Mapping, Class::Row, Class::Node, Class::Scratch, Class::Cells, Class::Loose];
    pub const BLOCKS: [Class; 4] = [Class::Row, Class::Node, Class::Scratch, Class::Loose];

    pub fn is_word(self) -> bool {
        matches!(self, Class::Tuple | Class::Mapping | Class::Cells)
    }

    pub fn name(self) -> &'static str {
        ["tuple word", "mapping word", "row", "node", "scratch block", "tuple cell", "loose row"]
            [self as usize]
    }

    /// Whether a chunk last used for `last` (`None`: never) may be used for `self`. Row and scratch lines may
    /// be stale in any host's cache; a node's readers would believe them.
    fn may_follow(self, last: Option<Class>) -> bool {
        last.is_none_or(|last| self != Class::Node || last == Class::Node)
    }
}

/// What a chunk word says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkWord {
    /// Owner and its incarnation; none if the chunk is free.
    pub owner: Option<(HostId, u16)>,
    /// Present or last class; none if never used.
    pub class: Option<Class>,
    /// Size class of the blocks in it; 0 for words.
    pub size: u8,
}

impl ChunkWord {
    /// `None`: it is no chunk's word.
    pub fn decode(word: u64) -> Option<Self> {
        let owner = (word & 1 != 0).then_some((HostId((word >> 16) as u8), (word >> 24) as u16));
        let class = match (word >> 8) as u8 {
            0 => None,
            number => Some(*Class::ALL.get(usize::from(number) - 1)?),
        };
        let it = Self { owner, class, size: (word >> 40) as u8 };
        let fits = usize::from(it.size) < SIZES && (class.is_some() || owner.is_none());
        (fits && it.encode() == word).then_some(it)
    }

    pub fn encode(self) -> u64 {
        let class = self.class.map_or(0, |c| c as u64 + 1) << 8 | u64::from(self.size) << 40;
        self.owner.map_or(class, |(host, incarnation)| {
            class | 1 | u64::from(host.0) << 16 | u64::from(incarnation) << 24
        })
    }
}

/// One of the two tables of chunks, and the memory it divides.
pub struct Chunks {
    pub table: SyncAddr,
    pub count: u64,
    pub start: u64,
    pub bytes: u64,
    /// Hosts of the pod, whose chunks they are.
    pub hosts: u8,
}

impl Chunks {
    /// First byte of a chunk.
    pub fn offset(&self, chunk: u32) -> u64 {
        debug_assert!(u64::from(chunk) < self.count, "chunk {chunk} of {}", self.count);
        self.start + u64::from(chunk) * self.bytes
    }

    /// The chunk around `offset`.
    pub fn around(&self, offset: u64) -> u32 {
        let chunk = offset.checked_sub(self.start).map(|distance| distance / self.bytes);
        chunk.filter(|&c| c < self.count).unwrap_or_else(|| panic!("{offset:#x} is not in this heap")) as u32
    }

    /// True if `offset` lies in the memory that it divides.
    pub fn contains(&self, offset: u64) -> bool {
        (self.start..self.start + self.count * self.bytes).contains(&offset)
    }

    /// True if all of a block of so many bytes lies in one chunk, on whole lines.
    pub fn may_hold(&self, offset: u64, len: u64) -> bool {
        let aligned = offset.is_multiple_of(LINE as u64);
        aligned && self.contains(offset) && (offset - self.start) % self.bytes + len <= self.bytes
    }

    /// Owner of the chunk around `offset`, and its incarnation; none if there is no such chunk.
    ///
    /// # Errors
    /// As [`Chunks::word`].
    pub fn owner_of<F: Fabric>(&self, cx: &Cx<F>, offset: u64) -> Result<Option<(HostId, u16)>, PodError> {
        if !self.contains(offset) {
            return Ok(None);
        }
        Ok(self.word(cx, self.around(offset))?.owner)
    }

    /// What the word of a chunk says.
    ///
    /// # Errors
    /// [`PodError::Damaged`] if no host has written it.
    pub fn word<F: Fabric>(&self, cx: &Cx<F>, chunk: u32) -> Result<ChunkWord, PodError> {
        let word = cx.load(self.table.word(chunk.into()));
        self.decode(word).ok_or_else(|| damaged("the word of a chunk", word, 0))
    }

    fn decode(&self, word: u64) -> Option<ChunkWord> {
        ChunkWord::decode(word).filter(|it| it.owner.is_none_or(|(host, _)| host.0 < self.hosts))
    }

    /// Claims one of the first `within` chunks that is free and `suitable`, looking from `cursor` on and
    /// first among those last used alike (they need no other class's room); leaves the cursor behind it.
    /// Returns what its word said, too. A chunk whose word is damaged is not free.
    pub fn claim<F: Fabric>(
        &self,
        cx: &Cx<F>,
        (cursor, within): (&mut u64, u64),
        mine: ChunkWord,
        suitable: impl Fn(u32) -> bool,
    ) -> Option<(u32, ChunkWord)> {
        let class = mine.class.expect("a claim names its class");
        assert!(mine.owner.is_some(), "a claim names its owner");
        assert!(class.is_word() || usize::from(mine.size) < SIZES, "size class {} of {SIZES}", mine.size);
        assert!((1..=self.count).contains(&within), "{within} of {} chunks", self.count);
        for alike in [true, false] {
            for step in 0..within {
                let chunk = (*cursor + step) % within;
                let at = self.table.word(chunk);
                let seen = cx.load(at);
                let Some(last) = self.decode(seen) else { continue };
                let fits = if alike {
                    last.class.is_none_or(|c| c == class)
                } else {
                    class.may_follow(last.class) || cx.sabotaged("heap.nodes-keep-their-chunks")
                };
                let free = last.owner.is_none() && fits && suitable(chunk as u32);
                if free && cx.compare_exchange(at, seen, mine.encode()).is_ok() {
                    *cursor = (chunk + 1) % within;
                    return Some((chunk as u32, last));
                }
            }
        }
        None
    }

    /// Puts another owner into a chunk's word: a successor takes it over from the dead one.
    pub fn hand_over<F: Fabric>(&self, cx: &Cx<F>, chunk: u32, theirs: ChunkWord, mine: ChunkWord) {
        let goes_over = mine.owner.is_none() || mine.class == theirs.class;
        assert!(goes_over, "chunk {chunk} goes over with what is in it: {theirs:?} to {mine:?}");
        assert_ne!(theirs.owner, mine.owner, "chunk {chunk} gets another owner");
        let taken = cx.compare_exchange(self.table.word(chunk.into()), theirs.encode(), mine.encode());
        assert!(taken.is_ok(), "chunk {chunk} has another owner, too: {taken:x?}");
    }

    /// Gives a chunk of free blocks back for any host to claim. This host's cache keeps no line of it: a
    /// change left in it could later be evicted over the next owner's bytes. (The next owner need not
    /// invalidate: of a block, it reads only what it wrote.)
    pub fn release<F: Fabric>(&self, cx: &Cx<F>, chunk: u32, mine: ChunkWord) {
        assert!(mine.class.is_some_and(|class| !class.is_word()), "only chunks of blocks are given back");
        let (at, len) = (DataAddr::new(self.offset(chunk)), self.bytes as usize);
        super::with_free(cx, at, len, || {
            cx.invalidate(at, len);
            cx.fence();
        });
        let free = ChunkWord { owner: None, ..mine };
        let released = cx.compare_exchange(self.table.word(chunk.into()), mine.encode(), free.encode());
        assert!(released.is_ok(), "chunk {chunk} was taken from its owner: {released:x?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Numbers;

    #[test]
    fn words_say_what_was_put_in() {
        assert_eq!(ChunkWord::decode(0), Some(ChunkWord { owner: None, class: None, size: 0 }));
        for class in Class::ALL {
            for owner in [None, Some((HostId(15), 0xfedc)), Some((HostId(0), 0))] {
                let word = ChunkWord { owner, class: Some(class), size: 39 };
                assert_eq!(ChunkWord::decode(word.encode()), Some(word));
            }
        }
    }

    #[test]
    fn words_that_nobody_writes_are_none() {
        let mut numbers = Numbers(7);
        let whole = |word| ChunkWord::decode(word).inspect(|it| assert_eq!(it.encode(), word));
        for class in 0..=u8::MAX {
            for size in 0..=u8::MAX {
                let free = u64::from(class) << 8 | u64::from(size) << 40;
                assert_eq!(whole(free).is_some(), usize::from(class) <= 7 && usize::from(size) < SIZES);
                let owned = whole(free | 1 | u64::from(numbers.draw() as u8) << 16);
                assert_eq!(owned.is_some(), (1..=7).contains(&class) && usize::from(size) < SIZES);
            }
        }
        for bit in 0..64 {
            whole(numbers.draw());
            let flipped = whole(0x2700_0302_0101 ^ 1 << bit);
            assert!(!(1..8).contains(&bit) && bit < 48 || flipped.is_none(), "bit {bit}");
        }
    }

    #[test]
    fn only_nodes_are_particular_about_their_past() {
        for class in Class::ALL {
            assert!(class.may_follow(None));
            assert!(class.may_follow(Some(class)));
            assert_eq!(class.may_follow(Some(Class::Row)), class != Class::Node);
        }
    }
}
