//! Who runs transactions and waits for them to be durable.

use std::collections::VecDeque;

use liger_engine::host::{Host, HostSession};
use liger_engine::method::Method;
use liger_engine::{Session, Ticket, TxnError};
use liger_fabric::Cx;
use liger_fabric::sim::Sim;

use super::Life;
use crate::recorder::Recorder;
use crate::rows::{self, RowsRun};

/// A worker and those that wait for its answers.
pub(super) struct Client<'h, M: Method> {
    session: HostSession<'h, Sim, M>,
    life: &'h Life,
    recorder: &'h Recorder,
    waiting: VecDeque<(u64, Ticket)>,
}

impl<'h, M: Method> Client<'h, M> {
    pub(super) fn new(cx: &'h Cx<Sim>, host: &'h Host<M>, life: &'h Life, recorder: &'h Recorder) -> Self {
        Self { session: HostSession::new(cx, host), life, recorder, waiting: VecDeque::new() }
    }

    pub(super) fn work(mut self, run: &RowsRun) {
        let cx = self.session.cx();
        for _ in 0..run.transactions {
            let number = cx.random();
            self.life.begun.borrow_mut().insert((cx.host().0, cx.worker().0), number as i64);
            match self.session.attempt(|txn| rows::transaction(cx, txn, run, &run.mix, number)) {
                Ok(()) => self.committed(number),
                Err(TxnError::Conflict(_)) => self.session.back_off(1),
                Err(TxnError::Rollback | TxnError::OutOfMemory { .. }) => {}
                Err(TxnError::LogFull { .. }) if self.life.full.get() => {
                    self.life.refused.set(self.life.refused.get() + 1);
                    (0..50).for_each(|_| self.session.pause());
                }
                Err(TxnError::LogFailed | TxnError::NotRestored { .. }) if self.life.faulty.get() => break,
                Err(other) => panic!("a transaction failed: {other}"),
            }
            self.acknowledge();
        }
        while !self.waiting.is_empty() {
            self.acknowledge();
            self.session.pause();
        }
        self.life.running.set(self.life.running.get() - 1);
        while self.life.running.get() > 0 {
            self.session.serve();
            cx.pause();
        }
        self.session.serve();
    }

    fn committed(&mut self, number: u64) {
        let cx = self.session.cx();
        let id = self.recorder.last_of(cx.host().0, cx.worker().0).expect("it has just committed");
        self.life.values.borrow_mut().insert(id, number as i64);
        self.waiting.push_back((id, self.session.ticket()));
    }

    /// Answers those whose transactions are durable.
    fn acknowledge(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|(id, ticket)| match self.session.is_durable(*ticket) {
            Ok(durable) => {
                if durable {
                    self.life.acknowledged.borrow_mut().insert(*id);
                }
                !durable
            }
            Err(error) => {
                assert!(self.life.faulty.get(), "{error}");
                false
            }
        });
        self.waiting = waiting;
    }
}
