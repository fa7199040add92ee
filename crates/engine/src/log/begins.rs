//! What hosts tell each other about checkpoints: where each one's valid checkpoint begins, and that somebody
//! wants newer ones.
//!
//! A record of one host's log may change rows of any other, so a log is needed back to the earliest begin of
//! all hosts; and the host whose log grows fastest is not the one whose checkpoint is the oldest.
//!
//! Invariants:
//! 1. A host's begin is the one of a checkpoint that its manifest names on storage, or an earlier one; it
//!    never falls in one incarnation. A host that has not told any since the pod's memory was made needs
//!    everything.
//! 2. Whoever left or died leaves its begin: its partitions may be loaded from there. When it left without
//!    any, or another host has taken them over and has a checkpoint of them, it needs nothing; its next
//!    incarnation begins where it joins.

use liger_fabric::{Cx, Fabric, HostId, SyncAddr};
use liger_pod::bells::{Bell, bell};
use liger_pod::plan::Plan;

/// The begin of a host whose files nobody needs.
const NOTHING: u64 = u64::MAX;

/// The words of checkpoints.
pub(super) struct Begins {
    /// By host, in its line of the log.
    hosts: Vec<SyncAddr>,
    /// In the epoch's line.
    wanted: SyncAddr,
    /// Where the checkpointers of all hosts sleep.
    bells: Vec<SyncAddr>,
}

impl Begins {
    pub(super) fn new(plan: &Plan) -> Self {
        let hosts = plan.hosts().map(|host| plan.log_line(host).word(2)).collect();
        let bells = plan.hosts().map(|host| bell(plan, host, Bell::Checkpoint)).collect();
        Self { hosts, wanted: plan.epoch_word().word(2), bells }
    }

    /// Says where a checkpoint of `host` begins that counts.
    pub(super) fn publish<F: Fabric>(&self, cx: &Cx<F>, host: HostId, epoch: u64) {
        assert!(is_epoch(epoch), "a checkpoint of host {} begins in an epoch, not {epoch:#x}", host.0);
        raise(cx, self.hosts[usize::from(host.0)], epoch);
    }

    /// Where the checkpoint of `host` begins that counts.
    pub(super) fn of<F: Fabric>(&self, cx: &Cx<F>, host: HostId) -> u64 {
        cx.load(self.hosts[usize::from(host.0)])
    }

    /// Says that nothing is loaded from the files of `host`, which is dead or leaves, any more.
    pub(super) fn end<F: Fabric>(&self, cx: &Cx<F>, host: HostId) {
        raise(cx, self.hosts[usize::from(host.0)], NOTHING);
    }

    /// The next incarnation of this host needs what comes from `epoch` on, if the last one needed nothing any
    /// more.
    pub(super) fn begin_incarnation<F: Fabric>(&self, cx: &Cx<F>, epoch: u64) {
        let word = self.hosts[usize::from(cx.host().0)];
        let _ = cx.compare_exchange(word, NOTHING, epoch);
    }

    /// The earliest begin of all hosts' checkpoints: nobody needs records of an earlier epoch.
    pub(super) fn least<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        self.hosts.iter().map(|&word| cx.load(word)).min().unwrap_or(0)
    }

    /// Asks every host for a checkpoint that begins at `epoch` or later.
    pub(super) fn want<F: Fabric>(&self, cx: &Cx<F>, epoch: u64) {
        assert!(is_epoch(epoch), "a checkpoint can begin in an epoch, not {epoch:#x}");
        if raise(cx, self.wanted, epoch) {
            // Late is late: a checkpointer looks now and then by itself.
            self.bells.iter().for_each(|bell| cx.ring(*bell));
        }
    }

    /// The latest epoch that somebody asked for.
    pub(super) fn wanted<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        cx.load(self.wanted)
    }
}

/// True for what an epoch can be.
fn is_epoch(epoch: u64) -> bool {
    epoch < NOTHING
}

/// Makes a word at least `value`; seen at once. True if it was less.
fn raise<F: Fabric>(cx: &Cx<F>, word: SyncAddr, value: u64) -> bool {
    let mut seen = cx.load(word);
    while seen < value {
        match cx.compare_exchange(word, seen, value) {
            Ok(_) => return true,
            Err(now) => seen = now,
        }
    }
    false
}
