//! Processes of this machine that stand for hosts: naming one for ever, and ending one for good.
//!
//! Invariants:
//! 1. A name says the process number and when the process started, so a number that was used again names
//!    another process.
//! 2. A process that is said to be cut off runs no more: it has gone, or is a zombie that nobody has waited
//!    for.
//!
//! What it cannot know: processes of other machines, and of other namespaces of process numbers.

use std::sync::OnceLock;

use rustix::process::{Pid, Signal, kill_process};

/// Bits of a name that hold the process number.
const NUMBER_BITS: u32 = 22;

/// The name of this process.
pub fn own() -> u64 {
    static OWN: OnceLock<u64> = OnceLock::new();
    *OWN.get_or_init(|| {
        let number = std::process::id();
        look(number).map_or(u64::from(number), |found| name(number, found.start))
    })
}

/// The process number in a name.
pub fn number_of(name: u64) -> u32 {
    (name & ((1 << NUMBER_BITS) - 1)) as u32
}

/// Ends the process of this name; true once it runs no more.
pub fn cut_off(named: u64) -> bool {
    if is_gone(named) {
        return true;
    }
    if named != 0
        && named != own()
        && let Some(pid) = i32::try_from(number_of(named)).ok().and_then(Pid::from_raw)
    {
        // If it is refused, the process still runs at the next look.
        let _ = kill_process(pid, Signal::KILL);
    }
    false
}

/// True if the process of this name runs no more.
pub fn is_gone(named: u64) -> bool {
    let number = number_of(named);
    if named == 0 || named == own() {
        return false;
    }
    look(number).is_none_or(|found| found.is_gone || name(number, found.start) != named)
}

fn name(number: u32, start: u64) -> u64 {
    start << NUMBER_BITS | u64::from(number)
}

/// What the system says of a process.
struct Found {
    is_gone: bool,
    /// Ticks after the system's start.
    start: u64,
}

fn look(number: u32) -> Option<Found> {
    let text = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The name in parentheses may hold anything; the state is the first field behind it, the start the 20th.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    // Its first thread may be a zombie while others still run, and hold its locks.
    let threads = || std::fs::read_dir(format!("/proc/{number}/task")).map_or(0, Iterator::count);
    let is_gone = matches!(fields.next()?, "Z" | "X" | "x") && threads() <= 1;
    let start = fields.nth(18)?.parse().ok()?;
    Some(Found { is_gone, start })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_named_once_and_ended_for_good() {
        assert_eq!(number_of(own()), std::process::id());
        assert!(!cut_off(own()), "never oneself");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("there is a sleep");
        let named = name(child.id(), look(child.id()).expect("it runs").start);
        assert!(cut_off(named + (1 << NUMBER_BITS)), "another one had this number");
        assert!(look(child.id()).is_some_and(|found| !found.is_gone), "and this one was spared");
        assert!(!is_gone(named) && !is_gone(own()));
        while !cut_off(named) {}
        assert!(!child.wait().expect("it is ours").success());
        assert!(cut_off(named) && is_gone(named), "it stays gone");
    }
}
