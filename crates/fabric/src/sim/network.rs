//! The network between the hosts of a simulated pod.
//!
//! Invariants:
//! 1. Messages of one host to another arrive in their order, every one of them. What was sent to a host that
//!    dies is gone.
//! 2. Under the adversary a message may be taken some steps after it was sent, as many as the seed says. In
//!    virtual time it takes what the profile says: the sender's processor, then the wire (which a host's
//!    messages pass one after the other), then the latency, then the receiver's processor.
//! 3. While a lone worker runs, everything has arrived.
//!
//! What it does not do: lose, repeat or delay messages as packets on real networks are; queue inside the
//! network (hosts are far below its bandwidth, where nothing queues).

use std::collections::VecDeque;
use std::panic::Location;

use super::Sim;
use super::config::{Mode, SimConfig};
use super::explain::Verb;
use super::machine::{Memory, State};
use super::verbs::fold;
use crate::cx::HostId;
use crate::profile::Net;

/// Under the adversary a message takes less than so many steps.
const MOST_STEPS: usize = 1 << 10;

/// What messages cost, picoseconds.
struct Costs {
    latency: u64,
    byte: f64,
    send: u64,
    receive: u64,
}

impl Costs {
    fn new(net: &Net) -> Self {
        let ps = |ns: f64| (ns * 1000.0).round() as u64;
        Self {
            latency: ps(net.latency_ns.value),
            byte: 1000.0 / net.gb_per_s.value,
            send: ps(net.send_ns.value),
            receive: ps(net.receive_ns.value),
        }
    }
}

/// A message on its way.
struct Parcel {
    /// The step or picosecond from which on it can be taken.
    due: u64,
    bytes: Vec<u8>,
}

/// All messages on their way.
pub(crate) struct Network {
    /// None: the adversary decides.
    costs: Option<Costs>,
    /// By receiver, then by sender.
    parcels: Vec<Vec<VecDeque<Parcel>>>,
    /// By host: when its wire is free.
    wire_free: Vec<u64>,
}

impl Network {
    /// An empty network; none if its costs are not known.
    pub fn new(config: &SimConfig) -> Option<Self> {
        let costs = match &config.mode {
            Mode::Adversarial(_) => None,
            Mode::Timed(profile) => Some(Costs::new(profile.net.as_ref()?)),
        };
        let hosts = config.hosts;
        let parcels = (0..hosts).map(|_| (0..hosts).map(|_| VecDeque::new()).collect()).collect();
        Some(Self { costs, parcels, wire_free: vec![0; hosts] })
    }

    pub fn host_died(&mut self, host: usize) {
        self.parcels[host].iter_mut().for_each(VecDeque::clear);
    }

    /// When a message can be taken that `from` has given to the wire at `now`, in virtual time.
    fn arrives(&mut self, costs: (u64, f64), from: usize, now: u64, bytes: usize) -> u64 {
        let (latency, byte) = costs;
        debug_assert!(byte > 0.0, "a wire takes its time");
        let free = &mut self.wire_free[from];
        *free = now.max(*free) + (bytes as f64 * byte).round() as u64;
        *free + latency
    }

    /// Takes the message for `to` that arrived first, of those that have by `now`.
    fn take(&mut self, to: usize, now: u64) -> Option<(usize, Vec<u8>)> {
        let due = |(from, queue): (usize, &VecDeque<Parcel>)| Some((queue.front()?.due, from));
        let first = self.parcels[to].iter().enumerate().filter_map(due).min();
        let (_, from) = first.filter(|(due, _)| *due <= now)?;
        self.parcels[to][from].pop_front().map(|parcel| (from, parcel.bytes))
    }
}

impl State {
    /// Timed: the worker spends time on the network, and others run meanwhile. True when it must give control
    /// back.
    fn talk(&mut self, me: usize, ps: u64) -> bool {
        let Memory::Timed(memory) = &mut self.memory else { return false };
        memory.talk(me, ps);
        let next = if self.quiet { me } else { memory.next_in_host(me) };
        self.current = next;
        self.switches += u64::from(next != me);
        next != me
    }
}

impl Sim {
    pub(super) fn send(&self, to: HostId, bytes: Vec<u8>, place: &'static Location<'static>) {
        let Some(mut state) = self.enter(Verb::Network, 0, 0, place) else { return };
        let state = &mut *state;
        let from = state.workers[self.me].host;
        state.mix(self.me, Verb::Network, u64::from(to.0), fold(&bytes));
        state.progress(self.me);
        let network = state.network.as_mut().expect("whoever sends has asked whether there is a network");
        let due = match (&network.costs, &mut state.memory) {
            (Some(Costs { latency, byte, send, .. }), Memory::Timed(memory)) => {
                let costs = (*latency, *byte);
                memory.talk(self.me, *send);
                network.arrives(costs, from, memory.clock(self.me), bytes.len())
            }
            _ => state.step + state.random.below(MOST_STEPS) as u64,
        };
        debug_assert!(usize::from(to.0) != from && usize::from(to.0) < network.parcels.len(), "to {}", to.0);
        network.parcels[usize::from(to.0)][from].push_back(Parcel { due, bytes });
    }

    pub(super) fn receive(&self, place: &'static Location<'static>) -> Option<(HostId, Vec<u8>)> {
        let mut state = self.enter(Verb::Network, 0, 0, place)?;
        let to = state.workers[self.me].host;
        let now = match &state.memory {
            _ if state.quiet => u64::MAX,
            Memory::Timed(memory) => memory.clock(self.me),
            Memory::Incoherent(_) => state.step,
        };
        let network = state.network.as_mut()?;
        let (from, bytes) = network.take(to, now)?;
        debug_assert_ne!(from, to, "a host has no way to itself");
        let cost = network.costs.as_ref().map_or(0, |costs| costs.receive);
        state.mix(self.me, Verb::Network, from as u64, fold(&bytes));
        state.progress(self.me);
        if state.talk(self.me, cost) {
            drop(state);
            self.suspend();
        }
        Some((HostId(from as u8), bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::sync::Arc;

    use crate::cx::{HostId, WorkerId};
    use crate::sim::{Profile, SimConfig, Simulation};

    fn timed() -> (Arc<Profile>, Simulation) {
        let profile = Arc::new(Profile::built_in("tigon-osdi25").expect("built in"));
        let sim = Simulation::new(SimConfig::timed(2, 4096, 1, Arc::clone(&profile)));
        (profile, sim)
    }

    #[test]
    fn a_message_takes_what_the_profile_says() {
        let (profile, mut sim) = timed();
        let net = profile.net.clone().expect("has a network");
        let arrived = Rc::new(RefCell::new(Vec::new()));
        sim.spawn(HostId(0), WorkerId(0), |cx| {
            cx.send_message(HostId(1), vec![1; 100_000]);
            cx.send_message(HostId(1), vec![2; 100_000]);
        });
        let times = Rc::clone(&arrived);
        sim.spawn(HostId(1), WorkerId(0), move |cx| {
            while times.borrow().len() < 2 {
                match cx.receive_message() {
                    Some((from, bytes)) => times.borrow_mut().push((from, bytes[0], cx.now_ns())),
                    None => cx.pause(),
                }
            }
        });
        sim.run().expect_completed();
        let arrived = arrived.take();
        assert_eq!([arrived[0].1, arrived[1].1], [1, 2], "in their order");
        assert!(arrived.iter().all(|(from, ..)| *from == HostId(0)));
        let wire = 100_000.0 / net.gb_per_s.value;
        let first = net.send_ns.value + wire + net.latency_ns.value + net.receive_ns.value;
        let took = arrived[0].2 as f64;
        let poll = profile.wait.pause_max_ns.value;
        assert!((first..first + poll + 1.0).contains(&took), "{took} ns, not {first}");
        let apart = arrived[1].2 as f64 - took;
        assert!((apart - wire).abs() <= 2.0 * poll, "{apart} ns on one wire, not {wire}");
    }

    #[test]
    fn under_the_adversary_messages_take_their_time_and_keep_their_order() {
        let mut waited = 0;
        for seed in 0..50 {
            let mut sim = Simulation::new(SimConfig::swarm(3, 4096, seed));
            for host in 0..2 {
                sim.spawn(HostId(host), WorkerId(0), move |cx| {
                    (0..20).for_each(|n| cx.send_message(HostId(2), vec![n]));
                });
            }
            let late = Rc::new(RefCell::new(0));
            let count = Rc::clone(&late);
            sim.spawn(HostId(2), WorkerId(0), move |cx| {
                let mut next = [0, 0];
                while next != [20, 20] {
                    match cx.receive_message() {
                        Some((from, bytes)) => {
                            let next = &mut next[usize::from(from.0)];
                            assert_eq!(bytes, [*next]);
                            *next += 1;
                        }
                        None => {
                            *count.borrow_mut() += 1;
                            cx.pause();
                        }
                    }
                }
            });
            sim.run().expect_completed();
            waited += late.take();
        }
        assert!(waited > 1000, "{waited}");
    }

    #[test]
    fn what_costs_nothing_known_is_not_there() {
        let profile = Profile { net: None, ..(*timed().0).clone() };
        let mut sim = Simulation::new(SimConfig::timed(2, 4096, 1, Arc::new(profile)));
        assert!(!sim.alone(HostId(0), WorkerId(0), |cx| cx.has_network()));
        assert!(timed().1.alone(HostId(0), WorkerId(0), |cx| cx.has_network()));
    }
}
