//! What stands after FROM: tables, subqueries, functions and joins.

use crate::error::SqlError;
use std::ops::ControlFlow;

use super::ast::{Alias, Expr, FromItem, FromKind, Ident, JoinCondition, JoinKind, Path};
use super::lexer::Tok;
use super::{Parser, Res, keywords};

impl Parser<'_> {
    pub(super) fn source_item(&mut self) -> Res<FromItem> {
        self.deeper(|parser| {
            parser.chained(Parser::source_primary, |parser, left| {
                let longer = parser.join(&left)?;
                Ok(longer.map_or_else(|| ControlFlow::Break(left), ControlFlow::Continue))
            })
        })
    }

    fn join(&mut self, left: &FromItem) -> Res<Option<FromItem>> {
        let pos = self.pos();
        let natural = self.accept_word("natural");
        let kind = if self.accept_words(&["cross", "join"]) {
            JoinKind::Cross
        } else if self.accept_word("inner") {
            self.expect_word("join")?;
            JoinKind::Inner
        } else if self.is_any(&["left", "right", "full"]) {
            let kind = match () {
                () if self.is_word("left") => JoinKind::Left,
                () if self.is_word("right") => JoinKind::Right,
                () => JoinKind::Full,
            };
            self.advance();
            self.accept_word("outer");
            self.expect_word("join")?;
            kind
        } else if self.accept_word("join") {
            JoinKind::Inner
        } else if natural {
            return self.error();
        } else {
            return Ok(None);
        };
        let right =
            if natural || kind == JoinKind::Cross { self.source_primary()? } else { self.join_right()? };
        let condition = if natural {
            JoinCondition::Natural
        } else if kind == JoinKind::Cross {
            JoinCondition::None
        } else if self.accept_word("on") {
            JoinCondition::On(self.expr()?)
        } else {
            self.expect_word("using")?;
            let columns = self.names_in_parens()?;
            let alias = if self.accept_word("as") { Some(self.name()?) } else { None };
            JoinCondition::Using(columns, alias)
        };
        let (left, right) = (Box::new(left.clone()), Box::new(right));
        let kind = FromKind::Join { kind, left, right, condition };
        Ok(Some(FromItem { pos, alias: None, kind }))
    }

    /// `a JOIN b JOIN c ON .. ON ..`: the right side may be a join whose condition comes first.
    fn join_right(&mut self) -> Res<FromItem> {
        let right = self.source_primary()?;
        if self.is_any(&["on", "using"]) {
            return Ok(right);
        }
        match self.join(&right)? {
            Some(joined) => Ok(joined),
            None => self.error(),
        }
    }

    pub(super) fn table_item(&mut self) -> Res<FromItem> {
        let pos = self.pos();
        self.accept_word("only");
        let parens = self.accept('(');
        let name = self.path()?;
        if parens {
            self.expect(')')?;
        }
        self.accept_op("*");
        Ok(FromItem { pos, alias: None, kind: FromKind::Table { name } })
    }

    fn source_primary(&mut self) -> Res<FromItem> {
        let pos = self.pos();
        let lateral = self.accept_word("lateral");
        if self.is('(') {
            if let Some(query) = self.try_query_in_parens()? {
                let alias = self.alias()?;
                let kind = FromKind::Query { lateral, query: Box::new(query) };
                return Ok(FromItem { pos, alias, kind });
            }
            self.expect('(')?;
            let mut item = self.source_item()?;
            self.expect(')')?;
            if let FromKind::Join { .. } = item.kind {
                item.alias = self.alias()?;
            } else if self.is_alias() {
                return self.error();
            }
            return Ok(item);
        }
        if self.are_words(&["rows", "from"]) && self.peek_at(2) == &Tok::Punct('(') {
            self.expect_words(&["rows", "from"])?;
            self.expect('(')?;
            let calls = self.list(Parser::function_item)?;
            self.expect(')')?;
            return self.functions(lateral, calls, pos);
        }
        if self.is_function() {
            let call = self.function_item()?;
            return self.functions(lateral, vec![call], pos);
        }
        let mut item = self.table_item()?;
        item.alias = self.alias()?;
        if self.is_word("tablesample") {
            return Err(SqlError::unsupported("TABLESAMPLE", "Use WHERE random() < 0.1."));
        }
        Ok(item)
    }

    fn functions(&mut self, lateral: bool, calls: Vec<Expr>, pos: super::Pos) -> Res<FromItem> {
        let ordinality = self.accept_words(&["with", "ordinality"]);
        let alias = self.alias()?;
        Ok(FromItem { pos, alias, kind: FromKind::Functions { lateral, calls, ordinality } })
    }

    fn is_function(&self) -> bool {
        let mut ahead = 0;
        loop {
            match self.peek_at(ahead) {
                Tok::Quoted(_) => {}
                Tok::Word(word) if ahead > 0 || keywords::may_name_function(word) => {}
                Tok::Word(word) => return word.starts_with("current_") || word == "coalesce",
                _ => return false,
            }
            match self.peek_at(ahead + 1) {
                Tok::Punct('(') => return true,
                Tok::Punct('.') => ahead += 2,
                _ => return false,
            }
        }
    }

    fn function_item(&mut self) -> Res<Expr> {
        self.expr_above(super::expr::PRIMARY)
    }

    fn is_alias(&self) -> bool {
        match self.peek() {
            Tok::Quoted(_) => true,
            Tok::Word(word) => word == "as" || keywords::may_name_column(word),
            _ => false,
        }
    }

    fn alias(&mut self) -> Res<Option<Alias>> {
        if !self.is_alias() {
            return Ok(None);
        }
        self.accept_word("as");
        let (mut columns, mut definitions) = (Vec::new(), Vec::new());
        if self.is('(') {
            let name = Ident { text: String::new(), pos: self.pos() };
            definitions = self.definitions()?;
            return Ok(Some(Alias { name, columns, definitions }));
        }
        let name = self.name()?;
        if self.is('(') {
            if matches!(self.peek_at(2), Tok::Punct(',' | ')')) {
                columns = self.names_in_parens()?;
            } else {
                definitions = self.definitions()?;
            }
        }
        Ok(Some(Alias { name, columns, definitions }))
    }

    fn definitions(&mut self) -> Res<Vec<(Ident, super::TypeName)>> {
        self.expect('(')?;
        let definitions = self.list(|parser| Ok((parser.name()?, parser.type_name()?)))?;
        self.expect(')')?;
        Ok(definitions)
    }

    /// The target of INSERT, UPDATE or DELETE with its alias.
    pub(super) fn target_table(&mut self, stop: &[&str]) -> Res<(Path, Option<Ident>)> {
        self.accept_word("only");
        let name = self.path()?;
        self.accept_op("*");
        if self.accept_word("as") {
            return Ok((name, Some(self.name()?)));
        }
        let alias = if self.is_alias() && !self.is_any(stop) { Some(self.name()?) } else { None };
        Ok((name, alias))
    }
}
