//! Generated logs: read as they are, cut, flipped, and overwritten with garbage.

use super::*;
use crate::key::Key;
use crate::log::record::{Op, Origin, RecordWriter, first_of};

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
    records: Vec<(u64, Spot)>,
    /// What the last frame knew to be on storage.
    synced: Spot,
    /// Where each frame starts and ends, and what it knew to be on storage.
    frames: Vec<(Spot, Spot, Spot)>,
    last_mark: u64,
}

fn head(number: u64, previous_end: u64) -> Vec<u8> {
    SegmentHead { pod: POD, host: HOST, incarnation: 5, number, previous_end }.encode().to_vec()
}

fn spot(segments: &[Vec<u8>]) -> Spot {
    Spot { segment: segments.len() as u64 - 1, byte: segments.last().expect("one").len() as u64 }
}

fn generate(seed: u64) -> Log {
    let mut dice = Dice(seed);
    let mut log = Log {
        segments: vec![head(0, 0)],
        records: Vec::new(),
        synced: Spot::default(),
        frames: Vec::new(),
        last_mark: 0,
    };
    let (mut positions, mut writer, mut version) = ([0u64; 3], RecordWriter::default(), first_of(1));
    let mut known = Spot::default();
    for epoch in 1..=3 + dice.below(12) {
        for _ in 0..dice.below(4) {
            let worker = dice.below(3) as usize;
            let (mut payload, mut made) = (Vec::new(), Vec::new());
            for _ in 0..1 + dice.below(3) {
                version = (version + 1).max(first_of(epoch));
                writer.begin();
                writer.change((0, 1), Op::Update, &Key::from_words(&[dice.below(9)]), version - 1);
                writer.piece(8, &vec![dice.below(256) as u8; 1 + dice.below(60) as usize]);
                let origin = Origin { host: HOST, incarnation: 5, worker: worker as u8 };
                let bytes = writer.finish(version, positions[worker] + payload.len() as u64, origin);
                payload.extend_from_slice(bytes);
                made.push(version);
            }
            let (kind, position) = (FrameKind::Records, positions[worker]);
            put(
                &mut log,
                Frame {
                    kind,
                    worker: worker as u8,
                    incarnation: 5,
                    position,
                    epoch: 0,
                    synced: known,
                    payload: &payload,
                },
            );
            positions[worker] += payload.len() as u64;
            let end = spot(&log.segments);
            log.records.extend(made.into_iter().map(|version| (version, end)));
        }
        put(&mut log, mark(epoch, known));
        log.last_mark = epoch;
        known = spot(&log.segments);
        if dice.below(4) == 0 {
            let previous_end = known.byte;
            log.segments.push(head(log.segments.len() as u64, previous_end));
        }
    }
    let last = mark(log.last_mark, known);
    put(&mut log, last);
    log
}

fn mark(epoch: u64, synced: Spot) -> Frame<'static> {
    let (kind, position) = (FrameKind::Mark, epoch.saturating_sub(1));
    Frame { kind, worker: 0, incarnation: 5, position, epoch, synced, payload: &[] }
}

fn put(log: &mut Log, frame: Frame<'_>) {
    log.synced = frame.synced;
    let start = spot(&log.segments);
    frame.encode(log.segments.last_mut().expect("one"));
    log.frames.push((start, spot(&log.segments), frame.synced));
}

fn read(segments: &[Vec<u8>]) -> (Scan, Vec<u64>) {
    let (mut scanner, mut seen) = (Scanner::new(POD, HOST), Vec::new());
    for (number, bytes) in segments.iter().enumerate() {
        scanner.segment(number as u64, bytes, |record, _| seen.push(record.llsn()));
    }
    (scanner.finish(), seen)
}

/// Reads a log of which bytes from `first` on may have changed: records before are all there, nothing is
/// shown that was not written, and what the last frame knew to be on storage is not lost silently.
fn check(log: &Log, changed: &[Vec<u8>], first: Spot, what: &str) {
    let (scan, seen) = read(changed);
    let written: Vec<u64> = log.records.iter().map(|(version, _)| *version).collect();
    assert!(written.starts_with(&seen), "{what}: {seen:x?} of {written:x?}");
    let before = log.records.iter().filter(|(_, end)| *end <= first).count();
    assert!(seen.len() >= before, "{what}: {} records, {before} are intact; {:?}", seen.len(), scan.end);
    let is_same = |start: Spot, end: Spot| {
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
        assert_eq!(scan.end, End::Clean { at: spot(&log.segments) });
        assert_eq!(seen, log.records.iter().map(|(version, _)| *version).collect::<Vec<_>>());
        assert_eq!(scan.marks, Marks { last: log.last_mark, pod: log.last_mark - 1 });
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
            let first = Spot { segment: number as u64, byte: byte as u64 };
            check(&log, &changed, first, &format!("bit of byte {byte} of segment {number}"));
            let (scan, _) = read(&changed);
            let at = scan.end.at();
            assert_eq!((at.segment, at.byte <= byte as u64), (number as u64, true), "{:?}", scan.end);
            let is_known = Spot { byte: byte as u64, ..at } < log.synced;
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
        let number = dice.below(changed.len() as u64);
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
                if number + 1 == changed.len() as u64 {
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
        let first = Spot { segment: number, byte: same as u64 };
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
    let at = Spot { segment: last as u64, byte: end };
    assert_eq!(read(&log.segments).0.end, End::Torn { at, why: "no frame starts here".to_owned() });
    log.segments.push(head(last as u64 + 1, end));
    put(&mut log, mark(99, at));
    let scan = read(&log.segments).0;
    assert_eq!((scan.end, scan.marks.last), (End::Clean { at: spot(&log.segments) }, 99));
    // Later the bytes before that end are not what they were.
    log.segments[last][end as usize - 4] ^= 1;
    assert!(matches!(read(&log.segments).0.end, End::Damaged { .. }));
}

#[test]
fn streams_and_marks_go_on_where_they_were() {
    let frame = |epoch, position, payload: &'static [u8]| {
        let kind = if epoch > 0 { FrameKind::Mark } else { FrameKind::Records };
        let synced = Spot::default();
        Frame { kind, worker: 1, incarnation: 5, position, epoch, synced, payload }
    };
    let end_of = |frames: &[Frame<'_>]| {
        let mut bytes = head(0, 0);
        frames.iter().for_each(|frame| frame.encode(&mut bytes));
        read(&[bytes]).0.end
    };
    assert!(matches!(end_of(&[frame(4, 3, &[]), frame(4, 4, &[])]), End::Clean { .. }));
    for (what, frames) in [
        ("a mark goes back", [frame(4, 0, &[]), frame(3, 0, &[])]),
        ("a mark knows too much", [frame(3, 4, &[]), frame(4, 0, &[])]),
        ("a gap", [frame(0, 8, &[]), frame(0, 16, &[])]),
        ("no record", [frame(0, 8, &[]), frame(0, 8, &[1; 40])]),
    ] {
        assert!(matches!(end_of(&frames), End::Damaged { .. }), "{what}");
    }
}
