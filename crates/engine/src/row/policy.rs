//! Decisions that can be taken in more than one way, as values with names: how cached copies are kept
//! coherent, which shared row leaves first and when, whether to wait for a lock, what protects gaps, and what
//! an owner remembers of its shared rows.
//!
//! Invariants:
//! 1. The default is what a pod should run; every other value is there to be compared with it.
//! 2. Values are copied, and looked at where they matter: the default costs a branch there.
//!
//! What each policy does, and what happens if a host dies: docs/protocols/policies.md.

mod coherence;
mod move_out;
mod steps;

use std::fmt;
use std::str::FromStr;

pub use crate::instance::wait_policy::{InTheWay, LockWait, NoWait, Patient, WaitDie, WaitPolicy};
pub use crate::names::UnknownName;
pub use coherence::Coherence;
pub use move_out::{Marks, MoveOut, MoveOutWhen, PreMigration};
pub use steps::Steps;

pub(super) use move_out::{Leavers, SharedRow};

use crate::names::find;

/// What a host's engine decides by, but for the wait policy, which every session can choose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policies {
    /// How hosts keep their cached copies of shared rows coherent.
    pub coherence: Coherence,
    /// Which shared row of a host leaves first when memory is short.
    pub move_out: MoveOut,
    /// When rows leave.
    pub move_out_when: MoveOutWhen,
    /// Between which marks, where rows leave in the background.
    pub marks: Marks,
    /// Whether transactions protect the gaps between rows. Without, absent keys and ranges are not
    /// serializable. All hosts of a pod decide alike.
    pub next_key_locking: bool,
    /// Whether an owner finds the tuple cell of a shared row by what it keeps with the row; if not, it
    /// searches the shared index.
    pub shortcuts: bool,
    /// Whether an owner reads its DRAM copy of a shared row that nobody else has changed; if not, it copies
    /// the row back whenever it begins to hold it.
    pub dirty_tracking: bool,
    /// In how many steps a shared row is used.
    pub steps: Steps,
    /// Whether blocks of shared rows have checksums. All hosts of a pod decide alike.
    pub row_checksums: bool,
}

impl Default for Policies {
    fn default() -> Self {
        Self {
            coherence: Coherence::default(),
            move_out: MoveOut::default(),
            move_out_when: MoveOutWhen::default(),
            marks: Marks::default(),
            next_key_locking: true,
            shortcuts: true,
            dirty_tracking: true,
            steps: Steps::default(),
            row_checksums: true,
        }
    }
}

const SWITCH: &[(&str, bool)] = &[("on", true), ("off", false)];

impl Policies {
    /// The names of the decisions, as [`Policies::set`] knows them.
    pub const NAMES: &[&str] = &[
        "coherence",
        "move-out",
        "move-out-when",
        "next-key-locking",
        "shortcuts",
        "dirty-tracking",
        "steps",
        "row-checksums",
    ];

    /// Takes one decision by name.
    ///
    /// # Errors
    /// If there is no such decision, or no such value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), UnknownName> {
        match name {
            "coherence" => self.coherence = value.parse()?,
            "move-out" => self.move_out = value.parse()?,
            "move-out-when" => self.move_out_when = value.parse()?,
            "next-key-locking" => self.next_key_locking = find("switch", SWITCH, value)?,
            "shortcuts" => self.shortcuts = find("switch", SWITCH, value)?,
            "dirty-tracking" => self.dirty_tracking = find("switch", SWITCH, value)?,
            "steps" => self.steps = value.parse()?,
            "row-checksums" => self.row_checksums = find("switch", SWITCH, value)?,
            _ => {
                let (kind, name, known) = ("policy", name.to_owned(), Self::NAMES.join(", "));
                return Err(UnknownName { kind, name, known });
            }
        }
        Ok(())
    }
}

impl fmt::Display for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let switch = |on: bool| if on { "on" } else { "off" };
        let Self { coherence, move_out, move_out_when, .. } = self;
        write!(f, "coherence={coherence},move-out={move_out},move-out-when={move_out_when},")?;
        let (gaps, shortcuts) = (switch(self.next_key_locking), switch(self.shortcuts));
        let (tracking, steps) = (switch(self.dirty_tracking), self.steps);
        write!(f, "next-key-locking={gaps},shortcuts={shortcuts},dirty-tracking={tracking},steps={steps},")?;
        write!(f, "row-checksums={}", switch(self.row_checksums))
    }
}

impl FromStr for Policies {
    type Err = UnknownName;

    /// Reads `name=value`, several with commas between; what is not named is as by default.
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let mut policies = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            policies.set(name.trim(), value.trim())?;
        }
        Ok(policies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_read_as_they_are_printed() {
        let default = Policies::default();
        assert_eq!(
            default.to_string(),
            "coherence=write-through,move-out=clock,move-out-when=on-demand,\
             next-key-locking=on,shortcuts=on,dirty-tracking=on,steps=merged,row-checksums=on"
        );
        assert_eq!(default.to_string().parse(), Ok(default));
        let other =
            "coherence=always-bypass, move-out=lru,dirty-tracking=off,row-checksums=off,steps=artifact";
        let other: Policies = other.parse().expect("known names");
        assert_eq!((other.coherence, other.move_out), (Coherence::AlwaysBypass, MoveOut::Lru));
        assert!(!other.dirty_tracking && !other.row_checksums && other.next_key_locking);
        assert_eq!(other.to_string().parse(), Ok(other));
        assert_eq!("".parse(), Ok(default));
        for wrong in ["shortcuts", "shortcuts=maybe", "move-out=random", "lock=on"] {
            assert!(wrong.parse::<Policies>().is_err(), "{wrong}");
        }
    }
}
