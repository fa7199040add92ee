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

#[test]
fn what_cannot_be_kept_is_refused() {
    let folder = Folder::new("refused");
    let data = folder.file("data");
    refused(&mut tpcc("--durability storage"), &["--data"]);
    refused(&mut tpcc(&format!("--durability storage --data {data} --recover")), &["holds no pod"]);
    refused(&mut tpcc(&format!("--durability pod --data {data} --crash-after 1")), &["storage"]);
    json(&mut tpcc(&format!("--durability pod --data {data}")));
    refused(&mut tpcc(&format!("--durability pod --data {data}")), &["holds a pod"]);
}
