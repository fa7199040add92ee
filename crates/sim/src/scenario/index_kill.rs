//! A host dies before any of its verbs; the others go on, and what it had completed is there.

use std::rc::Rc;

use liger_fabric::sim::{CrashDomain, Kill, KillAt, Report};
use liger_fabric::{HostId, WorkerId};

use super::index::{Notes, Shape, Worker, build, config, key, plan, tree};
use super::{LeftOut, Ran, Scenario};

/// A death at a place that the seed picks.
pub const SCENARIOS: &[Scenario] = &[Scenario { name: "index-death", run: death }];

/// Host 0 writes and dies; host 1 writes other keys meanwhile, then changes every key.
fn simulate_death(
    shape: &Shape,
    seed: u64,
    at: u64,
    domain: CrashDomain,
    left_out: Option<&LeftOut>,
) -> Report {
    let mut config = config(shape, seed, left_out);
    config.kills = vec![Kill { host: HostId(0), at: KillAt::HostStep(at), domain }];
    let (mut sim, notes, hosts) = build(config, shape);
    let tree = tree(&plan(shape), shape);
    for (h, host) in hosts.into_iter().enumerate() {
        let (shape, notes) = (shape.clone(), notes.clone());
        sim.spawn(HostId(h as u8), WorkerId(0), move |cx| {
            let worker = Worker { cx, host, tree, shape, notes };
            worker.run(Some(h as u8));
            if h == 0 {
                // It outlived the run: nobody is dead.
                worker.leave();
            } else {
                worker.inherit();
            }
        });
    }
    let dead = Rc::clone(&notes);
    sim.spawn_after_crash(HostId(0), WorkerId(1), move |_| bury(&dead));
    sim.run()
}

fn bury(notes: &Notes) {
    notes.members.set(notes.members.get() & !1);
    notes.busy.set(notes.busy.get() - 1);
}

impl Worker<'_> {
    fn leave(&self) {
        bury(&self.notes);
    }

    /// Waits until the other host is gone, looks at every key, removes it if it is there, and checks the
    /// tree.
    fn inherit(&self) {
        while self.notes.busy.get() > 1 {
            self.collect();
            self.cx.pause();
        }
        self.tree.check(self.cx, &self.host.tree()).expect("nothing is damaged");
        self.scan();
        for round in 0..2 {
            for number in 0..self.shape.keys {
                self.read(number);
                let key = key(self.shape.width, number);
                let found = self.tree.remove(self.cx, &self.host.tree(), &key).expect("nothing is damaged");
                let inserted = found.is_none().then(|| self.tree.insert(self.cx, &self.host.tree(), &key, 2));
                assert!(inserted.is_none_or(|done| done == Ok(true)), "key {number} in round {round}");
                self.set_state(number, if found.is_some() { 0 } else { 2 });
            }
        }
        for number in 0..self.shape.keys {
            let state = self.state(number);
            let found = self.tree.remove(self.cx, &self.host.tree(), &key(self.shape.width, number));
            assert_eq!(found, Ok((state == 2).then_some(2)));
        }
        let census = self.tree.check(self.cx, &self.host.tree()).expect("nothing is damaged");
        assert_eq!(census.entries, 0);
        // What the dead host was about to remove may be left over, no more.
        assert!(census.leaves + census.removed_nodes <= 4, "{census:?}");
    }
}

fn shape(seed: u64) -> Shape {
    if seed.is_multiple_of(2) {
        Shape { writers: 2, steps: 24, ..Shape::duel() }
    } else {
        Shape { steps: 16, ..Shape::of_seed(2, 0, seed) }
    }
}

/// Runs one of a few schedules (`seed`), in which host 0 dies before its verb number `at`.
pub fn die(seed: u64, at: u64, domain: CrashDomain, left_out: Option<&LeftOut>) -> Report {
    simulate_death(&shape(seed), seed, at, domain, left_out)
}

/// Verbs that host 0 has time for, roughly.
const LIFE_VERBS: u64 = 1500;

fn death(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let domains = [CrashDomain::Host, CrashDomain::Process, CrashDomain::HostPersistent];
    let mut pick = crate::Picker::new(seed);
    let domain = domains[pick.below(3) as usize];
    Ran::new(die(seed, 1 + pick.below(LIFE_VERBS), domain, left_out), || Ok(()))
}
