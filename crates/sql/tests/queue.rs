//! `FOR UPDATE SKIP LOCKED`: queues that sessions of all hosts of a pod take their work from.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "sessions are threads, and time passes")]

mod client;
mod databases;
mod sessions;
mod support;

use std::time::Duration;

use client::Printed;
use sessions::{Connected, ask, connect, error_of, until, with_pod};

#[test]
fn rows_that_others_hold_are_passed_over() {
    with_pod(2, 3, |databases| {
        let (mut a, mut b) = (connect(&databases[0]), connect(&databases[1]));
        ask(&mut a, "create table q (id int primary key, kind int, n int); create index on q (kind, n)");
        ask(&mut a, "insert into q select g, g % 2, 100 - g from generate_series(1, 40) g");
        let next = "select id from q order by id for update skip locked limit 2";
        assert_eq!(ask(&mut a, &format!("begin; {next}")), "1 2");
        assert_eq!(ask(&mut b, &format!("begin; {next}")), "3 4");
        assert_eq!(ask(&mut a, next), "1 2", "one's own are not skipped");
        let all = |lock: &str| format!("select count(*) from (select id from q where id <= 6 {lock}) s");
        assert_eq!(ask(&mut b, &all("for update skip locked")), "4");
        // By an index, backwards, with conditions that no index knows; each of the strengths.
        let by_kind = "select id from q where kind = 1 and id % 3 = 1 order by n \
                       for no key update skip locked limit 1";
        assert_eq!(ask(&mut a, by_kind), "37");
        assert_eq!(ask(&mut b, by_kind), "31");
        let back = "select id from q order by id desc for share skip locked limit 2";
        assert_eq!(ask(&mut a, back), "40 39");
        assert_eq!(
            ask(&mut b, "select id from q order by id desc for key share skip locked limit 2"),
            "38 36"
        );
        assert_eq!(ask(&mut b, "select id from q where id = 2 for update skip locked"), "");
        // Others that want them still conflict, and are told so at once.
        let taken = error_of(&mut b, "select id from q where id = 1 for update nowait");
        assert_eq!(taken, "55P03 could not obtain lock on row in relation \"q\"");
        ask(&mut b, "rollback");
        assert_eq!(ask(&mut b, "begin; select id from q order by id for update skip locked limit 1"), "3");
        ask(&mut a, "delete from q where id = 1; update q set n = 0 where id = 2; commit");
        ask(&mut b, "commit");
        assert_eq!(
            ask(&mut b, "begin; select id, n from q order by id for update skip locked limit 1"),
            "2|0"
        );
        ask(&mut b, "rollback");
    });
}

#[test]
fn what_is_skipped_or_passed_is_not_locked() {
    with_pod(2, 3, |databases| {
        let (mut a, mut b) = (connect(&databases[0]), connect(&databases[1]));
        ask(&mut a, "create table q (id int primary key, done bool); create index on q (done, id)");
        ask(&mut a, "insert into q select g, g <= 20 from generate_series(1, 40) g");
        let next = "select id from q where not done order by id for update skip locked limit 1";
        assert_eq!(ask(&mut a, &format!("begin; {next}")), "21");
        // Rows that did not fit, rows behind, and gaps are everybody's. (A range that ends before row 21 in a
        // place would meet it.)
        ask(&mut b, "update q set done = done where id <= 5");
        ask(&mut b, "delete from q where id = 30");
        ask(&mut b, "insert into q values (0, false), (100, false)");
        assert_eq!(ask(&mut b, &format!("begin; {next}; commit")), "0");
        assert_eq!(ask(&mut a, "select id from q where id = 30 for update skip locked"), "");
        ask(&mut a, "commit");
        assert_eq!(ask(&mut a, "select count(*) from q"), "41");
    });
}

/// What a change reads of its target it locks, so it reads what the others say where it can be, and no more.
#[test]
fn a_target_is_looked_up_by_what_few_rows_say() {
    with_pod(2, 3, |databases| {
        let (mut a, mut b) = (connect(&databases[0]), connect(&databases[1]));
        ask(&mut a, "create table q (id int primary key, kind int, n int); create index on q (kind, n)");
        ask(&mut a, "insert into q select g, g % 4, 0 from generate_series(1, 100) g");
        let few = "(select id from q where id > 4 order by id limit 2)";
        let by_key = [
            format!("update q set n = n + 1 where id in {few}"),
            format!("update q set n = n + 1 from {few} f where f.id = q.id"),
            format!("with f as {few} update q set n = n + 1 from f where f.id = q.id"),
            "update q set n = n + 1 from unnest('{5,6}'::int[]) f(id) where f.id = q.id".to_string(),
            "update q set n = n + 1 from (values (5), (6)) f(id) where f.id = q.id".to_string(),
            "update q set n = q.n + 1 from q f where f.id = q.id and f.id between 5 and 6".to_string(),
            "update q set n = n + 1 where id in (select kind + 5 from q where kind < 2)".to_string(),
        ];
        for (turn, change) in by_key.iter().enumerate() {
            let plan = ask(&mut a, &format!("explain {change}"));
            assert!(!plan.contains("Seq Scan on q ") && plan.contains(" using q_pkey on q  ("), "{plan}");
            ask(&mut a, &format!("begin; {change}"));
            if turn < 5 {
                ask(&mut b, "update q set n = 100 where id = 50");
            }
            let changed = format!("select count(*) from q where n = {}", turn + 1);
            assert_eq!(ask(&mut a, &changed), "2", "{change}");
            ask(&mut a, "commit");
        }
        // Many elements are no reason to look them all up, and say the same.
        ask(&mut a, "create table many (id int); insert into many select g from generate_series(1, 1500) g");
        let known = "select count(*), sum(id) from q where id in (select id from many)";
        assert_eq!(ask(&mut a, known), "100|5050");
        ask(&mut a, "delete from many where id > 7");
        assert_eq!(ask(&mut a, known), "7|28");
        assert_eq!(ask(&mut a, "select count(*) from q where id in (select null::int from many)"), "0");
        assert_eq!(ask(&mut a, "select count(*) from q where id not in (select id from many)"), "93");
    });
}

/// A queue whose order no index has, and one that is joined: what is looked at and not given is everybody's.
#[test]
fn what_is_sorted_or_joined_is_locked_when_it_is_given() {
    with_pod(2, 3, |databases| {
        let (mut a, mut b) = (connect(&databases[0]), connect(&databases[1]));
        ask(&mut a, "create table kinds (kind int primary key, rank int)");
        ask(&mut a, "insert into kinds values (0, 3), (1, 1), (2, 2)");
        ask(&mut a, "create table q (id int primary key, kind int, due float8, done bool default false)");
        ask(&mut a, "insert into q select g, g % 3, (g * 7) % 30 from generate_series(1, 30) g");
        let next = "select id, due from q where not done order by due, id for update skip locked limit 2";
        assert_eq!(ask(&mut a, &format!("begin; {next}")), "30|0 13|1");
        assert_eq!(ask(&mut b, &format!("begin; {next}")), "26|2 9|3");
        assert_eq!(ask(&mut a, next), "30|0 13|1", "one's own are not skipped");
        let back = "select id from q order by due desc for update skip locked offset 1 limit 1";
        assert_eq!(ask(&mut b, back), "4", "what OFFSET passes is locked");
        assert_eq!(ask(&mut a, "select id from q order by due desc for update skip locked limit 1"), "21");
        let joined = "select q.id, rank from q join kinds using (kind) where not done \
                      order by rank, due for update of q skip locked limit 1";
        assert_eq!(ask(&mut a, joined), "13|1");
        assert_eq!(ask(&mut b, joined), "22|1");
        let unordered = "select count(*) from (select q.id from q join kinds using (kind) \
                         where rank = 3 for update of q skip locked) s";
        assert_eq!(ask(&mut a, unordered), "9", "9 is taken, and 30 is one's own");
        ask(&mut a, "rollback");
        // Only 26, 9, 17, 4 and 22 are held: 17 is what OFFSET passed.
        assert_eq!(ask(&mut a, "begin; update q set done = true where id = 30; commit"), "");
        assert_eq!(
            ask(&mut a, "select count(*) from (select * from q order by due for update skip locked) s"),
            "25"
        );
        ask(&mut b, "commit");
        // A value that is not equal to itself is no reason to pass a row over.
        ask(&mut a, "update q set due = 'NaN' where id = 5");
        assert_eq!(ask(&mut a, "select id from q order by due desc for update skip locked limit 1"), "5");
        assert_eq!(ask(&mut a, "select count(*) from q where due >= 0"), "30");
    });
}

/// A row is looked at first and locked later: what it has become meanwhile decides.
#[test]
fn what_does_not_fit_any_more_when_it_is_locked_is_not_given() {
    with_pod(2, 3, |databases| {
        let (mut a, mut b) = (connect(&databases[0]), connect(&databases[1]));
        ask(&mut a, "create table q (id int primary key, status text)");
        ask(&mut a, "insert into q select g, 'new' from generate_series(1, 4) g");
        std::thread::scope(|scope| {
            let taken = scope.spawn(move || {
                let stop = "case when id = 1 then concat(pg_advisory_xact_lock(1), pg_sleep(0.7)) end";
                let jobs = "from q where status = 'new' order by id for update skip locked";
                ask(&mut b, &format!("select id, {stop} {jobs}"))
            });
            let stopped = "select count(*) from pg_locks where locktype = 'advisory'";
            until("it stops at the first row", || ask(&mut a, stopped) == "1");
            ask(&mut a, "update q set status = 'done' where id = 3; delete from q where id = 4");
            assert_eq!(taken.join().expect("no panic"), "1| 2|NULL");
        });
    });
}

/// Takes jobs until there are none; which ones, and how often it met a conflict.
fn work(session: &mut Connected, take: &str) -> (Vec<i32>, usize) {
    let (mut taken, mut conflicts, mut empty) = (Vec::new(), 0, 0);
    while empty < 3 {
        let mut printed = Printed::default();
        match session.simple(take, &mut printed) {
            Ok(()) if printed.lines.is_empty() => {
                empty += 1;
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok(()) => taken.extend(printed.lines.iter().map(|line| line.parse::<i32>().expect("a number"))),
            Err(error) => {
                assert_eq!(error.state.to_string(), "40001", "{error}");
                session.simple("rollback", &mut Printed::default()).expect("it ends");
                conflicts += 1;
            }
        }
    }
    (taken, conflicts)
}

#[test]
fn each_job_is_taken_once() {
    const JOBS: i32 = 160;
    let one =
        "delete from q where id = (select id from q order by id for update skip locked limit 1) returning id";
    let block = "begin; delete from q where id in (select id from q where id > 0 order by id \
                 for update skip locked limit 2) returning id; commit";
    let sorted = "delete from q where id = (select id from q order by what, id desc \
                  for update skip locked limit 1) returning id";
    for take in [one, block, sorted] {
        with_pod(2, 3, |databases| {
            let mut first = connect(&databases[0]);
            ask(&mut first, "create table q (id int primary key, what text)");
            ask(&mut first, &format!("insert into q select g, 'job' from generate_series(1, {JOBS}) g"));
            let worker = |at: usize| {
                let mut session = connect(&databases[at % 2]);
                work(&mut session, take)
            };
            let worker = &worker;
            let taken: Vec<(Vec<i32>, usize)> = std::thread::scope(|scope| {
                let all: Vec<_> = (0..4).map(|at| scope.spawn(move || worker(at))).collect();
                all.into_iter().map(|one| one.join().expect("no panic")).collect()
            });
            let jobs: Vec<usize> = taken.iter().map(|one| one.0.len()).collect();
            let met: usize = taken.iter().map(|one| one.1).sum();
            assert!(met <= JOBS as usize, "{met} conflicts, with jobs {jobs:?}");
            let mut all: Vec<i32> = taken.into_iter().flat_map(|one| one.0).collect();
            all.sort_unstable();
            assert_eq!(all, (1..=JOBS).collect::<Vec<_>>(), "each once");
            assert_eq!(ask(&mut first, "select count(*) from q"), "0");
        });
    }
}
