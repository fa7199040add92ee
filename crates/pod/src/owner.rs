//! Who owns a partition, and who is to own it next: one word each (docs/protocols/handover.md).
//!
//! ```text
//! 63 = 1 | 0..8 host | 8..24 its incarnation | 24..29 next owner + 1, 0 = nobody | 29 released
//! 30..62 the lower half of the epoch of the release
//! ```
//!
//! Invariants:
//! 1. A word changes by a compare-and-swap of all of it: of two who change it one wins, and knows it.
//! 2. Two releases of a partition differ: each is in an epoch of its own. So who has read the files of one
//!    cannot take the partition as it is after another one.

use liger_fabric::{Cx, Fabric, HostId};

use crate::plan::{MAX_HOSTS, PartitionId, Plan};

const SET: u64 = 1 << 63;
const RELEASED: u64 = 1 << 29;

const _: () = assert!(MAX_HOSTS < 31, "the next owner has five bits");

/// A host that owns a partition, in one incarnation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The host.
    pub host: HostId,
    /// Its incarnation.
    pub incarnation: u16,
}

impl Owner {
    /// The owner of a partition; none before the host that it was made for has come.
    pub fn load<F: Fabric>(cx: &Cx<F>, plan: &Plan, partition: PartitionId) -> Option<Self> {
        Ownership::load(cx, plan, partition).map(|ownership| ownership.owner)
    }

    /// Makes this the owner; false if somebody else has become it meanwhile. Only the host itself, of a
    /// partition that is nobody's, its own of an earlier incarnation, or a dead host's whose successor it is
    /// and which is to go to nobody else ([`Ownership::calm`]).
    pub fn publish<F: Fabric>(self, cx: &Cx<F>, plan: &Plan, partition: PartitionId) -> bool {
        let mut seen = Ownership::load(cx, plan, partition);
        loop {
            let to = Ownership { owner: self, next: None, released: None };
            let Err(now) = Ownership::exchange(cx, plan, partition, (seen, to)) else { return true };
            if now.map(|now| now.owner) != seen.map(|seen| seen.owner) {
                return false;
            }
            seen = now;
        }
    }
}

/// What the pod says of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ownership {
    /// Whose it is.
    pub owner: Owner,
    /// Who is to have it.
    pub next: Option<HostId>,
    /// The owner has nothing of it in shared memory, and all logs have all of it: the lower half of the epoch
    /// up to which they do.
    pub released: Option<u32>,
}

impl Ownership {
    /// That of a partition; none before the host that it was made for has come.
    pub fn load<F: Fabric>(cx: &Cx<F>, plan: &Plan, partition: PartitionId) -> Option<Self> {
        Self::decode(cx.load(plan.owner(partition)))
    }

    /// Makes `self` into `to`; false if it is something else by now.
    pub fn swap<F: Fabric>(self, cx: &Cx<F>, plan: &Plan, partition: PartitionId, to: Self) -> bool {
        debug_assert!(
            to.released.is_none() || self.next.is_some() && to.owner == self.owner,
            "{self:?} does not become {to:?}: a partition is released for somebody, and by its owner"
        );
        Self::exchange(cx, plan, partition, (Some(self), to)).is_ok()
    }

    /// Asks the owner of a partition to hand it over to `next`; false if it is `next`'s, or somebody is to
    /// have it already.
    pub fn want<F: Fabric>(cx: &Cx<F>, plan: &Plan, partition: PartitionId, next: HostId) -> bool {
        let calm = Self::load(cx, plan, partition).filter(|it| it.is_calm() && it.owner.host != next);
        calm.is_some_and(|it| it.swap(cx, plan, partition, Self { next: Some(next), ..it }))
    }

    /// Nobody is to have the partition any more, where this is a dead owner's; what the pod says then.
    pub fn calm<F: Fabric>(cx: &Cx<F>, plan: &Plan, partition: PartitionId, dead: Owner) -> Option<Self> {
        let mut seen = Self::load(cx, plan, partition)?;
        while seen.owner == dead && (seen.next.is_some() || seen.released.is_some()) {
            let calm = Self { next: None, released: None, ..seen };
            seen = match Self::exchange(cx, plan, partition, (Some(seen), calm)) {
                Ok(()) => calm,
                Err(now) => now?,
            };
        }
        Some(seen)
    }

    /// True if the owner has been asked to hand the partition over, and has not released it yet.
    pub fn is_wanted(self) -> bool {
        self.next.is_some() && self.released.is_none()
    }

    /// True if it is to stay where it is.
    pub fn is_calm(self) -> bool {
        self.next.is_none() && self.released.is_none()
    }

    fn exchange<F: Fabric>(
        cx: &Cx<F>,
        plan: &Plan,
        partition: PartitionId,
        (from, to): (Option<Self>, Self),
    ) -> Result<(), Option<Self>> {
        let swapped = cx.compare_exchange(plan.owner(partition), from.map_or(0, Self::encode), to.encode());
        swapped.map(drop).map_err(Self::decode)
    }

    fn encode(self) -> u64 {
        let Self { owner, next, released } = self;
        let host = u64::from(owner.host.0) | u64::from(owner.incarnation) << 8;
        let next = next.map_or(0, |next| u64::from(next.0) + 1) << 24;
        let released = released.map_or(0, |epoch| RELEASED | u64::from(epoch) << 30);
        let word = SET | host | next | released;
        debug_assert_eq!(Self::decode(word), Some(self), "what is said in one field is read in another");
        word
    }

    fn decode(word: u64) -> Option<Self> {
        let owner = Owner { host: HostId(word as u8), incarnation: (word >> 8) as u16 };
        let next = ((word >> 24 & 0x1f) as u8).checked_sub(1).map(HostId);
        let released = (word & RELEASED != 0).then_some((word >> 30) as u32);
        (word & SET != 0).then_some(Self { owner, next, released })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_what_was_put_into_it() {
        let owner = Owner { host: HostId(15), incarnation: u16::MAX };
        let plain = Ownership { owner, next: None, released: None };
        let all = [
            plain,
            Ownership { next: Some(HostId(0)), ..plain },
            Ownership { next: Some(HostId(15)), released: Some(u32::MAX), ..plain },
            Ownership { released: Some(0), ..plain },
            Ownership { owner: Owner { host: HostId(0), incarnation: 0 }, ..plain },
        ];
        for one in all {
            assert_eq!(Ownership::decode(one.encode()), Some(one));
        }
        assert_eq!(Ownership::decode(0), None, "nobody has come");
        assert!(all[1].is_wanted() && !all[2].is_wanted() && !all[0].is_wanted());
        assert!(all[0].is_calm() && !all[1].is_calm() && !all[3].is_calm());
    }
}
