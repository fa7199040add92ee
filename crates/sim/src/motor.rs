//! Motor's multi-version transactions in the simulator, and random ones on them, their history checked.
//!
//! The operations are those of [`crate::rows`]. Commits have an order of their own, and transactions that
//! only read are of the past, so histories are judged by their dependencies and not by the order of commits.

use std::rc::Rc;
use std::sync::Arc;

use liger_engine::history::HistorySink;
use liger_engine::protocol::HostEngine;
use liger_engine::{Announced, Catalog, Session, Transaction, TxnError};
use liger_fabric::sim::{Mode, Outcome, Report, Sim, SimConfig, Simulation};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::plan::{MAX_WORKERS, Plan, PodConfig};
use liger_rivals::motor::{MemoryServers, MotorHost, MotorSession, MotorTxn};

use crate::Picker;
use crate::recorder::Recorder;
use crate::rows::{Ground, ITEMS, Mix, item_key, items, operate};
use crate::scenario::LeftOut;
use crate::serializability;

/// Transactions that a thread runs at once under the adversary.
const ADVERSARIAL_COROUTINES: u8 = 2;

/// A simulated compute server, whose threads are the pod's, and its memory servers.
pub struct MotorPod {
    /// The simulation underneath.
    pub sim: Simulation,
    /// The engines, by host.
    pub hosts: Vec<Rc<MotorHost>>,
    /// What they commit.
    pub recorder: Option<Arc<Recorder>>,
    /// Transactions that a thread runs at once.
    pub coroutines: u8,
}

impl MotorPod {
    /// Makes it. `config` counts threads as workers; `configure` gets the simulation's configuration for the
    /// plan.
    ///
    /// # Errors
    /// If there is no remote memory, or more is to run at once than a host has workers.
    pub fn new(
        config: &PodConfig,
        catalog: &Arc<Catalog>,
        record: bool,
        configure: impl FnOnce(&Plan) -> SimConfig,
    ) -> Result<Self, TxnError> {
        let plan = Plan::new(config).expect("the caller's configuration is valid");
        let sim_config = configure(&plan);
        let coroutines = match &sim_config.mode {
            Mode::Timed(profile) => profile.rdma.as_ref().map_or(1, |rdma| rdma.coroutines.value as u8),
            _ => ADVERSARIAL_COROUTINES,
        };
        if u32::from(config.workers) * u32::from(coroutines) > MAX_WORKERS as u32 {
            let why = "threads times coroutines are more than a host can have workers: take fewer threads";
            return Err(TxnError::Unsuited { what: "running so many transactions at once", why });
        }
        let mut sim = Simulation::new(sim_config);
        let recorder = record.then(|| Arc::new(Recorder::unordered()));
        let servers = Arc::new(MemoryServers::new(catalog, config.partitions));
        let mut hosts = Vec::new();
        for host in 0..config.hosts {
            let (catalog, servers, sink) = (Arc::clone(catalog), Arc::clone(&servers), recorder.clone());
            let (pod, threads) = ((config.hosts, config.partitions), (config.workers, coroutines));
            let started = sim.alone(HostId(host), WorkerId(0), move |cx| {
                let history = sink.map(|sink| sink as Arc<dyn HistorySink>);
                MotorHost::new(cx, pod, threads, catalog, servers, history)
            });
            hosts.push(Rc::new(started?));
        }
        Ok(Self { sim, hosts, recorder, coroutines })
    }

    /// What is wrong with the memory servers, while nobody works.
    pub fn check(&mut self) -> Vec<String> {
        self.try_check().unwrap_or_else(|failure| vec![format!("while checking: {failure}")])
    }

    fn try_check(&mut self) -> Result<Vec<String>, Box<Outcome>> {
        let mut found = Vec::new();
        for host in self.hosts.clone() {
            found.extend(self.sim.try_alone(host.id(), WorkerId(0), move |cx| host.check(cx))?);
        }
        Ok(found)
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct MotorRun {
    /// Decides everything.
    pub seed: u64,
    /// Hosts of the pod.
    pub hosts: u8,
    /// Threads of each host.
    pub threads: u8,
    /// Keys of each partition; there is one partition a host and one more.
    pub keys: i32,
    /// Transactions of each worker.
    pub transactions: u32,
    /// Most operations of a transaction.
    pub operations: u64,
    /// What transactions do.
    pub mix: Mix,
    /// Percentage of transactions that only read.
    pub readers: u64,
    /// What a mutated run leaves out.
    pub left_out: Option<LeftOut>,
}

impl MotorRun {
    /// A mixed bag: the shape of the run follows from the seed too.
    pub fn from_seed(seed: u64) -> Self {
        let mut pick = Picker::new(seed ^ 0x004d_4f54_4f52);
        Self {
            seed,
            hosts: 1 + pick.below(3) as u8,
            threads: 1 + pick.below(2) as u8,
            keys: 3 + pick.below(12) as i32,
            transactions: 6 + pick.below(30) as u32,
            operations: 1 + pick.below(6),
            mix: Mix::ALL,
            readers: [0, 20, 60][pick.below(3) as usize],
            left_out: None,
        }
    }

    fn parts(&self) -> u16 {
        u16::from(self.hosts) + 1
    }

    fn ground(&self) -> Ground {
        Ground { parts: self.parts().into(), keys: self.keys }
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct MotorResult {
    /// The simulator's report.
    pub report: Report,
    /// Transactions that committed.
    pub committed: u64,
    /// Everything that is wrong; empty if all is well.
    pub problems: Vec<String>,
}

/// Runs it.
pub fn run(run: &MotorRun) -> MotorResult {
    let catalog = Arc::new(Catalog::new(&[items::schema()]).expect("a valid schema"));
    let mut config = PodConfig::small(run.hosts, run.threads);
    config.partitions = run.parts();
    config.max_tables = 4;
    let built = MotorPod::new(&config, &catalog, true, |plan| {
        let mut config = SimConfig::swarm(usize::from(run.hosts), plan.len() as usize, run.seed);
        config.max_verbs = 3_000_000;
        LeftOut::apply(run.left_out.as_ref(), &mut config);
        config
    });
    let mut pod = built.expect("the adversary has remote memory");
    load(&mut pod, run);
    for host in &pod.hosts {
        for worker in 0..run.threads * pod.coroutines {
            let (id, host, run) = (host.id(), Rc::clone(host), run.clone());
            pod.sim.spawn(id, WorkerId(worker), move |cx| work(cx, &host, &run));
        }
    }
    let report = pod.sim.run();
    let mut problems = if report.completed() { pod.check() } else { vec![report.outcome.to_string()] };
    let initial = run.ground().initial_keys();
    let history = pod.recorder.as_ref().expect("recording is on").history(initial);
    let verdict = serializability::check(&history);
    problems.extend(verdict.anomalies.iter().map(|anomaly| anomaly.to_string()));
    MotorResult { report, committed: history.transactions.len() as u64, problems }
}

fn load(pod: &mut MotorPod, run: &MotorRun) {
    for host in pod.hosts.clone() {
        let ground = run.ground();
        pod.sim.alone(host.id(), WorkerId(0), move |cx| ground.fill(cx, &*host));
    }
}

fn work(cx: &Cx<Sim>, host: &MotorHost, run: &MotorRun) {
    let mut session = MotorSession::new(cx, host);
    for _ in 0..run.transactions {
        let number = cx.random();
        match session.attempt(|txn| transaction(txn, run, number)) {
            Ok(()) | Err(TxnError::Rollback) => {}
            Err(TxnError::Conflict(_)) => session.back_off(1),
            Err(other) => panic!("a transaction failed: {other}"),
        }
    }
}

/// The transaction that a number stands for; all values that it writes are that number.
fn transaction(txn: &mut MotorTxn<'_, Sim>, run: &MotorRun, number: u64) -> Result<(), TxnError> {
    let mut pick = Picker::new(number);
    let ground = run.ground();
    let mix = if pick.chance(run.readers) { Mix::SCANS } else { run.mix };
    if pick.chance(50) {
        let key =
            |pick: &mut Picker| item_key(pick.below(ground.parts) as i16, pick.below(run.keys as u64) as i32);
        let rows: Vec<Announced> =
            (0..pick.below(4)).map(|_| Announced::read(ITEMS, key(&mut pick))).collect();
        txn.announce(&rows);
    }
    for _ in 0..=pick.below(run.operations) {
        let aim = ground.aim(&mut pick);
        operate(txn, &aim, mix.choose(&mut pick), number as i64)?;
    }
    if pick.below(8) == 0 { Err(TxnError::Rollback) } else { Ok(()) }
}
