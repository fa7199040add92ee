//! Reading, locking and writing one row, in place, from any host.
//!
//! Invariants:
//! 1. Who reads without a lock loads the word before and after, and has read the row only if its `wts` is
//!    the same and it was not being changed at either moment.
//! 2. Lines are invalidated before they are read, unless this host's are current (fresh.rs).
//! 3. A writer marks the word before it writes the first byte, and writes back and fences before the word
//!    says the new `wts`.
//! 4. A row's word and block stay its own while anybody is pinned that may have found them.

use liger_fabric::zerocopy::IntoBytes;
use liger_fabric::{Cx, DataAddr, Fabric, LINE, SyncAddr, Work, layout};

use super::host::{ShmHost, count};
use super::word::{RowWord, State};
use crate::sundial::{Lease, Who};
use liger_engine::Conflict;

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &["shm.look-again", "shm.pass-changing"];

/// Looks at a row that is being changed, before it counts as locked.
const LOOKS: u32 = 16;

layout! {
    /// Head of a row's block; the row's bytes follow. Blocks are written in full lines when a row is made.
    pub struct BlockHead: 8 {
        /// When the row's bytes changed last; 0: they were loaded.
        0 => pub version: u64,
    }
}

const HEAD: usize = size_of::<BlockHead>();

/// Bytes of the block of a row of so many bytes.
pub(super) const fn block_len(row_len: usize) -> usize {
    HEAD + row_len
}

/// Where a row is: its word and its block, which the end of a partition lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RowAt {
    pub(super) word: SyncAddr,
    pub(super) block: DataAddr,
}

impl RowAt {
    /// Memory up to here has room in an index entry.
    pub(super) const MOST_BYTES: u64 = (LINE as u64) << 32;

    /// As an index entry has it: the number of the word, and that of the block's first line.
    pub(super) fn entry(self) -> u64 {
        ((self.word.offset() / 8) << 32) | (self.block.offset() / LINE as u64)
    }

    pub(super) fn of_entry(entry: u64) -> Self {
        let word = SyncAddr::new((entry >> 32) * 8);
        Self { word, block: DataAddr::new((entry & u64::from(u32::MAX)) * LINE as u64) }
    }
}

/// Why nothing came of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// It has been removed since its entry was read.
    Gone,
    /// Somebody else is in the way.
    Conflict(Conflict),
}

impl From<Conflict> for Refusal {
    fn from(conflict: Conflict) -> Self {
        Self::Conflict(conflict)
    }
}

impl ShmHost {
    pub(super) fn look<F: Fabric>(&self, cx: &Cx<F>, at: RowAt) -> RowWord {
        RowWord(cx.load(at.word))
    }

    /// The row's lease as it is now.
    pub(super) fn lease<F: Fabric>(&self, cx: &Cx<F>, at: RowAt) -> Result<Lease, Refusal> {
        let word = self.look(cx, at);
        if word.state() == State::Dead { Err(Refusal::Gone) } else { Ok(word.lease().read()?) }
    }

    /// Locks a row for writing; `seen`: which has had this `wts` and must have it still. Returns its lease.
    pub(super) fn lock<F: Fabric>(
        &self,
        cx: &Cx<F>,
        at: RowAt,
        who: Who,
        seen: Option<u64>,
    ) -> Result<Lease, Refusal> {
        let mut word = self.look(cx, at);
        loop {
            if word.state() == State::Dead {
                return Err(Refusal::Gone);
            }
            let lease = word.lease();
            let locked = RowWord::new(word.state(), lease.locked(who)?);
            if seen.is_some_and(|wts| wts != lease.wts) {
                return Err(Conflict::Validation.into());
            }
            match cx.compare_exchange(at.word, word.0, locked.0) {
                Ok(_) => return Ok(lease),
                Err(now) => word = RowWord(now),
            }
        }
    }

    /// Makes the lease of a row that had this `wts` cover `time`; false if it cannot.
    pub(super) fn renew<F: Fabric>(&self, cx: &Cx<F>, at: RowAt, wts: u64, time: u64) -> bool {
        let mut word = self.look(cx, at);
        loop {
            let lease = word.lease();
            let changed = word.state() == State::Dead || lease.wts != wts;
            let Some(renewed) = lease.renewed(cx, changed, time) else { return false };
            if renewed == lease {
                return true;
            }
            match cx.compare_exchange(at.word, word.0, RowWord::new(word.state(), renewed).0) {
                Ok(_) => return true,
                Err(now) => word = RowWord(now),
            }
        }
    }

    /// Appends the bytes of a row that nobody has locked for this transaction to `out`; its lease and the
    /// version of the bytes.
    pub(super) fn read<F: Fabric>(
        &self,
        cx: &Cx<F>,
        at: RowAt,
        row_len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(Lease, u64), Refusal> {
        let start = out.len();
        for _ in 0..LOOKS {
            let before = self.look(cx, at);
            if before.state() == State::Dead {
                return Err(Refusal::Gone);
            }
            before.lease().read()?;
            if before.state() == State::Changing && !cx.sabotaged("shm.pass-changing") {
                cx.pause();
                continue;
            }
            cx.begin_unsure();
            let version = self.copy_out(cx, at, before.wts(), row_len, out);
            let after = self.look(cx, at);
            let same = after.state() == before.state() && after.wts() == before.wts();
            let is_whole = same || cx.sabotaged("shm.look-again");
            cx.end_unsure(is_whole);
            if is_whole {
                self.fresh.set(at.word, before.wts());
                return Ok((after.lease(), version));
            }
            out.truncate(start);
        }
        Err(Conflict::WriteLocked.into())
    }

    /// The same of a row that this transaction has locked.
    pub(super) fn read_locked<F: Fabric>(
        &self,
        cx: &Cx<F>,
        at: RowAt,
        wts: u64,
        row_len: usize,
        out: &mut Vec<u8>,
    ) -> u64 {
        let version = self.copy_out(cx, at, wts, row_len, out);
        self.fresh.set(at.word, wts);
        version
    }

    fn copy_out<F: Fabric>(&self, cx: &Cx<F>, at: RowAt, wts: u64, row_len: usize, out: &mut Vec<u8>) -> u64 {
        let len = block_len(row_len);
        count(&self.traffic.rows_read, 1);
        if !self.fresh.has(cx, at.word, wts) {
            count(&self.traffic.lines_read_anew, len.div_ceil(LINE) as u64);
            cx.invalidate(at.block, len);
            cx.fence();
        }
        let start = out.len();
        out.resize(start + row_len, 0);
        let head: BlockHead = cx.read_layout(at.block);
        cx.read(at.block.byte(HEAD as u64), &mut out[start..]);
        head.version
    }

    /// Writes the block of a new row, in full lines, so that nothing of the block's last use is needed or
    /// kept. The caller fences.
    pub(super) fn write_new<F: Fabric>(&self, cx: &Cx<F>, at: RowAt, version: u64, row: &[u8]) {
        let len = block_len(row.len());
        let mut image = vec![0; len.next_multiple_of(LINE)];
        image[..HEAD].copy_from_slice(BlockHead { version }.as_bytes());
        image[HEAD..len].copy_from_slice(row);
        cx.write(at.block, &image);
        cx.write_back(at.block, image.len());
        count(&self.traffic.lines_written, (image.len() / LINE) as u64);
    }

    /// Writes pieces of a row that is marked, and starts to write back the lines that they are in. The
    /// caller fences.
    pub(super) fn write_pieces<'p, F: Fabric>(
        &self,
        cx: &Cx<F>,
        at: RowAt,
        version: u64,
        pieces: impl Iterator<Item = (u16, &'p [u8])>,
    ) {
        cx.write(at.block, BlockHead { version }.as_bytes());
        let mut lines = vec![0];
        for (offset, bytes) in pieces {
            let first = HEAD + usize::from(offset);
            cx.write(at.block.byte(first as u64), bytes);
            lines.extend(first / LINE..=(first + bytes.len().max(1) - 1) / LINE);
        }
        lines.sort_unstable();
        lines.dedup();
        count(&self.traffic.lines_written, lines.len() as u64);
        cx.spend(Work::DramLine, 2);
        for run in lines.chunk_by(|a, b| a + 1 == *b) {
            cx.write_back(at.block.byte((run[0] * LINE) as u64), run.len() * LINE);
        }
    }
}
