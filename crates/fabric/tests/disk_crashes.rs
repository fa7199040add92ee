//! What crashes and faults leave of simulated files: all that docs/storage.md promises, and no more.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use liger_fabric::disk::{Damage, Disk, DiskErrorKind, DiskFault, DiskFile, SECTOR};
use liger_fabric::sim::{
    CrashDomain, Kill, KillAt, Outcome, Profile, Report, Sim, SimConfig, Simulation, Site, Verb,
};
use liger_fabric::{Cx, HostId, WorkerId};

const HOST: HostId = HostId(0);
const ME: WorkerId = WorkerId(0);
const DOMAINS: [CrashDomain; 3] = [CrashDomain::Process, CrashDomain::Host, CrashDomain::HostPersistent];
const RECORD: usize = 700;

fn all(cx: &Cx<Sim>, file: &DiskFile) -> Vec<u8> {
    let mut bytes = vec![0; file.len(cx).expect("length") as usize];
    file.read_exact_at(cx, 0, &mut bytes).expect("all of it is there");
    bytes
}

/// What a log's writer knows.
#[derive(Default)]
struct Known {
    named: Cell<bool>,
    appended: Cell<usize>,
    synced: Cell<usize>,
    /// The newest manifest that a sync of the names covers, and the newest at all.
    manifest: Cell<(u8, u8)>,
}

fn write_log(cx: &Cx<Sim>, known: &Known) {
    let disk = Disk::simulated(cx, HOST).expect("free");
    let log = disk.create(cx, "log").expect("new");
    disk.sync_names(cx).expect("sync");
    known.named.set(true);
    for round in 1..4_u8 {
        log.append(cx, &[round; RECORD]).expect("append");
        known.appended.set(usize::from(round));
        log.sync(cx).expect("sync");
        known.synced.set(usize::from(round));
        let manifest = disk.create(cx, "manifest.new").expect("new");
        manifest.append(cx, &[round; 9]).and_then(|_| manifest.sync(cx)).expect("written");
        known.manifest.set((known.manifest.get().0, round));
        disk.rename(cx, "manifest.new", "manifest").expect("rename");
        disk.sync_names(cx).expect("sync");
        known.manifest.set((round, round));
    }
}

/// The next process: what it may find.
fn check_log(cx: &Cx<Sim>, known: &Known, process_only: bool) {
    let disk = Disk::simulated(cx, HOST).expect("its holder is dead");
    let Ok(log) = disk.open(cx, "log") else {
        assert!(!known.named.get(), "a synced name is gone");
        return;
    };
    let bytes = all(cx, &log);
    let sure = if process_only { known.appended.get() } else { known.synced.get() };
    assert!(bytes.len() >= sure * RECORD, "{} bytes of {sure} records", bytes.len());
    let expected = |at: usize| (at / RECORD) as u8 + 1;
    let (synced, unsynced) = bytes.split_at(sure * RECORD);
    assert!(synced.iter().enumerate().all(|(at, &byte)| byte == expected(at)), "a synced byte changed");
    let rest = unsynced.iter().enumerate();
    for (at, &byte) in rest {
        assert!(byte == 0 || byte == expected(sure * RECORD + at), "a byte that nobody wrote");
    }
    let (sure, perhaps) = known.manifest.get();
    let found = match disk.open(cx, "manifest") {
        Ok(manifest) => {
            let bytes = all(cx, &manifest);
            assert!(bytes.len() == 9 && bytes.iter().all(|&byte| byte == bytes[0]), "a torn manifest");
            bytes[0]
        }
        Err(error) => {
            assert_eq!(error.kind, DiskErrorKind::Missing);
            0
        }
    };
    assert!((sure..=perhaps).contains(&found), "manifest {found}, not {sure} to {perhaps}");
}

fn log_run(seed: u64, at: u64, domain: CrashDomain, left_out: Option<Site>) -> Report {
    let kills = vec![Kill { host: HOST, at: KillAt::HostStep(at), domain }];
    let config = SimConfig { kills, disabled_site: left_out, ..SimConfig::adversarial(1, 4096, seed) };
    let mut sim = Simulation::new(config);
    let writer = Rc::new(Known::default());
    let checker = Rc::clone(&writer);
    sim.spawn(HOST, ME, move |cx| write_log(cx, &writer));
    sim.spawn_after_crash(HOST, WorkerId(1), move |cx| {
        check_log(cx, &checker, domain == CrashDomain::Process);
    });
    sim.run()
}

#[test]
fn a_crash_at_any_call_leaves_what_was_synced() {
    for domain in DOMAINS {
        for seed in 0..60 {
            let mut at = 1;
            loop {
                let report = log_run(seed, at, domain, None);
                let crashed = !report.hosts[0].killed.is_empty();
                report.expect_completed();
                if !crashed {
                    break;
                }
                at += 1;
            }
            assert!(at > 30, "the run has only {at} crash points");
        }
    }
}

#[test]
fn a_sync_that_is_left_out_is_noticed() {
    let report = log_run(1, u64::MAX, CrashDomain::Host, None);
    let syncs: Vec<_> = report.sites.iter().filter(|(site, _)| site.verb == Verb::DiskSync).collect();
    assert_eq!(syncs.len(), 4, "{syncs:?}");
    for (site, _) in syncs {
        let run = |seed, at| log_run(seed, at, CrashDomain::Host, Some(site.clone())).outcome;
        let fails = |seed| (1..60).any(|at| matches!(run(seed, at), Outcome::Panicked { .. }));
        assert!((0..20).any(fails), "nobody misses the {site}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let trace = |seed| log_run(seed, 20, CrashDomain::Host, None).trace_hash;
    assert_eq!(trace(5), trace(5));
    assert_ne!(trace(5), trace(6));
    // The same in every build.
    assert_eq!(trace(5), 0xf5d9_9618_1477_3737);
}

/// A process that ends by itself, without power afterwards; then the next one, on the same disks.
fn two_processes<R: 'static>(
    seed: u64,
    first: impl FnOnce(&Cx<Sim>, &Disk) + 'static,
    second: impl FnOnce(&Cx<Sim>, &Disk) -> R + 'static,
) -> R {
    let mut sim = Simulation::new(SimConfig::adversarial(1, 4096, seed));
    sim.spawn(HOST, ME, move |cx| first(cx, &Disk::simulated(cx, HOST).expect("free")));
    sim.run().expect_completed();
    let disks = sim.disks();
    drop(sim);
    disks.lose_power();
    let mut sim = Simulation::with_disks(SimConfig::adversarial(1, 4096, seed), disks);
    sim.alone(HOST, ME, |cx| second(cx, &Disk::simulated(cx, HOST).expect("free")))
}

#[test]
fn an_unsynced_sector_is_new_old_or_mixed_by_itself() {
    let mut seen = BTreeSet::new();
    let mut lengths = BTreeSet::new();
    for seed in 0..200 {
        let bytes = two_processes(
            seed,
            |cx, disk| {
                let file = disk.create(cx, "a").expect("new");
                file.append(cx, &[1; 3 * SECTOR]).and_then(|_| file.sync(cx)).expect("written");
                disk.sync_names(cx).expect("sync");
                file.write_at(cx, SECTOR as u64, &[2; 2 * SECTOR]).expect("written");
                file.append(cx, &[2; 10]).expect("written");
            },
            |cx, disk| all(cx, &disk.open(cx, "a").expect("its name was synced")),
        );
        assert!(bytes[..SECTOR].iter().all(|&byte| byte == 1), "nobody changed the first sector");
        let sector = |number: usize| {
            let bytes = &bytes[number * SECTOR..(number + 1) * SECTOR];
            let news = bytes.iter().filter(|&&byte| byte == 2).count();
            assert!(bytes.iter().all(|byte| [1, 2].contains(byte)));
            if news == 0 {
                "old"
            } else if news == SECTOR {
                "new"
            } else {
                "mixed"
            }
        };
        seen.insert((sector(1), sector(2)));
        lengths.insert(bytes.len());
    }
    let kinds = ["old", "new", "mixed"];
    for (a, b) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (0, 2), (2, 1), (1, 2)] {
        assert!(seen.contains(&(kinds[a], kinds[b])), "never {} and {}: {seen:?}", kinds[a], kinds[b]);
    }
    assert!(lengths.contains(&(3 * SECTOR)) && lengths.contains(&(3 * SECTOR + 10)), "{lengths:?}");
}

#[test]
fn unsynced_names_may_be_undone_but_a_name_keeps_its_order() {
    let mut seen = BTreeSet::new();
    for seed in 0..300 {
        let names = two_processes(
            seed,
            |cx, disk| {
                disk.create(cx, "kept").expect("new");
                disk.create(cx, "gone").expect("new");
                disk.sync_names(cx).expect("sync");
                disk.create(cx, "a.new").expect("new");
                disk.rename(cx, "a.new", "a").expect("rename");
                disk.create(cx, "b").expect("new");
                disk.remove(cx, "gone").expect("remove");
            },
            |cx, disk| disk.list(cx).expect("names"),
        );
        assert!(names.contains(&"kept".to_owned()));
        let has = |name: &str| names.iter().any(|n| n == name);
        assert!(!(has("a") && has("a.new")), "half a rename");
        seen.insert((has("a"), has("a.new"), has("b"), has("gone")));
    }
    for a in [(false, false), (false, true), (true, false)] {
        for b in [false, true] {
            for gone in [false, true] {
                assert!(seen.contains(&(a.0, a.1, b, gone)), "never {a:?} {b} {gone}");
            }
        }
    }
}

#[test]
fn a_sync_covers_what_was_written_before_it_began() {
    let mut lost = false;
    for seed in 0..200 {
        let kill = Kill { host: HOST, at: KillAt::RandomStep(80), domain: CrashDomain::Host };
        let config = SimConfig { kills: vec![kill], ..SimConfig::adversarial(1, 4096, seed) };
        let mut sim = Simulation::new(config);
        let shared: Rc<RefCell<Option<Rc<DiskFile>>>> = Rc::default();
        let (written, synced) = (Rc::new(Cell::new(0_usize)), Rc::new(Cell::new(0_usize)));
        let (file, count) = (Rc::clone(&shared), Rc::clone(&written));
        sim.spawn(HOST, ME, move |cx| {
            let disk = Disk::simulated(cx, HOST).expect("free");
            let log = Rc::new(disk.create(cx, "log").expect("new"));
            disk.sync_names(cx).expect("sync");
            file.replace(Some(Rc::clone(&log)));
            for round in 1..20 {
                log.append(cx, &[round as u8; RECORD]).expect("append");
                count.set(round);
            }
        });
        let (file, count, done) = (shared, Rc::clone(&written), Rc::clone(&synced));
        sim.spawn(HOST, WorkerId(1), move |cx| {
            while count.get() < 19 {
                let before = count.get();
                let log = file.borrow().clone();
                match log {
                    Some(log) => log.sync(cx).expect("sync"),
                    None => cx.pause(),
                }
                done.set(before);
            }
        });
        let found = Rc::new(Cell::new(usize::MAX));
        let (done, see) = (Rc::clone(&synced), Rc::clone(&found));
        sim.spawn_after_crash(HOST, WorkerId(2), move |cx| {
            let disk = Disk::simulated(cx, HOST).expect("its holder is dead");
            let Ok(log) = disk.open(cx, "log") else { return };
            let bytes = all(cx, &log);
            let good = bytes.iter().enumerate().take_while(|(at, byte)| **byte == (at / RECORD) as u8 + 1);
            see.set(good.count());
            assert!(see.get() >= done.get() * RECORD, "{} of {} records", see.get(), done.get());
        });
        sim.run().expect_completed();
        lost |= found.get() < written.get() * RECORD;
    }
    assert!(lost, "no crash ever cost an unsynced record");
}

#[test]
fn a_failed_sync_ends_the_life_of_a_file() {
    let mut lost = 0;
    for seed in 0..100 {
        let mut sim = Simulation::new(SimConfig::adversarial(1, 4096, seed));
        let disks = sim.disks();
        disks.plan(HOST, DiskFault::FailSync { after: 1 });
        sim.alone(HOST, ME, |cx| {
            let disk = Disk::simulated(cx, HOST).expect("free");
            let file = disk.create(cx, "a").expect("new");
            disk.sync_names(cx).expect("the first sync works");
            file.append(cx, &[1; 4 * SECTOR]).expect("written");
            let again = disk.open(cx, "a").expect("there");
            assert_eq!(file.sync(cx).unwrap_err().kind, DiskErrorKind::Failed);
            for file in [&file, &again] {
                assert!(file.is_distrusted());
                assert_eq!(file.sync(cx).unwrap_err().kind, DiskErrorKind::Distrusted);
                assert_eq!(file.append(cx, b"x").unwrap_err().kind, DiskErrorKind::Distrusted);
                assert_eq!(file.read_at(cx, 0, &mut [0]).unwrap_err().kind, DiskErrorKind::Distrusted);
                assert_eq!(file.len(cx), Ok(4 * SECTOR as u64));
            }
            disk.create(cx, "b").and_then(|file| file.sync(cx)).expect("other files are not concerned");
        });
        // What the rule is for: the next process sees the bytes, and its sync says that all is well.
        sim.alone(HOST, ME, |cx| {
            let file = Disk::simulated(cx, HOST).and_then(|disk| disk.open(cx, "a")).expect("there");
            assert_eq!(all(cx, &file), [1; 4 * SECTOR]);
            file.sync(cx).expect("it says so");
        });
        disks.lose_power();
        lost += u32::from(disks.files(HOST)[0].1 != [1; 4 * SECTOR]);
    }
    assert!(lost > 50, "only {lost} of 100 failed syncs lost anything");
}

#[test]
fn after_a_failed_sync_of_names_none_is_changed() {
    let mut sim = Simulation::new(SimConfig::adversarial(1, 4096, 1));
    sim.disks().plan(HOST, DiskFault::FailSync { after: 0 });
    sim.alone(HOST, ME, |cx| {
        let disk = Disk::simulated(cx, HOST).expect("free");
        let file = disk.create(cx, "a").expect("new");
        assert_eq!(disk.sync_names(cx).unwrap_err().kind, DiskErrorKind::Failed);
        assert_eq!(disk.sync_names(cx).unwrap_err().kind, DiskErrorKind::Distrusted);
        assert_eq!(disk.create(cx, "b").err().expect("no").kind, DiskErrorKind::Distrusted);
        assert_eq!(disk.rename(cx, "a", "b").unwrap_err().kind, DiskErrorKind::Distrusted);
        assert_eq!(disk.remove(cx, "a").unwrap_err().kind, DiskErrorKind::Distrusted);
        file.append(cx, b"x").and_then(|_| file.sync(cx)).expect("bytes are another matter");
    });
}

#[test]
fn a_full_disk_takes_no_part_of_an_append() {
    for seed in 0..20 {
        let mut sim = Simulation::new(SimConfig::adversarial(1, 4096, seed));
        let disks = sim.disks();
        disks.plan(HOST, DiskFault::FullAfter { bytes: 1000 });
        sim.spawn(HOST, ME, move |cx| {
            let disk = Disk::simulated(cx, HOST).expect("free");
            let file = disk.create(cx, "a").expect("new");
            file.append(cx, &[1; 600]).expect("room");
            assert_eq!(file.append(cx, &[2; 600]).unwrap_err().kind, DiskErrorKind::Full);
            assert_eq!(file.preallocate(cx, 1001).unwrap_err().kind, DiskErrorKind::Full);
            assert_eq!(all(cx, &file), [1; 600]);
            assert_eq!(file.write_at(cx, 500, &[3; 600]).unwrap_err().kind, DiskErrorKind::Full);
            assert_eq!(file.len(cx), Ok(1000));
            file.truncate(cx, 100).and_then(|()| file.append(cx, &[2; 900])).expect("room again");
            disks.heal(HOST);
            assert_eq!(file.append(cx, &[2; 600]), Ok(1000));
        });
        sim.run().expect_completed();
    }
}

#[test]
fn a_broken_device_fails_every_call() {
    let mut sim = Simulation::new(SimConfig::adversarial(1, 4096, 1));
    sim.disks().plan(HOST, DiskFault::FailAfter { calls: 3 });
    sim.alone(HOST, ME, |cx| {
        let disk = Disk::simulated(cx, HOST).expect("free");
        let file = disk.create(cx, "a").expect("new");
        file.append(cx, b"x").expect("the third call");
        assert_eq!(file.append(cx, b"x").unwrap_err().kind, DiskErrorKind::Failed);
        assert_eq!(file.read_at(cx, 0, &mut [0]).unwrap_err().kind, DiskErrorKind::Failed);
        assert_eq!(file.sync(cx).unwrap_err().kind, DiskErrorKind::Failed);
        assert_eq!(disk.list(cx).unwrap_err().kind, DiskErrorKind::Failed);
    });
}

#[test]
fn damage_at_rest_is_where_it_was_put() {
    let mut sim = Simulation::new(SimConfig::adversarial(1, 4096, 1));
    let disks = sim.disks();
    sim.alone(HOST, ME, |cx| {
        let disk = Disk::simulated(cx, HOST).expect("free");
        disk.create(cx, "a").and_then(|file| file.append(cx, &[1; 2 * SECTOR])).expect("written");
    });
    disks.damage(HOST, "a", Damage::FlipBits { offset: 3, mask: 6 }).expect("there");
    disks.damage(HOST, "a", Damage::TearSector { sector: 1 }).expect("there");
    let mut expected = vec![1; 2 * SECTOR];
    expected[3] = 7;
    expected[SECTOR + SECTOR / 2..].fill(0);
    assert_eq!(disks.files(HOST), [("a".to_owned(), expected)]);
    let far = Damage::FlipBits { offset: 2 * SECTOR as u64, mask: 1 };
    assert_eq!(disks.damage(HOST, "a", far), Err(DiskErrorKind::PastEnd));
    assert_eq!(disks.damage(HOST, "b", far), Err(DiskErrorKind::Missing));
}

#[test]
fn a_disk_that_moves_to_another_host_brings_what_was_synced() {
    let mut sim = Simulation::new(SimConfig::adversarial(2, 4096, 3));
    sim.alone(HOST, ME, |cx| {
        let disk = Disk::simulated(cx, HOST).expect("free");
        let file = disk.create(cx, "a").expect("new");
        file.append(cx, b"synced").and_then(|_| file.sync(cx)).expect("written");
        disk.sync_names(cx).expect("sync");
        file.append(cx, b" or not").expect("written");
    });
    let bytes = sim.alone(HostId(1), ME, |cx| {
        let disk = Disk::simulated(cx, HOST).expect("free");
        all(cx, &disk.open(cx, "a").expect("there"))
    });
    assert!(bytes.starts_with(b"synced"), "{bytes:?}");
}

#[test]
fn timed_calls_cost_time_and_slow_syncs_more() {
    let sync_ns = |times| {
        let profile = Arc::new(Profile::built_in("dram").expect("built in"));
        let mut sim = Simulation::new(SimConfig::timed(1, 4096, 1, profile));
        sim.disks().plan(HOST, DiskFault::SlowSyncs { times });
        sim.alone(HOST, ME, |cx| {
            let disk = Disk::simulated(cx, HOST).expect("free");
            let file = disk.create(cx, "a").expect("new");
            let before = cx.now_ns();
            file.append(cx, &[1; 4096]).expect("written");
            let written = cx.now_ns();
            file.sync(cx).expect("sync");
            assert!((1000..10_000).contains(&(written - before)), "{} ns", written - before);
            cx.now_ns() - written
        })
    };
    let (once, slow) = (sync_ns(1), sync_ns(100));
    assert!((20_000..100_000).contains(&once), "{once} ns");
    assert!(slow > 50 * once, "{slow} ns");
}
