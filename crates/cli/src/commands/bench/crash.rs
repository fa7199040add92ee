//! `liger bench tpcc --crash-after S`: all hosts are killed while they run, a new pod recovers from the data
//! directory, and every transaction that somebody outside the hosts was told of has to be there.
//!
//! The memory of the pod is thrown away with the hosts, so only the files are left; unless it is to be
//! kept. What was acknowledged is counted here, from what the hosts said before they died.

#![expect(clippy::disallowed_methods, reason = "the command measures the crash from outside the hosts")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use liger_engine::Durability;
use liger_engine::recovery::salvage::Dead;
use liger_fabric::native::MemorySpec;
use liger_workload::Acknowledged;
use liger_workload::EngineFigures;
use serde::Serialize;

use super::{PATIENCE, Recovered, prepare_hosts, recover, verify};
use crate::control::{Answer, Order};
use crate::failure::Failure;
use crate::fleet::Fleet;
use crate::job::Job;
use crate::memory::{Outlived, PodMemory};
use crate::pod::log_bytes;
use crate::terminal::Phase;

/// What was left after the crash.
#[derive(Serialize)]
pub struct Survived {
    workload: &'static str,
    /// As reports of runs call it: injected latencies are told here too.
    backend: String,
    durability: &'static str,
    hosts: u8,
    seed: u64,
    /// Hosts killed.
    kills: u8,
    /// Transactions that the hosts had acknowledged, by name.
    acknowledged: BTreeMap<String, u64>,
    acknowledged_lost: u64,
    recovered_rows: u64,
    recovered_changes: u64,
    recovery_read_bytes: u64,
    /// Bytes of all hosts' logs.
    recovery_log_bytes: u64,
    memory_kept: bool,
    /// Records that only the memory had, and their bytes.
    salvaged_records: u64,
    salvaged_bytes: u64,
    /// From the first look at the files to the last row in its place; of that, until it was known what
    /// counts, until all hosts had joined, until they could serve, and until each of their workers had
    /// ended its first transaction.
    recovery_s: f64,
    begun_s: f64,
    joined_s: f64,
    opened_s: f64,
    first_transaction_s: f64,
    consistent: bool,
    failures: Vec<String>,
}

impl Survived {
    /// Whether nothing is lost or wrong.
    pub fn is_good(&self) -> bool {
        self.consistent && self.acknowledged_lost == 0
    }

    /// As one JSON object.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("every key is a string")
    }

    /// As text.
    pub fn table(&self) -> String {
        let memory = if self.memory_kept { "intact" } else { "lost" };
        let mut text = format!("{} of {} hosts killed, the shared memory {memory}\n", self.kills, self.hosts);
        let _ = writeln!(text, "{}\n", self.backend);
        for (name, count) in &self.acknowledged {
            let _ = writeln!(text, "acknowledged {:<20} {count:>12}", name.replace('_', " "));
        }
        let _ = writeln!(text, "acknowledged and lost {:>24}", self.acknowledged_lost);
        if self.memory_kept {
            let _ = writeln!(text, "records salvaged from rings {:>18}", self.salvaged_records);
        }
        let _ = writeln!(text, "rows recovered {:>31}", self.recovered_rows);
        let _ = writeln!(text, "changes applied from logs {:>20}", self.recovered_changes);
        let _ = writeln!(text, "read {:>37.1} MB", self.recovery_read_bytes as f64 / 1e6);
        let _ = writeln!(text, "logs of all hosts {:>24.1} MB", self.recovery_log_bytes as f64 / 1e6);
        let _ = writeln!(text, "it is known what counts after {:>13.2} s", self.begun_s);
        let _ = writeln!(text, "all hosts have joined after {:>15.2} s", self.joined_s);
        let _ = writeln!(text, "all hosts serve after {:>21.2} s", self.opened_s);
        let _ = writeln!(text, "the first transactions end after {:>10.2} s", self.first_transaction_s);
        let _ = writeln!(text, "all rows are there after {:>18.2} s", self.recovery_s);
        for failure in &self.failures {
            let _ = writeln!(text, "  {failure}");
        }
        let verdict = if self.consistent { "consistent: all conditions hold" } else { "NOT consistent" };
        text + verdict
    }
}

/// Runs, kills, recovers and checks.
pub fn run(
    mut fleet: Fleet,
    memory: PodMemory,
    mut job: Job,
    seconds: f64,
    (spec, keep_memory): (&MemorySpec, bool),
) -> Result<Survived, Failure> {
    super::prepare(&mut fleet, &memory, &job)?;
    let phase = Phase::start(&format!("running for {seconds} s, then killing every host"));
    let mut told: Vec<BTreeMap<String, u64>> = vec![BTreeMap::new(); fleet.len()];
    for host in 0..fleet.len() {
        // They are killed before the time is over.
        fleet.order(host, &Order::Run { seconds: job.seconds.max(seconds) })?;
    }
    let end = Instant::now() + Duration::from_secs_f64(seconds + job.warm_up_s);
    while Instant::now() < end {
        let (host, answer, _) = fleet.next(PATIENCE)?;
        match answer {
            Answer::Acknowledged { counts } => told[host] = counts,
            Answer::Ran { .. } => break,
            other => return Err(other.unasked()),
        }
    }
    fleet.crash(PATIENCE, |host, answer| {
        if let Answer::Acknowledged { counts } = answer {
            told[host] = counts;
        }
    })?;
    // A memory without a name lives as long as what was made of it.
    let mut kept = keep_memory.then_some(memory);
    phase.done("killed");
    let mut acknowledged = BTreeMap::<String, u64>::new();
    for (name, count) in told.into_iter().flatten() {
        *acknowledged.entry(name).or_default() += count;
    }
    let started = Instant::now();
    let (config, schemas) = (job.pod_config(), job.schemas());
    let data = job.data.as_mut().expect("the command line asks for a directory");
    let old = kept.as_ref().map(|memory| memory.name.parse()).transpose()?;
    let spec = old.as_ref().unwrap_or(spec);
    let outlived = Outlived { discard: false, dead: Dead::Proven };
    let phase = Phase::of_bytes("looking for what is left", log_bytes(&data.path));
    let (memory, generation, found) =
        PodMemory::again(spec, (&config, &config, &schemas), &data.path, outlived, &phase)?;
    drop(phase);
    kept.iter_mut().for_each(PodMemory::keep);
    (data.recover, data.generation) = (true, generation);
    let begun_s = started.elapsed().as_secs_f64();
    eprintln!("{found}");
    let mut fleet = Fleet::new()?;
    prepare_hosts(&mut fleet, &memory, &job)?;
    let joined_s = started.elapsed().as_secs_f64();
    let Recovered { bytes, log_bytes, rows, changes } = recover(&mut fleet)?;
    let opened_s = started.elapsed().as_secs_f64();
    fleet.order_all(|_| Order::RunOne, PATIENCE, |_| ())?;
    let first_transaction_s = started.elapsed().as_secs_f64();
    fleet.order_all(|_| Order::AwaitRows, PATIENCE, |_| ())?;
    let recovery_s = started.elapsed().as_secs_f64();
    let mut figures = EngineFigures::default();
    let least = Acknowledged::AtLeast(&acknowledged);
    let (failures, acknowledged_lost) = verify(&mut fleet, &job, least, &mut figures)?;
    fleet.dismiss(PATIENCE)?;
    Ok(Survived {
        workload: "tpcc",
        backend: job.backend_label(),
        durability: Durability::from(job.durability).name(),
        hosts: job.hosts,
        seed: job.seed,
        kills: job.hosts,
        acknowledged,
        acknowledged_lost,
        recovered_rows: rows,
        recovered_changes: changes,
        recovery_read_bytes: bytes,
        recovery_log_bytes: log_bytes,
        memory_kept: keep_memory,
        salvaged_records: found.salvaged().records,
        salvaged_bytes: found.salvaged().bytes,
        recovery_s,
        begun_s,
        joined_s,
        opened_s,
        first_transaction_s,
        consistent: failures.is_empty(),
        failures,
    })
}
