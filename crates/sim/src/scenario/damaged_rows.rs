//! A bit flips in the block of a shared row: whoever copies it to DRAM, moves it out, resolves a dead host's
//! lock on it or looks at it in passing finds that, and nobody is shown it. What its owner's DRAM still has
//! is made good.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use liger_engine::method::{Dead, Serves};
use liger_engine::row::{RowHost, RowSession};
use liger_engine::{Catalog, Loader, Session, Transaction, TxnError};
use liger_fabric::sim::{CrashDomain, Sim};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::membership::Slot;
use liger_pod::plan::{PartitionId, Plan, PodConfig};

use super::{LeftOut, Ran, Scenario};
use crate::pod::{PodSetup, SimPod};
use crate::rows::{ITEMS, item_key, items, new_row, set_value};

/// Damage, and who finds it.
pub const SCENARIOS: &[Scenario] = &[Scenario { name: "damaged-rows", run: damaged }];

/// The part of the table that host 0 owns.
const PART: i16 = 0;
const PARTITION: PartitionId = PartitionId(PART as u16);
/// The row that host 1 has changed, so that its newest version is in shared memory alone; one that host 1 has
/// read, and one that nothing happens to.
const CHANGED: i32 = 0;
const READ: i32 = 1;
const OTHER: i32 = 2;
/// What rows have at first, and what host 1 writes.
const OLD: i64 = 100;
const NEW: i64 = 200;
/// Turns of housekeeping after which what was to be found counts as missed.
const TURNS: u32 = 2_000;

/// Who finds the damage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Finder {
    /// Nobody in particular: the owner's housekeeping.
    Scrub,
    /// A transaction of the owner.
    Reader,
    /// The owner, which moves rows out.
    MoveOut,
    /// The owner, which takes a dead host's lock off the row.
    Resolver,
}

/// How far the hosts are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
enum Stage {
    #[default]
    Changing,
    Damaging,
    Dying,
    Reading,
    Done,
}

#[derive(Default)]
struct Run {
    stage: Cell<Stage>,
    problem: Cell<Option<String>>,
}

impl Run {
    /// What a reader of the row must be told, and what it was told.
    fn expect(&self, what: &str, found: Result<Option<i64>, TxnError>, expected: Option<i64>) {
        let is_right = match (&found, expected) {
            (Ok(found), Some(_)) => *found == expected,
            (Err(TxnError::Damaged { table, .. }), None) => *table == ITEMS,
            _ => false,
        };
        if !is_right {
            self.fail(format!("{what}: {found:?}, expected {expected:?}"));
        }
    }

    fn fail(&self, problem: String) {
        self.problem.set(self.problem.take().or(Some(problem)));
    }
}

fn damaged(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let finder = [Finder::Scrub, Finder::Reader, Finder::MoveOut, Finder::Resolver][seed as usize % 4];
    let catalog = Arc::new(Catalog::new(&[items::schema()]).expect("a valid schema"));
    let hosts = if finder == Finder::Resolver { 3 } else { 2 };
    let setup = PodSetup::new(PodConfig::small(hosts, 1), catalog);
    let built = SimPod::new(&setup, |plan| super::config(plan, seed, true, left_out));
    let mut pod = built.expect("an empty pod has room");
    pod.on_every_host(|cx, host| {
        let mut loader = Loader::new(host);
        (CHANGED..=OTHER).for_each(|id| loader.put(cx, ITEMS, &new_row(PART, id, OLD)).expect("room"));
    });
    let run = Rc::<Run>::default();
    let plan = pod.plan.clone();
    let (owner, its) = (Rc::clone(&pod.hosts[0]), Rc::clone(&run));
    pod.sim.spawn(HostId(0), WorkerId(0), move |cx| own(cx, &plan, &owner, (&its, finder)));
    let (other, its) = (Rc::clone(&pod.hosts[1]), Rc::clone(&run));
    pod.sim.spawn(HostId(1), WorkerId(0), move |cx| use_rows(cx, &other, (&its, finder)));
    if let Some(third) = pod.hosts.get(2) {
        let (third, its) = (Rc::clone(third), Rc::clone(&run));
        pod.sim.spawn(HostId(2), WorkerId(0), move |cx| watch(cx, &third, &its));
    }
    let report = pod.sim.run();
    Ran::new(report, || run.problem.take().map_or(Ok(()), Err))
}

fn read(session: &mut RowSession<'_, Sim>, id: i32) -> Result<Option<i64>, TxnError> {
    session.transact(|txn| txn.get(ITEMS, &item_key(PART, id), |row| row.get(items::VALUE)))
}

/// Serves, or does nothing, until the run has come so far.
fn wait(session: &mut RowSession<'_, Sim>, cx: &Cx<Sim>, run: &Run, stage: Stage) {
    while run.stage.get() < stage {
        session.serve();
        cx.pause();
    }
}

/// Flips a bit of a row's block that counts: one of those that say what becomes of it, or any.
fn flip(cx: &Cx<Sim>, host: &RowHost, id: i32, of_version: bool) {
    let block = host.rows().block_of(cx, (PARTITION, ITEMS), &item_key(PART, id));
    let (block, len) = block.expect("host 1 has used it");
    let bit = if of_version { 62 + cx.random_below(2) } else { cx.random_below(8 * len as u64) };
    let mut byte = [0];
    let at = block.byte(bit / 8);
    cx.refresh(at, &mut byte);
    byte[0] ^= 1 << (bit % 8);
    cx.publish(at, &byte);
}

/// Host 0.
fn own(cx: &Cx<Sim>, plan: &Plan, host: &RowHost, (run, finder): (&Run, Finder)) {
    let mut session = RowSession::new(cx, host);
    wait(&mut session, cx, run, Stage::Damaging);
    flip(cx, host, CHANGED, finder == Finder::Resolver && cx.random_below(2) == 0);
    match finder {
        Finder::Scrub => flip(cx, host, READ, false),
        Finder::Reader => run.expect("the owner reads at once", read(&mut session, CHANGED), None),
        Finder::MoveOut => {
            flip(cx, host, READ, false);
            host.rows().move_out_some(cx, 10);
            let stays = |id| host.rows().block_of(cx, (PARTITION, ITEMS), &item_key(PART, id)).is_some();
            if !stays(CHANGED) || stays(READ) {
                run.fail("moved out: a damaged row, or not one that DRAM has".to_owned());
            }
        }
        Finder::Resolver => {
            run.stage.set(Stage::Dying);
            let slot = Slot::load(cx, plan, HostId(1)).expect("a member");
            wait(&mut session, cx, run, Stage::Reading);
            let resolved = host.rows().resolve(cx, &Dead::without_log(slot), PARTITION, true, &mut || ());
            resolved.unwrap_or_else(|why| run.fail(format!("resolving: {why}")));
        }
    }
    let moves = host.rows().moves();
    let read_of = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let (expected, healed) = if finder == Finder::Scrub { (2, 1) } else { (1, 0) };
    let mut turns = 0;
    // What is found is refused by housekeeping, a moment later.
    while turns < TURNS && (read_of(&moves.rows_damaged), read_of(&moves.rows_healed)) != (expected, healed)
        || turns < TURNS / 10
    {
        session.serve();
        session.pause();
        turns += 1;
    }
    if turns == TURNS {
        let found = (read_of(&moves.rows_damaged), read_of(&moves.rows_healed));
        run.fail(format!("{found:?} damaged and healed, expected {:?}", (expected, healed)));
    }
    if host.faults(cx).len() != 1 {
        run.fail(format!("faults: {:?}", host.faults(cx)));
    }
    run.expect("the owner reads what host 1 changed", read(&mut session, CHANGED), None);
    run.expect("the owner reads what host 1 read", read(&mut session, READ), Some(OLD));
    run.expect("the owner reads another row", read(&mut session, OTHER), Some(OLD));
    run.stage.set(if finder == Finder::Resolver { Stage::Done } else { Stage::Reading });
    wait(&mut session, cx, run, Stage::Done);
}

/// Host 2, which wants the row all the time while a dead host's lock on it is resolved.
fn watch(cx: &Cx<Sim>, host: &RowHost, run: &Run) {
    let mut session = RowSession::new(cx, host);
    wait(&mut session, cx, run, Stage::Damaging);
    while run.stage.get() < Stage::Done {
        match read(&mut session, CHANGED) {
            Err(TxnError::Conflict(_)) => {}
            found => run.expect("host 2 reads what host 1 was changing", found, None),
        }
        session.pause();
    }
}

/// Host 1.
fn use_rows(cx: &Cx<Sim>, host: &RowHost, (run, finder): (&Run, Finder)) {
    let mut session = RowSession::new(cx, host);
    run.expect("host 1 reads", read(&mut session, READ), Some(OLD));
    let change = |row: &mut liger_engine::RowMut<'_>| set_value(row, NEW);
    let mut changed = session.transact(|txn| txn.update(ITEMS, &item_key(PART, CHANGED), change));
    if finder == Finder::Resolver {
        changed = session.transact(|txn| {
            txn.update(ITEMS, &item_key(PART, CHANGED), change)?;
            run.stage.set(Stage::Damaging);
            while run.stage.get() < Stage::Dying {
                cx.pause();
            }
            run.stage.set(Stage::Reading);
            cx.fabric().kill_host(cx.host(), CrashDomain::Host);
            Ok(None)
        });
    }
    assert!(matches!(changed, Ok(Some(()))), "nobody is in the way: {changed:?}");
    run.stage.set(Stage::Damaging);
    wait(&mut session, cx, run, Stage::Reading);
    run.expect("host 1 reads what it changed", read(&mut session, CHANGED), None);
    let again = session.transact(|txn| txn.update(ITEMS, &item_key(PART, CHANGED), change));
    run.expect("host 1 changes it again", again.map(|_| None), None);
    run.expect("host 1 reads the other rows", read(&mut session, READ), Some(OLD));
    run.expect("host 1 reads the other rows", read(&mut session, OTHER), Some(OLD));
    run.stage.set(Stage::Done);
}
