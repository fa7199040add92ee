//! Logs of simulated hosts: one worker of each host ships beside those that run transactions.

use liger_engine::log::HostLog;
use liger_engine::log::ship::{LogOptions, WATCH_NS};
use liger_fabric::disk::Disk;
use liger_fabric::sim::Sim;
use liger_fabric::{Cx, UNTIL_RUNG};
use liger_pod::plan::Plan;

/// Bytes appended to logs, as reports call them.
pub(crate) const BYTES: &str = "log bytes";

/// The log of this host on its own disk.
///
/// # Panics
/// If the disk is not a new one.
pub(crate) fn of_host(cx: &Cx<Sim>, plan: &Plan, life: u16, options: LogOptions) -> HostLog {
    let disk = Disk::simulated(cx, cx.host()).expect("nobody holds it");
    HostLog::new(cx, plan, life, &disk, options).expect("a good disk")
}

/// Takes turns of shipping until it is over; `ship` says for how long the next one will find nothing to do.
/// Nobody sleeps at a bell in virtual time, so one that would sleep until it is rung looks now and then.
pub(crate) fn keep_shipping(cx: &Cx<Sim>, ship: impl Fn(&Cx<Sim>) -> u64, is_over: impl Fn() -> bool) {
    while !is_over() {
        let until_ns = match ship(cx) {
            UNTIL_RUNG => cx.now_ns() + WATCH_NS,
            rest_ns => cx.now_ns() + rest_ns,
        };
        cx.pause();
        while cx.now_ns() < until_ns && !is_over() {
            cx.pause();
        }
    }
}
