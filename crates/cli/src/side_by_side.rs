//! Independent pieces of work of one command, several at once.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::failure::Failure;
use crate::terminal::check_interrupted;

/// Does pieces 0 to `pieces` of the work on so many threads, and returns what came of each, in order.
///
/// # Errors
/// The first failure; also when somebody interrupts.
///
/// # Panics
/// If a piece panics.
pub fn side_by_side<T: Send>(
    threads: usize,
    pieces: usize,
    piece: impl Fn(usize) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(usize, T)>, Failure> {
        let mut mine = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= pieces {
                return Ok(mine);
            }
            check_interrupted()?;
            mine.push((at, piece(at)?));
        }
    };
    #[expect(clippy::disallowed_methods, reason = "pieces are independent simulations of the command line")]
    let parts: Vec<Result<Vec<(usize, T)>, Failure>> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        started.into_iter().map(|thread| thread.join().expect("a piece of work ends")).collect()
    });
    let mut all = Vec::with_capacity(pieces);
    for part in parts {
        all.extend(part?);
    }
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, done)| done).collect())
}
