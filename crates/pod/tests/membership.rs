//! Joining, leaving and watching, with threads as hosts.

use std::sync::Arc;

use liger_fabric::native::{Mapping, Native, NativeHost, process, run_hosts, run_workers};
use liger_fabric::{Cx, HostId, SyncMode, WorkerId};
use liger_pod::PodError;
use liger_pod::membership::{self, HostState, Observer, Slot};
use liger_pod::plan::{Plan, PodConfig};
use liger_pod::selftest::{Effort, Responder, SelfTestFailure};
use liger_pod::superblock::{self, FormatOver};
use liger_pod::watch::{Accusation, Watch};

struct Pod {
    mapping: Arc<Mapping>,
    plan: Plan,
}

impl Pod {
    fn new(hosts: u8) -> Self {
        Self::of(&PodConfig::small(hosts, 1))
    }

    fn of(config: &PodConfig) -> Self {
        let bytes = Plan::new(config).expect("plan").len();
        let mapping = Mapping::anonymous(bytes as usize).expect("memory");
        let cx = Cx::new(Native::new(mapping.clone()), HostId(0), WorkerId(0), 1);
        let plan = superblock::format(&cx, config, bytes, FormatOver::Zeros).expect("format");
        Self { mapping, plan }
    }

    fn cx(&self, host: u8) -> Cx<Native> {
        Cx::new(Native::new(self.mapping.clone()), HostId(host), WorkerId(0), 1)
    }
}

/// A short patience, for tests in which nobody answers.
const IMPATIENT: Effort = Effort { answer_ns: 3_000_000, ..Effort::SMALL };

#[test]
fn a_host_goes_through_its_life_with_a_fresh_number_each_time() {
    let pod = Pod::new(2);
    let cx = pod.cx(1);
    let mut observer = Observer::new(&pod.plan);
    let mut look = || observer.observe(&cx).expect("sane")[1].slot;
    for number in 1..=3 {
        assert_eq!((look().state, look().incarnation), (HostState::Free, number - 1));
        assert_eq!(membership::members(&cx, &pod.plan), 0);
        let joining = membership::join(&cx, &pod.plan, 1234).expect("join");
        assert_eq!((look().state, joining.incarnation()), (HostState::Joining, number));
        assert_eq!(joining.self_test(&cx, &Effort::SMALL), Ok(None), "alone");
        let member = joining.finish(&cx).expect("finish");
        assert_eq!((look().state, look().incarnation), (HostState::Alive, number));
        assert_eq!(membership::members(&cx, &pod.plan), 2);
        member.heartbeat(&cx).expect("alive");
        let leaving = member.leave(&cx).expect("leave");
        assert_eq!(look().state, HostState::Leaving);
        leaving.finish(&cx).expect("left");
    }
    membership::join(&cx, &pod.plan, 1).expect("join").abandon(&cx).expect("abandoned");
    assert_eq!(look().incarnation, 4);
}

#[test]
fn a_taken_number_is_refused() {
    let pod = Pod::new(2);
    let cx = pod.cx(0);
    let refused = || match membership::join(&cx, &pod.plan, 7) {
        Err(PodError::HostInUse { host: HostId(0), state, incarnation: 1, process: 1234 }) => state,
        other => panic!("{:?}", other.err()),
    };
    let joining = membership::join(&cx, &pod.plan, 1234).expect("join");
    assert_eq!(refused(), HostState::Joining);
    let member = joining.finish(&cx).expect("finish");
    assert_eq!(refused(), HostState::Alive);
    let _leaving = member.leave(&cx).expect("leave");
    assert_eq!(refused(), HostState::Leaving);
    let no_such = membership::join(&pod.cx(2), &pod.plan, 1).err();
    assert_eq!(no_such, Some(PodError::NoSuchHost { host: HostId(2), hosts: 2 }));
    let nameless = membership::join(&pod.cx(1), &pod.plan, 0).err();
    assert_eq!(nameless, Some(PodError::Nameless { host: HostId(1) }));
}

#[test]
fn states_of_recovery_and_damage_are_refused() {
    let pod = Pod::new(1);
    let cx = pod.cx(0);
    let word = pod.plan.membership(HostId(0));
    for (code, state) in [(4, HostState::Suspect), (5, HostState::Fenced), (6, HostState::Recovered)] {
        cx.store(word, 9 << 16 | code);
        let refused = membership::join(&cx, &pod.plan, 1).err().expect("refused");
        assert_eq!(refused, PodError::HostNotRecovered { host: HostId(0), state, incarnation: 9 });
        assert!(refused.to_string().contains("have not taken over from it yet"));
    }
    for damaged in [7, 1, 9 << 16 | 3 << 8, 1 << 40 | 9 << 16] {
        cx.store(word, damaged);
        assert!(matches!(membership::join(&cx, &pod.plan, 1), Err(PodError::Damaged { .. })), "{damaged:#x}");
    }
    cx.store(word, 0xffff << 16);
    let used_up = membership::join(&cx, &pod.plan, 1).err().expect("refused");
    assert_eq!(used_up, PodError::IncarnationsUsedUp { host: HostId(0) });
}

#[test]
fn a_host_that_was_suspected_learns_it() {
    let pod = Pod::new(1);
    let cx = pod.cx(0);
    let member = membership::join(&cx, &pod.plan, 1).expect("join").finish(&cx).expect("finish");
    let word = pod.plan.membership(HostId(0));
    let alive = cx.load(word);
    cx.compare_exchange(word, alive, alive - 2 + 5).expect("fenced");
    let fenced = PodError::Fenced {
        host: HostId(0),
        incarnation: 1,
        expected: HostState::Alive,
        found: HostState::Fenced,
    };
    assert_eq!(member.heartbeat(&cx), Err(fenced.clone()));
    assert_eq!(member.leave(&cx).err(), Some(fenced));
}

/// Whoever stood still for more than half a lease asks before it does what only a living host may do.
#[test]
fn after_a_long_silence_a_host_asks_whether_it_still_counts() {
    let lease_ns = 200_000_000;
    let pod = Pod::of(&PodConfig { lease_ns, ..PodConfig::small(1, 1) });
    let cx = pod.cx(0);
    let member = membership::join(&cx, &pod.plan, 1).expect("join").finish(&cx).expect("finish");
    let word = pod.plan.membership(HostId(0));
    let renewed_ns = cx.now_ns();
    member.heartbeat(&cx).expect("alive");
    cx.compare_exchange(word, cx.load(word), cx.load(word) & !0xff | 5).expect("fenced");
    // A look at the clock, if this thread was not held up itself.
    let confirmed = member.confirm(&cx);
    assert!(confirmed.is_ok() || cx.now_ns() - renewed_ns > lease_ns / 2, "{confirmed:?}");
    while cx.now_ns() - renewed_ns <= lease_ns / 20 * 11 {
        cx.pause();
    }
    let found = HostState::Fenced;
    let expected = HostState::Alive;
    assert_eq!(
        member.confirm(&cx),
        Err(PodError::Fenced { host: HostId(0), incarnation: 1, expected, found })
    );
}

#[test]
fn why_a_host_is_not_found_dead_is_told_and_a_nameless_one_needs_no_proof() {
    let pod = Pod::of(&PodConfig { lease_ns: 1_000_000, ..PodConfig::small(3, 1) });
    let cx = pod.cx(0);
    let member = membership::join(&cx, &pod.plan, 7).expect("join").finish(&cx).expect("finish");
    let state = |host| Slot::load(&cx, &pod.plan, HostId(host)).expect("sane");
    let mut eye = Watch::new(&cx, &pod.plan, member.slot());
    // Killed between its swap to JOINING and the stores behind it, in its second incarnation.
    membership::join(&pod.cx(1), &pod.plan, 8).expect("join").abandon(&pod.cx(1)).expect("abandoned");
    let word = pod.plan.membership(HostId(1));
    cx.compare_exchange(word, cx.load(word), 2 << 16 | 1 << 8 | 1).expect("the word of JOINING");
    while state(1).state != HostState::Fenced {
        eye.look(&cx).expect("alive");
        cx.pause();
    }
    assert_eq!((state(1).incarnation, eye.unproven()), (2, None));
    // A process of nowhere.
    let joining = membership::join(&pod.cx(2), &pod.plan, 0xdead << 48 | 9).expect("join");
    while eye.unproven().is_none() {
        eye.look(&cx).expect("alive");
        cx.pause();
    }
    let (host, why) = eye.unproven().expect("it cannot be reached");
    assert!(host == HostId(2) && why.contains("another machine"), "{host:?}: {why}");
    assert_eq!(state(2).state, HostState::Suspect);
    drop(joining);
    // Another host can reach it, say.
    let word = pod.plan.membership(HostId(2));
    cx.compare_exchange(word, cx.load(word), cx.load(word) & !0xff | 5).expect("the word of FENCED");
    while Accusation::load(&cx, &pod.plan).is_some() || eye.unproven().is_some() {
        eye.look(&cx).expect("alive");
    }
}

#[test]
fn an_observer_sees_the_age_of_a_heartbeat() {
    let pod = Pod::new(2);
    let (cx, watcher) = (pod.cx(0), pod.cx(1));
    let member = membership::join(&cx, &pod.plan, 55).expect("join").finish(&cx).expect("finish");
    let mut observer = Observer::new(&pod.plan);
    let mut look = || observer.observe(&watcher).expect("sane")[0];
    assert_eq!((look().process, look().tested_with), (55, None));
    let start_ns = watcher.now_ns();
    while watcher.now_ns() - start_ns < 2_000_000 {
        watcher.pause();
    }
    assert!(look().heartbeat_age_ns >= 2_000_000);
    member.heartbeat(&cx).expect("alive");
    assert_eq!(look().heartbeat_age_ns, 0);
}

#[test]
fn one_number_goes_to_one_of_many() {
    let pod = Pod::new(2);
    for _ in 0..50 {
        // Four workers of one host stand for four processes that were given the same number.
        let host = NativeHost::new(pod.mapping.clone(), SyncMode::Hwcc, HostId(1));
        let joined = run_workers(&[host], 4, 1, |cx| membership::join(cx, &pod.plan, 1));
        let mut winners = joined.into_iter().filter_map(|joined| joined.expect("no panic").ok());
        let winner = winners.next().expect("one wins");
        assert!(winners.next().is_none());
        winner.abandon(&pod.cx(1)).expect("abandoned");
    }
}

#[test]
fn hosts_that_start_together_all_test_but_one() {
    for mode in [SyncMode::Hwcc, SyncMode::Pcc] {
        let pod = Pod::new(4);
        let tested = run_hosts(&pod.mapping, mode, 4, 1, 1, |cx| {
            let responder = Responder::new(&pod.plan);
            let joining = membership::join(cx, &pod.plan, 1).expect("join");
            let peer = joining.self_test(cx, &Effort::SMALL).expect("good memory");
            let member = joining.finish(cx).expect("finish");
            let alive =
                |host| Slot::load(cx, &pod.plan, HostId(host)).expect("sane").state == HostState::Alive;
            while !(0..4).all(alive) {
                responder.poll(cx);
                member.heartbeat(cx).expect("alive");
                cx.pause();
            }
            let record = Observer::new(&pod.plan).observe(cx).expect("sane")[usize::from(cx.host().0)];
            assert_eq!(record.tested_with, peer);
            peer
        });
        let untested = tested.iter().filter(|peer| peer.as_ref().expect("no panic").is_none()).count();
        assert_eq!(untested, 1, "{tested:?}");
    }
}

#[test]
fn a_member_that_does_not_answer_is_named() {
    let pod = Pod::new(2);
    let (silent, cx) = (pod.cx(0), pod.cx(1));
    let _member = membership::join(&silent, &pod.plan, 1).expect("join").finish(&silent).expect("finish");
    let joining = membership::join(&cx, &pod.plan, 1).expect("join");
    let failure = joining.self_test(&cx, &IMPATIENT).expect_err("nobody answers");
    let hello = matches!(
        failure,
        PodError::SelfTest(SelfTestFailure::NoAnswer { peer: HostId(0), step: "hello", .. })
    );
    assert!(hello, "{failure}");
    joining.abandon(&cx).expect("abandoned");
}

#[test]
fn a_member_that_goes_in_the_middle_of_a_self_test_is_not_waited_for() {
    let pod = Pod::new(2);
    let state = |cx: &_, host| Slot::load(cx, &pod.plan, HostId(host)).expect("sane").state;
    let patient = Effort { answer_ns: 60_000_000_000, ..Effort::SMALL };
    let tested = run_hosts(&pod.mapping, SyncMode::Hwcc, 2, 1, 1, |cx| {
        if cx.host() == HostId(0) {
            let member = membership::join(cx, &pod.plan, 1).expect("join").finish(cx).expect("finish");
            while state(cx, 1) != HostState::Joining {
                cx.pause();
            }
            // It has been chosen, and answers nothing.
            let start_ns = cx.now_ns();
            while cx.now_ns() - start_ns < 30_000_000 {
                member.heartbeat(cx).expect("alive");
                cx.pause();
            }
            return member.leave(cx).and_then(|leaving| leaving.finish(cx)).map(|()| None);
        }
        while state(cx, 0) != HostState::Alive {
            cx.pause();
        }
        membership::join(cx, &pod.plan, 1).expect("join").self_test(cx, &patient)
    });
    // Nobody is left to test with.
    assert!(matches!(tested[1].as_ref().expect("no panic"), Ok(None)), "{tested:?}");
}

/// The name of a process that has ended: it had this one's number, and started at another time.
fn ended_process() -> u64 {
    process::own() ^ 1 << 22
}

#[test]
fn a_member_whose_process_has_ended_is_not_waited_for() {
    let pod = Pod::new(3);
    let (dead, cx) = (pod.cx(0), pod.cx(1));
    let _dead =
        membership::join(&dead, &pod.plan, ended_process()).expect("join").finish(&dead).expect("finish");
    let patient = Effort { answer_ns: 60_000_000_000, ..Effort::SMALL };
    let joining = membership::join(&cx, &pod.plan, 1).expect("join");
    let failure = joining.self_test(&cx, &patient).expect_err("nobody lives");
    assert_eq!(failure, PodError::NobodyLives { host: HostId(1), dead: HostId(0) });
    // Another member lives: it is asked, and the dead one is not.
    let _member = joining.finish(&cx).expect("finish");
    let done = run_hosts(&pod.mapping, SyncMode::Hwcc, 3, 1, 1, |cx| match cx.host() {
        HostId(1) => {
            let responder = Responder::new(&pod.plan);
            while Slot::load(cx, &pod.plan, HostId(2)).expect("sane").state != HostState::Alive {
                responder.poll(cx);
                cx.pause();
            }
            None
        }
        HostId(2) => {
            let joining = membership::join(cx, &pod.plan, 1).expect("join");
            let peer = joining.self_test(cx, &patient).expect("host 1 lives");
            let _member = joining.finish(cx).expect("finish");
            peer
        }
        _ => None,
    });
    assert_eq!(done[2], Ok(Some(HostId(1))));
}

#[test]
fn a_founder_that_never_starts_is_named() {
    let pod = Pod::new(2);
    let (founder, cx) = (pod.cx(0), pod.cx(1));
    let stuck = membership::join(&founder, &pod.plan, 1).expect("join");
    assert_eq!(stuck.self_test(&founder, &IMPATIENT), Ok(None));
    let joining = membership::join(&cx, &pod.plan, 1).expect("join");
    let failure = joining.self_test(&cx, &IMPATIENT).expect_err("the founder does not become a member");
    assert!(matches!(failure, PodError::FounderSilent { founder: HostId(0), .. }), "{failure}");
    stuck.abandon(&founder).expect("abandoned");
    assert_eq!(joining.self_test(&cx, &IMPATIENT), Ok(None), "now this host is the founder");
    let _member = joining.finish(&cx).expect("finish");
}

#[test]
fn a_bell_left_by_a_dead_joiner_is_taken_over() {
    let pod = Pod::new(3);
    let alone = pod.cx(0);
    let _member = membership::join(&alone, &pod.plan, 1).expect("join").finish(&alone).expect("finish");
    // Host 1 rings, gives an order and is gone; its slot is then recovered by hand.
    let dead = pod.cx(1);
    let joining = membership::join(&dead, &pod.plan, 1).expect("join");
    let bell = pod.plan.selftest_sync(HostId(0), HostId(0), 0);
    dead.store(bell, dead.load(pod.plan.membership(HostId(1))));
    joining.abandon(&dead).expect("abandoned");
    let done = run_hosts(&pod.mapping, SyncMode::Hwcc, 3, 1, 1, |cx| match cx.host() {
        HostId(0) => {
            let responder = Responder::new(&pod.plan);
            while membership::members(cx, &pod.plan) & 0b100 == 0 || cx.load(bell) != 0 {
                responder.poll(cx);
                cx.pause();
            }
            None
        }
        HostId(2) => {
            let joining = membership::join(cx, &pod.plan, 1).expect("join");
            let peer = joining.self_test(cx, &Effort::SMALL).expect("good memory");
            let _member = joining.finish(cx).expect("finish");
            peer
        }
        _ => None,
    });
    assert_eq!(done[2], Ok(Some(HostId(0))));
}
