//! Sundial in shared memory in the simulator, and random transactions on it, their history checked.
//!
//! The operations are those of [`crate::rows`]. Sundial orders transactions by its own clock: histories must
//! equal a replay in that order. Without protection of gaps only rows that are there promise anything.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use liger_engine::history::HistorySink;
use liger_engine::protocol::HostEngine;
use liger_engine::{Catalog, Session, TxnError};
use liger_fabric::sim::{Adversary, Mode, Outcome, Report, Sim, SimConfig, Simulation};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::plan::{Plan, PodConfig, SUPERBLOCK_BYTES};
use liger_rivals::shm::{Options, ShmHost, ShmSession, ShmTxn};

use crate::Picker;
use crate::pod::join_first;
use crate::recorder::Recorder;
use crate::rows::{Ground, Mix, items, operate};
use crate::scenario::LeftOut;
use crate::serializability;

/// A pod of this kind is made so.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ShmShape {
    /// Whether gaps are protected.
    pub gaps: bool,
}

/// A simulated pod whose rows are all in shared memory.
pub struct ShmPod {
    /// The simulation underneath.
    pub sim: Simulation,
    /// The engines, by host.
    pub hosts: Vec<Rc<ShmHost>>,
    /// What they commit.
    pub recorder: Option<Arc<Recorder>>,
}

impl ShmPod {
    /// Makes the pod and starts its hosts, one after the other, each with so many index nodes in DRAM;
    /// `configure` gets the simulation's configuration for the plan.
    ///
    /// # Errors
    /// If there is no room for the indexes, or more memory than the engine can name.
    pub fn new(
        shape: ShmShape,
        (config, node_entries): (&PodConfig, usize),
        catalog: &Arc<Catalog>,
        record: bool,
        configure: impl FnOnce(&Plan) -> SimConfig,
    ) -> Result<Self, TxnError> {
        let plan = Plan::new(config).expect("the caller's configuration is valid");
        let mut sim = Simulation::new(configure(&plan));
        let recorder = record.then(|| Arc::new(Recorder::default()));
        let mut hosts = Vec::new();
        for host in 0..config.hosts {
            let (plan, catalog, sink) = (plan.clone(), Arc::clone(catalog), recorder.clone());
            let started = join_first(&mut sim, HostId(host), config.clone(), move |cx, joining| {
                let member = joining.finish(cx).expect("nobody else is there");
                let history = sink.map(|sink| sink as Arc<dyn HistorySink>);
                let options = Options { gaps: shape.gaps, node_entries, history };
                ShmHost::new(cx, &plan, catalog, member, options)
            });
            hosts.push(Rc::new(started?));
        }
        Ok(Self { sim, hosts, recorder })
    }

    /// Lets reclamation catch up, and says what is wrong with the pod then.
    pub fn check(&mut self) -> Vec<String> {
        self.try_check().unwrap_or_else(|failure| vec![format!("while checking: {failure}")])
    }

    fn try_check(&mut self) -> Result<Vec<String>, Box<Outcome>> {
        // Each round moves the epoch by one at most; what is retired needs a few.
        for _ in 0..8 {
            self.on_every_host(|cx, host| _ = liger_engine::protocol::HostEngine::attend(host, cx))?;
        }
        let found = self.on_every_host(|cx, host| host.check(cx))?;
        let mut problems = Vec::new();
        let (mut known, mut dead) = (0, 0);
        for (host, checked) in found.into_iter().enumerate() {
            match checked {
                Ok(checked) => {
                    (known, dead) = (known + checked.known_here, checked.dead_entries);
                    problems.extend(checked.problems.iter().map(|problem| format!("host {host}: {problem}")));
                }
                Err(error) => problems.push(format!("host {host}: {error}")),
            }
        }
        if known != dead {
            problems.push(format!("{dead} entries of removed rows are left, hosts know of {known}"));
        }
        Ok(problems)
    }

    fn on_every_host<R: 'static>(
        &mut self,
        body: impl Fn(&Cx<Sim>, &ShmHost) -> R + Copy + 'static,
    ) -> Result<Vec<R>, Box<Outcome>> {
        let hosts = self.hosts.clone();
        let run = |host: Rc<ShmHost>| self.sim.try_alone(host.id(), WorkerId(0), move |cx| body(cx, &host));
        hosts.into_iter().map(run).collect()
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct ShmRun {
    /// Decides everything.
    pub seed: u64,
    /// Hosts of the pod.
    pub hosts: u8,
    /// Workers of each host.
    pub workers: u8,
    /// The pod.
    pub shape: ShmShape,
    /// Keys of each partition.
    pub keys: i32,
    /// Partitions.
    pub parts: u16,
    /// Transactions of each worker.
    pub transactions: u32,
    /// Most operations of a transaction.
    pub operations: u64,
    /// What transactions do.
    pub mix: Mix,
    /// What host 0 does instead.
    pub duel: Option<Mix>,
    /// Of so many transactions one gives up at its end.
    pub rollback_of: u64,
    /// Most turns that a worker leaves to others between two operations of a transaction.
    pub think: u64,
    /// Index nodes that each host keeps.
    pub node_entries: usize,
    /// Chunks of data memory beyond those that the first rows take: with few of them memory is full every now
    /// and then. `None`: plenty.
    pub spare_chunks: Option<u64>,
    /// Steps after which a run counts as stuck.
    pub max_verbs: u64,
    /// What a mutated run leaves out.
    pub left_out: Option<LeftOut>,
}

impl ShmRun {
    /// A mixed bag: the shape of the run follows from the seed too.
    pub fn from_seed(seed: u64) -> Self {
        let mut pick = Picker::new(seed ^ 0x0053_484d_524f);
        let hosts = 2 + pick.below(3) as u8;
        let gaps = pick.chance(75);
        Self {
            seed,
            hosts,
            workers: 1 + pick.below(2) as u8,
            shape: ShmShape { gaps },
            keys: 3 + pick.below(12) as i32,
            parts: 1 + pick.below(1 + u64::from(hosts)) as u16,
            transactions: 6 + pick.below(30) as u32,
            operations: 1 + pick.below(6),
            mix: Mix::ALL,
            duel: None,
            rollback_of: 8,
            think: pick.below(3),
            node_entries: [4, 64][pick.below(2) as usize],
            spare_chunks: None,
            max_verbs: 20_000_000,
            left_out: None,
        }
    }

    fn ground(&self) -> Ground {
        Ground { parts: self.parts.into(), keys: self.keys }
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct ShmResult {
    /// The simulator's report.
    pub report: Report,
    /// Transactions that committed.
    pub committed: u64,
    /// Transactions that found memory full.
    pub full: u64,
    /// Everything that is wrong; empty if all is well.
    pub problems: Vec<String>,
}

/// Runs it.
pub fn run(run: &ShmRun) -> ShmResult {
    let built = match run.spare_chunks {
        None => build(run, None),
        Some(spare) => {
            let least = (0..).find(|chunks| build(run, Some(*chunks)).is_ok()).expect("some size will do");
            build(run, Some(least + spare))
        }
    };
    let mut pod = built.expect("an empty pod has room");
    let full = Rc::new(Cell::new(0));
    let running = Rc::new(Cell::new(u32::from(run.hosts) * u32::from(run.workers)));
    for host in &pod.hosts {
        for worker in 0..run.workers {
            let (id, host, run) = (host.id(), Rc::clone(host), run.clone());
            let (running, full) = (Rc::clone(&running), Rc::clone(&full));
            pod.sim.spawn(id, WorkerId(worker), move |cx| work(cx, &host, &run, (&running, &full)));
        }
    }
    let report = pod.sim.run();
    let mut problems = if report.completed() { pod.check() } else { vec![report.outcome.to_string()] };
    let history = pod.recorder.as_ref().expect("recording is on").history(run.ground().initial_keys());
    let history = if run.shape.gaps { history } else { history.without_gaps() };
    let verdict = serializability::check(&history);
    problems.extend(verdict.anomalies.iter().map(|anomaly| anomaly.to_string()));
    ShmResult { report, committed: history.transactions.len() as u64, full: full.get(), problems }
}

/// The pod with its first rows; `chunks`: of data memory beyond the least that makes a pod at all.
fn build(run: &ShmRun, chunks: Option<u64>) -> Result<ShmPod, TxnError> {
    let catalog = Arc::new(Catalog::new(&[items::schema()]).expect("a valid schema"));
    let mut config = PodConfig::small(run.hosts, run.workers);
    config.partitions = run.parts;
    config.max_tables = 4;
    if let Some(chunks) = chunks {
        let chunk = u64::from(config.block_chunk_bytes);
        let fits = |bytes: &u64| Plan::new(&PodConfig { cxl_bytes: *bytes, ..config.clone() }).is_ok();
        let least = (1..).map(|chunks| chunks * chunk).find(fits).expect("some size will do");
        config.cxl_bytes = least + chunks * chunk;
    }
    let room = (&config, run.node_entries);
    let mut pod = ShmPod::new(run.shape, room, &catalog, true, |plan| sim_config(run, plan))?;
    for host in pod.hosts.clone() {
        let ground = run.ground();
        pod.sim.alone(host.id(), WorkerId(0), move |cx| ground.try_fill(cx, &*host))?;
    }
    Ok(pod)
}

fn sim_config(run: &ShmRun, plan: &Plan) -> SimConfig {
    let mut config = SimConfig {
        sync: Some(SUPERBLOCK_BYTES..plan.sync_end()),
        mode: Mode::Adversarial(Adversary::swarm(run.seed)),
        max_verbs: run.max_verbs,
        ..SimConfig::adversarial(usize::from(run.hosts), plan.len() as usize, run.seed)
    };
    LeftOut::apply(run.left_out.as_ref(), &mut config);
    config
}

fn work(cx: &Cx<Sim>, host: &ShmHost, run: &ShmRun, (running, full): (&Cell<u32>, &Cell<u64>)) {
    let mut session = ShmSession::new(cx, host);
    for _ in 0..run.transactions {
        let number = cx.random();
        match session.attempt(|txn| transaction(cx, txn, run, number)) {
            Ok(()) | Err(TxnError::Rollback) => {}
            Err(TxnError::Conflict(_)) => session.back_off(1),
            Err(TxnError::OutOfMemory { .. }) => full.set(full.get() + 1),
            Err(other) => panic!("a transaction failed: {other}"),
        }
        if cx.random_below(4) == 0 {
            liger_engine::protocol::HostEngine::attend(host, cx);
        }
    }
    running.set(running.get() - 1);
    // Others may wait for this host's share of reclamation.
    while running.get() > 0 {
        liger_engine::protocol::HostEngine::attend(host, cx);
        cx.pause();
    }
}

/// The transaction that a number stands for; all values that it writes are that number.
fn transaction(cx: &Cx<Sim>, txn: &mut ShmTxn<'_, Sim>, run: &ShmRun, number: u64) -> Result<(), TxnError> {
    let mut pick = Picker::new(number);
    let ground = run.ground();
    let mix = run.duel.filter(|_| cx.host().0 == 0).unwrap_or(run.mix);
    for _ in 0..=pick.below(run.operations) {
        let aim = ground.aim(&mut pick);
        operate(txn, &aim, mix.choose(&mut pick), number as i64)?;
        let turns = if run.think == 0 { 0 } else { pick.below(run.think + 1) };
        (0..turns).for_each(|_| cx.pause());
    }
    if pick.below(run.rollback_of) == 0 { Err(TxnError::Rollback) } else { Ok(()) }
}
