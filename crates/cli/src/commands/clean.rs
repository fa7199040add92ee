//! `liger clean`: memory of pods that have ended is given back.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::failure::Failure;
use crate::leftovers::{self, Left, note_of};
use crate::pod::PodDir;

/// What may go.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    liger clean                          remove what no process uses and no pod directory needs\n  \
    liger clean ./shop                   the same, of this pod only\n  \
    liger clean ./shop --discard-memory  also what this pod could be recovered from")]
pub struct Arguments {
    /// The pod's directory [default: whatever ended pods have left in the memory of this machine]
    dir: Option<PathBuf>,
    /// Also remove the memory that the pod could be recovered from, and with it what was acknowledged at
    /// durability "pod" and is in no log
    #[arg(long, requires = "dir")]
    discard_memory: bool,
}

/// Removes what is left.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let all = match &arguments.dir {
        Some(dir) => leftovers::of_pod(&PodDir::open(dir)?).into_iter().collect(),
        None => leftovers::find(),
    };
    if all.is_empty() {
        println!("nothing is left of pods that have ended");
    }
    for left in &all {
        if left.needed && !arguments.discard_memory {
            let dir = left.of.as_ref().expect("somebody needs it").display();
            println!(
                "kept {}: `liger recover {dir}` goes on from it, `liger clean {dir} --discard-memory` \
                 removes it",
                left.what()
            );
        } else {
            remove(left)?;
            println!("removed {}", left.what());
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn remove(left: &Left) -> Result<(), Failure> {
    let failed =
        |e| Failure::Refused(format!("{}: it cannot be removed: {e}: run as its owner", left.path.display()));
    std::fs::remove_file(&left.path).map_err(failed)?;
    // Memory that was named by the user, or made by an earlier program, has none.
    let _ = std::fs::remove_file(note_of(&left.path));
    Ok(())
}
