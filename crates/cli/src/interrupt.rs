//! Signals that ask this process to end, output that nobody reads any more, and what must not be left behind
//! then.
//!
//! Invariants:
//! 1. Once interrupts are noted, a signal ends this process within a second, whatever it is doing. The work
//!    looks with [`check_interrupted`] and ends in order; if it has not after a moment, a thread of its own
//!    ends what is registered here, and the process.
//! 2. What is registered here ends with the process in these two cases, and with its guard in all others.
//!
//! Commands that start and make nothing need none of this: a signal ends them as it ends any program.

#![expect(clippy::disallowed_methods, reason = "signals are waited for by a thread of their own")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use signal_hook::consts::{SIGINT, SIGPIPE, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::failure::Failure;
use crate::pod::Process;

/// Work that was interrupted has this time to end in order.
const MOMENT: Duration = Duration::from_millis(400);

/// The signal that asked this process to end; 0: none.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// Whether signals are caught.
static CAUGHT: AtomicBool = AtomicBool::new(false);
/// What ends with this process.
static LEFT: Mutex<Registry> = Mutex::new(Registry { next: 0, all: BTreeMap::new() });

struct Registry {
    next: u64,
    all: BTreeMap<u64, Left>,
}

/// Something that this command has started or made, and that is not to outlive it.
#[derive(Debug)]
pub enum Left {
    /// A process, which is killed.
    Process(Process),
    /// A file, which is removed.
    File(PathBuf),
    /// A folder with all that is in it.
    Folder(PathBuf),
}

/// While it lives, an interrupt ends what it was made for.
#[derive(Debug)]
#[must_use = "nothing is registered any more when this is dropped"]
pub struct Registered(u64);

/// Registers something that is to end with this process at an interrupt.
pub fn register(left: Left) -> Registered {
    let mut registry = registry();
    registry.next += 1;
    let number = registry.next;
    registry.all.insert(number, left);
    Registered(number)
}

impl Drop for Registered {
    fn drop(&mut self) {
        registry().all.remove(&self.0);
    }
}

fn registry() -> MutexGuard<'static, Registry> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes interrupts from now on instead of ending at once: who works looks with [`check_interrupted`].
pub fn note_interrupts() -> Result<(), Failure> {
    if CAUGHT.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let mut signals =
        Signals::new([SIGINT, SIGTERM]).map_err(|e| Failure::Broken(format!("cannot catch signals: {e}")))?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            SIGNAL.store(signal, Ordering::Relaxed);
            std::thread::sleep(MOMENT);
            if SIGNAL.load(Ordering::Relaxed) == signal {
                end_all();
                let failure = Failure::Interrupted(signal);
                crate::terminal::say(format_args!("error: {failure}"));
                std::process::exit(failure.code().into());
            }
        }
    });
    Ok(())
}

/// Ends the work if somebody asked for that.
pub fn check_interrupted() -> Result<(), Failure> {
    match SIGNAL.load(Ordering::Relaxed) {
        0 => Ok(()),
        signal => Err(Failure::Interrupted(signal)),
    }
}

/// Forgets an interrupt, to end in order. The next one ends this process without.
pub fn forget_interrupt() {
    SIGNAL.store(0, Ordering::Relaxed);
}

/// Ends quietly, as other programs do, when nobody reads any more what is printed.
pub fn end_with_readers() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // What the standard library says where it prints.
        let said = panic.payload().downcast_ref::<String>();
        if said.is_some_and(|said| said.starts_with("failed printing to std") && said.contains("Broken pipe"))
        {
            end_all();
            // As if the signal had not been ignored since the start of this program.
            let _ = emulate_default_handler(SIGPIPE);
            std::process::exit(128 + SIGPIPE);
        }
        if let Some(why) = said.and_then(|said| said.strip_prefix("failed printing to stdout: ")) {
            end_all();
            crate::terminal::say(format_args!(
                "error: the output cannot be written: {why}: make room for it"
            ));
            std::process::exit(1);
        }
        usual(panic);
    }));
}

/// Ends what is registered: processes first, for they may make files.
fn end_all() {
    let all = std::mem::take(&mut registry().all);
    for left in all.values() {
        if let Left::Process(process) = left {
            process.signal(Signal::KILL);
        }
    }
    for left in all.values() {
        // Nothing to be done about what somebody else removed first.
        let _ = match left {
            Left::Process(_) => Ok(()),
            Left::File(path) => std::fs::remove_file(path),
            Left::Folder(path) => std::fs::remove_dir_all(path),
        };
    }
}
