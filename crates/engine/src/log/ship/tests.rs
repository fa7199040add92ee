//! What a host writes whom the pod has ruled out, and who has not noticed; and segments with fragments.

use liger_pod::plan::{PartitionId, PodConfig};
use liger_pod::testing::TestPod;

use super::*;
use crate::log::HostLog;
use crate::log::record::{Op, RecordWriter, first_of};
use crate::log::scan::{End, Scanner};
use crate::tables::key::Key;
use crate::txn::TableId;

#[test]
fn a_host_that_was_ruled_out_knows_nothing_to_be_durable_that_it_has_not() {
    let path = std::env::temp_dir().join(format!("liger-ruled-out-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a temporary folder");
    let pod = TestPod::new(&PodConfig::small(2, 1));
    let options = LogOptions { pod: 7, ..LogOptions::default() };
    let log_of = |host: u8| {
        let disk = Disk::native(&path.join(host.to_string())).expect("a folder");
        HostLog::new(&pod.cx(host, 0), &pod.plan, 1, &disk, options).expect("a good disk")
    };
    let (ruled_out, other) = (log_of(0), log_of(1));
    let (cx, others_cx) = (pod.cx(0, 0), pod.cx(1, 0));
    assert!(other.clock().tick(&others_cx, 1));
    // Its worker stands still in a commit, and the others do not wait for it.
    assert_eq!(ruled_out.clock().begin_commit(&cx, WorkerId(0), 0).llsn, first_of(2));
    let members = 0b10;
    for epoch in 2..5 {
        assert!(other.clock().tick(&others_cx, epoch));
        other.step(&others_cx, members).expect("a good disk");
    }
    assert_eq!(other.pod_durable(&others_cx, members), 4);
    ruled_out.step(&cx, members).expect("a good disk");
    let mut scanner = Scanner::new(options.pod, HostId(0));
    let bytes = std::fs::read(path.join("0").join(segment_name(1))).expect("its first segment");
    scanner.segment(1, &bytes, |_, _| ());
    let scan = scanner.finish();
    assert!(matches!(scan.end, End::Clean { .. }), "{:?}", scan.end);
    assert_eq!((scan.marks.last, scan.marks.pod), (1, 1));
    std::fs::remove_dir_all(&path).expect("the folder is there");
}

/// A log whose one worker writes a transaction of so many records, and how it ends.
fn long_transaction(name: &str, commits: bool) -> (HostLog, TestPod, Vec<u32>) {
    let path = std::env::temp_dir().join(format!("liger-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a temporary folder");
    let pod = TestPod::new(&PodConfig { log_ring_bytes: 1 << 10, ..PodConfig::small(1, 1) });
    let options = LogOptions { pod: 7, segment_bytes: 2 << 10, ..LogOptions::default() };
    let cx = pod.cx(0, 0);
    let disk = Disk::native(&path).expect("a folder");
    let log = HostLog::new(&cx, &pod.plan, 1, &disk, options).expect("a good disk");
    let mut worker = log.worker(&cx, WorkerId(0));
    let (mut writer, mut needed) = (RecordWriter::default(), Vec::new());
    writer.begin();
    for number in 0..200u64 {
        writer.change((TableId(0), PartitionId(0)), Op::Update, &Key::from_words(&[number]), 1);
        writer.piece(0, &[7; 40]);
        let serve = |cx: &Cx<_>| {
            // Epochs pass, and nobody holds them up.
            log.clock().tick(cx, log.clock().now(cx));
            log.step(cx, 1).expect("a good disk");
        };
        let split = worker.make_fit(&cx, &log, &mut writer, false, serve).expect("room");
        needed.extend(split.then(|| log.first_needed(u64::MAX >> 24).expect("nobody is at work")));
    }
    if !commits {
        worker.give_up(&cx, &log);
        std::fs::remove_dir_all(&path).expect("the folder is there");
        return (log, pod, needed);
    }
    let promise = worker.promise(&cx, &log, &writer, false, |_| ()).expect("room");
    let llsn = log.clock().begin_commit(&cx, WorkerId(0), 0).llsn;
    let serve = |cx: &Cx<_>| _ = log.step(cx, 1).expect("a good disk");
    worker.append(&cx, &log, &mut writer, promise, llsn + 1, serve).expect("room");
    log.clock().end_commit(&cx, WorkerId(0));
    log.drain(&cx, || 1).expect("a good disk");
    std::fs::remove_dir_all(&path).expect("the folder is there");
    (log, pod, needed)
}

#[test]
fn fragments_are_kept_until_their_transaction_is_not_needed() {
    let (log, pod, needed) = long_transaction("fragments-kept", true);
    let cx = pod.cx(0, 0);
    let first = needed[needed.len() / 2];
    assert!(
        needed[needed.len() / 2..].iter().all(|needed| *needed == first),
        "{needed:?}: it may still commit"
    );
    let committed = log.clock().now(&cx) - 1;
    let last = log.first_needed(committed + 1).expect("nobody is at work");
    assert!(last > first + 2, "segments {first} to {last}");
    assert_eq!(log.first_needed(committed), Some(first), "as long as the last record is");
}

#[test]
fn fragments_of_a_transaction_that_fails_are_not_kept() {
    let (log, _pod, needed) = long_transaction("fragments-given-up", false);
    let last = log.first_needed(u64::MAX >> 24).expect("nobody is at work");
    assert!(last > needed[needed.len() - 1] + 2, "{needed:?}, then {last}");
}
