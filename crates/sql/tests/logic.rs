//! Statements whose answers PostgreSQL 15 gave (`logic/make.py`), run over a store in memory.
//!
//! `LOGIC_FILE=name` runs one file, `LOGIC_ALL=1` shows every difference instead of the first twenty.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use liger_sql::exec::memory::Memory;
use liger_sql::exec::{LocalSession, Surroundings};
use liger_sql::session::{
    Activity, Client, ColumnDescription, CopyInput, CopyShape, Formats, Interrupt, InterruptReason,
    Notification, ServerView, Session, SessionStart, Sink,
};
use liger_sql::types::text;
use liger_sql::{EvalContext, SqlError, Value};

struct Fixed;

impl Surroundings for Fixed {
    fn clock_us(&self) -> i64 {
        700_000_000_000_000
    }

    fn random_u64(&self) -> u64 {
        4
    }
}

impl Client for Fixed {
    fn notify(&self, _notification: Notification) {}
}

impl ServerView for Fixed {
    fn activity(&self) -> Vec<Activity> {
        Vec::new()
    }

    fn interrupt(&self, _process_id: i32, _reason: InterruptReason) -> bool {
        false
    }

    fn password_verifier(&self, password: &str) -> String {
        password.to_string()
    }
}

/// What a client would print.
#[derive(Default)]
struct Printed {
    types: Vec<u32>,
    lines: Vec<String>,
    tags: Vec<String>,
}

impl Sink for Printed {
    fn columns(&mut self, columns: &[ColumnDescription], _formats: Formats<'_>) -> Result<(), SqlError> {
        self.types = columns.iter().map(|column| column.ty.oid).collect();
        Ok(())
    }

    fn row(&mut self, context: &EvalContext<'_>, values: &[Value]) -> Result<(), SqlError> {
        let mut fields = Vec::new();
        for (value, ty) in values.iter().zip(&self.types) {
            fields.push(match value {
                Value::Null => "NULL".to_string(),
                value => text::output(context, *ty, value)?,
            });
        }
        self.lines.push(fields.join("|"));
        Ok(())
    }

    fn command_complete(&mut self, tag: &str) -> Result<(), SqlError> {
        let silent =
            tag.starts_with("SELECT ") || tag.starts_with("FETCH") || tag == "SHOW" || tag == "EXPLAIN";
        if !silent || (tag.starts_with("SELECT ") && self.types.is_empty()) {
            self.tags.push(tag.to_string());
        }
        Ok(())
    }

    fn empty(&mut self) -> Result<(), SqlError> {
        Ok(())
    }

    fn notice(&mut self, _notice: &SqlError) -> Result<(), SqlError> {
        Ok(())
    }

    fn copy_in(&mut self, _shape: &CopyShape) -> Result<(), SqlError> {
        Ok(())
    }

    fn copy_read(&mut self) -> Result<CopyInput<'_>, SqlError> {
        Ok(CopyInput::Done)
    }

    fn copy_out(&mut self, _shape: &CopyShape) -> Result<(), SqlError> {
        Ok(())
    }

    fn copy_bytes(&mut self, bytes: &[u8]) -> Result<(), SqlError> {
        self.lines.push(String::from_utf8_lossy(bytes).trim_end_matches('\n').to_string());
        Ok(())
    }

    fn copy_out_done(&mut self) -> Result<(), SqlError> {
        self.tags.clear();
        Ok(())
    }
}

fn session() -> LocalSession<Memory> {
    let start = SessionStart {
        user: "postgres".to_string(),
        database: "logic".to_string(),
        parameters: Vec::new(),
        process_id: 1,
        address: None,
        interrupt: Arc::new(Interrupt::default()),
        client: Arc::new(Fixed),
        server: Arc::new(Fixed),
    };
    LocalSession::new(Memory::default(), start, Box::new(Fixed)).expect("a session without settings opens")
}

fn answer(session: &mut LocalSession<Memory>, sql: &str) -> Vec<String> {
    let mut printed = Printed::default();
    let result = session.simple(sql, &mut printed);
    let mut lines = printed.lines;
    if !sql.to_ascii_lowercase().contains("order by") {
        lines.sort();
    }
    lines.extend(printed.tags.into_iter().filter(|tag| !tag.starts_with("COPY")));
    if let Err(error) = result {
        lines.push(format!("ERROR {}", error.state));
        if std::env::var_os("LOGIC_ALL").is_some() {
            lines.push(format!("  ({})", error.message));
        }
    }
    lines
}

fn run(path: &Path, report: &mut String) -> (usize, usize) {
    let text = fs::read_to_string(path).expect("a logic file can be read");
    let mut session = session();
    let (mut good, mut all) = (0, 0);
    for case in text.split_inclusive("====\n") {
        let Some((sql, wanted)) = case.split_once("\n----\n") else { continue };
        let mut wanted: Vec<String> = wanted.trim_end_matches("====\n").lines().map(str::to_string).collect();
        if !sql.to_ascii_lowercase().contains("order by") {
            let is_row = |line: &&String| {
                line.chars().next().is_some_and(|c| !c.is_ascii_uppercase()) || line.contains('|')
            };
            let rows = wanted.iter().take_while(is_row).count();
            wanted[..rows].sort();
        }
        let got = answer(&mut session, sql);
        let plain: Vec<&String> = got.iter().filter(|line| !line.starts_with("  (")).collect();
        all += 1;
        let mut a: Vec<&String> = plain.clone();
        let mut b: Vec<&String> = wanted.iter().collect();
        if !sql.to_ascii_lowercase().contains("order by") {
            a.sort();
            b.sort();
        }
        if a == b {
            good += 1;
        } else {
            let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
            let _ = writeln!(report, "-- {name}\n{sql}\n  wanted {wanted:?}\n  got    {got:?}\n");
        }
    }
    (good, all)
}

/// Differences that are known, by file: a change that makes one better lowers its number.
const KNOWN: &[(&str, usize)] = &[("select", 1)];

#[test]
fn answers_are_postgresql_s() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logic");
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("the logic files are there")
        .map(|entry| entry.expect("a folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "slt"))
        .collect();
    files.sort();
    let only = std::env::var("LOGIC_FILE").ok();
    let (mut total, mut failed) = (0, Vec::new());
    for path in files {
        let name = path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let mut report = String::new();
        let (good, all) = run(&path, &mut report);
        total += good;
        println!("{name}: {good} of {all}");
        let known = KNOWN.iter().find(|(file, _)| *file == name).map_or(0, |(_, known)| *known);
        if std::env::var_os("LOGIC_ALL").is_some() {
            println!("{report}");
        }
        if all - good > known {
            failed.push(format!("{name}: {} differences, {known} are known\n{report}", all - good));
        }
    }
    println!("{total} statements answered as PostgreSQL does");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
