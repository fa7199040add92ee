//! The index on memory that is truly incoherent: every schedule, eviction and prefetch from a seed.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use liger_fabric::sim::{Sim, SimConfig, Simulation};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::epochs::Epochs;
use liger_pod::heap::Heap;
use liger_pod::plan::{PartitionId, Plan, PodConfig};
use liger_store::bwtree::{BwTree, Entries, NodeCache, Trace, TreeHost, Unfinished};

use super::{LeftOut, Ran, Scenario};

/// One writer with readers, several writers, and two writers in leaves so small that they vanish all the
/// time.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "index-duel", run: duel },
    Scenario { name: "index-writer-and-readers", run: writer_and_readers },
    Scenario { name: "index-writers", run: writers },
];

/// One host's DRAM.
pub(super) struct Host {
    heap: Heap,
    epochs: Epochs,
    cache: NodeCache,
    unfinished: Unfinished,
}

impl Host {
    fn new(cx: &Cx<Sim>, plan: &Plan) -> Self {
        let (cache, unfinished) = (NodeCache::new(CACHED_NODES), Unfinished::default());
        Self { heap: Heap::new(plan, cx.host(), 1), epochs: Epochs::new(cx, plan), cache, unfinished }
    }

    pub(super) fn heap(&self) -> &Heap {
        &self.heap
    }

    pub(super) fn tree(&self) -> TreeHost<'_> {
        TreeHost { heap: &self.heap, epochs: &self.epochs, cache: &self.cache, unfinished: &self.unfinished }
    }
}

/// Nodes that a host keeps in DRAM: few, so that it drops some.
const CACHED_NODES: usize = 16;

/// What the workers of a run share outside the pod: the observer's notes, not anybody's memory.
pub(super) struct Notes {
    /// Of each key: 4n absent, 4n + 1 being inserted, 4n + 2 present with this value, 4n + 3 being removed.
    states: RefCell<Vec<u64>>,
    /// Hosts that are not dead.
    pub(super) members: Cell<u16>,
    /// Workers that have not finished their operations.
    pub(super) busy: Cell<u32>,
    /// What waits for reclamation, per host.
    backlogs: RefCell<Vec<usize>>,
    /// What the tree consists of at the end.
    reachable: RefCell<Option<BTreeSet<u64>>>,
}

/// The shape of a run.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) writers: u8,
    pub(super) readers: u8,
    pub(super) steps: u64,
    pub(super) keys: u64,
    pub(super) width: usize,
    pub(super) capacity: usize,
    pub(super) chain: usize,
}

impl Shape {
    /// One of many shapes; hosts 0 to `writers` write.
    pub(super) fn of_seed(writers: u8, readers: u8, seed: u64) -> Shape {
        let pick = |shift: u32, from: u64, to: u64| {
            from + (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift) % (to - from)
        };
        Shape {
            writers,
            readers,
            steps: 40,
            keys: pick(20, 6, 24),
            width: [1, 1, 2, 5][pick(28, 0, 4) as usize],
            capacity: pick(32, 2, 5) as usize,
            chain: pick(40, 0, 3) as usize,
        }
    }

    /// Three writers in a few tiny leaves, which empty and split under each other's hands all the time.
    pub(super) fn duel() -> Shape {
        Shape { writers: 3, readers: 0, steps: 150, keys: 6, width: 1, capacity: 2, chain: 0 }
    }

    pub(super) fn hosts(&self) -> u8 {
        self.writers + self.readers
    }
}

pub(super) fn key(width: usize, number: u64) -> Vec<u64> {
    let mut key = vec![3; width];
    key[width - 1] = number;
    key
}

/// One worker of one host.
pub(super) struct Worker<'a> {
    pub(super) cx: &'a Cx<Sim>,
    pub(super) host: Rc<Host>,
    pub(super) tree: BwTree,
    pub(super) shape: Shape,
    pub(super) notes: Rc<Notes>,
}

impl Worker<'_> {
    pub(super) fn state(&self, number: u64) -> u64 {
        self.notes.states.borrow()[number as usize]
    }

    pub(super) fn set_state(&self, number: u64, to: u64) {
        self.notes.states.borrow_mut()[number as usize] = to;
    }

    pub(super) fn collect(&self) {
        self.host.epochs.collect(self.cx, &self.host.heap, |_| self.notes.members.get());
    }

    /// Changes one of this writer's keys.
    fn write(&self, number: u64) {
        let key = key(self.shape.width, number);
        let state = self.state(number);
        self.set_state(number, state + 1);
        if state.is_multiple_of(4) {
            assert_eq!(
                self.tree.insert(self.cx, &self.host.tree(), &key, state + 2),
                Ok(true),
                "key {number}"
            );
        } else {
            assert_eq!(self.tree.remove(self.cx, &self.host.tree(), &key), Ok(Some(state)), "key {number}");
        }
        self.set_state(number, state + 2);
    }

    /// Looks a key up: what is found was so at some moment of the call.
    pub(super) fn read(&self, number: u64) {
        let before = self.state(number);
        let found = self
            .tree
            .get(self.cx, &self.host.tree(), &key(self.shape.width, number))
            .expect("nothing is damaged");
        check_value(number, before, found, self.state(number));
    }

    /// Reads all keys; what is found of each was so at some moment, and of all together if the trace says so.
    pub(super) fn scan(&self) {
        let before = self.notes.states.borrow().clone();
        let (mut out, mut trace) = (Entries::default(), Trace::new());
        let from = key(self.shape.width, 0);
        self.tree
            .scan(self.cx, &self.host.tree(), &from, None, 1000, &mut out, &mut trace)
            .expect("nothing is damaged");
        let between = self.notes.states.borrow().clone();
        let unchanged = self.tree.unchanged(self.cx, &trace);
        let found: BTreeMap<u64, u64> = out.iter().map(|(k, v)| (k[k.len() - 1], v)).collect();
        assert!(out.iter().map(|(k, _)| k[k.len() - 1]).is_sorted_by(|a, b| a < b), "{out:?}");
        for number in 0..self.shape.keys {
            let value = found.get(&number).copied();
            let (before, after) = (before[number as usize], between[number as usize]);
            check_value(number, before, value, after);
            if unchanged {
                // Nothing that was complete when the scan returned can have been missed.
                check_value(number, after & !1, value, self.state(number));
            }
        }
    }

    pub(super) fn run(&self, writer: Option<u8>) {
        let cx = self.cx;
        for step in 0..self.shape.steps {
            // A window of keys that wanders, so that nodes empty and vanish.
            let number = (cx.random_below(self.shape.keys / 2 + 1) + step / 6) % self.shape.keys;
            let writers = u64::from(self.shape.writers);
            let own =
                writer.map(|w| number / writers * writers + u64::from(w)).filter(|n| *n < self.shape.keys);
            match (own, cx.random_below(8)) {
                (Some(own), 0..=5) => self.write(own),
                (_, 6) => self.scan(),
                _ => self.read(number),
            }
            if cx.random_below(4) == 0 {
                self.collect();
            }
        }
    }

    /// Waits for all others, lets everything be reclaimed, and compares what is in use with what is
    /// reachable.
    pub(super) fn finish(&self) {
        let notes = &self.notes;
        let me = usize::from(self.cx.host().0);
        notes.busy.set(notes.busy.get() - 1);
        loop {
            self.collect();
            notes.backlogs.borrow_mut()[me] = self.host.epochs.backlog(self.cx);
            if notes.busy.get() == 0 && notes.backlogs.borrow().iter().all(|b| *b == 0) {
                break;
            }
            self.cx.pause();
        }
        if me == 0 {
            let census = self.tree.check(self.cx, &self.host.tree()).expect("nothing is damaged");
            let states = notes.states.borrow();
            assert_eq!(census.entries, states.iter().filter(|s| **s % 4 >= 2).count() as u64, "{census:?}");
            let words = census.words[1..].iter().map(|word| word.offset());
            let reachable = words.chain(census.records.iter().map(|(at, _)| at.offset())).collect();
            *notes.reachable.borrow_mut() = Some(reachable);
        }
        while notes.reachable.borrow().is_none() {
            self.cx.pause();
        }
        let audit = self.host.heap.audit(self.cx, notes.reachable.borrow().as_ref().expect("set by host 0"));
        assert!(audit.is_clean(), "{audit:?}");
        assert_eq!((self.host.epochs.damage(), self.host.heap.damage()), (None, None));
    }
}

fn check_value(number: u64, before: u64, found: Option<u64>, after: u64) {
    match found {
        Some(value) => {
            let possible = value % 4 == 2 && value + 1 >= before && value <= after + 1;
            assert!(possible, "key {number}: {value} is not between {before} and {after}");
        }
        None => {
            let possible = (before..=after).any(|state| state % 4 != 2);
            assert!(possible, "key {number}: nothing found between {before} and {after}");
        }
    }
}

pub(super) fn plan(shape: &Shape) -> Plan {
    let config =
        PodConfig { hwcc_bytes: 128 << 10, cxl_bytes: 4 << 20, ..PodConfig::small(shape.hosts(), 1) };
    Plan::new(&config).expect("a valid configuration")
}

pub(super) fn config(shape: &Shape, seed: u64, left_out: Option<&LeftOut>) -> SimConfig {
    super::config(&plan(shape), seed, true, left_out)
}

pub(super) fn tree(plan: &Plan, shape: &Shape) -> BwTree {
    BwTree::new(plan.directory(0, PartitionId(0)), shape.width).with_limits(shape.capacity, shape.chain)
}

/// A formatted pod and the observer's notes. `Host`s are made before anybody runs: all are members from the
/// start.
pub(super) fn build(config: SimConfig, shape: &Shape) -> (Simulation, Rc<Notes>, Vec<Rc<Host>>) {
    let plan = plan(shape);
    let tree = tree(&plan, shape);
    let mut sim = Simulation::new(config);
    let hosts = (0..shape.hosts()).map(|h| {
        let plan = plan.clone();
        sim.alone(HostId(h), WorkerId(0), move |cx| {
            let host = Rc::new(Host::new(cx, &plan));
            if h == 0 {
                tree.create(cx, &host.tree()).expect("nothing is damaged");
            }
            host
        })
    });
    let hosts: Vec<Rc<Host>> = hosts.collect();
    let notes = Notes {
        states: RefCell::new(vec![0; shape.keys as usize]),
        members: Cell::new((1 << shape.hosts()) - 1),
        busy: Cell::new(u32::from(shape.hosts())),
        backlogs: RefCell::new(vec![1; usize::from(shape.hosts())]),
        reachable: RefCell::new(None),
    };
    (sim, Rc::new(notes), hosts)
}

fn simulate(shape: &Shape, seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let (mut sim, notes, hosts) = build(config(shape, seed, left_out), shape);
    let tree = tree(&plan(shape), shape);
    for (h, host) in hosts.into_iter().enumerate() {
        let (shape, notes) = (shape.clone(), notes.clone());
        sim.spawn(HostId(h as u8), WorkerId(0), move |cx| {
            let writer = (h < usize::from(shape.writers)).then_some(h as u8);
            let worker = Worker { cx, host, tree, shape, notes };
            worker.run(writer);
            worker.finish();
        });
    }
    Ran::new(sim.run(), || Ok(()))
}

fn duel(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    simulate(&Shape::duel(), seed, left_out)
}

fn writer_and_readers(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    simulate(&Shape::of_seed(1, 1 + (seed % 2) as u8, seed), seed, left_out)
}

fn writers(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    simulate(&Shape::of_seed(2 + (seed % 3 == 2) as u8, (seed % 2) as u8, seed), seed, left_out)
}
