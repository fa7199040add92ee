//! The scripted adversary of a bounded-exhaustive search ([`super::explore()`]): what may happen before a
//! verb, and which of it the script has chosen.
//!
//! Invariant: option 0 is the default, that nothing happens and whoever runs goes on. The options of a run
//! that is played again are the same, in the same order.

use super::incoherent::Incoherent;
use super::machine::{Memory, State};

impl State {
    /// Bounded-exhaustive mode: any number of memory events, then who runs.
    pub fn scripted_choices(&mut self, me: usize, paused: bool) -> usize {
        let Memory::Incoherent(memory) = &mut self.memory else { return me };
        loop {
            let default = if paused { self.picker.yield_from(me, &mut self.random) } else { me };
            let mut options: Vec<Act> = vec![Act::Run(default)];
            let others = self.picker.runnable().iter().map(|&w| usize::from(w));
            options.extend(others.filter(|&w| w != default && w != me).map(Act::Run));
            options.extend((0..self.workers.len()).filter(|&w| memory.buffers_stores(w)).map(Act::Drain));
            if !self.adversary.rules {
                memory_acts(memory, self.adversary.prefetch, &mut options);
            }
            debug_assert!(matches!(options[0], Act::Run(_)), "the default is that nothing happens");
            let script = self.script.as_mut().expect("scripted");
            match options[script.choose(options.len(), true)] {
                Act::Run(worker) => return worker,
                Act::Drain(worker) => memory.drain_one(worker),
                Act::Evict { host, dirty, index } => memory.evict_nth(host, dirty, index, true),
                Act::Prefetch { host, line } => memory.prefetch_line(host, line),
            }
        }
    }
}

/// What the caches may do now, in a search without rules. With the rules on, a program that could read
/// anything stale stops anyway, so these choices are left out there.
fn memory_acts(memory: &Incoherent, prefetch: bool, options: &mut Vec<Act>) {
    for host in 0..memory.hosts() {
        let (dirty, clean) = memory.cached_lines(host);
        options.extend((0..dirty).map(|index| Act::Evict { host, dirty: true, index }));
        options.extend((0..clean).map(|index| Act::Evict { host, dirty: false, index }));
        if prefetch {
            let lines = memory.used_lines().iter().map(|&l| u64::from(l));
            let missing = lines.filter(|&line| !memory.is_cached(host, line));
            options.extend(missing.map(|line| Act::Prefetch { host, line }));
        }
    }
}

/// One option of the scripted adversary.
#[derive(Clone, Copy)]
enum Act {
    Run(usize),
    Drain(usize),
    Evict { host: usize, dirty: bool, index: usize },
    Prefetch { host: usize, line: u64 },
}
