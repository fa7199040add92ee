//! Whatever the memory of an index says, its operations end, and with an error where it makes no sense.

use liger_fabric::HostId;
use liger_fabric::native::Native;
use liger_pod::plan::{PartitionId, PodConfig};
use liger_pod::testing::{Numbers, TestPod};

use super::access::Seen;
use super::key::Target;
use super::*;

const ENTRIES: u64 = 60;

struct Host {
    cx: Cx<Native>,
    heap: Heap,
    epochs: Epochs,
    cache: NodeCache,
    unfinished: Unfinished,
}

impl Host {
    fn new(pod: &TestPod, host: u8) -> Host {
        let cx = pod.cx(host, 0);
        let (heap, epochs) = (Heap::new(&pod.plan, HostId(host), 1), Epochs::new(&cx, &pod.plan));
        Host { heap, epochs, cache: NodeCache::new(16), unfinished: Unfinished::default(), cx }
    }

    fn lent(&self) -> TreeHost<'_> {
        TreeHost { heap: &self.heap, epochs: &self.epochs, cache: &self.cache, unfinished: &self.unfinished }
    }

    fn op(&self, tree: BwTree) -> Op<'_, Native> {
        Op { cx: &self.cx, host: self.lent(), tree }
    }
}

/// A tree of three levels or more, in a pod of its own.
fn grown() -> (TestPod, Host, BwTree) {
    let pod = TestPod::new(&PodConfig { cxl_bytes: 16 << 20, ..PodConfig::small(2, 1) });
    let host = Host::new(&pod, 0);
    let tree = BwTree::new(pod.plan.directory(0, PartitionId(0)), 1).with_limits(4, 2);
    tree.create(&host.cx, &host.lent()).expect("an empty directory");
    (0..ENTRIES).for_each(|n| assert_eq!(tree.insert(&host.cx, &host.lent(), &[10 * n], n), Ok(true)));
    (pod, host, tree)
}

/// Does everything that can be done with an index; whether anything was refused as damaged.
fn use_all(host: &Host, tree: BwTree, numbers: &mut Numbers) -> bool {
    let (cx, lent) = (&host.cx, host.lent());
    let mut found = Vec::new();
    for _ in 0..2 {
        let key = [numbers.below(10 * ENTRIES + 10)];
        let (mut out, mut trace) = (Entries::default(), Trace::default());
        found.push(tree.get(cx, &lent, &key).map(drop));
        found.push(tree.scan(cx, &lent, &key, None, 20, &mut out, &mut trace));
        found.push(tree.first_at_or_after(cx, &lent, &key, &mut trace).map(drop));
        found.push(tree.last_before(cx, &lent, &key, &mut trace).map(drop));
        found.push(tree.insert(cx, &lent, &key, 1).map(drop));
        found.push(tree.remove(cx, &lent, &key).map(drop));
    }
    found.push(tree.check(cx, &lent).map(drop));
    found.iter().any(|found| matches!(found, Err(TreeError::Damaged { .. } | TreeError::NotFormatted { .. })))
}

#[test]
fn every_damaged_bit_of_a_mapping_word_is_an_error() {
    let mut numbers = Numbers(1);
    for bit in 0..64 {
        let (pod, first, tree) = grown();
        let census = tree.check(&first.cx, &first.lent()).expect("a whole tree");
        let at = census.words[numbers.below(census.words.len() as u64) as usize];
        first.cx.store(at, first.cx.load(at) ^ 1 << bit);
        // Bits of the version say nothing to who has not seen the node before.
        let is_noticed = use_all(&Host::new(&pod, 1), tree, &mut numbers);
        assert!(is_noticed || (34..63).contains(&bit), "bit {bit} of {at:?}");
    }
}

#[test]
fn mapping_words_may_say_anything() {
    let mut numbers = Numbers(2);
    for round in 0..300u64 {
        let (pod, first, tree) = grown();
        let census = tree.check(&first.cx, &first.lent()).expect("a whole tree");
        let at = census.words[numbers.below(census.words.len() as u64) as usize];
        // Live ones: of a dead one, every operation tries anew until it gives up.
        let bad = (numbers.draw() >> numbers.below(64)) | ((2 | (round % 2)) << 62);
        first.cx.store(at, bad);
        let is_noticed = use_all(&Host::new(&pod, 1), tree, &mut numbers);
        assert!(is_noticed, "{bad:#x} at {at:?}");
    }
}

/// Puts a node of the caller's making in the place of one.
fn forge(op: &Op<'_, Native>, id: u64, change: impl FnOnce(&mut Node)) {
    let seen = op.load(id).expect("a whole node").expect("a live one");
    let mut node = Node::clone(&seen.node);
    change(&mut node);
    let block = op.write(&node.encode()).expect("there is room");
    assert!(op.swap(id, seen.word, seen.word.installed(block.0)));
}

#[test]
fn links_and_entries_that_lead_to_another_level_are_errors() {
    let mut numbers = Numbers(3);
    for round in 0..200 {
        let (pod, first, tree) = grown();
        let op = first.op(tree);
        let census = tree.check(&first.cx, &first.lent()).expect("a whole tree");
        let load = |at: &SyncAddr| op.load(at.offset()).expect("a whole node").expect("a live one");
        let nodes: Vec<Seen> = census.words.iter().map(load).collect();
        let any = |numbers: &mut Numbers, fits: &dyn Fn(&Node) -> bool| {
            let fitting: Vec<&Seen> = nodes.iter().filter(|seen| fits(&seen.node)).collect();
            fitting[numbers.below(fitting.len() as u64) as usize].clone()
        };
        match round % 4 {
            0 => {
                // An inner node whose sibling is a leaf: a descent to its level finds no way down.
                let inner = any(&mut numbers, &|node| node.level > 0 && node.next != 0 && node.len() > 1);
                let leaf = any(&mut numbers, &|node| node.level == 0);
                forge(&op, inner.id(), |node| drop(node.split_off(1, leaf.id())));
                let Fence::At(end) = inner.node.high else { panic!("it has a sibling") };
                let stranger = Host::new(&pod, 1);
                let found = stranger.op(tree).descend(&Target::Before(end), inner.node.level);
                assert!(matches!(found, Err(Stop::Fail(TreeError::Damaged { .. }))), "round {round}");
            }
            1 => {
                let inner = any(&mut numbers, &|node| node.level > 0);
                let other = any(&mut numbers, &|node| node.level + 1 != inner.node.level);
                let at = numbers.below(inner.node.len() as u64) as usize;
                forge(&op, inner.id(), |node| node.values[at] = other.id());
            }
            2 => {
                let leaf = any(&mut numbers, &|node| node.level == 0 && node.next != 0);
                let inner = any(&mut numbers, &|node| node.level > 0);
                forge(&op, leaf.id(), |node| node.next = inner.id());
            }
            _ => {
                // Ids that are no words of the heap.
                let bad = [8, numbers.draw() | 1, pod.plan.len(), u64::MAX - 7][numbers.below(4) as usize];
                let inner = any(&mut numbers, &|node| node.level > 0 && node.next != 0);
                match numbers.below(2) {
                    0 => forge(&op, inner.id(), |node| node.next = bad),
                    _ => forge(&op, inner.id(), |node| node.values[0] = bad),
                }
            }
        }
        assert!(use_all(&Host::new(&pod, 1), tree, &mut numbers), "round {round}");
    }
}

#[test]
fn a_tree_that_is_destroyed_gives_everything_back_and_can_be_made_anew() {
    let (pod, first, tree) = grown();
    let second = Host::new(&pod, 1);
    assert_eq!(tree.get(&second.cx, &second.lent(), &[10]), Ok(Some(1)), "it has copies of nodes");
    let usage = first.heap.usage(&first.cx);
    assert!(usage.mapping_bytes > 0 && usage.scratch_bytes > 0, "{usage:?}");
    (0..ENTRIES / 2).for_each(|n| _ = tree.remove(&first.cx, &first.lent(), &[10 * n]).expect("an entry"));
    assert_eq!(tree.destroy(&first.cx, &first.lent()), Ok(()));
    assert_eq!(tree.destroy(&first.cx, &first.lent()), Ok(()), "there is none");
    for host in [&first, &second] {
        let gone = tree.get(&host.cx, &host.lent(), &[10]);
        assert!(matches!(gone, Err(TreeError::NotFormatted { .. })), "{gone:?}");
    }
    for _ in 0..10 {
        first.epochs.collect(&first.cx, &first.heap, |_| 0b11);
        second.epochs.collect(&second.cx, &second.heap, |_| 0b11);
    }
    let usage = first.heap.usage(&first.cx);
    assert_eq!((usage.mapping_bytes, usage.scratch_bytes), (0, 0), "all is given back");
    // Its next owner is another host.
    tree.create(&second.cx, &second.lent()).expect("the directory is empty");
    assert_eq!(tree.insert(&second.cx, &second.lent(), &[10], 7), Ok(true));
    assert_eq!(tree.get(&first.cx, &first.lent(), &[10]), Ok(Some(7)), "no copy of the old one is used");
}
