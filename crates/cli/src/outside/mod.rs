//! Clients of a ledger, outside the hosts: what they are told outlives any of them.
//!
//! One thread for each client. A client prefers one host, asks another one when its connection is lost or
//! silent, and goes back when its own one takes connections again. Whatever is under way is asked for again
//! then.

#![expect(clippy::disallowed_methods, reason = "clients are threads, and measure what they see in real time")]

pub mod history;
pub mod phases;
pub mod timeline;

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use liger_workload::Histogram;
use liger_workload::ledger::Book;
use liger_workload::ledger::client::{Client, Told};
use liger_workload::ledger::wire::{Frames, Message};

use crate::pod::PodDir;
use history::History;
use timeline::{Kill, Seen};

/// A client waits so long for bytes before it looks around.
const TURN: Duration = Duration::from_millis(2);
/// Time between two questions whether a host is there.
const PING_NS: u64 = 20_000_000;
/// Time between two looks at whether the preferred host is back.
const LOOK_NS: u64 = 100_000_000;
/// What a host has to answer a first question, with and without another connection at hand.
const SHORT: Duration = Duration::from_millis(5);
const LONG: Duration = Duration::from_millis(50);
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// What all clients know.
struct World {
    dir: PodDir,
    book: Book,
    /// Until when clients that have enough wait for what is under way; `u64::MAX`: go on.
    stop_ns: AtomicU64,
    history: Arc<History>,
}

/// How clients behave.
#[derive(Clone, Copy, Debug)]
pub struct Manners {
    /// Requests that a client has under way at once.
    pub window: usize,
    /// A host that says nothing for so long is given up.
    pub silence: Duration,
    /// Number of the first client.
    pub first_client: u32,
}

/// What one client brings home.
pub struct Experience {
    /// What it was told.
    pub told: Told,
    /// When, and from whom.
    pub seen: Seen,
    /// From the first time it asked to the answer, in nanoseconds.
    pub waited_ns: Histogram,
    /// Connections lost, or given up.
    pub lost_connections: u64,
    /// Requests without an answer at the end.
    pub open: u64,
}

/// Clients at work.
pub struct Clients {
    world: Arc<World>,
    threads: Vec<JoinHandle<Experience>>,
}

impl Clients {
    /// Starts a client for each partition.
    pub fn start(dir: &PodDir, book: Book, manners: Manners) -> Self {
        let (stop_ns, history) = (AtomicU64::new(u64::MAX), Arc::default());
        let world = Arc::new(World { dir: dir.clone(), book, stop_ns, history });
        let start = |at: u32| {
            let world = world.clone();
            std::thread::spawn(move || Outsider::new(&world, manners, at).work())
        };
        let threads = (0..book.partitions.into()).map(start).collect();
        Self { world, threads }
    }

    /// What happens to hosts meanwhile, to be noted by whoever causes it.
    pub fn history(&self) -> &History {
        &self.world.history
    }

    /// Lets them wait for what is under way, but no longer than `patience`, and come home, in the order of
    /// their numbers.
    pub fn stop(self, patience: Duration) -> (Vec<Experience>, Vec<Kill>) {
        let until_ns = self.world.history.now_ns() + patience.as_nanos() as u64;
        self.world.stop_ns.store(until_ns, Ordering::Relaxed);
        let homes = self.threads.into_iter().map(|thread| thread.join().expect("clients do not panic"));
        let experiences = homes.collect();
        (experiences, self.world.history.kills())
    }
}

/// A connection to a host.
struct Connection {
    host: usize,
    stream: UnixStream,
    frames: Frames,
    /// When something came.
    heard_ns: u64,
    pinged_ns: u64,
}

/// One client and its connection.
struct Outsider<'w> {
    world: &'w World,
    manners: Manners,
    client: Client,
    prefers: usize,
    connection: Option<Connection>,
    looked_ns: u64,
    out: Vec<u8>,
    home: Experience,
}

impl<'w> Outsider<'w> {
    fn new(world: &'w World, manners: Manners, at: u32) -> Self {
        let home = Experience {
            told: Told::default(),
            seen: Seen::new(world.book.home(at), world.dir.hosts(), world.book.partitions),
            waited_ns: Histogram::default(),
            lost_connections: 0,
            open: 0,
        };
        Self {
            world,
            manners,
            client: Client::new(world.book, manners.first_client + at),
            prefers: at as usize % world.dir.hosts(),
            connection: None,
            looked_ns: 0,
            out: Vec::new(),
            home,
        }
    }

    fn work(mut self) -> Experience {
        loop {
            let now_ns = self.world.history.now_ns();
            let stop_ns = self.world.stop_ns.load(Ordering::Relaxed);
            let stops = stop_ns != u64::MAX;
            if stops && (self.client.under_way() == 0 || now_ns > stop_ns) {
                break;
            }
            if self.look_around(now_ns) {
                while !stops && self.client.under_way() < self.manners.window {
                    Message::Transfer(self.client.next(now_ns)).encode(&mut self.out);
                }
                let alive = self.talk();
                if !alive {
                    self.give_up();
                }
            } else {
                std::thread::sleep(TURN);
            }
        }
        self.home.open = self.client.under_way() as u64;
        Experience { told: self.client.into_told(), ..self.home }
    }

    /// Sees to a connection, the preferred host's if there can be; false if there is none.
    fn look_around(&mut self, now_ns: u64) -> bool {
        let hosts = self.world.dir.hosts();
        match self.connection.as_ref().map(|connection| connection.host) {
            Some(at) if at == self.prefers => return true,
            Some(_) => {
                if now_ns - self.looked_ns > LOOK_NS {
                    self.looked_ns = now_ns;
                    if let Some(stream) = self.probe(self.prefers, SHORT) {
                        self.enter(self.prefers, stream, now_ns);
                    }
                }
            }
            None => {
                let mut others = (0..hosts).map(|step| (self.prefers + step) % hosts);
                let found = others.find_map(|host| Some((host, self.probe(host, LONG)?)));
                if let Some((host, stream)) = found {
                    self.enter(host, stream, self.world.history.now_ns());
                }
            }
        }
        self.connection.is_some()
    }

    /// A connection to a host that answers: one that hangs takes connections, too.
    fn probe(&self, host: usize, patience: Duration) -> Option<UnixStream> {
        let mut stream = UnixStream::connect(self.world.dir.clients(host)).ok()?;
        stream.set_read_timeout(Some(patience)).ok()?;
        let mut ping = Vec::new();
        Message::Ping(0).encode(&mut ping);
        stream.write_all(&ping).ok()?;
        let mut pong = vec![0; ping.len()];
        stream.read_exact(&mut pong).ok()?;
        Some(stream)
    }

    /// Takes a connection, and asks again for everything that is under way.
    fn enter(&mut self, host: usize, stream: UnixStream, now_ns: u64) {
        if stream.set_read_timeout(Some(TURN)).is_err() {
            return;
        }
        self.home.seen.connected(now_ns, host);
        self.out.clear();
        for request in self.client.again() {
            Message::Transfer(request).encode(&mut self.out);
        }
        let frames = Frames::default();
        self.connection = Some(Connection { host, stream, frames, heard_ns: now_ns, pinged_ns: 0 });
    }

    fn give_up(&mut self) {
        self.connection = None;
        self.home.lost_connections += 1;
    }

    /// Writes what is to be said, and takes what has come; false if the connection is lost.
    fn talk(&mut self) -> bool {
        let connection = self.connection.as_mut().expect("connected");
        let now_ns = self.world.history.now_ns();
        if now_ns - connection.pinged_ns > PING_NS {
            connection.pinged_ns = now_ns;
            Message::Ping(now_ns).encode(&mut self.out);
        }
        if connection.stream.write_all(&self.out).is_err() {
            return false;
        }
        self.out.clear();
        let mut bytes = [0; READ_BYTES];
        match connection.stream.read(&mut bytes) {
            Ok(0) => false,
            Ok(len) => {
                connection.frames.push(&bytes[..len]);
                connection.heard_ns = self.world.history.now_ns();
                self.take()
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {
                    let silent_ns = self.world.history.now_ns() - connection.heard_ns;
                    silent_ns < self.manners.silence.as_nanos() as u64
                }
                _ => false,
            },
        }
    }

    /// Takes the messages that have come.
    fn take(&mut self) -> bool {
        let now_ns = self.world.history.now_ns();
        let kill = self.world.history.last_kill();
        let connection = self.connection.as_mut().expect("connected");
        loop {
            match connection.frames.message() {
                Ok(None) => return true,
                Ok(Some(Message::Done(reply))) => {
                    if let Some(heard) = self.client.hear(&reply, now_ns) {
                        self.home.waited_ns.record(heard.waited_ns);
                        let far = self.world.book.far_partition(&heard.request);
                        self.home.seen.acknowledged(now_ns, connection.host, far, heard.waited_ns, kill);
                    }
                }
                Ok(Some(Message::Pong(_) | Message::Owners(_))) => {}
                Ok(Some(_)) | Err(_) => return false,
            }
        }
    }
}
