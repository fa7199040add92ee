//! A client for tests: it prints what a session answers, and compares it with what PostgreSQL 15 answered
//! (`logic/make.py`).

#![allow(dead_code, reason = "every test uses a part of it")]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use liger_fabric::disk::TemporaryDirectory;
use liger_sql::exec::Surroundings;
use liger_sql::panics::is_caught;
use liger_sql::session::{
    Activity, Client, ColumnDescription, CopyInput, CopyShape, Format, Formats, Interrupt, InterruptReason,
    Notification, ServerView, Session, SessionStart, Sink,
};
use liger_sql::temporary::TemporaryPlace;
use liger_sql::types::text;
use liger_sql::{EvalContext, SqlError, Value};

/// A place for temporary files.
pub fn temporary_place() -> Arc<dyn TemporaryPlace> {
    let path = std::env::temp_dir().join("liger-tests");
    Arc::new(TemporaryDirectory::open(&path, "of-tests.").expect("there is a directory for temporary files"))
}

/// A clock that stands, numbers that are no better than counted, and a client and a server that nobody needs.
pub struct Fixed;

static COUNTED: AtomicU64 = AtomicU64::new(4);

impl Surroundings for Fixed {
    fn clock_us(&self) -> i64 {
        700_000_000_000_000
    }

    fn random_u64(&self) -> u64 {
        COUNTED.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    fn temporary_place(&self) -> Arc<dyn TemporaryPlace> {
        temporary_place()
    }
}

/// Its random numbers are a fault of the server.
pub struct Faulty;

impl Surroundings for Faulty {
    fn clock_us(&self) -> i64 {
        Fixed.clock_us()
    }

    fn random_u64(&self) -> u64 {
        assert!(is_caught(), "the host would end");
        panic!("on purpose");
    }

    fn temporary_place(&self) -> Arc<dyn TemporaryPlace> {
        temporary_place()
    }
}

impl Client for Fixed {
    fn notify(&self, _notification: Notification) {}
}

impl ServerView for Fixed {
    fn connections_max(&self) -> usize {
        100
    }

    fn activity(&self) -> Vec<Activity> {
        Vec::new()
    }

    fn started_us(&self) -> i64 {
        0
    }

    fn role_of(&self, _process_id: i32, _stop: Option<InterruptReason>) -> Option<String> {
        None
    }

    fn password_verifier(&self, password: &str) -> String {
        password.to_string()
    }
}

/// What a client would print.
#[derive(Default)]
pub struct Printed {
    types: Vec<u32>,
    /// The format asked for, column by column.
    pub formats: Vec<Format>,
    pub lines: Vec<String>,
    pub tags: Vec<String>,
    pub notices: Vec<String>,
    /// What COPY FROM STDIN is given, in one piece, which it takes.
    pub copied: Vec<u8>,
    taken: Vec<u8>,
    /// What is done while COPY FROM STDIN waits, and while a row that was told does: the client takes none
    /// then.
    pub meanwhile: Option<Box<dyn FnMut() + Send>>,
}

impl Sink for Printed {
    fn columns(&mut self, columns: &[ColumnDescription], formats: Formats<'_>) -> Result<(), SqlError> {
        self.formats = (0..columns.len()).map(|at| formats.of(at)).collect();
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

    fn send(&mut self, waits: &mut dyn FnMut()) -> Result<(), SqlError> {
        if let Some(meanwhile) = &mut self.meanwhile {
            waits();
            meanwhile();
        }
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

    fn notice(&mut self, notice: &SqlError) -> Result<(), SqlError> {
        self.notices.extend(told(notice));
        Ok(())
    }

    fn copy_in(&mut self, _shape: &CopyShape) -> Result<(), SqlError> {
        Ok(())
    }

    fn copy_read(&mut self, waits: &mut dyn FnMut()) -> Result<CopyInput<'_>, SqlError> {
        waits();
        if let Some(meanwhile) = &mut self.meanwhile {
            meanwhile();
        }
        self.taken = std::mem::take(&mut self.copied);
        Ok(if self.taken.is_empty() { CopyInput::Done } else { CopyInput::Data(&self.taken) })
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

    fn next_statement(&mut self, _statement_ms: u64) {}

    fn told(&self) -> u64 {
        ((self.lines.len() as u64) << 32) + self.tags.len() as u64
    }

    fn unsay(&mut self, told: u64) -> bool {
        self.lines.truncate((told >> 32) as usize);
        self.tags.truncate(told as u32 as usize);
        true
    }
}

/// The logic files, by name; `LOGIC_FILE=name` for one only.
pub fn files() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logic");
    let only = std::env::var("LOGIC_FILE").ok();
    let mut files: Vec<(String, PathBuf)> = fs::read_dir(&folder)
        .expect("the logic files are there")
        .map(|entry| entry.expect("a folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "slt"))
        .map(|path| (path.file_stem().expect("a name").to_string_lossy().into_owned(), path))
        .filter(|(name, _)| only.as_ref().is_none_or(|only| only == name))
        .collect();
    files.sort();
    files
}

/// What a session of `postgres` is opened with.
pub fn start() -> SessionStart {
    SessionStart {
        user: "postgres".to_string(),
        database: "logic".to_string(),
        parameters: Vec::new(),
        process_id: 1,
        address: None,
        interrupt: Arc::new(Interrupt::default()),
        encoding: Arc::default(),
        client: Arc::new(Fixed),
        server: Arc::new(Fixed),
    }
}

/// The answer to a text: its rows, sorted unless the text does, its tags, and the code of its error.
pub fn answer(session: &mut dyn Session, sql: &str) -> Vec<String> {
    let (mut printed, error) = ask(session, sql);
    if !sql.to_ascii_lowercase().contains("order by") {
        printed.lines.sort();
    }
    printed.lines.extend(printed.tags);
    printed.lines.extend(error.map(|error| format!("ERROR {}", error.state)));
    printed.lines
}

/// What a session prints for a text, and its error.
pub fn ask(session: &mut dyn Session, sql: &str) -> (Printed, Option<SqlError>) {
    let mut printed = Printed::default();
    let error = session.simple(sql, &mut printed).err();
    printed.tags.retain(|tag| !tag.starts_with("COPY"));
    (printed, error)
}

/// An error or a notice, in as many lines as it has parts, as the logic files have it.
fn told(error: &SqlError) -> Vec<String> {
    let at = error.position.map_or_else(String::new, |position| format!(" at {position}"));
    let mut lines = vec![format!("{} {}{at}: {}", error.severity.as_str(), error.state, error.message)];
    lines.extend(error.detail.iter().map(|detail| format!("DETAIL: {detail}")));
    lines.extend(error.hint.iter().map(|hint| format!("HINT: {hint}")));
    lines.extend(error.context.iter().map(|context| format!("CONTEXT: {context}")));
    lines.iter().map(|line| line.replace('\n', "\\n")).collect()
}

/// The statements of a logic file.
pub fn statements(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).expect("a logic file can be read");
    let cases = text.split_inclusive("====\n").filter_map(|case| case.split_once("\n----\n"));
    cases.map(|(sql, _)| sql.to_string()).collect()
}

/// Runs a logic file; how many statements were answered right, of how many.
pub fn run(path: &Path, session: &mut dyn Session, report: &mut String) -> (usize, usize) {
    let text = fs::read_to_string(path).expect("a logic file can be read");
    let (mut good, mut all) = (0, 0);
    for case in text.split_inclusive("====\n") {
        let Some((sql, wanted)) = case.split_once("\n----\n") else { continue };
        let wanted: Vec<&str> = wanted.trim_end_matches("====\n").lines().collect();
        let (printed, error) = ask(session, sql);
        let mut got = [printed.lines, printed.tags, printed.notices].concat();
        got.extend(error.iter().flat_map(told));
        let got: Vec<&str> = got.iter().flat_map(|line| line.split('\n')).collect();
        all += 1;
        let (mut a, mut b) = (got.clone(), wanted.clone());
        if !sql.to_ascii_lowercase().contains("order by") {
            a.sort_unstable();
            b.sort_unstable();
        }
        if a == b {
            good += 1;
        } else {
            let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
            let (wanted, got) = (wanted.join("\n    "), got.join("\n    "));
            let _ = writeln!(report, "-- {name}\n{sql}\n  wanted\n    {wanted}\n  got\n    {got}\n");
        }
    }
    (good, all)
}
