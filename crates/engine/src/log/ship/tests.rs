//! What a new life makes of the segments that it finds.

use liger_fabric::native::{Mapping, Native};

use super::*;

#[test]
fn newest_segments_without_heads_go_and_others_stay() {
    let memory = Mapping::anonymous(4096).expect("memory");
    let cx = Cx::new(Native::new(memory), HostId(0), liger_fabric::WorkerId(0), 0);
    let path = std::env::temp_dir().join(format!("liger-headless-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a temporary folder");
    let disk = Disk::native(&path.join("host-0")).expect("a folder");
    let (host, incarnation, generation) = (HostId(0), 1, 1);
    let head = |number, previous_end| {
        SegmentHead { pod: 7, host, incarnation, number, generation, previous_end, mark: 0 }.encode().to_vec()
    };
    let put = |number: u32, bytes: &[u8]| {
        disk.create(&cx, &segment_name(number)).and_then(|file| file.append(&cx, bytes)).expect("a new file");
    };
    let left = |numbers: &[u32]| {
        let mut numbers = numbers.to_vec();
        remove_headless(&cx, &disk, &mut numbers).expect("a disk that works");
        let mut names = disk.list(&cx).expect("a folder");
        names.sort();
        assert_eq!(names, numbers.iter().map(|n| segment_name(*n)).collect::<Vec<_>>());
        numbers
    };
    assert!(left(&[]).is_empty());
    // A torn end; then two lives that died early, with nothing and with a part of a head.
    let torn = [head(1, 0), vec![0xee; 100]].concat();
    put(1, &torn);
    put(2, &[]);
    put(3, &head(3, 0)[..40]);
    assert_eq!(left(&[1, 2, 3]), [1]);
    assert_eq!(secure_end(&cx, &disk, (7, host), 1).expect("no damage"), (SEGMENT_HEAD_BYTES as u64, 0));
    // A whole head is one, with nothing behind it, too; a damaged one with something behind it is not ours to
    // remove.
    put(2, &head(2, SEGMENT_HEAD_BYTES as u64));
    assert_eq!(left(&[1, 2]), [1, 2]);
    put(3, &[0xee; SEGMENT_HEAD_BYTES + 1]);
    assert_eq!(left(&[1, 2, 3]), [1, 2, 3]);
    std::fs::remove_dir_all(&path).expect("it was made above");
}
