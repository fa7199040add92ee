//! Functions of texts and byte strings.

use super::{bytea, int4, int8, invalid_parameter, scalar, text, written};
use crate::error::{Result, SqlError, SqlState};
use crate::func::registry::Body;
use crate::stop;
use crate::types::oid;
use crate::types::text::{char_in, char_out};
use crate::types::value::Value;

pub(super) fn find(source: &str) -> Option<Body> {
    basic(source).or_else(|| bytes(source)).or_else(|| cutting(source))
}

fn basic(source: &str) -> Option<Body> {
    match source {
        "textcat" => scalar(|_, a| Ok(Value::text([text(&a[0]), text(&a[1])].concat()))),
        "anytextcat/2" | "textanycat/2" => {
            scalar(|ctx, a| Ok(Value::text(written(ctx, 0, &a[0])? + &written(ctx, 1, &a[1])?)))
        }
        "textlen" => scalar(|_, a| Ok(Value::Int4(text(&a[0]).chars().count() as i32))),
        "bpcharlen" => {
            scalar(|_, a| Ok(Value::Int4(text(&a[0]).trim_end_matches(' ').chars().count() as i32)))
        }
        "textoctetlen" | "bpcharoctetlen" => scalar(|_, a| Ok(Value::Int4(text(&a[0]).len() as i32))),
        "bit_length/1" => scalar(|ctx, a| {
            let bits = match &a[0] {
                Value::Bytea(bytes) => 8 * bytes.len(),
                bits if ctx.argument_types.first() == Some(&oid::BIT) => text(bits).len(),
                other => 8 * text(other).len(),
            };
            Ok(Value::Int4(bits as i32))
        }),
        "upper" => scalar(|_, a| Ok(Value::text(map_chars(text(&a[0]), upper)))),
        "lower" => scalar(|_, a| Ok(Value::text(map_chars(text(&a[0]), lower)))),
        "initcap" => scalar(|_, a| Ok(Value::text(initcap(text(&a[0]))))),
        "unistr" => scalar(|_, a| crate::parse::unistr(text(&a[0])).map(Value::text)),
        "text_reverse" => scalar(|_, a| Ok(Value::text(text(&a[0]).chars().rev().collect::<String>()))),
        "repeat" => scalar(|_, a| {
            let (piece, count) = (text(&a[0]), int4(&a[1]).max(0) as usize);
            if piece.len().saturating_mul(count) > 1 << 30 {
                return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large"));
            }
            repeated(piece, count).map(Value::text)
        }),
        "replace_text" => scalar(|_, a| {
            let (whole, from) = (text(&a[0]), text(&a[1]));
            if from.is_empty() {
                Ok(a[0].clone())
            } else {
                replaced(whole, from, text(&a[2])).map(Value::text)
            }
        }),
        "translate" => scalar(|_, a| Ok(Value::text(translate(text(&a[0]), text(&a[1]), text(&a[2]))))),
        "ascii" => scalar(|_, a| Ok(Value::Int4(text(&a[0]).chars().next().map_or(0, |c| c as i32)))),
        "chr" => scalar(|_, a| chr(int4(&a[0]))),
        "textpos" => scalar(|_, a| Ok(Value::Int4(position(text(&a[0]), text(&a[1]))))),
        "quote_ident" => scalar(|_, a| Ok(Value::text(quote_ident(text(&a[0]))))),
        "quote_literal" => scalar(|_, a| Ok(Value::text(quote_literal(text(&a[0]))))),
        "quote_literal/1" => scalar(|ctx, a| Ok(Value::text(quote_literal(&written(ctx, 0, &a[0])?)))),
        "quote_nullable" | "quote_nullable/1" => scalar(|ctx, a| {
            Ok(match &a[0] {
                Value::Null => Value::text("NULL"),
                value => Value::text(quote_literal(&written(ctx, 0, value)?)),
            })
        }),
        "text_starts_with" => scalar(|_, a| Ok(Value::Bool(text(&a[0]).starts_with(text(&a[1]))))),
        "to_hex32" => scalar(|_, a| Ok(Value::text(format!("{:x}", int4(&a[0]))))),
        "to_hex64" => scalar(|_, a| Ok(Value::text(format!("{:x}", int8(&a[0]))))),
        "text_name" | "bpchar_name" => scalar(|_, a| {
            let name = text(&a[0]);
            Ok(Value::text(&name[..name.floor_char_boundary(63)]))
        }),
        "text_char" => scalar(|_, a| Ok(Value::text(char_in(text(&a[0]))))),
        "char_text" | "char_bpchar" => scalar(|_, a| Ok(Value::text(&*char_out(text(&a[0]))))),
        // Lengths are applied after the cast.
        "name_text" | "name_bpchar" | "varchar" | "bpchar" => scalar(|_, a| Ok(a[0].clone())),
        // char(n) to text loses its padding.
        "rtrim1" => scalar(|_, a| Ok(Value::text(text(&a[0]).trim_end_matches(' ')))),
        "booltext" => scalar(|_, a| Ok(Value::text(if super::bool_of(&a[0]) { "true" } else { "false" }))),
        _ => None,
    }
}

/// As the C library's towupper: one character for one.
fn upper(c: char) -> char {
    let mut mapped = c.to_uppercase();
    match (mapped.next(), mapped.next()) {
        (Some(single), None) => single,
        _ => c,
    }
}

fn lower(c: char) -> char {
    let mut mapped = c.to_lowercase();
    match (mapped.next(), mapped.next()) {
        (Some(single), None) => single,
        _ => c,
    }
}

fn map_chars(text: &str, map: fn(char) -> char) -> String {
    text.chars().map(map).collect()
}

fn initcap(text: &str) -> String {
    let mut inside = false;
    let capital = |c: char| {
        let mapped = if inside { lower(c) } else { upper(c) };
        inside = c.is_alphanumeric();
        mapped
    };
    text.chars().map(capital).collect()
}

fn translate(text: &str, from: &str, to: &str) -> String {
    let to: Vec<char> = to.chars().collect();
    let map = |c: char| match from.chars().position(|other| other == c) {
        None => Some(c),
        Some(at) => to.get(at).copied(),
    };
    text.chars().filter_map(map).collect()
}

fn chr(code: i32) -> Result<Value> {
    if code == 0 {
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "null character not permitted"));
    }
    if code < 0 {
        return Err(invalid_parameter("character number must be positive"));
    }
    let character = char::from_u32(code as u32).ok_or_else(|| {
        let message = format!("requested character too large for encoding: {code}");
        SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
    })?;
    Ok(Value::text(character.to_string()))
}

/// Place of a text in another in characters from 1, 0 if it is not there.
fn position(whole: &str, part: &str) -> i32 {
    whole.find(part).map_or(0, |at| whole[..at].chars().count() as i32 + 1)
}

/// The name as SQL has to write it: in quotes unless it is a plain word that is not reserved.
pub fn quote_ident(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !crate::parse::needs_quotes(name);
    if plain { name.to_string() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// The text as a literal of SQL.
pub fn quote_literal(text: &str) -> String {
    let escapes = if text.contains('\\') { "E" } else { "" };
    format!("{escapes}'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

fn bytes(source: &str) -> Option<Body> {
    match source {
        "byteacat" => scalar(|_, a| Ok(Value::bytea([bytea(&a[0]), bytea(&a[1])].concat()))),
        "byteaoctetlen" => scalar(|_, a| Ok(Value::Int4(bytea(&a[0]).len() as i32))),
        "bytea_bit_count" => {
            scalar(|_, a| Ok(Value::Int8(bytea(&a[0]).iter().map(|b| i64::from(b.count_ones())).sum())))
        }
        "bytea_substr" | "bytea_substr_no_len" => scalar(|_, a| {
            let (from, to) = window(int4(&a[1]), a.get(2).map(int4), bytea(&a[0]).len())?;
            Ok(Value::bytea(&bytea(&a[0])[from..to]))
        }),
        "byteapos" => scalar(|_, a| {
            let (whole, part) = (bytea(&a[0]), bytea(&a[1]));
            let found =
                (0..=whole.len().saturating_sub(part.len())).find(|&at| whole[at..].starts_with(part));
            Ok(Value::Int4(found.map_or(0, |at| at as i32 + 1)))
        }),
        "byteatrim" | "bytealtrim" | "byteartrim" => match source {
            "byteatrim" => {
                scalar(|_, a| Ok(Value::bytea(trim_bytes(bytea(&a[0]), bytea(&a[1]), true, true))))
            }
            "bytealtrim" => {
                scalar(|_, a| Ok(Value::bytea(trim_bytes(bytea(&a[0]), bytea(&a[1]), true, false))))
            }
            _ => scalar(|_, a| Ok(Value::bytea(trim_bytes(bytea(&a[0]), bytea(&a[1]), false, true)))),
        },
        "byteaGetByte" => scalar(|_, a| {
            let (bytes, at) = (bytea(&a[0]), int4(&a[1]));
            Ok(Value::Int4(i32::from(bytes[byte_index(i64::from(at), bytes.len())?])))
        }),
        "byteaSetByte" => scalar(|_, a| {
            let mut bytes = bytea(&a[0]).to_vec();
            let at = byte_index(i64::from(int4(&a[1])), bytes.len())?;
            bytes[at] = int4(&a[2]) as u8;
            Ok(Value::bytea(bytes))
        }),
        "byteaSetBit" => scalar(|_, a| {
            let (mut bytes, at, bit) = (bytea(&a[0]).to_vec(), int8(&a[1]), int4(&a[2]));
            let at = byte_index(at, 8 * bytes.len())?;
            if !matches!(bit, 0 | 1) {
                return Err(invalid_parameter("new bit must be 0 or 1"));
            }
            bytes[at / 8] = bytes[at / 8] & !(1 << (at % 8)) | ((bit as u8) << (at % 8));
            Ok(Value::bytea(bytes))
        }),
        "byteaGetBit" => scalar(|_, a| {
            let (bytes, at) = (bytea(&a[0]), int8(&a[1]));
            let at = byte_index(at, 8 * bytes.len())?;
            Ok(Value::Int4(i32::from(bytes[at / 8] >> (at % 8) & 1)))
        }),
        "byteaoverlay" | "byteaoverlay_no_len" => scalar(|_, a| {
            let (whole, new, start) = (bytea(&a[0]), bytea(&a[1]), int4(&a[2]));
            let count = a.get(3).map_or(new.len() as i32, int4);
            let (left, right) = overlay(whole.len(), start, count)?;
            Ok(Value::bytea([&whole[..left], new, &whole[right..]].concat()))
        }),
        _ => None,
    }
}

fn byte_index(at: i64, len: usize) -> Result<usize> {
    usize::try_from(at).ok().filter(|at| *at < len).ok_or_else(|| {
        let message = format!("index {at} out of valid range, 0..{}", len as i64 - 1);
        SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
    })
}

fn trim_bytes<'a>(mut bytes: &'a [u8], set: &[u8], left: bool, right: bool) -> &'a [u8] {
    while let [first, rest @ ..] = bytes
        && left
        && set.contains(first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && right
        && set.contains(last)
    {
        bytes = rest;
    }
    bytes
}

/// First and behind the last place (from 0) of `substring(.. from start for count)` in `len` characters.
fn window(start: i32, count: Option<i32>, len: usize) -> Result<(usize, usize)> {
    let from = i64::from(start) - 1;
    let to = match count {
        None => len as i64,
        Some(count) if count < 0 => {
            let message = "negative substring length not allowed";
            return Err(SqlError::new(SqlState::SUBSTRING_ERROR, message));
        }
        Some(count) => from + i64::from(count),
    };
    let from = from.clamp(0, len as i64);
    Ok((from as usize, to.clamp(from, len as i64) as usize))
}

fn overlay(len: usize, start: i32, count: i32) -> Result<(usize, usize)> {
    if start <= 0 {
        let message = "negative substring length not allowed";
        return Err(SqlError::new(SqlState::SUBSTRING_ERROR, message));
    }
    let left = (start as usize - 1).min(len);
    let right = (i64::from(start) - 1 + i64::from(count)).clamp(0, len as i64) as usize;
    Ok((left, right))
}

/// The characters from `from` to `to` (both counted from 0).
pub(super) fn slice(text: &str, from: usize, to: usize) -> &str {
    let mut starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    let begin = starts.by_ref().nth(from).unwrap_or(text.len());
    let end = if to > from { starts.nth(to - from - 1).unwrap_or(text.len()) } else { begin };
    &text[begin..end]
}

fn cutting(source: &str) -> Option<Body> {
    match source {
        "text_substr" | "text_substr_no_len" => scalar(|_, a| {
            let whole = text(&a[0]);
            let (from, to) = window(int4(&a[1]), a.get(2).map(int4), whole.chars().count())?;
            Ok(Value::text(slice(whole, from, to)))
        }),
        "textoverlay" | "textoverlay_no_len" => scalar(|_, a| {
            let (whole, new, start) = (text(&a[0]), text(&a[1]), int4(&a[2]));
            let len = whole.chars().count();
            let count = a.get(3).map_or(new.chars().count() as i32, int4);
            let (left, right) = overlay(len, start, count)?;
            Ok(Value::text([slice(whole, 0, left), new, slice(whole, right, len)].concat()))
        }),
        "text_left" => scalar(|_, a| {
            let (whole, count) = (text(&a[0]), i64::from(int4(&a[1])));
            let keep = if count < 0 { whole.chars().count() as i64 + count } else { count };
            Ok(Value::text(slice(whole, 0, keep.max(0) as usize)))
        }),
        "text_right" => scalar(|_, a| {
            let (whole, count) = (text(&a[0]), i64::from(int4(&a[1])));
            let len = whole.chars().count() as i64;
            let skip = if count < 0 { -count } else { len - count };
            Ok(Value::text(slice(whole, skip.clamp(0, len) as usize, len as usize)))
        }),
        "btrim" => scalar(|_, a| Ok(Value::text(trim(text(&a[0]), text(&a[1]), true, true)))),
        "btrim1" => scalar(|_, a| Ok(Value::text(trim(text(&a[0]), " ", true, true)))),
        "ltrim" => scalar(|_, a| Ok(Value::text(trim(text(&a[0]), text(&a[1]), true, false)))),
        "ltrim1" => scalar(|_, a| Ok(Value::text(trim(text(&a[0]), " ", true, false)))),
        "rtrim" => scalar(|_, a| Ok(Value::text(trim(text(&a[0]), text(&a[1]), false, true)))),
        "lpad" | "lpad/2" => scalar(|_, a| pad(a, true).map(Value::text)),
        "rpad" | "rpad/2" => scalar(|_, a| pad(a, false).map(Value::text)),
        "split_part" => scalar(|_, a| split_part(text(&a[0]), text(&a[1]), int4(&a[2]))),
        _ => None,
    }
}

fn trim<'a>(whole: &'a str, set: &str, left: bool, right: bool) -> &'a str {
    let mut kept = whole;
    if left {
        kept = kept.trim_start_matches(|c| set.contains(c));
    }
    if right {
        kept = kept.trim_end_matches(|c| set.contains(c));
    }
    kept
}

fn pad(a: &[Value], left: bool) -> Result<String> {
    let (whole, len) = (text(&a[0]), int4(&a[1]).max(0) as usize);
    let fill = a.get(2).map_or(" ", |fill| text(fill));
    let missing = len.saturating_sub(whole.chars().count());
    let mut filling = String::new();
    for (at, c) in fill.chars().cycle().take(missing).enumerate() {
        stop::check_at(at)?;
        filling.push(c);
    }
    let kept = slice(whole, 0, len);
    Ok(if left { filling + kept } else { kept.to_string() + &filling })
}

fn repeated(piece: &str, count: usize) -> Result<String> {
    /// Bytes that are made at once.
    const BLOCK: usize = 1 << 20;
    let at_once = (BLOCK / piece.len().max(1)).clamp(1, count.max(1));
    let block = piece.repeat(at_once.min(count));
    let mut made = String::with_capacity(piece.len() * count);
    for _ in 0..count / at_once {
        stop::check()?;
        made.push_str(&block);
    }
    made.push_str(&block[..count % at_once * piece.len()]);
    Ok(made)
}

fn replaced(whole: &str, from: &str, with: &str) -> Result<String> {
    let (mut made, mut at) = (String::new(), 0);
    for (start, found) in whole.match_indices(from) {
        stop::check()?;
        made.push_str(&whole[at..start]);
        made.push_str(with);
        at = start + found.len();
    }
    made.push_str(&whole[at..]);
    Ok(made)
}

fn split_part(whole: &str, separator: &str, field: i32) -> Result<Value> {
    if field == 0 {
        return Err(invalid_parameter("field position must not be zero"));
    }
    if separator.is_empty() {
        return Ok(Value::text(if field.abs() == 1 { whole } else { "" }));
    }
    let parts: Vec<&str> = whole.split(separator).collect();
    let at = if field > 0 { i64::from(field) - 1 } else { parts.len() as i64 + i64::from(field) };
    let part = usize::try_from(at).ok().and_then(|at| parts.get(at));
    Ok(Value::text(part.copied().unwrap_or("")))
}
