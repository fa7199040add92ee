//! The text form of bytea.

use crate::error::{Result, SqlError, SqlState};
use crate::stop;

/// Bytes from `\x...` or the escape form.
pub(crate) fn parse(text: &str) -> Result<Vec<u8>> {
    let bad = || SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type bytea");
    if let Some(hex) = text.strip_prefix("\\x") {
        return decode_hex(hex);
    }
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        stop::check_at(bytes.len())?;
        rest = match (first, tail) {
            (b'\\', [b'\\', tail @ ..]) => {
                bytes.push(b'\\');
                tail
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..]) => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                tail
            }
            (b'\\', _) => return Err(bad()),
            _ => {
                bytes.push(first);
                tail
            }
        };
    }
    Ok(bytes)
}

/// Appends the bytes of the pairs of digits that the text begins with; how many bytes of it they are.
fn decode_pairs(text: &[u8], bytes: &mut Vec<u8>) -> Result<usize> {
    let before = bytes.len();
    for pair in text.chunks_exact(2) {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else { break };
        stop::check_at(bytes.len())?;
        bytes.push((high << 4 | low) as u8);
    }
    Ok(2 * (bytes.len() - before))
}

/// Appends the hexadecimal digits of bytes.
pub(crate) fn write_hex(bytes: &[u8], to: &mut String) {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    to.reserve(2 * bytes.len());
    bytes.iter().for_each(|byte| to.extend([digit(byte >> 4), digit(byte & 15)]));
}

/// Bytes from hexadecimal digits; blanks between pairs do not matter.
pub(crate) fn decode_hex(text: &str) -> Result<Vec<u8>> {
    let unreadable = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let text = &text[decode_pairs(text.as_bytes(), &mut bytes)?..];
    let mut chars = text.chars();
    while let Some(first) = chars.next() {
        if matches!(first, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let digit =
            |c: char| c.to_digit(16).ok_or_else(|| unreadable(format!("invalid hexadecimal digit: \"{c}\"")));
        let high = digit(first)?;
        let low = chars
            .next()
            .ok_or_else(|| unreadable("invalid hexadecimal data: odd number of digits".to_owned()))?;
        bytes.push((high << 4 | digit(low)?) as u8);
    }
    Ok(bytes)
}
