//! The processes of a benchmark's hosts: started, ordered, listened to, and never left behind.
//!
//! Invariants:
//! 1. Every process started here is ended and waited for when the fleet is dropped, whatever happened.
//! 2. Hosts are in process groups of their own: an interrupt from the terminal reaches the benchmark only,
//!    which then ends them.
//! 3. Events are bounded: a host that hands over rows waits until they are taken.

#![expect(clippy::disallowed_methods, reason = "every host is listened to by threads of its own")]

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::control::{Answer, Order};
use crate::failure::Failure;
use crate::interrupt::{Left, Registered, note_interrupts, register};
use crate::pod::Process;
use crate::pod::line::say_wait;

/// Events that wait to be taken.
const EVENTS: usize = 64;
/// Lines of a host's last words.
const LAST_WORDS: usize = 20;

/// Something happened.
enum Event {
    Answered {
        host: usize,
        answer: Answer,
        rows: Vec<u8>,
    },
    /// A host's output has ended.
    Gone {
        host: usize,
    },
    Signal(i32),
}

struct Running {
    /// It ends with this process, also at an interrupt.
    _ends: Option<Registered>,
    child: Child,
    orders: Option<ChildStdin>,
    last_words: Option<JoinHandle<VecDeque<String>>>,
}

/// The hosts of a benchmark.
pub struct Fleet {
    hosts: Vec<Running>,
    sender: SyncSender<Event>,
    events: Receiver<Event>,
    /// Ends the thread that waits for signals.
    signals: Handle,
}

impl Fleet {
    /// No host yet; signals are caught from now on.
    pub fn new() -> Result<Self, Failure> {
        note_interrupts()?;
        let (sender, events) = sync_channel(EVENTS);
        let caught = Signals::new([SIGINT, SIGTERM]);
        let mut caught = caught.map_err(|e| Failure::Broken(format!("cannot catch signals: {e}")))?;
        let (to, signals) = (sender.clone(), caught.handle());
        std::thread::spawn(move || {
            for signal in caught.forever() {
                if to.send(Event::Signal(signal)).is_err() {
                    break;
                }
            }
        });
        Ok(Self { hosts: Vec::new(), sender, events, signals })
    }

    /// Starts the next host.
    pub fn start_host(&mut self) -> Result<(), Failure> {
        let broken = |e: std::io::Error| Failure::Broken(format!("cannot start a host: {e}"));
        let program = std::env::current_exe().map_err(broken)?;
        let mut child = Command::new(program)
            .arg("host")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(broken)?;
        let host = self.hosts.len();
        let (orders, answers) = (child.stdin.take(), child.stdout.take().expect("piped"));
        let errors = child.stderr.take().expect("piped");
        let to = self.sender.clone();
        std::thread::spawn(move || listen(host, BufReader::new(answers), &to));
        let last_words = std::thread::spawn(move || {
            let mut words = VecDeque::new();
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                if words.len() == LAST_WORDS {
                    words.pop_front();
                }
                words.push_back(line);
            }
            words
        });
        let ends = Process::of_child(&child).map(|process| register(Left::Process(process)));
        self.hosts.push(Running { _ends: ends, child, orders, last_words: Some(last_words) });
        Ok(())
    }

    /// Hosts started.
    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    /// Gives one host an order.
    pub fn order(&mut self, host: usize, order: &Order) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(order).expect("every key is a string");
        line.push(b'\n');
        let orders = self.hosts[host].orders.as_mut().expect("orders go on until the end");
        match orders.write_all(&line).and_then(|()| orders.flush()) {
            Ok(()) => Ok(()),
            Err(_) => Err(self.gone(host)),
        }
    }

    /// Waits for something to happen: an answer of any host, with the rows that came with it.
    pub fn next(&mut self, patience: Duration) -> Result<(usize, Answer, Vec<u8>), Failure> {
        loop {
            match self.events.recv_timeout(patience) {
                Ok(Event::Answered { host, answer: Answer::Waits { what, ms }, .. }) => {
                    say_wait(host, &what, ms);
                }
                Ok(event) => return self.tell(event),
                // The fleet has a sender itself, so that this is never about a channel without any.
                Err(_) => return Err(silence(patience)),
            }
        }
    }

    fn tell(&mut self, event: Event) -> Result<(usize, Answer, Vec<u8>), Failure> {
        match event {
            Event::Answered { host, answer: Answer::Failed { message, refused }, .. } => {
                let message = format!("host {host}: {message}");
                Err(if refused { Failure::Refused(message) } else { Failure::Broken(message) })
            }
            Event::Answered { host, answer, rows } => Ok((host, answer, rows)),
            Event::Gone { host } => Err(self.gone(host)),
            Event::Signal(signal) => Err(Failure::Interrupted(signal)),
        }
    }

    /// Gives all hosts an order and waits for their final answers, in host order; `progress` gets the others.
    pub fn order_all(
        &mut self,
        orders: impl Fn(usize) -> Order,
        patience: Duration,
        mut progress: impl FnMut(u64),
    ) -> Result<Vec<Answer>, Failure> {
        for host in 0..self.len() {
            self.order(host, &orders(host))?;
        }
        let mut answers: Vec<Option<Answer>> = vec![None; self.len()];
        while answers.iter().any(Option::is_none) {
            match self.next(patience)? {
                (_, Answer::Progress { rows }, _) => progress(rows),
                // For those who watch.
                (_, Answer::Acknowledged { .. }, _) => {}
                (host, answer, _) => answers[host] = Some(answer),
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Kills all hosts at once, as a loss of power would, and shows what they had said before.
    pub fn crash(mut self, patience: Duration, mut said: impl FnMut(usize, Answer)) -> Result<(), Failure> {
        for running in &mut self.hosts {
            // One that has ended by itself is as dead.
            let _ = running.child.kill();
        }
        let mut there = self.len();
        while there > 0 {
            match self.events.recv_timeout(patience) {
                Ok(Event::Answered { host, answer, .. }) => said(host, answer),
                Ok(Event::Gone { .. }) => there -= 1,
                Ok(Event::Signal(signal)) => return Err(Failure::Interrupted(signal)),
                Err(_) => return Err(silence(patience)),
            }
        }
        Ok(())
    }

    /// Lets all hosts leave the pod and end.
    pub fn dismiss(&mut self, patience: Duration) -> Result<(), Failure> {
        for host in 0..self.len() {
            self.order(host, &Order::Leave)?;
        }
        let mut there = self.len();
        while there > 0 {
            match self.events.recv_timeout(patience) {
                // It has ended of its own accord, which is what it was told.
                Ok(Event::Gone { host }) if self.hosts[host].child.wait().is_ok_and(|s| s.success()) => {
                    there -= 1;
                }
                Ok(event) => drop(self.tell(event)?),
                Err(_) => return Err(silence(patience)),
            }
        }
        Ok(())
    }

    /// What to say about a host whose output has ended.
    fn gone(&mut self, host: usize) -> Failure {
        let running = &mut self.hosts[host];
        let how = match running.child.wait() {
            Ok(status) => match (status.signal(), status.code()) {
                (Some(signal), _) => format!("was killed by signal {signal}"),
                (_, Some(code)) => format!("ended with code {code}"),
                _ => "ended".to_owned(),
            },
            Err(error) => format!("is lost: {error}"),
        };
        let words = running.last_words.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        let words = match words.is_empty() {
            true => "it said nothing".to_owned(),
            false => format!("its last words:\n  {}", Vec::from(words).join("\n  ")),
        };
        Failure::Broken(format!("host {host} {how}; the other hosts were stopped; {words}"))
    }
}

fn silence(waited: Duration) -> Failure {
    Failure::Broken(format!("no host answered for {} s; all were stopped", waited.as_secs()))
}

/// Turns a host's answers into events until there are none.
fn listen(host: usize, mut from: impl BufRead, to: &SyncSender<Event>) {
    let mut line = String::new();
    loop {
        line.clear();
        let answer = match from.read_line(&mut line) {
            Ok(n) if n > 0 => serde_json::from_str::<Answer>(&line),
            _ => break,
        };
        let Ok(answer) = answer else { break };
        let mut rows = Vec::new();
        if let Answer::Rows { bytes } = answer {
            rows.resize(bytes, 0);
            if from.read_exact(&mut rows).is_err() {
                break;
            }
        }
        if to.send(Event::Answered { host, answer, rows }).is_err() {
            return;
        }
    }
    // Nobody may be listening any more.
    let _ = to.send(Event::Gone { host });
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for running in &mut self.hosts {
            // A host that has ended cannot be killed; it is waited for like the others.
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
        self.signals.close();
    }
}
