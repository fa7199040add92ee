//! Motor's memory servers under simulated workloads.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use liger_engine::TxnError;
use liger_fabric::sim::Simulation;
use liger_rivals::motor::MotorHost;
use liger_workload::report::EngineFigures;

use super::{PodEngine, Setup};
use crate::motor::MotorPod;
use crate::recorder::Recorder;

impl PodEngine for MotorPod {
    type Host = MotorHost;
    type Design = ();

    fn protocol((): &()) -> String {
        "motor-model".to_owned()
    }

    fn start(setup: &Setup<'_, ()>) -> Result<Self, TxnError> {
        if setup.log.is_some() {
            let why = "the model has no log";
            return Err(TxnError::Unsuited { what: "keeping a log", why });
        }
        MotorPod::new(&setup.config, &setup.catalog, setup.records, setup.configure)
    }

    fn simulation(&mut self) -> &mut Simulation {
        &mut self.sim
    }

    fn hosts(&self) -> &[Rc<MotorHost>] {
        &self.hosts
    }

    fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_deref()
    }

    fn at_once(&self) -> u8 {
        self.coroutines
    }

    fn check(&mut self) -> Vec<String> {
        MotorPod::check(self)
    }

    fn figures(&mut self, _completed: bool) -> EngineFigures {
        let mut figures = EngineFigures::default();
        let round_trips = self.hosts.iter().map(|host| host.round_trips.load(Ordering::Relaxed)).sum();
        figures.more.insert("round trips".to_owned(), round_trips);
        figures
    }
}
