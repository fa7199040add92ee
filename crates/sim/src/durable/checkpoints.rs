//! Who takes the checkpoints of one host in a life that loses power: some when told, the others when the logs
//! have grown, with a bound so small that segments go all the time.

use liger_engine::host::Host;
use liger_engine::method::Method;
use liger_engine::recovery::RecoveryError;
use liger_engine::recovery::checkpoint::Pace;
use liger_engine::recovery::checkpointer::{CheckpointOptions, Checkpointer};
use liger_engine::recovery::directory::{Directory, read_whole};
use liger_engine::recovery::manifest::{HOST_MANIFEST, HostManifest};
use liger_fabric::Cx;
use liger_fabric::sim::Sim;

use super::Life;

/// Takes `most` checkpoints, then those that the bound needs, until nobody else runs.
pub(super) fn take_checkpoints<M: Method>(
    cx: &Cx<Sim>,
    host: &Host<M>,
    directory: Directory,
    replay_bytes: u64,
    most: u64,
    life: &Life,
) {
    let begun = checkpointer(cx, host, directory, replay_bytes);
    assert!(begun.is_ok() || life.faulty.get(), "{:?}", begun.err());
    let Ok(mut checkpointer) = begun else {
        return life.running.set(life.running.get() - 1);
    };
    for _ in 0..most {
        (0..cx.random_below(200)).for_each(|_| turn(cx, &mut checkpointer, host, life));
        let taken = checkpointer.take(cx, host);
        let is_full = taken.as_ref().is_err_and(RecoveryError::is_full) && life.full.get();
        assert!(taken.is_ok() || is_full || life.faulty.get(), "a checkpoint failed: {taken:?}");
        life.checkpoints.set(life.checkpoints.get() + u64::from(taken.is_ok()));
    }
    checkpointer.whole();
    life.running.set(life.running.get() - 1);
    while life.running.get() > 0 {
        turn(cx, &mut checkpointer, host, life);
        host.attend(cx);
    }
}

/// A checkpointer in a hurry.
fn checkpointer<M: Method>(
    cx: &Cx<Sim>,
    host: &Host<M>,
    directory: Directory,
    replay_bytes: u64,
) -> Result<Checkpointer, RecoveryError> {
    let manifest = HostManifest::decode(host.id(), &read_whole(cx, &directory, HOST_MANIFEST)?)?;
    let rows_per_hold = 1 + cx.random_below(4) as usize;
    let block_bytes = 1 << cx.random_below(10);
    let pace = Pace { rows_per_hold, write_bytes: 256, sync_bytes: 300, block_bytes, ..Pace::default() };
    let busy_percent = 10 + 30 * cx.random_below(4);
    let restore_percent = 1 + 33 * cx.random_below(4);
    let options = CheckpointOptions { replay_bytes, pace, busy_percent, restore_percent, look_ns: 500 };
    let log = host.log().expect("the pod keeps a log");
    Ok(Checkpointer::new(cx, log, directory, manifest, options))
}

/// One turn of a checkpointer, and what it did.
fn turn<M: Method>(cx: &Cx<Sim>, checkpointer: &mut Checkpointer, host: &Host<M>, life: &Life) {
    let before = checkpointer.counts();
    checkpointer.turn(cx, host);
    let after = checkpointer.counts();
    assert!(checkpointer.failure().is_none() || life.faulty.get(), "{:?}", checkpointer.failure());
    life.checkpoints.set(life.checkpoints.get() + after.checkpoints - before.checkpoints);
    life.removed.set(life.removed.get() + after.segments_removed - before.segments_removed);
    cx.pause();
}
