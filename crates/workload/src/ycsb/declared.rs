//! YCSB's options, and its tiny databases.

use clap::Args;

use super::{Mode, PIECES, Placement, Ycsb};
use crate::declared::{Asked, Draw, Hostile, Offered, Tiny, small_pod};

/// YCSB's options.
#[derive(Args, PartialEq)]
pub struct Options {
    /// Rows of each host's partition
    #[arg(long, default_value_t = 300_000)]
    keys: u32,
    /// What the transactions do
    #[arg(long, value_enum, default_value_t = Mode::Rmw)]
    mode: Mode,
    /// Percentage of operations that only read; the others read and change the row
    #[arg(long, default_value_t = 95)]
    reads: u32,
    /// Exponent of Zipf's law; 0 is uniform
    #[arg(long, default_value_t = 0.7)]
    theta: f64,
    /// Bytes of a row's 1000 that a change writes
    #[arg(long, default_value_t = 1000)]
    change_bytes: u16,
    /// Partitions that the rows of each host are dealt out to
    #[arg(long, default_value_t = PIECES)]
    partitions: u16,
    /// Which rows are touched
    #[arg(long, value_enum, default_value_t = Placement::Paper)]
    placement: Placement,
    /// Check every row that is read, whether all of it is of one version
    #[arg(long)]
    check_reads: bool,
}

impl Hostile for Ycsb {
    const SALT: u64 = 0x5943_5342;

    /// Few rows that everybody wants, every row that is read checked.
    fn tiny(draw: Draw<'_>) -> Tiny<Self> {
        let (hosts, workers) = small_pod(draw);
        let (reads, cross) = ([20, 50, 80][draw(3) as usize], [50, 100][draw(2) as usize]);
        let benchmark = Ycsb {
            keys: 16 + draw(25) as u32,
            mode: [Mode::Rmw, Mode::Rmw, Mode::InsertDelete, Mode::Mixed][draw(4) as usize],
            theta: [0.0, 0.7, 0.99][draw(3) as usize],
            change_bytes: [1000, 250][draw(2) as usize],
            placement: [Placement::Paper, Placement::Clean][draw(2) as usize],
            check_reads: true,
            pieces: 1 + draw(2) as u16,
            ..Ycsb::tigon(hosts.into(), reads, cross)
        };
        Tiny { hosts, workers, benchmark }
    }
}

impl Offered for Ycsb {
    type Options = Options;

    const TITLE: &'static str = "YCSB as Tigon ran it";
    const CHECKED: &'static str = "a check of every row";

    fn asked(options: &Options, asked: Asked) -> Result<Self, String> {
        let Options { keys, mode, reads, theta, change_bytes, partitions, placement, check_reads } = *options;
        let tigon = Ycsb::tigon(asked.hosts.into(), reads, asked.cross_percent);
        let ycsb =
            Ycsb { keys, pieces: partitions, mode, theta, change_bytes, placement, check_reads, ..tigon };
        ycsb.validate().map(|()| ycsb).map_err(|error| error.to_string())
    }
}
