//! Tigon's table 1: what group commit costs, and how long it lets transactions wait.

use liger_engine::row::policy::Policies;
use liger_rivals::partitioned::{Protocol, Route};

use super::super::published::{
    EPOCHS_NONE, EPOCHS_RIVALS, EPOCHS_RIVALS_NONE, EPOCHS_RIVALS_X, EPOCHS_TPCC, EPOCHS_X, EPOCHS_YCSB,
    LOGGING,
};
use super::{Axis, Claim, Curve, Figure, Line, Quantile, Work, artifact, line, partitioned, remote, with};

/// The published lines cross nothing.
fn epochs(
    (id, title): (&'static str, &'static str),
    (work, nothing): (Work, &'static str),
    published: &'static [Option<f64>],
    claims: Vec<Claim>,
) -> Figure {
    Figure {
        id,
        title,
        x: "epoch, ms",
        axis: Axis::EpochMs,
        source: LOGGING,
        xs: &EPOCHS_X,
        lines: vec![
            line("Tigon", remote(with(artifact(), work), nothing), published),
            line("Liger", remote(with(Policies::default(), work), nothing), &EPOCHS_NONE),
        ],
        reference: "Tigon",
        claims,
    }
}

/// What must be true of latencies: published are 0.52 (TPC-C) and 0.51 ms (YCSB) for the median and 0.80 and
/// 0.83 ms for the slowest hundredth, and at 10 ms a median of 2.3 and 2.5 epochs.
fn latencies() -> Vec<Claim> {
    vec![
        Claim::Follows("Tigon", Quantile::Median, (2, 6), (0.4, 0.65)),
        Claim::Follows("Tigon", Quantile::Hundredth, (2, 6), (0.6, 1.1)),
        Claim::Waits("Tigon", 2, (1.5, 3.0)),
    ]
}

/// TPC-C. Published: 6.0 % for epochs of 10 ms, and 2.8 % less from there to 50 ms.
pub fn epochs_tpcc() -> Figure {
    let mut claims =
        vec![Claim::Costs("Tigon", (0, 2), (3.0, 9.0)), Claim::Costs("Tigon", (2, 6), (-6.0, 0.0))];
    claims.extend(latencies());
    let what = ("table1-tpcc", "TPC-C that crosses nothing, with group commit (Tigon, table 1)");
    epochs(what, (Work::Tpcc { first_two: false }, "0/0"), &EPOCHS_TPCC, claims)
}

/// YCSB. Published: from 10 to 50 ms 2.1 % more.
pub fn epochs_ycsb() -> Figure {
    let mut claims = vec![Claim::Costs("Tigon", (2, 6), (-6.0, 0.0))];
    claims.extend(latencies());
    let what = ("table1-ycsb-50r", "YCSB, 50 % reads, crossing nothing, with group commit (Tigon, table 1)");
    epochs(what, (Work::Ycsb { reads: 50, theta: 0.7 }, "0"), &EPOCHS_YCSB, claims)
}

/// What group commit costs the others, where most crosses.
pub fn logging_tpcc() -> Figure {
    let work = Work::Tpcc { first_two: false };
    let plus = |protocol| partitioned(protocol, Route::Receiver, work);
    let far =
        |name, curve: Result<Curve, _>| -> Line { line(name, remote(curve, "60/90"), &EPOCHS_RIVALS_NONE) };
    Figure {
        id: "logging-tpcc",
        title: "TPC-C at 60/90 with and without group commit (not published)",
        x: "epoch, ms",
        axis: Axis::EpochMs,
        source: EPOCHS_RIVALS,
        xs: &EPOCHS_RIVALS_X,
        lines: vec![
            far("Sundial+", plus(Protocol::Sundial)),
            far("DS2PL+", plus(Protocol::Ds2pl)),
            far("Tigon", with(artifact(), work)),
            far("Liger", with(Policies::default(), work)),
        ],
        reference: "Sundial+",
        claims: Vec::new(),
    }
}
