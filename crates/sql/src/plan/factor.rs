//! Alternatives that share conditions: what all of them ask for is asked once, for itself, so that joins and
//! indexes see it; and what each of them asks of one table is asked of that table before it is joined.

use super::join::{Slots, looks_at, within};
use crate::tree::Expr;

fn conjuncts(expr: &Expr) -> Vec<Expr> {
    let mut all = Vec::new();
    expr.clone().conjuncts(&mut all);
    all
}

/// Takes out of alternatives the conditions that all of them have.
pub(super) fn shared(conditions: Vec<Expr>) -> Vec<Expr> {
    let mut all = Vec::with_capacity(conditions.len());
    for condition in conditions {
        let Expr::Or(alternatives) = &condition else {
            all.push(condition);
            continue;
        };
        let each: Vec<Vec<Expr>> = alternatives.iter().map(conjuncts).collect();
        let is_shared = |part: &Expr| each.iter().all(|other| other.contains(part));
        let common: Vec<Expr> = each[0].iter().filter(|part| is_shared(part)).cloned().collect();
        if common.is_empty() {
            all.push(condition);
            continue;
        }
        let rest: Option<Vec<Expr>> = each
            .into_iter()
            .map(|parts| Expr::all(parts.into_iter().filter(|part| !common.contains(part)).collect()))
            .collect();
        all.extend(common);
        // An alternative that asks for nothing else holds whenever the common part does.
        all.extend(rest.map(Expr::Or));
    }
    all
}

/// What alternatives ask of these slots alone, if each of them does.
pub(super) fn of_slots(condition: &Expr, slots: &Slots) -> Option<Expr> {
    let Expr::Or(alternatives) = condition else { return None };
    let about = |part: &Expr| {
        let mut queries = Vec::new();
        part.subqueries(&mut queries);
        queries.is_empty() && !looks_at(part).is_empty() && within(part, slots)
    };
    let each = alternatives.iter().map(|alternative| {
        Expr::all(conjuncts(alternative).into_iter().filter(|part| about(part)).collect())
    });
    each.collect::<Option<Vec<Expr>>>().map(Expr::Or)
}
