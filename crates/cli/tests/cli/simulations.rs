//! Simulations replay: the same command prints the same trace, and a mutant is noticed
//! where it was before.

use crate::*;

fn replay(arguments: &[&str]) -> Command {
    let mut command = liger("sim replay --json");
    command.args(arguments);
    command
}

/// A replay that finds something: code 1, and its JSON object.
#[track_caller]
fn found(arguments: &[&str]) -> Value {
    let output = output(&mut replay(arguments));
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{out}{}", text(&output.stderr));
    let object: Value = serde_json::from_str(out.lines().last().expect("a line")).expect("JSON");
    assert!(out.contains(object["problem"].as_str().expect("something was found")), "{out}");
    object
}

#[test]
fn a_run_replays_as_it_is() {
    let first = json(&mut replay(&["lanes", "3"]));
    assert_eq!(json(&mut replay(&["lanes", "3"])), first);
    assert_eq!((&first["seed"], &first["problem"]), (&3.into(), &Value::Null));
    assert!(first["verbs"].as_u64() > Some(0));
    assert_ne!(json(&mut replay(&["lanes", "4"]))["trace_hash"], first["trace_hash"]);
}

#[test]
fn what_the_mutation_stage_catches_is_found_again() {
    // A step, and a call site, each with its name as the stage prints it.
    for mutants in ["lanes.spare-unread-slots", "write_back at crates/pod/src/lanes.rs"] {
        let mut command = liger("sim mutations --json --scenarios lanes --mutants");
        let report = json(command.arg(mutants));
        let mutant = &report["mutants"][0];
        let (name, caught) = (mutant["name"].as_str().expect("a name"), &mutant["caught"]);
        let (scenario, seed) = (caught["scenario"].as_str().expect("caught"), caught["seed"].to_string());
        let again = found(&[scenario, &seed, name]);
        assert_eq!((&again["verbs"], &again["mutant"]), (&caught["verbs"], &name.into()));
        json(&mut replay(&[scenario, &seed]));
    }
}

#[test]
fn what_is_not_there_is_refused() {
    refused(&mut replay(&["elsewhere", "1"]), &["no scenario 'elsewhere'", "rows-gaps"]);
    refused(&mut replay(&["lanes", "1", "lanes.nothing"]), &["'lanes.nothing' is no step"]);
    let nowhere = "fence at crates/pod/src/lanes.rs:1:1";
    refused(&mut replay(&["lanes", "1", nowhere]), &["no call site", "lanes 1"]);
    refused(&mut replay(&["lanes", "many"]), &["many"]);
    refused(&mut replay(&["lanes"]), &["required"]);
}

/// Every engine runs every workload under the adversary, says which it is, and replays.
#[test]
fn workloads_run_on_every_engine() {
    for engine in ["row", "sundial+", "ds2pl-cxl", "sundial-net", "sundial-shm", "motor-model"] {
        for workload in ["tpcc", "ycsb"] {
            let run = || {
                let output = output(&mut liger(&format!("sim {workload} --seed 5 --engine {engine} --json")));
                let out = text(&output.stdout);
                assert!(output.status.success(), "{out}{}", text(&output.stderr));
                serde_json::from_str::<Value>(out.lines().last().expect("a line")).expect("JSON")
            };
            let (first, again) = (run(), run());
            assert_eq!((&first["protocol"], &first["trace_hash"]), (&engine.into(), &again["trace_hash"]));
        }
    }
    let policies = "sim ycsb --profile tigon-osdi25 --keys 500 --virtual-ms 1 --hosts 2 --workers 1";
    let report = output(&mut liger(&format!("{policies} --policies coherence=always-bypass")));
    assert!(text(&report.stdout).contains("coherence=always-bypass"), "{}", text(&report.stdout));
    let wrong = "sim ycsb --engine ds2pl+ --policies coherence=always-bypass";
    refused(&mut liger(wrong), &["--policies", "row engine"]);
    refused(&mut liger("sim ycsb --policies coherence=none"), &["coherence", "write-through"]);
    let hwcc = "sim ycsb --policies coherence=all-hwcc";
    refused(&mut liger(hwcc), &["not possible here", "--policies"]);
    let timed = "--keys 100 --virtual-ms 1 --hosts 2";
    refused(&mut liger(&format!("{hwcc} --profile tigon-osdi25 {timed}")), &["not possible", "--profile"]);
    let many = format!("sim ycsb --engine sundial-cxl --profile tigon-osdi25 --workers 31 {timed}");
    refused(&mut liger(&many), &["31 workers", "lower --workers"]);
    let unknown = format!("sim ycsb --engine ds2pl-net --profile dram {timed}");
    refused(&mut liger(&unknown), &["over a network is not possible here", "[net]", "--profile"]);
    let unknown = format!("sim ycsb --engine motor-model --profile dram {timed}");
    refused(&mut liger(&unknown), &["RDMA is not possible here", "[rdma]", "--profile"]);
    let many = format!("sim ycsb --engine motor-model --profile tigon-osdi25 --workers 11 {timed}");
    refused(&mut liger(&many), &["at once", "fewer threads"]);
    refused(&mut liger("sim ycsb --engine motor-model --gaps true"), &["--gaps", "motor-model"]);
    refused(&mut liger("bench ycsb --engine motor-model"), &["cost model", "liger sim"]);
    refused(&mut liger("sim ycsb --profile tigon-osdi25 --workers 32"), &["--workers", "1..=31"]);
    refused(&mut liger("sim tpcc --gaps true"), &["--gaps", "next-key-locking"]);
    // What an adversarial run would not heed.
    for ignored in ["ycsb --keys 100", "ycsb --mode scan", "smallbank --hot 7", "tatp --subscribers 50"] {
        refused(&mut liger(&format!("sim {ignored}")), &["--profile", "follows from the seed"]);
    }
}

/// A log is kept in virtual time alone; latencies then run until group commit.
#[test]
fn a_timed_pod_keeps_a_log() {
    let timed =
        "sim tpcc --profile tigon-osdi25 --hosts 2 --workers 1 --scale-divisor 100 --virtual-ms 6 --json";
    let run = |log: &str| {
        let output = output(&mut liger(&format!("{timed} --log {log}")));
        let out = text(&output.stdout);
        assert!(output.status.success(), "{out}{}", text(&output.stderr));
        (out.to_owned(), serde_json::from_str::<Value>(out.lines().last().expect("a line")).expect("JSON"))
    };
    let number = |value: &Value| value.as_f64().expect("a number");
    let (out, none) = run("none");
    assert_eq!((&none["settings"]["log"], &none["p99_us"]), (&"none".into(), &none["commit_p99_us"]));
    assert!(!out.contains("before it is durable"), "{out}");
    let (out, logged) = run("1.5");
    assert_eq!(logged["settings"]["log"], "epochs of 1.5 ms");
    assert!(out.contains("before it is durable"), "{out}");
    assert!(number(&logged["p50_us"]) > 750.0 && number(&logged["commit_p50_us"]) < 200.0, "{logged}");
    assert!(
        number(&logged["engine"]["more"]["log bytes"]) > 100.0 * number(&logged["committed"]),
        "{logged}"
    );
    for wrong in ["0", "-1", "often", "NaN", "inf", "1e9", "0.001"] {
        let mut command = liger(timed);
        refused(command.arg(format!("--log={wrong}")), &["--log", "0.01 to 10000 milliseconds"]);
    }
    refused(&mut liger("sim tpcc --log 10"), &["required"]);
    let model =
        "sim ycsb --engine motor-model --profile tigon-osdi25 --keys 100 --virtual-ms 1 --hosts 2 --log 1";
    refused(&mut liger(model), &["keeping a log", "--engine"]);
    refused(&mut liger(&model.replace("motor-model", "sundial-shm")), &["keeping a log", "--engine"]);
}

/// A reproduction says what it saw, keeps it, and goes on from there.
#[test]
fn an_evaluation_is_set_beside_its_published_numbers() {
    let folder = Folder::new("reproduction");
    let out = folder.file("out");
    let run = || json(&mut liger(&format!("reproduce tigon --quick --only fig8-tpcc --json --out {out}")));
    let first = run();
    assert_eq!((&first["profile"], &first["time"]), (&"tigon-osdi25".into(), &"virtual".into()));
    assert!(first["median_ratio_error"].as_f64() > Some(0.0) && first["shapes_failed"].is_u64());
    let points = first["figures"][0]["points"].as_array().expect("points");
    // Two of each of four lines, all of them run.
    assert_eq!(points.len(), 8);
    assert!(points.iter().all(|point| point["missing"].is_null() && point["ours"].as_f64() > Some(0.0)));
    let page = text(&bytes_of(&format!("{out}/tigon.html")));
    for part in ["<svg", "NonTemporal", "NoSWcc", "virtual time", "Published: raw results"] {
        assert!(page.contains(part), "{part}");
    }
    // Kept lines are not run again: what is changed in one shows.
    let kept = format!("{out}/lines/fig8-tpcc-Tigon.json");
    let changed = text(&bytes_of(&kept)).replacen("\"committed_per_s\": ", "\"committed_per_s\": 1", 1);
    std::fs::write(&kept, changed).expect("a file of our own");
    let again = run();
    assert_ne!(again["lines"][0]["points"][0], first["lines"][0]["points"][0]);
    assert_eq!(again["lines"][1], first["lines"][1]);
    // A profile that knows no network: those lines say so, the others run.
    let other = format!("reproduce pasha --quick --profile polar-xconn --json --out {out}-other");
    let other = json(&mut liger(&other));
    let points = other["figures"][0]["points"].as_array().expect("points");
    let why = |point: &&Value| point["missing"].as_str().is_some_and(|why| why.contains("[net]"));
    let missing: Vec<&Value> = points.iter().filter(why).map(|point| &point["line"]).collect();
    assert_eq!(missing, vec!["Sundial-NET"; 7]);
    assert!(text(&bytes_of(&format!("{out}-other/pasha.html"))).contains("not run: "));
    refused(&mut liger("reproduce tigon --only fig99"), &["fig99", "fig4-tpcc"]);
    refused(&mut liger("reproduce tigon --profile nowhere"), &["nowhere", "tigon-osdi25"]);
    refused(&mut liger("reproduce tigon --quick --only fig8 --out /proc/none"), &["/proc/none", "--out"]);
}

#[test]
fn traces_are_compared_with_those_of_another_program() {
    let folder = Folder::new("traces");
    let traces = |more: &str| liger(&format!("sim traces --scenarios lanes --seeds 2 {more}"));
    let made = output(&mut traces("--json"));
    let base = folder.holding("base", &made.stdout);
    let same = output(&mut traces(&format!("--against {base}")));
    assert_eq!(same.status.code(), Some(0), "{}", text(&same.stdout));
    let other =
        text(&made.stdout).replace("lanes-second-life", "lanes-of-old").replace("hash\":\"", "hash\":\"0");
    let other = folder.holding("other", other.as_bytes());
    let differs = output(&mut traces(&format!("--against {other}")));
    let said = text(&differs.stdout);
    assert_eq!(differs.status.code(), Some(1), "{said}");
    assert!(said.contains("lanes-second-life") && said.contains("is new"), "{said}");
    assert!(said.contains("DIFFERS") && said.contains("lanes-of-old (is gone)"), "{said}");
    let more = "sim traces --scenarios lanes --seeds 3 --against";
    refused(&mut liger(&format!("{more} {base}")), &["it is of 2 seeds, this is of 3", "--seeds 2"]);
    let nothing = folder.holding("nothing", b"words\n");
    refused(&mut liger(&format!("{more} {nothing}")), &["its last line is no JSON object"]);
}
