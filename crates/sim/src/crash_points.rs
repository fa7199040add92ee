//! Small operations on a pod of three hosts, one of which dies before every single verb.
//!
//! Each operation is run once to see which verbs the host under test calls while it happens. Then it is run
//! again, with the same seed, for every one of these verbs and every crash domain: everything is the same up
//! to that verb, and there the host dies. The others notice, resolve locks, take over, change every row, and
//! are judged like the survivors of random runs (see [`crate::survival`]).
//!
//! * [`operations`](OPERATIONS): what is done; `staged`: who does it when;
//! * [`survey`]: all these runs, and which call sites of the engine they killed a host at.
//!
//! In some operations tables are kept by two access methods ([`crate::plain`] beside rows), so that every
//! verb of a commit over both is a crash point.
//!
//! Invariants:
//! 1. A run is a function of its [`CrashRun`] alone; up to the kill it is the run without a kill.
//! 2. Between the first and the last verb of a window no verb of the host under test is left out, whichever
//!    of its workers calls it.

mod operations;
mod register;
mod staged;
mod words;

use std::collections::BTreeSet;
use std::rc::Rc;

use liger_engine::method::Both;
use liger_engine::row::Rows;
use liger_fabric::HostId;
use liger_fabric::sim::{Adversary, CrashDomain, Mode, Scheduler, SimConfig, Site};
use serde::Serialize;

pub use operations::{OPERATIONS, Operation, Subject};
pub use register::{Coverage, FileCoverage, PROTOCOL_FILES, Point};
pub use staged::CrashAt;
use staged::{Scene, Staged};

use crate::plain::Plain;
use crate::pod::Kept;
use crate::rows::{self, PlainTables, RowsRun};
use crate::scenario::LeftOut;
use crate::survival::{self, SurvivalResult, SurvivalRun};

/// The crash domains, with their names on the command line.
pub const DOMAINS: [(&str, CrashDomain); 3] = [
    ("process", CrashDomain::Process),
    ("host", CrashDomain::Host),
    ("host-persistent", CrashDomain::HostPersistent),
];

/// Verbs after which a run counts as stuck.
const MAX_VERBS: u64 = 2_000_000;
/// Hosts of the pod.
const HOSTS: u8 = 3;

/// One run.
#[derive(Clone, Copy)]
pub struct CrashRun<'a> {
    /// What happens.
    pub operation: &'static Operation,
    /// Decides the rest.
    pub seed: u64,
    /// Who dies, and when.
    pub crash: Option<CrashAt>,
    /// What the pod leaves out.
    pub left_out: Option<&'a LeftOut>,
}

/// How it ended.
#[derive(Debug)]
pub struct CrashResult {
    /// As of any pod some of whose hosts died. In a run without a crash the report lists the verbs of all
    /// hosts in the window.
    pub survival: SurvivalResult,
    /// The host under test; none if the operation did not get so far that it can be told.
    pub subject: Option<HostId>,
}

impl Operation {
    /// The operation of this name.
    pub fn named(name: &str) -> Option<&'static Operation> {
        OPERATIONS.iter().find(|operation| operation.name == name)
    }

    fn rows(&self, seed: u64) -> RowsRun {
        let Self { keys, plain, ring_bytes, .. } = *self;
        let run = RowsRun { hosts: HOSTS, workers: 1, budget_rows: 400, ..RowsRun::from_seed(seed) };
        RowsRun { keys, plain, ring_bytes, ..run }
    }

    /// The same, as hosts play it that keep their tables in `M`.
    fn on<M: Kept>(&self) -> &'static Operation<M> {
        let same = |other: &&Operation<M>| other.name == self.name;
        Operation::<M>::ALL.iter().find(same).expect("it is in the list")
    }
}

/// Runs it.
pub fn run(run: &CrashRun<'_>) -> CrashResult {
    match run.operation.plain {
        PlainTables::None => run_on::<Rows>(run),
        _ => run_on::<Both<Rows, Plain>>(run),
    }
}

fn run_on<M: Kept>(run: &CrashRun<'_>) -> CrashResult {
    let scene = Rc::new(Scene::new(run.crash));
    let script = Box::new(Staged::<M> { operation: run.operation.on(), scene: Rc::clone(&scene) });
    let rows = run.operation.rows(run.seed);
    let shape = SurvivalRun {
        rows,
        deaths: Vec::new(),
        lease_ns: 300_000,
        replay_bytes: 64 << 10,
        follows: None,
        room: survival::Room::Enough,
        moves: survival::Moving::None,
        dies_released: None,
        snapshots: 0,
        statements: 0,
        newcomers: 0,
    };
    let (mut pod, world) = survival::world::start(&shape, script, |plan| {
        let swarm = Adversary::swarm(run.seed);
        // Nobody is starved, and heartbeats are seen some time, so that only those die who are to.
        let drains = swarm.drains.max(2);
        let switches = [64, 256, 512][run.seed as usize % 3];
        let scheduler = Scheduler::Random { switch_per_1024: switches };
        let mode = Mode::Adversarial(Adversary { scheduler, drains, ..swarm });
        let mut config = SimConfig { mode, max_verbs: MAX_VERBS, ..rows::config(&shape.rows, plan) };
        LeftOut::apply(run.left_out, &mut config);
        config
    });
    let report = pod.sim.run();
    let subject = match run.operation.subject {
        Subject::Host(host) => Some(host),
        Subject::Successor => scene.successor(),
        Subject::Bystander => scene.successor().map(|successor| HostId(3 - successor.0)),
    };
    CrashResult { survival: survival::judge(&shape.rows, pod, &world, report), subject }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Only operations whose names contain this.
    pub operation: Option<String>,
    /// Only this crash domain.
    pub domain: Option<CrashDomain>,
    /// Every so many-th verb, where to begin differs from operation to operation and domain to domain; and
    /// the first verb of every call site, in one domain or the other.
    pub every: u64,
    /// Only this verb.
    pub verb: Option<u64>,
    /// The seeds of each operation.
    pub seeds: std::ops::Range<u64>,
}

/// A run that went wrong.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// The operation.
    pub operation: &'static str,
    /// The crash domain's name; none if nobody was to die.
    pub domain: Option<&'static str>,
    /// The verb before which the host was to die.
    pub verb: Option<u64>,
    /// The seed.
    pub seed: u64,
    /// What is wrong.
    pub problem: String,
}

impl Failure {
    /// What shows it again.
    pub fn command(&self) -> String {
        let domain = self.domain.map(|domain| format!(" --domain {domain}")).unwrap_or_default();
        let verb = self.verb.map(|verb| format!(" --verb {verb}")).unwrap_or_default();
        format!("liger sim crash-points --operation {} --seed {}{domain}{verb}", self.operation, self.seed)
    }
}

/// The runs of one operation, seed and crash domain.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// The operation.
    pub operation: &'static str,
    /// The crash domain's name.
    pub domain: &'static str,
    /// The seed.
    pub seed: u64,
    /// The host under test.
    pub host: u8,
    /// Verbs of it in the window.
    pub window: u64,
    /// Runs in which it died before one of them.
    pub runs: u64,
    /// Deaths of other hosts than were to die, all runs together: taken for dead, they were cut off.
    pub others_died: u64,
    /// Runs that went wrong.
    pub failed: u64,
}

/// What came of a survey.
#[derive(Debug, Default, Serialize)]
pub struct Surveyed {
    /// By operation, seed and domain.
    pub series: Vec<Series>,
    /// Where hosts died.
    pub coverage: Coverage,
    /// What went wrong.
    pub failures: Vec<Failure>,
    /// Verbs of all runs.
    pub verbs: u64,
}

/// Runs all of it; `progress` hears of each series when it is done.
pub fn survey(config: &Survey, mut progress: impl FnMut(&Series, &[Failure])) -> Surveyed {
    let mut surveyed = Surveyed::default();
    let part = config.operation.as_deref().unwrap_or_default();
    // An exact name means that operation alone.
    let is_asked = |name: &str| match Operation::named(part) {
        Some(operation) => operation.name == name,
        None => name.contains(part),
    };
    for (index, operation) in OPERATIONS.iter().enumerate().filter(|(_, of)| is_asked(of.name)) {
        for seed in config.seeds.clone() {
            surveyed.operation(config, index as u64, operation, seed, &mut progress);
        }
    }
    surveyed
}

impl Surveyed {
    fn operation(
        &mut self,
        config: &Survey,
        index: u64,
        operation: &'static Operation,
        seed: u64,
        progress: &mut impl FnMut(&Series, &[Failure]),
    ) {
        let calm = run(&CrashRun { operation, seed, crash: None, left_out: None });
        self.verbs += calm.survival.report.verbs;
        let planned = u64::from(operation.opens_later || operation.comes_back.is_some());
        let mut failure = |problem: String| {
            let failure = Failure { operation: operation.name, domain: None, verb: None, seed, problem };
            self.failures.push(failure);
        };
        calm.survival.problems.iter().for_each(|problem| failure(problem.clone()));
        let Some(host) = calm.subject.filter(|_| calm.survival.problems.is_empty()) else {
            return;
        };
        if calm.survival.deaths != planned {
            failure(format!("{} hosts die, not {planned}, where nobody is killed", calm.survival.deaths));
        }
        self.coverage.staged(&calm.survival.report);
        let window: Vec<_> = calm.survival.report.listed.into_iter().filter(|v| v.host == host).collect();
        for (nth, (name, domain)) in DOMAINS.into_iter().enumerate() {
            if config.domain.is_some_and(|only| only != domain) {
                continue;
            }
            let mut series = Series {
                operation: operation.name,
                domain: name,
                seed,
                host: host.0,
                window: window.len() as u64,
                runs: 0,
                others_died: 0,
                failed: 0,
            };
            let first = (index + seed + nth as u64 * config.every / 3) % config.every;
            let before = self.failures.len();
            let mut met: BTreeSet<&Site> = BTreeSet::new();
            for (at, listed) in window.iter().enumerate() {
                let verb = at as u64 + 1;
                let is_first = met.insert(&listed.site) && (met.len() + nth).is_multiple_of(DOMAINS.len());
                let is_due = at as u64 % config.every == first || is_first;
                if config.verb.map_or(!is_due, |only| only != verb) {
                    continue;
                }
                let crash = Some(CrashAt { host, verb, domain });
                let ran = run(&CrashRun { operation, seed, crash, left_out: None }).survival;
                series.runs += 1;
                self.verbs += ran.report.verbs;
                self.coverage.staged(&ran.report);
                let mut problems = ran.problems;
                match ran.report.hosts[usize::from(host.0)].killed.contains(&listed.step) {
                    true => self.coverage.killed(listed),
                    false => problems.push(format!("it does not die in step {}", listed.step)),
                }
                series.others_died += ran.deaths.saturating_sub(planned + 1);
                series.failed += u64::from(!problems.is_empty());
                let (domain, verb) = (Some(name), Some(verb));
                let operation = operation.name;
                self.failures.extend(problems.into_iter().map(|problem| Failure {
                    operation,
                    domain,
                    verb,
                    seed,
                    problem,
                }));
            }
            progress(&series, &self.failures[before..]);
            self.series.push(series);
        }
        self.coverage.windowed(&window);
    }
}
