//! Transactions that read a snapshot, through SQL: what they see, what they may, and who is in whose way.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "sessions are threads")]

mod client;
mod databases;
mod sessions;
mod support;

use liger_engine::row::KeepLimits;
use liger_sql::exec::EngineDatabase;
use sessions::{Connected, ask, connect, error_of, with_logs, with_logs_of, with_pod};

/// Sessions on two hosts, and a table that both have rows of: 200 of 10.
fn two(databases: &[EngineDatabase]) -> [Connected; 2] {
    let mut sessions = [connect(&databases[0]), connect(&databases[1])];
    // Who has to wait is in the way of somebody.
    for session in &mut sessions {
        ask(session, "set lock_timeout = 20; set default_transaction_isolation = 'serializable'");
    }
    ask(&mut sessions[0], "create table t (id int primary key, v int)");
    ask(&mut sessions[0], "insert into t select g, 10 from generate_series(1, 200) g");
    sessions
}

#[test]
fn a_transaction_that_only_reads_sees_one_moment() {
    with_logs(2, 3, |databases| {
        let [mut writer, mut reader] = two(databases);
        let sum = "select count(*), sum(v) from t";
        for begin in [
            "begin read only",
            "begin; set transaction read only",
            "begin isolation level repeatable read, read only",
            "begin isolation level serializable",
        ] {
            if !begin.contains("read only") {
                ask(&mut reader, "set default_transaction_read_only = on");
            }
            ask(&mut reader, begin);
            assert_eq!(ask(&mut reader, sum), "200|2000", "{begin}");
            for sql in
                ["update t set v = v + 1", "delete from t where id = 7", "insert into t values (1000, 5)"]
            {
                ask(&mut writer, sql);
            }
            assert_eq!(ask(&mut reader, sum), "200|2000", "{begin}");
            assert_eq!(ask(&mut reader, "select v from t where id = 7"), "10", "{begin}");
            assert_eq!(ask(&mut reader, "select v from t where id = 1000"), "", "{begin}");
            ask(&mut reader, "commit");
            assert_eq!(ask(&mut reader, sum), "200|2194", "{begin}");
            ask(&mut writer, "delete from t");
            ask(&mut writer, "insert into t select g, 10 from generate_series(1, 200) g");
        }
    });
}

#[test]
fn whoever_reads_and_whoever_writes_are_not_in_each_others_way() {
    with_logs(2, 3, |databases| {
        let [mut writer, mut reader] = two(databases);
        ask(&mut writer, "begin; update t set v = v + 1; insert into t values (201, 1)");
        // Alone, in a block, and as a copy.
        assert_eq!(ask(&mut reader, "select count(*), sum(v) from t"), "200|2000");
        assert_eq!(ask(&mut reader, "begin read only; select sum(v) from t"), "2000");
        assert_eq!(ask(&mut reader, "copy (select sum(v) from t) to stdout").trim(), "2000");
        // Volatile functions and queries within others are no reason to lock.
        assert_eq!(ask(&mut reader, "select (select sum(v) from t), clock_timestamp() is null"), "2000|f");
        ask(&mut writer, "commit");
        assert_eq!(ask(&mut reader, "select sum(v) from t"), "2000");
        // Others find nothing held.
        ask(&mut writer, "truncate t; alter table t add column w int default 3; create index on t (v)");
        ask(&mut writer, "insert into t values (1, 2, 3)");
        assert_eq!(ask(&mut reader, "select * from t where v = 10 order by id limit 1"), "1|10");
        ask(&mut reader, "commit");
        assert_eq!(ask(&mut reader, "select * from t"), "1|2|3");
    });
}

#[test]
fn what_a_snapshot_cannot_do_is_refused() {
    with_logs(2, 3, |databases| {
        let [mut other, mut session] = two(databases);
        let refused = |session: &mut Connected, sql: &str| {
            let error = error_of(session, sql);
            ask(session, "rollback");
            error
        };
        ask(&mut session, "begin read only; select count(*) from t");
        let late = "25001 transaction read-write mode must be set before any query";
        assert_eq!(refused(&mut session, "set transaction read write"), late);
        ask(&mut session, "begin read only; select count(*) from t");
        assert_eq!(
            refused(&mut session, "lock table t in exclusive mode"),
            "25006 cannot lock tables in this mode in a read-only transaction behind its first query"
        );
        ask(&mut session, "begin read only; select count(*) from t; lock table t in access share mode");
        let writes = "25006 cannot execute UPDATE in a read-only transaction";
        assert_eq!(refused(&mut session, "update t set v = 1"), writes);
        // Locked before its first query, a table is locked.
        ask(&mut session, "begin read only; lock table t in exclusive mode; select count(*) from t");
        let waits = "55P03 canceling statement due to lock timeout";
        assert_eq!(error_of(&mut other, "update t set v = 1"), waits);
        ask(&mut session, "commit");
        // The session's own tables change.
        ask(&mut session, "create temp table own (a int); begin read only; savepoint a");
        ask(&mut session, "insert into own select v from t; savepoint b; insert into own values (0)");
        assert_eq!(error_of(&mut session, "select 1 / 0 from t"), "22012 division by zero");
        ask(&mut session, "rollback to b");
        assert_eq!(ask(&mut session, "select count(*) from own, (select count(*) from t) s"), "200");
        ask(&mut session, "commit");
        assert_eq!(ask(&mut session, "select count(*) from own"), "200");
    });
}

#[test]
fn sessions_of_all_hosts_share_a_snapshot() {
    with_logs(2, 3, |databases| {
        let [mut writer, mut reader] = two(databases);
        let mut others = [connect(&databases[0]), connect(&databases[1])];
        let sum = "select count(*), sum(v) from t";
        let name = ask(&mut reader, "begin read only; select pg_export_snapshot()");
        ask(&mut writer, "update t set v = v + 1");
        let import = format!("set transaction snapshot '{name}'");
        for other in &mut others {
            ask(other, &format!("begin isolation level repeatable read, read only; {import}"));
            assert_eq!(ask(other, sum), "200|2000");
            let late = "25001 SET TRANSACTION SNAPSHOT must be called before any query";
            assert_eq!(error_of(other, &import), late);
            assert_eq!(error_of(other, sum).split(' ').next(), Some("25P02"));
            ask(other, &format!("rollback; begin isolation level serializable, read only; {import}"));
        }
        // Whoever reads it goes on when the one that has exported it has ended, and nobody else gets it then.
        ask(&mut reader, "commit");
        for other in &mut others {
            assert_eq!(ask(other, sum), "200|2000");
            ask(other, "commit");
        }
        assert_eq!(ask(&mut reader, sum), "200|2200");
        let begin = "begin read only";
        for (begin, import, refused) in [
            (begin, &*import, "55000 the snapshot is not there any more"),
            (begin, "set transaction snapshot '1'", "22023 invalid snapshot identifier: \"1\""),
            (
                begin,
                "set transaction snapshot 'FFFFFFFFFFFFFFFF-1'",
                "55000 the snapshot is not there any more",
            ),
            (
                "begin read only; lock table t in exclusive mode",
                &*import,
                "25001 SET TRANSACTION SNAPSHOT must be called before LOCK TABLE",
            ),
            (
                "begin",
                &*import,
                "0A000 SET TRANSACTION SNAPSHOT in a transaction that may write is not supported",
            ),
        ] {
            ask(&mut reader, begin);
            assert_eq!(error_of(&mut reader, import), refused);
            ask(&mut reader, "rollback");
        }
        // The catalog is that of the snapshot.
        let name = ask(&mut reader, "begin read only; select pg_export_snapshot()");
        ask(&mut writer, "create table u (a int)");
        ask(&mut others[0], "begin isolation level serializable, read only");
        let changed = "55000 a table or another object has changed since the snapshot was taken";
        assert_eq!(error_of(&mut others[0], &format!("set transaction snapshot '{name}'")), changed);
    });
}

/// Reads take locks there, as those of other transactions do.
#[test]
fn where_no_logs_are_kept_there_are_no_snapshots() {
    with_pod(2, 3, |databases| {
        let [mut writer, mut reader] = two(databases);
        assert_eq!(ask(&mut reader, "begin read only; select count(*), sum(v) from t"), "200|2000");
        assert_eq!(error_of(&mut writer, "begin; update t set v = 1").split(' ').next(), Some("40001"));
        ask(&mut writer, "rollback");
        let export =
            "0A000 pg_export_snapshot() of a transaction that does not read one snapshot is not supported";
        assert_eq!(error_of(&mut reader, "select pg_export_snapshot()"), export);
        ask(&mut reader, "rollback; begin read only");
        let refused = "0A000 SET TRANSACTION SNAPSHOT in a pod whose logs do not go on is not supported";
        assert_eq!(error_of(&mut reader, "set transaction snapshot '0000000000000001-1'"), refused);
        ask(&mut reader, "rollback");
    });
}

#[test]
fn what_is_not_kept_any_more_is_too_old() {
    let little = |limits: KeepLimits| KeepLimits { dram_bytes: 2_000, cxl_bytes: 0, ..limits };
    let set = |options: &mut liger_engine::db::JoinOptions| options.engine.keep = little(options.engine.keep);
    with_logs_of(2, 3, set, |databases| {
        let [mut writer, mut reader] = two(databases);
        assert_eq!(ask(&mut reader, "begin read only; select sum(v) from t"), "2000");
        ask(&mut writer, "update t set v = v + 1");
        assert_eq!(error_of(&mut reader, "select sum(v) from t"), "72000 the snapshot is too old");
        ask(&mut reader, "rollback");
        // The next one is not.
        assert_eq!(ask(&mut reader, "select sum(v) from t"), "2200");
    });
}
