//! A pod comes back from its files alone: checkpoint and logs, killed at every step, damaged everywhere.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use liger_engine::Loader;
use liger_engine::files::segment_name;
use liger_engine::log::record::{Op, Origin, RecordWriter, first_of};
use liger_engine::log::segment::{Frame, FrameKind, Frames, LogPosition, SegmentHead};
use liger_engine::protocol::HostEngine;
use liger_engine::recovery::checkpoint::{EpochView, Pace, take};
use liger_engine::recovery::directory::{Directory, replace};
use liger_engine::recovery::manifest::HostManifest;
use liger_engine::recovery::{
    Identity, Loading, Plan, RecoveryError, RestoreStep, RestoresRows, begin_generation, create,
};
use liger_engine::row::{RowHost, RowSession};
use liger_engine::{
    Catalog, Key, KeyRange, NewRow, Row, Session, StoredAt, StoredFile, TableId, Transaction, TxnError, table,
};
use liger_fabric::disk::{Damage, Disk, SECTOR, SimDisks};
use liger_fabric::sim::{CrashDomain, Kill, KillAt, Sim, SimConfig, Simulation};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::plan::{PartitionId, PodConfig, SUPERBLOCK_BYTES};
use liger_sim::pod::{PodSetup, SimPod, directories, directory};

table! {
    /// Rows that change.
    pub mod goods: "goods" {
        PART: SmallInt,
        ID: Int,
        VALUE: BigInt,
    }
    primary key (PART, ID);
    partition by (PART);
    index "goods_by_value" (VALUE);
}

table! {
    /// Rows that every host has.
    pub mod units: "units" {
        CODE: Int,
        LABEL: Text<8>,
    }
    primary key (CODE);
    replicated;
}

const GOODS: TableId = TableId(0);
const BY_VALUE: TableId = TableId(1);
const UNITS: TableId = TableId(2);
const HOSTS: u8 = 2;
const PARTITIONS: u16 = 3;
const IDENTITY: Identity = Identity { pod: 7, configuration: 8, layouts: 9, older_layouts: 10, hosts: HOSTS };

/// Rows of a pod: (part, id) to value, the keys of index entries, how many replicated rows.
type State = (BTreeMap<(i16, i32), i64>, BTreeSet<Key>, usize);

/// What all disks hold.
type Files = BTreeMap<(HostId, String), Vec<u8>>;

fn good(part: i16, id: i32, value: i64) -> NewRow {
    let mut row = NewRow::new(goods::ROW_LEN);
    row.set(goods::PART, part).set(goods::ID, id).set(goods::VALUE, value);
    row
}

fn entry_key(part: i16, id: i32, value: i64) -> Key {
    goods::schema().layout().unwrap().indexes[0].key.key_of(good(part, id, value).bytes())
}

/// An index entry comes or goes with its row, wherever it lives.
fn change_entry(writer: &mut RecordWriter, op: Op, (part, id, value): (i16, i32, i64), previous: u64) {
    let catalog = Catalog::new(&[goods::schema(), units::schema()]).unwrap();
    let key = entry_key(part, id, value);
    let partition = catalog.relation(BY_VALUE).unwrap().partition_of(&key, PARTITIONS);
    writer.change((BY_VALUE, partition), op, &key, previous);
    if op == Op::Insert {
        let index = &goods::schema().layout().unwrap().indexes[0];
        let mut row = vec![0; index.row_len];
        index.write_primary(&self::key(part, id), &mut row);
        writer.piece(0, &row);
    }
}

fn key(part: i16, id: i32) -> Key {
    Key::build().i16(part).i32(id).finish()
}

fn pod(workers: u8, seed: u64, disks: &SimDisks) -> SimPod {
    let catalog = Arc::new(Catalog::new(&[goods::schema(), units::schema()]).unwrap());
    let mut config = PodConfig::small(HOSTS, workers);
    config.partitions = PARTITIONS;
    config.max_tables = 4;
    let setup = PodSetup::new(config, catalog);
    let built = SimPod::with_disks(
        &setup,
        disks.clone(),
        |_, _, _| None,
        |plan| SimConfig {
            sync: Some(SUPERBLOCK_BYTES..plan.sync_end()),
            max_verbs: 5_000_000,
            ..SimConfig::adversarial(usize::from(HOSTS), plan.len() as usize, seed)
        },
    );
    built.unwrap()
}

struct AtOnce;

impl EpochView<Sim> for AtOnce {
    fn now(&self, _cx: &Cx<Sim>) -> u64 {
        1
    }

    fn durable(&self, _cx: &Cx<Sim>) -> Result<u64, RecoveryError> {
        Ok(1)
    }
}

/// A host's log: records and marks as frames of one segment.
struct Log {
    host: HostId,
    bytes: Vec<u8>,
    position: u64,
    known: LogPosition,
}

impl Log {
    fn new(host: u8) -> Self {
        let host = HostId(host);
        let head =
            SegmentHead { pod: 7, host, incarnation: 1, number: 1, generation: 1, previous_end: 0, mark: 0 };
        Self { host, bytes: head.encode().to_vec(), position: 0, known: LogPosition::default() }
    }

    fn frames(&self) -> Frames {
        Frames::of(7, self.host, 1)
    }

    fn record(&mut self, version: u64, change: impl FnOnce(&mut RecordWriter)) {
        let mut writer = RecordWriter::default();
        writer.begin();
        change(&mut writer);
        let origin = Origin { host: self.host, incarnation: 1, worker: 0 };
        let payload = writer.finish(version, self.position, origin).to_vec();
        let kind = FrameKind::Records { worker: 0, incarnation: 1, position: self.position, first: 0 };
        Frame { kind, synced: self.known, payload: &payload }.encode(self.frames(), &mut self.bytes);
        self.position += payload.len() as u64;
    }

    fn mark(&mut self, epoch: u64, pod_durable: u64) {
        let kind = FrameKind::Mark { epoch, pod_durable };
        Frame { kind, synced: self.known, payload: &[] }.encode(self.frames(), &mut self.bytes);
        self.known = LogPosition { segment: 1, byte: self.bytes.len() as u64 };
    }
}

/// The files of a pod whose memory is lost, and its state at the last durable epoch, which is 2.
fn lost_pod() -> (Files, State) {
    let disks = SimDisks::new(1);
    let made = pod(1, 1, &disks).on_every_host(move |cx, host| {
        let mut loader = Loader::new(host);
        for (part, id) in (0..3).flat_map(|part| (0..5).map(move |id| (part, id))) {
            loader.put(cx, GOODS, &good(part, id, 100 + i64::from(id))).unwrap();
        }
        let mut unit = NewRow::new(units::ROW_LEN);
        unit.set(units::CODE, 1).set(units::LABEL, "piece");
        loader.put(cx, UNITS, &unit).unwrap();
        loader.finish(cx);
        if host.id() == HostId(0) {
            create(cx, &directories(cx, HOSTS), &IDENTITY).unwrap();
        }
        let manifest = HostManifest::new(7, host.id(), 9);
        // Two rows or three entries a block.
        let pace = Pace { block_bytes: 100, ..Pace::default() };
        take(cx, host, &directory(cx, host.id()), &manifest, &AtOnce, pace).map(drop)
    });
    made.into_iter().for_each(|made| made.unwrap());
    let mut files = Files::new();
    for host in (0..HOSTS).map(HostId) {
        files.extend(disks.files(host).into_iter().map(|(name, bytes)| ((host, name), bytes)));
    }

    let value = goods::schema().layout().unwrap().columns[2].offset as u16;
    let (mut first, mut second) = (Log::new(0), Log::new(1));
    let (one, two, three) = (first_of(2), first_of(2) + 1, first_of(3));
    first.record(one, |writer| {
        for part in [0, 1] {
            writer.change((GOODS, PartitionId(part)), Op::Update, &key(part as i16, 2), 0);
            writer.piece(value, &777i64.to_le_bytes());
            change_entry(writer, Op::Delete, (part as i16, 2, 102), 0);
            change_entry(writer, Op::Insert, (part as i16, 2, 777), 0);
        }
    });
    second.record(two, |writer| {
        writer.change((GOODS, PartitionId(0)), Op::Update, &key(0, 2), one);
        writer.piece(value, &778i64.to_le_bytes());
        change_entry(writer, Op::Delete, (0, 2, 777), one);
        change_entry(writer, Op::Insert, (0, 2, 778), 0);
        writer.change((GOODS, PartitionId(2)), Op::Delete, &key(2, 4), 0);
        change_entry(writer, Op::Delete, (2, 4, 104), 0);
        writer.change((GOODS, PartitionId(1)), Op::Insert, &key(1, 9), 0);
        writer.piece(0, good(1, 9, 5).bytes());
        change_entry(writer, Op::Insert, (1, 9, 5), 0);
    });
    first.mark(3, 1);
    first.mark(3, 2);
    second.mark(2, 1);
    second.mark(2, 1);
    // Not durable: the other host's mark is missing.
    second.record(three, |writer| writer.change((GOODS, PartitionId(0)), Op::Delete, &key(0, 2), two));
    for log in [first, second] {
        files.insert((log.host, segment_name(1)), log.bytes);
    }

    let mut rows: BTreeMap<(i16, i32), i64> =
        (0..3).flat_map(|part| (0..5).map(move |id| ((part, id), 100 + i64::from(id)))).collect();
    rows.extend([((0, 2), 778), ((1, 2), 777), ((1, 9), 5)]);
    rows.remove(&(2, 4));
    let entries = rows.iter().map(|(&(part, id), &value)| entry_key(part, id, value)).collect();
    (files, (rows, entries, 2))
}

/// Disks with these files.
fn disks_with(files: &Files) -> SimDisks {
    let mut sim = Simulation::new(SimConfig::adversarial(usize::from(HOSTS), 4096, 3));
    let files = files.clone();
    sim.alone(HostId(0), WorkerId(0), move |cx| {
        let directories = directories(cx, HOSTS);
        for ((host, name), bytes) in &files {
            replace(cx, &directories[usize::from(host.0)], name, bytes).unwrap();
        }
    });
    sim.disks()
}

/// Plans and loads, with so many workers a host.
fn recover(disks: &SimDisks, workers: u8) -> Result<State, RecoveryError> {
    let mut pod = pod(workers, 5, disks);
    let (directories, plan) = pod.sim.alone(HostId(0), WorkerId(0), |cx| {
        let directories = directories(cx, HOSTS);
        let plan = Plan::make(cx, &directories, &IDENTITY);
        (directories, plan)
    });
    let plan = plan?;
    let plan: &'static Plan = Box::leak(Box::new(plan));
    let failed = Rc::new(std::cell::RefCell::new(None));
    for host in &pod.hosts {
        let host: &'static Rc<_> = Box::leak(Box::new(Rc::clone(host)));
        let loading: &'static Loading<'_, RowHost> = Box::leak(Box::new(Loading::new(plan, &**host)));
        for worker in 0..workers {
            let (on_disk, failed) = (directories.clone(), Rc::clone(&failed));
            pod.sim.spawn(host.id(), WorkerId(worker), move |cx| {
                let loaded = loading.work(cx, &on_disk);
                if let Err(failure) = loaded.and_then(|()| host.restore_all(cx, || _ = host.attend(cx))) {
                    *failed.borrow_mut() = Some(failure);
                }
            });
        }
    }
    let report = pod.sim.run();
    assert!(report.completed(), "{}", report.outcome);
    if let Some(failure) = failed.borrow_mut().take() {
        return Err(failure);
    }
    assert_eq!(pod.check(), Vec::<String>::new());
    let shown = pod.on_every_host(|cx, host| {
        let (mut rows, mut entries, mut replicas) = (Vec::new(), Vec::new(), 0);
        let value = |row: Row<'_>| ((row.get(goods::PART), row.get(goods::ID)), row.get(goods::VALUE));
        host.each_row(cx, GOODS, |_, row| rows.push(value(row))).unwrap();
        host.each_row(cx, BY_VALUE, |key, _| entries.push(*key)).unwrap();
        host.each_row(cx, UNITS, |_, _| replicas += 1).unwrap();
        (rows, entries, replicas)
    });
    let mut state = State::default();
    for (rows, entries, replicas) in shown {
        state.0.extend(rows);
        state.1.extend(entries);
        state.2 += replicas;
    }
    Ok(state)
}

/// Begins the next generation; true if nobody was killed meanwhile.
fn begin(disks: &SimDisks, kills: Vec<Kill>) -> bool {
    let config = SimConfig { kills, ..SimConfig::adversarial(usize::from(HOSTS), 4096, 9) };
    let mut sim = Simulation::with_disks(config, disks.clone());
    sim.spawn(HostId(0), WorkerId(0), |cx| {
        let directories = directories(cx, HOSTS);
        let plan = Plan::make(cx, &directories, &IDENTITY).unwrap();
        begin_generation(cx, &directories, &plan).unwrap();
    });
    let report = sim.run();
    let lived = report.hosts[0].killed.is_empty();
    report.expect_completed();
    lived
}

#[test]
fn a_pod_comes_back_as_it_was_at_its_durable_epoch() {
    let (files, expected) = lost_pod();
    let disks = disks_with(&files);
    for workers in [1, 3] {
        assert_eq!(recover(&disks, workers).as_ref(), Ok(&expected), "{workers} workers");
    }
    // The next generation has no epoch yet, and the one that was cut off does not come back.
    for _ in 0..2 {
        begin(&disks, Vec::new());
        assert_eq!(recover(&disks, 1).as_ref(), Ok(&expected));
    }
    let mut sim = Simulation::with_disks(SimConfig::adversarial(2, 4096, 1), disks);
    let make = |cx: &Cx<Sim>| Plan::make(cx, &directories(cx, HOSTS), &IDENTITY);
    let plan = sim.alone(HostId(0), WorkerId(0), make).unwrap();
    assert_eq!(plan.pod.generation, 3);
    assert!(plan.counts(2) && !plan.counts(3), "{plan:?}");
    assert!(plan.next_epoch() > 3 && plan.hosts[0].next_segment().0 == 2);
}

#[test]
fn recovery_may_be_killed_at_every_step() {
    let (files, expected) = lost_pod();
    for domain in [CrashDomain::Process, CrashDomain::Host, CrashDomain::HostPersistent] {
        let mut step = 1;
        loop {
            let disks = disks_with(&files);
            let kill = Kill { host: HostId(0), at: KillAt::HostStep(step), domain };
            let lived = begin(&disks, vec![kill]);
            let what = format!("killed before step {step}, {domain:?}");
            assert_eq!(recover(&disks, 1).as_ref(), Ok(&expected), "{what}");
            disks.lose_power();
            begin(&disks, Vec::new());
            disks.lose_power();
            assert_eq!(recover(&disks, 1).as_ref(), Ok(&expected), "{what}");
            if lived {
                break;
            }
            step += 1;
        }
        assert!(step > 25, "{step} steps");
    }
}

/// Bits that flip, everywhere, and every sector half gone.
fn damages(len: usize) -> impl Iterator<Item = Damage> {
    let flip = |offset: usize| Damage::FlipBits { offset: offset as u64, mask: 0x10 };
    let flips = (0..len).step_by(29).chain([len - 1]).map(flip);
    flips.chain((0..len.div_ceil(SECTOR)).map(|sector| Damage::TearSector { sector: sector as u64 }))
}

#[test]
fn damage_in_any_file_is_named_or_does_not_matter() {
    let (files, expected) = lost_pod();
    let (mut named, mut harmless) = (0, 0);
    for ((host, name), bytes) in &files {
        for damage in damages(bytes.len()) {
            let disks = disks_with(&files);
            // The last sector may have no second half.
            let applied = disks.damage(*host, name, damage).is_ok();
            let found = disks.files(*host).into_iter().find(|file| file.0 == *name).unwrap().1;
            if !applied || found == *bytes {
                continue;
            }
            match recover(&disks, 1) {
                Err(failed) => {
                    let said = failed.to_string();
                    let place = format!("host {}, {name}, byte ", host.0);
                    assert!(said.contains(&place), "{damage:?} of {name} of host {}: {said}", host.0);
                    named += 1;
                }
                Ok(state) => {
                    assert_eq!(state, expected, "{damage:?} of {name} of host {}", host.0);
                    assert!(name.starts_with("log-"), "{damage:?} of {name}");
                    harmless += 1;
                }
            }
        }
    }
    assert!(named > 70 && harmless < named / 2, "{named} named, {harmless} harmless");
}

/// A pod that is opened from these disks, whose rows nobody has made yet.
fn opened(disks: &SimDisks) -> SimPod {
    let mut pod = pod(1, 5, disks);
    for host in pod.hosts.clone() {
        let id = host.id();
        let loaded = pod.sim.alone(id, WorkerId(0), move |cx| {
            let all = (0..HOSTS).map(HostId);
            let directories: Vec<_> =
                all.map(|host| Directory::new(host, Disk::look_simulated(host))).collect();
            let plan = Plan::make(cx, &directories, &IDENTITY)?;
            Loading::new(&plan, &*host).work(cx, &directories)
        });
        loaded.unwrap();
    }
    pod
}

#[test]
fn a_damaged_block_is_told_to_who_wants_a_row_of_it_and_nobody_else() {
    let (files, _) = lost_pod();
    let (first, image) = (HostId(0), "image-1-0");
    let disks = disks_with(&files);
    // A bit of the first block of rows, which lies behind the head.
    disks.damage(first, image, Damage::FlipBits { offset: 72 + 40, mask: 1 }).unwrap();
    let mut pod = opened(&disks);
    let host = Rc::clone(&pod.hosts[0]);
    let (damaged, whole, told) = pod.sim.alone(first, WorkerId(0), move |cx| {
        let mut session = RowSession::new(cx, &host);
        let mut get = |id| session.attempt(|txn| txn.get(GOODS, &key(0, id), |row| row.get(goods::VALUE)));
        let (damaged, whole) = ([get(0), get(0)], get(4));
        (damaged, whole, host.faults(cx))
    });
    assert_eq!(whole, Ok(Some(104)));
    let file = StoredFile::Image { checkpoint: 1, partition: PartitionId(0) };
    let expected = TxnError::NotRestored { table: GOODS, at: StoredAt { byte: 72, file, host: 0 } };
    assert_eq!(damaged, [Err(expected), Err(expected)]);
    assert_eq!(expected.to_string(), "rows of table 0 cannot be restored: host 0, image-1-0, byte 72");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("host 0, image-1-0, byte 72: the block's checksum"), "{told:?}");
    // Whatever else there is can be made; the host is not whole, so it takes no checkpoint.
    let host = Rc::clone(&pod.hosts[0]);
    let (step, restored) = pod.sim.alone(first, WorkerId(0), move |cx| {
        let mut last = Ok(RestoreStep::Worked);
        for _ in 0..100 {
            last = host.restore_some(cx);
        }
        (last, host.rows().restored(cx).unwrap())
    });
    assert!(step.is_err() || step == Ok(RestoreStep::Stuck), "{step:?}");
    assert!(restored.failed == 1 && restored.bytes > 0 && restored.bytes < restored.of_bytes, "{restored:?}");
}

#[test]
fn rows_are_made_when_somebody_wants_them() {
    let (files, (rows, ..)) = lost_pod();
    let mut pod = opened(&disks_with(&files));
    let host = Rc::clone(&pod.hosts[1]);
    let expected: Vec<(i32, i64)> =
        rows.iter().filter(|((part, _), _)| *part == 1).map(|(&(_, id), &value)| (id, value)).collect();
    pod.sim.alone(HostId(1), WorkerId(0), move |cx| {
        assert_eq!(host.rows().restored(cx).unwrap().bytes, 0);
        let mut session = RowSession::new(cx, &host);
        let missing = session.attempt(|txn| txn.get(GOODS, &key(1, 7), |_| ())).unwrap();
        assert_eq!(missing, None);
        let some = host.rows().restored(cx).unwrap();
        assert!(0 < some.bytes && some.bytes < some.of_bytes, "{some:?}");
        let mut seen = Vec::new();
        let range = KeyRange { low: key(1, i32::MIN), high: Some(key(1, i32::MAX)) };
        let scanned = session.attempt(|txn| {
            txn.scan(GOODS, &range, |_, row| {
                seen.push((row.get(goods::ID), row.get(goods::VALUE)));
                ControlFlow::Continue(())
            })
        });
        scanned.unwrap();
        assert_eq!(seen, expected);
        host.restore_all(cx, || {}).unwrap();
        assert_eq!(host.rows().restored(cx), None);
    });
}

#[test]
fn a_log_that_lost_its_end_is_found_by_what_others_knew() {
    let (mut files, _) = lost_pod();
    let log = files.get_mut(&(HostId(1), segment_name(1))).unwrap();
    // A whole host went back in time: its own files are consistent.
    *log = SegmentHead::decode(log).unwrap().encode().to_vec();
    let failed = recover(&disks_with(&files), 1).unwrap_err().to_string();
    assert!(failed.contains("epoch 2 was known to be durable in the whole pod"), "{failed}");
}
