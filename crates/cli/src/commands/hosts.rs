//! `liger kill`, `hang`, `resume`, `add`, `remove` and `checkpoint`: one thing to one host of a pod
//! directory, or to all. And `liger serve`, which is such a host.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use rustix::process::Signal;

use super::up::{Asked, ask};
use crate::control::{Answer, Order};
use crate::failure::Failure;
use crate::host;
use crate::orders::Orders;
use crate::pod::process::Doing;
use crate::pod::running::PATIENCE;
use crate::pod::{Line, PodDir, Process, order_all};
use crate::terminal::Phase;

/// A host answers what it is doing within this time.
const SOON: Duration = Duration::from_secs(5);

/// One host of a pod.
#[derive(Args)]
pub struct OneHost {
    /// The pod's directory
    dir: PathBuf,
    /// The host's number
    host: usize,
}

/// A pod.
#[derive(Args)]
pub struct OnePod {
    /// The pod's directory
    dir: PathBuf,
}

impl OneHost {
    fn open(&self) -> Result<PodDir, Failure> {
        let dir = PodDir::open(&self.dir)?;
        dir.check_host(self.host)?;
        Ok(dir)
    }

    fn signal(&self, signal: Signal, done: &str) -> Result<ExitCode, Failure> {
        let dir = self.open()?;
        let process = Process::read(&dir.process(self.host));
        match process.filter(|process| process.signal(signal)) {
            Some(process) => {
                println!("host {} {done} (process {})", self.host, process.number());
                Ok(ExitCode::SUCCESS)
            }
            None => {
                let (host, path) = (self.host, dir.path().display());
                Err(Failure::Refused(format!("host {host} has no process: see `liger status {path}`")))
            }
        }
    }
}

/// Kills a host's process at once.
pub fn kill(of: &OneHost) -> Result<ExitCode, Failure> {
    of.signal(Signal::KILL, "was killed")
}

/// Stops a host's process: it exists and does nothing.
pub fn hang(of: &OneHost) -> Result<ExitCode, Failure> {
    of.signal(Signal::STOP, "hangs")
}

/// Lets a stopped process go on.
pub fn resume(of: &OneHost) -> Result<ExitCode, Failure> {
    of.signal(Signal::CONT, "goes on")
}

/// Lets the supervisor start a host again.
pub fn add(of: &OneHost) -> Result<ExitCode, Failure> {
    let dir = of.open()?;
    let phase = Phase::start(&format!("host {} joins", of.host));
    ask(&dir, Asked::Add(of.host))?;
    phase.done("joined");
    Ok(ExitCode::SUCCESS)
}

/// Lets a host leave that owns nothing.
pub fn remove(of: &OneHost) -> Result<ExitCode, Failure> {
    let dir = of.open()?;
    let mut line = Line::connect(&dir, of.host, SOON)?;
    line.order(&Order::Status)?;
    if let Answer::Status { partitions, .. } = line.last(|_, _| ())?
        && !partitions.is_empty()
    {
        return Err(Failure::Refused(format!(
            "host {} owns the partitions {partitions:?}, and leaving would take their rows out of the pod: \
             kill it, and the others take them over",
            of.host
        )));
    }
    line.order(&Order::Leave)?;
    line.last(|_, _| ())?;
    println!("host {} has left", of.host);
    Ok(ExitCode::SUCCESS)
}

/// Takes a checkpoint on every host that runs.
pub fn checkpoint(of: &OnePod) -> Result<ExitCode, Failure> {
    let dir = PodDir::open(&of.dir)?;
    let runs = |host: &usize| {
        Process::read(&dir.process(*host)).is_some_and(|process| process.doing() == Doing::Running)
    };
    let hosts: Vec<usize> = (0..dir.hosts()).filter(runs).collect();
    if hosts.is_empty() {
        let path = dir.path().display();
        return Err(Failure::Refused(format!(
            "no host of {path} runs: start it with `liger recover {path}`"
        )));
    }
    let phase = Phase::start(&format!("{} hosts take a checkpoint", hosts.len()));
    order_all(&dir, hosts.into_iter(), |_| Order::Checkpoint, PATIENCE, |_| ())?;
    phase.done("on storage");
    Ok(ExitCode::SUCCESS)
}

/// Is a host.
pub fn serve(of: &OneHost) -> Result<ExitCode, Failure> {
    let dir = of.open()?;
    Process::own().write(&dir.process(of.host))?;
    let orders = Orders::of_socket(&dir.control(of.host))?;
    host::run(&orders, Some(&dir.clients(of.host)))
}
