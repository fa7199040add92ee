//! Scenarios: small programs on a simulated pod whose every run must end well, each a function of a seed.
//!
//! Every scenario can be told to leave one instruction or one protocol step out ([`LeftOut`]); mutation
//! testing ([`crate::mutation`]) asks which of them notices.
//!
//! * [`control`]: format, open, join, self-test, heartbeat, leave; [`suspicion`]: hosts that are taken for
//!   dead while they join, or hang; [`lanes`]: messages; [`bells`]: hosts that sleep until they are woken;
//! * [`heap`], [`epochs`]: blocks and words that travel from host to host, and when they may be used again;
//! * [`index`]: the shared index, [`index_full`]: in memory that is full, [`index_kill`]: with a host that
//!   dies;
//! * [`log`]: records on their way to storage, hosts that die and devices that fail; [`room`]: disks that are
//!   full;
//! * [`rows`]: whole pods of row engines, shaped so that each weak spot has a scenario of its own;
//!   [`joining`]: whose hosts join, or leave, while others ask them for rows;
//!   [`policies`]: the same with other policies; [`staged`]: meetings arranged by hand that random runs never
//!   have; [`damaged_rows`]: bits of row blocks that flip;
//!   [`checkpoint`]: of rows that another host has changed; [`unrestored`]: rows that a restart has not
//!   made yet;
//! * [`partitioned`]: pods whose hosts share nothing, with two-phase commit; [`motor`]: rows in memory
//!   servers, with many versions; [`shm`]: Sundial on rows in shared memory;
//! * [`sql_objects`]: SQL tables that come and go, and their rows;
//! * [`durable`]: pods that lose power and come back from their disks; [`survival`]: pods some of whose hosts
//!   die while others live; [`statements`]: transactions whose statements each read as of a moment, on such
//!   pods; [`crash_points`]: before a chosen verb of a small operation.
//!
//! Invariants:
//! 1. Without anything left out, a run of any seed has no problem.
//! 2. What a scenario does is decided by the seed alone; it looks at no clock but the simulated one.

mod again;
mod agreement;
pub mod bells;
pub mod checkpoint;
pub mod control;
pub mod crash_points;
pub mod damaged_rows;
pub mod durable;
pub mod epochs;
pub mod handover;
mod heap;
pub mod index;
pub mod index_full;
pub mod index_kill;
pub mod joining;
pub mod lanes;
pub mod log;
pub mod motor;
pub mod partitioned;
pub mod policies;
pub mod room;
pub mod rows;
pub mod shm;
pub mod sql_objects;
pub mod staged;
pub mod statements;
pub mod survival;
pub mod suspicion;
pub mod unrestored;

use std::fmt;

use liger_fabric::sim::{Adversary, Mode, Report, SimConfig, Site};
use liger_pod::plan::{Plan, SUPERBLOCK_BYTES};

/// What a mutated run leaves out.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LeftOut {
    /// A call site of write_back, invalidate or fence.
    Site(Site),
    /// A named protocol step (`Cx::sabotaged`).
    Step(&'static str),
}

impl LeftOut {
    /// Makes the configured run leave it out.
    pub fn apply(what: Option<&LeftOut>, config: &mut SimConfig) {
        match what {
            None => {}
            Some(LeftOut::Site(site)) => config.disabled_site = Some(site.clone()),
            Some(LeftOut::Step(step)) => config.sabotage = Some(step),
        }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LeftOut::Site(site) => site.fmt(f),
            LeftOut::Step(step) => f.write_str(step),
        }
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct Ran {
    /// The simulator's report.
    pub report: Report,
    /// What is wrong, if anything: a broken rule, a panic, a deadlock, or what was found afterwards.
    pub problem: Option<String>,
}

impl Ran {
    /// A run that is right if it completed and `afterwards` finds nothing wrong.
    pub fn new(report: Report, afterwards: impl FnOnce() -> Result<(), String>) -> Self {
        let problem = if report.completed() { afterwards().err() } else { Some(report.outcome.to_string()) };
        Self { report, problem }
    }
}

/// A kind of run.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Its name in reports.
    pub name: &'static str,
    /// Runs one seed, with something left out or not.
    pub run: fn(u64, Option<&LeftOut>) -> Ran,
}

/// All of them.
pub const ALL: &[&[Scenario]] = &[
    control::SCENARIOS,
    lanes::SCENARIOS,
    bells::SCENARIOS,
    heap::SCENARIOS,
    epochs::SCENARIOS,
    index::SCENARIOS,
    index_full::SCENARIOS,
    index_kill::SCENARIOS,
    log::SCENARIOS,
    room::SCENARIOS,
    rows::SCENARIOS,
    joining::SCENARIOS,
    policies::SCENARIOS,
    partitioned::SCENARIOS,
    motor::SCENARIOS,
    shm::SCENARIOS,
    sql_objects::SCENARIOS,
    staged::SCENARIOS,
    damaged_rows::SCENARIOS,
    checkpoint::SCENARIOS,
    unrestored::SCENARIOS,
    durable::SCENARIOS,
    survival::SCENARIOS,
    statements::SCENARIOS,
    handover::SCENARIOS,
    suspicion::SCENARIOS,
    crash_points::SCENARIOS,
];

/// All scenarios in one line.
pub fn all() -> impl Iterator<Item = &'static Scenario> {
    ALL.iter().copied().flatten()
}

/// The scenario of this name.
pub fn named(name: &str) -> Option<&'static Scenario> {
    all().find(|scenario| scenario.name == name)
}

/// Verbs after which a run of parts of a pod counts as stuck.
const MAX_VERBS: u64 = 400_000;

/// An adversarial run on a pod of this plan.
fn config(plan: &Plan, seed: u64, prefetch: bool, left_out: Option<&LeftOut>) -> SimConfig {
    let hosts = usize::from(plan.config().hosts);
    let mut config = SimConfig {
        sync: Some(SUPERBLOCK_BYTES..plan.sync_end()),
        mode: Mode::Adversarial(Adversary { prefetch, ..Adversary::swarm(seed) }),
        max_verbs: MAX_VERBS,
        ..SimConfig::swarm(hosts, plan.len() as usize, seed)
    };
    LeftOut::apply(left_out, &mut config);
    config
}
