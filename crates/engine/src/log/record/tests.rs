//! Records as bytes: what was written is read, and nothing else is taken for a record.

use liger_fabric::WorkerId;

use super::*;

const ORIGIN: Origin = Origin { host: HostId(3), incarnation: 7, worker: 2 };

fn key(words: &[u64]) -> Key {
    Key::from_words(words)
}

fn sample() -> Vec<u8> {
    let mut writer = RecordWriter::default();
    writer.begin();
    writer.change((TableId(1), PartitionId(2)), Op::Insert, &key(&[5, 6]), 0);
    writer.piece(0, b"a whole row");
    writer.change((TableId(1), PartitionId(2)), Op::Update, &key(&[5, 7]), 0x99);
    writer.piece(4, &[1, 2, 3, 4]);
    writer.piece(16, &[9; 8]);
    writer.change((TableId(4), PartitionId(0)), Op::Delete, &key(&[8]), 0x42);
    writer.finish(first_of(11) + 5, 4096, ORIGIN).to_vec()
}

#[test]
fn what_was_written_is_read() {
    let bytes = sample();
    let record = Record::parse(&bytes).unwrap();
    assert_eq!((record.len(), record.position(), record.origin()), (bytes.len(), 4096, ORIGIN));
    assert_eq!((epoch_of(record.llsn()), record.llsn()), (11, first_of(11) + 5));
    let changes = record.changes().collect::<Result<Vec<_>, _>>().unwrap();
    let seen: Vec<_> = changes.iter().map(|c| (c.table, c.partition, c.op, c.key(), c.previous)).collect();
    let expected = [
        (TableId(1), PartitionId(2), Op::Insert, key(&[5, 6]), 0),
        (TableId(1), PartitionId(2), Op::Update, key(&[5, 7]), 0x99),
        (TableId(4), PartitionId(0), Op::Delete, key(&[8]), 0x42),
    ];
    assert_eq!(seen, expected);
    assert_eq!(changes[0].pieces.iter().collect::<Vec<_>>(), [(0, &b"a whole row"[..])]);
    assert_eq!(changes[1].pieces.iter().collect::<Vec<_>>(), [(4, &[1, 2, 3, 4][..]), (16, &[9; 8][..])]);
    assert_eq!(changes[2].pieces.iter().count(), 0);
}

#[test]
fn a_row_is_written_without_the_zeros_at_its_end() {
    for len in 0..70 {
        for used in 0..=len {
            let mut row = vec![0; len];
            row[..used].fill(7);
            let mut writer = RecordWriter::default();
            writer.begin();
            writer.change((TableId(1), PartitionId(2)), Op::Insert, &key(&[5]), 0);
            writer.whole_row(&row);
            let bytes = writer.finish(first_of(1), 0, ORIGIN).to_vec();
            let record = Record::parse(&bytes).expect("it is whole");
            let change = record.changes().next().expect("there is one").unwrap();
            assert_eq!(change.pieces.iter().collect::<Vec<_>>(), [(0, &row[..used])], "{used} of {len}");
        }
    }
}

#[test]
fn every_flipped_bit_and_every_cut_is_found() {
    let bytes = sample();
    for bit in 0..8 * bytes.len() {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(Record::parse(&damaged).is_err(), "bit {bit}");
    }
    for len in 0..bytes.len() {
        assert!(Record::parse(&bytes[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn a_branch_says_whose_it_is() {
    let (host, worker) = (HostId(5), WorkerId(3));
    for committed in [None, Some(0), Some(0x8001)] {
        let head = BranchHead { time: 1 << 40, transaction: 77, host, worker, committed };
        let mut writer = RecordWriter::default();
        writer.begin_branch(&head);
        assert!(writer.is_empty());
        writer.change((TableId(1), PartitionId(2)), Op::Update, &key(&[5]), 3);
        writer.piece(4, b"new");
        let bytes = writer.finish(first_of(9), 0, ORIGIN).to_vec();
        let record = Record::parse(&bytes).unwrap();
        assert_eq!((record.branch(), record.changes().count()), (Some(head), 1));
        assert_eq!(
            record.changes().next().unwrap().unwrap().pieces.iter().collect::<Vec<_>>(),
            [(4, &b"new"[..])]
        );
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Record::parse(&damaged).is_err(), "bit {bit}");
        }
    }
    assert_eq!(Record::parse(&sample()).unwrap().branch(), None);
}

#[test]
fn a_writer_starts_anew() {
    let mut writer = RecordWriter::default();
    writer.begin();
    writer.change((TableId(1), PartitionId(2)), Op::Delete, &key(&[1]), 3);
    writer.finish(1, 0, ORIGIN);
    writer.begin();
    assert!(writer.is_empty() && writer.len() == HEAD_BYTES);
    assert_eq!(Record::parse(writer.finish(1, 0, ORIGIN)).unwrap().changes().count(), 0);
}

#[test]
fn a_long_record_is_padded_to_its_unit() {
    let (mut writer, row) = (RecordWriter::default(), vec![7u8; 60_000]);
    writer.begin();
    let most = 100_000;
    for id in 0..most {
        writer.change((TableId(1), PartitionId(2)), Op::Insert, &key(&[id]), 0);
        if id < 80 {
            writer.piece(0, &row);
        }
    }
    assert!(writer.len() > SHORT_MAX && writer.len().is_multiple_of(LONG_UNIT));
    let bytes = writer.finish(1, 0, ORIGIN).to_vec();
    let record = Record::parse(&bytes).unwrap();
    assert_eq!((record.len(), record.changes().count()), (bytes.len(), most as usize));
    assert_eq!(record.changes().last().unwrap().unwrap().key(), key(&[most - 1]));
    let mut damaged = bytes;
    *damaged.last_mut().unwrap() ^= 1;
    assert!(Record::parse(&damaged).is_err(), "padding counts");
}

#[test]
fn a_piece_is_no_longer_than_a_row_can_be() {
    let (mut writer, piece) = (RecordWriter::default(), [7; 65_400]);
    writer.begin();
    writer.change((TableId(1), PartitionId(2)), Op::Insert, &key(&[5]), 0);
    writer.piece(0, &piece);
    let mut bytes = writer.finish(first_of(9), 0, ORIGIN).to_vec();
    let last = |bytes: &[u8]| Record::parse(bytes).unwrap().changes().last().unwrap().err();
    assert_eq!(last(&bytes), None);
    // The same with 65,536 bytes, as no writer of ours makes it.
    let (end, more) = (writer.len, 65_536 - piece.len());
    let length_at = end - piece.len() - NUMBER_BYTES;
    bytes[length_at..][..NUMBER_BYTES].copy_from_slice(&[0x80, 0x80, 0x04]);
    bytes.splice(end..end, vec![7; more]);
    let len = bytes.len() as u32;
    bytes[..4].copy_from_slice(&len.to_le_bytes());
    let crc = checksum(&bytes);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(last(&bytes), Some(BadRecord::Malformed { what: "change" }));
}
