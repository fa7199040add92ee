//! Reading the log of a host that goes on writing, and removing: for whoever loads a dead host's partitions
//! while the others run.
//!
//! Invariants:
//! 1. All segments are open before one is read: what is removed afterwards can still be read.
//! 2. A segment that is gone before it was opened was not needed: the manifest was replaced before, and is
//!    read again. Removed are only segments whose records are before every host's begin, also a dead one's.
//!
//! Not here: what is not on storage yet (the rings), and which records count.

use liger_fabric::disk::DiskFile;
use liger_fabric::{Cx, Fabric};

use super::directory::{Directory, read_all, read_whole};
use super::error::{FileByte, RecoveryError};
use super::manifest::{FIRST_SEGMENT, HOST_MANIFEST, HostManifest};
use super::replay::RecordAt;
use crate::log::record::Record;
use crate::log::scan::{End, Scan, Scanner};
use crate::log::segment::{segment_name, segment_number};

/// The log of one host, opened.
pub struct LiveLog<'d> {
    directory: &'d Directory,
    manifest: HostManifest,
    segments: Vec<(u32, DiskFile)>,
}

impl<'d> LiveLog<'d> {
    /// Opens all segments that are needed now.
    ///
    /// # Errors
    /// If the manifest is damaged, a segment is missing that is needed, or whatever the storage says.
    pub fn open<F: Fabric>(cx: &Cx<F>, directory: &'d Directory) -> Result<Self, RecoveryError> {
        let mut missed = None;
        loop {
            let bytes = read_whole(cx, directory, HOST_MANIFEST)?;
            let manifest = HostManifest::decode(directory.host(), &bytes)?;
            let missing = match open_from(cx, directory, manifest.first_segment)? {
                Ok(segments) => return Ok(Self { directory, manifest, segments }),
                Err(missing) => missing,
            };
            // Names come and go while they are listed; but not twice the same.
            let again = missed.replace((manifest.first_segment, missing));
            if again == missed {
                return Err(RecoveryError::Missing { host: directory.host(), file: segment_name(missing) });
            }
        }
    }

    /// The manifest that named the first segment.
    pub fn manifest(&self) -> &HostManifest {
        &self.manifest
    }

    /// Reads what has been written so far, and shows each record and where it is. The end may be torn: the
    /// host is writing.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn read<F: Fabric>(
        &self,
        cx: &Cx<F>,
        mut show: impl FnMut(&Record<'_>, RecordAt),
    ) -> Result<Scan, RecoveryError> {
        let host = self.directory.host();
        let mut scanner = Scanner::new(self.manifest.pod, host);
        for (segment, file) in &self.segments {
            let bytes = read_all(cx, self.directory, file)?;
            scanner.segment(*segment, &bytes, |record, spot| {
                show(record, RecordAt { host, segment: spot.segment, byte: spot.byte });
            });
        }
        let scan = scanner.finish();
        match scan.end {
            End::Damaged { at, why } => {
                Err(RecoveryError::damaged(FileByte::new(host, segment_name(at.segment), at.byte), why))
            }
            End::Clean { .. } | End::Torn { .. } => Ok(scan),
        }
    }
}

/// Opens the segments from `first` on; the number of one that is not there, if there should be.
fn open_from<F: Fabric>(
    cx: &Cx<F>,
    directory: &Directory,
    first: u32,
) -> Result<Result<Vec<(u32, DiskFile)>, u32>, RecoveryError> {
    let names = directory.names(cx)?;
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| segment_number(name)).collect();
    numbers.retain(|number| *number >= first);
    numbers.sort_unstable();
    let mut segments = Vec::with_capacity(numbers.len());
    for (expected, number) in (first..).zip(numbers) {
        let file = if number == expected { directory.open(cx, &segment_name(number))? } else { None };
        let Some(file) = file else { return Ok(Err(expected)) };
        segments.push((number, file));
    }
    let lost = segments.is_empty() && first > FIRST_SEGMENT;
    Ok(if lost { Err(first) } else { Ok(segments) })
}
