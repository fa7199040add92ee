//! What ANALYZE has found out, as `pg_statistic` has it, and what has been counted of tables.

use super::{Look, Maker};
use crate::catalog::object::{Object, Table};
use crate::catalog::statistics::ColumnStatistics;
use crate::exec::Row;
use crate::exec::system::SessionSystem;
use crate::types::value::Value;
use crate::types::{Oid, oid};

/// Numbers of PostgreSQL for what a slot of a row holds.
const COMMON: i16 = 1;
const BOUNDS: i16 = 2;
const CORRELATION: i16 = 3;

fn reals(values: impl Iterator<Item = f64>) -> Value {
    Value::array(oid::FLOAT4, values.map(|value| Value::Float4(value as f32)).collect())
}

/// Rows of `pg_statistic`.
pub(super) fn rows(look: &Look<'_>) -> Vec<Row> {
    let maker = Maker::of(
        "pg_statistic",
        [
            "starelid",
            "staattnum",
            "stanullfrac",
            "stawidth",
            "stadistinct",
            "stakind1",
            "stakind2",
            "stakind3",
            "stanumbers1",
            "stanumbers3",
            "stavalues1",
            "stavalues2",
        ],
    );
    let mut rows = Vec::new();
    for table in look.tables() {
        let Some(known) = look.system.store.statistics(table.oid) else { continue };
        let columns = known.columns.iter().filter(|(number, _)| is_there(table, **number));
        rows.extend(columns.map(|(number, column)| maker.row(fields(table.oid, *number, column))));
    }
    rows
}

fn is_there(table: &Table, number: u16) -> bool {
    table.columns.get(usize::from(number)).is_some_and(|column| !column.dropped)
}

fn fields(table: Oid, number: u16, column: &ColumnStatistics) -> [Value; 12] {
    let kind = |is_there: bool, kind: i16| Value::Int2(if is_there { kind } else { 0 });
    let has_common = !column.common.is_empty();
    let common = || {
        let values = column.common.iter().map(|(value, _)| value.clone()).collect();
        Value::array(column.ty, values)
    };
    [
        Value::Oid(table),
        Value::Int2(number as i16 + 1),
        Value::Float4(column.null_fraction as f32),
        Value::Int4(column.width as i32),
        Value::Float4(column.distinct as f32),
        kind(has_common, COMMON),
        kind(!column.bounds.is_empty(), BOUNDS),
        kind(column.correlation.is_some(), CORRELATION),
        if has_common { reals(column.common.iter().map(|(_, share)| *share)) } else { Value::Null },
        column.correlation.map_or(Value::Null, |it| reals(std::iter::once(it))),
        if has_common { common() } else { Value::Null },
        match column.bounds.is_empty() {
            true => Value::Null,
            false => Value::array(column.ty, column.bounds.clone()),
        },
    ]
}

/// A function of what was counted of a table: `pg_stat_get_` and then what.
pub(super) fn counted(on: &SessionSystem<'_>, what: &str, table: Oid) -> Value {
    let known = on.store.statistics(table);
    let changes = on.store.host().map(|host| host.catalog.statistics().changes_of(table)).unwrap_or_default();
    let count = |count: u64| Value::Int8(count as i64);
    let (times, counts) = known.as_ref().map_or(([None; 2], [0; 2]), |known| (known.analyzed, known.counts));
    let time = |time: Option<i64>| time.map_or(Value::Null, Value::Timestamptz);
    match what {
        "tuples_inserted" => count(changes.all[0]),
        "tuples_updated" => count(changes.all[1]),
        "tuples_deleted" => count(changes.all[2]),
        "mod_since_analyze" => count(changes.since.iter().sum()),
        "live_tuples" => match on.store.object(table).as_deref() {
            Some(Object::Table(_)) => {
                count(on.store.present(table, false).map_or(0.0, |present| present.rows) as u64)
            }
            _ => count(0),
        },
        "last_analyze_time" => time(times[0]),
        "last_autoanalyze_time" => time(times[1]),
        "analyze_count" => count(counts[0]),
        "autoanalyze_count" => count(counts[1]),
        other if other.ends_with("_time") => Value::Null,
        _ => count(0),
    }
}
