//! Partitioned pods (Sundial, DS2PL) in the simulator, and random transactions on them, their history
//! checked.
//!
//! The operations are those of [`crate::rows`]. What differs is the shape of a pod (protocol, protection of
//! gaps, how mail travels) and what must hold: Sundial orders transactions by its own clock, and its
//! histories must equal a replay in that order; without protection of gaps only rows that are there promise
//! anything. With logs, what these hold at the end must be what was committed (`logged`).

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use liger_engine::history::HistorySink;
use liger_engine::log::room::RoomOptions;
use liger_engine::log::ship::LogOptions;
use liger_engine::protocol::HostEngine;
use liger_engine::{Announced, Catalog, Session, Ticket, Transaction, TxnError};
use liger_fabric::sim::{Adversary, Mode, Outcome, Report, Sim, SimConfig, Simulation};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::plan::{Plan, PodConfig, SUPERBLOCK_BYTES};
use liger_rivals::partitioned::{Options, PartHost, PartSession, PartTxn, Protocol, Route};

use crate::logs;
use crate::pod::join_first;
use crate::recorder::Recorder;
use crate::rows::{Ground, ITEMS, Mix, item_key, items, operate};
use crate::scenario::LeftOut;
use crate::serializability;

mod logged;

use logged::Rows;

/// A partitioned pod is made so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// How transactions keep out of each other's way.
    pub protocol: Protocol,
    /// Whether gaps are protected.
    pub gaps: bool,
    /// Whether the second phase of a commit is waited for.
    pub await_writes: bool,
    /// How mail travels in a host. With a thread, it is the host's last worker.
    pub route: Route,
}

impl Shape {
    /// As published: see [`Options::new`].
    pub fn new(protocol: Protocol) -> Self {
        let Options { protocol, gaps, await_writes, route, .. } = Options::new(protocol);
        Self { protocol, gaps, await_writes, route }
    }
}

/// A simulated pod whose hosts share nothing.
pub struct PartPod {
    /// The simulation underneath.
    pub sim: Simulation,
    /// The engines, by host.
    pub hosts: Vec<Rc<PartHost>>,
    /// What they commit.
    pub recorder: Option<Arc<Recorder>>,
    shape: Shape,
    workers: u8,
}

impl PartPod {
    /// Makes the pod and starts its hosts, one after the other. `config` counts the workers that run
    /// transactions; with `log` every host keeps one on its disk; `configure` gets the simulation's
    /// configuration for the plan.
    ///
    /// # Errors
    /// If a row of the tables does not fit into a message, or there is no network for a pod that needs one.
    pub fn new(
        shape: Shape,
        config: &PodConfig,
        catalog: &Arc<Catalog>,
        (record, log): (bool, Option<LogOptions>),
        configure: impl FnOnce(&Plan) -> SimConfig,
    ) -> Result<Self, TxnError> {
        let carriers = u8::from(shape.route.has_thread());
        let config = PodConfig { workers: config.workers + carriers, ..config.clone() };
        let plan = Plan::new(&config).expect("the caller's configuration is valid");
        let mut sim = Simulation::new(configure(&plan));
        let recorder = record.then(|| Arc::new(Recorder::default()));
        let mut hosts = Vec::new();
        for host in 0..config.hosts {
            let (plan, catalog, sink) = (plan.clone(), Arc::clone(catalog), recorder.clone());
            let started = join_first(&mut sim, HostId(host), config.clone(), move |cx, joining| {
                let log = log.map(|options| logs::of_host(cx, &plan, joining.incarnation(), options));
                let member = joining.finish(cx).expect("nobody else is there");
                let Shape { protocol, gaps, await_writes, route } = shape;
                let history = sink.map(|sink| sink as Arc<dyn HistorySink>);
                let options = Options { protocol, gaps, await_writes, route, history, log };
                PartHost::new(cx, &plan, catalog, member, options)
            });
            hosts.push(Rc::new(started?));
        }
        Ok(Self { sim, hosts, recorder, shape, workers: config.workers - carriers })
    }

    /// Starts the threads that carry mail, if the pod has any; they end when `is_over` says so.
    pub fn start_carriers(&mut self, is_over: impl Fn() -> bool + Clone + 'static) {
        if !self.shape.route.has_thread() {
            return;
        }
        for host in &self.hosts {
            let (id, host, is_over) = (host.id(), Rc::clone(host), is_over.clone());
            let carry = move |cx: &Cx<Sim>| {
                while !is_over() {
                    if host.carry(cx) == 0 {
                        cx.pause();
                    }
                }
            };
            self.sim.spawn(id, WorkerId(self.workers), carry);
        }
    }

    /// Starts a worker on each host that ships its log, if the pod keeps logs.
    pub fn start_shippers(&mut self, is_over: impl Fn() -> bool + Clone + 'static) {
        let after_all = WorkerId(self.workers + u8::from(self.shape.route.has_thread()));
        for host in self.hosts.iter().filter(|host| host.log().is_some()) {
            let (shipped, is_over) = (Rc::clone(host), is_over.clone());
            let ship = move |cx: &Cx<Sim>| logs::keep_shipping(cx, |cx| shipped.ship(cx), is_over);
            self.sim.spawn(host.id(), after_all, ship);
        }
    }

    /// Lets the last mail arrive, and says what is wrong with the hosts then.
    pub fn check(&mut self) -> Vec<String> {
        self.try_check().unwrap_or_else(|failure| vec![format!("while checking: {failure}")])
    }

    fn try_check(&mut self) -> Result<Vec<String>, Box<Outcome>> {
        while self.on_every_host(|cx, host| host.drain_mail(cx))?.iter().any(|moved| *moved > 0) {}
        let found = self.on_every_host(|cx, host| host.check(cx))?;
        let named = |(host, problems): (usize, Vec<String>)| {
            problems.into_iter().map(move |problem| format!("host {host}: {problem}"))
        };
        Ok(found.into_iter().enumerate().flat_map(named).collect())
    }

    fn on_every_host<R: 'static>(
        &mut self,
        body: impl Fn(&Cx<Sim>, &PartHost) -> R + Clone + 'static,
    ) -> Result<Vec<R>, Box<Outcome>> {
        let hosts = self.hosts.clone();
        let run = |host: Rc<PartHost>| {
            let body = body.clone();
            self.sim.try_alone(host.id(), WorkerId(0), move |cx| body(cx, &host))
        };
        hosts.into_iter().map(run).collect()
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct PartRun {
    /// Decides everything.
    pub seed: u64,
    /// Hosts of the pod.
    pub hosts: u8,
    /// Workers of each host.
    pub workers: u8,
    /// The pod.
    pub shape: Shape,
    /// Keys of each partition; there is one partition a host and one more.
    pub keys: i32,
    /// Transactions of each worker.
    pub transactions: u32,
    /// Most operations of a transaction.
    pub operations: u64,
    /// What transactions do.
    pub mix: Mix,
    /// Whether transactions announce rows.
    pub announces: bool,
    /// Of so many transactions one gives up at its end.
    pub rollback_of: u64,
    /// Most turns that a worker leaves to others between two operations of a transaction.
    pub think: u64,
    /// Slots of a message lane.
    pub lane_slots: u32,
    /// Every host keeps a log, whose epochs last so long at least.
    pub epoch_ns: Option<u64>,
    /// Steps after which a run counts as stuck.
    pub max_verbs: u64,
    /// What a mutated run leaves out.
    pub left_out: Option<LeftOut>,
}

impl PartRun {
    /// A mixed bag: the shape of the run follows from the seed too.
    pub fn from_seed(seed: u64) -> Self {
        let mut pick = crate::Picker::new(seed ^ 0x0050_4152_5453);
        let protocol = [Protocol::Sundial, Protocol::Ds2pl][pick.below(2) as usize];
        let gaps = pick.chance(75);
        let route = [Route::Workers, Route::Thread][pick.below(2) as usize];
        Self {
            seed,
            hosts: 2 + pick.below(3) as u8,
            workers: 1 + pick.below(2) as u8,
            shape: Shape { protocol, gaps, await_writes: pick.chance(50), route },
            keys: 3 + pick.below(12) as i32,
            transactions: 6 + pick.below(30) as u32,
            operations: 1 + pick.below(6),
            mix: if gaps { Mix::ALL } else { Mix::POINTS },
            announces: pick.chance(50),
            rollback_of: 8,
            think: 0,
            lane_slots: [16, 32, 64][pick.below(3) as usize],
            epoch_ns: None,
            max_verbs: 20_000_000,
            left_out: None,
        }
    }

    fn log(&self) -> Option<LogOptions> {
        let (segment_bytes, frame_bytes) = (8 << 10, 128 << (self.seed % 6));
        let room = RoomOptions::SMALL;
        let usual = LogOptions { busy_factor: 1, segment_bytes, frame_bytes, room, ..LogOptions::default() };
        self.epoch_ns.map(|epoch_ns| LogOptions { epoch_ns, ..usual })
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
pub struct PartResult {
    /// The simulator's report.
    pub report: Report,
    /// Transactions that committed.
    pub committed: u64,
    /// Of these, those with rows of other hosts.
    pub distributed: u64,
    /// Everything that is wrong; empty if all is well.
    pub problems: Vec<String>,
}

/// Runs it.
pub fn run(run: &PartRun) -> PartResult {
    let catalog = Arc::new(Catalog::new(&[items::schema()]).expect("a valid schema"));
    let mut config = PodConfig::small(run.hosts, run.workers);
    config.partitions = run.parts();
    config.max_tables = 4;
    config.lane_slots = run.lane_slots;
    let built = PartPod::new(run.shape, &config, &catalog, (true, run.log()), |plan| sim_config(run, plan));
    let mut pod = built.expect("the rows are short");
    load(&mut pod, run);
    let loaded = if run.epoch_ns.is_some() { logged::rows(&mut pod, &catalog) } else { Ok(Rows::new()) };
    let running = start_workers(&mut pod, run);
    let still = Rc::clone(&running);
    pod.start_carriers(move || running.get() == 0);
    pod.start_shippers(move || still.get() == 0);
    let report = pod.sim.run();
    let mut problems = if report.completed() { pod.check() } else { vec![report.outcome.to_string()] };
    let initial = run.ground().initial_keys();
    let history = pod.recorder.as_ref().expect("recording is on").history(initial);
    if run.epoch_ns.is_some() && report.completed() {
        problems.extend(logged::check(&mut pod, &catalog, loaded, &history));
    }
    let all = run.shape.gaps || !run.mix.churns();
    let history = if all { history } else { history.without_gaps() };
    let verdict = serializability::check(&history);
    problems.extend(verdict.anomalies.iter().map(|anomaly| anomaly.to_string()));
    let read = |host: &Rc<PartHost>| host.traffic().distributed.load(std::sync::atomic::Ordering::Relaxed);
    let distributed = pod.hosts.iter().map(read).sum();
    PartResult { report, committed: history.transactions.len() as u64, distributed, problems }
}

fn sim_config(run: &PartRun, plan: &Plan) -> SimConfig {
    let mut config = SimConfig {
        sync: Some(SUPERBLOCK_BYTES..plan.sync_end()),
        mode: Mode::Adversarial(Adversary::swarm(run.seed)),
        max_verbs: run.max_verbs,
        ..SimConfig::adversarial(usize::from(run.hosts), plan.len() as usize, run.seed)
    };
    LeftOut::apply(run.left_out.as_ref(), &mut config);
    config
}

fn load(pod: &mut PartPod, run: &PartRun) {
    for host in pod.hosts.clone() {
        let ground = run.ground();
        pod.sim.alone(host.id(), WorkerId(0), move |cx| ground.fill(cx, &*host));
    }
}

fn start_workers(pod: &mut PartPod, run: &PartRun) -> Rc<Cell<u32>> {
    let running = Rc::new(Cell::new(u32::from(run.hosts) * u32::from(run.workers)));
    for host in &pod.hosts {
        for worker in 0..run.workers {
            let (id, host, running, run) = (host.id(), Rc::clone(host), Rc::clone(&running), run.clone());
            pod.sim.spawn(id, WorkerId(worker), move |cx| work(cx, &host, &run, &running));
        }
    }
    running
}

fn work(cx: &Cx<Sim>, host: &PartHost, run: &PartRun, running: &Cell<u32>) {
    let mut session = PartSession::new(cx, host);
    let mut last = Ticket::default();
    for _ in 0..run.transactions {
        let number = cx.random();
        match session.attempt(|txn| transaction(cx, txn, run, number)) {
            Ok(()) => last = session.ticket(),
            Err(TxnError::Rollback) => {}
            Err(TxnError::Conflict(_)) => session.back_off(1),
            Err(other) => panic!("a transaction failed: {other}"),
        }
        session.want_durable(last);
    }
    while !session.is_durable(last).expect("the disk is good") {
        session.pause();
    }
    running.set(running.get() - 1);
    // Others may still need this host's rows.
    while running.get() > 0 {
        session.serve();
        cx.pause();
    }
}

/// The transaction that a number stands for; all values that it writes are that number.
fn transaction(cx: &Cx<Sim>, txn: &mut PartTxn<'_, Sim>, run: &PartRun, number: u64) -> Result<(), TxnError> {
    let mut pick = crate::Picker::new(number);
    let ground = run.ground();
    if run.announces {
        let rows: Vec<Announced> = (0..pick.below(4))
            .map(|_| {
                let (part, id) = (pick.below(ground.parts) as i16, pick.below(run.keys as u64) as i32);
                let key = item_key(part, id);
                if pick.chance(50) { Announced::read(ITEMS, key) } else { Announced::update(ITEMS, key) }
            })
            .collect();
        txn.announce(&rows);
    }
    for _ in 0..=pick.below(run.operations) {
        let aim = ground.aim(&mut pick);
        let choice = run.mix.choose(&mut pick);
        operate(txn, &aim, choice, number as i64)?;
        let turns = if run.think == 0 { 0 } else { pick.below(run.think + 1) };
        (0..turns).for_each(|_| cx.pause());
    }
    if pick.below(run.rollback_of) == 0 { Err(TxnError::Rollback) } else { Ok(()) }
}
