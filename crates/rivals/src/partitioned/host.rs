//! One host of a partitioned pod: its partitions, and what its workers have in common.
//!
//! Invariants:
//! 1. Partition p lives in the DRAM of host p modulo the number of hosts, and nowhere else.
//! 2. Everything here is shared by the host's workers, behind latches or atomics.
//! 3. Latches are taken in this order: participant, partition, lanes, outbox, mailbox; a worker's end of the
//!    log behind a participant.
//!
//! Hosts do not come and go here: a partitioned pod that loses one stands still. (Its rivals are measured
//! without failures; what survives them is the row engine.)

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use liger_fabric::{Cx, Fabric, HostId, Latch, LatchGuard, WorkerId};
use liger_pod::lanes::Lanes;
use liger_pod::membership::Member;
use liger_pod::plan::{PartitionId, Plan};
use liger_pod::selftest::Responder;

use super::logged::PartLog;
use super::mail::{Mail, Route};
use super::message::{MESSAGE_OVERHEAD, ROW_OVERHEAD};
use super::part::{PartTable, Partition};
use super::participant::Participant;
use super::rules::{Protocol, Rules, Who};
use liger_engine::history::HistorySink;
use liger_engine::log::HostLog;
use liger_engine::protocol::{HostEngine, Replicas, Rival};
use liger_engine::{Catalog, TxnError};

/// What may differ between partitioned pods.
pub struct Options {
    /// How transactions keep out of each other's way.
    pub protocol: Protocol,
    /// Whether ranges and absent keys are protected (next-key locks; leases of gaps). Without that,
    /// transactions that use them are not serializable.
    pub gaps: bool,
    /// Whether the second phase of a commit is waited for, as in Tigon's ports (OSDI'25 artifact). Without,
    /// the worker goes on at once; nothing is seen earlier or later for it.
    pub await_writes: bool,
    /// How messages travel inside the host.
    pub route: Route,
    /// Where committed transactions are recorded, for checkers.
    pub history: Option<Arc<dyn HistorySink>>,
    /// This host's log, if the pod keeps one. Nothing is recovered from it.
    pub log: Option<HostLog>,
}

impl Options {
    /// A protocol as it is published, with workers that send and receive for themselves.
    pub fn new(protocol: Protocol) -> Self {
        let gaps = protocol == Protocol::Ds2pl;
        Self { protocol, gaps, await_writes: true, route: Route::Workers, history: None, log: None }
    }
}

/// Counts of what a host's workers did together.
#[derive(Default, Debug)]
pub struct Traffic {
    /// Messages sent.
    pub messages: AtomicU64,
    /// Messages that could not be understood.
    pub messages_dropped: AtomicU64,
    /// Transactions that touched rows of other hosts and committed.
    pub distributed: AtomicU64,
}

/// Adds to a counter that only informs.
pub(super) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// Bytes of a message with the longest row.
fn longest_message(catalog: &Catalog) -> usize {
    let longest = catalog.relations().iter().map(|r| r.row_len).max().unwrap_or(0);
    longest + ROW_OVERHEAD + MESSAGE_OVERHEAD
}

/// One host of a partitioned pod.
pub struct PartHost {
    pub(super) me: HostId,
    pub(super) plan: Plan,
    pub(super) catalog: Arc<Catalog>,
    pub(super) rules: Rules,
    pub(super) await_writes: bool,
    /// By partition; none where another host has it.
    partitions: Vec<Option<Latch<Partition>>>,
    /// By table; the copy of a replicated table.
    pub(super) replicas: Replicas,
    /// By host and worker: what their transactions have here.
    participants: Vec<Latch<Participant>>,
    pub(super) lanes: Lanes,
    pub(super) mail: Mail,
    /// By worker: the number of its last transaction.
    transactions: Vec<AtomicU64>,
    pub(super) history: Option<Arc<dyn HistorySink>>,
    pub(super) log: Option<PartLog>,
    pub(super) traffic: Traffic,
    pub(super) member: Member,
    responder: Responder,
    pub(super) fenced: AtomicBool,
}

impl PartHost {
    /// The caller's host, which has just become a member. Its partitions are empty.
    ///
    /// # Errors
    /// [`TxnError::TooLarge`] if a row does not fit into a message; [`TxnError::Unsuited`] if messages are to
    /// go over a network and there is none.
    pub fn new<F: Fabric>(
        cx: &Cx<F>,
        plan: &Plan,
        catalog: Arc<Catalog>,
        member: Member,
        options: Options,
    ) -> Result<Self, TxnError> {
        let (config, me) = (plan.config(), cx.host());
        if options.route == Route::Network && !cx.has_network() {
            let why = "no network is known (a hardware profile describes one in its section [net])";
            return Err(TxnError::Unsuited { what: "sending messages over a network", why });
        }
        let lanes = Lanes::new(cx, plan, member.incarnation());
        let (bytes, limit_bytes) = (longest_message(&catalog), lanes.max_message());
        if bytes > limit_bytes {
            return Err(TxnError::TooLarge { bytes: bytes as u64, limit_bytes: limit_bytes as u64 });
        }
        let workers = config.workers;
        let partition = |id: PartitionId| {
            let table = |r: &liger_engine::Relation| (!r.replicated).then(|| PartTable::new(r));
            let made = || Partition { id, tables: catalog.relations().iter().map(table).collect() };
            (id.home(config.hosts) == me).then(|| Latch::new(made()))
        };
        let rules = Rules { protocol: options.protocol, gaps: options.gaps };
        let requesters = u32::from(config.hosts) * u32::from(workers);
        Ok(Self {
            me,
            plan: plan.clone(),
            rules,
            await_writes: options.await_writes,
            partitions: plan.partitions().map(partition).collect(),
            replicas: Replicas::new(&catalog),
            participants: (1..=requesters).map(|who| Latch::new(Participant::new(Who(who), rules))).collect(),
            lanes,
            mail: Mail::new(options.route, workers),
            transactions: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            history: options.history,
            log: options.log.map(|log| PartLog::new(cx, plan, log)),
            traffic: Traffic::default(),
            member,
            responder: Responder::new(plan),
            fenced: AtomicBool::new(false),
            catalog,
        })
    }

    /// Slots of so many bytes that a lane needs at least for rows of these tables.
    pub fn least_lane_slots(catalog: &Catalog, slot_bytes: u32) -> u32 {
        let bytes = longest_message(catalog) as u32;
        (2 * (bytes + 8).div_ceil(slot_bytes)).next_power_of_two()
    }

    /// The host that has a partition.
    #[inline]
    pub fn owner(&self, partition: PartitionId) -> HostId {
        partition.home(self.plan.config().hosts)
    }

    /// The partitions of this host.
    pub fn own_partitions(&self) -> impl Iterator<Item = PartitionId> + '_ {
        self.plan.partitions().filter(|partition| self.fills(*partition))
    }

    /// What this host's workers did together.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    pub(super) fn who(&self, host: HostId, worker: WorkerId) -> Who {
        Who(u32::from(host.0) * u32::from(self.plan.config().workers) + u32::from(worker.0) + 1)
    }

    /// The number of a new transaction of this worker.
    pub(super) fn next_transaction(&self, worker: WorkerId) -> u64 {
        self.transactions[usize::from(worker.0)].fetch_add(1, Ordering::Relaxed) + 1
    }

    /// What a worker of another host has here; none if there is no such worker.
    pub(super) fn participant(&self, host: HostId, worker: WorkerId) -> Option<&Latch<Participant>> {
        let known = host != self.me && worker.0 < self.plan.config().workers;
        known.then(|| self.participants.get(self.who(host, worker).0 as usize - 1)).flatten()
    }

    /// A partition of this host, latched.
    #[inline]
    pub(super) fn partition<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
    ) -> LatchGuard<'_, Partition> {
        self.partitions[partition.index()].as_ref().expect("a partition of this host").lock(cx)
    }

    /// The partition, latched; the latch of the one used before is given back first.
    pub(super) fn reach<'a, 'h, F: Fabric>(
        &'h self,
        cx: &Cx<F>,
        latched: &'a mut Option<LatchGuard<'h, Partition>>,
        partition: PartitionId,
    ) -> &'a mut Partition {
        if latched.as_ref().is_none_or(|guard| guard.id != partition) {
            *latched = None;
            *latched = Some(self.partition(cx, partition));
        }
        latched.as_mut().expect("set above")
    }

    /// Who keeps the history of this host's transactions.
    pub(super) fn history(&self) -> Option<&dyn HistorySink> {
        self.history.as_deref().map(|history| history as &dyn HistorySink)
    }

    /// This host's share of what keeps the pod going: its heartbeat, and self-tests of hosts that join.
    pub(crate) fn housekeep<F: Fabric>(&self, cx: &Cx<F>) {
        self.responder.poll(cx);
        if !self.is_fenced() && self.member.keep_alive(cx).is_err() {
            self.fenced.store(true, Ordering::Relaxed);
        }
    }

    /// One turn of shipping this host's log, by whichever worker has time; for how long the next one will
    /// find nothing to do, in nanoseconds.
    pub fn ship<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        let nothing_to_do_ns = 1_000_000;
        let Some(log) = &self.log else { return nothing_to_do_ns };
        log.log.step(cx, log.members(cx)).unwrap_or(nothing_to_do_ns)
    }

    /// This host's log, if the pod keeps one.
    pub fn log(&self) -> Option<&HostLog> {
        self.log.as_ref().map(|log| &log.log)
    }
}
