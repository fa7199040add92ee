//! How a partition is named.

use std::fmt;

use liger_fabric::HostId;

use super::MAX_HOSTS;

/// A partition of the pod's tables: the rows of each that one host owns at a time. Never taken for a table's
/// number, which stands beside it in many places.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PartitionId(pub u16);

impl PartitionId {
    /// Where it is in a list of all partitions.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The host that it was made for, in a pod of so many.
    #[inline]
    pub fn home(self, hosts: u8) -> HostId {
        debug_assert!((1..=MAX_HOSTS).contains(&usize::from(hosts)), "a pod of {hosts} hosts");
        HostId((self.0 % u16::from(hosts)) as u8)
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
