//! What a host does about its own recovery while it works: how long its log may become, and how much time it
//! takes for rows that are still to be made. Arguments of every command that makes a pod.

use std::path::PathBuf;

use clap::Args;
use liger_engine::recovery::checkpointer::RESTORE_PERCENT;

use crate::failure::Failure;
use crate::job::Data;
use crate::sizes;

/// A log cannot be kept shorter than this: a host writes so much while a checkpoint is taken.
const MIN_REPLAY_LIMIT: u64 = 256 << 10;

/// The arguments.
#[derive(Args, Clone)]
pub struct Upkeep {
    /// Bytes of log, like 64M, that a recovery may have to read for each host: checkpoints are taken as often
    /// as that needs
    #[arg(long, value_parser = sizes::parse, default_value = "256M")]
    replay_limit: u64,
    /// Percent of a thread's time, 1 to 100, in which a host makes rows that nobody waits for yet, when it
    /// has started again or has got partitions of another host
    #[arg(long, default_value_t = RESTORE_PERCENT, value_parser = clap::value_parser!(u8).range(1..=100))]
    restore_percent: u8,
}

impl Upkeep {
    /// Refuses what cannot be.
    pub fn check(&self) -> Result<(), Failure> {
        if self.replay_limit >= MIN_REPLAY_LIMIT {
            return Ok(());
        }
        let (limit, least) = (sizes::show(self.replay_limit), sizes::show(MIN_REPLAY_LIMIT));
        Err(Failure::Refused(format!("--replay-limit is {limit}, at least {least} are needed: raise it")))
    }

    /// Data in a directory.
    pub fn data(&self, path: PathBuf, recover: bool) -> Data {
        let Self { replay_limit, restore_percent } = *self;
        Data { path, recover, generation: 1, replay_limit, restore_percent }
    }
}
