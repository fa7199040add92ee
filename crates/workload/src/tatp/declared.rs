//! TATP's options, and its tiny databases.

use clap::Args;

use super::Tatp;
use crate::declared::{Asked, DATABASE_SEED, Draw, Hostile, Offered, Tiny, small_pod};

/// TATP's options.
#[derive(Args, PartialEq)]
pub struct Options {
    /// Subscribers of each host's partition
    #[arg(long, default_value_t = 100_000)]
    subscribers: u32,
}

impl Hostile for Tatp {
    const SALT: u64 = 0x5441_5450;

    fn tiny(draw: Draw<'_>) -> Tiny<Self> {
        let (hosts, workers) = small_pod(draw);
        let (subscribers, cross_percent) = (2 + draw(6) as u32, [50, 100][draw(2) as usize]);
        let benchmark = Tatp { partitions: hosts.into(), subscribers, cross_percent, seed: DATABASE_SEED };
        Tiny { hosts, workers, benchmark }
    }
}

impl Offered for Tatp {
    type Options = Options;

    const TITLE: &'static str = "TATP";
    const CHECKED: &'static str = "a check of every row";

    fn asked(options: &Options, asked: Asked) -> Result<Self, String> {
        let Asked { hosts, cross_percent, seed } = asked;
        let tatp = Tatp { partitions: hosts.into(), subscribers: options.subscribers, cross_percent, seed };
        tatp.validate().map(|()| tatp).map_err(|error| error.to_string())
    }
}
