//! `liger kill`, `hang`, `resume`, `add`, `remove` and `checkpoint`: one thing to one host of a pod
//! directory, or to all. And `liger serve`, which is such a host.

#![expect(clippy::disallowed_methods, reason = "a takeover by other processes is waited for")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Signal, set_parent_process_death_signal};

use super::rebalance;
use super::supervise::{Asked, ask};
use super::up::duration;
use crate::control::{Answer, Order};
use crate::failure::Failure;
use crate::host;
use crate::orders::Orders;
use crate::pod::process::Doing;
use crate::pod::running::PATIENCE;
use crate::pod::{Line, PodDir, Process, ask_host, order_all};
use crate::terminal::{self, Phase};

/// A host answers what it is doing within this time.
pub(super) const SOON: Duration = Duration::from_secs(5);
/// Longer than a lease and what a successor has to read.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(120);
/// Time between two looks at how far it is.
pub(super) const LOOK: Duration = Duration::from_millis(20);

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

/// A host that is to leave in peace.
#[derive(Args)]
pub struct Drain {
    #[command(flatten)]
    of: OneHost,
    /// Transactions that run have so long to end, like 30s
    #[arg(long, default_value = "60s", value_parser = duration)]
    within: Duration,
}

/// Lets a host leave once its clients are gone: it takes no new ones, and those that are here are told when
/// they are in no transaction. Its partitions go to the others before.
pub fn drain(drain: &Drain) -> Result<ExitCode, Failure> {
    let (dir, host) = (drain.of.open()?, drain.of.host);
    let left = let_clients_go(&dir, host, drain.within)?;
    if left > 0 {
        let seconds = drain.within.as_secs_f64();
        return Err(Failure::Broken(format!(
            "{left} clients of host {host} are still in transactions after {seconds} s; it takes no new \
             ones: ask again, or let it leave with `liger remove`"
        )));
    }
    rebalance::empty(&dir, host, drain.within)?;
    remove(&drain.of)
}

/// Lets a host's clients go, and waits for those in transactions for so long; says how many are left.
pub fn let_clients_go(dir: &PodDir, host: usize, within: Duration) -> Result<usize, Failure> {
    let phase = Phase::start(&format!("clients of host {host} go"));
    let mut line = Line::connect(dir, host, SOON)?;
    let started = Instant::now();
    loop {
        terminal::check_interrupted()?;
        line.order(&Order::Drain)?;
        let left = match line.last(|_, _| ())? {
            Answer::Drained { left } => left,
            other => {
                return Err(Failure::Broken(format!(
                    "host {host} answered what it was not asked: {other:?}"
                )));
            }
        };
        if left == 0 {
            phase.done("gone");
            return Ok(0);
        }
        if started.elapsed() > within {
            return Ok(left);
        }
        std::thread::sleep(LOOK);
    }
}

/// Lets a host leave. What it owns, the others take over, as if it had died.
pub fn remove(of: &OneHost) -> Result<ExitCode, Failure> {
    let dir = of.open()?;
    leave(&dir, of.host)?;
    println!("host {} has left", of.host);
    Ok(ExitCode::SUCCESS)
}

/// Lets a host leave, and waits until others have what it owned.
pub fn leave(dir: &PodDir, host: usize) -> Result<(), Failure> {
    let partitions = rebalance::ask_for_none(dir, host)?;
    let mut line = Line::connect(dir, host, SOON)?;
    if partitions.is_empty() {
        line.order(&Order::Leave)?;
        return line.last(|_, _| ()).map(drop);
    }
    let others: Vec<usize> =
        (0..dir.hosts()).filter(|other| *other != host && ask_host(dir, *other, SOON).is_ok()).collect();
    if others.is_empty() {
        return Err(Failure::Refused(format!(
            "host {host} owns the partitions {partitions:?}, and no other host serves that could take them \
             over: start one with `liger add`, or end the pod"
        )));
    }
    let phase = Phase::start(&format!("host {host} leaves its partitions {partitions:?} to others"));
    line.order(&Order::GiveUp)?;
    line.last(|_, _| ())?;
    let started = Instant::now();
    loop {
        terminal::check_interrupted()?;
        let states: Vec<_> = others.iter().filter_map(|host| ask_host(dir, *host, SOON).ok()).collect();
        let owned: BTreeSet<u16> = states.iter().flat_map(|said| &said.partitions).copied().collect();
        if partitions.iter().all(|partition| owned.contains(partition)) {
            break;
        }
        if started.elapsed() > TAKEN_OVER_WITHIN {
            let told: Vec<String> = states.into_iter().flat_map(|said| said.troubles).collect();
            let path = dir.path().display();
            return Err(Failure::Broken(format!(
                "nobody has taken over the partitions {partitions:?} of host {host} within {} s ({}): \
                 see `liger status {path}`",
                TAKEN_OVER_WITHIN.as_secs(),
                if told.is_empty() { "no host says why".to_owned() } else { told.join("; ") }
            )));
        }
        std::thread::sleep(LOOK);
    }
    phase.done("taken over");
    Ok(())
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
    // Also if it hangs then, and so does not see that its input has ended.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    Process::own().write(&dir.process(of.host))?;
    let orders = Orders::of_socket(&dir.control(of.host), true)?;
    host::run(&orders, Some(&dir.clients(of.host)))
}

/// One host, by hand.
#[derive(Args)]
pub struct ByHand {
    /// The directory of a pod that is up
    #[arg(long, value_name = "DIR", requires = "host")]
    join: Option<PathBuf>,
    /// The host's number, of one that does not run
    #[arg(long, requires = "join")]
    host: Option<usize>,
}

/// Is a host until an interrupt: as those are that `liger up` starts. Without a pod it is one of a benchmark,
/// which is told over its standard input what to do.
pub fn by_hand(of: &ByHand) -> Result<ExitCode, Failure> {
    let (Some(dir), Some(number)) = (&of.join, of.host) else {
        return host::run(&Orders::of_input(), None);
    };
    let of = OneHost { dir: dir.clone(), host: number };
    let dir = of.open()?;
    if Process::read(&dir.process(number)).is_some_and(|process| process.doing() != Doing::Gone) {
        let message = format!("host {number} runs already: see `liger status {}`", dir.path().display());
        return Err(Failure::Refused(message));
    }
    terminal::note_interrupts()?;
    Process::own().write(&dir.process(number))?;
    let orders = Orders::of_socket(&dir.control(number), false)?;
    let (own, clients) = (dir.clone(), dir.clients(number));
    std::thread::spawn(move || tend(&own, number));
    host::run(&orders, Some(&clients))
}

/// Lets this process be taken into the pod, and go at an interrupt.
fn tend(dir: &PodDir, host: usize) {
    let fail = |failure: Failure| -> ! {
        eprintln!("error: {failure}");
        std::process::exit(failure.code().into())
    };
    match ask(dir, Asked::TakeIn(host)) {
        Ok(_) => println!("host {host} is a member of {}; an interrupt ends it", dir.path().display()),
        Err(failure) => fail(failure),
    }
    while terminal::check_interrupted().is_ok() {
        std::thread::sleep(LOOK);
    }
    terminal::forget_interrupt();
    let gone = rebalance::ask_for_none(dir, host).and_then(|partitions| {
        let mut line = Line::connect(dir, host, PATIENCE)?;
        line.order(if partitions.is_empty() { &Order::Leave } else { &Order::GiveUp })?;
        line.last(|_, _| ())
    });
    if let Err(failure) = gone {
        fail(failure);
    }
}
