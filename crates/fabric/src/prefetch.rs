//! Hints to this host's processor about its own DRAM.
//!
//! A hint changes nothing but time. It works on references only, never on the shared memory, where a
//! prefetched line would be one more cached copy to be stale.

use crate::addr::LINE;

/// Starts loading the cache lines of `values` from this host's memory.
#[inline(always)]
pub fn prefetch<T>(values: &[T]) {
    let start = values.as_ptr().cast::<i8>();
    for line in 0..size_of_val(values).div_ceil(LINE) {
        let at = start.wrapping_add(line * LINE);
        // SAFETY: a prefetch reads nothing and faults never, whatever the address.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at);
        }
    }
}
