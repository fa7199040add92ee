//! After GROUP BY: expressions over the tables' columns become expressions over keys and aggregates.

use super::{Binder, Scope, fail};
use crate::catalog::object::Rule;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::Pos;
use crate::parse::ast::{GroupItem, Kind, Target};
use crate::tree::{Expr, Group, Grouping};

impl Binder<'_> {
    /// The sets of keys that count, and what was written.
    pub(crate) fn group_items(
        &self,
        scope: &mut Scope<'_>,
        items: &[GroupItem],
        targets: &[Target],
        keys: &mut Vec<(Expr, u32)>,
    ) -> Result<(Vec<Vec<usize>>, Vec<Grouping>)> {
        let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
        let mut written = Vec::new();
        for item in items {
            let item = self.group_item(scope, item, targets, keys)?;
            let further = item.sets();
            written.push(item);
            let product = sets.iter().flat_map(|set| {
                further.iter().map(move |more| {
                    let mut joined = set.clone();
                    for key in more {
                        if !joined.contains(key) {
                            joined.push(*key);
                        }
                    }
                    joined
                })
            });
            sets = product.collect();
        }
        Ok((sets, written))
    }

    fn group_item(
        &self,
        scope: &mut Scope<'_>,
        item: &GroupItem,
        targets: &[Target],
        keys: &mut Vec<(Expr, u32)>,
    ) -> Result<Grouping> {
        let mut list =
            |binder: &Self, scope: &mut Scope<'_>, exprs: &[crate::parse::ast::Expr]| -> Result<Vec<usize>> {
                exprs.iter().map(|expr| binder.group_key(scope, expr, targets, keys)).collect()
            };
        Ok(match item {
            GroupItem::Empty => Grouping::Keys(Vec::new()),
            GroupItem::Expr(expr) => Grouping::Keys(list(self, scope, std::slice::from_ref(expr))?),
            GroupItem::List(exprs) => Grouping::Keys(list(self, scope, exprs)?),
            GroupItem::Rollup(lists) => {
                Grouping::Rollup(lists.iter().map(|part| list(self, scope, part)).collect::<Result<_>>()?)
            }
            GroupItem::Cube(lists) => {
                Grouping::Cube(lists.iter().map(|part| list(self, scope, part)).collect::<Result<_>>()?)
            }
            GroupItem::Sets(items) => {
                let items = items.iter().map(|item| self.group_item(scope, item, targets, keys));
                Grouping::Sets(items.collect::<Result<_>>()?)
            }
        })
    }

    fn group_key(
        &self,
        scope: &mut Scope<'_>,
        expr: &crate::parse::ast::Expr,
        targets: &[Target],
        keys: &mut Vec<(Expr, u32)>,
    ) -> Result<usize> {
        let place = expr.pos;
        let mut expr = expr;
        if let Kind::Integer(digits) = &expr.kind {
            let number: usize = digits.parse().unwrap_or(0);
            match targets.get(number.wrapping_sub(1)) {
                Some(target) => expr = &target.expr,
                None => {
                    let message = format!("GROUP BY position {digits} is not in select list");
                    return fail(SqlState::INVALID_COLUMN_REFERENCE, expr.pos, message);
                }
            }
        } else if let Kind::Column(parts) = &expr.kind
            && let [name] = parts.as_slice()
            && scope.column(parts, expr.pos).is_err()
        {
            let named = targets.iter().find(|target| target.alias.as_ref() == Some(name));
            expr = named.map_or(expr, |target| &target.expr);
        }
        if matches!(expr.kind, Kind::Str(_) | Kind::Float(_) | Kind::Null) {
            return fail(SqlState::SYNTAX_ERROR, expr.pos, "non-integer constant in GROUP BY");
        }
        let typed = self.expr(scope, expr)?;
        let typed = self.settled(typed)?;
        self.comparable(typed.ty.oid, place)?;
        Ok(match keys.iter().position(|(key, _)| *key == typed.expr) {
            Some(at) => at,
            None => {
                keys.push((typed.expr, typed.ty.oid));
                keys.len() - 1
            }
        })
    }

    /// Rewrites an expression over input columns to one over `keys | aggregates`. A column that is no key but
    /// belongs to a table whose primary key is grouped by becomes a key.
    pub(crate) fn regroup(
        &self,
        scope: &Scope<'_>,
        group: &mut Group,
        expr: &mut Expr,
        pos: Pos,
    ) -> Result<()> {
        let mut failed: Option<SqlError> = None;
        expr.walk(0, &mut |part, depth| {
            if failed.is_some() {
                return true;
            }
            if depth == 0 {
                if let Some(at) = group.keys.iter().position(|(key, _)| key == part) {
                    *part = Expr::slot(at);
                    return true;
                }
                if let Expr::Window(_) | Expr::Aggregate { .. } = part {
                    return true;
                }
            }
            let own = match part {
                Expr::Column { depth: own, slot } if *own == depth => Some(*slot),
                Expr::WholeRow { depth: own, from, .. } if *own == depth => Some(*from),
                _ => return false,
            };
            let Some(slot) = own else { return false };
            let key = group.keys.iter().position(|(key, _)| *key == Expr::slot(slot));
            match key.or_else(|| self.dependent(scope, group, slot)) {
                Some(at) if matches!(part, Expr::Column { .. }) => *part = Expr::Column { depth, slot: at },
                _ => failed = Some(ungrouped(scope, slot, depth > 0, pos)),
            }
            true
        });
        failed.map_or(Ok(()), Err)
    }

    /// A column that follows from a grouped primary key is made a key of its own.
    fn dependent(&self, scope: &Scope<'_>, group: &mut Group, slot: usize) -> Option<usize> {
        let entry = scope.entries.iter().find(|entry| {
            entry
                .table
                .as_ref()
                .is_some_and(|table| (entry.at..entry.at + table.columns.len()).contains(&slot))
        })?;
        let table = entry.table.as_ref()?;
        let (constraint, key) = table.constraints.iter().find_map(|constraint| match &constraint.rule {
            Rule::PrimaryKey { columns, .. } if !constraint.deferrable => Some((constraint.oid, columns)),
            _ => None,
        })?;
        let grouped = |column: &u16| {
            let wanted = Expr::slot(entry.at + usize::from(*column));
            group.keys.iter().any(|(key, _)| *key == wanted)
        };
        if group.sets.len() != 1 || !key.iter().all(grouped) {
            return None;
        }
        if self.views.borrow().is_empty() {
            self.grouped.borrow_mut().insert(constraint);
        }
        group.keys.push((Expr::slot(slot), table.columns[slot - entry.at].type_oid));
        let at = group.keys.len() - 1;
        group.sets[0].push(at);
        Some(at)
    }
}

impl Grouping {
    /// The sets of keys that it stands for.
    fn sets(&self) -> Vec<Vec<usize>> {
        match self {
            Grouping::Keys(keys) => vec![keys.clone()],
            Grouping::Rollup(parts) => (0..=parts.len()).rev().map(|n| parts[..n].concat()).collect(),
            Grouping::Cube(parts) => {
                let mut sets = Vec::new();
                for mask in (0..1u32 << parts.len()).rev() {
                    let within = (0..parts.len()).filter(|i| mask & (1 << (parts.len() - 1 - i)) != 0);
                    sets.push(within.flat_map(|i| parts[i].clone()).collect());
                }
                sets
            }
            Grouping::Sets(items) => items.iter().flat_map(Grouping::sets).collect(),
        }
    }
}

fn ungrouped(scope: &Scope<'_>, slot: usize, inner: bool, pos: Pos) -> SqlError {
    let mut name = format!("{slot}");
    for entry in &scope.entries {
        if let Some(column) = entry.columns.iter().find(|column| column.expr == Expr::slot(slot)) {
            name = format!("{}.{}", entry.name, column.name);
        }
    }
    let message = match inner {
        true => format!("subquery uses ungrouped column \"{name}\" from outer query"),
        false => format!(
            "column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function"
        ),
    };
    SqlError::new(SqlState::GROUPING_ERROR, message).at(pos + 1)
}
