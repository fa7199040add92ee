//! Partitioned engines on real processes: their answers are right, and what they lack is refused.

use crate::*;

const ENGINES: [&str; 4] = ["sundial+", "ds2pl+", "sundial-cxl", "ds2pl-cxl"];

/// A short run of a tiny database.
fn bench(arguments: &str) -> Command {
    // Where processors are few, a message waits for the turns of three threads: long enough for a machine
    // that is busy with something else.
    let is_slow = ["-cxl", "shadow"].iter().any(|slow| arguments.contains(slow));
    let seconds = if is_slow { 2.0 } else { 0.5 };
    liger(&format!("bench {arguments} --seconds {seconds} --warm-up 0.1 --json"))
}

#[track_caller]
fn consistent(engine: &str, arguments: &str) -> Value {
    let report = json(&mut bench(&format!("{arguments} --engine {engine}")));
    assert_eq!(report["consistent"], true, "{engine} {arguments}: {report}");
    assert_eq!(report["stopped"], Value::Array(vec![]), "{engine} {arguments}: {report}");
    // How many there are says how busy the machine is: these engines wait for turns of other processes.
    assert!(report["committed"].as_u64() > Some(0), "{engine} {arguments}: {report}");
    assert!(report["protocol"].as_str().is_some_and(|name| name.starts_with(engine)), "{report}");
    let more = &report["engine"]["more"];
    assert!(more["distributed"].as_u64() > Some(0) && more["messages"].as_u64() > Some(0), "{report}");
    assert!(more["workers_processor_ns"].as_u64() > Some(0), "{report}");
    assert_eq!((&more["messages_dropped"], &report["engine"]["shared_tuples"]), (&0.into(), &0.into()));
    report
}

#[test]
fn every_workload_is_right_on_every_partitioned_engine() {
    let workloads = [
        "tpcc --scale-divisor 100 --mix artifact --remote 60/90",
        "ycsb --keys 1000 --reads 50 --cross 60 --check-reads",
        "smallbank --customers 1000 --cross 60",
        "tatp --subscribers 500 --cross 60",
    ];
    for engine in ENGINES {
        for workload in workloads {
            consistent(engine, workload);
        }
    }
}

#[test]
fn partitioned_hosts_with_several_workers_and_partitions() {
    for engine in ["sundial+", "ds2pl-cxl"] {
        consistent(engine, "tpcc --scale-divisor 100 --remote 60/90 --hosts 3 --workers 2 --homes any-local");
    }
    // Rows, gaps and ranges of other hosts, with ranges protected as serializable histories need it.
    consistent("sundial+", "ycsb --keys 1000 --mode mixed --cross 60 --workers 2 --gaps true");
}

#[test]
fn messages_travel_between_software_caches() {
    for engine in ["sundial-cxl", "ds2pl+"] {
        let report = consistent(engine, "ycsb --keys 500 --reads 50 --cross 60 --backend shadow --sync pcc");
        assert_eq!(report["backend"], "shadow, memfd, pcc");
        assert_eq!(report["engine"]["more"]["shadow_stale_reads"], 0, "{report}");
    }
}

/// A short run of a tiny database whose rows are all in shared memory.
#[track_caller]
fn consistent_shm(arguments: &str) -> Value {
    let report = json(&mut bench(&format!("{arguments} --engine sundial-shm")));
    assert_eq!(report["consistent"], true, "{arguments}: {report}");
    assert_eq!(report["stopped"], Value::Array(vec![]), "{arguments}: {report}");
    assert!(report["committed"].as_u64() > Some(0), "{arguments}: {report}");
    assert!(report["protocol"].as_str().is_some_and(|name| name.starts_with("sundial-shm")), "{report}");
    let (engine, rows) = (&report["engine"], &report["engine"]["cxl_bytes"]["rows"]);
    assert!(engine["more"]["rows read"].as_u64() > Some(0) && rows.as_u64() > Some(100_000), "{report}");
    report
}

#[test]
fn every_workload_is_right_on_rows_in_shared_memory() {
    consistent_shm("tpcc --scale-divisor 100 --mix artifact --remote 60/90 --hosts 3 --workers 2");
    consistent_shm("ycsb --keys 1000 --reads 50 --cross 60 --check-reads");
    consistent_shm("ycsb --keys 1000 --mode mixed --cross 60 --workers 2 --gaps true");
    consistent_shm("smallbank --customers 1000 --cross 60");
    consistent_shm("tatp --subscribers 500 --cross 60 --gaps true");
    let report = consistent_shm("ycsb --keys 500 --reads 50 --cross 60 --backend shadow --sync pcc");
    assert_eq!(report["engine"]["more"]["shadow_stale_reads"], 0, "{report}");
    refused(
        &mut bench("ycsb --engine sundial-shm --share-all"),
        &["--share-all", "sundial-shm does not choose"],
    );
    refused(&mut bench("tpcc --engine sundial-shm --kill-every 1s"), &["--kill-every", "sundial-shm"]);
}

#[test]
fn policies_of_the_row_engine_on_real_processes() {
    let policy = "coherence=always-bypass";
    let run = format!("ycsb --keys 1000 --cross 50 --policies {policy}");
    let report = json(&mut bench(&run));
    assert_eq!(report["consistent"], true, "{report}");
    assert!(report["protocol"].as_str().is_some_and(|name| name.contains(policy)), "{report}");
    refused(&mut bench(&format!("{run} --engine ds2pl+")), &["--policies", "--engine row"]);
}

#[test]
fn what_partitioned_engines_lack_is_refused() {
    let folder = Folder::new("rivals");
    let data = folder.file("data");
    let cases: [(String, &[&str]); 8] = [
        (
            format!("--durability pod --data {data}"),
            &["--durability, --data: --engine sundial+ keeps no log"],
        ),
        (format!("--data {data}"), &["--data: --engine sundial+ keeps no log", "use --engine row"]),
        (format!("--data {data} --recover"), &["--data", "keeps no log"]),
        (format!("--data {data} --crash-after 1"), &["--data", "no host of it may die"]),
        ("--kill-every 1s".to_owned(), &["--kill-every", "no host of it may die"]),
        ("--share-all".to_owned(), &["--share-all: --engine sundial+ does not choose which rows are shared"]),
        ("--cxl-budget 1M".to_owned(), &["--cxl-budget", "does not choose which rows are shared"]),
        ("--engine sundial-cxl --workers 31".to_owned(), &["31 workers", "lower --workers"]),
    ];
    for (arguments, parts) in cases {
        let command = format!("tpcc --scale-divisor 100 --engine sundial+ {arguments}");
        refused(&mut bench(&command), parts);
    }
    assert!(!exists(&data), "nothing is made");
    refused(&mut bench("ycsb --engine sundial-net"), &["sundial-net", "no network", "--engine sundial-cxl"]);
    refused(&mut bench("ycsb --engine row --gaps true"), &["--gaps", "next-key-locking"]);
    refused(&mut bench("ycsb --engine nobody"), &["nobody", "--engine"]);
}

/// The comparison in small says what it saw, keeps every run, and goes on from there.
#[test]
fn engines_in_turn_on_this_machine_beside_the_artifact_and_the_simulator() {
    let folder = Folder::new("native");
    let out = folder.file("out");
    let command = format!("reproduce native --quick --rounds 2 --only ycsb-50r --out {out}");
    let first = json(&mut liger(&format!("{command} --json")));
    assert_eq!((&first["time"], &first["profile"]), (&"real".into(), &"dram".into()));
    assert_eq!(first["problems"], Value::Array(vec![]), "{first}");
    let points = first["figures"][0]["points"].as_array().expect("points");
    let claims = first["claims"].as_array().expect("claims");
    assert_eq!((points.len(), claims.len()), (4, 4));
    for (point, claim) in points.iter().zip(claims) {
        let engines = point["engines"].as_array().expect("engines");
        let names: Vec<&str> = engines.iter().filter_map(|engine| engine["engine"].as_str()).collect();
        assert_eq!(names, ["row", "sundial+", "ds2pl+"]);
        for engine in engines {
            let of = |name: &str| engine[name].as_f64().expect("a number");
            assert!(of("least_per_s") <= of("median_per_s") && of("median_per_s") <= of("greatest_per_s"));
            assert!(of("simulated_per_s") > 0.0, "{point}");
            assert!((0.0..=1.05).contains(&of("processor_share")), "{point}");
        }
        // The claim is the simulator's order.
        let simulated = |name: &str| {
            let at = names.iter().position(|other| *other == name).expect("an engine of the figure");
            engines[at]["simulated_per_s"].as_f64().expect("a number")
        };
        let (_, order) = claim["claim"].as_str().and_then(|text| text.split_once(": ")).expect("an order");
        let order: Vec<f64> = order.split(", then ").map(simulated).collect();
        assert!(order.is_sorted_by(|ahead, behind| ahead >= behind), "{claim}");
    }
    let published = &points[2]["engines"];
    assert_eq!(
        (&published[0]["artifact_per_s"], &published[1]["artifact_per_s"]),
        (&71900.0.into(), &88000.0.into())
    );
    let page = text(&bytes_of(&format!("{out}/native.html")));
    for part in ["<svg", "sundial+ / Sundial+", "another machine", "virtual time", "2 rounds"] {
        assert!(page.contains(part), "{part}");
    }
    // Runs that are kept are not run again: what is changed in one shows, and more rounds add to them.
    let kept = format!("{out}/runs/ycsb-50r-0-row-round_1.json");
    let changed = text(&bytes_of(&kept)).replacen("\"committed_per_s\": ", "\"committed_per_s\": 9999", 1);
    std::fs::write(&kept, changed).expect("a file of our own");
    let again = json(&mut liger(&format!("{command} --json")));
    let greatest = |report: &Value| report["figures"][0]["points"][1]["engines"][0]["greatest_per_s"].clone();
    assert_ne!(greatest(&again), greatest(&first));
    assert_eq!(again["figures"][0]["points"][2], first["figures"][0]["points"][2]);
    let shown = output(&mut liger(&command));
    for part in ["over row", "least-greatest", "the simulator's order", "report: "] {
        assert!(text(&shown.stdout).contains(part), "{part}: {}", text(&shown.stdout));
    }
    refused(&mut liger("reproduce native --only fig4"), &["fig4", "tpcc, ycsb-95r, ycsb-50r"]);
    refused(&mut liger("reproduce native --threads 2"), &["--threads", "leave it out"]);
    refused(&mut liger("reproduce tigon --rounds 2"), &["--rounds", "replay"]);
}
