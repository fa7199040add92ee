//! Tigon's TPC-C curve in virtual time: `tpcc_curve [PROFILE [DIVISOR [MEASURED_MS]]]`; PROFILE is a built-in
//! one or a file that ends in .toml.

#![expect(clippy::disallowed_methods, reason = "the outermost shell keeps the time")]

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use liger_fabric::sim::Profile;
use liger_sim::tpcc::{TpccSim, load};
use liger_workload::tpcc::input::Remote;

/// Nanoseconds of processor time of this thread (other programs' load does not count), or of the clock.
fn busy_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let busy = stat.split(' ').next().and_then(|first| first.parse().ok());
    busy.unwrap_or_else(|| START.get_or_init(Instant::now).elapsed().as_nanos() as u64)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let name = args.first().map_or("tigon-osdi25", String::as_str);
    let divisor = args.get(1).map_or(10, |text| text.parse().expect("a divisor"));
    let measured_ms: u64 = args.get(2).map_or(20, |text| text.parse().expect("milliseconds"));
    let profile =
        if name.ends_with(".toml") { Profile::from_file(name.as_ref()) } else { Profile::built_in(name) };
    let profile = Arc::new(profile.unwrap_or_else(|error| panic!("{error}")));
    println!(
        "TPC-C, virtual time of {name}, 8 hosts x 3 workers, 24 warehouses, items and customers / {divisor},"
    );
    println!("all customers and stock shared, {measured_ms} ms measured. Everything is simulated.\n");
    println!(
        "remote   committed/s   loss %   aborts %   messages   verbs/commit   Mverbs   Mverbs/s of one core"
    );
    let mut first = None;
    for (new_order, payment) in [(0, 0), (10, 15), (20, 30), (30, 45), (40, 60), (50, 75), (60, 90)] {
        let run = TpccSim::tigon(
            profile.clone(),
            divisor,
            Remote::Percent { new_order, payment },
            measured_ms * 1_000_000,
        );
        let loaded = load(&run);
        let start_ns = busy_ns();
        let result = loaded.run();
        let busy_s = (busy_ns() - start_ns) as f64 / 1e9;
        assert!(result.problems.is_empty(), "{:#?}", result.problems);
        let figures = &result.report.all;
        let base = *first.get_or_insert(figures.committed_per_s);
        let aborts = result.report.aborted_per_s / (result.report.aborted_per_s + figures.committed_per_s);
        println!(
            "{new_order:>2}/{payment:<3} {:>13.0} {:>8.1} {:>10.1} {:>10} {:>14.1} {:>8.1} {:>12.2}",
            figures.committed_per_s,
            100.0 * (1.0 - figures.committed_per_s / base),
            100.0 * aborts,
            result.report.engine.more["messages"],
            result.verbs as f64 / figures.committed.max(1) as f64,
            result.verbs as f64 / 1e6,
            result.verbs as f64 / 1e6 / busy_s
        );
        if std::env::var("LIGER_VERBOSE").is_ok() {
            println!("{}", result.report.table());
        }
    }
}
