//! A database in ordered maps, for tests: one transaction at a time, undone when its body fails.
//!
//! It can be told to be wrong, so that the tests know that wrong databases are found: to lose some updates of
//! a table, and to answer some attempts with a conflict. It holds every transaction that commits to what it
//! announced: rows to be updated are, rows to be read are read only.

#![allow(dead_code, reason = "no test file uses all of it")]

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use liger_engine::{
    Access, Announced, Col, ColType, Conflict, IndexId, Key, KeyRange, NewRow, PatchRange, Patches, Row,
    RowMut, Session, TableId, TableLayout, Transaction, TxnError,
};
use liger_fabric::{Cx, DataAddr, Fabric, HostId, SyncAddr, WorkerId};
use liger_workload::benchmark::{Benchmark, catalog_of};
use liger_workload::driver::{Length, RunConfig};
use liger_workload::tpcc::Scale;
use liger_workload::tpcc::check::{Acknowledged, Findings, Snapshot, check};
use liger_workload::tpcc::input::{Mix, Remote};
use liger_workload::tpcc::load::Loader;
use liger_workload::tpcc::schema::Tables;
use liger_workload::tpcc::workload::TpccWorker;

pub struct Table {
    layout: TableLayout,
    pub rows: BTreeMap<Key, Vec<u8>>,
    /// Entries of each index: index key to primary key.
    indexes: Vec<(TableId, BTreeMap<Key, Key>)>,
}

enum Undo {
    Put(TableId, Key, Vec<u8>),
    Remove(TableId, Key),
}

/// The database and its one running transaction.
#[derive(Default)]
pub struct Memory {
    pub tables: BTreeMap<TableId, Table>,
    undo: Vec<Undo>,
    /// What the running transaction announced, and what it read and changed.
    announced: Vec<Announced>,
    read: BTreeSet<(TableId, Key)>,
    changed: BTreeSet<(TableId, Key)>,
    /// How many announcements were kept.
    pub kept: u64,
    /// Of this table, every n-th update is lost.
    pub lose: Option<(TableId, u64)>,
    updates: u64,
    /// Every n-th operation meets a conflict.
    pub conflict_every: Option<u64>,
    operations: u64,
    pub attempts: u64,
}

impl Table {
    fn index_keys(&self, row: &[u8]) -> Vec<Key> {
        self.layout.indexes.iter().map(|index| index.key.key_of(row)).collect()
    }

    fn put(&mut self, key: Key, row: Vec<u8>) -> Option<Vec<u8>> {
        let keys = self.index_keys(&row);
        for ((_, entries), entry) in self.indexes.iter_mut().zip(keys) {
            entries.insert(entry, key);
        }
        self.rows.insert(key, row)
    }

    fn remove(&mut self, key: &Key) -> Option<Vec<u8>> {
        let row = self.rows.remove(key)?;
        let keys = self.index_keys(&row);
        for ((_, entries), entry) in self.indexes.iter_mut().zip(keys) {
            entries.remove(&entry).expect("an entry for every row");
        }
        Some(row)
    }
}

fn in_range<'a, V>(map: &'a BTreeMap<Key, V>, range: &'a KeyRange) -> impl Iterator<Item = (&'a Key, &'a V)> {
    map.range(range.low..).take_while(|(key, _)| !range.ends_before(key))
}

impl Memory {
    pub fn create_tables(&mut self) -> Tables {
        let mut next = 0;
        let mut number = || {
            next += 1;
            TableId(next)
        };
        Tables::create(|schema| {
            let table = number();
            let layout = schema.layout()?;
            let indexes: Vec<_> = layout.indexes.iter().map(|_| (number(), BTreeMap::new())).collect();
            let ids = indexes.iter().map(|(id, _)| IndexId(*id)).collect();
            self.tables.insert(table, Table { layout, rows: BTreeMap::new(), indexes });
            Ok::<_, liger_engine::SchemaError>((table, ids))
        })
        .expect("valid schemas")
    }

    pub fn load_row(&mut self, table: TableId, row: &NewRow) {
        let table = self.table(table);
        let key = table.layout.primary.key_of(row.bytes());
        assert!(table.put(key, row.bytes().to_vec()).is_none(), "loaded twice: {key:?}");
    }

    fn table(&mut self, table: TableId) -> &mut Table {
        self.tables.get_mut(&table).expect("a table")
    }

    /// Changes a column behind every transaction's back: the corruption that a check must find.
    pub fn corrupt<T: ColType>(&mut self, table: TableId, key: &Key, col: Col<T>, value: T::Value<'_>) {
        self.change(table, key, |row| row.set(col, value)).expect("the row to corrupt");
    }

    fn change<R>(&mut self, table: TableId, key: &Key, f: impl FnOnce(&mut RowMut<'_>) -> R) -> Option<R> {
        let table = self.table(table);
        let mut row = table.rows.get(key)?.clone();
        let (mut patches, mut range) = (Patches::new(), PatchRange::default());
        let result = f(&mut patches.row(&table.rows[key], &mut range));
        patches.apply(range, &mut row);
        table.remove(key);
        table.put(*key, row);
        Some(result)
    }

    fn operation(&mut self) -> Result<(), TxnError> {
        self.operations += 1;
        match self.conflict_every {
            Some(every) if self.operations.is_multiple_of(every) => Err(Conflict::WriteLocked.into()),
            _ => Ok(()),
        }
    }

    fn change_and_log<R>(
        &mut self,
        table: TableId,
        key: &Key,
        f: impl FnOnce(&mut RowMut<'_>) -> R,
    ) -> Option<R> {
        let before = self.table(table).rows.get(key)?.clone();
        let result = self.change(table, key, f);
        if let Some((of, every)) = self.lose
            && of == table
        {
            self.updates += 1;
            if self.updates.is_multiple_of(every) {
                self.table(table).put(*key, before);
                return result;
            }
        }
        self.undo.push(Undo::Put(table, *key, before));
        result
    }

    fn roll_back(&mut self) {
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Put(table, key, row) => drop(self.table(table).put(key, row)),
                Undo::Remove(table, key) => drop(self.table(table).remove(&key)),
            }
        }
    }

    /// Whether the transaction has done what it announced.
    fn hold_to_announced(&mut self) {
        for row in std::mem::take(&mut self.announced) {
            let Announced { table, key, access, .. } = row;
            let (read, changed) = (self.read.contains(&(table, key)), self.changed.contains(&(table, key)));
            match access {
                Access::Read => assert!(read && !changed, "read? {read} changed? {changed} {row:?}"),
                Access::Update => assert!(changed, "not changed: {row:?}"),
            }
            self.kept += 1;
        }
    }

    /// All bytes of the database, folded.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for (id, table) in &self.tables {
            let rows = table.rows.values().flatten().copied();
            for byte in id.0.to_le_bytes().into_iter().chain(rows) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
        hash
    }
}

impl Transaction for Memory {
    fn announce(&mut self, rows: &[Announced]) {
        self.announced.extend_from_slice(rows);
    }

    fn get<R>(
        &mut self,
        table: TableId,
        key: &Key,
        f: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>, TxnError> {
        self.operation()?;
        self.read.insert((table, *key));
        Ok(self.table(table).rows.get(key).map(|row| f(Row::new(row))))
    }

    fn update<R>(
        &mut self,
        table: TableId,
        key: &Key,
        f: impl FnOnce(&mut RowMut<'_>) -> R,
    ) -> Result<Option<R>, TxnError> {
        self.operation()?;
        self.changed.insert((table, *key));
        Ok(self.change_and_log(table, key, f))
    }

    fn insert(&mut self, id: TableId, row: &NewRow) -> Result<(), TxnError> {
        self.operation()?;
        let table = self.table(id);
        assert_eq!(row.bytes().len(), table.layout.row_len);
        let key = table.layout.primary.key_of(row.bytes());
        if table.rows.contains_key(&key) {
            return Err(TxnError::DuplicateKey { index: id });
        }
        table.put(key, row.bytes().to_vec());
        self.undo.push(Undo::Remove(id, key));
        Ok(())
    }

    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool, TxnError> {
        self.operation()?;
        self.changed.insert((table, *key));
        let row = self.table(table).remove(key);
        let found = row.is_some();
        self.undo.extend(row.map(|row| Undo::Put(table, *key, row)));
        Ok(found)
    }

    fn scan(
        &mut self,
        table: TableId,
        range: &KeyRange,
        mut visit: impl FnMut(&Key, Row<'_>) -> ControlFlow<()>,
    ) -> Result<(), TxnError> {
        self.operation()?;
        let rows = &self.table(table).rows;
        let _ = in_range(rows, range).try_for_each(|(key, row)| visit(key, Row::new(row)));
        Ok(())
    }

    fn update_range(
        &mut self,
        table: TableId,
        range: &KeyRange,
        mut visit: impl FnMut(&Key, &mut RowMut<'_>) -> ControlFlow<()>,
    ) -> Result<(), TxnError> {
        self.operation()?;
        let keys: Vec<Key> = in_range(&self.table(table).rows, range).map(|(key, _)| *key).collect();
        for key in keys {
            if self.change_and_log(table, &key, |row| visit(&key, row)) == Some(ControlFlow::Break(())) {
                break;
            }
        }
        Ok(())
    }

    fn scan_index(
        &mut self,
        index: IndexId,
        range: &KeyRange,
        mut visit: impl FnMut(Row<'_>) -> ControlFlow<()>,
    ) -> Result<(), TxnError> {
        self.operation()?;
        for table in self.tables.values() {
            for (_, entries) in table.indexes.iter().filter(|(id, _)| *id == index.0) {
                let _ = in_range(entries, range).try_for_each(|(_, key)| visit(Row::new(&table.rows[key])));
            }
        }
        Ok(())
    }
}

impl Session for Memory {
    type Txn = Memory;

    fn attempt<R>(&mut self, body: impl FnOnce(&mut Memory) -> Result<R, TxnError>) -> Result<R, TxnError> {
        self.attempts += 1;
        let result = body(self);
        match result {
            Ok(_) => {
                self.undo.clear();
                self.hold_to_announced();
            }
            Err(_) => self.roll_back(),
        }
        self.announced.clear();
        self.read.clear();
        self.changed.clear();
        result
    }

    fn back_off(&mut self, _conflicts: u32) {}

    fn pause(&mut self) {}
}

impl Snapshot for Memory {
    fn rows(&self, table: TableId, visit: &mut dyn FnMut(Row<'_>)) {
        self.tables[&table].rows.values().for_each(|row| visit(Row::new(row)));
    }
}

/// A pod without memory, whose clock moves by a microsecond whenever it is read.
#[derive(Default)]
pub struct ClockOnly(Cell<u64>);

impl Fabric for ClockOnly {
    const CHECKED: bool = false;
    fn load(&self, _: SyncAddr) -> u64 {
        unreachable!()
    }
    fn store(&self, _: SyncAddr, _: u64) {
        unreachable!()
    }
    fn compare_exchange(&self, _: SyncAddr, _: u64, _: u64) -> Result<u64, u64> {
        unreachable!()
    }
    fn read(&self, _: DataAddr, _: &mut [u8]) {
        unreachable!()
    }
    fn write(&self, _: DataAddr, _: &[u8]) {
        unreachable!()
    }
    fn write_back(&self, _: DataAddr, _: usize) {
        unreachable!()
    }
    fn invalidate(&self, _: DataAddr, _: usize) {
        unreachable!()
    }
    fn fence(&self) {}
    fn now_ns(&self) -> u64 {
        self.0.set(self.0.get() + 1000);
        self.0.get()
    }
    fn pause(&self) {}
}

pub const DATABASE_SEED: u64 = 20;

pub fn cx(seed: u64) -> Cx<ClockOnly> {
    Cx::new(ClockOnly::default(), HostId(1), WorkerId(2), seed)
}

/// A loaded database of any workload.
pub fn loaded_with<B: Benchmark>(benchmark: &B) -> Memory {
    let catalog = catalog_of(&benchmark.schemas());
    let mut memory = Memory::default();
    for schema in benchmark.schemas() {
        let table = catalog.table_named(&schema.name).expect("a table of the catalog");
        let (layout, ids) = catalog.relation(table).unwrap().table().unwrap();
        let indexes = ids.iter().map(|id| (id.0, BTreeMap::new())).collect();
        let (layout, rows) = (layout.clone(), BTreeMap::new());
        memory.tables.insert(table, Table { layout, rows, indexes });
    }
    let mut emit = |table, row: &NewRow| {
        memory.load_row(table, row);
        Ok::<_, std::convert::Infallible>(())
    };
    benchmark.load_replicated(&mut emit).unwrap();
    (0..benchmark.partitions()).for_each(|p| benchmark.load_partition(p, &mut emit).unwrap());
    memory
}

/// A loaded database.
pub fn loaded(scale: Scale) -> (Memory, Tables) {
    let mut memory = Memory::default();
    let tables = memory.create_tables();
    let loader = Loader::new(tables, scale, DATABASE_SEED, 1);
    let mut emit = |table, row: &NewRow| {
        memory.load_row(table, row);
        Ok::<_, std::convert::Infallible>(())
    };
    loader.load_items(&mut emit, |_| ()).unwrap();
    (1..=scale.warehouses).for_each(|w| loader.load_warehouse(w, &mut emit, |_| ()).unwrap());
    (memory, tables)
}

/// A worker and how it runs.
#[derive(Clone)]
pub struct Plan {
    pub worker: TpccWorker,
    pub config: RunConfig,
}

pub fn plan(tables: Tables, scale: Scale, transactions: u64) -> Plan {
    let homes = (1..=scale.warehouses).collect();
    let (mix, remote) = (Mix::Spec, Remote::Spec);
    Plan {
        worker: TpccWorker { tables, scale, database_seed: DATABASE_SEED, mix, remote, homes, follows: None },
        config: RunConfig::new(Length::Transactions { warm_up: 0, measured: transactions }),
    }
}

pub fn findings(memory: &Memory, tables: &Tables, scale: &Scale) -> Findings {
    check(memory, tables, scale, DATABASE_SEED, Acknowledged::Unknown)
}
