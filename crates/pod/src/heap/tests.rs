//! Tests of `heap` on native memory, one process.

use std::collections::{BTreeMap, BTreeSet};

use liger_fabric::native::Native;

use super::sizes::SIZES;
use super::*;
use crate::plan::PodConfig;
use crate::testing::{Numbers, TestPod};

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
        rows: 1,
        tuple_bytes: 8 + 3,
        row_bytes: 128,
        node_bytes: 1280,
        word_chunk_bytes: 2 * 4096,
        block_chunk_bytes: 2 * (64 << 10),
        ..Usage::default()
    };
    assert!(heaps.iter().zip(&cxs).all(|(heap, cx)| heap.usage(cx) == expected));
    heaps[1].free(&cxs[1], BlockClass::Row, row, 100);
    heaps[2].free(&cxs[2], BlockClass::Node, node, 1100);
    heaps[0].free_word(&cxs[0], WordClass::Tuple, word);
    let expected = Usage { rows: 0, tuple_bytes: 0, row_bytes: 0, node_bytes: 0, ..expected };
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
    assert_eq!(heaps[0].usage(&cxs[0]).word_chunk_bytes, 5 * 4096, "nothing new was claimed");
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

/// Cells of rows of `len` bytes, as many as there is room for.
fn rows_of(heap: &Heap, cx: &Cx<Native>, len: usize) -> Vec<TupleAddr> {
    std::iter::from_fn(|| heap.alloc_row(cx, len).ok()).collect()
}

#[test]
fn every_row_has_a_cell_of_its_own_and_neighbours_lie_in_different_lines() {
    for (hosts, per_word) in [(2, 3), (9, 1)] {
        let config = PodConfig { hwcc_bytes: 2 << 20, cxl_bytes: 16 << 20, ..PodConfig::small(hosts, 1) };
        let pod = TestPod::new(&config);
        let (heap, cx) = (Heap::new(&pod.plan, HostId(1), 1), pod.cx(1, 0));
        let rows: Vec<TupleAddr> = (0..2000).map(|_| heap.alloc_row(&cx, 100).unwrap()).collect();
        let cells: BTreeSet<_> = rows.iter().map(|row| (row.word(), row.place())).collect();
        assert_eq!(cells.len(), rows.len());
        assert!(rows.iter().all(|row| u64::from(row.place()) < per_word && cx.load(row.word()) == 0));
        assert!(rows.windows(2).all(|pair| pair[0].word().offset() / 64 != pair[1].word().offset() / 64));
        for row in &rows {
            assert_eq!(TupleAddr::from_raw(row.raw()), Some(*row));
            assert_eq!(heap.row_at(row.raw()), Some(*row));
        }
        let usage = heap.usage(&cx);
        assert_eq!((usage.rows, usage.tuple_bytes), (2000, (2000 * 8u64).div_ceil(per_word)));
        // 512 rows in each chunk of 64 KiB; what one run leaves of a chunk of words, the next ones take.
        let words = 512u64.div_ceil(per_word).next_multiple_of(8) * 8;
        let runs_in_a_chunk = 4096 / words;
        assert_eq!(usage.word_chunk_bytes, 4u64.div_ceil(runs_in_a_chunk) * 4096);
    }
}

#[test]
fn a_place_keeps_its_cell_whatever_lies_there() {
    let (_pod, heaps, cxs) = pod(2);
    let mut cells: BTreeMap<DataAddr, TupleAddr> = BTreeMap::new();
    let mut words = 0;
    // Rows of one length after the other, by hosts in turn; blocks of another class between them.
    for (turn, len) in [1100, 300, 64 << 10, 64, 1100, 40 << 10, 300].into_iter().enumerate() {
        let (heap, cx) = (&heaps[turn % 2], &cxs[turn % 2]);
        let rows = rows_of(heap, cx, len);
        assert!(!rows.is_empty(), "no row of {len} bytes");
        let starts: BTreeSet<DataAddr> = rows.iter().map(|row| row.block()).collect();
        assert_eq!(starts.len(), rows.len());
        for row in &rows {
            assert_eq!(*cells.entry(row.block()).or_insert(*row), *row, "{len} bytes");
        }
        rows.iter().for_each(|row| heap.free(cx, BlockClass::Row, row.block(), len));
        let block = heap.alloc(cx, BlockClass::Scratch, 200).unwrap();
        heap.free(cx, BlockClass::Scratch, block, 200);
        let usage = heap.usage(cx);
        assert_eq!((usage.rows, usage.tuple_bytes), (0, 0));
        assert!(words == 0 || usage.word_chunk_bytes == words, "cells are made once");
        words = usage.word_chunk_bytes;
    }
}

#[test]
fn without_words_for_cells_rows_go_where_cells_are() {
    let (_pod, heaps, cxs) = pod(2);
    let (heap, cx) = (&heaps[0], &cxs[0]);
    let first = heap.alloc_row(cx, 64 << 10).unwrap();
    while heap.alloc_word(cx, WordClass::Mapping).is_ok() {}
    // What is left of the one chunk of words is enough for one chunk of such small rows.
    assert_eq!(rows_of(heap, cx, 64).len(), 1024);
    assert!(heap.alloc(cx, BlockClass::Scratch, 64).is_ok(), "there are blocks enough");
    heap.free(cx, BlockClass::Row, first.block(), 64 << 10);
    assert_eq!(rows_of(heap, cx, 64), [first]);
}

#[test]
fn addresses_of_nothing_are_refused() {
    let (_pod, heaps, cxs) = pod(2);
    let row = heaps[0].alloc_row(&cxs[0], 64).unwrap();
    let elsewhere = TupleAddr::new(DataAddr::new(64), row.word(), 0);
    let of_no_word = TupleAddr::new(row.block(), SyncAddr::new(4096), 0);
    assert_eq!(heaps[1].row_at(row.raw()), Some(row));
    for raw in [0, 1, row.raw() | 3 << 62, elsewhere.raw(), of_no_word.raw()] {
        assert_eq!(heaps[1].row_at(raw), None, "{raw:#x}");
    }
}

#[test]
fn a_successor_goes_on_with_the_runs_and_the_room_behind_them() {
    let (pod, heaps, cxs) = pod(3);
    let rows: Vec<TupleAddr> = (0..3).map(|_| heaps[0].alloc_row(&cxs[0], 20_000).unwrap()).collect();
    let in_use: BTreeSet<u64> = rows[..2].iter().map(|row| row.block().offset()).collect();
    heaps[1].free(&cxs[1], BlockClass::Row, rows[2].block(), 20_000);
    let before = heaps[1].usage(&cxs[1]);
    let mut orphans = Vec::new();
    assert_eq!(heaps[1].adopt(&cxs[1], HostId(0), 7, &in_use, &mut orphans), Ok(()));
    assert_eq!(orphans, [Orphan::Block(BlockClass::Row, rows[2].block(), 20_480)]);
    // What was given back and not taken is in use once more.
    let usage = heaps[2].usage(&cxs[2]);
    assert_eq!((before.rows, usage.rows, usage.word_chunk_bytes), (2, 3, before.word_chunk_bytes));
    heaps[1].free(&cxs[1], BlockClass::Row, rows[2].block(), 20_480);
    assert_eq!(heaps[1].alloc_row(&cxs[1], 20_000).unwrap(), rows[2]);
    // The next chunk's run comes from the dead host's chunk of words.
    let more: Vec<TupleAddr> = (0..30).map(|_| heaps[1].alloc_row(&cxs[1], 20_000).unwrap()).collect();
    assert_eq!(heaps[1].usage(&cxs[1]).word_chunk_bytes, before.word_chunk_bytes);
    let cells: BTreeSet<_> = rows.iter().chain(&more).map(|row| (row.word(), row.place())).collect();
    assert_eq!(cells.len(), rows.len() + more.len());
    drop(pod);
}

#[test]
fn a_successor_gives_back_a_chunk_whose_cells_were_not_complete() {
    let (pod, heaps, cxs) = pod(2);
    let mine = heaps[0].my_word(Class::Row, 0);
    let claimed = heaps[0].blocks.claim(&cxs[0], (&mut 0, 1), mine, |_| true);
    let (chunk, _) = claimed.unwrap();
    let mut orphans = Vec::new();
    assert_eq!(heaps[1].adopt(&cxs[1], HostId(0), 7, &BTreeSet::new(), &mut orphans), Ok(()));
    assert_eq!(orphans, []);
    assert_eq!(heaps[1].blocks.word(&cxs[1], chunk).map(|word| word.owner), Ok(None));
    let rows = rows_of(&heaps[1], &cxs[1], 64 << 10);
    assert_eq!(rows.len() as u64, pod.plan.region(Part::BlockHeap).bytes >> 16, "every chunk is of use");
}

fn is_damage<T: std::fmt::Debug>(found: &Result<T, PodError>) -> bool {
    matches!(found, Err(PodError::Damaged { .. }))
}

#[test]
fn a_chunk_whose_word_is_damaged_is_nobodys() {
    let mut numbers = Numbers(5);
    for class in 0..=u8::MAX {
        let (_pod, heaps, cxs) = pod(2);
        let blocks = [BlockClass::Row, BlockClass::Node].map(|class| heaps[0].alloc(&cxs[0], class, 100));
        let blocks = blocks.map(|block| block.expect("there is room"));
        let word = heaps[0].alloc_word(&cxs[0], WordClass::Mapping).expect("there is room");
        // Every class that there is not, sizes that there are not, and owners that there are not.
        let size =
            if class < 8 { SIZES as u64 + numbers.below(256 - SIZES as u64) } else { numbers.below(40) };
        let bad = numbers.draw() & (0xffff_ffff << 16) & !(0xff << 40);
        let bad = bad | size << 40 | u64::from(class) << 8 | numbers.below(2);
        for (chunks, at) in [(&heaps[0].blocks, blocks[0].offset()), (&heaps[0].words, word.offset())] {
            cxs[1].store(chunks.table.word(chunks.around(at).into()), bad);
        }
        assert_eq!(heaps[1].owner_of_block(&cxs[1], blocks[1]), Some((HostId(0), 7)));
        assert_eq!(heaps[1].damage(), None);
        assert_eq!(heaps[1].owner_of_block(&cxs[1], blocks[0]), None, "{bad:#x}");
        assert_eq!(heaps[1].owner_of_word(&cxs[1], word), None, "{bad:#x}");
        heaps[1].free(&cxs[1], BlockClass::Row, blocks[0], 100);
        heaps[1].free_word(&cxs[1], WordClass::Mapping, word);
        assert!(matches!(heaps[1].damage(), Some(PodError::Damaged { .. })), "{bad:#x}");
        let own = heaps[1].alloc_row(&cxs[1], 64).expect("the other chunks are as they were");
        assert_ne!(heaps[1].blocks.around(own.block().offset()), heaps[1].blocks.around(blocks[0].offset()));
        let mut orphans = Vec::new();
        assert!(is_damage(&heaps[1].adopt(&cxs[1], HostId(0), 7, &BTreeSet::new(), &mut orphans)));
        assert!(orphans.contains(&Orphan::Block(BlockClass::Node, blocks[1], 128)), "the others go over");
    }
}

#[test]
fn an_owner_that_the_pod_has_not_is_damage() {
    let (_pod, heaps, cxs) = pod(2);
    let row = heaps[0].alloc(&cxs[0], BlockClass::Row, 64).expect("there is room");
    let at = heaps[0].blocks.table.word(heaps[0].blocks.around(row.offset()).into());
    let word = heaps[0].my_word(Class::Row, 0);
    cxs[0].store(at, ChunkWord { owner: Some((HostId(2), 7)), ..word }.encode());
    heaps[1].free(&cxs[1], BlockClass::Row, row, 64);
    assert!(heaps[1].damage().is_some() && heaps[1].owner_of_block(&cxs[1], row).is_none());
}

#[test]
fn rows_do_not_go_where_the_place_of_cells_is_damaged() {
    let mut numbers = Numbers(6);
    for size in 0..=u8::MAX {
        let (_pod, heaps, cxs) = pod(2);
        let row = heaps[0].alloc_row(&cxs[0], 64).expect("there is room");
        let node = heaps[0].alloc(&cxs[0], BlockClass::Node, 64).expect("there is room");
        let heap = &heaps[1];
        let chunk = heap.blocks.around(row.block().offset());
        // No such size, or no such place: in no chunk of words, or at the end of one.
        let place = [
            heap.words.offset(0) / 8 + 1,
            (heap.words.start + heap.words.count * heap.words.bytes) / 8,
            8,
            u64::from(u32::MAX),
        ];
        let place =
            if usize::from(size) < SIZES { place[numbers.below(4) as usize] } else { numbers.below(1 << 32) };
        let bad = u64::from(size) << 32 | place;
        (0..heap.blocks.count as u32).for_each(|it| cxs[1].store(heap.bond_word(it, 0), bad));
        assert!(is_damage(&heap.bond(&cxs[1], chunk).map(|bond| bond.map(|bond| bond.grain))), "{bad:#x}");
        assert!(heap.alloc_row(&cxs[1], 64).is_err() && heap.damage().is_some(), "{bad:#x}");
        assert!(heap.alloc(&cxs[1], BlockClass::Loose, 64).is_ok(), "others need no cells");
        let mut orphans = Vec::new();
        assert!(is_damage(&heap.adopt(&cxs[1], HostId(0), 7, &BTreeSet::new(), &mut orphans)));
        assert!(orphans.contains(&Orphan::Block(BlockClass::Node, node, 64)));
        assert_eq!(heap.owner_of_block(&cxs[1], row.block()), Some((HostId(0), 7)), "left as it was");
        let tails = heap.pools[Class::Cells as usize].lock(&cxs[1]).tails.len();
        assert_eq!(tails, 0, "nobody knows which cells are in use");
    }
}

#[test]
fn a_list_of_free_slots_ends_where_it_is_damaged() {
    let mut numbers = Numbers(8);
    for round in 0..300 {
        let (_pod, heaps, cxs) = pod(2);
        let blocks = [0; 3].map(|_| heaps[0].alloc(&cxs[0], BlockClass::Scratch, 64).expect("there is room"));
        let words = [0; 3].map(|_| heaps[0].alloc_word(&cxs[0], WordClass::Tuple).expect("there is room"));
        blocks[..2].iter().for_each(|&at| heaps[1].free(&cxs[1], BlockClass::Scratch, at, 64));
        words[..2].iter().for_each(|&at| heaps[1].free_word(&cxs[1], WordClass::Tuple, at));
        // Anywhere, somewhere in the chunk, or at itself.
        let beside = |at: u64, numbers: &mut Numbers| match round % 3 {
            0 => numbers.draw(),
            1 => at / 4096 * 4096 + numbers.below(4096),
            _ => at,
        };
        cxs[1].write(blocks[1], &beside(blocks[1].offset(), &mut numbers).to_le_bytes());
        cxs[1].store(words[1], beside(words[1].offset(), &mut numbers) / 8);
        let (head, own) = (heaps[0].remote_head(HostId(0), Class::Scratch), numbers.draw());
        heaps[0].tidy(&cxs[0]);
        assert_eq!(cxs[0].load(head), 0, "taken");
        assert!(round % 3 == 1 || heaps[0].damage().is_some(), "round {round}");
        cxs[1].store(head, own);
        heaps[0].tidy(&cxs[0]);
        assert!(heaps[0].alloc(&cxs[0], BlockClass::Scratch, 64).is_ok());
    }
}

#[test]
fn a_pod_uses_what_it_may_and_more_when_it_has_grown() {
    let config = PodConfig { cxl_bytes: 8 << 20, ..PodConfig::small(2, 1) };
    let pod = TestPod::new(&config);
    let (least, all) = (room::least(&pod.plan), config.cxl_bytes);
    let heaps = [0, 1].map(|host| Heap::new(&pod.plan, HostId(host), 1));
    let cxs = [0, 1].map(|host| pod.cx(host, 0));
    assert_eq!(
        heaps[0].room(&cxs[0]),
        room::Room { bytes: all, ..heaps[0].room(&cxs[0]) },
        "all, unless it is said"
    );
    assert_eq!(room::limit(&cxs[0], &pod.plan, least - 1), Err(room::RoomError::TooLittle { least }));
    assert_eq!(room::limit(&cxs[0], &pod.plan, all + 1), Err(room::RoomError::TooMuch { most: all }));
    room::limit(&cxs[0], &pod.plan, least).unwrap();
    assert!(room::limit(&cxs[0], &pod.plan, all).is_err(), "it is no new pod any more");
    let fill = |host: usize| {
        let got = std::iter::from_fn(|| heaps[host].alloc(&cxs[host], BlockClass::Row, 64 << 10).ok());
        got.map(DataAddr::offset).collect::<Vec<_>>()
    };
    let words = |host: usize| {
        std::iter::from_fn(|| heaps[host].alloc_word(&cxs[host], WordClass::Tuple).ok()).count() as u64
    };
    let (mut rows, mut room) = (0, least);
    while room < all {
        for host in [1, 0] {
            let found = fill(host);
            rows += found.len() as u64;
            assert!(found.iter().all(|at| at + (64 << 10) <= pod.plan.sync_end() + room));
            assert!(fill(1 - host).is_empty(), "one has it all");
        }
        let chunks = pod.plan.region(Part::BlockHeap).bytes >> 16;
        let may = chunks - (all - room).div_ceil(64 << 10);
        assert_eq!(rows, may, "of {chunks} chunks, with {room} bytes");
        assert!(room::grow(&cxs[1], &pod.plan, room - 4096).is_err(), "it takes nothing back");
        room = (room + (1 << 20)).min(all);
        assert_eq!(room::grow(&cxs[1], &pod.plan, room).unwrap().bytes, room);
    }
    rows += fill(0).len() as u64;
    assert_eq!(rows, pod.plan.region(Part::BlockHeap).bytes >> 16, "no chunk is left");
    assert!(words(0) > 0 && words(1) == 0, "words grow with the blocks");
    let damaged = pod.plan.sync(Part::HeapLines).word(1);
    for word in [1, least - 1, all + 1, u64::MAX] {
        cxs[0].store(damaged, word);
        assert_eq!(heaps[1].room(&cxs[1]).bytes, all, "a word that nobody writes takes nothing away");
    }
}
