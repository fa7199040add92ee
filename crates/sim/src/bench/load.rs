//! Fills a simulated pod with a workload's database.

use std::rc::Rc;

use liger_engine::protocol::{Emit, HostEngine};
use liger_engine::{Catalog, TxnError};
use liger_fabric::{HostId, WorkerId};
use liger_workload::benchmark::Benchmark;

use super::{Loaded, PodEngine};
use crate::history::Key as HistoryKey;

impl<E: PodEngine, B: Benchmark> Loaded<E, B> {
    /// Loads every host.
    pub(super) fn fill(&mut self) {
        for host in 0..self.run.hosts {
            let (benchmark, own) = (self.run.benchmark.clone(), self.run.partitions_of(host));
            let engine = Rc::clone(&self.pod.hosts()[usize::from(host)]);
            let filled = self.pod.simulation().alone(HostId(host), WorkerId(0), move |cx| {
                engine.load(cx, |emit| generate(&benchmark, &own, emit))
            });
            filled.expect("loading an empty database");
        }
        if self.run.records() {
            self.initial = initial_keys(&self.catalog, &self.run.benchmark);
        }
    }

    /// Shares so much of the rows that other hosts may touch (1.0: all of them), in the order of their
    /// keys. In a timed run, and with half of the adversary's seeds, they are as after long use: all hosts
    /// trust their copies. Takes no virtual time.
    pub fn share(&mut self, part: f64) {
        let shared = self.run.benchmark.shared_tables();
        for host in 0..self.run.hosts {
            let engine = Rc::clone(&self.pod.hosts()[usize::from(host)]);
            let shared = shared.clone();
            let share = move |cx: &_| engine.share(cx, &shared, part);
            let moved = self.pod.simulation().alone(HostId(host), WorkerId(0), share);
            moved.expect("the layout has room for all");
        }
        let is_warm = !self.run.records() || self.run.seed.is_multiple_of(2);
        for host in (0..self.run.hosts).filter(|_| is_warm) {
            let engine = Rc::clone(&self.pod.hosts()[usize::from(host)]);
            let shared = shared.clone();
            let warm_up = move |cx: &_| engine.warm_up(cx, &shared);
            let warm = self.pod.simulation().alone(HostId(host), WorkerId(0), warm_up);
            warm.expect("what was just shared can be read");
        }
    }
}

fn generate<B: Benchmark>(benchmark: &B, partitions: &[u16], emit: Emit<'_>) -> Result<(), TxnError> {
    benchmark.load_replicated(&mut *emit)?;
    partitions.iter().try_for_each(|p| benchmark.load_partition(*p, &mut *emit))
}

/// The key of every row and index entry of the initial database, which have version 0.
fn initial_keys<B: Benchmark>(catalog: &Catalog, benchmark: &B) -> Vec<(HistoryKey, u64)> {
    let mut keys = Vec::new();
    let all: Vec<u16> = (0..benchmark.partitions()).collect();
    let emitted = generate(benchmark, &all, &mut |table, row| {
        let (layout, indexes) = catalog.relation(table)?.table()?;
        keys.push((HistoryKey::new(table.0, layout.primary.key_of(row.bytes()).words()), 0));
        for (index, id) in layout.indexes.iter().zip(indexes) {
            keys.push((HistoryKey::new(id.0.0, index.key.key_of(row.bytes()).words()), 0));
        }
        Ok(())
    });
    emitted.expect("the catalog's own tables");
    keys
}
