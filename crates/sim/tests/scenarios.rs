//! Every scenario is right on many seeds, and replays.

use liger_fabric::sim::{CrashDomain, KillAt};
use liger_sim::scenario::{Scenario, all, index_kill, log};

fn passes(part: &str, seeds: u64) {
    let chosen: Vec<&Scenario> = all().filter(|scenario| scenario.name.starts_with(part)).collect();
    assert!(!chosen.is_empty(), "no scenario is called {part}");
    let seeds = std::env::var("LIGER_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(seeds);
    for scenario in chosen {
        for seed in 0..seeds {
            let ran = (scenario.run)(seed, None);
            assert!(ran.problem.is_none(), "{} seed {seed}: {}", scenario.name, ran.problem.unwrap());
        }
    }
}

#[test]
fn hosts_meet() {
    passes("control", 150);
}

#[test]
fn messages_arrive() {
    passes("lanes", 150);
}

#[test]
fn blocks_come_back() {
    passes("heap", 50);
}

#[test]
fn nodes_do_not_change_under_their_readers() {
    passes("epochs", 120);
}

#[test]
fn the_index_keeps_its_promises() {
    passes("index", 150);
}

#[test]
fn no_record_is_lost_and_no_epoch_promised_too_early() {
    passes("log", 300);
}

#[test]
fn hosts_sleep_until_they_are_woken() {
    passes("bells", 100);
}

#[test]
fn sql_objects_fit_together() {
    passes("sql", 30);
}

#[test]
fn rows_are_serializable() {
    passes("rows", 12);
}

#[test]
fn statements_see_what_they_should() {
    passes("statements", 30);
}

#[test]
fn survivors_go_on_wherever_a_host_dies() {
    let domains = [CrashDomain::Host, CrashDomain::Process, CrashDomain::HostPersistent];
    for seed in 0..4 {
        let long = index_kill::die(seed, u64::MAX, CrashDomain::Host, None).expect_completed();
        for at in 1..=long.hosts[0].verbs {
            let report = index_kill::die(seed, at, domains[(at + seed) as usize % 3], None);
            assert!(report.completed(), "seed {seed}, death before verb {at}: {}", report.outcome);
        }
    }
}

#[test]
fn the_log_holds_wherever_a_host_dies() {
    let domains = [CrashDomain::Host, CrashDomain::Process, CrashDomain::HostPersistent];
    for seed in 0..3 {
        let long = log::die(seed, KillAt::HostStep(u64::MAX), CrashDomain::Host, None);
        assert!(long.report.hosts[0].verbs > 500, "{}", long.report.hosts[0].verbs);
        for at in 1..=long.report.hosts[0].verbs {
            let ran = log::die(seed, KillAt::HostStep(at), domains[(at + seed) as usize % 3], None);
            assert!(ran.problem.is_none(), "seed {seed}, death before verb {at}: {}", ran.problem.unwrap());
        }
    }
}

#[test]
fn a_run_replays_from_its_seed() {
    for scenario in all() {
        let hash = |seed| (scenario.run)(seed, None).report.trace_hash;
        assert_eq!(hash(5), hash(5), "{}", scenario.name);
        // One worker alone does the same whatever the seed; so do those that take turns and share nothing.
        let alone = ["control-second-format", "unrestored-neighbour"].contains(&scenario.name);
        assert_eq!(hash(5) == hash(6), alone, "{}", scenario.name);
    }
}
