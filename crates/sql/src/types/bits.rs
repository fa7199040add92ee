//! Bit strings: `bit(n)` and `bit varying(n)`. A value is a text with a `0` or a `1` for each bit, which
//! sorts as PostgreSQL sorts them: by the bits, and the shorter one first.

use std::sync::Arc;

use super::{Type, oid};
use crate::error::{Result, SqlError, SqlState};

/// The bits of a text: binary digits, or hexadecimal ones behind an `x`.
///
/// # Errors
/// 22P02: another character.
pub fn parse(text: &str) -> Result<String> {
    match text.as_bytes().first() {
        Some(b'b' | b'B') => parse_digits(&text[1..], false),
        Some(b'x' | b'X') => parse_digits(&text[1..], true),
        _ => parse_digits(text, false),
    }
}

/// The bits of binary or hexadecimal digits.
///
/// # Errors
/// 22P02: another character.
pub fn parse_digits(digits: &str, hex: bool) -> Result<String> {
    let mut bits = String::with_capacity(digits.len() * if hex { 4 } else { 1 });
    for digit in digits.chars() {
        let Some(value) = digit.to_digit(if hex { 16 } else { 2 }) else {
            let what = if hex { "hexadecimal" } else { "binary" };
            let message = format!("\"{digit}\" is not a valid {what} digit");
            return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message));
        };
        for place in (0..if hex { 4 } else { 1 }).rev() {
            bits.push(if value >> place & 1 == 1 { '1' } else { '0' });
        }
    }
    Ok(bits)
}

/// A value as one of `ty`, which has a length: an `explicit` cast cuts, and fills with zeros on the right.
///
/// # Errors
/// 22026 for a `bit` of another length, 22001 for a `bit varying` that is too long.
pub fn fit(ty: Type, explicit: bool, bits: Arc<str>) -> Result<Arc<str>> {
    let (given, wanted) = (bits.len(), ty.modifier as usize);
    match ty.oid {
        oid::BIT if given == wanted => Ok(bits),
        oid::VARBIT if given <= wanted => Ok(bits),
        _ if explicit => Ok(filled(&bits[..given.min(wanted)], wanted).into()),
        oid::BIT => {
            let message = format!("bit string length {given} does not match type bit({wanted})");
            Err(SqlError::new(SqlState::STRING_DATA_LENGTH_MISMATCH, message))
        }
        _ => {
            let message = format!("bit string too long for type bit varying({wanted})");
            Err(SqlError::new(SqlState::STRING_DATA_RIGHT_TRUNCATION, message))
        }
    }
}

/// Bits with zeros on their right, `length` in all, which is no fewer than there are.
pub fn filled(bits: &str, length: usize) -> String {
    [bits, &"0".repeat(length - bits.len())].concat()
}

/// Appends the binary form: how many bits, and eight of them to a byte.
pub fn send(bits: &str, to: &mut Vec<u8>) {
    to.extend((bits.len() as i32).to_be_bytes());
    let byte = |bits: &[u8]| (0..8).fold(0, |byte, i| byte << 1 | u8::from(bits.get(i) == Some(&b'1')));
    to.extend(bits.as_bytes().chunks(8).map(byte));
}

/// The bits of a binary form.
///
/// # Errors
/// 22P03: a length below zero; 08P01: fewer bytes than it says, or more.
pub fn received(length: i32, bytes: &[u8]) -> Result<String> {
    let Ok(length) = usize::try_from(length) else {
        let message = "invalid length in external bit string";
        return Err(SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message));
    };
    if bytes.len() != length.div_ceil(8) {
        let message = "insufficient data left in message";
        return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
    }
    Ok((0..length).map(|i| if bytes[i / 8] >> (7 - i % 8) & 1 == 1 { '1' } else { '0' }).collect())
}
