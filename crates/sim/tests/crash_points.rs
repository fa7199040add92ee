//! A host dies before verbs of small operations: a share of what `liger sim crash-points` runs.

#![forbid(unsafe_code)]

use liger_fabric::HostId;
use liger_fabric::sim::CrashDomain;
use liger_sim::crash_points::{
    CrashAt, CrashRun, DOMAINS, Failure, OPERATIONS, Operation, Survey, run, survey,
};
use liger_sim::scenario::LeftOut;

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

/// Who resolves a dead host's locks needs all records of its last transaction: without those before the last
/// one some of its changes would be lost.
#[test]
fn the_last_transaction_of_a_dead_host_has_several_records() {
    let operation = Operation::named("long-commit").expect("it is in the list");
    let left_out = LeftOut::Step("resolve.read-fragments");
    let ran = |verb, left_out| {
        let crash = Some(CrashAt { host: HostId(0), verb, domain: CrashDomain::Host });
        run(&CrashRun { operation, seed: 9, crash, left_out }).survival.problems
    };
    let calm = run(&CrashRun { operation, seed: 9, crash: None, left_out: None }).survival.report;
    let window = calm.listed.iter().filter(|listed| listed.host == HostId(0)).count() as u64;
    let noticed = (1..=window).rev().step_by(10).find(|verb| !ran(*verb, Some(&left_out)).is_empty());
    let verb = noticed.expect("some death behind the commit needs them");
    assert_eq!(ran(verb, None), Vec::<String>::new());
}
