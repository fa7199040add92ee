//! Segments of a host's log: the bytes of their heads and of the frames in them.
//!
//! ```text
//! head    0 magic u32   4 crc u32   8 format u32   12 host u8   13 zero u8   14 incarnation u16
//!        16 pod u64    24 number u32   28 zero u32   32 generation u64   40 previous end u64
//!        48 mark u64
//! frame   0 magic u32   4 crc u32   8 kind u8 (1 records, 2 mark, 3 closed)  9 worker u8  10 incarnation u16
//!        12 bytes u32  16 position u64 (records: in the ring's stream; else: pod's durable epoch, as known)
//!        24 epoch u64 (mark: the durable epoch that it states; records: 0)
//!        32 segment u32 and 40 byte u64: synced up to there   36 zero u32   48 payload, padded to 8
//! ```
//!
//! Invariants:
//! 1. A checksum (CRC-32C) covers all that follows it, payload and padding too.
//! 2. Everything is little-endian; a frame is a multiple of 8 bytes.
//! 3. Parsing never panics, whatever the bytes are.
//!
//! Not here: files (ship.rs), and what torn or damaged ends mean (recovery).

use liger_fabric::HostId;

use super::record::{u16_at, u32_at, u64_at};

/// Bytes of a segment's head.
pub const SEGMENT_HEAD_BYTES: usize = 56;
/// Bytes of a frame's head.
pub const FRAME_HEAD_BYTES: usize = 48;
/// Version of segments.
pub const SEGMENT_FORMAT: u32 = 2;

const SEGMENT_MAGIC: u32 = u32::from_le_bytes(*b"LigS");
const FRAME_MAGIC: u32 = u32::from_le_bytes(*b"LigF");
/// What a checksum covers begins here.
const COVERED: usize = 8;
const KIND_RECORDS: u8 = 1;
const KIND_MARK: u8 = 2;
const KIND_CLOSED: u8 = 3;

/// The file name of segment `number`; names sort like numbers.
pub fn segment_name(number: u32) -> String {
    format!("log-{number:010}")
}

/// The number of the segment of this name, if it is one's.
pub fn segment_number(name: &str) -> Option<u32> {
    let number = name.strip_prefix("log-")?.parse().ok()?;
    (segment_name(number) == name).then_some(number)
}

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
    #[error("its format is {found}, this is format {SEGMENT_FORMAT}")]
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
    /// Its life.
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
        seal(&mut bytes, SEGMENT_MAGIC);
        bytes
    }

    /// The head at the start of `bytes`.
    ///
    /// # Errors
    /// If there is none that is whole and of this format.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadBytes> {
        let bytes = checked(bytes, SEGMENT_HEAD_BYTES, SEGMENT_MAGIC)?;
        match u32_at(bytes, 8) {
            SEGMENT_FORMAT => {}
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
pub struct Place {
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
        /// The life that shipped it (its records may be of an earlier one).
        incarnation: u16,
        /// Where in the ring's stream it starts.
        position: u64,
    },
    /// The frames before it hold every record of this host, which is dead and commits no more: its log holds
    /// nobody back until a later life appends to it.
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
    pub synced: Place,
    /// The ring's bytes; empty for a mark.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Appends the frame's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_frame(self.kind, self.synced, out, |out| out.extend_from_slice(self.payload));
    }

    /// The frame at the start of `bytes`.
    ///
    /// # Errors
    /// If there is none that is whole.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BadBytes> {
        if bytes.len() < FRAME_HEAD_BYTES {
            return Err(BadBytes::Short { needed: FRAME_HEAD_BYTES as u64, available: bytes.len() as u64 });
        }
        let payload_bytes = u32_at(bytes, 12) as usize;
        let bytes = checked(bytes, FRAME_HEAD_BYTES + payload_bytes.next_multiple_of(8), FRAME_MAGIC)?;
        let (position, epoch) = (u64_at(bytes, 16), u64_at(bytes, 24));
        let kind = match (bytes[8], payload_bytes) {
            (KIND_RECORDS, 1..) => {
                FrameKind::Records { worker: bytes[9], incarnation: u16_at(bytes, 10), position }
            }
            (KIND_MARK, 0) => FrameKind::Mark { epoch, pod_durable: position },
            (KIND_CLOSED, 0) => FrameKind::Closed { pod_durable: position },
            _ => return Err(BadBytes::Malformed { what: "kind" }),
        };
        let synced = Place { segment: u32_at(bytes, 32), byte: u64_at(bytes, 40) };
        Ok(Self { kind, synced, payload: &bytes[FRAME_HEAD_BYTES..][..payload_bytes] })
    }

    /// Bytes of the whole frame.
    #[expect(clippy::len_without_is_empty, reason = "a frame has a head")]
    pub fn len(&self) -> usize {
        FRAME_HEAD_BYTES + self.payload.len().next_multiple_of(8)
    }
}

/// Appends a frame's bytes; `fill` appends the payload, which is copied nowhere else.
pub fn encode_frame(kind: FrameKind, synced: Place, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.resize(start + FRAME_HEAD_BYTES, 0);
    fill(out);
    let payload_bytes = (out.len() - start - FRAME_HEAD_BYTES) as u32;
    out.resize(out.len().next_multiple_of(8), 0);
    let bytes = &mut out[start..];
    let (kind, worker, incarnation, position, epoch) = match kind {
        FrameKind::Records { worker, incarnation, position } => {
            (KIND_RECORDS, worker, incarnation, position, 0)
        }
        FrameKind::Mark { epoch, pod_durable } => (KIND_MARK, 0, 0, pod_durable, epoch),
        FrameKind::Closed { pod_durable } => (KIND_CLOSED, 0, 0, pod_durable, 0),
    };
    bytes[8..10].copy_from_slice(&[kind, worker]);
    bytes[10..12].copy_from_slice(&incarnation.to_le_bytes());
    bytes[12..16].copy_from_slice(&payload_bytes.to_le_bytes());
    bytes[16..24].copy_from_slice(&position.to_le_bytes());
    bytes[24..32].copy_from_slice(&epoch.to_le_bytes());
    bytes[32..36].copy_from_slice(&synced.segment.to_le_bytes());
    bytes[40..48].copy_from_slice(&synced.byte.to_le_bytes());
    seal(bytes, FRAME_MAGIC);
}

/// Puts magic number and checksum in front.
fn seal(bytes: &mut [u8], magic: u32) {
    bytes[..4].copy_from_slice(&magic.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[COVERED..]);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// The first `needed` bytes, if magic number and checksum are right.
fn checked(bytes: &[u8], needed: usize, magic: u32) -> Result<&[u8], BadBytes> {
    let short = BadBytes::Short { needed: needed as u64, available: bytes.len() as u64 };
    if bytes.len() < COVERED {
        return Err(short);
    }
    match u32_at(bytes, 0) {
        found if found == magic => {}
        found => return Err(BadBytes::Magic { found }),
    }
    let bytes = bytes.get(..needed).ok_or(short)?;
    let (found, computed) = (u32_at(bytes, 4), crc32c::crc32c(&bytes[COVERED..]));
    if found == computed { Ok(bytes) } else { Err(BadBytes::Checksum { found, computed }) }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let synced = Place { segment: 11, byte: 4096 };
        let records = FrameKind::Records { worker: 5, incarnation: 9, position: 1 << 40 };
        let mark = FrameKind::Mark { epoch: 8, pod_durable: 6 };
        [Frame { kind: records, synced, payload: b"eleven byte" }, Frame { kind: mark, synced, payload: &[] }]
    }

    #[test]
    fn what_was_written_is_read() {
        assert_eq!(SegmentHead::decode(&HEAD.encode()), Ok(HEAD));
        let mut bytes = Vec::new();
        for frame in frames() {
            frame.encode(&mut bytes);
        }
        let first = Frame::parse(&bytes).unwrap();
        let second = Frame::parse(&bytes[first.len()..]).unwrap();
        assert_eq!([first, second], frames());
        assert_eq!(first.len() + second.len(), bytes.len());
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_found() {
        let mut frame = Vec::new();
        frames()[0].encode(&mut frame);
        for (bytes, is_good) in [
            (HEAD.encode().to_vec(), (|b: &[u8]| SegmentHead::decode(b).is_ok()) as fn(&[u8]) -> bool),
            (frame, |b: &[u8]| Frame::parse(b).is_ok()),
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
