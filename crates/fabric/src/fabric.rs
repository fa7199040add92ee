//! The memory model as an interface: what a worker can do to the memory that hosts share.
//!
//! There are two kinds of bytes. **Sync words** are seen by every host at once. **Data** goes through the
//! host's own cache: others see it only after `write_back` here and `invalidate` there. docs/memory-model.md
//! is the contract; in short:
//!
//! 1. A line holds sync words or data, never both.
//! 2. A data line has one writing host at a time, chosen by a sync word.
//! 3. `write_back`, `invalidate` and sync `store` are *started* by the call and *complete* at the next
//!    `fence` (or earlier, at a moment nobody chooses). `compare_exchange` completes the caller's earlier
//!    sync stores, not its write-backs and invalidates.
//! 4. A worker's sync operations happen in program order, except that a `load` may overtake an earlier
//!    `store` to another word until a `fence` or `compare_exchange` stands between them.
//! 5. Any data line may leave or enter any host's cache at any moment (eviction, prefetch).
//!
//! Each backend implements the trait once per worker; everything above is generic over it and never asks
//! which it is.

use crate::addr::{DataAddr, SyncAddr};
use crate::cx::HostId;
use crate::disk::{DiskAnswer, DiskCall, DiskErrorKind};

/// A unit of host-local computation. Real backends ignore it; the timed simulator charges virtual time for it
/// from the hardware profile (`[compute]` section), because only shared-memory verbs cost time there by
/// themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Fixed part of a transaction: generating its input, begin, commit bookkeeping.
    Transaction,
    /// One call of a transaction (get, update, insert, delete, scan): building the key, finding the table,
    /// what the application does with the row. Charged by the workload's driver, not by the engine.
    Call,
    /// Searching one node of an index in this host's DRAM.
    IndexNode,
    /// Locking, unlocking or otherwise touching one row's metadata in DRAM.
    Row,
    /// Copying 64 bytes to or from a DRAM row.
    DramLine,
    /// Changing one row, beside the call: its private copy and its log record. Charged by the driver.
    Change,
    /// Making up 64 bytes of a row's new content, where a workload does that. Charged by the driver.
    Content,
    /// Encoding, dispatching or handling one message.
    Message,
}

// Prices of work are found by its number.
const _: () = {
    let mut number = 0;
    while number < Work::ALL.len() {
        assert!(Work::ALL[number] as usize == number, "work is listed in the order of its numbers");
        number += 1;
    }
};

impl Work {
    /// All kinds, in declaration order.
    pub const ALL: [Work; 8] = [
        Work::Transaction,
        Work::Call,
        Work::IndexNode,
        Work::Row,
        Work::DramLine,
        Work::Change,
        Work::Content,
        Work::Message,
    ];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Work::Transaction => "transaction",
            Work::Call => "call",
            Work::IndexNode => "index_node",
            Work::Row => "row",
            Work::DramLine => "dram_line",
            Work::Change => "change",
            Work::Content => "content",
            Work::Message => "message",
        }
    }
}

/// How far it is with a host that is to change the memory no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CutOff {
    /// It can no longer change the memory.
    Done,
    /// It is being cut off: ask again.
    Pending,
    /// It may still change the memory, and nobody knows whether that will end; why.
    Unknown(&'static str),
}

/// A moment of one-sided accesses to memory servers (RDMA). What they do there is up to the caller, who keeps
/// that memory; the simulator says when it happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remote {
    /// Requests have been posted and arrive: what the caller does now happens at the servers.
    Sent {
        /// Requests.
        requests: u32,
        /// Operations of the adapter that they consist of.
        operations: u32,
        /// Of these, swaps of words.
        swaps: u32,
        /// Bytes that travel there.
        bytes: u64,
    },
    /// One of them has been carried out; those of others may come before the next.
    Between,
    /// They have been carried out, and so many bytes come back.
    Answered {
        /// Bytes that travel back.
        bytes: u64,
    },
    /// More requests go with those just answered: they take the adapter's time, and nobody waits for them.
    Along {
        /// Operations of the adapter.
        operations: u32,
        /// Bytes that travel there.
        bytes: u64,
    },
}

/// What the simulator is told about a range of data memory, so that it can catch uses of freed memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RangeUse {
    /// Handed out: may be read and written.
    Allocated,
    /// Taken back: any access before the next `Allocated` is an error.
    Free,
}

/// What a look says that waits for nothing but its bell: see [`Fabric::doze`].
pub const UNTIL_RUNG: u64 = u64::MAX;

/// One worker's door to the pod's memory. See the module's head for the rules.
///
/// The verbs are `#[track_caller]`: the simulator names the source line of both parties when a rule is
/// broken.
pub trait Fabric {
    /// True on backends that can be told to leave a step out (see `sabotaged`).
    const CHECKED: bool;

    /// Value of a sync word (acquire).
    #[track_caller]
    fn load(&self, at: SyncAddr) -> u64;

    /// Sets a sync word (release; may become visible as late as the next `fence` or `compare_exchange`).
    #[track_caller]
    fn store(&self, at: SyncAddr, value: u64);

    /// Sets the word to `new` if it is `current`; otherwise says what it is. Sequentially consistent among
    /// sync words.
    #[track_caller]
    fn compare_exchange(&self, at: SyncAddr, current: u64, new: u64) -> Result<u64, u64>;

    /// Copies data out, through this host's cache.
    #[track_caller]
    fn read(&self, at: DataAddr, out: &mut [u8]);

    /// Copies data in, into this host's cache.
    #[track_caller]
    fn write(&self, at: DataAddr, bytes: &[u8]);

    /// Starts writing this host's changes of the range back to the shared memory; the lines may stay cached.
    #[track_caller]
    fn write_back(&self, at: DataAddr, len: usize);

    /// Starts dropping the range from this host's cache (changes are written back first).
    #[track_caller]
    fn invalidate(&self, at: DataAddr, len: usize);

    /// Completes this worker's earlier stores, write-backs and invalidates before anything later starts.
    #[track_caller]
    fn fence(&self);

    /// Monotonic nanoseconds; virtual in the simulator. Not comparable between hosts.
    fn now_ns(&self) -> u64;

    /// One turn of a wait loop: lets other workers run.
    #[track_caller]
    fn pause(&self);

    /// A long turn of a wait loop, about so many nanoseconds in which the processor is free for others; where
    /// time is virtual a turn like any other.
    #[track_caller]
    fn rest(&self, _ns: u64) {
        self.pause();
    }

    /// True if other threads have had this one's processor in the present wait: whoever it waits for may need
    /// it, and a wait is better spent asleep. Never where time is virtual.
    fn is_crowded(&self) -> bool {
        false
    }

    /// Looks for something to do, and sleeps if there is nothing: until somebody rings the bell (two sync
    /// words of its own), or for as long as the look said, in nanoseconds; 0: there is, or may be, something
    /// to do. What is rung for before the look is seen by the look, and a ring after the look's begin ends
    /// the sleep, so nothing is missed. May return early. [`UNTIL_RUNG`]: only a ring matters (a real backend
    /// looks now and then all the same, in case the host that had to ring has died).
    ///
    /// Where nobody sleeps this is a turn of a wait loop, without a look.
    #[track_caller]
    fn doze(&self, bell: SyncAddr, look: &mut dyn FnMut() -> u64) {
        let _ = (bell, look);
        self.pause();
    }

    /// Wakes whoever sleeps at the bell, of whichever host. The caller has made visible what it rings for: by
    /// a compare-and-swap, or by a fence behind its store. A load if nobody sleeps.
    #[track_caller]
    fn ring(&self, bell: SyncAddr) {
        let _ = bell;
    }

    /// Charges host-local computation (timed simulation only).
    fn spend(&self, work: Work, times: u32) {
        let _ = (work, times);
    }

    /// Tells the simulator that a range was handed out or taken back. Costs nothing on real backends.
    #[track_caller]
    fn range_use(&self, at: DataAddr, len: usize, now: RangeUse) {
        let _ = (at, len, now);
    }

    /// From here on the caller's reads may meet a writer: it will find out whether they have, and throws away
    /// what it was given if so. Whether they keep the rules is decided by [`Fabric::end_unsure`]. Costs
    /// nothing on real backends.
    fn begin_unsure(&self) {}

    /// Ends that. `relied`: what was read is used after all, so that each of these reads must have kept the
    /// rules when it was made.
    #[track_caller]
    fn end_unsure(&self, relied: bool) {
        let _ = relied;
    }

    /// True if the hardware keeps data lines coherent as well: what one host writes before it swaps a sync
    /// word is read by whoever sees the swap, with no write_back here and no invalidate there.
    fn coherent_data(&self) -> bool {
        false
    }

    /// True when the named protocol step must be left out: how mutation tests prove that a test would notice.
    /// Always false where `CHECKED` is. (`write_back`, `invalidate` and `fence` need no name: any of their
    /// call sites can be disabled.)
    fn sabotaged(&self, step: &'static str) -> bool {
        let _ = step;
        false
    }

    /// What names this process among all that ever ran on its machine; 0 where there is no such thing, or it
    /// cannot be found out.
    fn process(&self) -> u64 {
        0
    }

    /// Makes sure that `host`, in the process that [`Fabric::process`] named there, can no longer change the
    /// memory: on a pod, the fabric manager detaches its port. [`CutOff::Done`] once that is certain; call it
    /// again until it is. Never for the caller's own process.
    #[track_caller]
    fn cut_off(&self, host: HostId, process: u64) -> CutOff {
        let _ = (host, process);
        CutOff::Unknown("nothing can be cut off from this memory")
    }

    /// True if `host`, in the process that [`Fabric::process`] named there, can no longer change the
    /// memory. As [`Fabric::cut_off`], but a process that runs is left alone.
    #[track_caller]
    fn is_gone(&self, host: HostId, process: u64) -> bool {
        let _ = (host, process);
        false
    }

    /// A call of a simulated disk, for `Disk::simulated`: only the simulator has any.
    ///
    /// # Errors
    /// What the disk says; `Other` on backends without such disks.
    #[track_caller]
    fn simulated_disk(
        &self,
        device: HostId,
        session: u64,
        call: DiskCall<'_>,
    ) -> Result<DiskAnswer, DiskErrorKind> {
        let _ = (device, session, call);
        Err(DiskErrorKind::Other)
    }

    /// True if the hosts have a network beside the memory. Only the simulator has one: under the adversary
    /// always, in virtual time if the profile says what it costs.
    fn has_network(&self) -> bool {
        false
    }

    /// Sends a message to another host. Messages of one host to another arrive in their order, all of them,
    /// some time later; what was sent to a host that dies is gone with it.
    ///
    /// # Panics
    /// Without a network.
    #[track_caller]
    fn send_message(&self, to: HostId, message: Vec<u8>) {
        panic!("{} bytes for host {}, and no network", message.len(), to.0);
    }

    /// Takes a message that has arrived for this host, and says who sent it.
    #[track_caller]
    fn receive_message(&self) -> Option<(HostId, Vec<u8>)> {
        None
    }

    /// True if memory servers can be reached by one-sided accesses: in the simulator only, as
    /// [`Fabric::has_network`].
    fn has_remote_memory(&self) -> bool {
        false
    }

    /// A moment of one-sided accesses.
    #[track_caller]
    fn remote(&self, moment: Remote) {
        let _ = moment;
    }
}
