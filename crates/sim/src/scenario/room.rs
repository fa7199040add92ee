//! Disks that are full. A host whose disk has no more room changes the same rows over and over: its
//! checkpoints have to bring the room back, so that in the end all changes are committed. And a disk that
//! promises nothing and is full now and then: what is committed waits, and is written when there is room.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use liger_engine::Loader;
use liger_engine::log::HostLog;
use liger_engine::log::room::RoomOptions;
use liger_engine::log::ship::LogOptions;
use liger_engine::log::space::RESERVE;
use liger_engine::recovery::checkpoint::Pace;
use liger_engine::recovery::checkpointer::{CheckpointOptions, Checkpointer};
use liger_engine::recovery::directory::{Directory, read_whole};
use liger_engine::recovery::manifest::{HOST_MANIFEST, HostManifest};
use liger_engine::recovery::{Identity, create};
use liger_engine::row::{RowHost, RowSession};
use liger_engine::{Catalog, Session, Ticket, Transaction, TxnError};
use liger_fabric::disk::SimDisks;
use liger_fabric::sim::{Sim, Simulation};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::plan::PodConfig;

use super::{LeftOut, Ran, Scenario};
use crate::pod::{PodSetup, SimPod, directories, directory};
use crate::rows::{ITEMS, item_key, items, new_row, set_value};

/// A disk on which nothing but checkpoints makes room.
pub const SCENARIOS: &[Scenario] = &[Scenario { name: "log-room", run: comes_back }];

const HOST: HostId = HostId(0);
/// The part of the table that the host owns.
const PART: i16 = 0;
const ROWS: i32 = 6;
const CHANGES: u32 = 150;

const ROOM: RoomOptions = RoomOptions {
    chunk_bytes: 800,
    marks_bytes: 960,
    cleaning_bytes: 800,
    reserve_most_bytes: 64_000,
    reserve_least_bytes: 2000,
    retry_ns: 2000,
};

/// What the workers share.
#[derive(Default)]
struct Run {
    committed: Cell<u32>,
    refused: Cell<u32>,
    /// The checkpoint of what was loaded counts.
    loaded: Cell<bool>,
    done: Cell<bool>,
}

fn comes_back(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let catalog = Arc::new(Catalog::new(&[items::schema()]).expect("a valid schema"));
    let config = PodConfig { log_ring_bytes: 4096, ..PodConfig::small(1, 3) };
    let identity = Identity::new(7, 8, &catalog, 1);
    let disks = SimDisks::new(seed);
    let usual = liger_fabric::sim::SimConfig::adversarial(1, 4096, seed);
    Simulation::with_disks(usual, disks.clone()).alone(HOST, WorkerId(0), move |cx| {
        create(cx, &directories(cx, 1), &identity).expect("an empty disk");
    });
    let options = LogOptions {
        pod: identity.pod,
        epoch_ns: 500 << (seed % 6),
        segment_bytes: 1500 << (seed % 4),
        frame_bytes: 128 << (seed % 6),
        room: ROOM,
        ..LogOptions::default()
    };
    let held = Rc::<Cell<Option<Directory>>>::default();
    let its = Rc::clone(&held);
    let log = move |cx: &Cx<Sim>, plan: &liger_pod::plan::Plan, incarnation| {
        let mine = directory(cx, HOST);
        let log = HostLog::new(cx, plan, incarnation, mine.disk(), options).expect("a good disk");
        its.set(Some(mine));
        Some(log)
    };
    let setup = PodSetup::new(config, catalog);
    let configure = |plan: &liger_pod::plan::Plan| super::config(plan, seed, true, left_out);
    let mut pod = SimPod::with_disks(&setup, disks.clone(), log, configure).expect("room");
    pod.on_every_host(|cx, host| {
        let mut loader = Loader::new(host);
        (0..ROWS).for_each(|id| loader.put(cx, ITEMS, &new_row(PART, id, 0)).expect("room"));
    });
    let run = Rc::<Run>::default();
    let of = || (Rc::clone(&pod.hosts[0]), Rc::clone(&run));
    let ((client, its), (shipped, ships), (imaged, takes)) = (of(), of(), of());
    let mine = held.take().expect("the log has opened it");
    pod.sim.spawn(HOST, WorkerId(0), move |cx| change(cx, &client, &its));
    pod.sim.spawn(HOST, WorkerId(1), move |cx| {
        let mut is_limited = false;
        while !ships.done.get() {
            if !is_limited && ships.loaded.get() && has_reserve(&disks) && cx.random_below(100) == 0 {
                disks.leave_room(HOST, 3000 + cx.random_below(6000));
                is_limited = true;
            }
            shipped.ship(cx);
            cx.pause();
        }
    });
    pod.sim.spawn(HOST, WorkerId(2), move |cx| take_checkpoints(cx, &imaged, mine, &takes));
    let report = pod.sim.run();
    Ran::new(report, || match (run.committed.get(), run.done.get()) {
        (CHANGES, true) => Ok(()),
        (committed, _) => {
            Err(format!("{committed} of {CHANGES} changes, and {} were refused", run.refused.get()))
        }
    })
}

/// Whether the log has taken its reserve.
fn has_reserve(disks: &SimDisks) -> bool {
    disks
        .files(HOST)
        .iter()
        .any(|(name, bytes)| name == RESERVE && bytes.len() as u64 >= ROOM.reserve_least_bytes)
}

/// Changes rows, each time until that is not refused, and waits for all of it to be durable.
fn change(cx: &Cx<Sim>, host: &RowHost, run: &Run) {
    let mut session = RowSession::new(cx, host);
    while !run.loaded.get() {
        session.pause();
    }
    let mut last = Ticket::default();
    while run.committed.get() < CHANGES {
        let id = cx.random_below(ROWS as u64) as i32;
        let changed = session.attempt(|txn| {
            txn.update(ITEMS, &item_key(PART, id), |row| set_value(row, row.get(items::VALUE) + 1))
        });
        match changed {
            Ok(_) => {
                run.committed.set(run.committed.get() + 1);
                last = session.ticket();
            }
            Err(TxnError::LogFull { host: 0 }) => {
                run.refused.set(run.refused.get() + 1);
                (0..100).for_each(|_| session.pause());
            }
            Err(TxnError::Conflict(_)) => session.back_off(1),
            Err(other) => panic!("a change failed: {other}"),
        }
    }
    while !session.is_durable(last).expect("what is committed has room") {
        session.pause();
    }
    run.done.set(true);
}

fn take_checkpoints(cx: &Cx<Sim>, host: &RowHost, directory: Directory, run: &Run) {
    let manifest = read_whole(cx, &directory, HOST_MANIFEST).expect("a good disk");
    let manifest = HostManifest::decode(HOST, &manifest).expect("an intact one");
    let pace =
        Pace { rows_per_hold: 2, write_bytes: 64, sync_bytes: 300, block_bytes: 200, ..Pace::default() };
    let options = CheckpointOptions {
        // Never wanted for the sake of a restart.
        replay_bytes: 1 << 40,
        pace,
        busy_percent: 100,
        restore_percent: 100,
        look_ns: 500,
    };
    let log = host.log().expect("the pod keeps a log");
    let mut checkpointer = Checkpointer::new(cx, log, directory, manifest, options);
    checkpointer.take(cx, host).expect("a good disk");
    run.loaded.set(true);
    while !run.done.get() {
        if checkpointer.turn(cx, host) == 0 {
            host.attend(cx);
        }
        assert!(checkpointer.failure().is_none(), "{:?}", checkpointer.failure());
        cx.pause();
    }
}
