//! Seeded adversarial runs of a scenario, and mutation runs that must fail.

use liger_fabric::sim::{Adversary, Mode, Report, SimConfig, Site};
use liger_pod::plan::{Plan, PodConfig, SUPERBLOCK_BYTES};

/// A program on a simulated pod: its report, or what was wrong after a run that completed.
pub type Scenario = fn(&Plan, SimConfig) -> Result<Report, String>;

/// A scenario and the pod that it runs on.
pub struct Case {
    pub plan: Plan,
    pub prefetch: bool,
    pub scenario: Scenario,
}

impl Case {
    pub fn new(config: &PodConfig, prefetch: bool, scenario: Scenario) -> Self {
        Self { plan: Plan::new(config).unwrap(), prefetch, scenario }
    }

    fn config(&self, seed: u64) -> SimConfig {
        let hosts = usize::from(self.plan.config().hosts);
        SimConfig {
            sync: Some(SUPERBLOCK_BYTES..self.plan.sync_end()),
            mode: Mode::Adversarial(Adversary { prefetch: self.prefetch, ..Adversary::swarm(seed) }),
            max_verbs: 400_000,
            ..SimConfig::swarm(hosts, self.plan.len() as usize, seed)
        }
    }

    fn run(&self, config: SimConfig) -> Result<Report, String> {
        let seed = config.seed;
        let report = (self.scenario)(&self.plan, config).map_err(|e| format!("seed {seed}: {e}"))?;
        if report.completed() { Ok(report) } else { Err(format!("seed {seed}: {}", report.outcome)) }
    }

    /// Runs the seeds; every run must be right.
    pub fn passes(&self, seeds: u64) {
        for seed in 0..seeds {
            if let Err(failure) = self.run(self.config(seed)) {
                panic!("{failure}");
            }
        }
    }

    /// What the first failing run of the seeds says with `change` made to its configuration.
    pub fn failure(&self, seeds: u64, change: impl Fn(&mut SimConfig)) -> Option<String> {
        (0..seeds).find_map(|seed| {
            let mut config = self.config(seed);
            change(&mut config);
            self.run(config).err()
        })
    }

    /// The write_back, invalidate and fence sites in `file` that the scenario reaches.
    pub fn sites(&self, file: &str) -> Vec<Site> {
        let mut sites: Vec<Site> = (0..8)
            .flat_map(|seed| self.run(self.config(seed)).unwrap().sites)
            .map(|(site, _)| site)
            .filter(|site| site.file.ends_with(file))
            .collect();
        sites.sort();
        sites.dedup();
        sites
    }
}

/// Disables each site of `file` that the first scenario reaches and leaves out each of `steps`; one of the cases must
/// catch every mutation within its number of seeds, except the sites that are spared.
pub fn mutations_are_caught(cases: &[(Case, u64)], file: &str, steps: &[&'static str], spared: &[Spared]) {
    let caught = |change: &dyn Fn(&mut SimConfig)| {
        cases.iter().find_map(|(case, seeds)| case.failure(*seeds, change)).is_some()
    };
    let sites: Vec<Site> = cases[0].0.sites(file);
    assert!(!sites.is_empty(), "nothing of {file} is reached");
    let mut missed = Vec::new();
    for site in sites.into_iter().filter(|site| !spared.iter().any(|s| s.covers(site))) {
        if !caught(&|config| config.disabled_site = Some(site.clone())) {
            missed.push(site.to_string());
        }
    }
    for &step in steps {
        if !caught(&|config| config.sabotage = Some(step)) {
            missed.push(step.to_owned());
        }
    }
    assert!(missed.is_empty(), "not caught:\n{}", missed.join("\n"));
}

/// A site that no scenario need catch: the verb, and a text in the source line or the one before it.
pub struct Spared {
    pub verb: &'static str,
    pub near: &'static str,
    /// Why leaving it out is not wrong here.
    pub because: &'static str,
}

impl Spared {
    fn covers(&self, site: &Site) -> bool {
        assert!(!self.because.is_empty());
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
        let source = std::fs::read_to_string(format!("{root}{}", site.file)).unwrap();
        let lines: Vec<&str> = source.lines().collect();
        let at = site.line as usize - 1;
        let window = &lines[at.saturating_sub(1)..=at];
        site.verb.name() == self.verb && window.iter().any(|line| line.contains(self.near))
    }
}
