//! Figures that nobody has published, beside those of an evaluation: what the published runs leave out.

use liger_engine::row::policy::Policies;
use liger_rivals::partitioned::{Protocol, Route};
use liger_workload::tpcc::generate::Homes;

use super::super::published::{COLD, COURSE_NONE, COURSE_X, NOWHERE, ROUTING, TPCC_X};
use super::{Axis, Claim, Curve, Figure, Line, Work, artifact, line, partitioned, remote, with};

/// What it is worth that a worker has warehouses of its own: workers of a host then meet only in what
/// crosses.
pub fn routing_tpcc() -> Figure {
    let work = Work::Tpcc { first_two: false };
    let own = |curve: Result<Curve, _>| curve.map(|curve| Curve { homes: Homes::Own, ..curve });
    let (tigon, ours) = (with(artifact(), work), with(Policies::default(), work));
    let sundial = partitioned(Protocol::Sundial, Route::Receiver, work);
    Figure {
        id: "routing-tpcc",
        title: "TPC-C, transactions routed to the worker that has their warehouse (not published)",
        x: "remote New-Orders / Payments, %",
        axis: Axis::Remote,
        source: ROUTING,
        xs: &TPCC_X,
        lines: vec![
            line("Sundial+", sundial, &NOWHERE),
            line("Tigon", tigon, &NOWHERE),
            line("Liger", ours, &NOWHERE),
            line("Sundial+, routed", own(sundial), &NOWHERE),
            line("Tigon, routed", own(tigon), &NOWHERE),
            line("Liger, routed", own(ours), &NOWHERE),
        ],
        reference: "Sundial+",
        claims: vec![
            Claim::Leads("Liger, routed", "Sundial+", 0, 1.0),
            Claim::Leads("Liger, routed", "Sundial+, routed", 0, 1.0),
            Claim::Leads("Liger, routed", "Sundial+, routed", 6, 1.75),
            Claim::Loses("Liger, routed", -10.0, 10.0),
        ],
    }
}

/// How long it takes until what other hosts want is shared, if nothing was.
fn cold(id: &'static str, title: &'static str, work: Work, x: &'static str) -> Figure {
    let course = |name, policies, cold| Line {
        name,
        curve: remote(with(policies, work), x).map(|curve| Curve { cold, ..curve }),
        published: &COURSE_NONE,
    };
    Figure {
        id,
        title,
        x: "measured time since the start, number",
        axis: Axis::Elapsed,
        source: COLD,
        xs: &COURSE_X,
        lines: vec![
            course("Tigon", artifact(), false),
            course("Tigon, cold", artifact(), true),
            course("Liger", Policies::default(), false),
            course("Liger, cold", Policies::default(), true),
        ],
        reference: "Tigon",
        claims: Vec::new(),
    }
}

/// TPC-C.
pub fn cold_tpcc() -> Figure {
    let title = "TPC-C at 60/90 from a cold start (not published)";
    cold("cold-tpcc", title, Work::Tpcc { first_two: false }, "60/90")
}

/// YCSB.
pub fn cold_ycsb() -> Figure {
    let title = "YCSB 95/5, everything crossing, from a cold start (not published)";
    cold("cold-ycsb-95r", title, Work::Ycsb { reads: 95, theta: 0.7 }, "100")
}
