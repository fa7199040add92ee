//! Rows of other hosts that a transaction will touch: asked for together, so that a batch of them costs the
//! wait of one message.
//!
//! A row that will be read or changed is moved into shared memory, if it is not there, and this host learns
//! where it is; nothing is locked. A row that will be inserted is made by its owner, write-locked for this
//! host, and is one that the transaction has inserted and deleted: the insert brings it back without a
//! message. What ends the transaction gives it back like any such row, so a host that dies with it
//! leaves nothing that a `Create` by itself would not leave (docs/protocols/data-movement.md).
//!
//! Invariants:
//! 1. What is refused, or does not come, is left to whoever needs the row: nothing fails here.
//! 2. A row that the transaction holds already is not asked for.

use liger_fabric::Fabric;

use super::asking::{Came, MOST_REQUESTS, Request};
use super::message::{Action, Answer};
use super::rows::is_rows;
use super::work::Work;
use crate::catalog::At;
use crate::txn::Announced;

impl<F: Fabric> Work<'_, '_, F> {
    /// See `Transacts::fetch_ahead`.
    pub(super) fn fetch_foreign_ahead(&mut self, rows: &[Announced]) {
        let host = self.host;
        let mut asked: Vec<Request<'_>> = Vec::new();
        for row in rows {
            let Ok(relation) = host.catalog.relation(row.table) else { continue };
            if relation.replicated || !is_rows(relation) || relation.check_key(&row.key).is_err() {
                continue;
            }
            let at = At::new(relation, relation.partition_of(&row.key, host.partition_count()));
            if host.owns(at.partition) || host.check_open(at.partition).is_err() {
                continue;
            }
            let Some(action) = self.needed(at, row) else { continue };
            asked.push((at, action));
            if asked.len() == MOST_REQUESTS {
                self.fetch(&asked);
                asked.clear();
            }
        }
        // One row alone is asked for by who needs it.
        if asked.len() > 1 {
            self.fetch(&asked);
        }
    }

    /// What the row's owner has to be asked for, if anything.
    fn needed(&mut self, at: At<'_>, row: &Announced) -> Option<Action> {
        let (cx, host, key) = (self.cx, self.host, &row.key);
        if self.mine.foreign.of_key(at.table(), at.partition, key).is_some() {
            return None;
        }
        if row.is_new {
            return Some(Action::Create(*key));
        }
        let hash = host.remote.hash_of(at.table(), at.partition, key);
        if host.remote.shard(cx, hash).contains_key(&hash) {
            return None;
        }
        match self.look_up(at, key) {
            Ok(None) => Some(Action::MoveIn(*key)),
            Ok(Some(address)) => {
                host.remote.learn(cx, hash, address);
                None
            }
            Err(_) => None,
        }
    }

    fn fetch(&mut self, asked: &[Request<'_>]) {
        debug_assert!(asked.iter().all(|(at, _)| !self.host.owns(at.partition)), "rows of other hosts");
        self.ask_all(asked, |work, (n, came): Came| {
            let (at, action) = &asked[n];
            match (action, came) {
                (Action::MoveIn(key), Ok(Answer::Shared(address))) => {
                    let hash = work.host.remote.hash_of(at.table(), at.partition, key);
                    work.host.remote.learn(work.cx, hash, address);
                }
                (Action::Create(key), Ok(Answer::Created { at: address, next, llsn })) => {
                    // Refused, it has been given back.
                    let _ = work.take_created(*at, key, None, (address, next, llsn));
                }
                _ => {}
            }
        });
    }
}
