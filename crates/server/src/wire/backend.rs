//! Messages to clients: appended to a buffer that somebody else sends.
//!
//! Every message is `u8 kind, i32 length, body`; the length is put in when the body is there.
//!
//! Invariants:
//! 1. What cannot be said in the protocol (a zero byte in a text, a message of 2 GiB) is cut or asserted
//!    before. What fails is a text with a character that the client's encoding lacks (22P05); then nothing
//!    is appended.
//! 2. No allocation but the growth of the buffer, and texts in other encodings than UTF-8.
//!
//! Source: PostgreSQL's manual, "Message Formats".

use liger_sql::encoding::{self, Encoding};
use liger_sql::error::SqlError;
use liger_sql::session::{ColumnDescription, CopyShape, Format, Formats, TransactionState};
use liger_sql::types::Oid;

/// Appends a message; `body` appends its body.
pub fn message(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    with_length(out, body);
}

/// As [`message`], of a body that may fail: then nothing is appended.
fn texts(
    out: &mut Vec<u8>,
    kind: u8,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), SqlError>,
) -> Result<(), SqlError> {
    let start = out.len();
    let mut result = Ok(());
    message(out, kind, |out| result = body(out));
    if result.is_err() {
        out.truncate(start);
    }
    result
}

/// Appends a length of four bytes that counts itself, and what `body` appends.
fn with_length(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let bytes = out.len() - at;
    set_length(out, at, bytes);
}

/// Puts a number of bytes into the four bytes at `at`.
fn set_length(out: &mut [u8], at: usize, bytes: usize) {
    let length = i32::try_from(bytes).expect("a message is shorter than 2 GiB");
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends a text and its terminator; a zero byte in the text would end it early and is left out.
fn text(out: &mut Vec<u8>, text: &str) {
    bytes(out, text.as_bytes());
}

/// As [`text`], in the client's encoding.
fn text_in(out: &mut Vec<u8>, text: &str, to: &Encoding) -> Result<(), SqlError> {
    bytes(out, &to.write(text)?);
    Ok(())
}

fn bytes(out: &mut Vec<u8>, text: &[u8]) {
    if text.contains(&0) {
        out.extend(text.iter().filter(|&&byte| byte != 0));
    } else {
        out.extend_from_slice(text);
    }
    out.push(0);
}

fn count16(out: &mut Vec<u8>, count: usize) {
    let count = u16::try_from(count).expect("at most 65,535 columns or parameters");
    out.extend_from_slice(&count.to_be_bytes());
}

fn format_code(out: &mut Vec<u8>, format: Format) {
    out.extend_from_slice(&u16::from(format == Format::Binary).to_be_bytes());
}

/// `R`: an authentication request with its code and data.
pub fn authentication(out: &mut Vec<u8>, code: i32, data: &[u8]) {
    message(out, b'R', |out| {
        out.extend_from_slice(&code.to_be_bytes());
        out.extend_from_slice(data);
    });
}

/// `v`: the newest minor version that the server speaks, and the options that it does not know.
pub fn negotiate_protocol_version(out: &mut Vec<u8>, minor: u16, unknown: &[&str]) {
    message(out, b'v', |out| {
        out.extend_from_slice(&(3 << 16 | i32::from(minor)).to_be_bytes());
        out.extend_from_slice(&i32::try_from(unknown.len()).expect("few options").to_be_bytes());
        unknown.iter().for_each(|name| text(out, name));
    });
}

/// `S`: a setting that the client is told of.
pub fn parameter_status(out: &mut Vec<u8>, name: &str, value: &str, to: &Encoding) -> Result<(), SqlError> {
    texts(out, b'S', |out| {
        text(out, name);
        text_in(out, value, to)
    })
}

/// `K`: what a cancel request must name.
pub fn backend_key_data(out: &mut Vec<u8>, process_id: i32, secret: &[u8]) {
    message(out, b'K', |out| {
        out.extend_from_slice(&process_id.to_be_bytes());
        out.extend_from_slice(secret);
    });
}

/// `Z`: the server waits for the client.
pub fn ready_for_query(out: &mut Vec<u8>, state: TransactionState) {
    let state = match state {
        TransactionState::Idle => b'I',
        TransactionState::Active => b'T',
        TransactionState::Failed => b'E',
    };
    out.extend_from_slice(&[b'Z', 0, 0, 0, 5, state]);
}

/// A message without a body: `1` ParseComplete, `2` BindComplete, `3` CloseComplete, `n` NoData,
/// `s` PortalSuspended, `I` EmptyQueryResponse, `c` CopyDone.
pub fn bare(out: &mut Vec<u8>, kind: u8) {
    out.extend_from_slice(&[kind, 0, 0, 0, 4]);
}

/// `C`: a statement has ended; a tag is ASCII.
pub fn command_complete(out: &mut Vec<u8>, tag: &str) {
    message(out, b'C', |out| text(out, tag));
}

/// `T`: the columns of a result.
pub fn row_description(
    out: &mut Vec<u8>,
    columns: &[ColumnDescription],
    formats: Formats<'_>,
    to: &Encoding,
) -> Result<(), SqlError> {
    texts(out, b'T', |out| {
        count16(out, columns.len());
        for (at, column) in columns.iter().enumerate() {
            text_in(out, &column.name, to)?;
            out.extend_from_slice(&column.table.to_be_bytes());
            out.extend_from_slice(&column.attribute.to_be_bytes());
            out.extend_from_slice(&column.ty.oid.to_be_bytes());
            out.extend_from_slice(&column.len.to_be_bytes());
            out.extend_from_slice(&column.ty.modifier.to_be_bytes());
            format_code(out, formats.of(at));
        }
        Ok(())
    })
}

/// `t`: the types of a statement's parameters.
pub fn parameter_description(out: &mut Vec<u8>, types: &[Oid]) {
    message(out, b't', |out| {
        count16(out, types.len());
        types.iter().for_each(|oid| out.extend_from_slice(&oid.to_be_bytes()));
    });
}

/// What has become of a value of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put {
    /// It is NULL: it has no bytes.
    Null,
    /// Its bytes are appended.
    Here,
    /// It is this long, and its bytes come from elsewhere when the row is sent.
    Beside(usize),
}

/// `D`: a row of `count` values; `value` appends the bytes of one, unless it says otherwise. On an error the
/// whole message is taken back.
pub fn data_row<E>(
    out: &mut Vec<u8>,
    count: usize,
    mut value: impl FnMut(&mut Vec<u8>, usize) -> Result<Put, E>,
) -> Result<(), E> {
    let start = out.len();
    out.extend_from_slice(&[b'D', 0, 0, 0, 0]);
    count16(out, count);
    let mut elsewhere = 0;
    for index in 0..count {
        let at = out.len();
        out.extend_from_slice(&[0xff; 4]);
        match value(out, index) {
            Ok(Put::Here) => {
                let bytes = out.len() - at - 4;
                set_length(out, at, bytes);
            }
            Ok(Put::Beside(bytes)) => {
                debug_assert_eq!(out.len(), at + 4, "its bytes are elsewhere");
                set_length(out, at, bytes);
                elsewhere += bytes;
            }
            Ok(Put::Null) => debug_assert_eq!(out.len(), at + 4, "NULL has no bytes"),
            Err(error) => {
                out.truncate(start);
                return Err(error);
            }
        }
    }
    let bytes = out.len() - start - 1 + elsewhere;
    set_length(out, start + 1, bytes);
    Ok(())
}

/// `G` or `H`: the start of a COPY from or to the client.
pub fn copy_response(out: &mut Vec<u8>, kind: u8, shape: &CopyShape) {
    message(out, kind, |out| {
        out.push(u8::from(shape.format == Format::Binary));
        count16(out, usize::from(shape.columns));
        (0..shape.columns).for_each(|_| format_code(out, shape.format));
    });
}

/// `d`: bytes of a COPY to the client.
pub fn copy_data(out: &mut Vec<u8>, bytes: &[u8]) {
    message(out, b'd', |out| out.extend_from_slice(bytes));
}

/// As [`copy_data`], of so many bytes that come from elsewhere when the message is sent.
pub fn copy_data_beside(out: &mut Vec<u8>, bytes: usize) {
    out.push(b'd');
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    set_length(out, at, 4 + bytes);
}

/// `A`: a notification.
pub fn notification(
    out: &mut Vec<u8>,
    process_id: i32,
    (channel, payload): (&str, &str),
    to: &Encoding,
) -> Result<(), SqlError> {
    texts(out, b'A', |out| {
        out.extend_from_slice(&process_id.to_be_bytes());
        text_in(out, channel, to)?;
        text_in(out, payload, to)
    })
}

/// `E`: an error. One with a character that the client's encoding lacks is told as the error that this is.
pub fn error(out: &mut Vec<u8>, error: &SqlError, to: &Encoding) {
    if let Err(mut lacking) = error_or_notice(out, b'E', error, to) {
        lacking.severity = error.severity;
        error_or_notice(out, b'E', &lacking, encoding::utf8()).expect("UTF-8 has all characters");
    }
}

/// `N`: a notice.
pub fn notice(out: &mut Vec<u8>, notice: &SqlError, to: &Encoding) -> Result<(), SqlError> {
    error_or_notice(out, b'N', notice, to)
}

/// An error or a notice, with all fields that it has.
fn error_or_notice(out: &mut Vec<u8>, kind: u8, error: &SqlError, to: &Encoding) -> Result<(), SqlError> {
    texts(out, kind, |out| {
        let mut result = Ok(());
        let mut field = |code: u8, value: Option<&str>| {
            if let Some(value) = value
                && result.is_ok()
            {
                out.push(code);
                result = text_in(out, value, to);
            }
        };
        let position = error.position.map(|position| position.to_string());
        field(b'S', Some(error.severity.as_str()));
        field(b'V', Some(error.severity.as_str()));
        field(b'C', Some(error.state.as_str()));
        field(b'M', Some(&error.message));
        field(b'D', error.detail.as_deref());
        field(b'H', error.hint.as_deref());
        field(b'P', position.as_deref());
        field(b'W', error.context.as_deref());
        field(b's', error.schema.as_deref());
        field(b't', error.table.as_deref());
        field(b'c', error.column.as_deref());
        field(b'd', error.data_type.as_deref());
        field(b'n', error.constraint.as_deref());
        field(b'R', error.routine);
        out.push(0);
        result
    })
}
