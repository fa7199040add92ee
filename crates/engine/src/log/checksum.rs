//! The checksum of the log, CRC-32C, in one place: tests count the bytes that go through it.

/// The checksum of these bytes.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    checksum_from(0, bytes)
}

/// The checksum of bytes whose beginning has the checksum `before`, and that go on with these.
pub(super) fn checksum_from(before: u32, bytes: &[u8]) -> u32 {
    #[cfg(test)]
    counted::add(bytes.len());
    crc32c::crc32c_append(before, bytes)
}

/// How many bytes this thread has taken checksums of.
#[cfg(test)]
pub(super) mod counted {
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
