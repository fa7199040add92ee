//! Hears at once when processes of this machine end, by handles that the system gives to whoever asks.
//!
//! Invariants:
//! 1. It only tells that something may have ended: whoever is told looks for himself ([`process::is_gone`]).
//!    So a notice too many does no harm, and none is given for a process that a number was used again for.
//! 2. A process for which there is no handle (of another machine or space of process numbers, no file
//!    descriptor to spare, an old system) is passed over: its end shows in its silence.
//! 3. Between two ends it sleeps: what is watched is told to it, and it never looks around by itself.
//!
//! A process that was killed counts as running until all of its threads have ended and its memory is given
//! back, which on a busy machine takes hundreds of milliseconds: it waits for a processor like everybody. Its
//! preferred thread (its detector) ends within one, and that can be heard on its own (Linux 6.9): then the
//! process is preferred as a whole, and gone soon.
//!
//! It ends nobody, and does not know what a process stands for.

#![expect(clippy::disallowed_methods, reason = "the backend is where threads are started and sleep")]

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::process;

/// What is asked of the thread.
#[derive(Default)]
struct Asked {
    names: Vec<u64>,
    stop: bool,
}

struct Shared {
    asked: Mutex<Asked>,
    /// Counts changes of what is asked.
    changed: OwnedFd,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Asked> {
        // It is only ever assigned to, so a panic elsewhere leaves it whole.
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        // Only a counter at its end refuses, and then the thread is awake.
        let _ = rustix::io::write(&self.changed, &1u64.to_ne_bytes());
    }
}

/// A thread that waits for the ends of processes; it ends when this is dropped.
pub struct DeathWatch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// A process that is watched.
struct Watched {
    name: u64,
    /// None if it cannot be watched, or its end was told.
    handle: Option<OwnedFd>,
    /// Of its preferred thread; none if there is none, or it has ended.
    thread: Option<OwnedFd>,
}

/// In Linux's `pidfd_open`: the handle is a thread's.
const PIDFD_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(OFlags::EXCL.bits());

impl DeathWatch {
    /// Starts to watch nobody. `notice` is called whenever a process has ended; none if the system has no
    /// file descriptor to spare.
    pub fn start(notice: impl Fn() + Send + 'static) -> Option<Self> {
        let changed = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        let shared = Arc::new(Shared { asked: Mutex::default(), changed });
        let inner = shared.clone();
        let thread = std::thread::spawn(move || wait(&inner, &notice));
        Some(Self { shared, thread: Some(thread) })
    }

    /// Says whose ends are to be told from now on, by their names ([`process::own`]). Costs nothing while
    /// they are the same as before.
    pub fn watch(&self, names: &[u64]) {
        let mut asked = self.shared.lock();
        debug_assert!(!asked.stop && self.thread.is_some(), "somebody watches until this is dropped");
        if asked.names != names {
            asked.names = names.to_vec();
            drop(asked);
            self.shared.ring();
        }
    }
}

impl Drop for DeathWatch {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.ring();
        if let Some(thread) = self.thread.take() {
            // If it panicked, that was said.
            let _ = thread.join();
        }
    }
}

/// Waits until it is told to stop.
fn wait(shared: &Shared, notice: &impl Fn()) {
    process::prefer_this_thread();
    let mut watched: Vec<Watched> = Vec::new();
    loop {
        let names = {
            let asked = shared.lock();
            if asked.stop {
                return;
            }
            asked.names.clone()
        };
        watched.retain(|it| names.contains(&it.name));
        for name in names {
            if !watched.iter().any(|it| it.name == name) {
                let opened = open(name);
                if opened.is_err() {
                    notice();
                }
                let thread = process::preferred_thread(name).map(|it| pidfd_open(it, PIDFD_THREAD));
                watched.push(Watched {
                    name,
                    handle: opened.ok().flatten(),
                    thread: thread.and_then(Result::ok),
                });
            }
        }
        let is_first = |(at, it): (usize, &Watched)| watched[..at].iter().all(|other| other.name != it.name);
        debug_assert!(watched.iter().enumerate().all(is_first), "a process is watched once");
        let handles = watched.iter().flat_map(|it| [&it.handle, &it.thread]).flatten();
        let mut fds: Vec<PollFd<'_>> =
            handles.chain([&shared.changed]).map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            // Nothing can be heard any more; silence still tells.
            Err(_) => return,
        }
        let mut rang = fds.iter().map(|fd| !fd.revents().is_empty()).collect::<Vec<_>>().into_iter();
        let mut has_ended = false;
        for it in &mut watched {
            if it.handle.is_some() && rang.next() == Some(true) {
                it.handle = None;
                has_ended = true;
            }
            if it.thread.is_some() && rang.next() == Some(true) {
                it.thread = None;
                process::hasten_end(it.name);
            }
        }
        debug_assert_eq!(rang.len(), 1, "what rang is in the order of what was asked");
        if rang.next() == Some(true) {
            // Whatever it counted to: what is asked is read next.
            let _ = rustix::io::read(&shared.changed, &mut [0; 8]);
        }
        if has_ended {
            notice();
        }
    }
}

/// A handle of the process of this name; none if there can be none.
///
/// # Errors
/// If it has ended.
fn open(name: u64) -> Result<Option<OwnedFd>, ()> {
    let number = process::number_of(name);
    let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
    let (Some(pid), true, Ok(true)) = (pid, name != process::own(), process::runs(name)) else {
        return if name != process::own() && process::is_gone(name) { Err(()) } else { Ok(None) };
    };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else {
        return if process::is_gone(name) { Err(()) } else { Ok(None) };
    };
    // The number may have become another process's before it was opened: then the one that is meant is gone.
    if process::is_gone(name) { Err(()) } else { Ok(Some(handle)) }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn child() -> (Child, u64) {
        let child = Command::new("sleep").arg("60").spawn().expect("there is a sleep");
        let name = process::name_of_number(child.id()).expect("it runs");
        (child, name)
    }

    #[test]
    fn the_end_of_a_process_is_told_before_anybody_has_waited_for_it() {
        let (told, hear) = channel();
        let watch = DeathWatch::start(move || told.send(()).expect("somebody hears")).expect("a descriptor");
        let ((mut first, one), (mut second, two)) = (child(), child());
        // This process, nobody, and one that had a number before are not waited for.
        watch.watch(&[process::own(), 0, one, two]);
        assert_eq!(hear.recv_timeout(Duration::from_millis(50)), Err(RecvTimeoutError::Timeout));
        first.kill().expect("it is ours");
        assert_eq!(hear.recv_timeout(SOON), Ok(()));
        assert!(process::is_gone(one) && !process::is_gone(two), "a zombie has ended, and the other goes on");
        assert_eq!(hear.recv_timeout(Duration::from_millis(50)), Err(RecvTimeoutError::Timeout), "told once");
        first.wait().expect("it is ours");
        // Whoever has ended before it is watched is told as well.
        second.kill().expect("it is ours");
        second.wait().expect("it is ours");
        assert_eq!(hear.recv_timeout(SOON), Ok(()));
        let (mut third, three) = child();
        third.kill().expect("it is ours");
        third.wait().expect("it is ours");
        watch.watch(&[three]);
        assert_eq!(hear.recv_timeout(SOON), Ok(()));
        drop(watch);
    }
}
