//! Which host owns which partition, as this host knows it, and which hosts are dead.
//!
//! Invariants:
//! 1. A partition changes hands when its owner is dead, or has released it: then its next owner says so in
//!    the pod's word, and every host follows when it next looks.
//! 2. A partition of this host is closed while it changes hands here: no transaction begins to use it, as
//!    somebody else's or as its own. While it is given away other hosts get nothing of it either.
//! 3. A host is known to be dead before the rows of this host are swept of it, and until it is seen in a new
//!    incarnation.

use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::membership::Slot;
use liger_pod::owner::Owner;
use liger_pod::plan::{MAX_HOSTS, PartitionId, Plan};

/// Set while a partition changes hands here; both, while this host gives it away.
const CLOSED: u32 = 1 << 31;
const GIVEN: u32 = 1 << 30;
/// The incarnation of an owner that has not come yet.
const TO_COME: u16 = u16::MAX;

/// What this host knows of owners.
pub(crate) struct Owners {
    /// By partition: the host that it was made for.
    homes: Vec<HostId>,
    /// By partition: 0..8 host, 8..24 its incarnation, 30 given away, 31 closed.
    now: Vec<AtomicU32>,
    /// By host: its last incarnation that is known to be dead.
    fenced: [AtomicU32; MAX_HOSTS],
    /// Hosts that are dead now, bit h for host h.
    down: AtomicU16,
    /// By host: its last incarnation that was seen to serve no more, whether it died or left.
    over: [AtomicU32; MAX_HOSTS],
}

fn encode(owner: Owner) -> u32 {
    u32::from(owner.host.0) | u32::from(owner.incarnation) << 8
}

fn decode(word: u32) -> Owner {
    Owner { host: HostId(word as u8), incarnation: (word >> 8) as u16 }
}

impl Owners {
    /// What the pod says when `me` joins. What was made for it and is nobody's becomes its own.
    pub fn new<F: Fabric>(cx: &Cx<F>, plan: &Plan, me: Slot) -> Self {
        let mine = Owner { host: me.host, incarnation: me.incarnation };
        let owner = |partition: PartitionId| {
            let home = plan.home(partition);
            let mut now = Owner::load(cx, plan, partition);
            while now.map_or(home, |owner| owner.host) == me.host {
                if mine.publish(cx, plan, partition) {
                    return mine;
                }
                // It had released it before it left, and somebody has come for it.
                now = Owner::load(cx, plan, partition);
            }
            now.unwrap_or(Owner { host: home, incarnation: TO_COME })
        };
        let now = plan.partitions().map(|p| AtomicU32::new(encode(owner(p)))).collect();
        let (fenced, over) = Default::default();
        let homes = plan.partitions().map(|partition| plan.home(partition)).collect();
        Self { homes, now, fenced, down: AtomicU16::new(0), over }
    }

    /// The host that a partition was made for.
    pub fn home(&self, partition: PartitionId) -> HostId {
        self.homes[partition.index()]
    }

    /// The owner of a partition.
    #[inline]
    pub fn of(&self, partition: PartitionId) -> Owner {
        decode(self.now[partition.index()].load(Ordering::Relaxed))
    }

    /// The incarnation that owns a partition, looked up if it had not come when this host last looked.
    /// `None`: it has not come yet.
    pub fn now<F: Fabric>(&self, cx: &Cx<F>, plan: &Plan, partition: PartitionId) -> Option<Owner> {
        let place = &self.now[partition.index()];
        let word = place.load(Ordering::SeqCst);
        let known = decode(word);
        if known.incarnation != TO_COME {
            return Some(known);
        }
        let now = Owner::load(cx, plan, partition)?;
        // Unless the failure detector has fenced it meanwhile.
        let found = encode(now) | word & (CLOSED | GIVEN);
        let _ = place.compare_exchange(word, found, Ordering::SeqCst, Ordering::SeqCst);
        Some(now)
    }

    /// True if this incarnation was seen to serve no more.
    #[inline]
    pub fn is_over(&self, owner: Owner) -> bool {
        u32::from(owner.incarnation) <= self.over[usize::from(owner.host.0)].load(Ordering::Relaxed)
    }

    /// Notes that this incarnation serves no more.
    pub fn note_over(&self, owner: Owner) {
        debug_assert_ne!(owner.incarnation, TO_COME, "an incarnation that has not come does not end");
        self.over[usize::from(owner.host.0)].fetch_max(owner.incarnation.into(), Ordering::Relaxed);
    }

    /// True while the partition changes hands here. (A transaction that has not seen it is waited for.)
    #[inline]
    pub fn is_closed(&self, partition: PartitionId) -> bool {
        self.now[partition.index()].load(Ordering::SeqCst) & CLOSED != 0
    }

    /// Closes a partition that this host is about to own.
    pub fn close(&self, partition: PartitionId) {
        self.now[partition.index()].fetch_or(CLOSED, Ordering::SeqCst);
    }

    /// Closes a partition of this host, which is about to give it away.
    pub fn give(&self, partition: PartitionId) {
        debug_assert!(!self.is_closed(partition), "what changes hands is not given away");
        self.now[partition.index()].fetch_or(CLOSED | GIVEN, Ordering::SeqCst);
    }

    /// True while this host gives a partition away.
    #[inline]
    pub fn is_given(&self, partition: PartitionId) -> bool {
        self.now[partition.index()].load(Ordering::SeqCst) & GIVEN != 0
    }

    /// A partition that was closed stays where it is: it is open again.
    pub fn reopen(&self, partition: PartitionId) {
        debug_assert!(self.is_closed(partition), "what is open is not opened");
        self.now[partition.index()].fetch_and(!(CLOSED | GIVEN), Ordering::SeqCst);
    }

    /// Says that this host owns a partition, which stays closed for its own transactions.
    pub fn set_closed(&self, partition: PartitionId, owner: Owner) {
        debug_assert!(self.is_closed(partition), "who takes {partition:?} has closed it");
        debug_assert_ne!(owner.incarnation, TO_COME, "an owner has an incarnation");
        self.now[partition.index()].store(encode(owner) | CLOSED, Ordering::SeqCst);
    }

    /// Says who owns a partition, and opens it.
    pub fn set(&self, partition: PartitionId, owner: Owner) {
        debug_assert_ne!(owner.incarnation, TO_COME, "an owner has an incarnation");
        self.now[partition.index()].store(encode(owner), Ordering::SeqCst);
    }

    /// True if the owner of a partition is dead.
    #[inline]
    pub fn is_orphan(&self, partition: PartitionId) -> bool {
        let owner = self.of(partition);
        let fenced = self.fenced[usize::from(owner.host.0)].load(Ordering::Relaxed);
        owner.incarnation != TO_COME && u32::from(owner.incarnation) <= fenced
    }

    /// Remembers that an incarnation is over, and that what was to be its own is an orphan.
    pub fn fence<F: Fabric>(&self, cx: &Cx<F>, plan: &Plan, dead: Slot) {
        for partition in plan.partitions() {
            if self.of(partition) == (Owner { host: dead.host, incarnation: TO_COME }) {
                let gone = Owner { host: dead.host, incarnation: dead.incarnation };
                let last = Owner::load(cx, plan, partition).unwrap_or(gone);
                // It may be about to become this host's: handed over, with nothing asked of its owner before.
                let found = |word: u32| Some(encode(last) | word & (CLOSED | GIVEN));
                let place = &self.now[partition.index()];
                let _ = place.fetch_update(Ordering::SeqCst, Ordering::SeqCst, found);
            }
        }
        let before = self.fenced[usize::from(dead.host.0)].swap(dead.incarnation.into(), Ordering::SeqCst);
        debug_assert!(before <= dead.incarnation.into(), "incarnations end in their order");
        self.down.fetch_or(1 << dead.host.0, Ordering::SeqCst);
    }

    /// True if this incarnation, or a later one, is known to be dead.
    pub fn is_fenced(&self, host: HostId, incarnation: u16) -> bool {
        u32::from(incarnation) <= self.fenced[usize::from(host.0)].load(Ordering::SeqCst)
    }

    /// True if a host is dead and has not come back.
    #[inline]
    pub fn is_down(&self, host: HostId) -> bool {
        self.down.load(Ordering::Relaxed) >> host.0 & 1 != 0
    }

    /// Notes that a host is there in a later incarnation.
    pub fn is_back(&self, host: HostId) {
        self.down.fetch_and(!(1 << host.0), Ordering::SeqCst);
    }

    /// The new owner of an orphan, or of a partition that its owner has given away, if it has one by now.
    pub fn next<F: Fabric>(&self, cx: &Cx<F>, plan: &Plan, partition: PartitionId) -> Option<Owner> {
        if self.is_closed(partition) && !self.is_given(partition) {
            return None;
        }
        let (known, now) = (self.of(partition), Owner::load(cx, plan, partition)?);
        let has_gone = self.is_orphan(partition) || known.incarnation != TO_COME && now.host != known.host;
        (has_gone && now != known).then_some(now)
    }
}
