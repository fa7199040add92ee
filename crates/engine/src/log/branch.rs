//! What a record of a partitioned pod says beside its changes: whose they are, and when they count.
//!
//! Behind the record's head, little-endian:
//!
//! ```text
//! branch  0 time u64          version of the changes
//!         8 transaction u64   its number, of the worker that runs it
//!        16 host u8   17 worker u8   18 what u8 (1 prepared, 2 committed)   19 zero u8
//!        20 hosts u16 (committed: bit n, host n has prepared)   22 zero u16
//! ```
//!
//! A participant's record says what the transaction will have changed there, the coordinator's what it has
//! changed at its own host, and that it has committed. The record's LLSN is the first one of its epoch: rows
//! have times of their own.

use liger_fabric::{HostId, WorkerId};
use liger_pod::plan::MAX_HOSTS;

use super::record::{u16_at, u64_at};

/// Bytes of it.
pub const BRANCH_BYTES: usize = 24;

// Records are whole words, and each host of a pod has a bit.
const _: () = assert!(BRANCH_BYTES.is_multiple_of(8) && MAX_HOSTS <= u16::BITS as usize);

const PREPARED: u8 = 1;
const COMMITTED: u8 = 2;

/// Whose changes a record has, and what that says of the transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BranchHead {
    /// Version of the changes.
    pub time: u64,
    /// The transaction's number, of its worker.
    pub transaction: u64,
    /// Host that runs it.
    pub host: HostId,
    /// Worker that runs it.
    pub worker: WorkerId,
    /// It has committed, and these other hosts (bit n: host n) have its other changes; none: it has if a
    /// record of its own host says so.
    pub committed: Option<u16>,
}

impl BranchHead {
    pub(super) fn encode(&self) -> [u8; BRANCH_BYTES] {
        let others = self.committed.unwrap_or(0);
        debug_assert!(others.checked_shr(self.host.0.into()).is_some_and(|bits| bits & 1 == 0), "{self:?}");
        let mut bytes = [0; BRANCH_BYTES];
        bytes[0..8].copy_from_slice(&self.time.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.transaction.to_le_bytes());
        let what = if self.committed.is_some() { COMMITTED } else { PREPARED };
        bytes[16..19].copy_from_slice(&[self.host.0, self.worker.0, what]);
        bytes[20..22].copy_from_slice(&others.to_le_bytes());
        debug_assert_eq!(Self::decode(&bytes), Some(*self), "what is written is read");
        bytes
    }

    /// `None`: bytes that make no sense.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..BRANCH_BYTES)?;
        let (what, hosts) = (bytes[18], u16_at(bytes, 20));
        if !matches!((what, hosts), (PREPARED, 0) | (COMMITTED, _))
            || [bytes[19], bytes[22], bytes[23]] != [0; 3]
        {
            return None;
        }
        Some(Self {
            time: u64_at(bytes, 0),
            transaction: u64_at(bytes, 8),
            host: HostId(bytes[16]),
            worker: WorkerId(bytes[17]),
            committed: (what == COMMITTED).then_some(hosts),
        })
    }
}
