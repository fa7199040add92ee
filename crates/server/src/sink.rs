//! Answers of a session as messages: the [`Sink`] of a connection.
//!
//! Invariants:
//! 1. A row is encoded straight into the output; an error in the middle of it takes the whole row back.
//! 2. What is sent before the end of a statement is sent because it is much, or because the client must act
//!    on it (COPY).

use std::io::Write as _;

use liger_sql::error::{Severity, SqlError, SqlState};
use liger_sql::session::{ColumnDescription, CopyInput, CopyShape, Format, Formats, Sink};
use liger_sql::types::context::EvalContext;
use liger_sql::types::value::Value;
use liger_sql::types::{Oid, binary, oid, text};

use crate::peer::Peer;
use crate::timer::StatementTimer;
use crate::wire::backend::{self, Put};
use crate::wire::beside::Beside;
use crate::wire::frontend::{Fields, MessageError};
use crate::wire::stream::{Arrived, Stream, StreamError};

/// Largest body of a message, bytes: no string of PostgreSQL's is longer, and its clients take no more.
const BODY_BYTES_MAX: usize = (1 << 30) - 2;

/// The error of a message that would become too long.
#[cold]
fn too_long(bytes: usize, more: usize) -> SqlError {
    let detail = format!("Cannot enlarge string buffer containing {bytes} bytes by {more} more bytes.");
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "out of memory").detail(detail)
}

/// What the encoder of rows keeps between rows and statements.
#[derive(Debug, Default)]
pub(crate) struct RowShape {
    columns: Vec<(Oid, Format)>,
    scratch: String,
}

/// The sink of one call of a session.
pub(crate) struct WireSink<'a> {
    pub stream: &'a mut Stream,
    pub shape: &'a mut RowShape,
    pub peer: &'a Peer,
    pub timer: &'a mut StatementTimer,
    /// Whether columns are described before rows: in the simple protocol.
    pub describes: bool,
    pub message_bytes_max: usize,
}

impl Sink for WireSink<'_> {
    fn columns(&mut self, columns: &[ColumnDescription], formats: Formats<'_>) -> Result<(), SqlError> {
        if self.describes {
            let to = self.peer.encoding.get();
            backend::row_description(&mut self.stream.output, columns, formats, to)?;
        }
        self.shape.columns.clear();
        let described = columns.iter().enumerate().map(|(at, column)| (column.ty.oid, formats.of(at)));
        self.shape.columns.extend(described);
        Ok(())
    }

    fn row(&mut self, context: &EvalContext<'_>, values: &[Value]) -> Result<(), SqlError> {
        let RowShape { columns, scratch } = &mut *self.shape;
        assert_eq!(values.len(), columns.len(), "a row has as many values as there are columns");
        let Stream { output, beside, .. } = &mut *self.stream;
        let settings = context.settings;
        let is_utf8 = settings.client_encoding.is_utf8();
        let (before, known, mut elsewhere) = (output.len(), beside.len(), 0);
        let put = backend::data_row(output, values.len(), |out, at| {
            let ((ty, format), value) = (columns[at], &values[at]);
            let bytes = out.len() - before + elsewhere;
            if let Some(long) = Beside::of(value, ty, format, settings.bytea_escape, is_utf8) {
                let more = long.len();
                if bytes + more > BODY_BYTES_MAX {
                    return Err(too_long(bytes, more));
                }
                beside.push((out.len(), long));
                elsewhere += more;
                return Ok(Put::Beside(more));
            }
            write_value(context, ty, format, value, scratch, out)?;
            if out.len() - before + elsewhere > BODY_BYTES_MAX {
                return Err(too_long(bytes, out.len() - before + elsewhere - bytes));
            }
            Ok(if value.is_null() { Put::Null } else { Put::Here })
        });
        if put.is_err() {
            beside.truncate(known);
        }
        put
    }

    fn send(&mut self, waits: &mut dyn FnMut()) -> Result<(), SqlError> {
        self.stream.send_if_large(waits).map_err(gone)
    }

    fn command_complete(&mut self, tag: &str) -> Result<(), SqlError> {
        backend::command_complete(&mut self.stream.output, tag);
        Ok(())
    }

    fn empty(&mut self) -> Result<(), SqlError> {
        backend::bare(&mut self.stream.output, b'I');
        Ok(())
    }

    fn notice(&mut self, notice: &SqlError) -> Result<(), SqlError> {
        backend::notice(&mut self.stream.output, notice, self.peer.encoding.get())
    }

    fn copy_in(&mut self, shape: &CopyShape) -> Result<(), SqlError> {
        backend::copy_response(&mut self.stream.output, b'G', shape);
        self.stream.send().map_err(gone)
    }

    fn copy_read(&mut self, waits: &mut dyn FnMut()) -> Result<CopyInput<'_>, SqlError> {
        loop {
            self.peer.interrupt.check()?;
            let (kind, body) = match self.stream.message(self.message_bytes_max).map_err(gone)? {
                Arrived::Message(kind, body) => (kind, body),
                Arrived::Quiet => {
                    waits();
                    continue;
                }
                Arrived::Closed => {
                    self.peer.interrupt.check()?;
                    return Err(fatal("unexpected EOF on client connection during COPY from stdin"));
                }
            };
            return match kind {
                b'd' => Ok(CopyInput::Data(self.stream.bytes(body))),
                b'c' => Ok(CopyInput::Done),
                b'f' => {
                    let text = Fields(self.stream.bytes(body)).raw_text().map_err(|e| message_error(&e))?;
                    Ok(CopyInput::Fail(self.peer.encoding.get().read(text)?.into_owned()))
                }
                // Clients may send them after every message; they mean nothing here.
                b'H' | b'S' => continue,
                other => {
                    let message = format!("unexpected message type 0x{other:02X} during COPY from stdin");
                    Err(SqlError::notice(Severity::Fatal, SqlState::PROTOCOL_VIOLATION, message))
                }
            };
        }
    }

    fn copy_out(&mut self, shape: &CopyShape) -> Result<(), SqlError> {
        backend::copy_response(&mut self.stream.output, b'H', shape);
        Ok(())
    }

    fn copy_bytes(&mut self, bytes: &[u8]) -> Result<(), SqlError> {
        if bytes.len() > BODY_BYTES_MAX {
            return Err(too_long(0, bytes.len()));
        }
        backend::copy_data(&mut self.stream.output, bytes);
        Ok(())
    }

    fn copy_row(&mut self, row: &mut Vec<u8>) -> Result<(), SqlError> {
        if row.len() > BODY_BYTES_MAX {
            return Err(too_long(0, row.len()));
        }
        let Stream { output, beside, .. } = &mut *self.stream;
        match Beside::take(row) {
            Some(long) => {
                backend::copy_data_beside(output, long.len());
                beside.push((output.len(), long));
            }
            None => {
                backend::copy_data(output, row);
                row.clear();
            }
        }
        Ok(())
    }

    fn copy_out_done(&mut self) -> Result<(), SqlError> {
        backend::bare(&mut self.stream.output, b'c');
        Ok(())
    }

    fn next_statement(&mut self, statement_ms: u64) {
        self.timer.stop();
        self.timer.run(statement_ms);
    }

    fn told(&self) -> u64 {
        self.stream.position()
    }

    fn unsay(&mut self, told: u64) -> bool {
        self.stream.take_back(told)
    }
}

fn fatal(message: impl Into<String>) -> SqlError {
    SqlError::notice(Severity::Fatal, SqlState::CONNECTION_FAILURE, message)
}

/// The error of a statement whose client is gone.
fn gone(error: StreamError) -> SqlError {
    error.to_sql()
}

/// The error of a message that cannot be read.
pub(crate) fn message_error(error: &MessageError) -> SqlError {
    let state = match error {
        MessageError::NotUtf8(_) => SqlState::CHARACTER_NOT_IN_REPERTOIRE,
        MessageError::FormatCode(_) => SqlState::INVALID_PARAMETER_VALUE,
        _ => SqlState::PROTOCOL_VIOLATION,
    };
    SqlError::new(state, error.to_string())
}

/// Appends the bytes of a value; nothing for NULL. The commonest forms are written here, which saves a text
/// of their own; all others by their type.
fn write_value(
    context: &EvalContext<'_>,
    ty: Oid,
    format: Format,
    value: &Value,
    scratch: &mut String,
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    match (format, value) {
        (_, Value::Null) => {}
        (_, Value::Text(text)) if matches!(ty, oid::TEXT | oid::VARCHAR | oid::BPCHAR) => {
            out.extend_from_slice(&context.settings.client_encoding.write(text)?);
        }
        (Format::Text, Value::Int4(number)) if ty == oid::INT4 => decimal(i64::from(*number), out),
        (Format::Text, Value::Int8(number)) if ty == oid::INT8 => decimal(*number, out),
        (Format::Binary, Value::Int4(number)) if ty == oid::INT4 => out.extend(number.to_be_bytes()),
        (Format::Binary, Value::Int8(number)) if ty == oid::INT8 => out.extend(number.to_be_bytes()),
        (Format::Text, value) => {
            scratch.clear();
            text::write(context, ty, value, scratch)?;
            out.extend_from_slice(&context.settings.client_encoding.write(scratch)?);
        }
        (Format::Binary, value) => binary::send(context, ty, value, out)?,
    }
    Ok(())
}

fn decimal(number: i64, out: &mut Vec<u8>) {
    write!(out, "{number}").expect("a vector takes everything");
}
