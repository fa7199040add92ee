//! TPC-C's tiny databases. Its commands have options of their own (`liger bench tpcc --kill-every`).

use super::Scale;
use super::benchmark::Tpcc;
use super::generate::Homes;
use super::input::{Mix, Remote};
use crate::declared::{DATABASE_SEED, Draw, Hostile, Tiny};

impl Hostile for Tpcc {
    const SALT: u64 = 0x5450_4343;

    fn tiny(draw: Draw<'_>) -> Tiny<Self> {
        let hosts = 2 + draw(2) as u8;
        let warehouses = i16::from(hosts) + draw(2) as i16;
        let remote = [Remote::Spec, Remote::Percent { new_order: 60, payment: 90 }][draw(2) as usize];
        let workers = 1 + draw(2) as u8;
        let scale = Scale { warehouses, items: 20, customers: 10 };
        let mix = [Mix::Spec, Mix::Artifact][draw(2) as usize];
        let benchmark = Tpcc { scale, seed: DATABASE_SEED, mix, remote, homes: Homes::AnyLocal };
        Tiny { hosts, workers, benchmark }
    }
}
