//! Two hosts of one pod move money between each other's accounts, each transaction on one host.
//!
//! Run it: `cargo run --release -p liger-engine --example two_hosts`

use std::sync::atomic::Ordering;

use liger_engine::db::{DbError, Host, Pod, PodConfig};
use liger_engine::protocol::HostEngine;
use liger_engine::{Key, NewRow, Session, TableId, Transaction, TxnError, table};
use liger_fabric::HostId;
use liger_fabric::native::MemorySpec;

table! {
    /// Accounts, placed by branch: the even ones on host 0, the odd ones on host 1.
    pub mod accounts: "accounts" {
        BRANCH: SmallInt,
        ID: Int,
        BALANCE: BigInt,
    }
    primary key (BRANCH, ID);
}

const ACCOUNTS: i32 = 1000;
const TRANSFERS: u32 = 20_000;
/// The pod's only table.
const TABLE: TableId = TableId(0);

fn key(branch: i16, id: i32) -> Key {
    Key::build().i16(branch).i32(id).finish()
}

/// Takes `amount` from one account and gives it to another, wherever they live.
fn transfer<T: Transaction>(tx: &mut T, from: &Key, to: &Key, amount: i64) -> Result<(), TxnError> {
    for (account, change) in [(from, -amount), (to, amount)] {
        tx.update(TABLE, account, |row| {
            let balance = row.get(accounts::BALANCE);
            row.set(accounts::BALANCE, balance + change);
        })?;
    }
    Ok(())
}

/// One host's work: its own accounts, and now and then the other's.
fn work(host: &mut Host) -> Result<(), TxnError> {
    let here = i16::from(host.id().0);
    let workers = host.run(1, |session| {
        let cx = session.cx();
        for _ in 0..TRANSFERS {
            let pick = || key(i16::from(cx.random_below(10) == 0) ^ here, cx.random_below(1000) as i32);
            let (from, to) = (pick(), pick());
            session.transact(|tx| transfer(tx, &from, &to, 5))?;
        }
        Ok(())
    });
    workers.into_iter().try_for_each(|worker| worker.expect("no worker panicked"))
}

fn main() -> Result<(), DbError> {
    // 16 MiB that the hardware keeps coherent, 256 MiB that it does not; an ordinary machine stands in for
    // the pod.
    let pod =
        Pod::create(&MemorySpec::Memfd, &PodConfig::new(2, 1, 16 << 20, 256 << 20), &[accounts::schema()])?;
    let mut hosts = [pod.join(HostId(0))?, pod.join(HostId(1))?];
    for host in &mut hosts {
        host.load(|rows| {
            let mut row = NewRow::new(accounts::ROW_LEN);
            (0..2 * ACCOUNTS).try_for_each(|n| {
                let (branch, id) = ((n % 2) as i16, n / 2);
                row.set(accounts::BRANCH, branch).set(accounts::ID, id).set(accounts::BALANCE, 100);
                rows.put(TABLE, &row)
            })
        })?;
    }
    #[expect(clippy::disallowed_methods, reason = "the hosts of this example are threads")]
    std::thread::scope(|scope| {
        for host in &mut hosts {
            scope.spawn(|| work(host).expect("only conflicts, which are tried again"));
        }
    });
    let mut total = 0;
    for host in &mut hosts {
        host.alone(|session| {
            let sum = |_: &Key, row: liger_engine::Row<'_>| total += row.get(accounts::BALANCE);
            session.host().each_row(session.cx(), TABLE, sum)
        })?;
        let moved = host.engine().rows().moves().moved_in.load(Ordering::Relaxed);
        println!("host {}: {TRANSFERS} transfers, {moved} of its rows moved into shared memory", host.id().0);
    }
    println!("money in all accounts: {total}");
    assert_eq!(total, i64::from(2 * ACCOUNTS) * 100, "no money was made or lost");
    hosts.into_iter().try_for_each(Host::leave)
}
