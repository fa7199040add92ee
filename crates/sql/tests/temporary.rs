//! Temporary objects over a pod: whose they are, what others notice of them, and when they are gone. What
//! statements answer about them is in `logic/temporary.sql`.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "sessions are threads, and time passes")]

mod client;
mod databases;
mod sessions;
mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use databases::with_hosts;
use liger_sql::exec::{EngineDatabase, SqlHost};
use sessions::{Connected, Ticking, ask, connect, error_of, with_pod};

fn database(host: &Arc<SqlHost>) -> EngineDatabase {
    EngineDatabase::new(host.clone(), || Box::new(Ticking))
}

#[test]
fn sessions_of_all_hosts_have_their_own() {
    with_pod(2, 3, |databases| {
        let mut all: Vec<Connected> = [0, 0, 1].map(|host: usize| connect(&databases[host])).into();
        ask(&mut all[0], "create table t (a int primary key, b text); insert into t values (0, 'everybody')");
        for (number, session) in (1..).zip(&mut all) {
            ask(session, "create temp table t (a int primary key, b text)");
            ask(session, &format!("insert into t values ({number}, 'mine')"));
        }
        for (number, session) in (1..).zip(&mut all) {
            assert_eq!(ask(session, "select a from t"), number.to_string());
            assert_eq!(ask(session, "select b from public.t"), "everybody");
            assert_eq!(ask(session, "select count(*) from pg_class where relname = 't'"), "2");
        }
        ask(&mut all[1], "drop table t");
        assert_eq!(ask(&mut all[1], "select b from t"), "everybody");
        assert_eq!(ask(&mut all[0], "select b from t"), "mine");
    });
}

#[test]
fn nobody_else_hears_of_them_and_they_go_with_their_session() {
    with_hosts(1, 3, |hosts| {
        let (host, database) = (&hosts[0], database(&hosts[0]));
        let mut other = connect(&database);
        ask(&mut other, "create table shared (a int primary key)");
        let version = || {
            host.slots.look().expect("a worker is free");
            host.catalog.cached().version()
        };
        let bytes = || host.slots.private_bytes().load(Ordering::Relaxed);
        let before = version();
        let mut session = connect(&database);
        // Who has read the catalog holds up whoever changes it.
        ask(&mut other, "begin; select * from shared");
        ask(&mut session, "create temp table t (a serial primary key, b text); create index on t (b)");
        ask(&mut session, "insert into t (b) select md5(n::text) from generate_series(1, 500) n");
        ask(&mut session, "alter table t add column c int default 3; create temp view v as select c from t");
        ask(
            &mut session,
            "truncate t; insert into t (b) values ('x'); drop view v; create sequence pg_temp.s",
        );
        assert_eq!(ask(&mut session, "select a, b, c, nextval('s') from t"), "501|x|3|1");
        ask(&mut other, "commit");
        assert_eq!(version(), before, "the pod's catalog is what it was");
        assert!(bytes() > 0);
        drop(session);
        assert_eq!(bytes(), 0);
        let mut session = connect(&database);
        assert_eq!(error_of(&mut session, "select * from t"), "42P01 relation \"t\" does not exist");
    });
}

#[test]
fn a_transaction_takes_them_with_it_whatever_ends_it() {
    with_pod(1, 3, |databases| {
        let mut session = connect(&databases[0]);
        ask(&mut session, "create temp table t (a int primary key, b text)");
        ask(&mut session, "insert into t values (1, 'kept'), (2, 'kept')");
        // An error within a block, and a rollback.
        ask(&mut session, "begin; update t set b = 'lost'; create temp table made (a int); truncate t");
        assert_eq!(error_of(&mut session, "select 1 / 0"), "22012 division by zero");
        ask(&mut session, "rollback");
        assert_eq!(ask(&mut session, "select * from t order by a"), "1|kept 2|kept");
        assert!(error_of(&mut session, "select * from made").starts_with("42P01"));
        // And the next transaction works on what is there.
        ask(&mut session, "insert into t values (3, 'new'); delete from t where a = 2");
        assert_eq!(ask(&mut session, "select * from t order by a"), "1|kept 3|new");
    });
}

#[test]
fn what_was_committed_stays_when_a_message_fails_that_has_changed_nothing() {
    with_pod(1, 2, |databases| {
        let mut session = connect(&databases[0]);
        ask(&mut session, "create temp table t (a int); insert into t values (7)");
        session.parse("", "select nothing", &[]).expect_err("there is no such column");
        session.sync().expect("nothing is left to end");
        assert_eq!(ask(&mut session, "select a from t"), "7");
    });
}

#[test]
fn statements_that_were_prepared_follow_the_names() {
    with_pod(1, 3, |databases| {
        let mut session = connect(&databases[0]);
        ask(&mut session, "create table t (a int); insert into t values (1)");
        ask(&mut session, "prepare q as select a from t");
        assert_eq!(ask(&mut session, "execute q"), "1");
        ask(&mut session, "create temp table t (a int); insert into t values (2)");
        assert_eq!(ask(&mut session, "execute q"), "2");
        ask(&mut session, "begin; drop table t");
        assert_eq!(ask(&mut session, "execute q"), "1");
        ask(&mut session, "rollback");
        assert_eq!(ask(&mut session, "execute q"), "2");
        ask(&mut session, "discard temp");
        assert_eq!(ask(&mut session, "execute q"), "1");
    });
}

#[test]
fn nothing_of_everybody_s_refers_to_them() {
    with_pod(1, 3, |databases| {
        let mut session = connect(&databases[0]);
        ask(&mut session, "create temp sequence s; create type pg_temp.color as enum ('red', 'green')");
        let refused =
            |what: &str| format!("0A000 a permanent table that refers to temporary {what} is not supported");
        for (statement, what) in [
            ("create table t (a int default nextval('s'))", "sequence \"s\""),
            ("create table t (a pg_temp.color)", "type \"color\""),
            ("create table t (a pg_temp.color[])", "type \"color\""),
        ] {
            assert_eq!(error_of(&mut session, statement), refused(what));
        }
        ask(&mut session, "create table t (a int)");
        let altered = error_of(&mut session, "alter table t add column b pg_temp.color");
        assert_eq!(altered, refused("type \"color\""));
        ask(&mut session, "create temp table own (a int default nextval('s'), b pg_temp.color)");
        ask(&mut session, "insert into own (b) values ('green')");
        assert_eq!(ask(&mut session, "select * from own"), "1|green");
    });
}
