//! Hosts that join while others ask them for rows: no request is lost, whenever it was posted.

mod kit;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use liger_engine::db::{Host, JoinOptions, Pod, PodConfig};
use liger_engine::{Key, NewRow, Session, TableId, Transaction, table};
use liger_fabric::HostId;
use liger_fabric::native::MemorySpec;

table! {
    /// Accounts of branches, one branch a host.
    pub mod accounts: "accounts" {
        BRANCH: SmallInt,
        ID: Int,
        BALANCE: BigInt,
    }
    primary key (BRANCH, ID);
}

const ROUNDS: u32 = 20;

fn config() -> PodConfig {
    PodConfig::new(2, 2, 2 << 20, 16 << 20)
}

fn row_of(branch: i16) -> NewRow {
    let mut row = NewRow::new(accounts::ROW_LEN);
    row.set(accounts::BRANCH, branch).set(accounts::ID, 1).set(accounts::BALANCE, 7);
    row
}

fn key_of(branch: i16) -> Key {
    Key::build().i16(branch).i32(1).finish()
}

/// Host 0 asks for a row of host 1 again and again, and for a new one; host 1 joins meanwhile. Host 0 must
/// come to an end of both, and see a row that was made there.
#[expect(clippy::disallowed_methods, reason = "a joiner comes from another thread, some time later")]
fn ask_while_it_joins(pod: &Pod, options: impl Fn(HostId) -> JoinOptions + Sync) {
    let table = pod.catalog().table_named("accounts").expect("declared above");
    let mut asking = pod.join_with(HostId(0), options(HostId(0))).expect("a new pod");
    let (over, tries) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let joiner = scope.spawn(|| {
            while tries.load(Ordering::Relaxed) < 200 {
                std::thread::sleep(Duration::from_micros(100));
            }
            let joined = pod.join_with(HostId(1), options(HostId(1))).expect("host 0 tests with it");
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            joined
        });
        let found = asking.alone(|session| {
            let found = session.transact(|tx| {
                tries.fetch_add(1, Ordering::Relaxed);
                tx.get(table, &key_of(1), |row| row.get(accounts::BALANCE))
            });
            found.expect("nobody dies")
        });
        assert_eq!(found, None, "nobody has made it");
        insert_and_read(&mut asking, table);
        over.store(true, Ordering::Relaxed);
        let joined = joiner.join().expect("no panic");
        joined.leave().expect("an idle host leaves");
    });
    asking.leave().expect("an idle host leaves");
}

fn insert_and_read(host: &mut Host, table: TableId) {
    host.alone(|session| {
        session.transact(|tx| tx.insert(table, &row_of(1)).map(drop)).expect("there is room");
        let balance = session.transact(|tx| tx.get(table, &key_of(1), |row| row.get(accounts::BALANCE)));
        assert_eq!(balance.expect("nobody dies"), Some(7));
    });
}

#[test]
fn a_host_that_joins_is_asked_without_storage() {
    for _ in 0..ROUNDS {
        let pod = Pod::create(&MemorySpec::Memfd, &config(), &[accounts::schema()]).expect("enough memory");
        ask_while_it_joins(&pod, |_| JoinOptions::new(pod.plan()));
    }
}

#[test]
fn a_host_that_joins_is_asked_with_storage() {
    for _ in 0..ROUNDS / 4 {
        let opened = kit::opened("late", &config(), accounts::schema());
        let pod = &opened.pod;
        let hold = |host| opened.data.hold(&pod.control(), host).expect("a new pod's folder");
        ask_while_it_joins(pod, |host| JoinOptions {
            storage: Some(hold(host)),
            ..JoinOptions::new(pod.plan())
        });
    }
}
