//! Which engine a simulated workload runs on.

use clap::{Args, ValueEnum};
use liger_engine::TxnError;
use liger_engine::partitioned::{Protocol, Route};
use liger_engine::row::policy::Policies;
use liger_pod::plan::MAX_WORKERS;
use liger_sim::bench::PodEngine;
use liger_sim::bench::row::RowPod;
use liger_sim::partitioned::{PartPod, Shape};

use crate::failure::Failure;

/// An engine on the command line.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineName {
    /// Liger's own: rows that several hosts touch live in shared memory
    Row,
    /// Partitioned, logical leases, two-phase commit by messages that workers send and receive
    #[value(name = "sundial+")]
    SundialPlus,
    /// The same with a thread on each host that moves the messages, beside the workers
    SundialCxl,
    /// The same with a thread on each host that sends and receives the messages over a network
    SundialNet,
    /// Partitioned, two-phase locking with next-key locks, two-phase commit by messages
    #[value(name = "ds2pl+")]
    Ds2plPlus,
    /// The same with a thread on each host that moves the messages
    Ds2plCxl,
    /// The same with a thread on each host that sends and receives the messages over a network
    Ds2plNet,
}

/// The engine and how it works.
#[derive(Args)]
pub struct EngineArguments {
    /// Engine of the pod
    #[arg(long, value_enum, default_value = "row")]
    engine: EngineName,
    /// Policies of the row engine, like "coherence=always-bypass,move-out=lru"
    #[arg(long, default_value_t)]
    policies: Policies,
    /// Whether partitioned engines protect ranges and absent keys [default: ds2pl yes, sundial no, as
    /// published; under the adversary always]
    #[arg(long)]
    gaps: Option<bool>,
}

/// Something that is done on an engine.
pub(super) trait OnEngine {
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

impl EngineArguments {
    /// Does it on this engine; `adversarial`: histories will be checked.
    ///
    /// # Errors
    /// If something was asked that the engine, the memory or the number of workers does not admit.
    pub(super) fn apply<R: OnEngine>(
        &self,
        adversarial: bool,
        workers: u8,
        run: R,
    ) -> Result<R::Out, Failure> {
        let refused = |why: String| Err(Failure::Refused(why));
        let unsuited = |error: TxnError| {
            Failure::Refused(format!("{error}: choose another --policies, --engine or --profile"))
        };
        let (protocol, route) = match self.engine {
            EngineName::Row if self.gaps.is_some() => {
                let policy = "--policies next-key-locking=on|off";
                return refused(format!("--gaps is for partitioned engines: the row engine has {policy}"));
            }
            EngineName::Row => return run.run::<RowPod>(&self.policies).map_err(unsuited),
            EngineName::SundialPlus => (Protocol::Sundial, Route::Workers),
            EngineName::SundialCxl => (Protocol::Sundial, Route::Thread),
            EngineName::SundialNet => (Protocol::Sundial, Route::Network),
            EngineName::Ds2plPlus => (Protocol::Ds2pl, Route::Workers),
            EngineName::Ds2plCxl => (Protocol::Ds2pl, Route::Thread),
            EngineName::Ds2plNet => (Protocol::Ds2pl, Route::Network),
        };
        if self.policies != Policies::default() {
            return refused(
                "--policies are the row engine's: leave them out, or use --engine row".to_owned(),
            );
        }
        if route.has_thread() && workers == MOST_WORKERS {
            return refused(format!(
                "{workers} workers and the thread that carries their mail are more than the {MOST_WORKERS} \
                 that a host can have: lower --workers"
            ));
        }
        let published = Shape::new(protocol);
        let gaps = self.gaps.unwrap_or(published.gaps || adversarial);
        run.run::<PartPod>(&Shape { route, gaps, ..published }).map_err(unsuited)
    }
}
