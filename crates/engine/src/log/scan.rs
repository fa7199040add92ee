//! Reading one host's log: what is intact, and whether what is not was lost or damaged.
//!
//! Invariants:
//! 1. Bytes that do not check end the log, unless something intact behind them knew that they were on
//!    storage: a frame, or the head of the next segment. Then they are damage.
//! 2. What is shown is intact, in the order it was written: frames whose checksum fits, whose stream goes on
//!    where it had come to, and whose records are none of an epoch that an earlier mark has closed.
//! 3. No bytes make it panic, and it reads each byte a few times at most, whatever the bytes are: it searches
//!    for heads of frames only, which take a fixed number of bytes to check, and for no records, because
//!    every frame says where its first one begins.
//!
//! Segments are given one after the other, as bytes; so the scanner knows no storage, and holds nothing of
//! them. What a torn end means for the pod is decided where all hosts' logs are known (recovery).

use std::collections::BTreeMap;

use crate::files::segment_name;
use liger_fabric::HostId;

use super::record::{BadRecord, Extent, Record, epoch_of, llsn_of, step_over, u32_at};
use super::segment::{
    FRAME_HEAD_BYTES, Frame, FrameHead, FrameKind, Frames, LogPosition, SEGMENT_HEAD_BYTES, SegmentHead,
};

/// How a log ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// Behind a whole frame.
    Clean {
        /// Where.
        at: LogPosition,
    },
    /// With bytes that nobody is known to have waited for.
    Torn {
        /// Where they begin.
        at: LogPosition,
        /// What is wrong with them.
        why: String,
    },
    /// It does not: bytes that were on storage are not what they were.
    Damaged {
        /// Where they begin.
        at: LogPosition,
        /// What is wrong with them.
        why: String,
    },
}

impl End {
    /// Where it is.
    pub fn at(&self) -> LogPosition {
        let (Self::Clean { at } | Self::Torn { at, .. } | Self::Damaged { at, .. }) = self;
        *at
    }
}

/// What a host's log holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scan {
    /// How it ends.
    pub end: End,
    /// How many bytes count of the newest segment that has a head.
    pub counted: u64,
    /// Every mark's epoch rises; the last one.
    pub marks: Marks,
    /// Greatest epoch that was seen anywhere, also behind the end: epochs above it are new.
    pub newest_epoch: u64,
    /// Intact records.
    pub records: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Number of the last segment; `None`: there is none.
    pub last_segment: Option<u32>,
    /// Generation of the last segment.
    pub generation: u64,
    /// By worker: where the stream of its ring ends, as far as segments of that generation hold any of it.
    pub streams: BTreeMap<u8, u64>,
}

/// What the marks of a log say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    /// The last one: the log holds every record of this host up to this epoch. 0: there is no mark.
    pub last: u64,
    /// Greatest epoch that one knew to be durable in the whole pod.
    pub pod: u64,
    /// Generation of the pod in which the last one was written. The host has no record of a later one: it
    /// marks its log before it becomes a member.
    pub generation: u64,
    /// The host died, its log was closed, and no later incarnation has told anything: it holds nobody back.
    pub closed: bool,
}

/// Reads a host's segments in order.
#[derive(Clone, Debug)]
pub struct Scanner {
    pod: u64,
    host: HostId,
    /// Where the intact part has come to.
    at: LogPosition,
    /// The same in the newest segment that has a head.
    counted: LogPosition,
    last_segment: Option<u32>,
    stop: Option<(String, bool)>,
    /// Generation of the segment at hand.
    generation: u64,
    /// By worker.
    streams: BTreeMap<u8, Stream>,
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
            at: LogPosition::default(),
            counted: LogPosition::default(),
            last_segment: None,
            stop: None,
            generation: 0,
            streams: BTreeMap::new(),
            marks: Marks::default(),
            newest_epoch: 0,
            records: 0,
            bytes: 0,
        }
    }

    /// Reads the next segment and shows its intact records, each with its place.
    pub fn segment(&mut self, number: u32, bytes: &[u8], mut show: impl FnMut(&Record<'_>, LogPosition)) {
        self.bytes += bytes.len() as u64;
        let earlier = self.last_segment.replace(number);
        assert!(earlier.is_none_or(|earlier| earlier < number), "segment {number} comes behind {earlier:?}");
        if self.is_damaged() {
            return;
        }
        if let Some(earlier) = earlier.filter(|earlier| earlier + 1 != number) {
            let why = format!("the next segment is missing: {} is there", segment_name(number));
            self.at = if self.stop.is_some() { self.at } else { LogPosition { segment: earlier, ..self.at } };
            return self.damage(why);
        }
        match SegmentHead::decode(bytes) {
            Ok(head) => self.enter(&head, number, earlier.is_none()),
            Err(why) => {
                if self.stop.is_none() {
                    self.at = LogPosition { segment: number, byte: 0 };
                    self.tear(format!("no segment starts here: {why}"));
                }
                return self.look_behind(number, bytes, 0);
            }
        }
        match self.stop {
            None => self.read_frames(number, bytes, &mut show),
            Some((_, true)) => {}
            Some((_, false)) => self.look_behind(number, bytes, SEGMENT_HEAD_BYTES),
        }
    }

    /// Where the bytes begin, if any were on storage and are not what they were.
    pub(crate) fn damaged_at(&self) -> Option<LogPosition> {
        self.is_damaged().then_some(self.at)
    }

    /// What was found.
    pub fn finish(self) -> Scan {
        let at = self.at;
        assert!(self.marks.last <= self.newest_epoch, "{:?} up to {}", self.marks, self.newest_epoch);
        assert!(self.records == 0 || self.last_segment.is_some(), "records of no segment");
        let end = match self.stop {
            None => End::Clean { at },
            Some((why, false)) => End::Torn { at, why },
            Some((why, true)) => End::Damaged { at, why },
        };
        let Self { counted, marks, newest_epoch, records, bytes, last_segment, generation, .. } = self;
        let streams = self.streams.iter().map(|(&worker, stream)| (worker, stream.end())).collect();
        let counted = counted.byte;
        Scan { end, counted, marks, newest_epoch, records, bytes, last_segment, generation, streams }
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

    fn damage_at(&mut self, segment: u32, byte: usize, why: String) {
        self.at = LogPosition { segment, byte: byte as u64 };
        self.damage(why);
    }

    /// Goes on into a segment whose head is intact, if it belongs behind what was read.
    fn enter(&mut self, head: &SegmentHead, number: u32, is_first: bool) {
        let (found, expected) = ((head.pod, head.host, head.number), (self.pod, self.host, number));
        if found != expected {
            let why = format!(
                "it is segment {} of host {} of pod {:#x}, expected segment {number} of host {} of pod {:#x}",
                head.number, head.host.0, head.pod, self.host.0, self.pod
            );
            return self.damage_at(number, 0, why);
        }
        // Incarnations that died before their segments had heads have written nothing.
        if !is_first && head.previous_end != self.counted.byte {
            self.at = self.counted;
            let reason = self.stop.take().map_or_else(String::new, |(why, _)| format!("; {why}"));
            let (end, name) = (head.previous_end, segment_name(number));
            return self.damage(format!("{name} knew that the segment before it ends at byte {end}{reason}"));
        }
        // What does not check before it was the torn end of an earlier incarnation, which recovery has
        // judged.
        self.stop = None;
        if head.generation != self.generation {
            // The rings are others, and what was in the old ones is lost.
            self.streams.clear();
        }
        self.generation = head.generation;
        debug_assert!(
            !is_first || self.counted == LogPosition::default(),
            "nothing counts before the first one"
        );
        if is_first {
            // What is removed before it had this mark.
            self.marks.last = head.mark;
            self.marks.generation = if head.mark > 0 { head.generation } else { 0 };
            self.newest_epoch = head.mark;
        } else if head.mark > self.marks.last {
            let (mark, last) = (head.mark, self.marks.last);
            let why = format!("it knew of a mark of epoch {mark} before it, and the last one is {last}");
            return self.damage_at(number, 0, why);
        }
        self.at = LogPosition { segment: number, byte: SEGMENT_HEAD_BYTES as u64 };
        self.counted = self.at;
    }

    fn read_frames(&mut self, number: u32, bytes: &[u8], show: &mut impl FnMut(&Record<'_>, LogPosition)) {
        let frames = Frames::of(self.pod, self.host, number);
        let mut at = SEGMENT_HEAD_BYTES;
        while at < bytes.len() {
            let frame = match frames.parse(bytes, at) {
                Ok(frame) => frame,
                // Space that was taken and not written yet: the next incarnation gives it back.
                Err(_) if bytes[at..].iter().all(|byte| *byte == 0) => {
                    self.bytes -= (bytes.len() - at) as u64;
                    return;
                }
                Err(why) => {
                    self.tear(why.to_string());
                    return self.look_behind(number, bytes, at + 8);
                }
            };
            if let Err((byte, why)) = self.take_frame(&frame, number, at, show) {
                return self.damage_at(number, byte, why);
            }
            at += frame.len();
            debug_assert!(at.is_multiple_of(8) && at <= bytes.len(), "an intact frame ends at {at}");
            self.at.byte = at as u64;
            self.counted = self.at;
        }
    }

    /// Checks an intact frame against what came before it. The error says where, and what is wrong.
    fn take_frame(
        &mut self,
        frame: &Frame<'_>,
        number: u32,
        at: usize,
        show: &mut impl FnMut(&Record<'_>, LogPosition),
    ) -> Result<(), (usize, String)> {
        if frame.synced > self.at {
            let LogPosition { segment, byte } = frame.synced;
            return Err((at, format!("it says that byte {byte} of segment {segment} was on storage before")));
        }
        match frame.kind {
            FrameKind::Mark { epoch, pod_durable } => {
                let (Marks { last, pod, .. }, generation) = (self.marks, self.generation);
                if epoch < last || pod_durable > epoch {
                    let why = format!("a mark of epochs {epoch} and {pod_durable} behind {last} and {pod}");
                    return Err((at, why));
                }
                self.marks = Marks { last: epoch, pod: pod.max(pod_durable), generation, closed: false };
                self.newest_epoch = self.newest_epoch.max(epoch);
                Ok(())
            }
            FrameKind::Closed { pod_durable } => {
                self.marks = Marks { pod: self.marks.pod.max(pod_durable), closed: true, ..self.marks };
                self.newest_epoch = self.newest_epoch.max(pod_durable);
                Ok(())
            }
            FrameKind::Records { worker, incarnation, position, first } => {
                self.marks.closed = false;
                let mut stream = self.streams.remove(&worker).unwrap_or_else(|| Stream::new(position));
                let (len, first) = (frame.payload.len(), first as usize);
                let skipped = stream.enter(incarnation, position, (len, first)).map_err(|why| (at, why))?;
                let byte = (at + FRAME_HEAD_BYTES + skipped) as u64;
                stream.push(&frame.payload[skipped..], LogPosition { segment: number, byte });
                while let Some(len) = self.take_record(&stream, worker, show)? {
                    stream.pop(len);
                }
                debug_assert!(stream.shipped <= stream.end(), "what was shipped is known: {stream:?}");
                self.streams.insert(worker, stream);
                Ok(())
            }
        }
    }

    /// Shows the first record of a stream's bytes and returns its length; `None` if there is none yet.
    fn take_record(
        &mut self,
        stream: &Stream,
        worker: u8,
        show: &mut impl FnMut(&Record<'_>, LogPosition),
    ) -> Result<Option<usize>, (usize, String)> {
        let Some(record) = stream.first().map_err(|why| (stream.at.byte as usize, why))? else {
            return Ok(None);
        };
        let (origin, epoch) = (record.origin(), epoch_of(record.llsn()));
        let byte = stream.at.byte as usize;
        if (origin.host, origin.worker) != (self.host, worker) {
            return Err((byte, format!("a record of {origin:?} in the ring of worker {worker}")));
        }
        let counts_later = matches!(record.extent(), Extent::Fragment { .. });
        if epoch <= self.marks.last && !counts_later {
            let last = self.marks.last;
            return Err((byte, format!("a record of epoch {epoch} behind the mark of {last}")));
        }
        self.newest_epoch = self.newest_epoch.max(epoch);
        self.records += 1;
        show(&record, stream.at);
        Ok(Some(record.len()))
    }

    /// Looks behind bytes that do not check for frames that knew of them. The head of a frame tells; its
    /// payload may be torn as well, and what a head stands in front of is no place for another one.
    fn look_behind(&mut self, number: u32, bytes: &[u8], from: usize) {
        assert!(self.stop.is_some() && from.is_multiple_of(8), "something before byte {from} is torn");
        let frames = Frames::of(self.pod, self.host, number);
        let mut at = from;
        while at + FRAME_HEAD_BYTES <= bytes.len() {
            let Ok(frame) = frames.head(bytes, at) else {
                at += 8;
                continue;
            };
            if frame.synced > self.at {
                let Some((why, _)) = self.stop.take() else { unreachable!("something does not check") };
                let behind = format!("{why}; byte {at} of {} knew it to be on storage", segment_name(number));
                return self.damage(behind);
            }
            self.newest_epoch = self.newest_epoch.max(newest_of(&frame, bytes, at));
            at += frame.len();
        }
    }
}

/// The bytes of a ring, as frames bring them.
#[derive(Clone, Debug)]
struct Stream {
    /// Who ships it, and the position up to which this incarnation has.
    incarnation: Option<u16>,
    shipped: u64,
    /// Position of the first byte not taken, and where that one is in the log.
    position: u64,
    at: LogPosition,
    /// What is not taken yet: from `taken` on, the beginning of a record when a frame is done.
    bytes: Vec<u8>,
    taken: usize,
    /// Places of later frames whose bytes are in `bytes`, by their offset in it.
    later: Vec<(usize, LogPosition)>,
    /// False until the first record begins: a log whose first segments were removed may begin within one, of
    /// which nothing is kept.
    aligned: bool,
}

impl Stream {
    fn new(position: u64) -> Self {
        let at = LogPosition::default();
        Self {
            incarnation: None,
            shipped: position,
            position,
            at,
            bytes: Vec::new(),
            taken: 0,
            later: Vec::new(),
            aligned: false,
        }
    }

    /// The position behind the last byte.
    fn end(&self) -> u64 {
        self.position + (self.bytes.len() - self.taken) as u64
    }

    /// Where the first record begins behind all bytes, if that is known yet.
    fn next_record(&self) -> Option<u64> {
        match &self.bytes[self.taken..] {
            [] => Some(self.position),
            bytes if bytes.len() < 4 => None,
            bytes => Some(self.position + u64::from(u32_at(bytes, 0))),
        }
    }

    /// How many of a frame's bytes are known already, or of a record whose beginning was removed; or why the
    /// frame does not go on where the stream has come to. Its first record begins at byte `first` of it.
    fn enter(
        &mut self,
        incarnation: u16,
        position: u64,
        (len, first): (usize, usize),
    ) -> Result<usize, String> {
        debug_assert!(first <= len && len > 0, "a record begins at {first} of {len} bytes");
        let next = self.end();
        let is_new = self.incarnation != Some(incarnation);
        // A later incarnation ships again what the earlier one had not seen synced.
        let goes_on = if is_new { position <= next } else { position == self.shipped };
        if !goes_on {
            return Err(format!("the stream goes on at {position}, not {next}"));
        }
        (self.incarnation, self.shipped) = (Some(incarnation), position + len as u64);
        let known = (next - position).min(len as u64) as usize;
        let begin = (first < len).then_some(position + first as u64);
        let fits = match (self.aligned, begin) {
            (false, Some(_)) => known <= first,
            (false, None) => true,
            // Where nothing is known already, what came before says where a record begins.
            (true, Some(begin)) => known > 0 || self.next_record() == Some(begin),
            (true, None) => known > 0 || self.next_record().is_none_or(|next| next >= position + len as u64),
        };
        if !fits {
            let expected = self.next_record().filter(|_| self.aligned);
            return Err(format!("its first record is to begin at {begin:?}, expected {expected:?}"));
        }
        if self.aligned {
            return Ok(known);
        }
        self.aligned = begin.is_some();
        self.position += (first - known.min(first)) as u64;
        debug_assert!(self.bytes.len() == self.taken, "nothing is kept of a record without its beginning");
        Ok(first.max(known))
    }

    fn push(&mut self, bytes: &[u8], at: LogPosition) {
        self.bytes.drain(..self.taken);
        self.later.iter_mut().for_each(|(offset, _)| *offset -= self.taken);
        self.taken = 0;
        if self.bytes.is_empty() {
            debug_assert!(self.later.is_empty(), "places of bytes that were taken: {:?}", self.later);
            self.at = at;
        } else {
            self.later.push((self.bytes.len(), at));
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The first record, if it is whole.
    fn first(&self) -> Result<Option<Record<'_>>, String> {
        match Record::parse(&self.bytes[self.taken..]) {
            Ok(record) if record.position() == self.position => Ok(Some(record)),
            Ok(record) => Err(format!("a record of byte {} at {}", record.position(), self.position)),
            Err(BadRecord::Short { .. }) => Ok(None),
            Err(bad) => Err(format!("no record, but intact: {bad}")),
        }
    }

    /// Takes bytes off.
    fn pop(&mut self, len: usize) {
        debug_assert!(len > 0 && self.taken + len <= self.bytes.len(), "{len} bytes are taken off");
        self.position += len as u64;
        self.taken += len;
        self.at.byte += len as u64;
        let behind = self.later.partition_point(|(offset, _)| *offset <= self.taken);
        if let Some((offset, place)) = self.later[..behind].last() {
            self.at = LogPosition { byte: place.byte + (self.taken - offset) as u64, ..*place };
        }
        self.later.drain(..behind);
    }
}

/// The newest epoch that a frame has something of, as far as it can be told.
fn newest_of(frame: &FrameHead, segment: &[u8], at: usize) -> u64 {
    let first = match frame.kind {
        FrameKind::Mark { epoch, .. } | FrameKind::Closed { pod_durable: epoch } => return epoch,
        FrameKind::Records { first, .. } => u64::from(first),
    };
    let mut newest = 0;
    if let Ok(payload) = frame.payload(segment, at) {
        step_over(payload, first, |_, record| {
            newest = newest.max(llsn_of(record).map_or(0, epoch_of));
        });
    }
    newest
}

#[cfg(test)]
mod tests;
