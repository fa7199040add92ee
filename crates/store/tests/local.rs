//! The structures in local memory against plain models.

use liger_pod::testing::Numbers;
use liger_store::local::{LocalTree, RowFlags, RowSlab};
use std::collections::BTreeMap;

/// Key number `n` of `words` words: differs in the last or the first word, and some words are all ones.
fn key(words: usize, n: u64, kind: u64) -> Vec<u64> {
    let mut key = vec![if kind == 0 { u64::MAX } else { 7 }; words];
    match kind {
        0 => key[words - 1] = u64::MAX - n,
        1 => key[0] = n,
        _ => {
            key[0] = n / 16;
            key[words - 1] =
                key[words - 1] * (words > 1) as u64 + n % 16 + (n / 16) * (words == 1) as u64 * 16;
        }
    }
    key
}

fn compare(tree: &LocalTree, model: &BTreeMap<Vec<u64>, u32>) {
    tree.check();
    assert_eq!(tree.len(), model.len());
    let mut at = tree.first();
    for (key, row) in model {
        let cursor = at.expect("an entry for every key of the model");
        assert_eq!(tree.entry(cursor), (key.as_slice(), *row));
        at = tree.next(cursor);
    }
    assert_eq!(at, None);
    let mut at = tree.last();
    for (key, row) in model.iter().rev() {
        let cursor = at.expect("an entry for every key of the model");
        assert_eq!(tree.entry(cursor), (key.as_slice(), *row));
        at = tree.prev(cursor);
    }
    assert_eq!(at, None);
}

fn look_around(tree: &LocalTree, model: &BTreeMap<Vec<u64>, u32>, key: &[u64]) {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let below = model.range::<[u64], _>((Unbounded, Excluded(key))).next_back();
    let above = model.range::<[u64], _>((Excluded(key), Unbounded)).next();
    let from = model.range::<[u64], _>((Included(key), Unbounded)).next();
    let entry = |cursor| tree.entry(cursor);
    assert_eq!(tree.get(key), model.get(key).copied());
    assert_eq!(tree.lower_bound(key).map(entry), from.map(|(key, row)| (key.as_slice(), *row)));
    assert_eq!(tree.last_below(key).map(entry), below.map(|(key, row)| (key.as_slice(), *row)));
    let around = tree.neighbors(key);
    assert_eq!(around.prev, below.map(|(_, row)| *row));
    assert_eq!(around.found, model.get(key).copied());
    assert_eq!(around.next, above.map(|(_, row)| *row));
}

#[test]
fn a_tree_behaves_like_a_map() {
    for seed in 0..48 {
        let mut numbers = Numbers(seed);
        let (words, kind) = (1 + seed as usize % 8, seed / 8 % 3);
        let keys = [50, 1000, 20_000][numbers.below(3) as usize];
        let (mut tree, mut model) = (LocalTree::new(words), BTreeMap::new());
        // First it grows, then it shrinks, then neither, three times over.
        for phase in 0..9 {
            let inserts = [90, 10, 50][phase % 3];
            for _ in 0..keys / 2 {
                let key = key(words, numbers.below(keys), kind);
                if numbers.below(100) < inserts {
                    let row = numbers.draw() as u32;
                    let expected = match model.get(&key) {
                        Some(&there) => Err(there),
                        None => Ok(()),
                    };
                    assert_eq!(tree.insert(&key, row), expected);
                    model.entry(key).or_insert(row);
                } else {
                    let (removed, row) = (tree.remove_between(&key), model.remove(&key));
                    let before = model.range(..key.clone()).next_back().map(|entry| *entry.1);
                    let behind = model.range(key..).next().map(|entry| *entry.1);
                    assert_eq!(removed, row.map(|row| (before, row, behind)));
                }
                if numbers.below(8) == 0 {
                    look_around(&tree, &model, &self::key(words, numbers.below(keys), kind));
                }
            }
            compare(&tree, &model);
        }
        for key in model.keys() {
            assert!(tree.remove(key).is_some());
        }
        compare(&tree, &BTreeMap::new());
        assert_eq!(tree.nodes(), 1, "an emptied tree is one leaf");
    }
}

#[test]
fn ordered_insertions_fill_leaves() {
    for descending in [false, true] {
        let mut tree = LocalTree::new(2);
        for i in 0..100_000 {
            let n = if descending { u64::MAX - i } else { i };
            tree.insert(&[n >> 8, n & 0xff], i as u32).expect("a new key");
        }
        tree.check();
        assert!(tree.nodes() <= 100_000 / 64 + 100_000 / 4000 + 4, "{} nodes", tree.nodes());
    }
    // Ten ascending sequences side by side, as orders of ten districts are.
    let mut tree = LocalTree::new(1);
    for i in 0..10_000 {
        for district in 0..10 {
            tree.insert(&[district << 32 | i], i as u32).expect("a new key");
        }
    }
    tree.check();
    assert!(tree.nodes() <= 100_000 / 60, "{} nodes", tree.nodes());
}

/// Sequences one behind the other, in front of the others, or anywhere between them: what a partition is
/// filled with that comes back span by span while its last rows are in use, or a table that is loaded from
/// its end.
#[test]
fn sequences_in_any_order_fill_leaves() {
    const KEYS: u64 = 30_000;
    for (order, descending, length) in (0..3)
        .flat_map(|order| [false, true].map(|descending| (order, descending)))
        .flat_map(|(order, descending)| [1, 2, 3, 10, 63, 64, 65, 1000].map(|n| (order, descending, n)))
    {
        let (mut numbers, mut tree) = (Numbers(length), LocalTree::new(2));
        let mut runs: Vec<u64> = (0..KEYS / length).collect();
        match order {
            0 => {}
            1 => runs.reverse(),
            _ => (1..runs.len()).for_each(|i| runs.swap(i, numbers.below(i as u64 + 1) as usize)),
        }
        for run in runs {
            for i in 0..length {
                let n = run * length + if descending { length - 1 - i } else { i };
                tree.insert(&[n >> 8, n & 0xff], n as u32).expect("a new key");
            }
        }
        tree.check();
        let nodes = tree.nodes();
        assert!(nodes <= KEYS as usize / 24, "{nodes} nodes: order {order}, {descending}, runs of {length}");
    }
}

#[test]
fn a_queue_stays_small() {
    let mut tree = LocalTree::new(1);
    for i in 0..200_000 {
        tree.insert(&[i], i as u32).expect("a new key");
        if i >= 1000 {
            let first = tree.first().expect("an entry");
            let key = [tree.entry(first).0[0]];
            assert_eq!(tree.remove(&key), Some(i as u32 - 1000));
        }
    }
    tree.check();
    assert!(tree.nodes() < 25 && tree.bytes() < 40_000, "{} nodes, {} bytes", tree.nodes(), tree.bytes());
}

#[test]
fn random_removals_give_memory_back() {
    let (mut numbers, mut tree, mut keys) = (Numbers(9), LocalTree::new(1), Vec::new());
    for i in 0..50_000 {
        keys.push(numbers.draw());
        tree.insert(&keys[i..=i], i as u32).expect("a new key");
    }
    let full = tree.nodes();
    for key in keys.iter().skip(2500) {
        tree.remove(&[*key]).expect("there");
    }
    tree.check();
    assert!(tree.nodes() < full / 6, "{} of {full} nodes for a twentieth of the keys", tree.nodes());
}

#[test]
#[should_panic(expected = "a key of the tree's width")]
fn keys_of_another_width_are_refused() {
    LocalTree::new(2).get(&[1]);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "has changed since")]
fn a_cursor_does_not_outlive_a_change() {
    let mut tree = LocalTree::new(1);
    tree.insert(&[1], 1).expect("a new key");
    let cursor = tree.first().expect("an entry");
    tree.insert(&[2], 2).expect("a new key");
    tree.next(cursor);
}

#[test]
fn a_slab_keeps_rows_apart() {
    for (seed, row_len) in [0, 1, 8, 95, 700, 100_000].into_iter().enumerate() {
        let mut numbers = Numbers(seed as u64);
        let (mut slab, mut model) = (RowSlab::new(row_len, 300), BTreeMap::<u32, u8>::new());
        for _ in 0..2000 {
            if numbers.below(100) < 60 {
                let Some(row) = slab.alloc() else {
                    assert_eq!(model.len(), 300);
                    continue;
                };
                let fill = numbers.draw() as u8;
                assert!(model.insert(row, fill).is_none(), "row {row} was given twice");
                assert!(slab.bytes(row).iter().all(|&byte| byte == 0));
                assert_eq!((slab.readers(row), slab.gap_readers(row), slab.writer(row)), (0, 0, None));
                assert_eq!((slab.flags(row), slab.version(row), slab.shared(row)), (RowFlags::NONE, 0, 0));
                slab.bytes_mut(row).fill(fill);
                slab.set_readers(row, fill as u32 | 1 << 31);
                slab.set_gap_readers(row, !(fill as u32));
                slab.set_writer(row, (fill < 255).then_some(fill));
                slab.set_flags(row, RowFlags::LIVE | RowFlags::DELETED);
                slab.set_aux(row, u32::MAX - fill as u32);
                slab.set_version(row, u64::MAX - fill as u64);
                slab.set_shared(row, fill as u64 + 1);
            } else if let Some((&row, _)) = model.range(numbers.below(300) as u32..).next() {
                model.remove(&row);
                slab.free(row);
                assert!(slab.is_free(row));
            }
        }
        assert_eq!(slab.len(), model.len());
        assert_eq!(slab.rows().collect::<Vec<_>>(), model.keys().copied().collect::<Vec<_>>());
        for (&row, &fill) in &model {
            assert_eq!(slab.bytes(row).len(), row_len);
            assert!(slab.bytes(row).iter().all(|&byte| byte == fill));
            assert_eq!((slab.readers(row), slab.gap_readers(row)), (fill as u32 | 1 << 31, !(fill as u32)));
            assert_eq!(slab.writer(row), (fill < 255).then_some(fill));
            assert!(slab.flags(row).has(RowFlags::LIVE) && !slab.flags(row).has(RowFlags::PLACEHOLDER));
            assert_eq!((slab.aux(row), slab.version(row)), (u32::MAX - fill as u32, u64::MAX - fill as u64));
            assert_eq!(slab.shared(row), fill as u64 + 1);
        }
    }
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "is free")]
fn a_free_row_is_not_read() {
    let mut slab = RowSlab::new(8, 10);
    let row = slab.alloc().expect("a row");
    slab.free(row);
    slab.bytes(row);
}

#[test]
#[should_panic(expected = "is free already")]
fn a_row_is_not_freed_twice() {
    let mut slab = RowSlab::new(8, 10);
    let row = slab.alloc().expect("a row");
    slab.free(row);
    slab.free(row);
}
