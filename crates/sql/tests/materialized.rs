//! Materialized views between the hosts of a pod: what one refreshes all read, and who waits for whom.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "sessions are threads, and time passes")]

mod client;
mod databases;
mod sessions;
mod support;

use std::time::Duration;

use sessions::{ask, connect, error_of, waits_until, with_pod};

const POPULATED: &str = "select relispopulated, relkind from pg_class where relname = 'm'";

#[test]
fn what_one_host_refreshes_all_hosts_read() {
    with_pod(2, 3, |databases| {
        let (mut a, mut b) = (connect(&databases[0]), connect(&databases[1]));
        ask(&mut a, "create table t (a int primary key, b text)");
        ask(&mut b, "insert into t select i, 'v' || i from generate_series(1, 40) i");
        ask(&mut a, "create materialized view m as select a, b from t with no data");
        let told = error_of(&mut b, "select * from m");
        assert_eq!(told, "55000 materialized view \"m\" has not been populated");
        ask(&mut b, "refresh materialized view m");
        assert_eq!(ask(&mut a, POPULATED), "t|m");
        assert_eq!(ask(&mut a, "select count(*), min(b) from m"), "40|v1");
        ask(&mut a, "create unique index on m (a); prepare p (int) as select b from m where a = $1");
        for (n, (host, concurrently)) in
            [(&mut b, ""), (&mut connect(&databases[0]), "concurrently")].into_iter().enumerate()
        {
            ask(host, &format!("update t set b = 'new {n}' where a = 7; delete from t where a = {}", n + 1));
            assert_eq!(ask(&mut a, "execute p (1)").is_empty(), n > 0, "as it was");
            ask(host, &format!("refresh materialized view {concurrently} m"));
            assert_eq!(ask(&mut a, "execute p (7)"), format!("new {n}"));
            assert_eq!(ask(host, "select count(*) from m"), (39 - n).to_string());
        }
        ask(&mut b, "alter table t rename to u; alter table u rename column b to c");
        ask(&mut a, "insert into u values (99, 'last'); refresh materialized view m");
        assert_eq!(ask(&mut b, "select b from m where a = 99"), "last");
        ask(&mut a, "refresh materialized view m with no data");
        assert_eq!(ask(&mut b, POPULATED), "f|m");
        ask(&mut b, "drop table u cascade");
        assert_eq!(error_of(&mut a, "select * from m"), "42P01 relation \"m\" does not exist");
    });
}

#[test]
fn a_refresh_waits_for_readers_and_they_for_it() {
    with_pod(2, 3, |databases| {
        let (mut reader, mut watcher) = (connect(&databases[0]), connect(&databases[0]));
        ask(&mut watcher, "create table t (a int primary key); insert into t values (1)");
        ask(&mut watcher, "create materialized view m as select a from t; create unique index on m (a)");
        ask(&mut watcher, "insert into t values (2)");
        ask(&mut reader, "begin; select * from m");
        let refresh =
            || ask(&mut connect(&databases[1]), "refresh materialized view m; select count(*) from m");
        let said = waits_until(refresh, &mut watcher, || _ = ask(&mut reader, "commit"));
        assert_eq!(said, "2");
        let mut refreshes = connect(&databases[1]);
        ask(&mut refreshes, "insert into t values (3)");
        ask(&mut refreshes, "begin; refresh materialized view m");
        let read = || ask(&mut connect(&databases[0]), "select count(*) from m");
        let said = waits_until(read, &mut watcher, || _ = ask(&mut refreshes, "commit"));
        assert_eq!(said, "3");
        // One that changes no row keeps nobody from reading; another one waits for it.
        ask(&mut refreshes, "begin; refresh materialized view concurrently m");
        assert_eq!(ask(&mut reader, "select count(*) from m"), "3");
        std::thread::scope(|scope| {
            let sql = "refresh materialized view concurrently m; select count(*) from m";
            let other = scope.spawn(|| ask(&mut connect(&databases[0]), sql));
            std::thread::sleep(Duration::from_millis(100));
            assert!(!other.is_finished());
            ask(&mut refreshes, "commit");
            assert_eq!(other.join().expect("no panic"), "3");
        });
    });
}
