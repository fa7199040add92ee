//! Estimates. There are no statistics: they know how many rows a table has, and nothing of its values. A
//! condition by `=` keeps one row of 200, another one a third, and a whole unique key finds one. Costs
//! follow from rows, in PostgreSQL's unit of a page that is read in order.

use crate::plan::Scan;
use crate::tree::{Expr, Query};
use crate::types::{Oid, oid};

/// The cost of a row, and that of an operator.
pub(super) const PER_ROW: f64 = 0.01;
pub(super) const PER_CHECK: f64 = 0.0025;

/// How many of so many rows conditions let pass, as far as their operators tell.
pub(super) fn selected(rows: f64, parts: &[&Expr]) -> f64 {
    let share = |part: &&Expr| match part {
        Expr::Call { head, .. } if head.operator.is_some_and(|operator| operator.name == "=") => 0.005,
        Expr::InList { list, negated: false, .. } => 0.005 * list.len() as f64,
        Expr::AnyArray { all: false, .. } => 0.05,
        Expr::IsNull { negated: false, .. } => 0.005,
        _ => 1.0 / 3.0,
    };
    if rows <= 0.0 { rows } else { (rows * parts.iter().map(share).product::<f64>().min(1.0)).max(1.0) }
}

pub(super) fn constant(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Const(value) => value.0.as_i64().map(|number| number as f64),
        Expr::Cast { expr, .. } => constant(expr),
        _ => None,
    }
}

/// Bytes of a row, as wide as its types usually are.
pub(super) fn width(ty: Oid) -> usize {
    match ty {
        oid::BOOL | oid::CHAR => 1,
        oid::INT2 => 2,
        oid::INT4 | oid::FLOAT4 | oid::DATE | oid::OID => 4,
        oid::INT8 | oid::FLOAT8 | oid::TIMESTAMP | oid::TIMESTAMPTZ | oid::TIME => 8,
        oid::UUID | oid::INTERVAL => 16,
        oid::NAME => 64,
        _ => 32,
    }
}

pub(super) fn width_of(query: &Query) -> usize {
    query.columns.iter().map(|column| width(column.ty.oid)).sum()
}

pub(super) fn width_of_table(scan: &Scan) -> usize {
    let columns = scan.table.columns.iter().enumerate().filter(|(at, column)| {
        let read = scan.columns.as_ref().is_none_or(|read| read.get(*at) == Some(&true));
        read && !column.dropped
    });
    columns.map(|(_, column)| width(column.type_oid)).sum()
}
