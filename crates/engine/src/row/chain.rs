//! Versions of shared rows that other hosts than their owners have overwritten: blocks in shared memory, to
//! which the row's block leads, newest first (docs/protocols/snapshots.md).
//!
//! ```text
//! link    0 offset of a block u64, or 0: none, 1: lost   8 the version that replaced what is there u64
//! block   0 version u64   8 version that replaced it u64   16 link (to older ones)   32 table u16
//!         34 partition u16   36 checksum u32   40 key, words   row
//! ```
//!
//! The link of a row is the last 16 bytes of its block.
//!
//! Invariants:
//! 1. A block is in memory before a link says where it is, the link before the head of the row's block says
//!    which version comes, and that before any byte of the row changes.
//! 2. A block does not change. What is in it is true of its row for ever, so a link that is left from before
//!    leads to something true, or to something else, which its checksum, its place and its key tell.
//! 3. The host that has written a block frees it, when no snapshot wants what was replaced by then; who reads
//!    as of a moment that is not older follows no link to it.
//!
//! Not here: when versions are kept (log/epoch.rs).

use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;

use liger_fabric::zerocopy::{FromBytes, IntoBytes};
use liger_fabric::{Cx, DataAddr, Fabric, layout};
use liger_pod::heap::BlockClass;
use liger_pod::plan::PartitionId;

use super::block::Shape;
use super::kept::Old;
use super::rows::Rows;
use crate::checksum::{checksum, checksum_from};
use crate::log::record::moment_of;
use crate::tables::key::Key;
use crate::txn::TableId;

layout! {
    /// Where the version before is.
    pub struct Link: 16 {
        /// Offset of its block; 0: there is none; 1: it is lost.
        0 => pub at: u64,
        /// The version that replaced it.
        8 => pub until: u64,
    }
}

layout! {
    /// Head of a block with an old version; key and row follow.
    pub struct OldHead: 40 {
        /// The version.
        0 => pub from: u64,
        /// The version that replaced it.
        8 => pub until: u64,
        /// The version before it: offset, or 0, or 1.
        16 => pub older_at: u64,
        /// The version that replaced that.
        24 => pub older_until: u64,
        /// The row's table.
        32 => pub table: u16,
        /// The row's partition.
        34 => pub partition: u16,
        /// Checksum of all else.
        36 => pub checksum: u32,
    }
}

/// The versions before are not kept: there was no room.
const LOST: u64 = 1;
/// Bytes of a head that its checksum is of.
const HEAD_SUMMED: usize = 36;
/// The longest chain that somebody follows: one that is longer does not end.
const LONGEST: usize = 1 << 16;

/// Blocks of old versions that this host has written, about in the order of their ends.
pub struct OldBlocks {
    /// The moment in which each was overwritten, where it is, and its bytes.
    blocks: VecDeque<(u64, DataAddr, usize)>,
    bytes: u64,
    most_bytes: u64,
}

impl OldBlocks {
    /// None yet; so many bytes at most.
    pub fn new(most_bytes: u64) -> Self {
        Self { blocks: VecDeque::new(), bytes: 0, most_bytes }
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Link {
    /// True if there is no version before, and none is lost.
    pub fn leads_nowhere(&self) -> bool {
        self.at == 0
    }
}

/// What a chain has of a moment.
#[derive(PartialEq, Eq, Debug)]
pub enum Found {
    /// The row as it was.
    Row(Old),
    /// Nothing: the row's versions of then were overwritten by its owner, or there was no row.
    Nothing,
    /// It is not known any more.
    Lost,
}

impl OldHead {
    fn checksum_with(&self, key: &[u8], row: &[u8]) -> u32 {
        checksum_from(checksum_from(checksum(row), key), &self.as_bytes()[..HEAD_SUMMED])
    }

    fn len(shape: Shape) -> usize {
        size_of::<Self>() + 8 * shape.key_words + shape.row_len
    }
}

impl Rows {
    /// The link of a row whose block is fresh here.
    pub(super) fn link_of<F: Fabric>(cx: &Cx<F>, block: DataAddr, shape: Shape) -> Link {
        cx.read_layout(block.byte(shape.link_start()))
    }

    /// Writes a version that is overwritten now to a block of its own, and starts to write that back. The
    /// caller has the row's write lock, and what is in `block` is that version. What to link the row to.
    pub(super) fn write_old<F: Fabric>(
        &self,
        cx: &Cx<F>,
        block: DataAddr,
        (place, key): ((PartitionId, TableId), &Key),
        shape: Shape,
        (from, until): (u64, u64),
    ) -> Link {
        debug_assert!(from < until, "version {from:#x} is replaced by {until:#x}");
        let Link { at: older_at, until: older_until } = Self::link_of(cx, block, shape);
        if moment_of(from) == moment_of(until) {
            // No snapshot is in between: what was kept before was replaced in that moment, too.
            return Link { at: older_at, until: if older_at == 0 { until } else { older_until } };
        }
        let len = OldHead::len(shape);
        let Some(at) = self.place_for_old(cx, len) else {
            return Link { at: LOST, until };
        };
        let mut bytes = vec![0; len];
        let (head, rest) = bytes.split_at_mut(size_of::<OldHead>());
        let (words, row) = rest.split_at_mut(8 * shape.key_words);
        words.copy_from_slice(key.words().as_bytes());
        cx.read(block.byte(shape.row_start()), row);
        let (table, partition) = (place.1.0, place.0.0);
        let mut of = OldHead { from, until, older_at, older_until, table, partition, checksum: 0 };
        of.checksum = of.checksum_with(words, row);
        head.copy_from_slice(of.as_bytes());
        cx.write(at, &bytes);
        self.shared.write_back(cx, at, len);
        // Only now: that moment may be over, and nobody want what was overwritten then.
        let mut old = self.old.blocks.lock(cx);
        debug_assert!(old.bytes >= len as u64, "it was counted when it got its place");
        old.blocks.push_back((moment_of(until), at, len));
        drop(old);
        self.old.note_untidy();
        Link { at: at.offset(), until }
    }

    /// A block for a version that is overwritten, if there is room for so many bytes, and these are not more
    /// than may be.
    fn place_for_old<F: Fabric>(&self, cx: &Cx<F>, len: usize) -> Option<DataAddr> {
        let mut old = self.old.blocks.lock(cx);
        if old.bytes + len as u64 > old.most_bytes {
            return None;
        }
        let at = self.heap.alloc(cx, BlockClass::Scratch, len).ok()?;
        old.bytes += len as u64;
        Some(at)
    }

    /// Links a row to its old versions, and starts to write that back.
    pub(super) fn write_link<F: Fabric>(&self, cx: &Cx<F>, block: DataAddr, shape: Shape, link: Link) {
        let at = block.byte(shape.link_start());
        cx.write(at, link.as_bytes());
        self.shared.write_back(cx, at, size_of::<Link>());
    }

    /// What a chain has of a moment.
    pub(super) fn follow<F: Fabric>(
        &self,
        cx: &Cx<F>,
        link: Link,
        row: ((PartitionId, TableId), &Key),
        shape: Shape,
        moment: u64,
    ) -> Found {
        let mut found = None;
        let whole = self.walk(cx, link, (row, shape), moment, |old| match old.is_of(moment) {
            true => {
                found = Some(old);
                ControlFlow::Break(())
            }
            false => ControlFlow::Continue(()),
        });
        match found {
            Some(old) => Found::Row(old),
            None if whole => Found::Nothing,
            None => Found::Lost,
        }
    }

    /// Shows all of a chain that a snapshot of this moment, or a later one, may want; false if some of it is
    /// lost.
    pub(super) fn gather<F: Fabric>(
        &self,
        cx: &Cx<F>,
        link: Link,
        row: ((PartitionId, TableId), &Key),
        shape: Shape,
        moment: u64,
        mut show: impl FnMut(Old),
    ) -> bool {
        self.walk(cx, link, (row, shape), moment, |old| {
            show(old);
            ControlFlow::Continue(())
        })
    }

    /// Goes along a chain, newest first, as far as versions were replaced behind a moment; false if it breaks
    /// off before.
    fn walk<F: Fabric>(
        &self,
        cx: &Cx<F>,
        mut link: Link,
        (row, shape): (((PartitionId, TableId), &Key), Shape),
        moment: u64,
        mut visit: impl FnMut(Old) -> ControlFlow<()>,
    ) -> bool {
        for _ in 0..LONGEST {
            if link.leads_nowhere() || moment_of(link.until) <= moment {
                return true;
            }
            let Some((old, older)) = self.read_old(cx, link, row, shape) else { return false };
            if visit(old).is_break() {
                return true;
            }
            link = older;
        }
        false
    }

    /// The version that a link leads to, and the link to the one before, if it is there.
    fn read_old<F: Fabric>(
        &self,
        cx: &Cx<F>,
        link: Link,
        (place, key): ((PartitionId, TableId), &Key),
        shape: Shape,
    ) -> Option<(Old, Link)> {
        let len = OldHead::len(shape);
        if link.at == LOST || !self.heap.may_hold(link.at, len) {
            return None;
        }
        let at = DataAddr::new(link.at);
        let mut bytes = vec![0; len];
        cx.begin_unsure();
        self.shared.freshen(cx, at, len);
        cx.read(at, &mut bytes);
        // It may be another block by now.
        cx.end_unsure(false);
        let (head, rest) = bytes.split_at(size_of::<OldHead>());
        let head = OldHead::read_from_bytes(head).expect("the bytes of a head");
        let (words, row) = rest.split_at(8 * shape.key_words);
        let is_its =
            (head.table, head.partition) == (place.1.0, place.0.0) && words == key.words().as_bytes();
        let is_whole = head.checksum == head.checksum_with(words, row) && head.from < head.until;
        if !is_its || !is_whole {
            return None;
        }
        let OldHead { from, until, older_at, older_until, .. } = head;
        Some((Old { from, until, bytes: row.into() }, Link { at: older_at, until: older_until }))
    }

    /// Frees blocks of versions that were overwritten in moments up to this one, which no snapshot wants;
    /// true if there are others.
    pub(super) fn free_old_blocks<F: Fabric>(&self, cx: &Cx<F>, moment: u64) -> bool {
        let mut old = self.old.blocks.lock(cx);
        while let Some(&(until, at, len)) = old.blocks.front() {
            if until > moment {
                return true;
            }
            old.blocks.pop_front();
            debug_assert!(old.bytes >= len as u64, "what is freed was counted");
            old.bytes -= len as u64;
            self.heap.free(cx, BlockClass::Scratch, at, len);
        }
        false
    }

    /// Adds the blocks of old versions to the memory that is in use.
    pub(super) fn reach_old_blocks<F: Fabric>(&self, cx: &Cx<F>, in_use: &mut BTreeSet<u64>) {
        in_use.extend(self.old.blocks.lock(cx).blocks.iter().map(|(_, at, _)| at.offset()));
    }
}
