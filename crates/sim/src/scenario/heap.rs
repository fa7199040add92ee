//! The heap under adversarial schedules and caches: blocks travel from host to host, are freed where they
//! arrive, and come back to be used again.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use liger_fabric::sim::Simulation;
use liger_fabric::{Cx, DataAddr, Fabric, HostId, SyncAddr, WorkerId};
use liger_pod::heap::{BlockClass, Heap, TupleAddr, WordClass, room};
use liger_pod::plan::{Plan, PodConfig};

use super::{LeftOut, Ran, Scenario, config};

/// Blocks in a roomy pod, in one so crowded that chunks change hosts, in one that grows meanwhile, and nodes
/// where rows were.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "heap", run: roomy },
    Scenario { name: "heap-crowded", run: crowded },
    Scenario { name: "heap-growing", run: growing },
    Scenario { name: "heap-nodes-after-rows", run: nodes_after_rows },
];

const HOSTS: u8 = 3;
const TURNS: u64 = 25;

/// Where a host leaves a block for the next host.
fn mailbox(plan: &Plan, host: u8) -> SyncAddr {
    plan.counter(u64::from(host))
}

fn stamp(at: u64, turn: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&at.to_le_bytes());
    bytes[8..].copy_from_slice(&turn.to_le_bytes());
    bytes
}

/// What all hosts have seen so far.
#[derive(Default)]
struct Seen {
    /// Words in use.
    words: Vec<SyncAddr>,
    /// Rows that ever were, by their blocks and by their cells.
    rows: BTreeMap<DataAddr, TupleAddr>,
    cells: BTreeMap<(SyncAddr, u32), TupleAddr>,
}

impl Seen {
    /// A block and its cell stay together, whoever uses the place and for rows of what length.
    fn check(&mut self, row: TupleAddr) {
        let before = self.rows.insert(row.block(), row).is_none_or(|before| before == row);
        let alone = self.cells.insert((row.word(), row.place()), row).is_none_or(|before| before == row);
        assert!(before && alone, "{row:?} has another cell, or another row its cell");
    }
}

/// Allocates a block and writes its first and last line.
fn make<F: Fabric>(
    cx: &Cx<F>,
    (plan, heap): (&Plan, &Heap),
    (class, len): (BlockClass, usize),
    turn: u64,
    seen: &RefCell<Seen>,
) -> Option<DataAddr> {
    let at = match class {
        BlockClass::Row => {
            let row = heap.alloc_row(cx, len).ok()?;
            seen.borrow_mut().check(row);
            row.block()
        }
        _ => heap.alloc(cx, class, len).ok()?,
    };
    // The pod only grows: what may be used now is no less than what might be used when this was taken.
    let end = plan.sync_end() + heap.room(cx).bytes;
    assert!(at.offset() + len as u64 <= end, "{at:?} is beyond what the pod may use, {end:#x}");
    for place in [at, at.byte(len as u64 - 16)] {
        cx.write(place, &stamp(at.offset(), turn));
        cx.write_back(place, 16);
    }
    cx.fence();
    Some(at)
}

/// Reads a block that arrived: its turn.
fn check<F: Fabric>(cx: &Cx<F>, at: DataAddr, len: usize) -> u64 {
    let (mut first, mut last) = ([0; 16], [0; 16]);
    cx.invalidate(at, len);
    cx.fence();
    cx.read(at, &mut first);
    cx.read(at.byte(len as u64 - 16), &mut last);
    let turn = u64::from_le_bytes(first[8..].try_into().expect("eight bytes"));
    assert_eq!((first, last), (stamp(at.offset(), turn), stamp(at.offset(), turn)), "block {at:?} is shared");
    turn
}

/// Leaves a change in this host's cache, as an abandoned update may.
fn scribble<F: Fabric>(cx: &Cx<F>, at: DataAddr, len: usize) {
    cx.write(at.byte(len as u64 - 16), &[0xee; 8]);
}

fn len_of(plan: &Plan, turn: u64) -> usize {
    // In a pod of few chunks, blocks fill whole chunks, so that chunks change hosts and classes.
    let few = plan.config().cxl_bytes < 1 << 20;
    [[100, 200], [60_000, 40_000]][usize::from(few)][turn as usize % 2]
}

fn class_of(turn: u64) -> BlockClass {
    if turn & 2 == 0 { BlockClass::Row } else { BlockClass::Scratch }
}

fn worker<F: Fabric>(cx: &Cx<F>, plan: &Plan, heap: &Heap, seen: &RefCell<Seen>) {
    let me = cx.host().0;
    let (mine, next) = (mailbox(plan, me), mailbox(plan, (me + 1) % HOSTS));
    for turn in 0..TURNS {
        if cx.load(next) == 0
            && let Some(at) = make(cx, (plan, heap), (class_of(turn), len_of(plan, turn)), turn, seen)
            && cx.compare_exchange(next, 0, at.offset() << 8 | turn).is_err()
        {
            scribble(cx, at, len_of(plan, turn));
            heap.free(cx, class_of(turn), at, len_of(plan, turn));
        }
        let arrived = cx.load(mine);
        if arrived != 0 && cx.compare_exchange(mine, arrived, 0).is_ok() {
            let (at, turn) = (DataAddr::new(arrived >> 8), arrived & 0xff);
            assert_eq!(check(cx, at, len_of(plan, turn)), turn);
            scribble(cx, at, len_of(plan, turn));
            heap.free(cx, class_of(turn), at, len_of(plan, turn));
        }
        if let Ok(word) = heap.alloc_word(cx, WordClass::Tuple) {
            cx.store(word, word.offset() << 32 | 5);
            cx.fence();
            seen.borrow_mut().words.push(word);
        }
        let taken = cx.random_below(2) == 0;
        let word = if taken { seen.borrow_mut().words.pop() } else { None };
        if let Some(word) = word {
            assert_eq!(cx.load(word), word.offset() << 32 | 5, "a word has two users");
            heap.free_word(cx, WordClass::Tuple, word);
        }
        if cx.random_below(2) == 0 {
            heap.tidy(cx);
        }
    }
}

fn hand_around(plan: &Plan, mut sim: Simulation) -> Ran {
    let heaps: Vec<Rc<Heap>> = (0..HOSTS).map(|h| Rc::new(Heap::new(plan, HostId(h), 1))).collect();
    let seen = Rc::new(RefCell::new(Seen::default()));
    for host in 0..HOSTS {
        for number in 0..2 {
            let (plan, heap, seen) = (plan.clone(), Rc::clone(&heaps[usize::from(host)]), Rc::clone(&seen));
            sim.spawn(HostId(host), WorkerId(number), move |cx| worker(cx, &plan, &heap, &seen));
        }
    }
    let report = sim.run();
    Ran::new(report, || accounts_are_right(&mut sim, plan, &heaps, &seen.borrow().words))
}

fn accounts_are_right(
    sim: &mut Simulation,
    plan: &Plan,
    heaps: &[Rc<Heap>],
    words: &[SyncAddr],
) -> Result<(), String> {
    let mut reachable: BTreeSet<u64> = words.iter().map(|w| w.offset()).collect();
    let boxes: Vec<SyncAddr> = (0..HOSTS).map(|h| mailbox(plan, h)).collect();
    let waiting = sim.alone(HostId(0), WorkerId(0), move |cx| {
        boxes.iter().map(|&at| cx.load(at) >> 8).filter(|&at| at != 0).collect::<Vec<_>>()
    });
    reachable.extend(waiting);
    for (host, heap) in heaps.iter().enumerate() {
        let (heap, reachable) = (Rc::clone(heap), reachable.clone());
        if let Some(damage) = heap.damage() {
            return Err(format!("host {host}: {damage}"));
        }
        let audited = sim.try_alone(HostId(host as u8), WorkerId(0), move |cx| heap.audit(cx, &reachable));
        let audit = audited.map_err(|e| e.to_string())?;
        if !audit.is_clean() {
            return Err(format!("host {host}: {audit:?}"));
        }
    }
    let heap = Rc::clone(&heaps[0]);
    let usage = sim.alone(HostId(0), WorkerId(0), move |cx| heap.usage(cx));
    let tuples = words.len() as u64 * 8 + (usage.rows * 8).div_ceil(3);
    let right = usage.tuple_bytes == tuples;
    if right { Ok(()) } else { Err(format!("{tuples} bytes of words are in use, {usage:?}")) }
}

fn roomy(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    on(&PodConfig::small(HOSTS, 2), seed, left_out)
}

fn crowded(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    on(&crowded_pod(), seed, left_out)
}

fn crowded_pod() -> PodConfig {
    PodConfig { cxl_bytes: 16384 + (7 << 16), log_ring_bytes: 0, ..PodConfig::small(HOSTS, 2) }
}

/// Fifteen chunks, of which twelve may be used at first, and one more from time to time.
fn growing(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let pod = PodConfig { cxl_bytes: 16384 + (15 << 16), ..crowded_pod() };
    let plan = Plan::new(&pod).expect("a valid configuration");
    let mut sim = Simulation::new(config(&plan, seed, true, left_out));
    let (all, least) = (pod.cxl_bytes, room::least(&plan));
    let limited = plan.clone();
    sim.alone(HostId(0), WorkerId(0), move |cx| room::limit(cx, &limited, least)).expect("a new pod");
    let grower = plan.clone();
    sim.spawn(HostId(1), WorkerId(2), move |cx| {
        for bytes in (least..=all).step_by(1 << 16).chain([all]) {
            (0..cx.random_below(400)).for_each(|_| cx.pause());
            let now = room::grow(cx, &grower, bytes).expect("it grows").bytes;
            assert_eq!(now, bytes, "nobody else lets it grow");
        }
    });
    hand_around(&plan, sim)
}

fn on(pod: &PodConfig, seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let plan = Plan::new(pod).expect("a valid configuration");
    hand_around(&plan, Simulation::new(config(&plan, seed, true, left_out)))
}

/// Host 1 has read rows in every chunk; host 0 frees them and wants a node, which host 1 would read without
/// invalidating. There must be no room for it.
fn nodes_after_rows(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    const LEN: usize = 60_000;
    let plan = Plan::new(&crowded_pod()).expect("a valid configuration");
    let mut sim = Simulation::new(config(&plan, seed, false, left_out));
    let rows = Rc::new(RefCell::new(Vec::new()));
    let (word, its_rows, its_plan) = (plan.counter(0), Rc::clone(&rows), plan.clone());
    sim.spawn(HostId(0), WorkerId(0), move |cx| {
        let heap = Heap::new(&its_plan, HostId(0), 1);
        while let Ok(row) = heap.alloc(cx, BlockClass::Row, LEN) {
            cx.publish(row, &[1; 64]);
            its_rows.borrow_mut().push(row);
        }
        assert_eq!(cx.compare_exchange(word, 0, 1), Ok(0));
        while cx.load(word) != 2 {
            cx.pause();
        }
        its_rows.borrow().iter().for_each(|&row| heap.free(cx, BlockClass::Row, row, LEN));
        let node = heap.alloc(cx, BlockClass::Node, LEN).ok();
        if let Some(at) = node {
            cx.publish(at, &[2; 64]);
        }
        assert_eq!(cx.compare_exchange(word, 2, node.map_or(3, DataAddr::offset)), Ok(2));
    });
    sim.spawn(HostId(1), WorkerId(0), move |cx| {
        while cx.load(word) != 1 {
            cx.pause();
        }
        let mut line = [0; 64];
        rows.borrow().iter().for_each(|&row| cx.refresh(row, &mut line));
        assert_eq!(cx.compare_exchange(word, 1, 2), Ok(1));
        while cx.load(word) == 2 {
            cx.pause();
        }
        let node = cx.load(word);
        if node != 3 {
            cx.read(DataAddr::new(node), &mut line);
            assert_eq!(line, [2; 64], "a stale row is taken for a node");
        }
    });
    Ran::new(sim.run(), || Ok(()))
}
