//! Rows that go to files and come back.

use std::io;
use std::sync::{Arc, Mutex};

use super::{Parts, SortMethod, Sorter, Space, Tape, TupleStore, footprint};
use crate::error::SqlState;
use crate::exec::aggregate::plain_key;
use crate::exec::{Row, rows};
use crate::session::{Interrupt, InterruptReason};
use crate::temporary::{TemporaryBytes, TemporaryFiles, TemporaryPlace, TemporaryTotals};
use crate::tree::SortKey;
use crate::types::numeric::Numeric;
use crate::types::oid;
use crate::types::value::{Interval, Value};

/// Files in memory, on a disk of so many bytes.
#[derive(Debug)]
struct Small(usize);

struct InMemory(usize, Mutex<Vec<u8>>);

impl TemporaryPlace for Small {
    fn create(&self, _name: &str) -> io::Result<Box<dyn TemporaryBytes>> {
        Ok(Box::new(InMemory(self.0, Mutex::default())))
    }

    fn path_of(&self, name: &str) -> String {
        format!("in memory/{name}")
    }
}

impl TemporaryBytes for InMemory {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut all = self.1.lock().expect("nobody panics here");
        let end = offset as usize + bytes.len();
        if end > self.0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let len = all.len().max(end);
        all.resize(len, 0);
        all[offset as usize..end].copy_from_slice(bytes);
        Ok(())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let all = self.1.lock().expect("nobody panics here");
        out.copy_from_slice(&all[offset as usize..offset as usize + out.len()]);
        Ok(())
    }
}

/// Temporary files on a disk of so many bytes.
fn files(disk: usize) -> Arc<TemporaryFiles> {
    Arc::new(TemporaryFiles::new(
        Arc::new(Small(disk)),
        7,
        Arc::default(),
        Arc::new(TemporaryTotals::default()),
    ))
}

/// So many bytes of memory, and files.
pub(in crate::exec) fn space(bytes: usize) -> Space {
    Space { bytes, files: Some(files(usize::MAX)) }
}

fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

/// Rows of a number that comes several times, and of which row it is.
fn numbers(count: usize, of: u64) -> Vec<Row> {
    let mut seed = 42;
    (0..count).map(|at| vec![Value::Int4((random(&mut seed) % of) as i32), Value::Int8(at as i64)]).collect()
}

fn shown(row: &[Value]) -> String {
    format!("{row:?}")
}

fn sorted(keys: &[SortKey], rows: Vec<Row>, space: Space, bound: Option<usize>) -> (Vec<Row>, SortMethod) {
    let interrupt = Interrupt::default();
    let mut sorter = Sorter::new(keys.to_vec(), space, &interrupt).bounded(bound);
    rows.into_iter().for_each(|row| sorter.push(row).expect("room"));
    let mut merged = sorter.sorted().expect("room");
    let method = merged.method();
    let mut all = Vec::new();
    while let Some(row) = merged.next().expect("it can be read") {
        all.push(row);
    }
    (all, method)
}

#[test]
fn rows_are_sorted_alike_in_memory_and_in_files() {
    let keys = [plain_key(0, oid::INT4)];
    let mut expected = numbers(40_000, 900);
    expected.sort_by(|a, b| rows::compare(&keys, a, b));
    let expected: Vec<String> = expected.iter().map(|row| shown(row)).collect();
    // So little that runs are merged in several rounds.
    for (bytes, is_external) in [(usize::MAX, false), (1 << 20, true), (1 << 16, true)] {
        let (found, method) = sorted(&keys, numbers(40_000, 900), space(bytes), None);
        assert_eq!(matches!(method, SortMethod::ExternalMerge { .. }), is_external, "{method:?}");
        assert!(found.iter().map(|row| shown(row)).eq(expected.iter().cloned()), "with {bytes} bytes");
    }
}

/// Blocks of runs that were merged are written again: a file has little more than its rows once.
#[test]
fn a_sort_takes_its_bytes_once_on_disk() {
    let rows = numbers(40_000, 900);
    let on_tape: usize = rows.len() * (12 + 5 + 9);
    let (_, method) = sorted(&[plain_key(0, oid::INT4)], rows, space(1 << 16), None);
    let SortMethod::ExternalMerge { disk_kb } = method else { panic!("{method:?}") };
    let disk = disk_kb as usize * 1024;
    assert!(disk >= on_tape && disk < on_tape * 3 / 2 + (1 << 18), "{disk} bytes for {on_tape}");
}

#[test]
fn the_first_rows_are_those_of_a_whole_sort_and_take_their_room_only() {
    let keys = [plain_key(0, oid::INT4)];
    let all = sorted(&keys, numbers(20_000, 900), space(usize::MAX), None).0;
    for bound in [1, 2, 10, 777, 19_999, 20_000, 30_000] {
        let (found, method) = sorted(&keys, numbers(20_000, 900), space(1 << 22), Some(bound));
        let wanted = bound.min(20_000);
        let firsts = found.iter().take(wanted).map(|row| shown(row));
        assert!(firsts.eq(all[..wanted].iter().map(|row| shown(row))), "the first {bound}");
        if bound < 1000 {
            let SortMethod::TopN { memory_kb } = method else { panic!("{method:?}") };
            assert!(memory_kb as usize * 1024 <= 1024 + 2 * bound * (footprint(&all[0]) + 16));
        }
    }
}

/// A prefix that says otherwise than the order of its type would show here.
#[test]
fn values_are_in_the_order_of_their_type() {
    let numeric = |text: &str| {
        Value::Numeric(Numeric::parse(text).expect("a number").expect("of a size that there is"))
    };
    let texts = ["", "a", "a ", "ab", "abcdefgh", "abcdefgha", "abcdefghb", "b", "\u{e4}", "\u{10ffff}"];
    let numerics = [
        "-Infinity",
        "-100000000000000000000000.5",
        "-7",
        "-1.5",
        "-0.5",
        "-0.3000000000000000000000000001",
        "-0.2",
        "0",
        "0.0000000000000000000000000000000001",
        "0.5",
        "1",
        "1.00",
        "9223372036854775808",
        "1e30",
        "Infinity",
        "NaN",
    ];
    let floats = [f64::NEG_INFINITY, -1e300, -1.0, -0.0, 0.0, 1e-300, 1.0, f64::INFINITY, f64::NAN];
    let interval = |months, days| Value::Interval(Interval { months, days, micros: 0 });
    let of_types: Vec<(u32, Vec<Value>)> = vec![
        (oid::INT2, [i16::MIN, -1, 0, 1, i16::MAX].map(Value::Int2).to_vec()),
        (oid::INT4, [i32::MIN, -1, 0, 1, i32::MAX].map(Value::Int4).to_vec()),
        (oid::INT8, [i64::MIN, i64::MIN + 1, -1, 0, 1, 2, i64::MAX - 1, i64::MAX].map(Value::Int8).to_vec()),
        (oid::OID, [0, 1, u32::MAX].map(Value::Oid).to_vec()),
        (oid::FLOAT8, floats.map(Value::Float8).to_vec()),
        (oid::FLOAT4, floats.map(|x| Value::Float4(x as f32)).to_vec()),
        (oid::NUMERIC, numerics.iter().map(|text| numeric(text)).collect()),
        (oid::TEXT, texts.map(Value::text).to_vec()),
        (oid::BPCHAR, texts.map(Value::text).to_vec()),
        (oid::BYTEA, texts.map(|text| Value::bytea(text.as_bytes())).to_vec()),
        (oid::BOOL, vec![Value::Bool(false), Value::Bool(true)]),
        (
            oid::INTERVAL,
            vec![interval(0, -1), interval(0, 0), interval(1, 0), interval(0, 30), interval(1, 1)],
        ),
    ];
    for (ty, values) in of_types {
        for (descending, nulls_first) in [(false, false), (false, true), (true, false), (true, true)] {
            let key = [SortKey { column: 0, ty, descending, nulls_first }];
            // Backwards and twice, so that sorting has something to do.
            let twice = || values.iter().rev().chain(&values).chain([&Value::Null]);
            let given: Vec<Row> =
                twice().enumerate().map(|(n, it)| vec![it.clone(), Value::Int4(n as i32)]).collect();
            let mut expected = given.clone();
            expected.sort_by(|a, b| rows::compare(&key, a, b));
            let (found, _) = sorted(&key, given, space(usize::MAX), None);
            let lines = |rows: &[Row]| rows.iter().map(|row| shown(row)).collect::<Vec<_>>();
            assert_eq!(lines(&found), lines(&expected), "type {ty}, {descending} {nulls_first}");
        }
    }
}

#[test]
fn rows_of_a_store_are_found_by_their_numbers() {
    for bytes in [usize::MAX, 1 << 16] {
        let mut store = TupleStore::new(space(bytes));
        let long = "x".repeat(20_000);
        let row = |n: usize| {
            let text = if n.is_multiple_of(97) { long.clone() } else { n.to_string() };
            vec![Value::Int8(n as i64), Value::text(text), Value::Null]
        };
        (0..3000).for_each(|n| store.push(row(n)).expect("room"));
        assert_eq!(store.is_in_file(), bytes != usize::MAX);
        assert!(store.bytes() < bytes);
        let mut reading = store.reading();
        let mut seed = 3;
        let places =
            (0..3000).chain((0..3000).rev()).chain((0..500).map(|_| random(&mut seed) as usize % 3000));
        for at in places.collect::<Vec<_>>() {
            assert_eq!(shown(reading.row(at).expect("it can be read")), shown(&row(at)));
        }
        let mut count = 0;
        let all = store.each_owned(|found| {
            assert_eq!(shown(&found), shown(&row(count)));
            count += 1;
            Ok(true)
        });
        assert!(all.expect("it can be read") && count == 3000);
    }
}

#[test]
fn rows_of_one_hash_are_in_one_part_and_levels_divide_otherwise() {
    let space = space(1 << 16);
    let mut parts = Parts::new(&space, 0).expect("room");
    let mut seed = 9;
    let hashes: Vec<u64> = (0..4000).map(|_| random(&mut seed) << 20).collect();
    for hash in hashes.iter().chain(&hashes) {
        parts.push(*hash, &[Value::Int8(*hash as i64)]).expect("room");
    }
    let rows: Vec<u64> = parts.tapes().iter().map(Tape::rows).collect();
    assert_eq!(rows.iter().sum::<u64>(), 8000);
    assert!(rows.iter().all(|rows| rows % 2 == 0 && *rows > 500), "{rows:?}");
    let first = |level| hashes.iter().filter(|hash| Parts::of(**hash, level, 4) == 0).collect::<Vec<_>>();
    let again = first(0).iter().filter(|hash| Parts::of(***hash, 1, 4) == 0).count();
    assert!((150..350).contains(&again), "{again} of 4000 are first twice");
}

#[test]
fn a_full_disk_and_a_limit_are_errors_and_what_is_dropped_is_given_back() {
    let fill = |files: &Arc<TemporaryFiles>| {
        let mut store = TupleStore::new(Space { bytes: 1 << 16, files: Some(files.clone()) });
        numbers(20_000, 9).into_iter().try_for_each(|row| store.push(row))
    };
    let full = files(100_000);
    let error = fill(&full).expect_err("there is no room");
    assert_eq!(error.state, SqlState::DISK_FULL);
    assert_eq!(error.message, "could not write to file \"in memory/7.0\": No space left on device");
    assert_eq!(full.used(), 0);
    let limited = files(usize::MAX);
    limited.hear(100, 64);
    let error = fill(&limited).expect_err("there is a limit");
    assert_eq!(error.state, SqlState::CONFIGURATION_LIMIT_EXCEEDED);
    assert_eq!(error.message, "temporary file size exceeds temp_file_limit (100kB)");
    assert_eq!(limited.used(), 0);
    let told: Vec<String> = limited.take_ended().iter().map(|told| told.message.clone()).collect();
    assert_eq!(told, ["temporary file: path \"in memory/7.0\", size 98304"]);
    limited.hear(-1, -1);
    fill(&limited).expect("there is room");
    assert!(limited.take_ended().is_empty());
}

#[test]
fn a_cancel_ends_a_sort_that_is_merged() {
    let interrupt = Interrupt::default();
    let mut sorter = Sorter::new(vec![plain_key(0, oid::INT4)], space(1 << 16), &interrupt);
    numbers(9000, 100).into_iter().for_each(|row| sorter.push(row).expect("room"));
    interrupt.raise(InterruptReason::Cancel);
    assert!(numbers(9000, 100).into_iter().any(|row| sorter.push(row).is_err()));
    assert!(sorter.sorted().is_err());
}
