//! What a host writes whom the pod has ruled out, and who has not noticed.

use liger_pod::plan::PodConfig;
use liger_pod::testing::TestPod;

use super::*;
use crate::log::HostLog;
use crate::log::scan::{End, Scanner};

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
    assert_eq!(ruled_out.clock().begin_commit(&cx, WorkerId(0), 0), 2);
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
