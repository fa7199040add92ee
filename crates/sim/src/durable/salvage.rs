//! A pod whose hosts all die at once, and whose memory does not: whoever starts it again puts what only the
//! rings hold into the logs, and dies over that now and then.
//!
//! Checked here, beside what [`super`] checks of every next life:
//! 1. Nobody salvages while a host lives.
//! 2. A byte of a ring that has changed is found, and named by host and worker.
//! 3. Done a second time, when the pod's next generation has begun, it finds nothing to do.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use liger_engine::files::segment_name;
use liger_engine::log::scan::Scanner;
use liger_engine::recovery::directory::{Directory, PodFiles};
use liger_engine::recovery::salvage::{Dead, SalvageError, salvage};
use liger_engine::recovery::{Identity, Plan, Reading, begin_generation};
use liger_fabric::disk::SimDisks;
use liger_fabric::sim::{CrashDomain, Report, Sim};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::plan::Plan as Memory;

use super::Storage;
use crate::Picker;
use crate::pod::{Kept, SimPod, directories};

const DOMAINS: [CrashDomain; 3] = [CrashDomain::Process, CrashDomain::Host, CrashDomain::HostPersistent];

/// A transaction that left a record: host, worker, version.
pub(super) type Named = (u8, u8, u64);

/// Plans the death of all hosts after so many verbs, each in a domain of its own.
pub(super) fn kill_all<M: Kept>(pod: &mut SimPod<M>, verbs: u64, pick: &mut Picker) {
    for host in 0..pod.hosts.len() as u8 {
        pod.sim.kill_after(HostId(host), verbs, DOMAINS[pick.below(3) as usize]);
    }
}

/// Waits until everybody is dead that was to die in a run that has ended.
pub(super) fn until_all_are_dead<M: Kept>(pod: &mut SimPod<M>, report: &Report) {
    for (host, reported) in report.hosts.iter().enumerate() {
        if reported.killed.is_empty() {
            let epoch = pod.plan.epoch_word();
            let idle = move |cx: &Cx<Sim>| loop {
                cx.load(epoch);
            };
            pod.sim.spawn(HostId(host as u8), WorkerId(0), idle);
        }
    }
    let report = pod.sim.run();
    assert!(report.completed(), "nobody is left to wait for anything: {}", report.outcome);
}

/// Tries it while all hosts live.
pub(super) fn is_refused_to_the_living<M: Kept>(pod: &mut SimPod<M>, identity: Identity) -> Option<String> {
    let (memory, said) = (pod.plan.clone(), Rc::new(RefCell::new(None)));
    let answer = Rc::clone(&said);
    pod.sim.spawn(HostId(0), WorkerId(0), move |cx| {
        let look = |host| PodFiles::Simulated.look(HostId(host)).expect("simulated");
        let directories: Vec<Directory> = (0..identity.hosts).map(look).collect();
        let mut reading = Reading::begin(cx, &directories, &identity).expect("intact files");
        *answer.borrow_mut() = Some(salvage(cx, &memory, &directories, &mut reading, Dead::Proven));
    });
    let report = pod.sim.run();
    match said.take() {
        Some(Err(SalvageError::Living { .. })) if report.completed() => None,
        said => Some(format!("all hosts live, and salvage says {said:?}: {}", report.outcome)),
    }
}

/// What a try to start the pod again came to: the last epoch that counts, what is to be recovered, and the
/// transactions that logs have records of.
pub(super) type Begun = (u64, Plan, BTreeSet<Named>);

/// Salvages, and begins the pod's next generation; in as many tries as it takes.
pub(super) fn begin<M: Kept>(
    pod: &mut SimPod<M>,
    storage: &Storage,
    pick: &mut Picker,
) -> Result<Begun, String> {
    if pick.chance(70)
        && let Some(problem) = damage_is_named(pod, storage, pick)
    {
        return Err(problem);
    }
    let durable = Rc::new(RefCell::new(None));
    loop {
        if pick.chance(50) {
            pod.sim.kill_after(HostId(0), 1 + pick.below(400), DOMAINS[pick.below(3) as usize]);
        }
        let (memory, identity, known) = (pod.plan.clone(), storage.identity, Rc::clone(&durable));
        let ended = on_host_0(pod, identity.hosts, move |cx, directories| {
            let mut reading = Reading::begin(cx, directories, &identity).map_err(|e| e.to_string())?;
            let salvaged =
                salvage(cx, &memory, directories, &mut reading, Dead::Proven).map_err(|e| e.to_string())?;
            let plan = reading.finish().map_err(|e| e.to_string())?;
            let first_try = known.borrow().is_none();
            if first_try {
                *known.borrow_mut() = Some((plan.durable_epoch, plan.pod.generation));
            }
            let (durable, generation) = known.borrow().expect("just said");
            if plan.pod.generation == generation {
                // An earlier try may have put some of it into logs; then more counts now.
                *known.borrow_mut() = Some((plan.durable_epoch.max(durable), generation));
                begin_generation(cx, directories, &plan).map_err(|e| e.to_string())?;
            } else if salvaged.is_some() {
                return Err(format!("{salvaged:?} when generation {} had begun", plan.pod.generation));
            }
            let again = Reading::begin(cx, directories, &identity).map_err(|e| e.to_string())?;
            Ok((known.borrow().expect("said").0, again.finish().map_err(|e| e.to_string())?))
        });
        if let Some(ended) = ended {
            let (durable, plan) = ended?;
            let logged = logged(&storage.disks, &plan);
            return Ok((durable, plan, logged));
        }
    }
}

/// Runs `body` on host 0, which holds all disks; `None` if it was killed.
fn on_host_0<M: Kept, R: 'static>(
    pod: &mut SimPod<M>,
    hosts: u8,
    body: impl FnOnce(&Cx<Sim>, &[Directory]) -> Result<R, String> + 'static,
) -> Option<Result<R, String>> {
    let ended = Rc::new(RefCell::new(None));
    let slot = Rc::clone(&ended);
    pod.sim.spawn(HostId(0), WorkerId(0), move |cx| {
        *slot.borrow_mut() = Some(body(cx, &directories(cx, hosts)));
    });
    let report = pod.sim.run();
    let found = ended.borrow_mut().take();
    if report.completed() { found } else { Some(Err(report.outcome.to_string())) }
}

/// Changes a byte of a record that was not shipped, looks what is said, and changes it back.
fn damage_is_named<M: Kept>(pod: &mut SimPod<M>, storage: &Storage, pick: &mut Picker) -> Option<String> {
    let (memory, identity) = (pod.plan.clone(), storage.identity);
    let (which, offset, bit) = (pick.below(1 << 20), pick.below(1 << 20), pick.below(8));
    let said = on_host_0(pod, identity.hosts, move |cx, directories| {
        let Some((host, worker, at)) = pick_byte(cx, &memory, which, offset) else { return Ok(()) };
        flip(cx, at, bit);
        let mut reading = Reading::begin(cx, directories, &identity).map_err(|e| e.to_string())?;
        let said = salvage(cx, &memory, directories, &mut reading, Dead::Proven);
        flip(cx, at, bit);
        match said {
            Err(SalvageError::Ring(damaged)) if (damaged.host, damaged.worker) == (host, worker) => Ok(()),
            said => {
                Err(format!("byte {at:?} of {worker:?} of {host:?} has changed, and this is said: {said:?}"))
            }
        }
    });
    said.expect("nobody is killed").err()
}

/// A byte between head and tail of a ring.
fn pick_byte(
    cx: &Cx<Sim>,
    memory: &Memory,
    which: u64,
    offset: u64,
) -> Option<(HostId, WorkerId, liger_fabric::DataAddr)> {
    let workers = memory.config().workers;
    let rings = memory.hosts().flat_map(|host| (0..workers).map(move |worker| (host, WorkerId(worker))));
    let held = rings.filter_map(|(host, worker)| {
        let line = memory.ring_line(host, worker);
        // The tail's upper bits are its end, in words.
        let (tail, head) = ((cx.load(line) >> 20) * 8, cx.load(line.word(1)));
        (tail > head).then_some((host, worker, head, tail))
    });
    let held: Vec<_> = held.collect();
    let &(host, worker, head, tail) = held.get((which as usize).checked_rem(held.len())?)?;
    let (bytes, len) = memory.ring_bytes(host, worker);
    Some((host, worker, bytes.byte((head + offset % (tail - head)) & (len - 1))))
}

fn flip(cx: &Cx<Sim>, at: liger_fabric::DataAddr, bit: u64) {
    let mut byte = [0];
    cx.refresh(at, &mut byte);
    byte[0] ^= 1 << bit;
    cx.publish(at, &byte);
    cx.fence();
}

/// What the logs have records of.
fn logged(disks: &SimDisks, plan: &Plan) -> BTreeSet<Named> {
    let mut logged = BTreeSet::new();
    for files in &plan.hosts {
        let host = files.manifest.host;
        let mut scanner = Scanner::new(plan.pod.pod, host);
        let all = disks.files(host);
        for &number in &files.segments {
            let name = segment_name(number);
            let (_, bytes) = all.iter().find(|(found, _)| *found == name).expect("it was read just now");
            scanner.segment(number, bytes, |record, _| {
                logged.insert((host.0, record.origin().worker, record.llsn()));
            });
        }
    }
    logged
}
