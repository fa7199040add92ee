//! How hosts keep their cached copies of shared rows coherent.
//!
//! Invariants:
//! 1. A host's valid bit is set only if its cached copy is the row; whoever changes a row takes all other
//!    bits away. Every policy keeps this, so hosts with different ones may share a pod.
//! 2. [`Coherence::AllHwcc`] is the exception: it is for memory whose data lines the hardware keeps coherent,
//!    and all hosts there must have it.
//!
//! All bitmaps have bit h for host h and say which hosts may trust their caches.

use crate::names::named;

/// How hosts keep their cached copies of shared rows coherent; the names in the evaluation of Tigon
/// (OSDI'25, 6.5) are given with each.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Coherence {
    /// The default, and Tigon's: a change is written back at once, and all other hosts' copies become
    /// invalid.
    #[default]
    WriteThrough,
    /// At most one host trusts its copy: who makes its own fresh takes it from the others ("NoSharedReader").
    NoSharedReader,
    /// Nobody ever trusts a copy: every host that begins to hold a row drops it first ("NonTemporal").
    AlwaysBypass,
    /// Rows lie in memory that is coherent by hardware: they are neither written back nor invalidated, and
    /// their bytes count as hardware-coherent memory ("NoSWcc"). Only where data is coherent, and where no
    /// host takes over from another: what a host that stops had not written back is lost with its cache.
    AllHwcc,
}

named! {
    Coherence, "coherence policy",
    "write-through" => Coherence::WriteThrough,
    "no-shared-reader" => Coherence::NoSharedReader,
    "always-bypass" => Coherence::AlwaysBypass,
    "all-hwcc" => Coherence::AllHwcc,
}

impl Coherence {
    /// Whether who may trust its cached copy is looked up at all; if not, what is the answer.
    #[inline]
    pub fn answer(self) -> Option<bool> {
        match self {
            Self::WriteThrough | Self::NoSharedReader => None,
            Self::AlwaysBypass => Some(false),
            Self::AllHwcc => Some(true),
        }
    }

    /// The bitmap after a host has made its copy fresh to read it.
    #[inline]
    pub fn after_read(self, valid: u16, me: u16) -> u16 {
        match self {
            Self::WriteThrough => valid | me,
            Self::NoSharedReader => me,
            Self::AlwaysBypass | Self::AllHwcc => valid & !me,
        }
    }

    /// The bitmap after a host has changed the row.
    #[inline]
    pub fn after_write(self, me: u16) -> u16 {
        match self {
            Self::WriteThrough | Self::NoSharedReader => me,
            Self::AlwaysBypass | Self::AllHwcc => 0,
        }
    }

    /// Whether rows have to be written back and invalidated by software.
    #[inline]
    pub fn is_by_software(self) -> bool {
        self != Self::AllHwcc
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever hosts do one after the other, each with a policy of its own: who has a bit has read or
    /// written since the last change.
    #[test]
    fn hosts_with_different_policies_may_share_a_row() {
        let mut numbers = liger_pod::testing::Numbers(7);
        let policies = [Coherence::WriteThrough, Coherence::NoSharedReader, Coherence::AlwaysBypass];
        for _ in 0..200 {
            let of_host: [Coherence; 4] = std::array::from_fn(|_| policies[numbers.below(3) as usize]);
            let (mut valid, mut fresh) = (0u16, 0u16);
            for _ in 0..50 {
                let host = numbers.below(4) as usize;
                let (policy, me) = (of_host[host], 1u16 << host);
                if numbers.below(3) == 0 {
                    (valid, fresh) = (policy.after_write(me), me);
                } else {
                    (valid, fresh) = (policy.after_read(valid, me), fresh | me);
                }
                assert_eq!(valid & !fresh, 0, "{of_host:?}: {valid:b} trust, {fresh:b} are fresh");
                match policy {
                    Coherence::NoSharedReader => assert_eq!(valid, me),
                    Coherence::AlwaysBypass => assert_eq!(valid & me, 0),
                    _ => assert_eq!(valid & me, me),
                }
            }
        }
    }

    #[test]
    fn policies_have_names() {
        for (name, policy) in Coherence::ALL {
            assert_eq!((name.parse(), policy.to_string().as_str()), (Ok(*policy), *name));
        }
        let unknown = "write-back".parse::<Coherence>().expect_err("no such policy");
        let all = "write-through, no-shared-reader, always-bypass, all-hwcc";
        assert_eq!(unknown.to_string(), format!("there is no coherence policy \"write-back\", only {all}"));
    }
}
