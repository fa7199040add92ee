//! Tests of `heap` on native memory, one process.

use std::collections::{BTreeMap, BTreeSet};

use liger_fabric::native::Native;

use super::*;
use crate::plan::PodConfig;
use crate::testing::TestPod;

const WORDS: [WordClass; 2] = [WordClass::Tuple, WordClass::Mapping];
const BLOCKS: [BlockClass; 3] = [BlockClass::Row, BlockClass::Node, BlockClass::Scratch];

fn pod(hosts: u8) -> (TestPod, Vec<Heap>, Vec<Cx<Native>>) {
    let pod = TestPod::new(&PodConfig::small(hosts, 4));
    let heaps = (0..hosts).map(|h| Heap::new(&pod.plan, HostId(h), 7)).collect();
    let cxs = (0..hosts).map(|h| pod.cx(h, 0)).collect();
    (pod, heaps, cxs)
}

#[test]
fn consecutive_words_lie_in_different_lines() {
    for hosts in [2, 16] {
        let config = PodConfig { hwcc_bytes: 2 << 20, cxl_bytes: 16 << 20, ..PodConfig::small(hosts, 1) };
        let pod = TestPod::new(&config);
        let (heap, cx) = (Heap::new(&pod.plan, HostId(1), 1), pod.cx(1, 0));
        for class in WORDS {
            let words: Vec<u64> = (0..512).map(|_| heap.alloc_word(&cx, class).unwrap().offset()).collect();
            let distinct: BTreeSet<u64> = words.iter().copied().collect();
            assert_eq!(distinct.len(), 512);
            for pair in words.windows(2) {
                assert_ne!(pair[0] / 64, pair[1] / 64, "{class:?}");
            }
            if hosts == 16 && class == WordClass::Tuple {
                assert!(words.iter().all(|w| w.is_multiple_of(16)), "both words of a tuple are in one line");
                assert!(words.iter().all(|w| !distinct.contains(&(w + 8))));
            }
        }
    }
}

#[test]
fn accounts_are_exact_over_all_hosts() {
    let (_pod, heaps, cxs) = pod(3);
    let row = heaps[0].alloc(&cxs[0], BlockClass::Row, 100).unwrap();
    let node = heaps[1].alloc(&cxs[1], BlockClass::Node, 1100).unwrap();
    let word = heaps[2].alloc_word(&cxs[2], WordClass::Tuple).unwrap();
    let expected = Usage {
        tuple_bytes: 8,
        row_bytes: 128,
        node_bytes: 1280,
        word_chunk_bytes: 4096,
        block_chunk_bytes: 2 * (64 << 10),
        ..Usage::default()
    };
    assert!(heaps.iter().zip(&cxs).all(|(heap, cx)| heap.usage(cx) == expected));
    heaps[1].free(&cxs[1], BlockClass::Row, row, 100);
    heaps[2].free(&cxs[2], BlockClass::Node, node, 1100);
    heaps[0].free_word(&cxs[0], WordClass::Tuple, word);
    let expected = Usage { tuple_bytes: 0, row_bytes: 0, node_bytes: 0, ..expected };
    assert!(heaps.iter().zip(&cxs).all(|(heap, cx)| heap.usage(cx) == expected));
}

#[test]
fn what_others_free_comes_back_to_its_owner() {
    let (_pod, heaps, cxs) = pod(2);
    for (i, class) in BLOCKS.into_iter().enumerate() {
        let len = 200 * (i + 1);
        let blocks: BTreeSet<u64> =
            (0..20).map(|_| heaps[0].alloc(&cxs[0], class, len).unwrap().offset()).collect();
        for &at in &blocks {
            heaps[1].free(&cxs[1], class, DataAddr::new(at), len);
        }
        heaps[0].tidy(&cxs[0]);
        let again: BTreeSet<u64> =
            (0..20).map(|_| heaps[0].alloc(&cxs[0], class, len).unwrap().offset()).collect();
        assert_eq!(again, blocks);
        assert!(heaps[0].audit(&cxs[0], &blocks).classes[2 + i].leaked.is_empty());
    }
    for class in WORDS {
        let words: Vec<SyncAddr> = (0..700).map(|_| heaps[0].alloc_word(&cxs[0], class).unwrap()).collect();
        words.iter().for_each(|&at| cxs[1].store(at, 0xabcd_0123 << 32 | 77));
        words.iter().for_each(|&at| heaps[1].free_word(&cxs[1], class, at));
        let again: BTreeSet<u64> = (0..1024)
            .map(|_| heaps[0].alloc_word(&cxs[0], class).unwrap())
            .map(|at| (at.offset(), cxs[0].load(at) >> 32))
            .filter(|&(_, upper)| upper == 0xabcd_0123)
            .map(|(offset, _)| offset)
            .collect();
        assert_eq!(again, words.iter().map(|at| at.offset()).collect(), "upper bits stay as left");
    }
    assert_eq!(heaps[0].usage(&cxs[0]).word_chunk_bytes, 4 * 4096, "nothing new was claimed");
}

#[test]
fn audits_name_leaks_and_dangling_references() {
    let (_pod, heaps, cxs) = pod(2);
    let a = heaps[0].alloc(&cxs[0], BlockClass::Row, 64).unwrap().offset();
    let b = heaps[0].alloc(&cxs[0], BlockClass::Row, 64).unwrap().offset();
    let w = heaps[0].alloc_word(&cxs[0], WordClass::Mapping).unwrap().offset();
    assert!(heaps[0].audit(&cxs[0], &[a, b, w].into()).is_clean());
    heaps[1].free(&cxs[1], BlockClass::Row, DataAddr::new(b), 64);
    let audit = heaps[0].audit(&cxs[0], &[b, w, w + 1].into());
    assert_eq!((&audit.classes[2].leaked, &audit.classes[2].dangling), (&vec![a], &vec![b]));
    assert_eq!(audit.classes[1].dangling, vec![w + 1]);
    assert_eq!((audit.classes[2].live, audit.classes[2].free), (1, 1023));
}

#[test]
fn empty_chunks_serve_other_hosts_and_sizes_but_nodes_keep_theirs() {
    let (pod, heaps, cxs) = pod(2);
    let chunks = pod.plan.region(Part::BlockHeap).bytes / (64 << 10);
    let fill = |host: usize, class| {
        let got = std::iter::from_fn(|| heaps[host].alloc(&cxs[host], class, 64 << 10).ok());
        got.collect::<Vec<_>>()
    };
    let rows = fill(0, BlockClass::Row);
    assert_eq!(rows.len() as u64, chunks);
    let error = heaps[1].alloc(&cxs[1], BlockClass::Scratch, 64).unwrap_err();
    assert_eq!(error.to_string(), "out of shared memory: scratch block of 64 bytes");
    rows.iter().for_each(|&at| heaps[0].free(&cxs[0], BlockClass::Row, at, 64 << 10));
    assert!(heaps[1].alloc(&cxs[1], BlockClass::Node, 64).is_err(), "rows lay everywhere");
    let scratch = fill(1, BlockClass::Scratch);
    assert!(scratch.len() as u64 >= chunks - 1, "all but the one that host 0 kept: {}", scratch.len());
    // Host 0 gives up the one it kept once it needs another class.
    assert!(heaps[0].alloc(&cxs[0], BlockClass::Scratch, 64).is_ok());
}

#[test]
fn a_later_life_goes_on_with_the_accounts() {
    let (pod, heaps, cxs) = pod(2);
    heaps[0].alloc(&cxs[0], BlockClass::Row, 64).unwrap();
    let again = Heap::new(&pod.plan, HostId(0), 8);
    again.alloc(&cxs[0], BlockClass::Row, 64).unwrap();
    assert_eq!(again.usage(&cxs[0]).row_bytes, 128);
}

#[test]
#[should_panic(expected = "is freed twice")]
fn freeing_twice_is_found() {
    let (_pod, heaps, cxs) = pod(2);
    let at = heaps[0].alloc(&cxs[0], BlockClass::Row, 64).unwrap();
    heaps[0].alloc(&cxs[0], BlockClass::Row, 64).unwrap();
    heaps[0].free(&cxs[0], BlockClass::Row, at, 64);
    heaps[0].free(&cxs[0], BlockClass::Row, at, 64);
}

#[test]
#[should_panic(expected = "is freed at")]
fn freeing_as_another_class_is_found() {
    let (_pod, heaps, cxs) = pod(2);
    let at = heaps[0].alloc_word(&cxs[0], WordClass::Mapping).unwrap();
    heaps[1].free_word(&cxs[1], WordClass::Tuple, at);
}

/// Real threads: each host has two workers that allocate, hand to a random host, and free what they were
/// handed.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test on the native backend runs real threads")]
fn many_threads_hand_blocks_around() {
    const HOSTS: u8 = 3;
    let pod = TestPod::new(&PodConfig::small(HOSTS, 2));
    let heaps: Vec<Heap> = (0..HOSTS).map(|h| Heap::new(&pod.plan, HostId(h), 1)).collect();
    type Item = (Class, u64, usize);
    let boxes: Vec<Latch<Vec<Item>>> = (0..HOSTS).map(|_| Latch::default()).collect();
    let release = |cx: &Cx<Native>, (class, at, len): Item| match class {
        Class::Tuple => heaps[cx.host().0 as usize].free_word(cx, WordClass::Tuple, SyncAddr::new(at)),
        Class::Row => heaps[cx.host().0 as usize].free(cx, BlockClass::Row, DataAddr::new(at), len),
        _ => unreachable!(),
    };
    std::thread::scope(|scope| {
        for worker in 0..HOSTS * 2 {
            let (pod, heaps, boxes, release) = (&pod, &heaps, &boxes, &release);
            scope.spawn(move || {
                let cx = pod.cx(worker / 2, worker % 2);
                let heap = &heaps[cx.host().0 as usize];
                for _ in 0..3000 {
                    let len = 1 + cx.random_below(700) as usize;
                    let item = if cx.random_below(2) == 0 {
                        let at = heap.alloc_word(&cx, WordClass::Tuple).unwrap();
                        (Class::Tuple, at.offset(), 0)
                    } else {
                        let at = heap.alloc(&cx, BlockClass::Row, len).unwrap();
                        cx.publish(at, &vec![worker; len]);
                        (Class::Row, at.offset(), len)
                    };
                    boxes[cx.random_below(HOSTS.into()) as usize].lock(&cx).push(item);
                    let mail = std::mem::take(&mut *boxes[cx.host().0 as usize].lock(&cx));
                    mail.into_iter().for_each(|item| release(&cx, item));
                }
            });
        }
    });
    let left: BTreeMap<u64, Item> =
        boxes.into_iter().flat_map(Latch::into_inner).map(|item| (item.1, item)).collect();
    let reachable: BTreeSet<u64> = left.keys().copied().collect();
    for (h, heap) in heaps.iter().enumerate() {
        let audit = heap.audit(&pod.cx(h as u8, 0), &reachable);
        assert!(audit.is_clean(), "{audit:?}");
    }
    let cx = pod.cx(0, 0);
    left.values().for_each(|&item| release(&cx, item));
    let usage = heaps[0].usage(&cx);
    assert_eq!((usage.tuple_bytes, usage.row_bytes), (0, 0));
}
