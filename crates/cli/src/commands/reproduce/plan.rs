//! What is reproduced: figures, their lines, and what must be true of them.
//!
//! Invariants:
//! 1. Every published number is here with its source; a line that cannot be run yet says why, and stays in
//!    the figure.
//! 2. All lines of all figures run under one profile and one way to back off; nothing is tuned for a figure.
//! 3. A line with a published name runs as it is published ([`artifact`]); "Liger" is the row engine as we
//!    run it, beside them.

mod beside;
mod logging;

use liger_engine::row::policy::{Coherence, Policies, Steps};
use liger_fabric::profile::Profile;
use liger_rivals::partitioned::{Protocol, Route};
use liger_sim::partitioned::Shape as PodShape;
use liger_sim::shm::ShmShape;
use liger_workload::tpcc::generate::Homes;

use super::published;

/// What a line runs on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Engine {
    /// The row engine.
    Row(Policies),
    /// A partitioned pod.
    Partitioned(PodShape),
    /// Sundial on rows in shared memory.
    Shm(ShmShape),
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
        /// Exponent of Zipf's law.
        theta: f64,
    },
}

/// What the values of x are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Axis {
    /// How much crosses hosts, as [`Work`] says.
    Remote,
    /// Hosts.
    Hosts,
    /// Hardware-coherent memory for shared rows and their index, in MB of a database of the published size.
    HwccMb,
    /// The number of the measured time since the start.
    Elapsed,
    /// Milliseconds of an epoch of the log, or "none".
    EpochMs,
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
    /// How much crosses hosts, where that is not x.
    pub remote: &'static str,
    /// [`Axis::HwccMb`] where that is not x, and bounded.
    pub hwcc_mb: Option<u32>,
    /// With [`Axis::Elapsed`]: nothing is shared before the start.
    pub cold: bool,
    /// Where transactions of TPC-C are at home.
    pub homes: Homes,
}

impl Curve {
    /// Everything else as in most figures.
    fn new(engine: Engine, workers: u8, work: Work) -> Self {
        Self { engine, workers, work, remote: "", hwcc_mb: None, cold: false, homes: Homes::AnyLocal }
    }

    /// Bytes of hardware-coherent memory that a shared row takes in the published runs, where it is less here
    /// (artifact of Tigon: an index entry and a record each; 59 B a row of TPC-C, 47 B one of YCSB).
    pub fn published_tuple_bytes(&self) -> Option<f64> {
        let Engine::Row(policies) = self.engine else { return None };
        let is_published = policies.steps == Steps::Artifact && policies.coherence != Coherence::AllHwcc;
        is_published.then_some(match self.work {
            Work::Tpcc { .. } => 59.0,
            Work::Ycsb { .. } => 47.0,
        })
    }
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
    /// From the first x to the last, the line grows to between so many times and so many times.
    Grows(&'static str, f64, f64),
    /// The first is behind at the first x and ahead at the last.
    Overtakes(&'static str, &'static str),
    /// From the x of the first number to that of the second, the line loses between so many and so many
    /// percent.
    Costs(&'static str, (usize, usize), (f64, f64)),
    /// Between the x of these numbers, which are times, latency grows by between so much and so much of what
    /// x does.
    Follows(&'static str, Quantile, (usize, usize), (f64, f64)),
    /// At the x of this number, a time, the median latency is between so many times and so many times that.
    Waits(&'static str, usize, (f64, f64)),
}

/// A part of all latencies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quantile {
    /// The half that is faster ends here.
    Median,
    /// Only a hundredth is slower.
    Hundredth,
}

/// A figure.
pub struct Figure {
    /// Its name in reports and files.
    pub id: &'static str,
    /// What it is about.
    pub title: &'static str,
    /// What x is.
    pub x: &'static str,
    /// The same, for those who run it.
    pub axis: Axis,
    /// Where the published numbers are from.
    pub source: &'static str,
    /// The values of x.
    pub xs: &'static [&'static str],
    /// The lines.
    pub lines: Vec<Line>,
    /// The line whose first published point is the unit of all ratios: the one that the profile is fitted to.
    pub reference: &'static str,
    /// What must be true.
    pub claims: Vec<Claim>,
}

/// The row engine as Tigon's artifact was when its results were written.
fn artifact() -> Policies {
    Policies { steps: Steps::Artifact, row_checksums: false, ..Policies::default() }
}

/// The line that nobody has published.
fn liger(work: Work) -> Line {
    Line { name: "Liger", curve: with(Policies::default(), work), published: &published::NOWHERE }
}

fn with(policies: Policies, work: Work) -> Result<Curve, &'static str> {
    Ok(Curve::new(Engine::Row(policies), 3, work))
}

fn partitioned(protocol: Protocol, route: Route, work: Work) -> Result<Curve, &'static str> {
    let workers = if matches!(route, Route::Thread | Route::Network) { 2 } else { 3 };
    let shape = PodShape { route, ..PodShape::new(protocol) };
    Ok(Curve::new(Engine::Partitioned(shape), workers, work))
}

/// The same with so much of it remote, whatever x is.
fn remote(curve: Result<Curve, &'static str>, remote: &'static str) -> Result<Curve, &'static str> {
    curve.map(|curve| Curve { remote, ..curve })
}

/// As published, with gaps open.
fn shm(work: Work) -> Result<Curve, &'static str> {
    Ok(Curve::new(Engine::Shm(ShmShape::default()), 3, work))
}

/// 16 threads, as in the configuration that Tigon's authors published.
fn motor(work: Work) -> Result<Curve, &'static str> {
    Ok(Curve::new(Engine::Motor, 2, work))
}

fn line(name: &'static str, curve: Result<Curve, &'static str>, published: &'static [Option<f64>]) -> Line {
    Line { name, curve, published }
}

/// Tigon's evaluation.
pub fn tigon() -> Vec<Figure> {
    let mut figures = vec![tpcc()];
    figures.extend([ycsb(100), ycsb(95), ycsb(50), ycsb(0), ycsb_skewed(), phantoms()]);
    figures.extend([hosts_tpcc(), hosts_ycsb(), budget_tpcc(), budget_ycsb()]);
    figures.push(coherence_tpcc());
    figures.push(coherence_ycsb());
    figures.extend([logging::epochs_tpcc(), logging::epochs_ycsb(), logging::logging_tpcc()]);
    figures.extend([beside::routing_tpcc(), beside::cold_tpcc(), beside::cold_ycsb()]);
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
        axis: Axis::Remote,
        source: ARTIFACT,
        xs: &TPCC_X,
        lines: vec![
            line("Tigon", with(artifact(), work), &TPCC_TIGON),
            line("Sundial+", part(Protocol::Sundial, Route::Receiver), &TPCC_SUNDIAL_PLUS),
            line("DS2PL+", part(Protocol::Ds2pl, Route::Receiver), &TPCC_DS2PL_PLUS),
            line("Sundial-CXL", part(Protocol::Sundial, Route::Thread), &TPCC_SUNDIAL_CXL),
            line("DS2PL-CXL", part(Protocol::Ds2pl, Route::Thread), &TPCC_DS2PL_CXL),
            line("Sundial-NET", part(Protocol::Sundial, Route::Network), &TPCC_SUNDIAL_NET),
            line("DS2PL-NET", part(Protocol::Ds2pl, Route::Network), &TPCC_DS2PL_NET),
            line("Motor", motor(work), &TPCC_MOTOR),
            liger(work),
        ],
        reference: "Sundial+",
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
    let work = Work::Ycsb { reads, theta: 0.7 };
    let plus = |protocol| partitioned(protocol, Route::Receiver, work);
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
        axis: Axis::Remote,
        source: ARTIFACT,
        xs: &YCSB_X,
        lines: vec![
            line("Tigon", with(artifact(), work), tigon),
            line("Sundial+", plus(Protocol::Sundial), sundial),
            line("DS2PL+", plus(Protocol::Ds2pl), ds2pl),
            line("Motor", motor(work), memory_servers),
            liger(work),
        ],
        reference: "Sundial+",
        claims,
    }
}

/// The one published point with more skew.
fn ycsb_skewed() -> Figure {
    use published::*;
    let work = Work::Ycsb { reads: 50, theta: 0.99 };
    let plus = |protocol| partitioned(protocol, Route::Receiver, work);
    Figure {
        id: "fig5-ycsb-50r-zipf99",
        title: "YCSB, 50 % reads, zipf 0.99 (Tigon, section 6)",
        x: "transactions that cross partitions, %",
        axis: Axis::Remote,
        source: ARTIFACT,
        xs: &["100"],
        lines: vec![
            line("Tigon", with(artifact(), work), &SKEWED_TIGON),
            line("Sundial+", plus(Protocol::Sundial), &SKEWED_SUNDIAL),
            line("DS2PL+", plus(Protocol::Ds2pl), &SKEWED_DS2PL),
            Line { published: &SKEWED_NONE, ..liger(work) },
        ],
        reference: "Sundial+",
        claims: vec![Claim::Leads("Tigon", "Sundial+", 0, 1.8), Claim::Leads("Sundial+", "DS2PL+", 0, 1.05)],
    }
}

/// What the protection of gaps costs.
fn phantoms() -> Figure {
    use published::*;
    let work = Work::Tpcc { first_two: false };
    let open = Policies { next_key_locking: false, ..artifact() };
    let ours_open = Policies { next_key_locking: false, ..Policies::default() };
    Figure {
        id: "phantoms-tpcc",
        title: "TPC-C with and without protection from phantoms (Tigon, section 6)",
        x: "remote New-Orders / Payments, %",
        axis: Axis::Remote,
        source: PHANTOMS,
        xs: &["10/15", "60/90"],
        lines: vec![
            line("Tigon", with(artifact(), work), &PHANTOMS_TIGON),
            line("Tigon, gaps open", with(open, work), &PHANTOMS_OPEN),
            line("Sundial+", partitioned(Protocol::Sundial, Route::Receiver, work), &PHANTOMS_SUNDIAL),
            Line { published: &PHANTOMS_NONE, ..liger(work) },
            line("Liger, gaps open", with(ours_open, work), &PHANTOMS_NONE),
        ],
        reference: "Sundial+",
        claims: vec![
            Claim::Leads("Tigon, gaps open", "Tigon", 0, 1.08),
            Claim::Leads("Tigon, gaps open", "Sundial+", 0, 1.0),
        ],
    }
}

fn coherence_lines(work: Work, published: [&'static [Option<f64>]; 4]) -> Vec<Line> {
    let policy = |coherence| with(Policies { coherence, ..artifact() }, work);
    let [through, alone, bypass, hwcc] = published;
    vec![
        line("Tigon", policy(Coherence::WriteThrough), through),
        line("NoSharedReader", policy(Coherence::NoSharedReader), alone),
        line("NonTemporal", policy(Coherence::AlwaysBypass), bypass),
        line("NoSWcc", policy(Coherence::AllHwcc).map(|c| Curve { hwcc_mb: Some(200), ..c }), hwcc),
    ]
}

fn coherence_tpcc() -> Figure {
    use published::*;
    Figure {
        id: "fig8-tpcc",
        title: "TPC-C, how copies are kept coherent (Tigon, figure 8)",
        x: "remote New-Orders / Payments, %",
        axis: Axis::Remote,
        source: ARTIFACT,
        xs: &["10/15", "60/90"],
        lines: coherence_lines(
            Work::Tpcc { first_two: false },
            [&SWCC_TPCC_THROUGH, &SWCC_TPCC_ALONE, &SWCC_TPCC_BYPASS, &SWCC_TPCC_HWCC],
        ),
        reference: "Tigon",
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
        axis: Axis::Remote,
        source: ARTIFACT,
        xs: &["10", "50", "100"],
        lines: coherence_lines(
            Work::Ycsb { reads: 95, theta: 0.7 },
            [&SWCC_YCSB_THROUGH, &SWCC_YCSB_ALONE, &SWCC_YCSB_BYPASS, &SWCC_YCSB_HWCC],
        ),
        reference: "Tigon",
        claims: vec![
            Claim::Leads("Tigon", "NoSharedReader", 2, 1.05),
            Claim::Leads("Tigon", "NonTemporal", 2, 1.1),
        ],
    }
}

fn hosts_tpcc() -> Figure {
    use published::*;
    let work = Work::Tpcc { first_two: false };
    let at = |curve| remote(curve, "60/90");
    let plus = |protocol| at(partitioned(protocol, Route::Receiver, work));
    Figure {
        id: "fig6-tpcc",
        title: "TPC-C at 60/90 on more hosts (Tigon, figure 6)",
        x: "hosts",
        axis: Axis::Hosts,
        source: FINAL_HOSTS,
        xs: &HOSTS_X,
        lines: vec![
            line("Tigon", at(with(artifact(), work)), &HOSTS_TPCC_TIGON),
            line("Sundial+", plus(Protocol::Sundial), &HOSTS_TPCC_SUNDIAL),
            line("DS2PL+", plus(Protocol::Ds2pl), &HOSTS_TPCC_DS2PL),
            Line { curve: at(with(Policies::default(), work)), ..liger(work) },
        ],
        reference: "Sundial+",
        claims: vec![
            Claim::Grows("Tigon", 4.5, 8.0),
            Claim::Grows("Sundial+", 1.5, 3.5),
            Claim::Grows("DS2PL+", 1.5, 3.5),
            Claim::Grows("Liger", 5.7, 16.0),
        ],
    }
}

fn hosts_ycsb() -> Figure {
    use published::*;
    let work = Work::Ycsb { reads: 95, theta: 0.7 };
    let at = |curve| remote(curve, "100");
    let plus = |protocol| at(partitioned(protocol, Route::Receiver, work));
    Figure {
        id: "fig6-ycsb-95r",
        title: "YCSB 95/5, everything crossing, on more hosts (Tigon, figure 6)",
        x: "hosts",
        axis: Axis::Hosts,
        source: FINAL_HOSTS,
        xs: &HOSTS_X,
        lines: vec![
            line("Tigon", at(with(artifact(), work)), &HOSTS_NONE),
            line("Sundial+", plus(Protocol::Sundial), &HOSTS_NONE),
            line("DS2PL+", plus(Protocol::Ds2pl), &HOSTS_NONE),
            Line { curve: at(with(Policies::default(), work)), ..liger(work) },
        ],
        reference: "Sundial+",
        claims: vec![
            Claim::Grows("Tigon", 2.5, 5.0),
            Claim::Grows("Sundial+", 1.0, 2.0),
            Claim::Grows("DS2PL+", 1.0, 2.0),
            Claim::Grows("Liger", 3.5, 16.0),
        ],
    }
}

fn budget_tpcc() -> Figure {
    use published::*;
    let work = Work::Tpcc { first_two: false };
    let tigon = |x| remote(with(artifact(), work), x);
    Figure {
        id: "fig7-tpcc",
        title: "TPC-C with little hardware-coherent memory (Tigon, figure 7)",
        x: "hardware-coherent memory, MB",
        axis: Axis::HwccMb,
        source: ARTIFACT,
        xs: &HWCC_X,
        lines: vec![
            line("Tigon 10/15", tigon("10/15"), &HWCC_TPCC_10),
            line("Tigon 30/45", tigon("30/45"), &HWCC_TPCC_30),
            line("Tigon 60/90", tigon("60/90"), &HWCC_TPCC_60),
            Line {
                name: "Liger 60/90",
                curve: remote(with(Policies::default(), work), "60/90"),
                published: &HWCC_NONE,
            },
        ],
        reference: "Tigon 10/15",
        claims: vec![
            Claim::Loses("Tigon 10/15", -5.0, 10.0),
            Claim::Loses("Tigon 60/90", 10.0, 45.0),
            Claim::Loses("Liger 60/90", -5.0, 5.0),
        ],
    }
}

fn budget_ycsb() -> Figure {
    use published::*;
    let tigon = |reads, x| remote(with(artifact(), Work::Ycsb { reads, theta: 0.7 }), x);
    Figure {
        id: "fig7-ycsb",
        title: "YCSB with little hardware-coherent memory (Tigon, figure 7)",
        x: "hardware-coherent memory, MB",
        axis: Axis::HwccMb,
        source: ARTIFACT,
        xs: &HWCC_X,
        lines: vec![
            line("Tigon 95r 10", tigon(95, "10"), &HWCC_YCSB_95_10),
            line("Tigon 95r 50", tigon(95, "50"), &HWCC_YCSB_95_50),
            line("Tigon 95r 100", tigon(95, "100"), &HWCC_YCSB_95_100),
            line("Tigon 50r 100", tigon(50, "100"), &HWCC_YCSB_50_100),
            Line {
                name: "Liger 95r 100",
                curve: remote(with(Policies::default(), Work::Ycsb { reads: 95, theta: 0.7 }), "100"),
                published: &HWCC_NONE,
            },
        ],
        reference: "Tigon 95r 10",
        claims: vec![
            Claim::Loses("Tigon 95r 10", 5.0, 40.0),
            Claim::Loses("Tigon 95r 100", 60.0, 90.0),
            Claim::Loses("Liger 95r 100", -5.0, 10.0),
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
        axis: Axis::Remote,
        source: published::PASHA,
        xs: &published::TPCC_X,
        lines: vec![
            line("Pasha", with(artifact(), work), &published::PASHA_PASHA),
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
            line("Sundial-SHM", shm(work), &published::PASHA_SUNDIAL_SHM),
            liger(work),
        ],
        reference: "Pasha",
        claims: vec![
            Claim::Leads("Pasha", "Sundial-CXL", 6, 1.3),
            Claim::Leads("Pasha", "Sundial-SHM", 0, 1.2),
            Claim::Leads("Pasha", "Sundial-SHM", 6, 1.05),
            Claim::Loses("Sundial-CXL", 20.0, 90.0),
        ],
    }]
}
