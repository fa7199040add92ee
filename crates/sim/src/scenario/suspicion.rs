//! Hosts that join and leave while others take them for dead: who is cut off touches nothing any more.

use std::cell::Cell;
use std::rc::Rc;

use liger_fabric::sim::{Sim, SimConfig, Simulation};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::membership::{self, HostState, Slot};
use liger_pod::plan::{Plan, PodConfig};
use liger_pod::watch::{self, Reason, Watch};

use super::{LeftOut, Ran, Scenario};

/// One host that comes and goes, two that watch it; and three that watch one another ([`super::agreement`]).
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "control-suspicion", run: suspicion },
    Scenario { name: "control-agreement", run: super::agreement::agreement },
];

/// The host that comes and goes.
const GUEST: HostId = HostId(2);

fn suspicion(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    // A lease of a few verbs: whoever is not scheduled for a moment is silent.
    let config = PodConfig { lease_ns: 1000 << (seed % 6), ..PodConfig::small(3, 1) };
    let plan = Plan::new(&config).expect("a valid configuration");
    let ends_show = seed.is_multiple_of(2);
    let mut sim = Simulation::new(SimConfig { ends_show, ..super::config(&plan, seed, false, left_out) });
    let over = Rc::new(Cell::new(0));
    for host in 0..2 {
        let (plan, over) = (plan.clone(), over.clone());
        sim.spawn(HostId(host), WorkerId(0), move |cx| watch_others(cx, &plan, &over));
    }
    let (first, second) = (plan.clone(), plan);
    let (ends, ended) = (over.clone(), over);
    sim.spawn(GUEST, WorkerId(0), move |cx| {
        come_and_go(cx, &first);
        ends.set(ends.get() + 1);
    });
    sim.spawn_after_crash(GUEST, WorkerId(0), move |cx| {
        come_and_go(cx, &second);
        ended.set(ended.get() + 1);
    });
    Ran::new(sim.run(), || Ok(()))
}

/// Watches until the guest comes no more, and recovers whoever is cut off.
fn watch_others(cx: &Cx<Sim>, plan: &Plan, over: &Cell<u32>) {
    let Ok(joining) = membership::join(cx, plan, cx.process()) else { return };
    let Ok(member) = joining.finish(cx) else { return };
    let mut eye = Watch::new(cx, plan, member.slot());
    for _ in 0..1000 {
        if cx.random_below(4) == 0 {
            eye.doubt();
        }
        if over.get() > 0 || eye.look(cx).is_err() || member.heartbeat(cx).is_err() {
            return;
        }
        for dead in watch::fenced(cx, plan).expect("intact words") {
            assert!(watch::cut_off(cx, plan, dead).is_some(), "nobody says why {dead:?}");
            watch::release(cx, plan, dead);
        }
        // Seldom: the guest stands still somewhere while the others look again and again.
        if cx.random_below(16) == 0 {
            cx.pause();
        }
    }
}

/// Joins, stays for a moment, and leaves, again and again.
fn come_and_go(cx: &Cx<Sim>, plan: &Plan) {
    let before = Slot::load(cx, plan, GUEST).expect("an intact word").incarnation;
    // Whoever checks this runs.
    let is_not_ended = || {
        let found = Slot::load(cx, plan, GUEST).expect("an intact word");
        let why = watch::cut_off(cx, plan, found).filter(|why| why.incarnation > before);
        assert!(why.is_none_or(|why| why.reason != Reason::Ended), "it runs, and the pod says {why:?}");
    };
    for _ in 0..30 {
        let joined = membership::join(cx, plan, cx.process());
        is_not_ended();
        let Ok(joining) = joined else {
            cx.pause();
            continue;
        };
        let life = joining.incarnation();
        for _ in 0..3 {
            // Accused or not, it goes on until it is cut off: as one that does not look would do.
            let found = Slot::load(cx, plan, GUEST).expect("an intact word");
            let is_mine = matches!(found.state, HostState::Joining | HostState::Suspect);
            assert!(is_mine && found.incarnation == life, "life {life} goes on, and the pod says {found:?}");
            is_not_ended();
            if cx.random_below(8) == 0 {
                (0..1 << cx.random_below(9)).for_each(|_| cx.pause());
            }
        }
        let Ok(member) = joining.finish(cx) else { return };
        let _ = member.leave(cx).and_then(|leaving| leaving.finish(cx));
    }
}
