//! A sample of the mutation stage (the whole of it takes minutes: `liger sim mutations`).

use std::collections::BTreeSet;

use liger_sim::mutation::{Config, Mutant, MutationReport, PRESSED, listed_steps, stage};
use liger_sim::scenario;

fn sample(scenarios: &str, mutants: Option<&str>) -> MutationReport {
    sample_with(scenarios, mutants, 6)
}

/// As `sample`, with so many seeds that must find nothing wrong before steps are left out; steps that none of
/// them comes to are not left out.
fn sample_with(scenarios: &str, mutants: Option<&str>, baseline_seeds: u64) -> MutationReport {
    let config = Config {
        scenarios: Some(scenarios.to_owned()),
        mutants: mutants.map(str::to_owned),
        max_seeds: 3000,
        baseline_seeds,
        ..Config::new(|| 0)
    };
    let report = stage(&config, |_| ());
    println!("{}", report.table());
    report
}

#[test]
fn every_instruction_of_the_lanes_is_needed() {
    let report = sample("lanes", Some("pod/src/lanes.rs"));
    assert!(report.passed() && report.mutants.len() >= 4, "{}", report.table());
    let again = sample("lanes", Some("pod/src/lanes.rs"));
    let fates = |report: &MutationReport| report.mutants.iter().map(Mutant::line).collect::<Vec<_>>();
    assert_eq!(fates(&report), fates(&again), "what is caught, and where, follows from the seeds");
}

#[test]
fn every_step_of_two_phase_commit_is_needed() {
    for mutants in ["partitioned.", "sundial.", "ds2pl."] {
        let report = sample("partitioned", Some(mutants));
        assert!(report.passed() && !report.mutants.is_empty(), "{}", report.table());
    }
}

#[test]
fn every_step_of_many_versions_is_needed() {
    let report = sample("motor", Some("motor."));
    assert!(report.passed() && report.mutants.len() == 6, "{}", report.table());
}

#[test]
fn every_step_of_sundial_in_shared_memory_is_needed() {
    for mutants in ["shm.", "sundial.", "rivals/src/shm"] {
        let report = sample("shm", Some(mutants));
        assert!(report.passed() && !report.mutants.is_empty(), "{}", report.table());
    }
}

#[test]
fn every_step_of_an_accusation_is_needed() {
    let report = sample("control", Some("watch."));
    assert!(report.passed() && report.mutants.len() == 5, "{}", report.table());
}

#[test]
fn lost_updates_and_stale_copies_are_noticed() {
    for step in ["row.check-readers-on-write", "row.writer-clears-other-valid-bits", "row.set-modified"] {
        let report = sample("rows-two-keys", Some(step));
        assert!(report.passed() && report.mutants.len() == 1, "{}", report.table());
    }
}

#[test]
fn every_step_of_the_log_is_needed() {
    for mutants in ["engine/src/log", "log."] {
        let report = sample("log", Some(mutants));
        assert!(report.passed() && report.mutants.len() >= 5, "{}", report.table());
    }
}

#[test]
fn readers_of_what_is_gone_wait_for_its_removal() {
    let report = sample("durable", Some("commit.await-removals"));
    assert!(report.passed() && report.mutants.len() == 1, "{}", report.table());
}

#[test]
fn every_step_of_a_checkpoint_is_needed() {
    let report = sample("durable", Some("checkpoint."));
    assert!(report.passed() && report.mutants.len() == 6, "{}", report.table());
}

#[test]
fn who_says_its_name_too_late_is_noticed() {
    let report = sample("control-suspicion", Some("membership.look-after-naming"));
    assert!(report.passed() && report.mutants.len() == 1, "{}", report.table());
}

#[test]
fn every_step_of_statements_is_needed() {
    let report = sample("statements", Some("statement."));
    assert!(report.passed() && report.mutants.len() == 4, "{}", report.table());
}

#[test]
fn every_step_of_salvage_is_needed() {
    let report = sample_with("durable-memory-kept", Some("salvage."), 20);
    assert!(report.passed() && report.mutants.len() == 3, "{}", report.table());
}

/// True if this is a file, below the root of the project.
fn is_file(path: &str) -> bool {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path).is_file()
}

#[test]
fn names_of_steps_are_told_apart() {
    let all: Vec<&str> = listed_steps().collect();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{all:?}");
    assert!(all.len() >= 50, "{}", all.len());
    assert!(all.iter().all(|name| name.contains('.')), "{all:?}");
    for (step, pressing) in PRESSED {
        let is_there = all.contains(step) || step.split_once(" at ").is_some_and(|(_, file)| is_file(file));
        assert!(is_there && scenario::all().any(|s| s.name == *pressing), "{step} {pressing}");
    }
}

#[test]
fn reports_are_readable_by_machines() {
    let report = sample("lanes", Some("lanes.spare-unread-slots"));
    let value: serde_json::Value = serde_json::from_str(&report.json()).expect("JSON");
    assert_eq!(value["mutants"][0]["name"], "lanes.spare-unread-slots");
    assert!(value["mutants"][0]["caught"]["seed"].is_u64());
}

#[test]
fn every_step_of_sql_objects_is_needed() {
    for mutants in ["catalog.", "table.", "overflow."] {
        let report = sample("sql", Some(mutants));
        assert!(report.passed() && !report.mutants.is_empty(), "{}", report.table());
    }
}
