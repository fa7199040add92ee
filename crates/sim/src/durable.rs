//! Random transactions on a pod that loses power, and comes back from its disks: several times.
//!
//! Each life of the pod keeps logs and takes checkpoints while transactions run, some because it is told to
//! and some because its logs would become too long; what no host needs any more is removed. Everybody dies
//! before a verb that the seed picks; each disk keeps what the crash leaves of it. From the disks alone comes
//! the next life.
//!
//! Checked, with D the last epoch that the recovery counts:
//! 1. Every transaction that was acknowledged survives: what it wrote is of an epoch up to D, and what it
//!    read is what the survivors before it made, also if it only read.
//! 2. The writers that survive are those of epochs up to D; by themselves they are serializable, and the rows
//!    of the next life are what they made, to the byte and the version.
//! 3. The next life is at rest, its indexes agree with its rows, and it can do all that again. In most lives
//!    transactions begin before rows are made (docs/restart.md), and may be cut off before they are.
//!
//! In some runs the memory outlives the hosts ([`salvage`]). Then every transaction that returned is
//! acknowledged, and of one that had not, all or nothing is there.
//!
//! Not here: the death of some of the hosts, whose memory another host still reads.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use liger_engine::log::HostLog;
use liger_engine::log::room::RoomOptions;
use liger_engine::log::ship::LogOptions;
use liger_engine::method::Both;
use liger_engine::protocol::HostEngine;
use liger_engine::recovery::directory::Directory;
use liger_engine::recovery::{
    Identity, Loading, Plan, RecoveryError, RestoresRows, begin_generation, create,
};
use liger_engine::row;
use liger_fabric::disk::{Disk, DiskFault, SimDisks};
use liger_fabric::sim::{CrashDomain, Kill, KillAt, Outcome as End, Report, Sim, SimConfig, Simulation};
use liger_fabric::{Cx, HostId, WorkerId};

use crate::Picker;
use crate::full_disks::{self, operate};
use crate::history::Key as HistoryKey;
use crate::plain::Plain;
use crate::pod::{Kept, SimPod, directories, directory};
use crate::recorder::Recorder;
use crate::rows::{self, ITEMS, PlainTables, RowsRun, items, keys_of, new_row};
use crate::serializability;

mod checkpoints;
mod client;
mod left;
mod salvage;

use checkpoints::take_checkpoints;
use client::Client;
use left::Left;

/// What to run.
#[derive(Clone, Debug)]
pub struct DurableRun {
    /// The transactions of each life.
    pub rows: RowsRun,
    /// How often all hosts lose power.
    pub crashes: u32,
    /// Verbs within which that happens.
    pub crash_verbs: u64,
    /// At which of them it happens; the seed picks one otherwise.
    pub crash_at: Option<u64>,
    /// Most checkpoints of each host in a life that it is told to take.
    pub checkpoints: u64,
    /// Bytes of log that a host should have at most.
    pub replay_bytes: u64,
    /// Percentage of lives in which a disk fails, or is slow.
    pub faults: u64,
    /// The memory outlives the hosts.
    pub keeps_memory: bool,
    /// Disks are full now and then, and somebody makes room, or takes it.
    pub full: bool,
}

impl DurableRun {
    /// A mixed bag: the shape follows from the seed too.
    pub fn from_seed(seed: u64) -> Self {
        let mut pick = Picker::new(seed ^ 0x6475_7261);
        let rows = RowsRun::from_seed(seed);
        let (hosts, keys) = (1 + pick.below(3) as u8, 2 + pick.below(8) as i32);
        let transactions = 8 + pick.below(40) as u32;
        Self {
            rows: RowsRun { hosts, keys, transactions, max_verbs: 4_000_000, ..rows },
            crashes: 2,
            crash_verbs: 1000 << pick.below(5),
            crash_at: None,
            checkpoints: pick.below(4),
            replay_bytes: 400 << pick.below(6),
            faults: 15,
            keeps_memory: false,
            full: false,
        }
    }

    /// Disks that are full most of the time. What is refused leaves no trace, and what is committed has room.
    pub fn with_full_disks(seed: u64) -> Self {
        let run = Self::from_seed(seed);
        let mut pick = Picker::new(seed ^ 0x6675_6c6c);
        let (transactions, keys) = (20 + pick.below(60) as u32, 2 + pick.below(20) as i32);
        Self {
            rows: RowsRun { transactions, keys, ..run.rows },
            crash_verbs: 8000 << pick.below(4),
            replay_bytes: 2000 << pick.below(6),
            faults: 0,
            full: true,
            ..run
        }
    }

    /// All hosts die at once, and the memory does not. Little is on storage then: syncs are rare.
    pub fn with_memory_kept(seed: u64) -> Self {
        let run = Self::from_seed(seed);
        Self { faults: 0, keeps_memory: true, ..run }
    }

    /// Few rows that change all the time, and logs that must stay very short, through several generations.
    pub fn with_short_logs(seed: u64) -> Self {
        let run = Self::from_seed(seed);
        let mut pick = Picker::new(seed ^ 0x7368_6f72);
        let transactions = 44 + pick.below(88) as u32;
        Self {
            rows: RowsRun { transactions, keys: 2 + pick.below(3) as i32, ..run.rows },
            crashes: 3,
            crash_verbs: 9000 << pick.below(3),
            checkpoints: pick.below(2),
            replay_bytes: 256 << pick.below(3),
            ..run
        }
    }
}

/// How it ended.
#[derive(Debug)]
pub struct DurableResult {
    /// The simulator's report of the first life; if its memory outlived it, of the salvage too. What later
    /// lives reached is in it.
    pub report: Report,
    /// Verbs of all lives.
    pub verbs: u64,
    /// Transactions that committed.
    pub committed: u64,
    /// Of them, acknowledged as durable.
    pub acknowledged: u64,
    /// Of them, not there any more after a crash: never acknowledged.
    pub lost: u64,
    /// Transactions that are there although their hosts died before they returned.
    pub in_doubt: u64,
    /// How often memory was salvaged.
    pub salvages: u64,
    /// Checkpoints that were finished.
    pub checkpoints: u64,
    /// Segments that were removed.
    pub removed: u64,
    /// Transactions that were refused because a disk was full.
    pub refused: u64,
    /// Everything that is wrong; empty if all is well.
    pub problems: Vec<String>,
}

/// A row, and the entry of an index that leads to it.
#[derive(Clone, Copy, Debug)]
struct RowNow {
    value: i64,
    /// Of the row, and of the entry.
    versions: [u64; 2],
}

/// A row that was loaded.
const LOADED: RowNow = RowNow { value: 100, versions: [0; 2] };

/// Rows by part and number.
type Rows = BTreeMap<(i16, i32), RowNow>;

/// What the workers of one life share.
#[derive(Default)]
struct Life {
    running: Cell<u32>,
    faulty: Cell<bool>,
    /// By host and worker: the number of the transaction that it has begun last.
    begun: RefCell<BTreeMap<(u8, u8), i64>>,
    /// What each transaction wrote as values, by its number in the history.
    values: RefCell<BTreeMap<u64, i64>>,
    acknowledged: RefCell<BTreeSet<u64>>,
    checkpoints: Cell<u64>,
    removed: Cell<u64>,
    /// Disks may be full.
    full: Cell<bool>,
    refused: Cell<u64>,
}

/// The disks of a run, and what it is known to be.
struct Storage {
    disks: SimDisks,
    identity: Identity,
    seed: u64,
}

/// Runs it.
pub fn run(run: &DurableRun) -> DurableResult {
    match run.rows.plain {
        PlainTables::None => run_on::<row::Rows>(run),
        _ => run_on::<Both<row::Rows, Plain>>(run),
    }
}

fn run_on<M: Kept>(run: &DurableRun) -> DurableResult {
    let mut pick = Picker::new(run.rows.seed ^ 0x6c69_7665);
    let identity = Identity::new(7, 8, &rows::setup(&run.rows, 1).catalog, run.rows.hosts);
    let storage = Storage { disks: SimDisks::new(run.rows.seed), identity, seed: run.rows.seed };
    let mut rows: Rows = run.rows.everywhere().initial().map(|row| (row, LOADED)).collect();
    let (mut left, mut result): (Option<Left<M>>, Option<DurableResult>) = (None, None);
    for number in 0..=run.crashes {
        let begun = match (left.as_mut(), result.as_mut()) {
            (Some(left), Some(result)) => left.begin(&storage, &mut pick, result),
            _ => storage.create(),
        };
        let (durable, plan) = match begun {
            Ok(begun) => begun,
            Err(problem) => {
                let result = result.as_mut().expect("disks that were never written to can be used");
                result.problems.push(format!("recovery {number}: {problem}"));
                break;
            }
        };
        if let Some(left) = left.take() {
            let result = result.as_mut().expect("the life before was run");
            rows = left.survivors(&run.rows, &rows, durable, result);
        }
        let last = number == run.crashes;
        let mut life = OneLife::new(run, &storage, Rc::new(plan), number);
        // Now and then transactions begin before rows are there.
        let looks = last || pick.chance(30);
        let mut problems = if number == 0 { life.load() } else { life.recover(&rows, looks) };
        if problems.is_empty() && !last {
            problems = life.work(&storage, &mut pick);
        }
        let ended = life.end(&rows, problems, number);
        if !run.keeps_memory {
            storage.disks.lose_power();
        }
        (0..run.rows.hosts).for_each(|host| storage.disks.heal(HostId(host)));
        match &mut result {
            None => result = Some(ended.0),
            Some(result) => result.add(ended.0),
        }
        left = Some(ended.1);
        if result.as_ref().is_some_and(|result| !result.problems.is_empty()) {
            break;
        }
    }
    result.expect("there is a first life")
}

impl DurableResult {
    fn add(&mut self, other: DurableResult) {
        self.verbs += other.verbs;
        self.committed += other.committed;
        self.acknowledged += other.acknowledged;
        self.checkpoints += other.checkpoints;
        self.removed += other.removed;
        self.refused += other.refused;
        self.problems.extend(other.problems);
        self.has_reached(other.report);
    }

    /// Adds what a later life has reached.
    fn has_reached(&mut self, later: Report) {
        let known = &mut self.report;
        for (site, times) in later.sites {
            match known.sites.iter_mut().find(|(of, _)| *of == site) {
                Some((_, so_far)) => *so_far += times,
                None => known.sites.push((site, times)),
            }
        }
        for step in later.steps_asked {
            if !known.steps_asked.contains(&step) {
                known.steps_asked.push(step);
            }
        }
    }
}

impl Storage {
    /// A new pod's.
    fn create(&self) -> Result<(u64, Plan), String> {
        let identity = self.identity;
        self.small_life(Vec::new(), move |cx, directories| {
            create(cx, directories, &identity)?;
            Ok((0, Plan::make(cx, directories, &identity)?))
        })
        .expect("nobody is killed")
    }

    /// A lost pod's next generation, and up to which epoch the one before counts; now and then it takes more
    /// than one try.
    fn begin(&self, pick: &mut Picker) -> Result<(u64, Plan), String> {
        let first_durable = Rc::new(Cell::new(None));
        loop {
            let tries_on = pick.chance(60);
            let domains = [CrashDomain::Process, CrashDomain::Host, CrashDomain::HostPersistent];
            let (step, domain) = (1 + pick.below(70), domains[pick.below(3) as usize]);
            let kill = Kill { host: HostId(0), at: KillAt::HostStep(step), domain };
            let kills = if tries_on { Vec::new() } else { vec![kill] };
            let (identity, known) = (self.identity, Rc::clone(&first_durable));
            let ended = self.small_life(kills, move |cx, directories| {
                let plan = Plan::make(cx, directories, &identity)?;
                // A later try may find the generation of an earlier one.
                let durable = known.get().unwrap_or(plan.durable_epoch);
                known.set(Some(durable));
                begin_generation(cx, directories, &plan)?;
                Ok((durable, Plan::make(cx, directories, &identity)?))
            });
            if let Some(ended) = ended {
                return ended;
            }
        }
    }

    /// Runs `body` on host 0, which holds all disks; `None` if it was killed.
    fn small_life<R: 'static>(
        &self,
        kills: Vec<Kill>,
        body: impl FnOnce(&Cx<Sim>, &[Directory]) -> Result<R, RecoveryError> + 'static,
    ) -> Option<Result<R, String>> {
        let hosts = self.identity.hosts;
        let config = SimConfig { kills, ..SimConfig::adversarial(usize::from(hosts), 4096, self.seed) };
        let mut sim = Simulation::with_disks(config, self.disks.clone());
        let ended = Rc::new(RefCell::new(None));
        let slot = Rc::clone(&ended);
        sim.spawn(HostId(0), WorkerId(0), move |cx| {
            *slot.borrow_mut() = Some(body(cx, &directories(cx, hosts)).map_err(|e| e.to_string()));
        });
        let report = sim.run();
        let found = ended.borrow_mut().take();
        if report.completed() { found } else { Some(Err(report.outcome.to_string())) }
    }
}

/// One life of the pod.
struct OneLife<'r, M> {
    run: &'r DurableRun,
    pod: SimPod<M>,
    recorder: Arc<Recorder>,
    plan: Rc<Plan>,
    directories: Rc<RefCell<Vec<Directory>>>,
    life: Rc<Life>,
    report: Option<Report>,
}

impl<'r, M: Kept> OneLife<'r, M> {
    fn new(run: &'r DurableRun, storage: &Storage, plan: Rc<Plan>, number: u32) -> Self {
        let shape = &run.rows;
        let options = LogOptions {
            pod: storage.identity.pod,
            first_epoch: plan.pod.first_epoch,
            generation: plan.pod.generation,
            epoch_ns: 500 << (shape.seed % 8),
            busy_factor: 4,
            segment_bytes: run.replay_bytes / 2,
            frame_bytes: 128 << (shape.seed % 6),
            room: if run.full { full_disks::ROOM } else { RoomOptions::SMALL },
        };
        let held = Rc::new(RefCell::new(Vec::new()));
        let directories = Rc::clone(&held);
        let log = move |cx: &Cx<Sim>, plan: &liger_pod::plan::Plan, incarnation| {
            let mine = directory(cx, cx.host());
            let log = HostLog::new(cx, plan, incarnation, mine.disk(), options).expect("a good disk");
            directories.borrow_mut().push(mine);
            Some(log)
        };
        let setup = rows::setup(shape, shape.workers + 2);
        let seed = shape.seed.wrapping_add(u64::from(number) << 32);
        let shape = RowsRun { seed, ..shape.clone() };
        let built =
            SimPod::<M>::with_disks(&setup, storage.disks.clone(), log, |plan| rows::config(&shape, plan));
        let pod = built.expect("an empty pod has room");
        let recorder = Arc::clone(pod.recorder.as_ref().expect("recording is on"));
        Self { run, pod, recorder, plan, directories: held, life: Rc::default(), report: None }
    }

    /// Loads the first rows, and makes them durable.
    fn load(&mut self) -> Vec<String> {
        rows::load(&mut self.pod, &self.run.rows);
        self.ship_and_checkpoint(|_| 1);
        self.until_all_is_done()
    }

    /// Opens what the disks have, which must be these rows; whether they are is seen at once, if somebody
    /// `looks`, or by transactions.
    fn recover(&mut self, rows: &Rows, looks: bool) -> Vec<String> {
        let failed = Rc::new(RefCell::new(Vec::new()));
        let all = 0..self.run.rows.hosts;
        let directories: Vec<_> =
            all.map(HostId).map(|host| Directory::new(host, Disk::look_simulated(host))).collect();
        for host in &self.pod.hosts {
            let (id, host, plan) = (host.id(), Rc::clone(host), Rc::clone(&self.plan));
            let (directories, failed) = (directories.clone(), Rc::clone(&failed));
            self.pod.sim.spawn(id, WorkerId(0), move |cx| {
                let worked = Loading::new(&plan, &*host).work(cx, &directories);
                failed.borrow_mut().extend(worked.err().map(|failure| failure.to_string()));
            });
        }
        let mut problems = self.until_all_is_done();
        problems.append(&mut failed.borrow_mut());
        if problems.is_empty() && looks {
            problems = self.pod.check();
            problems.extend(self.compare(rows));
        }
        problems
    }

    /// What differs between these rows and the pod's.
    fn compare(&mut self, rows: &Rows) -> Vec<String> {
        let shown = self.pod.on_every_host(|cx, host| {
            let mut rows = Vec::new();
            let shown = host.each_row(cx, ITEMS, |_, row| {
                let (part, id, value) = (row.get(items::PART), row.get(items::ID), row.get(items::VALUE));
                rows.push(((part, id), value, row.bytes() == new_row(part, id, value).bytes()));
            });
            let (mut problems, unseen) = match host.check_entries(cx) {
                Ok(problems) => (problems, None),
                Err(unseen) => (Vec::new(), Some(unseen)),
            };
            problems.extend([shown.err(), unseen].into_iter().flatten().map(|error| error.to_string()));
            problems.extend(rows::look_at_everything(cx, host, drop).err().map(|error| error.to_string()));
            (rows, problems)
        });
        let mut problems = Vec::new();
        let mut expected: BTreeMap<(i16, i32), i64> = rows.iter().map(|(&at, row)| (at, row.value)).collect();
        for (rows, wrong) in shown {
            problems.extend(wrong);
            for (at, value, whole) in rows {
                match expected.remove(&at) {
                    Some(due) if due == value && whole => {}
                    due => problems.push(format!("row {at:?} is {value} (whole: {whole}), due is {due:?}")),
                }
            }
        }
        problems.extend(expected.iter().map(|(at, value)| format!("row {at:?} of value {value} is lost")));
        problems
    }

    /// Transactions, until all of them have ended or everybody dies.
    fn work(&mut self, storage: &Storage, pick: &mut Picker) -> Vec<String> {
        let run = self.run;
        if run.keeps_memory
            && pick.chance(20)
            && let Some(problem) = salvage::is_refused_to_the_living(&mut self.pod, storage.identity)
        {
            return vec![problem];
        }
        if pick.chance(run.faults) {
            self.life.faulty.set(true);
            let fault = match pick.below(3) {
                2 => DiskFault::SlowSyncs { times: 20 },
                0 => DiskFault::FailSync { after: pick.below(40) },
                _ => DiskFault::FailAfter { calls: pick.below(200) },
            };
            storage.disks.plan(HostId(pick.below(u64::from(run.rows.hosts)) as u8), fault);
        }
        self.life.full.set(run.full);
        let most = run.checkpoints;
        self.ship_and_checkpoint(move |cx| cx.random_below(most + 1));
        for host in &self.pod.hosts {
            for worker in 0..run.rows.workers {
                self.life.running.set(self.life.running.get() + 1);
                let (id, host, shape) = (host.id(), Rc::clone(host), run.rows.clone());
                let (life, recorder) = (Rc::clone(&self.life), Arc::clone(&self.recorder));
                let body = move |cx: &Cx<Sim>| Client::new(cx, &host, &life, &recorder).work(&shape);
                self.pod.sim.spawn(id, WorkerId(worker), body);
            }
        }
        let picked = 1 + pick.below(run.crash_verbs);
        let crash_at = run.crash_at.unwrap_or(picked);
        if run.keeps_memory {
            salvage::kill_all(&mut self.pod, crash_at, pick);
        } else {
            self.pod.sim.end_after(crash_at);
        }
        let report = self.pod.sim.run();
        self.pod.sim.end_after(run.rows.max_verbs);
        let problems = match &report.outcome {
            End::OutOfVerbs { .. } if !run.keeps_memory => Vec::new(),
            End::Completed if run.keeps_memory => Vec::new(),
            // A disk that has failed keeps rows from being made.
            End::Completed if self.life.faulty.get() && !self.pod.hosts.iter().all(|h| h.is_whole()) => {
                Vec::new()
            }
            End::Completed => self.pod.check(),
            other => vec![other.to_string()],
        };
        if run.keeps_memory && problems.is_empty() {
            salvage::until_all_are_dead(&mut self.pod, &report);
            (0..run.rows.hosts).for_each(|host| self.recorder.bury(host));
        }
        self.report = Some(report);
        problems
    }

    /// On each host a worker that ships while others run, and one that takes checkpoints: so many that it is
    /// told to take, and those that the log's bound needs.
    fn ship_and_checkpoint(&mut self, checkpoints: impl Fn(&Cx<Sim>) -> u64 + Copy + 'static) {
        let (workers, replay_bytes) = (self.run.rows.workers, self.run.replay_bytes);
        for host in &self.pod.hosts {
            self.life.running.set(self.life.running.get() + 1);
            let (id, shipped, life) = (host.id(), Rc::clone(host), Rc::clone(&self.life));
            let disks = self.life.full.get().then(|| self.pod.sim.disks());
            self.pod.sim.spawn(id, WorkerId(workers), move |cx| {
                while life.running.get() > 0 {
                    disks.iter().for_each(|disks| operate(cx, disks, id));
                    shipped.ship(cx);
                    cx.pause();
                }
            });
            let (host, life) = (Rc::clone(host), Rc::clone(&self.life));
            let mine = self.directories.borrow()[usize::from(id.0)].clone();
            self.pod.sim.spawn(id, WorkerId(workers + 1), move |cx| {
                take_checkpoints(cx, &host, mine, replay_bytes, checkpoints(cx), &life);
            });
        }
    }

    fn until_all_is_done(&mut self) -> Vec<String> {
        let report = self.pod.sim.run();
        let problem = (!report.completed()).then(|| report.outcome.to_string());
        self.report = Some(report);
        problem.into_iter().collect()
    }

    /// What it came to, and what it leaves.
    fn end(self, rows: &Rows, mut problems: Vec<String>, number: u32) -> (DurableResult, Left<M>) {
        let keeps_memory = self.run.keeps_memory;
        let history = self.recorder.history(initial(rows));
        let verdict = serializability::check(&history);
        problems.extend(verdict.anomalies.iter().map(ToString::to_string));
        problems.iter_mut().for_each(|problem| *problem = format!("life {number}: {problem}"));
        let result = DurableResult {
            report: self.report.expect("every life runs"),
            verbs: self.pod.sim.verbs(),
            committed: history.transactions.len() as u64,
            acknowledged: self.life.acknowledged.borrow().len() as u64,
            lost: 0,
            in_doubt: 0,
            salvages: 0,
            checkpoints: self.life.checkpoints.get(),
            removed: self.life.removed.get(),
            refused: self.life.refused.get(),
            problems,
        };
        let memory = keeps_memory.then_some(self.pod);
        (result, Left { history, life: self.life, memory, logged: None })
    }
}

fn initial(rows: &Rows) -> Vec<(HistoryKey, u64)> {
    let all = rows.iter().flat_map(|(&(part, id), row)| keys_of(part, id).into_iter().zip(row.versions));
    all.collect()
}
