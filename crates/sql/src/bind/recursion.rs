//! Where a recursive query may name itself: once in its second part, where each round's rows can be made from
//! those of the round before. PostgreSQL's rules (its `parse_cte.c`), and its words.

use super::Binder;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::Pos;
use crate::parse::ast::{self, JoinKind, SetKind};
use crate::tree::{Body, CteKind, Expr, From, Query, Select};

/// What a reference stands in that it must not stand in.
type Within = Option<&'static str>;

impl Binder<'_> {
    /// Checks the second part of a recursive query, which names itself at these places.
    pub(super) fn recursion(name: &str, id: usize, step: &Query, places: &[Pos]) -> Result<()> {
        let mut found = Vec::new();
        of_query(step, id, None, &mut found);
        for (at, within) in found.into_iter().enumerate() {
            let wrong = match within {
                Some(what) => format!("within {what}"),
                None if at > 0 => "more than once".to_string(),
                None => continue,
            };
            let message = format!("recursive reference to query \"{name}\" must not appear {wrong}");
            let error = SqlError::new(SqlState::INVALID_RECURSION, message);
            return Err(places.get(at).map_or(error.clone(), |pos| error.at(pos + 1)));
        }
        Ok(())
    }

    /// What follows the UNION of a recursive query has no meaning for its rounds.
    pub(super) fn recursion_tail(query: &ast::Query) -> Result<()> {
        let tail = [
            ("ORDER BY", query.order_by.first().map(|key| key.expr.pos)),
            ("OFFSET", query.offset.as_ref().map(|expr| expr.pos)),
            ("LIMIT", query.limit.as_ref().map(|expr| expr.pos)),
        ];
        for (what, pos) in tail {
            if let Some(pos) = pos {
                let message = format!("{what} in a recursive query is not implemented");
                return Err(SqlError::refused_by_postgresql(message).at(pos + 1));
            }
        }
        if !query.locking.is_empty() {
            let message = "FOR UPDATE/SHARE in a recursive query is not implemented";
            return Err(SqlError::refused_by_postgresql(message));
        }
        Ok(())
    }
}

fn of_query(query: &Query, id: usize, within: Within, found: &mut Vec<Within>) {
    for cte in &query.ctes {
        if let CteKind::Query(query) = &cte.kind {
            of_query(query, id, within, found);
        }
    }
    match &query.body {
        Body::Select(select) => of_select(select, id, within, found),
        Body::Values(rows) => rows.iter().flatten().for_each(|expr| of_expr(expr, id, found)),
        Body::Set { kind, all, left, right, .. } => {
            let (mut first, mut second) = (within, within);
            match kind {
                SetKind::Union => {}
                SetKind::Intersect if *all => (first, second) = (Some("INTERSECT"), Some("INTERSECT")),
                SetKind::Intersect => {}
                SetKind::Except => {
                    second = Some("EXCEPT");
                    first = if *all { second } else { first };
                }
            }
            of_query(left, id, first, found);
            of_query(right, id, second, found);
        }
    }
}

fn of_select(select: &Select, id: usize, within: Within, found: &mut Vec<Within>) {
    of_from(&select.from, id, within, found);
    let mut rest = select.clone();
    rest.from = From::One;
    rest.walk(0, &mut |part, _| of_part(part, id, found));
}

fn of_from(from: &From, id: usize, within: Within, found: &mut Vec<Within>) {
    match from {
        From::Cte { id: named, .. } if *named == id => found.push(within),
        From::Query { query, .. } => of_query(query, id, within, found),
        From::Join { kind, left, right, on, .. } => {
            let outer = |nullable: bool| if nullable { Some("an outer join") } else { within };
            of_from(left, id, outer(matches!(kind, JoinKind::Right | JoinKind::Full)), found);
            of_from(right, id, outer(matches!(kind, JoinKind::Left | JoinKind::Full)), found);
            on.iter().for_each(|expr| of_expr(expr, id, found));
        }
        _ => {}
    }
}

fn of_expr(expr: &Expr, id: usize, found: &mut Vec<Within>) {
    expr.clone().walk(0, &mut |part, _| of_part(part, id, found));
}

fn of_part(part: &Expr, id: usize, found: &mut Vec<Within>) -> bool {
    let Expr::Subquery(subquery) = part else { return false };
    of_query(&subquery.query, id, Some("a subquery"), found);
    true
}
