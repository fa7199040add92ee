//! Images and replay as functions of bytes: damage, and generated histories against a model.

use std::collections::BTreeMap;

use liger_fabric::HostId;
use liger_pod::plan::PartitionId;

use super::error::RecoveryError;
use super::image::{BLOCK_BYTES, ImageEnd, ImageHead, ImageWriter};
use super::image_file::{Block, ImageFile};
use super::replay::{Changes, RecordAt, RecoveredRow, replay};
use crate::catalog::Catalog;
use crate::log::record::{Op, Origin, Record, RecordWriter, epoch_of, first_of};
use crate::tables::key::Key;
use crate::tables::record::NewRow;
use crate::txn::TableId;
pub use tables::*;

/// Tables of these tests.
pub mod tables {
    #![allow(dead_code, reason = "not every name of a declared table is used")]
    use crate::table;

    table! {
        /// Rows of a history.
        pub mod items: "items" {
            PART: SmallInt,
            ID: Int,
            VALUE: BigInt,
            PAD: Text<5>,
        }
        primary key (PART, ID);
        partition by (PART);
        index "by_value" (PART, VALUE);
    }

    table! {
        /// Another table, which stays as it is.
        pub mod others: "others" {
            PART: SmallInt,
            LABEL: Text<12>,
        }
        primary key (PART);
    }
}

const ITEMS: TableId = TableId(0);
const OTHERS: TableId = TableId(2);
const HERE: PartitionId = PartitionId(1);
const HEAD: ImageHead =
    ImageHead { pod: 1, layouts: 2, checkpoint: 3, begin_epoch: 4, host: HostId(5), partition: HERE };

fn catalog() -> Catalog {
    Catalog::new(&[items::schema(), others::schema()]).expect("valid schemas")
}

fn key(id: i32) -> Key {
    Key::build().i16(1).i32(id).finish()
}

fn item(id: i32, value: i64) -> NewRow {
    let mut row = NewRow::new(items::ROW_LEN);
    row.set(items::PART, 1).set(items::ID, id).set(items::VALUE, value).set(items::PAD, "pad");
    row
}

fn other() -> NewRow {
    let mut row = NewRow::new(others::ROW_LEN);
    row.set(others::PART, 1).set(others::LABEL, "name");
    row
}

fn source(bytes: &[u8]) -> impl FnMut(u64, &mut [u8]) -> Result<usize, RecoveryError> + '_ {
    |offset, out| {
        let rest = bytes.get(offset as usize..).unwrap_or(&[]);
        let there = rest.len().min(out.len());
        out[..there].copy_from_slice(&rest[..there]);
        Ok(there)
    }
}

type Rows = Vec<(TableId, Key, u64, Vec<u8>)>;

fn open(bytes: &[u8], end: &ImageEnd) -> Result<ImageFile, RecoveryError> {
    ImageFile::open(&catalog(), "image-3-1", &HEAD, end, &mut source(bytes))
}

fn blocks(bytes: &[u8], end: &ImageEnd) -> Result<Vec<Block>, RecoveryError> {
    let image = open(bytes, end)?;
    (0..image.blocks().len()).map(|block| image.block(&catalog(), block, &mut source(bytes))).collect()
}

fn read_all(bytes: &[u8], end: &ImageEnd) -> Result<Rows, RecoveryError> {
    let blocks = blocks(bytes, end)?;
    let rows = blocks.iter().flat_map(Block::rows);
    Ok(rows.map(|row| (row.table, row.key, row.version, row.bytes.to_vec())).collect())
}

#[test]
fn an_image_gives_back_its_rows() {
    let mut writer = ImageWriter::new(&HEAD, BLOCK_BYTES);
    let (mut bytes, mut expected) = (Vec::new(), Vec::new());
    for id in 0..5000 {
        let row = item(id, 7);
        writer.row(ITEMS, &key(id), id as u64 * 3, row.bytes());
        expected.push((ITEMS, key(id), id as u64 * 3, row.bytes().to_vec()));
        if writer.ready() > 100_000 {
            bytes.extend(writer.take());
        }
    }
    let row = other();
    writer.row(OTHERS, &Key::build().i16(1).finish(), 0, row.bytes());
    expected.push((OTHERS, Key::build().i16(1).finish(), 0, row.bytes().to_vec()));
    let end = writer.finish();
    bytes.extend(writer.take());
    assert_eq!(end, ImageEnd { rows: 5001, newest: 3 * 4999, bytes: bytes.len() as u64 });
    assert!(bytes.len() > 3 * 65536, "several blocks");
    assert_eq!(read_all(&bytes, &end), Ok(expected));
    let image = open(&bytes, &end).expect("whole");
    assert_eq!(image.blocks_of(OTHERS).len(), 1);
    let firsts: Vec<Key> = image.blocks()[image.blocks_of(ITEMS)].iter().map(|place| place.first).collect();
    assert!(firsts.len() > 3 && firsts[0] == key(0) && firsts.is_sorted(), "{firsts:?}");
}

#[test]
fn every_flipped_byte_and_every_cut_of_an_image_is_found_and_named() {
    let mut writer = ImageWriter::new(&HEAD, BLOCK_BYTES);
    (0..4).for_each(|id| writer.row(ITEMS, &key(id), 5, item(id, 7).bytes()));
    writer.row(OTHERS, &Key::build().i16(1).finish(), 0, other().bytes());
    let end = writer.finish();
    let bytes: Vec<u8> = writer.take().collect();
    let byte_of = |failed: RecoveryError| match failed {
        RecoveryError::Damaged { at, .. } => {
            assert_eq!((at.host, at.file.as_str()), (HostId(5), "image-3-1"));
            at.byte
        }
        other => panic!("{other}"),
    };
    let mut places = Vec::new();
    for byte in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[byte] ^= 1 << (byte % 8);
        let found = byte_of(read_all(&damaged, &end).unwrap_err());
        assert!(found <= byte as u64, "byte {byte}");
        places.push(found);
        byte_of(read_all(&bytes[..byte], &end).unwrap_err());
    }
    places.dedup();
    assert_eq!(places.len(), 5, "head, two blocks of rows, directory, end: {places:?}");
    let longer: Vec<u8> = bytes.iter().copied().chain([0]).collect();
    assert_eq!(byte_of(read_all(&longer, &end).unwrap_err()), bytes.len() as u64);
    let wrong = ImageHead { checkpoint: 4, ..HEAD };
    let failed = ImageFile::open(&catalog(), "image-4-1", &wrong, &end, &mut source(&bytes)).err();
    assert!(
        matches!(failed, Some(RecoveryError::Foreign { what: "checkpoint", found: 3, .. })),
        "{failed:?}"
    );
    for other in [ImageEnd { rows: 4, ..end }, ImageEnd { newest: 6, ..end }, ImageEnd { bytes: 100, ..end }]
    {
        byte_of(open(&bytes, &other).unwrap_err());
    }
}

/// A source of numbers (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (((z ^ (z >> 27)) as u128 * u128::from(bound)) >> 64) as u64
    }
}

/// Rows by id: version and value.
type Model = BTreeMap<i32, (u64, i64)>;

/// One committed transaction: its record, and the rows after it.
struct Commit {
    record: Vec<u8>,
    after: Model,
}

const KEYS: i32 = 6;

/// Random transactions, one after the other; the epoch moves on now and then.
fn history(dice: &mut Dice, commits: usize, mut model: Model) -> Vec<Commit> {
    let (mut writer, mut epoch, mut newest) = (RecordWriter::default(), 1, 0);
    let origin = Origin { host: HostId(0), incarnation: 1, worker: 0 };
    let mut run = Vec::new();
    for _ in 0..commits {
        epoch += u64::from(dice.below(4) == 0);
        newest = (newest + 1).max(first_of(epoch));
        writer.begin();
        let from = dice.below(KEYS as u64) as i32;
        for id in from..(from + 1 + dice.below(3) as i32).min(KEYS) {
            let value = dice.below(1000) as i64;
            match model.get(&id).copied() {
                None => {
                    writer.change((ITEMS, HERE), Op::Insert, &key(id), 0);
                    writer.whole_row(item(id, value).bytes());
                    model.insert(id, (newest, value));
                }
                Some((previous, _)) if dice.below(3) == 0 => {
                    writer.change((ITEMS, HERE), Op::Delete, &key(id), previous);
                    model.remove(&id);
                }
                Some((previous, _)) => {
                    writer.change((ITEMS, HERE), Op::Update, &key(id), previous);
                    let at = items::schema().layout().expect("valid").columns[2].offset;
                    writer.piece(at as u16, &value.to_le_bytes());
                    model.insert(id, (newest, value));
                }
            }
        }
        run.push(Commit { record: writer.finish(newest, 0, origin).to_vec(), after: model.clone() });
    }
    run
}

fn version(commit: &Commit) -> u64 {
    Record::parse(&commit.record).expect("whole").llsn()
}

/// An image that was taken from commit `begin` on, a row at a time; with the commit at which it ended.
fn fuzzy_image(dice: &mut Dice, run: &[Commit], before: &Model, begin: usize) -> (Image, usize) {
    let mut writer = ImageWriter::new(&HEAD, 1 + dice.below(200) as usize);
    let mut now = begin;
    for id in 0..KEYS {
        now = (now + dice.below(4) as usize).min(run.len());
        let model = if now == 0 { before } else { &run[now - 1].after };
        if let Some((version, value)) = model.get(&id) {
            writer.row(ITEMS, &key(id), *version, item(id, *value).bytes());
        }
    }
    let end = writer.finish();
    ((writer.take().collect(), end), now)
}

fn collect<'r>(records: impl Iterator<Item = (usize, &'r Commit)>) -> Changes {
    let mut changes = Changes::default();
    for (i, commit) in records {
        let record = Record::parse(&commit.record).expect("whole");
        let at = RecordAt { host: HostId(0), segment: 9, byte: i as u64 };
        record.changes().for_each(|change| changes.push(&change.expect("sane"), record.llsn(), at));
    }
    changes.sort();
    changes
}

/// An image's bytes, and what its manifest says.
type Image = (Vec<u8>, ImageEnd);

/// The rows that come out: all at once, and then span by span of the image's blocks.
fn replayed(image: Option<&Image>, changes: &Changes) -> Result<Model, RecoveryError> {
    let catalog = catalog();
    let blocks = image.map(|(bytes, end)| blocks(bytes, end)).transpose()?;
    let mut model = Model::new();
    let mut show = |row: RecoveredRow<'_>| {
        let shown = crate::tables::record::Row::new(row.bytes);
        assert_eq!((row.table, row.key), (ITEMS, key(shown.get(items::ID))));
        model.insert(shown.get(items::ID), (row.version, shown.get(items::VALUE)));
        Ok(())
    };
    let rows = blocks.as_ref().map(|blocks| blocks.iter().flat_map(Block::rows));
    changes.check(&catalog, (HERE, 2))?;
    replay(&catalog, (HERE, 2), rows, (changes, 0..changes.len()), &mut show)?;
    let whole = std::mem::take(&mut model);
    let firsts: Vec<Key> =
        blocks.iter().flatten().skip(1).map(|b| b.rows().next().expect("rows").key).collect();
    for span in 0..=firsts.len() {
        let (low, high) = (span.checked_sub(1).map(|i| &firsts[i]), firsts.get(span));
        let block = blocks.as_ref().map(|blocks| blocks.get(span).into_iter().flat_map(Block::rows));
        let show = |row: RecoveredRow<'_>| {
            let shown = crate::tables::record::Row::new(row.bytes);
            model.insert(shown.get(items::ID), (row.version, shown.get(items::VALUE)));
            Ok(())
        };
        replay(&catalog, (HERE, 2), block, (changes, changes.span(ITEMS, low, high)), show)?;
    }
    assert_eq!(model, whole, "by spans, and at once");
    Ok(whole)
}

#[test]
fn image_and_log_give_the_state_of_the_durable_epoch() {
    let (mut deleted_under_way, mut with_image) = (0, 0);
    for seed in 0..3000 {
        let mut dice = Dice(seed);
        // Rows that were loaded have version 0.
        let loaded: Model = (0..KEYS).filter(|id| id % 2 == 0).map(|id| (id, (0, 1))).collect();
        let run = history(&mut dice, 30, loaded.clone());
        let begin = dice.below(25) as usize;
        let (image, end) = fuzzy_image(&mut dice, &run, &loaded, begin);
        let begin_epoch = epoch_of(version(&run[begin]));
        let end_epoch = epoch_of(version(&run[end.max(1) - 1])).max(begin_epoch);
        let durable = end_epoch + dice.below(3);
        let counted = |c: &Commit| (begin_epoch..=durable).contains(&epoch_of(version(c)));
        let expected = run.iter().rev().find(|c| epoch_of(version(c)) <= durable).map(|c| &c.after);
        let changes = collect(run.iter().enumerate().filter(|(_, c)| counted(c)));
        let model = replayed(Some(&image), &changes);
        assert_eq!(model.as_ref(), Ok(expected.unwrap_or(&loaded)), "seed {seed}");
        with_image += usize::from(!changes.is_empty());
        deleted_under_way += usize::from(run[begin..end].iter().any(|c| c.after.len() < 3));
    }
    assert!(with_image > 2000 && deleted_under_way > 100, "{with_image} {deleted_under_way}");
}

#[test]
fn a_log_without_an_image_starts_from_nothing() {
    for seed in 0..200 {
        let run = history(&mut Dice(seed), 20, Model::new());
        let upto = (seed % 20) as usize;
        let changes = collect(run[..=upto].iter().enumerate());
        assert_eq!(replayed(None, &changes), Ok(run[upto].after.clone()), "seed {seed}");
    }
}

#[test]
fn a_lost_or_doubled_record_is_found_and_named() {
    let (mut lost, mut doubled) = (0, 0);
    for seed in 0..500 {
        let mut dice = Dice(seed);
        let run = history(&mut dice, 30, Model::new());
        let gone = dice.below(30) as usize;
        let of = |c: &Commit| -> Vec<Key> {
            let record = Record::parse(&c.record).expect("whole");
            record.changes().map(|change| change.expect("sane").key()).collect()
        };
        let mine = of(&run[gone]);
        // A later record of the same row knows what it replaced, unless it began the row anew.
        let later: Vec<Op> = run[gone + 1..]
            .iter()
            .filter_map(|c| {
                let record = Record::parse(&c.record).expect("whole");
                record.changes().flatten().find(|change| mine.contains(&change.key())).map(|change| change.op)
            })
            .collect();
        let without = collect(run.iter().enumerate().filter(|(i, _)| *i != gone));
        if later.first().is_some_and(|op| *op != Op::Insert) {
            let failed = replayed(None, &without).expect_err("a record is missing");
            assert!(failed.to_string().contains("the record at host 0, log-0000000009, byte "), "{failed}");
            lost += 1;
        }
        let twice = collect(run.iter().enumerate().chain([(gone, &run[gone])]));
        assert!(matches!(replayed(None, &twice), Err(RecoveryError::Chain(_))), "seed {seed}");
        doubled += 1;
    }
    assert!(lost > 200 && doubled == 500, "{lost}");
}

/// It was deleted before the image passed its place, which the log then says, or it is lost.
#[test]
fn an_update_of_a_row_that_the_image_lacks_needs_its_deletion() {
    let origin = Origin { host: HostId(0), incarnation: 1, worker: 0 };
    let commit = |op: Op, llsn: u64, previous: u64| {
        let mut writer = RecordWriter::default();
        writer.begin();
        writer.change((ITEMS, HERE), op, &key(3), previous);
        if op == Op::Update {
            writer.piece(8, &[1]);
        }
        Commit { record: writer.finish(llsn, 0, origin).to_vec(), after: Model::new() }
    };
    let mut writer = ImageWriter::new(&HEAD, 100);
    writer.row(ITEMS, &key(1), 5, item(1, 2).bytes());
    let end = writer.finish();
    let image: Image = (writer.take().collect(), end);
    let [update, deletion, another] =
        [commit(Op::Update, 20, 10), commit(Op::Delete, 21, 20), commit(Op::Delete, 21, 19)];
    let with = |commits: &[&Commit]| replayed(Some(&image), &collect(commits.iter().copied().enumerate()));
    let kept = Model::from([(1, (5, 2))]);
    assert_eq!(with(&[&update, &deletion]), Ok(kept));
    for (commits, expected) in
        [(vec![&update], "no later record deletes it"), (vec![&update, &another], "version")]
    {
        let said = with(&commits).expect_err("a row is lost").to_string();
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn changes_that_no_row_can_have_are_errors() {
    let origin = Origin { host: HostId(0), incarnation: 1, worker: 0 };
    let whole = item(3, 4);
    let try_one = |table: TableId, op: Op, key: &Key, previous: u64, piece: Option<(u16, &[u8])>| {
        let mut writer = RecordWriter::default();
        writer.begin();
        writer.change((table, HERE), op, key, previous);
        piece.into_iter().for_each(|(offset, bytes)| writer.piece(offset, bytes));
        let record = writer.finish(first_of(2), 0, origin).to_vec();
        let commit = Commit { record, after: Model::new() };
        replayed(None, &collect([(0, &commit)].into_iter())).expect_err("not a change").to_string()
    };
    let row = |bytes| Some((0, bytes));
    let cases = [
        (try_one(TableId(7), Op::Insert, &key(3), 0, row(whole.bytes())), "no such table"),
        (try_one(ITEMS, Op::Insert, &Key::zero(4), 0, row(whole.bytes())), "keys have 1 words"),
        (try_one(ITEMS, Op::Insert, &Key::build().i16(2).i32(3).finish(), 0, None), "belongs to partition 0"),
        (try_one(ITEMS, Op::Insert, &key(3), 9, row(whole.bytes())), "replaces nothing"),
        (try_one(ITEMS, Op::Insert, &key(3), 0, row(&[1; 200])), "holds no row of"),
        (try_one(ITEMS, Op::Insert, &key(3), 0, Some((1, &[1]))), "holds no row of"),
        (try_one(ITEMS, Op::Insert, &key(3), 0, None), "holds no row of"),
        (try_one(ITEMS, Op::Insert, &key(3), 0, row(&whole.bytes()[..2])), "columns give"),
        (try_one(ITEMS, Op::Insert, &key(5), 0, row(whole.bytes())), "columns give"),
        (try_one(ITEMS, Op::Update, &key(3), 9, Some((8, &[1]))), "no such row"),
        (try_one(ITEMS, Op::Delete, &key(3), 9, None), "no such row"),
    ];
    for (said, expected) in cases {
        assert!(said.contains(expected), "{said:?} has no {expected:?}");
    }
}
