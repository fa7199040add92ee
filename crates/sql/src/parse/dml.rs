//! INSERT, UPDATE, DELETE, MERGE, TRUNCATE.

use super::ast::{
    Assignment, Body, ConflictTarget, Delete, Ident, Insert, Kind, Merge, MergeAction, OnConflict, Query,
    Statement, Subscript, Target, Update, When, With,
};
use super::{Parser, Pos, Res};
use crate::error::SqlError;

impl Parser<'_> {
    /// A statement that may begin with WITH.
    pub(super) fn data_statement(&mut self) -> Res<Statement> {
        let with = self.with()?;
        if self.is_word("insert") {
            return Ok(Statement::Insert(Box::new(self.insert(with)?)));
        }
        if self.is_word("update") {
            return Ok(Statement::Update(Box::new(self.update(with)?)));
        }
        if self.is_word("delete") {
            return Ok(Statement::Delete(Box::new(self.delete(with)?)));
        }
        if self.is_word("merge") {
            return Ok(Statement::Merge(Box::new(self.merge(with)?)));
        }
        self.query_after(with).map(Statement::Query)
    }

    fn insert(&mut self, with: Option<With>) -> Res<Insert> {
        self.expect_words(&["insert", "into"])?;
        let table = self.path()?;
        let alias = if self.accept_word("as") { Some(self.name()?) } else { None };
        let (mut columns, mut parts) = (Vec::new(), Vec::new());
        if self.is('(') && !self.is_query_in_parens() {
            self.expect('(')?;
            (columns, parts) = self.list(Parser::column_or_part)?.into_iter().unzip();
            self.expect(')')?;
        }
        if parts.iter().all(Vec::is_empty) {
            parts.clear();
        }
        let overriding = self.overriding()?;
        // DEFAULT VALUES stands by itself.
        let alone = columns.is_empty() && overriding.is_none();
        let source = if alone && self.accept_words(&["default", "values"]) {
            None
        } else if self.is_query_next() {
            Some(self.query()?)
        } else {
            return self.error();
        };
        let pos = self.pos();
        let conflict =
            if self.accept_words(&["on", "conflict"]) { Some(self.on_conflict(pos)?) } else { None };
        let returning = self.returning()?;
        Ok(Insert { with, table, alias, columns, parts, overriding, source, conflict, returning })
    }

    fn overriding(&mut self) -> Res<Option<bool>> {
        if !self.accept_word("overriding") {
            return Ok(None);
        }
        let system = self.accept_word("system");
        if !system {
            self.expect_word("user")?;
        }
        self.expect_word("value")?;
        Ok(Some(system))
    }

    fn merge(&mut self, with: Option<With>) -> Res<Merge> {
        self.expect_words(&["merge", "into"])?;
        let (table, alias) = self.target_table(&["using"])?;
        self.expect_word("using")?;
        let source = self.source_item()?;
        self.expect_word("on")?;
        let on = self.expr()?;
        let mut whens = vec![self.when()?];
        while self.is_word("when") {
            whens.push(self.when()?);
        }
        Ok(Merge { with, table, alias, source, on, whens })
    }

    fn when(&mut self) -> Res<When> {
        self.expect_word("when")?;
        let matched = !self.accept_word("not");
        self.expect_word("matched")?;
        let condition = if self.accept_word("and") { Some(self.expr()?) } else { None };
        self.expect_word("then")?;
        let action = if self.accept_words(&["do", "nothing"]) {
            MergeAction::Nothing
        } else if matched && self.accept_word("delete") {
            MergeAction::Delete
        } else if matched && self.accept_words(&["update", "set"]) {
            MergeAction::Update(self.list(Parser::assignment)?)
        } else if !matched && self.accept_word("insert") {
            let columns = if self.is('(') { self.names_in_parens()? } else { Vec::new() };
            let overriding = self.overriding()?;
            let values = if columns.is_empty() && self.accept_words(&["default", "values"]) {
                None
            } else {
                self.expect_word("values")?;
                self.expect('(')?;
                let values = self.list(Parser::expr)?;
                self.expect(')')?;
                Some(values)
            };
            MergeAction::Insert { columns, overriding, values }
        } else {
            return self.error();
        };
        Ok(When { matched, condition, action })
    }

    fn is_query_in_parens(&self) -> bool {
        let mut ahead = 0;
        while self.peek_at(ahead) == &super::Tok::Punct('(') {
            ahead += 1;
        }
        ["select", "values", "with", "table"].iter().any(|word| self.is_word_at(ahead, word))
    }

    fn returning(&mut self) -> Res<Vec<Target>> {
        if self.accept_word("returning") { self.targets() } else { Ok(Vec::new()) }
    }

    fn on_conflict(&mut self, pos: Pos) -> Res<OnConflict> {
        let target = if self.accept_words(&["on", "constraint"]) {
            ConflictTarget::Constraint(self.name()?)
        } else if self.is('(') {
            let at = self.pos();
            self.expect('(')?;
            let columns = self.list(|parser| {
                let expr = parser.expr()?;
                if let super::Tok::Word(word) = parser.peek()
                    && word.ends_with("_ops")
                {
                    parser.advance();
                }
                Ok(expr)
            })?;
            self.expect(')')?;
            let filter = if self.accept_word("where") { Some(self.expr()?) } else { None };
            ConflictTarget::Columns(columns, filter, at)
        } else {
            ConflictTarget::None
        };
        self.expect_word("do")?;
        if self.accept_word("nothing") {
            return Ok(OnConflict { target, update: None, pos });
        }
        self.expect_words(&["update", "set"])?;
        let set = self.list(Parser::assignment)?;
        let filter = if self.accept_word("where") { Some(self.expr()?) } else { None };
        Ok(OnConflict { target, update: Some((set, filter)), pos })
    }

    fn assignment(&mut self) -> Res<Assignment> {
        if self.is('(') {
            let columns = self.names_in_parens()?;
            self.expect_op()?;
            let value = self.expr()?;
            return Ok(Assignment { columns, part: Vec::new(), row: true, value });
        }
        let (name, part) = self.column_or_part()?;
        self.expect_op()?;
        let value = self.expr()?;
        Ok(Assignment { columns: vec![name], part, row: false, value })
    }

    /// A column, and the elements of it that get a value if not all do.
    fn column_or_part(&mut self) -> Res<(Ident, Vec<Subscript>)> {
        let name = self.name()?;
        if self.is('.') {
            return Err(SqlError::unsupported(
                "assignment to a field of a column",
                "Assign the whole value.",
            ));
        }
        Ok((name, self.subscript_list()?))
    }

    fn expect_op(&mut self) -> Res<()> {
        if self.accept_op("=") { Ok(()) } else { self.error() }
    }

    fn update(&mut self, with: Option<With>) -> Res<Update> {
        self.expect_word("update")?;
        let (table, alias) = self.target_table(&["set"])?;
        self.expect_word("set")?;
        let set = self.list(Parser::assignment)?;
        let from = if self.accept_word("from") { self.list(Parser::source_item)? } else { Vec::new() };
        let filter = self.filter()?;
        let returning = self.returning()?;
        Ok(Update { with, table, alias, set, from, filter, returning })
    }

    fn filter(&mut self) -> Res<Option<super::Expr>> {
        if !self.accept_word("where") {
            return Ok(None);
        }
        if self.are_words(&["current", "of"]) {
            return Err(SqlError::unsupported(
                "WHERE CURRENT OF",
                "Fetch the key of the row, and say WHERE key = ...",
            ));
        }
        self.expr().map(Some)
    }

    fn delete(&mut self, with: Option<With>) -> Res<Delete> {
        self.expect_words(&["delete", "from"])?;
        let (table, alias) = self.target_table(&["using", "where", "returning"])?;
        let using = if self.accept_word("using") { self.list(Parser::source_item)? } else { Vec::new() };
        let filter = self.filter()?;
        let returning = self.returning()?;
        Ok(Delete { with, table, alias, using, filter, returning })
    }

    pub(super) fn truncate(&mut self) -> Res<Statement> {
        self.expect_word("truncate")?;
        self.accept_word("table");
        let tables = self.list(|parser| {
            parser.accept_word("only");
            let path = parser.path();
            parser.accept_op("*");
            path
        })?;
        let restart = if self.accept_words(&["continue", "identity"]) {
            false
        } else {
            self.accept_words(&["restart", "identity"])
        };
        let cascade = self.cascade();
        Ok(Statement::Truncate { tables, restart, cascade })
    }
}

impl Query {
    /// The rows of a plain VALUES list.
    pub(crate) fn values(&self) -> Option<&Vec<Vec<super::Expr>>> {
        let bare =
            self.with.is_none() && self.order_by.is_empty() && self.limit.is_none() && self.offset.is_none();
        match &self.body {
            Body::Values(rows) if bare => Some(rows),
            _ => None,
        }
    }

    /// Does its WITH change rows?
    pub(crate) fn changes_rows(&self) -> bool {
        let changes = |cte: &super::ast::Cte| !matches!(cte.statement, Statement::Query(_));
        self.with.as_ref().is_some_and(|with| with.tables.iter().any(changes))
    }

    /// Does DEFAULT stand anywhere in its VALUES?
    pub(crate) fn has_default(&self) -> bool {
        self.values().is_some_and(|rows| rows.iter().flatten().any(|e| e.kind == Kind::Default))
    }
}
