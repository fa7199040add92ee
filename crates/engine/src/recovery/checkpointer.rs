//! Checkpoints from time to time, so that the log of a host stays short: who takes them, when, and which
//! segments may go afterwards.
//!
//! ```text
//! a log has grown by half of its bound ---> every host is asked for a checkpoint that begins now or later
//! it counts ---> its begin is told ---> least begin of all hosts
//! all records of a segment are before that ---> the manifest's first segment is raised ---> it is removed
//! ```
//!
//! Invariants:
//! 1. A segment is removed when no host needs it: a record of this host may change rows of any partition, so
//!    what counts is the least begin of all hosts' valid checkpoints, also of hosts that left or died. Who
//!    loads a dead host's partitions needs nothing before that host's begin, and nothing else goes.
//! 2. A segment is removed when the manifest that does not need it is on storage. Removing is never synced:
//!    what a loss of power brings back lies before the first segment, and the next incarnation removes it.
//! 3. A begin is told when its checkpoint counts.
//! 4. Nothing happens before the host's partitions are filled ([`Checkpointer::whole`]), and no checkpoint is
//!    taken before a restart has made all rows: it would lose the rest, and remove what they are made from.
//! 5. An image goes when there is a newer one of its partition, on whichever host: a restart may have given
//!    the partition to another host, or a takeover while this one was dead, which makes rows from this image
//!    until it has a checkpoint of its own (needed.rs).
//! 6. A turn is short and holds nothing when it is over; the checkpointer is no worker, and serves nobody.
//! 7. On storage that is full, a checkpoint is how room comes back: it is taken with the space that the log
//!    keeps for that (log/space.rs), and one that finds no room all the same is tried again after a while,
//!    which doubles each time.
//! 8. A checkpoint that somebody has ordered is taken by the same turns. It begins after the order, and every
//!    order is answered once: with success, or with what kept its checkpoint from being taken.
//!
//! Not here: who takes the turns.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;

use liger_fabric::{Cx, Fabric};

use super::checkpoint::{LogEpochs, Step, Taking, remove_unfinished};
use super::directory::{Directory, replace};
use super::error::RecoveryError;
use super::manifest::{HOST_MANIFEST, HostManifest};
use super::recoverable::{Recoverable, RestoreStep};
use crate::files::segment_name;
use crate::log::HostLog;

mod needed;
mod options;
mod report;
mod when;

pub use options::{CheckpointOptions, REPLAY_BYTES, RESTORE_PERCENT};
pub use report::{CheckpointCounts, Taken};
use when::{Bound, Pauses};

/// Protocol steps that a test can leave out.
pub const SABOTAGE_STEPS: &[&str] = &[
    "checkpoint.least-begin-of-hosts",
    "checkpoint.manifest-before-removal",
    "checkpoint.publish-when-it-counts",
    "checkpoint.await-rows",
    "checkpoint.keep-needed-images",
    "checkpoint.keep-begin-of-dead",
];

/// Checkpoints whose figures are kept.
const KEPT: usize = 256;

/// Time between two tries of what could not be made.
const RETRY_NS: u64 = 1_000_000_000;

/// So many times as long between two looks while the log does not grow: who wants a checkpoint then waits for
/// that.
const IDLE_LOOKS: u64 = 50;

/// Checkpoints that somebody has asked for.
#[derive(Default)]
struct Orders {
    /// Number of the last one.
    last: u64,
    /// Those whose checkpoint has not begun.
    waiting: Vec<u64>,
    /// What became of those that nobody has asked about since.
    ended: BTreeMap<u64, Result<(), RecoveryError>>,
}

impl Orders {
    /// Says what became of these, which are carried out or given up.
    fn answer(&mut self, orders: Vec<u64>, ended: &Result<(), RecoveryError>) {
        for order in orders {
            let before = self.ended.insert(order, ended.clone());
            assert!(before.is_none() && order <= self.last, "order {order} is answered once");
        }
    }
}

/// Takes one host's checkpoints and shortens its log.
pub struct Checkpointer {
    directory: Directory,
    manifest: HostManifest,
    options: CheckpointOptions,
    whole: bool,
    taking: Option<Run>,
    /// Bytes that the log had seen when the valid checkpoint began.
    covered: u64,
    look_at_ns: u64,
    /// Bytes that the log had seen at the last look.
    looked_bytes: u64,
    rest_until_ns: u64,
    counts: CheckpointCounts,
    recent: VecDeque<Taken>,
    orders: Orders,
    bound: Bound,
    pauses: Pauses,
    /// What could not be made lately of the rows that a restart left to be made.
    unmade: Option<RecoveryError>,
    failure: Option<RecoveryError>,
}

/// A checkpoint under way.
struct Run {
    taking: Taking,
    began_ns: u64,
    /// Bytes that the log had seen then, and that all hosts had logged.
    appended: u64,
    logged: u64,
    /// The orders that it carries out.
    orders: Vec<u64>,
}

impl Checkpointer {
    /// The checkpointer of the caller's host, which has a log. `manifest` is in force.
    pub fn new<F: Fabric>(
        cx: &Cx<F>,
        log: &HostLog,
        directory: Directory,
        manifest: HostManifest,
        options: CheckpointOptions,
    ) -> Self {
        assert_eq!((directory.host(), cx.host()), (manifest.host, manifest.host), "a host's own files");
        options.check();
        let begin = manifest.begin_epoch();
        log.publish_begin(cx, manifest.needed_epoch());
        // What the next images will have, as far as the files tell.
        let images = manifest.images().iter().map(|image| image.end.bytes);
        log.note_checkpoint(cx, images.sum::<u64>() + 2 * log.held_bytes(), log.logged_in_pod(cx));
        let counts = CheckpointCounts { last_begin_epoch: begin, ..CheckpointCounts::default() };
        Self {
            directory,
            manifest,
            options,
            whole: false,
            taking: None,
            covered: 0,
            look_at_ns: 0,
            looked_bytes: 0,
            rest_until_ns: 0,
            counts,
            recent: VecDeque::new(),
            orders: Orders::default(),
            bound: Bound::new(options.replay_bytes / 2),
            pauses: Pauses::new(),
            unmade: None,
            failure: None,
        }
    }

    /// Says that the host's partitions hold all their rows, or know what is missing (row/unrestored.rs): from
    /// now on it makes these, and then takes checkpoints.
    pub fn whole(&mut self) {
        self.whole = true;
    }

    /// When it takes checkpoints, and how.
    pub fn options(&self) -> &CheckpointOptions {
        &self.options
    }

    /// The manifest that is in force.
    pub fn manifest(&self) -> &HostManifest {
        &self.manifest
    }

    /// What it has done.
    pub fn counts(&self) -> CheckpointCounts {
        self.counts
    }

    /// The last checkpoints, at most 256, in the order in which they were taken.
    pub fn recent(&self) -> impl Iterator<Item = Taken> + '_ {
        self.recent.iter().copied()
    }

    /// Why it has ended, if it has. The host goes on, and its log grows.
    pub fn failure(&self) -> Option<&RecoveryError> {
        self.failure.as_ref()
    }

    /// Orders a checkpoint that begins now or later, of all rows: those that a restart has not made yet are
    /// made before. It is taken by turns, which take all the time that they can get. Returns the number to
    /// ask [`Checkpointer::ended`] for.
    pub fn order(&mut self) -> u64 {
        self.whole = true;
        // One that nobody waits for began too early.
        self.taking = self.taking.take().filter(|run| !run.orders.is_empty());
        (self.look_at_ns, self.rest_until_ns) = (0, 0);
        let before = self.orders.waiting.last();
        assert!(before.is_none_or(|before| *before <= self.orders.last), "orders are numbered as they come");
        self.orders.last += 1;
        self.orders.waiting.push(self.orders.last);
        self.orders.last
    }

    /// What became of an order; `None`: it is not carried out yet. To be asked until there is an answer.
    pub fn ended(&mut self, order: u64) -> Option<Result<(), RecoveryError>> {
        assert!((1..=self.orders.last).contains(&order), "nobody has ordered checkpoint {order}");
        let failure = self.failure.clone().map(Err);
        self.orders.ended.remove(&order).or(failure)
    }

    /// Takes a checkpoint that begins now, to its end, and serves other hosts meanwhile: for whoever takes
    /// the turns as well.
    ///
    /// # Errors
    /// If the storage fails, or a row stays locked, or cannot be made.
    pub fn take<F: Fabric>(&mut self, cx: &Cx<F>, host: &impl Recoverable) -> Result<(), RecoveryError> {
        let order = self.order();
        loop {
            if self.turn(cx, host) == 0 {
                host.attend(cx);
                cx.pause();
            }
            if let Some(ended) = self.ended(order) {
                return ended;
            }
        }
    }

    /// One turn: a look at the log, a step of a checkpoint, or the removal of segments. Returns 0 if there
    /// was nothing to do, or something has to be waited for. A failure of the storage ends it
    /// ([`Checkpointer::failure`]), unless it met a checkpoint that was ordered: then whoever ordered it is
    /// told, and unless there was no room.
    pub fn turn<F: Fabric>(&mut self, cx: &Cx<F>, host: &impl Recoverable) -> usize {
        let worked = self.take_turn(cx, host);
        host.checkpointed.store(self.manifest.begin_epoch(), Ordering::SeqCst);
        let begun = self.taking.as_ref().map_or(0, |run| run.taking.begin_epoch());
        host.checkpointing.store(begun, Ordering::SeqCst);
        worked
    }

    fn take_turn<F: Fabric>(&mut self, cx: &Cx<F>, host: &impl Recoverable) -> usize {
        if !self.whole || self.failure.is_some() {
            return 0;
        }
        if host.is_fenced() && self.is_ordered() {
            self.fail(cx, host, RecoveryError::Fenced);
            return 0;
        }
        if !host.is_whole() && !cx.sabotaged("checkpoint.await-rows") {
            return usize::from(self.restore(cx, host));
        }
        match self.try_turn(cx, host) {
            Ok(worked) => usize::from(worked),
            Err(failure) => {
                self.fail(cx, host, failure);
                0
            }
        }
    }

    /// True while somebody waits for a checkpoint.
    fn is_ordered(&self) -> bool {
        let is_for_orders = |run: &Run| !run.orders.is_empty();
        !self.orders.waiting.is_empty() || self.taking.as_ref().is_some_and(is_for_orders)
    }

    /// Gives up the checkpoint under way, or the one that was to begin.
    fn fail<F: Fabric>(&mut self, cx: &Cx<F>, host: &impl Recoverable, failure: RecoveryError) {
        let is_held = matches!(failure, RecoveryError::Held { .. }) || failure.is_full();
        self.counts.given_up += u64::from(is_held);
        debug_assert!(self.failure.is_none(), "who has ended takes no checkpoint");
        if self.taking.is_some() {
            let number = self.manifest.checkpoint.as_ref().map_or(0, |it| it.number);
            // If they stay, the next one writes over them.
            let _ = remove_unfinished(cx, &self.directory, number);
        }
        if failure.is_full() {
            self.pauses.begin(cx);
        }
        host.note_checkpoint(cx, Some(failure.to_string()));
        log_of(host).end_cleaning(cx);
        let met = match self.taking.take() {
            Some(run) => run.orders,
            None => std::mem::take(&mut self.orders.waiting),
        };
        if met.is_empty() && !is_held {
            self.failure = Some(failure);
            return;
        }
        self.orders.answer(met, &Err(failure));
    }

    /// How long nobody will miss the next turn, behind one that found nothing to do.
    pub fn rest_ns<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        // What a checkpoint waits for may happen at any time.
        let (least_ns, most_ns) = (50_000, (IDLE_LOOKS * self.options.look_ns).max(50_000));
        let look_at_ns = if self.taking.is_none() { self.look_at_ns } else { 0 };
        let until_ns = if self.is_ordered() { look_at_ns } else { self.rest_until_ns.max(look_at_ns) };
        until_ns.saturating_sub(cx.now_ns()).clamp(least_ns, most_ns)
    }

    /// Makes a few rows that nobody has asked for yet; true if there were any. What cannot be made is tried
    /// again after a while, and there is no checkpoint until it can.
    fn restore<F: Fabric>(&mut self, cx: &Cx<F>, host: &impl Recoverable) -> bool {
        let now_ns = cx.now_ns();
        if now_ns < self.rest_until_ns {
            return false;
        }
        // Who has failed is in the host's faults.
        let step = host.restore_some(cx);
        let took_ns = cx.now_ns().saturating_sub(now_ns);
        let percent = self.options.restore_percent;
        let rest_ns = match step {
            Ok(RestoreStep::Stuck) => RETRY_NS,
            _ if host.is_waited_for() || self.is_ordered() => 0,
            _ => took_ns * (100 - percent) / percent,
        };
        self.rest_until_ns = now_ns + took_ns + rest_ns;
        let is_stuck = step == Ok(RestoreStep::Stuck);
        match step {
            Err(why) => self.unmade = Some(why),
            // Everything else is made.
            Ok(RestoreStep::Stuck) if self.is_ordered() => {
                self.unmade.take().into_iter().for_each(|why| self.fail(cx, host, why));
            }
            Ok(_) => {}
        }
        !is_stuck
    }

    fn try_turn<F: Fabric>(&mut self, cx: &Cx<F>, host: &impl Recoverable) -> Result<bool, RecoveryError> {
        debug_assert!(self.whole && self.failure.is_none(), "a turn of who takes checkpoints");
        let now_ns = cx.now_ns();
        let rests = now_ns < self.rest_until_ns && !self.is_urgent(host);
        let Some(run) = &mut self.taking else {
            if now_ns < self.look_at_ns {
                return Ok(false);
            }
            let log = log_of(host);
            let grown = log.appended_bytes();
            let is_wanted = self.is_ordered() || log.checkpoint_wanted(cx) > self.manifest.begin_epoch();
            let is_idle = grown == self.looked_bytes && !is_wanted && !host.is_waited_for();
            let idle = is_idle && !log.is_full();
            self.looked_bytes = grown;
            self.look_at_ns = now_ns + self.options.look_ns * if idle { IDLE_LOOKS } else { 1 };
            return self.look(cx, host);
        };
        if rests {
            return Ok(false);
        }
        let step = match run.step(cx, host, &self.directory, &self.manifest) {
            // With what is kept for that it begins anew: what it has written so far takes room, too.
            Err(failure) if failure.is_full() && log_of(host).begin_cleaning(cx)? => {
                let number = self.manifest.checkpoint.as_ref().map_or(0, |it| it.number);
                remove_unfinished(cx, &self.directory, number)?;
                let Run { orders, .. } = self.taking.take().expect("one is under way");
                self.begin(cx, host)?;
                self.taking.as_mut().expect("it has begun").orders.extend(orders);
                return Ok(true);
            }
            step => step?,
        };
        match step {
            Step::Waits => return Ok(false),
            Step::Done(next) => self.counts_now(cx, host, next),
            Step::Worked => {
                let took_ns = cx.now_ns().saturating_sub(now_ns);
                let rest_ns = took_ns * (100 - self.options.busy_percent) / self.options.busy_percent;
                self.rest_until_ns = now_ns + took_ns + rest_ns;
            }
        }
        Ok(true)
    }

    /// Removes what nobody needs, asks for checkpoints if the log has grown, and begins one if somebody has
    /// asked.
    fn look<F: Fabric>(&mut self, cx: &Cx<F>, host: &impl Recoverable) -> Result<bool, RecoveryError> {
        let log = log_of(host);
        self.counts.log_bytes_most = self.counts.log_bytes_most.max(log.held_bytes());
        if self.shorten(cx, log)? {
            return Ok(true);
        }
        if !self.orders.waiting.is_empty() {
            self.begin(cx, host)?;
            return Ok(true);
        }
        let begin = self.manifest.begin_epoch();
        let grown = log.appended_bytes().saturating_sub(self.covered);
        if !log.is_full() {
            self.pauses.end();
        } else if self.pauses.last(cx) {
            return Ok(false);
        }
        if grown > 0 && log.is_full() {
            // Nobody ends an epoch any more, and one that begins in the same epoch as the last is no newer.
            log.want_checkpoint(cx, log.clock().now(cx).max(begin + 1));
        } else if grown >= self.bound.bytes(cx, &self.directory, log)? {
            log.want_checkpoint(cx, log.clock().now(cx));
        }
        let wanted = log.checkpoint_wanted(cx);
        if wanted <= begin {
            return Ok(false);
        }
        if log.clock().now(cx) < wanted {
            // One that began now would not do: the epoch is to end first.
            log.want(cx, wanted - 1);
            return Ok(false);
        }
        if self.bound.is_tight() {
            // On a small disk segments are short: what the checkpoint makes superfluous can go.
            log.end_segment(cx)?;
        }
        self.begin(cx, host)?;
        Ok(true)
    }

    fn begin<F: Fabric>(&mut self, cx: &Cx<F>, host: &impl Recoverable) -> Result<(), RecoveryError> {
        assert!(self.taking.is_none() && self.whole, "one checkpoint at a time, of all rows");
        // Before it looks at what is this host's: who closes a partition to give it away looks at this then.
        host.checkpointing.store(u64::MAX, Ordering::SeqCst);
        let log = log_of(host);
        let contents = needed::contents(cx, host, &self.manifest)?;
        let (appended, logged) = (log.appended_bytes(), log.logged_in_pod(cx));
        let epochs = LogEpochs::of(host).expect("it has a log");
        let taking = Taking::begin(cx, host, &self.manifest, (contents, &epochs), self.options.pace);
        if cx.sabotaged("checkpoint.publish-when-it-counts") {
            log.publish_begin(cx, taking.begin_epoch());
        }
        let orders = std::mem::take(&mut self.orders.waiting);
        self.taking = Some(Run { taking, began_ns: cx.now_ns(), appended, logged, orders });
        Ok(())
    }

    /// The checkpoint under way counts: `next` is in force.
    fn counts_now<F: Fabric>(&mut self, cx: &Cx<F>, host: &impl Recoverable, next: HostManifest) {
        let Run { taking, began_ns, appended, logged, orders } =
            self.taking.take().expect("one was under way");
        self.orders.answer(orders, &Ok(()));
        assert_eq!(next.first_segment, self.manifest.first_segment, "a checkpoint shortens no log");
        (self.manifest, self.covered) = (next, appended);
        let begin_epoch = self.manifest.begin_epoch();
        let log = log_of(host);
        log.publish_begin(cx, self.manifest.needed_epoch());
        needed::end_begins_of_dead(cx, host);
        log.end_cleaning(cx);
        log.note_checkpoint(cx, taking.bytes(), logged);
        if log.is_full() {
            // One more makes room only if something else has changed.
            self.pauses.begin(cx);
        }
        host.note_checkpoint(cx, None);
        let last = self.counts.last_begin_epoch;
        assert!(begin_epoch >= last, "a begin never falls, from {last} to {begin_epoch}");
        self.counts.checkpoints += 1;
        self.counts.bytes += taking.bytes();
        self.counts.last_begin_epoch = begin_epoch;
        if self.recent.len() == KEPT {
            self.recent.pop_front();
        }
        let took_ns = cx.now_ns().saturating_sub(began_ns);
        assert!(self.recent.len() < KEPT, "{} figures are kept", self.recent.len());
        self.recent.push_back(Taken { begin_epoch, bytes: taking.bytes(), took_ns });
    }

    /// Removes the segments that no host needs; true if there were any.
    fn shorten<F: Fabric>(&mut self, cx: &Cx<F>, log: &HostLog) -> Result<bool, RecoveryError> {
        let least = match cx.sabotaged("checkpoint.least-begin-of-hosts") {
            true => self.manifest.begin_epoch(),
            false => log.least_begin(cx),
        };
        if log.is_full() {
            log.end_segment_before(cx, least)?;
        }
        let Some(first) = log.first_needed(least) else { return Ok(false) };
        let first = first.max(self.manifest.first_segment);
        let raised = first > self.manifest.first_segment;
        let next = HostManifest { first_segment: first, ..self.manifest.clone() };
        let late = cx.sabotaged("checkpoint.manifest-before-removal");
        if raised && !late {
            match replace(cx, &self.directory, HOST_MANIFEST, &next.encode()) {
                // Room for a few bytes, so that there will be more.
                Err(failure) if failure.is_full() && log.begin_cleaning(cx)? => {
                    replace(cx, &self.directory, HOST_MANIFEST, &next.encode())?;
                }
                replaced => replaced?,
            }
        }
        // The last incarnation may have left some of before its first segment, too.
        let gone = log.forget_below(cx, first);
        for &(number, bytes) in &gone {
            assert!(number < next.first_segment, "segment {number} is needed");
            self.directory.remove(cx, &segment_name(number))?;
            self.counts.segments_removed += 1;
            self.counts.bytes_removed += bytes;
        }
        if raised && late {
            replace(cx, &self.directory, HOST_MANIFEST, &next.encode())?;
        }
        self.manifest = next;
        log.end_cleaning(cx);
        if !gone.is_empty() && log.is_full() {
            log.look_for_room(cx);
        }
        Ok(!gone.is_empty())
    }

    /// True if the log is close to its bound, another host waits for this checkpoint, or somebody has ordered
    /// it.
    fn is_urgent(&self, host: &impl Recoverable) -> bool {
        host.is_waited_for()
            || self.is_ordered()
            || log_of(host).held_bytes() >= self.options.replay_bytes / 4 * 3
    }
}

impl Run {
    fn step<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        host: &impl Recoverable,
        directory: &Directory,
        manifest: &HostManifest,
    ) -> Result<Step, RecoveryError> {
        let epochs = LogEpochs::of(host).expect("it has a log");
        self.taking.step(cx, host, directory, manifest, &epochs)
    }
}

fn log_of(host: &impl Recoverable) -> &HostLog {
    host.log().expect("a host with checkpoints has a log")
}
