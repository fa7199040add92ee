//! Looking, from deep inside a computation, whether its statement is to stop.
//!
//! What computes a single value knows its arguments and nothing else. Whatever may take long in there calls
//! [`check`] from time to time, which looks at the interrupt of the session that runs on this thread.

use std::cell::RefCell;
use std::sync::Arc;

use crate::error::Result;
use crate::interrupt::Interrupt;

thread_local! {
    static WATCHED: RefCell<Option<Arc<Interrupt>>> = const { RefCell::new(None) };
}

/// While it lives, computations of this thread look at an interrupt.
pub(crate) struct Watched(Option<Arc<Interrupt>>);

/// Computations of this thread look at `interrupt`, until the answer is dropped.
pub(crate) fn watch(interrupt: &Arc<Interrupt>) -> Watched {
    Watched(WATCHED.with_borrow_mut(|watched| watched.replace(interrupt.clone())))
}

impl Drop for Watched {
    fn drop(&mut self) {
        WATCHED.with_borrow_mut(|watched| *watched = self.0.take());
    }
}

/// The error to fail with, if the statement of this thread is to stop.
pub(crate) fn check() -> Result<()> {
    WATCHED.with_borrow(|watched| watched.as_ref().map_or(Ok(()), |interrupt| interrupt.check()))
}

/// As [`check`], once in so many steps: for loops whose steps are short.
pub(crate) fn check_at(step: usize) -> Result<()> {
    const STEPS: usize = 1 << 12;
    if step.is_multiple_of(STEPS) { check() } else { Ok(()) }
}
