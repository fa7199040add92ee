//! What all scenarios did on their first seeds, as one hash each: equal before and after a change that only
//! moves code.
//!
//! A trace hash covers worker, verb, address and value of every step of a run, and no place in the source; so
//! two programs with the same sums took the same steps, in every run that was tried.
//!
//! Not here: whether a run is right. A scenario that finds something is named, and its hash counts as well.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::scenario::Scenario;

/// One scenario on seeds 1 to `seeds`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sum {
    /// Its name.
    pub scenario: &'static str,
    /// How many seeds.
    pub seeds: u64,
    /// Verbs of all runs.
    pub verbs: u64,
    /// Of the trace hashes, in the order of the seeds.
    pub hash: u64,
    /// The first seed on which something was found, and what.
    pub found: Option<(u64, String)>,
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, seeds, verbs, hash, .. } = self;
        write!(f, "{scenario:28} {seeds:6} seeds {verbs:12} verbs {hash:016x}")
    }
}

/// What one run contributes.
struct Seen {
    verbs: u64,
    hash: u64,
    problem: Option<String>,
}

/// The sum of a scenario, with so many threads. `goes_on` is asked now and then; `None` if it said no.
#[expect(clippy::disallowed_methods, reason = "the threads run whole simulations, outside of them")]
pub fn sum(
    scenario: &Scenario,
    seeds: u64,
    threads: usize,
    goes_on: &(dyn Fn() -> bool + Sync),
) -> Option<Sum> {
    let (next, seen) = (AtomicU64::new(1), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > seeds || !goes_on() {
                return;
            }
            let ran = (scenario.run)(seed, None);
            let one = Seen { verbs: ran.report.verbs, hash: ran.report.trace_hash, problem: ran.problem };
            seen.lock().unwrap_or_else(PoisonError::into_inner).push((seed, one));
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut seen = seen.into_inner().unwrap_or_else(PoisonError::into_inner);
    if seen.len() as u64 != seeds {
        return None;
    }
    seen.sort_unstable_by_key(|(seed, _)| *seed);
    let mut sum = Sum { scenario: scenario.name, seeds, verbs: 0, hash: seeds, found: None };
    for (seed, Seen { verbs, hash, problem }) in seen {
        sum.verbs += verbs;
        sum.hash = (sum.hash.rotate_left(5) ^ hash).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        sum.found = sum.found.or(problem.map(|problem| (seed, problem)));
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::all;

    #[test]
    fn a_sum_follows_from_the_seeds_and_from_nothing_else() {
        let scenario = all().find(|scenario| scenario.name == "rows-mixed").expect("it is there");
        let of = |seeds, threads| sum(scenario, seeds, threads, &|| true).expect("it goes on");
        assert_eq!(of(6, 1), of(6, 3));
        assert_ne!(of(6, 2).hash, of(7, 2).hash);
        assert_eq!(of(6, 2).found, None);
        assert_eq!(sum(scenario, 6, 2, &|| false), None);
    }
}
