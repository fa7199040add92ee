//! Addresses of network cards: macaddr of six bytes, macaddr8 of eight. A value is its bytes.

use super::oid;
use super::text::invalid;
use crate::error::{Result, SqlError, SqlState};

/// What stands between the bytes of a macaddr: nothing between two, or one character.
const FORMS: [(&str, usize); 7] =
    [("::::: ", 0), ("----- ", 0), ("  :   ", 2), ("  -   ", 2), (" . .  ", 2), (" - -  ", 2), ("      ", 2)];

/// The bytes of a macaddr, in any of the usual ways to write it.
///
/// # Errors
/// 22P02: not an address; 22003: a number in it is no byte.
pub fn parse(text: &str) -> Result<Vec<u8>> {
    let read = |form: &(&str, usize)| read_form(text, form.0.as_bytes(), form.1);
    let Some(octets) = FORMS.iter().find_map(read) else { return Err(invalid(oid::MACADDR, text)) };
    let bytes: Option<Vec<u8>> = octets.iter().map(|octet| u8::try_from(*octet).ok()).collect();
    bytes.ok_or_else(|| {
        let message = format!("invalid octet value in \"macaddr\" value: \"{text}\"");
        SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
    })
}

/// Six hexadecimal numbers, each of at most `width` digits if that is not zero.
fn read_form(text: &str, between: &[u8], width: usize) -> Option<Vec<u32>> {
    let mut rest = text;
    let mut octets = Vec::with_capacity(6);
    for separator in between {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace());
        let limit = if width == 0 { rest.len() } else { width };
        let digits = rest.bytes().take(limit).take_while(u8::is_ascii_hexdigit).count();
        octets.push(u32::from_str_radix(&rest[..digits], 16).ok()?);
        rest = &rest[digits..];
        if *separator != b' ' {
            rest = rest.strip_prefix(*separator as char)?;
        }
    }
    rest.trim_ascii().is_empty().then_some(octets)
}

/// The bytes of a macaddr8: eight, or six with `ff:fe` put in their middle.
///
/// # Errors
/// 22P02: not an address.
pub fn parse8(text: &str) -> Result<Vec<u8>> {
    read8(text.as_bytes()).ok_or_else(|| invalid(oid::MACADDR8, text))
}

fn read8(text: &[u8]) -> Option<Vec<u8>> {
    let mut rest = text.trim_ascii_start();
    let (mut bytes, mut spacer) = (Vec::with_capacity(8), None);
    while rest.len() > 1 {
        let digits =
            std::str::from_utf8(&rest[..2]).ok().filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
        if let Some(found @ (b':' | b'-' | b'.')) = rest.first().copied() {
            if *spacer.get_or_insert(found) != found {
                return None;
            }
            rest = &rest[1..];
        }
        if matches!(bytes.len(), 6 | 8) && rest.first().is_some_and(u8::is_ascii_whitespace) {
            rest = rest.trim_ascii_start();
            if !rest.is_empty() {
                return None;
            }
        }
    }
    widened(&bytes)
}

/// Eight bytes of eight or six; none of another number of bytes.
pub fn widened(bytes: &[u8]) -> Option<Vec<u8>> {
    match bytes {
        [a, b, c, d, e, f] => Some(vec![*a, *b, *c, 0xff, 0xfe, *d, *e, *f]),
        [_, _, _, _, _, _, _, _] => Some(bytes.to_vec()),
        _ => None,
    }
}

/// The bytes of a macaddr8's binary form.
///
/// # Errors
/// 08P01: neither eight bytes nor six.
pub fn received8(bytes: &[u8]) -> Result<Vec<u8>> {
    let wrong = || SqlError::new(SqlState::PROTOCOL_VIOLATION, "insufficient data left in message");
    widened(bytes).ok_or_else(wrong)
}

/// Appends an address as PostgreSQL writes it.
pub fn write(bytes: &[u8], to: &mut String) {
    for (i, byte) in bytes.iter().enumerate() {
        to.push_str(if i == 0 { "" } else { ":" });
        to.push_str(&format!("{byte:02x}"));
    }
}
