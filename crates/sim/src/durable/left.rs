//! What a life leaves, judged when it is known what survived.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use liger_engine::log::record::epoch_of;
use liger_engine::recovery::Plan;

use super::salvage::{self, Named};
use super::{DurableResult, LOADED, Life, Rows, Storage};
use crate::Picker;
use crate::history::{Change, History, Key as HistoryKey, Operation, Outcome, Transaction};
use crate::pod::{Kept, SimPod};
use crate::rows::{RowsRun, keys_of};
use crate::serializability;

/// What a life leaves.
pub(super) struct Left<M> {
    pub history: History,
    pub life: Rc<Life>,
    /// What has outlived the hosts, if anything has.
    pub memory: Option<SimPod<M>>,
    /// Then, once it was salvaged: the transactions that logs have records of.
    pub logged: Option<BTreeSet<Named>>,
}

/// The version of what it wrote; `None` if it only read.
fn version(transaction: &Transaction) -> Option<u64> {
    transaction.operations.iter().find_map(|operation| match operation {
        Operation::Write { change, .. } => Some(change.installed()),
        _ => None,
    })
}

impl<M: Kept> Left<M> {
    /// The pod's next generation, and up to which epoch the one before counts.
    pub fn begin(
        &mut self,
        storage: &Storage,
        pick: &mut Picker,
        result: &mut DurableResult,
    ) -> Result<(u64, Plan), String> {
        let Some(mut pod) = self.memory.take() else { return storage.begin(pick) };
        let salvaged = salvage::begin(&mut pod, storage, pick);
        // What was reached before is in it.
        let report = pod.sim.run();
        match result.salvages {
            0 => result.report = report,
            _ => result.has_reached(report),
        }
        result.salvages += 1;
        let (durable, plan, logged) = salvaged?;
        self.logged = Some(logged);
        Ok((durable, plan))
    }

    /// The transactions that survive if everything up to `durable` counts.
    fn of_those(&mut self, durable: u64, result: &mut DurableResult) -> Vec<Transaction> {
        let acknowledged = self.life.acknowledged.borrow();
        let survives = |transaction: &mut Transaction| {
            let version = version(transaction);
            if let Some(logged) = &self.logged {
                // Whoever returned was acknowledged.
                let is_logged = |version| logged.contains(&(transaction.host, transaction.worker, version));
                if transaction.outcome == Outcome::Unknown && version.is_some_and(is_logged) {
                    transaction.commit(None);
                    result.in_doubt += 1;
                }
                return transaction.outcome == Outcome::Committed;
            }
            let told = acknowledged.contains(&transaction.id);
            let Some(epoch) = version.map(epoch_of) else { return told };
            if epoch > durable {
                result.lost += 1;
                if told {
                    let what = format!("acknowledged, of epoch {epoch}, {durable} counts: {transaction}");
                    result.problems.push(what);
                }
            }
            epoch <= durable
        };
        let mut transactions = std::mem::take(&mut self.history.transactions);
        transactions.retain_mut(survives);
        transactions
    }

    /// The rows that the next life must have if everything up to `durable` counts, and what is wrong with
    /// that.
    pub fn survivors(mut self, run: &RowsRun, rows: &Rows, durable: u64, result: &mut DurableResult) -> Rows {
        let transactions = self.of_those(durable, result);
        let mut history = History { initial: self.history.initial, transactions };
        let verdict = serializability::check(&history);
        let mut problems: Vec<String> =
            verdict.anomalies.iter().map(|anomaly| format!("of what survived: {anomaly}")).collect();
        // Those in doubt come last in the history.
        history.transactions.sort_by_key(|transaction| version(transaction).unwrap_or(0));
        let (values, begun) = (self.life.values.borrow(), self.life.begun.borrow());
        let mut rows = rows.clone();
        let parts = 0..run.partitions() as i16;
        let all = parts.flat_map(|part| (0..run.keys).map(move |id| (part, id)));
        // By the keys of rows and of their index entries.
        let numbered = all.flat_map(|(part, id)| {
            let keys = keys_of(part, id).into_iter().enumerate();
            keys.map(move |(n, key)| (key, (n, (part, id))))
        });
        let named: BTreeMap<HistoryKey, (usize, (i16, i32))> = numbered.collect();
        for transaction in &history.transactions {
            for operation in &transaction.operations {
                let Operation::Write { key, change } = operation else { continue };
                let Some(&(n, at)) = named.get(key) else { continue };
                match change {
                    Change::Delete { .. } => _ = rows.remove(&at),
                    Change::Insert { new } | Change::Update { new, .. } => {
                        // What did not return is what its worker did last.
                        let last = || begun.get(&(transaction.host, transaction.worker));
                        let last = || last().filter(|_| self.logged.is_some());
                        let value = values.get(&transaction.id).or_else(last).copied();
                        problems.extend(value.is_none().then(|| format!("it never returned: {transaction}")));
                        let row = rows.entry(at).or_insert(LOADED);
                        row.versions[n] = *new;
                        row.value = value.unwrap_or_default();
                    }
                }
            }
        }
        result.problems.extend(problems);
        rows
    }
}
