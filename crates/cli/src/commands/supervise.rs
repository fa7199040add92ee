//! The process that supervises a pod's hosts: it says how they end and why, starts them again, and starts the
//! pod again when none is left. Others ask it for hosts (`liger add`, `liger host --join`).
//!
//! Invariants:
//! 1. What ended in peace, or was removed, is not started again by itself.
//! 2. Whoever fails again and again is started again more and more seldom.
//! 3. A host that is being started again is no member; if there is no member left, nobody can let it in, and
//!    the pod is recovered.

#![expect(
    clippy::disallowed_methods,
    reason = "hosts are watched in real time, and join while others are watched"
)]

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{ExitCode, ExitStatus};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use liger_engine::recovery::salvage::Dead;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use crate::control::Order;
use crate::failure::Failure;
use crate::memory::Outlived;
use crate::pod::hosts::how;
use crate::pod::running::{PATIENCE, join_again};
use crate::pod::{PodDir, Running};
use crate::{orders, terminal};

/// Time between two looks at the hosts.
const LOOK: Duration = Duration::from_millis(20);
/// How long it sleeps if nobody asks for anything: a host that has ended is noticed so late.
const IDLE_LOOK: Duration = Duration::from_millis(50);
/// A process that was killed has ended after this time.
const DIES: Duration = Duration::from_secs(1);
/// What failed is started again after this time at first, and after twice the time each time.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// What has lived for so long counts as failing for the first time.
const STEADY: Duration = Duration::from_secs(60);
/// A pod that could not be recovered so often in a row is given up.
const RECOVERIES: u32 = 3;

/// What a supervisor is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// Start this host again.
    Add(usize),
    /// Take this host in, which somebody has started by hand.
    TakeIn(usize),
    /// Let the pod use so many bytes of its data memory.
    Grow(u64),
}

/// What it answers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// The host is a member.
    Joined,
    /// The pod may use so many bytes of so many.
    Grown(u64, u64),
    /// Why not.
    Failed(String),
}

/// A host that joins again: which, and what came of it.
type Rejoined = (usize, Result<(), Failure>);

/// How long to wait before something that has failed is started again.
#[derive(Clone, Copy, Debug)]
struct Patience {
    next: Duration,
    since: Instant,
}

impl Patience {
    fn new() -> Self {
        Self { next: FIRST_PAUSE, since: Instant::now() }
    }

    /// It serves.
    fn begin(&mut self) {
        self.since = Instant::now();
    }

    /// It has failed: the time until it is started again.
    fn fail(&mut self, now: Instant) -> Duration {
        if now.saturating_duration_since(self.since) >= STEADY {
            self.next = FIRST_PAUSE;
        }
        let pause = self.next;
        (self.next, self.since) = ((2 * pause).min(LONGEST_PAUSE), now);
        pause
    }
}

/// Where a host is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Member,
    /// Its process was started, and joins.
    Joins,
    /// It is started again at this time.
    Waits(Instant),
    /// Nobody starts it again by himself.
    Down,
}

/// A host, as its supervisor sees it.
struct Tended {
    phase: Phase,
    patience: Patience,
    /// Who wants to know when it is a member.
    askers: Vec<UnixStream>,
}

/// How supervising ended.
enum Ended {
    /// No host is left, and this is how all ended.
    All(ExitCode),
    /// No member is left, and somebody has failed.
    Failed,
}

/// Looks after the hosts until an interrupt, or until none is left and none is to be started again.
pub fn supervise(mut running: Running, restarts: bool) -> Result<ExitCode, Failure> {
    let dir = running.hosts.dir().clone();
    let listener = orders::listen(&dir.supervisor())?;
    listener.set_nonblocking(true).map_err(|e| Failure::Broken(e.to_string()))?;
    say_where(&dir);
    let mut patience = Patience::new();
    let ended = loop {
        running.let_memory_outlive();
        patience.begin();
        let mut supervisor = Supervisor::new(&mut running, restarts);
        match supervisor.watch(&listener) {
            Ok(Ended::All(code)) => break Ok(code),
            Ok(Ended::Failed) => {}
            Err(Failure::Interrupted(_)) => {
                terminal::forget_interrupt();
                supervisor.end_joiners();
                let _ = std::fs::remove_file(dir.supervisor());
                running.end()?;
                return Ok(ExitCode::SUCCESS);
            }
            Err(failure) => break Err(failure),
        }
        drop(running);
        running = match recover(&dir, &mut patience) {
            Ok(running) => running,
            Err(failure) => break Err(failure),
        };
        eprintln!("the pod serves again");
    };
    // The socket's name goes with its owner.
    let _ = std::fs::remove_file(dir.supervisor());
    ended
}

/// Sleeps until somebody asks for something, or it is time to look after the hosts.
fn await_asker(listener: &UnixListener) {
    let time = Timespec { tv_sec: 0, tv_nsec: IDLE_LOOK.as_nanos() as i64 };
    // Whatever ends it, a look follows.
    let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&time));
}

/// Says where the pod is to be found.
fn say_where(dir: &PodDir) {
    let path = dir.path().display();
    let (hosts, may_come) = (dir.members(), dir.hosts());
    let more = if hosts.len() == may_come { String::new() } else { format!(" of {may_come} that can") };
    let count = hosts.len();
    let mut said = format!(
        "{path}: {count} hosts serve{more}; `liger status {path}` shows them, an interrupt ends them\n"
    );
    if let Some(sql) = dir.file.job.sql {
        for host in hosts {
            let address = dir.file.job.access.route(sql.port, host as u8);
            said += &format!("host {host}: postgresql://postgres@{address}/postgres\n");
            if let Some(figures) = dir.file.job.telling.address(address, host as u8) {
                said += &format!("host {host}: http://{figures}/metrics\n");
            }
        }
    }
    // At once: whoever started this may read one line only.
    let _ = std::io::stdout().write_all(said.as_bytes());
}

/// Recovers a pod of which no host is left, after a while.
fn recover(dir: &PodDir, patience: &mut Patience) -> Result<Running, Failure> {
    let mut tried = 0;
    loop {
        let pause = patience.fail(Instant::now());
        eprintln!("no host is left: the pod is recovered in {:.1} s", pause.as_secs_f64());
        let due = Instant::now() + pause;
        while Instant::now() < due {
            terminal::check_interrupted()?;
            std::thread::sleep(LOOK);
        }
        tried += 1;
        let outlived = Outlived { discard: false, dead: Dead::Proven };
        match Running::recover(PodDir::open(dir.path())?, outlived) {
            Ok((running, _)) => return Ok(running),
            Err(failure @ Failure::Interrupted(_)) => return Err(failure),
            Err(failure) if tried >= RECOVERIES => return Err(failure),
            Err(failure) => eprintln!("the pod could not be recovered: {failure}"),
        }
    }
}

struct Supervisor<'r> {
    running: &'r mut Running,
    restarts: bool,
    hosts: Vec<Tended>,
    /// Who has asked for a host that seems to run, and until when it may be seen to have ended.
    doubtful: Vec<(Instant, usize, UnixStream)>,
    all_well: bool,
    sender: Sender<Rejoined>,
    rejoined: Receiver<Rejoined>,
}

impl<'r> Supervisor<'r> {
    /// Of hosts that are members, and others that have left, or have yet to come.
    fn new(running: &'r mut Running, restarts: bool) -> Self {
        let phase = |host| if running.hosts.has(host) { Phase::Member } else { Phase::Down };
        let tended = |host| Tended { phase: phase(host), patience: Patience::new(), askers: Vec::new() };
        let hosts = (0..running.hosts.dir().hosts()).map(tended).collect();
        let (sender, rejoined) = channel();
        Self { running, restarts, hosts, doubtful: Vec::new(), all_well: true, sender, rejoined }
    }

    fn watch(&mut self, listener: &UnixListener) -> Result<Ended, Failure> {
        loop {
            terminal::check_interrupted()?;
            self.note_ends();
            for (host, ended) in self.rejoined.try_iter().collect::<Vec<_>>() {
                self.note_rejoined(host, ended);
            }
            if let Some(ended) = self.ended() {
                return Ok(ended);
            }
            let now = Instant::now();
            for host in 0..self.hosts.len() {
                if matches!(self.hosts[host].phase, Phase::Waits(due) if now >= due) {
                    eprintln!("starting host {host} again");
                    self.begin_again(host, Running::start_again)?;
                }
            }
            for (until, host, mut asker) in std::mem::take(&mut self.doubtful) {
                let phase = self.hosts[host].phase;
                // One that the pod has cut off ends sooner or later.
                if phase != Phase::Member {
                    self.add(host, asker)?;
                } else if now < until || self.running.is_cut_off(host) {
                    self.doubtful.push((until, host, asker));
                } else {
                    tell(&mut asker, &Told::Failed(format!("host {host} runs already")));
                }
            }
            match listener.accept() {
                Ok((asker, _)) => self.take(asker)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => await_asker(listener),
                Err(_) => {}
            }
        }
    }

    /// Whether nobody is left to look after.
    fn ended(&mut self) -> Option<Ended> {
        let phases = || self.hosts.iter().map(|host| host.phase);
        if phases().any(|phase| phase == Phase::Member) {
            return None;
        }
        let restarts = phases().any(|phase| matches!(phase, Phase::Joins | Phase::Waits(_)));
        if restarts && !self.restarts {
            // Somebody has asked for one: it may be that the pod lets it in.
            return None;
        }
        if restarts {
            let why = "no host is left that could let it in: the pod is recovered".to_owned();
            for (_, host, asker) in std::mem::take(&mut self.doubtful) {
                self.hosts[host].askers.push(asker);
            }
            (0..self.hosts.len()).for_each(|host| self.answer(host, &Told::Failed(why.clone())));
            return Some(Ended::Failed);
        }
        eprintln!("no host is left: `liger recover` starts the pod again");
        Some(Ended::All(if self.all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }))
    }

    fn note_ends(&mut self) {
        while let Some((host, status)) = self.running.hosts.ended() {
            self.note_end(host, status);
        }
    }

    /// Says how a host ended, and why if the others have ended it; plans its next incarnation.
    fn note_end(&mut self, host: usize, status: ExitStatus) {
        self.all_well &= status.success();
        let dir = self.running.hosts.dir();
        let mut words = how(status);
        // That its process has ended is known already.
        if let Some(why) = self.running.silence(host) {
            words += &format!(": {why}");
        }
        dir.note_end(host, &words);
        if status.code().is_some_and(|code| code != 0) {
            words += &format!("; {}", dir.last_words(host));
        }
        eprintln!("host {host} {words}");
        if status.success() {
            self.note_member(host, false);
        }
        let tended = &mut self.hosts[host];
        tended.phase = Phase::Down;
        if !status.success() && self.restarts {
            let now = Instant::now();
            let pause = tended.patience.fail(now);
            eprintln!("host {host} is started again in {:.1} s", pause.as_secs_f64());
            tended.phase = Phase::Waits(now + pause);
        }
    }

    /// Notes which hosts start when the pod starts again.
    fn note_member(&self, host: usize, is_member: bool) {
        if let Err(why) = self.running.hosts.dir().note_member(host, is_member) {
            eprintln!("which hosts are there could not be noted: {why}");
        }
    }

    fn note_rejoined(&mut self, host: usize, ended: Result<(), Failure>) {
        let ended = match ended {
            Ok(()) if !self.running.hosts.has(host) => Err("it has ended".to_owned()),
            ended => ended.map_err(|failure| failure.to_string()),
        };
        match &ended {
            Ok(()) => {
                eprintln!("host {host} is a member again");
                self.hosts[host].phase = Phase::Member;
                self.hosts[host].patience.begin();
            }
            Err(why) => {
                eprintln!("host {host} could not join again: {why}");
                // One that could not even be started leaves nothing that ends.
                let tended = &mut self.hosts[host];
                if !self.running.hosts.has(host) && tended.phase == Phase::Joins {
                    let now = Instant::now();
                    let next = Phase::Waits(now + tended.patience.fail(now));
                    tended.phase = if self.restarts { next } else { Phase::Down };
                }
            }
        }
        self.answer(host, &ended.map_or_else(Told::Failed, |()| Told::Joined));
    }

    /// Reads and begins what somebody asks for.
    fn take(&mut self, mut asker: UnixStream) -> Result<(), Failure> {
        let mut line = String::new();
        let limited = asker.set_nonblocking(false).and_then(|()| asker.set_read_timeout(Some(10 * LOOK)));
        if limited.and_then(|()| BufReader::new(&asker).read_line(&mut line)).is_err() {
            return Ok(());
        }
        let Ok(asked) = serde_json::from_str(&line) else { return Ok(()) };
        let (host, by_hand) = match asked {
            Asked::Add(host) => (host, false),
            Asked::TakeIn(host) => (host, true),
            Asked::Grow(bytes) => {
                let told = match self.running.grow(bytes) {
                    Ok(room) => Told::Grown(room.bytes, room.of_bytes),
                    Err(failure) => Told::Failed(failure.to_string()),
                };
                tell(&mut asker, &told);
                return Ok(());
            }
        };
        let phase = self.hosts.get(host).map(|tended| tended.phase);
        match (by_hand, phase) {
            (_, None) => tell(&mut asker, &Told::Failed(format!("the pod has no host {host}"))),
            // Whoever asks may have killed it just now.
            (false, Some(Phase::Member)) => {
                self.doubtful.push((Instant::now() + DIES, host, asker));
            }
            (false, Some(_)) => self.add(host, asker)?,
            (true, Some(Phase::Waits(_) | Phase::Down)) => {
                self.hosts[host].askers.push(asker);
                self.begin_again(host, Running::take_in)?;
            }
            (true, Some(_)) => {
                tell(&mut asker, &Told::Failed(format!("host {host} runs already")));
            }
        }
        Ok(())
    }

    /// Starts a host that somebody has asked for, unless it is on its way already.
    fn add(&mut self, host: usize, asker: UnixStream) -> Result<(), Failure> {
        self.hosts[host].askers.push(asker);
        if self.hosts[host].phase != Phase::Joins {
            eprintln!("starting host {host} again");
            self.begin_again(host, Running::start_again)?;
        }
        Ok(())
    }

    /// Begins with a host again; it joins in a thread of its own, since that may have to wait for a takeover.
    fn begin_again(
        &mut self,
        host: usize,
        begin: impl FnOnce(&mut Running, usize) -> Result<Order, Failure>,
    ) -> Result<(), Failure> {
        self.hosts[host].phase = Phase::Joins;
        // It is wanted, also if it does not come about this time.
        self.note_member(host, true);
        let join = match begin(self.running, host) {
            Ok(join) => join,
            Err(failure @ Failure::Interrupted(_)) => return Err(failure),
            Err(failure) => {
                let _ = self.sender.send((host, Err(failure)));
                return Ok(());
            }
        };
        let (dir, sender) = (self.running.hosts.dir().clone(), self.sender.clone());
        std::thread::spawn(move || {
            let joined = join_again(&dir, host, &join);
            // The supervisor may have ended meanwhile.
            let _ = sender.send((host, joined));
        });
        Ok(())
    }

    /// Ends the hosts that are on their way: they carry out no orders, and nobody is to wait for them.
    fn end_joiners(&mut self) {
        for (host, _) in self.hosts.iter().enumerate().filter(|(_, tended)| tended.phase == Phase::Joins) {
            self.running.hosts.kill(host);
        }
    }

    /// Tells all who have asked for a host.
    fn answer(&mut self, host: usize, told: &Told) {
        self.hosts[host].askers.drain(..).for_each(|mut asker| tell(&mut asker, told));
    }
}

fn tell(asker: &mut UnixStream, told: &Told) {
    let mut line = serde_json::to_vec(told).expect("every key is a string");
    line.push(b'\n');
    // Whoever asked may be gone.
    let _ = asker.write_all(&line);
}

/// Asks a pod's supervisor; what it has done.
pub fn ask(dir: &PodDir, asked: Asked) -> Result<Told, Failure> {
    ask_within(dir, asked, PATIENCE)
}

/// As [`ask`], and waits so long for what it says.
pub fn ask_within(dir: &PodDir, asked: Asked, patience: Duration) -> Result<Told, Failure> {
    let path = dir.supervisor();
    let gone = |e: std::io::Error| {
        let of = dir.path().display();
        Failure::Refused(format!(
            "{}: nobody supervises {of}: {e}: start it with `liger recover`",
            path.display()
        ))
    };
    let mut stream = UnixStream::connect(&path).map_err(gone)?;
    stream.set_read_timeout(Some(patience)).map_err(gone)?;
    let mut line = serde_json::to_vec(&asked).expect("every key is a string");
    line.push(b'\n');
    stream.write_all(&line).map_err(gone)?;
    let mut told = String::new();
    let read = BufReader::new(stream).read_line(&mut told);
    if read.as_ref().is_err_and(|e| matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)) {
        let seconds = patience.as_secs_f64();
        return Err(Failure::Broken(format!(
            "the supervisor has not said within {seconds} s that it serves"
        )));
    }
    read.map_err(gone)?;
    match serde_json::from_str(&told) {
        Ok(Told::Failed(why)) => Err(Failure::Refused(why)),
        Ok(told) => Ok(told),
        Err(_) => Err(Failure::Broken("the supervisor has ended".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_something_lives_for_long() {
        let mut patience = Patience::new();
        let mut now = patience.since;
        let mut pauses = |lived: u64| {
            now += Duration::from_secs(lived);
            patience.fail(now).as_millis()
        };
        assert_eq!([0, 1, 2, 3].map(&mut pauses), [500, 1000, 2000, 4000]);
        assert_eq!([10, 20, 30, 40].map(&mut pauses), [8000, 16_000, 30_000, 30_000]);
        assert_eq!([60, 1].map(&mut pauses), [500, 1000]);
    }
}
