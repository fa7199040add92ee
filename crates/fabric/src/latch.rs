//! A mutual-exclusion latch for data in one host's DRAM.
//!
//! Unlike a std mutex it waits through the context, so it may be held across fabric verbs: in the simulator
//! the waiter yields to the holder. It protects host-local structures only; nothing in shared memory is ever
//! a `Latch`. A worker that dies takes its whole host with it, so a latch needs no owner.
//!
//! Not reentrant. No fairness. Latches of the same kind are never nested unless the caller orders them.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cx::Cx;
use crate::fabric::Fabric;

/// A value behind a latch.
#[derive(Default)]
pub struct Latch<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a guard, and `held` admits one guard at a time.
unsafe impl<T: Send> Sync for Latch<T> {}

/// Exclusive access to a latched value; unlatches when dropped.
pub struct LatchGuard<'a, T> {
    latch: &'a Latch<T>,
}

impl<T> Latch<T> {
    /// An unlatched value.
    pub const fn new(value: T) -> Self {
        Self { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Waits for the latch.
    #[inline]
    #[track_caller]
    pub fn lock<F: Fabric>(&self, cx: &Cx<F>) -> LatchGuard<'_, T> {
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            cx.pause();
        }
    }

    /// Takes the latch if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<LatchGuard<'_, T>> {
        let free = !self.held.load(Ordering::Relaxed) && !self.held.swap(true, Ordering::Acquire);
        // Not `then_some`: a guard made for nothing would unlatch somebody else's latch when dropped.
        free.then(|| LatchGuard { latch: self })
    }

    /// The value, for a caller that alone can reach the latch.
    pub fn get_mut(&mut self) -> &mut T {
        debug_assert!(!*self.held.get_mut(), "a guard outlived the borrow that it was made from");
        self.value.get_mut()
    }

    /// The value, taken out.
    pub fn into_inner(self) -> T {
        debug_assert!(!self.held.load(Ordering::Relaxed), "a guard outlived its latch");
        self.value.into_inner()
    }
}

impl<T> Deref for LatchGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        debug_assert!(self.latch.held.load(Ordering::Relaxed), "a guard's latch is held");
        // SAFETY: this guard is the only one (`held` is true and was taken by us).
        unsafe { &*self.latch.value.get() }
    }
}

impl<T> DerefMut for LatchGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        debug_assert!(self.latch.held.load(Ordering::Relaxed), "a guard's latch is held");
        // SAFETY: this guard is the only one (`held` is true and was taken by us).
        unsafe { &mut *self.latch.value.get() }
    }
}

impl<T> Drop for LatchGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        debug_assert!(self.latch.held.load(Ordering::Relaxed), "a latch is let go once");
        self.latch.held.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_to_take_a_latch_leaves_it_held() {
        let latch = Latch::new(1);
        let guard = latch.try_lock().expect("free");
        assert!(latch.try_lock().is_none());
        assert!(latch.try_lock().is_none(), "the first failure must not have unlatched it");
        drop(guard);
        assert_eq!(latch.try_lock().map(|g| *g), Some(1));
    }
}
