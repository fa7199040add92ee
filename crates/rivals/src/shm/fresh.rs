//! Of which rows this host's caches hold current lines, by the `wts` that they had when that became so.
//!
//! Invariants:
//! 1. An entry is made after the row's lines were invalidated, fenced and read, or written, under a word
//!    with this `wts` that did not change meanwhile. While the word has it (word.rs, invariant 1), nobody
//!    has changed the row.
//! 2. Entries are this host's DRAM: another host learns nothing from them, and a new incarnation begins with
//!    none.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use liger_fabric::{Cx, Fabric, SyncAddr, Work};
use liger_pod::plan::{Part, Plan, WORD_CHUNK_BYTES};

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &["shm.compare-copy"];

const CHUNK: usize = WORD_CHUNK_BYTES as usize / 8;

/// One host's entries, a word for each sync word that a row may have.
pub(super) struct Fresh {
    start: u64,
    /// By chunk of words; an entry is the `wts` plus one, 0: there is none.
    chunks: Vec<OnceLock<Box<[AtomicU64; CHUNK]>>>,
}

impl Fresh {
    /// No entry.
    pub(super) fn new(plan: &Plan) -> Self {
        let words = plan.region(Part::WordHeap);
        let chunks = words.bytes.div_ceil(WORD_CHUNK_BYTES);
        Self { start: words.start, chunks: (0..chunks).map(|_| OnceLock::new()).collect() }
    }

    fn entry(&self, word: SyncAddr) -> &AtomicU64 {
        let at = ((word.offset() - self.start) / 8) as usize;
        let empty = || Box::new([const { AtomicU64::new(0) }; CHUNK]);
        &self.chunks[at / CHUNK].get_or_init(empty)[at % CHUNK]
    }

    /// True if this host's lines of the row at `word` are those of this `wts`.
    pub(super) fn has<F: Fabric>(&self, cx: &Cx<F>, word: SyncAddr, wts: u64) -> bool {
        cx.spend(Work::DramLine, 1);
        let entry = self.entry(word).load(Ordering::Acquire);
        entry == wts + 1 || (entry != 0 && cx.sabotaged("shm.compare-copy"))
    }

    /// Says so.
    pub(super) fn set(&self, word: SyncAddr, wts: u64) {
        self.entry(word).store(wts + 1, Ordering::Release);
    }
}
