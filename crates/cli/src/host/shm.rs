//! A host of a benchmark on Sundial in shared memory. There is no log, no recovery and nobody to take over:
//! it joins, carries out a workload's orders, and leaves.

use std::process::ExitCode;

use liger_engine::db::{Crew, DbError, Pod, ShmOptions};
use liger_engine::shm::{Options, ShmHost};
use liger_fabric::HostId;
use liger_fabric::native::{HostMemory, NativeHost};
use liger_sim::shm::ShmShape;

use super::bench::Benched;
use super::{SELF_TEST, fail, seed_of};
use crate::control::{Answer, Order};
use crate::failure::Failure;
use crate::job::Job;
use crate::orders::{Orders, tell};

/// Joins, carries out orders until there are none, and leaves.
pub(super) fn serve<M: HostMemory>(
    orders: &Orders,
    (memory, host): (&str, HostId),
    job: &Job,
    shape: ShmShape,
    over: impl FnOnce(NativeHost) -> M,
) -> Result<ExitCode, Failure> {
    let mut crew = match join(memory, host, job, shape, over) {
        Ok(crew) => crew,
        Err(error) => return fail(&error.to_string(), true),
    };
    tell(&Answer::Done);
    while let Ok(order) = orders.next() {
        if order == Order::Leave {
            crew.leave().map_err(|error| Failure::Broken(error.to_string()))?;
            tell(&Answer::Done);
            break;
        }
        let carried_out = Benched { crew: &mut crew, job }.carry_out(&job.bench, order);
        if let Some(failure) = crew.failure() {
            return fail(&failure, false);
        }
        if crew.engine().is_overruled() {
            return fail("the pod has declared this host dead", false);
        }
        match carried_out {
            Ok(answer) => tell(&answer),
            Err(message) => return fail(&message, false),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn join<M: HostMemory>(
    memory: &str,
    host: HostId,
    job: &Job,
    shape: ShmShape,
    over: impl FnOnce(NativeHost) -> M,
) -> Result<Crew<ShmHost, M>, DbError> {
    let pod = Pod::open_as(&memory.parse()?, &job.pod_config(), &job.schemas())?;
    let engine = Options { gaps: shape.gaps, ..Options::new() };
    pod.join_shm(host, ShmOptions { engine, self_test: SELF_TEST, seed: seed_of(job) }, over)
}
