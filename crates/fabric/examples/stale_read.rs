//! See the bug, then the fix: a reader that forgets to drop its old copy of a line.
//!
//! `cargo run -p liger-fabric --example stale_read`
//!
//! On a coherent machine the first program always works. On a pod the reader's host may hold the line from
//! before: the simulator stops at the read and names both source lines.

use liger_fabric::sim::{Report, SimConfig, Simulation};
use liger_fabric::{Cx, DataAddr, Fabric, HostId, SyncAddr, WorkerId};

/// Set to 1 when the mail is there.
const FLAG: SyncAddr = SyncAddr::new(0);
/// The mail: data, so on another line than the flag.
const MAIL: DataAddr = DataAddr::new(64);

fn post<F: Fabric>(cx: &Cx<F>) {
    cx.write(MAIL, b"the tide is in");
    cx.write_back(MAIL, 14);
    cx.fence();
    cx.store(FLAG, 1);
}

fn collect<F: Fabric>(cx: &Cx<F>, careful: bool) {
    while cx.load(FLAG) == 0 {
        cx.pause();
    }
    let mut mail = [0; 14];
    if careful {
        cx.invalidate(MAIL, 14);
        cx.fence();
    }
    cx.read(MAIL, &mut mail);
    assert_eq!(&mail, b"the tide is in");
}

fn run(careful: bool, seed: u64) -> Report {
    let mut sim = Simulation::new(SimConfig::adversarial(2, 4096, seed));
    sim.spawn(HostId(0), WorkerId(0), post);
    sim.spawn(HostId(1), WorkerId(0), move |cx| collect(cx, careful));
    sim.run()
}

fn main() {
    println!("Without invalidate and fence before the read:\n");
    let report = run(false, 1);
    println!("{}\n", report.outcome);
    assert_eq!(report.violation().map(|found| found.rule.name()), Some("stale-read"));

    let seeds = 1000;
    for seed in 0..seeds {
        run(true, seed).expect_completed();
    }
    println!("With them: {seeds} seeds, all completed.");
}
