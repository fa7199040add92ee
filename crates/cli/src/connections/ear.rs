//! Listens for clients while a host's workers sleep, and wakes them when one says something.
//!
//! Invariants:
//! 1. Who is to sleep has the ear listen first and looks at its sockets second: what is said before the look
//!    is found there, and what is said later is heard.
//! 2. While nobody sleeps the ear sleeps, too: it costs those who work nothing.
//!
//! It reads nothing and takes no connection.

#![expect(clippy::disallowed_methods, reason = "clients are listened to by a thread")]

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;

/// What the thread is to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    Rest,
    Listen,
    End,
}

struct Shared {
    epoll: OwnedFd,
    task: Mutex<Task>,
    changed: Condvar,
}

/// The thread that listens; it ends when this is dropped.
pub(super) struct Ear {
    shared: Arc<Shared>,
    /// Ends a wait for clients.
    end: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Shared {
    fn task(&self) -> MutexGuard<'_, Task> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, socket: impl AsFd) -> Result<(), Errno> {
        epoll::add(
            &self.epoll,
            socket,
            epoll::EventData::new_u64(0),
            epoll::EventFlags::IN | epoll::EventFlags::RDHUP,
        )
    }

    fn listen(&self, wake: impl Fn()) {
        let mut events = Vec::with_capacity(1);
        loop {
            let mut task = self.task();
            while *task == Task::Rest {
                task = self.changed.wait(task).unwrap_or_else(PoisonError::into_inner);
            }
            if *task == Task::End {
                return;
            }
            drop(task);
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => panic!("waiting for clients: {error}"),
            }
            {
                let mut task = self.task();
                if *task == Task::Listen {
                    *task = Task::Rest;
                }
            }
            wake();
        }
    }
}

impl Ear {
    /// An ear that hears nobody yet; `wake` wakes the workers.
    pub(super) fn open(wake: impl Fn() + Send + 'static) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let end = eventfd(0, EventfdFlags::CLOEXEC)?;
        let shared = Arc::new(Shared { epoll, task: Mutex::new(Task::Rest), changed: Condvar::new() });
        shared.add(&end)?;
        let its_own = shared.clone();
        let thread = std::thread::spawn(move || its_own.listen(wake));
        Ok(Self { shared, end, thread: Some(thread) })
    }

    /// Hears this socket, too, until it is closed.
    pub(super) fn add(&self, socket: impl AsFd) -> Result<(), Errno> {
        self.shared.add(socket)
    }

    /// Wakes the workers once as soon as somebody says something, or has said it.
    pub(super) fn listen(&self) {
        let mut task = self.shared.task();
        if *task == Task::Rest {
            *task = Task::Listen;
            self.shared.changed.notify_one();
        }
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        *self.shared.task() = Task::End;
        self.shared.changed.notify_one();
        // Eight bytes always fit an empty counter.
        let _ = rustix::io::write(&self.end, &1u64.to_ne_bytes());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn says_once_that_somebody_speaks() {
        let (woken, wakes) = channel();
        let ear = Ear::open(move || woken.send(()).expect("the test listens")).expect("files to spare");
        let (mut client, mut server) = UnixStream::pair().expect("a pair");
        ear.add(&server).expect("one more");
        client.write_all(b"a").expect("room");
        let short = Duration::from_millis(50);
        assert!(wakes.recv_timeout(short).is_err(), "nobody sleeps");
        ear.listen();
        assert_eq!(wakes.recv_timeout(Duration::from_secs(10)), Ok(()), "it had been said before");
        assert!(wakes.recv_timeout(short).is_err(), "once");
        server.read_exact(&mut [0]).expect("a byte");
        ear.listen();
        assert!(wakes.recv_timeout(short).is_err(), "nothing new");
        drop(client);
        assert_eq!(wakes.recv_timeout(Duration::from_secs(10)), Ok(()), "an end is heard");
    }
}
