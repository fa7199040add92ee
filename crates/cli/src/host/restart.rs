//! A host that starts again from its pod's files: it opens them, and its rows are made when they are wanted.
//! And what its workers run first.

use std::sync::Arc;

use liger_engine::recovery::Loaded;
use liger_fabric::native::HostMemory;
use liger_workload::tpcc::driver::{Length, RunConfig, Watch, run_worker};
use liger_workload::tpcc::schema::Tables;

use super::{Serving, homes_of};
use crate::control::Answer;
use crate::job::Job;

/// What a worker runs first in the pod's present generation.
pub(super) fn config_of(job: &Job, tables: &Tables, homes: Vec<i16>, watch: Option<Arc<Watch>>) -> RunConfig {
    RunConfig {
        tables: *tables,
        scale: job.scale,
        database_seed: job.seed,
        // Two runs a generation.
        run: job.data.as_ref().map_or(1, |data| 2 * data.generation as u16 - 1),
        mix: job.mix,
        remote: job.remote,
        homes,
        length: Length::Transactions { warm_up: 0, measured: 0 },
        max_attempts: None,
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
    pub(super) fn run_one(&mut self, tables: Tables) {
        let (own, job) = (self.warehouses(tables), self.job.clone());
        let length = Length::Transactions { warm_up: 0, measured: 1 };
        let ran = self.host.run(job.workers, |session| {
            let homes = homes_of(&job, &own, session.cx().worker().0);
            let config = RunConfig { length, ..config_of(&job, &tables, homes, None) };
            run_worker(session.cx(), session, &config);
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
