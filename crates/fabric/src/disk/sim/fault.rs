//! What can be wrong with a simulated disk.

use crate::disk::SECTOR;
use crate::sim::Random;

/// A planned failure of a disk. Planning one of a kind replaces the last of that kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DiskFault {
    /// It has room for so many bytes (lengths of its files, and of open ones without a name).
    FullAfter {
        /// Its size in bytes.
        bytes: u64,
    },
    /// Its file system takes no space ahead.
    TakesNothingAhead,
    /// Every call after the next so many fails.
    FailAfter {
        /// Calls that still work.
        calls: u64,
    },
    /// One sync (of a file or of the names), after the next so many, fails.
    FailSync {
        /// Syncs that still work.
        after: u64,
    },
    /// Syncs take so many times as long (adversarial: so many steps).
    SlowSyncs {
        /// At least 1.
        times: u32,
    },
}

impl DiskFault {
    /// One of the kinds, at a moment within about `calls` calls or `bytes` bytes.
    pub fn by_seed(seed: u64, calls: u64, bytes: u64) -> Self {
        let mut random = Random::new(seed);
        let mut below = |bound: u64| random.below(bound.max(1) as usize) as u64;
        match below(4) {
            0 => Self::FullAfter { bytes: below(bytes) },
            1 => Self::FailAfter { calls: below(calls) },
            2 => Self::FailSync { after: below(calls) / 4 },
            _ => Self::SlowSyncs { times: 100 },
        }
    }
}

/// The faults of one disk, and how far they are.
pub(super) struct Faults {
    pub size_bytes: Option<u64>,
    pub takes_nothing_ahead: bool,
    pub calls_left: Option<u64>,
    pub syncs_left: Option<u64>,
    pub sync_times: u32,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            size_bytes: None,
            takes_nothing_ahead: false,
            calls_left: None,
            syncs_left: None,
            sync_times: 1,
        }
    }
}

impl Faults {
    pub fn plan(&mut self, fault: DiskFault) {
        match fault {
            DiskFault::FullAfter { bytes } => self.size_bytes = Some(bytes),
            DiskFault::TakesNothingAhead => self.takes_nothing_ahead = true,
            DiskFault::FailAfter { calls } => self.calls_left = Some(calls),
            DiskFault::FailSync { after } => self.syncs_left = Some(after),
            DiskFault::SlowSyncs { times } => self.sync_times = times.max(1),
        }
    }

    /// False once the disk is broken.
    pub fn take_call(&mut self) -> bool {
        let works = self.calls_left != Some(0);
        self.calls_left = self.calls_left.map(|left| left.saturating_sub(1));
        works
    }

    /// False for the one sync that fails.
    pub fn take_sync(&mut self) -> bool {
        let works = self.syncs_left != Some(0);
        self.syncs_left = self.syncs_left.and_then(|left| left.checked_sub(1));
        works
    }
}

/// Damage of a file at rest: nobody is told, its bytes are others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Damage {
    /// The bits of `mask` in the byte at `offset` are flipped.
    FlipBits {
        /// Which byte.
        offset: u64,
        /// Which bits.
        mask: u8,
    },
    /// The second half of a sector is zeros.
    TearSector {
        /// Which sector, from 0.
        sector: u64,
    },
}

impl Damage {
    /// Some damage of a file of `len` bytes (more than 0).
    pub fn by_seed(seed: u64, len: u64) -> Self {
        assert!(len > 0, "an empty file has nothing to damage");
        let mut random = Random::new(seed);
        let offset = random.below(len as usize) as u64;
        match random.below(4) {
            0 => Self::TearSector { sector: offset / SECTOR as u64 },
            _ => Self::FlipBits { offset, mask: 1 << random.below(8) },
        }
    }

    /// False if the file ends before.
    pub(super) fn apply(self, bytes: &mut [u8]) -> bool {
        match self {
            Self::FlipBits { offset, mask } => {
                assert_ne!(mask, 0, "no bit is flipped");
                let Some(byte) = bytes.get_mut(offset as usize) else { return false };
                *byte ^= mask;
            }
            Self::TearSector { sector } => {
                let start = sector as usize * SECTOR;
                let end = bytes.len().min(start + SECTOR);
                let Some(half) = bytes.get_mut(start + SECTOR / 2..end) else { return false };
                half.fill(0);
            }
        }
        true
    }
}
