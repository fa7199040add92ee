//! A simulated workload on whichever engine was asked for.

use liger_engine::TxnError;
use liger_sim::bench::PodEngine;
use liger_sim::bench::row::RowPod;
use liger_sim::motor::MotorPod;
use liger_sim::partitioned::PartPod;
use liger_sim::shm::ShmPod;

use crate::engines::{Engine, EngineArguments};
use crate::failure::Failure;

/// Something that is done on an engine.
pub trait OnEngine {
    /// What comes of it.
    type Out;

    /// Does it on an engine of this design.
    ///
    /// # Errors
    /// If the design does not suit the memory or the tables.
    fn run<E: PodEngine>(self, design: &E::Design) -> Result<Self::Out, TxnError>;
}

/// Does it on the engine asked for; `adversarial`: histories will be checked.
///
/// # Errors
/// If something was asked that the engine, the memory or the number of workers does not admit.
pub fn apply<R: OnEngine>(
    asked: &EngineArguments,
    adversarial: bool,
    workers: u8,
    run: R,
) -> Result<R::Out, Failure> {
    let unsuited = |error: TxnError| {
        Failure::Refused(format!("{error}: choose another --policies, --engine or --profile"))
    };
    if asked.is_motor()? {
        return run.run::<MotorPod>(&()).map_err(unsuited);
    }
    let done = match asked.engine(adversarial, workers)? {
        Engine::Row(policies) => run.run::<RowPod>(&policies),
        Engine::Partitioned(shape) => run.run::<PartPod>(&shape),
        Engine::Shm(shape) => run.run::<ShmPod>(&shape),
    };
    done.map_err(unsuited)
}
