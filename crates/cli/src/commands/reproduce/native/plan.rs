//! What is run: workloads, points, engines; and what Tigon's artifact did there.

use liger_sim::bench::shapes;
use liger_workload::tpcc::Scale;
use liger_workload::tpcc::benchmark::Tpcc;
use liger_workload::tpcc::input::{Mix, Remote};
use liger_workload::ycsb::Ycsb;

use super::super::measure::crosses;
use super::measure::Size;
use crate::engines::EngineName;
use crate::job::Bench;

/// The engines, with the name of their counterparts in the artifact. The first is Liger's.
pub const ENGINES: [(EngineName, &str, &str); 3] = [
    (EngineName::Row, "row", "Tigon"),
    (EngineName::SundialPlus, "sundial+", "Sundial+"),
    (EngineName::Ds2plPlus, "ds2pl+", "DS2PL+"),
];

/// What the artifact's figures are.
pub const SOURCE: &str = "Tigon's artifact (OSDI 2025), run with 1 or 2 hosts of 1 worker on another \
                          machine, log off, everything remote moved in beforehand: TPC-C on an AMD EPYC \
                          (Zen 5); for YCSB (zipf 0.7, rows of 1 KB) the machine is not recorded, and only \
                          the rounded figures shown are known";

/// What hosts run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Work {
    /// The five transactions, as the artifact has them.
    Tpcc,
    /// Read and change rows, so many percent of the operations only read.
    Ycsb {
        /// The percentage.
        reads: u32,
    },
}

/// A point of a figure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Its name.
    pub name: &'static str,
    /// Hosts, with one worker each.
    pub hosts: u8,
    /// What crosses partitions: percentages of New-Orders and Payments, or of transactions.
    pub cross: &'static str,
    /// Thousands of transactions a second of the artifact, by engine.
    pub artifact: [Option<f64>; 3],
}

/// A figure.
pub struct Figure {
    /// Its name in reports and files.
    pub id: &'static str,
    /// What it is about.
    pub title: &'static str,
    /// What a point's name says.
    pub x: &'static str,
    /// The workload.
    pub work: Work,
    /// The points.
    pub points: [Point; 4],
}

const NONE: [Option<f64>; 3] = [None; 3];

const fn point(name: &'static str, hosts: u8, cross: &'static str, artifact: [Option<f64>; 3]) -> Point {
    Point { name, hosts, cross, artifact }
}

const fn two(tigon: f64, sundial: f64) -> [Option<f64>; 3] {
    [Some(tigon), Some(sundial), None]
}

/// All of them.
pub fn figures() -> Vec<Figure> {
    let crossing = "transactions that cross partitions, %, with 2 hosts; and 1 host";
    vec![
        Figure {
            id: "tpcc",
            title: "TPC-C, five transactions",
            x: "remote New-Orders / Payments, %, with 2 hosts; and 1 host",
            work: Work::Tpcc,
            points: [
                point("1 host", 1, "10/15", two(51.6, 63.9)),
                point("0/0", 2, "0/0", two(90.0, 129.2)),
                point("10/15", 2, "10/15", two(95.7, 91.3)),
                point("60/90", 2, "60/90", two(95.8, 57.3)),
            ],
        },
        Figure {
            id: "ycsb-95r",
            title: "YCSB, 95 % reads, zipf 0.7, rows of 1 KB",
            x: crossing,
            work: Work::Ycsb { reads: 95 },
            points: [
                point("1 host", 1, "0", NONE),
                point("0", 2, "0", two(237.0, 282.0)),
                point("50", 2, "50", NONE),
                point("100", 2, "100", [Some(193.0), None, None]),
            ],
        },
        Figure {
            id: "ycsb-50r",
            title: "YCSB, 50 % reads, zipf 0.7, rows of 1 KB",
            x: crossing,
            work: Work::Ycsb { reads: 50 },
            points: [
                point("1 host", 1, "0", NONE),
                point("0", 2, "0", NONE),
                point("50", 2, "50", two(71.9, 88.0)),
                point("100", 2, "100", NONE),
            ],
        },
    ]
}

impl Point {
    /// Whether everything that others may touch is shared before: not where nobody touches what is another
    /// host's, as in the simulated figures.
    pub fn is_shared(&self) -> bool {
        self.hosts > 1 && crosses(self.cross)
    }
}

impl Work {
    /// The workload at this point, the same for real processes and in the simulator.
    pub fn at(self, point: &Point, size: &Size) -> Bench {
        match self {
            Self::Tpcc => {
                let remote: Remote = point.cross.parse().expect("percentages of the plan");
                let scale = Scale::reduced(point.hosts.into(), size.scale_divisor);
                Bench::Tpcc(Tpcc { scale, mix: Mix::Artifact, ..shapes::tpcc(remote) })
            }
            Self::Ycsb { reads } => {
                let cross = point.cross.parse().expect("a percentage of the plan");
                Bench::Ycsb(Ycsb { keys: size.keys, ..Ycsb::tigon(point.hosts.into(), reads, cross) })
            }
        }
    }
}
