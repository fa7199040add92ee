//! A host's side of the ledger: requests in, acknowledgements out, each once what it says is durable.
//!
//! 1. A request that meets a conflict goes behind the others: a transfer that waits for a dead host's rows
//!    does not hold up those that need nothing of it.
//! 2. Whoever asks again while the first try waits here is answered by both: the second one finds the row.
//! 3. An error that is no conflict ends the queue; the client asks another host then.

use std::collections::VecDeque;

use liger_engine::Durability;
use liger_engine::{Session, Ticket, TxnError};

use super::schema::Tables;
use super::{Reply, Request, transfer};

/// A request that is not carried out.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    request: Request,
    /// Its row was seen: it only has to be read.
    is_made: bool,
    /// Rounds that it sits out after a conflict.
    rounds: u32,
    conflicts: u32,
}

/// What a host has been asked and has not answered.
#[derive(Debug)]
pub struct RequestQueue {
    tables: Tables,
    durability: Durability,
    waiting: VecDeque<Waiting>,
    /// Committed and not durable; oldest first.
    committed: VecDeque<(Ticket, Reply)>,
    conflicts: u64,
}

/// The longest time that a request sits out, in rounds.
const ROUNDS_MAX: u32 = 32;

impl RequestQueue {
    /// Nothing was asked yet. Transfers are acknowledged when they are durable in this sense.
    pub fn new(tables: Tables, durability: Durability) -> Self {
        Self { tables, durability, waiting: VecDeque::new(), committed: VecDeque::new(), conflicts: 0 }
    }

    /// Takes a request.
    pub fn ask(&mut self, request: Request) {
        self.waiting.push_back(Waiting { request, is_made: false, rounds: 0, conflicts: 0 });
    }

    /// Requests not answered.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.committed.len()
    }

    /// True if nobody waits for an answer.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Attempts that met a conflict, so far.
    pub fn conflicts(&self) -> u64 {
        self.conflicts
    }

    /// Forgets everything: who had asked is gone.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.committed.clear();
    }

    /// One round: tries up to `most` of the requests once, and hands over what has become durable. Returns
    /// how many transactions it ran.
    ///
    /// # Errors
    /// The first that is no conflict.
    pub fn round<S: Session>(
        &mut self,
        session: &mut S,
        most: usize,
        mut acknowledge: impl FnMut(Reply),
    ) -> Result<usize, TxnError> {
        let mut ran = 0;
        for _ in 0..self.waiting.len().min(most) {
            let waiting = self.waiting.pop_front().expect("counted");
            if waiting.rounds > 0 {
                self.waiting.push_back(Waiting { rounds: waiting.rounds - 1, ..waiting });
                continue;
            }
            ran += 1;
            self.attempt(session, waiting)?;
        }
        while let Some((ticket, reply)) = self.committed.front() {
            if self.durability == Durability::Storage && !session.is_durable(*ticket)? {
                break;
            }
            acknowledge(*reply);
            self.committed.pop_front();
        }
        Ok(ran)
    }

    fn attempt<S: Session>(&mut self, session: &mut S, waiting: Waiting) -> Result<(), TxnError> {
        let Waiting { request, is_made, conflicts, .. } = waiting;
        let tables = self.tables;
        let tried = session.attempt(|txn| match is_made {
            true => transfer::find(txn, &tables, &request),
            false => transfer::make(txn, &tables, &request).map(Some),
        });
        match tried {
            Ok(Some(reply)) => self.committed.push_back((session.ticket(), reply)),
            // Seen by an insert, but not committed in the end.
            Ok(None) => self.waiting.push_back(Waiting { is_made: false, ..waiting }),
            Err(TxnError::DuplicateKey { .. }) => {
                self.waiting.push_back(Waiting { is_made: true, ..waiting });
            }
            Err(TxnError::Conflict(_)) => {
                self.conflicts += 1;
                // The next ones are tried first; a request that stays in conflict waits ever longer.
                let rounds = (1 << conflicts.min(5)).min(ROUNDS_MAX) - 1;
                self.waiting.push_back(Waiting { rounds, conflicts: conflicts + 1, ..waiting });
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
