//! INSERT, UPDATE, DELETE, MERGE: rows are found first and changed afterwards, so that no statement meets
//! its own changes; where a part of a statement runs later than another, it sees through these (own.rs). A
//! row that another part of the statement has changed stays as that left it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::ahead::Batch;
use super::spill::row_footprint;
use super::store::{Found, Inserted, RowKey, Tolerated, named};
use super::{Emit, Env, Exec, Row};
use crate::catalog::object::Table;
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Node, calls_volatile};
use crate::progress::{Command, Count, Part, Phase};
use crate::storage::ahead::{Coming, ROWS_AHEAD};
use crate::storage::table::RowChange;
use crate::tree::{
    Body, Change, Conflict, Delete, DomainCheck, From, Insert, Merge, MergeAction, Query, Returning, Target,
    Update,
};
use crate::types::value::Value;
use crate::types::{Types, text};

/// Rows that are removed together: their entries in an index are looked for in its order.
const DELETED_TOGETHER: usize = 1 << 16;
/// Of a value that messages about a whole row show.
const SHOWN_BYTES: usize = 64;

impl<'p> Exec<'p> {
    /// Runs it; rows of RETURNING go to `emit`. The number of rows that were changed.
    pub(crate) fn run_change(
        &self,
        change: &'p Change,
        outer: Option<&Env<'_>>,
        emit: Emit<'_>,
    ) -> Result<u64> {
        let (command, target) = match change {
            Change::Insert(insert) => (Command::Insert, &insert.target),
            Change::Update(update) => (Command::Update, &update.target),
            Change::Delete(delete) => (Command::Delete, &delete.target),
            Change::Merge(merge) => (Command::Merge, &merge.target),
        };
        let began_us = self.ctx.statement_start_us;
        if let Some(telling) = self.interrupt.progress().begin_whole(command, target.table.oid, began_us) {
            debug_assert!(self.telling.get().is_none(), "it would tell still");
            self.telling.get_or_init(|| telling);
        }
        match change {
            Change::Insert(insert) => self.run_insert(insert, outer, emit),
            Change::Update(update) => self.run_update(update, outer, emit),
            Change::Delete(delete) => self.run_delete(delete, outer, emit),
            Change::Merge(merge) => self.run_merge(merge, outer),
        }
    }

    /// What this statement tells; nothing where it is a part of a command that tells of something else.
    fn progress(&self) -> Part<'p> {
        Part::new(self.interrupt.progress(), self.telling.get().is_some())
    }

    fn returned(
        &self,
        returning: Option<&'p Returning>,
        row: &[Value],
        outer: Option<&Env<'_>>,
        emit: Emit<'_>,
    ) -> Result<()> {
        if let Some(returning) = returning {
            emit(self.eval_list(&returning.targets, &Env { row, outer })?)?;
        }
        Ok(())
    }

    fn run_insert(&self, insert: &'p Insert, outer: Option<&Env<'_>>, emit: Emit<'_>) -> Result<u64> {
        self.ctes(&insert.ctes, outer)?;
        let (mut count, progress) = (0, self.progress());
        let mut batch = Batch::new(self.inserted_at_once(insert)?);
        let mut tally = progress.tally();
        let mut act = |rows: Vec<Row>| -> Result<()> {
            self.announce_new(&insert.target.table, &rows)?;
            for row in rows {
                tally.add(1);
                if let Some(row) = self.insert_or_update(insert, row, outer)? {
                    count += 1;
                    self.returned(insert.returning.as_ref(), &row, outer, emit)?;
                }
            }
            Ok(())
        };
        let mut put = |source: Row| -> Result<bool> {
            self.yield_point()?;
            let made = || {
                let mut row = self.eval_list(&insert.values, &Env { row: &source, outer })?;
                self.complete(&insert.target, &mut row)?;
                let bytes = row_footprint(&row);
                Ok(Some((row, bytes)))
            };
            batch.offer(made(), &mut act)?;
            Ok(true)
        };
        match &insert.source {
            None => _ = put(Vec::new())?,
            // One after the other: behind a row that fails none draws numbers of sequences.
            Some(query) if is_listed(query) => _ = self.run_query(query, outer, &mut put)?,
            Some(query) => {
                let mut sources = self.kept_rows();
                progress.enter(Phase::Reading);
                self.run_query(query, outer, &mut |row| sources.push(row).map(|()| true))?;
                progress.enter(Phase::Changing);
                progress.add(Count::Total, sources.len() as u64);
                sources.each_owned(put)?;
            }
        }
        batch.finish(&mut act)?;
        Ok(count)
    }

    /// How many rows are made before the first of them is inserted.
    fn inserted_at_once(&self, insert: &Insert) -> Result<usize> {
        let one_by_one = match &insert.source {
            None => true,
            Some(query) if is_listed(query) => {
                let Body::Values(rows) = &query.body else { return Ok(1) };
                rows.len() < 2 || rows.iter().flatten().chain(&insert.values).any(calls_volatile)
            }
            Some(_) => false,
        };
        self.at_once(&insert.target.table, !one_by_one)
    }

    /// How many rows of a table are made ready together, where there may be many.
    pub(super) fn at_once(&self, table: &Arc<Table>, many: bool) -> Result<usize> {
        Ok(if many && self.store.is_spread(table)? { ROWS_AHEAD } else { 1 })
    }

    /// These rows are inserted next.
    pub(super) fn announce_new(&self, table: &Arc<Table>, rows: &[Row]) -> Result<()> {
        if rows.len() < 2 {
            return Ok(());
        }
        let rows: Vec<&[Value]> = rows.iter().map(Vec::as_slice).collect();
        self.store.announce(table, &Coming::New(&rows))
    }

    /// Adds a row whose columns are complete; its foreign keys are looked at when the statement ends.
    pub(crate) fn insert_row(&self, target: &Target, row: &Row) -> Result<()> {
        if let Inserted::Done(key) = self.store.insert(&target.table, row, Tolerated::None)? {
            self.own.note(target.table.oid, &key, None);
        }
        self.inserted(&target.table, row);
        Ok(())
    }

    fn insert_or_update(&self, insert: &'p Insert, row: Row, outer: Option<&Env<'_>>) -> Result<Option<Row>> {
        let table = &insert.target.table;
        if insert.conflict.as_ref().is_some_and(|conflict| conflict.deferrable) {
            let message = "ON CONFLICT does not support deferrable unique constraints/exclusion constraints \
                           as arbiters";
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
        let tolerated = match &insert.conflict {
            None => Tolerated::None,
            Some(Conflict { index: None, .. }) => Tolerated::Any,
            Some(Conflict { index: Some(index), .. }) => Tolerated::Index(*index),
        };
        let met = match self.store.insert(table, &row, tolerated)? {
            Inserted::Done(key) => {
                self.own.note(table.oid, &key, None);
                self.inserted(table, &row);
                return Ok(Some(row));
            }
            Inserted::Met(met) => met,
        };
        let Some((set, filter)) = insert.conflict.as_ref().and_then(|conflict| conflict.update.as_ref())
        else {
            return Ok(None);
        };
        if self.own.has(table.oid, &met.key) {
            let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
            let hint = "Ensure that no rows proposed for insertion within the same command have duplicate \
                        constrained values.";
            return Err(SqlError::new(SqlState::CARDINALITY_VIOLATION, message).hint(hint));
        }
        if let Some((view, seen)) = insert.conflict.as_ref().and_then(|conflict| conflict.seen.as_ref())
            && !self.holds(Some(seen), &Env { row: &met.values, outer: None })?
        {
            let message = format!("conflicting row is not visible through view \"{view}\"");
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
        let both: Row = met.values.iter().chain(&row).cloned().collect();
        let env = Env { row: &both, outer };
        if !self.holds(filter.as_ref(), &env)? {
            return Ok(None);
        }
        let mut new = met.values.clone();
        for (column, expr) in set {
            new[*column] = self.eval(expr, &env)?;
        }
        self.complete(&insert.target, &mut new)?;
        let set = insert.target.set_by(set.iter().map(|(column, _)| *column));
        self.update_row(&insert.target.table, &RowChange::of(&met, &new, &set))?;
        Ok(Some(new))
    }

    /// The rows that an UPDATE or DELETE finds, each target row once.
    fn targets(
        &self,
        from: &'p From,
        slots: usize,
        width: usize,
        outer: Option<&Env<'_>>,
    ) -> Result<Vec<(RowKey, Row)>> {
        let From::Planned(node) = from else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a statement was run without a plan"));
        };
        // A scan gives each row once, and makes what it gives next from nothing of it.
        let joins = !matches!(**node, Node::Scan(_));
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        let mut row = vec![Value::Null; slots];
        self.progress().enter(Phase::Reading);
        self.run_node(node, &mut row, outer, &mut |row| {
            match named(&row[width]) {
                Some(key) if !joins => found.push((key, std::mem::replace(row, vec![Value::Null; slots]))),
                Some(key) if seen.insert(key) => found.push((key, row.clone())),
                _ => {}
            }
            Ok(true)
        })?;
        self.progress().add(Count::Total, found.len() as u64);
        Ok(found)
    }

    fn run_update(&self, update: &'p Update, outer: Option<&Env<'_>>, emit: Emit<'_>) -> Result<u64> {
        self.ctes(&update.ctes, outer)?;
        let table = &update.target.table;
        let (width, progress) = (table.columns.len(), self.progress());
        let found = self.targets(&update.from, update.slots, width, outer)?;
        progress.enter(Phase::Computing);
        let mut changes = Vec::with_capacity(found.len());
        for (key, row) in found {
            let env = Env { row: &row, outer };
            let mut new = row[..width].to_vec();
            for (column, expr) in &update.set {
                new[*column] = self.eval(expr, &env)?;
            }
            changes.push((key, row, new));
        }
        let set = update.target.set_by(update.set.iter().map(|(column, _)| *column));
        progress.enter(Phase::Changing);
        let mut tally = progress.tally();
        let mut count = 0;
        let mut batch = Batch::new(self.at_once(table, changes.len() > 1)?);
        let mut act = |rows: Vec<(RowKey, Row, Row)>| -> Result<()> {
            if rows.len() > 1 {
                let change = rows.iter();
                let change =
                    change.map(|(key, row, new)| RowChange { key, old: &row[..width], new, set: &set });
                let changes: Vec<RowChange<'_>> = change.collect();
                self.store.announce(table, &Coming::Changed(&changes))?;
            }
            for (key, mut row, new) in rows {
                count += 1;
                tally.add(1);
                let old = &row[..width];
                self.update_row(table, &RowChange { key: &key, old, new: &new, set: &set })?;
                if update.returning.is_some() {
                    row.splice(..width, new);
                    self.returned(update.returning.as_ref(), &row, outer, emit)?;
                }
            }
            Ok(())
        };
        for (key, row, mut new) in changes {
            self.yield_point()?;
            if self.own.has(table.oid, &key) {
                continue;
            }
            let completed = self.complete(&update.target, &mut new);
            let bytes = row_footprint(&new);
            batch.offer(completed.map(|()| Some(((key, row, new), bytes))), &mut act)?;
        }
        batch.finish(&mut act)?;
        Ok(count)
    }

    pub(crate) fn update_row(&self, table: &Arc<Table>, change: &RowChange<'_>) -> Result<()> {
        let key = self.store.update(table, change)?;
        self.own.note(table.oid, change.key, Some(change.old));
        if key != *change.key {
            self.own.note(table.oid, &key, None);
        }
        self.updated(table, change.old, change.new);
        Ok(())
    }

    fn run_delete(&self, delete: &'p Delete, outer: Option<&Env<'_>>, emit: Emit<'_>) -> Result<u64> {
        self.ctes(&delete.ctes, outer)?;
        let table = &delete.target.table;
        let width = table.columns.len();
        let (mut count, mut targets) =
            (0, self.targets(&delete.from, delete.slots, width, outer)?.into_iter());
        while targets.len() > 0 {
            let (mut gone, mut shown) = (Vec::new(), Vec::new());
            for (key, mut row) in targets.by_ref().take(DELETED_TOGETHER) {
                self.yield_point()?;
                if self.own.has(table.oid, &key) {
                    continue;
                }
                if delete.returning.is_some() {
                    shown.push(row.clone());
                }
                row.truncate(width);
                gone.push(Found { key, values: row });
            }
            self.progress().enter(Phase::Removing);
            for (n, was) in self.delete_rows(table, &gone)?.into_iter().enumerate() {
                count += u64::from(was);
                if let Some(row) = shown.get(n).filter(|_| was) {
                    self.returned(delete.returning.as_ref(), row, outer, emit)?;
                }
            }
        }
        Ok(count)
    }

    fn run_merge(&self, merge: &'p Merge, outer: Option<&Env<'_>>) -> Result<u64> {
        self.ctes(&merge.ctes, outer)?;
        let From::Planned(node) = &merge.from else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a statement was run without a plan"));
        };
        let (mut found, mut row) = (Vec::new(), vec![Value::Null; merge.slots]);
        let progress = self.progress();
        progress.enter(Phase::Reading);
        self.run_node(node, &mut row, outer, &mut |row| {
            found.push(row.clone());
            Ok(true)
        })?;
        progress.enter(Phase::Changing);
        progress.add(Count::Total, found.len() as u64);
        let (mut count, mut tally) = (0, progress.tally());
        for row in &found {
            self.yield_point()?;
            tally.add(1);
            count += u64::from(self.merge_row(merge, row, outer)?);
        }
        Ok(count)
    }

    /// Does with a row of the join what the first WHEN says whose condition holds; whether that changes
    /// a row.
    fn merge_row(&self, merge: &'p Merge, row: &[Value], outer: Option<&Env<'_>>) -> Result<bool> {
        let (target, table, env) = (&merge.target, &merge.target.table, Env { row, outer });
        let width = table.columns.len();
        let old = named(&row[width]).map(|key| Found { key, values: row[..width].to_vec() });
        for when in merge.whens.iter().filter(|when| when.matched == old.is_some()) {
            if !self.holds(when.condition.as_ref(), &env)? {
                continue;
            }
            let twice = old.as_ref().is_some_and(|old| self.own.has(table.oid, &old.key));
            if twice && when.action != MergeAction::Nothing {
                let message = "MERGE command cannot affect row a second time";
                let hint = "Ensure that not more than one source row matches any one target row.";
                return Err(SqlError::new(SqlState::CARDINALITY_VIOLATION, message).hint(hint));
            }
            match (&when.action, &old) {
                (MergeAction::Insert(values), _) => {
                    let mut new = self.eval_list(values, &env)?;
                    self.complete(target, &mut new)?;
                    self.insert_row(target, &new)?;
                }
                (MergeAction::Update(set), Some(old)) => {
                    let mut new = old.values.clone();
                    for (column, expr) in set {
                        new[*column] = self.eval(expr, &env)?;
                    }
                    self.complete(target, &mut new)?;
                    let set = target.set_by(set.iter().map(|(column, _)| *column));
                    self.update_row(table, &RowChange::of(old, &new, &set))?;
                }
                (MergeAction::Delete, Some(old)) => return self.delete_row(table, old),
                _ => return Ok(false),
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Removes rows that were read; of each: false if it is gone already.
    fn delete_rows(&self, table: &Arc<Table>, gone: &[Found]) -> Result<Vec<bool>> {
        let were = self.store.delete(table, gone)?;
        for (old, _) in gone.iter().zip(&were).filter(|(_, was)| **was) {
            self.own.note(table.oid, &old.key, Some(&old.values));
            self.deleted(table, &old.values);
        }
        Ok(were)
    }

    pub(crate) fn delete_row(&self, table: &Arc<Table>, old: &Found) -> Result<bool> {
        Ok(self.delete_rows(table, std::slice::from_ref(old))? == [true])
    }

    /// Computes generated columns and checks what a row must be by itself.
    pub(crate) fn complete(&self, target: &'p Target, row: &mut Row) -> Result<()> {
        for (column, expr) in &target.generated {
            row[*column] = self.eval(expr, &Env { row, outer: None })?;
        }
        let table = &target.table;
        self.in_domains(target, row, |_| true)?;
        for (value, column) in row.iter().zip(&table.columns) {
            if column.not_null && !column.dropped && value.is_null() {
                let (name, relation) = (&column.name, &table.name);
                let message = format!(
                    "null value in column \"{name}\" of relation \"{relation}\" violates not-null constraint"
                );
                let mut error =
                    SqlError::new(SqlState::NOT_NULL_VIOLATION, message).detail(self.failing(table, row));
                error.column = Some(name.clone());
                return Err(self.about(error, table));
            }
        }
        for (name, check) in &target.checks {
            if self.eval(check, &Env { row, outer: None })?.as_bool() == Some(false) {
                let relation = &table.name;
                let message =
                    format!("new row for relation \"{relation}\" violates check constraint \"{name}\"");
                let mut error =
                    SqlError::new(SqlState::CHECK_VIOLATION, message).detail(self.failing(table, row));
                error.constraint = Some(name.clone());
                return Err(self.about(error, table));
            }
        }
        for (view, condition) in &target.options {
            if self.eval(condition, &Env { row, outer: None })?.as_bool() != Some(true) {
                let message = format!("new row violates check option for view \"{view}\"");
                let error = SqlError::new(SqlState::WITH_CHECK_OPTION_VIOLATION, message);
                return Err(error.detail(self.failing(table, row)));
            }
        }
        Ok(())
    }

    /// Checks those columns of a row whose types are domains, or arrays of them.
    pub(crate) fn in_domains(
        &self,
        target: &'p Target,
        row: &[Value],
        is_asked: impl Fn(usize) -> bool,
    ) -> Result<()> {
        for check in target.domains.iter().filter(|check| is_asked(check.column)) {
            match &row[check.column] {
                Value::Array(array) if check.each => {
                    array.elements.iter().try_for_each(|element| self.domain(element.clone(), check))?;
                }
                _ if check.each => {}
                value => self.domain(value.clone(), check)?,
            }
        }
        Ok(())
    }

    pub(crate) fn domain(&self, value: Value, check: &'p DomainCheck) -> Result<()> {
        let DomainCheck { domain, check, condition, .. } = check;
        let Some(condition) = condition else {
            if value.is_null() {
                let message = format!("domain {domain} does not allow null values");
                return Err(SqlError::new(SqlState::NOT_NULL_VIOLATION, message));
            }
            return Ok(());
        };
        let result = self.with_operand(value, || self.eval(condition, &Env::EMPTY))?;
        if result.as_bool() == Some(false) {
            let message = format!("value for domain {domain} violates check constraint \"{check}\"");
            let mut error = SqlError::new(SqlState::CHECK_VIOLATION, message);
            error.constraint = Some(check.clone());
            return Err(error);
        }
        Ok(())
    }

    pub(crate) fn about(&self, mut error: SqlError, table: &Table) -> SqlError {
        error.table = Some(table.name.clone());
        error.schema = self.store.object(table.schema).map(|schema| schema.name().to_string());
        error
    }

    /// A value as messages show it.
    pub(crate) fn shown(&self, ty: u32, value: &Value) -> String {
        if value.is_null() {
            return "null".to_string();
        }
        text::output(&self.ctx, self.ctx.base_of(ty), value).unwrap_or_else(|_| "?".to_string())
    }

    fn failing(&self, table: &Table, row: &[Value]) -> String {
        let columns = row.iter().zip(&table.columns).filter(|(_, column)| !column.dropped);
        let shown = columns.map(|(value, column)| {
            let text = self.shown(column.type_oid, value);
            match text.len() > SHOWN_BYTES {
                true => format!("{}...", &text[..text.floor_char_boundary(SHOWN_BYTES)]),
                false => text,
            }
        });
        format!("Failing row contains ({}).", shown.collect::<Vec<_>>().join(", "))
    }
}

impl Target {
    /// The columns that are others where these are set.
    pub(super) fn set_by(&self, columns: impl Iterator<Item = usize>) -> Vec<usize> {
        columns.chain(self.generated.iter().map(|(column, _)| *column)).collect()
    }
}

/// Whether a query is a list of rows that looks at no table.
fn is_listed(query: &Query) -> bool {
    let mut subqueries = Vec::new();
    match &query.body {
        Body::Values(rows) => rows.iter().flatten().for_each(|expr| expr.subqueries(&mut subqueries)),
        _ => return false,
    }
    subqueries.is_empty() && query.ctes.is_empty()
}
