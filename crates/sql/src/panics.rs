//! Which panics end a statement, and which have to end the host.
//!
//! A fault in what SQL computes (a function, an operator, a plan) leaves nothing half done: it ends its
//! statement with XX000, and its transaction is rolled back. A panic inside of a step of the engine may
//! leave a latch taken or a row half written in memory that other hosts share: its host has to end, and the
//! others take over.
//!
//! 1. [`caught`] is a fence: a panic below it that no [`uncaught`] lies between becomes `Err`.
//! 2. Whoever ends the process on a panic (a hook) asks [`is_caught`] first, on the thread that panicked.
//!
//! It does not say what panicked: the hook prints that before it asks.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Puts the thread's state back when a scope ends, also by a panic.
struct Restore(bool);

impl Restore {
    fn after(now: bool) -> Self {
        Self(CAUGHT.replace(now))
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        CAUGHT.set(self.0);
    }
}

/// Runs `body`; its panic is an error, and what it was doing has to be given up.
///
/// # Errors
///
/// What the panic carries.
pub fn caught<R>(body: impl FnOnce() -> R) -> Result<R, Box<dyn Any + Send>> {
    let _restore = Restore::after(true);
    catch_unwind(AssertUnwindSafe(body))
}

/// Runs a step that must not be left half done.
pub(crate) fn uncaught<R>(step: impl FnOnce() -> R) -> R {
    let _restore = Restore::after(false);
    step()
}

/// Whether a panic of this thread would be an error of its statement only.
pub fn is_caught() -> bool {
    CAUGHT.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_the_engine_are_not_fenced() {
        assert!(!is_caught());
        let seen = caught(|| {
            (is_caught(), uncaught(|| (is_caught(), caught(is_caught).is_ok_and(|is| is))), is_caught())
        });
        assert_eq!(seen.expect("nothing panics"), (true, (false, true), true));
        assert!(caught(|| uncaught(|| panic!("on purpose"))).is_err());
        assert!(!is_caught());
    }
}
