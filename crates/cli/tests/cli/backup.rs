//! Backups: taken while clients work, restored elsewhere, and refused when they are not whole.

#![expect(clippy::disallowed_methods, reason = "real clients work in real time")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::pods::{Up, done};
use crate::sql::ports;
use crate::*;

const ACCOUNTS: u32 = 20;
const BALANCE: i64 = 1000;
/// Two at each host.
const CLIENTS: u32 = 4;

/// A connection, and what drives it.
pub struct Connection {
    client: Client,
    driver: tokio::runtime::Runtime,
}

impl Connection {
    /// Connects, once the host listens.
    #[track_caller]
    pub fn new(port: u16) -> Self {
        let driver = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let settings = format!("host=127.0.0.1 port={port} user=postgres dbname=postgres");
        let start = Instant::now();
        loop {
            match driver.block_on(tokio_postgres::connect(&settings, NoTls)) {
                Ok((client, connection)) => {
                    driver.spawn(connection);
                    return Self { client, driver };
                }
                Err(error) => assert!(start.elapsed() < Duration::from_secs(60), "{error}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn run(&self, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.driver.block_on(self.client.batch_execute(sql))
    }

    /// Does what takes several messages.
    pub fn drive<'c, T, D: Future<Output = T> + 'c>(&'c self, work: impl FnOnce(&'c Client) -> D) -> T {
        self.driver.block_on(work(&self.client))
    }

    /// The rows of a query, as texts. It is asked again when it was in the way of others.
    #[track_caller]
    pub fn texts(&self, sql: &str) -> Vec<Vec<String>> {
        let answer = loop {
            match self.driver.block_on(self.client.simple_query(sql)) {
                Err(error) if error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE) => {}
                answer => break answer.expect("an answer"),
            }
        };
        let text = |text: Option<&str>| text.expect("no NULL").to_owned();
        let rows = answer.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|at| text(row.get(at))).collect()),
            _ => None,
        });
        rows.collect()
    }

    /// The same, as numbers.
    #[track_caller]
    pub fn numbers(&self, sql: &str) -> Vec<Vec<i64>> {
        let numbers = |row: Vec<String>| row.iter().map(|text| text.parse().expect("a number")).collect();
        self.texts(sql).into_iter().map(numbers).collect()
    }
}

/// What a client does in its transaction of this number: from where, to where, and how much.
fn transfer(client: u32, number: u32) -> (u32, u32, i64) {
    let mixed = (client + 1).wrapping_mul(0x9e37_79b9).wrapping_add(number.wrapping_mul(0x85eb_ca6b));
    let from = (mixed >> 8) % ACCOUNTS;
    (from, (from + 1 + (mixed >> 16) % (ACCOUNTS - 1)) % ACCOUNTS, i64::from(mixed % 7) + 1)
}

/// Clients that move money and number what they do, until they are told to end.
struct Load {
    ends: Arc<AtomicBool>,
    /// By client: the transaction that it has begun, and the last one that it was told is done.
    seen: Arc<Vec<(AtomicU32, AtomicU32)>>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(port: u16) -> Self {
        let ends = Arc::<AtomicBool>::default();
        let seen: Arc<Vec<_>> = Arc::new((0..CLIENTS).map(|_| Default::default()).collect());
        let client = |number: u32| {
            let (ends, seen) = (ends.clone(), seen.clone());
            std::thread::spawn(move || {
                let connection = Connection::new(port + (number % 2) as u16);
                work(&connection, number, &ends, &seen[number as usize]);
            })
        };
        let threads = (0..CLIENTS).map(client).collect();
        Self { ends, seen, threads }
    }

    fn begun(&self) -> Vec<u32> {
        self.seen.iter().map(|(begun, _)| begun.load(Ordering::SeqCst)).collect()
    }

    fn acknowledged(&self) -> Vec<u32> {
        self.seen.iter().map(|(_, acknowledged)| acknowledged.load(Ordering::SeqCst)).collect()
    }

    /// Waits until every client was told of so many more.
    #[track_caller]
    fn go_on(&self, more: u32) {
        let (from, start) = (self.acknowledged(), Instant::now());
        while self.acknowledged().iter().zip(&from).any(|(now, from)| *now < from + more) {
            assert!(self.threads.iter().all(|thread| !thread.is_finished()), "a client has failed");
            assert!(start.elapsed() < Duration::from_secs(60), "{from:?} {:?}", self.acknowledged());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn end(self) {
        self.ends.store(true, Ordering::SeqCst);
        self.threads.into_iter().for_each(|thread| thread.join().expect("no client failed"));
    }
}

/// One client: its transactions one after the other, each until it is done.
fn work(connection: &Connection, client: u32, ends: &AtomicBool, (begun, told): &(AtomicU32, AtomicU32)) {
    for number in 1.. {
        if ends.load(Ordering::SeqCst) {
            return;
        }
        begun.store(number, Ordering::SeqCst);
        let (from, to, amount) = transfer(client, number);
        let sql = format!(
            "begin; update accounts set balance = balance - {amount}, pad = repeat('{client}', 2000) where \
             id = {from}; update accounts set balance = balance + {amount} where id = {to}; insert into done \
             values ({client}, {number}); commit"
        );
        while let Err(error) = connection.run(&sql) {
            // Nothing else may be seen of a backup.
            assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{error:?}");
            connection.run("rollback").expect("an end");
        }
        told.store(number, Ordering::SeqCst);
    }
}

/// A backup under load: where it is, and by client the least and the last number that may be its last.
struct Taken {
    target: String,
    least: Vec<u32>,
    most: Vec<u32>,
}

/// The pod at this port must hold a state of the database between the two ends.
#[track_caller]
fn check(port: u16, Taken { target, least, most }: &Taken) {
    let connection = Connection::new(port);
    let mut balances = vec![BALANCE; ACCOUNTS as usize];
    let found = connection.numbers("select client, count(*), max(number) from done group by 1 order by 1");
    assert_eq!(found.len(), CLIENTS as usize, "{target}: {found:?}");
    for (client, row) in (0..).zip(&found) {
        let (count, last) = (row[1] as u32, row[2] as u32);
        assert_eq!((row[0], count), (i64::from(client), last), "{target}: a client's are there up to one");
        let (least, most) = (least[client as usize], most[client as usize]);
        assert!((least..=most).contains(&last), "{target}: client {client}: {last} of {least}..={most}");
        for number in 1..=last {
            let (from, to, amount) = transfer(client, number);
            balances[from as usize] -= amount;
            balances[to as usize] += amount;
        }
    }
    let rows = connection.numbers("select balance from accounts order by id");
    let rows: Vec<i64> = rows.into_iter().map(|row| row[0]).collect();
    assert_eq!(rows, balances, "{target}: each transfer is there as a whole, or not at all");
    assert_eq!(rows.iter().sum::<i64>(), i64::from(ACCOUNTS) * BALANCE);
}

/// Lets the pod take checkpoints, and remove what they replace, all the time.
fn with_short_logs(dir: &str) {
    let path = format!("{dir}/pod.json");
    let mut pod: Value = serde_json::from_slice(&bytes_of(&path)).expect("a description");
    pod["job"]["data"]["replay_limit"] = (256 << 10).into();
    std::fs::write(&path, pod.to_string()).expect("it can be written");
}

/// Moves money at both hosts of a pod while backups are taken of it, and restores each of them.
fn under_load(name: &str, durability: &str) {
    let folder = Folder::new(name);
    let (dir, port) = (folder.file("pod"), ports(2));
    Up::start(&format!("up {dir} --hosts 2 --port {port} --durability {durability}")).end();
    with_short_logs(&dir);
    let up = Up::start(&format!("recover {dir}"));
    let connection = Connection::new(port);
    connection
        .run(&format!(
            "create table accounts (id int primary key, balance bigint, pad text); create table done \
             (client int, number int, primary key (client, number)); insert into accounts select g, \
             {BALANCE}, '' from generate_series(0, {}) g",
            ACCOUNTS - 1
        ))
        .expect("tables");
    let load = Load::start(port);
    let mut taken = Vec::new();
    for round in 0..4 {
        load.go_on(20);
        let target = folder.file(&format!("backup-{round}"));
        let least = load.acknowledged();
        let report = json(&mut liger(&format!("backup {dir} {target} --json")));
        let most = load.begun();
        assert!(report["epoch"].as_u64() > Some(1) && report["bytes"].as_u64() > Some(0), "{report}");
        taken.push((report["epoch"].as_u64(), Taken { target, least, most }));
    }
    load.go_on(20);
    load.end();
    up.end();
    assert!(taken.is_sorted_by_key(|(epoch, _)| *epoch), "a later one is of a later point");
    for (round, (epoch, taken)) in taken.iter().enumerate() {
        let whole = json(&mut liger(&format!("verify {} --json", taken.target)));
        assert_eq!(whole["durable_epoch"].as_u64(), *epoch, "{whole}");
        let (again, port) = (folder.file(&format!("again-{round}")), ports(2));
        assert!(done(&format!("restore {} {again} --port {port}", taken.target)).contains("liger recover"));
        let up = Up::start(&format!("recover {again}"));
        check(port, taken);
        check(port + 1, taken);
        // It is a pod like others: it goes on, and is backed up in its turn, down this time.
        Connection::new(port)
            .run("update accounts set balance = balance + 1 where id = 0")
            .expect("an update");
        up.end();
        let next = folder.file(&format!("backup-of-{round}"));
        assert!(done(&format!("backup {again} {next}")).contains("in epoch"));
        assert!(done(&format!("verify {next}")).contains("whole:"));
    }
}

#[test]
fn a_backup_is_one_point_of_time() {
    under_load("backup", "storage");
}

#[test]
fn what_is_in_memory_only_is_in_a_backup_too() {
    under_load("backup-pod", "pod");
}

#[test]
fn a_backup_waits_for_a_takeover() {
    let folder = Folder::new("backup-kill");
    let (dir, target, again) = (folder.file("pod"), folder.file("backup"), folder.file("again"));
    let up = Up::start(&format!("up {dir} --tables ledger --hosts 2 --accounts 500 --no-restart"));
    let report = json(&mut liger(&format!("bench ledger --pod {dir} --time 300ms --json")));
    done(&format!("kill {dir} 1"));
    done(&format!("backup {dir} {target}"));
    up.end();
    assert!(done(&format!("verify {target}")).contains("whole:"));
    done(&format!("restore {target} {again}"));
    let up = Up::start(&format!("recover {again}"));
    let later = json(&mut liger(&format!("bench ledger --pod {again} --time 300ms --json")));
    assert_eq!((&later["consistent"], &later["acknowledged_lost"]), (&true.into(), &0.into()), "{later}");
    assert!(later["transfers"].as_u64() > report["transfers"].as_u64(), "{later}");
    up.end();
}

#[test]
fn what_is_no_backup_is_refused_by_name() {
    let folder = Folder::new("backup-refused");
    let (dir, target, again) = (folder.file("pod"), folder.file("backup"), folder.file("again"));
    refused(&mut liger(&format!("backup {dir} {target}")), &["no pod"]);
    Up::start(&format!("up {dir} --tables ledger --hosts 2 --accounts 500")).end();
    refused(&mut liger(&format!("backup {dir} {dir}/data/mine")), &["outside"]);
    refused(&mut liger(&format!("backup {dir} {}", folder.0.display())), &["not empty", "name another"]);
    assert_eq!(output(&mut liger(&format!("backup {dir}"))).status.code(), Some(2));
    done(&format!("backup {dir} {target}"));
    refused(&mut liger(&format!("backup {dir} {target}")), &["not empty"]);
    refused(&mut liger(&format!("restore {target} {dir}")), &["not empty", "name another"]);
    refused(&mut liger(&format!("restore {target} {again} --port 5000")), &["no clients of SQL"]);
    refused(&mut liger(&format!("restore {dir} {again}")), &["no backup"]);
    for name in ["backup", "data/host-0/manifest", "data/host-1/log-0000000001", "data/host-1/image-1-1"] {
        let path = format!("{target}/{name}");
        let whole = bytes_of(&path);
        for len in [whole.len(), whole.len() - 1] {
            let mut damaged = whole[..len].to_vec();
            damaged[len / 2] ^= 1;
            std::fs::write(&path, &damaged).expect("it can be written");
            refused(&mut liger(&format!("verify {target}")), &[name, "damaged"]);
            refused(
                &mut liger(&format!("restore {target} {again}")),
                &[name.rsplit('/').next().unwrap_or(name)],
            );
        }
        std::fs::remove_file(&path).expect("it is there");
        let missing = if name == "backup" { "no backup" } else { "missing" };
        refused(&mut liger(&format!("restore {target} {again}")), &[name, missing]);
        std::fs::write(&path, &whole).expect("it can be written");
    }
    let other = folder.0.join("backup/data/host-1/image-9-1");
    std::fs::write(&other, "of another one").expect("it can be written");
    refused(&mut liger(&format!("restore {target} {again}")), &["image-9-1", "no file of this backup"]);
    std::fs::remove_file(&other).expect("it is there");
    // As one that was killed.
    std::fs::rename(format!("{target}/backup"), format!("{target}/unfinished")).expect("it is there");
    refused(&mut liger(&format!("restore {target} {again}")), &["interrupted before it was whole"]);
    refused(&mut liger(&format!("verify {target}")), &["interrupted before it was whole"]);
    std::fs::rename(format!("{target}/unfinished"), format!("{target}/backup")).expect("it is there");
    assert!(!exists(&again), "what cannot be restored leaves nothing");
    done(&format!("restore {target} {again}"));
    Up::start(&format!("recover {again}")).end();
}
