//! Memory for long writes: whole pages, so that the device may take them from where they are.
//!
//! Invariant: what [`Pages::filled`] gives starts at a page's start.
//!
//! Not here: who writes them, and whether the file system can do without its cache (native.rs).

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// Bytes of a page, for devices and file systems alike.
pub const PAGE: usize = 4096;

#[derive(Clone, FromBytes, IntoBytes, Immutable)]
#[repr(C, align(4096))]
struct Page([u8; PAGE]);

const _: () = assert!(size_of::<Page>() == PAGE && align_of::<Page>() == PAGE);

/// A buffer of whole pages, filled from the front.
pub struct Pages {
    pages: Vec<Page>,
    /// How much of it may be filled, and is.
    capacity: usize,
    len: usize,
}

impl Pages {
    /// An empty buffer for `capacity` bytes.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let pages = vec![Page::new_zeroed(); capacity.div_ceil(PAGE)];
        Self { pages, capacity, len: 0 }
    }

    /// Takes as many of `bytes` as there is room for, and returns the others.
    pub fn fill<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let (taken, rest) = bytes.split_at(bytes.len().min(self.capacity - self.len));
        self.pages.as_mut_bytes()[self.len..][..taken.len()].copy_from_slice(taken);
        self.len += taken.len();
        debug_assert!(rest.is_empty() || self.is_full(), "what is left over has no room");
        rest
    }

    /// True if there is no room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len == self.capacity
    }

    /// What was filled in since the last [`Pages::clear`].
    #[must_use]
    pub fn filled(&self) -> &[u8] {
        debug_assert!(self.len <= self.capacity, "{} bytes where {} have room", self.len, self.capacity);
        &self.pages.as_bytes()[..self.len]
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}

/// True if these bytes are whole pages.
pub(super) fn is_of_pages(bytes: &[u8]) -> bool {
    bytes.len().is_multiple_of(PAGE) && bytes.as_ptr().addr().is_multiple_of(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_what_there_is_room_for_and_starts_at_a_page() {
        let mut pages = Pages::new(2 * PAGE);
        let bytes: Vec<u8> = (0..3 * PAGE).map(|i| (i % 251) as u8).collect();
        let (first, others) = bytes.split_at(100);
        assert_eq!(pages.fill(first), &[] as &[u8]);
        assert!(!pages.is_full() && !is_of_pages(pages.filled()));
        assert_eq!(pages.fill(others).len(), PAGE);
        assert!(pages.is_full() && is_of_pages(pages.filled()));
        assert_eq!(pages.filled(), &bytes[..2 * PAGE]);
        pages.clear();
        assert_eq!(pages.fill(&bytes[2 * PAGE..]), &[] as &[u8]);
        assert_eq!(pages.filled(), &bytes[2 * PAGE..]);
    }
}
