//! Epochs under adversarial schedules and caches: a reader of immutable nodes never sees one change under it, although
//! blocks are used again as soon as the epochs let them.

mod common;

use std::cell::Cell;
use std::rc::Rc;

use common::{Case, Spared, mutations_are_caught};
use liger_fabric::sim::{Report, Sim, SimConfig, Simulation};
use liger_fabric::{Cx, DataAddr, HostId, SyncAddr, WorkerId};
use liger_pod::epochs::Epochs;
use liger_pod::heap::{BlockClass, Heap, WordClass};
use liger_pod::plan::{Plan, PodConfig};

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
        self.epochs.collect(cx, &self.heap, |_| self.living.get())
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
    let number = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
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

/// One worker per host replaces, the other looks: few verbs between an unlinking and the next use of the block.
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
            sim.alone(HostId(id as u8), WorkerId(0), move |cx| host.collect(cx));
        }
    }
    let host = Rc::clone(hosts.last().unwrap());
    let (usage, linked) = sim.alone(HostId(hosts.len() as u8 - 1), WorkerId(0), move |cx| {
        let linked = (0..LINKS).filter(|&i| cx.load(link(&host.plan, i)) != 0).count();
        (host.heap.usage(cx), linked as u64)
    });
    let right = (usage.node_bytes, usage.mapping_bytes) == (linked * 128, 0);
    if right { Ok(()) } else { Err(format!("{linked} nodes are linked, {usage:?}")) }
}

fn run(plan: &Plan, config: SimConfig, body: fn(&Cx<Sim>, &Host)) -> Result<Report, String> {
    let mut sim = Simulation::new(config);
    let hosts = setup(&mut sim, plan);
    spawn(&mut sim, &hosts, body);
    let report = sim.run();
    if report.completed() {
        all_freed(&mut sim, &hosts)?;
    }
    Ok(report)
}

/// Everybody reads, replaces and collects; in the end everything retired has been freed.
fn everybody() -> Case {
    let config = PodConfig { retire_entries: 3, ..PodConfig::small(3, 2) };
    Case::new(&config, false, |plan, config| run(plan, config, worker))
}

fn specialists() -> Case {
    let config = PodConfig { retire_entries: 3, ..PodConfig::small(2, 2) };
    Case::new(&config, false, |plan, config| run(plan, config, specialist))
}

#[test]
fn nodes_do_not_change_under_their_readers() {
    everybody().passes(80);
    specialists().passes(200);
}

#[test]
fn mutations_of_epochs_are_caught() {
    let steps = [
        "epochs.pin",
        "epochs.tag-after-unlinking",
        "epochs.wait-for-readers",
        "epochs.wait-for-drops",
        "epochs.drop-nodes",
    ];
    let host_memory = "orders accesses to the host's own memory, which the simulator never reorders";
    let spared = [Spared { verb: "fence", near: "older announcement only holds more", because: host_memory }];
    mutations_are_caught(&[(specialists(), 250), (everybody(), 60)], "epochs.rs", &steps, &spared);
}
