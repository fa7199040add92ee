//! Regular expressions: PostgreSQL's advanced ones, carried out by the crate fancy-regex.
//!
//! The syntax is nearly the same; what differs is rewritten here (word boundaries, options at the front,
//! character classes). Where several alternatives match, PostgreSQL takes the longest and this the first.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use fancy_regex::{Regex, RegexBuilder};

use crate::error::{Result, SqlError, SqlState};
use crate::stop;

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
///
/// # Errors
/// 2201B; 22023 for a flag that there is none of.
pub(crate) fn compiled(pattern: &str, flags: &str) -> Result<Rc<Regex>> {
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
                let message = format!("invalid regular expression option: \"{other}\"");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
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

/// What a search has found, unless the statement is to stop.
///
/// # Errors
/// 2201B: the search was given up; those of [`stop::check`].
pub(crate) fn run<T>(result: std::result::Result<T, fancy_regex::Error>) -> Result<T> {
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
///
/// # Errors
/// As [`compiled`] and [`run`].
pub(crate) fn is_match(whole: &str, pattern: &str, flags: &str) -> Result<bool> {
    run(compiled(pattern, flags)?.is_match(whole))
}
