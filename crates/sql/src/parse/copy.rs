//! COPY, in its present form and the older ones that clients still send.

use super::ast::{Copy, CopySource, Statement};
use super::lexer::Tok;
use super::{Parser, Res};

impl Parser<'_> {
    pub(super) fn copy(&mut self) -> Res<Statement> {
        self.expect_word("copy")?;
        let mut options = Vec::new();
        if self.accept_word("binary") {
            options.push(("format".to_string(), vec!["binary".to_string()]));
        }
        let source = if self.is('(') {
            self.expect('(')?;
            let statement = self.statement()?;
            self.expect(')')?;
            CopySource::Query(Box::new(statement))
        } else {
            let name = self.path()?;
            let columns = if self.is('(') { self.names_in_parens()? } else { Vec::new() };
            CopySource::Table(name, columns)
        };
        let from = self.accept_word("from");
        if !from {
            self.expect_word("to")?;
        }
        let program = self.accept_word("program");
        let file = match self.peek().clone() {
            Tok::Word(word) if !program && matches!(word.as_str(), "stdin" | "stdout") => None,
            Tok::Str(name) => Some(name),
            _ => return self.error(),
        };
        self.advance();
        if self.accept_any(&["using"]) || self.is_word("delimiters") {
            self.expect_word("delimiters")?;
            options.push(("delimiter".to_string(), vec![self.string()?]));
        }
        self.accept_word("with");
        if self.is('(') {
            options.extend(self.copy_options()?);
        } else {
            self.old_copy_options(&mut options)?;
        }
        let filter = if self.accept_word("where") { Some(self.expr()?) } else { None };
        Ok(Statement::Copy(Box::new(Copy { source, from, file, options, filter })))
    }

    fn copy_options(&mut self) -> Res<Vec<(String, Vec<String>)>> {
        self.expect('(')?;
        let options = self.list(|parser| {
            let name = parser.label()?.text;
            let mut values = Vec::new();
            if parser.accept('(') {
                values = parser.names()?.into_iter().map(|name| name.text).collect();
                parser.expect(')')?;
            } else if parser.accept_op("*") {
                values.push("*".to_string());
            } else {
                let value = match parser.peek().clone() {
                    Tok::Word(text) | Tok::Quoted(text) | Tok::Str(text) | Tok::Integer(text) => Some(text),
                    _ => None,
                };
                if let Some(value) = value {
                    parser.advance();
                    values.push(value);
                }
            }
            Ok((name, values))
        })?;
        self.expect(')')?;
        Ok(options)
    }

    fn old_copy_options(&mut self, options: &mut Vec<(String, Vec<String>)>) -> Res<()> {
        loop {
            let mut add = |name: &str, values: Vec<String>| options.push((name.to_string(), values));
            if self.accept_word("csv") {
                add("format", vec!["csv".to_string()]);
            } else if self.accept_word("binary") {
                add("format", vec!["binary".to_string()]);
            } else if self.accept_word("header") {
                add("header", Vec::new());
            } else if self.accept_word("freeze") {
                add("freeze", Vec::new());
            } else if self.is_any(&["delimiter", "null", "quote", "escape", "encoding"]) {
                let name = self.label()?.text;
                self.accept_word("as");
                let value = self.string()?;
                add(&name, vec![value]);
            } else if self.accept_words(&["force", "quote"]) {
                let all = self.accept_op("*");
                let names = if all { Vec::new() } else { self.names()? };
                let names = names.into_iter().map(|name| name.text).collect();
                add("force_quote", if all { vec!["*".to_string()] } else { names });
            } else {
                return Ok(());
            }
        }
    }
}
