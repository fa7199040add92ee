//! SmallBank's options, and its tiny databases.

use clap::Args;

use super::SmallBank;
use crate::declared::{Asked, Draw, Hostile, Offered, Tiny, small_pod};

/// SmallBank's options.
#[derive(Args, PartialEq)]
pub struct Options {
    /// Customers of each host's partition
    #[arg(long, default_value_t = 100_000)]
    customers: u32,
    /// Hot customers among them
    #[arg(long, default_value_t = 100)]
    hot: u32,
    /// Percentage of customers drawn that are hot
    #[arg(long, default_value_t = 90)]
    hot_percent: u32,
}

impl Hostile for SmallBank {
    const SALT: u64 = 0x534d_4c42;

    fn tiny(draw: Draw<'_>) -> Tiny<Self> {
        let (hosts, workers) = small_pod(draw);
        let benchmark = SmallBank {
            partitions: hosts.into(),
            customers: 4 + draw(8) as u32,
            hot: 2,
            hot_percent: 50,
            cross_percent: [50, 100][draw(2) as usize],
        };
        Tiny { hosts, workers, benchmark }
    }
}

impl Offered for SmallBank {
    type Options = Options;

    const TITLE: &'static str = "SmallBank";
    const CHECKED: &'static str = "a check of all the money";

    fn asked(options: &Options, asked: Asked) -> Result<Self, String> {
        let Options { customers, hot, hot_percent } = *options;
        let Asked { hosts, cross_percent, .. } = asked;
        let bank = SmallBank { partitions: hosts.into(), customers, hot, hot_percent, cross_percent };
        bank.validate().map(|()| bank).map_err(|error| error.to_string())
    }
}
