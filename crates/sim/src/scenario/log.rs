//! The log under adversarial schedules and caches: hosts append and ship, one dies or its device fails, then
//! the power goes. Every committed record is in a ring or on a disk, and every mark is true.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use liger_engine::files::segment_number;
use liger_engine::log::record::{Op, Record, RecordWriter, epoch_of};
use liger_engine::log::ring::{AppendError, RingReader};
use liger_engine::log::room::{Refusal, RoomOptions};
use liger_engine::log::scan::{End, Scanner};
use liger_engine::log::segment::{FrameKind, SEGMENT_HEAD_BYTES, SegmentHead};
use liger_engine::log::ship::LogOptions;
use liger_engine::log::{HostLog, WorkerLog};
use liger_engine::{Key, TableId};
use liger_fabric::disk::{Disk, DiskFault, SimDisks};
use liger_fabric::sim::{CrashDomain, Kill, KillAt, Sim, SimConfig, Simulation};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::plan::{PartitionId, Plan, PodConfig};

use super::{LeftOut, Ran, Scenario, config};
use crate::Picker;

/// Hosts that live, one that dies, one whose device fails or is full; one whose device promises nothing, and
/// is full now and then.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "log", run: all_live },
    Scenario { name: "log-kill", run: one_dies },
    Scenario { name: "log-device", run: device_fails },
    Scenario { name: "log-full", run: device_is_full },
];

const HOSTS: u8 = 2;
/// Workers that append; one more ships.
const WRITERS: u8 = 2;
const RECORDS: u64 = 12;
pub(super) const OPTIONS: LogOptions = LogOptions {
    pod: 7,
    generation: 1,
    first_epoch: 1,
    epoch_ns: 2000,
    busy_factor: 4,
    segment_bytes: 3000,
    frame_bytes: 200,
    room: RoomOptions {
        chunk_bytes: 512,
        marks_bytes: 480,
        cleaning_bytes: 512,
        reserve_most_bytes: 0,
        reserve_least_bytes: 0,
        retry_ns: 2000,
    },
};

/// A record whose `append` has returned: its version, by the host, worker and position of it.
type Committed = BTreeMap<(u8, u8, u64), u64>;

/// What all workers of a run share; it stands for the operator, and for what clients were told.
#[derive(Default)]
struct Run {
    committed: RefCell<Committed>,
    /// Newest epoch of which a client was told that it is durable.
    told: Cell<u64>,
    members: Cell<u16>,
    busy: Cell<u8>,
    /// Hosts whose shippers have ended, and not died.
    ended: Cell<u16>,
    /// A disk that is full now and then.
    small: Cell<Option<HostId>>,
}

impl Run {
    /// Whether somebody appends, or has died and will come back to do so.
    fn is_going_on(&self) -> bool {
        let dead = !self.members.get() & !self.ended.get() & ((1 << HOSTS) - 1);
        self.busy.get() > 0 || dead != 0
    }
}

/// Counts a worker out when it ends, or dies.
struct Busy(Rc<Run>, HostId, WorkerId);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.set(self.0.busy.get() - 1);
    }
}

/// Takes a host out of the members when its shipper ends, or dies.
struct Member(Rc<Run>, HostId);

impl Drop for Member {
    fn drop(&mut self) {
        self.0.members.set(self.0.members.get() & !(1 << self.1.0));
    }
}

struct Pod {
    sim: Simulation,
    plan: Plan,
    run: Rc<Run>,
}

fn pod(seed: u64, kills: Vec<Kill>, left_out: Option<&LeftOut>) -> Pod {
    pod_with(seed, kills, None, left_out)
}

/// `small`: the host whose disk takes no space ahead, and is full now and then.
fn pod_with(seed: u64, kills: Vec<Kill>, small: Option<HostId>, left_out: Option<&LeftOut>) -> Pod {
    let shape = PodConfig { log_ring_bytes: 1024, ..PodConfig::small(HOSTS, WRITERS + 1) };
    let plan = Plan::new(&shape).expect("a valid configuration");
    let mut sim = Simulation::new(SimConfig { kills, ..config(&plan, seed, true, left_out) });
    small.iter().for_each(|host| sim.disks().plan(*host, DiskFault::TakesNothingAhead));
    let run = Rc::new(Run { small: Cell::new(small), ..Run::default() });
    run.members.set((1 << HOSTS) - 1);
    for id in (0..HOSTS).map(HostId) {
        let its_plan = plan.clone();
        let log = sim.alone(id, WorkerId(WRITERS), move |cx| host_log(cx, &its_plan, 1));
        let log = Rc::new(log);
        for worker in (0..WRITERS).map(WorkerId) {
            run.busy.set(run.busy.get() + 1);
            let (log, busy) = (Rc::clone(&log), Busy(Rc::clone(&run), id, worker));
            sim.spawn(id, worker, move |cx| write(cx, &log, &busy));
        }
        let member = Member(Rc::clone(&run), id);
        let (its_plan, disks) = (plan.clone(), sim.disks());
        sim.spawn(id, WorkerId(WRITERS), move |cx| ship(cx, &its_plan, &log, &member, &disks));
    }
    Pod { sim, plan, run }
}

fn host_log(cx: &Cx<Sim>, plan: &Plan, incarnation: u16) -> HostLog {
    let disk = Disk::simulated(cx, cx.host()).expect("nobody holds it");
    HostLog::new(cx, plan, incarnation, &disk, OPTIONS).expect("a good disk")
}

fn write(cx: &Cx<Sim>, log: &HostLog, busy: &Busy) {
    let run = &busy.0;
    let (mut mine, mut record): (WorkerLog, _) = (log.worker(cx, cx.worker()), RecordWriter::default());
    for number in 0..RECORDS {
        record.begin();
        record.change((TableId(1), PartitionId(0)), Op::Insert, &Key::from_words(&[number]), 0);
        record.piece(0, &vec![number as u8; cx.random_below(220) as usize]);
        let promise = loop {
            match mine.promise(cx, log, &record, false, |_| ()) {
                Ok(promise) => break promise,
                Err(AppendError::Refused(Refusal::Full(_))) if run.small.get().is_some() => cx.pause(),
                Err(AppendError::Refused(_)) => return,
                Err(refused) => panic!("{refused}"),
            }
        };
        let llsn = log.clock().begin_commit(cx, cx.worker(), 0).llsn + number;
        let epoch = epoch_of(llsn);
        let appended = mine.append(cx, log, &mut record, promise, llsn, |_| ());
        if let Ok(position) = appended {
            run.committed.borrow_mut().insert((busy.1.0, busy.2.0, position), llsn);
        }
        log.clock().end_commit(cx, cx.worker());
        if appended.is_err() {
            assert!(log.failure().is_some(), "{appended:?}");
            return;
        }
        if cx.random_below(3) == 0 && log.wait_durable(cx, epoch, |_| run.members.get()).is_ok() {
            run.told.set(run.told.get().max(epoch));
        }
    }
}

fn ship(cx: &Cx<Sim>, plan: &Plan, log: &HostLog, member: &Member, disks: &SimDisks) {
    let run = &member.0;
    while run.is_going_on() {
        if run.small.get() == Some(cx.host()) {
            match cx.random_below(40) {
                0 => disks.leave_room(cx.host(), cx.random_below(500)),
                1 => disks.leave_room(cx.host(), 1 << 40),
                _ => {}
            }
        }
        // A failure is told to the writers.
        let _ = log.step(cx, run.members.get());
        cx.pause();
    }
    // Nobody appends any more: the others' rings can be read, whatever this host has cached of them.
    for host in (0..HOSTS).map(HostId).filter(|&host| host != cx.host()) {
        for worker in (0..WRITERS).map(WorkerId) {
            read_ring(cx, &RingReader::new(plan, host, worker));
        }
    }
    run.ended.set(run.ended.get() | 1 << cx.host().0);
}

/// What is not shipped begins and ends with whole records.
fn read_ring(cx: &Cx<Sim>, ring: &RingReader) {
    let (mut head, tail, mut bytes) = (ring.head(cx), ring.tail(cx), Vec::new());
    ring.read(cx, head, tail, &mut bytes);
    while !bytes.is_empty() {
        let record = Record::parse(&bytes).expect("a whole record");
        assert_eq!(record.position(), head);
        head += record.len() as u64;
        bytes.drain(..record.len());
    }
}

fn all_live(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    finish(pod(seed, Vec::new(), left_out))
}

fn one_dies(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let domains = [CrashDomain::Host, CrashDomain::Process, CrashDomain::HostPersistent];
    die(seed, KillAt::RandomStep(2400), domains[seed as usize % 3], left_out)
}

/// Host 0 dies there, and comes back.
pub fn die(seed: u64, at: KillAt, domain: CrashDomain, left_out: Option<&LeftOut>) -> Ran {
    let host = HostId(0);
    let mut pod = pod(seed, vec![Kill { host, at, domain }], left_out);
    let (plan, run) = (pod.plan.clone(), Rc::clone(&pod.run));
    pod.sim.spawn_after_crash(host, WorkerId(0), move |cx| next_life(cx, &plan, &run));
    finish(pod)
}

/// A new life of a dead host: ships what is left, and appends some more.
fn next_life(cx: &Cx<Sim>, plan: &Plan, run: &Rc<Run>) {
    run.busy.set(run.busy.get() + 1);
    let busy = Busy(Rc::clone(run), cx.host(), cx.worker());
    let log = host_log(cx, plan, 2);
    run.members.set(run.members.get() | 1 << cx.host().0);
    let _member = Member(Rc::clone(run), cx.host());
    let (mut mine, mut record) = (log.worker(cx, cx.worker()), RecordWriter::default());
    for number in 0..RECORDS / 2 {
        record.begin();
        record.change((TableId(1), PartitionId(0)), Op::Delete, &Key::from_words(&[number]), 1);
        let step = |cx: &Cx<Sim>| {
            log.step(cx, run.members.get()).expect("a good disk");
        };
        let promise = mine.promise(cx, &log, &record, true, step).expect("a good disk");
        let llsn = log.clock().begin_commit(cx, cx.worker(), 0).llsn + number;
        let position = mine.append(cx, &log, &mut record, promise, llsn, step).expect("room");
        run.committed.borrow_mut().insert((busy.1.0, busy.2.0, position), llsn);
        log.clock().end_commit(cx, cx.worker());
        step(cx);
    }
    // Whoever waits needs this host's marks.
    while run.busy.get() > 1 {
        log.step(cx, run.members.get()).expect("a good disk");
        cx.pause();
    }
    run.ended.set(run.ended.get() | 1 << cx.host().0);
}

fn device_fails(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let pod = pod(seed, Vec::new(), left_out);
    let mut pick = Picker::new(seed);
    let fault = match pick.below(3) {
        0 => DiskFault::FailSync { after: pick.below(8) },
        1 => DiskFault::FullAfter { bytes: 500 + pick.below(3000) },
        _ => DiskFault::FailAfter { calls: pick.below(40) },
    };
    pod.sim.disks().plan(HostId(0), fault);
    finish(pod)
}

fn device_is_full(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    finish(pod_with(seed, Vec::new(), Some(HostId(0)), left_out))
}

/// Runs it; then all hosts lose power, and what is in memory and on disk is looked at from the last host.
fn finish(mut pod: Pod) -> Ran {
    let report = pod.sim.run();
    Ran::new(report, || {
        pod.sim.disks().lose_power();
        for host in 0..HOSTS {
            check_host(&mut pod, HostId(host)).map_err(|e| format!("host {host}: {e}"))?;
        }
        Ok(())
    })
}

/// What a disk holds: the streams of its rings, and how long they were at each mark.
#[derive(Default)]
struct OnDisk {
    streams: BTreeMap<u8, Vec<u8>>,
    marks: Vec<(u64, BTreeMap<u8, u64>)>,
}

fn read_disk(disks: &SimDisks, host: HostId) -> Result<OnDisk, String> {
    let mut found = OnDisk::default();
    for (name, bytes) in disks.files(host) {
        let Some(number) = segment_number(&name) else { return Err(format!("a file {name}")) };
        // Its writer died while it started it.
        let Ok(head) = SegmentHead::decode(&bytes) else { continue };
        if (head.host, head.number) != (host, number) {
            return Err(format!("{head:?} in segment {number}"));
        }
        let (frames, mut at) = (head.frames(), SEGMENT_HEAD_BYTES);
        while let Ok(frame) = frames.parse(&bytes, at) {
            at += frame.len();
            match frame.kind {
                FrameKind::Records { worker, position, .. } => {
                    let stream = found.streams.entry(worker).or_default();
                    // A new life ships again what the last one had no time to release.
                    let again = (stream.len() as u64).checked_sub(position).map(|n| n as usize);
                    let again =
                        again.ok_or_else(|| format!("{} bytes, then {:?}", stream.len(), frame.kind))?;
                    let (known, new) = frame.payload.split_at(again.min(frame.payload.len()));
                    let at = position as usize;
                    if stream[at..at + known.len()] != *known {
                        return Err(format!("worker {worker}: {position} is not what it was"));
                    }
                    stream.extend_from_slice(new);
                }
                FrameKind::Closed { .. } => return Err("nobody closes a log here".to_owned()),
                FrameKind::Mark { epoch, .. } => {
                    let lens = found.streams.iter().map(|(&worker, stream)| (worker, stream.len() as u64));
                    found.marks.push((epoch, lens.collect()));
                }
            }
        }
    }
    Ok(found)
}

/// What recovery would see of it: an end, and every mark, but no damage.
fn check_scan(disks: &SimDisks, host: HostId, stated: u64) -> Result<(), String> {
    let mut scanner = Scanner::new(OPTIONS.pod, host);
    for (name, bytes) in disks.files(host) {
        scanner.segment(segment_number(&name).ok_or("not a segment")?, &bytes, |_, _| ());
    }
    let scan = scanner.finish();
    match scan.end {
        End::Damaged { at, why } => Err(format!("a scan says that {at:?} is damaged: {why}")),
        _ if scan.marks.last != stated => Err(format!("a scan sees {:?}, marked is {stated}", scan.marks)),
        _ => Ok(()),
    }
}

fn check_host(pod: &mut Pod, host: HostId) -> Result<(), String> {
    let OnDisk { mut streams, marks } = read_disk(&pod.sim.disks(), host)?;
    let plan = pod.plan.clone();
    let (durable, rings) = pod.sim.alone(HostId(HOSTS - 1), WorkerId(0), move |cx| {
        let ring = |worker| {
            let ring = RingReader::new(&plan, host, WorkerId(worker));
            let (head, tail, mut bytes) = (ring.head(cx), ring.tail(cx), Vec::new());
            ring.read(cx, head, tail, &mut bytes);
            (worker, head, bytes)
        };
        (cx.load(plan.log_line(host)), (0..WRITERS).map(ring).collect::<Vec<_>>())
    });
    let stated = marks.iter().map(|mark| mark.0).max().unwrap_or(0);
    check_scan(&pod.sim.disks(), host, stated)?;
    if durable > stated {
        return Err(format!("epoch {durable} was told, the last mark says {stated}"));
    }
    let mut versions = Committed::new();
    for (worker, head, bytes) in rings {
        let stream = streams.entry(worker).or_default();
        if (stream.len() as u64) < head {
            return Err(format!("worker {worker}: head {head}, on disk {}", stream.len()));
        }
        // The disk may have more than the head says.
        let known = (stream.len() as u64 - head).min(bytes.len() as u64) as usize;
        stream.extend_from_slice(&bytes[known..]);
        let mut position = 0;
        while position < stream.len() {
            let record =
                Record::parse(&stream[position..]).map_err(|e| format!("{worker} at {position}: {e}"))?;
            versions.insert((host.0, worker, position as u64), record.llsn());
            position += record.len();
        }
    }
    let committed = pod.run.committed.borrow();
    for (at, &llsn) in committed.iter().filter(|(at, _)| at.0 == host.0) {
        if versions.get(at) != Some(&llsn) {
            return Err(format!("{at:?} of version {llsn} is {:?}", versions.get(at)));
        }
    }
    check_marks(&versions, &marks, if host.0 == HOSTS - 1 { pod.run.told.get() } else { 0 }, stated)
}

/// Each mark is behind all records of its epoch and before.
fn check_marks(
    versions: &Committed,
    marks: &[(u64, BTreeMap<u8, u64>)],
    told: u64,
    stated: u64,
) -> Result<(), String> {
    for (epoch, lens) in marks {
        for (at @ &(_, worker, position), &llsn) in versions {
            if epoch_of(llsn) <= *epoch && position >= lens.get(&worker).copied().unwrap_or(0) {
                return Err(format!("{at:?} of epoch {} is behind the mark of {epoch}", epoch_of(llsn)));
            }
        }
    }
    if told > stated { Err(format!("a client was told {told}, the last mark says {stated}")) } else { Ok(()) }
}
