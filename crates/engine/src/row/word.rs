//! The tuple word: all coherence and lock state of one shared row, in 8 bytes of sync memory.
//!
//! ```text
//!  bits  0-33  row block offset / 64 (1 TiB)
//!       34-41  reader hosts                          (34-49 with 9 to 16 hosts)
//!       42-49  valid: hosts that may trust their cached copy
//!          50  W: write-locked        51-54  writing host
//!          55  next_real                 56  prev_real
//!          57  modified since move-in (the owner's DRAM copy is behind)
//!          58  second chance (CLOCK)     59  live
//!       60-61  generation             62-63  epoch tag (zero until there is a log)
//! ```
//!
//! Invariants:
//! 1. Every change of the word is one compare-and-swap; nothing is latched, and every holder is a named host.
//! 2. W excludes reader bits; both need `live`.
//! 3. A host's valid bit is set only by that host, while it holds the row (the owner's at birth as well), and
//!    cleared by the release of a write by another host.
//! 4. `next_real` says: the next key of the shared index is the next key of the owner's partition too, so a
//!    scanner that holds both rows holds the gap. It is set late (both neighbours published) and cleared
//!    early. `prev_real` mirrors it.
//! 5. With 9 to 16 hosts a second word beside the first holds the valid bits. It changes only under the row's
//!    lock.
//!
//! The layout follows Tigon (OSDI'25, section 4.1) with holders named and the latch and reader count gone;
//! compare docs/protocols/shared-rows.md. This file knows bits, not memory.

use liger_fabric::{DataAddr, HostId, LINE};

const OFFSET_BITS: u32 = 34;
const READERS: u32 = 34;
const VALID: u32 = 42;
const WRITE: u64 = 1 << 50;
const WRITER: u32 = 51;
const NEXT_REAL: u64 = 1 << 55;
const PREV_REAL: u64 = 1 << 56;
const MODIFIED: u64 = 1 << 57;
const SECOND_CHANCE: u64 = 1 << 58;
const LIVE: u64 = 1 << 59;
const GENERATION: u32 = 60;

/// Most hosts whose bits fit in one word.
pub const NARROW_HOSTS: u8 = 8;

/// How tuple words are laid out in a pod: one word for up to 8 hosts, two for up to 16.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WordFormat {
    wide: bool,
}

impl WordFormat {
    /// The format of a pod with `hosts` hosts.
    pub const fn for_hosts(hosts: u8) -> Self {
        Self { wide: hosts > NARROW_HOSTS }
    }

    /// True when the valid bits live in a second word.
    pub const fn is_wide(self) -> bool {
        self.wide
    }

    const fn reader_mask(self) -> u64 {
        if self.wide { 0xffff << READERS } else { 0xff << READERS }
    }
}

/// A value of a tuple word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TupleWord(pub u64);

impl TupleWord {
    /// A live, unlocked word for the row block at `row`.
    ///
    /// # Panics
    /// If the block is not line-aligned or lies beyond 1 TiB.
    pub fn new(row: DataAddr) -> Self {
        assert!(row.is_line_aligned() && row.offset() / (LINE as u64) < 1 << OFFSET_BITS);
        Self((row.offset() / LINE as u64) | LIVE)
    }

    /// The row block.
    pub fn row(self) -> DataAddr {
        DataAddr::new((self.0 & ((1 << OFFSET_BITS) - 1)) * LINE as u64)
    }

    /// False once the row has left shared memory.
    pub fn is_live(self) -> bool {
        self.0 & LIVE != 0
    }

    /// The host that holds the write lock.
    pub fn writer(self) -> Option<HostId> {
        (self.0 & WRITE != 0).then_some(HostId((self.0 >> WRITER & 0xf) as u8))
    }

    /// Bitmap of hosts that hold the read lock.
    pub fn readers(self, format: WordFormat) -> u16 {
        ((self.0 & format.reader_mask()) >> READERS) as u16
    }

    /// True when nobody holds the row.
    pub fn is_free(self, format: WordFormat) -> bool {
        self.0 & (WRITE | format.reader_mask()) == 0
    }

    /// True when `host` holds the row, in whatever way.
    pub fn is_held_by(self, format: WordFormat, host: HostId) -> bool {
        self.writer() == Some(host) || self.readers(format) & 1 << host.0 != 0
    }

    /// With `host` added to the readers.
    pub fn with_reader(self, host: HostId) -> Self {
        Self(self.0 | 1 << (READERS + u32::from(host.0)))
    }

    /// With `host` taken from the readers.
    pub fn without_reader(self, host: HostId) -> Self {
        Self(self.0 & !(1 << (READERS + u32::from(host.0))))
    }

    /// Write-locked by `host`; its own reader bit, if any, merges into the write lock.
    pub fn with_writer(self, host: HostId) -> Self {
        let cleared = self.without_reader(host).0 & !(0xf << WRITER);
        Self(cleared | WRITE | u64::from(host.0) << WRITER)
    }

    /// Not write-locked.
    pub fn without_writer(self) -> Self {
        Self(self.0 & !(WRITE | 0xf << WRITER))
    }

    /// One-word format: hosts whose cached copy is current.
    pub fn valid(self) -> u8 {
        (self.0 >> VALID) as u8
    }

    /// One-word format: with the valid bitmap replaced.
    pub fn with_valid(self, valid: u8) -> Self {
        Self(self.0 & !(0xff << VALID) | u64::from(valid) << VALID)
    }

    /// True when the next key of the shared index is the next key of the partition.
    pub fn next_real(self) -> bool {
        self.0 & NEXT_REAL != 0
    }

    /// True when the previous key of the shared index is the previous key of the partition.
    pub fn prev_real(self) -> bool {
        self.0 & PREV_REAL != 0
    }

    /// With `next_real` set or cleared.
    pub fn with_next_real(self, real: bool) -> Self {
        Self(if real { self.0 | NEXT_REAL } else { self.0 & !NEXT_REAL })
    }

    /// With `prev_real` set or cleared.
    pub fn with_prev_real(self, real: bool) -> Self {
        Self(if real { self.0 | PREV_REAL } else { self.0 & !PREV_REAL })
    }

    /// True when the shared row has changes that the owner's DRAM copy lacks.
    pub fn is_modified(self) -> bool {
        self.0 & MODIFIED != 0
    }

    /// With the modified bit set or cleared.
    pub fn with_modified(self, modified: bool) -> Self {
        Self(if modified { self.0 | MODIFIED } else { self.0 & !MODIFIED })
    }

    /// True when the row was locked since the CLOCK hand last passed.
    pub fn second_chance(self) -> bool {
        self.0 & SECOND_CHANCE != 0
    }

    /// With the CLOCK bit set or cleared.
    pub fn with_second_chance(self, used: bool) -> Self {
        Self(if used { self.0 | SECOND_CHANCE } else { self.0 & !SECOND_CHANCE })
    }

    /// What the word becomes when its row leaves: dead, and of the next generation.
    pub fn dead(self) -> Self {
        let generation = ((self.0 >> GENERATION & 3) + 1) & 3;
        Self(generation << GENERATION)
    }

    /// A live word for `row` in the place of this dead one.
    pub fn reborn(self, row: DataAddr) -> Self {
        Self(Self::new(row).0 | self.0 & 3 << GENERATION)
    }
}

impl std::fmt::Debug for TupleWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[row {:#x}", self.row().offset())?;
        if !self.is_live() {
            write!(f, " dead")?;
        }
        match self.writer() {
            Some(host) => write!(f, " W{}", host.0)?,
            None => write!(f, " R{:08b}", self.0 >> READERS & 0xff)?,
        }
        let flags = [
            (self.next_real(), " next"),
            (self.prev_real(), " prev"),
            (self.is_modified(), " modified"),
            (self.second_chance(), " used"),
        ];
        for (_, name) in flags.iter().filter(|(on, _)| *on) {
            f.write_str(name)?;
        }
        write!(f, " valid {:08b}]", self.valid())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_overlap() {
        let narrow = WordFormat::for_hosts(8);
        let row = DataAddr::new(((1 << OFFSET_BITS) - 1) * 64);
        let w = TupleWord::new(row).with_reader(HostId(7)).with_valid(0xff);
        assert_eq!((w.row(), w.readers(narrow), w.valid()), (row, 1 << 7, 0xff));
        assert_eq!(w.writer(), None);
        let w = w.without_reader(HostId(7)).with_writer(HostId(7));
        assert_eq!((w.writer(), w.readers(narrow), w.valid()), (Some(HostId(7)), 0, 0xff));
        let w = w.with_next_real(true).with_prev_real(true).with_modified(true).with_second_chance(true);
        assert!(w.is_live() && w.next_real() && w.prev_real() && w.is_modified() && w.second_chance());
        assert_eq!(w.without_writer().with_valid(0).row(), row);
    }

    #[test]
    fn sixteen_hosts_have_a_reader_bit_each() {
        let wide = WordFormat::for_hosts(16);
        let mut w = TupleWord::new(DataAddr::new(64));
        for host in 0..16 {
            w = w.with_reader(HostId(host));
        }
        assert_eq!((w.readers(wide), w.writer()), (0xffff, None));
        assert!(!w.is_free(wide));
    }

    #[test]
    fn a_dead_word_keeps_nothing_but_its_generation() {
        let w = TupleWord::new(DataAddr::new(640)).with_writer(HostId(3)).with_valid(8).dead();
        assert!(!w.is_live() && w.writer().is_none());
        assert_eq!(w.0, 1 << GENERATION);
        assert_eq!(w.reborn(DataAddr::new(64)).dead().0, 2 << GENERATION);
    }
}
