//! Held files on this machine's disk: what is cut, what stays, and what is looked at again.

use std::path::PathBuf;

use liger_fabric::disk::Disk;
use liger_fabric::native::{Mapping, Native};
use liger_fabric::{Cx, HostId, WorkerId};

use super::*;
use crate::log::segment::{Frame, LogPosition};
use crate::recovery::directory::{create_anew, replace};
use crate::recovery::{Identity, Plan, create};

const IDENTITY: Identity = Identity { pod: 7, configuration: 8, layouts: 9, older_layouts: 10, hosts: 2 };

/// The folders of a pod of two hosts, which go with this.
struct Pod {
    cx: Cx<Native>,
    path: PathBuf,
    directories: Vec<Directory>,
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

impl Pod {
    fn new(name: &str) -> Self {
        let memory = Mapping::anonymous(4096).expect("memory");
        let cx = Cx::new(Native::new(memory), HostId(0), WorkerId(0), 0);
        let path = std::env::temp_dir().join(format!("liger-held-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        let directory = |host: u8| {
            let disk = Disk::native(&path.join(format!("host-{host}"))).expect("a folder");
            Directory::new(HostId(host), disk)
        };
        let directories: Vec<Directory> = (0..2).map(directory).collect();
        create(&cx, &directories, &IDENTITY).expect("a new pod");
        Self { cx, path, directories }
    }

    /// Writes a segment of a host with these frames; `previous` is the length of the one before and the last
    /// mark in it. Returns the same of this one.
    fn segment(&self, host: u8, number: u32, previous: (u64, u64), kinds: &[FrameKind]) -> (u64, u64) {
        let (previous_end, mut mark) = previous;
        let (pod, host, generation) = (IDENTITY.pod, HostId(host), 1);
        let head = SegmentHead { pod, host, incarnation: 1, number, generation, previous_end, mark };
        let mut bytes = head.encode().to_vec();
        for &kind in kinds {
            Frame { kind, synced: LogPosition::default(), payload: &[] }.encode(head.frames(), &mut bytes);
            if let FrameKind::Mark { epoch, .. } = kind {
                mark = epoch;
            }
        }
        self.put(host.0, &segment_name(number), &bytes);
        (bytes.len() as u64, mark)
    }

    fn put(&self, host: u8, name: &str, bytes: &[u8]) {
        let directory = &self.directories[usize::from(host)];
        let file = create_anew(&self.cx, directory, name).expect("a new file");
        directory.append(&self.cx, &file, bytes).expect("it can be written");
    }

    fn hold(&self, durable: Option<u64>) -> Held {
        let held = Held::take(&self.cx, &self.directories, |_| Ok::<_, RecoveryError>(durable));
        held.expect("whole files").expect("nobody takes checkpoints")
    }

    /// What a recovery makes of a copy.
    fn plan_of(&self, held: &Held, name: &str) -> Result<Plan, RecoveryError> {
        let copy = Self::new(name);
        for file in &held.logs {
            copy.put(file.host.0, &file.name, &self.read(file));
        }
        Plan::make(&copy.cx, &copy.directories, &IDENTITY)
    }

    fn read(&self, file: &HeldFile) -> Vec<u8> {
        let mut bytes = vec![0; file.bytes as usize + 1];
        let there = file.read(&self.cx, 0, &mut bytes).expect("it is there");
        bytes.truncate(there);
        bytes
    }
}

fn mark(epoch: u64, pod_durable: u64) -> FrameKind {
    FrameKind::Mark { epoch, pod_durable }
}

fn named<'h>(held: &'h Held, host: u8, name: &str) -> Option<&'h HeldFile> {
    held.logs.iter().find(|file| file.host.0 == host && file.name == name)
}

#[test]
fn logs_that_were_looked_at_one_after_the_other_are_cut_to_one_epoch() {
    let pod = Pod::new("cut");
    pod.segment(0, 1, (0, 0), &[mark(3, 0), mark(5, 3)]);
    // This one was looked at later: it knows what the first one has marked since.
    let end = pod.segment(1, 1, (0, 0), &[mark(4, 0), mark(6, 4), mark(8, 6)]);
    pod.segment(1, 2, end, &[mark(9, 8)]);
    let whole = pod.plan_of(&pod.hold(None), "cut-whole").unwrap_err().to_string();
    assert!(whole.starts_with("host 0, log-0000000001") && whole.contains("epoch 8 was known"), "{whole}");
    let held = pod.hold(Some(5));
    let plan = pod.plan_of(&held, "cut-copy").expect("a pod");
    assert_eq!(plan.durable_epoch, 5);
    let marks: Vec<u64> = plan.hosts.iter().map(|files| files.read().marks.last).collect();
    assert_eq!(marks, [5, 6], "each ends with its first mark of epoch 5 or later");
    assert!(named(&held, 1, &segment_name(2)).is_none());
    // In the second segment.
    let held = pod.hold(Some(9));
    assert_eq!(named(&held, 1, &segment_name(2)).expect("it has mark 9").bytes, named_len(&pod, 1, 2));
}

fn named_len(pod: &Pod, host: u8, number: u32) -> u64 {
    let path = pod.path.join(format!("host-{host}")).join(segment_name(number));
    std::fs::metadata(path).expect("it is there").len()
}

#[test]
fn the_log_of_a_host_that_is_gone_is_kept_to_its_end() {
    let pod = Pod::new("closed");
    pod.segment(0, 1, (0, 0), &[mark(3, 0), mark(7, 3), mark(8, 7)]);
    pod.segment(1, 1, (0, 0), &[mark(4, 0), FrameKind::Closed { pod_durable: 3 }]);
    let held = pod.hold(Some(7));
    assert_eq!(named(&held, 1, &segment_name(1)).expect("a log").bytes, named_len(&pod, 1, 1));
    assert_eq!(pod.plan_of(&held, "closed-copy").expect("a pod").durable_epoch, 7);
}

#[test]
fn a_log_whose_next_segment_was_just_made_ends_before_it() {
    let pod = Pod::new("headless");
    let (end, _) = pod.segment(0, 1, (0, 0), &[mark(3, 0), mark(5, 3), mark(6, 5)]);
    pod.put(0, &segment_name(2), &[]);
    pod.segment(1, 1, (0, 0), &[mark(5, 0)]);
    // Space that was taken ahead, and is given back when the files are open.
    let path = pod.path.join("host-0").join(segment_name(1));
    let file = std::fs::OpenOptions::new().write(true).open(path).expect("it is there");
    file.set_len(end + 4096).expect("room");
    let held = pod.hold(Some(7));
    file.set_len(end).expect("it becomes shorter");
    assert!(named(&held, 0, &segment_name(2)).is_none(), "nothing is in it");
    let first = named(&held, 0, &segment_name(1)).expect("a log");
    assert_eq!(
        (first.bytes, pod.read(first).len() as u64),
        (end, end),
        "what was taken ahead is no part of it"
    );
    let held = pod.hold(Some(5));
    let plan = pod.plan_of(&held, "headless-copy").expect("a pod");
    assert_eq!(plan.hosts.iter().map(|files| files.read().marks.last).collect::<Vec<_>>(), [5, 5]);
}

#[test]
fn manifests_are_of_one_moment() {
    let pod = Pod::new("moment");
    let end = pod.segment(0, 1, (0, 0), &[mark(3, 0)]);
    pod.segment(0, 2, end, &[mark(5, 3)]);
    pod.segment(1, 1, (0, 0), &[mark(5, 0)]);
    // Behind the first look: a checkpoint counts, and what it does not need goes.
    let change = |_| {
        let manifest = HostManifest { first_segment: 2, ..HostManifest::new(7, HostId(0), 9) };
        replace(&pod.cx, &pod.directories[0], HOST_MANIFEST, &manifest.encode())?;
        pod.directories[0].remove(&pod.cx, &segment_name(1))?;
        Ok::<_, RecoveryError>(Some(5))
    };
    assert!(Held::take(&pod.cx, &pod.directories, change).expect("whole files").is_none(), "again");
    let held = pod.hold(Some(5));
    assert!(named(&held, 0, &segment_name(1)).is_none() && named(&held, 0, &segment_name(2)).is_some());
    // What is gone and has no newer manifest is damage.
    let lose = |_| {
        pod.directories[0].remove(&pod.cx, &segment_name(2))?;
        Ok::<_, RecoveryError>(Some(5))
    };
    let lost = Held::take(&pod.cx, &pod.directories, lose).expect("nothing has to be opened").expect("held");
    assert!(pod.plan_of(&lost, "moment-copy").unwrap_err().to_string().contains("log-0000000002 is missing"));
}

#[test]
fn what_is_held_stays_when_it_is_removed_or_grows() {
    let pod = Pod::new("held");
    for host in 0..2 {
        pod.segment(host, 1, (0, 0), &[mark(5, 0)]);
    }
    let held = pod.hold(Some(5));
    let before: Vec<Vec<u8>> = held.logs.iter().map(|file| pod.read(file)).collect();
    let grown = pod.directories[0].open(&pod.cx, &segment_name(1)).expect("no failure").expect("it is there");
    pod.directories[0].append(&pod.cx, &grown, b"more").expect("it can be written");
    pod.directories[1].remove(&pod.cx, &segment_name(1)).expect("it is there");
    replace(&pod.cx, &pod.directories[1], HOST_MANIFEST, b"another").expect("it can be written");
    let after: Vec<Vec<u8>> = held.logs.iter().map(|file| pod.read(file)).collect();
    assert_eq!(before, after);
    assert_eq!(pod.plan_of(&held, "held-copy").expect("a pod").durable_epoch, 5);
}
