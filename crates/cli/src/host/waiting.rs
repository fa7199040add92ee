//! What a host that joins waits for: told to whoever ordered it, once that takes longer than people expect.

#![expect(clippy::disallowed_methods, reason = "a thread of its own tells what another one waits for")]

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::control::Answer;
use crate::orders::tell;
use crate::pod::line::TOLD_AFTER;

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// What is waited for, since when, and after which time it is told next.
static WAITS: Mutex<Option<(&'static str, Instant, Duration)>> = Mutex::new(None);

/// This process waits for `what` from now on.
pub(super) fn now(what: &'static str) {
    set(Some((what, Instant::now(), TOLD_AFTER)));
}

/// It waits for nothing any more.
pub(super) fn over() {
    set(None);
}

fn set(waits: Option<(&'static str, Instant, Duration)>) {
    *WAITS.lock().unwrap_or_else(PoisonError::into_inner) = waits;
}

/// Tells waits that take long, from now on.
pub(super) fn tell_long_ones() {
    std::thread::spawn(|| {
        loop {
            std::thread::sleep(LOOK);
            let mut waits = WAITS.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((what, since, told)) =
                waits.as_mut().filter(|(_, since, told)| since.elapsed() >= *told)
            {
                *told *= 2;
                // Held meanwhile: it is not told behind the answer that ends the wait.
                tell(&Answer::Waits { what: (*what).to_owned(), ms: since.elapsed().as_millis() as u64 });
            }
        }
    });
}
