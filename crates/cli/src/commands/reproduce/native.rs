//! `liger reproduce native`: Tigon's comparison in small, on this machine and in real time, beside what its
//! artifact did in the same set-up on another machine, and beside the simulator's prediction.
//!
//! * [`plan`]: figures and points; [`measure`]: runs, and keeps them; [`report`]: tables, pictures, files.
//!
//! Invariants:
//! 1. Engines take turns within a round, and rounds begin with another one each time: what disturbs the
//!    machine for a while disturbs all of them.
//! 2. Nothing is compared across machines but ratios, and what is said about a ranking is said of medians
//!    whose ranges do not overlap.

mod measure;
mod plan;
mod report;

use std::process::ExitCode;

use super::Arguments;
use crate::failure::Failure;
use crate::terminal::note_interrupts;
use measure::{Measuring, Size};
use plan::Figure;

/// Runs everything that is not kept yet, and reports.
pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let figures = super::chosen(arguments, "native", plan::figures(), |figure: &Figure| figure.id)?;
    let mut size = match arguments.quick {
        true => Size {
            scale_divisor: 50,
            keys: 5_000,
            seconds: 0.3,
            warm_up_s: 0.1,
            rounds: 3,
            attempts: 1,
            virtual_ms: 3,
        },
        false => Size {
            scale_divisor: 1,
            keys: 300_000,
            seconds: 3.0,
            warm_up_s: 1.0,
            rounds: 5,
            attempts: 3,
            virtual_ms: 20,
        },
    };
    size.rounds = arguments.rounds.unwrap_or(size.rounds);
    let profile = super::profile(arguments, "dram")?;
    note_interrupts()?;
    let measuring = Measuring::new(&arguments.out, profile, arguments.seed, size)?;
    let measured = measuring.all(&figures)?;
    let object = report::json(&measuring, &figures, &measured);
    let page = report::html(&measuring, &figures, &measured);
    let files = [("native.html", page), ("native.json", format!("{object:#}\n"))];
    for (file, text) in files {
        super::write(&arguments.out.join(file), &text)?;
    }
    if arguments.json {
        println!("{object}");
    } else {
        print!("{}", report::summary(&measuring, &figures, &measured));
        println!("report: {}", arguments.out.join("native.html").display());
    }
    let right = measured.runs.iter().all(|run| run.problems.is_empty());
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
