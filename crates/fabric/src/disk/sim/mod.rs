//! Simulated disks: the calls that reach them, and the handle by which a test plans their faults.
//!
//! Disks are no part of a [`crate::sim::Simulation`], which is one run of a pod: they go on to the next one
//! by [`crate::sim::Simulation::with_disks`].
//!
//! Invariants:
//! 1. What a disk does follows from the calls, its seed and the planned faults alone; its random numbers are
//!    its own, so that a run without disks is what it was before there were any.
//! 2. A call of a holder that died reaches nothing.

mod device;
mod fault;
mod file;
mod names;

use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use super::error::DiskErrorKind;
use crate::cx::HostId;
pub(crate) use device::{Cost, Progress, Step};
pub use fault::{Damage, DiskFault};

use device::Device;

/// The session of whoever reads a disk without holding it.
pub(super) const LOOKS: u64 = u64::MAX;

/// A call of a simulated disk ([`crate::Fabric::simulated_disk`]); files by the numbers that `Open` gave.
#[derive(Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the calls of Disk and DiskFile, with their arguments")]
pub enum DiskCall<'a> {
    Hold { token: &'a Arc<()> },
    Create { name: &'a str },
    Open { name: &'a str },
    List,
    Remove { name: &'a str },
    Rename { from: &'a str, to: &'a str },
    SyncNames,
    Free,
    Write { file: u64, offset: u64, bytes: &'a [u8] },
    Append { file: u64, bytes: &'a [u8] },
    Read { file: u64, offset: u64, out: &'a mut [u8] },
    Len { file: u64 },
    Preallocate { file: u64, len: u64 },
    Truncate { file: u64, len: u64 },
    Sync { file: u64 },
}

/// What such a call returns.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum DiskAnswer {
    /// `Hold`: the session. `Append`: the offset. `Free`, `Read`, `Len`: bytes.
    Number(u64),
    /// `Create`, `Open`: the file's number, and what keeps it open.
    Opened(u64, Arc<()>),
    /// `List`.
    Names(Vec<String>),
    /// All others.
    Done,
}

impl DiskCall<'_> {
    /// True for calls that others may wait for.
    pub(crate) fn changes(&self) -> bool {
        !matches!(self, Self::Open { .. } | Self::List | Self::Free | Self::Read { .. } | Self::Len { .. })
    }
}

impl DiskAnswer {
    pub(super) fn number(self) -> u64 {
        let Self::Number(number) = self else { panic!("{self:?} is no number") };
        number
    }

    pub(super) fn opened(self) -> (u64, Arc<()>) {
        let Self::Opened(file, open) = self else { panic!("{self:?} is no file") };
        (file, open)
    }

    pub(super) fn names(self) -> Vec<String> {
        let Self::Names(names) = self else { panic!("{self:?} are no names") };
        names
    }
}

/// All disks of a simulated pod. Clones are the same disks.
#[derive(Clone)]
pub struct SimDisks {
    devices: Rc<RefCell<BTreeMap<HostId, Device>>>,
    seed: u64,
}

impl SimDisks {
    /// Empty disks whose choices follow from the seed.
    pub fn new(seed: u64) -> Self {
        Self { devices: Rc::default(), seed }
    }

    /// The disk of that number; it is made when it is first asked for.
    pub(crate) fn device(&self, device: HostId) -> RefMut<'_, Device> {
        RefMut::map(self.devices.borrow_mut(), |devices| {
            devices.entry(device).or_insert_with(|| Device::new(device, self.seed))
        })
    }

    /// Plans a fault of a disk.
    pub fn plan(&self, device: HostId, fault: DiskFault) {
        self.device(device).plan(Some(fault));
    }

    /// From now on it has room for so many bytes more, whatever it has.
    pub fn leave_room(&self, device: HostId, bytes: u64) {
        let mut device = self.device(device);
        let used = device.used_bytes();
        device.plan(Some(DiskFault::FullAfter { bytes: used + bytes }));
    }

    /// Takes all planned faults back, also those that happened; what they did stays done.
    pub fn heal(&self, device: HostId) {
        self.device(device).plan(None);
    }

    /// All hosts lose power: what is unsynced becomes what a crash leaves of it, and nobody holds a disk.
    pub fn lose_power(&self) {
        self.devices.borrow_mut().values_mut().for_each(|device| device.holder_died(true));
    }

    /// The processes of a host die, and perhaps it loses power.
    pub(crate) fn host_died(&self, host: HostId, loses_power: bool) {
        let mut devices = self.devices.borrow_mut();
        let own = devices.values_mut().filter(|device| device.host() == host);
        own.for_each(|device| device.holder_died(loses_power));
    }

    /// Damages a file.
    ///
    /// # Errors
    /// `Missing`, or `PastEnd` if it ends before.
    pub fn damage(&self, device: HostId, name: &str, damage: Damage) -> Result<(), DiskErrorKind> {
        self.device(device).damage(name, damage)
    }

    /// What a disk has now, by name, in order.
    pub fn files(&self, device: HostId) -> Vec<(String, Vec<u8>)> {
        self.device(device).contents()
    }
}
