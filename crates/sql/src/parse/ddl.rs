//! CREATE and DROP.
use super::ast::{
    CreateIndex, CreateType, Ident, IndexColumn, Kind, ObjectKind, Owned, Path, RoleOption, SequenceOption,
    Statement, Storing,
};
use super::lexer::Tok;
use super::{Parser, Res};
use crate::error::{SqlError, SqlState};
use crate::missing;

impl Parser<'_> {
    pub(super) fn create(&mut self) -> Res<Statement> {
        self.expect_word("create")?;
        let replace = self.accept_words(&["or", "replace"]);
        self.accept_any(&["global", "local"]);
        let temporary = self.accept_any(&["temporary", "temp"]);
        let unlogged = !temporary && self.accept_word("unlogged");
        if self.accept_word("table") {
            let at = self.at;
            self.if_not_exists();
            let name = self.path()?;
            if unlogged && name.schema().is_some_and(|schema| schema == "pg_temp") {
                let message = "only temporary relations may be created in temporary schemas";
                return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message).at(name.pos + 1));
            }
            self.at = at;
            let mut statement = self.create_table(temporary)?;
            match &mut statement {
                Statement::CreateTable(table) => table.storing.unlogged = unlogged,
                Statement::CreateTableAs { into, .. } => into.storing.unlogged = unlogged,
                _ => {}
            }
            return Ok(statement);
        }
        if self.is_word("materialized") && !temporary && !replace {
            self.expect_words(&["materialized", "view"])?;
            let mut statement = self.create_as(false, true)?;
            if let Statement::CreateTableAs { into, .. } = &mut statement {
                into.storing.unlogged = unlogged;
            }
            return Ok(statement);
        }
        let recursive = self.accept_word("recursive");
        if self.accept_word("view") {
            if recursive {
                return Err(SqlError::unsupported(
                    "CREATE RECURSIVE VIEW",
                    "Use CREATE VIEW .. AS WITH RECURSIVE ..",
                ));
            }
            return self.create_view(replace, temporary);
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
        if let Some(missing) = self.missing("CREATE") {
            return Ok(missing);
        }
        let Tok::Word(word) = self.peek().clone() else { return self.error() };
        self.advance();
        match word.as_str() {
            "schema" => self.create_schema(),
            "type" => self.create_type(),
            "domain" => self.create_domain(),
            "role" | "user" | "group" => self.create_role(word == "user"),
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
            _ => {
                self.at -= 1;
                self.error()
            }
        }
    }

    /// A statement about a kind of object that is not there.
    pub(super) fn missing(&mut self, verb: &str) -> Option<Statement> {
        let refusal = missing::object(verb, |words| self.are_words(words))?;
        let refusal = match verb == "CREATE" && self.is_word("collation") {
            true => self.wrong_collation().unwrap_or(refusal),
            false => refusal,
        };
        self.skip_statement();
        Some(Statement::Unsupported(refusal))
    }

    pub(super) fn skip_statement(&mut self) {
        while !self.is(';') && self.peek() != &Tok::End {
            self.advance();
        }
    }

    fn create_view(&mut self, replace: bool, temporary: bool) -> Res<Statement> {
        let name = self.path()?;
        let columns = if self.is('(') { self.names_in_parens()? } else { Vec::new() };
        let mut options = if self.accept_word("with") { self.storage_options()? } else { Vec::new() };
        self.expect_word("as")?;
        let start = self.pos();
        let query = Box::new(self.query()?);
        let text = self.text_since(start);
        if self.accept_word("with") {
            let kind = if self.accept_word("local") { "local" } else { "cascaded" };
            self.accept_word("cascaded");
            self.expect_words(&["check", "option"])?;
            options.push(("check_option".to_string(), kind.to_string()));
        }
        Ok(Statement::CreateView { name, temporary, replace, columns, options, query, text })
    }

    pub(super) fn sequence_options(&mut self) -> Res<Vec<SequenceOption>> {
        let mut options: Vec<SequenceOption> = Vec::new();
        loop {
            let pos = self.pos();
            let Some(option) = self.sequence_option()? else { return Ok(options) };
            let kind = std::mem::discriminant(&option);
            let again = options.iter().any(|other| std::mem::discriminant(other) == kind);
            options.push(if again { SequenceOption::Again(pos) } else { option });
        }
    }

    /// One option of a sequence, SET in front of it or not; none if something else follows.
    pub(super) fn sequence_option(&mut self) -> Res<Option<SequenceOption>> {
        self.accept_word("set");
        Ok(Some(if self.accept_words(&["sequence", "name"]) {
            SequenceOption::Name(self.path()?)
        } else if self.accept_word("as") {
            SequenceOption::As(self.type_name()?)
        } else if self.accept_word("increment") {
            self.accept_word("by");
            SequenceOption::Increment(self.integer()?)
        } else if self.accept_word("start") {
            self.accept_word("with");
            SequenceOption::Start(self.integer()?)
        } else if self.accept_word("restart") {
            let with = self.accept_word("with");
            let number = with || matches!(self.peek(), Tok::Integer(_)) || self.is_op("-") || self.is_op("+");
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
        } else {
            return Ok(None);
        }))
    }

    fn create_index(&mut self) -> Res<Statement> {
        let unique = self.accept_word("unique");
        self.expect_word("index")?;
        let concurrently = self.accept_word("concurrently");
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
        let nulls_equal = self.nulls_clause();
        let mut storing = Storing::default();
        if self.accept_word("with") {
            storing.options = self.storage_options()?;
        }
        if self.accept_word("tablespace") {
            storing.tablespace = Some(self.name()?.text);
        }
        let filter = if self.accept_word("where") {
            let from = self.pos();
            let expr = self.expr()?;
            Some((expr, self.text_since(from)))
        } else {
            None
        };
        Ok(Statement::CreateIndex(Box::new(CreateIndex {
            name,
            if_not_exists,
            unique,
            nulls_equal,
            table,
            method,
            columns,
            include,
            filter,
            storing,
            concurrently,
        })))
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
        let mut collation = None;
        if let Kind::Collate(inner, name) = expr.kind {
            (expr, collation) = (*inner, Some(name));
        }
        Ok(IndexColumn { expr, text, collation, opclass, descending, nulls_first })
    }

    fn create_role(&mut self, user: bool) -> Res<Statement> {
        let at = self.pos();
        if self.is_any(&["current_user", "current_role", "session_user"]) {
            let name = self.label()?.text.to_uppercase();
            let message = format!("{name} cannot be used as a role name here");
            return Err(SqlError::new(SqlState::RESERVED_NAME, message).at(at + 1));
        }
        let name = self.label()?;
        if matches!(name.text.as_str(), "public" | "none") {
            let message = format!("role name \"{}\" is reserved", name.text);
            return Err(SqlError::new(SqlState::RESERVED_NAME, message).at(at + 1));
        }
        let options = self.role_options()?;
        Ok(Statement::CreateRole { name, user, options })
    }

    fn create_schema(&mut self) -> Res<Statement> {
        let if_not_exists = self.if_not_exists();
        let name = if self.is_word("authorization") { None } else { Some(self.name()?) };
        let owner = if self.accept_word("authorization") { Some(self.label()?.text) } else { None };
        let mut elements = Vec::new();
        while self.is_any(&["create", "grant"]) {
            if if_not_exists {
                let message = "CREATE SCHEMA IF NOT EXISTS cannot include schema elements";
                return Err(SqlError::refused_by_postgresql(message).at(self.pos() + 1));
            }
            let from = self.at;
            let element = if self.accept_word("grant") { self.grant(true, None) } else { self.create() }?;
            let may_stand = matches!(
                element,
                Statement::CreateTable(_)
                    | Statement::CreateIndex(_)
                    | Statement::CreateSequence { .. }
                    | Statement::CreateView { .. }
                    | Statement::Grant(_)
                    | Statement::Unsupported(_)
            );
            if !may_stand {
                self.at = from;
                return self.error();
            }
            elements.push(element);
        }
        Ok(Statement::CreateSchema { name, if_not_exists, owner, elements })
    }

    fn create_type(&mut self) -> Res<Statement> {
        let name = self.path()?;
        if self.is('(') || self.is(';') || self.peek() == &Tok::End {
            self.skip_statement();
            let hint = "Use an enum, or a domain over a built-in type.";
            let kind = CreateType::Other(SqlError::unsupported("CREATE TYPE of a base type", hint));
            return Ok(Statement::CreateType { name, kind });
        }
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
            let hint = "Use two columns, and a CHECK that the lower one is not above the other.";
            CreateType::Other(SqlError::unsupported("CREATE TYPE AS RANGE", hint))
        };
        Ok(Statement::CreateType { name, kind })
    }

    fn create_domain(&mut self) -> Res<Statement> {
        let name = self.path()?;
        self.accept_word("as");
        let base = self.type_name()?;
        let (mut constraints, mut collation) = (Vec::new(), None);
        loop {
            if self.accept_word("collate") {
                collation = Some(self.path()?);
            } else if let Some(constraint) = self.column_constraint()? {
                constraints.push(constraint);
            } else {
                return Ok(Statement::CreateDomain { name, base, collation, constraints });
            }
        }
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
                RoleOption::InRole(self.role_names()?)
            } else if self.accept_any(&["role", "user"]) {
                RoleOption::Members(self.role_names()?, false)
            } else if self.accept_word("admin") {
                RoleOption::Members(self.role_names()?, true)
            } else if self.accept_word("sysid") {
                self.integer()?;
                RoleOption::Number
            } else {
                return Ok(options);
            });
        }
    }

    pub(super) fn role_names(&mut self) -> Res<Vec<String>> {
        Ok(self.list(Parser::label)?.into_iter().map(|name| name.text).collect())
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
        if self.accept_words(&["owned", "by"]) {
            let roles = self.role_names()?;
            return Ok(Statement::Owned(Owned { roles, to: None, cascade: self.cascade() }));
        }
        if let Some(absent) = self.drop_absent() {
            return absent;
        }
        if let Some(missing) = self.missing("DROP") {
            return Ok(missing);
        }
        if self.is_any(&["column", "constraint"]) {
            return self.error();
        }
        let kind = self.object_kind()?;
        let concurrently = kind == ObjectKind::Index && self.accept_word("concurrently");
        let if_exists = self.if_exists();
        let names: Vec<Path> = if kind == ObjectKind::Role {
            let names = self.list(Parser::label)?;
            names.into_iter().map(|Ident { text, pos }| Path { parts: vec![text], pos }).collect()
        } else {
            self.paths()?
        };
        let cascade = self.cascade();
        Ok(Statement::Drop { kind, if_exists, names, cascade, concurrently })
    }
}

const ROLE_FLAGS: &[&str] =
    &["login", "superuser", "createdb", "createrole", "inherit", "replication", "bypassrls"];
