//! What a log's writes and syncs cost on a directory's device:
//! `cargo run --release -p liger-fabric --example disk_costs <directory>`.
//!
//! Each round writes so many bytes behind the last ones and syncs, in a closed loop of one worker. *Growing*
//! files start empty, *preallocated* ones have their space, *written* ones were filled with zeros and synced
//! before, so that their sync has nothing but the bytes to write. Prints microseconds: the write alone, then
//! write and sync, the median and the 99th percentile of the rounds.

#![expect(clippy::disallowed_methods, reason = "an example is its own outermost shell")]

use std::path::PathBuf;
use std::time::Instant;

use liger_fabric::disk::{Disk, DiskError, DiskFile};
use liger_fabric::native::{Mapping, Native};
use liger_fabric::{Cx, HostId, WorkerId};

const SIZES_KIB: [(usize, usize); 3] = [(4, 400), (64, 300), (1024, 100)];
const FILES: [&str; 3] = ["growing", "preallocated", "written"];

fn prepare(cx: &Cx<Native>, file: &DiskFile, kind: &str, len: usize) -> Result<(), DiskError> {
    match kind {
        "preallocated" => file.preallocate(cx, len as u64)?,
        "written" => file.write_at(cx, 0, &vec![0; len])?,
        _ => {}
    }
    file.sync(cx)
}

/// Microseconds of each round: the write, the write and the sync.
fn measure(
    cx: &Cx<Native>,
    disk: &Disk,
    kind: &str,
    bytes: usize,
    rounds: usize,
) -> Result<[Vec<f64>; 2], DiskError> {
    let file = disk.create(cx, kind)?;
    prepare(cx, &file, kind, bytes * rounds)?;
    disk.sync_names(cx)?;
    let data = vec![0xa5; bytes];
    let (mut writes, mut all) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let start = Instant::now();
        file.write_at(cx, (round * bytes) as u64, &data)?;
        writes.push(start.elapsed().as_secs_f64() * 1e6);
        file.sync(cx)?;
        all.push(start.elapsed().as_secs_f64() * 1e6);
    }
    disk.remove(cx, kind)?;
    disk.sync_names(cx)?;
    Ok([writes, all])
}

fn quantile(sorted: &[f64], q: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * q).round() as usize]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args_os().nth(1).map(PathBuf::from).ok_or("which directory?")?;
    let cx = Cx::new(Native::new(Mapping::anonymous(4096)?), HostId(0), WorkerId(0), 1);
    let disk = Disk::native(&directory)?;
    println!("| {:<13} | {:>5} | write p50 | p99 | write + sync p50 | p99 |", "file", "KiB");
    println!("|---|---:|---:|---:|---:|---:|");
    for (kib, rounds) in SIZES_KIB {
        for kind in FILES {
            let measured = measure(&cx, &disk, kind, kib * 1024, rounds)?;
            let [writes, all] = measured.map(|mut us| {
                us.sort_by(f64::total_cmp);
                format!("{:>8.1} | {:>8.1}", quantile(&us, 0.5), quantile(&us, 0.99))
            });
            println!("| {kind:<13} | {kib:>5} | {writes} | {all} |");
        }
    }
    Ok(())
}
