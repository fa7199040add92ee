//! Copying a partition's rows while transactions run: the row engine's part of a checkpoint.
//!
//! A copied row is some committed version of it. Which one is open, but every transaction whose worker had
//! shown no epoch any more when the copying began is in it, and every later one has a record: so the log
//! behind that moment makes the row current (docs/protocols/log.md, Checkpoints).
//!
//! Invariants:
//! 1. A few rows are copied in one hold of the share's latch; the caller goes on behind them.
//! 2. The DRAM copy of a row is taken as it is, also under a writer of this host: changes come to it under
//!    the latch, row by row, when they commit.
//! 3. A shared row that is `modified` is locked for reading first, which copies it back. One that another
//!    host has write-locked is waited for: it may be a row that is made or removed for that host, and its
//!    removal has committed before the message about it arrives here.
//! 4. An insert of this host that has not committed is left out.
//! 5. Whoever copies is no worker: it holds no lock beyond a hold of the latch, and serves nobody here.

use std::ops::ControlFlow;

use liger_fabric::{Cx, Fabric};
use liger_pod::plan::PartitionId;

use super::partition::{RowId, TablePart};
use super::rows::Rows;
use crate::recovery::CopiedUpTo;
use crate::tables::key::Key;
use crate::txn::TableId;

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &["copy.wait-for-foreign-writer", "copy.freshen-modified"];

/// Rows that are loading while one is copied: most of a partition is in nobody's cache, and who copies does
/// little else than wait for memory.
const LOADING_ROWS: usize = 8;
/// Cache lines of each; the processor finds out about further ones by itself.
const LOADING_LINES: usize = 3;

impl Rows {
    /// Shows up to `most` rows of a table's share of a partition of this host, from the key `from` on, with
    /// their versions.
    pub(super) fn copy_part<F: Fabric>(
        &self,
        cx: &Cx<F>,
        (partition, table): (PartitionId, TableId),
        from: &Key,
        most: usize,
        mut copy: impl FnMut(&Key, u64, &[u8]),
    ) -> CopiedUpTo {
        debug_assert!(most > 0, "each hold of the latch gets on");
        let mut latched = self.part(cx, (partition, table));
        let part = &mut *latched;
        let mut at = part.tree.lower_bound(from.words());
        debug_assert!(
            part.is_restored() || cx.sabotaged("checkpoint.await-rows"),
            "all rows are in an image"
        );
        let mut ahead = at;
        let mut load_next = |part: &TablePart| {
            if let Some(cursor) = ahead {
                part.rows.prefetch(part.tree.entry(cursor).1, LOADING_LINES);
                ahead = part.tree.next(cursor);
            }
        };
        (0..LOADING_ROWS).for_each(|_| load_next(part));
        let mut left = most;
        while let Some(cursor) = at {
            load_next(part);
            let (words, row) = part.tree.entry(cursor);
            let key = Key::from_words(words);
            debug_assert!(key >= *from, "behind what has been copied");
            if left == 0 {
                return CopiedUpTo::Before(key);
            }
            if !part.is_uncommitted_insert(row) {
                if self.make_current(cx, part, row).is_break() {
                    return CopiedUpTo::Locked(key);
                }
                copy(&key, part.rows.version(row), part.rows.bytes(row));
            }
            left -= 1;
            at = part.tree.next(cursor);
        }
        CopiedUpTo::End
    }

    /// Brings the DRAM copy of a row up to what had committed before this call; `Break`: not now.
    fn make_current<F: Fabric>(&self, cx: &Cx<F>, part: &mut TablePart, row: RowId) -> ControlFlow<()> {
        let Some(at) = part.address(row) else { return ControlFlow::Continue(()) };
        let word = self.shared.peek(cx, at);
        let elsewhere = word.writer().is_some_and(|host| host != self.me);
        if elsewhere && !cx.sabotaged("copy.wait-for-foreign-writer") {
            return ControlFlow::Break(());
        }
        if !word.is_modified() || cx.sabotaged("copy.freshen-modified") {
            return ControlFlow::Continue(());
        }
        if !part.is_unheld(row) {
            return ControlFlow::Break(());
        }
        match part.refresh(cx, self.shared, row) {
            Ok(()) => ControlFlow::Continue(()),
            Err(why) => {
                self.heed(cx, part, row, &why);
                ControlFlow::Break(())
            }
        }
    }
}
