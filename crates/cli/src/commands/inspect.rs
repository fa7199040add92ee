//! `liger inspect`: what a pod's memory holds, read without the right to change it.

use std::process::ExitCode;

use clap::Args;
use liger_fabric::native::process::number_of;
use liger_fabric::native::{MemorySpec, NativeReader};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::epochs;
use liger_pod::heap;
use liger_pod::membership::{HostView, Observer};
use liger_pod::plan::{Plan, RegionKind};
use liger_pod::superblock::{self, FORMAT_VERSION};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::sizes;

/// What to look at.
#[derive(Args)]
pub struct Arguments {
    /// The memory: a file, /dev/daxN.M, or a PCI resource
    path: String,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

/// Everything that is shown.
struct View {
    memory: String,
    plan: Plan,
    hosts: Vec<HostView>,
    accounts: Vec<Vec<heap::Account>>,
    epochs: epochs::Progress,
}

/// Shows a pod.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    // A bare name is a file here; only `bench` must tell it from the names of other memory.
    let spec = arguments.path.parse().unwrap_or(MemorySpec::File(arguments.path.clone().into()));
    let view = look(&spec)?;
    if arguments.json {
        println!("{}", view.json());
    } else {
        view.print();
    }
    Ok(ExitCode::SUCCESS)
}

fn look(spec: &MemorySpec) -> Result<View, Failure> {
    let mapping = spec.open_read_only()?;
    let len = mapping.len() as u64;
    let cx = Cx::new(NativeReader::new(mapping), HostId(0), WorkerId(0), 0);
    let of = |error| Failure::Refused(format!("{spec}: {error}"));
    let plan = superblock::open(&cx, len).map_err(of)?;
    let hosts = Observer::new(&plan).observe(&cx).map_err(of)?;
    let accounts = plan.hosts().map(|host| heap::accounts(&cx, &plan, host)).collect();
    let epochs = epochs::progress(&cx, &plan);
    Ok(View { memory: spec.to_string(), plan, hosts, accounts, epochs })
}

impl View {
    fn configuration(&self) -> [(&'static str, String); 13] {
        let c = self.plan.config();
        [
            ("hosts", c.hosts.to_string()),
            ("workers", c.workers.to_string()),
            ("partitions", c.partitions.to_string()),
            ("max_tables", c.max_tables.to_string()),
            ("sync_mode", c.sync_mode.to_string()),
            ("hwcc_bytes", c.hwcc_bytes.to_string()),
            ("cxl_bytes", c.cxl_bytes.to_string()),
            ("lane_slots", c.lane_slots.to_string()),
            ("lane_slot_bytes", c.lane_slot_bytes.to_string()),
            ("retire_entries", c.retire_entries.to_string()),
            ("block_chunk_bytes", c.block_chunk_bytes.to_string()),
            ("log_ring_bytes", c.log_ring_bytes.to_string()),
            ("content_hash", format!("{:016x}", c.content_hash)),
        ]
    }

    fn print(&self) {
        println!("{}: a pod of format {FORMAT_VERSION}, {}", self.memory, sizes::show(self.plan.len()));
        println!("\nconfiguration");
        self.configuration().iter().for_each(|(name, value)| println!("  {name:<20}{value}"));
        println!("\n{:>14} {:>14}  {:<5} part", "offset", "bytes", "kind");
        for region in self.plan.regions() {
            println!(
                "{:>14x} {:>14}  {:<5} {:?}",
                region.start,
                region.bytes,
                kind(region.kind),
                region.part
            );
        }
        println!(
            "\n{:>4}  {:<10}{:>12}{:>10}{:>13}{:>10}",
            "host", "state", "incarnation", "process", "tested with", "epoch"
        );
        for (view, summary) in self.hosts.iter().zip(&self.epochs.summaries) {
            let tested = view.tested_with.map_or("nobody".to_owned(), |host| format!("host {}", host.0));
            let slot = view.slot;
            let state = slot.state.to_string();
            println!(
                "{:>4}  {state:<10}{:>12}{:>10}{tested:>13}{summary:>10}",
                slot.host.0,
                slot.incarnation,
                number_of(view.process)
            );
        }
        println!("pod epoch: {}", self.epochs.epoch);
        println!("\nheap, by host and class (a host that gives back what others took counts it as negative)");
        println!("{:>4}  {:<16}{:>16}{:>18}", "host", "class", "bytes in use", "bytes in chunks");
        for (host, accounts) in self.accounts.iter().enumerate() {
            for heap::Account { class, live_bytes, chunk_bytes } in accounts {
                println!("{host:>4}  {class:<16}{live_bytes:>16}{chunk_bytes:>18}");
            }
        }
    }

    fn json(&self) -> Value {
        let regions = self.plan.regions().iter().map(|region| {
            json!({ "part": format!("{:?}", region.part), "kind": kind(region.kind), "start": region.start,
                "bytes": region.bytes })
        });
        let hosts = self.hosts.iter().zip(&self.accounts).zip(&self.epochs.summaries);
        let hosts = hosts.map(|((view, accounts), summary)| {
            let heap = accounts.iter().map(|account| {
                json!({ "class": account.class, "live_bytes": account.live_bytes,
                    "chunk_bytes": account.chunk_bytes })
            });
            json!({ "host": view.slot.host.0, "state": view.slot.state.to_string(),
                "incarnation": view.slot.incarnation, "process": number_of(view.process),
                "tested_with": view.tested_with.map(|host| host.0), "epoch": summary,
                "heap": heap.collect::<Vec<_>>() })
        });
        let configuration = self.configuration().into_iter();
        let configuration = configuration.map(|(name, value)| (name.to_owned(), value.into()));
        json!({
            "memory": self.memory,
            "format_version": FORMAT_VERSION,
            "pod_bytes": self.plan.len(),
            "configuration": configuration.collect::<serde_json::Map<String, Value>>(),
            "regions": regions.collect::<Vec<_>>(),
            "hosts": hosts.collect::<Vec<_>>(),
            "epoch": self.epochs.epoch,
        })
    }
}

fn kind(kind: RegionKind) -> &'static str {
    match kind {
        RegionKind::Sync => "sync",
        RegionKind::Data => "data",
    }
}
