//! Scripts: what several sessions do at the same time.
//!
//! ```text
//! # what it is about
//! setup            tables, once
//! reset            brings the rows to their first state
//! session          steps, one a line: `begin; ...` to `commit` or `rollback` is a transaction, and any
//!                  other line is one
//! session          ...
//! state            queries that say what is there in the end
//! holds            queries that answer `t` in the end, whatever the order was
//! errors           SQLSTATEs, the only ones that transactions may fail with
//! unrefused        numbers of sessions, from 1 on, none of whose transactions ever fails
//! apart            no lines: the judge does not look for a serial order (SKIP LOCKED has none)
//! ```

use std::fs;
use std::path::Path;

/// The steps of a transaction.
pub type Transaction = Vec<String>;

#[derive(Clone, Default, Debug)]
pub struct Script {
    pub name: String,
    pub setup: Vec<String>,
    pub reset: Vec<String>,
    pub sessions: Vec<Vec<Transaction>>,
    pub state: Vec<String>,
    pub holds: Vec<String>,
    pub errors: Vec<String>,
    /// Sessions, from 0 on.
    pub unrefused: Vec<usize>,
    pub apart: bool,
}

fn opens(step: &str) -> bool {
    step.starts_with("begin")
}

fn closes(step: &str) -> bool {
    let last = step.rsplit(';').map(str::trim).find(|part| !part.is_empty()).unwrap_or("");
    matches!(last, "commit" | "rollback")
}

impl Script {
    /// Reads one.
    pub fn parse(name: &str, text: &str) -> Script {
        let mut script = Script { name: name.to_owned(), ..Script::default() };
        let mut part = "";
        let mut in_block = false;
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            let parts = ["setup", "reset", "session", "state", "holds", "errors", "unrefused", "apart"];
            if parts.contains(&line) {
                assert!(!in_block, "{name}: a transaction does not end before {line}");
                part = line;
                match part {
                    "session" => script.sessions.push(Vec::new()),
                    "apart" => script.apart = true,
                    _ => {}
                }
                continue;
            }
            let line = line.trim().to_owned();
            match part {
                "setup" => script.setup.push(line),
                "reset" => script.reset.push(line),
                "state" => script.state.push(line),
                "holds" => script.holds.push(line),
                "errors" => script.errors.push(line),
                "unrefused" => script.unrefused.push(line.parse::<usize>().expect("a session's number") - 1),
                "session" => {
                    let session = script.sessions.last_mut().expect("it was just begun");
                    let is_first = !in_block;
                    in_block = (in_block || opens(&line)) && !closes(&line);
                    match is_first {
                        true => session.push(vec![line]),
                        false => session.last_mut().expect("a transaction is open").push(line),
                    }
                }
                other => panic!("{name}: a line in {other:?}: {line}"),
            }
        }
        script
    }

    /// All of them, by name; `ISOLATION=name` for one only.
    pub fn all() -> Vec<Script> {
        let only = std::env::var("ISOLATION").ok();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/isolation");
        let mut scripts = Vec::new();
        for entry in fs::read_dir(folder).expect("the scripts are there") {
            let path = entry.expect("a folder can be listed").path();
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            if path.extension().is_some_and(|end| end == "spec") && only.as_ref().is_none_or(|o| *o == name) {
                scripts.push(Script::parse(&name, &fs::read_to_string(&path).expect("a script")));
            }
        }
        scripts.sort_by(|a, b| a.name.cmp(&b.name));
        scripts
    }

    /// How many steps each session takes.
    pub fn lengths(&self) -> Vec<usize> {
        self.sessions.iter().map(|all| all.iter().map(Vec::len).sum()).collect()
    }

    /// The same, but its steps are no transactions: each is committed by itself. A judge must notice.
    pub fn loosened(&self) -> Script {
        let mut script = self.clone();
        for step in script.sessions.iter_mut().flatten().flatten() {
            let parts = step.split(';').map(str::trim);
            let kept: Vec<&str> = parts
                .filter(|part| !part.starts_with("begin") && !matches!(*part, "commit" | "rollback"))
                .collect();
            // A step that does nothing keeps its place.
            *step = if kept.is_empty() { "set application_name = ''".to_owned() } else { kept.join("; ") };
        }
        script
    }
}
