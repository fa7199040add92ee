//! The meter by a clock of the test's own: no time passes but what the model charges.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;

const POD: u64 = 1 << 20;
const NS: u64 = 1000;

fn profile(name: &str) -> Profile {
    Profile::built_in(name).expect("built in")
}

/// Workers, `per_host` of each of `hosts`, of one pod.
fn meters(profile: &Profile, hosts: usize, per_host: usize) -> Vec<Meter> {
    let clocks = Clocks::create(profile, POD).expect("this machine has a counter");
    let host = |host| Arc::new(HostMeter::new(clocks.clone(), profile, host));
    (0..hosts).map(host).flat_map(|host| (0..per_host).map(move |_| host.worker())).collect()
}

/// So many users do `verb` one after the other, again as soon as it is done: the mean latency in ns, once the
/// queue has its length.
fn closed_loop(profile: &Profile, users: usize, verb: impl Fn(&Meter, u64) -> u64) -> f64 {
    let workers = meters(profile, 2, users.div_ceil(2));
    let mut ready: BinaryHeap<_> = (0..users).map(|user| Reverse((0, user))).collect();
    let (warm_up, measured) = (20 * users, 200 * users);
    let mut total = 0;
    for round in 0..warm_up + measured {
        let Reverse((now, user)) = ready.pop().expect("all users go on");
        let end = verb(&workers[user], now);
        total += if round >= warm_up { end - now } else { 0 };
        ready.push(Reverse((end, user)));
    }
    total as f64 / measured as f64 / NS as f64
}

fn near(seen: f64, expected: f64, percent: f64) {
    assert!((seen / expected - 1.0).abs() <= percent / 100.0, "{seen} ns, not about {expected} ns");
}

/// Guidelines for PCC indexes: 0.3 us alone, 29.9 us at 96 threads on one address.
#[test]
fn loads_of_one_line_take_their_turns() {
    let pcc = profile("pcc-spr");
    for users in [1, 2, 16, 96] {
        let latency = closed_loop(&pcc, users, |meter, now| meter.load(0, now).expect("charged"));
        near(latency, 311.0 * users as f64, 0.1);
    }
    near(closed_loop(&pcc, 96, |meter, now| meter.load(0, now).expect("charged")), 29_900.0, 1.0);
    let apart =
        closed_loop(&pcc, 96, |meter, now| meter.load((meter.me as u64 % 4096) * 128, now).expect("charged"));
    assert!(apart < 2.1 * 311.0, "different lines do not wait for one another: {apart}");
}

/// 474 ns alone, 9 us at 64 threads: 339 + 135 ns for each in the queue. In a closed loop a user spends the
/// fixed part outside of the queue, which is therefore a little shorter than the number of users.
#[test]
fn swaps_of_one_queue_take_their_turns() {
    let pcc = profile("pcc-spr");
    let swap = |meter: &Meter, now| meter.swap(0, now).expect("charged");
    near(closed_loop(&pcc, 1, swap), 474.0, 0.1);
    near(closed_loop(&pcc, 64, swap), 339.0 + 135.0 * 64.0, 5.0);
    near(closed_loop(&pcc, 64, swap), 9000.0, 5.0);
    // All at once: exactly.
    let at_once: Vec<u64> = meters(&pcc, 2, 32).iter().map(|meter| swap(meter, 7 * NS)).collect();
    let fit: Vec<u64> = (1..=64).map(|queued| (7 + 339 + 135 * queued) * NS).collect();
    assert_eq!(at_once, fit);
}

/// No schedule moves more through a link, or through the device, than it can.
#[test]
fn bandwidth_is_bounded() {
    let mut narrow = profile("polar-xconn");
    narrow.memory.link_gb_per_s.value = 1.0;
    narrow.memory.device_gb_per_s.value = 1.5;
    for (hosts, limit) in [(1, 1.0), (2, 1.5), (4, 1.5)] {
        let workers = meters(&narrow, hosts, 2);
        let mut clocks = vec![0; workers.len()];
        let lines_each = POD / LINE as u64 / workers.len() as u64;
        for part in 0..lines_each / 64 {
            for (number, meter) in workers.iter().enumerate() {
                let at = (number as u64 * lines_each + part * 64) * LINE as u64;
                clocks[number] = meter.touch(at, 64 * LINE, false, clocks[number]).expect("misses");
            }
        }
        let end = *clocks.iter().max().expect("workers");
        let gb_per_s = (lines_each * workers.len() as u64 * LINE as u64) as f64 / (end as f64 / NS as f64);
        assert!(gb_per_s <= limit && gb_per_s > 0.9 * limit, "{hosts} hosts: {gb_per_s} GB/s of {limit}");
    }
}

#[test]
fn what_a_host_has_fetched_costs_its_workers_nothing() {
    let polar = profile("polar-xconn");
    let workers = meters(&polar, 2, 2);
    let [one, colleague, other] = [&workers[0], &workers[1], &workers[2]];
    let read = |meter: &Meter| meter.touch(640, 100, false, 0).map(|end| end / NS);
    assert_eq!(read(one), Some(549 + 2 + 4), "latency, two lines over the link, and the hit");
    assert_eq!((read(one), read(colleague)), (None, None));
    assert!(read(other).is_some(), "another host has not");
    colleague.command(640, 100, true, 0);
    assert!(read(one).is_some(), "it was dropped");
    assert_eq!(one.shared.counted()[0], 4);
}

#[test]
fn a_fence_waits_for_what_was_started() {
    let polar = profile("polar-xconn");
    let meter = &meters(&polar, 1, 1)[0];
    assert_eq!(meter.fence(5 * NS), Some((5 + 21) * NS));
    assert_eq!(meter.touch(0, 64, true, 0).map(|held_up| held_up / NS), Some(1), "left to the store buffer");
    assert_eq!(meter.command(0, 64, false, 10 * NS), Some(13 * NS));
    let end = meter.fence(20 * NS).expect("always");
    assert!((13 + 549..13 + 549 + 4).contains(&(end / NS)), "{end}");
    assert_eq!(meter.command(0, 64, false, 2000 * NS), Some(2003 * NS));
    assert_eq!(meter.fence(2003 * NS), Some(2024 * NS), "it was clean");
    meter.command(0, 64, true, 3000 * NS);
    assert_eq!(meter.fence(3003 * NS), Some(3163 * NS), "an invalidate of a clean line");
}

#[test]
fn sync_lines_move_between_cores_and_hosts() {
    let tigon = profile("tigon-osdi25");
    let workers = meters(&tigon, 2, 2);
    let [one, colleague, other] = [&workers[0], &workers[1], &workers[2]];
    let after = |start: u64| move |end: u64| (end - start) / NS;
    assert_eq!(one.swap(64, 0).map(after(0)), Some(259 + 8), "from memory");
    assert_eq!((one.swap(64, 0), one.load(64, 0)), (None, None), "it is its own");
    let us = 1000 * NS;
    assert_eq!(colleague.load(64, us).map(after(us)), Some(60), "from another core");
    assert_eq!(other.load(64, 2 * us).map(after(2 * us)), Some(259), "memory has it, nobody owns it");
    assert_eq!(other.swap(64, 3 * us).map(after(3 * us)), Some(110 + 8), "from another host");
    one.store(64, 4 * us);
    assert_eq!(one.fence(4 * us).map(after(4 * us)), Some(110), "a store waits at the fence");
    assert_eq!(other.load(64, 4 * us).map(after(4 * us)), Some(220), "one after the other");
}

#[test]
fn coherent_data_is_fetched_again_after_a_change() {
    let dram = profile("dram");
    let workers = meters(&dram, 2, 1);
    let [one, other] = [&workers[0], &workers[1]];
    let read = |meter: &Meter| meter.touch(0, 64, false, 0).is_some();
    assert!(read(one) && !read(one) && read(other) && !read(other));
    other.touch(0, 64, true, 0);
    assert!(!read(other), "the writer has it");
    assert!(read(one) && !read(one), "the other fetches it");
    one.command(0, 64, true, 0);
    assert!(!read(one), "hardware keeps it coherent: nothing is dropped");
}

/// A cache as small as one set of a shard: the model pushes out what a cache of that size would.
#[test]
fn the_cache_has_its_size() {
    let mut small = profile("polar-xconn");
    small.cache.size_bytes.value = (1 << 16) as f64;
    let meter = &meters(&small, 1, 1)[0];
    let misses =
        |bytes: u64| (0..bytes / 64).filter(|line| meter.touch(line * 64, 64, false, 0).is_some()).count();
    assert_eq!(misses(1 << 16), 1 << 10);
    assert_eq!(misses(1 << 16), 0, "all of it fits");
    assert_eq!(misses(1 << 18), (1 << 12) - (1 << 10));
    assert_eq!(misses(1 << 18), 1 << 12, "four times its size in turn: nothing stays");
}
