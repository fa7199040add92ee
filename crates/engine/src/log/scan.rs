//! Reading one host's log: what is intact, and whether what is not was lost or damaged.
//!
//! Invariants:
//! 1. Bytes that do not check end the log, unless something intact behind them knew that they were on storage:
//!    a frame, or the head of the next segment. Then they are damage.
//! 2. What is shown is intact, in the order it was written: frames whose checksum fits, whose stream goes on
//!    where it had come to, and whose records are none of an epoch that an earlier mark has closed.
//! 3. No bytes make it panic, and it reads each byte once or twice.
//!
//! Segments are given one after the other, as bytes; so the scanner knows no storage, and holds nothing of them.
//! What a torn end means for the pod is decided where all hosts' logs are known (recovery).

use std::collections::BTreeMap;

use liger_fabric::HostId;

use super::record::{Record, epoch_of};
use super::segment::{FRAME_BYTES, Frame, FrameKind, HEAD_BYTES, SegmentHead};
pub use super::segment::{segment_name, segment_number};

/// A place in a host's log; places are ordered as they were written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Spot {
    /// Number of the segment.
    pub segment: u64,
    /// Offset in it, in bytes.
    pub byte: u64,
}

/// How a log ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// Behind a whole frame.
    Clean {
        /// Where.
        at: Spot,
    },
    /// With bytes that nobody is known to have waited for.
    Torn {
        /// Where they begin.
        at: Spot,
        /// What is wrong with them.
        why: String,
    },
    /// It does not: bytes that were on storage are not what they were.
    Damaged {
        /// Where they begin.
        at: Spot,
        /// What is wrong with them.
        why: String,
    },
}

impl End {
    /// Where it is.
    pub fn at(&self) -> Spot {
        let (Self::Clean { at } | Self::Torn { at, .. } | Self::Damaged { at, .. }) = self;
        *at
    }
}

/// What a host's log holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scan {
    /// How it ends.
    pub end: End,
    /// Every mark's epoch rises; the last one.
    pub marks: Marks,
    /// Greatest epoch that was seen anywhere, also behind the end: epochs above it are new.
    pub newest_epoch: u64,
    /// Intact records.
    pub records: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Number of the last segment; `None`: there is none.
    pub last_segment: Option<u64>,
}

/// What the marks of a log say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    /// The last one: the log holds every record of this host up to this epoch. 0: there is no mark.
    pub last: u64,
    /// Greatest epoch that one knew to be durable in the whole pod.
    pub pod: u64,
}

/// Reads a host's segments in order.
#[derive(Debug)]
pub struct Scanner {
    pod: u64,
    host: HostId,
    /// Where the intact part has come to.
    at: Spot,
    last_segment: Option<u64>,
    stop: Option<(String, bool)>,
    /// Next byte of each stream, by incarnation and worker.
    streams: BTreeMap<(u16, u8), u64>,
    marks: Marks,
    newest_epoch: u64,
    records: u64,
    bytes: u64,
}

impl Scanner {
    /// A scanner of the log of `host` of `pod`.
    pub fn new(pod: u64, host: HostId) -> Self {
        Self {
            pod,
            host,
            at: Spot::default(),
            last_segment: None,
            stop: None,
            streams: BTreeMap::new(),
            marks: Marks::default(),
            newest_epoch: 0,
            records: 0,
            bytes: 0,
        }
    }

    /// Reads the next segment and shows its intact records, each with its place.
    pub fn segment(&mut self, number: u64, bytes: &[u8], mut show: impl FnMut(&Record<'_>, Spot)) {
        self.bytes += bytes.len() as u64;
        let earlier = self.last_segment.replace(number);
        if self.is_damaged() {
            return;
        }
        if let Some(earlier) = earlier.filter(|earlier| earlier + 1 != number) {
            let why = format!("the next segment is missing: {} is there", segment_name(number));
            self.at = if self.stop.is_some() { self.at } else { Spot { segment: earlier, ..self.at } };
            return self.damage(why);
        }
        match SegmentHead::parse(bytes) {
            Ok(head) => self.enter(&head, number, earlier.is_none()),
            Err(why) => {
                if self.stop.is_none() {
                    self.at = Spot { segment: number, byte: 0 };
                    self.tear(format!("no segment starts here: {why}"));
                }
                return self.look_behind(number, bytes, 0);
            }
        }
        match self.stop {
            None => self.read_frames(number, bytes, &mut show),
            Some((_, true)) => {}
            Some((_, false)) => self.look_behind(number, bytes, HEAD_BYTES),
        }
    }

    /// What was found.
    pub fn finish(self) -> Scan {
        let at = self.at;
        let end = match self.stop {
            None => End::Clean { at },
            Some((why, false)) => End::Torn { at, why },
            Some((why, true)) => End::Damaged { at, why },
        };
        let Self { marks, newest_epoch, records, bytes, last_segment, .. } = self;
        Scan { end, marks, newest_epoch, records, bytes, last_segment }
    }

    fn is_damaged(&self) -> bool {
        matches!(self.stop, Some((_, true)))
    }

    fn tear(&mut self, why: String) {
        self.stop = Some((why, false));
    }

    fn damage(&mut self, why: String) {
        self.stop = Some((why, true));
    }

    fn damage_at(&mut self, segment: u64, byte: usize, why: String) {
        self.at = Spot { segment, byte: byte as u64 };
        self.damage(why);
    }

    /// Goes on into a segment whose head is intact, if it belongs behind what was read.
    fn enter(&mut self, head: &SegmentHead, number: u64, is_first: bool) {
        let (found, expected) = ((head.pod, head.host, head.number), (self.pod, self.host, number));
        if found != expected {
            let why = format!(
                "it is segment {} of host {} of pod {:#x}, expected segment {number} of host {} of pod {:#x}",
                head.number, head.host.0, head.pod, self.host.0, self.pod
            );
            return self.damage_at(number, 0, why);
        }
        if !is_first && (self.at.segment + 1 != number || head.previous_end != self.at.byte) {
            let reason = self.stop.take().map_or_else(String::new, |(why, _)| format!("; {why}"));
            let (end, name) = (head.previous_end, segment_name(number));
            return self.damage(format!("{name} knew that the segment before it ends at byte {end}{reason}"));
        }
        // What does not check before it was the torn end of an earlier life, which recovery has judged.
        self.stop = None;
        self.at = Spot { segment: number, byte: HEAD_BYTES as u64 };
    }

    fn read_frames(&mut self, number: u64, bytes: &[u8], show: &mut impl FnMut(&Record<'_>, Spot)) {
        let mut at = HEAD_BYTES;
        while at < bytes.len() {
            let frame = match Frame::parse(&bytes[at..]) {
                Ok(frame) => frame,
                // Space that was taken and not written yet.
                Err(_) if bytes[at..].iter().all(|byte| *byte == 0) => return,
                Err(why) => {
                    self.tear(why.to_string());
                    return self.look_behind(number, bytes, at + 8);
                }
            };
            if let Err((byte, why)) = self.take_frame(&frame, number, at, show) {
                return self.damage_at(number, byte, why);
            }
            at += frame.len();
            self.at.byte = at as u64;
        }
    }

    /// Checks an intact frame against what came before it. The error says where, and what is wrong.
    fn take_frame(
        &mut self,
        frame: &Frame<'_>,
        number: u64,
        at: usize,
        show: &mut impl FnMut(&Record<'_>, Spot),
    ) -> Result<(), (usize, String)> {
        if frame.synced > self.at {
            let Spot { segment, byte } = frame.synced;
            return Err((at, format!("it says that byte {byte} of segment {segment} was on storage before")));
        }
        match frame.kind {
            FrameKind::Mark => {
                if frame.epoch < self.marks.last || frame.position > frame.epoch {
                    let Marks { last, pod } = self.marks;
                    return Err((
                        at,
                        format!("a mark of epoch {} behind one of {last} ({pod})", frame.epoch),
                    ));
                }
                self.marks = Marks { last: frame.epoch, pod: self.marks.pod.max(frame.position) };
                self.newest_epoch = self.newest_epoch.max(frame.epoch);
                Ok(())
            }
            FrameKind::Records => self.take_records(frame, number, at + FRAME_BYTES, show),
        }
    }

    fn take_records(
        &mut self,
        frame: &Frame<'_>,
        number: u64,
        start: usize,
        show: &mut impl FnMut(&Record<'_>, Spot),
    ) -> Result<(), (usize, String)> {
        let stream = (frame.incarnation, frame.worker);
        if let Some(next) = self.streams.get(&stream).filter(|next| **next != frame.position) {
            let why =
                format!("the stream of worker {} goes on at {}, not {next}", frame.worker, frame.position);
            return Err((start - FRAME_BYTES, why));
        }
        let mut at = 0;
        while at < frame.payload.len() {
            let record = Record::parse(&frame.payload[at..])
                .map_err(|bad| (start + at, format!("no record of an intact frame: {bad}")))?;
            let (origin, epoch) = (record.origin(), epoch_of(record.llsn()));
            let of = (origin.host, origin.incarnation, origin.worker, record.position());
            let expected = (self.host, frame.incarnation, frame.worker, frame.position + at as u64);
            if of != expected {
                return Err((start + at, format!("a record of {of:?} in place of {expected:?}")));
            }
            if epoch <= self.marks.last {
                let last = self.marks.last;
                return Err((start + at, format!("a record of epoch {epoch} behind the mark of {last}")));
            }
            self.newest_epoch = self.newest_epoch.max(epoch);
            self.records += 1;
            show(&record, Spot { segment: number, byte: (start + at) as u64 });
            at += record.len();
        }
        self.streams.insert(stream, frame.position + frame.payload.len() as u64);
        Ok(())
    }

    /// Looks behind bytes that do not check for frames that knew of them.
    fn look_behind(&mut self, number: u64, bytes: &[u8], from: usize) {
        let mut at = from;
        while at + FRAME_BYTES <= bytes.len() {
            let Ok(frame) = Frame::parse(&bytes[at..]) else {
                at += 8;
                continue;
            };
            if frame.synced > self.at {
                let Some((why, _)) = self.stop.take() else { unreachable!("something does not check") };
                let behind = format!("{why}; byte {at} of {} knew it to be on storage", segment_name(number));
                return self.damage(behind);
            }
            self.newest_epoch = self.newest_epoch.max(newest_of(&frame));
            at += frame.len();
        }
    }
}

/// The newest epoch that a frame has something of.
fn newest_of(frame: &Frame<'_>) -> u64 {
    let (mut newest, mut rest) = (frame.epoch, frame.payload);
    while let (FrameKind::Records, Ok(record)) = (frame.kind, Record::parse(rest)) {
        newest = newest.max(epoch_of(record.llsn()));
        rest = &rest[record.len()..];
    }
    newest
}

#[cfg(test)]
mod tests;
