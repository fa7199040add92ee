//! The pod as a host sees it: worker 0 takes a snapshot a few times a second, whoever asks looks at the last
//! one.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use liger_engine::row::{RowHost, RowSession};
use liger_fabric::native::process::number_of;
use liger_fabric::{Cx, Fabric};
use liger_pod::membership::{self, Observer};

use super::Observed;

/// Time between two snapshots.
const EVERY_NS: u64 = 250_000_000;
/// Moments of the log that are remembered, to say how long ago something was written.
const MOMENTS: usize = 256;

/// A host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostStatus {
    /// Its number.
    pub host: u8,
    /// Where it is in its life.
    pub state: String,
    /// Its life, from 1; 0 before the first.
    pub incarnation: u16,
    /// Milliseconds since its heartbeat was seen to change; `None` for what is no member.
    pub silent_ms: Option<f64>,
    /// Its process.
    pub process: u32,
    /// Where it serves SQL, if that is known.
    pub port: Option<u16>,
    /// Up to which epoch its log is on storage; `None`: no log, or it is closed.
    pub durable_epoch: Option<u64>,
    /// Whether its log takes anything: `good`, `full`, `full, cleaning` or `failed`; `None`: no log.
    pub log_state: Option<&'static str>,
    /// Partitions that it owns.
    pub partitions: u16,
}

/// One of the two regions of shared memory, as the whole pod uses it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryStatus {
    /// `sync` or `data`.
    pub region: &'static str,
    /// Its bytes that the pod may use.
    pub size_bytes: u64,
    /// Those that it has room for: it may grow so far.
    pub max_bytes: u64,
    /// Bytes that shared rows and their index may use before rows move out.
    pub budget_bytes: u64,
    /// Bytes of rows (of their words in the sync region).
    pub row_bytes: u64,
    /// Bytes of the index of shared rows.
    pub index_bytes: u64,
    /// Bytes that hosts have claimed, in use or not.
    pub claimed_bytes: u64,
}

/// A host's log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogStatus {
    /// The pod's epoch.
    pub epoch: u64,
    /// Up to which epoch the logs of all members are on storage.
    pub durable_epoch: u64,
    /// How long ago the first commit was that is not on storage yet, as far as it was watched.
    pub lag_seconds: f64,
    /// Bytes that this host has appended.
    pub appended_bytes: u64,
    /// Bytes of all its segments.
    pub held_bytes: u64,
    /// How long ago its valid checkpoint was seen to become valid.
    pub checkpoint_age_seconds: f64,
    /// Why it does not work, if so.
    pub failure: Option<String>,
    /// Nothing may be committed on this host, for want of room on its storage or on another host's.
    pub is_full: bool,
}

/// What a host sees.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatusSnapshot {
    /// Its number.
    pub me: u8,
    /// How long a host may be silent before the others take it for dead, milliseconds.
    pub lease_ms: u64,
    /// All hosts that the pod may have.
    pub hosts: Vec<HostStatus>,
    /// The two regions.
    pub memory: Vec<MemoryStatus>,
    /// Memory that this host has retired and cannot give back yet: how many pieces.
    pub retired: u64,
    /// Rows that this host moved into shared memory, and out of it; those that are shared now.
    pub moves: [u64; 3],
    /// Looks of this host at blocks of its shared rows; blocks that were damaged; those that it made good.
    pub scrubbed: [u64; 3],
    /// Open transactions that rest and whose locks have no number of their own.
    pub parked: u64,
    /// Snapshots that are open on this host, and those that it has opened so far.
    pub snapshots: [u64; 2],
    /// Bytes of old versions of rows that it keeps for readers of snapshots: in its own memory, and in shared
    /// memory.
    pub old_versions: [u64; 2],
    /// Messages that this host has sent.
    pub messages: u64,
    /// Partitions of dead hosts that it took over.
    pub taken_over: u64,
    /// Its log, if the pod keeps one.
    pub log: Option<LogStatus>,
    /// What it cannot do at present, and why.
    pub troubles: Vec<String>,
}

/// Takes the snapshots.
pub struct StatusWriter {
    observer: Observer,
    written_ns: Option<u64>,
    /// Epochs and when they were seen first.
    moments: VecDeque<(u64, u64)>,
    /// Where the valid checkpoint begins, and since when it does.
    checkpoint: (u64, u64),
}

impl StatusWriter {
    /// Of a host that has joined.
    pub fn new(host: &RowHost) -> Self {
        let observer = Observer::new(host.plan());
        Self { observer, written_ns: None, moments: VecDeque::new(), checkpoint: (0, 0) }
    }

    /// Takes a snapshot if it is time to.
    pub(crate) fn write<F: Fabric>(&mut self, session: &RowSession<'_, F>, now_ns: u64, on: &Observed) {
        if self.written_ns.is_some_and(|last| now_ns - last < EVERY_NS) {
            return;
        }
        let (cx, host) = (session.cx(), session.host());
        on.waits.get_or_init(|| host.waits().clone());
        self.written_ns = Some(now_ns);
        let moves = host.rows().moves();
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        on.keep(StatusSnapshot {
            me: host.id().0,
            lease_ms: host.plan().config().lease_ns / 1_000_000,
            hosts: self.hosts(cx, host, on.first_port.get().copied()),
            memory: memory(cx, host),
            retired: host.backlog(cx) as u64,
            moves: [count(&moves.moved_in), count(&moves.moved_out), count(&moves.shared_rows)],
            scrubbed: [count(&moves.rows_scrubbed), count(&moves.rows_damaged), count(&moves.rows_healed)],
            parked: host.parked_transactions() as u64,
            snapshots: [host.open_snapshots(cx).0, host.opened_snapshots(cx)],
            old_versions: host.rows().old_bytes(cx),
            messages: count(&host.mail().sent),
            taken_over: count(&moves.taken_over),
            log: self.log(cx, host, now_ns),
            troubles: host.faults(cx),
        });
    }

    fn hosts<F: Fabric>(&mut self, cx: &Cx<F>, host: &RowHost, first_port: Option<u16>) -> Vec<HostStatus> {
        // Damaged memory shows in other places; here it is a pod without hosts.
        let views = self.observer.observe(cx).unwrap_or_default();
        let epochs = host.log().map(|_| liger_engine::log::epoch::durable_epochs(cx, host.plan()));
        let states = host.log().map(|_| liger_engine::log::states(cx, host.plan()));
        let snapshot = |view: &membership::HostView| {
            let number = view.slot.host;
            let owned = host.plan().partitions().filter(|partition| host.owner(*partition) == number);
            let durable = epochs.as_ref().and_then(|epochs| epochs[usize::from(number.0)]);
            HostStatus {
                host: number.0,
                state: view.slot.state.to_string(),
                incarnation: view.slot.incarnation,
                silent_ms: view.slot.state.is_member().then_some(view.heartbeat_age_ns as f64 / 1e6),
                process: number_of(view.process),
                port: first_port.and_then(|port| port.checked_add(number.0.into())),
                durable_epoch: durable,
                log_state: states.as_ref().map(|states| states[usize::from(number.0)].name()),
                partitions: owned.count() as u16,
            }
        };
        views.iter().map(snapshot).collect()
    }

    fn log<F: Fabric>(&mut self, cx: &Cx<F>, host: &RowHost, now_ns: u64) -> Option<LogStatus> {
        let log = host.log()?;
        let epoch = log.clock().now(cx);
        let durable_epoch = log.pod_durable(cx, membership::members(cx, host.plan()));
        if self.moments.back().is_none_or(|(known, _)| *known < epoch) {
            self.moments.push_back((epoch, now_ns));
        }
        while self.moments.len() > MOMENTS
            || self.moments.front().is_some_and(|(old, _)| *old <= durable_epoch)
        {
            self.moments.pop_front();
        }
        let begin = host.checkpointed();
        if begin != self.checkpoint.0 || self.checkpoint.1 == 0 {
            self.checkpoint = (begin, now_ns);
        }
        let seconds = |since_ns: u64| (now_ns - since_ns) as f64 / 1e9;
        Some(LogStatus {
            epoch,
            durable_epoch,
            lag_seconds: self.moments.front().map_or(0.0, |(_, since)| seconds(*since)),
            appended_bytes: log.appended_bytes(),
            held_bytes: log.held_bytes(),
            checkpoint_age_seconds: seconds(self.checkpoint.1),
            failure: log.failure().map(ToString::to_string),
            is_full: log.is_full(),
        })
    }
}

fn memory<F: Fabric>(cx: &Cx<F>, host: &RowHost) -> Vec<MemoryStatus> {
    let (usage, budget, config) = (host.usage(cx), host.rows().budget(cx), host.plan().config());
    let room = host.rows().room(cx);
    let sync = MemoryStatus {
        region: "sync",
        size_bytes: room.share(config.hwcc_bytes),
        max_bytes: config.hwcc_bytes,
        budget_bytes: budget.hwcc_bytes,
        row_bytes: usage.tuple_bytes,
        index_bytes: usage.mapping_bytes,
        claimed_bytes: usage.word_chunk_bytes,
    };
    let data = MemoryStatus {
        region: "data",
        size_bytes: room.bytes,
        max_bytes: room.of_bytes,
        budget_bytes: budget.cxl_bytes,
        row_bytes: usage.row_bytes,
        index_bytes: usage.node_bytes + usage.scratch_bytes,
        claimed_bytes: usage.block_chunk_bytes,
    };
    vec![sync, data]
}
