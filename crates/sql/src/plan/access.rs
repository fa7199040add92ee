//! Which index finds a table's rows: equal values for its first columns, then a range of the next. Where the
//! alternatives of an OR each have an index, all of them together do.

use std::sync::Arc;

use super::join::gives_few;
use super::{KeyPart, Path};
use crate::catalog::object::{Index, Indexed, Table};
use crate::catalog::view::CatalogView;
use crate::tree::{Expr, Head, RowOp, Subquery, SubqueryKind};
use crate::types::{BuiltinTypes, Oid, Types, oid};

/// How good a path is; smaller is better.
pub(super) type Score = u32;
pub(super) const FULL: Score = 1000;
/// Lookups of what a query gives, perhaps many: better than nothing.
pub(super) const UNKNOWN: Score = 990;
/// Up to here few rows are found, by whole keys.
pub(super) const KEYS: Score = 300;
/// So many lookups of what a query gives are still made.
const MOST: usize = 1000;

/// Does an expression look at slots of its level that are not among the bound ones?
pub(super) type Bound<'b> = &'b dyn Fn(&Expr) -> bool;

/// A predicate on one column.
struct Narrow<'e> {
    op: &'e str,
    part: KeyPart,
}

pub(super) fn choose(
    store: &dyn CatalogView,
    table: &Arc<Table>,
    at: usize,
    conjuncts: &[Expr],
    bound: Bound<'_>,
) -> (Path, Score) {
    let indexes = store.indexes(table.oid);
    let best = one(&indexes, table, at, conjuncts, bound);
    let any = conjuncts.iter().filter_map(|conjunct| match conjunct {
        Expr::Or(alternatives) => any(&indexes, table, at, alternatives, conjuncts, bound),
        _ => None,
    });
    any.fold(best, |best, found| if found.1 < best.1 { found } else { best })
}

/// All ways to a table's rows by its indexes.
pub(super) fn candidates(
    store: &dyn CatalogView,
    table: &Arc<Table>,
    at: usize,
    conjuncts: &[Expr],
    bound: Bound<'_>,
) -> Vec<Path> {
    let indexes = store.indexes(table.oid);
    let usable = indexes.iter().filter(|index| index.valid && index.predicate.is_none());
    let found = usable.filter_map(|index| path(table, at, index, conjuncts, bound)).map(|(path, _)| path);
    let several = conjuncts.iter().filter_map(|conjunct| match conjunct {
        Expr::Or(alternatives) => {
            any(&indexes, table, at, alternatives, conjuncts, bound).map(|(path, _)| path)
        }
        _ => None,
    });
    found.chain(several).collect()
}

/// A way for each of these alternatives, of which the other conjuncts hold as well.
fn any(
    indexes: &[Arc<Index>],
    table: &Arc<Table>,
    at: usize,
    alternatives: &[Expr],
    conjuncts: &[Expr],
    bound: Bound<'_>,
) -> Option<(Path, Score)> {
    let others = || conjuncts.iter().filter(|conjunct| !matches!(conjunct, Expr::Or(_))).cloned();
    let (mut paths, mut worst) = (Vec::with_capacity(alternatives.len()), 0);
    for alternative in alternatives {
        let mut own = Vec::new();
        alternative.clone().conjuncts(&mut own);
        own.extend(others());
        let (path, score) = one(indexes, table, at, &own, bound);
        if path == Path::Full {
            return None;
        }
        worst = worst.max(score);
        paths.push(path);
    }
    // The more ways, the less they are worth.
    let score = worst + paths.len() as Score;
    (score < FULL).then_some((Path::Any(paths), score))
}

/// The best index for conjuncts of which all hold.
fn one(
    indexes: &[Arc<Index>],
    table: &Arc<Table>,
    at: usize,
    conjuncts: &[Expr],
    bound: Bound<'_>,
) -> (Path, Score) {
    let mut best = (Path::Full, FULL);
    for index in indexes {
        if !index.valid || index.predicate.is_some() {
            continue;
        }
        if let Some(found) = path(table, at, index, conjuncts, bound)
            && found.1 < best.1
        {
            best = found;
        }
    }
    best
}

fn columns(index: &Index) -> Vec<usize> {
    let plain = index.columns.iter().map_while(|column| match column.of {
        Indexed::Column(number) => Some(usize::from(number)),
        Indexed::Expression { .. } => None,
    });
    plain.collect()
}

fn path(
    table: &Table,
    at: usize,
    index: &Arc<Index>,
    conjuncts: &[Expr],
    bound: Bound<'_>,
) -> Option<(Path, Score)> {
    let columns = columns(index);
    let mut equal = Vec::new();
    for column in &columns {
        match narrowing(table, at, *column, conjuncts, bound).into_iter().find(|narrow| narrow.op == "=") {
            Some(narrow) => equal.push(narrow.part),
            None => break,
        }
    }
    let full = equal.len() == index.columns.len();
    let index = index.clone();
    if full && index.is_unique_at_once() {
        return Some((Path::Index { index, equal, low: None, high: None, reverse: false }, 0));
    }
    if let Some(keys) = points(table, at, &columns, &equal, conjuncts, bound) {
        let whole = keys.iter().all(|key| key.len() == index.columns.len());
        let score = if whole && index.is_unique_at_once() { 10 } else { 300 };
        return Some((Path::Points { index, keys }, score));
    }
    let next = columns.get(equal.len()).copied();
    if let Some(column) = next
        && let Some((array, element, few)) = elements(table, at, column, conjuncts, bound)
        && (few || equal.is_empty())
    {
        let column = base(table.columns[column].type_oid);
        let (most, score) = if few { (usize::MAX, 200) } else { (MOST, UNKNOWN) };
        return Some((Path::Elements { index, equal, array, most, element, column }, score));
    }
    let (mut low, mut high) = (None, None);
    if let Some(column) = next {
        for narrow in narrowing(table, at, column, conjuncts, bound) {
            match narrow.op {
                ">" | ">=" if low.is_none() => low = Some((narrow.part, narrow.op == ">=")),
                "<" | "<=" if high.is_none() => high = Some((narrow.part, narrow.op == "<=")),
                _ => {}
            }
        }
    }
    let ranges = u32::from(low.is_some()) + u32::from(high.is_some());
    if equal.is_empty() && ranges == 0 {
        return None;
    }
    let score = FULL - 100 * equal.len().min(8) as u32 - 30 * ranges - u32::from(index.primary);
    Some((Path::Index { index, equal, low, high, reverse: false }, score))
}

fn base(ty: Oid) -> Oid {
    BuiltinTypes.base_of(ty)
}

/// May values of type `other` be looked up in an index over `column`?
fn comparable(column: Oid, other: Oid) -> bool {
    let int = |ty| matches!(ty, oid::INT2 | oid::INT4 | oid::INT8);
    let text = |ty| matches!(ty, oid::TEXT | oid::VARCHAR);
    column == other || (int(column) && int(other)) || (text(column) && text(other))
}

fn flipped(op: &str) -> &str {
    match op {
        "<" => ">",
        "<=" => ">=",
        ">" => "<",
        ">=" => "<=",
        other => other,
    }
}

fn is_column(expr: &Expr, slot: usize) -> bool {
    *expr.bare() == Expr::Column { depth: 0, slot }
}

fn narrowing<'e>(
    table: &Table,
    at: usize,
    column: usize,
    conjuncts: &'e [Expr],
    bound: Bound<'_>,
) -> Vec<Narrow<'e>> {
    let ty = base(table.columns[column].type_oid);
    let mut found = Vec::new();
    for conjunct in conjuncts {
        found.extend(narrow(ty, at + column, conjunct, bound));
    }
    found
}

fn narrow<'e>(ty: Oid, slot: usize, conjunct: &'e Expr, bound: Bound<'_>) -> Option<Narrow<'e>> {
    let Expr::Call { head, args, .. } = conjunct else { return None };
    let op = head.operator?.name;
    let [left, right] = args.as_slice() else { return None };
    if !matches!(op, "=" | "<" | "<=" | ">" | ">=") {
        return None;
    }
    let (other, source, op) = if is_column(left, slot) {
        (right, head.types[1], op)
    } else if is_column(right, slot) {
        (left, head.types[0], flipped(op))
    } else {
        return None;
    };
    let fits = comparable(ty, source) && bound(other);
    fits.then(|| Narrow { op, part: KeyPart { expr: other.clone(), source, column: ty } })
}

/// Lookups of an IN list or of alternatives that are each equal to something.
fn points(
    table: &Table,
    at: usize,
    columns: &[usize],
    equal: &[KeyPart],
    conjuncts: &[Expr],
    bound: Bound<'_>,
) -> Option<Vec<Vec<KeyPart>>> {
    let next = *columns.get(equal.len())?;
    for conjunct in conjuncts {
        match conjunct {
            Expr::InList { head, left, list, negated: false } if is_column(left, at + next) => {
                let ty = base(table.columns[next].type_oid);
                if !comparable(ty, head.types[1]) || !list.iter().all(bound) {
                    continue;
                }
                let key = |expr: &Expr| {
                    let part = KeyPart { expr: expr.clone(), source: head.types[1], column: ty };
                    equal.iter().cloned().chain([part]).collect()
                };
                return Some(list.iter().map(key).collect());
            }
            Expr::Or(alternatives) => {
                let keys: Option<Vec<Vec<KeyPart>>> = alternatives
                    .iter()
                    .map(|alternative| alternative_key(table, at, columns, conjuncts, alternative, bound))
                    .collect();
                let Some(keys) = keys else { continue };
                if keys.iter().all(|key| key.len() == keys[0].len() && key.len() > equal.len()) {
                    return Some(keys);
                }
            }
            _ => {}
        }
    }
    None
}

/// The key that one alternative of an OR gives, together with the other conjuncts.
fn alternative_key(
    table: &Table,
    at: usize,
    columns: &[usize],
    conjuncts: &[Expr],
    alternative: &Expr,
    bound: Bound<'_>,
) -> Option<Vec<KeyPart>> {
    let mut own = Vec::new();
    alternative.clone().conjuncts(&mut own);
    let mut key = Vec::new();
    for column in columns {
        let ty = base(table.columns[*column].type_oid);
        let mut found = None;
        for part in own.iter().chain(conjuncts) {
            if let Expr::RowCompare { op: RowOp::Equal, equals, left, right, .. } = part {
                for (i, head) in equals.iter().enumerate() {
                    let sides = [(&left[i], &right[i], head.types[1]), (&right[i], &left[i], head.types[0])];
                    for (mine, other, source) in sides {
                        if is_column(mine, at + column) && comparable(ty, source) && bound(other) {
                            found = Some(KeyPart { expr: other.clone(), source, column: ty });
                        }
                    }
                }
            } else if let Some(narrow) =
                narrow(ty, at + column, part, bound).filter(|narrow| narrow.op == "=")
            {
                found = Some(narrow.part);
            }
            if found.is_some() {
                break;
            }
        }
        match found {
            Some(part) => key.push(part),
            None => break,
        }
    }
    (!key.is_empty()).then_some(key)
}

/// `column = ANY (array)`, or `column IN (query)` of a query that is run once: the array, the type of its
/// elements, and whether they are known to be few.
fn elements(
    table: &Table,
    at: usize,
    column: usize,
    conjuncts: &[Expr],
    bound: Bound<'_>,
) -> Option<(Expr, Oid, bool)> {
    let ty = base(table.columns[column].type_oid);
    let fits = |head: &Head, left: &Expr| {
        head.operator.is_some_and(|operator| operator.name == "=")
            && is_column(left, at + column)
            && comparable(ty, head.types[1])
    };
    conjuncts.iter().find_map(|conjunct| match conjunct {
        Expr::AnyArray { head, left, array, all: false, .. } if fits(head, left) && bound(array) => {
            Some(((**array).clone(), head.types[1], true))
        }
        Expr::Subquery(subquery) => {
            let SubqueryKind::Any { left, heads, all: false, negated: false } = &subquery.kind else {
                return None;
            };
            let ([left], [head], Some(_)) = (left.as_slice(), heads.as_slice(), subquery.cache) else {
                return None;
            };
            let kind = SubqueryKind::Array(head.types[1]);
            let array = Expr::Subquery(Box::new(Subquery { kind, ..(**subquery).clone() }));
            fits(head, left).then(|| (array, head.types[1], gives_few(&subquery.query)))
        }
        _ => None,
    })
}
