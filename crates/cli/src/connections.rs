//! A host's connections to clients of the ledger, in the hands of its workers.
//!
//! 1. A connection belongs to one worker, which reads, runs transactions and writes in turns and never
//!    blocks on it. Connections outlive a pause: while the host carries out an order they wait.
//! 2. A client that asks for more than the queue takes is not read from until it has been answered.
//! 3. An error that makes the host useless is told to every client that meets it, and ends the host.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use liger_engine::Durability;
use liger_engine::row::{RowHost, RowSession};
use liger_engine::{Session, TxnError};
use liger_fabric::Fabric;
use liger_workload::ledger::request_queue::RequestQueue;
use liger_workload::ledger::schema::Tables;
use liger_workload::ledger::wire::{Frames, Message};

use crate::failure::Failure;
use crate::orders::{Shown, listen};

mod ear;

use ear::Ear;

/// Requests of one connection that may wait at once.
const WAITING_MAX: usize = 4096;
/// Requests tried in a turn of a connection.
const TRIED: usize = 32;
/// Bytes read at once.
const READ_BYTES: usize = 16 << 10;
/// Bytes that may wait to be written to a client that does not read.
const OUT_BYTES_MAX: usize = 1 << 20;
/// Turns without work before a worker sleeps.
const IDLE_TURNS: u32 = 64;
/// How long a worker sleeps that has transactions to try again, or to acknowledge when they are durable.
const REST_NS: u64 = 1_000_000;

/// One client.
struct Connection {
    stream: UnixStream,
    frames: Frames,
    queue: RequestQueue,
    out: Vec<u8>,
    gone: bool,
}

/// Everybody who is connected.
pub struct Connections {
    listener: UnixListener,
    tables: Tables,
    durability: Durability,
    /// By worker.
    connections: Vec<Mutex<Vec<Connection>>>,
    next: AtomicUsize,
    ear: Ear,
}

impl Connections {
    /// Takes clients at a socket, which is made; `wake` wakes workers that sleep ([`RowSession::doze`]).
    pub fn open(
        path: &Path,
        tables: Tables,
        durability: Durability,
        workers: u8,
        wake: impl Fn() + Send + 'static,
    ) -> Result<Self, Failure> {
        let listener = listen(path)?;
        let broken = |why: std::io::Error| Failure::Broken(format!("{}: {why}", path.display()));
        listener.set_nonblocking(true).map_err(broken)?;
        let ear = Ear::open(wake).map_err(|errno| broken(errno.into()))?;
        ear.add(&listener).map_err(|errno| broken(errno.into()))?;
        let connections = (0..workers).map(|_| Mutex::default()).collect();
        Ok(Self { listener, tables, durability, connections, next: AtomicUsize::new(0), ear })
    }

    fn of_worker(&self, worker: usize) -> MutexGuard<'_, Vec<Connection>> {
        self.connections[worker].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works as one of the host's workers until there is an order.
    ///
    /// # Errors
    /// What makes this host useless: it was fenced, or its log has failed.
    pub fn work<F: Fabric>(&self, session: &mut RowSession<'_, F>, shown: &Shown) -> Result<(), TxnError> {
        let worker = usize::from(session.cx().worker().0);
        let mut idle = 0;
        while !shown.wanted.load(Ordering::Relaxed) {
            idle = if self.turn(session, shown)? > 0 { 0 } else { idle + 1 };
            if idle < IDLE_TURNS {
                session.cx().pause();
                continue;
            }
            let mut ended = Ok(());
            session.doze(|session| {
                self.ear.listen();
                match self.turn(session, shown) {
                    Ok(0) if shown.wanted.load(Ordering::Relaxed) => 0,
                    Ok(0) if self.of_worker(worker).iter().any(Connection::is_busy) => REST_NS,
                    Ok(0) => session.idle_ns(),
                    Ok(_) => 0,
                    Err(error) => {
                        ended = Err(error);
                        0
                    }
                }
            });
            ended?;
        }
        Ok(())
    }

    /// A turn of a worker with its connections and with other hosts; returns how much it did.
    fn turn<F: Fabric>(&self, session: &mut RowSession<'_, F>, shown: &Shown) -> Result<usize, TxnError> {
        let worker = usize::from(session.cx().worker().0);
        if worker == 0 {
            self.accept();
        }
        let mut did = 0;
        let mut mine = self.of_worker(worker);
        for connection in mine.iter_mut() {
            did += connection.turn(session, shown)?;
        }
        mine.retain(|connection| !connection.gone);
        drop(mine);
        Ok(did + session.serve())
    }

    fn accept(&self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_err() || self.ear.add(&stream).is_err() {
                continue;
            }
            let worker = self.next.fetch_add(1, Ordering::Relaxed) % self.connections.len();
            let queue = RequestQueue::new(self.tables, self.durability);
            let (frames, out) = (Frames::default(), Vec::new());
            self.of_worker(worker).push(Connection { stream, frames, queue, out, gone: false });
        }
    }
}

impl Connection {
    /// True while it has requests that are not answered, or answers that are not read.
    fn is_busy(&self) -> bool {
        !self.queue.is_empty() || !self.out.is_empty()
    }

    /// Reads, runs, writes; returns how much it did.
    fn turn<F: Fabric>(&mut self, session: &mut RowSession<'_, F>, shown: &Shown) -> Result<usize, TxnError> {
        let mut did = self.read(session.host());
        let mut acknowledged = 0;
        let out = &mut self.out;
        let ran = self.queue.round(session, TRIED, |reply| {
            acknowledged += 1;
            Message::Done(reply).encode(out);
        });
        shown.transactions.fetch_add(acknowledged, Ordering::Relaxed);
        match ran {
            Ok(ran) => did += ran + acknowledged as usize,
            Err(error) => {
                Message::Failed(error.to_string()).encode(&mut self.out);
                self.write();
                self.gone = true;
                if matches!(error, TxnError::Fenced | TxnError::LogFailed | TxnError::InDoubt) {
                    return Err(error);
                }
            }
        }
        self.write();
        if self.out.is_empty() && did == 0 && !self.queue.is_empty() {
            session.pause();
        }
        Ok(did)
    }

    fn read(&mut self, host: &RowHost) -> usize {
        if self.queue.len() >= WAITING_MAX {
            return 0;
        }
        let mut bytes = [0; READ_BYTES];
        match self.stream.read(&mut bytes) {
            Ok(0) => self.gone = true,
            Ok(len) => {
                self.frames.push(&bytes[..len]);
                self.take(host);
                return len;
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.gone = true,
        }
        0
    }

    fn take(&mut self, host: &RowHost) {
        loop {
            match self.frames.message() {
                Ok(None) => return,
                Ok(Some(Message::Transfer(request))) => self.queue.ask(request),
                Ok(Some(Message::Ping(token))) => Message::Pong(token).encode(&mut self.out),
                Ok(Some(Message::Ask)) => {
                    let owners = host.plan().partitions().map(|p| host.owner(p).0).collect();
                    Message::Owners(owners).encode(&mut self.out);
                }
                Ok(Some(_)) | Err(_) => {
                    self.gone = true;
                    return;
                }
            }
        }
    }

    fn write(&mut self) {
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(written) if written > 0 => drop(self.out.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                _ => {
                    self.gone = true;
                    return;
                }
            }
        }
        // It asks and does not listen.
        self.gone |= self.out.len() > OUT_BYTES_MAX;
    }
}
