//! Tables of the system are looked up by their keys where few rows lead to them: by a value that stands in
//! the statement, or by rows that were found so. Where many rows are joined all of a table is made, once.

use super::join::{Slots, looks_at, within};
use super::{Node, Planner};
use crate::catalog::system;
use crate::tree::{Const, Expr, From};
use crate::types::Oid;
use crate::types::value::Value;

/// The only text that a regular expression fits, if that is plain: `^(name)$`.
fn only_text(pattern: &Expr) -> Option<Expr> {
    let Expr::Const(Const(Value::Text(pattern))) = pattern.bare() else { return None };
    let name = pattern.strip_prefix("^(")?.strip_suffix(")$")?;
    let is_plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_plain.then(|| Expr::Const(Const(Value::text(name))))
}

/// Whether it is known before the table is looked at, and cheap.
fn is_given(expr: &Expr, bound: &Slots) -> bool {
    match expr.bare() {
        Expr::Const(_) | Expr::Param(_) | Expr::Column { .. } => within(expr, bound),
        Expr::Cast { expr, .. } => is_given(expr, bound),
        _ => false,
    }
}

/// The column of a table of the system that conditions narrow to one value of a key, and that value.
pub(super) fn key_of(
    table: Oid,
    (at, width): (usize, usize),
    conditions: &[Expr],
    bound: &Slots,
) -> Option<(usize, Expr)> {
    let column = |expr: &Expr| match expr.bare() {
        Expr::Column { depth: 0, slot } if (at..at + width).contains(slot) => {
            Some(slot - at).filter(|column| system::is_key(table, *column))
        }
        _ => None,
    };
    conditions.iter().find_map(|condition| {
        let Expr::Call { head, args, .. } = condition else { return None };
        let [left, right] = args.as_slice() else { return None };
        match head.operator?.name {
            "=" if head.is_hashed() => {
                let sides = [(left, right), (right, left)].into_iter();
                let mut keys = sides.filter(|(_, other)| is_given(other, bound));
                keys.find_map(|(own, other)| Some((column(own)?, other.clone())))
            }
            "~" => Some((column(left)?, only_text(right)?)),
            _ => None,
        }
    })
}

/// Whether a part of a join gives few rows, because values of the statement lead to it.
pub(super) fn is_narrow(node: &Node) -> bool {
    match node {
        Node::System { key, .. } => key.is_some(),
        Node::Loop { outer, .. } => is_narrow(outer),
        Node::Hash(join) => is_narrow(&join.outer),
        Node::Filter { node, .. } => is_narrow(node),
        _ => false,
    }
}

impl Planner<'_> {
    /// Whether rows of a table of the system are looked up for each row of a join so far.
    pub(super) fn leads_to_system(
        &self,
        outer: &Node,
        from: &From,
        conditions: &[Expr],
        bound: &Slots,
    ) -> bool {
        let From::System { table, at, width } = from else { return false };
        let key = key_of(*table, (*at, *width), conditions, bound).filter(|_| is_narrow(outer));
        key.is_some_and(|(_, value)| !looks_at(&value).is_empty())
    }
}
