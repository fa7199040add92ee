//! Manifests: the small files that say which of the large ones count.
//!
//! ```text
//! file   0 magic u64   8 crc u32 (CRC-32C of all that follows)   12 format u32   16 words u64 (at the end)
//!       24 features u64 (what a reader has to know; none yet)   32 reserved, 4 x u64, zero
//!       64 the words, u64 each
//!       format 2: the words from 24 on
//! host   pod, host, layouts, first segment, checkpoint (0: none), begin epoch, end epoch, images,
//!        then for each image: partition, rows, newest version, bytes, checkpoint, begin epoch
//!        formats 2 and 3: without the last two, which are those of the checkpoint
//! pod    pod, configuration, layouts, hosts, generation, first epoch, ended,
//!        then for each generation that ended: number, first epoch, last epoch that counts
//! ```
//!
//! Invariants:
//! 1. A manifest is replaced as a whole: written under another name, synced, renamed, the names synced.
//!    Whoever reads it sees the old one or the new one.
//! 2. What a manifest names is on storage before the manifest is.
//! 3. Epochs of generations do not overlap, so an epoch tells its generation.
//! 4. An image stays in force when the next checkpoint has none of its partition, which other hosts may still
//!    be making from it: it is of an earlier checkpoint then, and begins where that began.
//! 5. Whatever an older format than the oldest, a newer one than this, a feature that is not known, or a
//!    reserved word that is used may mean, it is not guessed: such a manifest is refused.

use liger_fabric::HostId;
use liger_pod::plan::PartitionId;

use super::error::{FileByte, RecoveryError};
use super::image::{ImageEnd, ImageHead};
use crate::files::image_name;
use crate::log::record::{u32_at, u64_at};

/// Name of a host's manifest in its directory.
pub const HOST_MANIFEST: &str = "manifest";
/// Name of the pod's manifest, in the directory of host 0.
pub const POD_MANIFEST: &str = "pod";

/// Number of a host's first segment.
pub const FIRST_SEGMENT: u32 = 1;

const HOST_MAGIC: u64 = u64::from_le_bytes(*b"LigrHost");
const POD_MAGIC: u64 = u64::from_le_bytes(*b"LigerPod");
const FORMAT: u32 = 4;
/// The oldest format that is read. It is written again as [`FORMAT`].
const OLDEST_FORMAT: u32 = 2;
/// The first format whose images say of which checkpoint they are.
const WITH_CHECKPOINTS: u32 = 4;
/// The features that this program knows.
const FEATURES: u64 = 0;
const COVERED: usize = 12;
const FEATURES_AT: usize = 24;
const RESERVED: std::ops::Range<usize> = 32..64;
const FILE_HEAD: usize = RESERVED.end;
/// As [`FILE_HEAD`], of format 2.
const FILE_HEAD_2: usize = FEATURES_AT;

// Words behind a head of words; the checksum covers all that is behind it.
const _: () = assert!(FILE_HEAD.is_multiple_of(8) && FILE_HEAD_2.is_multiple_of(8) && COVERED == 8 + 4);
const _: () = assert!(RESERVED.start == FEATURES_AT + 8 && OLDEST_FORMAT <= FORMAT);

/// An image that a checkpoint has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImageEntry {
    /// Its partition, or [`super::image::REPLICAS`].
    pub partition: PartitionId,
    /// What it holds.
    pub end: ImageEnd,
    /// The number of the checkpoint that it was made for.
    pub checkpoint: u64,
    /// Every transaction of an earlier epoch is in it.
    pub begin_epoch: u64,
}

/// A checkpoint of a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    /// Its number, from 1.
    pub number: u64,
    /// Every transaction of an earlier epoch is in it.
    pub begin_epoch: u64,
    /// No transaction of a later epoch is in it: it counts once this epoch is durable.
    pub end_epoch: u64,
    /// Its images, and those of earlier ones that are still in force, by partition.
    pub images: Vec<ImageEntry>,
}

/// What a host's directory holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostManifest {
    /// The pod.
    pub pod: u64,
    /// The host.
    pub host: HostId,
    /// Hash of the tables' layouts.
    pub layouts: u64,
    /// First segment of the log that recovery may need.
    pub first_segment: u32,
    /// The valid checkpoint, if there was one.
    pub checkpoint: Option<Checkpoint>,
}

/// A generation of the pod that has ended: its records count from the first to the last epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// Its number.
    pub generation: u64,
    /// The first epoch that it used.
    pub first_epoch: u64,
    /// The last epoch that counts; less than the first one if none does.
    pub last_epoch: u64,
}

/// What the pod is, and which records count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodManifest {
    /// The pod.
    pub pod: u64,
    /// Hash of its configuration.
    pub configuration: u64,
    /// Hash of the tables' layouts.
    pub layouts: u64,
    /// Number of its hosts.
    pub hosts: u8,
    /// Its generation, from 1: how often its memory was made anew.
    pub generation: u64,
    /// The first epoch of this generation.
    pub first_epoch: u64,
    /// Earlier generations.
    pub ended: Vec<Cut>,
}

impl Checkpoint {
    /// Its image of a partition, if it has one.
    pub fn image_of(&self, partition: PartitionId) -> Option<&ImageEntry> {
        self.images.iter().find(|image| image.partition == partition)
    }
}

impl ImageEntry {
    /// The head of the image, which is of the host of this manifest.
    pub fn head(&self, manifest: &HostManifest) -> ImageHead {
        ImageHead {
            pod: manifest.pod,
            layouts: manifest.layouts,
            checkpoint: self.checkpoint,
            begin_epoch: self.begin_epoch,
            host: manifest.host,
            partition: self.partition,
        }
    }

    /// The name of its file.
    pub fn file_name(&self) -> String {
        image_name(self.checkpoint, self.partition)
    }
}

impl HostManifest {
    /// The images that are in force.
    pub fn images(&self) -> &[ImageEntry] {
        self.checkpoint.as_ref().map_or(&[], |checkpoint| &checkpoint.images)
    }

    /// Where its checkpoint begins; 0 if there is none.
    pub fn begin_epoch(&self) -> u64 {
        self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.begin_epoch)
    }

    /// The least epoch that has to be applied to any of its images; 0 if there is no checkpoint.
    pub fn needed_epoch(&self) -> u64 {
        let begins = self.images().iter().map(|image| image.begin_epoch);
        begins.min().unwrap_or(u64::MAX).min(self.begin_epoch())
    }

    /// The manifest of a host that has written nothing yet.
    pub fn new(pod: u64, host: HostId, layouts: u64) -> Self {
        Self { pod, host, layouts, first_segment: FIRST_SEGMENT, checkpoint: None }
    }

    /// The file.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.first_segment >= FIRST_SEGMENT, "segments count from {FIRST_SEGMENT}");
        if let Some(Checkpoint { number, begin_epoch, end_epoch, images }) = &self.checkpoint {
            assert!(*number > 0, "number 0 says that there is no checkpoint");
            assert!(begin_epoch <= end_epoch, "a checkpoint from {begin_epoch} to {end_epoch}");
            assert!(images.is_sorted_by(|a, b| a.partition < b.partition), "images are by partition");
            let is_known = |image: &ImageEntry| match image.checkpoint == *number {
                true => image.begin_epoch == *begin_epoch,
                false => image.checkpoint < *number && image.begin_epoch <= *begin_epoch,
            };
            assert!(images.iter().all(is_known), "an image is of this checkpoint or an earlier one");
        }
        let none = Checkpoint { number: 0, begin_epoch: 0, end_epoch: 0, images: Vec::new() };
        let checkpoint = self.checkpoint.as_ref().unwrap_or(&none);
        let mut words = vec![self.pod, u64::from(self.host.0), self.layouts, u64::from(self.first_segment)];
        words.extend([checkpoint.number, checkpoint.begin_epoch, checkpoint.end_epoch]);
        words.push(checkpoint.images.len() as u64);
        for image in &checkpoint.images {
            let ImageEnd { rows, newest, bytes } = image.end;
            words.extend([u64::from(image.partition.0), rows, newest, bytes]);
            words.extend([image.checkpoint, image.begin_epoch]);
        }
        let bytes = seal(HOST_MAGIC, &words);
        debug_assert_eq!(Self::decode(self.host, &bytes).as_ref(), Ok(self), "what is written is read");
        bytes
    }

    /// Reads the file of host `host`.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn decode(host: HostId, bytes: &[u8]) -> Result<Self, RecoveryError> {
        let mut words = open(HOST_MAGIC, host, HOST_MANIFEST, bytes)?;
        let manifest = Self {
            pod: words.next()?,
            host: words.next_as("host").map(HostId)?,
            layouts: words.next()?,
            first_segment: words.next_as("first segment")?,
            checkpoint: Self::decode_checkpoint(&mut words)?,
        };
        words.end()?;
        Ok(manifest)
    }

    fn decode_checkpoint(words: &mut Words<'_>) -> Result<Option<Checkpoint>, RecoveryError> {
        let (number, begin_epoch, end_epoch) = (words.next()?, words.next()?, words.next()?);
        let count: u16 = words.next_as("number of images")?;
        let mut images = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            let partition = PartitionId(words.next_as("partition")?);
            let end = ImageEnd { rows: words.next()?, newest: words.next()?, bytes: words.next()? };
            let (checkpoint, begin_epoch) = match words.format < WITH_CHECKPOINTS {
                true => (number, begin_epoch),
                false => (words.next()?, words.next()?),
            };
            images.push(ImageEntry { partition, end, checkpoint, begin_epoch });
        }
        Ok((number != 0).then_some(Checkpoint { number, begin_epoch, end_epoch, images }))
    }
}

impl PodManifest {
    /// The manifest of a pod that was just formatted.
    pub fn new(pod: u64, configuration: u64, layouts: u64, hosts: u8) -> Self {
        Self { pod, configuration, layouts, hosts, generation: 1, first_epoch: 1, ended: Vec::new() }
    }

    /// True if records of `epoch` count when `durable` is the last durable epoch of the present generation.
    pub fn counts(&self, epoch: u64, durable: u64) -> bool {
        if epoch >= self.first_epoch {
            return epoch <= durable;
        }
        self.ended.iter().any(|cut| (cut.first_epoch..=cut.last_epoch).contains(&epoch))
    }

    /// The manifest of the next generation: of this one, epochs up to `durable` count, and the next one
    /// starts with `first_epoch`. What ended before `oldest_begin`, the least begin of a valid checkpoint,
    /// need not be known any more.
    ///
    /// # Panics
    /// If epochs would be used twice.
    pub fn next_generation(&self, durable: u64, first_epoch: u64, oldest_begin: u64) -> Self {
        assert!(first_epoch > durable && first_epoch >= self.first_epoch, "epochs are never used twice");
        let mut next = Self { generation: self.generation + 1, first_epoch, ..self.clone() };
        next.ended.retain(|cut| cut.last_epoch >= oldest_begin);
        if durable >= self.first_epoch {
            let (generation, first_epoch) = (self.generation, self.first_epoch);
            next.ended.push(Cut { generation, first_epoch, last_epoch: durable });
        }
        let last = next.ended.last().map(|cut| cut.last_epoch);
        assert!(last.is_none_or(|last| last < next.first_epoch), "epoch {last:?} is used twice: {next:?}");
        next
    }

    /// The file.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.generation > 0 && self.first_epoch > 0, "generations and epochs count from 1");
        let overlap = |pair: &[Cut]| pair[0].last_epoch >= pair[1].first_epoch;
        assert!(!self.ended.windows(2).any(overlap), "an epoch tells its generation: {:?}", self.ended);
        let mut words = vec![self.pod, self.configuration, self.layouts, u64::from(self.hosts)];
        words.extend([self.generation, self.first_epoch, self.ended.len() as u64]);
        for cut in &self.ended {
            words.extend([cut.generation, cut.first_epoch, cut.last_epoch]);
        }
        let bytes = seal(POD_MAGIC, &words);
        debug_assert_eq!(Self::decode(HostId(0), &bytes).as_ref(), Ok(self), "what is written is read");
        bytes
    }

    /// Reads the file, which is in the directory of `host`.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn decode(host: HostId, bytes: &[u8]) -> Result<Self, RecoveryError> {
        let mut words = open(POD_MAGIC, host, POD_MANIFEST, bytes)?;
        let mut manifest = Self {
            pod: words.next()?,
            configuration: words.next()?,
            layouts: words.next()?,
            hosts: words.next_as("number of hosts")?,
            generation: words.next()?,
            first_epoch: words.next()?,
            ended: Vec::new(),
        };
        for _ in 0..words.next()? {
            let (generation, first_epoch, last_epoch) = (words.next()?, words.next()?, words.next()?);
            manifest.ended.push(Cut { generation, first_epoch, last_epoch });
        }
        words.end()?;
        Ok(manifest)
    }
}

fn seal(magic: u64, words: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FILE_HEAD + 8 * words.len());
    bytes.extend_from_slice(&magic.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&FORMAT.to_le_bytes());
    bytes.extend_from_slice(&(words.len() as u64).to_le_bytes());
    bytes.resize(FILE_HEAD, 0);
    words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    let crc = crc32c::crc32c(&bytes[COVERED..]);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(bytes.len(), FILE_HEAD + 8 * words.len(), "the head says how many words there are");
    bytes
}

/// The words of a manifest that has been checked.
struct Words<'a> {
    host: HostId,
    file: &'a str,
    bytes: &'a [u8],
    at: usize,
    format: u32,
}

fn open<'a>(magic: u64, host: HostId, file: &'a str, bytes: &'a [u8]) -> Result<Words<'a>, RecoveryError> {
    let at = |byte: usize| FileByte::new(host, file, byte as u64);
    let damaged = |byte: usize, why: String| Err(RecoveryError::damaged(at(byte), why));
    if bytes.len() < FILE_HEAD_2 {
        return damaged(bytes.len(), format!("a manifest of {} bytes", bytes.len()));
    }
    if u64_at(bytes, 0) != magic {
        return damaged(0, format!("it starts with {:#x}, expected {magic:#x}", u64_at(bytes, 0)));
    }
    let (found, computed) = (u32_at(bytes, 8), crc32c::crc32c(&bytes[COVERED..]));
    if found != computed {
        return damaged(8, format!("its checksum is {found:#010x}, its bytes give {computed:#010x}"));
    }
    let format = u32_at(bytes, 12);
    let head = match format {
        OLDEST_FORMAT => FILE_HEAD_2,
        _ if (OLDEST_FORMAT..=FORMAT).contains(&format) => FILE_HEAD,
        found => {
            let (oldest, newest) = (OLDEST_FORMAT, FORMAT);
            return Err(RecoveryError::OtherFormat { at: at(12), found, oldest, newest });
        }
    };
    if bytes.len() < head {
        return damaged(bytes.len(), format!("a manifest of {} bytes", bytes.len()));
    }
    if head == FILE_HEAD {
        let unknown = u64_at(bytes, FEATURES_AT) & !FEATURES;
        if unknown != 0 {
            return Err(RecoveryError::UnknownFeatures { at: at(FEATURES_AT), unknown });
        }
        if let Some(used) = RESERVED.step_by(8).find(|at| u64_at(bytes, *at) != 0) {
            return damaged(used, format!("a reserved word is {:#x}", u64_at(bytes, used)));
        }
    }
    let words = u64_at(bytes, 16);
    if words.checked_mul(8) != Some((bytes.len() - head) as u64) {
        return damaged(16, format!("{words} words in {} bytes", bytes.len()));
    }
    Ok(Words { host, file, bytes, at: head, format })
}

impl Words<'_> {
    fn damaged(&self, why: String) -> RecoveryError {
        RecoveryError::damaged(FileByte::new(self.host, self.file, self.at as u64), why)
    }

    fn next(&mut self) -> Result<u64, RecoveryError> {
        if self.at + 8 > self.bytes.len() {
            return Err(self.damaged("it ends too early".to_owned()));
        }
        self.at += 8;
        Ok(u64_at(self.bytes, self.at - 8))
    }

    fn next_as<T: TryFrom<u64>>(&mut self, what: &str) -> Result<T, RecoveryError> {
        let word = self.next()?;
        T::try_from(word).map_err(|_| self.damaged(format!("its {what} is {word}")))
    }

    fn end(&self) -> Result<(), RecoveryError> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.damaged("it ends too late".to_owned())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host_manifest() -> HostManifest {
        let entry = |(partition, checkpoint, begin_epoch)| {
            let (partition, end) = (PartitionId(partition), ImageEnd { rows: 5, newest: 6, bytes: 7 });
            ImageEntry { partition, end, checkpoint, begin_epoch }
        };
        let images = [(1, 4, 8), (3, 2, 5), (u16::MAX, 4, 8)].map(entry).to_vec();
        let checkpoint = Some(Checkpoint { number: 4, begin_epoch: 8, end_epoch: 9, images });
        HostManifest { pod: 77, host: HostId(1), layouts: 99, first_segment: 12, checkpoint }
    }

    fn pod_manifest() -> PodManifest {
        let first = PodManifest::new(77, 88, 99, 2);
        first.next_generation(40, 53, 0).next_generation(60, 61, 0)
    }

    #[test]
    fn what_was_written_is_read() {
        let empty = HostManifest::new(77, HostId(1), 99);
        for manifest in [host_manifest(), empty] {
            assert_eq!(HostManifest::decode(HostId(1), &manifest.encode()), Ok(manifest));
        }
        assert_eq!(PodManifest::decode(HostId(0), &pod_manifest().encode()), Ok(pod_manifest()));
    }

    /// Kept for ever: they are what data directories hold.
    #[test]
    fn the_bytes_of_manifests_never_change() {
        let host = [
            "4c696772486f737401e32290040000001a0000000000000000000000000000000000000000000000",
            "0000000000000000000000000000000000000000000000004d000000000000000100000000000000",
            "63000000000000000c00000000000000040000000000000008000000000000000900000000000000",
            "03000000000000000100000000000000050000000000000006000000000000000700000000000000",
            "04000000000000000800000000000000030000000000000005000000000000000600000000000000",
            "070000000000000002000000000000000500000000000000ffff0000000000000500000000000000",
            "0600000000000000070000000000000004000000000000000800000000000000",
        ]
        .concat();
        let pod = [
            "4c69676572506f642483c5dd040000000d0000000000000000000000000000000000000000000000",
            "0000000000000000000000000000000000000000000000004d000000000000005800000000000000",
            "6300000000000000020000000000000003000000000000003d000000000000000200000000000000",
            "01000000000000000100000000000000280000000000000002000000000000003500000000000000",
            "3c00000000000000",
        ]
        .concat();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hex(&host_manifest().encode()), host);
        assert_eq!(hex(&pod_manifest().encode()), pod);
    }

    /// A manifest as an older format had it: its words, those of images without the last two.
    fn in_format(format: u32, bytes: &[u8], words_before_images: usize) -> Vec<u8> {
        let words: Vec<&[u8]> = bytes[FILE_HEAD..].chunks_exact(8).collect();
        let (before, images) = words.split_at(words_before_images.min(words.len()));
        let kept: Vec<&[u8]> = images.chunks_exact(6).flat_map(|image| &image[..4]).copied().collect();
        let head = if format == OLDEST_FORMAT { FILE_HEAD_2 } else { FILE_HEAD };
        let mut old = [&bytes[..head], &before.concat(), &kept.concat()].concat();
        old[12..16].copy_from_slice(&format.to_le_bytes());
        old[16..24].copy_from_slice(&((before.len() + kept.len()) as u64).to_le_bytes());
        sealed(old)
    }

    fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
        let crc = crc32c::crc32c(&bytes[COVERED..]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    #[test]
    fn older_manifests_are_read_and_newer_ones_refused() {
        let bytes = host_manifest().encode();
        let mut of_one_checkpoint = host_manifest();
        let checkpoint = of_one_checkpoint.checkpoint.as_mut().expect("it has one");
        checkpoint.images.iter_mut().for_each(|image| (image.checkpoint, image.begin_epoch) = (4, 8));
        for format in OLDEST_FORMAT..FORMAT {
            let host = HostManifest::decode(HostId(1), &in_format(format, &bytes, 8));
            assert_eq!(host.as_ref(), Ok(&of_one_checkpoint), "format {format}");
            let pod = in_format(format, &pod_manifest().encode(), usize::MAX);
            assert_eq!(PodManifest::decode(HostId(0), &pod), Ok(pod_manifest()), "format {format}");
        }
        let refused = |at: usize, value: u64| {
            let mut other = bytes.clone();
            let size = if at == 12 { 4 } else { 8 };
            other[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
            HostManifest::decode(HostId(1), &sealed(other)).unwrap_err().to_string()
        };
        let at = |byte, what: &str| format!("host 1, manifest, byte {byte}: {what}");
        for format in [1, 5] {
            let why =
                format!("its format is {format}, this program reads 2 to 4: use the program that wrote it");
            assert_eq!(refused(12, format), at(12, &why));
        }
        let why = "it has features that this program does not know (0x100): use the program that wrote it";
        assert_eq!(refused(24, 256), at(24, why));
        for word in RESERVED.step_by(8) {
            assert_eq!(refused(word, 1), at(word, "a reserved word is 0x1"));
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_found_and_named() {
        let (host, pod) = (host_manifest().encode(), pod_manifest().encode());
        let check = |bytes: &[u8], is_host: bool, what: String| {
            let failed = match is_host {
                true => HostManifest::decode(HostId(1), bytes).unwrap_err(),
                false => PodManifest::decode(HostId(1), bytes).unwrap_err(),
            };
            let file = if is_host { HOST_MANIFEST } else { POD_MANIFEST };
            assert!(failed.to_string().starts_with(&format!("host 1, {file}, byte ")), "{what}: {failed}");
        };
        for (bytes, is_host) in [(host, true), (pod, false)] {
            for bit in 0..8 * bytes.len() {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                check(&damaged, is_host, format!("bit {bit}"));
            }
            for len in 0..bytes.len() {
                check(&bytes[..len], is_host, format!("{len} bytes"));
            }
        }
    }

    #[test]
    fn epochs_count_by_their_generation() {
        let manifest = pod_manifest();
        let counted: Vec<u64> = (1..70).filter(|epoch| manifest.counts(*epoch, 65)).collect();
        let expected: Vec<u64> = (1..=40).chain(53..=60).chain(61..=65).collect();
        assert_eq!(counted, expected);
        assert_eq!(manifest.generation, 3);
        // A generation that came to nothing leaves no trace but its number.
        let again = manifest.next_generation(60, 62, 0);
        assert_eq!((again.generation, again.ended.len()), (4, 2));
        let pruned = manifest.next_generation(64, 66, 41);
        assert_eq!(pruned.ended.iter().map(|cut| cut.generation).collect::<Vec<_>>(), [2, 3]);
    }
}
