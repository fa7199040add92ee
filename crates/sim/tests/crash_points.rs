//! A host dies before verbs of small operations: a share of what `liger sim crash-points` runs.

#![forbid(unsafe_code)]

use liger_fabric::HostId;
use liger_fabric::sim::CrashDomain;
use liger_sim::crash_points::{
    CrashAt, CrashRun, DOMAINS, Failure, OPERATIONS, Operation, Survey, run, survey,
};

/// In this share each operation has one crash domain, and every so many-th verb of its window.
const EVERY: u64 = 400;

fn survives(operations: impl Fn(&Operation) -> bool) {
    for (nth, operation) in OPERATIONS.iter().enumerate().filter(|(_, operation)| operations(operation)) {
        let (_, domain) = DOMAINS[nth % DOMAINS.len()];
        let config = Survey {
            operation: Some(operation.name.to_owned()),
            domain: Some(domain),
            every: EVERY,
            verb: None,
            seeds: 9..10,
        };
        let surveyed = survey(&config, |_, _| ());
        let tell = |failure: &Failure| format!("{}: {}", failure.command(), failure.problem);
        let told: Vec<String> = surveyed.failures.iter().map(tell).collect();
        assert!(told.is_empty(), "{}", told.join("\n"));
        let (reached, killed) = surveyed.coverage.points();
        println!("{}: {reached} call sites, died at {killed}", operation.name);
        // The first verb of each call site is run in one of the domains.
        assert!(killed >= 3 && killed * 4 >= reached, "{}: died at {killed} of {reached}", operation.name);
    }
}

#[test]
fn a_host_dies_amid_what_it_does() {
    survives(|operation| !operation.opens_later && operation.comes_back.is_none());
}

#[test]
fn a_host_dies_while_it_takes_over_or_comes_back() {
    survives(|operation| operation.opens_later || operation.comes_back.is_some());
}

#[test]
fn up_to_its_kill_a_run_is_the_run_without_one() {
    let operation = Operation::named("update-foreign").expect("it is in the list");
    let ran = |crash| run(&CrashRun { operation, seed: 9, crash, left_out: None }).survival.report;
    let window: Vec<_> = ran(None).listed.into_iter().filter(|listed| listed.host == HostId(0)).collect();
    let (at, listed) = (window.len() / 2, &window[window.len() / 2]);
    let crash = CrashAt { host: HostId(0), verb: at as u64 + 1, domain: CrashDomain::Host };
    let killed = ran(Some(crash));
    assert_eq!(killed.hosts[0].killed, [listed.step]);
    assert_eq!(killed.trace_hash, ran(Some(crash)).trace_hash, "a run replays");
}
