//! Turns: transactions that keep conflicting run one after the other.
//!
//! Transactions that read what the others write, and write there too, wait for each other in cycles: all
//! but one of them have worked for nothing, and so has who tries again beside the next ones. A session whose
//! transaction was given up therefore begins its next one when it is its turn, and there is one turn at a
//! time on a host. Nobody else waits for it: those that have not conflicted run beside it.
//!
//! A turn decides nothing but who waits, and nobody waits long: who holds it for [`LONG`] while
//! somebody else wants it, because its client thinks or its transaction is large, loses it.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::lock;
use crate::error::Result;

/// How long a turn lasts that somebody waits for.
const LONG: Duration = Duration::from_millis(20);

#[derive(Default)]
struct Turns {
    /// The number of the last turn, and whether it lasts.
    last: Mutex<(u64, bool)>,
    ended: Condvar,
}

/// A host's turns.
#[derive(Clone, Default)]
pub struct TakesTurns(Arc<Turns>);

/// Somebody's turn, until it is dropped.
pub struct Turn {
    turns: Arc<Turns>,
    number: u64,
}

impl TakesTurns {
    /// Waits for a turn; asks `goes_on` now and then.
    ///
    /// # Errors
    /// Those of `goes_on`.
    pub fn take(&self, goes_on: &mut dyn FnMut() -> Result<()>) -> Result<Turn> {
        let turns = self.0.clone();
        let mut last = lock(&turns.last);
        while last.1 {
            goes_on()?;
            let before = last.0;
            let (now, waited) = turns.ended.wait_timeout(last, LONG).unwrap_or_else(PoisonError::into_inner);
            last = now;
            if waited.timed_out() && last.0 == before {
                break;
            }
        }
        *last = (last.0 + 1, true);
        let number = last.0;
        drop(last);
        Ok(Turn { turns, number })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut last = lock(&self.turns.last);
        if last.0 == self.number {
            last.1 = false;
            self.turns.ended.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{SqlError, SqlState};

    #[test]
    fn a_turn_ends_when_it_is_dropped_or_has_been_long() {
        let turns = TakesTurns::default();
        let last = || *lock(&turns.0.last);
        let mut asked = 0;
        let mut take = || {
            let counts = &mut || {
                asked += 1;
                Ok(())
            };
            turns.take(counts).expect("nothing is in the way")
        };
        drop(take());
        assert_eq!(last(), (1, false));
        let long = take();
        let next = take();
        assert_eq!((last(), asked), ((3, true), 1), "only the third one had to wait");
        drop(long);
        assert_eq!(last(), (3, true), "it was over already");
        drop(next);
        assert_eq!(last(), (3, false));
    }

    #[test]
    fn who_waits_may_be_stopped() {
        let turns = TakesTurns::default();
        let own = turns.take(&mut || Ok(())).expect("nobody is there");
        let stop = SqlError::new(SqlState::QUERY_CANCELED, "enough");
        let stopped = turns.take(&mut || Err(stop.clone()));
        assert_eq!(stopped.err().map(|error| error.state), Some(SqlState::QUERY_CANCELED));
        drop(own);
        assert_eq!(*lock(&turns.0.last), (1, false));
    }
}
