//! What a host's files are called, and places in them.

use std::fmt;

use liger_pod::plan::PartitionId;

/// The file name of segment `number`; names sort like numbers.
pub fn segment_name(number: u32) -> String {
    let name = format!("log-{number:010}");
    debug_assert_eq!(name.len(), "log-".len() + 10, "names sort like numbers");
    name
}

/// The number of the segment of this name, if it is one's.
pub fn segment_number(name: &str) -> Option<u32> {
    let number = name.strip_prefix("log-")?.parse().ok()?;
    (segment_name(number) == name).then_some(number)
}

/// Name of the image of `partition` in checkpoint `number`.
pub fn image_name(number: u64, partition: PartitionId) -> String {
    let name = format!("image-{number}-{partition}");
    debug_assert_eq!(image_numbers(&name), Some((number, partition)), "a name tells what it names");
    name
}

/// The checkpoint and the partition that an image's name tells.
pub fn image_numbers(name: &str) -> Option<(u64, PartitionId)> {
    let (number, partition) = name.strip_prefix("image-")?.split_once('-')?;
    Some((number.parse().ok()?, PartitionId(partition.parse().ok()?)))
}

/// A place in the files of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredAt {
    /// Byte of the file.
    pub byte: u64,
    /// Which file.
    pub file: StoredFile,
    /// Whose.
    pub host: u8,
}

/// A file that rows come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoredFile {
    /// The image of a partition in a checkpoint.
    Image {
        /// Number of the checkpoint.
        checkpoint: u32,
        /// The partition.
        partition: PartitionId,
    },
    /// A segment of a log.
    Log {
        /// Its number.
        segment: u32,
    },
}

impl fmt::Display for StoredAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.file {
            StoredFile::Image { checkpoint, partition } => image_name(checkpoint.into(), partition),
            StoredFile::Log { segment } => segment_name(segment),
        };
        write!(f, "host {}, {name}, byte {}", self.host, self.byte)
    }
}
