//! Rows that others do not hold: what `SKIP LOCKED` asks for, and who can wait by other means.
//!
//! Elsewhere a transaction reads all rows of a range or conflicts. Here it is shown those that it can have at
//! once, without a promise about the others, and takes the ones that it wants one by one.
//!
//! Invariants:
//! 1. What is shown was committed, or is this transaction's own, and was not being changed when it was read.
//!    Nothing of it is held afterwards, and no gap: it may be gone or different a moment later. It is no read
//!    of the transaction, and its history does not show it.
//! 2. A row that was taken is held as if it had been read and changed, or read, and was shown after that.
//! 3. Meeting a row that somebody else holds changes nothing: the transaction goes on.
//! 4. Rows that nobody holds are not missed, but those of another host's places that a restart or a lack of
//!    shared memory keeps from being moved.

use std::ops::ControlFlow;

use liger_fabric::Fabric;
use liger_store::bwtree::{Entries, Trace, TreeError};

use super::message::{Action, Answer};
use super::moves::sentinel_key;
use super::work::{Spot, Work};
use crate::catalog::At;
use crate::protocol::failure::tree_error;
use crate::protocol::relational::Flow;
use crate::protocol::workspace::Visitor;
use crate::tables::key::{Key, KeyRange};
use crate::tables::record::Row;
use crate::txn::{Conflict, TxnError};

/// Rows that another host is asked for at once.
const BATCH: usize = 64;

impl<F: Fabric> Work<'_, '_, F> {
    /// Shows the rows of a range that nobody else is changing to a visitor, who reads them.
    pub(super) fn range_free(&mut self, at: At<'_>, range: &KeyRange, visitor: &mut Visitor<'_>) -> Flow {
        use Conflict::{Gap, Moved, ReadLocked, WriteLocked};
        let Visitor::Read(visit) = visitor else { unreachable!("what is not held cannot be changed") };
        let mut rest = *range;
        loop {
            let keys = if self.host.owns(at.partition) {
                self.keys_own(at, &rest)?
            } else {
                self.host.check_open(at.partition)?;
                self.keys_foreign(at, &rest)?
            };
            debug_assert!(
                keys.is_sorted() && keys.iter().all(|key| rest.contains(key)),
                "keys of what is left, in their order"
            );
            for key in &keys {
                let mut flow = ControlFlow::Continue(());
                let mut see = |key: &Key, row: Row<'_>| {
                    flow = visit(key, row);
                    ControlFlow::Break(())
                };
                let (held, read) = (self.mine.held.len(), self.state.core.reads());
                match self.point_free(at, key, &mut Visitor::Read(&mut see)) {
                    Ok(_) | Err(TxnError::Conflict(WriteLocked | ReadLocked | Gap | Moved)) => {}
                    Err(error) => return Err(error),
                }
                self.let_go_since(held);
                debug_assert_eq!(self.mine.held.len(), held, "what was held before is held on");
                self.state.core.forget_reads(read);
                if flow.is_break() {
                    return Ok(flow);
                }
            }
            match keys.last().and_then(Key::next) {
                Some(low) if keys.len() == BATCH => rest.low = low,
                _ => return Ok(ControlFlow::Continue(())),
            }
        }
    }

    /// Locks and shows one row, without waiting and without its gap.
    pub(super) fn point_free(
        &mut self,
        at: At<'_>,
        key: &Key,
        visitor: &mut Visitor<'_>,
    ) -> Result<bool, TxnError> {
        let host = self.host;
        if !host.owns(at.partition) {
            return Ok(self.known_foreign(at, key, visitor)?.unwrap_or(false));
        }
        let mut latched = host.restore_around(self.cx, at.ids(), key)?;
        let part = &mut *latched;
        match part.find(self.cx, key) {
            Some(row) => self.hold_and_show(at, part, (key, row), visitor),
            None => Ok(false),
        }
    }

    /// Locks and shows one row, or that there is none, without waiting, and gives back what was not held
    /// before.
    pub(super) fn point_glance(
        &mut self,
        at: At<'_>,
        key: &Key,
        visitor: &mut Visitor<'_>,
    ) -> Result<bool, TxnError> {
        let held = self.mine.held.len();
        self.state.core.begin_apart(None);
        self.state.core.set_apart(true);
        self.state.at_once = true;
        let shown = match self.host.owns(at.partition) {
            true => self.point_own(at, key, visitor),
            false => self.point_foreign(at, key, visitor),
        };
        self.state.at_once = false;
        let seen = self.state.core.end_apart();
        if let (Ok(_), Some(record), Some(history)) = (&shown, seen, self.host.history()) {
            history.committed(&record);
        }
        self.let_go_since(held);
        debug_assert_eq!(self.mine.held.len(), held, "what was held before is held on");
        shown
    }

    /// The next keys of a range in this host's memory.
    fn keys_own(&mut self, at: At<'_>, range: &KeyRange) -> Result<Vec<Key>, TxnError> {
        let host = self.host;
        loop {
            let latched = host.part(self.cx, at.ids());
            let part = &*latched;
            let (mut keys, mut from) = (Vec::with_capacity(BATCH), range.low);
            let mut next_at = part.tree.lower_bound(from.words());
            let unrestored = loop {
                let next = next_at.map(|cursor| Key::from_words(part.tree.entry(cursor).0));
                let unrestored = part.first_unrestored_key(Some(&from), next.as_ref());
                if unrestored.is_some_and(|unrestored| !range.ends_before(&unrestored)) {
                    break unrestored;
                }
                let Some(key) = next.filter(|key| !range.ends_before(key)) else { break None };
                keys.push(key);
                if keys.len() == BATCH {
                    break None;
                }
                from = key.next().expect("no row has the greatest key");
                next_at = next_at.and_then(|cursor| part.tree.next(cursor));
            };
            drop(latched);
            match unrestored {
                Some(unrestored) => host.restore_key(self.cx, at.ids(), &unrestored)?,
                None => return Ok(keys),
            }
        }
    }

    /// The next keys of a range in another host's memory, which are moved first.
    fn keys_foreign(&mut self, at: At<'_>, range: &KeyRange) -> Result<Vec<Key>, TxnError> {
        let (cx, host) = (self.cx, self.host);
        let action = Action::MoveInRange { range: *range, limit: BATCH as u32 };
        match self.ask(at, action)? {
            // Refused for rows that somebody is putting or removing, after all others have been moved.
            Answer::RangeShared | Answer::Held(_) | Answer::Conflict => {}
            Answer::Failed(failure) => return Err(failure.error(at.table())),
            _ => return Err(Conflict::Memory.into()),
        }
        let tree = host.foreign_index(at);
        let (mut entries, mut trace) = (Entries::default(), Trace::new());
        match tree.scan(cx, &host.tree_env(), range.low.words(), None, BATCH, &mut entries, &mut trace) {
            Ok(()) | Err(TreeError::NotFormatted { .. }) => {}
            Err(broken) => return Err(tree_error(at.table(), broken)),
        }
        let mut keys = Vec::with_capacity(BATCH);
        for (words, raw) in entries.iter() {
            let key = Key::from_words(words);
            if range.ends_before(&key) || key == sentinel_key(at.relation.key_words) {
                break;
            }
            let address = host.row_at(raw).map_err(|broken| tree_error(at.table(), broken))?;
            host.remote.learn(cx, host.remote.hash_of(at.table(), at.partition, &key), address);
            keys.push(key);
        }
        Ok(keys)
    }

    /// Gives back what has been locked since there were so many locks.
    pub(super) fn let_go_since(&mut self, held: usize) {
        while self.mine.held.len() > held {
            match Spot::of(self.mine.held.pop().expect("there are more")) {
                Spot::Foreign(i) => {
                    debug_assert_eq!(i + 1, self.mine.foreign.len(), "locked last, given back first");
                    self.release_foreign(i, false);
                    self.mine.foreign.pop();
                }
                Spot::Own { partition, table, row } => {
                    let host = self.host;
                    host.part(self.cx, (partition, table)).unlock(self.cx, host.shared, row, self.state.me);
                }
            }
        }
    }
}
