//! Row bytes through typed columns: reading, recorded changes, and new rows.
//!
//! Invariants:
//! 1. [`RowMut`] never changes the row: `set` records a [`Patches`] entry (offset, bytes), and `get` sees it.
//!    A commit applies the entries to the row and writes the same entries to the log; an abort forgets them.
//! 2. The entries of one row are a contiguous range ([`PatchRange`]) and do not overlap. A second change of a
//!    column overwrites the first; an entry that was made through a column starts where the column starts. A
//!    row is changed through its columns or as bytes ([`RowMut::put_bytes`]), not both in one transaction.
//! 3. Changing an earlier row again moves its range (not its values) to the end of the list.
//!
//! It does NOT know which row or table the bytes belong to.

use crate::tables::column::{Col, ColType};

/// Bytes of a row that columns are read from and written to. Only this crate implements it.
pub trait Store {
    /// `N` bytes of a fixed-size value at `offset`.
    fn load<const N: usize>(&self, offset: usize) -> [u8; N];
    /// The bytes of a value with a length in front, at `offset`; at most `max`.
    fn load_sized(&self, offset: usize, max: usize) -> &[u8];
    /// Writes a fixed-size value at `offset`.
    fn save(&mut self, offset: usize, bytes: &[u8]);
    /// Writes a length and so many bytes at `offset`.
    ///
    /// # Panics
    /// If there are more than `max`.
    fn save_sized(&mut self, offset: usize, max: usize, bytes: &[u8]);
}

#[inline]
fn fixed<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes[offset..offset + N].try_into().expect("a slice of N bytes")
}

#[inline]
fn sized(bytes: &[u8], offset: usize, max: usize) -> &[u8] {
    let len = u16::from_le_bytes(fixed(bytes, offset)) as usize;
    &bytes[offset + 2..offset + 2 + len.min(max)]
}

fn check_size(bytes: &[u8], max: usize) {
    assert!(bytes.len() <= max, "{} bytes for a column of at most {max}", bytes.len());
}

/// A row's bytes, read through its columns.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    bytes: &'a [u8],
}

impl<'a> Row<'a> {
    /// The row with these bytes.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Row<'a> {
        Row { bytes }
    }

    /// The value of `col`; text and bytes are borrowed from the row.
    #[inline]
    pub fn get<T: ColType>(&self, col: Col<T>) -> T::Value<'a> {
        T::load(self.bytes, col)
    }

    /// The row's bytes.
    #[inline]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl Store for [u8] {
    #[inline]
    fn load<const N: usize>(&self, offset: usize) -> [u8; N] {
        fixed(self, offset)
    }

    #[inline]
    fn load_sized(&self, offset: usize, max: usize) -> &[u8] {
        sized(self, offset, max)
    }

    #[inline]
    fn save(&mut self, offset: usize, bytes: &[u8]) {
        self[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    #[inline]
    fn save_sized(&mut self, offset: usize, max: usize, bytes: &[u8]) {
        check_size(bytes, max);
        self.save(offset, &(bytes.len() as u16).to_le_bytes());
        self.save(offset + 2, bytes);
    }
}

/// One recorded change: `len` bytes from `at` of the arena go to `offset` of the row.
#[derive(Clone, Copy, Debug)]
struct Patch {
    offset: u16,
    len: u16,
    at: u64,
}

/// Which entries of [`Patches`] belong to one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatchRange {
    start: u32,
    end: u32,
}

impl PatchRange {
    /// Whether nothing was changed.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// How many columns (and presence bytes) were changed.
    #[inline]
    pub const fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    fn indices(&self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// The changes that a transaction has recorded for its rows.
#[derive(Debug, Default)]
pub struct Patches {
    patches: Vec<Patch>,
    bytes: Vec<u8>,
}

impl Patches {
    /// No changes.
    pub fn new() -> Patches {
        Patches::default()
    }

    /// Bytes of all changes.
    pub fn bytes(&self) -> usize {
        self.patches.len() * size_of::<Patch>() + self.bytes.len()
    }

    /// Bytes that it keeps.
    pub fn memory(&self) -> usize {
        self.patches.capacity() * size_of::<Patch>() + self.bytes.capacity()
    }

    /// Forgets all changes and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.patches.clear();
        self.bytes.clear();
    }

    /// The row `base` with the changes of `range`, to change it further.
    #[inline]
    pub fn row<'a>(&'a mut self, base: &'a [u8], range: &'a mut PatchRange) -> RowMut<'a> {
        debug_assert!(range.start <= range.end && range.end as usize <= self.patches.len(), "{range:?}");
        RowMut { base, patches: self, range }
    }

    /// The changes of one row as (offset in the row, bytes).
    pub fn iter(&self, range: PatchRange) -> impl Iterator<Item = (u16, &[u8])> {
        self.patches[range.indices()].iter().map(|patch| (patch.offset, self.bytes_of(patch)))
    }

    /// Applies the changes of one row to its bytes.
    #[inline]
    pub fn apply(&self, range: PatchRange, row: &mut [u8]) {
        for (offset, bytes) in self.iter(range) {
            row[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
        }
    }

    #[inline]
    fn bytes_of(&self, patch: &Patch) -> &[u8] {
        &self.bytes[patch.at as usize..patch.at as usize + patch.len as usize]
    }

    #[inline]
    fn find(&self, range: PatchRange, offset: usize) -> Option<usize> {
        range.indices().find(|&i| self.patches[i].offset as usize == offset)
    }

    #[inline]
    fn get(&self, range: PatchRange, offset: usize) -> Option<&[u8]> {
        self.find(range, offset).map(|i| self.bytes_of(&self.patches[i]))
    }

    /// Records `head` and then `tail` for `offset` of the row whose changes are `range`.
    fn set(&mut self, range: &mut PatchRange, offset: usize, head: &[u8], tail: &[u8]) {
        let len = head.len() + tail.len();
        debug_assert!(offset + len <= u16::MAX.into(), "{len} bytes at {offset} of a row");
        let found = self.find(*range, offset);
        if let Some(i) = found
            && len <= self.patches[i].len as usize
        {
            let patch = &mut self.patches[i];
            patch.len = len as u16;
            let bytes = &mut self.bytes[patch.at as usize..patch.at as usize + len];
            bytes[..head.len()].copy_from_slice(head);
            bytes[head.len()..].copy_from_slice(tail);
            return;
        }
        let patch = Patch { offset: offset as u16, len: len as u16, at: self.bytes.len() as u64 };
        self.bytes.extend_from_slice(head);
        self.bytes.extend_from_slice(tail);
        match found {
            Some(i) => self.patches[i] = patch,
            None => {
                self.move_to_end(range);
                self.patches.push(patch);
                range.end += 1;
                debug_assert_eq!(range.end as usize, self.patches.len(), "a row's entries are contiguous");
            }
        }
    }

    /// Records `bytes` for `offset` of the row whose changes are `range`, in one entry with all that they
    /// overlap.
    fn put(&mut self, range: &mut PatchRange, offset: usize, bytes: &[u8]) {
        debug_assert!(!bytes.is_empty(), "an entry has bytes");
        let end = offset + bytes.len();
        let span = |patch: &Patch| (patch.offset as usize, patch.offset as usize + patch.len as usize);
        let meets = |patch: &Patch| span(patch).0 < end && offset < span(patch).1;
        let met = || self.patches[range.indices()].iter().filter(|patch| meets(patch)).map(span);
        let low = met().map(|span| span.0).fold(offset, usize::min);
        let high = met().map(|span| span.1).fold(end, usize::max);
        debug_assert!(low <= offset && end <= high && high <= u16::MAX.into(), "{low}..{high} of a row");
        // Entries do not overlap, and each of these meets the new bytes: together they leave no hole.
        let at = self.bytes.len();
        self.bytes.resize(at + high - low, 0);
        for i in range.indices().filter(|&i| meets(&self.patches[i])) {
            let Patch { offset, len, at: from } = self.patches[i];
            let (from, to) = (from as usize, at + offset as usize - low);
            self.bytes.copy_within(from..from + len as usize, to);
        }
        self.bytes[at + offset - low..at + end - low].copy_from_slice(bytes);
        self.move_to_end(range);
        let mut kept = range.start as usize;
        for i in range.indices() {
            if !meets(&self.patches[i]) {
                self.patches[kept] = self.patches[i];
                kept += 1;
            }
        }
        self.patches.truncate(kept);
        self.patches.push(Patch { offset: low as u16, len: (high - low) as u16, at: at as u64 });
        range.end = self.patches.len() as u32;
    }

    fn move_to_end(&mut self, range: &mut PatchRange) {
        if range.end as usize != self.patches.len() {
            let start = self.patches.len() as u32;
            let len = range.len();
            self.patches.extend_from_within(range.indices());
            *range = PatchRange { start, end: self.patches.len() as u32 };
            debug_assert_eq!(range.len(), len, "a row keeps its entries");
        }
    }
}

/// A row and the changes that a transaction makes to it.
#[derive(Debug)]
pub struct RowMut<'a> {
    base: &'a [u8],
    patches: &'a mut Patches,
    range: &'a mut PatchRange,
}

/// Changes a row that is in no transaction: `change` sees it as it would in one.
pub fn change_row(row: &mut [u8], change: &mut dyn FnMut(&mut RowMut<'_>)) {
    let (mut patches, mut range) = (Patches::default(), PatchRange::default());
    change(&mut RowMut { base: row, patches: &mut patches, range: &mut range });
    patches.apply(range, row);
}

impl RowMut<'_> {
    /// The value of `col`, own changes included.
    #[inline]
    pub fn get<T: ColType>(&self, col: Col<T>) -> T::Value<'_> {
        T::load(self, col)
    }

    /// Appends the row's bytes, own changes included, to `out`.
    pub fn copy_to(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(self.base);
        self.patches.apply(*self.range, &mut out[start..]);
    }

    /// Records that `col` becomes `value`.
    ///
    /// # Panics
    /// If a text or byte string is longer than its column: whoever takes values from outside checks them
    /// first.
    #[inline]
    pub fn set<T: ColType>(&mut self, col: Col<T>, value: T::Value<'_>) {
        T::save(self, col, value);
    }

    /// Records that the row's bytes from `offset` on become `bytes`, for rows whose insides are not the
    /// engine's business. Such a row is not changed through its columns as well.
    ///
    /// # Panics
    /// If they do not fit the row.
    pub fn put_bytes(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.base.len(), "{} bytes from {offset}", bytes.len());
        if !bytes.is_empty() {
            self.patches.put(self.range, offset, bytes);
        }
    }
}

impl Store for RowMut<'_> {
    #[inline]
    fn load<const N: usize>(&self, offset: usize) -> [u8; N] {
        match self.patches.get(*self.range, offset) {
            Some(bytes) => {
                debug_assert_eq!(bytes.len(), N, "a value of its column");
                fixed(bytes, 0)
            }
            None => fixed(self.base, offset),
        }
    }

    #[inline]
    fn load_sized(&self, offset: usize, max: usize) -> &[u8] {
        match self.patches.get(*self.range, offset) {
            Some(bytes) => {
                debug_assert!((2..=2 + max).contains(&bytes.len()), "{} bytes of at most {max}", bytes.len());
                &bytes[2..]
            }
            None => sized(self.base, offset, max),
        }
    }

    #[inline]
    fn save(&mut self, offset: usize, bytes: &[u8]) {
        debug_assert!(offset + bytes.len() <= self.base.len());
        self.patches.set(self.range, offset, bytes, &[]);
    }

    #[inline]
    fn save_sized(&mut self, offset: usize, max: usize, bytes: &[u8]) {
        check_size(bytes, max);
        debug_assert!(offset + 2 + max <= self.base.len(), "a column of a row of {}", self.base.len());
        self.patches.set(self.range, offset, &(bytes.len() as u16).to_le_bytes(), bytes);
    }
}

/// A row under construction, to be inserted; its memory is reused from row to row.
#[derive(Clone, Debug, Default)]
pub struct NewRow {
    bytes: Vec<u8>,
}

impl NewRow {
    /// A row of `len` bytes: nullable columns NULL, numbers 0, texts empty.
    #[expect(
        clippy::slow_vector_initialization,
        reason = "a row is short, and zeroed memory is allocated slowly"
    )]
    pub fn new(len: usize) -> NewRow {
        let mut bytes = Vec::with_capacity(len);
        bytes.resize(len, 0);
        NewRow { bytes }
    }

    /// Starts over with a row of `len` bytes.
    #[inline]
    pub fn reset(&mut self, len: usize) -> &mut NewRow {
        self.bytes.clear();
        self.bytes.resize(len, 0);
        self
    }

    /// Sets `col` to `value`.
    ///
    /// # Panics
    /// If a text or byte string is longer than its column: whoever takes values from outside checks them
    /// first.
    #[inline]
    pub fn set<T: ColType>(&mut self, col: Col<T>, value: T::Value<'_>) -> &mut NewRow {
        T::save(self.bytes.as_mut_slice(), col, value);
        self
    }

    /// Sets the row's bytes from `offset` on, for rows whose insides are not the engine's business.
    ///
    /// # Panics
    /// If they do not fit the row.
    #[inline]
    pub fn put_bytes(&mut self, offset: usize, bytes: &[u8]) -> &mut NewRow {
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// The row so far.
    #[inline]
    pub fn row(&self) -> Row<'_> {
        Row::new(&self.bytes)
    }

    /// The row's bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
