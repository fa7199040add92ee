//! Epochs under adversarial schedules and caches: a reader of immutable nodes never sees one change under it,
//! although blocks are used again as soon as the epochs let them.

use std::cell::Cell;
use std::rc::Rc;

use liger_fabric::sim::{Sim, SimConfig, Simulation};
use liger_fabric::{Cx, DataAddr, HostId, SyncAddr, WorkerId};
use liger_pod::epochs::Epochs;
use liger_pod::heap::{BlockClass, Heap, WordClass};
use liger_pod::plan::{Plan, PodConfig};

use super::{LeftOut, Ran, Scenario, config};

/// Everybody reads, replaces and collects; and workers with one job each.
pub const SCENARIOS: &[Scenario] =
    &[Scenario { name: "epochs", run: everybody }, Scenario { name: "epochs-specialists", run: specialists }];

const LINKS: u64 = 2;
const NODE: usize = 80;
const TURNS: u64 = 20;

/// What the workers of one host share.
struct Host {
    plan: Plan,
    heap: Heap,
    epochs: Epochs,
    living: Rc<Cell<u16>>,
    busy: Rc<Cell<u8>>,
}

impl Host {
    fn collect(&self, cx: &Cx<Sim>) -> usize {
        let freed = self.epochs.collect(cx, &self.heap, |_| self.living.get());
        assert_eq!((self.epochs.damage(), self.heap.damage()), (None, None));
        freed
    }
}

/// A mapping word: offset of the node it leads to.
fn link(plan: &Plan, which: u64) -> SyncAddr {
    plan.counter(which)
}

/// Node content: its address and a number, repeated, so that any mixture of two nodes shows.
fn node(at: DataAddr, number: u64) -> [u8; NODE] {
    let mut bytes = [0; NODE];
    for pair in bytes.chunks_mut(16) {
        pair[..8].copy_from_slice(&at.offset().to_le_bytes());
        pair[8..].copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

/// Reads a node as an index does: no invalidate. Its number.
fn read(cx: &Cx<Sim>, at: DataAddr) -> u64 {
    let mut bytes = [0; NODE];
    cx.read(at, &mut bytes);
    let number = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"));
    assert_eq!(bytes, node(at, number), "node {at:?} is not what was linked");
    number
}

fn look(cx: &Cx<Sim>, host: &Host, which: u64) {
    let pin = host.epochs.pin(cx);
    let inner = host.epochs.pin(cx);
    let at = DataAddr::new(cx.load(link(&host.plan, which)));
    if at.offset() != 0 {
        let number = read(cx, at);
        drop(inner);
        for _ in 0..cx.random_below(4) {
            cx.pause();
            assert_eq!(read(cx, at), number, "a node changed under its reader");
        }
    }
    drop(pin);
}

/// Replaces a node by a new one, as an index does.
fn replace(cx: &Cx<Sim>, host: &Host, which: u64, number: u64) {
    let Ok(at) = host.heap.alloc(cx, BlockClass::Node, NODE) else { return };
    cx.publish(at, &node(at, number));
    // Pinned before the old node is found, as every operation of an index is.
    let pin = host.epochs.pin(cx);
    let old = cx.load(link(&host.plan, which));
    match cx.compare_exchange(link(&host.plan, which), old, at.offset()) {
        Ok(0) => {}
        Ok(old) => host.epochs.retire(cx, BlockClass::Node, DataAddr::new(old), NODE),
        Err(_) => host.heap.free(cx, BlockClass::Node, at, NODE),
    }
    drop(pin);
}

fn worker(cx: &Cx<Sim>, host: &Host) {
    for turn in 0..TURNS {
        let which = cx.random_below(LINKS);
        match cx.random_below(4) {
            0 | 1 => look(cx, host, which),
            2 => replace(cx, host, which, u64::from(cx.host().0) << 32 | turn),
            _ => {
                host.collect(cx);
            }
        }
        if turn % 8 == 7
            && let Ok(word) = host.heap.alloc_word(cx, WordClass::Mapping)
        {
            host.epochs.retire_word(cx, WordClass::Mapping, word);
        }
    }
    serve(cx, host);
}

/// One worker per host replaces, the other looks: few verbs between an unlinking and the next use of the
/// block.
fn specialist(cx: &Cx<Sim>, host: &Host) {
    for turn in 0..TURNS {
        if cx.host().0 == 0 && cx.worker().0 == 0 {
            replace(cx, host, 0, turn);
        } else if cx.worker().0 == 1 {
            look(cx, host, 0);
        }
        host.collect(cx);
    }
    serve(cx, host);
}

/// Stays in service until all are done, or the others would wait for this host for ever.
fn serve(cx: &Cx<Sim>, host: &Host) {
    host.busy.set(host.busy.get() - 1);
    while host.busy.get() > 0 {
        host.collect(cx);
        cx.pause();
    }
}

fn setup(sim: &mut Simulation, plan: &Plan) -> Vec<Rc<Host>> {
    let count = plan.config().hosts;
    let living = Rc::new(Cell::new((1 << count) - 1));
    let busy = Rc::new(Cell::new(count * 2));
    let host = |id| {
        let its_plan = plan.clone();
        let epochs = sim.alone(HostId(id), WorkerId(0), move |cx| Epochs::new(cx, &its_plan));
        let heap = Heap::new(plan, HostId(id), 1);
        let (living, busy) = (Rc::clone(&living), Rc::clone(&busy));
        Rc::new(Host { plan: plan.clone(), heap, epochs, living, busy })
    };
    (0..count).map(host).collect()
}

fn spawn(sim: &mut Simulation, hosts: &[Rc<Host>], body: fn(&Cx<Sim>, &Host)) {
    for (id, host) in hosts.iter().enumerate() {
        for number in 0..2 {
            let host = Rc::clone(host);
            sim.spawn(HostId(id as u8), WorkerId(number), move |cx| body(cx, &host));
        }
    }
}

/// Lets every host that lives collect until nothing is left; then exactly the linked nodes are in use.
fn all_freed(sim: &mut Simulation, hosts: &[Rc<Host>]) -> Result<(), String> {
    for _ in 0..40 {
        for (id, host) in hosts.iter().enumerate().filter(|(id, host)| host.living.get() >> id & 1 != 0) {
            let host = Rc::clone(host);
            sim.try_alone(HostId(id as u8), WorkerId(0), move |cx| host.collect(cx))
                .map_err(|e| e.to_string())?;
        }
    }
    let host = Rc::clone(hosts.last().expect("a pod has hosts"));
    let (usage, linked) = sim.alone(HostId(hosts.len() as u8 - 1), WorkerId(0), move |cx| {
        let linked = (0..LINKS).filter(|&i| cx.load(link(&host.plan, i)) != 0).count();
        (host.heap.usage(cx), linked as u64)
    });
    let right = (usage.node_bytes, usage.mapping_bytes) == (linked * 128, 0);
    if right { Ok(()) } else { Err(format!("{linked} nodes are linked, {usage:?}")) }
}

fn run(plan: &Plan, config: SimConfig, body: fn(&Cx<Sim>, &Host)) -> Ran {
    let mut sim = Simulation::new(config);
    let hosts = setup(&mut sim, plan);
    spawn(&mut sim, &hosts, body);
    let report = sim.run();
    Ran::new(report, || all_freed(&mut sim, &hosts))
}

fn plan(hosts: u8) -> Plan {
    let config = PodConfig { retire_entries: 3, ..PodConfig::small(hosts, 2) };
    Plan::new(&config).expect("a valid configuration")
}

/// Everybody reads, replaces and collects; in the end everything retired has been freed.
fn everybody(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let plan = plan(3);
    run(&plan, config(&plan, seed, false, left_out), worker)
}

fn specialists(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let plan = plan(2);
    run(&plan, config(&plan, seed, false, left_out), specialist)
}
