//! Which transactions of a host wait for which others, to find cycles: transactions that hold a lock while
//! they wait for another wait for ever if each waits for the next.
//!
//! Who waits writes down for whom, and then looks whether these wait for it, by way of others or themselves.
//! Whoever closes a cycle sees all of it, as each has written before it looked; it gives up, and the others
//! go on. A transaction that waits for another host is in no cycle that is seen here: that wait ends by
//! time.
//!
//! Nothing depends on the answer but how long somebody waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::transactions::Holder;

/// By holder: those that it waits for, a bit each.
#[derive(Clone, Debug)]
pub(crate) struct WaitGraph(Arc<[AtomicU32]>);

impl WaitGraph {
    /// Of so many holders.
    pub fn new(holders: u8) -> Self {
        Self((0..holders).map(|_| AtomicU32::new(0)).collect())
    }

    /// Notes for whom a transaction waits, until the answer is dropped.
    pub fn wait(&self, holder: Holder, others: u32) -> Edge<'_> {
        debug_assert_eq!(others & holder.bit(), 0, "nobody waits for itself");
        let place = &self.0[holder.index()];
        place.store(others, Ordering::SeqCst);
        Edge { graph: self, holder, others }
    }
}

/// A transaction that waits for others.
#[derive(Debug)]
pub(crate) struct Edge<'c> {
    graph: &'c WaitGraph,
    holder: Holder,
    others: u32,
}

impl Edge<'_> {
    /// Whether somebody that it waits for waits for it.
    pub fn is_in_cycle(&self) -> bool {
        let (mut reached, mut seen) = (self.others, 0u32);
        while reached & !seen != 0 {
            let next = (reached & !seen).trailing_zeros();
            seen |= 1 << next;
            reached |= self.graph.0.get(next as usize).map_or(0, |waits| waits.load(Ordering::SeqCst));
        }
        reached & self.holder.bit() != 0
    }

    /// Whether it waits for these.
    pub fn is_for(&self, others: u32) -> bool {
        self.others == others
    }
}

impl Drop for Edge<'_> {
    fn drop(&mut self) {
        self.graph.0[self.holder.index()].store(0, Ordering::SeqCst);
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
}
