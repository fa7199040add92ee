//! Commands that are interrupted, pods whose launcher is killed, output that nobody reads: each ends soon,
//! and leaves everything as it was.

#![expect(clippy::disallowed_methods, reason = "real processes are watched in real time")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::pods::done;
use crate::*;

/// An interrupted command has ended after this time: a second, and slack for busy machines.
const SOON: Duration = Duration::from_secs(5);

/// Waits for the end of a child, which is to come soon.
#[track_caller]
fn ended_soon(child: &mut Child, what: &str) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("our child") {
            return status;
        }
        if start.elapsed() > SOON {
            let _ = child.kill();
            panic!("{what} goes on after {SOON:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Files of pods' memory that processes of this number have made, or their children.
fn memories_of(process: u32) -> BTreeSet<String> {
    let entries = std::fs::read_dir(quick_temp_dir()).expect("a folder").flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with(&format!("liger-{process}-"))).collect()
}

/// Processes of this program that have a word in their command line.
fn processes_with(word: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("a folder").flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has = |number: &u32| {
        let command = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        *number != std::process::id() && String::from_utf8_lossy(&command).contains(word)
    };
    numbers.filter(has).collect()
}

#[track_caller]
fn nobody_has(word: &str) {
    let start = Instant::now();
    while !processes_with(word).is_empty() {
        assert!(start.elapsed() < SOON, "processes of {word} live on: {:?}", processes_with(word));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a command, and interrupts it after a moment.
#[track_caller]
fn interrupted(arguments: &str, after: Duration) -> (u32, ExitStatus) {
    let mut command = liger(arguments);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary runs");
    std::thread::sleep(after);
    signal(child.id(), "TERM");
    let process = child.id();
    (process, ended_soon(&mut child, arguments))
}

/// A pod that serves.
fn serving(arguments: &str) -> Child {
    let mut command = liger(arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary runs");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("UTF-8");
    assert!(line.contains("hosts serve"), "{line}");
    child
}

fn memory_of(dir: &str) -> String {
    let text = std::fs::read_to_string(format!("{dir}/pod.json")).expect("a description");
    let described: Value = serde_json::from_str(&text).expect("JSON");
    described["memory"].as_str().expect("a name").to_owned()
}

#[test]
fn an_interrupt_ends_every_long_command_and_nothing_stays() {
    let folder = Folder::new("interrupted");
    let (out, profile) = (folder.file("out"), folder.file("machine.toml"));
    let many_pods = "--vary hosts=4,8,16 --vary cxl-latency=100,200,400";
    for (at, arguments) in [
        "bench tpcc --hosts 2 --seconds 60 --scale-divisor 100".to_owned(),
        "bench ycsb --hosts 2 --seconds 60".to_owned(),
        "bench ledger --hosts 2 --time 60s --accounts 500".to_owned(),
        "sim rows --seconds 60".to_owned(),
        format!("reproduce pasha --quick --out {out}"),
        format!("explore --workload ycsb {many_pods} --keys 200000 --out {out}"),
        format!("probe --seconds 60 --out {profile}"),
    ]
    .iter()
    .enumerate()
    {
        // Early, and in the middle of things.
        for after in [Duration::from_millis(50), Duration::from_millis(900 + 100 * at as u64)] {
            let (process, status) = interrupted(arguments, after);
            let told = (status.signal(), status.code());
            assert!(matches!(told, (Some(15), _) | (_, Some(143))), "{arguments}: {told:?}");
            assert_eq!(memories_of(process), BTreeSet::new(), "{arguments}");
            assert!(!exists(&profile));
        }
    }
}

#[test]
fn a_pod_that_is_interrupted_at_its_start_was_never_there() {
    let folder = Folder::new("start");
    let dir = folder.file("never");
    for after in [0, 30, 100, 200, 400] {
        let arguments = format!("up {dir} --tables ledger --accounts 500 --lease 60s");
        let (process, status) = interrupted(&arguments, Duration::from_millis(after));
        // It may have served already.
        match (status.signal(), status.code()) {
            (Some(15), _) | (_, Some(143)) => assert!(!exists(&dir), "after {after} ms"),
            (_, Some(0)) => std::fs::remove_dir_all(&dir).expect("a pod"),
            told => panic!("after {after} ms: {told:?}"),
        }
        assert_eq!(memories_of(process), BTreeSet::new(), "after {after} ms");
        nobody_has(&dir);
    }
}

#[test]
fn a_pod_ends_at_once_also_if_a_host_hangs() {
    let folder = Folder::new("hangs");
    let dir = folder.file("pod");
    let mut up = serving(&format!("up {dir} --tables ledger --accounts 500 --lease 60s"));
    signal(up.id(), "TERM");
    assert_eq!(ended_soon(&mut up, "an idle pod").code(), Some(0));
    let mut up = serving(&format!("recover {dir}"));
    done(&format!("hang {dir} 1"));
    // Who cannot wait ends it at once, and loses nothing: the memory stays, if the end was not there first.
    signal(up.id(), "TERM");
    signal(up.id(), "INT");
    let status = ended_soon(&mut up, "a pod that is interrupted twice");
    assert!(matches!(status.code(), Some(0 | 130)), "{status:?}");
    assert!(status.code() == Some(130) || !exists(&memory_of(&dir)));
    let mut up = serving(&format!("recover {dir}"));
    done(&format!("hang {dir} 1"));
    signal(up.id(), "TERM");
    assert_eq!(ended_soon(&mut up, "a pod with a host that hangs").code(), Some(0));
    assert!(!exists(&memory_of(&dir)));
    nobody_has(&dir);
    // Its files have everything.
    assert!(done(&format!("verify {dir}")).contains("whole:"));
    for command in ["verify", "recover"] {
        let (_, status) = interrupted(&format!("{command} {dir}"), Duration::from_millis(20));
        assert!(matches!(status.code(), None | Some(0 | 143)), "{command}: {status:?}");
    }
    assert!(done(&format!("verify {dir}")).contains("whole:"));
    nobody_has(&dir);
}

#[test]
fn what_a_killed_launcher_leaves_is_named_and_may_go() {
    let folder = Folder::new("clean");
    for (durability, kept) in [("pod", true), ("storage", false)] {
        let dir = folder.file(durability);
        let options = format!("--tables ledger --accounts 500 --lease 60s --durability {durability}");
        let mut up = serving(&format!("up {dir} {options}"));
        let memory = memory_of(&dir);
        // Nothing of a pod that runs is left over.
        assert!(!done("clean").contains(&memory));
        assert!(done(&format!("clean {dir}")).contains("nothing is left"));
        done(&format!("hang {dir} 1"));
        signal(up.id(), "KILL");
        assert_eq!(up.wait().expect("our child").signal(), Some(9));
        nobody_has(&dir);
        assert!(exists(&memory), "it outlives its hosts");
        let status = output(&mut liger(&format!("status {dir}")));
        assert_eq!(status.status.code(), Some(3));
        let said = text(&status.stderr);
        assert!(said.contains(&memory) && said.contains(&dir) && said.contains("has ended"), "{said}");
        let cleaned = done(&format!("clean {dir}"));
        assert_eq!((cleaned.contains("kept"), exists(&memory)), (kept, kept), "{cleaned}");
        if kept {
            assert!(cleaned.contains("liger recover") && cleaned.contains("--discard-memory"), "{cleaned}");
            assert!(done(&format!("clean {dir} --discard-memory")).contains("removed"));
        }
        assert!(!exists(&memory) && !exists(&format!("{memory}.pod")));
        let mut up = serving(&format!("recover {dir}"));
        signal(up.id(), "INT");
        assert_eq!(ended_soon(&mut up, "a recovered pod").code(), Some(0));
    }
    // Of a pod whose directory is gone nobody needs anything.
    let dir = folder.file("gone");
    let mut up = serving(&format!("up {dir} --tables ledger --accounts 500 --lease 60s"));
    let memory = memory_of(&dir);
    signal(up.id(), "KILL");
    up.wait().expect("our child");
    nobody_has(&dir);
    std::fs::remove_dir_all(&dir).expect("a directory");
    assert!(done("clean").contains(&format!("removed {memory}")));
    assert!(!exists(&memory));
    refused(&mut liger("clean --discard-memory"), &["required arguments"]);
}

#[test]
fn memory_is_taken_as_it_is_needed() {
    use std::os::unix::fs::MetadataExt;
    let folder = Folder::new("little");
    let dir = folder.file("pod");
    let mut up = serving(&format!("up {dir} --tables ledger --accounts 500 --lease 60s"));
    let found = std::fs::metadata(memory_of(&dir)).expect("it is there");
    let (len, taken) = (found.len(), found.blocks() * 512);
    assert!(len > 500 << 20 && taken < 32 << 20, "{taken} bytes of {len} are taken");
    signal(up.id(), "TERM");
    assert_eq!(ended_soon(&mut up, "an idle pod").code(), Some(0));
    // More than machines have that run tests; where one has more, a pod of this size is none of theirs.
    let text = std::fs::read_to_string("/proc/meminfo").expect("it is there");
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")).expect("a line");
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("a number");
    if kib < 200 << 20 {
        let large = format!("up {} --memory 250G", folder.file("large"));
        refused(&mut liger(&large), &["no room for", "are free", "smaller pod"]);
    }
}

#[test]
fn output_that_nobody_reads_ends_a_command_quietly() {
    let folder = Folder::new("unread");
    let dir = folder.file("pod");
    let mut up = serving(&format!("up {dir} --tables ledger --accounts 500 --lease 60s"));
    for arguments in [format!("status {dir}"), format!("status {dir} --json"), "sim rows --json".to_owned()] {
        let mut command = liger(&arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut said).expect("UTF-8");
        let status = child.wait().expect("our child");
        assert_eq!(status.signal(), Some(13), "{arguments}: {status:?}, {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
    // A place that is full is told.
    let full = std::fs::File::options().write(true).open("/dev/full").expect("a device");
    let output = liger(&format!("status {dir}")).stdout(full).output().expect("it runs");
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.contains("panicked")), (Some(1), false), "{said}");
    assert!(said.contains("error: the output cannot be written"), "{said}");
    signal(up.id(), "TERM");
    assert_eq!(ended_soon(&mut up, "an idle pod").code(), Some(0));
}
