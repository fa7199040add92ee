//! The rows of YCSB: ten fields of 100 bytes that follow from the key and from how often the row was changed.
//!
//! 1. The first `change` bytes of the fields belong to the number of updates in the row, the others to none:
//!    a row that is put together from two versions, or from two rows, is not whole.
//! 2. Filling and checking cost a multiplication for each 8 bytes, and no table: Tigon's artifact draws every
//!    character at random, which is what its write-heavy runs mostly spend their time on.

use liger_engine::{Bytes, Col, Key, KeyRange, Row, RowMut, table};

table! {
    /// The one table. Partition by `P`.
    pub mod usertable: "usertable" {
        P: SmallInt,
        ID: Int,
        UPDATES: Int,
        F0: Bytes<100>,
        F1: Bytes<100>,
        F2: Bytes<100>,
        F3: Bytes<100>,
        F4: Bytes<100>,
        F5: Bytes<100>,
        F6: Bytes<100>,
        F7: Bytes<100>,
        F8: Bytes<100>,
        F9: Bytes<100>,
    }
    primary key (P, ID);
}

use usertable::*;

/// The fields.
const FIELDS: [Col<Bytes<100>>; 10] = [F0, F1, F2, F3, F4, F5, F6, F7, F8, F9];
/// Bytes of a field, and of a field with its length.
const FIELD: usize = 100;
const SIZED: usize = FIELD + 2;
/// Bytes of all fields.
pub const PAYLOAD: u16 = 1000;
/// Bytes of a row from its counter on.
const TAIL: usize = 4 + FIELDS.len() * SIZED;

/// Which row it is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Id {
    /// Its partition.
    pub partition: u16,
    /// Its number in its home.
    pub number: u32,
}

/// Rows with consecutive numbers that are in one partition: a home deals them out to its partitions.
const BLOCK: u32 = 32;

/// How rows lie in partitions: home h, of `homes`, has partitions h, h + `homes`, h + 2 `homes`, ...
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placing {
    /// Homes: one for each host.
    pub homes: u16,
    /// Partitions of a home.
    pub pieces: u16,
}

impl Placing {
    /// The row with this number in a home.
    #[inline]
    pub fn id(self, home: u16, number: u32) -> Id {
        let piece = number / BLOCK % u32::from(self.pieces);
        Id { partition: home + self.homes * piece as u16, number }
    }

    /// The home of a row, if the row is where it belongs.
    pub fn home_of(self, id: Id) -> Option<u16> {
        let home = id.partition % self.homes;
        (self.id(home, id.number) == id).then_some(home)
    }

    /// So many consecutive numbers of a home as runs of rows of one partition each: the first, and how many.
    pub fn runs(self, home: u16, from: u32, rows: u32) -> impl Iterator<Item = (Id, u32)> {
        let (mut at, end) = (from, from + rows);
        std::iter::from_fn(move || {
            let upto = (at - at % BLOCK + BLOCK).min(end);
            let run = (at < end).then(|| (self.id(home, at), upto - at));
            at = upto;
            run
        })
    }
}

impl Id {
    /// Its key, one word.
    #[inline]
    pub fn key(self) -> Key {
        Key::build().i16(self.partition as i16).i32(self.number as i32).finish()
    }

    /// The keys of so many rows from this one on.
    pub fn range(self, rows: u32) -> KeyRange {
        KeyRange { low: self.key(), high: Some(Id { number: self.number + rows, ..self }.key()) }
    }

    fn word(self) -> u64 {
        u64::from(self.partition) << 32 | u64::from(self.number)
    }

    /// A hash of 32 bits, for sums over sets of rows.
    pub fn hash(self) -> u64 {
        base(self, u32::MAX) >> 32
    }
}

/// What the fields of a version are made from (the finalizer of SplitMix64).
#[inline]
fn base(id: Id, updates: u32) -> u64 {
    let mut z = id.word().wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (u64::from(updates) << 17);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A field of the version with this base.
#[inline]
fn field(base: u64, number: usize) -> [u8; FIELD] {
    let mut bytes = [0; FIELD];
    let mut word = base.wrapping_add((number as u64) << 56);
    for piece in bytes.chunks_mut(8) {
        word = word.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
        piece.copy_from_slice(&word.to_le_bytes()[..piece.len()]);
    }
    bytes
}

/// The row's bytes from the counter on, in the version that so many updates make of the first `change` bytes;
/// how many of them an update has to write.
#[inline]
fn tail(id: Id, updates: u32, change: u16, tail: &mut [u8; TAIL]) -> usize {
    tail[..4].copy_from_slice(&(updates as i32).to_le_bytes());
    let (base, change) = (base(id, updates), usize::from(change));
    for (number, sized) in tail[4..].chunks_exact_mut(SIZED).take(change.div_ceil(FIELD)).enumerate() {
        sized[..2].copy_from_slice(&(FIELD as u16).to_le_bytes());
        sized[2..].copy_from_slice(&field(base, number));
    }
    let (whole, rest) = (change / FIELD, change % FIELD);
    4 + whole * SIZED + if rest > 0 { 2 + rest } else { 0 }
}

/// A new row.
pub fn fill(id: Id, row: &mut liger_engine::NewRow) {
    let mut bytes = [0; TAIL];
    tail(id, 0, PAYLOAD, &mut bytes);
    row.reset(ROW_LEN).set(P, id.partition as i16).set(ID, id.number as i32);
    row.put_bytes(UPDATES.offset(), &bytes);
}

/// Reads a row and changes the counter and the first `change` bytes of its fields. False if it was to be
/// checked and is not whole.
#[inline]
pub fn change(id: Id, change: u16, row: &mut RowMut<'_>, check: bool) -> bool {
    let updates = row.get(UPDATES) as u32;
    let field = |number: usize| row.get(FIELDS[number]);
    let good = !check || is_whole(id, updates, change, field);
    std::hint::black_box(fold(field));
    let mut bytes = [0; TAIL];
    let len = tail(id, updates.wrapping_add(1), change, &mut bytes);
    row.put_bytes(UPDATES.offset(), &bytes[..len]);
    good
}

/// Reads a row, all of it. False if it was to be checked and is not whole.
#[inline]
pub fn read(id: Id, change: u16, row: Row<'_>, check: bool) -> bool {
    let field = |number: usize| row.get(FIELDS[number]);
    if check {
        return is_whole(id, updates(row), change, field);
    }
    std::hint::black_box(fold(field));
    true
}

/// How often a row was changed.
pub fn updates(row: Row<'_>) -> u32 {
    row.get(UPDATES) as u32
}

/// Which row it is; nothing if its partition is none.
pub fn id_of(row: Row<'_>) -> Option<Id> {
    let partition = u16::try_from(row.get(P)).ok()?;
    Some(Id { partition, number: u32::try_from(row.get(ID)).ok()? })
}

/// Every byte of the fields, folded: reading a row means reading it.
#[inline]
fn fold<'a>(field: impl Fn(usize) -> &'a [u8]) -> u64 {
    let words = |bytes: &[u8]| {
        let word = |word: &[u8]| u64::from_le_bytes(word.try_into().expect("a slice of 8 bytes"));
        bytes.chunks_exact(8).map(word).fold(0, u64::wrapping_add)
    };
    (0..FIELDS.len()).map(|number| words(field(number))).fold(0, u64::wrapping_add)
}

/// Whether the fields are those of one version.
fn is_whole<'a>(id: Id, updates: u32, change: u16, bytes_of: impl Fn(usize) -> &'a [u8]) -> bool {
    let (new, old) = (base(id, updates), base(id, 0));
    (0..FIELDS.len()).all(|number| {
        let new_bytes = usize::from(change).saturating_sub(number * FIELD).min(FIELD);
        let mut expected = field(old, number);
        expected[..new_bytes].copy_from_slice(&field(new, number)[..new_bytes]);
        bytes_of(number) == expected
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use liger_engine::{NewRow, PatchRange, Patches};

    const ID7: Id = Id { partition: 3, number: 7 };

    fn changed(row: &[u8], bytes: u16) -> Vec<u8> {
        let (mut patches, mut range, mut new) = (Patches::new(), PatchRange::default(), row.to_vec());
        assert!(change(ID7, bytes, &mut patches.row(row, &mut range), true), "{bytes}");
        patches.apply(range, &mut new);
        new
    }

    #[test]
    fn a_row_is_whole_before_and_after_changes_of_any_size() {
        let mut row = NewRow::default();
        fill(ID7, &mut row);
        for bytes in [1, 99, 100, 101, 555, 1000] {
            let mut version = row.bytes().to_vec();
            for updates in 0..4 {
                assert_eq!(super::updates(Row::new(&version)), updates);
                assert!(read(ID7, bytes, Row::new(&version), true), "{bytes} bytes, {updates} updates");
                version = changed(&version, bytes);
            }
            let new = version.iter().zip(row.bytes()).filter(|(new, old)| new != old).count();
            assert!(new <= usize::from(bytes) + 4, "{new} bytes changed");
        }
    }

    #[test]
    fn what_is_put_together_from_two_versions_is_not_whole() {
        let mut row = NewRow::default();
        fill(ID7, &mut row);
        let (old, new) = (row.bytes().to_vec(), changed(row.bytes(), PAYLOAD));
        for line in 1..ROW_LEN / 64 {
            let mixed = [&new[..64 * line], &old[64 * line..]].concat();
            assert!(!read(ID7, PAYLOAD, Row::new(&mixed), true), "line {line}");
            let mixed = [&old[..64 * line], &new[64 * line..]].concat();
            assert!(!read(ID7, PAYLOAD, Row::new(&mixed), true), "line {line}");
        }
        // Nor is one row's version in another row.
        assert!(!read(Id { partition: 2, ..ID7 }, PAYLOAD, Row::new(&old), true));
    }
}
