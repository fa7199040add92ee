//! The files of a pod held at one point of time, while it goes on: a copy of them is what a recovery finds
//! after all hosts and the memory were lost at that point. docs/protocols/backup.md.
//!
//! ```text
//! manifests ---> D = the pod's durable epoch ---> images and segments opened ---> the same manifests
//! each log is cut behind its first mark of D or later
//! ```
//!
//! Invariants:
//! 1. What is open stays as it is: files are written behind their ends, or replaced, and never over
//!    themselves; and one that is removed keeps its bytes while somebody has it open. So the hold ends with
//!    the process that has it, and no host knows of it.
//! 2. All manifests were in force at one moment: the same bytes were read before and after the files that
//!    they name were opened.
//! 3. D is asked for behind the manifests, so every checkpoint that they name has ended by then, and before
//!    the logs are looked at, so each member's has a mark of D or later.
//! 4. Behind the cut a log would know more than the others hold. In front of it nobody knows of a later
//!    epoch than D: what a mark knows to be durable in the pod is older than its own host's last mark.
//!
//! Not here: where the copies go.

use liger_fabric::disk::DiskFile;
use liger_fabric::{Cx, Fabric, HostId};

use super::directory::{Directory, are_in_order, read_whole};
use super::error::{FileByte, RecoveryError};
use super::manifest::{HOST_MANIFEST, HostManifest, POD_MANIFEST};
use crate::files::{segment_name, segment_number};
use crate::log::segment::{FrameKind, SEGMENT_HEAD_BYTES, SegmentHead};

/// A file of a pod, as it is to be copied.
pub struct HeldFile {
    /// Whose it is.
    pub host: HostId,
    /// Its name.
    pub name: String,
    /// How many of its bytes count.
    pub bytes: u64,
    source: Source,
}

enum Source {
    Read(Vec<u8>),
    Open(Directory, DiskFile),
}

/// All files of a pod that a recovery needs.
pub struct Held {
    /// Manifests and logs: they decide what counts.
    pub logs: Vec<HeldFile>,
    /// Images.
    pub images: Vec<HeldFile>,
    /// What was durable in the whole pod; none if nobody wrote.
    pub durable: Option<u64>,
}

impl HeldFile {
    /// Reads from an offset; fewer bytes than asked for only at the end of what counts.
    ///
    /// # Errors
    /// Whatever the storage says, or if the file has become shorter.
    pub fn read<F: Fabric>(&self, cx: &Cx<F>, offset: u64, out: &mut [u8]) -> Result<usize, RecoveryError> {
        let most = self.bytes.saturating_sub(offset).min(out.len() as u64) as usize;
        let there = self.read_there(cx, offset, &mut out[..most])?;
        if there < most {
            let at = FileByte::new(self.host, self.name.clone(), offset + there as u64);
            return Err(RecoveryError::damaged(at, format!("it ends here, and had {} bytes", self.bytes)));
        }
        Ok(most)
    }

    /// Reads what is there.
    fn read_there<F: Fabric>(&self, cx: &Cx<F>, offset: u64, out: &mut [u8]) -> Result<usize, RecoveryError> {
        match &self.source {
            Source::Read(bytes) => {
                out.copy_from_slice(&bytes[offset as usize..][..out.len()]);
                Ok(out.len())
            }
            Source::Open(directory, file) => directory.read(cx, file, offset, out),
        }
    }

    fn open<F: Fabric>(cx: &Cx<F>, directory: &Directory, name: String) -> Result<Self, RecoveryError> {
        let host = directory.host();
        let Some(file) = directory.open(cx, &name)? else {
            return Err(RecoveryError::Missing { host, file: name });
        };
        let bytes = directory.len(cx, &file)?;
        Ok(Self { host, name, bytes, source: Source::Open(directory.clone(), file) })
    }

    fn read_already(host: HostId, name: &str, bytes: Vec<u8>) -> Self {
        Self { host, name: name.to_owned(), bytes: bytes.len() as u64, source: Source::Read(bytes) }
    }
}

impl Held {
    /// Holds the files of a pod, whose hosts' directories these are. `durable` says what is durable in the
    /// whole pod when it is called, once that is no less than its argument, the last epoch that a checkpoint
    /// has something of; nothing if no host lives. None: a checkpoint came in between, try again.
    ///
    /// # Errors
    /// If a file is missing or damaged, or `durable` fails.
    pub fn take<F: Fabric, E: From<RecoveryError>>(
        cx: &Cx<F>,
        directories: &[Directory],
        durable: impl FnOnce(u64) -> Result<Option<u64>, E>,
    ) -> Result<Option<Self>, E> {
        assert!(are_in_order(directories), "the directories of all hosts");
        let before = read_manifests(cx, directories)?;
        let decode =
            |(directory, bytes): (&Directory, &Vec<u8>)| HostManifest::decode(directory.host(), bytes);
        let manifests =
            directories.iter().zip(&before.of_hosts).map(decode).collect::<Result<Vec<_>, _>>()?;
        let ends = manifests.iter().filter_map(|manifest| Some(manifest.checkpoint.as_ref()?.end_epoch));
        let least = ends.max().unwrap_or(0);
        let durable = durable(least)?;
        assert!(durable.is_none_or(|epoch| epoch >= least), "{durable:?} behind a checkpoint up to {least}");
        let mut held = Self { logs: Vec::new(), images: Vec::new(), durable };
        let mut all = directories.iter().zip(&manifests);
        let opened = all.try_for_each(|(directory, manifest)| held.open_all(cx, directory, manifest));
        if read_manifests(cx, directories)? != before {
            return Ok(None);
        }
        opened?;
        let Manifests { of_pod, of_hosts } = before;
        assert_eq!(of_hosts.len(), directories.len(), "a manifest of each host");
        held.logs.push(HeldFile::read_already(directories[0].host(), POD_MANIFEST, of_pod));
        for (directory, bytes) in directories.iter().zip(of_hosts) {
            held.logs.push(HeldFile::read_already(directory.host(), HOST_MANIFEST, bytes));
        }
        Ok(Some(held))
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.logs.iter().chain(&self.images).map(|file| file.bytes).sum()
    }

    /// Opens what a host's manifest needs.
    fn open_all<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        directory: &Directory,
        manifest: &HostManifest,
    ) -> Result<(), RecoveryError> {
        for image in manifest.images() {
            let file = HeldFile::open(cx, directory, image.file_name())?;
            if file.bytes != image.end.bytes {
                let at = FileByte::new(file.host, file.name, file.bytes);
                let why = format!("the image ends here, and its manifest says {} bytes", image.end.bytes);
                return Err(RecoveryError::damaged(at, why));
            }
            self.images.push(file);
        }
        let mut numbers: Vec<u32> = directory.names(cx)?.iter().filter_map(|n| segment_number(n)).collect();
        numbers.retain(|number| *number >= manifest.first_segment);
        numbers.sort_unstable();
        debug_assert!(numbers.is_sorted_by(|a, b| a < b), "one file a segment: {numbers:?}");
        let open = |number: u32| HeldFile::open(cx, directory, segment_name(number));
        let mut segments = numbers.into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
        if let Some(durable) = self.durable {
            cut(cx, &mut segments, durable)?;
        }
        self.logs.append(&mut segments);
        Ok(())
    }
}

/// The bytes of all manifests.
#[derive(PartialEq, Eq)]
struct Manifests {
    of_pod: Vec<u8>,
    of_hosts: Vec<Vec<u8>>,
}

fn read_manifests<F: Fabric>(cx: &Cx<F>, directories: &[Directory]) -> Result<Manifests, RecoveryError> {
    let of_pod = read_whole(cx, &directories[0], POD_MANIFEST)?;
    let of_hosts = directories.iter().map(|directory| read_whole(cx, directory, HOST_MANIFEST));
    Ok(Manifests { of_pod, of_hosts: of_hosts.collect::<Result<_, _>>()? })
}

/// Cuts a log behind its first mark of epoch `durable` or later. One without such a mark is closed, or its
/// host has not joined: all of it is kept. Space that was taken ahead of a log's end may have been given back
/// since its files were opened, so no length counts that was found then.
fn cut<F: Fabric>(cx: &Cx<F>, segments: &mut Vec<HeldFile>, durable: u64) -> Result<(), RecoveryError> {
    let head_of = |segment: &HeldFile| {
        let mut head = [0; SEGMENT_HEAD_BYTES];
        let most = segment.bytes.min(SEGMENT_HEAD_BYTES as u64) as usize;
        let read = segment.read_there(cx, 0, &mut head[..most])?;
        Ok::<_, RecoveryError>(SegmentHead::decode(&head[..read]).ok())
    };
    let mut heads = segments.iter().map(head_of).collect::<Result<Vec<_>, _>>()?;
    // One that was just made has no head yet, and nothing else: the log ends in the one before it.
    let with_head = heads.iter().rposition(Option::is_some).map_or(0, |at| at + 1);
    if with_head > 0 {
        heads.truncate(with_head);
        segments.truncate(with_head);
    }
    assert_eq!(heads.len(), segments.len(), "each segment's head was looked at");
    for at in 1..segments.len() {
        // That of an incarnation that ended before it had a head.
        let Some(head) = &heads[at] else { continue };
        let before = &mut segments[at - 1];
        before.bytes = before.bytes.min(head.previous_end);
        if head.mark >= durable {
            heads.truncate(at);
            segments.truncate(at);
            break;
        }
    }
    let (Some(last), Some(Some(head))) = (segments.last_mut(), heads.last()) else { return Ok(()) };
    let mut bytes = vec![0; last.bytes as usize];
    let there = last.read_there(cx, 0, &mut bytes)?;
    bytes.truncate(there);
    last.bytes = there as u64;
    let mut at = SEGMENT_HEAD_BYTES;
    while let Ok(frame) = head.frames().parse(&bytes, at) {
        at += frame.len();
        if matches!(frame.kind, FrameKind::Mark { epoch, .. } if epoch >= durable) {
            last.bytes = at as u64;
            break;
        }
    }
    if bytes[at.min(bytes.len())..].iter().all(|byte| *byte == 0) {
        last.bytes = at as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
