//! Expressions that begin with a keyword: CASE, CAST, EXTRACT, ARRAY, EXISTS and their kin.

use super::ast::{Expr, Kind};
use super::expr::{OTHER, call, node, plain_call};
use super::lexer::Tok;
use super::{Parser, Pos, Res};
use crate::error::SqlError;
use crate::missing;

/// Functions without parentheses, and whether a precision may follow.
const SQL_VALUES: &[(&str, bool)] = &[
    ("current_date", false),
    ("current_time", true),
    ("current_timestamp", true),
    ("localtime", true),
    ("localtimestamp", true),
    ("current_role", false),
    ("current_user", false),
    ("session_user", false),
    ("user", false),
    ("current_catalog", false),
    ("current_schema", false),
];

impl Parser<'_> {
    /// `None` where the word begins no special form; nothing is taken then.
    pub(super) fn special_form(&mut self, word: &str) -> Res<Option<Expr>> {
        let pos = self.pos();
        let opens = self.peek_at(1) == &Tok::Punct('(');
        if let Some(&(name, precise)) = SQL_VALUES.iter().find(|(name, _)| *name == word) {
            if word == "current_schema" && opens {
                return Ok(None);
            }
            self.advance();
            let precision = if precise && self.accept('(') {
                let digits = self.integer()?;
                self.expect(')')?;
                Some(digits)
            } else {
                None
            };
            return Ok(Some(node(pos, Kind::SqlValue(name, precision))));
        }
        let expr = match word {
            "case" => self.case()?,
            "array" => self.array()?,
            "row" if opens => {
                self.advance();
                self.expect('(')?;
                let list = if self.is(')') { Vec::new() } else { self.exprs()? };
                self.expect(')')?;
                node(pos, Kind::Row(list, true))
            }
            "exists" if opens => {
                self.advance();
                match self.try_query_in_parens()? {
                    Some(query) => node(pos, Kind::Exists(Box::new(query))),
                    None => return self.error(),
                }
            }
            "xmlelement" | "xmlforest" | "xmlconcat" | "xmlparse" | "xmlpi" | "xmlroot" | "xmlserialize"
            | "xmltable"
                if opens =>
            {
                return Err(SqlError::unsupported(word.to_uppercase(), missing::TYPES));
            }
            "coalesce" | "greatest" | "least" | "nullif" | "grouping" if opens => self.listed(word, pos)?,
            "cast" | "treat" if opens => {
                self.advance();
                self.expect('(')?;
                let expr = self.expr()?;
                self.expect_word("as")?;
                let name = self.type_name()?;
                self.expect(')')?;
                node(pos, Kind::Cast(Box::new(expr), name, pos))
            }
            "extract" | "position" | "overlay" | "substring" | "trim" | "normalize" if opens => {
                self.keyword_call(word, pos)?
            }
            "collation" if opens => {
                self.advance();
                self.expect_words(&["for"])?;
                self.expect('(')?;
                let expr = self.expr()?;
                self.expect(')')?;
                call(pos, "pg_collation_for", vec![expr])
            }
            _ => return Ok(None),
        };
        Ok(Some(expr))
    }

    fn listed(&mut self, word: &str, pos: Pos) -> Res<Expr> {
        self.advance();
        self.expect('(')?;
        let mut list = self.exprs()?;
        if word == "nullif" && list.len() != 2 {
            return self.error();
        }
        self.expect(')')?;
        let kind = match word {
            "coalesce" => Kind::Coalesce(list),
            "greatest" => Kind::Extreme(true, list),
            "least" => Kind::Extreme(false, list),
            "grouping" => Kind::Grouping(list),
            _ => {
                let right = Box::new(list.remove(1));
                Kind::NullIf(Box::new(list.remove(0)), right)
            }
        };
        Ok(node(pos, kind))
    }

    fn case(&mut self) -> Res<Expr> {
        let pos = self.pos();
        self.advance();
        let operand = if self.is_word("when") { None } else { Some(Box::new(self.expr()?)) };
        let mut whens = Vec::new();
        while self.accept_word("when") {
            let condition = self.expr()?;
            self.expect_word("then")?;
            whens.push((condition, self.expr()?));
        }
        if whens.is_empty() {
            return self.error();
        }
        let otherwise = if self.accept_word("else") { Some(Box::new(self.expr()?)) } else { None };
        self.expect_word("end")?;
        Ok(node(pos, Kind::Case { operand, whens, otherwise }))
    }

    fn array(&mut self) -> Res<Expr> {
        let pos = self.pos();
        self.advance();
        if let Some(query) = self.try_query_in_parens()? {
            return Ok(node(pos, Kind::ArrayQuery(Box::new(query))));
        }
        self.array_elements(pos)
    }

    fn array_elements(&mut self, pos: Pos) -> Res<Expr> {
        self.expect('[')?;
        let mut elements = Vec::new();
        while !self.is(']') {
            let element_pos = self.pos();
            let nested = self.is('[');
            elements.push(if nested { self.array_elements(element_pos)? } else { self.expr()? });
            if !self.accept(',') {
                break;
            }
        }
        self.expect(']')?;
        Ok(node(pos, Kind::Array(elements)))
    }

    /// Functions whose arguments are divided by words.
    fn keyword_call(&mut self, word: &str, pos: Pos) -> Res<Expr> {
        self.advance();
        self.expect('(')?;
        let expr = match word {
            "extract" => {
                let field_pos = self.pos();
                let field = match self.peek().clone() {
                    Tok::Word(text) | Tok::Quoted(text) | Tok::Str(text) => text,
                    _ => return self.error(),
                };
                self.advance();
                self.expect_word("from")?;
                let source = self.expr()?;
                call(pos, "extract", vec![node(field_pos, Kind::Str(field)), source])
            }
            "position" => {
                let part = self.simple_expr()?;
                self.expect_word("in")?;
                let whole = self.simple_expr()?;
                call(pos, "position", vec![whole, part])
            }
            "overlay" => {
                let mut args = vec![self.expr()?];
                if self.accept_word("placing") {
                    args.push(self.expr()?);
                    self.expect_word("from")?;
                    args.push(self.expr()?);
                    if self.accept_word("for") {
                        args.push(self.expr()?);
                    }
                } else {
                    self.expect(',')?;
                    args.extend(self.exprs()?);
                    self.expect(')')?;
                    return Ok(plain_call(pos, "overlay", args));
                }
                call(pos, "overlay", args)
            }
            "substring" => self.substring(pos)?,
            "trim" => self.trim(pos)?,
            _ => {
                let mut args = vec![self.expr()?];
                if self.accept(',') {
                    let form_pos = self.pos();
                    args.push(node(form_pos, Kind::Str(self.label()?.text)));
                }
                call(pos, "normalize", args)
            }
        };
        self.expect(')')?;
        Ok(expr)
    }

    fn substring(&mut self, pos: Pos) -> Res<Expr> {
        let whole = self.expr_above(OTHER)?;
        let mut args = vec![whole];
        if self.accept_word("from") {
            args.push(self.expr()?);
            if self.accept_word("for") {
                args.push(self.expr()?);
            }
        } else if self.accept_word("for") {
            let length = self.expr()?;
            if self.accept_word("from") {
                args.push(self.expr()?);
            } else {
                args.push(node(pos, Kind::Integer("1".to_string())));
            }
            args.push(length);
        } else if self.accept_word("similar") {
            let pattern = self.expr_above(OTHER)?;
            self.expect_word("escape")?;
            args.push(pattern);
            args.push(self.expr()?);
        } else {
            if self.accept(',') {
                args.extend(self.exprs()?);
            }
            return Ok(plain_call(pos, "substring", args));
        }
        Ok(call(pos, "substring", args))
    }

    fn trim(&mut self, pos: Pos) -> Res<Expr> {
        let name = if self.accept_word("leading") {
            "ltrim"
        } else if self.accept_word("trailing") {
            "rtrim"
        } else {
            self.accept_word("both");
            "btrim"
        };
        if self.accept_word("from") {
            let args = self.exprs()?;
            return Ok(call(pos, name, args));
        }
        let first = self.expr()?;
        let mut args = Vec::new();
        if self.accept_word("from") {
            args.extend(self.exprs()?);
            args.push(first);
        } else {
            args.push(first);
            if self.accept(',') {
                args.extend(self.exprs()?);
            }
        }
        Ok(call(pos, name, args))
    }
}
