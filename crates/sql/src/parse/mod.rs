//! From text to parse tree, by PostgreSQL 15's grammar (gram.y).
//!
//! The parser is Liger's own, by recursive descent: what clients see of a grammar is not only which
//! statements it takes, but where its errors point, how operators bind (`NOT a = b`, `-a ^ b`, `a
//! OPERATOR(s.=) b`), which words may be names, and the text of defaults and checks as it stands in the
//! statement. General SQL parsers differ from PostgreSQL in each of these.
//!
//! 1. A string of several statements is parsed whole before any of them runs, as PostgreSQL does.
//! 2. A syntax error is 42601 `syntax error at or near "token"`, at the token's byte (counted from 1; the
//!    session turns bytes into characters).
//! 3. Nothing is looked up here.

mod absent;
mod alter;
pub(crate) mod ast;
mod constraint;
mod copy;
mod ddl;
mod dml;
mod expr;
mod forms;
mod from;
mod keywords;
mod lexer;
mod query;
mod table;
mod transaction;
mod types;
mod unicode;
mod utility;

use std::ops::ControlFlow;

use crate::error::{Severity, SqlError, SqlState};
pub(crate) use unicode::unistr;

use ast::{Expr, Ident, Path, Statement, TypeName};
pub(crate) use keywords::may_name_column;
pub(crate) use keywords::{keywords, needs_quotes};
pub(crate) use lexer::{Pos, Tok, Token, tokens};

pub(crate) type Res<T> = Result<T, SqlError>;

/// How deep expressions and queries may nest; beyond it 54001.
const DEPTH_MAX: usize = 500;
/// How high their trees may be: a chain (`1 + 1 + 1`) nests nowhere and is as high as it is long.
const HEIGHT_MAX: usize = 1000;

/// One statement of a text.
#[derive(Clone, Debug)]
pub(crate) struct Parsed {
    pub(crate) statement: Statement,
    /// Byte range without the semicolon.
    pub(crate) start: Pos,
    pub(crate) end: Pos,
    /// Highest parameter number that it mentions.
    pub(crate) parameters: u16,
}

/// 42601 at the text's bytes from `start` to `end`; at the end of the text if there are none.
pub(crate) fn syntax_error(text: &str, start: usize, end: usize) -> SqlError {
    let message = match text.get(start..end) {
        Some(near) if !near.is_empty() => format!("syntax error at or near \"{near}\""),
        _ => "syntax error at end of input".to_string(),
    };
    SqlError::new(SqlState::SYNTAX_ERROR, message).at(start as u32 + 1)
}

/// A text with `$n` for its literals, words in lower case and one blank for many: the same for statements
/// that differ in nothing else. A text that cannot be read stays as it is.
pub(crate) fn without_literals(sql: &str) -> String {
    use lexer::Tok;
    use std::fmt::Write as _;
    let Ok(tokens) = lexer::tokens(sql) else { return sql.to_string() };
    let given = tokens.iter().map(|token| if let Tok::Param(number) = token.tok { number } else { 0 });
    let (mut next, mut end, mut text) = (given.max().unwrap_or(0), 0, String::with_capacity(sql.len()));
    let count = tokens.len();
    for (at, token) in tokens.into_iter().enumerate() {
        let last = at + 2 >= count && token.tok == Tok::Punct(';');
        if token.tok == Tok::End || last {
            break;
        }
        if token.start > end && !text.is_empty() {
            text.push(' ');
        }
        end = token.end;
        match token.tok {
            Tok::Str(_) | Tok::Bits(..) | Tok::Integer(_) | Tok::Float(_) => {
                next += 1;
                let _ = write!(text, "${next}");
            }
            Tok::Word(word) => text.push_str(&word),
            _ => text.push_str(&sql[token.start as usize..token.end as usize]),
        }
    }
    text
}

/// All statements of a text, without the empty ones.
pub(crate) fn parse(text: &str) -> Res<Vec<Parsed>> {
    let mut parser = Parser::new(text)?;
    let mut statements = Vec::new();
    loop {
        while parser.accept(';') {}
        if parser.peek() == &Tok::End {
            return Ok(statements);
        }
        let start = parser.pos();
        let first = parser.at;
        let statement = parser.statement()?;
        if parser.peek() != &Tok::End && !parser.is(';') {
            return Err(parser.unexpected());
        }
        let end = parser.previous_end();
        let numbers = parser.tokens[first..parser.at].iter().map(|token| match token.tok {
            Tok::Param(number) => number,
            _ => 0,
        });
        let parameters = numbers.max().unwrap_or(0);
        statements.push(Parsed { statement, start, end, parameters });
    }
}

/// A text in whose plain literals backslashes escape (`standard_conforming_strings` is off), with an E in
/// front of those that have any: so it means the same everywhere, also where it is kept. And for each of them
/// where it begins, and the warning of it (22P06).
pub(crate) fn with_escapes(text: &str) -> (String, Vec<(Pos, SqlError)>) {
    // What cannot be cut is told of when it is parsed.
    let Ok(tokens) = lexer::tokens_as(text, true) else { return (text.to_string(), Vec::new()) };
    let (mut made, mut warnings, mut copied) = (String::with_capacity(text.len() + 8), Vec::new(), 0);
    for token in tokens.iter().filter(|token| matches!(token.tok, Tok::Str(_))) {
        let (start, end) = (token.start as usize, token.end as usize);
        let literal = &text[start..end];
        let Some(at) = literal.find('\\').filter(|_| literal.starts_with('\'')) else { continue };
        made.push_str(&text[copied..start]);
        made.push('E');
        copied = start;
        let (what, hint) = match literal.as_bytes().get(at + 1) {
            Some(b'\'') => (
                "nonstandard use of \\' in a string literal",
                "Use '' to write quotes in strings, or use the escape string syntax (E'...').",
            ),
            Some(b'\\') => (
                "nonstandard use of \\\\ in a string literal",
                "Use the escape string syntax for backslashes, e.g., E'\\\\'.",
            ),
            _ => (
                "nonstandard use of escape in a string literal",
                "Use the escape string syntax for escapes, e.g., E'\\r\\n'.",
            ),
        };
        let state = SqlState::NONSTANDARD_USE_OF_ESCAPE_CHARACTER;
        warnings.push((token.start, SqlError::notice(Severity::Warning, state, what).hint(hint)));
    }
    (made + &text[copied..], warnings)
}

/// A text that is one expression: a default, a check, an index expression as the catalog keeps it.
pub(crate) fn parse_expr(text: &str) -> Res<Expr> {
    let mut parser = Parser::new(text)?;
    let expr = parser.expr()?;
    parser.finish()?;
    Ok(expr)
}

/// A text that is a type's name, as in `'int[]'::regtype`.
pub(crate) fn parse_type(text: &str) -> Res<TypeName> {
    let mut parser = Parser::new(text)?;
    let name = parser.type_name()?;
    parser.finish()?;
    Ok(name)
}

/// A text that is a name, perhaps qualified, as in `'public."T"'::regclass`.
pub(crate) fn parse_path(text: &str) -> Res<Path> {
    let mut parser = Parser::new(text)?;
    let name = parser.path()?;
    parser.finish()?;
    Ok(name)
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// The height of what was parsed since somebody took it.
    height: usize,
}

#[cold]
fn too_deep() -> SqlError {
    let hint = "Simplify the statement: expressions and queries nest too deeply in it.";
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded").hint(hint)
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Res<Parser<'a>> {
        Ok(Parser { text, tokens: lexer::tokens(text)?, at: 0, depth: 0, height: 0 })
    }

    fn finish(&self) -> Res<()> {
        if self.peek() == &Tok::End { Ok(()) } else { Err(self.unexpected()) }
    }

    fn peek(&self) -> &Tok {
        &self.tokens[self.at].tok
    }

    fn peek_at(&self, ahead: usize) -> &Tok {
        &self.tokens[(self.at + ahead).min(self.tokens.len() - 1)].tok
    }

    fn pos(&self) -> Pos {
        self.tokens[self.at].start
    }

    fn previous_end(&self) -> Pos {
        self.tokens[self.at.saturating_sub(1)].end
    }

    /// The statement's text from there to the last token that was taken.
    fn text_since(&self, start: Pos) -> String {
        self.text[start as usize..self.previous_end() as usize].to_string()
    }

    fn advance(&mut self) {
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
    }

    fn unexpected(&self) -> SqlError {
        let token = &self.tokens[self.at];
        syntax_error(self.text, token.start as usize, token.end as usize)
    }

    fn error<T>(&self) -> Res<T> {
        Err(self.unexpected())
    }

    /// Guards against texts that nest too deeply for the stack.
    fn deeper<T>(&mut self, body: impl FnOnce(&mut Self) -> Res<T>) -> Res<T> {
        if self.depth >= DEPTH_MAX {
            return Err(too_deep());
        }
        self.depth += 1;
        let result = body(self);
        self.depth -= 1;
        result
    }

    /// Parses a chain: `first`, then `longer` puts links over it until it breaks. Guards against trees that
    /// are too high for the stack.
    fn chained<T>(
        &mut self,
        first: impl FnOnce(&mut Self) -> Res<T>,
        mut longer: impl FnMut(&mut Self, T) -> Res<ControlFlow<T, T>>,
    ) -> Res<T> {
        let beside = std::mem::take(&mut self.height);
        let mut made = first(self)?;
        let mut height = std::mem::take(&mut self.height) + 1;
        loop {
            made = match longer(self, made)? {
                ControlFlow::Continue(link) => link,
                ControlFlow::Break(made) => {
                    self.height = beside.max(height);
                    return Ok(made);
                }
            };
            height = height.max(std::mem::take(&mut self.height)) + 1;
            if height > HEIGHT_MAX {
                return Err(too_deep());
            }
        }
    }

    fn is(&self, punct: char) -> bool {
        self.peek() == &Tok::Punct(punct)
    }

    fn accept(&mut self, punct: char) -> bool {
        let is = self.is(punct);
        if is {
            self.advance();
        }
        is
    }

    fn expect(&mut self, punct: char) -> Res<()> {
        if self.accept(punct) { Ok(()) } else { self.error() }
    }

    fn is_op(&self, op: &str) -> bool {
        matches!(self.peek(), Tok::Op(name) if name == op)
    }

    fn accept_op(&mut self, op: &str) -> bool {
        let is = self.is_op(op);
        if is {
            self.advance();
        }
        is
    }

    fn is_word(&self, word: &str) -> bool {
        self.is_word_at(0, word)
    }

    fn is_word_at(&self, ahead: usize, word: &str) -> bool {
        matches!(self.peek_at(ahead), Tok::Word(text) if text == word)
    }

    fn is_any(&self, words: &[&str]) -> bool {
        matches!(self.peek(), Tok::Word(text) if words.contains(&text.as_str()))
    }

    /// Do these words stand next, in this order?
    fn are_words(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(i, word)| self.is_word_at(i, word))
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let is = self.is_word(word);
        if is {
            self.advance();
        }
        is
    }

    fn accept_words(&mut self, words: &[&str]) -> bool {
        let are = self.are_words(words);
        if are {
            words.iter().for_each(|_| self.advance());
        }
        are
    }

    fn expect_word(&mut self, word: &str) -> Res<()> {
        if self.accept_word(word) { Ok(()) } else { self.error() }
    }

    fn expect_words(&mut self, words: &[&str]) -> Res<()> {
        words.iter().try_for_each(|word| self.expect_word(word))
    }

    /// A name where `may` tells which unquoted words are allowed.
    fn name_if(&mut self, may: fn(&str) -> bool) -> Res<Ident> {
        let pos = self.pos();
        let text = match self.peek() {
            Tok::Quoted(text) => text.clone(),
            Tok::Word(text) if may(text) => text.clone(),
            _ => return self.error(),
        };
        self.advance();
        Ok(Ident { text, pos })
    }

    /// A column's, table's or alias's name.
    fn name(&mut self) -> Res<Ident> {
        self.name_if(keywords::may_name_column)
    }

    /// Any word: after a dot, after AS.
    fn label(&mut self) -> Res<Ident> {
        self.name_if(|_| true)
    }

    fn names(&mut self) -> Res<Vec<Ident>> {
        self.list(Parser::name)
    }

    /// `(a, b)`.
    fn names_in_parens(&mut self) -> Res<Vec<Ident>> {
        self.expect('(')?;
        let names = self.names()?;
        self.expect(')')?;
        Ok(names)
    }

    fn path(&mut self) -> Res<Path> {
        let first = self.name()?;
        self.path_after(first)
    }

    fn path_after(&mut self, first: Ident) -> Res<Path> {
        let mut path = Path { parts: vec![first.text], pos: first.pos };
        while self.accept('.') {
            path.parts.push(self.label()?.text);
        }
        Ok(path)
    }

    fn paths(&mut self) -> Res<Vec<Path>> {
        self.list(Parser::path)
    }

    /// One or more, with commas between.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Res<T>) -> Res<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.accept(',') {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn string(&mut self) -> Res<String> {
        let Tok::Str(text) = self.peek() else { return self.error() };
        let text = text.clone();
        self.advance();
        Ok(text)
    }

    fn integer(&mut self) -> Res<i64> {
        let negative = self.accept_op("-");
        if !negative {
            self.accept_op("+");
        }
        let Tok::Integer(text) = self.peek() else { return self.error() };
        let text = if negative { format!("-{text}") } else { text.clone() };
        let Ok(number) = text.parse() else { return self.error() };
        self.advance();
        Ok(number)
    }

    fn if_exists(&mut self) -> bool {
        self.accept_words(&["if", "exists"])
    }

    fn if_not_exists(&mut self) -> bool {
        self.accept_words(&["if", "not", "exists"])
    }

    /// CASCADE; RESTRICT is the default.
    fn cascade(&mut self) -> bool {
        !self.accept_word("restrict") && self.accept_word("cascade")
    }

    fn statement(&mut self) -> Res<Statement> {
        self.deeper(Parser::statement_inner)
    }

    fn statement_inner(&mut self) -> Res<Statement> {
        if self.is('(') {
            return self.query().map(Statement::Query);
        }
        let Tok::Word(word) = self.peek().clone() else { return self.error() };
        match word.as_str() {
            "select" | "values" | "table" => self.query().map(Statement::Query),
            "with" | "insert" | "update" | "delete" | "merge" => self.data_statement(),
            "create" => self.create(),
            "drop" => self.drop(),
            "alter" => self.alter(),
            "truncate" => self.truncate(),
            "begin" | "start" | "commit" | "end" | "rollback" | "abort" | "savepoint" | "release" => {
                self.transaction()
            }
            "set" => self.set(),
            "prepare" if self.is_word_at(1, "transaction") => self.transaction(),
            "copy" => self.copy(),
            _ => self.utility(&word),
        }
    }
}

#[cfg(test)]
mod tests;
