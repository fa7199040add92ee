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
//!    what a loss of power brings back lies before the first segment, and the next life removes it.
//! 3. A begin is told when its checkpoint counts.
//! 4. Nothing happens before the host's partitions are filled ([`Checkpointer::whole`]), and no checkpoint is
//!    taken before a restart has made all rows: it would lose the rest, and remove what they are made from.
//! 5. An image goes when there is a newer one of its partition, on whichever host: a restart may have given
//!    the partition to another host, which makes rows from this image until it has a checkpoint of its own.
//! 6. A turn is short and holds nothing when it is over; the checkpointer is no worker, and serves nobody.
//!
//! Not here: who takes the turns.

use std::collections::VecDeque;

use liger_fabric::{Cx, Fabric};

use super::checkpoint::{Pace, Step, Taking};
use super::directory::{Directory, read_whole, replace};
use super::error::RecoveryError;
use super::image::REPLICAS;
use super::manifest::{HOST_MANIFEST, HostManifest};
use crate::log::HostLog;
use crate::log::segment::segment_name;
use crate::row::{RestoreStep, RowHost};

/// Protocol steps that a test can leave out.
pub const SABOTAGE_STEPS: &[&str] = &[
    "checkpoint.least-begin-of-hosts",
    "checkpoint.manifest-before-removal",
    "checkpoint.publish-when-it-counts",
    "checkpoint.await-rows",
];

/// Checkpoints whose figures are kept.
const KEPT: usize = 256;

/// Time between two tries of what could not be made.
const RETRY_NS: u64 = 1_000_000_000;

/// When checkpoints are taken, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckpointOptions {
    /// Bytes of a host's log that a recovery may have to read. Half of it is for what is written while a
    /// checkpoint is taken; nobody is held up when that does not suffice.
    pub replay_bytes: u64,
    /// How a checkpoint copies and writes.
    pub pace: Pace,
    /// Share of the time for it, in percent; all of it when the log has three quarters of its bound, or a
    /// dead host can come back only when this one has its partitions on storage.
    pub busy_percent: u64,
    /// Share of the time for making rows that nobody asks for after a restart, in percent.
    pub restore_percent: u64,
    /// Time between two looks at how long the log is.
    pub look_ns: u64,
}

/// Bytes of log a host, by default.
pub const REPLAY_BYTES: u64 = 256 << 20;

impl Default for CheckpointOptions {
    fn default() -> Self {
        let (replay_bytes, pace) = (REPLAY_BYTES, Pace::default());
        Self { replay_bytes, pace, busy_percent: 25, restore_percent: 50, look_ns: 1_000_000 }
    }
}

impl CheckpointOptions {
    /// Bytes of a segment that are a small part of the bound: whole segments go.
    pub fn segment_bytes(&self) -> u64 {
        (self.replay_bytes / 16).clamp(1, 64 << 20)
    }
}

/// A checkpoint that was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Every transaction of an earlier epoch is in it.
    pub begin_epoch: u64,
    /// Bytes of its images.
    pub bytes: u64,
    /// From its first step to its last.
    pub took_ns: u64,
}

/// What a checkpointer has done in this life.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CheckpointCounts {
    /// Checkpoints that count.
    pub checkpoints: u64,
    /// Given up because a row stayed locked.
    pub given_up: u64,
    /// Bytes of all their images.
    pub bytes: u64,
    /// Begin of the last one.
    pub last_begin_epoch: u64,
    /// Segments removed.
    pub segments_removed: u64,
    /// Bytes of them.
    pub bytes_removed: u64,
    /// Most bytes that the log had when somebody looked.
    pub log_bytes_most: u64,
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
    rest_until_ns: u64,
    counts: CheckpointCounts,
    recent: VecDeque<Taken>,
    failure: Option<RecoveryError>,
}

/// A checkpoint under way.
struct Run {
    taking: Taking,
    began_ns: u64,
    /// Bytes that the log had seen then.
    appended: u64,
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
        for percent in [options.busy_percent, options.restore_percent] {
            assert!((1..=100).contains(&percent), "{percent} percent of the time");
        }
        let begin = begin_of(&manifest);
        log.publish_begin(cx, begin);
        let counts = CheckpointCounts { last_begin_epoch: begin, ..CheckpointCounts::default() };
        Self {
            directory,
            manifest,
            options,
            whole: false,
            taking: None,
            covered: 0,
            look_at_ns: 0,
            rest_until_ns: 0,
            counts,
            recent: VecDeque::new(),
            failure: None,
        }
    }

    /// Says that the host's partitions hold all their rows, or know what is missing (row/cold.rs): from now
    /// on it makes these, and then takes checkpoints.
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

    /// Takes a checkpoint that begins now, to its end, and serves other hosts meanwhile. Rows that a restart
    /// has not made yet are made before. One that was under way is given up: it began too early.
    ///
    /// # Errors
    /// If the storage fails, or a row stays locked, or cannot be made.
    pub fn take<F: Fabric>(&mut self, cx: &Cx<F>, host: &RowHost) -> Result<(), RecoveryError> {
        self.whole = true;
        if !cx.sabotaged("checkpoint.await-rows") {
            host.restore_all(cx, || _ = host.attend(cx))?;
        }
        while !self.may_replace(cx, host)? {
            let log = log_of(host);
            log.want_checkpoint(cx, log.clock().now(cx));
            host.attend(cx);
            cx.pause();
        }
        self.begin(cx, host);
        while let Some(run) = &mut self.taking {
            match run.step(cx, host, &self.directory, &self.manifest) {
                Ok(Step::Done(next)) => self.counts_now(cx, host, next),
                Ok(Step::Worked) => {}
                Ok(Step::Waits) => {
                    host.attend(cx);
                    cx.pause();
                }
                Err(failure) => {
                    self.taking = None;
                    return Err(failure);
                }
            }
        }
        Ok(())
    }

    /// One turn: a look at the log, a step of a checkpoint, or the removal of segments. Returns 0 if there
    /// was nothing to do, or something has to be waited for. A failure of the storage ends it
    /// ([`Checkpointer::failure`]).
    pub fn turn<F: Fabric>(&mut self, cx: &Cx<F>, host: &RowHost) -> usize {
        if !self.whole || self.failure.is_some() {
            return 0;
        }
        if !host.is_whole() && !cx.sabotaged("checkpoint.await-rows") {
            return usize::from(self.restore(cx, host));
        }
        match self.try_turn(cx, host) {
            Ok(worked) => return usize::from(worked),
            Err(RecoveryError::Held { .. }) => self.counts.given_up += 1,
            Err(failure) => self.failure = Some(failure),
        }
        self.taking = None;
        0
    }

    /// How long nobody will miss the next turn, behind one that found nothing to do.
    pub fn rest_ns<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        // What a checkpoint waits for may happen at any time.
        let (least_ns, most_ns) = (50_000, self.options.look_ns.max(50_000));
        let until_ns = self.rest_until_ns.max(if self.taking.is_none() { self.look_at_ns } else { 0 });
        until_ns.saturating_sub(cx.now_ns()).clamp(least_ns, most_ns)
    }

    /// Makes a few rows that nobody has asked for yet; true if there were any. What cannot be made is tried
    /// again after a while, and there is no checkpoint until it can.
    fn restore<F: Fabric>(&mut self, cx: &Cx<F>, host: &RowHost) -> bool {
        let now_ns = cx.now_ns();
        if now_ns < self.rest_until_ns {
            return false;
        }
        // Who has failed is in the host's troubles.
        let step = host.restore_some(cx);
        let took_ns = cx.now_ns().saturating_sub(now_ns);
        let percent = self.options.restore_percent;
        let rest_ns = match step {
            Ok(RestoreStep::Stuck) => RETRY_NS,
            // A dead host comes back only when this one has a checkpoint.
            _ if host.is_waited_for() => 0,
            _ => took_ns * (100 - percent) / percent,
        };
        self.rest_until_ns = now_ns + took_ns + rest_ns;
        step != Ok(RestoreStep::Stuck)
    }

    fn try_turn<F: Fabric>(&mut self, cx: &Cx<F>, host: &RowHost) -> Result<bool, RecoveryError> {
        let now_ns = cx.now_ns();
        let rests = now_ns < self.rest_until_ns && !self.is_urgent(host);
        let Some(run) = &mut self.taking else {
            if now_ns < self.look_at_ns {
                return Ok(false);
            }
            self.look_at_ns = now_ns + self.options.look_ns;
            return self.look(cx, host);
        };
        if rests {
            return Ok(false);
        }
        match run.step(cx, host, &self.directory, &self.manifest)? {
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
    fn look<F: Fabric>(&mut self, cx: &Cx<F>, host: &RowHost) -> Result<bool, RecoveryError> {
        let log = log_of(host);
        self.counts.log_bytes_most = self.counts.log_bytes_most.max(log.held_bytes());
        if self.shorten(cx, log)? {
            return Ok(true);
        }
        let begin = begin_of(&self.manifest);
        if log.appended_bytes().saturating_sub(self.covered) >= self.options.replay_bytes / 2 {
            log.want_checkpoint(cx, log.clock().now(cx));
        }
        let wanted = log.checkpoint_wanted(cx);
        if wanted <= begin {
            return Ok(false);
        }
        if log.clock().now(cx) < wanted {
            // One that began now would not do: the epoch is to end first.
            log.want(wanted - 1);
            return Ok(false);
        }
        if !self.may_replace(cx, host)? {
            return Ok(false);
        }
        self.begin(cx, host);
        Ok(true)
    }

    /// True if the images that the next checkpoint replaces are not needed: each is of a partition that it
    /// will have, or that the checkpoint of another host has a newer image of. A host that had taken over a
    /// partition may not own it any more when the pod has been started again, and the owner begins with this
    /// host's image: it stays until the owner has one of its own.
    fn may_replace<F: Fabric>(&self, cx: &Cx<F>, host: &RowHost) -> Result<bool, RecoveryError> {
        let (Some(files), Some(checkpoint)) = (host.files(), &self.manifest.checkpoint) else {
            return Ok(true);
        };
        let images = checkpoint.images.iter().map(|image| image.partition);
        let own: Vec<u16> = host.own_partitions().chain([REPLICAS]).collect();
        let mut left: Vec<u16> = images.filter(|partition| !own.contains(partition)).collect();
        if left.is_empty() {
            return Ok(true);
        }
        for other in host.hosts().filter(|other| *other != host.id()) {
            let directory = files.look(other)?;
            let bytes = read_whole(cx, &directory, HOST_MANIFEST)?;
            let Some(newer) = HostManifest::decode(other, &bytes)?.checkpoint else { continue };
            let has = |partition: &u16| newer.images.iter().any(|image| image.partition == *partition);
            left.retain(|partition| newer.begin_epoch <= checkpoint.begin_epoch || !has(partition));
        }
        Ok(left.is_empty())
    }

    fn begin<F: Fabric>(&mut self, cx: &Cx<F>, host: &RowHost) {
        let log = log_of(host);
        let appended = log.appended_bytes();
        let epochs = host.log_epochs().expect("it has a log");
        let taking = Taking::begin(cx, host, &self.manifest, &epochs, self.options.pace);
        if cx.sabotaged("checkpoint.publish-when-it-counts") {
            log.publish_begin(cx, taking.begin_epoch());
        }
        self.taking = Some(Run { taking, began_ns: cx.now_ns(), appended });
    }

    /// The checkpoint under way counts: `next` is in force.
    fn counts_now<F: Fabric>(&mut self, cx: &Cx<F>, host: &RowHost, next: HostManifest) {
        let Run { taking, began_ns, appended } = self.taking.take().expect("one was under way");
        (self.manifest, self.covered) = (next, appended);
        let begin_epoch = begin_of(&self.manifest);
        log_of(host).publish_begin(cx, begin_epoch);
        self.counts.checkpoints += 1;
        self.counts.bytes += taking.bytes();
        self.counts.last_begin_epoch = begin_epoch;
        if self.recent.len() == KEPT {
            self.recent.pop_front();
        }
        let took_ns = cx.now_ns().saturating_sub(began_ns);
        self.recent.push_back(Taken { begin_epoch, bytes: taking.bytes(), took_ns });
    }

    /// Removes the segments that no host needs; true if there were any.
    fn shorten<F: Fabric>(&mut self, cx: &Cx<F>, log: &HostLog) -> Result<bool, RecoveryError> {
        let least = match cx.sabotaged("checkpoint.least-begin-of-hosts") {
            true => begin_of(&self.manifest),
            false => log.least_begin(cx),
        };
        let Some(first) = log.first_needed(least) else { return Ok(false) };
        let first = first.max(self.manifest.first_segment);
        let raised = first > self.manifest.first_segment;
        let next = HostManifest { first_segment: first, ..self.manifest.clone() };
        let late = cx.sabotaged("checkpoint.manifest-before-removal");
        if raised && !late {
            replace(cx, &self.directory, HOST_MANIFEST, &next.encode())?;
        }
        // The last life may have left some of before its first segment, too.
        let gone = log.forget_below(cx, first);
        for &(number, bytes) in &gone {
            self.directory.remove(cx, &segment_name(number))?;
            self.counts.segments_removed += 1;
            self.counts.bytes_removed += bytes;
        }
        if raised && late {
            replace(cx, &self.directory, HOST_MANIFEST, &next.encode())?;
        }
        self.manifest = next;
        Ok(!gone.is_empty())
    }

    /// True if the log is close to its bound, or a host waits for this checkpoint to come back.
    fn is_urgent(&self, host: &RowHost) -> bool {
        host.is_waited_for() || log_of(host).held_bytes() >= self.options.replay_bytes / 4 * 3
    }
}

impl Run {
    fn step<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        host: &RowHost,
        directory: &Directory,
        manifest: &HostManifest,
    ) -> Result<Step, RecoveryError> {
        let epochs = host.log_epochs().expect("it has a log");
        self.taking.step(cx, host, directory, manifest, &epochs)
    }
}

fn log_of(host: &RowHost) -> &HostLog {
    host.log().expect("a host with checkpoints has a log")
}

/// Where the valid checkpoint begins; 0 if there is none.
fn begin_of(manifest: &HostManifest) -> u64 {
    manifest.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.begin_epoch)
}
