//! All runs of a small program, up to a bound: systematic search instead of luck.
//!
//! Every choice of the adversary is an option of a decision; option 0 is the default (go on, nothing
//! happens). A run is the list of its choices; the next one changes the last choice that has an untried
//! option and keeps what came before (depth first, without state). At most `bound` choices may differ from
//! the default (preemption bounding: most bugs need few; Musuvathi and Qadeer, PLDI 2007).

use super::Simulation;
use super::config::{Mode, SimConfig};
use super::report::Report;
use super::schedule::{Scheduler, Script};

/// What a search found.
#[derive(Debug)]
pub struct Exploration {
    /// Runs made.
    pub runs: u64,
    /// True when there are no more runs within the bound.
    pub exhausted: bool,
    /// The run that did not complete, if there was one.
    pub failure: Option<Report>,
}

/// Runs `build`'s program under all choices of scheduler and memory with at most `bound` departures from the
/// default, or under the first `max_runs` of them; stops at the first run that does not complete.
///
/// # Panics
/// If the configuration is not adversarial, or the program behaves differently under the same choices.
pub fn explore(
    mut config: SimConfig,
    bound: u32,
    max_runs: u64,
    mut build: impl FnMut(&mut Simulation),
) -> Exploration {
    let Mode::Adversarial(adversary) = &mut config.mode else {
        panic!("only an adversarial pod is searched")
    };
    adversary.scheduler = Scheduler::Scripted;
    config.max_idle_pauses = config.max_idle_pauses.min(16);
    let mut found = Exploration { runs: 0, exhausted: false, failure: None };
    let mut prefix = Vec::new();
    while found.runs < max_runs {
        let mut sim = Simulation::new(config.clone());
        sim.state.borrow_mut().script = Some(Script { prefix, made: Vec::new(), budget: bound });
        build(&mut sim);
        let report = sim.run();
        found.runs += 1;
        debug_assert!(!found.exhausted && found.runs <= max_runs, "run {} of {max_runs}", found.runs);
        if !report.completed() {
            found.failure = Some(report);
            return found;
        }
        let script = sim.state.borrow_mut().script.take().expect("scripted");
        match next_prefix(&script) {
            Some(next) => prefix = next,
            None => {
                found.exhausted = true;
                return found;
            }
        }
    }
    found
}

/// The choices that lead to the next run in depth-first order.
fn next_prefix(script: &Script) -> Option<Vec<u16>> {
    let mut prefix: Vec<u16> = script.made.iter().map(|choice| choice.taken).collect();
    while let Some(taken) = prefix.pop() {
        let choice = script.made[prefix.len()];
        debug_assert!(taken < choice.options, "one of the options was taken: {choice:?}");
        if taken + 1 < choice.options {
            prefix.push(taken + 1);
            return Some(prefix);
        }
    }
    None
}
