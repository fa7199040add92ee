//! One table of operations, run on both backends.

use std::path::PathBuf;

use super::*;
use crate::SyncMode;
use crate::cx::WorkerId;
use crate::native::{Mapping, Native, run_hosts};
use crate::sim::{SimConfig, Simulation};

type Step<F> = (&'static str, fn(&Cx<F>, &Disk));

fn all(file: &DiskFile, cx: &Cx<impl Fabric>) -> Vec<u8> {
    let mut bytes = vec![0; file.len(cx).expect("length") as usize];
    file.read_exact_at(cx, 0, &mut bytes).expect("all of it is there");
    bytes
}

fn kind<T>(result: Result<T, DiskError>) -> DiskErrorKind {
    result.err().expect("an error").kind
}

fn long_writes<F: Fabric>(cx: &Cx<F>, disk: &Disk) {
    let file = disk.create_for_long_writes(cx, "a").expect("new");
    assert_eq!(kind(disk.create_for_long_writes(cx, "a")), DiskErrorKind::Exists);
    let bytes: Vec<u8> = (0..20_000).map(|i| (i % 251) as u8).collect();
    let mut pages = Pages::new(8192);
    let mut left = pages.fill(&bytes);
    while pages.is_full() {
        file.append(cx, pages.filled()).expect("append");
        pages.clear();
        left = pages.fill(left);
    }
    // Less than a page, and then a page that starts within one.
    file.append(cx, pages.filled()).expect("append");
    pages.clear();
    assert_eq!(pages.fill(&bytes[..8192]), b"");
    file.append(cx, pages.filled()).expect("append");
    // Over what the system's cache has by now, and read through another handle.
    assert_eq!(all(&file, cx)[..20_000], bytes);
    file.write_at(cx, 4096, pages.filled()).expect("write");
    file.sync(cx).expect("sync");
    let read = all(&disk.open(cx, "a").expect("there"), cx);
    assert_eq!((&read[..4096], &read[4096..12_288]), (&bytes[..4096], &bytes[..8192]));
    assert_eq!((&read[12_288..20_000], &read[20_000..]), (&bytes[12_288..], &bytes[..8192]));
}

fn steps<F: Fabric>() -> Vec<Step<F>> {
    vec![
        ("a new file is empty, and there once", |cx, disk| {
            let file = disk.create(cx, "a").expect("new");
            assert_eq!((file.name(), file.len(cx).expect("length")), ("a", 0));
            assert_eq!(kind(disk.create(cx, "a")), DiskErrorKind::Exists);
            assert_eq!(kind(disk.open(cx, "b")), DiskErrorKind::Missing);
        }),
        ("a gap is zeros", |cx, disk| {
            let file = disk.create(cx, "a").expect("new");
            file.write_at(cx, 3, b"xy").expect("write");
            file.write_at(cx, 4, b"z").expect("write");
            assert_eq!(all(&file, cx), b"\0\0\0xz");
            assert_eq!(file.read_at(cx, 4, &mut [0; 9]), Ok(1));
            assert_eq!(file.read_at(cx, 9, &mut [0; 9]), Ok(0));
            let error = file.read_exact_at(cx, 4, &mut [0; 9]).unwrap_err();
            assert_eq!((error.kind, error.offset, error.op), (DiskErrorKind::PastEnd, Some(5), DiskOp::Read));
        }),
        ("appends stand one behind the other", |cx, disk| {
            let file = disk.create(cx, "a").expect("new");
            assert_eq!(file.append(cx, b"one"), Ok(0));
            assert_eq!(disk.open(cx, "a").expect("there").append(cx, b"two"), Ok(3));
            assert_eq!((file.append(cx, b""), file.append(cx, b"3")), (Ok(6), Ok(6)));
            file.sync(cx).expect("sync");
            assert_eq!(all(&file, cx), b"onetwo3");
        }),
        ("long writes go where they belong, with or without the system's cache", long_writes),
        ("preallocated space is zeros, what was there stays", |cx, disk| {
            let file = disk.create(cx, "a").expect("new");
            file.append(cx, b"one").expect("append");
            file.preallocate(cx, 5).expect("space");
            file.preallocate(cx, 2).expect("space");
            assert_eq!(all(&file, cx), b"one\0\0");
        }),
        ("a cut tail does not come back", |cx, disk| {
            let file = disk.create(cx, "a").expect("new");
            file.append(cx, b"one and two").expect("append");
            file.truncate(cx, 3).expect("cut");
            file.truncate(cx, 6).expect("nothing to cut");
            assert_eq!(all(&file, cx), b"one");
            file.preallocate(cx, 5).expect("space");
            assert_eq!(all(&file, cx), b"one\0\0");
        }),
        ("a rename replaces", |cx, disk| {
            let (old, new) = (disk.create(cx, "a").expect("new"), disk.create(cx, "a.new").expect("new"));
            old.append(cx, b"old").expect("append");
            new.append(cx, b"new").expect("append");
            disk.rename(cx, "a.new", "a").expect("rename");
            disk.sync_names(cx).expect("sync");
            assert_eq!(disk.list(cx).expect("names"), ["a"]);
            assert_eq!(all(&disk.open(cx, "a").expect("there"), cx), b"new");
            assert_eq!(all(&old, cx), b"old");
            assert_eq!(kind(disk.rename(cx, "b", "a")), DiskErrorKind::Missing);
            disk.rename(cx, "a", "a").expect("to itself");
            assert_eq!(disk.list(cx).expect("names"), ["a"]);
        }),
        ("a removed file is used on by who has it open", |cx, disk| {
            let file = disk.create(cx, "a").expect("new");
            disk.remove(cx, "a").expect("remove");
            assert_eq!(kind(disk.remove(cx, "a")), DiskErrorKind::Missing);
            file.append(cx, b"one").expect("append");
            disk.sync_names(cx).expect("sync");
            assert_eq!(all(&file, cx), b"one");
            assert_eq!(disk.create(cx, "a").expect("new").len(cx), Ok(0));
        }),
        ("names are sorted, and plain", |cx, disk| {
            for name in ["b", "c", "a-1"] {
                disk.create(cx, name).expect("new");
            }
            assert_eq!(disk.list(cx).expect("names"), ["a-1", "b", "c"]);
            let long = "x".repeat(NAME_BYTES_MAX + 1);
            for name in ["", ".", "..", ".lock", "a/b", "a b", "\u{e4}", &long] {
                assert_eq!(kind(disk.create(cx, name)), DiskErrorKind::BadName, "{name:?}");
                assert_eq!(kind(disk.rename(cx, "b", name)), DiskErrorKind::BadName, "{name:?}");
            }
        }),
    ]
}

/// A directory of this test alone, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("liger-disk-{}-{name}", std::process::id()));
        // A run that was killed may have left it.
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn native() -> Cx<Native> {
    Cx::new(Native::new(Mapping::anonymous(4096).expect("memory")), HostId(0), WorkerId(0), 1)
}

#[test]
fn native_files_do_what_the_table_says() {
    let cx = native();
    for (number, (name, step)) in steps().into_iter().enumerate() {
        println!("{name}");
        let scratch = Scratch::new(&format!("table-{number}"));
        step(&cx, &Disk::native(&scratch.0).expect("a directory"));
    }
}

#[test]
fn simulated_files_do_what_the_table_says() {
    for (name, step) in steps() {
        println!("{name}");
        let mut sim = Simulation::new(SimConfig::adversarial(1, 4096, 7));
        sim.spawn(HostId(0), WorkerId(0), move |cx| {
            step(cx, &Disk::simulated(cx, HostId(0)).expect("a disk"));
        });
        sim.run().expect_completed();
    }
}

#[test]
fn one_holder_at_a_time() {
    let (cx, scratch) = (native(), Scratch::new("holder"));
    let disk = Disk::native(&scratch.0).expect("a directory");
    let file = disk.create(&cx, "a").expect("new");
    let error = Disk::native(&scratch.0).err().expect("held");
    assert_eq!((error.op, error.kind), (DiskOp::Hold, DiskErrorKind::Locked));
    assert!(error.to_string().contains("another process holds it"), "{error}");
    drop(disk);
    assert!(Disk::native(&scratch.0).is_err(), "an open file keeps hold");
    drop(file);
    assert_eq!(Disk::native(&scratch.0).expect("free").list(&cx).expect("names"), ["a"]);

    let mut sim = Simulation::new(SimConfig::adversarial(2, 4096, 7));
    sim.spawn(HostId(0), WorkerId(0), |cx| {
        let disk = Disk::simulated(cx, HostId(1)).expect("free");
        assert_eq!(kind(Disk::simulated(cx, HostId(1))), DiskErrorKind::Locked);
        let file = disk.create(cx, "a").expect("new");
        drop(disk);
        assert_eq!(kind(Disk::simulated(cx, HostId(1))), DiskErrorKind::Locked);
        drop(file);
        assert_eq!(Disk::simulated(cx, HostId(1)).expect("free").list(cx).expect("names"), ["a"]);
    });
    sim.run().expect_completed();
}

#[test]
fn native_errors_say_what_and_where() {
    let (cx, scratch) = (native(), Scratch::new("errors"));
    let error = Disk::native(&scratch.0.join("deeper")).err().expect("no parent");
    assert_eq!(error.kind, DiskErrorKind::Missing);
    let disk = Disk::native(&scratch.0).expect("a directory");
    std::fs::create_dir(scratch.0.join("folder")).expect("a folder");
    assert_eq!(kind(disk.open(&cx, "folder")), DiskErrorKind::WrongKind);
    let error = disk.open(&cx, "none").err().expect("missing").to_string();
    assert!(error.contains("/none: cannot open it: it does not exist (No such file"), "{error}");
    let file = disk.create(&cx, "file").expect("new");
    assert_eq!(kind(file.preallocate(&cx, 1 << 55)), DiskErrorKind::Full);
    assert_eq!(file.len(&cx), Ok(0));
    drop(file);
    drop(disk);
    assert_eq!(kind(Disk::native(&scratch.0.join("file"))), DiskErrorKind::WrongKind);
}

#[test]
fn native_appends_of_several_handles_do_not_mix() {
    let scratch = Scratch::new("appends");
    let disk = Disk::native(&scratch.0).expect("a directory");
    disk.create(&native(), "a").expect("new");
    let append = |cx: &Cx<Native>| {
        let file = disk.open(cx, "a").expect("there");
        for _ in 0..500 {
            let at = file.append(cx, &[cx.worker().0; 100]).expect("append");
            assert_eq!(at % 100, 0);
        }
    };
    let mapping = Mapping::anonymous(4096).expect("memory");
    let ended = run_hosts(&mapping, SyncMode::Hwcc, 1, 4, 1, append);
    assert!(ended.iter().all(Result::is_ok));
    let cx = native();
    let bytes = all(&disk.open(&cx, "a").expect("there"), &cx);
    assert_eq!(bytes.len(), 4 * 500 * 100);
    assert!(bytes.chunks(100).all(|record| record.iter().all(|&byte| byte == record[0])));
}
