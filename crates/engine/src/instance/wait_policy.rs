//! What to do when a lock is held by somebody else.
//!
//! A worker that waits keeps what it holds. Nothing but the length of waits depends on these policies: who
//! waits too long gives its transaction up, so every cycle ends.

use std::collections::BTreeSet;

use crate::names::named;
use crate::txn::Conflict;

/// Who holds what a transaction wants, as far as its host knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InTheWay {
    /// Another host, of which it is not known which of its transactions; or nobody any more.
    Unknown,
    /// Transactions of this host that are all younger, and none of which waits for this one, by way of
    /// others or itself.
    Younger,
    /// As `Younger`, but at least one of them is older; or ages are not noted.
    Older,
}

/// What to do when a lock is held by somebody else.
pub trait WaitPolicy: std::fmt::Debug {
    /// True to try again after a pause, having tried `tries` times for `waited_ns`; false to give the
    /// transaction up.
    fn wait(&self, conflict: Conflict, tries: u32, waited_ns: u64, by: InTheWay) -> bool;

    /// Is told that those in the way wait for this one, by way of others or themselves, or seem to if it does
    /// not last: it does not wait.
    fn is_in_cycle(&self) {}

    /// True if it may wait for seconds: the longer it has, the longer it rests between two looks.
    fn lasts(&self) -> bool {
        false
    }

    /// After how long a detached transaction that waits gives its number to those that do something, where
    /// there are few, nanoseconds; `None`: it does not.
    fn parks_after_ns(&self) -> Option<u64> {
        None
    }

    /// When it looks next for who waits for whom on other hosts, in nanoseconds since it began to wait;
    /// `None`: it does not.
    fn looks_at_ns(&self) -> Option<u64> {
        None
    }

    /// The names of rows that others waited for at the last look.
    fn asked(&self) -> BTreeSet<u64> {
        BTreeSet::new()
    }

    /// Looks, while it has neither a worker nor a latch: it waits for this row (`None`: not known which), and
    /// holds these of those that were asked for. False: it waits no longer.
    fn look(&self, wanted: Option<u64>, held: &[u64]) -> bool {
        let _ = (wanted, held);
        true
    }

    /// A wait is over, in which it has looked.
    fn has_waited(&self) {}

    /// True if the ages of transactions matter: they are noted then.
    fn by_age(&self) -> bool {
        false
    }
}

/// Never waits, so there are no deadlocks: the transaction aborts and starts again.
#[derive(Clone, Copy, Debug)]
pub struct NoWait;

impl WaitPolicy for NoWait {
    fn wait(&self, _conflict: Conflict, _tries: u32, _waited_ns: u64, _by: InTheWay) -> bool {
        false
    }
}

/// Wait-die with a bound: a transaction waits for younger ones of its host, and dies, to start again as old
/// as it was, where an older one is in the way. So there are no cycles inside a host, and the oldest gets
/// what it wants.
///
/// Of another host's locks only the host is known: it waits for them a shorter time, whoever is older, and a
/// cycle through several hosts ends by that.
#[derive(Clone, Copy, Debug)]
pub struct WaitDie {
    /// For younger transactions of this host, nanoseconds.
    pub younger_ns: u64,
    /// For other hosts, nanoseconds.
    pub hosts_ns: u64,
}

impl WaitDie {
    /// About as long as a transaction of a benchmark takes, and as two messages take.
    pub const USUAL: WaitDie = WaitDie { younger_ns: 100_000, hosts_ns: 10_000 };
}

impl WaitPolicy for WaitDie {
    fn wait(&self, conflict: Conflict, _tries: u32, waited_ns: u64, by: InTheWay) -> bool {
        let is_lock = matches!(conflict, Conflict::WriteLocked | Conflict::ReadLocked | Conflict::Gap);
        is_lock
            && match by {
                InTheWay::Younger => waited_ns < self.younger_ns,
                InTheWay::Older => false,
                InTheWay::Unknown => waited_ns < self.hosts_ns,
            }
    }

    fn by_age(&self) -> bool {
        true
    }
}

/// Waits a while for rows that other transactions hold: for transactions that have done much already, or told
/// somebody of it, and so are dear to begin again. Those of one host that wait for each other in a cycle are
/// told (see `wait_graph`); across hosts they find out by the time that it takes.
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

impl Patient {
    /// What statements wait whose clients would have to do again what is given up.
    pub const USUAL: Patient =
        Patient { writers_ns: 1_000_000, readers_ns: 500_000, colleagues_ns: 200_000_000 };
}

impl WaitPolicy for Patient {
    fn wait(&self, conflict: Conflict, _tries: u32, waited_ns: u64, by: InTheWay) -> bool {
        match conflict {
            Conflict::WriteLocked | Conflict::ReadLocked | Conflict::Gap if by != InTheWay::Unknown => {
                waited_ns < self.colleagues_ns
            }
            Conflict::WriteLocked => waited_ns < self.writers_ns,
            Conflict::ReadLocked | Conflict::Gap => waited_ns < self.readers_ns,
            Conflict::Moved | Conflict::Validation | Conflict::Partition | Conflict::Memory => false,
        }
    }
}

/// The wait policies by name, with their usual figures.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum LockWait {
    /// [`NoWait`].
    #[default]
    NoWait,
    /// [`WaitDie`].
    WaitDie,
    /// [`Patient`].
    Patient,
}

named! {
    LockWait, "wait policy",
    "no-wait" => LockWait::NoWait,
    "wait-die" => LockWait::WaitDie,
    "patient" => LockWait::Patient,
}

impl LockWait {
    /// The policy.
    pub fn policy(self) -> &'static (dyn WaitPolicy + Sync) {
        match self {
            Self::NoWait => &NoWait,
            Self::WaitDie => &WaitDie::USUAL,
            Self::Patient => &Patient::USUAL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_how_long() {
        const MS: u64 = 1_000_000;
        let longest = |policy: LockWait, conflict, by| {
            let steps = [0, 5_000, 50_000, MS / 4, 3 * MS / 4, 2 * MS, 300 * MS];
            steps.into_iter().take_while(|ns| policy.policy().wait(conflict, 1, *ns, by)).last()
        };
        let (locked, gap) = (Conflict::WriteLocked, Conflict::Gap);
        for by in [InTheWay::Unknown, InTheWay::Younger, InTheWay::Older] {
            assert_eq!(longest(LockWait::NoWait, locked, by), None);
            for policy in [LockWait::WaitDie, LockWait::Patient] {
                assert_eq!(longest(policy, Conflict::Memory, by), None, "{policy}: no lock to wait for");
            }
        }
        assert_eq!(longest(LockWait::WaitDie, locked, InTheWay::Younger), Some(50_000));
        assert_eq!(longest(LockWait::WaitDie, locked, InTheWay::Older), None);
        assert_eq!(longest(LockWait::WaitDie, gap, InTheWay::Unknown), Some(5_000));
        assert_eq!(longest(LockWait::Patient, locked, InTheWay::Older), Some(2 * MS));
        assert_eq!(longest(LockWait::Patient, locked, InTheWay::Unknown), Some(3 * MS / 4));
        assert_eq!(longest(LockWait::Patient, gap, InTheWay::Unknown), Some(MS / 4));
        for (name, policy) in LockWait::ALL {
            assert_eq!((name.parse(), policy.to_string().as_str()), (Ok(*policy), *name));
        }
    }
}
