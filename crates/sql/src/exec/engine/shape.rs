//! Tables and indexes that come or change: where their rows are, and moving them.
//!
//! 1. A primary key's index is the table itself: what has other key columns than before, or rows that grow
//!    out of their class, is moved to a new object.
use std::ops::ControlFlow;

use super::EngineStore;
use crate::catalog::change::NewTable;
use crate::catalog::layout::missing_value;
use crate::catalog::object::{Constraint, Index, IndexColumn, Indexed, Object, RowsAt, Rule, Table};
use crate::catalog::sizing;
use crate::error::Result;
use crate::exec::store::{SessionHost, expect_rows, lost};
use crate::progress::{Command, Count, Phase, StatementProgress, Tally, Telling};
use crate::stop;
use crate::storage::access::Access;
use crate::storage::bulk::{Steps, not_unique};
use crate::storage::classes::ObjectId;
use crate::storage::overflow;
use crate::storage::private::is_private;
use crate::storage::table::{Row, put_edges};
use crate::types::Oid;
use crate::types::value::Value;

impl Steps for EngineStore {
    fn step<R>(&self, step: impl FnOnce(&mut dyn Access) -> Result<R>) -> Result<R> {
        self.lend();
        stop::check()?;
        Self::step(self, |tx, _, _| step(tx))
    }

    fn progress(&self) -> &StatementProgress {
        self.holding.interrupt.progress()
    }
}

impl EngineStore {
    /// All rows of a table as this description has it.
    fn all_rows(&self, table: &Table) -> Result<Vec<Row>> {
        expect_rows(self, self.progress(), table.oid);
        self.progress().enter(Phase::Reading);
        let described = Object::Table(table.clone());
        let rows = self.catalog().with(table.oid, Some(described)).rows(table.oid)?;
        self.step(|tx, _, _| {
            let (mut all, mut tally) = (Vec::new(), Tally::new(self.progress(), Count::Read));
            rows.each(tx, |_, row| {
                stop::check()?;
                tally.add(1);
                all.push(row);
                Ok(ControlFlow::Continue(()))
            })?;
            self.host.slots.observed().count_rows(tx.worker(), all.len() as u64);
            Ok(all)
        })
    }

    fn put_rows(&self, table: Oid, values: impl ExactSizeIterator<Item = Vec<Value>>) -> Result<()> {
        self.progress().set(Count::Expected, values.len() as u64);
        self.progress().set(Count::Total, values.len() as u64);
        let (rows, computed) = (self.rows(table)?, self.computed(table));
        rows.insert_all(self, self.host.catalog.numbers(), values, &computed)
    }

    /// An ALTER TABLE that writes all rows tells of it from here on, unless it is a part of another command.
    fn tells(&self, table: Oid) -> Telling<'_> {
        self.progress().begin(Command::AlterTable, (table, 0), self.holding.clock_us())
    }

    /// Fills an index that was created over a table with rows.
    pub(super) fn fill(&self, table: Oid, index: Oid) -> Result<()> {
        let (rows, computed) = (self.rows(table)?, self.computed(table));
        expect_rows(self, self.progress(), table);
        self.progress().set(Count::Total, self.progress().count(Count::Expected));
        let visited = rows.fill_index(self, index, &computed)?;
        self.step(|tx, _, _| {
            self.host.slots.observed().count_rows(tx.worker(), visited);
            Ok(())
        })
    }

    /// Writes all rows of a table anew.
    pub(super) fn rewrite_rows(
        &self,
        old: &Table,
        new: Oid,
        change: &mut dyn FnMut(Vec<Value>) -> Result<Vec<Value>>,
    ) -> Result<()> {
        let _telling = self.tells(new);
        let rows = self.all_rows(old)?;
        self.progress().enter(Phase::Computing);
        let changed = rows.into_iter().map(|row| change(row.values)).collect::<Result<Vec<_>>>()?;
        self.lock_some(&[new])?;
        let Some(now) = self.catalog().table(new).cloned() else { return Err(lost(new)) };
        self.change(is_private(new), |tx, working, _| working.rewrite(tx, now))?;
        self.put_rows(new, changed.into_iter())
    }

    /// Gives a table other rows, for another key or another size, and moves what it has.
    fn rekey(&self, old: &Table, new: Table) -> Result<()> {
        let _telling = self.tells(old.oid);
        let rows = self.all_rows(old)?;
        let (oid, catalog) = (new.oid, self.catalog());
        let dropped: Vec<usize> = (0..new.columns.len()).filter(|at| new.columns[*at].dropped).collect();
        let added = new.columns[old.columns.len()..].iter();
        let added = added.map(|column| missing_value(column, |oid| catalog.get(oid).cloned()));
        let added = added.collect::<Result<Vec<Value>>>()?;
        self.change(is_private(oid), |tx, working, _| working.rewrite(tx, new))?;
        let padded = rows.into_iter().map(|mut row| {
            row.values.extend_from_slice(&added);
            // There is no room for what nobody sees any more.
            dropped.iter().for_each(|at| row.values[*at] = Value::Null);
            row.values
        });
        self.put_rows(oid, padded)
    }

    pub(super) fn create_table(&self, mut table: Table) -> Result<()> {
        self.change(is_private(table.oid), |tx, working, _| {
            let (columns, options) = (table.columns.clone(), table.options.clone());
            let new = NewTable { columns, options, ..NewTable::default() };
            let sizes = sizing::of_table(working.catalog(), &new, &[])?;
            table.key.clear();
            table.rows = RowsAt { object: ObjectId(table.oid), size: sizes.rows };
            put_edges(tx, &working.catalog().home(table.rows)?)?;
            table.overflow = None;
            if let Some(size) = sizes.overflow {
                let rows = RowsAt { object: ObjectId(working.take_oids(tx, table.oid, 1)?), size };
                put_edges(tx, &working.catalog().home(rows)?)?;
                table.overflow = Some(rows);
            }
            working.create(tx, Object::Table(table))
        })
    }

    pub(super) fn create_index(&self, mut index: Index) -> Result<()> {
        let Some(table) = self.catalog().table(index.table).cloned() else { return Err(lost(index.table)) };
        if !index.keeps_rows() {
            return self.change(is_private(index.oid), |tx, working, _| {
                let size = sizing::of_index(working.catalog(), &table, &index.columns)?;
                let rows = RowsAt { object: ObjectId(index.oid), size };
                put_edges(tx, &working.catalog().home(rows)?)?;
                index.rows = Some(rows);
                working.create(tx, Object::Index(index))
            });
        }
        let column = |part: &IndexColumn| match part.of {
            Indexed::Column(column) => Some(column),
            Indexed::Expression { .. } => None,
        };
        let key = index.columns.iter().filter_map(column).collect();
        let name = index.name.clone();
        index.rows = None;
        self.change(is_private(index.oid), |tx, working, _| working.create(tx, Object::Index(index)))?;
        let new = Table { key, ..table.clone() };
        self.rekey(&table, new).map_err(|error| not_unique(error, &name))
    }

    pub(super) fn replace_table(&self, table: Table) -> Result<()> {
        let catalog = self.catalog();
        let Some(old) = catalog.table(table.oid).cloned() else { return Err(lost(table.oid)) };
        let (rows, overflow, key) = (old.rows, old.overflow, old.key.clone());
        let mut table = Table { rows, overflow, key, ..table };
        table.keep_missing(&old);
        let is_key = |c: &Constraint| matches!(c.rule, Rule::PrimaryKey { .. }) && !c.deferrable;
        let keyed = table.constraints.iter().any(is_key)
            || catalog.indexes_of(table.oid).any(|index| index.keeps_rows());
        if !table.key.is_empty() && !keyed {
            let new = Table { key: Vec::new(), ..table };
            return self.rekey(&old, new);
        }
        let retyped = old.columns.iter().zip(&table.columns).any(|(old, new)| old.ty() != new.ty());
        if sizing::is_too_small(&catalog, &table) && !retyped {
            return self.rekey(&old, table);
        }
        self.change(is_private(table.oid), |tx, working, _| {
            let mut table = table;
            if table.overflow.is_none() && sizing::may_lie_outside(working.catalog(), &table) {
                let object = ObjectId(working.take_oids(tx, table.oid, 1)?);
                let rows = RowsAt { object, size: overflow::SIZE };
                put_edges(tx, &working.catalog().home(rows)?)?;
                table.overflow = Some(rows);
            }
            working.replace(tx, Object::Table(table))
        })
    }
}
