//! A connection to a host's socket for orders.

#![expect(clippy::disallowed_methods, reason = "a host's socket is waited for")]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::PodDir;
use crate::control::{Answer, Order, Scrubbed};
use crate::failure::Failure;
use crate::terminal;

/// Time between two looks at whether the command was interrupted.
const LOOK: Duration = Duration::from_millis(50);

/// What takes longer than this is told, and again after twice the time.
pub const TOLD_AFTER: Duration = Duration::from_secs(1);

/// Says what a host waits for.
pub fn say_wait(host: usize, what: &str, ms: u64) {
    terminal::say(format_args!("  host {host} waits for {what}, {:.1} s so far", ms as f64 / 1e3));
}

/// A connection.
pub struct Line<'d> {
    dir: &'d PodDir,
    host: usize,
    stream: BufReader<UnixStream>,
    patience: Duration,
}

impl<'d> Line<'d> {
    /// Connects to a host whose socket is there.
    pub fn connect(dir: &'d PodDir, host: usize, patience: Duration) -> Result<Self, Failure> {
        let path = dir.control(host);
        let stream = UnixStream::connect(&path).map_err(|e| {
            let path = path.display();
            Failure::Refused(format!("host {host} does not listen at {path}: {e}: see `liger status`"))
        })?;
        stream.set_read_timeout(Some(LOOK)).map_err(|e| Failure::Broken(e.to_string()))?;
        Ok(Self { dir, host, stream: BufReader::new(stream), patience })
    }

    /// Connects to a host that was just started; `is_there` says whether it still is.
    pub fn wait(
        dir: &'d PodDir,
        host: usize,
        patience: Duration,
        mut is_there: impl FnMut() -> bool,
    ) -> Result<Self, Failure> {
        let (started, mut told) = (Instant::now(), TOLD_AFTER);
        loop {
            if started.elapsed() >= told {
                say_wait(host, "its process to start", started.elapsed().as_millis() as u64);
                told *= 2;
            }
            match Self::connect(dir, host, patience) {
                Ok(line) => return Ok(line),
                Err(failure) if started.elapsed() > patience => return Err(failure),
                Err(_) if !is_there() => {
                    let words = dir.last_words(host);
                    return Err(Failure::Broken(format!("host {host} ended at its start; {words}")));
                }
                Err(_) => {
                    terminal::check_interrupted()?;
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        }
    }

    /// Gives an order.
    pub fn order(&mut self, order: &Order) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(order).expect("every key is a string");
        line.push(b'\n');
        self.stream.get_ref().write_all(&line).map_err(|_| self.gone())
    }

    /// The next answer, and the rows that come with it.
    pub fn next(&mut self) -> Result<(Answer, Vec<u8>), Failure> {
        let mut line = Vec::new();
        let started = Instant::now();
        while line.last() != Some(&b'\n') {
            match self.stream.read_until(b'\n', &mut line) {
                Ok(0) => return Err(self.gone()),
                Ok(_) => {}
                Err(error) => self.bear(&error, started)?,
            }
        }
        let answer = serde_json::from_slice(&line)
            .map_err(|e| Failure::Broken(format!("host {}: no answer: {e}", self.host)))?;
        let mut rows = Vec::new();
        match &answer {
            Answer::Rows { bytes } => {
                rows.resize(*bytes, 0);
                self.read_exact(&mut rows)?;
            }
            Answer::Failed { message, refused } => {
                let message = format!("host {}: {message}", self.host);
                return Err(if *refused { Failure::Refused(message) } else { Failure::Broken(message) });
            }
            _ => {}
        }
        Ok((answer, rows))
    }

    /// The final answer to the order given; `other` gets those before it.
    pub fn last(&mut self, mut other: impl FnMut(Answer, Vec<u8>)) -> Result<Answer, Failure> {
        loop {
            match self.next()? {
                (
                    answer @ (Answer::Progress { .. } | Answer::Acknowledged { .. } | Answer::Rows { .. }),
                    rows,
                ) => {
                    other(answer, rows);
                }
                (Answer::Waits { what, ms }, _) => say_wait(self.host, &what, ms),
                (answer, _) => return Ok(answer),
            }
        }
    }

    fn read_exact(&mut self, out: &mut [u8]) -> Result<(), Failure> {
        let (mut read, started) = (0, Instant::now());
        while read < out.len() {
            match self.stream.read(&mut out[read..]) {
                Ok(0) => return Err(self.gone()),
                Ok(more) => read += more,
                Err(error) => self.bear(&error, started)?,
            }
        }
        Ok(())
    }

    /// Goes on after a time without bytes; everything else is the end of the host.
    fn bear(&self, error: &std::io::Error, started: Instant) -> Result<(), Failure> {
        if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) {
            return Err(self.gone());
        }
        if started.elapsed() > self.patience {
            let seconds = self.patience.as_secs();
            return Err(Failure::Broken(format!("host {} did not answer for {seconds} s", self.host)));
        }
        terminal::check_interrupted()
    }

    fn gone(&self) -> Failure {
        Failure::Broken(format!("host {} has ended; {}", self.host, self.dir.last_words(self.host)))
    }
}

/// Gives hosts an order and waits for their final answers, in the order of `hosts`.
pub fn order_all(
    dir: &PodDir,
    hosts: impl Iterator<Item = usize>,
    order: impl Fn(usize) -> Order,
    patience: Duration,
    mut progress: impl FnMut(u64),
) -> Result<Vec<Answer>, Failure> {
    let mut lines = Vec::new();
    for host in hosts {
        let mut line = Line::connect(dir, host, patience)?;
        line.order(&order(host))?;
        lines.push(line);
    }
    let mut progress = |answer, _| {
        if let Answer::Progress { rows } = answer {
            progress(rows);
        }
    };
    lines.iter_mut().map(|line| line.last(&mut progress)).collect()
}

/// What a host says of itself.
#[derive(Clone, Debug)]
pub struct Said {
    /// Transactions acknowledged to clients.
    pub transactions: u64,
    /// The partitions it owns.
    pub partitions: Vec<u16>,
    /// What it cannot do at present, and why.
    pub troubles: Vec<String>,
    /// Bytes of images whose rows are made after a restart, of how many; none: all are.
    pub restored: Option<(u64, u64)>,
    /// What it has seen of its rows in shared memory.
    pub scrubbed: Scrubbed,
}

/// Asks a host how it is.
pub fn ask_host(dir: &PodDir, host: usize, patience: Duration) -> Result<Said, Failure> {
    let mut line = Line::connect(dir, host, patience)?;
    line.order(&Order::Status)?;
    match line.last(|_, _| ())? {
        Answer::Status { transactions, partitions, troubles, restored, scrubbed } => {
            Ok(Said { transactions, partitions, troubles, restored, scrubbed })
        }
        other => Err(Failure::Broken(format!("host {host} answered what it was not asked: {other:?}"))),
    }
}
