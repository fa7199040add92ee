//! Runs at the pace of a hardware profile: right, labelled, and refused where there is none.

use crate::*;

#[track_caller]
fn paced(arguments: &str) -> Value {
    let report = json(&mut tpcc(&format!("--backend paced --remote 60/90 {arguments}")));
    assert_eq!(
        (&report["consistent"], &report["failures"]),
        (&true.into(), &Value::Array(vec![])),
        "{report}"
    );
    report
}

#[test]
fn hosts_at_the_pace_of_a_profile() {
    for (profile, sync) in [("polar-xconn", "pcc"), ("tigon-osdi25", "hwcc"), ("dram", "hwcc")] {
        let report = paced(&format!("--profile {profile}"));
        let label = format!("paced: injected latencies of profile {profile}, memfd, {sync}");
        assert_eq!((&report["backend"], &report["settings"]["sync"]), (&label.into(), &sync.into()));
        let (more, committed) = (&report["engine"]["more"], report["committed"].as_u64());
        assert!(
            more["paced_misses"].as_u64() > committed,
            "a shared row or more of each is fetched: {report}"
        );
        assert!(more["paced_verbs_charged"].as_u64() > more["paced_verbs_overdue"].as_u64(), "{report}");
        assert!(more["paced_modelled_ns"].as_u64() > committed.map(|n| 100 * n), "{report}");
    }
}

#[test]
fn a_profile_in_a_file() {
    let folder = Folder::new("paced");
    let builtin = concat!(env!("CARGO_MANIFEST_DIR"), "/../fabric/profiles/pcc-spr.toml");
    let file = folder.file("mine.toml");
    std::fs::copy(builtin, &file).expect("a copy");
    let report = paced(&format!("--workers 2 --profile {file} --sync pcc"));
    assert_eq!(report["backend"], "paced: injected latencies of profile mine, memfd, pcc");
}

/// What a crash has cost is told with its label, too.
#[test]
fn a_crash_at_another_pace() {
    let folder = Folder::new("paced-crash");
    let data = folder.file("data");
    let crash =
        format!("--backend paced --profile dram --durability storage --data {data} --crash-after 0.5");
    let report = json(&mut tpcc(&crash));
    assert_eq!(report["backend"], "paced: injected latencies of profile dram");
    assert_eq!((&report["consistent"], &report["acknowledged_lost"]), (&true.into(), &0.into()), "{report}");
}

/// Latency is felt: the same run on hardware ten times as slow commits less.
#[test]
fn slower_hardware_commits_less() {
    let folder = Folder::new("paced-slow");
    let builtin = concat!(env!("CARGO_MANIFEST_DIR"), "/../fabric/profiles/polar-xconn.toml");
    let text = std::fs::read_to_string(builtin).expect("a profile");
    let (file, value) = (folder.file("slow.toml"), "read_ns = { value = 549,");
    assert!(text.contains(value));
    std::fs::write(&file, text.replace(value, "read_ns = { value = 54900,")).expect("a file");
    let committed_per_s = |profile: &str| {
        let report =
            json(&mut tpcc(&format!("--backend paced --hosts 2 --remote 60/90 --profile {profile}")));
        report["committed_per_s"].as_f64().expect("a rate")
    };
    let (as_it_is, slow) = (committed_per_s("polar-xconn"), committed_per_s(&file));
    assert!(slow < as_it_is / 1.5, "{slow} against {as_it_is} a second");
}

#[test]
fn without_a_profile_or_with_one_too_many() {
    let cases: [(&str, &[&str]); 7] = [
        ("--backend paced", &["--backend paced needs", "--profile", "polar-xconn"]),
        ("--backend paced --profile paper", &["no built-in profile \"paper\"", "no file", "pcc-spr"]),
        ("--profile dram", &["--profile needs --backend paced"]),
        ("--backend paced --profile dram --sync pcc", &["--sync pcc", "profile dram has hwcc"]),
        ("--backend paced --profile Cargo.toml", &["profile Cargo.toml"]),
        (
            "--backend paced --profile dram --kill-every 2s --durability pod",
            &["--kill-every is not for --backend paced"],
        ),
        ("--backend paced --profile dram --omit own.inherit-gap", &["--omit needs --backend shadow"]),
    ];
    for (arguments, parts) in cases {
        refused(&mut tpcc(arguments), parts);
    }
    let folder = Folder::new("paced-up");
    let up = format!("up {} --backend paced", folder.file("pod"));
    refused(&mut liger(&up), &["--backend paced is for `liger bench tpcc`"]);
}
