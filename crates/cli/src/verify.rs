//! The whole database of all hosts, for the workload's check.

use std::cell::RefCell;
use std::time::Duration;

use liger_engine::{Catalog, Row, TableId};
use liger_workload::Snapshot;

use crate::control::{Answer, Order};
use crate::failure::Failure;
use crate::fleet::Fleet;
use crate::pod::{Line, PodDir};

/// A host hands over a piece of a table within this time.
const PATIENCE: Duration = Duration::from_secs(120);

/// All rows of all hosts, fetched table by table.
pub struct AllRows<'a> {
    fleet: RefCell<&'a mut Fleet>,
    catalog: &'a Catalog,
    failure: RefCell<Option<Failure>>,
}

impl<'a> AllRows<'a> {
    /// The rows of these hosts, which are at rest.
    pub fn new(fleet: &'a mut Fleet, catalog: &'a Catalog) -> Self {
        Self { fleet: RefCell::new(fleet), catalog, failure: RefCell::new(None) }
    }

    /// What went wrong while rows were fetched; the check has not seen all of them then.
    pub fn into_failure(self) -> Option<Failure> {
        self.failure.into_inner()
    }

    fn fetch(&self, table: TableId, visit: &mut dyn FnMut(Row<'_>)) -> Result<(), Failure> {
        let relation = self.catalog.relation(table).expect("a table of the catalog");
        let mut fleet = self.fleet.borrow_mut();
        // Every host has all of a replicated table.
        let hosts = if relation.replicated { 1 } else { fleet.len() };
        for host in 0..hosts {
            fleet.order(host, &Order::Dump { table: table.0 })?;
            while let (_, Answer::Rows { .. }, rows) = fleet.next(PATIENCE)? {
                assert!(rows.len().is_multiple_of(relation.row_len), "hosts hand over whole rows");
                rows.chunks_exact(relation.row_len).for_each(|row| visit(Row::new(row)));
            }
        }
        Ok(())
    }
}

impl Snapshot for AllRows<'_> {
    fn rows(&self, table: TableId, visit: &mut dyn FnMut(Row<'_>)) {
        let mut failure = self.failure.borrow_mut();
        if failure.is_none() {
            *failure = self.fetch(table, visit).err();
        }
    }
}

/// All rows of all hosts of a pod directory, fetched table by table.
pub struct PodRows<'a> {
    dir: &'a PodDir,
    catalog: &'a Catalog,
    failure: RefCell<Option<Failure>>,
}

impl<'a> PodRows<'a> {
    /// The rows of a pod at rest.
    pub fn new(dir: &'a PodDir, catalog: &'a Catalog) -> Self {
        Self { dir, catalog, failure: RefCell::new(None) }
    }

    /// What went wrong while rows were fetched; the check has not seen all of them then.
    pub fn into_failure(self) -> Option<Failure> {
        self.failure.into_inner()
    }

    fn fetch(&self, table: TableId, visit: &mut dyn FnMut(Row<'_>)) -> Result<(), Failure> {
        let relation = self.catalog.relation(table).expect("a table of the catalog");
        let hosts = if relation.replicated { 1 } else { self.dir.hosts() };
        for host in 0..hosts {
            let mut line = Line::connect(self.dir, host, PATIENCE)?;
            line.order(&Order::Dump { table: table.0 })?;
            line.last(|_, rows| rows.chunks_exact(relation.row_len).for_each(|row| visit(Row::new(row))))?;
        }
        Ok(())
    }
}

impl Snapshot for PodRows<'_> {
    fn rows(&self, table: TableId, visit: &mut dyn FnMut(Row<'_>)) {
        let mut failure = self.failure.borrow_mut();
        if failure.is_none() {
            *failure = self.fetch(table, visit).err();
        }
    }
}
