//! Bells of a simulated pod: a sleeper runs no more until its bell has been rung, its time is over, or a host
//! has died.
//!
//! Nothing else wakes it: a ring that is missing, or comes before what it is for can be seen, leaves it
//! asleep, and a run in which all sleep ends as a deadlock. On real memory such a sleeper would only be late
//! ([`crate::Fabric::doze`]), and no test would notice. A host's death wakes all, since nobody can promise
//! that a host rings in the moment in which it dies.
//!
//! In virtual time nobody sleeps: a doze is a pause, and a ring costs nothing.

use std::panic::Location;

use super::Sim;
use super::explain::Verb;
use super::machine::State;

impl State {
    /// What a sleeper compares: how often the bell has been rung, and how many deaths there were.
    fn heard(&self, bell: u64) -> (u64, usize) {
        let deaths = self.hosts.iter().map(|host| host.killed.len()).sum();
        (self.rings.get(&bell).copied().unwrap_or(0), deaths)
    }
}

impl Sim {
    pub(super) fn sleep(&self, bell: u64, look: &mut dyn FnMut() -> u64, place: &'static Location<'static>) {
        if self.timed {
            drop(self.enter(Verb::Pause, 0, 0, place));
            return;
        }
        let heard = self.state.borrow().heard(bell);
        let ns = look();
        if ns == 0 {
            return;
        }
        let until_ns = self.state.borrow().now_ns(self.me).saturating_add(ns);
        loop {
            let Some(state) = self.enter(Verb::Pause, 0, 0, place) else { return };
            // (Without others there is nobody to wait for.)
            if state.quiet || state.heard(bell) != heard || state.now_ns(self.me) >= until_ns {
                return;
            }
        }
    }

    pub(super) fn wake(&self, bell: u64, place: &'static Location<'static>) {
        if self.timed {
            return;
        }
        let Some(mut state) = self.enter(Verb::Ring, bell, 16, place) else { return };
        *state.rings.entry(bell).or_default() += 1;
        state.mix(self.me, Verb::Ring, bell, 0);
    }
}
