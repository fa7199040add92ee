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
    for (engine, protocol) in [("row", "row"), ("sundial+", "sundial+"), ("ds2pl-cxl", "ds2pl-cxl")] {
        for workload in ["tpcc", "ycsb"] {
            let run = || {
                let output = output(&mut liger(&format!("sim {workload} --seed 5 --engine {engine} --json")));
                let out = text(&output.stdout);
                assert!(output.status.success(), "{out}{}", text(&output.stderr));
                serde_json::from_str::<Value>(out.lines().last().expect("a line")).expect("JSON")
            };
            let (first, again) = (run(), run());
            assert_eq!((&first["protocol"], &first["trace_hash"]), (&protocol.into(), &again["trace_hash"]));
        }
    }
    let policies = "sim ycsb --profile tigon-osdi25 --keys 500 --virtual-ms 1 --hosts 2 --workers 1";
    let report = output(&mut liger(&format!("{policies} --policies coherence=always-bypass")));
    assert!(text(&report.stdout).contains("coherence=always-bypass"), "{}", text(&report.stdout));
    let wrong = "sim ycsb --engine ds2pl+ --policies coherence=always-bypass";
    refused(&mut liger(wrong), &["--policies", "row engine"]);
    refused(&mut liger("sim ycsb --policies coherence=none"), &["coherence", "write-through"]);
}
