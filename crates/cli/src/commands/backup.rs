//! `liger backup`: a copy of a pod, as it is at one point of time. docs/protocols/backup.md.
//!
//! A pod that is up goes on meanwhile: its hosts are asked where the log is, which needs none of their
//! workers, and everything else is reading files. A pod that is down has no more to say than its files.

#![expect(clippy::disallowed_methods, reason = "logs are waited for, and a backup tells the time of day")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use liger_engine::db::DataDirectory;
use liger_engine::recovery::Plan;
use liger_engine::recovery::backup::{Held, HeldFile};
use liger_fabric::Cx;
use liger_fabric::native::{MemorySpec, Native};
use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::json;

use super::status;
use crate::backup::{Backup, Entry, Filled, check_free, copy, data_of, refused, sync_folder};
use crate::control::{Answer, Order};
use crate::failure::Failure;
use crate::memory::{files_cx, is_there};
use crate::pod::{Line, PodDir, make_folder};
use crate::sizes;
use crate::terminal::{self, Phase};

/// A host answers what it is doing within this time.
const SOON: Duration = Duration::from_secs(5);
/// Time between two looks at what is durable.
const LOOK: Duration = Duration::from_millis(5);
/// What has committed is durable within this time: longer than a takeover.
const DURABLE_WITHIN: Duration = Duration::from_secs(120);
/// Files are held within this time, whatever checkpoints come in between.
const HELD_WITHIN: Duration = Duration::from_secs(60);
/// Copies of logs are taken so often before what does not fit is believed.
const TRIES: u32 = 3;

/// What to copy, and where to.
#[derive(Args)]
pub struct Arguments {
    /// The pod's directory
    dir: PathBuf,
    /// The folder that becomes the backup: not there yet, or empty
    target: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Takes a backup.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let dir = PodDir::open(&arguments.dir)?;
    let target = std::path::absolute(&arguments.target).unwrap_or_else(|_| arguments.target.clone());
    if target.starts_with(dir.path()) {
        return Err(refused(
            &target,
            "a backup is to outlive the pod's directory: name a folder outside of it",
        ));
    }
    check_free(&target, "a backup needs a folder of its own: name another one")?;
    terminal::note_interrupts()?;
    open_many_files();
    let started = Instant::now();
    let cx = files_cx()?;
    let source = Source::of(&dir, &cx)?;
    let filled = Filled::begin(&target)?;
    Backup::announce(&target, dir.path())?;
    let backup = Taking { cx: &cx, dir: &dir, target: &target, source }.take()?;
    backup.seal(&target)?;
    filled.keep();
    let (seconds, files, bytes) = (started.elapsed().as_secs_f64(), backup.files.len(), backup.bytes());
    let Backup { epoch, generation, time_ms, .. } = backup;
    let (from, to) = (dir.path().display().to_string(), target.display().to_string());
    if arguments.json {
        let time = backup.time();
        println!(
            "{}",
            json!({
                "dir": from, "target": to, "epoch": epoch, "generation": generation, "time": time,
                "time_ms": time_ms, "files": files, "bytes": bytes, "seconds": seconds,
            })
        );
    } else {
        println!("{to}: {from} as it was in epoch {epoch}, at {}", backup.time());
        println!("{files} files, {}, in {seconds:.1} s", sizes::show(bytes));
    }
    Ok(ExitCode::SUCCESS)
}

/// All files are held open at once, and there may be more than are usual.
fn open_many_files() {
    let limit = getrlimit(Resource::Nofile);
    // If this is refused, the file that cannot be opened is told.
    let _ = setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit });
}

/// Who knows what is durable.
enum Source<'d> {
    /// Hosts; and the epoch that was not over when the backup began.
    Up(Log<'d>, u64),
    /// Nobody writes: the files.
    Down,
}

impl<'d> Source<'d> {
    fn of(dir: &'d PodDir, cx: &Cx<Native>) -> Result<Self, Failure> {
        let path = dir.path().display();
        if dir.file.job.data.is_none() {
            return Err(Failure::Refused(format!("{path} keeps no log: there are no files to copy")));
        }
        if status::is_up(dir) {
            let phase = Phase::start("what has committed comes to storage");
            let mut log = Log { dir, host: 0 };
            let epoch = log.point(0)?.0;
            let durable = log.await_durable(epoch)?;
            phase.done(&format!("epoch {durable} is durable"));
            return Ok(Self::Up(log, epoch));
        }
        let spec: MemorySpec = dir.file.memory.parse()?;
        if is_there(&spec) {
            return Err(Failure::Refused(format!(
                "{path}: its hosts have ended without order, and {spec} may hold what is in no log: start \
                 the pod with `liger recover {path}`, and take a backup then"
            )));
        }
        let job = &dir.file.job;
        let data = job.data.as_ref().expect("it keeps a log");
        // Is it this pod's, and can this program read it?
        DataDirectory::open(cx, &data.path, job.identity())?;
        Ok(Self::Down)
    }
}

/// A pod's log, as its hosts tell of it.
struct Log<'d> {
    dir: &'d PodDir,
    /// The host that has answered last.
    host: usize,
}

impl Log<'_> {
    /// The epoch, and what is durable; lets `wanted` become so. Any host will do.
    fn point(&mut self, wanted: u64) -> Result<(u64, u64), Failure> {
        let mut why = String::new();
        for _ in 0..self.dir.hosts() {
            match self.ask(wanted) {
                Ok(point) => return Ok(point),
                Err(failure @ Failure::Interrupted(_)) => return Err(failure),
                Err(failure) => why = failure.to_string(),
            }
            self.host = (self.host + 1) % self.dir.hosts();
        }
        let path = self.dir.path().display();
        Err(Failure::Broken(format!(
            "no host of {path} says where the log is: {why}: see `liger status {path}`, and try again"
        )))
    }

    fn ask(&self, wanted: u64) -> Result<(u64, u64), Failure> {
        let host = self.host;
        let mut line = Line::connect(self.dir, host, SOON)?;
        line.order(&Order::Point { wanted })?;
        match line.last(|_, _| ())? {
            Answer::Point { epoch, durable } => Ok((epoch, durable)),
            Answer::NoPoint { why } => Err(Failure::Broken(format!("host {host}: {why}"))),
            other => Err(Failure::Broken(format!("host {host} answered what it was not asked: {other:?}"))),
        }
    }

    /// Waits until an epoch is durable, and says which one is.
    fn await_durable(&mut self, wanted: u64) -> Result<u64, Failure> {
        let started = Instant::now();
        loop {
            terminal::check_interrupted()?;
            let (_, durable) = self.point(wanted)?;
            if durable >= wanted {
                return Ok(durable);
            }
            if started.elapsed() > DURABLE_WITHIN {
                let (path, seconds) = (self.dir.path().display(), DURABLE_WITHIN.as_secs());
                return Err(Failure::Broken(format!(
                    "epoch {wanted} of {path} has not become durable within {seconds} s, and {durable} is: a \
                     host is dead that nobody has taken over from, perhaps: see `liger status {path}`"
                )));
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// A backup that is being taken.
struct Taking<'a> {
    cx: &'a Cx<Native>,
    dir: &'a PodDir,
    target: &'a Path,
    source: Source<'a>,
}

impl Taking<'_> {
    fn take(mut self) -> Result<Backup, Failure> {
        let mut tries = 0;
        loop {
            tries += 1;
            let (held, time_ms) = self.hold()?;
            let phase = Phase::of_bytes("copying", held.bytes());
            let mut files = Vec::new();
            self.copy_all(&held.logs, &phase, &mut files)?;
            // What a recovery would make of it, before the large files are copied.
            let plan = match self.plan(held.durable) {
                Ok(plan) => plan,
                Err(_) if tries < TRIES => {
                    std::fs::remove_dir_all(data_of(self.target)).map_err(|e| refused(self.target, e))?;
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            self.copy_all(&held.images, &phase, &mut files)?;
            let data = data_of(self.target);
            for host in 0..self.dir.hosts() {
                sync_folder(&data.join(format!("host-{host}")))?;
            }
            sync_folder(&data)?;
            phase.done(&sizes::show(held.bytes()));
            return Ok(Backup {
                program: env!("CARGO_PKG_VERSION").to_owned(),
                of: self.dir.path().to_owned(),
                time_ms,
                generation: plan.pod.generation,
                epoch: plan.durable_epoch,
                pod: self.dir.file.clone(),
                files,
            });
        }
    }

    /// Holds all files as they are at one point, and says when that was.
    fn hold(&mut self) -> Result<(Held, u64), Failure> {
        let data = self.dir.file.job.data.as_ref().expect("it keeps a log");
        let data = DataDirectory::open(self.cx, &data.path, self.dir.file.job.identity())?;
        let directories = data.look_all()?;
        let started = Instant::now();
        loop {
            let mut now = UNIX_EPOCH;
            let held = Held::take(self.cx, &directories, |least| {
                now = SystemTime::now();
                match &mut self.source {
                    Source::Up(log, begun) => log.await_durable(least.max(*begun)).map(Some),
                    Source::Down => Ok::<_, Failure>(None),
                }
            })?;
            if let Some(held) = held {
                return Ok((held, now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64));
            }
            terminal::check_interrupted()?;
            if started.elapsed() > HELD_WITHIN {
                let (path, seconds) = (self.dir.path().display(), HELD_WITHIN.as_secs());
                return Err(Failure::Broken(format!(
                    "{path}: checkpoints came faster than files could be opened for {seconds} s: try again \
                     when less is written"
                )));
            }
        }
    }

    fn copy_all(&self, files: &[HeldFile], phase: &Phase, done: &mut Vec<Entry>) -> Result<(), Failure> {
        for file in files {
            let name = format!("data/host-{}/{}", file.host.0, file.name);
            let to = self.target.join(&name);
            make_folder(to.parent().expect("a file is in a folder"))?;
            let read = |at, out: &mut [u8]| Ok(file.read(self.cx, at, out)?);
            let crc32c = copy(file.bytes, read, Some(&to), |bytes| phase.add(bytes))?;
            done.push(Entry { name, bytes: file.bytes, crc32c });
        }
        Ok(())
    }

    /// What a recovery finds in the copies of manifests and logs; everything that was durable, at least.
    fn plan(&self, durable: Option<u64>) -> Result<Plan, Failure> {
        let data = DataDirectory::open(self.cx, &data_of(self.target), self.dir.file.job.identity())?;
        let plan = data.plan(self.cx)?;
        match durable {
            Some(durable) if plan.durable_epoch < durable => Err(Failure::Broken(format!(
                "the copies of the logs of {} lead to epoch {}, and epoch {durable} was durable: see `liger \
                 status`",
                self.dir.path().display(),
                plan.durable_epoch
            ))),
            _ => Ok(plan),
        }
    }
}
