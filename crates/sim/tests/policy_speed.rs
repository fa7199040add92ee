//! What the row engine's policies cost in the timed pod: four hosts with two workers each, rows of 1 KB, ten
//! operations a transaction, half of the transactions on another host's rows. Modelled, by the profile
//! `tigon-osdi25`; the figures of one run: `cargo test -p liger-sim --test policy_speed -- --nocapture`.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use liger_engine::Loader;
use liger_engine::row::policy::{LockWait, Policies, PreMigration};
use liger_engine::row::{Budget, RowHost, RowSession};
use liger_engine::{Catalog, Key, NewRow, Session, TableId, Transaction, TxnError, table};
use liger_fabric::sim::{Profile, Sim, SimConfig};
use liger_fabric::{Cx, HostId, Work, WorkerId};
use liger_pod::plan::{PodConfig, SUPERBLOCK_BYTES};
use liger_sim::pod::{PodSetup, SimPod};

table! {
    /// Rows of about 1 KB.
    mod rows: "rows" {
        PART: SmallInt,
        ID: Int,
        VALUE: BigInt,
        PAD: Text<980>,
    }
    primary key (PART, ID);
    partition by (PART);
}

const ROWS: TableId = TableId(0);
const HOSTS: u8 = 4;
const WORKERS: u8 = 2;
const ROWS_PER_HOST: u64 = 600;
const VIRTUAL_NS: u64 = 8_000_000;

fn key(part: i16, id: i32) -> Key {
    Key::build().i16(part).i32(id).finish()
}

/// What to run.
#[derive(Clone, Copy)]
struct Run {
    policies: Policies,
    wait: LockWait,
    /// Of 100 operations, those that change their row.
    writes: u64,
    /// Rows are picked by the product of so many uniform numbers.
    skew: u32,
    /// Data memory that rows may use; `None`: all.
    budget_bytes: Option<u64>,
    shared_before: PreMigration,
}

fn of(policies: &str) -> Run {
    let policies = policies.parse().expect("known names");
    let (wait, shared_before) = (LockWait::NoWait, PreMigration::All);
    Run { policies, wait, writes: 5, skew: 2, budget_bytes: None, shared_before }
}

/// What came of it, in thousands a second of virtual time.
struct Rates {
    committed: f64,
    aborted: f64,
    moved_in: f64,
}

fn rates(run: Run, profile: &Arc<Profile>) -> Rates {
    let catalog = Arc::new(Catalog::new(&[rows::schema()]).expect("a valid schema"));
    let config = PodConfig { partitions: HOSTS.into(), ..PodConfig::new(HOSTS, WORKERS, 2 << 20, 32 << 20) };
    let budget = run.budget_bytes.map(|cxl_bytes| Budget { hwcc_bytes: 2 << 20, cxl_bytes });
    let (wait, policies) = (Some(run.wait.policy()), vec![run.policies]);
    let (remote_entries, node_entries) = (1 << 16, 1 << 12);
    let new = PodSetup::new(config, catalog);
    let setup = PodSetup { budget, wait, policies, remote_entries, node_entries, ..new };
    let mut pod = SimPod::new(&setup, |plan| SimConfig {
        sync: Some(SUPERBLOCK_BYTES..plan.sync_end()),
        ..SimConfig::timed(usize::from(HOSTS), plan.len() as usize, 1, Arc::clone(profile))
    })
    .expect("an empty pod has room");
    pod.on_every_host(move |cx, host| {
        let mut loader = Loader::new(host);
        for (part, id) in (0..i16::from(HOSTS)).flat_map(|part| (0..ROWS_PER_HOST).map(move |id| (part, id)))
        {
            let mut row = NewRow::new(rows::ROW_LEN);
            row.set(rows::PART, part).set(rows::ID, id as i32).set(rows::VALUE, 0).set(rows::PAD, "");
            loader.put(cx, ROWS, &row).expect("there is room");
        }
        host.share_before(cx, run.shared_before, &[ROWS]).expect("there is room");
    });
    let tally = Rc::new(Tally::default());
    tally.running.set(u32::from(HOSTS) * u32::from(WORKERS));
    for (host, worker) in (0..HOSTS).flat_map(|host| (0..WORKERS).map(move |worker| (host, worker))) {
        let (engine, tally) = (Rc::clone(&pod.hosts[usize::from(host)]), Rc::clone(&tally));
        pod.sim.spawn(HostId(host), WorkerId(worker), move |cx| work(cx, &engine, run, &tally));
    }
    let report = pod.sim.run().expect_completed();
    let moved = |host: &Rc<RowHost>| host.rows().moves().moved_in.load(Ordering::Relaxed);
    let before = if run.shared_before == PreMigration::All { u64::from(HOSTS) * ROWS_PER_HOST } else { 0 };
    let moved_in = pod.hosts.iter().map(moved).sum::<u64>() - before;
    assert!(report.virtual_ns >= VIRTUAL_NS);
    let rate = |count: u64| count as f64 * 1e6 / VIRTUAL_NS as f64;
    Rates {
        committed: rate(tally.committed.get()),
        aborted: rate(tally.aborted.get()),
        moved_in: rate(moved_in),
    }
}

#[derive(Default)]
struct Tally {
    running: Cell<u32>,
    committed: Cell<u64>,
    aborted: Cell<u64>,
}

fn work(cx: &Cx<Sim>, host: &RowHost, run: Run, tally: &Tally) {
    let mut session = RowSession::new(cx, host);
    let (me, until) = (i16::from(cx.host().0), cx.now_ns() + VIRTUAL_NS);
    while cx.now_ns() < until {
        let crosses = cx.random_below(2) == 0;
        let other = (me + 1 + cx.random_below(u64::from(HOSTS) - 1) as i16) % i16::from(HOSTS);
        let part = if crosses { other } else { me };
        let operation = |_| {
            let place = |_| cx.random_below(ROWS_PER_HOST);
            let id = (0..run.skew).map(place).fold(ROWS_PER_HOST, |id, place| id * place / ROWS_PER_HOST);
            (id, cx.random_below(100) < run.writes)
        };
        let operations: [(u64, bool); 10] = std::array::from_fn(operation);
        let mut conflicts = 0;
        loop {
            let ended = session.attempt(|txn| {
                operations.iter().try_for_each(|(id, writes)| {
                    cx.spend(Work::Call, 1);
                    let key = key(part, *id as i32);
                    match writes {
                        true => txn.update(ROWS, &key, |row| row.set(rows::VALUE, 1)).map(drop),
                        false => txn.get(ROWS, &key, |row| row.get(rows::VALUE)).map(drop),
                    }
                })
            });
            match ended {
                Ok(()) => break tally.committed.set(tally.committed.get() + 1),
                Err(TxnError::Conflict(_)) => {
                    tally.aborted.set(tally.aborted.get() + 1);
                    conflicts += 1;
                    session.back_off(conflicts);
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
    tally.running.set(tally.running.get() - 1);
    while tally.running.get() > 0 {
        session.serve();
        cx.pause();
    }
}

fn show(name: &str, Rates { committed, aborted, moved_in }: &Rates) {
    println!("{name:>52}: {committed:7.1} K commits/s {aborted:7.1} K aborts/s {moved_in:7.1} K moves/s");
}

fn built_in() -> Arc<Profile> {
    Arc::new(Profile::built_in("tigon-osdi25").expect("a built-in profile"))
}

#[test]
fn trusted_copies_and_what_owners_remember_pay() {
    let profile = built_in();
    let committed = |policies: &str| {
        let rates = rates(of(policies), &profile);
        show(if policies.is_empty() { "default" } else { policies }, &rates);
        rates.committed
    };
    let default = committed("");
    let coherent = Arc::new(Profile { coherent_data: true, ..(*profile).clone() });
    show("all-hwcc, with room", &rates(of("coherence=all-hwcc"), &coherent));
    for slower in
        ["coherence=no-shared-reader", "coherence=always-bypass", "shortcuts=off", "dirty-tracking=off"]
    {
        let rate = committed(slower);
        assert!(rate < default, "{slower}: {rate} of {default}");
    }
    assert!(committed("next-key-locking=off") >= 0.99 * default, "points lock no gaps");
}

#[test]
fn rows_that_are_used_stay() {
    let profile = built_in();
    // A quarter of what all rows need.
    let budget_bytes = Some(u64::from(HOSTS) * ROWS_PER_HOST * 1024 / 4);
    let moved = |policies: &str| {
        let run = Run { budget_bytes, skew: 3, shared_before: PreMigration::None, ..of(policies) };
        let rates = rates(run, &profile);
        show(policies, &rates);
        rates.moved_in
    };
    let fifo = moved("move-out=fifo");
    for better in ["move-out=clock", "move-out=lru"] {
        let rate = moved(better);
        assert!(rate < fifo, "{better}: {rate} K moves/s, first in, first out {fifo}");
    }
    assert!(moved("move-out-when=background") > 0.0, "rows come again that have left ahead");
}

#[test]
fn waiting_saves_attempts() {
    let profile = built_in();
    let aborted = |wait| {
        let rates = rates(Run { wait, writes: 50, ..of("") }, &profile);
        show(&wait.to_string(), &rates);
        rates.aborted
    };
    let no_wait = aborted(LockWait::NoWait);
    assert!(aborted(LockWait::WaitDie) < no_wait);
}
