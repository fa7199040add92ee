//! `liger restore`: the directory of a pod, made from a backup. docs/protocols/backup.md.
//!
//! The pod's description is written when everything else is on storage: a directory without it is no pod.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use liger_engine::db::DataDirectory;
use serde_json::json;

use super::up::new_memory;
use crate::backup::{Backup, Filled, check_free, data_of, refused, sync_folder};
use crate::failure::Failure;
use crate::job::Sql;
use crate::memory::files_cx;
use crate::pod::{PodDir, PodFile, make_folder};
use crate::sizes;
use crate::terminal::{self, Phase};

/// What is restored, and where.
#[derive(Args)]
pub struct Arguments {
    /// The backup
    target: PathBuf,
    /// The pod's directory, which is made
    dir: PathBuf,
    /// Where clients of SQL find host 0 [default: where they found it in the pod that was backed up]
    #[arg(long)]
    port: Option<u16>,
    /// Where Prometheus finds the figures of host 0 [default: as with --port]
    #[arg(long)]
    metrics_port: Option<u16>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Restores a backup.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let (target, dir) = (&arguments.target, &arguments.dir);
    let backup = Backup::read(target)?;
    check_free(dir, "a pod is restored to a directory of its own: name another one")?;
    backup.check_names(target)?;
    let cx = files_cx()?;
    // Can this program read it?
    DataDirectory::open(&cx, &data_of(target), backup.pod.job.identity())?.plan_of_begun(&cx)?;
    let file = arguments.description(&backup)?;
    terminal::note_interrupts()?;
    let filled = Filled::begin(dir)?;
    let dir = PodDir::lay_out(dir, file)?;
    for host in 0..dir.hosts() {
        make_folder(&dir.data_of(host))?;
    }
    let phase = Phase::of_bytes("copying", backup.bytes());
    backup.read_files(target, Some(dir.path()), |bytes| phase.add(bytes))?;
    for host in 0..dir.hosts() {
        sync_folder(&dir.data_of(host))?;
    }
    sync_folder(&dir.data())?;
    phase.done(&sizes::show(backup.bytes()));
    dir.file.job.access.prepare()?;
    dir.save()?;
    sync_folder(dir.path())?;
    dir.path().parent().map_or(Ok(()), sync_folder)?;
    filled.keep();
    let (path, epoch, bytes) = (dir.path().display().to_string(), backup.epoch, backup.bytes());
    if arguments.json {
        let (time, of) = (backup.time(), backup.of.display().to_string());
        let time_ms = backup.time_ms;
        println!(
            "{}",
            json!({ "dir": path, "of": of, "epoch": epoch, "time": time, "time_ms": time_ms, "bytes": bytes })
        );
    } else {
        let of = backup.of.display();
        println!("{path}: {of} as it was in epoch {epoch}, at {}", backup.time());
        println!("`liger recover {path}` starts it");
    }
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    /// The description of the restored pod: it has a memory, a directory and ports of its own.
    fn description(&self, backup: &Backup) -> Result<PodFile, Failure> {
        let mut file = backup.pod.clone();
        let dir = std::path::absolute(&self.dir).unwrap_or_else(|_| self.dir.clone());
        file.memory = new_memory(&dir);
        let job = &mut file.job;
        let Some(data) = &mut job.data else {
            return Err(refused(&self.target, "its pod keeps no log: use another backup"));
        };
        data.path = dir.join("data");
        job.access = std::mem::take(&mut job.access).of_dir(&dir);
        job.telling.metrics_port = self.metrics_port.or(job.telling.metrics_port);
        match &mut job.sql {
            Some(Sql { port, .. }) => {
                *port = self.port.unwrap_or(*port);
                if port.checked_add(job.hosts.into()).is_none() {
                    return Err(Failure::Refused(format!(
                        "--port {port} leaves no ports for {} hosts",
                        job.hosts
                    )));
                }
                job.telling.check(*port, job.hosts)?;
            }
            None if self.port.or(self.metrics_port).is_some() => {
                let why = "its pod has no clients of SQL: leave --port and --metrics-port away";
                return Err(refused(&self.target, why));
            }
            None => {}
        }
        Ok(file)
    }
}
