//! Dead hosts: what each crash domain keeps, what a dying worker may still do, and panics.

use super::*;
use liger_fabric::sim::{CrashDomain, Kill, KillAt, Report};

/// A host writes a line, publishes it and writes it again; it dies at some verb. A survivor reads what is
/// left.
fn survivor_reads(domain: CrashDomain, step: u64, seed: u64) -> (Report, u8) {
    let mut config = SimConfig::adversarial(2, LEN, seed);
    config.kills.push(Kill { host: HostId(0), at: KillAt::HostStep(step), domain });
    let mut sim = Simulation::new(config);
    sim.spawn(HostId(0), WorkerId(0), |cx| {
        cx.publish(DATA, &[1; 8]);
        cx.write(DATA, &[2; 8]);
        cx.load(FLAG);
    });
    let report = sim.run().expect_completed();
    let left = sim.alone(HostId(1), WorkerId(0), |cx| {
        let mut bytes = [0; 8];
        cx.refresh(DATA, &mut bytes);
        bytes[0]
    });
    (report, left)
}

#[test]
fn each_crash_domain_keeps_what_it_should() {
    let left = |domain, step| (0..40).map(|seed| survivor_reads(domain, step, seed).1).collect::<Vec<_>>();
    for domain in [CrashDomain::Process, CrashDomain::HostPersistent] {
        assert_eq!(left(domain, 1), [0; 40]);
        assert_eq!(left(domain, 2), [1; 40], "a dirty line reaches the memory");
        assert_eq!(left(domain, 5), [2; 40]);
    }
    let after_write = left(CrashDomain::Host, 2);
    assert!(after_write.contains(&0) && after_write.contains(&1), "a dirty line may be lost");
    let after_second = left(CrashDomain::Host, 5);
    assert!(after_second.contains(&1) && after_second.contains(&2) && !after_second.contains(&0));
}

#[test]
fn destructors_of_a_dead_host_run_and_their_verbs_do_nothing() {
    struct Stores<'a, F: Fabric>(&'a Cx<F>);
    impl<F: Fabric> Drop for Stores<'_, F> {
        fn drop(&mut self) {
            self.0.store(OTHER, 1);
            self.0.fence();
        }
    }
    let mut config = SimConfig::adversarial(2, LEN, 5);
    config.kills.push(Kill { host: HostId(0), at: KillAt::Step(50), domain: CrashDomain::Host });
    let mut sim = Simulation::new(config);
    sim.spawn(HostId(0), WorkerId(0), |cx| {
        let _stores = Stores(cx);
        wait_for(cx, FLAG, 1);
    });
    sim.spawn(HostId(1), WorkerId(0), |cx| {
        for _ in 0..100 {
            assert_eq!(cx.load(OTHER), 0);
        }
    });
    let report = sim.run().expect_completed();
    assert_eq!(report.hosts[0].killed, [50]);
}

#[test]
fn a_restarted_process_must_invalidate_what_its_host_cached() {
    for (refresh, rule) in [(true, "other"), (false, "stale-read")] {
        let mut sim = Simulation::new(SimConfig::adversarial(2, LEN, 9));
        sim.spawn(HostId(0), WorkerId(0), |cx| {
            cx.read(DATA, &mut [0; 8]);
            cx.store(OTHER, 1);
            cx.fence();
            wait_for(cx, FLAG, 9);
        });
        sim.spawn(HostId(1), WorkerId(0), |cx| {
            wait_for(cx, OTHER, 1);
            cx.publish(DATA, &[3; 8]);
            cx.store(FLAG, 1);
            cx.fence();
            cx.fabric().kill_host(HostId(0), CrashDomain::Process);
        });
        sim.spawn_after_crash(HostId(0), WorkerId(1), move |cx| {
            wait_for(cx, FLAG, 1);
            let mut bytes = [0; 8];
            if refresh {
                cx.refresh(DATA, &mut bytes);
            } else {
                cx.read(DATA, &mut bytes);
            }
            assert_eq!(bytes, [3; 8]);
        });
        assert_eq!(rule_of(&sim.run().outcome), rule);
    }
}

#[test]
fn a_panic_is_a_finding_with_its_place() {
    let mut sim = Simulation::new(SimConfig::adversarial(1, LEN, 0));
    sim.spawn(HostId(0), WorkerId(3), |cx| assert_eq!(cx.load(FLAG), 1, "the flag is up"));
    let outcome = sim.run().outcome;
    let Outcome::Panicked { message, worker, .. } = &outcome else { panic!("{outcome}") };
    assert_eq!(*worker, WorkerId(3));
    assert!(message.contains("the flag is up") && message.contains("crashes.rs"), "{message}");
}
