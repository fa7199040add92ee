//! COPY: text and CSV in both directions.

use std::sync::Arc;

use super::session::LocalSession;
use super::store::Store;
use super::{Exec, Row};
use crate::bind::tree::{Expr, Target};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::ast::{Copy, CopySource, Statement};
use crate::session::{CopyInput, CopyShape, Format, Sink};
use crate::types::value::Value;
use crate::types::{Type, Types, text};

struct Options {
    csv: bool,
    delimiter: char,
    null: String,
    header: bool,
    quote: char,
    escape: char,
    force_quote: bool,
}

fn options(copy: &Copy) -> Result<Options> {
    let find = |name: &str| copy.options.iter().find(|(option, _)| option == name).map(|(_, values)| values);
    let word = |name: &str| find(name).and_then(|values| values.first()).cloned();
    let format = word("format").unwrap_or_else(|| "text".to_string());
    if format == "binary" {
        return Err(SqlError::unsupported("COPY in binary format"));
    }
    if !matches!(format.as_str(), "text" | "csv") {
        let message = format!("COPY format \"{format}\" not recognized");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    let csv = format == "csv";
    let one = |name: &str, default: char| match word(name) {
        None => Ok(default),
        Some(text) if text.chars().count() == 1 && text.is_ascii() => {
            Ok(text.chars().next().unwrap_or(default))
        }
        Some(_) => {
            let message = format!("COPY {name} must be a single one-byte character");
            Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
        }
    };
    let quote = one("quote", '"')?;
    let off = |word: &String| matches!(word.as_str(), "false" | "off" | "0");
    Ok(Options {
        csv,
        delimiter: one("delimiter", if csv { ',' } else { '\t' })?,
        null: word("null").unwrap_or_else(|| if csv { String::new() } else { "\\N".to_string() }),
        header: find("header").is_some_and(|values| !values.first().is_some_and(off)),
        quote,
        escape: one("escape", quote)?,
        force_quote: find("force_quote").is_some(),
    })
}

impl<S: Store + Send> LocalSession<S> {
    pub(crate) fn copy(&mut self, copy: &Copy, sink: &mut dyn Sink) -> Result<String> {
        if copy.file.is_some() {
            return Err(SqlError::unsupported("COPY with a file of the server"));
        }
        let options = options(copy)?;
        if copy.from { self.copy_from(copy, &options, sink) } else { self.copy_to(copy, &options, sink) }
    }

    fn copy_to(&mut self, copy: &Copy, options: &Options, sink: &mut dyn Sink) -> Result<String> {
        let statement = match &copy.source {
            CopySource::Query(statement) => (**statement).clone(),
            CopySource::Table(path, columns) => {
                let names: Vec<String> =
                    columns.iter().map(|name| super::system::quoted(&name.text)).collect();
                let list = if names.is_empty() { "*".to_string() } else { names.join(", ") };
                let table: Vec<String> = path.parts.iter().map(|part| super::system::quoted(part)).collect();
                let parsed = crate::parse::parse(&format!("SELECT {list} FROM {}", table.join(".")))?;
                parsed
                    .into_iter()
                    .next()
                    .map(|one| one.statement)
                    .ok_or_else(|| SqlError::unsupported("COPY"))?
            }
        };
        let (plan, _) = self.plan(&statement, Vec::new())?;
        let columns = plan.columns().unwrap_or_default().to_vec();
        let (rows, count) = self.rows_of(&plan, &[])?;
        sink.copy_out(&CopyShape { format: Format::Text, columns: columns.len() as u16 })?;
        if options.header {
            let names: Vec<Option<String>> = columns.iter().map(|column| Some(column.name.clone())).collect();
            sink.copy_bytes(line(options, &names).as_bytes())?;
        }
        self.with_context(|ctx, _| {
            for row in &rows {
                let mut fields = Vec::with_capacity(row.len());
                for (value, column) in row.iter().zip(&columns) {
                    fields.push(match value {
                        Value::Null => None,
                        value => Some(text::output(&ctx, ctx.base_of(column.ty.oid), value)?),
                    });
                }
                sink.copy_bytes(line(options, &fields).as_bytes())?;
            }
            Ok(())
        })?;
        sink.copy_out_done()?;
        let _ = matches!(statement, Statement::Query(_));
        Ok(format!("COPY {count}"))
    }

    fn copy_from(&mut self, copy: &Copy, options: &Options, sink: &mut dyn Sink) -> Result<String> {
        let CopySource::Table(path, names) = &copy.source else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "COPY FROM takes a table"));
        };
        let (target, columns, defaults, filter) = self.with_binder(|binder| {
            let table = binder.target_table(path)?;
            let columns = binder.column_list(&table, names)?;
            let columns: Vec<usize> = match names.is_empty() {
                true => columns.into_iter().filter(|at| table.columns[*at].generated.is_none()).collect(),
                false => columns,
            };
            let mut defaults = Vec::new();
            for at in 0..table.columns.len() {
                defaults.push(if columns.contains(&at) {
                    Expr::null()
                } else {
                    binder.default_of(&table, at)?
                });
            }
            let filter = match &copy.filter {
                None => None,
                Some(filter) => {
                    let typed = binder.table_ast(&table, filter, None)?;
                    Some(binder.boolean(typed, "WHERE")?)
                }
            };
            Ok((binder.target(&table)?, columns, defaults, filter))
        })?;
        sink.copy_in(&CopyShape { format: Format::Text, columns: columns.len() as u16 })?;
        let mut records = Records { options, pending: Vec::new(), done: false, line: 0 };
        if options.header {
            records.next(sink)?;
        }
        let mut count = 0u64;
        let mut waiting = Vec::new();
        while let Some(fields) = records.next(sink)? {
            let loader =
                Loader { target: &target, columns: &columns, defaults: &defaults, filter: filter.as_ref() };
            let noted = self.load(&loader, fields, records.line)?;
            if let Some(noted) = noted {
                count += 1;
                waiting.extend(noted);
            }
        }
        let rest = self.with_context(|ctx, path| {
            let exec = Exec::new(&self.store, ctx, &[], &self.start.interrupt, path, (0, 0));
            *exec.waiting.borrow_mut() = waiting;
            exec.settle_constraints(&|constraint| self.is_deferred(constraint))
        })?;
        self.waiting.extend(rest);
        Ok(format!("COPY {count}"))
    }

    /// Adds one row; what is to be checked later.
    fn load(
        &self,
        loader: &Loader<'_>,
        fields: Vec<Option<String>>,
        number: u64,
    ) -> Result<Option<Vec<super::Waiting>>> {
        let table = &loader.target.table;
        if fields.len() > loader.columns.len() {
            return Err(SqlError::new(
                SqlState::BAD_COPY_FILE_FORMAT,
                "extra data after last expected column",
            ));
        }
        if fields.len() < loader.columns.len() {
            let column = &table.columns[loader.columns[fields.len()]].name;
            let message = format!("missing data for column \"{column}\"");
            return Err(SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message));
        }
        self.with_context(|ctx, path| {
            let exec = Exec::new(&self.store, ctx, &[], &self.start.interrupt, path, (0, 0));
            let mut row: Row = Vec::with_capacity(table.columns.len());
            for default in loader.defaults {
                row.push(exec.eval(default, &super::Env::EMPTY)?);
            }
            for (field, at) in fields.iter().zip(loader.columns) {
                let column = &table.columns[*at];
                let ty = Type { oid: ctx.base_of(column.type_oid), modifier: column.modifier };
                if let Some(field) = field {
                    row[*at] = text::input(&ctx, ty, field).map_err(|mut error| {
                        error.detail.get_or_insert_with(|| {
                            format!("COPY {}, line {number}, column {}: \"{field}\"", table.name, column.name)
                        });
                        error
                    })?;
                }
            }
            if !exec.holds(loader.filter, &super::Env { row: &row, outer: None })? {
                return Ok(None);
            }
            exec.complete(loader.target, &mut row)?;
            exec.insert_row(loader.target, &row)?;
            Ok(Some(exec.waiting.take()))
        })
    }
}

struct Loader<'l> {
    target: &'l Arc<Target>,
    columns: &'l [usize],
    defaults: &'l [Expr],
    filter: Option<&'l Expr>,
}

/// The records of a stream of bytes.
struct Records<'o> {
    options: &'o Options,
    pending: Vec<u8>,
    done: bool,
    line: u64,
}

impl Records<'_> {
    fn next(&mut self, sink: &mut dyn Sink) -> Result<Option<Vec<Option<String>>>> {
        loop {
            if let Some(end) = self.end() {
                let mut record: Vec<u8> = self.pending.drain(..end.min(self.pending.len())).collect();
                self.line += 1;
                while matches!(record.last(), Some(b'\n' | b'\r')) {
                    record.pop();
                }
                if record == b"\\." {
                    self.pending.clear();
                    continue;
                }
                let record = String::from_utf8(record).map_err(|_| {
                    let message = "invalid byte sequence for encoding \"UTF8\"";
                    SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
                })?;
                let fields = if self.options.csv {
                    csv_fields(&record, self.options)?
                } else {
                    text_fields(&record, self.options)
                };
                return Ok(Some(fields));
            }
            if self.done {
                return Ok(None);
            }
            match sink.copy_read()? {
                CopyInput::Data(bytes) => self.pending.extend_from_slice(bytes),
                CopyInput::Done => self.done = true,
                CopyInput::Fail(why) => {
                    let message = format!("COPY from stdin failed: {why}");
                    return Err(SqlError::new(SqlState::QUERY_CANCELED, message));
                }
            }
        }
    }

    /// Where the next record ends, if all of it is here.
    fn end(&self) -> Option<usize> {
        let mut quoted = false;
        for (at, byte) in self.pending.iter().enumerate() {
            if self.options.csv && *byte == self.options.quote as u8 {
                quoted = !quoted;
            } else if *byte == b'\n' && !quoted {
                return Some(at + 1);
            }
        }
        (self.done && !self.pending.is_empty()).then_some(self.pending.len())
    }
}

fn text_fields(record: &str, options: &Options) -> Vec<Option<String>> {
    let mut fields = Vec::new();
    let (mut raw, mut value) = (String::new(), String::new());
    let mut chars = record.chars().peekable();
    loop {
        match chars.next() {
            Some('\\') => {
                let Some(next) = chars.next() else { continue };
                raw.push('\\');
                raw.push(next);
                match next {
                    'b' => value.push('\u{8}'),
                    'f' => value.push('\u{c}'),
                    'n' => value.push('\n'),
                    'r' => value.push('\r'),
                    't' => value.push('\t'),
                    'v' => value.push('\u{b}'),
                    other => value.push(other),
                }
            }
            Some(c) if c != options.delimiter => {
                raw.push(c);
                value.push(c);
            }
            end => {
                let null = raw == options.null;
                fields.push((!null).then(|| std::mem::take(&mut value)));
                value.clear();
                raw.clear();
                if end.is_none() {
                    return fields;
                }
            }
        }
    }
}

fn csv_fields(record: &str, options: &Options) -> Result<Vec<Option<String>>> {
    let mut fields = Vec::new();
    let mut value = String::new();
    let (mut quoted, mut was_quoted) = (false, false);
    let mut chars = record.chars().peekable();
    loop {
        match chars.next() {
            Some(c) if quoted && c == options.escape && chars.peek() == Some(&options.quote) => {
                chars.next();
                value.push(options.quote);
            }
            Some(c) if c == options.quote => {
                quoted = !quoted;
                was_quoted = true;
            }
            Some(c) if quoted || c != options.delimiter => value.push(c),
            None if quoted => {
                return Err(SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, "unterminated CSV quoted field"));
            }
            end => {
                let null = !was_quoted && value == options.null;
                fields.push((!null).then(|| std::mem::take(&mut value)));
                value.clear();
                was_quoted = false;
                if end.is_none() {
                    return Ok(fields);
                }
            }
        }
    }
}

fn line(options: &Options, fields: &[Option<String>]) -> String {
    let mut out = String::new();
    for (at, field) in fields.iter().enumerate() {
        if at > 0 {
            out.push(options.delimiter);
        }
        match field {
            None => out.push_str(&options.null),
            Some(field) if options.csv => {
                let special =
                    |c: char| c == options.delimiter || c == options.quote || c == '\n' || c == '\r';
                if options.force_quote || *field == options.null || field.contains(special) {
                    out.push(options.quote);
                    for c in field.chars() {
                        if c == options.quote || c == options.escape {
                            out.push(options.escape);
                        }
                        out.push(c);
                    }
                    out.push(options.quote);
                } else {
                    out.push_str(field);
                }
            }
            Some(field) => {
                for c in field.chars() {
                    match c {
                        '\\' => out.push_str("\\\\"),
                        '\n' => out.push_str("\\n"),
                        '\r' => out.push_str("\\r"),
                        '\t' => out.push_str("\\t"),
                        '\u{8}' => out.push_str("\\b"),
                        '\u{c}' => out.push_str("\\f"),
                        '\u{b}' => out.push_str("\\v"),
                        c if c == options.delimiter => {
                            out.push('\\');
                            out.push(c);
                        }
                        c => out.push(c),
                    }
                }
            }
        }
    }
    out.push('\n');
    out
}
