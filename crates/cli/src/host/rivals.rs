//! A host of a benchmark on an engine that nobody takes over from: it joins, carries out a workload's orders,
//! and leaves; and what it reports.

use std::process::ExitCode;

use liger_engine::db::{DbError, Pod, WorkerGroup};
use liger_engine::protocol::Rival;
use liger_fabric::native::{HostMemory, NativeHost};
use liger_fabric::{Cx, Fabric, HostId};
use liger_rivals::partitioned::{self, PartHost, PartitionedOptions};
use liger_rivals::shm::{self, ShmHost, ShmOptions};
use liger_sim::partitioned::Shape;
use liger_sim::shm::ShmShape;
use liger_workload::EngineFigures;

use super::bench::Benched;
use super::figures::{Counted, named, of_usage, read};
use super::{SELF_TEST, fail, seed_of};
use crate::control::{Answer, Order};
use crate::engines::RivalEngine;
use crate::failure::Failure;
use crate::job::Job;
use crate::orders::{Orders, tell};

/// Joins through what `over` puts before the memory, carries out orders until there are none, and leaves.
pub(super) fn run<M: HostMemory>(
    orders: &Orders,
    at: (&str, HostId),
    job: &Job,
    rival: RivalEngine,
    over: impl FnOnce(NativeHost) -> M,
) -> Result<ExitCode, Failure> {
    match rival {
        RivalEngine::Partitioned(shape) => serve(orders, job, join_partitioned(at, job, shape, over)),
        RivalEngine::Shm(shape) => serve(orders, job, join_shm(at, job, shape, over)),
    }
}

/// Carries out orders until there are none, and leaves; `joined` says whether the host could join.
fn serve<E: Counted + Rival, M: HostMemory>(
    orders: &Orders,
    job: &Job,
    joined: Result<WorkerGroup<E, M>, DbError>,
) -> Result<ExitCode, Failure> {
    let mut group = match joined {
        Ok(group) => group,
        Err(error) => return fail(&error.to_string(), true),
    };
    tell(&Answer::Done);
    while let Ok(order) = orders.next() {
        if order == Order::Leave {
            group.leave().map_err(|error| Failure::Broken(error.to_string()))?;
            tell(&Answer::Done);
            break;
        }
        let carried_out = Benched { group: &mut group, job }.carry_out(&job.bench, order);
        if let Some(failure) = group.failure() {
            return fail(&failure, false);
        }
        if group.engine().is_fenced() {
            return fail("the pod has declared this host dead", false);
        }
        match carried_out {
            Ok(answer) => tell(&answer),
            Err(message) => return fail(&message, false),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn open(memory: &str, job: &Job) -> Result<Pod, DbError> {
    Pod::open_as(&memory.parse()?, &job.pod_config(), &job.schemas())
}

/// Joins a partitioned pod.
fn join_partitioned<M: HostMemory>(
    (memory, host): (&str, HostId),
    job: &Job,
    shape: Shape,
    over: impl FnOnce(NativeHost) -> M,
) -> Result<WorkerGroup<PartHost, M>, DbError> {
    let Shape { protocol, gaps, await_writes, route } = shape;
    let engine = partitioned::Options { protocol, gaps, await_writes, route, history: None, log: None };
    let options = PartitionedOptions { engine, self_test: SELF_TEST, seed: seed_of(job) };
    partitioned::join(&open(memory, job)?, host, options, over)
}

/// Joins a pod of Sundial in shared memory.
fn join_shm<M: HostMemory>(
    (memory, host): (&str, HostId),
    job: &Job,
    shape: ShmShape,
    over: impl FnOnce(NativeHost) -> M,
) -> Result<WorkerGroup<ShmHost, M>, DbError> {
    let engine = shm::Options { gaps: shape.gaps, ..shm::Options::new() };
    let options = ShmOptions { engine, self_test: SELF_TEST, seed: seed_of(job) };
    shm::join(&open(memory, job)?, host, options, over)
}

impl Counted for PartHost {
    fn counted(&self) -> EngineFigures {
        let traffic = self.traffic();
        let more = named([
            ("messages", read(&traffic.messages)),
            ("messages_dropped", read(&traffic.messages_dropped)),
            ("distributed", read(&traffic.distributed)),
        ]);
        EngineFigures { more, ..EngineFigures::default() }
    }

    /// Nothing but lanes.
    fn held<F: Fabric>(&self, _cx: &Cx<F>, _whole: bool) -> EngineFigures {
        EngineFigures::default()
    }
}

impl Counted for ShmHost {
    fn counted(&self) -> EngineFigures {
        let traffic = self.traffic();
        let more = named([
            ("rows read", read(&traffic.rows_read)),
            ("lines read anew", read(&traffic.lines_read_anew)),
            ("lines written", read(&traffic.lines_written)),
        ]);
        EngineFigures { more, ..EngineFigures::default() }
    }

    fn held<F: Fabric>(&self, cx: &Cx<F>, whole: bool) -> EngineFigures {
        if whole { of_usage(&self.usage(cx)) } else { EngineFigures::default() }
    }
}
