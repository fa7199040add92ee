//! A host that starts again from its pod's files: it opens them, and its rows are made when they are wanted.
//! And what its workers run first.

use std::sync::Arc;

use liger_engine::recovery::Loaded;
use liger_fabric::native::HostMemory;
use liger_workload::benchmark::Benchmark;
use liger_workload::driver::{Length, RunConfig, Watch, run_worker};

use super::{Serving, place_of};
use crate::control::Answer;
use crate::job::Job;

/// How a worker runs first in the pod's present generation.
pub(super) fn config_of(job: &Job, watch: Option<Arc<Watch>>) -> RunConfig {
    RunConfig {
        // Two runs a generation.
        run: job.data.as_ref().map_or(1, |data| 2 * data.generation as u16 - 1),
        length: Length::Transactions { warm_up: 0, measured: 0 },
        max_attempts: None,
        back_off_ns: None,
        durability: job.durability.into(),
        watch,
        in_flight: job.in_flight,
    }
}

impl<M: HostMemory> Serving<M> {
    /// Opens what the pod's files hold.
    pub(super) fn recover(&mut self) -> Result<Answer, String> {
        let (data, plan) = self.recovery.take().expect("this host was to recover");
        let recovered = self.host.recover(&data, &plan, self.job.workers);
        let Loaded { bytes, log_bytes, rows, changes } = recovered.map_err(|error| error.to_string())?;
        Ok(Answer::Recovered { bytes, log_bytes, rows, changes })
    }

    /// One transaction on each worker.
    pub(super) fn run_one<B: Benchmark>(&mut self, benchmark: &B) {
        let (own, job) = (self.partitions(), self.job.clone());
        let length = Length::Transactions { warm_up: 0, measured: 1 };
        let ran = self.host.run(job.workers, |session| {
            let worker = benchmark.worker(place_of(&job, &own, session.cx().worker()));
            let config = RunConfig { length, ..config_of(&job, None) };
            run_worker(session.cx(), session, &worker, &config);
        });
        // A panic has ended the process.
        ran.into_iter().for_each(|worker| worker.expect("no worker panicked"));
    }

    /// Waits until a restart has made all rows.
    pub(super) fn await_rows(&mut self) -> Result<Answer, String> {
        self.host.alone(|session| {
            let (cx, host) = (session.cx(), session.host());
            while let Some(restored) = host.restored(cx) {
                if restored.failed > 0 {
                    return Err(host.troubles(cx).join("; "));
                }
                host.attend(cx);
                cx.pause();
            }
            Ok(Answer::Done)
        })
    }
}
