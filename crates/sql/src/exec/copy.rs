//! COPY: rows of a table or a query to a client, and back. The formats are `crate::copy`'s.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use super::ahead::Batch;
use super::privilege::{self, Need};
use super::session::LocalSession;
use super::spill::row_footprint;
use super::store::Store;
use super::{Env, Exec, Row, Waiting};
use crate::bind::Binder;
use crate::catalog::object::{Object, Table};
use crate::copy::{CopyFormat, CopyOptions, Field, Header, Reader, Writer};
use crate::encoding::{self, Encoding};
use crate::error::{Result, SqlError, SqlState};
use crate::missing;
use crate::parse::ast::{Body, Copy, CopySource, Ident, Query, Statement};
use crate::plan::relations_of;
use crate::progress::{Command, Count, TOLD_TOGETHER, Tally};
use crate::session::{CopyInput, Sink};
use crate::tree::{Expr, Target};
use crate::types::value::Value;
use crate::types::{Type, Types, binary, oid, text};

/// What a table's COPY FROM was bound to.
struct Loader {
    target: Arc<Target>,
    columns: Vec<usize>,
    /// What the fields are read as: of a domain, the type under it with the length that the domain says.
    types: Vec<Type>,
    /// For all columns of the table; the ones that come are NULL.
    defaults: Vec<Expr>,
    filter: Option<Expr>,
    /// Rows read so far, a header line included.
    line: u64,
}

impl<S: Store> LocalSession<S> {
    pub(crate) fn copy(&mut self, copy: &Copy, sink: &mut dyn Sink) -> Result<String> {
        if copy.file.is_some() {
            let hint =
                "Use COPY .. FROM STDIN or TO STDOUT, which psql's \\copy joins to a file of the client.";
            return Err(SqlError::unsupported("COPY with a file of the server", hint));
        }
        let mut options = CopyOptions::parse(&copy.options)?;
        options.encoding.get_or_insert(self.shared.variables.borrow().eval.client_encoding);
        if copy.from { self.copy_from(copy, options, sink) } else { self.copy_to(copy, options, sink) }
    }

    fn copy_to(&mut self, copy: &Copy, options: CopyOptions, sink: &mut dyn Sink) -> Result<String> {
        if let CopySource::Table(path, _) = &copy.source
            && let Some(view) = self.find(path)?.filter(|found| found.query().is_some())
        {
            let message = format!("cannot copy from {} \"{}\"", view.kind(), view.name());
            let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
            return Err(error.hint("Try the COPY (SELECT ...) TO variant."));
        }
        if options.header == Header::Match {
            let message = "cannot use \"match\" with HEADER in COPY TO";
            return Err(SqlError::refused_by_postgresql(message));
        }
        let (mut names, mut relation) = (None, 0);
        if let CopySource::Table(path, named) = &copy.source
            && let Some(Object::Table(table)) = self.find(path)?.as_deref()
        {
            relation = table.oid;
            let columns = self.with_binder(|binder| copied_columns(binder, table, named))?;
            names = Some(columns.iter().map(|at| table.columns[*at].name.clone()).collect());
        }
        let statement = copied_query(copy, names)?;
        let (plan, _) = self.plan(&statement, Vec::new())?;
        self.asks(&plan)?;
        let columns = plan.columns().unwrap_or_default();
        sink.copy_out(&options.shape(columns.len()))?;
        let is_binary = options.format == CopyFormat::Binary;
        let foreign = options.encoding.filter(|encoding| !is_binary && encoding.is_foreign());
        let writer = Writer::new(options, columns.iter().map(|column| column.name.clone()).collect());
        let progress = self.start.interrupt.progress();
        let _telling = progress.begin(Command::CopyTo, (relation, 0), self.shared.surroundings.clock_us());
        let mut tallies = [Count::Done, Count::Bytes].map(|count| Tally::new(progress, count));
        let mut out = Vec::new();
        writer.begin(&mut out);
        if !out.is_empty() && !is_binary {
            send(sink, foreign, &mut out)?;
        }
        // The head of the binary format goes with the first row: readers count on it.
        let (count, waiting) = self.with_context(|ctx, path| {
            let sizes = (plan.caches, plan.ctes);
            let exec = Exec::new(&self.store, ctx, &[], &self.start.interrupt, path, sizes);
            let mut count = 0u64;
            exec.run(&plan, &mut |row| {
                count += 1;
                let mut forms: Vec<Option<Cow<'_, [u8]>>> = Vec::with_capacity(row.len());
                for (value, column) in row.iter().zip(columns) {
                    let ty = ctx.base_of(column.ty.oid);
                    forms.push(match value {
                        Value::Null => None,
                        // Long values are these, as a rule: they are not copied.
                        Value::Text(text) if !is_binary && matches!(ty, oid::TEXT | oid::VARCHAR) => {
                            Some(Cow::Borrowed(text.as_bytes()))
                        }
                        Value::Bytea(bytes) if is_binary && ty == oid::BYTEA => Some(Cow::Borrowed(bytes)),
                        value if is_binary => {
                            let mut form = Vec::new();
                            binary::send(&ctx, ty, value, &mut form)?;
                            Some(Cow::Owned(form))
                        }
                        value => Some(Cow::Owned(text::output(&ctx, ty, value)?.into_bytes())),
                    });
                }
                let fields = forms.iter().map(|form| match form {
                    None => Field::Null,
                    Some(form) if is_binary => Field::Binary(form),
                    Some(form) => Field::Text(std::str::from_utf8(form).expect("output is text")),
                });
                writer.row(&fields.collect::<Vec<_>>(), &mut out);
                tallies[0].add(1);
                tallies[1].add(out.len() as u64);
                send(sink, foreign, &mut out)?;
                self.send(sink)?;
                Ok(true)
            })?;
            Ok((count, exec.check_constraints(&|constraint| self.is_deferred(constraint))?))
        })?;
        self.waiting.extend(waiting);
        writer.end(&mut out);
        if !out.is_empty() {
            send(sink, foreign, &mut out)?;
        }
        sink.copy_out_done()?;
        Ok(format!("COPY {count}"))
    }

    fn loader(&self, copy: &Copy) -> Result<Loader> {
        let CopySource::Table(path, names) = &copy.source else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "COPY FROM takes a table"));
        };
        self.with_binder(|binder| {
            let table = binder.target_table(path)?;
            if table.materialized.is_some() {
                let message = format!("cannot copy to materialized view \"{}\"", table.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            let columns = copied_columns(binder, &table, names)?;
            let default = |at: usize| match columns.contains(&at) {
                true => Ok(Expr::null()),
                false => binder.default_of(&table, at),
            };
            let defaults = (0..table.columns.len()).map(default).collect::<Result<_>>()?;
            let filter = match &copy.filter {
                None => None,
                Some(filter) => {
                    let typed = binder.table_ast(&table, filter, None, "COPY FROM WHERE conditions")?;
                    Some(binder.boolean(typed, "WHERE")?)
                }
            };
            let read_as = |at: &usize| {
                let column = &table.columns[*at];
                binder.under_domain(column.type_oid).unwrap_or(column.ty())
            };
            let types = columns.iter().map(read_as).collect();
            Ok(Loader { target: binder.target(&table)?, columns, types, defaults, filter, line: 0 })
        })
    }

    fn copy_from(&mut self, copy: &Copy, options: CopyOptions, sink: &mut dyn Sink) -> Result<String> {
        let (mut loader, table) = loop {
            let loader = self.loader(copy)?;
            let table = loader.target.table.clone();
            let need = |object, bits| Need { object, bits, by: 0, at: 0 };
            let needs = [need(table.schema, privilege::USAGE), need(table.oid, privilege::INSERT)];
            if !self.store.hold(&relations_of(&self.store, &needs))? {
                self.allow(&needs)?;
                break (loader, table);
            }
        };
        loader.line = u64::from(options.header != Header::None);
        let name = |at: &usize| table.columns[*at].name.clone();
        sink.copy_in(&options.shape(loader.columns.len()))?;
        let columns = loader.columns.iter().map(name).collect();
        let mut reader = Reader::new(options, table.name.clone(), columns);
        let progress = self.start.interrupt.progress();
        let _telling = progress.begin(Command::CopyFrom, (table.oid, 0), self.shared.surroundings.clock_us());
        let (count, excluded) = (Cell::new(0u64), Cell::new(0u64));
        let tell = || {
            progress.set(Count::Done, count.get());
            progress.set(Count::Excluded, excluded.get());
        };
        let waiting = self.with_context(|ctx, path| {
            let (mut line, loader) = (loader.line, &loader);
            let mut waiting: Vec<Waiting> = Vec::new();
            let new_exec = || Exec::new(&self.store, ctx, &[], &self.start.interrupt, path, (0, 0));
            let mut batch = Batch::new(new_exec().at_once(&table, true)?);
            let mut act = |rows: Vec<Row>| {
                let exec = new_exec();
                exec.announce_new(&table, &rows)?;
                rows.iter().try_for_each(|row| exec.insert_row(&loader.target, row))?;
                count.set(count.get() + rows.len() as u64);
                waiting.extend(exec.waiting.take());
                Ok(())
            };
            let mut take = |fields: &[Field<'_>]| {
                self.start.interrupt.check()?;
                line += 1;
                if line.is_multiple_of(TOLD_TOGETHER) {
                    tell();
                }
                let made = loader.make(&new_exec(), fields, line);
                excluded.set(excluded.get() + u64::from(matches!(made, Ok(None))));
                batch.offer(made, &mut act)
            };
            let fed = loop {
                match sink.copy_read(&mut || self.store.rest())? {
                    CopyInput::Data(bytes) => {
                        progress.add(Count::Bytes, bytes.len() as u64);
                        match reader.feed(bytes, &mut take) {
                            Ok(()) => tell(),
                            failed => break failed,
                        }
                    }
                    CopyInput::Done => break reader.finish(&mut take).map(|_| ()),
                    CopyInput::Fail(why) => {
                        let message = format!("COPY from stdin failed: {why}");
                        return Err(SqlError::new(SqlState::QUERY_CANCELED, message));
                    }
                }
            };
            // What is wrong with rows before comes first.
            batch.finish(&mut act)?;
            fed?;
            tell();
            let exec = Exec::new(&self.store, ctx, &[], &self.start.interrupt, path, (0, 0));
            *exec.waiting.borrow_mut() = waiting;
            exec.check_constraints(&|constraint| self.is_deferred(constraint))
        })?;
        self.waiting.extend(waiting);
        Ok(format!("COPY {}", count.get()))
    }
}

/// Gives bytes of a COPY to the client, those of texts in its encoding if that is another one; there are none
/// left then.
fn send(sink: &mut dyn Sink, foreign: Option<&'static Encoding>, bytes: &mut Vec<u8>) -> Result<()> {
    if let Some(encoding) = foreign
        && let Cow::Owned(other) = encoding.write(encoding::text(bytes)?)?
    {
        *bytes = other;
    }
    sink.copy_row(bytes)
}

/// The query whose rows are copied.
const WITHOUT_ROWS: &str = "COPY query must have a RETURNING clause";

/// The columns of a table that COPY means: those that are named, or all that are not generated.
fn copied_columns(binder: &Binder<'_>, table: &Table, names: &[Ident]) -> Result<Vec<usize>> {
    let mut columns = binder.column_list(table, names).map_err(SqlError::nowhere)?;
    let is_generated = |at: &usize| table.columns[*at].generated.is_some();
    if names.is_empty() {
        columns.retain(|at| !is_generated(at));
    }
    let Some(at) = columns.iter().find(|at| is_generated(at)) else { return Ok(columns) };
    let message = format!("column \"{}\" is a generated column", table.columns[*at].name);
    let refused = SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message);
    Err(refused.detail("Generated columns cannot be used in COPY."))
}

/// `columns`: those of a table, if it is one.
fn copied_query(copy: &Copy, columns: Option<Vec<String>>) -> Result<Statement> {
    let (path, names) = match &copy.source {
        CopySource::Query(statement) => {
            let refused = match &**statement {
                Statement::Query(Query { body: Body::Select(select), .. }) if select.into.is_some() => {
                    Some("COPY (SELECT INTO) is not supported")
                }
                Statement::Merge(_) => Some("MERGE not supported in COPY"),
                Statement::Insert(it) if it.returning.is_empty() => Some(WITHOUT_ROWS),
                Statement::Update(it) if it.returning.is_empty() => Some(WITHOUT_ROWS),
                Statement::Delete(it) if it.returning.is_empty() => Some(WITHOUT_ROWS),
                _ => None,
            };
            return match refused {
                Some(message) => Err(SqlError::refused_by_postgresql(message)),
                None => Ok((**statement).clone()),
            };
        }
        CopySource::Table(path, names) => (path, names),
    };
    let columns = columns.or_else(|| {
        let named = || names.iter().map(|name| name.text.clone()).collect();
        (!names.is_empty()).then(named)
    });
    let quoted = |columns: &Vec<String>| {
        let quoted: Vec<String> = columns.iter().map(|name| crate::func::quote_ident(name)).collect();
        quoted.join(", ")
    };
    let list = columns.as_ref().map_or_else(|| "*".to_string(), quoted);
    let table: Vec<String> = path.parts.iter().map(|part| crate::func::quote_ident(part)).collect();
    let parsed = crate::parse::parse(&format!("SELECT {list} FROM {}", table.join(".")))?;
    let one = parsed.into_iter().next();
    one.map(|one| one.statement).ok_or_else(|| SqlError::unsupported("COPY", missing::STATEMENTS))
}

impl Loader {
    /// A row, and the bytes that it takes; `None` if WHERE does not hold for it.
    fn make<'p>(&'p self, exec: &Exec<'p>, fields: &[Field<'_>], line: u64) -> Result<Option<(Row, usize)>> {
        let (ctx, table) = (exec.ctx, &self.target.table);
        let mut row: Row = Vec::with_capacity(table.columns.len());
        for default in &self.defaults {
            row.push(exec.eval(default, &Env::EMPTY)?);
        }
        for ((field, at), ty) in fields.iter().zip(&self.columns).zip(self.types.iter().copied()) {
            let column = &table.columns[*at];
            let read = match field {
                Field::Null => continue,
                Field::Text(field) => text::input(&ctx, ty, field),
                Field::Binary(field) => binary::receive(&ctx, ty, field, String::new),
            };
            row[*at] = read.map_err(|mut error| {
                let shown = match field {
                    Field::Text(field) => format!(": \"{}\"", crate::copy::shown(field)),
                    Field::Null | Field::Binary(_) => String::new(),
                };
                let place = format!("COPY {}, line {line}, column {}{shown}", table.name, column.name);
                // What the input itself was doing comes first.
                let inner = error.context.take().map_or(String::new(), |inner| format!("{inner}\n"));
                error.context(|| format!("{inner}{place}"))
            })?;
        }
        if !exec.holds(self.filter.as_ref(), &Env { row: &row, outer: None })? {
            return Ok(None);
        }
        exec.complete(&self.target, &mut row)?;
        let bytes = row_footprint(&row);
        Ok(Some((row, bytes)))
    }
}
