//! Pods that clients of PostgreSQL use: `psql`, where it is installed.

#![expect(clippy::disallowed_methods, reason = "real processes are watched in real time")]

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use tokio_postgres::error::SqlState;

use crate::backup::Connection;
use crate::pods::{Up, done};
use crate::*;

/// The first of so many ports in a row that are free, as far as one can tell; another one each time.
pub fn ports(count: u16) -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 15_000) as u16;
    loop {
        let port = first + NEXT.fetch_add(count, Ordering::Relaxed);
        assert!(port < 60_000, "no port is free");
        if (port..port + count).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return port;
        }
    }
}

fn psql(port: u16, sql: &str) -> Result<String, String> {
    let mut command = Command::new("psql");
    let database = format!("host=127.0.0.1 port={port} user=postgres dbname=postgres connect_timeout=10");
    let output =
        output(command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql, &database]));
    let said = text(&output.stdout).trim().to_owned();
    if output.status.success() { Ok(said) } else { Err(text(&output.stderr)) }
}

/// Asks until there is an answer: hosts that take over, or start, answer later.
#[track_caller]
fn at_last(port: u16, sql: &str) -> String {
    let start = Instant::now();
    loop {
        match psql(port, sql) {
            Ok(answer) => return answer,
            Err(error) => assert!(start.elapsed() < Duration::from_secs(60), "{sql}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn tables_outlive_hosts_and_pods() {
    if Command::new("psql").arg("--version").output().is_err() {
        println!("psql is not installed");
        return;
    }
    let folder = Folder::new("sql");
    let (dir, port) = (folder.file("pod"), ports(2));
    let up = Up::start(&format!("up {dir} --hosts 2 --port {port} --no-restart --durability storage"));
    let made = "create table t (id int primary key, name text); insert into t select g, 'n' || g from \
                generate_series(1, 100) g; create materialized view m as select id, name from t; \
                create unique index on m (id)";
    psql(port, made).expect("a table is made");
    assert_eq!(at_last(port + 1, "select count(*), max(name) from t"), "100|n99");
    at_last(port + 1, "update t set name = 'changed' where id = 5");
    done(&format!("kill {dir} 0"));
    assert_eq!(at_last(port + 1, "select count(*) from t"), "100");
    assert_eq!(at_last(port + 1, "select name from t where id = 5"), "changed");
    assert_eq!(at_last(port + 1, "select name from m where id = 5"), "n5");
    at_last(port + 1, "refresh materialized view m");
    at_last(port + 1, "insert into t values (101, 'after') on conflict do nothing");
    done(&format!("add {dir} 0"));
    assert_eq!(at_last(port, "select name from t where id = 101"), "after");
    up.end();
    let up = Up::start(&format!("recover {dir}"));
    assert_eq!(at_last(port, "select count(*) from t"), "101");
    assert_eq!(at_last(port + 1, "select name from t where id = 5"), "changed");
    assert_eq!(at_last(port, "select name from m where id = 5"), "changed");
    at_last(port, "refresh materialized view m");
    assert_eq!(at_last(port + 1, "select count(*) from m"), "101");
    up.end();
}

#[test]
fn transactions_that_ask_for_no_level_have_that_of_the_pod() {
    let folder = Folder::new("levels");
    let (dir, port) = (folder.file("pod"), ports(1));
    let sql = "select current_setting('default_transaction_isolation'), \
               current_setting('transaction_isolation'), reset_val from pg_settings \
               where name = 'default_transaction_isolation'";
    let check = |level: &str| assert_eq!(Connection::new(port).texts(sql), [[level; 3]]);
    let restarted = |options: &str| Up::start(&format!("recover {dir} {options}"));
    let up = Up::start(&format!("up {dir} --hosts 1 --port {port}"));
    check("serializable");
    // A pod that serves is what it was.
    let refusal = output(&mut liger(&format!("recover {dir} --isolation repeatable-read")));
    assert_eq!(refusal.status.code(), Some(2), "{}", text(&refusal.stderr));
    up.end();
    let up = restarted("");
    check("serializable");
    up.end();
    let up = restarted("--isolation read-committed");
    check("read committed");
    let role = "alter role postgres set default_transaction_isolation = 'repeatable read'";
    Connection::new(port).run(role).expect("a setting");
    check("repeatable read");
    Connection::new(port).run("alter role postgres reset all").expect("a setting");
    up.end();
    let up = restarted("");
    check("read committed");
    up.end();
    // As it was described before there was a choice.
    let description = format!("{dir}/pod.json");
    let mut pod: Value = serde_json::from_slice(&bytes_of(&description)).expect("a pod");
    let said = pod["job"]["sql"].as_object_mut().and_then(|sql| sql.remove("isolation"));
    assert_eq!(said, Some("read_committed".into()));
    std::fs::write(&description, pod.to_string()).expect("a temporary file");
    let up = restarted("");
    check("serializable");
    up.end();
}

#[test]
fn other_pods_have_no_isolation_level_to_choose() {
    let folder = Folder::new("no-levels");
    let dir = folder.file("pod");
    let parts = ["--isolation is for pods with SQL", "leave it out"];
    for tables in ["ledger", "tpcc"] {
        refused(&mut liger(&format!("up {dir} --tables {tables} --isolation serializable")), &parts);
    }
    refused(&mut liger(&format!("up {dir} --isolation chaos")), &["--isolation", "chaos"]);
    assert!(!exists(&dir), "nothing is made");
    Up::start(&format!("up {dir} --tables ledger --hosts 1 --accounts 100")).end();
    refused(&mut liger(&format!("recover {dir} --isolation serializable")), &parts);
}

#[test]
fn tpcc_through_sql_is_consistent() {
    let folder = Folder::new("tpcc-sql");
    let (dir, port) = (folder.file("pod"), ports(2));
    let up = Up::start(&format!("up {dir} --hosts 2 --port {port} --durability storage"));
    let start = Instant::now();
    let to = format!("bench tpcc-sql 127.0.0.1:{port},127.0.0.1:{} --scale-divisor 100", port + 1);
    // Hosts listen a moment later than they are members.
    while !output(&mut liger(&format!("{to} --load-only"))).status.success() {
        assert!(start.elapsed() < Duration::from_secs(30), "the tables could not be loaded");
        std::thread::sleep(Duration::from_millis(200));
    }
    let report = json(&mut liger(&format!("{to} --loaded --warm-up 0 --seconds 3 --json")));
    assert_eq!(report["consistent"], true, "{report}");
    assert!(report["acknowledged_new_orders"].as_u64().is_some_and(|count| count > 0), "{report}");
    up.end();
    let nobody = format!("bench tpcc-sql 127.0.0.1:{port} --loaded");
    assert_eq!(output(&mut liger(&nobody)).status.code(), Some(1));
}

/// A change of a table waits for a block of another host that has read it, and that host dies: its takeover
/// waits for all open transactions, also for the change's, which has to give way.
#[test]
fn a_change_that_waits_for_a_dead_host_s_block_goes_on_when_that_is_noticed() {
    let folder = Folder::new("gives-way");
    let (dir, port) = (folder.file("pod"), ports(3));
    let _up = Up::start(&format!(
        "up {dir} --hosts 3 --tables sql --port {port} --durability storage --no-restart --lease 60s"
    ));
    let [changer, block, reader] = [0, 1, 2].map(|host| Connection::new(port + host));
    changer.run("create table t (id int primary key)").expect("a table");
    changer.run("insert into t select generate_series(1, 20)").expect("rows");
    block.run("begin; select * from t").expect("a block");
    let change = std::thread::spawn(move || {
        // It may be told that somebody has died, and is asked again.
        while let Err(error) = changer.run("alter table t add added int default 2") {
            assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{error}");
        }
    });
    // It is in line: a reader stands behind it.
    let start = Instant::now();
    reader.run("set lock_timeout = 100").expect("a setting");
    while reader.run("select count(*) from t").is_ok() {
        assert!(start.elapsed() < Duration::from_secs(60), "nobody waits");
    }
    done(&format!("kill {dir} 1"));
    let killed = Instant::now();
    change.join().expect("it has an answer");
    // Without giving way it takes twice the 5 s after which a conflict is told.
    assert!(killed.elapsed() < Duration::from_secs(4), "{:?}", killed.elapsed());
    reader.run("set lock_timeout = 0").expect("a setting");
    assert_eq!(reader.numbers("select count(*), sum(added) from t"), [[20, 40]]);
}
