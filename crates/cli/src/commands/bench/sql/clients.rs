//! Clients that ask for transactions one after the other, and connect again when they have to.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use liger_workload::Histogram;
use liger_workload::random::Rng;
use liger_workload::tpcc::generate::Generator;
use liger_workload::tpcc::input::Kind;
use tokio::time::{sleep, timeout};
use tokio_postgres::{Client, Config, NoTls};

use super::statements::Statements;
use super::transactions::{Done, OrderId, Terminal};
use super::trouble::Trouble;

/// A host that does not take a connection within this time is tried later.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// Between two tries to connect.
const REST: Duration = Duration::from_millis(50);
/// A client that had to go elsewhere looks so often whether its host is there again.
const LOOK_HOME: Duration = Duration::from_secs(1);
/// The longest wait before a conflict is tried again: at most so long, twice as long each time.
const BACK_OFF_US: (u64, u32) = (200, 7);

/// Where clients connect, and when they stop.
#[derive(Clone)]
pub struct World {
    /// One for each address.
    pub hosts: Vec<Config>,
    /// What begins a transaction.
    pub begin: String,
    /// From when on latencies count.
    pub measured_from: Instant,
    /// When no new transaction begins.
    pub ends: Instant,
    /// Whether a broken connection is made again.
    pub reconnects: bool,
}

/// What became of the transactions of one type.
#[derive(Default)]
pub struct OfKind {
    /// Committed in the measured time.
    pub committed: u64,
    /// Rolled back because the specification wants it, in the measured time.
    pub rolled_back: u64,
    /// Attempts that were run again, by SQLSTATE, in the measured time.
    pub again: BTreeMap<String, u64>,
    /// Nanoseconds from the first attempt to the commit.
    pub latency: Histogram,
}

/// What a client brings home.
#[derive(Default)]
pub struct Brought {
    /// By type.
    pub kinds: BTreeMap<Kind, OfKind>,
    /// New-Orders whose commit was acknowledged.
    pub acknowledged: Vec<OrderId>,
    /// New-Orders whose commit was asked for, and no answer came.
    pub in_doubt: Vec<OrderId>,
    /// Lost connections, by what was said last.
    pub lost: BTreeMap<String, u64>,
    /// The longest time from one commit to the next, in nanoseconds.
    pub longest_pause_ns: u64,
    /// What no client should ever see.
    pub wrong: Vec<String>,
}

impl Brought {
    /// Puts another client's to it.
    pub fn add(&mut self, other: Brought) {
        for (kind, of) in other.kinds {
            let own = self.kinds.entry(kind).or_default();
            own.committed += of.committed;
            own.rolled_back += of.rolled_back;
            own.latency.merge(&of.latency);
            of.again.into_iter().for_each(|(code, n)| *own.again.entry(code).or_default() += n);
        }
        self.acknowledged.extend(other.acknowledged);
        self.in_doubt.extend(other.in_doubt);
        other.lost.into_iter().for_each(|(why, n)| *self.lost.entry(why).or_default() += n);
        self.longest_pause_ns = self.longest_pause_ns.max(other.longest_pause_ns);
        self.wrong.extend(other.wrong);
    }
}

/// Opens a connection. The task that reads it ends with it.
pub async fn connect(config: &Config) -> Result<Client, Trouble> {
    let late = || Trouble::Lost { why: "no connection".to_owned(), in_doubt: None };
    let (client, connection) = timeout(CONNECT_WITHIN, config.connect(NoTls)).await.map_err(|_| late())??;
    tokio::spawn(async move {
        // Whoever uses the connection is told the same.
        let _ = connection.await;
    });
    Ok(client)
}

/// One client.
pub struct OneClient {
    world: World,
    home: usize,
    at: usize,
    looked_home: Instant,
    generator: Generator,
    rng: Rng,
    brought: Brought,
}

impl OneClient {
    /// A client of the host `home`.
    pub fn new(world: World, home: usize, generator: Generator, rng: Rng) -> Self {
        let looked_home = world.measured_from;
        Self { world, home, at: home, looked_home, generator, rng, brought: Brought::default() }
    }

    async fn open(&self, at: usize) -> Result<Terminal, Trouble> {
        let client = connect(&self.world.hosts[at]).await?;
        let statements = Statements::prepare(&client).await?;
        Ok(Terminal { client, statements, begin: self.world.begin.clone() })
    }

    /// Connects to the host of this client, or to another if that is away.
    async fn reach(&mut self) -> Option<Terminal> {
        let count = self.world.hosts.len();
        for turn in 0.. {
            self.at = (self.home + turn) % count;
            match self.open(self.at).await {
                Ok(terminal) => {
                    self.looked_home = Instant::now();
                    return Some(terminal);
                }
                Err(Trouble::Wrong(what)) => {
                    self.brought.wrong.push(what);
                    return None;
                }
                Err(error) if turn == 0 && !self.world.reconnects => {
                    self.brought.wrong.push(format!("no connection: {error:?}"));
                    return None;
                }
                Err(_) if Instant::now() > self.world.ends => return None,
                Err(_) => sleep(REST).await,
            }
        }
        None
    }

    /// Asks until the time is over.
    pub async fn work(mut self) -> Brought {
        let Some(mut terminal) = self.reach().await else { return self.brought };
        let mut last = Instant::now();
        while Instant::now() < self.world.ends && self.brought.wrong.is_empty() {
            if self.at != self.home && self.looked_home.elapsed() > LOOK_HOME {
                self.looked_home = Instant::now();
                if let Ok(of_home) = self.open(self.home).await {
                    (terminal, self.at) = (of_home, self.home);
                }
            }
            if let Some(why) = self.one(&terminal).await {
                *self.brought.lost.entry(why).or_default() += 1;
                if !self.world.reconnects {
                    self.brought.wrong.push("the connection was lost".to_owned());
                    break;
                }
                match self.reach().await {
                    Some(new) => terminal = new,
                    None => break,
                }
            } else {
                let pause_ns = last.elapsed().as_nanos() as u64;
                self.brought.longest_pause_ns = self.brought.longest_pause_ns.max(pause_ns);
                last = Instant::now();
            }
        }
        self.brought
    }

    /// One transaction until it is committed, wanted to be rolled back, or its connection is lost: then why.
    async fn one(&mut self, terminal: &Terminal) -> Option<String> {
        let input = self.generator.next(0);
        let kind = input.kind();
        let started = Instant::now();
        let counts = started >= self.world.measured_from;
        for tries in 0u32.. {
            let trouble = match terminal.run(&input).await {
                Ok(done) => {
                    let in_time = Instant::now() < self.world.ends;
                    self.note(kind, done, started, counts && in_time);
                    return None;
                }
                Err(trouble) => trouble,
            };
            match trouble {
                Trouble::Again(code) => {
                    let of_kind = self.brought.kinds.entry(kind).or_default();
                    *of_kind.again.entry(code).or_default() += u64::from(counts);
                    if let Err(error) = terminal.client.batch_execute("rollback").await {
                        return self.over(error.into());
                    }
                    if Instant::now() > self.world.ends {
                        return None;
                    }
                    let most = BACK_OFF_US.0 << tries.min(BACK_OFF_US.1);
                    sleep(Duration::from_micros(self.rng.below(most))).await;
                }
                trouble => return self.over(trouble),
            }
        }
        None
    }

    fn note(&mut self, kind: Kind, done: Done, started: Instant, counts: bool) {
        if let Done::Committed(Some(order)) = done {
            self.brought.acknowledged.push(order);
        }
        let of_kind = self.brought.kinds.entry(kind).or_default();
        match done {
            _ if !counts => {}
            Done::RolledBack => of_kind.rolled_back += 1,
            Done::Committed(_) => {
                of_kind.committed += 1;
                of_kind.latency.record(started.elapsed().as_nanos() as u64);
            }
        }
    }

    /// The connection is of no more use.
    fn over(&mut self, trouble: Trouble) -> Option<String> {
        match trouble {
            Trouble::Lost { why, in_doubt } => {
                self.brought.in_doubt.extend(in_doubt);
                Some(why)
            }
            Trouble::Again(code) => Some(code),
            Trouble::Wrong(what) => {
                self.brought.wrong.push(what);
                None
            }
        }
    }
}
