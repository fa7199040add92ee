//! A pod whose hosts die while others live, and what runs on each of them: a detector, a shipper, a
//! checkpointer, and workers that follow a script and then serve.

pub(crate) mod statements;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use liger_engine::host::{Host, HostSession, Takeover, Txn};
use liger_engine::log::HostLog;
use liger_engine::log::room::RoomOptions;
use liger_engine::log::ship::LogOptions;
use liger_engine::recovery::checkpoint::Pace;
use liger_engine::recovery::checkpointer::{CheckpointOptions, Checkpointer};
use liger_engine::recovery::directory::{Directory, PodFiles, read_whole};
use liger_engine::recovery::manifest::{HOST_MANIFEST, HostManifest};
use liger_engine::recovery::{Identity, create};
use liger_engine::row::Rows;
use liger_engine::{Session, TxnError};
use liger_fabric::disk::SimDisks;
use liger_fabric::sim::{CrashDomain, Sim, SimConfig, Simulation};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::membership::{self, HostState, Slot};
use liger_pod::owner::Ownership;
use liger_pod::plan::{PartitionId, Plan};
use liger_pod::watch::Accusation;

use super::{Moving, Room, SurvivalRun};
use crate::full_disks;
use crate::pod::{Kept, PodSetup, SimPod, directories, directory};
use crate::recorder::Recorder;
use crate::rows;

/// What the workers of all hosts do.
pub(crate) trait Script<M: Kept = Rows> {
    /// One worker of one life, until it has nothing to do but serve.
    fn work(&self, cx: &Cx<Sim>, world: &World<M>, engine: &Host<M>);

    /// A later life of the caller's host is about to join.
    fn joins(&self, _: &Cx<Sim>) {}

    /// True if each host has a worker for its heartbeats alone, as real hosts have. Without one, a host that
    /// does something long now and then counts as dead.
    fn beats(&self) -> bool {
        false
    }

    /// The hosts that come back once when they have died, bit h for host h.
    fn returns(&self) -> u16 {
        u16::MAX
    }
}

/// What all workers of a run share.
pub(crate) struct World<M: Kept = Rows> {
    run: SurvivalRun,
    script: Box<dyn Script<M>>,
    pub plan: Plan,
    disks: SimDisks,
    /// Hosts whose disks nobody fills now, bit h for host h.
    spared: Cell<u16>,
    setup: PodSetup,
    log: LogOptions,
    pub recorder: Arc<Recorder>,
    running: Cell<u32>,
    /// Everybody has seen, or is about to see, that all is done: who dies now is not waited for.
    over: Cell<bool>,
    /// The last host has ended by itself: nobody is left to be asked.
    pub extinct: Cell<bool>,
    /// Grows as long as the pod is not at rest.
    unrest: Cell<u64>,
    /// By host: what that was before its failure detector's last look around.
    kept: Vec<Cell<u64>>,
    /// By host: what its failure detector could not do then.
    pub faults: Vec<RefCell<Vec<String>>>,
    /// Failure detectors that are looking around.
    looks: Cell<u32>,
    pub returns: Cell<u64>,
    /// Snapshots that were read.
    pub snapshots: Cell<u64>,
    /// Statements that have ended, and transactions that were the first to update what they saw.
    pub statements: Cell<(u64, u64)>,
    /// One that somebody has opened: the host, its moment, and how many transactions had committed before.
    shown: Cell<Option<(HostId, u64, usize)>>,
    pub refused: Cell<u64>,
    /// By host: the engine of its present life.
    pub engines: RefCell<Vec<Rc<Host<M>>>>,
    pub failures: RefCell<Vec<String>>,
    /// What transactions wrote as values, by their numbers in the history.
    pub values: RefCell<BTreeMap<u64, i64>>,
    /// The value of the transaction that each worker, by host and number, runs or has run last.
    writing: RefCell<BTreeMap<(u8, u8), i64>>,
}

/// Counts a client as ended, also when its host dies.
struct Running<M: Kept>(Rc<World<M>>);

impl<M: Kept> Running<M> {
    fn new(world: &Rc<World<M>>) -> Self {
        world.running.set(world.running.get() + 1);
        Self(Rc::clone(world))
    }
}

impl<M: Kept> Drop for Running<M> {
    fn drop(&mut self) {
        self.0.running.set(self.0.running.get() - 1);
    }
}

/// A failure detector's look around, which ends when its host dies, too.
struct Look<'w, M: Kept>(&'w World<M>);

impl<'w, M: Kept> Look<'w, M> {
    fn new(world: &'w World<M>) -> Self {
        world.looks.set(world.looks.get() + 1);
        Self(world)
    }
}

impl<M: Kept> Drop for Look<'_, M> {
    fn drop(&mut self) {
        self.0.looks.set(self.0.looks.get() - 1);
    }
}

/// A pod with loaded rows and first checkpoints, ready to run: each host's first incarnation, and its next
/// one where the script says so.
pub(crate) fn start<M: Kept>(
    run: &SurvivalRun,
    script: Box<dyn Script<M>>,
    configure: impl FnOnce(&Plan) -> SimConfig,
) -> (SimPod<M>, Rc<World<M>>) {
    let (mut pod, world, disks) = build(run, script, configure);
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
        if world.script.returns() >> host & 1 != 0 {
            spawn_life(&mut pod.sim, &world, HostId(host as u8), &Rc::default(), true);
        }
    }
    (pod, world)
}

fn build<M: Kept>(
    run: &SurvivalRun,
    script: Box<dyn Script<M>>,
    configure: impl FnOnce(&Plan) -> SimConfig,
) -> (SimPod<M>, Rc<World<M>>, Vec<Directory>) {
    let shape = &run.rows;
    let mut setup = rows::setup(shape, shape.workers + 4);
    setup.config.lease_ns = run.lease_ns;
    setup.config.initial_hosts &= !run.newcomers;
    let identity = Identity::new(7, 8, &setup.catalog, shape.hosts);
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
        room: if run.room.is_short() { full_disks::ROOM } else { RoomOptions::SMALL },
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
    let built = SimPod::<M>::with_disks(&setup, disks.clone(), make, configure);
    let pod = built.expect("an empty pod has room");
    let world = World {
        run: run.clone(),
        script,
        plan: pod.plan.clone(),
        disks,
        spared: Cell::new(0),
        setup,
        log,
        recorder: Arc::clone(pod.recorder.as_ref().expect("recording is on")),
        running: Cell::new(0),
        over: Cell::new(false),
        extinct: Cell::new(false),
        unrest: Cell::new(0),
        kept: vec![Cell::new(u64::MAX); usize::from(run.rows.hosts)],
        faults: vec![RefCell::default(); usize::from(run.rows.hosts)],
        looks: Cell::new(0),
        returns: Cell::new(0),
        snapshots: Cell::new(0),
        statements: Cell::default(),
        shown: Cell::new(None),
        refused: Cell::new(0),
        engines: RefCell::new(pod.hosts.clone()),
        failures: RefCell::default(),
        values: RefCell::default(),
        writing: RefCell::default(),
    };
    (pod, Rc::new(world), held.take())
}

fn first_checkpoint<M: Kept>(cx: &Cx<Sim>, engine: &Host<M>, directory: Directory, world: &World<M>) {
    let taken = checkpointer(cx, engine, directory, world).take(cx, engine);
    assert!(taken.is_ok(), "a checkpoint failed: {taken:?}");
    world.running.set(world.running.get() - 1);
}

fn checkpointer<M: Kept>(
    cx: &Cx<Sim>,
    engine: &Host<M>,
    directory: Directory,
    world: &World<M>,
) -> Checkpointer {
    let bytes = read_whole(cx, &directory, HOST_MANIFEST).expect("a good disk");
    let manifest = HostManifest::decode(engine.id(), &bytes).expect("a good disk");
    let (rows_per_hold, block_bytes) = (1 + cx.random_below(4) as usize, 1 << cx.random_below(10));
    let pace = Pace { rows_per_hold, write_bytes: 512, block_bytes, ..Pace::default() };
    let replay_bytes = world.run.replay_bytes;
    let options =
        CheckpointOptions { replay_bytes, pace, busy_percent: 100, restore_percent: 100, look_ns: 500 };
    Checkpointer::new(cx, engine.log().expect("the pod keeps a log"), directory, manifest, options)
}

/// The place where the workers of one life find their host's engine.
type HostCell<M> = Rc<RefCell<Option<Rc<Host<M>>>>>;

/// What a worker of a life does.
type Body<M> = Box<dyn FnOnce(&Cx<Sim>, &Rc<World<M>>, &HostCell<M>)>;

/// The workers of one life of a host. Those of the next one start when the host has died.
fn spawn_life<M: Kept>(
    sim: &mut Simulation,
    world: &Rc<World<M>>,
    host: HostId,
    place: &HostCell<M>,
    again: bool,
) {
    let workers = world.run.rows.workers;
    let mut add = |worker: u8, body: Body<M>| {
        let (world, place) = (Rc::clone(world), Rc::clone(place));
        let body = move |cx: &Cx<Sim>| body(cx, &world, &place);
        match again {
            true => sim.spawn_after_crash(host, WorkerId(worker), body),
            false => sim.spawn(host, WorkerId(worker), body),
        }
    };
    add(workers, Box::new(move |cx, world, place| keep(cx, world, place, again)));
    let with = |body: fn(&Cx<Sim>, &World<M>, &Host<M>)| -> Body<M> {
        Box::new(move |cx, world, place| {
            if let Some(engine) = wait(cx, world, place) {
                body(cx, world, &engine);
            }
        })
    };
    add(workers + 1, with(ship));
    add(workers + 2, with(checkpoint));
    if world.script.beats() {
        add(workers + 3, with(beat));
    }
    for worker in 0..workers {
        let running = (!again).then(|| Running::new(world));
        add(
            worker,
            Box::new(move |cx, world, place| {
                let running = running.unwrap_or_else(|| Running::new(world));
                let Some(engine) = wait(cx, world, place) else { return };
                world.script.work(cx, world, &engine);
                drop(running);
                serve(cx, world, &engine);
            }),
        );
    }
}

/// The engine of this life; none if it comes too late.
fn wait<M: Kept>(cx: &Cx<Sim>, world: &World<M>, place: &HostCell<M>) -> Option<Rc<Host<M>>> {
    loop {
        let engine = place.borrow().clone();
        if engine.is_some() || world.over.get() {
            return engine;
        }
        cx.pause();
    }
}

/// The failure detector of an incarnation; the next incarnation begins with its join.
fn keep<M: Kept>(cx: &Cx<Sim>, world: &Rc<World<M>>, place: &HostCell<M>, again: bool) {
    if again {
        let _running = Running::new(world);
        world.bury(cx.host());
        let Some(engine) = join(cx, world).map(Rc::new) else { return };
        world.returns.set(world.returns.get() + 1);
        world.engines.borrow_mut()[usize::from(cx.host().0)] = Rc::clone(&engine);
        *place.borrow_mut() = Some(engine);
    }
    let Some(engine) = wait(cx, world, place) else { return };
    if world.run.moves != Moving::None {
        engine.ask_for_partitions(true);
    }
    while !world.is_over(cx) {
        let unrest = world.unrest.get();
        if world.kept[usize::from(cx.host().0)].get() == unrest {
            // Nothing has happened since; the others are to find nobody who looks around.
            cx.pause();
            continue;
        }
        let look = Look::new(world);
        if cx.random_below(4) == 0 {
            // Somebody has heard of an end, or thinks so.
            engine.notice_end();
        }
        world.move_some(cx);
        engine.keep(cx);
        if engine.is_fenced() && world.is_alone(cx) {
            // Nobody is left to cut it off: its process ends by itself, and the pod with it.
            world.over.set(true);
            world.extinct.set(true);
            cx.fabric().kill_host(cx.host(), CrashDomain::Process);
        }
        let mut faults = engine.faults(cx);
        world.faults[usize::from(cx.host().0)].replace(faults.clone());
        if world.run.room.is_short() {
            // What a full disk is in the way of is tried again.
            faults.retain(|fault| fault.contains("for good"));
        }
        drop(look);
        world.kept[usize::from(cx.host().0)].set(unrest);
        let faults = faults.into_iter();
        world.failures.borrow_mut().extend(faults.map(|what| format!("host {} {what}", cx.host().0)));
        cx.pause();
    }
}

/// The host's next incarnation, when the pod lets it.
fn join<M: Kept>(cx: &Cx<Sim>, world: &World<M>) -> Option<Host<M>> {
    let is_free = || Slot::load(cx, &world.plan, cx.host()).is_ok_and(|slot| slot.state == HostState::Free);
    while !is_free() && !world.over.get() {
        cx.pause();
    }
    world.script.joins(cx);
    let joining = loop {
        match membership::join(cx, &world.plan, cx.process()) {
            Ok(joining) => break joining,
            Err(_) if world.over.get() => return None,
            Err(_) => cx.pause(),
        }
    };
    let mine = loop {
        // Whoever fenced this host may be about to let go of its disk.
        match PodFiles::Simulated.hold(cx, cx.host()) {
            Ok(mine) => break mine,
            Err(_) => cx.pause(),
        }
    };
    // One that finds no room for its log does not join, and is started again when there is some.
    world.spared.set(world.spared.get() | 1 << cx.host().0);
    world.disks.heal(cx.host());
    let log = HostLog::new(cx, &world.plan, joining.incarnation(), mine.disk(), world.log);
    world.spared.set(world.spared.get() & !(1 << cx.host().0));
    let mut options = world.setup.options(&world.plan, cx.host(), Some(Arc::clone(&world.recorder)));
    options.log = Some(log.expect("a good disk"));
    let member = joining.finish(cx).expect("nobody has suspected it yet");
    let catalog = Arc::clone(&world.setup.catalog);
    Some(M::host(cx, &world.plan, catalog, member, options).expect("there is room"))
}

impl<M: Kept> World<M> {
    /// Leaves some disk room now and then, or takes it, also that of a host that is dead; none is full in the
    /// end, and none of a host that joins.
    fn operate(&self, cx: &Cx<Sim>) {
        if self.running.get() == 0 {
            return self.plan.hosts().for_each(|host| self.disks.heal(host));
        }
        let any = HostId(cx.random_below(u64::from(self.run.rows.hosts)) as u8);
        if self.spared.get() >> any.0 & 1 != 0 {
            return;
        }
        if self.run.room != Room::Late || self.is_alive(cx, any) {
            return full_disks::operate(cx, &self.disks, any);
        }
        let is_last = self.plan.hosts().all(|other| other == any || self.is_alive(cx, other));
        if cx.random_below(if is_last { 32 } else { 128 }) == 0 {
            self.disks.heal(any);
        }
    }

    fn is_alive(&self, cx: &Cx<Sim>, host: HostId) -> bool {
        Slot::load(cx, &self.plan, host).expect("an intact word").state == HostState::Alive
    }

    /// Segments that somebody began, and found no room for: each of so many deaths may leave one, and whoever
    /// lives leaves none.
    pub fn empty_segments(&self, deaths: u64) -> Option<String> {
        let is_empty = |(name, bytes): &(String, Vec<u8>)| name.starts_with("log-") && bytes.is_empty();
        let of_host = |host| self.disks.files(host).iter().filter(|it| is_empty(it)).count() as u64;
        let found: u64 = self.plan.hosts().map(of_host).sum();
        (found > deaths).then(|| format!("{found} segments are empty, and {deaths} hosts died"))
    }

    /// Runs a transaction that writes no other value than this.
    pub fn attempt<'h, R>(
        &self,
        session: &mut HostSession<'h, Sim, M>,
        value: i64,
        body: impl FnOnce(&mut Txn<'h, Sim, M>) -> Result<R, TxnError>,
    ) -> Result<R, TxnError> {
        let by = (session.cx().host().0, session.cx().worker().0);
        self.writing.borrow_mut().insert(by, value);
        let ended = session.attempt(body);
        if ended.is_ok() {
            let id = self.recorder.last_of(by.0, by.1).expect("it has just committed");
            self.values.borrow_mut().insert(id, value);
        }
        ended
    }

    /// Runs a transaction that reads as of one moment: its own, or that of a snapshot which somebody on any
    /// host has opened, if it may still be read.
    pub fn read_snapshot<'h>(
        &self,
        session: &mut HostSession<'h, Sim, M>,
        body: impl FnOnce(&mut Txn<'h, Sim, M>) -> Result<(), TxnError>,
    ) -> Result<(), TxnError> {
        let by = (session.cx().host().0, session.cx().worker().0);
        let shares = session.cx().random_below(3) == 0;
        let mut before = self.recorder.len();
        match self.shown.get().filter(|_| shares) {
            Some((host, moment, committed)) if session.begin_snapshot_of((host, moment))? => {
                before = committed;
            }
            _ => session.begin_snapshot()?,
        }
        let moment = session.opened().as_of().expect("it reads a snapshot");
        self.shown.set(Some((session.cx().host(), moment, before)));
        let ended = match body(session.opened()) {
            Ok(()) => session.commit(),
            Err(error) => {
                session.roll_back();
                Err(error)
            }
        };
        if ended.is_ok() {
            let id = self.recorder.last_of(by.0, by.1).expect("it has just committed");
            self.failures.borrow_mut().extend(self.recorder.misses(id, before));
            self.snapshots.set(self.snapshots.get() + 1);
        }
        ended
    }

    /// A host has died; what its workers were about to commit may be there or not.
    pub fn bury(&self, host: HostId) {
        self.recorder.bury(host.0);
        let writing = self.writing.borrow();
        for (by, value) in writing.range((host.0, 0)..=(host.0, u8::MAX)) {
            if let Some(last) = self.recorder.last_of(by.0, by.1) {
                self.values.borrow_mut().entry(last).or_insert(*value);
            }
        }
    }

    /// True when all clients have ended, and nobody is dead and not recovered.
    fn is_over(&self, cx: &Cx<Sim>) -> bool {
        if !self.over.get() && self.is_at_rest(cx) && self.have_all_looked(cx) {
            // Somebody may have died while we looked.
            cx.fabric().spare_all(true);
            match self.is_at_rest(cx) && self.have_all_looked(cx) {
                true => self.over.set(true),
                false => cx.fabric().spare_all(false),
            }
        }
        self.over.get()
    }

    /// True if every failure detector has looked around since the pod came to rest, and so followed what the
    /// others have taken over, and none is about to suspect anybody.
    fn have_all_looked(&self, cx: &Cx<Sim>) -> bool {
        let lives = |host: &HostId| self.is_alive(cx, *host);
        self.looks.get() == 0
            && self
                .plan
                .hosts()
                .filter(lives)
                .all(|host| self.kept[usize::from(host.0)].get() == self.unrest.get())
    }

    fn is_at_rest(&self, cx: &Cx<Sim>) -> bool {
        let at_rest = self.looks_at_rest(cx);
        if !at_rest {
            self.unrest.set(self.unrest.get() + 1);
        }
        at_rest
    }

    fn looks_at_rest(&self, cx: &Cx<Sim>) -> bool {
        let rests = |host| {
            let slot = Slot::load(cx, &self.plan, host).expect("an intact word");
            matches!(slot.state, HostState::Alive | HostState::Free)
        };
        self.running.get() == 0
            && Accusation::load(cx, &self.plan).is_none()
            && self.plan.hosts().all(rests)
            && self.plan.partitions().all(|partition| !self.changes_hands(cx, partition))
            // A host may have died a moment ago.
            && self.plan.hosts().all(|host| self.is_staffed(cx, host))
    }

    /// True if somebody is to have a partition, or has asked for it.
    fn changes_hands(&self, cx: &Cx<Sim>, partition: PartitionId) -> bool {
        let word = Ownership::load(cx, &self.plan, partition);
        word.is_some_and(|word| word.next.is_some() || word.released.is_some())
    }

    /// Has a partition go to another host now and then, while there are clients.
    fn move_some(&self, cx: &Cx<Sim>) {
        if self.run.moves != Moving::Any || self.running.get() == 0 || cx.random_below(8) != 0 {
            return;
        }
        let partition = PartitionId(cx.random_below(self.plan.partitions().count() as u64) as u16);
        let next = HostId(cx.random_below(u64::from(self.run.rows.hosts)) as u8);
        Ownership::want(cx, &self.plan, partition, next);
    }

    /// True if no other host counts as alive and is.
    fn is_alone(&self, cx: &Cx<Sim>) -> bool {
        let others = || self.plan.hosts().filter(|host| *host != cx.host());
        others().all(|host| !self.is_alive(cx, host) || !self.is_staffed(cx, host))
    }

    /// True if a host that counts as alive is: the test knows what the pod has yet to find out.
    fn is_staffed(&self, cx: &Cx<Sim>, host: HostId) -> bool {
        let slot = Slot::load(cx, &self.plan, host).expect("an intact word");
        slot.state != HostState::Alive
            || cx.fabric().incarnation(host) == membership::process_of(cx, &self.plan, host)
    }
}

fn ship<M: Kept>(cx: &Cx<Sim>, world: &World<M>, engine: &Host<M>) {
    while !world.is_over(cx) {
        if world.run.room.is_short() {
            world.operate(cx);
        }
        engine.ship(cx);
        cx.pause();
    }
}

fn beat<M: Kept>(cx: &Cx<Sim>, world: &World<M>, engine: &Host<M>) {
    while !world.is_over(cx) {
        engine.beat(cx);
        cx.pause();
    }
}

fn checkpoint<M: Kept>(cx: &Cx<Sim>, world: &World<M>, engine: &Host<M>) {
    let disk = engine.log().expect("the pod keeps a log").disk(cx);
    let mut checkpointer = checkpointer(cx, engine, Directory::new(cx.host(), disk), world);
    checkpointer.whole();
    while !world.is_over(cx) {
        checkpointer.turn(cx, engine);
        assert!(checkpointer.failure().is_none(), "a checkpoint failed: {:?}", checkpointer.failure());
        cx.pause();
    }
}

fn serve<M: Kept>(cx: &Cx<Sim>, world: &World<M>, engine: &Host<M>) {
    while !world.is_over(cx) {
        engine.attend(cx);
        cx.pause();
    }
}
