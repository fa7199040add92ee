//! Sessions of a pod's hosts: statements over the engine's tables, in the transactions of workers.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "sessions are threads")]

mod client;
mod databases;
mod support;

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use client::{Faulty, Fixed, Printed, answer, files, run, start};
use databases::{with_hosts, with_pod};
use liger_sql::error::{Severity, SqlState};
use liger_sql::exec::EngineDatabase;
use liger_sql::session::{
    Database, Format, Formats, InterruptReason, Parameters, Progress, Session, SessionStart, TransactionState,
};

type Connected = Box<dyn Session + Send>;

fn connect(database: &EngineDatabase) -> Connected {
    database.open(start()).expect("a session opens")
}

#[track_caller]
fn rows(session: &mut Connected, sql: &str) -> Vec<String> {
    let mut printed = Printed::default();
    session.simple(sql, &mut printed).unwrap_or_else(|error| panic!("{sql}: {error} {:?}", error.detail));
    printed.lines
}

/// ALTER ROLE .. SET is everybody's right for himself, also where what it sets is not.
#[test]
fn a_role_does_not_log_in_as_somebody_else() {
    with_hosts(1, 2, |hosts| {
        let database = EngineDatabase::new(hosts[0].clone(), || Box::new(Fixed));
        let mut owner = connect(&database);
        rows(&mut owner, "create role low login; create role team; grant team to low");
        let log_in = || {
            database.login_role("low").expect("no conflict").expect("there is such a role");
            database.open(SessionStart { user: "low".to_string(), ..start() }).expect("it may")
        };
        let mut low = log_in();
        for (role, found) in [("postgres", "low|low"), ("team", "team|low")] {
            rows(&mut low, &format!("alter role low set role = '{role}'"));
            assert_eq!(rows(&mut log_in(), "select current_user, session_user")[0], found);
        }
    });
}

#[test]
fn on_conflict_meets_rows_by_expressions() {
    with_hosts(1, 2, |hosts| {
        let database = EngineDatabase::new(hosts[0].clone(), || Box::new(Fixed));
        let mut session = connect(&database);
        rows(&mut session, "create table t (id int primary key, email text)");
        rows(&mut session, "create unique index on t (lower(email)); insert into t values (1, 'A@x')");
        rows(&mut session, "insert into t values (2, 'a@X') on conflict (lower(email)) do nothing");
        let change = "on conflict (lower(email)) do update set id = t.id + excluded.id returning id, email";
        assert_eq!(rows(&mut session, &format!("insert into t values (2, 'a@X') {change}"))[0], "3|A@x");
        assert_eq!(rows(&mut session, &format!("insert into t values (2, 'b@x') {change}"))[0], "2|b@x");
        assert_eq!(rows(&mut session, "select count(*) from t")[0], "2");
    });
}

#[test]
fn a_statement_that_could_not_be_prepared_has_no_name() {
    with_hosts(1, 2, |hosts| {
        let database = EngineDatabase::new(hosts[0].clone(), || Box::new(Fixed));
        let mut session = connect(&database);
        rows(&mut session, "create table t (a int)");
        hosts[0].slots.close();
        let refused = session.parse("s", "select a from t", &[]).expect_err("the host ends");
        assert_eq!((refused.state, refused.severity), (SqlState::ADMIN_SHUTDOWN, Severity::Fatal));
        assert!(session.statement_text("s").is_none(), "its client will use the name again");
    });
}

/// One session prepares statements by name, again and again, while one of another host changes the catalog.
#[test]
fn nobody_who_prepares_hears_of_changes_of_the_catalog() {
    with_pod(2, 3, |databases| {
        let mut preparing = connect(&databases[0]);
        rows(&mut preparing, "create table t (a int)");
        std::thread::scope(|scope| {
            let changing = scope.spawn(|| {
                let mut session = connect(&databases[1]);
                for _ in 0..40 {
                    rows(&mut session, "create table u (b int)");
                    rows(&mut session, "drop table u");
                }
            });
            let mut prepared = 0;
            while !changing.is_finished() {
                let name = format!("s{prepared}");
                let parsed = preparing.parse(&name, "select a from t where a = $1", &[]);
                parsed.unwrap_or_else(|error| panic!("{name}: {error}"));
                preparing.describe_statement(&name).expect("it is there");
                preparing.sync().expect("nothing to commit");
                prepared += 1;
            }
            assert!(prepared > 0);
        });
    });
}

#[test]
fn answers_are_postgresql_s() {
    let mut failed = Vec::new();
    for (name, path) in files() {
        with_pod(1, 3, |databases| {
            let (mut session, mut report) = (connect(&databases[0]), String::new());
            let (good, all) = run(&path, &mut *session, &mut report);
            println!("{name}: {good} of {all}");
            if good < all {
                failed.push(format!("{name}: {} differences\n{report}", all - good));
            }
        });
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn a_table_of_one_host_is_one_of_all() {
    with_pod(2, 3, |databases| {
        let (mut a, mut b) = (connect(&databases[0]), connect(&databases[1]));
        rows(&mut a, "create table t (id int primary key, name text, at serial)");
        rows(&mut a, "create index on t (name)");
        rows(&mut a, "insert into t (id, name) select g, 'n' || g from generate_series(1, 300) g");
        assert_eq!(rows(&mut b, "select count(*), min(id), max(at) from t"), ["300|1|300"]);
        assert_eq!(rows(&mut b, "select name from t where id = 7"), ["n7"]);
        assert_eq!(rows(&mut b, "select id from t where name = 'n200'"), ["200"]);
        rows(&mut b, "update t set name = 'new' where id = 7");
        assert_eq!(rows(&mut a, "select id from t where name = 'new'"), ["7"]);
        assert_eq!(rows(&mut a, "select id from t order by id desc limit 2"), ["300", "299"]);
        rows(&mut b, "delete from t where id > 10");
        rows(&mut b, "alter table t add column more int default 5");
        assert_eq!(rows(&mut a, "select sum(more) from t"), ["50"]);
        rows(&mut a, "drop table t");
        assert_eq!(answer(&mut *b, "select 1 from t"), ["ERROR 42P01"]);
    });
}

#[test]
fn a_panic_ends_its_statement_and_nothing_else() {
    with_hosts(1, 2, |hosts| {
        let faulty = EngineDatabase::new(hosts[0].clone(), || Box::new(Faulty));
        let sound = EngineDatabase::new(hosts[0].clone(), || Box::new(Fixed));
        let (mut a, mut b) = (connect(&sound), connect(&faulty));
        rows(&mut a, "create table t (id int primary key)");
        assert_eq!(answer(&mut *b, "insert into t select 1 where random() > 2"), ["ERROR XX000"]);
        assert_eq!(rows(&mut b, "insert into t values (1) returning id"), ["1"]);
        rows(&mut b, "begin; insert into t values (2)");
        assert_eq!(answer(&mut *b, "select random() from t"), ["ERROR XX000"]);
        assert_eq!(answer(&mut *b, "commit"), ["ROLLBACK"]);
        assert_eq!(rows(&mut b, "insert into t values (3) returning id"), ["3"]);
        assert_eq!(rows(&mut a, "select id from t order by id"), ["1", "3"]);
    });
}

#[test]
fn blocks_savepoints_and_failures() {
    with_pod(1, 3, |databases| {
        let (mut a, mut b) = (connect(&databases[0]), connect(&databases[0]));
        rows(&mut a, "create table t (id int primary key)");
        rows(&mut a, "begin");
        rows(&mut a, "insert into t values (1)");
        rows(&mut a, "savepoint s");
        rows(&mut a, "insert into t values (2)");
        assert_eq!(answer(&mut *a, "insert into t values (1)"), ["ERROR 23505"]);
        assert_eq!(a.transaction_state(), TransactionState::Failed);
        assert_eq!(answer(&mut *a, "select 1"), ["ERROR 25P02"]);
        rows(&mut a, "rollback to s");
        rows(&mut a, "insert into t values (3)");
        rows(&mut a, "commit");
        assert_eq!(rows(&mut b, "select id from t order by id"), ["1", "3"]);
        rows(&mut a, "begin");
        rows(&mut a, "insert into t values (4)");
        // Dropped in the middle of its transaction.
        drop(a);
        let mut a = connect(&databases[0]);
        rows(&mut a, "begin; insert into t values (5); rollback");
        assert_eq!(rows(&mut b, "select count(*) from t"), ["2"]);
        rows(&mut a, "create table u (x int); insert into u values (1); insert into u values (1)");
        assert_eq!(answer(&mut *a, "alter table u add primary key (x)"), ["ERROR 23505"]);
        assert_eq!(rows(&mut b, "select x from u"), ["1", "1"]);
        rows(&mut b, "delete from u; insert into u values (1); alter table u add primary key (x)");
        assert_eq!(answer(&mut *b, "insert into u values (1)"), ["ERROR 23505"]);
        rows(&mut b, "alter table u drop constraint u_pkey; insert into u values (1)");
        assert_eq!(rows(&mut a, "select x from u"), ["1", "1"]);
    });
}

#[test]
fn conflicts_of_single_statements_are_nobody_s_business() {
    const TIMES: usize = 60;
    with_pod(2, 3, |databases| {
        let mut first = connect(&databases[0]);
        rows(&mut first, "create table c (id int primary key, n int)");
        rows(&mut first, "insert into c values (1, 0)");
        std::thread::scope(|scope| {
            for database in databases.iter().chain(databases) {
                scope.spawn(move || {
                    let mut session = connect(database);
                    (0..TIMES).for_each(|_| drop(rows(&mut session, "update c set n = n + 1 where id = 1")));
                });
            }
        });
        assert_eq!(rows(&mut first, "select n from c"), [(4 * TIMES).to_string()]);
    });
}

#[test]
fn a_statement_before_sync_is_its_transaction_s_last() {
    with_pod(1, 3, |databases| {
        let (mut writer, mut reader) = (connect(&databases[0]), connect(&databases[0]));
        rows(&mut writer, "create table c (id int primary key)");
        let none = Parameters { formats: Formats(&[]), body: &[], count: 0 };
        let mut run = |sql: &str, last: bool| {
            writer.parse("", sql, &[])?;
            writer.bind("", "", none, Formats(&[]))?;
            let ran = writer.execute("", 0, last, &mut Printed::default());
            let seen = rows(&mut reader, "select count(*) from c");
            writer.sync().expect("nothing is left to end");
            ran.map(|_| seen)
        };
        assert_eq!(run("insert into c values (1)", true), Ok(vec!["1".to_string()]));
        let taken = run("insert into c values (2), (1)", true).expect_err("1 is there");
        assert_eq!(taken.state.to_string(), "23505");
        // A block goes on.
        assert_eq!(run("begin", true), Ok(vec!["1".to_string()]));
        assert_eq!(run("select 1", true), Ok(vec!["1".to_string()]));
        assert_eq!(writer.transaction_state(), TransactionState::Active);
    });
}

#[test]
fn statements_that_run_others_answer_in_the_formats_that_were_asked_for() {
    with_pod(1, 2, |databases| {
        let mut session = connect(&databases[0]);
        rows(&mut session, "begin; declare c cursor for select 1, 2; prepare p as select 1, 2");
        let none = Parameters { formats: Formats(&[]), body: &[], count: 0 };
        for sql in ["select 1, 2", "execute p", "fetch c"] {
            session.parse("", sql, &[]).expect("parsed");
            session.bind("", "", none, Formats(&[0, 1, 0, 0])).expect("bound");
            let mut printed = Printed::default();
            session.execute("", 0, true, &mut printed).expect("executed");
            assert_eq!(printed.formats, [Format::Binary, Format::Text], "{sql}");
        }
    });
}

#[test]
fn a_fetch_has_the_columns_of_the_cursor_that_is_there_when_it_is_bound() {
    with_pod(1, 2, |databases| {
        let mut session = connect(&databases[0]);
        let none = Parameters { formats: Formats(&[]), body: &[], count: 0 };
        session.parse("f", "fetch c", &[]).expect("parsed");
        assert!(session.describe_statement("f").expect("described").columns.is_none());
        rows(&mut session, "begin; declare c cursor for select 1 as a, 2 as b");
        session.bind("", "f", none, Formats(&[])).expect("bound");
        let described = session.describe_portal("").expect("described");
        let names: Vec<_> =
            described.expect("columns").0.iter().map(|column| column.name.to_string()).collect();
        assert_eq!(names.join(","), "a,b");
    });
}

#[test]
fn a_column_of_a_domain_is_described_as_what_is_under_it() {
    with_pod(1, 2, |databases| {
        let mut session = connect(&databases[0]);
        let make =
            "create domain word as varchar(3); create domain short as word; create domain number as int;
            create table t (a short, b number, c number[])";
        rows(&mut session, make);
        session.parse("", "select a, b, c from t", &[]).expect("parsed");
        let described = session.describe_statement("").expect("described");
        let types: Vec<_> = described.columns.expect("columns").iter().map(|column| column.ty).collect();
        assert_eq!((types[0].oid, types[0].modifier), (1043, 7));
        assert_eq!((types[1].oid, types[1].modifier), (23, -1));
        assert!(types[2].oid >= 16_384, "an array of a domain is a type of its own: {types:?}");
    });
}

#[test]
fn texts_of_parameters_are_utf_8_without_zeros() {
    with_pod(1, 2, |databases| {
        let mut session = connect(&databases[0]);
        session.parse("", "select $1::text", &[]).expect("parsed");
        for (format, bytes, told) in [(0, b"a\0", "0x00"), (1, b"a\0", "0x00"), (0, b"a\xff", "0xff")] {
            let body = [&[0, 0, 0, 2][..], bytes].concat();
            let given = Parameters { formats: Formats(&[0, format]), body: &body, count: 1 };
            let error = session.bind("", "", given, Formats(&[])).expect_err("no text");
            assert_eq!(error.state.to_string(), "22021");
            assert_eq!(error.message, format!("invalid byte sequence for encoding \"UTF8\": {told}"));
        }
    });
}

#[test]
fn a_type_without_values_says_so_whatever_is_sent() {
    with_pod(1, 2, |databases| {
        let mut session = connect(&databases[0]);
        session.parse("", "select $1::tid", &[]).expect("parsed");
        for (format, bytes) in [(0, b"(0,1)\0"), (1, b"\xff\xff\xff\xff\0\x01")] {
            let body = [&[0, 0, 0, 5 + format][..], &bytes[..5 + usize::from(format)]].concat();
            let given = Parameters { formats: Formats(&[0, format]), body: &body, count: 1 };
            let error = session.bind("", "", given, Formats(&[])).expect_err("no value");
            assert_eq!(error.state.to_string(), "0A000", "{error:?}");
            assert_eq!(error.message, "a value of type tid is not supported");
        }
    });
}

#[test]
fn formats_are_as_many_as_columns() {
    with_pod(1, 2, |databases| {
        let mut session = connect(&databases[0]);
        let none = Parameters { formats: Formats(&[]), body: &[], count: 0 };
        session.parse("", "select 1, 2, 3", &[]).expect("parsed");
        let error = session.bind("", "", none, Formats(&[0, 1, 0, 1])).expect_err("two for three");
        assert_eq!(error.state.to_string(), "08P01");
        assert_eq!(error.message, "bind message has 2 result formats but query has 3 columns");
        session.sync().expect("nothing is left to end");
        session.bind("", "", none, Formats(&[0, 1])).expect("one is for all");
    });
}

#[test]
fn a_session_begins_with_the_modes_that_its_client_asks_for() {
    with_pod(1, 2, |databases| {
        let mut start = start();
        start.parameters = vec![("default_transaction_read_only".to_string(), "on".to_string())];
        let mut session = databases[0].open(start).expect("opened");
        assert_eq!(answer(&mut *session, "show transaction_read_only"), ["on"]);
        assert_eq!(answer(&mut *session, "create table t (a int)"), ["ERROR 25006"]);
    });
}

/// Otherwise a session that waits for its client keeps a worker, and all who change the catalog wait for it.
#[test]
fn what_is_refused_outside_of_a_block_keeps_no_worker() {
    with_pod(2, 3, |databases| {
        let start = start();
        let interrupt = start.interrupt.clone();
        let mut a = connect(&databases[0]);
        let mut b = databases[1].open(start).expect("a session opens");
        let (over, waits) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                if waits.recv_timeout(Duration::from_secs(20)) == Err(RecvTimeoutError::Timeout) {
                    interrupt.raise(InterruptReason::StatementTimeout);
                }
            });
            let _over = over;
            let refused = ["savepoint s", "release s", "rollback to s", "declare c cursor for select 1"];
            for (number, sql) in refused.into_iter().enumerate() {
                let error = a.simple(sql, &mut Printed::default()).expect_err("it is for blocks");
                assert_eq!(error.state.to_string(), "25P01", "{sql}: {error}");
                rows(&mut b, &format!("create table t{number} (id int)"));
            }
            rows(&mut a, "set constraints all deferred");
            rows(&mut b, "create table t (id int)");
        });
    });
}

#[test]
fn a_limit_locks_little_more_than_it_shows() {
    with_pod(1, 3, |databases| {
        let (mut a, mut b) = (connect(&databases[0]), connect(&databases[0]));
        rows(&mut a, "create table t (id int primary key, name text)");
        rows(&mut a, "insert into t select g, repeat('long ', 500) || g from generate_series(1, 60) g");
        rows(&mut a, "begin");
        assert_eq!(rows(&mut a, "select id from t order by id limit 1"), ["1"]);
        assert_eq!(rows(&mut a, "select id from t where id > 1 order by id limit 1 offset 1"), ["3"]);
        assert_eq!(rows(&mut a, "select exists (select from t where id >= 2)"), ["t"]);
        rows(&mut b, "begin");
        // Two rows of each of the four partitions, at most, are locked.
        rows(&mut b, "update t set name = 'new' where id >= 25");
        assert_eq!(rows(&mut b, "select count(*), min(name) from t where id > 24"), ["36|new"]);
        assert_eq!(answer(&mut *b, "update t set name = 'new' where id = 3"), ["ERROR 40001"]);
        rows(&mut b, "rollback");
        rows(&mut a, "commit");
    });
}

/// What a client is told of a statement holds on all hosts as soon as a change of the catalog has committed.
#[test]
fn a_statement_is_prepared_by_what_another_host_has_just_changed() {
    with_pod(2, 3, |databases| {
        let (mut maker, mut other) = (connect(&databases[0]), connect(&databases[1]));
        let none = Parameters { formats: Formats(&[]), body: &[], count: 0 };
        rows(&mut maker, "create table t (v int); insert into t values (1)");
        assert_eq!(rows(&mut other, "select v from t"), ["1"]);
        let (int, text, bool) = (23, 25, 16);
        for (turn, (kind, oid)) in [("text", text), ("bool", bool), ("int", int)].into_iter().enumerate() {
            let name = format!("s{turn}");
            rows(&mut maker, &format!("drop table t; create table t (v {kind}); insert into t values ('1')"));
            if turn == 1 {
                rows(&mut other, "begin");
            }
            other.parse(&name, "select v from t where v = $1 or true", &[]).expect("there is such a table");
            let told = other.describe_statement(&name).expect("it was prepared");
            assert_eq!((told.parameters, told.columns.expect("it has rows")[0].ty.oid), (&[oid][..], oid));
            let null = Parameters { formats: Formats(&[]), body: &[255, 255, 255, 255], count: 1 };
            other.bind("", &name, null, Formats(&[])).expect("a value");
            let mut printed = Printed::default();
            other.execute("", 0, true, &mut printed).expect("the table is as it was described");
            assert_eq!(printed.lines.len(), 1, "{kind}");
            other.sync().expect("nothing is in the way");
            if turn == 1 {
                rows(&mut other, "commit");
            }
        }
        // What has not committed is not there yet, and nobody waits for it.
        rows(&mut maker, "begin; create table u (v int); create role late login");
        let role = |name: &str| databases[1].login_role(name).expect("the catalog can be seen").is_some();
        assert_eq!((role("postgres"), role("late")), (true, false));
        other.parse("", "select v from t where v = $1", &[]).expect("t is as it was");
        other.sync().expect("nothing has begun");
        rows(&mut maker, "rollback");
        // The other way round: what is not there any more is not described.
        rows(&mut maker, "drop table t");
        let gone = other.parse("", "select v from t", &[]).expect_err("it was dropped");
        assert_eq!(gone.state.to_string(), "42P01");
        // What needs no table asks for none.
        other.parse("", "begin", &[]).and_then(|()| other.bind("", "", none, Formats(&[]))).expect("a block");
        other.sync().expect("nothing has begun");
    });
}

/// Log-ins take the catalog as the host saw it last: it has seen one before anybody comes.
#[test]
fn a_host_where_nobody_has_been_lets_in_while_the_catalog_is_being_changed() {
    with_pod(2, 3, |databases| {
        let mut maker = connect(&databases[0]);
        rows(&mut maker, "begin; create table u (v int)");
        let role = databases[1].login_role("postgres").expect("the catalog was seen");
        assert!(role.is_some_and(|role| role.superuser && role.can_login));
        rows(&mut maker, "rollback");
    });
}

#[test]
fn a_block_knows_tables_that_were_made_just_now() {
    with_pod(2, 3, |databases| {
        let (mut maker, mut other) = (connect(&databases[0]), connect(&databases[1]));
        let none = Parameters { formats: Formats(&[]), body: &[], count: 0 };
        let run = |session: &mut Connected, sql: &str| {
            session.parse("", sql, &[])?;
            session.bind("", "", none, Formats(&[]))?;
            session.execute("", 0, true, &mut Printed::default())?;
            session.sync()
        };
        for name in ["made", "made_again"] {
            for sql in ["begin", &format!("create table {name} (id int primary key)"), "commit"] {
                run(&mut maker, sql).expect("a table is made");
            }
            for session in [&mut maker, &mut other] {
                for sql in ["begin", &format!("insert into {name} select count(*) from {name}"), "commit"] {
                    run(session, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
                }
            }
            run(&mut other, "begin").expect("nothing is in the way");
            let missing = run(&mut other, "insert into nothing values (1)").expect_err("no such table");
            assert_eq!(missing.state.to_string(), "42P01");
            assert_eq!(other.transaction_state(), TransactionState::Failed);
            run(&mut other, "rollback").expect("it was failed");
        }
    });
}

#[test]
fn large_transactions_are_undone_and_find_their_own_rows() {
    with_pod(1, 3, |databases| {
        let mut a = connect(&databases[0]);
        rows(&mut a, "create table t (id int primary key)");
        rows(&mut a, "begin; insert into t select generate_series(1, 20000); rollback");
        assert_eq!(rows(&mut a, "select count(*) from t"), ["0"]);
        rows(&mut a, "insert into t select generate_series(1, 3000)");
        rows(&mut a, "begin; update t set id = id where id > 1000; delete from t where id <= 2999; commit");
        assert_eq!(rows(&mut a, "select id from t"), ["3000"]);
    });
}

/// A session that was told of a conflict waits for its turn, as many times as its penalty says.
#[test]
fn who_met_a_conflict_takes_turns() {
    with_hosts(1, 3, |hosts| {
        let database = EngineDatabase::new(hosts[0].clone(), || Box::new(Fixed));
        let turns = || hosts[0].slots.observed().turns();
        let (mut one, mut two) = (connect(&database), connect(&database));
        rows(&mut one, "create table t (k int primary key, v int); insert into t values (1, 1)");
        let beat = |one: &mut Connected, two: &mut Connected| {
            rows(two, "begin; select v from t where k = 1");
            rows(one, "begin; select v from t where k = 1");
            let refused = one.simple("update t set v = v + 1", &mut Printed::default());
            assert_eq!(refused.expect_err("the other has read it").state.to_string(), "40001");
            rows(one, "rollback");
            rows(two, "commit");
        };
        beat(&mut one, &mut two);
        assert_eq!(turns(), 0);
        rows(&mut two, "begin; select v from t; commit");
        assert_eq!(turns(), 0, "it met no conflict");
        rows(&mut one, "begin; select v from t; commit");
        rows(&mut one, "begin; select v from t; commit");
        assert_eq!(turns(), 1, "once is enough after one conflict");
        beat(&mut one, &mut two);
        beat(&mut one, &mut two);
        (0..9).for_each(|_| drop(rows(&mut one, "begin; update t set v = v + 1 where k = 1; commit")));
        assert_eq!(turns(), 1 + 1 + 3, "one while it met conflicts again, and three after that");
        // Its turn was given back each time: otherwise this one would have to wait for it.
        hosts[0].slots.turns().take(&mut || panic!("nobody has a turn")).expect("at once");
    });
}

/// A client may prepare statements in one connection while its others have transactions open, all from one
/// thread, as pgbench does: who waited for one of these to end would wait for ever. And whoever is to end
/// such transactions has to log in.
#[test]
fn preparing_and_logging_in_wait_for_nobody_s_transaction() {
    with_pod(1, 3, |databases| {
        let mut all = [0; 3].map(|_| connect(&databases[0]));
        let [one, two, three] = &mut all;
        rows(one, "create table t (v int)");
        rows(one, "begin; select v from t");
        rows(two, "begin; select v from t");
        std::thread::scope(|scope| {
            let (done, is_done) = std::sync::mpsc::channel();
            scope.spawn(move || {
                let parsed = three.parse("s", "select v from t where v = $1", &[]);
                done.send(parsed.and_then(|()| databases[0].login_role("postgres")))
            });
            let prepared = is_done.recv_timeout(std::time::Duration::from_secs(20));
            // Otherwise it would never be.
            rows(one, "commit");
            rows(two, "commit");
            let role = prepared.expect("all workers were lent").expect("there is such a table");
            assert!(role.is_some(), "and one may log in");
        });
    });
}

/// A partial index holds what its predicate is true for, whichever way a row comes to it.
#[test]
fn an_update_brings_rows_into_a_partial_index_and_out_of_it() {
    with_pod(2, 3, |databases| {
        let (mut a, mut b) = (connect(&databases[0]), connect(&databases[1]));
        rows(&mut a, "create table t (id int primary key, name text, live bool)");
        rows(&mut a, "create unique index on t (name) where live");
        rows(&mut a, "insert into t values (1, 'x', true), (2, 'x', false), (3, 'y', false)");
        let taken =
            |session: &mut Connected, sql: &str| assert_eq!(answer(&mut **session, sql), ["ERROR 23505"]);
        taken(&mut b, "update t set live = true where id = 2");
        rows(&mut b, "update t set live = true where id = 3");
        taken(&mut a, "insert into t values (4, 'y', true)");
        rows(&mut a, "update t set live = false where id = 1; update t set live = true where id = 2");
        taken(&mut b, "update t set live = not live where id = 1");
        assert_eq!(rows(&mut b, "select id from t where live order by id"), ["2", "3"]);
    });
}

#[test]
fn a_portal_that_stops_goes_on_with_the_next_row() {
    with_pod(1, 3, |databases| {
        let mut session = connect(&databases[0]);
        rows(&mut session, "create table t (id int primary key)");
        rows(&mut session, "insert into t select generate_series(1, 7); begin");
        let none = Parameters { formats: Formats(&[]), body: &[], count: 0 };
        session.parse("", "select id from t order by id", &[]).expect("well formed");
        session.bind("p", "", none, Formats(&[])).expect("no parameters");
        let mut printed = Printed::default();
        for (most, progress) in [(2, Progress::Suspended), (3, Progress::Suspended), (3, Progress::Complete)]
        {
            assert_eq!(session.execute("p", most, false, &mut printed), Ok(progress));
        }
        assert_eq!(printed.lines, ["1", "2", "3", "4", "5", "6", "7"]);
        rows(&mut session, "commit");
    });
}
