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
//! 2. Whoever left or died leaves its begin: partitions may be loaded from there. When nothing of its files
//!    is needed any more, its next incarnation begins where it joins.
//! 3. A host that lives answers for its begin itself, and says so in the word. Who finds that nothing is
//!    loaded from the files of a dead one any more ends its begin, unless its next incarnation has come
//!    meanwhile: that may own partitions before it has a checkpoint.

use liger_fabric::{Cx, Fabric, HostId, SyncAddr};
use liger_pod::bells::{Bell, bell};
use liger_pod::plan::Plan;

/// Set in the word of a host that lives.
const LIVES: u64 = 1 << 63;
/// The begin of a host whose files nobody needs.
const NOTHING: u64 = !LIVES;

/// The words of checkpoints.
pub(super) struct Begins {
    /// By host, in its line of the log.
    hosts: Vec<SyncAddr>,
    /// In the line of the pod's epoch.
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
        let next = |seen: u64| (seen & !LIVES < epoch).then_some(epoch | LIVES);
        change(cx, self.word(host), next);
    }

    /// Where the checkpoint of a host begins that does not live; `None`: it does, or needs nothing.
    pub(super) fn of_dead<F: Fabric>(&self, cx: &Cx<F>, host: HostId) -> Option<u64> {
        Some(cx.load(self.word(host))).filter(|begin| *begin < NOTHING)
    }

    /// Says that nothing is loaded any more from the files of a host that did not live when its begin was
    /// this one; without effect if it does by now.
    pub(super) fn end_dead<F: Fabric>(&self, cx: &Cx<F>, host: HostId, begin: u64) {
        assert!(is_epoch(begin), "host {} has a begin, not {begin:#x}", host.0);
        let _ = cx.compare_exchange(self.word(host), begin, NOTHING);
    }

    /// `host` is dead, or leaves: others may find that nothing is loaded from its files any more.
    pub(super) fn note_dead<F: Fabric>(&self, cx: &Cx<F>, host: HostId) {
        change(cx, self.word(host), |seen| (seen & LIVES != 0).then_some(seen & !LIVES));
    }

    /// This host lives. It needs what comes from `epoch` on, if its last incarnation needed nothing any more.
    pub(super) fn begin_incarnation<F: Fabric>(&self, cx: &Cx<F>, epoch: u64) {
        assert!(is_epoch(epoch), "a host joins in an epoch, not {epoch:#x}");
        let next = |seen: u64| match seen {
            NOTHING => Some(epoch | LIVES),
            begin => (begin & LIVES == 0).then_some(begin | LIVES),
        };
        change(cx, self.word(cx.host()), next);
    }

    /// The earliest begin of all hosts' checkpoints: nobody needs records of an earlier epoch.
    pub(super) fn least<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        self.hosts.iter().map(|&word| cx.load(word) & !LIVES).min().unwrap_or(0)
    }

    fn word(&self, host: HostId) -> SyncAddr {
        self.hosts[usize::from(host.0)]
    }

    /// Asks every host for a checkpoint that begins at `epoch` or later.
    pub(super) fn want<F: Fabric>(&self, cx: &Cx<F>, epoch: u64) {
        assert!(is_epoch(epoch), "a checkpoint can begin in an epoch, not {epoch:#x}");
        if change(cx, self.wanted, |seen| (seen < epoch).then_some(epoch)) {
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

/// Makes of a word what `next` says; seen at once. False if that is nothing.
fn change<F: Fabric>(cx: &Cx<F>, word: SyncAddr, next: impl Fn(u64) -> Option<u64>) -> bool {
    let mut seen = cx.load(word);
    while let Some(value) = next(seen) {
        match cx.compare_exchange(word, seen, value) {
            Ok(_) => return true,
            Err(now) => seen = now,
        }
    }
    false
}
