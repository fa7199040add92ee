//! Real threads as workers of several hosts: the races are real, the memory is coherent.
#![expect(clippy::disallowed_methods, reason = "threads are what these tests are about")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use liger_pod::plan::{PartitionId, PodConfig};
use liger_pod::testing::TestPod;
use liger_store::bwtree::{BwTree, Entries, Trace};

use crate::kit::Host;

const HOSTS: u8 = 3;
const MEMBERS: u16 = 0b111;

fn pod() -> TestPod {
    TestPod::new(&PodConfig { cxl_bytes: 64 << 20, ..PodConfig::small(HOSTS, 2) })
}

/// One host changes a moving range; the others see only values that were current during their call.
#[test]
fn readers_of_other_hosts_see_current_values() {
    const KEYS: u64 = 200;
    let pod = pod();
    let tree = BwTree::new(pod.plan.directory(0, PartitionId(0)), 1).with_limits(6, 3);
    let cx = pod.cx(0, 0);
    let owner = Host::new(&cx, &pod.plan, 512);
    tree.create(&cx, &owner.tree()).unwrap();
    // Of each key: twice the number of its changes begun, plus one while one is going on. Value = that of its
    // insert.
    let states: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let cx = pod.cx(0, 0);
            let mut present = vec![false; KEYS as usize];
            for step in 0..60_000u64 {
                let number = (cx.random_below(40) + step / 100) % KEYS;
                let state = &states[number as usize];
                let begun = state.load(Ordering::SeqCst) + 1;
                state.store(begun, Ordering::SeqCst);
                let here = &mut present[number as usize];
                if *here {
                    let value = tree.remove(&cx, &owner.tree(), &[number]).unwrap();
                    assert_eq!(value, Some(begun - 1));
                } else {
                    assert_eq!(tree.insert(&cx, &owner.tree(), &[number], begun + 1), Ok(true));
                }
                *here = !*here;
                state.store(begun + 1, Ordering::SeqCst);
                if step % 32 == 0 {
                    owner.collect(&cx, MEMBERS);
                }
            }
            done.store(true, Ordering::SeqCst);
        });
        for reader in 1..HOSTS {
            let (pod, states, done) = (&pod, &states, &done);
            scope.spawn(move || {
                let cx = pod.cx(reader, 0);
                let host = Host::new(&cx, &pod.plan, 64);
                let (mut out, mut trace) = (Entries::default(), Trace::new());
                while !done.load(Ordering::SeqCst) {
                    let number = cx.random_below(KEYS);
                    let before = states[number as usize].load(Ordering::SeqCst);
                    let found = tree.get(&cx, &host.tree(), &[number]).unwrap();
                    let after = states[number as usize].load(Ordering::SeqCst);
                    // States 4n + 2 are present with that value, 4n absent.
                    match found {
                        Some(value) => assert!(
                            value % 4 == 2 && value + 1 >= before && value <= after + 1,
                            "key {number}: {value} between {before} and {after}"
                        ),
                        None => assert!(
                            (before..=after).any(|s| s % 4 != 2),
                            "key {number}: absent between {before} and {after}"
                        ),
                    }
                    out.clear();
                    trace.clear();
                    tree.scan(&cx, &host.tree(), &[number], None, 20, &mut out, &mut trace).unwrap();
                    assert!(out.keys.is_sorted() && out.keys.first().is_none_or(|k| *k >= number));
                    host.collect(&cx, MEMBERS);
                }
            });
        }
    });
    let census = tree.check(&cx, &owner.tree()).unwrap();
    assert_eq!(census.entries, states.iter().filter(|s| s.load(Ordering::SeqCst) % 4 == 2).count() as u64);
}

/// All hosts change interleaved keys; each key is changed by one worker, which so knows what every call must
/// say.
#[test]
fn writers_of_several_hosts_do_not_disturb_each_other() {
    for (capacity, chain, span) in [(2, 0, 60), (4, 2, 60), (6, 3, 600)] {
        let pod = pod();
        let tree = BwTree::new(pod.plan.directory(0, PartitionId(0)), 2).with_limits(capacity, chain);
        let cx = pod.cx(0, 0);
        let hosts: Vec<Host> = (0..HOSTS).map(|h| Host::new(&pod.cx(h, 0), &pod.plan, 256)).collect();
        tree.create(&cx, &hosts[0].tree()).unwrap();
        let left = AtomicU64::new(u64::from(HOSTS) * 2);
        let models: Vec<BTreeMap<u64, u64>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..HOSTS * 2)
                .map(|w| {
                    let (pod, host, left) = (&pod, &hosts[usize::from(w / 2)], &left);
                    scope.spawn(move || {
                        let cx = pod.cx(w / 2, w % 2);
                        let mut model = BTreeMap::new();
                        for step in 0..12_000u64 {
                            let number = (cx.random_below(span) + step / 200) * 6 + u64::from(w);
                            let key = [number / 16, number % 16];
                            let grow = step / 1500 % 2 == 0;
                            match cx.random_below(6) {
                                0 => {
                                    let found = tree.get(&cx, &host.tree(), &key);
                                    assert_eq!(found, Ok(model.get(&number).copied()));
                                }
                                n if (n <= 3) == grow => {
                                    let fresh = !model.contains_key(&number);
                                    assert_eq!(tree.insert(&cx, &host.tree(), &key, step), Ok(fresh));
                                    model.entry(number).or_insert(step);
                                }
                                _ => {
                                    let value = model.remove(&number);
                                    assert_eq!(tree.remove(&cx, &host.tree(), &key), Ok(value));
                                }
                            }
                            if step % 32 == 0 {
                                host.collect(&cx, MEMBERS);
                            }
                        }
                        left.fetch_sub(1, Ordering::SeqCst);
                        while left.load(Ordering::SeqCst) > 0 {
                            host.collect(&cx, MEMBERS);
                            cx.pause();
                        }
                        model
                    })
                })
                .collect();
            workers.into_iter().map(|w| w.join().unwrap()).collect()
        });
        let model: BTreeMap<u64, u64> = models.into_iter().flatten().collect();
        let (mut out, mut trace) = (Entries::default(), Trace::new());
        tree.scan(&cx, &hosts[0].tree(), &[0, 0], None, usize::MAX >> 1, &mut out, &mut trace).unwrap();
        let found: Vec<(u64, u64)> = out.iter().map(|(k, v)| (k[0] * 16 + k[1], v)).collect();
        assert!(found.into_iter().eq(model.iter().map(|(k, v)| (*k, *v))));
        for number in model.keys() {
            let key = [number / 16, number % 16];
            assert_eq!(tree.remove(&cx, &hosts[0].tree(), &key), Ok(model.get(number).copied()));
        }
        let census = tree.check(&cx, &hosts[0].tree()).unwrap();
        assert_eq!((census.entries, census.leaves), (0, 1), "{census:?}");
        let used = census.words[1..].iter().map(|word| word.offset());
        let used = used.chain(census.records.iter().map(|(at, _)| at.offset())).collect();
        let cxs: Vec<_> = (0..HOSTS).map(|h| pod.cx(h, 0)).collect();
        while hosts.iter().zip(&cxs).any(|(host, cx)| host.epochs.backlog(cx) > 0) {
            hosts.iter().zip(&cxs).for_each(|(host, cx)| {
                host.collect(cx, MEMBERS);
            });
        }
        for (host, cx) in hosts.iter().zip(&cxs) {
            let audit = host.heap.audit(cx, &used);
            assert!(audit.is_clean(), "{audit:?}");
        }
    }
}
