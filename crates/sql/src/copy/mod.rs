//! The formats of COPY: bytes to rows of fields and back, in text, CSV and PostgreSQL's binary form.
//!
//! ```text
//!   bytes of a client, cut anywhere -> Reader (text | csv | binary) -> rows of Field -> input of each type
//!   text or binary form of values   -> Writer                       -> bytes of one row
//! ```
//!
//! Invariants:
//! 1. Where the bytes are cut makes no difference to the rows.
//! 2. A field that is given as text is UTF-8. Bytes in another encoding are converted before anything looks
//!    at them, so that a byte of a character is no delimiter.
//! 3. What was written is read back as the same fields, in every format and with all options that are
//!    accepted.
//!
//! Errors have PostgreSQL's codes and messages (22P04 for a row that cannot be read). Types, defaults and
//! constraints are not its business.
//!
//! Source: PostgreSQL's manual, COPY, sections "Text Format", "CSV Format", "Binary Format".

mod binary;
mod csv;
mod options;
mod text;
mod writer;

pub use options::{CopyFormat, CopyOptions, Header};
pub use writer::Writer;

use std::ops::Range;

use crate::encoding::{self, Encoding};
use crate::error::{Result, SqlError, SqlState};

/// A field of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field<'a> {
    /// NULL.
    Null,
    /// In text form.
    Text(&'a str),
    /// In binary form.
    Binary(&'a [u8]),
}

/// The fields of one row while it is read: where each lies in a buffer of its own.
#[derive(Debug, Default)]
struct Fields {
    bytes: Vec<u8>,
    ranges: Vec<Option<Range<usize>>>,
}

impl Fields {
    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(BYTES_KEPT);
        self.ranges.clear();
    }

    /// Ends the field that began at `start`.
    fn end(&mut self, start: usize, is_null: bool) {
        self.ranges.push((!is_null).then_some(start..self.bytes.len()));
    }
}

/// How far a row has been read whose end has not come: what is before that is not read again.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// The next byte to read.
    at: usize,
    /// Where the field begins that is being read, and where it does in the buffer of the fields.
    field_at: usize,
    start: usize,
    /// Of CSV: between quotes; and there have been some in this field.
    in_quotes: bool,
    was_quoted: bool,
}

/// Buffers longer than this are not kept from row to row, bytes.
const BYTES_KEPT: usize = 1 << 20;

/// What the options say about NULL in a column of CSV.
#[derive(Clone, Copy, Debug, Default)]
struct NullRule {
    force_null: bool,
    force_not_null: bool,
}

/// What a step of reading found at the start of the bytes that wait.
enum Step {
    /// A row of this many bytes, its end included; its fields are in `Fields`.
    Row(usize),
    /// The end of the data, as the data says.
    End,
    /// Not enough bytes.
    More,
}

/// Reads rows.
#[derive(Debug)]
pub struct Reader {
    options: CopyOptions,
    columns: Vec<String>,
    null_rules: Vec<NullRule>,
    /// The first bytes of a character whose others have not come.
    cut: Vec<u8>,
    pending: Vec<u8>,
    fields: Fields,
    /// How far the row has been read that `pending` begins with.
    progress: Progress,
    line_end: Option<text::LineEnd>,
    /// Rows read, the header included.
    rows: u64,
    /// Lines read: rows may have several.
    lines: u64,
    /// What the rows are for, as messages name it.
    table: String,
    header_left: bool,
    ended: bool,
}

impl Reader {
    /// A reader of rows of a table's columns, all with their names.
    pub fn new(options: CopyOptions, table: String, columns: Vec<String>) -> Self {
        let header_left = options.header != Header::None || options.format == CopyFormat::Binary;
        let has =
            |names: &[String], name: &String| names.iter().any(|listed| listed == "*" || listed == name);
        let null_rule = |name: &String| NullRule {
            force_null: has(&options.force_null, name),
            force_not_null: has(&options.force_not_null, name),
        };
        let null_rules = columns.iter().map(null_rule).collect();
        Self {
            options,
            columns,
            null_rules,
            cut: Vec::new(),
            pending: Vec::new(),
            fields: Fields::default(),
            progress: Progress::default(),
            line_end: None,
            rows: 0,
            lines: 0,
            table,
            header_left,
            ended: false,
        }
    }

    /// Takes bytes and calls `row` for each row that is whole.
    ///
    /// # Errors
    /// 22P04 and 22021: the bytes are no rows; and those of `row`.
    pub fn feed(&mut self, bytes: &[u8], row: &mut dyn FnMut(&[Field<'_>]) -> Result<()>) -> Result<()> {
        if !self.ended {
            match self.foreign() {
                None => self.pending.extend_from_slice(bytes),
                Some(encoding) => {
                    self.cut.extend_from_slice(bytes);
                    let (text, used) = encoding.read_start(&self.cut)?;
                    self.cut.drain(..used);
                    self.pending.extend_from_slice(text.as_bytes());
                }
            }
            self.read(false, row)?;
        }
        Ok(())
    }

    /// The encoding that bytes have to be converted from.
    fn foreign(&self) -> Option<&'static Encoding> {
        let is_text = self.options.format != CopyFormat::Binary;
        self.options.encoding.filter(|encoding| is_text && encoding.is_foreign())
    }

    /// No more bytes come.
    ///
    /// # Errors
    /// As of `feed`; also where the last row is not whole.
    pub fn finish(mut self, row: &mut dyn FnMut(&[Field<'_>]) -> Result<()>) -> Result<u64> {
        if !self.ended {
            if let Some(encoding) = self.foreign() {
                encoding.read(&self.cut)?;
            }
            self.read(true, row)?;
        }
        // Some drivers leave the trailer out, and PostgreSQL does not miss it.
        let is_whole = self.ended || (self.pending.is_empty() && !self.header_left);
        if self.options.format == CopyFormat::Binary && !is_whole {
            return Err(bad("unexpected EOF in COPY data"));
        }
        Ok(self.rows)
    }

    fn read(&mut self, last: bool, row: &mut dyn FnMut(&[Field<'_>]) -> Result<()>) -> Result<()> {
        let mut at = 0;
        while !self.ended {
            let bytes = &self.pending[at..];
            let (options, known) = (&self.options, &mut self.line_end);
            let (fields, progress) = (&mut self.fields, &mut self.progress);
            let step = match options.format {
                CopyFormat::Text => text::step(bytes, last, options, known, fields, progress),
                CopyFormat::Csv => csv::step(bytes, last, options, &self.null_rules, known, fields, progress),
                CopyFormat::Binary if self.header_left => binary::header(bytes),
                CopyFormat::Binary => binary::step(bytes, fields, progress),
            };
            let is_text = options.format != CopyFormat::Binary;
            let told = |error: SqlError, line: u64, written: &[u8]| match is_text {
                true => error.context(|| self.context(line, written)),
                false => error,
            };
            let step = step.map_err(|error| {
                let is_read = error.message.starts_with("unterminated");
                told(error, self.lines + 1, if is_read { bytes } else { &[] })
            });
            match step? {
                Step::More => break,
                Step::End => self.ended = true,
                Step::Row(length) => {
                    let written = &bytes[..length];
                    let line = self.lines + 1;
                    let taken = match self.header_left {
                        true => self.check_header(),
                        false => self.give(row),
                    };
                    taken.map_err(|error| told(error, line, written))?;
                    at += length;
                    self.fields.clear();
                    self.progress = Progress::default();
                    self.rows += u64::from(!std::mem::take(&mut self.header_left));
                    if is_text {
                        let written = &self.pending[at - length..at - 1];
                        self.lines += 1 + written.iter().filter(|byte| **byte == b'\n').count() as u64;
                    }
                }
            }
        }
        if self.ended {
            self.pending = Vec::new();
        } else {
            self.pending.drain(..at);
        }
        if self.pending.capacity() > BYTES_KEPT && self.pending.len() < BYTES_KEPT {
            self.pending.shrink_to(BYTES_KEPT);
        }
        Ok(())
    }

    fn give(&self, row: &mut dyn FnMut(&[Field<'_>]) -> Result<()>) -> Result<()> {
        let Fields { bytes, ranges } = &self.fields;
        let wanted = self.columns.len();
        if ranges.len() > wanted {
            return Err(match self.options.format {
                CopyFormat::Binary => bad(format!("row field count is {}, expected {wanted}", ranges.len())),
                _ => bad("extra data after last expected column"),
            });
        }
        if let Some(missing) = self.columns.get(ranges.len()) {
            return Err(bad(format!("missing data for column \"{missing}\"")));
        }
        let mut fields = Vec::with_capacity(wanted);
        for range in ranges {
            fields.push(match range {
                None => Field::Null,
                Some(range) if self.options.format == CopyFormat::Binary => {
                    Field::Binary(&bytes[range.clone()])
                }
                Some(range) => Field::Text(encoding::text(&bytes[range.clone()])?),
            });
        }
        row(&fields)
    }

    /// Where a fault is, as PostgreSQL tells it, with the line as far as it is text and was read.
    fn context(&self, line: u64, written: &[u8]) -> String {
        let place = format!("COPY {}, line {line}", self.table);
        match std::str::from_utf8(written) {
            Ok(written) if !written.is_empty() => {
                format!("{place}: \"{}\"", shown(written.trim_end_matches(['\r', '\n'])))
            }
            _ => place,
        }
    }

    fn check_header(&self) -> Result<()> {
        if self.options.header != Header::Match {
            return Ok(());
        }
        let Fields { bytes, ranges } = &self.fields;
        if ranges.len() != self.columns.len() {
            let (got, wanted) = (ranges.len(), self.columns.len());
            return Err(bad(format!("wrong number of fields in header line: got {got}, expected {wanted}")));
        }
        for (at, (range, column)) in ranges.iter().zip(&self.columns).enumerate() {
            let got = range.as_ref().map(|range| &bytes[range.clone()]);
            if got != Some(column.as_bytes()) {
                let got = match got {
                    None => format!("null value (\"{}\")", self.options.null),
                    Some(got) => format!("\"{}\"", String::from_utf8_lossy(got)),
                };
                let place = format!("column name mismatch in header line field {}", at + 1);
                return Err(bad(format!("{place}: got {got}, expected \"{column}\"")));
            }
        }
        Ok(())
    }
}

/// A text as contexts show it: what is beyond 100 bytes is left out.
pub(crate) fn shown(text: &str) -> String {
    match text.len() {
        ..=100 => text.to_string(),
        _ => format!("{}...", &text[..text.floor_char_boundary(100)]),
    }
}

fn bad(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

#[cfg(test)]
mod tests;
