//! What each verb costs on this machine: `cargo run --release -p liger-fabric --example verb_costs [memory]`.
//!
//! Prints the median over rounds of nanoseconds per call, in a closed loop on one worker, for both ways of
//! making sync words coherent. `hot` repeats on one address; `spread` walks addresses 4 KiB + 64 B apart over
//! all of the memory (64 MiB), so that a line that was dropped comes from memory and not from a near cache.

#![expect(clippy::disallowed_methods, reason = "an example is its own outermost shell")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use liger_fabric::native::{CacheInstructions, Mapping, MemorySpec, Native};
use liger_fabric::{Cx, DataAddr, HostId, SyncAddr, SyncMode, WorkerId};

const BYTES: u64 = 64 << 20;
const STRIDE: u64 = 4096 + 64;
const PLACES: u64 = BYTES / STRIDE - 2;
const ROUNDS: usize = 15;
const CALLS: u64 = 20_000;

/// Median nanoseconds per call of `verb(offset)`, hot and spread.
fn measure(verb: impl Fn(u64)) -> (f64, f64) {
    let median = |place: &dyn Fn(u64) -> u64| {
        let round = || {
            let start = Instant::now();
            (0..CALLS).for_each(|call| verb(place(call)));
            start.elapsed().as_nanos() as f64 / CALLS as f64
        };
        round();
        let mut rounds: Vec<f64> = (0..ROUNDS).map(|_| round()).collect();
        rounds.sort_by(f64::total_cmp);
        rounds[ROUNDS / 2]
    };
    (median(&|_| 4096), median(&|call| (call % PLACES) * STRIDE))
}

fn report(name: &str, verb: impl Fn(u64)) {
    let (hot, spread) = measure(verb);
    println!("| {name:<34} | {hot:>8.1} | {spread:>8.1} |");
}

fn table(mapping: &Arc<Mapping>, mode: SyncMode) {
    let title = format!("verb (sync words: {mode})");
    println!("\n| {title:<34} | {:>8} | {:>8} |", "hot ns", "spread");
    println!("|---|---:|---:|");
    let cx = &Cx::new(Native::with_sync_mode(mapping.clone(), mode), HostId(0), WorkerId(0), 1);
    report("(the loop itself)", |at| {
        black_box(at);
    });
    report("load", |at| {
        black_box(cx.load(SyncAddr::new(at)));
    });
    report("store", |at| cx.store(SyncAddr::new(at), at));
    report("store + fence", |at| {
        cx.store(SyncAddr::new(at), at);
        cx.fence();
    });
    report("compare_exchange", |at| {
        let seen = cx.load(SyncAddr::new(at));
        let _ = black_box(cx.compare_exchange(SyncAddr::new(at), seen, seen + 1));
    });
    if mode == SyncMode::Pcc {
        return;
    }
    for len in [8, 64, 100, 1024] {
        let (bytes, mut out) = (vec![1; len], vec![0; len]);
        let out = std::cell::RefCell::new(&mut out);
        report(&format!("write {len} B"), |at| cx.write(DataAddr::new(at), black_box(&bytes)));
        report(&format!("read {len} B"), |at| cx.read(DataAddr::new(at), &mut out.borrow_mut()));
        report(&format!("publish {len} B"), |at| cx.publish(DataAddr::new(at), black_box(&bytes)));
        report(&format!("refresh {len} B"), |at| cx.refresh(DataAddr::new(at), &mut out.borrow_mut()));
    }
    report("fence", |_| cx.fence());
    report("now_ns", |_| {
        black_box(cx.now_ns());
    });
    report("(the system's clock)", |_| {
        black_box(Instant::now());
    });
    cx.store(SyncAddr::new(0), 0);
    report("pause (after it stopped spinning)", |_| cx.pause());
}

fn main() {
    let spec: MemorySpec = match std::env::args().nth(1).as_deref().unwrap_or("memfd").parse() {
        Ok(spec) => spec,
        Err(error) => return eprintln!("verb_costs: {error}"),
    };
    let mapping = match spec.create(BYTES) {
        Ok(mapping) => mapping,
        Err(error) => return eprintln!("verb_costs: {error}"),
    };
    // The first touch of every page is the system's cost, not the verbs'.
    let cx = Cx::new(Native::new(mapping.clone()), HostId(0), WorkerId(0), 1);
    (0..BYTES / 4096).for_each(|page| cx.write(DataAddr::new(page * 4096), &[1]));
    println!("memory {spec}, {} MiB; {}", BYTES >> 20, CacheInstructions::detect());
    for mode in [SyncMode::Hwcc, SyncMode::Pcc] {
        table(&mapping, mode);
    }
}
