//! LISTEN and NOTIFY, between sessions of all hosts of a pod.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "sessions are threads, and time passes")]

mod client;
mod databases;
mod sessions;
mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::{Printed, start};
use databases::with_hosts;
use liger_sql::exec::{EngineDatabase, SqlHost};
use liger_sql::session::{Client, Notification, SessionStart};
use liger_sql::storage::notices;
use sessions::{Connected, Ticking, ask, connect, error_of, open, until, with_pod};

/// A client that keeps what it is told.
#[derive(Default)]
struct Mailbox(Mutex<Vec<Notification>>);

impl Client for Mailbox {
    fn notify(&self, notification: Notification) {
        self.0.lock().expect("no panic").push(notification);
    }
}

impl Mailbox {
    /// Channels and payloads so far, which are forgotten.
    fn take(&self) -> Vec<String> {
        let taken = std::mem::take(&mut *self.0.lock().expect("no panic"));
        taken.into_iter().map(|one| format!("{} {}", one.channel, one.payload)).collect()
    }

    fn len(&self) -> usize {
        self.0.lock().expect("no panic").len()
    }

    /// Waits for exactly these.
    #[track_caller]
    fn expect(&self, wanted: &[&str]) {
        until(&format!("{wanted:?} arrive"), || self.len() >= wanted.len());
        assert_eq!(self.take(), wanted);
    }
}

/// A session, its process id and its mail.
fn listener(database: &EngineDatabase) -> (Connected, i32, Arc<Mailbox>) {
    let mail = Arc::new(Mailbox::default());
    let (session, process_id) = open(database, SessionStart { client: mail.clone(), ..start() });
    (session, process_id, mail)
}

#[test]
fn listeners_of_all_hosts_are_told_after_the_commit() {
    with_pod(2, 3, |databases| {
        let (mut a, from, to_a) = listener(&databases[0]);
        let (mut b, _, to_b) = listener(&databases[1]);
        let (mut c, _, to_c) = listener(&databases[1]);
        ask(&mut a, "create table t (x int); listen news; listen news");
        ask(&mut b, "listen news; listen \"Other\"");
        ask(&mut c, "listen nothing");
        ask(&mut a, "notify news, 'one'");
        assert_eq!(to_a.take(), ["news one"], "its own comes with the answer");
        to_b.expect(&["news one"]);
        // In their order, equal ones once, and not before the commit.
        ask(&mut a, "begin; notify news, 'two'; notify \"Other\"; insert into t values (1)");
        ask(&mut a, "select pg_notify('news', 'three'); notify news, 'two'; select pg_notify('news', null)");
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!((to_a.len(), to_b.len()), (0, 0), "not before the commit");
        ask(&mut a, "commit");
        assert_eq!(to_a.take(), ["news two", "news three", "news "]);
        until("they arrive", || to_b.len() == 4);
        assert!(to_b.0.lock().expect("no panic").iter().all(|one| one.process_id == from));
        assert_eq!(to_b.take(), ["news two", "Other ", "news three", "news "]);
        // Nothing of what is rolled back, whole or in part.
        ask(&mut b, "begin; notify news, 'four'; rollback");
        ask(
            &mut b,
            "begin; notify news, '5'; savepoint s; notify news, '6'; rollback to s; notify news, '7'",
        );
        ask(&mut b, "notify news, '6'; commit");
        to_a.expect(&["news 5", "news 7", "news 6"]);
        assert_eq!(to_b.take(), ["news 5", "news 7", "news 6"]);
        assert_eq!(error_of(&mut b, "select pg_notify('news', 'x'), 1 / 0"), "22012 division by zero");
        ask(&mut b, "notify news, 'last'");
        to_a.expect(&["news last"]);
        assert_eq!(to_c.len(), 0);
    });
}

#[test]
fn who_does_not_listen_is_told_nothing() {
    with_pod(2, 3, |databases| {
        let (mut a, _, to_a) = listener(&databases[0]);
        let (mut b, _, to_b) = listener(&databases[1]);
        let mut sender = connect(&databases[1]);
        ask(&mut a, "listen x; begin; listen y; listen z; rollback; begin; listen w; unlisten x; commit");
        let channels = "select pg_listening_channels() order by 1";
        assert_eq!(ask(&mut a, channels), "w");
        ask(&mut a, "listen x; listen y");
        ask(&mut b, "listen y");
        assert_eq!(ask(&mut a, channels), "w x y");
        ask(&mut sender, "notify x; notify y; notify z");
        to_a.expect(&["x ", "y "]);
        to_b.expect(&["y "]);
        ask(&mut a, "begin; unlisten *; listen y");
        assert_eq!(ask(&mut a, channels), "w x y", "nothing happens before the commit");
        ask(&mut a, "commit; discard all; listen x");
        assert_eq!(ask(&mut a, channels), "x");
        ask(&mut sender, "notify y, '2'; notify x, '2'");
        to_a.expect(&["x 2"]);
        to_b.expect(&["y 2"]);
        // Listening and telling at once.
        ask(&mut a, "begin; listen q; notify q, 'self'; commit");
        assert_eq!(to_a.take(), ["q self"]);
        assert_eq!(ask(&mut a, "select pg_notification_queue_usage()"), "0");
    });
}

#[test]
fn names_and_payloads_have_limits() {
    with_pod(1, 3, |databases| {
        let (mut a, _, to_a) = listener(&databases[0]);
        ask(&mut a, "listen c");
        let refused = |a: &mut Connected, sql: &str| error_of(a, sql);
        assert_eq!(refused(&mut a, "select pg_notify('', 'x')"), "22023 channel name cannot be empty");
        assert_eq!(refused(&mut a, "select pg_notify(null, 'x')"), "22023 channel name cannot be empty");
        let long = "select pg_notify(repeat('c', 64), 'x')";
        assert_eq!(refused(&mut a, long), "22023 channel name too long");
        let long = "select pg_notify('c', repeat('x', 8000))";
        assert_eq!(refused(&mut a, long), "22023 payload string too long");
        ask(&mut a, "select pg_notify('c', repeat('x', n)) from generate_series(7999, 7997, -1) n");
        ask(&mut a, "select pg_notify('c', 'short'), pg_notify('c', repeat('y', 7999))");
        let lengths: Vec<usize> = to_a.take().iter().map(|one| one.len() - 2).collect();
        assert_eq!(lengths, [7999, 7998, 7997, 5, 7999]);
    });
}

/// Rows in a host's inbox.
fn waiting(host: &SqlHost) -> usize {
    let classes = host.catalog.classes().clone();
    host.slots.beside(None, move |running| notices::take(running.tx, &classes)).expect("it is read").0.len()
}

#[test]
fn nothing_is_left_lying() {
    with_hosts(2, 3, |hosts| {
        let open = |host: &Arc<SqlHost>| EngineDatabase::new(host.clone(), || Box::new(Ticking));
        let databases: Vec<EngineDatabase> = hosts.iter().map(open).collect();
        let mut sender = connect(&databases[0]);
        ask(&mut sender, "notify x, 'to nobody'");
        assert_eq!(
            hosts.iter().map(|host| waiting(host)).sum::<usize>(),
            0,
            "where nobody listens nothing is put"
        );
        let (mut b, _, to_b) = listener(&databases[1]);
        ask(&mut b, "listen x");
        ask(&mut sender, "notify y, 'to nobody'; notify x, 'to b'");
        to_b.expect(&["x to b"]);
        assert_eq!(hosts.iter().map(|host| waiting(host)).sum::<usize>(), 0, "what was read is gone");
        // The end of a session ends its listening, and the last one its host's.
        drop(b);
        until("the host has fallen silent", || {
            let put = |host: &SqlHost| {
                let catalog = host.catalog.clone();
                let notice = notices::Notice { process_id: 1, channel: "x".into(), payload: String::new() };
                let job = move |running: &mut liger_sql::slots::Running<'_>| {
                    notices::put(
                        running.tx,
                        catalog.classes(),
                        catalog.numbers(),
                        std::slice::from_ref(&notice),
                    )
                };
                host.slots.beside(None, job).expect("it is put")
            };
            !put(&hosts[0])
        });
        assert_eq!(to_b.len(), 0);
    });
}

#[test]
fn each_listener_hears_each_sender_in_order() {
    const SENT: usize = 60;
    with_pod(2, 3, |databases| {
        let listeners = [0, 1, 1].map(|at| {
            let (mut session, _, mail) = listener(&databases[at]);
            ask(&mut session, "listen jobs");
            (session, mail)
        });
        let mut first = connect(&databases[0]);
        ask(&mut first, "create table sent (who int, n int, primary key (who, n))");
        let send = |who: usize| {
            let mut session = connect(&databases[who % 2]);
            let mut again = 0;
            for n in 0..SENT {
                let insert = format!("insert into sent values ({who}, {n}); notify jobs, '{who} {n}'");
                let block = format!("begin; {insert}; commit");
                let sql = if n % 2 == 0 { format!("select pg_notify('jobs', '{who} {n}')") } else { block };
                while let Err(error) = session.simple(&sql, &mut Printed::default()) {
                    assert_eq!(error.state.to_string(), "40001", "{error}");
                    session.simple("rollback", &mut Printed::default()).expect("it ends");
                    again += 1;
                }
            }
            again
        };
        let again: Vec<usize> = std::thread::scope(|scope| {
            let send = &send;
            let all: Vec<_> = (0..4).map(|who| scope.spawn(move || send(who))).collect();
            all.into_iter().map(|one| one.join().expect("no panic")).collect()
        });
        println!("transactions that met a conflict and were sent again: {again:?} of {SENT} each");
        for (_, mail) in &listeners {
            until("all arrive", || mail.len() >= 4 * SENT);
            let got = mail.take();
            for who in 0..4 {
                let own: Vec<&String> =
                    got.iter().filter(|one| one.starts_with(&format!("jobs {who} "))).collect();
                let wanted: Vec<String> = (0..SENT).map(|n| format!("jobs {who} {n}")).collect();
                assert_eq!(own, wanted.iter().collect::<Vec<_>>());
            }
        }
    });
}

#[test]
fn what_commits_after_listen_has_answered_is_heard() {
    with_pod(2, 3, |databases| {
        let mut sender = connect(&databases[1]);
        for round in 0..20 {
            let (mut a, _, to_a) = listener(&databases[round % 2]);
            ask(&mut a, "listen c");
            ask(&mut sender, &format!("notify c, '{round}'"));
            to_a.expect(&[&format!("c {round}")]);
            drop(a);
        }
    });
}
