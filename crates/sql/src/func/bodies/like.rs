//! LIKE, ILIKE and SIMILAR TO.

use super::{bytea, scalar, text};
use crate::error::{Result, SqlError, SqlState};
use crate::func::registry::Body;
use crate::stop;
use crate::types::value::Value;

pub(super) fn find(source: &str) -> Option<Body> {
    match source {
        "textlike" | "namelike" => scalar(|_, a| like(text(&a[0]), text(&a[1])).map(Value::Bool)),
        "textnlike" | "namenlike" => scalar(|_, a| Ok(Value::Bool(!like(text(&a[0]), text(&a[1]))?))),
        "texticlike" | "nameiclike" => scalar(|_, a| ilike(a).map(Value::Bool)),
        "texticnlike" | "nameicnlike" => scalar(|_, a| Ok(Value::Bool(!ilike(a)?))),
        "bytealike" => scalar(|_, a| matches(bytea(&a[0]), bytea(&a[1])).map(Value::Bool)),
        "byteanlike" => scalar(|_, a| Ok(Value::Bool(!matches(bytea(&a[0]), bytea(&a[1]))?))),
        "like_escape" => scalar(|_, a| like_escape(text(&a[0]), text(&a[1])).map(Value::text)),
        "similar_to_escape_1" => scalar(|_, a| similar(text(&a[0]), Some('\\')).map(Value::text)),
        "similar_to_escape_2" => scalar(|_, a| similar(text(&a[0]), one_char(text(&a[1]))?).map(Value::text)),
        "similar_escape" => scalar(|_, a| {
            if a[0].is_null() {
                return Ok(Value::Null);
            }
            let escape = if a[1].is_null() { Some('\\') } else { one_char(text(&a[1]))? };
            similar(text(&a[0]), escape).map(Value::text)
        }),
        _ => None,
    }
}

fn ilike(a: &[Value]) -> Result<bool> {
    like(&text(&a[0]).to_lowercase(), &text(&a[1]).to_lowercase())
}

/// What patterns and texts are made of: characters or bytes.
trait Unit: Copy + PartialEq {
    const PERCENT: Self;
    const UNDERSCORE: Self;
    const BACKSLASH: Self;
}

impl Unit for u8 {
    const PERCENT: u8 = b'%';
    const UNDERSCORE: u8 = b'_';
    const BACKSLASH: u8 = b'\\';
}

impl Unit for char {
    const PERCENT: char = '%';
    const UNDERSCORE: char = '_';
    const BACKSLASH: char = '\\';
}

/// Whether a text matches a pattern of LIKE with the escape character `\`.
pub fn like(text: &str, pattern: &str) -> Result<bool> {
    if text.is_ascii() && pattern.is_ascii() {
        return matches(text.as_bytes(), pattern.as_bytes());
    }
    let (text, pattern): (Vec<char>, Vec<char>) = (text.chars().collect(), pattern.chars().collect());
    matches(&text, &pattern)
}

/// Goes back to the last `%` only, which is enough: an earlier one could take no less.
fn matches<U: Unit>(text: &[U], pattern: &[U]) -> Result<bool> {
    let (mut t, mut p) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    loop {
        let fits = match pattern.get(p) {
            Some(unit) if *unit == U::PERCENT => {
                back = Some((p + 1, t));
                p += 1;
                continue;
            }
            None if t == text.len() => return Ok(true),
            None => false,
            Some(unit) if *unit == U::UNDERSCORE => t < text.len(),
            Some(unit) => {
                let escaped = *unit == U::BACKSLASH;
                let Some(wanted) = pattern.get(p + usize::from(escaped)) else {
                    // Where the text has ended before, PostgreSQL does not look at the rest of the pattern.
                    if t == text.len() && back.is_none_or(|(after, _)| after != p) {
                        return Ok(false);
                    }
                    let message = "LIKE pattern must not end with escape character";
                    return Err(SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, message));
                };
                let fits = text.get(t) == Some(wanted);
                p += usize::from(escaped && fits);
                fits
            }
        };
        if fits {
            (t, p) = (t + 1, p + 1);
            continue;
        }
        match &mut back {
            Some((after, from)) if *from < text.len() => {
                *from += 1;
                stop::check()?;
                (t, p) = (*from, *after);
            }
            _ => return Ok(false),
        }
    }
}

fn one_char(escape: &str) -> Result<Option<char>> {
    let mut chars = escape.chars();
    match (chars.next(), chars.next()) {
        (first, None) => Ok(first),
        _ => Err(SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
            .hint("Escape string must be empty or one character.")),
    }
}

/// The pattern with another escape character as one with `\`.
fn like_escape(pattern: &str, escape: &str) -> Result<String> {
    let escape = one_char(escape)?;
    let mut made = String::new();
    let mut after_escape = false;
    for c in pattern.chars() {
        if Some(c) == escape && !after_escape {
            made.push('\\');
            after_escape = true;
        } else if c == '\\' && !after_escape && escape != Some('\\') {
            made.push_str("\\\\");
        } else {
            made.push(c);
            after_escape = false;
        }
    }
    Ok(made)
}

/// The pattern of SIMILAR TO with this escape character as a regular expression.
pub(super) fn similar_with(pattern: &str, escape: &str) -> Result<String> {
    similar(pattern, one_char(escape)?)
}

/// The pattern of SIMILAR TO as a regular expression.
fn similar(pattern: &str, escape: Option<char>) -> Result<String> {
    let mut made = String::from("^(?:");
    let mut in_bracket = false;
    let mut after_escape = false;
    let mut quotes = 0;
    for c in pattern.chars() {
        if after_escape {
            if c == '"' && !in_bracket {
                match quotes {
                    0 => made.push_str("){1,1}?("),
                    1 => made.push_str("){1,1}(?:"),
                    _ => {
                        let message = "SQL regular expression may not contain more than two \
                                       escape-double-quote separators";
                        return Err(SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, message));
                    }
                }
                quotes += 1;
            } else {
                made.push('\\');
                made.push(c);
            }
            after_escape = false;
            continue;
        }
        match c {
            c if Some(c) == escape => after_escape = true,
            c if in_bracket => {
                made.push_str(if c == '\\' { "\\\\" } else { "" });
                if c != '\\' {
                    made.push(c);
                }
                in_bracket = c != ']';
            }
            '[' => {
                made.push('[');
                in_bracket = true;
            }
            '%' => made.push_str(".*"),
            '_' => made.push('.'),
            '(' => made.push_str("(?:"),
            '\\' | '.' | '^' | '$' => {
                made.push('\\');
                made.push(c);
            }
            c => made.push(c),
        }
    }
    made.push_str(")$");
    Ok(made)
}
