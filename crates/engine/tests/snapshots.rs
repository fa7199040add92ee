//! Snapshots on real memory, also behind a software cache that keeps what hosts do not invalidate: two hosts
//! move amounts between accounts of both, and read sums as of one moment meanwhile.

#![expect(clippy::disallowed_methods, reason = "hosts are threads")]

mod kit;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use liger_engine::db::{Host, JoinOptions, PodConfig};
use liger_engine::log::LogState;
use liger_engine::row::{Budget, KeepLimits, RowSession};
use liger_engine::{Key, KeyRange, NewRow, RowMut, Session, TableId, Transaction, TxnError, table};
use liger_fabric::native::{HostMemory, NativeHost};
use liger_fabric::shadow::{ShadowConfig, ShadowHost};
use liger_fabric::{Fabric, HostId, WorkerId};

table! {
    /// Accounts by number.
    pub mod accounts: "accounts" {
        ID: Int,
        AMOUNT: BigInt,
        NOTE: Text<150>,
    }
    primary key (ID);
}

const HOSTS: u8 = 2;
const WORKERS: u8 = 2;
const ACCOUNTS: i32 = 400;
const SUM: i64 = 100 * ACCOUNTS as i64;

fn key(id: i32) -> Key {
    Key::build().i32(id).finish()
}

fn row(id: i32, amount: i64) -> NewRow {
    let mut row = NewRow::new(accounts::ROW_LEN);
    row.set(accounts::ID, id).set(accounts::AMOUNT, amount).set(accounts::NOTE, &note(amount));
    row
}

/// What an account says at its end, which is in another line than its amount.
fn note(amount: i64) -> String {
    format!("{amount:>140}")
}

fn change(row: &mut RowMut<'_>, by: i64) {
    let amount = row.get(accounts::AMOUNT) + by;
    row.set(accounts::AMOUNT, amount);
    row.set(accounts::NOTE, &note(amount));
}

/// Moves an amount; of an account that has all of it taken the row is made anew.
fn transfer<T: Transaction>(tx: &mut T, table: TableId, from: i32, to: i32) -> Result<(), TxnError> {
    if from == to {
        return Ok(());
    }
    let left = tx.get(table, &key(from), |row| row.get(accounts::AMOUNT))?.expect("accounts stay");
    if from % 7 == 0 {
        tx.delete(table, &key(from))?;
        tx.insert(table, &row(from, left - 1))?;
    } else {
        let there = tx.update(table, &key(from), |row| change(row, -1))?;
        assert!(there.is_some(), "accounts stay");
    }
    let there = tx.update(table, &key(to), |row| change(row, 1))?;
    assert!(there.is_some(), "accounts stay");
    Ok(())
}

/// How many accounts there are, and what they have.
fn sum<T: Transaction>(tx: &mut T, table: TableId) -> Result<(i32, i64), TxnError> {
    let (mut count, mut sum) = (0, 0);
    let all = KeyRange { low: key(i32::MIN), high: None };
    tx.scan(table, &all, |_, row| {
        let amount = row.get(accounts::AMOUNT);
        assert_eq!(row.get(accounts::NOTE), note(amount), "a row is of one version");
        (count, sum) = (count + 1, sum + amount);
        ControlFlow::Continue(())
    })?;
    Ok((count, sum))
}

/// Transfers until it is over; how many.
fn move_amounts<F: Fabric>(session: &mut RowSession<'_, F>, table: TableId, over: &AtomicBool) -> u64 {
    let mut done = 0;
    while !over.load(Ordering::Relaxed) {
        let pick = session.cx().random();
        let (from, to) = ((pick % ACCOUNTS as u64) as i32, (pick >> 32) as i32 % ACCOUNTS);
        match session.transact(|tx| transfer(tx, table, from, to.abs())) {
            Ok(()) => done += 1,
            Err(TxnError::Conflict(_)) => session.back_off(3),
            Err(other) => panic!("{other}"),
        }
    }
    done
}

/// What all workers know.
#[derive(Clone, Copy)]
struct Run<'a> {
    table: TableId,
    started: Instant,
    over: &'a AtomicBool,
    reads: &'a AtomicU64,
}

/// Worker 0 of a host moves amounts, the other one reads sums; how many transfers.
fn work<F: Fabric>(session: &mut RowSession<'_, F>, run: &Run<'_>) -> u64 {
    if session.cx().worker().0 == 0 {
        return move_amounts(session, run.table, run.over);
    }
    while run.started.elapsed() < Duration::from_secs(3) {
        let seen = session.read_snapshot(|tx| sum(tx, run.table));
        assert_eq!(seen.expect("nobody is in the way"), (ACCOUNTS, SUM));
        run.reads.fetch_add(1, Ordering::Relaxed);
    }
    run.over.store(true, Ordering::Relaxed);
    0
}

/// Two hosts with all accounts, each through what `through` makes of its memory.
fn filled<M: HostMemory + Sync>(
    opened: &kit::Opened,
    keep: Option<KeepLimits>,
    through: impl Fn(NativeHost) -> M,
) -> (TableId, Vec<Host<M>>) {
    let table = opened.pod.catalog().table_named("accounts").expect("declared above");
    let hosts = (0..HOSTS).map(|host| {
        let mut options = JoinOptions::new(opened.pod.plan());
        // A part of the rows: they come and go.
        options.engine.budget = Budget { hwcc_bytes: u64::MAX, cxl_bytes: 40 << 10 };
        options.engine.keep = keep.unwrap_or(options.engine.keep);
        options.storage = Some(opened.data.hold(&opened.pod.control(), HostId(host)).expect("its own"));
        opened.pod.join_through(HostId(host), options, &through).expect("a sound memory")
    });
    let mut hosts: Vec<_> = hosts.collect();
    for host in &mut hosts {
        let filled = host.load(|rows| (0..ACCOUNTS).try_for_each(|id| rows.put(table, &row(id, 100))));
        filled.expect("there is room");
    }
    (table, hosts)
}

fn pod(name: &str) -> kit::Opened {
    let config = PodConfig { partitions: 6, ..PodConfig::new(HOSTS, WORKERS, 4 << 20, 64 << 20) };
    kit::opened(name, &config, accounts::schema())
}

/// Runs two hosts, each through what `through` makes of its memory.
fn run<M: HostMemory + Sync>(name: &str, through: impl Fn(NativeHost) -> M) {
    let opened = pod(name);
    let (table, mut hosts) = filled(&opened, None, through);
    let (over, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    let moved = thread::scope(|scope| {
        let run = Run { table, started: Instant::now(), over: &over, reads: &reads };
        let running: Vec<_> = hosts
            .iter_mut()
            .map(|host| scope.spawn(move || host.run(WORKERS, |session| work(session, &run))))
            .collect();
        let ended = running.into_iter().flat_map(|host| host.join().expect("no host panicked"));
        ended.map(|worker| worker.expect("no worker panicked")).sum::<u64>()
    });
    let reads = reads.into_inner();
    assert!(moved > 200 && reads > 10, "{moved} transfers, {reads} sums");
    for host in &mut hosts {
        let refused = host.alone(|session| session.read_snapshot(|tx| tx.insert(table, &row(-1, 0))));
        assert_eq!(refused, Err(TxnError::ReadOnly { table }));
        let open = host.alone(|session| session.host().open_snapshots(session.cx()));
        assert_eq!(open, (0, None));
    }
}

#[test]
fn sums_as_of_a_moment_are_whole_and_nobody_is_in_the_way() {
    run("snapshots", |host| host);
}

#[test]
fn sums_are_whole_on_memory_that_is_not_coherent() {
    run("snapshots-shadow", |host| ShadowHost::over(host, ShadowConfig::new(7)));
}

#[test]
fn snapshots_follow_each_other_while_nobody_writes() {
    let opened = pod("snapshots-idle");
    let (table, mut hosts) = filled(&opened, None, |host| host);
    // An epoch has 4,096 moments.
    let read = hosts[0].alone(|session| {
        let amount = |session: &mut RowSession<'_, _>| {
            session.read_snapshot(|tx| tx.get(table, &key(0), |row| row.get(accounts::AMOUNT)))
        };
        (0..10_000).map(|_| amount(session)).filter(|amount| *amount == Ok(Some(100))).count()
    });
    assert_eq!(read, 10_000);
}

#[test]
fn whoever_waits_for_a_commit_can_be_stopped() {
    let opened = pod("snapshots-stopped");
    let (table, mut hosts) = filled(&opened, None, |host| host);
    // As if host 1 were in the middle of a commit.
    let (cx, word) = (opened.pod.control(), opened.pod.plan().ring_line(HostId(1), WorkerId(0)).word(2));
    let before = cx.load(word);
    cx.store(word, before + 1);
    let (stopped, turns) = hosts[0].alone(|session| {
        let mut turns = 0;
        let begun = session.begin_snapshot_while(|| {
            turns += 1;
            turns < 1000
        });
        (begun, turns)
    });
    assert_eq!((stopped, turns), (Err(TxnError::Rollback), 1000));
    cx.store(word, before);
    let seen = hosts[0].alone(|session| session.read_snapshot(|tx| sum(tx, table)));
    assert_eq!(seen, Ok((ACCOUNTS, SUM)));
    assert_eq!(hosts[0].alone(|session| session.host().open_snapshots(session.cx())), (0, None));
}

#[test]
fn without_logs_that_go_on_none_is_opened() {
    let opened = pod("snapshots-failed");
    let (table, mut hosts) = filled(&opened, None, |host| host);
    let state = opened.pod.plan().log_line(HostId(1)).word(1);
    opened.pod.control().store(state, LogState::Ended as u64);
    let begun =
        hosts[0].alone(|session| (session.host().has_snapshots(session.cx()), session.begin_snapshot()));
    assert_eq!(begun, (false, Err(TxnError::LogFailed)));
    opened.pod.control().store(state, LogState::Good as u64);
    let seen = hosts[0].alone(|session| session.read_snapshot(|tx| sum(tx, table)));
    assert_eq!(seen, Ok((ACCOUNTS, SUM)));
}

/// What a snapshot of host 0 has of all accounts that host 1 has overwritten meanwhile, and the next one.
fn sums_of_what_is_overwritten(name: &str, keep: impl FnOnce(KeepLimits) -> KeepLimits) -> [Seen; 2] {
    let opened = pod(name);
    let (table, mut hosts) = filled(&opened, Some(keep(KeepLimits::new(opened.pod.plan()))), |host| host);
    let (is_open, is_written, is_over) =
        (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
    let [reader, writer] = &mut hosts[..] else { panic!("two hosts") };
    let wait = |session: &mut RowSession<'_, _>, flag: &AtomicBool| {
        while !flag.load(Ordering::SeqCst) {
            session.serve();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let wrote = writer.run(1, |session| {
                wait(session, &is_open);
                for id in 0..ACCOUNTS {
                    let mut add = || session.transact(|tx| tx.update(table, &key(id), |row| change(row, 1)));
                    while let Err(error) = add() {
                        assert!(matches!(error, TxnError::Conflict(_)), "{error}");
                    }
                }
                is_written.store(true, Ordering::SeqCst);
                wait(session, &is_over);
            });
            wrote.into_iter().for_each(|worker| worker.expect("no worker panicked"));
        });
        let mut seen = reader.run(1, |session| {
            session.begin_snapshot().expect("nobody is in the way");
            assert_eq!(sum(session.opened(), table), Ok((ACCOUNTS, SUM)));
            is_open.store(true, Ordering::SeqCst);
            wait(session, &is_written);
            let before = sum(session.opened(), table);
            session.roll_back();
            let now = session.read_snapshot(|tx| sum(tx, table));
            is_over.store(true, Ordering::SeqCst);
            [before, now]
        });
        seen.pop().expect("one worker").expect("it has not panicked")
    })
}

type Seen = Result<(i32, i64), TxnError>;

#[test]
fn what_is_overwritten_is_kept_for_who_still_reads_it() {
    let now = Ok((ACCOUNTS, SUM + i64::from(ACCOUNTS)));
    let seen = sums_of_what_is_overwritten("snapshots-kept", |keep| keep);
    assert_eq!(seen, [Ok((ACCOUNTS, SUM)), now]);
    // The writer's own rows, and those of the reader's host, which it has overwritten in shared memory.
    let seen = sums_of_what_is_overwritten("snapshots-few", |keep| KeepLimits { dram_bytes: 1000, ..keep });
    assert_eq!(seen, [Err(TxnError::SnapshotTooOld), now]);
    let seen = sums_of_what_is_overwritten("snapshots-none", |keep| KeepLimits { cxl_bytes: 0, ..keep });
    assert_eq!(seen, [Err(TxnError::SnapshotTooOld), now]);
}
