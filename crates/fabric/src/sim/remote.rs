//! One-sided accesses to memory servers: when they happen, and how long whoever asked for them waits.
//!
//! Invariants:
//! 1. All hosts of the pod stand for threads of one compute server: its one adapter starts their operations
//!    and carries their bytes one after the other, each direction for itself.
//! 2. Requests arrive half a round trip after they have left, and so do answers. What the caller does between
//!    is done in the order of these times.
//! 3. Under the adversary nothing takes time, and anybody may come between two moments.
//!
//! What it does not do: model the adapters of the memory servers (together they carry more than the compute
//! server's), packets that are lost, or torn reads.

use std::panic::Location;

use super::Sim;
use super::config::{Mode, SimConfig};
use super::explain::Verb;
use super::machine::{Memory, State};
use crate::fabric::Remote;
use crate::profile::Rdma;

/// What accesses cost, picoseconds.
struct Costs {
    half: u64,
    half_swap: u64,
    byte: f64,
    operation: u64,
    post: u64,
}

impl Costs {
    fn new(rdma: &Rdma) -> Self {
        let ps = |ns: f64| (ns * 1000.0).round() as u64;
        let half = rdma.round_trip_ns.value / 2.0;
        assert!(half > 0.0 && rdma.atomics_factor.value >= 1.0, "requests arrive after they have left");
        Self {
            half: ps(half),
            half_swap: ps(half * rdma.atomics_factor.value),
            byte: 1000.0 / rdma.link_gb_per_s.value,
            operation: ps(1000.0 / rdma.operations_per_us.value),
            post: ps(rdma.post_ns.value),
        }
    }

    fn transfer(&self, bytes: u64, operations: u32) -> u64 {
        let wire = (bytes as f64 * self.byte).round() as u64;
        wire.max(self.operation * u64::from(operations))
    }
}

/// The adapter of the compute server.
pub(crate) struct Adapter {
    /// None: the adversary decides.
    costs: Option<Costs>,
    /// When it can send and receive more.
    out_free: u64,
    in_free: u64,
    /// By worker: half of the round trip that it is in.
    halves: Vec<u64>,
}

impl Adapter {
    /// An idle adapter; none if its costs are not known.
    pub fn new(config: &SimConfig) -> Option<Self> {
        let costs = match &config.mode {
            Mode::Adversarial(_) => None,
            Mode::Timed(profile) => Some(Costs::new(profile.rdma.as_ref()?)),
        };
        Some(Self { costs, out_free: 0, in_free: 0, halves: Vec::new() })
    }

    /// How long `me` is busy from `now` on, and when the moment is over for it.
    fn passes(&mut self, me: usize, now: u64, moment: Remote) -> (u64, u64) {
        let Some(costs) = &self.costs else { return (0, now) };
        if self.halves.len() <= me {
            self.halves.resize(me + 1, costs.half);
        }
        match moment {
            Remote::Sent { requests, operations, swaps, bytes } => {
                let busy = costs.post * u64::from(requests);
                self.halves[me] = if swaps > 0 { costs.half_swap } else { costs.half };
                self.out_free = self.out_free.max(now + busy) + costs.transfer(bytes, operations);
                (busy, self.out_free + self.halves[me])
            }
            Remote::Between => (0, now),
            Remote::Answered { bytes } => {
                self.in_free = self.in_free.max(now) + costs.transfer(bytes, 0);
                (0, self.in_free + self.halves[me])
            }
            Remote::Along { operations, bytes } => {
                let busy = costs.post;
                self.out_free = self.out_free.max(now + busy) + costs.transfer(bytes, operations);
                (busy, now + busy)
            }
        }
    }
}

impl State {
    fn pass(&mut self, me: usize, moment: Remote) {
        self.progress(me);
        let (Memory::Timed(memory), Some(adapter)) = (&mut self.memory, &mut self.adapter) else { return };
        let (busy, until) = adapter.passes(me, memory.clock(me), moment);
        debug_assert!(until >= memory.clock(me) + busy, "what is answered was asked before");
        memory.talk(me, busy);
        memory.wait_until(me, until);
    }
}

impl Sim {
    pub(super) fn remote_access(&self, moment: Remote, place: &'static Location<'static>) {
        if self.timed && moment == Remote::Between {
            return;
        }
        let Some(mut state) = self.enter(Verb::Network, 0, 0, place) else { return };
        state.mix(self.me, Verb::Network, 0, 0);
        state.pass(self.me, moment);
        if self.timed {
            drop(state);
            // What follows takes its turn at the new time.
            drop(self.enter(Verb::Network, 0, 0, place));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::Arc;

    use crate::cx::{HostId, WorkerId};
    use crate::fabric::Remote;
    use crate::sim::{Profile, SimConfig, Simulation};

    fn took(workers: u8, bytes: u64) -> (u64, Profile) {
        let profile = Profile::built_in("tigon-osdi25").expect("built in");
        let mut sim = Simulation::new(SimConfig::timed(4, 4096, 1, Arc::new(profile.clone())));
        let last = Rc::new(Cell::new(0));
        for host in 0..workers {
            let last = Rc::clone(&last);
            sim.spawn(HostId(host), WorkerId(0), move |cx| {
                cx.remote(Remote::Sent { requests: 1, operations: 1, swaps: 0, bytes: 64 });
                cx.remote(Remote::Answered { bytes });
                last.set(last.get().max(cx.now_ns()));
            });
        }
        sim.run().expect_completed();
        (last.get(), profile)
    }

    #[test]
    fn an_access_takes_a_round_trip_and_one_adapter_carries_all() {
        let (alone, profile) = took(1, 160);
        let rdma = profile.rdma.expect("has remote memory");
        let least = rdma.post_ns.value + rdma.round_trip_ns.value;
        assert!((least..least + 500.0).contains(&(alone as f64)), "{alone} ns, not {least}");
        let wire = 1_000_000.0 / rdma.link_gb_per_s.value;
        let four = took(4, 1_000_000).0 as f64;
        assert!((4.0 * wire..4.0 * wire + 2.0 * least).contains(&four), "{four} ns for four times {wire}");
    }
}
