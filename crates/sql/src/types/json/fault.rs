//! What is wrong with a JSON text, and the line that it is in, as PostgreSQL tells them.

use super::{Reader, invalid};
use crate::error::SqlError;

impl<'a> Reader<'a> {
    /// The error with the line that it is in, up to byte `end`, where the token that begins at `start` was
    /// left.
    pub(super) fn told(&self, error: SqlError, start: usize, end: usize) -> SqlError {
        let before = &self.text[..start];
        let line = 1 + before.matches('\n').count();
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let mut from = line_start;
        while end - from >= 50 {
            from += self.text[from..].chars().next().map_or(1, char::len_utf8);
        }
        from = if from - line_start <= 3 { line_start } else { from };
        let prefix = if from > line_start { "..." } else { "" };
        let ends_line = matches!(self.text.as_bytes().get(end), None | Some(b'\n' | b'\r'));
        let suffix = if ends_line { "" } else { "..." };
        error.context(|| format!("JSON data, line {line}: {prefix}{}{suffix}", &self.text[from..end]))
    }

    /// A fault of the token that begins at `start`, at the place that is read.
    pub(super) fn bad_token(&self, start: usize, error: SqlError) -> SqlError {
        self.told(error, start, self.at)
    }

    /// What is next where something else was `expected`, or is no token at all.
    pub(super) fn unexpected(&mut self, expected: &str) -> SqlError {
        let next = self.peek();
        let rest = &self.text[self.at..];
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii();
        let found = match next {
            None => {
                let end = self.text.len();
                return self.told(invalid("The input string ended unexpectedly."), end, end);
            }
            Some(b'{' | b'}' | b'[' | b']' | b',' | b':') => &rest[..1],
            Some(b'"') => {
                let from = self.at;
                match self.string(None) {
                    Ok(()) => &self.text[from..self.at],
                    Err(error) => return error,
                }
            }
            Some(b'-' | b'0'..=b'9') => match self.number() {
                Ok(number) => number,
                Err(error) => return error,
            },
            Some(_) => {
                let end = rest.find(|c| !word(c)).unwrap_or(rest.len());
                let end = end.max(rest.chars().next().map_or(0, char::len_utf8));
                match &rest[..end] {
                    token @ ("true" | "false" | "null") => token,
                    token => {
                        let error = invalid(format!("Token \"{token}\" is invalid."));
                        return self.told(error, self.at, self.at + end);
                    }
                }
            }
        };
        let start = found.as_ptr().addr() - self.text.as_ptr().addr();
        let error = invalid(format!("Expected {expected}, but found \"{found}\"."));
        self.told(error, start, start + found.len())
    }

    /// What begins like a number and is none.
    pub(super) fn bad_number(&self, read: usize) -> SqlError {
        let rest = &self.text[self.at..];
        let more = rest[read..].find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii()));
        let end = more.map_or(rest.len(), |more| read + more);
        let error = invalid(format!("Token \"{}\" is invalid.", &rest[..end]));
        self.told(error, self.at, self.at + end)
    }

    /// The string that begins at `start` has no end.
    pub(super) fn unclosed(&self, start: usize) -> SqlError {
        let error = invalid(format!("Token \"{}\" is invalid.", &self.text[start..]));
        self.told(error, start, self.text.len())
    }
}
