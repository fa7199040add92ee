//! Statements that are planned and run over rows.

use super::{Change, Cte, OutColumn, Query, Target};

/// A statement that is planned and run over rows.
#[derive(Clone, Debug)]
pub(crate) enum BoundStatement {
    Query(Box<Query>),
    Change(Change),
}

impl BoundStatement {
    /// Its WITH.
    pub(crate) fn ctes(&self) -> &[Cte] {
        match self {
            BoundStatement::Query(query) => &query.ctes,
            BoundStatement::Change(Change::Insert(insert)) => &insert.ctes,
            BoundStatement::Change(Change::Update(update)) => &update.ctes,
            BoundStatement::Change(Change::Delete(delete)) => &delete.ctes,
            BoundStatement::Change(Change::Merge(merge)) => &merge.ctes,
        }
    }

    pub(crate) fn ctes_mut(&mut self) -> &mut [Cte] {
        match self {
            BoundStatement::Query(query) => &mut query.ctes,
            BoundStatement::Change(Change::Insert(insert)) => &mut insert.ctes,
            BoundStatement::Change(Change::Update(update)) => &mut update.ctes,
            BoundStatement::Change(Change::Delete(delete)) => &mut delete.ctes,
            BoundStatement::Change(Change::Merge(merge)) => &mut merge.ctes,
        }
    }
}

impl Change {
    /// Those of RETURNING; none without.
    pub(crate) fn columns(&self) -> &[OutColumn] {
        let returning = match self {
            Change::Insert(insert) => &insert.returning,
            Change::Update(update) => &update.returning,
            Change::Delete(delete) => &delete.returning,
            Change::Merge(_) => &None,
        };
        returning.as_ref().map_or(&[], |returning| &returning.columns)
    }

    pub(crate) fn target(&self) -> &Target {
        match self {
            Change::Insert(insert) => &insert.target,
            Change::Update(update) => &update.target,
            Change::Delete(delete) => &delete.target,
            Change::Merge(merge) => &merge.target,
        }
    }
}
