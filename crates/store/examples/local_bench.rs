//! Nanoseconds per operation of the structures in local memory: `cargo run --release --example local_bench`.
//!
//! W is words per key. get: look-ups that may overlap; chained: each waits for the one before; with-row:
//! chained, and each reads its row of 96 bytes; around: neighbors; insert and remove: runs of random keys.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use liger_store::local::{LocalTree, RowSlab};
use std::hint::black_box;
use std::time::Instant;

/// Operations that are timed together: few enough to end between two disturbances of a busy machine.
const WINDOW: usize = 5000;
/// Windows of a measurement.
const WINDOWS: usize = 150;

/// Nanoseconds per operation in the quietest tenth of the windows; `run` does the operations of a window.
fn quiet(operations: usize, mut run: impl FnMut(usize)) -> f64 {
    let mut times: Vec<f64> = (0..WINDOWS)
        .map(|window| {
            let start = Instant::now();
            run(window);
            start.elapsed().as_nanos() as f64 / operations as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[WINDOWS / 10]
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
    let order: Vec<u64> = (0..(WINDOW * WINDOWS) as u64).map(|i| mix(i + 77) % keys).collect();
    let window = |window: usize| &order[window * WINDOW..][..WINDOW];
    let get = quiet(WINDOW, |w| {
        let mut sum = 0u64;
        for &n in window(w) {
            sum += tree.get(&key::<W>(n)).expect("there") as u64;
        }
        black_box(sum);
    });
    // The next key depends on the last answer: no two look-ups overlap.
    let chained = quiet(WINDOW, |w| {
        let mut last = 0;
        for &n in window(w) {
            last = tree.get(&key::<W>(n ^ (last >> 31) as u64)).expect("there");
        }
        black_box(last);
    });
    let with_row = quiet(WINDOW, |w| {
        let mut last = 0;
        for &n in window(w) {
            let row = tree.get(&key::<W>(n ^ last)).expect("there");
            last = (slab.readers(row) >> 31) as u64 + slab.bytes(row)[row_len / 2] as u64;
        }
        black_box(last);
    });
    let around = quiet(WINDOW, |w| {
        for &n in window(w) {
            black_box(tree.neighbors(&key::<W>(n)));
        }
    });
    let mut at = tree.first();
    let scan = quiet(WINDOW, |_| {
        let (mut sum, mut cursor) = (0, at.or_else(|| tree.first()).expect("an entry"));
        for _ in 0..WINDOW {
            sum += tree.entry(cursor).1 as u64;
            cursor = tree.next(cursor).or_else(|| tree.first()).expect("an entry");
        }
        at = Some(cursor);
        black_box(sum);
    });
    // A window removes a run of keys, which lie anywhere in the tree, and the next one inserts them again.
    let run = (keys as usize / 2).min(WINDOW) as u64;
    let changed = |w: usize| (0..run).map(move |i| (w as u64 * run + i) % keys);
    let (mut insert, mut remove) = (Vec::new(), Vec::new());
    for w in 0..WINDOWS {
        let start = Instant::now();
        for n in changed(w) {
            tree.remove(&key::<W>(n)).expect("there");
        }
        remove.push(start.elapsed().as_nanos() as f64 / run as f64);
        let start = Instant::now();
        for n in changed(w) {
            tree.insert(&key::<W>(n), n as u32).expect("a new key");
        }
        insert.push(start.elapsed().as_nanos() as f64 / run as f64);
    }
    let tenth = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[WINDOWS / 10]
    };
    let (insert, remove) = (tenth(&mut insert), tenth(&mut remove));
    let per_key = tree.bytes() as f64 / keys as f64;
    println!(
        "{W} {keys:>8} {build:>7.0} {get:>7.1} {chained:>8.1} {with_row:>8.1} {around:>7.1} {scan:>6.2} \
         {insert:>7.1} {remove:>7.1} {per_key:>6.1}"
    );
}

/// Nanoseconds of one dependent read of a random line of 64 MiB: what a cache miss costs on this machine now.
fn miss() -> f64 {
    let lines = (64 << 20) / 64;
    let mut memory = vec![0u64; 8 * lines];
    // A full cycle: a linear congruential sequence of full period.
    let next = |line: usize| (line * 0x9e3_7795 + 12_345) % lines;
    for line in 0..lines {
        memory[8 * line] = 8 * next(line) as u64;
    }
    let mut at = 0;
    quiet(WINDOW, |_| {
        for _ in 0..WINDOW {
            at = memory[at] as usize;
        }
        black_box(at);
    })
}

fn main() {
    println!("a cache miss takes {:.0} ns", miss());
    println!("W     keys   build     get  chained with-row  around   scan  insert  remove  B/key   (ns)");
    for keys in [10, 1000, 30_000, 100_000, 1_000_000, 3_000_000] {
        bench::<1>(keys, 96);
        bench::<2>(keys, 96);
    }
    bench::<5>(30_000, 96);
    bench::<5>(1_000_000, 96);
}
