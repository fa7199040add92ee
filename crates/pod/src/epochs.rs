//! Epoch reclamation for readers of out-of-place nodes (see docs/protocols/reclamation.md).

use std::marker::PhantomData;

use liger_fabric::{Cx, DataAddr, Fabric, SyncAddr};

use crate::heap::{BlockClass, Heap, WordClass};
use crate::plan::Plan;

/// One host's part in the pod's epochs, shared by its workers.
pub struct Epochs {}

/// While it lives, nothing that its worker can reach is reused. Pins nest; drop it to unpin.
pub struct Pin<'a>(PhantomData<&'a Epochs>);

impl Epochs {
    /// The part of the caller's host. Call it before the host becomes a member.
    pub fn new<F: Fabric>(cx: &Cx<F>, plan: &Plan) -> Epochs {
        let _ = (cx, plan);
        Epochs {}
    }

    /// Protects what the calling worker reads from now on until the pin is dropped.
    pub fn pin<F: Fabric>(&self, cx: &Cx<F>) -> Pin<'_> {
        let _ = cx;
        Pin(PhantomData)
    }

    /// Hands over a block that the caller has just unlinked (the unlinking compare-and-swap is done): it is freed when
    /// no reader can reach it and, for a node, when no host has it cached.
    pub fn retire<F: Fabric>(&self, cx: &Cx<F>, class: BlockClass, at: DataAddr, len: usize) {
        let _ = (cx, class, at, len);
    }

    /// Hands over a sync word that the caller has just unlinked: it is freed when no reader can reach it.
    pub fn retire_word<F: Fabric>(&self, cx: &Cx<F>, class: WordClass, at: SyncAddr) {
        let _ = (cx, class, at);
    }

    /// Does this host's share of reclamation; any worker calls it from time to time, pinned or not. `members` reads the
    /// set of live hosts, bit h for host h. Returns how many retired things were freed.
    pub fn collect<F: Fabric>(&self, cx: &Cx<F>, heap: &Heap, members: impl Fn(&Cx<F>) -> u16) -> usize {
        let _ = (cx, heap, members(cx));
        0
    }

    /// Things retired by this host and not yet freed.
    pub fn backlog<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        let _ = cx;
        0
    }
}
