//! Texts made of parts and parts of texts: concat, format, string_to_array, array_to_string, parse_ident.

use super::strings::{quote_ident, quote_literal};
use super::{array, bool_of, invalid_parameter, rows, scalar, set, text, written};
use crate::error::{Result, SqlError, SqlState};
use crate::func::registry::Body;
use crate::types::context::EvalContext;
use crate::types::oid;
use crate::types::value::Value;

pub(super) fn find(source: &str) -> Option<Body> {
    match source {
        "text_concat" => scalar(|ctx, a| Ok(Value::text(concat(ctx, a, 0, "")?))),
        "text_concat_ws" => scalar(|ctx, a| {
            Ok(match &a[0] {
                Value::Null => Value::Null,
                separator => Value::text(concat(ctx, a, 1, text(separator))?),
            })
        }),
        "text_format" | "text_format_nv" => scalar(|ctx, a| match &a[0] {
            Value::Null => Ok(Value::Null),
            pattern => format_text(ctx, text(pattern), a).map(Value::text),
        }),
        "text_to_array" | "text_to_array_null" => scalar(|_, a| {
            Ok(match parts_of(a) {
                None => Value::Null,
                Some(parts) => Value::array(oid::TEXT, parts),
            })
        }),
        "text_to_table" | "text_to_table_null" => set(|_, a| rows(parts_of(a).unwrap_or_default())),
        "array_to_text" | "array_to_text_null" => scalar(|ctx, a| {
            if a[0].is_null() || a[1].is_null() {
                return Ok(Value::Null);
            }
            let (array, separator) = (array(&a[0]), text(&a[1]));
            let null = a.get(2).and_then(Value::as_str);
            let mut parts = Vec::new();
            for element in &array.elements {
                match (element, null) {
                    (Value::Null, None) => {}
                    (Value::Null, Some(null)) => parts.push(null.to_string()),
                    (element, _) => parts.push(crate::types::text::output(ctx, array.element, element)?),
                }
            }
            Ok(Value::text(parts.join(separator)))
        }),
        "parse_ident" => scalar(|_, a| {
            let parts = parse_ident(text(&a[0]), a.get(1).is_none_or(bool_of))?;
            Ok(Value::array(oid::TEXT, parts.into_iter().map(Value::text).collect()))
        }),
        _ => None,
    }
}

fn concat(ctx: &EvalContext<'_>, a: &[Value], from: usize, separator: &str) -> Result<String> {
    let mut joined = String::new();
    let mut is_first = true;
    for (i, value) in a.iter().enumerate().skip(from).filter(|(_, value)| !value.is_null()) {
        if !is_first {
            joined.push_str(separator);
        }
        is_first = false;
        crate::types::text::write(
            ctx,
            ctx.argument_types.get(i).copied().unwrap_or(oid::TEXT),
            value,
            &mut joined,
        )?;
    }
    Ok(joined)
}

fn parts_of(a: &[Value]) -> Option<Vec<Value>> {
    let whole = a[0].as_str()?;
    let null = a.get(2).and_then(Value::as_str);
    let part = |part: &str| if Some(part) == null { Value::Null } else { Value::text(part) };
    Some(match a[1].as_str() {
        _ if whole.is_empty() => Vec::new(),
        None => whole.chars().map(|c| part(c.encode_utf8(&mut [0; 4]))).collect(),
        Some("") => vec![part(whole)],
        Some(separator) => whole.split(separator).map(part).collect(),
    })
}

/// `%[position$][-][width]type` with s, I, L and %.
fn format_text(ctx: &EvalContext<'_>, pattern: &str, a: &[Value]) -> Result<String> {
    let mut made = String::new();
    let mut chars = pattern.chars().peekable();
    let mut next = 1;
    while let Some(c) = chars.next() {
        if c != '%' {
            made.push(c);
            continue;
        }
        let unterminated = || {
            invalid_parameter("unterminated format() type specifier").hint("For a single \"%\" use \"%%\".")
        };
        let number = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            let mut digits = String::new();
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            digits.parse::<usize>().ok()
        };
        if chars.next_if_eq(&'%').is_some() {
            made.push('%');
            continue;
        }
        let mut width = number(&mut chars);
        let mut place = None;
        if width.is_some() && chars.next_if_eq(&'$').is_some() {
            place = width.take();
            if place == Some(0) {
                return Err(invalid_parameter(
                    "format specifies argument 0, but arguments are numbered from 1",
                ));
            }
        }
        let mut left = false;
        while chars.next_if_eq(&'-').is_some() {
            left = true;
        }
        if chars.next_if_eq(&'*').is_some() {
            let given = match number(&mut chars) {
                Some(at) if chars.next_if_eq(&'$').is_some() => {
                    next = at + 1;
                    a.get(at)
                }
                _ => {
                    next += 1;
                    a.get(next - 1)
                }
            };
            let given = given.ok_or_else(|| invalid_parameter("too few arguments for format()"))?;
            let given = given.as_i64().unwrap_or(0);
            left |= given < 0;
            width = Some(given.unsigned_abs() as usize);
        } else if width.is_none() {
            width = number(&mut chars);
        }
        let kind = chars.next().ok_or_else(unterminated)?;
        if !matches!(kind, 's' | 'I' | 'L') {
            let message = format!("unrecognized format() type specifier \"{kind}\"");
            return Err(invalid_parameter(message).hint("For a single \"%\" use \"%%\"."));
        }
        let at = place.unwrap_or(next);
        next = at + 1;
        let value = a.get(at).ok_or_else(|| invalid_parameter("too few arguments for format()"))?;
        let piece = match (kind, value) {
            ('s', Value::Null) => String::new(),
            ('L', Value::Null) => "NULL".to_string(),
            (_, Value::Null) => {
                let message = "null values cannot be formatted as an SQL identifier";
                return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
            }
            ('s', value) => written(ctx, at, value)?,
            ('I', value) => quote_ident(&written(ctx, at, value)?),
            (_, value) => quote_literal(&written(ctx, at, value)?),
        };
        let missing = width.unwrap_or(0).saturating_sub(piece.chars().count());
        let blanks = " ".repeat(missing);
        made.push_str(&if left { piece + &blanks } else { blanks + &piece });
    }
    Ok(made)
}

/// The parts of a name with dots: `"A".b` is A and b.
fn parse_ident(text: &str, strict: bool) -> Result<Vec<String>> {
    let bad = || invalid_parameter(format!("string is not a valid identifier: \"{text}\""));
    let mut parts = Vec::new();
    let mut rest = text.trim_start();
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.replace("\"\"", "\u{1}\u{1}").find('"').ok_or_else(bad)?;
            if end == 0 {
                return Err(bad());
            }
            parts.push(quoted[..end].replace("\"\"", "\""));
            rest = &quoted[end + 1..];
        } else {
            let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            if end == 0 || rest.starts_with(|c: char| c.is_ascii_digit() || c == '$') {
                return Err(bad());
            }
            parts.push(rest[..end].to_lowercase());
            rest = &rest[end..];
        }
        rest = rest.trim_start();
        match rest.strip_prefix('.') {
            Some(tail) => rest = tail.trim_start(),
            None if rest.is_empty() || !strict => return Ok(parts),
            None => return Err(bad()),
        }
    }
}
