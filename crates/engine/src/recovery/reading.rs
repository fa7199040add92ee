//! Reading what all hosts' directories hold, before it is decided what counts.
//!
//! Invariants:
//! 1. A segment is read once; those that come while a reading is open are read when it goes on.
//! 2. Damage is an error as soon as it was read.

use liger_fabric::{Cx, Fabric};

use super::directory::{Directory, read_whole};
use super::error::{FileByte, RecoveryError};
use super::manifest::{FIRST_SEGMENT, HOST_MANIFEST, HostManifest, POD_MANIFEST, PodManifest};
use super::{HostFiles, Identity, Plan, check_same};
use crate::log::scan::{End, Scan, Scanner};
use crate::log::segment::{segment_name, segment_number};

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
        assert_eq!(directories.len(), usize::from(identity.hosts), "one directory a host");
        let home = &directories[0];
        let pod = PodManifest::decode(home.host(), &read_whole(cx, home, POD_MANIFEST)?)?;
        let expected = [
            ("pod", pod.pod, identity.pod),
            ("configuration", pod.configuration, identity.configuration),
            ("hash of layouts", pod.layouts, identity.layouts),
            ("number of hosts", u64::from(pod.hosts), u64::from(identity.hosts)),
        ];
        check_same(&FileByte::new(home.host(), POD_MANIFEST, 0), &expected)?;
        let read = |directory| HostReading::begin(cx, directory, identity, &mut || ());
        let hosts = directories.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { pod, hosts })
    }

    /// Reads the segments that have come since.
    ///
    /// # Errors
    /// If a file is missing or damaged.
    pub fn go_on<F: Fabric>(&mut self, cx: &Cx<F>, directories: &[Directory]) -> Result<(), RecoveryError> {
        let mut hosts = self.hosts.iter_mut().zip(directories);
        hosts.try_for_each(|(host, directory)| host.go_on(cx, directory, &mut || ()))
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

/// Reads the manifest and the log of one host; `turn` is called now and then.
pub(super) fn read_host<F: Fabric>(
    cx: &Cx<F>,
    directory: &Directory,
    identity: &Identity,
    turn: &mut impl FnMut(),
) -> Result<HostFiles, RecoveryError> {
    HostReading::begin(cx, directory, identity, turn).map(HostReading::finish)
}

impl HostReading {
    fn begin<F: Fabric>(
        cx: &Cx<F>,
        directory: &Directory,
        identity: &Identity,
        turn: &mut impl FnMut(),
    ) -> Result<Self, RecoveryError> {
        let host = directory.host();
        let manifest = HostManifest::decode(host, &read_whole(cx, directory, HOST_MANIFEST)?)?;
        let expected = [
            ("pod", manifest.pod, identity.pod),
            ("host", u64::from(manifest.host.0), u64::from(host.0)),
            ("hash of layouts", manifest.layouts, identity.layouts),
        ];
        check_same(&FileByte::new(host, HOST_MANIFEST, 0), &expected)?;
        let scanner = Scanner::new(identity.pod, host);
        let mut reading = Self { manifest, segments: Vec::new(), scanner };
        reading.go_on(cx, directory, turn)?;
        // A log that has lost segments keeps the one that is being written.
        let needed = reading.manifest.first_segment;
        if reading.segments.first().map_or(needed > FIRST_SEGMENT, |first| *first != needed) {
            return Err(RecoveryError::Missing { host, file: segment_name(needed) });
        }
        Ok(reading)
    }

    fn go_on<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        directory: &Directory,
        turn: &mut impl FnMut(),
    ) -> Result<(), RecoveryError> {
        let first = self.segments.last().map_or(self.manifest.first_segment, |last| last + 1);
        let mut fresh: Vec<u32> = directory.names(cx)?.iter().filter_map(|n| segment_number(n)).collect();
        fresh.retain(|number| *number >= first);
        fresh.sort_unstable();
        for &number in &fresh {
            turn();
            self.scanner.segment(number, &read_whole(cx, directory, &segment_name(number))?, |_, _| {});
        }
        self.segments.extend(fresh);
        match self.scanner.clone().finish().end {
            End::Damaged { at, why } => {
                let at = FileByte::new(directory.host(), segment_name(at.segment), at.byte);
                Err(RecoveryError::damaged(at, why))
            }
            End::Clean { .. } | End::Torn { .. } => Ok(()),
        }
    }

    fn finish(self) -> HostFiles {
        HostFiles { manifest: self.manifest, segments: self.segments, scan: self.scanner.finish() }
    }
}
