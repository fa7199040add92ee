//! Which transactions of a host wait for which others, to find cycles: transactions that hold a lock while
//! they wait for another wait for ever if each waits for the next.
//!
//! Who waits writes down for whom, and then looks whether these wait for it, by way of others or themselves.
//! Whoever closes a cycle sees all of it, as each has written before it looked. A transaction that waits for
//! another host is in no cycle that is seen here.
//!
//! A cycle that is seen is a guess: somebody may have what it waits for by now, and not have looked. Where
//! not more depends on it than how long somebody waits, whoever sees it gives up, and the others go on
//! ([`Edge::is_in_cycle`]). It is one ([`Edge::is_stuck`]) when everybody in it has looked again in the same
//! wait since it was seen: then each was waiting for the next while that waited, and locks last to the end of
//! a transaction. Of those in a cycle the one with the highest number gives up. One in which somebody waits
//! for a while only ends by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::transactions::Holder;

/// A holder: those that it waits for, a bit each; and which of its waits that is (upper half), whether it
/// waits as long as it takes ([`LASTS`]), and how often it has looked.
#[derive(Default, Debug)]
struct Node {
    waits: AtomicU32,
    look: AtomicU32,
}

const LASTS: u32 = 1 << 15;
const LOOKS: u32 = LASTS - 1;
const WAIT: u32 = !(LASTS | LOOKS);

/// By holder: those that it waits for.
#[derive(Clone, Debug)]
pub(crate) struct WaitGraph(Arc<[Node]>);

impl WaitGraph {
    /// Of so many holders.
    pub fn new(holders: u8) -> Self {
        Self((0..holders).map(|_| Node::default()).collect())
    }

    /// Notes for whom a transaction waits, until the answer is dropped.
    pub fn wait(&self, holder: Holder, others: u32) -> Edge<'_> {
        debug_assert_eq!(others & holder.bit(), 0, "nobody waits for itself");
        self.begin(holder, others, 0)
    }

    /// The same of one that waits as long as it takes.
    pub fn lasting(&self, holder: Holder, others: u32) -> Edge<'_> {
        self.begin(holder, others, LASTS)
    }

    fn begin(&self, holder: Holder, others: u32, lasts: u32) -> Edge<'_> {
        let node = &self.0[holder.index()];
        let before = node.look.load(Ordering::Relaxed);
        node.look.store((before & WAIT).wrapping_add(2 * LASTS) | lasts, Ordering::SeqCst);
        node.waits.store(others, Ordering::SeqCst);
        Edge { graph: self, holder, others, seen: Vec::new() }
    }

    /// Those that a holder waits for as long as it takes.
    fn waits_on(&self, holder: u32) -> u32 {
        let lasts =
            self.0.get(holder as usize).is_some_and(|node| node.look.load(Ordering::SeqCst) & LASTS != 0);
        if lasts { self.waits(holder) } else { 0 }
    }

    fn waits(&self, holder: u32) -> u32 {
        self.0.get(holder as usize).map_or(0, |node| node.waits.load(Ordering::SeqCst))
    }
}

/// A transaction that waits for others.
#[derive(Debug)]
pub(crate) struct Edge<'c> {
    graph: &'c WaitGraph,
    holder: Holder,
    others: u32,
    /// A cycle that was seen: who is in it, and how each had looked then.
    seen: Vec<(u32, u32)>,
}

impl Edge<'_> {
    /// Whether somebody that it waits for seems to wait for it.
    pub fn is_in_cycle(&self) -> bool {
        let (mut reached, mut seen) = (self.others, 0u32);
        while reached & !seen != 0 {
            let next = (reached & !seen).trailing_zeros();
            seen |= 1 << next;
            reached |= self.graph.waits(next);
        }
        reached & self.holder.bit() != 0
    }

    /// It has looked for its lock again. Whether it waits for itself around others, and is the one of them
    /// that gives up.
    pub fn is_stuck(&mut self) -> bool {
        let node = &self.graph.0[self.holder.index()];
        let before = node.look.load(Ordering::Relaxed);
        node.look.store((before & !LOOKS) | (before.wrapping_add(1) & LOOKS), Ordering::SeqCst);
        let now = self.cycle();
        let is_same = |(old, now): (&(u32, u32), &(u32, u32))| old.0 == now.0 && (old.1 ^ now.1) <= LOOKS;
        if now.is_empty() || now.len() != self.seen.len() || !self.seen.iter().zip(&now).all(is_same) {
            self.seen = now;
            return false;
        }
        debug_assert!(now[0].0 == self.holder.index() as u32, "the way ends where it begins: {now:?}");
        let have_all_looked = self.seen.iter().zip(&now).all(|(old, now)| old.1 != now.1);
        have_all_looked && now.iter().all(|(other, _)| *other <= self.holder.index() as u32)
    }

    /// A way back to it, itself at the end, and how each on it has looked; empty: there is none.
    fn cycle(&self) -> Vec<(u32, u32)> {
        let (me, mut from, mut seen) = (self.holder.index() as u32, [u32::MAX; 32], 0u32);
        let mut next = vec![me];
        while let Some(at) = next.pop() {
            let mut behind = self.graph.waits_on(at);
            behind &= !seen;
            seen |= behind;
            while behind != 0 {
                let other = behind.trailing_zeros();
                behind &= behind - 1;
                from[other as usize] = at;
                next.push(other);
            }
        }
        let (mut way, mut at) = (Vec::new(), me);
        while from[at as usize] != u32::MAX {
            way.push((at, self.graph.0[at as usize].look.load(Ordering::SeqCst)));
            at = from[at as usize];
            debug_assert!(way.len() <= 32, "each once: {way:?}");
            if at == me {
                return way;
            }
        }
        Vec::new()
    }

    /// Whether it waits for these.
    pub fn is_for(&self, others: u32) -> bool {
        self.others == others
    }
}

impl Drop for Edge<'_> {
    fn drop(&mut self) {
        self.graph.0[self.holder.index()].waits.store(0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use liger_fabric::WorkerId;

    use super::*;

    #[test]
    fn whoever_closes_a_cycle_sees_it() {
        let (graph, of) = (WaitGraph::new(5), |worker| Holder::of(WorkerId(worker)));
        let first = graph.wait(of(0), 0b00010);
        let second = graph.wait(of(1), 0b01100);
        assert!(!first.is_in_cycle() && !second.is_in_cycle(), "2 and 3 wait for nobody");
        let third = graph.wait(of(3), 0b10001);
        assert!(third.is_in_cycle(), "3 for 0, 0 for 1, 1 for 3");
        drop(third);
        assert!(!first.is_in_cycle() && !second.is_in_cycle());
        assert!(graph.wait(of(2), 0b00001).is_in_cycle());
        drop(second);
        assert!(!graph.wait(of(2), 0b00001).is_in_cycle());
    }

    #[test]
    fn a_cycle_is_one_when_all_have_looked_again() {
        let (graph, of) = (WaitGraph::new(5), |worker| Holder::of(WorkerId(worker)));
        let (mut first, mut last) = (graph.lasting(of(1), 0b01000), graph.lasting(of(3), 0b00010));
        assert!(!last.is_stuck() && !last.is_stuck(), "1 has not looked");
        assert!(!first.is_stuck() && !first.is_stuck(), "3 has the higher number");
        assert!(last.is_stuck());
        // 1 has got what it wanted, and waits for something else.
        drop(first);
        assert!(!last.is_stuck());
        let mut first = graph.lasting(of(1), 0b01000);
        assert!(!last.is_stuck() && !first.is_stuck() && last.is_stuck());
        drop(first);
        let mut first = graph.lasting(of(1), 0b01000);
        assert!(!first.is_stuck() && !last.is_stuck(), "another wait than that which was seen");
        // Somebody beside the way, and a longer one.
        let beside = graph.lasting(of(0), 0b01010);
        assert!(!first.is_stuck() && last.is_stuck());
        drop((first, beside));
        let (mut first, mut second) = (graph.lasting(of(1), 0b00101), graph.lasting(of(2), 0b01000));
        assert!(!first.is_stuck() && !second.is_stuck() && !last.is_stuck());
        assert!(!first.is_stuck() && !second.is_stuck() && last.is_stuck());
        // Who gives up by itself is in the way of nobody.
        drop(second);
        let mut second = graph.wait(of(2), 0b01000);
        for _ in 0..3 {
            assert!(!first.is_stuck() && !second.is_stuck() && !last.is_stuck());
        }
    }
}
