//! Names of types: SQL's own spellings become PostgreSQL's names.

use super::ast::{Path, TypeName};
use super::lexer::Tok;
use super::{Parser, Res, keywords};
use crate::error::{SqlError, SqlState};

/// Words that begin a type of several words or with modifiers, so that a literal may come much later.
pub(super) const LONG_TYPES: &[&str] = &[
    "timestamp",
    "time",
    "interval",
    "double",
    "character",
    "char",
    "varchar",
    "national",
    "nchar",
    "bit",
    "dec",
    "decimal",
    "numeric",
    "float",
    "real",
    "int",
    "integer",
    "smallint",
    "bigint",
    "boolean",
];

/// Bits of an interval's fields, as in PostgreSQL's utils/timestamp.h.
const FIELDS: &[(&str, i32)] = &[
    ("year", 1 << 2),
    ("month", 1 << 1),
    ("day", 1 << 3),
    ("hour", 1 << 10),
    ("minute", 1 << 11),
    ("second", 1 << 12),
];

pub(super) fn named(name: Path) -> TypeName {
    TypeName { name, modifiers: Vec::new(), array: false, setof: false, fields: None }
}

impl Parser<'_> {
    pub(super) fn type_name(&mut self) -> Res<TypeName> {
        let setof = self.accept_word("setof");
        let mut name = self.scalar_type()?;
        name.setof = setof;
        if self.accept_word("array") {
            name.array = true;
            if self.accept('[') {
                self.integer()?;
                self.expect(']')?;
            }
        }
        while self.is('[') && matches!(self.peek_at(1), Tok::Punct(']') | Tok::Integer(_)) {
            name.array = true;
            self.advance();
            if !self.is(']') {
                self.integer()?;
            }
            self.expect(']')?;
        }
        Ok(name)
    }

    fn modifiers(&mut self) -> Res<Vec<i64>> {
        if !self.accept('(') {
            return Ok(Vec::new());
        }
        let modifiers = self.list(Parser::integer)?;
        self.expect(')')?;
        Ok(modifiers)
    }

    fn scalar_type(&mut self) -> Res<TypeName> {
        let pos = self.pos();
        let word = match self.peek().clone() {
            Tok::Word(word) => word,
            Tok::Quoted(_) => String::new(),
            _ => return self.error(),
        };
        let single = match word.as_str() {
            "int" | "integer" => Some("int4"),
            "smallint" => Some("int2"),
            "bigint" => Some("int8"),
            "real" => Some("float4"),
            "boolean" => Some("bool"),
            "numeric" | "decimal" | "dec" => Some("numeric"),
            "varchar" => Some("varchar"),
            _ => None,
        };
        let base = |name: &str| named(Path { parts: vec!["pg_catalog".into(), name.into()], pos });
        if let Some(name) = single {
            self.advance();
            return Ok(TypeName { modifiers: self.modifiers()?, ..base(name) });
        }
        match word.as_str() {
            "double" if self.is_word_at(1, "precision") => {
                self.expect_words(&["double", "precision"])?;
                Ok(base("float8"))
            }
            "float" => {
                self.advance();
                let at = self.tokens[(self.at + 1).min(self.tokens.len() - 1)].start;
                let digits = self.modifiers()?.first().copied().unwrap_or(53);
                if !(1..54).contains(&digits) {
                    let message = match digits {
                        ..1 => "precision for type float must be at least 1 bit",
                        _ => "precision for type float must be less than 54 bits",
                    };
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).at(at + 1));
                }
                Ok(base(if digits <= 24 { "float4" } else { "float8" }))
            }
            "character" | "char" | "nchar" | "national" => self.character_type(),
            "bit" => {
                self.advance();
                let name = if self.accept_word("varying") { "varbit" } else { "bit" };
                let mut modifiers = self.modifiers()?;
                if name == "bit" && modifiers.is_empty() {
                    modifiers.push(1);
                }
                Ok(TypeName { modifiers, ..base(name) })
            }
            "timestamp" | "time" => self.time_type(&word),
            "interval" => {
                self.advance();
                let modifiers = self.modifiers()?;
                let mut name = TypeName { modifiers, ..base("interval") };
                self.interval_fields(&mut name)?;
                Ok(name)
            }
            _ => {
                let first = self.name_if(|word| {
                    !keywords::is_reserved(word) && (keywords::may_name_function(word) || word == "none")
                })?;
                let path = self.path_after(first)?;
                Ok(TypeName { modifiers: self.modifiers()?, ..named(path) })
            }
        }
    }

    fn character_type(&mut self) -> Res<TypeName> {
        let pos = self.pos();
        self.accept_word("national");
        self.advance();
        let varying = self.accept_word("varying");
        let mut modifiers = self.modifiers()?;
        if !varying && modifiers.is_empty() {
            modifiers.push(1);
        }
        let name = if varying { "varchar" } else { "bpchar" };
        let path = Path { parts: vec!["pg_catalog".into(), name.into()], pos };
        Ok(TypeName { modifiers, ..named(path) })
    }

    fn time_type(&mut self, word: &str) -> Res<TypeName> {
        let pos = self.pos();
        self.advance();
        let modifiers = self.modifiers()?;
        let zone = if self.are_words(&["with", "time", "zone"]) {
            self.expect_words(&["with", "time", "zone"])?;
            true
        } else {
            self.accept_words(&["without", "time", "zone"]);
            false
        };
        let name = if zone { format!("{word}tz") } else { word.to_string() };
        let path = Path { parts: vec!["pg_catalog".into(), name], pos };
        Ok(TypeName { modifiers, ..named(path) })
    }

    /// `HOUR TO MINUTE` and the like, with `SECOND(p)`.
    pub(super) fn interval_fields(&mut self, name: &mut TypeName) -> Res<()> {
        let field = |parser: &Self| {
            let Tok::Word(word) = parser.peek() else { return None };
            FIELDS.iter().position(|(name, _)| name == word)
        };
        let Some(from) = field(self) else { return Ok(()) };
        self.advance();
        let mut to = from;
        if self.is_word("to") {
            self.advance();
            let Some(last) = field(self) else { return self.error() };
            self.advance();
            to = last;
        }
        if FIELDS[to].0 == "second" {
            name.modifiers.extend(self.modifiers()?);
        }
        if to < from {
            return self.error();
        }
        name.fields = Some(FIELDS[from..=to].iter().map(|(_, bit)| bit).sum());
        Ok(())
    }
}
