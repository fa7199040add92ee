//! What the nodes of a plan do to shared memory: `EXPLAIN (ANALYZE, COHERENCE)`.
//!
//! A worker's context counts what it does to shared memory. Whenever control passes from one node to another,
//! what has been counted since the last time is charged to the node that had it.
//!
//! Invariants:
//! 1. All that the statement's worker does between the begin and the end is charged to exactly one node, or
//!    to what is above all nodes: changes of rows, subqueries' conditions, sorting.
//! 2. A node is known by its address, which is good for as long as its plan is borrowed.
//!
//! What other workers do for it (an owner that moves a row) is not counted here.
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::store::Store;
use crate::plan::Node;
use crate::storage::access::Traffic;

/// What a node has done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    /// Rows that it gave.
    pub(crate) rows: u64,
    /// How often it began.
    pub(crate) loops: u64,
    /// What it did to shared memory.
    pub(crate) traffic: Traffic,
}

/// The address of what is above all nodes.
const TOP: usize = 0;

/// Charges what is done to nodes.
pub(crate) struct Meter {
    last: Cell<Traffic>,
    at: Cell<usize>,
    spent: RefCell<BTreeMap<usize, Spent>>,
}

impl Meter {
    /// From now on.
    pub(crate) fn new(store: &dyn Store) -> Meter {
        let (last, at) = (Cell::new(store.traffic()), Cell::new(TOP));
        Meter { last, at, spent: RefCell::default() }
    }

    fn address(node: &Node) -> usize {
        std::ptr::from_ref(node).addr()
    }

    /// Charges whoever had control, and gives it to `next`; who had it.
    fn pass(&self, store: &dyn Store, next: usize) -> usize {
        let (now, before) = (store.traffic(), self.at.replace(next));
        let since = now.since(&self.last.replace(now));
        let mut spent = self.spent.borrow_mut();
        let spent = spent.entry(before).or_default();
        spent.traffic = spent.traffic.plus(&since);
        before
    }

    /// A node begins; who is above it.
    pub(crate) fn enter(&self, store: &dyn Store, node: &Node) -> usize {
        let above = self.pass(store, Self::address(node));
        self.spent.borrow_mut().entry(Self::address(node)).or_default().loops += 1;
        above
    }

    /// It gives a row to who is above it.
    pub(crate) fn give(&self, store: &dyn Store, node: &Node, above: usize) {
        self.pass(store, above);
        self.spent.borrow_mut().entry(Self::address(node)).or_default().rows += 1;
    }

    /// It goes on.
    pub(crate) fn resume(&self, store: &dyn Store, node: &Node) {
        self.pass(store, Self::address(node));
    }

    /// It ends.
    pub(crate) fn leave(&self, store: &dyn Store, above: usize) {
        self.pass(store, above);
    }

    /// The statement has ended: what is above all nodes is charged with what came after the last of them.
    pub(crate) fn end(&self, store: &dyn Store) {
        self.pass(store, TOP);
    }

    /// What a node has done.
    pub(crate) fn of(&self, node: usize) -> Spent {
        self.spent.borrow().get(&node).copied().unwrap_or_default()
    }

    /// What all of them, and what is above them, have done.
    pub(crate) fn total(&self) -> Traffic {
        self.spent.borrow().values().fold(Traffic::default(), |sum, spent| sum.plus(&spent.traffic))
    }
}
