//! What others may know of a connection and do to it: its entry in the table of connections.
//!
//! ```text
//!   process id (i32):  | 0 | host: 7 bits | number: 24 bits, from 1 |
//! ```
//!
//! Invariants:
//! 1. A process id is in use by at most one connection of the pod at a time.
//! 2. Whoever wants a connection to stop sets its interrupt; only the connection itself talks to its
//!    client.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Shutdown};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::Duration;

use liger_sql::encoding::ClientEncoding;
use liger_sql::error::SqlError;
use liger_sql::session::{
    Activity, ActivityState, Client, Interrupt, InterruptReason, NUMBER_BITS, Notification,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::auth::scram::{equal, random_bytes};
use crate::clock;
use crate::parking::Parking;
use crate::socket::Socket;

/// Bytes of a secret: 4 in protocol 3.0, all of them from 3.2 on.
pub(crate) const SECRET_BYTES: usize = 32;
/// Bytes of a statement that `pg_stat_activity` shows.
const QUERY_BYTES_SHOWN: usize = 1024;
/// Notifications that a client may leave unread.
const MAIL_MAX: usize = 10_000;
/// A client that is to be told its end and does not listen is cut off after this.
const DEAF: Duration = Duration::from_secs(5);

/// A connection as others see it.
pub(crate) struct Peer {
    pub process_id: i32,
    secret: [u8; SECRET_BYTES],
    /// How much of it the client was told; nothing until it has logged in.
    secret_bytes: AtomicUsize,
    pub interrupt: Arc<Interrupt>,
    pub encoding: Arc<ClientEncoding>,
    pub socket: Arc<Socket>,
    pub address: Option<(IpAddr, u16)>,
    pub started_us: i64,
    status: Mutex<Status>,
    has_mail: AtomicBool,
    mail: Mutex<VecDeque<Notification>>,
    /// What is to be told of its statements.
    told: Mutex<Vec<String>>,
    parking: Weak<Parking>,
}

/// The part of `pg_stat_activity` that changes.
#[derive(Debug)]
pub(crate) struct Status {
    pub user: String,
    pub database: String,
    pub application_name: String,
    pub encrypted: bool,
    pub state: ActivityState,
    pub query: Arc<str>,
    pub query_start_us: i64,
    pub transaction_start_us: i64,
    pub state_change_us: i64,
}

/// Locks, also after a panic of another thread: what is behind these locks is whole at every moment.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Peer {
    pub(crate) fn status(&self) -> MutexGuard<'_, Status> {
        lock(&self.status)
    }

    /// Whether it waits for its client, in no transaction.
    pub(crate) fn is_idle(&self) -> bool {
        self.status().state == ActivityState::Idle
    }

    /// Notes that a statement begins; answers when that is.
    pub(crate) fn begin(&self, query: Option<Arc<str>>) -> i64 {
        let now_us = clock::now_us();
        let mut status = self.status();
        if let Some(query) = query {
            status.query = query;
            status.query_start_us = now_us;
        }
        if status.state != ActivityState::Active {
            if !matches!(
                status.state,
                ActivityState::IdleInTransaction | ActivityState::IdleInTransactionAborted
            ) {
                status.transaction_start_us = now_us;
            }
            status.state = ActivityState::Active;
            status.state_change_us = now_us;
        }
        now_us
    }

    /// Notes that the client is waited for; answers since when.
    pub(crate) fn wait_in(&self, state: ActivityState) -> i64 {
        let now_us = clock::now_us();
        let mut status = self.status();
        if state == ActivityState::Idle {
            status.transaction_start_us = 0;
        }
        status.state = state;
        status.state_change_us = now_us;
        now_us
    }

    /// Takes the notifications that wait.
    pub(crate) fn take_mail(&self) -> VecDeque<Notification> {
        if !self.has_mail.swap(false, Ordering::Acquire) {
            return VecDeque::new();
        }
        std::mem::take(&mut lock(&self.mail))
    }

    /// Takes what is to be told of its statements.
    pub(crate) fn take_told(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.told))
    }

    /// Whether notifications wait.
    pub(crate) fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::Acquire)
    }

    /// Asks the connection to stop what it does, or to end.
    pub(crate) fn raise(self: &Arc<Self>, reason: InterruptReason) {
        self.interrupt.raise(reason);
        if reason >= InterruptReason::IdleInTransactionTimeout {
            // It may wait for its client to speak: let that wait end. It may also wait for its client to
            // listen: that one is given some time.
            self.socket.close(Shutdown::Read);
            if let Some(parking) = self.parking.upgrade() {
                parking.close_after(self, DEAF);
            }
        }
    }

    /// Whether a cancel request with this secret is the client's own.
    pub(crate) fn knows(&self, secret: &[u8]) -> bool {
        let told = self.secret_bytes.load(Ordering::Relaxed);
        told > 0 && equal(secret, &self.secret[..told])
    }

    /// The secret by which the client may cancel, in a protocol that has so many bytes for it.
    pub(crate) fn tell_secret(&self, bytes: usize) -> &[u8] {
        self.secret_bytes.store(bytes, Ordering::Relaxed);
        &self.secret[..bytes]
    }

    fn activity(&self) -> Activity {
        let status = self.status();
        let shown = status.query.floor_char_boundary(QUERY_BYTES_SHOWN);
        Activity {
            process_id: self.process_id,
            user: status.user.clone(),
            database: status.database.clone(),
            application_name: status.application_name.clone(),
            address: self.address,
            encrypted: status.encrypted,
            backend_start_us: self.started_us,
            query_start_us: status.query_start_us,
            state_change_us: status.state_change_us,
            state: status.state,
            place: self.interrupt.place(),
            progress: self.interrupt.progress().look(),
            transaction_start_us: status.transaction_start_us,
            query: status.query[..shown].to_string(),
        }
    }
}

impl Client for Peer {
    fn notify(&self, notification: Notification) {
        let mut mail = lock(&self.mail);
        if mail.len() < MAIL_MAX {
            mail.push_back(notification);
        }
        drop(mail);
        self.has_mail.store(true, Ordering::Release);
        if let Some(parking) = self.parking.upgrade() {
            parking.wake(self.process_id);
        }
    }

    fn log(&self, told: &SqlError) {
        lock(&self.told).push(told.message.clone());
    }
}

/// All connections of this host.
#[derive(Default)]
pub(crate) struct Peers {
    table: Mutex<Table>,
    fewer: Condvar,
}

#[derive(Default)]
struct Table {
    last_number: u32,
    peers: BTreeMap<i32, Arc<Peer>>,
}

impl Peers {
    /// Enters a connection.
    pub(crate) fn enter(&self, host: u8, socket: Arc<Socket>, parking: &Arc<Parking>) -> Arc<Peer> {
        let now_us = clock::now_us();
        let mut table = lock(&self.table);
        let process_id = loop {
            table.last_number = table.last_number % ((1 << NUMBER_BITS) - 1) + 1;
            let process_id = i32::from(host & 0x7f) << NUMBER_BITS | table.last_number.cast_signed();
            if !table.peers.contains_key(&process_id) {
                break process_id;
            }
        };
        let peer = Arc::new(Peer {
            process_id,
            secret: random_bytes(),
            secret_bytes: AtomicUsize::new(0),
            interrupt: Arc::default(),
            encoding: Arc::default(),
            address: socket.address(),
            socket,
            started_us: now_us,
            status: Mutex::new(Status {
                user: String::new(),
                database: String::new(),
                application_name: String::new(),
                encrypted: false,
                state: ActivityState::Starting,
                query: Arc::from(""),
                query_start_us: now_us,
                transaction_start_us: 0,
                state_change_us: now_us,
            }),
            has_mail: AtomicBool::new(false),
            mail: Mutex::default(),
            told: Mutex::default(),
            parking: Arc::downgrade(parking),
        });
        table.peers.insert(process_id, peer.clone());
        peer
    }

    /// Removes a connection that has ended.
    pub(crate) fn leave(&self, process_id: i32) {
        lock(&self.table).peers.remove(&process_id);
        self.fewer.notify_all();
    }

    pub(crate) fn find(&self, process_id: i32) -> Option<Arc<Peer>> {
        lock(&self.table).peers.get(&process_id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Peer>> {
        lock(&self.table).peers.values().cloned().collect()
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.table).peers.len()
    }

    /// Ends the statements whose clients have closed their connections; whether statements go on.
    pub(crate) fn end_gone(&self) -> bool {
        let peers = self.all();
        let active: Vec<&Arc<Peer>> =
            peers.iter().filter(|peer| peer.status().state == ActivityState::Active).collect();
        let mut looked: Vec<PollFd<'_>> =
            active.iter().map(|peer| PollFd::new(&*peer.socket, PollFlags::RDHUP)).collect();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        if !matches!(poll(&mut looked, Some(&at_once)), Ok(1..)) {
            return !active.is_empty();
        }
        let ends = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        for (peer, looked) in active.iter().zip(&looked) {
            if looked.revents().intersects(ends)
                && peer.interrupt.raised() < Some(InterruptReason::ClientGone)
            {
                peer.raise(InterruptReason::ClientGone);
            }
        }
        true
    }

    /// How many connections a role has.
    pub(crate) fn count_of(&self, user: &str) -> usize {
        self.all().iter().filter(|peer| peer.status().user == user).count()
    }

    pub(crate) fn activity(&self) -> Vec<Activity> {
        self.all().iter().map(|peer| peer.activity()).collect()
    }

    /// Waits until there is none left, at most so long; answers whether that is so.
    pub(crate) fn wait_for_none(&self, at_most: Duration) -> bool {
        let end = clock::now() + at_most;
        let mut table = lock(&self.table);
        while !table.peers.is_empty() {
            let left = end.saturating_duration_since(clock::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.fewer.wait_timeout(table, left);
            table = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
        true
    }
}
