//! Hosts of a pod that are not there: not yet, or not any more.

mod kit;

use kit::Opened;
use liger_engine::Durability;
use liger_engine::db::{Host, JoinOptions, PodConfig, StorageError};
use liger_engine::recovery::Plan;
use liger_engine::recovery::salvage::{Dead, SalvageError};
use liger_engine::{Key, NewRow, Session, Transaction, table};
use liger_fabric::HostId;
use liger_pod::membership::{self, Slot};

table! {
    /// Something to change.
    pub mod notes: "notes" {
        ID: Int,
        TEXT: Text<200>,
    }
    primary key (ID);
}

fn opened(name: &str, hosts: u8, partitions: u16) -> Opened {
    let config = PodConfig { partitions, ..PodConfig::new(hosts, 1, 4 << 20, 64 << 20) };
    kit::opened(name, &config, notes::schema())
}

/// What the log of a host may hold for long, where that matters.
const LOG_BYTES: u64 = 128 << 10;

impl Opened {
    fn join(&self, host: u8) -> Host {
        let mut options = JoinOptions::new(self.pod.plan());
        let mut storage = self.data.hold(&self.pod.control(), HostId(host)).expect("nobody holds it");
        storage.set_replay_bytes(LOG_BYTES);
        options.storage = Some(storage);
        self.pod.join_with(HostId(host), options).expect("a sound memory")
    }

    /// Changes a row so often; returns the epoch of the last change when it is on storage.
    fn write(&self, host: &mut Host, times: u32) {
        let table = self.pod.catalog().table_named("notes").expect("declared above");
        let key = Key::build().i32(1).finish();
        host.alone(|session| {
            session.set_durability(Durability::Pod);
            for round in 0..times {
                let text = format!("{round:0200}");
                let changed = session.transact(|tx| {
                    tx.update(table, &key, |row| {
                        row.set(notes::TEXT, text.as_str());
                    })
                });
                changed.expect("nobody is in the way");
            }
            session.set_durability(Durability::Storage);
            let ticket = session.ticket();
            while !session.is_durable(ticket).expect("good disks") {}
        });
    }

    fn fill(&self, host: &mut Host) {
        let table = self.pod.catalog().table_named("notes").expect("declared above");
        let filled = host.load(|rows| {
            let mut row = NewRow::new(notes::ROW_LEN);
            row.set(notes::ID, 1).set(notes::TEXT, "");
            rows.put(table, &row)
        });
        filled.expect("there is room");
    }
}

#[test]
fn a_host_that_has_not_joined_keeps_nobody_from_recovery() {
    let opened = opened("absent", 3, 1);
    let (mut first, second) = (opened.join(0), opened.join(1));
    opened.fill(&mut first);
    first.checkpoint().expect("good disks");
    opened.write(&mut first, 3);
    let log = first.engine().log().expect("it has storage");
    let durable = log.pod_durable(&opened.pod.control(), 0b11);
    let directories = opened.data.look_all().expect("all are there");
    // As a successor does while the pod lives, and as everybody does when all are gone.
    let (cx, identity) = (opened.pod.control(), &opened.data.identity());
    let of_living = Plan::of_living(&cx, &directories, identity, durable, &mut ());
    of_living.expect("the third host holds nobody back");
    drop((first, second));
    let plan = Plan::make(&cx, &directories, identity).expect("nor when the pod is recovered");
    assert!(plan.durable_epoch >= durable, "{} of {durable}", plan.durable_epoch);
}

#[test]
fn a_host_that_owned_nothing_and_left_keeps_no_log_from_shrinking() {
    let opened = opened("left", 2, 1);
    let (mut stays, leaves) = (opened.join(0), opened.join(1));
    opened.fill(&mut stays);
    leaves.checkpoint().expect("good disks");
    stays.checkpoint().expect("good disks");
    leaves.leave().expect("it lives");
    for _ in 0..40 {
        opened.write(&mut stays, 100);
    }
    let log = stays.engine().log().expect("it has storage");
    assert!(log.appended_bytes() > 4 * LOG_BYTES, "{}", log.appended_bytes());
    let cx = opened.pod.control();
    let start_ns = cx.now_ns();
    while log.held_bytes() > 2 * LOG_BYTES {
        assert!(cx.now_ns() - start_ns < 20_000_000_000, "{} bytes stay", log.held_bytes());
        cx.pause();
    }
}

#[test]
fn salvage_asks_for_proof_of_those_that_have_touched_something() {
    let opened = opened("proof", 3, 1);
    let (cx, plan) = (opened.pod.control(), opened.pod.plan());
    // Killed between its swap to JOINING and the stores behind it.
    let word = plan.membership(HostId(1)).word(0);
    cx.compare_exchange(word, 0, 1 << 16 | 1 << 8 | 1).expect("it was never a member");
    let slot = Slot::load(&cx, plan, HostId(1)).expect("a sane word");
    assert_eq!(membership::name_of(&cx, plan, slot), None);
    opened.data.begin_from(&cx, plan, Dead::Proven).expect("it has touched nothing");
    // A process of nowhere, in a memory that has outlived its machine.
    let mut there = opened.join(0);
    opened.fill(&mut there);
    there.leave().expect("it lives");
    let nowhere = liger_fabric::Cx::new(cx.fabric().clone(), HostId(2), liger_fabric::WorkerId(0), 0);
    let joining = membership::join(&nowhere, plan, 0xdead << 48 | 9).expect("a free number");
    let refused = opened.data.begin_from(&cx, plan, Dead::Proven);
    let is_it = |error: &StorageError| {
        matches!(error, StorageError::Salvage(SalvageError::Living { host: HostId(2), .. }))
    };
    assert!(refused.as_ref().is_err_and(is_it), "{refused:?}");
    opened.data.begin_from(&cx, plan, Dead::Vouched).expect("the user knows better");
    drop(joining);
}
