//! Random transactions on a pod whose hosts die while others live.
//!
//! Hosts are killed before verbs that the seed picks, in every crash domain; the others notice by their
//! heartbeats, cut them off, resolve their locks and take over their partitions. A dead host comes back once,
//! under its number, and runs transactions again.
//!
//! Checked at the end, when everybody has come to rest:
//! 1. Every transaction that returned to its worker is there, and together they are serializable. Of one that
//!    was about to commit when its host died, all or nothing is there.
//! 2. All locks are free, the shared index and the heap are what the rows need, indexes agree with rows, and
//!    no host is dead and not recovered.
//! 3. What was acknowledged at `storage` was durable then: see [`crate::durable`], which loses everything.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use liger_engine::log::HostLog;
use liger_engine::log::ship::LogOptions;
use liger_engine::recovery::checkpoint::Pace;
use liger_engine::recovery::checkpointer::{CheckpointOptions, Checkpointer};
use liger_engine::recovery::directory::{Directory, PodFiles, read_whole};
use liger_engine::recovery::manifest::{HOST_MANIFEST, HostManifest};
use liger_engine::recovery::{Identity, create};
use liger_engine::row::{RowHost, RowSession, Takeover};
use liger_engine::{Key, KeyRange, Session, Transaction as _, TxnError};
use liger_fabric::disk::SimDisks;
use liger_fabric::sim::{CrashDomain, Report, Sim, SimConfig, Simulation};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::membership::{self, HostState, Slot};
use liger_pod::plan::Plan;
use liger_pod::watch::{Accusation, Owner};

use crate::Picker;
use crate::history::{Change, History, Operation};
use crate::pod::{PodSetup, SimPod, directories, directory};
use crate::recorder::Recorder;
use crate::rows::{self, BY_GROUP, GROUPS, ITEMS, RowsRun, keys_of};
use crate::serializability;

/// Who dies, and when.
#[derive(Clone, Copy, Debug)]
pub struct Death {
    /// The host.
    pub host: u8,
    /// After so many verbs of everybody.
    pub verbs: u64,
    /// How much of it survives.
    pub domain: CrashDomain,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct SurvivalRun {
    /// The transactions of each life.
    pub rows: RowsRun,
    /// Planned deaths.
    pub deaths: Vec<Death>,
    /// How long a host may be silent.
    pub lease_ns: u64,
    /// Bound on each host's log, in bytes.
    pub replay_bytes: u64,
}

impl SurvivalRun {
    /// A mixed bag: the shape follows from the seed too.
    pub fn from_seed(seed: u64) -> Self {
        let mut pick = Picker::new(seed ^ 0x7375_7276);
        let rows = RowsRun::from_seed(seed);
        let (hosts, keys) = (2 + pick.below(3) as u8, 2 + pick.below(8) as i32);
        let transactions = 5 + pick.below(30) as u32;
        let deaths = 1 + pick.below(u64::from(hosts) - 1);
        let reach = 500 << pick.below(7);
        let domains = [CrashDomain::Process, CrashDomain::Host, CrashDomain::HostPersistent];
        let death = |_| Death {
            host: pick.below(u64::from(hosts)) as u8,
            verbs: 1 + pick.below(reach),
            domain: domains[pick.below(3) as usize],
        };
        let deaths = (0..deaths).map(death).collect();
        let rows = RowsRun { hosts, keys, transactions, max_verbs: 6_000_000, ..rows };
        Self { rows, deaths, lease_ns: 400_000, replay_bytes: 64 << 10 }
    }
}

/// How it ended.
#[derive(Debug)]
pub struct SurvivalResult {
    /// The simulator's report.
    pub report: Report,
    /// Transactions that committed.
    pub committed: u64,
    /// Deaths, of those taken for dead too.
    pub deaths: u64,
    /// Hosts that came back.
    pub returns: u64,
    /// Partitions that were taken over.
    pub taken_over: u64,
    /// Locks of dead hosts that were resolved, and rows brought to where their last records said.
    pub resolved: (u64, u64),
    /// In the end nobody lived any more: the planned deaths, and those of hosts that were too slow.
    pub extinct: bool,
    /// Everything that is wrong; empty if all is well.
    pub problems: Vec<String>,
}

/// What all workers of a run share.
struct World {
    run: SurvivalRun,
    plan: Plan,
    setup: PodSetup,
    log: LogOptions,
    recorder: Arc<Recorder>,
    running: Cell<u32>,
    /// Everybody has seen, or is about to see, that all is done: who dies now is not waited for.
    over: Cell<bool>,
    returns: Cell<u64>,
    /// By host: the engine of its present life.
    engines: RefCell<Vec<Rc<RowHost>>>,
    failures: RefCell<Vec<String>>,
}

/// Counts a client as ended, also when its host dies.
struct Running(Rc<World>);

impl Running {
    fn new(world: &Rc<World>) -> Self {
        world.running.set(world.running.get() + 1);
        Self(Rc::clone(world))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.set(self.0.running.get() - 1);
    }
}

/// Runs it.
pub fn run(run: &SurvivalRun) -> SurvivalResult {
    let (mut pod, world, disks) = build(run);
    rows::load(&mut pod, &run.rows);
    let staffed: Vec<_> = pod.hosts.iter().map(|host| Rc::new(RefCell::new(Some(Rc::clone(host))))).collect();
    for (engine, directory) in pod.hosts.iter().zip(disks) {
        let (engine, world) = (Rc::clone(engine), Rc::clone(&world));
        pod.sim.spawn(engine.id(), WorkerId(world.run.rows.workers), move |cx| {
            // Rows that were loaded are in no log.
            first_checkpoint(cx, &engine, directory, &world);
        });
    }
    for engine in &pod.hosts {
        let (engine, world) = (Rc::clone(engine), Rc::clone(&world));
        world.running.set(world.running.get() + 1);
        let shipped = Rc::clone(&world);
        pod.sim.spawn(engine.id(), WorkerId(world.run.rows.workers + 1), move |cx| {
            while shipped.running.get() > 0 {
                engine.ship(cx);
                engine.attend(cx);
                cx.pause();
            }
        });
    }
    let report = pod.sim.run();
    assert!(report.completed(), "the first checkpoints fail: {}", report.outcome);
    for (host, place) in staffed.iter().enumerate() {
        spawn_life(&mut pod.sim, &world, HostId(host as u8), place, false);
        spawn_life(&mut pod.sim, &world, HostId(host as u8), &Rc::default(), true);
    }
    for death in &run.deaths {
        pod.sim.kill_after(HostId(death.host), death.verbs, death.domain);
    }
    let report = pod.sim.run();
    end(run, pod, &world, report)
}

fn build(run: &SurvivalRun) -> (SimPod, Rc<World>, Vec<Directory>) {
    let shape = &run.rows;
    let mut setup = rows::setup(shape, shape.workers + 3);
    setup.config.lease_ns = run.lease_ns;
    let layouts = setup.catalog.hash();
    let identity = Identity { pod: 7, configuration: 8, layouts, hosts: shape.hosts };
    let disks = SimDisks::new(shape.seed);
    let config = SimConfig::adversarial(usize::from(shape.hosts), 4096, shape.seed);
    Simulation::with_disks(config, disks.clone()).alone(HostId(0), WorkerId(0), move |cx| {
        create(cx, &directories(cx, identity.hosts), &identity).expect("empty disks");
    });
    let log = LogOptions {
        pod: identity.pod,
        epoch_ns: 500 << (shape.seed % 8),
        segment_bytes: run.replay_bytes / 8,
        frame_bytes: 128 << (shape.seed % 6),
        ..LogOptions::default()
    };
    setup.takeover = Some(Takeover { files: PodFiles::Simulated, identity, log });
    let held = Rc::new(RefCell::new(Vec::new()));
    let its = Rc::clone(&held);
    let make = move |cx: &Cx<Sim>, plan: &Plan, incarnation| {
        let mine = directory(cx, cx.host());
        let made = HostLog::new(cx, plan, incarnation, mine.disk(), log).expect("a good disk");
        its.borrow_mut().push(mine);
        Some(made)
    };
    let built = SimPod::with_disks(&setup, disks, make, |plan| rows::config(shape, plan));
    let pod = built.expect("an empty pod has room");
    let world = World {
        run: run.clone(),
        plan: pod.plan.clone(),
        setup,
        log,
        recorder: Arc::clone(pod.recorder.as_ref().expect("recording is on")),
        running: Cell::new(0),
        over: Cell::new(false),
        returns: Cell::new(0),
        engines: RefCell::new(pod.hosts.clone()),
        failures: RefCell::default(),
    };
    (pod, Rc::new(world), held.take())
}

fn first_checkpoint(cx: &Cx<Sim>, engine: &RowHost, directory: Directory, world: &World) {
    let taken = checkpointer(cx, engine, directory, world).take(cx, engine);
    assert!(taken.is_ok(), "a checkpoint failed: {taken:?}");
    world.running.set(world.running.get() - 1);
}

fn checkpointer(cx: &Cx<Sim>, engine: &RowHost, directory: Directory, world: &World) -> Checkpointer {
    let bytes = read_whole(cx, &directory, HOST_MANIFEST).expect("a good disk");
    let manifest = HostManifest::decode(engine.id(), &bytes).expect("a good disk");
    let pace = Pace { rows_per_hold: 1 + cx.random_below(4) as usize, write_bytes: 256, ..Pace::default() };
    let replay_bytes = world.run.replay_bytes;
    let options = CheckpointOptions { replay_bytes, pace, busy_percent: 100, look_ns: 500 };
    Checkpointer::new(cx, engine.log().expect("the pod keeps a log"), directory, manifest, options)
}

/// The place where the workers of one life find their host's engine.
type Place = Rc<RefCell<Option<Rc<RowHost>>>>;

/// The workers of one life of a host. Those of the next one start when the host has died.
fn spawn_life(sim: &mut Simulation, world: &Rc<World>, host: HostId, place: &Place, again: bool) {
    type Body = Box<dyn FnOnce(&Cx<Sim>, &Rc<World>, &Place)>;
    let workers = world.run.rows.workers;
    let mut add = |worker: u8, body: Body| {
        let (world, place) = (Rc::clone(world), Rc::clone(place));
        let body = move |cx: &Cx<Sim>| body(cx, &world, &place);
        match again {
            true => sim.spawn_after_crash(host, WorkerId(worker), body),
            false => sim.spawn(host, WorkerId(worker), body),
        }
    };
    add(workers, Box::new(move |cx, world, place| keep(cx, world, place, again)));
    let with = |body: fn(&Cx<Sim>, &World, &RowHost)| -> Body {
        Box::new(move |cx, world, place| {
            if let Some(engine) = wait(cx, world, place) {
                body(cx, world, &engine);
            }
        })
    };
    add(workers + 1, with(ship));
    add(workers + 2, with(checkpoint));
    for worker in 0..workers {
        let running = (!again).then(|| Running::new(world));
        add(
            worker,
            Box::new(move |cx, world, place| {
                let running = running.unwrap_or_else(|| Running::new(world));
                let Some(engine) = wait(cx, world, place) else { return };
                work(cx, world, &engine);
                drop(running);
                serve(cx, world, &engine);
            }),
        );
    }
}

/// The engine of this life; none if it comes too late.
fn wait(cx: &Cx<Sim>, world: &World, place: &Place) -> Option<Rc<RowHost>> {
    loop {
        let engine = place.borrow().clone();
        if engine.is_some() || world.over.get() {
            return engine;
        }
        cx.pause();
    }
}

/// The keeper of a life; the next life begins with its join.
fn keep(cx: &Cx<Sim>, world: &Rc<World>, place: &Place, again: bool) {
    if again {
        let _running = Running::new(world);
        world.recorder.bury(cx.host().0);
        let Some(engine) = join(cx, world).map(Rc::new) else { return };
        world.returns.set(world.returns.get() + 1);
        world.engines.borrow_mut()[usize::from(cx.host().0)] = Rc::clone(&engine);
        *place.borrow_mut() = Some(engine);
    }
    let Some(engine) = wait(cx, world, place) else { return };
    loop {
        engine.keep(cx);
        let troubles = engine.troubles(cx).into_iter();
        world.failures.borrow_mut().extend(troubles.map(|what| format!("host {} {what}", cx.host().0)));
        if world.is_over(cx) {
            // Once more: to follow what the others have taken over.
            engine.keep(cx);
            return;
        }
        cx.pause();
    }
}

/// The host's next life, when the pod lets it.
fn join(cx: &Cx<Sim>, world: &World) -> Option<RowHost> {
    let joining = loop {
        match membership::join(cx, &world.plan, cx.process()) {
            Ok(joining) => break joining,
            Err(_) if world.over.get() => return None,
            Err(_) => cx.pause(),
        }
    };
    let mine = loop {
        // Whoever buried this host may be about to let go of its disk.
        match PodFiles::Simulated.hold(cx, cx.host()) {
            Ok(mine) => break mine,
            Err(_) => cx.pause(),
        }
    };
    let log = HostLog::new(cx, &world.plan, joining.incarnation(), mine.disk(), world.log);
    let mut options = world.setup.options(&world.plan, Some(Arc::clone(&world.recorder)));
    options.log = Some(log.expect("a good disk"));
    let member = joining.finish(cx).expect("nobody has suspected it yet");
    let catalog = Arc::clone(&world.setup.catalog);
    Some(RowHost::new(cx, &world.plan, catalog, member, options).expect("there is room"))
}

impl World {
    /// True when all clients have ended, and nobody is dead and not recovered.
    fn is_over(&self, cx: &Cx<Sim>) -> bool {
        if !self.over.get() && self.is_at_rest(cx) {
            // Somebody may have died while we looked.
            cx.fabric().spare_all(true);
            match self.is_at_rest(cx) {
                true => self.over.set(true),
                false => cx.fabric().spare_all(false),
            }
        }
        self.over.get()
    }

    fn is_at_rest(&self, cx: &Cx<Sim>) -> bool {
        let rests = |host| {
            let slot = Slot::load(cx, &self.plan, host).expect("an intact word");
            matches!(slot.state, HostState::Alive | HostState::Free)
        };
        self.running.get() == 0
            && Accusation::load(cx, &self.plan).is_none()
            && self.plan.hosts().all(rests)
            // A host may have died a moment ago.
            && self.plan.hosts().all(|host| self.is_staffed(cx, host))
    }

    /// True if a host that counts as alive is: the test knows what the pod has yet to find out.
    fn is_staffed(&self, cx: &Cx<Sim>, host: HostId) -> bool {
        let slot = Slot::load(cx, &self.plan, host).expect("an intact word");
        slot.state != HostState::Alive
            || cx.fabric().life(host) == membership::process_of(cx, &self.plan, host)
    }
}

fn ship(cx: &Cx<Sim>, world: &World, engine: &RowHost) {
    while !world.is_over(cx) {
        engine.ship(cx);
        cx.pause();
    }
}

fn checkpoint(cx: &Cx<Sim>, world: &World, engine: &RowHost) {
    let disk = engine.log().expect("the pod keeps a log").disk(cx);
    let mut checkpointer = checkpointer(cx, engine, Directory::new(cx.host(), disk), world);
    checkpointer.whole();
    while !world.is_over(cx) {
        checkpointer.turn(cx, engine);
        assert!(checkpointer.failure().is_none(), "a checkpoint failed: {:?}", checkpointer.failure());
        cx.pause();
    }
}

/// Transactions, each answered when it is durable.
fn work(cx: &Cx<Sim>, world: &World, engine: &RowHost) {
    let mut session = RowSession::new(cx, engine);
    let run = &world.run.rows;
    for _ in 0..run.transactions {
        let number = cx.random();
        match session.attempt(|txn| rows::transaction(cx, txn, run, &run.mix, number)) {
            Ok(()) => {
                let ticket = session.ticket();
                let waits = cx.random_below(4) == 0;
                while waits && !engine.is_overruled() && !session.is_durable(ticket).expect("good disks") {
                    session.wait_a_turn();
                }
            }
            Err(TxnError::Conflict(_)) => session.back_off(3),
            Err(TxnError::Rollback | TxnError::OutOfMemory { .. }) => {}
            Err(TxnError::Fenced) => break,
            Err(other) => panic!("a transaction failed: {other}"),
        }
    }
}

fn serve(cx: &Cx<Sim>, world: &World, engine: &RowHost) {
    while !world.is_over(cx) {
        engine.attend(cx);
        cx.pause();
    }
}

/// Judges what is left.
fn end(run: &SurvivalRun, mut pod: SimPod, world: &World, report: Report) -> SurvivalResult {
    let mut problems: Vec<String> = BTreeSet::from_iter(world.failures.take()).into_iter().collect();
    let mut extinct = false;
    if !report.completed() {
        let plan = pod.plan.clone();
        pod.sim.end_after(10_000);
        let (told, survivors) = pod.sim.alone(HostId(0), WorkerId(0), move |cx| state(cx, &plan));
        extinct = survivors == 0;
        if !extinct {
            problems.push(format!("{}\n{told}", report.outcome));
        }
    }
    let mut deaths = 0;
    for host in 0..run.rows.hosts {
        let lives = report.hosts[usize::from(host)].killed.len() as u64;
        deaths += lives;
        if lives > 0 {
            world.recorder.bury(host);
        }
    }
    let engines = world.engines.take();
    let sum = |of: fn(&liger_engine::row::Moves) -> &std::sync::atomic::AtomicU64| -> u64 {
        engines.iter().map(|engine| of(engine.moves()).load(Ordering::Relaxed)).sum()
    };
    let (taken_over, resolved) =
        (sum(|m| &m.taken_over), (sum(|m| &m.locks_resolved), sum(|m| &m.rows_redone)));
    if problems.is_empty() && !extinct {
        let plan = pod.plan.clone();
        let alive: Vec<bool> = pod.sim.alone(HostId(0), WorkerId(0), move |cx| {
            plan.hosts().map(|host| lives(cx, &plan, host)).collect()
        });
        pod.hosts =
            engines.into_iter().zip(alive).filter(|(_, alive)| *alive).map(|(host, _)| host).collect();
        problems.extend(pod.check());
    }
    if problems.is_empty() && !extinct {
        let looked = pod.on_every_host(|cx, host| {
            let mut problems = host.check_entries(cx).expect("nobody holds a row");
            problems.extend(look_at_everything(cx, host).err().map(|error| error.to_string()));
            problems
        });
        problems.extend(looked.into_iter().flatten());
    }
    let initial = rows::loaded(&run.rows).flat_map(|(part, id)| keys_of(part, id).map(|key| (key, 0)));
    let mut history = world.recorder.history(initial.collect());
    name_entries_by_changes(&mut history);
    let verdict = serializability::check(&history);
    problems.extend(verdict.anomalies.iter().map(ToString::to_string));
    let committed = history.transactions.len() as u64;
    let returns = world.returns.get();
    SurvivalResult { report, committed, deaths, returns, taken_over, resolved, extinct, problems }
}

/// An entry of an index that was made anew has the version of its row, which is that of the entry's last
/// change or a later one, and earlier than that of the next. Gives all of them the version of the change.
fn name_entries_by_changes(history: &mut History) {
    let mut changes: BTreeMap<Vec<u64>, Vec<u64>> = BTreeMap::new();
    for (key, version) in history.initial.iter().filter(|(key, _)| key.table == BY_GROUP.0.0) {
        changes.entry(key.words.clone()).or_default().push(*version);
    }
    for operation in history.transactions.iter().flat_map(|txn| &txn.operations) {
        if let Operation::Write { key, change: Change::Insert { new } | Change::Update { new, .. } } =
            operation
            && key.table == BY_GROUP.0.0
        {
            changes.entry(key.words.clone()).or_default().push(*new);
        }
    }
    changes.values_mut().for_each(|versions| versions.sort_unstable());
    let named = |words: &Vec<u64>, version: &mut u64| {
        let versions = changes.get(words).map_or(&[][..], Vec::as_slice);
        let upto = versions.partition_point(|insert| insert <= version);
        if let Some(at) = upto.checked_sub(1) {
            *version = versions[at];
        }
    };
    for operation in history.transactions.iter_mut().flat_map(|txn| &mut txn.operations) {
        match operation {
            Operation::Read { key, seen: Some(version) } if key.table == BY_GROUP.0.0 => {
                named(&key.words, version);
            }
            Operation::Range { table, seen, .. } if *table == BY_GROUP.0.0 => {
                seen.iter_mut().for_each(|(words, version)| named(words, version));
            }
            Operation::Write { key, change } if key.table == BY_GROUP.0.0 => match change {
                Change::Update { previous, .. } | Change::Delete { previous, .. } => {
                    named(&key.words, previous);
                }
                Change::Insert { .. } => {}
            },
            _ => {}
        }
    }
}

/// What the pod says of its hosts, for whoever looks at a run that did not end; and how many of them live.
fn state(cx: &Cx<Sim>, plan: &Plan) -> (String, usize) {
    let host = |host| {
        let slot = Slot::load(cx, plan, host).expect("an intact word");
        let durable = cx.load(plan.log_line(host));
        let settled: Vec<u64> = plan.hosts().map(|by| cx.load(plan.settled(host, by))).collect();
        format!(
            "host {}: {:?} {}, durable {durable}, settled {settled:?}",
            host.0, slot.state, slot.incarnation
        )
    };
    let mut lines: Vec<String> = plan.hosts().map(host).collect();
    let owners = (0..plan.config().partitions).map(|p| Owner::load(cx, plan, p).map(|owner| owner.host.0));
    lines.push(format!("owners {:?}, {:?}", owners.collect::<Vec<_>>(), Accusation::load(cx, plan)));
    lines.push(format!("epoch {}", cx.load(plan.epoch_word())));
    (lines.join("\n"), plan.hosts().filter(|host| lives(cx, plan, *host)).count())
}

/// True if a host serves, as the simulator knows.
fn lives(cx: &Cx<Sim>, plan: &Plan, host: HostId) -> bool {
    let slot = Slot::load(cx, plan, host).expect("an intact word");
    slot.state == HostState::Alive && cx.fabric().life(host) == membership::process_of(cx, plan, host)
}

/// Reads this host's rows in transactions, so that their versions are compared.
fn look_at_everything(cx: &Cx<Sim>, host: &RowHost) -> Result<(), TxnError> {
    let mut session = RowSession::new(cx, host);
    for part in host.own_partitions().map(|part| part as i16).collect::<Vec<_>>() {
        session.attempt(|txn| {
            let all = KeyRange::prefix(Key::build().i16(part), 1);
            txn.scan(ITEMS, &all, |_, _| ControlFlow::Continue(()))?;
            (0..GROUPS).try_for_each(|group| {
                let all = KeyRange::prefix(Key::build().i16(part).i16(group), 1);
                txn.scan_index(BY_GROUP, &all, |_| ControlFlow::Continue(()))
            })
        })?;
    }
    Ok(())
}
