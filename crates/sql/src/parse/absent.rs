//! DROP of what is built in or not there: functions, operators, triggers and their kin; and what is wrong
//! with a collation, before it is refused.

use super::ast::{Absent, DropAbsent, Path, Statement, TypeName};
use super::lexer::Tok;
use super::{Parser, Res};
use crate::error::{SqlError, SqlState};

/// Kinds whose objects a name alone says.
const NAMED: &[&str] = &[
    "access method",
    "collation",
    "conversion",
    "event trigger",
    "extension",
    "foreign data wrapper",
    "language",
    "procedural language",
    "publication",
    "server",
    "statistics",
    "subscription",
    "tablespace",
    "text search configuration",
    "text search dictionary",
    "text search parser",
    "text search template",
];
const ROUTINES: &[&str] = &["aggregate", "function", "procedure", "routine"];
const OF_TABLES: &[&str] = &["policy", "rule", "trigger"];
const OF_METHODS: &[&str] = &["operator class", "operator family"];

impl Parser<'_> {
    /// What follows DROP, if it is of such a kind.
    pub(super) fn drop_absent(&mut self) -> Option<Res<Statement>> {
        let mut kinds =
            NAMED.iter().chain(ROUTINES).chain(OF_TABLES).chain(OF_METHODS).chain(&["cast", "operator"]);
        let kind = kinds.find(|kind| self.accept_words(&kind.split(' ').collect::<Vec<_>>()))?;
        Some(self.absent_objects(kind))
    }

    fn absent_objects(&mut self, kind: &'static str) -> Res<Statement> {
        let if_exists = self.if_exists();
        let objects = match kind {
            "cast" => {
                self.expect('(')?;
                let from = self.type_name()?;
                self.expect_word("as")?;
                let to = self.type_name()?;
                self.expect(')')?;
                vec![Absent::Cast(from, to)]
            }
            "operator" => self.list(Parser::absent_operator)?,
            kind if ROUTINES.contains(&kind) => self.list(|parser| parser.absent_routine(kind))?,
            kind if OF_TABLES.contains(&kind) => {
                let name = self.name()?;
                self.expect_word("on")?;
                vec![Absent::OfTable(name, self.path()?)]
            }
            kind if OF_METHODS.contains(&kind) => {
                let name = self.path()?;
                self.expect_word("using")?;
                vec![Absent::OfMethod(name, self.name()?)]
            }
            _ => self.paths()?.into_iter().map(Absent::Named).collect(),
        };
        self.cascade();
        let kind = if kind == "procedural language" { "language" } else { kind };
        Ok(Statement::DropAbsent(DropAbsent { kind, if_exists, objects }))
    }

    fn absent_routine(&mut self, kind: &str) -> Res<Absent> {
        let name = self.path()?;
        if kind != "aggregate" && !self.is('(') {
            return Ok(Absent::Routine(name, None));
        }
        self.expect('(')?;
        let mut types = Vec::new();
        let star = kind == "aggregate" && self.accept_op("*");
        while !star && !self.is(')') {
            types.extend(self.argument_type()?);
            if !self.accept(',') && !self.accept_words(&["order", "by"]) && !self.is(')') {
                return self.error();
            }
        }
        self.expect(')')?;
        Ok(Absent::Routine(name, Some(types)))
    }

    /// The type of an argument, its mode and name before it; none of one that is only given back.
    fn argument_type(&mut self) -> Res<Option<TypeName>> {
        let gives = self.accept_word("out");
        if !gives {
            self.accept_any(&["in", "inout", "variadic"]);
        }
        let from = self.at;
        let ends = |parser: &Self| parser.is(',') || parser.is(')') || parser.are_words(&["order", "by"]);
        let mut ty = self.type_name();
        if ty.is_err() || !ends(self) {
            self.at = from;
            self.name()?;
            ty = self.type_name();
        }
        ty.map(|ty| (!gives).then_some(ty))
    }

    fn absent_operator(&mut self) -> Res<Absent> {
        let pos = self.pos();
        let mut parts = Vec::new();
        while matches!(self.peek_at(1), Tok::Punct('.')) {
            parts.push(self.name()?.text);
            self.expect('.')?;
        }
        let Tok::Op(name) = self.peek().clone() else {
            self.name()?;
            return self.error();
        };
        self.advance();
        parts.push(name);
        self.expect('(')?;
        let side = |parser: &mut Self| match parser.accept_word("none") {
            true => Ok(None),
            false => parser.type_name().map(Some),
        };
        let left = side(self)?;
        if self.is(')') {
            let error = SqlError::new(SqlState::SYNTAX_ERROR, "missing argument").at(self.pos() + 1);
            return Err(error.hint("Use NONE to denote the missing argument of a unary operator."));
        }
        self.expect(',')?;
        let right = side(self)?;
        self.expect(')')?;
        Ok(Absent::Operator(Path { parts, pos }, left, right))
    }

    /// What PostgreSQL refuses of CREATE COLLATION by itself.
    pub(super) fn wrong_collation(&mut self) -> Option<SqlError> {
        const OPTIONS: [&str; 7] =
            ["from", "locale", "lc_collate", "lc_ctype", "provider", "deterministic", "version"];
        let syntax = |message: String| SqlError::new(SqlState::SYNTAX_ERROR, message);
        let conflict = || syntax("conflicting or redundant options".to_string());
        self.advance();
        self.accept_words(&["if", "not", "exists"]);
        self.path().ok()?;
        if self.accept_word("from") {
            let message = "collation \"default\" cannot be copied";
            let is_default = self.path().ok()?.last() == "default";
            return is_default.then(|| SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
        }
        let mut given: Vec<String> = Vec::new();
        while self.accept('(') || self.accept(',') {
            let at = self.pos() + 1;
            let name = self.label().ok()?.text;
            if given.contains(&name) {
                return Some(conflict().at(at));
            }
            if !OPTIONS.contains(&name.as_str()) {
                return Some(syntax(format!("collation attribute \"{name}\" not recognized")).at(at));
            }
            given.push(name);
            self.accept_op("=");
            self.advance();
        }
        let has = |name: &str| given.iter().any(|given| given == name);
        if has("locale") && (has("lc_collate") || has("lc_ctype")) {
            let detail = "LOCALE cannot be specified together with LC_COLLATE or LC_CTYPE.";
            return Some(conflict().detail(detail));
        }
        let detail = "FROM cannot be specified together with any other options.";
        (has("from") && given.len() > 1).then(|| conflict().detail(detail))
    }
}
