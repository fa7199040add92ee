//! `pg_cancel_backend` and `pg_terminate_backend`, from any host of a pod to sessions of any other.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "sessions are threads, and time passes")]

mod client;
mod databases;
mod sessions;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

use client::{Printed, start};
use databases::with_hosts;
use liger_sql::exec::EngineDatabase;
use liger_sql::session::{
    Database, Interrupt, InterruptReason, NUMBER_BITS, ServerView, SessionStart, host_of,
};
use sessions::served::Sessions;
use sessions::{Connected, Ticking, ask, error_of};

static NUMBERS: AtomicI32 = AtomicI32::new(1);

/// A host: its number, its database and its server.
struct Served(u8, EngineDatabase, Arc<Sessions>);

impl Served {
    /// A session of a role, and its process id.
    fn connect(&self, user: &str) -> (Connected, i32) {
        let process_id = i32::from(self.0) << NUMBER_BITS | NUMBERS.fetch_add(1, Ordering::Relaxed);
        let (user, interrupt) = (user.to_string(), Arc::<Interrupt>::default());
        self.2.0.lock().expect("no panic").insert(process_id, (user.clone(), interrupt.clone()));
        let start = SessionStart { user, process_id, interrupt, server: self.2.clone(), ..start() };
        (self.1.open(start).expect("a session opens"), process_id)
    }

    /// A session ends.
    fn leave(&self, session: Connected, process_id: i32) {
        drop(session);
        self.2.0.lock().expect("no panic").remove(&process_id);
    }

    /// Forgets that it was cancelled.
    fn rearm(&self, process_id: i32) {
        self.2.0.lock().expect("no panic")[&process_id].1.rearm();
    }
}

/// Runs `body` with the hosts of a pod; roles a, b (a member of a) and s (of `pg_signal_backend`) are there.
fn with_pod(body: impl FnOnce(&[Served])) {
    with_hosts(2, 2, |all| {
        let open = |host: &Arc<_>| EngineDatabase::new(Arc::clone(host), || Box::new(Ticking));
        let serve = |(at, host)| Served(at as u8, open(host), Arc::default());
        let served: Vec<Served> = all.iter().enumerate().map(serve).collect();
        let roles = "create role a login; create role b login in role a; create role c login;
                     create role s login in role pg_signal_backend";
        ask(&mut served[0].connect("postgres").0, roles);
        body(&served);
    });
}

fn stop(session: &mut Connected, how: &str, process_id: i32) -> (String, Vec<String>) {
    let mut printed = Printed::default();
    let asked = session.simple(&format!("select pg_{how}_backend({process_id})"), &mut printed);
    let answer = asked.map_or_else(|e| format!("{} {}", e.state, e.message), |()| printed.lines.join(" "));
    (answer, printed.notices)
}

#[test]
fn sessions_of_other_hosts_stop() {
    with_pod(|hosts| {
        let endless = "select count(*) from generate_series(1, 100000) a, generate_series(1, 100000) b";
        for (from, to) in [(0, 1), (1, 0), (1, 1)] {
            let (mut asking, _) = hosts[from].connect("postgres");
            for (sql, how, state) in [
                (endless, "cancel", "57014 canceling statement due to user request"),
                ("select pg_sleep(1000)", "cancel", "57014 canceling statement due to user request"),
                (endless, "terminate", "57P01 terminating connection due to administrator command"),
            ] {
                let (mut asked, process_id) = hosts[to].connect("c");
                assert_eq!(usize::from(host_of(process_id)), to);
                let ended = std::thread::scope(|scope| {
                    let running = scope.spawn(|| (error_of(&mut asked, sql), Instant::now()));
                    std::thread::sleep(std::time::Duration::from_millis(100));
                    let begun = Instant::now();
                    assert_eq!(stop(&mut asking, how, process_id), ("t".to_string(), Vec::new()));
                    let (error, ended) = running.join().expect("no panic");
                    assert_eq!(error, state);
                    ended - begun
                });
                println!("{ended:?} {from} -> {to}: {how} {sql}");
                assert!(ended.as_millis() < 1500, "{ended:?}: {sql}");
                if how == "cancel" {
                    hosts[to].rearm(process_id);
                    assert_eq!(ask(&mut asked, "select 1"), "1", "it goes on");
                }
                hosts[to].leave(asked, process_id);
                let warning = format!("PID {process_id} is not a PostgreSQL backend process");
                let (answer, notices) = stop(&mut asking, how, process_id);
                assert_eq!(answer, "f");
                assert!(notices.len() == 1 && notices[0].contains(&warning), "{notices:?}");
            }
        }
        let (mut asking, _) = hosts[0].connect("postgres");
        for nobody in [0, -5, i32::MAX, i32::MIN, 9 << NUMBER_BITS, 1 << NUMBER_BITS, 15 << NUMBER_BITS | 7] {
            assert_eq!(stop(&mut asking, "cancel", nobody).0, "f", "{nobody}");
        }
    });
}

#[test]
fn changes_of_tables_stop() {
    with_pod(|hosts| {
        let (mut asked, process_id) = hosts[1].connect("postgres");
        ask(&mut asked, "create table many (a int); insert into many select generate_series(1, 60000)");
        for sql in ["create index on many (a)", "alter table many alter a type text"] {
            let error = std::thread::scope(|scope| {
                let running = scope.spawn(|| error_of(&mut asked, sql));
                std::thread::sleep(std::time::Duration::from_millis(5));
                // As a cancel request of the client: no other statement runs while the catalog is changed.
                hosts[1].2.role_of(process_id, Some(InterruptReason::Cancel)).expect("it is there");
                running.join().expect("no panic")
            });
            assert_eq!(error, "57014 canceling statement due to user request", "{sql}");
            hosts[1].rearm(process_id);
            assert_eq!(ask(&mut asked, "select count(*), sum(a) from many"), "60000|1800030000");
        }
    });
}

#[test]
fn who_may_stop_whom() {
    with_pod(|hosts| {
        let of = |user: &str| hosts[1].connect(user);
        let ((mut on_a, a), (_on_c, c), (_on_root, root)) = (of("a"), of("c"), of("postgres"));
        for host in hosts {
            let may = |user: &str, how: &str, process_id: i32| {
                let (mut session, own) = host.connect(user);
                let (answer, _) = stop(&mut session, how, process_id);
                host.leave(session, own);
                answer
            };
            let member = "42501 must be a member of the role whose query is being canceled or member of \
                          pg_signal_backend";
            assert_eq!(may("a", "cancel", a), "t");
            assert_eq!(may("b", "cancel", a), "t");
            assert_eq!(may("c", "cancel", a), member);
            assert_eq!(may("s", "cancel", c), "t");
            assert_eq!(may("postgres", "cancel", root), "t");
            let superuser = "42501 must be a superuser to cancel superuser query";
            assert_eq!(may("s", "cancel", root), superuser);
            let superuser = "42501 must be a superuser to terminate superuser process";
            assert_eq!(may("s", "terminate", root), superuser);
            let member = "42501 must be a member of the role whose process is being terminated or member of \
                          pg_signal_backend";
            assert_eq!(may("a", "terminate", c), member);
        }
        hosts[1].rearm(a);
        assert_eq!(ask(&mut on_a, "select 1"), "1", "who may not stops nobody");
    });
}

#[test]
fn terminate_may_wait_for_the_end() {
    with_pod(|hosts| {
        let (mut asking, _) = hosts[0].connect("postgres");
        ask(&mut asking, "create table held (k int); insert into held values (1)");
        ask(&mut asking, "grant all on held to a");
        for host in hosts {
            let (mut session, process_id) = host.connect("a");
            ask(&mut session, "begin; select k from held");
            let wait = |ms: i64| format!("select pg_terminate_backend({process_id}, {ms})");
            let refused = "22003 \"timeout\" must not be negative";
            assert_eq!(error_of(&mut asking, &wait(-1)), refused);
            let mut printed = Printed::default();
            asking.simple(&wait(50), &mut printed).expect("it answers");
            assert_eq!(printed.lines, ["f"]);
            let warning = format!("backend with PID {process_id} did not terminate within 50 milliseconds");
            assert!(printed.notices[0].contains(&warning), "{:?}", printed.notices);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(std::time::Duration::from_millis(50));
                    host.leave(session, process_id);
                });
                // It ends its block, for which it needs a worker.
                assert_eq!(ask(&mut asking, &format!("{} from held", wait(20_000))), "t");
            });
        }
    });
}
