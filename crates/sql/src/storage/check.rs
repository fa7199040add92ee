//! Whether the rows of an object fit together.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use liger_engine::Key;

use super::access::Access;
use super::classes::Home;
use super::row::wholes;
use super::scan::Range;
use super::table::{Computed, TableRows};
use crate::error::Result;

/// Whether an object has its edges.
pub(crate) fn check_edges(
    tx: &mut dyn Access,
    home: &Home,
    what: &str,
    wrong: &mut Vec<String>,
) -> Result<()> {
    for place in 0..tx.places() {
        if !tx.get(home.table, &home.edge(place), &mut |_| {})? {
            wrong.push(format!("{what} has no edge in place {place}"));
        }
    }
    Ok(())
}

/// The keys of an object, edges left out.
fn keys(tx: &mut dyn Access, home: &Home, mut see: impl FnMut(&Key, &[u8])) -> Result<BTreeSet<Key>> {
    let mut keys = BTreeSet::new();
    for place in 0..tx.places() {
        tx.scan(home.table, &home.range_with_edge(place), &mut |key, row| {
            if !Home::is_edge(key) {
                keys.insert(*key);
                see(key, &row[home.size.body_at()..]);
            }
            ControlFlow::Continue(())
        })?;
    }
    Ok(keys)
}

/// Whether a table's rows, values outside of them, and entries fit together.
pub(crate) fn check_table(
    tx: &mut dyn Access,
    rows: &TableRows,
    computed: &dyn Computed,
    wrong: &mut Vec<String>,
) -> Result<()> {
    let name = &rows.name;
    check_edges(tx, &rows.home, &format!("table {name}"), wrong)?;
    let (mut damage, mut outside) = (Vec::new(), BTreeSet::new());
    let all = keys(tx, &rows.home, |key, body| match rows.layout.outside(body) {
        Ok(found) => outside.extend(wholes(&found).into_iter().map(|at| (Home::place_of(key), at))),
        Err(error) => damage.push(format!("table {name}: {error}")),
    })?;
    wrong.append(&mut damage);
    if let Some(overflow) = &rows.overflow {
        check_edges(tx, overflow, &format!("values outside of table {name}"), wrong)?;
        let pieces = keys(tx, overflow, |_, _| {})?;
        let wanted: usize = outside.iter().map(|(_, at)| (at.len as usize).div_ceil(1024)).sum();
        if pieces.len() != wanted {
            wrong.push(format!("table {name}: {} pieces outside, {wanted} are in use", pieces.len()));
        }
        for (place, at) in &outside {
            super::overflow::get(tx, overflow, *place, *at)?;
        }
    } else if !outside.is_empty() {
        wrong.push(format!("table {name}: values outside, and nowhere to be"));
    }
    let mut found = Vec::new();
    let mut scan = rows.scan(tx, &Range::default())?;
    while let Some(row) = scan.next(tx, rows)? {
        found.push(row);
    }
    let seen: BTreeSet<Key> = found.iter().map(|row| row.key).collect();
    if seen != all {
        wrong.push(format!("table {name}: a scan finds {} of {} rows", seen.len(), all.len()));
    }
    for row in found.iter().filter(|_| !rows.has_hidden_key()) {
        if rows.key_of_row(tx, &row.values)? != row.key {
            wrong.push(format!("table {name}: row {:?} has another row's key", row.key));
        }
    }
    for index in &rows.indexes {
        check_edges(tx, &index.home, &format!("index {} of table {name}", index.oid), wrong)?;
        let mut expected = BTreeSet::new();
        for row in &found {
            expected.extend(rows.entry_of(tx, index, row, computed)?);
        }
        let entries = keys(tx, &index.home, |_, _| {})?;
        let missing = expected.difference(&entries).count();
        let besides = entries.difference(&expected).count();
        if missing + besides > 0 {
            wrong.push(format!(
                "index {} of table {name}: {missing} entries missing, {besides} too many",
                index.oid
            ));
        }
    }
    Ok(())
}
