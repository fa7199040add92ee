//! How rows are read and changed: what a transaction below is asked for.

#![forbid(unsafe_code)]

mod support;
#[path = "support/watched.rs"]
mod watched;

use liger_engine::{Key, TableId};
use liger_sql::catalog::change::NewIndex;
use liger_sql::catalog::check;
use liger_sql::catalog::object::IndexColumn;
use liger_sql::storage::bulk::at_once;
use liger_sql::storage::scan::{Hold, Range};
use liger_sql::storage::table::{PlainColumns, RowChange};
use liger_sql::{SqlState, Value};
use support::{account, accounts, pod};
use watched::Watched;

/// Decoding happens behind the partition's latch, when a row is given: what is wrong with a row that was
/// fetched with others says nothing of these.
#[test]
fn a_row_is_decoded_when_it_is_given() {
    let (_, mut hosts) = pod(1);
    let host = &mut hosts[0];
    let table = host.run(|tx, working| accounts(working, tx, "accounts")).oid;
    let numbers = liger_sql::storage::numbers::Numbers::default();
    host.run(|tx, working| {
        let rows = working.catalog().rows(table)?;
        (0..6).try_for_each(|id| rows.insert(tx, &numbers, &account(id, "o", 1), &PlainColumns).map(drop))
    });
    host.run(|tx, working| {
        let rows = working.catalog().rows(table)?;
        let mut tx = Watched::new(tx);
        tx.damaged = Some(rows.key_of(&tx, &[&Value::Int4(2)])?);
        let mut scan = rows.scan(&tx, &Range::default())?;
        for id in [0, 1] {
            let row = scan.next(&mut tx, &rows)?.expect("it is there");
            assert_eq!(row.values[0].as_i64(), Some(id));
        }
        let error = scan.next(&mut tx, &rows).expect_err("the third one is damaged");
        assert_eq!(error.state, SqlState::DATA_CORRUPTED);
        assert_eq!(scan.next(&mut tx, &rows)?.expect("it is there").values[0].as_i64(), Some(3));
        assert_eq!(scan.visited(), 6, "they were fetched together");
        Ok(())
    });
}

/// A row that is to be changed is looked up once to be locked and once to be changed, also where an index
/// leads to it; it is decoded once, when it is locked, and what is written is the column that is set.
#[test]
fn a_change_costs_two_lookups_and_the_bytes_of_its_column() {
    let (_, mut hosts) = pod(1);
    let host = &mut hosts[0];
    let table = host.run(|tx, working| accounts(working, tx, "accounts")).oid;
    let columns = vec![IndexColumn::of(1)];
    let index = NewIndex { name: "by_owner".to_owned(), table, columns, ..NewIndex::default() };
    let index = host.run(|tx, working| working.create_index(tx, index.clone())).oid;
    let numbers = liger_sql::storage::numbers::Numbers::default();
    host.run(|tx, working| {
        let rows = working.catalog().rows(table)?;
        (0..3).try_for_each(|id| rows.insert(tx, &numbers, &account(id, "o", 1), &PlainColumns).map(drop))
    });
    for index in [None, Some(index)] {
        host.run(|tx, working| {
            let rows = working.catalog().rows(table)?;
            let mut tx = Watched::new(tx);
            tx.damaged = Some(rows.key_of(&tx, &[&Value::Int4(1)])?);
            let mut scan = rows.scan(&tx, &Range { index, hold: Hold::Change, ..Range::default() })?;
            let mut found = Vec::new();
            while let Some(row) = scan.next(&mut tx, &rows)? {
                found.push(row);
            }
            assert_eq!((found.len(), tx.lookups), (3, 3));
            let more = if index.is_some() { 3 << 40 } else { 2 };
            for row in &found {
                let new = account(row.values[0].as_i64().expect("a number") as i32, "o", more);
                rows.update(&mut tx, &numbers, &RowChange::of(row, &new, &[2]), &PlainColumns)?;
            }
            assert_eq!(tx.lookups, 6, "no entry of an index is looked at");
            let lens: Vec<usize> = tx.put.iter().map(|(_, len)| *len).collect();
            assert_eq!(lens, if index.is_some() { [6; 3] } else { [1; 3] });
            Ok(())
        });
    }
}

/// Rows first, each as it comes; then the entries of each index, in the order of its keys, wherever their
/// rows are. What is removed is looked up once more than it was when it was read.
#[test]
fn entries_of_many_rows_are_put_and_removed_in_the_order_of_their_index() {
    let (_, mut hosts) = pod(1);
    let host = &mut hosts[0];
    let table = host.run(|tx, working| accounts(working, tx, "accounts")).oid;
    let index = |name: &str, column: u16| {
        let columns = vec![IndexColumn::of(column)];
        NewIndex { name: name.to_owned(), table, columns, ..NewIndex::default() }
    };
    let by_owner = host.run(|tx, working| working.create_index(tx, index("by_owner", 1))).oid;
    let numbers = liger_sql::storage::numbers::Numbers::default();
    let values = |id: i32| account(id, &format!("{:04}", 37 * id % 500), i64::from(91 * id % 500));
    let is_in_order = |changed: &[(TableId, Key)]| {
        let parts: Vec<_> = changed.chunks(500).collect();
        for part in &parts[1..] {
            assert!(
                part.is_sorted() && part[0].1.words()[0] >> 32 == part[499].1.words()[0] >> 32,
                "{part:?}"
            );
        }
        parts.len()
    };
    host.run(|tx, working| {
        let rows = working.catalog().rows(table)?;
        let mut tx = Watched::new(tx);
        rows.insert_all(&at_once(&mut tx), &numbers, (0..500).map(values), &PlainColumns)?;
        assert_eq!(is_in_order(&tx.changed), 2);
        Ok(())
    });
    let by_balance = host.run(|tx, working| {
        let made = working.create_index(tx, index("by_balance", 2))?.oid;
        let rows = working.catalog().rows(table)?;
        let mut tx = Watched::new(tx);
        assert_eq!(rows.fill_index(&at_once(&mut tx), made, &PlainColumns)?, 500);
        assert!(tx.changed.len() == 500 && tx.changed.is_sorted());
        Ok(made)
    });
    host.run(|tx, working| {
        let rows = working.catalog().rows(table)?;
        for index in [by_owner, by_balance] {
            let all = Range { index: Some(index), ..Range::default() };
            let mut scan = rows.scan(tx, &all)?;
            let mut found = 0;
            while scan.next(tx, &rows)?.is_some() {
                found += 1;
            }
            assert_eq!(found, 500, "every row has its entry");
        }
        let mut scan = rows.scan(tx, &Range { hold: Hold::Change, ..Range::default() })?;
        let mut found = Vec::new();
        while let Some(row) = scan.next(tx, &rows)? {
            found.push(row);
        }
        let mut tx = Watched::new(tx);
        assert_eq!(rows.delete(&at_once(&mut tx), &found, &PlainColumns)?, [true; 500]);
        assert_eq!(is_in_order(&tx.changed), 3);
        assert_eq!(tx.lookups, 500 * 4, "each row is looked at for what lies outside, and removed");
        Ok(())
    });
    host.run(|tx, working| {
        assert_eq!(check::problems(tx, working.catalog(), &PlainColumns)?, Vec::<String>::new());
        Ok(())
    });
}
