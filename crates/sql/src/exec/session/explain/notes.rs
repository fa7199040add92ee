//! How nodes sorted and hashed their rows, and what that took, as PostgreSQL shows it.

use super::build::Item;
use super::print::{Group, number, text};
use crate::exec::measure::{Meter, Note};
use crate::exec::spill::SortMethod;
use crate::temporary::PAGE;

fn sort(method: SortMethod) -> (&'static str, &'static str, u64) {
    match method {
        SortMethod::Quicksort { memory_kb } => ("quicksort", "Memory", memory_kb),
        SortMethod::TopN { memory_kb } => ("top-N heapsort", "Memory", memory_kb),
        SortMethod::ExternalMerge { disk_kb } => ("external merge", "Disk", disk_kb),
    }
}

/// What was noted of a node.
fn noted(item: &Item, meter: Option<&Meter>) -> Option<Note> {
    meter?.noted(item.noted?)
}

/// The line of a node.
pub(super) fn line(item: &Item, meter: Option<&Meter>) -> Option<String> {
    Some(match noted(item, meter)? {
        Note::Sort(method) => {
            let (name, place, kb) = sort(method);
            format!("Sort Method: {name}  {place}: {kb}kB")
        }
        Note::Hash(used) if item.kind == "Hash" => {
            let (buckets, batches, memory) = (used.buckets, used.batches, used.memory_kb);
            match batches {
                1 => format!("Buckets: {buckets}  Batches: 1  Memory Usage: {memory}kB"),
                _ => format!(
                    "Buckets: {buckets} (originally {buckets})  Batches: {batches} (originally 1)  \
                     Memory Usage: {memory}kB"
                ),
            }
        }
        Note::Hash(used) => {
            let line = format!("Batches: {}  Memory Usage: {}kB", used.batches, used.memory_kb);
            match used.batches {
                1 => line,
                _ => format!("{line}  Disk Usage: {}kB", used.disk_kb),
            }
        }
    })
}

/// The properties of a node.
pub(super) fn group(item: &Item, meter: Option<&Meter>) -> Group {
    match noted(item, meter) {
        None => Group::new(),
        Some(Note::Sort(method)) => {
            let (name, place, kb) = sort(method);
            vec![
                ("Sort Method", text(name)),
                ("Sort Space Used", number(kb)),
                ("Sort Space Type", text(place)),
            ]
        }
        Some(Note::Hash(used)) if item.kind == "Hash" => vec![
            ("Hash Buckets", number(used.buckets)),
            ("Original Hash Buckets", number(used.buckets)),
            ("Hash Batches", number(used.batches)),
            ("Original Hash Batches", number(1)),
            ("Peak Memory Usage", number(used.memory_kb)),
        ],
        Some(Note::Hash(used)) => vec![
            ("Planned Partitions", number(0)),
            ("HashAgg Batches", number(used.batches)),
            ("Peak Memory Usage", number(used.memory_kb)),
            ("Disk Usage", number(used.disk_kb)),
        ],
    }
}

/// Pages of temporary files that a statement has read and written, of these bytes.
pub(super) fn pages(bytes: [u64; 2]) -> [u64; 2] {
    bytes.map(|bytes| bytes.div_ceil(PAGE))
}
