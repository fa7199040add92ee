//! What a host reports of its log, its checkpoints, its moves and the shared memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use liger_engine::protocol::HostEngine;
use liger_engine::recovery::checkpointer::{CheckpointCounts, Checkpointer, Taken};
use liger_engine::row::RowHost;
use liger_fabric::{Cx, Fabric};
use liger_pod::heap::Usage;
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

/// What an engine says about itself in reports.
pub(super) trait Counted: HostEngine {
    /// Counts so far of what the host's workers did together.
    fn counted(&self) -> EngineFigures;

    /// What the host holds in shared memory; of one host, with `whole`, what the whole pod does.
    fn held<F: Fabric>(&self, cx: &Cx<F>, whole: bool) -> EngineFigures;
}

/// What a counter says now.
pub(super) fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Counts by name.
pub(super) fn named<const N: usize>(counts: [(&str, u64); N]) -> BTreeMap<String, u64> {
    counts.map(|(name, n)| (name.to_owned(), n)).into()
}

impl Counted for RowHost {
    fn counted(&self) -> EngineFigures {
        let moves = self.rows().moves();
        EngineFigures {
            moves_in: read(&moves.moved_in),
            moves_out: read(&moves.moved_out),
            more: named([
                ("messages", read(&self.mail().sent)),
                ("messages_dropped", read(&self.mail().dropped)),
            ]),
            ..EngineFigures::default()
        }
    }

    fn held<F: Fabric>(&self, cx: &Cx<F>, whole: bool) -> EngineFigures {
        let shared_tuples = read(&self.rows().moves().shared_rows);
        let of_host = EngineFigures { shared_tuples, ..EngineFigures::default() };
        if !whole {
            return of_host;
        }
        EngineFigures { shared_tuples, ..of_usage(&self.usage(cx)) }
    }
}

/// Shared memory in use.
pub(super) fn of_usage(usage: &Usage) -> EngineFigures {
    EngineFigures {
        hwcc_bytes: named([
            ("tuple cells", usage.tuple_bytes),
            ("index words", usage.mapping_bytes),
            ("claimed chunks", usage.word_chunk_bytes),
        ]),
        cxl_bytes: named([
            ("rows", usage.row_bytes),
            ("index nodes", usage.node_bytes),
            ("index records", usage.scratch_bytes),
            ("claimed chunks", usage.block_chunk_bytes),
        ]),
        hwcc_tuple_bytes: usage.tuple_bytes + usage.mapping_bytes,
        ..EngineFigures::default()
    }
}
