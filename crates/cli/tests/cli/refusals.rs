//! What cannot start as asked is refused in one line, with code 2, and nothing is changed.

use liger_pod::superblock::FORMAT_VERSION;

use crate::*;

#[test]
fn numbers_out_of_range() {
    let cases: [(&str, &[&str]); 18] = [
        ("--hosts 0", &["--hosts", "1..=16"]),
        ("--hosts 17", &["--hosts", "1..=16"]),
        ("--workers 32", &["--workers", "1..=31"]),
        ("--hosts 4 --warehouses 3", &["3 warehouses for 4 hosts", "--warehouses"]),
        ("--warehouses 0", &["--warehouses"]),
        ("--warehouses 40000", &["--warehouses"]),
        ("--remote 60", &["--remote", "60"]),
        ("--remote 101/0", &["--remote", "101/0"]),
        ("--mix other", &["--mix", "other"]),
        ("--seconds 0", &["--seconds"]),
        ("--warm-up=-1", &["--warm-up"]),
        ("--scale-divisor 0", &["--scale-divisor"]),
        ("--sync both", &["--sync", "hwcc", "pcc"]),
        ("--hwcc 12X", &["--hwcc", "12X"]),
        ("--homes elsewhere", &["--homes"]),
        ("--backend paper", &["--backend", "paper"]),
        ("--backend shadow --omit everything", &["--omit", "everything"]),
        ("--omit own.inherit-gap", &["--omit needs --backend shadow"]),
    ];
    for (arguments, parts) in cases {
        // A run of the defaults would print its report; the arguments given last count.
        refused(&mut liger(&format!("bench tpcc {arguments}")), parts);
    }
    refused(&mut liger("bench tpce"), &["tpce"]);
    refused(&mut liger("frobnicate"), &["frobnicate"]);
}

#[test]
fn leaving_out_what_nobody_does() {
    refused(&mut tpcc("--backend shadow --omit own.unheard-of"), &["own.unheard-of", "no host came by it"]);
}

#[test]
fn memory_too_small_for_the_pod() {
    refused(&mut tpcc("--hwcc 4K"), &["hwcc_bytes is 4096 bytes, at least", "--hwcc"]);
    refused(&mut tpcc("--cxl 64K"), &["cxl_bytes is 65536 bytes, at least", "--cxl"]);
    refused(&mut tpcc("--cxl 64M --cxl-budget 65M"), &["--cxl-budget is 65.0 MiB, the pod has 64.0 MiB"]);
    refused(&mut tpcc("--hwcc 4M --hwcc-budget 1G"), &["--hwcc-budget", "raise --hwcc"]);
}

#[test]
fn more_memory_than_there_is() {
    refused(&mut tpcc("--cxl 900G"), &["memfd: no space for", "are free"]);
    let path = format!("/dev/shm/liger-cli-too-much-{}", std::process::id());
    refused(&mut tpcc(&format!("--cxl 900G --memory {path}")), &["no room for", "are free"]);
    assert!(!exists(&path), "nothing is left behind");
}

#[test]
fn memory_that_is_not_there_or_no_memory() {
    refused(&mut tpcc("--memory nonsense"), &["--memory", "names no memory"]);
    refused(&mut tpcc("--memory /nowhere/at/all"), &["file:/nowhere/at/all does not exist"]);
    refused(&mut tpcc("--memory /dev/dax99.0"), &["dax:/dev/dax99.0 does not exist"]);
    refused(&mut tpcc("--memory /tmp"), &["file:/tmp"]);
}

#[test]
fn a_file_that_is_no_pod_is_not_touched() {
    let folder = Folder::new("precious");
    let path = folder.holding("letters", &b"dear diary".repeat(1000));
    refused(&mut tpcc(&format!("--memory {path}")), &["exists already", "--force"]);
    assert_eq!(bytes_of(&path), b"dear diary".repeat(1000));
    // Too small for the pod, even by force.
    refused(&mut tpcc(&format!("--memory {path} --force")), &["letters"]);
    assert_eq!(bytes_of(&path), b"dear diary".repeat(1000));
}

/// A pod's file after a run.
fn pod_file(folder: &Folder) -> (String, Vec<u8>) {
    let path = folder.file("pod");
    json(&mut tpcc(&format!("--memory {path} --keep --hosts 1 --seconds 0.1")));
    let bytes = bytes_of(&path);
    (path, bytes)
}

#[test]
fn inspect_tells_what_is_wrong_with_a_file() {
    let folder = Folder::new("inspect");
    let inspect = |path: &str, parts: &[&str]| {
        let before = exists(path).then(|| bytes_of(path));
        refused(&mut liger(&format!("inspect {path}")), parts);
        refused(&mut liger(&format!("inspect --json {path}")), parts);
        assert_eq!(before, exists(path).then(|| bytes_of(path)), "looking changes nothing");
    };
    inspect(&folder.file("nothing"), &["does not exist"]);
    inspect(&folder.holding("empty", b""), &["has 0 bytes", "are needed"]);
    inspect(&folder.holding("short", &[7; 128]), &["has 128 bytes", "needs"]);
    inspect(&folder.holding("odd", &[7; 4097]), &["4097 bytes"]);
    inspect(&folder.holding("other", &[7; 65536]), &["holds no pod", "format it first"]);
    let path = folder.0.to_str().expect("a plain path").to_owned();
    refused(&mut liger(&format!("inspect {path}")), &["is a folder"]);

    let (path, good) = pod_file(&folder);
    let changed = |at: usize, name: &str| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        folder.holding(name, &bytes)
    };
    let (ours, other) = (FORMAT_VERSION, FORMAT_VERSION ^ 1);
    let told = [format!("format version {other}"), format!("this program reads {ours}")];
    inspect(&changed(8, "version"), &told.each_ref().map(String::as_str));
    inspect(&changed(66, "damaged"), &["damaged", "checksum"]);
    inspect(&changed(0, "magic"), &["damaged", "magic"]);
    inspect(&changed(4096, "state"), &["holds no pod"]);
    inspect(&folder.holding("cut", &good[..good.len() / 2]), &["the pod needs"]);
    assert!(output(&mut liger(&format!("inspect {path}"))).status.success());
}

#[test]
fn a_file_that_may_only_be_read_can_be_inspected() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("readonly");
    let (path, _) = pod_file(&folder);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).expect("our own file");
    assert!(output(&mut liger(&format!("inspect {path}"))).status.success());
}

#[test]
fn a_host_is_for_the_benchmark_only() {
    let mut command = liger("host");
    command.stdin(std::process::Stdio::null());
    assert!(!output(&mut command).status.success());
}
