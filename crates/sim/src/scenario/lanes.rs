//! Lanes under adversarial schedules and caches: nothing is lost, doubled, reordered or damaged.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use liger_fabric::sim::{Sim, SimConfig, Simulation};
use liger_fabric::{Cx, HostId, Latch, WorkerId};
use liger_pod::lanes::{Addressee, Lanes, SendError};
use liger_pod::plan::{Plan, PodConfig};

use super::{LeftOut, Ran, Scenario, config};

/// Three hosts that send each other numbered messages, in a new pod and in one with mail from earlier lives.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "lanes", run: numbered_messages },
    Scenario { name: "lanes-second-life", run: second_life },
];

const EACH: u32 = 12;

fn message(from: u8, number: u32, len: usize) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend((4..len).map(|i| (u32::from(from) * 100 + number * 7 + i as u32) as u8));
    bytes
}

/// What the workers of one host share: their lanes, and how many messages went to and came from each host.
struct Host {
    lanes: Lanes,
    /// The life that every host is in.
    incarnation: u16,
    sent: Latch<[u32; 3]>,
    seen: RefCell<[BTreeSet<u32>; 3]>,
}

/// Two workers per host send numbered messages of all lengths to both other hosts. In odd runs one of them
/// polls, and checks the order; in even runs both do.
fn numbered_messages(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let pod = PodConfig { lane_slots: 8, lane_slot_bytes: 64, ..PodConfig::small(3, 2) };
    let plan = Plan::new(&pod).expect("a valid configuration");
    send_around(&plan, config(&plan, seed, true, left_out))
}

fn send_around(plan: &Plan, config: SimConfig) -> Ran {
    let both = config.seed.is_multiple_of(2);
    let mut sim = Simulation::new(config);
    for host in 0..3u8 {
        let its_plan = plan.clone();
        let lanes = sim.alone(HostId(host), WorkerId(0), move |cx| Lanes::new(cx, &its_plan, 1));
        let shared = Rc::new(Host::new(lanes, 1));
        for number in 0..2 {
            let shared = Rc::clone(&shared);
            sim.spawn(HostId(host), WorkerId(number), move |cx| worker(cx, &shared, both));
        }
    }
    Ran::new(sim.run(), || Ok(()))
}

/// As above, but each host's first worker makes its lanes while the run goes on, and finds mail: of its last
/// life, and of hosts that were up before it.
fn second_life(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let pod = PodConfig { lane_slots: 8, lane_slot_bytes: 64, ..PodConfig::small(3, 2) };
    let plan = Plan::new(&pod).expect("a valid configuration");
    let mut sim = Simulation::new(config(&plan, seed, true, left_out));
    for host in 0..3u8 {
        let plan = plan.clone();
        sim.alone(HostId(host), WorkerId(0), move |cx| {
            let lanes = Lanes::new(cx, &plan, 1);
            for to in (0..3u8).filter(|&to| to != host) {
                lanes.try_send(cx, Addressee::of(HostId(to), 1), &[0; 200]).expect("an empty lane has room");
            }
        });
    }
    let up: Rc<RefCell<[Option<Rc<Host>>; 3]>> = Rc::default();
    for host in 0..3u8 {
        for number in 0..2 {
            let (plan, up) = (plan.clone(), Rc::clone(&up));
            sim.spawn(HostId(host), WorkerId(number), move |cx| {
                if number == 0 {
                    let lanes = Lanes::new(cx, &plan, 2);
                    up.borrow_mut()[usize::from(host)] = Some(Rc::new(Host::new(lanes, 2)));
                }
                let shared = loop {
                    let mine = up.borrow()[usize::from(host)].clone();
                    match mine {
                        Some(shared) => break shared,
                        None => cx.pause(),
                    }
                };
                worker(cx, &shared, true);
            });
        }
    }
    Ran::new(sim.run(), || Ok(()))
}

impl Host {
    fn new(lanes: Lanes, incarnation: u16) -> Self {
        Self { lanes, incarnation, sent: Latch::default(), seen: RefCell::default() }
    }

    fn addressee(&self, to: u8) -> Addressee {
        Addressee::of(HostId(to), self.incarnation)
    }
}

fn worker(cx: &Cx<Sim>, shared: &Host, both: bool) {
    let me = cx.host().0;
    let polls = both || cx.worker().0 == 0;
    loop {
        let mut sent = shared.sent.lock(cx);
        for to in (0..3u8).filter(|&to| to != me) {
            let number = sent[usize::from(to)];
            if number == EACH {
                continue;
            }
            let len = 4 + (number as usize * 53 + usize::from(to) * 11) % (shared.lanes.max_message() - 3);
            match shared.lanes.try_send(cx, shared.addressee(to), &message(me, number, len)) {
                Ok(()) => sent[usize::from(to)] += 1,
                Err(SendError::Full { .. }) => {}
                Err(e) => panic!("{e}"),
            }
        }
        let all_sent = sent.iter().sum::<u32>() == 2 * EACH;
        drop(sent);
        if polls && cx.random_below(3) > 0 {
            shared.lanes.poll(cx, |(from, _), bytes| take(shared, from, bytes, both));
            assert_eq!(shared.lanes.damage(), None);
        }
        let all_seen = shared.seen.borrow().iter().map(BTreeSet::len).sum::<usize>() == 2 * EACH as usize;
        if all_sent && (all_seen || !polls) {
            return;
        }
        cx.pause();
    }
}

fn take(shared: &Host, from: HostId, bytes: &[u8], both: bool) {
    let number = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
    assert_eq!(bytes, message(from.0, number, bytes.len()), "damaged");
    let seen = &mut shared.seen.borrow_mut()[usize::from(from.0)];
    assert!(both || number as usize == seen.len(), "message {number} after {}", seen.len());
    assert!(seen.insert(number), "message {number} came twice");
}
