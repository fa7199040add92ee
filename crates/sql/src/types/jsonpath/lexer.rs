//! The words of a path.
//!
//! As in PostgreSQL, the longest word counts; digits belong to names (`$.1a`), and escapes may stand in names
//! outside of quotes.

use crate::error::{Result, SqlError, SqlState};

/// A word.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// The end of the text.
    End,
    /// An operator or a single character.
    Symbol(&'a str),
    /// A number without a fraction and an exponent.
    Integer(&'a str),
    /// Another number.
    Number(&'a str),
    /// A text in quotes, its escapes read.
    String(String),
    /// The name behind a `$`.
    Variable(String),
    /// A name without quotes, and the key word that it is, or an empty text.
    Word(String, &'static str),
}

/// Key words, and whether they are so in lower case only.
const KEYWORDS: &[(&str, bool)] = &[
    ("abs", false),
    ("ceiling", false),
    ("datetime", false),
    ("double", false),
    ("exists", false),
    ("false", true),
    ("flag", false),
    ("floor", false),
    ("is", false),
    ("keyvalue", false),
    ("last", false),
    ("lax", false),
    ("like_regex", false),
    ("null", true),
    ("size", false),
    ("starts", false),
    ("strict", false),
    ("to", false),
    ("true", true),
    ("type", false),
    ("unknown", false),
    ("with", false),
];

const LOW: &str = "Unicode low surrogate must follow a high surrogate.";
const TWICE: &str = "Unicode high surrogate must not follow a high surrogate.";
const SYMBOLS: [&str; 8] = ["&&", "||", "**", "<=", "==", "<>", "!=", ">="];

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c)
}

fn is_special(byte: u8) -> bool {
    b"?%$.[]{}()|&!=<>@#,*:-+/".contains(&byte)
}

/// Whether it may stand in a name.
fn is_other(byte: u8) -> bool {
    !is_special(byte) && !is_blank(byte) && byte != b'\\' && byte != b'"'
}

/// A fault of the path at a word.
#[cold]
pub(super) fn fault(what: &str, shown: &str) -> SqlError {
    let message = match shown {
        "" => format!("{what} at end of jsonpath input"),
        _ => format!("{what} at or near \"{shown}\" of jsonpath input"),
    };
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

#[cold]
fn invalid(detail: &str) -> SqlError {
    let message = "invalid input syntax for type jsonpath";
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message).detail(detail)
}

#[cold]
fn zero() -> SqlError {
    SqlError::new(SqlState::UNTRANSLATABLE_CHARACTER, "unsupported Unicode escape sequence")
        .detail("\\u0000 cannot be converted to text.")
}

pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

/// How many bytes at the beginning of a text are so.
fn run(text: &str, is_so: impl Fn(u8) -> bool) -> usize {
    text.bytes().position(|byte| !is_so(byte)).unwrap_or(text.len())
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Lexer<'a> {
        Lexer { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn take(&mut self, len: usize) -> &'a str {
        let taken = &self.rest()[..len];
        self.at += len;
        taken
    }

    /// The next word, and what an error shows of it.
    pub(super) fn next(&mut self) -> Result<(Token<'a>, &'a str)> {
        loop {
            let rest = self.rest();
            let Some(&first) = rest.as_bytes().first() else { return Ok((Token::End, "")) };
            if is_blank(first) {
                self.at += run(rest, is_blank);
                continue;
            }
            if rest.starts_with("/*") {
                self.comment()?;
                continue;
            }
            if first == b'"' {
                let text = self.quoted(1)?;
                return Ok((Token::String(text), "\""));
            }
            if let Some(behind) = rest.strip_prefix('$') {
                if behind.starts_with('"') {
                    let name = self.quoted(2)?;
                    return Ok((Token::Variable(name), "\""));
                }
                let name = run(behind, is_other);
                if name > 0 {
                    let shown = self.take(1 + name);
                    return Ok((Token::Variable(shown[1..].to_string()), shown));
                }
            }
            if first.is_ascii_digit() || first == b'.' {
                let (len, token) = self.number()?;
                if len > 0 {
                    let shown = self.take(len);
                    return Ok((token, shown));
                }
            }
            if is_special(first) {
                let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
                let shown = self.take(symbol.map_or(1, |symbol| symbol.len()));
                return Ok((Token::Symbol(shown), shown));
            }
            if let Some((word, shown)) = self.word()? {
                let keyword = KEYWORDS.iter().find(|(keyword, is_lower)| match is_lower {
                    true => *keyword == word,
                    false => keyword.eq_ignore_ascii_case(&word),
                });
                return Ok((Token::Word(word, keyword.map_or("", |found| found.0)), shown));
            }
        }
    }

    fn comment(&mut self) -> Result<()> {
        let end = self.text[self.at + 2..].find("*/");
        let end = end.ok_or_else(|| fault("unexpected end of comment", ""))?;
        self.at += 2 + end + 2;
        Ok(())
    }

    /// A number and its length, which is 0 where a name or another symbol begins.
    fn number(&self) -> Result<(usize, Token<'a>)> {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let digits = |from: usize| run(&rest[from..], |byte| byte.is_ascii_digit());
        let whole = if bytes[0] == b'0' { 1 } else { digits(0) };
        let decimal = match bytes.get(whole) {
            Some(b'.') if whole > 0 || digits(1) > 0 => whole + 1 + digits(whole + 1),
            _ => 0,
        };
        let name = run(rest, is_other);
        let base = decimal.max(whole);
        let (mut real, mut cut) = (0, 0);
        if base > 0 && matches!(bytes.get(base), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(base + 1), Some(b'+' | b'-')));
            let exponent = digits(base + 1 + sign);
            real = if exponent > 0 { base + 1 + sign + exponent } else { 0 };
            cut = if sign > 0 { base + 2 } else { 0 };
        }
        // A number that a name's character follows.
        let junk = |len: usize| match bytes.get(len) {
            Some(byte) if len > 0 && is_other(*byte) => len + 1,
            _ => 0,
        };
        let longest = [real, decimal, whole, cut, junk(whole), junk(decimal), junk(real)];
        let len = longest.into_iter().max().unwrap_or(0);
        match longest.iter().position(|own| *own == len) {
            _ if len < name || len == 0 => Ok((0, Token::End)),
            Some(0 | 1) => Ok((len, Token::Number(&rest[..len]))),
            Some(2) => Ok((len, Token::Integer(&rest[..len]))),
            Some(3) => Err(fault("invalid numeric literal", &rest[..len])),
            _ => Err(fault("trailing junk after numeric literal", &rest[..rest.ceil_char_boundary(len)])),
        }
    }

    /// A text in quotes behind its opening of so many bytes.
    fn quoted(&mut self, opening: usize) -> Result<String> {
        self.at += opening;
        let mut text = String::new();
        loop {
            let plain = run(self.rest(), |byte| byte != b'\\' && byte != b'"');
            text.push_str(self.take(plain));
            match self.rest().as_bytes().first() {
                None => return Err(fault("unexpected end of quoted string", "")),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(_) => self.escape(&mut text)?,
            }
        }
    }

    /// A name without quotes, and what an error shows of it; none if a comment follows it at once, which
    /// takes it away.
    fn word(&mut self) -> Result<Option<(String, &'a str)>> {
        let mut word = String::new();
        loop {
            word.push_str(self.take(run(self.rest(), is_other)));
            let rest = self.rest();
            match rest.as_bytes().first() {
                Some(b'\\') => self.escape(&mut word)?,
                Some(b'/') if rest.starts_with("/*") => {
                    self.comment()?;
                    return Ok(None);
                }
                _ => {
                    let blanks = run(rest, is_blank);
                    return Ok(Some((word, self.take(blanks))));
                }
            }
        }
    }

    /// An escape behind a backslash.
    fn escape(&mut self, to: &mut String) -> Result<()> {
        let rest = self.rest();
        let escaped = rest[1..].chars().next().filter(|c| *c != '\n');
        let escaped = escaped.ok_or_else(|| fault("unexpected end after backslash", "\\"))?;
        match escaped {
            'u' => return self.unicode(to),
            'x' => {
                let hex = run(&rest[2..], |byte| byte.is_ascii_hexdigit()).min(2);
                if hex < 2 {
                    return Err(fault("invalid hex character sequence", &rest[..2 + hex]));
                }
                let code = u8::from_str_radix(&rest[2..4], 16).expect("two hexadecimal digits");
                if code == 0 {
                    return Err(zero());
                }
                to.push(char::from(code));
                self.at += 4;
                return Ok(());
            }
            'b' => to.push('\x08'),
            'f' => to.push('\x0c'),
            'n' => to.push('\n'),
            'r' => to.push('\r'),
            't' => to.push('\t'),
            'v' => to.push('\x0b'),
            other => to.push(other),
        }
        self.at += 1 + escaped.len_utf8();
        Ok(())
    }

    /// All escapes of characters by their numbers that follow one another: they may be halves of one.
    fn unicode(&mut self, to: &mut String) -> Result<()> {
        let whole = self.rest();
        let mut codes = Vec::new();
        let mut rest = whole;
        while let Some(behind) = rest.strip_prefix("\\u") {
            let (braces, most) = if behind.starts_with('{') { (1, 6) } else { (0, 4) };
            let hex = run(&behind[braces..], |byte| byte.is_ascii_hexdigit()).min(most);
            let end = braces + hex;
            let is_whole = match braces {
                0 => hex == 4,
                _ => hex > 0 && behind[end..].starts_with('}'),
            };
            if !is_whole {
                let len = whole.len() - behind.len() + end;
                return Err(fault("invalid unicode sequence", &whole[..len]));
            }
            codes.push(u32::from_str_radix(&behind[braces..end], 16).expect("hexadecimal digits"));
            rest = &behind[end + braces..];
        }
        self.at += whole.len() - rest.len();
        let mut high = None;
        for code in codes {
            let code = match (high.take(), code) {
                (None, 0xd800..0xdc00) => {
                    high = Some(code);
                    continue;
                }
                (Some(_), 0xd800..0xdc00) => return Err(invalid(TWICE)),
                (Some(high), 0xdc00..0xe000) => 0x10000 + ((high - 0xd800) << 10) + (code - 0xdc00),
                (Some(_), _) | (None, 0xdc00..0xe000) => return Err(invalid(LOW)),
                (None, 0) => return Err(zero()),
                (None, code) => code,
            };
            let invalid = || SqlError::new(SqlState::SYNTAX_ERROR, "invalid Unicode code point");
            to.push(char::from_u32(code).ok_or_else(invalid)?);
        }
        if high.is_some() { Err(invalid(LOW)) } else { Ok(()) }
    }
}
