//! Every workload of the table under the adversary, on every engine: serializable, and right by its own
//! conditions; and small timed runs that replay.

use std::sync::Arc;

use liger_fabric::sim::Profile;
use liger_rivals::partitioned::{Protocol, Route};
use liger_sim::bench::shapes::adversarial;
use liger_sim::bench::{BenchSim, load, log_of_epochs, run};
use liger_sim::motor::MotorPod;
use liger_sim::partitioned::{PartPod, Shape};
use liger_sim::shm::{ShmPod, ShmShape};
use liger_workload::benchmark::Benchmark;
use liger_workload::declared::Hostile;
use liger_workload::driver::Length;
use liger_workload::smallbank::SmallBank;
use liger_workload::tatp::Tatp;
use liger_workload::workloads;
use liger_workload::ycsb::{Mode, Ycsb};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Something that is done with every workload of the table.
macro_rules! each_workload {
    ($does:ident own { $($own:ident $($own_at:ident)::+)* } offered { $($name:ident $($at:ident)::+)* }) => {
        $($does::<liger_workload::$($own_at)::+>();)*
        $($does::<liger_workload::$($at)::+>();)*
    };
}

fn hostile_rows<B: Hostile>() {
    let first = number("LIGER_SEED", 1);
    let mut committed = 0;
    for seed in first..first + number("LIGER_SEEDS", 20) {
        let result = run(&adversarial::<B>(seed));
        assert!(result.problems.is_empty(), "seed {seed}:\n{}", result.problems.join("\n"));
        assert_eq!(result.report.consistent, Some(true), "seed {seed}");
        committed += result.report.all.committed;
    }
    assert!(committed > 0, "from seed {first}: nothing committed");
}

#[test]
fn every_workload_on_rows_under_the_adversary() {
    workloads!(each_workload(hostile_rows));
}

fn timed<B: Benchmark>(benchmark: B) {
    let profile = Arc::new(Profile::built_in("tigon-osdi25").expect("a built-in profile"));
    let length = Length::Time { warm_up_ns: 100_000, measured_ns: 1_200_000 };
    let full = BenchSim::timed(profile, benchmark, 0);
    let small = BenchSim { hosts: 3, workers: 2, length, check: true, ..full };
    let first = run(&small);
    assert_eq!(first.problems, Vec::<String>::new());
    assert_eq!(first.report.consistent, Some(true));
    assert!(first.report.all.committed > 50, "{}", first.report.table());
    assert_eq!(run(&small).trace_hash, first.trace_hash);
}

#[test]
fn timed_runs_are_right_and_replay() {
    let ycsb = Ycsb { keys: 500, ..Ycsb::tigon(3, 50, 60) };
    timed(ycsb);
    timed(Ycsb { mode: Mode::Mixed, ..ycsb });
    timed(SmallBank { partitions: 3, customers: 300, hot: 50, hot_percent: 50, cross_percent: 60 });
    timed(Tatp { partitions: 3, subscribers: 300, cross_percent: 60, seed: 1 });
}

fn hostile_rivals<B: Hostile>() {
    for protocol in [Protocol::Sundial, Protocol::Ds2pl] {
        for route in [Route::Workers, Route::Receiver, Route::Thread, Route::Network] {
            let pod = Shape { gaps: true, route, ..Shape::new(protocol) };
            for seed in 1..=5 {
                let result = load::<PartPod, B>(&adversarial::<B>(seed), &pod)
                    .expect("the rows fit into messages")
                    .run();
                assert!(result.problems.is_empty(), "{pod:?} seed {seed}:\n{}", result.problems.join("\n"));
                assert_eq!(result.report.consistent, Some(true), "{pod:?} seed {seed}");
            }
        }
    }
}

#[test]
fn every_workload_on_the_rivals_under_the_adversary() {
    workloads!(each_workload(hostile_rivals));
}

fn hostile_motor<B: Hostile>() {
    for seed in 1..=10 {
        let result =
            load::<MotorPod, B>(&adversarial::<B>(seed), &()).expect("the adversary has remote memory").run();
        assert!(result.problems.is_empty(), "seed {seed}:\n{}", result.problems.join("\n"));
        assert_eq!(result.report.consistent, Some(true), "seed {seed}");
        assert!(result.report.all.committed > 0, "seed {seed}");
    }
}

#[test]
fn every_workload_on_motor_under_the_adversary() {
    workloads!(each_workload(hostile_motor));
}

fn hostile_shm<B: Hostile>() {
    let first = number("LIGER_SEED", 1);
    let mut committed = 0;
    for seed in first..first + number("LIGER_SEEDS", 20) {
        let loaded = load::<ShmPod, B>(&adversarial::<B>(seed), &ShmShape { gaps: true });
        let result = loaded.expect("a tiny database has room").run();
        assert!(result.problems.is_empty(), "seed {seed}:\n{}", result.problems.join("\n"));
        assert_eq!(result.report.consistent, Some(true), "seed {seed}");
        committed += result.report.all.committed;
    }
    assert!(committed > 0, "from seed {first}: nothing committed");
}

#[test]
fn every_workload_on_rows_in_shared_memory_under_the_adversary() {
    workloads!(each_workload(hostile_shm));
}

/// In virtual time, too; and a row that nobody else has changed is read from this host's caches.
#[test]
fn rows_in_shared_memory_in_virtual_time_are_right_and_replay() {
    let profile = Arc::new(Profile::built_in("tigon-osdi25").expect("a built-in profile"));
    let length = Length::Time { warm_up_ns: 100_000, measured_ns: 1_200_000 };
    let ycsb = Ycsb { keys: 2000, ..Ycsb::tigon(3, 50, 60) };
    let full = BenchSim::timed(profile, ycsb, 0);
    let small = BenchSim { hosts: 3, workers: 2, length, check: true, ..full };
    let run = |ycsb: Ycsb| {
        let run = BenchSim { benchmark: ycsb, ..small.clone() };
        load::<ShmPod, Ycsb>(&run, &ShmShape::default()).expect("it has room").run()
    };
    let first = run(ycsb);
    assert_eq!((first.problems.as_slice(), first.report.consistent), (&[][..], Some(true)));
    assert_eq!(run(ycsb).trace_hash, first.trace_hash);
    assert!(first.report.all.committed > 50, "{}", first.report.table());
    let anew = |result: &liger_sim::bench::BenchResult| result.report.engine.more["lines read anew"];
    let alone = run(Ycsb { cross_percent: 0, ..ycsb });
    assert_eq!(anew(&alone), 0, "each host has loaded its rows, and nobody else has used them");
    assert!(anew(&first) > first.report.all.committed, "{}", anew(&first));
}

/// In virtual time, too, histories are right, runs replay, and what is sent takes its time.
#[test]
fn motor_in_virtual_time_is_right_and_replays() {
    let profile = Arc::new(Profile::built_in("tigon-osdi25").expect("a built-in profile"));
    let length = Length::Time { warm_up_ns: 100_000, measured_ns: 2_500_000 };
    let ycsb = Ycsb { keys: 5000, ..Ycsb::tigon(3, 50, 60) };
    let full = BenchSim::timed(Arc::clone(&profile), ycsb, 0);
    let small = BenchSim { hosts: 3, workers: 2, length, check: true, ..full };
    let run = || load::<MotorPod, Ycsb>(&small, &()).expect("the profile has remote memory").run();
    let first = run();
    assert_eq!((first.problems.as_slice(), first.report.consistent), (&[][..], Some(true)));
    assert_eq!(run().trace_hash, first.trace_hash);
    // Ten rows: tuples and bytes are read, what was only read is validated, changes are written.
    let (committed, round_trips) = (first.report.all.committed, first.report.engine.more["round trips"]);
    assert!(committed > 50 && round_trips >= 4 * committed, "{round_trips} for {committed}");
    let most = 6.0 * 3.0 * 2.5e6 / (4.0 * profile.rdma.as_ref().expect("has it").round_trip_ns.value);
    assert!((committed as f64) < most, "{committed} of {most}");
}

/// With a log a worker goes on at once, and its transactions are acknowledged at group commit: half an epoch
/// later and more, as the disk allows.
#[test]
fn a_log_makes_latency_follow_its_epochs() {
    let profile = Arc::new(Profile::built_in("tigon-osdi25").expect("a built-in profile"));
    let ycsb = Ycsb { keys: 5000, change_bytes: 100, ..Ycsb::tigon(3, 50, 60) };
    let full = BenchSim::timed(profile, ycsb, 0);
    let of = |epoch_ms: Option<u64>| {
        let length = Length::Time { warm_up_ns: 500_000, measured_ns: 8_000_000 };
        let log = epoch_ms.map(|ms| log_of_epochs(1_000_000 * ms));
        let result = run(&BenchSim { hosts: 3, workers: 2, length, log, check: true, ..full.clone() });
        assert_eq!(result.problems, Vec::<String>::new());
        assert_eq!(result.report.consistent, Some(true));
        result
    };
    let without = of(None).report;
    assert_eq!(without.all.p99_us, without.all.commit_p99_us);
    for ms in [1, 2, 4] {
        let result = of(Some(ms));
        let all = &result.report.all;
        assert_eq!(of(Some(ms)).trace_hash, result.trace_hash);
        assert!((all.commit_p50_us / without.all.commit_p50_us - 1.0).abs() < 0.1, "{all:?}");
        assert!((all.committed_per_s / without.all.committed_per_s - 1.0).abs() < 0.2, "{all:?}");
        // A sync of the profile's disk takes 0.7 ms.
        let (half, most) = (500.0 * ms as f64, 1000.0 * ms as f64 + 3500.0);
        assert!((half + 700.0..most).contains(&all.p50_us), "{ms} ms: {all:?}");
        assert!(all.p99_us > all.p50_us && all.p99_us < 1000.0 * ms as f64 + most, "{ms} ms: {all:?}");
        // At least what the changed rows have of new bytes: half of ten rows change, of 100 bytes each.
        let bytes = result.report.engine.more["log bytes"];
        assert!(bytes > 400 * all.committed, "{ms} ms: {bytes} bytes");
    }
}

/// What a run counts is its own, not that of the runs before it on the same pod.
#[test]
fn counts_begin_with_each_run() {
    let profile = Arc::new(Profile::built_in("tigon-osdi25").expect("a built-in profile"));
    let ycsb = Ycsb { keys: 500, ..Ycsb::tigon(2, 50, 60) };
    let run = BenchSim { hosts: 2, workers: 1, ..BenchSim::timed(profile, ycsb, 2_500_000) };
    let mut pod = load::<PartPod, Ycsb>(&run, &Shape::new(Protocol::Ds2pl)).expect("rows that fit");
    let runs = [(); 3].map(|()| pod.measure(ycsb).report.engine.more["messages"]);
    assert!(runs.iter().all(|messages| *messages > 100), "{runs:?}");
    assert!(runs[2] < 2 * runs[0], "{runs:?}: they do not add up");
    let alone = pod.measure(Ycsb { cross_percent: 0, ..ycsb }).report.engine;
    assert_eq!(alone.more["messages"], 0, "nothing crosses");
}
