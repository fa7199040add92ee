//! `liger grow`: a pod uses more of the data memory that it has room for, while its hosts work.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::supervise::{Asked, Told, ask};
use crate::failure::Failure;
use crate::pod::PodDir;
use crate::sizes;

/// What a pod gets.
#[derive(Args)]
pub struct Arguments {
    /// The pod's directory
    dir: PathBuf,
    /// Data memory that the pod uses from now on, like 2G; at most what `liger up --max-memory` named
    #[arg(long, value_parser = sizes::parse)]
    memory: u64,
    /// A JSON object instead of a line for people
    #[arg(long)]
    json: bool,
}

/// Lets a pod use more memory.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let dir = PodDir::open(&arguments.dir)?;
    match ask(&dir, Asked::Grow(arguments.memory))? {
        Told::Grown(bytes, of_bytes) if arguments.json => {
            println!("{}", json!({ "memory_bytes": bytes, "max_memory_bytes": of_bytes }));
        }
        Told::Grown(bytes, of_bytes) => {
            println!(
                "the pod uses {} of data memory, and has room for {}",
                sizes::show(bytes),
                sizes::show(of_bytes)
            );
        }
        other => {
            return Err(Failure::Broken(format!("the supervisor answered what it was not asked: {other:?}")));
        }
    }
    Ok(ExitCode::SUCCESS)
}
