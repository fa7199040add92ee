//! The CSV format: quotes around fields that need them, newlines allowed inside.

use super::text::{LineEnd, line_end};
use super::{CopyOptions, Fields, NullRule, Progress, Step, bad};
use crate::error::Result;

/// Reads one row, from where `progress` says.
pub(super) fn step(
    bytes: &[u8],
    last: bool,
    options: &CopyOptions,
    null_rules: &[NullRule],
    known: &mut Option<LineEnd>,
    fields: &mut Fields,
    progress: &mut Progress,
) -> Result<Step> {
    if bytes.is_empty() {
        return Ok(Step::More);
    }
    loop {
        let Progress { at, field_at, start, in_quotes, was_quoted } = *progress;
        let ends_field = match bytes.get(at) {
            None if last && in_quotes => return Err(bad("unterminated CSV quoted field")),
            None if last => Some(0),
            None => return Ok(Step::More),
            Some(&byte) if in_quotes => {
                let next = bytes.get(at + 1);
                if byte == options.escape && next.is_none() && !last {
                    return Ok(Step::More);
                }
                let escaped = next.filter(|next| **next == options.quote || **next == options.escape);
                if let (true, Some(next)) = (byte == options.escape, escaped) {
                    fields.bytes.push(*next);
                    progress.at += 2;
                } else if byte == options.quote {
                    progress.in_quotes = false;
                    progress.at += 1;
                } else {
                    let rest = &bytes[at + 1..];
                    let is_special = |byte: &u8| *byte == options.quote || *byte == options.escape;
                    let plain = 1 + rest.iter().position(is_special).unwrap_or(rest.len());
                    fields.bytes.extend_from_slice(&bytes[at..at + plain]);
                    progress.at += plain;
                }
                continue;
            }
            Some(b'\n' | b'\r') => match line_end(bytes, at, last, known, true)? {
                None => return Ok(Step::More),
                length => length,
            },
            Some(byte) if *byte == options.delimiter => None,
            Some(byte) => {
                if *byte == options.quote {
                    (progress.in_quotes, progress.was_quoted) = (true, true);
                } else {
                    fields.bytes.push(*byte);
                }
                progress.at += 1;
                continue;
            }
        };
        if field_at == 0 && ends_field.is_some() && &bytes[..at] == b"\\." {
            return Ok(Step::End);
        }
        let is_null_text = fields.bytes[start..] == *options.null.as_bytes();
        let rule = null_rules.get(fields.ranges.len()).copied().unwrap_or_default();
        let may_be_null = if was_quoted { rule.force_null } else { !rule.force_not_null };
        fields.end(start, is_null_text && may_be_null);
        if let Some(length) = ends_field {
            return Ok(Step::Row(at + length));
        }
        *progress =
            Progress { at: at + 1, field_at: at + 1, start: fields.bytes.len(), ..Progress::default() };
    }
}
