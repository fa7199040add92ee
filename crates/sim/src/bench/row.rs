//! The row engine under simulated workloads.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use liger_engine::TxnError;
use liger_engine::row::RowHost;
use liger_engine::row::policy::Policies;
use liger_fabric::disk::SimDisks;
use liger_fabric::sim::{Sim, Simulation};
use liger_fabric::{Cx, WorkerId};
use liger_pod::plan::Plan;
use liger_workload::report::EngineFigures;

use super::{PodEngine, Setup};
use crate::logs;
use crate::pod::{PodSetup, SimPod};
use crate::recorder::Recorder;

/// A simulated pod of row engines.
pub struct RowPod(SimPod);

impl PodEngine for RowPod {
    type Host = RowHost;

    type Design = Policies;

    fn protocol(policies: &Policies) -> String {
        if *policies == Policies::default() { "row".to_owned() } else { format!("row ({policies})") }
    }

    fn start(setup: &Setup<'_, Policies>) -> Result<Self, TxnError> {
        let pod = PodSetup {
            budget: setup.budget,
            record: setup.records,
            policies: vec![*setup.design],
            remote_entries: if setup.records { 256 } else { 1 << 20 },
            node_entries: if setup.records { 256 } else { 1 << 18 },
            ..PodSetup::new(setup.config.clone(), Arc::clone(&setup.catalog))
        };
        let Some(log) = setup.log else { return SimPod::new(&pod, setup.configure).map(Self) };
        let made = move |cx: &Cx<Sim>, plan: &Plan, life| Some(logs::of_host(cx, plan, life, log));
        SimPod::with_disks(&pod, SimDisks::new(1), made, setup.configure).map(Self)
    }

    fn start_helpers(&mut self, is_over: impl Fn() -> bool + Clone + 'static) {
        for host in self.0.hosts.iter().filter(|host| host.log().is_some()) {
            let (shipped, is_over) = (Rc::clone(host), is_over.clone());
            let workers = WorkerId(self.0.plan.config().workers);
            let ship = move |cx: &Cx<Sim>| logs::keep_shipping(cx, |cx| shipped.ship(cx), is_over);
            self.0.sim.spawn(host.id(), workers, ship);
        }
    }

    fn simulation(&mut self) -> &mut Simulation {
        &mut self.0.sim
    }

    fn hosts(&self) -> &[Rc<RowHost>] {
        &self.0.hosts
    }

    fn recorder(&self) -> Option<&Recorder> {
        self.0.recorder.as_deref()
    }

    fn check(&mut self) -> Vec<String> {
        self.0.check()
    }

    fn figures(&mut self, completed: bool) -> EngineFigures {
        let mut figures = EngineFigures::default();
        for host in &self.0.hosts {
            let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            let moves = host.rows().moves();
            figures.shared_tuples += read(&moves.shared_rows);
            figures.moves_in += read(&moves.moved_in);
            figures.moves_out += read(&moves.moved_out);
            *figures.more.entry("messages".to_owned()).or_default() += read(&host.mail().sent);
            if let Some(log) = host.log() {
                *figures.more.entry(logs::BYTES.to_owned()).or_default() += log.appended_bytes();
            }
        }
        if completed {
            let first = Rc::clone(&self.0.hosts[0]);
            let usage = self.0.sim.alone(first.id(), WorkerId(0), move |cx| first.usage(cx));
            figures.hwcc_tuple_bytes = usage.tuple_bytes;
            let named = |name: &str, bytes| (name.to_owned(), bytes);
            figures.hwcc_bytes = BTreeMap::from([
                named("tuple cells", usage.tuple_bytes),
                named("index", usage.mapping_bytes),
            ]);
            figures.cxl_bytes =
                BTreeMap::from([named("rows", usage.row_bytes), named("index", usage.node_bytes)]);
        }
        figures
    }
}
