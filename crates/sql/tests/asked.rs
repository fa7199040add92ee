//! What a session of a pod is asked beside texts of SQL, and what it shows of itself meanwhile.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "sessions are threads")]

mod client;
mod databases;
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{Printed, answer, start};
use databases::with_pod;
use liger_sql::exec::EngineDatabase;
use liger_sql::session::{
    Database, Formats, Interrupt, InterruptReason, Parameters, Session, SessionStart, WaitEvent,
};

fn connect(database: &EngineDatabase) -> Box<dyn Session + Send> {
    database.open(start()).expect("a session opens")
}

#[test]
fn a_statement_that_is_closed_has_no_name_any_more() {
    with_pod(1, 2, |databases| {
        let mut session = connect(&databases[0]);
        session.parse("s", "select 1", &[]).expect("parsed");
        assert!(session.statement_text("s").is_some());
        session.close_statement("s").expect("closed");
        assert!(session.statement_text("s").is_none());
        session.parse("s", "select 2", &[]).expect("the name is free");
    });
}

#[test]
fn rows_are_copied_out_through_a_portal() {
    with_pod(1, 2, |databases| {
        let mut session = connect(&databases[0]);
        session.parse("", "copy (values (1), (2)) to stdout", &[]).expect("parsed");
        let none = Parameters { formats: Formats(&[]), body: &[], count: 0 };
        session.bind("", "", none, Formats(&[])).expect("bound");
        let mut printed = Printed::default();
        session.execute("", 0, true, &mut printed).expect("executed");
        assert_eq!(printed.lines, ["1", "2"]);
    });
}

#[test]
fn a_session_says_when_it_wants_to_be_interrupted() {
    with_pod(1, 2, |databases| {
        let mut session = connect(&databases[0]);
        answer(&mut *session, "set statement_timeout = '3s'; set idle_session_timeout = 4");
        answer(&mut *session, "set idle_in_transaction_session_timeout = 5");
        let wanted = session.timeouts();
        assert_eq!(wanted.statement_ms, 3000);
        assert_eq!((wanted.idle_session_ms, wanted.idle_in_transaction_ms), (4, 5));
        answer(&mut *session, "reset all");
        let wanted = session.timeouts();
        assert_eq!((wanted.statement_ms, wanted.idle_session_ms, wanted.idle_in_transaction_ms), (0, 0, 0));
    });
}

#[test]
fn what_is_told_of_a_pod_can_be_asked_for() {
    with_pod(1, 2, |databases| {
        let mut session = connect(&databases[0]);
        let end = Instant::now() + Duration::from_secs(20);
        for table in ["pod_hosts", "pod_memory", "pod_activity"] {
            // A worker looks at the pod now and then.
            while answer(&mut *session, &format!("select count(*) > 0 from {table}")) != ["t"] {
                assert!(Instant::now() < end, "nothing is told by {table}");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    });
}

#[test]
fn a_statement_shows_the_transaction_that_runs_it() {
    with_pod(1, 3, |databases| {
        answer(&mut *connect(&databases[0]), "create table t (id int); insert into t values (1)");
        let interrupts: [Arc<Interrupt>; 2] = Default::default();
        let places = std::thread::scope(|scope| {
            for interrupt in &interrupts {
                let start = SessionStart { interrupt: interrupt.clone(), ..start() };
                let mut session = databases[0].open(start).expect("a session opens");
                let long = "select count(*) from t, generate_series(1, 20000000)";
                scope.spawn(move || answer(&mut *session, long));
            }
            let end = Instant::now() + Duration::from_secs(20);
            let places = || interrupts.each_ref().map(|interrupt| interrupt.place());
            let both = || places().iter().all(|place| matches!(place, WaitEvent::Running(_)));
            while !both() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            let seen = places();
            interrupts.iter().for_each(|interrupt| interrupt.raise(InterruptReason::Cancel));
            seen
        });
        let [WaitEvent::Running(a), WaitEvent::Running(b)] = places else { panic!("{places:?}") };
        assert_ne!(a, b, "each has a number of its own");
    });
}
