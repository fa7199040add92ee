//! Long statements show how far they are to other sessions of their host, and nothing once they have ended,
//! failed or been cancelled.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "sessions are threads, and time passes")]

mod client;
mod databases;
mod sessions;
mod support;

use std::sync::{Arc, Mutex};

use client::{Printed, start};
use databases::with_hosts;
use liger_sql::exec::EngineDatabase;
use liger_sql::session::{Database, Interrupt, InterruptReason, NUMBER_BITS, SessionStart};
use sessions::served::Sessions;
use sessions::{Connected, Ticking, ask, error_of};

/// The number of the host.
const HOST: i32 = 1;

/// A host of a pod, and its server.
struct Served(EngineDatabase, Arc<Sessions>);

impl Served {
    fn connect(&self, user: &str) -> (Connected, Arc<Interrupt>) {
        let (user, interrupt) = (user.to_string(), Arc::<Interrupt>::default());
        let mut sessions = self.1.0.lock().expect("no panic");
        let process_id = (HOST << NUMBER_BITS) + sessions.len() as i32 + 1;
        sessions.insert(process_id, (user.clone(), interrupt.clone()));
        drop(sessions);
        let server = self.1.clone();
        let start = SessionStart { user, process_id, interrupt: interrupt.clone(), server, ..start() };
        (self.0.open(start).expect("a session opens"), interrupt)
    }
}

/// Runs `body` with a host of a pod of two, a table `many` of so many rows, a session that works and one that
/// watches.
fn with_many(rows: usize, body: impl FnOnce(&Served, (Connected, Arc<Interrupt>), Connected)) {
    with_hosts(2, 3, |all| {
        let database = EngineDatabase::new(Arc::clone(&all[1]), || Box::new(Ticking));
        let served = Served(database, Arc::default());
        let (mut working, interrupt) = served.connect("postgres");
        ask(&mut working, "create table many (k int primary key, v int, w text)");
        let filled = format!("insert into many select g, g % 7, 'w' || g from generate_series(1, {rows}) g");
        ask(&mut working, &filled);
        let (watching, _) = served.connect("postgres");
        body(&served, (working, interrupt), watching);
    });
}

/// What one session sees while another one runs a statement, each answer once.
fn seen(working: &mut Connected, watching: &mut Connected, sql: &str, look: &str) -> Vec<String> {
    std::thread::scope(|scope| {
        let running = scope.spawn(|| ask(working, sql));
        let mut seen: Vec<String> = Vec::new();
        while !running.is_finished() {
            let now = ask(watching, look);
            if !now.is_empty() && seen.last() != Some(&now) {
                seen.push(now);
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        running.join().expect("no panic");
        assert_eq!(ask(watching, "select * from pod_progress"), "", "{sql} has ended");
        seen
    })
}

/// Runs a statement until another session has seen it grow: answers end with two numbers, how much is done of
/// how much. How the answers begin.
fn grows(
    (working, watching): (&mut Connected, &mut Connected),
    sql: &str,
    look: &str,
    again: &str,
) -> Vec<String> {
    for _ in 0..50 {
        let seen = seen(working, watching, sql, look);
        let parts = |told: &String| {
            let (rest, total) = told.rsplit_once('|').expect("several fields");
            let (start, done) = rest.rsplit_once('|').expect("several fields");
            let number = |text: &str| text.parse::<u64>().unwrap_or(0);
            (start.to_string(), number(done), number(total))
        };
        let parts: Vec<(String, u64, u64)> = seen.iter().map(parts).collect();
        println!("{sql}: {parts:?}");
        assert!(parts.iter().all(|(_, done, total)| done <= total || *total == 0), "{sql}: {parts:?}");
        let mut growing: Vec<u64> = parts.iter().map(|(_, done, _)| *done).filter(|done| *done > 0).collect();
        growing.dedup();
        // One that meets a conflict begins anew.
        if growing.len() > 1 && growing.is_sorted() {
            let mut starts: Vec<String> = parts.into_iter().map(|(start, ..)| start).collect();
            starts.dedup();
            return starts;
        }
        ask(working, again);
    }
    panic!("{sql} was not seen to grow");
}

#[test]
fn long_statements_are_seen_to_grow_and_to_end() {
    with_many(40_000, |_, (mut working, _), mut watching| {
        let mut both = (&mut working, &mut watching);
        let look = "select relid::regclass, datname, command, phase, tuples_done, tuples_total from \
                    pg_stat_progress_create_index";
        let of = |both: &mut (&mut Connected, &mut Connected), sql, look, again| {
            grows((&mut *both.0, &mut *both.1), sql, look, again)
        };
        let phases = of(&mut both, "create index on many (v, k)", look, "drop index many_v_k_idx");
        let building = "many|shop|CREATE INDEX|building index: ";
        assert!(phases.contains(&format!("{building}loading tuples in tree")), "{phases:?}");
        assert!(phases.iter().all(|phase| phase.starts_with(building) || phase.ends_with("initializing")));
        let sql = "create index concurrently other on many (w)";
        let phases = of(&mut both, sql, look, "drop index other");
        assert!(phases[0].starts_with("many|shop|CREATE INDEX CONCURRENTLY|"), "{phases:?}");
        let look = "select host, datname, command, relid::regclass, phase, rows_done, rows_total from \
                    pod_progress where since > now() - interval '1 day'";
        for (sql, command, phase, again) in [
            ("update many set v = v + 1", "UPDATE", "changing rows", "select 1"),
            (
                "insert into many select k + 100000, v, w from many where k <= 20000",
                "INSERT",
                "changing rows",
                "delete from many where k > 100000",
            ),
            (
                "alter table many alter w type varchar(40) using w || v",
                "ALTER TABLE",
                "changing rows",
                "select 1",
            ),
            (
                "delete from many where k <= 20000",
                "DELETE",
                "deleting rows",
                "insert into many select g, g % 7, 'w' || g from generate_series(1, 20000) g",
            ),
        ] {
            let phases = of(&mut both, sql, look, again);
            let wanted = format!("1|shop|{command}|many|{phase}");
            assert!(phases.contains(&wanted), "{wanted}: {phases:?}");
        }
    });
}

/// Runs a statement, and looks each time that its client is waited for; what was seen, and how it ended.
fn looked(
    (working, watching): (&mut Connected, &Arc<Mutex<Connected>>),
    (sql, copied): (&str, &str),
    look: &'static str,
    mut meanwhile: impl FnMut() + Send + 'static,
) -> (Vec<String>, Result<(), String>) {
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let (told, watches) = (seen.clone(), watching.clone());
    let watch = move || {
        told.lock().expect("no panic").push(ask(&mut watches.lock().expect("no panic"), look));
        meanwhile();
    };
    let mut printed = Printed::default();
    printed.copied = copied.as_bytes().to_vec();
    printed.meanwhile = Some(Box::new(watch));
    let ended = working.simple(sql, &mut printed).map_err(|error| error.state.to_string());
    drop(printed);
    let mut watching = watching.lock().expect("no panic");
    assert_eq!(ask(&mut watching, "select * from pod_progress"), "", "{sql} has ended");
    (std::mem::take(&mut *seen.lock().expect("no panic")), ended)
}

#[test]
fn copy_tells_rows_and_bytes() {
    with_many(100, |_, (mut working, interrupt), watching| {
        let watching = Arc::new(Mutex::new(watching));
        let look = "select relid::regclass, command, type, bytes_processed, bytes_total, tuples_processed, \
                    tuples_excluded from pg_stat_progress_copy";
        let copied: String = (2000..2130).map(|k| format!("{k}\t{}\tw\n", k % 2)).collect();
        let both = (&mut working, &watching);
        let (seen, ended) = looked(both, ("copy many from stdin where v = 0", &copied), look, || ());
        assert_eq!(ended, Ok(()));
        assert_eq!(seen, ["many|COPY FROM|PIPE|0|0|0|0", "many|COPY FROM|PIPE|1170|0|64|65"]);
        let (seen, ended) = looked((&mut working, &watching), ("copy many to stdout", ""), look, || ());
        assert_eq!((seen.len(), ended), (165, Ok(())));
        assert_eq!(seen[0], "many|COPY TO|PIPE|0|0|0|0");
        assert_eq!(seen[164], "many|COPY TO|PIPE|0|0|128|0");
        let of_query = "copy (select repeat('x', 9000) from many where k < 3) to stdout";
        let (seen, ended) = looked((&mut working, &watching), (of_query, ""), look, || ());
        assert_eq!(ended, Ok(()));
        assert_eq!(seen, ["-|COPY TO|PIPE|9001|0|0|0", "-|COPY TO|PIPE|18002|0|0|0"]);
        let of_change = "copy (delete from many where k >= 2000 returning k) to stdout";
        let (seen, ended) = looked((&mut working, &watching), (of_change, ""), look, || ());
        assert_eq!((seen.len(), ended), (65, Ok(())));
        assert_eq!(seen[63], "-|COPY TO|PIPE|0|0|64|0");
        // One that fails, and one that is cancelled.
        let twice = ("copy many from stdin", "3001\t1\ta\n1\t9\tb\n");
        let (seen, ended) = looked((&mut working, &watching), twice, look, || ());
        assert_eq!((seen.len(), ended), (2, Err("23505".to_string())));
        let stop = move || interrupt.raise(InterruptReason::Cancel);
        let (seen, ended) = looked((&mut working, &watching), ("copy many to stdout", ""), look, stop);
        assert_eq!((seen.len(), ended), (1, Err("57014".to_string())));
    });
}

#[test]
fn changes_tell_what_they_have_done() {
    with_many(300, |_, (mut working, _), watching| {
        let watching = Arc::new(Mutex::new(watching));
        let look =
            "select command, relid::regclass, phase, rows_read > 0, rows_done, rows_total from pod_progress";
        ask(&mut working, "create table child (k int references many on delete cascade)");
        ask(&mut working, "insert into child select g from generate_series(1, 300) g");
        for (sql, wanted) in [
            ("update many set v = 0 where k <= 200 returning k", "UPDATE|many|changing rows|t|200|200"),
            (
                "insert into many select k + 1000, v, w from many where k <= 150 returning k",
                "INSERT|many|changing rows|t|150|150",
            ),
            (
                "with gone as (delete from many where k > 1100 returning k) \
                 insert into child select 1 from gone returning k",
                "INSERT|child|checking constraints|t|100|100",
            ),
            ("delete from many where k <= 130 returning k", "DELETE|many|checking constraints|t|130|130"),
            (
                "with gone as (delete from many where k < 140 returning k) select k from gone",
                "DELETE|many|checking constraints|t|9|9",
            ),
        ] {
            let (seen, ended) = looked((&mut working, &watching), (sql, ""), look, || ());
            assert_eq!(ended, Ok(()), "{sql}");
            assert!(!seen.is_empty() && seen.iter().all(|told| told == wanted), "{sql}: {:?}", seen.first());
        }
        assert_eq!(ask(&mut working, "select count(*) from child"), "161");
        let own = "insert into many select 5000, 1, command || ' ' || phase from pod_progress returning w";
        assert_eq!(ask(&mut working, own), "INSERT reading rows");
        let failing = "insert into many select k, v, w from many where k > 200";
        assert!(error_of(&mut working, failing).starts_with("23505"));
        assert_eq!(ask(&mut working, "select count(*) from pod_progress"), "0");
    });
}

#[test]
fn cancelled_statements_tell_nothing_and_commands_of_others_tell_little() {
    with_many(60_000, |served, (mut working, interrupt), mut watching| {
        ask(&mut watching, "create role other login");
        let (mut other, _) = served.connect("other");
        let all = "select pid is null, command, relid is null, phase is null, rows_done is null, \
                   since is null from pod_progress";
        let index = "select datname, command, phase, tuples_done from pg_stat_progress_create_index";
        for (sql, command) in [
            ("create index on many (w)", "CREATE INDEX"),
            ("update many set w = w || 'x'", "UPDATE"),
            ("alter table many alter k type bigint", "ALTER TABLE"),
        ] {
            let seen = std::thread::scope(|scope| {
                let running = scope.spawn(|| error_of(&mut working, sql));
                let mut seen = Vec::new();
                while seen.is_empty() && !running.is_finished() {
                    let one = ask(&mut other, all);
                    let both = format!("{one} {}", ask(&mut other, index));
                    seen.extend((!one.is_empty()).then_some(both));
                }
                interrupt.raise(InterruptReason::Cancel);
                let ended = running.join().expect("no panic");
                assert_eq!(ended, "57014 canceling statement due to user request", "{sql}");
                seen
            });
            interrupt.rearm();
            assert_eq!(ask(&mut watching, "select * from pod_progress"), "", "{sql}");
            println!("{sql}: {seen:?}");
            let wanted = format!("f|{command}|t|t|t|t");
            assert!(seen[0].starts_with(&wanted), "{seen:?}");
            if command == "CREATE INDEX" {
                assert_eq!(seen[0], format!("{wanted} shop|NULL|NULL|NULL"), "{sql}");
            }
        }
    });
}

#[test]
fn analyze_tells_its_sample() {
    with_many(40_000, |_, (mut working, _), mut watching| {
        let look = "select relid::regclass, phase, sample_blks_scanned, sample_blks_total from \
                    pg_stat_progress_analyze";
        // Each row of the sample that another host has is a message.
        ask(&mut working, "set default_statistics_target = 1");
        let both = (&mut working, &mut watching);
        let phases = grows(both, "analyze many", look, "select 1");
        assert!(phases.contains(&"many|acquiring sample rows".to_string()), "{phases:?}");
    });
}
