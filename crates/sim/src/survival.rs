//! Random transactions on a pod whose hosts die while others live.
//!
//! Hosts are killed before verbs that the seed picks, in every crash domain; the others notice by their
//! heartbeats, cut them off, resolve their locks and take over their partitions. A dead host comes back once,
//! under its number, and runs transactions again.
//!
//! Checked at the end, when everybody has come to rest:
//! 1. Every transaction that returned to its worker is there, and together they are serializable. Of one that
//!    was about to commit when its host died, all or nothing is there.
//! 2. Rows are what their last writers wrote, to the byte; all locks are free, the shared index and the heap
//!    are what the rows need, indexes agree with rows, and no host is dead and not recovered.
//! 3. What was acknowledged at `storage` was durable then: see [`crate::durable`], which loses everything.

mod statements;
mod verdict;
pub(crate) mod world;

use std::cell::Cell;

use liger_engine::host::{Host, HostSession};
use liger_engine::method::{Both, Method};
use liger_engine::row::Rows;
use liger_engine::{Session, Ticket, TxnError};
use liger_fabric::sim::{CrashDomain, Report, Sim, SimConfig};
use liger_fabric::{Cx, HostId};
use liger_pod::owner::Ownership;
use liger_pod::plan::Plan;
use liger_pod::watch;

use crate::Picker;
use crate::plain::Plain;
use crate::pod::Kept;
use crate::rows::{self, Mix, PlainTables, RowsRun};
pub(crate) use verdict::judge;
use world::{Script, World};

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
    /// One more host dies in this way just after a commit, while another one's death is dealt with and a
    /// transaction of a third lingers.
    pub follows: Option<CrashDomain>,
    /// One more host dies in this way when it has released a partition, and nobody has it yet.
    pub dies_released: Option<CrashDomain>,
    /// How much room disks have.
    pub room: Room,
    /// Which partitions go from one living host to another.
    pub moves: Moving,
    /// So many of a hundred transactions read a snapshot.
    pub snapshots: u64,
    /// So many of the others are statements that each read as of a moment, and changes.
    pub statements: u64,
    /// Hosts that no partitions are made for, bit h for host h: they get some when they have joined.
    pub newcomers: u16,
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
        Self {
            rows,
            deaths,
            lease_ns: 400_000,
            replay_bytes: 64 << 10,
            follows: None,
            dies_released: None,
            room: Room::Enough,
            moves: Moving::None,
            snapshots: 0,
            statements: 0,
            newcomers: 0,
        }
    }

    /// Logs that checkpoints make short all the time, on disks that are full most of the time: a takeover,
    /// and its checkpoint, has to find room too.
    pub fn with_full_disks(seed: u64) -> Self {
        let run = Self::from_seed(seed);
        let mix = Mix { update: 6, insert: 3, delete: 2, ..Mix::NONE };
        let rows = RowsRun { keys: 6, operations: 2, transactions: 60, mix, budget_rows: 40, ..run.rows };
        Self { rows, replay_bytes: 4 << 10, room: Room::NowAndThen, ..run }
    }
}

/// Which partitions go from one living host to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moving {
    /// None.
    None,
    /// Hosts that are back ask for those that were made for them.
    Home,
    /// Now and then any, to any host.
    Any,
}

/// How much room the disks of a run have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// Enough.
    Enough,
    /// They are full now and then, and somebody makes room, or takes it.
    NowAndThen,
    /// As before, but that of a dead host gets room only when all others live again, or seldom.
    Late,
}

impl Room {
    pub(crate) fn is_short(self) -> bool {
        self != Room::Enough
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
    /// Snapshots that were read.
    pub snapshots: u64,
    /// Statements that read as of a moment, in transactions that may change rows, and such transactions that
    /// were the first to change what they saw.
    pub statements: (u64, u64),
    /// Transactions that were refused because a disk was full.
    pub refused: u64,
    /// Partitions that came to another host: of dead ones, and of living ones.
    pub taken_over: u64,
    /// Those of living ones.
    pub handed_over: u64,
    /// Locks of dead hosts that were resolved, and rows brought to where their last records said.
    pub resolved: (u64, u64),
    /// In the end nobody lived any more: the planned deaths, and those of hosts that were too slow.
    pub extinct: bool,
    /// Everything that is wrong; empty if all is well.
    pub problems: Vec<String>,
}

/// Random transactions, each answered when it is durable.
struct Random {
    run: SurvivalRun,
    follows: Cell<Follows>,
    /// Of [`SurvivalRun::dies_released`].
    to_die: Cell<Option<CrashDomain>>,
}

/// How far the death is that follows another one (see [`SurvivalRun::follows`]).
#[derive(Clone, Copy)]
enum Follows {
    /// Nobody has seen a dead host yet.
    Waits,
    /// A transaction lingers: its host cannot end a takeover.
    Lingers,
    /// Now any host but this may die: what the takeover reads of the logs should be on storage.
    May(HostId),
    /// Nobody follows any more.
    Done,
}

impl Random {
    /// Kills a host that has released a partition which nobody has yet, perhaps.
    fn kill_giver(&self, cx: &Cx<Sim>, plan: &Plan) {
        let Some(domain) = self.to_die.get().filter(|_| cx.random_below(2) == 0) else { return };
        let mut words = plan.partitions().filter_map(|partition| Ownership::load(cx, plan, partition));
        if let Some(word) = words.find(|word| word.released.is_some()) {
            self.to_die.set(None);
            cx.fabric().kill_host(word.owner.host, domain);
        }
    }

    /// In a transaction: the first that sees a dead host takes its time, until another one is found dead too.
    fn linger(&self, cx: &Cx<Sim>, plan: &Plan) {
        let sees_dead = || !watch::fenced(cx, plan).expect("intact words").is_empty();
        if self.run.follows.is_none() || !matches!(self.follows.get(), Follows::Waits) || !sees_dead() {
            return;
        }
        let phases = [(Follows::Lingers, 1), (Follows::May(cx.host()), 16)];
        let begun = cx.now_ns();
        for (phase, quarters) in phases {
            self.follows.set(phase);
            while cx.now_ns() - begun < quarters * self.run.lease_ns / 4 {
                cx.pause();
            }
        }
        self.follows.set(Follows::Done);
    }

    fn is_durable<M: Method>(&self, session: &mut HostSession<'_, Sim, M>, ticket: Ticket) -> bool {
        match session.is_durable(ticket) {
            // What is in the log has room; a mark may have to wait.
            Err(TxnError::LogFull { .. }) if self.run.room.is_short() => false,
            durable => durable.expect("good disks"),
        }
    }

    /// Reads a snapshot; it may be told that it is too old.
    fn read_snapshot<M: Kept>(
        &self,
        cx: &Cx<Sim>,
        world: &World<M>,
        session: &mut HostSession<'_, Sim, M>,
        number: u64,
    ) {
        let mix = Mix { get: 3, scan: 3, scan_index: 2, scan_rest: 2, ..Mix::NONE };
        // Where others fight for rows, it looks at them again and again.
        let (operations, think) = if self.run.rows.duel.is_some() { (60, 2) } else { (6, 20) };
        let run = RowsRun { operations, think, ..self.run.rows.clone() };
        match world.read_snapshot(session, |txn| rows::transaction(cx, txn, &run, &mix, number)) {
            Ok(()) | Err(TxnError::Rollback | TxnError::Fenced) => {}
            Err(TxnError::Conflict(_) | TxnError::SnapshotTooOld) => session.back_off(3),
            Err(other) => panic!("a snapshot cannot be read: {other}"),
        }
    }

    /// After a commit: kills the caller's host, perhaps, while another one lingers.
    fn follow(&self, cx: &Cx<Sim>) {
        let (Some(domain), Follows::May(host)) = (self.run.follows, self.follows.get()) else { return };
        if host != cx.host() && cx.random_below(4) == 0 {
            self.follows.set(Follows::Done);
            cx.fabric().kill_host(cx.host(), domain);
        }
    }
}

/// Runs it.
pub fn run(run: &SurvivalRun) -> SurvivalResult {
    let (follows, to_die) = (Follows::Waits, run.dies_released);
    let random =
        || Box::new(Random { run: run.clone(), follows: Cell::new(follows), to_die: Cell::new(to_die) });
    match run.rows.plain {
        PlainTables::None => run_script::<Rows>(run, random()),
        _ => run_script::<Both<Rows, Plain>>(run, random()),
    }
}

/// The same where workers follow another script.
pub(crate) fn run_script<M: Kept>(run: &SurvivalRun, script: Box<dyn Script<M>>) -> SurvivalResult {
    // Hosts learn of an end at once, or by the silence alone.
    let ends_show = run.rows.seed.is_multiple_of(2);
    let (mut pod, world) =
        world::start(run, script, |plan| SimConfig { ends_show, ..rows::config(&run.rows, plan) });
    for death in &run.deaths {
        pod.sim.kill_after(HostId(death.host), death.verbs, death.domain);
    }
    let report = pod.sim.run();
    judge(&run.rows, pod, &world, report)
}

impl<M: Kept> Script<M> for Random {
    fn work(&self, cx: &Cx<Sim>, world: &World<M>, engine: &Host<M>) {
        let (mut session, run) = (HostSession::new(cx, engine), &self.run.rows);
        let mix = run.duel.filter(|_| cx.host().0 == 0).unwrap_or(run.mix);
        for _ in 0..run.transactions {
            self.kill_giver(cx, &world.plan);
            let number = cx.random();
            // Where others fight for rows of its own, host 0 reads most of the time.
            let often = if run.duel.is_some() && cx.host().0 == 0 { 6 } else { 1 };
            if self.run.snapshots > 0 && number % 100 < self.run.snapshots * often {
                self.read_snapshot(cx, world, &mut session, number);
                continue;
            }
            let transaction = |txn: &mut _| {
                rows::transaction(cx, txn, run, &mix, number)?;
                self.linger(cx, &world.plan);
                Ok(())
            };
            let by_statements = self.run.statements > 0 && (number >> 32) % 100 < self.run.statements;
            let ended = match by_statements {
                true => statements::transaction(world, &mut session, run, number),
                false => world.attempt(&mut session, number as i64, transaction),
            };
            match ended {
                Ok(()) => {
                    self.follow(cx);
                    let ticket = session.ticket();
                    let waits = cx.random_below(4) == 0;
                    while waits && !engine.is_fenced() && !self.is_durable(&mut session, ticket) {
                        session.pause();
                    }
                }
                Err(TxnError::Conflict(_)) => session.back_off(3),
                Err(TxnError::SnapshotTooOld) if by_statements => session.back_off(3),
                Err(TxnError::Rollback | TxnError::OutOfMemory { .. }) => {}
                Err(TxnError::LogFull { .. }) if self.run.room.is_short() => {
                    world.refused.set(world.refused.get() + 1);
                    (0..50).for_each(|_| session.pause());
                }
                Err(TxnError::Fenced) => break,
                Err(other) => panic!("a transaction failed: {other}"),
            }
        }
        if self.run.statements > 0 {
            // That its last commit is over: who begins a statement waits for that, and some seeds' stores are
            // seen only behind a fence.
            cx.fence();
        }
    }
}
