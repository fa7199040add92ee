//! Expressions, by precedence as in gram.y.
//!
//! From weak to strong: OR, AND, NOT, IS, comparison, BETWEEN/IN/LIKE, other operators, `+ -`, `* / %`, `^`,
//! AT TIME ZONE, COLLATE, sign, subscript, `::`. Comparison does not chain.

use std::ops::ControlFlow;

use super::ast::{Arg, Expr, FuncCall, Ident, IsTest, Kind, LikeKind, Operator, Path, Subscript};
use super::lexer::{CAST, Tok};
use super::{Parser, Pos, Res, keywords};

const OR: u8 = 1;
const AND: u8 = 2;
const NOT: u8 = 3;
const IS: u8 = 4;
const COMPARE: u8 = 5;
const LIKE: u8 = 6;
pub(super) const OTHER: u8 = 7;
const ADD: u8 = 8;
const MULTIPLY: u8 = 9;
const POWER: u8 = 10;
const AT: u8 = 11;
const COLLATE: u8 = 12;
const SIGN: u8 = 13;
const SUBSCRIPT: u8 = 14;
const TYPECAST: u8 = 15;
/// Above every operator.
pub(super) const PRIMARY: u8 = 16;

fn is_comparison(op: &str) -> bool {
    matches!(op, "=" | "<" | ">" | "<=" | ">=" | "<>")
}

fn strength(op: &str) -> u8 {
    match op {
        _ if is_comparison(op) => COMPARE,
        "+" | "-" => ADD,
        "*" | "/" | "%" => MULTIPLY,
        "^" => POWER,
        _ => OTHER,
    }
}

/// A number with the other sign.
fn negated(number: &str) -> String {
    number.strip_prefix('-').map_or_else(|| format!("-{number}"), str::to_string)
}

pub(super) fn node(pos: Pos, kind: Kind) -> Expr {
    Expr { pos, kind }
}

/// A call that the grammar writes with words: its function is the system's.
pub(super) fn call(pos: Pos, name: &str, args: Vec<Expr>) -> Expr {
    let name = Path { parts: vec!["pg_catalog".to_string(), name.to_string()], pos };
    named_call(pos, name, args)
}

/// A call by name.
pub(super) fn plain_call(pos: Pos, name: &str, args: Vec<Expr>) -> Expr {
    named_call(pos, Path { parts: vec![name.to_string()], pos }, args)
}

fn named_call(pos: Pos, name: Path, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|expr| Arg { name: None, variadic: false, expr }).collect();
    node(pos, Kind::Func(Box::new(FuncCall::plain(name, args))))
}

impl FuncCall {
    pub(crate) fn plain(name: Path, args: Vec<Arg>) -> FuncCall {
        let (order_by, within_group) = (Vec::new(), Vec::new());
        let (filter, over) = (None, None);
        FuncCall { name, args, star: false, distinct: false, order_by, within_group, filter, over }
    }
}

impl Parser<'_> {
    pub(super) fn expr(&mut self) -> Res<Expr> {
        self.expr_above(OR)
    }

    /// An expression as gram.y's `b_expr`: no AND, NOT, IN, LIKE.
    pub(super) fn simple_expr(&mut self) -> Res<Expr> {
        self.expr_above(OTHER)
    }

    pub(super) fn exprs(&mut self) -> Res<Vec<Expr>> {
        self.list(Parser::expr)
    }

    pub(super) fn expr_above(&mut self, least: u8) -> Res<Expr> {
        self.deeper(|parser| {
            parser.chained(Parser::prefix, |parser, left| {
                let longer = parser.infix(&left, least)?;
                Ok(longer.map_or_else(|| ControlFlow::Break(left), ControlFlow::Continue))
            })
        })
    }

    fn prefix(&mut self) -> Res<Expr> {
        let pos = self.pos();
        match self.peek().clone() {
            Tok::Word(word) if word == "not" => {
                self.advance();
                let operand = self.expr_above(NOT)?;
                Ok(node(pos, Kind::Not(Box::new(operand))))
            }
            Tok::Op(op) => {
                self.advance();
                let least = if op == "-" || op == "+" { SIGN } else { ADD };
                let operand = self.expr_above(least)?;
                match (op.as_str(), operand.kind) {
                    ("-", Kind::Integer(text)) => Ok(node(pos, Kind::Integer(negated(&text)))),
                    ("-", Kind::Float(text)) => Ok(node(pos, Kind::Float(negated(&text)))),
                    (_, kind) => {
                        let operand = Box::new(Expr { pos: operand.pos, kind });
                        Ok(node(pos, Kind::Unary(Operator { schema: None, name: op }, operand)))
                    }
                }
            }
            Tok::Word(word) if word == "operator" && self.peek_at(1) == &Tok::Punct('(') => {
                let op = self.qualified_operator()?;
                let operand = self.expr_above(ADD)?;
                Ok(node(pos, Kind::Unary(op, Box::new(operand))))
            }
            _ => self.primary(),
        }
    }

    /// `OPERATOR(schema.op)`.
    fn qualified_operator(&mut self) -> Res<Operator> {
        self.expect_word("operator")?;
        self.expect('(')?;
        let mut schema = None;
        while let Tok::Word(_) | Tok::Quoted(_) = self.peek() {
            schema = Some(self.label()?.text);
            self.expect('.')?;
        }
        let Tok::Op(name) = self.peek().clone() else { return self.error() };
        self.advance();
        self.expect(')')?;
        Ok(Operator { schema, name })
    }

    /// One more operator after `left`, if it binds at least as strongly as `least`.
    fn infix(&mut self, left: &Expr, least: u8) -> Res<Option<Expr>> {
        let pos = self.pos();
        match self.peek().clone() {
            Tok::Punct(CAST) if least <= TYPECAST => {
                self.advance();
                let name = self.type_name()?;
                Ok(Some(node(left.pos, Kind::Cast(Box::new(left.clone()), name, pos))))
            }
            Tok::Punct('[') if least <= SUBSCRIPT => self.subscripts(left).map(Some),
            Tok::Op(op) if strength(&op) >= least => {
                self.advance();
                self.binary(left, Operator { schema: None, name: op }, pos).map(Some)
            }
            Tok::Word(word) => self.infix_word(left, &word, least),
            _ => Ok(None),
        }
    }

    fn binary(&mut self, left: &Expr, op: Operator, pos: Pos) -> Res<Expr> {
        let strength = if op.schema.is_some() { OTHER } else { strength(&op.name) };
        if self.is_any(&["any", "some", "all"]) && self.peek_at(1) == &Tok::Punct('(') {
            return self.quantified(left, op, pos);
        }
        let right = self.expr_above(strength + 1)?;
        let compares = |name: &str| strength == COMPARE && is_comparison(name);
        if let Tok::Op(next) = self.peek()
            && compares(next)
        {
            return self.error();
        }
        Ok(node(pos, Kind::Binary(op, Box::new(left.clone()), Box::new(right))))
    }

    fn quantified(&mut self, left: &Expr, op: Operator, pos: Pos) -> Res<Expr> {
        let all = self.is_word("all");
        self.advance();
        let left = Box::new(left.clone());
        if let Some(query) = self.try_query_in_parens()? {
            return Ok(node(pos, Kind::AnyQuery { left, op, all, query: Box::new(query) }));
        }
        self.expect('(')?;
        let array = Box::new(self.expr()?);
        self.expect(')')?;
        Ok(node(pos, Kind::AnyArray { left, op, all, array }))
    }

    fn infix_word(&mut self, left: &Expr, word: &str, least: u8) -> Res<Option<Expr>> {
        let pos = self.pos();
        let negatable = ["between", "in", "like", "ilike", "similar"];
        match word {
            "or" if least <= OR => self.chain(left, "or", AND, Kind::Or).map(Some),
            "and" if least <= AND => self.chain(left, "and", NOT, Kind::And).map(Some),
            "is" if least <= IS => self.is_test(left).map(Some),
            "isnull" | "notnull" if least <= IS => {
                self.advance();
                let negated = word == "notnull";
                let expr = Box::new(left.clone());
                Ok(Some(node(left.pos, Kind::Is { expr, test: IsTest::Null, negated })))
            }
            "not" if least <= LIKE => match self.peek_at(1) {
                Tok::Word(next) if negatable.contains(&next.as_str()) => {
                    self.advance();
                    self.matching(left, true, pos).map(Some)
                }
                _ => Ok(None),
            },
            _ if negatable.contains(&word) && least <= LIKE => self.matching(left, false, pos).map(Some),
            "operator" if least <= OTHER && self.peek_at(1) == &Tok::Punct('(') => {
                let op = self.qualified_operator()?;
                self.binary(left, op, pos).map(Some)
            }
            "overlaps" if least <= OTHER => {
                self.advance();
                let right = self.expr_above(ADD)?;
                let (Kind::Row(a, _), Kind::Row(b, _)) = (left.kind.clone(), right.kind) else {
                    return self.error();
                };
                Ok(Some(call(pos, "overlaps", a.into_iter().chain(b).collect())))
            }
            "at" if least <= AT && self.are_words(&["at", "time", "zone"]) => {
                self.expect_words(&["at", "time", "zone"])?;
                let zone = self.expr_above(AT + 1)?;
                Ok(Some(call(pos, "timezone", vec![zone, left.clone()])))
            }
            "collate" if least <= COLLATE => {
                self.advance();
                let name = self.path()?;
                Ok(Some(node(pos, Kind::Collate(Box::new(left.clone()), name))))
            }
            _ => Ok(None),
        }
    }

    fn chain(&mut self, left: &Expr, word: &str, least: u8, make: fn(Vec<Expr>) -> Kind) -> Res<Expr> {
        let pos = self.pos();
        let mut parts = vec![left.clone()];
        while self.accept_word(word) {
            parts.push(self.expr_above(least)?);
        }
        Ok(node(pos, make(parts)))
    }

    fn is_test(&mut self, left: &Expr) -> Res<Expr> {
        let pos = self.pos();
        self.advance();
        let negated = self.accept_word("not");
        let expr = Box::new(left.clone());
        if self.accept_words(&["distinct", "from"]) {
            let right = Box::new(self.expr_above(COMPARE)?);
            return Ok(node(pos, Kind::Distinct { left: expr, right, negated }));
        }
        let test = match self.peek() {
            Tok::Word(word) => match word.as_str() {
                "null" => IsTest::Null,
                "true" => IsTest::True,
                "false" => IsTest::False,
                "unknown" => IsTest::Unknown,
                _ => return self.error(),
            },
            _ => return self.error(),
        };
        self.advance();
        Ok(node(left.pos, Kind::Is { expr, test, negated }))
    }

    /// BETWEEN, IN, LIKE, ILIKE or SIMILAR TO.
    fn matching(&mut self, left: &Expr, negated: bool, pos: Pos) -> Res<Expr> {
        let expr = Box::new(left.clone());
        if self.accept_word("between") {
            let symmetric = !self.accept_word("asymmetric") && self.accept_word("symmetric");
            let low = Box::new(self.expr_above(OTHER)?);
            self.expect_word("and")?;
            let high = Box::new(self.expr_above(OTHER)?);
            return Ok(node(pos, Kind::Between { expr, low, high, negated, symmetric }));
        }
        if self.accept_word("in") {
            if let Some(query) = self.try_query_in_parens()? {
                return Ok(node(pos, Kind::InQuery { expr, query: Box::new(query), negated }));
            }
            self.expect('(')?;
            let list = self.exprs()?;
            self.expect(')')?;
            return Ok(node(pos, Kind::InList { expr, list, negated }));
        }
        let kind = if self.accept_word("like") {
            LikeKind::Like
        } else if self.accept_word("ilike") {
            LikeKind::ILike
        } else {
            self.expect_words(&["similar", "to"])?;
            LikeKind::Similar
        };
        if self.is_any(&["any", "some", "all"]) && kind != LikeKind::Similar {
            let name = match (kind, negated) {
                (LikeKind::Like, false) => "~~",
                (LikeKind::Like, true) => "!~~",
                (_, false) => "~~*",
                (_, true) => "!~~*",
            };
            return self.quantified(left, Operator { schema: None, name: name.to_string() }, pos);
        }
        let pattern = Box::new(self.expr_above(OTHER)?);
        let escape = if self.accept_word("escape") { Some(Box::new(self.expr_above(OTHER)?)) } else { None };
        Ok(node(pos, Kind::Like { kind, expr, pattern, escape, negated }))
    }

    pub(super) fn subscript_list(&mut self) -> Res<Vec<Subscript>> {
        let mut subscripts = Vec::new();
        while self.accept('[') {
            let low = if self.is(':') { None } else { Some(self.expr()?) };
            let subscript = if self.accept(':') {
                let high = if self.is(']') { None } else { Some(self.expr()?) };
                Subscript::Slice(low, high)
            } else {
                let Some(index) = low else { return self.error() };
                Subscript::Index(index)
            };
            self.expect(']')?;
            subscripts.push(subscript);
        }
        Ok(subscripts)
    }

    fn subscripts(&mut self, base: &Expr) -> Res<Expr> {
        let subscripts = self.subscript_list()?;
        let mut expr = node(base.pos, Kind::Subscript(Box::new(base.clone()), subscripts));
        while self.is('.') && !matches!(base.kind, Kind::Column(_)) {
            expr = self.field(expr)?;
        }
        Ok(expr)
    }

    fn field(&mut self, base: Expr) -> Res<Expr> {
        self.expect('.')?;
        let pos = base.pos;
        if self.accept_op("*") {
            return Ok(node(pos, Kind::FieldStar(Box::new(base))));
        }
        let name = self.label()?.text;
        Ok(node(pos, Kind::Field(Box::new(base), name)))
    }

    fn primary(&mut self) -> Res<Expr> {
        let pos = self.pos();
        let kind = match self.peek().clone() {
            Tok::Integer(text) => Kind::Integer(text),
            Tok::Float(text) => Kind::Float(text),
            Tok::Str(text) => Kind::Str(text),
            Tok::Bits(text, hex) => Kind::Bits(text, hex),
            Tok::Param(number) => Kind::Param(number),
            Tok::Punct('(') => return self.parenthesized(),
            Tok::Word(word) => return self.word_primary(&word),
            Tok::Quoted(_) => return self.column_or_call(),
            _ => return self.error(),
        };
        self.advance();
        Ok(node(pos, kind))
    }

    fn parenthesized(&mut self) -> Res<Expr> {
        let pos = self.pos();
        let mut expr = if let Some(query) = self.try_query_in_parens()? {
            node(pos, Kind::Scalar(Box::new(query)))
        } else {
            self.expect('(')?;
            let mut list = self.exprs()?;
            self.expect(')')?;
            match list.len() {
                1 => list.remove(0),
                _ => node(pos, Kind::Row(list, false)),
            }
        };
        while self.is('.') {
            expr = self.field(expr)?;
        }
        Ok(expr)
    }

    fn word_primary(&mut self, word: &str) -> Res<Expr> {
        let pos = self.pos();
        let constant = match word {
            "null" => Some(Kind::Null),
            "true" => Some(Kind::Bool(true)),
            "false" => Some(Kind::Bool(false)),
            "default" => Some(Kind::Default),
            _ => None,
        };
        if let Some(kind) = constant {
            self.advance();
            return Ok(node(pos, kind));
        }
        if let Some(expr) = self.special_form(word)? {
            return Ok(expr);
        }
        if keywords::is_reserved(word) {
            return self.error();
        }
        if let Some(expr) = self.try_typed_literal()? {
            return Ok(expr);
        }
        self.column_or_call()
    }

    /// `date '2020-01-01'`, `interval '1' hour`, `double precision '1'`.
    fn try_typed_literal(&mut self) -> Res<Option<Expr>> {
        let start = self.at;
        let pos = self.pos();
        let literal_next = matches!(self.peek_at(1), Tok::Str(_));
        let long_type = self.is_any(super::types::LONG_TYPES);
        if !literal_next && !long_type {
            return Ok(None);
        }
        let Ok(mut name) = self.type_name() else {
            self.at = start;
            return Ok(None);
        };
        let Tok::Str(text) = self.peek().clone() else {
            self.at = start;
            return Ok(None);
        };
        let written = matches!(self.tokens[self.at - 1].tok, Tok::Punct(')'));
        if !written && matches!(name.name.last(), "bpchar" | "bit") {
            // A literal keeps its own length, where a column would be of one character.
            name.modifiers.clear();
        }
        if name.array {
            self.at -= 1;
            return self.error();
        }
        let literal = node(self.pos(), Kind::Str(text));
        self.advance();
        if name.name.last() == "interval" && name.fields.is_none() {
            self.interval_fields(&mut name)?;
        }
        Ok(Some(node(pos, Kind::Cast(Box::new(literal), name, pos))))
    }

    fn column_or_call(&mut self) -> Res<Expr> {
        let pos = self.pos();
        let quoted = matches!(self.peek(), Tok::Quoted(_));
        let first = self.label()?;
        if self.is('(') && (quoted || keywords::may_name_function(&first.text)) {
            return self.call(Path { parts: vec![first.text], pos });
        }
        if !quoted && !keywords::may_name_column(&first.text) {
            self.at -= 1;
            return self.error();
        }
        let mut parts = vec![first.text];
        while self.is('.') {
            self.advance();
            if self.accept_op("*") {
                return Ok(node(pos, Kind::Star(parts)));
            }
            parts.push(self.label()?.text);
        }
        if self.is('(') && parts.len() > 1 {
            return self.call(Path { parts, pos });
        }
        if let Tok::Str(_) = self.peek()
            && parts.len() > 1
        {
            let Tok::Str(text) = self.peek().clone() else { return self.error() };
            let literal = node(self.pos(), Kind::Str(text));
            self.advance();
            let name = super::types::named(Path { parts, pos });
            return Ok(node(pos, Kind::Cast(Box::new(literal), name, pos)));
        }
        Ok(node(pos, Kind::Column(parts)))
    }

    /// After a function's name.
    pub(super) fn call(&mut self, name: Path) -> Res<Expr> {
        let pos = name.pos;
        let mut call = FuncCall::plain(name, Vec::new());
        self.expect('(')?;
        if self.accept_op("*") {
            call.star = true;
        } else if !self.is(')') {
            if self.accept_word("distinct") {
                call.distinct = true;
            } else {
                self.accept_word("all");
            }
            call.args = self.list(Parser::argument)?;
            call.order_by = self.order_by()?;
        }
        self.expect(')')?;
        if self.accept_words(&["within", "group"]) {
            self.expect('(')?;
            call.within_group = self.order_by()?;
            self.expect(')')?;
        }
        if self.is_word("filter") && self.peek_at(1) == &Tok::Punct('(') {
            self.advance();
            self.expect('(')?;
            self.expect_word("where")?;
            call.filter = Some(self.expr()?);
            self.expect(')')?;
        }
        if self.accept_word("over") {
            call.over = Some(self.over()?);
        }
        Ok(node(pos, Kind::Func(Box::new(call))))
    }

    fn argument(&mut self) -> Res<Arg> {
        let variadic = self.accept_word("variadic");
        let named = matches!(self.peek(), Tok::Word(_) | Tok::Quoted(_))
            && (matches!(self.peek_at(1), Tok::Op(op) if op == "=>")
                || self.peek_at(1) == &Tok::Punct(super::lexer::ASSIGN));
        let name = if named {
            let Ident { text, .. } = self.label()?;
            self.advance();
            Some(text)
        } else {
            None
        };
        Ok(Arg { name, variadic, expr: self.expr()? })
    }
}
