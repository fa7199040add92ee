//! SELECT, VALUES, TABLE, WITH, set operations and their tails (ORDER BY, LIMIT, FOR UPDATE).

use std::ops::ControlFlow;

use super::ast::{
    Body, Bound, Cte, Distinct, Exclusion, Expr, Frame, FrameUnit, GroupItem, Into, Kind, LockStrength,
    LockWait, Locking, Over, Query, Select, SetKind, SortBy, Target, WindowDef, With,
};
use super::expr::node;
use super::lexer::Tok;
use super::{Parser, Res, keywords};
use crate::error::{SqlError, SqlState};

impl Parser<'_> {
    fn starts_query(&self) -> bool {
        self.is_any(&["select", "values", "with", "table"])
    }

    /// `( query )` if that is what stands here; otherwise nothing is taken.
    pub(super) fn try_query_in_parens(&mut self) -> Res<Option<Query>> {
        let (start, height) = (self.at, self.height);
        let mut ahead = 0;
        while self.peek_at(ahead) == &Tok::Punct('(') {
            ahead += 1;
        }
        let words = ["select", "values", "with", "table"];
        let query = matches!(self.peek_at(ahead), Tok::Word(w) if words.contains(&w.as_str()));
        if ahead == 0 || !query {
            return Ok(None);
        }
        self.advance();
        let result = self.query();
        match result {
            Ok(query) if self.accept(')') => Ok(Some(query)),
            Err(error) if ahead == 1 => Err(error),
            Ok(_) if ahead == 1 => self.error(),
            _ => {
                (self.at, self.height) = (start, height);
                Ok(None)
            }
        }
    }

    pub(super) fn query(&mut self) -> Res<Query> {
        self.deeper(|parser| {
            let with = parser.with()?;
            parser.query_after(with)
        })
    }

    pub(super) fn with(&mut self) -> Res<Option<With>> {
        if !self.accept_word("with") {
            return Ok(None);
        }
        let recursive = self.accept_word("recursive");
        let tables = self.list(Parser::cte)?;
        Ok(Some(With { recursive, tables }))
    }

    fn cte(&mut self) -> Res<Cte> {
        let name = self.name()?;
        let columns = if self.is('(') { self.names_in_parens()? } else { Vec::new() };
        self.expect_word("as")?;
        let materialized = if self.accept_words(&["not", "materialized"]) {
            Some(false)
        } else {
            self.accept_word("materialized").then_some(true)
        };
        self.expect('(')?;
        let statement = self.statement()?;
        self.expect(')')?;
        if self.are_words(&["search", "depth"]) || self.are_words(&["search", "breadth"]) {
            return Err(SqlError::unsupported(
                "SEARCH",
                "Keep the path in an array column, and order by that.",
            ));
        }
        if self.is_word("cycle") {
            return Err(SqlError::unsupported(
                "CYCLE",
                "Keep the path in an array column, and stop where it has the row already.",
            ));
        }
        Ok(Cte { name, columns, materialized, statement })
    }

    pub(super) fn query_after(&mut self, with: Option<With>) -> Res<Query> {
        let pos = self.pos();
        let mut query = self.set_operations()?;
        if with.is_some() {
            if query.with.is_some() {
                return self.error();
            }
            query.with = with;
        }
        query.pos = pos;
        self.query_tail(&mut query)?;
        Ok(query)
    }

    /// UNION and EXCEPT bind alike, INTERSECT binds stronger.
    fn set_operations(&mut self) -> Res<Query> {
        self.chained(Parser::intersections, |parser, left| {
            let kind = match () {
                () if parser.is_word("union") => SetKind::Union,
                () if parser.is_word("except") => SetKind::Except,
                () => return Ok(ControlFlow::Break(left)),
            };
            parser.set_operation(left, kind, Parser::intersections).map(ControlFlow::Continue)
        })
    }

    fn intersections(&mut self) -> Res<Query> {
        self.chained(Parser::query_primary, |parser, left| match parser.is_word("intersect") {
            true => {
                let operation = parser.set_operation(left, SetKind::Intersect, Parser::query_primary);
                operation.map(ControlFlow::Continue)
            }
            false => Ok(ControlFlow::Break(left)),
        })
    }

    fn set_operation(
        &mut self,
        left: Query,
        kind: SetKind,
        right: fn(&mut Self) -> Res<Query>,
    ) -> Res<Query> {
        let pos = left.pos;
        self.advance();
        let all = self.accept_word("all");
        if !all {
            self.accept_word("distinct");
        }
        let (left, right) = (Box::new(left), Box::new(right(self)?));
        Ok(plain(Body::Set { kind, all, left, right }, pos))
    }

    fn query_primary(&mut self) -> Res<Query> {
        let pos = self.pos();
        if self.accept('(') {
            let query = self.query()?;
            self.expect(')')?;
            return Ok(query);
        }
        let body = if self.accept_word("values") {
            Body::Values(self.list(|parser| {
                parser.expect('(')?;
                let row = parser.exprs()?;
                parser.expect(')')?;
                Ok(row)
            })?)
        } else if self.accept_word("table") {
            let item = self.table_item()?;
            let star = Target { expr: node(pos, Kind::Star(Vec::new())), alias: None };
            Body::Select(Box::new(Select { targets: vec![star], from: vec![item], ..Select::empty() }))
        } else if self.accept_word("select") {
            Body::Select(Box::new(self.select()?))
        } else {
            return self.error();
        };
        Ok(plain(body, pos))
    }

    fn select(&mut self) -> Res<Select> {
        let mut select = Select::empty();
        if self.accept_word("distinct") {
            select.distinct = if self.accept_word("on") {
                self.expect('(')?;
                let list = self.exprs()?;
                self.expect(')')?;
                Distinct::On(list)
            } else {
                Distinct::Rows
            };
        } else {
            self.accept_word("all");
        }
        let ends = [
            "from",
            "where",
            "group",
            "having",
            "window",
            "order",
            "limit",
            "offset",
            "union",
            "intersect",
            "except",
            "for",
            "fetch",
            "into",
        ];
        let empty = matches!(self.peek(), Tok::End | Tok::Punct(';' | ')')) || self.is_any(&ends);
        if !empty {
            select.targets = self.targets()?;
        }
        if self.accept_word("into") {
            self.accept_any(&["local", "global"]);
            let temporary = self.accept_any(&["temporary", "temp"]);
            let unlogged = !temporary && self.accept_word("unlogged");
            self.accept_word("table");
            let storing = super::ast::Storing { unlogged, ..Default::default() };
            select.into = Some(Into { name: self.path()?, temporary, on_commit: None, storing });
        }
        if self.accept_word("from") {
            select.from = self.list(Parser::source_item)?;
        }
        if self.accept_word("where") {
            select.filter = Some(self.expr()?);
        }
        if self.accept_words(&["group", "by"]) {
            if !self.accept_word("all") {
                self.accept_word("distinct");
            }
            select.group_by = self.list(Parser::group_item)?;
        }
        if self.accept_word("having") {
            select.having = Some(self.expr()?);
        }
        if self.accept_word("window") {
            select.windows = self.list(|parser| {
                let name = parser.name()?;
                parser.expect_word("as")?;
                Ok((name, parser.window()?))
            })?;
        }
        Ok(select)
    }

    pub(super) fn accept_any(&mut self, words: &[&str]) -> bool {
        let is = self.is_any(words);
        if is {
            self.advance();
        }
        is
    }

    /// The list after SELECT or RETURNING.
    pub(super) fn targets(&mut self) -> Res<Vec<Target>> {
        self.list(|parser| {
            let pos = parser.pos();
            if parser.accept_op("*") {
                return Ok(Target { expr: node(pos, Kind::Star(Vec::new())), alias: None });
            }
            let expr = parser.expr()?;
            let alias = if parser.accept_word("as") {
                Some(parser.label()?.text)
            } else {
                match parser.peek() {
                    Tok::Quoted(text) => Some(text.clone()),
                    Tok::Word(text) if keywords::may_be_bare_label(text) => Some(text.clone()),
                    _ => None,
                }
                .inspect(|_| parser.advance())
            };
            Ok(Target { expr, alias })
        })
    }

    fn group_item(&mut self) -> Res<GroupItem> {
        if self.is('(') && self.peek_at(1) == &Tok::Punct(')') {
            self.advance();
            self.advance();
            return Ok(GroupItem::Empty);
        }
        if self.accept_word("rollup") {
            return self.group_lists().map(GroupItem::Rollup);
        }
        if self.is_word("cube") && self.peek_at(1) == &Tok::Punct('(') {
            self.advance();
            return self.group_lists().map(GroupItem::Cube);
        }
        if self.accept_words(&["grouping", "sets"]) {
            self.expect('(')?;
            let sets = self.list(Parser::group_item)?;
            self.expect(')')?;
            return Ok(GroupItem::Sets(sets));
        }
        let expr = self.expr()?;
        Ok(match expr.kind {
            Kind::Row(list, false) => GroupItem::List(list),
            _ => GroupItem::Expr(expr),
        })
    }

    fn group_lists(&mut self) -> Res<Vec<Vec<Expr>>> {
        self.expect('(')?;
        let lists = self.list(|parser| {
            let expr = parser.expr()?;
            Ok(match expr.kind {
                Kind::Row(list, _) => list,
                _ => vec![expr],
            })
        })?;
        self.expect(')')?;
        Ok(lists)
    }

    pub(super) fn order_by(&mut self) -> Res<Vec<SortBy>> {
        if !self.accept_words(&["order", "by"]) {
            return Ok(Vec::new());
        }
        self.list(|parser| {
            let expr = parser.expr()?;
            let mut sort = SortBy { expr, descending: false, nulls_first: None, using: None };
            if parser.accept_word("desc") {
                sort.descending = true;
            } else if parser.accept_word("using") {
                let Tok::Op(op) = parser.peek().clone() else { return parser.error() };
                parser.advance();
                sort.descending = op == ">";
                sort.using = Some(op);
            } else {
                parser.accept_word("asc");
            }
            if parser.accept_word("nulls") {
                sort.nulls_first = Some(parser.is_word("first"));
                if !parser.accept_any(&["first", "last"]) {
                    return parser.error();
                }
            }
            Ok(sort)
        })
    }

    fn query_tail(&mut self, query: &mut Query) -> Res<()> {
        let order = self.order_by()?;
        if !order.is_empty() {
            query.order_by = order;
        }
        loop {
            if self.accept_word("limit") {
                query.limit = if self.accept_word("all") { None } else { Some(self.expr()?) };
                if self.is(',') {
                    return self.error();
                }
            } else if self.accept_word("offset") {
                query.offset = Some(self.expr()?);
                self.accept_any(&["row", "rows"]);
            } else if self.accept_word("fetch") {
                self.fetch_clause(query)?;
            } else if self.is_word("for") && !self.is_word_at(1, "system_time") {
                let locking = self.locking()?;
                query.locking.extend(locking);
            } else {
                return Ok(());
            }
        }
    }

    fn fetch_clause(&mut self, query: &mut Query) -> Res<()> {
        if !self.accept_any(&["first", "next"]) {
            return self.error();
        }
        let pos = self.pos();
        query.limit = Some(if self.is_any(&["row", "rows"]) {
            node(pos, Kind::Integer("1".to_string()))
        } else {
            self.simple_expr()?
        });
        if !self.accept_any(&["row", "rows"]) {
            return self.error();
        }
        if self.accept_words(&["with", "ties"]) {
            query.with_ties = true;
            return Ok(());
        }
        self.expect_word("only")
    }

    fn locking(&mut self) -> Res<Option<Locking>> {
        self.expect_word("for")?;
        if self.accept_words(&["read", "only"]) {
            return Ok(None);
        }
        let strength = if self.accept_words(&["no", "key", "update"]) {
            LockStrength::NoKeyUpdate
        } else if self.accept_words(&["key", "share"]) {
            LockStrength::KeyShare
        } else if self.accept_word("update") {
            LockStrength::Update
        } else {
            self.expect_word("share")?;
            LockStrength::Share
        };
        let of = if self.accept_word("of") { self.names()? } else { Vec::new() };
        let wait = if self.accept_word("nowait") {
            LockWait::Error
        } else if self.accept_words(&["skip", "locked"]) {
            LockWait::Skip
        } else {
            LockWait::Block
        };
        Ok(Some(Locking { strength, of, wait }))
    }

    pub(super) fn over(&mut self) -> Res<Over> {
        if self.is('(') { self.window().map(Over::Window) } else { self.name().map(Over::Name) }
    }

    fn window(&mut self) -> Res<WindowDef> {
        self.expect('(')?;
        let mut window = WindowDef::default();
        let clause = self.is_any(&["partition", "order", "rows", "range", "groups"]);
        if !self.is(')') && !clause {
            window.base = Some(self.name()?);
        }
        if self.accept_words(&["partition", "by"]) {
            window.partition_by = self.exprs()?;
        }
        window.order_by = self.order_by()?;
        let pos = self.pos();
        let unit = if self.accept_word("rows") {
            Some(FrameUnit::Rows)
        } else if self.accept_word("range") {
            Some(FrameUnit::Range)
        } else {
            self.accept_word("groups").then_some(FrameUnit::Groups)
        };
        if let Some(unit) = unit {
            let [start, end] = self.bounds()?;
            let exclusion = self.exclusion()?;
            window.frame = Some(Frame { unit, start, end, exclusion, pos });
        }
        self.expect(')')?;
        Ok(window)
    }

    /// The first and last row of a frame, which must be in this order as far as their words say.
    fn bounds(&mut self) -> Res<[Bound<Box<Expr>>; 2]> {
        let between = self.accept_word("between");
        let first = self.pos();
        let start = self.bound()?;
        let (mut last, mut end) = (first, Bound::CurrentRow);
        if between {
            self.expect_word("and")?;
            last = self.pos();
            end = self.bound()?;
        }
        let (message, at) = match (&start, &end) {
            (Bound::UnboundedFollowing, _) => ("frame start cannot be UNBOUNDED FOLLOWING", first),
            (_, Bound::UnboundedPreceding) => ("frame end cannot be UNBOUNDED PRECEDING", last),
            (Bound::CurrentRow, Bound::Preceding(_)) => {
                ("frame starting from current row cannot have preceding rows", last)
            }
            (Bound::Following(_), Bound::CurrentRow) if !between => {
                ("frame starting from following row cannot end with current row", first)
            }
            (Bound::Following(_), Bound::CurrentRow | Bound::Preceding(_)) => {
                ("frame starting from following row cannot have preceding rows", last)
            }
            _ => return Ok([start, end]),
        };
        Err(SqlError::new(SqlState::WINDOWING_ERROR, message).at(at + 1))
    }

    fn exclusion(&mut self) -> Res<Exclusion> {
        if !self.accept_word("exclude") {
            return Ok(Exclusion::None);
        }
        if self.accept_words(&["current", "row"]) {
            return Ok(Exclusion::CurrentRow);
        }
        if self.accept_words(&["no", "others"]) {
            return Ok(Exclusion::None);
        }
        if self.accept_word("group") {
            return Ok(Exclusion::Group);
        }
        self.expect_word("ties")?;
        Ok(Exclusion::Ties)
    }

    fn bound(&mut self) -> Res<Bound<Box<Expr>>> {
        if self.accept_words(&["current", "row"]) {
            return Ok(Bound::CurrentRow);
        }
        if self.accept_word("unbounded") {
            if self.accept_word("preceding") {
                return Ok(Bound::UnboundedPreceding);
            }
            self.expect_word("following")?;
            return Ok(Bound::UnboundedFollowing);
        }
        let offset = Box::new(self.expr()?);
        if self.accept_word("preceding") {
            return Ok(Bound::Preceding(offset));
        }
        self.expect_word("following")?;
        Ok(Bound::Following(offset))
    }

    pub(super) fn is_query_next(&self) -> bool {
        self.starts_query() || self.is('(')
    }
}

fn plain(body: Body, pos: super::Pos) -> Query {
    let (order_by, locking) = (Vec::new(), Vec::new());
    Query { with: None, body, order_by, limit: None, offset: None, with_ties: false, locking, pos }
}

impl Select {
    fn empty() -> Select {
        Select {
            distinct: Distinct::No,
            targets: Vec::new(),
            into: None,
            from: Vec::new(),
            filter: None,
            group_by: Vec::new(),
            having: None,
            windows: Vec::new(),
        }
    }
}
