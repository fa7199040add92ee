//! The text format: a line for each row, a delimiter between columns, backslash escapes.

use super::{CopyOptions, Fields, Progress, Step, bad};
use crate::error::{Result, SqlError};

/// What ends lines; the first line decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineEnd {
    Newline,
    Return,
    Both,
}

/// Recognises the end of a line at `bytes[at]`, a newline or carriage return, and answers its length.
/// `Ok(None)`: more bytes are needed.
pub(super) fn line_end(
    bytes: &[u8],
    at: usize,
    last: bool,
    known: &mut Option<LineEnd>,
    csv: bool,
) -> Result<Option<usize>> {
    let (found, length) = match (bytes[at], bytes.get(at + 1)) {
        (b'\n', _) => (LineEnd::Newline, 1),
        (_, Some(b'\n')) => (LineEnd::Both, 2),
        (_, None) if !last => return Ok(None),
        _ => (LineEnd::Return, 1),
    };
    match *known.get_or_insert(found) {
        known if known == found => Ok(Some(length)),
        LineEnd::Newline | LineEnd::Both if found != LineEnd::Newline => {
            Err(stray("carriage return", "\\r", csv))
        }
        _ => Err(stray("newline", "\\n", csv)),
    }
}

/// The error of an end of line that is not like the others.
fn stray(what: &str, escape: &str, csv: bool) -> SqlError {
    if csv {
        let error = bad(format!("unquoted {what} found in data"));
        return error.hint(format!("Use quoted CSV field to represent {what}."));
    }
    bad(format!("literal {what} found in data")).hint(format!("Use \"{escape}\" to represent {what}."))
}

/// Reads one line, from where `progress` says.
pub(super) fn step(
    bytes: &[u8],
    last: bool,
    options: &CopyOptions,
    known: &mut Option<LineEnd>,
    fields: &mut Fields,
    progress: &mut Progress,
) -> Result<Step> {
    if bytes.is_empty() {
        return Ok(Step::More);
    }
    let is_plain = |byte: &u8| !matches!(byte, b'\n' | b'\r' | b'\\') && *byte != options.delimiter;
    loop {
        let Progress { at, field_at, start, .. } = *progress;
        let ends_field = match bytes.get(at) {
            None if last => Some(0),
            None => return Ok(Step::More),
            Some(b'\n' | b'\r') => match line_end(bytes, at, last, known, false)? {
                None => return Ok(Step::More),
                length => length,
            },
            Some(byte) if *byte == options.delimiter => None,
            Some(b'\\') => match escape(&bytes[at + 1..], last, &mut fields.bytes) {
                None => return Ok(Step::More),
                Some(length) => {
                    progress.at += 1 + length;
                    continue;
                }
            },
            Some(_) => {
                let plain = &bytes[at..];
                let plain = &plain[..plain.iter().position(|byte| !is_plain(byte)).unwrap_or(plain.len())];
                fields.bytes.extend_from_slice(plain);
                progress.at += plain.len();
                continue;
            }
        };
        let written = &bytes[field_at..at];
        if field_at == 0 && ends_field.is_some() && written == b"\\." {
            return Ok(Step::End);
        }
        fields.end(start, written == options.null.as_bytes());
        if let Some(length) = ends_field {
            return Ok(Step::Row(at + length));
        }
        *progress =
            Progress { at: at + 1, field_at: at + 1, start: fields.bytes.len(), ..Progress::default() };
    }
}

/// Appends what an escape means; answers how many bytes it has behind the backslash. `None`: more are
/// needed.
fn escape(rest: &[u8], last: bool, out: &mut Vec<u8>) -> Option<usize> {
    let Some(&first) = rest.first() else {
        if last {
            out.push(b'\\');
        }
        return last.then_some(0);
    };
    let digits = |most: usize, radix: u32, from: usize| {
        rest[from..].iter().take(most).take_while(|byte| char::from(**byte).is_digit(radix)).count()
    };
    let number = |digits: &[u8], radix: u32| {
        digits.iter().fold(0u32, |n, digit| n * radix + char::from(*digit).to_digit(radix).expect("a digit"))
    };
    match first {
        b'0'..=b'7' => {
            let count = digits(3, 8, 0);
            if count == rest.len() && count < 3 && !last {
                return None;
            }
            out.push(number(&rest[..count], 8) as u8);
            Some(count)
        }
        b'x' => {
            let count = digits(2, 16, 1);
            if 1 + count == rest.len() && count < 2 && !last {
                return None;
            }
            out.push(if count == 0 { b'x' } else { number(&rest[1..=count], 16) as u8 });
            Some(1 + count)
        }
        other => {
            out.push(match other {
                b'b' => 8,
                b'f' => 12,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'v' => 11,
                other => other,
            });
            Some(1)
        }
    }
}
