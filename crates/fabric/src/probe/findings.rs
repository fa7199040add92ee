//! Figures: how they are taken, and what they say.

use std::time::Duration;

use super::machine::Machine;
use crate::native::{Mapping, Native};

/// Batches of a figure: the fewest that have a median and a spread, and the most that are worth the time.
const BATCHES: (usize, usize) = (9, 2000);

/// One measured number.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// Its unit.
    pub unit: &'static str,
    /// The middle of all batches.
    pub median: f64,
    /// A tenth of the batches were below.
    pub low: f64,
    /// A tenth of the batches were above.
    pub high: f64,
    /// Batches.
    pub batches: usize,
}

/// Something that was not measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// What.
    pub name: String,
    /// Why.
    pub why: String,
}

/// What a probe has found.
#[derive(Clone, PartialEq, Debug)]
pub struct Findings {
    /// Where.
    pub machine: Machine,
    /// What was measured, in order.
    pub figures: Vec<Figure>,
    /// What was not.
    pub missing: Vec<Missing>,
}

impl Findings {
    /// The figure of this name.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// Why there is no figure of this name.
    pub fn why_not(&self, name: &str) -> &str {
        let missing = self.missing.iter().find(|missing| missing.name == name);
        missing.map_or("it is not measured", |missing| &missing.why)
    }
}

/// Takes figures, each in its share of the time.
pub(super) struct Recorder {
    share: Duration,
    clock: Native,
    figures: Vec<Figure>,
    missing: Vec<Missing>,
}

impl Recorder {
    pub fn new(share: Duration) -> Self {
        let line = Mapping::anonymous(64).expect("memory for a line");
        Self { share, clock: Native::new(line), figures: Vec::new(), missing: Vec::new() }
    }

    pub fn share(&self) -> Duration {
        self.share
    }

    /// Nanoseconds of this process's clock.
    pub fn now_ns(&self) -> u64 {
        crate::Fabric::now_ns(&self.clock)
    }

    /// Repeats `batch`, which says how long so many calls took (ns), for this share of the time: nanoseconds
    /// a call.
    pub fn time_calls(&mut self, name: &str, mut batch: impl FnMut() -> (u64, u64)) {
        self.repeat(name, "ns", || {
            let (ns, calls) = batch();
            assert!(calls > 0, "a batch has calls");
            ns as f64 / calls as f64
        });
    }

    /// As [`Recorder::time_calls`], of a batch that gives a number in `unit`.
    pub fn repeat(&mut self, name: &str, unit: &'static str, mut batch: impl FnMut() -> f64) -> f64 {
        // The first one fills caches and touches pages.
        batch();
        let (start, share) = (self.now_ns(), self.share.as_nanos() as u64);
        let mut all = Vec::new();
        while all.len() < BATCHES.0 || (all.len() < BATCHES.1 && self.now_ns() - start < share) {
            all.push(batch());
        }
        self.record(name, unit, all)
    }

    /// Notes what batches gave; returns the median.
    pub fn record(&mut self, name: &str, unit: &'static str, mut all: Vec<f64>) -> f64 {
        assert!(!all.is_empty() && all.iter().all(|value| value.is_finite()), "{name}: {all:?}");
        assert!(self.median(name).is_none(), "{name} is measured once");
        all.sort_by(f64::total_cmp);
        let at = |percent: usize| all[(all.len() - 1) * percent / 100];
        let (name, median) = (name.to_owned(), at(50));
        self.figures.push(Figure { name, unit, median, low: at(10), high: at(90), batches: all.len() });
        median
    }

    pub fn missing(&mut self, name: &str, why: impl Into<String>) {
        assert!(self.median(name).is_none(), "{name} is measured, and missing");
        self.missing.push(Missing { name: name.to_owned(), why: why.into() });
    }

    /// The median of an earlier figure.
    pub fn median(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.name == name).map(|figure| figure.median)
    }

    pub fn into_findings(self, machine: Machine) -> Findings {
        Findings { machine, figures: self.figures, missing: self.missing }
    }
}
