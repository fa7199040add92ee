//! Statements of transactions on real memory, also behind a software cache that keeps what hosts do not
//! invalidate: what they see of others and of their own transaction, who may change what they have seen, and
//! sums by them beside transfers.

#![expect(clippy::disallowed_methods, reason = "hosts are threads")]

mod kit;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use liger_engine::db::{Host, JoinOptions, PodConfig};
use liger_engine::row::{Budget, RowSession};
use liger_engine::{
    Conflict, Key, KeyRange, NewRow, Row, RowMut, Session, TableId, Transaction, TxnError, table,
};
use liger_fabric::native::{HostMemory, NativeHost};
use liger_fabric::shadow::{ShadowConfig, ShadowHost};
use liger_fabric::{Fabric, HostId};

table! {
    /// Accounts of partitions.
    pub mod accounts: "accounts" {
        PART: SmallInt,
        ID: Int,
        AMOUNT: BigInt,
        NOTE: Text<150>,
    }
    primary key (PART, ID);
    partition by (PART);
}

const HOSTS: u8 = 2;
const WORKERS: u8 = 2;
const PARTS: i16 = 6;
/// Every other one is there at first.
const IDS: i32 = 600;
const AMOUNT: i64 = 100;
const SUM: i64 = AMOUNT * PARTS as i64 * (IDS as i64 / 2);

fn key((part, id): At) -> Key {
    Key::build().i16(part).i32(id).finish()
}

fn row((part, id): At, amount: i64) -> NewRow {
    let mut row = NewRow::new(accounts::ROW_LEN);
    row.set(accounts::PART, part).set(accounts::ID, id).set(accounts::AMOUNT, amount);
    row.set(accounts::NOTE, &note(amount));
    row
}

/// What an account says at its end, which is in another line than its amount.
fn note(amount: i64) -> String {
    format!("{amount:>140}")
}

fn set(row: &mut RowMut<'_>, amount: i64) {
    row.set(accounts::AMOUNT, amount);
    row.set(accounts::NOTE, &note(amount));
}

fn amount_of(row: Row<'_>) -> i64 {
    let amount = row.get(accounts::AMOUNT);
    assert_eq!(row.get(accounts::NOTE), note(amount), "a row is of one version");
    amount
}

/// Partition and number of an account.
type At = (i16, i32);
type Model = BTreeMap<At, i64>;

fn at_first() -> Model {
    let part = |part| (0..IDS).step_by(2).map(move |id| ((part, id), AMOUNT));
    (0..PARTS).flat_map(part).collect()
}

fn get<T: Transaction>(tx: &mut T, table: TableId, at: At) -> Result<Option<i64>, TxnError> {
    tx.get(table, &key(at), amount_of)
}

/// The first so many rows of a range.
fn seen<T: Transaction>(tx: &mut T, table: TableId, range: &KeyRange, most: usize) -> Vec<(At, i64)> {
    let mut rows = Vec::new();
    let scanned = tx.scan(table, range, |shown, row| {
        let at = (row.get(accounts::PART), row.get(accounts::ID));
        assert_eq!(*shown, key(at), "a row has its key");
        rows.push((at, amount_of(row)));
        if rows.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    scanned.expect("nobody is in the way");
    rows
}

fn everything() -> KeyRange {
    KeyRange { low: key((i16::MIN, i32::MIN)), high: None }
}

/// What another session, of the other host, is to do.
#[derive(Clone, Copy)]
enum Job {
    Set(At, i64),
    Insert(At, i64),
    Delete(At),
    /// Changes an account and does not commit.
    Hold(At),
    RollBack,
}

struct Other {
    jobs: Sender<Job>,
    done: Receiver<Result<(), TxnError>>,
}

impl Other {
    /// Has it do that, and answers it meanwhile.
    fn tries<F: Fabric>(&self, session: &mut RowSession<'_, F>, job: Job) -> Result<(), TxnError> {
        self.jobs.send(job).expect("it is there");
        loop {
            match self.done.try_recv() {
                Ok(done) => return done,
                Err(TryRecvError::Empty) => session.pause(),
                Err(TryRecvError::Disconnected) => panic!("it has panicked"),
            }
        }
    }

    fn does<F: Fabric>(&self, session: &mut RowSession<'_, F>, job: Job) {
        assert_eq!(self.tries(session, job), Ok(()));
    }
}

fn do_job<F: Fabric>(session: &mut RowSession<'_, F>, table: TableId, job: Job) -> Result<(), TxnError> {
    match job {
        Job::Set(at, amount) => session.attempt(|tx| {
            let there = tx.update(table, &key(at), |row| set(row, amount))?;
            there.ok_or(TxnError::Rollback)
        }),
        Job::Insert(at, amount) => session.attempt(|tx| tx.insert(table, &row(at, amount))),
        Job::Delete(at) => session.attempt(|tx| tx.delete(table, &key(at)).map(|there| assert!(there))),
        Job::Hold(at) => {
            session.begin()?;
            let held = session.opened().update(table, &key(at), |row| set(row, -1));
            held.map(|there| there.expect("it is there"))
        }
        Job::RollBack => {
            session.roll_back();
            Ok(())
        }
    }
}

trait Case {
    fn run<F: Fabric>(&self, session: &mut RowSession<'_, F>, table: TableId, other: &Other);
}

/// Two hosts with all accounts, each through what `through` makes of its memory.
fn filled<M: HostMemory + Sync>(
    opened: &kit::Opened,
    through: impl Fn(NativeHost) -> M,
) -> (TableId, Vec<Host<M>>) {
    let table = opened.pod.catalog().table_named("accounts").expect("declared above");
    let hosts = (0..HOSTS).map(|host| {
        let mut options = JoinOptions::new(opened.pod.plan());
        options.engine.budget = Budget { hwcc_bytes: u64::MAX, cxl_bytes: 1 << 20 };
        options.storage = Some(opened.data.hold(&opened.pod.control(), HostId(host)).expect("its own"));
        opened.pod.join_through(HostId(host), options, &through).expect("a sound memory")
    });
    let mut hosts: Vec<_> = hosts.collect();
    for host in &mut hosts {
        let mut rows = at_first().into_iter();
        let filled = host.load(|put| rows.try_for_each(|(at, amount)| put.put(table, &row(at, amount))));
        filled.expect("there is room");
    }
    (table, hosts)
}

fn pod(name: &str) -> kit::Opened {
    let config = PodConfig { partitions: PARTS as u16, ..PodConfig::new(HOSTS, WORKERS, 4 << 20, 64 << 20) };
    kit::opened(name, &config, accounts::schema())
}

/// Runs a case in a session of host 0, beside one of host 1.
fn run_on<M: HostMemory + Sync>(name: &str, case: &impl Case, through: impl Fn(NativeHost) -> M) {
    let opened = pod(name);
    let (table, mut hosts) = filled(&opened, through);
    let [first, second] = &mut hosts[..] else { panic!("two hosts") };
    let (jobs, to_do) = channel();
    let (tell, done) = channel();
    let other = Other { jobs, done };
    thread::scope(|scope| {
        let beside = scope.spawn(move || second.alone(|session| work_beside(session, table, &to_do, &tell)));
        first.alone(move |session| {
            case.run(session, table, &other);
            assert_eq!(session.host().open_snapshots(session.cx()), (0, None), "each statement has ended");
        });
        beside.join().expect("nobody panicked");
    });
}

fn work_beside<F: Fabric>(
    session: &mut RowSession<'_, F>,
    table: TableId,
    to_do: &Receiver<Job>,
    tell: &Sender<Result<(), TxnError>>,
) {
    loop {
        match to_do.try_recv() {
            Ok(job) => tell.send(do_job(session, table, job)).expect("somebody waits"),
            Err(TryRecvError::Empty) => drop(session.serve()),
            Err(TryRecvError::Disconnected) => return,
        }
    }
}

fn on_both_memories(name: &str, case: &impl Case) {
    run_on(name, case, |host| host);
    run_on(&format!("{name}-shadow"), case, |host| ShadowHost::over(host, ShadowConfig::new(7)));
}

fn begin_statement<F: Fabric>(session: &mut RowSession<'_, F>) {
    session.begin_statement_while(|| true).expect("nobody is in the way");
    session.opened().set_reads_statement(true);
}

/// Compares all that a statement can see with what it should.
fn compare<T: Transaction>(tx: &mut T, table: TableId, due: &Model) {
    let all: Vec<(At, i64)> = due.iter().map(|(at, amount)| (*at, *amount)).collect();
    assert_eq!(seen(tx, table, &everything(), usize::MAX), all);
    for part in 0..PARTS {
        let range = KeyRange::prefix(Key::build().i16(part), 1);
        let its: Vec<_> = all.iter().copied().filter(|((of, _), _)| *of == part).collect();
        assert_eq!(seen(tx, table, &range, usize::MAX), its);
        for most in [1, 2, 3, 64, 127, 128, 129, 200, 251] {
            assert_eq!(seen(tx, table, &range, most), its[..its.len().min(most)], "the first {most}");
        }
        for low in (0..IDS).step_by(97) {
            let range = KeyRange::between(key((part, low)), key((part, low + 100)));
            let its: Vec<_> = its.iter().copied().filter(|(at, _)| range.contains(&key(*at))).collect();
            assert_eq!(seen(tx, table, &range, usize::MAX), its, "from {low} on");
        }
        for id in (i32::from(part)..IDS).step_by(11) {
            assert_eq!(get(tx, table, (part, id)), Ok(due.get(&(part, id)).copied()), "{part} {id}");
        }
    }
}

/// Changes rows of all partitions in every way; what there is then.
fn change_everything<T: Transaction>(tx: &mut T, table: TableId) -> Result<Model, TxnError> {
    let mut due = at_first();
    for at in (0..PARTS).flat_map(|part| (0..IDS).map(move |id| (part, id))) {
        let id = at.1;
        if id % 2 == 0 && id % 3 > 0 {
            let amount = i64::from(id);
            tx.update(table, &key(at), |row| set(row, amount))?.expect("it was there");
            due.insert(at, amount);
        }
        if id % 10 == 0 {
            assert!(tx.delete(table, &key(at))?, "it was there");
            due.remove(&at);
        }
        if id % 7 == 0 && id % 2 == 1 || id % 40 == 0 {
            tx.insert(table, &row(at, 7))?;
            due.insert(at, 7);
        }
        if id % 21 == 0 && id % 2 == 1 {
            assert!(tx.delete(table, &key(at))?, "it was made");
            due.remove(&at);
        }
        if id % 14 == 7 && id % 5 == 0 && due.contains_key(&at) {
            tx.update(table, &key(at), |row| set(row, 8))?.expect("it was made");
            due.insert(at, 8);
        }
    }
    Ok(due)
}

struct OwnChanges;

impl Case for OwnChanges {
    fn run<F: Fabric>(&self, session: &mut RowSession<'_, F>, table: TableId, _: &Other) {
        for commits in [false, true] {
            session.begin().expect("a member");
            begin_statement(session);
            compare(session.opened(), table, &at_first());
            // Whether what is read is the statement's makes no difference to who changes it.
            session.opened().set_reads_statement(commits);
            let due = change_everything(session.opened(), table).expect("nobody is in the way");
            session.opened().set_reads_statement(true);
            compare(session.opened(), table, &due);
            session.end_statement();
            begin_statement(session);
            compare(session.opened(), table, &due);
            if commits {
                // The statement ends with its transaction.
                session.commit().expect("nobody is in the way");
                session.begin_snapshot().expect("nobody is in the way");
                compare(session.opened(), table, &due);
                session.roll_back();
            } else {
                session.roll_back();
            }
            assert_eq!(session.host().open_snapshots(session.cx()), (0, None));
        }
    }
}

#[test]
fn statements_see_what_their_transaction_has_changed() {
    on_both_memories("statements-own", &OwnChanges);
}

const BOTH: [i16; 2] = [0, 1]; // A partition of each host.

struct OthersChanges;

impl Case for OthersChanges {
    fn run<F: Fabric>(&self, session: &mut RowSession<'_, F>, table: TableId, other: &Other) {
        for part in BOTH {
            let [changed, gone, new, still] = [(part, 2), (part, 4), (part, 5), (part, 6)];
            session.begin().expect("a member");
            begin_statement(session);
            let all = seen(session.opened(), table, &everything(), usize::MAX);
            other.does(session, Job::Set(changed, 1));
            other.does(session, Job::Delete(gone));
            other.does(session, Job::Insert(new, 2));
            let tx = session.opened();
            assert_eq!(seen(tx, table, &everything(), usize::MAX), all);
            assert_eq!(get(tx, table, changed), Ok(Some(AMOUNT)));
            assert_eq!(get(tx, table, gone), Ok(Some(AMOUNT)));
            assert_eq!(get(tx, table, new), Ok(None));
            // Who changes rows, and who reads and does not ask, is shown the newest version.
            assert_eq!(tx.update(table, &key(changed), |row| add(row, 10)), Ok(Some(())));
            assert_eq!(tx.update(table, &key(gone), |_| ()), Ok(None));
            let refused = tx.insert(table, &row(new, 3));
            assert_eq!(refused, Err(TxnError::DuplicateKey { index: table }));
            tx.set_reads_statement(false);
            assert_eq!(get(tx, table, new), Ok(Some(2)));
            tx.set_reads_statement(true);
            assert_eq!(get(tx, table, new), Ok(None), "locked, and not changed");
            assert_eq!(get(tx, table, changed), Ok(Some(11)), "changed");
            assert_eq!(get(tx, table, gone), Ok(Some(AMOUNT)));
            session.end_statement();
            other.does(session, Job::Set(still, 5));
            begin_statement(session);
            let tx = session.opened();
            let now = [changed, gone, new, still].map(|at| get(tx, table, at).expect("nobody is in the way"));
            assert_eq!(now, [Some(11), None, Some(2), Some(5)]);
            session.end_statement();
            session.commit().expect("nobody is in the way");
        }
    }
}

#[test]
fn statements_see_others_up_to_when_they_began() {
    on_both_memories("statements-others", &OthersChanges);
}

struct FirstUpdater;

const REFUSED: TxnError = TxnError::Conflict(Conflict::Validation);

impl FirstUpdater {
    fn begin<F: Fabric>(session: &mut RowSession<'_, F>) {
        session.begin().expect("a member");
        begin_statement(session);
        session.first_updater_wins();
    }
}

impl Case for FirstUpdater {
    fn run<F: Fabric>(&self, session: &mut RowSession<'_, F>, table: TableId, other: &Other) {
        for part in BOTH {
            let [changed, still, new, gone, renewed] =
                [(part, 2), (part, 4), (part, 5), (part, 6), (part, 8)];
            for way in 0..5 {
                Self::begin(session);
                other.does(session, Job::Set(changed, way));
                let tx = session.opened();
                let ended = match way {
                    0 => tx.update(table, &key(changed), |row| set(row, -1)).map(drop),
                    1 => tx.delete(table, &key(changed)).map(drop),
                    2 => {
                        let range = KeyRange::prefix(Key::build().i16(part), 1);
                        tx.update_range(table, &range, |_, _| ControlFlow::Continue(()))
                    }
                    3 => {
                        tx.set_reads_statement(false);
                        assert_eq!(get(tx, table, changed), Ok(Some(way)), "to read it is no harm");
                        tx.update(table, &key(changed), |row| set(row, -1)).map(drop)
                    }
                    _ => {
                        let mut see = |row: &mut RowMut<'_>| set(row, -1);
                        tx.take_if_free(table, &key(changed), &mut see).map(drop)
                    }
                };
                assert_eq!(ended, Err(REFUSED), "way {way}");
                session.roll_back();
                other.does(session, Job::Set(changed, way));
            }
            Self::begin(session);
            other.does(session, Job::Delete(gone));
            other.does(session, Job::Delete(renewed));
            other.does(session, Job::Insert(renewed, 1));
            let tx = session.opened();
            for amount in 0..3 {
                let updated = tx.update(table, &key(still), |row| set(row, amount));
                assert_eq!(updated, Ok(Some(())), "nobody has changed it, but this transaction");
            }
            tx.insert(table, &row(new, 1)).expect("there is none");
            assert_eq!(tx.update(table, &key(new), |row| set(row, 2)), Ok(Some(())), "it has made it itself");
            assert_eq!(tx.delete(table, &key(still)), Ok(true));
            tx.insert(table, &row(still, 4)).expect("it has removed it itself");
            assert_eq!(tx.update(table, &key(still), |row| set(row, 5)), Ok(Some(())));
            // That it has gone who has seen it finds out by that.
            assert_eq!(get(tx, table, gone), Ok(Some(AMOUNT)));
            assert_eq!(tx.update(table, &key(gone), |_| ()), Ok(None));
            assert_eq!(tx.update(table, &key(renewed), |_| ()), Err(REFUSED));
            tx.forgive();
            let mine = [still, new].map(|at| get(tx, table, at));
            assert_eq!(mine, [Ok(Some(5)), Ok(Some(2))]);
            session.commit().expect("what it has changed nobody else has");
            // The next transaction has not asked for it.
            session.begin().expect("a member");
            begin_statement(session);
            other.does(session, Job::Set(changed, 1));
            assert_eq!(session.opened().update(table, &key(changed), |row| set(row, 2)), Ok(Some(())));
            session.commit().expect("nobody is in the way");
        }
    }
}

#[test]
fn the_first_updater_wins_if_asked_for() {
    on_both_memories("statements-first", &FirstUpdater);
}

fn glance<F: Fabric>(session: &mut RowSession<'_, F>, table: TableId, at: At) -> Option<Option<i64>> {
    let mut amount = 0;
    let mut see = |bytes: &[u8]| amount = amount_of(Row::new(bytes));
    let found = session.opened().glance(table, &key(at), &mut see);
    found.expect("nobody comes or goes").map(|found| found.then_some(amount))
}

struct Glances;

impl Case for Glances {
    fn run<F: Fabric>(&self, session: &mut RowSession<'_, F>, table: TableId, other: &Other) {
        for part in BOTH {
            let [seen, mine, new, gone, held] = [(part, 2), (part, 4), (part, 5), (part, 6), (part, 8)];
            session.begin().expect("a member");
            assert_eq!(glance(session, table, seen), Some(Some(AMOUNT)));
            // Nothing is held: the other one changes it, makes it, removes it.
            for amount in 0..3 {
                other.does(session, Job::Set(seen, amount));
                assert_eq!(glance(session, table, seen), Some(Some(amount)));
            }
            assert_eq!(glance(session, table, new), Some(None));
            other.does(session, Job::Insert(new, 1));
            assert_eq!(glance(session, table, new), Some(Some(1)));
            other.does(session, Job::Delete(new));
            // Its owner may have to remove it first.
            while glance(session, table, new).is_none() {
                session.pause();
            }
            assert_eq!(glance(session, table, new), Some(None));
            other.does(session, Job::Hold(held));
            assert_eq!(glance(session, table, held), None, "somebody is changing it");
            other.does(session, Job::RollBack);
            assert_eq!(glance(session, table, held), Some(Some(AMOUNT)));
            // What it has changed itself it sees so, and holds on.
            let tx = session.opened();
            tx.update(table, &key(mine), |row| set(row, 7)).expect("nobody is in the way");
            tx.delete(table, &key(gone)).expect("nobody is in the way");
            tx.insert(table, &row(new, 8)).expect("nobody is in the way");
            let now = [mine, gone, new].map(|at| glance(session, table, at));
            assert_eq!(now, [Some(Some(7)), Some(None), Some(Some(8))]);
            for at in [mine, gone] {
                assert!(
                    matches!(other.tries(session, Job::Set(at, 1)), Err(TxnError::Conflict(_))),
                    "it is held on"
                );
            }
            // So is what it has locked before.
            assert_eq!(get(session.opened(), table, held), Ok(Some(AMOUNT)));
            assert_eq!(glance(session, table, held), Some(Some(AMOUNT)));
            assert!(
                matches!(other.tries(session, Job::Set(held, 1)), Err(TxnError::Conflict(_))),
                "it is held on"
            );
            session.commit().expect("nobody is in the way");
            other.does(session, Job::Set(held, AMOUNT));
        }
    }
}

#[test]
fn glances_hold_nothing() {
    on_both_memories("statements-glances", &Glances);
}

/// The number of accounts and what they have, as of a new statement.
fn sum<F: Fabric>(session: &mut RowSession<'_, F>, table: TableId) -> Result<(i64, i64), TxnError> {
    session.begin_statement_while(|| true)?;
    let tx = session.opened();
    tx.set_reads_statement(true);
    let (mut count, mut sum) = (0, 0);
    tx.scan(table, &everything(), |_, row| {
        (count, sum) = (count + 1, sum + amount_of(row));
        ControlFlow::Continue(())
    })?;
    session.end_statement();
    Ok((count, sum))
}

/// A transaction of three statements: all accounts, a transfer, and all accounts again.
fn transfer<F: Fabric>(session: &mut RowSession<'_, F>, table: TableId, all: i64) -> Result<(), TxnError> {
    let pick = session.cx().random();
    let place = |pick: u64| ((pick % PARTS as u64) as i16, 2 * ((pick >> 8) as i32 & 0xff) % FEW);
    let (from, to) = (place(pick), place(pick >> 32));
    assert_eq!(sum(session, table)?, (all, all * AMOUNT));
    if from != to {
        let tx = session.opened();
        if from.1 % 3 == 0 {
            let left = get(tx, table, from)?.expect("accounts stay");
            assert!(tx.delete(table, &key(from))?, "it is locked");
            tx.insert(table, &row(from, left - 1))?;
        } else {
            tx.update(table, &key(from), |row| add(row, -1))?.expect("accounts stay");
        }
        tx.update(table, &key(to), |row| add(row, 1))?.expect("accounts stay");
        assert_eq!(sum(session, table)?, (all, all * AMOUNT));
    }
    Ok(())
}

fn add(row: &mut RowMut<'_>, more: i64) {
    let amount = row.get(accounts::AMOUNT) + more;
    set(row, amount);
}

/// Accounts of each partition that have numbers below this are fought for.
const FEW: i32 = 40;

/// Runs two hosts whose workers all do the same, each through what `through` makes of its memory.
fn transfers<M: HostMemory + Sync>(name: &str, through: impl Fn(NativeHost) -> M) {
    let opened = pod(name);
    let (table, mut hosts) = filled(&opened, through);
    let done = AtomicU64::new(0);
    let all = SUM / AMOUNT;
    let work = |session: &mut RowSession<'_, M::View>, started: Instant| {
        while started.elapsed() < Duration::from_secs(3) {
            session.begin().expect("a member");
            match transfer(session, table, all) {
                Ok(()) => {
                    session.commit().expect("nobody is in the way");
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Err(TxnError::Conflict(_)) => {
                    session.roll_back();
                    session.back_off(3);
                }
                Err(other) => panic!("{other}"),
            }
        }
    };
    let started = Instant::now();
    thread::scope(|scope| {
        for host in &mut hosts {
            scope.spawn(|| {
                let ended = host.run(WORKERS, |session| work(session, started));
                ended.into_iter().for_each(|worker| worker.expect("no worker panicked"));
            });
        }
    });
    let done = done.into_inner();
    assert!(done > 20, "{done}");
    for host in &mut hosts {
        host.alone(|session| {
            assert_eq!(session.host().open_snapshots(session.cx()), (0, None));
            session.begin().expect("a member");
            assert_eq!(sum(session, table), Ok((all, SUM)));
            session.commit().expect("nobody is in the way");
        });
    }
}

#[test]
fn sums_by_statements_are_exact_beside_transfers() {
    transfers("statements-sums", |host| host);
}

#[test]
fn sums_by_statements_are_exact_on_memory_that_is_not_coherent() {
    transfers("statements-sums-shadow", |host| ShadowHost::over(host, ShadowConfig::new(7)));
}
