//! The checksum of the log and of shared rows, CRC-32C, in one place: tests count the bytes of the log that
//! go through it.
//!
//! A checksum is linear: where two texts of one length differ, their checksums differ by the *remainder* of
//! the difference alone, bit by bit. So who changes a part need not know the rest.

/// What a remainder goes over where nothing differs.
static ZEROS: [u8; 1024] = [0; 1024];

/// The checksum of these bytes.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    checksum_from(0, bytes)
}

/// The checksum of bytes whose beginning has the checksum `before`, and that go on with these.
pub(crate) fn checksum_from(before: u32, bytes: &[u8]) -> u32 {
    #[cfg(test)]
    counted::add(bytes.len());
    crc32c::crc32c_append(before, bytes)
}

/// The remainder of a difference whose beginning has the remainder `before`, and that goes on with these
/// bytes.
pub(crate) fn remainder_from(before: u32, difference: &[u8]) -> u32 {
    !crc32c::crc32c_append(!before, difference)
}

/// The same where so many bytes do not differ.
pub(crate) fn remainder_behind(before: u32, mut len: usize) -> u32 {
    let mut remainder = before;
    while remainder != 0 && len > 0 {
        let some = len.min(ZEROS.len());
        remainder = remainder_from(remainder, &ZEROS[..some]);
        len -= some;
    }
    remainder
}

/// How many bytes this thread has taken checksums of.
#[cfg(test)]
pub(crate) mod counted {
    use std::cell::Cell;

    thread_local!(static BYTES: Cell<u64> = const { Cell::new(0) });

    pub(super) fn add(bytes: usize) {
        BYTES.set(BYTES.get() + bytes as u64);
    }

    /// So many so far.
    pub fn bytes() -> u64 {
        BYTES.get()
    }
}
