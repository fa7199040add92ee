//! Sessions of a pod's hosts that have a clock and process ids of their own, for tests.

#![allow(dead_code, reason = "every test uses a part of it")]

pub mod served;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use liger_engine::db::JoinOptions;
use liger_sql::exec::{EngineDatabase, Surroundings};
use liger_sql::session::{Database, Interrupt, Session, SessionStart};
use liger_sql::temporary::TemporaryPlace;

use crate::client::{Printed, start, temporary_place};
use crate::databases::with_hosts_of;
use crate::support::{SqlHost, pod, pod_with_logs};

/// A session.
pub type Connected = Box<dyn Session + Send>;

/// The clock of the machine.
pub struct Ticking;

impl Surroundings for Ticking {
    fn clock_us(&self) -> i64 {
        SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_micros() as i64
    }

    fn random_u64(&self) -> u64 {
        self.clock_us() as u64
    }

    fn temporary_place(&self) -> Arc<dyn TemporaryPlace> {
        temporary_place()
    }
}

static SESSIONS: AtomicI32 = AtomicI32::new(100);

/// A session with a process id of its own, and that.
pub fn open(database: &EngineDatabase, start: SessionStart) -> (Connected, i32) {
    let process_id = SESSIONS.fetch_add(1, Ordering::Relaxed);
    let session = database.open(SessionStart { process_id, ..start }).expect("a session opens");
    (session, process_id)
}

/// A session that can be interrupted.
pub fn connect_with(database: &EngineDatabase, interrupt: Arc<Interrupt>) -> Connected {
    open(database, SessionStart { interrupt, ..start() }).0
}

/// A session.
pub fn connect(database: &EngineDatabase) -> Connected {
    connect_with(database, Arc::default())
}

/// Runs `body` with a database of each host of a pod, whose clock goes.
pub fn with_pod(hosts: u8, workers: u8, body: impl FnOnce(&[EngineDatabase])) {
    with_databases(pod(hosts).1, workers, body);
}

/// Runs `body` with a database of each of these hosts, whose clock goes.
pub fn with_databases(hosts: Vec<SqlHost>, workers: u8, body: impl FnOnce(&[EngineDatabase])) {
    with_hosts_of(hosts, workers, |all| {
        let open = |host: &Arc<_>| EngineDatabase::new(Arc::clone(host), || Box::new(Ticking));
        body(&all.iter().map(open).collect::<Vec<_>>());
    });
}

/// As [`with_pod`], whose hosts keep logs.
pub fn with_logs(hosts: u8, workers: u8, body: impl FnOnce(&[EngineDatabase])) {
    with_logs_of(hosts, workers, |_| {}, body);
}

/// The same, with these options.
pub fn with_logs_of(
    hosts: u8,
    workers: u8,
    set: impl Fn(&mut JoinOptions),
    body: impl FnOnce(&[EngineDatabase]),
) {
    let (_folder, _pod, hosts) = pod_with_logs(hosts, set);
    with_databases(hosts, workers, body);
}

/// What a session answers.
#[track_caller]
pub fn ask(session: &mut Connected, sql: &str) -> String {
    let mut printed = Printed::default();
    session.simple(sql, &mut printed).unwrap_or_else(|error| panic!("{sql}: {error} {:?}", error.detail));
    printed.lines.join(" ")
}

/// The error that a session answers.
#[track_caller]
pub fn error_of(session: &mut Connected, sql: &str) -> String {
    let error = session.simple(sql, &mut Printed::default()).expect_err("it fails");
    format!("{} {}", error.state, error.message)
}

/// Waits until something holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Locks of relations as any session sees them.
pub fn shown(session: &mut Connected) -> String {
    let sql = "select relation::regclass, mode, granted from pg_locks where locktype = 'relation' \
               and relation <> 'pg_class'::regclass order by 1, 2, 3";
    ask(session, sql)
}

/// Runs a statement in a session of its own until `free` ends the wait; it must not end before.
pub fn waits_until(
    statement: impl FnOnce() -> String + Send,
    watcher: &mut Connected,
    free: impl FnOnce(),
) -> String {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (done, begun) = (&done, Instant::now());
        let waits = scope.spawn(move || {
            let said = statement();
            done.store(true, Ordering::SeqCst);
            said
        });
        until("it waits", || {
            assert!(!done.load(Ordering::SeqCst), "it did not wait");
            shown(watcher).contains("|f")
        });
        while begun.elapsed() < Duration::from_millis(120) {
            assert!(!done.load(Ordering::SeqCst), "it did not wait");
            std::thread::sleep(Duration::from_millis(5));
        }
        free();
        waits.join().expect("no panic")
    })
}
