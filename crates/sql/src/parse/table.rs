//! CREATE TABLE: its elements and what follows them.
use super::ast::OnCommit;
use super::ast::{ColumnDef, ConstraintKind, CreateTable, Into, Path, Statement, Storing, TableElement};
use super::lexer::Tok;
use super::{Parser, Res};
use crate::error::SqlError;
use crate::missing;

impl Parser<'_> {
    pub(super) fn create_table(&mut self, temporary: bool) -> Res<Statement> {
        let start = self.at;
        let if_not_exists = self.if_not_exists();
        let name = self.path()?;
        if self.is_word("partition") || self.is_word("of") {
            let (what, hint) = match self.is_word("of") {
                true => ("CREATE TABLE OF a type", "List the columns, or copy them with LIKE."),
                false => ("PARTITION OF", missing::PARTITIONS),
            };
            self.skip_statement();
            return Ok(Statement::Unsupported(SqlError::unsupported(what, hint)));
        }
        let names_only = self.is('(') && matches!(self.peek_at(2), Tok::Punct(',' | ')'));
        if self.is_any(&["as", "with", "on", "using", "tablespace"]) || names_only {
            self.at = start;
            return self.create_as(temporary, false);
        }
        self.expect('(')?;
        let elements = if self.is(')') { Vec::new() } else { self.list(Parser::table_element)? };
        self.expect(')')?;
        let mut table = CreateTable {
            name,
            temporary,
            if_not_exists,
            elements,
            storing: Storing::default(),
            on_commit: None,
            unsupported: None,
        };
        if self.accept_word("inherits") {
            self.names_in_parens()?;
            table.unsupported = Some(SqlError::unsupported("INHERITS", missing::INHERITANCE));
        }
        if self.accept_words(&["partition", "by"]) {
            self.skip_statement();
            table.unsupported = Some(SqlError::unsupported("PARTITION BY", missing::PARTITIONS));
        }
        self.table_tail(&mut table)?;
        Ok(Statement::CreateTable(Box::new(table)))
    }

    fn table_tail(&mut self, table: &mut CreateTable) -> Res<()> {
        loop {
            if self.accept_word("with") {
                table.storing.options = self.storage_options()?;
            } else if self.accept_words(&["without", "oids"]) {
            } else if self.accept_words(&["on", "commit"]) {
                table.on_commit = Some(if self.accept_word("drop") {
                    OnCommit::Drop
                } else if self.accept_words(&["delete", "rows"]) {
                    OnCommit::DeleteRows
                } else {
                    self.expect_words(&["preserve", "rows"])?;
                    OnCommit::Preserve
                });
            } else if self.accept_word("using") {
                table.storing.method = Some(self.name()?.text);
            } else if self.accept_word("tablespace") {
                table.storing.tablespace = Some(self.name()?.text);
            } else {
                return Ok(());
            }
        }
    }

    /// `(fillfactor = 100, autovacuum_enabled)`.
    pub(super) fn storage_options(&mut self) -> Res<Vec<(String, String)>> {
        self.expect('(')?;
        let options = self.list(|parser| {
            let mut name = parser.label()?.text;
            while parser.accept('.') {
                name = format!("{name}.{}", parser.label()?.text);
            }
            let mut value = String::new();
            if parser.accept_op("=") {
                value = match parser.peek().clone() {
                    Tok::Word(text) | Tok::Quoted(text) | Tok::Str(text) => text,
                    Tok::Integer(text) | Tok::Float(text) => text,
                    _ => return parser.error(),
                };
                parser.advance();
            }
            Ok((name, value))
        })?;
        self.expect(')')?;
        Ok(options)
    }

    pub(super) fn create_as(&mut self, temporary: bool, materialized: bool) -> Res<Statement> {
        let if_not_exists = self.if_not_exists();
        let name = self.path()?;
        let columns = if self.is('(') { self.names_in_parens()? } else { Vec::new() };
        let mut ignored = CreateTable {
            name: name.clone(),
            temporary,
            if_not_exists,
            elements: Vec::new(),
            storing: Storing::default(),
            on_commit: None,
            unsupported: None,
        };
        self.table_tail(&mut ignored)?;
        self.expect_word("as")?;
        let start = self.pos();
        let query = if self.is_word("execute") && !materialized {
            self.utility("execute")?
        } else {
            self.query().map(Statement::Query)?
        };
        let materialized = materialized.then(|| self.text_since(start));
        let with_data = self.with_data()?;
        let query = Box::new(query);
        let into = Into { name, temporary, on_commit: ignored.on_commit, storing: ignored.storing };
        Ok(Statement::CreateTableAs { into, columns, if_not_exists, query, with_data, materialized })
    }

    /// `WITH [NO] DATA`; with, if nothing is said.
    pub(super) fn with_data(&mut self) -> Res<bool> {
        if !self.accept_word("with") {
            return Ok(true);
        }
        let without = self.accept_word("no");
        self.expect_word("data")?;
        Ok(!without)
    }

    fn table_element(&mut self) -> Res<TableElement> {
        if self.accept_word("like") {
            let path = self.path()?;
            let mut options = Vec::new();
            while self.is_any(&["including", "excluding"]) {
                let including = self.is_word("including");
                self.advance();
                options.push((including, self.label()?.text));
            }
            return Ok(TableElement::Like(path, options));
        }
        if let Some(constraint) = self.table_constraint()? {
            return Ok(TableElement::Constraint(constraint));
        }
        Ok(TableElement::Column(self.column_def()?))
    }

    pub(super) fn column_def(&mut self) -> Res<ColumnDef> {
        let name = self.name()?;
        let type_name = self.type_name()?;
        let (collation, compression) = Default::default();
        let mut column = ColumnDef { name, type_name, collation, compression, constraints: Vec::new() };
        loop {
            let pos = self.pos();
            if self.accept_word("collate") {
                column.collation = Some(Path { pos, ..self.path()? });
            } else if self.accept_word("compression") {
                column.compression = Some(self.label()?.text);
            } else if self.accept_word("storage") {
                self.label()?;
            } else if let Some(constraint) = self.column_constraint()? {
                column.constraints.push(constraint);
            } else if self.is_word("not") && self.is_word_at(1, "valid") {
                self.advance();
                return self.error();
            } else {
                let last = column.constraints.last_mut();
                let is_check = last.as_ref().is_some_and(|it| matches!(it.kind, ConstraintKind::Check(..)));
                if !is_check && self.is_word("no") && self.is_word_at(1, "inherit") {
                    return self.error();
                }
                if !self.constraint_attribute(last)? {
                    return Ok(column);
                }
            }
        }
    }
}
