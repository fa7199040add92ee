//! Partitioned pods (Sundial, DS2PL) under simulated workloads.

use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use liger_engine::TxnError;
use liger_engine::log::HostLog;
use liger_fabric::sim::Simulation;
use liger_pod::plan::PodConfig;
use liger_rivals::partitioned::{PartHost, Route};
use liger_workload::report::EngineFigures;

use super::{PodEngine, Setup};
use crate::logs;
use crate::partitioned::{PartPod, Shape};
use crate::recorder::Recorder;

impl PodEngine for PartPod {
    type Host = PartHost;
    type Design = Shape;

    fn protocol(shape: &Shape) -> String {
        let (gaps, route) = (
            if shape.gaps { "" } else { ", gaps open" },
            match shape.route {
                Route::Workers => "+",
                Route::Receiver => "-rx",
                Route::Thread => "-cxl",
                Route::Network => "-net",
            },
        );
        format!("{}{route}{gaps}", shape.protocol.name())
    }

    fn start(setup: &Setup<'_, Shape>) -> Result<Self, TxnError> {
        let slots = PartHost::least_lane_slots(&setup.catalog, setup.config.lane_slot_bytes);
        let config = PodConfig { lane_slots: slots.max(setup.config.lane_slots), ..setup.config.clone() };
        let kept = (setup.records, setup.log);
        PartPod::new(*setup.design, &config, &setup.catalog, kept, setup.configure)
    }

    fn simulation(&mut self) -> &mut Simulation {
        &mut self.sim
    }

    fn hosts(&self) -> &[Rc<PartHost>] {
        &self.hosts
    }

    fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_deref()
    }

    fn check(&mut self) -> Vec<String> {
        PartPod::check(self)
    }

    fn start_helpers(&mut self, is_over: impl Fn() -> bool + Clone + 'static) {
        self.start_carriers(is_over.clone());
        self.start_shippers(is_over);
    }

    fn figures(&mut self, _completed: bool) -> EngineFigures {
        let mut figures = EngineFigures::default();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let sum = |of: fn(&PartHost) -> &AtomicU64| self.hosts.iter().map(|host| read(of(host))).sum();
        let logs: Vec<&HostLog> = self.hosts.iter().filter_map(|host| host.log()).collect();
        if !logs.is_empty() {
            let bytes = logs.iter().map(|log| log.appended_bytes()).sum();
            figures.more.insert(logs::BYTES.to_owned(), bytes);
        }
        figures.more.insert("messages".to_owned(), sum(|host| &host.traffic().messages));
        figures.more.insert("distributed".to_owned(), sum(|host| &host.traffic().distributed));
        figures
    }
}
