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
use std::str::FromStr;
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

// What is left of a name says in which space of numbers, of which run of the system.
const _: () = assert!(PLACE_SHIFT + u16::BITS == u64::BITS);

/// How much a thread is preferred; what is less is run earlier, and 0 is usual.
const PREFERRED: i32 = -10;

/// The name of this process; 0 if the system does not tell this process who it is. Nobody could end it then.
pub fn own() -> u64 {
    static OWN: OnceLock<u64> = OnceLock::new();
    if let Some(own) = OWN.get() {
        return *own;
    }
    let number = std::process::id();
    let named = || Ok::<_, io::Error>(name(number, look(number)?.start, place(number)?));
    // Not kept if it fails: there may be a file descriptor to spare next time.
    let own = named().map_or(0, |own| *OWN.get_or_init(|| own));
    assert!(own == 0 || number_of(own) == number, "process {number} is not {own:#x}");
    own
}

/// Lets the calling thread run before others of this machine, where the system permits that: for one that has
/// to show in time that this process lives, and needs next to no time for it. Where it does not, nothing
/// happens.
pub fn prefer_this_thread() {
    // For Linux, what is called a process here is one thread, and none named is the caller.
    let _ = setpriority_process(None, PREFERRED);
}

/// A thread of the process of this name that runs before others ([`prefer_this_thread`]), if there is one.
pub(super) fn preferred_thread(named: u64) -> Option<Pid> {
    threads(find(named).ok().flatten()?).find(|thread| stat_of(*thread).is_some_and(|it| is_preferred(&it)))
}

/// Lets those threads of a process that are ending do so before others run, where the system permits that: a
/// process gives back its memory first, which takes a while beside many others, and counts as running until
/// it has.
pub(super) fn hasten_end(named: u64) {
    let Ok(Some(pid)) = find(named) else { return };
    let ending = threads(pid).filter(|thread| stat_of(*thread).is_some_and(|it| is_ending(&it)));
    ending.for_each(|thread| _ = setpriority_process(Some(thread), PREFERRED));
}

fn stat_of(thread: Pid) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{}/stat", thread.as_raw_pid())).ok()
}

/// The threads of a process, as far as the system tells.
fn threads(process: Pid) -> impl Iterator<Item = Pid> {
    let listed = std::fs::read_dir(format!("/proc/{}/task", process.as_raw_pid())).into_iter().flatten();
    listed.filter_map(|it| Pid::from_raw(it.ok()?.file_name().to_str()?.parse().ok()?))
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
        Ok(Some(pid)) => {
            let number = pid.as_raw_pid() as u32;
            assert!(
                number == number_of(named) && number != std::process::id(),
                "process {number} is another"
            );
            match kill_process(pid, Signal::KILL) {
                Ok(()) => {
                    hasten_end(named);
                    CutOff::Pending
                }
                Err(Errno::SRCH) => CutOff::Done,
                Err(_) => CutOff::Unknown("this host may not end its process"),
            }
        }
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
    debug_assert!(u64::from(number) < 1 << NUMBER_BITS, "process {number} has no name");
    let start = start & ((1 << START_BITS) - 1);
    let name = u64::from(place) << PLACE_SHIFT | start << NUMBER_BITS | u64::from(number);
    debug_assert_eq!(number_of(name), number, "a name says whose it is");
    name
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
    let mut is_gone = matches!(state.as_str(), "Z" | "X" | "x");
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

fn state_and_start(stat: &str) -> Option<(String, u64)> {
    Some((field(stat, 3)?, field(stat, 22)?))
}

/// Field `number` of a thread's state, from the third on, which is the first behind its name.
fn field<T: FromStr>(stat: &str, number: usize) -> Option<T> {
    debug_assert!(number >= 3, "field {number} is before the name, or the name");
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(number - 3)?.parse().ok()
}

fn is_preferred(stat: &str) -> bool {
    field(stat, 19).is_some_and(|nice: i32| nice <= PREFERRED)
}

/// True if a thread is about to end and nothing can keep it: it is in the middle of that, or will see the
/// signal that says so before anything else.
fn is_ending(stat: &str) -> bool {
    const EXITING: u32 = 4;
    let (flags, signals) = (field(stat, 9).unwrap_or(0_u32), field(stat, 31).unwrap_or(0_u32));
    flags & EXITING != 0 || signals >> (Signal::KILL.as_raw() - 1) & 1 != 0
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

    #[test]
    fn a_preferred_thread_is_found_where_there_may_be_one() {
        let (mut child, named) = child();
        hasten_end(named);
        assert_eq!(preferred_thread(named), None, "it goes on, and so it stays as it is");
        let pid = find(named).expect("ours").expect("it runs");
        if setpriority_process(Some(pid), PREFERRED).is_ok() {
            assert_eq!(preferred_thread(named), Some(pid));
        }
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
        assert_eq!(preferred_thread(named), None);
        // There is nobody, and so nothing to do.
        hasten_end(named);
    }

    #[test]
    fn who_is_about_to_end_is_seen() {
        let stat = |flags, signals| {
            format!("7 (a) b) S 1 7 7 0 -1 {flags} 1 0 0 0 5 6 0 0 20 -10 3 0 99 1 1 1 1 1 1 1 1 {signals} 0")
        };
        assert!(!is_ending(&stat(0x40_0040, 1 << 14)) && is_ending(&stat(0x40_0044, 0)));
        assert!(is_ending(&stat(0, 1 << 8)) && !is_ending("cut"));
        assert!(is_preferred(&stat(0, 0)) && !is_preferred(&stat(0, 0).replace("-10", "0")));
        assert_eq!(state_and_start(&stat(0, 0)), Some(("S".to_owned(), 99)));
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
