//! Decisions that can be taken in more than one way, as values: how cached copies are kept coherent, which
//! shared row leaves first, and whether to wait for a lock.

use std::collections::VecDeque;

use liger_fabric::SyncAddr;

use crate::txn::Conflict;

/// How hosts keep their cached copies of shared rows coherent. All bitmaps have bit h for host h and say
/// which hosts may trust their caches.
pub trait Coherence {
    /// True if the host with bit `me` may read its cached copy as it is.
    fn trusts(&self, valid: u16, me: u16) -> bool;
    /// The bitmap after a host has made its copy fresh to read it.
    fn after_read(&self, valid: u16, me: u16) -> u16;
    /// The bitmap after a host has changed the row and written it back.
    fn after_write(&self, valid: u16, me: u16) -> u16;
}

/// The default, Tigon's: a change is written back at once, and all other hosts' copies become invalid
/// (OSDI'25, 4.2).
#[derive(Clone, Copy, Debug)]
pub struct WriteThrough;

impl Coherence for WriteThrough {
    fn trusts(&self, valid: u16, me: u16) -> bool {
        valid & me != 0
    }
    fn after_read(&self, valid: u16, me: u16) -> u16 {
        valid | me
    }
    fn after_write(&self, _valid: u16, me: u16) -> u16 {
        me
    }
}

/// What to do when a lock is held by somebody else.
pub trait WaitPolicy {
    /// True to try again after a pause, having tried `tries` times for `waited_ns`; false to give the
    /// transaction up. `by_colleagues`: those in the way are transactions of this host, and none of them
    /// waits for this one, by way of others or itself.
    fn wait(&self, conflict: Conflict, tries: u32, waited_ns: u64, by_colleagues: bool) -> bool;
}

/// Never waits, so there are no deadlocks: the transaction aborts and starts again.
#[derive(Clone, Copy, Debug)]
pub struct NoWait;

impl WaitPolicy for NoWait {
    fn wait(&self, _conflict: Conflict, _tries: u32, _waited_ns: u64, _by_colleagues: bool) -> bool {
        false
    }
}

/// Waits a while for rows that other transactions hold: for transactions that have done much already, or told
/// somebody of it, and so are dear to begin again. Those of one host that wait for each other in a circle are
/// told (see `circles`); across hosts they find out by the time that it takes.
#[derive(Clone, Copy, Debug)]
pub struct Patient {
    /// For a row that another transaction changes, nanoseconds.
    pub writers_ns: u64,
    /// For a row or a gap that others have read and this one wants to change, nanoseconds. Shorter: two
    /// that have both read a row and want to change it wait for each other, and that is a usual case.
    pub readers_ns: u64,
    /// For either, where it is known that waiting leads somewhere.
    pub colleagues_ns: u64,
}

impl WaitPolicy for Patient {
    fn wait(&self, conflict: Conflict, _tries: u32, waited_ns: u64, by_colleagues: bool) -> bool {
        match conflict {
            Conflict::WriteLocked | Conflict::ReadLocked | Conflict::Gap if by_colleagues => {
                waited_ns < self.colleagues_ns
            }
            Conflict::WriteLocked => waited_ns < self.writers_ns,
            Conflict::ReadLocked | Conflict::Gap => waited_ns < self.readers_ns,
            Conflict::Moved | Conflict::Validation | Conflict::Partition | Conflict::Memory => false,
        }
    }
}

/// A shared row, as its owner knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedRow {
    /// Its partition.
    pub partition: u16,
    /// Its table.
    pub table: u16,
    /// Its place in the partition.
    pub row: u32,
    /// Its tuple word. If the row has another word by now, the record is stale.
    pub word: SyncAddr,
}

/// Which shared row of a host leaves first when memory is short.
pub trait MoveOutPolicy {
    /// A row has moved in.
    fn moved_in(&mut self, row: SharedRow);
    /// The next candidate, which the policy forgets. It may be stale.
    fn candidate(&mut self) -> Option<SharedRow>;
    /// The candidate could not leave: it is in use, or (`used`) was since the policy last offered it.
    fn keep(&mut self, row: SharedRow, used: bool);
    /// Rows known, stale ones included.
    fn len(&self) -> usize;
    /// True if there is no candidate.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// CLOCK: a candidate whose second-chance bit is set goes round once more. The bit is in the tuple word and
/// is set by the swap that locks the row, so it costs nothing.
#[derive(Default, Debug)]
pub struct Clock {
    ring: VecDeque<SharedRow>,
}

impl MoveOutPolicy for Clock {
    fn moved_in(&mut self, row: SharedRow) {
        self.ring.push_back(row);
    }
    fn candidate(&mut self) -> Option<SharedRow> {
        self.ring.pop_front()
    }
    fn keep(&mut self, row: SharedRow, _used: bool) {
        self.ring.push_back(row);
    }
    fn len(&self) -> usize {
        self.ring.len()
    }
}
