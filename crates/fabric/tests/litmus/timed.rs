//! Virtual time: the published figures that the model must reproduce, and what costs what.

use super::*;
use liger_fabric::Work;
use liger_fabric::sim::{CrashDomain, Kill, KillAt, Profile};
use std::sync::Arc;

fn pod(profile: &str, hosts: usize, len: usize) -> SimConfig {
    let profile = Profile::built_in(profile).unwrap_or_else(|error| panic!("{error}"));
    SimConfig::timed(hosts, len, 1, Arc::new(profile))
}

/// Virtual nanoseconds per turn when `hosts` x `workers` do `times` turns each.
fn closed_loop(
    config: SimConfig,
    workers: u8,
    times: u64,
    turn: impl Fn(&Cx<liger_fabric::sim::Sim>, u64) + Clone + 'static,
) -> f64 {
    let hosts = config.hosts as u8;
    let mut sim = Simulation::new(config);
    for (host, worker) in (0..hosts).flat_map(|host| (0..workers).map(move |worker| (host, worker))) {
        let turn = turn.clone();
        sim.spawn(HostId(host), WorkerId(worker), move |cx| (0..times).for_each(|i| turn(cx, i)));
    }
    sim.run().expect_completed().virtual_ns as f64 / times as f64
}

fn near(measured: f64, published: f64, percent: f64) {
    let off = (measured / published - 1.0).abs() * 100.0;
    assert!(off <= percent, "{measured:.0} ns is {off:.1} % off {published} ns");
}

#[test]
fn message_passing_works_on_every_machine() {
    for name in Profile::built_in_names() {
        let mut sim = Simulation::new(pod(name, 2, LEN));
        message_passing(&mut sim, Omit::Nothing, 300);
        let report = sim.run().expect_completed();
        assert!(report.virtual_ns > 100, "{name}: {} ns", report.virtual_ns);
    }
}

/// 0.3 us alone and 29.9 us at 96 threads on one word; flat on different words (Guidelines for PCC indexes).
#[test]
fn loads_of_one_bypassing_word_queue_up() {
    near(closed_loop(pod("pcc-spr", 1, LEN), 1, 500, |cx, _| _ = cx.load(FLAG)), 311.0, 1.0);
    near(closed_loop(pod("pcc-spr", 16, LEN), 6, 500, |cx, _| _ = cx.load(FLAG)), 29_900.0, 2.0);
    let own = |cx: &Cx<_>, _| {
        _ = cx.load(FLAG.line(u64::from(cx.host().0) * 6 + u64::from(cx.worker().0)));
    };
    near(closed_loop(pod("pcc-spr", 16, 8192), 6, 500, own), 311.0, 1.0);
}

/// 474 ns alone and 9 us at 64 threads (Guidelines for PCC indexes).
#[test]
fn swaps_of_one_bypassing_word_queue_up() {
    let swap = |cx: &Cx<_>, _| _ = cx.compare_exchange(FLAG, 0, 1);
    near(closed_loop(pod("pcc-spr", 1, LEN), 1, 500, swap), 474.0, 1.0);
    near(closed_loop(pod("pcc-spr", 16, LEN), 4, 500, swap), 9_000.0, 5.0);
}

#[test]
fn misses_cost_latency_and_hits_do_not() {
    let len = 1 << 20;
    let fresh = |cx: &Cx<_>, i| cx.read(DATA.byte(i * 64), &mut [0; 8]);
    near(closed_loop(pod("tigon-osdi25", 1, len), 1, 1000, fresh), 259.0 + 8.0, 3.0);
    let again = |cx: &Cx<_>, _| cx.read(DATA, &mut [0; 8]);
    assert!(closed_loop(pod("tigon-osdi25", 1, len), 1, 1000, again) < 6.0);
    let refreshed = |cx: &Cx<_>, _| cx.refresh(DATA, &mut [0; 8]);
    assert!(closed_loop(pod("tigon-osdi25", 1, len), 1, 1000, refreshed) > 259.0);
    assert!(closed_loop(pod("dram", 1, len), 1, 1000, refreshed) < 40.0, "coherent data stay cached");
}

#[test]
fn the_device_saturates() {
    let (len, chunk) = (64 << 20, 64 << 10);
    let scan = move |cx: &Cx<_>, i| {
        let worker = u64::from(cx.host().0) * 3 + u64::from(cx.worker().0);
        cx.read(DataAddr::new((worker * 20 + i) * chunk as u64), &mut vec![0; chunk]);
    };
    let ns = closed_loop(pod("tigon-osdi25", 8, len), 3, 20, scan);
    let gb_per_s = 24.0 * chunk as f64 / ns;
    assert!((25.0..=31.9).contains(&gb_per_s), "{gb_per_s} GB/s");
}

#[test]
fn ownership_of_a_coherent_word_travels() {
    let add = |cx: &Cx<_>, _| _ = cx.fetch_add(FLAG, 1);
    let alone = closed_loop(pod("tigon-osdi25", 1, LEN), 1, 1000, add);
    let contended = closed_loop(pod("tigon-osdi25", 2, LEN), 1, 1000, add);
    assert!(alone < 15.0 && contended > 100.0, "{alone} ns alone, {contended} ns contended");
}

#[test]
fn computation_and_waiting_take_virtual_time() {
    near(closed_loop(pod("dram", 1, LEN), 1, 10, |cx, _| cx.spend(Work::Row, 10)), 550.0, 0.1);
    let mut sim = Simulation::new(pod("dram", 2, LEN));
    sim.spawn(HostId(0), WorkerId(0), |cx| {
        cx.spend(Work::Transaction, 10_000);
        cx.store(FLAG, 1);
    });
    sim.spawn(HostId(1), WorkerId(0), |cx| wait_for(cx, FLAG, 1));
    let report = sim.run().expect_completed();
    near(report.virtual_ns as f64, 14_900_000.0, 1.0);
    assert!(report.verbs < 20_000, "{} verbs to wait 15 ms", report.verbs);
    let used = &report.time_use;
    assert_eq!(used.units[Work::Transaction as usize], (10_000, 14_900_000_000));
    near(used.waiting_ps as f64 + used.sync_ps as f64, used.compute_ps() as f64, 1.0);
}

#[test]
fn a_host_dies_in_virtual_time_too() {
    let mut config = pod("dram", 2, LEN);
    config.kills.push(Kill { host: HostId(0), at: KillAt::HostStep(100), domain: CrashDomain::Host });
    let mut sim = Simulation::new(config);
    sim.spawn(HostId(0), WorkerId(0), |cx| wait_for(cx, FLAG, 1));
    sim.spawn_after_crash(HostId(0), WorkerId(1), |cx| cx.store(FLAG, 2));
    sim.spawn(HostId(1), WorkerId(0), |cx| wait_for(cx, FLAG, 2));
    sim.run().expect_completed();
}

#[test]
fn equal_runs_have_equal_hashes() {
    let run = || {
        let mut sim = Simulation::new(pod("tigon-osdi25", 4, LEN));
        for host in 0..4 {
            sim.spawn(HostId(host), WorkerId(0), |cx| {
                (0..100).for_each(|_| _ = cx.fetch_add(FLAG, cx.random_below(9)));
            });
        }
        sim.run().expect_completed().trace_hash
    };
    assert_eq!(run(), run());
}
