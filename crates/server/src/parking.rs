//! Connections that wait without a thread, and everything that happens at a time.
//!
//! ```text
//!   pool thread --(client silent for the linger time)--> parked --(bytes, mail, time-out)--> pool thread
//! ```
//!
//! One thread waits here for all: for new clients, for bytes of silent ones, and for the next deadline. While
//! statements run it also looks, now and then, whether their clients are still there.
//!
//! Invariants:
//! 1. A connection is in one place: with a thread, in the pool's queue, or parked.
//! 2. A socket is watched for one event at a time (EPOLLONESHOT), and only while its connection is parked;
//!    an event for a connection that is not parked is ignored, since whoever has it reads the socket
//!    itself.
//! 3. A deadline that was set after the thread went to wait is never later than the thread's next look:
//!    setting one that is earlier wakes the thread.

use std::collections::BTreeMap;
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use liger_sql::session::InterruptReason;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use crate::clock;
use crate::connection::Connection;
use crate::peer::{Peer, lock};
use crate::pool::Pool;
use crate::socket::{Listener, Socket};

/// What the watcher is called for.
pub(crate) enum Watched {
    /// A client has come.
    Client(Socket),
    /// No further client can be accepted just now.
    AcceptFailed,
    /// It is time to look whether the clients of statements that run are there ([`Parking::look_soon`]).
    Look,
}

const WAKE: u64 = u64::MAX;
const FIRST_LISTENER: u64 = 1 << 40;
const EVENTS_AT_ONCE: usize = 64;
/// How long nobody looks whether clients are still there.
pub(crate) const LOOK: Duration = Duration::from_millis(100);
/// No connection has this process id.
const NOBODY: i32 = 0;

/// What happens at a deadline.
enum Deadline {
    /// A statement or a log-in has taken too long.
    Raise(Arc<Peer>, InterruptReason),
    /// A client has been told its end and may not listen.
    Close(Weak<Peer>),
    /// A client has said nothing for too long; its connection is parked.
    Idle(InterruptReason),
    /// Clients may have gone.
    Look,
}

/// A key to take a deadline back.
pub(crate) type DeadlineKey = (Instant, i32);

#[derive(Default)]
struct State {
    parked: BTreeMap<i32, (Box<Connection>, Option<DeadlineKey>)>,
    deadlines: BTreeMap<DeadlineKey, Deadline>,
    /// When the thread will look next of its own accord; `None`: never.
    next_look: Option<Instant>,
    stopping: bool,
}

/// The parked connections and the deadlines.
pub(crate) struct Parking {
    epoll: OwnedFd,
    wake: OwnedFd,
    pool: Arc<Pool>,
    state: Mutex<State>,
    /// There is a deadline for a look.
    looks: AtomicBool,
}

impl Parking {
    pub(crate) fn new(pool: Arc<Pool>) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        Ok(Self { epoll, wake, pool, state: Mutex::default(), looks: AtomicBool::new(false) })
    }

    /// Puts a connection here until its client speaks, or until `idle` passes.
    pub(crate) fn park(&self, mut connection: Box<Connection>, idle: Option<(Instant, InterruptReason)>) {
        let peer = connection.peer().clone();
        let watched = connection.take_watched();
        let mut state = lock(&self.state);
        let key = idle.map(|(at, reason)| {
            let key = (at, peer.process_id);
            self.set(&mut state, key, Deadline::Idle(reason));
            key
        });
        state.parked.insert(peer.process_id, (connection, key));
        drop(state);
        let data = EventData::new_u64(peer.process_id as u64);
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ONESHOT;
        let armed = if watched {
            epoll::modify(&self.epoll, &peer.socket, data, flags)
        } else {
            epoll::add(&self.epoll, &peer.socket, data, flags)
        };
        // Mail that came before it was parked has woken nobody. A socket that cannot be watched is a socket
        // to be read at once, which finds out why.
        if peer.has_mail() || armed.is_err() {
            self.wake(peer.process_id);
        }
    }

    /// Gives a parked connection a thread; one that is not parked has one.
    pub(crate) fn wake(&self, process_id: i32) {
        let mut state = lock(&self.state);
        if let Some((connection, key)) = state.parked.remove(&process_id) {
            key.map(|key| state.deadlines.remove(&key));
            drop(state);
            self.pool.run(connection);
        }
    }

    /// Interrupts a connection for this reason unless the deadline is taken back in time.
    pub(crate) fn raise_after(
        &self,
        peer: &Arc<Peer>,
        after: Duration,
        reason: InterruptReason,
    ) -> DeadlineKey {
        let key = (clock::now() + after, peer.process_id);
        self.set(&mut lock(&self.state), key, Deadline::Raise(peer.clone(), reason));
        key
    }

    /// Cuts a client off after so long, if it is still there.
    pub(crate) fn close_after(&self, peer: &Arc<Peer>, after: Duration) {
        let key = (clock::now() + after, peer.process_id);
        self.set(&mut lock(&self.state), key, Deadline::Close(Arc::downgrade(peer)));
    }

    /// A statement runs: after some time it is worth looking whether its client is still there. Cheap where
    /// that is going to happen anyway.
    pub(crate) fn look_soon(&self) {
        if !self.looks.load(Ordering::Relaxed) && !self.looks.swap(true, Ordering::Relaxed) {
            self.set(&mut lock(&self.state), (clock::now() + LOOK, NOBODY), Deadline::Look);
        }
    }

    /// Takes a deadline back.
    pub(crate) fn unset(&self, key: DeadlineKey) {
        lock(&self.state).deadlines.remove(&key);
    }

    fn set(&self, state: &mut State, key: DeadlineKey, deadline: Deadline) {
        state.deadlines.insert(key, deadline);
        if state.next_look.is_none_or(|look| key.0 < look) {
            state.next_look = Some(key.0);
            self.wake_thread();
        }
    }

    fn wake_thread(&self) {
        // It fails only where the counter is full of wakes that nobody has seen: then one more changes
        // nothing.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        lock(&self.state).stopping = true;
        self.wake_thread();
    }

    /// After the thread has ended: drops what is still parked.
    pub(crate) fn clear(&self) {
        // Dropping a connection comes back here: not under the lock.
        let parked = std::mem::take(&mut lock(&self.state).parked);
        drop(parked);
    }

    /// The thread: returns after `stop`.
    pub(crate) fn watch(&self, listeners: &[Listener], mut seen: impl FnMut(Watched)) -> io::Result<()> {
        for (at, listener) in listeners.iter().enumerate() {
            listener.set_nonblocking()?;
            let data = EventData::new_u64(FIRST_LISTENER + at as u64);
            epoll::add(&self.epoll, listener, data, EventFlags::IN)?;
        }
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_AT_ONCE);
        while let Some(wait) = self.plan() {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), wait.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                match event.data.u64() {
                    WAKE => drop(rustix::io::read(&self.wake, &mut [0; 8])),
                    place @ FIRST_LISTENER.. => {
                        accept_all(&listeners[(place - FIRST_LISTENER) as usize], &mut seen);
                    }
                    process_id => self.wake(process_id as i32),
                }
            }
            self.expire(&mut seen);
        }
        Ok(())
    }

    /// How long to wait, `None` inside for ever; `None` if the thread is to end.
    fn plan(&self) -> Option<Option<Timespec>> {
        let mut state = lock(&self.state);
        if state.stopping {
            return None;
        }
        state.next_look = state.deadlines.first_key_value().map(|(key, _)| key.0);
        Some(state.next_look.map(|look| {
            let wait = look.saturating_duration_since(clock::now());
            Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) }
        }))
    }

    fn expire(&self, seen: &mut impl FnMut(Watched)) {
        let now = clock::now();
        while let Some((process_id, deadline)) = self.take_expired(now) {
            match deadline {
                Deadline::Raise(peer, reason) => peer.raise(reason),
                Deadline::Close(peer) => drop(peer.upgrade().map(|peer| peer.socket.close(Shutdown::Both))),
                Deadline::Idle(reason) => self.end_idle(process_id, reason),
                Deadline::Look => {
                    self.looks.store(false, Ordering::Relaxed);
                    seen(Watched::Look);
                }
            }
        }
    }

    fn take_expired(&self, now: Instant) -> Option<(i32, Deadline)> {
        let mut state = lock(&self.state);
        loop {
            let first = state.deadlines.first_entry().filter(|first| first.key().0 <= now)?;
            let (key, deadline) = first.remove_entry();
            match deadline {
                // Under the lock: a deadline that was taken back in vain has been raised by then.
                Deadline::Raise(peer, reason @ InterruptReason::StatementTimeout) => {
                    peer.interrupt.raise(reason);
                }
                other => return Some((key.1, other)),
            }
        }
    }

    fn end_idle(&self, process_id: i32, reason: InterruptReason) {
        let state = lock(&self.state);
        if let Some((connection, _)) = state.parked.get(&process_id) {
            connection.peer().interrupt.raise(reason);
            drop(state);
            self.wake(process_id);
        }
    }
}

fn accept_all(listener: &Listener, seen: &mut impl FnMut(Watched)) {
    loop {
        match listener.accept() {
            Ok(Some(socket)) => seen(Watched::Client(socket)),
            Ok(None) => return,
            Err(_) => return seen(Watched::AcceptFailed),
        }
    }
}
