//! Pods that have room for more hosts, or more memory, than they start with: hosts come and leave while
//! clients of the others work, memory grows, and what is there when the pod starts again.

#![expect(clippy::disallowed_methods, reason = "real clients work in real time")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio_postgres::error::SqlState;

use crate::backup::Connection;
use crate::pods::{Up, done, kill_everybody};
use crate::sql::ports;
use crate::*;

/// Adds ones until it is over; anything but a conflict is wrong.
fn work(port: u16, id: usize, over: &AtomicBool, done: &AtomicU64) {
    let connection = Connection::new(port);
    while !over.load(Ordering::Relaxed) {
        match connection.run(&format!("update counters set n = n + 1 where id = {id}")) {
            Ok(()) => _ = done.fetch_add(1, Ordering::Relaxed),
            Err(error) => assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{error}"),
        }
    }
}

/// How many partitions each host has.
fn partitions(dir: &str) -> Vec<Option<usize>> {
    let status = json(&mut liger(&format!("status {dir} --json")));
    let hosts = status["hosts"].as_array().expect("hosts");
    hosts.iter().map(|host| host["partitions"].as_array().map(Vec::len)).collect()
}

#[track_caller]
fn wait_for(dir: &str, is_so: impl Fn(&[Option<usize>]) -> bool) {
    let start = Instant::now();
    while !is_so(&partitions(dir)) {
        assert!(start.elapsed() < Duration::from_secs(90), "{:?}", partitions(dir));
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_pod_of_two_hosts_has_four_and_then_two_again() {
    let folder = Folder::new("growing");
    let (dir, port) = (folder.file("pod"), ports(4));
    let up = Up::start(&format!("up {dir} --hosts 2 --max-hosts 4 --port {port} --workers 2 --lease 2s"));
    assert_eq!(partitions(&dir), [Some(8), Some(8), None, None], "all are made for those that are there");
    let first = Connection::new(port);
    let made = "create table counters (id int primary key, n bigint); insert into counters select g, 0 from \
                generate_series(0, 3) g; create table filler as select g as id, repeat('x', 100) as t from \
                generate_series(1, 5000) g";
    first.run(made).expect("tables");
    let (over, counts) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 4]);
    std::thread::scope(|scope| {
        for (id, count) in counts.iter().enumerate() {
            let over = &over;
            scope.spawn(move || work(port + id as u16 % 2, id, over, count));
        }
        let grown = std::panic::catch_unwind(|| {
            for host in [2, 3] {
                done(&format!("add {dir} {host}"));
            }
            wait_for(&dir, |has| *has == [Some(4); 4]);
            let newcomer = Connection::new(port + 3);
            assert_eq!(newcomer.numbers("select count(*) from filler"), [[5000]]);
            newcomer
                .run("insert into filler select g, 'new' from generate_series(5001, 5100) g")
                .expect("rows");
            drop(newcomer);
            for host in [3, 2] {
                done(&format!("drain {dir} {host} --within 10s"));
            }
            wait_for(&dir, |has| *has == [Some(8), Some(8), None, None]);
        });
        over.store(true, Ordering::Relaxed);
        grown.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    let counts = counts.map(|count| vec![count.into_inner() as i64]);
    assert_eq!(first.numbers("select n from counters order by id"), counts);
    assert_eq!(first.numbers("select count(*) from filler"), [[5100]]);
    drop(first);
    up.end();
    // Who has left stays away, and who comes once more stays.
    let up = Up::start(&format!("recover {dir}"));
    assert_eq!(partitions(&dir), [Some(8), Some(8), None, None]);
    done(&format!("add {dir} 3"));
    let third = Connection::new(port + 3);
    assert_eq!(third.numbers("select count(*) from filler"), [[5100]]);
    wait_for(&dir, |has| has[3] == Some(5));
    drop(third);
    up.end();
    let up = Up::start(&format!("recover {dir}"));
    assert_eq!(partitions(&dir), [Some(6), Some(5), None, Some(5)], "made for the three that are there");
    let third = Connection::new(port + 3);
    assert_eq!(third.numbers("select n from counters order by id"), counts);
    assert_eq!(third.numbers("select count(*) from filler"), [[5100]]);
    done(&format!("verify {dir}"));
    up.end();
}

#[test]
fn a_pod_that_starts_again_gets_room_for_more_hosts() {
    let folder = Folder::new("wider");
    let (dir, port) = (folder.file("pod"), ports(4));
    let mut up = Up::start(&format!("up {dir} --hosts 1 --port {port} --workers 2 --no-restart"));
    let first = Connection::new(port);
    let made = "create table t as select g as id, repeat('x', 100) as t from generate_series(1, 2000) g";
    first.run(made).expect("a table");
    drop(first);
    // What was acknowledged last is in the memory alone.
    kill_everybody(&dir, 1, &mut up);
    refused(&mut liger(&format!("recover {dir} --max-hosts 5")), &["4 partitions", "4 or fewer"]);
    // Under another name it is the same pod.
    let renamed = folder.file("renamed");
    std::fs::rename(&dir, &renamed).expect("a directory");
    let dir = renamed;
    let up = Up::start(&format!("recover {dir} --max-hosts 3"));
    let status = json(&mut liger(&format!("status {dir} --json")));
    assert_eq!(status["hosts"].as_array().map(Vec::len), Some(3), "{status}");
    for host in [1, 2] {
        done(&format!("add {dir} {host}"));
    }
    wait_for(&dir, |has| has.iter().all(|has| has.is_some_and(|has| has > 0)));
    let third = Connection::new(port + 2);
    assert_eq!(third.numbers("select count(*) from t"), [[2000]]);
    third.run("insert into t values (0, 'by the third')").expect("a row");
    drop(third);
    up.end();
    refused(&mut liger(&format!("recover {dir} --max-hosts 2")), &["room for 3 hosts"]);
    let up = Up::start(&format!("recover {dir} --max-hosts 4"));
    done(&format!("add {dir} 3"));
    assert_eq!(Connection::new(port + 3).numbers("select count(*) from t"), [[2001]]);
    done(&format!("verify {dir}"));
    up.end();
}

#[test]
fn room_for_hosts_is_refused_where_there_is_none() {
    let folder = Folder::new("no-room");
    let dir = folder.file("pod");
    refused(&mut liger(&format!("up {dir} --hosts 3 --max-hosts 2")), &["--max-hosts 2", "--hosts 3"]);
    let of_ledger = format!("up {dir} --tables ledger --hosts 2 --max-hosts 4");
    refused(&mut liger(&of_ledger), &["--max-hosts", "for pods with SQL"]);
    let up = Up::start(&format!("up {dir} --hosts 1 --max-hosts 2 --port {} --workers 2", ports(2)));
    refused(&mut liger(&format!("add {dir} 2")), &["no host 2", "0 to 1"]);
    up.end();
}

/// Waits until a host shows that the pod may use so many bytes, and has room for so many: it looks from time
/// to time.
#[track_caller]
fn await_size(connection: &Connection, expected: [i64; 2]) {
    let shown = "select size_bytes, max_bytes from pod_memory where region = 'data'";
    let start = Instant::now();
    while connection.numbers(shown)[0] != expected {
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", connection.numbers(shown));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn memory_grows_while_clients_work() {
    let folder = Folder::new("more-memory");
    let (dir, port) = (folder.file("pod"), ports(2));
    let up = format!("up {dir} --hosts 2 --workers 2 --port {port}");
    refused(
        &mut liger(&format!("{up} --memory 2G --max-memory 1G")),
        &["--max-memory 1.0 GiB", "--memory 2.0"],
    );
    refused(&mut liger(&format!("{up} --memory 1M --max-memory 1G")), &["--memory is too small", "needs"]);
    let up = Up::start(&format!("{up} --memory 100M --max-memory 256M"));
    let [first, second] = [0, 1].map(|host| Connection::new(port + host));
    await_size(&first, [100 << 20, 256 << 20]);
    first.run("create table wide (id int primary key, n int, t text)").expect("a table");
    for from in (1..60_000).step_by(10_000) {
        let rows = format!("select g, 0, repeat('x', 1000) from generate_series({from}, {from} + 9999) g");
        first.run(&format!("insert into wide {rows}")).expect("rows");
    }
    // Half of them are the other host's: a transaction needs them all in shared memory.
    let all = "update wide set n = n + 1";
    let error = second.run(all).expect_err("50 MB do not fit");
    // The second one if what has left is not free yet, however often it is tried.
    let full = [SqlState::OUT_OF_MEMORY, SqlState::T_R_SERIALIZATION_FAILURE];
    assert!(error.code().is_some_and(|code| full.contains(code)), "{error}");
    let hint = error.as_db_error().and_then(|error| error.hint()).expect("a hint");
    assert!(hint.contains("liger grow"), "{hint}");
    second.run("update wide set n = n + 1 where id <= 100").expect("a few do");
    refused(&mut liger(&format!("grow {dir} --memory 90M")), &["uses 100.0 MiB", "liger recover"]);
    refused(&mut liger(&format!("grow {dir} --memory 1G")), &["room for 256.0 MiB", "liger recover"]);
    let (over, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let told = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                first.run("update wide set n = n + 1 where id = 60000").expect("nobody else wants it");
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        let told = done(&format!("grow {dir} --memory 200M"));
        over.store(true, Ordering::Relaxed);
        told
    });
    assert!(told.contains("uses 200.0 MiB") && told.contains("room for 256.0 MiB"), "{told}");
    await_size(&second, [200 << 20, 256 << 20]);
    second.run(all).expect("they fit now");
    let sum = vec![vec![60_100 + count.into_inner() as i64]];
    assert_eq!(first.numbers("select sum(n) from wide"), sum);
    drop((first, second));
    up.end();
    refused(&mut liger(&format!("grow {dir} --memory 220M")), &["nobody supervises", "liger recover"]);
    // Nothing has that much; and it is not tried again.
    refused(&mut liger(&format!("recover {dir} --memory 128M --max-memory 1000G")), &["no room for"]);
    for (sizes, expected) in [("", [200 << 20, 256 << 20]), (" --memory 128M", [128 << 20; 2])] {
        let up = Up::start(&format!("recover {dir}{sizes}"));
        let again = Connection::new(port);
        await_size(&again, expected);
        assert_eq!(again.numbers("select sum(n) from wide"), sum);
        drop(again);
        up.end();
    }
}
