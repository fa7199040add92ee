//! Runs that are interrupted or lose a host: a clear line, the right code, and nothing left behind.

#![expect(clippy::disallowed_methods, reason = "real processes are watched in real time")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::*;

/// A run of a minute, past its start: its transactions are running.
struct Started {
    child: Child,
    said: std::thread::JoinHandle<String>,
    hosts: Vec<u32>,
}

fn start(arguments: &str) -> Started {
    let mut command = tpcc(&format!("--seconds 60 {arguments}"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let mut errors = BufReader::new(child.stderr.take().expect("piped"));
    let mut said = String::new();
    while !said.contains("running for") {
        assert!(errors.read_line(&mut said).expect("UTF-8") > 0, "it ended early: {said}");
    }
    let hosts = children_of(child.id());
    let said = std::thread::spawn(move || {
        errors.lines().map_while(Result::ok).for_each(|line| said.push_str(&format!("{line}\n")));
        said
    });
    Started { child, said, hosts }
}

impl Started {
    /// Waits for its end, which must come soon: its exit code and what it said. No host may be left.
    #[track_caller]
    fn ends(mut self) -> (Option<i32>, String) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("our child") {
                break status;
            }
            assert!(start.elapsed() < Duration::from_secs(30), "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        let said = self.said.join().expect("the reader ends with the output");
        while self.hosts.iter().any(|host| is_alive(*host)) {
            assert!(start.elapsed() < Duration::from_secs(30), "hosts {:?} are left", self.hosts);
            std::thread::sleep(Duration::from_millis(10));
        }
        (status.code(), said)
    }
}

/// State and parent of a process, unless it is gone.
fn stat(process: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn is_alive(process: u32) -> bool {
    stat(process).is_some_and(|(state, _)| state != 'Z')
}

fn children_of(parent: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("a proc file system");
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter(|process| stat(*process).is_some_and(|(_, of)| of == parent)).collect()
}

#[test]
fn an_interrupt_ends_everything() {
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        let folder = Folder::new(&format!("interrupt-{name}"));
        let path = folder.file("pod");
        let started = start(&format!("--memory {path}"));
        assert_eq!(started.hosts.len(), 2);
        assert!(exists(&path));
        signal(started.child.id(), name);
        let (ended, said) = started.ends();
        assert_eq!(ended, Some(code), "{said}");
        assert!(said.contains("error: interrupted"), "{said}");
        assert!(!exists(&path), "the memory is removed");
    }
}

#[test]
fn an_interrupted_run_keeps_its_file_if_told_to() {
    let folder = Folder::new("interrupt-keep");
    let path = folder.file("pod");
    let started = start(&format!("--memory {path} --keep"));
    signal(started.child.id(), "INT");
    let (ended, said) = started.ends();
    assert_eq!(ended, Some(130), "{said}");
    let pod = json(&mut liger(&format!("inspect --json {path}")));
    assert_eq!(pod["hosts"][0]["state"], "ALIVE", "nobody has recovered it yet");
}

#[test]
fn a_host_that_is_killed_is_reported() {
    let started = start("--hosts 3");
    signal(started.hosts[1], "KILL");
    let (ended, said) = started.ends();
    assert_eq!(ended, Some(1), "{said}");
    assert!(said.contains("error: host") && said.contains("was killed by signal 9"), "{said}");
}

#[test]
fn hosts_do_not_outlive_the_benchmark() {
    let started = start("");
    signal(started.child.id(), "KILL");
    let (ended, _) = started.ends();
    assert_eq!(ended, None, "it was killed");
}

#[test]
fn memory_in_use_is_refused_even_by_force() {
    let folder = Folder::new("in-use");
    let path = folder.file("pod");
    let started = start(&format!("--memory {path}"));
    refused(&mut tpcc(&format!("--memory {path} --force")), &["is in use", "host"]);
    signal(started.child.id(), "INT");
    assert_eq!(started.ends().0, Some(130), "the other run was not disturbed before");
}
