//! Records what the engine commits as a [`History`].

use std::collections::BTreeMap;
use std::sync::Mutex;

use liger_engine::history::{HistorySink, TxnRecord, WriteKind};
use liger_engine::log::record::moment_of;

use crate::history::{Change, History, Key, Operation, Transaction, Version};

/// Bits of a place in the commit order that tell transactions of one time apart.
const NUMBER_BITS: u32 = 20;

/// A sink that keeps everything. Commit order is the order of the calls, which is right where one thread
/// makes them all (the simulator), or that of the transactions' own times; elsewhere use
/// [`Recorder::unordered`].
#[derive(Default)]
pub struct Recorder {
    transactions: Mutex<Vec<Transaction>>,
    /// By the number of a transaction: as of which moment it has read.
    as_of: Mutex<BTreeMap<u64, u64>>,
    /// By host and worker: what was about to commit. It has, or it never returned.
    committing: Mutex<BTreeMap<(u8, u8), TxnRecord>>,
    unordered: bool,
}

impl Recorder {
    /// A recorder for callers on several threads, whose order means nothing.
    pub fn unordered() -> Self {
        Self { unordered: true, ..Self::default() }
    }

    /// The history so far, on top of rows that were loaded with version 0.
    pub fn history(&self, initial: Vec<(Key, u64)>) -> History {
        let mut transactions = self.lock().clone();
        let as_of = self.as_of.lock().expect("a recorder's calls do not panic");
        if !as_of.is_empty() {
            order_by_moments(&mut transactions, &as_of);
        }
        History { initial, transactions }
    }

    /// What a transaction that has just committed should have seen and has not, if it has read as of a
    /// moment: one of the first `before` transactions, which had committed before it began.
    pub fn misses(&self, id: u64, before: usize) -> Option<String> {
        let moment = *self.as_of.lock().expect("a recorder's calls do not panic").get(&id)?;
        let all = self.lock();
        let missed =
            all.iter().take(before).find(|txn| moment_made(txn).is_some_and(|made| made > moment))?;
        Some(format!(
            "transaction {id} reads as of {moment}, and {} had committed later: {missed:?}",
            missed.id
        ))
    }

    /// What the workers of a host that died were about to commit goes to the history: nobody knows whether it
    /// has committed.
    pub fn bury(&self, host: u8) {
        let mut committing = self.committing.lock().expect("a recorder's calls do not panic");
        let (died, live) = std::mem::take(&mut *committing).into_iter().partition(|(by, _)| by.0 == host);
        *committing = live;
        let died: BTreeMap<(u8, u8), TxnRecord> = died;
        let mut all = self.lock();
        for record in died.values() {
            let number = all.len() as u64;
            all.push(transaction(number, record));
        }
    }

    /// The last transaction of a worker so far.
    pub fn last_of(&self, host: u8, worker: u8) -> Option<u64> {
        let all = self.lock();
        all.iter().rfind(|txn| (txn.host, txn.worker) == (host, worker)).map(|txn| txn.id)
    }

    /// The same, of those that have not read as of a moment.
    pub fn last_locked_of(&self, host: u8, worker: u8) -> Option<u64> {
        let as_of = self.as_of.lock().expect("a recorder's calls do not panic");
        let is_its = |txn: &&Transaction| (txn.host, txn.worker) == (host, worker);
        self.lock().iter().filter(is_its).rfind(|txn| !as_of.contains_key(&txn.id)).map(|txn| txn.id)
    }

    /// What a transaction has replaced in a table that another one has read for it, as of a moment, and that
    /// was not as it had seen it: somebody else's change is lost then. A row that others have removed since
    /// may be made again.
    pub fn lost_update(&self, (id, read): (u64, u64), table: u16) -> Option<String> {
        let moment = *self.as_of.lock().expect("a recorder's calls do not panic").get(&read)?;
        let all = self.lock();
        let [by, reader] = [id, read].map(|id| all.iter().find(|txn| txn.id == id));
        let (by, reader) = (by?, reader?);
        by.operations.iter().find_map(|operation| {
            let Operation::Write { key, change } = operation else { return None };
            let previous = change.previous().filter(|_| key.table == table)?;
            let differs = |read| version_seen(read, key).is_some_and(|seen| seen != Some(previous));
            let is_lost = moment_of(previous) > moment || reader.operations.iter().any(differs);
            is_lost.then(|| {
                format!(
                    "transaction {id} replaces {key} v{previous}, newer than {moment}: {by}reads {reader}"
                )
            })
        })
    }

    /// Transactions so far.
    #[expect(clippy::len_without_is_empty, reason = "a count, not a collection")]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Transaction>> {
        self.transactions.lock().expect("a recorder's calls do not panic")
    }
}

/// The version of a row that a read has seen, if it has looked there.
fn version_seen(read: &Operation, key: &Key) -> Option<Option<Version>> {
    match read {
        Operation::Read { key: at, seen } => (at == key).then_some(*seen),
        Operation::Range { table, low, high, seen } => {
            let is_below = high.as_ref().is_none_or(|high| key.words < *high);
            let found = seen.iter().find(|(words, _)| *words == key.words).map(|(_, version)| *version);
            (*table == key.table && *low <= key.words && is_below).then_some(found)
        }
        Operation::Write { .. } => None,
    }
}

/// The moment of a transaction's version, if it has changed anything.
fn moment_made(txn: &Transaction) -> Option<u64> {
    let made = |operation: &Operation| match operation {
        Operation::Write { change, .. } => Some(moment_of(change.installed())),
        _ => None,
    };
    txn.operations.iter().find_map(made)
}

/// Transactions in the order of their moments, those of one moment as they committed; who has read as of a
/// moment comes behind all of that. Conflicts are in the order of moments; who has changed nothing, and held
/// locks, comes behind all that had committed by then.
fn order_by_moments(transactions: &mut [Transaction], as_of: &BTreeMap<u64, u64>) {
    let mut newest = 0;
    let mut places = Vec::new();
    for (i, txn) in transactions.iter().enumerate().filter(|(_, txn)| txn.order.is_some()) {
        let place = match (as_of.get(&txn.id), moment_made(txn)) {
            (Some(moment), _) => (*moment, true, i),
            (None, made) => {
                newest = newest.max(made.unwrap_or(0));
                (made.unwrap_or(newest), false, i)
            }
        };
        places.push(place);
    }
    places.sort_unstable();
    for (order, (_, _, i)) in (0..).zip(places) {
        transactions[i].order = Some(order);
    }
}

fn key(table: liger_engine::TableId, key: &liger_engine::Key) -> Key {
    Key::new(table.0, key.words())
}

/// What a record says, with an unknown outcome.
fn transaction(number: u64, record: &TxnRecord) -> Transaction {
    let mut txn = Transaction::new(number, record.host.0, record.worker.0);
    for read in &record.reads {
        txn.read(key(read.table, &read.key), read.version);
    }
    for range in &record.ranges {
        let high = range.range.high.map(|high| high.words().to_vec());
        let seen = range.found.iter().map(|(key, version)| (key.words().to_vec(), *version)).collect();
        txn.range(key(range.table, &range.range.low), high, seen);
    }
    for write in &record.writes {
        let (previous, new) = (write.previous.unwrap_or(0), write.version);
        let change = match write.kind {
            WriteKind::Insert => Change::Insert { new },
            WriteKind::Update => Change::Update { previous, new },
            WriteKind::Delete => Change::Delete { previous, new },
        };
        txn.write(key(write.table, &write.key), change);
    }
    txn
}

impl HistorySink for Recorder {
    fn committing(&self, record: &TxnRecord) {
        let mut committing = self.committing.lock().expect("a recorder's calls do not panic");
        committing.insert((record.host.0, record.worker.0), record.clone());
    }

    fn committed(&self, record: &TxnRecord) {
        let mut committing = self.committing.lock().expect("a recorder's calls do not panic");
        committing.remove(&(record.host.0, record.worker.0));
        drop(committing);
        let mut all = self.lock();
        let number = all.len() as u64;
        let mut txn = transaction(number, record);
        assert!(
            record.time == 0 || number < 1 << NUMBER_BITS,
            "more transactions than their order has room for"
        );
        if let Some(moment) = record.as_of {
            self.as_of.lock().expect("a recorder's calls do not panic").insert(number, moment);
        }
        txn.commit((!self.unordered).then_some(record.time << NUMBER_BITS | number));
        all.push(txn);
    }
}
