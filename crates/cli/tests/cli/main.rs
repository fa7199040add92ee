//! The real binary, as people run it.

mod access;
mod backup;
mod benchmarks;
mod damage;
mod durability;
mod endings;
mod explorations;
mod failures;
mod growing;
mod ledger;
mod older;
mod orders;
mod paced;
mod pods;
mod probe;
mod refusals;
mod rivals;
mod rolling;
mod simulations;
mod sql;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// `liger` with these arguments, separated by blanks.
fn liger(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_liger"));
    command.env("TMPDIR", quick_temp_dir());
    command.args(arguments.split_whitespace());
    command
}

/// A tiny TPC-C run with these further arguments.
fn tpcc(arguments: &str) -> Command {
    liger(&format!("bench tpcc --scale-divisor 100 --seconds 0.5 --warm-up 0.1 --json {arguments}"))
}

fn output(command: &mut Command) -> Output {
    command.output().expect("the binary runs")
}

/// Sends a signal to a process of a test.
fn signal(process: u32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the program writes UTF-8")
}

/// The JSON object in the last line of a successful run.
#[track_caller]
fn json(command: &mut Command) -> Value {
    let output = output(command);
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    let out = text(&output.stdout);
    serde_json::from_str(out.lines().last().expect("a line")).expect("the last line is JSON")
}

/// The command must be refused with code 2 and one line that starts with `error:` and contains all of
/// `parts`.
#[track_caller]
fn refused(command: &mut Command, parts: &[&str]) -> String {
    let output = output(command);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error:")).collect();
    assert_eq!(errors.len(), 1, "{said}");
    for part in parts {
        assert!(errors[0].contains(part), "'{part}' is not in: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
    said
}

/// Where files of tests lie: in memory if there is such a place, for tests count on time and not on disks.
fn quick_temp_dir() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.exists() { memory } else { std::env::temp_dir() }
}

/// A folder of a test, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = quick_temp_dir().join(format!("liger-cli-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a plain path").to_owned()
    }

    /// A file with these contents.
    fn holding(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.file(name);
        std::fs::write(&path, bytes).expect("a temporary file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn bytes_of(path: &str) -> Vec<u8> {
    std::fs::read(path).expect("the file is still there")
}

fn exists(path: &str) -> bool {
    Path::new(path).exists()
}
