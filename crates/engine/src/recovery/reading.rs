//! Reading what all hosts' directories hold, before it is decided what counts.
//!
//! Invariants:
//! 1. A segment that is not damaged is read once; those that come while a reading is open are read when it
//!    goes on.
//! 2. Damage is an error as soon as it was read, twice: a host that lives may write its log meanwhile, so
//!    that frames are read and what they knew to be on storage before them is not. It was there before they
//!    were, so whoever reads again finds it.

use liger_fabric::{Cx, Fabric, HostId};

use super::directory::{Directory, ReadBuffer, are_in_order, read_whole};
use super::error::{FileByte, RecoveryError};
use super::manifest::{FIRST_SEGMENT, HOST_MANIFEST, HostManifest, POD_MANIFEST, PodManifest};
use super::{HostFiles, Identity, Plan, check_same};
use crate::files::{segment_name, segment_number};
use crate::log::record::Record;
use crate::log::scan::{End, Scan, Scanner};
use crate::log::segment::LogPosition;

/// Protocol steps that a test can leave out.
pub const SABOTAGE_STEPS: &[&str] = &["reading.read-again"];

/// Hears of logs while they are read.
pub trait ReadsAlong {
    /// Logs are about to be read, from the first one on, also of an earlier try: this counts of them.
    fn begins(&mut self, plan: &Plan);

    /// An intact record of the log of `host`; each comes once, in the order in which they were written. If
    /// the reading fails what was shown is good for nothing.
    fn record(&mut self, host: HostId, record: &Record<'_>, at: LogPosition);

    /// Comes at least once a segment: others may have something to do.
    fn turn(&mut self);
}

/// Nobody.
impl ReadsAlong for () {
    fn begins(&mut self, _plan: &Plan) {}

    fn record(&mut self, _host: HostId, _record: &Record<'_>, _at: LogPosition) {}

    fn turn(&mut self) {}
}

/// What was read so far.
pub struct Reading {
    pod: PodManifest,
    hosts: Vec<HostReading>,
}

struct HostReading {
    manifest: HostManifest,
    segments: Vec<u32>,
    scanner: Scanner,
}

impl Reading {
    /// Reads all manifests and logs. `directories` are those of all hosts, in order.
    ///
    /// # Errors
    /// If a file is missing, damaged, or of another pod.
    pub fn begin<F: Fabric>(
        cx: &Cx<F>,
        directories: &[Directory],
        identity: &Identity,
    ) -> Result<Self, RecoveryError> {
        let pod = read_pod(cx, directories, identity)?;
        let read = |directory| {
            let manifest = read_host_manifest(cx, directory, identity)?;
            HostReading::begin(cx, directory, manifest, &mut ())
        };
        let hosts = directories.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { pod, hosts })
    }

    /// Reads the segments that have come since.
    ///
    /// # Errors
    /// If a file is missing or damaged.
    pub fn go_on<F: Fabric>(&mut self, cx: &Cx<F>, directories: &[Directory]) -> Result<(), RecoveryError> {
        assert!(are_in_order(directories), "the directories of all hosts");
        assert_eq!(directories.len(), self.hosts.len(), "one directory a host");
        let mut hosts = self.hosts.iter_mut().zip(directories);
        hosts.try_for_each(|(host, directory)| host.go_on(cx, directory, &mut ()))
    }

    /// The pod's manifest.
    pub fn pod(&self) -> &PodManifest {
        &self.pod
    }

    /// What the log of each host holds so far.
    pub fn scans(&self) -> impl Iterator<Item = Scan> + '_ {
        self.hosts.iter().map(|host| host.scanner.clone().finish())
    }

    /// Decides what counts.
    ///
    /// # Errors
    /// If the hosts' files do not fit each other.
    pub fn finish(self) -> Result<Plan, RecoveryError> {
        Plan::decide(self.pod, self.hosts.into_iter().map(HostReading::finish).collect())
    }
}

/// Reads the pod's manifest.
pub(super) fn read_pod<F: Fabric>(
    cx: &Cx<F>,
    directories: &[Directory],
    identity: &Identity,
) -> Result<PodManifest, RecoveryError> {
    assert_eq!(directories.len(), usize::from(identity.hosts), "one directory a host");
    assert!(are_in_order(directories), "the directories of all hosts");
    let home = &directories[0];
    let pod = PodManifest::decode(home.host(), &read_whole(cx, home, POD_MANIFEST)?)?;
    let expected = [
        ("pod", pod.pod, identity.pod),
        ("configuration", pod.configuration, identity.configuration),
        ("hash of layouts", pod.layouts, identity.layouts),
        ("number of hosts", u64::from(pod.hosts), u64::from(identity.hosts)),
    ];
    check_same(&FileByte::new(home.host(), POD_MANIFEST, 0), &expected)?;
    Ok(pod)
}

/// Reads the manifest of one host, which must be its own.
pub(crate) fn read_host_manifest<F: Fabric>(
    cx: &Cx<F>,
    directory: &Directory,
    identity: &Identity,
) -> Result<HostManifest, RecoveryError> {
    let host = directory.host();
    let manifest = HostManifest::decode(host, &read_whole(cx, directory, HOST_MANIFEST)?)?;
    let expected = [
        ("pod", manifest.pod, identity.pod),
        ("host", u64::from(manifest.host.0), u64::from(host.0)),
        ("hash of layouts", manifest.layouts, identity.layouts),
    ];
    check_same(&FileByte::new(host, HOST_MANIFEST, 0), &expected)?;
    Ok(manifest)
}

/// Reads the manifest of one host, and the names of its segments.
pub(super) fn look_at_host<F: Fabric>(
    cx: &Cx<F>,
    directory: &Directory,
    identity: &Identity,
) -> Result<HostFiles, RecoveryError> {
    let mut reading = HostReading::open(read_host_manifest(cx, directory, identity)?);
    let segments = reading.fresh(cx, directory)?;
    reading.segments = segments;
    reading.check_first(directory)?;
    Ok(HostFiles { scan: None, ..reading.finish() })
}

/// Shows the intact records of a host's log, in the order in which they were written; `turn` is called now
/// and then. Somebody may write more meanwhile, which is seen or not.
///
/// # Errors
/// If a segment cannot be read, or does not fit what was read before it: who writes meanwhile may be the
/// reason, so it may be tried again.
pub(crate) fn show_records<F: Fabric>(
    cx: &Cx<F>,
    directory: &Directory,
    pod: u64,
    turn: &mut dyn FnMut(),
    mut show: impl FnMut(&Record<'_>),
) -> Result<(), RecoveryError> {
    let mut numbers: Vec<u32> = directory.names(cx)?.iter().filter_map(|n| segment_number(n)).collect();
    numbers.sort_unstable();
    let mut scanner = Scanner::new(pod, directory.host());
    let mut buffer = ReadBuffer::default();
    for number in numbers {
        turn();
        let bytes = buffer.read(cx, directory, &segment_name(number))?;
        scanner.segment(number, bytes, |record, _| show(record));
    }
    match scanner.finish().end {
        End::Damaged { at, why } => {
            let at = FileByte::new(directory.host(), segment_name(at.segment), at.byte);
            Err(RecoveryError::damaged(at, why))
        }
        End::Clean { .. } | End::Torn { .. } => Ok(()),
    }
}

/// Reads the log of the host of this manifest, which may go on meanwhile.
pub(super) fn read_log<F: Fabric>(
    cx: &Cx<F>,
    directory: &Directory,
    manifest: HostManifest,
    along: &mut impl ReadsAlong,
) -> Result<HostFiles, RecoveryError> {
    HostReading::begin(cx, directory, manifest, along).map(HostReading::finish)
}

impl HostReading {
    fn begin<F: Fabric>(
        cx: &Cx<F>,
        directory: &Directory,
        manifest: HostManifest,
        along: &mut impl ReadsAlong,
    ) -> Result<Self, RecoveryError> {
        assert_eq!(directory.host(), manifest.host, "a host's own log");
        let mut reading = Self::open(manifest);
        reading.go_on(cx, directory, along)?;
        reading.check_first(directory)?;
        Ok(reading)
    }

    /// Nothing is read yet.
    fn open(manifest: HostManifest) -> Self {
        let scanner = Scanner::new(manifest.pod, manifest.host);
        Self { manifest, segments: Vec::new(), scanner }
    }

    /// A log that has lost segments keeps the one that is being written.
    fn check_first(&self, directory: &Directory) -> Result<(), RecoveryError> {
        let needed = self.manifest.first_segment;
        if self.segments.first().map_or(needed > FIRST_SEGMENT, |first| *first != needed) {
            return Err(RecoveryError::Missing { host: directory.host(), file: segment_name(needed) });
        }
        Ok(())
    }

    /// Numbers of segments that were not read yet.
    fn fresh<F: Fabric>(&self, cx: &Cx<F>, directory: &Directory) -> Result<Vec<u32>, RecoveryError> {
        let first = self.segments.last().map_or(self.manifest.first_segment, |last| last + 1);
        let mut fresh: Vec<u32> = directory.names(cx)?.iter().filter_map(|n| segment_number(n)).collect();
        fresh.retain(|number| *number >= first);
        fresh.sort_unstable();
        Ok(fresh)
    }

    fn go_on<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        directory: &Directory,
        along: &mut impl ReadsAlong,
    ) -> Result<(), RecoveryError> {
        let fresh = self.fresh(cx, directory)?;
        let mut buffer = ReadBuffer::default();
        for &number in &fresh {
            along.turn();
            self.take(cx, directory, (number, &mut buffer), along)?;
        }
        self.segments.extend(fresh);
        assert!(self.segments.is_sorted_by(|a, b| a < b), "each segment once: {:?}", self.segments);
        match self.scanner.clone().finish().end {
            End::Damaged { at, why } => {
                let at = FileByte::new(directory.host(), segment_name(at.segment), at.byte);
                Err(RecoveryError::damaged(at, why))
            }
            End::Clean { .. } | End::Torn { .. } => Ok(()),
        }
    }

    /// Reads a segment, and once more as long as damage is found further behind than before: what was intact
    /// then is intact still, and is not shown again.
    fn take<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        directory: &Directory,
        (number, buffer): (u32, &mut ReadBuffer),
        along: &mut impl ReadsAlong,
    ) -> Result<(), RecoveryError> {
        let (before, looks_again) = (self.scanner.clone(), !cx.sabotaged("reading.read-again"));
        let (mut damaged, mut shown) = (None, 0);
        loop {
            self.scanner = before.clone();
            let bytes = buffer.read(cx, directory, &segment_name(number))?;
            let mut records = 0;
            self.scanner.segment(number, bytes, |record, at| {
                records += 1;
                if records > shown {
                    along.record(directory.host(), record, at);
                }
            });
            assert!(
                records >= shown,
                "{records} records of segment {number}, and {shown} were intact before"
            );
            shown = records;
            let found = self.scanner.damaged_at();
            if found <= damaged || !looks_again {
                return Ok(());
            }
            damaged = found;
        }
    }

    fn finish(self) -> HostFiles {
        HostFiles { manifest: self.manifest, segments: self.segments, scan: Some(self.scanner.finish()) }
    }
}
