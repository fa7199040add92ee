//! Nanoseconds per operation of the structures in local memory: `cargo run --release --example local_bench`.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use liger_store::local::{LocalTree, RowSlab};
use std::hint::black_box;
use std::time::Instant;

const OPERATIONS: usize = 1_000_000;

/// Best nanoseconds per operation of five runs of `operations`.
fn best(operations: usize, mut run: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        run();
        start.elapsed().as_nanos() as f64 / operations as f64
    };
    (0..5).map(time).fold(f64::INFINITY, f64::min)
}

/// A bijection of u64 (splitmix64's finaliser): distinct keys in random order.
fn mix(n: u64) -> u64 {
    let z = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Key number `n`: with two words, as (partition, number) keys are, many share the first.
fn key<const W: usize>(n: u64) -> [u64; W] {
    let mut key = [5; W];
    key[W - 1] = mix(n);
    if W > 1 {
        key[0] = mix(n) % 10;
    }
    key
}

fn bench<const W: usize>(keys: u64, row_len: usize) {
    let mut slab = RowSlab::new(row_len, u32::MAX);
    let mut tree = LocalTree::new(W);
    let start = Instant::now();
    for n in 0..keys {
        let row = slab.alloc().expect("a row");
        tree.insert(&key::<W>(n), row).expect("a new key");
    }
    let build = start.elapsed().as_nanos() as f64 / keys as f64;
    let order: Vec<u64> = (0..OPERATIONS as u64).map(|i| mix(i + 77) % keys).collect();
    let get = best(OPERATIONS, || {
        let mut sum = 0;
        for &n in &order {
            sum += tree.get(&key::<W>(n)).expect("there");
        }
        black_box(sum);
    });
    // The next key depends on the last answer: no two look-ups overlap.
    let chained = best(OPERATIONS, || {
        let mut last = 0;
        for &n in &order {
            last = tree.get(&key::<W>(n ^ (last >> 31) as u64)).expect("there");
        }
        black_box(last);
    });
    let with_row = best(OPERATIONS, || {
        let mut last = 0;
        for &n in &order {
            let row = tree.get(&key::<W>(n ^ last)).expect("there");
            last = (slab.readers(row) >> 31) as u64 + slab.bytes(row)[row_len / 2] as u64;
        }
        black_box(last);
    });
    let scan = best(keys as usize, || {
        let (mut at, mut sum) = (tree.first(), 0);
        while let Some(cursor) = at {
            sum += tree.entry(cursor).1 as u64;
            at = tree.next(cursor);
        }
        black_box(sum);
    });
    let around = best(OPERATIONS, || {
        for &n in &order {
            black_box(tree.neighbors(&key::<W>(n)));
        }
    });
    let changes = (keys / 2).min(OPERATIONS as u64);
    let (mut insert, mut remove) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..3 {
        let start = Instant::now();
        for n in 0..changes {
            tree.remove(&key::<W>(n)).expect("there");
        }
        remove = remove.min(start.elapsed().as_nanos() as f64 / changes as f64);
        let start = Instant::now();
        for n in 0..changes {
            tree.insert(&key::<W>(n), n as u32).expect("a new key");
        }
        insert = insert.min(start.elapsed().as_nanos() as f64 / changes as f64);
    }
    let per_key = tree.bytes() as f64 / keys as f64;
    println!(
        "{W} {keys:>8} {build:>7.0} {get:>7.1} {chained:>8.1} {with_row:>8.1} {around:>7.1} {scan:>6.2} \
         {insert:>7.1} {remove:>7.1} {per_key:>6.1}"
    );
}

fn main() {
    println!("W     keys   build     get  chained with-row  around   scan  insert  remove  B/key   (ns)");
    for keys in [10, 1000, 30_000, 100_000, 1_000_000, 3_000_000] {
        bench::<1>(keys, 96);
        bench::<2>(keys, 96);
    }
    bench::<5>(30_000, 96);
    bench::<5>(1_000_000, 96);
}
