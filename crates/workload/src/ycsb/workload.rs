//! One worker's transactions.

use std::ops::ControlFlow;

use liger_engine::{Access, Announced, Key, NewRow, TableId, Transaction, TxnError};

use super::row::{self, Id};
use super::{Mode, Placement, Ycsb};
use crate::driver::{Effects, RunWorker, Workload};
use crate::random::Rng;
use crate::zipf::Zipf;

/// Operations of a transaction that reads and changes rows.
pub const OPERATIONS: usize = 10;
/// Scans of a transaction that scans, and rows of each.
pub const SCANS: usize = 2;
/// See [`SCANS`].
pub const SCANNED: u32 = 10;
/// Rows that the artifact's first operation is drawn from.
const FIRST_KEYS: u32 = 150;
/// Runs whose workers insert rows of their own.
pub(super) const RUNS: u32 = 8;

/// Rows changed, by their place in the effects.
pub const UPDATES: &str = "updates";
/// Rows inserted.
pub const INSERTS: &str = "inserts";
/// Rows deleted.
pub const DELETES: &str = "deletes";
/// Sum of the hashes of the keys inserted.
pub const INSERTED_KEYS: &str = "inserted_keys";
/// Sum of the hashes of the keys deleted.
pub const DELETED_KEYS: &str = "deleted_keys";

/// What one worker runs.
#[derive(Clone, Debug)]
pub struct YcsbWorker {
    pub(super) table: TableId,
    pub(super) ycsb: Ycsb,
    /// Homes on the worker's host.
    pub(super) homes: Vec<u16>,
    /// Its number among the workers of its host, and how many these are.
    pub(super) worker: (u32, u32),
}

/// An input.
#[derive(Clone, Copy, Debug)]
pub enum Input {
    /// Reads rows, and changes some of them.
    Rmw([(Id, Access); OPERATIONS]),
    /// Reads ranges that begin at these homes' rows with these numbers.
    Scan([(u16, u32); SCANS]),
    /// Inserts a row.
    Insert(Id),
    /// Deletes a row.
    Delete(Id),
}

/// A worker's stream of inputs.
#[derive(Debug)]
pub struct Source {
    rng: Rng,
    zipf: Zipf,
    /// Which numbers this worker's rows have, of how many workers' in how many runs.
    stripe: u32,
    stripes: u32,
    /// Rows inserted, and those of them that were deleted again, the oldest first.
    inserted: u32,
    deleted: u32,
    row: NewRow,
}

impl Source {
    /// A home of this host, and another one if the transaction is to cross.
    fn homes(rng: &mut Rng, worker: &YcsbWorker) -> (u16, Option<u16>) {
        let home = worker.homes[rng.below(worker.homes.len() as u64) as usize];
        let all = worker.ycsb.homes;
        let crosses = rng.percent(worker.ycsb.cross_percent) && all > 1;
        let other = || {
            let drawn = rng.below(u64::from(all) - 1) as u16;
            drawn + u16::from(drawn >= home)
        };
        (home, crosses.then(other))
    }

    fn rmw(&mut self, worker: &YcsbWorker) -> Input {
        let Ycsb { placement, read_percent, keys, .. } = worker.ycsb;
        let (home, other) = Self::homes(&mut self.rng, worker);
        let mut rows = [(Id::default(), Access::Read); OPERATIONS];
        for n in 0..OPERATIONS {
            let home = if n % 2 == 1 { other.unwrap_or(home) } else { home };
            let id = loop {
                let number = match (placement, n) {
                    (Placement::Paper, 0) => self.rng.below(keys.min(FIRST_KEYS).into()),
                    _ => self.zipf.draw(&mut self.rng),
                };
                let id = worker.ycsb.placing().id(home, number as u32);
                if rows[..n].iter().all(|(before, _)| *before != id) {
                    break id;
                }
            };
            let reads = self.rng.percent(read_percent);
            rows[n] = (id, if reads { Access::Read } else { Access::Update });
        }
        Input::Rmw(rows)
    }

    fn scan(&mut self, worker: &YcsbWorker) -> Input {
        let (home, other) = Self::homes(&mut self.rng, worker);
        let mut from = |home| (home, self.zipf.draw(&mut self.rng) as u32);
        Input::Scan([from(home), from(other.unwrap_or(home))])
    }

    /// The n-th row that this worker inserts: everything about it follows from that.
    fn own(&self, worker: &YcsbWorker, n: u32) -> Id {
        let mut rng = Rng::keyed(0x7963_7362, &[self.stripe.into(), n.into()]);
        let (home, other) = Self::homes(&mut rng, worker);
        let number = n.checked_mul(self.stripes).and_then(|n| n.checked_add(worker.ycsb.keys + self.stripe));
        let number = number.filter(|number| *number < i32::MAX as u32 - SCANNED);
        let number = number.expect("a run this long uses up all numbers");
        worker.ycsb.placing().id(other.unwrap_or(home), number)
    }

    fn insert(&mut self, worker: &YcsbWorker) -> Input {
        let id = self.own(worker, self.inserted);
        self.inserted += 1;
        Input::Insert(id)
    }

    /// Deletes the oldest row of this worker that is left, or inserts one.
    fn delete(&mut self, worker: &YcsbWorker) -> Input {
        if self.deleted == self.inserted {
            return self.insert(worker);
        }
        let id = self.own(worker, self.deleted);
        self.deleted += 1;
        Input::Delete(id)
    }
}

impl YcsbWorker {
    fn missing(&self, id: Id) -> TxnError {
        let (table, found) = (self.table, id.key().words()[0]);
        TxnError::Damaged { table, what: "database: a row is missing", found }
    }

    fn torn(&self, id: Id) -> TxnError {
        TxnError::Damaged { table: self.table, what: "row: not one version", found: id.key().words()[0] }
    }

    fn rmw<T: Transaction>(
        &self,
        txn: &mut T,
        rows: &[(Id, Access); OPERATIONS],
    ) -> Result<Effects, TxnError> {
        let Ycsb { change_bytes, check_reads, .. } = self.ycsb;
        let announced = rows.map(|(id, access)| match access {
            Access::Read => Announced::read(self.table, id.key()),
            Access::Update => Announced::update(self.table, id.key()),
        });
        txn.announce(&announced);
        let mut updates = 0;
        for ((id, access), Announced { key, .. }) in rows.iter().zip(&announced) {
            let good = match access {
                Access::Read => {
                    txn.get(self.table, key, |row| row::read(*id, change_bytes, row, check_reads))?
                }
                Access::Update => {
                    updates += 1;
                    txn.update(self.table, key, |row| row::change(*id, change_bytes, row, check_reads))?
                }
            };
            if !good.ok_or(self.missing(*id))? {
                return Err(self.torn(*id));
            }
        }
        Ok(Effects::NONE.with(0, updates))
    }

    fn scan<T: Transaction>(&self, txn: &mut T, from: &[(u16, u32); SCANS]) -> Result<Effects, TxnError> {
        let Ycsb { change_bytes, check_reads, keys, .. } = self.ycsb;
        for (home, number) in *from {
            for (first, rows) in self.ycsb.placing().runs(home, number, SCANNED) {
                let (mut loaded, mut torn) = (0, None);
                txn.scan(self.table, &first.range(rows), |_: &Key, row| {
                    let Some(id) = row::id_of(row) else { return ControlFlow::Break(()) };
                    loaded += u32::from(id.number < keys);
                    if !row::read(id, change_bytes, row, check_reads) {
                        torn = Some(id);
                    }
                    ControlFlow::Continue(())
                })?;
                if let Some(id) = torn {
                    return Err(self.torn(id));
                }
                // Nobody deletes loaded rows.
                if loaded != rows.min(keys.saturating_sub(first.number)) {
                    return Err(self.missing(first));
                }
            }
        }
        Ok(Effects::NONE)
    }
}

impl Workload for YcsbWorker {
    type Source = Source;
    type Input = Input;

    const KINDS: &'static [&'static str] = &["rmw", "scan", "insert", "delete"];
    const EFFECTS: &'static [&'static str] = &[UPDATES, INSERTS, DELETES, INSERTED_KEYS, DELETED_KEYS];

    fn has(&self, kind: usize) -> bool {
        self.ycsb.mode.cards()[kind] > 0
    }

    fn content_bytes(&self) -> u32 {
        self.ycsb.change_bytes.into()
    }

    fn source(&self, who: RunWorker, rng: Rng) -> Source {
        let (worker, workers) = self.worker;
        let of_run = u32::from(self.ycsb.homes) * workers;
        let stripe = u32::from(who.run) % RUNS * of_run + u32::from(who.host.0) * workers + worker;
        let zipf = Zipf::new(self.ycsb.keys.into(), self.ycsb.theta);
        let row = NewRow::default();
        Source { rng, zipf, stripe, stripes: RUNS * of_run, inserted: 0, deleted: 0, row }
    }

    fn draw(&self, source: &mut Source, _: i64) -> Input {
        let mut card = source.rng.below(100) as u32;
        let cards = self.ycsb.mode.cards();
        let kind = cards.iter().position(|share| {
            let here = card < *share;
            card = card.wrapping_sub(*share);
            here
        });
        match kind.expect("a hundred cards") {
            0 => source.rmw(self),
            1 => source.scan(self),
            2 => source.insert(self),
            _ => source.delete(self),
        }
    }

    fn kind(&self, input: &Input) -> usize {
        match input {
            Input::Rmw(_) => 0,
            Input::Scan(_) => 1,
            Input::Insert(_) => 2,
            Input::Delete(_) => 3,
        }
    }

    fn run<T: Transaction>(
        &self,
        source: &mut Source,
        txn: &mut T,
        input: &Input,
    ) -> Result<Effects, TxnError> {
        match input {
            Input::Rmw(rows) => self.rmw(txn, rows),
            Input::Scan(from) => self.scan(txn, from),
            Input::Insert(id) => {
                row::fill(*id, &mut source.row);
                txn.insert(self.table, &source.row)?;
                Ok(Effects::NONE.with(1, 1).with(3, id.hash()))
            }
            Input::Delete(id) => {
                // Its insert may have been given up.
                let deleted = u64::from(txn.delete(self.table, &id.key())?);
                Ok(Effects::NONE.with(2, deleted).with(4, deleted * id.hash()))
            }
        }
    }
}

/// The cards of a mode, by kind, of a hundred.
impl Mode {
    pub(super) const fn cards(self) -> [u32; 4] {
        match self {
            Mode::Rmw => [100, 0, 0, 0],
            Mode::Scan => [0, 100, 0, 0],
            Mode::InsertDelete => [0, 0, 50, 50],
            Mode::Mixed => [0, 80, 10, 10],
        }
    }
}
