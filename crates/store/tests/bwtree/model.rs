//! Random operations against a `BTreeMap`.

use std::collections::BTreeMap;

use liger_fabric::{Cx, Fabric};
use liger_pod::plan::{PartitionId, PodConfig};
use liger_pod::testing::TestPod;
use liger_store::bwtree::{BwTree, Entries, Trace, TreeError};

use crate::kit::{Host, audit, key};

struct Checked<'a, F: Fabric> {
    cx: &'a Cx<F>,
    host: &'a Host,
    tree: BwTree,
    model: BTreeMap<Vec<u64>, u64>,
    next_value: u64,
}

impl<F: Fabric> Checked<'_, F> {
    fn insert(&mut self, key: &[u64]) {
        self.next_value += 1;
        let fresh = !self.model.contains_key(key);
        assert_eq!(self.tree.insert(self.cx, &self.host.tree(), key, self.next_value), Ok(fresh));
        if fresh {
            self.model.insert(key.to_vec(), self.next_value);
        }
    }

    fn remove(&mut self, key: &[u64]) {
        assert_eq!(self.tree.remove(self.cx, &self.host.tree(), key), Ok(self.model.remove(key)));
    }

    fn look(&self, key: &[u64], other: &[u64], limit: usize) {
        let host = self.host.tree();
        assert_eq!(self.tree.get(self.cx, &host, key), Ok(self.model.get(key).copied()));
        let width = self.tree.width();
        let (mut out, mut trace) = (Entries::default(), Trace::new());
        let upto = (other >= key).then_some(other);
        self.tree.scan(self.cx, &host, key, upto, limit, &mut out, &mut trace).unwrap();
        let range = self.model.range(key.to_vec()..);
        let expected: Vec<_> =
            range.take_while(|(k, _)| upto.is_none_or(|u| &k[..] < u)).take(limit).collect();
        assert!(out.iter().eq(expected.iter().map(|(k, v)| (&k[..], **v))), "{out:?} is not {expected:?}");
        assert!(!trace.is_empty() && self.tree.unchanged(self.cx, &trace));
        let words =
            |found: Option<(liger_store::bwtree::Key, u64)>| found.map(|(k, v)| (k.words(width).to_vec(), v));
        let entry = |found: Option<(&Vec<u64>, &u64)>| found.map(|(k, v)| (k.clone(), *v));
        let first = self.tree.first_at_or_after(self.cx, &host, key, &mut trace).unwrap();
        assert_eq!(words(first), entry(self.model.range(key.to_vec()..).next()));
        let last = self.tree.last_before(self.cx, &host, key, &mut trace).unwrap();
        assert_eq!(words(last), entry(self.model.range(..key.to_vec()).next_back()));
    }

    fn collect(&self) {
        self.host.collect(self.cx, 1);
    }

    fn at_rest(&self) {
        while self.host.epochs.backlog(self.cx) > 0 {
            self.collect();
        }
        let census = audit(self.cx, self.host, &self.tree);
        assert_eq!(census.entries, self.model.len() as u64);
        assert_eq!((census.removed_nodes, census.unposted_nodes), (0, 0), "{census:?}");
    }
}

fn churn(width: usize, capacity: usize, chain: usize, span: u64, steps: u64, cached_nodes: usize) {
    let pod = TestPod::new(&PodConfig::small(1, 1));
    let cx = pod.cx(0, 0);
    let host = Host::new(&cx, &pod.plan, cached_nodes);
    let tree = BwTree::new(pod.plan.directory(0, PartitionId(0)), width).with_limits(capacity, chain);
    tree.create(&cx, &host.tree()).unwrap();
    let mut c = Checked { cx: &cx, host: &host, tree, model: BTreeMap::new(), next_value: 0 };
    for step in 0..steps {
        // The tree grows and shrinks in waves, and the range of keys wanders.
        let base = step / 50;
        let some = || key(width, base + cx.random_below(span));
        let growing = (step / (steps / 6)).is_multiple_of(2);
        match cx.random_below(10) {
            0..=3 if growing => c.insert(&some()),
            0 => c.insert(&some()),
            1..=6 => c.remove(&some()),
            7 => c.look(&some(), &some(), cx.random_below(30) as usize),
            8 => c.look(&some(), &key(width, base + span), 1000),
            _ => c.collect(),
        }
        if step % 97 == 0 {
            c.at_rest();
        }
    }
    for key in c.model.keys().cloned().collect::<Vec<_>>() {
        c.remove(&key);
    }
    c.at_rest();
    let census = tree.check(&cx, &host.tree()).unwrap();
    assert_eq!((census.leaves, census.inner_nodes), (1, u64::from(census.levels) - 1), "{census:?}");
}

#[test]
fn tiny_nodes_of_every_width_follow_the_model() {
    for width in 1..=8 {
        for (capacity, chain) in [(2, 0), (3, 1), (4, 3), (7, 2)] {
            churn(width, capacity, chain, 120, 3_000, 64);
        }
    }
}

#[test]
fn usual_nodes_follow_the_model() {
    for width in [1, 3] {
        churn(width, 61, 8, 5_000, 20_000, 1000);
    }
}

#[test]
fn a_cache_that_is_too_small_changes_nothing() {
    churn(2, 4, 3, 400, 4_000, 1);
}

#[test]
fn a_queue_does_not_grow() {
    let pod = TestPod::new(&PodConfig::small(1, 1));
    let cx = pod.cx(0, 0);
    let host = Host::new(&cx, &pod.plan, 256);
    for rising in [true, false] {
        let tree = BwTree::new(pod.plan.directory(u16::from(rising), PartitionId(0)), 1).with_limits(8, 3);
        tree.create(&cx, &host.tree()).unwrap();
        let number = |i: u64| if rising { i } else { 1 << 40 } - if rising { 0 } else { i };
        for i in 0..30_000 {
            assert_eq!(tree.insert(&cx, &host.tree(), &[number(i)], i), Ok(true));
            if i >= 100 {
                assert_eq!(tree.remove(&cx, &host.tree(), &[number(i - 100)]), Ok(Some(i - 100)));
            }
            if i % 64 == 0 {
                host.collect(&cx, 1);
            }
            if i % 1000 == 999 {
                let census = tree.check(&cx, &host.tree()).unwrap();
                assert!(census.leaves <= 40 && census.inner_nodes <= 30, "after {i}: {census:?}");
            }
        }
        for i in 29_900..30_000 {
            assert_eq!(tree.remove(&cx, &host.tree(), &[number(i)]), Ok(Some(i)));
        }
        let census = tree.check(&cx, &host.tree()).unwrap();
        assert_eq!((census.leaves, census.entries), (1, 0));
    }
}

#[test]
fn without_memory_nothing_changes_and_nothing_leaks() {
    let pod = TestPod::new(&PodConfig { cxl_bytes: 256 << 10, ..PodConfig::small(1, 1) });
    let cx = pod.cx(0, 0);
    let host = Host::new(&cx, &pod.plan, 256);
    let tree = BwTree::new(pod.plan.directory(0, PartitionId(0)), 8).with_limits(6, 2);
    tree.create(&cx, &host.tree()).unwrap();
    let mut c = Checked { cx: &cx, host: &host, tree, model: BTreeMap::new(), next_value: 0 };
    let mut full = 0;
    for step in 0..3_000u64 {
        let key = key(8, cx.random_below(100_000));
        match tree.insert(&cx, &host.tree(), &key, step) {
            Ok(fresh) => assert_eq!(c.model.insert(key, step).is_none(), fresh),
            Err(TreeError::OutOfMemory(_)) => full += 1,
            Err(error) => panic!("{error}"),
        }
        if step % 16 == 0 {
            c.collect();
        }
    }
    assert!(full > 10, "the memory was meant to run out");
    while host.epochs.backlog(&cx) > 0 {
        c.collect();
    }
    let census = audit(&cx, &host, &tree);
    assert_eq!(census.entries, c.model.len() as u64);
    for (key, value) in &c.model {
        assert_eq!(tree.get(&cx, &host.tree(), key), Ok(Some(*value)));
    }
}

#[test]
fn misuse_and_damage_are_errors() {
    let pod = TestPod::new(&PodConfig::small(1, 1));
    let cx = pod.cx(0, 0);
    let host = Host::new(&cx, &pod.plan, 16);
    let tree = BwTree::new(pod.plan.directory(0, PartitionId(0)), 2);
    let root = tree.root().offset();
    assert_eq!(tree.get(&cx, &host.tree(), &[1, 2]), Err(TreeError::NotFormatted { root }));
    tree.create(&cx, &host.tree()).unwrap();
    assert_eq!(tree.create(&cx, &host.tree()), Err(TreeError::Exists { root }));
    assert_eq!(tree.get(&cx, &host.tree(), &[1]), Err(TreeError::KeyWidth { given: 1, width: 2 }));
    tree.insert(&cx, &host.tree(), &[1, 2], 3).unwrap();
    let stranger = Host { cache: liger_store::bwtree::NodeCache::new(16), ..Host::new(&cx, &pod.plan, 16) };
    let census = tree.check(&cx, &host.tree()).unwrap();
    for (place, len) in census.records {
        let mut bytes = vec![0; len];
        cx.read(place, &mut bytes);
        for at in 0..len {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            cx.write(place, &bad);
            let host =
                Host { cache: liger_store::bwtree::NodeCache::new(16), ..Host::new(&cx, &pod.plan, 16) };
            let found = tree.get(&cx, &host.tree(), &[1, 2]);
            assert!(matches!(found, Err(TreeError::Damaged { .. })), "byte {at}: {found:?}");
        }
        cx.write(place, &bytes);
    }
    assert_eq!(tree.get(&cx, &stranger.tree(), &[1, 2]), Ok(Some(3)));
}
