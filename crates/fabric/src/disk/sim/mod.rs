//! Simulated disks: the calls that reach them, and the handle by which a test plans their faults.
//!
//! Disks are no part of a [`crate::sim::Simulation`], which is one life of a pod: they go on to the next one by
//! [`crate::sim::Simulation::with_disks`].
//!
//! Invariants:
//! 1. What a disk does follows from the calls, its seed and the planned faults alone; its random numbers are
//!    its own, so that a run without disks is what it was before there were any.
//! 2. A call of a holder that died reaches nothing.

mod device;

use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use super::error::DiskErrorKind;
use crate::cx::HostId;
use device::Device;

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
    /// `Hold`: the session. `Append`: the offset. `Read`, `Len`: bytes.
    Number(u64),
    /// `Create`, `Open`: the file's number, and what keeps it open.
    Opened(u64, Arc<()>),
    /// `List`.
    Names(Vec<String>),
    /// All others.
    Done,
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
}

impl SimDisks {
    /// Empty disks.
    #[expect(clippy::new_without_default, reason = "a seed is to come")]
    pub fn new() -> Self {
        Self { devices: Rc::default() }
    }

    /// The disk of that number; it is made when it is first asked for.
    pub(crate) fn device(&self, device: HostId) -> RefMut<'_, Device> {
        RefMut::map(self.devices.borrow_mut(), |devices| devices.entry(device).or_insert_with(Device::new))
    }
}
