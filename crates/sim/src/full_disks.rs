//! Disks that are full now and then: what a log keeps on them, and who leaves them room, or takes it.

use liger_engine::log::room::RoomOptions;
use liger_fabric::disk::SimDisks;
use liger_fabric::sim::Sim;
use liger_fabric::{Cx, HostId};

/// How logs take space: little at a time, so that a disk is full in the middle of everything.
pub const ROOM: RoomOptions = RoomOptions {
    chunk_bytes: 600,
    marks_bytes: 960,
    cleaning_bytes: 800,
    reserve_most_bytes: 8000,
    reserve_least_bytes: 300,
    retry_ns: 2000,
};

/// Leaves a disk some room now and then, or takes it.
pub fn operate(cx: &Cx<Sim>, disks: &SimDisks, device: HostId) {
    match cx.random_below(120) {
        0 => disks.heal(device),
        1 | 2 => disks.leave_room(device, cx.random_below(3000)),
        _ => {}
    }
}
