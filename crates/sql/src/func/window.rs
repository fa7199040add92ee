//! Functions over windows: their values for a row of a partition.
//!
//! The executor sorts a partition, finds peers and frames, and asks here for each row; aggregates over
//! windows are [`super::Accumulator`]s fed with the rows of the frame.

use super::WindowFunction;
use crate::error::{Result, SqlError, SqlState};
use crate::types::value::Value;

/// Where a row stands: all places are rows of the partition from 0.
#[derive(Clone, Copy, Debug)]
pub struct RowPosition {
    /// The row.
    pub row: usize,
    /// Rows of the partition.
    pub rows: usize,
    /// The first row that is equal to it in the window's order.
    pub first_peer: usize,
    /// Behind the last such row.
    pub end_peer: usize,
    /// How many groups of peers there are up to and including its own.
    pub peer_groups: usize,
    /// The first row of its frame.
    pub frame_start: usize,
    /// Behind the last row of its frame; not in front of the first.
    pub frame_end: usize,
}

impl WindowFunction {
    /// The value for the row at `place`; `argument(i, row)` evaluates the function's argument `i` on a row.
    ///
    /// # Errors
    /// 22014 and 22016 for an ntile or nth_value of less than one; what `argument` gives.
    pub fn value(
        self,
        place: &RowPosition,
        count: usize,
        argument: &mut dyn FnMut(usize, usize) -> Result<Value>,
    ) -> Result<Value> {
        let RowPosition { row, rows, first_peer, end_peer, .. } = *place;
        Ok(match self {
            WindowFunction::RowNumber => Value::Int8(row as i64 + 1),
            WindowFunction::Rank => Value::Int8(first_peer as i64 + 1),
            WindowFunction::DenseRank => Value::Int8(place.peer_groups as i64),
            WindowFunction::PercentRank => {
                Value::Float8(if rows < 2 { 0.0 } else { first_peer as f64 / (rows - 1) as f64 })
            }
            WindowFunction::CumeDist => Value::Float8(end_peer as f64 / rows as f64),
            WindowFunction::Ntile => ntile(argument(0, row)?, row, rows)?,
            WindowFunction::Lag => shifted(-1, place, count, argument)?,
            WindowFunction::Lead => shifted(1, place, count, argument)?,
            WindowFunction::FirstValue if place.frame_start >= place.frame_end => Value::Null,
            WindowFunction::FirstValue => argument(0, place.frame_start)?,
            WindowFunction::LastValue if place.frame_start >= place.frame_end => Value::Null,
            WindowFunction::LastValue => argument(0, place.frame_end - 1)?,
            WindowFunction::NthValue => match argument(1, row)?.as_i64() {
                None => Value::Null,
                Some(..1) => {
                    let message = "argument of nth_value must be greater than zero";
                    return Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_NTH_VALUE, message));
                }
                Some(nth) => match place.frame_start + (nth - 1) as usize {
                    at if at < place.frame_end => argument(0, at)?,
                    _ => Value::Null,
                },
            },
        })
    }
}

/// Buckets of sizes that differ by at most one, larger ones first.
fn ntile(buckets: Value, row: usize, rows: usize) -> Result<Value> {
    let Some(buckets) = buckets.as_i64() else { return Ok(Value::Null) };
    if buckets < 1 {
        let message = "argument of ntile must be greater than zero";
        return Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_NTILE, message));
    }
    let buckets = buckets as usize;
    let (size, larger) = (rows / buckets, rows % buckets);
    let in_larger = larger * (size + 1);
    let bucket = if row < in_larger { row / (size + 1) } else { larger + (row - in_larger) / size.max(1) };
    Ok(Value::Int4(bucket as i32 + 1))
}

/// lag and lead: `f(value [, offset [, default]])`.
fn shifted(
    direction: i64,
    place: &RowPosition,
    count: usize,
    argument: &mut dyn FnMut(usize, usize) -> Result<Value>,
) -> Result<Value> {
    let offset = if count > 1 { argument(1, place.row)?.as_i64() } else { Some(1) };
    let Some(offset) = offset else { return Ok(Value::Null) };
    let at = place.row as i64 + direction * offset;
    match usize::try_from(at).ok().filter(|at| *at < place.rows) {
        Some(at) => argument(0, at),
        None if count > 2 => argument(2, place.row),
        None => Ok(Value::Null),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(function: WindowFunction, keys: &[i32], arguments: &[Value]) -> Vec<String> {
        let rows = keys.len();
        let value = |row: usize| {
            let first_peer = keys.iter().position(|key| *key == keys[row]).unwrap();
            let end_peer = first_peer + keys.iter().filter(|key| **key == keys[row]).count();
            let mut earlier = keys[..=row].to_vec();
            earlier.dedup();
            let peer_groups = earlier.len();
            let place = RowPosition {
                row,
                rows,
                first_peer,
                end_peer,
                peer_groups,
                frame_start: 0,
                frame_end: end_peer,
            };
            let mut argument = |i: usize, at: usize| {
                Ok(if i == 0 && arguments.is_empty() || arguments.get(i).is_some_and(Value::is_null) {
                    Value::Int4(keys[at])
                } else {
                    arguments[i].clone()
                })
            };
            match function.value(&place, arguments.len().max(1), &mut argument).unwrap() {
                Value::Null => "-".to_string(),
                Value::Float8(f) => format!("{f:.2}"),
                other => other.as_i64().unwrap().to_string(),
            }
        };
        (0..rows).map(value).collect()
    }

    #[test]
    fn values_over_a_partition() {
        let keys = [10, 20, 20, 30, 40];
        let shown = |function, arguments: &[Value]| values(function, &keys, arguments).join(" ");
        assert_eq!(shown(WindowFunction::RowNumber, &[]), "1 2 3 4 5");
        assert_eq!(shown(WindowFunction::Rank, &[]), "1 2 2 4 5");
        assert_eq!(shown(WindowFunction::DenseRank, &[]), "1 2 2 3 4");
        assert_eq!(shown(WindowFunction::PercentRank, &[]), "0.00 0.25 0.25 0.75 1.00");
        assert_eq!(shown(WindowFunction::CumeDist, &[]), "0.20 0.60 0.60 0.80 1.00");
        assert_eq!(shown(WindowFunction::Ntile, &[Value::Int4(3)]), "1 1 2 2 3");
        assert_eq!(shown(WindowFunction::Lag, &[]), "- 10 20 20 30");
        assert_eq!(
            shown(WindowFunction::Lead, &[Value::Null, Value::Int4(2), Value::Int4(7)]),
            "20 30 40 7 7"
        );
        assert_eq!(shown(WindowFunction::FirstValue, &[]), "10 10 10 10 10");
        assert_eq!(shown(WindowFunction::LastValue, &[]), "10 20 20 30 40");
        assert_eq!(shown(WindowFunction::NthValue, &[Value::Null, Value::Int4(4)]), "- - - 30 30");
    }
}
