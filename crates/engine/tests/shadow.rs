//! Hosts of one process behind software caches of their own: what the engine publishes and refreshes must be
//! enough.

use std::sync::atomic::Ordering;

use liger_engine::db::{Host, JoinOptions, Pod, PodConfig, SyncMode};
use liger_engine::protocol::HostEngine;
use liger_engine::row::Budget;
use liger_engine::{Key, NewRow, Row, Session, TableId, Transaction, TxnError, table};
use liger_fabric::HostId;
use liger_fabric::native::{HostMemory, MemorySpec};
use liger_fabric::shadow::{ShadowConfig, ShadowHost};

table! {
    /// Accounts, placed by branch, which is a host.
    pub mod accounts: "accounts" {
        BRANCH: SmallInt,
        ID: Int,
        BALANCE: BigInt,
        NOTE: Text<150>,
    }
    primary key (BRANCH, ID);
}

const HOSTS: u8 = 3;
const WORKERS: u8 = 2;
const ACCOUNTS: i32 = 60;
const TRANSFERS: u32 = 300;
const START: i64 = 100;
const TABLE: TableId = TableId(0);

fn join(pod: &Pod, host: u8, cache: &ShadowConfig) -> Host<ShadowHost> {
    let mut options = JoinOptions::new(pod.plan());
    // A few rows: they come and go.
    options.engine.budget = Budget { hwcc_bytes: u64::MAX, cxl_bytes: 20 << 10 };
    let over = |native| ShadowHost::over(native, cache.clone());
    pod.join_through(HostId(host), options, over).expect("the memory keeps its promises")
}

fn fill(host: &mut Host<ShadowHost>) {
    let loaded = host.load(|rows| {
        let mut row = NewRow::new(accounts::ROW_LEN);
        let all = (0..i32::from(HOSTS) * ACCOUNTS).map(|n| (n % i32::from(HOSTS), n / i32::from(HOSTS)));
        all.into_iter().try_for_each(|(branch, id)| {
            row.set(accounts::BRANCH, branch as i16).set(accounts::ID, id);
            row.set(accounts::BALANCE, START).set(accounts::NOTE, "as it was");
            rows.put(TABLE, &row)
        })
    });
    loaded.expect("room for all");
}

/// Moves money between any two accounts; the note of each says what it then holds.
fn transfers(host: &mut Host<ShadowHost>) {
    let done = host.run(WORKERS, |session| {
        let cx = session.cx();
        let pick = || {
            let branch = cx.random_below(HOSTS.into()) as i16;
            Key::build().i16(branch).i32(cx.random_below(ACCOUNTS as u64) as i32).finish()
        };
        for _ in 0..TRANSFERS {
            let (from, to) = (pick(), pick());
            session.transact(|tx| {
                for (account, change) in [(&from, -7), (&to, 7)] {
                    tx.update(TABLE, account, |row| {
                        let balance = row.get(accounts::BALANCE) + change;
                        row.set(accounts::BALANCE, balance);
                        row.set(accounts::NOTE, &format!("{balance:>140}"));
                    })?;
                }
                Ok::<(), TxnError>(())
            })?;
        }
        Ok::<(), TxnError>(())
    });
    done.into_iter().for_each(|worker| worker.expect("no panic").expect("only conflicts"));
}

/// Sum of the host's balances; every note must tell its own.
fn audit(host: &mut Host<ShadowHost>) -> i64 {
    let mut sum = 0;
    let mut see = |_: &Key, row: Row<'_>| {
        let (balance, note) = (row.get(accounts::BALANCE), row.get(accounts::NOTE));
        assert!(note == format!("{balance:>140}") || note == "as it was", "{balance}: {note}");
        sum += balance;
    };
    host.alone(|session| session.host().each_row(session.cx(), TABLE, &mut see)).expect("readable");
    sum
}

#[test]
fn no_money_is_lost_between_caches() {
    let small = |seed| ShadowConfig { lines: 256, ..ShadowConfig::new(seed) };
    for (cache, sync_mode) in [(ShadowConfig::new(1), SyncMode::Hwcc), (small(2), SyncMode::Pcc)] {
        let config = PodConfig { sync_mode, ..PodConfig::new(HOSTS, WORKERS, 4 << 20, 64 << 20) };
        let pod = Pod::create(&MemorySpec::Memfd, &config, &[accounts::schema()]).expect("a pod");
        let mut hosts: Vec<_> = (0..HOSTS).map(|host| join(&pod, host, &cache)).collect();
        hosts.iter_mut().for_each(fill);
        #[expect(clippy::disallowed_methods, reason = "the hosts of this test are threads")]
        std::thread::scope(|scope| {
            hosts.iter_mut().for_each(|host| _ = scope.spawn(|| transfers(host)));
        });
        let total: i64 = hosts.iter_mut().map(audit).sum();
        assert_eq!(total, i64::from(HOSTS) * i64::from(ACCOUNTS) * START);
        for host in hosts {
            assert_eq!(host.memory().complaint(), None);
            let moves = host.engine().rows().moves();
            assert!(
                moves.moved_in.load(Ordering::Relaxed) > 10 && moves.moved_out.load(Ordering::Relaxed) > 0
            );
            host.leave().expect("a pod at rest");
        }
    }
}
