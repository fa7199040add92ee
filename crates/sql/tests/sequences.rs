//! Sequences over a pod: where they go on after they were set, on every host and behind savepoints. What
//! statements answer about them is in `logic/*.sql`.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "sessions are threads, and time passes")]

mod client;
mod databases;
mod sessions;
mod support;

use sessions::{Connected, ask, connect, with_pod};

/// The catalog stays this transaction's when a savepoint takes its change back: nobody else may set the
/// number then.
#[test]
fn a_restart_goes_with_its_savepoint_and_the_session_goes_on() {
    with_pod(1, 3, |databases| {
        let mut session = connect(&databases[0]);
        let mut ask = |sql: &str| ask(&mut session, sql);
        ask("create sequence s; create table t (a int generated always as identity, b int)");
        ask("begin; savepoint p; alter sequence s restart with 100");
        assert_eq!(ask("select nextval('s')"), "100");
        ask("rollback to p");
        assert_eq!(ask("select nextval('s')"), "1");
        ask("commit; begin; savepoint p; alter table t alter a restart with 100; rollback to p");
        assert_eq!(ask("insert into t (b) values (1) returning a"), "1");
        ask("commit");
        assert_eq!(ask("select nextval('s')"), "2");
    });
}

/// What a host has taken beforehand it gives up, as PostgreSQL's session does; what others have is theirs.
#[test]
fn a_sequence_that_is_set_goes_on_from_there() {
    with_pod(2, 3, |databases| {
        let (mut a, mut b) = (connect(&databases[0]), connect(&databases[1]));
        ask(&mut a, "create sequence s cache 10");
        let next = |session: &mut Connected| ask(session, "select nextval('s')");
        assert_eq!([next(&mut a), next(&mut b)], ["1", "11"]);
        ask(&mut a, "select setval('s', 100)");
        assert_eq!([next(&mut a), next(&mut b)], ["101", "12"]);
        ask(&mut b, "alter sequence s restart with 500");
        assert_eq!([next(&mut b), next(&mut a)], ["500", "102"]);
        ask(&mut a, "alter sequence s restart");
        ask(&mut b, "select setval('s', 700, false)");
        assert_eq!([next(&mut b), next(&mut a)], ["700", "710"]);
    });
}
