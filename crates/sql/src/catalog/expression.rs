//! Texts of objects that are bound again wherever they are used (exec/define/names.rs says how they are
//! kept).

use serde::{Deserialize, Serialize};

use super::object::{Indexed, Object, Rule, Table, UserTypeKind, View};
use crate::types::Oid;

/// An expression or a query as text, and what it refers to.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Expression {
    /// The text.
    pub sql: String,
    /// The objects in it: relations, sequences, types.
    #[serde(default)]
    pub depends: Vec<Oid>,
    /// The columns in it by relation and number from 1.
    #[serde(default)]
    pub columns: Vec<(Oid, i16)>,
}

impl Expression {
    /// A text that refers to nothing.
    pub fn plain(sql: impl Into<String>) -> Expression {
        Expression { sql: sql.into(), ..Expression::default() }
    }

    /// Whether a column is in it, from 0.
    pub fn has_column(&self, relation: Oid, column: u16) -> bool {
        self.columns.contains(&(relation, column as i16 + 1))
    }
}

/// What a table has that is a materialized view: the text of its query. It has no defaults and constraints.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Materialized {
    /// The query.
    pub query: Expression,
    /// The query has given it its rows: it may be read.
    pub populated: bool,
}

impl Table {
    /// A materialized view as the view that its query would be.
    pub fn as_view(&self) -> Option<View> {
        let query = self.materialized.as_ref()?.query.clone();
        let (name, columns, options) = (self.name.clone(), self.columns.clone(), self.options.clone());
        let (oid, schema, owner) = (self.oid, self.schema, self.owner);
        Some(View { oid, name, schema, owner, columns, query, options, ..View::default() })
    }
}

impl Object {
    /// The query of a view, materialized or not.
    pub fn query(&self) -> Option<&Expression> {
        match self {
            Object::View(view) => Some(&view.query),
            Object::Table(table) => table.materialized.as_ref().map(|it| &it.query),
            _ => None,
        }
    }

    /// Every text in it.
    pub fn expressions_mut(&mut self) -> Vec<&mut Expression> {
        match self {
            Object::Schema(_) | Object::Role(_) | Object::Sequence(_) => Vec::new(),
            Object::View(view) => vec![&mut view.query],
            Object::Table(table) => {
                let of_columns = table.columns.iter_mut().flat_map(|column| {
                    [column.default.as_mut(), column.generated.as_mut()].into_iter().flatten()
                });
                let checks =
                    table.constraints.iter_mut().filter_map(|constraint| match &mut constraint.rule {
                        Rule::Check { condition } => Some(condition),
                        _ => None,
                    });
                let query = table.materialized.as_mut().map(|it| &mut it.query);
                of_columns.chain(checks).chain(query).collect()
            }
            Object::Index(index) => {
                let parts = index.columns.iter_mut().filter_map(|column| match &mut column.of {
                    Indexed::Expression { expression, .. } => Some(expression),
                    Indexed::Column(_) => None,
                });
                parts.chain(index.predicate.as_mut()).collect()
            }
            Object::Type(ty) => match &mut ty.kind {
                UserTypeKind::Domain { default, checks, .. } => {
                    default.as_mut().into_iter().chain(checks.iter_mut().map(|(_, check)| check)).collect()
                }
                UserTypeKind::Enum(_) | UserTypeKind::Composite(_) => Vec::new(),
            },
        }
    }
}
