//! The tests are tested: every instruction and step that the pod's protocols need is left out once, and some
//! scenario must notice.
//!
//! A mutant is a call site of write_back, invalidate or fence in `pod`, `store`, `engine` or `rivals` that
//! the scenarios reach, or a named step of one of the `SABOTAGE_STEPS`. It is run against every scenario that
//! reaches it, seed after seed, until a run goes wrong: a broken rule of the memory model, a panic, a
//! deadlock, a history that is not serializable, a failed invariant, a leak.
//!
//! Invariants:
//! 1. Without mutants every scenario is right on its first seeds, and on each seed that catches a mutant.
//! 2. A survivor fails the stage unless it is in [`SPARED`] with a reason; an entry there that fits no mutant
//!    fails it too.
//! 3. A listed step that no run asks for, and a step asked for that is not listed, fail it.
//!
//! Whether a mutant is caught, and where, follows from the seeds alone; the caller's clock only ends the
//! search.

mod known;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

use liger_fabric::sim::{Outcome, Report};
use serde::Serialize;

use crate::scenario::{self, LeftOut, Ran, Scenario};
pub use known::{PRESSED, SPARED, Spared};
use known::{PRESSED_COST, first_seed, presses};

/// How thoroughly to search.
#[derive(Clone, Debug)]
pub struct Config {
    /// Time after which a mutant that nobody has noticed counts as a survivor, by `now_ns`.
    pub seconds_per_mutant: f64,
    /// Seeds after which it does.
    pub max_seeds: u64,
    /// Seeds of each scenario that must be right without mutants, and that find the call sites.
    pub baseline_seeds: u64,
    /// Only scenarios whose names contain this, and what they reach. Steps that these do not ask for are then
    /// no error.
    pub scenarios: Option<String>,
    /// Only mutants whose names contain this.
    pub mutants: Option<String>,
    /// How many mutants are searched side by side.
    pub threads: usize,
    /// The caller's clock, in nanoseconds from any time on.
    pub now_ns: fn() -> u64,
    /// Where the sources are: reports quote them, and [`SPARED`] is matched against them.
    pub root: PathBuf,
}

impl Config {
    /// The full stage by this clock, with the sources of this build.
    pub fn new(now_ns: fn() -> u64) -> Self {
        let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let root = here.ancestors().nth(2).expect("crates/sim lies two folders below the root").to_path_buf();
        Self {
            seconds_per_mutant: 60.0,
            max_seeds: u64::MAX,
            baseline_seeds: 20,
            scenarios: None,
            mutants: None,
            threads: 1,
            now_ns,
            root,
        }
    }
}

/// Who noticed, and how.
#[derive(Clone, Debug, Serialize)]
pub struct Catch {
    /// The scenario.
    pub scenario: &'static str,
    /// Its seed: the run replays with it.
    pub seed: u64,
    /// The rule, or the first line of what went wrong.
    pub how: String,
    /// Verbs of that run.
    pub verbs: u64,
}

/// What became of a mutant.
#[derive(Clone, Debug, Serialize)]
pub struct Mutant {
    /// The call site or the step.
    pub name: String,
    /// The source line of a call site.
    pub source: String,
    /// Who noticed.
    pub caught: Option<Catch>,
    /// Why nobody need notice.
    pub spared: Option<&'static str>,
    /// Runs that it took.
    pub runs: u64,
    /// Verbs of all these runs.
    pub verbs: u64,
}

impl Mutant {
    /// True if somebody should have noticed and nobody did.
    pub fn survived(&self) -> bool {
        self.caught.is_none() && self.spared.is_none()
    }
}

/// What the stage found.
#[derive(Clone, Debug, Serialize)]
pub struct MutationReport {
    /// Every mutant.
    pub mutants: Vec<Mutant>,
    /// What is wrong with the stage itself: scenarios that fail without mutants, names that do not match.
    pub problems: Vec<String>,
    /// Verbs of all runs.
    pub verbs: u64,
}

impl MutationReport {
    /// True if every mutant was noticed or is spared, and the stage itself is right.
    pub fn passed(&self) -> bool {
        self.problems.is_empty() && !self.mutants.iter().any(Mutant::survived)
    }

    /// All of it as one JSON object.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("names and numbers")
    }

    /// All of it as text.
    pub fn table(&self) -> String {
        let mut out = String::new();
        self.write_table(&mut out).expect("writing to a string cannot fail");
        out
    }

    fn write_table(&self, out: &mut String) -> std::fmt::Result {
        for mutant in &self.mutants {
            writeln!(out, "{}", mutant.line())?;
        }
        self.write_summary(out)
    }

    /// The counts, and what is wrong with the stage itself.
    pub fn summary(&self) -> String {
        let mut out = String::new();
        self.write_summary(&mut out).expect("writing to a string cannot fail");
        out
    }

    fn write_summary(&self, out: &mut String) -> std::fmt::Result {
        let count = |test: fn(&Mutant) -> bool| self.mutants.iter().filter(|m| test(m)).count();
        writeln!(
            out,
            "{} mutants: {} caught, {} spared, {} survived; {:.1} million verbs",
            self.mutants.len(),
            count(|m| m.caught.is_some()),
            count(|m| m.spared.is_some()),
            count(Mutant::survived),
            self.verbs as f64 / 1e6
        )?;
        self.problems.iter().try_for_each(|problem| writeln!(out, "wrong: {problem}"))
    }
}

impl Mutant {
    /// One line of the table, with the source line below it where there is one.
    pub fn line(&self) -> String {
        let fate = match (&self.caught, self.spared) {
            (Some(Catch { scenario, seed, how, verbs }), _) => {
                format!("caught by {scenario} seed {seed} in run {} ({verbs} verbs): {how}", self.runs)
            }
            (None, Some(because)) => format!("spared: {because}"),
            (None, None) => format!("SURVIVED {} runs, {} verbs", self.runs, self.verbs),
        };
        let source = if self.source.is_empty() { String::new() } else { format!("  `{}`", self.source) };
        format!("{}{source}\n    {fate}", self.name)
    }
}

/// Steps that the crates list.
pub fn listed_steps() -> impl Iterator<Item = &'static str> {
    let below = [liger_pod::SABOTAGE_STEPS, liger_store::SABOTAGE_STEPS].into_iter().flatten().copied();
    let engine = liger_engine::row::sabotage_steps().chain(liger_engine::log::sabotage_steps());
    let engine = engine.chain(liger_rivals::partitioned::sabotage_steps());
    let engine = engine.chain(liger_rivals::motor::sabotage_steps());
    let engine = engine.chain(liger_rivals::shm::sabotage_steps());
    let engine = engine.chain(crate::plain::SABOTAGE_STEPS.iter().copied());
    let checkpoint = liger_engine::recovery::sabotage_steps();
    below.chain(engine).chain(checkpoint).chain(liger_sql::catalog::SABOTAGE_STEPS.iter().copied())
}

/// What a mutant's name in a report stands for: a listed step, or a call site that this run of the scenario
/// reaches with nothing left out. `None` if it is neither.
pub fn named(scenario: &Scenario, seed: u64, name: &str) -> Option<LeftOut> {
    let step = listed_steps().find(|step| *step == name).map(LeftOut::Step);
    let site = || left_outs((scenario.run)(seed, None).report).find(|left_out| left_out.to_string() == name);
    step.or_else(site)
}

/// What a run costs besides its verbs, in verbs: building the pod.
const RUN_VERBS: u64 = 1000;

/// How far a scenario has been searched.
struct Search {
    scenario: &'static Scenario,
    seed: u64,
    cost: u64,
    /// How much cheaper its runs count.
    cheaper: u64,
}

impl Search {
    fn new(scenario: &'static Scenario, cheaper: u64) -> Self {
        Self { scenario, seed: 0, cost: 0, cheaper }
    }
}

/// A mutant and the scenarios that reach it.
struct Candidate {
    left_out: LeftOut,
    reached_by: Vec<&'static Scenario>,
}

/// Runs the stage; `progress` hears of each mutant when its fate is known. What catches a mutant does not
/// depend on the number of threads.
#[expect(
    clippy::disallowed_methods,
    reason = "each run is a simulation of its own, on one thread from end to end"
)]
pub fn stage(config: &Config, mut progress: impl FnMut(&Mutant)) -> MutationReport {
    let mut first = Stage::new(config);
    let candidates = first.candidates();
    let mut stages = vec![first];
    let mut judged = BTreeMap::new();
    let (next, (told, hear)) = (AtomicUsize::new(0), channel());
    std::thread::scope(|scope| {
        let work = |told: Sender<(usize, Mutant)>| {
            let mut stage = Stage::new(config);
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(candidate) = candidates.get(index) else { return stage };
                // Nobody listens any more: the stage has failed.
                _ = told.send((index, stage.judge(candidate)));
            }
        };
        let spawn = |told: Sender<_>| scope.spawn(move || work(told));
        let workers: Vec<_> = (0..config.threads.max(1)).map(|_| spawn(told.clone())).collect();
        drop(told);
        for (index, mutant) in hear {
            progress(&mutant);
            judged.insert(index, mutant);
        }
        stages.extend(workers.into_iter().map(|worker| worker.join().expect("panics of runs are caught")));
    });
    let mutants: Vec<Mutant> = judged.into_values().collect();
    let verbs = stages.iter().map(|stage| stage.verbs).sum();
    let mut problems: Vec<String> = stages.into_iter().flat_map(|stage| stage.problems).collect();
    if config.scenarios.is_none() && config.mutants.is_none() {
        let is_used = |spared: &Spared| mutants.iter().any(|m| m.spared == Some(spared.because));
        problems.extend(SPARED.iter().filter(|spared| !is_used(spared)).map(|spared| {
            format!("nothing fits the spared {} near \"{}\" in {}", spared.verb, spared.near, spared.file)
        }));
    }
    MutationReport { mutants, problems, verbs }
}

/// What one thread does of it.
struct Stage<'a> {
    config: &'a Config,
    problems: Vec<String>,
    verbs: u64,
}

impl<'a> Stage<'a> {
    fn new(config: &'a Config) -> Self {
        Self { config, problems: Vec::new(), verbs: 0 }
    }

    fn run(&mut self, scenario: &Scenario, seed: u64, left_out: Option<&LeftOut>) -> Ran {
        let ran = (scenario.run)(seed, left_out);
        self.verbs += ran.report.verbs;
        ran
    }

    /// Runs every scenario as it is; what it reaches can be left out, if the names are wanted.
    fn candidates(&mut self) -> Vec<Candidate> {
        let mut reached: BTreeMap<LeftOut, Vec<&'static Scenario>> = BTreeMap::new();
        let part = self.config.scenarios.as_deref().unwrap_or_default();
        for scenario in scenario::all().filter(|s| s.name.contains(part)) {
            let mut found = BTreeSet::new();
            for seed in 0..self.config.baseline_seeds {
                let Ran { report, problem } = self.run(scenario, seed, None);
                if let Some(problem) = problem {
                    self.fails_as_it_is(scenario, seed, &problem);
                }
                found.extend(left_outs(report));
            }
            for left_out in found {
                reached.entry(left_out).or_default().push(scenario);
            }
        }
        self.compare_names(reached.keys());
        let candidate = |(left_out, mut reached_by): (LeftOut, Vec<&'static Scenario>)| {
            // Whole pods that die and come back reach nearly everything, slowly; where rows are damaged, much
            // is reached that makes no difference there.
            let slow = ["survival", "handover", "crash", "damaged"];
            let is_slow = |name: &str| slow.iter().any(|it| name.starts_with(it));
            let is_quick = |scenario: &&Scenario| !is_slow(scenario.name);
            if reached_by.iter().any(is_quick) {
                reached_by.retain(is_quick);
            }
            // What presses on it may be slow, or reach it on other seeds only.
            let name = left_out.to_string();
            let is_pressing = |s: &&Scenario| presses(s, &name) && s.name.contains(part);
            for scenario in scenario::all().filter(is_pressing) {
                if reached_by.iter().all(|known| known.name != scenario.name) {
                    reached_by.push(scenario);
                }
            }
            Candidate { left_out, reached_by }
        };
        let is_wanted = |found: &Candidate| {
            let part = self.config.mutants.as_deref();
            part.is_none_or(|part| found.left_out.to_string().contains(part))
        };
        reached.into_iter().map(candidate).filter(is_wanted).collect()
    }

    fn compare_names<'n>(&mut self, reached: impl Iterator<Item = &'n LeftOut>) {
        let listed: BTreeSet<&str> = listed_steps().collect();
        let asked: BTreeSet<&str> = reached
            .filter_map(|what| match what {
                LeftOut::Step(step) => Some(*step),
                LeftOut::Site(_) => None,
            })
            .collect();
        let wrong = asked.difference(&listed).map(|step| format!("step {step} is asked for and not listed"));
        self.problems.extend(wrong);
        if self.config.scenarios.is_none() {
            let unused =
                listed.difference(&asked).map(|step| format!("step {step} is listed and never asked for"));
            self.problems.extend(unused);
        }
    }

    fn judge(&mut self, candidate: &Candidate) -> Mutant {
        let name = candidate.left_out.to_string();
        let (source, spared) = match &candidate.left_out {
            LeftOut::Step(_) => (String::new(), None),
            LeftOut::Site(site) => {
                let [above, line] = self.source(&site.file, site.line);
                let fits = |s: &Spared| {
                    let near = above.contains(s.near) || line.contains(s.near);
                    s.verb == site.verb && site.file.ends_with(s.file) && near
                };
                (line.trim().to_owned(), SPARED.iter().find(|spared| fits(spared)))
            }
        };
        let mut mutant = Mutant { name, source, caught: None, spared: None, runs: 0, verbs: 0 };
        if let Some(spared) = spared {
            mutant.spared = Some(spared.because);
            return mutant;
        }
        let end_ns = (self.config.now_ns)() + (self.config.seconds_per_mutant * 1e9) as u64;
        let costs = |s: &Scenario| if presses(s, &mutant.name) { PRESSED_COST } else { 1 };
        let first = |s: &Scenario| if presses(s, &mutant.name) { first_seed(&mutant.name) } else { 0 };
        let search = |s: &&'static Scenario| Search { seed: first(s), ..Search::new(s, costs(s)) };
        let mut searches: Vec<Search> = candidate.reached_by.iter().map(search).collect();
        // Always the scenario that has cost least so far: the cheap ones get many seeds, the dear ones some.
        while let Some(search) = searches
            .iter_mut()
            .filter(|s| s.seed < self.config.max_seeds.saturating_add(first(s.scenario)))
            .min_by_key(|s| s.cost)
        {
            let (scenario, seed) = (search.scenario, search.seed);
            search.seed += 1;
            let (how, verbs) = self.attempt(scenario, seed, &candidate.left_out);
            search.cost += (verbs + RUN_VERBS) / search.cheaper;
            mutant.runs += 1;
            mutant.verbs += verbs;
            if let Some(how) = how
                && self.is_right(scenario, seed)
            {
                mutant.caught = Some(Catch { scenario: scenario.name, seed, how, verbs });
                break;
            }
            if (self.config.now_ns)() > end_ns {
                break;
            }
        }
        mutant
    }

    /// What goes wrong in a run with something left out, and its verbs.
    fn attempt(&mut self, scenario: &Scenario, seed: u64, left_out: &LeftOut) -> (Option<String>, u64) {
        let before = self.verbs;
        let how = catch_unwind(AssertUnwindSafe(|| how(&self.run(scenario, seed, Some(left_out)))));
        let how = how.unwrap_or_else(|_| Some("panic while the pod was built".to_owned()));
        (how, self.verbs - before)
    }

    /// True if a run is right with nothing left out: otherwise its failure says nothing about a mutant.
    fn is_right(&mut self, scenario: &Scenario, seed: u64) -> bool {
        let problem = self.run(scenario, seed, None).problem;
        if let Some(problem) = &problem {
            self.fails_as_it_is(scenario, seed, problem);
        }
        problem.is_none()
    }

    fn fails_as_it_is(&mut self, scenario: &Scenario, seed: u64, problem: &str) {
        let line = problem.lines().next().unwrap_or_default();
        let what = format!("{} fails on seed {seed} as it is: {line}", scenario.name);
        if !self.problems.contains(&what) {
            self.problems.push(what);
        }
    }

    /// A line of a source file (from 1) and the one above it; empty where there is none.
    fn source(&self, file: &str, line: u32) -> [String; 2] {
        let text = std::fs::read_to_string(self.config.root.join(file)).unwrap_or_default();
        let get = |line: u32| text.lines().nth(line as usize).unwrap_or_default().to_owned();
        [line.checked_sub(2).map(get).unwrap_or_default(), get(line - 1)]
    }
}

/// What was wrong with a run, in one line.
fn how(ran: &Ran) -> Option<String> {
    let problem = ran.problem.as_ref()?;
    Some(match &ran.report.outcome {
        Outcome::Violation(violation) => {
            let there = violation.here.location.map(|at| format!(" at {}:{}", at.file(), at.line()));
            format!("{}{}", violation.rule, there.unwrap_or_default())
        }
        _ => problem.lines().next().unwrap_or_default().to_owned(),
    })
}

/// Everything that a run has reached and that could be left out of the product.
fn left_outs(report: Report) -> impl Iterator<Item = LeftOut> {
    const PRODUCT: [&str; 5] = [
        "crates/pod/src/",
        "crates/store/src/",
        "crates/engine/src/",
        "crates/rivals/src/",
        "crates/fabric/src/cx.rs",
    ];
    let sites = report.sites.into_iter().map(|(site, _)| site);
    let of_product = sites.filter(|site| PRODUCT.iter().any(|start| site.file.starts_with(start)));
    of_product.map(LeftOut::Site).chain(report.steps_asked.into_iter().map(LeftOut::Step))
}
