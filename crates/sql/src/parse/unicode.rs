//! Escapes of Unicode characters: `U&'\0061'`, `unistr`, and what `E'\u0061'` needs of them.

use std::ops::RangeInclusive;

use crate::error::{SqlError, SqlState};

/// The first and the second half of a character above U+FFFF, a surrogate pair.
pub(super) const FIRST_HALF: RangeInclusive<u32> = 0xd800..=0xdbff;
pub(super) const SECOND_HALF: RangeInclusive<u32> = 0xdc00..=0xdfff;

/// The number that so many hexadecimal digits in front of a text make.
pub(super) fn hexadecimal(text: &str, digits: usize) -> Option<u32> {
    let digits = text.get(..digits).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
    u32::from_str_radix(digits, 16).ok()
}

/// The character of two halves.
pub(super) fn joined(first: u32, second: u32) -> u32 {
    assert!(FIRST_HALF.contains(&first) && SECOND_HALF.contains(&second), "halves of a character");
    0x1_0000 + ((first & 0x3ff) << 10) + (second & 0x3ff)
}

/// The character with a number, but for those that no text has.
pub(super) fn character(code: u32) -> Option<char> {
    char::from_u32(code).filter(|c| *c != '\0')
}

/// `\` with 4 and `\+` with 6 hexadecimal digits, of `U&'..'`; the error with the bytes in front of it.
pub(super) fn unicode_escapes(raw: &str, escape: char) -> Result<String, (SqlError, usize)> {
    const HINT: &str = concat!("Unicode escapes must be \\XX", "XX or \\+XX", "XX", "XX.");
    let value = |_| SqlError::new(SqlState::SYNTAX_ERROR, "invalid Unicode escape value");
    unescaped(raw, escape, &[("+", 6), ("", 4)], HINT, &value)
}

/// The same with `\u` and 4, and `\U` and 8 digits besides, of `unistr`.
pub(crate) fn unistr(raw: &str) -> Result<String, SqlError> {
    const HINT: &str = concat!(
        "Unicode escapes must be \\XX",
        "XX, \\+XX",
        "XX",
        "XX, \\uXX",
        "XX, or \\UXX",
        "XX",
        "XX",
        "XX."
    );
    let value = |code| {
        let message = format!("invalid Unicode code point: {code:04X}");
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
    };
    let forms = [("+", 6), ("u", 4), ("U", 8), ("", 4)];
    unescaped(raw, '\\', &forms, HINT, &value).map_err(|(error, _)| error)
}

fn unescaped(
    raw: &str,
    escape: char,
    forms: &[(&str, usize)],
    hint: &str,
    value: &dyn Fn(u32) -> SqlError,
) -> Result<String, (SqlError, usize)> {
    let at = |rest: &str| raw.len() - rest.len();
    let half =
        |rest: &str| (SqlError::new(SqlState::SYNTAX_ERROR, "invalid Unicode surrogate pair"), at(rest));
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    let mut first: Option<u32> = None;
    while let Some(behind) = rest.find(escape) {
        if first.is_some() && behind > 0 {
            return Err(half(rest));
        }
        out.push_str(&rest[..behind]);
        let from = &rest[behind..];
        rest = &from[escape.len_utf8()..];
        if let Some(after) = rest.strip_prefix(escape) {
            if first.is_some() {
                return Err(half(from));
            }
            out.push(escape);
            rest = after;
            continue;
        }
        let code = forms.iter().find_map(|(prefix, digits)| {
            Some((hexadecimal(rest.strip_prefix(prefix)?, *digits)?, prefix.len() + digits))
        });
        let bad = || SqlError::new(SqlState::SYNTAX_ERROR, "invalid Unicode escape").hint(hint);
        let (code, taken) = code.ok_or_else(|| (bad(), at(from)))?;
        rest = &rest[taken..];
        if code == 0 || code > u32::from(char::MAX) {
            return Err((value(code), at(from)));
        }
        let whole = match (first.take(), code) {
            (Some(first), second) if SECOND_HALF.contains(&second) => joined(first, second),
            (None, half) if FIRST_HALF.contains(&half) => {
                first = Some(half);
                continue;
            }
            (None, code) => code,
            (Some(_), _) => return Err(half(from)),
        };
        out.push(character(whole).ok_or_else(|| half(from))?);
    }
    if first.is_some() {
        return Err(half(rest));
    }
    out.push_str(rest);
    Ok(out)
}
