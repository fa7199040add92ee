//! What a host must not do: commit when it may be taken for dead, and replace an image that is needed.

#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use liger_engine::log::HostLog;
use liger_engine::log::ship::LogOptions;
use liger_engine::recovery::checkpointer::{CheckpointOptions, Checkpointer};
use liger_engine::recovery::directory::{Directory, PodFiles, replace};
use liger_engine::recovery::image::ImageEnd;
use liger_engine::recovery::manifest::{Checkpoint, HOST_MANIFEST, HostManifest, ImageEntry};
use liger_engine::recovery::{Identity, create};
use liger_engine::row::{RowSession, Takeover};
use liger_engine::{Catalog, NewRow, Session, TableId, Transaction, TxnError};
use liger_fabric::disk::SimDisks;
use liger_fabric::sim::{Sim, SimConfig, Simulation};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::plan::{PartitionId, Plan, PodConfig, SUPERBLOCK_BYTES};
use liger_sim::pod::{PodSetup, SimPod, directories, directory};
use liger_sim::rows::items;

const ITEMS: TableId = TableId(0);
const LEASE_NS: u64 = 1_000_000;

fn row(id: i32) -> NewRow {
    let mut row = NewRow::new(items::ROW_LEN);
    row.set(items::PART, 0).set(items::ID, id).set(items::GROUP, 0).set(items::VALUE, 1).set(items::PAD, "p");
    row
}

/// A pod of two hosts with logs, and the directories of their files.
fn pod() -> (SimPod, Vec<Directory>, HostManifest) {
    let catalog = Arc::new(Catalog::new(&[items::schema()]).expect("a valid schema"));
    let identity = Identity::new(7, 8, &catalog, 2);
    let disks = SimDisks::new(1);
    let config = SimConfig::adversarial(2, 4096, 1);
    Simulation::with_disks(config, disks.clone()).alone(HostId(0), WorkerId(0), move |cx| {
        create(cx, &directories(cx, 2), &identity).expect("empty disks");
    });
    let log = LogOptions { pod: identity.pod, segment_bytes: 1 << 12, ..LogOptions::default() };
    let config = PodConfig { lease_ns: LEASE_NS, ..PodConfig::small(2, 1) };
    let mut setup = PodSetup::new(config, catalog);
    setup.takeover = Some(Takeover { files: PodFiles::Simulated, identity, log });
    let held = Rc::new(RefCell::new(Vec::new()));
    let its = Rc::clone(&held);
    let make = move |cx: &Cx<Sim>, plan: &Plan, life: u16| {
        let mine = directory(cx, cx.host());
        let made = HostLog::new(cx, plan, life, mine.disk(), log).expect("a good disk");
        its.borrow_mut().push(mine);
        Some(made)
    };
    let built = SimPod::with_disks(&setup, disks, make, |plan| SimConfig {
        sync: Some(SUPERBLOCK_BYTES..plan.sync_end()),
        max_verbs: 5_000_000,
        ..SimConfig::adversarial(2, plan.len() as usize, 1)
    });
    let pod = built.expect("an empty pod has room");
    let manifest = HostManifest {
        pod: 7,
        host: HostId(0),
        layouts: identity.layouts,
        first_segment: 1,
        checkpoint: None,
    };
    (pod, held.take(), manifest)
}

#[test]
fn a_host_that_stood_still_and_was_given_up_commits_nothing() {
    let (mut pod, _, _) = pod();
    let (host, word) = (Rc::clone(&pod.hosts[0]), pod.plan.membership(HostId(0)));
    pod.sim.alone(HostId(0), WorkerId(0), move |cx| {
        let mut session = RowSession::new(cx, &host);
        session.attempt(|txn| txn.insert(ITEMS, &row(0))).expect("it lives");
        let refused = session.attempt(|txn| {
            txn.insert(ITEMS, &row(1))?;
            // The others take it for dead, and it stands still.
            let alive = cx.load(word);
            cx.compare_exchange(word, alive, alive & !0xff | 5).expect("the word of FENCED");
            let begun_ns = cx.now_ns();
            while cx.now_ns() - begun_ns <= LEASE_NS / 2 {
                cx.pause();
            }
            Ok(())
        });
        assert_eq!(refused, Err(TxnError::Fenced));
    });
}

/// A checkpoint of this epoch that has an image of partition 1, which is host 1's.
fn checkpoint(begin_epoch: u64) -> Option<Checkpoint> {
    let end = ImageEnd { rows: 1, newest: 1, bytes: 100 };
    let images = vec![ImageEntry { partition: PartitionId(1), end, checkpoint: 1, begin_epoch }];
    Some(Checkpoint { number: 1, begin_epoch, end_epoch: begin_epoch, images })
}

/// Host 0 had taken over a partition, and after a restart it is host 1's again.
#[test]
fn an_image_stays_until_the_partition_s_owner_has_a_newer_one() {
    let (mut pod, directories, manifest) = pod();
    let mine = HostManifest { checkpoint: checkpoint(5), ..manifest.clone() };
    let host = Rc::clone(&pod.hosts[0]);
    pod.sim.alone(HostId(0), WorkerId(0), move |cx| {
        let [own, other] = <[Directory; 2]>::try_from(directories).ok().expect("two hosts");
        replace(cx, &own, HOST_MANIFEST, &mine.encode()).expect("a good disk");
        let log = host.log().expect("the pod keeps a log");
        let options = CheckpointOptions { look_ns: 500, ..CheckpointOptions::default() };
        let mut checkpointer = Checkpointer::new(cx, log, own, mine, options);
        checkpointer.order();
        let mut begins = |newer: Option<Checkpoint>| {
            let its = HostManifest { host: HostId(1), checkpoint: newer, ..manifest.clone() };
            replace(cx, &other, HOST_MANIFEST, &its.encode()).expect("a good disk");
            (0..300).any(|_| {
                cx.pause();
                checkpointer.turn(cx, &*host) > 0
            })
        };
        assert!(!begins(None) && !begins(checkpoint(5)), "there is no newer one");
        assert!(begins(checkpoint(6)));
    });
}
