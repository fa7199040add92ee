//! Runs that succeed: their answers are right, and the report says what was asked.

use crate::*;

#[track_caller]
fn consistent(arguments: &str) -> Value {
    let report = json(&mut tpcc(arguments));
    assert_eq!(report["consistent"], true, "{arguments}: {report}");
    assert_eq!(report["failures"], Value::Array(vec![]));
    assert!(report["committed"].as_u64() > Some(20), "{arguments}: {report}");
    assert_eq!(report["stopped"], Value::Array(vec![]));
    report
}

#[test]
fn two_hosts_of_the_specification() {
    let report = consistent("--seed 7");
    assert_eq!((&report["hosts"], &report["workers"], &report["seed"]), (&2.into(), &2.into(), &7.into()));
    assert_eq!((&report["settings"]["mix"], &report["settings"]["remote"]), (&"spec".into(), &"spec".into()));
    for key in ["committed_per_s", "aborted_per_s", "p50_us", "p99_us", "hwcc_bytes_per_shared_tuple"] {
        assert!(report[key].is_number(), "{key}: {report}");
    }
    assert!(report["engine"]["shared_tuples"].as_u64() > Some(0));
}

#[test]
fn two_hosts_as_the_artifact_with_everything_shared() {
    let report = consistent("--remote 60/90 --mix artifact --share-all --workers 2 --homes any-local");
    // 300 customers and 1000 stock rows a warehouse, four warehouses.
    assert!(report["engine"]["shared_tuples"].as_u64() >= Some(4 * 1300), "{report}");
    assert_eq!(report["settings"]["homes"], "any_local");
}

#[test]
fn rows_leave_a_small_budget() {
    // Long enough for a machine that is busy with something else.
    let report = consistent("--remote 100/100 --cxl-budget 100K --scale-divisor 300 --seconds 3");
    // Words change hands all the time: what a host remembers of a row that has left must not block it for
    // ever.
    let (committed, aborted) = (report["committed_per_s"].as_f64(), report["aborted_per_s"].as_f64());
    assert!(aborted < committed.map(|n| 20.0 * n), "{report}");
    let (engine, committed) = (&report["engine"], report["committed"].as_u64().unwrap());
    let is_moving = |what: &str| engine[what].as_u64() > Some(100.max(committed / 4));
    assert!(is_moving("moves_in") && is_moving("moves_out"), "{report}");
}

#[test]
fn no_coherent_memory() {
    let report = consistent("--sync pcc --remote 60/90");
    assert_eq!(report["settings"]["sync"], "pcc");
}

#[test]
fn hosts_behind_software_caches() {
    for sync in ["hwcc", "pcc"] {
        let report = consistent(&format!("--backend shadow --remote 60/90 --workers 2 --sync {sync}"));
        assert_eq!(report["backend"], format!("shadow, memfd, {sync}"));
        let counts = &report["engine"]["more"];
        assert!(counts["shadow_unasked_write_backs"].as_u64() > Some(100), "{counts}");
        assert_eq!(counts["shadow_stale_reads"], 0);
    }
    assert_eq!(consistent("")["backend"], "native, memfd, hwcc");
}

#[test]
fn the_other_workloads_are_right() {
    let runs = [
        ("ycsb", "--keys 2000 --reads 50 --check-reads"),
        ("ycsb", "--keys 2000 --mode mixed --share-all"),
        ("smallbank", "--customers 2000"),
        ("tatp", "--subscribers 1000"),
    ];
    for (name, arguments) in runs {
        for backend in ["native", "shadow"] {
            let shape = format!("--cross 50 --seconds 0.6 --warm-up 0.1 --workers 2 --backend {backend}");
            let report = json(&mut liger(&format!("bench {name} {arguments} {shape} --json")));
            assert_eq!(
                (&report["workload"], &report["consistent"]),
                (&name.into(), &true.into()),
                "{report}"
            );
            assert_eq!(report["settings"]["cross_percent"], "50");
            assert!(report["committed"].as_u64() > Some(20), "{name}: {report}");
            assert!(report["engine"]["shared_tuples"].as_u64() > Some(0), "{name}: {report}");
        }
    }
    for (name, wrong) in [("ycsb", "--keys 3"), ("smallbank", "--hot 1"), ("tatp", "--subscribers 0")] {
        refused(&mut liger(&format!("bench {name} {wrong}")), &["are possible"]);
    }
}

/// The invalidate that lets a host see what others wrote to a shared row.
fn a_needed_invalidate() -> String {
    let file = "crates/engine/src/row/shared.rs";
    let source = std::fs::read_to_string(format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR")));
    let source = source.expect("the engine's source");
    let line = source.lines().position(|line| line.trim() == "cx.invalidate(at, len);");
    format!("invalidate at {file}:{}", line.expect("the engine invalidates rows") + 1)
}

#[test]
fn a_missing_invalidate_shows_between_software_caches() {
    let omitting = |policies: &str| {
        let mut command = tpcc(&format!("--backend shadow --remote 60/90 --seconds 1 --policies {policies}"));
        let output = output(command.args(["--omit", &a_needed_invalidate()]));
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        output
    };
    // With checksums, what is stale may be met as damage before all is checked.
    let output = omitting("row-checksums=on");
    let (out, said) = (text(&output.stdout), text(&output.stderr));
    assert!(out.contains("stale bytes") || said.contains("damaged row in shared memory"), "{out}{said}");
    let output = omitting("row-checksums=off");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report["consistent"], false);
    assert!(report["failures"].to_string().contains("reads were given stale bytes"), "{report}");
}

#[test]
fn one_host() {
    let report = consistent("--hosts 1 --warehouses 3");
    assert_eq!(report["engine"]["more"]["messages"], 0);
    assert_eq!(report["settings"]["warehouses"], "3");
}

#[test]
fn three_hosts_and_a_warehouse_too_many() {
    consistent("--hosts 3 --warehouses 4 --remote 60/90");
}

#[test]
fn eight_hosts_have_three_rows_to_a_word_and_ten_have_one() {
    let per_row = |hosts: u8| {
        let report = consistent(&format!("--hosts {hosts} --remote 60/90"));
        report["hwcc_bytes_per_shared_tuple"].as_f64().expect("a number")
    };
    let (eight, ten) = (per_row(8), per_row(10));
    assert!((8.0 / 3.0..4.5).contains(&eight) && (8.0..10.0).contains(&ten), "{eight} {ten}");
}

#[test]
fn a_table_for_people() {
    let mut command = liger("bench tpcc --scale-divisor 100 --seconds 0.2 --warm-up 0");
    let output = output(&mut command);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    for part in ["committed/s", "new_order", "consistency: all conditions hold", "moved in"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(err.contains("loading tpcc"), "{err}");
}

#[test]
fn a_file_that_is_kept_can_be_inspected_and_used_again() {
    let folder = Folder::new("kept");
    let path = folder.file("pod");
    consistent(&format!("--memory {path} --keep"));
    let before = bytes_of(&path);
    let pod = json(&mut liger(&format!("inspect {path} --json")));
    assert_eq!(pod["configuration"]["hosts"], "2");
    assert_eq!(pod["format_version"], liger_pod::superblock::FORMAT_VERSION);
    assert_eq!((&pod["hosts"][1]["state"], &pod["hosts"][1]["incarnation"]), (&"FREE".into(), &1.into()));
    assert!(pod["regions"].as_array().is_some_and(|regions| regions.len() > 10));
    assert_eq!(pod["hosts"][0]["heap"][0]["class"], "tuple word");
    let shown = output(&mut liger(&format!("inspect {path}")));
    let shown = text(&shown.stdout);
    for part in ["configuration", "BlockHeap", "incarnation", "tuple word", "pod epoch"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(bytes_of(&path), before, "looking changes nothing");
    let again = format!("--memory {path}");
    refused(&mut tpcc(&again), &["exists already", "--force"]);
    assert_eq!(bytes_of(&path), before, "a refusal changes nothing");
    consistent(&format!("--memory {path} --force --seed 2"));
    assert!(exists(&path), "a file that was there before stays");
}

#[test]
fn a_file_is_removed_after_the_run() {
    let folder = Folder::new("removed");
    let path = folder.file("pod");
    consistent(&format!("--memory {path} --hosts 1"));
    assert!(!exists(&path));
}
