//! Which engine a pod runs: the same names for real processes and for simulated pods, and what depends on it
//! in both. How hosts of real processes join and what they report is in `host/rivals.rs`.

use clap::{Args, ValueEnum};
use liger_engine::db::PodConfig;
use liger_engine::row::policy::Policies;
use liger_engine::{Catalog, TxnError};
use liger_pod::plan::MAX_WORKERS;
use liger_rivals::partitioned::{Protocol, Route, config_for};
use liger_sim::bench::PodEngine;
use liger_sim::bench::row::RowPod;
use liger_sim::motor::MotorPod;
use liger_sim::partitioned::{PartPod, Shape};
use liger_sim::shm::{ShmPod, ShmShape};
use liger_workload::benchmark::Shareable;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::job::Bench;

/// An engine on the command line.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineName {
    /// Liger's own: rows that several hosts touch live in shared memory
    #[default]
    Row,
    /// Partitioned, logical leases, two-phase commit by messages that workers send and receive
    #[value(name = "sundial+")]
    SundialPlus,
    /// The same with a thread on each host that receives, as it is published
    SundialRx,
    /// The same with a thread on each host that sends and receives
    SundialCxl,
    /// The same with a thread on each host that sends and receives the messages over a network
    SundialNet,
    /// Logical leases on rows that are all in shared memory, where every host works on them: no messages
    SundialShm,
    /// Partitioned, two-phase locking with next-key locks, two-phase commit by messages
    #[value(name = "ds2pl+")]
    Ds2plPlus,
    /// The same with a thread on each host that receives, as it is published
    Ds2plRx,
    /// The same with a thread on each host that sends and receives
    Ds2plCxl,
    /// The same with a thread on each host that sends and receives the messages over a network
    Ds2plNet,
    /// Motor as a cost model, for `liger sim` only: versions of rows in memory servers, which threads of one
    /// compute server reach by RDMA
    MotorModel,
}

/// The engine and how it works.
#[derive(Clone, Default, PartialEq, Debug, Args, Serialize, Deserialize)]
pub struct EngineArguments {
    /// Engine of the pod
    #[arg(long, value_enum, default_value = "row")]
    engine: EngineName,
    /// Policies of the row engine, like "coherence=always-bypass,move-out=lru"
    #[arg(long, default_value_t)]
    #[serde(with = "as_text")]
    policies: Policies,
    /// Whether partitioned engines and sundial-shm protect ranges and absent keys [default: ds2pl yes,
    /// sundial no, as published; under the adversary always]
    #[arg(long)]
    gaps: Option<bool>,
}

/// An engine and how it works, as something that can be run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Engine {
    /// The row engine.
    Row(Policies),
    /// One to compare with.
    Rival(RivalEngine),
}

/// An engine that the row engine is compared with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RivalEngine {
    /// A partitioned pod.
    Partitioned(Shape),
    /// Sundial on rows in shared memory.
    Shm(ShmShape),
}

/// Something that is done on an engine of a simulated pod.
pub trait OnEngine {
    /// What comes of it.
    type Out;

    /// Does it on an engine of this design.
    ///
    /// # Errors
    /// If the design does not suit the memory or the tables.
    fn run<E: PodEngine>(self, design: &E::Design) -> Result<Self::Out, TxnError>;
}

/// Most workers of a host, whatever they do.
const MOST_WORKERS: u8 = MAX_WORKERS as u8 - 1;

impl From<EngineName> for EngineArguments {
    /// This engine as it is by default.
    fn from(engine: EngineName) -> Self {
        Self { engine, ..Self::default() }
    }
}

impl EngineArguments {
    /// The row engine, whose shared rows have checksums or not.
    pub fn of_rows(row_checksums: bool) -> Self {
        Self { policies: Policies { row_checksums, ..Policies::default() }, ..Self::default() }
    }

    /// Whether shared rows have checksums.
    pub fn has_row_checksums(&self) -> bool {
        self.policies.row_checksums
    }

    /// What was asked for, on hosts of so many workers; `adversarial`: histories will be checked.
    ///
    /// # Errors
    /// If something was asked that the engine or the number of workers does not admit.
    pub fn engine(&self, adversarial: bool, workers: u8) -> Result<Engine, Failure> {
        let refused = |why: String| Err(Failure::Refused(why));
        self.policies_fit()?;
        let (protocol, route) = match self.engine {
            EngineName::Row if self.gaps.is_some() => {
                let policy = "--policies next-key-locking=on|off";
                return refused(format!("--gaps is for partitioned engines: the row engine has {policy}"));
            }
            EngineName::Row => return Ok(Engine::Row(self.policies)),
            EngineName::MotorModel => {
                let why = "--engine motor-model is a cost model, which only liger sim runs";
                return refused(why.to_owned());
            }
            EngineName::SundialShm => {
                let gaps = self.gaps.unwrap_or(adversarial);
                return Ok(Engine::Rival(RivalEngine::Shm(ShmShape { gaps })));
            }
            EngineName::SundialPlus => (Protocol::Sundial, Route::Workers),
            EngineName::SundialRx => (Protocol::Sundial, Route::Receiver),
            EngineName::SundialCxl => (Protocol::Sundial, Route::Thread),
            EngineName::SundialNet => (Protocol::Sundial, Route::Network),
            EngineName::Ds2plPlus => (Protocol::Ds2pl, Route::Workers),
            EngineName::Ds2plRx => (Protocol::Ds2pl, Route::Receiver),
            EngineName::Ds2plCxl => (Protocol::Ds2pl, Route::Thread),
            EngineName::Ds2plNet => (Protocol::Ds2pl, Route::Network),
        };
        if route.has_thread() && workers == MOST_WORKERS {
            return refused(format!(
                "{workers} workers and the thread that carries their mail are more than the {MOST_WORKERS} \
                 that a host can have: lower --workers"
            ));
        }
        let published = Shape::new(protocol);
        let gaps = self.gaps.unwrap_or(published.gaps || adversarial);
        Ok(Engine::Rival(RivalEngine::Partitioned(Shape { route, gaps, ..published })))
    }

    /// Whether the cost model of Motor was asked for, which is no engine of real memory.
    ///
    /// # Errors
    /// If something was asked that it does not admit.
    fn is_motor(&self) -> Result<bool, Failure> {
        if self.engine != EngineName::MotorModel {
            return Ok(false);
        }
        self.policies_fit()?;
        if self.gaps.is_some() {
            let why = "--gaps is for partitioned engines: motor-model validates ranges";
            return Err(Failure::Refused(why.to_owned()));
        }
        Ok(true)
    }

    /// Does something on the engine asked for, on a simulated pod; `adversarial`: histories will be checked.
    ///
    /// # Errors
    /// If something was asked that the engine, the memory or the number of workers does not admit.
    pub fn simulate<R: OnEngine>(&self, adversarial: bool, workers: u8, run: R) -> Result<R::Out, Failure> {
        let unsuited = |error: TxnError| {
            Failure::Refused(format!("{error}: choose another --policies, --engine or --profile"))
        };
        if self.is_motor()? {
            return run.run::<MotorPod>(&()).map_err(unsuited);
        }
        self.engine(adversarial, workers)?.simulate(run).map_err(unsuited)
    }

    fn policies_fit(&self) -> Result<(), Failure> {
        if self.engine == EngineName::Row || self.policies == Policies::default() {
            return Ok(());
        }
        let why = "--policies are the row engine's: leave them out, or use --engine row";
        Err(Failure::Refused(why.to_owned()))
    }

    /// Refuses what was asked for (its options, if they were given) where the engine is not the row engine,
    /// which lacks it.
    pub fn refuse_beside(&self, asked: &[(&str, bool)], lacks: &str) -> Result<(), Failure> {
        let given: Vec<&str> = asked.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
        if self.engine == EngineName::Row || given.is_empty() {
            return Ok(());
        }
        let engine = self.engine.to_possible_value().expect("every engine has a name");
        Err(Failure::Refused(format!(
            "{}: --engine {} {lacks}: leave it out, or use --engine row",
            given.join(", "),
            engine.get_name()
        )))
    }
}

impl Engine {
    /// What reports of real processes call it.
    pub fn protocol(&self) -> String {
        let row = "row engine, two-phase locking, no waiting";
        match self {
            Self::Row(policies) if *policies == Policies::default() => row.to_owned(),
            Self::Row(policies) => format!("{row} ({policies})"),
            Self::Rival(RivalEngine::Partitioned(shape)) => PartPod::protocol(shape),
            Self::Rival(RivalEngine::Shm(shape)) => ShmPod::protocol(shape),
        }
    }

    /// The configuration of a pod of real processes with these tables.
    pub fn config_for(&self, config: PodConfig, catalog: &Catalog) -> PodConfig {
        match self {
            Self::Row(_) | Self::Rival(RivalEngine::Shm(_)) => config,
            Self::Rival(RivalEngine::Partitioned(shape)) => config_for(&config, catalog, shape.route),
        }
    }

    /// What a workload may bring into the shared memory of a pod of real processes.
    ///
    /// # Errors
    /// If it cannot run there.
    pub fn shared_of(&self, bench: &Bench) -> Result<Shareable, Failure> {
        match self {
            Self::Row(_) => Ok(bench.shareable()),
            Self::Rival(RivalEngine::Partitioned(shape)) if shape.route == Route::Network => {
                let message = "there is no network between processes that share memory: use an engine whose \
                               messages go through it, like --engine sundial-cxl, or liger sim";
                Err(Failure::Refused(format!("{}: {message}", self.protocol())))
            }
            Self::Rival(RivalEngine::Partitioned(_)) => Ok(Shareable::default()),
            Self::Rival(RivalEngine::Shm(_)) => Ok(bench.whole()),
        }
    }

    /// Does something on it, on a simulated pod.
    ///
    /// # Errors
    /// If its design does not suit the memory or the tables.
    pub fn simulate<R: OnEngine>(&self, run: R) -> Result<R::Out, TxnError> {
        match self {
            Self::Row(policies) => run.run::<RowPod>(policies),
            Self::Rival(RivalEngine::Partitioned(shape)) => run.run::<PartPod>(shape),
            Self::Rival(RivalEngine::Shm(shape)) => run.run::<ShmPod>(shape),
        }
    }
}

/// Policies as the command line has them.
mod as_text {
    use liger_engine::row::policy::Policies;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(policies: &Policies, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(policies)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Policies, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_travels_to_a_host_is_what_was_asked() {
        let policies = "coherence=always-bypass,move-out=lru".parse().expect("known names");
        for engine in EngineName::value_variants() {
            let asked = EngineArguments { engine: *engine, policies, gaps: Some(true) };
            let text = serde_json::to_string(&asked).expect("plain values");
            assert_eq!(serde_json::from_str::<EngineArguments>(&text).expect("as written"), asked);
        }
    }
}
