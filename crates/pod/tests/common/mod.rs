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

    /// Disables each site of `file` that the scenario reaches and leaves out each of `steps`; every mutation must be
    /// caught within the seeds, except those at the functions named in `spared`.
    pub fn mutations_are_caught(&self, file: &str, steps: &[&'static str], seeds: u64, spared: &[Spared]) {
        let mut missed = Vec::new();
        let mut mutations = 0;
        for site in self.sites(file) {
            mutations += 1;
            let found = self.failure(seeds, |config| config.disabled_site = Some(site.clone()));
            let expected = spared.iter().any(|s| s.covers(&site));
            match found {
                None if !expected => missed.push(site.to_string()),
                Some(_) if expected => missed.push(format!("{site} is caught and need not be spared")),
                _ => {}
            }
        }
        for &step in steps {
            mutations += 1;
            if self.failure(seeds, |config| config.sabotage = Some(step)).is_none() {
                missed.push(step.to_owned());
            }
        }
        assert!(
            mutations > 0 && missed.is_empty(),
            "of {mutations} mutations, not caught:\n{}",
            missed.join("\n")
        );
    }
}

/// A site that this scenario need not catch: the verb, and a text in the source line or the one before it.
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
