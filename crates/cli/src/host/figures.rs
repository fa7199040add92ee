//! What a host reports of its log, its checkpoints, its moves and the shared memory.

use std::sync::atomic::Ordering;

use liger_engine::recovery::checkpointer::{CheckpointCounts, Checkpointer, Taken};
use liger_engine::row::{Moves, RowHost, RowSession};
use liger_fabric::Fabric;
use liger_workload::EngineFigures;
use liger_workload::storage::{CheckpointFigures, StorageFigures};

/// What was written and removed since the counts were `before`.
pub(super) fn storage_figures(
    all: &Checkpointer,
    before: &CheckpointCounts,
    log_bytes: u64,
) -> StorageFigures {
    let counts = all.counts();
    let since = all.recent().filter(|taken| taken.begin_epoch > before.last_begin_epoch);
    let taken =
        since.map(|Taken { bytes, took_ns, .. }| CheckpointFigures { bytes, seconds: took_ns as f64 / 1e9 });
    StorageFigures {
        replay_limit_bytes: all.options().replay_bytes,
        checkpoints: counts.checkpoints - before.checkpoints,
        checkpoints_given_up: counts.given_up - before.given_up,
        log_bytes,
        log_bytes_most: counts.log_bytes_most,
        log_bytes_removed: counts.bytes_removed - before.bytes_removed,
        log_segments_removed: counts.segments_removed - before.segments_removed,
        taken: taken.collect(),
        failures: all.failure().into_iter().map(ToString::to_string).collect(),
        ..StorageFigures::default()
    }
}

pub(super) fn counted(moves: &Moves) -> [u64; 4] {
    [&moves.moved_in, &moves.moved_out, &moves.messages, &moves.messages_dropped]
        .map(|counter| counter.load(Ordering::Relaxed))
}

/// What the whole pod's heap holds.
pub(super) fn add_usage<F: Fabric>(figures: &mut EngineFigures, host: &RowHost, session: &RowSession<'_, F>) {
    let usage = host.usage(session.cx());
    let sync = [
        ("tuple words", usage.tuple_bytes),
        ("index words", usage.mapping_bytes),
        ("claimed chunks", usage.word_chunk_bytes),
    ];
    let data = [
        ("rows", usage.row_bytes),
        ("index nodes", usage.node_bytes),
        ("index records", usage.scratch_bytes),
        ("claimed chunks", usage.block_chunk_bytes),
    ];
    figures.hwcc_bytes = sync.map(|(name, bytes)| (name.to_owned(), bytes)).into();
    figures.cxl_bytes = data.map(|(name, bytes)| (name.to_owned(), bytes)).into();
    figures.hwcc_tuple_bytes = usage.tuple_bytes + usage.mapping_bytes;
}
