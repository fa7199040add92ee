//! The memory of a benchmark's pod: made, named for the hosts, and removed again.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use liger_engine::db::{DataDirectory, DbError, Pod, PodConfig, StorageError};
use liger_engine::{Catalog, TableSchema};
use liger_fabric::native::process::number_of;
use liger_fabric::native::{MemoryError, MemorySpec, NativeReader};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::PodError;
use liger_pod::membership::Observer;
use liger_pod::plan::Plan;
use liger_pod::superblock;

use crate::failure::Failure;

/// A pod's memory; a file that this made goes with it, unless it is to be kept.
pub struct PodMemory {
    /// By which name hosts open it.
    pub name: String,
    /// What it is, for reports.
    pub kind: String,
    to_remove: Option<PathBuf>,
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
        (keep, force): (bool, bool),
    ) -> Result<Self, Failure> {
        let exists = match spec {
            MemorySpec::File(path) => path.exists(),
            MemorySpec::Dax(_) | MemorySpec::Pci(_) => true,
            MemorySpec::Memfd | MemorySpec::Fd(_) => false,
        };
        if exists {
            refuse_if_in_use(spec)?;
        }
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
            MemorySpec::File(path) if !exists && !keep => Some(path.clone()),
            _ => None,
        };
        let name = pod.inherited().unwrap_or_else(|| absolute(spec)).to_string();
        Ok(Self { name, kind: spec.to_string(), to_remove, pod })
    }
}

impl PodMemory {
    /// Makes the data directory of a new pod; returns its generation.
    pub fn create(&self, path: &Path) -> Result<u64, Failure> {
        // Pods are told apart by when they were made.
        #[expect(clippy::disallowed_methods, reason = "no host has joined: there is no context yet")]
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let identity = self.pod.identity(now.as_nanos() as u64);
        DataDirectory::create(&self.pod.control(), path, identity).map_err(of_data)?;
        Ok(1)
    }

    /// Makes final what a data directory holds, for this pod to go on with; returns the pod's generation.
    pub fn begin(&self, path: &Path) -> Result<u64, Failure> {
        let cx = self.pod.control();
        let data = DataDirectory::open(&cx, path, self.pod.identity(0)).map_err(of_data)?;
        Ok(data.begin(&cx).map_err(of_data)?.generation)
    }
}

fn of_data(error: StorageError) -> Failure {
    Failure::Refused(error.to_string())
}

impl Drop for PodMemory {
    fn drop(&mut self) {
        if let Some(path) = &self.to_remove {
            // Nothing to be done about a file that somebody else removed first.
            let _ = std::fs::remove_file(path);
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

/// Refuses a pod that a process of this machine is a member of.
fn refuse_if_in_use(spec: &MemorySpec) -> Result<(), Failure> {
    // What cannot be read is no pod in use; whether it may be written over is decided elsewhere.
    let Ok(mapping) = spec.open_read_only() else { return Ok(()) };
    let len = mapping.len() as u64;
    let cx = Cx::new(NativeReader::new(mapping), HostId(0), WorkerId(0), 0);
    let Ok(plan) = superblock::open(&cx, len) else { return Ok(()) };
    let Ok(hosts) = Observer::new(&plan).observe(&cx) else { return Ok(()) };
    let lives = |named: u64| std::path::Path::new(&format!("/proc/{}", number_of(named))).exists();
    match hosts.iter().find(|host| host.slot.state.is_member() && lives(host.process)) {
        None => Ok(()),
        Some(host) => Err(Failure::Refused(format!(
            "{spec} is in use: process {} is its host {}: end it first, or name other memory",
            number_of(host.process),
            host.slot.host.0
        ))),
    }
}

/// Checks that a configuration describes a pod at all, before any memory is made.
pub fn check_config(config: &PodConfig, catalog: &Catalog) -> Result<(), Failure> {
    let config = Pod::config_for(config, catalog);
    let plan = Plan::new(&config);
    plan.map(drop).map_err(|error| Failure::Refused(format!("{error}: give more with --hwcc and --cxl")))
}
