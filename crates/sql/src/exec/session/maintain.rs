//! VACUUM, ANALYZE and CHECKPOINT. There is nothing to vacuum: rows that are gone leave nothing behind.
//! ANALYZE looks at all rows of a table, keeps a sample of them, and writes down what that tells of the
//! values.
//!
//! 1. Rows are looked at and not held: who changes some is not disturbed, and what somebody is changing right
//!    then is not seen.

use std::sync::Arc;

use super::LocalSession;
use super::run::warning;
use crate::bind::Binder;
use crate::catalog::object::{BOOTSTRAP_ROLE, Object, Table};
use crate::catalog::statistics::{ROWS_PER_VALUE, Sample, Sampled, TableStatistics};
use crate::error::{Result, Severity, SqlError, SqlState};
use crate::exec::privilege::{asking, owns};
use crate::exec::store::{Cursor, Purpose, Range, Store, expect_rows};
use crate::exec::system_tables;
use crate::parse::ast::{self, Maintenance, Path};
use crate::progress::{Command, Phase};
use crate::types::value::Value;
use crate::types::{BuiltinTypes, Types};

/// Rows that are asked for at once.
const BATCH: usize = 512;
/// Bytes of a page.
const PAGE: f64 = 8192.0;

/// A table to be looked at, and which of its columns.
type Wanted = (Arc<Table>, Vec<usize>);

impl<S: Store> LocalSession<S> {
    pub(super) fn maintain(&mut self, statement: &Maintenance) -> Result<()> {
        if statement.tag == "CHECKPOINT" {
            return Ok(());
        }
        self.ensure_open()?;
        let listed = statement.tables.iter().any(|(_, columns)| !columns.is_empty());
        if listed && !statement.analyzes {
            let message = "ANALYZE option must be specified when a column list is provided";
            return Err(SqlError::refused_by_postgresql(message));
        }
        let wanted = match statement.tables.is_empty() {
            true => self.own_tables(),
            false => self.listed_tables(statement)?,
        };
        for (table, columns) in wanted.into_iter().filter(|_| statement.analyzes) {
            self.analyze(&table, &columns, (statement.verbose, true))?;
        }
        Ok(())
    }

    /// All tables that the role may analyze.
    fn own_tables(&self) -> Vec<Wanted> {
        let role = asking(&self.store, &self.shared);
        let objects = self.store.objects();
        let tables = objects.iter().filter_map(|object| match &**object {
            Object::Table(table) if owns(&self.store, role, object) || role == BOOTSTRAP_ROLE => Some(table),
            _ => None,
        });
        let all = |table: &Table| (0..table.columns.len()).filter(|at| !table.columns[*at].dropped).collect();
        tables.map(|table| (Arc::new(table.clone()), all(table))).collect()
    }

    /// The tables that a statement names; what cannot be looked at is told and left out.
    fn listed_tables(&self, statement: &Maintenance) -> Result<Vec<Wanted>> {
        let verb = if statement.tag == "VACUUM" { "vacuum" } else { "analyze" };
        let role = asking(&self.store, &self.shared);
        self.with_context(|ctx, path| {
            let binder = Binder::new(ctx, &self.store, path, Vec::new());
            let is_system = |table: &Path| system_tables::find(table.schema(), table.last(), path).is_some();
            let mut wanted = Vec::new();
            for (name, columns) in &statement.tables {
                let object = binder.find_relation(name)?;
                let skipped = |what: String| {
                    let message = format!("skipping \"{}\" --- {what}", name.last());
                    self.tell(warning(SqlState::WARNING, &message));
                };
                match object.as_deref() {
                    None if is_system(name) => {}
                    Some(Object::Table(table)) => {
                        let object = object.as_deref().expect("it was found");
                        if !self.is_superuser() && !owns(&self.store, role, object) {
                            skipped(format!("only table or database owner can {verb} it"));
                            continue;
                        }
                        let table = Arc::new(table.clone());
                        let columns = self.columns_of(&binder, &table, columns)?;
                        wanted.push((table, columns));
                    }
                    Some(_) => skipped(format!("cannot {verb} non-tables or special system tables")),
                    None => {
                        binder.target_table(name).map_err(SqlError::nowhere)?;
                    }
                }
            }
            Ok(wanted)
        })
    }

    fn columns_of(&self, binder: &Binder<'_>, table: &Table, names: &[ast::Ident]) -> Result<Vec<usize>> {
        let twice =
            names.iter().enumerate().find(|(at, name)| names[..*at].iter().any(|it| it.text == name.text));
        let listed = binder.column_list(table, &names[..twice.map_or(names.len(), |(at, _)| at)]);
        let columns = listed.map_err(SqlError::nowhere)?;
        match twice {
            None => Ok(columns),
            Some((_, name)) => {
                let message =
                    format!("column \"{}\" of relation \"{}\" appears more than once", name.text, table.name);
                Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message))
            }
        }
    }

    /// Finds out what values a table's columns have; `asked`: a statement has said so.
    pub(crate) fn analyze(
        &self,
        table: &Arc<Table>,
        columns: &[usize],
        (verbose, asked): (bool, bool),
    ) -> Result<()> {
        let progress = self.start.interrupt.progress();
        let _telling = progress.begin(Command::Analyze, (table.oid, 0), self.shared.surroundings.clock_us());
        expect_rows(&self.store, progress, table.oid);
        progress.enter(Phase::Reading);
        let default = self.shared.variables.borrow().eval.costs.target;
        let target = |column: usize| match table.columns[column].statistics {
            Some(target) => usize::from(target),
            None => default,
        };
        let looked_at: Vec<usize> = columns.iter().copied().filter(|column| target(*column) > 0).collect();
        let most = looked_at.iter().map(|column| target(*column)).max().unwrap_or(0).max(default);
        let (rows, sample) = self.sample(table, &looked_at, most * ROWS_PER_VALUE, !asked)?;
        progress.enter(Phase::Computing);
        let mut found =
            self.store.statistics(table.oid).map_or_else(TableStatistics::default, |old| (*old).clone());
        found
            .columns
            .retain(|number, _| table.columns.get(usize::from(*number)).is_some_and(|it| !it.dropped));
        found.rows = rows as f64;
        for column in &looked_at {
            let values: Vec<&Value> = sample.iter().map(|row| &row[*column]).collect();
            let ty = BuiltinTypes.base_of(table.columns[*column].type_oid);
            let sampled = Sampled { ty, values, rows: found.rows, target: target(*column) };
            match sampled.values.is_empty() {
                true => found.columns.remove(&(*column as u16)),
                false => found.columns.insert(*column as u16, sampled.statistics()),
            };
        }
        let width: f64 =
            found.columns.values().map(|column| column.width * (1.0 - column.null_fraction)).sum();
        let counted = self.store.present(table.oid, true).filter(|present| present.rows > 0.0);
        let each = counted.and_then(|present| Some(present.bytes? / present.rows)).unwrap_or(width + 24.0);
        let bytes = each * found.rows;
        found.pages = (bytes / PAGE).ceil();
        found.analyzed[usize::from(!asked)] = Some(self.shared.surroundings.clock_us());
        found.counts[usize::from(!asked)] += 1;
        if verbose {
            self.tell_analyzed(table, &found, sample.len());
        }
        self.store.keep_statistics(table.oid, found)
    }

    fn tell_analyzed(&self, table: &Table, found: &TableStatistics, sampled: usize) {
        let schema = self.store.object(table.schema).map_or(String::new(), |it| format!("{}.", it.name()));
        let said = |message: String| {
            self.tell(SqlError::notice(Severity::Info, SqlState::SUCCESSFUL_COMPLETION, message));
        };
        said(format!("analyzing \"{schema}{}\"", table.name));
        let (pages, rows) = (found.pages, found.rows);
        said(format!(
            "\"{}\": scanned {pages} of {pages} pages, containing {rows} live rows and 0 dead rows; \
             {sampled} rows in sample, {rows} estimated total rows",
            table.name
        ));
    }

    /// How many rows a table has, and at most so many of them, with these columns' values. Which ones is
    /// known behind the last row: so the rows are counted first, and then the chosen ones are read.
    /// Who was not asked disturbs no other host: where rows are spread over all places by their key, this
    /// host's are a sample.
    fn sample(
        &self,
        table: &Arc<Table>,
        columns: &[usize],
        most: usize,
        own: bool,
    ) -> Result<(u64, Vec<Vec<Value>>)> {
        let mut wanted = vec![false; table.columns.len()];
        let own = own && !table.key.is_empty();
        let range = Range { columns: Some(wanted.clone().into()), own, ..Range::default() };
        columns.iter().for_each(|column| wanted[*column] = true);
        let mut cursor = Cursor::default();
        let mut random = self.shared.surroundings.random_u64();
        let mut sample = Sample::new(most);
        while !cursor.done {
            self.start.interrupt.check()?;
            self.store.lend();
            for found in self.store.scan(table, &range, Purpose::Free, &mut cursor, BATCH)? {
                // Splitmix: each number from the last.
                random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mixed = (random ^ (random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                sample.see(mixed ^ (mixed >> 31), || found.key);
            }
        }
        let (seen, keys) = sample.end();
        let rows = match own {
            true => Some(self.store.census(table.oid)?.of_pod(seen)).filter(|of_pod| *of_pod > 0),
            false => None,
        };
        let rows = rows.unwrap_or(seen);
        let mut chosen = Vec::with_capacity(keys.len());
        for key in keys {
            self.start.interrupt.check()?;
            self.store.lend();
            // One that has gone meanwhile is no row any more.
            chosen.extend(self.store.look_at(table, &key, &wanted)?.map(|found| found.values));
        }
        Ok((rows, chosen))
    }
}
