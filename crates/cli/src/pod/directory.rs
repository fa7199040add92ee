//! The directory of a pod: its description, and where everything is.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::job::{Job, SQL_RING_BYTES, Sizes};
use crate::memory::{check_room, is_there, usual_budget};

const FORMAT: u32 = 1;
/// The longest path of a socket, its end included.
const SOCKET_PATH_MAX: usize = 107;

/// What a pod is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PodFile {
    format: u32,
    /// The file of its shared memory.
    pub memory: String,
    /// A host whose heartbeat stops for this long is dead, in milliseconds.
    pub lease_ms: u64,
    /// The hosts that have not left, bit h for host h: those that start when the pod does; 0: all.
    #[serde(default)]
    members: u16,
    /// Clients that have been let in so far: the next ones have the numbers behind them.
    pub clients: u32,
    /// The memory that it gets when it starts again, until it has; and what rows may use of that.
    #[serde(default)]
    resize: Option<(Sizes, (u64, u64))>,
    /// The hosts that it has room for when it has started again.
    #[serde(default)]
    widen: Option<u8>,
    /// What it holds, and how hosts work.
    pub job: Job,
}

impl PodFile {
    /// A new pod.
    pub fn new(memory: String, lease_ms: u64, job: Job) -> Self {
        Self {
            format: FORMAT,
            memory,
            lease_ms,
            members: job.initial_hosts,
            clients: 0,
            resize: None,
            widen: None,
            job: Job { lease_ms, ..job },
        }
    }

    /// Whether this program knows what it says.
    pub fn is_known(&self) -> bool {
        self.format == FORMAT
    }
}

/// A pod's directory.
#[derive(Clone, Debug)]
pub struct PodDir {
    path: PathBuf,
    /// What the pod is.
    pub file: PodFile,
}

impl PodDir {
    /// Makes the directory of a new pod.
    pub fn create(path: &Path, file: PodFile) -> Result<Self, Failure> {
        let dir = Self::lay_out(path, file)?;
        dir.save()?;
        Ok(dir)
    }

    /// Makes the folders of a new pod, which is there when its description is saved.
    pub fn lay_out(path: &Path, file: PodFile) -> Result<Self, Failure> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let dir = Self { path, file };
        if dir.description().exists() {
            return Err(Failure::Refused(format!(
                "{} holds a pod: start it again with `liger recover`, or name another directory",
                dir.path.display()
            )));
        }
        let longest = dir.clients(usize::from(dir.file.job.hosts) - 1);
        if longest.as_os_str().len() > SOCKET_PATH_MAX {
            return Err(Failure::Refused(format!(
                "{}: {} bytes are too long for a socket, {SOCKET_PATH_MAX} are possible: name a shorter \
                 directory",
                longest.display(),
                longest.as_os_str().len()
            )));
        }
        for host in 0..usize::from(dir.file.job.hosts) {
            dir.make_folder_of(host)?;
        }
        Ok(dir)
    }

    /// The pod in a directory.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let description = path.join("pod.json");
        let text = std::fs::read_to_string(&description).map_err(|e| {
            Failure::Refused(format!(
                "{}: no pod: {e}: make one with `liger up {}`",
                description.display(),
                path.display()
            ))
        })?;
        let damaged =
            |why: String| Failure::Refused(format!("{}: {why}: restore the file", description.display()));
        let file: PodFile = serde_json::from_str(&text).map_err(|e| damaged(e.to_string()))?;
        if !file.is_known() {
            return Err(damaged(format!("format {}, this program knows {FORMAT}", file.format)));
        }
        let mut dir = Self { path, file };
        // The directory may have another name than when that was written.
        let here = dir.data();
        dir.file.job.data.iter_mut().for_each(|data| data.path.clone_from(&here));
        Ok(dir)
    }

    /// Makes a host's folder, unless it is there: a directory whose description and data were kept is a pod.
    pub fn make_folder_of(&self, host: usize) -> Result<(), Failure> {
        make_folder(&self.folder(host))
    }

    /// Writes the description.
    pub fn save(&self) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(&self.file).expect("every key is a string");
        let (new, old) = (self.path.join("pod.json.new"), self.description());
        let written = std::fs::write(&new, text + "\n").and_then(|()| std::fs::rename(&new, &old));
        written.map_err(|e| Failure::Broken(format!("{}: {e}", old.display())))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of hosts.
    pub fn hosts(&self) -> usize {
        self.file.job.hosts.into()
    }

    /// The hosts that start when the pod does.
    pub fn members(&self) -> Vec<usize> {
        let members = self.file.members;
        (0..self.hosts()).filter(|host| members == 0 || members >> host & 1 != 0).collect()
    }

    /// The memory is made anew for the present members: that is, its initial hosts are those. And it is as
    /// large, and has room for as many hosts, as it was to become.
    pub fn found_anew(&mut self) {
        self.file.job.initial_hosts = self.file.members;
        self.file.job.hosts = self.file.widen.take().unwrap_or(self.file.job.hosts);
        if let Some((sizes, budget)) = self.file.resize.take() {
            self.file.job.resize(sizes);
            self.file.job.budget = budget;
        }
    }

    /// Notes what memory the pod gets when it starts again. What it has until then stays noted, too: it may
    /// have outlived the pod.
    pub fn resize(&mut self, to: Sizes) -> Result<(), Failure> {
        let mut resized = self.file.job.clone();
        resized.hosts = self.file.widen.unwrap_or(resized.hosts);
        resized.resize(to);
        self.file.resize = Some((to, usual_budget(&resized)?));
        check_room(&resized)?;
        self.save()
    }

    /// A start that was to give it other memory may have failed. If there is no memory, nothing has that
    /// size: the pod gets what it had.
    pub fn forget_resize(&mut self) -> Result<(), Failure> {
        if !is_there(&self.file.memory.parse()?) {
            self.file.resize = None;
        }
        Ok(())
    }

    /// Notes for how many hosts the pod gets room when it starts again, and how much memory: that of all
    /// rings of the log more than it has, if nothing is said. Returns false if it has room for as many.
    pub fn widen(&mut self, hosts: u8, to: Option<Sizes>) -> Result<bool, Failure> {
        let Job { hosts: before, workers, cxl_bytes, usable_bytes, .. } = self.file.job;
        let (path, refuse) = (self.path.display(), |why: String| Err(Failure::Refused(why)));
        let Some(sql) = self.file.job.sql else {
            return refuse(format!("--max-hosts is for pods with SQL, and {path} holds something else"));
        };
        if hosts < before {
            return refuse(format!("{path} has room for {before} hosts: --max-hosts cannot be less"));
        }
        if u16::from(hosts) > sql.partitions {
            let most = sql.partitions;
            return refuse(format!(
                "--max-hosts {hosts}: {path} has {most} partitions, which decides for how many hosts there \
                 is work: name {most} or fewer, or copy the database into a pod that is made with more"
            ));
        }
        if sql.port.checked_add(hosts.into()).is_none() {
            return refuse(format!("port {} of host 0 leaves no ports for {hosts} hosts", sql.port));
        }
        if hosts == before {
            return Ok(false);
        }
        // Who has not left starts with the pod, and nobody else.
        self.file.members = self.members().into_iter().fold(0, |all, host| all | 1 << host);
        self.file.widen = Some(hosts);
        let rings = u64::from(hosts - before) * u64::from(workers) * SQL_RING_BYTES;
        let usual =
            Sizes { cxl_bytes: cxl_bytes + rings, usable_bytes: usable_bytes.map(|bytes| bytes + rings) };
        (before + 1..=hosts).try_for_each(|host| self.make_folder_of(usize::from(host) - 1))?;
        self.resize(to.unwrap_or(usual)).map(|()| true)
    }

    /// For how many hosts the pod gets room when it starts again, if for more than it has.
    pub fn widens_to(&self) -> Option<u8> {
        self.file.widen
    }

    /// A start that was to give it room for more hosts has not come so far.
    pub fn forget_widen(&mut self) {
        (self.file.widen, self.file.resize) = (None, None);
    }

    /// Notes that the pod, which serves, may use so much of its data memory.
    pub fn note_room(&self, bytes: u64) -> Result<(), Failure> {
        let mut now = Self::open(&self.path)?;
        now.file.job.usable_bytes = Some(bytes).filter(|bytes| *bytes < now.file.job.cxl_bytes);
        now.save()
    }

    /// Notes that a host has come to stay, or has left for good. The last one stays noted.
    pub fn note_member(&self, host: usize, is_member: bool) -> Result<(), Failure> {
        let mut now = Self::open(&self.path)?;
        let members = now.members().into_iter().filter(|member| *member != host);
        let members = members.chain(is_member.then_some(host)).fold(0, |all, host| all | 1 << host);
        if members != 0 && members != now.file.members {
            now.file.members = members;
            now.save()?;
        }
        Ok(())
    }

    /// Refuses a host that the pod does not have.
    pub fn check_host(&self, host: usize) -> Result<(), Failure> {
        if host < self.hosts() {
            return Ok(());
        }
        let last = self.hosts() - 1;
        let path = self.path.display();
        Err(Failure::Refused(format!("{path} has no host {host}: name one of 0 to {last}")))
    }

    fn description(&self) -> PathBuf {
        self.path.join("pod.json")
    }

    fn folder(&self, host: usize) -> PathBuf {
        self.path.join(format!("host-{host}"))
    }

    /// Logs and checkpoints.
    pub fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    /// Logs and checkpoints of one host.
    pub fn data_of(&self, host: usize) -> PathBuf {
        self.data().join(format!("host-{host}"))
    }

    /// The supervisor's socket.
    pub fn supervisor(&self) -> PathBuf {
        self.path.join("control")
    }

    /// A host's socket for orders.
    pub fn control(&self, host: usize) -> PathBuf {
        self.folder(host).join("control")
    }

    /// A host's socket for clients.
    pub fn clients(&self, host: usize) -> PathBuf {
        self.folder(host).join("clients")
    }

    /// The file that names a host's process.
    pub fn process(&self, host: usize) -> PathBuf {
        self.folder(host).join("process")
    }

    /// What a host has said.
    pub fn said(&self, host: usize) -> PathBuf {
        self.folder(host).join("said")
    }

    /// The file that says how a host's last process ended.
    fn ended(&self, host: usize) -> PathBuf {
        self.folder(host).join("ended")
    }

    /// Notes how a host's process ended.
    pub fn note_end(&self, host: usize, how: &str) {
        // It is for whoever looks later; that it cannot be written is no reason to end.
        let _ = std::fs::write(self.ended(host), format!("{how}\n"));
    }

    /// Forgets that: the host is started again.
    pub fn forget_end(&self, host: usize) {
        let _ = std::fs::remove_file(self.ended(host));
    }

    /// How a host's last process ended, if it has and somebody has noted it.
    pub fn how_it_ended(&self, host: usize) -> Option<String> {
        Some(std::fs::read_to_string(self.ended(host)).ok()?.trim_end().to_owned())
    }

    /// Whether a host has said anything besides its diary ([`liger_server::log`]): it failed by itself then.
    pub fn complained(&self, host: usize) -> bool {
        let said = std::fs::read(self.said(host)).unwrap_or_default();
        String::from_utf8_lossy(&said).lines().any(|line| !is_diary(line))
    }

    /// The last lines that a host has said, for messages.
    pub fn last_words(&self, host: usize) -> String {
        let said = std::fs::read(self.said(host)).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let is_info = |line: &str| line.contains(" level=info ") || line.contains("\"level\":\"info\"");
        let lines: Vec<&str> = said.lines().filter(|line| !(is_diary(line) && is_info(line))).collect();
        match lines[lines.len().saturating_sub(20)..] {
            [] => SILENT.to_owned(),
            ref last => format!("its last words:\n  {}", last.join("\n  ")),
        }
    }
}

/// Whether a line is an event of a host's diary.
fn is_diary(line: &str) -> bool {
    line.starts_with("{\"time\":") || line.contains(" level=") && line.contains(" event=")
}

/// The last words of a host that had none.
const SILENT: &str = "it said nothing";

/// Makes a folder, private to its owner as what is in it are the database's rows, and those above it.
pub fn make_folder(path: &Path) -> Result<(), Failure> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|e| Failure::Refused(format!("{}: the folder cannot be made: {e}", path.display())))
}
