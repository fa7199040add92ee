//! Accusations, and how patient a watch is.

use super::*;
use crate::plan::PartitionId;
use crate::plan::PodConfig;
use crate::testing::TestPod;

const LEASE_NS: u64 = 1_000_000;

#[test]
fn an_accusation_is_one_word() {
    let reasons = [
        Reason::Ended,
        Reason::Silent { us: 0, agreed: None },
        Reason::Silent { us: u32::MAX, agreed: Some(HostId(15)) },
        Reason::Silent { us: 5_200_000, agreed: Some(HostId(0)) },
    ];
    for (reason, (host, by)) in reasons.into_iter().zip([(0, 15), (15, 0), (7, 8), (1, 2)]) {
        let accusation = Accusation { host: HostId(host), incarnation: 0x7fff, by: HostId(by), reason };
        assert_eq!(Accusation::decode(accusation.encode()), Some(accusation));
    }
    assert_eq!(Accusation::decode(0), None);
    let told = |reason| Accusation { host: HostId(1), incarnation: 3, by: HostId(2), reason }.to_string();
    assert_eq!(told(Reason::Ended), "its process ended, as host 2 noticed");
    let silent = Reason::Silent { us: 5_200_000, agreed: Some(HostId(0)) };
    assert_eq!(told(silent), "cut off by host 2: silent for 5.2 s, as host 0 had seen, too");
}

#[test]
fn whose_looks_come_late_gives_others_more_time() {
    let mut lateness = Lateness::default();
    let on_time = LEASE_NS / 32;
    lateness.look(on_time, LEASE_NS);
    assert_eq!(lateness.patience_ns(LEASE_NS), LEASE_NS);
    lateness.look(LEASE_NS, LEASE_NS);
    assert_eq!(lateness.patience_ns(LEASE_NS), 2 * LEASE_NS);
    // A quarter of a lease on time makes up for one that was late.
    (0..7).for_each(|_| lateness.look(on_time, LEASE_NS));
    assert_eq!(lateness.patience_ns(LEASE_NS), 2 * LEASE_NS);
    lateness.look(on_time, LEASE_NS);
    assert_eq!(lateness.patience_ns(LEASE_NS), LEASE_NS);
    // It has an end: a host that hangs is found, however late all looks come.
    (0..100).for_each(|_| lateness.look(LEASE_NS, LEASE_NS));
    assert_eq!(lateness.patience_ns(LEASE_NS), 8 * LEASE_NS);
}

/// A dead host that still owns partitions may meet locks of another one: its successor sweeps them.
#[test]
fn a_death_is_resolved_when_all_have_resolved_it_who_own_something() {
    let pod = TestPod::new(&PodConfig { partitions: 3, ..PodConfig::small(3, 1) });
    let (cx, plan) = (pod.cx(0, 0), &pod.plan);
    let become_state = |host: u8, state: HostState| {
        let slot = Slot { state, host: HostId(host), incarnation: 1 };
        cx.store(plan.membership(slot.host), slot.encode());
    };
    let dead = Slot { state: HostState::Fenced, host: HostId(2), incarnation: 1 };
    let is_resolved = || is_resolved(&cx, plan, dead).expect("intact words");
    become_state(0, HostState::Alive);
    become_state(1, HostState::Fenced);
    become_state(2, HostState::Fenced);
    let own =
        |host: u8, partition| Owner { host: HostId(host), incarnation: 1 }.publish(&cx, plan, partition);
    own(1, PartitionId(1));
    assert!(!is_resolved());
    mark_resolved(&cx, plan, dead, HostId(0));
    assert!(!is_resolved(), "host 1 owns a partition, and somebody is to take it over");
    own(0, PartitionId(1));
    assert!(is_resolved(), "host 0 has it, and host 1 owns nothing");
    own(1, PartitionId(0));
    mark_resolved(&cx, plan, dead, HostId(1));
    assert!(is_resolved(), "host 1 had resolved it before it died");
    mark_resolved(&cx, plan, Slot { incarnation: 0, ..dead }, HostId(1));
    assert!(!is_resolved(), "an earlier incarnation was another");
    become_state(1, HostState::Recovered);
    assert!(is_resolved());
    become_state(1, HostState::Alive);
    assert!(!is_resolved());
}
