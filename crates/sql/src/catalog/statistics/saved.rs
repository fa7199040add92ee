//! Statistics as rows (storage/parts.rs says where).
//!
//! ```text
//! statistics   key: table u32 | part u32     body: version u64 | parts u16 | len u16 | bytes
//! bytes        rows, pages: f64 | statement, host: time i64 (least: never), count u64 | columns u16 |
//!              for each: number u16 | type u32 | null fraction, width, distinct, correlation: f64 (NaN:
//!              none) | common values u16, each: share f64, value | bounds u16, each: value
//! value        len u32 | as storage/codec.rs writes it
//! ```
//!
//! Invariant: the parts of one table's statistics say the same version, so that who reads them without locks
//! sees whether he has all of them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::{ColumnStatistics, TableStatistics};
use crate::error::{Result, SqlError, SqlState};
use crate::storage::access::Access;
use crate::storage::classes::{Bound, Classes};
use crate::storage::codec;
use crate::storage::parts::{self, STATE, STATISTICS, STATISTICS_VERSION, own_place, set_number};
use crate::storage::table::new_row;
use crate::types::Oid;
use crate::types::value::Value;

const HEAD: usize = 12;

/// Statistics by table, each with the version at which they were written.
pub(super) type Found = BTreeMap<Oid, (u64, Arc<TableStatistics>)>;

/// The version, if nobody is setting it.
pub(super) fn peek_version(tx: &mut dyn Access, classes: &Classes) -> Result<Option<u64>> {
    let (own, state) = (own_place(tx), classes.home(STATE)?);
    let (at, mut seen) = (state.size.body_at(), None);
    tx.peek(state.table, &state.range_of_prefix(own, &STATISTICS_VERSION.to_be_bytes()), &mut |_, row| {
        seen = Some(u64::from_le_bytes(row[at..at + 8].try_into().expect("8 bytes")));
        ControlFlow::Break(())
    })?;
    Ok(seen)
}

/// All statistics; `None` if somebody is writing some.
pub(super) fn peek_all(tx: &mut dyn Access, classes: &Classes) -> Result<Option<Found>> {
    let home = classes.home(STATISTICS)?;
    let at = home.size.body_at();
    let mut pieces: BTreeMap<Oid, (u64, usize, usize, Vec<u8>)> = BTreeMap::new();
    let mut is_whole = true;
    tx.peek(home.table, &home.range(0, Bound::Open, Bound::Open), &mut |key, row| {
        let (oid, part) = (key.extract(8, 4) as Oid, key.extract(12, 4) as usize);
        let version = u64::from_le_bytes(row[at..at + 8].try_into().expect("8 bytes"));
        let number = |at: usize| usize::from(u16::from_le_bytes([row[at], row[at + 1]]));
        let (parts, len) = (number(at + 8), number(at + 10));
        let (known, all, next, bytes) = pieces.entry(oid).or_insert((version, parts, 0, Vec::new()));
        is_whole &= (*known, *all, *next) == (version, parts, part);
        *next += 1;
        bytes.extend_from_slice(&row[(at + HEAD).min(row.len())..(at + HEAD + len).min(row.len())]);
        ControlFlow::Continue(())
    })?;
    is_whole &= pieces.values().all(|(_, parts, read, _)| parts == read);
    if !is_whole {
        return Ok(None);
    }
    let mut found = Found::new();
    for (oid, (version, .., bytes)) in pieces {
        found.insert(oid, (version, Arc::new(Reader(&bytes).table()?)));
    }
    Ok(Some(found))
}

/// Saves the statistics of a table, in place of those that are there, at a new version.
pub(crate) fn save(
    tx: &mut dyn Access,
    classes: &Classes,
    table: Oid,
    statistics: &TableStatistics,
) -> Result<()> {
    remove(tx, classes, table)?;
    let own = own_place(tx);
    let version = parts::read_number(tx, classes, own, STATISTICS_VERSION)?.unwrap_or(0) + 1;
    let home = classes.home(STATISTICS)?;
    let bytes = written(statistics)?;
    let pieces: Vec<&[u8]> = bytes.chunks(usize::from(STATISTICS.size.body) - HEAD).collect();
    let parts = u16::try_from(pieces.len()).map_err(|_| too_many())?;
    for (part, piece) in pieces.iter().enumerate() {
        let mut body = version.to_le_bytes().to_vec();
        body.extend_from_slice(&parts.to_le_bytes());
        body.extend_from_slice(&(piece.len() as u16).to_le_bytes());
        body.extend_from_slice(piece);
        let key = [table.to_be_bytes(), (part as u32).to_be_bytes()].concat();
        if !tx.insert(home.table, &new_row(&home, &home.key(0, &key), &body))? {
            return Err(SqlError::new(SqlState::DATA_CORRUPTED, "statistics of a table are there twice"));
        }
    }
    (0..tx.places()).try_for_each(|place| set_number(tx, classes, place, STATISTICS_VERSION, version))
}

fn too_many() -> SqlError {
    let message = "the statistics of a table are too large";
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).hint("Lower the statistics target.")
}

/// Removes the statistics of a table that is dropped.
pub(crate) fn remove(tx: &mut dyn Access, classes: &Classes, table: Oid) -> Result<()> {
    let home = classes.home(STATISTICS)?;
    let mut keys = Vec::new();
    tx.scan(home.table, &home.range_of_prefix(0, &table.to_be_bytes()), &mut |key, _| {
        keys.push(*key);
        ControlFlow::Continue(())
    })?;
    keys.iter().try_for_each(|key| tx.delete(home.table, key).map(|_| ()))
}

fn put_value(value: &Value, out: &mut Vec<u8>) -> Result<()> {
    let mut bytes = Vec::new();
    codec::write(value, &mut bytes)?;
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(&bytes);
    Ok(())
}

fn written(statistics: &TableStatistics) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    out.extend_from_slice(&statistics.rows.to_le_bytes());
    out.extend_from_slice(&statistics.pages.to_le_bytes());
    for (time, count) in statistics.analyzed.iter().zip(statistics.counts) {
        out.extend_from_slice(&time.unwrap_or(i64::MIN).to_le_bytes());
        out.extend_from_slice(&count.to_le_bytes());
    }
    out.extend_from_slice(&(statistics.columns.len() as u16).to_le_bytes());
    for (number, column) in &statistics.columns {
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(&column.ty.to_le_bytes());
        let correlation = column.correlation.unwrap_or(f64::NAN);
        for number in [column.null_fraction, column.width, column.distinct, correlation] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&(column.common.len() as u16).to_le_bytes());
        for (value, share) in &column.common {
            out.extend_from_slice(&share.to_le_bytes());
            put_value(value, &mut out)?;
        }
        out.extend_from_slice(&(column.bounds.len() as u16).to_le_bytes());
        column.bounds.iter().try_for_each(|value| put_value(value, &mut out))?;
    }
    Ok(out)
}

/// Bytes that are read from the front.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let damaged = || SqlError::new(SqlState::DATA_CORRUPTED, "statistics of a table cannot be read");
        let (bytes, rest) = self.0.split_first_chunk::<N>().ok_or_else(damaged)?;
        self.0 = rest;
        Ok(*bytes)
    }

    fn real(&mut self) -> Result<f64> {
        self.take().map(f64::from_le_bytes)
    }

    fn small(&mut self) -> Result<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn value(&mut self) -> Result<Value> {
        let len = u32::from_le_bytes(self.take()?) as usize;
        let (bytes, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        codec::read(bytes)
    }

    fn table(&mut self) -> Result<TableStatistics> {
        let (rows, pages) = (self.real()?, self.real()?);
        let mut found = TableStatistics { rows, pages, ..TableStatistics::default() };
        for by in 0..2 {
            let time = i64::from_le_bytes(self.take()?);
            found.analyzed[by] = (time != i64::MIN).then_some(time);
            found.counts[by] = u64::from_le_bytes(self.take()?);
        }
        for _ in 0..self.small()? {
            let number = self.small()?;
            let ty = u32::from_le_bytes(self.take()?);
            let [null_fraction, width, distinct, correlation] =
                [self.real()?, self.real()?, self.real()?, self.real()?];
            let correlation = Some(correlation).filter(|it| !it.is_nan());
            let (mut common, mut bounds) = (Vec::new(), Vec::new());
            for _ in 0..self.small()? {
                let share = self.real()?;
                common.push((self.value()?, share));
            }
            for _ in 0..self.small()? {
                bounds.push(self.value()?);
            }
            let column = ColumnStatistics { ty, null_fraction, width, distinct, common, bounds, correlation };
            found.columns.insert(number, column);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let column = ColumnStatistics {
            ty: 25,
            null_fraction: 0.25,
            width: 7.5,
            distinct: -0.5,
            common: vec![(Value::text("a"), 0.5), (Value::text("b"), 0.125)],
            bounds: vec![Value::text("c"), Value::text("zz")],
            correlation: None,
        };
        let columns =
            BTreeMap::from([(0, column.clone()), (3, ColumnStatistics { correlation: Some(0.5), ..column })]);
        let all =
            TableStatistics { rows: 10.0, pages: 1.0, analyzed: [None, Some(-5)], counts: [0, 3], columns };
        let bytes = written(&all).expect("plain values");
        let read = Reader(&bytes).table().expect("what was written");
        assert_eq!(format!("{read:?}"), format!("{all:?}"));
        for end in 0..bytes.len() {
            assert!(Reader(&bytes[..end]).table().is_err(), "{end}");
        }
    }
}
