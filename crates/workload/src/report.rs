//! The result of a run: a table for people and a JSON object for programs.
//!
//! The keys of the JSON object are a promise: they are added to, never renamed or given another unit.
//!
//! | key | unit | meaning |
//! |---|---|---|
//! | `workload`, `protocol`, `backend` | | what ran, under which concurrency control, on which memory |
//! | `settings` | | the workload's parameters by name |
//! | `seed` | | replays the run where the backend can |
//! | `hosts`, `workers` | | hosts of the pod, workers of all hosts |
//! | `measured_s` | s | measured time, without warm-up |
//! | `committed_per_s`, `aborted_per_s` | 1/s | committed transactions; aborted attempts of any reason |
//! | `committed`, `rolled_back`, `retries`, `given_up` | | counts in the measured time, see [`KindStats`] |
//! | `mean_us`, `p50_us`, `p90_us`, `p99_us`, `p999_us`, `max_us` | us | latency of committed transactions, retries included, to the acknowledgement (with a log: to being durable) |
//! | `commit_p50_us`, `commit_p99_us` | us | the same to the commit itself |
//! | `verbs_per_commit` | | shared-memory verbs of all attempts by name, over committed transactions |
//! | `aborts` | | aborted attempts by reason |
//! | `stopped` | | errors that ended workers before their time |
//! | `kinds` | | the same figures for each transaction type |
//! | `consistent` | | `true`, `false`, or `null` when the check did not run |
//! | `failures` | | the check's findings, in words |
//! | `hwcc_bytes_per_shared_tuple` | B | [`EngineFigures::hwcc_tuple_bytes`] over shared tuples; `null` when none is shared |
//! | `engine` | | [`EngineFigures`] |

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::stats::{KindStats, WorkerStats};
use crate::storage::StorageFigures;

/// What only the engine knows. The caller fills it in; sums over hosts with [`EngineFigures::merge`].
#[derive(Clone, Default, Debug, PartialEq, Serialize, Deserialize)]
pub struct EngineFigures {
    /// Bytes of hardware-coherent memory in use, by class (index, records, lanes, ...).
    pub hwcc_bytes: BTreeMap<String, u64>,
    /// Bytes of all shared memory in use, by class.
    pub cxl_bytes: BTreeMap<String, u64>,
    /// Bytes of hardware-coherent memory that grow with the number of shared tuples: their records and their
    /// index.
    pub hwcc_tuple_bytes: u64,
    /// Tuples that live in shared memory at the end of the run.
    pub shared_tuples: u64,
    /// Tuples moved into shared memory during the measured time.
    pub moves_in: u64,
    /// Tuples moved out of it.
    pub moves_out: u64,
    /// Anything else, by name with the unit last.
    pub more: BTreeMap<String, u64>,
    /// What hosts with logs have written and removed.
    pub storage: Option<StorageFigures>,
}

impl EngineFigures {
    /// What came since `earlier` of the same pod: moves and `more` are counts, all else is as it is now.
    #[must_use]
    pub fn since(mut self, earlier: &Self) -> Self {
        self.moves_in -= earlier.moves_in;
        self.moves_out -= earlier.moves_out;
        for (name, n) in &mut self.more {
            *n -= earlier.more.get(name).copied().unwrap_or(0);
        }
        self
    }

    /// Adds another host's figures. Figures about the pod as a whole must be filled in by one host only.
    pub fn merge(&mut self, other: &Self) {
        let maps = [
            (&mut self.hwcc_bytes, &other.hwcc_bytes),
            (&mut self.cxl_bytes, &other.cxl_bytes),
            (&mut self.more, &other.more),
        ];
        for (into, from) in maps {
            for (name, n) in from {
                *into.entry(name.clone()).or_default() += n;
            }
        }
        self.hwcc_tuple_bytes += other.hwcc_tuple_bytes;
        self.shared_tuples += other.shared_tuples;
        self.moves_in += other.moves_in;
        self.moves_out += other.moves_out;
        if let Some(storage) = &other.storage {
            self.storage.get_or_insert_default().merge(storage);
        }
    }

    fn hwcc_bytes_per_shared_tuple(&self) -> Option<f64> {
        (self.shared_tuples > 0).then(|| self.hwcc_tuple_bytes as f64 / self.shared_tuples as f64)
    }
}

/// Figures of one transaction type, or of all together.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the table in the module's documentation describes every key")]
pub struct Figures {
    pub committed_per_s: f64,
    pub committed: u64,
    pub rolled_back: u64,
    pub retries: u64,
    pub given_up: u64,
    pub mean_us: f64,
    pub p50_us: f64,
    pub p90_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
    pub commit_p50_us: f64,
    pub commit_p99_us: f64,
    pub verbs_per_commit: BTreeMap<String, f64>,
}

impl Figures {
    fn new(kind: &KindStats, stats: &WorkerStats) -> Self {
        let us = |quantile| kind.latency_ns.quantile(quantile) as f64 / 1e3;
        let per_commit = |n: &u64| *n as f64 / kind.committed.max(1) as f64;
        Self {
            committed_per_s: stats.per_second(kind.committed),
            committed: kind.committed,
            rolled_back: kind.rolled_back,
            retries: kind.retries,
            given_up: kind.given_up,
            mean_us: kind.latency_ns.mean() / 1e3,
            p50_us: us(0.5),
            p90_us: us(0.9),
            p99_us: us(0.99),
            p999_us: us(0.999),
            max_us: kind.latency_ns.max() as f64 / 1e3,
            commit_p50_us: kind.commit_ns.quantile(0.5) as f64 / 1e3,
            commit_p99_us: kind.commit_ns.quantile(0.99) as f64 / 1e3,
            verbs_per_commit: kind.verbs.iter().map(|(name, n)| (name.clone(), per_commit(n))).collect(),
        }
    }
}

/// A run's result. Serializes to the object that the module's documentation describes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the table in the module's documentation describes every key")]
pub struct Report {
    pub workload: String,
    pub protocol: String,
    pub backend: String,
    pub settings: BTreeMap<String, String>,
    pub seed: u64,
    pub hosts: u32,
    pub workers: u32,
    pub measured_s: f64,
    #[serde(flatten)]
    pub all: Figures,
    pub aborted_per_s: f64,
    pub aborts: BTreeMap<String, u64>,
    pub stopped: Vec<String>,
    pub kinds: BTreeMap<String, Figures>,
    pub consistent: Option<bool>,
    pub failures: Vec<String>,
    pub hwcc_bytes_per_shared_tuple: Option<f64>,
    pub engine: EngineFigures,
}

/// What a report says about the run besides its measurements.
#[derive(Clone, Default, Debug)]
pub struct About {
    /// The workload's name.
    pub workload: String,
    /// The concurrency control.
    pub protocol: String,
    /// The memory it ran on, with the profile if latencies were injected.
    pub backend: String,
    /// The workload's parameters.
    pub settings: BTreeMap<String, String>,
    /// The run's seed.
    pub seed: u64,
    /// Hosts of the pod.
    pub hosts: u32,
}

impl Report {
    /// Puts a report together. `failures` are the consistency check's findings, `None` if it did not run.
    pub fn new(
        about: About,
        stats: &WorkerStats,
        failures: Option<Vec<String>>,
        engine: EngineFigures,
    ) -> Self {
        Self {
            workload: about.workload,
            protocol: about.protocol,
            backend: about.backend,
            settings: about.settings,
            seed: about.seed,
            hosts: about.hosts,
            workers: stats.workers,
            measured_s: stats.measured_ns as f64 / 1e9,
            all: Figures::new(&stats.total(), stats),
            aborted_per_s: stats.per_second(stats.aborted()),
            aborts: stats.aborts.clone(),
            stopped: stats.stopped.clone(),
            kinds: stats.kinds.iter().map(|(name, k)| (name.clone(), Figures::new(k, stats))).collect(),
            consistent: failures.as_ref().map(Vec::is_empty),
            failures: failures.unwrap_or_default(),
            hwcc_bytes_per_shared_tuple: engine.hwcc_bytes_per_shared_tuple(),
            engine,
        }
    }

    /// The JSON object, on one line.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("every key is a string and every number finite")
    }

    /// The table for people.
    pub fn table(&self) -> String {
        let mut out = String::new();
        self.write_table(&mut out).expect("writing to a string cannot fail");
        out
    }

    fn write_table(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "{} | {} | {} | seed {}", self.workload, self.protocol, self.backend, self.seed)?;
        for (name, value) in &self.settings {
            write!(out, "{name}={value} ")?;
        }
        writeln!(out, "\n{} hosts, {} workers, {:.3} s measured", self.hosts, self.workers, self.measured_s)?;
        write!(
            out,
            "\n{:<14}{:>14}{:>12}{:>10}{:>10}",
            "", "committed/s", "committed", "retries", "given up"
        )?;
        writeln!(out, "{:>12}{:>12}{:>12}", "p50 us", "p99 us", "max us")?;
        for (name, figures) in self.kinds.iter().map(|(n, f)| (n.as_str(), f)).chain([("all", &self.all)]) {
            let Figures { committed_per_s, committed, retries, given_up, .. } = figures;
            write!(out, "{name:<14}{committed_per_s:>14.1}{committed:>12}{retries:>10}{given_up:>10}")?;
            writeln!(out, "{:>12.1}{:>12.1}{:>12.1}", figures.p50_us, figures.p99_us, figures.max_us)?;
        }
        let Figures { p50_us, p99_us, commit_p50_us, commit_p99_us, .. } = self.all;
        if (p50_us, p99_us) != (commit_p50_us, commit_p99_us) {
            writeln!(
                out,
                "to the commit itself, before it is durable: {commit_p50_us:.1} and {commit_p99_us:.1} us"
            )?;
        }
        writeln!(out, "\naborted attempts: {:.1}/s", self.aborted_per_s)?;
        for (reason, n) in &self.aborts {
            writeln!(out, "  {reason:<28}{n:>12}")?;
        }
        self.stopped.iter().try_for_each(|error| writeln!(out, "a worker was stopped: {error}"))?;
        writeln!(out, "shared-memory verbs per commit:")?;
        for (name, n) in &self.all.verbs_per_commit {
            writeln!(out, "  {name:<28}{n:>12.2}")?;
        }
        self.write_engine(out)?;
        self.write_verdict(out)
    }

    fn write_engine(&self, out: &mut String) -> std::fmt::Result {
        let EngineFigures { shared_tuples, moves_in, moves_out, .. } = self.engine;
        let per_s = |n: u64| n as f64 / self.measured_s.max(f64::MIN_POSITIVE);
        writeln!(
            out,
            "shared tuples: {shared_tuples}, moved in {moves_in} ({:.1}/s), moved out {moves_out} ({:.1}/s)",
            per_s(moves_in),
            per_s(moves_out)
        )?;
        if let Some(bytes) = self.hwcc_bytes_per_shared_tuple {
            writeln!(out, "hardware-coherent bytes per shared tuple: {bytes:.1} B")?;
        }
        let engine = &self.engine;
        engine.storage.iter().try_for_each(|storage| storage.write_table(out))?;
        for (title, classes) in [("HWcc", &engine.hwcc_bytes), ("CXL", &engine.cxl_bytes)] {
            for (name, bytes) in classes {
                writeln!(out, "  {title:<5}{name:<23}{bytes:>12} B")?;
            }
        }
        engine.more.iter().try_for_each(|(name, n)| writeln!(out, "  {name:<28}{n:>12}"))
    }

    fn write_verdict(&self, out: &mut String) -> std::fmt::Result {
        match self.consistent {
            None => writeln!(out, "consistency: not checked"),
            Some(true) => writeln!(out, "consistency: all conditions hold"),
            Some(false) => {
                writeln!(out, "consistency: VIOLATED")?;
                self.failures.iter().try_for_each(|failure| writeln!(out, "  {failure}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(failures: Option<Vec<String>>) -> Report {
        let mut kind = KindStats { committed: 4, retries: 2, ..KindStats::default() };
        [1_000, 2_000, 3_000, 40_000].into_iter().for_each(|ns| kind.latency_ns.record(ns));
        kind.verbs.insert("fences".into(), 10);
        let stats = WorkerStats {
            workers: 6,
            measured_ns: 2_000_000_000,
            kinds: [("payment".into(), kind)].into(),
            aborts: [("lock_conflict".into(), 2)].into(),
            ..WorkerStats::default()
        };
        let engine = EngineFigures { hwcc_tuple_bytes: 160, shared_tuples: 10, ..EngineFigures::default() };
        Report::new(
            About { workload: "tpcc".into(), seed: 3, hosts: 2, ..About::default() },
            &stats,
            failures,
            engine,
        )
    }

    #[test]
    fn promised_keys_are_there() {
        let value: serde_json::Value = serde_json::from_str(&sample(Some(vec![])).json()).unwrap();
        assert_eq!(value["committed_per_s"], 2.0);
        assert_eq!(value["aborted_per_s"], 1.0);
        assert_eq!(value["consistent"], true);
        assert_eq!(value["hwcc_bytes_per_shared_tuple"], 16.0);
        assert_eq!((&value["seed"], &value["workers"]), (&3.into(), &6.into()));
        assert_eq!(value["verbs_per_commit"]["fences"], 2.5);
        assert_eq!(value["max_us"], 40.0);
        assert_eq!(value["kinds"]["payment"]["committed"], 4);
        for key in ["p50_us", "p99_us", "measured_s", "engine", "settings", "aborts", "given_up"] {
            assert!(!value[key].is_null(), "{key}");
        }
    }

    #[test]
    fn verdicts() {
        assert!(sample(None).table().contains("not checked"));
        let bad = sample(Some(vec!["condition 1: warehouse 3".into()]));
        assert!(bad.table().contains("VIOLATED") && bad.table().contains("warehouse 3"));
        assert_eq!(serde_json::to_value(sample(None)).unwrap()["consistent"], serde_json::Value::Null);
        assert_eq!(serde_json::to_value(bad).unwrap()["consistent"], false);
    }

    #[test]
    fn engine_figures_add_up() {
        let one =
            EngineFigures { hwcc_bytes: [("index".into(), 5)].into(), moves_in: 2, ..Default::default() };
        let mut sum = one.clone();
        sum.merge(&one);
        assert_eq!((sum.hwcc_bytes["index"], sum.moves_in), (10, 4));
    }
}
