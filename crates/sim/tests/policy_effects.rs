//! What each policy of the row engine does, seen from outside: verbs, moves, conflicts, refusals.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use liger_engine::Loader;
use liger_engine::row::policy::{Coherence, LockWait, Marks, MoveOut, MoveOutWhen, Policies, PreMigration};
use liger_engine::row::{RowHost, RowSession};
use liger_engine::{Catalog, Conflict, KeyRange, NewRow, Session, TableId, Transaction, TxnError, table};
use liger_fabric::sim::{Adversary, Mode, Sim, SimConfig};
use liger_fabric::{Counts, Cx, HostId, WorkerId};
use liger_pod::plan::{PodConfig, SUPERBLOCK_BYTES};
use liger_sim::pod::{PodSetup, SimPod};
use liger_sim::rows::{RowsRun, run};

table! {
    /// Rows of three lines in shared memory: head, key, and these bytes.
    mod rows: "rows" {
        PART: SmallInt,
        ID: Int,
        VALUE: BigInt,
        PAD: Text<120>,
    }
    primary key (PART, ID);
    partition by (PART);
}

const ROWS: TableId = TableId(0);
const LINES: u64 = 3;

fn row(part: i16, id: i32) -> NewRow {
    let mut row = NewRow::new(rows::ROW_LEN);
    row.set(rows::PART, part).set(rows::ID, id).set(rows::VALUE, 0).set(rows::PAD, "");
    row
}

fn key(id: i32) -> liger_engine::Key {
    liger_engine::Key::build().i16(0).i32(id).finish()
}

/// Three hosts with two workers each; the rows 0, 10, 20 and 30 of the first one's partition.
fn pod(policies: Policies, adversarial: bool) -> Result<SimPod, TxnError> {
    let catalog = Arc::new(Catalog::new(&[rows::schema()]).expect("a valid schema"));
    let setup = PodSetup { policies: vec![policies], ..PodSetup::new(PodConfig::small(3, 2), catalog) };
    let coherent_data = policies.coherence == Coherence::AllHwcc && !adversarial;
    let mut pod = SimPod::new(&setup, |plan| SimConfig {
        sync: Some(SUPERBLOCK_BYTES..plan.sync_end()),
        mode: Mode::Adversarial(Adversary { coherent_data, ..Adversary::default() }),
        ..SimConfig::adversarial(3, plan.len() as usize, 1)
    })?;
    pod.on_every_host(|cx, host| {
        let mut loader = Loader::new(host);
        (0..4).try_for_each(|id| loader.put(cx, ROWS, &row(0, 10 * id))).expect("there is room");
    });
    Ok(pod)
}

/// What one transaction of a host costs, that reads or changes row 10.
fn cost(pod: &mut SimPod, host: u8, writes: bool) -> Counts {
    let engine = Rc::clone(&pod.hosts[usize::from(host)]);
    pod.sim.alone(HostId(host), WorkerId(0), move |cx| {
        let mut session = RowSession::new(cx, &engine);
        let before = cx.counts();
        let done = session.attempt(|txn| match writes {
            true => txn.update(ROWS, &key(10), |row| row.set(rows::VALUE, 1)).map(|found| found.is_some()),
            false => txn.get(ROWS, &key(10), |_| ()).map(|found| found.is_some()),
        });
        assert!(done.expect("nobody else is there"), "the row is there");
        cx.counts().since(&before)
    })
}

/// A pod whose rows are shared and known to hosts 1 and 2, and read by both in this order.
fn shared(policies: &str) -> SimPod {
    let mut pod = pod(policies.parse().expect("known names"), false).expect("the memory suits");
    let moved =
        pod.on_every_host(|cx, host| host.share_before(cx, PreMigration::All, &[]).expect("there is room"));
    assert_eq!(moved, [4, 0, 0]);
    cost(&mut pod, 1, false);
    cost(&mut pod, 2, false);
    pod
}

#[test]
fn coherence_costs_invalidations() {
    let invalidated = |policy: &str| {
        let mut pod = shared(&format!("coherence={policy}"));
        let mut lines = |host, writes| cost(&mut pod, host, writes).lines_invalidated;
        // Host 1 was the first of two readers, host 2 the last; then host 2 writes, and host 1 reads twice.
        [lines(1, false), lines(2, false), lines(2, true), lines(1, false), lines(1, false)]
    };
    assert_eq!(invalidated("write-through"), [0, 0, 0, LINES, 0]);
    assert_eq!(invalidated("no-shared-reader"), [LINES, LINES, 0, LINES, 0]);
    assert_eq!(invalidated("always-bypass"), [LINES; 5]);
    assert_eq!(invalidated("all-hwcc"), [0; 5]);
    let written_back = |policy: &str| {
        let mut pod = shared(&format!("coherence={policy}"));
        [0, 1].map(|host| cost(&mut pod, host, true).lines_written_back)
    };
    for (name, policy) in Coherence::ALL {
        let lines = u64::from(policy.is_by_software());
        assert_eq!(written_back(name), [lines; 2], "{name}: head and value share a line");
    }
}

#[test]
fn the_default_costs_what_the_page_on_shared_rows_says() {
    let mut pod = shared("");
    let mut of = |host, writes| {
        let Counts { sync_swaps, fences, lines_invalidated, lines_written_back, bytes_read, .. } =
            cost(&mut pod, host, writes);
        [sync_swaps, fences, lines_invalidated, lines_written_back, u64::from(bytes_read > 0)]
    };
    assert_eq!(of(0, false), [2, 0, 0, 0, 0], "the owner reads its DRAM copy");
    assert_eq!(of(1, false), [2, 0, 0, 0, 1], "another host reads its cached copy");
    assert_eq!(
        of(0, true),
        [2, 1, 0, 1, 1],
        "the owner changes both copies, and the checksum by what that was before"
    );
    assert_eq!(of(1, true), [2, 3, LINES, 1, 1], "another host makes its copy fresh, and changes it");
    assert_eq!(of(0, false), [3, 1, LINES, 0, 1], "the owner copies the row back");
}

#[test]
fn rows_in_coherent_memory_need_such_memory_and_count_as_such() {
    let all = Policies { coherence: Coherence::AllHwcc, ..Policies::default() };
    let refused = pod(all, true).err().expect("this memory is not coherent");
    let why = "data lines of this memory are not kept coherent by hardware";
    assert_eq!(refused.to_string(), format!("coherence policy all-hwcc is not possible here: {why}"));
    let moves = |coherence| {
        let policies = vec![Policies { coherence, ..Policies::default() }];
        let result = run(&RowsRun { policies, budget_rows: 10_000, ..RowsRun::from_seed(3) });
        assert!(result.problems.is_empty(), "{:?}", result.problems);
        result.moves
    };
    assert!(moves(Coherence::WriteThrough).0 > 0 && moves(Coherence::AllHwcc).0 > 0);
}

#[test]
fn owners_remember_where_rows_are_and_whether_they_changed() {
    let owner = |policies: &str, after_change: bool| {
        let mut pod = shared(policies);
        if after_change {
            cost(&mut pod, 1, true);
        }
        cost(&mut pod, 0, false)
    };
    let (with, without) = (owner("", false), owner("shortcuts=off", false));
    assert!(without.sync_loads > with.sync_loads && without.fences > with.fences, "{without:?} {with:?}");
    assert_eq!((with.bytes_read, without.sync_swaps), (0, with.sync_swaps));
    let (with, without) = (owner("", false), owner("dirty-tracking=off", false));
    assert!(without.bytes_read >= 130 && with.bytes_read == 0, "{without:?} {with:?}");
    assert_eq!(owner("", true), owner("dirty-tracking=off", true), "a changed row is copied back anyway");
}

/// Runs of some seeds with these policies: moves in and out, and conflicts.
fn runs(policies: Policies, shape: impl Fn(RowsRun) -> RowsRun) -> ((u64, u64), u64) {
    (0..12).fold(((0, 0), 0), |(moves, conflicts), seed| {
        let result = run(&shape(RowsRun { policies: vec![policies], ..RowsRun::from_seed(seed) }));
        assert!(result.problems.is_empty(), "{policies} seed {seed}: {:?}", result.problems);
        ((moves.0 + result.moves.0, moves.1 + result.moves.1), conflicts + result.conflicts)
    })
}

#[test]
fn rows_leave_or_stay() {
    let few = |run| RowsRun { budget_rows: 1, ..run };
    for (name, move_out) in MoveOut::ALL {
        let ((moved_in, moved_out), _) = runs(Policies { move_out: *move_out, ..Policies::default() }, few);
        println!("{name}: {moved_in} in, {moved_out} out");
        assert_eq!(moved_out > 100, *move_out != MoveOut::None, "{name}: {moved_in} in, {moved_out} out");
    }
    let many = |run| RowsRun { budget_rows: 200, ..run };
    let marks = Marks { high_percent: 20, low_percent: 10 };
    let out = |move_out_when| runs(Policies { move_out_when, marks, ..Policies::default() }, many).0.1;
    let (on_demand, ahead) = (out(MoveOutWhen::OnDemand), out(MoveOutWhen::Background));
    assert!(on_demand == 0 && ahead > 0, "{on_demand} on demand, {ahead} ahead");
}

/// Two workers of a host, each of which holds what the other one wants, the older one begins: what came of
/// the younger one's try, and of the older one's, while the younger one still holds its row for a while.
fn cross(wait: LockWait) -> (Result<(), TxnError>, Result<(), TxnError>) {
    let mut pod = pod(Policies::default(), false).expect("the memory suits");
    let stage = Rc::new(Cell::new(0));
    let results = Rc::new((Cell::new(Ok(())), Cell::new(Ok(()))));
    let change = |session: &mut RowSession<'_, Sim>, id: i32| {
        session
            .opened()
            .update(ROWS, &key(id), |row| row.set(rows::VALUE, 2))
            .map(|found| assert!(found.is_some()))
    };
    let (engine, step, result) = (Rc::clone(&pod.hosts[0]), Rc::clone(&stage), Rc::clone(&results));
    pod.sim.spawn(HostId(0), WorkerId(1), move |cx| {
        let mut session = RowSession::new(cx, &engine);
        session.set_wait(Some(wait.policy()));
        session.begin().expect("it is a member");
        change(&mut session, 20).expect("nobody is in the way");
        step.set(1);
        while step.get() == 1 {
            cx.pause();
        }
        result.1.set(change(&mut session, 10));
        session.roll_back();
    });
    let (engine, result) = (Rc::clone(&pod.hosts[0]), Rc::clone(&results));
    pod.sim.spawn(HostId(0), WorkerId(0), move |cx| {
        let mut session = RowSession::new(cx, &engine);
        session.set_wait(Some(wait.policy()));
        while stage.get() == 0 {
            cx.pause();
        }
        session.begin().expect("it is a member");
        change(&mut session, 10).expect("nobody is in the way");
        result.0.set(change(&mut session, 20));
        stage.set(2);
        // Pauses in vain grow: all of these together are shorter than the older one waits.
        (0..4).for_each(|_| cx.pause());
        session.roll_back();
    });
    pod.sim.run().expect_completed();
    assert_eq!(pod.check(), Vec::<String>::new());
    (results.0.replace(Ok(())), results.1.replace(Ok(())))
}

#[test]
fn the_younger_transaction_dies_and_the_older_one_waits() {
    let conflict = Err(TxnError::Conflict(Conflict::WriteLocked));
    assert_eq!(cross(LockWait::NoWait), (conflict, conflict));
    assert_eq!(cross(LockWait::WaitDie), (conflict, Ok(())));
}

/// A worker of host `scanner` reads a range and holds it while a worker of its owner inserts into it.
fn insert_under_scan(scanner: u8, policies: Policies) -> Result<(), TxnError> {
    let mut pod = pod(policies, false).expect("the memory suits");
    let stage = Rc::new(Cell::new(0));
    let (engine, step) = (Rc::clone(&pod.hosts[usize::from(scanner)]), Rc::clone(&stage));
    pod.sim.spawn(HostId(scanner), WorkerId(1), move |cx| {
        let mut session = RowSession::new(cx, &engine);
        session.begin().expect("it is a member");
        let range = KeyRange::between(key(5), key(25));
        let mut seen = 0;
        let mut count = |_: &_, _: liger_engine::Row<'_>| {
            seen += 1;
            ControlFlow::Continue(())
        };
        session.opened().scan(ROWS, &range, &mut count).expect("nobody is in the way");
        let absent = session.opened().get(ROWS, &key(17), |_| ()).expect("nobody is in the way");
        assert_eq!((seen, absent), (2, None));
        step.set(1);
        while step.get() == 1 {
            cx.pause();
        }
        session.commit().expect("it has changed nothing");
    });
    let inserted = Rc::new(Cell::new(Ok(())));
    let (engine, result) = (Rc::clone(&pod.hosts[0]), Rc::clone(&inserted));
    pod.sim.spawn(HostId(0), WorkerId(0), move |cx| result.set(insert(cx, &engine, &stage)));
    pod.sim.run().expect_completed();
    assert_eq!(pod.check(), Vec::<String>::new());
    inserted.replace(Ok(()))
}

fn insert(cx: &Cx<Sim>, engine: &RowHost, stage: &Cell<i32>) -> Result<(), TxnError> {
    let mut session = RowSession::new(cx, engine);
    while stage.get() == 0 {
        session.serve();
        cx.pause();
    }
    let result = session.attempt(|txn| txn.insert(ROWS, &row(0, 17)));
    stage.set(2);
    result
}

#[test]
fn gaps_are_protected_only_by_next_key_locking() {
    for scanner in [0, 1] {
        let locked = insert_under_scan(scanner, Policies::default());
        assert!(matches!(locked, Err(TxnError::Conflict(_))), "{locked:?}");
        insert_under_scan(scanner, Policies { next_key_locking: false, ..Policies::default() })
            .expect("nobody protects the gap");
    }
}

#[test]
fn a_run_begins_with_the_tables_that_it_names() {
    for (which, moved) in
        [(PreMigration::None, 0), (PreMigration::NonPartitionable, 4), (PreMigration::All, 4)]
    {
        let mut pod = pod(Policies::default(), false).expect("the memory suits");
        let shared = pod.on_every_host(move |cx, host| host.share_before(cx, which, &[ROWS]));
        assert_eq!(shared.into_iter().sum::<Result<u64, TxnError>>(), Ok(moved), "{which}");
    }
}
