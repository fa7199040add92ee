//! Clients outside the hosts: what they were told is there, whatever happens to hosts.

use crate::*;

/// A short run with these further arguments.
fn ledger(arguments: &str) -> Command {
    liger(&format!("bench ledger --accounts 500 --time 1s --json {arguments}"))
}

#[track_caller]
fn exactly_once(arguments: &str) -> Value {
    let report = json(&mut ledger(arguments));
    assert_eq!((&report["consistent"], &report["failures"]), (&true.into(), &Value::Array(vec![])));
    assert_eq!((&report["acknowledged_lost"], &report["doubled"]), (&0.into(), &0.into()), "{report}");
    assert!(report["acknowledged"].as_u64() > Some(100), "{report}");
    assert_eq!(report["unanswered"], 0, "{report}");
    report
}

#[test]
fn nobody_fails() {
    let folder = Folder::new("ledger");
    let svg = folder.file("plot.svg");
    let report = exactly_once(&format!("--hosts 3 --remote 50 --svg {svg}"));
    assert_eq!((&report["clients"], &report["kills"]), (&3.into(), &0.into()));
    assert_eq!(report["transfers"], report["acknowledged"]);
    let picture = text(&bytes_of(&svg));
    assert!(picture.contains("host 2") && picture.ends_with("</svg>\n"), "{picture}");
    let one = exactly_once("--hosts 1 --partitions 3 --workers 2 --durability storage");
    assert_eq!((&one["clients"], &one["durability"]), (&3.into(), &"storage".into()));
}

#[test]
fn all_hosts_are_killed_and_nothing_is_lost_or_doubled() {
    let report = exactly_once("--durability storage --crash-after 500ms");
    assert_eq!(report["kills"], 2);
    assert!(report["back"]["max_ms"].as_f64() > Some(1.0), "{report}");
    assert!(report["longest_wait"]["partitions"]["max_ms"].as_f64() > Some(1.0), "{report}");
}

#[test]
fn all_hosts_are_killed_and_the_memory_keeps_what_no_log_has() {
    let report = exactly_once("--durability pod --crash-after 500ms --keep-memory");
    assert_eq!(report["kills"], 2);
    assert!(report["salvaged_records"].as_u64() > Some(0), "{report}");
}

#[test]
fn a_table_and_a_plot_for_people() {
    let output = output(&mut liger("bench ledger --accounts 500 --time 500ms"));
    let out = text(&output.stdout);
    assert!(output.status.success(), "{out}{}", text(&output.stderr));
    for part in ["acknowledged and lost", "host 1    |", "exactly once", "p99"] {
        assert!(out.contains(part), "{part}: {out}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    refused(&mut ledger("--durability none"), &["--durability none", "use pod or storage"]);
    refused(&mut ledger("--crash-after 1s"), &["--durability storage"]);
    refused(&mut ledger("--hosts 1 --kill-every 1s"), &["--hosts 2"]);
    refused(&mut ledger("--hosts 3 --partitions 2"), &["--partitions"]);
    refused(&mut ledger("--accounts 1"), &["--accounts"]);
    refused(&mut liger("bench ledger --pod /nonexistent/pod"), &["no pod", "liger up"]);
    let long = format!("/tmp/{}", "x".repeat(120));
    refused(&mut ledger(&format!("--data {long}")), &["too long for a socket"]);
    refused(&mut tpcc("--kill-every 1s"), &["--durability"]);
    let usage = output(&mut ledger("--kill-every soon"));
    assert_eq!(usage.status.code(), Some(2));
}

#[test]
fn a_host_hangs_and_nothing_is_lost_or_doubled() {
    let hang = "--time 2s --lease 100ms --kill-every 500ms --kill-mode hang --kills 1";
    let report = exactly_once(&format!("--hosts 3 {hang}"));
    assert_eq!(report["kill_mode"], "hang", "{report}");
}

#[test]
fn a_host_dies_with_what_its_cache_has_not_written_back() {
    let kill = "--time 2s --lease 200ms --kill-every 500ms --kills 1";
    let report = exactly_once(&format!("--backend shadow --hosts 3 --remote 60 --durability pod {kill}"));
    assert!(report["kills"].as_u64() >= Some(1), "{report}");
}

#[test]
fn tpcc_goes_on_when_a_host_hangs_or_dies() {
    for (mode, backend) in [("hang", "native"), ("kill", "native"), ("kill", "shadow")] {
        let arguments =
            format!("--kill-every 300ms --kill-mode {mode} --kills 1 --lease 100ms --seconds 1.5");
        let command = &mut tpcc(&format!("--backend {backend} --remote 60/90 --durability pod {arguments}"));
        let report = json(command);
        assert_eq!(
            (&report["consistent"], &report["acknowledged_lost"]),
            (&true.into(), &0.into()),
            "{report}"
        );
        assert!(report["kills"].as_u64() >= Some(1), "{report}");
    }
}
