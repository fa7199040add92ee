//! Rows of another host as they were: their owner copies them into a block of the reader's host.
//!
//! ```text
//! copy    key, words   version u64   row
//! ```
//!
//! Invariants:
//! 1. A block is the reader's host's, and is given back when its owner has answered, or cannot write there
//!    any more: one that has not answered may be slow, and not cut off yet.
//! 2. Whoever copies pins the moment itself, so that what it reads stays if the reader's host dies; and
//!    writes under the latch of the share, behind a look whether that host is fenced, as everything that is
//!    done for another host.
//!
//! Not here: what is copied (as_of.rs).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use liger_fabric::{Cx, DataAddr, Fabric, HostId};
use liger_pod::heap::BlockClass;
use liger_pod::membership::{HostState, Slot};
use liger_pod::owner::Owner;
use liger_pod::plan::PartitionId;

use super::as_of::{See, Step};
use super::message::{Action, Answer, Copies};
use super::rows::Rows;
use super::work::Work;
use crate::catalog::At;
use crate::protocol::failure::Failure;
use crate::tables::key::{Key, KeyRange, MAX_KEY_WORDS};
use crate::txn::{Conflict, TableId, TxnError};

/// Bytes of a block for copies, if one row does not need more.
const USUAL_BYTES: usize = 16 << 10;
/// Most bytes of it.
const MOST_BYTES: usize = 64 << 10;

/// Blocks of this host that others copy rows into.
#[derive(Default)]
pub struct CopyBlocks(BTreeMap<u64, CopyBlock>);

struct CopyBlock {
    len: usize,
    /// Nobody waits for it, and these may still write there.
    abandoned_to: Vec<Owner>,
}

impl CopyBlocks {
    /// A block is about to be another host's to write.
    fn note(&mut self, block: DataAddr, len: usize) {
        let before = self.0.insert(block.offset(), CopyBlock { len, abandoned_to: Vec::new() });
        debug_assert!(before.is_none(), "a block is asked for once");
    }

    /// Adds them to the memory that is in use.
    pub fn reach(&self, in_use: &mut BTreeSet<u64>) {
        in_use.extend(self.0.keys());
    }
}

impl Rows {
    /// Nobody waits for a block any more: it is given back when none of these hosts can write there.
    fn end_copies<F: Fabric>(&self, cx: &Cx<F>, block: DataAddr, by: Vec<Owner>) {
        let mut copies = self.copies.lock(cx);
        let noted = copies.0.get_mut(&block.offset()).expect("it was noted");
        if by.is_empty() {
            self.heap.free(cx, BlockClass::Scratch, block, noted.len);
            copies.0.remove(&block.offset());
        } else {
            noted.abandoned_to = by;
            self.old.note_untidy();
        }
    }

    /// Gives back what was to be written by hosts that are cut off by now; true if there is more.
    pub(super) fn free_copies<F: Fabric>(&self, cx: &Cx<F>) -> bool {
        let may_write = |owner: &Owner| {
            let is_cut_off = |slot: Slot| {
                let is_over =
                    matches!(slot.state, HostState::Fenced | HostState::Recovered | HostState::Free);
                is_over || slot.incarnation != owner.incarnation
            };
            // A word that makes no sense tells nothing.
            !Slot::load(cx, &self.plan, owner.host).is_ok_and(is_cut_off)
        };
        let mut copies = self.copies.lock(cx);
        copies.0.retain(|at, block| {
            let stays = block.abandoned_to.is_empty() || block.abandoned_to.iter().any(may_write);
            if !stays {
                self.heap.free(cx, BlockClass::Scratch, DataAddr::new(*at), block.len);
            }
            stays
        });
        !copies.0.is_empty()
    }

    /// Copies rows of a range as they were into a block of another host.
    pub(super) fn copy_as_of<F: Fabric>(
        &self,
        cx: &Cx<F>,
        from: (HostId, u16),
        (partition, table): (PartitionId, TableId),
        asked: &Copies,
    ) -> Answer {
        let Copies { range, moment, at, len } = asked;
        let Ok(relation) = self.catalog.relation(table) else { return Answer::Conflict };
        let (key_bytes, size) = (8 * relation.key_words, 8 * relation.key_words + 8 + relation.row_len);
        if !self.heap.may_hold(*at, *len as usize) || size > *len as usize {
            return Answer::Conflict;
        }
        let mut copies: Vec<u8> = Vec::with_capacity(*len as usize);
        let mut see = |key: &Key, version: u64, bytes: &[u8]| {
            key.words().iter().for_each(|word| copies.extend_from_slice(&word.to_ne_bytes()));
            debug_assert_eq!(copies.len() % size, key_bytes, "keys of one relation");
            copies.extend_from_slice(&version.to_ne_bytes());
            copies.extend_from_slice(bytes);
            if copies.len() + size > *len as usize {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let Some(log) = &self.log else { return Answer::TooOld };
        // Nobody frees what it may come across, also if the reader's host dies.
        if !self.pin_for(cx, log, (from.0, *moment)) {
            return Answer::TooOld;
        }
        let step = self.step_as_of(cx, (partition, table), (range, *moment), &mut see);
        self.close_snapshot(cx, *moment);
        let next = match step {
            Ok(Step::Ended(ControlFlow::Continue(()))) => None,
            Ok(Step::Ended(ControlFlow::Break(()))) => {
                let last = copies.len() - size;
                let words = copies[last..last + key_bytes].chunks_exact(8);
                let words: Vec<u64> =
                    words.map(|word| u64::from_ne_bytes(word.try_into().expect("8"))).collect();
                Key::from_words(&words).next()
            }
            Ok(Step::At(key)) => Some(key),
            Ok(Step::Unrestored(key, from)) => match self.restore_key(cx, (partition, table), &key) {
                Ok(()) => Some(from),
                Err(error) => return Answer::Failed(error.into()),
            },
            Ok(Step::Elsewhere) | Err(TxnError::Conflict(_)) => return Answer::Conflict,
            Err(TxnError::SnapshotTooOld) => return Answer::TooOld,
            Err(TxnError::Damaged { found, .. }) => return Answer::Failed(Failure::Row { offset: found }),
            Err(error) => return Answer::Failed(error.into()),
        };
        debug_assert!(copies.len().is_multiple_of(size) && copies.len() <= *len as usize, "whole rows");
        let rows = (copies.len() / size) as u32;
        // Under the latch: who sweeps this partition of a dead host's locks has fenced it before, and its
        // memory is another's only then.
        let latched = self.part(cx, (partition, table));
        if self.owners.is_fenced(from.0, from.1) || !self.owns(partition) {
            return Answer::Conflict;
        }
        if !copies.is_empty() {
            cx.write(DataAddr::new(*at), &copies);
            self.shared.write_back(cx, DataAddr::new(*at), copies.len());
            cx.fence();
        }
        drop(latched);
        Answer::Copied { rows, next: next.filter(|key| !range.ends_before(key)) }
    }
}

impl<F: Fabric> Work<'_, '_, F> {
    /// Has another host copy rows, and shows them.
    pub(super) fn step_elsewhere(
        &mut self,
        at: At<'_>,
        range: &KeyRange,
        moment: u64,
        see: See<'_>,
    ) -> Result<Step, TxnError> {
        let (cx, host) = (self.cx, self.host);
        let (key_bytes, row_len) = (8 * at.relation.key_words, at.relation.row_len);
        let size = key_bytes + 8 + row_len;
        let len = size.clamp(USUAL_BYTES, MOST_BYTES);
        let full = |_| TxnError::Conflict(Conflict::Memory);
        let block = host.heap.alloc(cx, BlockClass::Scratch, len).map_err(full)?;
        host.copies.lock(cx).note(block, len);
        let asked = Copies { range: *range, moment, at: block.offset(), len: len as u32 };
        let owner = || host.owners.now(cx, &host.plan, at.partition);
        let before = owner();
        let answer = self.ask(at, Action::Copy(asked));
        let mut copies = Vec::new();
        if let Ok(Answer::Copied { rows, .. }) = answer {
            copies.resize((rows as usize * size).min(len), 0);
            host.shared.freshen(cx, block, copies.len());
            cx.read(block, &mut copies);
        }
        // Who has not answered may be slow, and not cut off yet.
        let by = match &answer {
            Ok(_) => Vec::new(),
            Err(_) => before.into_iter().chain(owner()).collect(),
        };
        host.end_copies(cx, block, by);
        let next = match answer? {
            Answer::Copied { next, .. } => next,
            Answer::TooOld => return Err(TxnError::SnapshotTooOld),
            Answer::Failed(failure) => return Err(failure.error(at.table())),
            _ => return Err(Conflict::Partition.into()),
        };
        for copy in copies.chunks_exact(size) {
            let mut words = [0u64; MAX_KEY_WORDS];
            for (word, bytes) in words.iter_mut().zip(copy[..key_bytes].chunks_exact(8)) {
                *word = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
            }
            let key = Key::from_words(&words[..at.relation.key_words]);
            let version = u64::from_ne_bytes(copy[key_bytes..key_bytes + 8].try_into().expect("eight bytes"));
            if see(&key, version, &copy[key_bytes + 8..]).is_break() {
                return Ok(Step::Ended(ControlFlow::Break(())));
            }
        }
        Ok(next.map_or(Step::Ended(ControlFlow::Continue(())), Step::At))
    }
}
