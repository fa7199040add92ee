//! CREATE and DROP.

use super::ast::{
    Action, ColumnDef, Constraint, ConstraintKind, CreateIndex, CreateTable, CreateType, Ident, IndexColumn,
    Kind, ObjectKind, Path, References, RoleOption, SequenceOption, Statement, TableElement,
};
use super::lexer::Tok;
use super::{Parser, Res};
use crate::error::SqlError;

impl Parser<'_> {
    pub(super) fn create(&mut self) -> Res<Statement> {
        self.expect_word("create")?;
        let replace = self.accept_words(&["or", "replace"]);
        self.accept_any(&["global", "local"]);
        let temporary = self.accept_any(&["temporary", "temp"]);
        self.accept_word("unlogged");
        if self.accept_word("table") {
            return self.create_table(temporary);
        }
        if self.is_word("materialized") {
            self.expect_words(&["materialized", "view"])?;
            return self.create_as(temporary, true);
        }
        let recursive = self.accept_word("recursive");
        if self.accept_word("view") {
            if recursive {
                return Err(SqlError::unsupported("CREATE RECURSIVE VIEW"));
            }
            return self.create_view(replace);
        }
        if self.accept_word("sequence") {
            let if_not_exists = self.if_not_exists();
            let name = self.path()?;
            let options = self.sequence_options()?;
            return Ok(Statement::CreateSequence { name, temporary, if_not_exists, options });
        }
        if self.is_word("unique") || self.is_word("index") {
            return self.create_index();
        }
        let Tok::Word(word) = self.peek().clone() else { return self.error() };
        self.advance();
        match word.as_str() {
            "schema" => self.create_schema(),
            "type" => self.create_type(),
            "domain" => self.create_domain(),
            "role" | "user" | "group" => {
                let name = self.label()?;
                let options = self.role_options()?;
                Ok(Statement::CreateRole { name, user: word == "user", options })
            }
            "database" => {
                let name = self.name()?;
                self.skip_statement();
                Ok(Statement::CreateDatabase { name })
            }
            "extension" => {
                let if_not_exists = self.if_not_exists();
                let name = self.name()?;
                self.skip_statement();
                Ok(Statement::CreateExtension { name, if_not_exists })
            }
            _ if replace || CREATED.contains(&word.as_str()) => {
                self.skip_statement();
                Ok(Statement::Unsupported(format!("CREATE {}", word.to_uppercase())))
            }
            _ => {
                self.at -= 1;
                self.error()
            }
        }
    }

    pub(super) fn skip_statement(&mut self) {
        while !self.is(';') && self.peek() != &Tok::End {
            self.advance();
        }
    }

    fn create_table(&mut self, temporary: bool) -> Res<Statement> {
        let start = self.at;
        let if_not_exists = self.if_not_exists();
        let name = self.path()?;
        if self.accept_words(&["partition", "of"]) || self.accept_word("of") {
            self.skip_statement();
            return Ok(Statement::Unsupported("PARTITION OF".to_string()));
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
            options: Vec::new(),
            on_commit: None,
            unsupported: None,
        };
        if self.accept_word("inherits") {
            self.names_in_parens()?;
            table.unsupported = Some("INHERITS");
        }
        if self.accept_words(&["partition", "by"]) {
            self.skip_statement();
            table.unsupported = Some("PARTITION BY");
        }
        self.table_tail(&mut table)?;
        Ok(Statement::CreateTable(Box::new(table)))
    }

    fn table_tail(&mut self, table: &mut CreateTable) -> Res<()> {
        loop {
            if self.accept_word("with") {
                table.options = self.storage_options()?;
            } else if self.accept_words(&["without", "oids"]) {
            } else if self.accept_words(&["on", "commit"]) {
                table.on_commit = Some(if self.accept_word("drop") {
                    "drop"
                } else if self.accept_words(&["delete", "rows"]) {
                    "delete"
                } else {
                    self.expect_words(&["preserve", "rows"])?;
                    "preserve"
                });
            } else if self.accept_word("using") || self.accept_word("tablespace") {
                self.name()?;
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

    fn create_as(&mut self, temporary: bool, materialized: bool) -> Res<Statement> {
        let if_not_exists = self.if_not_exists();
        let name = self.path()?;
        let columns = if self.is('(') { self.names_in_parens()? } else { Vec::new() };
        let mut ignored = CreateTable {
            name: name.clone(),
            temporary,
            if_not_exists,
            elements: Vec::new(),
            options: Vec::new(),
            on_commit: None,
            unsupported: None,
        };
        self.table_tail(&mut ignored)?;
        self.expect_word("as")?;
        let query = if self.is_word("execute") {
            self.utility("execute")?
        } else {
            self.query().map(Statement::Query)?
        };
        let mut with_data = true;
        if self.accept_word("with") {
            with_data = !self.accept_word("no");
            self.expect_word("data")?;
        }
        let query = Box::new(query);
        Ok(Statement::CreateTableAs {
            name,
            columns,
            temporary,
            if_not_exists,
            query,
            with_data,
            materialized,
        })
    }

    fn create_view(&mut self, replace: bool) -> Res<Statement> {
        let name = self.path()?;
        let columns = if self.is('(') { self.names_in_parens()? } else { Vec::new() };
        if self.accept_word("with") {
            self.storage_options()?;
        }
        self.expect_word("as")?;
        let start = self.pos();
        let query = Box::new(self.query()?);
        let text = self.text_since(start);
        if self.accept_word("with") {
            self.accept_any(&["cascaded", "local"]);
            self.expect_words(&["check", "option"])?;
            return Err(SqlError::unsupported("WITH CHECK OPTION"));
        }
        Ok(Statement::CreateView { name, replace, columns, query, text })
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
        let mut column = ColumnDef { name, type_name, collation: None, constraints: Vec::new() };
        loop {
            if self.accept_word("collate") {
                column.collation = Some(self.path()?);
            } else if self.accept_any(&["storage", "compression"]) {
                self.label()?;
            } else if let Some(constraint) = self.column_constraint()? {
                column.constraints.push(constraint);
            } else if !self.constraint_attribute(column.constraints.last_mut())? {
                return Ok(column);
            }
        }
    }

    /// DEFERRABLE and its kin after a constraint.
    fn constraint_attribute(&mut self, constraint: Option<&mut Constraint>) -> Res<bool> {
        let (deferrable, deferred, invalid) = if self.accept_words(&["not", "deferrable"]) {
            (Some(false), None, None)
        } else if self.accept_word("deferrable") {
            (Some(true), None, None)
        } else if self.accept_words(&["initially", "deferred"]) {
            (Some(true), Some(true), None)
        } else if self.accept_words(&["initially", "immediate"]) {
            (None, Some(false), None)
        } else if self.accept_words(&["not", "valid"]) {
            (None, None, Some(true))
        } else if self.accept_words(&["no", "inherit"]) {
            (None, None, None)
        } else {
            return Ok(false);
        };
        let Some(constraint) = constraint else { return self.error() };
        constraint.deferrable = deferrable.unwrap_or(constraint.deferrable);
        constraint.deferred = deferred.unwrap_or(constraint.deferred);
        constraint.not_valid = invalid.unwrap_or(constraint.not_valid);
        Ok(true)
    }

    fn constraint_name(&mut self) -> Res<Option<String>> {
        if self.accept_word("constraint") { Ok(Some(self.name()?.text)) } else { Ok(None) }
    }

    fn column_constraint(&mut self) -> Res<Option<Constraint>> {
        let start = self.at;
        let name = self.constraint_name()?;
        let pos = self.pos();
        let kind = if self.accept_words(&["not", "null"]) {
            ConstraintKind::NotNull
        } else if self.accept_word("null") {
            ConstraintKind::Null
        } else if self.accept_word("default") {
            let from = self.pos();
            let expr = self.simple_expr()?;
            ConstraintKind::Default(expr, self.text_since(from))
        } else if self.accept_words(&["primary", "key"]) {
            self.index_parameters()?;
            ConstraintKind::PrimaryKey(Vec::new())
        } else if self.accept_word("unique") {
            self.nulls_clause()?;
            self.index_parameters()?;
            ConstraintKind::Unique(Vec::new())
        } else if self.accept_word("check") {
            self.check()?
        } else if self.accept_word("references") {
            ConstraintKind::ForeignKey(Vec::new(), self.references()?)
        } else if self.accept_word("generated") {
            self.generated()?
        } else {
            self.at = start;
            return if name.is_some() { self.error() } else { Ok(None) };
        };
        let (deferrable, deferred, not_valid) = (false, false, false);
        Ok(Some(Constraint { name, kind, deferrable, deferred, not_valid, pos }))
    }

    fn nulls_clause(&mut self) -> Res<()> {
        if self.accept_words(&["nulls", "not", "distinct"]) {
            return Err(SqlError::unsupported("NULLS NOT DISTINCT"));
        }
        self.accept_words(&["nulls", "distinct"]);
        Ok(())
    }

    fn index_parameters(&mut self) -> Res<()> {
        if self.accept_word("include") {
            self.names_in_parens()?;
        }
        if self.accept_word("with") {
            self.storage_options()?;
        }
        if self.accept_words(&["using", "index", "tablespace"]) {
            self.name()?;
        }
        Ok(())
    }

    fn check(&mut self) -> Res<ConstraintKind> {
        self.expect('(')?;
        let from = self.pos();
        let expr = self.expr()?;
        let text = self.text_since(from);
        self.expect(')')?;
        Ok(ConstraintKind::Check(expr, text))
    }

    fn generated(&mut self) -> Res<ConstraintKind> {
        let always = self.accept_word("always");
        if !always {
            self.expect_words(&["by", "default"])?;
        }
        self.expect_word("as")?;
        if self.accept_word("identity") {
            let options = if self.accept('(') {
                let options = self.sequence_options()?;
                self.expect(')')?;
                options
            } else {
                Vec::new()
            };
            return Ok(ConstraintKind::Identity { always, options });
        }
        self.expect('(')?;
        let from = self.pos();
        let expr = self.expr()?;
        let text = self.text_since(from);
        self.expect(')')?;
        self.expect_word("stored")?;
        Ok(ConstraintKind::Generated(expr, text))
    }

    fn references(&mut self) -> Res<References> {
        let table = self.path()?;
        let columns = if self.is('(') { self.names_in_parens()? } else { Vec::new() };
        let (on_delete, on_update) = (Action::Nothing, Action::Nothing);
        let mut references = References { table, columns, on_delete, on_update, match_full: false };
        loop {
            if self.accept_word("match") {
                references.match_full = self.accept_word("full");
                if !references.match_full {
                    self.expect_word("simple")?;
                }
            } else if self.accept_words(&["on", "delete"]) {
                references.on_delete = self.action()?;
            } else if self.accept_words(&["on", "update"]) {
                references.on_update = self.action()?;
            } else {
                return Ok(references);
            }
        }
    }

    fn action(&mut self) -> Res<Action> {
        if self.accept_words(&["no", "action"]) {
            Ok(Action::Nothing)
        } else if self.accept_word("restrict") {
            Ok(Action::Restrict)
        } else if self.accept_word("cascade") {
            Ok(Action::Cascade)
        } else if self.accept_words(&["set", "null"]) {
            Ok(Action::SetNull)
        } else {
            self.expect_words(&["set", "default"])?;
            Ok(Action::SetDefault)
        }
    }

    pub(super) fn table_constraint(&mut self) -> Res<Option<Constraint>> {
        let start = self.at;
        let name = self.constraint_name()?;
        let pos = self.pos();
        let kind = if self.accept_words(&["primary", "key"]) {
            match self.using_index(true)? {
                Some(kind) => kind,
                None => ConstraintKind::PrimaryKey(self.names_in_parens()?),
            }
        } else if self.is_word("unique") {
            self.advance();
            self.nulls_clause()?;
            match self.using_index(false)? {
                Some(kind) => kind,
                None => ConstraintKind::Unique(self.names_in_parens()?),
            }
        } else if self.accept_word("check") {
            self.check()?
        } else if self.accept_words(&["foreign", "key"]) {
            let columns = self.names_in_parens()?;
            self.expect_word("references")?;
            ConstraintKind::ForeignKey(columns, self.references()?)
        } else if self.is_word("exclude") && name.is_some() {
            return Err(SqlError::unsupported("EXCLUDE constraints"));
        } else {
            self.at = start;
            return if name.is_some() { self.error() } else { Ok(None) };
        };
        self.index_parameters()?;
        let (deferrable, deferred, not_valid) = (false, false, false);
        let mut constraint = Constraint { name, kind, deferrable, deferred, not_valid, pos };
        while self.constraint_attribute(Some(&mut constraint))? {}
        Ok(Some(constraint))
    }

    fn using_index(&mut self, primary: bool) -> Res<Option<ConstraintKind>> {
        if !self.accept_words(&["using", "index"]) {
            return Ok(None);
        }
        Ok(Some(ConstraintKind::UsingIndex { primary, index: self.name()? }))
    }

    pub(super) fn sequence_options(&mut self) -> Res<Vec<SequenceOption>> {
        let mut options = Vec::new();
        loop {
            options.push(if self.accept_word("as") {
                SequenceOption::As(self.type_name()?)
            } else if self.accept_word("increment") {
                self.accept_word("by");
                SequenceOption::Increment(self.integer()?)
            } else if self.accept_word("start") {
                self.accept_word("with");
                SequenceOption::Start(self.integer()?)
            } else if self.accept_word("restart") {
                let with = self.accept_word("with");
                let number = with || matches!(self.peek(), Tok::Integer(_));
                SequenceOption::Restart(if number { Some(self.integer()?) } else { None })
            } else if self.accept_word("minvalue") {
                SequenceOption::Min(Some(self.integer()?))
            } else if self.accept_word("maxvalue") {
                SequenceOption::Max(Some(self.integer()?))
            } else if self.accept_words(&["no", "minvalue"]) {
                SequenceOption::Min(None)
            } else if self.accept_words(&["no", "maxvalue"]) {
                SequenceOption::Max(None)
            } else if self.accept_words(&["no", "cycle"]) {
                SequenceOption::Cycle(false)
            } else if self.accept_word("cycle") {
                SequenceOption::Cycle(true)
            } else if self.accept_word("cache") {
                SequenceOption::Cache(self.integer()?)
            } else if self.accept_words(&["owned", "by"]) {
                let none = self.accept_word("none");
                SequenceOption::OwnedBy(if none { None } else { Some(self.path()?) })
            } else if self.accept_word("set") {
                continue;
            } else {
                return Ok(options);
            });
        }
    }

    fn create_index(&mut self) -> Res<Statement> {
        let unique = self.accept_word("unique");
        self.expect_word("index")?;
        self.accept_word("concurrently");
        let if_not_exists = self.if_not_exists();
        let name = if self.is_word("on") { None } else { Some(self.name()?) };
        self.expect_word("on")?;
        self.accept_word("only");
        let table = self.path()?;
        let method = if self.accept_word("using") { self.name()?.text } else { "btree".to_string() };
        self.expect('(')?;
        let columns = self.list(Parser::index_column)?;
        self.expect(')')?;
        let include = if self.accept_word("include") { self.names_in_parens()? } else { Vec::new() };
        self.nulls_clause()?;
        if self.accept_word("with") {
            self.storage_options()?;
        }
        if self.accept_word("tablespace") {
            self.name()?;
        }
        let filter = if self.accept_word("where") {
            let from = self.pos();
            let expr = self.expr()?;
            Some((expr, self.text_since(from)))
        } else {
            None
        };
        let index = CreateIndex { name, if_not_exists, unique, table, method, columns, include, filter };
        Ok(Statement::CreateIndex(Box::new(index)))
    }

    fn index_column(&mut self) -> Res<IndexColumn> {
        let from = self.pos();
        let mut expr = self.expr_above(super::expr::PRIMARY)?;
        let text = match &expr.kind {
            Kind::Column(parts) if parts.len() == 1 => None,
            _ => Some(self.text_since(from)),
        };
        if self.accept_word("collate") {
            let name = self.path()?;
            expr = super::expr::node(from, Kind::Collate(Box::new(expr), name));
        }
        let opclass = match self.peek() {
            Tok::Word(word) if !matches!(word.as_str(), "asc" | "desc" | "nulls") => {
                Some(self.path()?.last().to_string())
            }
            _ => None,
        };
        let descending = !self.accept_word("asc") && self.accept_word("desc");
        let mut nulls_first = None;
        if self.accept_word("nulls") {
            nulls_first = Some(self.is_word("first"));
            if !self.accept_any(&["first", "last"]) {
                return self.error();
            }
        }
        if let Kind::Collate(inner, _) = expr.kind {
            expr = *inner;
        }
        Ok(IndexColumn { expr, text, opclass, descending, nulls_first })
    }

    fn create_schema(&mut self) -> Res<Statement> {
        let if_not_exists = self.if_not_exists();
        let name = if self.is_word("authorization") { None } else { Some(self.name()?) };
        let owner = if self.accept_word("authorization") { Some(self.label()?.text) } else { None };
        Ok(Statement::CreateSchema { name, if_not_exists, owner })
    }

    fn create_type(&mut self) -> Res<Statement> {
        let name = self.path()?;
        self.expect_word("as")?;
        let kind = if self.accept_word("enum") {
            self.expect('(')?;
            let labels = if self.is(')') { Vec::new() } else { self.list(Parser::string)? };
            self.expect(')')?;
            CreateType::Enum(labels)
        } else if self.is('(') {
            self.expect('(')?;
            let fields = self.list(|parser| Ok((parser.name()?, parser.type_name()?)))?;
            self.expect(')')?;
            CreateType::Composite(fields)
        } else {
            self.skip_statement();
            CreateType::Other("CREATE TYPE AS RANGE")
        };
        Ok(Statement::CreateType { name, kind })
    }

    fn create_domain(&mut self) -> Res<Statement> {
        let name = self.path()?;
        self.accept_word("as");
        let base = self.type_name()?;
        let mut constraints = Vec::new();
        while let Some(constraint) = self.column_constraint()? {
            constraints.push(constraint);
        }
        Ok(Statement::CreateDomain { name, base, constraints })
    }

    pub(super) fn role_options(&mut self) -> Res<Vec<RoleOption>> {
        self.accept_word("with");
        let mut options = Vec::new();
        loop {
            let Tok::Word(word) = self.peek().clone() else { return Ok(options) };
            if let Some((name, positive)) = ROLE_FLAGS.iter().find_map(|&name| match word.as_str() {
                w if w == name => Some((name, true)),
                w if w.strip_prefix("no") == Some(name) => Some((name, false)),
                _ => None,
            }) {
                self.advance();
                options.push(RoleOption::Flag(name, positive));
                continue;
            }
            self.accept_word("encrypted");
            options.push(if self.accept_word("password") {
                RoleOption::Password(if self.accept_word("null") { None } else { Some(self.string()?) })
            } else if self.accept_words(&["connection", "limit"]) {
                RoleOption::ConnectionLimit(self.integer()?)
            } else if self.accept_words(&["valid", "until"]) {
                RoleOption::ValidUntil(self.string()?)
            } else if self.accept_words(&["in", "role"]) || self.accept_words(&["in", "group"]) {
                RoleOption::InRole(self.list(Parser::label)?.into_iter().map(|name| name.text).collect())
            } else {
                return Ok(options);
            });
        }
    }

    pub(super) fn object_kind(&mut self) -> Res<ObjectKind> {
        if self.accept_words(&["materialized", "view"]) {
            return Ok(ObjectKind::MaterializedView);
        }
        let Tok::Word(word) = self.peek() else { return self.error() };
        let kind = match word.as_str() {
            "table" => ObjectKind::Table,
            "view" => ObjectKind::View,
            "index" => ObjectKind::Index,
            "sequence" => ObjectKind::Sequence,
            "type" => ObjectKind::Type,
            "domain" => ObjectKind::Domain,
            "schema" => ObjectKind::Schema,
            "role" | "user" | "group" => ObjectKind::Role,
            "database" => ObjectKind::Database,
            "column" => ObjectKind::Column,
            "constraint" => ObjectKind::Constraint,
            "extension" => ObjectKind::Extension,
            "function" | "procedure" | "aggregate" => ObjectKind::Function,
            "trigger" => ObjectKind::Trigger,
            _ => return self.error(),
        };
        self.advance();
        Ok(kind)
    }

    pub(super) fn drop(&mut self) -> Res<Statement> {
        self.expect_word("drop")?;
        if self.is_any(&["owned", "policy", "rule", "server", "publication", "subscription", "tablespace"]) {
            let Tok::Word(word) = self.peek().clone() else { return self.error() };
            self.skip_statement();
            return Ok(Statement::Unsupported(format!("DROP {}", word.to_uppercase())));
        }
        let kind = self.object_kind()?;
        self.accept_word("concurrently");
        let if_exists = self.if_exists();
        let names: Vec<Path> = if kind == ObjectKind::Role {
            let names = self.list(Parser::label)?;
            names.into_iter().map(|Ident { text, pos }| Path { parts: vec![text], pos }).collect()
        } else {
            self.paths()?
        };
        if matches!(kind, ObjectKind::Function | ObjectKind::Trigger) {
            self.skip_statement();
        }
        let cascade = self.cascade();
        Ok(Statement::Drop { kind, if_exists, names, cascade })
    }
}

const CREATED: &[&str] = &[
    "function",
    "procedure",
    "trigger",
    "rule",
    "aggregate",
    "operator",
    "cast",
    "collation",
    "policy",
    "publication",
    "subscription",
    "server",
    "foreign",
    "statistics",
    "tablespace",
    "event",
    "language",
    "conversion",
    "access",
    "text",
    "transform",
    "constraint",
];

const ROLE_FLAGS: &[&str] =
    &["login", "superuser", "createdb", "createrole", "inherit", "replication", "bypassrls"];
