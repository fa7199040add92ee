//! Which mutant is on, in a tree that holds many behind switches (`.ci/mutants --sample`).
//!
//! `LIGER_MUTANT` is the number of the one that is on; without it there is none. Where
//! `LIGER_MUTANT_REACHED` names a file, the numbers of the switches that a process comes to are appended
//! there, one a line.
//!
//! Invariants:
//! 1. A process reads its environment once, at its first switch: no mutant goes on or off while it runs.
//! 2. A number is written before its switch answers for the first time, so that a process that is killed
//!    leaves what it had reached.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::{LazyLock, Mutex};

struct Switches {
    on: u32,
    reached: Option<Mutex<(File, BTreeSet<u32>)>>,
}

static SWITCHES: LazyLock<Switches> = LazyLock::new(|| {
    let on = std::env::var("LIGER_MUTANT").ok().map_or(0, |n| n.parse().expect("LIGER_MUTANT is a number"));
    let reached = std::env::var_os("LIGER_MUTANT_REACHED").map(|path| {
        let file = OpenOptions::new().append(true).create(true).open(path);
        Mutex::new((file.expect("the file of LIGER_MUTANT_REACHED can be written"), BTreeSet::new()))
    });
    Switches { on, reached }
});

/// Whether the mutant with this number, which is not 0, is on.
pub fn on(number: u32) -> bool {
    if let Some(reached) = &SWITCHES.reached {
        note(reached, number);
    }
    SWITCHES.on == number
}

#[cold]
fn note(reached: &Mutex<(File, BTreeSet<u32>)>, number: u32) {
    let mut reached = reached.lock().expect("whoever notes does not panic");
    if reached.1.insert(number) {
        reached.0.write_all(format!("{number}\n").as_bytes()).expect("the file can be written");
    }
}
