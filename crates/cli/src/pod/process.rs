//! A process by its number and its start time, so that a number that was given to somebody else is noticed.

use std::fmt;
use std::path::Path;
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};

use crate::failure::Failure;

/// A process of this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process {
    number: u32,
    /// In clock ticks since the machine was started.
    start: u64,
}

/// What a process does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    /// It runs, or waits for something.
    Running,
    /// It was stopped by a signal.
    Stopped,
    /// There is none, or another one has its number.
    Gone,
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Gone => "gone",
        })
    }
}

impl Process {
    /// The process that asks.
    pub fn own() -> Self {
        Self::of(std::process::id()).expect("it runs").0
    }

    /// A process that was started here; none if it was waited for already.
    pub fn of_child(child: &Child) -> Option<Self> {
        Some(Self::of(child.id())?.0)
    }

    /// The process of this number, and its state.
    fn of(number: u32) -> Option<(Self, char)> {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?.chars().next()?;
        // Field 22 of the file; the state is field 3.
        let start = fields.nth(18)?.parse().ok()?;
        Some((Self { number, start }, state))
    }

    /// Names it in a file.
    pub fn write(self, path: &Path) -> Result<(), Failure> {
        std::fs::write(path, format!("{} {}\n", self.number, self.start))
            .map_err(|e| Failure::Broken(format!("{}: {e}", path.display())))
    }

    /// The process that a file names.
    pub fn read(path: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(path).ok()?;
        let (number, start) = text.trim().split_once(' ')?;
        Some(Self { number: number.parse().ok()?, start: start.parse().ok()? })
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.number
    }

    /// What it does.
    pub fn doing(self) -> Doing {
        match Self::of(self.number) {
            Some((found, state)) if found == self && state != 'Z' => match state {
                'T' | 't' => Doing::Stopped,
                _ => Doing::Running,
            },
            _ => Doing::Gone,
        }
    }

    /// Sends it a signal; false if it is gone.
    pub fn signal(self, signal: Signal) -> bool {
        let pid = i32::try_from(self.number).ok().and_then(Pid::from_raw);
        self.doing() != Doing::Gone && pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_not_enough() {
        let own = Process::own();
        assert_eq!(own.doing(), Doing::Running);
        let earlier = Process { start: own.start - 1, ..own };
        assert_eq!(earlier.doing(), Doing::Gone);
        assert!(!earlier.signal(Signal::KILL));
        let path = std::env::temp_dir().join(format!("liger-process-{}", own.number));
        own.write(&path).expect("a temporary file");
        assert_eq!(Process::read(&path), Some(own));
        std::fs::remove_file(&path).expect("still there");
    }
}
