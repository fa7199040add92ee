//! Tokens of SQL text, as PostgreSQL's scanner (scan.l) cuts them.
//!
//! 1. Every token knows the byte range of the text that it came from; errors point there.
//! 2. Unquoted identifiers are folded to lower case, quoted ones are kept; both may be keywords only where
//!    they were not quoted.
//! 3. An operator ends as scan.l ends it: before a comment, and a trailing `+` or `-` belongs to it only if
//!    it holds one of `~ ! @ # % ^ & | ? \``.
use super::syntax_error;
use super::unicode::{FIRST_HALF, SECOND_HALF, character, hexadecimal, joined, unicode_escapes};
use crate::encoding::bad_bytes;
use crate::error::{SqlError, SqlState};

/// Byte offset into the text.
pub(crate) type Pos = u32;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tok {
    /// Unquoted, folded.
    Word(String),
    /// `"Quoted"`.
    Quoted(String),
    /// A string literal of any form, its escapes resolved.
    Str(String),
    /// `B'01'` (false) or `X'1f'` (true).
    Bits(String, bool),
    Integer(String),
    Float(String),
    Param(u16),
    Op(String),
    /// One of `, ( ) [ ] . ; :` and `::` as `'c'`, `:=` as `'='`.
    Punct(char),
    End,
}

#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) tok: Tok,
    pub(crate) start: Pos,
    pub(crate) end: Pos,
}

/// How `::` is told apart among [`Tok::Punct`].
pub(crate) const CAST: char = 'c';
/// `:=` among [`Tok::Punct`].
pub(crate) const ASSIGN: char = '=';
/// `..` among [`Tok::Punct`].
pub(crate) const RANGE: char = 'r';

const OPERATOR_CHARS: &[u8] = b"~!@#^&|`?+-*/%<>=";
const IDENTIFIER_BYTES_MAX: usize = 63;
/// Tokens that there is room for at first: a long text is long by its literals.
const TOKENS_EXPECTED: usize = 1 << 12;

/// Cuts the whole text; the last token is [`Tok::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, SqlError> {
    tokens_as(text, false)
}

/// As [`tokens`]; with `plain_escapes` backslashes escape in plain literals too
/// (`standard_conforming_strings` is off).
pub(crate) fn tokens_as(text: &str, plain_escapes: bool) -> Result<Vec<Token>, SqlError> {
    let mut lexer = Lexer { text, bytes: text.as_bytes(), at: 0, plain_escapes };
    let mut tokens = Vec::with_capacity((text.len() / 4 + 2).min(TOKENS_EXPECTED));
    loop {
        lexer.skip_blanks()?;
        let start = lexer.at;
        let tok = lexer.next()?;
        let done = tok == Tok::End;
        tokens.push(Token { tok, start: start as Pos, end: lexer.at as Pos });
        if done {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    plain_escapes: bool,
}

fn starts_identifier(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn continues_identifier(byte: u8) -> bool {
    starts_identifier(byte) || byte.is_ascii_digit() || byte == b'$'
}

/// Cuts a name to PostgreSQL's 63 bytes, at a character's border.
pub(crate) fn truncated(mut name: String) -> String {
    if name.len() > IDENTIFIER_BYTES_MAX {
        let mut end = IDENTIFIER_BYTES_MAX;
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.truncate(end);
    }
    name
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn unterminated(&self, what: &str, start: usize) -> SqlError {
        let near = &self.text[start..];
        SqlError::new(SqlState::SYNTAX_ERROR, format!("unterminated {what} at or near \"{near}\""))
            .at(start as u32 + 1)
    }

    fn skip_blanks(&mut self) -> Result<(), SqlError> {
        loop {
            match (self.peek(0), self.peek(1)) {
                (b' ' | b'\t' | b'\n' | b'\r' | 0x0c | 0x0b, _) => self.at += 1,
                (b'-', b'-') => {
                    while self.at < self.bytes.len() && self.peek(0) != b'\n' && self.peek(0) != b'\r' {
                        self.at += 1;
                    }
                }
                (b'/', b'*') => self.skip_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn skip_comment(&mut self) -> Result<(), SqlError> {
        let start = self.at;
        let mut depth = 0;
        loop {
            match (self.peek(0), self.peek(1)) {
                (b'/', b'*') => {
                    depth += 1;
                    self.at += 2;
                }
                (b'*', b'/') => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ if self.at >= self.bytes.len() => return Err(self.unterminated("/* comment", start)),
                _ => self.at += 1,
            }
        }
    }

    fn next(&mut self) -> Result<Tok, SqlError> {
        if self.at >= self.bytes.len() {
            return Ok(Tok::End);
        }
        let byte = self.peek(0);
        match (byte, self.peek(1)) {
            (b'\'', _) => self.string(self.at, self.plain_escapes),
            (b'e' | b'E', b'\'') => {
                let start = self.at;
                self.skip(1).string(start, true)
            }
            (b'n' | b'N', b'\'') => {
                let start = self.at;
                self.skip(1).string(start, false)
            }
            (b'b' | b'B', b'\'') => self.bits(false),
            (b'x' | b'X', b'\'') => self.bits(true),
            (b'u' | b'U', b'&') if self.peek(2) == b'\'' => self.unicode_string(),
            (b'u' | b'U', b'&') if self.peek(2) == b'"' => {
                let name = self.skip(2).quoted_identifier()?;
                let start = self.at;
                let escape = self.uescape()?;
                let name = unicode_escapes(&name, escape).map_err(|(error, _)| error.at(start as u32 + 1))?;
                Ok(Tok::Quoted(truncated(name)))
            }
            (b'"', _) => Ok(Tok::Quoted(truncated(self.quoted_identifier()?))),
            (b'$', b'0'..=b'9') => self.parameter(),
            (b'$', _) => self.dollar_string(),
            (b'0'..=b'9', _) | (b'.', b'0'..=b'9') => self.number(),
            (b'.', b'.') => Ok(self.punct(RANGE, 2)),
            (b':', b':') => Ok(self.punct(CAST, 2)),
            (b':', b'=') => Ok(self.punct(ASSIGN, 2)),
            (b',' | b'(' | b')' | b'[' | b']' | b'.' | b';' | b':', _) => Ok(self.punct(byte as char, 1)),
            _ if starts_identifier(byte) => Ok(self.word()),
            _ if OPERATOR_CHARS.contains(&byte) => Ok(self.operator()),
            _ => {
                let c = self.text[self.at..].chars().next().unwrap_or(' ');
                Err(syntax_error(self.text, self.at, self.at + c.len_utf8()))
            }
        }
    }

    fn skip(&mut self, bytes: usize) -> &mut Self {
        self.at += bytes;
        self
    }

    fn punct(&mut self, c: char, bytes: usize) -> Tok {
        self.at += bytes;
        Tok::Punct(c)
    }

    fn word(&mut self) -> Tok {
        let start = self.at;
        while continues_identifier(self.peek(0)) {
            self.at += 1;
        }
        Tok::Word(truncated(self.text[start..self.at].to_ascii_lowercase()))
    }

    fn operator(&mut self) -> Tok {
        let start = self.at;
        while OPERATOR_CHARS.contains(&self.peek(0)) {
            let comment = matches!((self.peek(0), self.peek(1)), (b'-', b'-') | (b'/', b'*'));
            if comment && self.at > start {
                break;
            }
            self.at += 1;
        }
        let lasting = |c: u8| b"~!@#%^&|`?".contains(&c);
        while self.at > start + 1
            && matches!(self.bytes[self.at - 1], b'+' | b'-')
            && !self.bytes[start..self.at - 1].iter().any(|&c| lasting(c))
        {
            self.at -= 1;
        }
        let op = &self.text[start..self.at];
        Tok::Op(if op == "!=" { "<>".to_string() } else { op.to_string() })
    }

    fn parameter(&mut self) -> Result<Tok, SqlError> {
        let start = self.at;
        self.at += 1;
        while self.peek(0).is_ascii_digit() {
            self.at += 1;
        }
        match self.text[start + 1..self.at].parse::<u16>() {
            Ok(number) if number > 0 => Ok(Tok::Param(number)),
            _ => {
                let text = format!("there is no parameter {}", &self.text[start..self.at]);
                Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, text).at(start as u32 + 1))
            }
        }
    }

    fn digits(&mut self) {
        while self.peek(0).is_ascii_digit() {
            self.at += 1;
        }
    }

    fn number(&mut self) -> Result<Tok, SqlError> {
        let start = self.at;
        let mut float = false;
        self.digits();
        if self.peek(0) == b'.' && self.peek(1) != b'.' {
            float = true;
            self.at += 1;
            self.digits();
        }
        let signed = matches!(self.peek(1), b'+' | b'-') && self.peek(2).is_ascii_digit();
        if matches!(self.peek(0), b'e' | b'E') && (signed || self.peek(1).is_ascii_digit()) {
            float = true;
            self.at += if signed { 2 } else { 1 };
            self.digits();
        }
        if starts_identifier(self.peek(0)) {
            let rest = self.bytes[self.at..].iter();
            let end = self.at + rest.take_while(|byte| continues_identifier(**byte)).count();
            let near = self.text.get(start..end).unwrap_or_default();
            let text = format!("trailing junk after numeric literal at or near \"{near}\"");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, text).at(start as u32 + 1));
        }
        let text = self.text[start..self.at].to_string();
        Ok(if float { Tok::Float(text) } else { Tok::Integer(text) })
    }

    fn quoted_identifier(&mut self) -> Result<String, SqlError> {
        let start = self.at;
        self.at += 1;
        let mut name = String::new();
        let mut from = self.at;
        loop {
            match self.peek(0) {
                _ if self.at >= self.bytes.len() => {
                    return Err(self.unterminated("quoted identifier", start));
                }
                b'"' if self.peek(1) == b'"' => {
                    name.push_str(&self.text[from..self.at + 1]);
                    self.at += 2;
                    from = self.at;
                }
                b'"' => break,
                _ => self.at += 1,
            }
        }
        name.push_str(&self.text[from..self.at]);
        self.at += 1;
        if name.is_empty() {
            let text = "zero-length delimited identifier at or near \"\"\"\"";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, text).at(start as u32 + 1));
        }
        Ok(name)
    }

    /// The bytes between quotes, `''` made `'`; literals on lines that follow are joined, as SQL wants.
    fn string(&mut self, start: usize, escapes: bool) -> Result<Tok, SqlError> {
        let mut value = Vec::new();
        self.at += 1;
        loop {
            match self.peek(0) {
                _ if self.at >= self.bytes.len() => return Err(self.unterminated("quoted string", start)),
                b'\'' if self.peek(1) == b'\'' => {
                    value.push(b'\'');
                    self.at += 2;
                }
                b'\'' => {
                    self.at += 1;
                    if !self.continues_string()? {
                        break;
                    }
                }
                b'\\' if escapes => self.escape(&mut value, start)?,
                _ => {
                    let rest = &self.bytes[self.at..];
                    let is_special = |byte: &u8| *byte == b'\'' || escapes && *byte == b'\\';
                    let plain = rest.iter().position(is_special).unwrap_or(rest.len());
                    value.extend_from_slice(&rest[..plain]);
                    self.at += plain;
                }
            }
        }
        if value.contains(&0) {
            return Err(bad_bytes(&[0]));
        }
        String::from_utf8(value).map(Tok::Str).map_err(|error| {
            let from = error.utf8_error().valid_up_to();
            bad_bytes(&error.as_bytes()[from..])
        })
    }

    /// After a closing quote: blanks with a line end in them and another quote go on with the literal.
    fn continues_string(&mut self) -> Result<bool, SqlError> {
        let closed = self.at;
        self.skip_blanks()?;
        let line_end = self.bytes[closed..self.at].iter().any(|b| matches!(b, b'\n' | b'\r'));
        if line_end && self.peek(0) == b'\'' {
            self.at += 1;
            return Ok(true);
        }
        self.at = closed;
        Ok(false)
    }

    fn escape(&mut self, value: &mut Vec<u8>, start: usize) -> Result<(), SqlError> {
        let kind = self.peek(1);
        self.at += 2;
        let (digits, radix) = match kind {
            b'b' => return push(value, 8),
            b'f' => return push(value, 12),
            b'n' => return push(value, b'\n'),
            b'r' => return push(value, b'\r'),
            b't' => return push(value, b'\t'),
            b'0'..=b'7' => {
                self.at -= 1;
                (self.count(3, 8), 8)
            }
            b'x' if self.count(2, 16) > 0 => (self.count(2, 16), 16),
            b'u' | b'U' => return self.unicode_escape(kind, value),
            0 => return Err(self.unterminated("quoted string", start)),
            other => return push(value, other),
        };
        let code = u32::from_str_radix(&self.text[self.at..self.at + digits], radix);
        self.at += digits;
        // As in PostgreSQL a byte has the last eight bits of what is written.
        push(value, code.unwrap_or_default() as u8)
    }

    /// The character of `\u0061` or `\U00000061`, the rest of it, and its other half.
    fn unicode_escape(&mut self, kind: u8, value: &mut Vec<u8>) -> Result<(), SqlError> {
        let begin = self.at - 2;
        let mut code = self.unicode_number(kind)?;
        if FIRST_HALF.contains(&code) {
            let begin = self.at;
            let mut end = begin + self.text[begin..].chars().next().map_or(0, char::len_utf8);
            let mut second = 0;
            if self.peek(0) == b'\\' && matches!(self.peek(1), b'u' | b'U') {
                self.at += 2;
                second = self.unicode_number(self.bytes[begin + 1])?;
                end = self.at;
            }
            if !SECOND_HALF.contains(&second) {
                return Err(self.bad_unicode("surrogate pair", begin, end));
            }
            code = joined(code, second);
        } else if SECOND_HALF.contains(&code) {
            return Err(self.bad_unicode("surrogate pair", begin, self.at));
        }
        let c = character(code).ok_or_else(|| self.bad_unicode("escape value", begin, self.at))?;
        value.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    fn unicode_number(&mut self, kind: u8) -> Result<u32, SqlError> {
        let digits = if kind == b'u' { 4 } else { 8 };
        let code = hexadecimal(&self.text[self.at..], digits).ok_or_else(|| {
            let hint = concat!("Unicode escapes must be \\uXX", "XX or \\UXX", "XX", "XX", "XX.");
            let error = SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid Unicode escape").hint(hint);
            error.at(self.at as u32 - 1)
        })?;
        self.at += digits;
        Ok(code)
    }

    fn bad_unicode(&self, what: &str, begin: usize, end: usize) -> SqlError {
        let near = match &self.text[begin..end] {
            "" => "at end of input".to_string(),
            text => format!("at or near \"{text}\""),
        };
        SqlError::new(SqlState::SYNTAX_ERROR, format!("invalid Unicode {what} {near}")).at(begin as u32 + 1)
    }

    fn count(&self, max: usize, radix: u32) -> usize {
        (0..max).take_while(|&i| (self.peek(i) as char).is_digit(radix)).count()
    }

    fn bits(&mut self, hex: bool) -> Result<Tok, SqlError> {
        let start = self.at;
        self.at += 1;
        match self.string(start, false)? {
            Tok::Str(digits) => Ok(Tok::Bits(digits, hex)),
            other => Ok(other),
        }
    }

    fn unicode_string(&mut self) -> Result<Tok, SqlError> {
        let start = self.at;
        self.at += 2;
        match self.string(start, false)? {
            Tok::Str(raw) => {
                let escape = self.uescape()?;
                unicode_escapes(&raw, escape)
                    .map(Tok::Str)
                    .map_err(|(error, at)| error.at((start + 3 + at) as u32 + 1))
            }
            other => Ok(other),
        }
    }

    /// `UESCAPE '!'` behind a literal: the character that begins its escapes.
    fn uescape(&mut self) -> Result<char, SqlError> {
        let behind = self.at;
        self.skip_blanks()?;
        let is_there =
            self.text.get(self.at..self.at + 7).is_some_and(|word| word.eq_ignore_ascii_case("uescape"));
        if !is_there {
            self.at = behind;
            return Ok('\\');
        }
        self.at += 7;
        self.skip_blanks()?;
        let start = self.at;
        let bad = |text: &str, start: usize| {
            let near = text[start..].split([' ', ';']).next().unwrap_or_default();
            let message = format!("invalid Unicode escape character at or near \"{near}\"");
            SqlError::new(SqlState::SYNTAX_ERROR, message).at(start as u32 + 1)
        };
        if self.peek(0) != b'\'' {
            return Err(bad(self.text, start));
        }
        let Tok::Str(given) = self.string(start, false)? else { return Err(bad(self.text, start)) };
        let mut letters = given.chars();
        match (letters.next(), letters.next()) {
            (Some(c), None) if !c.is_ascii_hexdigit() && !matches!(c, '+' | '\'' | '"' | ' ') => Ok(c),
            _ => Err(bad(self.text, start)),
        }
    }

    fn dollar_string(&mut self) -> Result<Tok, SqlError> {
        let start = self.at;
        let mut tag_end = self.at + 1;
        while self.bytes.get(tag_end).is_some_and(|&b| continues_identifier(b) && b != b'$') {
            tag_end += 1;
        }
        if self.bytes.get(tag_end) != Some(&b'$') {
            return Err(syntax_error(self.text, start, start + 1));
        }
        let tag = &self.text[start..=tag_end];
        let body = &self.text[tag_end + 1..];
        let Some(length) = body.find(tag) else {
            return Err(self.unterminated("dollar-quoted string", start));
        };
        self.at = tag_end + 1 + length + tag.len();
        Ok(Tok::Str(body[..length].to_string()))
    }
}

fn push(value: &mut Vec<u8>, byte: u8) -> Result<(), SqlError> {
    value.push(byte);
    Ok(())
}
