//! Orders to a pod whose clients go on: nobody is told anything of them, and nobody loses a connection.

#![expect(clippy::disallowed_methods, reason = "real clients work in real time")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio_postgres::error::SqlState;

use crate::backup::Connection;
use crate::pods::{Up, done};
use crate::sql::ports;
use crate::*;

const CHECKPOINTS: usize = 30;
/// Rounds of a client on one connection.
const ROUNDS: u64 = 25;

/// One client of a host: transactions of several messages, statements that it prepares by name, and a log-in
/// now and then. A conflict with another client's transaction is the only thing that it may be told.
fn work(port: u16, client: i32, over: &AtomicBool, done: &AtomicU64) {
    let tell = |what: &str, error: &tokio_postgres::Error| {
        let is_conflict = error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE);
        assert!(is_conflict, "{what}: {error}: {:?}", error.as_db_error());
    };
    while !over.load(Ordering::Relaxed) {
        let connection = Connection::new(port);
        for round in 0..ROUNDS {
            let read = format!("select n, {round} from counters where id = $1");
            let ran: Result<(), tokio_postgres::Error> = connection.drive(|client_of| async move {
                client_of.batch_execute("begin").await?;
                client_of.execute("update counters set n = n + 1 where id = $1", &[&client]).await?;
                let prepared = client_of.prepare(&read).await?;
                client_of.query_one(&prepared, &[&client]).await?;
                client_of.batch_execute("commit").await
            });
            match ran {
                Ok(()) => _ = done.fetch_add(1, Ordering::Relaxed),
                Err(error) => {
                    tell("a transaction", &error);
                    connection.run("rollback").expect("the connection is whole");
                }
            }
        }
    }
}

#[test]
fn checkpoints_and_backups_disturb_nobody() {
    let folder = Folder::new("orders");
    let (dir, port) = (folder.file("pod"), ports(2));
    let up = Up::start(&format!("up {dir} --hosts 2 --port {port} --durability storage --lease 10s"));
    let connection = Connection::new(port);
    let made = "create table counters (id int primary key, n bigint); insert into counters select g, 0 from \
                generate_series(0, 3) g";
    connection.run(made).expect("a table");
    let (over, counts) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 4]);
    std::thread::scope(|scope| {
        for (client, count) in (0..).zip(&counts) {
            let over = &over;
            scope.spawn(move || work(port + client as u16 % 2, client, over, count));
        }
        let ordered = std::panic::catch_unwind(|| {
            for _ in 0..CHECKPOINTS - 2 {
                done(&format!("checkpoint {dir}"));
            }
            // Two at once, and a backup beside them.
            let order = || liger(&format!("checkpoint {dir}")).stdout(std::process::Stdio::null()).spawn();
            let both = [order(), order()].map(|child| child.expect("the binary runs"));
            done(&format!("backup {dir} {}", folder.file("backup")));
            for mut child in both {
                assert!(child.wait().expect("our child").success());
            }
        });
        over.store(true, Ordering::Relaxed);
        ordered.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    let rows = connection.numbers("select n from counters order by id");
    let counts: Vec<i64> = counts.iter().map(|count| count.load(Ordering::Relaxed) as i64).collect();
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    assert_eq!(rows.into_iter().map(|row| row[0]).collect::<Vec<_>>(), counts);
    up.end();
}
