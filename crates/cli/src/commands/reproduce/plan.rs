//! What is reproduced: figures, their lines, and what must be true of them.
//!
//! Invariants:
//! 1. Every published number is here with its source; a line that cannot be run yet says why, and stays in
//!    the figure.
//! 2. All lines of all figures run under one profile and one way to back off; nothing is tuned for a figure.

use liger_engine::partitioned::{Protocol, Route};
use liger_engine::row::policy::{Coherence, Policies};
use liger_fabric::profile::Profile;
use liger_sim::partitioned::Shape as PodShape;

use super::published;

/// What a line runs on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Engine {
    /// The row engine.
    Row(Policies),
    /// A partitioned pod.
    Partitioned(PodShape),
    /// Motor's cost model.
    Motor,
}

impl Engine {
    /// What this hardware lacks for it.
    pub fn lacks(&self, profile: &Profile) -> Option<&'static str> {
        match self {
            Engine::Partitioned(shape) if shape.route == Route::Network && profile.net.is_none() => {
                Some("the hardware profile says of no network what it costs, in a section [net]")
            }
            Engine::Motor if profile.rdma.is_none() => {
                Some("the hardware profile says of no remote memory what it costs, in a section [rdma]")
            }
            _ => None,
        }
    }
}

/// What a line runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Work {
    /// TPC-C; x is the remote percentages of New-Order and Payment. With `first_two` only these two run.
    Tpcc {
        /// Half New-Orders, half Payments.
        first_two: bool,
    },
    /// YCSB; x is the percentage of transactions that cross partitions.
    Ycsb {
        /// Percentage of operations that only read.
        reads: u32,
    },
}

/// How a line is measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Curve {
    /// On what.
    pub engine: Engine,
    /// Workers of each host.
    pub workers: u8,
    /// What.
    pub work: Work,
}

/// A line of a figure.
pub struct Line {
    /// Its name there.
    pub name: &'static str,
    /// How it is measured, or why it is not.
    pub curve: Result<Curve, &'static str>,
    /// Published transactions per second, one for each x; none where nothing was published.
    pub published: &'static [Option<f64>],
}

/// What must be true of our lines because it is of the published ones.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Claim {
    /// At the x of this number, the first has at least so many times the second's throughput.
    Leads(&'static str, &'static str, usize, f64),
    /// From the first x to the last, the line loses between so many and so many percent.
    Loses(&'static str, f64, f64),
    /// The first is behind at the first x and ahead at the last.
    Overtakes(&'static str, &'static str),
}

/// A figure.
pub struct Figure {
    /// Its name in reports and files.
    pub id: &'static str,
    /// What it is about.
    pub title: &'static str,
    /// What x is.
    pub x: &'static str,
    /// Where the published numbers are from.
    pub source: &'static str,
    /// The values of x.
    pub xs: &'static [&'static str],
    /// The lines; the first is what all are compared with.
    pub lines: Vec<Line>,
    /// What must be true.
    pub claims: Vec<Claim>,
}

const NO_SHM: &str = "Sundial on tables in shared memory is not built yet";

fn row(work: Work) -> Result<Curve, &'static str> {
    with(Policies::default(), work)
}

fn with(policies: Policies, work: Work) -> Result<Curve, &'static str> {
    Ok(Curve { engine: Engine::Row(policies), workers: 3, work })
}

fn partitioned(protocol: Protocol, route: Route, work: Work) -> Result<Curve, &'static str> {
    let workers = if route.has_thread() { 2 } else { 3 };
    let shape = PodShape { route, ..PodShape::new(protocol) };
    Ok(Curve { engine: Engine::Partitioned(shape), workers, work })
}

/// 16 threads, as in the configuration that Tigon's authors published.
fn motor(work: Work) -> Result<Curve, &'static str> {
    Ok(Curve { engine: Engine::Motor, workers: 2, work })
}

fn line(name: &'static str, curve: Result<Curve, &'static str>, published: &'static [Option<f64>]) -> Line {
    Line { name, curve, published }
}

/// Tigon's evaluation.
pub fn tigon() -> Vec<Figure> {
    let mut figures = vec![tpcc()];
    figures.extend([ycsb(100), ycsb(95), ycsb(50), ycsb(0)]);
    figures.push(coherence_tpcc());
    figures.push(coherence_ycsb());
    figures
}

fn tpcc() -> Figure {
    use published::*;
    let work = Work::Tpcc { first_two: false };
    let part = |protocol, route| partitioned(protocol, route, work);
    Figure {
        id: "fig4-tpcc",
        title: "TPC-C, five transactions (Tigon, figures 4a to 4c)",
        x: "remote New-Orders / Payments, %",
        source: ARTIFACT,
        xs: &TPCC_X,
        lines: vec![
            line("Tigon", row(work), &TPCC_TIGON),
            line("Sundial+", part(Protocol::Sundial, Route::Workers), &TPCC_SUNDIAL_PLUS),
            line("DS2PL+", part(Protocol::Ds2pl, Route::Workers), &TPCC_DS2PL_PLUS),
            line("Sundial-CXL", part(Protocol::Sundial, Route::Thread), &TPCC_SUNDIAL_CXL),
            line("DS2PL-CXL", part(Protocol::Ds2pl, Route::Thread), &TPCC_DS2PL_CXL),
            line("Sundial-NET", part(Protocol::Sundial, Route::Network), &TPCC_SUNDIAL_NET),
            line("DS2PL-NET", part(Protocol::Ds2pl, Route::Network), &TPCC_DS2PL_NET),
            line("Motor", motor(work), &TPCC_MOTOR),
        ],
        claims: vec![
            Claim::Leads("Sundial+", "Tigon", 0, 1.0),
            Claim::Overtakes("Tigon", "Sundial+"),
            Claim::Leads("Tigon", "Sundial+", 6, 1.5),
            Claim::Leads("Tigon", "DS2PL+", 6, 2.0),
            Claim::Leads("Sundial+", "Sundial-CXL", 0, 1.1),
            Claim::Leads("Sundial+", "Sundial-CXL", 6, 1.5),
            Claim::Leads("DS2PL+", "DS2PL-CXL", 6, 1.5),
            Claim::Loses("Tigon", 0.0, 20.0),
            Claim::Loses("Sundial+", 50.0, 80.0),
            Claim::Loses("DS2PL+", 50.0, 80.0),
        ],
    }
}

fn ycsb(reads: u32) -> Figure {
    use published::*;
    let work = Work::Ycsb { reads };
    let plus = |protocol| partitioned(protocol, Route::Workers, work);
    let (id, title, [tigon, sundial, ds2pl], memory_servers, claims) = match reads {
        100 => (
            "fig5-ycsb-100r",
            "YCSB, only reads, zipf 0.7 (Tigon, figure 5)",
            [&YCSB_100_TIGON, &YCSB_100_SUNDIAL, &YCSB_100_DS2PL],
            &MOTOR_100,
            vec![Claim::Leads("Tigon", "Sundial+", 6, 1.8), Claim::Loses("Sundial+", 70.0, 95.0)],
        ),
        95 => (
            "fig5-ycsb-95r",
            "YCSB, 95 % reads, zipf 0.7 (Tigon, figure 5)",
            [&YCSB_95_TIGON, &YCSB_95_SUNDIAL, &YCSB_95_DS2PL],
            &MOTOR_95,
            vec![Claim::Leads("Tigon", "Sundial+", 6, 1.8), Claim::Loses("Sundial+", 70.0, 95.0)],
        ),
        50 => (
            "fig5-ycsb-50r",
            "YCSB, 50 % reads, zipf 0.7 (Tigon, figure 5)",
            [&YCSB_50_TIGON, &YCSB_50_SUNDIAL, &YCSB_50_DS2PL],
            &MOTOR_50,
            vec![Claim::Leads("Tigon", "Sundial+", 6, 1.6), Claim::Loses("Tigon", 30.0, 65.0)],
        ),
        _ => (
            "fig5-ycsb-0r",
            "YCSB, only writes, zipf 0.7 (Tigon, figure 5)",
            [&YCSB_0_TIGON, &YCSB_0_SUNDIAL, &YCSB_0_DS2PL],
            &MOTOR_0,
            vec![Claim::Leads("Tigon", "Sundial+", 6, 1.6), Claim::Loses("Tigon", 25.0, 60.0)],
        ),
    };
    Figure {
        id,
        title,
        x: "transactions that cross partitions, %",
        source: ARTIFACT,
        xs: &YCSB_X,
        lines: vec![
            line("Tigon", row(work), tigon),
            line("Sundial+", plus(Protocol::Sundial), sundial),
            line("DS2PL+", plus(Protocol::Ds2pl), ds2pl),
            line("Motor", motor(work), memory_servers),
        ],
        claims,
    }
}

fn coherence_lines(work: Work, published: [&'static [Option<f64>]; 4]) -> Vec<Line> {
    let policy = |coherence| with(Policies { coherence, ..Policies::default() }, work);
    let [through, alone, bypass, hwcc] = published;
    vec![
        line("Tigon", row(work), through),
        line("NoSharedReader", policy(Coherence::NoSharedReader), alone),
        line("NonTemporal", policy(Coherence::AlwaysBypass), bypass),
        line("NoSWcc", Err("rows in a small hardware-coherent memory need budgets in this command"), hwcc),
    ]
}

fn coherence_tpcc() -> Figure {
    use published::*;
    Figure {
        id: "fig8-tpcc",
        title: "TPC-C, how copies are kept coherent (Tigon, figure 8)",
        x: "remote New-Orders / Payments, %",
        source: ARTIFACT,
        xs: &["10/15", "60/90"],
        lines: coherence_lines(
            Work::Tpcc { first_two: false },
            [&SWCC_TPCC_THROUGH, &SWCC_TPCC_ALONE, &SWCC_TPCC_BYPASS, &SWCC_TPCC_HWCC],
        ),
        claims: vec![
            Claim::Leads("Tigon", "NonTemporal", 1, 1.01),
            Claim::Leads("NoSharedReader", "Tigon", 1, 0.93),
        ],
    }
}

fn coherence_ycsb() -> Figure {
    use published::*;
    Figure {
        id: "fig8-ycsb-95r",
        title: "YCSB 95/5, how copies are kept coherent (Tigon, figure 8)",
        x: "transactions that cross partitions, %",
        source: ARTIFACT,
        xs: &["10", "50", "100"],
        lines: coherence_lines(
            Work::Ycsb { reads: 95 },
            [&SWCC_YCSB_THROUGH, &SWCC_YCSB_ALONE, &SWCC_YCSB_BYPASS, &SWCC_YCSB_HWCC],
        ),
        claims: vec![
            Claim::Leads("Tigon", "NoSharedReader", 2, 1.05),
            Claim::Leads("Tigon", "NonTemporal", 2, 1.1),
        ],
    }
}

/// Pasha's evaluation.
pub fn pasha() -> Vec<Figure> {
    let work = Work::Tpcc { first_two: true };
    vec![Figure {
        id: "pasha-first-two",
        title: "TPC-C, New-Order and Payment (Pasha, CIDR 2025)",
        x: "remote New-Orders / Payments, %",
        source: published::PASHA,
        xs: &published::TPCC_X,
        lines: vec![
            line("Pasha", row(work), &published::PASHA_PASHA),
            line(
                "Sundial-CXL",
                partitioned(Protocol::Sundial, Route::Thread, work),
                &published::PASHA_SUNDIAL_CXL,
            ),
            line(
                "Sundial-NET",
                partitioned(Protocol::Sundial, Route::Network, work),
                &published::PASHA_SUNDIAL_NET,
            ),
            line("Sundial-SHM", Err(NO_SHM), &published::PASHA_SUNDIAL_SHM),
        ],
        claims: vec![Claim::Leads("Pasha", "Sundial-CXL", 6, 1.3), Claim::Loses("Sundial-CXL", 20.0, 90.0)],
    }]
}
