//! A transaction that counts what it is asked for, and shows some rows damaged.

use std::ops::ControlFlow;

use liger_engine::row::Census;
use liger_engine::{Announced, Key, KeyRange, NewRow, RowMut, TableId};
use liger_sql::Result;
use liger_sql::storage::access::{Access, Reads, Traffic};

/// The transaction `below`, watched.
pub struct Watched<'a> {
    pub below: &'a mut dyn Access,
    /// Rows that were looked up by their keys, locked or not.
    pub lookups: usize,
    /// Where rows were changed, and how many bytes.
    pub put: Vec<(usize, usize)>,
    /// Rows that were inserted and deleted, in this order.
    pub changed: Vec<(TableId, Key)>,
    /// A row that scans show damaged.
    pub damaged: Option<Key>,
}

impl<'a> Watched<'a> {
    pub fn new(below: &'a mut dyn Access) -> Self {
        Self { below, lookups: 0, put: Vec::new(), changed: Vec::new(), damaged: None }
    }
}

impl Access for Watched<'_> {
    fn set_reads(&mut self, reads: Reads) {
        self.below.set_reads(reads);
    }

    fn changes_row(&mut self, table: TableId, key: &Key) -> bool {
        self.below.changes_row(table, key)
    }

    fn places(&self) -> u16 {
        self.below.places()
    }

    fn is_own(&self, place: u16) -> bool {
        self.below.is_own(place)
    }

    fn host(&self) -> u8 {
        self.below.host()
    }

    fn is_member(&self, host: u8) -> bool {
        self.below.is_member(host)
    }

    fn undoes(&mut self, begins: bool) {
        self.below.undoes(begins);
    }

    fn random(&self) -> u64 {
        self.below.random()
    }

    fn now_ns(&self) -> u64 {
        self.below.now_ns()
    }

    fn worker(&self) -> u8 {
        self.below.worker()
    }

    fn census(&self, table: TableId, place: u16, range: &KeyRange) -> Census {
        self.below.census(table, place, range)
    }

    fn traffic(&self) -> Traffic {
        self.below.traffic()
    }

    fn is_left_out(&self, step: &'static str) -> bool {
        self.below.is_left_out(step)
    }

    fn key_of(&self, table: TableId, row: &[u8]) -> Key {
        self.below.key_of(table, row)
    }

    fn announce(&mut self, rows: &[Announced]) {
        self.below.announce(rows);
    }

    fn get(&mut self, table: TableId, key: &Key, see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.lookups += 1;
        self.below.get(table, key, see)
    }

    fn update(&mut self, table: TableId, key: &Key, change: &mut dyn FnMut(&mut RowMut<'_>)) -> Result<bool> {
        self.lookups += 1;
        let put = &mut self.put;
        self.below.update(table, key, &mut |row| {
            let (mut before, mut after) = (Vec::new(), Vec::new());
            row.copy_to(&mut before);
            change(row);
            row.copy_to(&mut after);
            let mut changed = (0..before.len()).filter(|at| before[*at] != after[*at]);
            let (first, last) = (changed.clone().next(), changed.next_back());
            put.extend(first.zip(last).map(|(first, last)| (first, last + 1 - first)));
        })
    }

    fn take_if_free(
        &mut self,
        table: TableId,
        key: &Key,
        see: &mut dyn FnMut(&mut RowMut<'_>),
    ) -> Result<bool> {
        self.lookups += 1;
        self.below.take_if_free(table, key, see)
    }

    fn get_if_free(&mut self, table: TableId, key: &Key, see: &mut dyn FnMut(&[u8])) -> Result<Option<bool>> {
        self.lookups += 1;
        self.below.get_if_free(table, key, see)
    }

    fn peek(
        &mut self,
        table: TableId,
        range: &KeyRange,
        see: &mut dyn FnMut(&Key, &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.below.peek(table, range, see)
    }

    fn insert(&mut self, table: TableId, row: &NewRow) -> Result<bool> {
        self.changed.push((table, self.below.key_of(table, row.bytes())));
        self.below.insert(table, row)
    }

    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool> {
        self.lookups += 1;
        self.changed.push((table, *key));
        self.below.delete(table, key)
    }

    fn scan(
        &mut self,
        table: TableId,
        range: &KeyRange,
        see: &mut dyn FnMut(&Key, &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let damaged = self.damaged;
        self.below.scan(table, range, &mut |key, row| match damaged == Some(*key) {
            true => see(key, &vec![0xff; row.len()]),
            false => see(key, row),
        })
    }
}
