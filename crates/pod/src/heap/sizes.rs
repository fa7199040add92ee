//! Size classes of blocks: every multiple of 64 up to 1 KiB, then four to each doubling up to 64 KiB. All are
//! whole lines, so two blocks never share one; beyond 1 KiB at most a fifth of a block is lost to rounding.

use liger_fabric::LINE;

/// Longest block.
pub const MAX_BLOCK_BYTES: usize = 64 << 10;
/// Number of size classes.
pub const SIZES: usize = 40;

const FINE: usize = 16;

/// The smallest size class that holds `len` bytes.
///
/// # Panics
/// If `len` is 0 or more than 64 KiB.
pub fn size_of_len(len: usize) -> u8 {
    assert!((1..=MAX_BLOCK_BYTES).contains(&len), "a block of {len} bytes, must be 1 to {MAX_BLOCK_BYTES}");
    let lines = len.div_ceil(LINE);
    if lines <= FINE {
        return (lines - 1) as u8;
    }
    // Quarters of the power of two below: `lines` lies in (2^power, 2^(power + 1)].
    let power = (lines - 1).ilog2() as usize;
    let quarter = (lines - 1 - (1 << power)) >> (power - 2);
    let size = (FINE + (power - 4) * 4 + quarter) as u8;
    debug_assert!(
        bytes_of_size(size) >= len && bytes_of_size(size - 1) < len,
        "the smallest that holds {len}"
    );
    size
}

/// Bytes of a block of size class `size`.
pub fn bytes_of_size(size: u8) -> usize {
    let size = usize::from(size);
    assert!(size < SIZES, "size class {size} of {SIZES}");
    if size < FINE {
        return (size + 1) * LINE;
    }
    let (power, quarter) = (4 + (size - FINE) / 4, (size - FINE) % 4);
    ((1 << power) + ((quarter + 1) << (power - 2))) * LINE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_grow_and_hold_exactly_what_they_say() {
        let bytes: Vec<usize> = (0..SIZES as u8).map(bytes_of_size).collect();
        assert_eq!(bytes[..3], [64, 128, 192]);
        assert_eq!(bytes[14..22], [960, 1024, 1280, 1536, 1792, 2048, 2560, 3072]);
        assert_eq!(bytes[SIZES - 1], MAX_BLOCK_BYTES);
        assert!(bytes.is_sorted() && bytes.iter().all(|b| b.is_multiple_of(LINE)));
        for len in 1..=MAX_BLOCK_BYTES {
            let size = size_of_len(len);
            assert!(bytes_of_size(size) >= len);
            assert!(
                size == 0 || bytes_of_size(size - 1) < len,
                "{len} would fit a smaller class than {size}"
            );
        }
    }
}
