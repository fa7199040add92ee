//! Functions of regular expressions (`regexp_match` and its kin, `~`).

use fancy_regex::Captures;

use super::{int4, invalid_parameter, rows, scalar, set, text};
use crate::error::{Result, SqlError};
use crate::func::registry::Body;
use crate::regex::{compiled, is_match, run};
use crate::types::oid;
use crate::types::value::Value;

pub(super) fn find(source: &str) -> Option<Body> {
    matching(source).or_else(|| listing(source)).or_else(|| replacing(source)).or_else(|| counting(source))
}

fn matching(source: &str) -> Option<Body> {
    match source {
        "textregexeq" | "nameregexeq" => {
            scalar(|_, a| is_match(text(&a[0]), text(&a[1]), "").map(Value::Bool))
        }
        "textregexne" | "nameregexne" => {
            scalar(|_, a| Ok(Value::Bool(!is_match(text(&a[0]), text(&a[1]), "")?)))
        }
        "texticregexeq" | "nameicregexeq" => {
            scalar(|_, a| is_match(text(&a[0]), text(&a[1]), "i").map(Value::Bool))
        }
        "texticregexne" | "nameicregexne" => {
            scalar(|_, a| Ok(Value::Bool(!is_match(text(&a[0]), text(&a[1]), "i")?)))
        }
        "regexp_like" | "regexp_like_no_flags" => scalar(|_, a| {
            let flags = a.get(2).map_or("", |flags| text(flags));
            without_g(flags, "regexp_like()")?;
            is_match(text(&a[0]), text(&a[1]), flags).map(Value::Bool)
        }),
        "textregexsubstr" => scalar(|_, a| part(text(&a[0]), text(&a[1]))),
        "substring/3" => {
            scalar(|_, a| part(text(&a[0]), &super::like::similar_with(text(&a[1]), text(&a[2]))?))
        }
        _ => None,
    }
}

/// What the first group matches, or all of it where there is none.
fn part(whole: &str, pattern: &str) -> Result<Value> {
    let found = run(compiled(pattern, "")?.captures(whole))?;
    let piece = found.and_then(|found| {
        let group = if found.len() > 1 { found.get(1) } else { found.get(0) };
        group.map(|group| Value::text(group.as_str()))
    });
    Ok(piece.unwrap_or(Value::Null))
}

fn without_g(flags: &str, function: &str) -> Result<()> {
    if flags.contains('g') {
        return Err(invalid_parameter(format!("{function} does not support the \"global\" option")));
    }
    Ok(())
}

/// Groups of a match as a text array; the whole where there are no groups.
fn groups(found: &Captures<'_, str>) -> Value {
    let group = |i: usize| found.get(i).map_or(Value::Null, |group| Value::text(group.as_str()));
    let first = usize::from(found.len() > 1);
    Value::array(oid::TEXT, (first..found.len()).map(group).collect())
}

fn listing(source: &str) -> Option<Body> {
    match source {
        "regexp_match" | "regexp_match_no_flags" => scalar(|_, a| {
            let flags = a.get(2).map_or("", |flags| text(flags));
            if flags.contains('g') {
                let message = "regexp_match() does not support the \"global\" option";
                return Err(invalid_parameter(message).hint("Use the regexp_matches function instead."));
            }
            let found = run(compiled(text(&a[1]), flags)?.captures(text(&a[0])))?;
            Ok(found.map_or(Value::Null, |found| groups(&found)))
        }),
        "regexp_matches" | "regexp_matches_no_flags" => set(|_, a| {
            let flags = a.get(2).map_or("", |flags| text(flags));
            let regex = compiled(text(&a[1]), &flags.replace('g', ""))?;
            let count = if flags.contains('g') { usize::MAX } else { 1 };
            let found: Result<Vec<Value>> =
                regex.captures_iter(text(&a[0])).take(count).map(|found| Ok(groups(&run(found)?))).collect();
            rows(found?)
        }),
        "regexp_split_to_array" | "regexp_split_to_array_no_flags" => {
            scalar(|_, a| Ok(Value::array(oid::TEXT, split(a, "regexp_split_to_array()")?)))
        }
        "regexp_split_to_table" | "regexp_split_to_table_no_flags" => {
            set(|_, a| rows(split(a, "regexp_split_to_table()")?))
        }
        _ => None,
    }
}

fn split(a: &[Value], function: &str) -> Result<Vec<Value>> {
    let (whole, flags) = (text(&a[0]), a.get(2).map_or("", |flags| text(flags)));
    without_g(flags, function)?;
    let regex = compiled(text(&a[1]), flags)?;
    let mut parts = Vec::new();
    let mut start = 0;
    for found in regex.find_iter(whole) {
        let found = run(found)?;
        // An empty match splits between characters only, not at the ends.
        if found.end() == 0 || (found.start() == found.end() && found.start() == whole.len()) {
            continue;
        }
        if found.start() == found.end() && found.start() == start {
            continue;
        }
        parts.push(Value::text(&whole[start..found.start()]));
        start = found.end();
    }
    parts.push(Value::text(&whole[start..]));
    Ok(parts)
}

/// The replacement with `\1`..`\9`, `\&` and `\\` filled in.
fn expand(replacement: &str, found: &Captures<'_, str>, to: &mut String) {
    let mut chars = replacement.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            to.push(c);
            continue;
        }
        match chars.next() {
            Some('&') => to.push_str(found.get(0).map_or("", |whole| whole.as_str())),
            Some(digit @ '1'..='9') => {
                let group = found.get(digit as usize - '0' as usize);
                to.push_str(group.map_or("", |group| group.as_str()));
            }
            Some('\\') => to.push('\\'),
            Some(other) => {
                to.push('\\');
                to.push(other);
            }
            None => to.push('\\'),
        }
    }
}

/// Replaces the `nth` match from character `start` (both from 1), or all of them from it for 0.
fn replace(whole: &str, pattern: &str, with: &str, start: i32, nth: i32, flags: &str) -> Result<Value> {
    let from = char_start(whole, start)?;
    if nth < 0 {
        return Err(bad_parameter("n", nth));
    }
    let regex = compiled(pattern, flags)?;
    let mut made = whole[..from].to_string();
    let mut at = from;
    for (i, found) in regex.captures_iter(&whole[from..]).enumerate() {
        let found = run(found)?;
        let place = found.get(0).expect("a match has a place");
        if nth != 0 && i + 1 != nth as usize {
            continue;
        }
        made.push_str(&whole[at..from + place.start()]);
        expand(with, &found, &mut made);
        at = from + place.end();
        if nth != 0 {
            break;
        }
    }
    made.push_str(&whole[at..]);
    Ok(Value::text(made))
}

#[cold]
fn bad_parameter(name: &str, value: i32) -> SqlError {
    invalid_parameter(format!("invalid value for parameter \"{name}\": {value}"))
}

/// Byte at which the character `start` (from 1) begins.
fn char_start(whole: &str, start: i32) -> Result<usize> {
    if start <= 0 {
        return Err(bad_parameter("start", start));
    }
    Ok(whole.char_indices().nth(start as usize - 1).map_or(whole.len(), |(at, _)| at))
}

fn replacing(source: &str) -> Option<Body> {
    match source {
        "textregexreplace_noopt" => scalar(|_, a| replace(text(&a[0]), text(&a[1]), text(&a[2]), 1, 1, "")),
        "textregexreplace" => scalar(|_, a| {
            let flags = text(&a[3]);
            if let Some(digit) = flags.chars().next().filter(char::is_ascii_digit) {
                let message = format!("invalid regular expression option: \"{digit}\"");
                return Err(invalid_parameter(message));
            }
            let nth = i32::from(!flags.contains('g'));
            replace(text(&a[0]), text(&a[1]), text(&a[2]), 1, nth, &flags.replace('g', ""))
        }),
        "textregexreplace_extended"
        | "textregexreplace_extended_no_flags"
        | "textregexreplace_extended_no_n" => scalar(|_, a| {
            let nth = a.get(4).map_or(1, int4);
            let flags = a.get(5).map_or("", |flags| text(flags));
            replace(text(&a[0]), text(&a[1]), text(&a[2]), int4(&a[3]), nth, &flags.replace('g', ""))
        }),
        _ => None,
    }
}

fn counting(source: &str) -> Option<Body> {
    match source {
        "regexp_count" | "regexp_count_no_start" | "regexp_count_no_flags" => scalar(|_, a| {
            let (whole, flags) = (text(&a[0]), a.get(3).map_or("", |flags| text(flags)));
            let from = char_start(whole, a.get(2).map_or(1, int4))?;
            without_g(flags, "regexp_count()")?;
            let regex = compiled(text(&a[1]), flags)?;
            let mut count = 0;
            for found in regex.find_iter(&whole[from..]) {
                run(found)?;
                count += 1;
            }
            Ok(Value::Int4(count))
        }),
        "regexp_instr"
        | "regexp_instr_no_start"
        | "regexp_instr_no_n"
        | "regexp_instr_no_endoption"
        | "regexp_instr_no_flags"
        | "regexp_instr_no_subexpr" => scalar(|_, a| {
            let whole = text(&a[0]);
            let end = a.get(4).map_or(0, int4);
            if !(0..=1).contains(&end) {
                return Err(bad_parameter("endoption", end));
            }
            let found = nth_match(a, 5, 6)?;
            Ok(Value::Int4(found.map_or(0, |(from, to)| {
                let at = if end == 1 { to } else { from };
                whole[..at].chars().count() as i32 + 1
            })))
        }),
        "regexp_substr"
        | "regexp_substr_no_start"
        | "regexp_substr_no_n"
        | "regexp_substr_no_flags"
        | "regexp_substr_no_subexpr" => scalar(|_, a| {
            let found = nth_match(a, 4, 5)?;
            Ok(found.map_or(Value::Null, |(from, to)| Value::text(&text(&a[0])[from..to])))
        }),
        _ => None,
    }
}

/// Bytes of a group of the n-th match from a character on (the arguments of regexp_substr).
fn nth_match(a: &[Value], flags_at: usize, group_at: usize) -> Result<Option<(usize, usize)>> {
    let whole = text(&a[0]);
    let from = char_start(whole, a.get(2).map_or(1, int4))?;
    let nth = a.get(3).map_or(1, int4);
    if nth <= 0 {
        return Err(bad_parameter("n", nth));
    }
    let flags = a.get(flags_at).map_or("", |flags| text(flags));
    let group = a.get(group_at).map_or(0, int4);
    if group < 0 {
        return Err(bad_parameter("subexpr", group));
    }
    without_g(flags, "regexp_substr()")?;
    let regex = compiled(text(&a[1]), flags)?;
    let found = regex.captures_iter(&whole[from..]).nth(nth as usize - 1).transpose();
    let found = run(found)?;
    let place = found.and_then(|found| found.get(group as usize).map(|group| (group.start(), group.end())));
    Ok(place.map(|(start, end)| (from + start, from + end)))
}
