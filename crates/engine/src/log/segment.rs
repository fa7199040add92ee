//! Segments of a host's log: the bytes of their heads and of the frames in them.
//!
//! ```text
//! head    0 magic u32   4 crc u32   8 format u32   12 host u8   13 zero u8   14 incarnation u16
//!        16 pod u64    24 number u32   28 zero u32   32 generation u64   40 previous end u64
//!        48 mark u64
//! frame   0 magic u32   4 crc u32 (of the payload)
//!         8 kind u8 (1 records, 2 mark, 3 closed)  9 worker u8  10 incarnation u16
//!        12 bytes u32  16 position u64 (records: in the ring's stream; else: pod's durable epoch, as known)
//!        24 mark: the durable epoch that it states u64
//!           records: byte of the payload at which the first record begins u64; `bytes` if none does
//!        32 segment u32 and 40 byte u64: synced up to there
//!        36 crc u32 (of pod u64, host u8, segment u32, byte u64 where the frame is, and the head's rest)
//!        48 payload, padded to 8
//! ```
//!
//! Invariants:
//! 1. Checksums (CRC-32C) cover every byte. That of a frame's head begins with the place of the frame: bytes
//!    that a user has stored, and frames of other places, are taken for a frame of this one by chance only.
//! 2. Everything is little-endian; a frame is a multiple of 8 bytes.
//! 3. Parsing never panics, whatever the bytes are.
//! 4. Whether a frame's head is intact takes a fixed number of bytes to see: bytes are searched for frames in
//!    a time in proportion to their number, whatever they are.
//!
//! Not here: files (ship.rs), and what torn or damaged ends mean (recovery).

use liger_fabric::HostId;

use super::record::{u16_at, u32_at, u64_at};
use crate::checksum::{checksum, checksum_from};

/// Bytes of a segment's head.
pub const SEGMENT_HEAD_BYTES: usize = 56;
/// Bytes of a frame's head.
pub const FRAME_HEAD_BYTES: usize = 48;
/// Version of segments: from 4 on, transactions may have several records; from 5 on, rows that are new are
/// without what is zero at their end.
pub const SEGMENT_FORMAT: u32 = 5;
/// The oldest that is read.
pub const OLDEST_SEGMENT_FORMAT: u32 = 3;

// A frame begins at a word, wherever the one before it ends; its checksum lies in its head.
const _: () = assert!(SEGMENT_HEAD_BYTES.is_multiple_of(8) && FRAME_HEAD_BYTES.is_multiple_of(8));
const _: () = assert!(HEAD_CRC + 4 <= FRAME_HEAD_BYTES && COVERED < SEGMENT_HEAD_BYTES);

const SEGMENT_MAGIC: u32 = u32::from_le_bytes(*b"LigS");
const FRAME_MAGIC: u32 = u32::from_le_bytes(*b"LigF");
/// What the checksum of a segment's head covers begins here.
const COVERED: usize = 8;
/// Where in a frame's head its checksum is.
const HEAD_CRC: usize = 36;
const KIND_RECORDS: u8 = 1;
const KIND_MARK: u8 = 2;
const KIND_CLOSED: u8 = 3;

/// Why bytes are no segment head or no frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadBytes {
    /// The bytes end before it does.
    #[error("it has {needed} bytes, and {available} are there")]
    Short {
        /// Bytes that it has.
        needed: u64,
        /// Bytes there are.
        available: u64,
    },
    /// It starts with something else.
    #[error("its magic number is {found:#010x}")]
    Magic {
        /// What is there.
        found: u32,
    },
    /// The checksum is wrong.
    #[error("its checksum is {found:#010x}, its bytes give {computed:#010x}")]
    Checksum {
        /// In the head.
        found: u32,
        /// Of the bytes.
        computed: u32,
    },
    /// Another version wrote it.
    #[error("its format is {found}, this program reads {OLDEST_SEGMENT_FORMAT} to {SEGMENT_FORMAT}")]
    Format {
        /// What it says.
        found: u32,
    },
    /// The checksum is right, and the rest makes no sense: written by another version, or a bug.
    #[error("its {what} makes no sense")]
    Malformed {
        /// Which part.
        what: &'static str,
    },
}

/// What a segment says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHead {
    /// The pod it belongs to.
    pub pod: u64,
    /// The host that wrote it.
    pub host: HostId,
    /// Its incarnation.
    pub incarnation: u16,
    /// Which of the host's segments it is.
    pub number: u32,
    /// The pod's generation: streams of rings begin anew with each.
    pub generation: u64,
    /// How many bytes count of the newest segment before it that has a head. It begins when they are on
    /// storage.
    pub previous_end: u64,
    /// The epoch of the last mark before it: earlier segments may be removed.
    pub mark: u64,
}

impl SegmentHead {
    /// The segment's frames.
    pub fn frames(&self) -> Frames {
        Frames::of(self.pod, self.host, self.number)
    }

    /// Its bytes.
    pub fn encode(&self) -> [u8; SEGMENT_HEAD_BYTES] {
        let mut bytes = [0; SEGMENT_HEAD_BYTES];
        bytes[8..12].copy_from_slice(&SEGMENT_FORMAT.to_le_bytes());
        bytes[12] = self.host.0;
        bytes[14..16].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.pod.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.number.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.generation.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.previous_end.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.mark.to_le_bytes());
        bytes[..4].copy_from_slice(&SEGMENT_MAGIC.to_le_bytes());
        let crc = checksum(&bytes[COVERED..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Self::decode(&bytes), Ok(*self), "what is written is read");
        bytes
    }

    /// The head at the start of `bytes`.
    ///
    /// # Errors
    /// If there is none that is whole and of this format.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadBytes> {
        let (needed, available) = (SEGMENT_HEAD_BYTES as u64, bytes.len() as u64);
        let bytes: &[u8; SEGMENT_HEAD_BYTES] =
            bytes.first_chunk().ok_or(BadBytes::Short { needed, available })?;
        match u32_at(bytes, 0) {
            SEGMENT_MAGIC => {}
            found => return Err(BadBytes::Magic { found }),
        }
        let (found, computed) = (u32_at(bytes, 4), checksum(&bytes[COVERED..]));
        if found != computed {
            return Err(BadBytes::Checksum { found, computed });
        }
        match u32_at(bytes, 8) {
            OLDEST_SEGMENT_FORMAT..=SEGMENT_FORMAT => {}
            found => return Err(BadBytes::Format { found }),
        }
        if bytes[13] != 0 || u32_at(bytes, 28) != 0 {
            return Err(BadBytes::Malformed { what: "padding" });
        }
        let (pod, number) = (u64_at(bytes, 16), u32_at(bytes, 24));
        let (generation, previous_end, mark) = (u64_at(bytes, 32), u64_at(bytes, 40), u64_at(bytes, 48));
        let (host, incarnation) = (HostId(bytes[12]), u16_at(bytes, 14));
        Ok(Self { pod, host, incarnation, number, generation, previous_end, mark })
    }
}

/// A place in a host's log: everything before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct LogPosition {
    /// Segment.
    pub segment: u32,
    /// Byte in it.
    pub byte: u64,
}

/// What a frame holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameKind {
    /// A piece of a ring's stream; it may begin and end within a record.
    Records {
        /// Whose ring.
        worker: u8,
        /// The incarnation that shipped it (its records may be of an earlier one).
        incarnation: u16,
        /// Where in the ring's stream it starts.
        position: u64,
        /// At which byte of the payload the first record begins; the payload's length if none does.
        first: u32,
    },
    /// The frames before it hold every record of this host, which is dead and commits no more: its log holds
    /// nobody back until a later incarnation appends to it.
    Closed {
        /// The newest epoch that the writer knew to be durable in the whole pod.
        pod_durable: u64,
    },
    /// The frames before it hold every record of this host up to an epoch.
    Mark {
        /// That epoch.
        epoch: u64,
        /// The newest epoch that the writer knew to be durable in the whole pod.
        pod_durable: u64,
    },
}

/// A checked frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// What it is.
    pub kind: FrameKind,
    /// What its writer knew to be on storage.
    pub synced: LogPosition,
    /// The ring's bytes; empty for a mark.
    pub payload: &'a [u8],
}

/// The checked head of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHead {
    /// What the frame is.
    pub kind: FrameKind,
    /// What its writer knew to be on storage.
    pub synced: LogPosition,
    payload_bytes: u32,
    payload_crc: u32,
}

impl FrameHead {
    /// Bytes of the whole frame.
    #[expect(clippy::len_without_is_empty, reason = "a frame has a head")]
    pub fn len(&self) -> usize {
        FRAME_HEAD_BYTES + (self.payload_bytes as usize).next_multiple_of(8)
    }
}

impl Frame<'_> {
    /// Appends the frame to the bytes of a whole segment.
    pub fn encode(&self, frames: Frames, segment: &mut Vec<u8>) {
        let at = segment.len() as u64;
        frames.encode(at, self.kind, self.synced, segment, |out| out.extend_from_slice(self.payload));
    }

    /// Bytes of the whole frame.
    #[expect(clippy::len_without_is_empty, reason = "a frame has a head")]
    pub fn len(&self) -> usize {
        FRAME_HEAD_BYTES + self.payload.len().next_multiple_of(8)
    }
}

/// The frames of one segment: reads and writes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frames {
    /// Checksum of what names the segment.
    seed: u32,
}

impl Frames {
    /// Those of this segment.
    pub fn of(pod: u64, host: HostId, segment: u32) -> Self {
        let seed = checksum_from(checksum(&pod.to_le_bytes()), &[host.0]);
        Self { seed: checksum_from(seed, &segment.to_le_bytes()) }
    }

    /// The frame at byte `at` of the segment, whose bytes these are.
    ///
    /// # Errors
    /// If there is none that is whole.
    pub fn parse(self, segment: &[u8], at: usize) -> Result<Frame<'_>, BadBytes> {
        let head = self.head(segment, at)?;
        let payload = head.payload(segment, at)?;
        Ok(Frame { kind: head.kind, synced: head.synced, payload })
    }

    /// The head of the frame at byte `at` of the segment, whose bytes these are.
    ///
    /// # Errors
    /// If there is none that is whole.
    pub fn head(self, segment: &[u8], at: usize) -> Result<FrameHead, BadBytes> {
        let available = segment.len().saturating_sub(at);
        let short = BadBytes::Short { needed: FRAME_HEAD_BYTES as u64, available: available as u64 };
        let head: &[u8; FRAME_HEAD_BYTES] = segment.get(at..).and_then(<[u8]>::first_chunk).ok_or(short)?;
        match u32_at(head, 0) {
            FRAME_MAGIC => {}
            found => return Err(BadBytes::Magic { found }),
        }
        let (found, computed) = (u32_at(head, HEAD_CRC), self.crc(head, at as u64));
        if found != computed {
            return Err(BadBytes::Checksum { found, computed });
        }
        let (payload_bytes, position, third) = (u32_at(head, 12), u64_at(head, 16), u64_at(head, 24));
        let kind = match (head[8], payload_bytes) {
            (KIND_RECORDS, 1..) => {
                let first = third.try_into().ok().filter(|first| *first <= payload_bytes && first % 8 == 0);
                let first = first.ok_or(BadBytes::Malformed { what: "first record" })?;
                FrameKind::Records { worker: head[9], incarnation: u16_at(head, 10), position, first }
            }
            (KIND_MARK, 0) => FrameKind::Mark { epoch: third, pod_durable: position },
            (KIND_CLOSED, 0) => FrameKind::Closed { pod_durable: position },
            _ => return Err(BadBytes::Malformed { what: "kind" }),
        };
        let synced = LogPosition { segment: u32_at(head, 32), byte: u64_at(head, 40) };
        Ok(FrameHead { kind, synced, payload_bytes, payload_crc: u32_at(head, 4) })
    }

    /// Adds the bytes of a frame that will be at byte `at` of the segment to `out`; `fill` adds its payload,
    /// which is copied nowhere else.
    pub fn encode(
        self,
        at: u64,
        kind: FrameKind,
        synced: LogPosition,
        out: &mut Vec<u8>,
        fill: impl FnOnce(&mut Vec<u8>),
    ) {
        debug_assert!(at.is_multiple_of(8), "a frame at byte {at}");
        let start = out.len();
        out.resize(start + FRAME_HEAD_BYTES, 0);
        fill(out);
        let bytes = out.len() - start - FRAME_HEAD_BYTES;
        debug_assert!(u32::try_from(bytes).is_ok(), "a frame of {bytes} bytes");
        let payload_bytes = bytes as u32;
        out.resize(out.len().next_multiple_of(8), 0);
        let (head, payload) = out[start..].split_at_mut(FRAME_HEAD_BYTES);
        let head: &mut [u8; FRAME_HEAD_BYTES] = head.try_into().expect("so many bytes");
        let (kind, worker, incarnation, position, third) = match kind {
            FrameKind::Records { worker, incarnation, position, first } => {
                debug_assert!(first <= payload_bytes, "a record begins at {first} of {payload_bytes}");
                debug_assert!(first.is_multiple_of(8), "a record begins at byte {first} of a frame");
                (KIND_RECORDS, worker, incarnation, position, u64::from(first))
            }
            FrameKind::Mark { epoch, pod_durable } => (KIND_MARK, 0, 0, pod_durable, epoch),
            FrameKind::Closed { pod_durable } => (KIND_CLOSED, 0, 0, pod_durable, 0),
        };
        debug_assert_eq!(kind == KIND_RECORDS, payload_bytes > 0, "records have bytes, others have none");
        head[..4].copy_from_slice(&FRAME_MAGIC.to_le_bytes());
        head[4..8].copy_from_slice(&checksum(payload).to_le_bytes());
        head[8..10].copy_from_slice(&[kind, worker]);
        head[10..12].copy_from_slice(&incarnation.to_le_bytes());
        head[12..16].copy_from_slice(&payload_bytes.to_le_bytes());
        head[16..24].copy_from_slice(&position.to_le_bytes());
        head[24..32].copy_from_slice(&third.to_le_bytes());
        head[32..36].copy_from_slice(&synced.segment.to_le_bytes());
        head[40..48].copy_from_slice(&synced.byte.to_le_bytes());
        let crc = self.crc(head, at);
        head[HEAD_CRC..HEAD_CRC + 4].copy_from_slice(&crc.to_le_bytes());
    }

    /// The checksum of a head at byte `at`.
    fn crc(self, head: &[u8; FRAME_HEAD_BYTES], at: u64) -> u32 {
        let placed = checksum_from(self.seed, &at.to_le_bytes());
        checksum_from(checksum_from(placed, &head[..HEAD_CRC]), &head[HEAD_CRC + 4..])
    }
}

impl FrameHead {
    /// The payload of the frame at byte `at` of the segment.
    ///
    /// # Errors
    /// If it is not whole.
    pub fn payload<'a>(&self, segment: &'a [u8], at: usize) -> Result<&'a [u8], BadBytes> {
        debug_assert!(at + FRAME_HEAD_BYTES <= segment.len(), "its head was read at byte {at}");
        let (needed, available) = (self.len() as u64, (segment.len() - at) as u64);
        let frame = segment.get(at..at + self.len()).ok_or(BadBytes::Short { needed, available })?;
        let payload = &frame[FRAME_HEAD_BYTES..];
        let (found, computed) = (self.payload_crc, checksum(payload));
        if found != computed {
            return Err(BadBytes::Checksum { found, computed });
        }
        Ok(&payload[..self.payload_bytes as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{segment_name, segment_number};

    const HEAD: SegmentHead = SegmentHead {
        pod: 77,
        host: HostId(3),
        incarnation: 9,
        number: 12,
        generation: 2,
        previous_end: 4096,
        mark: 5,
    };

    fn frames() -> [Frame<'static>; 2] {
        let synced = LogPosition { segment: 11, byte: 4096 };
        let records = FrameKind::Records { worker: 5, incarnation: 9, position: 1 << 40, first: 8 };
        let mark = FrameKind::Mark { epoch: 8, pod_durable: 6 };
        [Frame { kind: records, synced, payload: b"eleven byte" }, Frame { kind: mark, synced, payload: &[] }]
    }

    #[test]
    fn what_was_written_is_read() {
        assert_eq!(SegmentHead::decode(&HEAD.encode()), Ok(HEAD));
        let mut bytes = Vec::new();
        for frame in frames() {
            frame.encode(HEAD.frames(), &mut bytes);
        }
        let first = HEAD.frames().parse(&bytes, 0).unwrap();
        let second = HEAD.frames().parse(&bytes, first.len()).unwrap();
        assert_eq!([first, second], frames());
        assert_eq!(first.len() + second.len(), bytes.len());
    }

    #[test]
    fn a_frame_of_another_place_is_none() {
        let mut bytes = vec![0; 64];
        frames()[0].encode(HEAD.frames(), &mut bytes);
        assert!(HEAD.frames().parse(&bytes, 64).is_ok());
        let moved = bytes[8..].to_vec();
        assert!(matches!(HEAD.frames().parse(&moved, 56), Err(BadBytes::Checksum { .. })));
        let others = [(78, HostId(3), 12), (77, HostId(2), 12), (77, HostId(3), 13)];
        for (pod, host, segment) in others {
            let found = Frames::of(pod, host, segment).head(&bytes, 64);
            assert!(matches!(found, Err(BadBytes::Checksum { .. })), "{found:?}");
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_found() {
        let mut frame = Vec::new();
        frames()[0].encode(HEAD.frames(), &mut frame);
        for (bytes, is_good) in [
            (HEAD.encode().to_vec(), (|b: &[u8]| SegmentHead::decode(b).is_ok()) as fn(&[u8]) -> bool),
            (frame, |b: &[u8]| HEAD.frames().parse(b, 0).is_ok()),
        ] {
            assert!(is_good(&bytes));
            for bit in 0..8 * bytes.len() {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(!is_good(&damaged), "bit {bit}");
            }
            assert!((0..bytes.len()).all(|len| !is_good(&bytes[..len])));
        }
    }

    #[test]
    fn names_are_numbers() {
        assert_eq!(segment_number(&segment_name(42)), Some(42));
        assert!(segment_name(9) < segment_name(10));
        assert!(["log-42", "log-", "x", "log-00000000042", "checkpoint-1"].map(segment_number) == [None; 5]);
    }
}
