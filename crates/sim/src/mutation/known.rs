//! What is known of mutants: which need not be noticed, which scenario presses on which, and from which seed
//! on.

use liger_fabric::sim::Verb;

use crate::scenario::Scenario;

/// A mutant that nobody need notice.
pub struct Spared {
    /// Verb of the call site.
    pub verb: Verb,
    /// End of its file's name.
    pub file: &'static str,
    /// A text in its line or the one before.
    pub near: &'static str,
    /// Why leaving it out is not wrong in the simulator, and why it is there nevertheless.
    pub because: &'static str,
}

/// Instructions that the simulated memory cannot need, or whose loss is not an error.
pub const SPARED: &[Spared] = &[
    Spared {
        verb: Verb::Fence,
        file: "pod/src/epochs.rs",
        near: "older announcement only holds more",
        because: "orders a store and loads of the host's own memory, which the simulator never reorders; \
                  real processors do",
    },
    Spared {
        verb: Verb::Fence,
        file: "engine/src/log/epoch.rs",
        near: "Shown before the word is read.",
        because: "orders a store to the host's own memory and a load, which the simulator never reorders; \
                  real processors do (models/epochs_commit.py leaves it out)",
    },
    Spared {
        verb: Verb::Fence,
        file: "engine/src/row/moves.rs",
        near: "before its cell can live",
        because: "the index entry that is published between this fence and the cell's birth brings a fence \
                  of its own; a row must not depend on how its index is built",
    },
    Spared {
        verb: Verb::DiskSync,
        file: "engine/src/log/space.rs",
        near: "file.write_at(cx, 0, &bytes)",
        because: "the first frame's own sync covers a segment's head as well, and nobody relies on the head \
                  before; a name should not outlive what it names",
    },
    Spared {
        verb: Verb::Fence,
        file: "engine/src/row/asking.rs",
        near: "if to.worker != cx.worker() {",
        because: "orders a store to the host's own memory (the answer) and the load of a bell's sleepers, \
                  which the simulator never reorders; real processors do",
    },
    Spared {
        verb: Verb::Fence,
        file: "rivals/src/partitioned/mail.rs",
        near: "if to.worker != cx.worker() {",
        because: "orders a store to the host's own memory (the answer) and the load of a bell's sleepers, \
                  which the simulator never reorders; real processors do",
    },
    Spared {
        verb: Verb::Fence,
        file: "engine/src/row/commit.rs",
        near: "What a link leads to is there",
        because: "else a link may lead to what is not there yet, as its checksum tells: a reader is refused",
    },
    Spared {
        verb: Verb::Fence,
        file: "engine/src/row/copies.rs",
        near: "self.shared.write_back(cx, DataAddr::new(*at), copies.len())",
        because: "the lane's message that announces the copies brings a fence of its own",
    },
    Spared {
        verb: Verb::Fence,
        file: "pod/src/selftest.rs",
        near: "self.cx.store(self.lines.order",
        because: "makes the order seen at once instead of some time: only the waiting joiner's clock notices",
    },
    Spared {
        verb: Verb::Fence,
        file: "pod/src/selftest.rs",
        near: "cx.store(lines.reply",
        because: "makes the reply seen at once instead of some time: only the waiting joiner's clock \
                  notices",
    },
];

/// Steps (or places: how their names begin) that only few runs miss, and the scenario that presses on them
/// most: it gets most of the search.
pub const PRESSED: &[(&str, &str)] = &[
    ("fence at crates/engine/src/row/resolve.rs", "crash-points"),
    ("checkpoint.await-begin", "durable-copies"),
    ("foreign.recheck-index-last", "rows-gaps"),
    ("log.keep-fragments", "durable-fragments"),
    ("recovery.take-fragments", "durable-fragments"),
    ("resolve.read-fragments", "survival-long-commit"),
    ("leaving.note-unanswered-too", "survival-owner"),
    ("moves.only-rows-of-before", "survival-again"),
    ("partition.clear-below-before-check-above", "rows-scan-duel"),
    ("reading.read-again", "survival-policies"),
    ("row.forget-valid-bits", "survival-churn"),
    ("moments.tell-what-goes", "snapshots-moving"),
    ("fence at crates/engine/src/row/commit.rs", "snapshots-few"),
    ("write_back at crates/engine/src/row/commit.rs", "snapshots-few"),
    ("scrub.compare", "damaged-rows"),
    ("shm.above-last-row", "shm-reuse"),
    ("shm.all-dead-before-removal", "shm-absent"),
    ("shm.miss-what-was-read", "shm-open-gaps"),
    ("shm.recheck-absent", "shm-mixed"),
    ("shm.recheck-gap", "shm-absent"),
    ("shm.recheck-range", "shm-mixed"),
    ("space.leave-segments", "survival-full-heirs"),
    ("space.marks-beside-checkpoints", "survival-full-disks"),
    ("space.use-reserve", "log-room"),
    ("checkpoint.keep-begin-of-dead", "handover-checkpoints"),
    ("checkpoint.keep-needed-images", "survival-churn"),
    ("restore.put-only-if-missing", "survival-full-heirs"),
    ("takeover.keep-files-of-returned", "survival-full-heirs"),
    ("takeover.entangled-together", "survival-full-disks"),
    ("takeover.claim", "handover-last-will"),
    ("resolve.only-newer-records", "handover-last-will"),
    ("handover.no-checkpoint-under-way", "handover-checkpoints"),
    ("handover.drain", "handover-deaths"),
    ("handover.await-logs", "handover-churn"),
    ("handover.withdraw", "handover-churn"),
    ("takeover.rebuild-after-death", "survival-follow"),
];

/// True if a scenario presses on what has this name.
pub(super) fn presses(scenario: &Scenario, name: &str) -> bool {
    PRESSED.iter().any(|(begins, on)| name.starts_with(begins) && scenario.name == *on)
}

/// Of them those that less than one run in a thousand misses: the search begins near one that does, and goes
/// on from there where a change of the program has made that another run.
const BEGINS: &[(&str, u64)] = &[
    ("row.forget-valid-bits", 1500),
    ("moments.tell-what-goes", 140),
    ("fence at crates/engine/src/row/commit.rs", 200),
    ("takeover.entangled-together", 1300),
    ("takeover.rebuild-after-death", 150),
];

/// The seed at which the search for what has this name begins in a scenario that presses on it.
pub(super) fn first_seed(name: &str) -> u64 {
    BEGINS.iter().find(|(begins, _)| name.starts_with(begins)).map_or(0, |(_, seed)| *seed)
}

/// How much cheaper the runs of such a scenario count.
pub(super) const PRESSED_COST: u64 = 64;
