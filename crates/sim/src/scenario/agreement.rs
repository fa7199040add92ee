//! Three hosts that watch one another, each with a thread that beats and one that looks; any of these stands
//! still now and then, the accuser's too, and one host may die. Whoever is accused has been seen silent by
//! those who looked.
//!
//! What each host has seen is noted outside the pod, before each of its looks: nothing of it is taken from
//! `watch`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use liger_fabric::sim::{CrashDomain, Sim, SimConfig, Simulation};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::membership::{self, HostState, Pulse, Slot};
use liger_pod::plan::{Plan, PodConfig};
use liger_pod::watch::{self, Accusation, Reason, Watch};

use super::{LeftOut, Ran};

const HOSTS: u8 = 3;
/// Looks of a host.
const LOOKS: u32 = 150;
/// Beats of a host.
const BEATS: u32 = 2000;
/// A look counts for at most an eighth of a lease.
const LEAST: u32 = 8;

/// What the hosts have seen.
#[derive(Default)]
struct Notes {
    /// How often a host has looked at this heartbeat of another one: by whom, of whom, which.
    heartbeats: BTreeMap<(u8, u8, u64), u32>,
    /// The heartbeat of another host at the last look: by whom, of whom.
    last: BTreeMap<(u8, u8), u64>,
    /// How often a host has looked while another one's count of looks stood still: by whom, of whom, which
    /// count.
    blind: BTreeMap<(u8, u8), (u64, u32)>,
}

impl Notes {
    /// A host is about to look, and finds these heartbeats and counts of looks.
    fn note(&mut self, me: u8, words: &[(u64, u64)]) {
        for (host, &(heartbeat, found)) in (0..HOSTS).zip(words).filter(|(host, _)| *host != me) {
            *self.heartbeats.entry((me, host, heartbeat)).or_default() += 1;
            self.last.insert((me, host), heartbeat);
            let (then, looks) = self.blind.entry((me, host)).or_default();
            *looks = if *then == found { *looks + 1 } else { 1 };
            *then = found;
        }
    }

    /// Checks that a host was accused of a silence that was seen; `alive` are the members.
    fn check(&self, accused: Accusation, alive: &[HostId]) {
        let Accusation { host, by, .. } = accused;
        let heartbeat = self.last[&(by.0, host.0)];
        let seen = |by: u8| self.heartbeats.get(&(by, host.0, heartbeat)).copied().unwrap_or_default();
        assert!(seen(by.0) >= LEAST, "{accused:?} after {} looks", seen(by.0));
        for other in alive.iter().filter(|other| ![by, host].contains(other)) {
            let hangs = self.blind[&(by.0, other.0)].1 >= LEAST;
            assert!(
                seen(other.0) >= LEAST || hangs,
                "{accused:?}, and host {} looks and has not seen it",
                other.0
            );
        }
    }
}

/// Checks what a host was accused of.
fn check(cx: &Cx<Sim>, plan: &Plan, notes: &RefCell<Notes>, accused: Accusation) {
    let slot = |host| Slot::load(cx, plan, host).expect("an intact word");
    let host = accused.host;
    if accused.reason == Reason::Ended {
        let is_it = slot(host).incarnation == accused.incarnation;
        let runs = cx.fabric().incarnation(host) == membership::process_of(cx, plan, host);
        assert!(!(is_it && runs), "{accused:?}, and it runs");
        return;
    }
    let alive: Vec<HostId> = plan.hosts().filter(|host| slot(*host).state == HostState::Alive).collect();
    notes.borrow().check(accused, &alive);
}

/// Runs it.
pub(super) fn agreement(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    // From a lease in which nobody is on time to one in which everybody is.
    let config = PodConfig { lease_ns: 1000 << (seed % 7), ..PodConfig::small(HOSTS, 2) };
    let plan = Plan::new(&config).expect("a valid configuration");
    let ends_show = seed.is_multiple_of(2);
    let mut sim = Simulation::new(SimConfig { ends_show, ..super::config(&plan, seed, false, left_out) });
    let notes = Rc::<RefCell<Notes>>::default();
    for host in (0..HOSTS).map(HostId) {
        let pulse = Rc::<RefCell<Option<Pulse>>>::default();
        let (its, plan, notes) = (pulse.clone(), plan.clone(), notes.clone());
        // One looks more seldom than the others: what these have seen for long, it has not.
        let is_slow = seed % 4 == u64::from(host.0);
        sim.spawn(host, WorkerId(0), move |cx| look(cx, &plan, (&notes, &its), is_slow));
        sim.spawn(host, WorkerId(1), move |cx| beat(cx, &pulse));
    }
    if seed.is_multiple_of(3) {
        let domains = [CrashDomain::Process, CrashDomain::Host, CrashDomain::HostPersistent];
        let verbs = 500 + seed * 7919 % 4000;
        sim.kill_after(HostId((seed / 3 % 3) as u8), verbs, domains[(seed / 9 % 3) as usize]);
    }
    Ran::new(sim.run(), || Ok(()))
}

/// Stands still for a while, now and then.
fn stall(cx: &Cx<Sim>) {
    if cx.random_below(16) == 0 {
        let turns = 1 << cx.random_below(7);
        (0..turns).for_each(|_| cx.pause());
    }
}

/// Joins and watches the others; whoever is cut off is recovered, so that one may be accused after the other.
fn look(
    cx: &Cx<Sim>,
    plan: &Plan,
    (notes, pulse): (&RefCell<Notes>, &RefCell<Option<Pulse>>),
    is_slow: bool,
) {
    let Ok(joining) = membership::join(cx, plan, cx.process()) else { return };
    *pulse.borrow_mut() = Some(joining.pulse());
    let Ok(member) = joining.finish(cx) else { return };
    let mut eye = Watch::new(cx, plan, member.slot());
    for _ in 0..LOOKS {
        let words = |host| {
            let line = plan.membership(host);
            (cx.load(line.word(1)), cx.load(line.word(5)))
        };
        let words: Vec<_> = plan.hosts().map(words).collect();
        notes.borrow_mut().note(cx.host().0, &words);
        if cx.random_below(8) == 0 {
            eye.doubt();
        }
        if eye.look(cx).is_err() {
            return;
        }
        if let Some((accused, _)) = eye.take_accused() {
            check(cx, plan, notes, accused);
        }
        for dead in watch::fenced(cx, plan).expect("intact words") {
            assert!(watch::cut_off(cx, plan, dead).is_some(), "nobody says why {dead:?}");
            watch::release(cx, plan, dead);
        }
        stall(cx);
        if is_slow {
            (0..1 << cx.random_below(5)).for_each(|_| cx.pause());
        }
    }
}

/// Shows that its host lives, for longer than the others look.
fn beat(cx: &Cx<Sim>, pulse: &RefCell<Option<Pulse>>) {
    for _ in 0..BEATS {
        let beaten = pulse.borrow().as_ref().map(|pulse| pulse.beat(cx));
        if matches!(beaten, Some(Err(_))) {
            return;
        }
        stall(cx);
        cx.pause();
    }
}
