//! Runs that keep a log: what was acknowledged outlives the hosts and the shared memory.

use crate::*;

#[test]
fn nothing_acknowledged_is_lost_when_all_hosts_are_killed() {
    let folder = Folder::new("crash");
    let data = folder.file("data");
    let run = format!("--remote 60/90 --durability storage --data {data}");
    let report = json(&mut tpcc(&format!("{run} --crash-after 1")));
    assert_eq!((&report["consistent"], &report["acknowledged_lost"]), (&true.into(), &0.into()), "{report}");
    assert_eq!(report["kills"], 2);
    let acknowledged = report["acknowledged"]["new_orders"].as_u64();
    assert!(acknowledged > Some(0) && report["recovered_changes"].as_u64() > acknowledged, "{report}");
    // The directory lives on: once more from it, and a clean end.
    for _ in 0..2 {
        let report = json(&mut tpcc(&format!("{run} --recover")));
        assert_eq!(report["consistent"], true, "{report}");
        assert!(report["committed"].as_u64() > Some(0), "{report}");
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_all_hosts_are_killed_and_the_memory_is_there() {
    for backend in ["native", "shadow"] {
        let folder = Folder::new(&format!("keep-{backend}"));
        let run =
            format!("--remote 60/90 --durability pod --data {} --backend {backend}", folder.file("data"));
        let report = json(&mut tpcc(&format!("{run} --crash-after 1 --keep-memory")));
        let found = (&report["consistent"], &report["acknowledged_lost"], &report["memory_kept"]);
        assert_eq!(found, (&true.into(), &0.into(), &true.into()), "{report}");
        assert!(report["salvaged_records"].as_u64() > Some(0), "{report}");
    }
}

#[test]
fn a_flipped_bit_in_a_log_is_found_and_named() {
    let folder = Folder::new("flip");
    let data = folder.file("data");
    let run = format!("--durability storage --data {data}");
    json(&mut tpcc(&run));
    let log = format!("{data}/host-1/log-0000000001");
    let mut bytes = bytes_of(&log);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&log, bytes).expect("the log can be written");
    refused(&mut tpcc(&format!("{run} --recover")), &["host 1", "log-0000000001", "byte"]);
}

/// Bytes of the files in a folder whose names start with this.
fn bytes_in(folder: &str, start: &str) -> u64 {
    let files = std::fs::read_dir(folder).expect("the folder is there");
    let files = files
        .map(|file| file.expect("a file"))
        .filter(|file| file.file_name().to_str().is_some_and(|name| name.starts_with(start)));
    files.map(|file| file.metadata().expect("its length").len()).sum()
}

#[test]
fn logs_stay_short_and_recovery_reads_no_more() {
    let folder = Folder::new("short");
    let data = folder.file("data");
    let run = format!("--seconds 3 --durability storage --data {data} --replay-limit 2M");
    let report = json(&mut tpcc(&run));
    let storage = &report["engine"]["storage"];
    let number = |key: &str| storage[key].as_u64().unwrap_or_else(|| panic!("{key}: {report}"));
    assert!(number("checkpoints") >= 4 && number("log_segments_removed") >= 10, "{storage}");
    assert!(number("log_bytes_removed") > 2 * number("log_bytes"), "{storage}");
    assert!(storage["checkpoint_s_median"].as_f64() > Some(0.0), "{storage}");
    // Nobody is held up while a checkpoint is taken, so a host may write more than its bound meanwhile.
    let logs: u64 = (0..2).map(|host| bytes_in(&format!("{data}/host-{host}"), "log-")).sum();
    assert!(logs < 40 << 20, "{logs} bytes of logs: {storage}");
    let report = json(&mut tpcc(&format!("{run} --recover --crash-after 2")));
    assert_eq!((&report["consistent"], &report["acknowledged_lost"]), (&true.into(), &0.into()), "{report}");
    let read = report["recovery_log_bytes"].as_u64().expect("a number");
    assert!(read > 0 && read < 40 << 20, "{report}");
    // The life after the recovery has begun segments of its own.
    let there: u64 = (0..2).map(|host| bytes_in(&format!("{data}/host-{host}"), "log-")).sum();
    assert!(read <= there && there < read + 100_000, "{read} of {there}");
}

#[test]
fn the_shadow_backend_shortens_its_logs_too() {
    let folder = Folder::new("short-shadow");
    let data = folder.file("data");
    let run = format!("--backend shadow --seconds 2 --durability storage --data {data} --replay-limit 256K");
    let report = json(&mut tpcc(&run));
    assert_eq!(report["consistent"], true, "{report}");
    assert!(report["engine"]["storage"]["log_segments_removed"].as_u64() > Some(0), "{report}");
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let folder = Folder::new("refused");
    let data = folder.file("data");
    refused(&mut tpcc("--durability storage"), &["--data"]);
    refused(&mut tpcc(&format!("--durability storage --data {data} --recover")), &["holds no pod"]);
    refused(&mut tpcc(&format!("--durability pod --data {data} --crash-after 1")), &["storage"]);
    refused(&mut tpcc(&format!("--data {data} --replay-limit 4K")), &["--replay-limit", "256.0 KiB"]);
    json(&mut tpcc(&format!("--durability pod --data {data}")));
    refused(&mut tpcc(&format!("--durability pod --data {data}")), &["holds a pod"]);
}
