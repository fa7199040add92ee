//! Failures of hosts, caused from outside: a random host at random instants, and all of them at once.
//!
//! 1. The next host fails only when all are members again: what two failures at once do to a pod is another
//!    question.
//! 2. What is killed when follows from the seed, as far as the machine's own timing lets it.

#![expect(
    clippy::disallowed_methods,
    reason = "hosts fail in real time, and join again while others are watched"
)]

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use liger_engine::recovery::salvage::Dead;
use liger_workload::Rng;
use rustix::process::Signal;

use crate::commands::supervise::{Asked, ask};
use crate::control::Order;
use crate::failure::Failure;
use crate::memory::{Found, Outlived};
use crate::outside::history::History;
use crate::pod::process::Doing;
use crate::pod::{PodDir, Process, Running, ask_host};
use crate::terminal;

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(1);
/// A host answers what it owns within this time.
const SOON: Duration = Duration::from_millis(500);
/// A host that hangs goes on after so many leases.
const HANG_LEASES: u32 = 3;
/// A host that goes on, and is no member any more, has ended after this time.
const NOTICES: Duration = Duration::from_millis(500);

/// How a host is made to fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum KillMode {
    /// Its process is killed.
    Kill,
    /// Its process is stopped, and goes on three leases later if nobody has killed it.
    Hang,
}

impl KillMode {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Hang => "hang",
        }
    }
}

/// How a host joins again that was started with this order.
pub type Rejoin = Arc<dyn Fn(&PodDir, usize, &Order) -> Result<(), Failure> + Send + Sync>;

/// What is to happen.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How long clients ask.
    pub time: Duration,
    /// The mean time between two failures.
    pub kill_every: Option<Duration>,
    /// How hosts fail.
    pub mode: KillMode,
    /// At most so many times.
    pub kills: u32,
    /// When all hosts are killed.
    pub crash_after: Option<Duration>,
    /// The memory outlives that.
    pub keep_memory: bool,
    /// Decides who and when.
    pub seed: u64,
}

/// The pod, made for the run or found.
pub enum Pod {
    /// This process has started it.
    Own(Box<Running>),
    /// Somebody else supervises it.
    Attached(PodDir),
    /// It is being started again.
    Down(PodDir),
}

impl Pod {
    /// Its directory.
    pub fn dir(&self) -> &PodDir {
        match self {
            Self::Own(running) => running.hosts.dir(),
            Self::Attached(dir) | Self::Down(dir) => dir,
        }
    }
}

/// Where a host is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Host {
    Up,
    /// Stopped; goes on at this time.
    Hangs(Instant),
    /// Goes on; if it is no member any more it ends before this time.
    Resumed(Instant),
    /// Was killed; its process may still be there.
    Killed,
    /// Joins again.
    Joins,
    /// Ended; whoever supervises it may start it again.
    Left,
}

/// Failures as they come.
pub struct Chaos {
    pod: Pod,
    plan: Plan,
    rejoin: Rejoin,
    rng: Rng,
    hosts: Vec<Host>,
    killed_by_others: u32,
    found: Option<Found>,
    sender: Sender<(usize, Result<(), Failure>)>,
    rejoined: Receiver<(usize, Result<(), Failure>)>,
}

impl Chaos {
    /// Of a pod whose hosts are all up.
    pub fn new(pod: Pod, plan: Plan, rejoin: Rejoin) -> Self {
        let hosts = vec![Host::Up; pod.dir().hosts()];
        let (sender, rejoined) = channel();
        Self {
            pod,
            plan,
            rejoin,
            rng: Rng::new(plan.seed),
            hosts,
            killed_by_others: 0,
            found: None,
            sender,
            rejoined,
        }
    }

    /// Hosts that ended by somebody else's doing: the others take a host for dead that is silent for a lease.
    pub fn killed_by_others(&self) -> u32 {
        self.killed_by_others
    }

    /// What the pod has found that was started again.
    pub fn found(&self) -> Option<Found> {
        self.found
    }

    /// The pod again.
    pub fn into_pod(self) -> Pod {
        self.pod
    }

    /// Causes failures until the time is over and all hosts are up again.
    pub fn run(&mut self, history: &History) -> Result<(), Failure> {
        let (started, mut kills) = (Instant::now(), 0);
        let mut next = started + self.pause();
        let mut crash_at = self.plan.crash_after.map(|after| started + after);
        loop {
            terminal::check_interrupted()?;
            self.look(history)?;
            let now = Instant::now();
            let all_up = self.hosts.iter().all(|host| matches!(host, Host::Up | Host::Left));
            let over = now - started > self.plan.time;
            if over && all_up {
                return Ok(());
            }
            if crash_at.is_some_and(|at| now >= at) {
                crash_at = None;
                self.crash(history)?;
            }
            if self.plan.kill_every.is_some() && all_up && !over && now >= next && kills < self.plan.kills {
                kills += 1;
                next = now + self.pause();
                self.fail_one(history);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// A random time around the period.
    fn pause(&mut self) -> Duration {
        let per_mille = self.rng.between(500, 1500) as u32;
        self.plan.kill_every.unwrap_or_default() * per_mille / 1000
    }

    fn signal(&self, host: usize, signal: Signal) -> bool {
        Process::read(&self.pod.dir().process(host)).is_some_and(|process| process.signal(signal))
    }

    fn note(&self, history: &History, host: usize, hangs: bool) {
        let partitions = ask_host(self.pod.dir(), host, SOON).map(|said| said.partitions).unwrap_or_default();
        history.note_kill(host, hangs, partitions);
    }

    fn fail_one(&mut self, history: &History) {
        let host = self.rng.below(self.hosts.len() as u64) as usize;
        let hangs = self.plan.mode == KillMode::Hang;
        self.note(history, host, hangs);
        self.signal(host, if hangs { Signal::STOP } else { Signal::KILL });
        let lease = Duration::from_millis(self.pod.dir().file.lease_ms);
        self.hosts[host] =
            if hangs { Host::Hangs(Instant::now() + HANG_LEASES * lease) } else { Host::Killed };
    }

    /// Kills all hosts, and starts the pod again from its files.
    fn crash(&mut self, history: &History) -> Result<(), Failure> {
        for host in 0..self.hosts.len() {
            self.note(history, host, false);
        }
        let dir = self.pod.dir().clone();
        if let (Pod::Own(running), true) = (&mut self.pod, self.plan.keep_memory) {
            running.let_memory_outlive();
        }
        // All hosts are killed, and the memory is removed if it is not to be kept.
        self.pod = Pod::Down(dir.clone());
        let outlived = Outlived { discard: false, dead: Dead::Proven };
        let (running, recovered) = Running::recover(PodDir::open(dir.path())?, outlived)?;
        self.found = recovered.found;
        self.pod = Pod::Own(Box::new(running));
        (0..self.hosts.len()).for_each(|host| history.note_return(host));
        Ok(())
    }

    /// Sees how hosts are, and starts those again that have ended.
    fn look(&mut self, history: &History) -> Result<(), Failure> {
        for host in self.gone() {
            if self.hosts[host] == Host::Up {
                if self.pod.dir().complained(host) {
                    let words = self.pod.dir().last_words(host);
                    return Err(Failure::Broken(format!("host {host} ended: {words}")));
                }
                // Somebody else has killed it: the other hosts, if it was silent for a lease, or the user.
                history.note_kill(host, false, Vec::new());
                self.killed_by_others += 1;
            }
            if matches!(self.pod, Pod::Attached(_)) && self.plan.kill_every.is_none() {
                self.hosts[host] = Host::Left;
                continue;
            }
            self.hosts[host] = Host::Joins;
            self.start_again(host)?;
        }
        while let Ok((host, joined)) = self.rejoined.try_recv() {
            joined?;
            self.hosts[host] = Host::Up;
            history.note_return(host);
        }
        let now = Instant::now();
        for host in 0..self.hosts.len() {
            match self.hosts[host] {
                Host::Hangs(until) if now >= until => {
                    self.signal(host, Signal::CONT);
                    self.hosts[host] = Host::Resumed(now + NOTICES);
                }
                // It was never taken for dead.
                Host::Resumed(until) if now >= until => {
                    self.hosts[host] = Host::Up;
                    history.note_return(host);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Hosts whose process has ended since the last time.
    fn gone(&mut self) -> Vec<usize> {
        match &mut self.pod {
            Pod::Own(running) => std::iter::from_fn(|| running.hosts.ended().map(|(host, _)| host)).collect(),
            Pod::Attached(dir) => {
                let is_gone = |host: &usize| {
                    let process = Process::read(&dir.process(*host));
                    process.is_none_or(|process| process.doing() == Doing::Gone)
                };
                let waited_for = |host: &usize| !matches!(self.hosts[*host], Host::Joins | Host::Left);
                (0..self.hosts.len()).filter(waited_for).filter(is_gone).collect()
            }
            Pod::Down(_) => Vec::new(),
        }
    }

    fn start_again(&mut self, host: usize) -> Result<(), Failure> {
        let sender = self.sender.clone();
        match &mut self.pod {
            Pod::Own(running) => {
                let join = running.start_again(host)?;
                let dir = running.hosts.dir().clone();
                let rejoin = self.rejoin.clone();
                std::thread::spawn(move || sender.send((host, rejoin(&dir, host, &join))));
            }
            Pod::Attached(dir) => {
                let dir = dir.clone();
                // The supervisor sees the end of a process a little later than the system does.
                std::thread::spawn(move || {
                    std::thread::sleep(SOON / 10);
                    sender.send((host, ask(&dir, Asked::Add(host)).map(drop)))
                });
            }
            Pod::Down(_) => {}
        }
        Ok(())
    }
}
