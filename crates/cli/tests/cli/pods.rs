//! Pods in directories: made, looked at, disturbed, ended, and started again.

#![expect(clippy::disallowed_methods, reason = "real processes are watched in real time")]

use std::io::{BufRead, BufReader, ErrorKind};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use liger_fabric::native::{MemorySpec, NativeReader};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::superblock;

use crate::*;

/// A pod's supervisor, past its start.
pub struct Up(Child);

impl Up {
    #[track_caller]
    pub fn start(arguments: &str) -> Self {
        Self::started(&mut liger(arguments))
    }

    /// What this command starts.
    #[track_caller]
    pub fn started(command: &mut Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        // A copy of the program may still be open for writing in a child that another test has forked, and
        // that has not begun its own program yet.
        let start = Instant::now();
        let mut child = loop {
            match command.spawn() {
                Err(busy)
                    if busy.kind() == ErrorKind::ExecutableFileBusy && start.elapsed().as_secs() < 5 =>
                {
                    std::thread::sleep(Duration::from_millis(10));
                }
                spawned => break spawned.expect("the binary runs"),
            }
        };
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        out.read_line(&mut line).expect("UTF-8");
        assert!(line.contains("hosts serve"), "{line}");
        Self(child)
    }

    /// Ends it as a person would.
    #[track_caller]
    pub fn end(mut self) {
        let interrupted = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status();
        assert!(interrupted.expect("kill runs").success());
        assert_eq!(self.0.wait().expect("our child").code(), Some(0));
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // A test that failed; its hosts end with it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn status(dir: &str) -> Value {
    let output = output(&mut liger(&format!("status {dir} --json")));
    let told = matches!(output.status.code(), Some(0 | 3));
    assert!(told, "{}\n{}", text(&output.stdout), text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("an object")
}

#[track_caller]
pub fn done(arguments: &str) -> String {
    let output = output(&mut liger(arguments));
    assert!(output.status.success(), "{arguments}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Waits until a host is as it should be.
#[track_caller]
fn wait_for(dir: &str, host: usize, key: &str, value: &Value) {
    let start = Instant::now();
    // A pod that is being recovered has no memory for a moment.
    let shown = || output(&mut liger(&format!("status {dir} --json")));
    let found = || serde_json::from_slice::<Value>(&shown().stdout).unwrap_or_default();
    while found()["hosts"][host][key] != *value {
        assert!(start.elapsed() < Duration::from_secs(60), "{key}: {:?}", shown());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_pod_is_made_disturbed_and_ended() {
    let folder = Folder::new("up");
    let dir = folder.file("pod");
    let up = Up::start(&format!("up {dir} --tables ledger --hosts 2 --accounts 500 --lease 60s"));
    let shown = status(&dir);
    for host in 0..2 {
        let found = &shown["hosts"][host];
        assert_eq!((&found["state"], &found["doing"]), (&"ALIVE".into(), &"running".into()), "{shown}");
        assert_eq!((&found["incarnation"], &found["partitions"]), (&1.into(), &vec![host].into()));
        assert!(found["silent_ms"].as_f64() < Some(10_000.0) && found["stored_bytes"].as_u64() > Some(0));
    }
    let memory = shown["memory"].as_str().expect("a file").to_owned();
    assert!(exists(&memory), "{memory}");
    let table = done(&format!("status {dir}"));
    assert!(table.contains("ALIVE") && table.contains("lease 60000 ms"), "{table}");
    assert!(done(&format!("verify {dir}")).contains("every partition has one owner"));
    done(&format!("hang {dir} 1"));
    wait_for(&dir, 1, "doing", &"stopped".into());
    done(&format!("resume {dir} 1"));
    wait_for(&dir, 1, "doing", &"running".into());
    done(&format!("checkpoint {dir}"));
    // Two groups of clients, one after the other: their numbers do not meet.
    for _ in 0..2 {
        let report = json(&mut liger(&format!("bench ledger --pod {dir} --time 300ms --json")));
        assert_eq!((&report["consistent"], &report["acknowledged_lost"]), (&true.into(), &0.into()));
    }
    refused(&mut liger(&format!("add {dir} 1")), &["host 1 runs already"]);
    refused(&mut liger(&format!("kill {dir} 2")), &["no host 2", "0 to 1"]);
    up.end();
    assert!(!exists(&memory), "the memory goes with the pod");
    assert_eq!(status(&dir)["hosts"][0]["doing"], "gone");
    assert_eq!(output(&mut liger(&format!("status {dir}"))).status.code(), Some(3), "the pod is down");
    refused(&mut liger(&format!("kill {dir} 0")), &["no process"]);
    refused(&mut liger(&format!("add {dir} 0")), &["nobody supervises", "liger recover"]);
    refused(&mut liger(&format!("up {dir}")), &["holds a pod", "liger recover"]);
}

#[test]
fn a_pod_is_started_again_from_its_files() {
    let folder = Folder::new("again");
    let dir = folder.file("pod");
    let first = json(&mut liger(&format!("bench ledger --accounts 500 --time 300ms --json --data {dir}")));
    for round in 1..3 {
        let whole = json(&mut liger(&format!("verify {dir} --json")));
        assert_eq!(whole["generation"], round);
        assert!(whole["rows"].as_u64() >= first["transfers"].as_u64().map(|n| n + 1000), "{whole}");
        let up = Up::start(&format!("recover {dir}"));
        let report = json(&mut liger(&format!("bench ledger --pod {dir} --time 200ms --json")));
        assert_eq!(report["consistent"], true, "{report}");
        assert!(report["transfers"].as_u64() > first["transfers"].as_u64(), "{report}");
        up.end();
    }
}

#[test]
fn damaged_files_are_named() {
    let folder = Folder::new("damaged");
    let dir = folder.file("pod");
    json(&mut liger(&format!("bench ledger --accounts 500 --time 300ms --json --data {dir}")));
    assert!(done(&format!("verify {dir}")).contains("whole:"));
    for (file, name) in [
        ("host-1/log-0000000001", "log-0000000001"),
        ("host-0/image-1-0", "image-1-0"),
        ("host-1/manifest", "manifest"),
    ] {
        let path = format!("{dir}/data/{file}");
        let whole = bytes_of(&path);
        let mut damaged = whole.clone();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        std::fs::write(&path, &damaged).expect("the file can be written");
        let host = &file[..6].replace('-', " ");
        refused(&mut liger(&format!("verify {dir}")), &[host, name, "byte"]);
        std::fs::write(&path, &whole).expect("the file can be written");
    }
    std::fs::remove_file(format!("{dir}/data/host-1/image-1-1")).expect("an image");
    refused(&mut liger(&format!("verify {dir}")), &["host 1", "image-1-1", "missing"]);
    refused(&mut liger(&format!("verify {dir}-none")), &["no pod"]);
}

#[test]
fn tpcc_in_a_directory() {
    let folder = Folder::new("tpcc-pod");
    let dir = folder.file("pod");
    let up = Up::start(&format!("up {dir} --tables tpcc --scale-divisor 200"));
    assert_eq!(status(&dir)["tables"], "tpcc");
    refused(&mut liger(&format!("bench ledger --pod {dir} --time 100ms")), &["holds TPC-C"]);
    up.end();
    let whole = json(&mut liger(&format!("verify {dir} --json")));
    assert!(whole["rows"].as_u64() > Some(1000), "{whole}");
}

/// Kills all hosts of a pod, and then its supervisor.
pub fn kill_everybody(dir: &str, hosts: u8, up: &mut Up) {
    let process = |host: u8| {
        let process = std::fs::read_to_string(format!("{dir}/host-{host}/process")).expect("it runs");
        process.split(' ').next().and_then(|number| number.parse().ok()).expect("a number")
    };
    let all: Vec<u32> = (0..hosts).map(process).collect();
    // None is to find another one dead, and say so in the memory.
    for name in ["STOP", "KILL"] {
        all.iter().for_each(|process| signal(*process, name));
    }
    assert_ne!(up.0.wait().expect("our child").code(), Some(0), "no host is left");
}

/// The memory of a pod, with host 0's process said to be of another machine or run of the system.
fn of_an_earlier_run(memory: &str, bytes: &[u8]) -> Vec<u8> {
    std::fs::write(memory, bytes).expect("it can be written");
    let mapping = MemorySpec::File(memory.into()).open_read_only().expect("it is there");
    let len = mapping.len() as u64;
    let cx = Cx::new(NativeReader::new(mapping), HostId(0), WorkerId(0), 0);
    let plan = superblock::open(&cx, len).expect("an intact pod");
    let name = plan.membership(HostId(0)).word(2).offset() as usize;
    let mut changed = bytes.to_vec();
    changed[name + 7] ^= 1;
    changed
}

#[test]
fn memory_that_outlives_all_hosts_is_salvaged() {
    let folder = Folder::new("salvage");
    let dir = folder.file("pod");
    let mut up =
        Up::start(&format!("up {dir} --tables ledger --hosts 2 --accounts 500 --lease 60s --no-restart"));
    let ask = format!("bench ledger --pod {dir} --time 300ms --json");
    let report = json(&mut liger(&ask));
    let transfers = report["transfers"].as_u64().expect("a number");
    let memory = status(&dir)["memory"].as_str().expect("a file").to_owned();
    // The memory is in use, so nobody may start the pod a second time.
    refused(&mut liger(&format!("recover {dir}")), &["is in use", "process"]);
    kill_everybody(&dir, 2, &mut up);
    assert!(exists(&memory), "{memory} outlives its hosts");

    // What is damaged is named, and nothing is given up that nobody has asked for.
    let whole = bytes_of(&memory);
    let mut damaged = whole.clone();
    // In the configuration.
    damaged[70] ^= 1;
    std::fs::write(&memory, &damaged).expect("it can be written");
    refused(&mut liger(&format!("recover {dir}")), &["checksum", "--discard-memory"]);

    // As if the machine had been started again meanwhile: nobody can say what became of the processes.
    std::fs::write(&memory, of_an_earlier_run(&memory, &whole)).expect("it can be written");
    refused(&mut liger(&format!("recover {dir}")), &["host 0 was ALIVE", "--hosts-are-gone"]);
    let up = Up::start(&format!("recover {dir} --hosts-are-gone"));
    // Every transfer that was there is, and more can be asked for.
    let again = json(&mut liger(&ask));
    assert_eq!((&again["consistent"], &again["acknowledged_lost"]), (&true.into(), &0.into()), "{again}");
    assert!(again["transfers"].as_u64() > Some(transfers), "{again}");
    up.end();
    assert!(!exists(&memory), "the memory goes with the pod");
}

#[test]
fn what_has_failed_comes_back_by_itself() {
    let folder = Folder::new("nursed");
    let dir = folder.file("pod");
    // Long before a lease is over.
    let up = Up::start(&format!("up {dir} --tables ledger --hosts 2 --accounts 500 --lease 600s"));
    let ask = format!("bench ledger --pod {dir} --time 300ms --json");
    json(&mut liger(&ask));
    done(&format!("kill {dir} 1"));
    // It is on its way already, or about to be: whoever asks for it waits for that.
    done(&format!("add {dir} 1"));
    assert_eq!(
        (&status(&dir)["hosts"][1]["state"], &status(&dir)["hosts"][1]["down"]),
        (&"ALIVE".into(), &Value::Null)
    );
    // Its share comes back to it, when a checkpoint of host 0 has it.
    wait_for(&dir, 1, "partitions", &Value::from(vec![1]));
    let said = std::fs::read_to_string(format!("{dir}/host-0/said")).expect("a host's diary");
    let noticed = "level=warning event=host_accused what=\"host 1: its process ended, as host 0 noticed\"";
    for line in ["event=host_started host=0", noticed, "event=takeover_begins", "event=takeover_ends"] {
        assert!(said.contains(line), "{line}: {said}");
    }
    for host in 0..2 {
        done(&format!("kill {dir} {host}"));
    }
    // In a memory that was made anew.
    wait_for(&dir, 1, "incarnation", &1.into());
    for host in 0..2 {
        wait_for(&dir, host, "state", &"ALIVE".into());
    }
    let report = json(&mut liger(&ask));
    assert_eq!((&report["consistent"], &report["acknowledged_lost"]), (&true.into(), &0.into()), "{report}");
    up.end();
}

#[test]
fn who_is_cut_off_says_why() {
    let folder = Folder::new("why");
    let dir = folder.file("pod");
    let up = Up::start(&format!(
        "up {dir} --tables ledger --hosts 2 --accounts 500 --lease 500ms --no-restart --log-format json"
    ));
    assert_eq!(status(&dir)["hosts"][1]["down"], Value::Null);
    done(&format!("hang {dir} 1"));
    wait_for(&dir, 1, "doing", &"gone".into());
    let why = "was killed by signal 9: cut off by host 0: silent for ";
    let start = Instant::now();
    while !status(&dir)["hosts"][1]["down"].as_str().is_some_and(|down| down.starts_with(why)) {
        assert!(start.elapsed() < Duration::from_secs(20), "{}", status(&dir));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(done(&format!("status {dir}")).contains(&format!("host 1 is down: {why}")));
    let said = std::fs::read_to_string(format!("{dir}/host-0/said")).expect("a host's diary");
    assert!(
        said.contains("\"event\":\"host_accused\",\"what\":\"host 1: cut off by host 0: silent"),
        "{said}"
    );
    up.end();
}

#[test]
fn what_is_in_the_way_of_a_takeover_is_told_and_may_go() {
    let folder = Folder::new("locked");
    let dir = folder.file("pod");
    let up = Up::start(&format!("up {dir} --tables ledger --hosts 2 --accounts 500 --no-restart"));
    // Somebody else has the dead host's folder as soon as it is free: a backup, a second pod. The successor,
    // which hears of the death at once, comes later.
    let lock = std::fs::File::open(format!("{dir}/data/host-1/.lock")).expect("a host's folder");
    let successor = status(&dir)["hosts"][0]["process"].as_u64().expect("a process") as u32;
    signal(successor, "STOP");
    done(&format!("kill {dir} 1"));
    lock.lock().expect("a lock");
    signal(successor, "CONT");
    let start = Instant::now();
    while !done(&format!("status {dir}")).contains("host 0 cannot take over from host 1") {
        assert!(start.elapsed() < Duration::from_secs(20), "{}", status(&dir));
        std::thread::sleep(Duration::from_millis(20));
    }
    refused(&mut liger(&format!("remove {dir} 0")), &["owns the partitions [0]", "no other host"]);
    drop(lock);
    while status(&dir)["hosts"][0]["partitions"] != Value::from(vec![0, 1]) {
        assert!(start.elapsed() < Duration::from_secs(20), "{}", status(&dir));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(status(&dir)["hosts"][0]["troubles"], Value::Array(vec![]));
    up.end();
}

#[test]
fn a_host_is_removed_and_its_rows_stay() {
    let folder = Folder::new("removed");
    let dir = folder.file("pod");
    let made = "--tables ledger --hosts 2 --accounts 500 --lease 200ms --rebalance manual";
    let up = Up::start(&format!("up {dir} {made}"));
    json(&mut liger(&format!("bench ledger --pod {dir} --time 300ms --json")));
    done(&format!("remove {dir} 1"));
    assert_eq!(status(&dir)["hosts"][0]["partitions"], Value::from(vec![0, 1]));
    // It was no failure: nobody starts it again by himself.
    assert_eq!(status(&dir)["hosts"][1]["doing"], "gone");
    // The successor's checkpoint has to hold what it took over, first.
    wait_for(&dir, 1, "state", &"FREE".into());
    let told = done(&format!("verify {dir}"));
    assert!(told.contains("every partition has one owner"), "{told}");
    done(&format!("add {dir} 1"));
    assert_eq!(status(&dir)["hosts"][1]["partitions"], Value::Array(vec![]));
    let report = json(&mut liger(&format!("bench ledger --pod {dir} --time 300ms --json")));
    assert_eq!((&report["consistent"], &report["acknowledged_lost"]), (&true.into(), &0.into()), "{report}");
    // It owns nothing now, and leaves at once.
    assert!(done(&format!("remove {dir} 1")).contains("has left"));
    up.end();
}

#[test]
fn all_rows_are_looked_at_while_partitions_move() {
    let folder = Folder::new("looked");
    let dir = folder.file("pod");
    let made = "--tables ledger --hosts 2 --partitions 4 --accounts 500 --lease 2s --rebalance manual";
    let up = Up::start(&format!("up {dir} {made}"));
    let ended = AtomicBool::new(false);
    let checks = std::thread::scope(|scope| {
        scope.spawn(|| {
            for to in [1, 0].into_iter().cycle().take_while(|_| !ended.load(Ordering::Relaxed)) {
                done(&format!("rebalance {dir} --partition 0 --to {to}"));
            }
        });
        let checks: Vec<Output> = (0..10)
            .map(|_| output(&mut liger(&format!("bench ledger --pod {dir} --time 100ms --json"))))
            .collect();
        ended.store(true, Ordering::Relaxed);
        checks
    });
    for Output { status, stdout, stderr } in checks {
        match serde_json::from_slice::<Value>(&stdout) {
            Ok(report) => assert_eq!(report["consistent"], true, "{report}"),
            Err(_) => {
                assert!(
                    text(&stderr).contains("partitions went to other hosts, or were to go"),
                    "{status} {stderr:?}"
                )
            }
        }
    }
    up.end();
}

#[test]
fn partitions_go_to_other_hosts_while_clients_work() {
    let folder = Folder::new("moved");
    let dir = folder.file("pod");
    let made = "--tables ledger --hosts 2 --partitions 4 --accounts 500 --lease 2s --rebalance manual";
    let up = Up::start(&format!("up {dir} {made}"));
    let owned = || [0, 1].map(|host| status(&dir)["hosts"][host]["partitions"].clone());
    assert_eq!(owned(), [Value::from(vec![0, 2]), Value::from(vec![1, 3])]);
    let mut clients = liger(&format!("bench ledger --pod {dir} --time 6s --json"));
    let clients = clients.stdout(Stdio::piped()).spawn().expect("the binary runs");
    let told = done(&format!("rebalance {dir} --partition 0 --to 1"));
    assert!(told.contains("host 1: partitions [0, 1, 3]"), "{told}");
    assert_eq!(owned(), [Value::from(vec![2]), Value::from(vec![0, 1, 3])]);
    let told = done(&format!("rebalance {dir} --json"));
    let last: Value = serde_json::from_str(told.lines().last().expect("an object")).expect("an object");
    assert_eq!((&last["moved"], &last["owned"]["0"]), (&1.into(), &Value::from(vec![2, 3])), "{told}");
    refused(&mut liger(&format!("rebalance {dir} --partition 9 --to 1")), &["no partition 9", "4"]);
    refused(&mut liger(&format!("rebalance {dir} --partition 1 --to 2")), &["host 2"]);
    let report = clients.wait_with_output().expect("our child");
    let report: Value = serde_json::from_slice(&report.stdout).expect("an object");
    assert_eq!((&report["consistent"], &report["acknowledged_lost"]), (&true.into(), &0.into()), "{report}");
    let said = |host| std::fs::read_to_string(format!("{dir}/host-{host}/said")).expect("a host's diary");
    for event in ["partitions_closed", "partitions_released", "partitions_left", "partitions_arrived"] {
        assert!(said(0).contains(&format!("event={event}")), "{event}: {}", said(0));
    }
    let told = done(&format!("drain {dir} 0"));
    assert!(told.contains("has left"), "it owned nothing any more: {told}");
    assert_eq!(status(&dir)["hosts"][1]["partitions"], Value::from(vec![0, 1, 2, 3]));
    done(&format!("add {dir} 0"));
    let report = json(&mut liger(&format!("bench ledger --pod {dir} --time 300ms --json")));
    assert_eq!((&report["consistent"], &report["acknowledged_lost"]), (&true.into(), &0.into()), "{report}");
    up.end();
}
