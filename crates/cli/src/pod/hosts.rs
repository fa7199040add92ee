//! The processes of a pod directory's hosts, as the process that starts them sees them.
//!
//! Invariants:
//! 1. Every process started here is ended and waited for when this is dropped, whatever happened.
//! 2. A host ends by itself when its standard input does, and is killed when the thread that started it ends
//!    (it may hang), so none outlives whoever started it.
//! 3. A host that somebody started by hand is watched like the others, from when it was taken in; it is no
//!    child, so what it ended with is not known.
//! 4. Hosts are in process groups of their own: an interrupt from the terminal reaches the supervisor only.

use std::fs::OpenOptions;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use super::process::Doing;
use super::{Line, PodDir, Process};
use crate::control::Order;
use crate::failure::Failure;
use crate::interrupt::{Left, Registered, register};

/// Hosts of one pod.
pub struct Hosts {
    dir: PodDir,
    /// What they run: whatever is at this place when they are started.
    program: std::io::Result<PathBuf>,
    children: Vec<Option<Runs>>,
}

/// What is known of a host that runs.
enum Runs {
    /// It was started here. It and its sockets' names end with this process.
    Child { child: Child, _ends: Vec<Registered> },
    /// Somebody started it by hand.
    Other(Process),
}

impl Runs {
    /// How it ended, if it has.
    fn ended(&mut self) -> Option<ExitStatus> {
        match self {
            Self::Child { child, .. } => child.try_wait().ok().flatten(),
            Self::Other(process) => (process.doing() == Doing::Gone).then(ExitStatus::default),
        }
    }

    fn kill(&mut self) {
        // One that has ended by itself is as dead.
        match self {
            Self::Child { child, .. } => _ = child.kill(),
            Self::Other(process) => _ = process.signal(Signal::KILL),
        }
    }
}

/// How a process ended, in words.
pub fn how(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was killed by signal {signal}"),
        (_, Some(code)) => format!("ended with code {code}"),
        _ => "ended".to_owned(),
    }
}

impl Hosts {
    /// None has been started.
    pub fn new(dir: PodDir) -> Self {
        let children = (0..dir.hosts()).map(|_| None).collect();
        // Before somebody puts another file in its place, and the system names this one as deleted.
        Self { dir, program: std::env::current_exe(), children }
    }

    /// The pod.
    pub fn dir(&self) -> &PodDir {
        &self.dir
    }

    /// Starts a host's process, which waits for orders.
    pub fn start(&mut self, host: usize) -> Result<(), Failure> {
        assert!(self.children[host].is_none(), "host {host} runs");
        let broken = |e: std::io::Error| Failure::Broken(format!("cannot start host {host}: {e}"));
        self.dir.make_folder_of(host)?;
        let said = OpenOptions::new().create(true).append(true).open(self.dir.said(host)).map_err(broken)?;
        // Nobody shall take an earlier incarnation's socket for this one's.
        let _ = std::fs::remove_file(self.dir.control(host));
        self.dir.forget_end(host);
        let program =
            self.program.as_ref().map_err(|e| broken(std::io::Error::new(e.kind(), e.to_string())))?;
        let child = Command::new(program)
            .arg("serve")
            .arg(self.dir.path())
            .arg(host.to_string())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()
            .map_err(broken)?;
        let process = Process::of_child(&child).map(Left::Process);
        let names = [self.dir.control(host), self.dir.clients(host), self.dir.process(host)];
        let ends = process.into_iter().chain(names.map(Left::File)).map(register).collect();
        self.children[host] = Some(Runs::Child { child, _ends: ends });
        Ok(())
    }

    /// Takes in a host that somebody has started by hand.
    pub fn take_in(&mut self, host: usize) -> Result<(), Failure> {
        let process = Process::read(&self.dir.process(host)).filter(|process| process.doing() != Doing::Gone);
        let Some(process) = process else {
            return Err(Failure::Refused(format!("host {host} has no process")));
        };
        self.dir.forget_end(host);
        self.children[host] = Some(Runs::Other(process));
        Ok(())
    }

    /// A connection to a host that was started here.
    pub fn line(&mut self, host: usize, patience: Duration) -> Result<Line<'_>, Failure> {
        let Self { dir, children, .. } = self;
        let child = children[host].as_mut().expect("a host that was started");
        Line::wait(dir, host, patience, || child.ended().is_none())
    }

    /// What a host is told to join.
    pub fn join(&self, host: usize, again: bool) -> Order {
        let (memory, job) = (self.dir.file.memory.clone(), Box::new(self.dir.file.job.clone()));
        Order::Join { memory, host: host as u8, again, job }
    }

    /// Whether a host's process was started and has not been seen to end.
    pub fn has(&self, host: usize) -> bool {
        self.children[host].is_some()
    }

    /// The next host whose process has ended since the last time, and how.
    pub fn ended(&mut self) -> Option<(usize, ExitStatus)> {
        for (host, slot) in self.children.iter_mut().enumerate() {
            if let Some(status) = slot.as_mut().and_then(Runs::ended) {
                *slot = None;
                return Some((host, status));
            }
        }
        None
    }

    /// Kills a host's process and waits for its end.
    pub fn kill(&mut self, host: usize) {
        if let Some(mut runs) = self.children[host].take() {
            runs.kill();
            if let Runs::Child { mut child, .. } = runs {
                // It was killed, so it ends.
                let _ = child.wait();
            }
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for child in self.children.iter_mut().flatten() {
            child.kill();
        }
        for host in 0..self.children.len() {
            self.kill(host);
            // Sockets of processes that are gone.
            let _ = std::fs::remove_file(self.dir.control(host));
            let _ = std::fs::remove_file(self.dir.clients(host));
            let _ = std::fs::remove_file(self.dir.process(host));
        }
    }
}
