//! The tuple cell: all coherence and lock state of one shared row.
//!
//! ```text
//! in pods of up to 8 hosts, three in a sync word (bits 0, 21 and 42 on; bit 63 is free)
//!   bits  0-7   holders: reader hosts, or the writing one     8-15  valid: hosts that may trust their copy
//!        16     open: live and not write-locked               17    next_real      18  prev_real
//!        19     modified since move-in (the owner's DRAM copy is behind)
//!        20     second chance (CLOCK)
//! in pods of 9 to 16 hosts, one
//!   bits  0-15  holders     16-31  valid     32-36  the five flags
//!
//!   open, no holder: live and free        open, holders: read-locked
//!   not open, one holder: write-locked    0: dead
//!   modified, nothing else: dead, and reserved: an index entry leads here that could not be taken out
//! ```
//!
//! Invariants:
//! 1. Every change of a cell is one compare-and-swap of its word, which changes no other cell; nothing is
//!    latched, and every holder is a named host.
//! 2. A write lock excludes readers; both need a live row. A dead cell is 0.
//! 3. A host's valid bit is set only by that host, while it holds the row (the owner's at birth as well), and
//!    cleared by the release of a write by another host.
//! 4. `next_real` says: the next key of the shared index is the next key of the owner's partition too, so a
//!    scanner that holds both rows holds the gap. It is set late (both neighbours published) and cleared
//!    early. `prev_real` mirrors it.
//!
//! The cell is after Tigon's word of 8 bytes for each row (OSDI'25, section 4.1), with holders named, the
//! latch and the reader count gone, and no place of the block: that is bound to the cell (`liger_pod::heap`).
//! Compare docs/protocols/shared-rows.md. This file knows bits, not memory.

use liger_fabric::HostId;
use liger_pod::plan::cells_per_word;

/// Bits of a cell, where several fit in a word.
const NARROW_BITS: u32 = 21;

/// How cells lie in the words of a pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellFormat {
    wide: bool,
}

impl CellFormat {
    /// The format of a pod with `hosts` hosts.
    pub const fn for_hosts(hosts: u8) -> Self {
        Self { wide: cells_per_word(hosts) == 1 }
    }

    /// The cell at `place` (0 to 2) of a word.
    pub const fn cell(self, word: u64, place: u32) -> TupleCell {
        if self.wide {
            return TupleCell(word);
        }
        let cell = word >> (place * NARROW_BITS);
        TupleCell(cell & 0xff | (cell >> 8 & 0xff) << VALID | (cell >> 16 & 0x1f) << FLAGS)
    }

    /// The word with the cell at `place` replaced.
    pub const fn with_cell(self, word: u64, place: u32, cell: TupleCell) -> u64 {
        if self.wide {
            return cell.0;
        }
        let (at, cell) = (place * NARROW_BITS, cell.0);
        let bits = cell & 0xff | (cell >> VALID & 0xff) << 8 | (cell >> FLAGS & 0x1f) << 16;
        word & !(((1 << NARROW_BITS) - 1) << at) | bits << at
    }
}

const VALID: u32 = 16;
const FLAGS: u32 = 32;
const HOLDERS: u64 = (1 << VALID) - 1;
const OPEN: u64 = 1 << FLAGS;
const NEXT_REAL: u64 = 2 << FLAGS;
const PREV_REAL: u64 = 4 << FLAGS;
const MODIFIED: u64 = 8 << FLAGS;
const SECOND_CHANCE: u64 = 16 << FLAGS;

/// What a cell says, with places for 16 hosts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TupleCell(u64);

impl TupleCell {
    /// The cell of a row that nobody holds, whose copy nobody may trust.
    pub const LIVE: Self = Self(OPEN);
    /// The cell of no row.
    pub const DEAD: Self = Self(0);
    /// The cell of no row, where none may begin: an entry of an index leads there, of a row that has left.
    pub const RESERVED: Self = Self(MODIFIED);

    const fn bit(host: HostId) -> u64 {
        1 << host.0
    }

    const fn with(self, flag: u64, on: bool) -> Self {
        Self(if on { self.0 | flag } else { self.0 & !flag })
    }

    /// False once the row has left shared memory.
    pub const fn is_live(self) -> bool {
        self.0 & (OPEN | HOLDERS) != 0
    }

    const fn is_open(self) -> bool {
        self.0 & OPEN != 0
    }

    /// The host that holds the write lock.
    pub fn writer(self) -> Option<HostId> {
        let written = !self.is_open() && self.is_live();
        debug_assert!(!written || (self.0 & HOLDERS).is_power_of_two(), "one host writes: {:x}", self.0);
        written.then(|| HostId((self.0 & HOLDERS).trailing_zeros() as u8))
    }

    /// Bitmap of hosts that hold the read lock.
    pub const fn readers(self) -> u16 {
        if self.is_open() { (self.0 & HOLDERS) as u16 } else { 0 }
    }

    /// Bitmap of hosts that hold the row, in whatever way.
    pub const fn holders(self) -> u16 {
        (self.0 & HOLDERS) as u16
    }

    /// True when nobody holds the row.
    pub const fn is_free(self) -> bool {
        self.holders() == 0
    }

    /// True when `host` holds the row, in whatever way.
    pub const fn is_held_by(self, host: HostId) -> bool {
        self.0 & Self::bit(host) != 0
    }

    /// With `host` added to the readers.
    pub const fn with_reader(self, host: HostId) -> Self {
        debug_assert!(self.is_open(), "a row that is written, or is none, has no readers");
        Self(self.0 | Self::bit(host))
    }

    /// With `host` taken from the readers.
    pub const fn without_reader(self, host: HostId) -> Self {
        if self.is_open() { Self(self.0 & !Self::bit(host)) } else { self }
    }

    /// Write-locked by `host`; its own reader bit, if any, merges into the write lock.
    pub const fn with_writer(self, host: HostId) -> Self {
        debug_assert!(self.is_open(), "a row has one writer");
        Self(self.0 & !(HOLDERS | OPEN) | Self::bit(host))
    }

    /// Live, and not write-locked.
    pub const fn without_writer(self) -> Self {
        if self.is_open() { self } else { Self(self.0 & !HOLDERS | OPEN) }
    }

    /// Hosts whose cached copy is current.
    pub const fn valid(self) -> u16 {
        (self.0 >> VALID) as u16
    }

    /// With the valid bitmap replaced.
    pub const fn with_valid(self, valid: u16) -> Self {
        Self(self.0 & !(0xffff << VALID) | (valid as u64) << VALID)
    }

    /// True when the next key of the shared index is the next key of the partition.
    pub const fn next_real(self) -> bool {
        self.0 & NEXT_REAL != 0
    }

    /// True when the previous key of the shared index is the previous key of the partition.
    pub const fn prev_real(self) -> bool {
        self.0 & PREV_REAL != 0
    }

    /// With `next_real` set or cleared.
    pub const fn with_next_real(self, real: bool) -> Self {
        self.with(NEXT_REAL, real)
    }

    /// With `prev_real` set or cleared.
    pub const fn with_prev_real(self, real: bool) -> Self {
        self.with(PREV_REAL, real)
    }

    /// True when the shared row has changes that the owner's DRAM copy lacks.
    pub const fn is_modified(self) -> bool {
        self.0 & MODIFIED != 0
    }

    /// With the modified bit set or cleared.
    pub const fn with_modified(self, modified: bool) -> Self {
        self.with(MODIFIED, modified)
    }

    /// True when the row was locked since the CLOCK hand last passed.
    pub const fn second_chance(self) -> bool {
        self.0 & SECOND_CHANCE != 0
    }

    /// With the CLOCK bit set or cleared.
    pub const fn with_second_chance(self, used: bool) -> Self {
        self.with(SECOND_CHANCE, used)
    }
}

impl std::fmt::Debug for TupleCell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.is_live(), self.writer()) {
            (false, _) => write!(f, "[dead")?,
            (true, Some(host)) => write!(f, "[W{}", host.0)?,
            (true, None) => write!(f, "[R{:08b}", self.readers())?,
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

    /// Cells in all states, of hosts 0 to `hosts` - 1.
    fn cells(hosts: u8) -> Vec<TupleCell> {
        let last = HostId(hosts - 1);
        let all = (0..hosts).fold(TupleCell::LIVE, |cell, host| cell.with_reader(HostId(host)));
        let flagged = |cell: TupleCell| cell.with_next_real(true).with_prev_real(true).with_modified(true);
        let valid = ((1u32 << hosts) - 1) as u16;
        let mut cells = vec![TupleCell::DEAD, TupleCell::LIVE, all, TupleCell::LIVE.with_writer(last)];
        cells.extend([flagged(all).with_second_chance(true).with_valid(valid), flagged(cells[3])]);
        cells
    }

    #[test]
    fn a_cell_is_free_read_write_locked_or_dead() {
        let states = |cell: TupleCell| (cell.is_live(), cell.readers(), cell.writer(), cell.holders());
        let host = HostId(15);
        let read = TupleCell::LIVE.with_reader(host).with_reader(HostId(2));
        let written = read.without_reader(HostId(2)).with_writer(host);
        assert_eq!(states(TupleCell::DEAD), (false, 0, None, 0));
        assert_eq!(states(TupleCell::RESERVED), (false, 0, None, 0));
        assert_eq!(states(TupleCell::LIVE), (true, 0, None, 0));
        assert_eq!(states(read), (true, 1 << 15 | 4, None, 1 << 15 | 4));
        assert_eq!(states(written), (true, 0, Some(host), 1 << 15));
        assert_eq!(written.without_reader(host), written, "a writer is no reader");
        assert_eq!(written.without_writer(), TupleCell::LIVE);
        assert_eq!(read.without_writer(), read);
        assert!(read.is_held_by(host) && written.is_held_by(host) && !written.is_held_by(HostId(0)));
        assert!(TupleCell::LIVE.with_valid(0xffff).is_free() && TupleCell::DEAD.is_free());
    }

    #[test]
    fn cells_of_one_word_are_apart() {
        for hosts in [1, 8, 9, 16] {
            let format = CellFormat::for_hosts(hosts);
            let places = cells_per_word(hosts) as u32;
            for (i, &cell) in cells(hosts).iter().enumerate() {
                for place in 0..places {
                    let mut word = 0;
                    let others = (0..places).filter(|other| *other != place);
                    others.clone().for_each(|other| word = format.with_cell(word, other, cells(hosts)[4]));
                    let word = format.with_cell(word, place, cell);
                    assert_eq!(format.cell(word, place), cell, "cell {i} of {hosts} hosts at {place}");
                    assert!(others.into_iter().all(|other| format.cell(word, other) == cells(hosts)[4]));
                    let word = format.with_cell(word, place, TupleCell::DEAD);
                    assert_eq!(format.cell(word, place), TupleCell::DEAD);
                }
            }
        }
        let narrow = CellFormat::for_hosts(8);
        assert_eq!((0..3).fold(0, |word, place| narrow.with_cell(word, place, cells(8)[4])), u64::MAX >> 1);
    }
}
