//! Queries larger than `work_mem`: what they take of memory and disk, counted, and what is left of it when
//! they fail. What they answer is in the logic files (`spill.sql`).

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "hosts have threads")]

mod client;
mod databases;
mod support;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use client::{Fixed, Printed, ask, start};
use databases::with_hosts;
use liger_sql::SqlError;
use liger_sql::exec::memory::Memory;
use liger_sql::exec::{EngineDatabase, LocalSession, Surroundings};
use liger_sql::session::{Database, Interrupt, InterruptReason, SessionStart};
use liger_sql::temporary::{TemporaryBytes, TemporaryPlace};

/// A disk that is watched.
#[derive(Debug)]
struct Disk {
    room: AtomicU64,
    open: AtomicU64,
    writes: AtomicU64,
    written: AtomicU64,
    read: AtomicU64,
    /// The write at which the statement is cancelled.
    cancel_at: AtomicU64,
    interrupt: Arc<Interrupt>,
}

#[derive(Debug)]
struct Watched(Arc<Disk>);

struct File(Arc<Disk>, Mutex<Vec<u8>>);

impl TemporaryPlace for Watched {
    fn create(&self, _name: &str) -> io::Result<Box<dyn TemporaryBytes>> {
        self.0.open.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(File(self.0.clone(), Mutex::default())))
    }

    fn path_of(&self, name: &str) -> String {
        format!("watched/{name}")
    }
}

impl TemporaryBytes for File {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let disk = &self.0;
        let mut all = self.1.lock().expect("nobody panics here");
        let end = offset as usize + bytes.len();
        let more = end.saturating_sub(all.len()) as u64;
        if disk.room.load(Ordering::Relaxed) < more {
            return Err(io::ErrorKind::StorageFull.into());
        }
        disk.room.fetch_sub(more, Ordering::Relaxed);
        let len = all.len().max(end);
        all.resize(len, 0);
        all[offset as usize..end].copy_from_slice(bytes);
        disk.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if disk.writes.fetch_add(1, Ordering::Relaxed) + 1 == disk.cancel_at.load(Ordering::Relaxed) {
            disk.interrupt.raise(InterruptReason::Cancel);
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let all = self.1.lock().expect("nobody panics here");
        out.copy_from_slice(&all[offset as usize..offset as usize + out.len()]);
        self.0.read.fetch_add(out.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
        let len = self.1.lock().expect("nobody panics here").len();
        self.0.room.fetch_add(len as u64, Ordering::Relaxed);
    }
}

/// A session's surroundings, with that disk.
struct OnDisk(Arc<Disk>);

impl Surroundings for OnDisk {
    fn clock_us(&self) -> i64 {
        Fixed.clock_us()
    }

    fn random_u64(&self) -> u64 {
        Fixed.random_u64()
    }

    fn temporary_place(&self) -> Arc<dyn TemporaryPlace> {
        Arc::new(Watched(self.0.clone()))
    }
}

/// A session with 64 kB of `work_mem`, a table of so many rows, and its disk.
struct Spilling {
    session: LocalSession<Memory>,
    disk: Arc<Disk>,
}

const ROOM: u64 = 1 << 30;

impl Spilling {
    fn new(rows: usize) -> Spilling {
        let interrupt = Arc::new(Interrupt::default());
        let disk = Arc::new(Disk {
            room: AtomicU64::new(ROOM),
            open: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
            cancel_at: AtomicU64::new(u64::MAX),
            interrupt: interrupt.clone(),
        });
        let start = SessionStart { interrupt, ..start() };
        let session = LocalSession::new(Memory::default(), start, Box::new(OnDisk(disk.clone())));
        let mut made = Spilling { session: session.expect("it opens"), disk };
        made.run("create table big (id int, k int, t text)");
        made.run(&format!(
            "insert into big select i, (i * 7919) % 997, 'text ' || (i * 37 % {rows}) \
             from generate_series(1, {rows}) i"
        ));
        assert_eq!(made.disk.open.load(Ordering::Relaxed), 0);
        made.run("set work_mem = '64kB'; set hash_mem_multiplier = 1");
        made
    }

    fn try_run(&mut self, sql: &str) -> (Printed, Option<SqlError>) {
        let asked = ask(&mut self.session, sql);
        self.disk.interrupt.rearm();
        asked
    }

    #[track_caller]
    fn run(&mut self, sql: &str) -> Vec<String> {
        let (printed, error) = self.try_run(sql);
        assert!(error.is_none(), "{sql}: {error:?}");
        printed.lines
    }

    /// Bytes that a statement writes.
    #[track_caller]
    fn written(&mut self, sql: &str) -> u64 {
        let before = self.disk.written.load(Ordering::Relaxed);
        self.run(sql);
        assert_eq!(self.open(), 0, "{sql}");
        self.disk.written.load(Ordering::Relaxed) - before
    }

    fn open(&self) -> u64 {
        self.disk.open.load(Ordering::Relaxed)
    }
}

/// Each of them spills with 5,000 rows.
const SHAPES: &[&str] = &[
    "select count(*) from (select * from big order by t offset 0) s",
    "select count(*) from (select t, count(*) from big group by t) s",
    "select count(*) from (select k, t, count(*) from big group by rollup (k, t)) s",
    "select count(distinct t) from big",
    "select count(*) from (select distinct t from big) s",
    "select count(*) from (select id, t from big union select id, t from big) s",
    "select count(*) from (select id, t from big intersect select id, t from big) s",
    "select count(*) from (select id, t from big except all select id + 1, t from big) s",
    "select count(*) from big a join big b on a.t = b.t",
    "select count(*) from big a left join big b on a.id = b.id + 1000",
    "select count(*) from big a full join big b on a.t = b.t and a.id = b.id + 1",
    "select count(*) from big where t in (select t from big where id > 7)",
    "select count(*) from big a where not exists (select from big b where b.t = a.t and b.id <> a.id)",
    "select sum(r) from (select rank() over (partition by k order by t) as r from big) s",
    "with w as materialized (select * from big) select count(*) from w a, w b where a.id = b.id",
];

/// Four times the rows are written four times, with one round more at the most; of few rows a part is in
/// memory.
#[test]
fn what_is_written_grows_as_the_tables_do() {
    let (mut small, mut large) = (Spilling::new(5_000), Spilling::new(20_000));
    for sql in SHAPES {
        let (few, many) = (small.written(sql), large.written(sql));
        assert!(few > 0, "{sql} is in memory");
        assert!(many < 10 * few, "{sql}: {few} bytes of 5,000 rows, {many} of 20,000");
    }
    // What was written has been given back.
    assert_eq!(large.disk.room.load(Ordering::Relaxed), ROOM);
    for sql in SHAPES {
        let mut roomy = Spilling::new(500);
        roomy.run("set work_mem = '64MB'");
        assert_eq!(roomy.written(sql), 0, "{sql} has room");
    }
}

#[test]
fn a_full_disk_ends_the_statement_and_leaves_nothing() {
    let mut session = Spilling::new(5_000);
    for sql in SHAPES {
        session.disk.room.store(30_000, Ordering::Relaxed);
        let (_, error) = session.try_run(sql);
        let error = error.unwrap_or_else(|| panic!("{sql} has room"));
        assert_eq!(error.state.to_string(), "53100", "{sql}: {error:?}");
        assert!(error.message.starts_with("could not write to file \"watched/1."), "{}", error.message);
        assert_eq!((session.open(), session.disk.room.load(Ordering::Relaxed)), (0, 30_000), "{sql}");
        session.disk.room.store(ROOM, Ordering::Relaxed);
        assert_eq!(session.run("select count(*) from big"), ["5000"]);
    }
}

/// A cancel is heard before many more blocks are written.
#[test]
fn a_cancel_ends_a_statement_that_writes_and_leaves_nothing() {
    let mut session = Spilling::new(20_000);
    for sql in SHAPES {
        let at = session.disk.writes.load(Ordering::Relaxed) + 5;
        session.disk.cancel_at.store(at, Ordering::Relaxed);
        let (_, error) = session.try_run(sql);
        let error = error.unwrap_or_else(|| panic!("{sql} was not cancelled"));
        assert_eq!(error.state.to_string(), "57014", "{sql}: {error:?}");
        let more = session.disk.writes.load(Ordering::Relaxed) - at;
        assert!(more < 20, "{sql} wrote {more} blocks after it was cancelled");
        assert_eq!((session.open(), session.disk.room.load(Ordering::Relaxed)), (0, ROOM), "{sql}");
    }
}

#[test]
fn a_held_cursor_has_its_file_until_it_is_closed() {
    let mut session = Spilling::new(5_000);
    session.run("begin");
    session.run("declare c scroll cursor with hold for select * from big order by id desc");
    session.run("declare d scroll cursor for select * from big order by id desc");
    assert_eq!(session.open(), 2);
    session.run("commit");
    assert_eq!(session.open(), 1, "that of the other went with its transaction");
    assert_eq!(session.run("fetch absolute 4999 from c"), ["2|883|text 74"]);
    assert_eq!(session.run("fetch backward 2 from c"), ["3|826|text 111", "4|769|text 148"]);
    session.run("close c");
    assert_eq!(session.open(), 0);
    session.run("declare e cursor with hold for select * from big");
    assert_eq!(session.open(), 1);
    let Spilling { session, disk } = session;
    drop(session);
    assert_eq!(disk.open.load(Ordering::Relaxed), 0, "a session's files end with it");
}

/// A line of EXPLAIN, each number a `#`.
fn masked(line: &str) -> String {
    let mut out = String::new();
    for c in line.trim().chars() {
        match c.is_ascii_digit() {
            true if out.ends_with('#') => {}
            true => out.push('#'),
            false => out.push(c),
        }
    }
    out
}

#[test]
fn explain_tells_how_rows_were_sorted_and_hashed() {
    let mut session = Spilling::new(5_000);
    let cases: &[(&str, &str)] = &[
        ("select * from big order by t", "Sort Method: external merge  Disk: #kB"),
        ("select * from big order by t limit 3", "Sort Method: top-N heapsort  Memory: #kB"),
        ("select * from big where id < 9 order by t", "Sort Method: quicksort  Memory: #kB"),
        ("select t, count(*) from big group by t", "Batches: #  Memory Usage: #kB  Disk Usage: #kB"),
        ("select k % 5, count(*) from big group by k % 5", "Batches: #  Memory Usage: #kB"),
        ("select distinct t from big", "Batches: #  Memory Usage: #kB  Disk Usage: #kB"),
        ("select t from big union select t from big", "Batches: #  Memory Usage: #kB  Disk Usage: #kB"),
        (
            "select * from big a join big b on a.t = b.t",
            "Buckets: # (originally #)  Batches: # (originally #)  Memory Usage: #kB",
        ),
        (
            "select * from big a join (select * from big where id < 9) b on a.t = b.t",
            "Buckets: #  Batches: #  Memory Usage: #kB",
        ),
        ("select rank() over (order by t) from big", "Sort Method: external merge  Disk: #kB"),
        ("select k, count(distinct t) from big group by k", "Sort Method: external merge  Disk: #kB"),
        ("select * from big order by t", "Buffers: temp read=# written=#"),
    ];
    for (sql, expected) in cases {
        let lines = session.run(&format!("explain (analyze, buffers, costs off, timing off) {sql}"));
        assert!(lines.iter().any(|line| masked(line) == *expected), "{sql}\n{}", lines.join("\n"));
        for line in &lines {
            let Some((_, memory)) = line.split_once("Memory Usage: ") else { continue };
            let kb: u64 = memory.split_once("kB").expect("kilobytes").0.parse().expect("a number");
            assert!(kb <= 72, "{sql}: {line}");
        }
    }
    let json = |session: &mut Spilling, sql: &str| {
        let lines = session.run(&format!("explain (analyze, buffers, format json) {sql}"));
        lines.iter().flat_map(|line| line.lines()).map(masked).collect::<Vec<_>>().join("\n")
    };
    let sorted = json(&mut session, "select * from big order by t");
    assert!(sorted.contains("\"Sort Method\": \"external merge\",\n\"Sort Space Used\": #,"), "{sorted}");
    assert!(sorted.contains("\"Sort Space Type\": \"Disk\",\n\"Temp Read Blocks\": #,"), "{sorted}");
    let joined = json(&mut session, "select * from big a join big b on a.t = b.t");
    let hash = "\"Hash Buckets\": #,\n\"Original Hash Buckets\": #,\n\"Hash Batches\": #,\n\
                \"Original Hash Batches\": #,\n\"Peak Memory Usage\": #";
    assert!(joined.contains(hash), "{joined}");
    let grouped = json(&mut session, "select t, count(*) from big group by t");
    let used =
        "\"Planned Partitions\": #,\n\"HashAgg Batches\": #,\n\"Peak Memory Usage\": #,\n\"Disk Usage\": #";
    assert!(grouped.contains(used), "{grouped}");
}

#[test]
fn files_are_told_of_when_they_end() {
    let mut session = Spilling::new(5_000);
    session.run("set log_temp_files = 0; set client_min_messages = log");
    let (printed, _) = session.try_run(SHAPES[0]);
    let notices: Vec<String> = printed.notices.iter().map(|line| masked(line)).collect();
    assert_eq!(notices, ["LOG #: temporary file: path \"watched/#.#\", size #"]);
    session.run("set log_temp_files = '1GB'");
    assert!(session.try_run(SHAPES[0]).0.notices.is_empty());
}

/// What statements have put in files is told where PostgreSQL tells it, once the files have ended.
#[test]
fn temporary_files_are_counted() {
    with_hosts(1, 2, |hosts| {
        let database = EngineDatabase::new(hosts[0].clone(), || Box::new(Fixed));
        let mut session = database.open(start()).expect("a session opens");
        let mut rows = |sql: &str| {
            let (printed, error) = ask(session.as_mut(), sql);
            assert!(error.is_none(), "{sql}: {error:?}");
            printed.lines
        };
        let counted =
            "select temp_files, temp_bytes from pg_stat_database where datname = current_database()";
        assert_eq!(rows(counted), ["0|0"]);
        rows("set work_mem = '64kB'");
        let sorted =
            "select count(*) from (select g from generate_series(1, 20000) g order by -g offset 0) s";
        assert_eq!(rows(sorted), ["20000"]);
        let told = rows(counted);
        let (files, bytes) = told[0].split_once('|').expect("two figures");
        assert_eq!(files, "1");
        let bytes: u64 = bytes.parse().expect("a number");
        // A number and its key, with a head.
        assert!((20_000 * 20..20_000 * 40).contains(&bytes), "{bytes} bytes");
        let own = "select temporary_files, temporary_bytes from pod_activity";
        assert_eq!(rows(own), told);
        let figures = hosts[0].slots.observed().render();
        assert!(figures.contains(&format!("liger_temporary_bytes_total {bytes}\n")), "{figures}");
    });
}
