//! `liger verify`: is what a pod directory, or a backup, holds whole?
//!
//! A pod that is down is judged from its files: every manifest, every segment of every log, every image
//! that counts, and every row's chain of changes, by replaying each partition without a pod. Nothing is
//! changed. A backup is judged in the same way, once all its files are what its manifest says. A pod that is
//! up is judged by who is a member and who owns what: its files are being written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use liger_engine::Catalog;
use liger_engine::db::{DataDirectory, StorageError};
use liger_engine::files::segment_name;
use liger_engine::log::fragments::{Next, Unfinished};
use liger_engine::log::record::epoch_of;
use liger_engine::log::scan::Scanner;
use liger_engine::recovery::directory::{Directory, ReadBuffer};
use liger_engine::recovery::image::REPLICAS;
use liger_engine::recovery::replay::{Changes, RecordAt, Replayed};
use liger_engine::recovery::{Plan, RecoveryError, Stored};
use liger_fabric::Cx;
use liger_fabric::native::Native;
use liger_pod::plan::PartitionId;
use serde::Serialize;

use super::status;
use crate::backup::{Backup, data_of, is_backup, refused};
use crate::failure::Failure;
use crate::job::Job;
use crate::memory::files_cx;
use crate::pod::{PodDir, bytes_of, log_bytes};
use crate::terminal::Phase;

/// What to look at.
#[derive(Args)]
pub struct Arguments {
    /// The pod's directory, or a backup
    dir: PathBuf,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// What a partition's files hold.
#[derive(Serialize)]
struct Part {
    partition: u16,
    /// Whose image it is; none if there is no image yet.
    image_of_host: Option<u8>,
    image_rows: u64,
    image_bytes: u64,
    /// Changes behind the image.
    changes: u64,
    /// Rows that recovery would bring back.
    rows: u64,
}

/// What the files of a pod hold.
#[derive(Serialize)]
struct Files {
    dir: String,
    generation: u64,
    durable_epoch: u64,
    hosts: Vec<Log>,
    partitions: Vec<Part>,
    rows: u64,
    changes: u64,
    bytes: u64,
}

/// A host's log.
#[derive(Serialize)]
struct Log {
    host: u8,
    segments: usize,
    records: u64,
    log_bytes: u64,
    last_mark: u64,
    checkpoint: Option<u64>,
}

/// Judges a pod.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if is_backup(&arguments.dir) {
        return backup(arguments);
    }
    let dir = PodDir::open(&arguments.dir)?;
    if status::is_up(&dir) {
        return status::verify_members(&dir, arguments.json);
    }
    let job = &dir.file.job;
    let Some(data) = &job.data else {
        let path = dir.path().display();
        return Err(Failure::Refused(format!("{path} keeps no log: there are no files to verify")));
    };
    let phase = Phase::of_bytes("reading every file", to_read(&data.path));
    let files = Audit::new(job, &data.path, &phase)?.files(dir.path())?;
    phase.done(&format!("{:.1} MB", files.bytes as f64 / 1e6));
    show(arguments, &files)
}

/// Judges a backup: every file against its manifest, and then as those of a pod that is down.
fn backup(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let target = &arguments.dir;
    let backup = Backup::read(target)?;
    backup.check_names(target)?;
    let phase = Phase::of_bytes("comparing every file with the manifest", backup.bytes());
    backup.read_files(target, None, |bytes| phase.add(bytes))?;
    phase.done(&format!("{} files", backup.files.len()));
    let phase = Phase::of_bytes("replaying every row", to_read(&data_of(target)));
    let files = Audit::new(&backup.pod.job, &data_of(target), &phase)?.files(target)?;
    phase.done(&format!("{:.1} MB", files.bytes as f64 / 1e6));
    if files.durable_epoch != backup.epoch {
        let (found, epoch) = (files.durable_epoch, backup.epoch);
        let why =
            format!("its files lead to epoch {found}, and its manifest says {epoch}: use another backup");
        return Err(refused(target, why));
    }
    show(arguments, &files)
}

fn show(arguments: &Arguments, files: &Files) -> Result<ExitCode, Failure> {
    match arguments.json {
        true => println!("{}", serde_json::to_string(files).expect("every key is a string")),
        false => print(files),
    }
    Ok(ExitCode::SUCCESS)
}

fn print(files: &Files) {
    println!("{}: generation {}, durable up to epoch {}", files.dir, files.generation, files.durable_epoch);
    println!(
        "\n{:>4}{:>10}{:>12}{:>14}{:>12}{:>12}",
        "host", "segments", "records", "log bytes", "mark", "checkpoint"
    );
    for Log { host, segments, records, log_bytes, last_mark, checkpoint } in &files.hosts {
        let checkpoint = checkpoint.map_or("none".to_owned(), |number| number.to_string());
        println!("{host:>4}{segments:>10}{records:>12}{log_bytes:>14}{last_mark:>12}{checkpoint:>12}");
    }
    println!(
        "\n{:>9}{:>7}{:>12}{:>14}{:>12}{:>12}",
        "partition", "image", "its rows", "its bytes", "changes", "rows"
    );
    for part in &files.partitions {
        let name =
            if part.partition == REPLICAS.0 { "replicas".to_owned() } else { part.partition.to_string() };
        let image = part.image_of_host.map_or("none".to_owned(), |host| host.to_string());
        let Part { image_rows, image_bytes, changes, rows, .. } = part;
        println!("{name:>9}{image:>7}{image_rows:>12}{image_bytes:>14}{changes:>12}{rows:>12}");
    }
    println!("\nwhole: {} rows, {} changes from logs, {} bytes read", files.rows, files.changes, files.bytes);
}

impl From<RecoveryError> for Failure {
    fn from(error: RecoveryError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        Self::Refused(error.to_string())
    }
}

/// The image that a partition starts from.
struct Start {
    host: usize,
    begin_epoch: u64,
}

/// All files of a pod, and what is read of them.
struct Audit {
    cx: Cx<Native>,
    catalog: Catalog,
    directories: Vec<Directory>,
    plan: Plan,
    partitions: u16,
    bytes: u64,
}

/// Bytes that are read for it: logs twice, first for what counts.
fn to_read(data: &Path) -> u64 {
    2 * log_bytes(data) + bytes_of(data, |name| name.starts_with("image-"))
}

impl Audit {
    fn new(job: &Job, data: &Path, phase: &Phase) -> Result<Self, Failure> {
        let cx = files_cx()?;
        let (catalog, partitions) = (job.catalog(), job.pod_config().partitions);
        let data = DataDirectory::open(&cx, data, job.identity())?;
        phase.follow(data.bytes_read());
        let plan = data.plan(&cx)?;
        let directories = data.look_all()?;
        Ok(Self { cx, catalog, directories, plan, partitions, bytes: 0 })
    }

    /// The newest image of a partition.
    fn start_of(&self, partition: PartitionId) -> Option<Start> {
        let has = |(host, files): (usize, &liger_engine::recovery::HostFiles)| {
            let image = files.manifest.images().iter().find(|image| image.partition == partition)?;
            Some(Start { host, begin_epoch: image.begin_epoch })
        };
        self.plan.hosts.iter().enumerate().filter_map(has).max_by_key(|start| start.begin_epoch)
    }

    fn files(mut self, path: &Path) -> Result<Files, Failure> {
        let starts: Vec<Option<Start>> =
            (0..self.partitions).map(|p| self.start_of(PartitionId(p))).collect();
        let mut changes = self.changes(&starts)?;
        let mut partitions = Vec::new();
        for (partition, start) in (0..).map(PartitionId).zip(&starts) {
            let mine = changes.remove(&partition).unwrap_or_default();
            partitions.push(self.part(partition, start.as_ref().map(|start| start.host), mine)?);
        }
        for host in 0..self.directories.len() {
            if self.plan.hosts[host].has_image(REPLICAS) {
                partitions.push(self.part(REPLICAS, Some(host), Changes::default())?);
            }
        }
        let log = |(host, files): (u8, &liger_engine::recovery::HostFiles)| Log {
            host,
            segments: files.segments.len(),
            records: files.read().records,
            log_bytes: files.read().bytes,
            last_mark: files.read().marks.last,
            checkpoint: files.manifest.checkpoint.as_ref().map(|checkpoint| checkpoint.number),
        };
        Ok(Files {
            dir: path.display().to_string(),
            generation: self.plan.pod.generation,
            durable_epoch: self.plan.durable_epoch,
            hosts: (0..).zip(&self.plan.hosts).map(log).collect(),
            rows: partitions.iter().map(|part| part.rows).sum(),
            changes: partitions.iter().map(|part| part.changes).sum(),
            bytes: self.bytes,
            partitions,
        })
    }

    /// Reads all logs once more, and sorts the changes that count into partitions.
    fn changes(&mut self, starts: &[Option<Start>]) -> Result<BTreeMap<PartitionId, Changes>, RecoveryError> {
        let mut all = BTreeMap::<PartitionId, Changes>::new();
        for (directory, files) in self.directories.iter().zip(&self.plan.hosts) {
            let host = directory.host();
            let (mut misplaced, mut senseless) = (None, None);
            let mut unfinished = Unfinished::<BTreeMap<PartitionId, Changes>>::default();
            let mut scanner = Scanner::new(self.plan.pod.pod, host);
            let mut buffer = ReadBuffer::default();
            for &segment in &files.segments {
                let bytes = buffer.read(&self.cx, directory, &segment_name(segment))?;
                scanner.segment(segment, bytes, |record, spot| {
                    let at = RecordAt { host, segment: spot.segment, byte: spot.byte };
                    let (llsn, epoch) = (record.llsn(), epoch_of(record.llsn()));
                    let mut add = |to: &mut BTreeMap<PartitionId, Changes>| {
                        for change in record.changes() {
                            let change = match change {
                                Ok(change) => change,
                                Err(bad) => return senseless = senseless.or(Some((at, bad))),
                            };
                            match starts.get(change.partition.index()) {
                                None => misplaced = misplaced.take().or(Some((at, change.partition))),
                                Some(Some(start)) if llsn > 0 && epoch < start.begin_epoch => {}
                                Some(_) => to.entry(change.partition).or_default().push(&change, llsn, at),
                            }
                        }
                    };
                    match unfinished.next(record) {
                        Next::Waits(kept) => return kept.into_iter().for_each(add),
                        _ if !self.plan.counts(epoch) => return,
                        Next::Counts | Next::LacksFragments => {}
                        Next::Ends(kept) => {
                            for (partition, mut changes) in kept {
                                changes.set_version(llsn);
                                let start = starts.get(partition.index()).and_then(Option::as_ref);
                                if start.is_none_or(|start| epoch >= start.begin_epoch) {
                                    all.entry(partition).or_default().append(changes);
                                }
                            }
                        }
                    }
                    add(&mut all);
                });
                self.bytes += bytes.len() as u64;
            }
            if let Some((at, bad)) = senseless {
                return Err(RecoveryError::Damaged { at: at.file_byte(), why: bad.to_string() });
            }
            if let Some((at, partition)) = misplaced {
                let why = format!("a record changes partition {partition}, which does not exist");
                return Err(RecoveryError::Damaged { at: at.file_byte(), why });
            }
        }
        Ok(all)
    }

    /// Replays one partition.
    fn part(
        &mut self,
        partition: PartitionId,
        host: Option<usize>,
        changes: Changes,
    ) -> Result<Part, RecoveryError> {
        let of = (partition, self.partitions);
        let image = host.map(|host| (&self.directories[host], &self.plan.hosts[host].manifest));
        let stored = Stored::open(&self.cx, &self.catalog, of, image, changes)?;
        let done = stored.make_all(&self.cx, &self.catalog, |_| Ok(()))?;
        self.bytes += stored.image_bytes();
        Ok(Part::new(partition, host.map(|host| host as u8), &done, stored.image_bytes()))
    }
}

impl Part {
    fn new(partition: PartitionId, image_of_host: Option<u8>, done: &Replayed, image_bytes: u64) -> Self {
        let Replayed { rows, image_rows, changes } = *done;
        Self { partition: partition.0, image_of_host, image_rows, image_bytes, changes, rows }
    }
}
