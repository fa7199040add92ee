//! Statistics of a sample of rows: how often values come, how many there are, how they are spread, and how
//! far rows lie in their order.
//!
//! What is found is what PostgreSQL's ANALYZE finds in the same sample: values are common if they come
//! clearly more often than the average of the others would, the number of values is guessed by those that
//! the sample has once (Haas and Stokes), and the others are divided into parts of the same size.

use std::cmp::Ordering;

use super::ColumnStatistics;
use crate::types::order::{compare, hash};
use crate::types::value::Value;
use crate::types::{Oid, oid};

/// Wider values are counted, and not looked at.
const WIDEST: usize = 1024;
/// Rows of a sample for each value that is kept of a column.
pub const ROWS_PER_VALUE: usize = 300;

/// Rows that are kept of those that come by, each with the same chance.
#[derive(Debug)]
pub struct Sample<R> {
    most: usize,
    seen: u64,
    kept: Vec<(u64, R)>,
}

impl<R> Sample<R> {
    /// Of at most so many rows.
    pub fn new(most: usize) -> Sample<R> {
        Sample { most, seen: 0, kept: Vec::new() }
    }

    /// A row comes by; `random`: any number.
    pub fn see(&mut self, random: u64, row: impl FnOnce() -> R) {
        let at = self.seen;
        self.seen += 1;
        if self.kept.len() < self.most {
            return self.kept.push((at, row()));
        }
        let place = ((u128::from(random) * u128::from(self.seen)) >> 64) as usize;
        if place < self.most {
            self.kept[place] = (at, row());
        }
    }

    /// How many came by, and those that were kept, in the order in which they came.
    pub fn end(mut self) -> (u64, Vec<R>) {
        self.kept.sort_by_key(|(at, _)| *at);
        (self.seen, self.kept.into_iter().map(|(_, row)| row).collect())
    }
}

/// Values of a column in a sample.
pub struct Sampled<'a> {
    /// Its type, without domains.
    pub ty: Oid,
    /// The values, in the order of their rows.
    pub values: Vec<&'a Value>,
    /// Rows that the sample was taken of.
    pub rows: f64,
    /// How many common values, and parts of the others, are kept.
    pub target: usize,
}

/// Whether values of a type have an order.
fn is_ordered(ty: Oid) -> bool {
    !matches!(ty, oid::JSON | oid::JSONPATH | oid::XID)
}

/// Bytes that PostgreSQL would take for a value.
fn width_of(value: &Value) -> usize {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Int2(_) => 2,
        Value::Int4(_) | Value::Oid(_) | Value::Float4(_) | Value::Date(_) | Value::Enum(_) => 4,
        Value::Int8(_) | Value::Float8(_) | Value::Time(_) => 8,
        Value::Timestamp(_) | Value::Timestamptz(_) => 8,
        Value::Timetz(..) => 12,
        Value::Interval(_) | Value::Uuid(_) => 16,
        Value::Text(text) | Value::Json(text) => 1 + text.len(),
        Value::Bytea(bytes) => 1 + bytes.len(),
        Value::Numeric(number) => 3 + 2 * numeric_groups(&number.to_string()),
        other => {
            let mut bytes = Vec::new();
            crate::storage::codec::write(other, &mut bytes).map_or(WIDEST + 1, |()| bytes.len())
        }
    }
}

/// Groups of four digits that PostgreSQL keeps of a number: those before the point, and those behind it
/// without zeros at the end.
fn numeric_groups(number: &str) -> usize {
    let (whole, part) = number.trim_start_matches('-').split_once('.').unwrap_or((number, ""));
    let of = |digits: &str| digits.len().div_ceil(4);
    of(whole.trim_start_matches(['-', '0'])) + of(part.trim_end_matches('0'))
}

/// Equal values of a sample: how often they come, and where the first of them is among the sorted ones.
struct Group {
    first: usize,
    count: usize,
}

impl Sampled<'_> {
    /// What is known of the column by this sample.
    pub fn statistics(&self) -> ColumnStatistics {
        let all = self.values.len();
        let there: Vec<(usize, &Value, usize)> = self
            .values
            .iter()
            .enumerate()
            .filter(|(_, value)| !value.is_null())
            .map(|(at, value)| (at, *value, width_of(value)))
            .collect();
        let mut found = ColumnStatistics { ty: self.ty, ..ColumnStatistics::default() };
        if all == 0 {
            return found;
        }
        found.null_fraction = (all - there.len()) as f64 / all as f64;
        if there.is_empty() {
            return found;
        }
        found.width = there.iter().map(|(.., width)| *width as f64).sum::<f64>() / there.len() as f64;
        let mut values: Vec<(usize, &Value)> =
            there.iter().filter(|(.., width)| *width <= WIDEST).map(|(at, value, _)| (*at, *value)).collect();
        let wide = there.len() - values.len();
        let ordered = is_ordered(self.ty);
        let order = |a: &(usize, &Value), b: &(usize, &Value)| match ordered {
            true => compare(self.ty, a.1, b.1),
            false => hash(self.ty, a.1).cmp(&hash(self.ty, b.1)),
        };
        values.sort_by(|a, b| order(a, b).then(a.0.cmp(&b.0)));
        let mut groups: Vec<Group> = Vec::new();
        for (at, value) in values.iter().enumerate() {
            match groups.last_mut() {
                Some(group) if order(&values[group.first], value) == Ordering::Equal => group.count += 1,
                _ => groups.push(Group { first: at, count: 1 }),
            }
        }
        found.distinct = self.distinct(&groups, values.len(), wide, found.null_fraction);
        let common = self.common(&groups, wide, &found);
        let shared = |group: &Group| (values[group.first].1.clone(), group.count as f64 / all as f64);
        found.common = common.iter().map(|at| shared(&groups[*at])).collect();
        if ordered {
            found.bounds = self.bounds(&groups, &values, &common);
            found.correlation = correlation(&values);
        }
        found
    }

    /// How many different values all rows have.
    fn distinct(&self, groups: &[Group], values: usize, wide: usize, null_fraction: f64) -> f64 {
        let repeated = groups.iter().filter(|group| group.count > 1).count();
        if repeated == 0 {
            return -(1.0 - null_fraction);
        }
        if wide == 0 && repeated == groups.len() {
            return self.as_share(groups.len() as f64);
        }
        // Those that are too wide are taken to come once.
        let once = (groups.len() - repeated + wide) as f64;
        let found = once + repeated as f64;
        let sampled = (values + wide) as f64;
        let rows = self.rows * (1.0 - null_fraction);
        let guess = sampled * found / ((sampled - once) + once * sampled / rows.max(1.0));
        self.as_share(guess.clamp(found, rows.max(found)).floor().max(1.0))
    }

    /// A number of values that grows with the table is a share of its rows.
    fn as_share(&self, distinct: f64) -> f64 {
        if distinct > 0.1 * self.rows { -(distinct / self.rows).min(1.0) } else { distinct }
    }

    /// Which groups are the most common values, the most common first.
    fn common(&self, groups: &[Group], wide: usize, found: &ColumnStatistics) -> Vec<usize> {
        let mut often: Vec<usize> = (0..groups.len()).filter(|at| groups[*at].count > 1).collect();
        often.sort_by(|a, b| groups[*b].count.cmp(&groups[*a].count).then(a.cmp(b)));
        let is_whole = often.len() == groups.len() && wide == 0 && found.distinct > 0.0;
        often.truncate(self.target);
        if is_whole && often.len() == groups.len() {
            return often;
        }
        let counts: Vec<f64> = often.iter().map(|at| groups[*at].count as f64).collect();
        often.truncate(self.clearly_common(&counts, found));
        often
    }

    /// How many of these counts, of which the greatest come first, are clearly above what the average of all
    /// other values would have in the sample.
    fn clearly_common(&self, counts: &[f64], found: &ColumnStatistics) -> usize {
        let (sampled, rows) = (self.values.len() as f64, self.rows);
        if sampled >= rows || rows <= 1.0 {
            return counts.len();
        }
        let distinct = found.distinct_of(rows).unwrap_or(rows);
        let mut keeps = counts.len();
        while keeps > 0 {
            let before: f64 = counts[..keeps - 1].iter().sum();
            let others = (distinct - (keeps - 1) as f64).max(1.0);
            let left = (1.0 - before / sampled - found.null_fraction).clamp(0.0, 1.0);
            let expected = left / others * sampled;
            let of_all = rows * counts[keeps - 1] / sampled;
            let spread = sampled * of_all * (rows - of_all) * (rows - sampled);
            let deviation = (spread / (rows * rows * (rows - 1.0))).max(0.0).sqrt();
            if counts[keeps - 1] > expected + 2.0 * deviation + 0.5 {
                break;
            }
            keeps -= 1;
        }
        keeps
    }

    /// Values that divide those that are not common into parts of the same size.
    fn bounds(&self, groups: &[Group], values: &[(usize, &Value)], common: &[usize]) -> Vec<Value> {
        if groups.len() < common.len() + 2 {
            return Vec::new();
        }
        let mut is_common = vec![false; groups.len()];
        common.iter().for_each(|at| is_common[*at] = true);
        let others = groups.iter().zip(&is_common).filter(|(_, common)| !**common);
        let others: Vec<usize> =
            others.flat_map(|(group, _)| group.first..group.first + group.count).collect();
        let many = (groups.len() - common.len()).min(self.target + 1);
        let last = others.len() - 1;
        (0..many).map(|part| values[others[part * last / (many - 1)]].1.clone()).collect()
    }
}

/// How far places of values among rows go with those in order.
fn correlation(values: &[(usize, &Value)]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    // Places among those that are there: NULLs lie between them.
    let mut places: Vec<usize> = (0..values.len()).collect();
    places.sort_by_key(|at| values[*at].0);
    let n = values.len() as f64;
    let product: f64 = places.iter().enumerate().map(|(place, at)| place as f64 * *at as f64).sum();
    let (sum, squares) = (n * (n - 1.0) / 2.0, n * (n - 1.0) * (2.0 * n - 1.0) / 6.0);
    Some((n * product - sum * sum) / (n * squares - sum * sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[Value], rows: f64, target: usize) -> ColumnStatistics {
        Sampled { ty: oid::INT4, values: values.iter().collect(), rows, target }.statistics()
    }

    #[test]
    fn a_key_is_a_share_of_the_rows() {
        let values: Vec<Value> = (0..1000).map(Value::Int4).collect();
        let found = of(&values, 1000.0, 100);
        assert_eq!((found.distinct, found.common.len(), found.bounds.len()), (-1.0, 0, 101));
        assert_eq!(found.correlation, Some(1.0));
        assert_eq!(format!("{:?}", [&found.bounds[0], &found.bounds[100]]), "[Int4(0), Int4(999)]");
    }

    #[test]
    fn few_values_are_all_common() {
        let values = (0..1000).map(|n| if n % 4 == 0 { Value::Null } else { Value::Int4(n % 3) });
        let found = of(&values.collect::<Vec<_>>(), 100_000.0, 100);
        assert_eq!((found.null_fraction, found.distinct, found.common.len()), (0.25, 3.0, 3));
        assert!(found.bounds.is_empty());
        assert!((found.common_share() - 0.75).abs() < 1e-9);
    }

    #[test]
    fn a_skewed_column_has_its_common_value_and_a_histogram() {
        let values: Vec<Value> = (0..3000).map(|n| Value::Int4(if n % 2 == 0 { 7 } else { n })).collect();
        let found = of(&values, 300_000.0, 10);
        assert_eq!(found.common.len(), 1);
        assert!((found.common[0].1 - 0.5).abs() < 0.001 && found.common[0].0.as_i64() == Some(7));
        assert_eq!(found.bounds.len(), 11);
        // By Haas and Stokes, 3000 * 1500 / (3000 - 1499 + 1499 * 3000 / 300_000); less than a tenth of all.
        assert_eq!(found.distinct.round(), 2968.0);
    }

    #[test]
    fn a_sample_has_every_row_with_the_same_chance() {
        let mut random = 1u64;
        let mut hits = [0u32; 10];
        for _ in 0..2000 {
            let mut sample = Sample::new(3);
            for row in 0..10usize {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                sample.see(random ^ (random >> 29), || row);
            }
            let (seen, kept) = sample.end();
            assert_eq!((seen, kept.len()), (10, 3));
            assert!(kept.is_sorted());
            kept.iter().for_each(|row| hits[*row] += 1);
        }
        assert!(hits.iter().all(|hit| (480..720).contains(hit)), "{hits:?}");
    }
}
