//! The memory of a pod: made, named for the hosts, salvaged when it has outlived them, and removed again.

#![expect(clippy::disallowed_methods, reason = "processes that are about to end are waited for")]

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use liger_engine::db::{DataDirectory, DbError, Pod, PodConfig, StorageError};
use liger_engine::recovery::Identity;
use liger_engine::recovery::salvage::{Dead, SalvageError, Salvaged, unshipped_bytes};
use liger_engine::{Catalog, TableSchema};
use liger_fabric::native::process::{number_of, runs};
use liger_fabric::native::{Mapping, MemoryError, MemorySpec, Native, NativeReader};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::PodError;
use liger_pod::heap::room::{self, Room, RoomError};
use liger_pod::membership::{Observer, Slot};
use liger_pod::plan::Plan;
use liger_pod::superblock;
use liger_pod::watch::{self, Accusation};

use crate::failure::Failure;
use crate::interrupt::{Left, Registered, register};
use crate::job::Job;
use crate::leftovers::note_of;
use crate::sizes;
use crate::terminal::Phase;

/// A pod's memory; a file that this made goes with it, unless it is to be kept.
pub struct PodMemory {
    /// By which name hosts open it.
    pub name: String,
    /// What it is, for reports.
    pub kind: String,
    /// The file, and the note of whose it is, if they go with this.
    to_remove: Option<(PathBuf, Vec<Registered>)>,
    /// Also keeps a memory without a name alive.
    pod: Pod,
}

impl PodMemory {
    /// Makes a pod of `config`. Memory that exists and holds something is refused, unless `force`: then what
    /// it holds is destroyed, but never while a living process uses it.
    pub fn make(
        spec: &MemorySpec,
        config: &PodConfig,
        tables: &[TableSchema],
        flags: (bool, bool),
    ) -> Result<Self, Failure> {
        if is_there(spec) {
            refuse_if_in_use(spec, "name other memory, or remove it")?;
        }
        Self::format(spec, config, tables, flags)
    }

    /// As [`PodMemory::make`], of memory that nobody uses.
    fn format(
        spec: &MemorySpec,
        config: &PodConfig,
        tables: &[TableSchema],
        (keep, force): (bool, bool),
    ) -> Result<Self, Failure> {
        let exists = is_there(spec);
        let pod = match Pod::create(spec, config, tables) {
            Err(_) if exists && force => Pod::create_over(spec, config, tables).map_err(of_memory(spec))?,
            Err(DbError::Memory(MemoryError::AlreadyExists { .. })) => {
                return Err(Failure::Refused(format!(
                    "{spec} exists already: name a new file, or add --force to destroy what it holds"
                )));
            }
            Err(DbError::Pod(PodError::AlreadyFormatted | PodError::StillFormatting)) => {
                return Err(Failure::Refused(format!(
                    "{spec} holds a pod already: name other memory, or add --force to destroy it"
                )));
            }
            made => made.map_err(of_memory(spec))?,
        };
        let to_remove = match spec {
            MemorySpec::File(path) if !exists && !keep => Some(to_remove(path)),
            _ => None,
        };
        let name = pod.inherited().unwrap_or_else(|| absolute(spec)).to_string();
        Ok(Self { name, kind: spec.to_string(), to_remove, pod })
    }
}

/// A file that goes with this process, also at an interrupt.
fn to_remove(path: &Path) -> (PathBuf, Vec<Registered>) {
    let files = [path.to_owned(), note_of(path)];
    (path.to_owned(), files.map(|file| register(Left::File(file))).into())
}

impl PodMemory {
    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.pod.control().fabric().mapping().len() as u64
    }

    /// Says how much of its data memory a new pod may use; none: all.
    pub fn limit(&self, usable_bytes: Option<u64>) -> Result<(), Failure> {
        let Some(bytes) = usable_bytes else { return Ok(()) };
        room::limit(&self.pod.control(), self.pod.plan(), bytes).map_err(of_room)
    }

    /// Lets the pod use more of its data memory, while hosts work; what it may use now.
    pub fn grow(&self, bytes: u64) -> Result<Room, Failure> {
        room::grow(&self.pod.control(), self.pod.plan(), bytes).map_err(of_room)
    }

    /// Notes whose memory this is, for whoever finds it when the pod has ended.
    pub fn note_owner(&self, dir: &Path) {
        if let Ok(MemorySpec::File(path)) = self.kind.parse() {
            // Without it the memory is found as somebody's.
            let _ = std::fs::write(note_of(&path), format!("{}\n", dir.display()));
        }
    }

    /// Makes the data directory of a new pod; returns its generation.
    pub fn create(&self, path: &Path) -> Result<u64, Failure> {
        // Pods are told apart by when they were made.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let identity = self.pod.identity(now.as_nanos() as u64);
        DataDirectory::create(&self.pod.control(), path, identity).map_err(of_data)?;
        Ok(1)
    }

    /// Makes final what a data directory holds, for this pod to go on with; returns the pod's generation.
    pub fn begin(&self, path: &Path, phase: &Phase) -> Result<u64, Failure> {
        let cx = self.pod.control();
        let data = DataDirectory::open(&cx, path, self.pod.identity(0)).map_err(of_data)?;
        phase.follow(data.bytes_read());
        Ok(data.begin(&cx).map_err(of_data)?.generation)
    }
}

/// What a pod that starts again has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// Its memory, and in the rings so much that was in no log.
    Memory(Salvaged),
    /// Its memory, with nothing that the files lack.
    NothingMore,
    /// No memory.
    Files,
}

impl Found {
    /// What was salvaged; perhaps nothing.
    pub fn salvaged(&self) -> Salvaged {
        match self {
            Self::Memory(salvaged) => *salvaged,
            Self::NothingMore | Self::Files => Salvaged::default(),
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(Salvaged { records, bytes, .. }) => {
                write!(f, "memory intact: {records} records in {bytes} bytes of rings salvaged")
            }
            Self::NothingMore => f.write_str("the memory holds nothing that the files lack"),
            Self::Files => f.write_str("memory lost: from files alone"),
        }
    }
}

/// What becomes of memory that has outlived its hosts.
#[derive(Clone, Copy, Debug)]
pub struct Outlived {
    /// It is lost, and with it what only it holds.
    pub discard: bool,
    /// How it is known that the hosts are dead.
    pub dead: Dead,
}

/// Hosts whose supervisor was killed end by themselves within this time.
const LAST_STEPS: Duration = Duration::from_secs(2);

impl PodMemory {
    /// The memory of a pod that starts again from the files in `data`, made anew; and the pod's generation.
    /// If it has outlived the hosts, what only it holds is put into their logs before, unless it is to be
    /// discarded. Of the two configurations it had the first one, and gets the other.
    pub fn again(
        spec: &MemorySpec,
        (was, config, tables): (&PodConfig, &PodConfig, &[TableSchema]),
        data: &Path,
        Outlived { discard, dead }: Outlived,
        phase: &Phase,
    ) -> Result<(Self, u64, Found), Failure> {
        let is_there = is_there(spec) || matches!(spec, MemorySpec::Fd(_));
        if is_there && dead == Dead::Proven {
            refuse_if_in_use(spec, "say so with --hosts-are-gone")?;
        }
        if is_there
            && !discard
            && let Some(pod) = of_old(spec, (was, config), tables)?
        {
            let begin = |data: &DataDirectory| data.begin_from(&pod.control(), pod.plan(), dead);
            let (manifest, salvaged) = salvage(spec, &pod, data, Some(phase), begin)?;
            let memory = if spec.grows() {
                drop(pod);
                Self::anew(spec, config, tables)?
            } else {
                let pod = pod.format_again(config).map_err(of_memory(spec))?;
                let to_remove = match spec {
                    MemorySpec::File(path) => Some(to_remove(path)),
                    _ => None,
                };
                let name = pod.inherited().unwrap_or_else(|| absolute(spec)).to_string();
                Self { name, kind: spec.to_string(), to_remove, pod }
            };
            return Ok((memory, manifest.generation, found(salvaged)));
        }
        let memory = Self::anew(spec, config, tables)?;
        let generation = memory.begin(data, phase)?;
        Ok((memory, generation, Found::Files))
    }

    /// Makes memory anew that nobody uses and nobody needs.
    fn anew(spec: &MemorySpec, config: &PodConfig, tables: &[TableSchema]) -> Result<Self, Failure> {
        if let MemorySpec::File(path) = spec
            && spec.grows()
        {
            // What the old pod has used is given back. If this process dies here, there is no memory, and the
            // files have all that it had.
            let removed = std::fs::remove_file(path);
            removed.map_err(|e| Failure::Refused(format!("{spec}: it cannot be made anew: {e}")))?;
        }
        let mut memory = Self::format(spec, config, tables, (false, true))?;
        if let MemorySpec::File(path) = spec {
            memory.to_remove = Some(to_remove(path));
        }
        Ok(memory)
    }

    /// Puts what only the memory holds into the logs, so that it may go; no host lives any more.
    pub fn put_away(&self, data: &Path) -> Result<Found, Failure> {
        let put_away = |data: &DataDirectory| data.salvage(&self.pod.control(), self.pod.plan());
        salvage(&self.name.parse()?, &self.pod, data, None, put_away).map(found)
    }

    /// From now on it goes only with this, and not at an interrupt.
    pub fn outlive(&mut self) {
        if let Some((_, registered)) = &mut self.to_remove {
            registered.clear();
        }
    }

    /// The last incarnation of a host, and why it was cut off, if it was; none if the memory is damaged
    /// there.
    pub fn incarnation(&self, host: usize) -> Option<(Slot, Option<Accusation>)> {
        let (cx, plan) = (self.pod.control(), self.pod.plan());
        let slot = Slot::load(&cx, plan, HostId(host as u8)).ok()?;
        Some((slot, watch::cut_off(&cx, plan, slot)))
    }

    /// Leaves the memory to whoever comes next.
    pub fn keep(&mut self) {
        self.to_remove = None;
    }
}

/// For how many hosts the files of a pod have room.
pub fn hosts_of(data: &Path, identity: Identity) -> Result<u8, Failure> {
    DataDirectory::hosts_of(&files_cx()?, data, identity).map_err(of_data)
}

/// Gives the files of a pod room for more hosts, unless they have it. What only its memory holds, if it has
/// outlived the hosts and is not to be discarded, is put into the logs before: then the memory may go. What
/// that was.
pub fn widen(
    spec: &MemorySpec,
    (was, tables, identity): (&PodConfig, &[TableSchema], Identity),
    (path, hosts): (&Path, u8),
    Outlived { discard, dead }: Outlived,
) -> Result<Found, Failure> {
    let cx = files_cx()?;
    let mut put_away = Found::Files;
    if DataDirectory::hosts_of(&cx, path, identity).map_err(of_data)? == hosts {
        return Ok(put_away);
    }
    if is_there(spec) {
        if dead == Dead::Proven {
            refuse_if_in_use(spec, "say so with --hosts-are-gone")?;
        }
        let old = if discard { None } else { of_old(spec, (was, was), tables)? };
        if let Some(pod) = old {
            let begin = |data: &DataDirectory| data.begin_from(&pod.control(), pod.plan(), dead);
            put_away = found(salvage(spec, &pod, path, None, begin)?.1);
        }
    }
    let data = DataDirectory::open(&cx, path, identity).map_err(of_data)?;
    data.widen(&cx, hosts).map_err(of_data)?;
    Ok(put_away)
}

/// The pod in memory that is there; none if making one was never finished. It has the first configuration, or
/// the second one already, if making it was finished and nobody came to note that.
fn of_old(
    spec: &MemorySpec,
    (was, config): (&PodConfig, &PodConfig),
    tables: &[TableSchema],
) -> Result<Option<Pod>, Failure> {
    let failed = match Pod::open_as(spec, was, tables) {
        Ok(pod) => return Ok(Some(pod)),
        Err(failed) => failed,
    };
    if let Ok(pod) = Pod::open_as(spec, config, tables) {
        return Ok(Some(pod));
    }
    let reader = |mapping| Cx::new(NativeReader::new(mapping), HostId(0), WorkerId(0), 0);
    match spec.open_read_only().map(reader) {
        Ok(cx) if superblock::is_unfinished(&cx) => Ok(None),
        _ => Err(in_danger(spec, &failed.to_string(), "what")),
    }
}

fn found(salvaged: Option<Salvaged>) -> Found {
    salvaged.map_or(Found::NothingMore, Found::Memory)
}

/// Puts what only the memory holds into the logs, in the way that `salvage` does.
fn salvage<T>(
    spec: &MemorySpec,
    pod: &Pod,
    data: &Path,
    phase: Option<&Phase>,
    salvage: impl Fn(&DataDirectory) -> Result<T, StorageError>,
) -> Result<T, Failure> {
    let (cx, started) = (pod.control(), Instant::now());
    let directory = DataDirectory::open(&cx, data, pod.identity(0)).map_err(of_data)?;
    if let Some(phase) = phase {
        phase.follow(directory.bytes_read());
    }
    loop {
        match salvage(&directory) {
            Ok(salvaged) => return Ok(salvaged),
            Err(StorageError::Salvage(SalvageError::Living { .. }) | StorageError::Disk(_))
                if started.elapsed() < LAST_STEPS =>
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(StorageError::Salvage(error)) if !matches!(error, SalvageError::Living { .. }) => {
                let bytes = unshipped_bytes(&cx, pod.plan());
                return Err(in_danger(spec, &error.to_string(), &format!("up to {bytes} bytes of what")));
            }
            Err(error) => return Err(Failure::Refused(format!("{spec}: {error}"))),
        }
    }
}

/// Something is wrong with memory that may hold what nothing else holds.
fn in_danger(spec: &MemorySpec, error: &str, what: &str) -> Failure {
    Failure::Refused(format!(
        "{spec}: {error}: {what} was acknowledged at durability \"pod\" may be nowhere else: make it \
         right, or give that up with --discard-memory and go on from files alone"
    ))
}

fn of_data(error: StorageError) -> Failure {
    Failure::Refused(error.to_string())
}

impl Drop for PodMemory {
    fn drop(&mut self) {
        if let Some((path, _)) = &self.to_remove {
            // Nothing to be done about a file that somebody else removed first.
            let _ = std::fs::remove_file(path);
            let _ = std::fs::remove_file(note_of(path));
        }
    }
}

fn absolute(spec: &MemorySpec) -> MemorySpec {
    match spec {
        MemorySpec::File(path) => {
            MemorySpec::File(std::path::absolute(path).unwrap_or_else(|_| path.clone()))
        }
        other => other.clone(),
    }
}

fn of_memory(spec: &MemorySpec) -> impl Fn(DbError) -> Failure {
    move |error| match error {
        // These name the memory themselves.
        DbError::Memory(error) => error.into(),
        other => Failure::Refused(format!("{spec}: {other}")),
    }
}

/// A context for work on files alone.
pub fn files_cx() -> Result<Cx<Native>, Failure> {
    let memory = Mapping::anonymous(4096).map_err(|e| Failure::Broken(format!("no memory: {e}")))?;
    Ok(Cx::new(Native::new(memory), HostId(0), WorkerId(0), 0))
}

/// True if memory of this name exists.
pub fn is_there(spec: &MemorySpec) -> bool {
    match spec {
        MemorySpec::File(path) => path.exists(),
        MemorySpec::Dax(_) | MemorySpec::Pci(_) => true,
        MemorySpec::Memfd | MemorySpec::Fd(_) => false,
    }
}

/// True if a host uses this memory that is not known to be gone.
pub fn is_in_use(spec: &MemorySpec) -> bool {
    refuse_if_in_use(spec, "say so").is_err()
}

/// Refuses a pod with a member that is not known to be gone; `then` is what to do if the user knows it.
fn refuse_if_in_use(spec: &MemorySpec, then: &str) -> Result<(), Failure> {
    // What cannot be read is no pod in use; whether it may be written over is decided elsewhere.
    let Ok(mapping) = spec.open_read_only() else { return Ok(()) };
    let len = mapping.len() as u64;
    let cx = Cx::new(NativeReader::new(mapping), HostId(0), WorkerId(0), 0);
    let Ok(plan) = superblock::open(&cx, len) else { return Ok(()) };
    let Ok(hosts) = Observer::new(&plan).observe(&cx) else { return Ok(()) };
    for host in hosts.iter().filter(|host| host.slot.state.is_member() && host.process != 0) {
        let number = host.slot.host.0;
        let why = match runs(host.process) {
            Ok(false) => continue,
            Ok(true) => format!(
                "{spec} is in use: process {} is its host {number}: end it first, or name other memory",
                number_of(host.process)
            ),
            Err(why) => format!(
                "{spec} may be in use: its host {number} was {} and {why}: if you know that nobody uses this \
                 memory, {then}",
                host.slot.state
            ),
        };
        return Err(Failure::Refused(why));
    }
    Ok(())
}

/// What rows may use of both memories before they move out: half, but not so much that the heap is full
/// before. Refuses what is no pod at all.
pub fn usual_budget(job: &Job) -> Result<(u64, u64), Failure> {
    let config = job.pod_config();
    check_config(&config, &job.catalog())?;
    let plan = Plan::new(&config).expect("checked just now");
    let heap = config.cxl_bytes - room::before_heap(&plan);
    Ok((config.hwcc_bytes / 2, (config.cxl_bytes / 2).min(heap / 4 * 3)))
}

/// Checks that a pod may use less than all of its data memory, if it does.
pub fn check_room(job: &Job) -> Result<(), Failure> {
    let Some(bytes) = job.usable_bytes else { return Ok(()) };
    let plan = Plan::new(&job.pod_config()).map_err(|error| Failure::Refused(error.to_string()))?;
    room::check(&plan, bytes).map_err(of_room)
}

fn of_room(error: RoomError) -> Failure {
    let size = |bytes| sizes::show(bytes);
    Failure::Refused(match error {
        RoomError::Less { now } => format!(
            "the pod uses {} of data memory already, and takes nothing back while it serves: name more, or \
             end it and name --memory to `liger recover`",
            size(now)
        ),
        RoomError::TooLittle { least } => {
            format!("--memory is too small: this pod needs {} of data memory: raise it", size(least))
        }
        RoomError::TooMuch { most } => format!(
            "the pod has room for {} of data memory: name less, or end it and name --memory and --max-memory \
             to `liger recover`",
            size(most)
        ),
    })
}

/// Checks that a configuration describes a pod at all, before any memory is made.
pub fn check_config(config: &PodConfig, catalog: &Catalog) -> Result<(), Failure> {
    let config = Pod::config_for(config, catalog);
    let plan = Plan::new(&config);
    plan.map(drop)
        .map_err(|error| Failure::Refused(format!("{error}: name other sizes (--memory, --hwcc, --cxl)")))
}
