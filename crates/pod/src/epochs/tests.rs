//! Tests of `epochs` on native memory, one process.

use std::sync::atomic::AtomicBool;

use liger_fabric::native::Native;

use super::*;
use crate::membership::{self, HostState, Slot};
use crate::plan::PodConfig;
use crate::testing::{Numbers, TestPod};

const ALL: u16 = 0b111;

struct Hosts {
    pod: TestPod,
    heaps: Vec<Heap>,
    epochs: Vec<Epochs>,
    cxs: Vec<Cx<Native>>,
}

fn hosts() -> Hosts {
    let pod = TestPod::new(&PodConfig { retire_entries: 4, ..PodConfig::small(3, 4) });
    let cxs: Vec<_> = (0..3).map(|h| pod.cx(h, 0)).collect();
    let heaps = (0..3).map(|h| Heap::new(&pod.plan, HostId(h), 1)).collect();
    let epochs = cxs.iter().map(|cx| Epochs::new(cx, &pod.plan)).collect();
    Hosts { pod, heaps, epochs, cxs }
}

impl Hosts {
    fn collect(&self, host: usize, members: u16) -> usize {
        self.epochs[host].collect(&self.cxs[host], &self.heaps[host], |_| members)
    }

    fn rounds(&self, hosts: &[usize], members: u16) -> usize {
        (0..10).map(|_| hosts.iter().map(|&h| self.collect(h, members)).sum::<usize>()).sum()
    }

    fn retire_node(&self, host: usize) -> DataAddr {
        let at = self.heaps[host].alloc(&self.cxs[host], BlockClass::Node, 100).unwrap();
        self.epochs[host].retire(&self.cxs[host], BlockClass::Node, at, 100);
        at
    }
}

#[test]
fn everything_retired_is_freed_when_nobody_reads() {
    let h = hosts();
    for _ in 0..10 {
        h.retire_node(0);
    }
    let row = h.heaps[1].alloc(&h.cxs[1], BlockClass::Row, 64).unwrap();
    h.epochs[0].retire(&h.cxs[0], BlockClass::Row, row, 64);
    let word = h.heaps[0].alloc_word(&h.cxs[0], WordClass::Tuple).unwrap();
    h.epochs[0].retire_word(&h.cxs[0], WordClass::Tuple, word);
    assert_eq!(h.epochs[0].backlog(&h.cxs[0]), 12);
    assert_eq!(h.rounds(&[0, 1, 2], ALL), 12);
    assert_eq!(h.epochs[0].backlog(&h.cxs[0]), 0);
    let usage = h.heaps[2].usage(&h.cxs[2]);
    assert_eq!((usage.node_bytes, usage.row_bytes, usage.tuple_bytes), (0, 0, 0));
}

#[test]
fn nested_pins_hold_until_the_last_is_dropped() {
    let h = hosts();
    let outer = h.epochs[1].pin(&h.cxs[1]);
    let inner = h.epochs[1].pin(&h.cxs[1]);
    h.retire_node(0);
    drop(outer);
    assert_eq!(h.rounds(&[0, 1, 2], ALL), 0);
    drop(inner);
    assert_eq!(h.rounds(&[0, 1, 2], ALL), 1);
}

#[test]
fn a_silent_host_holds_up_the_others_only_while_it_is_a_member() {
    let h = hosts();
    h.retire_node(0);
    assert_eq!(h.rounds(&[0, 1], ALL), 0);
    assert_eq!(h.rounds(&[0, 1], 0b011), 1);
}

#[test]
fn a_pin_costs_one_fence_and_no_shared_word() {
    let h = hosts();
    let before = h.cxs[0].counts();
    drop(h.epochs[0].pin(&h.cxs[0]));
    let cost = h.cxs[0].counts().since(&before);
    assert_eq!((cost.fences, cost.sync_loads, cost.sync_stores, cost.sync_swaps), (1, 0, 0, 0));
}

#[test]
fn a_survivor_finishes_the_batch_of_a_dead_host() {
    let h = hosts();
    for _ in 0..6 {
        h.retire_node(0);
    }
    // Host 0 gets as far as publishing four of them, then is heard of no more.
    while Batch::decode(h.cxs[1].load(published_word(&h.pod.plan, HostId(0)))).number == 0 {
        [1, 2, 0].iter().for_each(|&host| assert_eq!(h.collect(host, ALL), 0));
    }
    let finish = || h.epochs[1].finish_batch(&h.cxs[1], &h.heaps[1], HostId(0), |_| 0b110);
    assert_eq!(finish(), Ok(None), "the survivors may have them cached");
    h.rounds(&[1, 2], 0b110);
    assert_eq!((finish(), finish()), (Ok(Some(4)), Ok(Some(0))));
    // The next incarnation of host 0 starts with a clean sheet.
    let again = Epochs::new(&h.cxs[0], &h.pod.plan);
    assert_eq!(again.backlog(&h.cxs[0]), 0);
}

#[test]
fn a_dead_host_is_not_waited_for_by_the_successor_of_another() {
    let h = hosts();
    let plan = &h.pod.plan;
    for cx in &h.cxs {
        membership::join(cx, plan, 1).expect("join").finish(cx).expect("nobody else is there");
    }
    let die = |host| {
        for state in [HostState::Suspect, HostState::Fenced] {
            let slot = Slot::load(&h.cxs[1], plan, HostId(host)).expect("an intact word");
            assert!(slot.change(&h.cxs[1], plan, Slot { state, ..slot }));
        }
    };
    let readers = |cx: &Cx<Native>| membership::readers(cx, plan);
    let collect = |host: usize| h.epochs[host].collect(&h.cxs[host], &h.heaps[host], readers);
    // Host 2 is cut off and not yet recovered: it drops nothing any more, and its summary stays.
    die(2);
    (0..4).for_each(|_| _ = h.retire_node(0));
    let freed = (0..10).map(|_| collect(1) + collect(0)).sum::<usize>();
    assert_eq!(freed, 4, "the living go on");
    // Host 0 publishes one more batch, and dies.
    (0..4).for_each(|_| _ = h.retire_node(0));
    while Batch::decode(h.cxs[1].load(published_word(plan, HostId(0)))).number == 1 {
        assert_eq!((collect(1), collect(0)), (0, 0));
    }
    die(0);
    collect(1);
    assert_eq!(h.epochs[1].finish_batch(&h.cxs[1], &h.heaps[1], HostId(0), readers), Ok(Some(4)));
}

#[test]
fn a_survivor_takes_over_the_chunks_of_a_dead_host() {
    let h = hosts();
    let mut in_use = BTreeSet::new();
    for i in 0..40 {
        let node = h.heaps[0].alloc(&h.cxs[0], BlockClass::Node, 100).unwrap();
        let word = h.heaps[0].alloc_word(&h.cxs[0], WordClass::Mapping).unwrap();
        match i % 4 {
            0 => in_use.extend([node.offset(), word.offset()]),
            1 => h.heaps[0].free(&h.cxs[0], BlockClass::Node, node, 100),
            2 => h.heaps[0].free_word(&h.cxs[0], WordClass::Mapping, word),
            _ => {}
        }
    }
    let expected = (10 * 128, 10 * 8);
    let mut reached = in_use.clone();
    // Of an index that host 2 was about to take over, it has retired two nodes and freed a third.
    let node = || h.heaps[0].alloc(&h.cxs[0], BlockClass::Node, 100).unwrap();
    (0..2).for_each(|_| h.epochs[2].retire(&h.cxs[2], BlockClass::Node, node(), 100));
    h.heaps[2].free(&h.cxs[2], BlockClass::Node, node(), 100);
    let orphans = h.epochs[2].adopt(&h.cxs[2], &h.heaps[2], HostId(0), 1, &mut reached);
    assert_eq!(orphans, Ok((64 << 10) / 128 + 512 - 20 - 2));
    let again = h.epochs[2].adopt(&h.cxs[2], &h.heaps[2], HostId(0), 1, &mut reached);
    assert_eq!(again, Ok(0), "once only");
    while h.epochs[2].backlog(&h.cxs[2]) > 0 {
        h.rounds(&[1, 2], 0b110);
    }
    let usage = h.heaps[1].usage(&h.cxs[1]);
    assert_eq!((usage.node_bytes, usage.mapping_bytes), expected);
    assert!(h.heaps[2].audit(&h.cxs[2], &in_use).is_clean());
    // What the survivor frees from now on is its own; what others free comes to it.
    for &at in &in_use {
        let node = at >= h.pod.plan.sync_end();
        match node {
            true => h.heaps[1].free(&h.cxs[1], BlockClass::Node, DataAddr::new(at), 100),
            false => h.heaps[2].free_word(&h.cxs[2], WordClass::Mapping, SyncAddr::new(at)),
        }
    }
    assert!(h.heaps[2].audit(&h.cxs[2], &BTreeSet::new()).is_clean());
    let usage = h.heaps[0].usage(&h.cxs[0]);
    assert_eq!((usage.node_bytes, usage.mapping_bytes, usage.word_chunk_bytes), (0, 0, 4096));
}

/// Real threads: readers check that what a word leads to does not change while they are pinned.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test on the native backend runs real threads")]
fn many_threads_read_what_others_replace() {
    const WORDS: usize = 24;
    let h = hosts();
    let link = h.pod.plan.counter(0);
    let stop = AtomicBool::new(false);
    let content = |at: u64, number: u64| {
        (0..WORDS as u64).flat_map(|i| (at ^ number.rotate_left(i as u32)).to_le_bytes()).collect::<Vec<u8>>()
    };
    let replaced = std::thread::scope(|scope| {
        for worker in 0..6u8 {
            let (pod, heaps, epochs, stop) = (&h.pod, &h.heaps, &h.epochs, &stop);
            scope.spawn(move || {
                let (host, cx) = (usize::from(worker / 2), pod.cx(worker / 2, 1 + worker % 2));
                let mut bytes = vec![0; WORDS * 8];
                while !stop.load(Ordering::Relaxed) {
                    let pin = epochs[host].pin(&cx);
                    let at = cx.load(link);
                    if at != 0 {
                        cx.read(DataAddr::new(at), &mut bytes);
                        let number = u64::from_le_bytes(bytes[..8].try_into().unwrap()) ^ at;
                        assert_eq!(bytes, content(at, number));
                    }
                    drop(pin);
                    if cx.random_below(8) == 0 {
                        epochs[host].collect(&cx, &heaps[host], |_| ALL);
                    }
                }
            });
        }
        let (cx, mut number) = (&h.cxs[0], 0);
        while number < 5_000 {
            let at = h.heaps[0].alloc(cx, BlockClass::Node, WORDS * 8).unwrap();
            cx.publish(at, &content(at.offset(), number));
            let old = cx.load(link);
            assert_eq!(cx.compare_exchange(link, old, at.offset()), Ok(old));
            if old != 0 {
                h.epochs[0].retire(cx, BlockClass::Node, DataAddr::new(old), WORDS * 8);
            }
            number += 1;
            if number.is_multiple_of(4) {
                h.collect(0, ALL);
            }
        }
        stop.store(true, Ordering::Relaxed);
        number as usize
    });
    // In batches of four, a backlog of thousands takes as many rounds.
    let left = h.epochs[0].backlog(&h.cxs[0]);
    assert!(left < replaced, "nothing was freed while they ran");
    for _ in 0..left {
        h.rounds(&[0, 1, 2], ALL);
    }
    assert_eq!(h.heaps[0].usage(&h.cxs[0]).node_bytes, 192);
}

/// Host 0 has published a batch of four nodes, and nobody has dropped them.
fn published() -> (Hosts, Vec<DataAddr>) {
    let h = hosts();
    let nodes = (0..6).map(|_| h.retire_node(0)).collect();
    while Batch::decode(h.cxs[1].load(published_word(&h.pod.plan, HostId(0)))).number == 0 {
        [1, 2, 0].iter().for_each(|&host| assert_eq!(h.collect(host, ALL), 0));
    }
    (h, nodes)
}

#[test]
fn damaged_batches_are_neither_dropped_nor_freed() {
    let mut numbers = Numbers(9);
    for round in 0..1000u64 {
        let (h, nodes) = published();
        let (plan, entry) = (&h.pod.plan, numbers.below(4) * RETIRE_ENTRY_BYTES);
        let bad = numbers.draw() >> numbers.below(64);
        let data = batch_data(plan, HostId(0)).byte(entry);
        match round % 5 {
            // Always an entry, or the number of entries, that no host writes.
            0 => h.cxs[2].store(published_word(plan, HostId(0)), 1 << 16 | 5u64.wrapping_add(bad) & 0xffff),
            1 => h.cxs[2].write(data, &(bad | 1).to_le_bytes()),
            2 => h.cxs[2].write(data.byte(8), &(bad as u32 | 1 << 20).to_le_bytes()),
            3 => h.cxs[2].write(data.byte(12), &(bad as u32 | 2).to_le_bytes()),
            _ => h.cxs[2].store(freed_word(plan, HostId(0)), 1 << 16 | 5u64.wrapping_add(bad) & 0xffff),
        }
        if round % 5 == 0 && !(1..=4).contains(&(h.cxs[1].load(published_word(plan, HostId(0))) & 0xffff)) {
            assert_eq!(h.rounds(&[1, 2], ALL), 0);
            assert!(h.epochs[1].damage().is_some(), "round {round}: {bad:#x}");
        }
        h.rounds(&[1, 2, 0], ALL);
        let finished = h.epochs[1].finish_batch(&h.cxs[1], &h.heaps[1], HostId(0), |_| 0b110);
        let freed = h.cxs[1].load(freed_word(plan, HostId(0)));
        match finished {
            Err(PodError::Damaged { .. }) => {
                let left = nodes.iter().filter(|at| is_live(&h, **at)).count();
                assert!(left >= 6 - 4 * usize::from(freed == 1 << 16 | 4), "round {round}");
            }
            found => assert!(matches!(found, Ok(None | Some(0))), "round {round}: {bad:#x}, {found:?}"),
        }
    }
}

fn is_live(h: &Hosts, at: DataAddr) -> bool {
    let audit = h.heaps[0].audit(&h.cxs[0], &[at.offset()].into());
    audit.classes.iter().all(|class| class.dangling.is_empty())
}

#[test]
fn words_of_epochs_may_say_anything() {
    let mut numbers = Numbers(10);
    for round in 0..1000 {
        let (h, _) = published();
        let plan = &h.pod.plan;
        let words = [
            plan.sync(Part::Epochs),
            published_word(plan, HostId(0)),
            freed_word(plan, HostId(0)),
            dropped_word(plan, HostId(1), HostId(0)),
        ];
        let (at, bad) = (words[round % 4], numbers.draw() >> numbers.below(64));
        h.cxs[2].store(at, if round % 8 < 4 { bad } else { !bad });
        // Each host's own words are what it has written, or it would not write them again.
        h.rounds(&[2], ALL);
        let finished = h.epochs[2].finish_batch(&h.cxs[2], &h.heaps[2], HostId(0), |_| 0b100);
        assert!(matches!(finished, Ok(_) | Err(PodError::Damaged { .. })), "{finished:?}");
        let mut reached = BTreeSet::new();
        let adopted = h.epochs[2].adopt(&h.cxs[2], &h.heaps[2], HostId(0), 1, &mut reached);
        assert!(adopted.is_ok(), "the heap is whole");
    }
}
