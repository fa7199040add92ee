//! Escapes of Unicode characters: `U&'\0061'` and `unistr`.

use crate::error::{SqlError, SqlState};

/// `\` with 4 and `\+` with 6 hexadecimal digits, of `U&'..'`; the error with the bytes in front of it.
pub(super) fn unicode_escapes(raw: &str, escape: char) -> Result<String, (SqlError, usize)> {
    const HINT: &str = concat!("Unicode escapes must be \\XX", "XX or \\+XX", "XX", "XX.");
    unescaped(raw, escape, &[("+", 6), ("", 4)], HINT)
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
    unescaped(raw, '\\', &[("+", 6), ("u", 4), ("U", 8), ("", 4)], HINT).map_err(|(error, _)| error)
}

fn unescaped(
    raw: &str,
    escape: char,
    forms: &[(&str, usize)],
    hint: &str,
) -> Result<String, (SqlError, usize)> {
    let bad = |rest: &str| {
        let error = SqlError::new(SqlState::SYNTAX_ERROR, "invalid Unicode escape").hint(hint);
        (error, raw.len() - rest.len())
    };
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    let mut high: Option<u32> = None;
    while let Some(at) = rest.find(escape) {
        out.push_str(&rest[..at]);
        let from = &rest[at..];
        rest = &rest[at + escape.len_utf8()..];
        if let Some(after) = rest.strip_prefix(escape) {
            out.push(escape);
            rest = after;
            continue;
        }
        let code = forms.iter().find_map(|(prefix, digits)| {
            let digits = rest.strip_prefix(prefix)?.get(..*digits)?;
            let code = u32::from_str_radix(digits, 16).ok()?;
            Some((code, prefix.len() + digits.len()))
        });
        let (code, taken) = code.ok_or_else(|| bad(from))?;
        rest = &rest[taken..];
        // Two halves of a pair are one character.
        match (high.take(), code) {
            (Some(first), 0xdc00..=0xdfff) => {
                let whole = 0x1_0000 + ((first & 0x3ff) << 10) + (code & 0x3ff);
                out.push(char::from_u32(whole).ok_or_else(|| bad(from))?);
            }
            (None, 0xd800..=0xdbff) => high = Some(code),
            (None, _) => out.push(char::from_u32(code).ok_or_else(|| bad(from))?),
            (Some(_), _) => return Err(bad(from)),
        }
    }
    out.push_str(rest);
    Ok(out)
}
