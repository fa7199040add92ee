//! Records what the engine commits as a [`History`].

use std::sync::Mutex;

use liger_engine::history::{HistorySink, TxnRecord, WriteKind};

use crate::history::{Change, History, Key, Transaction};

/// A sink that keeps everything. Commit order is the order of the calls, which is right where one thread
/// makes them all (the simulator); elsewhere use [`Recorder::unordered`].
#[derive(Default)]
pub struct Recorder {
    transactions: Mutex<Vec<Transaction>>,
    unordered: bool,
}

impl Recorder {
    /// A recorder for callers on several threads, whose order means nothing.
    pub fn unordered() -> Self {
        Self { unordered: true, ..Self::default() }
    }

    /// The history so far, on top of rows that were loaded with version 0.
    pub fn history(&self, initial: Vec<(Key, u64)>) -> History {
        History { initial, transactions: self.lock().clone() }
    }

    /// The last transaction of a worker so far.
    pub fn last_of(&self, host: u8, worker: u8) -> Option<u64> {
        let all = self.lock();
        all.iter().rfind(|txn| (txn.host, txn.worker) == (host, worker)).map(|txn| txn.id)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Transaction>> {
        self.transactions.lock().expect("a recorder's calls do not panic")
    }
}

fn key(table: liger_engine::TableId, key: &liger_engine::Key) -> Key {
    Key::new(table.0, key.words())
}

impl HistorySink for Recorder {
    fn committed(&self, record: &TxnRecord) {
        let mut all = self.lock();
        let number = all.len() as u64;
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
        txn.commit((!self.unordered).then_some(number));
        all.push(txn);
    }
}
