//! What planning knows of the columns of a level's row: of which table they are, how many rows that has, what
//! statistics say of the values.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Estimate, Node, constants};
use crate::catalog::object::{Indexed, Table};
use crate::catalog::statistics::{ColumnStatistics, TableStatistics};
use crate::catalog::view::{CatalogView, Present};
use crate::tree::{Body, Expr, From, Query};
use crate::types::context::EvalContext;
use crate::types::costs::Costs;
use crate::types::value::Value;
use crate::types::{BuiltinTypes, Oid, Types, oid};

/// Rows that a table is taken to have of which nothing is known.
const ROWS_UNKNOWN: f64 = 1000.0;
/// Different values that a column is taken to have of which nothing is known.
const DISTINCT_UNKNOWN: f64 = 200.0;
/// Bytes of a page.
const PAGE: f64 = 8192.0;

/// A column with what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    /// Rows of its table, or of the query that gives it.
    pub(crate) rows: f64,
    pub(crate) ty: Oid,
    statistics: Option<Arc<TableStatistics>>,
    column: u16,
    /// No value comes twice.
    pub(crate) unique: bool,
    /// It comes from a query, where it has so many values at most.
    most: Option<f64>,
}

impl Variable {
    /// Statistics of its values.
    pub(crate) fn known(&self) -> Option<&ColumnStatistics> {
        let known = self.statistics.as_ref()?.columns.get(&self.column)?;
        (known.ty == self.ty).then_some(known)
    }

    pub(crate) fn null_fraction(&self) -> f64 {
        self.known().map_or(0.0, |known| known.null_fraction)
    }

    /// How many different values it has.
    pub(crate) fn distinct(&self) -> f64 {
        let found = if self.unique {
            self.rows
        } else if let Some(distinct) = self.known().and_then(|known| known.distinct_of(self.rows)) {
            distinct
        } else if self.ty == oid::BOOL {
            2.0
        } else {
            DISTINCT_UNKNOWN
        };
        found.min(self.most.unwrap_or(f64::MAX)).min(self.rows).max(1.0)
    }

    /// Bytes of a value.
    pub(crate) fn width(&self) -> f64 {
        self.known().map_or_else(|| usual_width(self.ty), |known| known.width.max(1.0))
    }
}

/// Bytes of a value of a type, as wide as such values usually are.
pub(crate) fn usual_width(ty: Oid) -> f64 {
    match ty {
        oid::BOOL | oid::CHAR => 1.0,
        oid::INT2 => 2.0,
        oid::INT4 | oid::FLOAT4 | oid::DATE | oid::OID => 4.0,
        oid::INT8 | oid::FLOAT8 | oid::TIMESTAMP | oid::TIMESTAMPTZ | oid::TIME => 8.0,
        oid::UUID | oid::INTERVAL => 16.0,
        oid::NAME => 64.0,
        _ => 32.0,
    }
}

/// Something in a FROM that gives rows.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) at: usize,
    /// Rows without any condition.
    pub(crate) rows: f64,
    pub(crate) pages: f64,
    /// The share of the rows that other hosts have.
    pub(crate) foreign: f64,
    /// The columns of its unique indexes.
    pub(crate) keys: Vec<Vec<usize>>,
    columns: Vec<Option<Variable>>,
}

impl Source {
    fn holds(&self, slot: usize) -> bool {
        (self.at..self.at + self.columns.len()).contains(&slot)
    }

    pub(crate) fn column(&self, column: usize) -> Option<&Variable> {
        self.columns.get(column)?.as_ref()
    }
}

/// Columns of a query, as far as they are known.
pub(super) type Columns = Vec<Option<Variable>>;

/// What statistics say of rows and conditions.
pub(crate) struct Estimator<'a> {
    pub(crate) store: &'a dyn CatalogView,
    pub(crate) ctx: EvalContext<'a>,
    pub(crate) costs: &'a Costs,
    /// Rows are counted of tables that ANALYZE has not looked at.
    pub(crate) counts: bool,
    /// WITH queries: what they cost, and their columns.
    pub(super) ctes: RefCell<BTreeMap<usize, (Estimate, Columns)>>,
}

impl<'a> Estimator<'a> {
    pub(crate) fn new(store: &'a dyn CatalogView, ctx: EvalContext<'a>) -> Estimator<'a> {
        Estimator { store, ctx, costs: &ctx.settings.costs, counts: false, ctes: RefCell::default() }
    }

    /// The value of an expression that is known before it runs.
    pub(crate) fn value(&self, expr: &Expr) -> Option<Value> {
        constants::known(&self.ctx, expr)
    }

    /// A table, at a slot of the level's row.
    pub(crate) fn table(&self, table: &Arc<Table>, at: usize) -> Source {
        let statistics = self.store.statistics(table.oid);
        let present = self.store.present(table.oid, self.counts && statistics.is_none());
        let (rows, foreign) = present.map_or((ROWS_UNKNOWN, 0.0), |present| (present.rows, present.foreign));
        // An empty table is one that is being filled.
        let rows = if rows < 1.0 && statistics.is_none() { ROWS_UNKNOWN } else { rows.max(1.0) };
        let indexes = self.store.indexes(table.oid);
        let unique = indexes.iter().filter(|index| index.unique && index.valid && index.predicate.is_none());
        let keys: Vec<Vec<usize>> = unique
            .filter_map(|index| {
                let columns = index.columns.iter().map(|column| match column.of {
                    Indexed::Column(number) => Some(usize::from(number)),
                    Indexed::Expression { .. } => None,
                });
                columns.collect()
            })
            .collect();
        let variable = |(number, column): (usize, &crate::catalog::object::Column)| {
            Some(Variable {
                rows,
                ty: BuiltinTypes.base_of(column.type_oid),
                statistics: statistics.clone(),
                column: number as u16,
                unique: keys.iter().any(|key| *key == [number]),
                most: None,
            })
        };
        let columns: Vec<_> = table.columns.iter().enumerate().map(variable).collect();
        let width: f64 = columns.iter().flatten().map(Variable::width).sum();
        let bytes = match (&statistics, present) {
            (Some(known), _) if known.rows > 0.0 => known.pages * PAGE / known.rows * rows,
            (_, Some(Present { bytes: Some(bytes), .. })) => bytes,
            _ => rows * (width + 24.0),
        };
        let pages = (bytes / PAGE).ceil().max(1.0);
        Source { at, rows, pages, foreign, keys, columns }
    }

    /// What the nodes of a plan read.
    pub(crate) fn sources(&self, node: &Node) -> Vec<Source> {
        let mut found = Vec::new();
        self.add_sources(node, &mut found);
        found
    }

    fn add_sources(&self, node: &Node, found: &mut Vec<Source>) {
        let (at, rows, columns) = match node {
            Node::One => return,
            Node::Scan(scan) => return found.push(self.table(&scan.table, scan.at)),
            Node::System { at, width, .. } => (*at, super::cost::ROWS_OF_SYSTEM, vec![None; *width]),
            Node::Query { query, at, .. } => {
                let (estimate, columns) = self.query_columns(query);
                (*at, estimate.rows, columns)
            }
            Node::Cte { id, at, width, .. } => match self.ctes.borrow().get(id) {
                Some((estimate, columns)) => (*at, estimate.rows, columns.clone()),
                None => (*at, super::cost::ROWS_OF_FUNCTION, vec![None; *width]),
            },
            Node::Functions { at, width, .. } => (*at, super::cost::ROWS_OF_FUNCTION, vec![None; *width]),
            Node::Loop { outer, inner, .. } => {
                self.add_sources(outer, found);
                return self.add_sources(inner, found);
            }
            Node::Hash(join) => {
                self.add_sources(&join.outer, found);
                return self.add_sources(&join.inner, found);
            }
            Node::Keyed(keyed) => return self.add_sources(&keyed.inner, found),
            Node::Filter { node, .. } => return self.add_sources(node, found),
        };
        let (pages, foreign, keys) = (0.0, 0.0, Vec::new());
        found.push(Source { at, rows, pages, foreign, keys, columns });
    }

    /// A planned query as a source of rows.
    pub(crate) fn query_columns(&self, query: &Query) -> (Estimate, Vec<Option<Variable>>) {
        let estimate = self.query(query);
        let columns = match &query.body {
            Body::Select(select) => {
                let From::Planned(node) = &select.from else { return (estimate, Vec::new()) };
                let sources = self.sources(node);
                let keys = select.group.as_ref().map(|group| &group.keys);
                let column = |target: &Expr| {
                    let inner = match (target.bare(), keys) {
                        (Expr::Column { depth: 0, slot }, Some(keys)) => &keys.get(*slot)?.0,
                        (target, _) => target,
                    };
                    let mut variable = variable(&sources, inner)?;
                    variable.most = Some(variable.distinct());
                    variable.unique = keys.is_some_and(|keys| keys.len() == 1);
                    variable.rows = estimate.rows.max(1.0);
                    Some(variable)
                };
                let targets = &select.targets[..query.columns.len().min(select.targets.len())];
                targets.iter().map(column).collect()
            }
            _ => vec![None; query.columns.len()],
        };
        (estimate, columns)
    }

    /// A WITH query has been planned.
    pub(crate) fn add_cte(&self, id: usize, query: &Query) {
        let known = self.query_columns(query);
        self.ctes.borrow_mut().insert(id, known);
    }

    /// As [`Estimator::add_cte`], of one whose columns are not known.
    pub(crate) fn add_opaque_cte(&self, id: usize, estimate: Estimate, width: usize) {
        self.ctes.borrow_mut().insert(id, (estimate, vec![None; width]));
    }
}

/// The column that an expression is.
pub(crate) fn variable(sources: &[Source], expr: &Expr) -> Option<Variable> {
    let Expr::Column { depth: 0, slot } = expr.bare() else { return None };
    let source = sources.iter().find(|source| source.holds(*slot))?;
    source.column(slot - source.at).cloned()
}

/// The source that has a slot.
pub(crate) fn source_of(sources: &[Source], slot: usize) -> Option<&Source> {
    sources.iter().find(|source| source.holds(slot))
}
