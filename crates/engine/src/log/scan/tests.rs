//! Generated logs: read as they are, cut, flipped, and overwritten with garbage.

use super::*;
use crate::checksum::counted;
use crate::log::record::{Op, Origin, RecordWriter, first_of};
use crate::tables::key::Key;
use crate::txn::TableId;
use liger_pod::plan::PartitionId;

const POD: u64 = 0x7007;
const HOST: HostId = HostId(2);

/// A source of numbers (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (((z ^ (z >> 27)) as u128 * u128::from(bound)) >> 64) as u64
    }
}

/// A log, as a shipper writes it: rounds of records, a mark, a sync.
struct Log {
    segments: Vec<Vec<u8>>,
    /// Versions of its records, in order, with where the frame of each ends.
    records: Vec<(u64, LogPosition)>,
    /// What the last frame knew to be on storage.
    synced: LogPosition,
    /// Where each frame starts and ends, and what it knew to be on storage.
    frames: Vec<(LogPosition, LogPosition, LogPosition)>,
    last_mark: u64,
}

const HEAD: SegmentHead =
    SegmentHead { pod: POD, host: HOST, incarnation: 5, number: 0, generation: 1, previous_end: 0, mark: 0 };

fn head(number: u32, previous_end: u64) -> Vec<u8> {
    SegmentHead { number, previous_end, ..HEAD }.encode().to_vec()
}

fn frames_of(number: u32) -> Frames {
    Frames::of(POD, HOST, number)
}

fn place(segments: &[Vec<u8>]) -> LogPosition {
    LogPosition { segment: segments.len() as u32 - 1, byte: segments.last().expect("one").len() as u64 }
}

fn generate(seed: u64) -> Log {
    let mut dice = Dice(seed);
    let mut log = Log {
        segments: vec![head(0, 0)],
        records: Vec::new(),
        synced: LogPosition::default(),
        frames: Vec::new(),
        last_mark: 0,
    };
    let (mut positions, mut writer, mut version) = ([0u64; 3], RecordWriter::default(), first_of(1));
    let mut known = LogPosition::default();
    for epoch in 1..=3 + dice.below(12) {
        for _ in 0..dice.below(4) {
            let worker = dice.below(3) as u8;
            let position = &mut positions[usize::from(worker)];
            let (mut stream, mut made) = (Vec::new(), Vec::new());
            for _ in 0..1 + dice.below(3) {
                version = (version + 1).max(first_of(epoch));
                writer.begin();
                writer.change(
                    (TableId(0), PartitionId(1)),
                    Op::Update,
                    &Key::from_words(&[dice.below(9)]),
                    version - 1,
                );
                writer.piece(8, &vec![dice.below(256) as u8; 1 + dice.below(60) as usize]);
                let origin = Origin { host: HOST, incarnation: 5, worker };
                stream.extend_from_slice(writer.finish(version, *position + stream.len() as u64, origin));
                made.push((version, stream.len()));
            }
            // The shipper takes what is there, which may end within a record.
            let mut from = 0;
            while from < stream.len() {
                let to = (from + 8 + 8 * dice.below(40) as usize).min(stream.len());
                let begins = |at: &usize| (from..to).contains(at);
                let first = [0].into_iter().chain(made.iter().map(|(_, end)| *end)).find(begins);
                let first = first.map_or(to - from, |at| at - from);
                put(&mut log, records(worker, (*position + from as u64, first), known, &stream[from..to]));
                let end = place(&log.segments);
                let whole = made.iter().filter(|(_, end)| (from + 1..=to).contains(end));
                log.records.extend(whole.map(|(version, _)| (*version, end)));
                from = to;
            }
            *position += stream.len() as u64;
        }
        put(&mut log, mark(epoch, known));
        log.last_mark = epoch;
        known = place(&log.segments);
        if dice.below(4) == 0 {
            let previous_end = known.byte;
            log.segments.push(head(log.segments.len() as u32, previous_end));
        }
    }
    let last = mark(log.last_mark, known);
    put(&mut log, last);
    log
}

fn mark(epoch: u64, synced: LogPosition) -> Frame<'static> {
    let kind = FrameKind::Mark { epoch, pod_durable: epoch.saturating_sub(1) };
    Frame { kind, synced, payload: &[] }
}

/// A frame at `position` of a stream, whose first record begins at byte `first` of it.
fn records(worker: u8, (position, first): (u64, usize), synced: LogPosition, payload: &[u8]) -> Frame<'_> {
    let first = first as u32;
    Frame { kind: FrameKind::Records { worker, incarnation: 5, position, first }, synced, payload }
}

fn put(log: &mut Log, frame: Frame<'_>) {
    log.synced = frame.synced;
    let start = place(&log.segments);
    frame.encode(frames_of(start.segment), log.segments.last_mut().expect("one"));
    log.frames.push((start, place(&log.segments), frame.synced));
}

fn read(segments: &[Vec<u8>]) -> (Scan, Vec<u64>) {
    let (mut scanner, mut seen) = (Scanner::new(POD, HOST), Vec::new());
    for (number, bytes) in segments.iter().enumerate() {
        scanner.segment(number as u32, bytes, |record, _| seen.push(record.llsn()));
    }
    (scanner.finish(), seen)
}

/// Reads a log of which bytes from `first` on may have changed: records before are all there, nothing is
/// shown that was not written, and what the last frame knew to be on storage is not lost silently.
fn check(log: &Log, changed: &[Vec<u8>], first: LogPosition, what: &str) {
    let (scan, seen) = read(changed);
    let written: Vec<u64> = log.records.iter().map(|(version, _)| *version).collect();
    assert!(written.starts_with(&seen), "{what}: {seen:x?} of {written:x?}");
    let before = log.records.iter().filter(|(_, end)| *end <= first).count();
    assert!(seen.len() >= before, "{what}: {} records, {before} are intact; {:?}", seen.len(), scan.end);
    let is_same = |start: LogPosition, end: LogPosition| {
        let (segment, range) = (start.segment as usize, start.byte as usize..end.byte as usize);
        changed[segment].get(range.clone()) == Some(&log.segments[segment][range])
    };
    // What is known to have been on storage is known from frames, or from the heads of later segments.
    let frames = log.frames.iter().filter(|(start, end, _)| is_same(*start, *end));
    let known = frames.map(|(_, _, synced)| *synced).max().unwrap_or_default();
    let lost_synced = log.records[seen.len()..].iter().any(|(_, end)| *end <= known);
    if lost_synced {
        let End::Damaged { at, .. } = &scan.end else { panic!("{what}: {:?}", scan.end) };
        assert!(at.segment <= first.segment, "{what}: damage at {at:?}, it is at {first:?}");
    }
}

#[test]
fn what_was_written_is_read() {
    for seed in 0..50 {
        let log = generate(seed);
        let (scan, seen) = read(&log.segments);
        assert_eq!(scan.end, End::Clean { at: place(&log.segments) });
        assert_eq!(seen, log.records.iter().map(|(version, _)| *version).collect::<Vec<_>>());
        assert_eq!(
            scan.marks,
            Marks { last: log.last_mark, pod: log.last_mark - 1, generation: 1, closed: false }
        );
        assert_eq!(scan.records, seen.len() as u64);
        // Space that was taken in advance is no difference.
        let mut padded = log.segments.clone();
        padded.last_mut().expect("one").resize(1 << 16, 0);
        assert_eq!(read(&padded).0.end, scan.end);
    }
}

#[test]
fn any_flipped_bit_is_found_where_it_is() {
    let log = generate(7);
    for (number, segment) in log.segments.iter().enumerate() {
        for byte in 0..segment.len() {
            let mut changed = log.segments.clone();
            changed[number][byte] ^= 1 << (byte % 8);
            let first = LogPosition { segment: number as u32, byte: byte as u64 };
            check(&log, &changed, first, &format!("bit of byte {byte} of segment {number}"));
            let (scan, _) = read(&changed);
            let at = scan.end.at();
            assert_eq!((at.segment, at.byte <= byte as u64), (number as u32, true), "{:?}", scan.end);
            let is_known = LogPosition { byte: byte as u64, ..at } < log.synced;
            assert_eq!(matches!(scan.end, End::Damaged { .. }), is_known, "byte {byte}: {:?}", scan.end);
        }
    }
}

#[test]
fn random_damage_never_loses_what_was_known_to_be_on_storage() {
    for seed in 0..600 {
        let log = generate(seed);
        let mut dice = Dice(seed ^ 0xdead);
        let mut changed = log.segments.clone();
        let number = dice.below(changed.len() as u64) as u32;
        let segment = &mut changed[number as usize];
        let byte = dice.below(segment.len() as u64) as usize;
        let what = match dice.below(4) {
            0 => {
                let end = (byte + 1 + dice.below(200) as usize).min(segment.len());
                segment[byte..end].iter_mut().for_each(|b| *b = dice.below(256) as u8);
                "garbage"
            }
            1 => {
                let end = (byte + 512).min(segment.len());
                segment[byte..end].fill(0);
                "a lost sector"
            }
            2 => {
                segment.truncate(byte);
                if number + 1 == changed.len() as u32 {
                    // Nothing is left that could know of the bytes: other hosts' marks tell (recovery).
                    let (scan, seen) = read(&changed);
                    assert!(log.records.len() >= seen.len() && !matches!(scan.end, End::Damaged { .. }));
                    continue;
                }
                "a cut"
            }
            _ => {
                let copy = segment[byte..].to_vec();
                segment.extend_from_slice(&copy);
                "a doubled end"
            }
        };
        let (old, new) = (&log.segments[number as usize], &changed[number as usize]);
        let same = old.iter().zip(new).take_while(|(old, new)| old == new).count();
        let first = LogPosition { segment: number, byte: same as u64 };
        check(&log, &changed, first, &format!("seed {seed}: {what}"));
    }
}

#[test]
fn pure_garbage_is_no_log() {
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let bytes: Vec<u8> = (0..dice.below(3000)).map(|_| dice.below(256) as u8).collect();
        let (scan, seen) = read(&[bytes.clone(), head(1, 0), bytes]);
        assert!(seen.is_empty() && !matches!(scan.end, End::Clean { .. }), "{:?}", scan.end);
    }
}

#[test]
fn a_missing_segment_is_damage() {
    let log = (0..).map(generate).find(|log| log.segments.len() > 2).expect("some log is long");
    let mut scanner = Scanner::new(POD, HOST);
    for number in [0, 2] {
        scanner.segment(number, &log.segments[number as usize], |_, _| {});
    }
    let End::Damaged { at, why } = scanner.finish().end else { panic!("a segment is missing") };
    assert_eq!((at.segment, why.contains("missing")), (0, true), "{why}");
}

#[test]
fn a_torn_end_that_recovery_has_judged_stays_one() {
    let mut log = generate(3);
    let last = log.segments.len() - 1;
    let end = log.segments[last].len() as u64;
    log.segments[last].extend_from_slice(&[0xee; 100]);
    let at = LogPosition { segment: last as u32, byte: end };
    assert_eq!(read(&log.segments).0.end, End::Torn { at, why: "its magic number is 0xeeeeeeee".to_owned() });
    log.segments.push(head(last as u32 + 1, end));
    put(&mut log, mark(99, at));
    let scan = read(&log.segments).0;
    assert_eq!((scan.end, scan.marks.last), (End::Clean { at: place(&log.segments) }, 99));
    // Later the bytes before that end are not what they were.
    log.segments[last][end as usize - 4] ^= 1;
    assert!(matches!(read(&log.segments).0.end, End::Damaged { .. }));
}

#[test]
fn incarnations_that_died_before_their_segments_had_heads_are_passed_over() {
    for (torn, headless) in [(0, 1), (100, 1), (0, 2), (100, 2), (100, 3)] {
        let mut log = generate(3);
        let last = log.segments.len() as u32 - 1;
        let end = place(&log.segments);
        let marks = read(&log.segments).0.marks;
        log.segments[last as usize].extend_from_slice(&vec![0xee; torn]);
        // Nothing, or a part of the head.
        let parts = (0..headless).map(|n| head(last + 1 + n, end.byte)[..20 * n as usize].to_vec());
        log.segments.extend(parts);
        let scan = read(&log.segments).0;
        assert!(matches!(scan.end, End::Torn { .. }), "{torn} {headless}: {:?}", scan.end);
        assert_eq!((scan.counted, scan.marks), (end.byte, marks));
        log.segments.push(head(last + 1 + headless, end.byte));
        put(&mut log, mark(99, end));
        let scan = read(&log.segments).0;
        assert_eq!((scan.end, scan.marks.last), (End::Clean { at: place(&log.segments) }, 99));
        // A segment that knew of more: that is damage.
        let number = log.segments.len() - 1;
        log.segments[number] = head(number as u32, end.byte + 8);
        let End::Damaged { at, .. } = read(&log.segments).0.end else { panic!("bytes are missing") };
        assert_eq!(at, end);
    }
}

#[test]
fn streams_and_marks_go_on_where_they_were() {
    let none = LogPosition::default();
    let mark = |epoch, pod_durable| Frame {
        kind: FrameKind::Mark { epoch, pod_durable },
        synced: none,
        payload: &[],
    };
    let end_of = |frames: &[Frame<'_>]| {
        let mut bytes = head(0, 0);
        frames.iter().for_each(|frame| frame.encode(frames_of(0), &mut bytes));
        read(&[bytes]).0.end
    };
    assert!(matches!(end_of(&[mark(4, 3), mark(4, 4)]), End::Clean { .. }));
    for (what, frames) in [
        ("a mark goes back", [mark(4, 0), mark(3, 0)]),
        ("a mark knows too much", [mark(3, 4), mark(4, 0)]),
        ("a gap", [records(1, (0, 0), none, &[0; 16]), records(1, (24, 0), none, &[0; 8])]),
        ("no record", [mark(1, 0), records(1, (0, 0), none, &[1; 40])]),
    ] {
        assert!(matches!(end_of(&frames), End::Damaged { .. }), "{what}");
    }
}

#[test]
fn a_log_may_begin_within_a_record_and_a_later_life_ships_again() {
    let mut writer = RecordWriter::default();
    let mut stream = Vec::new();
    for version in first_of(1)..first_of(1) + 3 {
        writer.begin();
        writer.change((TableId(0), PartitionId(1)), Op::Delete, &Key::from_words(&[1, 2]), 3);
        let origin = Origin { host: HOST, incarnation: 5, worker: 1 };
        let bytes = writer.finish(version, 640 + stream.len() as u64, origin).to_vec();
        stream.extend_from_slice(&bytes);
    }
    let one = stream.len() / 3;
    let mut scanner = Scanner::new(POD, HOST);
    let mut seen = Vec::new();
    let mut first = SegmentHead { number: 4, previous_end: 77, ..HEAD }.encode().to_vec();
    records(1, (648, one - 8), LogPosition::default(), &stream[8..one + 16]).encode(frames_of(4), &mut first);
    let mut second = SegmentHead { number: 5, previous_end: first.len() as u64, ..HEAD }.encode().to_vec();
    let mut again = records(1, (640 + one as u64, 0), LogPosition::default(), &stream[one..]);
    let FrameKind::Records { incarnation, .. } = &mut again.kind else { panic!("records") };
    *incarnation = 6;
    again.encode(frames_of(5), &mut second);
    let mut show =
        |record: &Record<'_>, at: LogPosition| seen.push((record.llsn() - first_of(1), at.segment));
    scanner.segment(4, &first, &mut show);
    scanner.segment(5, &second, &mut show);
    assert_eq!(
        scanner.finish().end,
        End::Clean { at: LogPosition { segment: 5, byte: second.len() as u64 } }
    );
    assert_eq!(seen, [(1, 4), (2, 5)]);
}

/// A log whose first segment is gone and that begins within a record of `len` bytes of `fill`, then has one
/// more record, a mark, and, if `torn`, a frame of the same bytes without its end.
fn begun_within(len: usize, fill: &[u8], torn: bool) -> Vec<u8> {
    const FRAME: usize = 64 << 10;
    let mut bytes = SegmentHead { number: 4, previous_end: 77, ..HEAD }.encode().to_vec();
    let payload: Vec<u8> = fill.iter().copied().cycle().take(FRAME).collect();
    let (mut at, none) = (8, LogPosition::default());
    while at < len {
        records(1, (at as u64, FRAME), none, &payload).encode(frames_of(4), &mut bytes);
        at += FRAME;
    }
    let mut writer = RecordWriter::default();
    writer.begin();
    writer.change((TableId(0), PartitionId(1)), Op::Delete, &Key::from_words(&[1, 2]), 3);
    let origin = Origin { host: HOST, incarnation: 5, worker: 1 };
    let record = writer.finish(first_of(1), at as u64, origin);
    records(1, (at as u64, 0), none, record).encode(frames_of(4), &mut bytes);
    mark(1, none).encode(frames_of(4), &mut bytes);
    if torn {
        let (start, stream) = (bytes.len(), fill.iter().copied().cycle().take(len).collect::<Vec<u8>>());
        let next = at as u64 + record.len() as u64;
        records(1, (next, len), none, &stream).encode(frames_of(4), &mut bytes);
        bytes[start + FRAME_HEAD_BYTES] ^= 1;
    }
    bytes
}

/// What a user would store to be taken for something else: heads of records whose lengths lead far, frames of
/// this very pod and segment at other places, and what a frame begins with, as close as it goes.
fn temptations() -> Vec<(&'static str, Vec<u8>)> {
    let mut heads = Vec::new();
    for len in [32u32, 1 << 20, 32 << 20, 100 << 20] {
        heads.extend_from_slice(&len.to_le_bytes());
        heads.extend_from_slice(&[0; 4]);
    }
    let mut whole = Vec::new();
    let none = LogPosition::default();
    let synced = LogPosition { segment: 4, byte: 1 << 40 };
    records(1, (8, 0), synced, &[9; 16]).encode(frames_of(4), &mut whole);
    mark(1 << 30, none).encode(frames_of(4), &mut whole);
    let magic = [&b"LigF"[..], &[0; 4], &[1, 1, 5, 0], &0x0400_0000u32.to_le_bytes()].concat();
    vec![("zeros", vec![0; 8]), ("heads of records", heads), ("frames", whole), ("magic numbers", magic)]
}

#[test]
fn the_start_is_found_and_a_torn_end_searched_in_linear_time() {
    for (what, fill) in temptations() {
        for torn in [false, true] {
            let bytes = begun_within(50 << 20, &fill, torn);
            let mut scanner = Scanner::new(POD, HOST);
            let (before, mut seen) = (counted::bytes(), 0);
            scanner.segment(4, &bytes, |_, _| seen += 1);
            let counted = counted::bytes() - before;
            let scan = scanner.finish();
            assert_eq!((seen, scan.marks.last, scan.newest_epoch), (1, 1, 1), "{what}: {:?}", scan.end);
            assert_eq!(matches!(scan.end, End::Torn { .. }), torn, "{what}: {:?}", scan.end);
            let most = 6 * bytes.len() as u64;
            assert!(counted <= most, "{what}: {counted} bytes checked of {}", bytes.len());
        }
    }
}

#[test]
fn a_frame_that_says_wrong_where_its_record_begins_is_damage() {
    let mut writer = RecordWriter::default();
    writer.begin();
    writer.change((TableId(0), PartitionId(1)), Op::Delete, &Key::from_words(&[1, 2]), 3);
    let origin = Origin { host: HOST, incarnation: 5, worker: 1 };
    let record = writer.finish(first_of(1), 0, origin).to_vec();
    let end_of = |second: usize| {
        let mut bytes = head(0, 0);
        records(1, (0, 0), LogPosition::default(), &record[..16]).encode(frames_of(0), &mut bytes);
        records(1, (16, second), LogPosition::default(), &record[16..]).encode(frames_of(0), &mut bytes);
        read(&[bytes]).0.end
    };
    assert!(matches!(end_of(record.len() - 16), End::Clean { .. }));
    assert!(matches!(end_of(8), End::Damaged { .. }));
}
