//! Which share of rows conditions let pass, by statistics: equalities by common values, ranges by histograms,
//! joins by how many values both sides have. Where nothing is known PostgreSQL's shares are taken.
//!
//! Conditions are taken to have nothing to do with one another, but for two ends of one range.

use std::cmp::Ordering;

use super::Node;
use super::known::{Estimator, Source, Variable, variable};
use crate::catalog::statistics::ColumnStatistics;
use crate::func::like;
use crate::tree::{Body, Expr, From, Head, Query, SubqueryKind};
use crate::types::Oid;
use crate::types::order::compare;
use crate::types::value::Value;

/// Of an equality.
const EQUAL: f64 = 0.005;
/// Of a comparison, and of a condition that says nothing.
const COMPARED: f64 = 1.0 / 3.0;
/// Of a range with two ends.
const RANGE: f64 = 0.005;
/// Of a pattern.
const MATCHED: f64 = 0.005;
/// Of `@>` and its kin.
const CONTAINED: f64 = 0.001;
/// Of a query, or an operator that says nothing.
const HALF: f64 = 0.5;
/// Elements of an array that is not known.
pub(super) const ELEMENTS: f64 = 10.0;
/// Less is not told apart from nothing.
const LEAST: f64 = 1e-10;

fn whole(share: f64) -> f64 {
    share.clamp(0.0, 1.0)
}

/// A value as a number that goes with its order; of types that are measured alike by the same measure.
fn measure(value: &Value) -> Option<f64> {
    const DAY_US: f64 = 86_400_000_000.0;
    Some(match value {
        Value::Bool(value) => f64::from(u8::from(*value)),
        Value::Int2(number) => f64::from(*number),
        Value::Int4(number) => f64::from(*number),
        Value::Int8(number) => *number as f64,
        Value::Oid(number) => f64::from(*number),
        Value::Float4(number) => f64::from(*number),
        Value::Float8(number) => *number,
        Value::Numeric(number) => number.to_f64(),
        Value::Date(days) => f64::from(*days) * DAY_US,
        Value::Timestamp(us) | Value::Timestamptz(us) | Value::Time(us) | Value::Timetz(us, _) => *us as f64,
        Value::Interval(interval) => crate::types::order::interval_span(*interval) as f64,
        Value::Enum(label) => f64::from(label.order),
        _ => return None,
    })
}

/// The bytes of a text, or what is like one.
fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Text(text) => Some(text.as_bytes()),
        Value::Bytea(bytes) => Some(bytes),
        Value::Uuid(bytes) => Some(&bytes[..]),
        _ => None,
    }
}

/// How two values compare, if that can be told whatever their types are.
fn order(ty: Oid, a: &Value, b: &Value) -> Option<Ordering> {
    if std::mem::discriminant(a) == std::mem::discriminant(b) && !a.is_null() {
        return Some(compare(ty, a, b));
    }
    measure(a)?.partial_cmp(&measure(b)?)
}

/// How far between two values a third one lies, from 0 to 1.
fn between(low: &Value, high: &Value, value: &Value) -> f64 {
    let place = |low: f64, high: f64, at: f64| match high - low {
        width if width > 0.0 => whole((at - low) / width),
        _ => HALF,
    };
    if let (Some(low), Some(high), Some(at)) = (measure(low), measure(high), measure(value)) {
        return place(low, high, at);
    }
    let (Some(low), Some(high), Some(at)) = (bytes(low), bytes(high), bytes(value)) else { return HALF };
    let shared = low.iter().zip(high).take_while(|(a, b)| a == b).count();
    let number = |bytes: &[u8]| {
        let tail = bytes.get(shared..).unwrap_or_default().iter().chain(std::iter::repeat(&0)).take(7);
        tail.fold(0.0, |number, byte| number * 256.0 + f64::from(*byte))
    };
    place(number(low), number(high), number(at))
}

/// The part of a histogram below a value.
fn below(known: &ColumnStatistics, value: &Value) -> Option<f64> {
    let bounds = &known.bounds;
    if bounds.len() < 2 {
        return None;
    }
    let parts = (bounds.len() - 1) as f64;
    order(known.ty, &bounds[0], value)?;
    let at = bounds.partition_point(|bound| order(known.ty, bound, value) == Some(Ordering::Less));
    Some(match at {
        0 => 0.0,
        at if at == bounds.len() => 1.0,
        at => ((at - 1) as f64 + between(&bounds[at - 1], &bounds[at], value)) / parts,
    })
}

/// An end of a range of a column.
struct End {
    slot: usize,
    is_low: bool,
    share: f64,
    /// The share of NULLs.
    nulls: f64,
    /// The column is known well enough.
    is_known: bool,
}

impl Estimator<'_> {
    /// The share of rows that all of these conditions let pass.
    pub(crate) fn all<'e>(&self, sources: &[Source], conditions: impl IntoIterator<Item = &'e Expr>) -> f64 {
        let (mut share, mut ends) = (1.0, Vec::<End>::new());
        for condition in conditions {
            match self.end(sources, condition) {
                Some(end) => ends.push(end),
                None => share *= self.share(sources, condition),
            }
        }
        while let Some(end) = ends.pop() {
            let other = ends.iter().position(|it| it.slot == end.slot && it.is_low != end.is_low);
            share *= match other.map(|at| ends.remove(at)) {
                None => end.share,
                Some(other) if !(end.is_known && other.is_known) => RANGE,
                Some(other) => (end.share + other.share + end.nulls - 1.0).max(LEAST),
            };
        }
        whole(share)
    }

    fn end(&self, sources: &[Source], condition: &Expr) -> Option<End> {
        let Expr::Call { head, args, .. } = condition else { return None };
        let name = head.operator?.name;
        let [left, right] = args.as_slice() else { return None };
        let slot = |expr: &Expr| match expr.bare() {
            Expr::Column { depth: 0, slot } => Some(*slot),
            _ => None,
        };
        let less = match name {
            "<" | "<=" => true,
            ">" | ">=" => false,
            _ => return None,
        };
        let (column, value, less) = match (slot(left), slot(right)) {
            (Some(_), None) => (left, right, less),
            (None, Some(_)) => (right, left, !less),
            _ => return None,
        };
        let known = variable(sources, column)?;
        let value = self.value(value);
        let found = value.as_ref().and_then(|value| range_share(&known, value, less));
        let share = match found {
            Some(share) => whole(share + common_edge(&known, value.as_ref(), name.len() > 1)),
            None => COMPARED,
        };
        let (slot, is_known) = (slot(column)?, found.is_some());
        Some(End { slot, is_low: !less, share, nulls: known.null_fraction(), is_known })
    }

    /// The share of rows that a condition lets pass.
    pub(crate) fn share(&self, sources: &[Source], condition: &Expr) -> f64 {
        match condition {
            Expr::Const(value) => f64::from(u8::from(matches!(value.0, Value::Bool(true)))),
            Expr::And(list) => self.all(sources, list),
            Expr::Or(list) => {
                let shares = list.iter().map(|part| self.share(sources, part));
                shares.fold(0.0, |sum, share| sum + share - sum * share)
            }
            Expr::Not(inner) => match &**inner {
                Expr::Column { .. } => self.truth(sources, inner, false),
                inner => 1.0 - self.share(sources, inner),
            },
            Expr::IsNull { expr, negated, .. } => {
                let share =
                    variable(sources, expr).and_then(|it| it.known().map(|known| known.null_fraction));
                let share = share.unwrap_or(EQUAL);
                if *negated { 1.0 - share } else { share }
            }
            Expr::IsTruth { expr, truth, negated } => {
                let share = truth.map_or(EQUAL, |truth| self.truth(sources, expr, truth));
                if *negated { 1.0 - share } else { share }
            }
            Expr::Column { .. } => self.truth(sources, condition, true),
            Expr::Call { head, args, .. } => self.call(sources, head, args),
            Expr::Distinct { left, right, negated, .. } => {
                let equal = self.equality(sources, left, right);
                if *negated { equal } else { 1.0 - equal }
            }
            Expr::InList { left, list, negated, .. } => {
                let found = whole(list.iter().map(|value| self.equality(sources, left, value)).sum());
                if *negated { whole(1.0 - found - self.nulls(sources, left)) } else { found }
            }
            Expr::AnyArray { head, left, array, all, .. } => self.any(sources, (head, *all), left, array),
            Expr::Subquery(subquery) => match &subquery.kind {
                SubqueryKind::Any { left, negated, all: false, .. } if subquery.cache.is_some() => {
                    let found = self.among(sources, left, &subquery.query);
                    if *negated { 1.0 - found } else { found }
                }
                SubqueryKind::Exists => self.exists(sources, &subquery.query),
                _ => HALF,
            },
            Expr::RowCompare { op: crate::tree::RowOp::Equal, left, right, .. } => {
                left.iter().zip(right).map(|(left, right)| self.equality(sources, left, right)).product()
            }
            _ => COMPARED,
        }
    }

    fn nulls(&self, sources: &[Source], expr: &Expr) -> f64 {
        variable(sources, expr).map_or(0.0, |known| known.null_fraction())
    }

    fn truth(&self, sources: &[Source], expr: &Expr, truth: bool) -> f64 {
        match variable(sources, expr) {
            Some(known) => equal_share(&known, &Value::Bool(truth)).unwrap_or(HALF),
            None if truth => self.share_or(sources, expr),
            None => 1.0 - self.share_or(sources, expr),
        }
    }

    fn share_or(&self, sources: &[Source], expr: &Expr) -> f64 {
        if matches!(expr, Expr::Column { .. }) { HALF } else { self.share(sources, expr) }
    }

    /// Of an IN of a query that is run once: how many values that gives, of those that there are.
    fn among(&self, sources: &[Source], left: &[Expr], query: &Query) -> f64 {
        let [left] = left else { return HALF };
        let Some(known) = variable(sources, left) else { return HALF };
        let (estimate, columns) = self.query_columns(query);
        let given = columns.first().and_then(|it| it.as_ref()).map_or(estimate.rows, Variable::distinct);
        whole(given.min(estimate.rows) / known.distinct()) * (1.0 - known.null_fraction())
    }

    /// Of EXISTS: the share of values around it that its rows have, of those that are there.
    fn exists(&self, sources: &[Source], query: &Query) -> f64 {
        let Body::Select(select) = &query.body else { return HALF };
        let From::Planned(node) = &select.from else { return HALF };
        let mut pairs: Vec<(Expr, Expr)> = Vec::new();
        let (inner, filter) = match &**node {
            Node::Keyed(keyed) => {
                pairs.extend(keyed.keys.iter().map(|key| (key.outer.clone(), key.inner.clone())));
                (&keyed.inner, keyed.filter.as_ref())
            }
            node => (node, None),
        };
        let own = self.sources(inner);
        let mut rows = self.node(&own, inner).rows;
        if let (Node::Scan(scan), true) = (inner, pairs.is_empty()) {
            let Some(filter) = &scan.filter else { return HALF };
            for part in super::cost::parts(filter) {
                let Expr::Call { head, args, .. } = part else { continue };
                let [left, right] = args.as_slice() else { continue };
                if head.operator.is_none_or(|operator| operator.name != "=") {
                    continue;
                }
                for (inner, outer) in [(left, right), (right, left)] {
                    if let (Some(known), Expr::Column { depth: 1, .. }) =
                        (variable(&own, inner), outer.bare())
                    {
                        rows *= known.distinct();
                        pairs.push((outer.clone(), inner.clone()));
                    }
                }
            }
        }
        if let Some(filter) = filter {
            rows *= self.all(&own, super::cost::parts(filter));
        }
        let mut share = f64::MAX;
        for (outer, inner) in &pairs {
            let Expr::Column { depth: 1, slot } = outer.bare() else { continue };
            let there = variable(&own, inner).map_or(rows, |known| known.distinct());
            if let Some(around) = variable(sources, &Expr::slot(*slot)) {
                let met = there.min(rows) / around.distinct();
                share = share.min(whole(met) * (1.0 - around.null_fraction()));
            }
        }
        if share > 1.0 { HALF } else { share }
    }

    fn any(&self, sources: &[Source], (head, all): (&Head, bool), left: &Expr, array: &Expr) -> f64 {
        let name = head.operator.map_or("", |operator| operator.name);
        let elements = match array {
            Expr::Array { elements, nested: false, .. } => Some(elements.clone()),
            other => match self.value(other) {
                Some(Value::Array(array)) => Some(array.elements.iter().cloned().map(Expr::value).collect()),
                _ => None,
            },
        };
        let one = |element: &Expr| match name {
            "=" => self.equality(sources, left, element),
            "<>" => 1.0 - self.equality(sources, left, element),
            _ => COMPARED,
        };
        let shares: Vec<f64> = match &elements {
            Some(elements) => elements.iter().map(one).collect(),
            None => vec![one(&Expr::Param(usize::MAX)); ELEMENTS as usize],
        };
        match (name, all) {
            ("=", false) => whole(shares.iter().sum()),
            (_, true) => whole(shares.iter().product()),
            (_, false) => shares.iter().fold(0.0, |sum, share| sum + share - sum * share),
        }
    }

    fn call(&self, sources: &[Source], head: &Head, args: &[Expr]) -> f64 {
        let (Some(operator), [left, right]) = (head.operator, args) else { return COMPARED };
        match operator.name {
            "=" => self.equality(sources, left, right),
            "<>" => whole(1.0 - self.equality(sources, left, right) - self.nulls(sources, left)),
            "<" | "<=" | ">" | ">=" => {
                let end =
                    self.end(sources, &Expr::Call { head: head.clone(), args: args.to_vec(), spread: false });
                end.map_or(COMPARED, |end| end.share)
            }
            "~~" => self.pattern(sources, left, right),
            "!~~" => whole(1.0 - self.pattern(sources, left, right) - self.nulls(sources, left)),
            "~" | "~*" | "~~*" => MATCHED,
            "!~" | "!~*" | "!~~*" => 1.0 - MATCHED,
            "@>" | "<@" | "&&" | "?" | "?|" | "?&" => CONTAINED,
            _ => HALF,
        }
    }

    /// Of two expressions that are to be equal.
    pub(crate) fn equality(&self, sources: &[Source], left: &Expr, right: &Expr) -> f64 {
        match (variable(sources, left), variable(sources, right)) {
            (Some(left), Some(right)) => joined_share(&left, &right),
            (Some(known), None) => self.equal(&known, right),
            (None, Some(known)) => self.equal(&known, left),
            (None, None) => EQUAL,
        }
    }

    /// Of a column that is to be equal to what is no column.
    pub(super) fn equal(&self, known: &Variable, other: &Expr) -> f64 {
        match self.value(other) {
            Some(Value::Null) => 0.0,
            Some(value) => equal_share(known, &value).unwrap_or_else(|| average_share(known)),
            None => average_share(known),
        }
    }

    /// Of a column between these ends, each of which may be missing.
    pub(super) fn range(&self, known: &Variable, low: Option<&Expr>, high: Option<&Expr>) -> f64 {
        let share = |end: Option<&Expr>, less: bool| {
            let value = end.and_then(|end| self.value(end));
            value.and_then(|value| range_share(known, &value, less))
        };
        match (low, high) {
            (None, None) => 1.0,
            (Some(_), None) => share(low, false).unwrap_or(COMPARED),
            (None, Some(_)) => share(high, true).unwrap_or(COMPARED),
            (Some(_), Some(_)) => match (share(low, false), share(high, true)) {
                (Some(low), Some(high)) => (low + high - 1.0 + known.null_fraction()).max(LEAST),
                _ => RANGE,
            },
        }
    }

    /// Of LIKE.
    fn pattern(&self, sources: &[Source], left: &Expr, pattern: &Expr) -> f64 {
        let Some(known) = variable(sources, left) else { return MATCHED };
        let Some(Value::Text(pattern)) = self.value(pattern) else { return MATCHED };
        let special = |c: char| matches!(c, '%' | '_' | '\\');
        let start = pattern.split(special).next().unwrap_or_default();
        if start.len() == pattern.len() {
            return self.equal(&known, &Expr::value(Value::Text(pattern)));
        }
        let rest = &pattern[start.len()..];
        let fixed = rest.chars().filter(|c| !special(*c)).count();
        let Some(statistics) = known.known() else { return MATCHED };
        let common: f64 = statistics
            .common
            .iter()
            .filter(|(value, _)| is_like(value, &pattern))
            .map(|(_, share)| share)
            .sum();
        let others = whole(1.0 - statistics.common_share() - statistics.null_fraction);
        let with_start = match start.is_empty() {
            true => 1.0,
            false => {
                let end = format!("{start}\u{10ffff}");
                let low = below(statistics, &Value::text(start)).unwrap_or(0.0);
                let high = below(statistics, &Value::text(end)).unwrap_or(MATCHED);
                (high - low).max(LEAST)
            }
        };
        // A letter in the middle is met by one row of five.
        let rest = 0.2f64.powi(fixed.min(20) as i32).max(if fixed == 0 { 1.0 } else { 0.0001 });
        whole(common + others * with_start * rest)
    }
}

/// Whether a value matches a pattern of LIKE.
fn is_like(value: &Value, pattern: &str) -> bool {
    matches!(value, Value::Text(text) if like(text, pattern).unwrap_or(false))
}

/// What `<=` has besides `<`: its value itself, if that is common.
fn common_edge(known: &Variable, value: Option<&Value>, inclusive: bool) -> f64 {
    let (Some(statistics), Some(value), true) = (known.known(), value, inclusive) else { return 0.0 };
    let is_it = |common: &Value| order(statistics.ty, common, value) == Some(Ordering::Equal);
    statistics.common.iter().find(|(common, _)| is_it(common)).map_or(0.0, |(_, share)| *share)
}

/// The share of a column's rows below a value, or above.
fn range_share(known: &Variable, value: &Value, less: bool) -> Option<f64> {
    if value.is_null() {
        return Some(0.0);
    }
    let statistics = known.known()?;
    let wanted = if less { Ordering::Less } else { Ordering::Greater };
    let mut common = 0.0;
    for (one, share) in &statistics.common {
        common += if order(statistics.ty, one, value)? == wanted { *share } else { 0.0 };
    }
    let others = whole(1.0 - statistics.common_share() - statistics.null_fraction);
    let part = below(statistics, value).map(|part| if less { part } else { 1.0 - part });
    match (part, statistics.common.is_empty()) {
        (Some(part), _) => Some(whole(common + others * part)),
        (None, false) => Some(whole(common + others * HALF)),
        (None, true) => None,
    }
}

/// The share of rows that have a value, if the column is known.
fn equal_share(known: &Variable, value: &Value) -> Option<f64> {
    if known.unique {
        return Some(1.0 / known.rows.max(1.0));
    }
    let statistics = known.known()?;
    for (one, share) in &statistics.common {
        if order(statistics.ty, one, value)? == Ordering::Equal {
            return Some(*share);
        }
    }
    let others = whole(1.0 - statistics.common_share() - statistics.null_fraction);
    let left = (known.distinct() - statistics.common.len() as f64).max(1.0);
    let least = statistics.common.last().map_or(1.0, |(_, share)| *share);
    Some((others / left).min(least))
}

/// The share of rows that have a value of which nothing is known.
fn average_share(known: &Variable) -> f64 {
    (1.0 - known.null_fraction()) / known.distinct()
}

/// The share of pairs of rows of which two columns are equal.
fn joined_share(left: &Variable, right: &Variable) -> f64 {
    let there = (1.0 - left.null_fraction()) * (1.0 - right.null_fraction());
    let plain = there / left.distinct().max(right.distinct());
    let (Some(one), Some(other)) = (left.known(), right.known()) else { return plain };
    if one.common.is_empty() || other.common.is_empty() || left.unique || right.unique {
        return plain;
    }
    // Common values meet one another as often as they come; the others are spread evenly.
    let (mut met, mut met_left, mut met_right, mut pairs) = (0.0, 0.0, 0.0, 0usize);
    for (value, share) in &one.common {
        let same = |it: &&(Value, f64)| order(one.ty, value, &it.0) == Some(Ordering::Equal);
        if let Some((_, with)) = other.common.iter().find(same) {
            met += share * with;
            met_left += share;
            met_right += with;
            pairs += 1;
        }
    }
    let rest = |known: &Variable, statistics: &ColumnStatistics, met: f64| {
        let common = statistics.common_share();
        let others = whole(1.0 - common - statistics.null_fraction);
        let left = (known.distinct() - statistics.common.len() as f64).max(1.0);
        (whole(common - met), others, left)
    };
    let (lone_left, others_left, many_left) = rest(left, one, met_left);
    let (lone_right, others_right, many_right) = rest(right, other, met_right);
    let unmatched = |statistics: &ColumnStatistics| (statistics.common.len() - pairs) as f64;
    let by = |lone: f64, others: f64, own: f64, many: f64, lone_there: f64, others_there: f64| {
        lone * others_there / many.max(1.0) + others * (lone_there + others_there) / (own + many).max(1.0)
    };
    let from_left = by(lone_left, others_left, unmatched(other), many_right, lone_right, others_right);
    let from_right = by(lone_right, others_right, unmatched(one), many_left, lone_left, others_left);
    whole(met + from_left.min(from_right))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::oid;

    #[test]
    fn a_value_lies_between_others() {
        let (low, high) = (Value::Int4(10), Value::Int4(20));
        assert_eq!(between(&low, &high, &Value::Int8(15)), 0.5);
        assert_eq!(between(&low, &high, &Value::Int4(5)), 0.0);
        let at = between(&Value::text("aa"), &Value::text("az"), &Value::text("am"));
        assert!((0.4..0.6).contains(&at), "{at}");
        let day = Value::Timestamp(86_400_000_000);
        assert_eq!(between(&Value::Date(0), &Value::Date(2), &day), 0.5);
    }

    #[test]
    fn a_histogram_tells_how_much_is_below() {
        let bounds = (0..=10).map(|n| Value::Int4(n * 10)).collect();
        let known = ColumnStatistics { ty: oid::INT4, bounds, ..ColumnStatistics::default() };
        let share = |value: i32| below(&known, &Value::Int4(value)).expect("there are bounds");
        assert_eq!((share(-5), share(500)), (0.0, 1.0));
        assert!((share(25) - 0.25).abs() < 1e-9 && (share(50) - 0.5).abs() < 1e-9);
        assert_eq!(below(&ColumnStatistics::default(), &Value::Int4(1)), None);
    }
}
