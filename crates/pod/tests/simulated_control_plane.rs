//! Format, open, join, self-test, heartbeat and leave on truly incoherent memory, under many schedules; and the proof that
//! these tests would notice a missing write_back, invalidate or fence.

use std::cell::Cell;
use std::rc::Rc;

use liger_fabric::sim::{CrashDomain, Kill, KillAt, Report, SimConfig, Simulation};
use liger_fabric::{Cx, Fabric, HostId, WorkerId};
use liger_pod::PodError;
use liger_pod::membership::{self, HostState, Observer, Slot};
use liger_pod::plan::{Plan, PodConfig};
use liger_pod::selftest::{Effort, Responder};
use liger_pod::superblock::{self, FormatOver};

const HOSTS: u8 = 3;

fn config() -> PodConfig {
    PodConfig { hwcc_bytes: 64 << 10, cxl_bytes: 256 << 10, ..PodConfig::small(HOSTS, 1) }
}

/// One process start: makes or finds the pod, joins, is tested, serves until every host has been there, leaves.
/// `arrived` counts hosts that have become members; it stands for the operator.
fn one_life<F: Fabric>(cx: &Cx<F>, arrived: &Cell<u32>, untested: &Cell<u32>, lives: u32) {
    let bytes = Plan::new(&config()).expect("plan").len();
    let made = superblock::format(cx, &config(), bytes, FormatOver::Zeros);
    let plan = loop {
        match superblock::open_as(cx, bytes, &config()) {
            Ok(plan) => break plan,
            Err(PodError::StillFormatting) => cx.pause(),
            Err(other) => panic!("{other}"),
        }
    };
    assert!(made.is_err() || made == Ok(plan.clone()));
    let joining = membership::join(cx, &plan, 1).expect("join");
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

fn all_lives(sim_config: SimConfig) -> (Report, u32) {
    let mut sim = Simulation::new(sim_config);
    let (arrived, untested) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    for host in 0..HOSTS {
        let (arrived, untested) = (arrived.clone(), untested.clone());
        sim.spawn(HostId(host), WorkerId(0), move |cx| one_life(cx, &arrived, &untested, HOSTS.into()));
    }
    (sim.run(), untested.get())
}

fn sim_config(seed: u64) -> SimConfig {
    let bytes = Plan::new(&config()).expect("plan").len();
    SimConfig::swarm(HOSTS.into(), bytes as usize, seed)
}

#[test]
fn hosts_meet_under_every_schedule() {
    for seed in 0..150 {
        let (report, untested) = all_lives(sim_config(seed));
        report.expect_completed();
        assert_eq!(untested, 1, "seed {seed}: all but the first member are tested");
    }
}

#[test]
fn a_run_replays_from_its_seed() {
    let hash = |seed| all_lives(sim_config(seed)).0.trace_hash;
    assert_eq!(hash(5), hash(5));
    assert_ne!(hash(5), hash(6));
}

/// A fence whose loss only makes the other host wait longer (the one after a reply): it makes a store seen *soon*.
const LIVENESS_ONLY: usize = 1;

#[test]
fn no_instruction_is_superfluous() {
    let (report, _) = all_lives(sim_config(0));
    let sites = report.sites.clone();
    assert!(sites.len() >= 8, "{sites:?}");
    let mut survivors = Vec::new();
    for (site, _) in sites {
        let caught = (0..1000).any(|seed| {
            let mutated = SimConfig { disabled_site: Some(site.clone()), ..sim_config(seed) };
            !all_lives(mutated).0.completed()
        });
        if !caught {
            survivors.push(site.to_string());
        }
    }
    println!("survivors: {survivors:#?}");
    assert!(survivors.len() <= LIVENESS_ONLY, "{survivors:#?}");
}

/// A joiner dies at any moment of its self-test; its slot is recovered by hand, and its next life is tested by the same
/// member, which may still be carrying out the order of the dead one.
fn joiner_dies_and_returns(seed: u64, sabotage: Option<&'static str>) -> Report {
    let domain = [CrashDomain::Process, CrashDomain::Host][seed as usize % 2];
    let kill = Kill { host: HostId(1), at: KillAt::RandomStep(1500), domain };
    let mut sim = Simulation::new(SimConfig { kills: vec![kill], sabotage, ..sim_config(seed) });
    let bytes = Plan::new(&config()).expect("plan").len();
    let plan = sim.alone(HostId(0), WorkerId(0), move |cx| {
        superblock::format(cx, &config(), bytes, FormatOver::Zeros).expect("format")
    });
    let over = Rc::new(Cell::new(false));
    let (first, second, done, ended) = (plan.clone(), plan.clone(), over.clone(), over.clone());
    sim.spawn(HostId(0), WorkerId(0), move |cx| {
        let _member = membership::join(cx, &plan, 1).expect("join").finish(cx).expect("finish");
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
        let word = second.membership(HostId(1));
        let left_behind = cx.load(word);
        // What recovery will do: the number is free again, its incarnation stays used.
        cx.compare_exchange(word, left_behind, left_behind & !0xff).expect("nobody else changes it");
        test_and_leave(cx, &second);
        done.set(true);
    });
    sim.run()
}

fn test_and_leave<F: Fabric>(cx: &Cx<F>, plan: &Plan) {
    let joining = membership::join(cx, plan, 1).expect("join");
    joining.self_test(cx, &Effort { rounds: 6, ..Effort::SMALL }).expect("the simulator keeps its promises");
    joining.finish(cx).expect("nobody suspects").leave(cx).expect("alive").finish(cx).expect("leaving");
}

#[test]
fn the_next_life_of_a_joiner_is_not_disturbed_by_the_last() {
    for seed in 0..200 {
        joiner_dies_and_returns(seed, None).expect_completed();
    }
    let step = "selftest.hello-first";
    let noticed = (0..200).any(|seed| !joiner_dies_and_returns(seed, Some(step)).completed());
    assert!(noticed, "nothing notices that {step} is left out");
}

#[test]
fn old_sync_words_do_not_survive_a_format() {
    let bytes = Plan::new(&config()).expect("plan").len();
    let life = |sabotage| {
        let mut sim = Simulation::new(SimConfig { sabotage, ..sim_config(1) });
        sim.spawn(HostId(0), WorkerId(0), move |cx| {
            let plan = Plan::new(&config()).expect("plan");
            cx.store(plan.membership(HostId(0)), 9 << 16 | 5);
            superblock::format(cx, &config(), bytes, FormatOver::Unknown).expect("format");
            let joining = membership::join(cx, &plan, 1).expect("a free slot");
            joining.abandon(cx).expect("nobody suspects");
        });
        sim.run()
    };
    life(None).expect_completed();
    assert!(!life(Some("superblock.clear-sync-region")).completed());
}
