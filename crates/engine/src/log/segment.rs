//! Segments: the files of a host's log, and the frames in them.
//!
//! ```text
//! head    0 magic u64   8 crc u32 (CRC-32C of all that follows)   12 format u32   16 pod u64   24 number u64
//!        32 previous end u64   40 incarnation u16   42 host u8   43 zeros up to 64
//! frame   0 magic u32   4 crc u32 (of all that follows)   8 kind u8 (1 = records of one ring, 2 = mark)
//!         9 worker u8  10 incarnation u16  12 bytes u32   16 position u64   24 epoch u64
//!        32 segment u32 synced up to   36 zero u32   40 byte synced up to u64   48 payload, padded to 8
//! ```
//!
//! Invariants:
//! 1. A head or frame is whole or it is none: its checksum covers everything but magic and itself.
//! 2. A segment begins when the one before it is complete and synced; its head says where that one ends.
//!
//! Not here: reading a whole log (scan.rs).

use liger_fabric::HostId;

use super::record::{u16_at, u32_at, u64_at};
use super::scan::Spot;

/// Bytes of a segment's head.
pub const HEAD_BYTES: usize = 64;
/// Bytes of a frame without its payload.
pub const FRAME_BYTES: usize = 48;

const HEAD_MAGIC: u64 = u64::from_le_bytes(*b"LigerLog");
const FRAME_MAGIC: u32 = u32::from_le_bytes(*b"Lfrm");
const FORMAT: u32 = 1;

/// Name of a segment's file.
pub fn segment_name(number: u64) -> String {
    format!("log-{number}")
}

/// The segment whose file has this name.
pub fn segment_number(name: &str) -> Option<u64> {
    let number = name.strip_prefix("log-")?.parse().ok()?;
    (segment_name(number) == name).then_some(number)
}

/// What a segment is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHead {
    /// The pod.
    pub pod: u64,
    /// The host.
    pub host: HostId,
    /// The host's life that writes it.
    pub incarnation: u16,
    /// Its number.
    pub number: u64,
    /// How many bytes of the segment before it count.
    pub previous_end: u64,
}

/// What a frame holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameKind {
    /// Records of one ring.
    Records = 1,
    /// Nothing: it says what is durable.
    Mark = 2,
}

/// A frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// What it holds.
    pub kind: FrameKind,
    /// Of records: the ring's worker.
    pub worker: u8,
    /// Of records: the life of the host that wrote them.
    pub incarnation: u16,
    /// Of records: where in the ring's stream they begin. Of a mark: the epoch that was durable in the whole pod.
    pub position: u64,
    /// Of a mark: the epoch up to which the frames before it hold every record of this host.
    pub epoch: u64,
    /// Everything before this was on storage when the frame was written.
    pub synced: Spot,
    /// Records.
    pub payload: &'a [u8],
}

impl SegmentHead {
    /// Its bytes.
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[0..8].copy_from_slice(&HEAD_MAGIC.to_le_bytes());
        bytes[12..16].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.pod.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.number.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.previous_end.to_le_bytes());
        bytes[40..42].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes[42] = self.host.0;
        let crc = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The head at the start of a file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let bytes = bytes.get(..HEAD_BYTES).ok_or("the file is shorter than a head")?;
        if u64_at(bytes, 0) != HEAD_MAGIC {
            return Err("the magic is wrong");
        }
        if u32_at(bytes, 8) != crc32c::crc32c(&bytes[12..]) {
            return Err("the checksum of the head is wrong");
        }
        if u32_at(bytes, 12) != FORMAT {
            return Err("the format is unknown");
        }
        Ok(Self {
            pod: u64_at(bytes, 16),
            host: HostId(bytes[42]),
            incarnation: u16_at(bytes, 40),
            number: u64_at(bytes, 24),
            previous_end: u64_at(bytes, 32),
        })
    }
}

impl<'a> Frame<'a> {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&FRAME_MAGIC.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&[self.kind as u8, self.worker]);
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        out.extend_from_slice(&(self.payload.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.position.to_le_bytes());
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&(self.synced.segment as u32).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.synced.byte.to_le_bytes());
        out.extend_from_slice(self.payload);
        out.resize(start + self.len(), 0);
        let crc = crc32c::crc32c(&out[start + 8..]);
        out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
    }

    /// The frame at the start of `bytes`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let head = bytes.get(..FRAME_BYTES).ok_or("the file ends within a frame's head")?;
        if u32_at(head, 0) != FRAME_MAGIC {
            return Err("no frame starts here");
        }
        let len = u32_at(head, 12) as usize;
        let whole =
            bytes.get(..FRAME_BYTES + len.next_multiple_of(8)).ok_or("the file ends within a frame")?;
        if u32_at(head, 4) != crc32c::crc32c(&whole[8..]) {
            return Err("the checksum of the frame is wrong");
        }
        let kind = match head[8] {
            1 => FrameKind::Records,
            2 => FrameKind::Mark,
            _ => return Err("the kind of the frame is unknown"),
        };
        Ok(Self {
            kind,
            worker: head[9],
            incarnation: u16_at(head, 10),
            position: u64_at(head, 16),
            epoch: u64_at(head, 24),
            synced: Spot { segment: u64::from(u32_at(head, 32)), byte: u64_at(head, 40) },
            payload: &whole[FRAME_BYTES..FRAME_BYTES + len],
        })
    }

    /// Bytes of the frame, payload and padding included.
    #[expect(clippy::len_without_is_empty, reason = "a frame has a head")]
    pub fn len(&self) -> usize {
        FRAME_BYTES + self.payload.len().next_multiple_of(8)
    }
}
