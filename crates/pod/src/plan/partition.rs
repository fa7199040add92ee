//! How a partition is named, and whom it was made for.

use std::fmt;

use liger_fabric::HostId;

use super::{MAX_HOSTS, Plan};

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

    /// The host that it was made for, in a pod of so many that are all there from the start.
    #[inline]
    pub fn home(self, hosts: u8) -> HostId {
        debug_assert!((1..=MAX_HOSTS).contains(&usize::from(hosts)), "a pod of {hosts} hosts");
        HostId((self.0 % u16::from(hosts)) as u8)
    }
}

impl Plan {
    /// The host that a partition was made for: one of those that are there from the start.
    pub fn home(&self, partition: PartitionId) -> HostId {
        let mut initial_hosts = self.hosts().filter(|host| self.config.initial_hosts >> host.0 & 1 != 0);
        let count = self.config.initial_hosts.count_ones() as usize;
        initial_hosts.nth(partition.index() % count).expect("somebody is there from the start")
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
