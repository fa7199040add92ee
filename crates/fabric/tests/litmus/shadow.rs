//! The same programs as threads over real memory, each host behind a software cache of its own.

use super::*;
use liger_fabric::SyncMode;
use liger_fabric::native::{HostMemory, Mapping, NativeHost, run_workers};
use liger_fabric::shadow::{Shadow, ShadowConfig, ShadowHost};

/// Hosts 0 and 1 of a new pod.
fn pair(config: &ShadowConfig) -> [ShadowHost; 2] {
    let mapping = Mapping::anonymous(LEN).expect("memory");
    [0, 1].map(|host| {
        let below = NativeHost::new(mapping.clone(), SyncMode::Hwcc, HostId(host));
        ShadowHost::over(below, config.clone())
    })
}

/// Runs one program on each host at once; true if neither failed.
fn right(
    hosts: &[ShadowHost; 2],
    first: impl Fn(&Cx<Shadow>) + Sync,
    second: impl Fn(&Cx<Shadow>) + Sync,
) -> bool {
    let ended = run_workers(hosts, 1, 1, |cx| if cx.host() == HostId(0) { first(cx) } else { second(cx) });
    ended.iter().all(Result::is_ok)
}

/// Message passing to a host that has read the place before, as most that wait for a message have.
fn message_arrives(seed: u64, omit: Omit, len: usize) -> bool {
    let hosts = pair(&ShadowConfig::new(seed));
    let first = |cx: &Cx<Shadow>| {
        wait_for(cx, OTHER, 1);
        writer(cx, omit, len);
    };
    let second = |cx: &Cx<Shadow>| {
        cx.read(DATA, &mut vec![0; len]);
        cx.store(OTHER, 1);
        reader(cx, omit, len);
    };
    right(&hosts, first, second)
}

#[test]
fn message_passing_needs_all_four_steps() {
    for omit in [Omit::Nothing, Omit::WriteBack, Omit::WriterFence, Omit::Invalidate, Omit::ReaderFence] {
        let wrong =
            (0..60).filter(|seed| !message_arrives(*seed, omit, [8, 64, 1000][*seed as usize % 3])).count();
        assert_eq!(wrong > 0, omit != Omit::Nothing, "{wrong} of 60 runs went wrong");
    }
}

/// Only a prefetch shows this one: the reader never touched the message before, but it did its neighbour.
#[test]
fn not_having_touched_a_line_proves_nothing() {
    let wrong = |prefetches_per_1024| {
        let went_wrong = |seed: &u64| {
            let hosts = pair(&ShadowConfig { prefetches_per_1024, ..ShadowConfig::new(*seed) });
            let first = |cx: &Cx<Shadow>| {
                wait_for(cx, OTHER, 1);
                writer(cx, Omit::Nothing, 8);
            };
            let second = |cx: &Cx<Shadow>| {
                (0..16).for_each(|_| cx.read(DATA.byte(64), &mut [0; 8]));
                cx.store(OTHER, 1);
                reader(cx, Omit::Invalidate, 8);
            };
            !right(&hosts, first, second)
        };
        (0..40).filter(went_wrong).count()
    };
    assert_eq!(wrong(0), 0);
    assert!(wrong(512) > 0);
}

#[test]
fn a_stale_read_is_counted_and_its_place_told() {
    let [one, other] = pair(&ShadowConfig { drops_per_1024: 0, ..ShadowConfig::new(1) });
    let (writes, reads) = (one.cx(WorkerId(0), 1), other.cx(WorkerId(0), 1));
    reads.read(DATA, &mut [0; 8]);
    writes.publish(DATA, &[3; 8]);
    assert_eq!(other.complaint(), None);
    reads.read(DATA, &mut [0; 8]);
    let line = line!() - 1;
    reads.read(DATA, &mut [0; 8]);
    assert_eq!((one.stale_reads(), other.stale_reads()), (0, 2));
    let complaint = other.complaint().expect("two stale reads");
    assert!(
        complaint.contains(&format!("2 reads were given stale bytes, the first one of {DATA:?}")),
        "{complaint}"
    );
    assert!(complaint.contains(&format!("shadow.rs:{line}:")), "{complaint}");
}

/// Two workers of one host see each other's data without any instruction.
#[test]
fn a_host_is_coherent_with_itself() {
    let [host, _] = pair(&ShadowConfig::new(5));
    let ended = run_workers(&[host], 2, 1, |cx| {
        for round in 0..300 {
            let me = u64::from(cx.worker().0);
            wait_for(cx, FLAG, 2 * round + me);
            let mut seen = [0; 200];
            if me == 0 {
                cx.write(DATA, &[round as u8; 200]);
            } else {
                cx.read(DATA, &mut seen);
                assert_eq!(seen, [round as u8; 200]);
            }
            cx.store(FLAG, 2 * round + me + 1);
        }
    });
    assert!(ended.iter().all(Result::is_ok));
}

/// A partial write over a stale copy takes the rest of the line back in time.
#[test]
fn a_partial_write_needs_a_fresh_base() {
    for refresh in [true, false] {
        let [one, other] = pair(&ShadowConfig { drops_per_1024: 0, ..ShadowConfig::new(1) });
        let (one, other) = (one.cx(WorkerId(0), 1), other.cx(WorkerId(0), 1));
        other.read(DATA, &mut [0; 64]);
        one.publish(DATA, &[1; 64]);
        if refresh {
            other.invalidate(DATA, 64);
            other.fence();
        }
        other.publish(DATA, &[2; 8]);
        let mut all = [0; 64];
        one.refresh(DATA, &mut all);
        assert_eq!(all[8..] == [1; 56], refresh);
    }
}

/// A host that dies loses what it had not published, unless the platform writes its caches back.
#[test]
fn a_dead_host_loses_its_dirty_lines() {
    for persistent in [false, true] {
        let [dies, lives] =
            pair(&ShadowConfig { write_backs_per_1024: 0, drops_per_1024: 0, ..ShadowConfig::new(1) });
        let cx = dies.cx(WorkerId(0), 1);
        cx.publish(DATA, &[1; 8]);
        cx.write(DATA, &[2; 8]);
        if persistent {
            dies.write_back_all();
        }
        drop((cx, dies));
        let mut left = [0; 8];
        lives.cx(WorkerId(0), 1).refresh(DATA, &mut left);
        assert_eq!(left, [1 + u8::from(persistent); 8]);
    }
}

/// A cache far smaller than the program's data pushes lines out all the time, and loses none.
#[test]
fn a_small_cache_keeps_every_byte() {
    let [host, _] = pair(&ShadowConfig { lines: 8, ..ShadowConfig::new(3) });
    let cx = host.cx(WorkerId(0), 1);
    let mut model = [0; LEN];
    for _ in 0..5000 {
        let (at, len) = (cx.random_below(LEN as u64 - 100) as usize, cx.random_below(100) as usize);
        let mut seen = vec![0; len];
        cx.read(DataAddr::new(at as u64), &mut seen);
        assert_eq!(seen, model[at..at + len]);
        model[at..at + len].fill(cx.random() as u8);
        cx.write(DataAddr::new(at as u64), &model[at..at + len]);
    }
    let tally = host.tally();
    let is_busy = |name: &str| !["shadow_stale_reads", "shadow_omissions"].contains(&name);
    assert!(tally.iter().all(|(name, n)| (*n > 100) == is_busy(name)), "{tally:?}");
}

#[test]
fn an_access_beyond_the_memory_is_stopped() {
    let beyond = |access: &(dyn Fn(&Cx<Shadow>) + Sync)| !right(&pair(&ShadowConfig::new(1)), access, |_| ());
    assert!(beyond(&|cx| cx.write(DataAddr::new(LEN as u64 - 6), &[0; 7])));
    assert!(beyond(&|cx| cx.read(DataAddr::new(u64::MAX - 3), &mut [0; 8])));
    assert!(beyond(&|cx| cx.invalidate(DataAddr::new(0), usize::MAX)));
    assert!(!beyond(&|cx| cx.publish(DataAddr::new(LEN as u64 - 6), &[0; 6])));
}

/// Leaving an instruction or a step out by its name does what not writing it does.
#[test]
fn named_things_are_left_out() {
    let run = |omission: Option<&str>| {
        let omission = omission.map(|text| text.parse().expect("a name"));
        let [one, other] = pair(&ShadowConfig { drops_per_1024: 0, omission, ..ShadowConfig::new(1) });
        let (writes, reads) = (one.cx(WorkerId(0), 1), other.cx(WorkerId(0), 1));
        reads.read(DATA, &mut [0; 8]);
        if !writes.sabotaged("litmus.publish") {
            writes.publish(DATA, &[3; 8]);
        }
        let mut seen = [0; 8];
        reads.refresh(DATA, &mut seen);
        let line = line!() - 1;
        (seen[0], line)
    };
    let (seen, line) = run(None);
    assert_eq!(seen, 3);
    assert_eq!(run(Some(&format!("invalidate at {}:{line}", file!()))).0, 0);
    assert_eq!(run(Some("litmus.publish")).0, 0);
    assert_eq!(run(Some("litmus.other")).0, 3);
}
