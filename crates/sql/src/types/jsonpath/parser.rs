//! The grammar of paths.
//!
//! Expressions (which give items) and predicates (which are true, false or unknown) are read by one function,
//! which remembers which of the two it has read: their beginnings look alike. As in PostgreSQL, an error
//! shows the first word with which the text cannot go on.

use super::lexer::{Lexer, Token, fault};
use super::{DEPTH_MAX, JsonPath, LAST_LEVEL, Method, Operator, Path, RegexFlags, Step};
use crate::error::{Result, SqlError, SqlState};
use crate::stop;
use crate::types::json::Json;
use crate::types::numeric::Numeric;

/// Deepest nesting of the text: two levels and the outermost parentheses for each level that
/// [`JsonPath::exact`] writes.
const READ_DEPTH_MAX: usize = 2 * DEPTH_MAX + 2;

#[cold]
fn invalid(what: impl std::fmt::Display) -> SqlError {
    SqlError::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type jsonpath{what}"),
    )
}

#[cold]
fn too_deep() -> SqlError {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
}

/// Reads a path.
///
/// # Errors
/// 42601 or 22P02 if the text is none, 22P05 for an escape that text cannot hold, 22003 for a number that is
/// too large, 2201B for a bad regular expression, 54001 if it nests too deeply.
pub fn parse(text: &str) -> Result<JsonPath> {
    let mut parser = Parser { lexer: Lexer::new(text), token: Token::End, shown: "", depth: 0, steps: 0 };
    parser.next()?;
    if parser.token == Token::End {
        return Err(invalid(format_args!(": \"{text}\"")));
    }
    let is_strict = parser.eat_word("strict")?;
    if !is_strict {
        parser.eat_word("lax")?;
    }
    let whole = parser.expression(0)?;
    if parser.token != Token::End {
        return Err(parser.unexpected());
    }
    check_places(&whole.path, false, false)?;
    Ok(JsonPath { lax: !is_strict, path: whole.path })
}

/// Refuses `@` outside of filters and `last` outside of subscripts.
fn check_places(path: &[Step], in_filter: bool, in_subscript: bool) -> Result<()> {
    let misplaced = |message: &str| Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    for step in path {
        match step {
            Step::Current if !in_filter => return misplaced("@ is not allowed in root expressions"),
            Step::Last if !in_subscript => return misplaced("LAST is allowed only in array subscripts"),
            Step::Binary(_, left, right) => {
                check_places(left, in_filter, in_subscript)?;
                check_places(right, in_filter, in_subscript)?;
            }
            Step::Sign(_, of)
            | Step::Not(of)
            | Step::IsUnknown(of)
            | Step::Exists(of)
            | Step::LikeRegex(of, ..) => check_places(of, in_filter, in_subscript)?,
            Step::Filter(of) => check_places(of, true, in_subscript)?,
            Step::Elements(subscripts) => {
                for bound in subscripts.iter().flat_map(|(from, to)| std::iter::once(from).chain(to)) {
                    check_places(bound, in_filter, true)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// A path that was read.
struct Parsed {
    path: Path,
    is_predicate: bool,
    /// How deep its paths nest.
    height: usize,
}

impl Parsed {
    fn leaf(step: Step) -> Parsed {
        Parsed { path: vec![step], is_predicate: false, height: 1 }
    }

    fn above(step: Step, is_predicate: bool, below: usize) -> Result<Parsed> {
        if below >= DEPTH_MAX {
            return Err(too_deep());
        }
        Ok(Parsed { path: vec![step], is_predicate, height: below + 1 })
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token<'a>,
    /// What an error shows of the token.
    shown: &'a str,
    depth: usize,
    steps: usize,
}

impl<'a> Parser<'a> {
    fn next(&mut self) -> Result<Token<'a>> {
        stop::check_at(self.steps)?;
        self.steps += 1;
        let (token, shown) = self.lexer.next()?;
        self.shown = shown;
        Ok(std::mem::replace(&mut self.token, token))
    }

    #[cold]
    fn unexpected(&self) -> SqlError {
        fault("syntax error", self.shown)
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        self.token == Token::Symbol(symbol)
    }

    fn eat(&mut self, symbol: &str) -> Result<bool> {
        let eats = self.is_symbol(symbol);
        if eats {
            self.next()?;
        }
        Ok(eats)
    }

    fn expect(&mut self, symbol: &str) -> Result<()> {
        if self.eat(symbol)? { Ok(()) } else { Err(self.unexpected()) }
    }

    fn is_word(&self, keyword: &str) -> bool {
        matches!(self.token, Token::Word(_, own) if own == keyword)
    }

    fn eat_word(&mut self, keyword: &str) -> Result<bool> {
        let eats = self.is_word(keyword);
        if eats {
            self.next()?;
        }
        Ok(eats)
    }

    fn expect_word(&mut self, keyword: &str) -> Result<()> {
        if self.eat_word(keyword)? { Ok(()) } else { Err(self.unexpected()) }
    }

    /// A text in quotes.
    fn expect_string(&mut self) -> Result<String> {
        match self.token {
            Token::String(_) => match self.next()? {
                Token::String(text) => Ok(text),
                _ => unreachable!("it was a text in quotes"),
            },
            _ => Err(self.unexpected()),
        }
    }

    /// What was read, if it is a predicate or an expression as it must be.
    fn must(&self, read: Parsed, be_predicate: bool) -> Result<Parsed> {
        if read.is_predicate == be_predicate { Ok(read) } else { Err(self.unexpected()) }
    }

    /// The operator that comes next.
    fn operator(&self) -> Option<Operator> {
        Some(match &self.token {
            Token::Symbol(symbol) => match *symbol {
                "||" => Operator::Or,
                "&&" => Operator::And,
                "==" => Operator::Equal,
                "!=" | "<>" => Operator::NotEqual,
                "<" => Operator::Less,
                ">" => Operator::Greater,
                "<=" => Operator::LessOrEqual,
                ">=" => Operator::GreaterOrEqual,
                "+" => Operator::Add,
                "-" => Operator::Subtract,
                "*" => Operator::Multiply,
                "/" => Operator::Divide,
                "%" => Operator::Modulo,
                _ => return None,
            },
            Token::Word(_, "starts") => Operator::StartsWith,
            _ => return None,
        })
    }

    /// An expression or a predicate of operators that bind at least as tightly as `least`.
    fn expression(&mut self, least: u8) -> Result<Parsed> {
        self.depth += 1;
        if self.depth > READ_DEPTH_MAX {
            return Err(too_deep());
        }
        let mut left = self.operand()?;
        loop {
            if least <= 2 && !left.is_predicate && self.eat_word("like_regex")? {
                left = self.like_regex(left)?;
                continue;
            }
            let fits = |op: &Operator| op.priority() >= least && op.is_logical() == left.is_predicate;
            let Some(operator) = self.operator().filter(fits) else { break };
            self.next()?;
            let right = if operator == Operator::StartsWith {
                self.expect_word("with")?;
                match self.token {
                    Token::String(_) | Token::Variable(_) => Parsed::leaf(self.literal()?),
                    _ => return Err(self.unexpected()),
                }
            } else {
                let right = self.expression(operator.priority() + 1)?;
                self.must(right, operator.is_logical())?
            };
            let below = left.height.max(right.height);
            let step = Step::Binary(operator, left.path, right.path);
            left = Parsed::above(step, !operator.is_arithmetic(), below)?;
        }
        self.depth -= 1;
        Ok(left)
    }

    fn like_regex(&mut self, left: Parsed) -> Result<Parsed> {
        let pattern = self.expect_string()?;
        let mut flags = RegexFlags::default();
        if self.eat_word("flag")? {
            for letter in self.expect_string()?.chars() {
                match letter {
                    'i' => flags.ignores_case = true,
                    's' => flags.dot_all = true,
                    'm' => flags.multiline = true,
                    'x' => flags.expanded = true,
                    'q' => flags.quoted = true,
                    other => {
                        let detail =
                            format!("Unrecognized flag character \"{other}\" in LIKE_REGEX predicate.");
                        let message = "invalid input syntax for type jsonpath";
                        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).detail(detail));
                    }
                }
            }
        }
        if flags.expanded && !flags.quoted {
            let message = "XQuery \"x\" flag (expanded regular expressions) is not implemented";
            return Err(SqlError::refused_by_postgresql(message));
        }
        crate::regex::check(&pattern, &flags.letters())?;
        Parsed::above(Step::LikeRegex(left.path, pattern, flags), true, left.height)
    }

    /// null, true, false, a number, a text or a variable.
    fn literal(&mut self) -> Result<Step> {
        let literal = match &self.token {
            Token::Word(_, "null") => Json::Null,
            Token::Word(_, word @ ("true" | "false")) => Json::Bool(*word == "true"),
            Token::Integer(text) | Token::Number(text) => {
                Json::Number(Numeric::parse(text).unwrap_or_else(|| Err(invalid("")))?)
            }
            Token::String(_) | Token::Variable(_) => {
                return Ok(match self.next()? {
                    Token::String(text) => Step::Literal(Json::String(text)),
                    Token::Variable(name) => Step::Variable(name),
                    _ => unreachable!("one of the two"),
                });
            }
            _ => return Err(self.unexpected()),
        };
        self.next()?;
        Ok(Step::Literal(literal))
    }

    /// What stands between operators, with its signs and accessors.
    fn operand(&mut self) -> Result<Parsed> {
        let first = match &self.token {
            Token::Symbol(sign @ ("+" | "-")) => {
                let is_minus = *sign == "-";
                self.next()?;
                let of = self.expression(5)?;
                let of = self.must(of, false)?;
                return match of.path.as_slice() {
                    [Step::Literal(Json::Number(_))] if !is_minus => Ok(of),
                    [Step::Literal(Json::Number(n))] => {
                        Ok(Parsed::leaf(Step::Literal(Json::Number(n.neg()))))
                    }
                    _ => Parsed::above(Step::Sign(is_minus, of.path), false, of.height),
                };
            }
            Token::Symbol("!") => {
                self.next()?;
                let of = match self.is_word("exists") {
                    true => self.exists()?,
                    false => {
                        self.expect("(")?;
                        self.until_closed(true)?
                    }
                };
                return Parsed::above(Step::Not(of.path), true, of.height);
            }
            Token::Symbol("(") => {
                self.next()?;
                let within = self.expression(0)?;
                self.expect(")")?;
                if within.is_predicate && self.eat_word("is")? {
                    self.expect_word("unknown")?;
                    return Parsed::above(Step::IsUnknown(within.path), true, within.height);
                }
                within
            }
            Token::Word(_, "exists") => return self.exists(),
            Token::Symbol("$") => self.single(Step::Root)?,
            Token::Symbol("@") => self.single(Step::Current)?,
            Token::Word(_, "last") => self.single(Step::Last)?,
            _ => Parsed::leaf(self.literal()?),
        };
        self.accessors(first)
    }

    fn single(&mut self, step: Step) -> Result<Parsed> {
        self.next()?;
        Ok(Parsed::leaf(step))
    }

    /// A predicate or an expression, and the parenthesis behind it.
    fn until_closed(&mut self, be_predicate: bool) -> Result<Parsed> {
        let within = self.expression(0)?;
        let within = self.must(within, be_predicate)?;
        self.expect(")")?;
        Ok(within)
    }

    fn exists(&mut self) -> Result<Parsed> {
        self.expect_word("exists")?;
        self.expect("(")?;
        let of = self.until_closed(false)?;
        Parsed::above(Step::Exists(of.path), true, of.height)
    }

    /// The accessors behind an expression, or behind a predicate, which makes an expression of it.
    fn accessors(&mut self, mut of: Parsed) -> Result<Parsed> {
        loop {
            let (step, below) = if self.eat(".")? {
                (self.member()?, 0)
            } else if self.eat("[")? {
                self.subscripts()?
            } else if self.eat("?")? {
                self.expect("(")?;
                let condition = self.until_closed(true)?;
                (Step::Filter(condition.path), condition.height)
            } else {
                return Ok(of);
            };
            if below >= DEPTH_MAX {
                return Err(too_deep());
            }
            of.height = of.height.max(below + 1);
            of.is_predicate = false;
            of.path.push(step);
        }
    }

    /// What stands behind a dot.
    fn member(&mut self) -> Result<Step> {
        if self.eat("*")? {
            return Ok(Step::AnyKey);
        }
        if self.eat("**")? {
            return self.levels();
        }
        let (key, keyword) = match self.token {
            Token::String(_) | Token::Word(..) => match self.next()? {
                Token::Word(key, keyword) => (key, keyword),
                Token::String(key) => (key, ""),
                _ => unreachable!("one of the two"),
            },
            _ => return Err(self.unexpected()),
        };
        let method = Method::named(keyword);
        if (method.is_none() && keyword != "datetime") || !self.eat("(")? {
            return Ok(Step::Key(key));
        }
        let template = match self.token {
            Token::String(_) if method.is_none() => Some(self.expect_string()?),
            _ => None,
        };
        self.expect(")")?;
        Ok(method.map_or(Step::Datetime(template), Step::Method))
    }

    fn levels(&mut self) -> Result<Step> {
        if !self.eat("{")? {
            return Ok(Step::Descend(0, LAST_LEVEL));
        }
        let first = self.level()?;
        let last = if self.eat_word("to")? { self.level()? } else { first };
        self.expect("}")?;
        Ok(Step::Descend(first, last))
    }

    fn level(&mut self) -> Result<u32> {
        let level = match self.token {
            Token::Integer(text) => {
                let number = text.parse::<i32>().map_err(|_| {
                    let message = format!("value \"{text}\" is out of range for type integer");
                    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
                })?;
                number as u32
            }
            Token::Word(_, "last") => LAST_LEVEL,
            _ => return Err(self.unexpected()),
        };
        self.next()?;
        Ok(level)
    }

    /// What stands behind an opening bracket, and how deep it nests.
    fn subscripts(&mut self) -> Result<(Step, usize)> {
        if self.eat("*")? {
            self.expect("]")?;
            return Ok((Step::AnyElement, 0));
        }
        let mut subscripts = Vec::new();
        let mut below = 0;
        loop {
            let from = self.expression(0)?;
            let from = self.must(from, false)?;
            below = below.max(from.height);
            let to = if self.eat_word("to")? {
                let to = self.expression(0)?;
                let to = self.must(to, false)?;
                below = below.max(to.height);
                Some(to.path)
            } else {
                None
            };
            subscripts.push((from.path, to));
            if !self.eat(",")? {
                self.expect("]")?;
                return Ok((Step::Elements(subscripts), below));
            }
        }
    }
}
