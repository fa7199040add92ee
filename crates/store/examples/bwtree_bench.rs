//! Speed and size of the shared-tuple index on this machine's memory (no CXL latency, no incoherence). Times
//! are of the processor, so that other load on the machine does not count.
//!
//! ```text
//! cargo run --release -p liger-store --example bwtree_bench -- [keys]
//! ```
#![expect(clippy::disallowed_methods, reason = "a benchmark starts threads")]

use liger_fabric::native::{Mapping, Native};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::epochs::Epochs;
use liger_pod::heap::Heap;
use liger_pod::plan::{PartitionId, Plan, PodConfig};
use liger_store::bwtree::{BwTree, Entries, NodeCache, Trace, TreeHost, Unfinished};

const THREADS: u8 = 2;

/// Nanoseconds that this thread has spent on a processor.
fn cpu_ns() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux scheduler statistics");
    stat.split(' ').next().expect("a field").parse().expect("nanoseconds")
}

fn main() {
    let keys: u64 = std::env::args().nth(1).map_or(1_000_000, |n| n.parse().expect("a number of keys"));
    let plan = Plan::new(&PodConfig::new(2, THREADS, 16 << 20, 2 << 30)).expect("plan");
    let mapping = Mapping::anonymous(plan.len() as usize).expect("memory");
    let cx = |host, worker| Cx::new(Native::new(mapping.clone()), HostId(host), WorkerId(worker), 7);
    let hosts: Vec<(Heap, Epochs, NodeCache, Unfinished)> = (0..2)
        .map(|h| {
            let cx = cx(h, 0);
            let cache = NodeCache::new(keys as usize / 16);
            (Heap::new(&plan, cx.host(), 1), Epochs::new(&cx, &plan), cache, Unfinished::default())
        })
        .collect();
    let host = |h: usize| {
        let (heap, epochs, cache, unfinished) = &hosts[h];
        TreeHost { heap, epochs, cache, unfinished }
    };
    let owner = cx(0, 0);
    let collect = || {
        for (h, (heap, epochs, ..)) in hosts.iter().enumerate() {
            epochs.collect(&cx(h as u8, 0), heap, |_| 0b11);
        }
    };

    println!(
        "order     width  insert_ns  get_ns  get_ns_{THREADS}_threads  cold_us  scan20_ns  \
            hwcc_bytes/key  cxl_bytes/key"
    );
    for (table, (order, width)) in [("rising", 1), ("random", 1), ("random", 3)].into_iter().enumerate() {
        let tree = BwTree::new(plan.directory(table as u16, PartitionId(0)), width);
        tree.create(&owner, &host(0)).expect("create");
        let key = |i: u64| {
            let mixed = if order == "rising" { i } else { i.wrapping_mul(0x9e37_79b9_7f4a_7c15) };
            let mut words = [0; 3];
            words[width - 1] = mixed;
            words
        };
        let before = hosts[0].0.usage(&owner);
        let start = cpu_ns();
        for i in 0..keys {
            assert!(tree.insert(&owner, &host(0), &key(i)[..width], i).expect("insert"));
            if i % 256 == 0 {
                collect();
            }
        }
        let insert_ns = (cpu_ns() - start) / keys as f64;
        while hosts[0].1.backlog(&owner) > 0 {
            collect();
        }
        let after = hosts[0].0.usage(&owner);

        let reads = keys.min(1_000_000);
        let lookups = |h: u8, worker: u8| {
            let cx = cx(h, worker);
            let start = cpu_ns();
            for _ in 0..reads {
                let i = cx.random_below(keys);
                assert_eq!(tree.get(&cx, &host(h.into()), &key(i)[..width]), Ok(Some(i)));
            }
            (cpu_ns() - start) / reads as f64
        };
        let reader = cx(1, 0);
        let start = cpu_ns();
        let cold = 2_000;
        for _ in 0..cold {
            let i = reader.random_below(keys);
            tree.get(&reader, &host(1), &key(i)[..width]).expect("get");
        }
        let cold_us = (cpu_ns() - start) / cold as f64 / 1e3;
        lookups(1, 0);
        let get_ns = lookups(1, 0);
        let together = std::thread::scope(|scope| {
            let lookups = &lookups;
            let threads: Vec<_> = (0..THREADS).map(|w| scope.spawn(move || lookups(1, w))).collect();
            threads.into_iter().map(|t| t.join().expect("thread")).sum::<f64>() / f64::from(THREADS)
        });
        let (mut out, mut trace) = (Entries::default(), Trace::new());
        let start = cpu_ns();
        for _ in 0..reads / 10 {
            let i = reader.random_below(keys);
            out.clear();
            trace.clear();
            tree.scan(&reader, &host(1), &key(i)[..width], None, 20, &mut out, &mut trace).expect("scan");
        }
        let scan_ns = (cpu_ns() - start) / (reads / 10) as f64;
        println!(
            "{order:<9} {width:>5} {insert_ns:>10.0} {get_ns:>7.0} {together:>17.0} {cold_us:>8.2} \
                {scan_ns:>10.0} {:>15.3} {:>14.1}",
            (after.mapping_bytes - before.mapping_bytes) as f64 / keys as f64,
            (after.scratch_bytes - before.scratch_bytes) as f64 / keys as f64,
        );
    }
}
