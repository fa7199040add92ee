//! Format, open, join, self-test, heartbeat and leave on truly incoherent memory, under many schedules.

use std::cell::Cell;
use std::rc::Rc;

use liger_fabric::sim::{CrashDomain, Kill, KillAt, SimConfig, Simulation};
use liger_fabric::{Cx, Fabric, HostId, WorkerId};
use liger_pod::PodError;
use liger_pod::membership::{self, HostState, Observer, Slot};
use liger_pod::plan::{Plan, PodConfig};
use liger_pod::selftest::{Effort, Responder};
use liger_pod::superblock::{self, FormatOver};

use super::{LeftOut, Ran, Scenario};

/// The first meeting of hosts, a joiner or a member that dies, and memory with an older pod in it.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "control", run: all_lives },
    Scenario { name: "control-joiner-dies", run: joiner_dies_and_returns },
    Scenario { name: "control-member-dies", run: member_dies },
    Scenario { name: "control-second-format", run: second_format },
];

const HOSTS: u8 = 3;

fn pod() -> PodConfig {
    PodConfig { hwcc_bytes: 64 << 10, cxl_bytes: 256 << 10, ..PodConfig::small(HOSTS, 1) }
}

/// One process start: makes or finds the pod, joins, is tested, serves until every host has been there,
/// leaves. `arrived` counts hosts that have become members; it stands for the operator.
fn one_life<F: Fabric>(cx: &Cx<F>, arrived: &Cell<u32>, untested: &Cell<u32>, lives: u32) {
    let bytes = bytes();
    let made = superblock::format(cx, &pod(), bytes, FormatOver::Zeros);
    let plan = loop {
        match superblock::open_as(cx, bytes, &pod()) {
            Ok(plan) => break plan,
            Err(PodError::StillFormatting) => cx.pause(),
            Err(other) => panic!("{other}"),
        }
    };
    assert!(made.is_err() || made == Ok(plan.clone()));
    let joining = membership::join(cx, &plan, cx.process()).expect("join");
    let peer = joining.self_test(cx, &Effort::SMALL).expect("the simulator keeps its promises");
    untested.set(untested.get() + u32::from(peer.is_none()));
    let member = joining.finish(cx).expect("nobody suspects");
    arrived.set(arrived.get() + 1);
    let (responder, mut observer) = (Responder::new(&plan), Observer::new(&plan));
    while arrived.get() < lives {
        responder.poll(cx);
        member.heartbeat(cx).expect("alive");
        let views = observer.observe(cx).expect("sane");
        let own = views[usize::from(cx.host().0)];
        assert_eq!((own.slot.state, own.slot.incarnation), (HostState::Alive, member.incarnation()));
        cx.pause();
    }
    member.leave(cx).expect("alive").finish(cx).expect("leaving");
    let after = Slot::load(cx, &plan, cx.host()).expect("sane");
    assert_eq!(after.state, HostState::Free);
}

fn all_lives(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let mut sim = Simulation::new(sim_config(seed, left_out));
    let (arrived, untested) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    for host in 0..HOSTS {
        let (arrived, untested) = (arrived.clone(), untested.clone());
        sim.spawn(HostId(host), WorkerId(0), move |cx| one_life(cx, &arrived, &untested, HOSTS.into()));
    }
    Ran::new(sim.run(), || match untested.get() {
        1 => Ok(()),
        untested => Err(format!("{untested} hosts were not tested: all but the first member should be")),
    })
}

fn bytes() -> u64 {
    Plan::new(&pod()).expect("a valid configuration").len()
}

fn sim_config(seed: u64, left_out: Option<&LeftOut>) -> SimConfig {
    let mut config = SimConfig::swarm(HOSTS.into(), bytes() as usize, seed);
    config.max_verbs = super::MAX_VERBS;
    LeftOut::apply(left_out, &mut config);
    config
}

/// A joiner dies at any moment of its self-test; its slot is recovered by hand, and its next incarnation is
/// tested by the same member, which may still be carrying out the order of the dead one.
fn joiner_dies_and_returns(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let domain = [CrashDomain::Process, CrashDomain::Host][seed as usize % 2];
    let kill = Kill { host: HostId(1), at: KillAt::RandomStep(1500), domain };
    let mut sim = Simulation::new(SimConfig { kills: vec![kill], ..sim_config(seed, left_out) });
    let plan = sim.alone(HostId(0), WorkerId(0), move |cx| {
        superblock::format(cx, &pod(), bytes(), FormatOver::Zeros).expect("format")
    });
    let over = Rc::new(Cell::new(false));
    let (first, second, done, ended) = (plan.clone(), plan.clone(), over.clone(), over.clone());
    sim.spawn(HostId(0), WorkerId(0), move |cx| {
        let _member = membership::join(cx, &plan, cx.process()).expect("join").finish(cx).expect("finish");
        let responder = Responder::new(&plan);
        while !over.get() {
            responder.poll(cx);
            cx.pause();
        }
    });
    sim.spawn(HostId(1), WorkerId(0), move |cx| {
        while membership::members(cx, &first) != 1 {
            cx.pause();
        }
        test_and_leave(cx, &first);
        ended.set(true);
    });
    sim.spawn_after_crash(HostId(1), WorkerId(0), move |cx| {
        if done.get() {
            // It died when it had ended, and nobody answers any more.
            return;
        }
        let word = second.membership(HostId(1));
        let left_behind = cx.load(word);
        // What recovery will do: the number is free again, its incarnation stays used.
        cx.compare_exchange(word, left_behind, left_behind & !0xff).expect("nobody else changes it");
        test_and_leave(cx, &second);
        done.set(true);
    });
    Ran::new(sim.run(), || Ok(()))
}

fn test_and_leave<F: Fabric>(cx: &Cx<F>, plan: &Plan) {
    let joining = membership::join(cx, plan, cx.process()).expect("join");
    joining.self_test(cx, &Effort { rounds: 6, ..Effort::SMALL }).expect("the simulator keeps its promises");
    joining.finish(cx).expect("nobody suspects").leave(cx).expect("alive").finish(cx).expect("leaving");
}

/// One of two members dies at any moment of the self-tests of two joiners, and nobody finds that out: they
/// are tested by who lives.
fn member_dies(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let domain = [CrashDomain::Process, CrashDomain::Host][seed as usize % 2];
    let kill = Kill { host: HostId((seed / 2 % 2) as u8), at: KillAt::RandomStep(1500), domain };
    let config = PodConfig::small(4, 1);
    let bytes = Plan::new(&config).expect("a valid configuration").len();
    let mut shape = SimConfig::swarm(4, bytes as usize, seed);
    shape.max_verbs = super::MAX_VERBS;
    LeftOut::apply(left_out, &mut shape);
    let mut sim = Simulation::new(SimConfig { kills: vec![kill], ..shape });
    let plan = sim.alone(HostId(0), WorkerId(0), move |cx| {
        superblock::format(cx, &config, bytes, FormatOver::Zeros).expect("format")
    });
    let over = Rc::new(Cell::new(0));
    for host in 0..2 {
        let (plan, over) = (plan.clone(), over.clone());
        sim.spawn(HostId(host), WorkerId(0), move |cx| {
            let joining = membership::join(cx, &plan, cx.process()).expect("join");
            let _member = joining.finish(cx).expect("finish");
            let responder = Responder::new(&plan);
            while over.get() < 2 {
                responder.poll(cx);
                cx.pause();
            }
        });
    }
    for host in 2..4 {
        let (plan, over) = (plan.clone(), over.clone());
        sim.spawn(HostId(host), WorkerId(0), move |cx| {
            let is_member =
                |host| Slot::load(cx, &plan, HostId(host)).is_ok_and(|s| s.state == HostState::Alive);
            // It may have died before it came.
            while !is_member(0) && !is_member(1) {
                cx.pause();
            }
            let joining = membership::join(cx, &plan, cx.process()).expect("join");
            let peer = joining.self_test(cx, &Effort::SMALL);
            if matches!(peer, Err(PodError::NobodyLives { .. })) {
                // Who lives has not become a member yet.
                joining.abandon(cx).expect("nobody suspects");
                over.set(over.get() + 1);
                return;
            }
            assert!(matches!(peer, Ok(Some(_))), "{peer:?}");
            let _member = joining.finish(cx).expect("nobody suspects");
            over.set(over.get() + 1);
            // The other one may be tested by this one.
            let responder = Responder::new(&plan);
            while over.get() < 2 {
                responder.poll(cx);
                cx.pause();
            }
        });
    }
    Ran::new(sim.run(), || Ok(()))
}

/// Formats memory in which an older pod has left sync words.
fn second_format(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let mut sim = Simulation::new(sim_config(seed, left_out));
    sim.spawn(HostId(0), WorkerId(0), move |cx| {
        let plan = Plan::new(&pod()).expect("a valid configuration");
        cx.store(plan.membership(HostId(0)), 9 << 16 | 5);
        superblock::format(cx, &pod(), bytes(), FormatOver::Unknown).expect("format");
        let joining = membership::join(cx, &plan, cx.process()).expect("a free slot");
        joining.abandon(cx).expect("nobody suspects");
    });
    Ran::new(sim.run(), || Ok(()))
}
