//! The machine is measured, and the profile that comes of it can be used at once.

use crate::*;

#[test]
fn a_probe_writes_a_profile_to_run_by() {
    let folder = Folder::new("probe");
    let file = folder.file("here.toml");
    #[expect(clippy::disallowed_methods, reason = "a command that is bounded in real time")]
    let started = std::time::Instant::now();
    let report = json(&mut liger(&format!("probe --seconds 1 --json --out {file}")));
    assert!(started.elapsed().as_secs() < 30, "bounded time");
    let figures = report["figures"].as_object().expect("figures");
    let missing = report["missing"].as_object().expect("what is missing");
    assert_eq!(figures.len() + missing.len(), 28, "{report}");
    let median = |name: &str| figures[name]["median"].as_f64().expect(name);
    assert!(median("memory_read") > 5.0 * median("word_load_hit"), "{report}");
    assert!(report["memory_bytes"].as_u64() >= Some(64 << 20), "{report}");
    if report["processors"].as_u64() > Some(1) {
        assert!(median("handover_processes") > 10.0, "two processes took part: {report}");
    }
    let text = std::fs::read_to_string(&file).expect("it was written");
    assert_eq!(report["profile"], text);
    assert!(text.contains("measured by liger probe on ") && text.contains(", median of "), "{text}");

    let simulated = json(&mut liger(&format!(
        "sim tpcc --profile {file} --hosts 2 --workers 1 --scale-divisor 100 --virtual-ms 2 --json"
    )));
    assert_eq!(simulated["problems"], Value::Array(vec![]), "{simulated}");
    let paced = json(&mut tpcc(&format!("--backend paced --profile {file} --remote 60/90")));
    assert_eq!(paced["backend"], "paced: injected latencies of profile here, memfd, hwcc");
    assert_eq!(paced["consistent"], true);

    refused(&mut liger(&format!("probe --out {file}")), &["--out", "here.toml", "exists already", "--force"]);
    assert_eq!(std::fs::read_to_string(&file).expect("still there"), text);
}

#[test]
fn a_table_says_what_was_measured_and_where() {
    let folder = Folder::new("probe-table");
    let memory = folder.file("memory");
    let output = output(&mut liger(&format!("probe --seconds 1 --memory {memory}")));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    for part in ["processors", "median", "p90", "memory_read", "clflush_dirty_fence", "GB/s", &memory] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(!exists(&memory), "the file was the probe's own");
}

#[test]
fn bad_arguments_are_refused_before_anything_is_measured() {
    let folder = Folder::new("probe-refused");
    let there = folder.holding("there", &[1; 128]);
    let cases: [(&str, &[&str]); 7] = [
        ("--seconds 0", &["--seconds", "1..=600"]),
        ("--memory nonsense", &["--memory", "names no memory"]),
        ("--memory /dev/dax99.0", &["dax:/dev/dax99.0 does not exist"]),
        ("--memory fd:7", &["another process's memory"]),
        ("--out /nowhere/at/all.toml", &["--out /nowhere/at/all.toml", "name a file that can be written"]),
        (&format!("--memory {there}"), &["exists already"]),
        (&format!("--memory pci:{there}"), &["has 128 B, at least 4.0 MiB", "larger memory"]),
    ];
    for (arguments, parts) in cases {
        refused(&mut liger(&format!("probe {arguments}")), parts);
    }
    assert_eq!(std::fs::read(&there).expect("still there"), [1; 128]);
}
