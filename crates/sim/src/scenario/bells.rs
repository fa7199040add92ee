//! Hosts that sleep until they are woken: nobody sleeps for ever, whatever happens between a look and the
//! sleep.
//!
//! A simulated sleeper wakes only when its bell is rung (`liger_fabric::sim`), so each ring that is left out,
//! or that comes before what it is for, ends in a run in which all sleep.

use std::cell::Cell;
use std::rc::Rc;

use liger_engine::log::HostLog;
use liger_engine::log::record::{Op, RecordWriter, epoch_of};
use liger_engine::{Key, TableId};
use liger_fabric::disk::Disk;
use liger_fabric::sim::{Sim, Simulation};
use liger_fabric::{Cx, HostId, UNTIL_RUNG, WorkerId};
use liger_pod::bells::{self, Bell, bell};
use liger_pod::lanes::{Addressee, Lanes};
use liger_pod::plan::{PartitionId, Plan, PodConfig};

use super::log::OPTIONS;
use super::{LeftOut, Ran, Scenario, config};

/// Mail that wakes its receiver, and logs whose shippers and waiting writers sleep.
pub const SCENARIOS: &[Scenario] =
    &[Scenario { name: "bells-mail", run: mail }, Scenario { name: "bells-log", run: logs }];

const HOSTS: u8 = 3;
const LAPS: u32 = 12;

/// A message goes round, and everybody sleeps but the one who has it.
fn mail(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let plan = Plan::new(&PodConfig::small(HOSTS, 1)).expect("a valid configuration");
    let mut sim = Simulation::new(config(&plan, seed, true, left_out));
    for host in 0..HOSTS {
        let lanes_plan = plan.clone();
        let lanes = sim.alone(HostId(host), WorkerId(0), move |cx| Lanes::new(cx, &lanes_plan, 1));
        let plan = plan.clone();
        sim.spawn(HostId(host), WorkerId(0), move |cx| {
            let next = Addressee::of(HostId((host + 1) % HOSTS), 1);
            let send =
                |lap: u32| lanes.try_send(cx, next, &lap.to_le_bytes()).expect("an empty lane has room");
            if host == 0 {
                send(0);
            }
            let mut seen = 0;
            while seen < LAPS {
                let look = || {
                    let taken = lanes.poll(cx, |_, bytes| {
                        let lap = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
                        assert_eq!(lap, seen, "laps come in order");
                        seen += 1;
                        if host != 0 {
                            send(lap);
                        } else if seen < LAPS {
                            send(seen);
                        }
                    });
                    if taken > 0 { 0 } else { UNTIL_RUNG }
                };
                cx.doze(bell(&plan, cx.host(), Bell::Work), look);
            }
        });
    }
    Ran::new(sim.run(), || Ok(()))
}

/// Writers commit now and then and sleep until that is durable in the whole pod; shippers sleep as long as
/// they may.
fn logs(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let pod = PodConfig { log_ring_bytes: 1 << 10, ..PodConfig::small(HOSTS, 1) };
    let plan = Plan::new(&pod).expect("a valid configuration");
    let mut sim = Simulation::new(config(&plan, seed, true, left_out));
    let members = (1 << HOSTS) - 1;
    let logs: Vec<Rc<HostLog>> = (0..HOSTS)
        .map(|host| {
            let plan = plan.clone();
            let open = move |cx: &Cx<Sim>| {
                let disk = Disk::simulated(cx, cx.host()).expect("nobody holds it");
                HostLog::new(cx, &plan, 1, &disk, OPTIONS).expect("a good disk")
            };
            Rc::new(sim.alone(HostId(host), WorkerId(0), open))
        })
        .collect();
    let writing = Rc::new(Cell::new(HOSTS));
    for (host, log) in (0..HOSTS).zip(logs) {
        let (its_log, its_plan, done) = (Rc::clone(&log), plan.clone(), Rc::clone(&writing));
        sim.spawn(HostId(host), WorkerId(0), move |cx| {
            write(cx, &its_plan, &its_log, members);
            done.set(done.get() - 1);
            bells::ring_all(cx, &its_plan, Bell::Log);
        });
        let (plan, writing) = (plan.clone(), Rc::clone(&writing));
        sim.spawn(HostId(host), WorkerId(1), move |cx| {
            while writing.get() > 0 {
                let turn = || match writing.get() {
                    0 => 0,
                    _ => log.step(cx, members).expect("a good disk"),
                };
                if turn() > 0 {
                    cx.doze(bell(&plan, cx.host(), Bell::Log), turn);
                }
            }
        });
    }
    Ran::new(sim.run(), || Ok(()))
}

fn write(cx: &Cx<Sim>, plan: &Plan, log: &HostLog, members: u16) {
    let (mut mine, mut record) = (log.worker(cx, cx.worker()), RecordWriter::default());
    for number in 0..8 {
        record.begin();
        record.change((TableId(1), PartitionId(0)), Op::Insert, &Key::from_words(&[number]), 0);
        record.piece(0, &vec![number as u8; cx.random_below(220) as usize]);
        let promise = mine.promise(cx, log, &record, false, |_| ()).expect("a good disk");
        let llsn = log.clock().begin_commit(cx, cx.worker(), 0).llsn + number;
        let epoch = epoch_of(llsn);
        mine.append(cx, log, &mut record, promise, llsn, |_| ()).expect("room comes");
        log.clock().end_commit(cx, cx.worker());
        if cx.random_below(2) == 0 {
            let durable = || log.is_durable(cx, epoch, || members).expect("a good disk");
            while !durable() {
                let look = || if durable() { 0 } else { UNTIL_RUNG };
                cx.doze(bell(plan, cx.host(), Bell::Durable), look);
            }
        }
    }
}
