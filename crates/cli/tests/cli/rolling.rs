//! `liger restart --rolling`: hosts start again one after the other, and clients of the others go on.

#![expect(clippy::disallowed_methods, reason = "real clients work in real time")]

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio_postgres::error::SqlState;

use crate::backup::Connection;
use crate::pods::{Up, done};
use crate::sql::ports;
use crate::*;

/// What is wrong for a client whose host is not restarted at the moment: anything but a conflict with others.
fn check(error: &tokio_postgres::Error, away: bool) {
    let ended = [SqlState::ADMIN_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW];
    let is_end = error.is_closed() || error.code().is_some_and(|code| ended.contains(code));
    let is_conflict = error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE);
    assert!(is_conflict || away && is_end, "{error}: {:?}", error.as_db_error());
}

/// Adds ones on one host until it is over, and connects again when its host was restarted; how often that
/// was.
fn work(port: u16, client: i32, over: &AtomicBool, done: &AtomicU64) -> u64 {
    let (mut connection, mut ends) = (Connection::new(port), 0);
    while !over.load(Ordering::Relaxed) {
        match connection.run(&format!("update counters set n = n + 1 where id = {client}")) {
            Ok(()) => _ = done.fetch_add(1, Ordering::Relaxed),
            Err(error) => {
                check(&error, true);
                if error.code() != Some(&SqlState::T_R_SERIALIZATION_FAILURE) {
                    ends += 1;
                    connection = Connection::new(port);
                }
            }
        }
    }
    ends
}

/// The processes of the hosts that run.
fn processes(dir: &str) -> Vec<Value> {
    let status = json(&mut liger(&format!("status {dir} --json")));
    let hosts = status["hosts"].as_array().expect("hosts").iter();
    hosts.filter(|host| host["doing"] == "running").map(|host| host["process"].clone()).collect()
}

#[test]
fn hosts_restart_one_after_the_other_with_the_program_that_is_there() {
    let folder = Folder::new("rolling");
    let (dir, port) = (folder.file("pod"), ports(4));
    let program = folder.file("program");
    std::fs::copy(env!("CARGO_BIN_EXE_liger"), &program).expect("a copy of the program");
    let mut command = Command::new(&program);
    command.env("TMPDIR", quick_temp_dir());
    command.args(
        format!("up {dir} --hosts 3 --max-hosts 4 --port {port} --durability storage").split_whitespace(),
    );
    let up = Up::started(&mut command);
    let connection = Connection::new(port);
    let made = "create table counters (id int primary key, n bigint); insert into counters select g, 0 from \
                generate_series(0, 5) g";
    connection.run(made).expect("a table");
    let before = processes(&dir);
    // Another file at the same place: the hosts that start again run that one.
    let next = folder.file("next");
    std::fs::copy(env!("CARGO_BIN_EXE_liger"), &next).expect("a copy of the program");
    std::fs::rename(&next, &program).expect("the same file system");
    let (over, counts) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 6]);
    let (report, ends) = std::thread::scope(|scope| {
        let start = |(client, count)| {
            let over = &over;
            scope.spawn(move || work(port + client as u16 % 3, client, over, count))
        };
        let clients: Vec<_> = (0..6).zip(&counts).map(start).collect();
        let order = || json(&mut liger(&format!("restart {dir} --rolling --json --within 10s")));
        let ordered = std::panic::catch_unwind(order);
        over.store(true, Ordering::Relaxed);
        let ends: Vec<u64> = clients.into_iter().map(|it| it.join().expect("no error")).collect();
        (ordered.unwrap_or_else(|panic| std::panic::resume_unwind(panic)), ends)
    });
    assert_eq!(
        (&report["stopped_at"], report["restarted"].as_array().map(Vec::len)),
        (&Value::Null, Some(3))
    );
    assert_eq!(ends, [1; 6], "each client was told once, by its own host: {report}");
    let after = processes(&dir);
    assert!(before.iter().zip(&after).all(|(before, after)| before != after), "{before:?} {after:?}");
    for process in &after {
        let runs = std::fs::read_link(format!("/proc/{process}/exe")).expect("it runs");
        assert_eq!(runs.to_str(), Some(&*program), "not the one that was deleted");
    }
    let rows = Connection::new(port + 1).numbers("select n from counters order by id");
    let counts: Vec<i64> = counts.iter().map(|count| count.load(Ordering::Relaxed) as i64).collect();
    // The end of a connection may come before the answer to what was done.
    for (row, count) in rows.iter().zip(&counts) {
        assert!((*count..=*count + 1).contains(&row[0]) && *count > 0, "{rows:?} {counts:?}");
    }
    up.end();
}

#[test]
fn it_stops_at_a_host_that_does_not_come_back_and_touches_none_behind_it() {
    let folder = Folder::new("rolling-stops");
    let (dir, port) = (folder.file("pod"), ports(2));
    let program = folder.file("program");
    std::fs::copy(env!("CARGO_BIN_EXE_liger"), &program).expect("a copy of the program");
    let mut command = Command::new(&program);
    command.args(format!("up {dir} --hosts 2 --port {port} --no-restart").split_whitespace());
    let up = Up::started(&mut command);
    let before = processes(&dir);
    let refused_at_once = format!("restart {dir}");
    refused(&mut liger(&refused_at_once), &["--rolling", "liger recover"]);
    // A program that ends at once.
    let next = folder.holding("next", b"#!/bin/sh\nexit 3\n");
    let made = Command::new("chmod").args(["+x", &next]).status();
    assert!(made.expect("chmod runs").success());
    std::fs::rename(&next, &program).expect("the same file system");
    let output = output(liger(&format!("restart {dir} --rolling --json")).stderr(Stdio::piped()));
    let (out, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
    let report: Value = serde_json::from_str(out.lines().last().expect("a line")).expect("JSON");
    assert_eq!((&report["stopped_at"], report["restarted"].as_array().map(Vec::len)), (&0.into(), Some(0)));
    assert!(said.contains("host 0 does not come back") && said.contains("liger add"), "{said}");
    assert_eq!(processes(&dir), before[1..], "host 1 was not touched");
    let pod: Value = serde_json::from_slice(&bytes_of(&format!("{dir}/pod.json"))).expect("an object");
    assert_eq!(pod["members"], 0b11, "host 0 is wanted when the pod starts again");
    refused(&mut liger(&format!("restart {dir} --rolling")), &["host 0 does not serve", "liger add"]);
    std::fs::copy(env!("CARGO_BIN_EXE_liger"), folder.file("good")).expect("a copy of the program");
    std::fs::rename(folder.file("good"), &program).expect("the same file system");
    done(&format!("add {dir} 0"));
    let report = json(&mut liger(&format!("restart {dir} --rolling --json")));
    assert_eq!(report["restarted"].as_array().map(Vec::len), Some(2), "{report}");
    Connection::new(port).run("select 1").expect("it serves");
    up.end();
}
