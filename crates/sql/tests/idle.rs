//! What a host costs whose sessions wait for their clients. Alone in its file: the processor time is that
//! of the whole process.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "a session is a thread, and time passes")]

mod support;

use std::time::Duration;

use liger_sql::slots::Slots;
use support::{accounts, pod};

/// Processor time of this process so far.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("linux");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("a name in parentheses").split(' ').collect();
    let ticks: u64 = fields[12..=13].iter().map(|f| f.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(10 * ticks)
}

#[test]
fn an_idle_transaction_burns_no_processor_time() {
    const WAIT: Duration = Duration::from_millis(1500);
    let (_pod, mut hosts) = pod(1);
    let mut host = hosts.pop().expect("one host");
    let slots = Slots::new();
    std::thread::scope(|scope| {
        let worked = scope.spawn(|| host.lend(&slots, 3));
        let slot = slots.begin(true, &mut || Ok(())).expect("a slot");
        slot.call(|running| accounts(running.catalog, running.tx, "t").map(|_| ())).expect("a table");
        let before = processor_time();
        std::thread::sleep(WAIT);
        let used = processor_time() - before;
        slot.commit(None, &mut || ()).expect("nobody else is there");
        slots.close();
        worked.join().expect("no panic");
        println!("{used:?} of {WAIT:?}");
        // Worker 0 looks for other hosts' requests 2,000 times a second; a worker that spins uses all of it.
        assert!(used < WAIT / 2, "{used:?} of {WAIT:?}");
    });
}
