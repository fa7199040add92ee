//! `liger explore`: one workload on simulated pods that differ in one or two hardware parameters: which pod
//! would be worth its price?
//!
//! * [`vary`]: the parameters; [`measure`]: runs the pods, and keeps what is done; [`report`]: table,
//!   picture, files, and the answer in words.
//!
//! Everything is virtual time of a profile, and says so.

mod measure;
mod report;
mod vary;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use liger_fabric::profile::Profile;
use liger_workload::tpcc::input::Remote;

use crate::engines::EngineName;
use crate::failure::Failure;
use crate::terminal::note_interrupts;
use measure::{Explored, Size};
use vary::Vary;

/// What the pods run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum WorkloadName {
    /// TPC-C, five transactions, three warehouses a host
    Tpcc,
    /// YCSB, read-modify-write of whole rows, zipf 0.7
    Ycsb,
}

/// What to explore.
#[derive(Args)]
#[command(after_help = "Example: liger explore --vary cxl-latency=100,200,400,800 --engine row,sundial+")]
pub struct Arguments {
    /// A parameter and its values, like cxl-latency=100,200,400 (the first is x, a second one gives lines):
    /// cxl-latency (ns), bandwidth (GB/s, of the device and of each host's link), coherence (ns, to get a
    /// hardware-coherent line from another host), hwcc (MB for shared rows and their index), hosts, workers
    #[arg(long, required = true, num_args = 1)]
    vary: Vec<Vary>,
    /// What the pods run
    #[arg(long, value_enum, default_value = "tpcc")]
    workload: WorkloadName,
    /// Engines of the pods; each gives lines
    #[arg(long, value_enum, value_delimiter = ',', default_value = "row")]
    engine: Vec<EngineName>,
    /// TPC-C: percentages of New-Orders and Payments that are remote [default: 60/90]
    #[arg(long)]
    remote: Option<Remote>,
    /// TPC-C: divides customers, orders and items [default: 20]
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..=100))]
    scale_divisor: Option<i32>,
    /// YCSB: percentage of transactions that cross hosts [default: 50]
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=100))]
    cross: Option<u32>,
    /// YCSB: percentage of operations that only read [default: 95]
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=100))]
    reads: Option<u32>,
    /// YCSB: rows of each host [default: 20000]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    keys: Option<u32>,
    /// The pod that the parameters change: a built-in profile or a file
    #[arg(long, default_value = "tigon-osdi25-measured")]
    profile: String,
    /// Hosts
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=16))]
    hosts: u8,
    /// Workers of each host
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=30))]
    workers: u8,
    /// Virtual milliseconds measured at a point
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    virtual_ms: u64,
    /// Decides everything
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Pods that are simulated at once
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: u8,
    /// Folder of the report; points that are there already are not run again
    #[arg(long, default_value = "exploration")]
    out: PathBuf,
    /// Print the JSON object instead of the table
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// Parameters of one workload mean nothing to the other.
    fn refuse_others_parameters(&self) -> Result<(), Failure> {
        let tpcc = [("--remote", self.remote.is_some()), ("--scale-divisor", self.scale_divisor.is_some())];
        let ycsb = [
            ("--cross", self.cross.is_some()),
            ("--reads", self.reads.is_some()),
            ("--keys", self.keys.is_some()),
        ];
        let (others, whose): (&[_], _) = match self.workload {
            WorkloadName::Tpcc => (&ycsb, "ycsb"),
            WorkloadName::Ycsb => (&tpcc, "tpcc"),
        };
        match others.iter().find(|(_, given)| *given) {
            Some((name, _)) => Err(Failure::Refused(format!(
                "{name} is a parameter of --workload {whose}: leave it out, or explore that"
            ))),
            None => Ok(()),
        }
    }
}

/// Explores.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let [x, lines @ ..] = &arguments.vary[..] else { unreachable!("clap asks for one") };
    if lines.len() > 1 {
        let message = "--vary: a picture shows one parameter, or two: leave the others out";
        return Err(Failure::Refused(message.to_owned()));
    }
    if lines.iter().any(|second| second.parameter == x.parameter) {
        let (name, message) = (x.parameter.name(), "is varied twice: give all its values once");
        return Err(Failure::Refused(format!("--vary {name} {message}")));
    }
    arguments.refuse_others_parameters()?;
    let profile = Profile::named(&arguments.profile).map_err(|error| Failure::Refused(error.to_string()))?;
    let Arguments { workload, engine, remote, cross, reads, keys, scale_divisor, .. } = arguments;
    let Arguments { hosts, workers, virtual_ms, seed, .. } = *arguments;
    let explored = Explored {
        x: x.clone(),
        lines: lines.first().cloned(),
        engines: engine.clone(),
        workload: *workload,
        remote: remote.unwrap_or(Remote::Percent { new_order: 60, payment: 90 }),
        cross: cross.unwrap_or(50),
        reads: reads.unwrap_or(95),
        profile: Arc::new(profile),
        size: Size {
            keys: keys.unwrap_or(20_000),
            scale_divisor: scale_divisor.unwrap_or(20),
            hosts,
            workers,
            virtual_ms,
            seed,
        },
    };
    note_interrupts()?;
    let points = measure::all(&explored, &arguments.out, arguments.threads.into())?;
    let found = report::Found::new(&explored, &points);
    let files = [("explore.html", found.html()), ("explore.json", format!("{:#}\n", found.json()))];
    for (file, text) in files {
        let path = arguments.out.join(file);
        std::fs::write(&path, text).map_err(|error| measure::unwritable(&path, &error))?;
    }
    if arguments.json {
        println!("{}", found.json());
    } else {
        print!("{}", found.table());
        println!("report: {}", arguments.out.join("explore.html").display());
    }
    let right = points.iter().all(|point| point.problems.is_empty());
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
