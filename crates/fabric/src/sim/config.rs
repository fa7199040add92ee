//! What to simulate: the pod, the adversary or the hardware, the faults, and what to leave out.

use std::ops::Range;
use std::sync::Arc;

use super::explain::Site;
use super::incoherent::CrashDomain;
use super::schedule::{Random, Scheduler};
use crate::costs::MAX_HOSTS;
use crate::cx::HostId;
use crate::profile::Profile;

/// What the adversary may do, and how often.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Adversary {
    /// Who runs next.
    pub scheduler: Scheduler,
    /// Check the rules of the memory model and stop at the first broken one. Without it the program runs on
    /// whatever its incoherent caches give it (for programs that detect stale reads themselves, and for
    /// showing what they look like).
    pub rules: bool,
    /// Any line may be prefetched into any host at any time.
    pub prefetch: bool,
    /// The hardware keeps data coherent, too: every host reads what was written last, and the rules are not
    /// checked.
    pub coherent_data: bool,
    /// Reading bytes that nobody wrote is a violation (otherwise memory starts as zeros).
    pub unwritten_reads: bool,
    /// Chance of one event of the memory system before a verb, of 1024; the weights below say which.
    pub events_per_1024: u16,
    /// Weight: a dirty line is written back.
    pub write_backs: u16,
    /// Weight: a clean line is dropped.
    pub drops: u16,
    /// Weight: a line is prefetched (if `prefetch`).
    pub prefetches: u16,
    /// Weight: a buffered sync store becomes visible.
    pub drains: u16,
    /// Weight: a pending write_back or invalidate takes effect.
    pub completions: u16,
    /// Hosts' clocks start apart by up to this.
    pub clock_skew_ns: u64,
    /// Hosts' clocks run too fast or too slow by up to this, in parts per million.
    pub clock_drift_ppm: u32,
}

impl Default for Adversary {
    fn default() -> Self {
        Self {
            scheduler: Scheduler::Random { switch_per_1024: 256 },
            rules: true,
            prefetch: true,
            coherent_data: false,
            unwritten_reads: false,
            events_per_1024: 200,
            write_backs: 4,
            drops: 4,
            prefetches: 4,
            drains: 4,
            completions: 4,
            clock_skew_ns: 1_000_000,
            clock_drift_ppm: 200,
        }
    }
}

impl Adversary {
    /// A different mix for every seed ("swarm testing", Groce et al., ISSTA 2012): another scheduler, other
    /// rates, some kinds of event switched off. Bugs hide from the average mix.
    pub fn swarm(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x5741_524d);
        let scheduler = match random.below(4) {
            0 => Scheduler::Pct { depth: 2 + random.below(4) as u32, steps: 64 << random.below(8) },
            n => Scheduler::Random { switch_per_1024: [16, 128, 512][n - 1] },
        };
        let mut weight = || if random.next() & 3 == 0 { 0 } else { 1 + random.below(8) as u16 };
        let weights = [weight(), weight(), weight(), weight(), weight()];
        let [write_backs, drops, prefetches, drains, completions] = weights;
        let events_per_1024 = [20, 200, 500][random.below(3)];
        let own = Self::default();
        Self { scheduler, events_per_1024, write_backs, drops, prefetches, drains, completions, ..own }
    }
}

/// When a host dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KillAt {
    /// Before this step of the run (verbs of all workers, from 1).
    Step(u64),
    /// Before this verb of the host itself (from 1).
    HostStep(u64),
    /// Before a step that the seed picks among the first so many.
    RandomStep(u64),
}

/// A planned death.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kill {
    /// Who.
    pub host: HostId,
    /// When.
    pub at: KillAt,
    /// How much survives.
    pub domain: CrashDomain,
}

/// Everything that decides a run. The same configuration and program give the same run, to the bit.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Hosts of the pod, 1 to 16.
    pub hosts: usize,
    /// Bytes of shared memory (a multiple of 64).
    pub len: usize,
    /// The bytes that hold sync words; all others hold data. `None`: the first verb on a line decides its
    /// kind.
    pub sync: Option<Range<u64>>,
    /// Decides every choice of the adversary and every `Cx::random`.
    pub seed: u64,
    /// Adversarial memory and schedules, or timed hardware.
    pub mode: Mode,
    /// Verbs after which the run ends as `OutOfVerbs`.
    pub max_verbs: u64,
    /// When every worker has paused this often since anybody changed anything, the run ends as `Deadlock` (in
    /// the timed mode, whose pauses are short, 200 times this).
    pub max_idle_pauses: u64,
    /// Planned deaths.
    pub kills: Vec<Kill>,
    /// Whether the system says that a process has ended (`Cx::is_gone`), as one machine does and a pod of
    /// many does not.
    pub ends_show: bool,
    /// This call site does nothing (mutation tests).
    pub disabled_site: Option<Site>,
    /// `Cx::sabotaged` answers true for this step (mutation tests).
    pub sabotage: Option<&'static str>,
}

/// What kind of memory and time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Mode {
    /// Incoherent caches, hostile schedules.
    Adversarial(Adversary),
    /// Coherent contents, virtual time, the costs of this hardware.
    Timed(Arc<Profile>),
}

impl SimConfig {
    /// An adversarial pod with the default adversary.
    pub fn adversarial(hosts: usize, len: usize, seed: u64) -> Self {
        Self::new(hosts, len, seed, Mode::Adversarial(Adversary::default()))
    }

    /// An adversarial pod whose adversary depends on the seed.
    pub fn swarm(hosts: usize, len: usize, seed: u64) -> Self {
        Self::new(hosts, len, seed, Mode::Adversarial(Adversary::swarm(seed)))
    }

    /// A pod with the speed of this hardware. `max_verbs` has no bound: workers stop by `Cx::now_ns`.
    pub fn timed(hosts: usize, len: usize, seed: u64, profile: Arc<Profile>) -> Self {
        let own = Self::new(hosts, len, seed, Mode::Timed(profile));
        Self { max_verbs: u64::MAX, ..own }
    }

    fn new(hosts: usize, len: usize, seed: u64, mode: Mode) -> Self {
        assert!((1..=MAX_HOSTS).contains(&hosts), "a pod has 1 to {MAX_HOSTS} hosts, not {hosts}");
        assert!(len > 0 && len.is_multiple_of(crate::LINE), "{len} bytes are no whole lines");
        Self {
            hosts,
            len,
            sync: None,
            seed,
            mode,
            max_verbs: 10_000_000,
            max_idle_pauses: 2_000,
            kills: Vec::new(),
            ends_show: true,
            disabled_site: None,
            sabotage: None,
        }
    }
}
