//! Sundial in shared memory under simulated workloads.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use liger_engine::TxnError;
use liger_engine::protocol::HostEngine;
use liger_fabric::WorkerId;
use liger_fabric::sim::Simulation;
use liger_pod::plan::PodConfig;
use liger_rivals::shm::ShmHost;
use liger_workload::report::EngineFigures;

use super::{PodEngine, Setup};
use crate::recorder::Recorder;
use crate::shm::{ShmPod, ShmShape};

impl PodEngine for ShmPod {
    type Host = ShmHost;
    type Design = ShmShape;

    fn protocol(shape: &ShmShape) -> String {
        let gaps = if shape.gaps { "" } else { ", gaps open" };
        format!("sundial-shm{gaps}")
    }

    fn start(setup: &Setup<'_, ShmShape>) -> Result<Self, TxnError> {
        if setup.log.is_some() {
            let why = "Sundial in shared memory has none";
            return Err(TxnError::Unsuited { what: "keeping a log", why });
        }
        let small = &setup.config;
        let config = PodConfig {
            hwcc_bytes: small.hwcc_bytes.max(setup.whole.hwcc_bytes),
            cxl_bytes: small.cxl_bytes.max(setup.whole.cxl_bytes),
            ..small.clone()
        };
        let node_entries = if setup.records { 256 } else { 1 << 18 };
        let room = (&config, node_entries);
        ShmPod::new(*setup.design, room, &setup.catalog, setup.records, setup.configure)
    }

    fn simulation(&mut self) -> &mut Simulation {
        &mut self.sim
    }

    fn hosts(&self) -> &[Rc<ShmHost>] {
        &self.hosts
    }

    fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_deref()
    }

    fn check(&mut self) -> Vec<String> {
        ShmPod::check(self)
    }

    fn figures(&mut self, completed: bool) -> EngineFigures {
        let mut figures = EngineFigures::default();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let sum = |of: fn(&ShmHost) -> &AtomicU64| self.hosts.iter().map(|host| read(of(host))).sum();
        figures.more.insert("rows read".to_owned(), sum(|host| &host.traffic().rows_read));
        figures.more.insert("lines read anew".to_owned(), sum(|host| &host.traffic().lines_read_anew));
        figures.more.insert("lines written".to_owned(), sum(|host| &host.traffic().lines_written));
        if completed {
            let first = Rc::clone(&self.hosts[0]);
            let usage = self.sim.alone(first.id(), WorkerId(0), move |cx| first.usage(cx));
            let named = |name: &str, bytes| (name.to_owned(), bytes);
            figures.hwcc_bytes =
                BTreeMap::from([named("row words", usage.tuple_bytes), named("index", usage.mapping_bytes)]);
            figures.cxl_bytes =
                BTreeMap::from([named("rows", usage.row_bytes), named("index", usage.scratch_bytes)]);
        }
        figures
    }
}
