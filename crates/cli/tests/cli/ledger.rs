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

/// Phases that come one after the other after every death.
const AFTER_A_DEATH: [&str; 7] =
    ["accused", "cut_off", "log_closed", "takeover_begun", "taken_over", "released", "member"];
/// Those that come if the dead host has partitions.
const OF_PARTITIONS: [&str; 7] = [
    "takeover_begun",
    "logs_hold",
    "logs_read",
    "images_opened",
    "transactions_ended",
    "rows_joined",
    "taken_over",
];

#[track_caller]
fn come_in_order(phases: &Value, names: &[&str]) {
    let at = |name: &&str| phases["ms"][name].as_f64().unwrap_or_else(|| panic!("{name}: {phases}"));
    let times: Vec<f64> = names.iter().map(at).collect();
    assert!(times.is_sorted() && times[0] >= 0.0, "{names:?}: {phases}");
}

#[test]
fn where_the_time_goes_after_each_kill_is_told() {
    let folder = Folder::new("phases");
    let svg = folder.file("plot.svg");
    let kill = "--kill-every 300ms --kills 3 --lease 500ms --seconds 3";
    let data = folder.file("pod");
    let upkeep = "--replay-limit 64M --restore-percent 80";
    let run = format!("--hosts 3 --remote 60/90 --durability storage {kill} --svg {svg} {upkeep}");
    let report = json(&mut tpcc(&format!("{run} --data {data} --keep")));
    let pod: Value = serde_json::from_slice(&bytes_of(&format!("{data}/pod.json"))).expect("an object");
    let kept = &pod["job"]["data"];
    assert_eq!((&kept["replay_limit"], &kept["restore_percent"]), (&(64 << 20).into(), &80.into()));
    let phases = report["phases"].as_array().expect("a list");
    assert_eq!(phases.len() as u64, report["kills"].as_u64().expect("a number"), "{report}");
    assert!(!phases.is_empty(), "{report}");
    for of_kill in phases {
        come_in_order(of_kill, &AFTER_A_DEATH);
        come_in_order(of_kill, &["member", "back"]);
        come_in_order(of_kill, &["cut_off", "locks_resolved"]);
        assert!(of_kill["successor"].is_u64() && of_kill["successor"] != of_kill["host"], "{of_kill}");
        if of_kill["partitions"] == 0 {
            assert_eq!(of_kill["ms"]["logs_read"], Value::Null, "{of_kill}");
            continue;
        }
        come_in_order(of_kill, &OF_PARTITIONS);
        // The owner's word may be seen before the owner says that it is done.
        come_in_order(of_kill, &["rows_joined", "followed"]);
        // The next death may come before the checkpoint does, and the partitions may have gone on by then.
        for phases in [["images_opened", "all_rows"], ["images_opened", "checkpoint"]] {
            if of_kill["ms"][phases[1]] != Value::Null {
                come_in_order(of_kill, &phases);
            }
        }
        assert!(of_kill["log_segments"].as_u64() > Some(0) && of_kill["log_bytes"].as_u64() > Some(0));
    }
    assert!(phases[0]["partitions"].as_u64() > Some(0), "the first to die has its own: {report}");
    let picture = text(&bytes_of(&svg));
    assert!(picture.contains(">cut off<") && picture.contains(">all rows<"), "{picture}");
    let run = run.replace("--kills 3", "--kills 1").replace("--seconds 3", "--seconds 1");
    let output = output(&mut liger(&format!("bench tpcc --scale-divisor 100 {run}")));
    let out = text(&output.stdout);
    let told: Vec<&str> = out.lines().skip_while(|line| !line.starts_with("phases of each kill")).collect();
    // A head, and a line for the kill.
    assert!(
        told.len() > 2 && told[1].contains("all rows") && told[2].split_whitespace().count() > 20,
        "{out}"
    );
}
