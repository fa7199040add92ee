//! JSON: reading, writing and comparing documents.
//!
//! `json` keeps its text, so its operators work on spans of it ([`Span`], [`members`], [`elements`]); `jsonb`
//! keeps a [`Json`].
//!
//! Invariants:
//! 1. An object's keys are unique and sorted, shorter ones first, then by bytes; the last of equal keys won.
//! 2. Numbers keep their scale: `1.0` stays `1.0`.

mod fault;
mod order;

use std::fmt::Write;

pub use order::compare;

use super::numeric::Numeric;
use crate::error::{Result, SqlError, SqlState};

/// A JSON document as jsonb keeps it.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// null.
    Null,
    /// true or false.
    Bool(bool),
    /// A number; keeps the zeros behind the point.
    Number(Numeric),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object: keys once each, shorter ones first, then by bytes.
    Object(Vec<(String, Json)>),
}

/// Deepest nesting that is read.
const DEPTH_MAX: usize = 1000;

/// What kind of value a piece of JSON text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "JSON's words")]
pub enum Kind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

/// A value in a JSON text.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// What it is.
    pub kind: Kind,
    /// First byte.
    pub start: usize,
    /// Behind the last byte.
    pub end: usize,
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// Escapes have to stand for characters, also where nobody wants these.
    decodes: bool,
}

const LOW: &str = "Unicode low surrogate must follow a high surrogate.";
const TWICE: &str = "Unicode high surrogate must not follow a high surrogate.";

fn invalid(detail: impl Into<String>) -> SqlError {
    let message = "invalid input syntax for type json";
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message).detail(detail)
}

#[cold]
fn zero() -> SqlError {
    SqlError::new(SqlState::UNTRANSLATABLE_CHARACTER, "unsupported Unicode escape sequence")
        .detail("\\u0000 cannot be converted to text.")
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Reader<'a> {
        Reader { text, at: 0, depth: 0, decodes: false }
    }

    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let eats = self.peek() == Some(byte);
        self.at += usize::from(eats);
        eats
    }

    fn expect(&mut self, byte: u8, expected: &str) -> Result<()> {
        if self.eat(byte) { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    fn literal(&mut self) -> Result<&'a str> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        match &rest[..end] {
            word @ ("true" | "false" | "null") => {
                self.at += end;
                Ok(word)
            }
            _ => Err(self.unexpected("JSON value")),
        }
    }

    fn number(&mut self) -> Result<&'a str> {
        let bytes = &self.text.as_bytes()[self.at..];
        let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let mut end = usize::from(bytes[0] == b'-');
        let whole = digits(end);
        let mut valid = whole == 1 || (whole > 1 && bytes[end] != b'0');
        end += whole;
        if bytes.get(end) == Some(&b'.') {
            let fraction = digits(end + 1);
            valid &= fraction > 0;
            end += 1 + fraction;
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let signed = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits(end + 1 + signed);
            valid &= exponent > 0;
            end += 1 + signed + exponent;
        }
        valid &= !bytes.get(end).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_' || *b == b'.');
        if !valid {
            return Err(self.bad_number(end));
        }
        let number = &self.text[self.at..self.at + end];
        self.at += end;
        Ok(number)
    }

    /// Reads a string; appends its characters to `to` if there is one.
    fn string(&mut self, mut to: Option<&mut String>) -> Result<()> {
        self.expect(b'"', "string")?;
        let start = self.at - 1;
        loop {
            let rest = &self.text[self.at..];
            let stop = rest.bytes().position(|b| b == b'"' || b == b'\\' || b < b' ');
            let Some(stop) = stop else { return Err(self.unclosed(start)) };
            if let Some(to) = to.as_deref_mut() {
                to.push_str(&rest[..stop]);
            }
            self.at += stop + 1;
            match rest.as_bytes()[stop] {
                b'"' => return Ok(()),
                b'\\' => {
                    let c = self.escape(start, to.is_some() || self.decodes)?;
                    if let Some(to) = to.as_deref_mut() {
                        to.push(c);
                    }
                }
                control => {
                    let error = invalid(format!("Character with value 0x{control:02x} must be escaped."));
                    return Err(self.told(error, start, self.at - 1));
                }
            }
        }
    }

    /// Reads what follows a backslash in the string that begins at `start`.
    fn escape(&mut self, start: usize, decodes: bool) -> Result<char> {
        let escape = self.text[self.at..].chars().next().ok_or_else(|| self.unclosed(start))?;
        self.at += escape.len_utf8();
        Ok(match escape {
            '"' | '\\' | '/' => escape,
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let first = self.hex(start)?;
                if !decodes {
                    return Ok(' ');
                }
                let code = match first {
                    0 => return Err(self.bad_token(start, zero())),
                    0xd800..0xdc00 => {
                        if !self.text[self.at..].starts_with("\\u") {
                            let next = self.text[self.at..].chars().next().map_or(0, char::len_utf8);
                            return Err(self.told(invalid(LOW), start, self.at + next));
                        }
                        self.at += 2;
                        match self.hex(start)? {
                            0xd800..0xdc00 => return Err(self.bad_token(start, invalid(TWICE))),
                            second @ 0xdc00..0xe000 => 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00),
                            _ => return Err(self.bad_token(start, invalid(LOW))),
                        }
                    }
                    other => other,
                };
                char::from_u32(code).ok_or_else(|| self.bad_token(start, invalid(LOW)))?
            }
            other => {
                let error = invalid(format!("Escape sequence \"\\{other}\" is invalid."));
                return Err(self.bad_token(start, error));
            }
        })
    }

    fn hex(&mut self, start: usize) -> Result<u32> {
        let rest = &self.text[self.at..];
        let bad = rest.char_indices().take(4).find(|(_, c)| !c.is_ascii_hexdigit());
        if bad.is_some() || rest.len() < 4 {
            let end = bad.map_or(self.text.len(), |(at, c)| self.at + at + c.len_utf8());
            if bad.is_none() {
                return Err(self.unclosed(start));
            }
            let error = invalid("\"\\u\" must be followed by four hexadecimal digits.");
            return Err(self.told(error, start, end));
        }
        self.at += 4;
        Ok(u32::from_str_radix(&rest[..4], 16).expect("hexadecimal digits"))
    }

    fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded"));
        }
        self.at += 1;
        Ok(())
    }

    fn value(&mut self) -> Result<Json> {
        match self.peek() {
            Some(b'{') => {
                self.enter()?;
                let mut members = Vec::new();
                while !self.eat(b'}') {
                    self.next_member(members.is_empty())?;
                    let mut key = String::new();
                    self.string(Some(&mut key))?;
                    self.expect(b':', "\":\"")?;
                    members.push((key, self.value()?));
                }
                self.depth -= 1;
                Ok(object(members))
            }
            Some(b'[') => {
                self.enter()?;
                let mut elements = Vec::new();
                while !self.eat(b']') {
                    if !elements.is_empty() {
                        self.expect(b',', "\",\" or \"]\"")?;
                    }
                    elements.push(self.value()?);
                }
                self.depth -= 1;
                Ok(Json::Array(elements))
            }
            Some(b'"') => {
                let mut text = String::new();
                self.string(Some(&mut text))?;
                Ok(Json::String(text))
            }
            Some(b'-' | b'0'..=b'9') => {
                let text = self.number()?;
                Ok(Json::Number(Numeric::parse(text).expect("a JSON number is a number")?))
            }
            _ => Ok(match self.literal()? {
                "null" => Json::Null,
                word => Json::Bool(word == "true"),
            }),
        }
    }

    /// Passes a value; reports the values directly in it with their keys.
    fn skip(&mut self, found: &mut dyn FnMut(Option<&str>, Span)) -> Result<Span> {
        let first = self.peek();
        let start = self.at;
        let kind = match first {
            Some(opening @ (b'{' | b'[')) => {
                self.enter()?;
                let closing = if opening == b'{' { b'}' } else { b']' };
                let mut is_first = true;
                while !self.eat(closing) {
                    let mut key = String::new();
                    if opening == b'{' {
                        self.next_member(is_first)?;
                        self.string(Some(&mut key))?;
                        self.expect(b':', "\":\"")?;
                    } else if !is_first {
                        self.expect(b',', "\",\" or \"]\"")?;
                    }
                    is_first = false;
                    let inner = self.skip(&mut |_, _| {})?;
                    found((opening == b'{').then_some(key.as_str()), inner);
                }
                self.depth -= 1;
                if opening == b'{' { Kind::Object } else { Kind::Array }
            }
            Some(b'"') => {
                self.string(None)?;
                Kind::String
            }
            Some(b'-' | b'0'..=b'9') => {
                self.number()?;
                Kind::Number
            }
            _ => match self.literal()? {
                "null" => Kind::Null,
                _ => Kind::Bool,
            },
        };
        Ok(Span { kind, start, end: self.at })
    }

    fn end(&mut self) -> Result<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected("end of input")),
        }
    }

    /// Up to the key of a member of an object.
    fn next_member(&mut self, is_first: bool) -> Result<()> {
        if !is_first {
            self.expect(b',', "\",\" or \"}\"")?;
        }
        match (self.peek(), is_first) {
            (Some(b'"'), _) => Ok(()),
            (_, true) => Err(self.unexpected("string or \"}\"")),
            (_, false) => Err(self.unexpected("string")),
        }
    }
}

/// An object of these members: sorted, the last of equal keys wins.
pub fn object(mut members: Vec<(String, Json)>) -> Json {
    let by_key = |a: &str, b: &str| a.len().cmp(&b.len()).then_with(|| a.cmp(b));
    members.reverse();
    members.sort_by(|a, b| by_key(&a.0, &b.0));
    members.dedup_by(|later, kept| later.0 == kept.0);
    Json::Object(members)
}

/// Reads a document.
///
/// # Errors
/// 22P02 if the text is not JSON, 22P05 for an escape that text cannot hold.
pub fn parse(text: &str) -> Result<Json> {
    let mut reader = Reader::new(text);
    let document = reader.value()?;
    reader.end()?;
    Ok(document)
}

/// Checks that the text is JSON, and tells where its value is.
///
/// # Errors
/// 22P02 if it is not.
pub fn check(text: &str) -> Result<Span> {
    let mut reader = Reader::new(text);
    let span = reader.skip(&mut |_, _| {})?;
    reader.end()?;
    Ok(span)
}

/// The members of the object that a JSON text is, in the order of the text; `None` if it is no object.
///
/// # Errors
/// 22P02 if the text is not JSON.
pub fn members(text: &str) -> Result<Option<Vec<(String, Span)>>> {
    let mut found = Vec::new();
    let span = Reader { decodes: true, ..Reader::new(text) }.skip(&mut |key, span| {
        if let Some(key) = key {
            found.push((key.to_string(), span));
        }
    })?;
    Ok((span.kind == Kind::Object).then_some(found))
}

/// The elements of the array that a JSON text is; `None` if it is no array.
///
/// # Errors
/// 22P02 if the text is not JSON.
pub fn elements(text: &str) -> Result<Option<Vec<Span>>> {
    let mut found = Vec::new();
    let mut reader = Reader { decodes: true, ..Reader::new(text) };
    let span = reader.skip(&mut |_, span| found.push(span))?;
    Ok((span.kind == Kind::Array).then_some(found))
}

/// The text of a piece of JSON as `->>` gives it: strings without quotes and escapes, `None` for null.
///
/// # Errors
/// 22P05 for an escape that text cannot hold.
pub fn unquoted(text: &str, span: Span) -> Result<Option<String>> {
    let piece = &text[span.start..span.end];
    match span.kind {
        Kind::Null => Ok(None),
        Kind::String => {
            let mut unquoted = String::new();
            Reader::new(piece).string(Some(&mut unquoted))?;
            Ok(Some(unquoted))
        }
        _ => Ok(Some(piece.to_string())),
    }
}

/// Appends a JSON string with quotes and escapes.
pub fn write_string(text: &str, to: &mut String) {
    to.push('"');
    for c in text.chars() {
        match c {
            '"' => to.push_str("\\\""),
            '\\' => to.push_str("\\\\"),
            '\x08' => to.push_str("\\b"),
            '\x0c' => to.push_str("\\f"),
            '\n' => to.push_str("\\n"),
            '\r' => to.push_str("\\r"),
            '\t' => to.push_str("\\t"),
            c if c < ' ' => write!(to, "\\u{:04x}", c as u32).expect("a string takes it"),
            c => to.push(c),
        }
    }
    to.push('"');
}

impl Json {
    /// What kind of value it is.
    pub fn kind(&self) -> Kind {
        match self {
            Json::Null => Kind::Null,
            Json::Bool(_) => Kind::Bool,
            Json::Number(_) => Kind::Number,
            Json::String(_) => Kind::String,
            Json::Array(_) => Kind::Array,
            Json::Object(_) => Kind::Object,
        }
    }

    /// Appends the document as jsonb is written: `{"a": [1, 2]}`.
    pub fn write(&self, to: &mut String) {
        match self {
            Json::Null => to.push_str("null"),
            Json::Bool(b) => to.push_str(if *b { "true" } else { "false" }),
            Json::Number(number) => write!(to, "{number}").expect("a string takes it"),
            Json::String(text) => write_string(text, to),
            Json::Array(elements) => {
                to.push('[');
                for (i, element) in elements.iter().enumerate() {
                    to.push_str(if i == 0 { "" } else { ", " });
                    element.write(to);
                }
                to.push(']');
            }
            Json::Object(members) => {
                to.push('{');
                for (i, (key, value)) in members.iter().enumerate() {
                    to.push_str(if i == 0 { "" } else { ", " });
                    write_string(key, to);
                    to.push_str(": ");
                    value.write(to);
                }
                to.push('}');
            }
        }
    }

    /// Appends the document over several lines as `jsonb_pretty` does.
    pub fn write_pretty(&self, indent: usize, to: &mut String) {
        let line = |to: &mut String, indent: usize| {
            to.push('\n');
            to.extend(std::iter::repeat_n(' ', 4 * indent));
        };
        match self {
            Json::Array(elements) => {
                to.push('[');
                for (i, element) in elements.iter().enumerate() {
                    to.push_str(if i == 0 { "" } else { "," });
                    line(to, indent + 1);
                    element.write_pretty(indent + 1, to);
                }
                line(to, indent);
                to.push(']');
            }
            Json::Object(members) => {
                to.push('{');
                for (i, (key, value)) in members.iter().enumerate() {
                    to.push_str(if i == 0 { "" } else { "," });
                    line(to, indent + 1);
                    write_string(key, to);
                    to.push_str(": ");
                    value.write_pretty(indent + 1, to);
                }
                line(to, indent);
                to.push('}');
            }
            other => other.write(to),
        }
    }

    /// The member with this key, if it is an object that has one.
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.iter().find(|(own, _)| own == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The element at this place (from the end, if negative), if it is an array that has one.
    pub fn element(&self, at: i64) -> Option<&Json> {
        match self {
            Json::Array(elements) => {
                let at = if at < 0 { at + elements.len() as i64 } else { at };
                elements.get(usize::try_from(at).ok()?)
            }
            _ => None,
        }
    }

    /// The text as `->>` gives it; `None` for null.
    pub fn unquoted(&self) -> Option<String> {
        match self {
            Json::Null => None,
            Json::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }
}

impl std::fmt::Display for Json {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        f.write_str(&text)
    }
}
