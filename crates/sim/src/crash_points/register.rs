//! Which call sites of the product are crash points, and which of them a host died at.

use std::collections::{BTreeMap, BTreeSet};

use liger_fabric::sim::{Listed, Report, Site};
use serde::Serialize;

use crate::scenario;

/// Where the protocols are: files and folders, from the root of the sources.
pub const PROTOCOL_FILES: &[&str] = &[
    "crates/engine/src/row/commit.rs",
    "crates/engine/src/row/foreign.rs",
    "crates/engine/src/row/moves.rs",
    "crates/engine/src/row/asking.rs",
    "crates/engine/src/row/resolve.rs",
    "crates/engine/src/row/takeover.rs",
    "crates/engine/src/row/withdraw.rs",
    "crates/engine/src/host/",
    "crates/engine/src/instance/owners.rs",
    "crates/engine/src/instance/service.rs",
    "crates/engine/src/row/shared.rs",
    "crates/engine/src/log/",
    "crates/engine/src/recovery/checkpoint.rs",
    "crates/engine/src/recovery/checkpointer.rs",
    "crates/engine/src/recovery/checkpointer/",
    "crates/engine/src/recovery/directory.rs",
    "crates/engine/src/recovery/takeover.rs",
    "crates/pod/src/watch.rs",
    "crates/pod/src/owner.rs",
    "crates/pod/src/membership.rs",
    "crates/pod/src/epochs.rs",
    "crates/pod/src/heap.rs",
    "crates/pod/src/lanes.rs",
    "crates/store/src/bwtree/",
    "crates/sim/src/plain.rs",
];

/// Sources of the product, and the example of an access method; call sites elsewhere are those of tests.
const PRODUCT: [&str; 5] = [
    "crates/pod/src/",
    "crates/store/src/",
    "crates/engine/src/",
    "crates/fabric/src/disk/",
    "crates/sim/src/plain.rs",
];

/// A call site, or a named step, in the windows of the operations.
#[derive(Clone, Copy, Default, Debug, Serialize)]
pub struct Point {
    /// How often the hosts under test came by where nobody was killed.
    pub reached: u64,
    /// How often one died there: before the verb, or right behind the step.
    pub killed: u64,
}

/// What the windows covered.
#[derive(Debug, Default)]
pub struct Coverage {
    /// By call site.
    pub sites: BTreeMap<Site, Point>,
    /// By name.
    pub steps: BTreeMap<&'static str, Point>,
    /// Everything that any staged run reached, in its windows or not.
    pub staged: BTreeSet<Site>,
    /// What other scenarios reached.
    pub elsewhere: BTreeSet<Site>,
}

/// The same for one file of the protocols.
#[derive(Clone, Debug, Serialize)]
pub struct FileCoverage {
    /// The file.
    pub file: String,
    /// Call sites that any scenario reaches.
    pub known: usize,
    /// Those that the staged runs reach.
    pub staged: usize,
    /// Those that hosts under test reach in a window.
    pub windowed: usize,
    /// Those before which one died.
    pub killed: usize,
    /// Call sites that are known and in no window, as `LINE:COLUMN VERB`.
    pub outside: Vec<String>,
}

fn is_product(site: &Site) -> bool {
    PRODUCT.iter().any(|start| site.file.starts_with(start))
}

impl Coverage {
    /// A staged run has been here.
    pub(super) fn staged(&mut self, report: &Report) {
        for site in report.reached.iter().filter(|site| is_product(site)) {
            if !self.staged.contains(site) {
                self.staged.insert(site.clone());
            }
        }
    }

    /// The host under test has called these verbs.
    pub(super) fn windowed(&mut self, window: &[Listed]) {
        for listed in window {
            if is_product(&listed.site) {
                self.sites.entry(listed.site.clone()).or_default().reached += 1;
            }
            for step in &listed.named {
                self.steps.entry(step).or_default().reached += 1;
            }
        }
    }

    /// It has died before this one.
    pub(super) fn killed(&mut self, listed: &Listed) {
        if is_product(&listed.site) {
            self.sites.entry(listed.site.clone()).or_default().killed += 1;
        }
        for step in &listed.named {
            self.steps.entry(step).or_default().killed += 1;
        }
    }

    /// Runs the first seeds of all other scenarios, to learn which call sites there are.
    pub fn look_elsewhere(&mut self, seeds: u64) {
        for scenario in scenario::all().filter(|scenario| scenario.name != "crash-points") {
            for seed in 0..seeds {
                let reached = (scenario.run)(seed, None).report.reached;
                self.elsewhere.extend(reached.into_iter().filter(is_product));
            }
        }
    }

    /// Call sites in windows, and those of them before which a host died.
    pub fn points(&self) -> (usize, usize) {
        let killed = self.sites.values().filter(|point| point.killed > 0).count();
        (self.sites.len(), killed)
    }

    /// By file of the protocols, folders file by file.
    pub fn by_file(&self) -> Vec<FileCoverage> {
        let known: BTreeSet<&Site> = self.staged.iter().chain(&self.elsewhere).collect();
        let is_protocol = |file: &str| PROTOCOL_FILES.iter().any(|part| file.starts_with(part));
        let files: BTreeSet<&str> =
            known.iter().map(|site| site.file.as_str()).filter(|file| is_protocol(file)).collect();
        files.into_iter().map(|file| self.of_file(file, &known)).collect()
    }

    fn of_file(&self, file: &str, known: &BTreeSet<&Site>) -> FileCoverage {
        let known: Vec<&Site> = known.iter().copied().filter(|site| site.file == file).collect();
        let point = |site: &Site| self.sites.get(site).copied();
        let outside = known.iter().filter(|site| point(site).is_none());
        FileCoverage {
            file: file.to_owned(),
            known: known.len(),
            staged: known.iter().filter(|site| self.staged.contains(**site)).count(),
            windowed: known.iter().filter(|site| point(site).is_some()).count(),
            killed: known.iter().filter(|site| point(site).is_some_and(|p| p.killed > 0)).count(),
            outside: outside.map(|at| format!("{}:{} {}", at.line, at.column, at.verb)).collect(),
        }
    }
}

/// Sites as the names that mutants and violations have, files as tables.
impl Serialize for Coverage {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown<'a> {
            sites: BTreeMap<String, Point>,
            steps: &'a BTreeMap<&'static str, Point>,
            files: Vec<FileCoverage>,
        }
        let sites = self.sites.iter().map(|(site, point)| (site.to_string(), *point)).collect();
        Shown { sites, steps: &self.steps, files: self.by_file() }.serialize(serializer)
    }
}
