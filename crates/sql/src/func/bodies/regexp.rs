//! Regular expressions: PostgreSQL's advanced ones, carried out by the crate fancy-regex.
//!
//! The syntax is nearly the same; what differs is rewritten here (word boundaries, options at the front,
//! character classes). Where several alternatives match, PostgreSQL takes the longest and this the first.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use fancy_regex::{Captures, Regex, RegexBuilder};

use super::{int4, invalid_parameter, rows, scalar, set, text};
use crate::error::{Result, SqlError, SqlState};
use crate::func::registry::Body;
use crate::stop;
use crate::types::oid;
use crate::types::value::Value;

/// Most repetitions that `{m,n}` asks for, as in PostgreSQL.
const REPEAT_MAX: u32 = 255;

/// Most expressions that a thread keeps compiled.
const COMPILED_MAX: usize = 64;

thread_local! {
    static COMPILED: RefCell<BTreeMap<(String, String), Rc<Regex>>> = const { RefCell::new(BTreeMap::new()) };
}

#[cold]
fn invalid(what: impl std::fmt::Display) -> SqlError {
    let message = format!("invalid regular expression: {what}");
    SqlError::new(SqlState::INVALID_REGULAR_EXPRESSION, message)
}

/// The expression compiled; `flags` are PostgreSQL's letters without `g`.
fn compiled(pattern: &str, flags: &str) -> Result<Rc<Regex>> {
    COMPILED.with_borrow_mut(|cache| {
        let key = (pattern.to_string(), flags.to_string());
        if let Some(found) = cache.get(&key) {
            return Ok(Rc::clone(found));
        }
        let regex = Rc::new(compile(pattern, flags)?);
        if cache.len() >= COMPILED_MAX {
            cache.clear();
        }
        cache.insert(key, Rc::clone(&regex));
        Ok(regex)
    })
}

fn compile(pattern: &str, flags: &str) -> Result<Regex> {
    let mut flags = flags.to_string();
    let mut rest = pattern;
    if let Some(literal) = rest.strip_prefix("***=") {
        flags.push('q');
        rest = literal;
    } else {
        rest = rest.strip_prefix("***:").unwrap_or(rest);
        if let Some(options) = rest.strip_prefix("(?")
            && let Some(end) = options.find(')')
            && end > 0
            && options[..end].bytes().all(|b| b.is_ascii_lowercase())
        {
            flags.push_str(&options[..end]);
            rest = &options[end + 1..];
        }
    }
    // As in PostgreSQL, the last of contrary options counts.
    let (mut insensitive, mut dot_newline, mut anchors, mut expanded, mut quoted) =
        (false, true, false, false, false);
    for flag in flags.chars() {
        match flag {
            'i' => insensitive = true,
            'c' => insensitive = false,
            'n' | 'm' => (dot_newline, anchors) = (false, true),
            's' => (dot_newline, anchors) = (true, false),
            'p' => (dot_newline, anchors) = (false, false),
            'w' => (dot_newline, anchors) = (true, true),
            'x' => expanded = true,
            't' => expanded = false,
            'q' => quoted = true,
            'e' | 'b' => {}
            other => {
                return Err(invalid_parameter(format!("invalid regular expression option: \"{other}\"")));
            }
        }
    }
    let translated = if quoted { fancy_regex::escape(rest).into_owned() } else { translate(rest)? };
    let mut options = String::new();
    for (is_set, letter) in [(insensitive, 'i'), (dot_newline, 's'), (anchors, 'm'), (expanded, 'x')] {
        if is_set {
            options.push(letter);
        }
    }
    let whole = if options.is_empty() { translated } else { format!("(?{options}){translated}") };
    RegexBuilder::new(&whole).backtrack_limit(2_000_000).build().map_err(|error| {
        let text = error.to_string();
        invalid(text.lines().last().unwrap_or_default())
    })
}

/// Refuses bounds behind `{` that no repetition has.
fn check_bounds(rest: &str) -> Result<()> {
    let end = rest.find('}').ok_or_else(|| invalid("braces {} not balanced"))?;
    let (low, high) = rest[..end].split_once(',').unwrap_or((&rest[..end], &rest[..end]));
    let bound = |text: &str| match text {
        "" => Ok(REPEAT_MAX),
        text => text.parse::<u32>().map_err(|_| invalid("invalid repetition count(s)")),
    };
    let (low, high) = (bound(low)?, bound(high)?);
    if low > high || high > REPEAT_MAX {
        return Err(invalid("invalid repetition count(s)"));
    }
    Ok(())
}

/// The expression in the syntax of fancy-regex.
fn translate(pattern: &str) -> Result<String> {
    let mut made = String::new();
    let mut rest = pattern;
    let mut can_repeat = false;
    let mut depth = 0usize;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\\' => {
                let escaped = rest.chars().next().ok_or_else(|| invalid("invalid escape \\ sequence"))?;
                rest = &rest[escaped.len_utf8()..];
                match escaped {
                    'm' => made.push_str(r"\b(?=\w)"),
                    'M' => made.push_str(r"\b(?<=\w)"),
                    'y' => made.push_str(r"\b"),
                    'Y' => made.push_str(r"\B"),
                    'A' => made.push_str(r"\A"),
                    'Z' => made.push_str(r"\z"),
                    'B' => made.push_str(r"\\"),
                    'e' => made.push_str(r"\x1B"),
                    same if same.is_ascii_digit() || "afnrtvdswDSWx".contains(same) => {
                        made.push('\\');
                        made.push(escaped);
                    }
                    'u' | 'U' => {
                        let digits = if escaped == 'u' { 4 } else { 8 };
                        let hex = rest.get(..digits).ok_or_else(|| invalid("invalid escape \\ sequence"))?;
                        made.push_str(&format!("\\x{{{hex}}}"));
                        rest = &rest[digits..];
                    }
                    other if other.is_alphanumeric() => return Err(invalid("invalid escape \\ sequence")),
                    other => made.push_str(&fancy_regex::escape(other.encode_utf8(&mut [0; 4]))),
                }
                can_repeat = true;
            }
            '[' if rest.starts_with("[:<:]]") => {
                made.push_str(r"\b(?=\w)");
                rest = &rest[6..];
            }
            '[' if rest.starts_with("[:>:]]") => {
                made.push_str(r"\b(?<=\w)");
                rest = &rest[6..];
            }
            '[' => {
                rest = bracket(rest, &mut made)?;
                can_repeat = true;
            }
            '*' | '+' | '?' if !can_repeat => return Err(invalid("quantifier operand invalid")),
            '*' | '+' | '?' => {
                made.push(c);
                // A second sign is greed (`*?`); a third has nothing to repeat.
                if rest.starts_with('?') {
                    made.push('?');
                    rest = &rest[1..];
                }
                can_repeat = false;
            }
            '{' if !rest.starts_with(|c: char| c.is_ascii_digit()) => made.push_str(r"\{"),
            '{' => {
                check_bounds(rest)?;
                made.push('{');
            }
            ')' if depth == 0 => made.push_str(r"\)"),
            ')' => {
                depth -= 1;
                made.push(c);
                can_repeat = true;
            }
            '(' | '|' => {
                depth += usize::from(c == '(');
                made.push(c);
                can_repeat = false;
                if c == '(' && rest.starts_with('?') {
                    made.push('?');
                    rest = &rest[1..];
                }
            }
            c => {
                made.push(c);
                can_repeat = c != '^';
            }
        }
    }
    if depth > 0 {
        return Err(invalid("parentheses () not balanced"));
    }
    Ok(made)
}

/// Copies a bracket expression behind its `[`; gives what follows it.
fn bracket<'a>(rest: &'a str, made: &mut String) -> Result<&'a str> {
    made.push('[');
    let mut rest = rest;
    if let Some(tail) = rest.strip_prefix('^') {
        made.push('^');
        rest = tail;
    }
    let mut is_first = true;
    loop {
        let c = rest.chars().next().ok_or_else(|| invalid("brackets [] not balanced"))?;
        let tail = &rest[c.len_utf8()..];
        match c {
            ']' if !is_first => {
                made.push(']');
                return Ok(tail);
            }
            '[' if tail.starts_with([':', '.', '=']) => {
                let kind = &tail[..1];
                let end =
                    tail[1..].find(&format!("{kind}]")).ok_or_else(|| invalid("brackets [] not balanced"))?;
                let name = &tail[1..1 + end];
                let known = [
                    "alpha", "digit", "alnum", "upper", "lower", "space", "blank", "punct", "print", "graph",
                    "cntrl", "xdigit", "word",
                ];
                match kind {
                    ":" if known.contains(&name) => made.push_str(&unicode_class(name)),
                    ":" => return Err(invalid("invalid character class")),
                    _ => made.push_str(&fancy_regex::escape(name)),
                }
                rest = &tail[end + 3..];
                is_first = false;
                continue;
            }
            '\\' => {
                let escaped = tail.chars().next().ok_or_else(|| invalid("invalid escape \\ sequence"))?;
                made.push('\\');
                made.push(escaped);
                rest = &tail[escaped.len_utf8()..];
                is_first = false;
                continue;
            }
            '[' | ']' | '&' | '~' => {
                made.push('\\');
                made.push(c);
            }
            c => {
                let last = tail.strip_prefix('-').and_then(|end| end.chars().next());
                if last.is_some_and(|last| !matches!(last, ']' | '[' | '\\') && last < c) {
                    return Err(invalid("invalid character range"));
                }
                made.push(c);
            }
        }
        rest = tail;
        is_first = false;
    }
}

fn unicode_class(name: &str) -> String {
    match name {
        "alpha" => r"\p{Alphabetic}".to_string(),
        "digit" => r"\p{Nd}".to_string(),
        "alnum" => r"\p{Alphabetic}\p{Nd}".to_string(),
        "upper" => r"\p{Uppercase}".to_string(),
        "lower" => r"\p{Lowercase}".to_string(),
        "space" => r"\s".to_string(),
        other => format!("[:{other}:]"),
    }
}

fn run<T>(result: std::result::Result<T, fancy_regex::Error>) -> Result<T> {
    stop::check()?;
    result.map_err(invalid)
}

/// Refuses what is no regular expression; `flags` are PostgreSQL's letters without `g`.
///
/// # Errors
/// 2201B.
pub(crate) fn check(pattern: &str, flags: &str) -> Result<()> {
    compiled(pattern, flags).map(drop)
}

/// Whether the expression matches somewhere in the text.
pub(super) fn is_match(whole: &str, pattern: &str, flags: &str) -> Result<bool> {
    run(compiled(pattern, flags)?.is_match(whole))
}

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
