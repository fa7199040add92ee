//! The other statements: SHOW, PREPARE, cursors, EXPLAIN, GRANT, LOCK, VACUUM and their kin.

use super::ast::{FetchCount, Grant, Ident, Maintenance, ObjectKind, Owned, Path, Rebuild, Statement};
use super::lexer::{Tok, Token};
use super::{Parser, Res};
use crate::error::{SqlError, SqlState};
use crate::missing;

impl Parser<'_> {
    pub(super) fn utility(&mut self, word: &str) -> Res<Statement> {
        if word == "comment" {
            return self.comment();
        }
        self.advance();
        Ok(match word {
            "show" => Statement::Show(self.setting_name()?),
            "reset" => {
                Statement::Reset(if self.accept_word("all") { None } else { Some(self.setting_name()?) })
            }
            "discard" => {
                if !self.is_any(&["all", "plans", "sequences", "temp", "temporary"]) {
                    return self.error();
                }
                Statement::Discard(self.label()?.text)
            }
            "prepare" => self.prepare()?,
            "execute" => {
                let name = self.name()?;
                let args = if self.accept('(') {
                    let args = self.exprs()?;
                    self.expect(')')?;
                    args
                } else {
                    Vec::new()
                };
                Statement::Execute { name, args }
            }
            "deallocate" => {
                self.accept_word("prepare");
                Statement::Deallocate(if self.accept_word("all") { None } else { Some(self.name()?) })
            }
            "declare" => self.declare()?,
            "fetch" | "move" => self.fetch(word == "move")?,
            "close" => Statement::Close(if self.accept_word("all") { None } else { Some(self.name()?) }),
            "explain" => self.explain()?,
            "grant" | "revoke" => self.grant(word == "grant", None)?,
            "lock" => self.lock()?,
            "listen" => Statement::Listen(self.name()?),
            "unlisten" => Statement::Unlisten(if self.accept_op("*") { None } else { Some(self.name()?) }),
            "notify" => {
                let name = self.name()?;
                let payload = if self.accept(',') { Some(self.string()?) } else { None };
                Statement::Notify(name, payload)
            }
            "do" => self.do_block()?,
            "vacuum" => self.maintenance("VACUUM")?,
            "analyze" | "analyse" => self.maintenance("ANALYZE")?,
            "cluster" => self.cluster()?,
            "checkpoint" => {
                Statement::Maintenance(Maintenance { tag: "CHECKPOINT", ..Maintenance::default() })
            }
            "reindex" => self.reindex()?,
            "reassign" => {
                self.expect_words(&["owned", "by"])?;
                let roles = self.role_names()?;
                self.expect_word("to")?;
                Statement::Owned(Owned { roles, to: Some(self.label()?.text), cascade: false })
            }
            "refresh" => {
                self.expect_words(&["materialized", "view"])?;
                let concurrently = self.accept_word("concurrently");
                let name = self.path()?;
                Statement::Refresh { name, concurrently, with_data: self.with_data()? }
            }
            "load" => Statement::Load(self.string()?),
            "call" | "security" | "import" => {
                self.skip_statement();
                let hint = match word {
                    "call" => missing::FUNCTIONS,
                    "security" => "Use GRANT and REVOKE.",
                    _ => missing::FOREIGN_DATA,
                };
                Statement::Unsupported(SqlError::unsupported(word.to_uppercase(), hint))
            }
            _ => {
                self.at -= 1;
                return self.error();
            }
        })
    }

    fn reindex(&mut self) -> Res<Statement> {
        let mut flags = if self.is('(') { self.storage_or_flags()? } else { Vec::new() };
        let word = self.label()?.text;
        let system = word == "system";
        let kind = match word.as_str() {
            "index" => ObjectKind::Index,
            "table" => ObjectKind::Table,
            "schema" => ObjectKind::Schema,
            "database" | "system" => ObjectKind::Database,
            _ => {
                self.at -= 1;
                return self.error();
            }
        };
        flags.retain(|(name, value)| name == "concurrently" && !matches!(value.as_str(), "false" | "off"));
        let concurrently = self.accept_word("concurrently") || !flags.is_empty();
        let name = Some(self.path()?);
        Ok(Statement::Rebuild(Rebuild { tag: "REINDEX", kind, name, index: None, system, concurrently }))
    }

    fn cluster(&mut self) -> Res<Statement> {
        if self.is('(') {
            self.storage_or_flags()?;
        }
        self.accept_word("verbose");
        let name = if self.peek() == &Tok::End || self.is(';') { None } else { Some(self.path()?) };
        let mut index = if self.accept_word("using") { Some(self.name()?) } else { None };
        let mut name = name;
        if let (Some(path), None, true) = (&name, &index, self.accept_word("on")) {
            // The index first: an older form.
            index = Some(Ident { text: path.last().to_string(), pos: path.pos });
            name = Some(self.path()?);
        }
        let (kind, system, concurrently) = (ObjectKind::Table, false, false);
        Ok(Statement::Rebuild(Rebuild { tag: "CLUSTER", kind, name, index, system, concurrently }))
    }

    fn maintenance(&mut self, tag: &'static str) -> Res<Statement> {
        let listed = self.at;
        let mut options = if self.is('(') { self.storage_or_flags()? } else { Vec::new() };
        if options.is_empty() {
            while self.is_any(&["full", "freeze", "verbose", "analyze", "analyse"]) {
                options.push((self.label()?.text, String::new()));
            }
        }
        let known: &[&str] = match tag {
            "ANALYZE" => &["verbose", "skip_locked"],
            _ => &[
                "full",
                "freeze",
                "verbose",
                "analyze",
                "analyse",
                "disable_page_skipping",
                "skip_locked",
                "index_cleanup",
                "process_toast",
                "truncate",
                "parallel",
            ],
        };
        let unknown = options.iter().find(|(name, _)| !known.contains(&name.as_str()));
        if let Some((name, _)) = unknown {
            let message = format!("unrecognized {tag} option \"{name}\"");
            let is_it = |token: &Token| matches!(&token.tok, Tok::Word(word) if word == name);
            let at =
                self.tokens[listed..].iter().find(|token| is_it(token)).map_or(0, |token| token.start + 1);
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(at));
        }
        let is_on = |name: &str| {
            let last = options.iter().rev().find(|(known, _)| known == name);
            last.is_some_and(|(_, value)| !matches!(value.as_str(), "false" | "off" | "0"))
        };
        let analyzes = tag == "ANALYZE" || is_on("analyze") || is_on("analyse");
        let verbose = is_on("verbose");
        let tables = match self.peek() {
            Tok::Word(_) | Tok::Quoted(_) => self.list(|parser| {
                let path = parser.path()?;
                let columns = if parser.is('(') { parser.names_in_parens()? } else { Vec::new() };
                Ok((path, columns))
            })?,
            _ => Vec::new(),
        };
        Ok(Statement::Maintenance(Maintenance { tag, tables, analyzes, verbose }))
    }

    /// `(analyze, format json)`: names with values of any form.
    fn storage_or_flags(&mut self) -> Res<Vec<(String, String)>> {
        self.expect('(')?;
        let flags = self.list(|parser| {
            let name = parser.label()?.text;
            let value = match parser.peek().clone() {
                Tok::Word(text) | Tok::Str(text) | Tok::Integer(text) => {
                    parser.advance();
                    text
                }
                _ => String::new(),
            };
            Ok((name, value))
        })?;
        self.expect(')')?;
        Ok(flags)
    }

    fn prepare(&mut self) -> Res<Statement> {
        let name = self.name()?;
        let types = if self.accept('(') {
            let types = self.list(Parser::type_name)?;
            self.expect(')')?;
            types
        } else {
            Vec::new()
        };
        self.expect_word("as")?;
        let start = self.pos();
        let statement = Box::new(self.statement()?);
        let text = (start, self.previous_end());
        Ok(Statement::Prepare { name, types, statement, text })
    }

    fn declare(&mut self) -> Res<Statement> {
        let name = self.name()?;
        let (mut binary, mut scroll, mut hold, mut insensitive) = (false, None, false, false);
        loop {
            if self.accept_word("binary") {
                binary = true;
            } else if self.accept_word("insensitive") {
                insensitive = true;
            } else if self.accept_word("asensitive") {
            } else if self.accept_words(&["no", "scroll"]) {
                scroll = Some(false);
            } else if self.accept_word("scroll") {
                scroll = Some(true);
            } else {
                break;
            }
        }
        self.expect_word("cursor")?;
        if self.accept_words(&["with", "hold"]) {
            hold = true;
        } else {
            self.accept_words(&["without", "hold"]);
        }
        self.expect_word("for")?;
        let query = Box::new(self.query()?);
        Ok(Statement::Declare { name, binary, scroll, hold, insensitive, query })
    }

    fn fetch(&mut self, moved: bool) -> Res<Statement> {
        let numbered = |parser: &mut Self, sign: i64| -> Res<FetchCount> {
            if parser.accept_word("all") {
                return Ok(if sign > 0 { FetchCount::All } else { FetchCount::BackwardAll });
            }
            match parser.peek() {
                Tok::Integer(_) | Tok::Op(_) => Ok(FetchCount::Count(sign * parser.integer()?)),
                _ => Ok(FetchCount::Count(sign)),
            }
        };
        let count = if self.accept_word("forward") {
            numbered(self, 1)?
        } else if self.accept_word("backward") {
            numbered(self, -1)?
        } else if self.accept_word("next") {
            FetchCount::Count(1)
        } else if self.accept_word("prior") {
            FetchCount::Count(-1)
        } else if self.accept_word("first") {
            FetchCount::Absolute(1)
        } else if self.accept_word("last") {
            FetchCount::Absolute(-1)
        } else if self.accept_word("absolute") {
            FetchCount::Absolute(self.integer()?)
        } else if self.accept_word("relative") {
            FetchCount::Relative(self.integer()?)
        } else {
            numbered(self, 1)?
        };
        self.accept_any(&["from", "in"]);
        Ok(Statement::Fetch { name: self.name()?, count, moved })
    }

    fn explain(&mut self) -> Res<Statement> {
        let mut options = Vec::new();
        if self.is('(')
            && !matches!(self.peek_at(1), Tok::Word(w) if w == "select" || w == "values" || w == "with")
        {
            options = self.storage_or_flags()?;
        }
        while self.is_any(&["analyze", "analyse", "verbose"]) {
            options.push((self.label()?.text, String::new()));
        }
        let statement = Box::new(self.statement()?);
        Ok(Statement::Explain { options, statement })
    }

    pub(super) fn grant(
        &mut self,
        grant: bool,
        default: Option<(Vec<String>, Vec<String>)>,
    ) -> Res<Statement> {
        let option = |parser: &mut Self, word| parser.accept_words(&[word, "option", "for"]);
        let mut with_option = !grant && (option(self, "grant") || option(self, "admin"));
        let mut privileges = Vec::new();
        if self.accept_word("all") {
            self.accept_word("privileges");
        } else {
            privileges = self.list(|parser| {
                let name = parser.label()?.text;
                let columns = if parser.is('(') { parser.names_in_parens()? } else { Vec::new() };
                Ok((name, columns))
            })?;
        }
        let on = match self.accept_word("on") {
            false => None,
            // Tables that will be, and have no names.
            true if default.is_some() => Some((self.label()?.text, Vec::new())),
            true => Some(self.grant_objects()?),
        };
        if !self.accept_word("to") {
            self.expect_word("from")?;
        }
        let roles = self.list(|parser| {
            parser.accept_word("group");
            parser.label()
        })?;
        if self.accept_word("with") {
            self.advance();
            self.expect_word("option")?;
            with_option = true;
        }
        if self.accept_words(&["granted", "by"]) {
            self.label()?;
        }
        let cascade = self.cascade();
        let roles = roles.into_iter().map(|role| role.text).collect();
        Ok(Statement::Grant(Box::new(Grant { grant, privileges, on, roles, with_option, cascade, default })))
    }

    fn grant_objects(&mut self) -> Res<(String, Vec<Path>)> {
        let mut kind = "table".to_string();
        if self.accept_word("all") {
            kind = format!("all {}", self.label()?.text);
            self.expect_words(&["in", "schema"])?;
        } else if self.is_any(&[
            "table",
            "sequence",
            "schema",
            "database",
            "type",
            "domain",
            "language",
            "tablespace",
        ]) {
            kind = self.label()?.text;
        } else if self.is_any(&["function", "procedure", "routine"]) {
            kind = self.label()?.text;
            let path = self.path()?;
            while !self.is_any(&["to", "from"]) && self.peek() != &Tok::End {
                self.advance();
            }
            return Ok((kind, vec![path]));
        }
        Ok((kind, self.paths()?))
    }

    fn lock(&mut self) -> Res<Statement> {
        self.accept_word("table");
        let tables = self.list(|parser| {
            parser.accept_word("only");
            parser.path()
        })?;
        let mut mode = "access exclusive".to_string();
        if self.accept_word("in") {
            let mut words = Vec::new();
            while !self.is_word("mode") {
                words.push(self.label()?.text);
            }
            self.expect_word("mode")?;
            mode = words.join(" ");
        }
        let nowait = self.accept_word("nowait");
        Ok(Statement::Lock { tables, mode, nowait })
    }

    fn do_block(&mut self) -> Res<Statement> {
        if self.accept_word("language") {
            self.label()?;
        }
        let text = self.string()?;
        if self.accept_word("language") {
            self.label()?;
        }
        Ok(Statement::Do(text))
    }
}
