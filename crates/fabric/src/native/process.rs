//! Processes of this machine that stand for hosts: naming one for ever, and ending one for good.
//!
//! Invariants:
//! 1. A name says the process number, when the process started, and in which space of process numbers of
//!    which run of the system: a number that was used again, or is another's elsewhere, names another
//!    process.
//! 2. A process that is said to be cut off runs no more: the system knows no process of this number, or
//!    another one, or a zombie that nobody has waited for. Whatever cannot be found out is no proof.
//! 3. No process is ended that was not seen to have the name.
//!
//! What it cannot reach: processes of other machines, and of other spaces of process numbers.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, setpriority_process, test_kill_process};

use crate::fabric::CutOff;

/// Bits of a name that hold the process number.
const NUMBER_BITS: u32 = 22;
/// Bits that hold when it started, in ticks after the system's start; the uppermost of these are left out.
const START_BITS: u32 = 26;
/// What is left says where the number counts.
const PLACE_SHIFT: u32 = NUMBER_BITS + START_BITS;

/// The name of this process; 0 if the system does not tell this process who it is. Nobody could end it then.
pub fn own() -> u64 {
    static OWN: OnceLock<u64> = OnceLock::new();
    if let Some(own) = OWN.get() {
        return *own;
    }
    let number = std::process::id();
    let named = || Ok::<_, io::Error>(name(number, look(number)?.start, place(number)?));
    // Not kept if it fails: there may be a file descriptor to spare next time.
    named().map_or(0, |own| *OWN.get_or_init(|| own))
}

/// Lets the calling thread run before others of this machine, where the system permits that: for one that has
/// to show in time that this process lives, and needs next to no time for it. Where it does not, nothing
/// happens.
pub fn prefer_this_thread() {
    // For Linux, what is called a process here is one thread, and none named is the caller.
    let _ = setpriority_process(None, -10);
}

/// The process number in a name.
pub fn number_of(name: u64) -> u32 {
    (name & ((1 << NUMBER_BITS) - 1)) as u32
}

/// Ends the process of this name.
pub fn cut_off(named: u64) -> CutOff {
    if named == own() {
        return CutOff::Unknown("it is this process");
    }
    match find(named) {
        Err(why) => CutOff::Unknown(why),
        Ok(None) => CutOff::Done,
        Ok(Some(pid)) => match kill_process(pid, Signal::KILL) {
            Ok(()) => CutOff::Pending,
            Err(Errno::SRCH) => CutOff::Done,
            Err(_) => CutOff::Unknown("this host may not end its process"),
        },
    }
}

/// True if the process of this name surely runs no more.
pub fn is_gone(named: u64) -> bool {
    runs(named) == Ok(false)
}

/// Whether the process of this name runs.
///
/// # Errors
/// Why nobody knows.
pub fn runs(named: u64) -> Result<bool, &'static str> {
    Ok(find(named)?.is_some())
}

/// The process of this name, if it runs.
///
/// # Errors
/// Why nobody knows.
fn find(named: u64) -> Result<Option<Pid>, &'static str> {
    let (number, own) = (number_of(named), own());
    let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
    let (Some(pid), true) = (pid, own != 0) else {
        return Err("it is not known which process it is");
    };
    if named >> PLACE_SHIFT != own >> PLACE_SHIFT {
        return Err("its process is of another machine, or of another space of process numbers");
    }
    // Asked first: this needs no file descriptor, and files of other users' processes may be hidden.
    if test_kill_process(pid) == Err(Errno::SRCH) {
        return Ok(None);
    }
    let found = look(number).map_err(|_| "the system does not say whether its process runs")?;
    let is_it = name(number, found.start, 0) == named & ((1 << PLACE_SHIFT) - 1);
    Ok((is_it && !found.is_gone).then_some(pid))
}

fn name(number: u32, start: u64, place: u16) -> u64 {
    let start = start & ((1 << START_BITS) - 1);
    u64::from(place) << PLACE_SHIFT | start << NUMBER_BITS | u64::from(number)
}

/// Where this process's number counts: this run of this system, and a space of process numbers in it.
fn place(number: u32) -> io::Result<u16> {
    // The files may be those of another space of numbers than this process's own.
    if std::fs::read_link("/proc/self")? != Path::new(&number.to_string()) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let space = std::fs::read_link("/proc/self/ns/pid")?;
    let run = match std::fs::read("/proc/sys/kernel/random/boot_id") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read?,
    };
    // FNV-1a: all processes, of whatever build, must come to the same.
    let bytes = run.iter().chain(space.as_os_str().as_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Ok((hash >> 48) as u16)
}

/// What the system says of a process.
struct Found {
    is_gone: bool,
    /// Ticks after the system's start.
    start: u64,
}

fn look(number: u32) -> io::Result<Found> {
    let text = std::fs::read_to_string(format!("/proc/{number}/stat"))?;
    let (state, start) = state_and_start(&text).ok_or(io::ErrorKind::InvalidData)?;
    let mut is_gone = matches!(state, "Z" | "X" | "x");
    if is_gone {
        // Its first thread may be a zombie while others still run, and hold its locks.
        let threads = std::fs::read_dir(format!("/proc/{number}/task"))?;
        is_gone = threads.collect::<io::Result<Vec<_>>>()?.len() <= 1;
    }
    Ok(Found { is_gone, start })
}

/// The name of another process of this machine.
#[cfg(test)]
pub(super) fn name_of_number(number: u32) -> io::Result<u64> {
    Ok(name(number, look(number)?.start, (own() >> PLACE_SHIFT) as u16))
}

fn state_and_start(stat: &str) -> Option<(&str, u64)> {
    // The name in parentheses may hold anything; the state is the first field behind it, the start the 20th.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    Some((fields.next()?, fields.nth(18)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;

    /// A process that waits, and its name.
    fn child() -> (Child, u64) {
        let child = Command::new("sleep").arg("60").spawn().expect("there is a sleep");
        let named = name_of_number(child.id()).expect("it runs");
        (child, named)
    }

    #[test]
    fn a_process_is_named_once_and_ended_for_good() {
        assert_eq!(number_of(own()), std::process::id());
        assert!(matches!(cut_off(own()), CutOff::Unknown(_)), "never oneself");
        let (mut child, named) = child();
        assert_eq!(cut_off(named ^ 1 << NUMBER_BITS), CutOff::Done, "another one had this number");
        assert!(matches!(cut_off(named ^ 1 << PLACE_SHIFT), CutOff::Unknown(_)), "of another machine");
        assert!(matches!(cut_off(0), CutOff::Unknown(_)), "nobody");
        assert!(look(child.id()).is_ok_and(|found| !found.is_gone), "and this one was spared");
        assert!(runs(named) == Ok(true) && runs(own()) == Ok(true) && runs(0).is_err() && !is_gone(0));
        while cut_off(named) != CutOff::Done {}
        assert!(!child.wait().expect("it is ours").success());
        assert!(cut_off(named) == CutOff::Done && is_gone(named), "it stays gone");
    }

    /// In a process of its own, for the limit is the process's.
    #[test]
    fn who_cannot_look_has_no_proof() {
        const ALONE: &str = "LIGER_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let mut again = Command::new(std::env::current_exe().expect("this test"));
            again.args(["--exact", "native::process::tests::who_cannot_look_has_no_proof"]);
            assert!(again.env(ALONE, "1").status().expect("it starts").success());
            return;
        }
        let (mut child, named) = child();
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limit }).expect("less is allowed");
        assert_eq!(cut_off(named), CutOff::Unknown("the system does not say whether its process runs"));
        assert!(child.try_wait().expect("it is ours").is_none(), "it lives");
        setrlimit(Resource::Nofile, limit).expect("as before");
        while cut_off(named) != CutOff::Done {}
        child.wait().expect("it is ours");
        // Who is gone is gone, also for somebody who can open nothing.
        setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limit }).expect("less is allowed");
        assert_eq!(cut_off(named), CutOff::Done);
        setrlimit(Resource::Nofile, limit).expect("as before");
    }
}
