//! Who runs next, and every other choice of the adversary.
//!
//! Three sources of choices: uniform random, PCT (random priorities with a few change points, which finds a
//! bug of depth d with known probability: Burckhardt et al., ASPLOS 2010), and a script (a prefix of choices,
//! then the default ones), with which [`super::explore()`] walks through all runs.
//!
//! Invariant: nothing here depends on addresses, hashing order or time; the seed and the program decide
//! everything.

/// A small fast generator (wyrand).
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed ^ 0x6c69_6765_725f_7369);
        random.next();
        random
    }

    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0xa076_1d64_78bd_642f);
        let product = u128::from(self.0) * u128::from(self.0 ^ 0xe703_7ed1_a0b4_28db);
        (product >> 64) as u64 ^ product as u64
    }

    /// A number in `0..bound`; 0 for an empty range.
    #[inline]
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

/// How the adversary chooses the next worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Scheduler {
    /// Before each verb, with this probability (of 1024), another worker, chosen uniformly.
    Random {
        /// Chance of a switch before a verb, of 1024.
        switch_per_1024: u16,
    },
    /// Random priorities; the running worker drops to the lowest at `depth - 1` random steps below `steps`.
    Pct {
        /// Depth of the bugs looked for (ordering constraints needed).
        depth: u32,
        /// Estimate of the run's length in verbs.
        steps: u64,
    },
    /// Always the same worker until it pauses or ends, but for what a script says (bounded-exhaustive
    /// exploration).
    Scripted,
}

/// A choice made under a script: which of how many, and whether leaving the default costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub taken: u16,
    pub options: u16,
    pub costly: bool,
}

/// Choices to repeat, and those made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    pub prefix: Vec<u16>,
    pub made: Vec<Choice>,
    /// Costly choices other than the default that may still be made.
    pub budget: u32,
}

impl Script {
    /// One of `options` (0 is the default).
    pub fn choose(&mut self, options: usize, costly: bool) -> usize {
        if options < 2 || (costly && self.budget == 0) {
            return 0;
        }
        debug_assert!(options <= u16::MAX.into(), "{options} options do not fit a script");
        let taken = self.prefix.get(self.made.len()).copied().unwrap_or(0);
        assert!(usize::from(taken) < options, "the program does not replay: it is not deterministic");
        self.made.push(Choice { taken, options: options as u16, costly });
        if costly && taken > 0 {
            self.budget -= 1;
        }
        usize::from(taken)
    }
}

/// The runnable workers and the choice among them.
pub(crate) struct Picker {
    kind: Scheduler,
    runnable: Vec<u16>,
    priority: Vec<u64>,
    changes: Vec<u64>,
    lowest: u64,
}

impl Picker {
    pub fn new(kind: Scheduler, random: &mut Random) -> Self {
        let mut changes = Vec::new();
        if let Scheduler::Pct { depth, steps } = kind {
            changes.extend((1..depth).map(|_| random.next() % steps.max(1)));
            changes.sort_unstable_by(|a, b| b.cmp(a));
        }
        Self { kind, runnable: Vec::new(), priority: Vec::new(), changes, lowest: 1 << 32 }
    }

    pub fn runnable(&self) -> &[u16] {
        &self.runnable
    }

    pub fn add(&mut self, worker: usize, random: &mut Random) {
        assert!(!self.runnable.contains(&(worker as u16)), "worker {worker} runs already");
        self.runnable.push(worker as u16);
        if self.priority.len() <= worker {
            self.priority.resize(worker + 1, 0);
        }
        self.priority[worker] = random.next() | 1 << 63;
    }

    pub fn remove(&mut self, worker: usize) {
        // Order matters for round robin and is small: no swap.
        self.runnable.retain(|&w| usize::from(w) != worker);
    }

    /// Whom to run at `step`, while `me` wants to go on.
    #[inline]
    pub fn preempt(&mut self, me: usize, step: u64, random: &mut Random) -> usize {
        match self.kind {
            Scheduler::Random { switch_per_1024 } => {
                let die = random.next();
                if die & 1023 >= u64::from(switch_per_1024) || self.runnable.len() < 2 {
                    return me;
                }
                self.other(me, random)
            }
            Scheduler::Pct { .. } => {
                if self.changes.last().is_some_and(|&at| at <= step) {
                    self.changes.pop();
                    self.lower(me);
                    return self.highest().unwrap_or(me);
                }
                me
            }
            Scheduler::Scripted => me,
        }
    }

    /// Whom to run when `me` waits for somebody.
    pub fn yield_from(&mut self, me: usize, random: &mut Random) -> usize {
        match self.kind {
            Scheduler::Random { .. } if self.runnable.len() > 1 => self.other(me, random),
            Scheduler::Random { .. } => me,
            Scheduler::Pct { .. } => {
                self.lower(me);
                self.highest().unwrap_or(me)
            }
            Scheduler::Scripted => self.after(me),
        }
    }

    /// Whom to run after `me` has gone; `None` when nobody is left.
    pub fn successor(&mut self, me: usize, random: &mut Random) -> Option<usize> {
        if self.runnable.is_empty() {
            return None;
        }
        let next = match self.kind {
            Scheduler::Random { .. } => usize::from(self.runnable[random.below(self.runnable.len())]),
            Scheduler::Pct { .. } => self.highest()?,
            Scheduler::Scripted => self.after(me),
        };
        debug_assert!(self.runnable.contains(&(next as u16)), "worker {next} is chosen, and does not run");
        Some(next)
    }

    fn other(&mut self, me: usize, random: &mut Random) -> usize {
        debug_assert!(self.runnable.len() > 1, "there is no other worker than {me}");
        let pick = usize::from(self.runnable[random.below(self.runnable.len())]);
        if pick == me { self.after(me) } else { pick }
    }

    /// The next runnable worker after `me` in round robin.
    fn after(&self, me: usize) -> usize {
        let later = self.runnable.iter().copied().filter(|&w| usize::from(w) > me).min();
        usize::from(later.or_else(|| self.runnable.iter().copied().min()).unwrap_or(me as u16))
    }

    fn lower(&mut self, worker: usize) {
        debug_assert!(self.priority.iter().all(|&other| other == 0 || other >= self.lowest));
        self.lowest -= 1;
        self.priority[worker] = self.lowest;
    }

    fn highest(&self) -> Option<usize> {
        self.runnable.iter().map(|&w| usize::from(w)).max_by_key(|&w| self.priority[w])
    }
}
